/* Mapping ONNX Runtime's optimised graph back to the model. */
#include "backends/ort/ort_map.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/strmap.h"
#include "ops/infer.h"
#include "ops/op.h"

typedef struct place { /* where a value of the executed graph belongs */
    const pl_value *of;
    pl_ort_layout layout;
    int rank;
    uint8_t perm[PL_RANK_MAX];
} place;

struct pl_ort_map {
    const pl_model *original, *executed;
    place *places;        /* by id of the executed value */
    pl_strmap node_names; /* of the original; unique names only */
    pl_strmap in_bodies;  /* values in the original's bodies; unique names only */
    /* nodes of the original that use a value: uses[first[id] .. first[id + 1]) */
    size_t *first;
    const pl_node **uses;
};

/* ---- searching the original graph ---- */

static bool is_op(const pl_node *node, const char *op) {
    return node != NULL && pl_domain_is_onnx(node->domain) && strcmp(node->op, op) == 0;
}

static const char *skip_prefix(const char *name, const char *prefix) {
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

/* Strips the prefix of a float16 value that ORT holds in float32. */
static const char *skip_cast(const char *name) {
    const char *rest = skip_prefix(name, "InsertedPrecisionFreeCast_");
    if (rest == NULL) rest = skip_prefix(name, "InsertedCast_");
    return rest == NULL ? name : rest;
}

/* Length of a name without "_token_N", which ORT appends to names that are taken. */
static size_t length_without_token(const char *name) {
    const size_t n = strlen(name);
    size_t digits = 0;
    while (digits < n && name[n - 1 - digits] >= '0' && name[n - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || n < digits + 7 || strncmp(name + n - digits - 7, "_token_", 7) != 0) {
        return n;
    }
    return n - digits - 7;
}

static const pl_value *find_value(const pl_ort_map *map, const char *name, size_t n) {
    const pl_value *v = pl_strmap_get_n(&map->original->graph->by_name, name, n);
    return v != NULL ? v : pl_strmap_get_n(&map->in_bodies, name, n);
}

/* Length of a name without "_XExecutionProvider", which ORT appends to copies on a device. */
static size_t length_without_provider(const char *name) {
    static const char tail[] = "ExecutionProvider";
    const size_t n = strlen(name), n_tail = sizeof(tail) - 1;
    if (n <= n_tail || strcmp(name + n - n_tail, tail) != 0) return n;
    size_t at = n - n_tail;
    while (at > 0 && name[at - 1] != '_')
        at--;
    return at > 1 ? at - 1 : n;
}

static const pl_node *find_node(const pl_ort_map *map, const char *name) {
    const pl_node *node = pl_strmap_get_n(&map->node_names, name, length_without_token(name));
    if (node != NULL) return node;
    return pl_strmap_get_n(&map->node_names, name, length_without_provider(name));
}

typedef struct users {
    const pl_node *const *nodes;
    size_t n;
} users;

static users users_of(const pl_ort_map *map, const pl_value *v) {
    const size_t first = map->first[v->id];
    return (users){ map->uses + first, map->first[v->id + 1] - first };
}

static pl_dtype dtype_of(const pl_value *v) {
    return v->type != NULL && v->type->kind == PL_TYPE_TENSOR ? v->type->dtype : PL_UNDEFINED;
}

/* Whether its first output equals its first input. */
static bool is_copy(const pl_node *node) {
    if (node == NULL || node->n_in == 0 || node->n_out == 0 || node->in[0] == NULL ||
        node->out[0] == NULL) {
        return false;
    }
    if (is_op(node, "Cast")) {
        const pl_attr *to = pl_node_attr(node, "to");
        return to != NULL && dtype_of(node->in[0]) == (pl_dtype)to->i;
    }
    return is_op(node, "Identity") || is_op(node, "Dropout");
}

enum { COPIES_MAX = 4 };

/* v, or the value it is a copy of. */
static const pl_value *copied_from(const pl_value *v) {
    for (int i = 0; i < COPIES_MAX && is_copy(v->producer) && v->producer_slot == 0; i++)
        v = v->producer->in[0];
    return v;
}

/* The first output of a node of this type that uses v, directly or through copies; NULL if there is
 * none. */
static const pl_value *follow(const pl_ort_map *map, const pl_value *v, const char *op, int depth) {
    const users u = users_of(map, v);
    for (size_t i = 0; i < u.n; i++) {
        if (is_op(u.nodes[i], op) && u.nodes[i]->n_out > 0) return u.nodes[i]->out[0];
    }
    for (size_t i = 0; i < u.n && depth > 0; i++) {
        const bool copies = is_op(u.nodes[i], "Identity") || is_op(u.nodes[i], "Dropout");
        const pl_value *found = copies && u.nodes[i]->n_out > 0 && u.nodes[i]->out[0] != NULL
                                    ? follow(map, u.nodes[i]->out[0], op, depth - 1)
                                    : NULL;
        if (found != NULL) return found;
    }
    return NULL;
}

/* The quantised form of a value, possibly after its activation; NULL if there is none. */
static const pl_value *requantised(const pl_ort_map *map, const pl_value *v) {
    static const char *const activations[] = { "Relu", "Clip" };
    const pl_value *q = follow(map, v, "QuantizeLinear", COPIES_MAX);
    for (size_t i = 0; i < 2 && q == NULL; i++) {
        const pl_value *next = follow(map, v, activations[i], COPIES_MAX);
        if (next != NULL) q = follow(map, next, "QuantizeLinear", COPIES_MAX);
    }
    return q;
}

/* The quantised value that v was dequantised from; NULL if there is none. */
static const pl_value *before_dequantising(const pl_value *v) {
    v = copied_from(v);
    return is_op(v->producer, "DequantizeLinear") && v->producer->in[0] != NULL
               ? copied_from(v->producer->in[0])
               : NULL;
}

/* ---- places ---- */

static place *place_of(const pl_ort_map *map, const pl_value *executed) {
    return &map->places[executed->id];
}

static place plain(const pl_value *of) {
    return (place){ .of = of, .layout = PL_ORT_PLAIN };
}

static place blocked(const pl_value *of) {
    return (place){ .of = of, .layout = PL_ORT_BLOCKED };
}

static place permuted(const pl_value *of, int rank, const uint8_t *perm) {
    place p = { .of = of, .layout = PL_ORT_PLAIN, .rank = rank };
    for (int i = 0; i < rank; i++) {
        p.perm[i] = perm[i];
        if (perm[i] != i) p.layout = PL_ORT_PERMUTED;
    }
    return p;
}

static place channels_last(const pl_value *of) {
    static const uint8_t back[] = { 0, 3, 1, 2 };
    return permuted(of, 4, back);
}

static bool same_layout(const place *a, const place *b) {
    return a->layout == b->layout &&
           (a->layout != PL_ORT_PERMUTED ||
            (a->rank == b->rank && memcmp(a->perm, b->perm, (size_t)a->rank) == 0));
}

#define PRE_Q "_pre_q"
#define POST_DQ "_post_dq"

static bool ends_with(const char *name, const char *suffix) {
    const size_t n = length_without_token(name), n_suffix = strlen(suffix);
    return n == strlen(name) && n > n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

static place by_name(const pl_ort_map *map, const pl_value *v) {
    const char *name = skip_cast(v->name);
    const pl_value *of = find_value(map, v->name, strlen(v->name));
    if (of == NULL) of = find_value(map, name, strlen(name));
    if (of == NULL) of = find_value(map, name, length_without_provider(name));
    /* ORT renames V when it moves a QuantizeLinear up to it. */
    if (of == NULL && ends_with(name, PRE_Q))
        of = find_value(map, name, strlen(name) - strlen(PRE_Q));
    return plain(of);
}

static bool flag(const pl_node *node, const char *name) {
    const pl_attr *a = pl_node_attr(node, name);
    return a != NULL && a->i != 0;
}

/* Reads the attribute perm; returns its rank, 0 if there is none. */
static int perm_of(const pl_node *node, uint8_t *perm) {
    const pl_attr *a = pl_node_attr(node, "perm");
    if (a == NULL || a->n > PL_RANK_MAX) return 0;
    for (size_t i = 0; i < a->n; i++) {
        if (a->ints[i] < 0 || (size_t)a->ints[i] >= a->n) return 0;
        perm[i] = (uint8_t)a->ints[i];
    }
    return (int)a->n;
}

/* Undo this node's perm, then apply the one of `from`. */
static place transposed(const pl_node *node, const place *from) {
    uint8_t perm[PL_RANK_MAX], back[PL_RANK_MAX], both[PL_RANK_MAX];
    const int rank = perm_of(node, perm);
    if (from->of == NULL || rank == 0 || from->layout == PL_ORT_BLOCKED ||
        (from->layout == PL_ORT_PERMUTED && from->rank != rank)) {
        return plain(NULL);
    }
    for (int i = 0; i < rank; i++)
        back[perm[i]] = (uint8_t)i;
    for (int i = 0; i < rank; i++)
        both[i] = back[from->layout == PL_ORT_PERMUTED ? from->perm[i] : i];
    return permuted(from->of, rank, both);
}

/* Reads the value's name from V_nchwc, V_bn_nchwc or InsertedPrecisionFreeCast_V_nchwc, then
 * follows the Add and activation that ORT fused into the node. */
static const pl_value *of_nchwc_node(const pl_ort_map *map, const pl_node *node) {
    const char *name = skip_cast(node->name);
    const pl_attr *act = pl_node_attr(node, "activation");
    size_t n = length_without_token(name);
    if (n < 6 || strncmp(name + n - 6, "_nchwc", 6) != 0) return NULL;
    n -= 6;
    const pl_value *v = find_value(map, name, n);
    /* a BatchNormalization on its own runs as a depthwise convolution */
    if (v == NULL && n > 3 && strncmp(name + n - 3, "_bn", 3) == 0)
        v = find_value(map, name, n -= 3);
    if (v == NULL) {
        const pl_node *same = pl_strmap_get_n(&map->node_names, name, n);
        v = same != NULL && same->n_out > 0 ? same->out[0] : NULL;
    }
    if (v != NULL && strcmp(node->op, "Conv") == 0 && node->n_in > 3 && node->in[3] != NULL) {
        const pl_value *sum = follow(map, v, "Add", COPIES_MAX);
        v = sum != NULL ? sum : follow(map, v, "Sum", COPIES_MAX);
    }
    if (v != NULL && act != NULL && act->s.n_bytes > 0) {
        char op[32];
        if (act->s.n_bytes >= sizeof(op)) return NULL;
        memcpy(op, act->s.data, act->s.n_bytes);
        op[act->s.n_bytes] = '\0';
        if (!is_op(v->producer, op)) v = follow(map, v, op, COPIES_MAX);
    }
    return v;
}

/* ---- nodes by operator and inputs ---- */

/* "QLinearConv" and "NhwcFusedConv" run a Conv, "QGemm" a Gemm; other names must be equal. */
static bool runs(const pl_node *executed, const pl_node *original) {
    const char *op = executed->op;
    if (strcmp(op, original->op) == 0) return true;
    const char *rest = skip_prefix(op, "QLinear");
    if (rest == NULL) rest = skip_prefix(op, "Q");
    if (rest == NULL) rest = skip_prefix(op, "Fused");
    if (rest == NULL) rest = skip_prefix(op, "NhwcFused");
    return rest != NULL && strcmp(rest, original->op) == 0;
}

static bool is_data(const pl_value *v) {
    return v != NULL && v->init == NULL;
}

/* Whether the executed node's data inputs are those of the original, or what those were dequantised
 * from (then *quantised is set). With `loose`, unknown inputs match. */
static bool inputs_fit(const pl_ort_map *map, const pl_node *executed, const pl_node *original,
                       bool loose, bool *quantised) {
    const bool q = executed->op[0] == 'Q' && strcmp(executed->op, original->op) != 0;
    size_t n_fit = 0;
    *quantised = q;
    for (uint32_t i = 0; i < executed->n_in; i++) {
        if (!is_data(executed->in[i])) continue;
        const pl_value *of = place_of(map, executed->in[i])->of;
        bool fits = of == NULL && loose;
        for (uint32_t k = 0; k < original->n_in && of != NULL && !fits; k++) {
            if (!q && k != i && !is_op(original, "Add") && !is_op(original, "Mul")) continue;
            if (original->in[k] == NULL) continue;
            fits = copied_from(original->in[k]) == copied_from(of);
            if (!fits && copied_from(of) == before_dequantising(original->in[k])) {
                fits = *quantised = true;
            }
        }
        if (!fits) return false;
        n_fit++;
    }
    return n_fit > 0;
}

/* The model's value for output k of an executed node that runs `original`. */
static const pl_value *output_of(const pl_ort_map *map, const pl_node *original, uint32_t k,
                                 bool quantised) {
    const pl_value *v = k < original->n_out ? original->out[k] : NULL;
    return v != NULL && quantised ? requantised(map, v) : v;
}

static bool is_expanded_hardswish(const pl_node *node) {
    if (!is_op(node, "Mul") || node->n_in != 2 || node->in[0] == NULL || node->in[1] == NULL) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const pl_node *h = node->in[i]->producer;
        if (is_op(h, "HardSigmoid") && h->in[0] == node->in[1 - i]) return true;
    }
    return false;
}

/* ORT's QuickGelu computes x * Sigmoid(alpha x). */
static const pl_value *swish_of(const pl_ort_map *map, const pl_value *x) {
    const users u = users_of(map, x);
    for (size_t i = 0; i < u.n; i++) {
        const pl_node *mul = u.nodes[i];
        if (!is_op(mul, "Mul") || mul->n_in != 2 || mul->n_out != 1) continue;
        for (int k = 0; k < 2; k++) {
            const pl_value *s = mul->in[k];
            if (s == NULL || !is_op(s->producer, "Sigmoid")) continue;
            const pl_value *a = s->producer->in[0];
            const pl_node *scale = a->producer;
            if (a == x || (is_op(scale, "Mul") && (scale->in[0] == x || scale->in[1] == x))) {
                return mul->out[0];
            }
        }
    }
    return NULL;
}

static const pl_node *match_of(const pl_ort_map *map, const pl_node *executed, const pl_value *v,
                               bool same_count, bool *quantised) {
    const users u = users_of(map, v);
    const pl_node *found = NULL;
    for (size_t i = 0; i < u.n; i++) {
        bool q = false;
        if (same_count && u.nodes[i]->n_in != executed->n_in) continue;
        if (!runs(executed, u.nodes[i]) || !inputs_fit(map, executed, u.nodes[i], false, &q) ||
            u.nodes[i] == found) {
            continue;
        }
        if (found != NULL) return NULL;
        found = u.nodes[i];
        *quantised = q;
    }
    return found;
}

/* The only user of v that matches; NULL if there are none or several. An exact number of inputs
 * decides among several: each Concat of a dense block begins with the inputs of the one before. */
static const pl_node *only_match(const pl_ort_map *map, const pl_node *executed, const pl_value *v,
                                 bool *quantised) {
    const pl_node *found = match_of(map, executed, v, false, quantised);
    return found != NULL ? found : match_of(map, executed, v, true, quantised);
}

static const pl_value *by_inputs(const pl_ort_map *map, const pl_node *node, uint32_t k) {
    const pl_value *u = NULL;
    for (uint32_t i = 0; i < node->n_in && u == NULL; i++)
        u = is_data(node->in[i]) ? place_of(map, node->in[i])->of : NULL;
    if (u == NULL) return NULL;
    if (is_expanded_hardswish(node)) {
        const pl_value *y = follow(map, u, "HardSwish", 0);
        if (y != NULL) return y;
    }
    if (strcmp(node->op, "QuickGelu") == 0) return swish_of(map, u);
    bool quantised = false;
    const pl_node *found = only_match(map, node, u, &quantised);
    const pl_value *wide = found == NULL ? follow(map, u, "DequantizeLinear", COPIES_MAX) : NULL;
    if (wide != NULL) found = only_match(map, node, wide, &quantised);
    return found == NULL ? NULL : output_of(map, found, k, quantised);
}

/* ORT may name the executed node after the original node, or (transpose optimiser) its output. */
static const pl_value *by_node_name(const pl_ort_map *map, const pl_node *node, uint32_t k) {
    const char *const names[] = { node->name, node->out[k]->name };
    for (size_t i = 0; i < 2; i++) {
        const pl_node *same = names[i][0] == '\0' ? NULL : find_node(map, names[i]);
        bool quantised = false;
        if (same == NULL || !runs(node, same) || !inputs_fit(map, node, same, true, &quantised)) {
            continue;
        }
        return output_of(map, same, k, quantised);
    }
    return NULL;
}

/* Operators that do not move elements, or (Concat) whose axis ORT has adjusted. */
static bool keeps_layout(const pl_node *node) {
    static const char *const ops[] = {
        "Relu",
        "Sigmoid",
        "HardSigmoid",
        "HardSwish",
        "Tanh",
        "Clip",
        "LeakyRelu",
        "Elu",
        "Gelu",
        "QuickGelu",
        "Add",
        "Mul",
        "Sub",
        "Div",
        "Sum",
        "Max",
        "Min",
        "Abs",
        "Neg",
        "Exp",
        "Sqrt",
        "Erf",
        "Cast",
        "Identity",
        "Dropout",
        "QLinearAdd",
        "QLinearMul",
        "QLinearSigmoid",
        "QLinearLeakyRelu",
        "QLinearConcat",
        "Concat",
        "QuantizeLinear",
        "DequantizeLinear",
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(node->op, ops[i]) == 0) return true;
    }
    return false;
}

static bool is_nhwc(const pl_node *node) {
    return strcmp(node->domain, PL_ORT_NHWC) == 0 || strcmp(node->op, "NhwcFusedConv") == 0;
}

/* The layout of a node's output, derived from its inputs; false if unknown. */
static bool layout_of(const pl_ort_map *map, const pl_node *node, const pl_value *of, place *out) {
    const place *common = NULL;
    bool has_data = false;
    if (flag(node, "channels_last") || is_nhwc(node)) {
        *out = channels_last(of);
        return true;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (!is_data(node->in[i])) continue;
        const place *p = place_of(map, node->in[i]);
        has_data = true;
        if (p->of == NULL) continue;
        if (common != NULL && !same_layout(common, p)) return false;
        common = p;
    }
    if (common == NULL && has_data) return false;
    *out = common == NULL ? plain(of) : *common;
    out->of = of;
    return out->layout == PL_ORT_PLAIN || keeps_layout(node);
}

/* The value after the activation that is fused into the node; NULL if unknown. */
static const pl_value *activated(const pl_ort_map *map, const pl_node *node, const pl_value *v) {
    const pl_attr *a = pl_node_attr(node, "activation");
    if (v == NULL || a == NULL || !is_nhwc(node)) return v;
    char op[32];
    snprintf(op, sizeof(op), "%.*s", (int)pl_size_min(a->s.n_bytes, sizeof(op) - 1), a->s.data);
    return op[0] == '\0' ? v : follow(map, v, op, 0);
}

static bool is_transfer(const pl_node *node) {
    return is_op(node, "MemcpyToHost") || is_op(node, "MemcpyFromHost");
}

/* ---- building ---- */

static place place_output(const pl_ort_map *map, const pl_node *node, uint32_t k) {
    const bool nchwc = strcmp(node->domain, PL_ORT_NCHWC) == 0;
    place p = by_name(map, node->out[k]);
    if (nchwc && strcmp(node->op, "ReorderOutput") == 0) {
        if (p.of != NULL) return p;
        const pl_value *of = place_of(map, node->in[0])->of;
        return flag(node, "channels_last") ? channels_last(of) : plain(of);
    }
    if (nchwc && strcmp(node->op, "ReorderInput") == 0) {
        return blocked(place_of(map, node->in[0])->of);
    }
    if (nchwc) return blocked(p.of != NULL ? p.of : of_nchwc_node(map, node));
    if (is_transfer(node)) return *place_of(map, node->in[0]);
    if (p.of != NULL) return p;
    if (is_op(node, "Transpose")) return transposed(node, place_of(map, node->in[0]));
    const pl_value *of = by_node_name(map, node, k);
    if (of == NULL) of = by_inputs(map, node, k);
    of = activated(map, node, of);
    return of != NULL && layout_of(map, node, of, &p) ? p : plain(NULL);
}

/* A ReorderOutput or Transpose into a value that kept its name shows where its input belongs. */
static void place_sources(const pl_ort_map *map, const pl_graph *g) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const pl_node *node = g->nodes[i];
        uint8_t perm[PL_RANK_MAX];
        if (node->n_in < 1 || node->in[0] == NULL || node->n_out != 1 || node->out[0] == NULL) {
            continue;
        }
        place *source = place_of(map, node->in[0]);
        const place to = by_name(map, node->out[0]);
        if (to.of == NULL || source->of != NULL || by_name(map, node->in[0]).of != NULL) continue;
        if (strcmp(node->domain, PL_ORT_NCHWC) == 0 && strcmp(node->op, "ReorderOutput") == 0) {
            if (!flag(node, "channels_last")) *source = blocked(to.of);
        } else if (is_op(node, "Transpose")) {
            const int rank = perm_of(node, perm);
            if (rank > 0) *source = permuted(to.of, rank, perm);
        }
    }
}

