/* Scan's attributes; the numbers that a Loop gives to its body. */
#include "ops/control/control.h"

bool pl_scan_has_batch(const pl_node *node) {
    return node->opset < 9;
}

static const char *scan_list(const pl_node *node, const char *name, size_t n, bool flags,
                             const int64_t **out) {
    size_t n_given = 0;
    const int64_t *list = pl_attr_ints(node, name, &n_given);
    *out = list;
    if (list == NULL) return NULL;
    if (n_given != n) return "has the wrong length";
    for (size_t i = 0; flags && i < n; i++) {
        if (list[i] != 0 && list[i] != 1) return "is neither 0 nor 1";
    }
    return NULL;
}

const char *pl_scan_read(pl_scan_layout *s, const pl_node *node, size_t n_in, const char **name) {
    *s = (pl_scan_layout){ .body = pl_attr_graph(node, "body") };
    const int64_t n_scan = pl_attr_int(node, "num_scan_inputs");
    s->first = pl_scan_has_batch(node) ? 1 : 0;
    *name = "body";
    if (s->body == NULL) return "is missing";
    *name = "num_scan_inputs";
    if (n_scan < 1 || n_in < s->first || (uint64_t)n_scan > n_in - s->first)
        return "is out of range";
    s->n_in = (size_t)n_scan;
    s->n_states = n_in - s->first - s->n_in;
    *name = "body";
    if (s->body->n_outputs < s->n_states) return "has fewer outputs than states";
    s->n_out = s->body->n_outputs - s->n_states;
    if (pl_scan_has_batch(node))
        return scan_list(node, *name = "directions", s->n_in, true, &s->in_reverse);
    const char *bad = scan_list(node, *name = "scan_input_axes", s->n_in, false, &s->in_axes);
    if (bad == NULL) {
        bad = scan_list(node, *name = "scan_input_directions", s->n_in, true, &s->in_reverse);
    }
    if (bad == NULL) {
        bad = scan_list(node, *name = "scan_output_axes", s->n_out, false, &s->out_axes);
    }
    if (bad == NULL) {
        bad = scan_list(node, *name = "scan_output_directions", s->n_out, true, &s->out_reverse);
    }
    return bad;
}

/* ---- Loop ---- */

int pl_loop_rank(const pl_graph *body, size_t i) {
    const pl_type *type = i < body->n_inputs ? body->inputs[i]->type : NULL;
    return type != NULL && type->kind == PL_TYPE_TENSOR && type->has_rank && type->rank == 1;
}

pl_status pl_loop_number(pl_dtype dtype, int rank, int64_t value, pl_datum **out, pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(dtype, rank, &(int64_t){ 1 }, &t, err));
    pl_store_i64(dtype, &value, t->data, 1);
    return pl_datum_of_tensor_take(t, out, err);
}
