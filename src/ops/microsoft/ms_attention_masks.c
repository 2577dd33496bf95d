/* Masks and helpers shared by the attention operators of com.microsoft. */
#include <math.h>

#include "base/size.h"
#include "ops/microsoft/ms_attention.h"

/* ---- shapes ---- */

static pl_status fail_mask(const pl_infer *c, int rank) {
    return pl_infer_fail(c,
                         "the mask (rank %d) has none of the shapes [batch], [2 * batch], "
                         "[batch, total], [batch, length, total], [batch, 1, max, max]",
                         rank);
}

static bool differs(pl_dim a, int64_t b) {
    return pl_dim_known(a) && a.value != b;
}

static bool differ(pl_dim a, pl_dim b) {
    return pl_dim_known(a) && pl_dim_known(b) && a.value != b.value;
}

/* [batch, 1] and [1, 1] hide nothing, whatever their values. */
static bool is_dummy(pl_dim batch, pl_dim found0, pl_dim found1) {
    return !differs(found1, 1) && (!differs(found0, 1) || !differ(found0, batch));
}

pl_status pl_ms_check_mask(const pl_infer *c, int mask, pl_dim batch, pl_dim q_len, pl_dim total) {
    const int rank = pl_infer_rank(c, mask);
    if (rank < 0) return PL_OK;
    pl_dim d[4] = { PL_DIM_UNKNOWN, PL_DIM_UNKNOWN, PL_DIM_UNKNOWN, PL_DIM_UNKNOWN };
    for (int i = 0; i < rank && i < 4; i++)
        d[i] = pl_infer_dim(c, mask, i);
    if (rank == 1) {
        if (!pl_dim_known(batch) || !differs(d[0], batch.value)) return PL_OK;
        const int64_t b = pl_i64_min(batch.value, INT64_MAX / 4);
        return d[0].value == 2 * b || d[0].value == 3 * b + 2 ? PL_OK : fail_mask(c, rank);
    }
    if (rank == 2) {
        const bool full = !differ(d[0], batch) && !differ(d[1], total);
        return full || is_dummy(batch, d[0], d[1]) ? PL_OK : fail_mask(c, rank);
    }
    if (rank == 3) {
        const bool fits = !differ(d[0], batch) && !differ(d[1], q_len) && !differ(d[2], total);
        return fits ? PL_OK : fail_mask(c, rank);
    }
    if (rank != 4 || differ(d[0], batch) || differs(d[1], 1) || differ(d[2], d[3])) {
        return fail_mask(c, rank);
    }
    const bool covers = !pl_dim_known(d[3]) || !pl_dim_known(total) || d[3].value >= total.value;
    return covers ? PL_OK : fail_mask(c, rank);
}

pl_status pl_ms_check_bias(const pl_infer *c, int i, pl_dim batch, pl_dim heads, pl_dim q_len,
                           pl_dim total) {
    bool known = false;
    PL_TRY(pl_meet_rank(c, i, "attention_bias", 4, &known));
    if (!known) return PL_OK;
    const pl_dim leading[4] = { batch, heads, PL_DIM_UNKNOWN, PL_DIM_UNKNOWN };
    PL_TRY(pl_meet_broadcast(c, i, "attention_bias", 4, leading));
    PL_TRY(pl_meet_agree(c, "the length of attention_bias", pl_infer_dim(c, i, 2), &q_len));
    return pl_meet_agree(c, "the total length of attention_bias", pl_infer_dim(c, i, 3), &total);
}

/* ---- masks ---- */

static void put(bool wide, void *to, int64_t i, double value) {
    if (wide) {
        ((double *)to)[i] = value;
    } else {
        ((float *)to)[i] = (float)value;
    }
}

static double get(bool wide, const void *from, int64_t i) {
    return wide ? ((const pl_f64 *)from)[i] : (double)((const pl_f32 *)from)[i];
}

/* Mask rows per batch item: one for all queries, or one per query. */
static int64_t mask_rows(const pl_tensor *mask, int64_t q_len) {
    return mask->rank >= 3 ? q_len : 1;
}

/* Does query i of batch item b see key j? */
static bool sees(const pl_tensor *mask, const int64_t *m, const pl_attention *a, int64_t b,
                 int64_t i, int64_t j) {
    switch (mask->rank) {
    case 1:
        if (j >= m[b]) return false;
        return mask->dims[0] != 2 * a->batch || a->batch == 0 || j >= m[a->batch + b];
    case 2: return m[b * a->kv_len + j] > 0;
    case 3: return m[(b * a->q_len + i) * a->kv_len + j] > 0;
    default: break;
    }
    const int64_t max = mask->dims[3], row = a->kv_len - a->q_len + i;
    return row < 0 || m[(b * max + row) * max + j] > 0;
}

