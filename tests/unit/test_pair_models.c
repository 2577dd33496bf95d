/* Pairing on real models: every name replaced by a random string and the nodes reordered.
 *
 * Models of .cache/models are used when they are there; PLUMB_TEST_MODELS=all takes every one of
 * them and prints the table. */
#include "pair_models.h"

#include <dirent.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pair_renamed(const char *path, const char *name) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_pair_side a, b;
    pl_pairing p;
    pl_arena *arena = pl_arena_new();
    pm_check(pl_model_read(path, &model, &err), &err);
    pm_renamed r = pm_rename(model, 42);
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(r.model, arena, &b, &err), &err);
    const double t0 = seconds();
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    const double t1 = seconds();
    const bool verbose = getenv("PLUMB_TEST_MODELS") != NULL;
    const pm_score s = pm_score_of(&p, &a, &b, &r, verbose);
    if (verbose)
        printf("%-20s %6zu values, %6zu right (%.2f %%), %zu wrong, %.3f s\n", name, s.n_items,
               s.n_right, 100 * s.right, s.n_wrong, t1 - t0);
    assert_int_equal(s.n_wrong, 0);
    assert_true(s.right >= 0.98);
    pl_pairing_release(&p);
    pm_renamed_free(&r);
    pl_model_free(model);
    pl_arena_free(arena);
}

static void test_all(void **state) {
    (void)state;
    for (int i = 1; i < 100; i++) {
        char key[32];
        snprintf(key, sizeof key, "M%d", i);
        const char *path = getenv(key);
        if (path == NULL) break;
        pair_renamed(path, strrchr(path, '/') + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
