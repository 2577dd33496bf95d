/* What the guard costs: a query (compile, run, free) of a small model behind plumb-guard against
 * the same in this process, with and without the sandbox, rounds in turn. bench_query SPEC...
 * prints a JSON document: medians in ms, and the CPU time behind the guard. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "backends/backend.h"
#include "graph/text/text.h"

enum { QUERIES = 60, WARM_UP = 3 };

static const char text[] =
    "(float[4,64] x) => (float[4,64] y) { a = Tanh(x) b = Add(a, x) y = Softmax(b) }";

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static pl_status query(pl_backend *backend, pl_model *model, pl_datum *const *in, double *ms,
                       pl_err *err) {
    pl_program *program = NULL;
    pl_datum *out[1] = { NULL };
    const double start = now_ms();
    pl_status st = pl_program_new(backend, model, NULL, &program, err);
    if (st == PL_OK) st = pl_program_run(program, in, out, err);
    pl_datum_unref(out[0]);
    pl_program_free(program);
    *ms = now_ms() - start;
    return st;
}

/* Of children that have ended, and theirs. */
static double children_cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    return 1e3 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* The three ways to ask, in turn. */
enum { HERE, GUARDED, UNCONFINED, WAYS };

typedef struct figures {
    double median[WAYS];
    double cpu[WAYS]; /* ms of a query behind the guard, its start included: a busy machine does not
                         change it */
} figures;

static pl_status measure(const char *spec, pl_model *model, pl_datum *const *in, figures *out,
                         pl_err *err) {
    pl_backend *backends[WAYS] = { NULL };
    double times[WAYS][QUERIES];
    pl_status st = PL_OK;
    for (int k = 0; k < WAYS && st == PL_OK; k++) {
        const pl_backend_options options = { .guarded = k != HERE,
                                             .timeout_seconds = 60,
                                             .sandbox = k == UNCONFINED ? PLUMB_SANDBOX_OFF
                                                                        : PLUMB_SANDBOX_ON };
        st = pl_backend_open(spec, &options, &backends[k], err);
    }
    for (int i = -WARM_UP; i < QUERIES && st == PL_OK; i++) {
        for (int k = 0; k < WAYS && st == PL_OK; k++)
            st = query(backends[k], model, in, &times[k][i < 0 ? 0 : i], err);
    }
    for (int k = 0; k < WAYS; k++) {
        qsort(times[k], QUERIES, sizeof(double), by_size);
        out->median[k] = times[k][QUERIES / 2];
        const double before = children_cpu_ms();
        pl_backend_close(backends[k]);
        out->cpu[k] = (children_cpu_ms() - before) / (QUERIES + WARM_UP);
    }
    return st;
}

int main(int argc, char **argv) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_tensor *x = NULL;
    pl_datum *in[1] = { NULL };
    const int64_t dims[] = { 4, 64 };
    if (pl_model_parse_graph(text, 17, &model, &err) != PL_OK ||
        pl_tensor_new_zero(PL_F32, 2, dims, &x, &err) != PL_OK ||
        pl_datum_of_tensor_take(x, &in[0], &err) != PL_OK) {
        fprintf(stderr, "bench_query: %s\n", err.message);
        return 1;
    }
    printf("{ ");
    for (int i = 1; i < argc; i++) {
        figures f = { 0 };
        if (measure(argv[i], model, in, &f, &err) != PL_OK) {
            fprintf(stderr, "bench_query: %s: %s\n", argv[i], err.message);
            return 1;
        }
        printf("%s\"%s\": { \"here_ms\": %.4f, \"guarded_ms\": %.4f, \"unconfined_ms\": %.4f, "
               "\"guarded_cpu_ms\": %.4f, \"unconfined_cpu_ms\": %.4f }",
               i > 1 ? ", " : "", argv[i], f.median[HERE], f.median[GUARDED], f.median[UNCONFINED],
               f.cpu[GUARDED], f.cpu[UNCONFINED]);
    }
    printf(" }\n");
    pl_datum_unref(in[0]);
    pl_model_free(model);
    return 0;
}
