/* The static difference of A's model and B's, found before anything is run: nodes of the same name
 * and operator whose attributes or weights differ.
 *
 * It is told in notes, and it names the member of a fused group: a backend may show only the sum
 * after a product whose weights were changed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/strmap.h"
#include "flows/analyze/analyze_int.h"
#include "session/judge.h"

enum { MAX_TOLD = 4 };

/* ---- one node ---- */

static bool same_bytes(const void *a, const void *b, size_t n) {
    return n == 0 || (a != NULL && b != NULL && memcmp(a, b, n) == 0);
}

static bool same_tensor(const pl_tensor *a, const pl_tensor *b) {
    return a == b ||
           (a != NULL && b != NULL && a->dtype == b->dtype && pl_tensor_same_shape(a, b) &&
            pl_tensor_is_contiguous(a) && pl_tensor_is_contiguous(b) && a->dtype != PL_STRING &&
            same_bytes(a->data, b->data, pl_tensor_bytes(a)));
}

/* The same numbers in another float type: rounded to the narrower one. */
static bool same_numbers(const pl_tensor *a, const pl_tensor *b) {
    pl_tensor *cast = NULL;
    const bool floats = pl_dtype_is_float(a->dtype) && pl_dtype_is_float(b->dtype);
    if (!floats || a->dtype == b->dtype || !pl_tensor_same_shape(a, b)) return same_tensor(a, b);
    const bool a_wider = pl_dtype_bytes(a->dtype) > pl_dtype_bytes(b->dtype);
    const pl_tensor *wide = a_wider ? a : b, *narrow = a_wider ? b : a;
    if (pl_tensor_cast(wide, narrow->dtype, &cast, NULL) != PL_OK) return false;
    const bool same = same_tensor(cast, narrow);
    pl_tensor_unref(cast);
    return same;
}

/* Bodies, types and lists of tensors are not compared: counted as equal. */
static bool same_attr(const pl_attr *a, const pl_attr *b) {
    if (a->type != b->type || a->n != b->n) return false;
    switch (a->type) {
    case PL_ATTR_FLOAT: return a->f == b->f || (isnan(a->f) && isnan(b->f));
    case PL_ATTR_INT: return a->i == b->i;
    case PL_ATTR_STRING:
        return a->s.n_bytes == b->s.n_bytes && same_bytes(a->s.data, b->s.data, a->s.n_bytes);
    case PL_ATTR_TENSOR: return same_tensor(a->tensor, b->tensor);
    case PL_ATTR_FLOATS: return same_bytes(a->floats, b->floats, a->n * sizeof(*a->floats));
    case PL_ATTR_INTS: return same_bytes(a->ints, b->ints, a->n * sizeof(*a->ints));
    default: return true;
    }
}

static const pl_attr *attr_named(const pl_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
    return NULL;
}

/* The first attribute that only one has, or that differs; NULL = none. */
static const char *other_attr(const pl_node *a, const pl_node *b) {
    for (uint32_t i = 0; i < a->n_attrs; i++) {
        const pl_attr *other = attr_named(b, a->attrs[i].name);
        if (other == NULL || !same_attr(&a->attrs[i], other)) return a->attrs[i].name;
    }
    for (uint32_t i = 0; i < b->n_attrs; i++)
        if (attr_named(a, b->attrs[i].name) == NULL) return b->attrs[i].name;
    return NULL;
}

/* The first weight that differs; NULL = none. */
static const pl_value *other_weight(const pl_node *a, const pl_node *b, const pl_value **of_b) {
    for (uint32_t i = 0; i < a->n_in && i < b->n_in; i++) {
        const pl_value *x = a->in[i], *y = b->in[i];
        if (x == NULL || y == NULL || x->init == NULL || y->init == NULL) continue;
        if (same_numbers(x->init, y->init)) continue;
        *of_b = y;
        return x;
    }
    return NULL;
}

