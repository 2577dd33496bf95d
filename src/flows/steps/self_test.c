/* Self-tests: rules that hold for a model with state on any correct backend, without a reference.
 *
 * Each compares two ways to compute the same thing on A: the whole prompt at once against token by
 * token, or against chunks; rows of a batch against each row alone; padded against not. The values
 * of the longer run are sliced to those of the shorter one, axis by axis. If an output breaks the
 * rule, both runs are recorded, and the first value that differs, in the model's order, names the
 * operation. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/progress.h"
#include "base/strmap.h"
#include "flows/check/accuracy.h"
#include "flows/steps/steps.h"

enum { PADDING = 3, ROOM = 5 };

/* How values of the longer run ("whole") relate to those of the shorter one ("part"). */
typedef struct leg_map {
    int64_t whole_n, part_n, n_at;             /* tokens of the step, and where the part's begin */
    int64_t whole_total, part_total, total_at; /* with those before it */
    int64_t whole_batch, part_batch, row;
    bool last; /* the part ends where the whole ends */
} leg_map;

typedef struct leg { /* one run: its inputs, to run it again recorded */
    pl_feed_window w;
    pl_datum **in, **out; /* by input, by output */
} leg;

/* ---- legs ---- */

static void leg_release(const pl_steps *s, leg *l) {
    pl_steps_drop(l->in, s->a.model->graph->n_inputs);
    pl_steps_drop(l->out, s->a.model->graph->n_outputs);
    pl_free(l->in);
    pl_free(l->out);
    *l = (leg){ .in = NULL };
}

/* Runs A on the side's state and keeps inputs and outputs. */
static pl_status leg_run(pl_steps *s, const pl_feed_window *w, size_t step, leg *l, pl_err *err) {
    const pl_graph *g = s->a.model->graph;
    leg_release(s, l);
    l->w = *w;
    PL_TRY(pl_side_step(&s->a, w, step, s->a.state, err));
    l->in = pl_calloc(g->n_inputs + 1, sizeof(*l->in));
    l->out = pl_calloc(g->n_outputs + 1, sizeof(*l->out));
    if (l->in == NULL || l->out == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < g->n_inputs; i++)
        if (s->a.in[i] != NULL) l->in[i] = pl_datum_ref(s->a.in[i]);
    for (size_t i = 0; i < g->n_outputs; i++)
        if (s->a.out[i] != NULL) l->out[i] = pl_datum_ref(s->a.out[i]);
    pl_side_keep_state(&s->a);
    return PL_OK;
}

static leg_map map_of(const leg *whole, const leg *part, int64_t n_at, int64_t total_at) {
    const pl_feed_window *x = &whole->w, *y = &part->w;
    return (leg_map){ .whole_n = x->n,
                      .part_n = y->n,
                      .n_at = n_at,
                      .whole_total = x->past + x->n,
                      .part_total = y->past + y->n,
                      .total_at = total_at,
                      .whole_batch = x->batch,
                      .part_batch = y->batch,
                      .last = x->past + x->n == y->past + y->n };
}

/* The slice of x with the shape of y; NULL when the axes are ambiguous. */
static pl_status cut(const pl_tensor *x, const pl_tensor *y, const leg_map *m, pl_tensor **out,
                     pl_err *err) {
    int64_t offset = 0;
    bool mapped = false;
    *out = NULL;
    if (x->rank != y->rank) return PL_OK;
    for (int i = 0; i < x->rank; i++) {
        const int64_t a = x->dims[i], b = y->dims[i];
        int64_t at = -1;
        if (a == b) continue;
        if (a == m->whole_n && b == m->part_n) at = m->n_at;
        if (at < 0 && a == m->whole_total && b == m->part_total) at = m->total_at;
        if (at < 0 && a == m->whole_batch && b == m->part_batch) at = m->row;
        if (at < 0 || at + b > a) return PL_OK;
        offset += at * x->strides[i];
        mapped = true;
    }
    if (!mapped && !m->last) return PL_OK; /* only the last row: belongs to another token */
    return pl_tensor_view(x, x->rank, y->dims, x->strides, offset, out, err);
}

