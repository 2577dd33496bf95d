/* Einsum-12. The equation is read once; operands are contracted two at a time, each step as a
 * batched matrix product. Intermediates are f32, f64 or int64.
 *
 * Dims of size 1 are dropped from an operand, which is how NumPy broadcasts them; the output gets
 * them back by its shape. */
#include <string.h>

#include "base/size.h"
#include "kernels/gemm/gemm.h"
#include "ops/lib/bound_nn.h"
#include "ops/lib/compute.h"
#include "ops/lib/grad_nn.h"
#include "ops/lib/move.h"
#include "ops/math/einsum_rules.h"

extern const pl_op_def pl_ops_einsum[];

enum {
    N_LETTERS = 52,
    N_LABELS = N_LETTERS + PL_RANK_MAX, /* dims of "..." are counted from its right end */
    OPERANDS_MAX = 64
};

/* Subscripts of one operand or of the output. */
typedef struct term {
    int rank;
    int label[PL_RANK_MAX];
} term;

typedef struct equation {
    int n_terms;
    term *terms; /* of the inputs */
    term out;
} equation;

/* ---- reading ---- */

static int letter_of(char ch) {
    if (ch >= 'A' && ch <= 'Z') return ch - 'A';
    if (ch >= 'a' && ch <= 'z') return ch - 'a' + 26;
    return -1;
}

/* One term from text[*at..) up to ',' or '->' or the end. n_dots: number of dims of "...", or -1 =
 * what the rank leaves. */
static pl_status read_term(const pl_infer *c, pl_string text, size_t *at, int rank, int n_dots,
                           term *out) {
    int before[PL_RANK_MAX], after[PL_RANK_MAX], n_before = 0, n_after = 0;
    bool dots = false;
    for (; *at < text.n_bytes; ++*at) {
        const char ch = text.data[*at];
        if (ch == ' ') continue;
        if (ch == ',' || ch == '-') break;
        if (ch == '.') {
            if (dots || text.n_bytes - *at < 3 || memcmp(text.data + *at, "...", 3) != 0) {
                return pl_infer_fail(c, "invalid ellipsis in the equation");
            }
            dots = true;
            *at += 2;
            continue;
        }
        const int label = letter_of(ch);
        if (label < 0) return pl_infer_fail(c, "invalid character '%c' in the equation", ch);
        int *n = dots ? &n_after : &n_before;
        if (*n >= PL_RANK_MAX) return pl_infer_fail(c, "too many subscripts in the equation");
        (dots ? after : before)[(*n)++] = label;
    }
    if (n_dots < 0) n_dots = rank - n_before - n_after;
    if (!dots) n_dots = rank < 0 ? 0 : rank - n_before - n_after;
    const int total = n_before + n_dots + n_after;
    if (n_dots < 0 || (!dots && n_dots != 0) || total > PL_RANK_MAX) {
        return pl_infer_fail(c, "%d subscripts in the equation for an operand of rank %d",
                             n_before + n_after, rank);
    }
    out->rank = 0;
    for (int i = 0; i < n_before; i++)
        out->label[out->rank++] = before[i];
    for (int i = 0; i < n_dots && dots; i++)
        out->label[out->rank++] = N_LETTERS + n_dots - 1 - i;
    for (int i = 0; i < n_after; i++)
        out->label[out->rank++] = after[i];
    return PL_OK;
}

/* Without "->": the dims of "...", then the letters that occur once, in order. */
static pl_status implicit_output(const pl_infer *c, const equation *e, int n_dots, term *out) {
    int count[N_LABELS] = { 0 };
    for (int t = 0; t < e->n_terms; t++) {
        for (int d = 0; d < e->terms[t].rank; d++)
            count[e->terms[t].label[d]]++;
    }
    out->rank = 0;
    for (int i = 0; i < n_dots; i++)
        out->label[out->rank++] = N_LETTERS + n_dots - 1 - i;
    for (int i = 0; i < N_LETTERS; i++) {
        if (count[i] != 1) continue;
        if (out->rank >= PL_RANK_MAX) return pl_infer_fail(c, "the output has too many dims");
        out->label[out->rank++] = i;
    }
    return PL_OK;
}

