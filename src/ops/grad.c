/* The builder of gradient rules: nodes with inferred types, constants, shapes, sums. */
#include "ops/grad.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops/infer_int.h"

enum { OPSET_MIN = 9 }; /* numpy's broadcasting, Expand, Where */

/* ---- failing ---- */

int pl_g_opset(const pl_grad *c) {
    return pl_model_opset(c->graph->model, "");
}

pl_status pl_g_fail(pl_grad *c, const char *format, ...) {
    char text[400];
    va_list args;
    if (c->st != PL_OK) return c->st;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    c->st = pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node, "its gradient %s", text);
    return c->st;
}

static pl_dtype dtype_of(const pl_value *x) {
    return x->type != NULL && x->type->kind == PL_TYPE_TENSOR ? x->type->dtype : PL_UNDEFINED;
}

static void *fail_memory(pl_grad *c) {
    if (c->st == PL_OK) c->st = pl_fail_memory(c->err, 1);
    return NULL;
}

/* ---- what is known ---- */

const pl_tensor *pl_g_known(const pl_value *x) {
    if (x == NULL) return NULL;
    if (x->init != NULL) return x->is_input ? NULL : x->init; /* callers may override it */
    const pl_node *node = x->producer;
    if (!pl_node_has_flag(node, PL_OP_CONSTANT)) return NULL;
    const pl_attr *value = pl_node_attr(node, "value");
    return value != NULL && value->type == PL_ATTR_TENSOR ? value->tensor : NULL;
}

bool pl_g_known_ints(const pl_value *x, int64_t *out, size_t max, size_t *n) {
    const pl_tensor *t = pl_g_known(x);
    *n = 0;
    if (t != NULL) {
        if (!pl_dtype_is_integer(t->dtype) || t->n_elements > (int64_t)max) return false;
        for (; (int64_t)*n < t->n_elements; (*n)++)
            out[*n] = pl_tensor_get_i64(t, (int64_t)*n);
        return true;
    }
    const pl_node *node = x == NULL ? NULL : x->producer;
    if (!pl_node_has_flag(node, PL_OP_CONSTANT)) return false;
    const pl_attr *one = pl_node_attr(node, "value_int"), *list = pl_node_attr(node, "value_ints");
    if (one != NULL && one->type == PL_ATTR_INT && max > 0) out[(*n)++] = one->i;
    for (size_t i = 0; list != NULL && list->type == PL_ATTR_INTS && i < list->n; i++) {
        if (*n == max) return false;
        out[(*n)++] = list->ints[i];
    }
    return one != NULL || list != NULL;
}

/* ---- nodes ---- */

static bool copy_attr(pl_grad *c, pl_node *node, const pl_attr *from) {
    pl_arena *arena = c->graph->model->arena;
    pl_attr *to = pl_node_add_attr(node, from->name, from->type);
    if (to == NULL) return false;
    to->f = from->f;
    to->i = from->i;
    to->graph = from->graph;
    to->tensor = from->tensor;
    to->n = from->n;
    if (from->type == PL_ATTR_TENSOR && from->tensor != NULL) {
        return pl_model_keep_tensor_take(c->graph->model, from->tensor, c->err) == PL_OK;
    }
    if (from->type == PL_ATTR_STRING) {
        const char *copy = pl_model_intern(c->graph->model, from->s.data, from->s.n_bytes);
        to->s = (pl_string){ copy, from->s.n_bytes };
        return copy != NULL;
    }
    if (from->type == PL_ATTR_INTS) {
        int64_t *ints = pl_arena_array(arena, from->n + 1, sizeof(*ints));
        if (ints == NULL) return false;
        if (from->n > 0) memcpy(ints, from->ints, from->n * sizeof(*ints));
        to->ints = ints;
    }
    return true;
}

