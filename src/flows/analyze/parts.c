/* Search by parts: the shortest failing prefix, then the longest start of it that the reference can
 * take over, then single nodes. */
#include "flows/analyze/parts.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/prepare.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "ops/op.h"

enum { MAX_QUERIES = 96, MAX_SINGLE = 32, MAX_PARTS = 4 };

typedef struct parts {
    pl_model *model;
    pl_datum *const *in;
    const pl_parts_options *options;
    pl_parts_found *out;
    pl_side_run reference; /* eager, every value */
    bool *constant;        /* by value id: depends on no input */
    size_t *items;         /* indices of the nodes that depend on one, in order */
    size_t n_items;
    bool *keep; /* by node index: the current part */
    double q;   /* of the last part that was wrong */
    const char *kind, *where, *reason;
} parts;

/* ---- constants ---- */

static bool is_constant(const parts *p, const pl_value *value) {
    if (value->producer == NULL) return value->init != NULL && !value->is_input;
    return p->constant[value->id];
}

/* Nodes that depend only on constants stay with their reader: as inputs they would change the
 * model. */
static void find_items(parts *p) {
    const pl_graph *graph = p->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        bool constant = !pl_node_has_body(node) && !pl_node_is_random(node);
        for (uint32_t k = 0; k < node->n_in && constant; k++)
            constant = node->in[k] == NULL || is_constant(p, node->in[k]);
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL) p->constant[node->out[k]->id] = constant;
        if (!constant) p->items[p->n_items++] = i;
    }
}

/* ---- one part ---- */

typedef struct border {
    const char **from, **to;
    size_t n_from, n_to;
    bool *seen, *read; /* by value id: in `from`; read by a node outside */
} border;

static void border_release(border *b) {
    pl_free(b->from);
    pl_free(b->to);
    pl_free(b->seen);
    pl_free(b->read);
}

typedef struct use {
    const parts *p;
    border *b;
    bool inside;
} use;

static void note_use(const use *u, const pl_value *value) {
    const parts *p = u->p;
    if (value == NULL || value->graph != p->model->graph) return;
    if (!u->inside) {
        u->b->read[value->id] = true;
        return;
    }
    const bool ours = value->producer != NULL && p->keep[value->producer->index];
    if (ours || is_constant(p, value) || u->b->seen[value->id]) return;
    u->b->seen[value->id] = true;
    u->b->from[u->b->n_from++] = value->name;
}

