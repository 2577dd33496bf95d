/* Pairing a float model with its quantised forms: QDQ and dynamic, as onnxruntime.quantization
 * writes them, under the names it gives and under random ones. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "graph/text/text.h"
#include "pair_models.h"

/* ---- a quantiser ---- */

static pl_value *add_value(pl_graph *g, const char *base, const char *suffix) {
    char name[400];
    pl_value *v = NULL;
    pl_err err = PL_ERR_INIT;
    snprintf(name, sizeof name, "%s%s", base, suffix);
    pm_check(pl_graph_add_value(g, name, &v, &err), &err);
    return v;
}

static pl_value *add_init(pl_graph *g, const char *base, const char *suffix, pl_dtype dtype,
                          int rank, const int64_t *dims) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    pl_value *v = add_value(g, base, suffix);
    pm_check(pl_tensor_new_zero(dtype, rank, dims, &t, &err), &err);
    for (int64_t i = 0; dtype == PL_F32 && i < t->n_elements; i++)
        ((float *)t->data)[i] = 0.02f;
    pm_check(pl_value_set_init(v, t, &err), &err);
    pl_tensor_unref(t);
    return v;
}

static pl_node *add_node(pl_graph *g, const char *op, size_t n_in, pl_value *const *in,
                         size_t n_out, pl_value *const *out) {
    pl_node *n = NULL;
    pl_err err = PL_ERR_INIT;
    pm_check(pl_graph_add_node(g, op, "", n_in, n_out, &n, &err), &err);
    for (uint32_t i = 0; i < n_in; i++)
        n->in[i] = in[i];
    for (uint32_t i = 0; i < n_out; i++)
        pl_node_set_output(n, i, out[i]);
    return n;
}

static bool is_dot(const pl_node *n) {
    return strcmp(n->op, "MatMul") == 0 || strcmp(n->op, "Conv") == 0 || strcmp(n->op, "Gemm") == 0;
}

/* The tensor of an initializer or a Constant; NULL for anything else. */
static const pl_tensor *weight_of(const pl_value *v) {
    if (v->init != NULL) return v->init;
    if (v->producer == NULL || strcmp(v->producer->op, "Constant") != 0) return NULL;
    const pl_attr *a = pl_node_attr(v->producer, "value");
    return a == NULL ? NULL : a->tensor;
}

static pl_value *qdq_weight(pl_graph *g, pl_value *w) {
    pl_value *q = NULL;
    char name[400];
    snprintf(name, sizeof name, "%s_DequantizeLinear_Output", w->name);
    q = pl_graph_find(g, name);
    if (q != NULL) return q;
    pl_value *codes =
        add_init(g, w->name, "_quantized", PL_I8, weight_of(w)->rank, weight_of(w)->dims);
    pl_value *scale = add_init(g, w->name, "_scale", PL_F32, 0, NULL);
    pl_value *zero = add_init(g, w->name, "_zero_point", PL_I8, 0, NULL);
    q = add_value(g, w->name, "_DequantizeLinear_Output");
    add_node(g, "DequantizeLinear", 3, (pl_value *[]){ codes, scale, zero }, 1, &q);
    return q;
}

static pl_value *qdq_activation(pl_graph *g, pl_value *x) {
    char name[400];
    snprintf(name, sizeof name, "%s_DequantizeLinear_Output", x->name);
    pl_value *dq = pl_graph_find(g, name);
    if (dq != NULL) return dq;
    pl_value *scale = add_init(g, x->name, "_scale", PL_F32, 0, NULL);
    pl_value *zero = add_init(g, x->name, "_zero_point", PL_U8, 0, NULL);
    pl_value *q = add_value(g, x->name, "_QuantizeLinear_Output");
    dq = add_value(g, x->name, "_DequantizeLinear_Output");
    add_node(g, "QuantizeLinear", 3, (pl_value *[]){ x, scale, zero }, 1, &q);
    add_node(g, "DequantizeLinear", 3, (pl_value *[]){ q, scale, zero }, 1, &dq);
    return dq;
}

static size_t quantise_qdq(pl_model *m) {
    pl_graph *g = m->graph;
    const size_t n = g->n_nodes;
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        pl_node *node = g->nodes[i];
        if (!is_dot(node) || weight_of(node->in[0]) != NULL) continue;
        node->in[0] = qdq_activation(g, node->in[0]);
        if (weight_of(node->in[1]) != NULL) node->in[1] = qdq_weight(g, node->in[1]);
        done++;
    }
    return done;
}

