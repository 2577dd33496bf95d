/* com.microsoft MoE and QMoE: every token goes to the k experts that its router prefers, and their
 * results are added with weights.
 *
 * As ONNX Runtime's CPU kernels do it (moe_cpu.cc, moe_quantization_cpu.cc of 1.23 to 1.27): MoE
 * weights by the softmax over all experts, normalised over the k on request; QMoE by the softmax
 * over the k, or by router_weights. Gelu is the approximation with tanh. fc3 and SwiGLU of halves
 * (swiglu_fusion 0 and 2) follow the documentation; those kernels refuse them. The memory of
 * weights is (experts, rows, columns) also where old models declare them transposed. */
#include "ops/microsoft/moe.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/gemm/gemm.h"
#include "ops/infer.h"
#include "ops/lib/compute.h"
#include "ops/microsoft/moe_rules.h"

extern const pl_op_def pl_ops_moe[];

enum { X, ROUTER };

/* ---- what the node says ---- */

static pl_status activation_of(const pl_eval *c, pl_moe *m) {
    static const char *const names[] = { "relu", "gelu", "silu", "identity", "swiglu" };
    for (int i = 0; i < 5; i++) {
        if (!pl_attr_string_is(c->node, "activation_type", names[i])) continue;
        m->act = (pl_moe_act)i;
        return PL_OK;
    }
    return pl_eval_fail(c, "unknown activation_type");
}

static void layer_of(const pl_eval *c, const pl_moe *m, pl_moe_layer *l, int64_t rows,
                     int64_t columns) {
    l->rows = rows;
    l->columns = l->block = columns;
    l->n_blocks = 1;
    if (!m->quantised) return;
    l->bits = pl_attr_int(c->node, "expert_weight_bits");
    const pl_tensor *scales = pl_in(c, l->scales), *zeros = pl_in(c, l->zeros);
    if (scales != NULL && scales->rank == 3 && scales->dims[2] > 1) {
        l->n_blocks = scales->dims[2];
        l->block = pl_attr_int(c->node, "block_size");
    }
    const int64_t packed = (l->n_blocks * l->bits + 7) / 8;
    l->zeros_by_row = zeros != NULL && zeros->n_elements == m->experts * rows * packed;
}

pl_status pl_moe_of(pl_eval *c, pl_moe *m) {
    const pl_tensor *x = pl_in(c, X), *fc2;
    memset(m, 0, sizeof(*m));
    m->quantised = pl_op_find("com.microsoft", "QMoE", 1) == c->node->def;
    PL_TRY(activation_of(c, m));
    if (pl_attr_int(c->node, "use_sparse_mixer") != 0)
        return pl_eval_unsupported(c, "use_sparse_mixer is not supported");
    m->fc1 = m->quantised ? (pl_moe_layer){ 2, 4, 3, 11, 0, 0, 0, 0, 0, false }
                          : (pl_moe_layer){ 2, 3, -1, -1, 0, 0, 0, 0, 0, false };
    m->fc2 = m->quantised ? (pl_moe_layer){ 5, 7, 6, 12, 0, 0, 0, 0, 0, false }
                          : (pl_moe_layer){ 4, 5, -1, -1, 0, 0, 0, 0, 0, false };
    m->fc3 = m->quantised ? (pl_moe_layer){ 8, 10, 9, 13, 0, 0, 0, 0, 0, false }
                          : (pl_moe_layer){ 6, 7, -1, -1, 0, 0, 0, 0, 0, false };
    const int64_t fusion = pl_attr_int(c->node, "swiglu_fusion");
    m->fused = m->act == PL_MOE_SWIGLU && fusion != 0;
    m->interleaved = fusion == 1;
    m->normalise = pl_attr_int(c->node, "normalize_routing_weights") != 0;
    m->alpha = pl_attr_float(c->node, "activation_alpha");
    m->beta = pl_attr_float(c->node, "activation_beta");
    m->limit =
        pl_attr_has(c->node, "swiglu_limit") ? pl_attr_float(c->node, "swiglu_limit") : HUGE_VAL;
    m->hidden = x->dims[x->rank - 1];
    m->tokens = m->hidden == 0 ? 0 : x->n_elements / m->hidden;
    m->experts = pl_in(c, ROUTER)->dims[1];
    m->k = pl_attr_int(c->node, "k");
    m->mixing = m->quantised && pl_has(c, 14) ? 14 : -1;
    fc2 = pl_in(c, m->fc2.weights);
    const int64_t per_byte = m->quantised ? 8 / pl_attr_int(c->node, "expert_weight_bits") : 1;
    m->inter = m->hidden == 0 ? 0 : fc2->dims[1] * fc2->dims[2] * per_byte / m->hidden;
    layer_of(c, m, &m->fc1, m->fused ? 2 * m->inter : m->inter, m->hidden);
    layer_of(c, m, &m->fc2, m->hidden, m->inter);
    if (pl_has(c, m->fc3.weights)) layer_of(c, m, &m->fc3, m->inter, m->hidden);
    if (m->act == PL_MOE_SWIGLU && !m->fused && m->fc3.rows == 0)
        return pl_eval_fail(c, "swiglu requires swiglu_fusion or fc3_experts_weights");
    return PL_OK;
}

