/* Groups: by signature, split by what a repro shows on other backends, joined over versions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka comes last */
#include <cmocka.h>

#include "flows/corpus/corpus_result.h"

enum { MAX = 16 };

static pl_corpus_case case_of(const char *key, const char *model, const char *backend,
                              const char *op, const char *pass) {
    return (pl_corpus_case){ .key = key,
                             .model = model,
                             .backend = backend,
                             .data = "",
                             .status = PL_ITEM_DIVERGED,
                             .step = "",
                             .reason = "",
                             .blamed = "",
                             .version = "",
                             .bug = { .kind = "divergence",
                                      .op = op,
                                      .attrs = "",
                                      .dtypes = "float>float",
                                      .pass = pass,
                                      .message = "",
                                      .ops = op,
                                      .edges = "" },
                             .has_repro = true,
                             .verified = true,
                             .repro_nodes = 1 };
}

typedef struct fixture {
    pl_corpus corpus;
    pl_corpus_case cases[MAX];
    const char *backends[2], *versions[2];
    const char *other;               /* instead of "ort:old" */
    const char *const (*answers)[2]; /* of repro k on a backend, by the digit that a key ends in */
} fixture;

static const char *probe(void *ctx, const char *key, size_t backend) {
    const fixture *f = ctx;
    return f->answers[key[strlen(key) - 1] - '0'][backend];
}

static void group(fixture *f, size_t n, const char *const (*answers)[2]) {
    f->backends[0] = f->other != NULL ? f->other : "ort:old";
    f->backends[1] = "ort:new";
    f->versions[0] = "1.9.0";
    f->versions[1] = "1.10.0";
    f->answers = answers;
    f->corpus = (pl_corpus){ .arena = pl_arena_new(),
                             .cases = f->cases,
                             .n_cases = n,
                             .backends = f->backends,
                             .n_backends = 2,
                             .versions = f->versions };
    assert_non_null(f->corpus.arena);
    assert_int_equal(pl_corpus_group_cases(&f->corpus, probe, f, NULL), PL_OK);
}

static void test_group__one_signature_is_one_group(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "passes", "fails" }, { "passes", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:new", "Relu", ""),
                             case_of("k1", "b", "ort:new", "Relu", "") } };
    group(&f, 2, answers);
    assert_int_equal(f.corpus.n_groups, 1);
    assert_int_equal(f.corpus.groups[0].n_cases, 2);
    assert_int_equal(f.corpus.groups[0].n_confirmed, 2);
    assert_int_equal(f.corpus.groups[0].n_models, 2);
    assert_string_equal(f.corpus.groups[0].first_bad, "1.10.0"); /* 10 is more than 9 */
    assert_string_equal(f.corpus.groups[0].last_good, "1.9.0");
    pl_arena_free(f.corpus.arena);
}

static void test_group__a_repro_that_passes_elsewhere_splits(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "fails", "passes" }, { "passes", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:old", "Relu", ""),
                             case_of("k1", "b", "ort:new", "Relu", "") } };
    group(&f, 2, answers);
    assert_int_equal(f.corpus.n_groups, 2);
    assert_int_not_equal(f.cases[0].group, f.cases[1].group);
    assert_string_not_equal(f.corpus.groups[0].id, f.corpus.groups[1].id);
    pl_arena_free(f.corpus.arena);
}

static void test_group__other_operators_or_passes_are_apart(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "fails", "fails" },
                                              { "fails", "fails" },
                                              { "fails", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:new", "Relu", "X"),
                             case_of("k1", "b", "ort:new", "Relu", "Y"),
                             case_of("k2", "c", "ort:new", "Add", "X") } };
    group(&f, 3, answers);
    assert_int_equal(f.corpus.n_groups, 3);
    pl_arena_free(f.corpus.arena);
}

/* An older version cannot tell the pass: the same model joins them, another model does not when its
 * repro has other operators. */
static void test_group__versions_of_one_model_join(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "fails", "fails" },
                                              { "fails", "fails" },
                                              { "fails", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:new", "Add", "Fusion"),
                             case_of("k1", "a", "ort:old", "Add", ""),
                             case_of("k2", "b", "ort:old", "Add", "") } };
    f.cases[2].bug.ops = "Add Conv";
    group(&f, 3, answers);
    assert_int_equal(f.corpus.n_groups, 2);
    assert_int_equal(f.cases[0].group, f.cases[1].group);
    assert_int_not_equal(f.cases[0].group, f.cases[2].group);
    assert_string_equal(f.corpus.groups[f.cases[0].group - 1].bug.pass, "Fusion");
    pl_arena_free(f.corpus.arena);
}

/* A model that a version cannot load fails with any of its nodes. */
static void test_group__an_error_that_says_the_same_is_one_group(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "fails", "passes" }, { "fails", "passes" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:old", "", ""),
                             case_of("k1", "b", "ort:old", "", "") } };
    for (int i = 0; i < 2; i++) {
        f.cases[i].bug.kind = "compile error";
        f.cases[i].bug.message = "Unsupported model IR version";
        f.cases[i].bug.ops = i == 0 ? "AveragePool" : "Neg";
    }
    group(&f, 2, answers);
    assert_int_equal(f.corpus.n_groups, 1);
    f.cases[1].bug.message = ""; /* nothing said: the operators tell them apart */
    pl_arena_free(f.corpus.arena);
    group(&f, 2, answers);
    assert_int_equal(f.corpus.n_groups, 2);
    pl_arena_free(f.corpus.arena);
}