static pl_status check_output(const pl_infer *c, const equation *e) {
    bool known[N_LABELS] = { false }, seen[N_LABELS] = { false };
    for (int t = 0; t < e->n_terms; t++) {
        for (int d = 0; d < e->terms[t].rank; d++)
            known[e->terms[t].label[d]] = true;
    }
    for (int d = 0; d < e->out.rank; d++) {
        const int label = e->out.label[d];
        if (seen[label]) return pl_infer_fail(c, "a subscript appears twice in the output");
        if (!known[label] && label < N_LETTERS) {
            return pl_infer_fail(c, "a subscript of the output is missing from the operands");
        }
        seen[label] = true;
    }
    return PL_OK;
}

/* All ranks are known. */
static pl_status read_equation(const pl_infer *c, pl_arena *arena, equation *e) {
    const pl_string text = pl_attr_string(c->node, "equation");
    size_t at = 0;
    int n_dots = 0;
    memset(e, 0, sizeof(*e));
    if (c->n_in > OPERANDS_MAX) return pl_infer_fail(c, "more than %d operands", OPERANDS_MAX);
    e->terms = pl_arena_array(arena, (size_t)c->n_in, sizeof(term));
    if (e->terms == NULL) return pl_fail_memory(c->err, sizeof(term));
    for (e->n_terms = 0; e->n_terms < c->n_in;) {
        term *t = &e->terms[e->n_terms];
        PL_TRY(read_term(c, text, &at, pl_infer_rank(c, e->n_terms), -1, t));
        for (int d = 0; d < t->rank; d++) {
            if (t->label[d] >= N_LETTERS && t->label[d] - N_LETTERS + 1 > n_dots) {
                n_dots = t->label[d] - N_LETTERS + 1;
            }
        }
        if (++e->n_terms < c->n_in) {
            if (at >= text.n_bytes || text.data[at] != ',') break;
            at++;
        }
    }
    const bool ends = at >= text.n_bytes;
    const bool arrow = text.n_bytes - at >= 2 && memcmp(text.data + at, "->", 2) == 0;
    if (e->n_terms != c->n_in || (!ends && !arrow)) {
        return pl_infer_fail(c, "the equation '%.*s' does not fit %d operands",
                             (int)pl_size_min(text.n_bytes, 80), text.data, c->n_in);
    }
    if (ends) return implicit_output(c, e, n_dots, &e->out);
    at += 2;
    PL_TRY(read_term(c, text, &at, -1, n_dots, &e->out));
    if (at < text.n_bytes) return pl_infer_fail(c, "text after the output of the equation");
    return check_output(c, e);
}

static pl_status einsum_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    for (int i = 0; i < c->n_in; i++) {
        if (pl_infer_rank(c, i) < 0) return pl_infer_set_unranked(c, 0, dtype);
    }
    equation e = { 0 };
    pl_dim size[N_LABELS], out[PL_RANK_MAX];
    PL_TRY(read_equation(c, c->arena, &e));
    for (int i = 0; i < N_LABELS; i++)
        size[i] = pl_dim_of(1);
    for (int t = 0; t < e.n_terms; t++) {
        for (int d = 0; d < e.terms[t].rank; d++) {
            pl_dim *slot = &size[e.terms[t].label[d]];
            PL_TRY(pl_infer_broadcast_dim(c, *slot, c->in[t]->dims[d], slot));
        }
    }
    for (int d = 0; d < e.out.rank; d++)
        out[d] = size[e.out.label[d]];
    return pl_infer_set(c, 0, dtype, e.out.rank, out);
}

/* ---- work ---- */

/* A dense intermediate: distinct labels, no dims of size 1. */
typedef struct operand {
    term t;
    int64_t dims[PL_RANK_MAX];
    void *data;
} operand;

typedef struct work {
    pl_eval *c;
    pl_dtype dtype; /* F32, F64 or I64 */
    size_t bytes;
} work;

static bool has_label(const term *t, int label) {
    for (int d = 0; d < t->rank; d++) {
        if (t->label[d] == label) return true;
    }
    return false;
}

static pl_status count_of(work *w, const operand *o, int64_t *n) {
    if (pl_dims_product(o->t.rank, o->dims, n)) return PL_OK;
    return pl_eval_fail(w->c, "an intermediate result has too many elements");
}