/* Types of the outputs, by the shape rule of the operator. */
static pl_status infer_types(pl_grad *c, pl_node *node) {
    static const pl_type unknown = { .kind = PL_TYPE_NONE };
    pl_arena *tables = pl_arena_new();
    if (tables == NULL) return pl_fail_memory(c->err, 1);
    const size_t n_in = node->n_in, n_out = node->n_out;
    const pl_type **in = pl_arena_array(tables, n_in + 1, sizeof(*in));
    const pl_tensor **tensor = pl_arena_array(tables, n_in + 1, sizeof(*tensor));
    const pl_content **content = pl_arena_array(tables, n_in + 1, sizeof(*content));
    const pl_type **out = pl_arena_array(tables, n_out + 1, sizeof(*out));
    const pl_content **out_content = pl_arena_array(tables, n_out + 1, sizeof(*out_content));
    pl_infer infer = { .node = node,
                       .arena = c->graph->model->arena,
                       .n_in = (int)n_in,
                       .n_out = (int)n_out,
                       .in = in,
                       .in_tensor = tensor,
                       .in_content = content,
                       .out = out,
                       .out_content = out_content,
                       .err = c->err };
    pl_status st = PL_OK;
    if (in == NULL || tensor == NULL || content == NULL || out == NULL || out_content == NULL) {
        st = pl_fail_memory(c->err, n_in);
        goto done;
    }
    for (size_t i = 0; i < n_in; i++) {
        const pl_value *x = node->in[i];
        if (x == NULL) continue;
        in[i] = x->type != NULL ? x->type : &unknown;
        tensor[i] = pl_g_known(x);
    }
    st = pl_infer_call(&infer);
    for (size_t i = 0; st == PL_OK && i < n_out; i++) {
        if (node->out[i] != NULL && out[i] != NULL && out[i]->kind != PL_TYPE_NONE)
            node->out[i]->type = out[i];
    }
done:
    pl_arena_free(tables);
    return st;
}

static pl_status add_node(pl_grad *c, const char *op, const char *domain, pl_value *const *in,
                          size_t n_in, const pl_attr *attrs, size_t n_attrs, pl_value **out,
                          size_t n_out) {
    pl_node *node = NULL;
    const char *after = c->node->op;
    for (uint32_t i = 0; i < c->node->n_out; i++) {
        if (c->node->out[i] == NULL) continue;
        after = c->node->out[i]->name;
        break;
    }
    PL_TRY(pl_graph_add_node(c->graph, op, domain, n_in, n_out, &node, c->err));
    const char *base = pl_arena_printf(c->graph->model->arena, "grad/%s/%s", after, op);
    if (base == NULL) return pl_fail_memory(c->err, 1);
    for (size_t i = 0; i < n_in; i++)
        node->in[i] = in[i];
    for (size_t i = 0; i < n_attrs; i++)
        if (!copy_attr(c, node, &attrs[i])) return pl_fail_memory(c->err, 1);
    for (size_t i = 0; i < n_out; i++) {
        if (out[i] == NULL) continue;
        PL_TRY(pl_graph_add_fresh_value(c->graph, base, &out[i], c->err));
        pl_node_set_output(node, (uint32_t)i, out[i]);
    }
    node->def = pl_op_find(domain, op, node->opset);
    if (domain[0] == '\0' && node->opset < OPSET_MIN)
        return pl_g_fail(c, "needs opset %d or later, the model has %d", OPSET_MIN, node->opset);
    if (node->def == NULL)
        return pl_g_fail(c, "needs op %s, which is missing from opset %d", op, node->opset);
    return infer_types(c, node);
}

pl_status pl_g_ops(pl_grad *c, const char *op, const char *domain, pl_value *const *in, size_t n_in,
                   const pl_attr *attrs, size_t n_attrs, pl_value **out, size_t n_out) {
    if (c->st == PL_OK) c->st = add_node(c, op, domain, in, n_in, attrs, n_attrs, out, n_out);
    for (size_t i = 0; c->st != PL_OK && i < n_out; i++)
        out[i] = NULL;
    return c->st;
}

