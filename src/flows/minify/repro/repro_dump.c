/* Repro levels: a checkpoint of the model before or after a run fails.
 *
 * DIR/run_TIME-PID/checkpoints/NODES[-k]/, and ./repro as a copy of the newest (repro_copy.c). A
 * dump never hides the original error: the caller reports that first, and problems here are only
 * messages. */
#include "flows/minify/repro/repro_dump.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/door.h"
#include "flows/api/options.h"
#include "flows/inputs.h"
#include "flows/minify/repro/repro.h"
#include "flows/prepare.h"
#include "graph/edit.h"
#include "ops/infer.h"

void pl_dump_run_dir(const char *debug_dir, char *out, size_t n_out) {
    char stamp[40];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(stamp, sizeof(stamp), "%Y_%m_%d_%H_%M_%S", &local);
    snprintf(out, n_out, "%s/run_%s_%06ld-%ld", debug_dir == NULL ? "plumb-debug" : debug_dir,
             stamp, now.tv_nsec / 1000, (long)getpid());
}

pl_status pl_dump_write(const pl_dump *d, pl_model *model, pl_datum *const *in,
                        const pl_signature *signature, char *path, size_t n_path, pl_buf *log,
                        pl_err *err) {
    const size_t n_nodes = pl_model_count_nodes(model);
    char folder[3800], copy[32];
    pl_buf notes = PL_BUF_INIT;
    pl_err trouble = PL_ERR_INIT;
    const pl_repro repro = { .model = model,
                             .in = in,
                             .backend = d->backend,
                             .command = d->level >= 2 ? "minify" : "run",
                             .source = model->path,
                             .signature = signature,
                             .no_data = d->no_data,
                             .seed = d->seed,
                             .timeout = d->timeout,
                             .threads = d->threads,
                             .eval = d->context.eval != 0,
                             .amp = d->context.amp,
                             .backward = d->context.backward != 0,
                             .rule = d->rule };
    snprintf(folder, sizeof(folder), "%.3000s/checkpoints%s%.200s", d->run_dir,
             d->name == NULL ? "" : "/", d->name == NULL ? "" : d->name);
    snprintf(path, n_path, "%s/%zu", folder, n_nodes);
    for (int k = 1; pl_path_exists(path) && k < 10000; k++)
        snprintf(path, n_path, "%s/%zu-%d", folder, n_nodes, k);
    pl_status st = pl_repro_write(&repro, path, &notes, err);
    if (st == PL_OK) {
        pl_buf_printf(log, "Writing checkpoint with %zu nodes to %s\n", n_nodes, path);
        if (d->level >= 2) pl_buf_printf(log, "Minify it with: %s/run.sh minify\n", path);
        if (pl_repro_copy(&repro, copy, sizeof(copy), &trouble) != PL_OK) {
            pl_buf_printf(log, "./repro is not a copy of it: %s\n", trouble.message);
        } else if (strcmp(copy, "repro") != 0) {
            pl_buf_printf(log, "./%s is a copy of it (./repro already exists)\n", copy);
        }
    }
    pl_buf_release(&notes);
    return st;
}

/* ---- plumb_repro_dump ---- */

/* The model as the backend gets it; if that cannot be made, the original, with a note. */
static pl_status write_prepared(pl_dump *d, pl_model *model, pl_datum *const *in, pl_buf *log,
                                pl_err *err) {
    char path[4096];
    pl_prepared prepared = { .changes = PL_CHANGES_INIT };
    pl_err trouble = PL_ERR_INIT;
    const bool plain = pl_context_is_plain(&d->context);
    pl_status st =
        plain ? PL_OK
              : pl_context_prepare(&d->context, model, in, d->seed, NULL, &prepared, &trouble);
    if (st == PL_OK && !plain) {
        st = pl_dump_write(d, prepared.model, prepared.in, NULL, path, sizeof(path), log, err);
    } else {
        if (st != PL_OK) {
            pl_buf_printf(log, "The checkpoint holds the model as it was given: %s\n",
                          trouble.message);
            d->context = (plumb_context){ 0 };
        }
        st = pl_dump_write(d, model, in, NULL, path, sizeof(path), log, err);
    }
    pl_prepared_release(&prepared);
    return st;
}

/* Levels 1 and 2 write when something fails, without being asked: limit the size. */
enum { UNASKED_LEVEL = 2 };
#define UNASKED_BYTES (UINT64_C(256) << 20)

