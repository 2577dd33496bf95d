/* plumb_test: run a suite and describe it. */
#include <string.h>

#include "base/json.h"
#include "flows/api.h"
#include "flows/test_suite.h"

static const char *const status_names[] = { "pass", "fail", "skip" };

static void put_json(const pl_suite_result *r, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "passed", (int64_t)r->n_passed);
    pl_json_put_int(&j, "failed", (int64_t)r->n_failed);
    pl_json_put_int(&j, "skipped", (int64_t)r->n_skipped);
    pl_json_key(&j, "cases");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < r->n_cases; i++) {
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "path", r->cases[i].path);
        pl_json_put_string(&j, "status", status_names[r->cases[i].status]);
        pl_json_put_string(&j, "reason", r->cases[i].reason);
        pl_json_put_double(&j, "seconds", r->cases[i].seconds);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

static void put_text(const pl_suite_result *r, bool verbose, pl_buf *out) {
    for (size_t i = 0; i < r->n_cases; i++) {
        const pl_case_result *c = &r->cases[i];
        if (c->status == PL_CASE_PASS && c->reason[0] == '\0' && !verbose) continue;
        pl_buf_printf(out, "%s %s%s%s\n", status_names[c->status], c->path,
                      c->reason[0] != '\0' ? ": " : "", c->reason);
    }
    pl_buf_printf(out, "%zu passed, %zu failed, %zu skipped\n", r->n_passed, r->n_failed,
                  r->n_skipped);
}

plumb_status plumb_test(const char *const *dirs, size_t n_dirs, const plumb_test_options *options,
                        plumb_test_counts *counts, char **text, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    pl_suite_result result = { 0 };
    pl_buf out = PL_BUF_INIT;
    pl_pool *pool = pl_pool_new(options->threads);
    pl_backend *backend = NULL;
    pl_status st = pool == NULL ? pl_fail_memory(&err, 1) : PL_OK;
    if (st == PL_OK && options->backend != NULL && strcmp(options->backend, "eager") != 0) {
        const pl_backend_options guarded = { .guarded = true,
                                             .timeout_seconds = options->timeout,
                                             .memory_limit = options->memory_limit };
        st = options->fp64 ? pl_fail(&err, PL_E_USAGE, "--fp64 is of the eager backend")
                           : pl_backend_open(options->backend, &guarded, &backend, &err);
    }
    pl_progress progress = { NULL, NULL };
    if (options->progress != NULL) {
        progress = (pl_progress){ options->progress->update, options->progress->ctx };
    }
    const pl_suite_options suite = { .tolerance = { options->rtol, options->atol },
                                     .fp64 = options->fp64 != 0,
                                     .filter = options->filter,
                                     .pool = pool,
                                     .backend = backend,
                                     .progress = options->progress == NULL ? NULL : &progress };
    if (st == PL_OK) st = pl_suite_run(dirs, n_dirs, &suite, &result, &err);
    if (st == PL_OK) {
        if (options->format == PLUMB_JSON) {
            put_json(&result, &out);
        } else {
            put_text(&result, options->verbose != 0, &out);
        }
        for (size_t i = 0; i < result.n_cases && options->failed != NULL; i++) {
            if (result.cases[i].status != PL_CASE_FAIL) continue;
            options->failed(options->failed_ctx, result.cases[i].path, result.cases[i].reason);
        }
        *counts = (plumb_test_counts){ result.n_passed, result.n_failed, result.n_skipped };
        st = pl_api_text_take(&out, text, &err);
    }
    pl_suite_result_release(&result);
    pl_backend_close(backend);
    pl_pool_free(pool);
    return pl_api_return(st, &err, error);
}
