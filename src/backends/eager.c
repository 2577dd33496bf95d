/* eager: a thin vtable over the reference interpreter. The other backends are judged by it. */

#include "backends/backend_int.h"
#include "base/alloc.h"
#include "base/strmap.h"
#include "interp/interp.h"
#include "kernels/provider.h"
#include "ops/op.h"
#include "passes/backward.h"

typedef struct eager {
    bool fp64;
    const pl_provider *kernels;
    char version[64];
    int threads; /* -1: use source->threads */
} eager;

typedef struct eager_program {
    pl_model *model; /* owned when it was read from bytes */
    bool owns_model;
    pl_pool *pool;
    pl_interp *interp;
    size_t n_values, n_in_bodies;
    pl_strmap names;           /* all names -> the value; NULL if several values share the name */
    size_t n_bodies_seen;      /* values in bodies, shown in this run */
    const plumb_run_args *run; /* while it runs */
} eager_program;

static plumb_status eager_open(const plumb_host *host, const plumb_option *options,
                               size_t n_options, void **self, plumb_error *err) {
    (void)host;
    const pl_provider *by = NULL;
    const pl_status st = pl_provider_find(pl_option_value(options, n_options, "kernels"), &by, err);
    if (st != PL_OK) return st;
    eager *e = pl_calloc(1, sizeof(*e));
    if (e == NULL) return pl_fail_memory(err, sizeof(*e));
    e->kernels = by;
    pl_provider_version(by, e->version, sizeof(e->version));
    e->fp64 = pl_option_value(options, n_options, "fp64") != NULL;
    e->threads = (int)pl_option_int(options, n_options, "threads", -1);
    *self = e;
    return PLUMB_OK;
}

static void eager_close(void *self) {
    pl_free(self);
}

static const char *eager_version(void *self) {
    return ((const eager *)self)->version;
}

static int eager_supports(void *self, const char *domain, const char *op, int opset) {
    (void)self;
    const pl_op_def *def = pl_op_find(domain, op, opset);
    return def != NULL && def->eval != NULL;
}

/* A body outside any Loop or Scan runs at most once. */
static bool runs_at_most_once(const pl_graph *graph) {
    for (; graph->owner != NULL; graph = graph->parent) {
        if (pl_node_bodies(graph->owner) != PL_BODIES_BRANCHES) return false;
    }
    return true;
}

/* Shows values of the main graph and of branches of If. Values inside loops, and values in bodies
 * whose name is not unique, count as hidden. */
static pl_status show(void *ctx, const pl_node *node, const pl_value *value, const pl_datum *datum,
                      pl_err *err) {
    eager_program *p = ctx;
    (void)node;
    if (p->run == NULL || p->run->hook == NULL) return PL_OK;
    if (value->graph != p->model->graph) {
        if (!runs_at_most_once(value->graph) || pl_strmap_get(&p->names, value->name) != value) {
            return PL_OK;
        }
        p->n_bodies_seen++;
    }
    if (!pl_hook_wants(p->run->hook, value->name)) return PL_OK;
    const plumb_seen seen = { .name = value->name, .datum = (const plumb_datum *)datum };
    p->run->record->n_seen++;
    return p->run->hook->value(p->run->hook->ctx, &seen, err);
}

/* Counts values computed by nodes, and indexes all names. */
static pl_status count_values(void *ctx, pl_graph *graph, pl_err *err) {
    eager_program *p = ctx;
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *v = graph->values[i];
        void *only = pl_strmap_has(&p->names, v->name) ? NULL : v;
        if (pl_strmap_put(&p->names, v->name, only) != 0) return pl_fail_memory(err, 1);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        size_t *n = graph == p->model->graph ? &p->n_values : &p->n_in_bodies;
        for (uint32_t k = 0; k < node->n_out; k++)
            *n += node->out[k] != NULL;
        PL_TRY(pl_node_each_body(node, count_values, p, err));
    }
    return PL_OK;
}

static void eager_free(void *program) {
    eager_program *p = program;
    if (p == NULL) return;
    pl_interp_free(p->interp);
    pl_strmap_release(&p->names);
    pl_pool_free(p->pool);
    if (p->owns_model) pl_model_free(p->model);
    pl_free(p);
}

static plumb_status eager_compile(void *self, const plumb_source *source, void **program,
                                  size_t *n_hooks, plumb_error *error) {
    const eager *e = self;
    pl_err *err = error;
    pl_status st = PL_OK;
    eager_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    PL_TRY_GOTO(done, st, pl_source_model(source, &p->model, &p->owns_model, err));
    PL_TRY_GOTO(done, st, pl_lower_gradient(p->model, err));
    p->pool = pl_pool_new(e->threads >= 0 ? e->threads : source->threads);
    if (p->pool == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    const pl_interp_options options = { .pool = p->pool,
                                        .kernels = e->kernels,
                                        .fp64 = e->fp64,
                                        .seed = source->seed,
                                        .any_shape = source->any_shape != 0,
                                        .hook = show,
                                        .hook_ctx = p };
    PL_TRY_GOTO(done, st, pl_interp_new(p->model, &options, &p->interp, err));
    PL_TRY_GOTO(done, st, count_values(p, p->model->graph, err));
    *n_hooks = p->n_values;
    *program = p;
    p = NULL;
done:
    eager_free(p);
    return st;
}

static plumb_status eager_run(void *program, const plumb_run_args *args, plumb_error *err) {
    eager_program *p = program;
    p->run = args;
    p->n_bodies_seen = 0;
    if (args->hook != NULL) {
        *args->record =
            (plumb_record_info){ .n_values = p->n_values + p->n_in_bodies, .n_runs = 1 };
    }
    const pl_status st = pl_interp_run(p->interp, (pl_datum *const *)(uintptr_t)args->in,
                                       (pl_datum **)args->out, err);
    p->run = NULL;
    if (args->hook != NULL) args->record->n_hidden = p->n_in_bodies - p->n_bodies_seen;
    return st;
}

static const char *const *eager_record_modes(void *self) {
    static const char *const modes[] = { "hook", NULL };
    (void)self;
    return modes;
}

static const plumb_option_def options[] = {
    { "fp64", NULL, "compute in double precision (gold)" },
    { "threads", "N", "threads (default: all)" },
    { "kernels", PL_PROVIDER_NAMES, "kernels for products and convolutions" },
};

const plumb_backend pl_backend_eager = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .flags = PLUMB_TAKES_GRAPH | PLUMB_OTHER_TYPES | PLUMB_IN_PROCESS,
    .name = "eager",
    .summary = "the reference interpreter",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = eager_open,
    .close = eager_close,
    .version = eager_version,
    .supports = eager_supports,
    .compile = eager_compile,
    .run = eager_run,
    .record_modes = eager_record_modes,
    .free = eager_free,
};
