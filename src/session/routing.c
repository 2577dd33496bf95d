/* Sets of chosen experts: counted, printed, read. */
#include "session/routing.h"

#include <math.h>
#include <string.h>

#include "base/array.h"
#include "base/count.h"
#include "ops/op.h"

enum { MAX_K = 64, MAX_ROUTES = 100000 };

static int axis_of(const pl_node *node, const pl_value *value) {
    const int rank = value->type != NULL && value->type->has_rank ? value->type->rank : 0;
    const int64_t axis = pl_attr_int(node, "axis");
    return (int)(axis < 0 ? axis + rank : axis);
}

bool pl_graph_has_routers(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_op_def *def = graph->nodes[i]->def;
        for (const pl_port *p = def == NULL ? NULL : def->in; p != NULL && p->name != NULL; p++)
            if ((p->flags & PL_PORT_ROUTER) != 0) return true;
    }
    return false;
}

/* Beam search and sampling choose, too, but as outputs of the model; ArgMax chooses one. */
pl_choice pl_choice_of(const pl_graph *graph, const pl_value *value, bool routers) {
    const pl_node *node = value->producer;
    pl_choice c = { NULL, false, 0, 0 };
    if (node != NULL && pl_node_has_flag(node, PL_OP_PICKS) && node->n_out == 2 &&
        node->out[1] == value && !value->is_output) {
        c = (pl_choice){ node, false, axis_of(node, value), 0 };
        return c;
    }
    for (size_t i = node == NULL ? 0 : node->index; routers && i < graph->n_nodes; i++) {
        const pl_node *next = graph->nodes[i];
        for (uint32_t k = 0; k < next->n_in && next->def != NULL; k++) {
            if (next->in[k] != value || next->def->in[k].name == NULL) continue;
            if ((next->def->in[k].flags & PL_PORT_ROUTER) == 0) break;
            return (pl_choice){ next, true, -1, pl_attr_int(next, "k") };
        }
    }
    return c;
}

/* Is index i among the k largest of n? Equal ones: the last. */
static bool is_chosen(const pl_tensor *t, int64_t base, int64_t n, int64_t k, int64_t i) {
    const double x = pl_tensor_get_f64(t, base + i);
    int64_t above = 0;
    for (int64_t j = 0; j < n; j++) {
        const double y = pl_tensor_get_f64(t, base + j);
        above += y > x || (y == x && j > i);
    }
    return above < k;
}

static bool scores_agree(const pl_choice *c, const pl_tensor *a, const pl_tensor *b, int64_t *rows,
                         int64_t *same) {
    const int64_t n = a->rank > 0 ? a->dims[a->rank - 1] : 0;
    if (n < 1 || n > 4096 || c->k < 1) return false;
    *rows = a->n_elements / n;
    for (int64_t r = 0; r < *rows; r++) {
        bool alike = true;
        for (int64_t i = 0; i < n && alike; i++)
            alike = is_chosen(a, r * n, n, c->k, i) == is_chosen(b, r * n, n, c->k, i);
        *same += alike;
    }
    return true;
}

static bool holds(const pl_tensor *t, int64_t base, int64_t step, int64_t k, int64_t index) {
    for (int64_t j = 0; j < k; j++)
        if (pl_tensor_get_i64(t, base + j * step) == index) return true;
    return false;
}

bool pl_choice_agree(const pl_choice *c, const pl_tensor *a, const pl_tensor *b, int64_t *rows,
                     int64_t *same) {
    int64_t inner = 1;
    *rows = *same = 0;
    if (!pl_tensor_same_shape(a, b) || a->n_elements == 0) return false;
    if (c->scores) return scores_agree(c, a, b, rows, same);
    if (!pl_dtype_is_integer(a->dtype) || !pl_dtype_is_integer(b->dtype) || c->axis < 0 ||
        c->axis >= a->rank || a->dims[c->axis] > MAX_K)
        return false;
    for (int d = c->axis + 1; d < a->rank; d++)
        inner *= a->dims[d];
    const int64_t k = a->dims[c->axis], outer = a->n_elements / (k * inner);
    *rows = outer * inner;
    for (int64_t r = 0; r < *rows; r++) {
        const int64_t base = (r / inner) * k * inner + r % inner;
        bool alike = true;
        for (int64_t j = 0; j < k && alike; j++)
            alike = holds(b, base, inner, k, pl_tensor_get_i64(a, base + j * inner));
        *same += alike;
    }
    return true;
}

