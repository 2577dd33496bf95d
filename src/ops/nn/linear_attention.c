/* LinearAttention-27: a recurrence over time instead of a score matrix.
 *
 * Each key head has a state [key size, value size]. A step may decay it (gated) and may write only
 * the part of the value that the state does not predict (delta). It adds k v', and the queries of
 * the group read the result. Computed in float (double for double), whatever the type of the
 * tensors. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/soft.h"
#include "ops/lib/attention_core.h"
#include "ops/lib/attention_dims.h"
#include "ops/lib/bound_nn.h"

extern const pl_op_def pl_ops_linear_attention[];

enum { QUERY, KEY, VALUE, PAST, DECAY, BETA, ERASE };
enum { Y, STATE };

typedef struct linear_job {
    bool wide;
    int64_t batch, len, q_heads, kv_heads, key_size, value_size;
    const void *query, *key, *value, *decay, *beta, *erase; /* the last three may be NULL */
    int64_t decay_cols, beta_cols;
    double scale;
    void *state, *y;
    atomic_int status;
} linear_job;

#define T float
#define E pl_f32
#define EXP(x) (float)pl_soft_exp((double)(x))
#define S(name) name##_f32
#include "ops/nn/linear_attention_rows.inc"

#define T double
#define E pl_f64
#define EXP exp
#define S(name) name##_f64
#include "ops/nn/linear_attention_rows.inc"
#include "ops/nn/linear_attention_rules.h"

/* ---- shapes ---- */

static pl_status check_rule(const pl_infer *c) {
    static const struct {
        const char *name;
        bool decay, beta;
    } rules[] = { { "linear", false, false },
                  { "gated", true, false },
                  { "delta", false, true },
                  { "gated_delta", true, true } };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (!pl_attr_string_is(c->node, "update_rule", rules[i].name)) continue;
        if (pl_infer_has(c, DECAY) != rules[i].decay) {
            return pl_infer_fail(c, "update_rule '%s' %s the input decay", rules[i].name,
                                 rules[i].decay ? "needs" : "forbids");
        }
        if (pl_infer_has(c, BETA) != rules[i].beta) {
            return pl_infer_fail(c, "update_rule '%s' %s the input beta", rules[i].name,
                                 rules[i].beta ? "needs" : "forbids");
        }
        if (pl_infer_has(c, ERASE) && !rules[i].beta) {
            return pl_infer_fail(c, "update_rule '%s' forbids erase_gate", rules[i].name);
        }
        return PL_OK;
    }
    return pl_infer_fail(c, "update_rule is not linear, gated, delta or gated_delta");
}

/* The last dim of an optional input must be one of two sizes. */
static pl_status check_cols(const pl_infer *c, int i, const char *what, int64_t a, pl_dim b) {
    const pl_dim found = pl_infer_dim(c, i, 2);
    if (!pl_dim_known(found) || found.value == a || !pl_dim_known(b) || found.value == b.value) {
        return PL_OK;
    }
    return pl_infer_fail(c, "the last dim of %s is %lld, expected %lld or %lld", what,
                         (long long)found.value, (long long)a, (long long)b.value);
}

