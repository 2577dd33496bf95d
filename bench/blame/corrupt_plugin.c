/* A backend that computes as plumb does and corrupts one value: the third way in which the
 * localisation benchmark plants faults.
 *
 *   plumb analyze MODEL --backend plugin:build/corrupt_plugin.so,node=12,kind=scale,size=1e-4
 *
 * node counts the nodes of the main graph from 0, out its outputs; value=NAME names it instead, in
 * parts of the model too. What comes after sees the corrupted value. show=3 records every third
 * value only, as a runtime that fuses would, blind none; inner: the fault is there only while the
 * value is not an output, most=N only in models of at most N outputs. It has its own copy of the
 * library inside: nothing is shared with the plumb that judges it. */
#include <math.h>
#include <plumb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "interp/replay.h"
#include "onnx/onnx.h"
#include "ops/infer.h"
#include "tensor/datum.h"

static const plumb_host *host;

typedef struct fault_row fault_row;

typedef struct engine {
    long node, out, show, most;
    bool blind, inner;
    char value[128]; /* "" = by node and out */
    double size;
    uint64_t seed;
    const fault_row *row;
} engine;

typedef struct program {
    const engine *engine;
    pl_model *model;
} program;

/* ---- kinds ---- */

typedef struct victim {
    double *x;
    int64_t n;
    int rank;
    const int64_t *dims;
    double rms, size;
    uint64_t seed;
} victim;

struct fault_row {
    const char *kind;
    void (*change)(victim *v);
};

static int64_t pick(const victim *v, int64_t n) {
    return n < 1 ? 0 : (int64_t)(pl_rng_at(v->seed, 1, 0) % (uint64_t)n);
}

static void scale(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] *= 1 + v->size;
}

static void offset(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] += v->size * v->rms;
}

static void element(victim *v) {
    v->x[pick(v, v->n)] += v->size * v->rms;
}

/* One index of the axis that most layouts have as channels. */
static void channel_do(victim *v, double times, double plus) {
    const int axis = v->rank > 1 && v->dims[1] > 1 ? 1 : v->rank - 1;
    const int64_t count = v->rank == 0 ? 1 : v->dims[axis], at = pick(v, count);
    int64_t inner = 1;
    for (int d = axis + 1; d < v->rank; d++)
        inner *= v->dims[d];
    for (int64_t i = 0; i < v->n; i++)
        if (i / inner % count == at) v->x[i] = times * v->x[i] + plus;
}

static void channel(victim *v) {
    channel_do(v, 1 + v->size, 0);
}

static void noise(victim *v) {
    for (int64_t i = 0; i < v->n; i++) {
        const double r = (double)(pl_rng_at(v->seed, 2, (uint64_t)i) >> 11) * 0x1p-53 - 0.5;
        v->x[i] += v->size * v->rms * r;
    }
}

static void round_bf16(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = (double)pl_bf16_to_f32(pl_bf16_from_f64(v->x[i]));
}

static void round_f16(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = (double)pl_f16_to_f32(pl_f16_from_f64(v->x[i]));
}

static void sign(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = -v->x[i];
}

static void zero(victim *v) { /* a block that was never written */
    const int64_t n = v->n < 4 ? v->n : v->n / 4, from = pick(v, v->n - n + 1);
    for (int64_t i = from; i < from + n; i++)
        v->x[i] = 0;
}

static void stale(victim *v) { /* a block that has what another block should have */
    const int64_t n = v->n / 4;
    const int64_t from = n + pick(v, v->n - 2 * n + 1);
    for (int64_t i = 0; i < n; i++)
        v->x[from + i] = v->x[i];
}

static void nan_one(victim *v) {
    v->x[pick(v, v->n)] = (double)NAN;
}

static void saturate(victim *v) {
    double top = 0;
    for (int64_t i = 0; i < v->n; i++)
        top = fmax(top, fabs(v->x[i]));
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = fmin(fmax(v->x[i], -0.4 * top), 0.4 * top);
}

static int64_t row_of(const victim *v) {
    for (int d = v->rank - 1; d >= 0; d--)
        if (v->dims[d] > 1) return v->dims[d];
    return 1;
}

static void shift(victim *v) {
    const int64_t row = row_of(v);
    for (int64_t at = 0; at + row <= v->n; at += row) {
        const double first = v->x[at];
        memmove(v->x + at, v->x + at + 1, (size_t)(row - 1) * sizeof(double));
        v->x[at + row - 1] = first;
    }
}

static void tail(victim *v) {
    const int64_t row = row_of(v), n = row > 8 ? row % 8 > 0 ? row % 8 : 4 : 1;
    for (int64_t i = 0; i < v->n; i++)
        if (i % row >= row - n) v->x[i] = 0.5 * v->x[i] + 0.3 * v->rms;
}

/* Two axes of sizes above one, read in the other order. */
static void transpose(victim *v) {
    int axes[2] = { -1, -1 }, n_axes = 0;
    for (int d = v->rank - 1; d >= 0 && n_axes < 2; d--)
        if (v->dims[d] > 1) axes[n_axes++] = d;
    if (n_axes < 2) return;
    double *copy = malloc((size_t)v->n * sizeof(double));
    if (copy == NULL) return;
    const int64_t rows = v->dims[axes[1]], cols = v->dims[axes[0]], block = rows * cols;
    memcpy(copy, v->x, (size_t)v->n * sizeof(double));
    for (int64_t at = 0; at + block <= v->n; at += block)
        for (int64_t i = 0; i < block; i++)
            v->x[at + i] = copy[at + i % rows * cols + i / rows];
    free(copy);
}

/* clang-format off */
static const fault_row rows[] = {
    { "scale", scale },       { "offset", offset },   { "element", element }, { "channel", channel },
    { "noise", noise },       { "bf16", round_bf16 }, { "fp16", round_f16 },  { "sign", sign },
    { "zero", zero },         { "stale", stale },     { "nan", nan_one },     { "saturate", saturate },
    { "shift", shift },       { "tail", tail },       { "transpose", transpose },
};
/* clang-format on */
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Codes do not wrap around. */
static void clamp(victim *v, pl_dtype dtype) {
    if (!pl_dtype_is_integer(dtype) || pl_dtype_bits(dtype) > 32) return;
    const bool has_sign = pl_dtype_class_of(dtype) == PL_CLASS_INT;
    const int bits = (int)pl_dtype_bits(dtype);
    const double most = ldexp(1, has_sign ? bits - 1 : bits) - 1, least = has_sign ? -most - 1 : 0;
    for (int64_t i = 0; i < v->n; i++)
        if (isfinite(v->x[i])) v->x[i] = fmin(fmax(v->x[i], least), most);
}

/* *datum is replaced. */
static pl_status corrupt(const engine *e, pl_datum **datum, pl_err *err) {
    if ((*datum)->kind != PL_TYPE_TENSOR) return PL_OK;
    const pl_tensor *t = (*datum)->tensor;
    if (t->n_elements == 0 || t->dtype == PL_STRING) return PL_OK;
    double *x = pl_malloc((size_t)t->n_elements * sizeof(*x)), sum = 0;
    pl_tensor *changed = NULL;
    pl_datum *fresh = NULL;
    if (x == NULL) return pl_fail_memory(err, (size_t)t->n_elements);
    pl_load_f64(t->dtype, t->data, x, (size_t)t->n_elements);
    for (int64_t i = 0; i < t->n_elements; i++)
        sum += x[i] * x[i];
    victim v = { .x = x,
                 .n = t->n_elements,
                 .rank = t->rank,
                 .dims = t->dims,
                 .rms = sqrt(sum / (double)t->n_elements),
                 .size = e->size,
                 .seed = e->seed };
    e->row->change(&v);
    clamp(&v, t->dtype);
    pl_status st = pl_tensor_new(t->dtype, t->rank, t->dims, &changed, err);
    if (st == PL_OK) {
        pl_store_f64(t->dtype, x, changed->data, (size_t)t->n_elements);
        st = pl_datum_of_tensor_take(changed, &fresh, err);
    }
    if (st == PL_OK) {
        pl_datum_unref(*datum);
        *datum = fresh;
    }
    pl_free(x);
    return st;
}

/* ---- between the host's data and ours ---- */

