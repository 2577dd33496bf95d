/* Shrink dims: all axes of one size get a smaller one at the same time, data and weights are sliced
 * to it, and shapes are inferred again. The meaning of sizes is unknown: equal sizes change
 * together first, then axis by axis; contradictory combinations are never queried. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_data.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

enum { SIZES_MAX = 64, SHAPE_LIST_MAX = 16 };

typedef struct change {
    int64_t from, to; /* sizes; from 0 = every size above `to` */
    bool multiples;   /* 4 * from becomes 4 * to: gates of an LSTM, heads of an attention */
    bool at_end;      /* keep the last entries, not the first */
    size_t only_slot; /* SIZE_MAX = all */
    int only_axis;    /* -1 = all */
} change;

static bool hits(const change *c, int64_t size) {
    if (c->from == 0) return size > c->to;
    return c->multiples ? size > 0 && size % c->from == 0 : size == c->from;
}

static int64_t smaller(const change *c, int64_t size) {
    return c->multiples && c->from > 0 ? size / c->from * c->to : c->to;
}

static pl_status cut_tensor(pl_mini_state *s, const pl_slot *slot, size_t index, const change *c,
                            bool *any, pl_err *err) {
    pl_tensor *t = pl_slot_tensor(s, slot);
    if (t == NULL || (c->only_slot != SIZE_MAX && c->only_slot != index)) return PL_OK;
    for (int axis = 0; axis < t->rank; axis++) {
        pl_tensor *made = NULL;
        if (!hits(c, t->dims[axis]) || (c->only_axis >= 0 && c->only_axis != axis)) continue;
        const int64_t to = smaller(c, t->dims[axis]);
        PL_TRY(pl_mini_slice(t, axis, c->at_end ? t->dims[axis] - to : 0, to, &made, err));
        PL_TRY(pl_slot_set_take(s, slot, made, err));
        t = pl_slot_tensor(s, slot);
        *any = true;
    }
    return PL_OK;
}

/* An input without data is only a type. */
static pl_status cut_type(pl_mini_state *s, const pl_slot *slot, size_t index, const change *c,
                          bool *any, pl_err *err) {
    pl_dim dims[PL_RANK_MAX];
    const pl_type *type = slot->value->type;
    if (slot->input == SIZE_MAX || pl_slot_tensor(s, slot) != NULL || slot->value->init != NULL ||
        type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank ||
        (c->only_slot != SIZE_MAX && c->only_slot != index)) {
        return PL_OK;
    }
    bool changed = false;
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i];
        if (!pl_dim_known(dims[i]) || !hits(c, dims[i].value)) continue;
        if (c->only_axis >= 0 && c->only_axis != i) continue;
        dims[i] = pl_dim_of(smaller(c, dims[i].value));
        changed = true;
    }
    if (!changed) return PL_OK;
    *any = true;
    slot->value->type = pl_type_tensor(s->model->arena, type->dtype, type->rank, dims);
    return slot->value->type == NULL ? pl_fail_memory(err, sizeof(pl_type)) : PL_OK;
}

/* Sizes that are numbers in the model: kernel_shape, the shape of a Reshape, a state's size. */
static pl_status change_attr(pl_model *model, pl_attr *a, const change *c, pl_err *err) {
    static const char *const lists[] = { "kernel_shape", "shape", "split", "output_shape" };
    static const char *const numbers[] = { "hidden_size", "group",        "num_heads",
                                           "q_num_heads", "kv_num_heads", "num_outputs" };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && a->type == PL_ATTR_INT; i++)
        if (strcmp(a->name, numbers[i]) == 0 && hits(c, a->i)) a->i = smaller(c, a->i);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]) && a->type == PL_ATTR_INTS; i++) {
        if (strcmp(a->name, lists[i]) != 0) continue;
        int64_t *ints = pl_arena_array(model->arena, a->n + 1, sizeof(int64_t));
        if (ints == NULL) return pl_fail_memory(err, a->n);
        for (size_t k = 0; k < a->n; k++)
            ints[k] = hits(c, a->ints[k]) ? smaller(c, a->ints[k]) : a->ints[k];
        a->ints = ints;
    }
    return PL_OK;
}

