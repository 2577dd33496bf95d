/* plumb_test: a suite behind plumb.h, and its report. */
#include <string.h>

#include "base/alloc.h"
#include "flows/api/session_api.h"
#include "flows/check/test_suite.h"

struct plumb_test_report {
    pl_suite_result result;
};

static pl_status run_suite(const char *const *dirs, size_t n_dirs, const plumb_test_options *o,
                           pl_suite_result *result, pl_err *err) {
    pl_pool *pool = pl_pool_new(o->threads);
    pl_backend *backend = NULL;
    pl_status st = pool == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK && !pl_backend_is_interpreter(o->backend)) {
        pl_backend_options opening =
            pl_backend_options_for(o->backend, o->timeout, o->memory_limit);
        opening.progress = o->progress;
        opening.sandbox = o->sandbox;
        st = o->fp64 ? pl_fail(err, PL_E_USAGE, "fp64 requires the eager backend")
                     : pl_backend_open(o->backend, &opening, &backend, err);
    }
    const pl_suite_options suite = { .tolerance = { o->rtol, o->atol },
                                     .fp64 = o->fp64 != 0,
                                     .filter = o->filter,
                                     .pool = pool,
                                     .backend = backend,
                                     .progress = o->progress };
    if (st == PL_OK) st = pl_suite_run(dirs, n_dirs, &suite, result, err);
    pl_backend_close(backend);
    pl_pool_free(pool);
    return st;
}

plumb_status plumb_test(const char *const *dirs, size_t n_dirs, const plumb_test_options *options,
                        plumb_test_report **out, plumb_error *err) {
    plumb_test_options o;
    pl_watch watch;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(dirs);
    PL_TRY(pl_list_check("dirs", dirs, n_dirs, err));
    PL_TRY(pl_options_read(PLUMB_OPTIONS_TEST, options, &o, err));
    o.progress = pl_watch_init(&watch, o.progress);
    plumb_test_report *report = pl_calloc(1, sizeof(*report));
    if (report == NULL) return pl_fail_memory(err, sizeof(*report));
    const pl_status st = pl_api_settle(run_suite(dirs, n_dirs, &o, &report->result, err), err);
    if (st == PL_OK) {
        *out = report;
    } else {
        plumb_test_report_free(report);
    }
    return st;
}

void plumb_test_report_free(plumb_test_report *report) {
    if (report == NULL) return;
    pl_suite_result_release(&report->result);
    pl_free(report);
}

size_t plumb_test_report_passed(const plumb_test_report *report) {
    return report == NULL ? 0 : report->result.n_passed;
}

size_t plumb_test_report_failed(const plumb_test_report *report) {
    return report == NULL ? 0 : report->result.n_failed;
}

size_t plumb_test_report_skipped(const plumb_test_report *report) {
    return report == NULL ? 0 : report->result.n_skipped;
}

size_t plumb_test_report_cases(const plumb_test_report *report) {
    return report == NULL ? 0 : report->result.n_cases;
}

int plumb_test_report_case(const plumb_test_report *report, size_t i, plumb_test_case *out) {
    if (i >= plumb_test_report_cases(report)) return pl_struct_fill(out, NULL, 0);
    const pl_case_result *c = &report->result.cases[i];
    const plumb_test_case x = { .path = c->path,
                                .status = pl_case_status_name(c->status),
                                .reason = c->reason,
                                .seconds = c->seconds };
    return pl_struct_fill(out, &x, sizeof(x));
}

plumb_status plumb_test_report_write(const plumb_test_report *report,
                                     const plumb_write_options *options, char **text,
                                     plumb_error *err) {
    plumb_write_options own;
    pl_buf out = PL_BUF_INIT;
    bool json = false;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(report);
    PL_TRY(pl_write_is_json(options, &json, &own, err));
    if (json) {
        pl_suite_put_json(&report->result, &out);
    } else {
        pl_suite_put_text(&report->result, own.verbose != 0, &out);
    }
    return pl_api_text_take(&out, text, err);
}
