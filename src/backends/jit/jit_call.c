/* Matrix products and convolutions: operands are read in place, weights are packed once. */
#include "backends/jit/jit_call.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/gemm/gemm.h"

typedef enum call_kind { CALL_GEMM, CALL_CONV } call_kind;

struct jit_call {
    call_kind kind;
    pl_gemm_shape gemm;
    double alpha;
    int64_t *offsets; /* of A, then of B, for each item of a batch */
    int64_t base_a, base_b;
    pl_gemm_state *gemm_state;
    bool keeps; /* a packed B */
    pl_conv_shape conv;
    pl_conv_state *conv_state;
    bool winograd, factor;
};

void jit_call_free(jit_call *call) {
    if (call == NULL) return;
    pl_gemm_state_free(call->gemm_state);
    pl_conv_state_free(call->conv_state);
    pl_free(call->offsets);
    pl_free(call);
}

void jit_call_describe(const jit_call *call, pl_buf *out) {
    if (call->kind == CALL_GEMM) {
        pl_buf_printf(out, "product, %lld of %lld x %lld x %lld", (long long)call->gemm.batch,
                      (long long)call->gemm.m, (long long)call->gemm.k, (long long)call->gemm.n);
    } else {
        pl_buf_printf(out, "convolution, %lld to %lld channels%s%s", (long long)call->conv.c_in,
                      (long long)call->conv.c_out, call->winograd ? ", Winograd" : "",
                      call->factor ? ", of a product" : "");
    }
}

/* ---- products ---- */

typedef struct operand {
    int64_t rows, cols, rs, cs, base;
    int64_t c[JIT_RANK];
    int batch_rank;
    bool fits, trans;
    int64_t ld;
} operand;

static operand operand_of(const jit_plan *plan, const jit_ref *ref) {
    operand o;
    memset(&o, 0, sizeof(o));
    jit_ref_flat(plan, ref, o.c, &o.base);
    o.batch_rank = ref->rank - 2;
    o.rows = ref->dims[ref->rank - 2];
    o.cols = ref->dims[ref->rank - 1];
    o.rs = o.c[ref->rank - 2];
    o.cs = o.c[ref->rank - 1];
    const bool plain = (o.cs == 1 || o.cols == 1) && (o.rs >= o.cols || o.rows == 1);
    const bool turned = (o.rs == 1 || o.rows == 1) && (o.cs >= o.rows || o.cols == 1);
    o.fits = plain || turned;
    o.trans = !plain;
    o.ld = plain ? (o.rows == 1 ? 0 : o.rs) : (o.cols == 1 ? 0 : o.cs);
    if (plain && o.ld != 0 && o.ld < o.cols) o.fits = false;
    return o;
}

bool jit_gemm_operand_fits(const jit_plan *plan, const jit_ref *ref) {
    return ref->rank >= 2 && operand_of(plan, ref).fits;
}

/* Batch items that are contiguous in memory and share one B: one product with more rows. */
static bool rows_continue(const jit_ref *a, const operand *x, const operand *y, const int64_t *dims,
                          int batch_rank, int64_t *ld) {
    int64_t stride = x->rows == 1 ? 0 : x->rs * x->rows;
    if (x->trans && x->rows > 1) return false;
    *ld = x->rs;
    for (int d = batch_rank - 1; d >= 0; d--) {
        const int da = d - (batch_rank - x->batch_rank), db = d - (batch_rank - y->batch_rank);
        if (dims[d] == 1) continue;
        if (db >= 0 && y->c[db] != 0) return false;
        if (da < 0 || a->dims[da] != dims[d]) return false;
        if (stride == 0)
            *ld = stride = x->c[da]; /* single rows: the stride of the first dim is the distance */
        if (x->c[da] != stride || *ld < x->cols) return false;
        stride *= dims[d];
    }
    return true;
}

static bool fill_offsets(jit_call *call, const operand *x, const operand *y, const jit_ref *a,
                         const jit_ref *b, const int64_t *dims, int batch_rank) {
    const int64_t n = call->gemm.batch;
    call->offsets = pl_calloc((size_t)n, 2 * sizeof(int64_t));
    if (call->offsets == NULL) return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        for (int d = batch_rank - 1; d >= 0; d--) {
            const int64_t at = rest % dims[d];
            const int da = d - (batch_rank - x->batch_rank), db = d - (batch_rank - y->batch_rank);
            if (da >= 0 && a->dims[da] > 1) call->offsets[i] += at * x->c[da];
            if (db >= 0 && b->dims[db] > 1) call->offsets[n + i] += at * y->c[db];
            rest /= dims[d];
        }
    }
    call->gemm.offsets_a = call->offsets;
    call->gemm.offsets_b = call->offsets + n;
    return true;
}

