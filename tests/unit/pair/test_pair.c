/* Pairing, layer by layer, on graphs small enough to check by eye; repeated equal blocks; maps; and
 * what it refuses. Real models are in test_pair_models.c and test_pair_quant.c. */
#include <math.h>

#include "graph/text/text.h"
#include "pair_models.h"
#include "store/graph_json.h"

typedef struct fixture {
    pl_model *model[2];
    pl_pair_side side[2];
    pl_arena *arena;
    pl_pairing p;
} fixture;

static void set_up(fixture *f, const char *a, const char *b) {
    pl_err err = PL_ERR_INIT;
    *f = (fixture){ .arena = pl_arena_new() };
    pm_check(pl_model_parse_graph(a, 17, &f->model[0], &err), &err);
    pm_check(pl_model_parse_graph(b, 17, &f->model[1], &err), &err);
    for (int i = 0; i < 2; i++)
        pm_check(pl_pair_side_of_model(f->model[i], f->arena, &f->side[i], &err), &err);
}

static void pair(fixture *f, const pl_pair_options *options) {
    pl_err err = PL_ERR_INIT;
    pl_pairing_release(&f->p);
    pm_check(pl_pair_values(&f->side[0], &f->side[1], options, &f->p, &err), &err);
    assert_int_equal(f->p.n_unpaired_a + f->p.n_unpaired_b + 2 * f->p.n_pairs >=
                         f->side[0].n_items + f->side[1].n_items,
                     true);
}

static void tear_down(fixture *f) {
    pl_pairing_release(&f->p);
    pl_model_free(f->model[0]);
    pl_model_free(f->model[1]);
    pl_arena_free(f->arena);
}

static const pl_pair *find_pair(const fixture *f, const char *a) {
    for (size_t i = 0; i < f->p.n_pairs; i++)
        if (strcmp(f->side[0].items[f->p.pairs[i].a].name, a) == 0) return &f->p.pairs[i];
    return NULL;
}

static const pl_pair *expect(const fixture *f, const char *a, const char *b, const char *method) {
    const pl_pair *p = find_pair(f, a);
    if (p == NULL) fail_msg("'%s' is not paired", a);
    assert_string_equal(f->side[1].items[p->b].name, b);
    assert_string_equal(p->method, method);
    assert_true(p->confidence > 0 && p->confidence <= 1);
    return p;
}

static const char *reason(const fixture *f, int side, const char *name) {
    const pl_unpaired *list = side == 0 ? f->p.unpaired_a : f->p.unpaired_b;
    const size_t n = side == 0 ? f->p.n_unpaired_a : f->p.n_unpaired_b;
    for (size_t i = 0; i < n; i++)
        if (strcmp(f->side[side].items[list[i].item].name, name) == 0) return list[i].reason;
    fail_msg("'%s' is paired", name);
    return "";
}

/* ---- layers ---- */

static void test_pair_name__same_names(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { h = Relu(x) y = Exp(h) }",
           "(float[4] x) => (float[4] y) { h = Relu(x) y = Exp(h) }");
    pair(&f, NULL);
    assert_int_equal(f.p.n_pairs, 3);
    assert_int_equal(f.p.n_unpaired_a + f.p.n_unpaired_b, 0);
    assert_true(expect(&f, "h", "h", "name")->confidence == 1);
    assert_string_equal(expect(&f, "y", "y", "name")->relation, "1:1");
    tear_down(&f);
}

static void test_pair_name__another_shape_is_reported(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { y = Relu(x) }",
           "(float[4] x) => (float[3] y) { y = Relu(x) }");
    pair(&f, NULL);
    assert_true(expect(&f, "y", "y", "name")->confidence < 1); /* a finding, not a doubt */
    tear_down(&f);
}

