/* plumb test DIR…: run ONNX test folders. */
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/command.h"
#include "flows/test_suite.h"

extern const pl_command pl_command_test;

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
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

static void put_text(const pl_suite_result *r, bool verbose, pl_buf *out) {
    for (size_t i = 0; i < r->n_cases; i++) {
        const pl_case_result *c = &r->cases[i];
        if (c->status == PL_CASE_PASS && !verbose) continue;
        pl_buf_printf(out, "%s %s%s%s\n", status_names[c->status], c->path,
                      c->reason[0] != '\0' ? ": " : "", c->reason);
    }
    pl_buf_printf(out, "%zu passed, %zu failed, %zu skipped\n", r->n_passed, r->n_failed,
                  r->n_skipped);
}

static pl_status read_options(const pl_args *args, pl_suite_options *o, pl_err *err) {
    long long threads = 0;
    PL_TRY(pl_args_double(args, "rtol", 1e-3, &o->tolerance.rtol, err));
    PL_TRY(pl_args_double(args, "atol", 1e-7, &o->tolerance.atol, err));
    PL_TRY(pl_args_int(args, "threads", 0, 0, 4096, &threads, err));
    o->filter = pl_args_value(args, "filter");
    o->fp64 = pl_args_flag(args, "fp64");
    o->pool = pl_pool_new((int)threads);
    return o->pool == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static int run(const pl_args *args) {
    pl_err err = PL_ERR_INIT;
    pl_suite_options options = { 0 };
    pl_suite_result result = { 0 };
    pl_buf out = PL_BUF_INIT;
    pl_progress_bar *bar = pl_progress_bar_new(STDERR_FILENO);
    pl_status st = bar == NULL ? pl_fail_memory(&err, 1) : PL_OK;
    if (st != PL_OK) goto done;
    const pl_progress progress = pl_progress_bar_callback(bar);
    options.progress = &progress;
    PL_TRY_GOTO(done, st, read_options(args, &options, &err));
    PL_TRY_GOTO(done, st,
                pl_suite_run(args->positional, args->n_positional, &options, &result, &err));
    if (pl_args_flag(args, "json")) {
        put_json(&result, &out);
    } else {
        put_text(&result, pl_args_flag(args, "verbose"), &out);
    }
    st = pl_buf_ok(&out) ? PL_OK : pl_fail_memory(&err, out.n_bytes);
done:
    pl_progress_bar_clear(bar);
    pl_progress_bar_free(bar);
    if (st == PL_OK) st = pl_print(pl_buf_str(&out), out.n_bytes, &err);
    const int code = st != PL_OK ? pl_command_fail(args, &err) : result.n_failed > 0 ? 1 : 0;
    pl_buf_release(&out);
    pl_suite_result_release(&result);
    pl_pool_free(options.pool);
    return code;
}

static const pl_option options[] = {
    { 0, "rtol", "X", "relative tolerance (default 1e-3)" },
    { 0, "atol", "X", "absolute tolerance (default 1e-7)" },
    { 'k', "filter", "TEXT", "only cases whose path holds TEXT" },
    { 0, "fp64", NULL, "run in double precision (gold)" },
    { 0, "threads", "N", "threads of plumb's own pool (default: all)" },
    { 'v', "verbose", NULL, "list cases that pass, too" },
    { 0, "json", NULL, "one JSON document on standard output" },
    { 0, NULL, NULL, NULL },
};

const pl_command pl_command_test = {
    .name = "test",
    .usage = "DIR… [options]",
    .summary = "run ONNX test folders (model.onnx and test_data_set_*), also the light layout",
    .details = "Exit code: 0 no failure, 1 some case failed, 2 bad usage or no case found.",
    .options = options,
    .min_args = 1,
    .run = run,
};