static pl_status place_graph(void *ctx, pl_graph *g, pl_err *err) {
    pl_ort_map *map = ctx;
    for (size_t i = 0; i < g->n_values; i++) {
        const pl_value *v = g->values[i];
        if (v->producer == NULL) *place_of(map, v) = by_name(map, v);
    }
    place_sources(map, g);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const pl_node *node = g->nodes[i];
        pl_node_each_body(node, place_graph, map, err);
        if (node->n_in > 0 && node->in[0] == NULL) continue;
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] == NULL || place_of(map, node->out[k])->of != NULL) continue;
            *place_of(map, node->out[k]) =
                node->n_in > 0 ? place_output(map, node, k) : by_name(map, node->out[k]);
        }
    }
    return PL_OK;
}

/* ---- misleading names ---- */

/* Operators with one data input that copy its elements. */
static bool moves_elements(const pl_node *node) {
    static const char *const ops[] = { "Reshape", "Transpose", "Squeeze",  "Unsqueeze",
                                       "Flatten", "Slice",     "Identity", "MaxPool" };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (is_op(node, ops[i])) return node->n_in > 0 && node->in[0] != NULL;
    return false;
}

static void forget(const pl_ort_map *map, const pl_value *executed) {
    *place_of(map, executed) = plain(NULL);
}

