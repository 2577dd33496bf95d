/* Slices and figures of a pair: exact cells, reduction, windows, what lies outside, NaN. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/json_read.h"
#include "report/view_slice.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static pl_tensor *ramp(int64_t rows, int64_t cols, float add) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 2, (const int64_t[]){ rows, cols }, &t, NULL), PL_OK);
    for (int64_t i = 0; i < rows * cols; i++)
        ((float *)t->data)[i] = (float)i + add;
    return t;
}

/* The header of a picture and its cells. */
static const float *cells_of(const pl_buf *b, char *header, size_t n_header) {
    uint32_t n = 0;
    assert_memory_equal(b->data, "PLSL", 4);
    memcpy(&n, b->data + 4, 4);
    assert_true(n < n_header && n % 8 == 0);
    memcpy(header, b->data + 8, n);
    header[n] = '\0';
    return (const float *)(const void *)(b->data + 8 + n);
}

static void test_slice__small_is_exact(void **state) {
    (void)state;
    pl_view_pair pair = { .a = ramp(3, 4, 0.5F), .b = ramp(3, 4, 0), .joint = true };
    pl_buf out = PL_BUF_INIT;
    pl_slice s;
    char header[512];
    pl_slice_default(pair.a, 7, &s);
    assert_int_equal(s.row_axis, 0);
    assert_int_equal(s.col_axis, 1);
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_OK);
    const float *cells = cells_of(&out, header, sizeof header);
    assert_non_null(strstr(header, "\"mode\":\"exact\""));
    assert_non_null(strstr(header, "\"sides\":\"ab\""));
    for (int i = 0; i < 12; i++) {
        assert_true(cells[i] == (float)i + 0.5F);
        assert_true(cells[12 + i] == (float)i);
    }
    pl_buf_release(&out);
    pl_view_pair_release(&pair);
}

static void test_slice__reduces_by_magnitude_and_mean(void **state) {
    (void)state;
    pl_view_pair pair = { .a = ramp(4, 4, 0), .b = ramp(4, 4, 0), .joint = true };
    pl_buf out = PL_BUF_INIT;
    pl_slice s;
    char header[512];
    ((float *)pair.a->data)[5] = -100;
    pl_slice_default(pair.a, -1, &s);
    s.max_rows = s.max_cols = 2;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_OK);
    const float *cells = cells_of(&out, header, sizeof header);
    assert_non_null(strstr(header, "\"sides\":\"abd\""));
    assert_true(cells[0] == -100 && cells[1] == 7 && cells[2] == 13 && cells[3] == 15);
    assert_true(cells[8] == -105 && cells[9] == 0 && cells[10] == 0 && cells[11] == 0);
    pl_buf_reset(&out);
    s.mode = PL_REDUCE_MEAN;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_OK);
    cells = cells_of(&out, header, sizeof header);
    assert_true(cells[4] == 2.5F && cells[8] == -26.25F);
    pl_buf_reset(&out);
    ((float *)pair.a->data)[10] = NAN;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_OK);
    cells = cells_of(&out, header, sizeof header);
    assert_true(isnan(cells[3]) && isnan(cells[11]));
    pl_buf_release(&out);
    pl_view_pair_release(&pair);
}

static void test_slice__rejects_what_lies_outside(void **state) {
    (void)state;
    pl_view_pair pair = { .a = ramp(4, 4, 0) };
    pl_buf out = PL_BUF_INIT;
    pl_slice s;
    pl_slice_default(pair.a, 3, &s);
    s.row = 3;
    s.n_rows = 2;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_E_INVALID);
    s.row = INT64_MAX;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_E_INVALID);
    s.row = 0;
    s.n_rows = -1;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_E_INVALID);
    s.n_rows = 0;
    s.row_axis = 2;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_E_INVALID);
    s.row_axis = s.col_axis = 1;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_E_INVALID);
    s.row_axis = -1;
    s.index[0] = 4;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_E_INVALID);
    s.index[0] = 2;
    assert_int_equal(pl_slice_put(&pair, &s, &out, NULL), PL_OK);
    pl_buf_release(&out);
    pl_view_pair_release(&pair);
}

static const pl_json_value *figures(const pl_view_pair *pair, pl_buf *out, pl_arena *arena) {
    const pl_json_value *json = NULL;
    assert_int_equal(pl_figures_put(pair, -1, out, NULL), PL_OK);
    assert_int_equal(pl_json_read(out->data, out->n_bytes, arena, &json, NULL), PL_OK);
    return json;
}

