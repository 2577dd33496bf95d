/* Sessions: written, read back, shown; and what a wrong session.json says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "report/session_print.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static const double INF = (double)INFINITY;

static pl_tensor *vector(const float *x, int64_t n) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_borrow(PL_F32, 1, &n, x, NULL, NULL, &t, NULL), PL_OK);
    return t;
}

static void measure(pl_sync_point *p, const float *a, const float *r, int64_t n) {
    pl_tensor *ta = vector(a, n), *tr = vector(r, n);
    assert_int_equal(pl_accumulate(NULL, ta, tr, &p->acc, NULL), PL_OK);
    pl_tensor_unref(ta);
    pl_tensor_unref(tr);
    p->measured = true;
    p->metadata_match = true;
    p->pair_class = pl_accumulators_class(&p->acc);
    p->precision = PL_PRECISION_F32;
    p->colour = pl_metric_colour(pl_metric_find("psnr"), &p->acc, PL_PRECISION_F32, &p->limits);
    p->limits_from = "fp32";
    p->verdict = p->pair_class == PL_PAIR_EXACT ? PL_VERDICT_SAME : PL_VERDICT_MISMATCH;
    p->a = p->b = (pl_side){ .present = true,
                             .dtype = PL_F32,
                             .rank = 1,
                             .dims = { n },
                             .strides = { 1 },
                             .has_hash = true,
                             .hash = { 1, 2 },
                             .flags = 3 };
}

/* Four points: exact, off by a little, NaN on one side, unpaired. Names that every format must
 * escape. */
static pl_session *sample(void) {
    static const float ones[] = { 1, 1, 1, 1 }, near[] = { 1, 1, 1, 1.5f },
                       bad[] = { 1, (float)NAN, 1, 1 };
    static const char *const notes[] = { "a note" };
    static const char *const members[] = { "y", "z" };
    static const pl_user_metric user[] = { { "worst", "x", PL_LOWER_IS_BETTER } };
    static const double user_value[] = { 7.5 };
    pl_session *s = NULL;
    assert_int_equal(pl_session_new(&s, NULL), PL_OK);
    s->points = pl_arena_array(s->arena, 4, sizeof *s->points);
    s->n_points = 4;
    for (size_t i = 0; i < 4; i++)
        pl_sync_point_init(&s->points[i]);
    s->user_metrics = user;
    s->n_user_metrics = 1;
    measure(&s->points[0], ones, ones, 4);
    measure(&s->points[1], near, ones, 4);
    measure(&s->points[2], bad, ones, 4);
    s->points[0].value = "same";
    s->points[1].value = "near <&\"',|%\n\x1b\xff end";
    s->points[1].op = "Conv";
    s->points[1].source = "net.py:12";
    s->points[1].is_output = true;
    s->points[1].q = INF;
    s->points[1].user_metrics = user_value;
    s->points[2].value = "bad";
    s->points[2].reason = "NaN";
    s->points[3].value = "alone";
    s->points[3].verdict = PL_VERDICT_UNPAIRED;
    s->outcome = PL_OUTCOME_DIVERGED;
    s->reason = "element 3 differs";
    s->first_divergence = "near";
    static const int64_t failing[] = { 0, 2 };
    s->n_samples = 3;
    s->failing_samples = failing;
    s->n_failing_samples = 2;
    s->bisect_level = "all";
    s->bisect_pass = "NchwcTransformer";
    s->bisect_reason = "gone without it";
    s->notes = notes;
    s->n_notes = 1;
    s->blame = pl_arena_alloc(s->arena, sizeof *s->blame);
    s->n_blame = 1;
    s->blame[0] = (pl_blame_entry){ .node = "conv",
                                    .op = "Conv",
                                    .value = "near",
                                    .members = members,
                                    .n_members = 2,
                                    .kind = "offset 0.5",
                                    .where = "",
                                    .q = 40.0,
                                    .effect = (double)NAN,
                                    .score = 2.0,
                                    .reason = "q",
                                    .module = "net.conv",
                                    .source = "net.py:12" };
    s->timing = pl_arena_array(s->arena, 2, sizeof *s->timing);
    s->timing[0] = (pl_timing_entry){ "pair", 1 };
    s->timing[1] = (pl_timing_entry){ "pair", 2 };
    s->n_timing = 2;
    return s;
}