static pl_status change_numbers(pl_mini_state *s, const change *c, pl_err *err) {
    pl_graph *graph = s->model->graph;
    if (c->only_slot != SIZE_MAX) return PL_OK;
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->n_attrs; k++)
            PL_TRY(change_attr(s->model, &graph->nodes[i]->attrs[k], c, err));
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *v = graph->values[i];
        pl_tensor *made = NULL;
        if (v->init == NULL || v->init->dtype != PL_I64 || v->init->rank > 1 ||
            v->init->n_elements > SHAPE_LIST_MAX) {
            continue;
        }
        PL_TRY(pl_tensor_copy(v->init, &made, err));
        int64_t *x = made->data;
        for (int64_t k = 0; k < made->n_elements; k++)
            if (hits(c, x[k])) x[k] = smaller(c, x[k]);
        const pl_status st = pl_value_set_init(v, made, err);
        pl_tensor_unref(made);
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status build(pl_mini *m, const pl_mini_state *from, const change *c, pl_mini_state **out,
                       pl_err *err) {
    pl_mini_state *s = NULL;
    pl_slot *slots = NULL;
    size_t n = 0;
    bool any = false, ok = false;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_status st = change_numbers(s, c, err);
    if (st == PL_OK) st = pl_mini_slots(s, &slots, &n, err);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        st = cut_tensor(s, &slots[i], i, c, &any, err);
        if (st == PL_OK) st = cut_type(s, &slots[i], i, c, &any, err);
    }
    pl_free(slots);
    if (st == PL_OK && any) st = pl_mini_state_settle(m, s, &ok, err);
    if (st == PL_OK && any && ok) {
        *out = s;
        s = NULL;
    }
    pl_mini_state_free(s);
    return st;
}

static pl_status attempt(pl_mini *m, const pl_mini_state *from, const change *c,
                         pl_mini_state **best, bool *fails, pl_err *err) {
    pl_mini_state *candidate = NULL, *found = NULL;
    *fails = false;
    PL_TRY(build(m, *best == NULL ? from : *best, c, &candidate, err));
    if (candidate == NULL) return PL_OK;
    const pl_status st = pl_mini_try_take(m, candidate, &found, fails, err);
    if (found != NULL) {
        pl_mini_state_free(*best);
        *best = found;
    }
    return st;
}

/* One size: 1, else halves, the first or the last entries, then one less. */
static pl_status shrink_size(pl_mini *m, const pl_mini_state *from, change c, pl_mini_state **best,
                             pl_err *err) {
    bool fails = false;
    c.to = 1;
    PL_TRY(attempt(m, from, &c, best, &fails, err));
    while (!fails && c.from > 2) {
        bool half = false;
        c.to = (c.from + 1) / 2;
        for (int end = 0; end < 2 && !half; end++) {
            c.at_end = end != 0;
            PL_TRY(attempt(m, from, &c, best, &half, err));
        }
        c.at_end = false;
        if (!half) break;
        c.from = c.to;
    }
    for (int end = 0; !fails && c.from > 2; end++) {
        bool less = false;
        c.to = c.from - 1;
        c.at_end = end % 2 != 0;
        PL_TRY(attempt(m, from, &c, best, &less, err));
        if (!less && end % 2 != 0) break;
        if (less) c.from--;
        if (less) end = -1;
    }
    return PL_OK;
}

/* ---- which sizes there are ---- */

static void note_size(int64_t *sizes, size_t *n, int64_t size) {
    for (size_t i = 0; i < *n; i++)
        if (sizes[i] == size) return;
    if (size > 1 && *n < SIZES_MAX) sizes[(*n)++] = size;
}