static uint64_t weight_bytes(const pl_graph *graph) {
    uint64_t n = 0;
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i]->init != NULL) n += pl_tensor_bytes(graph->values[i]->init);
    return n;
}

static bool is_too_large(const plumb_model *m, const plumb_repro_options *o, pl_buf *log) {
    const uint64_t n_bytes = weight_bytes(m->model->graph);
    if (o->level > UNASKED_LEVEL || n_bytes <= UNASKED_BYTES) return false;
    pl_buf_printf(log,
                  "No checkpoint: the model has %.1f GB of weights; repro level 3 writes one, "
                  "`plumb minify` works on the model as it is\n",
                  1e-9 * (double)n_bytes);
    return true;
}

static pl_status dump(const plumb_model *m, const plumb_repro_options *o, pl_buf *log,
                      pl_err *err) {
    char run_dir[3600];
    pl_model *copy = NULL;
    if (is_too_large(m, o, log)) return PL_OK;
    pl_dump_run_dir(o->debug_dir, run_dir, sizeof(run_dir));
    pl_dump d = { .level = o->level,
                  .run_dir = run_dir,
                  .name = o->name,
                  .backend = pl_backend_spec_or_default(o->backend),
                  .no_data = o->no_data != 0,
                  .seed = o->inputs->seed,
                  .timeout = o->timeout,
                  .threads = o->threads,
                  .context = *o->context,
                  .rule = { .accuracy = o->accuracy != 0,
                            .strict = o->strict != 0,
                            .profile = o->profile,
                            .same = o->same,
                            .tol = o->tol } };
    PL_TRY(pl_model_copy(m->model, &copy, err));
    pl_datum **in = pl_calloc(copy->graph->n_inputs + 1, sizeof(pl_datum *));
    pl_status st = in == NULL ? pl_fail_memory(err, 1) : PL_OK;
    pl_err trouble = PL_ERR_INIT;
    pl_ops_resolve(copy, NULL); /* generated inputs follow what operators expect */
    if (st == PL_OK && (!d.no_data || o->context->backward) &&
        pl_inputs_make(copy, o->inputs, in, &trouble) != PL_OK) {
        pl_buf_printf(log, "The checkpoint has no inputs: %s\n", trouble.message);
    }
    if (st == PL_OK) st = write_prepared(&d, copy, in, log, err);
    for (size_t i = 0; in != NULL && i < copy->graph->n_inputs; i++)
        pl_datum_unref(in[i]);
    pl_free(in);
    pl_model_free(copy);
    return st;
}

plumb_status plumb_repro_dump(const plumb_model *model, const plumb_repro_options *options,
                              char **text, plumb_error *err) {
    plumb_repro_options o;
    plumb_inputs inputs;
    plumb_context context;
    pl_buf log = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_REPRO, options, &o, err));
    PL_TRY(pl_inputs_read(&o.inputs, &inputs, err));
    PL_TRY(pl_context_read(&o.context, &context, err));
    pl_status st = dump(model, &o, &log, err);
    if (st == PL_OK) st = pl_api_text_take(&log, text, err);
    pl_buf_release(&log);
    return st;
}

plumb_status plumb_repro_read(const char *folder, plumb_repro_info *out, plumb_error *err) {
    pl_repro_info info;
    PL_REQUIRE(folder);
    PL_REQUIRE(out);
    pl_arena *arena = pl_arena_new();
    char *path = pl_path_join(folder, "repro.json");
    pl_dir *dir = NULL;
    pl_status st = arena == NULL || path == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK && (pl_dir_open(folder, &dir, NULL) != PL_OK ||
                        pl_dir_look(dir, "repro.json", NULL) == PL_KIND_NONE)) {
        st = pl_fail(err, PL_E_NOT_FOUND, "'%s' is not a repro", folder);
    }
    pl_dir_close(dir);
    if (st == PL_OK) st = pl_repro_read_info(path, arena, &info, err);
    if (st == PL_OK) {
        plumb_repro_info x = { .seed = info.seed,
                               .threads = info.threads,
                               .timeout = info.timeout,
                               .eval = info.eval,
                               .backward = info.backward };
        snprintf(x.amp, sizeof(x.amp), "%s", info.amp);
        if (!pl_struct_fill(out, &x, sizeof(x)))
            st = pl_fail(err, PL_E_USAGE, "plumb_repro_info.size is not set");
    }
    pl_free(path);
    pl_arena_free(arena);
    return st;
}