pl_value *pl_g_op(pl_grad *c, const char *op, pl_value *const *in, size_t n_in,
                  const pl_attr *attrs, size_t n_attrs) {
    pl_value *out = PL_G_WANTED;
    (void)pl_g_ops(c, op, "", in, n_in, attrs, n_attrs, &out, 1);
    return out;
}

pl_value *pl_g1(pl_grad *c, const char *op, pl_value *x) {
    return pl_g_op(c, op, &x, 1, NULL, 0);
}
pl_value *pl_g2(pl_grad *c, const char *op, pl_value *x, pl_value *y) {
    return pl_g_op(c, op, (pl_value *const[]){ x, y }, 2, NULL, 0);
}
pl_value *pl_g3(pl_grad *c, const char *op, pl_value *x, pl_value *y, pl_value *z) {
    return pl_g_op(c, op, (pl_value *const[]){ x, y, z }, 3, NULL, 0);
}
pl_value *pl_g1_int(pl_grad *c, const char *op, pl_value *x, const char *name, int64_t i) {
    return pl_g_op(c, op, &x, 1, &PL_G_INT(name, i), 1);
}
pl_value *pl_g1_ints(pl_grad *c, const char *op, pl_value *x, const char *name, const int64_t *ints,
                     size_t n) {
    return pl_g_op(c, op, &x, 1, &PL_G_INTS(name, ints, n), 1);
}

/* ---- constants ---- */

pl_value *pl_g_tensor_take(pl_grad *c, pl_tensor *t) {
    pl_value *out = NULL;
    pl_dim dims[PL_RANK_MAX];
    if (c->st != PL_OK) {
        pl_tensor_unref(t);
        return NULL;
    }
    if (t == NULL) return fail_memory(c);
    for (int d = 0; d < t->rank; d++)
        dims[d] = pl_dim_of(t->dims[d]);
    c->st = pl_graph_add_fresh_value(c->graph, "grad/const", &out, c->err);
    if (c->st == PL_OK) c->st = pl_value_set_init(out, t, c->err);
    if (c->st == PL_OK) {
        out->type = pl_type_tensor(c->graph->model->arena, t->dtype, t->rank, dims);
        if (out->type == NULL) fail_memory(c);
    }
    pl_tensor_unref(t);
    return c->st == PL_OK ? out : NULL;
}

pl_value *pl_g_number_of(pl_grad *c, pl_dtype dtype, double number) {
    pl_tensor *t = NULL;
    if (c->st == PL_OK) c->st = pl_tensor_new(dtype, 0, NULL, &t, c->err);
    if (c->st != PL_OK) return NULL;
    pl_store_f64(dtype, &number, t->data, 1);
    return pl_g_tensor_take(c, t);
}

pl_value *pl_g_number(pl_grad *c, const pl_value *like, double number) {
    if (c->st != PL_OK) return NULL;
    const pl_dtype dtype = dtype_of(like);
    if (dtype == PL_UNDEFINED) {
        (void)pl_g_fail(c, "needs the type of '%s', which is not known", like->name);
        return NULL;
    }
    return pl_g_number_of(c, dtype, number);
}

pl_value *pl_g_ints(pl_grad *c, const int64_t *ints, size_t n) {
    const int64_t dims[1] = { (int64_t)n };
    pl_tensor *t = NULL;
    if (c->st == PL_OK) c->st = pl_tensor_new(PL_I64, 1, dims, &t, c->err);
    if (c->st != PL_OK) return NULL;
    if (n > 0) memcpy(t->data, ints, n * sizeof(*ints));
    return pl_g_tensor_take(c, t);
}

pl_value *pl_g_int(pl_grad *c, int64_t number) {
    pl_tensor *t = NULL;
    if (c->st == PL_OK) c->st = pl_tensor_new(PL_I64, 0, NULL, &t, c->err);
    if (c->st != PL_OK) return NULL;
    memcpy(t->data, &number, sizeof(number));
    return pl_g_tensor_take(c, t);
}