/* When ORT moves a QuantizeLinear up past nodes that only move elements, it leaves a Q/DQ pair
 * behind. Values between that pair and the model's own QuantizeLinear are already rounded to codes,
 * so they are not the model's values. */
static void forget_codes(const pl_ort_map *map, const pl_graph *g, bool *codes) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const pl_node *node = g->nodes[i];
        if (node->n_out == 0 || node->out[0] == NULL) continue;
        const bool pair = is_op(node, "DequantizeLinear") && ends_with(node->out[0]->name, POST_DQ);
        if (!pair && !(moves_elements(node) && codes[node->in[0]->id])) continue;
        codes[node->out[0]->id] = true;
        forget(map, node->out[0]);
    }
}

/* Whether the executed graph still runs this node: as it is, or as an NCHWc convolution, possibly
 * with the activation that follows. */
static bool still_runs(const pl_ort_map *map, const pl_graph *g, const pl_node *original) {
    for (size_t i = 0; i < g->n_nodes; i++) {
        const pl_node *node = g->nodes[i];
        const bool nchwc = strcmp(node->domain, PL_ORT_NCHWC) == 0;
        if (node->n_out == 0 || node->out[0] == NULL) continue;
        const pl_value *of = place_of(map, node->out[0])->of;
        const pl_node *last = of == NULL ? NULL : of->producer;
        if (of == original->out[0] && (nchwc || runs(node, original))) return true;
        if (nchwc && last != NULL && last->n_in > 0 && last->in[0] == original->out[0]) return true;
    }
    return false;
}