static pl_status mask_bias(pl_eval *c, pl_attention *a, int i_mask, double filter) {
    const pl_tensor *mask = pl_in(c, i_mask);
    const int64_t rows = mask_rows(mask, a->q_len);
    const int64_t dims[] = { a->batch, rows, a->kv_len };
    int64_t n = 0;
    size_t n_mask = 0;
    const int64_t *m = pl_in_ints(c, i_mask, &n_mask);
    if (m == NULL || !pl_dims_product(3, dims, &n)) return pl_eval_memory(c);
    void *to = pl_scratch(c, (size_t)n, pl_attention_size(a->wide));
    if (to == NULL) return pl_eval_memory(c);
    for (int64_t b = 0, at = 0; b < a->batch && n > 0; b++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < a->kv_len; j++, at++)
                put(a->wide, to, at, sees(mask, m, a, b, i, j) ? 0.0 : filter);
        }
    }
    a->bias = (pl_heads){ to, 0, rows * a->kv_len, 0, rows == 1 ? 0 : a->kv_len };
    a->bias_col = 1;
    return PL_OK;
}

/* A mask that hides nothing, whatever its values. */
static bool mask_is_dummy(const pl_tensor *mask, const pl_attention *a) {
    return mask->rank == 2 && (mask->dims[1] != a->kv_len || mask->dims[0] != a->batch);
}

/* Mask and attention bias together: their sum, one matrix per batch item and head of the bias. */
static pl_status sum_biases(pl_eval *c, pl_attention *a, const pl_heads *x, int64_t heads) {
    const int64_t dims[] = { a->batch, heads, a->q_len, a->kv_len };
    int64_t n = 0;
    if (!pl_dims_product(4, dims, &n)) return pl_eval_memory(c);
    void *to = pl_scratch(c, (size_t)n, pl_attention_size(a->wide));
    if (to == NULL) return pl_eval_memory(c);
    for (int64_t r = 0, at = 0; r < a->batch * heads * a->q_len && n > 0; r++) {
        const int64_t i = r % a->q_len, h = r / a->q_len % heads, b = r / a->q_len / heads;
        const int64_t from = b * x->batch + h * x->head + i * x->row;
        const int64_t mask = b * a->bias.batch + i * a->bias.row;
        for (int64_t j = 0; j < a->kv_len; j++, at++) {
            put(a->wide, to, at,
                get(a->wide, x->data, from + j) + get(a->wide, a->bias.data, mask + j));
        }
    }
    a->bias = pl_heads_bnsh(to, heads, a->q_len, a->kv_len);
    if (heads == 1) a->bias.head = 0;
    return PL_OK;
}

pl_status pl_ms_bias(pl_eval *c, pl_attention *a, int mask, int attention_bias, double filter) {
    if (mask >= 0 && pl_has(c, mask) && !mask_is_dummy(pl_in(c, mask), a)) {
        PL_TRY(mask_bias(c, a, mask, filter));
    }
    if (attention_bias < 0 || !pl_has(c, attention_bias)) return PL_OK;
    const pl_tensor *t = pl_in(c, attention_bias);
    pl_heads x =
        pl_heads_bnsh(pl_attention_in(c, attention_bias, a->wide), t->dims[1], a->q_len, a->kv_len);
    if (x.data == NULL) return pl_eval_memory(c);
    if (t->dims[0] == 1) x.batch = 0;
    if (t->dims[1] == 1) x.head = 0;
    if (a->bias.data != NULL) return sum_biases(c, a, &x, t->dims[1]);
    a->bias = x;
    a->bias_col = 1;
    return PL_OK;
}

/* ---- pieces ---- */

void *pl_ms_add_bias(pl_eval *c, bool wide, const pl_heads *x, int64_t batch, int64_t n,
                     int64_t len, int64_t size, const void *bias, int64_t offset) {
    const int64_t dims[] = { batch, n, len, size };
    int64_t total = 0;
    if (!pl_dims_product(4, dims, &total)) return NULL;
    void *to = pl_scratch(c, (size_t)total, pl_attention_size(wide));
    if (to == NULL || total == 0) return to;
    for (int64_t r = 0, at = 0; r < batch * n * len; r++) {
        const int64_t i = r % len, h = r / len % n, b = r / len / n;
        const int64_t from = x->offset + b * x->batch + h * x->head + i * x->row;
        for (int64_t d = 0; d < size; d++, at++) {
            put(wide, to, at,
                get(wide, x->data, from + d) + get(wide, bias, offset + h * size + d));
        }
    }
    return to;
}

bool pl_ms_is_empty(const pl_eval *c) {
    for (int i = 0; i < c->n_out; i++) {
        if (pl_wants(c, i) && pl_out(c, i)->n_elements != 0) return false;
    }
    return true;
}

double pl_ms_scale(const pl_eval *c, int64_t head_size) {
    const double scale = pl_attr_float(c->node, "scale");
    if (scale != 0 || head_size == 0) return scale;
    return 1.0 / sqrt((double)head_size);
}

pl_status pl_ms_output(pl_eval *c, pl_attention *a) {
    a->y = pl_attention_out(c, 0, a->wide, a->batch, a->q_len, a->q_heads, a->v_size);
    if (a->y == NULL) return pl_eval_memory(c);
    const pl_heads y = pl_heads_bsnh(a->y, a->q_heads, a->q_len, a->v_size);
    a->y_batch = y.batch;
    a->y_head = y.head;
    a->y_row = y.row;
    return PL_OK;
}
