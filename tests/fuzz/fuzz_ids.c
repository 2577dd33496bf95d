/* Fuzz target: token ids as a text, as `generate --prompt` takes them. Ids that were read are read
 * the same again from what they print as. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "plumb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_again(const int64_t *ids, size_t n) {
    plumb_error err = { 0 };
    pl_buf text = PL_BUF_INIT;
    int64_t *again = NULL;
    size_t n_again = 0;
    for (size_t i = 0; i < n; i++)
        pl_buf_printf(&text, "%s%" PRId64, i > 0 ? "," : "[", ids[i]);
    pl_buf_putc(&text, ']');
    if (plumb_ids_read(pl_buf_str(&text), &again, &n_again, &err) != PLUMB_OK || n_again != n)
        abort();
    for (size_t i = 0; i < n; i++)
        if (again[i] != ids[i]) abort();
    plumb_free(again);
    pl_buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    plumb_error err = { 0 };
    int64_t *ids = NULL;
    size_t n = 0;
    pl_arena *arena = pl_arena_new();
    const char *text = pl_arena_strndup(arena, (const char *)data, size);
    if (plumb_ids_read(text, &ids, &n, &err) == PLUMB_OK) read_again(ids, n);
    plumb_free(ids);
    pl_arena_free(arena);
    return 0;
}