/* y = MatMul(x, w) or Conv(x, w, b) by integers: the value y stays, another node makes it. */
static void quantise_dot(pl_graph *g, pl_node *node) {
    const bool conv = strcmp(node->op, "Conv") == 0;
    pl_value *x = node->in[0], *w = node->in[1], *y = node->out[0];
    char name[400];
    pl_err err = PL_ERR_INIT;
    snprintf(name, sizeof name, "%s_quantized", x->name);
    pl_value *xq = pl_graph_find(g, name), *xs = NULL, *xz = NULL;
    if (xq == NULL) {
        xq = add_value(g, x->name, "_quantized");
        xs = add_value(g, x->name, "_scale");
        xz = add_value(g, x->name, "_zero_point");
        add_node(g, "DynamicQuantizeLinear", 1, &x, 3, (pl_value *[]){ xq, xs, xz });
    } else {
        xs = xq->producer->out[1];
        xz = xq->producer->out[2];
    }
    pl_value *wq, *ws, *wz;
    snprintf(name, sizeof name, "%s_quantized", w->name);
    wq = pl_graph_find(g, name);
    if (wq == NULL) {
        wq = add_init(g, w->name, "_quantized", PL_I8, weight_of(w)->rank, weight_of(w)->dims);
        ws = add_init(g, w->name, "_scale", PL_F32, 0, NULL);
        wz = add_init(g, w->name, "_zero_point", PL_I8, 0, NULL);
    } else {
        snprintf(name, sizeof name, "%s_scale", w->name);
        ws = pl_graph_find(g, name);
        snprintf(name, sizeof name, "%s_zero_point", w->name);
        wz = pl_graph_find(g, name);
    }
    pl_value *sum = add_value(g, y->name, "_output_quantized");
    pl_value *cast = add_value(g, y->name, "_output_quantized_cast_output");
    pl_value *scales = add_value(g, y->name, "_scales_mul");
    pl_node *n = NULL;
    n = add_node(g, conv ? "ConvInteger" : "MatMulInteger", 4, (pl_value *[]){ xq, wq, xz, wz }, 1,
                 &sum);
    for (uint32_t i = 0; i < node->n_attrs; i++) { /* ints and strings live in the model */
        pl_attr *a = pl_node_add_attr(n, node->attrs[i].name, node->attrs[i].type);
        assert_non_null(a);
        *a = node->attrs[i];
    }
    n = add_node(g, "Cast", 1, &sum, 1, &cast);
    pl_attr *to = pl_node_add_attr(n, "to", PL_ATTR_INT);
    assert_non_null(to);
    to->i = PL_F32;
    add_node(g, "Mul", 2, (pl_value *[]){ xs, ws }, 1, &scales);
    pm_check(pl_graph_add_node(g, "Mul", "", 2, 1, &n, &err), &err);
    n->in[0] = cast;
    n->in[1] = scales;
    node->out[0] = NULL;
    if (node->n_in < 3 || node->in[2] == NULL) {
        pl_node_set_output(n, 0, y);
        return;
    }
    pl_value *product = add_value(g, y->name, "_quant_product");
    pl_value *bias = add_init(g, y->name, "_bias_reshaped", PL_F32, 4, (int64_t[]){ 1, 1, 1, 1 });
    pl_node_set_output(n, 0, product);
    pm_check(pl_graph_add_node(g, "Add", "", 2, 1, &n, &err), &err);
    n->in[0] = product;
    n->in[1] = bias;
    pl_node_set_output(n, 0, y);
}

static size_t quantise_dynamic(pl_model *m) {
    pl_graph *g = m->graph;
    const size_t n = g->n_nodes;
    pl_err err = PL_ERR_INIT;
    bool *drop = pl_calloc(8 * n + 1000, 1); /* the graph grows */
    size_t done = 0;
    for (size_t i = 0; i < n; i++) {
        pl_node *node = g->nodes[i];
        if (!is_dot(node) || strcmp(node->op, "Gemm") == 0) continue;
        if (weight_of(node->in[0]) != NULL || weight_of(node->in[1]) == NULL) continue;
        quantise_dot(g, node);
        drop[i] = true;
        done++;
    }
    pm_check(pl_graph_remove_nodes(g, drop, &err), &err);
    pl_free(drop);
    return done;
}

/* ---- pairing ---- */

static pl_model *open_model(const char *name) {
    static const char *const folders[] = { "", "torch/" };
    static char root[600];
    pl_err err = PL_ERR_INIT;
    char path[800];
    pl_model *model = NULL;
    const ssize_t n = readlink("/proc/self/exe", root, sizeof root - 20);
    assert_true(n > 0);
    root[n] = '\0';
    *strrchr(root, '/') = '\0';
    *strrchr(root, '/') = '\0';
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/.cache/models/%s%s.onnx", root, folders[i], name);
        if (!pl_path_exists(path)) continue;
        pm_check(pl_model_read(path, &model, &err), &err);
        return model;
    }
    return NULL;
}

typedef struct score {
    size_t n_alive, n_right, n_wrong; /* float values of A that B has too */
} score;

