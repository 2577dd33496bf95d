/* Names of the compiler's passes. */
#include "backends/jit/jit_passes.h"

#include <string.h>

#include "base/nearest.h"

const char *const jit_pass_names[] = {
#define X(NAME, text) text,
    JIT_PASS_MAP(X)
#undef X
        NULL
};

int jit_pass_find(const char *name, size_t n) {
    for (int i = 0; i < JIT_PASS_COUNT; i++)
        if (strlen(jit_pass_names[i]) == n && strncmp(jit_pass_names[i], name, n) == 0) return i;
    return -1;
}

static pl_status fail_name(const char *name, size_t n, pl_err *err) {
    const pl_name_list list = { jit_pass_names, JIT_PASS_COUNT };
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, name, n, pl_name_at_list, &list);
    const pl_status st = pl_fail(err, PL_E_USAGE, "jit has no pass '%.*s'%s", n < 60 ? (int)n : 60,
                                 name, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

pl_status jit_passes_parse(const char *text, unsigned *off, pl_err *err) {
    *off = 0;
    for (const char *at = text; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, "+");
        const int pass = jit_pass_find(at, n);
        if (pass < 0) return fail_name(at, n, err);
        *off |= 1u << pass;
        at += n + (at[n] == '+');
    }
    return PL_OK;
}
