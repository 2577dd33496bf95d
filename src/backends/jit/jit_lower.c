/* Lowers nodes to primitives: emission rules call the builder below. */
#include <string.h>

#include "backends/jit/jit_call.h"
#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "ops/eval.h"

/* Context of a rule. */
typedef struct lowering {
    jit_program *program;
    jit_plan *plan;
    const pl_node *node;
} lowering;

static bool grow(jit_plan *plan, void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity || pl_array_grow(array, capacity, size)) return true;
    plan->no_memory = true;
    return false;
}

static jit_plan *plan_of(pl_emit *c) {
    return ((lowering *)c->ctx)->plan;
}

/* ---- primitives and references ---- */

static int add_ref(jit_plan *plan, const jit_ref *ref) {
    const jit_ref copy = *ref;
    if (!grow(plan, &plan->refs, plan->n_refs, &plan->refs_capacity, sizeof(jit_ref))) return -1;
    plan->refs[plan->n_refs] = copy;
    return (int)plan->n_refs++;
}

/* NULL: out of memory, or the number of elements overflows (then the node is a break). */
static jit_prim *add_prim(jit_plan *plan, jit_kind kind, pl_dtype dtype, int rank,
                          const int64_t *dims) {
    int64_t n = 8;
    for (int d = 0; d < rank; d++)
        if (!pl_i64_mul(n, dims[d], &n)) return NULL;
    if (!grow(plan, &plan->prims, plan->n_prims, &plan->prims_capacity, sizeof(jit_prim)))
        return NULL;
    jit_prim *p = &plan->prims[plan->n_prims++];
    memset(p, 0, sizeof(*p));
    p->kind = kind;
    p->dtype = dtype;
    p->rank = rank;
    p->n = 1;
    p->step = p->slot = p->place_of = -1;
    for (int d = 0; d < rank; d++) {
        p->dims[d] = dims[d];
        p->n *= dims[d];
    }
    return p;
}

static int ref_of_prim(jit_plan *plan, const jit_prim *p) {
    jit_ref ref;
    memset(&ref, 0, sizeof(ref));
    ref.prim = (int)(p - plan->prims);
    ref.rank = p->rank;
    memcpy(ref.dims, p->dims, sizeof(ref.dims));
    ref.at = jit_index_identity(p->rank);
    return add_ref(plan, &ref);
}

static bool set_args(jit_plan *plan, jit_prim *p, int n, const jit_ref *args) {
    p->args = pl_arena_array(plan->arena, (size_t)n, sizeof(jit_ref));
    if (p->args == NULL) {
        plan->no_memory = true;
        return false;
    }
    if (n > 0) memcpy(p->args, args, (size_t)n * sizeof(jit_ref));
    p->n_args = n;
    return true;
}

/* ---- the builder ---- */

static pl_ref build_in(pl_emit *c, int i) {
    return plan_of(c)->value_ref[c->node->in[i]->id];
}

static int build_dims(pl_emit *c, pl_ref x, int64_t *dims, pl_dtype *dtype) {
    const jit_plan *plan = plan_of(c);
    const jit_ref *ref = &plan->refs[x];
    memcpy(dims, ref->dims, sizeof(ref->dims));
    *dtype = plan->prims[ref->prim].dtype;
    return ref->rank;
}

static pl_ref view_of(jit_plan *plan, pl_ref x, int rank, const int64_t *dims,
                      const pl_emit_index *at) {
    jit_ref ref = plan->refs[x];
    ref.at = jit_index_compose(&ref.at, at);
    ref.rank = rank;
    memset(ref.dims, 0, sizeof(ref.dims));
    if (rank > 0) memcpy(ref.dims, dims, (size_t)rank * sizeof(int64_t));
    return add_ref(plan, &ref);
}

static pl_ref build_view(pl_emit *c, pl_ref x, int rank, const int64_t *dims,
                         const pl_emit_index *at) {
    return view_of(plan_of(c), x, rank, dims, at);
}

