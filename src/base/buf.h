/* A growing byte buffer. Sticky: the first failure is remembered, later calls do nothing, and one
 * check at the end (pl_buf_ok) tells. Always NUL-terminated, so `data` is a C string. */
#ifndef PL_BUF_H
#define PL_BUF_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pl_buf {
    char *data; /* never NULL after the first append; see pl_buf_str */
    size_t n_bytes;
    size_t capacity;
    bool failed;
} pl_buf;

#define PL_BUF_INIT                                                                                \
    { NULL, 0, 0, false }

void pl_buf_release(pl_buf *buf);
void pl_buf_reset(pl_buf *buf); /* empty, memory kept, failure forgotten */
bool pl_buf_ok(const pl_buf *buf);
const char *pl_buf_str(const pl_buf *buf); /* "" when empty */
char *pl_buf_take(pl_buf *buf);            /* caller frees with pl_free; NULL on failure */

void pl_buf_append(pl_buf *buf, const void *data, size_t n_bytes);
void pl_buf_puts(pl_buf *buf, const char *s);
void pl_buf_putc(pl_buf *buf, char c);
void pl_buf_printf(pl_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Text from a file, safe for one line: control characters and invalid UTF-8 become '?'. */
void pl_buf_put_clean(pl_buf *out, const char *s);
void pl_buf_clean_from(pl_buf *out, size_t at); /* the same for everything since `at` */

#endif
