/* ONNX Runtime behind the vtable, against the interpreter; and that recording leaves it alone.
 *
 * Skipped without the library. Real models of .cache/models are recorded when they are there; the
 * environment PLUMB_TEST_MODELS=all takes every one of them and prints the table. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/strmap.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "ort_machine.h"
#include "sanitized.h"

typedef struct mapping { /* of a recording, against the interpreter's values */
    pl_strmap reference; /* name -> pl_datum */
    size_t n_mapped, n_nothing, n_renamed, n_unknown, n_misshapen;
    double worst; /* max |a - b| / max |b| of float values */
    char where[200];
} mapping;

typedef struct runs {
    pl_model *model;
    pl_backend *ort, *eager;
    pl_program *ort_program, *eager_program;
    pl_datum **in, **plain, **recorded, **reference;
    size_t n_in, n_out, n_seen;
    pl_err err;
} runs;

static bool have_ort(void) {
    pl_backend *b = NULL;
    const pl_backend_options guarded = { .guarded = true }; /* ORT leaks in whoever loads it */
    const bool found = pl_backend_open("ort", &guarded, &b, NULL) == PL_OK;
    pl_backend_close(b);
    return found;
}

static void check(const runs *r, pl_status st) {
    if (st != PL_OK) fail_msg("%s", r->err.message);
}

/* Compiles for ort (guarded) and makes inputs. */
static void runs_open(runs *r, const char *spec, const char *file, const char *io) {
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 120 };
    const pl_compile_options compile = { .file = file, .threads = 1, .record = true };
    char texts[16][800];
    const char *files[16];
    plumb_inputs inputs = { .files = files };
    pl_ops_resolve(r->model, NULL);
    r->n_in = r->model->graph->n_inputs;
    r->n_out = r->model->graph->n_outputs;
    r->in = pl_calloc(r->n_in + 1, sizeof(pl_datum *));
    r->plain = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    r->recorded = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    r->reference = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    if (io != NULL && strchr(io, '=') != NULL) files[inputs.n_files++] = io;
    for (size_t i = 0; io != NULL && inputs.n_files == i && i < r->n_in && i < 16; i++) {
        char path[700];
        snprintf(path, sizeof(path), "%.600s/input_%zu.npy", io, i);
        if (!pl_path_exists(path)) continue;
        snprintf(texts[inputs.n_files], sizeof(texts[0]), "%.80s=%.700s",
                 r->model->graph->inputs[i]->name, path);
        files[inputs.n_files] = texts[inputs.n_files];
        inputs.n_files++;
    }
    check(r, pl_inputs_make(r->model, &inputs, r->in, &r->err));
    check(r, pl_backend_open(spec, &guarded, &r->ort, &r->err));
    check(r, pl_program_new(r->ort, r->model, &compile, &r->ort_program, &r->err));
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

static void runs_close(runs *r) {
    drop(r->in, r->n_in);
    drop(r->plain, r->n_out);
    drop(r->recorded, r->n_out);
    drop(r->reference, r->n_out);
    pl_program_free(r->ort_program);
    pl_program_free(r->eager_program);
    pl_backend_close(r->ort);
    pl_backend_close(r->eager);
    pl_model_free(r->model);
}

static plumb_status count_value(void *ctx, const plumb_seen *seen, plumb_error *err) {
    runs *r = ctx;
    (void)err;
    assert_non_null(seen->datum);
    r->n_seen++;
    return PLUMB_OK;
}

static plumb_status keep_value(void *ctx, const plumb_seen *seen, plumb_error *err) {
    mapping *m = ctx;
    pl_datum *d = pl_datum_ref(pl_datum_of(seen->datum));
    (void)err;
    /* names live in the model */
    return pl_strmap_put(&m->reference, seen->name, d) == 0 ? PLUMB_OK : PLUMB_E_MEMORY;
}

/* Every value of the main graph, by the interpreter. */
static void mapping_open(mapping *m, runs *r) {
    plumb_record_info info;
    const plumb_hook hook = { .value = keep_value, .ctx = m };
    const pl_record_args args = { .hook = &hook };
    check(r, pl_backend_open("eager", NULL, &r->eager, &r->err));
    check(r, pl_program_new(r->eager, r->model, NULL, &r->eager_program, &r->err));
    check(r, pl_program_record(r->eager_program, r->in, &args, r->reference, &info, &r->err));
}

static void mapping_close(mapping *m) {
    for (size_t i = 0; i < m->reference.n_entries; i++)
        pl_datum_unref(m->reference.entries[i].value);
    pl_strmap_release(&m->reference);
}

static double distance(const pl_tensor *a, const pl_tensor *b) {
    double far = 0;
    for (int64_t i = 0; i < a->n_elements; i++) {
        far = fmax(far, fabs(pl_tensor_get_f64(a, i) - pl_tensor_get_f64(b, i)));
    }
    return far == 0 ? 0 : far / fmax(pl_tensor_max_abs(b), 1e-30);
}

