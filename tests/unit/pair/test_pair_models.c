/* Pairing on real models: every name replaced by a random string and the nodes reordered; with
 * equal weights and with others, from models and from the graphs of recordings; by values alone;
 * and against the graph that ONNX Runtime made of them.
 *
 * Models of .cache/models are used when they are there; PLUMB_TEST_MODELS=all takes every one of
 * them and prints the table.
 * slow: whole models, renamed and reordered */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/file.h"
#include "ops/op.h"
#include "pair_models.h"
#include "store/graph_json.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool take_all(void) {
    return getenv("PLUMB_TEST_MODELS") != NULL;
}

static const char *models_folder(void) {
    static char root[600];
    const ssize_t n = readlink("/proc/self/exe", root, sizeof root - 20);
    assert_true(n > 0);
    root[n] = '\0';
    *strrchr(root, '/') = '\0';
    *strrchr(root, '/') = '\0';
    strcat(root, "/.cache/models");
    return root;
}

static pl_model *open_model(const char *name) {
    static const char *const folders[] = { "", "torch/", "big/" };
    pl_err err = PL_ERR_INIT;
    char path[800];
    pl_model *model = NULL;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s%s.onnx", models_folder(), folders[i], name);
        if (!pl_path_exists(path)) continue;
        pm_check(pl_model_read(path, &model, &err), &err);
        return model;
    }
    return NULL;
}

/* clang-format off */
static const char *const all[] = {
    "ppocr_cls", "ppocr_det", "oww_embedding", "oww_mel", "oww_hey_jarvis", "retinaface_v1",
    "silero_v5", "silero_legacy", "moonshine_enc", "encoder", "resnet18", "recurrent", "control",
    "qdq", "mobilenet_v3_small",
    NULL /* with PLUMB_TEST_MODELS: */,
    "efficientnet_b0", "ddddocr", "ddddocr_det", "ddddocr_int8", "moonshine_dec", "oww_alexa",
    "oww_hey_mycroft", "oww_hey_rhasspy", "oww_timer", "oww_weather", "ppocr_rec_ch",
    "ppocr_rec_en", "ppocr_rec_ja", "ppocr_rec_latin", "retinaface_v2", "silero_v6", "vit_b_16",
    "nodes10k", "nodes30k", "nodes100k", NULL
};
/* clang-format on */

static void each_model(void (*fn)(const char *name, pl_model *model)) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] == NULL && !take_all()) break;
        pl_model *model = all[i] == NULL ? NULL : open_model(all[i]);
        if (model == NULL) continue;
        fn(all[i], model);
        pl_model_free(model);
        n++;
    }
    if (n == 0) skip();
}

static void report(const char *what, const char *name, const pm_score *s, double t) {
    if (take_all())
        printf("%-10s %-20s %6zu values, %6zu right (%.2f %%), %zu wrong, %.3f s\n", what, name,
               s->n_items, s->n_right, 100 * s->right, s->n_wrong, t);
}

/* ---- other names ---- */

static void pair_renamed(const char *what, const char *name, pl_model *model, bool perturb,
                         bool json) {
    pl_err err = PL_ERR_INIT;
    pl_pair_side a, b;
    pl_pairing p;
    pl_buf text[2] = { PL_BUF_INIT, PL_BUF_INIT };
    pl_arena *arena = pl_arena_new();
    pm_renamed r = pm_rename(model, 42, perturb);
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(r.model, arena, &b, &err), &err);
    if (json) {
        pm_check(pl_graph_json(model, &text[0], &err), &err);
        pm_check(pl_graph_json(r.model, &text[1], &err), &err);
        a.model = b.model = NULL;
        a.graph_json = pl_buf_str(&text[0]);
        b.graph_json = pl_buf_str(&text[1]);
    }
    const double t = seconds();
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    const pm_score s = pm_score_of(&p, &a, &b, &r, take_all());
    report(what, name, &s, seconds() - t);
    assert_int_equal(s.n_wrong, 0);
    assert_true(s.right >= 0.98);
    pl_pairing_release(&p);
    pm_renamed_free(&r);
    pl_buf_release(&text[0]);
    pl_buf_release(&text[1]);
    pl_arena_free(arena);
}

static void renamed(const char *name, pl_model *model) {
    pair_renamed("renamed", name, model, false, false);
}

static void renamed_perturbed(const char *name, pl_model *model) {
    pair_renamed("weights", name, model, true, false);
}

static void renamed_json(const char *name, pl_model *model) {
    pair_renamed("json", name, model, false, true);
}

