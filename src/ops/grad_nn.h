/* Gradient rules of neural-network operators, and what they share beyond the builder of grad.h.
 *
 * Composite operators are written forward in simple ones; their gradients follow from those of the
 * simple ones (pl_g_expanded). */
#ifndef PL_GRAD_NN_H
#define PL_GRAD_NN_H

#include "ops/grad.h"
#include "ops/window.h"

/* ---- spelling an operator in others ---- */
/* Nodes that are appended from here on belong to the expansion. */
size_t pl_g_mark(const pl_grad *c);
/* y[k] is output k of the node as the nodes since `mark` compute it (NULL: no gradient comes from
 * it). Sets dx of all wanted inputs by going backwards through those nodes. */
pl_status pl_g_expanded(pl_grad *c, size_t mark, pl_value *const *y);

/* ---- small things ---- */
pl_value *pl_g_scaled(pl_grad *c, pl_value *x, double factor); /* x itself for 1 */
pl_value *pl_g_plus(pl_grad *c, pl_value *x, double number);
/* x along the last axes swapped as perm says where it is not the identity. */
pl_value *pl_g_swap_last(pl_grad *c, pl_value *x);
/* A tensor of the type of `like`, filled by the caller through *data (then stored by
 * pl_g_constant). */
typedef struct pl_g_table {
    double *data;
    int rank;
    int64_t dims[PL_RANK_MAX], n;
} pl_g_table;
bool pl_g_table_new(pl_grad *c, pl_g_table *t, int rank, const int64_t *dims);
pl_value *pl_g_table_value(pl_grad *c, pl_g_table *t, pl_dtype dtype); /* frees the data */
/* A list with a number per channel, seen as [C, 1, …] beside x of this rank. */
pl_value *pl_g_channels(pl_grad *c, pl_value *x, int rank);
/* An activation by the name of its operator ("Relu", "Affine", "ScaledTanh", …, "" = none). */
pl_value *pl_g_activate(pl_grad *c, const char *name, double alpha, double beta, pl_value *x);
/* One piece after another along an axis. */
pl_value *pl_g_cut(pl_grad *c, pl_value *x, int64_t axis, int64_t from, int64_t to);

/* ---- windows (grad_conv.c) ---- */
pl_status pl_conv_grad(pl_grad *c);
pl_status pl_conv_transpose_grad(pl_grad *c);
pl_status pl_fused_conv_grad(pl_grad *c);
pl_status pl_fused_gemm_grad(pl_grad *c);
pl_status pl_causal_conv_grad(pl_grad *c);
pl_status pl_col2im_grad(pl_grad *c);
pl_status pl_deform_conv_grad(pl_grad *c); /* grad_deform.c */
pl_status pl_average_pool_grad(pl_grad *c);
pl_status pl_global_average_grad(pl_grad *c);
pl_status pl_lp_pool_grad(pl_grad *c);
pl_status pl_global_lp_grad(pl_grad *c);
pl_status pl_max_pool_grad(pl_grad *c);
pl_status pl_global_max_grad(pl_grad *c);
pl_status pl_max_unpool_grad(pl_grad *c);

/* ---- products (grad_matmul.c) ---- */
pl_status pl_matmul_grad(pl_grad *c);
pl_status pl_gemm_grad(pl_grad *c);
pl_status pl_fused_matmul_grad(pl_grad *c);
pl_status pl_einsum_grad(pl_grad *c); /* matmul_einsum.c */
pl_status pl_det_grad(pl_grad *c);

/* ---- normalisations (grad_norm.c) ---- */
pl_status pl_layer_norm_grad(pl_grad *c);
pl_status pl_rms_norm_grad(pl_grad *c);
pl_status pl_instance_norm_grad(pl_grad *c);
pl_status pl_group_norm_grad(pl_grad *c);
pl_status pl_batch_norm_grad(pl_grad *c);
pl_status pl_lp_norm_grad(pl_grad *c);
pl_status pl_lrn_grad(pl_grad *c);
pl_status pl_mvn_grad(pl_grad *c);
pl_status pl_ms_bias_add_grad(pl_grad *c);
pl_status pl_ms_gelu_grad(pl_grad *c);
pl_status pl_ms_fast_gelu_grad(pl_grad *c);
pl_status pl_ms_bias_split_gelu_grad(pl_grad *c);
pl_status pl_ms_bias_softmax_grad(pl_grad *c);
pl_status pl_ms_skip_layer_norm_grad(pl_grad *c);
pl_status pl_ms_skip_rms_norm_grad(pl_grad *c);
pl_status pl_ms_embed_grad(pl_grad *c);
pl_status pl_ms_group_norm_grad(pl_grad *c);
pl_status pl_ms_skip_group_norm_grad(pl_grad *c);

/* ---- sequences (grad_rnn.c, grad_attention.c) ---- */
pl_status pl_rnn_grad(pl_grad *c);
pl_status pl_gru_grad(pl_grad *c);
pl_status pl_lstm_grad(pl_grad *c);
pl_status pl_attention_grad(pl_grad *c);
pl_status pl_rotary_grad(pl_grad *c);
pl_status pl_linear_attention_grad(pl_grad *c);
/* x (batch, heads, len, size) or (batch, len, heads * size), the first 2 * half elements of each
 * head turned by cos and sin (batch or 1, len, half or more). */
pl_value *pl_g_turned(pl_grad *c, pl_value *x, pl_value *cos, pl_value *sin, int64_t size,
                      int64_t half);
pl_status pl_ms_attention_grad(pl_grad *c); /* grad_ms_attention.c */
pl_status pl_ms_multi_head_grad(pl_grad *c);
pl_status pl_ms_decoder_grad(pl_grad *c);
pl_status pl_ms_group_grad(pl_grad *c); /* grad_ms_group.c */
pl_status pl_ms_rotary_grad(pl_grad *c);

/* ---- regions (grad_region.c) ---- */
/* RoiAlign: outputs are the mean or the largest (the first of them) of the last axis of
 * `cells` (regions, 1, outputs, each; int64) times `weights`. */
pl_status pl_roi_gather_grad(pl_grad *c, pl_value *cells, pl_value *weights, bool largest);
pl_status pl_roi_align_open_grad(pl_grad *c); /* regions that only the run knows */
pl_status pl_max_roi_pool_grad(pl_grad *c);

/* ---- places (grad_sample.c) ---- */
pl_status pl_grid_sample_grad(pl_grad *c);
pl_status pl_affine_grid_grad(pl_grad *c);
pl_status pl_dft_grad(pl_grad *c);
pl_status pl_stft_grad(pl_grad *c);

#endif