/* Compares a value with the one that it says it stands for. */
static plumb_status check_mapping(void *ctx, const plumb_seen *seen, plumb_error *err) {
    mapping *m = ctx;
    (void)err;
    assert_true(seen->stands_for != NULL);
    assert_true(seen->n_stands_for <= 1);
    if (getenv("PLUMB_TEST_VERBOSE") != NULL) {
        printf("  %s -> %s\n", seen->name, seen->n_stands_for > 0 ? seen->stands_for[0] : "-");
    }
    if (seen->n_stands_for == 0) {
        m->n_nothing++;
        return PLUMB_OK;
    }
    const char *name = seen->stands_for[0];
    const pl_datum *got = pl_datum_of(seen->datum), *want = pl_strmap_get(&m->reference, name);
    m->n_mapped++;
    m->n_renamed += strcmp(name, seen->name) != 0;
    if (want == NULL) {
        m->n_unknown++;
        return PLUMB_OK;
    }
    if (got->kind != PL_TYPE_TENSOR || want->kind != PL_TYPE_TENSOR) return PLUMB_OK;
    if (!pl_tensor_same_shape(got->tensor, want->tensor) ||
        (got->tensor->dtype != want->tensor->dtype &&
         !(pl_dtype_is_float(got->tensor->dtype) && pl_dtype_is_float(want->tensor->dtype)))) {
        char a[200], b[200];
        m->n_misshapen++;
        print_error("%s as %s: %s, expected %s\n", seen->name, name,
                    pl_tensor_describe(got->tensor, a, sizeof(a)),
                    pl_tensor_describe(want->tensor, b, sizeof(b)));
        return PLUMB_OK;
    }
    const double far = distance(got->tensor, want->tensor);
    if (far > m->worst) {
        m->worst = far;
        snprintf(m->where, sizeof(m->where), "%.80s as %.80s", seen->name, name);
    }
    return PLUMB_OK;
}

static void close_enough(const pl_tensor *a, const pl_tensor *b) {
    assert_true(pl_tensor_same_shape(a, b));
    for (int64_t i = 0; i < a->n_elements; i++) {
        assert_true(fabs(pl_tensor_get_f64(a, i) - pl_tensor_get_f64(b, i)) < 1e-5);
    }
}

static const char graph_text[] =
    "(float[2,8] x, float[8,4] w) => (float[2,4] y) {"
    " m = MatMul(x, w) t = Tanh(m) r = Relu(t) y = Softmax<axis = 1>(r) }";

static void test_ort__agrees_with_eager(void **state) {
    static const char *const specs[] = { "ort:opt=off", "ort:opt=basic,threads=1",
                                         "ort:opt=extended", "ort:opt=all,deterministic",
                                         "ort:disable=MatMulAddFusion+GeluFusion" };
    (void)state;
    if (!have_ort()) skip();
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        runs r = { .err = PL_ERR_INIT };
        check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
        runs_open(&r, specs[i], NULL, NULL);
        check(&r, pl_program_run(r.ort_program, r.in, r.plain, &r.err));
        check(&r, pl_backend_open("eager", NULL, &r.eager, &r.err));
        check(&r, pl_program_new(r.eager, r.model, NULL, &r.eager_program, &r.err));
        check(&r, pl_program_run(r.eager_program, r.in, r.reference, &r.err));
        close_enough(r.plain[0]->tensor, r.reference[0]->tensor);
        runs_close(&r);
    }
}

static void test_eager__shows_every_value(void **state) {
    runs r = { .err = PL_ERR_INIT };
    plumb_record_info info;
    const plumb_hook hook = { .value = count_value, .ctx = &r };
    (void)state;
    check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
    runs_open(&r, "eager", NULL, NULL);
    assert_int_equal(pl_program_hooks(r.ort_program), 4);
    check(&r, pl_program_run(r.ort_program, r.in, r.plain, &r.err));
    const pl_record_args args = { .hook = &hook, .plain = r.plain };
    check(&r, pl_program_record(r.ort_program, r.in, &args, r.recorded, &info, &r.err));
    assert_int_equal(r.n_seen, 4);
    assert_int_equal(info.n_seen, 4);
    assert_true(pl_datum_identical(r.plain[0], r.recorded[0]));
    runs_close(&r);
}

/* Records in one mode and insists that the outputs are the plain ones, bit for bit. */
static void record(runs *r, const char *spec, const char *file, const char *io, size_t mode,
                   uint64_t limit, plumb_record_info *info) {
    const plumb_hook hook = { .value = count_value, .ctx = r };
    runs_open(r, spec, file, io);
    check(r, pl_program_run(r->ort_program, r->in, r->plain, &r->err));
    const pl_record_args args = {
        .hook = &hook, .plain = r->plain, .mode = mode, .memory_limit = limit
    };
    check(r, pl_program_record(r->ort_program, r->in, &args, r->recorded, info, &r->err));
    assert_int_equal(r->n_seen, info->n_seen);
}

