/* Retyping: copies of each value in other types, made on demand. */
#include "passes/retype.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "passes/pass_int.h"

enum { KINDS = 4 };
static const pl_dtype kinds[KINDS] = { PL_F16, PL_BF16, PL_F32, PL_F64 };
static const char *const suffixes[KINDS] = { "f16", "bf16", "f32", "f64" };

typedef struct slot { /* of a value */
    pl_dtype from, now;
    pl_value *as[KINDS];
} slot;

typedef struct retype {
    pl_model *model;
    const pl_retype_options *options;
    pl_changes *changes;
    slot *slots; /* by value id, for values that existed at first */
    uint32_t n_slots;
    pl_arena *scratch; /* of one node */
} retype;

static int kind_of(pl_dtype d) {
    for (int k = 0; k < KINDS; k++)
        if (kinds[k] == d) return k;
    return -1;
}

static bool takes_part(pl_dtype d) {
    return d == PL_F32 || d == PL_F16 || d == PL_BF16;
}

static bool is_exact(pl_dtype from, pl_dtype to) { /* no value is rounded */
    return to == PL_F64 || (to == PL_F32 && (from == PL_F16 || from == PL_BF16));
}

static pl_dtype dtype_of(const pl_value *value) {
    if (value->type != NULL && value->type->kind == PL_TYPE_TENSOR) return value->type->dtype;
    return value->type == NULL && value->init != NULL ? value->init->dtype : PL_UNDEFINED;
}

/* The type of a value where it must not change: at the border of the model and of bodies. */
static pl_dtype border(const retype *r, pl_dtype d) {
    return r->options->everywhere && takes_part(d) ? r->options->type : d;
}

static slot *slot_of(const retype *r, pl_value *value) {
    slot *s = &r->slots[value->id];
    if (s->from == PL_UNDEFINED) {
        s->from = s->now = dtype_of(value);
        const int k = kind_of(s->now);
        if (k >= 0) s->as[k] = value;
    }
    return s;
}

/* ---- types ---- */

static pl_status with_dtype(const retype *r, const pl_type *type, pl_dtype d, const pl_type **out,
                            pl_err *err) {
    pl_type *copy = pl_arena_alloc(r->model->arena, sizeof(*copy));
    if (copy == NULL) return pl_fail_memory(err, sizeof(*copy));
    *copy = *type;
    if (copy->kind == PL_TYPE_TENSOR) copy->dtype = d;
    *out = copy;
    return PL_OK;
}

/* Sequences and optionals of floats, at a border. */
static pl_status border_type(const retype *r, const pl_type *type, const pl_type **out,
                             pl_err *err) {
    *out = type;
    if (!r->options->everywhere || type == NULL) return PL_OK;
    if (type->kind == PL_TYPE_TENSOR) return with_dtype(r, type, border(r, type->dtype), out, err);
    if (type->elem == NULL) return PL_OK;
    const pl_type *elem = NULL;
    PL_TRY(border_type(r, type->elem, &elem, err));
    pl_type *copy = pl_arena_alloc(r->model->arena, sizeof(*copy));
    if (copy == NULL) return pl_fail_memory(err, sizeof(*copy));
    *copy = *type;
    copy->elem = elem;
    *out = copy;
    return PL_OK;
}

