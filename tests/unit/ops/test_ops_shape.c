/* Shape rules on symbols, and what they refuse. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "graph/text/text.h"
#include "interp/interp.h"
#include "ops/infer.h"

/* The inferred type of the first output, or the message. */
static void infer(const char *graph, int opset, char *out, size_t n_out) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_buf buf = PL_BUF_INIT;
    pl_status st = pl_model_parse_graph(graph, opset, &model, &err);
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, &err);
    if (st == PL_OK) pl_type_print(&buf, model->graph->outputs[0]->type);
    snprintf(out, n_out, "%.500s", st == PL_OK ? pl_buf_str(&buf) : err.message);
    pl_buf_release(&buf);
    pl_model_free(model);
}

static void assert_infers(const char *graph, int opset, const char *want) {
    char have[600];
    infer(graph, opset, have, sizeof(have));
    if (strcmp(have, want) != 0) fail_msg("%s\n  gives %s\n  wanted %s", graph, have, want);
}

static void assert_refuses(const char *graph, int opset, const char *want) {
    char have[600];
    infer(graph, opset, have, sizeof(have));
    if (strstr(have, want) == NULL) fail_msg("%s\n  gives %s\n  wanted %s", graph, have, want);
}

static void test_reshape__keeps_symbols(void **state) {
    (void)state;
    assert_infers("(float[N,3,4] x) => (y) <int64[2] s = {0,-1}> { y = Reshape(x, s) }", 17,
                  "float[N,12]");
    assert_infers("(float[N,3,4] x) => (y) <int64[2] s = {-1,12}> { y = Reshape(x, s) }", 17,
                  "float[N,12]");
    assert_infers("(float[N,S,8] x) => (y) <int64[4] s = {0,0,2,4}> { y = Reshape(x, s) }", 17,
                  "float[N,S,2,4]");
    assert_infers(
        "(float[N,S,8] x) => (y) <int64[1] i = {0}, int64[1] j = {1}, int64[1] m = {-1}>"
        "{ sh = Shape(x) n = Slice(sh, i, j) t = Concat<axis=0>(n, m) y = Reshape(x, t) }",
        17, "float[N,?]");
    assert_infers(
        "(float[N,3,4] x) => (y) <int64[1] i = {0}, int64[1] j = {1}, int64[1] m = {-1}>"
        "{ sh = Shape(x) n = Slice(sh, i, j) t = Concat<axis=0>(n, m) y = Reshape(x, t) }",
        17, "float[N,12]");
    assert_infers("(float[2,3] x, int64[3] s) => (y) { y = Reshape(x, s) }", 17, "float[?,?,?]");
}

static void test_shape__arithmetic_is_followed(void **state) {
    (void)state;
    assert_infers("(float[N,C,4] x, float[N,C,9] z) => (y)"
                  "{ s = Shape<start=0, end=2>(z) e = Constant<value_ints=[5]>()"
                  "  t = Concat<axis=0>(s, e) y = ConstantOfShape(t) }",
                  17, "float[N,C,5]");
    assert_infers(
        "(float[N,C] x) => (y) { s = Shape(x) a, b = Split<axis=0>(s) y = ConstantOfShape(b) }", 13,
        "float[C]");
    assert_infers("(float[N,C] x) => (y) <int64[1] a = {0}>"
                  "{ s = Shape<end=1>(x) q = Squeeze(s, a) u = Unsqueeze(q, a) c = Cast<to=7>(u)"
                  "  i = Identity(c) y = Expand(x, i) }",
                  17, "float[N,?]");
    assert_infers("(float[N,C] x) => (y) <int64 z = {0}, int64 o = {1}, int64[1] a = {0}>"
                  "{ s = Shape<end=1>(x) q = Squeeze(s, a) y = Range(z, q, o) }",
                  17, "int64[N]");
}