/* ---- routing ---- */

static void sort_experts(const double *router, int64_t n, int64_t n_sorted, int64_t *order) {
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 0; i < n_sorted; i++) { /* the largest; of equal ones the last */
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++) {
            const double a = router[order[j]], b = router[order[best]];
            if (a > b || (a == b && order[j] > order[best])) best = j;
        }
        const int64_t swapped = order[i];
        order[i] = order[best];
        order[best] = swapped;
    }
}

void pl_moe_routes(const pl_moe *m, const double *router, const double *mixing,
                   pl_moe_route *routes, int64_t *order) {
    double sum = 0, all = 0;
    sort_experts(router, m->experts, m->k, order);
    const double most = router[order[0]];
    for (int64_t i = 0; i < m->experts; i++)
        all += exp(router[i] - most);
    for (int64_t i = 0; i < m->k; i++) {
        const int64_t e = order[i];
        routes[i] = (pl_moe_route){ e, mixing != NULL ? mixing[e] : exp(router[e] - most) };
        sum += routes[i].weight;
    }
    const bool among_k = mixing == NULL ? m->quantised || m->normalise : m->normalise;
    const double by = among_k ? sum : mixing == NULL ? all : 1;
    for (int64_t i = 0; i < m->k; i++)
        routes[i].weight = by == 0 ? 0 : routes[i].weight / by;
}

/* ---- weights ---- */

pl_status pl_moe_weights_of(pl_eval *c, const pl_moe_layer *l, pl_moe_weights *w) {
    *w = (pl_moe_weights){ .layer = l };
    if (l->rows == 0) return PL_OK;
    if (l->bits > 0) {
        w->codes = pl_in(c, l->weights)->data;
        w->scales = pl_in_f64(c, l->scales);
        if (pl_has(c, l->zeros)) w->zeros = pl_in(c, l->zeros)->data;
        if (w->scales == NULL) return pl_eval_memory(c);
    } else {
        w->floats = pl_in_f64(c, l->weights);
        if (w->floats == NULL) return pl_eval_memory(c);
    }
    if (!pl_has(c, l->bias)) return PL_OK;
    w->bias = pl_in_f64(c, l->bias);
    return w->bias == NULL ? pl_eval_memory(c) : PL_OK;
}

static int64_t code_at(const pl_u8 *codes, int64_t bits, int64_t i) {
    const int64_t per_byte = 8 / bits;
    return codes[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1);
}

static double zero_of(const pl_moe_weights *w, int64_t expert, int64_t row, int64_t block) {
    const pl_moe_layer *l = w->layer;
    if (w->zeros == NULL) return (double)(1 << (l->bits - 1));
    if (l->zeros_by_row) {
        const int64_t bytes = (l->n_blocks * l->bits + 7) / 8;
        return (double)code_at(w->zeros + (expert * l->rows + row) * bytes, l->bits, block);
    }
    return (double)code_at(w->zeros + expert * ((l->rows * l->bits + 7) / 8), l->bits, row);
}

void pl_moe_row(const pl_moe_weights *w, int64_t expert, int64_t row, double *out) {
    const pl_moe_layer *l = w->layer;
    const int64_t at = expert * l->rows + row;
    if (w->codes == NULL) {
        memcpy(out, w->floats + at * l->columns, (size_t)l->columns * sizeof(double));
        return;
    }
    const pl_u8 *codes = w->codes + at * (l->columns * l->bits / 8);
    for (int64_t b = 0; b < l->n_blocks; b++) {
        const double scale = w->scales[at * l->n_blocks + b], zero = zero_of(w, expert, row, b);
        for (int64_t i = b * l->block; i < pl_i64_min((b + 1) * l->block, l->columns); i++)
            out[i] = ((double)code_at(codes, l->bits, i) - zero) * scale;
    }
}

/* ---- activation ---- */

