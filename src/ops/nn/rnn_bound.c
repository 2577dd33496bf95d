/* Bound of RNN, GRU and LSTM: the cell expanded into simple operators, one step at a time. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops/lib/bound_nn.h"
#include "ops/nn/rnn.h"

/* ---- the cell as text ---- */

enum { TEXT_MAX = 4096 };

typedef struct cell_text {
    char text[TEXT_MAX];
    size_t n;
    int n_names;
} cell_text;

__attribute__((format(printf, 2, 3))) static void put(cell_text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->text + t->n, sizeof(t->text) - t->n, format, args);
    va_end(args);
    if (n > 0) t->n += (size_t)n < sizeof(t->text) - t->n ? (size_t)n : 0;
}

/* out = act(clip(x)) */
static void put_act(cell_text *t, const pl_rnn *r, const pl_rnn_act *act, const char *x,
                    const char *out) {
    char from[32];
    snprintf(from, sizeof(from), "%s", x);
    if (r->clip > 0) {
        snprintf(from, sizeof(from), "clip%d", t->n_names++);
        put(t, "%s = Clip(%s, lo, hi) ", from, x);
    }
    const double a = act->alpha, b = act->beta;
    const int k = t->n_names++;
    char word[24];
    pl_rnn_act_name(act, word, sizeof(word));
    if (strcmp(word, "Affine") == 0) {
        put(t, "a%d = Constant<value_float=%.9g>() b%d = Constant<value_float=%.9g>() ", k, a, k,
            b);
        put(t, "m%d = Mul(%s, a%d) %s = Add(m%d, b%d) ", k, from, k, out, k, k);
    } else if (strcmp(word, "ScaledTanh") == 0) {
        put(t, "a%d = Constant<value_float=%.9g>() b%d = Constant<value_float=%.9g>() ", k, a, k,
            b);
        put(t, "m%d = Mul(%s, b%d) t%d = Tanh(m%d) %s = Mul(t%d, a%d) ", k, from, k, k, k, out, k,
            k);
    } else if (strcmp(word, "HardSigmoid") == 0) {
        put(t, "%s = HardSigmoid<alpha=%.9g, beta=%.9g>(%s) ", out, a, b, from);
    } else if (strcmp(word, "Elu") == 0 || strcmp(word, "LeakyRelu") == 0 ||
               strcmp(word, "ThresholdedRelu") == 0) {
        put(t, "%s = %s<alpha=%.9g>(%s) ", out, word, a, from);
    } else if (r->kind == PL_RNN_PLAIN && strcmp(word, "Tanh") == 0) {
        /* Some runtimes compute (1 - exp(-2x)) / (1 + exp(-2x)) here, whose error is absolute. So
         * is that of 2 sigmoid(2x) - 1, which does not overflow. */
        put(t, "d%d = Add(%s, %s) s%d = Sigmoid(d%d) ", k, from, from, k, k);
        put(t, "t%d = Add(s%d, s%d) %s = Sub(t%d, one) ", k, k, k, out, k);
    } else {
        put(t, "%s = %s(%s) ", out, word, from);
    }
}

static void put_head(cell_text *t, const pl_rnn *r, bool peep) {
    const double clip = r->clip > 0 ? r->clip : 1;
    put(t, "(gx, h, c, r, rb%s) => (h2, c2) <float lo = {%.9g}, float hi = {%.9g}, ",
        peep ? ", pi, po, pf" : "", -clip, clip);
    put(t, "float one = {1}> { ");
}

static void put_plain(cell_text *t, const pl_rnn *r, int dir) {
    put_head(t, r, false);
    put(t, "p = Gemm<transB=1>(h, r) g = Add(gx, p) ");
    put_act(t, r, &r->act[dir][0], "g", "h2");
    put(t, "c2 = Identity(c) }");
}