static void test_pair_structure__without_names(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { h = Relu(x) g = Exp(x) y = Sub(h, g) }",
           "(float[4] p) => (float[4] q) { s = Exp(p) r = Relu(p) q = Sub(r, s) }");
    pair(&f, NULL);
    expect(&f, "x", "p", "structure");
    expect(&f, "h", "r", "structure");
    expect(&f, "g", "s", "structure");
    expect(&f, "y", "q", "structure");
    tear_down(&f);
}

/* Two branches that compute the same from the same: nobody can tell them apart. */
static void test_pair_structure__leaves_twins_alone(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { h = Relu(x) g = Relu(x) y = Add(h, g) }",
           "(float[4] p) => (float[4] q) { r = Relu(p) s = Relu(p) q = Add(s, r) }");
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    pair(&f, &options);
    expect(&f, "y", "q", "structure");
    for (size_t i = 0; i < f.p.n_pairs; i++) { /* by slot of Add, or not at all */
        const char *a = f.side[0].items[f.p.pairs[i].a].name;
        const char *b = f.side[1].items[f.p.pairs[i].b].name;
        if (strcmp(a, "h") == 0) assert_string_equal(b, "s");
        if (strcmp(a, "g") == 0) assert_string_equal(b, "r");
    }
    tear_down(&f);
}

/* One block fewer: counted from above and from below the blocks have other counterparts. */
static void test_pair_structure__a_missing_block_casts_doubt(void **state) {
    fixture f;
    (void)state;
    set_up(&f,
           "(float[1,2] x) => (float[1,2] y) <float[2,2] u = {1,2,3,4}, float[2,2] v = {5,6,7,8}, "
           "float[2,2] w = {9,1,2,3}> { a = MatMul(x, u) b = MatMul(a, v) c = MatMul(b, w) "
           "y = Exp(c) }",
           "(float[1,2] p) => (float[1,2] q) <float[2,2] u = {2,2,3,4}, float[2,2] v = {6,6,7,8}> "
           "{ r = MatMul(p, u) s = MatMul(r, v) q = Exp(s) }");
    pair(&f, NULL);
    expect(&f, "x", "p", "structure");
    expect(&f, "y", "q", "structure");
    assert_null(find_pair(&f, "a"));
    assert_null(find_pair(&f, "b"));
    assert_true(strlen(reason(&f, 0, "b")) > 0);
    tear_down(&f);
}

static void test_pair_structure__says_what_was_fused(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { a = Exp(x) b = Relu(a) c = Neg(b) y = Abs(c) }",
           "(float[4] x) => (float[4] y) { a = Exp(x) c = my.FusedReluNeg(a) y = Abs(c) }");
    pair(&f, NULL);
    const pl_pair *p = expect(&f, "c", "c", "name");
    assert_string_equal(p->relation, "n:1");
    assert_int_equal(p->n_members, 1);
    assert_string_equal(f.side[0].items[p->members[0]].name, "b");
    assert_non_null(strstr(reason(&f, 0, "b"), "fused into 'c'"));
    assert_true(f.p.unpaired_a[0].expected);
    assert_string_equal(expect(&f, "y", "y", "name")->relation, "1:1");
    tear_down(&f);
    set_up(&f, "(float[4] x) => (float[4] y) { a = Exp(x) y = my.FusedReluNeg(a) }",
           "(float[4] x) => (float[4] y) { a = Exp(x) b = Relu(a) y = Neg(b) }");
    pair(&f, NULL);
    assert_string_equal(expect(&f, "y", "y", "name")->relation, "1:n");
    tear_down(&f);
}

