/* Times a model on one backend in this process: no guard, no files. bench/jit/run.py calls it.
 * usage: bench_backend MODEL SPEC ROUNDS [NAME=FILE.npy …]; prints compile ms, best and median ms.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "flows/inputs.h"
#include "onnx/onnx.h"
#include "ops/op.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int fail(const pl_err *err) {
    fprintf(stderr, "bench_backend: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    if (argc < 4) return 2;
    pl_alloc_keep_freed(); /* as plumb itself, the guard and Python do */
    const int rounds = atoi(argv[3]);
    if (pl_model_read(argv[1], &model, &err) != PL_OK) return fail(&err);
    pl_ops_resolve(model, NULL);
    pl_datum **in = pl_calloc(model->graph->n_inputs + 1, sizeof(*in));
    pl_datum **out = pl_calloc(model->graph->n_outputs + 1, sizeof(*out));
    double *ms = pl_calloc((size_t)rounds + 1, sizeof(*ms));
    const plumb_inputs source = { .files = (const char *const *)argv + 4,
                                  .n_files = (size_t)argc - 4 };
    if (pl_inputs_make(model, &source, in, &err) != PL_OK) return fail(&err);
    if (pl_backend_open(argv[2], NULL, &backend, &err) != PL_OK) return fail(&err);
    const double start = now();
    const pl_compile_options options = { .file = argv[1] };
    if (pl_program_new(backend, model, &options, &program, &err) != PL_OK) return fail(&err);
    if (pl_program_run(program, in, out, &err) != PL_OK) return fail(&err);
    const double compiled = now() - start;
    for (int i = 0; i < rounds; i++) {
        for (size_t k = 0; k < model->graph->n_outputs; k++) {
            pl_datum_unref(out[k]);
            out[k] = NULL;
        }
        const double at = now();
        if (pl_program_run(program, in, out, &err) != PL_OK) return fail(&err);
        ms[i] = now() - at;
    }
    qsort(ms, (size_t)rounds, sizeof(*ms), by_value);
    printf("%.3f %.4f %.4f\n", compiled, ms[0], ms[rounds / 2]);
    pl_program_free(program);
    pl_backend_close(backend);
    return 0;
}
