/* Strided copies against the plainest loop there is, for all element sizes, with and without
 * threads. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include "base/repeat.h"
#include "base/rng.h"
#include "ops/lib/move.h"

static void move_plainly(const pl_move *m, size_t size, const char *from, char *to) {
    int64_t n = 1;
    for (int d = 0; d < m->rank; d++)
        n *= m->dims[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, f = 0, t = 0;
        for (int d = m->rank - 1; d >= 0; d--) {
            f += rest % m->dims[d] * m->from[d];
            t += rest % m->dims[d] * m->to[d];
            rest /= m->dims[d];
        }
        memcpy(to + t * (int64_t)size, from + f * (int64_t)size, size);
    }
}

static uint64_t counter;

static int64_t draw(int64_t low, int64_t high) {
    const uint64_t word = pl_rng_at(11, 0, counter++);
    return low + (int64_t)(word % (uint64_t)(high - low + 1));
}

/* A random permutation of a contiguous source, some dims repeated (0) or reversed. */
static int64_t make_move(pl_move *m, int rank, int64_t dim_max, int64_t *n_from, int64_t *n_to) {
    int order[6];
    int64_t strides[6], offset = 0;
    memset(m, 0, sizeof(*m));
    m->rank = rank;
    *n_from = *n_to = 1;
    for (int d = 0; d < rank; d++) {
        order[d] = d;
        m->dims[d] = draw(1, dim_max);
    }
    for (int d = rank - 1; d > 0; d--) {
        const int64_t k = draw(0, d);
        const int swap = order[d];
        order[d] = order[k];
        order[k] = swap;
    }
    for (int k = rank - 1; k >= 0; k--) {
        strides[order[k]] = *n_from;
        *n_from *= m->dims[order[k]];
    }
    for (int d = rank - 1; d >= 0; d--) {
        m->to[d] = *n_to;
        *n_to *= m->dims[d];
        m->from[d] = strides[d];
        const int64_t way = draw(0, 9);
        if (way == 0) m->from[d] = 0;
        if (way == 1) {
            m->from[d] = -strides[d];
            offset += strides[d] * (m->dims[d] - 1);
        }
    }
    return offset;
}

static void check_moves(int rank, int64_t dim_max, int n_times, pl_pool *pool) {
    static const size_t sizes[] = { 1, 2, 4, 8, 16, 12 };
    for (int i = 0; i < n_times; i++) {
        pl_move m;
        int64_t n_from = 0, n_to = 0;
        const size_t size = sizes[i % 6];
        const int64_t offset = make_move(&m, rank, dim_max, &n_from, &n_to);
        char *from = malloc((size_t)n_from * size);
        char *want = calloc((size_t)n_to, size), *have = calloc((size_t)n_to, size);
        for (size_t k = 0; k < (size_t)n_from * size; k++)
            from[k] = (char)pl_rng_at(5, 1, k);
        const char *start = from + offset * (int64_t)size;
        move_plainly(&m, size, start, want);
        pl_move_run(pool, &m, size, start, have);
        assert_memory_equal(want, have, (size_t)n_to * size);
        free(from);
        free(want);
        free(have);
    }
}

static void test_move__agrees_with_plain_loop(void **state) {
    (void)state;
    for (int rank = 0; rank <= 5; rank++)
        check_moves(rank, 5, 120, NULL);
    check_moves(2, 70, 120, NULL);
    check_moves(3, 40, 60, NULL);
}

static void test_move__agrees_with_threads(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(4);
    check_moves(2, 700, 24, pool);
    check_moves(3, 80, 24, pool);
    pl_pool_free(pool);
}

static void test_move__ignores_empty_dims(void **state) {
    (void)state;
    char to[4] = "abc";
    const pl_move m = { .rank = 2, .dims = { 3, 0 }, .from = { 1, 1 }, .to = { 1, 1 } };
    pl_move_run(NULL, &m, 1, "xyz", to);
    assert_string_equal(to, "abc");
}

static void test_fill__fills_every_size(void **state) {
    (void)state;
    static const size_t sizes[] = { 1, 2, 4, 8, 16 };
    const char element[17] = "0123456789abcdef";
    for (size_t i = 0; i < 5; i++) {
        char to[16 * 7 + 1] = { 0 };
        pl_fill(to, element, sizes[i], 7);
        for (size_t k = 0; k < 7; k++)
            assert_memory_equal(to + k * sizes[i], element, sizes[i]);
        assert_int_equal(to[7 * sizes[i]], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_move__agrees_with_plain_loop),
        cmocka_unit_test(test_move__agrees_with_threads),
        cmocka_unit_test(test_move__ignores_empty_dims),
        cmocka_unit_test(test_fill__fills_every_size),
    };
    return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