static double plain_activation(pl_moe_act act, double x) {
    switch (act) {
    case PL_MOE_RELU: return x < 0 ? 0 : x;
    case PL_MOE_GELU: return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case PL_MOE_SILU: return x / (1 + exp(-x));
    case PL_MOE_IDENTITY:
    case PL_MOE_SWIGLU: break;
    }
    return x;
}

double pl_moe_activate(const pl_moe *m, const double *h, const double *l, int64_t i) {
    if (m->act != PL_MOE_SWIGLU) return plain_activation(m->act, h[i]) * (l == NULL ? 1 : l[i]);
    double gate = m->fused && m->interleaved ? h[2 * i] : h[i];
    double linear = !m->fused ? l[i] : m->interleaved ? h[2 * i + 1] : h[m->inter + i];
    gate = gate > m->limit ? m->limit : gate;
    linear = linear > m->limit ? m->limit : linear < -m->limit ? -m->limit : linear;
    return gate / (1 + exp(-m->alpha * gate)) * (linear + m->beta);
}

/* ---- the kernel ---- */

typedef struct moe_run { /* buffers of doubles, or of floats for all but f64 */
    pl_eval *c;
    const pl_moe *m;
    bool wide;
    pl_moe_weights fc1, fc2, fc3;
    const double *x;
    pl_moe_route *routes; /* k for each token */
    int64_t *tokens;      /* those of the expert at hand */
    double *weights;
    void *in, *h, *l, *matrix;
    double *a, *b, *row;
    double *out;
} moe_run;

