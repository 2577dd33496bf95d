/* Fuzz target: PyTorch's files, that is zip with a pickle inside. The bytes are read as an archive,
 * and as the pickle of one: a mutated archive rarely gets past its checksums. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "tensor/file/pt.h"
#include "tensor/file/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pl_status drop_take(void *ctx, const char *name, pl_tensor *t, pl_err *err) {
    (void)err;
    *(size_t *)ctx += pl_tensor_bytes(t) + (name[0] != '\0');
    pl_tensor_unref(t);
    return PL_OK;
}

static void put16(pl_buf *b, unsigned v) {
    pl_buf_putc(b, (char)(v & 255));
    pl_buf_putc(b, (char)(v >> 8 & 255));
}

static void put32(pl_buf *b, uint32_t v) {
    put16(b, v & 0xFFFF);
    put16(b, v >> 16);
}

/* One stored entry; its line of the directory goes to `directory`. */
static void put_entry(pl_buf *out, pl_buf *directory, const char *name, const void *data,
                      size_t n) {
    const uint32_t crc = pl_crc32(0, data, n), at = (uint32_t)out->n_bytes;
    for (int central = 0; central < 2; central++) {
        pl_buf *b = central ? directory : out;
        pl_buf_append(b, central ? "PK\1\2" : "PK\3\4", 4);
        if (central) put16(b, 20);
        put16(b, 20);
        put16(b, 0);
        put16(b, 0);
        put32(b, 0);
        put32(b, crc);
        put32(b, (uint32_t)n);
        put32(b, (uint32_t)n);
        put16(b, (unsigned)strlen(name));
        put16(b, 0);
        if (central) {
            put16(b, 0);
            put32(b, 0);
            put32(b, 0);
            put32(b, at);
        }
        pl_buf_puts(b, name);
    }
    pl_buf_append(out, data, n);
}

static void read_as_pickle(const uint8_t *data, size_t size) {
    static const uint8_t storage[64] = { 1, 2, 3 };
    pl_buf out = PL_BUF_INIT, directory = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    size_t n = 0;
    put_entry(&out, &directory, "x/data.pkl", data, size);
    put_entry(&out, &directory, "x/data/0", storage, sizeof storage);
    put_entry(&out, &directory, "x/data/1", storage, 8);
    const uint32_t at = (uint32_t)out.n_bytes;
    pl_buf_append(&out, directory.data, directory.n_bytes);
    pl_buf_append(&out, "PK\5\6\0\0\0\0\3\0\3\0", 12);
    put32(&out, (uint32_t)directory.n_bytes);
    put32(&out, at);
    put16(&out, 0);
    if (pl_buf_ok(&out))
        (void)pl_pt_read((pl_bytes){ (const uint8_t *)out.data, out.n_bytes }, NULL, drop_take, &n,
                         &err);
    pl_buf_release(&out);
    pl_buf_release(&directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    size_t n = 0;
    const pl_bytes bytes = { data, size };
    if (pl_pt_sniff(bytes)) (void)pl_pt_read(bytes, NULL, drop_take, &n, &err);
    if (size > 0 && size < 65536) read_as_pickle(data, size);
    return 0;
}
