/* Batched products: checks, the choice between one product on all threads and several in parallel,
 * and the cache of packed weights. */
#include "kernels/gemm/gemm.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm_int.h"
#include "kernels/provider.h"

const pl_gemm_table *pl_gemm_table_get(void) {
    return PL_TABLE_OF(pl_cpu_isa(), pl_gemm_table);
}
int64_t pl_gemm_packed_a_size(int64_t m, int64_t k) {
    return m * k;
}

/* Rows and columns as stored in memory; the extent must fit the address space. */
static pl_status check_matrix(const char *name, int64_t rows, int64_t cols, int64_t *ld,
                              size_t bytes, pl_err *err) {
    if (*ld == 0) *ld = cols;
    if (*ld < cols && rows > 1)
        return pl_fail(err, PL_E_INVALID, "gemm: leading dim %lld of %s is below its %lld columns",
                       (long long)*ld, name, (long long)cols);
    int64_t extent = 0;
    if (rows > 0 && cols > 0 &&
        (!pl_i64_mul(rows - 1, *ld, &extent) || !pl_i64_add(extent, cols, &extent) ||
         extent > INT64_MAX / 64 / (int64_t)bytes))
        return pl_fail(err, PL_E_INVALID, "gemm: %s of %lld x %lld is too large", name,
                       (long long)rows, (long long)cols);
    return PL_OK;
}

pl_status pl_gemm_check(const pl_gemm_shape *shape, size_t bytes_a, size_t bytes_b, size_t bytes_c,
                        pl_gemm_shape *out, pl_err *err) {
    pl_gemm_shape s = *shape;
    if (s.m < 0 || s.n < 0 || s.k < 0 || s.batch < 0)
        return pl_fail(err, PL_E_INVALID,
                       "gemm: negative size (m %lld, n %lld, k %lld, batch %lld)", (long long)s.m,
                       (long long)s.n, (long long)s.k, (long long)s.batch);
    PL_TRY(check_matrix("A", s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k, &s.lda, bytes_a, err));
    PL_TRY(check_matrix("B", s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n, &s.ldb, bytes_b, err));
    PL_TRY(check_matrix("C", s.m, s.n, &s.ldc, bytes_c, err));
    *out = s;
    return PL_OK;
}

struct pl_gemm_state {
    const pl_provider *by;
    const void *b;
    int64_t k, n, ldb;
    bool trans_b;
    size_t elem_bytes;
    void *packed;
    size_t n_bytes;
    bool moved; /* packed belongs to the caller */
};

void pl_gemm_state_free(pl_gemm_state *state) {
    if (state == NULL) return;
    if (!state->moved) pl_free(state->packed);
    pl_free(state);
}

size_t pl_gemm_state_bytes(const pl_gemm_state *state) {
    return state == NULL ? 0 : state->n_bytes;
}

void pl_gemm_state_move(pl_gemm_state *state, void *to) {
    memcpy(to, state->packed, state->n_bytes);
    if (!state->moved) pl_free(state->packed);
    state->packed = to;
    state->moved = true;
}

/* Merges a batch with one shared B into one tall matrix A. */
static void fold_batch(pl_gemm_shape *s) {
    if (s->batch <= 1 || s->trans_a || s->stride_b != 0 || s->offsets_a || s->offsets_b) return;
    if (s->stride_a != s->m * s->lda || s->stride_c != s->m * s->ldc) return;
    int64_t m;
    if (!pl_i64_mul(s->m, s->batch, &m)) return;
    s->m = m;
    s->batch = 1;
}

static bool state_matches(const pl_gemm_state *st, const pl_gemm_shape *s, const void *b,
                          size_t elem_bytes) {
    return st->by == s->by && st->b == b && st->k == s->k && st->n == s->n && st->ldb == s->ldb &&
           st->trans_b == s->trans_b && st->elem_bytes == elem_bytes;
}

