/* Fuzz target: session.json. What is accepted is printed in every format and read again. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "report/session_print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const formats[] = { "text",  "csv",           "md", "junit", "github",
                                           "sarif", "model-explorer" };
    pl_err err = PL_ERR_INIT;
    pl_session *s = NULL, *again = NULL;
    pl_buf out = PL_BUF_INIT;
    if (pl_session_read((const char *)data, size, "fuzz", &s, &err) != PL_OK) return 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        pl_buf_reset(&out);
        (void)pl_session_print(s, &(pl_session_print_options){ .format = formats[i], .limit = 3 },
                               &out, &err);
    }
    pl_buf_reset(&out);
    pl_session_put_json(s, &out);
    if (pl_session_read(out.data, out.n_bytes, "again", &again, &err) != PL_OK) __builtin_trap();
    pl_session_free(s);
    pl_session_free(again);
    pl_buf_release(&out);
    return 0;
}