/* The score of the worst output; > 1 breaks the rule. */
static pl_status compare_data(pl_steps *s, const pl_datum *x, const pl_datum *y, const leg_map *m,
                              double factor, double *error, double *score, pl_err *err) {
    pl_tensor *piece = NULL;
    pl_datum *d = NULL;
    pl_step_distance far;
    *score = *error = 0;
    if (x == NULL || y == NULL || x->kind != PL_TYPE_TENSOR || y->kind != PL_TYPE_TENSOR)
        return PL_OK;
    PL_TRY(cut(x->tensor, y->tensor, m, &piece, err));
    if (piece == NULL) return PL_OK;
    PL_TRY(pl_datum_of_tensor_take(piece, &d, err));
    const pl_status st = pl_step_measure(s->pool, y, d, &far, err);
    if (st == PL_OK) {
        *score = pl_step_score(&far) / factor;
        *error = far.structural || far.nonfinite ? (double)INFINITY : far.rms;
    }
    pl_datum_unref(d);
    return st;
}

/* ---- the operation ---- */

typedef struct seen_values {
    pl_strmap map; /* name -> pl_datum */
    pl_arena *arena;
    pl_datum **all;
    size_t n, capacity;
} seen_values;

static plumb_status see(void *ctx, const plumb_seen *seen, plumb_error *err) {
    seen_values *v = ctx;
    const size_t n = seen->stands_for == NULL ? 1 : seen->n_stands_for;
    for (size_t i = 0; i < n; i++) {
        const char *name = seen->stands_for == NULL ? seen->name : seen->stands_for[i];
        if (v->n == v->capacity) {
            const size_t more = v->capacity == 0 ? 256 : 2 * v->capacity;
            pl_datum **grown = pl_realloc_array(v->all, more, sizeof(*grown));
            if (grown == NULL) return pl_fail_memory(err, more);
            v->all = grown;
            v->capacity = more;
        }
        pl_datum *d = pl_datum_ref(pl_datum_of(seen->datum));
        v->all[v->n++] = d;
        const char *key = pl_arena_strdup(v->arena, name);
        if (key == NULL || pl_strmap_put(&v->map, key, d) != 0) return pl_fail_memory(err, 1);
    }
    return PLUMB_OK;
}

static void seen_release(seen_values *v) {
    pl_strmap_release(&v->map);
    pl_arena_free(v->arena);
    pl_steps_drop(v->all, v->n);
    pl_free(v->all);
}

static pl_status leg_record(pl_steps *s, const leg *l, seen_values *v, pl_err *err) {
    const plumb_hook hook = { .value = see, .ctx = v };
    const pl_record_args args = { .hook = &hook };
    plumb_record_info info = { 0 };
    size_t mode = 0;
    pl_steps_drop(s->a.out, s->a.model->graph->n_outputs);
    return pl_program_record_gently(s->a.program, l->in, &args, s->a.out, &mode, &info, err);
}

static pl_status keep(char **to, const char *from, pl_err *err) {
    *to = pl_strdup(from);
    return *to == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static bool is_float(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR && pl_dtype_is_float(d->tensor->dtype);
}

static pl_status name_operation(pl_steps *s, pl_self_check *c, const leg *whole, const leg *part,
                                const leg_map *m, double factor, pl_err *err) {
    seen_values x = { .arena = pl_arena_new() }, y = { .arena = pl_arena_new() };
    const pl_graph *g = s->a.model->graph;
    pl_status st = x.arena == NULL || y.arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) st = leg_record(s, whole, &x, err);
    if (st == PL_OK) st = leg_record(s, part, &y, err);
    for (size_t i = 0; st == PL_OK && i < g->n_nodes && c->value == NULL; i++) {
        const pl_node *node = g->nodes[i];
        for (uint32_t k = 0; k < node->n_out && st == PL_OK && c->value == NULL; k++) {
            double error, score;
            const char *name = node->out[k] == NULL ? "" : node->out[k]->name;
            const pl_datum *value = pl_strmap_get(&x.map, name);
            if (!is_float(value)) continue; /* lengths and positions may differ */
            st =
                compare_data(s, value, pl_strmap_get(&y.map, name), m, factor, &error, &score, err);
            if (st != PL_OK || !(score > 1)) continue;
            st = keep(&c->value, name, err);
            if (st == PL_OK) st = keep(&c->node, node->name, err);
            if (st == PL_OK) st = keep(&c->op, node->op, err);
        }
    }
    seen_release(&x);
    seen_release(&y);
    return st;
}

