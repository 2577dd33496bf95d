/* Plurals and sizes. */
#include "base/count.h"

#include <inttypes.h>
#include <string.h>

void pl_buf_put_count(pl_buf *buf, uint64_t n, const char *noun) {
    const size_t length = strlen(noun);
    const bool in_y = n != 1 && length > 1 && noun[length - 1] == 'y' &&
                      strchr("aeiou", noun[length - 2]) == NULL;
    pl_buf_printf(buf, "%" PRIu64 " %.*s%s", n, (int)(length - in_y), noun,
                  in_y ? "ies" : pl_plural(n));
}

void pl_buf_put_size(pl_buf *buf, uint64_t n_bytes) {
    static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
    double size = (double)n_bytes / 1e3;
    size_t u = 0;
    if (n_bytes < 1000) {
        pl_buf_put_count(buf, n_bytes, "byte");
        return;
    }
    for (; size >= 999.5 && u + 1 < sizeof(units) / sizeof(units[0]); u++)
        size /= 1e3;
    pl_buf_printf(buf, "%.*f %s", size < 9.95 ? 1 : 0, size, units[u]);
}
