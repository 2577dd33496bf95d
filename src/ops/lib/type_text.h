/* Numbers to and from text, for Cast with strings. */
#ifndef PL_TYPE_TEXT_H
#define PL_TYPE_TEXT_H

#include "ops/eval.h"

/* The element at `at` as NumPy prints it: the fewest digits that read back as the same value of the
 * type ("0.1", "1e-05", "nan"), integers plainly, bool as True and False. Terminated; returns its
 * length. */
size_t pl_element_print(pl_dtype dtype, const void *at, char *out, size_t n_out);

/* Reads a number and stores it as an element of `dtype`; false when the text is not a number.
 * Leading and trailing white space is allowed; "inf", "+INF" and "NaN" are read in any case. */
bool pl_element_parse(pl_string text, pl_dtype dtype, bool saturate, char round_mode, void *to);

#endif
