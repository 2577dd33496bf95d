/* Error bound of attention. The error of a score is the rounding of its dot product; by
 * Cauchy-Schwarz the sum of the absolute terms is at most the product of the norms of the two
 * heads. Elements that are rounded after a rotation err independently: their part adds in
 * quadrature. The result y is an average of the values with the probabilities p as weights, and a
 * change d of the scores changes it by the sum of p d (v - y): at most d times the deviation of the
 * values from y under p. The average's own rounding is relative to the root of the mean square. */
#include "ops/lib/bound_attention.h"

#include <math.h>

#include "ops/lib/bound_nn.h"

typedef struct heads_norm {
    double x; /* largest norm of any head */
    double e; /* largest error of an element; errors add in quadrature */
} heads_norm;

typedef struct attention_stats {
    heads_norm q, k;
    double v, ev;     /* largest value, and largest error of one */
    double local;     /* relative error that bias and rotation add to an element of q and k */
    double local_v;   /* the same for v: no rotation */
    double stored;    /* as local, its roundings added in quadrature */
    double *pairs;    /* by element of a head: its largest magnitude in any key, however it is
                         turned; NULL = not known */
    double seen_bias; /* largest |bias| among visible keys; e_bias: its error */
    double e_bias;
    double length;                /* number of keys */
    double turn;                  /* how much a rotation may enlarge a head */
    const double *row_q, *row_eq; /* norm and error of each head of q, in order; NULL = use q */
    const double *row_mixed;      /* of each head of q with `pairs`; NULL = use the norms */
    const double *row_bias;       /* |score| of rows whose keys are all hidden; NULL = none */
} attention_stats;