static int descending(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

static void dims_of(const pl_mini_state *s, const pl_slot *slot, int64_t *dims, int *rank) {
    const pl_tensor *t = pl_slot_tensor(s, slot);
    const pl_type *type = slot->value->type;
    *rank = 0;
    if (t != NULL) {
        *rank = t->rank;
        memcpy(dims, t->dims, (size_t)t->rank * sizeof(int64_t));
    } else if (type != NULL && type->kind == PL_TYPE_TENSOR && type->has_rank) {
        *rank = type->rank;
        for (int i = 0; i < type->rank; i++)
            dims[i] = type->dims[i].value;
    }
}

static pl_status each_axis(pl_mini *m, const pl_mini_state *from, pl_mini_state **best,
                           pl_err *err) {
    pl_slot *slots = NULL;
    size_t n = 0;
    PL_TRY(pl_mini_slots(*best == NULL ? from : *best, &slots, &n, err));
    pl_free(slots);
    for (size_t i = 0; i < n; i++) {
        for (int axis = 0; axis < PL_RANK_MAX; axis++) {
            const pl_mini_state *now = *best == NULL ? from : *best;
            int64_t dims[PL_RANK_MAX];
            int rank = 0;
            PL_TRY(pl_mini_slots(now, &slots, &n, err));
            if (i < n) dims_of(now, &slots[i], dims, &rank);
            pl_free(slots);
            if (axis >= rank) break;
            const change c = { .from = dims[axis], .only_slot = i, .only_axis = axis };
            if (c.from > 1) PL_TRY(shrink_size(m, from, c, best, err));
        }
    }
    return PL_OK;
}

/* Largest first. */
static pl_status find_sizes(const pl_mini_state *s, int64_t *sizes, size_t *n_sizes, pl_err *err) {
    int64_t dims[PL_RANK_MAX];
    pl_slot *slots = NULL;
    size_t n = 0;
    int rank = 0;
    *n_sizes = 0;
    PL_TRY(pl_mini_slots(s, &slots, &n, err));
    for (size_t i = 0; i < n; i++) {
        dims_of(s, &slots[i], dims, &rank);
        for (int k = 0; k < rank; k++)
            note_size(sizes, n_sizes, dims[k]);
    }
    pl_free(slots);
    qsort(sizes, *n_sizes, sizeof(sizes[0]), descending);
    return PL_OK;
}

/* Sizes that divide others. */
static pl_status shrink_multiples(pl_mini *m, const pl_mini_state *from, pl_mini_state **best,
                                  pl_err *err) {
    int64_t sizes[SIZES_MAX];
    size_t n = 0;
    PL_TRY(find_sizes(*best == NULL ? from : *best, sizes, &n, err));
    for (size_t i = 1; i < n; i++) {
        bool divides = false;
        for (size_t k = 0; k < i; k++)
            divides = divides || sizes[k] % sizes[i] == 0;
        const change c = {
            .from = sizes[i], .multiples = true, .only_slot = SIZE_MAX, .only_axis = -1
        };
        if (divides) PL_TRY(shrink_size(m, from, c, best, err));
    }
    return PL_OK;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    int64_t sizes[SIZES_MAX];
    size_t n_sizes = 0;
    bool fails = false;
    PL_TRY(find_sizes(from, sizes, &n_sizes, err));
    if (n_sizes == 0) return PL_OK;
    const change all = { .from = 0, .to = 1, .only_slot = SIZE_MAX, .only_axis = -1 };
    PL_TRY(attempt(m, from, &all, out, &fails, err));
    if (fails) return PL_OK;
    for (size_t i = 0; i < n_sizes; i++) {
        const change c = { .from = sizes[i], .only_slot = SIZE_MAX, .only_axis = -1 };
        PL_TRY(shrink_size(m, from, c, out, err));
    }
    PL_TRY(shrink_multiples(m, from, out, err));
    return each_axis(m, from, out, err);
}

const pl_strategy pl_strategy_dims = {
    .name = "Shrink dims", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_ELEMENTS, .run = run
};