/* Compares every output of the part with its slice of the whole. False = the rule is broken, and
 * reported. */
static pl_status check_legs(pl_steps *s, pl_self_check *c, const leg *whole, const leg *part,
                            const leg_map *m, double factor, const char *what, pl_err *err) {
    const pl_graph *g = s->a.model->graph;
    for (size_t i = 0; i < g->n_outputs; i++) {
        double error = 0, score = 0;
        PL_TRY(compare_data(s, whole->out[i], part->out[i], m, factor, &error, &score, err));
        if (!(error <= c->error)) c->error = error;
        if (!(score > 1) || strcmp(c->status, "fail") == 0) continue;
        c->status = "fail";
        PL_TRY(name_operation(s, c, whole, part, m, factor, err));
        (void)snprintf(c->reason, sizeof(c->reason),
                       "%s: '%.80s' differs by %.3g, allowed %.3g; first at %s '%.100s'", what,
                       g->outputs[i]->name, error, c->bound, c->op == NULL ? "output" : c->op,
                       c->node != NULL && c->node[0] != '\0' ? c->node
                       : c->value != NULL                    ? c->value
                                                             : g->outputs[i]->name);
    }
    return PL_OK;
}

/* ---- the rules ---- */

static bool has_rule(const pl_steps *s, const char *name) {
    for (size_t i = 0; i < s->a.model->graph->n_inputs; i++)
        if (s->a.feed.in[i].rule != NULL && strcmp(s->a.feed.in[i].rule->name, name) == 0)
            return true;
    return false;
}

static void skip(pl_self_check *c, const char *why) {
    c->status = "skip";
    (void)snprintf(c->reason, sizeof(c->reason), "%.390s", why);
}

static pl_feed_window prompt_window(const pl_steps *s, size_t from, size_t to) {
    return (pl_feed_window){
        .tokens = s->tokens + from, .batch = 1, .n = (int64_t)(to - from), .past = (int64_t)from
    };
}

/* The prompt in pieces against the whole prompt. */
static pl_status in_pieces(pl_steps *s, pl_self_check *c, size_t piece, double factor,
                           pl_err *err) {
    leg whole = { .in = NULL }, part = { .in = NULL };
    pl_feed_window w = prompt_window(s, 0, s->n_prompt);
    if (s->a.feed.n_states == 0 || s->n_prompt < 2) {
        skip(c, s->n_prompt < 2 ? "the prompt has fewer than 2 tokens" : "the model has no state");
        return PL_OK;
    }
    pl_side_drop_state(&s->a);
    pl_status st = leg_run(s, &w, 0, &whole, err);
    pl_side_drop_state(&s->a);
    for (size_t at = 0; st == PL_OK && at < s->n_prompt; at += piece) {
        const size_t to = at + piece < s->n_prompt ? at + piece : s->n_prompt;
        char what[80];
        w = prompt_window(s, at, to);
        (void)snprintf(what, sizeof(what), "tokens %zu to %zu", at, to - 1);
        st = leg_run(s, &w, at / piece, &part, err);
        if (st != PL_OK) break;
        const leg_map m = map_of(&whole, &part, (int64_t)at, 0);
        st = check_legs(s, c, &whole, &part, &m, factor, what, err);
        if (strcmp(c->status, "fail") == 0) break;
    }
    leg_release(s, &whole);
    leg_release(s, &part);
    return st;
}

static pl_status check_prefill(pl_steps *s, pl_self_check *c, double factor, pl_err *err) {
    return in_pieces(s, c, 1, factor, err);
}
static pl_status check_chunks(pl_steps *s, pl_self_check *c, double factor, pl_err *err) {
    return in_pieces(s, c, (s->n_prompt + 1) / 2, factor, err);
}

/* A fixed batch of 1 cannot be tested with 2. */
static bool batch_is_open(const pl_steps *s) {
    for (size_t i = 0; i < s->a.model->graph->n_inputs; i++) {
        const pl_type *type = s->a.model->graph->inputs[i]->type;
        const pl_feed_rule *rule = s->a.feed.in[i].rule;
        if (rule == NULL || rule != &pl_feed_rules[0]) continue;
        return type == NULL || !type->has_rank || (type->rank == 2 && !pl_dim_known(type->dims[0]));
    }
    return false;
}