/* BatchNormalization folded into Conv: Conv's new output is the old one of BatchNormalization. */
static void test_pair_structure__follows_folding(void **state) {
    fixture f;
    (void)state;
    set_up(&f,
           "(float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,1,1] w = {2}, float[1] s = {1}, "
           "float[1] t = {0}, float[1] m = {0}, float[1] v = {1}> { c = Conv(x, w) "
           "n = BatchNormalization(c, s, t, m, v) r = Relu(n) y = Exp(r) }",
           "(float[1,1,2,2] p) => (float[1,1,2,2] q) <float[1,1,1,1] w = {3}, float[1] t = {1}> "
           "{ z = Conv(p, w, t) k = Relu(z) q = Exp(k) }");
    pair(&f, NULL);
    assert_string_equal(expect(&f, "n", "z", "structure")->relation, "n:1");
    expect(&f, "r", "k", "structure");
    assert_null(find_pair(&f, "c"));
    tear_down(&f);
}

static void test_pair_structure__folds_views(void **state) {
    fixture f;
    (void)state;
    set_up(&f,
           "(float[2,2] x) => (float[2,2] y) <int64[1] s = {4}> { a = Exp(x) v = Reshape(a, s) w = "
           "Identity(v) b = Relu(w) y = Reshape(b, s) }",
           "(float[2,2] p) => (float[2,2] q) { r = Exp(p) q = Relu(r) }");
    pair(&f, NULL);
    expect(&f, "a", "r", "structure");
    assert_non_null(strstr(reason(&f, 0, "v"), "view of 'a'"));
    assert_non_null(strstr(reason(&f, 0, "w"), "view of 'a'"));
    assert_true(f.p.unpaired_a[0].expected);
    pl_pair_options keep = PL_PAIR_OPTIONS_INIT;
    keep.keep_views = true;
    pair(&f, &keep);
    assert_null(strstr(reason(&f, 0, "v"), "view"));
    tear_down(&f);
}

static void test_pair_structure__works_in_bodies(void **state) {
    static const char a[] =
        "(bool c, float[4] x) => (float[4] y) { y = If (c) <then_branch = g () => (float[4] t) { u "
        "= "
        "Relu(x) t = Exp(u) }, else_branch = h () => (float[4] e) { w = Exp(x) e = Relu(w) }> }";
    static const char b[] =
        "(bool k, float[4] p) => (float[4] q) { q = If (k) <else_branch = h () => (float[4] m) { n "
        "= "
        "Exp(p) m = Relu(n) }, then_branch = g () => (float[4] o) { r = Relu(p) o = Exp(r) }> }";
    fixture f;
    (void)state;
    set_up(&f, a, b);
    pair(&f, NULL);
    expect(&f, "u", "r", "structure");
    expect(&f, "t", "o", "structure");
    expect(&f, "w", "n", "structure");
    expect(&f, "y", "q", "structure");
    tear_down(&f);
}

static void test_pair_suffix__prefers_floats_to_codes(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { h = Relu(x) y = Exp(h) }",
           "(float[4] x, float s, uint8 z) => (float[4] y) { h_quantized = QuantizeLinear(x, s, z) "
           "h_DequantizeLinear_Output = DequantizeLinear(h_quantized, s, z) y = "
           "Exp(h_DequantizeLinear_Output) }");
    pair(&f, NULL);
    expect(&f, "h", "h_DequantizeLinear_Output", "suffix");
    assert_non_null(strstr(reason(&f, 1, "h_quantized"), "quantised form of"));
    tear_down(&f);
}

static void test_pair_debug__stands_for(void **state) {
    static const char *const names[] = { "b", "c" };
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { buf0 = my.Fused(x) y = Abs(buf0) }",
           "(float[4] x) => (float[4] y) { a = Exp(x) b = Relu(a) c = Identity(b) y = Abs(c) }");
    pl_pair_item items[3];
    memcpy(items, f.side[0].items, sizeof items);
    items[1].stands_for = names;
    items[1].n_stands_for = 2;
    f.side[0].items = items;
    pair(&f, NULL);
    expect(&f, "buf0", "b", "debug");
    size_t n = 0;
    for (size_t i = 0; i < f.p.n_pairs; i++) {
        if (f.p.pairs[i].a != 1) continue;
        n++;
        assert_string_equal(f.p.pairs[i].relation, "1:n");
    }
    assert_int_equal(n, 2);
    assert_non_null(strstr(reason(&f, 1, "a"), "fused into 'buf0'"));
    tear_down(&f);
}