/* ---- shapes ---- */

static bool has_rank(const pl_value *x) {
    return x->type != NULL && x->type->kind == PL_TYPE_TENSOR && x->type->has_rank;
}

int pl_g_rank(pl_grad *c, const pl_value *x) {
    if (c->st != PL_OK) return -1;
    if (has_rank(x)) return x->type->rank;
    (void)pl_g_fail(c, "needs the rank of '%s', which is not known", x->name);
    return -1;
}

bool pl_g_is_concrete(const pl_value *x) {
    return x->type != NULL && pl_type_is_concrete(x->type);
}

bool pl_g_is_float(const pl_value *x) {
    const pl_dtype dtype = dtype_of(x);
    return dtype == PL_UNDEFINED || pl_dtype_is_float(dtype);
}

int64_t pl_g_dim(pl_grad *c, const pl_value *x, int axis) {
    const int rank = pl_g_rank(c, x);
    if (rank < 0) return -1;
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank && pl_dim_known(x->type->dims[axis]))
        return x->type->dims[axis].value;
    (void)pl_g_fail(c, "needs dim %d of '%s', which is not known", axis, x->name);
    return -1;
}

pl_value *pl_g_shape(pl_grad *c, pl_value *x) {
    int64_t dims[PL_RANK_MAX];
    if (c->st != PL_OK) return NULL;
    if (!pl_g_is_concrete(x)) return pl_g1(c, "Shape", x);
    for (int d = 0; d < x->type->rank; d++)
        dims[d] = x->type->dims[d].value;
    return pl_g_ints(c, dims, (size_t)x->type->rank);
}

static double n_elements(const pl_value *x) {
    double n = 1;
    for (int d = 0; d < x->type->rank; d++)
        n *= (double)x->type->dims[d].value;
    return n;
}

pl_value *pl_g_size(pl_grad *c, pl_value *x, const pl_value *like) {
    if (c->st != PL_OK) return NULL;
    if (!pl_g_is_concrete(x)) return pl_g_cast_like(c, pl_g1(c, "Size", x), like);
    return pl_g_number(c, like, n_elements(x));
}

/* Could a dim be 0? In the shape input of Reshape 0 means "copy the dim". */
static bool may_be_empty(const pl_value *x) {
    bool zero = !pl_g_is_concrete(x);
    for (int d = 0; !zero && d < x->type->rank; d++)
        zero = x->type->dims[d].value == 0;
    return zero;
}

/* Inference learns nothing from a shape that is computed, so set the type of `like` here. */
static pl_value *shaped_like(pl_grad *c, const char *op, pl_value *x, pl_value *like) {
    if (c->st != PL_OK) return NULL;
    if (x->type != NULL && like->type != NULL && pl_g_is_concrete(like) && pl_g_is_concrete(x) &&
        x->type->rank == like->type->rank) {
        bool same = true;
        for (int d = 0; d < x->type->rank; d++)
            same = same && x->type->dims[d].value == like->type->dims[d].value;
        if (same) return x;
    }
    pl_value *in[2] = { x, pl_g_shape(c, like) };
    const pl_attr exact = PL_G_INT("allowzero", 1);
    const bool zero = strcmp(op, "Reshape") == 0 && pl_g_opset(c) >= 14 && may_be_empty(like);
    pl_value *out = pl_g_op(c, op, in, 2, &exact, zero ? 1 : 0);
    if (out == NULL || !has_rank(like)) return out;
    const pl_dtype dtype = dtype_of(x);
    out->type = pl_type_tensor(c->graph->model->arena, dtype, like->type->rank, like->type->dims);
    return out->type == NULL ? fail_memory(c) : out;
}