jit_call *jit_call_gemm(const jit_plan *plan, const jit_ref *a, const jit_ref *b, double alpha,
                        const struct pl_provider *by, int *rank, int64_t *dims) {
    const operand x = operand_of(plan, a), y = operand_of(plan, b);
    jit_call *call = pl_calloc(1, sizeof(*call));
    if (call == NULL) return NULL;
    const int batch_rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    int64_t batch = 1;
    for (int d = 0; d < batch_rank; d++) {
        const int da = d - (batch_rank - x.batch_rank), db = d - (batch_rank - y.batch_rank);
        const int64_t na = da >= 0 ? a->dims[da] : 1, nb = db >= 0 ? b->dims[db] : 1;
        dims[d] = na > nb ? na : nb;
        batch *= dims[d];
    }
    dims[batch_rank] = x.rows;
    dims[batch_rank + 1] = y.cols;
    *rank = batch_rank + 2;
    call->kind = CALL_GEMM;
    call->alpha = alpha;
    call->base_a = x.base;
    call->base_b = y.base;
    call->gemm = (pl_gemm_shape){ .m = x.rows,
                                  .n = y.cols,
                                  .k = x.cols,
                                  .trans_a = x.trans,
                                  .trans_b = y.trans,
                                  .lda = x.ld,
                                  .ldb = y.ld,
                                  .batch = batch,
                                  .stride_c = x.rows * y.cols,
                                  .by = by };
    int64_t ld = 0;
    const bool straight = x.cs == 1 || x.cols == 1;
    if (batch > 1 && straight && rows_continue(a, &x, &y, dims, batch_rank, &ld)) {
        call->gemm.m *= batch;
        call->gemm.batch = 1;
        call->gemm.trans_a = false;
        call->gemm.lda = ld;
    } else if (batch > 1 && !fill_offsets(call, &x, &y, a, b, dims, batch_rank)) {
        jit_call_free(call);
        return NULL;
    }
    return call;
}

bool jit_gemm_wants_copy(const jit_plan *plan, const jit_ref *a, const jit_ref *b) {
    enum { FEW_ROWS = 32 };
    const operand x = operand_of(plan, a), y = operand_of(plan, b);
    int64_t batch = 1, ld = 0;
    for (int d = 0; d < y.batch_rank; d++)
        if (b->dims[d] > 1) return false;
    for (int d = 0; d < x.batch_rank; d++)
        batch *= a->dims[d];
    if (batch == 1 || x.rows > FEW_ROWS) return false;
    const bool straight = x.cs == 1 || x.cols == 1;
    return !straight || !rows_continue(a, &x, &y, a->dims, x.batch_rank, &ld);
}

int jit_call_column_dims(const jit_call *call) {
    return call->kind == CALL_GEMM ? 1 : call->conv.n_spatial;
}

/* ---- convolutions ---- */

/* One value per channel, the same at all its positions. */
static bool is_of_channels(const jit_plan *plan, const jit_ref *ref) {
    const jit_prim *p = &plan->prims[ref->prim];
    int64_t c[JIT_RANK], k;
    jit_ref_flat(plan, ref, c, &k);
    if (k != 0 || p->kind == JIT_IOTA || p->n != ref->dims[0] * ref->dims[1]) return false;
    for (int d = 0; d < ref->rank; d++) {
        const int64_t want = d == 0 ? ref->dims[1] : d == 1 ? 1 : 0;
        if (ref->dims[d] > 1 && c[d] != want) return false;
    }
    return true;
}

bool jit_conv_factor(const jit_plan *plan, const jit_ref *ref, const pl_conv_shape *shape,
                     jit_ref *x, jit_ref *factor) {
    const jit_prim *p = &plan->prims[ref->prim];
    if (p->kind != JIT_MAP || p->n_args != 2 || p->forced || p->rank < 3 ||
        strcmp(p->expr, "$0 * $1") != 0 || !jit_ref_is_whole(plan, ref)) {
        return false;
    }
    if (p->dtype == PL_F64   ? !pl_conv_takes_factor_f64(shape)
        : p->dtype == PL_F32 ? !pl_conv_takes_factor_f32(shape)
                             : true) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        *x = p->args[i];
        *factor = p->args[1 - i];
        const jit_prim *from = &plan->prims[x->prim], *of = &plan->prims[factor->prim];
        if (from->dtype == p->dtype && of->dtype == p->dtype && from->kind != JIT_IOTA &&
            jit_ref_is_whole(plan, x) && is_of_channels(plan, factor)) {
            return true;
        }
    }
    return false;
}

jit_call *jit_call_conv(const pl_conv_shape *shape, bool winograd, bool factor) {
    jit_call *call = pl_calloc(1, sizeof(*call));
    if (call == NULL) return NULL;
    call->kind = CALL_CONV;
    call->conv = *shape;
    call->factor = factor;
    call->winograd = winograd && pl_conv_winograd_fits(shape);
    return call;
}