/* names: of the quantised model, by id there; NULL = its own. */
static score count(const pl_pairing *p, const pl_pair_side *a, const pl_pair_side *b,
                   const pl_model *quantised, const pm_renamed *r, bool print) {
    score s = { 0, 0, 0 };
    bool *seen = pl_calloc(a->n_items + 1, 1);
    for (size_t i = 0; i < p->n_pairs; i++) {
        const char *x = a->items[p->pairs[i].a].name, *y = b->items[p->pairs[i].b].name;
        const pl_value *v = pl_graph_find(quantised->graph, x);
        const bool right = v != NULL && strcmp(r == NULL ? v->name : r->names[v->id], y) == 0;
        s.n_right += right;
        s.n_wrong += !right;
        seen[p->pairs[i].a] = true;
        if (!right && print)
            printf("    wrong: %s (%s) - %s (%s) by %s, %s\n", x, a->items[p->pairs[i].a].op, y,
                   b->items[p->pairs[i].b].op, p->pairs[i].method, p->pairs[i].how);
    }
    for (size_t i = 0; i < a->n_items; i++) {
        const bool alive = pl_graph_find(quantised->graph, a->items[i].name) != NULL;
        s.n_alive += alive;
        for (size_t k = 0; alive && !seen[i] && print && k < p->n_unpaired_a; k++)
            if (p->unpaired_a[k].item == i)
                printf("    open: %s (%s): %s\n", a->items[i].name, a->items[i].op,
                       p->unpaired_a[k].reason);
    }
    pl_free(seen);
    return s;
}

static void pair_quantised(const char *name, const pl_model *model, bool dynamic) {
    pl_err err = PL_ERR_INIT;
    pl_model *q = NULL;
    pl_pair_side a, b, c;
    pl_pairing p;
    const bool print = getenv("PLUMB_TEST_MODELS") != NULL;
    pl_arena *arena = pl_arena_new();
    pm_check(pl_model_copy(model, &q, &err), &err);
    const size_t n = dynamic ? quantise_dynamic(q) : quantise_qdq(q);
    pm_check(pl_graph_sort(q->graph, &err), &err);
    pm_check(pl_model_verify(q, &err), &err);
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(q, arena, &b, &err), &err);
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    const score s = count(&p, &a, &b, q, NULL, print);
    if (print)
        printf("%-8s %-20s %3zu ops quantised, %4zu alive, %4zu right, %zu wrong",
               dynamic ? "dynamic" : "qdq", name, n, s.n_alive, s.n_right, s.n_wrong);
    assert_int_equal(s.n_wrong, 0);
    assert_int_equal(s.n_right, s.n_alive);
    pl_pairing_release(&p);
    /* The same under random names: nothing wrong, and most of it. */
    pm_renamed r = pm_rename(q, 44, false);
    pm_check(pl_pair_side_of_model(r.model, arena, &c, &err), &err);
    pm_check(pl_pair_values(&a, &c, NULL, &p, &err), &err);
    if (print) printf("\n");
    const score t = count(&p, &a, &c, q, &r, print);
    if (print) printf("     renamed: %4zu right, %zu wrong\n", t.n_right, t.n_wrong);
    assert_int_equal(t.n_wrong, 0);
    pl_pairing_release(&p);
    pm_renamed_free(&r);
    pl_model_free(q);
    pl_arena_free(arena);
}

static const char *const names[] = { "encoder",         "resnet18",
                                     "ppocr_cls",       "mobilenet_v3_small",
                                     "oww_hey_rhasspy", "ppocr_rec_en" };

static void test_pair__float_with_qdq(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pl_model *model = open_model(names[i]);
        if (model == NULL) skip();
        pair_quantised(names[i], model, false);
        pl_model_free(model);
    }
}

static void test_pair__float_with_dynamic(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pl_model *model = open_model(names[i]);
        if (model == NULL) skip();
        pair_quantised(names[i], model, true);
        pl_model_free(model);
    }
}

/* A model that somebody else quantised: ddddocr's int8 file and its float one. */
static void test_pair__float_with_real_int8(void **state) {
    pl_err err = PL_ERR_INIT;
    pl_pair_side a, b;
    pl_pairing p;
    (void)state;
    pl_model *model = open_model("ddddocr"), *q = open_model("ddddocr_int8");
    if (model == NULL || q == NULL) skip();
    pl_arena *arena = pl_arena_new();
    pm_check(pl_pair_side_of_model(model, arena, &a, &err), &err);
    pm_check(pl_pair_side_of_model(q, arena, &b, &err), &err);
    pm_check(pl_pair_values(&a, &b, NULL, &p, &err), &err);
    size_t n_alive = 0, n_right = 0;
    for (size_t i = 0; i < a.n_items; i++) {
        const pl_value *v = pl_graph_find(q->graph, a.items[i].name);
        n_alive += v != NULL && (v->producer != NULL || v->is_input);
    }
    for (size_t i = 0; i < p.n_pairs; i++) {
        const bool same = strcmp(a.items[p.pairs[i].a].name, b.items[p.pairs[i].b].name) == 0;
        assert_true(same);
        n_right += same;
    }
    assert_true(n_alive >= 70);
    assert_int_equal(n_right, n_alive);
    for (size_t i = 0; i < p.n_unpaired_a; i++)
        assert_true(p.unpaired_a[i].expected);
    pl_pairing_release(&p);
    pl_model_free(model);
    pl_model_free(q);
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair__float_with_qdq),
        cmocka_unit_test(test_pair__float_with_dynamic),
        cmocka_unit_test(test_pair__float_with_real_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