/* Packing pays off if every call would pack B anyway: more rows than the direct paths take. */
static bool state_pays(const pl_gemm_shape *s, int64_t mr) {
    const bool shared = s->batch == 1 || (s->stride_b == 0 && s->offsets_b == NULL);
    return shared && s->n > 0 && s->k > 0 && (s->trans_b ? s->m > 1 : s->m > 3 * mr);
}

/* A new empty state for this B, with room for the packed copy, in *slot. */
static pl_status state_renew(pl_gemm_state **slot, const pl_gemm_shape *s, const void *b,
                             size_t elem_bytes, int64_t size, pl_err *err) {
    pl_gemm_state_free(*slot);
    *slot = NULL;
    pl_gemm_state *st = pl_calloc(1, sizeof *st);
    if (st == NULL) return pl_fail_memory(err, sizeof *st);
    *st = (pl_gemm_state){ .by = s->by, .b = b, .k = s->k, .n = s->n, .ldb = s->ldb };
    st->trans_b = s->trans_b;
    st->elem_bytes = elem_bytes;
    st->n_bytes = (size_t)size * elem_bytes;
    st->packed = pl_large_alloc(st->n_bytes);
    if (st->packed == NULL) {
        pl_free(st);
        return pl_fail_memory(err, (size_t)size * elem_bytes);
    }
    *slot = st;
    return PL_OK;
}

/* Run products in parallel if there are many or they are small; else use all threads for each. */
static bool batch_is_parallel(const pl_gemm_shape *s, pl_pool *pool) {
    const double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    return s->batch > 1 && pl_pool_threads(pool) > 1 &&
           (s->batch >= 2 * pl_pool_threads(pool) || flops < 4e6);
}

/* ---- other providers ---- */

/* How one product is split into parts that run in parallel. Depends only on the shape, since the
 * bits of a library's product may depend on the size of the call. */
typedef struct pl_gemm_cut {
    bool rows; /* false: split by columns */
    int64_t step, parts;
} pl_gemm_cut;

enum { PARTS_MAX = 8, PART_ALIGN = 32 };

static pl_gemm_cut cut_of(const pl_gemm_shape *s) {
    const double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    pl_gemm_cut cut = { .rows = s->m > s->n, .parts = 1 };
    const int64_t total = cut.rows ? s->m : s->n;
    if (s->batch < PARTS_MAX && flops > 4e6) cut.parts = flops < 1.6e7 ? 2 : PARTS_MAX;
    cut.step = pl_div_up(pl_div_up(total, cut.parts), PART_ALIGN) * PART_ALIGN;
    cut.parts = pl_div_up(total, cut.step);
    return cut;
}

static bool is_aligned(const void *p, size_t bytes) {
    return (uintptr_t)p % bytes == 0;
}

/* Lowest offset: a batch in reverse order starts with its last matrix, and the others are before
 * it. */
static int64_t lowest(const pl_gemm_shape *s, const int64_t *offsets) {
    int64_t low = 0;
    for (int64_t i = 0; offsets != NULL && i < s->batch; i++)
        low = pl_i64_min(low, offsets[i]);
    return low;
}

/* Elements from the start of a batch of matrices to the end of its last. */
static int64_t reach(const pl_gemm_shape *s, const int64_t *offsets, int64_t stride, int64_t rows,
                     int64_t cols, int64_t ld) {
    int64_t last = (s->batch - 1) * stride;
    for (int64_t i = 0; offsets != NULL && i < s->batch; i++)
        last = i == 0 ? offsets[0] : pl_i64_max(last, offsets[i]);
    return last + (rows - 1) * ld + cols;
}

#define S(name) name##_f32
#define T float
#define E pl_f32
#include "kernels/gemm/gemm_batch.inc"
#undef S
#undef T
#undef E
#define S(name) name##_f64
#define T double
#define E pl_f64
#include "kernels/gemm/gemm_batch.inc"