static void test_transforms__keep_symbols(void **state) {
    (void)state;
    assert_infers("(float[N,3,H] x) => (y) { y = Transpose<perm=[2,0,1]>(x) }", 17, "float[H,N,3]");
    assert_infers("(float[N,3] x, float[N,4] z) => (y) { y = Concat<axis=1>(x, z) }", 17,
                  "float[N,7]");
    assert_infers("(float[N,3] x, float[2,S] z) => (y) { y = Concat<axis=1>(x, z) }", 17,
                  "float[2,?]");
    assert_infers("(float[N,5] x) => (y) <int64[1] s = {0}, int64[1] e = {9223372036854775807}, "
                  "int64[1] a = {0}> { y = Slice(x, s, e, a) }",
                  17, "float[N,5]");
    assert_infers("(float[N,5] x) => (y) <int64[1] s = {1}, int64[1] e = {-1}, int64[1] a = {1}>"
                  "{ y = Slice(x, s, e, a) }",
                  17, "float[N,3]");
    assert_infers("(float[N,5] x) => (y) <int64[2] p = {1,1}, int64[1] a = {-1}>"
                  "{ y = Pad(x, p, , a) }",
                  18, "float[N,7]");
    assert_infers("(float[N,1,S] x) => (y) { y = Squeeze<axes=[1]>(x) }", 11, "float[N,S]");
    assert_infers("(float[1,S,4] x) => (y) { y = Flatten(x) }", 17, "float[1,?]");
    assert_infers("(float[2,1,S] x) => (y) { y = Flatten<axis=1>(x) }", 17, "float[2,S]");
}

static void test_rules__refuse_nonsense(void **state) {
    (void)state;
    assert_refuses("(float[2,3] x) => (y) <int64[2] s = {4,2}> { y = Reshape(x, s) }", 17,
                   "cannot reshape 6 elements into 8");
    assert_refuses("(float[2,3] x) => (y) <int64[2] s = {-1,-1}> { y = Reshape(x, s) }", 17,
                   "more than one -1");
    assert_refuses("(float[2,3] x) => (y) <int64[3] s = {2,3,0}> { y = Reshape(x, s) }", 17,
                   "has rank 2");
    assert_refuses("(float[2,3] x) => (y) { y = Squeeze<axes=[0]>(x) }", 11,
                   "cannot squeeze axis 0");
    assert_refuses("(float[2,3] x) => (y) { y = Unsqueeze<axes=[0,-4]>(x) }", 11, "appears twice");
    assert_refuses("(float[2,3] x) => (y) { y = Transpose<perm=[0,0]>(x) }", 17, "axis 0 twice");
    assert_refuses("(float[2,3] x, float[2] z) => (y) { y = Concat<axis=0>(x, z) }", 17,
                   "has rank 1");
    assert_refuses("(float[2,3] x, float[4,3] z) => (y) { y = Concat<axis=1>(x, z) }", 17,
                   "dim 0 of input 1 is 4");
    assert_refuses("(float[5] x) => (a, b) { a, b = Split(x) }", 13, "2 equal parts");
    assert_refuses("(float[5] x) => (a, b) <int64[2] s = {2,2}> { a, b = Split(x, s) }", 13,
                   "add up to 4 elements");
    assert_refuses(
        "(float[5] x) => (y) <int64[1] o = {0}, int64[1] a = {0}> { y = Slice(x, o, o, a, o) }", 17,
        "step of axis 0 is 0");
    assert_refuses("(float[3] x) => (y) <int64[2] p = {-4,0}> { y = Pad(x, p) }", 17,
                   "pads -4 and 0");
    assert_refuses("(float[3] x) => (y) <int64[2] p = {-9223372036854775808,9223372036854775807}>"
                   "{ y = Pad(x, p) }",
                   17, "pads -9223372036854775808");
    assert_refuses("(float[0] x) => (y) <int64[2] p = {1,1}> { y = Pad<mode=\"edge\">(x, p) }", 17,
                   "no elements to pad from");
    assert_refuses("(float[2,3] x) => (y) { y = Cast<to=99>(x) }", 17, "not an element type");
    assert_refuses("(float[2,3] x) => (y) { y = BitCast<to=11>(x) }", 26, "have different sizes");
    assert_refuses("() => (y) <int64 a = {0}, int64 b = {5}> { y = Range(a, b, a) }", 17,
                   "finite range");
    assert_refuses("() => (y) <int64[1] s = {-2}> { y = ConstantOfShape(s) }", 17, "is -2");
    assert_refuses("(float[4294967296,4294967296] x) => (y) { y = Flatten<axis=0>(x) }", 17,
                   "63 bits");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshape__keeps_symbols),
        cmocka_unit_test(test_shape__arithmetic_is_followed),
        cmocka_unit_test(test_transforms__keep_symbols),
        cmocka_unit_test(test_rules__refuse_nonsense),
    };
    return cmocka_run_group_tests_name("ops_shape", tests, NULL, NULL);
}