static pl_status linear_infer(pl_infer *c) {
    static const char *const names[] = { "query", "key",  "value",     "past_state",
                                         "decay", "beta", "erase_gate" };
    PL_TRY(check_rule(c));
    int64_t q_heads = 0, kv_heads = 0;
    PL_TRY(pl_meet_heads(c, "q_num_heads", &q_heads));
    PL_TRY(pl_meet_heads(c, "kv_num_heads", &kv_heads));
    if (q_heads % kv_heads != 0) {
        return pl_infer_fail(c, "%lld query heads cannot share %lld key heads", (long long)q_heads,
                             (long long)kv_heads);
    }
    pl_dim batch = PL_DIM_UNKNOWN, len = PL_DIM_UNKNOWN, heads = pl_dim_of(kv_heads);
    for (int i = QUERY; i <= ERASE; i++) {
        bool known = false;
        PL_TRY(pl_meet_rank(c, i, names[i], i == PAST ? 4 : 3, &known));
        if (!known) continue;
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &batch));
        if (i != PAST) PL_TRY(pl_meet_agree(c, "the length", pl_infer_dim(c, i, 1), &len));
    }
    pl_dim dk = PL_DIM_UNKNOWN, dv = PL_DIM_UNKNOWN, found = PL_DIM_UNKNOWN;
    pl_dim keys = PL_DIM_UNKNOWN;
    PL_TRY(pl_meet_divide(c, "the last dim of query", pl_infer_dim(c, QUERY, 2), q_heads, &dk));
    PL_TRY(pl_meet_divide(c, "the last dim of key", pl_infer_dim(c, KEY, 2), kv_heads, &found));
    PL_TRY(pl_meet_agree(c, "the key size", found, &dk));
    PL_TRY(pl_meet_divide(c, "the last dim of value", pl_infer_dim(c, VALUE, 2), kv_heads, &dv));
    PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, PAST, 1), &heads));
    PL_TRY(pl_meet_agree(c, "the key size", pl_infer_dim(c, PAST, 2), &dk));
    PL_TRY(pl_meet_agree(c, "the value size", pl_infer_dim(c, PAST, 3), &dv));
    PL_TRY(pl_meet_multiply(c, dk, kv_heads, &keys));
    PL_TRY(check_cols(c, DECAY, "decay", kv_heads, keys));
    PL_TRY(check_cols(c, BETA, "beta", kv_heads, pl_dim_of(1)));
    PL_TRY(pl_meet_agree(c, "the last dim of erase_gate", pl_infer_dim(c, ERASE, 2), &keys));
    pl_dim y[3] = { batch, len, PL_DIM_UNKNOWN };
    PL_TRY(pl_meet_multiply(c, dv, q_heads, &y[2]));
    PL_TRY(pl_infer_set(c, Y, pl_infer_dtype_of(c, QUERY), 3, y));
    const pl_dim state[4] = { batch, heads, dk, dv };
    return pl_infer_set(c, STATE, pl_infer_dtype_of(c, pl_infer_has(c, PAST) ? PAST : QUERY), 4,
                        state);
}

/* ---- kernel ---- */

static void run_heads(void *ctx, int64_t begin, int64_t end) {
    linear_job *j = ctx;
    void *v = pl_malloc((size_t)j->value_size * sizeof(double) + 1);
    if (v == NULL) {
        atomic_store(&j->status, PL_E_MEMORY);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        if (j->wide) {
            run_head_f64(j, i / j->kv_heads, i % j->kv_heads, v);
        } else {
            run_head_f32(j, i / j->kv_heads, i % j->kv_heads, v);
        }
    }
    pl_free(v);
}

static pl_status load_inputs(pl_eval *c, linear_job *j) {
    const void **slots[] = { &j->query, &j->key, &j->value, NULL, &j->decay, &j->beta, &j->erase };
    for (int i = QUERY; i <= ERASE; i++) {
        if (slots[i] == NULL || !pl_has(c, i)) continue;
        *slots[i] = pl_attention_in(c, i, j->wide);
        if (*slots[i] == NULL) return pl_eval_memory(c);
    }
    return PL_OK;
}