/* ---- running ---- */

static void *data_of(const jit_plan *plan, const jit_ref *ref) {
    return plan->buffers[plan->prims[ref->prim].slot];
}

pl_status jit_call_prepare(jit_program *p, jit_plan *plan, jit_prim *prim, size_t *room,
                           size_t *n_bytes, pl_err *err) {
    jit_call *call = prim->call;
    *n_bytes = 0;
    if (call == NULL) return PL_OK; /* kernels of operators pack nothing */
    if (plan->prims[prim->args[1].prim].kind != JIT_CONST) return PL_OK;
    const void *b = data_of(plan, &prim->args[1]);
    if (call->kind == CALL_CONV) {
        pl_conv_state **state = &call->conv_state;
        PL_TRY(call->winograd ? pl_conv_winograd_prepare_f32(p->pool, &call->conv, b, state, err)
               : prim->dtype == PL_F64 ? pl_conv_prepare_f64(p->pool, &call->conv, b, state, err)
                                       : pl_conv_prepare_f32(p->pool, &call->conv, b, state, err));
        *n_bytes = pl_conv_state_bytes(*state);
        return PL_OK;
    }
    pl_gemm_state **state = &call->gemm_state;
    const size_t most = (size_t)(call->gemm.k * call->gemm.n) * pl_dtype_bytes(prim->dtype);
    call->keeps = most <= *room;
    if (!call->keeps) return PL_OK;
    PL_TRY(prim->dtype == PL_F64
               ? pl_gemm_prepare_f64(p->pool, &call->gemm, (const pl_f64 *)b + call->base_b, state,
                                     err)
               : pl_gemm_prepare_f32(p->pool, &call->gemm, (const pl_f32 *)b + call->base_b, state,
                                     err));
    *n_bytes = pl_gemm_state_bytes(*state);
    *room -= *n_bytes < *room ? *n_bytes : *room;
    return PL_OK;
}

void jit_call_move(jit_call *call, void *to) {
    if (call->kind == CALL_CONV) {
        pl_conv_state_move(call->conv_state, to);
    } else {
        pl_gemm_state_move(call->gemm_state, to);
    }
}

typedef struct after_job {
    const jit_plan *plan;
    jit_after fn;
} after_job;

static void run_after(void *ctx, int64_t row0, int64_t row1, int64_t col0, int64_t col1) {
    const after_job *j = ctx;
    j->fn(j->plan->buffers, j->plan->params, row0, row1, col0, col1);
}

pl_status jit_call_run(jit_program *p, jit_plan *plan, jit_prim *prim, pl_err *err) {
    jit_call *call = prim->call;
    const jit_loop *loop = plan->steps[prim->step].loop;
    after_job job = { plan, loop == NULL ? NULL : loop->parts[0].after };
    const pl_epilogue after = { run_after, &job };
    const pl_epilogue *follows = loop == NULL ? NULL : &after;
    call->gemm.after = follows;
    const void *a = data_of(plan, &prim->args[0]), *b = data_of(plan, &prim->args[1]);
    void *c = plan->buffers[prim->slot];
    const bool constant = plan->prims[prim->args[1].prim].kind == JIT_CONST;
    if (call->kind == CALL_CONV) {
        const int n = prim->n_args - (call->factor ? 1 : 0);
        const void *bias = n > 2 ? data_of(plan, &prim->args[2]) : NULL;
        pl_conv_state **state = constant ? &call->conv_state : NULL;
        if (call->factor) {
            const void *f = data_of(plan, &prim->args[n]);
            return prim->dtype == PL_F64 ? pl_conv_factor_f64(p->pool, &call->conv, a, f, b, bias,
                                                              c, state, follows, err)
                                         : pl_conv_factor_f32(p->pool, &call->conv, a, f, b, bias,
                                                              c, state, follows, err);
        }
        if (constant && call->winograd) {
            return pl_conv_winograd_f32(p->pool, &call->conv, a, b, bias, c, state, follows, err);
        }
        return prim->dtype == PL_F64
                   ? pl_conv_after_f64(p->pool, &call->conv, a, b, bias, c, state, follows, err)
                   : pl_conv_after_f32(p->pool, &call->conv, a, b, bias, c, state, follows, err);
    }
    pl_gemm_state **state = constant && call->keeps ? &call->gemm_state : NULL;
    if (prim->dtype == PL_F64) {
        return pl_gemm_f64(p->pool, &call->gemm, call->alpha, (const pl_f64 *)a + call->base_a,
                           (const pl_f64 *)b + call->base_b, 0, c, state, err);
    }
    return pl_gemm_f32(p->pool, &call->gemm, (float)call->alpha, (const pl_f32 *)a + call->base_a,
                       (const pl_f32 *)b + call->base_b, 0, c, state, err);
}
