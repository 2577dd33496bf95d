/* Fuzz target: whole models, changed by edits that know what a model is (onnx_edits.h), through
 * everything a command does with one: info, convert and back, run (eager, fp64, bounds, jit up to
 * the emitted C), gradients, passes, analyze, minify. Loops included: runs have a deadline.
 *
 * Seeds come from the operator table, whose samples are also what models are crossed with. */
#include <plumb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "onnx/onnx.h"
#include "onnx_edits.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/backward.h"

enum {
    NODES_MAX = 60,
    ELEMENTS_MAX = 20000,
    ELEMENTS_OF_RUN = 300000,
    RUN_SECONDS = 1, /* several runs for each mutant, and 10 s for all: tests/run */
    PORTS_MAX = 64,
    SEED = 1,
    ANALYZE_EVERY = 16, /* of the mutants, by their bytes */
    MINIFY_EVERY = 64,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *n_args, char ***args);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
const char *__asan_default_options(void);

/* A legal model may ask for any amount of memory; here it is refused early. */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static char work[64]; /* for what jit and minify write, in memory where that can be */

static void remove_work(void) {
    (void)pl_dir_remove(work, NULL);
}

/* jit finds no compiler: what it emits is enough. */
int LLVMFuzzerInitialize(int *n_args, char ***args) {
    (void)n_args, (void)args;
    snprintf(work, sizeof(work), "%s/plumb-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(work) == NULL) return 1;
    setenv("PATH", "/nonexistent", 1);
    setenv("XDG_CACHE_HOME", work, 1);
    setenv("TMPDIR", work, 1);
    return atexit(remove_work);
}

/* ---- mutants ---- */

static tree the_tree;

/* Samples of the table as bytes, each made when it is first asked for: making one takes as long as
 * the mutant. */
typedef struct donor {
    const pl_op_def *row;
    const char *text;
    pl_buf bytes;
    bool made;
} donor;

static struct {
    donor *all;
    size_t n, capacity;
} donors;

static pl_status list_donors(void) {
    const pl_op_def *row;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        for (size_t k = 0; row->samples[k].graph != NULL; k++) {
            if (!PL_ARRAY_ROOM(donors.all, donors.n, &donors.capacity)) return PL_E_MEMORY;
            donors.all[donors.n++] = (donor){ .row = row, .text = row->samples[k].graph };
        }
    }
    return PL_OK;
}

static pl_status make_donor(donor *d) {
    const char *domain = d->row->domain == NULL ? "" : d->row->domain;
    const int since = d->row->since;
    pl_model *model = NULL;
    d->made = true;
    PL_TRY(pl_model_parse_graph(d->text, domain[0] == '\0' ? since : 17, &model, NULL));
    pl_status st = domain[0] == '\0' ? PL_OK : pl_model_set_opset(model, domain, since, NULL);
    if (st == PL_OK) st = pl_model_serialize(model, &d->bytes, NULL);
    if (st != PL_OK) d->bytes.n_bytes = 0;
    pl_model_free(model);
    return st;
}

static const donor *pick_donor(uint64_t random) {
    if (donors.n == 0 && list_donors() != PL_OK) abort();
    donor *d = &donors.all[random % donors.n];
    if (!d->made) (void)make_donor(d);
    return d;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    the_tree.random = seed;
    const pl_buf *from = &pick_donor(tree_random(&the_tree))->bytes;
    const uint8_t *bytes = (const uint8_t *)pl_buf_str(from);
    size_t made = 0;
    if (tree_below(&the_tree, 32) != 0)
        made = edit_model(&the_tree, data, n, max, bytes, from->n_bytes, tree_random(&the_tree));
    if (made == 0 && from->n_bytes > 0 && from->n_bytes <= max && tree_below(&the_tree, 2) == 0) {
        memcpy(data, bytes, from->n_bytes);
        made = from->n_bytes;
    }
    if (made == 0) made = LLVMFuzzerMutate(data, n, max);
    return made;
}

/* ---- how much a model asks for ---- */

static bool type_is_small(const pl_type *type) {
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) return true;
    int64_t n = 1;
    for (int d = 0; d < type->rank; d++) {
        const int64_t dim = pl_dim_known(type->dims[d]) ? type->dims[d].value : 1;
        if (__builtin_mul_overflow(n, dim, &n) || n > ELEMENTS_MAX) return false;
    }
    return true;
}

static bool graph_is_small(const pl_graph *graph);

static pl_status check_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)ctx, (void)err;
    return graph_is_small(body) ? PL_OK : PL_E_LIMIT;
}

static bool graph_is_small(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (!type_is_small(value->type)) return false;
        if (value->init != NULL && value->init->n_elements > ELEMENTS_MAX) return false;
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (pl_node_each_body(graph->nodes[i], check_body, NULL, NULL) != PL_OK) return false;
    return true;
}

static bool is_small(const pl_model *model) {
    return pl_model_count_nodes(model) <= NODES_MAX && model->graph->n_inputs <= PORTS_MAX &&
           model->graph->n_outputs <= PORTS_MAX && graph_is_small(model->graph);
}

