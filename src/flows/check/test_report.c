/* A suite's result as JSON and as text. */
#include "base/json.h"
#include "flows/check/test_suite.h"

static const char *const status_names[] = { "pass", "fail", "skip" };

const char *pl_case_status_name(pl_case_status status) {
    return status_names[status];
}

void pl_suite_put_json(const pl_suite_result *r, pl_buf *out) {
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
        if (r->cases[i].cpu != NULL) pl_json_put_string(&j, "cpu", r->cases[i].cpu);
        pl_json_put_double(&j, "seconds", r->cases[i].seconds);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

void pl_suite_put_text(const pl_suite_result *r, bool verbose, pl_buf *out) {
    for (size_t i = 0; i < r->n_cases; i++) {
        const pl_case_result *c = &r->cases[i];
        if (c->status == PL_CASE_PASS && c->reason[0] == '\0' && !verbose) continue;
        pl_buf_printf(out, "%s %s%s%s\n", status_names[c->status], c->path,
                      c->reason[0] != '\0' ? ": " : "", c->reason);
    }
    pl_buf_printf(out, "%zu passed, %zu failed, %zu skipped\n", r->n_passed, r->n_failed,
                  r->n_skipped);
}
