/* Saturated products: u8 x s8 pairs added in 16 bits with saturation, as on x86 CPUs without VNNI.
 * The segment is replayed with such products; if that gives the recorded value, this is the kind.
 *
 * Integer operators use the kernels of provider_saturate.c. For DequantizeLinear, Conv (a QDQ
 * model, which the runtime fuses into an integer product), the sums of codes are computed twice,
 * exactly and saturated, and the difference is applied to the float product. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "kernels/provider.h"
#include "ops/eval.h"
#include "ops/op.h"

const char pl_kind_saturated_name[] = "saturated products";

typedef struct codes { /* input of a DequantizeLinear; borrowed */
    const pl_tensor *q, *scale, *zero;
} codes;

typedef struct product {
    const pl_node *node;
    codes x, w;
    const pl_op_def *row; /* the operator that makes the same sums of codes */
} product;

static const pl_tensor *tensor_at(const pl_replay *r, const pl_value *v) {
    if (v == NULL) return NULL;
    const pl_datum *d = pl_replay_get(r, v);
    if (d != NULL) return d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
    return v->init;
}

static bool holds(const pl_segment *segment, const pl_node *node) {
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (segment->nodes[i] == node) return true;
    return false;
}

static bool is_8bit(pl_dtype type) {
    return type == PL_U8 || type == PL_I8;
}

/* The codes behind an input of a float product; false when the runtime used floats. */
static bool find_codes(const pl_replay *r, const pl_segment *segment, const pl_value *v,
                       codes *out) {
    const pl_node *from = v == NULL ? NULL : v->producer;
    if (from == NULL || !pl_node_has_flag(from, PL_OP_DEQUANTIZE) || !holds(segment, from) ||
        from->n_in < 2) {
        return false;
    }
    *out = (codes){ tensor_at(r, from->in[0]), tensor_at(r, from->in[1]),
                    from->n_in > 2 ? tensor_at(r, from->in[2]) : NULL };
    return out->q != NULL && is_8bit(out->q->dtype) && out->scale != NULL;
}

/* The row that computes sums of products of codes for this operator. */
static const pl_op_def *sums_of(const pl_node *node) {
    const pl_op_def *row;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (row->plain == NULL || row->plain->floats || strcmp(row->plain->op, node->op) != 0) {
            continue;
        }
        if ((row->out[0].types & (PL_T(PL_I32) | PL_T(PL_F32))) != 0) return row;
    }
    return NULL;
}

static bool find_product(const pl_replay *r, const pl_segment *segment, const pl_node *node,
                         product *out) {
    *out = (product){ .node = node };
    if (node->def->weights == PL_WEIGHTS_NONE || !pl_domain_is_onnx(node->domain) ||
        node->n_in < 2 || !find_codes(r, segment, node->in[0], &out->x) ||
        !find_codes(r, segment, node->in[1], &out->w) || out->w.q->dtype != PL_I8 ||
        out->x.scale->n_elements != 1) {
        return false;
    }
    out->row = sums_of(node);
    return out->row != NULL;
}

/* ---- the sums of codes ---- */

/* A node of p->row with the attributes of the float one; *out is freed with the model. */
static pl_status make_node(const product *p, pl_model **model, const pl_node **out, pl_err *err) {
    const pl_op_def *row = p->row;
    const char *domain = row->domain == NULL ? "" : row->domain;
    size_t n_in = 0;
    pl_node *node = NULL;
    pl_value *y = NULL;
    while (row->in[n_in].name != NULL)
        n_in++;
    PL_TRY(pl_model_new(model, err));
    PL_TRY(pl_model_set_opset(*model, domain, row->since, err));
    PL_TRY(pl_graph_add_value((*model)->graph, "y", &y, err));
    for (size_t i = 0; i < n_in; i++) {
        pl_value *in = NULL;
        PL_TRY(pl_graph_add_fresh_value((*model)->graph, row->in[i].name, &in, err));
    }
    PL_TRY(pl_graph_add_node((*model)->graph, row->name, domain, n_in, 1, &node, err));
    for (size_t i = 0; i < n_in; i++)
        node->in[i] = (*model)->graph->values[i + 1];
    pl_node_set_output(node, 0, y);
    for (uint32_t i = 0; i < p->node->n_attrs; i++) {
        const pl_attr *from = &p->node->attrs[i];
        bool known = false;
        for (const pl_op_attr *a = row->attrs; a != NULL && a->name != NULL; a++)
            known = known || strcmp(a->name, from->name) == 0;
        if (!known || from->tensor != NULL || from->graph != NULL) continue;
        pl_attr *to = pl_node_add_attr(node, from->name, from->type);
        if (to == NULL) return pl_fail_memory(err, 1);
        const char *name = to->name;
        *to = *from; /* lists belong to the float node, which lives longer */
        to->name = name;
    }
    PL_TRY(pl_ops_resolve(*model, err));
    *out = node;
    return PL_OK;
}