static double norm(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static double largest_norm(const double *x, int64_t total, int64_t n) {
    double most = 0;
    for (int64_t at = 0; x != NULL && n > 0 && at + n <= total; at += n)
        most = fmax(most, norm(x + at, n));
    return most;
}

static void add_input(pl_bound *c, int i, int64_t size, heads_norm *h) {
    const pl_tensor *t = i < 0 ? NULL : pl_b_in(c, i);
    if (t == NULL) return;
    h->x = fmax(h->x, largest_norm(pl_b_x(c, i), t->n_elements, size));
    h->e = fmax(h->e, pl_b_worst(pl_b_e(c, i), t->n_elements));
}

static void add_values(pl_bound *c, int i, attention_stats *s) {
    const pl_tensor *t = i < 0 ? NULL : pl_b_in(c, i);
    if (t == NULL) return;
    s->v = fmax(s->v, pl_b_peak(pl_b_x(c, i), t->n_elements));
    s->ev = fmax(s->ev, pl_b_worst(pl_b_e(c, i), t->n_elements));
}

static void projected_stats(const pl_b_attention *a, attention_stats *s) {
    for (int64_t row = 0; row < a->n_projected / a->cols; row++) {
        const double *x = a->projected + row * a->cols;
        s->q.x = fmax(s->q.x, largest_norm(x, a->q_cols, a->head_size));
        s->k.x = fmax(s->k.x, largest_norm(x + a->q_cols, a->k_cols, a->head_size));
        const int64_t rest = a->q_cols + a->k_cols;
        s->v = fmax(s->v, pl_b_peak(x + rest, a->cols - rest));
    }
    s->q.e = fmax(s->q.e, a->projection_error);
    s->k.e = fmax(s->k.e, a->projection_error);
    s->ev = fmax(s->ev, a->projection_error);
}

/* Keys with a bias far below zero do not count, unless a row has no others (row_biases). */
static void bias_stats(pl_bound *c, const pl_b_attention *a, attention_stats *s) {
    const pl_tensor *t = a->score_bias < 0 ? NULL : pl_b_in(c, a->score_bias);
    if (t == NULL || !pl_dtype_is_float(c->in_native[a->score_bias])) return;
    const double *x = pl_b_x(c, a->score_bias);
    for (int64_t i = 0; x != NULL && i < t->n_elements; i++)
        if (x[i] > -100 && isfinite(x[i])) s->seen_bias = fmax(s->seen_bias, fabs(x[i]));
    s->e_bias = pl_b_worst(pl_b_e(c, a->score_bias), t->n_elements);
}

/* One row of scores: the bias and mask that apply to its keys. */
typedef struct score_row {
    const pl_tensor *bias, *mask; /* NULL = none */
    const double *px, *pm;
    double filter;
    int64_t keys, shift; /* keys up to query index + shift are visible */
} score_row;

/* The largest bias of the keys that query i of head h and batch b sees. */
static double largest_bias(const score_row *r, int64_t b, int64_t h, int64_t i) {
    const int64_t at[3] = { b, h, i };
    int64_t row = 0;
    for (int d = 0; r->bias != NULL && d < r->bias->rank - 1; d++) {
        const int64_t n = r->bias->dims[d], k = at[d + 4 - r->bias->rank];
        row = row * n + (k < n ? k : 0);
    }
    double most = -HUGE_VAL;
    for (int64_t j = 0; j < r->keys && j <= i + r->shift; j++) {
        const bool hides = r->mask == NULL      ? false
                           : r->mask->rank == 1 ? (double)j >= r->pm[b]
                                                : r->pm[b * r->keys + j] == 0;
        most =
            fmax(most, (hides ? r->filter : 0) + (r->bias == NULL ? 0 : r->px[row * r->keys + j]));
    }
    return most;
}

/* For rows in which every key has a bias far below zero: scores are rounded at that magnitude. */
static pl_status row_biases(pl_bound *c, const pl_b_attention *a, attention_stats *s) {
    const pl_tensor *y = pl_b_out(c, 0), *t = a->score_bias < 0 ? NULL : pl_b_in(c, a->score_bias);
    score_row r = { .mask = a->mask > 0 ? pl_b_in(c, a->mask) : NULL, .filter = a->filter };
    r.shift = a->causal ? a->shift : INT64_MAX / 2;
    if (y == NULL || y->n_elements == 0 || a->v_size == 0 || y->rank < 3) return PL_OK;
    if (t != NULL && pl_dtype_is_float(c->in_native[a->score_bias]) && t->rank <= 4 && t->rank > 0)
        r.bias = t;
    const int flags = r.mask == NULL ? 0 : r.mask->rank; /* 1: lengths, 2: flags, else ignored */
    if (flags > 2 || (flags > 0 && r.mask->dims[0] != y->dims[0])) r.mask = NULL;
    r.keys = r.bias != NULL                 ? r.bias->dims[r.bias->rank - 1]
             : r.mask != NULL && flags == 2 ? r.mask->dims[1]
                                            : 1;
    if (r.mask != NULL && flags == 2 && r.mask->dims[1] != r.keys) r.mask = NULL;
    if (r.bias == NULL && r.mask == NULL) return PL_OK;
    r.px = r.bias == NULL ? NULL : pl_b_x(c, a->score_bias);
    r.pm = r.mask == NULL ? NULL : pl_b_x(c, a->mask);
    const int64_t rows = y->n_elements / a->v_size, per_batch = rows / y->dims[0];
    double *to = pl_arena_array(c->scratch, (size_t)rows, sizeof(*to));
    if (to == NULL || (r.bias != NULL && r.px == NULL) || (r.mask != NULL && r.pm == NULL))
        return pl_fail_memory(c->err, (size_t)rows);
    const bool heads_last =
        y->rank == 3; /* (batch, queries, heads), else (batch, heads, queries) */
    const int64_t inner = heads_last ? per_batch / y->dims[1] : y->dims[2];
    for (int64_t k = 0; k < rows; k++) {
        const int64_t outer = k % per_batch / inner, last = k % inner;
        const double most =
            largest_bias(&r, k / per_batch, heads_last ? last : outer, heads_last ? outer : last);
        to[k] = most < -100 && isfinite(most) ? -most : 0;
    }
    s->row_bias = to;
    return PL_OK;
}

/* How large element i of a head can be after its rotation, which keeps the norm of a pair. */
static double turned(const pl_bound *c, const pl_b_attention *a, const double *head, int64_t i) {
    const pl_tensor *cos = a->cos < 0 ? NULL : pl_b_in(c, a->cos);
    const int64_t half = cos == NULL ? 0 : cos->dims[cos->rank - 1];
    if (i >= 2 * half) return fabs(head[i]);
    const int64_t other = a->interleaved ? (i ^ 1) : i < half ? i + half : i - half;
    return other < a->head_size ? hypot(head[i], head[other]) : fabs(head[i]);
}

static pl_status key_pairs(pl_bound *c, const pl_b_attention *a, attention_stats *s) {
    const int64_t n = a->head_size;
    double *pairs = pl_arena_array(c->scratch, (size_t)n, sizeof(*pairs));
    if (pairs == NULL) return pl_fail_memory(c->err, (size_t)n);
    const int inputs[2] = { a->k, a->past_key };
    for (int t = 0; t < 2; t++) {
        const pl_tensor *k = inputs[t] < 0 ? NULL : pl_b_in(c, inputs[t]);
        const double *x = k == NULL ? NULL : pl_b_x(c, inputs[t]);
        for (int64_t at = 0; x != NULL && at + n <= k->n_elements; at += n)
            for (int64_t i = 0; i < n; i++)
                pairs[i] = fmax(pairs[i], turned(c, a, x + at, i));
    }
    for (int64_t i = 0; i < n; i++)
        pairs[i] *= s->turn * s->turn;
    s->pairs = pairs;
    return PL_OK;
}

/* Norms of single heads of q, if q and the output have the same layout. */
static pl_status row_norms(pl_bound *c, const pl_b_attention *a, attention_stats *s) {
    const pl_tensor *q = pl_b_in(c, a->q), *y = pl_b_out(c, 0);
    const bool alone = a->projected == NULL && a->k >= 0 && pl_b_in(c, a->k) != NULL;
    if (!alone || a->bias >= 0 || a->v_size == 0 || a->head_size == 0 || y == NULL) return PL_OK;
    const int64_t rows = q->n_elements / a->head_size;
    if (rows * a->v_size != y->n_elements) return PL_OK;
    const double *x = pl_b_x(c, a->q), *e = pl_b_e(c, a->q);
    double *to = pl_arena_array(c->scratch, (size_t)rows, sizeof(*to));
    double *to_e = pl_arena_array(c->scratch, (size_t)rows, sizeof(*to_e));
    if (x == NULL || to == NULL || to_e == NULL) return pl_fail_memory(c->err, (size_t)rows);
    double *mixed = pl_arena_array(c->scratch, (size_t)rows, sizeof(*mixed));
    if (mixed == NULL) return pl_fail_memory(c->err, (size_t)rows);
    PL_TRY(key_pairs(c, a, s));
    for (int64_t i = 0; i < rows; i++) {
        const double *head = x + i * a->head_size;
        double sum = 0;
        for (int64_t k = 0; k < a->head_size; k++) {
            const double term = turned(c, a, head, k) * s->pairs[k];
            sum += term * term;
        }
        mixed[i] = sqrt(sum);
        to[i] = s->turn * norm(head, a->head_size);
        if (e != NULL) to_e[i] = s->turn * pl_b_worst(e + i * a->head_size, a->head_size);
    }
    s->row_q = to;
    s->row_eq = to_e;
    s->row_mixed = mixed;
    return PL_OK;
}

static pl_status stats_of(pl_bound *c, const pl_b_attention *a, attention_stats *s) {
    *s = (attention_stats){ .length = 1, .turn = 1 };
    const bool packed = a->projected == NULL && (a->k < 0 || pl_b_in(c, a->k) == NULL);
    if (a->projected != NULL) {
        projected_stats(a, s);
    } else {
        add_input(c, a->q, a->head_size, &s->q);
        add_input(c, packed ? a->q : a->k, a->head_size, &s->k);
        const bool has_v = a->v >= 0 && pl_b_in(c, a->v) != NULL;
        add_values(c, has_v ? a->v : packed ? a->q : a->k, s);
    }
    add_input(c, a->past_key, a->head_size, &s->k);
    add_values(c, a->past_value, s);
    if (a->bias >= 0 && pl_b_in(c, a->bias) != NULL) {
        heads_norm b = { 0, 0 };
        add_input(c, a->bias, a->head_size, &b);
        add_values(c, a->bias, s);
        s->q.x += b.x, s->q.e += b.e, s->k.x += b.x, s->k.e += b.e;
        s->v *= 2, s->ev *= 2;
        s->local += c->u, s->local_v += c->u, s->stored = c->u;
    }
    if (a->cos >= 0 && pl_b_in(c, a->cos) != NULL) {
        const double cos = pl_b_peak(pl_b_x(c, a->cos), pl_b_in(c, a->cos)->n_elements);
        const double sin = pl_b_peak(pl_b_x(c, a->sin), pl_b_in(c, a->sin)->n_elements);
        const double turn = fmax(1, hypot(cos, sin));
        s->turn = turn;
        s->q.x *= turn, s->q.e *= turn, s->k.x *= turn, s->k.e *= turn;
        s->local += 3 * c->u;
        s->stored = hypot(s->stored, sqrt(3) * c->u);
    }
    bias_stats(c, a, s);
    const pl_tensor *k = a->projected != NULL || packed ? pl_b_in(c, a->q) : pl_b_in(c, a->k);
    const pl_tensor *past = a->past_key < 0 ? NULL : pl_b_in(c, a->past_key);
    s->length = k->rank >= 2 ? (double)k->dims[k->rank == 4 ? 2 : 1] : 1;
    if (past != NULL) s->length += (double)past->dims[past->rank - 2];
    PL_TRY(row_biases(c, a, s));
    return row_norms(c, a, s);
}

/* Error of a score for a query of this norm and error; mixed: the root of the sum of squares of its
 * elements times those of a key. */
static double score_error(const pl_bound *c, const pl_b_attention *a, const attention_stats *s,
                          double q, double eq, double mixed) {
    const double largest = fabs(a->scale) * q * s->k.x;
    /* the scaled query and the score are stored; so are the elements of both heads */
    const double stored = sqrt(2) * hypot(c->u * largest, s->stored * fabs(a->scale) * mixed);
    return largest * c->u_acc * pl_b_chain((double)a->head_size) + stored +
           fabs(a->scale) * (eq * s->k.x + q * s->k.e) + c->u * s->seen_bias + s->e_bias;
}

/* Relative error of an average with exact scores. */
static double average_error(const pl_bound *c, const attention_stats *s) {
    const double own = c->u_acc * (pl_b_chain(s->length) + 6 + log(fmax(s->length, 1))) + 2 * c->u;
    /* Keys that matter are within a few units of the largest score. */
    const double maths = pl_b_maths(c, PL_MATHS_EXP, 8, 1) + pl_b_maths(c, PL_MATHS_DIV, 1, 1);
    return own + maths + s->local_v;
}

/* ---- the average of v squared, and of its errors ---- */

/* x[i] := input i squared, or its error bound; leaves x[i] NULL when the input is left out. */
static pl_status put_values(pl_bound *c, int i, bool errors, pl_tensor **x) {
    const pl_tensor *t = i < 0 ? NULL : pl_b_in(c, i);
    if (t == NULL) return PL_OK;
    if (!errors) return pl_b_map(c, t, pl_b_square, &x[i]);
    if (c->e_in[i] != NULL) {
        x[i] = pl_tensor_ref(c->e_in[i]);
        return PL_OK;
    }
    return pl_tensor_new_zero(PL_F64, t->rank, t->dims, &x[i], c->err);
}

static pl_status average_of(pl_bound *c, const pl_b_attention *a, bool errors, bool large,
                            pl_tensor **out) {
    pl_tensor **x = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_tensor *));
    if (x == NULL) return pl_fail_memory(c->err, 1);
    pl_status st = put_values(c, a->v, errors, x);
    if (st == PL_OK) st = put_values(c, a->past_value, errors, x);
    const pl_dtype precision = errors || large || c->u < 0x1p-40 ? PL_F64 : PL_F32;
    if (st == PL_OK) st = pl_b_apply(c, x, precision, 0, out);
    for (int i = 0; i < c->n_in; i++)
        pl_tensor_unref(x[i]);
    return st;
}