static pl_status fresh_value(const retype *r, const pl_value *like, pl_dtype d, pl_value **out,
                             pl_err *err) {
    const char *name = pl_arena_printf(r->model->arena, "%s_%s", like->name, suffixes[kind_of(d)]);
    if (name == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_graph_add_fresh_value(like->graph, name, out, err));
    if (like->type != NULL) return with_dtype(r, like->type, d, &(*out)->type, err);
    (*out)->type = pl_type_tensor_unranked(r->model->arena, d);
    return (*out)->type == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

/* ---- casts ---- */

static pl_status note(retype *r, pl_change_kind kind, const pl_value *value, pl_dtype from,
                      pl_dtype to, const pl_node *node, const char *what, pl_err *err) {
    const pl_change change = { .kind = kind,
                               .value = value->name,
                               .node = node == NULL ? "" : node->name,
                               .op = node == NULL ? "" : node->op,
                               .from = from,
                               .to = to,
                               .what = what };
    return pl_changes_add(r->changes, &change, err);
}

/* Cast-6 takes a number, Cast-1 a name. */
static pl_status add_cast(const retype *r, pl_value *from, pl_value *to, pl_dtype d, pl_err *err) {
    pl_node *node = NULL;
    PL_TRY(pl_graph_add_node(to->graph, "Cast", "", 1, 1, &node, err));
    node->in[0] = from;
    pl_node_set_output(node, 0, to);
    node->def = pl_op_find("", "Cast", node->opset);
    pl_attr *attr = pl_node_add_attr(node, "to", node->opset < 6 ? PL_ATTR_STRING : PL_ATTR_INT);
    if (attr == NULL) return pl_fail_memory(err, sizeof(*attr));
    if (node->opset >= 6) {
        attr->i = d;
        return PL_OK;
    }
    static const char *const names[KINDS] = { "FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE" };
    const char *name = names[kind_of(d)];
    attr->s = (pl_string){ pl_model_intern(r->model, name, strlen(name)), strlen(name) };
    return attr->s.data == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static int64_t count_overflows(const pl_tensor *was, const pl_tensor *is) {
    int64_t n = 0;
    for (int64_t i = 0; i < is->n_elements; i++)
        n += isfinite(pl_tensor_get_f64(was, i)) && !isfinite(pl_tensor_get_f64(is, i));
    return n;
}

static pl_status convert_constant(retype *r, pl_value *value, pl_tensor *t, pl_dtype d,
                                  const pl_node *user, pl_value **out, pl_err *err) {
    pl_tensor *other = NULL;
    const char *what = "";
    PL_TRY(pl_tensor_cast(t, d, &other, err));
    pl_status st = fresh_value(r, value, d, out, err);
    if (st == PL_OK) st = pl_value_set_init(*out, other, err);
    const int64_t n_lost = st == PL_OK ? count_overflows(t, other) : 0;
    pl_tensor_unref(other);
    PL_TRY(st);
    if (n_lost > 0) {
        what = pl_arena_printf(r->model->arena, "%lld element%s", (long long)n_lost,
                               n_lost == 1 ? " overflows" : "s overflow");
        if (what == NULL) return pl_fail_memory(err, 1);
    }
    return note(r, PL_CHANGE_CONVERT, value, t->dtype, d, user, what, err);
}

/* The input of a Cast that only widened it: use that instead of casting back. */
static pl_value *before_widening(const retype *r, const pl_value *value, pl_dtype d) {
    const pl_node *node = value->producer;
    if (node == NULL || node->def == NULL || (node->def->flags & PL_OP_CAST) == 0) return NULL;
    if (node->n_in == 0 || node->in[0] == NULL) return NULL;
    pl_value *in = node->in[0];
    return dtype_of(in) == d && is_exact(d, r->slots[value->id].now) ? in : NULL;
}

/* The value in another type. */
static pl_status want(retype *r, pl_value *value, pl_dtype d, const pl_node *user, pl_value **out,
                      pl_err *err) {
    slot *s = slot_of(r, value);
    const int k = kind_of(d), now = kind_of(s->now);
    *out = now >= 0 ? s->as[now] : value;
    if (k < 0 || now < 0 || s->now == d) return PL_OK;
    if (s->as[k] == NULL) {
        pl_tensor *constant = pl_pass_constant(value);
        pl_value *other = before_widening(r, value, d);
        if (other != NULL) {
            PL_TRY(note(r, PL_CHANGE_DROP, value, s->now, d, user, "only widens the value", err));
        } else if (constant != NULL) {
            PL_TRY(convert_constant(r, value, constant, d, user, &other, err));
        } else {
            PL_TRY(fresh_value(r, value, d, &other, err));
            PL_TRY(add_cast(r, s->as[now], other, d, err));
            PL_TRY(note(r, PL_CHANGE_CAST, value, s->now, d, user, "", err));
        }
        s->as[k] = other;
    }
    *out = s->as[k];
    return PL_OK;
}

/* ---- what a node computes in ---- */

static const pl_port *port_of(const pl_op_def *def, uint32_t i) {
    const pl_port *p = def->in;
    for (uint32_t k = 0; p->name != NULL; p++, k++)
        if (k == i || (p->flags & PL_PORT_VARIADIC) != 0) return p;
    return NULL;
}

static bool allows(const pl_op_def *def, uint32_t i, pl_dtype d) {
    const pl_port *port = port_of(def, i);
    return port != NULL && (port->types & PL_T(d)) != 0;
}

static bool must_agree(const pl_op_def *def, uint32_t i) {
    const pl_port *port = port_of(def, i);
    return port != NULL && (port->flags & PL_PORT_SAME) != 0;
}

static bool is_scalar(const pl_value *value) {
    if (value->type != NULL) return value->type->has_rank && value->type->rank == 0;
    return value->init != NULL && value->init->rank == 0;
}

/* Nodes that are left alone: with non-tensors, unknown types, or doubles. */
static bool stands_apart(const retype *r, const pl_node *node) {
    if (node->def == NULL) return true;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL) continue;
        const pl_dtype d = slot_of(r, node->in[i])->from;
        if (d == PL_UNDEFINED) return true;
        if (d == PL_F64 && must_agree(node->def, i)) return true;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_value *out = node->out[i];
        if (out != NULL && (out->type == NULL || out->type->kind != PL_TYPE_TENSOR)) return true;
    }
    return false;
}

