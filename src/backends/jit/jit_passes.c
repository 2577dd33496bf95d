/* Names of the compiler's passes. */
#include "backends/jit/jit_passes.h"

#include <stdio.h>
#include <string.h>

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
    char names[200] = "";
    size_t at = 0;
    for (int i = 0; i < JIT_PASS_COUNT && at < sizeof(names); i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ", " : "",
                               jit_pass_names[i]);
    return pl_fail(err, PL_E_USAGE, "jit has no pass '%.*s'; available: %s", n < 60 ? (int)n : 60,
                   name, names);
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
