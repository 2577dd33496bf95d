/* Bounds of ONNX Runtime's fused operators: most are expanded into the operators that were
 * fused. */
#include <math.h>
#include <stdio.h>

#include "ops/lib/bound_nn.h"
#include "ops/microsoft/ms_fused_rules.h"

static bool has(const pl_bound *c, int i) {
    return pl_b_in(c, i) != NULL;
}

/* A runtime may add any two of the three first. */
static double three_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double first = fmax(fabs(x[0] + x[1]), fmax(fabs(x[0] + x[2]), fabs(x[1] + x[2])));
    return e[0] + e[1] + e[2] + pl_b_round(c, first) + pl_b_round(c, y);
}

pl_status pl_ms_bias_add_bound(pl_bound *c) {
    return pl_b_each(c, three_element);
}

/* In training it is random and never replayed. */
static double dropout_element(const pl_bound *c, const double *x, const double *e, double y) {
    return c->p[0] != 0 ? three_element(c, x, e, y) : e[0] + e[1] + pl_b_round(c, y);
}

pl_status pl_ms_bias_dropout_bound(pl_bound *c) {
    c->p[0] = has(c, 2);
    return pl_b_each(c, dropout_element);
}

pl_status pl_ms_bitmask_dropout_bound(pl_bound *c) {
    if (c->e_in[0] == NULL || pl_b_out(c, 0) == NULL) return PL_OK;
    return pl_b_set_take(c, 0, pl_tensor_ref(c->e_in[0]));
}

/* ---- Gelu ---- */

/* Local error 2u|x|, absolute because of the sigmoid inside; the slope is below 1.13. */
static double gelu_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double sum = x[0] + x[1];
    const double moved = e[0] + e[1] + (x[1] != 0 ? c->u * fabs(sum) : 0);
    return 2 * c->u * fabs(sum) + 1.13 * moved + 0 * y;
}

pl_status pl_ms_gelu_bound(pl_bound *c) {
    return pl_b_each(c, gelu_element);
}

pl_status pl_ms_fast_gelu_bound(pl_bound *c) {
    return pl_b_each(c, gelu_element);
}

pl_status pl_ms_gemm_fast_gelu_bound(pl_bound *c) {
    if (pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0) return PL_OK;
    const bool bias = pl_b_in(c, 2) != NULL;
    return pl_b_expand(c, bias ? "(i0, i1, i2) => (o0) { t = MatMul(i0, i1) "
                                 "o0 = com.microsoft.FastGelu(t, i2) }"
                               : "(i0, i1) => (o0) { t = MatMul(i0, i1) "
                                 "o0 = com.microsoft.FastGelu(t) }");
}

pl_status pl_ms_bias_split_gelu_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    if (x->n_elements == 0) return PL_OK;
    const long long half = (long long)x->dims[x->rank - 1] / 2;
    return pl_b_expand(c, pl_arena_printf(c->scratch,
                                          "(i0, i1) => (o0) { n = Constant<value_ints=[%lld, "
                                          "%lld]>() t = Add(i0, i1) l, r = Split<axis=-1>(t, n) "
                                          "g = com.microsoft.Gelu(r) o0 = Mul(l, g) }",
                                          half, half));
}

pl_status pl_ms_bias_softmax_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis"), axis = given < 0 ? given + x->rank : given;
    if (x->n_elements == 0) return PL_OK;
    return pl_b_expand(c, pl_arena_printf(c->scratch,
                                          "(i0, i1) => (o0) { t = Add(i0, i1) n = Shape(i0) "
                                          "f = Flatten<axis=%lld>(t) s = Softmax<axis=1>(f) "
                                          "o0 = Reshape(s, n) }",
                                          (long long)axis));
}

/* ---- skip and layer normalisation ---- */

