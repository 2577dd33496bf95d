/* Helpers of error-bound rules: loops with broadcasting, the node's own kernel on other data. */
#include "ops/bound.h"

#include <math.h>

#include "ops/bound_int.h"
#include "tensor/tensor_cast.h"

/* ---- asking ---- */

static const pl_tensor *tensor_of(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

const pl_tensor *pl_b_in(const pl_bound *c, int i) {
    return i < c->n_in ? tensor_of(c->in[i]) : NULL;
}

const pl_tensor *pl_b_out(const pl_bound *c, int i) {
    return i < c->n_out ? tensor_of(c->out[i]) : NULL;
}

static const double *as_f64(pl_bound *c, const pl_tensor *t) {
    if (t == NULL || t->dtype == PL_STRING) return NULL;
    if (t->dtype == PL_F64 && ((uintptr_t)t->data % _Alignof(double)) == 0) return t->data;
    double *copy = pl_arena_array(c->scratch, (size_t)t->n_elements, sizeof(double));
    if (copy == NULL) {
        (void)pl_fail_memory(c->err, (size_t)t->n_elements);
        return NULL;
    }
    pl_load_f64(t->dtype, t->data, copy, (size_t)t->n_elements);
    return copy;
}

const double *pl_b_x(pl_bound *c, int i) {
    return as_f64(c, pl_b_in(c, i));
}

const double *pl_b_y(pl_bound *c, int i) {
    return as_f64(c, pl_b_out(c, i));
}

const double *pl_b_e(const pl_bound *c, int i) {
    return i < c->n_in && c->e_in[i] != NULL ? c->e_in[i]->data : NULL;
}

bool pl_b_any_error(const pl_bound *c) {
    for (int i = 0; i < c->n_in; i++)
        if (c->e_in[i] != NULL) return true;
    return false;
}

double pl_b_chain(double k) {
    return fmin(k + 1, 2 + sqrt(k) / 2);
}

double pl_value_absolute_error(const pl_value *value, pl_dtype dtype) {
    enum { FAR = 16 };
    const pl_value *v = value;
    const pl_type *type = value == NULL ? NULL : value->type;
    if (dtype == PL_UNDEFINED && type != NULL && type->kind == PL_TYPE_TENSOR) dtype = type->dtype;
    if (!pl_dtype_is_float(dtype)) return 0;
    for (int i = 0; i < FAR && v != NULL && v->producer != NULL; i++) {
        const pl_node *node = v->producer;
        if (node->def == NULL) return 0;
        if (pl_node_has_flag(node, PL_OP_NEAR_ONE)) {
            const double u = pl_dtype_unit_roundoff(dtype);
            const double alpha = fabs(pl_attr_float(node, "alpha"));
            const double gamma = fabs(pl_attr_float(node, "gamma"));
            return 2 * fmin(u, 0x1p-24) * (alpha > 0 ? alpha : 1) * (gamma > 0 ? gamma : 1);
        }
        if (node->def->bound != PL_BOUND_EXACT || node->n_in == 0) return 0;
        v = node->in[0];
    }
    return 0;
}

/* ---- setting ---- */

pl_status pl_b_new(pl_bound *c, int i, double **e) {
    const pl_tensor *y = pl_b_out(c, i);
    *e = NULL;
    if (y == NULL) return PL_OK;
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new_zero(PL_F64, y->rank, y->dims, &t, c->err));
    pl_tensor_unref(c->e_out[i]);
    c->e_out[i] = t;
    *e = t->data;
    return PL_OK;
}

pl_status pl_b_set_take(pl_bound *c, int i, pl_tensor *e) {
    const pl_tensor *y = pl_b_out(c, i);
    if (e == NULL) return pl_fail_memory(c->err, 1);
    if (y == NULL || e->dtype != PL_F64 || !pl_tensor_same_shape(e, y)) {
        pl_tensor_unref(e);
        if (y == NULL) return PL_OK;
        return pl_fail(c->err, PL_E_INTERNAL, "%s: the bound of output %d has the wrong shape",
                       c->node->op, i);
    }
    pl_tensor_unref(c->e_out[i]);
    c->e_out[i] = e;
    return PL_OK;
}

