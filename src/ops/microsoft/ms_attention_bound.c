/* Error bounds of the attention operators of com.microsoft. */
#include <math.h>

#include "kernels/gemm/gemm.h"
#include "ops/lib/bound_attention.h"
#include "ops/lib/bound_nn.h"
#include "ops/microsoft/ms_attention.h"
#include "ops/microsoft/ms_attention_rules.h"

static double bound_scale(const pl_bound *c, int64_t head_size) {
    const pl_eval eval = { .node = c->node, .n_in = c->n_in, .in = c->in, .err = c->err };
    return pl_ms_scale(&eval, head_size);
}

/* The projection of the input: its values, and the error of one. */
typedef struct projection {
    double *y;
    int64_t rows, n, k;
    double error;
} projection;

static double largest_row(const double *x, int64_t rows, int64_t n) {
    double most = 0;
    for (int64_t i = 0; x != NULL && i < rows; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += x[i * n + k] * x[i * n + k];
        most = fmax(most, sqrt(sum));
    }
    return most;
}

/* x and w are the factors; ex and ew their errors or NULL. */
static pl_status project(pl_bound *c, const double *x, const double *ex, const double *w,
                         const double *ew, double u_sum, projection *p) {
    const pl_tensor *b = pl_b_in(c, 2);
    const double *bias = b == NULL ? NULL : pl_b_x(c, 2);
    p->y = pl_arena_array(c->scratch, (size_t)(p->rows * p->n), sizeof(double));
    if (x == NULL || w == NULL || p->y == NULL || (b != NULL && bias == NULL)) {
        return pl_fail_memory(c->err, 1);
    }
    for (int64_t i = 0; bias != NULL && i < p->rows * p->n; i++)
        p->y[i] = bias[i % p->n];
    const pl_gemm_shape s = { .m = p->rows, .n = p->n, .k = p->k, .batch = 1 };
    PL_TRY(pl_gemm_f64(c->pool, &s, 1, x, w, 1, p->y, NULL, c->err));
    double column = 0, e_column = 0;
    for (int64_t j = 0; j < p->n; j++) {
        double sum = 0, e_sum = 0;
        for (int64_t k = 0; k < p->k; k++) {
            sum += w[k * p->n + j] * w[k * p->n + j];
            if (ew != NULL) e_sum += ew[k * p->n + j] * ew[k * p->n + j];
        }
        column = fmax(column, sqrt(sum));
        e_column = fmax(e_column, sqrt(e_sum));
    }
    const double row = largest_row(x, p->rows, p->k), e_row = largest_row(ex, p->rows, p->k);
    const double add = b == NULL ? 0 : pl_b_peak(bias, b->n_elements);
    p->error = u_sum * pl_b_chain((double)p->k + 1) * (row * column + add) +
               c->u * pl_b_peak(p->y, p->rows * p->n) + e_row * column + row * e_column +
               (b == NULL ? 0 : pl_b_worst(pl_b_e(c, 2), b->n_elements));
    return PL_OK;
}

static pl_status packed_rule(pl_bound *c, int past, int attention_bias, const projection *p) {
    const int64_t heads = pl_attr_int(c->node, "num_heads");
    size_t n = 0;
    const int64_t *sizes = pl_attr_ints(c->node, "qkv_hidden_sizes", &n);
    const int64_t q_cols = n == 3 ? sizes[0] : p->n / 3, v_cols = n == 3 ? sizes[2] : p->n / 3;
    const pl_b_attention a = { .q = 0,
                               .k = -1,
                               .v = -1,
                               .past_key = past,
                               .past_value = past,
                               .bias = -1,
                               .score_bias = attention_bias,
                               .cos = -1,
                               .head_size = q_cols / heads,
                               .v_size = v_cols / heads,
                               .scale = bound_scale(c, q_cols / heads),
                               .projected = p->y,
                               .n_projected = p->rows * p->n,
                               .q_cols = q_cols,
                               .k_cols = q_cols,
                               .cols = p->n,
                               .projection_error = p->error };
    return pl_b_attention_rule(c, &a);
}

static projection projection_of(const pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *w = pl_b_in(c, 1);
    return (projection){ .rows = x->dims[0] * x->dims[1], .n = w->dims[1], .k = x->dims[2] };
}

static bool is_empty(const pl_bound *c) {
    for (int i = 0; i < c->n_out; i++)
        if (pl_b_out(c, i) != NULL && pl_b_out(c, i)->n_elements > 0) return false;
    return true;
}

/* " name" when input i is given, else "": an argument of a program. */
static const char *name_of(const pl_bound *c, int i, const char *name) {
    return pl_b_in(c, i) == NULL ? "" : name;
}

/* Expands into projection and MultiHeadAttention: bounds per head are about ten times smaller than
 * one bound from the largest head. */