static void put(const moe_run *r, void *to, int64_t at, const double *from, int64_t n) {
    if (r->wide) {
        memcpy((double *)to + at, from, (size_t)n * sizeof(double));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        ((float *)to)[at + i] = (float)from[i];
}

static void take(const moe_run *r, const void *from, int64_t at, double *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = r->wide ? ((const double *)from)[at + i] : (double)((const float *)from)[at + i];
}

typedef struct unpack_job {
    const moe_run *run;
    const pl_moe_weights *w;
    int64_t expert;
    double *rows; /* one for each row */
} unpack_job;

static void unpack_rows(void *ctx, int64_t begin, int64_t end) {
    const unpack_job *j = ctx;
    const int64_t n = j->w->layer->columns;
    for (int64_t i = begin; i < end; i++) {
        pl_moe_row(j->w, j->expert, i, j->rows + i * n);
        put(j->run, j->run->matrix, i * n, j->rows + i * n, n);
    }
}

/* y (n_tokens, rows) = x W' + bias, rounded as the run is. */
static pl_status product(moe_run *r, const pl_moe_weights *w, int64_t expert, int64_t n_tokens,
                         const void *x, void *y) {
    const pl_moe_layer *l = w->layer;
    const pl_gemm_shape g = { .m = n_tokens,
                              .n = l->rows,
                              .k = l->columns,
                              .trans_b = true,
                              .batch = 1,
                              .by = r->c->kernels };
    unpack_job job = { r, w, expert, r->row };
    pl_pool_for(r->c->pool, l->rows, 16, unpack_rows, &job);
    pl_status st;
    if (r->wide) {
        st = pl_gemm_f64(r->c->pool, &g, 1, x, r->matrix, 0, y, NULL, r->c->err);
    } else if (r->c->naive) {
        st = pl_gemm_long_f32(r->c->pool, &g, 1, x, r->matrix, 0, y, r->c->err);
    } else {
        st = pl_gemm_f32(r->c->pool, &g, 1, x, r->matrix, 0, y, NULL, r->c->err);
    }
    for (int64_t i = 0; st == PL_OK && w->bias != NULL && i < n_tokens * l->rows; i++) {
        const double bias = w->bias[expert * l->rows + i % l->rows];
        if (r->wide) {
            ((double *)y)[i] += bias;
        } else {
            ((float *)y)[i] += (float)bias;
        }
    }
    return st;
}

static void activate(moe_run *r, int64_t n_tokens) {
    const pl_moe *m = r->m;
    for (int64_t t = 0; t < n_tokens; t++) {
        take(r, r->h, t * m->fc1.rows, r->a, m->fc1.rows);
        if (m->fc3.rows > 0) take(r, r->l, t * m->inter, r->b, m->inter);
        double *y = r->a + m->fc1.rows;
        for (int64_t i = 0; i < m->inter; i++)
            y[i] = pl_moe_activate(m, r->a, m->fc3.rows > 0 ? r->b : NULL, i);
        put(r, r->in, t * m->inter, y, m->inter);
    }
}

static pl_status run_expert(moe_run *r, int64_t expert) {
    const pl_moe *m = r->m;
    int64_t n = 0;
    for (int64_t i = 0; i < m->tokens * m->k; i++) {
        if (r->routes[i].expert != expert || r->routes[i].weight == 0) continue;
        r->tokens[n] = i / m->k;
        r->weights[n] = r->routes[i].weight;
        put(r, r->in, n++ * m->hidden, r->x + i / m->k * m->hidden, m->hidden);
    }
    if (n == 0) return PL_OK;
    PL_TRY(product(r, &r->fc1, expert, n, r->in, r->h));
    if (m->fc3.rows > 0) PL_TRY(product(r, &r->fc3, expert, n, r->in, r->l));
    activate(r, n);
    PL_TRY(product(r, &r->fc2, expert, n, r->in, r->h));
    for (int64_t t = 0; t < n; t++) {
        take(r, r->h, t * m->hidden, r->a, m->hidden);
        double *y = r->out + r->tokens[t] * m->hidden;
        for (int64_t i = 0; i < m->hidden; i++) {
            const double sum = y[i] + r->weights[t] * r->a[i];
            y[i] = r->wide ? sum : (double)(float)sum;
        }
    }
    return PL_OK;
}

static pl_status route_tokens(moe_run *r) {
    const pl_moe *m = r->m;
    const double *router = pl_in_f64(r->c, ROUTER);
    const double *mixing = m->mixing < 0 ? NULL : pl_in_f64(r->c, m->mixing);
    int64_t *order = pl_scratch(r->c, (size_t)m->experts, sizeof(*order));
    if (router == NULL || order == NULL || (m->mixing >= 0 && mixing == NULL))
        return pl_eval_memory(r->c);
    for (int64_t t = 0; t < m->tokens; t++)
        pl_moe_routes(m, router + t * m->experts, mixing == NULL ? NULL : mixing + t * m->experts,
                      r->routes + t * m->k, order);
    return PL_OK;
}

static pl_status moe_eval(pl_eval *c) {
    pl_moe m;
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(pl_moe_of(c, &m));
    moe_run r = { .c = c, .m = &m, .wide = y->dtype == PL_F64, .x = pl_in_f64(c, X) };
    PL_TRY(pl_moe_weights_of(c, &m.fc1, &r.fc1));
    PL_TRY(pl_moe_weights_of(c, &m.fc2, &r.fc2));
    PL_TRY(pl_moe_weights_of(c, &m.fc3, &r.fc3));
    const size_t size = r.wide ? sizeof(double) : sizeof(float);
    const size_t most = (size_t)pl_i64_max(m.fc1.rows, m.hidden), tokens = (size_t)m.tokens;
    const size_t matrix = (size_t)(pl_i64_max(m.fc1.rows, m.inter) * m.hidden);
    r.routes = pl_scratch(c, tokens * (size_t)m.k, sizeof(*r.routes));
    r.tokens = pl_scratch(c, tokens, sizeof(*r.tokens));
    r.weights = pl_scratch(c, tokens, sizeof(*r.weights));
    r.in = pl_scratch(c, tokens * (size_t)pl_i64_max(m.hidden, m.inter), size);
    r.h = pl_scratch(c, tokens * most, size);
    r.l = pl_scratch(c, tokens * (size_t)m.inter, size);
    r.matrix = pl_scratch(c, matrix, size);
    r.row = pl_scratch(c, matrix, sizeof(double));
    r.a = pl_scratch(c, 2 * most + (size_t)m.inter, sizeof(double));
    r.b = pl_scratch(c, (size_t)m.inter, sizeof(double));
    r.out = pl_scratch(c, (size_t)y->n_elements, sizeof(double));
    if (r.x == NULL || r.routes == NULL || r.tokens == NULL || r.weights == NULL || r.in == NULL ||
        r.h == NULL || r.l == NULL || r.matrix == NULL || r.row == NULL || r.a == NULL ||
        r.b == NULL || r.out == NULL)
        return pl_eval_memory(c);
    memset(r.out, 0, (size_t)y->n_elements * sizeof(double));
    PL_TRY(route_tokens(&r));
    for (int64_t e = 0; e < m.experts; e++)
        PL_TRY(run_expert(&r, e));
    pl_store_f64(y->dtype, r.out, y->data, (size_t)y->n_elements);
    return PL_OK;
}

/* ---- rows ---- */

/* clang-format off */
#define ATTRS PL_A_STRING("activation_type", "relu"), PL_A_INT("k", 1), PL_A_INT("normalize_routing_weights", 0), PL_A_INT("use_sparse_mixer", 0), \
              PL_A_INT("swiglu_fusion", 0), PL_A_FLOAT("swiglu_limit", 0), PL_A_FLOAT("activation_alpha", 1), PL_A_FLOAT("activation_beta", 0)
#define OTHER(name) { name, PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL }
#define SCALES(name, flags) { name, PL_T_FLOAT, flags }
#define CODES(name, flags) { name, PL_T(PL_U8), flags }
#define BREAK PL_EMIT_BREAK("sends tokens to experts by value: a library routine")
#define NO_GRAD .grad = PL_GRAD_UNDEFINED, .no_grad = "an operator of inference: differentiate the experts as MatMul and TopK"
const pl_op_def pl_ops_moe[] = {
    { .name = "MoE", .domain = "com.microsoft", .since = 1,
      .in = PL_PORTS({ "input", PL_T_FLOAT, PL_PORT_SAME }, { "router_probs", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_ROUTER }, { "fc1_experts_weights", PL_T_FLOAT, PL_PORT_SAME }, OTHER("fc1_experts_bias"),
                     { "fc2_experts_weights", PL_T_FLOAT, PL_PORT_SAME }, OTHER("fc2_experts_bias"), OTHER("fc3_experts_weights"), OTHER("fc3_experts_bias")),
      .out = PL_PORTS({ "output", PL_T_FLOAT, PL_PORT_SAME }),
      .attrs = PL_ATTRS(ATTRS),
      .infer = pl_moe_infer, .eval = moe_eval, NO_GRAD, .bound = pl_moe_bound, BREAK, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[3,8] x, float[3,4] r, float[4,6,8] a, float[4,8,6] b) => (y) { y = com.microsoft.MoE<k=2>(x, r, a, , b) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[2,3,8] x, float[6,4] r, float[4,12,8] a, float[4,12] c, float[4,8,6] b, float[4,8] d) => (y) { y = com.microsoft.MoE<k=2, activation_type=\"swiglu\", swiglu_fusion=1, swiglu_limit=7.0, activation_alpha=1.702, activation_beta=1.0, normalize_routing_weights=1>(x, r, a, c, b, d) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(float[3,8] x, float[3,4] r, float[4,6,8] a, float[4,8,6] b, float[4,6,8] g) => (y) { y = com.microsoft.MoE<activation_type=\"silu\">(x, r, a, , b, , g) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "QMoE", .domain = "com.microsoft", .since = 1,
      .in = PL_PORTS({ "input", PL_T_FLOAT, PL_PORT_SAME }, { "router_probs", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_ROUTER }, CODES("fc1_experts_weights", 0), SCALES("fc1_scales", 0), OTHER("fc1_experts_bias"),
                     CODES("fc2_experts_weights", 0), SCALES("fc2_scales", 0), OTHER("fc2_experts_bias"), CODES("fc3_experts_weights", PL_PORT_OPTIONAL), SCALES("fc3_scales", PL_PORT_OPTIONAL), OTHER("fc3_experts_bias"),
                     CODES("fc1_zero_points", PL_PORT_OPTIONAL), CODES("fc2_zero_points", PL_PORT_OPTIONAL), CODES("fc3_zero_points", PL_PORT_OPTIONAL), OTHER("router_weights")),
      .out = PL_PORTS({ "output", PL_T_FLOAT, PL_PORT_SAME }),
      .attrs = PL_ATTRS(ATTRS, PL_A_INT("expert_weight_bits", 4), PL_A_INT("block_size", 0)),
      .infer = pl_qmoe_infer, .eval = moe_eval, NO_GRAD, .bound = pl_moe_bound, BREAK, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS,
      .samples = PL_SAMPLES({ "(float[3,32] x, float[3,4] r, uint8[4,16,16] a, float[4,16] s, uint8[4,32,8] b, float[4,32] t) => (y) { y = com.microsoft.QMoE<k=2>(x, r, a, s, , b, t) }", "s=0.01:0.1 t=0.01:0.1 a=0:255 b=0:255", PL_SAMPLE_NO_GRAD },
                            { "(float[3,32] x, float[3,4] r, uint8[4,64,32] a, float[4,64,2] s, uint8[4,32,32] b, float[4,32,2] t, uint8[4,64,2] z, uint8[4,32,2] w, float[3,4] m) => (y) { y = com.microsoft.QMoE<k=2, expert_weight_bits=8, block_size=16, activation_type=\"swiglu\", swiglu_fusion=1, normalize_routing_weights=1>(x, r, a, s, , b, t, , , , , z, w, , m) }", "s=0.01:0.1 t=0.01:0.1 a=0:255 b=0:255 z=120:136 w=120:136 m=0.1:1", PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */
