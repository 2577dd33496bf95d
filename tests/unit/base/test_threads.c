/* The thread pool. Worth running under ThreadSanitizer. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/threads.h"

enum { N = 10007 };

typedef struct visit {
    int seen[N]; /* plain: a block that is handed out twice is a race or a wrong count */
    int64_t grain;
    atomic_int bad_blocks;
} visit;

static void visit_block(void *ctx, int64_t begin, int64_t end) {
    visit *v = ctx;
    if (begin % v->grain != 0 || (end - begin != v->grain && end != N)) v->bad_blocks++;
    for (int64_t i = begin; i < end; i++)
        v->seen[i]++;
}

static void assert_covers(pl_pool *pool, int64_t grain) {
    visit *v = pl_calloc(1, sizeof *v);
    v->grain = grain;
    pl_pool_for(pool, N, grain, visit_block, v);
    for (int i = 0; i < N; i++)
        if (v->seen[i] != 1) fail_msg("grain %d: %d seen %d times", (int)grain, i, v->seen[i]);
    assert_int_equal(v->bad_blocks, 0);
    pl_free(v);
}

static void test_pool_for__covers_each_index_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        pl_pool *pool = pl_pool_new(threads);
        assert_non_null(pool);
        assert_int_equal(pl_pool_threads(pool), threads);
        for (int64_t grain = 1; grain < 20000; grain = grain * 3 + 1)
            assert_covers(pool, grain);
        pl_pool_free(pool);
    }
    assert_covers(NULL, 100);
}

static void count_call(void *ctx, int64_t begin, int64_t end) {
    (void)begin;
    (void)end;
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void test_pool_for__handles_edge_sizes(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(3);
    atomic_int calls = 0;
    pl_pool_for(pool, 0, 1, count_call, &calls);
    pl_pool_for(pool, -5, 1, count_call, &calls);
    assert_int_equal(calls, 0);
    pl_pool_for(pool, 7, 7, count_call, &calls);
    assert_int_equal(calls, 1);
    pl_pool_for(pool, INT64_MAX, INT64_MAX / 3, count_call, &calls);
    assert_int_equal(calls, 1 + 4);
    pl_pool_for(pool, 4, 0, count_call, &calls); /* a grain below 1 is 1 */
    assert_int_equal(calls, 5 + 4);
    pl_pool_free(pool);
    pl_pool_free(NULL);
}

static void test_pool__counts_threads(void **state) {
    (void)state;
    assert_int_equal(pl_pool_threads(NULL), 1);
    pl_pool *pool = pl_pool_new(0);
    assert_true(pl_pool_threads(pool) >= 1);
    pl_pool_free(pool); /* never used: no thread was started */
    pool = pl_pool_new(-3);
    assert_true(pl_pool_threads(pool) >= 1);
    pl_pool_free(pool);
}

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t both;
    int n_here;
} meeting;

