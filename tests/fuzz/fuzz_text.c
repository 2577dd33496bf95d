/* Fuzz target: any bytes as text form. What parses must print, read back and hash the same. */
#include <stdlib.h>

#include "graph/edit.h"
#include "graph/text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    pl_model *first = NULL, *second = NULL;
    pl_buf text = PL_BUF_INIT;
    pl_hash128 a, b;
    pl_err err = PL_ERR_INIT;
    if (pl_model_parse((const char *)data, n, "fuzz", &first, &err) != PL_OK) return 0;
    /* Functions may import other opsets than the model; the text form has no place for that. */
    const pl_status st = pl_model_print(first, 0, &text, &err);
    if (st == PL_OK) {
        if (pl_model_parse(pl_buf_str(&text), text.n_bytes, "again", &second, &err) != PL_OK ||
            pl_model_hash(first, &a, &err) != PL_OK || pl_model_hash(second, &b, &err) != PL_OK ||
            a.low != b.low || a.high != b.high)
            abort();
    } else if (st != PL_E_UNSUPPORTED && st != PL_E_INVALID) {
        abort();
    }
    pl_buf_release(&text);
    pl_model_free(first);
    pl_model_free(second);
    return 0;
}
