/* Helpers of kernels, and the call of a kernel: input types, shape rule, outputs, kernel. */
#include "ops/eval.h"

#include <stdarg.h>

#include "kernels/vmath.h"
#include "ops/infer_int.h"

/* ---- inputs ---- */

const pl_datum *pl_in_datum(const pl_eval *c, int i) {
    return i < c->n_in ? c->in[i] : NULL;
}

const pl_tensor *pl_in(const pl_eval *c, int i) {
    const pl_datum *d = pl_in_datum(c, i);
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

void *pl_scratch(pl_eval *c, size_t count, size_t size) {
    return pl_arena_array(c->scratch, count, size);
}

void *pl_scratch_raw(pl_eval *c, size_t count, size_t size) {
    return pl_arena_raw(c->scratch, count, size);
}

void pl_eval_load_f32(pl_dtype dtype, const void *from, float *to, size_t n) {
    if (dtype == PL_F16)
        pl_vmath_get()->f16_to_f32(from, to, n);
    else
        pl_load_f32(dtype, from, to, n);
}

void pl_eval_store_f32(pl_dtype dtype, const float *from, void *to, size_t n) {
    if (dtype == PL_F16)
        pl_vmath_get()->f32_to_f16(from, to, n);
    else
        pl_store_f32(dtype, from, to, n);
}

const int64_t *pl_in_ints(pl_eval *c, int i, size_t *n) {
    const pl_tensor *t = pl_in(c, i);
    *n = 0;
    if (t == NULL) return NULL;
    int64_t *ints = pl_scratch(c, (size_t)t->n_elements, sizeof(*ints));
    if (ints == NULL) return NULL;
    pl_load_i64(t->dtype, t->data, ints, (size_t)t->n_elements);
    *n = (size_t)t->n_elements;
    return ints;
}

int64_t pl_in_int(const pl_eval *c, int i, int64_t otherwise) {
    const pl_tensor *t = pl_in(c, i);
    return t == NULL || t->n_elements == 0 ? otherwise : pl_tensor_get_i64(t, 0);
}

double pl_in_float(const pl_eval *c, int i, double otherwise) {
    const pl_tensor *t = pl_in(c, i);
    return t == NULL || t->n_elements == 0 ? otherwise : pl_tensor_get_f64(t, 0);
}

const pl_f32 *pl_in_f32(pl_eval *c, int i) {
    const pl_tensor *t = pl_in(c, i);
    if (t == NULL || t->dtype == PL_F32) return t == NULL ? NULL : t->data;
    float *copy = pl_scratch_raw(c, (size_t)t->n_elements, sizeof(*copy));
    if (copy != NULL) pl_eval_load_f32(t->dtype, t->data, copy, (size_t)t->n_elements);
    return copy;
}

const pl_f64 *pl_in_f64(pl_eval *c, int i) {
    const pl_tensor *t = pl_in(c, i);
    if (t == NULL || t->dtype == PL_F64) return t == NULL ? NULL : t->data;
    double *copy = pl_scratch_raw(c, (size_t)t->n_elements, sizeof(*copy));
    if (copy != NULL) pl_load_f64(t->dtype, t->data, copy, (size_t)t->n_elements);
    return copy;
}

/* ---- outputs ---- */

pl_tensor *pl_out(const pl_eval *c, int i) {
    return i < c->n_out && c->out[i] != NULL ? c->out[i]->tensor : NULL;
}

pl_status pl_out_set_datum_take(pl_eval *c, int i, pl_datum *d) {
    if (d == NULL) return pl_eval_memory(c);
    if (i >= c->n_out || !c->wanted[i]) {
        pl_datum_unref(d);
        return PL_OK;
    }
    pl_datum_unref(c->out[i]);
    c->out[i] = d;
    return PL_OK;
}

pl_status pl_out_set_take(pl_eval *c, int i, pl_tensor *t) {
    if (t == NULL) return pl_eval_memory(c);
    pl_datum *d = NULL;
    PL_TRY(pl_datum_of_tensor_take(t, &d, c->err));
    return pl_out_set_datum_take(c, i, d);
}

pl_status pl_out_new(pl_eval *c, int i, pl_dtype dtype, int rank, const int64_t *dims,
                     pl_tensor **out) {
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(dtype, rank, dims, &t, c->err));
    if (i >= c->n_out || !c->wanted[i]) {
        pl_tensor_unref(t);
        return pl_fail(c->err, PL_E_INTERNAL, "output %d of %s is not requested", i, c->node->op);
    }
    *out = t;
    return pl_out_set_take(c, i, t);
}

