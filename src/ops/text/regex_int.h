/* Private to the regex files: the syntax tree. */
#ifndef PL_REGEX_INT_H
#define PL_REGEX_INT_H

#include <stdint.h>

#include "ops/text/letter_case.h"
#include "ops/text/regex.h"

enum {
    REGEX_REPEAT_MAX = 1000,   /* as in RE2 */
    REGEX_DEPTH_MAX = 500,     /* nesting of groups */
    REGEX_PROGRAM_MAX = 200000 /* instructions */
};

typedef struct regex_range {
    uint32_t first, last;
} regex_range;

typedef struct regex_class {
    regex_range *ranges;
    size_t n, capacity;
    bool negated, fold; /* fold: ignore letter case */
} regex_class;

typedef enum regex_kind {
    REGEX_EMPTY,
    REGEX_LETTERS, /* one letter out of a class */
    REGEX_ASSERT,  /* kind of assertion in `assertion` */
    REGEX_CONCAT,  /* left then right */
    REGEX_EITHER,  /* left or right */
    REGEX_REPEAT   /* left, min to max times; max -1 = any number */
} regex_kind;

typedef enum regex_assertion {
    REGEX_TEXT_BEGIN,
    REGEX_TEXT_END,
    REGEX_LINE_BEGIN,
    REGEX_LINE_END,
    REGEX_WORD,
    REGEX_NOT_WORD
} regex_assertion;

typedef struct regex_node {
    regex_kind kind;
    regex_assertion assertion;
    const regex_class *letters;
    struct regex_node *left, *right;
    int min, max;
} regex_node;

pl_status regex_parse(pl_arena *arena, const char *pattern, size_t n, regex_node **out,
                      pl_err *err);

#endif
