/* A sweep over the operator table: every sample of every row, and its odd neighbours. An optional
 * input left out, a dim of 0 or 1, a scalar, one dim more, every declared type, an output without a
 * name, an attribute left out or odd. Each goes through the shape rule, the interpreter, fp64, the
 * replay with bounds, the gradient and jit's lowering and emission (no compiler is started).
 * Refusing is fine; crashing is not, and neither is a result that depends on what malloc gave:
 * everything runs with two fills.
 *
 * The work is done in children, so that a crash is one finding and not the end. PLUMB_SWEEP=full:
 * all pairs of changes, too.
 * PLUMB_SWEEP_PART=I/N takes the I-th of N parts (tests/campaign does so), PLUMB_SWEEP_OP=Name one
 * operator.
 *
 * slow: the odd neighbours of every operator */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/file.h"
#include "flows/inputs.h"
#include "graph/edit.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "ops/infer.h"
#include "passes/backward.h"
#include "sanitized.h"

enum { MAX_PORTS = 64, SECONDS_PER_CASE = 20 };

/* A model may ask for any amount of memory. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=512";
}

/* ---- what may be varied ---- */

typedef enum change_kind {
    NOTHING,
    OMIT_INPUT,  /* of the node */
    OMIT_OUTPUT, /* of the node */
    DIM_0,       /* of a source: an input of the graph, or an initializer */
    DIM_1,
    SCALAR,
    ONE_MORE,
    TYPE,     /* of a source, and of all sources that had the same */
    NO_ATTR,  /* of the node: left out */
    ODD_ATTR, /* one of the values below; a declared one that it did not have is added */
} change_kind;

typedef struct change {
    change_kind kind;
    size_t port; /* of the node, number of the source, or of the row's attribute */
    int at;      /* dim, type, or which odd value */
} change;

typedef struct sweep { /* shared with the children */
    size_t next, n_cases, n_all, n_ran, n_refused, n_bad;
    char name[600];
} sweep;

typedef struct sweeping {
    sweep *s;
    size_t from, at; /* cases before `from` were done by another child */
    size_t part, n_parts;
    const pl_op_def *row;
    const pl_sample *sample;
} sweeping;

static const char *kind_name(change_kind kind) {
    static const char *const names[] = { "as it is", "no input", "no output", "0 at",    "1 at",
                                         "scalar",   "one more", "type",      "no attr", "attr" };
    return names[kind];
}

/* ---- making a case ---- */

static pl_model *parse(const sweeping *w) {
    pl_model *model = NULL;
    const char *domain = w->row->domain == NULL ? "" : w->row->domain;
    const int since = w->row->since;
    if (pl_model_parse_graph(w->sample->graph, domain[0] == 0 ? since : 17, &model, NULL) != PL_OK)
        return NULL;
    if (domain[0] != 0) {
        (void)pl_model_set_opset(model, domain, since, NULL);
        for (size_t i = 0; i < model->graph->n_nodes; i++)
            if (strcmp(model->graph->nodes[i]->domain, domain) == 0)
                model->graph->nodes[i]->opset = since;
    }
    return model;
}

static pl_node *node_of(const sweeping *w, const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if (strcmp(model->graph->nodes[i]->op, w->row->name) == 0) return model->graph->nodes[i];
    return NULL;
}

/* Inputs of the graph, then initializers; NULL past the end. */
static pl_value *source_at(const pl_model *model, size_t i) {
    const pl_graph *graph = model->graph;
    if (i < graph->n_inputs) return graph->inputs[i];
    i -= graph->n_inputs;
    for (size_t k = 0; k < graph->n_values; k++)
        if (graph->values[k]->init != NULL && !graph->values[k]->is_input && i-- == 0)
            return graph->values[k];
    return NULL;
}