static void test_session__reads_what_it_wrote(void **state) {
    pl_buf first = PL_BUF_INIT, second = PL_BUF_INIT;
    pl_session *s = sample(), *back = NULL;
    pl_err err = PL_ERR_INIT;
    (void)state;
    pl_session_put_json(s, &first);
    if (pl_session_read(first.data, first.n_bytes, "x", &back, &err) != PL_OK)
        fail_msg("%s", err.message);
    assert_int_equal(back->n_points, 4);
    assert_memory_equal(&back->points[1].acc, &s->points[1].acc, sizeof(pl_accumulators));
    assert_true(back->points[1].q == INF);
    assert_true(isnan(back->points[0].q));
    assert_true(pl_sync_point_metric(back, &back->points[1], "worst") == 7.5);
    assert_int_equal(back->points[3].verdict, PL_VERDICT_UNPAIRED);
    assert_false(pl_sync_point_has_class(&back->points[3]));
    assert_int_equal(back->blame[0].n_members, 2);
    assert_int_equal(back->n_timing, 1);
    assert_true(back->timing[0].seconds == 3);
    pl_session_put_json(back, &second);
    assert_string_equal(first.data, second.data);
    pl_session_free(s);
    pl_session_free(back);
    pl_buf_release(&first);
    pl_buf_release(&second);
}

static void test_session__numbers_that_are_no_numbers_are_strings(void **state) {
    pl_buf out = PL_BUF_INIT;
    pl_session *s = sample();
    (void)state;
    pl_session_put_json(s, &out);
    assert_non_null(strstr(out.data, "\"q\": \"inf\""));
    assert_non_null(strstr(out.data, "\"q\": null"));
    assert_non_null(strstr(out.data, "\"psnr\": \"inf\""));
    assert_null(strstr(out.data, ": inf"));
    assert_null(strstr(out.data, ": nan"));
    pl_session_free(s);
    pl_buf_release(&out);
}

/* Replaces one text in a good session; the result must be refused with these words. */
static void refuses(const char *from, const char *to, const char *words) {
    pl_buf good = PL_BUF_INIT, bad = PL_BUF_INIT;
    pl_session *s = sample(), *back = NULL;
    pl_err err = PL_ERR_INIT;
    pl_session_put_json(s, &good);
    const char *at = strstr(strstr(good.data, "\"sync_points\""), from); /* "outputs" repeats */
    if (at == NULL) at = strstr(good.data, from);
    assert_non_null(at);
    pl_buf_append(&bad, good.data, (size_t)(at - good.data));
    pl_buf_puts(&bad, to);
    pl_buf_puts(&bad, at + strlen(from));
    const pl_status st = pl_session_read(bad.data, bad.n_bytes, "bad.json", &back, &err);
    assert_int_not_equal(st, PL_OK);
    assert_non_null(strstr(err.message, "bad.json"));
    if (strstr(err.message, words) == NULL) fail_msg("'%s' lacks '%s'", err.message, words);
    pl_session_free(s);
    pl_buf_release(&good);
    pl_buf_release(&bad);
}