pl_value *pl_g_reshape_like(pl_grad *c, pl_value *x, pl_value *like) {
    return shaped_like(c, "Reshape", x, like);
}
pl_value *pl_g_expand_like(pl_grad *c, pl_value *x, pl_value *like) {
    return shaped_like(c, "Expand", x, like);
}
pl_value *pl_g_zeros_like(pl_grad *c, pl_value *like) {
    return pl_g_expand_like(c, pl_g_number(c, like, 0), like);
}

pl_value *pl_g_reshape(pl_grad *c, pl_value *x, const int64_t *dims, size_t n) {
    return pl_g2(c, "Reshape", x, pl_g_ints(c, dims, n));
}

pl_value *pl_g_transpose(pl_grad *c, pl_value *x, const int64_t *perm, size_t n) {
    return pl_g1_ints(c, "Transpose", x, "perm", perm, n);
}

/* Axes are an attribute up to `last`, an input after it. */
static pl_value *with_axes(pl_grad *c, const char *op, pl_value *x, const int64_t *axes, size_t n,
                           int last, const pl_attr *attr) {
    pl_attr attrs[2] = { PL_G_INTS("axes", axes, n) };
    if (c->st != PL_OK) return NULL;
    size_t n_attrs = pl_g_opset(c) <= last && n > 0 ? 1 : 0;
    if (attr != NULL) attrs[n_attrs++] = *attr;
    if (pl_g_opset(c) <= last || n == 0) return pl_g_op(c, op, &x, 1, attrs, n_attrs);
    return pl_g_op(c, op, (pl_value *const[]){ x, pl_g_ints(c, axes, n) }, 2, attrs, n_attrs);
}

pl_value *pl_g_unsqueeze(pl_grad *c, pl_value *x, const int64_t *axes, size_t n) {
    return n == 0 ? x : with_axes(c, "Unsqueeze", x, axes, n, 12, NULL);
}
pl_value *pl_g_squeeze(pl_grad *c, pl_value *x, const int64_t *axes, size_t n) {
    return n == 0 ? x : with_axes(c, "Squeeze", x, axes, n, 12, NULL);
}

pl_value *pl_g_reduce(pl_grad *c, const char *op, pl_value *x, const int64_t *axes, size_t n,
                      bool keepdims) {
    const int last = strcmp(op, "ReduceSum") == 0 ? 12 : 17;
    return with_axes(c, op, x, axes, n, last, &PL_G_INT("keepdims", keepdims));
}

pl_value *pl_g_concat(pl_grad *c, pl_value *const *x, size_t n, int64_t axis) {
    if (n == 1) return x[0];
    return pl_g_op(c, "Concat", x, n, &PL_G_INT("axis", axis), 1);
}

pl_value *pl_g_slice(pl_grad *c, pl_value *x, const int64_t *starts, const int64_t *ends,
                     const int64_t *axes, size_t n) {
    if (c->st != PL_OK) return NULL;
    if (pl_g_opset(c) < 10) {
        const pl_attr attrs[3] = { PL_G_INTS("starts", starts, n), PL_G_INTS("ends", ends, n),
                                   PL_G_INTS("axes", axes, n) };
        return pl_g_op(c, "Slice", &x, 1, attrs, 3);
    }
    return pl_g_op(c, "Slice",
                   (pl_value *const[]){ x, pl_g_ints(c, starts, n), pl_g_ints(c, ends, n),
                                        pl_g_ints(c, axes, n) },
                   4, NULL, 0);
}

pl_value *pl_g_cast(pl_grad *c, pl_value *x, pl_dtype to) {
    if (c->st != PL_OK || dtype_of(x) == to) return x;
    return pl_g1_int(c, "Cast", x, "to", to);
}

pl_value *pl_g_cast_like(pl_grad *c, pl_value *x, const pl_value *like) {
    if (c->st != PL_OK) return NULL;
    const pl_dtype to = dtype_of(like);
    if (to != PL_UNDEFINED) return pl_g_cast(c, x, to);
    (void)pl_g_fail(c, "needs the type of '%s', which is not known", like->name);
    return NULL;
}

