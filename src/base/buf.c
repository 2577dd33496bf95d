/* The growing byte buffer. Room for the NUL is always part of the capacity. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/utf8.h"

enum { CAPACITY_MIN = 64 };

void pl_buf_release(pl_buf *buf) {
    pl_free(buf->data);
    *buf = (pl_buf)PL_BUF_INIT;
}

void pl_buf_reset(pl_buf *buf) {
    buf->n_bytes = 0;
    buf->failed = false;
    if (buf->data != NULL) buf->data[0] = '\0';
}

bool pl_buf_ok(const pl_buf *buf) {
    return !buf->failed;
}

const char *pl_buf_str(const pl_buf *buf) {
    return buf->data == NULL ? "" : buf->data;
}

/* Makes room for n more bytes and a NUL. */
static bool reserve(pl_buf *buf, size_t n) {
    size_t need;
    if (buf->failed) return false;
    if (pl_size_add(buf->n_bytes, n, &need) && pl_size_add(need, 1, &need)) {
        if (need <= buf->capacity) return true;
        size_t capacity = buf->capacity < CAPACITY_MIN ? CAPACITY_MIN : buf->capacity;
        while (capacity < need)
            capacity = capacity > SIZE_MAX / 2 ? need : capacity * 2;
        char *data = pl_realloc(buf->data, capacity);
        if (data != NULL) {
            buf->data = data;
            buf->capacity = capacity;
            return true;
        }
    }
    buf->failed = true;
    return false;
}

char *pl_buf_take(pl_buf *buf) {
    char *data = NULL;
    if (reserve(buf, 0)) {
        data = buf->data;
        data[buf->n_bytes] = '\0';
        *buf = (pl_buf)PL_BUF_INIT;
    }
    pl_buf_release(buf);
    return data;
}

void pl_buf_append(pl_buf *buf, const void *data, size_t n_bytes) {
    if (!reserve(buf, n_bytes)) return;
    if (n_bytes > 0) memcpy(buf->data + buf->n_bytes, data, n_bytes);
    buf->n_bytes += n_bytes;
    buf->data[buf->n_bytes] = '\0';
}

void pl_buf_puts(pl_buf *buf, const char *s) {
    pl_buf_append(buf, s, strlen(s));
}

void pl_buf_putc(pl_buf *buf, char c) {
    pl_buf_append(buf, &c, 1);
}

__attribute__((format(printf, 2, 0))) static void put_format(pl_buf *buf, const char *format,
                                                             va_list args) {
    if (!reserve(buf, 0)) return;
    va_list again;
    va_copy(again, args);
    const size_t room = buf->capacity - buf->n_bytes;
    const int n = vsnprintf(buf->data + buf->n_bytes, room, format, args);
    if (n < 0) {
        buf->failed = true;
    } else if ((size_t)n >= room) {
        if (reserve(buf, (size_t)n)) {
            vsnprintf(buf->data + buf->n_bytes, (size_t)n + 1, format, again);
            buf->n_bytes += (size_t)n;
        }
    } else {
        buf->n_bytes += (size_t)n;
    }
    if (buf->failed) buf->data[buf->n_bytes] = '\0'; /* drop the part that fitted */
    va_end(again);
}

void pl_buf_printf(pl_buf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    put_format(buf, format, args);
    va_end(args);
}

void pl_buf_clean_from(pl_buf *out, size_t at) {
    if (!pl_buf_ok(out) || out->n_bytes <= at) return;
    pl_utf8_clean(out->data + at);
    out->n_bytes = at + strlen(out->data + at);
}

void pl_buf_put_clean(pl_buf *out, const char *s) {
    const size_t at = out->n_bytes;
    pl_buf_puts(out, s);
    pl_buf_clean_from(out, at);
}