static bool shape_of(const pl_value *v, pl_dtype *dtype, int *rank, int64_t *dims) {
    if (v->init != NULL) {
        *dtype = v->init->dtype;
        *rank = v->init->rank;
        memcpy(dims, v->init->dims, sizeof(int64_t) * PL_RANK_MAX);
        return true;
    }
    if (v->type == NULL || v->type->kind != PL_TYPE_TENSOR || !v->type->has_rank) return false;
    *dtype = v->type->dtype;
    *rank = v->type->rank;
    for (int d = 0; d < *rank; d++)
        dims[d] = pl_dim_known(v->type->dims[d]) ? v->type->dims[d].value : 1;
    return true;
}

/* An initializer keeps as many of its elements as fit. */
static void set_source(pl_model *model, pl_value *v, pl_dtype dtype, int rank,
                       const int64_t *dims) {
    pl_dim typed[PL_RANK_MAX];
    pl_tensor *t = NULL, *cast = NULL;
    if (v->init == NULL) {
        for (int d = 0; d < rank; d++)
            typed[d] = pl_dim_of(dims[d]);
        v->type = pl_type_tensor(model->arena, dtype, rank, typed);
        return;
    }
    if (v->init->dtype == PL_STRING || dtype == PL_STRING) return;
    if (pl_tensor_cast(v->init, dtype, &cast, NULL) != PL_OK) return;
    if (pl_tensor_new_zero(dtype, rank, dims, &t, NULL) == PL_OK) {
        const size_t have = pl_tensor_bytes(cast), want = pl_tensor_bytes(t);
        const size_t n = have < want ? have : want;
        if (n > 0) memcpy(t->data, cast->data, n);
        for (int d = 0; d < rank; d++)
            typed[d] = pl_dim_of(dims[d]);
        v->type = pl_type_tensor(model->arena, dtype, rank, typed); /* as the reader does */
        v->init = t;
        (void)pl_model_keep_tensor_take(model, t, NULL);
    }
    pl_tensor_unref(cast);
}

static void vary_source(pl_model *model, const change *c) {
    pl_value *v = source_at(model, c->port);
    pl_dtype dtype, before;
    int rank;
    int64_t dims[PL_RANK_MAX] = { 0 };
    if (v == NULL || !shape_of(v, &dtype, &rank, dims)) return;
    before = dtype;
    if (c->kind == DIM_0 || c->kind == DIM_1) dims[c->at] = c->kind == DIM_1;
    if (c->kind == SCALAR) rank = 0;
    if (c->kind == ONE_MORE && rank < PL_RANK_MAX) {
        memmove(dims + 1, dims, sizeof(int64_t) * (size_t)rank++);
        dims[0] = 1;
    }
    if (c->kind != TYPE) {
        set_source(model, v, dtype, rank, dims);
        return;
    }
    for (size_t i = 0; (v = source_at(model, i)) != NULL; i++)
        if (shape_of(v, &dtype, &rank, dims) && dtype == before)
            set_source(model, v, (pl_dtype)c->at, rank, dims);
}

/* ---- attributes ---- */

static const int64_t odd_ints[] = { 0, -1, 1, 2, 7, INT64_MAX, INT64_MIN };
static const float odd_floats[] = { 0, -1, 1e38F, INFINITY, NAN };
enum {
    N_INTS = sizeof(odd_ints) / sizeof(odd_ints[0]),
    N_FLOATS = sizeof(odd_floats) / sizeof(odd_floats[0]),
    LONGER = N_INTS, /* lists: one number more, one less, none; else the last one is odd */
    SHORTER = N_INTS + 1,
    EMPTY = N_INTS + 2,
    N_LISTS = N_INTS + 3
};

/* How many odd values there are for it. */
static int n_odd(pl_attr_type type) {
    switch (type) {
    case PL_ATTR_INT: return N_INTS;
    case PL_ATTR_FLOAT: return N_FLOATS;
    case PL_ATTR_INTS: return N_LISTS;
    case PL_ATTR_STRING: return 2;
    default: return 0;
    }
}