/* "weight 'w' differs in 1 of 96 elements, by at most 0.5" */
static pl_status say_weight(const pl_value *a, const pl_value *b, char *out, size_t size,
                            pl_err *err) {
    pl_accumulators acc;
    if (a->init->dtype != b->init->dtype || !pl_tensor_same_shape(a->init, b->init) ||
        !pl_judge_types_fit(a->init->dtype, b->init->dtype) || a->init->dtype == PL_STRING) {
        (void)snprintf(out, size, "weight '%.120s' has another type or shape", a->name);
        return PL_OK;
    }
    PL_TRY(pl_accumulate(NULL, a->init, b->init, &acc, err));
    (void)snprintf(out, size, "weight '%.120s' differs by at most %.3g", a->name, acc.max_abs);
    return PL_OK;
}

/* What differs, in words; "" = nothing. */
static pl_status difference(const pl_node *a, const pl_node *b, char *out, size_t size,
                            pl_err *err) {
    const pl_value *of_b = NULL;
    const char *attr = other_attr(a, b);
    out[0] = '\0';
    if (attr != NULL) {
        (void)snprintf(out, size, "attribute '%.120s' differs", attr);
        return PL_OK;
    }
    const pl_value *weight = other_weight(a, b, &of_b);
    return weight == NULL ? PL_OK : say_weight(weight, of_b, out, size, err);
}

/* ---- all of them ---- */

static const pl_node *counterpart(const pl_strmap *names, const pl_node *node) {
    const pl_node *other = node->name[0] == '\0' ? NULL : pl_strmap_get(names, node->name);
    return other != NULL && strcmp(other->op, node->op) == 0 ? other : NULL;
}

static pl_status names_of(const pl_graph *g, pl_strmap *names, pl_err *err) {
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->name[0] != '\0' &&
            pl_strmap_put(names, g->nodes[i]->name, g->nodes[i]) < 0)
            return pl_fail_memory(err, 1);
    return PL_OK;
}

pl_status pl_analysis_diff(pl_analysis *x, pl_err *err) {
    pl_strmap names = PL_STRMAP_INIT;
    const pl_graph *a = x->model->graph, *b = x->replayed->graph;
    size_t n_same = 0, n_other = 0;
    char text[300];
    if (x->reference_model == NULL || x->sample > 0) return PL_OK;
    x->differs = pl_arena_array(x->arena, b->n_nodes + 1, sizeof(*x->differs));
    if (x->differs == NULL) return pl_fail_memory(err, b->n_nodes);
    pl_status st = names_of(a, &names, err);
    for (size_t i = 0; st == PL_OK && i < b->n_nodes; i++) {
        const pl_node *other = counterpart(&names, b->nodes[i]);
        if (other == NULL) continue;
        st = difference(other, b->nodes[i], text, sizeof(text), err);
        if (st != PL_OK || text[0] == '\0') {
            n_same++;
            continue;
        }
        x->differs[i] = pl_analysis_keep(x, text);
        if (n_other++ < MAX_TOLD)
            st = pl_analysis_note(x, err, "the models differ in %s '%.120s': %s", b->nodes[i]->op,
                                  b->nodes[i]->name, text);
    }
    if (st == PL_OK && n_other > MAX_TOLD)
        st = pl_analysis_note(x, err, "the models differ in %zu of %zu nodes of the same name",
                              n_other, n_other + n_same);
    pl_strmap_release(&names);
    return st;
}

/* The only member of a group that differs between the models is the one to blame. */
pl_status pl_analysis_name_members(pl_analysis *x, pl_err *err) {
    const pl_graph *g = x->replayed->graph;
    for (size_t i = 0; x->differs != NULL && i < x->blame.n_groups; i++) {
        pl_blame_entry *e = &x->blame.groups[i];
        const pl_node *only = NULL;
        size_t n = 0;
        for (size_t k = 0; k < e->n_members; k++) {
            const pl_value *v = pl_graph_find(g, e->members[k]);
            if (v == NULL || v->producer == NULL || v->producer->graph != g) continue;
            if (x->differs[v->producer->index] == NULL) continue;
            only = v->producer;
            n++;
        }
        if (n != 1) continue;
        if (strcmp(only->name, e->node) != 0 && only->n_out > 0 && only->out[0] != NULL) {
            e->node = only->name;
            e->op = only->op;
            e->value = only->out[0]->name;
        }
        e->reason = pl_arena_printf(x->arena, "%s; the models differ here: %s", e->reason,
                                    x->differs[only->index]);
        if (e->reason == NULL) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}