/* Ends a run that grows out of hand. */
static pl_status count_elements(void *ctx, const pl_node *node, const pl_value *value,
                                const pl_datum *datum, pl_err *err) {
    int64_t *left = ctx;
    (void)node, (void)value;
    *left -= datum->kind == PL_TYPE_TENSOR ? datum->tensor->n_elements + 1 : 100;
    return *left >= 0 ? PL_OK : pl_fail(err, PL_E_LIMIT, "enough");
}

/* ---- what is done with it ---- */

static void write_and_read(const pl_model *model) {
    pl_err err = PL_ERR_INIT;
    pl_buf buf = PL_BUF_INIT;
    pl_model *again = NULL;
    if (pl_model_serialize(model, &buf, &err) == PL_OK) {
        const pl_bytes bytes = { (const uint8_t *)pl_buf_str(&buf), buf.n_bytes };
        if (pl_model_read_bytes(bytes, NULL, NULL, "again", &again, &err) != PL_OK) {
            fprintf(stderr, "what was written cannot be read: %s\n", err.message);
            abort();
        }
    }
    pl_model_free(again);
    again = NULL;
    pl_buf_reset(&buf);
    if (pl_model_print(model, 1000, &buf, &err) == PL_OK)
        (void)pl_model_parse(pl_buf_str(&buf), buf.n_bytes, "text", &again, &err);
    pl_model_free(again);
    pl_buf_release(&buf);
}

/* Whether it came to its end in time. */
static bool run_interp(pl_model *model, pl_datum *const *in, bool fp64) {
    pl_err err = PL_ERR_INIT;
    pl_interp *interp = NULL;
    int64_t left = ELEMENTS_OF_RUN;
    pl_datum *out[PORTS_MAX * 4] = { NULL };
    const pl_interp_options options = { .fp64 = fp64,
                                        .seed = SEED,
                                        .hook = count_elements,
                                        .hook_ctx = &left,
                                        .deadline_ns =
                                            pl_clock_ns() + RUN_SECONDS * INT64_C(1000000000) };
    pl_status st = pl_interp_new(model, &options, &interp, &err);
    if (st == PL_OK) st = pl_interp_run(interp, in, out, &err);
    pl_interp_free(interp);
    for (size_t i = 0; i < PORTS_MAX * 4; i++)
        pl_datum_unref(out[i]);
    return st == PL_OK;
}

static bool has_bodies(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if ((model->graph->nodes[i]->def->flags & PL_OP_CONTROL) != 0) return true;
    return false;
}

static void run_bounds(pl_model *model, pl_datum *const *in) {
    const pl_replay_options options = { .seed = SEED };
    const pl_graph *graph = model->graph;
    pl_err err = PL_ERR_INIT;
    pl_replay *replay = NULL;
    int64_t left = ELEMENTS_OF_RUN;
    pl_status st = pl_replay_new(model, &options, &replay, &err);
    for (size_t i = 0; i < graph->n_inputs && st == PL_OK; i++)
        if (in[i] != NULL) st = pl_replay_put(replay, graph->inputs[i], in[i], NULL, &err);
    for (size_t i = 0; i < graph->n_nodes && st == PL_OK; i++) {
        const pl_node *node = graph->nodes[i];
        st = pl_replay_node(replay, node, &err);
        for (uint32_t k = 0; k < node->n_out && st == PL_OK; k++) {
            const pl_datum *d = node->out[k] == NULL ? NULL : pl_replay_get(replay, node->out[k]);
            if (d != NULL) st = count_elements(&left, node, node->out[k], d, &err);
        }
    }
    pl_replay_free(replay);
}

static void run_jit(pl_model *model, pl_datum *const *in) {
    pl_backend *jit = NULL;
    pl_program *program = NULL;
    pl_datum *out[PORTS_MAX + 1] = { NULL };
    if (pl_backend_open("jit", NULL, &jit, NULL) == PL_OK &&
        pl_program_new(jit, model, NULL, &program, NULL) == PL_OK)
        (void)pl_program_run(program, in, out, NULL);
    for (size_t i = 0; i <= PORTS_MAX; i++)
        pl_datum_unref(out[i]);
    pl_program_free(program);
    pl_backend_close(jit);
}

static void release_inputs(pl_datum **in, size_t n) {
    for (size_t i = 0; i < n; i++)
        pl_datum_unref(in[i]);
}

static void run_gradient(const pl_model *model) {
    const plumb_inputs source = { .seed = SEED };
    pl_model *joint = NULL;
    pl_err err = PL_ERR_INIT;
    pl_datum *in[PORTS_MAX * 4] = { NULL };
    if (pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, &err) == PL_OK &&
        joint->graph->n_inputs <= PORTS_MAX * 4 && joint->graph->n_outputs <= PORTS_MAX * 4 &&
        graph_is_small(joint->graph) && pl_ops_resolve(joint, &err) == PL_OK &&
        pl_inputs_make(joint, &source, in, &err) == PL_OK)
        (void)run_interp(joint, in, false);
    release_inputs(in, PORTS_MAX * 4);
    pl_model_free(joint);
}

