/* Differentiates the expansion of an operator; small helpers of gradient rules. */
#include "ops/lib/grad_nn.h"

#include <string.h>

#include "base/alloc.h"

/* ---- backwards through an expansion ---- */

typedef struct sweep {
    pl_grad *c;
    size_t n_values;
    bool *depends;   /* by value id */
    pl_value **grad; /* by value id; NULL = zero */
} sweep;

size_t pl_g_mark(const pl_grad *c) {
    return c->graph->n_nodes;
}

static bool node_depends(const sweep *s, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != NULL && s->depends[node->in[i]->id]) return true;
    return false;
}

static pl_status accumulate(sweep *s, pl_value *x, pl_value *dx) {
    pl_value **slot = &s->grad[x->id];
    *slot = *slot == NULL ? dx : pl_g_add(s->c, *slot, dx);
    return s->c->st;
}

static pl_status visit(sweep *s, const pl_node *node, pl_arena *arena) {
    pl_value **dy = pl_arena_array(arena, (size_t)node->n_out + 1, sizeof(*dy));
    pl_value **dx = pl_arena_array(arena, (size_t)node->n_in + 1, sizeof(*dx));
    bool *wanted = pl_arena_array(arena, (size_t)node->n_in + 1, sizeof(*wanted)), any = false;
    if (dy == NULL || dx == NULL || wanted == NULL) return pl_fail_memory(s->c->err, 1);
    for (uint32_t k = 0; k < node->n_out; k++) {
        dy[k] = node->out[k] == NULL ? NULL : s->grad[node->out[k]->id];
        any = any || dy[k] != NULL;
    }
    if (!any || !node_depends(s, node)) return PL_OK;
    any = false;
    for (uint32_t k = 0; k < node->n_in; k++) {
        wanted[k] =
            node->in[k] != NULL && s->depends[node->in[k]->id] && pl_g_is_float(node->in[k]);
        any = any || wanted[k];
    }
    if (!any) return PL_OK;
    if (node->def->grad == PL_GRAD_TODO || node->def->grad == PL_GRAD_UNDEFINED)
        return pl_g_fail(s->c, "needs the gradient of %s, which has none", node->op);
    pl_grad inner = {
        .graph = s->c->graph, .node = node, .dy = dy, .dx = dx, .wanted = wanted, .err = s->c->err
    };
    PL_TRY(pl_g_rule(&inner));
    for (uint32_t k = 0; k < node->n_in; k++)
        if (wanted[k] && dx[k] != NULL) PL_TRY(accumulate(s, node->in[k], dx[k]));
    return PL_OK;
}

static pl_status run_sweep(sweep *s, size_t mark, pl_value *const *y, pl_arena *arena) {
    const pl_node *own = s->c->node;
    const size_t end = s->c->graph->n_nodes;
    for (uint32_t i = 0; i < own->n_in; i++)
        if (s->c->wanted[i]) s->depends[own->in[i]->id] = true;
    for (size_t i = mark; i < end; i++) {
        const pl_node *node = s->c->graph->nodes[i];
        for (uint32_t k = 0; node_depends(s, node) && k < node->n_out; k++)
            if (node->out[k] != NULL) s->depends[node->out[k]->id] = true;
    }
    for (uint32_t k = 0; k < own->n_out; k++)
        if (y[k] != NULL && s->c->dy[k] != NULL) PL_TRY(accumulate(s, y[k], s->c->dy[k]));
    for (size_t i = end; i-- > mark;)
        PL_TRY(visit(s, s->c->graph->nodes[i], arena));
    for (uint32_t i = 0; i < own->n_in; i++) {
        bool again = false; /* an input given twice gets its whole gradient once */
        for (uint32_t k = 0; k < i; k++)
            again = again || own->in[k] == own->in[i];
        if (s->c->wanted[i] && !again) s->c->dx[i] = s->grad[own->in[i]->id];
    }
    return PL_OK;
}