/* ---- out and in ---- */

static const pl_route *first_other(const pl_routing *r) {
    for (size_t i = 0; i < r->n; i++)
        if (r->of[i].same < r->of[i].rows) return &r->of[i];
    return NULL;
}

void pl_routing_put_text(const pl_routing *r, pl_buf *out) {
    if (r == NULL || r->rows == 0) return;
    const pl_route *first = first_other(r);
    pl_buf_printf(out, "  routing: %lld of %lld choices of experts are the same on both sides",
                  (long long)r->same, (long long)r->rows);
    if (first != NULL) {
        pl_buf_printf(out, "; first other ones at %s '", first->op);
        pl_buf_put_clean(out, first->node[0] != '\0' ? first->node : first->value);
        pl_buf_printf(out, "' (%lld of %lld)", (long long)(first->rows - first->same),
                      (long long)first->rows);
    }
    pl_buf_putc(out, '\n');
    if (r->output[0] == '\0') return;
    pl_buf_puts(out, "  routing: '");
    pl_buf_put_clean(out, r->output);
    pl_buf_printf(out, "' is off by %.3g of its size; A's choices alone make %.3g", r->error,
                  r->alone);
    if (!isnan(r->without))
        pl_buf_printf(out, "; with the reference's choices %.3g are left", r->without);
    pl_buf_putc(out, '\n');
}

static void put_number(pl_json *j, const char *key, double x) {
    pl_json_key(j, key);
    if (isnan(x)) {
        pl_json_null(j);
    } else {
        pl_json_double(j, x);
    }
}

void pl_routing_put_json(const pl_routing *r, pl_json *j) {
    if (r == NULL) return;
    pl_json_key(j, "routing");
    pl_json_object_begin(j);
    pl_json_put_int(j, "choices", r->rows);
    pl_json_put_int(j, "same", r->same);
    pl_json_put_string(j, "output", r->output[0] == '\0' ? NULL : r->output);
    put_number(j, "error", r->error);
    put_number(j, "error_of_choices", r->alone);
    put_number(j, "error_with_reference_choices", r->without);
    pl_json_key(j, "of");
    pl_json_array_begin(j);
    for (size_t i = 0; i < r->n; i++) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "node", r->of[i].node);
        pl_json_put_string(j, "op", r->of[i].op);
        pl_json_put_string(j, "value", r->of[i].value);
        pl_json_put_int(j, "choices", r->of[i].rows);
        pl_json_put_int(j, "same", r->of[i].same);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

static const char *text_at(pl_session *s, const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    const char *kept =
        v != NULL && v->kind == PL_JSON_STRING ? pl_arena_strdup(s->arena, v->string) : "";
    return kept == NULL ? "" : kept;
}

static int64_t count_at(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->is_integer && v->integer > 0 ? v->integer : 0;
}

static double number_at(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->kind == PL_JSON_NUMBER ? v->number : (double)NAN;
}

pl_status pl_routing_take(pl_session *s, const pl_json_value *v, pl_err *err) {
    if (v == NULL || v->kind != PL_JSON_OBJECT) return PL_OK;
    const pl_json_value *list = pl_json_find(v, "of");
    const size_t n = list == NULL || list->kind != PL_JSON_ARRAY ? 0 : list->n_items;
    pl_routing *r = pl_arena_array(s->arena, 1, sizeof(*r));
    if (r == NULL || n > MAX_ROUTES) return pl_fail_memory(err, n);
    *r = (pl_routing){ .rows = count_at(v, "choices"),
                       .same = count_at(v, "same"),
                       .output = text_at(s, v, "output"),
                       .error = number_at(v, "error"),
                       .alone = number_at(v, "error_of_choices"),
                       .without = number_at(v, "error_with_reference_choices") };
    r->of = pl_arena_array(s->arena, n + 1, sizeof(*r->of));
    if (r->of == NULL) return pl_fail_memory(err, n);
    for (const pl_json_value *o = n == 0 ? NULL : list->first; o != NULL; o = o->next)
        if (o->kind == PL_JSON_OBJECT)
            r->of[r->n++] =
                (pl_route){ text_at(s, o, "node"), text_at(s, o, "op"), text_at(s, o, "value"),
                            count_at(o, "choices"), count_at(o, "same") };
    s->routing = r;
    return PL_OK;
}