static void forget_all_of(const pl_ort_map *map, const pl_graph *g, const pl_value *of) {
    for (size_t i = 0; i < g->n_values; i++)
        if (place_of(map, g->values[i])->of == of) forget(map, g->values[i]);
}

/* A BatchNormalization may be folded into a product before it, past nodes that move elements. The
 * product and those nodes keep their names but hold normalised values. */
static void forget_folded(const pl_ort_map *map, const pl_graph *g) {
    const pl_graph *original = map->original->graph;
    for (size_t i = 0; i < original->n_nodes; i++) {
        const pl_node *norm = original->nodes[i];
        if (!is_op(norm, "BatchNormalization") || norm->in[0] == NULL || norm->out[0] == NULL ||
            norm->in[0]->producer == NULL || still_runs(map, g, norm)) {
            continue;
        }
        const pl_value *v = norm->in[0];
        forget_all_of(map, g, v);
        for (int k = 0; k < 2 * COPIES_MAX && moves_elements(v->producer); k++) {
            v = v->producer->in[0];
            if (v->producer == NULL) break;
            forget_all_of(map, g, v);
        }
    }
}

static pl_status forget_impostors(const pl_ort_map *map, pl_err *err) {
    bool *codes = pl_calloc((size_t)map->executed->n_values + 1, sizeof(bool));
    if (codes == NULL) return pl_fail_memory(err, map->executed->n_values);
    forget_codes(map, map->executed->graph, codes);
    forget_folded(map, map->executed->graph);
    pl_free(codes);
    return PL_OK;
}