static jit_ref broadcast(const jit_plan *plan, pl_ref x, int rank, const int64_t *dims) {
    jit_ref ref = plan->refs[x];
    pl_emit_index at;
    memset(&at, 0, sizeof(at));
    at.rows = ref.rank;
    at.cols = rank;
    for (int d = 0; d < ref.rank; d++)
        at.c[d][rank - ref.rank + d] = ref.dims[d] == 1 ? 0 : 1;
    ref.at = jit_index_compose(&ref.at, &at);
    ref.rank = rank;
    memset(ref.dims, 0, sizeof(ref.dims));
    if (rank > 0) memcpy(ref.dims, dims, (size_t)rank * sizeof(int64_t));
    return ref;
}

static pl_ref map_of(jit_plan *plan, const pl_node *node, pl_dtype dtype, const char *expr, int n,
                     const pl_ref *args) {
    int64_t dims[JIT_RANK] = { 0 };
    jit_ref refs[PL_EMIT_ARGS_MAX];
    int rank = 0;
    for (int i = 0; i < n; i++)
        if (plan->refs[args[i]].rank > rank) rank = plan->refs[args[i]].rank;
    for (int d = 0; d < rank; d++) {
        dims[d] = 1;
        for (int i = 0; i < n; i++) {
            const jit_ref *a = &plan->refs[args[i]];
            const int at = d - (rank - a->rank);
            if (at < 0 || a->dims[at] == 1) continue;
            if (dims[d] != 1 && dims[d] != a->dims[at]) return -1;
            dims[d] = a->dims[at];
        }
    }
    for (int i = 0; i < n; i++)
        refs[i] = broadcast(plan, args[i], rank, dims);
    jit_prim *p = add_prim(plan, JIT_MAP, dtype, rank, dims);
    if (p == NULL || !set_args(plan, p, n, refs)) return -1;
    p->node = node;
    p->expr = pl_arena_strdup(plan->arena, expr);
    plan->no_memory |= p->expr == NULL;
    return p->expr == NULL ? -1 : ref_of_prim(plan, p);
}

static pl_ref build_map(pl_emit *c, pl_dtype dtype, const char *expr, int n, const pl_ref *args) {
    return map_of(plan_of(c), c->node, dtype, expr, n, args);
}

static pl_ref build_reduce(pl_emit *c, pl_fold fold, pl_dtype in, pl_ref x, unsigned axes) {
    jit_plan *plan = plan_of(c);
    const jit_ref ref = plan->refs[x];
    int64_t dims[JIT_RANK];
    for (int d = 0; d < ref.rank; d++)
        dims[d] = (axes >> d & 1) != 0 ? 1 : ref.dims[d];
    jit_prim *p = add_prim(plan, JIT_REDUCE, in, ref.rank, dims);
    if (p == NULL || !set_args(plan, p, 1, &ref)) return -1;
    p->node = c->node;
    p->fold = fold;
    p->axes = axes;
    return ref_of_prim(plan, p);
}

static pl_ref build_iota(pl_emit *c, int rank, int axis, int64_t n) {
    jit_plan *plan = plan_of(c);
    int64_t dims[JIT_RANK];
    pl_emit_index at;
    jit_prim *p = add_prim(plan, JIT_IOTA, PL_I64, 1, &n);
    const pl_ref ref = p == NULL ? -1 : ref_of_prim(plan, p);
    if (ref < 0) return -1;
    memset(&at, 0, sizeof(at));
    at.rows = 1;
    at.cols = rank;
    at.c[0][axis] = 1;
    for (int d = 0; d < rank; d++)
        dims[d] = d == axis ? n : 1;
    return view_of(plan, ref, rank, dims, &at);
}

static pl_ref build_load(pl_emit *c, pl_ref x, pl_ref at) {
    jit_plan *plan = plan_of(c);
    const int base = jit_whole(plan, x);
    if (base < 0) return -1;
    const jit_ref args[2] = { plan->refs[base], plan->refs[at] };
    jit_prim *p =
        add_prim(plan, JIT_LOAD, plan->prims[args[0].prim].dtype, args[1].rank, args[1].dims);
    if (p == NULL || !set_args(plan, p, 2, args)) return -1;
    p->node = c->node;
    return ref_of_prim(plan, p);
}