#define SUM(name, T, ACC)                                                                          \
    static void name(const T *x, T *y, int64_t outer, int64_t inner) {                             \
        for (int64_t i = 0; i < outer; i++) {                                                      \
            ACC sum = 0;                                                                           \
            for (int64_t j = 0; j < inner; j++)                                                    \
                sum += (ACC)x[i * inner + j];                                                      \
            y[i] = (T)sum;                                                                         \
        }                                                                                          \
    }
SUM(sum_f32, float, double)
SUM(sum_f64, double, double)
SUM(sum_i64, uint64_t, uint64_t)

/* Copies `data` with its labels in the given order, each at most once. Strides of repeated labels
 * add up, which takes the diagonal. */
static pl_status arrange(work *w, const term *t, const int64_t *dims, const void *data,
                         const int *order, int n_order, operand *out) {
    int64_t strides[PL_RANK_MAX], step = 1, n = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= dims[d];
    }
    pl_move m = { .rank = n_order };
    out->t.rank = n_order;
    for (int i = 0; i < n_order; i++) {
        out->t.label[i] = order[i];
        for (int d = 0; d < t->rank; d++) {
            /* a dim of 1 of a repeated label broadcasts */
            if (t->label[d] != order[i] || dims[d] == 1) continue;
            out->dims[i] = m.dims[i] = dims[d];
            m.from[i] += strides[d];
        }
    }
    PL_TRY(count_of(w, out, &n));
    step = 1;
    for (int i = n_order - 1; i >= 0; i--) {
        m.to[i] = step;
        step *= out->dims[i];
    }
    out->data = pl_scratch(w->c, (size_t)n, w->bytes);
    if (out->data == NULL) return pl_eval_memory(w->c);
    if (n > 0) pl_move_run(w->c->pool, &m, w->bytes, data, out->data);
    return PL_OK;
}

/* Sums over the last n_inner dims. */
static pl_status sum_last(work *w, operand *o, int n_inner) {
    if (n_inner == 0) return PL_OK;
    int64_t inner = 1, outer = 0;
    for (int d = o->t.rank - n_inner; d < o->t.rank; d++)
        inner *= o->dims[d];
    o->t.rank -= n_inner;
    PL_TRY(count_of(w, o, &outer));
    void *y = pl_scratch(w->c, (size_t)outer, w->bytes);
    if (y == NULL) return pl_eval_memory(w->c);
    if (w->dtype == PL_F32) sum_f32(o->data, y, outer, inner);
    if (w->dtype == PL_F64) sum_f64(o->data, y, outer, inner);
    if (w->dtype == PL_I64) sum_i64(o->data, y, outer, inner);
    o->data = y;
    return PL_OK;
}

/* Keeps the labels in `needed` and sums over the others. */
static pl_status reduce(work *w, const term *t, const int64_t *dims, const void *data,
                        const bool *needed, operand *out) {
    int order[PL_RANK_MAX], n = 0, n_sum = 0;
    bool seen[N_LABELS] = { false };
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < t->rank; d++) {
            const int label = t->label[d];
            if (dims[d] == 1 || seen[label] || needed[label] != (pass == 0)) continue;
            seen[label] = true;
            order[n++] = label;
            n_sum += pass;
        }
    }
    PL_TRY(arrange(w, t, dims, data, order, n, out));
    return sum_last(w, out, n_sum);
}

static pl_status product(work *w, const pl_gemm_shape *g, const void *a, const void *b, void *y) {
    if (w->dtype == PL_F32) {
        return pl_gemm_f32(w->c->pool, g, 1, a, b, 0, y, NULL, w->c->err);
    }
    if (w->dtype == PL_F64) {
        return pl_gemm_f64(w->c->pool, g, 1, a, b, 0, y, NULL, w->c->err);
    }
    const uint64_t *ua = a, *ub = b;
    uint64_t *uy = y;
    for (int64_t i = 0; i < g->batch * g->m; i++) {
        const uint64_t *row = ub + i / g->m * g->k * g->n;
        memset(uy + i * g->n, 0, (size_t)g->n * sizeof(*uy));
        for (int64_t k = 0; k < g->k; k++) {
            for (int64_t j = 0; j < g->n; j++)
                uy[i * g->n + j] += ua[i * g->k + k] * row[k * g->n + j];
        }
    }
    return PL_OK;
}

