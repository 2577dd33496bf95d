/* Untrusted UTF-8: finds valid sequences, and makes text safe for one line of a terminal. Names in
 * a model are arbitrary bytes; messages, the progress bar and JSON all need this. */
#ifndef PL_UTF8_H
#define PL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length (1..4) of the valid sequence at the start of the `n` bytes at `s`; 0 when it is invalid,
 * cut off or n is 0. Overlong forms, surrogates and values above U+10FFFF are invalid. */
size_t pl_utf8_step(const char *s, size_t n);

/* Encodes a code point up to U+10FFFF; returns its length. */
size_t pl_utf8_put(uint32_t c, char out[4]);

/* Whether a valid sequence would move the cursor, end the line or reorder what follows: C0, DEL,
 * C1, line and paragraph separators, bidirectional overrides. */
bool pl_utf8_is_control(const char *s, size_t length);

/* In place: every invalid byte and every control character (C0, DEL, C1, line and paragraph
 * separators, bidirectional overrides) becomes one '?'. Never gets longer. */
void pl_utf8_clean(char *s);

/* The greatest length <= max at which the string `s` of `n` bytes can be cut without splitting a
 * sequence. */
size_t pl_utf8_cut(const char *s, size_t n, size_t max);

#endif