static void expect_identical(const runs *r, const char *name) {
    for (size_t i = 0; i < r->n_out; i++) {
        if (!pl_datum_identical(r->plain[i], r->recorded[i])) {
            fail_msg("%s: output %zu changed while it was recorded", name, i);
        }
    }
}

static void test_ort_record__sees_values_in_both_modes(void **state) {
    (void)state;
    if (!have_ort()) skip();
    for (size_t mode = 0; mode < 2; mode++) {
        for (uint64_t limit = 0; limit < 2; limit++) { /* a limit of 1 byte: one value a run */
            runs r = { .err = PL_ERR_INIT };
            plumb_record_info info;
            check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
            record(&r, "ort:opt=all,threads=1", NULL, NULL, mode, limit, &info);
            assert_int_equal(info.differs, 0);
            assert_int_equal(info.n_seen, 4);
            assert_int_equal(info.n_values, 4);
            expect_identical(&r, "graph");
            runs_close(&r);
        }
    }
}

static void test_ort_record__shows_only_what_is_wanted(void **state) {
    runs r = { .err = PL_ERR_INIT };
    plumb_record_info info;
    const char *const names[] = { "t" };
    const plumb_hook hook = { .value = count_value, .ctx = &r, .names = names, .n_names = 1 };
    (void)state;
    if (!have_ort()) skip();
    check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
    runs_open(&r, "ort:threads=1", NULL, NULL);
    const pl_record_args args = { .hook = &hook };
    check(&r, pl_program_record(r.ort_program, r.in, &args, r.recorded, &info, &r.err));
    assert_int_equal(r.n_seen, 1);
    runs_close(&r);
}

static void test_ort_executed__gives_the_optimised_graph(void **state) {
    runs r = { .err = PL_ERR_INIT };
    pl_bytes onnx = { 0 };
    pl_model *executed = NULL;
    (void)state;
    if (!have_ort()) skip();
    check(&r, pl_model_parse_graph(graph_text, 17, &r.model, &r.err));
    runs_open(&r, "ort:threads=1", NULL, NULL);
    check(&r, pl_program_executed(r.ort_program, &onnx, &r.err));
    check(&r, pl_model_read_bytes(onnx, NULL, NULL, "executed", &executed, &r.err));
    assert_int_equal(executed->graph->n_nodes, 4);
    pl_model_free(executed);
    runs_close(&r);
}

static void test_ort__tells_a_model_it_cannot_run(void **state) {
    pl_model *model = NULL;
    pl_backend *b = NULL;
    pl_program *p = NULL;
    pl_err err = PL_ERR_INIT;
    (void)state;
    if (!have_ort()) skip();
    assert_int_equal(
        pl_model_parse_graph("(float[2] x) => (float[2] y) { y = Nonsense(x) }", 17, &model, &err),
        PL_OK);
    const pl_backend_options guarded = { .guarded = true };
    assert_int_equal(pl_backend_open("ort", &guarded, &b, &err), PL_OK);
    assert_int_equal(pl_program_new(b, model, NULL, &p, &err), PL_E_BACKEND);
    assert_non_null(strstr(err.message, "Nonsense"));
    pl_backend_close(b);
    pl_model_free(model);
}

/* Records behind the guard and compares every value that is shown with what it stands for. */
static void record_mapped(runs *r, const char *spec, const char *file, const char *io, mapping *m,
                          plumb_record_info *info) {
    const plumb_hook hook = { .value = check_mapping, .ctx = m };
    runs_open(r, spec, file, io);
    mapping_open(m, r);
    check(r, pl_program_run(r->ort_program, r->in, r->plain, &r->err));
    const pl_record_args args = { .hook = &hook, .plain = r->plain };
    check(r, pl_program_record(r->ort_program, r->in, &args, r->recorded, info, &r->err));
    mapping_close(m);
}

/* .cache/models beside the build folder that this program is in. */
static void models_root(char *root, size_t n_root) {
    const ssize_t n = readlink("/proc/self/exe", root, n_root - 20);
    assert_true(n > 0);
    root[n] = '\0';
    *strrchr(root, '/') = '\0';
    *strrchr(root, '/') = '\0';
    strcat(root, "/.cache/models");
}

/* MODELS/NAME.onnx or MODELS/torch/NAME.onnx, on the inputs that tests/models made for it. */
static void record_model(const char *root, const char *name, bool print) {
    char path[700], io[700];
    runs r = { .err = PL_ERR_INIT };
    mapping m = { .reference = PL_STRMAP_INIT };
    plumb_record_info info;
    const char *spec = getenv("PLUMB_TEST_SPEC");
    snprintf(path, sizeof(path), "%s/%s.onnx", root, name);
    if (!pl_path_exists(path)) snprintf(path, sizeof(path), "%s/torch/%s.onnx", root, name);
    snprintf(io, sizeof(io), "%s/io/%s", root, name);
    if (!pl_path_exists(path)) return;
    check(&r, pl_model_read(path, &r.model, &r.err));
    record_mapped(&r, spec == NULL ? "ort:threads=1" : spec, path, io, &m, &info);
    if (print) {
        printf("%-20s values %5zu seen %5zu hidden %5zu %s; mapped %5zu renamed %4zu nothing %4zu "
               "unknown %zu misshapen %zu worst %.1e %s\n",
               name, info.n_values, info.n_seen, info.n_hidden,
               info.differs ? "DIFFERS" : "identical", m.n_mapped, m.n_renamed, m.n_nothing,
               m.n_unknown, m.n_misshapen, m.worst, m.worst > 1e-3 ? m.where : "");
        fflush(stdout);
    } else {
        assert_int_equal(info.differs, 0);
        assert_true(info.n_seen > 0);
        assert_int_equal(m.n_unknown, 0);
        assert_int_equal(m.n_misshapen, 0);
        if (m.worst > 1e-3) fail_msg("%s is not what it stands for: %g", m.where, m.worst);
        expect_identical(&r, name);
    }
    runs_close(&r);
}