/* Contracts x and y; sums over labels that are not needed later. */
static pl_status contract(work *w, const operand *x, const operand *y, const bool *needed,
                          operand *out) {
    int batch[PL_RANK_MAX], left[PL_RANK_MAX], right[PL_RANK_MAX], inner[PL_RANK_MAX];
    int n_batch = 0, n_left = 0, n_right = 0, n_inner = 0;
    for (int d = 0; d < x->t.rank; d++) {
        const int label = x->t.label[d];
        if (!has_label(&y->t, label)) {
            left[n_left++] = label;
        } else if (needed[label]) {
            batch[n_batch++] = label;
        } else {
            inner[n_inner++] = label;
        }
    }
    for (int d = 0; d < y->t.rank; d++) {
        if (!has_label(&x->t, y->t.label[d])) right[n_right++] = y->t.label[d];
    }
    if (n_batch + n_left + n_right > PL_RANK_MAX) {
        return pl_eval_fail(w->c, "an intermediate result has too many dims");
    }
    int order[PL_RANK_MAX];
    operand a = { 0 }, b = { 0 };
    pl_gemm_shape g = { .m = 1, .n = 1, .k = 1, .batch = 1, .by = w->c->kernels };
    memcpy(order, batch, (size_t)n_batch * sizeof(int));
    memcpy(order + n_batch, left, (size_t)n_left * sizeof(int));
    memcpy(order + n_batch + n_left, inner, (size_t)n_inner * sizeof(int));
    PL_TRY(arrange(w, &x->t, x->dims, x->data, order, x->t.rank, &a));
    memcpy(order + n_batch, inner, (size_t)n_inner * sizeof(int));
    memcpy(order + n_batch + n_inner, right, (size_t)n_right * sizeof(int));
    PL_TRY(arrange(w, &y->t, y->dims, y->data, order, y->t.rank, &b));
    out->t.rank = 0;
    for (int i = 0; i < n_batch + n_left; i++) {
        *(i < n_batch ? &g.batch : &g.m) *= a.dims[i];
        out->dims[out->t.rank] = a.dims[i];
        out->t.label[out->t.rank++] = a.t.label[i];
    }
    for (int i = 0; i < n_inner; i++)
        g.k *= a.dims[n_batch + n_left + i];
    for (int i = n_batch + n_inner; i < b.t.rank; i++) {
        g.n *= b.dims[i];
        out->dims[out->t.rank] = b.dims[i];
        out->t.label[out->t.rank++] = b.t.label[i];
    }
    int64_t n = 0;
    PL_TRY(count_of(w, out, &n));
    out->data = pl_scratch(w->c, (size_t)n, w->bytes);
    if (out->data == NULL) return pl_eval_memory(w->c);
    if (n == 0) return PL_OK;
    memset(out->data, 0, g.k == 0 ? (size_t)n * w->bytes : 0);
    if (g.k == 0) return PL_OK;
    g.stride_a = g.m * g.k;
    g.stride_b = g.k * g.n;
    g.stride_c = g.m * g.n;
    return product(w, &g, a.data, b.data, out->data);
}

static void *load_input(work *w, int i) {
    const pl_tensor *t = pl_in(w->c, i);
    if (t->dtype == w->dtype) return t->data;
    void *copy = pl_scratch(w->c, (size_t)t->n_elements, w->bytes);
    if (copy == NULL) return NULL;
    if (w->dtype == PL_F32) {
        pl_compute_load_f32(w->c->pool, t->dtype, t->data, copy, t->n_elements);
    } else {
        pl_load_i64(t->dtype, t->data, copy, (size_t)t->n_elements);
    }
    return copy;
}

/* Labels of the output and of the operands from `first` on. */
static void needed_after(const equation *e, int first, bool *needed) {
    memset(needed, 0, N_LABELS * sizeof(*needed));
    for (int d = 0; d < e->out.rank; d++)
        needed[e->out.label[d]] = true;
    for (int t = first; t < e->n_terms; t++) {
        for (int d = 0; d < e->terms[t].rank; d++)
            needed[e->terms[t].label[d]] = true;
    }
}

