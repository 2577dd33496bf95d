/* The glue around the vtable: rows, opening, compiling, running, checking what comes back. */
#include "backends/backend.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/backend_int.h"
#include "backends/confine.h"
#include "backends/guard/guard.h"
#include "backends/hiding.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file_fault.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "kernels/cpu.h"
#include "onnx/onnx.h"

_Static_assert(sizeof(plumb_string) == sizeof(pl_string), "plumb.h and dtype.h differ");

const plumb_backend *const pl_backend_rows[] = {
#define PL_BACKEND(x) &pl_backend_##x,
#include "backends/backends.def"
#undef PL_BACKEND
    NULL,
};

struct pl_backend {
    const plumb_backend *vtable;
    void *self;
    char *spec;
    pl_backend_options options;
    pl_guard *guard;
    pl_guard_child *probe; /* child that answered queries at opening; runs the first program */
    char version[64], device[256];
    uint64_t cpu;           /* features of the CPU that it runs on (kernels/cpu.h) */
    bool confined, limited; /* reported by its guard */
    const char *modes[PL_GUARD_MODES_MAX + 1]; /* of a guarded backend; point into mode_text */
    char mode_text[256];
    pl_failure failure;
};

struct pl_program {
    pl_backend *backend;
    pl_model *model; /* NULL in a guard's child */
    void *program;
    pl_guard_child *child;
    size_t n_hooks, n_in, n_out;
    bool any_shape;
    plumb_source source;
    const char **names; /* inputs, then outputs */
    pl_buf onnx;
    pl_file_map *map;
    pl_hash128 onnx_hash;
    pl_run_times times; /* of the last run */
};

/* ---- opening ---- */

static const char *row_name_at(const void *ctx, size_t i) {
    (void)ctx;
    for (size_t k = 0; pl_backend_rows[k] != NULL; k++)
        if (k == i) return pl_backend_rows[k]->name;
    return NULL;
}