/* Constants that differ everywhere, so that a wrong order of channels shows. They are folded. */
#define WEIGHTS(name, type, shape, n)                                                              \
    name "_r = Range(z, " n ", o) " name "_s = Sin(" name "_r) " name                              \
         "_c = Constant<value_ints=" shape ">() " name "_f = Reshape(" name "_s, " name            \
         "_c) " name " = Cast<to=" type ">(" name "_f) "
#define CONV_NET(type_name, type)                                                                  \
    "(" type_name "[1,3,9,9] x) => (" type_name "[1,20,1,1] y)"                                    \
    "<float z = {0}, float o = {1}, float n1 = {540}, float n2 = {3600}, float n3 = {400}> "       \
    "{" WEIGHTS("w1", type, "[20,3,3,3]", "n1") WEIGHTS("w2", type, "[20,20,3,3]", "n2")           \
        WEIGHTS("w3", type, "[20,20,1,1]",                                                         \
                "n3") "c1 = Conv<pads=[1,1,1,1]>(x, w1) r1 = Relu(c1)"                             \
                      " c2 = Conv<pads=[1,1,1,1]>(r1, w2) a2 = Add(c2, r1) r2 = Relu(a2)"          \
                      " p3 = MaxPool<kernel_shape=[2,2], strides=[2,2]>(r2) c4 = Conv(p3, w3)"     \
                      " s4 = Sigmoid(c4) m4 = Mul(c4, s4) y = GlobalAveragePool(m4) }"

static void record_net(const char *text, const char *spec, mapping *m) {
    runs r = { .err = PL_ERR_INIT };
    plumb_record_info info;
    *m = (mapping){ .reference = PL_STRMAP_INIT };
    check(&r, pl_model_parse_graph(text, 17, &r.model, &r.err));
    record_mapped(&r, spec, NULL, NULL, m, &info);
    assert_int_equal(info.differs, 0);
    assert_int_equal(m->n_unknown, 0);
    assert_int_equal(m->n_misshapen, 0);
    expect_identical(&r, "net");
    runs_close(&r);
}

/* 20 channels lie in blocks of 16 or 8: padded to 32 or 24. */
static void test_ort_map__unblocks_channels(void **state) {
    mapping m;
    (void)state;
    if (!have_ort()) skip();
    record_net(CONV_NET("float", "1"), "ort:threads=1", &m);
    assert_true(m.n_renamed >= (ort_has_blocks() ? 2 : 0)); /* r1 and c4, as reorder_token_N */
    if (m.worst > 1e-5) fail_msg("%s is not what it stands for: %g", m.where, m.worst);
    record_net(CONV_NET("float", "1"), "ort:threads=1,opt=off", &m);
    assert_int_equal(m.n_renamed, 0);
}

/* float16 on the CPU is computed in float32, under names that are made up. */
static void test_ort_map__knows_float16_held_in_float32(void **state) {
    mapping m;
    (void)state;
    if (!have_ort()) skip();
    record_net(CONV_NET("float16", "10"), "ort:threads=1", &m);
    assert_true(m.n_renamed >= 4); /* r1, r2, c4, m4 */
    if (m.worst > 0.02) fail_msg("%s is not what it stands for: %g", m.where, m.worst);
}

/* The transpose optimiser moves quantised convolutions to NHWC and calls values after nodes. */
static void test_ort_map__turns_nhwc_back(void **state) {
    static const char text[] =
        "(float[1,8,6,6] x) => (float[1,8,6,6] y)"
        "<float s = {0.05}, uint8 zp = {128}, uint8 zero = {0}, float z = {0}, float o = {20},"
        " float n = {11520}, float ws = {0.01}, uint8 wz = {128}> {"
        " r = Range(z, n, o) sr = Sin(r) wc = Constant<value_ints=[8,8,3,3]>() wf = Reshape(sr, wc)"
        " wq = QuantizeLinear(wf, ws, wz) wd = DequantizeLinear(wq, ws, wz)"
        " xq = QuantizeLinear(x, s, zp) xd = DequantizeLinear(xq, s, zp)"
        " [one] c1 = Conv<pads=[1,1,1,1]>(xd, wd) r1 = Relu(c1) q1 = QuantizeLinear(r1, s, zero)"
        " d1 = DequantizeLinear(q1, s, zero)"
        " [two] c2 = Conv<pads=[1,1,1,1]>(d1, wd) q2 = QuantizeLinear(c2, s, zp)"
        " d2 = DequantizeLinear(q2, s, zp) y = Add(d2, xd) }";
    mapping m;
    (void)state;
    if (!have_ort()) skip();
    record_net(text, "ort:threads=1", &m);
    assert_true(m.n_renamed >= 1);
    if (m.worst > 0.02) fail_msg("%s is not what it stands for: %g", m.where, m.worst);
}