/* ---- element-wise ---- */

enum { MAX_INPUTS = 32, GRAIN = 4096 };

typedef struct each {
    pl_bound *c;
    pl_b_element fn;
    int n_in, rank;
    const int64_t *dims;
    const double *x[MAX_INPUTS], *e[MAX_INPUTS];
    int64_t stride[MAX_INPUTS][PL_RANK_MAX]; /* 0 where broadcast */
    const double *y;
    double *out;
    bool dense; /* nothing is broadcast */
} each;

static void each_block(void *ctx, int64_t begin, int64_t end) {
    const each *s = ctx;
    int64_t index[PL_RANK_MAX] = { 0 }, at[MAX_INPUTS] = { 0 };
    int64_t rest = begin;
    for (int d = s->rank - 1; d >= 0; d--) {
        index[d] = rest % s->dims[d];
        rest /= s->dims[d];
        for (int k = 0; k < s->n_in; k++)
            at[k] += index[d] * s->stride[k][d];
    }
    double x[MAX_INPUTS] = { 0 }, e[MAX_INPUTS] = { 0 };
    for (int64_t i = begin; s->dense && i < end; i++) {
        for (int k = 0; k < s->n_in; k++) {
            if (s->x[k] != NULL) x[k] = s->x[k][i];
            if (s->e[k] != NULL) e[k] = s->e[k][i];
        }
        s->out[i] = s->fn(s->c, x, e, s->y[i]);
    }
    for (int64_t i = begin; !s->dense && i < end; i++) {
        for (int k = 0; k < s->n_in; k++) {
            if (s->x[k] != NULL) x[k] = s->x[k][at[k]];
            if (s->e[k] != NULL) e[k] = s->e[k][at[k]];
        }
        s->out[i] = s->fn(s->c, x, e, s->y[i]);
        for (int d = s->rank - 1; d >= 0; d--) {
            for (int k = 0; k < s->n_in; k++)
                at[k] += s->stride[k][d];
            if (++index[d] < s->dims[d]) break;
            for (int k = 0; k < s->n_in; k++)
                at[k] -= s->stride[k][d] * s->dims[d];
            index[d] = 0;
        }
    }
}

/* Strides of x seen with the dims of y; false when x does not broadcast to y. */
static bool broadcast_strides(const pl_tensor *x, const pl_tensor *y, int64_t *stride) {
    const int lead = y->rank - x->rank;
    int64_t step = 1;
    if (lead < 0) return false;
    for (int d = 0; d < y->rank; d++)
        stride[d] = 0;
    for (int d = x->rank - 1; d >= 0; d--) {
        if (x->dims[d] != 1 && x->dims[d] != y->dims[d + lead]) return false;
        stride[d + lead] = x->dims[d] == 1 ? 0 : step;
        step *= x->dims[d];
    }
    return true;
}

pl_status pl_b_each(pl_bound *c, pl_b_element fn) {
    const pl_tensor *y = pl_b_out(c, 0);
    each s = { .c = c, .fn = fn, .n_in = c->n_in };
    if (y == NULL) return PL_OK;
    if (c->n_in > MAX_INPUTS) return pl_b_unknown(c);
    s.rank = y->rank;
    s.dims = y->dims;
    s.dense = true;
    for (int k = 0; k < c->n_in; k++) {
        const pl_tensor *x = pl_b_in(c, k);
        if (x == NULL) continue;
        s.dense = s.dense && pl_tensor_same_shape(x, y);
        if (!broadcast_strides(x, y, s.stride[k])) return pl_b_unknown(c);
        s.x[k] = pl_b_x(c, k);
        s.e[k] = pl_b_e(c, k);
        if (s.x[k] == NULL && x->n_elements > 0) return pl_fail_memory(c->err, 1);
    }
    PL_TRY(pl_b_new(c, 0, &s.out));
    s.y = pl_b_y(c, 0);
    if (s.y == NULL) return pl_fail_memory(c->err, 1);
    pl_pool_for(c->pool, y->n_elements, GRAIN, each_block, &s);
    return PL_OK;
}

