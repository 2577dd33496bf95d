/* One side of a comparison: values from its hook go to the spool, or are compared with it. */
#include "flows/analyze/side_run.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "flows/analyze/marking.h"
#include "kernels/cpu.h"
#include "store/blob.h"

enum { MAX_MARKING_RUNS = 48, EASILY = 8, RECORD_MEMORY = 256 << 20, WHOLE_MEMORY = 1 << 30 };

/* Bytes of all values whose dims are known, at most a little above WHOLE_MEMORY. */
static uint64_t bytes_of_values(const pl_graph *graph) {
    uint64_t sum = 0;
    for (size_t i = 0; i < graph->n_values && sum <= WHOLE_MEMORY; i++) {
        const pl_type *type = graph->values[i]->type;
        if (graph->values[i]->producer == NULL || type == NULL || type->kind != PL_TYPE_TENSOR ||
            !type->has_rank || type->dtype == PL_UNDEFINED) {
            continue;
        }
        size_t n = pl_dtype_bytes(type->dtype);
        for (int d = 0; d < type->rank; d++) {
            if (!pl_dim_known(type->dims[d])) n = 0;
            if (!pl_size_mul(n, (size_t)type->dims[d].value, &n)) n = WHOLE_MEMORY;
        }
        sum += n > WHOLE_MEMORY ? WHOLE_MEMORY + 1 : n;
    }
    return sum;
}

/* Values that the machine holds easily stay in memory and are recorded in one run. */
static bool holds_all(const pl_graph *graph) {
    const uint64_t n = bytes_of_values(graph);
    return n <= RECORD_MEMORY || (n <= WHOLE_MEMORY && pl_memory_holds(EASILY * (size_t)n));
}

static pl_status index_names(pl_side_run *r, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *value = graph->values[i];
        if (value->producer == NULL) continue;
        if (pl_strmap_put(&r->by_name, value->name, value) != 0) return pl_fail_memory(err, i);
    }
    return PL_OK;
}

pl_status pl_side_run_prepare(pl_side_run *r, pl_model *model, const pl_side_options *options,
                              pl_err *err) {
    const size_t n_values = (size_t)model->n_values + 1;
    *r = (pl_side_run){ .model = model, .options = *options, .by_name = PL_STRMAP_INIT };
    r->arithmetic = options->arithmetic;
    r->entry = pl_calloc(n_values, sizeof(size_t));
    r->hash = pl_calloc(n_values, sizeof(pl_hash128));
    r->plain = pl_calloc(model->graph->n_outputs + 1, sizeof(pl_datum *));
    if (r->entry == NULL || r->hash == NULL || r->plain == NULL) {
        return pl_fail_memory(err, n_values);
    }
    PL_TRY(index_names(r, err));
    r->whole = holds_all(model->graph);
    return pl_spool_new(r->whole ? WHOLE_MEMORY : options->spool_memory, NULL, &r->spool, err);
}