/* int8 codes become uint8, moved up by 128. */
static void test_ort_map__moves_codes_back(void **state) {
    static const char text[] =
        "(float[1,2,4,4] x) => (float[1,2,2,2] y) <float s = {0.1}, int8 z = {3}> {"
        " q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
        " p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(d)"
        " r = QuantizeLinear(p, s, z) y = DequantizeLinear(r, s, z) }";
    mapping m;
    (void)state;
    if (!have_ort()) skip();
    record_net(text, "ort:threads=1", &m);
    assert_int_equal(m.n_nothing, 0);
    assert_true(m.worst == 0);
}

static void test_ort_map__sees_resnet18_in_41_places(void **state) {
    char root[512], path[700], io[700];
    runs r = { .err = PL_ERR_INIT };
    mapping m = { .reference = PL_STRMAP_INIT };
    plumb_record_info info;
    (void)state;
    models_root(root, sizeof(root));
    snprintf(path, sizeof(path), "%s/torch/resnet18.onnx", root);
    snprintf(io, sizeof(io), "%s/io/resnet18", root);
    if (!have_ort() || !pl_path_exists(path) || !pl_path_is_dir(io)) skip();
    check(&r, pl_model_read(path, &r.model, &r.err));
    record_mapped(&r, "ort:threads=1", path, io, &m, &info);
    /* 24 of blame.md 1.1 and what 17 Relu read: they are split off convolutions on blocks only */
    assert_int_equal(m.n_mapped, ort_has_blocks() ? 41 : 24);
    assert_int_equal(m.n_misshapen, 0);
    if (m.worst > 1e-4) fail_msg("%s is not what it stands for: %g", m.where, m.worst);
    runs_close(&r);
}

static void record_bodies(const char *text, size_t n_seen, size_t n_hidden, size_t n_known) {
    runs r = { .err = PL_ERR_INIT };
    mapping m = { .reference = PL_STRMAP_INIT };
    plumb_record_info info;
    check(&r, pl_model_parse_graph(text, 17, &r.model, &r.err));
    record_mapped(&r, "ort:threads=1,opt=off", NULL, NULL, &m, &info);
    assert_int_equal(info.differs, 0);
    assert_int_equal(info.n_seen, n_seen);
    assert_int_equal(info.n_hidden, n_hidden);
    assert_int_equal(info.n_values, n_seen + n_hidden);
    assert_int_equal(m.n_mapped, n_seen);
    assert_int_equal(m.n_mapped - m.n_unknown, n_known);
    assert_int_equal(m.n_misshapen, 0);
    assert_true(m.worst < 1e-5);
    expect_identical(&r, "bodies");
    runs_close(&r);
}

/* n_known: those that the interpreter shows, too. It does not look into loops. */
/* 60 values of 8 MB: together they would break the limit of the guard. They come in groups of 40 MB
 * when that is asked for, and else in groups that the guard leaves room for. */
static void test_ort_record__groups_fit_the_memory_limit(void **state) {
    pl_buf text = PL_BUF_INIT;
    const uint64_t guard_limit = 320u << 20;
    (void)state;
    if (!have_ort() || SANITIZED) skip(); /* the sanitizer keeps freed memory */
    pl_buf_printf(&text, "(float[2097152] x) => (float[1] y) { v0 = Abs(x)");
    for (int i = 1; i < 60; i++)
        pl_buf_printf(&text, " v%d = %s(v%d)", i, i % 2 == 0 ? "Abs" : "Neg", i - 1);
    pl_buf_printf(&text, " y = ReduceSum(v59) }");
    for (uint64_t limit = 0; limit < 2; limit++) {
        runs r = { .err = PL_ERR_INIT };
        plumb_record_info info;
        const plumb_hook hook = { .value = count_value, .ctx = &r };
        const pl_backend_options guarded = { .guarded = true, .memory_limit = guard_limit };
        const pl_compile_options compile = { .threads = 1, .record = true };
        check(&r, pl_model_parse_graph(pl_buf_str(&text), 17, &r.model, &r.err));
        runs_open(&r, "eager", NULL, NULL); /* only for its inputs */
        pl_program_free(r.ort_program);
        pl_backend_close(r.ort);
        r.ort_program = NULL;
        r.ort = NULL;
        check(&r, pl_backend_open("ort:threads=1,opt=off", &guarded, &r.ort, &r.err));
        check(&r, pl_program_new(r.ort, r.model, &compile, &r.ort_program, &r.err));
        check(&r, pl_program_run(r.ort_program, r.in, r.plain, &r.err));
        const pl_record_args args = { .hook = &hook,
                                      .plain = r.plain,
                                      .memory_limit = limit * (40u << 20) };
        check(&r, pl_program_record(r.ort_program, r.in, &args, r.recorded, &info, &r.err));
        assert_int_equal(info.n_seen, 61);
        if (limit == 0) {
            assert_in_range(info.n_runs, 3, 12);
        } else {
            assert_int_equal(info.n_runs, 13); /* five at a time, then the sum */
        }
        expect_identical(&r, "groups");
        runs_close(&r);
    }
    pl_buf_release(&text);
}