static pl_status note_body(void *ctx, pl_graph *body, pl_err *err) {
    for (size_t i = 0; i < body->n_nodes; i++) {
        for (uint32_t k = 0; k < body->nodes[i]->n_in; k++)
            note_use(ctx, body->nodes[i]->in[k]);
        PL_TRY(pl_node_each_body(body->nodes[i], note_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        note_use(ctx, body->outputs[i]);
    return PL_OK;
}

static pl_status find_border(const parts *p, border *b, pl_err *err) {
    const pl_graph *graph = p->model->graph;
    const size_t n = (size_t)p->model->n_values + 1;
    b->from = pl_calloc(n, sizeof(char *));
    b->to = pl_calloc(n, sizeof(char *));
    b->seen = pl_calloc(n, sizeof(bool));
    b->read = pl_calloc(n, sizeof(bool));
    if (b->from == NULL || b->to == NULL || b->seen == NULL || b->read == NULL)
        return pl_fail_memory(err, n);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        use u = { p, b, p->keep[i] };
        for (uint32_t k = 0; k < graph->nodes[i]->n_in; k++)
            note_use(&u, graph->nodes[i]->in[k]);
        PL_TRY(pl_node_each_body(graph->nodes[i], note_body, &u, err));
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        for (uint32_t k = 0; p->keep[i] && k < graph->nodes[i]->n_out; k++) {
            const pl_value *value = graph->nodes[i]->out[k];
            if (value == NULL || !(value->is_output || b->read[value->id])) continue;
            b->to[b->n_to++] = value->name;
        }
    }
    return PL_OK;
}

/* The reference's values, and the inputs of the model. */
static pl_status inputs_of(const parts *p, const pl_model *part, pl_datum **out, pl_err *err) {
    for (size_t i = 0; i < part->graph->n_inputs; i++) {
        const pl_value *value = pl_graph_find(p->model->graph, part->graph->inputs[i]->name);
        for (size_t k = 0; k < p->model->graph->n_inputs; k++)
            if (p->model->graph->inputs[k] == value && p->in[k] != NULL)
                out[i] = pl_datum_ref(p->in[k]);
        if (out[i] != NULL || value == NULL || p->reference.entry[value->id] == 0) continue;
        PL_TRY(pl_spool_get(p->reference.spool, p->reference.entry[value->id] - 1, &out[i], err));
    }
    return PL_OK;
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

static pl_status judge(parts *p, pl_model *part, pl_datum *const *in, pl_datum *const *out,
                       bool *bad, pl_err *err) {
    const pl_blame_options options = { .pool = p->options->pool,
                                       .seed = p->options->side.seed,
                                       .skip_gold = true };
    pl_side_run run = { .model = NULL };
    pl_blame found = { .arena = NULL };
    pl_status st = pl_side_run_prepare(&run, part, &p->options->side, err);
    for (size_t i = 0; i < part->graph->n_outputs && st == PL_OK; i++)
        if (out[i] != NULL && part->graph->outputs[i]->producer != NULL)
            st = pl_side_run_put(&run, part->graph->outputs[i], out[i], err);
    const pl_run_data data = pl_side_run_data(&run);
    if (st == PL_OK) st = pl_blame_run(part, in, &data, NULL, &options, &found, err);
    *bad = st == PL_OK && found.n_groups > 0;
    if (*bad) {
        p->q = found.groups[0].q;
        p->kind = pl_arena_strdup(p->options->arena, found.groups[0].kind);
        p->where = pl_arena_strdup(p->options->arena, found.groups[0].where);
        p->reason = pl_arena_strdup(p->options->arena, found.groups[0].reason);
        if (p->kind == NULL || p->where == NULL || p->reason == NULL) st = pl_fail_memory(err, 1);
    }
    pl_blame_release(&found);
    pl_side_run_release(&run);
    return st;
}

/* Is the part in p->keep wrong on the backend? A part that it refuses is not. */
static pl_status ask(parts *p, bool *bad, pl_err *err) {
    const pl_compile_options compile = { .seed = p->options->side.seed,
                                         .threads = p->options->side.threads,
                                         .any_shape = true };
    border b = { 0 };
    pl_model *part = NULL;
    pl_program *program = NULL;
    pl_datum **in = NULL, **out = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_status st = PL_OK;
    *bad = false;
    p->out->n_queries++;
    PL_TRY(pl_progress_step(p->options->side.progress, "parts of the model",
                            (int64_t)p->out->n_queries, 0, err));
    PL_TRY_GOTO(done, st, find_border(p, &b, err));
    if (b.n_to == 0) goto done;
    PL_TRY_GOTO(done, st, pl_model_cut(p->model, b.from, b.n_from, b.to, b.n_to, &part, err));
    PL_TRY_GOTO(done, st, pl_make_ready(part, PL_READY_TYPED, NULL, err));
    in = pl_calloc(part->graph->n_inputs + 1, sizeof(pl_datum *));
    out = pl_calloc(part->graph->n_outputs + 1, sizeof(pl_datum *));
    if (in == NULL || out == NULL) {
        st = pl_fail_memory(err, part->graph->n_inputs);
        goto done;
    }
    PL_TRY_GOTO(done, st, inputs_of(p, part, in, err));
    pl_status ran = pl_program_new(p->options->backend, part, &compile, &program, &trouble);
    if (ran == PL_OK) ran = pl_program_run(program, in, out, &trouble);
    if (ran == PL_E_MEMORY) st = pl_fail_memory(err, 0);
    p->out->n_refused += ran != PL_OK;
    if (st == PL_OK && ran == PL_OK) st = judge(p, part, in, out, bad, err);
done:
    drop(in, part == NULL ? 0 : part->graph->n_inputs);
    drop(out, part == NULL ? 0 : part->graph->n_outputs);
    pl_program_free(program);
    pl_model_free(part);
    border_release(&b);
    return st;
}

/* ---- the search ---- */

static bool is_spent(const parts *p) {
    const size_t most = p->options->max_queries == 0 ? MAX_QUERIES : p->options->max_queries;
    return p->out->n_queries >= most;
}

static pl_status ask_window(parts *p, size_t lo, size_t hi, bool *bad, pl_err *err) {
    memset(p->keep, 0, p->model->graph->n_nodes * sizeof(bool));
    for (size_t i = lo; i < hi; i++)
        p->keep[p->items[i]] = true;
    return ask(p, bad, err);
}

/* [lo, hi) is wrong: finds the shortest wrong window [*from, *to) in it, end first. */
static pl_status shrink(parts *p, size_t lo, size_t hi, size_t *from, size_t *to, pl_err *err) {
    size_t good = lo, bad = hi;
    bool wrong = false;
    while (bad - good > 1 && !is_spent(p)) {
        const size_t middle = good + (bad - good) / 2;
        PL_TRY(ask_window(p, lo, middle, &wrong, err));
        *(wrong ? &bad : &good) = middle;
    }
    *to = bad;
    bad = lo;
    good = *to;
    while (good - bad > 1 && !is_spent(p)) {
        const size_t middle = bad + (good - bad) / 2;
        PL_TRY(ask_window(p, middle, *to, &wrong, err));
        *(wrong ? &bad : &good) = middle;
    }
    *from = bad;
    return PL_OK;
}

/* Moves nodes inside the window one by one to the reference. */
static pl_status leave_out(parts *p, size_t from, size_t to, bool *chosen, bool *minimal,
                           pl_err *err) {
    for (size_t i = from; i < to; i++)
        chosen[i] = true;
    *minimal = to - from == 1;
    if (to - from == 1 || to - from > MAX_SINGLE) return PL_OK;
    for (size_t i = from; i < to && !is_spent(p); i++) {
        bool wrong = false;
        chosen[i] = false;
        memset(p->keep, 0, p->model->graph->n_nodes * sizeof(bool));
        for (size_t k = from; k < to; k++)
            if (chosen[k]) p->keep[p->items[k]] = true;
        PL_TRY(ask(p, &wrong, err));
        if (!wrong) chosen[i] = true;
    }
    *minimal = !is_spent(p);
    return PL_OK;
}

static pl_status add_part(parts *p, size_t from, size_t to, pl_err *err) {
    pl_guilty_part *part = &p->out->parts[p->out->n_parts];
    bool wrong = false;
    bool *chosen = pl_calloc(p->n_items + 1, sizeof(bool));
    if (chosen == NULL) return pl_fail_memory(err, p->n_items);
    pl_status st = leave_out(p, from, to, chosen, &part->minimal, err);
    part->nodes = pl_arena_array(p->options->arena, to - from, sizeof(pl_node *));
    if (st == PL_OK && part->nodes == NULL) st = pl_fail_memory(err, to - from);
    memset(p->keep, 0, p->model->graph->n_nodes * sizeof(bool));
    for (size_t i = from; i < to && st == PL_OK; i++) {
        if (!chosen[i]) continue;
        p->keep[p->items[i]] = true;
        part->nodes[part->n_nodes++] = p->model->graph->nodes[p->items[i]];
    }
    if (st == PL_OK) st = ask(p, &wrong, err); /* run it again: report only what was observed */
    if (st == PL_OK && wrong) {
        part->q = p->q;
        part->kind = p->kind;
        part->where = p->where;
        part->reason = p->reason;
        p->out->n_parts++;
    }
    pl_free(chosen);
    return st;
}

static pl_status search(parts *p, pl_err *err) {
    size_t lo = 0;
    bool wrong = false;
    p->out->parts = pl_arena_array(p->options->arena, MAX_PARTS, sizeof(pl_guilty_part));
    if (p->out->parts == NULL) return pl_fail_memory(err, MAX_PARTS);
    PL_TRY(ask_window(p, 0, p->n_items, &wrong, err));
    p->out->whole = wrong;
    while (wrong && p->out->n_parts < MAX_PARTS) {
        const size_t n_before = p->out->n_parts;
        size_t from = lo, to = p->n_items;
        PL_TRY(shrink(p, lo, p->n_items, &from, &to, err));
        PL_TRY(add_part(p, from, to, err));
        lo = to;
        if (p->out->n_parts == n_before || lo >= p->n_items || is_spent(p)) break;
        PL_TRY(ask_window(p, lo, p->n_items, &wrong, err)); /* is there another one after it? */
    }
    return PL_OK;
}

/* Every value of the model, from eager. */
static pl_status run_reference(parts *p, pl_err *err) {
    pl_side_options options = p->options->side;
    options.spec = "eager";
    options.file = NULL;
    PL_TRY(pl_side_run_init(&p->reference, p->model, &options, err));
    PL_TRY(pl_side_run_plain(&p->reference, p->in, err));
    return pl_side_run_record(&p->reference, p->in, err);
}

pl_status pl_parts_search(pl_model *model, pl_datum *const *in, const pl_parts_options *options,
                          pl_parts_found *out, pl_err *err) {
    *out = (pl_parts_found){ .parts = NULL };
    parts p = { .model = model, .in = in, .options = options, .out = out };
    p.constant = pl_calloc((size_t)model->n_values + 1, sizeof(bool));
    p.items = pl_calloc(model->graph->n_nodes + 1, sizeof(size_t));
    p.keep = pl_calloc(model->graph->n_nodes + 1, sizeof(bool));
    pl_status st = p.constant == NULL || p.items == NULL || p.keep == NULL
                       ? pl_fail_memory(err, model->n_values)
                       : PL_OK;
    if (st == PL_OK) find_items(&p);
    if (st == PL_OK) st = run_reference(&p, err);
    if (st == PL_OK) st = search(&p, err);
    pl_side_run_release(&p.reference);
    pl_free(p.constant);
    pl_free(p.items);
    pl_free(p.keep);
    return st;
}