static pl_status evaluate(work *w, const equation *e, operand *result) {
    bool needed[N_LABELS], own[N_LABELS];
    for (int t = 0; t < e->n_terms; t++) {
        operand next = { 0 }, both = { 0 };
        void *data = load_input(w, t);
        if (data == NULL) return pl_eval_memory(w->c);
        needed_after(e, t + 1, needed);
        memcpy(own, needed, sizeof(own));
        for (int d = 0; t > 0 && d < result->t.rank; d++)
            own[result->t.label[d]] = true;
        PL_TRY(reduce(w, &e->terms[t], pl_in(w->c, t)->dims, data, own, &next));
        if (t == 0) {
            *result = next;
            continue;
        }
        PL_TRY(contract(w, result, &next, needed, &both));
        PL_TRY(reduce(w, &both.t, both.dims, both.data, needed, result));
    }
    return PL_OK;
}

/* Reads the equation again with the real tensors. Cannot fail: the shape rule has read it. */
static pl_status equation_of(pl_eval *c, equation *e) {
    pl_infer view = { .node = c->node, .arena = c->scratch, .n_in = c->n_in, .err = c->err };
    const pl_type **types = pl_scratch(c, (size_t)c->n_in, sizeof(*types));
    if (types == NULL) return pl_eval_memory(c);
    for (int i = 0; i < c->n_in; i++) {
        pl_dim dims[PL_RANK_MAX];
        const pl_tensor *t = pl_in(c, i);
        for (int d = 0; d < t->rank; d++)
            dims[d] = pl_dim_of(t->dims[d]);
        types[i] = pl_type_tensor(c->scratch, t->dtype, t->rank, dims);
        if (types[i] == NULL) return pl_eval_memory(c);
    }
    view.in = types;
    return read_equation(&view, c->scratch, e);
}

static pl_status einsum_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0);
    equation e = { 0 };
    operand result = { 0 }, last = { 0 };
    work w = { .c = c };
    w.dtype = !pl_dtype_is_float(y->dtype) ? PL_I64 : y->dtype == PL_F64 ? PL_F64 : PL_F32;
    w.bytes = pl_dtype_bytes(w.dtype);
    PL_TRY(equation_of(c, &e));
    if (y->n_elements == 0) return PL_OK;
    for (int i = 0; i < c->n_in; i++) {
        if (pl_in(c, i)->n_elements > 0) continue;
        memset(y->data, 0, pl_tensor_bytes(y)); /* empty sums */
        return PL_OK;
    }
    PL_TRY(evaluate(&w, &e, &result));
    int order[PL_RANK_MAX], n = 0;
    for (int d = 0; d < e.out.rank; d++) {
        if (has_label(&result.t, e.out.label[d])) order[n++] = e.out.label[d];
    }
    PL_TRY(arrange(&w, &result.t, result.dims, result.data, order, n, &last));
    if (w.dtype == PL_I64) {
        pl_store_i64(y->dtype, last.data, y->data, (size_t)y->n_elements);
    } else if (w.dtype == PL_F32) {
        pl_compute_store_f32(c->pool, y->dtype, last.data, y->data, y->n_elements);
    } else {
        memcpy(y->data, last.data, pl_tensor_bytes(y));
    }
    return PL_OK;
}

static pl_status einsum_bound(pl_bound *c) {
    pl_eval eval = {
        .node = c->node, .n_in = c->n_in, .in = c->in, .scratch = c->scratch, .err = c->err
    };
    equation e = { 0 };
    double size[N_LABELS];
    pl_b_dot dot = { .n_factors = c->n_in, .bias = -1, .alpha = 1, .k = 1 };
    if (c->n_in > PL_RANK_MAX) return pl_b_unknown(c);
    PL_TRY(equation_of(&eval, &e));
    for (int i = 0; i < N_LABELS; i++)
        size[i] = 1;
    for (int t = 0; t < e.n_terms; t++) {
        dot.factor[t] = t;
        for (int d = 0; d < e.terms[t].rank; d++) {
            const int64_t n = pl_b_in(c, t)->dims[d];
            if (n != 1) size[e.terms[t].label[d]] = (double)n;
        }
    }
    for (int i = 0; i < N_LABELS; i++)
        dot.k *= has_label(&e.out, i) ? 1 : size[i];
    if (c->n_in == 1 && dot.k <= 1) return pl_b_move(c);
    return pl_b_dot_rule(c, &dot);
}

