/* Arithmetic that depends on the processor: bfloat16 or TF32 products, flushed denormals, fused
 * multiply-add. The segment is replayed with each; if that gives the recorded value, blame names
 * the arithmetic and how to turn it off. Saturated integer products are in kind_saturated.c. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "ops/op.h"

/* ---- roundings of float32 ---- */

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(double x) {
    const float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    return bits;
}

/* Drop the last `n` bits of the significand: rounded to nearest even, away from zero on ties, or
 * truncated. */
static double to_nearest(double x, int n) {
    const uint32_t bits = bits_of(x), half = (1u << (n - 1)) - 1, odd = bits >> n & 1;
    return isfinite(x) ? (double)from_bits((bits + half + odd) & ~((1u << n) - 1)) : x;
}
static double away_from_zero(double x, int n) {
    const uint32_t bits = bits_of(x);
    return isfinite(x) ? (double)from_bits((bits + (1u << (n - 1))) & ~((1u << n) - 1)) : x;
}
static double cut_off(double x, int n) {
    return isfinite(x) ? (double)from_bits(bits_of(x) & ~((1u << n) - 1)) : x;
}
static double flushed(double x, int n) {
    (void)n;
    return fabs(x) < 0x1p-126 ? 0 : x;
}

enum { BF16_BITS = 16, TF32_BITS = 13 };

static const char NO_BF16[] = "turn bfloat16 products off (ONEDNN_DEFAULT_FPMATH_MODE=STRICT, the "
                              "runtime's fast-math option), or allow for 8 bits of precision";
static const char NO_TF32[] = "turn TF32 off (NVIDIA_TF32_OVERRIDE=0, use_tf32=0, allow_tf32 = "
                              "False), or allow for 11 bits of precision";
static const char NO_FLUSH[] =
    "turn flush-to-zero off (set_denormal_as_zero=0, no -ffast-math), or "
    "scale the values away from 1e-38";
static const char NO_FMA[] = "compile without contraction (-ffp-contract=off), or compare the "
                             "product and the sum as one operation";

typedef struct habit { /* what hardware does to the factors of a product, or to every number */
    const char *kind, *text, *remedy;
    double (*round)(double x, int bits);
    int bits;
    bool products; /* only the first two inputs of a product */
} habit;

static const habit habits[] = {
    { "flushed denormals", "flushed denormals: numbers below 1.2e-38 are taken for 0", NO_FLUSH,
      flushed, 0, false },
    { "bf16 products", "bf16 products: factors rounded to bfloat16", NO_BF16, to_nearest, BF16_BITS,
      true },
    { "bf16 products", "bf16 products: factors cut off to bfloat16", NO_BF16, cut_off, BF16_BITS,
      true },
    { "tf32 products", "tf32 products: factors rounded to TF32", NO_TF32, to_nearest, TF32_BITS,
      true },
    { "tf32 products", "tf32 products: factors rounded to TF32", NO_TF32, away_from_zero, TF32_BITS,
      true },
    { "tf32 products", "tf32 products: factors cut off to TF32", NO_TF32, cut_off, TF32_BITS,
      true },
};

/* ---- replaying ---- */

static bool is_product(const pl_node *node) {
    return node->def->weights != PL_WEIGHTS_NONE && node->def->plain == NULL && node->n_in >= 2;
}

/* A rounded copy of a value of the replay, or of a weight; *out stays NULL if nothing changes. */
static pl_status rounded(const pl_replay *r, const pl_value *v, const habit *h, pl_datum **out,
                         pl_err *err) {
    const pl_datum *there = v == NULL ? NULL : pl_replay_get(r, v);
    const pl_tensor *t = there != NULL && there->kind == PL_TYPE_TENSOR ? there->tensor
                         : there == NULL && v != NULL                   ? v->init
                                                                        : NULL;
    pl_tensor *to = NULL;
    bool changed = false;
    *out = NULL;
    if (t == NULL || v->type == NULL || v->type->kind != PL_TYPE_TENSOR || v->type->dtype != PL_F32)
        return PL_OK;
    PL_TRY(pl_tensor_cast(t, PL_F64, &to, err));
    double *x = to->data;
    for (int64_t i = 0; i < to->n_elements; i++) {
        const double y = h->round(x[i], h->bits);
        changed = changed || y != x[i];
        x[i] = y;
    }
    if (changed) return pl_datum_of_tensor_take(to, out, err);
    pl_tensor_unref(to);
    return PL_OK;
}