static void tensor_release(void *object) {
    pl_tensor_unref(object);
}

static pl_ref build_tensor(pl_emit *c, pl_tensor *take) {
    jit_plan *plan = plan_of(c);
    if (pl_arena_defer(plan->arena, tensor_release, take) != 0) return -1;
    jit_prim *p = add_prim(plan, JIT_CONST, take->dtype, take->rank, take->dims);
    if (p == NULL) return -1;
    p->tensor = take;
    p->forced = true;
    return ref_of_prim(plan, p);
}

/* Converting a constant gives another constant. */
static pl_ref build_convert(pl_emit *c, pl_ref x, pl_dtype dtype) {
    jit_plan *plan = plan_of(c);
    jit_ref ref = plan->refs[x];
    const jit_prim *from = &plan->prims[ref.prim];
    if (from->dtype == dtype) return x;
    if (from->kind != JIT_CONST) return map_of(plan, c->node, dtype, "$0", 1, &x);
    pl_tensor *t = NULL;
    if (pl_tensor_cast(from->tensor, dtype, &t, NULL) != PL_OK) return -1;
    const pl_ref own = build_tensor(c, t);
    if (own < 0) return -1;
    ref.prim = plan->refs[own].prim;
    return add_ref(plan, &ref);
}

static pl_ref build_kernel(pl_emit *c, const pl_emit_kernel *kernel, int n, const pl_ref *args) {
    jit_plan *plan = plan_of(c);
    jit_ref refs[PL_EMIT_ARGS_MAX];
    pl_emit_kernel *own = pl_arena_alloc(plan->arena, sizeof(*own));
    void *params = pl_arena_alloc(plan->arena, kernel->n_params + 1);
    if (own == NULL || params == NULL) return -1;
    if (kernel->n_params > 0) memcpy(params, kernel->params, kernel->n_params);
    *own = *kernel;
    own->params = params;
    own->dims = NULL;
    for (int i = 0; i < n; i++) {
        const int whole = jit_whole(plan, args[i]);
        if (whole < 0) return -1;
        refs[i] = plan->refs[whole];
    }
    jit_prim *p = add_prim(plan, JIT_CALL, kernel->dtype, kernel->rank, kernel->dims);
    if (p == NULL || !set_args(plan, p, n, refs)) return -1;
    p->node = c->node;
    p->kernel = own;
    return ref_of_prim(plan, p);
}

/* A copy in memory, in the order of the reference. */
static pl_ref copy_of(jit_plan *plan, pl_ref x) {
    const jit_ref *ref = &plan->refs[x];
    const jit_prim *base = &plan->prims[ref->prim];
    const pl_ref copy = map_of(plan, base->node, base->dtype, "$0", 1, &x);
    if (copy >= 0) plan->prims[plan->refs[copy].prim].forced = true;
    return copy;
}

int jit_whole(jit_plan *plan, int ref) {
    if (ref < 0) return -1;
    const bool whole = jit_ref_is_whole(plan, &plan->refs[ref]);
    if (!whole || plan->prims[plan->refs[ref].prim].kind == JIT_IOTA) return copy_of(plan, ref);
    plan->prims[plan->refs[ref].prim].forced = true;
    return ref;
}

/* If each old dim is a product of adjacent new ones, the reshape is still a map of indices. */
static bool refine(const jit_ref *ref, int rank, const int64_t *dims, pl_emit_index *at) {
    int d = 0;
    memset(at, 0, sizeof(*at));
    at->rows = ref->rank;
    at->cols = rank;
    for (int i = 0; i < ref->rank; i++) {
        int64_t n = 1;
        const int first = d;
        while (d < rank && n < ref->dims[i])
            n *= dims[d++];
        if (n != ref->dims[i]) return false;
        int64_t stride = 1;
        for (int k = d - 1; k >= first; k--) {
            at->c[i][k] = stride;
            stride *= dims[k];
        }
    }
    for (; d < rank; d++)
        if (dims[d] != 1) return false;
    return true;
}