/* ---- versions and options ---- */

static const char fusable_text[] =
    "(float[2,8] x) => (float[2,4] y) <float[8,4] w = {"
    "1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5}, float[4] b = {1,2,3,4}> {"
    " m = MatMul(x, w) a = Add(m, b) r = Relu(a) i = Identity(r) y = Softmax<axis = 1>(i) }";

/* Nodes of the graph that is executed under this spec. */
static size_t executed_nodes(const char *spec) {
    runs r = { .err = PL_ERR_INIT };
    pl_bytes onnx = { 0 };
    pl_model *executed = NULL;
    check(&r, pl_model_parse_graph(fusable_text, 17, &r.model, &r.err));
    runs_open(&r, spec, NULL, NULL);
    check(&r, pl_program_executed(r.ort_program, &onnx, &r.err));
    check(&r, pl_model_read_bytes(onnx, NULL, NULL, "executed", &executed, &r.err));
    const size_t n = executed->graph->n_nodes;
    pl_model_free(executed);
    runs_close(&r);
    return n;
}

static void test_ort_options__change_the_graph(void **state) {
    (void)state;
    if (!have_ort()) skip();
    assert_int_equal(executed_nodes("ort:opt=off"), 5);
    assert_int_equal(executed_nodes("ort:opt=basic"), 3);    /* Gemm, Relu, Softmax */
    assert_int_equal(executed_nodes("ort:opt=extended"), 2); /* FusedGemm, Softmax */
    assert_int_equal(executed_nodes("ort:opt=all"), 2);
    assert_int_equal(executed_nodes("ort"), 2);
    assert_int_equal(executed_nodes("ort:disable=GemmActivationFusion"), 3);
    assert_int_equal(executed_nodes("ort:disable=GemmActivationFusion+MatMulAddFusion"), 4);
    assert_int_equal(executed_nodes("ort:threads=2,deterministic,providers=CPU"), 2);
}

/* The error of opening and compiling. */
static void expect_refused(const char *spec, const char *part) {
    pl_model *model = NULL;
    pl_backend *b = NULL;
    pl_program *p = NULL;
    pl_err err = PL_ERR_INIT;
    const pl_backend_options guarded = { .guarded = true };
    assert_int_equal(pl_model_parse_graph(graph_text, 17, &model, &err), PL_OK);
    pl_status st = pl_backend_open(spec, &guarded, &b, &err);
    if (st == PL_OK) st = pl_program_new(b, model, NULL, &p, &err);
    if (st == PL_OK) fail_msg("%s is accepted", spec);
    if (strstr(err.message, part) == NULL) fail_msg("'%s' not in: %s", part, err.message);
    pl_program_free(p);
    pl_backend_close(b);
    pl_model_free(model);
}

static void test_ort_options__name_what_is_wrong(void **state) {
    (void)state;
    if (!have_ort()) skip();
    expect_refused("ort:opt=most", "off|basic|extended|all");
    expect_refused("ort:threads=many", "threads");
    expect_refused("ort:lib=/nowhere/libonnxruntime.so", "/nowhere/libonnxruntime.so");
    expect_refused("ort:lib=libm.so.6", "no OrtGetApiBase");
    expect_refused("ort:providers=CUDA", "provider 'CUDA'"); /* the npm library has none */
    expect_refused("ort:providers=Abacus", "provider 'Abacus'");
    expect_refused("ort:providers=CPU+webgpu", "no provider 'webgpu'; did you mean 'WebGPU'?");
}

/* Those that tools/fetch-ort has fetched, from the oldest to the newest. */
static size_t list_versions(char specs[][700], const char **versions) {
    static const char *const all[] = { "1.12.1", "1.14.0", "1.16.3", "1.19.2",
                                       "1.22.0", "1.24.3", "1.27.0", "1.30.0" };
    char root[512], lib[600];
    size_t n = 0;
    models_root(root, sizeof(root));
    *strrchr(root, '/') = '\0';
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!find_ort(lib, sizeof(lib), root, all[i])) continue;
        versions[n] = all[i];
        snprintf(specs[n++], 700, "ort:threads=1,lib=%s", lib);
    }
    return n;
}