static pl_status spelt_attention(pl_bound *c, int64_t q, int64_t v) {
    const bool past = pl_b_in(c, 4) != NULL, present = pl_b_out(c, 1) != NULL;
    const char *after = present ? "k1 = Unsqueeze(pk, zero) v1 = Unsqueeze(pv, zero) "
                                  "o1 = Concat<axis=0>(k1, v1)"
                                : "";
    return pl_b_expand(
        c,
        pl_arena_printf(
            c->scratch,
            "(i0, i1%s%s%s%s) => (o0%s) <int64[1] zero = {0}> { "
            "n = Constant<value_ints=[%lld, %lld, %lld]>() p = MatMul(i0, i1) %s "
            "q, k, v = Split<axis=2>(a, n) %s "
            "attrs_y%s = com.microsoft.MultiHeadAttention<num_heads=1>(q, k, v, \"\", %s, %s%s) "
            "o0 = Identity(attrs_y) %s }",
            name_of(c, 2, ", i2"), name_of(c, 3, ", i3"), name_of(c, 4, ", i4"),
            name_of(c, 5, ", i5"), present ? ", o1" : "", (long long)q, (long long)q, (long long)v,
            pl_b_in(c, 2) == NULL ? "a = Identity(p)" : "a = Add(p, i2)",
            past ? "k0, v0 = Split<axis=0>(i4) ok = Squeeze(k0, zero) ov = Squeeze(v0, zero)" : "",
            past || present ? ", pk, pv" : "", pl_b_in(c, 3) == NULL ? "\"\"" : "i3",
            pl_b_in(c, 5) == NULL ? "\"\"" : "i5", past ? ", ok, ov" : "", after));
}

pl_status pl_ms_attention_bound(pl_bound *c) {
    projection p = projection_of(c);
    if (is_empty(c)) return PL_OK;
    if (pl_b_out(c, 0) != NULL && pl_attr_int(c->node, "past_present_share_buffer") == 0) {
        size_t n = 0;
        const int64_t *sizes = pl_attr_ints(c->node, "qkv_hidden_sizes", &n);
        return spelt_attention(c, n == 3 ? sizes[0] : p.n / 3, n == 3 ? sizes[2] : p.n / 3);
    }
    PL_TRY(project(c, pl_b_x(c, 0), pl_b_e(c, 0), pl_b_x(c, 1), pl_b_e(c, 1), c->u_acc, &p));
    return packed_rule(c, 4, 5, &p);
}

enum { QA_SCALE = 3, QA_W_SCALE = 4, QA_ZERO = 6, QA_W_ZERO = 7 };

/* Codes minus their zero point, scaled; the integer sums are exact. */
static const double *dequantized(pl_bound *c, int i, int scale, int zero, bool errors) {
    const pl_tensor *t = pl_b_in(c, i), *s = pl_b_in(c, scale), *z = pl_b_in(c, zero);
    const double *x = errors ? pl_b_e(c, i) : pl_b_x(c, i), *ps = pl_b_x(c, scale);
    const double *pz = z == NULL ? NULL : pl_b_x(c, zero);
    const int64_t columns = t->dims[t->rank - 1];
    if (x == NULL || ps == NULL) return NULL;
    double *y = pl_arena_array(c->scratch, (size_t)t->n_elements, sizeof(double));
    for (int64_t k = 0; y != NULL && k < t->n_elements; k++) {
        const int64_t j = k % columns;
        const double zero_point = pz == NULL || errors ? 0 : pz[z->n_elements > 1 ? j : 0];
        y[k] = (x[k] - zero_point) * ps[s->n_elements > 1 ? j : 0];
    }
    return y;
}

pl_status pl_ms_q_attention_bound(pl_bound *c) {
    projection p = projection_of(c);
    if (is_empty(c)) return PL_OK;
    PL_TRY(project(c, dequantized(c, 0, QA_SCALE, QA_ZERO, false),
                   dequantized(c, 0, QA_SCALE, QA_ZERO, true),
                   dequantized(c, 1, QA_W_SCALE, QA_W_ZERO, false),
                   dequantized(c, 1, QA_W_SCALE, QA_W_ZERO, true), 0, &p));
    p.error += 2 * c->u_acc * pl_b_peak(p.y, p.rows * p.n);
    return packed_rule(c, 8, -1, &p);
}

/* Inputs that MultiHeadAttention and DecoderMaskedMultiHeadAttention share. */
typedef struct mha_ports {
    int bias, attention_bias, past_key, past_value, mask, past_len;
} mha_ports;