static void test_figures__finds_the_worst_elements(void **state) {
    (void)state;
    pl_view_pair pair = { .a = ramp(5, 6, 0), .b = ramp(5, 6, 0), .joint = true };
    pl_buf out = PL_BUF_INIT;
    pl_arena *arena = pl_arena_new();
    ((float *)pair.a->data)[8] += 2;
    ((float *)pair.a->data)[29] = NAN;
    const pl_json_value *json = figures(&pair, &out, arena);
    const pl_json_value *worst = pl_json_find(json, "worst");
    assert_int_equal(worst->n_items, 2);
    const pl_json_value *index = pl_json_find(worst->first, "index");
    assert_int_equal(index->first->integer, 4);
    assert_int_equal(index->first->next->integer, 5);
    assert_string_equal(pl_json_find(worst->first, "a")->string, "nan");
    assert_true(pl_json_find(worst->first->next, "a")->number == 10);
    assert_int_equal(pl_json_find(json, "equal")->integer, 28);
    assert_int_equal(pl_json_find(pl_json_find(json, "a"), "nan")->integer, 1);
    pl_buf_release(&out);
    pl_arena_free(arena);
    pl_view_pair_release(&pair);
}

static void test_figures__sample_of_a_large_one_has_the_known_worst(void **state) {
    (void)state;
    enum { ROWS = 2500, COLS = 2000, WORST = 1234567 };
    pl_view_pair pair = { .a = ramp(ROWS, COLS, 0), .b = ramp(ROWS, COLS, 0), .joint = true };
    pl_buf out = PL_BUF_INIT;
    pl_arena *arena = pl_arena_new();
    const pl_json_value *json = NULL;
    ((float *)pair.a->data)[WORST] += 100;
    assert_int_equal(pl_figures_put(&pair, WORST, &out, NULL), PL_OK);
    assert_int_equal(pl_json_read(out.data, out.n_bytes, arena, &json, NULL), PL_OK);
    assert_int_equal(pl_json_find(json, "n")->integer, ROWS * COLS);
    assert_int_equal(pl_json_find(json, "seen")->integer, 1 << 21);
    const pl_json_value *index = pl_json_find(pl_json_find(json, "worst")->first, "index");
    assert_int_equal(index->first->integer, WORST / COLS);
    assert_int_equal(index->first->next->integer, WORST % COLS);
    /* The ends are seen: a ramp has its extremes there. */
    assert_true(pl_json_find(pl_json_find(json, "b"), "min")->number == 0);
    assert_true(pl_json_find(pl_json_find(json, "b"), "max")->number ==
                (double)((float *)pair.b->data)[ROWS * COLS - 1]);
    pl_buf_release(&out);
    pl_arena_free(arena);
    pl_view_pair_release(&pair);
}

static void test_figures__empty_and_missing(void **state) {
    (void)state;
    pl_view_pair none = { .why = "not kept" };
    pl_view_pair empty = { .a = ramp(0, 4, 0), .b = ramp(0, 4, 0), .joint = true };
    pl_buf out = PL_BUF_INIT;
    pl_arena *arena = pl_arena_new();
    pl_slice s;
    assert_int_equal(pl_figures_put(&none, -1, &out, NULL), PL_E_NOT_FOUND);
    assert_int_equal(pl_json_find(figures(&empty, &out, arena), "n")->integer, 0);
    pl_buf_reset(&out);
    pl_slice_default(empty.a, -1, &s);
    assert_int_equal(pl_slice_put(&empty, &s, &out, NULL), PL_OK);
    pl_buf_release(&out);
    pl_arena_free(arena);
    pl_view_pair_release(&empty);
}

static pl_tensor *wholes(pl_dtype dtype, const int64_t *values, int64_t n) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, 1, &n, &t, NULL), PL_OK);
    memcpy(t->data, values, (size_t)n * sizeof *values);
    return t;
}

