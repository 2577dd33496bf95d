/* Gradients of Slice and Pad: each maps positions along single axes. */
#include <string.h>

#include "ops/lib/grad_move.h"
#include "ops/tensor/transform_rules.h"

/* n elements of x along one axis from `first` in steps; reversed when step is -1. */
static pl_value *stretch(pl_grad *c, pl_value *x, int64_t axis, int64_t first, int64_t n,
                         int64_t step) {
    const int64_t end = step > 0 ? first + n : first - n;
    if (step > 0) return pl_g_slice(c, x, &first, &end, &axis, 1);
    if (c->st != PL_OK) return NULL;
    if (pl_g_opset(c) < 10) { /* negative steps need opset 10 */
        int64_t *down = pl_arena_array(c->graph->model->arena, (size_t)n, sizeof(*down));
        if (down == NULL) c->st = pl_fail_memory(c->err, (size_t)n);
        for (int64_t i = 0; down != NULL && i < n; i++)
            down[i] = first - i;
        pl_value *in[2] = { x, pl_g_ints(c, down, (size_t)n) };
        const pl_attr along = PL_G_INT("axis", axis);
        return pl_g_op(c, "Gather", in, 2, &along, 1);
    }
    const int64_t stop = end < 0 ? INT64_MIN / 2 : end;
    pl_value *in[5] = { x, pl_g_ints(c, &first, 1), pl_g_ints(c, &stop, 1), pl_g_ints(c, &axis, 1),
                        pl_g_ints(c, &step, 1) };
    return pl_g_op(c, "Slice", in, 5, NULL, 0);
}

/* ---- Slice ---- */

typedef struct cut { /* along one axis: y[i] = x[start + i * step], i < n */
    int64_t start, step, n, of;
} cut;

static int64_t clamp(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : v > high ? high : v;
}

/* ONNX Slice-13: negative numbers count from the end, then everything is clamped. */
static cut cut_of(int64_t start, int64_t end, int64_t step, int64_t of) {
    cut k = { .step = step, .of = of };
    if (start < 0) start += of;
    if (end < 0 && end > INT64_MIN / 4) end += of;
    if (step < -INT64_MAX) step = -INT64_MAX;
    if (step > 0) {
        start = clamp(start, 0, of);
        end = clamp(end, 0, of);
        k.n = end > start ? (end - start - 1) / step + 1 : 0;
    } else {
        start = clamp(start, 0, of - 1);
        end = clamp(end, -1, of - 1);
        k.n = start <= end ? 0 : step < -of ? 1 : (start - end - 1) / -step + 1;
    }
    if (k.n <= 1) k.step = 1; /* with at most one element the step has no effect */
    k.start = start;
    if (k.n == 1) k.step = 1;
    return k;
}

typedef struct slice_args {
    int64_t starts[PL_RANK_MAX], ends[PL_RANK_MAX], axes[PL_RANK_MAX], steps[PL_RANK_MAX];
    size_t n;
} slice_args;

static bool read_list(const pl_node *node, uint32_t i, const char *name, int64_t *out, size_t *n) {
    size_t n_attr = 0;
    const int64_t *attr = pl_attr_ints(node, name, &n_attr);
    *n = 0;
    if (node->n_in > 1) return i < node->n_in && pl_g_known_ints(node->in[i], out, PL_RANK_MAX, n);
    if (attr == NULL || n_attr > PL_RANK_MAX) return false;
    memcpy(out, attr, n_attr * sizeof(*attr));
    *n = n_attr;
    return true;
}

static bool is_given(const pl_node *node, uint32_t i, const char *name) {
    return node->n_in > 1 ? i < node->n_in && node->in[i] != NULL : pl_attr_has(node, name);
}

/* False when an input is not constant. */
static bool read_slice(const pl_node *node, slice_args *a) {
    size_t n = 0;
    if (!read_list(node, 1, "starts", a->starts, &a->n)) return false;
    if (!read_list(node, 2, "ends", a->ends, &n) || n != a->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        a->axes[i] = (int64_t)i;
        a->steps[i] = 1;
    }
    if (is_given(node, 3, "axes") && (!read_list(node, 3, "axes", a->axes, &n) || n != a->n))
        return false;
    return !is_given(node, 4, "steps") || (read_list(node, 4, "steps", a->steps, &n) && n == a->n);
}

/* Inserts step - 1 zeros after each element of g along the axis. */
static pl_value *spread(pl_grad *c, pl_value *g, int axis, int64_t step) {
    int64_t before[PL_RANK_MAX + 1] = { 0 }, behind[PL_RANK_MAX + 1] = { 0 };
    int64_t dims[PL_RANK_MAX];
    const int64_t inner = axis + 1;
    const int rank = pl_g_rank(c, g);
    for (int d = 0; d < rank; d++)
        dims[d] = pl_g_dim(c, g, d) * (d == axis ? step : 1);
    if (c->st != PL_OK) return NULL;
    behind[inner] = step - 1;
    pl_value *apart = pl_g_pad(c, pl_g_unsqueeze(c, g, &inner, 1), before, behind, rank + 1);
    return pl_g_reshape(c, apart, dims, (size_t)rank);
}