static void put_gru(cell_text *t, const pl_rnn *r, int dir) {
    const long long n = (long long)r->hidden;
    put_head(t, r, false);
    put(t, "three = Constant<value_ints=[%lld, %lld, %lld]>() ", n, n, n);
    put(t, "rz, rr, rh = Split<axis=0>(r, three) xz, xr, xh = Split<axis=1>(gx, three) ");
    put(t, "pz = Gemm<transB=1>(h, rz) gz = Add(xz, pz) ");
    put(t, "pr = Gemm<transB=1>(h, rr) gr = Add(xr, pr) ");
    put_act(t, r, &r->act[dir][0], "gz", "z");
    put_act(t, r, &r->act[dir][0], "gr", "s");
    if (r->linear_before_reset) {
        put(t, "ph = Gemm<transB=1>(h, rh, rb) qh = Mul(s, ph) gh = Add(xh, qh) ");
    } else {
        put(t, "sh = Mul(s, h) ph = Gemm<transB=1>(sh, rh, rb) gh = Add(xh, ph) ");
    }
    put_act(t, r, &r->act[dir][1], "gh", "n");
    put(t, "w = Sub(one, z) wn = Mul(w, n) zh = Mul(z, h) h2 = Add(wn, zh) c2 = Identity(c) }");
}

/* Quantises an operand and dequantises it again, as DynamicQuantizeLSTM does before it
 * multiplies. */
#define QUANTIZED(from, to)                                                                        \
    "q_" to ", s_" to ", z_" to " = DynamicQuantizeLinear(" from ") f_" to " = Cast<to=1>(q_" to   \
    ") g_" to " = Cast<to=1>(z_" to ") d_" to " = Sub(f_" to ", g_" to ") " to " = Mul(d_" to      \
    ", s_" to ") "

static void put_lstm(cell_text *t, const pl_rnn *r, int dir, bool peep, bool quantized) {
    const long long n = (long long)r->hidden;
    put_head(t, r, peep);
    put(t, "%s", quantized ? QUANTIZED("h", "hx") : "hx = Identity(h) ");
    put(t, "four = Constant<value_ints=[%lld, %lld, %lld, %lld]>() ", n, n, n, n);
    put(t, "p = Gemm<transB=1>(hx, r) g = Add(gx, p) gi, go, gf, gc = Split<axis=1>(g, four) ");
    if (peep) {
        put(t, "ci = Mul(pi, c) hi2 = Add(gi, ci) cf = Mul(pf, c) hf2 = Add(gf, cf) ");
    } else {
        put(t, "hi2 = Identity(gi) hf2 = Identity(gf) ");
    }
    put_act(t, r, &r->act[dir][0], "hi2", "i");
    if (r->input_forget) {
        put(t, "f = Sub(one, i) ");
    } else {
        put_act(t, r, &r->act[dir][0], "hf2", "f");
    }
    put_act(t, r, &r->act[dir][1], "gc", "n");
    put(t, "fc = Mul(f, c) in2 = Mul(i, n) c2 = Add(fc, in2) ");
    if (peep) {
        put(t, "co = Mul(po, c2) ho2 = Add(go, co) ");
    } else {
        put(t, "ho2 = Identity(go) ");
    }
    put_act(t, r, &r->act[dir][0], "ho2", "o");
    put_act(t, r, &r->act[dir][2], "c2", "t");
    put(t, "h2 = Mul(o, t) }");
}

/* ---- running it ---- */

enum { IN_GX, IN_H, IN_C, IN_R, IN_RB, IN_P, N_IN = IN_P + 3 };

typedef struct run {
    pl_bound *c;
    const pl_rnn *r;
    bool peep, quantized;
    pl_b_program *cell, *project;
    pl_b_term in[N_IN]; /* inputs of the cell; owned */
    pl_b_term all;      /* gx of all steps, (seq * batch, gates * hidden) */
    double *e[3];       /* bounds of Y, Y_h, Y_c; NULL = not wanted */
} run;

/* Rows [first, first + n) of a table of `width`, as a term of n_dims dims; NULL = exact zeros. */
static pl_status cut(pl_bound *c, int i, int64_t first, int rank, const int64_t *dims,
                     pl_b_term *out) {
    const double *x = i < 0 ? NULL : pl_b_x(c, i), *e = i < 0 ? NULL : pl_b_e(c, i);
    *out = (pl_b_term){ .native = c->out_native[0] };
    for (int k = 1; out->native == PL_UNDEFINED && k < c->n_out; k++)
        out->native = c->out_native[k];
    PL_TRY(pl_tensor_new_zero(PL_F64, rank, dims, &out->x, c->err));
    const size_t bytes = (size_t)out->x->n_elements * sizeof(double);
    if (x != NULL) memcpy(out->x->data, x + first, bytes);
    if (e == NULL) return PL_OK;
    PL_TRY(pl_tensor_new(PL_F64, rank, dims, &out->e, c->err));
    memcpy(out->e->data, e + first, bytes);
    return PL_OK;
}