static pl_status linear_eval(pl_eval *c) {
    const pl_tensor *q = pl_in(c, QUERY), *v = pl_in(c, VALUE);
    linear_job j = { .wide = q->dtype == PL_F64, .batch = q->dims[0], .len = q->dims[1] };
    j.q_heads = pl_attr_int(c->node, "q_num_heads");
    j.kv_heads = pl_attr_int(c->node, "kv_num_heads");
    j.key_size = q->dims[2] / j.q_heads;
    j.value_size = v->dims[2] / j.kv_heads;
    j.decay_cols = pl_has(c, DECAY) ? pl_in(c, DECAY)->dims[2] : 0;
    j.beta_cols = pl_has(c, BETA) ? pl_in(c, BETA)->dims[2] : 0;
    j.scale = pl_attr_float(c->node, "scale");
    if (j.scale == 0 && j.key_size > 0) j.scale = 1 / sqrt((double)j.key_size);
    PL_TRY(load_inputs(c, &j));
    j.y = pl_attention_out(c, Y, j.wide, j.batch, j.len, j.q_heads, j.value_size);
    j.state = pl_attention_out(c, STATE, j.wide, j.batch, j.kv_heads, j.key_size, j.value_size);
    const void *past = pl_attention_in(c, PAST, j.wide);
    if (j.y == NULL || j.state == NULL || (past == NULL && pl_has(c, PAST))) {
        return pl_eval_memory(c);
    }
    if (j.batch == 0 || j.value_size == 0 || (j.len == 0 && j.key_size == 0)) return PL_OK;
    const int64_t n_state = j.batch * j.kv_heads * j.key_size * j.value_size;
    const size_t n_bytes = (size_t)n_state * pl_attention_size(j.wide);
    if (past != NULL) {
        memcpy(j.state, past, n_bytes);
    } else {
        memset(j.state, 0, n_bytes);
    }
    atomic_init(&j.status, PL_OK);
    pl_pool_for(c->pool, j.batch * j.kv_heads, 1, run_heads, &j);
    if (atomic_load(&j.status) != PL_OK) return pl_eval_memory(c);
    pl_attention_out_done(c, Y, j.wide, j.y);
    pl_attention_out_done(c, STATE, j.wide, j.state);
    return PL_OK;
}

/* ---- bound ---- */

/* Runs the recurrence on squared errors of the state: roundings of many steps add in quadrature. */
typedef struct linear_bound {
    pl_bound *c;
    const linear_job *j; /* only its sizes are used */
    const double *x[ERASE + 1], *e[ERASE + 1];
    double *e_y, *e_state; /* NULL = not wanted */
    double u, chain;
} linear_bound;

static double at_or_zero(const double *x, int64_t i) {
    return x == NULL ? 0 : x[i];
}

static void bound_forget(const linear_bound *b, int64_t head, int64_t at, double *s, double *e2) {
    const linear_job *j = b->j;
    const bool per_key = j->decay_cols != j->kv_heads;
    const int64_t from = at * j->decay_cols + head * j->decay_cols / j->kv_heads;
    for (int64_t d = 0; d < j->key_size; d++) {
        const double g = b->x[DECAY][from + (per_key ? d : 0)], keep = exp(g);
        const double rel = b->u * (3 + fabs(g)) + at_or_zero(b->e[DECAY], from + (per_key ? d : 0));
        for (int64_t k = d * j->value_size; k < (d + 1) * j->value_size; k++) {
            s[k] *= keep;
            e2[k] = e2[k] * keep * keep + s[k] * s[k] * rel * rel;
        }
    }
}

/* v = beta (v - state' k) and its error. */
static void bound_correct(const linear_bound *b, int64_t head, int64_t at, const double *s,
                          const double *e2, double *v, double *ev) {
    const linear_job *j = b->j;
    const int64_t dk = j->key_size, key = (at * j->kv_heads + head) * dk;
    const int64_t i_beta = at * j->beta_cols + (j->beta_cols == 1 ? 0 : head);
    const double beta = b->x[BETA][i_beta], e_beta = at_or_zero(b->e[BETA], i_beta);
    for (int64_t m = 0; m < j->value_size; m++) {
        double r = 0, sum = 0, inherited = 0;
        for (int64_t d = 0; d < dk; d++) {
            const double gate = b->x[ERASE] == NULL ? 1 : b->x[ERASE][key + d];
            const double k = gate * b->x[KEY][key + d], t = s[d * j->value_size + m];
            const double ek = fabs(gate) * at_or_zero(b->e[KEY], key + d) +
                              fabs(b->x[KEY][key + d]) * at_or_zero(b->e[ERASE], key + d);
            r += t * k;
            sum += fabs(t * k);
            inherited += k * k * e2[d * j->value_size + m] + t * t * ek * ek;
        }
        const double left = v[m] - r;
        ev[m] = fabs(beta) * (ev[m] + b->u * (b->chain * sum + 2 * fabs(left)) + sqrt(inherited)) +
                fabs(left) * e_beta;
        v[m] = beta * left;
    }
}