pl_status pl_side_run_init(pl_side_run *r, pl_model *model, const pl_side_options *options,
                           pl_err *err) {
    pl_backend_options backend =
        pl_backend_options_for(options->spec, options->timeout, options->memory_limit);
    backend.progress = options->progress;
    backend.sandbox = options->sandbox;
    backend.readable = &options->file;
    backend.n_readable = 1;
    const pl_compile_options compile = { .file = options->file,
                                         .seed = options->seed,
                                         .threads = options->threads,
                                         .any_shape = true, /* a wrong shape is a finding */
                                         .record = true };
    PL_TRY(pl_side_run_prepare(r, model, options, err));
    r->backend = options->backend;
    r->program = options->program;
    if (r->program != NULL) return PL_OK;
    if (r->backend == NULL) PL_TRY(pl_backend_open(options->spec, &backend, &r->backend, err));
    return pl_program_new(r->backend, model, &compile, &r->program, err);
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

void pl_side_run_finish(pl_side_run *r) {
    if (r->options.program != NULL) return;
    pl_program_free(r->program);
    r->program = NULL;
}

void pl_side_run_release(pl_side_run *r) {
    if (r->model == NULL) return;
    drop(r->plain, r->model->graph->n_outputs);
    pl_free(r->plain);
    pl_free(r->entry);
    pl_free(r->hash);
    pl_strmap_release(&r->by_name);
    pl_spool_free(r->spool);
    pl_side_run_finish(r);
    if (r->options.backend == NULL) pl_backend_close(r->backend);
    *r = (pl_side_run){ .model = NULL };
}

/* The precision profile of the first place of the placement that has one. A backend without a
 * device runs on the CPU and is not asked; one that does not know is assumed to. */
static void find_arithmetic(pl_side_run *r) {
    const char *at = "";
    if (r->arithmetic != NULL) return;
    r->arithmetic = &pl_arithmetics[0];
    if (pl_backend_device(r->backend)[0] == '\0') return;
    if (pl_program_placement(r->program, &at, NULL) != PL_OK) return;
    while (*at != '\0' && r->arithmetic == &pl_arithmetics[0]) {
        char place[64];
        snprintf(place, sizeof(place), "%.*s", (int)strcspn(at, "\t\n"), at);
        r->arithmetic = pl_arithmetic_of(place);
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
}

/* A hook of the interpreter only looks: its recorded run is the plain one. */
static bool skips_plain(const pl_side_run *r) {
    return r->options.record_is_plain && pl_backend_is_interpreter(r->options.spec);
}

pl_status pl_side_run_plain(pl_side_run *r, pl_datum *const *in, pl_err *err) {
    drop(r->plain, r->model->graph->n_outputs);
    if (skips_plain(r)) {
        find_arithmetic(r);
        return PL_OK;
    }
    PL_TRY(pl_program_run(r->program, in, r->plain, err));
    find_arithmetic(r);
    return PL_OK;
}

/* ---- what the hook sees ---- */

static pl_status hash_datum(const pl_datum *d, pl_hash128 *out, pl_err *err) {
    pl_dense dense;
    *out = (pl_hash128){ 0, 0 };
    if (d->kind != PL_TYPE_TENSOR) return PL_OK;
    PL_TRY(pl_dense_init(&dense, d->tensor, err));
    *out = pl_hash128_of(dense.data, dense.n_bytes);
    pl_dense_release(&dense);
    return PL_OK;
}

static bool wanted(const pl_side_run *r, const pl_value *value) {
    return r->wants == NULL || r->wants(r->wants_ctx, value);
}

/* Runtimes may convert signed codes and zero points to unsigned ones, 128 apart. *out is a new
 * reference. */
static pl_status recode(const pl_value *value, const pl_datum *d, pl_datum **out, pl_err *err) {
    const pl_dtype declared = value->type != NULL && value->type->kind == PL_TYPE_TENSOR
                                  ? value->type->dtype
                                  : PL_UNDEFINED;
    const bool flipped =
        d->kind == PL_TYPE_TENSOR && ((d->tensor->dtype == PL_U8 && declared == PL_I8) ||
                                      (d->tensor->dtype == PL_I8 && declared == PL_U8));
    if (!flipped) {
        *out = pl_datum_ref(d);
        return PL_OK;
    }
    pl_tensor *dense = NULL, *t = NULL;
    PL_TRY(pl_tensor_contiguous(d->tensor, &dense, err));
    const pl_status st = pl_tensor_new(declared, dense->rank, dense->dims, &t, err);
    const uint8_t *from = dense->data;
    for (int64_t i = 0; st == PL_OK && i < dense->n_elements; i++)
        ((uint8_t *)t->data)[i] = from[i] ^ 0x80;
    pl_tensor_unref(dense);
    return st == PL_OK ? pl_datum_of_tensor_take(t, out, err) : st;
}

static pl_status keep(pl_side_run *r, const pl_value *value, const pl_datum *seen, pl_err *err) {
    size_t id = 0;
    pl_datum *d = NULL;
    if (!wanted(r, value)) return PL_OK;
    PL_TRY(recode(value, seen, &d, err));
    const pl_status st = pl_spool_put(r->spool, d, &id, err);
    pl_datum_unref(d);
    PL_TRY(st);
    if (r->entry[value->id] == 0) r->n_recorded++;
    r->entry[value->id] = id + 1;
    return hash_datum(seen, &r->hash[value->id], err);
}

pl_status pl_side_run_put(pl_side_run *run, const pl_value *value, const pl_datum *d, pl_err *err) {
    return keep(run, value, d, err);
}

/* The tuples of two runs, where they differ. */
static pl_status describe_difference(pl_side_run *r, const pl_value *value, const pl_datum *d,
                                     pl_hash128 hash, pl_err *err) {
    pl_datum *first = NULL;
    char a[PL_HASH128_HEX], b[PL_HASH128_HEX], x[64], y[64];
    PL_TRY(pl_spool_get(r->spool, r->entry[value->id] - 1, &first, err));
    pl_hash128_hex(r->hash[value->id], a);
    pl_hash128_hex(hash, b);
    a[8] = b[8] = '\0';
    snprintf(r->difference, sizeof(r->difference), "%s %s != %s %s",
             pl_datum_describe(first, x, sizeof(x)), a, pl_datum_describe(d, y, sizeof(y)), b);
    pl_datum_unref(first);
    return PL_OK;
}

static bool comes_before(const pl_value *x, const pl_value *y) {
    return x->producer->index < y->producer->index;
}

static pl_status check_again(pl_side_run *r, const pl_value *value, const pl_datum *d,
                             pl_err *err) {
    pl_hash128 hash;
    if (r->entry[value->id] == 0 || d == NULL) return PL_OK; /* NULL: the same, says the guard */
    PL_TRY(hash_datum(d, &hash, err));
    if (pl_hash128_equal(hash, r->hash[value->id])) return PL_OK;
    if (r->unstable != NULL && comes_before(r->unstable, value)) return PL_OK;
    r->unstable = value;
    return describe_difference(r, value, d, hash, err);
}

typedef struct hook_ctx {
    pl_side_run *run;
    bool again;
    size_t n_seen;
} hook_ctx;

static pl_status on_name(hook_ctx *h, const char *name, const pl_datum *d, pl_err *err) {
    const pl_value *value = pl_strmap_get(&h->run->by_name, name);
    if (value == NULL) {
        if (!h->again) h->run->n_unknown++;
        return PL_OK;
    }
    return h->again ? check_again(h->run, value, d, err) : keep(h->run, value, d, err);
}

static plumb_status on_value(void *ctx, const plumb_seen *seen, plumb_error *error) {
    hook_ctx *h = ctx;
    pl_err *err = error;
    const pl_datum *d = pl_datum_of(seen->datum);
    pl_status st = PL_OK;
    if (seen->stands_for == NULL) {
        st = on_name(h, seen->name, d, err);
    } else {
        for (size_t i = 0; i < seen->n_stands_for && st == PL_OK; i++)
            st = on_name(h, seen->stands_for[i], d, err);
        if (seen->n_stands_for == 0 && !h->again) h->run->n_unknown++;
    }
    h->n_seen++;
    if (st != PL_OK) return st;
    return pl_progress_step(h->run->options.progress, h->run->options.phase, (int64_t)h->n_seen,
                            (int64_t)pl_program_hooks(h->run->program), err);
}

static pl_status keep_outputs(pl_side_run *r, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const pl_value *value = graph->outputs[i];
        if (value->producer == NULL || r->plain[i] == NULL || r->outputs_differ) continue;
        PL_TRY(keep(r, value, r->plain[i], err));
    }
    return PL_OK;
}

/* The outputs differ from the plain run although values were recorded: the values belong to these
 * outputs, not to the plain ones. */
static pl_status keep_other_outputs(pl_side_run *r, pl_datum *const *out, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        if (out[i] == NULL || r->plain[i] == NULL || pl_datum_identical(out[i], r->plain[i])) {
            continue;
        }
        r->observer_effect = r->outputs_differ = true;
    }
    for (size_t i = 0; i < graph->n_outputs && r->outputs_differ; i++) {
        if (out[i] != NULL && graph->outputs[i]->producer != NULL) {
            PL_TRY(keep(r, graph->outputs[i], out[i], err));
        }
    }
    return PL_OK;
}