static pl_status put_back(pl_replay *r, const pl_value *v, pl_datum *was, pl_tensor *bound,
                          pl_err *err) {
    pl_status st = PL_OK;
    if (was == NULL && v->init != NULL)
        st = pl_datum_of_tensor_take(pl_tensor_ref(v->init), &was, err);
    if (st == PL_OK && was != NULL) st = pl_replay_put(r, v, was, bound, err);
    pl_datum_unref(was);
    pl_tensor_unref(bound);
    return st;
}

/* Replays one node with its inputs rounded, then restores them for their other readers. */
static pl_status replay_node(pl_replay *r, const pl_node *node, const habit *h, bool *changed,
                             pl_err *err) {
    pl_datum *was[2] = { NULL, NULL };
    pl_tensor *bound[2] = { NULL, NULL };
    bool put[2] = { false, false };
    pl_status st = PL_OK;
    for (uint32_t i = 0; i < 2 && i < node->n_in && st == PL_OK; i++) {
        pl_datum *d = NULL;
        const pl_value *v = node->in[i];
        if (h->products && !is_product(node)) break;
        st = rounded(r, v, h, &d, err);
        if (st != PL_OK || d == NULL) continue;
        const pl_datum *there = pl_replay_get(r, v);
        const pl_tensor *e = pl_replay_bound(r, v);
        was[i] = there == NULL ? NULL : pl_datum_ref(there);
        bound[i] = e == NULL ? NULL : pl_tensor_ref((pl_tensor *)(uintptr_t)e);
        st = pl_replay_put(r, v, d, bound[i], err);
        put[i] = *changed = true;
        pl_datum_unref(d);
    }
    if (st == PL_OK) st = pl_replay_node(r, node, err);
    for (uint32_t i = 0; i < 2; i++) {
        if (!put[i]) continue;
        const pl_status back = put_back(r, node->in[i], was[i], bound[i], err);
        if (st == PL_OK) st = back;
    }
    return st;
}

typedef struct attempt {
    pl_blaming *j;
    const pl_segment *segment;
    const pl_value *value;
    const pl_tensor *a;
    pl_replay *r;
} attempt;

static pl_status begin(attempt *t, pl_err *err) {
    const pl_replay_options options = { .pool = t->j->options->pool,
                                        .seed = t->j->options->seed,
                                        .arithmetic = t->j->a->arithmetic };
    PL_TRY(pl_replay_new(t->j->model, &options, &t->r, err));
    return pl_blaming_put_edges(t->j, t->r, t->segment, err);
}

/* Whether this replay gives the recorded value. */
static pl_status judge(attempt *t, bool *yes, pl_err *err) {
    const pl_datum *d = pl_replay_get(t->r, t->value);
    pl_local_error e;
    if (d == NULL || d->kind != PL_TYPE_TENSOR || !pl_tensor_same_shape(d->tensor, t->a))
        return PL_OK;
    PL_TRY(pl_local_error_measure(t->j->options->pool, t->a, d->tensor,
                                  pl_replay_bound(t->r, t->value),
                                  pl_blaming_native(t->j, t->value, t->a), &e, err));
    *yes = e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_CULPRIT;
    return PL_OK;
}

/* A failed replay explains nothing; only lack of memory is an error. */
static pl_status end(attempt *t, pl_status st, const pl_err *trouble, pl_err *err) {
    pl_replay_free(t->r);
    t->r = NULL;
    return st == PL_E_MEMORY || trouble->status == PL_E_MEMORY ? pl_fail_memory(err, 0) : PL_OK;
}

static pl_status try_habit(attempt *t, const habit *h, bool *yes, pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    bool changed = false;
    pl_status st = begin(t, &trouble);
    for (size_t i = 0; i < t->segment->n_nodes && st == PL_OK; i++)
        st = replay_node(t->r, t->segment->nodes[i], h, &changed, &trouble);
    if (st == PL_OK && changed) st = judge(t, yes, &trouble);
    return end(t, st, &trouble, err);
}