pl_value *pl_g_widened(pl_grad *c, pl_value *x) {
    if (c->st != PL_OK) return NULL;
    return dtype_of(x) == PL_F16 || dtype_of(x) == PL_BF16 ? pl_g_cast(c, x, PL_F32) : x;
}

/* ---- sums ---- */

/* Counts in float16 overflow above 65504, and an average may cover a whole image: divide in
 * float. */
pl_value *pl_g_shared(pl_grad *c, pl_value *g, pl_value *x, pl_value *y) {
    if (c->st != PL_OK) return NULL;
    const bool known = pl_g_is_concrete(x) && pl_g_is_concrete(y);
    const double n = known ? n_elements(x) / n_elements(y) : 0;
    if (known && (n <= 2048 || dtype_of(g) != PL_F16)) return pl_g_div(c, g, pl_g_number(c, g, n));
    pl_value *wide = dtype_of(g) == PL_F16 ? pl_g_cast(c, g, PL_F32) : g;
    pl_value *count =
        known ? pl_g_number(c, wide, n) : pl_g_div(c, pl_g_size(c, x, wide), pl_g_size(c, y, wide));
    return pl_g_cast_like(c, pl_g_div(c, wide, count), g);
}

/* Ones that pad the shape of x to the rank of g. */
static pl_value *leading_ones(pl_grad *c, pl_value *g, pl_value *x) {
    int64_t ones[PL_RANK_MAX];
    if (has_rank(g) && has_rank(x)) {
        const int lead = g->type->rank - x->type->rank;
        for (int d = 0; d < lead; d++)
            ones[d] = 1;
        return lead > 0 ? pl_g_ints(c, ones, (size_t)lead) : NULL;
    }
    const int64_t n = 1;
    pl_tensor *one = NULL;
    pl_value *lead =
        pl_g_sub(c, pl_g1(c, "Shape", pl_g_shape(c, g)), pl_g1(c, "Shape", pl_g_shape(c, x)));
    if (c->st == PL_OK) c->st = pl_tensor_new(PL_I64, 1, &n, &one, c->err);
    if (c->st != PL_OK) return NULL;
    memcpy(one->data, &n, sizeof(n));
    const pl_attr value = { .name = "value", .type = PL_ATTR_TENSOR, .tensor = one };
    return pl_g_op(c, "ConstantOfShape", &lead, 1, &value, 1);
}

/* Shapes are known only at run time. The broadcast axes are those where the shape of x, padded with
 * leading ones, is 1. */
static pl_value *unbroadcast_open(pl_grad *c, pl_value *g, pl_value *x) {
    if (pl_g_opset(c) < 13) {
        (void)pl_g_fail(c, "needs the shape of '%s', which is not known, or opset 13", x->name);
        return NULL;
    }
    pl_value *padded = pl_g_shape(c, x), *ones = leading_ones(c, g, x);
    if (ones != NULL) padded = pl_g_concat(c, (pl_value *const[]){ ones, padded }, 2, 0);
    pl_value *stretched = pl_g2(c, "Equal", padded, pl_g_int(c, 1));
    pl_value *axes = pl_g_reshape(c, pl_g1(c, "NonZero", stretched), (int64_t[]){ -1 }, 1);
    const pl_attr attrs[2] = { PL_G_INT("keepdims", 1), PL_G_INT("noop_with_empty_axes", 1) };
    pl_value *sum = pl_g_op(c, "ReduceSum", (pl_value *const[]){ g, axes }, 2, attrs, 2);
    return pl_g_reshape_like(c, sum, x);
}

