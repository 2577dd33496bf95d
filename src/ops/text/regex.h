/* Regular expressions in RE2 syntax, matched in linear time (a set of states per letter, no
 * backtracking). Answers only what RegexFullMatch needs: does the whole string match?
 *
 * Understood: literals, . [classes] with ranges, [:posix:] names and escapes, \d \w \s \D \W \S,
 * groups (also named and non-capturing), | * + ? {n,m} and their lazy forms, ^ $ \A \z \b \B,
 * flags (?ims-U), \Q..\E, octal, \xHH and \x{H..}. Not: \pN classes and \C; they are
 * PL_E_UNSUPPORTED.
 *
 * Written by hand because the pattern is untrusted: RE2 itself is C++ with an ABI that changes, and
 * PCRE2 and the C library have no linear bound and another syntax. */
#ifndef PL_REGEX_H
#define PL_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct pl_regex pl_regex;

/* Allocated in the arena, with the memory for matching. */
pl_status pl_regex_compile(pl_arena *arena, const char *pattern, size_t n, pl_regex **out,
                           pl_err *err);
/* Not thread-safe: matching writes to the regex. */
bool pl_regex_full_match(pl_regex *regex, const char *s, size_t n);

#endif