/* Error of a score in a row of the output. */
static double row_error(const pl_bound *c, const pl_b_attention *a, const attention_stats *s,
                        int64_t row) {
    const double q = s->row_q == NULL ? s->q.x : s->row_q[row];
    const double eq = s->row_q == NULL ? s->q.e : s->row_eq[row];
    const double mixed = s->row_mixed == NULL ? q * s->k.x : s->row_mixed[row];
    const double score = score_error(c, a, s, q, eq, mixed);
    return score + (s->row_bias == NULL ? 0 : 2 * c->u * s->row_bias[row]);
}

/* From the error of the scores, relative error, mean square and mean of the values. The mean square
 * is computed in float: what it may lack is added. Probabilities change by no more than all. */
static double value_error(double score, double rel, double square, double y) {
    const double root = sqrt(square), spread = sqrt(fmax(square - y * y, 0) + 0x1p-20 * square);
    return fmin(score * spread, 2 * root) + score * score * root + rel * root;
}

static pl_status bound_y(pl_bound *c, const pl_b_attention *a, const attention_stats *s) {
    const pl_tensor *y = pl_b_out(c, 0);
    const double *py = pl_b_y(c, 0);
    pl_tensor *squares = NULL, *errors = NULL;
    double *e = NULL;
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || y->n_elements == 0) return PL_OK;
    if (py == NULL) return pl_fail_memory(c->err, 1);
    const bool alone = a->projected == NULL && a->v >= 0 && pl_b_in(c, a->v) != NULL &&
                       (a->bias < 0 || pl_b_in(c, a->bias) == NULL);
    const bool off =
        alone && (c->e_in[a->v] != NULL || (a->past_value >= 0 && a->past_value < c->n_in &&
                                            c->e_in[a->past_value] != NULL));
    const bool large = !(s->v < 0x1p60);
    pl_status st = alone ? average_of(c, a, false, large, &squares) : PL_OK;
    if (st == PL_OK && off) st = average_of(c, a, true, true, &errors);
    const double rel = average_error(c, s);
    double score = 0;
    for (int64_t i = 0; st == PL_OK && i < y->n_elements; i++) {
        if (i == 0 || (a->v_size > 0 && i % a->v_size == 0))
            score = row_error(c, a, s, a->v_size == 0 ? 0 : i / a->v_size);
        if (squares == NULL) {
            e[i] = (fmin(2 * score, 2) + rel) * s->v;
        } else {
            e[i] = value_error(score, rel, fabs(((const double *)squares->data)[i]), py[i]);
        }
        if (!alone) e[i] += s->ev;
        if (errors != NULL) e[i] += fabs(((const double *)errors->data)[i]);
    }
    if (st == PL_OK) pl_b_add_stored(c, py, e, y->n_elements);
    pl_tensor_unref(squares);
    pl_tensor_unref(errors);
    return st;
}