pl_status pl_b_each_as(pl_bound *c, int rank, const int64_t *dims, pl_b_element fn) {
    pl_bound other = *c;
    pl_tensor *x = NULL, *e = NULL;
    pl_datum *d = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_tensor_reshape(pl_b_in(c, 1), rank, dims, &x, c->err));
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(x, &d, c->err));
    if (c->e_in[1] != NULL)
        PL_TRY_GOTO(done, st, pl_tensor_reshape(c->e_in[1], rank, dims, &e, c->err));
    other.n_in = 2;
    other.in = (pl_datum *const[]){ c->in[0], d };
    other.e_in = (pl_tensor *const[]){ c->e_in[0], e };
    st = pl_b_each(&other, fn);
done:
    pl_datum_unref(d);
    pl_tensor_unref(e);
    return st;
}

/* ---- the node's own kernel on other data ---- */

/* Does the rule take the result as the kernel made it? */
static bool is_raw(const pl_tensor *y, bool raw) {
    return raw && (y->dtype == PL_F32 || y->dtype == PL_F64) && pl_tensor_is_contiguous(y);
}

static pl_status apply(pl_bound *c, pl_tensor *const *x, pl_dtype precision, bool unrounded,
                       bool raw, int slot, pl_tensor **out) {
    pl_status st = PL_OK;
    pl_datum **in = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_datum *));
    pl_datum **result = pl_arena_array(c->scratch, (size_t)c->n_out + 1, sizeof(pl_datum *));
    if (in == NULL || result == NULL) return pl_fail_memory(c->err, (size_t)c->n_in);
    for (int i = 0; i < c->n_in; i++) {
        const pl_tensor *t = x[i] != NULL ? x[i] : pl_b_in(c, i);
        if (c->in[i] == NULL) continue;
        if (t == NULL || t->dtype != PL_F64 || precision == PL_F64) {
            if (x[i] == NULL) {
                in[i] = pl_datum_ref(c->in[i]);
                continue;
            }
            PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(pl_tensor_ref(x[i]), &in[i], c->err));
            continue;
        }
        pl_tensor *cast = NULL;
        PL_TRY_GOTO(done, st, pl_tensor_cast_on(c->pool, t, precision, &cast, c->err));
        PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(cast, &in[i], c->err));
    }
    const pl_eval_setup setup = { .pool = c->pool,
                                  .scratch = c->scratch,
                                  .fp64 = precision == PL_F64,
                                  .narrow_b = true,
                                  .magnitudes_b = c->magnitudes_b,
                                  .unrounded = unrounded,
                                  .otherwise = c->otherwise };
    PL_TRY_GOTO(done, st, pl_eval_node(c->node, in, result, &setup, c->err));
    const pl_tensor *y = tensor_of(result[slot]);
    if (y == NULL) {
        st = pl_fail(c->err, PL_E_INTERNAL, "%s: no output %d", c->node->op, slot);
        goto done;
    }
    if (is_raw(y, raw))
        *out = pl_tensor_ref(y);
    else
        st = pl_tensor_cast_on(c->pool, y, PL_F64, out, c->err);
done:
    for (int i = 0; i < c->n_in; i++)
        pl_datum_unref(in[i]);
    for (int i = 0; i < c->n_out; i++)
        pl_datum_unref(result[i]);
    return st;
}

pl_status pl_b_apply(pl_bound *c, pl_tensor *const *x, pl_dtype precision, int slot,
                     pl_tensor **out) {
    return apply(c, x, precision, false, false, slot, out);
}

pl_status pl_b_apply_raw(pl_bound *c, pl_tensor *const *x, pl_dtype precision, int slot,
                         pl_tensor **out) {
    return apply(c, x, precision, false, true, slot, out);
}

pl_status pl_b_steps(pl_bound *c, pl_tensor *const *x, pl_tensor **out) {
    return apply(c, x, PL_F64, true, false, 0, out);
}

