/* Reading JSON (RFC 8259), strictly: UTF-8 checked, no duplicate keys, no lone surrogates, no
 * comments, nothing after the value, nesting at most PL_JSON_READ_DEPTH_MAX.
 *
 * The result lives in the caller's arena. Children of arrays and objects are linked in the order of
 * the text; strings are NUL-terminated, and n_string tells when one holds a NUL itself. */
#ifndef PL_JSON_READ_H
#define PL_JSON_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum { PL_JSON_READ_DEPTH_MAX = 64 };

typedef enum pl_json_kind {
    PL_JSON_NULL = 0,
    PL_JSON_BOOL,
    PL_JSON_NUMBER,
    PL_JSON_STRING,
    PL_JSON_ARRAY,
    PL_JSON_OBJECT
} pl_json_kind;

typedef struct pl_json_value {
    pl_json_kind kind;
    bool boolean;       /* BOOL */
    bool is_integer;    /* NUMBER: written without fraction and exponent, and fits in int64 */
    int64_t integer;    /* NUMBER, when is_integer */
    double number;      /* NUMBER */
    const char *string; /* STRING */
    size_t n_string;
    const char *key; /* inside an object */
    size_t n_key;
    struct pl_json_value *first, *next; /* children; next sibling */
    size_t n_items;                     /* ARRAY, OBJECT */
} pl_json_value;

pl_status pl_json_read(const char *text, size_t n, pl_arena *arena, const pl_json_value **out,
                       pl_err *err);
/* The value of a key, or NULL; NULL also when `object` is NULL or not an object. Linear. */
const pl_json_value *pl_json_find(const pl_json_value *object, const char *key);
/* A number, or one of the strings "inf", "-inf", "nan" that plumb writes for what JSON lacks. False
 * when it is something else or NULL. */
bool pl_json_number(const pl_json_value *value, double *out);
const char *pl_json_kind_name(pl_json_kind kind); /* "object", "string", … */

#endif