/* The common float type of the inputs; float32 when they differ. Scalars count only if there is
 * nothing else. */
static pl_dtype widest(const retype *r, const pl_node *node) {
    pl_dtype found = PL_UNDEFINED;
    for (int scalars = 0; scalars < 2 && found == PL_UNDEFINED; scalars++) {
        for (uint32_t i = 0; i < node->n_in; i++) {
            if (node->in[i] == NULL || is_scalar(node->in[i]) != (scalars != 0)) continue;
            const pl_dtype d = slot_of(r, node->in[i])->now;
            if (!takes_part(d)) continue;
            found = found == PL_UNDEFINED || found == d ? d : PL_F32;
        }
    }
    return found;
}

/* The type that inputs which must agree are converted to; PL_UNDEFINED = each keeps its own. */
static pl_dtype shared_type(const retype *r, const pl_node *node, pl_compute_rule rule) {
    switch (rule) {
    case PL_COMPUTE_LOW: return r->options->type;
    case PL_COMPUTE_FP32: return PL_F32;
    case PL_COMPUTE_WIDEST: return widest(r, node);
    case PL_COMPUTE_ORIGINAL:
    case PL_COMPUTE_NATIVE: return PL_UNDEFINED;
    case PL_COMPUTE_KEEP: break;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL || !must_agree(node->def, i)) continue;
        const pl_dtype d = slot_of(r, node->in[i])->now;
        if (takes_part(d)) return d;
    }
    return PL_UNDEFINED;
}

/* Can all inputs that must have the type take it? */
static bool all_allow(const retype *r, const pl_node *node, pl_dtype d) {
    bool any = false, all = true;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL || !takes_part(slot_of(r, node->in[i])->from)) continue;
        any = any || allows(node->def, i, d);
        all = all && (allows(node->def, i, d) || !must_agree(node->def, i));
    }
    return any && all;
}

static pl_dtype input_type(const retype *r, const pl_node *node, uint32_t i, pl_compute_rule rule,
                           pl_dtype shared) {
    const slot *s = slot_of(r, node->in[i]);
    if (!takes_part(s->from)) return s->now;
    if (rule == PL_COMPUTE_NATIVE) return s->from;
    if (rule == PL_COMPUTE_ORIGINAL && node->def == NULL) return border(r, s->from);
    pl_dtype d = rule == PL_COMPUTE_ORIGINAL ? border(r, s->from) : s->now;
    if (shared != PL_UNDEFINED && (rule != PL_COMPUTE_KEEP || must_agree(node->def, i))) d = shared;
    return allows(node->def, i, d) ? d : s->from;
}

static bool takes_floats(const retype *r, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != NULL && takes_part(slot_of(r, node->in[i])->from)) return true;
    return false;
}

static pl_status retype_inputs(retype *r, pl_node *node, pl_compute_rule rule, pl_err *err) {
    pl_dtype shared = node->def == NULL ? PL_UNDEFINED : shared_type(r, node, rule);
    if (shared != PL_UNDEFINED && takes_floats(r, node) && !all_allow(r, node, shared)) {
        const pl_value *value = node->n_out > 0 ? node->out[0] : NULL;
        if (value != NULL)
            PL_TRY(note(r, PL_CHANGE_STAY, value, slot_of(r, node->out[0])->from, shared, node,
                        "the operator does not support the type", err));
        rule = r->options->everywhere ? PL_COMPUTE_KEEP : PL_COMPUTE_FP32;
        shared = r->options->everywhere ? PL_UNDEFINED : PL_F32;
    }
    pl_value **in = pl_arena_array(r->scratch, (size_t)node->n_in + 1, sizeof(*in));
    if (in == NULL) return pl_fail_memory(err, node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL) continue;
        const pl_dtype d = input_type(r, node, i, rule, shared);
        PL_TRY(want(r, node->in[i], d, node, &in[i], err));
    }
    memcpy(node->in, in, node->n_in * sizeof(*in));
    return PL_OK;
}