pl_status pl_out_new_filled(pl_eval *c, int i, const void *element, pl_tensor **out) {
    const pl_type *type = c->out_type[i];
    int64_t dims[PL_RANK_MAX];
    if (type == NULL || !pl_type_is_concrete(type)) {
        return pl_fail(c->err, PL_E_INTERNAL, "%s: the shape rule did not set output %d",
                       c->node->op, i);
    }
    for (int d = 0; d < type->rank; d++)
        dims[d] = type->dims[d].value;
    const pl_status st = pl_tensor_new_filled(type->dtype, type->rank, dims, element, out, c->err);
    if (st != PL_OK) {
        char text[600];
        return pl_err_wrap(c->err, st, "%s", pl_node_describe(c->node, text, sizeof(text)));
    }
    return pl_out_set_take(c, i, *out);
}

pl_status pl_out_view(pl_eval *c, int i, int k) {
    if (!pl_wants(c, i)) return PL_OK;
    const pl_type *type = c->out_type[i];
    const pl_tensor *x = pl_in(c, k);
    if (type == NULL || !pl_type_is_concrete(type) || x == NULL) {
        return pl_fail(c->err, PL_E_INTERNAL, "%s: view without a shape", c->node->op);
    }
    int64_t dims[PL_RANK_MAX];
    for (int d = 0; d < type->rank; d++)
        dims[d] = type->dims[d].value;
    pl_tensor *view = NULL;
    PL_TRY(pl_tensor_reshape(x, type->rank, dims, &view, c->err));
    return pl_out_set_take(c, i, view);
}

pl_dtype pl_eval_dtype(const pl_eval *c, pl_dtype dtype) {
    const bool raised = dtype == PL_F32 || dtype == PL_F16 || dtype == PL_BF16;
    return c->fp64 && raised ? PL_F64 : dtype;
}

/* ---- failures ---- */

__attribute__((format(printf, 3, 0))) static pl_status
eval_vfail(const pl_eval *c, pl_status status, const char *format, va_list args) {
    (void)pl_vfail(c->err, status, format, args);
    char text[600];
    return pl_err_wrap(c->err, status, "%s", pl_node_describe(c->node, text, sizeof(text)));
}

pl_status pl_eval_fail(const pl_eval *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const pl_status st = eval_vfail(c, PL_E_INVALID, format, args);
    va_end(args);
    return st;
}

pl_status pl_eval_unsupported(const pl_eval *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const pl_status st = eval_vfail(c, PL_E_UNSUPPORTED, format, args);
    va_end(args);
    return st;
}

pl_status pl_eval_memory(const pl_eval *c) {
    if (c->err != NULL && c->err->status != PL_OK) return c->err->status;
    char text[600];
    (void)pl_fail_memory(c->err, 0);
    return pl_err_wrap(c->err, PL_E_MEMORY, "%s", pl_node_describe(c->node, text, sizeof(text)));
}

pl_status pl_eval_no_type(const pl_eval *c, pl_dtype dtype) {
    return pl_eval_unsupported(c, "no kernel for type %s", pl_dtype_name(dtype));
}

/* ---- calling a kernel ---- */

typedef struct call_tables { /* per node, in scratch */
    const pl_type **in_type, **out_type;
    const pl_tensor **in_tensor;
    const pl_content **in_content, **out_content;
    bool *wanted;
} call_tables;

static const pl_type *type_of_tensor(pl_arena *arena, const pl_tensor *t) {
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < t->rank; d++)
        dims[d] = pl_dim_of(t->dims[d]);
    return pl_type_tensor(arena, t->dtype, t->rank, dims);
}

static const pl_type *type_of_datum(pl_arena *arena, const pl_datum *d) {
    if (d->kind == PL_TYPE_TENSOR) return type_of_tensor(arena, d->tensor);
    const pl_type *elem = NULL;
    if (d->n_items > 0) {
        elem = type_of_datum(arena, d->items[0]);
        if (elem == NULL) return NULL;
        if (elem->kind == PL_TYPE_TENSOR) elem = pl_type_tensor_unranked(arena, elem->dtype);
    } else {
        elem = pl_type_tensor_unranked(arena, d->elem_dtype);
        if (d->elem_kind == PL_TYPE_SEQUENCE) elem = pl_type_of(arena, PL_TYPE_SEQUENCE, elem);
    }
    return elem == NULL ? NULL : pl_type_of(arena, d->kind, elem);
}