static pl_ref build_reshape(pl_emit *c, pl_ref x, int rank, const int64_t *dims) {
    jit_plan *plan = plan_of(c);
    pl_emit_index at;
    int64_t strides[JIT_RANK], to[JIT_RANK], k;
    if (refine(&plan->refs[x], rank, dims, &at)) return view_of(plan, x, rank, dims, &at);
    jit_ref ref = plan->refs[x];
    jit_ref_flat(plan, &ref, strides, &k);
    if (!jit_reshape_strides(ref.rank, ref.dims, strides, rank, dims, to)) {
        const pl_ref copy = copy_of(plan, x);
        if (copy < 0) return -1;
        ref = plan->refs[copy];
        k = 0;
        jit_strides(rank, dims, to);
    }
    plan->prims[ref.prim].forced = true;
    memset(&ref.at, 0, sizeof(ref.at));
    ref.flat = true;
    ref.at.rows = 1;
    ref.at.cols = ref.rank = rank;
    ref.at.k[0] = k;
    memset(ref.dims, 0, sizeof(ref.dims));
    for (int d = 0; d < rank; d++) {
        ref.dims[d] = dims[d];
        ref.at.c[0][d] = to[d];
    }
    return add_ref(plan, &ref);
}

static pl_ref build_concat(pl_emit *c, int axis, int n, const pl_ref *args) {
    jit_plan *plan = plan_of(c);
    jit_ref *refs = pl_arena_array(plan->arena, (size_t)n, sizeof(jit_ref));
    plan->no_memory |= refs == NULL;
    if (refs == NULL) return -1;
    int64_t dims[JIT_RANK] = { 0 };
    for (int i = 0; i < n; i++) {
        refs[i] = plan->refs[args[i]];
        for (int d = 0; d < refs[i].rank; d++)
            dims[d] = d == axis ? dims[d] + refs[i].dims[d] : refs[i].dims[d];
    }
    const pl_dtype dtype = plan->prims[refs[0].prim].dtype;
    jit_prim *p = add_prim(plan, JIT_CONCAT, dtype, refs[0].rank, dims);
    if (p == NULL) return -1;
    p->node = c->node;
    p->args = refs;
    p->n_args = n;
    p->axis = axis;
    return ref_of_prim(plan, p);
}

static pl_ref add_call(pl_emit *c, jit_call *call, pl_dtype dtype, int rank, const int64_t *dims,
                       int n, const jit_ref *args) {
    jit_plan *plan = plan_of(c);
    if (call == NULL) return -1;
    jit_prim *p = add_prim(plan, JIT_CALL, dtype, rank, dims);
    if (p == NULL || !set_args(plan, p, n, args)) {
        jit_call_free(call);
        return -1;
    }
    for (int i = 0; i < n; i++)
        plan->prims[args[i].prim].forced = true;
    p->node = c->node;
    p->call = call;
    return ref_of_prim(plan, p);
}

static pl_ref build_gemm(pl_emit *c, const pl_emit_gemm *gemm) {
    jit_plan *plan = plan_of(c);
    int64_t dims[JIT_RANK];
    int rank = 0;
    pl_ref refs[2] = { gemm->a, gemm->b };
    if (refs[0] < 0 || refs[1] < 0) return -1;
    for (int i = 0; i < 2; i++) {
        if (!jit_gemm_operand_fits(plan, &plan->refs[refs[i]])) refs[i] = copy_of(plan, refs[i]);
        if (refs[i] < 0) return -1;
    }
    if (jit_gemm_wants_copy(plan, &plan->refs[refs[0]], &plan->refs[refs[1]])) {
        refs[0] = copy_of(plan, refs[0]);
        if (refs[0] < 0) return -1;
    }
    const jit_ref args[2] = { plan->refs[refs[0]], plan->refs[refs[1]] };
    const pl_dtype dtype = plan->prims[args[0].prim].dtype;
    jit_call *call = jit_call_gemm(plan, &args[0], &args[1], gemm->alpha, c->kernels, &rank, dims);
    return add_call(c, call, dtype, rank, dims, 2, args);
}

