/* Looks up and runs passes. */
#include "passes/passes.h"

#include <string.h>

#include "ops/op.h"

#define PL_PASS(x) extern const pl_pass pl_pass_##x;
#include "passes/passes.def"
#undef PL_PASS

const pl_pass *const pl_passes[] = {
#define PL_PASS(x) &pl_pass_##x,
#include "passes/passes.def"
#undef PL_PASS
    NULL,
};

const pl_pass *pl_pass_find(const char *name) {
    for (size_t i = 0; pl_passes[i] != NULL; i++)
        if (strcmp(pl_passes[i]->name, name) == 0) return pl_passes[i];
    return NULL;
}

static void put_values(const pl_pass *pass, pl_buf *out) {
    for (size_t i = 0; pass->values != NULL && pass->values[i] != NULL; i++) {
        const char *before = i == 0 ? "" : pass->values[i + 1] == NULL ? " or " : ", ";
        pl_buf_printf(out, "%s%s", before, pass->values[i]);
    }
}

static pl_status check_value(const pl_pass *pass, const char *value, pl_err *err) {
    if (pass->values == NULL && value == NULL) return PL_OK;
    for (size_t i = 0; pass->values != NULL && value != NULL && pass->values[i] != NULL; i++)
        if (strcmp(pass->values[i], value) == 0) return PL_OK;
    pl_buf allowed = PL_BUF_INIT;
    put_values(pass, &allowed);
    const char *expected = pass->values == NULL ? "no value" : pl_buf_str(&allowed);
    const pl_status st = pl_fail(err, PL_E_USAGE, "%s is '%s', expected %s", pass->name,
                                 value == NULL ? "" : value, expected);
    pl_buf_release(&allowed);
    return st;
}

pl_status pl_pass_run(const char *name, pl_pass_job *job, pl_err *err) {
    const pl_pass *pass = pl_pass_find(name);
    if (pass == NULL) return pl_fail(err, PL_E_USAGE, "pass '%s' not found", name);
    PL_TRY(check_value(pass, job->value, err));
    if (job->nodes != NULL && !pass->takes_nodes) {
        return pl_fail(err, PL_E_USAGE, "pass '%s' requires a whole model", name);
    }
    if (pass->needs == PL_PASS_RESOLVED) PL_TRY(pl_ops_resolve(job->model, err));
    return pass->run(job, err);
}

pl_status pl_pass_apply(const char *name, pl_model *model, pl_err *err) {
    pl_pass_job job = { .model = model };
    return pl_pass_run(name, &job, err);
}