/* ---- sides without graphs ---- */

static pl_pair_item item(const char *name, const char *op, int64_t n) {
    return (pl_pair_item){ .name = name,
                           .value = "",
                           .graph = "",
                           .op = op,
                           .module = "",
                           .source = "",
                           .has_shape = true,
                           .dtype = PL_F32,
                           .rank = 1,
                           .dims = { n } };
}

static void bare(fixture *f, const pl_pair_item *a, size_t n_a, const pl_pair_item *b, size_t n_b) {
    *f = (fixture){ .arena = pl_arena_new() };
    f->side[0] = (pl_pair_side){ .items = a, .n_items = n_a };
    f->side[1] = (pl_pair_side){ .items = b, .n_items = n_b };
}

/* torch's "add" is not the graph's "add": the recording says so. */
static void test_pair_name__unmapped_names_mean_nothing(void **state) {
    pl_pair_item a[] = { item("x", "", 4), item("add", "Add", 4), item("y", "Abs", 4) };
    pl_pair_item b[] = { item("x", "", 4), item("add", "Add", 4), item("y", "Abs", 4) };
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    fixture f;
    (void)state;
    options.methods = PL_PAIR_NAME;
    b[1].unmapped = true;
    bare(&f, a, 3, b, 3);
    pair(&f, &options);
    assert_null(find_pair(&f, "add"));
    expect(&f, "y", "y", "name");
    tear_down(&f);
    a[1].unmapped = true; /* two runs of torch */
    bare(&f, a, 3, b, 3);
    pair(&f, &options);
    expect(&f, "add", "add", "name");
    tear_down(&f);
}

static void test_pair_order__aligns_between_anchors(void **state) {
    const pl_pair_item a[] = { item("x", "", 4), item("a1", "Relu", 4), item("a2", "Exp", 8),
                               item("a3", "Neg", 4), item("y", "Abs", 4) };
    const pl_pair_item b[] = { item("x", "", 4),     item("b1", "Relu", 4), item("extra", "Cos", 4),
                               item("b2", "Exp", 8), item("b3", "Neg", 4),  item("y", "Abs", 4) };
    fixture f;
    (void)state;
    bare(&f, a, 5, b, 6);
    pair(&f, NULL);
    expect(&f, "a1", "b1", "order");
    expect(&f, "a2", "b2", "order");
    expect(&f, "a3", "b3", "order");
    (void)reason(&f, 1, "extra");
    tear_down(&f);
}

static void test_pair_order__ambiguous_stays_open(void **state) {
    const pl_pair_item a[] = { item("x", "", 4), item("a1", "Relu", 4), item("y", "Abs", 4) };
    const pl_pair_item b[] = { item("x", "", 4), item("b1", "Relu", 4), item("b2", "Relu", 4),
                               item("y", "Abs", 4) };
    fixture f;
    (void)state;
    bare(&f, a, 3, b, 4);
    pair(&f, NULL);
    assert_null(find_pair(&f, "a1"));
    tear_down(&f);
}

static void test_pair_order__shape_alone_is_too_little(void **state) {
    const pl_pair_item a[] = { item("x", "", 4), item("a1", "", 4), item("y", "", 4) };
    const pl_pair_item b[] = { item("x", "", 4), item("b1", "", 4), item("y", "", 4) };
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    fixture f;
    (void)state;
    bare(&f, a, 3, b, 3);
    pair(&f, &options);
    assert_non_null(strstr(reason(&f, 0, "a1"), "'b1' by order, but with confidence 0.40"));
    options.min_confidence = 0.3;
    pair(&f, &options);
    expect(&f, "a1", "b1", "order");
    tear_down(&f);
}

