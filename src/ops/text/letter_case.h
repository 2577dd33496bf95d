/* Letters of UTF-8 text: decoding, case, white space; independent of the process locale. */
#ifndef PL_LETTER_CASE_H
#define PL_LETTER_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PL_LETTER_INVALID UINT32_MAX /* a byte that is not UTF-8 */

/* The letter at the start of n bytes; returns its length, 1 for an invalid byte, 0 at the end. */
size_t pl_letter_decode(const char *s, size_t n, uint32_t *out);
uint32_t pl_letter_lower(uint32_t letter);
uint32_t pl_letter_upper(uint32_t letter);
bool pl_letter_is_space(uint32_t letter);

#endif