/* Dequantises input i, codes (dirs, depth, columns), to floats (columns, depth). */
static pl_status dequantize(const run *k, int i, int scale, int64_t dir, int64_t depth,
                            pl_b_term *out) {
    pl_bound *c = k->c;
    const int64_t columns = k->r->gates * k->r->hidden, dims[2] = { columns, depth };
    const pl_tensor *s = pl_b_in(c, scale), *z = pl_b_in(c, scale + 1);
    const double *codes = pl_b_x(c, i), *ps = pl_b_x(c, scale);
    const double *pz = z == NULL ? NULL : pl_b_x(c, scale + 1);
    PL_TRY(cut(c, -1, 0, 2, dims, out));
    if (codes == NULL || ps == NULL) return pl_fail_memory(c->err, 1);
    double *to = out->x->data;
    const int64_t n_s = s->n_elements / k->r->dirs,
                  n_z = z == NULL ? 1 : z->n_elements / k->r->dirs;
    for (int64_t d = 0; d < depth; d++) {
        for (int64_t j = 0; j < columns; j++) {
            const double zero = pz == NULL ? 0 : pz[dir * n_z + (n_z > 1 ? j : 0)];
            to[j * depth + d] =
                (codes[(dir * depth + d) * columns + j] - zero) * ps[dir * n_s + (n_s > 1 ? j : 0)];
        }
    }
    return PL_OK;
}

/* A state of one direction, (batch, hidden), from (dirs, batch, hidden) or (batch, dirs, hidden).
 */
static pl_status load_state(const run *k, int i, int64_t dir, pl_b_term *out) {
    const pl_rnn *r = k->r;
    const int64_t dims[2] = { r->batch, r->hidden };
    const bool given = pl_b_in(k->c, i) != NULL;
    if (!given || !r->layout || r->dirs == 1)
        return cut(k->c, given ? i : -1, given ? dir * r->batch * r->hidden : 0, 2, dims, out);
    PL_TRY(cut(k->c, i, 0, 2, dims, out));
    const double *x = pl_b_x(k->c, i), *e = pl_b_e(k->c, i);
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t from = (b * r->dirs + dir) * r->hidden;
        const size_t bytes = (size_t)r->hidden * sizeof(double);
        memcpy((double *)out->x->data + b * r->hidden, x + from, bytes);
        if (e != NULL) memcpy((double *)out->e->data + b * r->hidden, e + from, bytes);
    }
    return PL_OK;
}

/* X as (seq * batch, in). */
static pl_status load_x(const run *k, pl_b_term *out) {
    const pl_rnn *r = k->r;
    const int64_t dims[2] = { r->seq * r->batch, r->in };
    PL_TRY(cut(k->c, 0, 0, 2, dims, out));
    if (!r->layout) return PL_OK;
    const double *x = pl_b_x(k->c, 0), *e = pl_b_e(k->c, 0);
    for (int64_t i = 0; i < r->seq * r->batch; i++) {
        const int64_t from = (i % r->batch * r->seq + i / r->batch) * r->in;
        const size_t bytes = (size_t)r->in * sizeof(double);
        memcpy((double *)out->x->data + i * r->in, x + from, bytes);
        if (e != NULL) memcpy((double *)out->e->data + i * r->in, e + from, bytes);
    }
    return PL_OK;
}

/* X W' + Wb + Rb for all steps; the GRU adds its last Rb inside the cell. */
static pl_status run_projection(run *k, int64_t dir) {
    const pl_rnn *r = k->r;
    const int64_t rows = r->gates * r->hidden, one[1] = { rows }, last[1] = { r->hidden };
    const int64_t w[2] = { rows, r->in };
    const int bias = pl_b_in(k->c, 3) == NULL ? -1 : 3;
    pl_b_term in[4] = { { 0 } };
    pl_status st = load_x(k, &in[0]);
    if (st == PL_OK)
        st = k->quantized ? dequantize(k, 1, 8, dir, r->in, &in[1])
                          : cut(k->c, 1, dir * rows * r->in, 2, w, &in[1]);
    if (st == PL_OK) st = cut(k->c, bias, dir * 2 * rows, 1, one, &in[2]);
    if (st == PL_OK) st = cut(k->c, bias, dir * 2 * rows + rows, 1, one, &in[3]);
    if (st == PL_OK && r->kind == PL_RNN_GRU) {
        const int64_t skip = 2 * r->hidden;
        st = cut(k->c, bias, dir * 2 * rows + rows + skip, 1, last, &k->in[IN_RB]);
        for (int64_t i = skip; st == PL_OK && i < rows; i++) {
            ((double *)in[3].x->data)[i] = 0;
            if (in[3].e != NULL) ((double *)in[3].e->data)[i] = 0;
        }
    }
    if (st == PL_OK) st = pl_b_program_run(k->c, k->project, in, 4, &k->all, 1);
    for (size_t i = 0; i < 4; i++)
        pl_b_term_release(&in[i]);
    return st;
}