/* ---- gradient ---- */

typedef struct einsum_text { /* an equation with a letter for every label, including "..." */
    char letter[N_LABELS];
    bool taken[N_LETTERS];
    char text[512];
    size_t n;
} einsum_text;

static char letter_at(int i) {
    return (char)(i < 26 ? 'A' + i : 'a' + i - 26);
}

/* An unused letter; 0 when none is left. */
static char fresh_letter(einsum_text *t) {
    for (int i = 0; i < N_LETTERS; i++) {
        if (t->taken[i]) continue;
        t->taken[i] = true;
        return letter_at(i);
    }
    return 0;
}

static void put_char(einsum_text *t, char ch) {
    if (t->n + 1 < sizeof(t->text)) t->text[t->n++] = ch;
    t->text[t->n] = '\0';
}

static bool name_labels(einsum_text *t, const equation *e) {
    memset(t, 0, sizeof(*t));
    for (int pass = 0; pass < 2; pass++) { /* letters stay as they are */
        for (int k = 0; k <= e->n_terms; k++) {
            const term *one = k < e->n_terms ? &e->terms[k] : &e->out;
            for (int d = 0; d < one->rank; d++) {
                const int label = one->label[d];
                if (t->letter[label] != 0 || (label < N_LETTERS) != (pass == 0)) continue;
                if (label < N_LETTERS) t->taken[label] = true;
                t->letter[label] = label < N_LETTERS ? letter_at(label) : fresh_letter(t);
                if (t->letter[label] == 0) return false;
            }
        }
    }
    return true;
}

/* Ones [n] or the identity [n, n], in the type of `like`. */
static pl_value *factor_of(pl_grad *c, const pl_value *like, int64_t n, bool identity) {
    pl_g_table t;
    if (!pl_g_table_new(c, &t, identity ? 2 : 1, (const int64_t[]){ n, n })) return NULL;
    for (int64_t i = 0; i < n; i++)
        t.data[identity ? i * n + i : i] = 1;
    return pl_g_table_value(c, &t, like->type->dtype);
}

typedef struct einsum_job {
    pl_grad *c;
    const equation *e;
    einsum_text *t;
    pl_value *in[OPERANDS_MAX + 2 * PL_RANK_MAX];
    size_t n_in;
} einsum_job;

static void add_operand(einsum_job *j, pl_value *x, const term *labels) {
    if (j->n_in > 0) put_char(j->t, ',');
    j->in[j->n_in++] = x;
    for (int d = 0; d < labels->rank; d++)
        put_char(j->t, j->t->letter[labels->label[d]]);
}

/* Size of a label among the operands; 1 broadcasts. */
static int64_t label_size(einsum_job *j, int label) {
    int64_t size = 1;
    for (int k = 0; k < j->e->n_terms; k++) {
        for (int d = 0; d < j->e->terms[k].rank; d++) {
            if (j->e->terms[k].label[d] != label) continue;
            const int64_t n = pl_g_dim(j->c, j->c->node->in[k], d);
            if (n != 1) size = n;
        }
    }
    return size;
}

/* dL/d(operand k): contracts the output's gradient with the other operands to the labels of k.
 * Labels that only k has are repeated by a factor of ones; repeated labels go to the diagonal by a
 * factor of identity. */