/* A name that occurs twice identifies nothing: map it to NULL. */
static pl_status put_once(pl_strmap *names, const char *name, void *value, pl_err *err) {
    if (pl_strmap_has(names, name)) value = NULL;
    return pl_strmap_put(names, name, value) == 0 ? PL_OK : pl_fail_memory(err, 1);
}

static pl_status index_names(void *ctx, pl_graph *g, pl_err *err) {
    pl_ort_map *map = ctx;
    for (size_t i = 0; i < g->n_values && g != map->original->graph; i++) {
        PL_TRY(put_once(&map->in_bodies, g->values[i]->name, g->values[i], err));
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        pl_node *node = g->nodes[i];
        if (node->name[0] != '\0') PL_TRY(put_once(&map->node_names, node->name, node, err));
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != NULL) map->first[node->in[k]->id + 2]++;
        }
        PL_TRY(pl_node_each_body(node, index_names, map, err));
    }
    return PL_OK;
}

static pl_status index_uses(void *ctx, pl_graph *g, pl_err *err) {
    pl_ort_map *map = ctx;
    for (size_t i = 0; i < g->n_nodes; i++) {
        const pl_node *node = g->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != NULL) map->uses[map->first[node->in[k]->id + 1]++] = node;
        }
        PL_TRY(pl_node_each_body(node, index_uses, map, err));
    }
    return PL_OK;
}