static pl_ref build_conv(pl_emit *c, const pl_emit_conv *conv) {
    jit_plan *plan = plan_of(c);
    const jit_program *program = ((lowering *)c->ctx)->program;
    jit_ref args[4], factor;
    int n = 2;
    const bool scaled =
        program->options->fuse && jit_pass_on(program, JIT_PASS_FACTOR) &&
        jit_conv_factor(plan, &plan->refs[conv->x], &conv->shape, &args[0], &factor);
    const int x = scaled ? -1 : jit_whole(plan, conv->x), w = jit_whole(plan, conv->w);
    const int bias = conv->bias < 0 ? -1 : jit_whole(plan, conv->bias);
    if ((x < 0 && !scaled) || w < 0 || (conv->bias >= 0 && bias < 0)) return -1;
    if (!scaled) args[0] = plan->refs[x];
    args[1] = plan->refs[w];
    if (bias >= 0) args[n++] = plan->refs[bias];
    if (scaled) args[n++] = factor;
    int64_t dims[JIT_RANK] = { conv->shape.batch, conv->shape.c_out };
    for (int i = 0; i < conv->shape.n_spatial; i++)
        dims[2 + i] = conv->shape.out[i];
    const bool winograd = program->options->winograd && plan->prims[args[0].prim].dtype == PL_F32 &&
                          plan->prims[args[1].prim].kind == JIT_CONST;
    jit_call *call = jit_call_conv(&conv->shape, winograd, scaled);
    return add_call(c, call, plan->prims[args[0].prim].dtype, 2 + conv->shape.n_spatial, dims, n,
                    args);
}

static void build_out(pl_emit *c, int i, pl_ref x) {
    jit_plan *plan = plan_of(c);
    const pl_dtype want = c->out[i]->dtype;
    pl_ref ref = x;
    if (plan->prims[plan->refs[x].prim].dtype != want) {
        ref = map_of(plan, c->node, want, "$0", 1, &x);
    }
    plan->value_ref[c->node->out[i]->id] = ref;
}

static const pl_emit_builder builder = {
    .in = build_in,
    .iota = build_iota,
    .load = build_load,
    .tensor = build_tensor,
    .convert = build_convert,
    .kernel = build_kernel,
    .map = build_map,
    .reduce = build_reduce,
    .view = build_view,
    .reshape = build_reshape,
    .concat = build_concat,
    .gemm = build_gemm,
    .conv = build_conv,
    .out = build_out,
    .dims = build_dims,
};

/* ---- values that come from elsewhere ---- */

static bool type_is_usable(const pl_type *type, const char **why) {
    if (type == NULL || !pl_type_is_concrete(type)) {
        *why = "a shape is not known before the run";
        return false;
    }
    const uint32_t types = PL_T_NUMERIC | PL_T_BOOL;
    if ((types & PL_T(type->dtype)) == 0) {
        *why = "an element type has no C type";
        return false;
    }
    if (type->rank > JIT_RANK) {
        *why = "more than 8 dims";
        return false;
    }
    size_t n = pl_dtype_bytes(type->dtype);
    for (int d = 0; d < type->rank; d++) {
        const int64_t dim = type->dims[d].value;
        if (dim == 0 || !pl_size_mul(n, (size_t)dim, &n) || n > SIZE_MAX / 8) {
            *why = dim == 0 ? "an empty tensor" : "a tensor is too large";
            return false;
        }
    }
    return true;
}

static jit_prim *prim_of_type(jit_plan *plan, jit_kind kind, const pl_type *type) {
    int64_t dims[JIT_RANK];
    for (int d = 0; d < type->rank; d++)
        dims[d] = type->dims[d].value;
    return add_prim(plan, kind, type->dtype, type->rank, dims);
}

static pl_status add_source(jit_plan *plan, jit_kind kind, const pl_value *value,
                            const pl_type *type, pl_err *err) {
    const char *why;
    if (!type_is_usable(type, &why)) return PL_OK;
    jit_prim *p = prim_of_type(plan, kind, type);
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->value = value;
    p->forced = true;
    if (kind == JIT_CONST) p->tensor = plan->constants[value->id]->tensor;
    plan->value_ref[value->id] = ref_of_prim(plan, p);
    return plan->value_ref[value->id] < 0 ? pl_fail_memory(err, sizeof(jit_ref)) : PL_OK;
}

