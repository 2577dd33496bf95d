/* Gradients of RNN, GRU and LSTM: the recurrence unrolled step by step. */
#include "ops/lib/grad_nn.h"
#include "ops/nn/rnn.h"
#include "ops/nn/rnn_rules.h"

/* State and weights of one direction. */
typedef struct cell {
    pl_grad *c;
    const pl_rnn *r;
    int64_t dir;
    pl_value *gates_x;   /* (seq, batch, gates * hidden) */
    pl_value *rec, *rb;  /* R transposed (hidden, gates * hidden); the GRU's last bias or NULL */
    pl_value *peep[3];   /* i, o, f; NULL = none */
    pl_value *h, *state; /* (batch, hidden); state NULL but for the LSTM */
    pl_value *lengths;   /* (batch), int64, when known only at run time; NULL = r->lengths */
} cell;

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

static pl_value *activate(const cell *k, int which, pl_value *x) {
    const pl_rnn_act *act = &k->r->act[k->dir][which];
    char name[24];
    pl_rnn_act_name(act, name, sizeof(name));
    if (k->r->clip > 0) x = pl_g_activate(k->c, "Clip", -k->r->clip, k->r->clip, x);
    return pl_g_activate(k->c, name, act->alpha, act->beta, x);
}

/* Gate g of (batch, gates * hidden). */
static pl_value *gate(const cell *k, pl_value *all, int64_t g) {
    return pl_g_cut(k->c, all, 1, g * k->r->hidden, (g + 1) * k->r->hidden);
}

static void step_plain(cell *k, pl_value *gx) {
    pl_grad *c = k->c;
    k->h = activate(k, 0, pl_g_add(c, gx, pl_g2(c, "MatMul", k->h, k->rec)));
}

static void step_gru(cell *k, pl_value *gx) {
    pl_grad *c = k->c;
    const int64_t n = k->r->hidden;
    pl_value *two = pl_g2(c, "MatMul", k->h, pl_g_cut(c, k->rec, 1, 0, 2 * n));
    pl_value *last = pl_g_cut(c, k->rec, 1, 2 * n, 3 * n);
    pl_value *z = activate(k, 0, pl_g_add(c, gate(k, gx, 0), gate(k, two, 0)));
    pl_value *s = activate(k, 0, pl_g_add(c, gate(k, gx, 1), gate(k, two, 1)));
    pl_value *from = k->r->linear_before_reset ? k->h : pl_g_mul(c, s, k->h);
    pl_value *rh = pl_g2(c, "MatMul", from, last);
    if (k->rb != NULL) rh = pl_g_add(c, rh, k->rb);
    if (k->r->linear_before_reset) rh = pl_g_mul(c, s, rh);
    pl_value *n_gate = activate(k, 1, pl_g_add(c, gate(k, gx, 2), rh));
    pl_value *rest = pl_g_sub(c, pl_g_number(c, z, 1), z);
    k->h = pl_g_add(c, pl_g_mul(c, rest, n_gate), pl_g_mul(c, z, k->h));
}

static pl_value *peek(const cell *k, int which, pl_value *x, pl_value *state) {
    if (k->peep[which] == NULL) return x;
    return pl_g_add(k->c, x, pl_g_mul(k->c, k->peep[which], state));
}

static void step_lstm(cell *k, pl_value *gx) {
    pl_grad *c = k->c;
    pl_value *all = pl_g_add(c, gx, pl_g2(c, "MatMul", k->h, k->rec));
    pl_value *i = activate(k, 0, peek(k, 0, gate(k, all, 0), k->state));
    pl_value *f = k->r->input_forget ? pl_g_sub(c, pl_g_number(c, i, 1), i)
                                     : activate(k, 0, peek(k, 2, gate(k, all, 2), k->state));
    pl_value *n = activate(k, 1, gate(k, all, 3));
    k->state = pl_g_add(c, pl_g_mul(c, f, k->state), pl_g_mul(c, i, n));
    pl_value *o = activate(k, 0, peek(k, 1, gate(k, all, 1), k->state));
    k->h = pl_g_mul(c, o, activate(k, 2, k->state));
}

/* ---- one direction ---- */