pl_status pl_b_call(pl_bound *c, const char *op, int opset, pl_tensor *const *x, int n_in,
                    pl_tensor **out) {
    enum { MAX_CALL = 4 };
    pl_status st = PL_OK;
    pl_datum *in[MAX_CALL] = { NULL }, *result[1] = { NULL };
    pl_node node = *c->node;
    node.op = op;
    node.domain = "";
    node.opset = opset;
    node.def = pl_op_find("", op, opset);
    if (node.def == NULL || n_in > MAX_CALL || (uint32_t)n_in > node.n_in || node.n_out < 1)
        return pl_fail(c->err, PL_E_INTERNAL, "%s: cannot call %s", c->node->op, op);
    node.n_in = (uint32_t)n_in;
    node.n_out = 1;
    for (int i = 0; i < n_in; i++) {
        if (x[i] == NULL) continue;
        PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(pl_tensor_ref(x[i]), &in[i], c->err));
    }
    const pl_eval_setup setup = { .pool = c->pool, .scratch = c->scratch, .fp64 = true };
    PL_TRY_GOTO(done, st, pl_eval_node(&node, in, result, &setup, c->err));
    const pl_tensor *y = tensor_of(result[0]);
    if (y == NULL) {
        st = pl_fail(c->err, PL_E_INTERNAL, "%s: %s returned no tensor", c->node->op, op);
        goto done;
    }
    st = pl_tensor_cast_on(c->pool, y, PL_F64, out, c->err);
done:
    for (int i = 0; i < MAX_CALL; i++)
        pl_datum_unref(in[i]);
    pl_datum_unref(result[0]);
    return st;
}

typedef struct map_loop {
    pl_b_map_fn fn;
    const double *x;
    double *y;
} map_loop;

static void map_block(void *ctx, int64_t begin, int64_t end) {
    const map_loop *m = ctx;
    for (int64_t i = begin; i < end; i++)
        m->y[i] = m->fn(m->x[i]);
}

pl_status pl_b_map(pl_bound *c, const pl_tensor *x, pl_b_map_fn fn, pl_tensor **out) {
    map_loop m = { .fn = fn, .x = as_f64(c, x) };
    if (m.x == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_tensor_new(PL_F64, x->rank, x->dims, out, c->err));
    m.y = (*out)->data;
    pl_pool_for(c->pool, x->n_elements, GRAIN, map_block, &m);
    return PL_OK;
}

double pl_b_abs(double x) {
    return fabs(x);
}

double pl_b_square(double x) {
    return x * x;
}

/* A bound that is not a number bounds nothing. */
static void number_block(void *ctx, int64_t begin, int64_t end) {
    double *e = ctx;
    for (int64_t k = begin; k < end; k++)
        if (isnan(e[k])) e[k] = HUGE_VAL;
}

pl_status pl_b_rule(pl_bound *c) {
    PL_TRY(c->node->def->bound(c));
    for (int i = 0; i < c->n_out; i++) {
        if (c->e_out[i] == NULL) continue;
        pl_pool_for(c->pool, c->e_out[i]->n_elements, 16 * GRAIN, number_block, c->e_out[i]->data);
    }
    return PL_OK;
}

/* ---- operators without rounding, and without a rule ---- */

double pl_b_largest(const pl_bound *c, int i) {
    double most = 0;
    const double *e = pl_b_e(c, i);
    for (int64_t k = 0; e != NULL && k < c->e_in[i]->n_elements; k++)
        most = fmax(most, e[k]);
    return most;
}

static double largest_error(const pl_bound *c) {
    double most = 0;
    for (int i = 0; i < c->n_in; i++)
        most = fmax(most, pl_b_largest(c, i));
    return most;
}

pl_status pl_b_fill(pl_bound *c, int i, double value) {
    double *e = NULL;
    PL_TRY(pl_b_new(c, i, &e));
    for (int64_t k = 0; e != NULL && k < c->e_out[i]->n_elements; k++)
        e[k] = value;
    return PL_OK;
}

pl_status pl_b_unknown(pl_bound *c) {
    const double inherited = largest_error(c);
    for (int i = 0; i < c->n_out; i++) {
        const pl_tensor *y = pl_b_out(c, i);
        if (y == NULL || y->dtype == PL_STRING) continue;
        const double own =
            pl_dtype_is_float(c->out_native[i]) ? 4 * c->u * pl_tensor_max_abs(y) : 0;
        PL_TRY(pl_b_fill(c, i, own + inherited));
    }
    return PL_OK;
}