static void test_session__refuses_what_it_cannot_believe(void **state) {
    (void)state;
    refuses("\"session\": 1", "\"session\": 2", "format 2");
    refuses("\"verdict\": \"diverged\"", "\"verdict\": \"perhaps\"", "'verdict'");
    refuses("\"n_finite\": 4", "\"n_finite\": 5", "'n_finite'");
    refuses("\"n_finite\": 4", "\"n_finite\": -9223372036854775808", "'n_finite'");
    refuses("\"max_abs_index\": 0", "\"max_abs_index\": 4", "'max_abs_index'");
    refuses("\"d_scale\": 0", "\"d_scale\": 9000000000000000000", "'d_scale'");
    refuses("\"sum_sq\": 0", "\"sum_sq\": \"nan\"", "'sum_sq'");
    refuses("\"strides\": [", "\"strides\": [1, ", "'strides'");
    refuses("\"dtype\": \"float\"", "\"dtype\": 1", "'dtype'");
    refuses("\"sync_points\": [", "\"sync_points\": [1, ", "sync_points");
    refuses("\"sync_points\"", "\"points\"", "no 'sync_points'");
    refuses("\"hash\": \"0000", "\"hash\": \"000", "'hash'");
    refuses("\"similarity\": \"red\"", "\"similarity\": \"blue\"", "'similarity'");
}