static pl_status mha_bound(pl_bound *c, const mha_ports *p) {
    const pl_tensor *q = pl_b_in(c, 0), *v = pl_b_in(c, 2);
    const int64_t heads = pl_attr_int(c->node, "num_heads");
    const bool packed = pl_b_in(c, 1) == NULL;
    pl_b_attention a = { .q = 0,
                         .k = 1,
                         .v = 2,
                         .past_key = p->past_key,
                         .past_value = p->past_value,
                         .bias = pl_b_in(c, p->bias) == NULL ? -1 : p->bias,
                         .score_bias = p->attention_bias,
                         .mask = p->mask,
                         .filter = pl_attr_float(c->node, "mask_filter_value"),
                         .cos = -1 };
    if (is_empty(c)) return PL_OK;
    a.head_size = q->rank == 5 ? q->dims[4] : q->dims[2] / heads / (packed ? 3 : 1);
    a.v_size = v == NULL ? a.head_size : v->dims[v->rank - 1] / (v->rank == 4 ? 1 : heads);
    a.scale = bound_scale(c, a.head_size);
    a.causal = pl_attr_int(c->node, "unidirectional") != 0 && pl_b_in(c, p->past_len) == NULL;
    a.shift = pl_b_in(c, p->past_key) == NULL ? 0 : pl_b_in(c, p->past_key)->dims[2];
    return pl_b_attention_rule(c, &a);
}

/* Expands the bias into additions before the attention, for the same reason as spelt_attention. */
static pl_status spelt_bias(pl_bound *c) {
    const int64_t q = pl_b_in(c, 0)->dims[2], v = pl_b_in(c, 2)->dims[2];
    const bool past = pl_b_in(c, 6) != NULL;
    const char *outs = pl_b_out(c, 3) != NULL                             ? ", o1, o2, o3"
                       : pl_b_out(c, 1) != NULL || pl_b_out(c, 2) != NULL ? ", o1, o2"
                                                                          : "";
    return pl_b_expand(
        c,
        pl_arena_printf(
            c->scratch,
            "(i0, i1, i2, i3%s%s%s) => (o0%s) { "
            "n = Constant<value_ints=[%lld, %lld, %lld]>() "
            "bq, bk, bv = Split<axis=0>(i3, n) "
            "q = Add(i0, bq) k = Add(i1, bk) v = Add(i2, bv) "
            "attrs_y%s = com.microsoft.MultiHeadAttention<num_heads=1>(q, k, v, \"\", %s, %s%s) "
            "o0 = Identity(attrs_y) }",
            name_of(c, 4, ", i4"), name_of(c, 5, ", i5"), past ? ", i6, i7" : "", outs,
            (long long)q, (long long)q, (long long)v, outs, pl_b_in(c, 4) == NULL ? "\"\"" : "i4",
            pl_b_in(c, 5) == NULL ? "\"\"" : "i5", past ? ", i6, i7" : ""));
}

pl_status pl_ms_multi_head_bound(pl_bound *c) {
    const mha_ports ports = { 3, 5, 6, 7, 4, 8 };
    const pl_tensor *k = pl_b_in(c, 1), *v = pl_b_in(c, 2);
    const bool apart = k != NULL && v != NULL && k->rank == 3 && v->rank == 3;
    if (is_empty(c)) return PL_OK;
    if (apart && pl_b_in(c, 3) != NULL && pl_b_out(c, 0) != NULL && pl_b_in(c, 8) == NULL)
        return spelt_bias(c);
    return mha_bound(c, &ports);
}
pl_status pl_ms_decoder_bound(pl_bound *c) {
    const mha_ports ports = { 10, 4, 5, 6, 3, 7 };
    return mha_bound(c, &ports);
}

pl_status pl_ms_group_bound(pl_bound *c) {
    const pl_tensor *q = pl_b_in(c, 0);
    const int64_t heads = pl_attr_int(c->node, "num_heads");
    const int64_t kv_heads = pl_attr_int(c->node, "kv_num_heads");
    pl_b_attention a = { .q = 0,
                         .k = 1,
                         .v = 2,
                         .past_key = 3,
                         .past_value = 4,
                         .bias = -1,
                         .score_bias = 10,
                         .cos = pl_attr_int(c->node, "do_rotary") != 0 ? 7 : -1,
                         .sin = 8,
                         .interleaved = pl_attr_int(c->node, "rotary_interleaved") != 0,
                         .probs = pl_attr_int(c->node, "qk_output") == 2 };
    if (is_empty(c)) return PL_OK;
    a.head_size = q->dims[2] / (pl_b_in(c, 1) == NULL ? heads + 2 * kv_heads : heads);
    a.v_size = a.head_size;
    a.scale = bound_scale(c, a.head_size);
    return pl_b_attention_rule(c, &a);
}

pl_status pl_ms_rotary_bound(pl_bound *c) {
    return pl_b_rotary_rule(c, 0, 2, 3);
}
