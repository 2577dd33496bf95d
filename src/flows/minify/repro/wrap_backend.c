/* plumb_wrap_backend: any backend, with checkpoints by repro level around compile and run.
 *
 * The wrapper is itself a backend and passes on the results of the inner one; a checkpoint that
 * cannot be written is only logged. */
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "flows/api/options.h"
#include "flows/minify/repro/repro_dump.h"
#include "interp/interp.h"
#include "metric/same.h"
#include "onnx/onnx.h"
#include "ops/infer.h"

struct plumb_wrapped {
    plumb_backend vtable;
    const plumb_backend *inner;
    void *inner_self;
    pl_dump dump;
    char run_dir[3600];
    char *name, *spec;
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

typedef struct wrapped_program {
    plumb_wrapped *w;
    void *inner;
    pl_model *model; /* NULL when it could not be read */
    bool dumped;     /* was dumped with data */
} wrapped_program;

static void say(const plumb_wrapped *w, const char *text) {
    if (w->log == NULL) return;
    while (*text != '\0') { /* line by line */
        char line[1200];
        const size_t n = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)(n < sizeof(line) ? n : sizeof(line) - 1), text);
        w->log(w->log_ctx, line);
        text += n + (text[n] == '\n');
    }
}

static void dump(plumb_wrapped *w, pl_model *model, pl_datum *const *in) {
    pl_buf log = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    char path[4096];
    pl_dump d = w->dump;
    pl_datum **none = NULL;
    if (model == NULL) return;
    if (in == NULL) { /* before the first run there is no data */
        none = pl_calloc(model->graph->n_inputs + 1, sizeof(pl_datum *));
        if (none == NULL) return;
        d.no_data = true;
    }
    const pl_status st =
        pl_dump_write(&d, model, in == NULL ? none : in, NULL, path, sizeof(path), &log, &err);
    if (st == PL_OK) {
        say(w, pl_buf_str(&log));
    } else {
        say(w, err.message);
    }
    pl_free(none);
    pl_buf_release(&log);
}

static plumb_status compile(void *self, const plumb_source *source, void **program, size_t *n_hooks,
                            plumb_error *error) {
    plumb_wrapped *w = self;
    wrapped_program *p = pl_calloc(1, sizeof(*p));
    pl_err *err = error;
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->w = w;
    if (source->onnx != NULL && w->dump.level > 0) {
        const pl_bytes bytes = { source->onnx, source->n_onnx };
        char *dir = source->path == NULL ? NULL : pl_path_dirname(source->path);
        if (pl_model_read_bytes(bytes, NULL, dir, "the model", &p->model, NULL) == PL_OK) {
            pl_ops_resolve(p->model, NULL);
        }
        pl_free(dir);
    }
    if (w->dump.level == 3) dump(w, p->model, NULL);
    const plumb_status st = w->inner->compile(w->inner_self, source, &p->inner, n_hooks, error);
    if (st == PLUMB_OK) {
        *program = p;
        return st;
    }
    if (w->dump.level == 1 || w->dump.level == 2) dump(w, p->model, NULL);
    pl_model_free(p->model);
    pl_free(p);
    return st;
}

/* Level 4: outputs against the reference's, by the plumb rule with PyTorch's tolerance. */
static bool accurate(const wrapped_program *p, const plumb_run_args *args) {
    const pl_interp_options options = { .seed = p->w->dump.seed, .any_shape = true };
    const pl_plumb_rule rule = { .rtol = 1e-3, .atol = 1e-3 };
    pl_interp *interp = NULL;
    bool same = true;
    pl_datum **want = pl_calloc(args->n_out + 1, sizeof(pl_datum *));
    if (want != NULL && pl_interp_new(p->model, &options, &interp, NULL) == PL_OK &&
        pl_interp_run(interp, (pl_datum *const *)(uintptr_t)args->in, want, NULL) == PL_OK) {
        for (size_t i = 0; i < args->n_out && same; i++) {
            pl_same_result result = { 0 };
            const pl_datum *got = pl_datum_of(args->out[i]);
            if (got == NULL || want[i] == NULL) continue;
            if (pl_same_plumb_datum(want[i], got, &rule, &result, NULL) != PL_OK) continue;
            same = result.verdict == PL_SAME_YES;
        }
    }
    for (size_t i = 0; want != NULL && i < args->n_out; i++)
        pl_datum_unref(want[i]);
    pl_free(want);
    pl_interp_free(interp);
    return same;
}