/* Bounds of the key and value caches: inherited errors plus the rounding of bias and rotation. */
static pl_status bound_kept(pl_bound *c, const pl_b_attention *a, const attention_stats *s, int i) {
    const pl_tensor *y = pl_b_out(c, i);
    const double *py = pl_b_y(c, i);
    double *e = NULL;
    if (y == NULL) return PL_OK;
    const bool key = i == 1;
    const double inherited = key ? fmax(s->k.e, a->projected != NULL ? s->ev : 0) : s->ev;
    const double own = a->projected != NULL ? 0 : s->local;
    if (inherited == 0 && own == 0) return PL_OK;
    PL_TRY(pl_b_new(c, i, &e));
    if (py == NULL) return pl_fail_memory(c->err, 1);
    const int64_t n = y->rank > 0 ? y->dims[y->rank - 1] : 1;
    for (int64_t at = 0; n > 0 && at < y->n_elements; at += n) {
        const double head = norm(py + at, n);
        for (int64_t k = at; k < at + n; k++)
            e[k] = inherited + own * head;
    }
    pl_b_add_stored(c, py, e, y->n_elements);
    return PL_OK;
}

static pl_status bound_scores(pl_bound *c, const pl_b_attention *a, const attention_stats *s) {
    const pl_tensor *y = pl_b_out(c, 3);
    const double *py = pl_b_y(c, 3);
    double *e = NULL;
    PL_TRY(pl_b_new(c, 3, &e));
    if (e == NULL) return PL_OK;
    if (py == NULL) return pl_fail_memory(c->err, 1);
    const double score = score_error(c, a, s, s->q.x, s->q.e, s->q.x * s->k.x);
    const double rel = fmin(2 * score, 2) + average_error(c, s);
    for (int64_t i = 0; i < y->n_elements; i++)
        e[i] = a->probs ? rel * fabs(py[i]) + c->tiny : score + c->u * fabs(py[i]);
    return PL_OK;
}