static void test_pair_order__long_gaps_are_banded(void **state) {
    enum { N = 30000 };
    pl_pair_item *a = pl_calloc(N, sizeof *a), *b = pl_calloc(N, sizeof *b);
    char(*names)[16] = pl_calloc(2 * N, sizeof *names);
    static const char *const ops[] = { "Relu", "Exp", "Neg", "Abs", "Cos", "Sin", "Tanh" };
    fixture f;
    (void)state;
    for (int i = 0; i < N; i++) {
        const char *op = ops[pl_rng_at(9, 0, (uint64_t)i) % 7];
        snprintf(names[i], sizeof *names, "a%d", i);
        snprintf(names[N + i], sizeof *names, "b%d", i);
        a[i] = item(names[i], op, 4 + i % 5);
        b[i] = item(names[N + i], op, 4 + i % 5);
    }
    bare(&f, a, N, b, N - 3);
    pair(&f, NULL);
    size_t n_right = 0;
    for (size_t i = 0; i < f.p.n_pairs; i++)
        n_right += f.p.pairs[i].a == f.p.pairs[i].b;
    assert_int_equal(n_right, f.p.n_pairs);
    assert_true(n_right > N * 95 / 100);
    tear_down(&f);
    pl_free(a);
    pl_free(b);
    pl_free(names);
}

static pl_status read_tensor(void *ctx, size_t i, pl_tensor **out, pl_err *err) {
    pl_tensor **list = ctx;
    (void)err;
    *out = pl_tensor_ref(list[i]);
    return PL_OK;
}

/* Noise, an NHWC copy and constants: the best fit finds what it can and no more. */
static void test_pair_value__best_fit_and_layout(void **state) {
    const int64_t nchw[] = { 1, 4, 6, 5 }, nhwc[] = { 1, 6, 5, 4 };
    pl_tensor *a[3], *b[3];
    pl_pair_item x[3], y[3];
    fixture f;
    (void)state;
    for (int i = 0; i < 3; i++) {
        pl_tensor_new_zero(PL_F32, 4, nchw, &a[i], NULL);
        pl_tensor_new_zero(PL_F32, 4, i == 1 ? nhwc : nchw, &b[i], NULL);
        for (int64_t k = 0; k < 120 && i < 2; k++) {
            const double v = pl_rng_normal_at(3, (uint64_t)i, (uint64_t)k);
            const int64_t c = k / 30, p = k % 30;
            ((float *)a[i]->data)[k] = (float)v;
            ((float *)b[i]->data)[i == 1 ? p * 4 + c : k] = (float)(v * 1.0001);
        }
        x[i] = item((const char *[]){ "a0", "a1", "a2" }[i], "", 0);
        y[i] = item((const char *[]){ "b0", "b1", "b2" }[i], "", 0);
        x[i].rank = y[i].rank = 4;
        memcpy(x[i].dims, a[i]->dims, sizeof x[i].dims);
        memcpy(y[i].dims, b[i]->dims, sizeof y[i].dims);
        x[i].has_data = y[i].has_data = true;
    }
    bare(&f, x, 3, y, 3);
    f.side[0].read = f.side[1].read = read_tensor;
    f.side[0].ctx = a;
    f.side[1].ctx = b;
    pair(&f, NULL);
    assert_string_equal(expect(&f, "a0", "b0", "value")->layout, "");
    assert_string_equal(expect(&f, "a1", "b1", "value")->layout, "transpose 0,3,1,2");
    assert_null(find_pair(&f, "a2")); /* zeros are equal to any zeros */
    tear_down(&f);
    for (int i = 0; i < 3; i++) {
        pl_tensor_unref(a[i]);
        pl_tensor_unref(b[i]);
    }
}