static bool tables_init(call_tables *t, pl_arena *arena, const pl_node *node, pl_datum *const *in) {
    t->in_type = pl_arena_array(arena, node->n_in, sizeof(pl_type *));
    t->out_type = pl_arena_array(arena, node->n_out, sizeof(pl_type *));
    t->in_tensor = pl_arena_array(arena, node->n_in, sizeof(pl_tensor *));
    t->in_content = pl_arena_array(arena, node->n_in, sizeof(pl_content *));
    t->out_content = pl_arena_array(arena, node->n_out, sizeof(pl_content *));
    t->wanted = pl_arena_array(arena, node->n_out, sizeof(bool));
    if (t->in_type == NULL || t->out_type == NULL || t->in_tensor == NULL ||
        t->in_content == NULL || t->out_content == NULL || t->wanted == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (in[i] == NULL) continue;
        t->in_type[i] = type_of_datum(arena, in[i]);
        if (t->in_type[i] == NULL) return false;
        if (in[i]->kind == PL_TYPE_TENSOR) t->in_tensor[i] = in[i]->tensor;
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        t->wanted[i] = node->out[i] != NULL;
    return true;
}

/* Kernels always get output 0, even when the node does not name it. */
static pl_status allocate_outputs(pl_eval *c) {
    for (int i = 0; i < c->n_out; i++) {
        const pl_type *type = c->out_type[i];
        if (i > 0 && !c->wanted[i]) continue;
        if (type == NULL || !pl_type_is_concrete(type)) {
            return pl_fail(c->err, PL_E_INTERNAL, "%s: the shape rule did not set output %d",
                           c->node->op, i);
        }
        int64_t dims[PL_RANK_MAX];
        for (int d = 0; d < type->rank; d++)
            dims[d] = type->dims[d].value;
        pl_tensor *t = NULL;
        const bool raw = c->unrounded && i == 0;
        const pl_status st =
            pl_tensor_new(raw ? PL_F64 : type->dtype, type->rank, dims, &t, c->err);
        if (st != PL_OK) {
            char text[600];
            return pl_err_wrap(c->err, st, "%s", pl_node_describe(c->node, text, sizeof(text)));
        }
        PL_TRY(pl_datum_of_tensor_take(t, &c->out[i], c->err));
    }
    return PL_OK;
}

static bool wants_any(const pl_eval *c) {
    for (int i = 0; i < c->n_out; i++)
        if (c->wanted[i]) return true;
    return false;
}

static pl_status check_outputs(const pl_eval *c) {
    for (int i = 0; i < c->n_out; i++) {
        if (c->wanted[i] && c->out[i] == NULL) {
            return pl_fail(c->err, PL_E_INTERNAL, "%s: the kernel did not write output %d",
                           c->node->op, i);
        }
    }
    return PL_OK;
}

pl_status pl_eval_node(const pl_node *node, pl_datum *const *in, pl_datum **out,
                       const pl_eval_setup *setup, pl_err *err) {
    call_tables t;
    pl_err local = PL_ERR_INIT;
    if (err == NULL) err = &local;
    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = NULL;
    if (!tables_init(&t, setup->scratch, node, in)) return pl_fail_memory(err, node->n_in);
    pl_infer infer = { .node = node,
                       .arena = setup->scratch,
                       .n_in = (int)node->n_in,
                       .n_out = (int)node->n_out,
                       .in = t.in_type,
                       .in_tensor = t.in_tensor,
                       .in_content = t.in_content,
                       .out = t.out_type,
                       .out_content = t.out_content,
                       .concrete = true,
                       .fp64 = setup->fp64,
                       .narrow_b = setup->narrow_b && (node->def->flags & PL_OP_NARROW_B) != 0,
                       .err = err };
    PL_TRY(pl_infer_call(&infer));
    pl_eval c = { .node = node,
                  .n_in = (int)node->n_in,
                  .n_out = (int)node->n_out,
                  .in = in,
                  .out = out,
                  .out_type = t.out_type,
                  .wanted = t.wanted,
                  .in_constant = setup->in_constant,
                  .pool = setup->pool,
                  .kernels = setup->kernels,
                  .scratch = setup->scratch,
                  .fp64 = setup->fp64,
                  .naive = setup->naive,
                  .unrounded = setup->unrounded,
                  .magnitudes_b = setup->magnitudes_b,
                  .otherwise = setup->otherwise,
                  .seed = setup->seed,
                  .state = setup->state,
                  .state_free = setup->state_free,
                  .run_body = setup->run_body,
                  .runner = setup->runner,
                  .err = err };
    pl_status st = PL_OK;
    if (!wants_any(&c)) return PL_OK;
    if ((node->def->flags & PL_OP_OWN_OUT) == 0) PL_TRY_GOTO(done, st, allocate_outputs(&c));
    PL_TRY_GOTO(done, st, node->def->eval(&c));
    PL_TRY_GOTO(done, st, check_outputs(&c));
    if (!t.wanted[0]) {
        pl_datum_unref(out[0]);
        out[0] = NULL;
    }
done:
    if (st != PL_OK) {
        for (uint32_t i = 0; i < node->n_out; i++) {
            pl_datum_unref(out[i]);
            out[i] = NULL;
        }
    }
    return st;
}