static pl_status index_original(pl_ort_map *map, pl_err *err) {
    pl_graph *g = map->original->graph;
    const size_t n_ids = map->original->n_values;
    map->first = pl_calloc(n_ids + 2, sizeof(size_t));
    if (map->first == NULL) return pl_fail_memory(err, n_ids);
    PL_TRY(index_names(map, g, err));
    for (size_t i = 2; i < n_ids + 2; i++)
        map->first[i] += map->first[i - 1];
    map->uses = pl_calloc(map->first[n_ids + 1] + 1, sizeof(*map->uses));
    if (map->uses == NULL) return pl_fail_memory(err, n_ids);
    /* first[id + 1] is now the start of id's users; index_uses moves it to their end */
    return index_uses(map, g, err);
}

pl_status pl_ort_map_new(pl_model *original, const pl_model *executed, pl_ort_map **out,
                         pl_err *err) {
    pl_ort_map *map = pl_calloc(1, sizeof(*map));
    if (map == NULL) return pl_fail_memory(err, sizeof(*map));
    /* Types help, but are optional: a model that plumb cannot infer may still run. */
    const pl_infer_options infer = { .defaults = original->ir_version < 4 };
    if (pl_ops_resolve_known(original, NULL) == PL_OK) pl_model_infer(original, &infer, NULL);
    *map = (pl_ort_map){ .in_bodies = PL_STRMAP_INIT,
                         .original = original,
                         .executed = executed,
                         .node_names = PL_STRMAP_INIT };
    map->places = pl_calloc((size_t)executed->n_values + 1, sizeof(place));
    pl_status st = map->places == NULL ? pl_fail_memory(err, executed->n_values) : PL_OK;
    if (st == PL_OK) st = index_original(map, err);
    if (st != PL_OK) {
        pl_ort_map_free(map);
        return st;
    }
    place_graph(map, executed->graph, err);
    st = forget_impostors(map, err);
    if (st != PL_OK) {
        pl_ort_map_free(map);
        return st;
    }
    *out = map;
    return PL_OK;
}