pl_status pl_b_attention_rule(pl_bound *c, const pl_b_attention *a) {
    attention_stats s;
    PL_TRY(stats_of(c, a, &s));
    PL_TRY(bound_y(c, a, &s));
    for (int i = 1; i <= 2 && i < c->n_out; i++)
        PL_TRY(bound_kept(c, a, &s, i));
    return c->n_out > 3 ? bound_scores(c, a, &s) : PL_OK;
}

/* ---- rotary embeddings ---- */

/* x[i] := sign * |input i|, or of its error. A sign of 0 gives zeros. */
static pl_status put_signed(pl_bound *c, int i, bool error, double sign, pl_tensor **x) {
    const pl_tensor *t = pl_b_in(c, i);
    const double *from = error ? pl_b_e(c, i) : pl_b_x(c, i);
    PL_TRY(pl_tensor_new_zero(PL_F64, t->rank, t->dims, &x[i], c->err));
    double *to = x[i]->data;
    for (int64_t k = 0; from != NULL && k < t->n_elements; k++)
        to[k] = sign * fabs(from[k]);
    return PL_OK;
}

/* |x1 c| + |x2 s| for both elements of a pair: the larger of two runs, one for each sign of the
 * sines. For errors of the caches a third run without cosines finds elements that are not rotated,
 * which they do not affect. */
