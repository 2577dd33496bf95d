/* The scheduling core: every item once, longest first, deaths. */
#include <math.h>
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
        assert_int_equal(pl_schedule_done(&s, 0, 0, false), expected[i]);
    }
    assert_int_equal(pl_schedule_next(&s, 0), PL_SCHEDULE_NONE);
    assert_int_equal(pl_schedule_done(&s, 0, 0, false), PL_SCHEDULE_NONE);
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

/* The queues hold what waits, in order, and `waiting` is its cost. */
static void check_queues(const pl_schedule *s) {
    double sum = 0;
    for (size_t k = 0; k < PL_SCHEDULE_STEPS; k++) {
        const pl_schedule_queue *q = &s->queues[k];
        for (size_t i = 0; i < q->n; i++) {
            const pl_schedule_item *x = &s->items[q->items[i]],
                                   *up = &s->items[q->items[i == 0 ? 0 : (i - 1) / 2]];
            sum += x->cost;
            assert_int_equal(x->place, i);
            assert_int_equal(x->queue, k);
            assert_true(i == 0 || up->rank > x->rank ||
                        (up->rank == x->rank && up->cost >= x->cost));
        }
    }
    assert_true(fabs(sum - s->waiting) <= 1e-9 * (1 + sum) * (double)N);
}

/* Workers that work, end and die at random: each item is done exactly once, after all its steps, or
 * dropped at its second death. */
static void one_life(unsigned max_deaths, bool learns) {
    unsigned n_done[N] = { 0 }, n_deaths[N] = { 0 }, n_steps[N];
    size_t n_dropped = 0, family[N];
    uint64_t cost[N];
    pl_schedule s;
    for (size_t i = 0; i < N; i++) {
        n_steps[i] = 1 + (unsigned)draw(4); /* more than the core knows */
        family[i] = draw(40);
        cost[i] = draw(1000);
    }
    assert_true(pl_schedule_init(&s, cost, learns ? family : NULL, N, WORKERS, max_deaths));
    for (size_t i = 0; i < N; i += 9)
        pl_schedule_know(&s, i, draw(1000));
    for (size_t i = 3; i < N; i += 7)
        pl_schedule_begin_at(&s, i, 1 + (unsigned)draw(3), draw(100));
    for (int steps = 0; !pl_schedule_is_over(&s); steps++) {
        const size_t w = draw(WORKERS);
        bool dropped = false;
        assert_true(steps < 1000000);
        if (steps % 50 == 0) check_queues(&s);
        if (s.running[w] == PL_SCHEDULE_NONE) {
            (void)pl_schedule_next(&s, w);
        } else if (draw(4) > 0) {
            const bool more = --n_steps[s.running[w]] > 0;
            n_done[pl_schedule_done(&s, w, draw(100), more)] += !more;
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
        assert_true(was_dropped || n_steps[i] == 0);
    }
    assert_int_equal(s.n_dropped, n_dropped);
    assert_int_equal(s.n_running, 0);
    assert_true(fabs(s.waiting) < 1e-3);
    assert_true(max_deaths == 0 ? n_dropped == 0 : n_dropped > 0);
    pl_schedule_release(&s);
}

static void test_deaths(void **ctx) {
    bool dropped = true;
    pl_schedule s;
    (void)ctx;
    for (state = 1; state < 40; state++) {
        const unsigned long long seed = state;
        one_life(0, true);
        one_life(2, true);
        one_life(2, false);
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

/* Two families, 0 {0, 1, 2} and 1 {3, 4, 5}, all with the same estimate. The first look of family 1
 * takes four times as long as that of family 0, so the others of family 1 are next. */
static void test_families(void **ctx) {
    static const uint64_t cost[] = { 100, 100, 100, 100, 100, 100 };
    static const size_t family[] = { 0, 0, 0, 1, 1, 1 };
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, cost, family, 6, 2, 0));
    assert_int_equal(pl_schedule_next(&s, 0), 0);
    assert_int_equal(pl_schedule_done(&s, 0, 100, false), 0);
    assert_int_equal(pl_schedule_next(&s, 0), 3); /* 1 and 2 have not failed at their look */
    assert_int_equal(pl_schedule_done(&s, 0, 400, false), 3);
    assert_true(s.items[4].cost > 1.9 * s.items[1].cost);
    assert_int_equal(pl_schedule_next(&s, 0), 4);
    assert_int_equal(pl_schedule_next(&s, 1), 5);
    pl_schedule_release(&s);
}

/* All looks, then the analyses, then the last steps, each longest first. */
static void test_steps_in_breadth(void **ctx) {
    enum { MANY = 40 };
    uint64_t cost[MANY];
    size_t family[MANY];
    unsigned step[MANY] = { 0 }, last = 0;
    pl_schedule s;
    (void)ctx;
    for (size_t i = 0; i < MANY; i++) {
        cost[i] = 100;
        family[i] = i;
    }
    assert_true(pl_schedule_init(&s, cost, family, MANY, 1, 0));
    for (size_t i = 0; i < 3 * MANY; i++) {
        const size_t item = pl_schedule_next(&s, 0);
        assert_true(step[item] >= last || i > 3 * MANY - 10); /* the last ones may be urgent */
        last = step[item];
        pl_schedule_done(&s, 0, 100 + item, step[item] < 2);
        step[item]++;
    }
    assert_true(pl_schedule_is_over(&s));
    pl_schedule_release(&s);
}

/* Its look took as long as everything that waits, and so will its analysis: it does not wait for
 * the other looks. */
static void test_what_is_urgent_goes_first(void **ctx) {
    static const uint64_t cost[] = { 100, 10, 10, 10, 10, 10 };
    static const size_t family[] = { 0, 1, 2, 3, 4, 5 };
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, cost, family, 6, 3, 0));
    assert_int_equal(pl_schedule_next(&s, 0), 0);
    assert_int_equal(pl_schedule_done(&s, 0, 100, true), 0);
    assert_int_equal(pl_schedule_next(&s, 0), 0);
    assert_int_equal(pl_schedule_done(&s, 0, 1, true), 0); /* it was short: the last step waits */
    assert_int_equal(pl_schedule_next(&s, 0), 1);
    pl_schedule_release(&s);
}

/* Of an earlier run: longest first by what is left, whatever the step. */
static void test_known_costs(void **ctx) {
    static const uint64_t cost[] = { 5, 5, 5, 5 };
    static const size_t family[] = { 0, 0, 0, 0 };
    pl_schedule s;
    (void)ctx;
    assert_true(pl_schedule_init(&s, cost, family, 4, 1, 0));
    pl_schedule_know(&s, 2, 1000);
    pl_schedule_know(&s, 3, 700);
    assert_int_equal(pl_schedule_next(&s, 0), 2);
    assert_int_equal(pl_schedule_done(&s, 0, 100, true), 2); /* 900 are left */
    assert_int_equal(pl_schedule_next(&s, 0), 2);
    assert_int_equal(pl_schedule_done(&s, 0, 300, true), 2); /* 600 */
    assert_int_equal(pl_schedule_next(&s, 0), 3);
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
        cmocka_unit_test(test_longest_first),    cmocka_unit_test(test_given_order_and_nothing),
        cmocka_unit_test(test_deaths),           cmocka_unit_test(test_families),
        cmocka_unit_test(test_steps_in_breadth), cmocka_unit_test(test_what_is_urgent_goes_first),
        cmocka_unit_test(test_known_costs),      cmocka_unit_test(test_shards_share_the_long_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
