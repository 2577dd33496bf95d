/* Fuzz target: texts of the command line and of requests: specs of backends, what the page may ask
 * for, layouts applied to two small tensors. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backends/spec.h"
#include "pair/layout.h"
#include "view/server_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_layout(const char *text) {
    static const int64_t dims[] = { 2, 3, 4, 5 }, swapped[] = { 2, 4, 5, 3 };
    pl_err err = PL_ERR_INIT;
    pl_tensor *a = NULL, *b = NULL, *x = NULL, *y = NULL;
    if (pl_tensor_new(PL_F32, 4, dims, &a, &err) == PL_OK &&
        pl_tensor_new(PL_F32, 4, swapped, &b, &err) == PL_OK) {
        memset(a->data, 0, pl_tensor_bytes(a));
        memset(b->data, 0, pl_tensor_bytes(b));
        (void)pl_layout_apply(text, a, b, &x, &y, &err);
    }
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const plumb_option_def defs[] = { { .key = "opt" },
                                             { .key = "threads" },
                                             { .key = "" } };
    static const plumb_option_def any[] = { { .key = "*" } };
    pl_err err = PL_ERR_INIT;
    pl_spec spec = { NULL, 0, NULL };
    size_t n = 0;
    char *text = malloc(size + 1);
    if (text == NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    (void)pl_spec_name(text, &n);
    if (n > strlen(text)) __builtin_trap();
    if (pl_spec_parse(text, "fuzz", defs, 3, &spec, &err) == PL_OK)
        (void)pl_option_int(spec.options, spec.n_options, "threads", 1);
    pl_spec_release(&spec);
    if (pl_spec_parse(text, "fuzz", any, 1, &spec, &err) == PL_OK)
        (void)pl_spec_check(spec.options, spec.n_options, "fuzz", defs, 3, &err);
    pl_spec_release(&spec);
    (void)pl_job_check_spec(text, &err);
    try_layout(text);
    free(text);
    return 0;
}