static void test_session__order_is_worst_first(void **state) {
    static const char *const want[] = { "bad", "near", "alone", "same" };
    pl_session *s = sample();
    size_t order[4];
    (void)state;
    assert_int_equal(pl_session_order(s, "psnr", PL_SORT_WORST, order, NULL), PL_OK);
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(s->points[order[i]].value, want[i], 3);
    assert_int_equal(pl_session_order(s, "psnr", PL_SORT_ORDER, order, NULL), PL_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(order[i], i);
    assert_int_equal(pl_session_order(s, "worst", PL_SORT_WORST, order, NULL), PL_OK);
    assert_int_equal(order[1], 1);
    pl_session_free(s);
}

static char *printed(const pl_session_print_options *o) {
    pl_buf out = PL_BUF_INIT;
    pl_session *s = sample();
    pl_err err = PL_ERR_INIT;
    if (pl_session_print(s, o, &out, &err) != PL_OK) fail_msg("%s", err.message);
    pl_session_free(s);
    return pl_buf_take(&out);
}

static void test_session__text_is_safe_and_has_letters(void **state) {
    char *plain = printed(&(pl_session_print_options){ .limit = 2 });
    const plumb_style style = { .diverged = "<d>", .red = "<r>", .reset = "</>", .more = "all" };
    char *colour = printed(&(pl_session_print_options){ .limit = 2, .style = style });
    (void)state;
    assert_non_null(strstr(plain, "DIVERGED at near: element 3 differs\n"));
    assert_non_null(strstr(plain, "1. Conv 'conv' -> near: offset 0.5; q 40"));
    assert_non_null(strstr(plain, "  R        inf  mismatch"));
    assert_non_null(strstr(plain, "near <&\"',|%??? end"));
    assert_non_null(strstr(plain, "and 2 more"));
    assert_null(strchr(plain, '\033'));
    assert_non_null(strstr(plain, "and 2 more\n"));
    assert_non_null(strstr(colour, "<d>DIVERGED at near: element 3 differs</>\n"));
    assert_non_null(strstr(colour, "  <r>R</>        inf  mismatch"));
    assert_non_null(strstr(colour, "and 2 more (all)\n"));
    pl_free(plain);
    pl_free(colour);
}

static void test_session__github_escapes(void **state) {
    char *text = printed(&(pl_session_print_options){ .format = "github" });
    (void)state;
    assert_non_null(strstr(text, "::error file=net.py,line=12,title=plumb culprit::Conv 'conv'"));
    assert_non_null(strstr(text, "|%25???"));
    assert_int_equal(strncmp(text, "::", 2), 0);
    pl_free(text);
}

static void test_session__csv_has_one_line_for_each_value(void **state) {
    char *text = printed(&(pl_session_print_options){ .format = "csv" });
    size_t n = 0;
    (void)state;
    for (const char *c = text; *c != '\0'; c++)
        n += *c == '\n';
    assert_int_equal(n, 5);
    assert_non_null(strstr(text, "\"near <&\"\"',|%??? end\",,Conv,"));
    pl_free(text);
}

static void test_session__unknown_formats_and_metrics_are_named(void **state) {
    pl_buf out = PL_BUF_INIT;
    pl_session *s = sample();
    pl_err err = PL_ERR_INIT;
    (void)state;
    assert_int_equal(
        pl_session_print(s, &(pl_session_print_options){ .format = "pdf" }, &out, &err),
        PL_E_USAGE);
    assert_non_null(strstr(err.message, "text, json, csv, md, junit, github, sarif"));
    assert_int_equal(
        pl_session_print(s, &(pl_session_print_options){ .metric = "taste" }, &out, &err),
        PL_E_USAGE);
    assert_non_null(strstr(err.message, "psnr, mae"));
    assert_non_null(strstr(err.message, "worst"));
    pl_session_free(s);
    pl_buf_release(&out);
}

static void test_session__exit_codes(void **state) {
    (void)state;
    assert_int_equal(pl_outcome_exit_code(PL_OUTCOME_AGREE), 0);
    assert_int_equal(pl_outcome_exit_code(PL_OUTCOME_DIVERGED), 1);
    assert_int_equal(pl_outcome_exit_code(PL_OUTCOME_NONDETERMINISTIC), 1);
    assert_int_equal(pl_outcome_exit_code(PL_OUTCOME_FAILED), 3);
}

/* Every allocation fails once: a status, no leak, no crash. */
static void test_session__survives_lack_of_memory(void **state) {
    pl_buf text = PL_BUF_INIT;
    pl_session *s = sample();
    (void)state;
    pl_session_put_json(s, &text);
    for (long k = 0; k < 400; k++) {
        pl_session *back = NULL;
        pl_buf out = PL_BUF_INIT;
        pl_alloc_fail_after(k);
        pl_status st = pl_session_read(text.data, text.n_bytes, "x", &back, NULL);
        if (st == PL_OK)
            st = pl_session_print(back, &(pl_session_print_options){ .format = "junit" }, &out,
                                  NULL);
        pl_alloc_fail_after(-1);
        pl_buf_release(&out);
        pl_session_free(back);
        if (st == PL_OK) break;
        assert_int_equal(st, PL_E_MEMORY);
        assert_true(k < 399);
    }
    pl_session_free(s);
    pl_buf_release(&text);
}

/* One allocation fails and all others do not: the whole text, or a status. A part that is left out
 * would be believed. */
static void test_session__prints_all_or_fails(void **state) {
    static const char *const formats[] = { "text",  "json",   "csv",   "md",
                                           "junit", "github", "sarif", "model-explorer" };
    pl_session *s = sample();
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const pl_session_print_options o = { .format = formats[i] };
        pl_buf good = PL_BUF_INIT;
        assert_int_equal(pl_session_print(s, &o, &good, NULL), PL_OK);
        for (long k = 0; k < 400; k++) {
            pl_buf out = PL_BUF_INIT;
            pl_alloc_fail_once(k);
            const pl_status st = pl_session_print(s, &o, &out, NULL);
            pl_alloc_fail_once(-1);
            if (st == PL_OK && pl_buf_ok(&out)) assert_string_equal(pl_buf_str(&out), good.data);
            pl_buf_release(&out);
        }
        pl_buf_release(&good);
    }
    pl_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session__prints_all_or_fails),
        cmocka_unit_test(test_session__reads_what_it_wrote),
        cmocka_unit_test(test_session__numbers_that_are_no_numbers_are_strings),
        cmocka_unit_test(test_session__refuses_what_it_cannot_believe),
        cmocka_unit_test(test_session__order_is_worst_first),
        cmocka_unit_test(test_session__text_is_safe_and_has_letters),
        cmocka_unit_test(test_session__github_escapes),
        cmocka_unit_test(test_session__csv_has_one_line_for_each_value),
        cmocka_unit_test(test_session__unknown_formats_and_metrics_are_named),
        cmocka_unit_test(test_session__exit_codes),
        cmocka_unit_test(test_session__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