static void test_pair_value__statistics_alone(void **state) {
    pl_pair_item x[] = { item("a0", "", 100), item("a1", "", 100) };
    pl_pair_item y[] = { item("b0", "", 100), item("b1", "", 100), item("b2", "", 100) };
    const pl_stats first = { 100, 0, 0, 3, -1.25, 2.5, 0.125 };
    const pl_stats second = { 100, 0, 0, 0, -3, 7, 1 };
    fixture f;
    (void)state;
    x[0].has_stats = y[1].has_stats = x[1].has_stats = y[0].has_stats = y[2].has_stats = true;
    x[0].stats = y[1].stats = first;
    y[1].stats.mean += 1e-7;
    x[1].stats = y[0].stats = y[2].stats = second; /* two candidates */
    bare(&f, x, 2, y, 3);
    pair(&f, NULL);
    expect(&f, "a0", "b1", "value");
    assert_null(find_pair(&f, "a1"));
    tear_down(&f);
}

/* ---- maps ---- */

static void test_pair_map__round_trip(void **state) {
    fixture f;
    pl_err err = PL_ERR_INIT;
    pl_buf text = PL_BUF_INIT;
    pl_pair_map map;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] \"y\\\"1\") { h = Relu(x) \"y\\\"1\" = Exp(h) }",
           "(float[4] p) => (float[4] q) { r = Relu(p) q = Exp(r) }");
    pair(&f, NULL);
    const size_t n = f.p.n_pairs;
    assert_int_equal(n, 3);
    pm_check(pl_pair_map_print(&f.p, &f.side[0], &f.side[1], &text, &err), &err);
    pm_check(pl_pair_map_read(pl_buf_str(&text), text.n_bytes, "m", &map, &err), &err);
    assert_int_equal(map.n_rows, n);
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    options.map = &map;
    options.methods = PL_PAIR_MAP;
    pair(&f, &options);
    assert_int_equal(f.p.n_pairs, n);
    expect(&f, "h", "r", "map");
    pl_pair_map_release(&map);
    pl_buf_release(&text);
    tear_down(&f);
}

static void test_pair_map__wins_and_forbids(void **state) {
    static const char text[] =
        "{\"plumb.map\": 1, \"pairs\": [{\"a\": \"h\", \"b\": \"g\", "
        "\"layout\": \"squeeze\", \"note\": 1}, {\"a\": \"y\", \"b\": null}]}";
    fixture f;
    pl_err err = PL_ERR_INIT;
    pl_pair_map map;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { h = Relu(x) g = Exp(x) y = Add(h, g) }",
           "(float[4] x) => (float[4] y) { h = Relu(x) g = Exp(x) y = Add(h, g) }");
    pm_check(pl_pair_map_read(text, strlen(text), "m", &map, &err), &err);
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    options.map = &map;
    pair(&f, &options);
    assert_string_equal(expect(&f, "h", "g", "map")->layout, "squeeze");
    assert_non_null(strstr(reason(&f, 0, "y"), "according to the map"));
    assert_null(find_pair(&f, "y"));
    pl_pair_map_release(&map);
    tear_down(&f);
}

static void test_pair_map__bad_input(void **state) {
    static const char *const bad[] = { "",
                                       "{}",
                                       "[]",
                                       "{\"plumb.map\": 2, \"pairs\": []}",
                                       "{\"plumb.map\": 1, \"pairs\": {}}",
                                       "{\"plumb.map\": 1, \"pairs\": [1]}",
                                       "{\"plumb.map\": 1, \"pairs\": [{}]}",
                                       "{\"plumb.map\": 1, \"pairs\": [{\"a\": 1, \"b\": \"x\"}]}",
                                       "{\"plumb.map\": 1, \"pairs\": [{\"a\": \"x\\u0000y\"}]}",
                                       "{\"plumb.map\": 1, \"pairs\": [" };
    pl_err err = PL_ERR_INIT;
    pl_pair_map map;
    fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const pl_status st = pl_pair_map_read(bad[i], strlen(bad[i]), "m.json", &map, &err);
        assert_true(st == PL_E_FORMAT || st == PL_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, "m.json"));
        assert_null(map.rows);
    }
    static const char other[] =
        "{\"plumb.map\": 1, \"pairs\": [{\"a\": \"nobody\", \"b\": \"x\"}]}";
    set_up(&f, "(float[4] x) => (float[4] y) { y = Relu(x) }",
           "(float[4] x) => (float[4] y) { y = Relu(x) }");
    pm_check(pl_pair_map_read(other, strlen(other), "m", &map, &err), &err);
    pl_pair_options options = PL_PAIR_OPTIONS_INIT;
    options.map = &map;
    assert_int_equal(pl_pair_values(&f.side[0], &f.side[1], &options, &f.p, &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "'nobody'"));
    pl_pair_map_release(&map);
    tear_down(&f);
}