/* Names that mean something else on the other side: exporters count, and counts shift. */
static void pair_rotated(const char *name, pl_model *model, size_t rotate) {
    pl_err err = PL_ERR_INIT;
    pl_pair_side a, b;
    pl_pairing p;
    pl_arena *arena = pl_arena_new();
    pm_renamed r = pm_rename_by(model, 45, false, rotate);
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(r.model, arena, &b, &err), &err);
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    const pm_score s = pm_score_of(&p, &a, &b, &r, take_all());
    report(rotate == 1 ? "shifted" : "permuted", name, &s, 0);
    assert_int_equal(s.n_wrong, 0);
    pl_pairing_release(&p);
    pm_renamed_free(&r);
    pl_arena_free(arena);
}

static void rotated(const char *name, pl_model *model) {
    if (model->graph->n_values < 40) return;        /* too few names to tell that they lie */
    if (strcmp(name, "moonshine_dec") == 0) return; /* names of bodies would hide outer ones */
    pair_rotated(name, model, 1);
    pair_rotated(name, model, model->graph->n_values / 2);
}

static void test_pair__does_not_believe_names_that_lie(void **state) {
    (void)state;
    each_model(rotated);
}

static void test_pair__finds_renamed_values(void **state) {
    (void)state;
    each_model(renamed);
}

static void test_pair__finds_renamed_values_with_other_weights(void **state) {
    (void)state;
    each_model(renamed_perturbed);
}

static void test_pair__finds_renamed_values_in_recorded_graphs(void **state) {
    (void)state;
    each_model(renamed_json);
}

/* ---- values ---- */

static void pair_by_values(const char *name, pl_model *model, double noise, bool graph,
                           double at_least) {
    pl_err err = PL_ERR_INIT;
    char io[800];
    pl_pairing p;
    pm_side a = { 0 }, b = { 0 };
    pl_pair_side plain;
    pl_arena *arena = pl_arena_new();
    snprintf(io, sizeof io, "%s/io/%s", models_folder(), name);
    pm_values v = pm_run(model, io);
    pm_renamed r = pm_rename(model, 43, noise > 0);
    pm_check(pl_pair_side_of_model(model, arena, &plain, &err), &err);
    a.side = plain;
    pm_check(pl_pair_side_of_model(r.model, arena, &b.side, &err), &err);
    pm_add_values(&a, &v, &plain, NULL, 0, arena);
    pm_add_values(&b, &v, &plain, &r, noise, arena);
    if (!graph) {
        pm_forget_graph(&a, true);
        pm_forget_graph(&b, true);
    }
    const double t = seconds();
    pm_check(pl_pair_values(&a.side, &b.side, NULL, &p, &err), &err);
    const pm_score s = pm_score_of(&p, &a.side, &b.side, &r, take_all());
    report(graph ? "values" : noise > 0 ? "fit" : "hash", name, &s, seconds() - t);
    assert_int_equal(s.n_wrong, 0);
    assert_true(s.right >= at_least);
    pl_pairing_release(&p);
    pm_side_free(&a);
    pm_side_free(&b);
    pm_renamed_free(&r);
    pm_values_free(&v);
    pl_arena_free(arena);
}

/* The share that values alone must find: the rest are constants, copies and tiny tensors. */
static const struct {
    const char *name;
    double by_value;
} runnable[] = { { "ppocr_cls", 0.85 },    { "oww_embedding", 0.95 }, { "encoder", 0.25 },
                 { "retinaface_v1", 0.9 }, { "silero_v5", 0.15 },     { "qdq", 0.6 } };

/* tests/models/run writes them: generated ones are too small for a network of images. */
static bool has_inputs(const char *name) {
    char path[800];
    snprintf(path, sizeof path, "%s/io/%s/input_0.npy", models_folder(), name);
    return pl_path_exists(path);
}

static void each_runnable(double noise, bool graph) {
    for (size_t i = 0; i < sizeof runnable / sizeof *runnable; i++) {
        if (!has_inputs(runnable[i].name)) skip();
        pl_model *model = open_model(runnable[i].name);
        if (model == NULL) skip();
        pair_by_values(runnable[i].name, model, noise, graph, graph ? 0.98 : runnable[i].by_value);
        pl_model_free(model);
    }
}

static void test_pair__finds_renamed_values_with_recorded_values(void **state) {
    (void)state;
    each_runnable(0, true);
    each_runnable(1e-6, true);
}

static void test_pair__finds_values_without_names_or_graphs(void **state) {
    (void)state;
    each_runnable(0, false);
    each_runnable(1e-6, false);
}