/* Part `dir` of dim 0, without that dim. NULL for NULL. */
static pl_value *part(pl_grad *c, pl_value *x, int64_t dir) {
    const int64_t axis = 0;
    if (x == NULL) return NULL;
    return pl_g_squeeze(c, pl_g_cut(c, x, 0, dir, dir + 1), &axis, 1);
}

/* (batch, hidden) of a state input, zeros when it is left out. */
static pl_value *first_state(const cell *k, uint32_t i) {
    pl_grad *c = k->c;
    const pl_rnn *r = k->r;
    pl_value *x = input(c, i);
    const int64_t axis = r->layout ? 1 : 0;
    if (x != NULL) {
        x = pl_g_cut(c, x, axis, k->dir, k->dir + 1);
        return pl_g_squeeze(c, x, &axis, 1);
    }
    pl_g_table zeros;
    if (!pl_g_table_new(c, &zeros, 2, (const int64_t[]){ r->batch, r->hidden })) return NULL;
    return pl_g_table_value(c, &zeros, c->node->in[0]->type->dtype);
}

static void load_cell(cell *k, pl_value *x) {
    pl_grad *c = k->c;
    const pl_rnn *r = k->r;
    const int64_t row = r->gates * r->hidden, both = r->kind == PL_RNN_GRU ? 2 * r->hidden : row;
    pl_value *w = pl_g_swap_last(c, part(c, input(c, 1), k->dir));
    pl_value *bias = part(c, input(c, 3), k->dir), *p = NULL;
    k->rec = pl_g_swap_last(c, part(c, input(c, 2), k->dir));
    k->gates_x = pl_g2(c, "MatMul", x, w);
    if (bias != NULL) {
        pl_value *wb = pl_g_cut(c, bias, 0, 0, row);
        pl_value *rb = pl_g_cut(c, bias, 0, row, row + both);
        if (both < row) { /* the GRU adds its last Rb inside the reset gate */
            pl_value *zero = pl_g_scaled(c, pl_g_cut(c, bias, 0, 0, row - both), 0);
            k->rb = pl_g_cut(c, bias, 0, row + both, 2 * row);
            rb = pl_g_concat(c, (pl_value *[]){ rb, zero }, 2, 0);
        }
        k->gates_x = pl_g_add(c, k->gates_x, pl_g_add(c, wb, rb));
    }
    if (r->kind == PL_RNN_LSTM) p = part(c, input(c, 7), k->dir);
    for (int i = 0; p != NULL && i < 3; i++)
        k->peep[i] = pl_g_cut(c, p, 0, i * r->hidden, (i + 1) * r->hidden);
    k->h = first_state(k, 5);
    if (r->kind == PL_RNN_LSTM) k->state = first_state(k, 6);
}

/* 1 for items that are still running at time t, as (batch, 1); NULL when all are. */
static pl_value *running(const cell *k, int64_t t) {
    pl_grad *c = k->c;
    const pl_rnn *r = k->r;
    const int64_t axis = 1;
    bool all = true;
    pl_g_table mask;
    if (k->lengths != NULL)
        return pl_g2(c, "Less", pl_g_int(c, t), pl_g_unsqueeze(c, k->lengths, &axis, 1));
    for (int64_t b = 0; b < r->batch; b++)
        all = all && t < r->lengths[b];
    if (all || !pl_g_table_new(c, &mask, 2, (const int64_t[]){ r->batch, 1 })) return NULL;
    for (int64_t b = 0; b < r->batch; b++)
        mask.data[b] = t < r->lengths[b];
    return pl_g_table_value(c, &mask, PL_BOOL);
}

/* (seq, batch, …) with the first `lengths` steps of each item reversed. */
static pl_value *turned(const cell *k, pl_value *x) {
    const pl_attr axes[2] = { PL_G_INT("time_axis", 0), PL_G_INT("batch_axis", 1) };
    return pl_g_op(k->c, "ReverseSequence", (pl_value *const[]){ x, k->lengths }, 2, axes, 2);
}

/* Is the direction reversed, with known lengths? Then each item is read backwards separately. */
static bool by_item(const cell *k) {
    return k->r->reverse[k->dir] && k->lengths == NULL;
}

enum { ITEMS_MAX = 256 };