static pl_value *operand_grad(pl_grad *c, const equation *e, const einsum_text *named, int k) {
    const term *own = &e->terms[k];
    einsum_text t = *named;
    einsum_job j = { .c = c, .e = e, .t = &t };
    char out[PL_RANK_MAX + 1] = "";
    add_operand(&j, c->dy[0], &e->out);
    for (int i = 0; i < e->n_terms; i++)
        if (i != k) add_operand(&j, c->node->in[i], &e->terms[i]);
    for (int d = 0; d < own->rank && c->st == PL_OK; d++) {
        const int label = own->label[d];
        bool there = has_label(&e->out, label), before = false;
        for (int i = 0; i < e->n_terms; i++)
            there = there || (i != k && has_label(&e->terms[i], label));
        for (int i = 0; i < d; i++)
            before = before || own->label[i] == label;
        out[d] = t.letter[label];
        if (before) {
            out[d] = fresh_letter(&t);
            put_char(&t, ',');
            put_char(&t, t.letter[label]);
            put_char(&t, out[d]);
            j.in[j.n_in++] = factor_of(c, c->node->in[k], label_size(&j, label), true);
        } else if (!there) {
            put_char(&t, ',');
            put_char(&t, out[d]);
            j.in[j.n_in++] = factor_of(c, c->node->in[k], label_size(&j, label), false);
        }
        if (out[d] == 0) (void)pl_g_fail(c, "needs more than 52 subscripts");
    }
    put_char(&t, '-');
    put_char(&t, '>');
    for (int d = 0; d < own->rank; d++)
        put_char(&t, out[d]);
    if (t.n + 2 >= sizeof(t.text)) (void)pl_g_fail(c, "needs an equation that is too long");
    const pl_attr attr = PL_G_STRING("equation", t.text);
    if (c->st != PL_OK) return NULL;
    return pl_g_unbroadcast(c, pl_g_op(c, "Einsum", j.in, j.n_in, &attr, 1), c->node->in[k]);
}

static pl_status einsum_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_arena *arena = pl_arena_new();
    equation e = { 0 };
    einsum_text named;
    if (arena == NULL) return pl_fail_memory(c->err, 1);
    const pl_type **types = pl_arena_array(arena, (size_t)node->n_in + 1, sizeof(*types));
    pl_infer view = { .node = node, .arena = arena, .n_in = (int)node->n_in, .err = c->err };
    if (types == NULL) c->st = pl_fail_memory(c->err, 1);
    for (uint32_t i = 0; i < node->n_in && c->st == PL_OK; i++) {
        (void)pl_g_rank(c, node->in[i]);
        types[i] = node->in[i]->type;
    }
    view.in = types;
    if (c->st == PL_OK) c->st = read_equation(&view, arena, &e);
    if (c->st == PL_OK && !name_labels(&named, &e))
        (void)pl_g_fail(c, "needs more than 52 subscripts");
    for (int k = 0; k < e.n_terms && c->st == PL_OK; k++)
        if (c->wanted[k]) c->dx[k] = operand_grad(c, &e, &named, k);
    pl_arena_free(arena);
    return c->st;
}

/* ---- rows ---- */

/* clang-format off */
const pl_op_def pl_ops_einsum[] = {
    { .name = "Einsum", .since = 12, .in = PL_PORTS({ "Inputs", PL_T_NUMERIC, PL_PORT_SAME | PL_PORT_VARIADIC }),
      .out = PL_PORTS({ "Output", PL_T_NUMERIC, 0 }), .attrs = PL_ATTRS(PL_A_REQUIRED("equation", STRING)),
      .infer = einsum_infer, .eval = einsum_eval, .grad = einsum_grad, .bound = einsum_bound, .emit = pl_emit_einsum, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[2,3,4] a, float[2,4,5] b) => (y) { y = Einsum<equation=\"bij,bjk->bik\">(a, b) }", NULL, 0 },
                            { "(float[3,3] a) => (y) { y = Einsum<equation=\"ii\">(a) }", NULL, 0 },
                            { "(float[2,3,4] a, float[4] b, float[3] c) => (y) { y = Einsum<equation=\"...ij, j, i -> ...\">(a, b, c) }", NULL, 0 },
                            { "(float[2,3] a) => (y) { y = Einsum<equation=\"ij->\">(a) }", NULL, 0 },
                            { "(float[3] a, float[4] b) => (y) { y = Einsum<equation=\"i,j->ji\">(a, b) }", NULL, 0 },
                            { "(float[2,3,3] a, float[2,5] b) => (y) { y = Einsum<equation=\"bii,bk->bk\">(a, b) }", NULL, 0 },
                            { "(float[2,1,3] a, float[5,3] b) => (y) { y = Einsum<equation=\"...i,...i\">(a, b) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