static void test_ort_versions__run_and_record_alike(void **state) {
    char specs[8][700], home[] = "/tmp/plumb-test-home-XXXXXX";
    const char *versions[8];
    const size_t n = list_versions(specs, versions);
    (void)state;
    if (n == 0) skip();
    assert_non_null(mkdtemp(home));
    const char *old = getenv("HOME");
    char *keep = pl_strdup(old == NULL ? "/" : old);
    setenv("HOME", home, 1);
    for (size_t i = 0; i < n; i++) {
        runs r = { .err = PL_ERR_INIT };
        mapping m = { .reference = PL_STRMAP_INIT };
        plumb_record_info info;
        check(&r, pl_model_parse_graph(CONV_NET("float", "1"), 17, &r.model, &r.err));
        record_mapped(&r, specs[i], NULL, NULL, &m, &info);
        assert_string_equal(pl_backend_version(r.ort), versions[i]);
        assert_int_equal(info.differs, 0);
        assert_int_equal(m.n_misshapen + m.n_unknown, 0);
        if (m.n_mapped < 6 || m.worst > 1e-5) {
            fail_msg("%s: %zu mapped, worst %g %s", versions[i], m.n_mapped, m.worst, m.where);
        }
        expect_identical(&r, versions[i]);
        runs_close(&r);
    }
    setenv("HOME", keep, 1);
    pl_free(keep);
    assert_int_equal(rmdir(home), 0); /* empty: no telemetry was written */
}

static void test_ort_versions__two_at_a_time(void **state) {
    char specs[8][700];
    const char *versions[8];
    const size_t n = list_versions(specs, versions);
    runs a = { .err = PL_ERR_INIT }, b = { .err = PL_ERR_INIT };
    (void)state;
    if (n < 2) skip();
    check(&a, pl_model_parse_graph(graph_text, 17, &a.model, &a.err));
    check(&b, pl_model_parse_graph(graph_text, 17, &b.model, &b.err));
    runs_open(&a, specs[0], NULL, NULL);
    runs_open(&b, specs[n - 1], NULL, NULL);
    check(&a, pl_program_run(a.ort_program, a.in, a.plain, &a.err));
    check(&b, pl_program_run(b.ort_program, b.in, b.plain, &b.err));
    close_enough(a.plain[0]->tensor, b.plain[0]->tensor);
    runs_close(&a);
    runs_close(&b);
}

static void test_ort_versions__old_ones_lack_options(void **state) {
    char specs[8][700], spec[800];
    const char *versions[8];
    const size_t n = list_versions(specs, versions);
    (void)state;
    if (n == 0 || strcmp(versions[0], "1.12.1") != 0) skip();
    snprintf(spec, sizeof(spec), "%s,deterministic", specs[0]);
    expect_refused(spec, "ort 1.12.1 has no deterministic mode");
    snprintf(spec, sizeof(spec), "%s,disable=MatMulAddFusion", specs[0]);
    expect_refused(spec, "ort 1.12.1 cannot disable optimisers by name");
}

static void test_ort_record__looks_into_bodies_that_run_once(void **state) {
    (void)state;
    if (!have_ort()) skip();
    /* s, l, c, y; then a, b of the branch taken; z of the other stays hidden */
    record_bodies("(float[4] x) => (float[4] y) <float zero = {-1000}> {"
                  " s = ReduceSum<keepdims=0>(x) l = Less(s, zero) c = Not(l)"
                  " y = If<then_branch = t () => (float[4] a) { b = Tanh(x) a = Exp(b) },"
                  " else_branch = e () => (float[4] z) { z = Neg(x) }>(c) }",
                  6, 1, 6);
    /* a branch within a branch */
    record_bodies("(float[4] x) => (float[4] y) <bool yes = {1}, bool no = {0}> {"
                  " i = Identity(no) j = Identity(yes)"
                  " y = If<then_branch = t () => (float[4] a) { a = Tanh(x) },"
                  " else_branch = e () => (float[4] z) { k = Sin(x)"
                  "  z = If<then_branch = t2 () => (float[4] p) { q = Cos(k) p = Abs(q) },"
                  "  else_branch = e2 () => (float[4] u) { u = Neg(k) }>(j) }>(i) }",
                  7, 2, 7);
    /* a loop of one round: its body's condition, sum and scan output */
    record_bodies("(float[4] x) => (float[4] y, float[n,4] h) <int64 m = {1}, bool go = {1}> {"
                  " y, h = Loop<body = b (int64 i, bool c, float[4] v) =>"
                  "  (bool d, float[4] w, float[4] g) { d = Identity(c) w = Add(v, v)"
                  "  g = Tanh(w) }>(m, go, x) }",
                  5, 0, 2);
    /* three rounds: nobody could say which value is meant */
    record_bodies("(float[4] x) => (float[4] y, float[n,4] h) <int64 m = {3}, bool go = {1}> {"
                  " y, h = Loop<body = b (int64 i, bool c, float[4] v) =>"
                  "  (bool d, float[4] w, float[4] g) { d = Identity(c) w = Add(v, v)"
                  "  g = Tanh(w) }>(m, go, x) }",
                  2, 3, 2);
    record_bodies("(float[1,4] x, float[4] v) => (float[4] y, float[1,4] h) {"
                  " y, h = Scan<num_scan_inputs=1, body = b (float[4] s, float[4] t) =>"
                  "  (float[4] n, float[4] o) { n = Add(s, t) o = Tanh(n) }>(v, x) }",
                  4, 0, 2);
}

