/* com.microsoft RemovePadding and RestorePadding: tokens of a batch without their padding, and
 * back. token_offset has the places of the tokens in the padded batch, then those of the padding.
 */
#include <string.h>

#include "ops/eval.h"
#include "ops/infer.h"
#include "ops/microsoft/ms_padding_rules.h"

extern const pl_op_def pl_ops_ms_padding[];

enum { OUT_TOKENS, OUT_OFFSETS, OUT_ENDS, OUT_LONGEST }; /* of RemovePadding */

static pl_status rank_is(pl_infer *c, int i, int expected) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0 || rank == expected) return PL_OK;
    return pl_infer_fail(c, "input %d has rank %d, expected %d", i, rank, expected);
}

static pl_status remove_infer(pl_infer *c) {
    size_t n = 0;
    PL_TRY(rank_is(c, 0, 3));
    PL_TRY(rank_is(c, 1, 1));
    const int64_t *counts = pl_infer_ints(c, 1, &n);
    const pl_dim batch = pl_infer_dim(c, 0, 0), length = pl_infer_dim(c, 0, 1);
    pl_dim dims[2] = { PL_DIM_UNKNOWN, pl_infer_dim(c, 0, 2) };
    if (counts != NULL && pl_dim_known(batch) && batch.value != (int64_t)n)
        return pl_infer_fail(c, "%zu counts for a batch of %lld", n, (long long)batch.value);
    if (counts != NULL) dims[0] = pl_dim_of(0);
    for (size_t i = 0; counts != NULL && i < n; i++) {
        if (counts[i] < 0 || (pl_dim_known(length) && counts[i] > length.value))
            return pl_infer_fail(c, "count %zu is %lld, expected 0 to %lld", i,
                                 (long long)counts[i], (long long)length.value);
        dims[0] = pl_dim_of(dims[0].value + counts[i]);
    }
    const pl_dim places[2] = { batch, length }, one = pl_dim_of(1);
    const pl_dim ends = pl_dim_known(batch) ? pl_dim_of(batch.value + 1) : PL_DIM_UNKNOWN;
    PL_TRY(pl_infer_set(c, OUT_TOKENS, pl_infer_dtype_of(c, 0), 2, dims));
    PL_TRY(pl_infer_set(c, OUT_OFFSETS, PL_I32, 2, places));
    PL_TRY(pl_infer_set(c, OUT_ENDS, PL_I32, 1, &ends));
    return pl_infer_set(c, OUT_LONGEST, PL_I32, 1, &one);
}

static pl_i32 *ints_out(pl_eval *c, int i) {
    return pl_out(c, i) == NULL ? NULL : pl_out(c, i)->data;
}

static pl_status remove_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, OUT_TOKENS);
    size_t n = 0;
    const int64_t *counts = pl_in_ints(c, 1, &n);
    pl_i32 *places = ints_out(c, OUT_OFFSETS), *ends = ints_out(c, OUT_ENDS);
    const int64_t length = x->dims[1];
    const size_t row = (size_t)x->dims[2] * pl_dtype_bytes(x->dtype);
    int64_t at = 0, longest = 0;
    if (counts == NULL && n > 0) return pl_eval_memory(c);
    if (ends != NULL) ends[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t first = (int64_t)i * length;
        if (y != NULL && row > 0 && counts[i] > 0)
            memcpy((char *)y->data + (size_t)at * row, (const char *)x->data + (size_t)first * row,
                   (size_t)counts[i] * row);
        for (int64_t k = 0; k < counts[i]; k++, at++)
            if (places != NULL) places[at] = (int32_t)(first + k);
        if (ends != NULL) ends[i + 1] = (int32_t)at;
        if (counts[i] > longest) longest = counts[i];
    }
    for (size_t i = 0; i < n && places != NULL; i++)
        for (int64_t k = counts[i]; k < length; k++)
            places[at++] = (int32_t)((int64_t)i * length + k);
    if (ints_out(c, OUT_LONGEST) != NULL) *ints_out(c, OUT_LONGEST) = (int32_t)longest;
    return PL_OK;
}

static pl_status restore_infer(pl_infer *c) {
    PL_TRY(rank_is(c, 0, 2));
    PL_TRY(rank_is(c, 1, 2));
    const pl_dim dims[3] = { pl_infer_dim(c, 1, 0), pl_infer_dim(c, 1, 1), pl_infer_dim(c, 0, 1) };
    const pl_dim tokens = pl_infer_dim(c, 0, 0);
    if (c->concrete && tokens.value > dims[0].value * dims[1].value)
        return pl_infer_fail(c, "%lld tokens, but token_offset has only %lld places",
                             (long long)tokens.value, (long long)(dims[0].value * dims[1].value));
    return pl_infer_set(c, 0, pl_infer_dtype_of(c, 0), 3, dims);
}

static pl_status restore_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    size_t n = 0;
    const int64_t *places = pl_in_ints(c, 1, &n), tokens = x->dims[0];
    const size_t row = (size_t)x->dims[1] * pl_dtype_bytes(x->dtype);
    if (y->n_elements == 0) return PL_OK;
    if (places == NULL) return pl_eval_memory(c);
    memset(y->data, 0, pl_tensor_bytes(y));
    for (int64_t i = 0; i < tokens; i++) {
        if (places[i] < 0 || places[i] >= (int64_t)n)
            return pl_eval_fail(c, "token_offset %lld is %lld, expected 0 to %zu", (long long)i,
                                (long long)places[i], n - 1);
        memcpy((char *)y->data + (size_t)places[i] * row, (const char *)x->data + (size_t)i * row,
               row);
    }
    return PL_OK;
}

/* ---- rows ---- */

#define MS .domain = "com.microsoft", .since = 1
#define F PL_T_FLOAT
#define I32 PL_T(PL_I32)
#define MOVES                                                                                      \
    .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP,                                              \
    PL_EMIT_BREAK("moves rows by a table: a library routine")

/* clang-format off */
const pl_op_def pl_ops_ms_padding[] = {
    { .name = "RemovePadding", MS, .in = PL_PORTS({ "input", F, 0 }, { "sequence_token_count", I32, PL_PORT_MASK }),
      .out = PL_PORTS({ "output", F, 0 }, { "token_offset", I32, 0 }, { "cumulated_seq_len", I32, 0 }, { "max_seq_len", I32, 0 }),
      .infer = remove_infer, .eval = remove_eval, .grad = pl_remove_padding_grad, MOVES,
      .samples = PL_SAMPLES({ "(float[3,4,2] x) => (y, o, e, m) <int32[3] n = {1, 4, 2}> { y, o, e, m = com.microsoft.RemovePadding(x, n) }", NULL, 0 }) },
    { .name = "RestorePadding", MS, .in = PL_PORTS({ "input", F, 0 }, { "token_offset", I32, 0 }), .out = PL_PORTS({ "output", F, 0 }),
      .infer = restore_infer, .eval = restore_eval, .grad = pl_restore_padding_grad, MOVES,
      .samples = PL_SAMPLES({ "(float[3,4] x) => (y) <int32[2,3] o = {0, 3, 4, 1, 2, 5}> { y = com.microsoft.RestorePadding(x, o) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