/* ---- repeated equal blocks ---- */

/* n residual blocks, or n attention-like ones; weights differ or are all the same. */
static char *blocks(int n, bool attention) {
    pl_buf text = PL_BUF_INIT;
    pl_buf_puts(&text,
                "(float[4,4] x) => (float[4,4] y) <float[4,4] w = "
                "{1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4] b = {1,2,3,4}> { h0 = Relu(x) ");
    for (int i = 0; i < n; i++) {
        if (attention) {
            pl_buf_printf(&text,
                          "q%d = MatMul(h%d, w) k%d = MatMul(h%d, w) v%d = MatMul(h%d, w) "
                          "t%d = Transpose(k%d) s%d = MatMul(q%d, t%d) p%d = Softmax(s%d) "
                          "o%d = MatMul(p%d, v%d) h%d = Add(h%d, o%d) ",
                          i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i + 1, i, i);
        } else {
            pl_buf_printf(&text,
                          "a%d = MatMul(h%d, w) c%d = Add(a%d, b) r%d = Relu(c%d) "
                          "m%d = MatMul(r%d, w) h%d = Add(h%d, m%d) ",
                          i, i, i, i, i, i, i, i, i + 1, i, i);
        }
    }
    pl_buf_printf(&text, "y = Exp(h%d) }", n);
    return pl_buf_take(&text);
}

static void pair_blocks(int n, bool attention) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_pair_side a, b;
    pl_pairing p;
    pl_arena *arena = pl_arena_new();
    char *text = blocks(n, attention);
    pm_check(pl_model_parse_graph(text, 17, &model, &err), &err);
    pm_renamed r = pm_rename(model, 7, false);
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(r.model, arena, &b, &err), &err);
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    const pm_score s = pm_score_of(&p, &a, &b, &r, false);
    assert_int_equal(s.n_wrong, 0);
    assert_true(s.right >= 0.98);
    pl_pairing_release(&p);
    pm_renamed_free(&r);
    pl_model_free(model);
    pl_free(text);
    pl_arena_free(arena);
}

static void test_pair_structure__repeated_blocks(void **state) {
    (void)state;
    pair_blocks(24, false);
    pair_blocks(24, true);
    pair_blocks(2000, false);
}

/* ---- trouble ---- */

static void test_pair__recorded_graph_that_is_broken(void **state) {
    static const char *const bad[] = {
        "{",
        "[]",
        "{\"nodes\": [1, {}, {\"in\": 3, \"out\": \"x\"}]}",
        "{\"nodes\": [{\"op\": \"Relu\", \"in\": [\"y\"], \"out\": "
        "[\"y\"]}]}",
        "{\"nodes\": [{\"op\": \"A\", \"in\": [\"y\"], \"out\": "
        "[\"x\"]}, {\"op\": \"B\", \"in\": [\"x\"], \"out\": [\"y\"]}]}",
        "{\"nodes\": [{\"op\": \"A\", \"out\": [\"x\"]}, {\"op\": "
        "\"B\", \"out\": [\"x\"]}]}"
    };
    static const pl_status expected[] = { PL_E_FORMAT, PL_OK, PL_OK, PL_OK, PL_OK, PL_E_FORMAT };
    const pl_pair_item x[] = { item("x", "", 4), item("y", "", 4) };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_err err = PL_ERR_INIT;
        fixture f;
        bare(&f, x, 2, x, 2);
        f.side[0].graph_json = f.side[1].graph_json = bad[i];
        assert_int_equal(pl_pair_values(&f.side[0], &f.side[1], NULL, &f.p, &err), expected[i]);
        if (expected[i] == PL_OK) assert_int_equal(f.p.n_pairs, 2);
        tear_down(&f);
    }
}