/* t = i0 + i1 (+ bias). */
static const char *sum_text(pl_bound *c, const char *bias) {
    if (bias == NULL) return "t = Add(i0, i1) ";
    return pl_arena_printf(c->scratch, "t = com.microsoft.BiasAdd(i0, %s, i1) ", bias);
}

pl_status pl_ms_skip_layer_norm_bound(pl_bound *c) {
    const char *sum = sum_text(c, has(c, 4) ? "i4" : NULL);
    if (sum == NULL) return pl_fail_memory(c->err, 1);
    if (pl_b_in(c, 0)->n_elements == 0) return PL_OK;
    return pl_b_expand(
        c, pl_arena_printf(c->scratch,
                           "(i0, i1, i2%s%s) => (o0, o1, o2, o3) { %s o3 = Identity(t) "
                           "o0, o1, o2 = LayerNormalization<axis=-1, epsilon=%.9g>(t, i2%s) }",
                           has(c, 3) ? ", i3" : "", has(c, 4) ? ", i4" : "", sum,
                           pl_attr_float(c->node, "epsilon"), has(c, 3) ? ", i3" : ""));
}

pl_status pl_ms_skip_rms_norm_bound(pl_bound *c) {
    const char *sum = sum_text(c, has(c, 3) ? "i3" : NULL);
    if (sum == NULL) return pl_fail_memory(c->err, 1);
    if (pl_b_in(c, 0)->n_elements == 0) return PL_OK;
    return pl_b_expand(
        c, pl_arena_printf(c->scratch,
                           "(i0, i1, i2%s) => (o0, o2, o3) { %s o3 = Identity(t) o0, o2 = "
                           "com.microsoft.SimplifiedLayerNormalization<epsilon=%.9g>(t, i2) }",
                           has(c, 3) ? ", i3" : "", sum, pl_attr_float(c->node, "epsilon")));
}

/* Adds rows of three tables and normalises them. */
pl_status pl_ms_embed_bound(pl_bound *c) {
    const pl_tensor *ids = pl_b_in(c, 0);
    const bool segment = has(c, 1) && has(c, 4), positions = has(c, 8);
    if (ids->n_elements == 0) return PL_OK;
    const char *position = positions ? "p = Gather(i3, i8)" : "p = Slice(i3, zero, len)";
    const char *text = pl_arena_printf(
        c->scratch,
        "(i0, i2, i3, i5, i6%s%s) => (o0, o2) <int64[1] zero = {0}, int64[1] len = {%lld}> { "
        "w = Gather(i2, i0) %s %s o2 = Identity(t) "
        "o0 = LayerNormalization<axis=-1, epsilon=%.9g>(t, i5, i6) }",
        segment ? ", i1, i4" : "", positions ? ", i8" : "", (long long)ids->dims[1], position,
        segment ? "s = Gather(i4, i1) t = Sum(w, p, s)" : "t = Add(w, p)",
        pl_attr_float(c->node, "epsilon"));
    return pl_b_expand(c, text);
}

/* ---- GroupNorm ---- */

/* Planes of channels without an activation: bounds of normalised rows. */
static pl_status group_rows(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const double *g = pl_b_x(c, 1), *b = pl_b_x(c, 2);
    const int64_t channels = x->dims[1], inner = x->n_elements / x->dims[0] / channels;
    pl_b_norm norm = { .rows = x->dims[0] * pl_attr_int(c->node, "groups"),
                       .epsilon = pl_attr_float(c->node, "epsilon"),
                       .x = pl_b_x(c, 0),
                       .ex = pl_b_e(c, 0),
                       .y = pl_b_y(c, 0) };
    norm.n = x->n_elements / norm.rows;
    const double *from[4] = { g, pl_b_e(c, 1), b, pl_b_e(c, 2) };
    double *to[4] = { NULL };
    if (norm.x == NULL || norm.y == NULL || g == NULL || b == NULL)
        return pl_fail_memory(c->err, 1);
    for (int k = 0; k < 4; k++) {
        if (from[k] == NULL) continue;
        to[k] = pl_arena_array(c->scratch, (size_t)x->n_elements, sizeof(double));
        if (to[k] == NULL) return pl_fail_memory(c->err, (size_t)x->n_elements);
        for (int64_t i = 0; i < x->n_elements; i++)
            to[k][i] = from[k][i / inner % channels];
    }
    norm.scale = to[0];
    norm.e_scale = to[1];
    norm.bias = to[2];
    norm.e_bias = to[3];
    PL_TRY(pl_b_new(c, 0, &norm.e));
    pl_b_norm_rule(c, &norm);
    return PL_OK;
}