static bool ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static pl_status wrap(const pl_tensor *t, pl_datum **out, pl_err *err) {
    return pl_datum_of_tensor_take(pl_tensor_ref((pl_tensor *)(uintptr_t)t), out, err);
}

/* Inputs by the names of their ports: codes, zero points, and a scale of 1 where required. */
static pl_status fill_inputs(const product *p, pl_datum **in, pl_err *err) {
    const pl_op_def *row = p->row;
    int n_zero = 0;
    for (size_t i = 0; row->in[i].name != NULL; i++) {
        const pl_port *port = &row->in[i];
        if ((int)i == row->plain->slots[0]) PL_TRY(wrap(p->x.q, &in[i], err));
        if ((int)i == row->plain->slots[1]) PL_TRY(wrap(p->w.q, &in[i], err));
        if (ends_with(port->name, "zero_point") && n_zero < 2) {
            const codes *from = n_zero++ == 0 ? &p->x : &p->w;
            pl_tensor *zero = NULL;
            if (from->zero != NULL) {
                PL_TRY(wrap(from->zero, &in[i], err));
            } else if ((port->flags & PL_PORT_OPTIONAL) == 0) {
                PL_TRY(pl_tensor_new(from->q->dtype, 0, NULL, &zero, err));
                PL_TRY(pl_datum_of_tensor_take(zero, &in[i], err));
            }
        }
        if (ends_with(port->name, "scale") && (port->flags & PL_PORT_OPTIONAL) == 0) {
            pl_tensor *one = NULL;
            PL_TRY(pl_tensor_new(PL_F32, 0, NULL, &one, err));
            *(float *)one->data = 1;
            PL_TRY(pl_datum_of_tensor_take(one, &in[i], err));
        }
    }
    return PL_OK;
}

static pl_status add_up(pl_blaming *j, const pl_node *node, pl_datum *const *in,
                        const pl_provider *by, pl_tensor **out, pl_err *err) {
    pl_datum *y = NULL;
    pl_arena *scratch = pl_arena_new();
    pl_status st = PL_OK;
    if (scratch == NULL) return pl_fail_memory(err, 1);
    const pl_eval_setup setup = { .pool = j->options->pool, .kernels = by, .scratch = scratch };
    PL_TRY_GOTO(done, st, pl_eval_node(node, in, &y, &setup, err));
    st = pl_tensor_cast(y->tensor, PL_F64, out, err);
done:
    pl_datum_unref(y);
    pl_arena_free(scratch);
    return st;
}

/* Saturated sums minus exact ones, in codes. */
static pl_status find_loss(pl_blaming *j, const product *p, pl_tensor **out, pl_err *err) {
    enum { PORTS_MAX = 16 };
    pl_datum *in[PORTS_MAX] = { NULL };
    pl_model *model = NULL;
    const pl_node *node = NULL;
    pl_tensor *right = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, make_node(p, &model, &node, err));
    if (node->n_in > PORTS_MAX) goto done;
    PL_TRY_GOTO(done, st, fill_inputs(p, in, err));
    PL_TRY_GOTO(done, st, add_up(j, node, in, &pl_provider_own, &right, err));
    PL_TRY_GOTO(done, st, add_up(j, node, in, &pl_provider_saturate, out, err));
    double *loss = (*out)->data;
    for (int64_t i = 0; i < right->n_elements; i++)
        loss[i] -= ((const double *)right->data)[i];
done:
    for (size_t i = 0; i < PORTS_MAX; i++)
        pl_datum_unref(in[i]);
    pl_tensor_unref(right);
    pl_model_free(model);
    return st;
}

/* ---- the replay ---- */

