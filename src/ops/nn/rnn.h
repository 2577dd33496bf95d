/* Private to the rnn family: what RNN, GRU and LSTM have in common, read once from a node.
 *
 * Sizes follow the specification: X is (seq, batch, in), or (batch, seq, in) with layout 1; W is
 * (dirs, gates*hidden, in), R (dirs, gates*hidden, hidden), B (dirs, 2*gates*hidden). */
#ifndef PL_RNN_H
#define PL_RNN_H

#include "kernels/gemm/gemm.h"
#include "ops/bound.h"

typedef enum pl_rnn_kind { PL_RNN_PLAIN, PL_RNN_GRU, PL_RNN_LSTM } pl_rnn_kind;

typedef struct pl_rnn_act {
    int kind; /* index into the table of activations */
    double alpha, beta;
} pl_rnn_act;

typedef struct pl_rnn {
    pl_rnn_kind kind;
    int64_t seq, batch, in, hidden, dirs, gates;
    bool layout;          /* batch first */
    bool reverse[2];      /* per direction */
    pl_rnn_act act[2][3]; /* per direction: f, g, h */
    double clip;          /* 0 = none */
    bool linear_before_reset, input_forget;
    const int64_t *lengths; /* per batch item */
} pl_rnn;

/* Reads attributes and input shapes; lengths from input 4 (or seq for all). */
pl_status pl_rnn_read(pl_eval *c, pl_rnn_kind kind, pl_rnn *out);

/* Weights packed for the products, kept between runs if they are constant: W, R, and the last gate
 * of R, which the GRU multiplies separately. */
typedef struct pl_rnn_packed {
    pl_gemm_state *w[2], *r[2], *r_last[2];
} pl_rnn_packed;

/* Replaces a product: y(m,n) = x(m,k) * weight^T for one direction. For the quantised LSTM; NULL =
 * a plain GEMM with W or R. */
typedef struct pl_rnn_product {
    pl_status (*run)(void *ctx, bool recurrent, int64_t dir, int64_t m, const pl_f32 *x, pl_f32 *y);
    void *ctx;
} pl_rnn_product;

/* Runs all directions and steps on the inputs and outputs of the node. */
pl_status pl_rnn_run_f32(pl_eval *c, const pl_rnn *rnn, const pl_rnn_product *product);
pl_status pl_rnn_run_f64(pl_eval *c, const pl_rnn *rnn, const pl_rnn_product *product);

/* The node's packed weights, or `local` (released by the caller) when the weights may change. */
pl_rnn_packed *pl_rnn_packed_get(pl_eval *c, pl_rnn_packed *local);
void pl_rnn_packed_release(pl_rnn_packed *packed);

/* Writes the name of the operator that computes the activation ("Sigmoid") to `out`. */
void pl_rnn_act_name(const pl_rnn_act *act, char *out, size_t n_out);
/* Bound by expanding the cell into simple operators (rnn_bound.c); quantized:
 * DynamicQuantizeLSTM. */
pl_status pl_rnn_bound(pl_bound *c, pl_rnn_kind kind, bool quantized);

/* Applies an activation to n elements in place. */
void pl_rnn_act_f32(const pl_rnn_act *act, pl_f32 *x, int64_t n);
void pl_rnn_act_f64(const pl_rnn_act *act, pl_f64 *x, int64_t n);

#endif