static int64_t source_of(const pl_rnn *r, int64_t dir, int64_t b, int64_t t) {
    return r->reverse[dir] && t < r->lengths[b] ? r->lengths[b] - 1 - t : t;
}

static double *error_of(pl_b_term *t, pl_err *err) {
    if (t->e == NULL && pl_tensor_new_zero(PL_F64, t->x->rank, t->x->dims, &t->e, err) != PL_OK)
        return NULL;
    return t->e->data;
}

/* gx of step t; row b comes from the step of X that item b reads at time t. */
static pl_status load_step(run *k, int64_t dir, int64_t t) {
    const pl_rnn *r = k->r;
    const int64_t row = r->gates * r->hidden, dims[2] = { r->batch, row };
    pl_b_term *gx = &k->in[IN_GX];
    pl_b_term_release(gx);
    gx->native = k->all.native;
    PL_TRY(pl_tensor_new(PL_F64, 2, dims, &gx->x, k->c->err));
    if (k->all.e != NULL) PL_TRY(pl_tensor_new(PL_F64, 2, dims, &gx->e, k->c->err));
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t from = (source_of(r, dir, b, t) * r->batch + b) * row;
        const size_t bytes = (size_t)row * sizeof(double);
        memcpy((double *)gx->x->data + b * row, (double *)k->all.x->data + from, bytes);
        if (gx->e != NULL && k->all.e != NULL)
            memcpy((double *)gx->e->data + b * row, (double *)k->all.e->data + from, bytes);
    }
    return PL_OK;
}

/* Items past their length keep their state. */
static pl_status keep_ended(const run *k, int64_t t, const pl_b_term *old, pl_b_term *state) {
    const pl_rnn *r = k->r;
    const size_t bytes = (size_t)r->hidden * sizeof(double);
    double *e = error_of(state, k->c->err);
    if (e == NULL) return PL_E_MEMORY;
    pl_tensor *own = NULL; /* the tensor from Identity may be shared */
    PL_TRY(pl_tensor_copy(state->x, &own, k->c->err));
    pl_tensor_unref(state->x);
    state->x = own;
    PL_TRY(pl_tensor_copy(state->e, &own, k->c->err));
    pl_tensor_unref(state->e);
    state->e = own;
    e = own->data;
    for (int64_t b = 0; b < r->batch; b++) {
        if (t < r->lengths[b]) continue;
        memcpy((double *)state->x->data + b * r->hidden,
               (const double *)old->x->data + b * r->hidden, bytes);
        if (old->e != NULL) {
            memcpy(e + b * r->hidden, (const double *)old->e->data + b * r->hidden, bytes);
        } else {
            memset(e + b * r->hidden, 0, bytes);
        }
    }
    return PL_OK;
}

static void store_y(const run *k, int64_t dir, int64_t t) {
    const pl_rnn *r = k->r;
    const pl_tensor *from = k->in[IN_H].e;
    for (int64_t b = 0; k->e[0] != NULL && from != NULL && b < r->batch; b++) {
        const int64_t s = source_of(r, dir, b, t);
        const int64_t at =
            r->layout ? (b * r->seq + s) * r->dirs + dir : (s * r->dirs + dir) * r->batch + b;
        if (t >= r->lengths[b]) continue;
        memcpy(k->e[0] + at * r->hidden, (const double *)from->data + b * r->hidden,
               (size_t)r->hidden * sizeof(double));
    }
}

static void store_state(const run *k, int64_t dir, const pl_b_term *state, double *to) {
    const pl_rnn *r = k->r;
    for (int64_t b = 0; to != NULL && state->e != NULL && b < r->batch; b++) {
        const int64_t at = (r->layout ? b * r->dirs + dir : dir * r->batch + b) * r->hidden;
        memcpy(to + at, (const double *)state->e->data + b * r->hidden,
               (size_t)r->hidden * sizeof(double));
    }
}

