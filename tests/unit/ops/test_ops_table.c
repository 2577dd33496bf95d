/* The operator table itself: rows are well-formed, and every sample of every row runs, gives what
 * the shape rule promised, does not depend on the number of threads, and agrees with gold. */
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

#include "base/alloc.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "ops/infer.h"

static const char *domain_of(const pl_op_def *row) {
    return row->domain == NULL ? "" : row->domain;
}

static void test_rows__have_every_rule(void **state) {
    (void)state;
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (row->infer == NULL || row->eval == NULL || row->grad == NULL || row->bound == NULL ||
            row->emit == NULL || (row->emit == pl_emit_never) != (row->no_emit != NULL) ||
            row->emit == PL_EMIT_TODO || row->autocast == 0 || row->in == NULL ||
            row->out == NULL || row->samples == NULL || row->samples[0].graph == NULL ||
            row->since < 1 || (row->until != 0 && row->until < row->since)) {
            fail_msg("row %s-%d of family %s is incomplete", row->name, row->since,
                     pl_op_family(i));
        }
        for (const pl_op_attr *a = row->attrs; a != NULL && a->name != NULL; a++) {
            if (a->type == PL_ATTR_NONE)
                fail_msg("%s: attribute %s has no type", row->name, a->name);
        }
    }
}

static bool overlap(const pl_op_def *a, const pl_op_def *b) {
    const int a_end = a->until == 0 ? INT32_MAX : a->until;
    const int b_end = b->until == 0 ? INT32_MAX : b->until;
    return a->since <= b_end && b->since <= a_end;
}

static void test_rows__serve_each_version_once(void **state) {
    (void)state;
    const pl_op_def *a = NULL, *b = NULL;
    for (size_t i = 0; (a = pl_op_at(i)) != NULL; i++) {
        for (size_t k = i + 1; (b = pl_op_at(k)) != NULL; k++) {
            if (strcmp(a->name, b->name) != 0 || strcmp(domain_of(a), domain_of(b)) != 0) continue;
            if (overlap(a, b)) {
                fail_msg("%s: versions %d-%d and %d-%d overlap", a->name, a->since, a->until,
                         b->since, b->until);
            }
        }
    }
}

static void test_rows__of_one_operator_stand_together(void **state) {
    (void)state;
    const pl_op_def *a = NULL;
    for (size_t i = 0; (a = pl_op_at(i)) != NULL; i++) {
        const pl_op_def *next = pl_op_at(i + 1);
        if (next != NULL && strcmp(a->name, next->name) == 0) continue;
        const pl_op_def *b = NULL;
        for (size_t k = i + 1; (b = pl_op_at(k)) != NULL; k++) {
            if (strcmp(a->name, b->name) == 0 && strcmp(domain_of(a), domain_of(b)) == 0) {
                fail_msg("%s: rows are apart", a->name);
            }
        }
    }
}

/* ---- columns ---- */

static size_t count_ports(const pl_port *ports) {
    size_t n = 0;
    while (ports[n].name != NULL)
        n++;
    return n;
}

static bool has_attr(const pl_op_def *row, const char *name) {
    for (const pl_op_attr *a = row->attrs; a != NULL && a->name != NULL; a++)
        if (strcmp(a->name, name) == 0) return true;
    return false;
}

static void test_columns__fit_the_ports_and_attributes(void **state) {
    (void)state;
    const pl_op_def *row = NULL;
    size_t n_plain = 0, n_next = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        const size_t n_in = count_ports(row->in);
        const bool control = (row->flags & PL_OP_CONTROL) != 0;
        const bool any_order = (row->flags & PL_OP_ANY_ORDER) != 0;
        if ((row->bodies != PL_BODIES_NONE) != control) fail_msg("%s: bodies", row->name);
        if (any_order && ((row->flags & PL_OP_PICKS) == 0 || !has_attr(row, "sorted")))
            fail_msg("%s: any order", row->name);
        if (row->weights != PL_WEIGHTS_NONE && (n_in < 2 || (row->flags & PL_OP_SUMS) == 0))
            fail_msg("%s: weights", row->name);
        if (row->folds != NULL && n_in < 2) fail_msg("%s: folds", row->name);
        if ((row->flags & (PL_OP_QUANTIZE | PL_OP_DEQUANTIZE | PL_OP_TIMES)) != 0 && n_in < 2)
            fail_msg("%s: scale", row->name);
        if ((row->flags & PL_OP_FINDS_SCALE) != 0 && count_ports(row->out) < 2)
            fail_msg("%s: finds a scale", row->name);
        if (row->next != NULL && row->until == 0) fail_msg("%s: there is no next", row->name);
        n_next += row->next != NULL;
        if (row->plain == NULL) continue;
        n_plain++;
        const pl_op_def *plain = pl_op_find("", row->plain->op, 1000);
        if (plain == NULL) fail_msg("%s: no plain form %s", row->name, row->plain->op);
        for (const signed char *slot = row->plain->slots; *slot >= 0; slot++)
            if ((size_t)*slot >= n_in) fail_msg("%s: slot %d", row->name, *slot);
    }
    assert_int_equal(n_plain, 15);
    assert_int_equal(n_next, 4);
}