static pl_status turn(pl_bound *c, int x, int cos, int sin, unsigned errors, double factor,
                      double *e) {
    pl_tensor **in = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_tensor *));
    const int64_t n = pl_b_out(c, 0)->n_elements;
    double *most = pl_arena_array(c->scratch, (size_t)n, sizeof(double));
    pl_status st = PL_OK;
    if (in == NULL || most == NULL) return pl_fail_memory(c->err, (size_t)n);
    static const int signs[] = { -1, 1, 0 };
    const size_t n_runs = (errors & 2) == 0 ? 2 : 3;
    for (size_t run = 0; run < n_runs && st == PL_OK; run++) {
        const int sign = signs[run];
        pl_tensor *y = NULL;
        st = put_signed(c, x, (errors & 1) != 0, 1, in);
        if (st == PL_OK) st = put_signed(c, cos, (errors & 2) != 0, sign == 0 ? 0 : 1, in);
        if (st == PL_OK) st = put_signed(c, sin, (errors & 2) != 0, sign, in);
        if (st == PL_OK) st = pl_b_apply(c, in, PL_F64, 0, &y);
        for (int i = 0; i < c->n_in; i++) {
            pl_tensor_unref(in[i]);
            in[i] = NULL;
        }
        for (int64_t i = 0; st == PL_OK && i < n; i++) {
            const double v = fabs(((const double *)y->data)[i]);
            if (sign != 0) {
                most[i] = fmax(most[i], v);
            } else if (v > 0) {
                most[i] = 0;
            }
        }
        pl_tensor_unref(y);
    }
    for (int64_t i = 0; st == PL_OK && i < n; i++)
        e[i] += factor * most[i];
    return st;
}

pl_status pl_b_rotary_rule(pl_bound *c, int x, int cos, int sin) {
    double *e = NULL;
    const double *y = pl_b_y(c, 0);
    PL_TRY(pl_b_new(c, 0, &e));
    if (e == NULL || pl_b_out(c, 0)->n_elements == 0) return PL_OK;
    if (y == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(turn(c, x, cos, sin, 0, c->u_acc * pl_b_chain(2), e));
    if (c->e_in[x] != NULL) PL_TRY(turn(c, x, cos, sin, 1, 1, e));
    if (c->e_in[cos] != NULL || c->e_in[sin] != NULL) PL_TRY(turn(c, x, cos, sin, 2, 1, e));
    pl_b_add_stored(c, y, e, pl_b_out(c, 0)->n_elements);
    return PL_OK;
}