/* ---- what ONNX Runtime makes of it ---- */

static bool have_ort(void) {
    pl_backend *b = NULL;
    const pl_backend_options guarded = { .guarded = true };
    const bool found = pl_backend_open("ort", &guarded, &b, NULL) == PL_OK;
    pl_backend_close(b);
    return found;
}

static pl_model *optimised(pl_model *model, const char *spec) {
    pl_err err = PL_ERR_INIT;
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    pl_model *out = NULL;
    pl_bytes bytes;
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 120 };
    const pl_compile_options compile = { .threads = 1, .record = true };
    pl_ops_resolve(model, NULL);
    pm_check(pl_backend_open(spec, &guarded, &backend, &err), &err);
    pm_check(pl_program_new(backend, model, &compile, &program, &err), &err);
    pm_check(pl_program_executed(program, &bytes, &err), &err);
    pm_check(pl_model_read_bytes(bytes, NULL, NULL, "executed", &out, &err), &err);
    pl_program_free(program);
    pl_backend_close(backend);
    return out;
}

/* Names that survive keep their meaning (blame.md 1.1): those pairs, and no other of these. */
static void pair_optimised(const char *name, pl_model *model, const char *spec) {
    pl_err err = PL_ERR_INIT;
    pl_pair_side a, b;
    pl_pairing p;
    pl_arena *arena = pl_arena_new();
    pl_model *out = optimised(model, spec);
    size_t n_alive = 0, n_right = 0, n_wrong = 0, n_new = 0, n_fused = 0, n_explained = 0;
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(out, arena, &b, &err), &err);
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    for (size_t i = 0; i < a.n_items; i++) {
        const pl_value *v = pl_graph_find(out->graph, a.items[i].name);
        n_alive += v != NULL && (v->producer != NULL || v->is_input) && *a.items[i].graph == '\0';
    }
    for (size_t i = 0; i < p.n_pairs; i++) {
        const pl_pair_item *x = &a.items[p.pairs[i].a], *y = &b.items[p.pairs[i].b];
        const bool same = strcmp(x->name, y->name) == 0;
        const bool alive = pl_graph_find(out->graph, x->name) != NULL ||
                           pl_graph_find(model->graph, y->name) != NULL;
        n_right += same && *x->graph == '\0';
        n_wrong += !same && alive && *x->graph == '\0';
        n_new += !same && !alive;
        n_fused += strcmp(p.pairs[i].relation, "n:1") == 0;
        if (!same && take_all())
            printf("    new: %s (%s) - %s (%s) by %s, %s\n", x->name, x->op, y->name, y->op,
                   p.pairs[i].method, p.pairs[i].how);
    }
    for (size_t i = 0; i < p.n_unpaired_a; i++) {
        n_explained += p.unpaired_a[i].expected;
        if (!p.unpaired_a[i].expected && take_all())
            printf("    open: %s (%s): %s\n", a.items[p.unpaired_a[i].item].name,
                   a.items[p.unpaired_a[i].item].op, p.unpaired_a[i].reason);
    }
    if (take_all())
        printf("ort %-18s %-16s %5zu values, %5zu alive, %5zu right, %zu wrong, %zu new, %zu n:1, "
               "%zu open, %zu of them explained\n",
               name, spec, a.n_items, n_alive, n_right, n_wrong, n_new, n_fused, p.n_unpaired_a,
               n_explained);
    assert_int_equal(n_wrong, 0);
    assert_int_equal(n_right, n_alive);
    pl_pairing_release(&p);
    pl_model_free(out);
    pl_arena_free(arena);
}

static void test_pair__follows_what_ort_keeps(void **state) {
    static const char *const names[] = { "ppocr_cls", "oww_embedding", "encoder",
                                         "resnet18",  "silero_v5",     "moonshine_enc" };
    (void)state;
    if (!have_ort()) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pl_model *model = open_model(names[i]);
        if (model == NULL) skip();
        pair_optimised(names[i], model, "ort:opt=basic");
        pair_optimised(names[i], model, "ort:opt=all");
        pl_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair__finds_renamed_values),
        cmocka_unit_test(test_pair__does_not_believe_names_that_lie),
        cmocka_unit_test(test_pair__finds_renamed_values_with_other_weights),
        cmocka_unit_test(test_pair__finds_renamed_values_in_recorded_graphs),
        cmocka_unit_test(test_pair__finds_renamed_values_with_recorded_values),
        cmocka_unit_test(test_pair__finds_values_without_names_or_graphs),
        cmocka_unit_test(test_pair__follows_what_ort_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