static pl_status slice_known(pl_grad *c, const slice_args *a, int rank) {
    pl_value *x = c->node->in[0], *g = c->dy[0];
    int64_t before[PL_RANK_MAX] = { 0 }, behind[PL_RANK_MAX] = { 0 };
    for (size_t i = 0; i < a->n; i++) {
        const int axis = (int)(a->axes[i] < 0 ? a->axes[i] + rank : a->axes[i]);
        cut k = cut_of(a->starts[i], a->ends[i], a->steps[i], x->type->dims[axis].value);
        if (k.n == 0) {
            c->dx[0] = pl_g_zeros_like(c, x);
            return c->st;
        }
        if (k.step < 0) {
            g = stretch(c, g, axis, k.n - 1, k.n, -1);
            k.start += (k.n - 1) * k.step;
            k.step = -k.step;
        }
        if (k.step > 1) g = spread(c, g, axis, k.step);
        before[axis] = k.start;
        behind[axis] = k.of - k.start - k.n * k.step;
    }
    c->dx[0] = pl_g_pad(c, g, before, behind, rank);
    return c->st;
}

pl_status pl_grad_slice(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const int rank = pl_g_rank(c, x);
    slice_args a;
    if (rank < 0 || !c->wanted[0]) return c->st;
    bool known = read_slice(c->node, &a);
    for (size_t i = 0; known && i < a.n; i++) {
        const int64_t axis = a.axes[i] < 0 ? a.axes[i] + rank : a.axes[i];
        if (axis < 0 || axis >= rank || a.steps[i] == 0) return pl_g_fail(c, "its axes are wrong");
        known = pl_dim_known(x->type->dims[axis]) &&
                (a.steps[i] == 1 || a.steps[i] == -1 || pl_g_is_concrete(c->node->out[0]));
    }
    if (known) return slice_known(c, &a, rank);
    pl_value *in[5] = { pl_g_positions(c, x), NULL, NULL, NULL, NULL };
    for (uint32_t i = 1; i < c->node->n_in && i < 5; i++)
        in[i] = c->node->in[i];
    if (c->node->n_in < 3) return pl_g_fail(c, "needs the shape of '%s'", x->name);
    pl_value *positions = pl_g_op(c, "Slice", in, c->node->n_in, NULL, 0);
    c->dx[0] = pl_g_put_back(c, x, positions, c->dy[0], true);
    return c->st;
}

/* ---- Pad ---- */

typedef enum pad_mode { CONSTANT, REFLECT, EDGE, WRAP } pad_mode;

/* Source of element i - before of the padded axis. */
static int64_t source(pad_mode mode, int64_t i, int64_t n) {
    if (mode == EDGE) return clamp(i, 0, n - 1);
    if (mode == WRAP) return ((i % n) + n) % n;
    if (n == 1) return 0;
    const int64_t period = 2 * (n - 1), at = ((i % period) + period) % period;
    return at < n ? at : period - at;
}

typedef struct fold { /* one axis: elements [base, base + n) of x were extended */
    pad_mode mode;
    int axis, rank;
    int64_t whole, base, n, before, total;
} fold;

/* Length of the run of positions from i on that rise, fall or stay the same; *step is 1, -1 or
 * 0. */
static int64_t run_of(const fold *f, int64_t i, int64_t *step) {
    const int64_t first = source(f->mode, i - f->before, f->n);
    int64_t k = 1;
    *step = i + 1 < f->total ? source(f->mode, i + 1 - f->before, f->n) - first : 0;
    if (*step > 1 || *step < -1) *step = 1; /* wraps around: a run of one */
    while (i + k < f->total && source(f->mode, i + k - f->before, f->n) == first + k * *step)
        k++;
    return k;
}

enum { RUNS_MAX = 4096, TOTAL_MAX = 1 << 30 };

/* Folds g back along one axis: adds each run to the positions it was copied from. */
static pl_value *fold_axis(pl_grad *c, pl_value *g, const fold *f) {
    pl_value *sum = NULL;
    const int64_t axis = f->axis;
    int n_runs = 0;
    if (f->total > TOTAL_MAX) (void)pl_g_fail(c, "is not supported for this many elements");
    for (int64_t i = 0; i < f->total && c->st == PL_OK;) {
        int64_t step = 0, left[PL_RANK_MAX] = { 0 }, right[PL_RANK_MAX] = { 0 };
        if (n_runs++ == RUNS_MAX)
            (void)pl_g_fail(c, "is not supported for pads of more than %d times the axis",
                            RUNS_MAX);
        const int64_t k = run_of(f, i, &step), first = source(f->mode, i - f->before, f->n);
        pl_value *part = stretch(c, g, axis, step < 0 ? i + k - 1 : i, k, step < 0 ? -1 : 1);
        if (step == 0) part = pl_g_reduce(c, "ReduceSum", part, &axis, 1, true);
        left[axis] = f->base + (step < 0 ? first - (k - 1) : first);
        right[axis] = f->whole - left[axis] - (step == 0 ? 1 : k);
        part = pl_g_pad(c, part, left, right, f->rank);
        sum = sum == NULL ? part : pl_g_add(c, sum, part);
        i += k;
    }
    return sum;
}