pl_status pl_backend_row(const char *spec, const plumb_backend **out, pl_err *err) {
    size_t n;
    const char *name = pl_spec_name(spec, &n);
    pl_buf hint = PL_BUF_INIT;
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++) {
        if (strlen(pl_backend_rows[i]->name) == n &&
            strncmp(pl_backend_rows[i]->name, name, n) == 0) {
            *out = pl_backend_rows[i];
            return PL_OK;
        }
    }
    pl_nearest_put(&hint, name, n, row_name_at, NULL);
    const pl_status st = pl_fail(err, PL_E_USAGE, "no backend '%.*s'%s", (int)(n > 100 ? 100 : n),
                                 name, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

pl_status pl_spec_check_backend(const char *spec, pl_err *err) {
    const plumb_backend *row = NULL;
    return pl_backend_row(spec, &row, err);
}

static bool row_says(const char *spec, uint32_t flag) {
    const plumb_backend *row = NULL;
    return pl_backend_row(spec, &row, NULL) == PL_OK && (row->flags & flag) != 0;
}

bool pl_spec_is_foreign(const char *spec) {
    static const char *const keys[] = { "lib=", "explain=", "debug-dir=" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strstr(spec, keys[i]) != NULL) return true;
    return row_says(spec, PLUMB_FOREIGN_CODE);
}

bool pl_spec_needs_trust(const char *spec) {
    return pl_spec_is_foreign(spec) || row_says(spec, PLUMB_STARTS_BROWSER);
}

bool pl_backend_is_guarded(const char *spec) {
    const plumb_backend *row = NULL;
    return pl_backend_row(spec, &row, NULL) != PL_OK || (row->flags & PLUMB_IN_PROCESS) == 0;
}

const char *pl_backend_spec_or_default(const char *spec) {
    return spec == NULL ? pl_backend_eager.name : spec;
}

bool pl_backend_is_interpreter(const char *spec) {
    return spec == NULL || strcmp(spec, pl_backend_eager.name) == 0;
}

bool pl_backend_is_program(const char *spec) {
    const size_t n = strlen(pl_backend_cmd.name);
    return spec != NULL && strncmp(spec, pl_backend_cmd.name, n) == 0 && spec[n] == ':';
}

bool pl_backend_is_own(const char *spec) {
    const char *const own[] = { pl_backend_eager.name, pl_backend_jit.name };
    if (spec == NULL) return true;
    const size_t n = strcspn(spec, ":");
    for (size_t i = 0; i < 2; i++)
        if (strlen(own[i]) == n && strncmp(spec, own[i], n) == 0) return true;
    return false;
}

pl_backend_options pl_backend_options_for(const char *spec, double timeout_seconds,
                                          uint64_t memory_limit) {
    return (pl_backend_options){ .guarded = pl_backend_is_guarded(spec),
                                 .timeout_seconds = timeout_seconds,
                                 .memory_limit = memory_limit };
}

pl_status pl_backend_check_vtable(const plumb_backend *v, pl_err *err) {
    if (v == NULL) return pl_fail(err, PL_E_BACKEND, "the plugin has no vtable");
    if (v->abi != PLUMB_ABI) {
        return pl_fail(err, PL_E_BACKEND, "the plugin's ABI version is %u, expected %u", v->abi,
                       PLUMB_ABI);
    }
    if (v->n_bytes < offsetof(plumb_backend, device)) { /* size in the first release */
        return pl_fail(err, PL_E_BACKEND, "the plugin's vtable has %u bytes, expected %zu",
                       v->n_bytes, sizeof(plumb_backend));
    }
    if (v->name == NULL || v->compile == NULL || v->run == NULL || v->free == NULL) {
        return pl_fail(err, PL_E_BACKEND,
                       "the plugin's vtable lacks name, compile, run or free, which are required");
    }
    return PL_OK;
}

static pl_status open_here(pl_backend *b, pl_err *err) {
    pl_spec spec = { 0 };
    b->cpu = pl_cpu_features();
    pl_status st = pl_spec_parse(b->spec, b->vtable->name, b->vtable->options, b->vtable->n_options,
                                 &spec, err);
    if (st == PL_OK && b->vtable->open != NULL) {
        st = b->vtable->open(plumb_host_get(), spec.options, spec.n_options, &b->self, err);
    }
    pl_spec_release(&spec);
    if (st == PL_OK && b->vtable->version != NULL) {
        const char *version = b->vtable->version(b->self);
        snprintf(b->version, sizeof(b->version), "%s", version == NULL ? "" : version);
    }
    if (st == PL_OK && b->vtable->device != NULL) {
        const char *device = b->vtable->device(b->self);
        snprintf(b->device, sizeof(b->device), "%s", device == NULL ? "" : device);
    }
    return st;
}

/* The record modes of a guarded backend arrive as one text, separated by commas. */
static void split_modes(pl_backend *b) {
    size_t n = 0;
    for (char *at = b->mode_text; *at != '\0' && n < PL_GUARD_MODES_MAX;) {
        b->modes[n++] = at;
        at += strcspn(at, ",");
        if (*at == ',') *at++ = '\0';
    }
}

/* Starts a child that has opened the backend. */
static pl_status start_child(pl_backend *b, pl_guard_child **out, pl_err *err) {
    const bool first = b->version[0] == '\0' && b->mode_text[0] == '\0';
    PL_TRY(pl_guard_child_new(b->guard, b->spec, b->options.timeout_seconds,
                              b->options.memory_limit, out, err));
    pl_guard_child_watch(*out, b->options.progress);
    pl_guard_opened opened;
    const pl_status st = pl_guard_child_open(*out, &opened, &b->failure, err);
    if (st == PL_OK) {
        b->cpu = opened.cpu;
        b->confined = opened.confined;
        b->limited = opened.limited;
        if (!first) return PL_OK;
        snprintf(b->version, sizeof(b->version), "%.*s", (int)sizeof(b->version) - 1,
                 opened.version);
        snprintf(b->device, sizeof(b->device), "%.*s", (int)sizeof(b->device) - 1, opened.device);
        snprintf(b->mode_text, sizeof(b->mode_text), "%.*s", (int)sizeof(b->mode_text) - 1,
                 opened.modes);
        return PL_OK;
    }
    pl_guard_child_free(*out);
    *out = NULL;
    return st;
}

static pl_status open_guarded(pl_backend *b, pl_err *err) {
    pl_spec spec = { 0 };
    /* Reports a misspelt spec before starting anything. */
    pl_status st = pl_spec_parse(b->spec, b->vtable->name, b->vtable->options, b->vtable->n_options,
                                 &spec, err);
    pl_confinement confinement = { 0 };
    if (st == PL_OK)
        st = pl_confine(b->vtable, spec.options, spec.n_options, &b->options, &confinement, err);
    if (st == PL_OK) st = pl_guard_start(b->options.tmp_dir, &confinement, &b->guard, err);
    pl_confinement_release(&confinement);
    pl_spec_release(&spec);
    PL_TRY(st);
    PL_TRY(start_child(b, &b->probe, err));
    split_modes(b);
    pl_guard_preload(b->guard, b->probe);
    return PL_OK;
}

pl_status pl_backend_open(const char *spec, const pl_backend_options *options, pl_backend **out,
                          pl_err *err) {
    const plumb_backend *row = NULL;
    PL_TRY(pl_backend_row(spec, &row, err));
    pl_backend *b = pl_calloc(1, sizeof(*b));
    if (b == NULL) return pl_fail_memory(err, sizeof(*b));
    b->vtable = row;
    b->spec = pl_strdup(spec);
    if (options != NULL) b->options = *options;
    const pl_status st = b->spec == NULL      ? pl_fail_memory(err, strlen(spec))
                         : b->options.guarded ? open_guarded(b, err)
                                              : open_here(b, err);
    if (st == PL_OK) {
        *out = b;
    } else {
        pl_backend_close(b);
    }
    return st;
}

void pl_backend_set_timeout(pl_backend *b, double seconds) {
    b->options.timeout_seconds = seconds;
    if (b->probe != NULL) pl_guard_child_set_timeout(b->probe, seconds);
}

void pl_backend_abandon(pl_backend *b) {
    if (b != NULL) pl_guard_abandon(b->guard);
}

void pl_backend_close(pl_backend *b) {
    if (b == NULL) return;
    if (b->self != NULL && b->vtable->close != NULL) b->vtable->close(b->self);
    pl_guard_child_free(b->probe);
    pl_guard_stop(b->guard);
    pl_free(b->spec);
    pl_free(b);
}

void *pl_backend_self(const pl_backend *b) {
    return b->self;
}

const char *pl_backend_name(const pl_backend *b) {
    return b->vtable->name;
}

const char *pl_backend_sandbox(const pl_backend *b) {
    const char *state = pl_confine_state(b->vtable, b->options.sandbox);
    /* $PLUMB_GUARD may name a wrapper that drops the guard's arguments. */
    if (b->guard == NULL || strcmp(state, "on") != 0) return state;
    if (!b->confined) return "none: plumb-guard did not set it up";
    return b->limited ? "on, with cgroup" : state;
}

bool pl_backend_stays_open(const pl_backend *b) {
    return (b->vtable->flags & PLUMB_STAYS_OPEN) != 0;
}

const char *pl_backend_device(const pl_backend *b) {
    return b->device;
}

const char *pl_backend_spec(const pl_backend *b) {
    return b->spec;
}

const char *pl_backend_version(const pl_backend *b) {
    return b->version;
}
uint64_t pl_backend_cpu(const pl_backend *b) {
    return b->cpu;
}

int pl_backend_supports(pl_backend *b, const char *domain, const char *op, int opset) {
    int answer = -1;
    if (b->vtable->supports == NULL) return -1;
    if (b->guard == NULL) return b->vtable->supports(b->self, domain, op, opset);
    if (b->probe == NULL && start_child(b, &b->probe, NULL) != PL_OK) return -1;
    if (pl_guard_child_supports(b->probe, domain, op, opset, &answer, &b->failure, NULL) == PL_OK) {
        return answer;
    }
    pl_guard_child_free(b->probe); /* crashed or hung */
    b->probe = NULL;
    return -1;
}

const char *const *pl_backend_passes(const pl_backend *backend) {
    return backend->vtable->passes;
}

const char *const *pl_backend_levels(const pl_backend *backend) {
    return backend->vtable->levels;
}

const char *const *pl_backend_record_modes(const pl_backend *b) {
    static const char *const none[] = { NULL };
    if (b->guard != NULL) return b->modes;
    return b->vtable->record_modes == NULL ? none : b->vtable->record_modes(b->self);
}

/* ---- compiling ---- */

static pl_status check_model_untouched(const pl_program *p, const char *by, pl_err *err) {
    if (p->source.onnx == NULL) return PL_OK;
    /* The page table shows at once that nothing was written. A page that was written may still hold
     * the same bytes, so then compare hashes. */
    if (pl_file_map_untouched(p->source.onnx, p->source.n_onnx)) return PL_OK;
    const pl_hash128 now = pl_hash128_of(p->source.onnx, p->source.n_onnx);
    if (pl_hash128_equal(now, p->onnx_hash)) return PL_OK;
    return pl_fail(err, PL_E_BACKEND, "backend '%s' modified the model while it %s",
                   p->backend->vtable->name, by);
}

static pl_status compile_here(pl_program *p, pl_err *err) {
    const plumb_backend *v = p->backend->vtable;
    if (p->source.onnx != NULL) {
        p->onnx_hash = pl_hash128_of(p->source.onnx, p->source.n_onnx);
    }
    PL_TRY(v->compile(p->backend->self, &p->source, &p->program, &p->n_hooks, err));
    return check_model_untouched(p, "compiled", err);
}

pl_status pl_program_of_source(pl_backend *b, const plumb_source *source, pl_program **out,
                               pl_err *err) {
    pl_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->backend = b;
    p->source = *source;
    p->n_in = source->n_inputs;
    p->n_out = source->n_outputs;
    p->any_shape = source->any_shape != 0;
    const pl_status st = compile_here(p, err);
    if (st == PL_OK) {
        *out = p;
    } else {
        pl_program_free(p);
    }
    return st;
}

/* A pipe was consumed by the first read. */
static bool can_be_read_again(const char *file) {
    struct stat info;
    return file != NULL && !pl_path_has_suffix(file, ".onnxtxt") && stat(file, &info) == 0 &&
           S_ISREG(info.st_mode);
}

static pl_status source_bytes(pl_program *p, const char *file, pl_err *err) {
    if (can_be_read_again(file)) {
        PL_TRY(pl_file_map_open(file, &p->map, err));
        p->source.onnx = p->map->data;
        p->source.n_onnx = p->map->n_bytes;
        p->source.path = file;
        return PL_OK;
    }
    PL_TRY(pl_model_serialize(p->model, &p->onnx, err));
    if (!pl_buf_ok(&p->onnx)) return pl_fail_memory(err, p->onnx.n_bytes);
    p->source.onnx = p->onnx.data;
    p->source.n_onnx = p->onnx.n_bytes;
    return PL_OK;
}

static pl_status source_of_model(pl_program *p, const pl_compile_options *o, pl_err *err) {
    const pl_graph *graph = p->model->graph;
    p->n_in = graph->n_inputs;
    p->n_out = graph->n_outputs;
    p->names = pl_calloc(p->n_in + p->n_out + 1, sizeof(char *));
    if (p->names == NULL) return pl_fail_memory(err, p->n_in);
    for (size_t i = 0; i < p->n_in; i++)
        p->names[i] = graph->inputs[i]->name;
    for (size_t i = 0; i < p->n_out; i++)
        p->names[p->n_in + i] = graph->outputs[i]->name;
    p->any_shape = o->any_shape;
    p->source = (plumb_source){ .inputs = p->names,
                                .n_inputs = p->n_in,
                                .outputs = p->names + p->n_in,
                                .n_outputs = p->n_out,
                                .seed = o->seed,
                                .threads = o->threads,
                                .any_shape = o->any_shape,
                                .record = o->record };
    if (p->backend->guard == NULL && (p->backend->vtable->flags & PLUMB_TAKES_GRAPH) != 0) {
        p->source.graph = p->model;
        return PL_OK;
    }
    return source_bytes(p, o->file, err);
}

static pl_status compile_guarded(pl_program *p, pl_err *err) {
    pl_backend *b = p->backend;
    p->child = b->probe;
    b->probe = NULL;
    if (p->child == NULL) PL_TRY(start_child(b, &p->child, err));
    return pl_guard_child_compile(p->child, &p->source, &p->n_hooks, &p->backend->failure, err);
}

pl_status pl_program_new(pl_backend *b, pl_model *model, const pl_compile_options *options,
                         pl_program **out, pl_err *err) {
    static const pl_compile_options defaults = { 0 };
    pl_status st = PL_OK;
    pl_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->backend = b;
    p->model = model;
    b->failure = (pl_failure){ 0 };
    PL_TRY_GOTO(done, st, source_of_model(p, options == NULL ? &defaults : options, err));
    st = b->guard != NULL ? compile_guarded(p, err) : compile_here(p, err);
    if (st != PL_OK) goto done;
    *out = p;
    p = NULL;
done:
    pl_program_free(p);
    return st;
}

void pl_program_free(pl_program *p) {
    if (p == NULL) return;
    if (p->program != NULL) p->backend->vtable->free(p->program);
    if (p->child != NULL && p->backend->probe == NULL && pl_backend_stays_open(p->backend) &&
        pl_guard_child_alive(p->child)) {
        p->backend->probe = p->child; /* for the next program */
    } else {
        pl_guard_child_free(p->child);
    }
    pl_free(p->names);
    pl_buf_release(&p->onnx);
    pl_file_map_unref(p->map);
    pl_free(p);
}

size_t pl_program_hooks(const pl_program *p) {
    return p->n_hooks;
}

const pl_failure *pl_backend_failure(const pl_backend *b) {
    return &b->failure;
}

pl_status pl_program_executed(pl_program *p, pl_bytes *onnx, pl_err *err) {
    const void *data = p->source.onnx;
    size_t n = p->source.n_onnx;
    if (p->child != NULL) return pl_guard_child_executed(p->child, onnx, &p->backend->failure, err);
    if (p->backend->vtable->executed != NULL) {
        PL_TRY(p->backend->vtable->executed(p->program, &data, &n, err));
    } else if (data == NULL) {
        PL_TRY(pl_model_serialize(p->model, &p->onnx, err));
        if (!pl_buf_ok(&p->onnx)) return pl_fail_memory(err, 1);
        data = p->source.onnx = p->onnx.data;
        n = p->source.n_onnx = p->onnx.n_bytes;
        p->onnx_hash = pl_hash128_of(data, n);
    }
    *onnx = (pl_bytes){ data, n };
    return PL_OK;
}

pl_status pl_program_placement(pl_program *p, const char **text, pl_err *err) {
    const plumb_backend *v = p->backend->vtable;
    *text = "";
    if (v->placement == NULL) return PL_OK;
    if (p->child != NULL)
        return pl_guard_child_placement(p->child, text, &p->backend->failure, err);
    return v->placement(p->program, text, err);
}

/* ---- running ---- */

static void hash_datum(pl_hasher *h, const pl_datum *d) {
    if (d == NULL) return;
    for (size_t i = 0; i < d->n_items; i++)
        hash_datum(h, d->items[i]);
    if (d->tensor != NULL && pl_tensor_is_contiguous(d->tensor)) {
        pl_hasher_update(h, d->tensor->data, pl_tensor_bytes(d->tensor));
    }
}

static pl_status hash_inputs(const plumb_run_args *args, pl_hash128 *out, pl_err *err) {
    pl_hasher *h = pl_hasher_new();
    if (h == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < args->n_in; i++)
        hash_datum(h, pl_datum_of(args->in[i]));
    *out = pl_hasher_digest(h);
    pl_hasher_free(h);
    return PL_OK;
}

pl_run_times pl_program_times(const pl_program *p) {
    return p == NULL ? (pl_run_times){ 0, 0 } : p->times;
}

static pl_status run_here(pl_program *p, const plumb_run_args *args, pl_err *err) {
    const plumb_backend *v = p->backend->vtable;
    const bool own = p->source.graph != NULL;
    pl_hash128 before = { 0, 0 }, after = { 0, 0 };
    if (!own) PL_TRY(hash_inputs(args, &before, err));
    const int64_t start = pl_clock_ns();
    PL_TRY(v->run(p->program, args, err));
    const int64_t submitted = pl_clock_ns();
    if (v->synchronize != NULL) {
        PL_TRY(v->synchronize(p->program, err));
        p->times =
            (pl_run_times){ (uint64_t)(submitted - start), (uint64_t)(pl_clock_ns() - submitted) };
    }
    PL_TRY(pl_file_fault_check(err));
    if (own) return PL_OK;
    PL_TRY(hash_inputs(args, &after, err));
    if (before.low != after.low || before.high != after.high) {
        return pl_fail(err, PL_E_BACKEND, "backend '%s' modified its inputs", v->name);
    }
    return check_model_untouched(p, "ran", err);
}

pl_status pl_program_run_args(pl_program *p, const plumb_run_args *args, pl_err *err) {
    p->backend->failure = (pl_failure){ 0 };
    p->times = (pl_run_times){ 0, 0 };
    if (p->child != NULL)
        return pl_guard_child_run(p->child, args, &p->times, &p->backend->failure, err);
    return run_here(p, args, err);
}

static bool shape_fits(const pl_type *type, const pl_tensor *t) {
    if (!type->has_rank) return true;
    if (type->rank != t->rank) return false;
    for (int i = 0; i < t->rank; i++) {
        if (pl_dim_known(type->dims[i]) && type->dims[i].value != t->dims[i]) return false;
    }
    return true;
}

/* The backend may return other types than the model declares. */
static bool accepts_any_type(const pl_program *p) {
    return (p->backend->vtable->flags & PLUMB_OTHER_TYPES) != 0;
}

/* Models may declare wrong types and shapes. Before blaming a backend for another one, run the
 * interpreter: true if it returns the same type and shape as the backend. */
static bool declaration_lies(const pl_program *p, const plumb_run_args *args, size_t i) {
    pl_backend *eager = NULL;
    pl_program *program = NULL;
    bool lies = false;
    pl_datum **out = pl_calloc(p->n_out + 1, sizeof(pl_datum *));
    if (out != NULL && pl_backend_open("eager", NULL, &eager, NULL) == PL_OK &&
        pl_program_new(eager, p->model, NULL, &program, NULL) == PL_OK &&
        pl_program_run(program, (pl_datum *const *)(uintptr_t)args->in, out, NULL) == PL_OK) {
        const pl_datum *got = pl_datum_of(args->out[i]);
        lies = out[i]->kind == got->kind && got->kind == PL_TYPE_TENSOR &&
               pl_tensor_same_shape(out[i]->tensor, got->tensor) &&
               (accepts_any_type(p) || out[i]->tensor->dtype == got->tensor->dtype);
    }
    for (size_t k = 0; out != NULL && k < p->n_out; k++)
        pl_datum_unref(out[k]);
    pl_free(out);
    pl_program_free(program);
    pl_backend_close(eager);
    return lies;
}

/* Checks an output of the backend against the model's declaration. */
static pl_status check_output(const pl_program *p, const plumb_run_args *args, size_t i,
                              pl_err *err) {
    const pl_datum *d = pl_datum_of(args->out[i]);
    const pl_value *value = p->model->graph->outputs[i];
    const char *name = p->backend->vtable->name;
    if (d == NULL) {
        return pl_fail(err, PL_E_BACKEND, "backend '%s' returned nothing for output '%s'", name,
                       value->name);
    }
    if (p->source.graph != NULL || value->type == NULL || value->type->kind == PL_TYPE_NONE) {
        return PL_OK;
    }
    char found[200];
    pl_buf declared = PL_BUF_INIT;
    bool wrong = value->type->kind != d->kind;
    if (!wrong && d->kind == PL_TYPE_TENSOR) {
        wrong = !accepts_any_type(p) && value->type->dtype != PL_UNDEFINED &&
                value->type->dtype != d->tensor->dtype;
        wrong = wrong || (!p->any_shape && !shape_fits(value->type, d->tensor));
    }
    if (!wrong || declaration_lies(p, args, i)) return PL_OK;
    pl_type_print(&declared, value->type);
    const pl_status st = pl_fail(
        err, PL_E_BACKEND, "backend '%s' returned output '%s' as %s, but the model declares %s",
        name, value->name, pl_datum_describe(d, found, sizeof(found)), pl_buf_str(&declared));
    pl_buf_release(&declared);
    return st;
}

static pl_status run_and_check(pl_program *p, const plumb_run_args *args, pl_err *err) {
    PL_TRY(pl_program_run_args(p, args, err));
    for (size_t i = 0; i < p->n_out; i++) {
        PL_TRY(check_output(p, args, i, err));
    }
    return PL_OK;
}

static pl_status run_hiding(pl_program *p, const plumb_run_args *args, const pl_dont_care *found,
                            pl_err *err) {
    const pl_graph *graph = p->model->graph;
    pl_hiding h = { 0 };
    pl_status st = pl_hiding_init(&h, graph, found, args, err);
    if (st == PL_OK) st = run_and_check(p, &h.args, err);
    for (size_t i = 0; i < p->n_out && st == PL_OK; i++)
        st = pl_dont_care_hide(found, graph->outputs[i], (pl_datum **)&args->out[i], err);
    pl_hiding_release(&h);
    return st;
}

/* Elements that mean nothing come back as zeros: the rest is compared. */
static pl_status run_checked(pl_program *p, const plumb_run_args *args, pl_err *err) {
    pl_dont_care found;
    pl_datum *const *in = (pl_datum *const *)(uintptr_t)args->in;
    if (p->model == NULL) return run_and_check(p, args, err);
    PL_TRY(pl_dont_care_find(p->model, in, p->source.threads, &found, err));
    const pl_status st =
        found.of == NULL ? run_and_check(p, args, err) : run_hiding(p, args, &found, err);
    pl_dont_care_release(&found);
    return st;
}

pl_status pl_program_run(pl_program *p, pl_datum *const *in, pl_datum **out, pl_err *err) {
    const plumb_run_args args = { .in = (const plumb_datum *const *)in,
                                  .n_in = p->n_in,
                                  .out = (plumb_datum **)out,
                                  .n_out = p->n_out };
    return run_checked(p, &args, err);
}

void pl_program_remember(pl_program *p) {
    if (p->child != NULL) pl_guard_child_again(p->child, PL_AGAIN_REMEMBER);
}

void pl_program_compare(pl_program *p) {
    if (p->child != NULL) pl_guard_child_again(p->child, PL_AGAIN_COMPARE);
}

pl_status pl_program_record(pl_program *p, pl_datum *const *in, const pl_record_args *record,
                            pl_datum **out, plumb_record_info *info, pl_err *err) {
    const char *const *modes = pl_backend_record_modes(p->backend);
    size_t n_modes = 0;
    while (modes[n_modes] != NULL)
        n_modes++;
    *info = (plumb_record_info){ 0 };
    if (record->mode >= n_modes) {
        return pl_fail(err, PL_E_UNSUPPORTED, "backend '%s' has %zu ways to record, requested %zu",
                       p->backend->vtable->name, n_modes, record->mode + 1);
    }
    const plumb_run_args args = { .in = (const plumb_datum *const *)in,
                                  .n_in = p->n_in,
                                  .out = (plumb_datum **)out,
                                  .n_out = p->n_out,
                                  .hook = record->hook,
                                  .mode = record->mode,
                                  .plain = (const plumb_datum *const *)record->plain,
                                  .memory_limit = record->memory_limit,
                                  .record = info };
    return run_checked(p, &args, err);
}

pl_status pl_program_record_gently(pl_program *p, pl_datum *const *in, const pl_record_args *record,
                                   pl_datum **out, size_t *mode, plumb_record_info *info,
                                   pl_err *err) {
    const char *const *modes = pl_backend_record_modes(p->backend);
    pl_record_args args = *record;
    for (args.mode = record->mode; modes[args.mode] != NULL; args.mode++) {
        for (size_t i = 0; i < p->n_out; i++) {
            pl_datum_unref(out[i]);
            out[i] = NULL;
        }
        PL_TRY(pl_program_record(p, in, &args, out, info, err));
        *mode = args.mode;
        if (!info->differs) return PL_OK;
    }
    return args.mode > record->mode ? PL_OK : pl_program_record(p, in, &args, out, info, err);
}

pl_status pl_source_model(const plumb_source *source, pl_model **out, bool *owned, pl_err *err) {
    *owned = source->graph == NULL;
    *out = source->graph;
    if (!*owned) return PL_OK;
    const char *name = source->path == NULL ? "model" : source->path;
    char *dir = source->path == NULL ? NULL : pl_path_dirname(source->path);
    const pl_bytes bytes = { source->onnx, source->n_onnx };
    const pl_status st = pl_model_read_bytes(bytes, NULL, dir, name, out, err);
    pl_free(dir);
    return st;
}

bool pl_hook_wants(const plumb_hook *hook, const char *name) {
    if (hook->names == NULL) return true;
    for (size_t i = 0; i < hook->n_names; i++) {
        if (strcmp(hook->names[i], name) == 0) return true;
    }
    return false;
}

bool pl_is_plain(const plumb_run_args *args, pl_datum *const *out) {
    for (size_t i = 0; args->plain != NULL && i < args->n_out; i++)
        if (args->plain[i] != NULL && !pl_datum_identical(out[i], pl_datum_of(args->plain[i])))
            return false;
    return true;
}

bool pl_datum_identical(const pl_datum *a, const pl_datum *b) {
    if (a == NULL || b == NULL) return a == b;
    if (a->kind != b->kind || a->n_items != b->n_items) return false;
    if (a->kind == PL_TYPE_TENSOR) return pl_tensor_identical(a->tensor, b->tensor);
    for (size_t i = 0; i < a->n_items; i++) {
        if (!pl_datum_identical(a->items[i], b->items[i])) return false;
    }
    return true;
}