static void test_pair__two_items_of_one_name(void **state) {
    const pl_pair_item x[] = { item("x", "", 4), item("x", "", 4) };
    pl_err err = PL_ERR_INIT;
    fixture f;
    (void)state;
    bare(&f, x, 2, x, 1);
    assert_int_equal(pl_pair_values(&f.side[0], &f.side[1], NULL, &f.p, &err), PL_E_INVALID);
    tear_down(&f);
}

static void test_pair__nothing_to_pair(void **state) {
    fixture f;
    (void)state;
    bare(&f, NULL, 0, NULL, 0);
    pair(&f, NULL);
    assert_int_equal(f.p.n_pairs, 0);
    tear_down(&f);
}

static void test_pair__survives_lack_of_memory(void **state) {
    fixture f;
    (void)state;
    set_up(&f, "(float[4] x) => (float[4] y) { h = Relu(x) g = Exp(x) y = Sub(h, g) }",
           "(float[4] x) => (float[4] q) { s = Exp(x) r = Relu(x) q = Sub(r, s) }");
    bool done = false;
    for (long n = 0; n < 2000 && !done; n++) {
        pl_err err = PL_ERR_INIT;
        pl_pairing p;
        pl_alloc_fail_after(n);
        const pl_status st = pl_pair_values(&f.side[0], &f.side[1], NULL, &p, &err);
        pl_alloc_fail_after(-1);
        assert_true(st == PL_OK || st == PL_E_MEMORY);
        done = st == PL_OK && p.n_pairs == 4;
        if (st == PL_OK) pl_pairing_release(&p);
    }
    assert_true(done);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair_name__same_names),
        cmocka_unit_test(test_pair_name__another_shape_is_reported),
        cmocka_unit_test(test_pair_name__unmapped_names_mean_nothing),
        cmocka_unit_test(test_pair_structure__without_names),
        cmocka_unit_test(test_pair_structure__leaves_twins_alone),
        cmocka_unit_test(test_pair_structure__a_missing_block_casts_doubt),
        cmocka_unit_test(test_pair_structure__says_what_was_fused),
        cmocka_unit_test(test_pair_structure__follows_folding),
        cmocka_unit_test(test_pair_structure__folds_views),
        cmocka_unit_test(test_pair_structure__works_in_bodies),
        cmocka_unit_test(test_pair_suffix__prefers_floats_to_codes),
        cmocka_unit_test(test_pair_debug__stands_for),
        cmocka_unit_test(test_pair_order__aligns_between_anchors),
        cmocka_unit_test(test_pair_order__ambiguous_stays_open),
        cmocka_unit_test(test_pair_order__shape_alone_is_too_little),
        cmocka_unit_test(test_pair_order__long_gaps_are_banded),
        cmocka_unit_test(test_pair_value__best_fit_and_layout),
        cmocka_unit_test(test_pair_value__statistics_alone),
        cmocka_unit_test(test_pair_map__round_trip),
        cmocka_unit_test(test_pair_map__wins_and_forbids),
        cmocka_unit_test(test_pair_map__bad_input),
        cmocka_unit_test(test_pair_structure__repeated_blocks),
        cmocka_unit_test(test_pair__recorded_graph_that_is_broken),
        cmocka_unit_test(test_pair__two_items_of_one_name),
        cmocka_unit_test(test_pair__nothing_to_pair),
        cmocka_unit_test(test_pair__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
