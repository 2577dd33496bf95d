/* What GroupQueryAttention leaves undefined: batch items may be shorter than the buffers. Rows of
 * the first prompt from seqlens_k[b] + 1 on, and places of the cache from there on, are padding
 * (ONNX Runtime leaves there what was in memory). */
#include "ops/microsoft/ms_attention_rules.h"
#include "ops/undefined.h"

enum { QUERY = 0, PAST_KEY = 3, SEQLENS = 5, TOTAL = 6 };
enum { OUT = 0, OUT_KEY, OUT_VALUE, OUT_QK };

static bool may(const pl_undefined *c) {
    const pl_tensor *last = c->in[SEQLENS], *total = c->in[TOTAL], *past = c->in[PAST_KEY];
    if (last == NULL || total == NULL || total->n_elements != 1) return true;
    const int64_t n = pl_tensor_get_i64(total, 0);
    for (int64_t b = 0; b < last->n_elements; b++)
        if (pl_tensor_get_i64(last, b) + 1 < n) return true;
    if (c->node->in[PAST_KEY] == NULL) return false;
    return past == NULL || past->rank != 4 || past->dims[2] > n;
}

/* Rows from `from` on in every matrix of batch item b. */
static pl_status mark_rows(pl_undefined *c, int out, int64_t b, int64_t from) {
    const pl_tensor *t = c->out[out];
    if (t == NULL || t->rank < 3 || t->n_elements == 0) return PL_OK;
    const int64_t rows = t->dims[t->rank - 2], cells = t->dims[t->rank - 1];
    const int64_t matrices = t->rank == 4 ? t->dims[1] : 1;
    for (int64_t m = 0; m < matrices; m++) {
        const int64_t base = (b * matrices + m) * rows * cells;
        if (from < rows)
            PL_TRY(pl_ranges_add(&c->of[out], base + from * cells, base + rows * cells, c->err));
    }
    return PL_OK;
}

/* Scores: padded rows, and padded columns of the others. */
static pl_status mark_scores(pl_undefined *c, int64_t b, int64_t rows_from, int64_t from) {
    const pl_tensor *t = c->out[OUT_QK];
    if (t == NULL || t->rank != 4) return PL_OK;
    const int64_t rows = t->dims[2], cells = t->dims[3];
    for (int64_t r = 0; r < t->dims[1] * rows; r++) {
        const int64_t at = (b * t->dims[1] * rows + r) * cells;
        const int64_t first = r % rows >= rows_from ? 0 : from;
        PL_TRY(pl_ranges_add(&c->of[OUT_QK], at + first, at + cells, c->err));
    }
    return PL_OK;
}

static pl_status mark(pl_undefined *c) {
    const pl_tensor *last = c->in[SEQLENS], *total = c->in[TOTAL], *q = c->in[QUERY];
    if (last == NULL || total == NULL || q == NULL || q->rank != 3 || total->n_elements != 1)
        return PL_OK;
    const int64_t len = q->dims[1], batch = q->dims[0];
    const bool first_prompt = len == pl_tensor_get_i64(total, 0);
    for (int64_t b = 0; b < batch && b < last->n_elements; b++) {
        const int64_t at = pl_tensor_get_i64(last, b);
        const int64_t valid = at < 0 ? 0 : at < INT32_MAX ? at + 1 : INT32_MAX;
        const int64_t rows = first_prompt ? valid : len;
        PL_TRY(mark_rows(c, OUT, b, rows));
        if (c->n_out > OUT_KEY) PL_TRY(mark_rows(c, OUT_KEY, b, valid));
        if (c->n_out > OUT_VALUE) PL_TRY(mark_rows(c, OUT_VALUE, b, valid));
        if (c->n_out > OUT_QK) PL_TRY(mark_scores(c, b, rows, valid));
    }
    return PL_OK;
}

const pl_undefined_rule pl_ms_group_undefined = { .may = may, .mark = mark };