/* Few enough items to handle them one by one? */
static bool few_items(const cell *k) {
    if (k->r->batch > ITEMS_MAX)
        (void)pl_g_fail(k->c, "is not supported for more than %d sequences of different lengths",
                        ITEMS_MAX);
    return k->c->st == PL_OK;
}

/* Gates at time t: each item from the step that it reads at that time. */
static pl_value *gates_at(const cell *k, int64_t t) {
    pl_grad *c = k->c;
    const pl_rnn *r = k->r;
    const int64_t axis = 0;
    pl_value *rows[ITEMS_MAX];
    bool same = true;
    int64_t first = -1;
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t from = by_item(k) && t < r->lengths[b] ? r->lengths[b] - 1 - t : t;
        if (first < 0) first = from;
        same = same && from == first;
    }
    if (same) {
        pl_value *one = pl_g_cut(c, k->gates_x, 0, first, first + 1);
        return pl_g_squeeze(c, one, &axis, 1);
    }
    if (!few_items(k)) return NULL;
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t from = by_item(k) && t < r->lengths[b] ? r->lengths[b] - 1 - t : t;
        pl_value *one = pl_g_cut(c, k->gates_x, 0, from, from + 1);
        rows[b] = pl_g_squeeze(c, pl_g_cut(c, one, 1, b, b + 1), &axis, 1);
    }
    return pl_g_concat(c, rows, (size_t)r->batch, 0);
}

/* Stores h of every step in y[step], zeros where an item has ended. If items of different lengths
 * are reversed, they are put back in order one by one. */
static void run_steps(cell *k, pl_value **y) {
    pl_grad *c = k->c;
    const pl_rnn *r = k->r;
    for (int64_t t = 0; t < r->seq && c->st == PL_OK; t++) {
        pl_value *h = k->h, *state = k->state, *mask = running(k, t), *gx = gates_at(k, t);
        if (c->st != PL_OK) return;
        switch (r->kind) {
        case PL_RNN_PLAIN: step_plain(k, gx); break;
        case PL_RNN_GRU: step_gru(k, gx); break;
        case PL_RNN_LSTM: step_lstm(k, gx); break;
        }
        y[t] = k->h;
        if (mask == NULL) continue;
        y[t] = pl_g_keep(c, mask, k->h);
        k->h = pl_g3(c, "Where", mask, k->h, h);
        if (state != NULL) k->state = pl_g3(c, "Where", mask, k->state, state);
    }
}

/* Joins the steps to (seq, batch, hidden). */
static pl_value *in_order(const cell *k, pl_value *const *y) {
    pl_grad *c = k->c;
    const pl_rnn *r = k->r;
    const int64_t axis = 0;
    pl_value **list = pl_arena_array(c->graph->model->arena, (size_t)r->seq + 1, sizeof(*list));
    if (list == NULL) {
        c->st = pl_fail_memory(c->err, (size_t)r->seq);
        return NULL;
    }
    const bool back = by_item(k);
    const int64_t n = r->batch == 0 ? r->seq : r->lengths[0];
    bool same = true;
    for (int64_t b = 1; b < r->batch; b++)
        same = same && r->lengths[b] == r->lengths[0];
    if (back && !same && !few_items(k)) return NULL;
    for (int64_t s = 0; s < r->seq; s++) {
        pl_value *rows[ITEMS_MAX];
        if (same || !back) {
            list[s] = y[back && s < n ? n - 1 - s : s];
        } else {
            for (int64_t b = 0; b < r->batch; b++)
                rows[b] =
                    pl_g_cut(c, y[s < r->lengths[b] ? r->lengths[b] - 1 - s : s], 0, b, b + 1);
            list[s] = pl_g_concat(c, rows, (size_t)r->batch, 0);
        }
        list[s] = pl_g_unsqueeze(c, list[s], &axis, 1);
    }
    pl_value *all = pl_g_concat(c, list, (size_t)r->seq, 0);
    return r->reverse[k->dir] && k->lengths != NULL ? turned(k, all) : all;
}

/* ---- the node ---- */