/* Whether the commands come to an end with it: a body may run for ever, and replays, other backends
 * and analyze have no deadline of their own. What ended with these inputs ends again. */
static bool run_all(pl_model *model) {
    const plumb_inputs source = { .seed = SEED };
    bool ends = !has_bodies(model);
    pl_datum *in[PORTS_MAX] = { NULL };
    pl_err err = PL_ERR_INIT;
    if (pl_inputs_make(model, &source, in, &err) == PL_OK) {
        const bool ended = run_interp(model, in, false);
        ends = (run_interp(model, in, true) && ended) || ends;
        if (ends) {
            run_bounds(model, in);
            run_jit(model, in);
        }
    }
    release_inputs(in, PORTS_MAX);
    run_gradient(model);
    return ends;
}

/* ---- commands ---- */

static int in_time(void *ctx, const char *phase, int64_t done, int64_t total) {
    (void)phase, (void)done, (void)total;
    return pl_clock_ns() > *(const int64_t *)ctx;
}

static plumb_model *open_model(const uint8_t *data, size_t n) {
    plumb_model *model = NULL;
    return plumb_model_open_memory(data, n, NULL, &model, NULL) == PLUMB_OK ? model : NULL;
}

static void command_info(const uint8_t *data, size_t n) {
    plumb_model *model = open_model(data, n);
    for (int json = 0; json < 2 && model != NULL; json++) {
        plumb_info_options options;
        plumb_info_options_init(&options);
        char *text = NULL;
        options.format = json ? PLUMB_JSON : PLUMB_TEXT;
        options.nodes = 1;
        (void)plumb_info(model, &options, &text, NULL);
        plumb_free(text);
    }
    plumb_model_close(model);
}

static void command_transform(const uint8_t *data, size_t n) {
    plumb_model *model = open_model(data, n);
    if (model == NULL) return;
    plumb_transform_options options;
    plumb_transform_options_init(&options);
    char *text = NULL;
    options.eval = 1;
    options.amp = (data[n / 2] & 1) != 0 ? "fp16" : "bf16";
    options.fp64 = (data[n / 2] & 6) == 0;
    if (options.fp64) options.amp = NULL;
    (void)plumb_model_transform(model, &options, &text, NULL);
    plumb_free(text);
    plumb_model_close(model);
}

/* fp64 against the model's own types: another computation, in this process. */
static void command_analyze(const uint8_t *data, size_t n) {
    plumb_model *model = open_model(data, n);
    if (model == NULL) return;
    int64_t deadline = pl_clock_ns() + RUN_SECONDS * INT64_C(1000000000);
    const plumb_progress progress = { in_time, &deadline };
    const plumb_inputs inputs = { .seed = SEED };
    plumb_analyze_options options;
    plumb_analyze_options_init(&options);
    plumb_session *session = NULL;
    options.backend = "eager:fp64";
    options.threads = 1;
    options.inputs = &inputs;
    options.progress = &progress;
    (void)plumb_analyze(model, &options, &session, NULL);
    plumb_session_free(session);
    plumb_model_close(model);
}

/* What has one of its operators fails. */
static void command_minify(const uint8_t *data, size_t n, const char *op) {
    plumb_model *model = open_model(data, n);
    if (model == NULL) return;
    int64_t deadline = pl_clock_ns() + 2 * RUN_SECONDS * INT64_C(1000000000);
    const plumb_progress progress = { in_time, &deadline };
    const plumb_inputs inputs = { .seed = SEED };
    plumb_minify_options options;
    plumb_minify_options_init(&options);
    plumb_repro *repro = NULL;
    char check[200];
    snprintf(check, sizeof(check), "! /bin/grep -qa %.60s {model}", op);
    options.check = check;
    options.inputs = &inputs;
    options.threads = options.jobs = 1;
    options.max_queries = 24;
    options.max_time = RUN_SECONDS;
    options.progress = &progress;
    (void)plumb_minify(model, &options, &repro, NULL);
    plumb_repro_free(repro);
    plumb_model_close(model);
}

static bool is_plain(const char *op) {
    return op[0] != '\0' &&
           strspn(op, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") ==
               strlen(op);
}

static uint32_t number_of(const uint8_t *data, size_t n) { /* FNV-1a */
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ data[i]) * 16777619u;
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const pl_bytes bytes = { data, n };
    const pl_infer_options options = { 0 };
    const uint32_t number = number_of(data, n);
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_model_read_bytes(bytes, NULL, NULL, "fuzz", &model, &err) != PL_OK) return 0;
    write_and_read(model);
    command_info(data, n);
    command_transform(data, n);
    const bool runs = pl_ops_resolve(model, &err) == PL_OK &&
                      pl_model_infer(model, &options, &err) == PL_OK && is_small(model);
    const bool ends = runs && run_all(model);
    if (ends && number % ANALYZE_EVERY == 0) command_analyze(data, n);
    const char *op = model->graph->n_nodes == 0 ? "" : model->graph->nodes[0]->op;
    if (ends && number % MINIFY_EVERY == 0 && is_plain(op)) command_minify(data, n, op);
    pl_model_free(model);
    return 0;
}