/* ---- what comes out ---- */

/* Element types of the outputs, by the shape rule of the row. */
static pl_status infer_outputs(const retype *r, const pl_node *node, pl_dtype *out, pl_err *err) {
    const size_t n_in = (size_t)node->n_in + 1, n_out = (size_t)node->n_out + 1;
    const pl_type **in = pl_arena_array(r->scratch, n_in, sizeof(*in));
    const pl_tensor **tensor = pl_arena_array(r->scratch, n_in, sizeof(*tensor));
    const pl_content **content = pl_arena_array(r->scratch, n_in, sizeof(*content));
    const pl_type **types = pl_arena_array(r->scratch, n_out, sizeof(*types));
    const pl_content **contents = pl_arena_array(r->scratch, n_out, sizeof(*contents));
    static const pl_type unknown = { .kind = PL_TYPE_NONE };
    pl_err ignored = PL_ERR_INIT;
    if (in == NULL || tensor == NULL || content == NULL || types == NULL || contents == NULL)
        return pl_fail_memory(err, n_in);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL) continue;
        in[i] = node->in[i]->type == NULL ? &unknown : node->in[i]->type;
        tensor[i] = pl_pass_constant(node->in[i]);
    }
    pl_infer c = { .node = node,
                   .arena = r->model->arena,
                   .n_in = (int)node->n_in,
                   .n_out = (int)node->n_out,
                   .in = in,
                   .in_tensor = tensor,
                   .in_content = content,
                   .out = types,
                   .out_content = contents,
                   .err = &ignored };
    const pl_status st = node->def->infer(&c);
    for (uint32_t i = 0; i < node->n_out; i++) {
        const bool known = st == PL_OK && types[i] != NULL && types[i]->kind == PL_TYPE_TENSOR;
        out[i] = known ? types[i]->dtype : PL_UNDEFINED;
    }
    return PL_OK;
}

/* An output of the graph keeps its name and type: a Cast produces it. */
static pl_status set_output(retype *r, pl_node *node, uint32_t i, pl_dtype d, pl_err *err) {
    pl_value *value = node->out[i];
    slot *s = slot_of(r, value);
    const pl_dtype outside = border(r, s->from);
    const int k = kind_of(d);
    if (k < 0 || (d == s->from && d == outside)) return PL_OK;
    memset(s->as, 0, sizeof(s->as));
    s->now = d;
    s->as[k] = value;
    if (!value->is_output || d == outside) return with_dtype(r, value->type, d, &value->type, err);
    pl_value *inner = NULL;
    PL_TRY(fresh_value(r, value, d, &inner, err));
    pl_node_set_output(node, i, inner);
    PL_TRY(add_cast(r, inner, value, outside, err));
    s->as[k] = inner;
    s->as[kind_of(outside)] = value;
    PL_TRY(note(r, PL_CHANGE_CAST, value, d, outside, NULL, "output", err));
    return with_dtype(r, value->type, outside, &value->type, err);
}

static pl_status retype_outputs(retype *r, pl_node *node, pl_err *err) {
    pl_dtype *types = pl_arena_array(r->scratch, (size_t)node->n_out + 1, sizeof(*types));
    if (types == NULL) return pl_fail_memory(err, node->n_out);
    PL_TRY(infer_outputs(r, node, types, err));
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL || types[i] == PL_UNDEFINED) continue;
        if (!takes_part(slot_of(r, node->out[i])->from)) continue;
        PL_TRY(set_output(r, node, i, types[i], err));
    }
    return PL_OK;
}

/* ---- kinds of nodes ---- */

/* An attribute that names the type of the output. */
static pl_status retype_named(const retype *r, pl_node *node, const char *name, int64_t otherwise,
                              pl_err *err) {
    pl_attr *attr = (pl_attr *)(uintptr_t)pl_node_attr(node, name);
    if (attr == NULL && takes_part((pl_dtype)otherwise)) {
        attr = pl_node_add_attr(node, name, PL_ATTR_INT);
        if (attr == NULL) return pl_fail_memory(err, sizeof(*attr));
        attr->i = otherwise;
    }
    if (attr != NULL && attr->type == PL_ATTR_INT && takes_part((pl_dtype)attr->i))
        attr->i = border(r, (pl_dtype)attr->i);
    return PL_OK;
}