static pl_status check_batch(pl_steps *s, pl_self_check *c, double factor, pl_err *err) {
    leg whole = { .in = NULL }, part = { .in = NULL };
    const int64_t n = (int64_t)s->n_prompt;
    if (!batch_is_open(s)) {
        skip(c, "the batch is fixed");
        return PL_OK;
    }
    int64_t *rows = pl_calloc((size_t)n, 2 * sizeof(*rows));
    if (rows == NULL) return pl_fail_memory(err, s->n_prompt);
    for (int64_t i = 0; i < n; i++) { /* the prompt, and the prompt reversed */
        rows[i] = s->tokens[i];
        rows[n + i] = s->tokens[n - 1 - i];
    }
    pl_feed_window w = { .tokens = rows, .batch = 2, .n = n };
    pl_side_drop_state(&s->a);
    pl_status st = leg_run(s, &w, 0, &whole, err);
    for (int64_t row = 0; row < 2 && st == PL_OK && strcmp(c->status, "fail") != 0; row++) {
        w = (pl_feed_window){ .tokens = rows + row * n, .batch = 1, .n = n };
        pl_side_drop_state(&s->a);
        st = leg_run(s, &w, 0, &part, err);
        if (st != PL_OK) break;
        leg_map m = map_of(&whole, &part, 0, 0);
        m.row = row;
        st = check_legs(s, c, &whole, &part, &m, factor, row == 0 ? "row 0" : "row 1", err);
    }
    leg_release(s, &whole);
    leg_release(s, &part);
    pl_free(rows);
    return st;
}

static pl_status padded(pl_steps *s, pl_self_check *c, bool left, double factor, pl_err *err) {
    leg whole = { .in = NULL }, part = { .in = NULL };
    const size_t n = s->n_prompt;
    int64_t *tokens = pl_calloc(n + PADDING, sizeof(*tokens));
    if (tokens == NULL) return pl_fail_memory(err, n);
    memcpy(tokens + (left ? PADDING : 0), s->tokens, n * sizeof(*tokens));
    pl_feed_window w = { .tokens = tokens,
                         .batch = 1,
                         .n = (int64_t)n + PADDING,
                         .left = left ? PADDING : 0,
                         .right = left ? 0 : PADDING };
    pl_side_drop_state(&s->a);
    pl_status st = leg_run(s, &w, 0, &whole, err);
    w = prompt_window(s, 0, n);
    pl_side_drop_state(&s->a);
    if (st == PL_OK) st = leg_run(s, &w, 0, &part, err);
    if (st == PL_OK) {
        leg_map m = map_of(&whole, &part, left ? PADDING : 0, left ? PADDING : 0);
        m.last = left; /* a single row of logits is that of the last token */
        st =
            check_legs(s, c, &whole, &part, &m, factor, left ? "padded left" : "padded right", err);
    }
    leg_release(s, &whole);
    leg_release(s, &part);
    pl_free(tokens);
    return st;
}

static pl_status check_padding(pl_steps *s, pl_self_check *c, double factor, pl_err *err) {
    if (has_rule(s, "mask") || has_rule(s, "last")) return padded(s, c, false, factor, err);
    skip(c, "no input tells which tokens are padding");
    return PL_OK;
}
static pl_status check_left_padding(pl_steps *s, pl_self_check *c, double factor, pl_err *err) {
    if (has_rule(s, "mask") && !has_rule(s, "last")) return padded(s, c, true, factor, err);
    skip(c, "no input tells which of the first tokens are padding");
    return PL_OK;
}

/* A state with unused places at the end of its longest axis that grows, as in a buffer that is
 * written in place. *grown stays false where no axis has the length of what was seen. */