pl_value *pl_g_unbroadcast(pl_grad *c, pl_value *g, pl_value *x) {
    int64_t axes[PL_RANK_MAX];
    size_t n_axes = 0;
    if (c->st != PL_OK) return NULL;
    if (!has_rank(g) || !has_rank(x)) return unbroadcast_open(c, g, x);
    const int lead = g->type->rank - x->type->rank;
    for (int d = 0; d < g->type->rank; d++) {
        const pl_dim of_g = g->type->dims[d];
        const pl_dim of_x = d < lead ? pl_dim_of(1) : x->type->dims[d - lead];
        if (pl_dim_equal(of_g, of_x)) continue;
        if (!pl_dim_known(of_x)) return unbroadcast_open(c, g, x);
        if (of_x.value == 1) axes[n_axes++] = d;
    }
    pl_value *sum = n_axes == 0 ? g : pl_g_reduce(c, "ReduceSum", g, axes, n_axes, true);
    return lead == 0 ? sum : pl_g_reshape_like(c, sum, x);
}

static bool is_empty(const pl_value *x) {
    return has_rank(x) && pl_g_is_concrete(x) && n_elements(x) == 0;
}

pl_status pl_g_rule(pl_grad *c) {
    const pl_node *node = c->node;
    bool flows = false;
    for (uint32_t k = 0; k < node->n_out; k++)
        flows = flows || (c->dy[k] != NULL && !is_empty(node->out[k]));
    for (uint32_t i = 0; i < node->n_in; i++) /* zeros need a known type */
        flows = flows || (c->wanted[i] && dtype_of(node->in[i]) == PL_UNDEFINED);
    if (flows) return node->def->grad(c);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (c->wanted[i]) c->dx[i] = pl_g_zeros_like(c, node->in[i]);
    return c->st;
}

pl_status pl_g_give(pl_grad *c, int i, pl_value *g) {
    if (c->st == PL_OK && c->wanted[i]) c->dx[i] = pl_g_unbroadcast(c, g, c->node->in[i]);
    return c->st;
}

/* ---- masks ---- */

pl_value *pl_g_keep(pl_grad *c, pl_value *condition, pl_value *g) {
    return pl_g3(c, "Where", condition, g, pl_g_number(c, g, 0));
}

pl_value *pl_g_select(pl_grad *c, pl_value *condition, pl_value *x, pl_value *y) {
    return pl_g3(c, "Where", condition, x, y);
}

pl_value *pl_g_equal(pl_grad *c, pl_value *x, pl_value *y) {
    if (c->st != PL_OK) return NULL;
    if (pl_g_opset(c) >= 11 || !pl_g_is_float(x)) return pl_g2(c, "Equal", x, y);
    return pl_g1(c, "Not", pl_g2(c, "Or", pl_g2(c, "Less", x, y), pl_g2(c, "Greater", x, y)));
}

pl_value *pl_g_above(pl_grad *c, pl_value *x, double number) {
    return pl_g2(c, "Greater", x, pl_g_number(c, x, number));
}
pl_value *pl_g_below(pl_grad *c, pl_value *x, double number) {
    return pl_g2(c, "Less", x, pl_g_number(c, x, number));
}

/* ---- views ---- */

/* The gradient of an optional is that of the tensor in it. */
pl_status pl_grad_view(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const pl_type *type = x->type;
    if (!c->wanted[0] || c->dy[0] == NULL) return c->st;
    if (type != NULL && type->kind != PL_TYPE_TENSOR) {
        if (type->kind == PL_TYPE_SEQUENCE)
            return pl_g_fail(c, "gradients of sequences are not supported");
        c->dx[0] = c->dy[0];
        return c->st;
    }
    const bool same = type != NULL && c->dy[0]->type != NULL && pl_type_equal(type, c->dy[0]->type);
    c->dx[0] = same ? c->dy[0] : pl_g_reshape_like(c, c->dy[0], x);
    return c->st;
}

/* ---- differentiated by passes ---- */

pl_status pl_grad_branches(pl_grad *c) {
    return pl_node_fail(c->err, PL_E_INTERNAL, c->node, "its branches have no gradient");
}

pl_status pl_grad_unrolled(pl_grad *c) {
    return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node, "it was not unrolled");
}

pl_status pl_grad_apart(pl_grad *c) {
    return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node,
                        "its gradient needs a sequence whose items are known before the run");
}