/* Operators whose type is an attribute: SequenceEmpty-11 has a dtype (default float), HannWindow-17
 * an output_datatype, Optional-15 a type. Those that follow an input (EyeLike-9) have no
 * default. */
static pl_status retype_attributes(const retype *r, pl_node *node, bool sequence, pl_err *err) {
    pl_attr *type = (pl_attr *)(uintptr_t)pl_node_attr(node, "type");
    if (type != NULL && type->type == PL_ATTR_TYPE_PROTO)
        PL_TRY(border_type(r, type->type_proto, &type->type_proto, err));
    for (const pl_op_attr *a = node->def == NULL ? NULL : node->def->attrs;
         a != NULL && a->name != NULL; a++) {
        const bool dtype = strcmp(a->name, "dtype") == 0;
        if (a->type != PL_ATTR_INT || (!dtype && strcmp(a->name, "output_datatype") != 0)) continue;
        PL_TRY(retype_named(r, node, a->name, dtype && sequence ? PL_F32 : a->i, err));
    }
    return PL_OK;
}

/* Leaves the node alone; with `everywhere` its inputs, attributes and outputs change at the
 * border. */
static pl_status keep_apart(retype *r, pl_node *node, pl_err *err) {
    PL_TRY(retype_inputs(r, node, PL_COMPUTE_ORIGINAL, err));
    if (r->options->everywhere) PL_TRY(retype_attributes(r, node, true, err));
    for (uint32_t i = 0; i < node->n_out && r->options->everywhere; i++) {
        pl_value *value = node->out[i];
        if (value == NULL) continue;
        slot *s = slot_of(r, value);
        if (takes_part(s->from)) {
            PL_TRY(set_output(r, node, i, border(r, s->from), err));
        } else {
            PL_TRY(border_type(r, value->type, &value->type, err));
        }
    }
    return PL_OK;
}

/* A Cast that must compute in float32 does not go below it. */
static bool stays_wide(const retype *r, const pl_node *node, const pl_attr *to) {
    return !r->options->everywhere && to != NULL && to->type == PL_ATTR_INT &&
           takes_part((pl_dtype)to->i) &&
           r->options->rule(r->options->ctx, node) == PL_COMPUTE_FP32;
}

/* A Cast takes any type; one that no longer changes anything is bypassed. */
static pl_status retype_cast(retype *r, pl_node *node, pl_err *err) {
    pl_value *in = node->in[0], *out = node->out[0];
    pl_attr *to = (pl_attr *)(uintptr_t)pl_node_attr(node, "to");
    if (in == NULL || out == NULL) return PL_OK; /* it computes nothing */
    const pl_dtype target = stays_wide(r, node, to) ? PL_F32 : border(r, slot_of(r, out)->from);
    if (slot_of(r, in)->from == PL_UNDEFINED) return PL_OK;
    if (to != NULL && to->type == PL_ATTR_INT && takes_part((pl_dtype)to->i)) to->i = target;
    PL_TRY(want(r, in, slot_of(r, in)->now, node, &node->in[0], err));
    for (uint32_t i = 1; i < node->n_in; i++) { /* CastLike */
        if (node->in[i] == NULL) continue;
        const pl_dtype like = border(r, slot_of(r, node->in[i])->from);
        PL_TRY(want(r, node->in[i], like, node, &node->in[i], err));
    }
    slot *s = slot_of(r, out);
    const int k = kind_of(target);
    if (k < 0 || !takes_part(s->from)) return PL_OK;
    PL_TRY(set_output(r, node, 0, target, err));
    if (slot_of(r, in)->now != target || out->is_output) return PL_OK;
    s->as[k] = node->in[0];
    return note(r, PL_CHANGE_DROP, out, slot_of(r, in)->from, target, node, "changes nothing", err);
}

static pl_status retype_graph(void *ctx, pl_graph *graph, pl_err *err);

static pl_status find_untyped(void *ctx, pl_graph *graph, pl_err *err) {
    bool *found = ctx;
    (void)err;
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->n_out; k++) {
            const pl_value *out = graph->nodes[i]->out[k];
            *found = *found || (out != NULL && out->type == NULL);
        }
    return PL_OK;
}

/* The bodies of a search get their types when it runs: they stay as they are. */
static pl_status retype_bodies(retype *r, pl_node *node, pl_err *err) {
    bool untyped = false;
    if (node->def != NULL && node->def->bodies == PL_BODIES_OTHER)
        PL_TRY(pl_node_each_body(node, find_untyped, &untyped, err));
    return untyped ? PL_OK : pl_node_each_body(node, retype_graph, r, err);
}