/* Subtracts the loss from the float product that was just replayed. */
static pl_status lower_product(pl_blaming *j, pl_replay *r, const product *p, int64_t *n_clipped,
                               pl_err *err) {
    const pl_value *value = p->node->out[0];
    const pl_tensor *y = tensor_at(r, value);
    pl_tensor *loss = NULL, *sum = NULL, *bound = NULL;
    pl_datum *d = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, find_loss(j, p, &loss, err));
    if (loss == NULL || y == NULL || !pl_tensor_same_shape(loss, y)) goto done;
    PL_TRY_GOTO(done, st, pl_tensor_cast(y, PL_F64, &sum, err));
    if (pl_replay_bound(r, value) != NULL) {
        PL_TRY_GOTO(done, st, pl_tensor_cast(pl_replay_bound(r, value), PL_F64, &bound, err));
    }
    const bool rows = p->node->def->weights == PL_WEIGHTS_ROWS && y->rank > 1;
    int64_t inner = 1, channels = y->rank == 0 ? 1 : y->dims[rows ? 1 : y->rank - 1];
    for (int i = 2; rows && i < y->rank; i++)
        inner *= y->dims[i];
    const bool each = p->w.scale->n_elements == channels;
    if (!each && p->w.scale->n_elements != 1) goto done;
    const double sx = pl_tensor_get_f64(p->x.scale, 0);
    for (int64_t i = 0; i < sum->n_elements; i++) {
        const double lost = ((const double *)loss->data)[i];
        if (lost == 0) continue;
        (*n_clipped)++;
        ((double *)sum->data)[i] +=
            lost * sx * pl_tensor_get_f64(p->w.scale, each ? i / inner % channels : 0);
    }
    PL_TRY_GOTO(done, st, wrap(sum, &d, err));
    st = pl_replay_put(r, value, d, bound, err);
done:
    pl_datum_unref(d);
    pl_tensor_unref(loss);
    pl_tensor_unref(sum);
    pl_tensor_unref(bound);
    return st;
}

static bool has_integers(const pl_segment *segment) {
    for (size_t i = 0; i < segment->n_nodes; i++) {
        const pl_op_def *def = segment->nodes[i]->def;
        if (def->plain != NULL || def->weights != PL_WEIGHTS_NONE) return true;
    }
    return false;
}

static pl_status replay_clipped(pl_blaming *j, const pl_segment *segment, pl_replay *r,
                                int64_t *n_clipped, pl_err *err) {
    PL_TRY(pl_blaming_put_edges(j, r, segment, err));
    for (size_t i = 0; i < segment->n_nodes; i++) {
        product p;
        PL_TRY(pl_replay_node(r, segment->nodes[i], err));
        if (find_product(r, segment, segment->nodes[i], &p)) {
            PL_TRY(lower_product(j, r, &p, n_clipped, err));
        }
    }
    return PL_OK;
}

/* Number of elements in which the saturated replay differs from the exact one. */
static int64_t count_changed(const pl_tensor *x, const pl_tensor *y) {
    int64_t n = 0;
    if (!pl_tensor_same_shape(x, y)) return 0;
    for (int64_t i = 0; i < x->n_elements; i++)
        n += pl_tensor_get_f64(x, i) != pl_tensor_get_f64(y, i);
    return n;
}

pl_status pl_kind_saturated(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                            const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind,
                            pl_err *err) {
    const pl_replay_options options = { .pool = j->options->pool,
                                        .seed = j->options->seed,
                                        .arithmetic = j->a->arithmetic,
                                        .kernels = &pl_provider_saturate };
    pl_replay *r = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_local_error e;
    int64_t n_clipped = 0;
    if (!has_integers(segment)) return PL_OK;
    pl_status st = pl_replay_new(j->model, &options, &r, err);
    const bool ran = st == PL_OK && replay_clipped(j, segment, r, &n_clipped, &trouble) == PL_OK;
    const pl_tensor *again = ran ? tensor_at(r, value) : NULL;
    const int64_t n_changed = again == NULL ? 0 : count_changed(again, d);
    if (n_changed > 0) {
        st = pl_local_error_measure(j->options->pool, a, again, pl_replay_bound(r, value),
                                    pl_blaming_native(j, value, a), &e, err);
        if (st == PL_OK && e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_CULPRIT) {
            const char *text = pl_arena_printf(
                j->out->arena, "%s: u8 x s8 pairs clipped at 16 bits", pl_kind_saturated_name);
            kind->kind = pl_kind_saturated_name;
            kind->text = text == NULL ? kind->kind : text;
            kind->remedy = "quantise the weights with reduced range (7 bits) or as uint8, or use a "
                           "CPU with VNNI";
        }
    }
    pl_replay_free(r);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}