static pl_status type_of_tensor(jit_plan *plan, const pl_tensor *t, const pl_type **out,
                                pl_err *err) {
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < t->rank; i++)
        dims[i] = pl_dim_of(t->dims[i]);
    *out = pl_type_tensor(plan->arena, t->dtype, t->rank, dims);
    return *out == NULL ? pl_fail_memory(err, sizeof(**out)) : PL_OK;
}

/* The reference of a node's input; a constant becomes a primitive when it is first used. */
static pl_status need_ref(jit_plan *plan, const pl_value *value, pl_err *err) {
    const pl_datum *d = plan->constants[value->id];
    if (plan->value_ref[value->id] >= 0 || d == NULL || d->kind != PL_TYPE_TENSOR) return PL_OK;
    const pl_type *type = NULL;
    PL_TRY(type_of_tensor(plan, d->tensor, &type, err));
    return add_source(plan, JIT_CONST, value, type, err);
}

/* ---- nodes ---- */

typedef struct operands {
    const pl_type **in, **out;
    const pl_tensor **tensor;
} operands;

static pl_status gather(jit_plan *plan, const pl_node *node, operands *o, const char **why,
                        pl_err *err) {
    o->in = pl_arena_array(plan->arena, node->n_in, sizeof(pl_type *));
    o->out = pl_arena_array(plan->arena, node->n_out, sizeof(pl_type *));
    o->tensor = pl_arena_array(plan->arena, node->n_in, sizeof(pl_tensor *));
    if (o->in == NULL || o->out == NULL || o->tensor == NULL) return pl_fail_memory(err, 1);
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *value = node->in[i];
        if (value == NULL) continue;
        PL_TRY(need_ref(plan, value, err));
        const pl_datum *d = plan->constants[value->id];
        if (d != NULL && d->kind == PL_TYPE_TENSOR) o->tensor[i] = d->tensor;
        if (o->tensor[i] != NULL && o->tensor[i]->rank > JIT_RANK) {
            *why = "more than 8 dims"; /* limit of emission rules */
            return PL_OK;
        }
        if (plan->value_ref[value->id] < 0 && o->tensor[i] != NULL) {
            /* Empty, or of an unsupported type: rules may use its numbers, but emitted code cannot
             * read it. */
            PL_TRY(type_of_tensor(plan, o->tensor[i], &o->in[i], err));
            continue;
        }
        if (plan->value_ref[value->id] < 0) {
            if (!type_is_usable(value->type, why)) return PL_OK;
            *why = "an input is not a tensor of known shape";
            return PL_OK;
        }
        pl_dim dims[JIT_RANK];
        const jit_ref *ref = &plan->refs[plan->value_ref[value->id]];
        for (int k = 0; k < ref->rank; k++)
            dims[k] = pl_dim_of(ref->dims[k]);
        o->in[i] = pl_type_tensor(plan->arena, plan->prims[ref->prim].dtype, ref->rank, dims);
        if (o->in[i] == NULL) return pl_fail_memory(err, 1);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        if (!type_is_usable(node->out[i]->type, why)) return PL_OK;
        o->out[i] = node->out[i]->type;
    }
    return PL_OK;
}

/* A rule must set every wanted output, with the shape of the shape rule. */
static bool outputs_fit(const jit_plan *plan, const pl_node *node, const operands *o) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        const int r = plan->value_ref[node->out[i]->id];
        if (r < 0) return false;
        const jit_ref *ref = &plan->refs[r];
        if (ref->rank != o->out[i]->rank) return false;
        if (plan->prims[ref->prim].dtype != o->out[i]->dtype) return false;
        for (int d = 0; d < ref->rank; d++)
            if (ref->dims[d] != o->out[i]->dims[d].value) return false;
    }
    return true;
}

/* Shape, Size: the kernel only looks at the types of its inputs, so the data pointer can be
 * anything. */