static plumb_status give(const pl_datum *d, plumb_datum **out, plumb_error *err) {
    if (d->kind != PL_TYPE_TENSOR || d->tensor->dtype == PL_STRING) {
        return host->fail(err, PLUMB_E_UNSUPPORTED, "corrupt: only tensors of numbers");
    }
    pl_tensor *dense = NULL;
    if (pl_tensor_contiguous(d->tensor, &dense, NULL) != PL_OK) {
        return host->fail(err, PLUMB_E_MEMORY, "out of memory");
    }
    const plumb_status st = host->new_tensor((plumb_dtype)dense->dtype, dense->rank, dense->dims,
                                             dense->data, pl_tensor_bytes(dense), out, err);
    pl_tensor_unref(dense);
    return st;
}

static pl_status take(const plumb_datum *d, pl_datum **out, pl_err *err) {
    const plumb_tensor *t = host->tensor(d);
    pl_tensor *own = NULL;
    if (t == NULL) return pl_fail(err, PL_E_UNSUPPORTED, "corrupt: only tensors of numbers");
    PL_TRY(pl_tensor_new((pl_dtype)host->dtype(t), host->rank(t), host->dims(t), &own, err));
    memcpy(own->data, host->data(t), host->bytes(t));
    return pl_datum_of_tensor_take(own, out, err);
}

/* ---- running ---- */

static plumb_status show(const plumb_run_args *args, const pl_value *value, const pl_datum *d,
                         plumb_error *err) {
    plumb_datum *copy = NULL;
    if (d->kind != PL_TYPE_TENSOR || d->tensor->dtype == PL_STRING) return PLUMB_OK;
    plumb_status st = give(d, &copy, err);
    const plumb_seen seen = { .name = value->name, .datum = copy };
    if (st == PLUMB_OK) st = args->hook->value(args->hook->ctx, &seen, err);
    host->unref(copy);
    args->record->n_seen++;
    return st;
}

static bool is_victim(const program *p, const pl_node *node, uint32_t k) {
    const engine *e = p->engine;
    if (e->row == NULL || (e->inner && node->out[k]->is_output)) return false;
    if (e->most > 0 && (long)p->model->graph->n_outputs > e->most) return false;
    if (e->value[0] != '\0') return strcmp(node->out[k]->name, e->value) == 0;
    return (long)node->index == e->node && (long)k == e->out;
}

static plumb_status visit(const program *p, pl_replay *r, const pl_node *node,
                          const plumb_run_args *args, pl_err *err, plumb_error *error) {
    const engine *e = p->engine;
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] == NULL) continue;
        pl_datum *d = pl_datum_ref(pl_replay_get(r, node->out[k]));
        if (is_victim(p, node, k)) {
            if (corrupt(e, &d, err) != PL_OK ||
                pl_replay_put(r, node->out[k], d, NULL, err) != PL_OK) {
                pl_datum_unref(d);
                return host->fail(error, PLUMB_E_BACKEND, "%s", err->message);
            }
        }
        plumb_status st = PLUMB_OK;
        const bool shown = e->show < 2 || (long)node->index % e->show == 0;
        if (args->hook != NULL && shown) st = show(args, node->out[k], d, error);
        pl_datum_unref(d);
        if (st != PLUMB_OK) return st;
    }
    return PLUMB_OK;
}

static plumb_status run_nodes(const program *p, pl_replay *r, const plumb_run_args *args,
                              plumb_error *error) {
    const pl_graph *graph = p->model->graph;
    pl_err err = PL_ERR_INIT;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_datum *d = NULL;
        if (args->in[i] == NULL) continue;
        pl_status st = take(args->in[i], &d, &err);
        if (st == PL_OK) st = pl_replay_put(r, graph->inputs[i], d, NULL, &err);
        pl_datum_unref(d);
        if (st != PL_OK) return host->fail(error, PLUMB_E_BACKEND, "%s", err.message);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (pl_replay_node(r, graph->nodes[i], &err) != PL_OK) {
            return host->fail(error, PLUMB_E_BACKEND, "%s", err.message);
        }
        const plumb_status st = visit(p, r, graph->nodes[i], args, &err, error);
        if (st != PLUMB_OK) return st;
        pl_replay_release_after(r, graph->nodes[i]);
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const plumb_status st = give(pl_replay_get(r, graph->outputs[i]), &args->out[i], error);
        if (st != PLUMB_OK) return st;
    }
    return PLUMB_OK;
}

