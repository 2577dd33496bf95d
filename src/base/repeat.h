/* One element again and again: filling memory, and large memory that costs a few megabytes. */
#ifndef PL_REPEAT_H
#define PL_REPEAT_H

#include <stddef.h>

void pl_fill(void *to, const void *element, size_t element_bytes, size_t n);

/* n elements in memory that may be written, which stays private. NULL when they are few or the
 * system refuses: allocate and fill them then. element_bytes is a power of two up to 16. */
void *pl_repeat_alloc(const void *element, size_t element_bytes, size_t n);
void pl_repeat_free(void *p, size_t n_bytes); /* NULL is fine */

#endif