static bool fold_types(lowering *l, const pl_node *node, const operands *o, pl_err *err) {
    static const char nowhere[16];
    pl_arena *scratch = l->program->scratch;
    pl_datum **in = pl_arena_array(scratch, node->n_in, sizeof(*in));
    pl_datum **out = pl_arena_array(scratch, node->n_out, sizeof(*out));
    bool ok = in != NULL && out != NULL;
    if (!ok) (void)pl_fail_memory(err, node->n_in);
    for (uint32_t i = 0; ok && i < node->n_in; i++) {
        int64_t dims[JIT_RANK];
        pl_tensor *t = NULL;
        if (o->in[i] == NULL) continue;
        for (int d = 0; d < o->in[i]->rank; d++)
            dims[d] = o->in[i]->dims[d].value;
        ok = pl_tensor_borrow(o->in[i]->dtype, o->in[i]->rank, dims, nowhere, NULL, NULL, &t,
                              err) == PL_OK &&
             pl_datum_of_tensor_take(t, &in[i], err) == PL_OK;
    }
    const pl_eval_setup setup = { .scratch = scratch };
    ok = ok && pl_eval_node(node, in, out, &setup, err) == PL_OK;
    for (uint32_t i = 0; ok && i < node->n_out; i++)
        if (node->out[i] != NULL) l->plan->constants[node->out[i]->id] = out[i];
    for (uint32_t i = 0; in != NULL && i < node->n_in; i++)
        pl_datum_unref(in[i]);
    pl_arena_reset(scratch);
    return ok;
}

/* Rules check only optional outputs for being wanted. */
static bool has_required_outputs(const pl_node *node) {
    for (uint32_t i = 0; node->def->out[i].name != NULL; i++) {
        if ((node->def->out[i].flags & PL_PORT_OPTIONAL) != 0) continue;
        if (i >= node->n_out || node->out[i] == NULL) return false;
    }
    return true;
}

/* Applies the rule of the node's operator; sets *why when the node becomes a break. */
static pl_status lower_node(lowering *l, const pl_node *node, const char **why, pl_err *err) {
    jit_plan *plan = l->plan;
    operands o = { 0 };
    *why = NULL;
    if (node->def->no_emit != NULL || node->def->emit == PL_EMIT_TODO) {
        *why = node->def->no_emit != NULL ? node->def->no_emit : "no emission rule";
        return PL_OK;
    }
    if (!has_required_outputs(node)) {
        *why = "an output without a name";
        return PL_OK;
    }
    PL_TRY(gather(plan, node, &o, why, err));
    if (*why != NULL) return PL_OK;
    pl_emit c = { .node = node,
                  .n_in = (int)node->n_in,
                  .n_out = (int)node->n_out,
                  .in = o.in,
                  .out = o.out,
                  .in_tensor = o.tensor,
                  .builder = &builder,
                  .ctx = l,
                  .kernels = l->program->options->kernels };
    l->node = node;
    const size_t n_prims = plan->n_prims;
    pl_err trouble = PL_ERR_INIT;
    pl_status st = node->def->emit(&c);
    if (st == PL_OK && c.types_only) {
        if (fold_types(l, node, &o, &trouble)) return PL_OK;
        st = trouble.status;
    }
    if (st == PL_E_MEMORY || plan->no_memory) return pl_fail_memory(err, 1);
    if (st == PL_OK && outputs_fit(plan, node, &o)) return PL_OK;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) plan->value_ref[node->out[i]->id] = -1;
    for (size_t i = n_prims; i < plan->n_prims; i++) /* drop what it has started */
        plan->prims[i].forced = false;
    *why = c.reason != NULL ? c.reason : "no emission rule";
    return PL_OK;
}

typedef struct break_args {
    jit_plan *plan;
    const pl_graph *graph;
    jit_ref *args;
    int n;
    bool failed;
} break_args;