/* Bytes of recorded values that a backend may hold. One that keeps all values until the end of a
 * run records a large model in several runs. */
static uint64_t record_limit(const pl_side_run *r) {
    if (r->options.memory_limit > 0) return r->options.memory_limit;
    return r->whole ? 0 : RECORD_MEMORY;
}

/* 1 + the first output that differs from that of the plain run; 0 = none. */
static size_t first_other(const pl_side_run *r, pl_datum *const *out) {
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_outputs; i++)
        if (out[i] != NULL && r->plain[i] != NULL && graph->outputs[i]->producer != NULL &&
            !pl_datum_identical(out[i], r->plain[i]))
            return i + 1;
    return 0;
}

static pl_status record(pl_side_run *r, pl_datum *const *in, bool again, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    hook_ctx ctx = { .run = r, .again = again };
    const plumb_hook hook = { .value = on_value, .ctx = &ctx };
    const pl_record_args args = {
        .mode = r->mode, .hook = &hook, .plain = r->plain, .memory_limit = record_limit(r)
    };
    pl_datum **out = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    plumb_record_info info = { 0 };
    size_t mode = 0;
    if (out == NULL) return pl_fail_memory(err, graph->n_outputs);
    if (again) {
        pl_program_compare(r->program);
    } else {
        pl_program_remember(r->program);
    }
    const pl_status st =
        again ? pl_program_record(r->program, in, &args, out, &info, err)
              : pl_program_record_gently(r->program, in, &args, out, &mode, &info, err);
    pl_status kept = PL_OK;
    if (st == PL_OK && !again) {
        r->info = info;
        r->mode = mode;
        r->observer_effect = mode > 0 || info.differs;
        if (!info.differs) kept = keep_other_outputs(r, out, err);
        if (info.differs && pl_backend_is_program(r->options.spec)) r->flaky = first_other(r, out);
        for (size_t i = 0; skips_plain(r) && i < graph->n_outputs; i++) {
            r->plain[i] = out[i];
            out[i] = NULL;
        }
    }
    drop(out, graph->n_outputs);
    pl_free(out);
    return st != PL_OK ? st : kept;
}