static size_t index_of_attr(const pl_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0) return i;
    return SIZE_MAX;
}

static void odd_list(pl_model *model, pl_attr *attr, int which) {
    size_t n = attr->n + (which == LONGER) - (which == SHORTER && attr->n > 0);
    int64_t *ints = pl_arena_alloc(model->arena, (attr->n + 2) * sizeof(int64_t));
    if (ints == NULL) return;
    for (size_t i = 0; i < attr->n; i++)
        ints[i] = attr->ints[i];
    if (which == LONGER) ints[attr->n] = 1;
    if (which == EMPTY) n = 0;
    if (which < N_INTS && n == 0) n = 1;
    if (which < N_INTS) ints[n - 1] = odd_ints[which];
    attr->ints = ints;
    attr->n = n;
}

static void vary_attr(const sweeping *w, pl_model *model, const change *c) {
    pl_node *node = node_of(w, model);
    const pl_op_attr *declared = &w->row->attrs[c->port];
    const size_t at = index_of_attr(node, declared->name);
    if (c->kind == NO_ATTR) {
        if (at == SIZE_MAX) return;
        node->attrs[at] = node->attrs[node->n_attrs - 1];
        node->n_attrs--;
        return;
    }
    pl_attr *attr =
        at != SIZE_MAX ? &node->attrs[at] : pl_node_add_attr(node, declared->name, declared->type);
    if (attr == NULL || attr->type != declared->type) return;
    if (attr->type == PL_ATTR_INT) attr->i = odd_ints[c->at];
    if (attr->type == PL_ATTR_FLOAT) attr->f = odd_floats[c->at];
    if (attr->type == PL_ATTR_STRING)
        attr->s = c->at == 0 ? (pl_string){ "", 0 } : (pl_string){ "none of these", 13 };
    if (attr->type == PL_ATTR_INTS) odd_list(model, attr, c->at);
}

/* A value that another node reads cannot go. */
static bool is_read(const pl_graph *graph, const pl_value *value) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->n_in; k++)
            if (graph->nodes[i]->in[k] == value) return true;
    return false;
}

static void vary(const sweeping *w, pl_model *model, const change *c) {
    pl_node *node = node_of(w, model);
    pl_graph *graph = model->graph;
    if (c->kind == OMIT_INPUT && c->port < node->n_in) node->in[c->port] = NULL;
    if (c->kind == OMIT_OUTPUT && c->port < node->n_out && node->out[c->port] != NULL &&
        graph->n_inputs > 0 && !is_read(graph, node->out[c->port])) {
        pl_value *gone = node->out[c->port];
        node->out[c->port] = NULL;
        gone->producer = NULL;
        for (size_t i = 0; i < graph->n_outputs; i++) { /* something must come out */
            if (graph->outputs[i] != gone) continue;
            graph->outputs[i] = graph->inputs[0];
            graph->inputs[0]->is_output = true;
            gone->is_output = false;
        }
    }
    if (c->kind >= NO_ATTR) {
        vary_attr(w, model, c);
    } else if (c->kind >= DIM_0) {
        vary_source(model, c);
    }
}

/* ---- running a case ---- */

static void complain(sweeping *w, const char *what, const char *why) {
    w->s->n_bad++;
    fprintf(stderr, "%s: %s%s%s\n", w->s->name, what, why[0] != '\0' ? ": " : "", why);
}

typedef struct outcome {
    pl_status st;
    pl_err err;
    pl_datum *out[MAX_PORTS];
    size_t n;
} outcome;

static void release(outcome *o) {
    for (size_t i = 0; i < o->n; i++)
        pl_datum_unref(o->out[i]);
}