static plumb_status engine_run(void *self, const plumb_run_args *args, plumb_error *error) {
    const program *p = self;
    const pl_replay_options options = { .native = true };
    pl_replay *r = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_replay_new(p->model, &options, &r, &err) != PL_OK) {
        return host->fail(error, PLUMB_E_BACKEND, "%s", err.message);
    }
    const plumb_status st = run_nodes(p, r, args, error);
    pl_replay_free(r);
    return st;
}

/* ---- the vtable ---- */

static plumb_status engine_open(const plumb_host *h, const plumb_option *options, size_t n_options,
                                void **self, plumb_error *err) {
    engine *e = calloc(1, sizeof(*e));
    host = h;
    if (e == NULL) return h->fail(err, PLUMB_E_MEMORY, "out of memory");
    *self = e;
    for (size_t i = 0; i < n_options; i++) {
        const char *key = options[i].key, *value = options[i].value;
        if (strcmp(key, "node") == 0) e->node = strtol(value, NULL, 10);
        if (strcmp(key, "out") == 0) e->out = strtol(value, NULL, 10);
        if (strcmp(key, "show") == 0) e->show = strtol(value, NULL, 10);
        if (strcmp(key, "most") == 0) e->most = strtol(value, NULL, 10);
        if (strcmp(key, "value") == 0) snprintf(e->value, sizeof(e->value), "%s", value);
        e->blind = e->blind || strcmp(key, "blind") == 0;
        e->inner = e->inner || strcmp(key, "inner") == 0;
        if (strcmp(key, "size") == 0) e->size = strtod(value, NULL);
        if (strcmp(key, "seed") == 0) e->seed = strtoull(value, NULL, 10);
        for (size_t k = 0; k < N_ROWS && strcmp(key, "kind") == 0; k++)
            if (strcmp(value, rows[k].kind) == 0) e->row = &rows[k];
    }
    return PLUMB_OK;
}

static void engine_close(void *self) {
    free(self);
}

static plumb_status engine_compile(void *self, const plumb_source *source, void **out,
                                   size_t *n_hooks, plumb_error *error) {
    program *p = calloc(1, sizeof(*p));
    pl_err err = PL_ERR_INIT;
    if (p == NULL) return host->fail(error, PLUMB_E_MEMORY, "out of memory");
    p->engine = self;
    const pl_bytes bytes = { source->onnx, source->n_onnx };
    pl_status st = source->path != NULL
                       ? pl_model_read(source->path, &p->model, &err)
                       : pl_model_read_bytes(bytes, NULL, NULL, "model", &p->model, &err);
    if (st == PL_OK) st = pl_ops_resolve(p->model, &err);
    if (st == PL_OK) st = pl_model_infer(p->model, NULL, &err);
    if (st != PL_OK) {
        pl_model_free(p->model);
        free(p);
        return host->fail(error, PLUMB_E_BACKEND, "corrupt: %s", err.message);
    }
    *n_hooks = p->model->graph->n_values;
    *out = p;
    return PLUMB_OK;
}

static void program_free(void *self) {
    program *p = self;
    pl_model_free(p->model);
    free(p);
}

static const char *const *record_modes(void *self) {
    static const char *const modes[] = { "hooks", NULL };
    const engine *e = self;
    return e->blind ? modes + 1 : modes;
}

static const plumb_option_def options[] = {
    { "node", "N", "the node whose output is corrupted, from 0" },
    { "out", "N", "which of its outputs, from 0" },
    { "value", "TEXT", "the value that is corrupted, by name" },
    { "blind", NULL, "show no values" },
    { "inner", NULL, "only while the value is not an output of the model" },
    { "most", "N", "only in models of at most N outputs" },
    { "kind", "TEXT", "how; absent = not at all" },
    { "size", "TEXT", "by how much, relative" },
    { "seed", "N", "of random places" },
    { "show", "N", "record every Nth node only" },
};

static const plumb_backend engines[] = { {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .name = "corrupt",
    .summary = "computes as plumb does and corrupts one value",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = engine_open,
    .close = engine_close,
    .compile = engine_compile,
    .run = engine_run,
    .record_modes = record_modes,
    .free = program_free,
} };

size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max);
size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max) {
    (void)h;
    if (n_max > 0) backends[0] = &engines[0];
    return 1;
}
