#include "pair/effective.h"

#include <math.h>

/* Error that correct code may have: the green limit of PSNR. */
static double decibels_of(pl_precision p) {
    static const double green[] = {
#define X(NAME, text, green, yellow) (double)(green),
        PL_PRECISION_MAP(X)
#undef X
    };
    return green[p];
}

pl_precision pl_precision_coarser(pl_precision base, pl_precision effective) {
    if (base == PL_PRECISION_EXACT || effective == PL_PRECISION_EXACT) return base;
    return decibels_of(effective) < decibels_of(base) ? effective : base;
}

static pl_precision of_codes(pl_dtype dtype) {
    const pl_precision p = pl_precision_of(dtype, dtype);
    return dtype == PL_UNDEFINED || p == PL_PRECISION_EXACT ? PL_PRECISION_INT8 : p;
}

/* Quantise and dequantise: by the integer types on both ends, where known. */
static pl_precision of_quant(const pl_pair_graph *g, const pl_pg_node *node,
                             const pl_dtype *dtype) {
    const uint32_t in = node->n_own_in > 0 ? g->edges[node->in] : PL_PAIR_NONE;
    const uint32_t out = node->n_out > 0 ? g->edges[node->out] : PL_PAIR_NONE;
    if (in != PL_PAIR_NONE && pl_dtype_is_integer(dtype[in])) return of_codes(dtype[in]);
    if (out != PL_PAIR_NONE && pl_dtype_is_integer(dtype[out])) return of_codes(dtype[out]);
    if (node->row != NULL && (node->row->flags & PL_OP_HALVES) != 0) return PL_PRECISION_F16;
    return PL_PRECISION_INT8;
}

static pl_precision of_inputs(const pl_pair_graph *g, const pl_pg_node *node, bool count_weights,
                              const pl_precision *of) {
    pl_precision p = PL_PRECISION_F64;
    for (uint32_t k = 0; k < node->n_in; k++) {
        const uint32_t v = g->edges[node->in + k];
        if (v == PL_PAIR_NONE) continue;
        if ((g->values[v].flags & PL_PG_FIXED) != 0 && !count_weights) continue;
        p = pl_precision_coarser(p, of[v]);
    }
    return p;
}

/* Codes to reals: rounds nothing. */
static bool reads_codes(const pl_pair_graph *g, const pl_pg_node *node, const pl_dtype *dtype) {
    const uint32_t in = node->n_own_in > 0 ? g->edges[node->in] : PL_PAIR_NONE;
    return in != PL_PAIR_NONE && pl_dtype_is_integer(dtype[in]);
}

void pl_effective_find(const pl_pair_graph *g, const pl_dtype *dtype, const bool *same,
                       bool count_weights, pl_precision *of) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        of[v] = PL_PRECISION_F64;
        if ((g->values[v].flags & PL_PG_CODES) != 0) of[v] = of_codes(dtype[v]);
        if (pl_dtype_is_float(dtype[v])) of[v] = pl_precision_of(dtype[v], dtype[v]);
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const pl_pg_node *node = &g->nodes[n];
        pl_precision p = of_inputs(g, node, count_weights, of);
        if ((node->flags & PL_PG_QUANT) != 0 && !(same != NULL && reads_codes(g, node, dtype)))
            p = pl_precision_coarser(p, of_quant(g, node, dtype));
        /* The quantised form of an op: QLinearConv, MatMulInteger. */
        if (node->plain != node->label) p = pl_precision_coarser(p, PL_PRECISION_INT8);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t v = g->edges[node->out + k];
            if (v == PL_PAIR_NONE) continue;
            of[v] = pl_precision_coarser(of[v], p);
            if (same == NULL || !same[v]) continue;
            of[v] = PL_PRECISION_F64;
            if (pl_dtype_is_float(dtype[v])) of[v] = pl_precision_of(dtype[v], dtype[v]);
        }
    }
}

/* Is it a quantiser, or the quantised form of an operator? */
static bool rounds(const pl_pg_node *node) {
    return (node->flags & PL_PG_QUANT) != 0 || node->plain != node->label;
}

void pl_effective_rounded(const pl_pair_graph *g, const pl_dtype *dtype, const bool *same,
                          bool *rounded) {
    for (uint32_t v = 0; v < g->n_values; v++)
        rounded[v] = false;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const pl_pg_node *node = &g->nodes[n];
        bool is = rounds(node);
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t v = g->edges[node->in + k];
            /* A cast makes integers from floats that may differ. */
            if (v != PL_PAIR_NONE && (same == NULL || !same[v]))
                is = is || rounded[v] || pl_dtype_is_float(dtype[v]);
        }
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t v = g->edges[node->out + k];
            if (v != PL_PAIR_NONE) rounded[v] = is;
        }
    }
}