void pl_ort_map_free(pl_ort_map *map) {
    if (map == NULL) return;
    pl_strmap_release(&map->node_names);
    pl_strmap_release(&map->in_bodies);
    pl_free(map->places);
    pl_free(map->first);
    pl_free(map->uses);
    pl_free(map);
}

/* ---- queries ---- */

static int64_t channels_of(const pl_value *v) {
    const pl_type *t = v->type;
    if (t != NULL && t->has_rank && t->rank == 4 && pl_dim_known(t->dims[1])) {
        return t->dims[1].value;
    }
    if (is_op(v->producer, "Conv") && v->producer->n_in > 1 && v->producer->in[1] != NULL &&
        v->producer->in[1]->init != NULL) {
        return v->producer->in[1]->init->dims[0];
    }
    return -1;
}

/* Bytes in ORT's memory, which may hold float16 as float32. 0 if a dim is unknown. */
static size_t bytes_of(const pl_type *type) {
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !pl_type_is_concrete(type)) return 0;
    size_t n = (size_t)(pl_dtype_bits(type->dtype) <= 16 && pl_dtype_is_float(type->dtype)
                            ? 4
                            : (pl_dtype_bits(type->dtype) + 7) / 8);
    for (int i = 0; i < type->rank; i++) {
        if (!pl_size_mul(n, (size_t)type->dims[i].value, &n)) return 0;
    }
    return n;
}