static pl_status with_room(const pl_datum *d, int64_t total, int64_t room, pl_datum **out,
                           bool *grown, pl_err *err) {
    const pl_tensor *t = d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
    pl_tensor *wide = NULL, *view = NULL;
    int axis = -1;
    int64_t dims[PL_RANK_MAX];
    for (int i = 0; t != NULL && i < t->rank; i++)
        if (t->dims[i] == total && i == t->rank - 2) axis = i;
    *grown = axis >= 0;
    if (!*grown) return PL_OK;
    memcpy(dims, t->dims, (size_t)t->rank * sizeof(*dims));
    dims[axis] += room;
    PL_TRY(pl_tensor_new_zero(t->dtype, t->rank, dims, &wide, err));
    const size_t size = pl_dtype_bytes(t->dtype);
    pl_status st = pl_tensor_contiguous(t, &view, err);
    const int64_t row = t->dims[t->rank - 1] * total;
    const int64_t n_rows = row == 0 ? 0 : t->n_elements / row;
    for (int64_t i = 0; i < n_rows && st == PL_OK; i++)
        memcpy((char *)wide->data + (size_t)(i * (row + room * t->dims[t->rank - 1])) * size,
               (const char *)view->data + (size_t)(i * row) * size, (size_t)row * size);
    pl_tensor_unref(view);
    if (st == PL_OK) return pl_datum_of_tensor_take(wide, out, err);
    pl_tensor_unref(wide);
    return st;
}

/* Gives all states room; false when the model's own shapes tell that it appends instead. */
static pl_status give_room(pl_steps *s, int64_t total, bool *all, pl_err *err) {
    *all = true;
    for (size_t i = 0; i < s->a.model->graph->n_inputs && *all; i++) {
        pl_datum *wide = NULL;
        if (s->a.state[i] == NULL) continue;
        PL_TRY(with_room(s->a.state[i], total, ROOM, &wide, all, err));
        if (wide == NULL) continue;
        pl_datum_unref(s->a.state[i]);
        s->a.state[i] = wide;
    }
    return PL_OK;
}

/* Did it write into the room, as outputs of that length show? Others append behind it. */
static bool wrote_into_room(const pl_steps *s, const leg *l, int64_t total) {
    for (size_t i = 0; i < s->a.model->graph->n_outputs; i++) {
        const pl_datum *d = l->out[i];
        if (!s->a.feed.is_state[i] || d == NULL || d->kind != PL_TYPE_TENSOR) continue;
        const pl_tensor *t = d->tensor;
        if (t->rank < 2 || t->dims[t->rank - 2] != total) return false;
    }
    return true;
}

/* The next token on a cache that is copied and grows, against one with room that is written in
 * place. */
static pl_status check_cache(pl_steps *s, pl_self_check *c, double factor, pl_err *err) {
    leg prompt = { .in = NULL }, whole = { .in = NULL }, part = { .in = NULL };
    const int64_t n = (int64_t)s->n_prompt;
    bool open = true;
    if (s->a.feed.n_states == 0 || !has_rule(s, "mask")) {
        skip(c, "no state, or no input that tells how much of it is used");
        return PL_OK;
    }
    pl_feed_window w = prompt_window(s, 0, s->n_prompt);
    pl_side_drop_state(&s->a);
    pl_status st = leg_run(s, &w, 0, &prompt, err);
    w = (pl_feed_window){ .tokens = s->tokens, .batch = 1, .n = 1, .past = n };
    if (st == PL_OK) st = leg_run(s, &w, 1, &part, err);
    pl_side_drop_state(&s->a);
    w = prompt_window(s, 0, s->n_prompt);
    if (st == PL_OK) st = leg_run(s, &w, 0, &prompt, err);
    if (st == PL_OK) st = give_room(s, n, &open, err);
    w = (pl_feed_window){ .tokens = s->tokens, .batch = 1, .n = 1, .past = n };
    if (st == PL_OK && open) st = leg_run(s, &w, 1, &whole, err);
    open = open && st == PL_OK && wrote_into_room(s, &whole, n + ROOM);
    if (st == PL_OK && open) {
        leg_map m = map_of(&whole, &part, 0, 0);
        m.whole_total = n + ROOM;
        st = check_legs(s, c, &whole, &part, &m, factor, "cache in place", err);
    } else if (st == PL_OK || st == PL_E_INVALID || st == PL_E_BACKEND) {
        skip(c, "the model appends to its cache: there is no room to write into");
        st = PL_OK;
    }
    leg_release(s, &prompt);
    leg_release(s, &whole);
    leg_release(s, &part);
    return st;
}

/* The factor applies to what the precision explains for one value of two correct runs; here sums
 * are in another order from the first layer on. */
