/* Numbers in messages: plurals, and sizes that people can read. */
#ifndef PL_COUNT_H
#define PL_COUNT_H

#include <stdint.h>

#include "base/buf.h"

/* "1 input", "2 inputs", "3 queries". */
void pl_buf_put_count(pl_buf *buf, uint64_t n, const char *noun);
/* "512 bytes", "6.2 kB", "1.3 MB". */
void pl_buf_put_size(pl_buf *buf, uint64_t n_bytes);
/* The ending of a plural, for messages that are formatted in one go. */
static inline const char *pl_plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

#endif