/* With every value marked as an output the QDQ mobilenet computes at level all what it computes at
 * level off, bit for bit; left alone its score is off by 0.306 (peers.md 1c). tests/python unpacks
 * it.
 */
static void test_ort_record__keeps_what_marking_would_hide(void **state) {
    static const char *const specs[] = { "ort:threads=1,opt=off", "ort:threads=1,opt=all" };
    char root[512], path[700], io[700];
    double scores[2][1001];
    (void)state;
    models_root(root, sizeof(root));
    *strrchr(root, '/') = '\0';
    snprintf(path, sizeof(path), "%s/conformance/mobilenet-qdq/model.onnx", root);
    snprintf(io, sizeof(io), "image=%s/conformance/mobilenet-qdq/test_data_set_0/input_0.pb", root);
    if (!have_ort() || !pl_path_exists(path)) skip();
    for (size_t k = 0; k < 2; k++) {
        runs r = { .err = PL_ERR_INIT };
        mapping m = { .reference = PL_STRMAP_INIT };
        plumb_record_info info;
        check(&r, pl_model_read(path, &r.model, &r.err));
        record_mapped(&r, specs[k], path, io, &m, &info);
        assert_int_equal(info.differs, 0);
        assert_int_equal(m.n_misshapen + m.n_unknown, 0);
        if (k == 1) assert_true(m.n_mapped >= 65); /* of 69: NHWC and called after nodes */
        expect_identical(&r, specs[k]);
        for (int64_t i = 0; i < r.recorded[0]->tensor->n_elements && i < 1001; i++)
            scores[k][i] = pl_tensor_get_f64(r.recorded[0]->tensor, i);
        runs_close(&r);
    }
    double far = 0;
    for (size_t i = 0; i < 1000; i++)
        far = fmax(far, fabs(scores[0][i] - scores[1][i]));
    assert_true(far > 0.30 && far < 0.31);
}

static void test_ort_record__leaves_real_models_alone(void **state) {
    static const char *const few[] = { "oww_embedding", "oww_mel", "ppocr_cls", "silero_v5",
                                       "retinaface_v1" };
    const char *wish = getenv("PLUMB_TEST_MODELS");
    char root[512], io[600];
    pl_dir_list list = { 0 };
    (void)state;
    models_root(root, sizeof(root));
    snprintf(io, sizeof(io), "%s/io", root);
    if (!have_ort() || !pl_path_is_dir(io)) skip();
    if (wish == NULL) {
        size_t n_seen = 0;
        for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++) {
            snprintf(io, sizeof(io), "%s/io/%s", root, few[i]);
            if (!pl_path_is_dir(io)) continue; /* a bench leaves inputs of its own models only */
            record_model(root, few[i], false);
            n_seen++;
        }
        if (n_seen == 0) skip();
        return;
    }
    assert_int_equal(pl_dir_list_read(io, &list, NULL), PL_OK);
    for (size_t i = 0; i < list.n_names; i++) {
        /* The inputs of control are numbered in another order than the model's. */
        if (strcmp(list.names[i], "control") != 0) record_model(root, list.names[i], true);
    }
    pl_dir_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eager__shows_every_value),
        cmocka_unit_test(test_ort__agrees_with_eager),
        cmocka_unit_test(test_ort_record__sees_values_in_both_modes),
        cmocka_unit_test(test_ort_record__shows_only_what_is_wanted),
        cmocka_unit_test(test_ort_executed__gives_the_optimised_graph),
        cmocka_unit_test(test_ort__tells_a_model_it_cannot_run),
        cmocka_unit_test(test_ort_map__unblocks_channels),
        cmocka_unit_test(test_ort_map__knows_float16_held_in_float32),
        cmocka_unit_test(test_ort_map__turns_nhwc_back),
        cmocka_unit_test(test_ort_map__moves_codes_back),
        cmocka_unit_test(test_ort_map__sees_resnet18_in_41_places),
        cmocka_unit_test(test_ort_record__groups_fit_the_memory_limit),
        cmocka_unit_test(test_ort_options__change_the_graph),
        cmocka_unit_test(test_ort_options__name_what_is_wrong),
        cmocka_unit_test(test_ort_versions__run_and_record_alike),
        cmocka_unit_test(test_ort_versions__two_at_a_time),
        cmocka_unit_test(test_ort_versions__old_ones_lack_options),
        cmocka_unit_test(test_ort_record__looks_into_bodies_that_run_once),
        cmocka_unit_test(test_ort_record__keeps_what_marking_would_hide),
        cmocka_unit_test(test_ort_record__leaves_real_models_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
