/* ONNX test folders: NAME/model.onnx with test_data_set_K/{input,output}_N.pb, and the `light`
 * layout (light_X.onnx beside light_X_output_0.pb, whose input is x[i] = i / n). */
#ifndef PL_TEST_SUITE_H
#define PL_TEST_SUITE_H

#include "backends/backend.h"
#include "base/buf.h"
#include "base/progress.h"
#include "base/status.h"
#include "base/threads.h"
#include "metric/allclose.h"

typedef enum pl_case_status { PL_CASE_PASS, PL_CASE_FAIL, PL_CASE_SKIP } pl_case_status;

const char *pl_case_status_name(pl_case_status status); /* "pass", "fail", "skip" */

typedef struct pl_case_result {
    char *path;
    pl_case_status status;
    char *reason; /* "" when passed, unless an erratum was applied: "erratum: …" */
    char *cpu; /* on a device: types of the operators that ran on the CPU, separated by commas; NULL
                */
    double seconds;
} pl_case_result;

typedef struct pl_suite_result {
    pl_case_result *cases;
    size_t n_cases, n_passed, n_failed, n_skipped;
    size_t capacity;
} pl_suite_result;

typedef struct pl_suite_options {
    pl_tolerance tolerance; /* 1e-3, 1e-7 as ONNX's own runner */
    bool fp64;
    const char *filter; /* only cases whose path holds this text; NULL = all */
    pl_pool *pool;
    pl_backend *backend; /* borrowed; NULL = the interpreter, in this process */
    const pl_progress *progress;
} pl_suite_options;

/* Finds and runs every case below the folders. A case that fails is a result, not an error; a
 * folder without any case is PL_E_NOT_FOUND. */
pl_status pl_suite_run(const char *const *dirs, size_t n_dirs, const pl_suite_options *options,
                       pl_suite_result *out, pl_err *err);
void pl_suite_result_release(pl_suite_result *result);

/* test_report.c */
void pl_suite_put_json(const pl_suite_result *r, pl_buf *out);
void pl_suite_put_text(const pl_suite_result *r, bool verbose, pl_buf *out);

#endif