static void assert_near(double found, double expected, double off) {
    if (!(fabs(found - expected) <= off)) fail_msg("%.17g, expected %.17g", found, expected);
}

/* x * g / sqrt(v + epsilon) and x * c, x / c: by what a channel is multiplied. */
static void test_columns__tell_what_folds_into_weights(void **state) {
    (void)state;
    static const struct {
        const char *graph;
        double scale;
    } cases[] = {
        { "(float[1,2,3] x) => (y) <float[2] g = {3, 6}, float[2] b = {0, 0}, float[2] m = {0, 0}, "
          "float[2] v = {1, 3}> { y = BatchNormalization<epsilon=1.0>(x, g, b, m, v) }",
          3 },
        { "(float[1,2,3] x) => (y) <float[2,1] c = {3, -4}> { y = Mul(x, c) }", 4 },
        { "(float[1,2,3] x) => (y) <float c = {-8}> { y = Div(x, c) }", 0.125 },
        { "(float[1,2,3] x) => (y) { c = Constant<value = float {5}>() y = Mul(x, c) }", 5 },
        { "(float[1,2,3] x, float[1] c) => (y) { y = Mul(x, c) }", 1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pl_model *model = NULL;
        pl_err err = PL_ERR_INIT;
        if (pl_model_parse_graph(cases[i].graph, 17, &model, &err) != PL_OK ||
            pl_ops_resolve(model, &err) != PL_OK)
            fail_msg("%s", err.message);
        const pl_node *node = model->graph->nodes[model->graph->n_nodes - 1];
        assert_non_null(node->def->folds);
        assert_near(node->def->folds(node, 1), cases[i].scale, 1e-12);
        pl_model_free(model);
    }
}

/* ---- samples ---- */

enum { N_THREADS = 4, MAX_PORTS = 64 };

typedef struct sample_run {
    pl_datum *out[MAX_PORTS];
    size_t n_out;
} sample_run;

static void sample_run_release(sample_run *r) {
    for (size_t i = 0; i < r->n_out; i++)
        pl_datum_unref(r->out[i]);
    r->n_out = 0;
}

static size_t split_ranges(char *text, const char **ranges, size_t max) {
    size_t n = 0;
    for (char *word = strtok(text, " "); word != NULL && n < max; word = strtok(NULL, " ")) {
        ranges[n++] = word;
    }
    return n;
}

static pl_status make_inputs(const pl_model *model, const pl_sample *sample, pl_datum **in,
                             pl_err *err) {
    char text[256] = "";
    const char *ranges[16];
    plumb_inputs source = { .seed = 7 };
    if (sample->ranges != NULL) snprintf(text, sizeof(text), "%s", sample->ranges);
    source.ranges = ranges;
    source.n_ranges = split_ranges(text, ranges, 16);
    return pl_inputs_make(model, &source, in, err);
}

static pl_status run_sample(pl_model *model, pl_datum *const *in, pl_pool *pool, bool fp64,
                            sample_run *out, pl_err *err) {
    const pl_interp_options options = { .pool = pool, .fp64 = fp64, .seed = 1 };
    pl_interp *interp = NULL;
    PL_TRY(pl_interp_new(model, &options, &interp, err));
    out->n_out = model->graph->n_outputs;
    const pl_status st = pl_interp_run(interp, in, out->out, err);
    pl_interp_free(interp);
    return st;
}

static bool has_row(const pl_model *model, const pl_op_def *row) {
    for (size_t i = 0; i < model->graph->n_nodes; i++) {
        if (model->graph->nodes[i]->def == row) return true;
    }
    return false;
}

/* NULL when fine, else what is wrong. */
static const char *type_trouble(const pl_type *type, const pl_datum *d) {
    if (type == NULL || type->kind == PL_TYPE_NONE) return NULL;
    if (type->kind != d->kind) return "the shape rule gives another kind than the kernel";
    if (type->kind != PL_TYPE_TENSOR) return NULL;
    if (type->dtype != PL_UNDEFINED && type->dtype != d->tensor->dtype) {
        return "the shape rule gives another dtype than the kernel";
    }
    if (!type->has_rank) return NULL;
    if (type->rank != d->tensor->rank) return "the shape rule gives another rank than the kernel";
    for (int k = 0; k < type->rank; k++) {
        if (pl_dim_known(type->dims[k]) && type->dims[k].value != d->tensor->dims[k]) {
            return "the shape rule and the kernel give different shapes";
        }
    }
    return NULL;
}

static const char *identical_trouble(const pl_datum *a, const pl_datum *b) {
    if (a->kind != b->kind || a->n_items != b->n_items) return "threads change the structure";
    if (a->kind == PL_TYPE_TENSOR) {
        return pl_tensor_identical(a->tensor, b->tensor) ? NULL : "threads change the result";
    }
    for (size_t i = 0; i < a->n_items; i++) {
        const char *trouble = identical_trouble(a->items[i], b->items[i]);
        if (trouble != NULL) return trouble;
    }
    return NULL;
}

/* A gross check that native and gold compute the same function: 1e-2 of the largest value for
 * types of at least fp16's precision. Rounding bounds are tested elsewhere. */
static const char *gold_trouble(const pl_datum *a, const pl_datum *gold) {
    if (a->kind != PL_TYPE_TENSOR || !pl_dtype_is_float(a->tensor->dtype) ||
        pl_dtype_unit_roundoff(a->tensor->dtype) > 0x1p-8) {
        return NULL;
    }
    if (gold->tensor->dtype != PL_F64) return "gold is not double";
    if (!pl_tensor_same_shape(a->tensor, gold->tensor)) return "gold has another shape";
    double largest = 0;
    for (int64_t i = 0; i < a->tensor->n_elements; i++) {
        const double g = fabs(pl_tensor_get_f64(gold->tensor, i));
        if (isfinite(g) && g > largest) largest = g;
    }
    for (int64_t i = 0; i < a->tensor->n_elements; i++) {
        const double x = pl_tensor_get_f64(a->tensor, i);
        const double g = pl_tensor_get_f64(gold->tensor, i);
        if (isnan(x) && isnan(g)) continue;
        if (x == g || fabs(x - g) <= 1e-2 * largest) continue;
        return "gold differs";
    }
    return NULL;
}

static const char *check_outputs(const pl_model *model, const pl_type *const *inferred,
                                 const sample_run *one, const sample_run *many,
                                 const sample_run *gold) {
    const bool random = pl_model_is_random(model);
    for (size_t i = 0; i < one->n_out; i++) {
        const char *trouble = type_trouble(inferred[i], one->out[i]);
        if (trouble == NULL) trouble = identical_trouble(one->out[i], many->out[i]);
        if (trouble == NULL && !random) trouble = gold_trouble(one->out[i], gold->out[i]);
        if (trouble != NULL) return trouble;
    }
    return NULL;
}

static bool check_sample(const pl_op_def *row, const pl_sample *sample, pl_pool *pool) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_datum *in[MAX_PORTS] = { 0 };
    sample_run one = { { 0 }, 0 }, many = { { 0 }, 0 }, gold = { { 0 }, 0 };
    const pl_type *inferred[MAX_PORTS] = { 0 };
    const char *trouble = NULL;
    const int opset = row->domain == NULL ? row->since : 17;
    pl_status st = pl_model_parse_graph(sample->graph, opset, &model, &err);
    if (st == PL_OK && row->domain != NULL) {
        st = pl_model_set_opset(model, row->domain, row->since, &err);
        for (size_t i = 0; i < model->graph->n_nodes; i++) {
            pl_node *node = model->graph->nodes[i];
            if (strcmp(node->domain, row->domain) == 0) node->opset = row->since;
        }
    }
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK && !has_row(model, row)) trouble = "the sample does not use the row";
    if (st == PL_OK) st = pl_model_infer(model, NULL, &err);
    for (size_t i = 0; st == PL_OK && i < model->graph->n_outputs; i++) {
        inferred[i] = model->graph->outputs[i]->type;
    }
    if (st == PL_OK) st = make_inputs(model, sample, in, &err);
    if (st == PL_OK) st = run_sample(model, in, NULL, false, &one, &err);
    if (st == PL_OK) st = run_sample(model, in, pool, false, &many, &err);
    if (st == PL_OK && (row->flags & PL_OP_NO_FP64) == 0) {
        st = run_sample(model, in, NULL, true, &gold, &err);
        if (st == PL_OK && trouble == NULL) {
            trouble = check_outputs(model, inferred, &one, &many, &gold);
        }
    }
    if (st != PL_OK) trouble = err.message;
    if (trouble != NULL) {
        print_error("%s-%d: %s: %s\n", row->name, row->since, sample->graph, trouble);
    }
    sample_run_release(&one);
    sample_run_release(&many);
    sample_run_release(&gold);
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_datum_unref(in[i]);
    pl_model_free(model);
    return trouble == NULL;
}

static void test_samples__run_and_keep_their_promises(void **state) {
    (void)state;
    pl_pool *pool = pl_pool_new(N_THREADS);
    const pl_op_def *row = NULL;
    size_t n_bad = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        for (const pl_sample *s = row->samples; s->graph != NULL; s++) {
            n_bad += !check_sample(row, s, pool);
        }
    }
    pl_pool_free(pool);
    assert_int_equal(n_bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows__have_every_rule),
        cmocka_unit_test(test_rows__serve_each_version_once),
        cmocka_unit_test(test_rows__of_one_operator_stand_together),
        cmocka_unit_test(test_columns__fit_the_ports_and_attributes),
        cmocka_unit_test(test_columns__tell_what_folds_into_weights),
        cmocka_unit_test(test_samples__run_and_keep_their_promises),
    };
    return cmocka_run_group_tests_name("ops_table", tests, NULL, NULL);
}