/* Reads sizes and attributes; all dims must be known. */
static bool read_sizes(pl_grad *c, pl_rnn_kind kind, pl_arena *arena, pl_rnn *r) {
    pl_tensor shapes[3] = { { .rank = 3 }, { .rank = 3 }, { .rank = 3 } };
    pl_datum data[5] = { { .refs = 0 } };
    pl_datum *in[8] = { NULL };
    const uint32_t n_in = c->node->n_in < 8 ? c->node->n_in : 8;
    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < 3; d++)
            shapes[i].dims[d] = pl_g_dim(c, c->node->in[i], d);
        data[i] = (pl_datum){ .kind = PL_TYPE_TENSOR, .tensor = &shapes[i] };
        in[i] = &data[i];
    }
    const pl_tensor *known = pl_g_known(input(c, 4));
    if (known != NULL) {
        data[4] = (pl_datum){ .kind = PL_TYPE_TENSOR, .tensor = (pl_tensor *)(uintptr_t)known };
        in[4] = &data[4];
    }
    pl_eval eval = {
        .node = c->node, .n_in = (int)n_in, .in = in, .scratch = arena, .err = c->err
    };
    if (c->st == PL_OK) c->st = pl_rnn_read(&eval, kind, r);
    if (c->st == PL_OK && r->seq > 4096)
        (void)pl_g_fail(c, "is unrolled step by step, and %lld steps are too many",
                        (long long)r->seq);
    return c->st == PL_OK;
}

/* Joins the parts of all directions along the axis. */
static pl_value *join(pl_grad *c, const pl_rnn *r, pl_value **parts, int64_t axis) {
    for (int64_t d = 0; d < r->dirs; d++)
        parts[d] = pl_g_unsqueeze(c, parts[d], &axis, 1);
    return r->dirs == 1 ? parts[0] : pl_g_concat(c, parts, 2, axis);
}

static void expand(pl_grad *c, const pl_rnn *r, pl_value **out) {
    static const int64_t batch_first[4] = { 2, 0, 1, 3 }, swap[3] = { 1, 0, 2 };
    pl_value *x = c->node->in[0], *y[2] = { NULL }, *h[2] = { NULL }, *state[2] = { NULL };
    pl_value **steps = pl_arena_array(c->graph->model->arena, (size_t)r->seq + 1, sizeof(*steps));
    if (steps == NULL) {
        c->st = pl_fail_memory(c->err, (size_t)r->seq);
        return;
    }
    if (r->layout) x = pl_g_transpose(c, x, swap, 3);
    for (int64_t dir = 0; dir < r->dirs && c->st == PL_OK; dir++) {
        cell k = { .c = c, .r = r, .dir = dir };
        if (input(c, 4) != NULL && pl_g_known(input(c, 4)) == NULL)
            k.lengths = pl_g_cast(c, input(c, 4), PL_I64);
        load_cell(&k, x);
        if (k.lengths != NULL && r->reverse[dir]) k.gates_x = turned(&k, k.gates_x);
        run_steps(&k, steps);
        if (c->st != PL_OK) return;
        y[dir] = in_order(&k, steps);
        h[dir] = k.h;
        state[dir] = k.state;
    }
    out[0] = join(c, r, y, 1); /* seq, dirs, batch, hidden */
    out[1] = join(c, r, h, r->layout ? 1 : 0);
    if (r->layout) out[0] = pl_g_transpose(c, out[0], batch_first, 4);
    if (r->kind == PL_RNN_LSTM) out[2] = join(c, r, state, r->layout ? 1 : 0);
}

static pl_status recurrent_grad(pl_grad *c, pl_rnn_kind kind) {
    pl_arena *arena = pl_arena_new();
    pl_value *out[3] = { NULL };
    pl_rnn r;
    if (arena == NULL) return pl_fail_memory(c->err, 1);
    const size_t mark = pl_g_mark(c);
    if (read_sizes(c, kind, arena, &r)) expand(c, &r, out);
    pl_arena_free(arena);
    return pl_g_expanded(c, mark, out);
}

pl_status pl_rnn_grad(pl_grad *c) {
    return recurrent_grad(c, PL_RNN_PLAIN);
}
pl_status pl_gru_grad(pl_grad *c) {
    return recurrent_grad(c, PL_RNN_GRU);
}
pl_status pl_lstm_grad(pl_grad *c) {
    return recurrent_grad(c, PL_RNN_LSTM);
}