static pl_status retype_node(retype *r, pl_node *node, pl_err *err) {
    pl_arena_reset(r->scratch);
    const bool control = node->def != NULL && (node->def->flags & PL_OP_CONTROL) != 0;
    if (control || stands_apart(r, node)) {
        PL_TRY(keep_apart(r, node, err));
        return retype_bodies(r, node, err);
    }
    if ((node->def->flags & PL_OP_CAST) != 0) return retype_cast(r, node, err);
    const bool native = (node->def->flags & PL_OP_NO_FP64) != 0; /* BitCast depends on the bits */
    const pl_compute_rule rule = native                   ? PL_COMPUTE_NATIVE
                                 : r->options->everywhere ? PL_COMPUTE_LOW
                                                          : r->options->rule(r->options->ctx, node);
    if (r->options->everywhere && !native) PL_TRY(retype_attributes(r, node, false, err));
    PL_TRY(retype_inputs(r, node, rule, err));
    return retype_outputs(r, node, err);
}

/* ---- graphs ---- */

static pl_status retype_border(retype *r, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_inputs && r->options->everywhere; i++) {
        pl_value *value = graph->inputs[i];
        slot *s = slot_of(r, value);
        PL_TRY(border_type(r, value->type, &value->type, err));
        if (!takes_part(s->from)) continue;
        memset(s->as, 0, sizeof(s->as));
        s->now = border(r, s->from);
        s->as[kind_of(s->now)] = value;
        if (value->init == NULL) continue;
        pl_tensor *t = NULL;
        PL_TRY(pl_tensor_cast(value->init, s->now, &t, err));
        const pl_status st = pl_value_set_init(value, t, err);
        pl_tensor_unref(t);
        PL_TRY(st);
    }
    return PL_OK;
}

/* An output of a body whose type changed (an initializer, say) is replaced by the cast value. */
static pl_status finish_outputs(retype *r, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_outputs; i++) {
        pl_value *value = graph->outputs[i], *given = NULL;
        const slot *s = slot_of(r, value);
        const bool main_graph = graph->parent == NULL;
        if (main_graph || !takes_part(s->from)) continue;
        PL_TRY(want(r, value, border(r, s->from), NULL, &given, err));
        if (given == value) continue;
        graph->outputs[i] = given;
        given->is_output = given->graph == graph;
    }
    return PL_OK;
}

static pl_status retype_graph(void *ctx, pl_graph *graph, pl_err *err) {
    retype *r = ctx;
    const size_t n_nodes = graph->n_nodes; /* Casts appended below need no visit */
    pl_node **nodes = pl_calloc(n_nodes + 1, sizeof(*nodes));
    if (nodes == NULL) return pl_fail_memory(err, n_nodes);
    if (n_nodes > 0) memcpy(nodes, graph->nodes, n_nodes * sizeof(*nodes));
    pl_status st = retype_border(r, graph, err);
    for (size_t i = 0; i < n_nodes && st == PL_OK; i++)
        st = retype_node(r, nodes[i], err);
    if (st == PL_OK) st = finish_outputs(r, graph, err);
    if (st == PL_OK) st = pl_graph_sort(graph, err);
    pl_free(nodes);
    return st;
}

pl_status pl_model_retype(pl_model *model, const pl_retype_options *options, pl_changes *changes,
                          pl_err *err) {
    retype r = { .model = model, .options = options, .changes = changes };
    PL_TRY(pl_ops_resolve(model, err));
    PL_TRY(pl_model_infer(model, NULL, err));
    r.n_slots = model->n_values;
    r.slots = pl_calloc((size_t)r.n_slots + 1, sizeof(slot));
    r.scratch = pl_arena_new();
    pl_status st = r.slots == NULL || r.scratch == NULL ? pl_fail_memory(err, r.n_slots) : PL_OK;
    size_t n_removed = 0;
    if (st == PL_OK) st = retype_graph(&r, model->graph, err);
    if (st == PL_OK) st = pl_graph_remove_dead(model->graph, &n_removed, err);
    if (st == PL_OK) st = pl_graph_sort(model->graph, err);
    if (st == PL_OK) st = pl_ops_resolve(model, err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, err);
    pl_free(r.slots);
    pl_arena_free(r.scratch);
    return st;
}