/* Each block waits until two are running at once: done only if two threads work. */
static void meet(void *ctx, int64_t begin, int64_t end) {
    meeting *m = ctx;
    (void)begin;
    (void)end;
    pthread_mutex_lock(&m->lock);
    m->n_here++;
    pthread_cond_broadcast(&m->both);
    while (m->n_here < 2)
        pthread_cond_wait(&m->both, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

static void test_pool_for__really_uses_a_second_thread(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(2);
    for (int i = 0; i < 50; i++) {
        meeting m = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
        pl_pool_for(pool, 2, 1, meet, &m);
        assert_int_equal(m.n_here, 2);
    }
    pl_pool_free(pool);
}

typedef struct late {
    pthread_t caller;
    meeting m;
    int done[2];
} late;

/* The caller is through at once, the worker a good while after both have begun. */
static void finish_late(void *ctx, int64_t begin, int64_t end) {
    late *l = ctx;
    meet(&l->m, begin, end);
    if (!pthread_equal(pthread_self(), l->caller)) usleep(30000);
    l->done[begin] = 1;
}

static void test_pool_for__waits_for_the_last_block(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(2);
    for (int i = 0; i < 3; i++) {
        late l = { pthread_self(),
                   { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 },
                   { 0, 0 } };
        pl_pool_for(pool, 2, 1, finish_late, &l);
        assert_true(l.done[0] && l.done[1]);
    }
    pl_pool_free(pool);
}

typedef struct nest {
    pl_pool *pool, *other;
    int64_t sums[16];
    bool wrong_thread[16];
} nest;

typedef struct inner {
    int64_t *sum;
    pthread_t owner;
    bool *wrong;
} inner;

static void add_range(void *ctx, int64_t begin, int64_t end) {
    inner *in = ctx;
    if (!pthread_equal(pthread_self(), in->owner)) *in->wrong = true;
    usleep(1); /* time for another thread to take a block, if it could */
    for (int64_t i = begin; i < end; i++)
        *in->sum += i;
}

static void nest_block(void *ctx, int64_t begin, int64_t end) {
    nest *n = ctx;
    for (int64_t i = begin; i < end; i++) {
        inner in = { &n->sums[i], pthread_self(), &n->wrong_thread[i] };
        pl_pool_for(n->pool, 500, 10, add_range, &in);
        pl_pool_for(n->other, 500, 1, add_range, &in);
    }
}

static void test_pool_for__runs_nested_loops_inline(void **state) {
    (void)state;
    nest n = { .pool = pl_pool_new(4), .other = pl_pool_new(2) };
    pl_pool_for(n.pool, 16, 1, nest_block, &n);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(n.sums[i], 2 * 124750);
        assert_false(n.wrong_thread[i]);
    }
    assert_covers(n.pool, 10); /* the pool is parallel again afterwards */
    pl_pool_free(n.pool);
    pl_pool_free(n.other);
}

static void *cover_often(void *pool) {
    visit *v = pl_malloc(sizeof *v);
    uintptr_t bad = 0;
    for (int round = 0; round < 100; round++) {
        memset(v, 0, sizeof *v);
        v->grain = 100 + round;
        pl_pool_for(pool, N, v->grain, visit_block, v);
        for (int i = 0; i < N; i++)
            bad += v->seen[i] != 1;
        bad += (uintptr_t)v->bad_blocks;
    }
    pl_free(v);
    return (void *)bad;
}

static void test_pool_for__is_correct_from_several_threads(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(3);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, cover_often, pool), 0);
    for (int i = 0; i < 3; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_int_equal((uintptr_t)bad, 0);
    }
    pl_pool_free(pool);
}

/* Many short loops: the wake-up and late-worker paths. */
static void test_pool_for__survives_many_short_loops(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(4);
    atomic_int calls = 0;
    int want = 0;
    for (int i = 0; i < 20000; i++) {
        const int blocks = 2 + i % 7;
        pl_pool_for(pool, blocks, 1, count_call, &calls);
        want += blocks;
        assert_int_equal(calls, want);
    }
    pl_pool_free(pool);
}

static void test_pool_new__reports_out_of_memory(void **state) {
    (void)state;
    for (long n = 0; n < 2; n++) {
        pl_alloc_fail_after(n);
        pl_pool *pool = pl_pool_new(2);
        pl_alloc_fail_after(-1);
        assert_null(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_for__covers_each_index_once),
        cmocka_unit_test(test_pool_for__handles_edge_sizes),
        cmocka_unit_test(test_pool__counts_threads),
        cmocka_unit_test(test_pool_for__really_uses_a_second_thread),
        cmocka_unit_test(test_pool_for__waits_for_the_last_block),
        cmocka_unit_test(test_pool_for__runs_nested_loops_inline),
        cmocka_unit_test(test_pool_for__is_correct_from_several_threads),
        cmocka_unit_test(test_pool_for__survives_many_short_loops),
        cmocka_unit_test(test_pool_new__reports_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