/* An optimiser removed a value, and the error shows an operation later. */
static void test_group__a_repro_that_contains_another_joins_it(void **state) {
    (void)state;
    static const char *const alike[][2] = { { "fails", "passes" }, { "fails", "passes" } };
    static const char *const apart[][2] = { { "fails", "passes" }, { "passes", "fails" } };
    static const char *const everywhere[][2] = { { "fails", "fails" }, { "fails", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:old", "Cast", ""),
                             case_of("k1", "b", "ort:old", "Neg", "") } };
    f.cases[1].bug.ops = "Cast Neg";
    f.cases[1].repro_nodes = 2;
    group(&f, 2, alike);
    assert_int_equal(f.corpus.n_groups, 1);
    assert_string_equal(f.corpus.groups[0].bug.op, "Cast");
    assert_int_equal(f.corpus.groups[0].n_cases, 2);
    pl_arena_free(f.corpus.arena);
    group(&f, 2, apart);
    assert_int_equal(f.corpus.n_groups, 2);
    pl_arena_free(f.corpus.arena);
    group(&f, 2, everywhere); /* tells nothing */
    assert_int_equal(f.corpus.n_groups, 2);
    pl_arena_free(f.corpus.arena);
    f.cases[1].bug.ops = "CastLike Neg";
    group(&f, 2, alike);
    assert_int_equal(f.corpus.n_groups, 2);
    pl_arena_free(f.corpus.arena);
    /* The same operators, but the other way round. */
    f.cases[0].bug.ops = f.cases[1].bug.ops = "Cast Neg";
    f.cases[0].bug.edges = "Cast>Neg";
    f.cases[1].bug.edges = "Cast>Neg Neg>Cast";
    f.cases[0].repro_nodes = 2;
    f.cases[1].repro_nodes = 3;
    group(&f, 2, alike);
    assert_int_equal(f.corpus.n_groups, 1);
    pl_arena_free(f.corpus.arena);
    f.cases[1].bug.edges = "Cast>Cast Neg>Cast";
    group(&f, 2, alike);
    assert_int_equal(f.corpus.n_groups, 2);
    pl_arena_free(f.corpus.arena);
    /* The same operator with and without its bias. */
    f.cases[1].bug = f.cases[0].bug;
    f.cases[1].repro_nodes = f.cases[0].repro_nodes;
    f.cases[0].bug.dtypes = "float,float>float";
    f.cases[1].bug.dtypes = "float,float,float>float";
    group(&f, 2, alike);
    assert_int_equal(f.corpus.n_groups, 1);
    pl_arena_free(f.corpus.arena);
    f.cases[1].bug.dtypes = "float,double,float>float";
    group(&f, 2, alike);
    assert_int_equal(f.corpus.n_groups, 2);
    pl_arena_free(f.corpus.arena);
}

/* jit 0.1.0 is no earlier version of ONNX Runtime. */
static void test_group__versions_are_of_one_runtime(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "passes", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:new", "Cast", "") }, .other = "jit" };
    group(&f, 1, answers);
    assert_string_equal(f.corpus.groups[0].first_bad, "1.10.0");
    assert_string_equal(f.corpus.groups[0].last_good, "");
    pl_arena_free(f.corpus.arena);
}

static void test_group__what_agrees_has_none(void **state) {
    (void)state;
    static const char *const answers[][2] = { { "fails", "fails" } };
    fixture f = { .cases = { case_of("k0", "a", "ort:new", "Add", "") } };
    f.cases[0].status = PL_ITEM_AGREE;
    group(&f, 1, answers);
    assert_int_equal(f.corpus.n_groups, 0);
    assert_int_equal(f.cases[0].group, 0);
    pl_arena_free(f.corpus.arena);
}

static void test_message__names_and_numbers_go(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    assert_string_equal(
        pl_message_shape(arena, "node 'conv_12' of /tmp/x/m.onnx:  got 3, expected 4"),
        pl_message_shape(arena, "node 'a' of /home/y.onnx: got 17, expected 128"));
    assert_string_not_equal(pl_message_shape(arena, "no kernel for Conv"),
                            pl_message_shape(arena, "no kernel for Gemm"));
    assert_string_equal(pl_message_shape(arena, ""), "");
    assert_string_equal(pl_message_shape(arena, "it's"), "it's"); /* a quote that nothing closes */
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_group__one_signature_is_one_group),
        cmocka_unit_test(test_group__a_repro_that_passes_elsewhere_splits),
        cmocka_unit_test(test_group__other_operators_or_passes_are_apart),
        cmocka_unit_test(test_group__versions_of_one_model_join),
        cmocka_unit_test(test_group__an_error_that_says_the_same_is_one_group),
        cmocka_unit_test(test_group__a_repro_that_contains_another_joins_it),
        cmocka_unit_test(test_group__versions_are_of_one_runtime),
        cmocka_unit_test(test_group__what_agrees_has_none),
        cmocka_unit_test(test_message__names_and_numbers_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