typedef struct pad_args {
    int64_t before[PL_RANK_MAX], behind[PL_RANK_MAX];
} pad_args;

/* False when the pads are not constant. */
static bool read_pads(const pl_node *node, int rank, pad_args *p) {
    const int64_t most = INT64_MAX / 4; /* sums and negations must not overflow */
    int64_t pads[2 * PL_RANK_MAX], axes[PL_RANK_MAX];
    size_t n = 0, n_axes = 0;
    memset(p, 0, sizeof(*p));
    if (node->n_in > 1) {
        if (!pl_g_known_ints(node->in[1], pads, 2 * PL_RANK_MAX, &n)) return false;
    } else {
        const char *name = pl_attr_has(node, "pads") ? "pads" : "paddings";
        const int64_t *attr = pl_attr_ints(node, name, &n);
        if (attr == NULL || n > 2 * PL_RANK_MAX) return false;
        memcpy(pads, attr, n * sizeof(*attr));
    }
    const bool has_axes = node->n_in > 3 && node->in[3] != NULL;
    if (has_axes && !pl_g_known_ints(node->in[3], axes, PL_RANK_MAX, &n_axes)) return false;
    if (n != 2 * (has_axes ? n_axes : (size_t)rank)) return false;
    for (size_t i = 0; i < n / 2; i++) {
        int64_t axis = has_axes ? axes[i] : (int64_t)i;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank) return false;
        if (clamp(pads[i], -most, most) != pads[i]) return false;
        if (clamp(pads[n / 2 + i], -most, most) != pads[n / 2 + i]) return false;
        p->before[axis] = pads[i];
        p->behind[axis] = pads[n / 2 + i];
    }
    return true;
}

/* The constant fills every element of y that is not from x. */
static void give_constant(pl_grad *c, pl_value *inside) {
    if (c->node->n_in < 3 || c->node->in[2] == NULL || !c->wanted[2]) return;
    pl_value *all = pl_g_reduce(c, "ReduceSum", c->dy[0], NULL, 0, false);
    pl_value *own = pl_g_reduce(c, "ReduceSum", inside, NULL, 0, false);
    c->dx[2] = pl_g_reshape_like(c, pl_g_sub(c, all, own), c->node->in[2]);
}

/* Constant mode: removes the pads; elements that were cropped get zeros. */
static pl_status pad_constant(pl_grad *c, const pad_args *p, int rank, bool known) {
    pl_value *inside = NULL;
    if (known) {
        int64_t before[PL_RANK_MAX], behind[PL_RANK_MAX];
        for (int d = 0; d < rank; d++) {
            before[d] = -p->before[d];
            behind[d] = -p->behind[d];
        }
        inside = pl_g_pad(c, c->dy[0], before, behind, rank);
    } else {
        const bool has_axes = c->node->n_in > 3 && c->node->in[3] != NULL;
        pl_value *in[4] = { c->dy[0], pl_g_neg(c, c->node->in[1]), NULL,
                            has_axes ? c->node->in[3] : NULL };
        inside = pl_g_op(c, "Pad", in, has_axes ? 4 : 2, NULL, 0);
    }
    if (c->wanted[0]) c->dx[0] = inside;
    give_constant(c, inside);
    return c->st;
}

static pad_mode mode_of(const pl_node *node) {
    if (pl_attr_string_is(node, "mode", "reflect")) return REFLECT;
    if (pl_attr_string_is(node, "mode", "edge")) return EDGE;
    return pl_attr_string_is(node, "mode", "wrap") ? WRAP : CONSTANT;
}

pl_status pl_grad_pad(pl_grad *c) {
    pl_value *x = c->node->in[0], *g = c->dy[0];
    const int rank = pl_g_rank(c, x);
    const pad_mode mode = mode_of(c->node);
    pad_args p;
    if (rank < 0) return c->st;
    const bool known = read_pads(c->node, rank, &p);
    if (mode == CONSTANT) return pad_constant(c, &p, rank, known);
    if (!known) return pl_g_fail(c, "needs pads known before the run");
    for (int d = 0; d < rank && c->st == PL_OK; d++) {
        if (p.before[d] == 0 && p.behind[d] == 0) continue;
        const int64_t whole = pl_g_dim(c, x, d);
        if (c->st != PL_OK) return c->st;
        /* Negative pads crop first. */
        fold f = { .mode = mode, .axis = d, .rank = rank, .whole = whole };
        f.base = p.before[d] < 0 ? -p.before[d] : 0;
        f.n = whole - f.base + (p.behind[d] < 0 ? p.behind[d] : 0);
        f.before = p.before[d] > 0 ? p.before[d] : 0;
        f.total = whole + p.before[d] + p.behind[d];
        if (f.total <= 0 || f.n <= 0) return pl_g_fail(c, "needs elements along axis %d", d);
        g = fold_axis(c, g, &f);
    }
    c->dx[0] = g;
    return c->st;
}