pl_status pl_g_expanded(pl_grad *c, size_t mark, pl_value *const *y) {
    if (c->st != PL_OK) return c->st;
    sweep s = { .c = c, .n_values = c->graph->model->n_values };
    pl_arena *arena = pl_arena_new();
    s.depends = pl_calloc(s.n_values + 1, sizeof(*s.depends));
    s.grad = pl_calloc(s.n_values + 1, sizeof(*s.grad));
    pl_status st = arena == NULL || s.depends == NULL || s.grad == NULL
                       ? pl_fail_memory(c->err, s.n_values)
                       : run_sweep(&s, mark, y, arena);
    pl_arena_free(arena);
    pl_free(s.depends);
    pl_free(s.grad);
    if (c->st == PL_OK) c->st = st;
    return c->st;
}

/* ---- small things ---- */

pl_value *pl_g_scaled(pl_grad *c, pl_value *x, double factor) {
    if (factor == 1 || c->st != PL_OK) return x;
    return pl_g_mul(c, x, pl_g_number(c, x, factor));
}

pl_value *pl_g_plus(pl_grad *c, pl_value *x, double number) {
    if (number == 0 || c->st != PL_OK) return x;
    return pl_g_add(c, x, pl_g_number(c, x, number));
}

pl_value *pl_g_swap_last(pl_grad *c, pl_value *x) {
    const int rank = pl_g_rank(c, x);
    int64_t perm[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        perm[d] = d < rank - 2 ? d : d == rank - 2 ? rank - 1 : rank - 2;
    return rank < 2 ? x : pl_g_transpose(c, x, perm, (size_t)rank);
}

bool pl_g_table_new(pl_grad *c, pl_g_table *t, int rank, const int64_t *dims) {
    *t = (pl_g_table){ .rank = rank };
    if (c->st != PL_OK) return false;
    for (int d = 0; d < rank; d++)
        t->dims[d] = dims[d];
    if (!pl_dims_product(rank, dims, &t->n) || t->n > (INT64_C(1) << 28)) {
        (void)pl_g_fail(c, "needs a constant that is too large");
        return false;
    }
    t->data = pl_calloc((size_t)t->n + 1, sizeof(double));
    if (t->data == NULL) c->st = pl_fail_memory(c->err, (size_t)t->n);
    return t->data != NULL;
}

pl_value *pl_g_table_value(pl_grad *c, pl_g_table *t, pl_dtype dtype) {
    pl_tensor *tensor = NULL;
    if (c->st == PL_OK) c->st = pl_tensor_new(dtype, t->rank, t->dims, &tensor, c->err);
    if (c->st == PL_OK) pl_store_f64(dtype, t->data, tensor->data, (size_t)t->n);
    pl_free(t->data);
    t->data = NULL;
    return c->st == PL_OK ? pl_g_tensor_take(c, tensor) : NULL;
}

pl_value *pl_g_channels(pl_grad *c, pl_value *x, int rank) {
    int64_t dims[PL_RANK_MAX] = { -1 };
    for (int d = 1; d + 1 < rank; d++)
        dims[d] = 1;
    return rank <= 2 ? x : pl_g_reshape(c, x, dims, (size_t)rank - 1);
}

pl_value *pl_g_cut(pl_grad *c, pl_value *x, int64_t axis, int64_t from, int64_t to) {
    return pl_g_slice(c, x, &from, &to, &axis, 1);
}

static pl_value *with_attrs(pl_grad *c, const char *op, pl_value *x, double alpha, double beta,
                            size_t n) {
    const pl_attr attrs[2] = { PL_G_FLOAT("alpha", alpha), PL_G_FLOAT("beta", beta) };
    return pl_g_op(c, op, &x, 1, attrs, n);
}

pl_value *pl_g_activate(pl_grad *c, const char *name, double alpha, double beta, pl_value *x) {
    if (c->st != PL_OK || name[0] == '\0') return x;
    if (strcmp(name, "Affine") == 0) return pl_g_plus(c, pl_g_scaled(c, x, alpha), beta);
    if (strcmp(name, "ScaledTanh") == 0)
        return pl_g_scaled(c, pl_g1(c, "Tanh", pl_g_scaled(c, x, beta)), alpha);
    if (strcmp(name, "Swish") == 0) return pl_g_mul(c, x, pl_g1(c, "Sigmoid", x));
    if (strcmp(name, "HardSigmoid") == 0) return with_attrs(c, name, x, alpha, beta, 2);
    if (strcmp(name, "Elu") == 0 || strcmp(name, "LeakyRelu") == 0 ||
        strcmp(name, "ThresholdedRelu") == 0)
        return with_attrs(c, name, x, alpha, beta, 1);
    if (strcmp(name, "Clip") == 0) /* works in any opset, unlike Clip */
        return pl_g2(c, "Min", pl_g2(c, "Max", x, pl_g_number(c, x, alpha)),
                     pl_g_number(c, x, beta));
    return pl_g1(c, name, x);
}

/* ---- rotary embeddings ---- */

typedef struct rotary {
    pl_grad *c;
    pl_value *cos, *sin; /* broadcast to the pairs */
    int64_t half, size;
    bool interleaved;
} rotary;

/* Rotates the first 2 * half elements of the last axis of x (a, b, c, size). */
static pl_value *turned(const rotary *r, pl_value *x) {
    pl_grad *c = r->c;
    const int64_t dim = 2 * r->half, pairs[5] = { 0, 0, 0, r->half, 2 }, axis = 4;
    pl_value *part = dim == r->size ? x : pl_g_cut(c, x, 3, 0, dim), *one = NULL, *two = NULL;
    if (r->interleaved) {
        pl_value *split = pl_g_reshape(c, part, pairs, 5);
        one = pl_g_squeeze(c, pl_g_cut(c, split, 4, 0, 1), &axis, 1);
        two = pl_g_squeeze(c, pl_g_cut(c, split, 4, 1, 2), &axis, 1);
    } else {
        one = pl_g_cut(c, part, 3, 0, r->half);
        two = pl_g_cut(c, part, 3, r->half, dim);
    }
    pl_value *y[2] = { pl_g_sub(c, pl_g_mul(c, r->cos, one), pl_g_mul(c, r->sin, two)),
                       pl_g_add(c, pl_g_mul(c, r->sin, one), pl_g_mul(c, r->cos, two)) };
    pl_value *out = NULL;
    if (r->interleaved) {
        const int64_t whole[4] = { 0, 0, 0, dim };
        y[0] = pl_g_unsqueeze(c, y[0], &axis, 1);
        y[1] = pl_g_unsqueeze(c, y[1], &axis, 1);
        out = pl_g_reshape(c, pl_g_concat(c, y, 2, 4), whole, 4);
    } else {
        out = pl_g_concat(c, y, 2, 3);
    }
    if (dim == r->size) return out;
    pl_value *rest = pl_g_cut(c, x, 3, dim, r->size);
    return pl_g_concat(c, (pl_value *[]){ out, rest }, 2, 3);
}

pl_value *pl_g_turned(pl_grad *c, pl_value *x, pl_value *cos, pl_value *sin, int64_t size,
                      int64_t half) {
    const int rank = pl_g_rank(c, x);
    const int64_t axis = rank == 3 ? 2 : 1;
    rotary r = { .c = c, .half = half, .size = size };
    r.interleaved = pl_attr_int(c->node, "interleaved") != 0 ||
                    pl_attr_int(c->node, "rotary_interleaved") != 0; /* by operator */
    r.cos = pl_g_unsqueeze(c, pl_g_cut(c, cos, 2, 0, half), &axis, 1);
    r.sin = pl_g_unsqueeze(c, pl_g_cut(c, sin, 2, 0, half), &axis, 1);
    if (rank == 3) x = pl_g_reshape(c, x, (const int64_t[]){ 0, 0, -1, size }, 4);
    pl_value *y = turned(&r, x);
    return rank == 3 ? pl_g_reshape(c, y, (const int64_t[]){ 0, 0, -1 }, 3) : y;
}