/* Text that computes o0 from `x`: transpose to planes, normalise, activate, transpose back. */
static const char *group_text(pl_bound *c, const char *x) {
    const int rank = pl_b_in(c, 0)->rank;
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    char there[64] = "0", back[64] = "0";
    size_t n = 1, m = 1;
    for (int d = 1; d < rank && n < sizeof(there) && m < sizeof(back); d++) {
        const int to = last ? (d == 1 ? rank - 1 : d - 1) : d;
        const int from = last ? (d == rank - 1 ? 1 : d + 1) : d;
        n += (size_t)snprintf(there + n, sizeof(there) - n, ", %d", to);
        m += (size_t)snprintf(back + m, sizeof(back) - m, ", %d", from);
    }
    return pl_arena_printf(
        c->scratch,
        "q = Transpose<perm=[%s]>(%s) n = com.microsoft.GroupNorm<activation=0, channels_last=0, "
        "epsilon=%.9g, groups=%lld>(q, i1, i2) %s o0 = Transpose<perm=[%s]>(a)",
        there, x, pl_attr_float(c->node, "epsilon"), (long long)pl_attr_int(c->node, "groups"),
        pl_attr_int(c->node, "activation") == 1 ? "s = Sigmoid(n) a = Mul(n, s)"
                                                : "a = Identity(n)",
        back);
}

pl_status pl_ms_group_norm_bound(pl_bound *c) {
    const bool plain =
        pl_attr_int(c->node, "channels_last") == 0 && pl_attr_int(c->node, "activation") != 1;
    if (pl_b_in(c, 0)->n_elements == 0 || pl_b_out(c, 0) == NULL) return PL_OK;
    if (plain) return group_rows(c);
    const char *text = group_text(c, "i0");
    if (text == NULL) return pl_fail_memory(c->err, 1);
    return pl_b_expand(c, pl_arena_printf(c->scratch, "(i0, i1, i2) => (o0) { %s }", text));
}

/* The skip may be (N, C) or (N, 1, …, C): channels come last. */
pl_status pl_ms_skip_group_norm_bound(pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0), *skip = pl_b_in(c, 3);
    char dims[24 * PL_RANK_MAX] = "";
    size_t n = 0;
    if (x->n_elements == 0) return PL_OK;
    const bool whole = skip->n_elements == x->n_elements;
    for (int d = 0; d < x->rank && n < sizeof(dims); d++) {
        const bool kept = whole || d == 0 || d == x->rank - 1;
        n += (size_t)snprintf(dims + n, sizeof(dims) - n, "%s%lld", d == 0 ? "" : ", ",
                              kept ? (long long)x->dims[d] : 1LL);
    }
    const char *text = group_text(c, "t");
    if (text == NULL) return pl_fail_memory(c->err, 1);
    return pl_b_expand(
        c, pl_arena_printf(c->scratch,
                           "(i0, i1, i2, i3%s) => (o0, o1) { d = Constant<value_ints=[%s]>() "
                           "k = Reshape(i3, d) %s o1 = Identity(t) %s }",
                           has(c, 4) ? ", i4" : "", dims,
                           has(c, 4) ? "t = com.microsoft.BiasAdd(i0, i4, k)" : "t = Add(i0, k)",
                           text));
}