static bool is_optional(const pl_value *v) {
    return v->type != NULL && v->type->kind == PL_TYPE_OPTIONAL;
}

pl_ort_watch pl_ort_watch_of(const pl_value *value) {
    return (pl_ort_watch){ .name = value->name,
                           .stands_for = value->name,
                           .dtype = dtype_of(value),
                           .n_bytes = bytes_of(value->type),
                           .optional = is_optional(value) };
}

static pl_ort_watch watch_place(const pl_value *value, const place *p) {
    pl_ort_watch w = { .name = value->name,
                       .layout = PL_ORT_PLAIN,
                       .optional = is_optional(value) || (p->of != NULL && is_optional(p->of)) };
    /* Inputs and weights are known already. */
    if (p->of == NULL || p->of->producer == NULL) return w;
    w.stands_for = p->of->name;
    w.dtype = dtype_of(p->of);
    w.n_bytes = bytes_of(p->of->type);
    w.layout = p->layout;
    w.rank = p->rank;
    memcpy(w.perm, p->perm, sizeof(w.perm));
    if (p->layout == PL_ORT_BLOCKED) w.channels = channels_of(p->of);
    if (p->layout == PL_ORT_BLOCKED && w.channels <= 0) {
        w.stands_for = NULL;
        w.layout = PL_ORT_PLAIN;
    }
    return w;
}

pl_ort_watch pl_ort_map_value(const pl_ort_map *map, const pl_value *value) {
    return watch_place(value, place_of(map, value));
}

pl_ort_watch pl_ort_map_before(const pl_ort_map *map, const pl_value *value, const char *op) {
    place p = *place_of(map, value);
    const pl_node *node = p.of == NULL ? NULL : p.of->producer;
    p.of = is_op(node, op) && node->n_in > 0 ? node->in[0] : NULL;
    return watch_place(value, &p);
}

pl_status pl_ort_map_unique(pl_ort_watch *watched, size_t n, pl_err *err) {
    pl_strmap best = PL_STRMAP_INIT;
    int failed = 0;
    for (size_t i = 0; i < n && failed == 0; i++) {
        if (watched[i].stands_for == NULL) continue;
        pl_ort_watch *other = pl_strmap_get(&best, watched[i].stands_for);
        const bool own = strcmp(watched[i].name, watched[i].stands_for) == 0;
        if (other == NULL || own) {
            failed = pl_strmap_put(&best, watched[i].stands_for, &watched[i]);
            if (other != NULL) other->stands_for = NULL;
        } else {
            watched[i].stands_for = NULL;
        }
    }
    pl_strmap_release(&best);
    return failed != 0 ? pl_fail_memory(err, n) : PL_OK;
}
