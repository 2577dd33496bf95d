/* The scheduling core: every item once, longest first, deaths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "flows/corpus/schedule.h"
/* cmocka comes last */
#include <cmocka.h>

enum { N = 500, WORKERS = 7 };

static unsigned long long state;
static size_t draw(size_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (size_t)(state >> 33) % below;
}

static void test_longest_first(void **ctx) {
    static const uint64_t cost[] = { 3, 9, 1, 9, 0 };
    static const size_t expected[] = { 1, 3, 0, 2, 4 };
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, cost, NULL, 5, 1, 0));
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(pl_schedule_next(&s, 0), expected[i]);
        assert_int_equal(pl_schedule_next(&s, 0), expected[i]); /* still running */
        assert_false(pl_schedule_is_over(&s));
        assert_int_equal(pl_schedule_done(&s, 0, 0), expected[i]);
    }
    assert_int_equal(pl_schedule_next(&s, 0), PL_SCHEDULE_NONE);
    assert_int_equal(pl_schedule_done(&s, 0, 0), PL_SCHEDULE_NONE);
    assert_true(pl_schedule_is_over(&s));
    pl_schedule_release(&s);
}

static void test_given_order_and_nothing(void **ctx) {
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, NULL, NULL, 3, 2, 0));
    assert_int_equal(pl_schedule_next(&s, 1), 0);
    assert_int_equal(pl_schedule_next(&s, 0), 1);
    assert_int_equal(pl_schedule_next(&s, 2), PL_SCHEDULE_NONE); /* not a worker */
    pl_schedule_release(&s);
    assert_true(pl_schedule_init(&s, NULL, NULL, 0, 0, 0));
    assert_true(pl_schedule_is_over(&s));
    pl_schedule_release(&s);
}

/* Workers that work, end and die at random: each item is done exactly once, or dropped at its
 * second death. */
static void one_life(unsigned max_deaths) {
    unsigned n_done[N] = { 0 }, n_deaths[N] = { 0 };
    size_t n_dropped = 0;
    pl_schedule s;
    assert_true(pl_schedule_init(&s, NULL, NULL, N, WORKERS, max_deaths));
    for (int steps = 0; !pl_schedule_is_over(&s); steps++) {
        const size_t w = draw(WORKERS);
        bool dropped = false;
        assert_true(steps < 1000000);
        if (s.running[w] == PL_SCHEDULE_NONE) {
            (void)pl_schedule_next(&s, w);
        } else if (draw(4) > 0) {
            n_done[pl_schedule_done(&s, w, draw(100))]++;
        } else {
            const size_t item = pl_schedule_died(&s, w, &dropped);
            n_deaths[item]++;
            n_dropped += dropped;
            if (dropped) assert_int_equal(n_deaths[item], max_deaths);
        }
    }
    for (size_t i = 0; i < N; i++) {
        const bool was_dropped = max_deaths > 0 && n_deaths[i] == max_deaths;
        assert_int_equal(n_done[i], was_dropped ? 0 : 1);
    }
    assert_int_equal(s.n_dropped, n_dropped);
    assert_int_equal(s.n_running, 0);
    assert_true(max_deaths == 0 ? n_dropped == 0 : n_dropped > 0);
    pl_schedule_release(&s);
}

static void test_deaths(void **ctx) {
    bool dropped = true;
    pl_schedule s;
    (void)ctx;
    for (state = 1; state < 40; state++) {
        const unsigned long long seed = state;
        one_life(0);
        one_life(2);
        state = seed;
    }
    assert_true(pl_schedule_init(&s, NULL, NULL, 2, 2, 2));
    assert_int_equal(pl_schedule_next(&s, 0), 0);
    assert_int_equal(pl_schedule_died(&s, 0, &dropped), 0);
    assert_false(dropped);
    assert_int_equal(pl_schedule_died(&s, 0, &dropped), PL_SCHEDULE_NONE);
    assert_int_equal(pl_schedule_next(&s, 1), 0); /* before what nobody has tried */
    assert_int_equal(pl_schedule_died(&s, 1, &dropped), 0);
    assert_true(dropped);
    assert_int_equal(pl_schedule_next(&s, 1), 1);
    pl_schedule_release(&s);
}

/* Two families, 7 {0, 2, 4} and 9 {1, 3}, and 5 alone. 1 takes 2, so 3 sinks below all others; 2
 * takes 8, so 0 and 4 do, but stay above 5. */
static void test_families(void **ctx) {
    static const uint64_t cost[] = { 10, 30, 20, 30, 10, 5 };
    static const size_t family[] = { 7, 9, 7, 9, 7, 0 };
    static const size_t expected[] = { 1, 2, 0, 4, 5, 3 }, took[] = { 2, 8, 1, 8, 2, 2 };
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, cost, family, 6, 1, 0));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pl_schedule_next(&s, 0), expected[i]);
        assert_int_equal(pl_schedule_done(&s, 0, took[i]), expected[i]);
    }
    assert_true(pl_schedule_is_over(&s));
    pl_schedule_release(&s);
}

/* A second one that is longer raises the others above a family that was ahead. */
static void test_a_longer_sibling_raises(void **ctx) {
    static const uint64_t cost[] = { 9, 9, 9, 4, 4, 4 };
    static const size_t family[] = { 0, 0, 0, 1, 1, 1 };
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, cost, family, 6, 2, 0));
    assert_int_equal(pl_schedule_next(&s, 0), 0);
    assert_int_equal(pl_schedule_next(&s, 1), 1);
    assert_int_equal(pl_schedule_done(&s, 0, 2), 0); /* 2 is now thought to take 2 */
    assert_int_equal(pl_schedule_next(&s, 0), 3);
    assert_int_equal(pl_schedule_done(&s, 0, 3), 3);
    assert_int_equal(pl_schedule_done(&s, 1, 50), 1);
    assert_int_equal(s.items[2].cost, 50);
    assert_int_equal(pl_schedule_next(&s, 0), 2);
    assert_int_equal(pl_schedule_next(&s, 1), 4);
    pl_schedule_release(&s);
}

static void test_shards_share_the_long_ones(void **ctx) {
    static const size_t expected[] = { 0, 1, 2, 2, 1, 0, 0, 1, 2 };
    (void)ctx;
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(pl_schedule_shard(i, 3), expected[i]);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(pl_schedule_shard(i, 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_first),
        cmocka_unit_test(test_given_order_and_nothing),
        cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_a_longer_sibling_raises),
        cmocka_unit_test(test_shards_share_the_long_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