static void bound_read(const linear_bound *b, int64_t head, int64_t at, const double *s,
                       const double *e2) {
    const linear_job *j = b->j;
    const int64_t dk = j->key_size, dv = j->value_size, group = j->q_heads / j->kv_heads;
    for (int64_t h = head * group; b->e_y != NULL && h < (head + 1) * group; h++) {
        const int64_t q = (at * j->q_heads + h) * dk;
        for (int64_t m = 0; m < dv; m++) {
            double sum = 0, inherited = 0;
            for (int64_t d = 0; d < dk; d++) {
                const double x = b->x[QUERY][q + d], t = s[d * dv + m];
                const double eq = at_or_zero(b->e[QUERY], q + d);
                sum += fabs(x * t);
                inherited += x * x * e2[d * dv + m] + t * t * eq * eq;
            }
            b->e_y[(at * j->q_heads + h) * dv + m] =
                fabs(j->scale) * (b->u * (b->chain + 2) * sum + sqrt(inherited));
        }
    }
}

static void bound_head(const linear_bound *b, int64_t item, int64_t head, double *s, double *e2,
                       double *v, double *ev) {
    const linear_job *j = b->j;
    const int64_t dk = j->key_size, dv = j->value_size;
    for (int64_t t = 0; t < j->len; t++) {
        const int64_t at = item * j->len + t, key = (at * j->kv_heads + head) * dk;
        for (int64_t m = 0; m < dv; m++) {
            v[m] = b->x[VALUE][(at * j->kv_heads + head) * dv + m];
            ev[m] = at_or_zero(b->e[VALUE], (at * j->kv_heads + head) * dv + m);
        }
        if (b->x[DECAY] != NULL) bound_forget(b, head, at, s, e2);
        if (b->x[BETA] != NULL) bound_correct(b, head, at, s, e2, v, ev);
        for (int64_t k = 0; k < dk * dv; k++) {
            const double x = b->x[KEY][key + k / dv], ek = at_or_zero(b->e[KEY], key + k / dv);
            s[k] += x * v[k % dv];
            const double own = 2 * b->u * (fabs(s[k]) + fabs(x * v[k % dv]));
            e2[k] += own * own + x * x * ev[k % dv] * ev[k % dv] + v[k % dv] * v[k % dv] * ek * ek;
        }
        bound_read(b, head, at, s, e2);
    }
}