static bool can_record(const pl_side_run *r) {
    const char *const *modes = pl_backend_record_modes(r->backend);
    return modes != NULL && modes[0] != NULL;
}

static pl_status on_marked(void *ctx, const pl_value *value, const pl_datum *d, pl_err *err) {
    return keep(ctx, value, d, err);
}

/* For a backend or program without intermediate values: marks values as outputs, as long as the
 * model's own outputs do not change. */
static pl_status record_marked(pl_side_run *r, pl_datum *const *in, pl_err *err) {
    pl_marking counts;
    PL_TRY(pl_mark_values(r, in, MAX_MARKING_RUNS, on_marked, r, &counts, err));
    r->marked = true;
    r->info.n_seen = counts.n_shown;
    r->info.n_disturbed = counts.n_disturbed;
    r->info.n_runs += counts.n_runs;
    r->observer_effect = counts.n_other > 0;
    r->refused = counts.n_refused > 0 && counts.n_other == 0;
    return PL_OK;
}

pl_status pl_side_run_record(pl_side_run *r, pl_datum *const *in, pl_err *err) {
    if (can_record(r)) {
        pl_err trouble = PL_ERR_INIT;
        const pl_status st = record(r, in, false, &trouble);
        /* The plain run worked: only recording failed (ONNX Runtime 1.16 loses an
         * axis when a DequantizeLinear is recorded), and marking would fail in the same way. */
        if (st == PL_E_BACKEND && r->n_recorded == 0) {
            snprintf(r->record_trouble, sizeof(r->record_trouble), "%.300s", trouble.message);
        } else if (st != PL_OK) {
            if (err != NULL) *err = trouble;
            return st;
        }
    }
    if (r->n_recorded == 0 && !r->info.differs && *r->record_trouble == '\0') {
        PL_TRY(record_marked(r, in, err));
    }
    return keep_outputs(r, err);
}

static pl_status repeat_outputs(pl_side_run *r, pl_datum *const *in, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    pl_datum **out = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    if (out == NULL) return pl_fail_memory(err, graph->n_outputs);
    pl_status st = pl_program_run(r->program, in, out, err);
    for (size_t i = 0; i < graph->n_outputs && st == PL_OK; i++) {
        if (out[i] == NULL || graph->outputs[i]->producer == NULL) continue;
        st = check_again(r, graph->outputs[i], out[i], err);
    }
    drop(out, graph->n_outputs);
    pl_free(out);
    return st;
}

pl_status pl_side_run_repeat(pl_side_run *r, pl_datum *const *in, pl_err *err) {
    r->unstable = NULL;
    if (!skips_plain(r)) PL_TRY(repeat_outputs(r, in, err));
    if (r->flaky > 0 && r->unstable == NULL) {
        r->unstable = r->model->graph->outputs[r->flaky - 1];
        snprintf(r->difference, sizeof(r->difference), "the second of three runs differed");
    }
    if (!can_record(r) || r->info.differs || r->marked || *r->record_trouble != '\0') return PL_OK;
    /* A second recording whose outputs differ records nothing; then the outputs above decide. */
    return record(r, in, true, err);
}

static bool has(void *ctx, const pl_value *value) {
    const pl_side_run *r = ctx;
    return r->entry[value->id] != 0;
}

static pl_status get(void *ctx, const pl_value *value, pl_datum **out, pl_err *err) {
    const pl_side_run *r = ctx;
    return pl_spool_get(r->spool, r->entry[value->id] - 1, out, err);
}

bool pl_side_run_adds_f16(const pl_side_run *run) {
    const uint64_t needs = UINT64_C(1) << PL_CPU_ARM64 | UINT64_C(1) << PL_CPU_FP16;
    /* A reused session has no backend: its run is taken to be of this machine. */
    const uint64_t cpu = run->backend != NULL ? pl_backend_cpu(run->backend) : pl_cpu_features();
    return !pl_backend_is_own(run->options.spec) && (cpu & needs) == needs;
}

pl_run_data pl_side_run_data(const pl_side_run *run) {
    return (pl_run_data){ .has = has,
                          .get = get,
                          .ctx = (void *)(uintptr_t)run,
                          .arithmetic = run->arithmetic,
                          .adds_f16 = pl_side_run_adds_f16(run) };
}