/* ---- fused multiply-add ---- */

/* Replaces the recorded product by the exact one. */
static pl_status put_exact(attempt *t, const pl_value *v, bool *changed, pl_err *err) {
    const pl_node *node = v->producer;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *in = node->in[i];
        pl_datum *d = NULL;
        const pl_datum *given = NULL;
        for (size_t k = 0; in != NULL && k < t->j->model->graph->n_inputs; k++)
            if (t->j->model->graph->inputs[k] == in) given = t->j->in[k];
        if (in == NULL || (given == NULL && in->init != NULL)) continue;
        if (given == NULL && !t->j->a->has(t->j->a->ctx, in)) return PL_OK;
        if (given != NULL) d = pl_datum_ref(given);
        if (d == NULL) PL_TRY(pl_blaming_get(t->j, in, &d, err));
        const pl_status st = pl_replay_put(t->r, in, d, NULL, err);
        pl_datum_unref(d);
        PL_TRY(st);
    }
    PL_TRY(pl_replay_node(t->r, node, err));
    pl_datum *exact = pl_datum_ref(pl_replay_get(t->r, v));
    const pl_status st = pl_replay_put(t->r, v, exact, NULL, err);
    pl_datum_unref(exact);
    *changed = st == PL_OK;
    return st;
}

static bool is_times(const pl_value *v) {
    return v->producer != NULL && pl_node_has_flag(v->producer, PL_OP_TIMES) &&
           pl_node_has_flag(v->producer, PL_OP_ELEMENTWISE) && v->type != NULL &&
           v->type->kind == PL_TYPE_TENSOR && pl_dtype_is_float(v->type->dtype);
}

static pl_status try_fused(attempt *t, bool *yes, pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    bool changed = false;
    const pl_node *node = t->segment->n_computing == 1 ? t->value->producer : NULL;
    if (node == NULL || !pl_node_has_flag(node, PL_OP_ELEMENTWISE)) return PL_OK;
    pl_status st = begin(t, &trouble);
    for (size_t i = 0; i < t->segment->n_inputs && st == PL_OK; i++)
        if (is_times(t->segment->inputs[i]))
            st = put_exact(t, t->segment->inputs[i], &changed, &trouble);
    if (st == PL_OK && changed) {
        for (size_t i = 0; i < t->segment->n_nodes && st == PL_OK; i++)
            st = pl_replay_node(t->r, t->segment->nodes[i], &trouble);
        if (st == PL_OK) st = judge(t, yes, &trouble);
    }
    return end(t, st, &trouble, err);
}

/* ---- naming ---- */

/* Kinds that need no further explanation. */
static bool is_settled(const char *kind) {
    static const char *const settled[] = { "nan",        "sign flip", "rounding",
                                           "transposed", "permuted",  "shifted",
                                           "scale",      "offset",    "saturated" };
    for (size_t i = 0; i < sizeof(settled) / sizeof(settled[0]); i++)
        if (strcmp(kind, settled[i]) == 0) return true;
    return false;
}

pl_status pl_kind_hardware(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                           const pl_tensor *a, pl_kind_fit *kind, pl_err *err) {
    attempt t = { .j = j, .segment = segment, .value = value, .a = a };
    bool yes = false, products = false;
    if (strcmp(kind->kind, "flushed denormals") == 0) kind->remedy = NO_FLUSH;
    if (kind->remedy != NULL || is_settled(kind->kind) || pl_blaming_native(j, value, a) != PL_F32)
        return PL_OK;
    for (size_t i = 0; i < segment->n_nodes; i++)
        products = products || is_product(segment->nodes[i]);
    PL_TRY(try_fused(&t, &yes, err));
    if (yes) {
        *kind = (pl_kind_fit){ "fused multiply-add", kind->where,
                               "fused multiply-add: product and sum rounded once", NO_FMA };
        return PL_OK;
    }
    for (size_t i = 0; i < sizeof(habits) / sizeof(habits[0]) && !yes; i++) {
        const habit *h = &habits[i];
        if (h->products && !products) continue;
        PL_TRY(try_habit(&t, h, &yes, err));
        if (yes) *kind = (pl_kind_fit){ h->kind, kind->where, h->text, h->remedy };
    }
    return PL_OK;
}