/* A sequence or an optional: one number for all that is in it. */
static pl_status set_inside(pl_bound *c, int i, double value) {
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(PL_F64, 0, NULL, &t, c->err));
    *(double *)t->data = value;
    pl_tensor_unref(c->e_out[i]);
    c->e_out[i] = t;
    return PL_OK;
}

/* Input and output types differ, so bounds cannot be moved. A float output gets the largest bound
 * of the inputs; bools and indices may be anything. */
static pl_status spread(pl_bound *c) {
    const double largest = largest_error(c);
    bool from_floats = true;
    for (int i = 0; i < c->n_in; i++) {
        const bool code = c->in_native[i] != PL_UNDEFINED && !pl_dtype_is_float(c->in_native[i]);
        if (code && pl_b_largest(c, i) > 0) from_floats = false;
    }
    for (int i = 0; i < c->n_out && largest > 0; i++) {
        if (c->out[i] == NULL) continue;
        if (c->out[i]->kind != PL_TYPE_TENSOR) {
            PL_TRY(set_inside(c, i, largest));
            continue;
        }
        const pl_dtype dtype = c->out_native[i];
        if (dtype == PL_STRING) continue;
        const double value = pl_dtype_is_float(dtype) && from_floats ? largest : HUGE_VAL;
        PL_TRY(pl_b_fill(c, i, dtype == PL_BOOL ? 1 : value));
    }
    return PL_OK;
}

/* Does the operator copy elements of input i to its output? False for indices and sizes. */
static bool is_data(const pl_bound *c, int i) {
    const pl_port *port = c->node->def->in;
    if (i == 0) return true;
    for (int k = 0; k < i && port->name != NULL && (port->flags & PL_PORT_VARIADIC) == 0; k++)
        port++;
    return port->name != NULL && (port->flags & PL_PORT_SAME) != 0;
}

pl_status pl_b_move(pl_bound *c) {
    pl_status st = PL_OK;
    pl_tensor **x = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_tensor *));
    if (x == NULL) return pl_fail_memory(c->err, (size_t)c->n_in);
    if (!pl_b_any_error(c)) return PL_OK;
    const pl_tensor *y = pl_b_out(c, 0);
    if (y == NULL || c->n_in == 0 || c->in_native[0] != c->out_native[0]) return spread(c);
    for (int i = 0; i < c->n_in; i++) {
        const pl_tensor *t = pl_b_in(c, i);
        if (t == NULL) continue;
        if (!is_data(c, i)) {
            if (pl_b_largest(c, i) > 0) goto anything; /* index or size is uncertain */
        } else if (c->e_in[i] != NULL) {
            x[i] = pl_tensor_ref(c->e_in[i]);
        } else {
            PL_TRY_GOTO(done, st, pl_tensor_new_zero(PL_F64, t->rank, t->dims, &x[i], c->err));
        }
    }
    for (int i = 0; i < c->n_out && st == PL_OK; i++) {
        pl_tensor *e = NULL;
        if (pl_b_out(c, i) == NULL || c->out_native[i] != c->out_native[0]) continue;
        pl_err ignored = PL_ERR_INIT, *const err = c->err;
        c->err = &ignored;
        const bool moved = pl_b_apply(c, x, PL_F64, i, &e) == PL_OK;
        c->err = err;
        /* The kernel takes no doubles (integer data): use the largest bound of the inputs. */
        st = moved ? pl_b_set_take(c, i, e) : pl_b_fill(c, i, largest_error(c));
    }
    goto done;
anything:
    for (int i = 0; i < c->n_out && st == PL_OK; i++)
        if (pl_b_out(c, i) != NULL && c->out_native[i] != PL_STRING) st = pl_b_fill(c, i, HUGE_VAL);
done:
    for (int i = 0; i < c->n_in; i++)
        pl_tensor_unref(x[i]);
    return st;
}

pl_status pl_b_untouched(pl_bound *c) {
    (void)c;
    return PL_OK;
}

pl_status pl_bound_exact(pl_bound *c) {
    return pl_b_move(c);
}

pl_status pl_bound_todo(pl_bound *c) {
    return pl_b_unknown(c);
}