static pl_status run_steps(run *k, int64_t dir) {
    for (int64_t t = 0; t < k->r->seq; t++) {
        pl_b_term out[2] = { { 0 } };
        PL_TRY(load_step(k, dir, t));
        PL_TRY(pl_b_program_run(k->c, k->cell, k->in, k->peep ? N_IN : IN_P, out, 2));
        pl_status st = keep_ended(k, t, &k->in[IN_H], &out[0]);
        if (st == PL_OK) st = keep_ended(k, t, &k->in[IN_C], &out[1]);
        pl_b_term_release(&k->in[IN_H]);
        pl_b_term_release(&k->in[IN_C]);
        k->in[IN_H] = out[0];
        k->in[IN_C] = out[1];
        PL_TRY(st);
        store_y(k, dir, t);
    }
    return PL_OK;
}

static pl_status run_direction(run *k, int64_t dir) {
    const pl_rnn *r = k->r;
    const int64_t rows = r->gates * r->hidden, rec[2] = { rows, r->hidden };
    const int64_t last[1] = { r->hidden };
    if (r->kind != PL_RNN_GRU) PL_TRY(cut(k->c, -1, 0, 1, last, &k->in[IN_RB]));
    PL_TRY(run_projection(k, dir));
    if (k->quantized) {
        PL_TRY(dequantize(k, 2, 10, dir, r->hidden, &k->in[IN_R]));
    } else {
        PL_TRY(cut(k->c, 2, dir * rows * r->hidden, 2, rec, &k->in[IN_R]));
    }
    PL_TRY(load_state(k, 5, dir, &k->in[IN_H]));
    PL_TRY(load_state(k, r->kind == PL_RNN_LSTM ? 6 : k->c->n_in, dir, &k->in[IN_C]));
    for (int p = 0; k->peep && p < 3; p++)
        PL_TRY(cut(k->c, 7, (dir * 3 + p) * r->hidden, 1, last, &k->in[IN_P + p]));
    PL_TRY(run_steps(k, dir));
    store_state(k, dir, &k->in[IN_H], k->e[1]);
    store_state(k, dir, &k->in[IN_C], k->e[2]);
    return PL_OK;
}

static void release(run *k) {
    for (size_t i = 0; i < N_IN; i++)
        pl_b_term_release(&k->in[i]);
    pl_b_term_release(&k->all);
    pl_b_program_free(k->cell);
    k->cell = NULL;
}

pl_status pl_rnn_bound(pl_bound *c, pl_rnn_kind kind, bool quantized) {
    pl_eval eval = {
        .node = c->node, .n_in = c->n_in, .in = c->in, .scratch = c->scratch, .err = c->err
    };
    pl_rnn r;
    pl_status st = PL_OK;
    PL_TRY(pl_rnn_read(&eval, kind, &r));
    run k = { .c = c,
              .r = &r,
              .peep = kind == PL_RNN_LSTM && pl_b_in(c, 7) != NULL,
              .quantized = quantized };
    for (int i = 0; i < c->n_out && i < 3; i++)
        PL_TRY(pl_b_new(c, i, &k.e[i]));
    if (r.batch == 0 || r.hidden == 0 || r.seq == 0) return PL_OK;
    PL_TRY(pl_b_program_new(c,
                            quantized
                                ? "(x, w, wb, rb) => (g) { " QUANTIZED(
                                      "x", "xx") "b = Add(wb, rb) g = Gemm<transB=1>(xx, w, b) }"
                                : "(x, w, wb, rb) => (g) { b = Add(wb, rb) "
                                  "g = Gemm<transB=1>(x, w, b) }",
                            &k.project));
    for (int64_t dir = 0; dir < r.dirs && st == PL_OK; dir++) {
        cell_text *t = pl_arena_alloc(c->scratch, sizeof(*t));
        if (t == NULL) {
            st = pl_fail_memory(c->err, sizeof(*t));
            break;
        }
        switch (kind) {
        case PL_RNN_PLAIN: put_plain(t, &r, (int)dir); break;
        case PL_RNN_GRU: put_gru(t, &r, (int)dir); break;
        case PL_RNN_LSTM: put_lstm(t, &r, (int)dir, k.peep, quantized); break;
        }
        st = pl_b_program_new(c, t->text, &k.cell);
        if (st == PL_OK) st = run_direction(&k, dir);
        release(&k);
    }
    pl_b_program_free(k.project);
    return st;
}