/* Beyond 2^53 two that differ are the same double; the ends differ by more than an int64 holds. */
static void test_figures__integers_digit_by_digit(void **state) {
    static const struct {
        pl_dtype dtype;
        int64_t a[3], b[3];
        const char *type, *worst[2][3];
    } cases[] = {
        { PL_I64,
          { INT64_MIN, 9007199254740993, 4 },
          { INT64_MAX, 9007199254740992, 4 },
          "\"type\":\"i64\"",
          { { "-9223372036854775808", "9223372036854775807", "-18446744073709551615" },
            { "9007199254740993", "9007199254740992", "1" } } },
        { PL_U64,
          { -1, 1, 4 },
          { 1, 2, 4 },
          "\"type\":\"u64\"",
          { { "18446744073709551615", "1", "18446744073709551614" }, { "1", "2", "-1" } } },
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pl_view_pair pair = { .a = wholes(cases[i].dtype, cases[i].a, 3),
                              .b = wholes(cases[i].dtype, cases[i].b, 3),
                              .joint = true };
        pl_buf out = PL_BUF_INIT;
        pl_arena *arena = pl_arena_new();
        pl_slice slice;
        char header[512];
        const pl_json_value *json = figures(&pair, &out, arena);
        assert_int_equal(pl_json_find(json, "equal")->integer, 1);
        const pl_json_value *w = pl_json_find(json, "worst")->first;
        for (int k = 0; k < 2; k++, w = w->next) {
            const pl_json_value *text = pl_json_find(w, "whole")->first;
            for (int m = 0; m < 3; m++, text = text->next)
                assert_string_equal(text->string, cases[i].worst[k][m]);
        }
        pl_buf_reset(&out);
        pl_slice_default(pair.a, -1, &slice);
        assert_int_equal(pl_slice_put(&pair, &slice, &out, NULL), PL_OK);
        const void *cells = cells_of(&out, header, sizeof header);
        assert_non_null(strstr(header, cases[i].type));
        assert_memory_equal(cells, cases[i].a, sizeof cases[i].a);
        assert_memory_equal((const char *)cells + sizeof cases[i].a, cases[i].b, sizeof cases[i].b);
        pl_buf_release(&out);
        pl_arena_free(arena);
        pl_view_pair_release(&pair);
    }
}

static double figure(const pl_json_value *json, const char *key) {
    const pl_json_value *v = pl_json_find(pl_json_find(json, "a"), key);
    return v->kind == PL_JSON_NULL ? (double)NAN : v->number;
}

static void test_figures__deviation_far_from_zero(void **state) {
    (void)state;
    pl_view_pair pair = { 0 };
    pl_buf out = PL_BUF_INIT;
    pl_arena *arena = pl_arena_new();
    assert_int_equal(pl_tensor_new(PL_F64, 1, (const int64_t[]){ 100 }, &pair.a, NULL), PL_OK);
    double *x = pair.a->data;
    for (int i = 0; i < 100; i++)
        x[i] = 1e8 + (i % 2 == 0 ? 1 : -1);
    assert_true(figure(figures(&pair, &out, arena), "std") == 1);
    for (int i = 0; i < 100; i++)
        x[i] = 0.1;
    pl_buf_reset(&out);
    assert_true(figure(figures(&pair, &out, arena), "std") == 0);
    for (int i = 0; i < 100; i++)
        x[i] = (double)NAN;
    pl_buf_reset(&out);
    const pl_json_value *json = figures(&pair, &out, arena);
    assert_true(isnan(figure(json, "min")) && isnan(figure(json, "max")) &&
                isnan(figure(json, "mean")) && isnan(figure(json, "std")));
    pl_buf_release(&out);
    pl_arena_free(arena);
    pl_view_pair_release(&pair);
}

/* A row of 64 million: what the sample leaves out is marked, every cell has some of it. */
static void test_slice__a_long_row_is_sampled(void **state) {
    enum { N = 1 << 26, STRIDE = N / PL_SCAN_MAX };
    (void)state;
    pl_view_pair pair = { 0 };
    pl_buf out = PL_BUF_INIT;
    pl_slice slice;
    char header[512];
    assert_int_equal(pl_tensor_new(PL_U8, 1, (const int64_t[]){ N }, &pair.a, NULL), PL_OK);
    memset(pair.a->data, 1, N);
    for (size_t i = 0; i < N; i += STRIDE)
        ((uint8_t *)pair.a->data)[i] = 0;
    pl_slice_default(pair.a, -1, &slice);
    slice.mode = PL_REDUCE_MEAN;
    assert_int_equal(pl_slice_put(&pair, &slice, &out, NULL), PL_OK);
    const float *cells = cells_of(&out, header, sizeof header);
    assert_non_null(strstr(header, "\"sampled\":true"));
    for (int i = 0; i < PL_PICTURE_MAX; i++)
        assert_true(cells[i] == 0); /* one in STRIDE was read, not one in two */
    pl_buf_release(&out);
    pl_view_pair_release(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice__small_is_exact),
        cmocka_unit_test(test_slice__reduces_by_magnitude_and_mean),
        cmocka_unit_test(test_slice__rejects_what_lies_outside),
        cmocka_unit_test(test_figures__finds_the_worst_elements),
        cmocka_unit_test(test_figures__sample_of_a_large_one_has_the_known_worst),
        cmocka_unit_test(test_figures__empty_and_missing),
        cmocka_unit_test(test_figures__integers_digit_by_digit),
        cmocka_unit_test(test_figures__deviation_far_from_zero),
        cmocka_unit_test(test_slice__a_long_row_is_sampled),
    };
    return cmocka_run_group_tests_name("slice", tests, NULL, NULL);
}