typedef struct self_test_row {
    const char *name;
    double factor;
    bool by_default; /* part of "all": holds for every export with known rules */
    pl_status (*check)(pl_steps *s, pl_self_check *c, double factor, pl_err *err);
} self_test_row;
static const self_test_row self_tests[] = {
    { "prefill", 4, true, check_prefill }, { "chunks", 4, true, check_chunks },
    { "batch", 4, true, check_batch },     { "padding", 4, true, check_padding },
    { "cache", 4, true, check_cache },     { "left-padding", 4, false, check_left_padding },
};
enum { N_SELF_TESTS = sizeof(self_tests) / sizeof(*self_tests) };

const char *pl_self_test_name(size_t i) {
    return i < N_SELF_TESTS ? self_tests[i].name : NULL;
}

/* ---- all tests ---- */

static bool is_listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = list; *at != '\0';) {
        const size_t k = strcspn(at, ",");
        if (k == n && strncmp(at, name, n) == 0) return true;
        at += k + (at[k] == ',');
    }
    return false;
}

static pl_status check_names(const char *list, pl_err *err) {
    for (const char *at = list; *at != '\0';) {
        const size_t k = strcspn(at, ",");
        bool known = k == 3 && strncmp(at, "all", 3) == 0;
        for (size_t i = 0; i < N_SELF_TESTS; i++)
            known = known ||
                    (strlen(self_tests[i].name) == k && strncmp(at, self_tests[i].name, k) == 0);
        if (!known)
            return pl_fail(err, PL_E_USAGE,
                           "no self-test '%.*s'; available: all, prefill, chunks, batch, padding, "
                           "cache, left-padding",
                           (int)(k > 100 ? 100 : k), at);
        at += k + (at[k] == ',');
    }
    return PL_OK;
}

/* If A cannot run one way at all, the rule is not broken. */
static pl_status run_check(pl_steps *s, const self_test_row *row, pl_err *err) {
    pl_self_check *c = &s->checks[s->n_checks];
    pl_err trouble = PL_ERR_INIT;
    const size_t logits = s->a.feed.logits;
    const pl_type *type = logits == SIZE_MAX ? NULL : s->a.model->graph->outputs[logits]->type;
    const pl_dtype dtype = type == NULL || type->kind != PL_TYPE_TENSOR ? PL_F32 : type->dtype;
    *c = (pl_self_check){ .name = row->name,
                          .status = "pass",
                          .bound = row->factor * pl_accuracy_floor(pl_precision_of(dtype, dtype)) };
    s->n_checks++;
    const pl_status st = row->check(s, c, row->factor, &trouble);
    if (st == PL_E_BACKEND || st == PL_E_INVALID || st == PL_E_UNSUPPORTED) {
        skip(c, trouble.message);
        return PL_OK;
    }
    if (st != PL_OK && err != NULL) *err = trouble;
    if (strcmp(c->status, "pass") == 0)
        (void)snprintf(c->reason, sizeof(c->reason), "largest difference %.3g", c->error);
    return st;
}

pl_status pl_steps_self_tests(pl_steps *s, pl_err *err) {
    const char *list = s->o->self_test;
    size_t n_failed = 0, n_passed = 0;
    PL_TRY(check_names(list, err));
    if (s->a.feed.n_tokens == 0)
        return pl_fail(
            err, PL_E_INVALID,
            "self-tests require an input of token ids; name it with option 'feed', NAME=tokens");
    for (size_t i = 0; i < N_SELF_TESTS; i++) {
        const self_test_row *row = &self_tests[i];
        if (!is_listed(list, row->name) && !(row->by_default && is_listed(list, "all"))) continue;
        PL_TRY(pl_progress_step(s->o->progress, row->name, (int64_t)i, N_SELF_TESTS, err));
        PL_TRY(run_check(s, row, err));
        n_failed += strcmp(s->checks[s->n_checks - 1].status, "fail") == 0;
        n_passed += strcmp(s->checks[s->n_checks - 1].status, "pass") == 0;
    }
    s->outcome = n_failed > 0   ? PL_OUTCOME_DIVERGED
                 : n_passed > 0 ? PL_OUTCOME_AGREE
                                : PL_OUTCOME_INCONCLUSIVE;
    (void)snprintf(s->reason, sizeof(s->reason), "%zu passed, %zu failed, %zu skipped", n_passed,
                   n_failed, s->n_checks - n_passed - n_failed);
    return PL_OK;
}