static plumb_status run(void *program, const plumb_run_args *args, plumb_error *error) {
    wrapped_program *p = program;
    plumb_wrapped *w = p->w;
    pl_datum *const *in = (pl_datum *const *)(uintptr_t)args->in;
    if (w->dump.level == 3 && !p->dumped) {
        dump(w, p->model, in);
        p->dumped = true;
    }
    const plumb_status st = w->inner->run(p->inner, args, error);
    if (st != PLUMB_OK && (w->dump.level == 1 || w->dump.level == 2) && !p->dumped) {
        dump(w, p->model, in);
        p->dumped = true;
    }
    if (st != PLUMB_OK || w->dump.level != 4 || p->model == NULL || accurate(p, args)) return st;
    dump(w, p->model, in);
    return st; /* passes the wrong result on: the program continues */
}

static plumb_status synchronize(void *program, plumb_error *error) {
    const wrapped_program *p = program;
    return p->w->inner->synchronize(p->inner, error);
}

static plumb_status executed(void *program, const void **onnx, size_t *n_onnx, plumb_error *error) {
    const wrapped_program *p = program;
    return p->w->inner->executed(p->inner, onnx, n_onnx, error);
}

static void free_program(void *program) {
    wrapped_program *p = program;
    p->w->inner->free(p->inner);
    pl_model_free(p->model);
    pl_free(p);
}

static const char *version(void *self) {
    const plumb_wrapped *w = self;
    return w->inner->version(w->inner_self);
}

static int supports(void *self, const char *domain, const char *op, int opset) {
    const plumb_wrapped *w = self;
    return w->inner->supports(w->inner_self, domain, op, opset);
}

static const char *const *record_modes(void *self) {
    const plumb_wrapped *w = self;
    return w->inner->record_modes(w->inner_self);
}

static char *copy_text(const char *s) {
    return s == NULL ? NULL : pl_strdup(s);
}

plumb_status plumb_wrap_backend(const plumb_backend *inner, void *self,
                                const plumb_wrap_options *options, plumb_wrapped **out,
                                plumb_error *err) {
    plumb_wrap_options own;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(inner);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_WRAP, options, &own, err));
    options = &own;
    if (own.level < 0 || own.level > 4)
        return pl_fail(err, PL_E_USAGE, "option 'repro-level' is %d, expected 0 to 4", own.level);
    plumb_wrapped *w = pl_calloc(1, sizeof(*w));
    if (w == NULL) return pl_fail_memory(err, sizeof(*w));
    w->inner = inner;
    w->inner_self = self;
    w->name = copy_text(options->name);
    w->spec = copy_text(options->spec == NULL ? inner->name : options->spec);
    w->log = options->log;
    w->log_ctx = options->log_ctx;
    pl_dump_run_dir(options->debug_dir, w->run_dir, sizeof(w->run_dir));
    w->dump = (pl_dump){ .level = options->level,
                         .run_dir = w->run_dir,
                         .name = w->name,
                         .backend = w->spec,
                         .no_data = options->no_data != 0 };
    w->vtable = *inner;
    w->vtable.n_bytes = sizeof(plumb_backend);
    w->vtable.flags = inner->flags & ~(uint32_t)PLUMB_TAKES_GRAPH;
    w->vtable.open = NULL;
    w->vtable.close = NULL;
    w->vtable.compile = compile;
    w->vtable.run = run;
    w->vtable.free = free_program;
    if (inner->version != NULL) w->vtable.version = version;
    if (inner->supports != NULL) w->vtable.supports = supports;
    if (inner->record_modes != NULL) w->vtable.record_modes = record_modes;
    if (inner->executed != NULL) w->vtable.executed = executed;
    if (inner->synchronize != NULL) w->vtable.synchronize = synchronize;
    *out = w;
    return PLUMB_OK;
}

const plumb_backend *plumb_wrapped_backend(const plumb_wrapped *wrapped) {
    return wrapped == NULL ? NULL : &wrapped->vtable;
}

void plumb_wrapped_free(plumb_wrapped *w) {
    if (w == NULL) return;
    pl_free(w->name);
    pl_free(w->spec);
    pl_free(w);
}