static pl_status linear_bound_rule(pl_bound *c) {
    const pl_tensor *q = pl_b_in(c, QUERY), *value = pl_b_in(c, VALUE);
    linear_job j = { .batch = q->dims[0], .len = q->dims[1] };
    j.q_heads = pl_attr_int(c->node, "q_num_heads");
    j.kv_heads = pl_attr_int(c->node, "kv_num_heads");
    j.key_size = q->dims[2] / j.q_heads;
    j.value_size = value->dims[2] / j.kv_heads;
    j.decay_cols = pl_b_in(c, DECAY) != NULL ? pl_b_in(c, DECAY)->dims[2] : 0;
    j.beta_cols = pl_b_in(c, BETA) != NULL ? pl_b_in(c, BETA)->dims[2] : 0;
    j.scale = pl_attr_float(c->node, "scale");
    if (j.scale == 0 && j.key_size > 0) j.scale = 1 / sqrt((double)j.key_size);
    linear_bound b = { .c = c, .j = &j, .u = c->u_acc, .chain = pl_b_chain((double)j.key_size) };
    for (int i = QUERY; i <= ERASE; i++) {
        if (pl_b_in(c, i) == NULL) continue;
        b.x[i] = pl_b_x(c, i);
        b.e[i] = pl_b_e(c, i);
        if (b.x[i] == NULL) return pl_fail_memory(c->err, 1);
    }
    const int64_t n = j.key_size * j.value_size;
    double *s = pl_arena_array(c->scratch, (size_t)n + 1, sizeof(double));
    double *e2 = pl_arena_array(c->scratch, (size_t)n + 1, sizeof(double));
    double *v = pl_arena_array(c->scratch, (size_t)j.value_size + 1, 2 * sizeof(double));
    PL_TRY(pl_b_new(c, Y, &b.e_y));
    if (c->n_out > STATE) PL_TRY(pl_b_new(c, STATE, &b.e_state));
    if (s == NULL || e2 == NULL || v == NULL) return pl_fail_memory(c->err, (size_t)n);
    for (int64_t i = 0; i < j.batch * j.kv_heads; i++) {
        for (int64_t k = 0; k < n; k++) {
            const double e = at_or_zero(b.e[PAST], i * n + k);
            s[k] = at_or_zero(b.x[PAST], i * n + k);
            e2[k] = e * e;
        }
        bound_head(&b, i / j.kv_heads, i % j.kv_heads, s, e2, v, v + j.value_size);
        for (int64_t k = 0; b.e_state != NULL && k < n; k++)
            b.e_state[i * n + k] = sqrt(e2[k]);
    }
    for (int i = Y; i <= STATE && i < c->n_out; i++) {
        if (c->e_out[i] == NULL) continue;
        const double *y = pl_b_y(c, i);
        if (y != NULL) pl_b_add_stored(c, y, c->e_out[i]->data, c->e_out[i]->n_elements);
    }
    return PL_OK;
}

/* ---- rows ---- */

/* clang-format off */
const pl_op_def pl_ops_linear_attention[] = {
    { .name = "LinearAttention", .since = 27,
      .in = PL_PORTS({ "query", PL_T_FLOAT, PL_PORT_SAME }, { "key", PL_T_FLOAT, PL_PORT_SAME },
                     { "value", PL_T_FLOAT, PL_PORT_SAME }, { "past_state", PL_T_FLOAT, PL_PORT_OPTIONAL },
                     { "decay", PL_T_FLOAT, PL_PORT_OPTIONAL }, { "beta", PL_T_FLOAT, PL_PORT_OPTIONAL },
                     { "erase_gate", PL_T_FLOAT, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }, { "present_state", PL_T_FLOAT, PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(PL_A_INT("chunk_size", 64), PL_A_REQUIRED("kv_num_heads", INT), PL_A_REQUIRED("q_num_heads", INT),
                        PL_A_FLOAT("scale", 0), PL_A_STRING("update_rule", "gated_delta")),
      .infer = linear_infer, .eval = linear_eval, .grad = pl_linear_attention_grad, .bound = linear_bound_rule, PL_EMIT_BREAK("computed step by step: a library routine"), .autocast = PL_AMP_LOW,
      .samples = PL_SAMPLES(
          { "(float[2,5,16] q, float[2,5,8] k, float[2,5,6] v, float[2,2,4,3] s, float[2,5,8] g, float[2,5,2] b) => (y, z) "
            "{ y, z = LinearAttention<q_num_heads=4, kv_num_heads=2>(q, k, v, s, g, b) }", "g=-1:0 b=0:1", 0 },
          { "(float[2,5,8] q, float[2,5,8] k, float[2,5,6] v, float[2,5,2] g) => (y) "
            "{ y = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule=\"gated\">(q, k, v, \"\", g) }", "g=-1:0", 0 },
          { "(float[2,5,8] q, float[2,5,8] k, float[2,5,6] v) => (y) "
            "{ y = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule=\"linear\", scale=0.5>(q, k, v) }", NULL, 0 },
          { "(float[1,4,4] q, float[1,4,4] k, float[1,4,4] v, float[1,4,1] b, float[1,4,4] e) => (y, z) "
            "{ y, z = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule=\"delta\">(q, k, v, \"\", \"\", b, e) }",
            "b=0:1 e=0:1", 0 }) },
    { 0 },
};
/* clang-format on */