static pl_status make_inputs(const sweeping *w, const pl_model *model, pl_datum **in) {
    char text[256] = "";
    const char *ranges[16];
    plumb_inputs source = { .seed = 1, .ranges = ranges };
    if (w->sample->ranges != NULL) snprintf(text, sizeof(text), "%s", w->sample->ranges);
    for (char *word = strtok(text, " "); word != NULL && source.n_ranges < 16;
         word = strtok(NULL, " "))
        ranges[source.n_ranges++] = word;
    return pl_inputs_make(model, &source, in, NULL);
}

static void interpret(pl_model *model, pl_datum *const *in, bool fp64, outcome *o) {
    const pl_interp_options options = { .seed = 1, .fp64 = fp64 };
    pl_interp *interp = NULL;
    o->n = model->graph->n_outputs;
    o->st = pl_interp_new(model, &options, &interp, &o->err);
    if (o->st == PL_OK) o->st = pl_interp_run(interp, in, o->out, &o->err);
    pl_interp_free(interp);
}

static void run_interp(pl_model *model, pl_datum *const *in, outcome *o) {
    interpret(model, in, false, o);
}

static void run_fp64(pl_model *model, pl_datum *const *in, outcome *o) {
    interpret(model, in, true, o);
}

/* Values, then bounds as tensors. */
static void run_replay(pl_model *model, pl_datum *const *in, outcome *o) {
    const pl_replay_options options = { .seed = 1 };
    const pl_graph *graph = model->graph;
    pl_replay *replay = NULL;
    o->st = pl_replay_new(model, &options, &replay, &o->err);
    for (size_t i = 0; i < graph->n_inputs && o->st == PL_OK; i++)
        if (in[i] != NULL) o->st = pl_replay_put(replay, graph->inputs[i], in[i], NULL, &o->err);
    for (size_t i = 0; i < graph->n_nodes && o->st == PL_OK; i++)
        o->st = pl_replay_node(replay, graph->nodes[i], &o->err);
    for (size_t i = 0; i < graph->n_outputs && o->st == PL_OK; i++) {
        const pl_datum *d = pl_replay_get(replay, graph->outputs[i]);
        const pl_tensor *bound = pl_replay_bound(replay, graph->outputs[i]);
        if (d != NULL) o->out[o->n] = pl_datum_ref(d);
        o->n += d != NULL;
        if (bound != NULL)
            (void)pl_datum_of_tensor_take(pl_tensor_ref((pl_tensor *)(uintptr_t)bound),
                                          &o->out[o->n], NULL);
        o->n += bound != NULL;
    }
    pl_replay_free(replay);
}

/* Runs it with two fills; what comes out must be the same. */
static void run_twice(sweeping *w, const char *what, pl_model *model, pl_datum *const *in,
                      void (*run)(pl_model *model, pl_datum *const *in, outcome *o)) {
    outcome a = { .st = PL_OK }, b = { .st = PL_OK };
    mallopt(M_PERTURB, 0x55);
    run(model, in, &a);
    mallopt(M_PERTURB, 0xc3);
    run(model, in, &b);
    mallopt(M_PERTURB, 0);
    w->s->n_ran += a.st == PL_OK;
    w->s->n_refused += a.st != PL_OK;
    if (a.st == PL_E_INTERNAL) complain(w, what, a.err.message);
    if (a.st != b.st || a.n != b.n) complain(w, what, "one of two runs fails");
    for (size_t i = 0; i < a.n && a.st == PL_OK && b.st == PL_OK && a.n == b.n; i++) {
        if (pl_datum_identical(a.out[i], b.out[i])) continue;
        complain(w, what, "two runs differ: memory that was not set");
        break;
    }
    release(&a);
    release(&b);
}

static void run_gradient(sweeping *w, const pl_model *model) {
    pl_model *joint = NULL;
    pl_datum *in[MAX_PORTS] = { NULL };
    pl_err err = PL_ERR_INIT;
    const pl_status st = pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, &err);
    if (st == PL_E_INTERNAL) complain(w, "gradient", err.message);
    if (st == PL_OK && joint->graph->n_inputs <= MAX_PORTS &&
        joint->graph->n_outputs <= MAX_PORTS / 2 && pl_ops_resolve(joint, NULL) == PL_OK &&
        make_inputs(w, joint, in) == PL_OK) {
        run_twice(w, "gradient", joint, in, run_interp);
    }
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_datum_unref(in[i]);
    pl_model_free(joint);
}

/* There is no compiler in the path: what fails after the emission does not count. */
static void run_jit(pl_model *model, pl_datum *const *in) {
    pl_backend *jit = NULL;
    pl_program *program = NULL;
    pl_datum *out[MAX_PORTS] = { NULL };
    if (pl_backend_open("jit", NULL, &jit, NULL) == PL_OK &&
        pl_program_new(jit, model, NULL, &program, NULL) == PL_OK) {
        (void)pl_program_run(program, in, out, NULL);
    }
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_datum_unref(out[i]);
    pl_program_free(program);
    pl_backend_close(jit);
}

static void run_case(sweeping *w, const change *a, const change *b) {
    if (w->at++ < w->from || w->at % w->n_parts != w->part) return;
    snprintf(w->s->name, sizeof(w->s->name), "%s-%d, %s %zu %d, %s %zu %d: %.400s", w->row->name,
             w->row->since, kind_name(a->kind), a->port, a->at, kind_name(b->kind), b->port, b->at,
             w->sample->graph);
    w->s->next = w->at;
    w->s->n_cases++;
    alarm(SECONDS_PER_CASE);
    pl_model *model = parse(w);
    pl_datum *in[MAX_PORTS] = { NULL };
    if (model == NULL || node_of(w, model) == NULL) goto done;
    vary(w, model, a);
    vary(w, model, b);
    const bool ok = pl_ops_resolve(model, NULL) == PL_OK &&
                    pl_model_infer(model, NULL, NULL) == PL_OK &&
                    model->graph->n_inputs <= MAX_PORTS &&
                    model->graph->n_outputs <= MAX_PORTS / 2 && make_inputs(w, model, in) == PL_OK;
    w->s->n_refused += !ok;
    if (ok) {
        run_twice(w, "eager", model, in, run_interp);
        run_twice(w, "fp64", model, in, run_fp64);
        run_twice(w, "bound", model, in, run_replay);
        run_gradient(w, model);
        run_jit(model, in);
    }
done:
    alarm(0);
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_datum_unref(in[i]);
    pl_model_free(model);
}

/* ---- all cases ---- */

enum { MAX_CHANGES = 600 };

static size_t list_attr_changes(const sweeping *w, const pl_node *node, change *out, size_t n) {
    const pl_op_attr *attrs = w->row->attrs;
    for (size_t i = 0; attrs != NULL && attrs[i].name != NULL; i++) {
        if (index_of_attr(node, attrs[i].name) != SIZE_MAX && n < MAX_CHANGES)
            out[n++] = (change){ NO_ATTR, i, 0 };
        for (int k = 0; k < n_odd(attrs[i].type) && n < MAX_CHANGES; k++)
            out[n++] = (change){ ODD_ATTR, i, k };
    }
    return n;
}

static size_t list_changes(const sweeping *w, change *out) {
    size_t n = 0;
    pl_model *model = parse(w);
    const pl_node *node = model == NULL ? NULL : node_of(w, model);
    const pl_value *v = NULL;
    out[n++] = (change){ NOTHING, 0, 0 };
    /* A Loop without a count or a condition may be endless, rightly. */
    const bool may_hang = node != NULL && strcmp(node->op, "Loop") == 0;
    for (uint32_t i = may_hang ? 2 : 0; node != NULL && i < node->n_in && n < MAX_CHANGES; i++)
        out[n++] = (change){ OMIT_INPUT, i, 0 };
    for (uint32_t i = 0; node != NULL && i < node->n_out && n < MAX_CHANGES; i++)
        out[n++] = (change){ OMIT_OUTPUT, i, 0 };
    for (size_t i = 0; node != NULL && (v = source_at(model, i)) != NULL; i++) {
        pl_dtype dtype;
        int rank;
        int64_t dims[PL_RANK_MAX];
        if (!shape_of(v, &dtype, &rank, dims)) continue;
        for (int d = 0; d < rank && n + 2 < MAX_CHANGES; d++) {
            out[n++] = (change){ DIM_0, i, d };
            if (dims[d] != 1) out[n++] = (change){ DIM_1, i, d };
        }
        if (rank > 0 && n < MAX_CHANGES) out[n++] = (change){ SCALAR, i, 0 };
        if (n < MAX_CHANGES) out[n++] = (change){ ONE_MORE, i, 0 };
        for (int t = 1; t <= PL_BF16 && n < MAX_CHANGES; t++)
            if (t != (int)dtype && t != PL_STRING && (w->row->in[0].types >> t & 1) != 0)
                out[n++] = (change){ TYPE, i, t };
    }
    if (node != NULL) n = list_attr_changes(w, node, out, n);
    pl_model_free(model);
    return n;
}

static void sweep_all(sweep *s, size_t from) {
    static change changes[MAX_CHANGES];
    const char *only = getenv("PLUMB_SWEEP_OP"), *size = getenv("PLUMB_SWEEP");
    const bool pairs = size != NULL && strcmp(size, "full") == 0;
    sweeping w = { .s = s, .from = from, .n_parts = 1 };
    const char *part = getenv("PLUMB_SWEEP_PART");
    if (part != NULL && (sscanf(part, "%zu/%zu", &w.part, &w.n_parts) != 2 || w.n_parts == 0))
        w.n_parts = 1;
    for (size_t i = 0; (w.row = pl_op_at(i)) != NULL; i++) {
        if (only != NULL && strcmp(only, w.row->name) != 0) continue;
        for (w.sample = w.row->samples; w.sample->graph != NULL; w.sample++) {
            const size_t n = list_changes(&w, changes);
            for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b < (pairs && a > 0 ? a : 1); b++)
                    run_case(&w, &changes[a], &changes[b]);
        }
    }
    s->n_all = w.at;
}

/* No compiler, and a cache that goes away. */
static void scrub(const char *cache) {
    const struct rlimit memory = { UINT64_C(4) << 30, UINT64_C(4) << 30 };
    const struct rlimit core = { 0, 0 };
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGSYS };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        signal(faults[i], SIG_DFL); /* cmocka would go on in the child */
    setenv("PATH", "/nonexistent", 1);
    setenv("XDG_CACHE_HOME", cache, 1);
    if (!SANITIZED) (void)setrlimit(RLIMIT_AS, &memory); /* its shadow alone is larger */
    (void)setrlimit(RLIMIT_CORE, &core);
}

static void test_sweep__nothing_crashes_or_depends_on_malloc(void **state) {
    char cache[64]; /* in memory: a busy disk takes a hundred times as long as the sweep */
    (void)state;
    snprintf(cache, sizeof(cache), "%s/plumb-sweep-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(cache));
    sweep *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    for (bool done = false; !done;) {
        const size_t from = s->next;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            scrub(cache);
            sweep_all(s, from);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (done) break;
        s->n_bad++;
        fprintf(stderr, "%s: %s %d\n", s->name, WIFSIGNALED(status) ? "signal" : "exit",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        assert_true(s->next > from); /* else it would never end */
    }
    fprintf(stderr, "%zu of %zu cases, %zu runs, %zu refused, %zu findings\n", s->n_cases, s->n_all,
            s->n_ran, s->n_refused, s->n_bad);
    (void)pl_dir_remove(cache, NULL);
    assert_int_equal(s->n_bad, 0);
    assert_true(s->n_ran > s->n_cases / 2 || getenv("PLUMB_SWEEP_OP") != NULL);
    munmap(s, sizeof(*s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweep__nothing_crashes_or_depends_on_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