static void break_arg(break_args *b, const pl_value *value) {
    if (value == NULL || value->graph != b->graph || b->plan->constants[value->id] != NULL) return;
    const int ref = b->plan->value_ref[value->id];
    if (ref < 0) return;
    const int whole = jit_whole(b->plan, ref);
    b->failed = b->failed || whole < 0;
    if (whole < 0) return;
    b->plan->value_ref[value->id] = whole;
    b->plan->prims[b->plan->refs[whole].prim].heap = true;
    jit_ref *more = pl_arena_array(b->plan->arena, (size_t)b->n + 1, sizeof(jit_ref));
    b->failed = b->failed || more == NULL;
    if (more == NULL) return;
    if (b->n > 0) memcpy(more, b->args, (size_t)b->n * sizeof(jit_ref));
    more[b->n++] = b->plan->refs[whole];
    b->args = more;
}

static pl_status break_body(void *ctx, pl_graph *body, pl_err *err) {
    for (size_t i = 0; i < body->n_nodes; i++) {
        for (uint32_t k = 0; k < body->nodes[i]->n_in; k++)
            break_arg(ctx, body->nodes[i]->in[k]);
        PL_TRY(pl_node_each_body(body->nodes[i], break_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        break_arg(ctx, body->outputs[i]);
    return PL_OK;
}

static pl_status lower_break(lowering *l, const pl_node *node, const char *why, pl_err *err) {
    jit_plan *plan = l->plan;
    jit_break *brk = NULL;
    PL_TRY(jit_break_new(l->program, plan, node, why, &brk, err));
    break_args b = { .plan = plan, .graph = plan->model->graph };
    for (uint32_t i = 0; i < node->n_in; i++)
        break_arg(&b, node->in[i]);
    PL_TRY(pl_node_each_body(node, break_body, &b, err));
    jit_prim *p = b.failed ? NULL : add_prim(plan, JIT_BREAK, PL_UNDEFINED, 0, NULL);
    if (p == NULL) return pl_fail_memory(err, 1);
    const int self = (int)(p - plan->prims);
    p->node = node;
    p->brk = brk;
    p->args = b.args;
    p->n_args = b.n;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        PL_TRY(add_source(plan, JIT_EXTERN, node->out[i], node->out[i]->type, err));
        const int r = plan->value_ref[node->out[i]->id];
        if (r >= 0) plan->prims[plan->refs[r].prim].axis = self; /* the break that computes it */
    }
    return PL_OK;
}

/* fuse=off: every value is stored in memory. */
static pl_status force_outputs(jit_plan *plan, const pl_node *node, pl_err *err) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        int *ref = &plan->value_ref[node->out[i]->id];
        if (plan->constants[node->out[i]->id] != NULL) continue;
        *ref = jit_whole(plan, *ref);
        if (*ref < 0) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

pl_status jit_lower(jit_program *p, jit_plan *plan, pl_err *err) {
    const pl_graph *graph = plan->model->graph;
    lowering l = { .program = p, .plan = plan };
    plan->value_ref = pl_arena_array(plan->arena, plan->model->n_values, sizeof(int));
    if (plan->value_ref == NULL) return pl_fail_memory(err, plan->model->n_values);
    for (size_t i = 0; i < plan->model->n_values; i++)
        plan->value_ref[i] = -1;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (plan->in_types[i] == NULL) continue;
        PL_TRY(add_source(plan, JIT_INPUT, graph->inputs[i], plan->in_types[i], err));
        const int r = plan->value_ref[graph->inputs[i]->id];
        if (r >= 0) plan->prims[plan->refs[r].prim].axis = (int)i;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const char *why = "a fault is planted here";
        if (jit_fault_of(p, node) == NULL) {
            if (jit_fold(p, plan, node)) continue;
            why = "lowering is disabled";
            if (jit_pass_on(p, JIT_PASS_LOWER)) PL_TRY(lower_node(&l, node, &why, err));
        }
        PL_TRY(why != NULL         ? lower_break(&l, node, why, err)
               : !p->options->fuse ? force_outputs(plan, node, err)
                                   : PL_OK);
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        int *ref = &plan->value_ref[graph->outputs[i]->id];
        if (*ref < 0) continue;
        *ref = jit_whole(plan, *ref);
        if (*ref < 0) return pl_fail_memory(err, 1);
        plan->prims[plan->refs[*ref].prim].heap = true;
        plan->prims[plan->refs[*ref].prim].leaves = true;
    }
    return PL_OK;
}
