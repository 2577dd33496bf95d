/* Replaces Loop and Scan with a known trip count by copies of their bodies, and an If with a known
 * condition by its branch.
 *
 * Reverse accumulation then does not need to handle them, and any backend can run the result.
 * Condition and count are folded if they are constant: a counter, a comparison. */
#include "passes/unroll.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "graph/edit.h"
#include "ops/control/control.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "passes/pass_int.h"

/* MAX_NODES: of one loop; a node with its values takes about a kilobyte, and a trip count is eight
 * bytes of a stranger's file. MAX_WORK: nodes inferred again, summed over all loops unrolled. */
enum { MAX_NODES = 250000, MAX_DEPTH = 32, MAX_WORK = 4000000 };

/* ---- constants ---- */

typedef struct folding {
    pl_arena *scratch;
    pl_strmap known; /* value -> its tensor; each is computed once */
} folding;

static pl_status fold_value(folding *f, const pl_value *value, int depth, pl_tensor **out,
                            pl_err *err);

static pl_status fold_node(folding *f, const pl_node *node, int depth, pl_tensor **out,
                           uint32_t slot, pl_err *err) {
    pl_status st = PL_OK;
    pl_datum **in = pl_calloc((size_t)node->n_in + 1, sizeof(*in));
    pl_datum **result = pl_calloc((size_t)node->n_out + 1, sizeof(*result));
    bool known = true;
    if (in == NULL || result == NULL) {
        st = pl_fail_memory(err, node->n_in);
        goto done;
    }
    for (uint32_t i = 0; i < node->n_in && known; i++) {
        pl_tensor *t = NULL;
        if (node->in[i] == NULL) continue;
        PL_TRY_GOTO(done, st, fold_value(f, node->in[i], depth + 1, &t, err));
        known = t != NULL;
        if (known) PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(t, &in[i], err));
    }
    const pl_eval_setup setup = { .scratch = f->scratch };
    if (!known) goto done;
    PL_TRY_GOTO(done, st, pl_eval_node(node, in, result, &setup, err));
    if (result[slot] != NULL && result[slot]->kind == PL_TYPE_TENSOR)
        *out = pl_tensor_ref(result[slot]->tensor);
done:
    for (uint32_t i = 0; in != NULL && i < node->n_in; i++)
        pl_datum_unref(in[i]);
    for (uint32_t i = 0; result != NULL && i < node->n_out; i++)
        pl_datum_unref(result[i]);
    pl_free(in);
    pl_free(result);
    return st;
}

/* Shape is constant when the type of its input is known. */
static pl_status fold_shape(const pl_node *node, pl_tensor **out, pl_err *err) {
    const pl_type *type = node->in[0]->type;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !pl_type_is_concrete(type)) return PL_OK;
    int64_t start = pl_attr_int(node, "start"), end = type->rank;
    if (pl_attr_has(node, "end")) end = pl_attr_int(node, "end");
    if (start < 0) start += type->rank;
    if (end < 0) end += type->rank;
    if (start < 0) start = 0;
    if (end > type->rank) end = type->rank;
    const int64_t n = end > start ? end - start : 0;
    PL_TRY(pl_tensor_new(PL_I64, 1, &n, out, err));
    for (int64_t i = 0; i < n; i++)
        ((pl_i64 *)(*out)->data)[i] = type->dims[start + i].value;
    return PL_OK;
}

static pl_status fold_value(folding *f, const pl_value *value, int depth, pl_tensor **out,
                            pl_err *err) {
    *out = NULL;
    if (value->init != NULL && !value->is_input) {
        *out = pl_tensor_ref(value->init);
        return PL_OK;
    }
    const pl_node *node = value->producer;
    if (node == NULL || depth > MAX_DEPTH || node->def == NULL) return PL_OK;
    const bool dims = (node->def->flags & PL_OP_DIMS) != 0;
    if (dims && node->in[0] != NULL) return fold_shape(node, out, err);
    if ((node->def->flags & (PL_OP_CONTROL | PL_OP_RANDOM)) != 0) return PL_OK;
    pl_tensor *before = pl_strmap_get_n(&f->known, (const char *)&value->id, sizeof(value->id));
    if (before != NULL) {
        *out = pl_tensor_ref(before);
        return PL_OK;
    }
    PL_TRY(fold_node(f, node, depth, out, value->producer_slot, err));
    if (*out == NULL) return PL_OK; /* its readers are unknown, too: the search ends */
    if (pl_strmap_put_n(&f->known, (const char *)&value->id, sizeof(value->id), *out) != 0) {
        pl_tensor_unref(*out);
        *out = NULL;
        return pl_fail_memory(err, 1);
    }
    pl_tensor_ref(*out);
    return PL_OK;
}

/* *out is a new reference; NULL when the value is not constant. */
static pl_status fold(const pl_value *value, int depth, pl_arena *scratch, pl_tensor **out,
                      pl_err *err) {
    folding f = { .scratch = scratch, .known = PL_STRMAP_INIT };
    const pl_status st = fold_value(&f, value, depth, out, err);
    for (size_t i = 0; i < f.known.n_entries; i++)
        pl_tensor_unref(f.known.entries[i].value);
    pl_strmap_release(&f.known);
    return st;
}

/* ---- unrolling a loop ---- */

typedef struct unrolling {
    pl_graph *graph;
    pl_node *node;
    pl_graph *body;
    const char *name; /* prefix of new names */
    size_t n_states, n_scans;
    size_t first_out;  /* index of the first state output: 1 after Loop's condition */
    pl_value **states; /* current values */
    pl_value **pieces; /* scan outputs: n_steps for each */
    size_t n_steps, pieces_capacity;
    size_t n_copied; /* nodes of one step, bodies included; 0 = not counted yet */
    pl_value **map;  /* by id: copy of a value of the body */
    size_t n_map;
    pl_arena *scratch;
    pl_err *err;
} unrolling;

static pl_status open_loop(unrolling *u, pl_graph *graph, pl_node *node, pl_graph *body,
                           size_t n_states, size_t first_out, pl_err *err) {
    const char *name = "loop";
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) name = node->out[i]->name;
    *u = (unrolling){ .graph = graph,
                      .node = node,
                      .body = body,
                      .name = name,
                      .n_states = n_states,
                      .first_out = first_out,
                      .n_map = graph->model->n_values,
                      .err = err };
    if (body == NULL || body->n_outputs < first_out + n_states)
        return pl_node_fail(err, PL_E_INVALID, node, "its body has too few outputs");
    u->n_scans = body->n_outputs - first_out - n_states;
    u->states = pl_calloc(n_states + 1, sizeof(pl_value *));
    u->map = pl_calloc(u->n_map + 1, sizeof(pl_value *));
    u->scratch = pl_arena_new();
    if (u->states == NULL || u->map == NULL || u->scratch == NULL)
        return pl_fail_memory(err, u->n_map);
    return PL_OK;
}

static void close_loop(unrolling *u) {
    pl_free(u->states);
    pl_free(u->pieces);
    pl_free(u->map);
    pl_arena_free(u->scratch);
}

static pl_status count_nodes(void *ctx, pl_graph *body, pl_err *err) {
    *(size_t *)ctx += body->n_nodes;
    for (size_t i = 0; i < body->n_nodes; i++)
        PL_TRY(pl_node_each_body(body->nodes[i], count_nodes, ctx, err));
    return PL_OK;
}

/* Nested bodies included. */
static size_t nodes_of_step(unrolling *u) {
    if (u->n_copied == 0) {
        u->n_copied = 1;
        (void)count_nodes(&u->n_copied, u->body, NULL); /* cannot fail */
    }
    return u->n_copied;
}

static pl_status fail_nodes(const unrolling *u) {
    return pl_node_fail(u->err, PL_E_LIMIT, u->node, "its gradient would need more than %d nodes",
                        MAX_NODES);
}

/* Copies the body once. The map holds its inputs; *cond (may be NULL) receives output 0. */
static pl_status copy_step(unrolling *u, pl_value **cond) {
    const size_t step = u->n_steps;
    if (nodes_of_step(u) * (step + 1) > MAX_NODES) return fail_nodes(u);
    const char *prefix = pl_arena_printf(u->graph->model->arena, "%s/%zu", u->name, step);
    if (prefix == NULL) return pl_fail_memory(u->err, 1);
    PL_TRY(pl_graph_copy_into(u->body, u->graph, prefix, u->map, u->err));
    if (!PL_ARRAY_ROOM_FOR(u->pieces, u->n_scans * (step + 1), &u->pieces_capacity))
        return pl_fail_memory(u->err, u->n_scans * (step + 1));
    if (cond != NULL) *cond = u->map[u->body->outputs[0]->id];
    for (size_t i = 0; i < u->n_states; i++)
        u->states[i] = u->map[u->body->outputs[u->first_out + i]->id];
    for (size_t i = 0; i < u->n_scans; i++)
        u->pieces[step * u->n_scans + i] =
            u->map[u->body->outputs[u->first_out + u->n_states + i]->id];
    u->n_steps++;
    for (size_t i = 0; i < u->body->n_values; i++)
        u->map[u->body->values[i]->id] = NULL;
    return PL_OK;
}

static pl_status axis_op(unrolling *u, const char *op, pl_value *x, int64_t axis, pl_value **out) {
    const char *base =
        pl_arena_printf(u->graph->model->arena, "%s/%s/%u", u->name, op, u->graph->model->n_values);
    if (base == NULL) return pl_fail_memory(u->err, 1);
    return pl_pass_axis(u->graph, op, x, axis, base, out, u->err);
}

/* An Identity (or Concat) that produces an output of the loop. */
static pl_status give(unrolling *u, const char *op, pl_value *const *in, size_t n_in, int64_t axis,
                      uint32_t slot) {
    pl_node *node = NULL;
    pl_value *out = u->node->out[slot];
    u->node->out[slot] = NULL;
    PL_TRY(pl_graph_add_node(u->graph, op, "", n_in, 1, &node, u->err));
    for (size_t i = 0; i < n_in; i++)
        node->in[i] = in[i];
    pl_node_set_output(node, 0, out);
    node->def = pl_op_find("", op, node->opset);
    if (strcmp(op, "Identity") == 0) return PL_OK;
    pl_attr *attr = pl_node_add_attr(node, "axis", PL_ATTR_INT);
    if (attr == NULL) return pl_fail_memory(u->err, 1);
    attr->i = axis;
    return PL_OK;
}

static pl_status give_scan(unrolling *u, size_t k, int64_t axis, bool reversed, uint32_t slot) {
    if (u->n_steps == 0) {
        return pl_node_fail(u->err, PL_E_UNSUPPORTED, u->node,
                            "it never runs, so scan output %zu is empty", k);
    }
    pl_value **parts = pl_calloc(u->n_steps, sizeof(*parts));
    if (parts == NULL) return pl_fail_memory(u->err, u->n_steps);
    pl_status st = PL_OK;
    for (size_t i = 0; i < u->n_steps && st == PL_OK; i++) {
        const size_t from = reversed ? u->n_steps - 1 - i : i;
        st = axis_op(u, "Unsqueeze", u->pieces[from * u->n_scans + k], axis, &parts[i]);
    }
    if (st == PL_OK) st = give(u, "Concat", parts, u->n_steps, axis, slot);
    pl_free(parts);
    return st;
}

/* Removes the node; its outputs have new producers. */
static pl_status drop(unrolling *u) {
    bool *dropped = pl_calloc(u->graph->n_nodes + 1, sizeof(bool));
    if (dropped == NULL) return pl_fail_memory(u->err, u->graph->n_nodes);
    dropped[u->node->index] = true;
    const pl_status st = pl_graph_remove_nodes(u->graph, dropped, u->err);
    pl_free(dropped);
    return st;
}

static pl_status give_states(unrolling *u) {
    for (size_t i = 0; i < u->n_states && i < u->node->n_out; i++) {
        if (u->node->out[i] == NULL) continue;
        PL_TRY(give(u, "Identity", &u->states[i], 1, 0, (uint32_t)i));
    }
    return PL_OK;
}

/* ---- Loop ---- */

static pl_status is_true(unrolling *u, const pl_value *cond, bool *out) {
    pl_tensor *t = NULL;
    *out = true;
    if (cond == NULL) return PL_OK;
    PL_TRY(fold(cond, 0, u->scratch, &t, u->err));
    if (t == NULL || t->n_elements != 1) {
        pl_tensor_unref(t);
        return pl_node_fail(u->err, PL_E_UNSUPPORTED, u->node,
                            "its gradient requires a condition known before the run; '%s' is not",
                            cond->name);
    }
    *out = pl_tensor_get_i64(t, 0) != 0;
    pl_tensor_unref(t);
    return PL_OK;
}

static pl_status trip_count(unrolling *u, int64_t *out) {
    pl_tensor *t = NULL;
    *out = INT64_MAX;
    if (u->node->n_in < 1 || u->node->in[0] == NULL) return PL_OK;
    PL_TRY(fold(u->node->in[0], 0, u->scratch, &t, u->err));
    if (t == NULL || t->n_elements != 1) {
        pl_tensor_unref(t);
        return pl_node_fail(u->err, PL_E_UNSUPPORTED, u->node,
                            "its gradient requires a trip count known before the run; '%s' is not",
                            u->node->in[0]->name);
    }
    *out = pl_tensor_get_i64(t, 0);
    pl_tensor_unref(t);
    return PL_OK;
}

/* Makes counters constants; otherwise each step would have to be folded from the first. */
static pl_status fold_states(unrolling *u) {
    for (size_t i = 0; i < u->n_states; i++) {
        pl_value *state = u->states[i];
        pl_tensor *t = NULL;
        if (pl_carries_gradient(state) || state->init != NULL) continue;
        PL_TRY(fold(state, 0, u->scratch, &t, u->err));
        if (t == NULL) continue;
        const char *base = pl_arena_printf(u->graph->model->arena, "%s/constant", state->name);
        pl_status st = base == NULL
                           ? pl_fail_memory(u->err, 1)
                           : pl_graph_add_fresh_value(u->graph, base, &u->states[i], u->err);
        if (st == PL_OK) st = pl_value_set_init(u->states[i], t, u->err);
        if (st == PL_OK) u->states[i]->type = state->type;
        pl_tensor_unref(t);
        PL_TRY(st);
    }
    return PL_OK;
}

typedef struct reach {
    bool *reached; /* by value id */
    bool any;      /* the node at hand reads one */
} reach;

static void look_reached(void *ctx, pl_value *value) {
    reach *r = ctx;
    r->any = r->any || r->reached[value->id];
}

/* May the condition differ from one step to the next? Otherwise all n steps follow the first. */
static pl_status may_stop(const unrolling *u, bool *out) {
    const pl_graph *body = u->body;
    const size_t n = u->graph->model->n_values;
    reach r = { pl_calloc(n + 1, sizeof(bool)), false };
    if (r.reached == NULL) return pl_fail_memory(u->err, n);
    for (size_t i = 0; i < body->n_inputs; i++)
        r.reached[body->inputs[i]->id] = i != 1; /* the condition itself is true in each step */
    for (size_t i = 0; i < body->n_nodes; i++) {
        const pl_node *node = body->nodes[i];
        r.any = false;
        pl_node_each_use(node, look_reached, &r);
        for (uint32_t k = 0; k < node->n_out && r.any; k++)
            if (node->out[k] != NULL) r.reached[node->out[k]->id] = true;
    }
    *out = r.reached[body->outputs[0]->id];
    pl_free(r.reached);
    return PL_OK;
}

/* Says so before a million nodes are copied in vain. */
static pl_status check_count(unrolling *u, int64_t n) {
    bool stops = false;
    PL_TRY(may_stop(u, &stops));
    return stops || n <= MAX_NODES / (int64_t)nodes_of_step(u) ? PL_OK : fail_nodes(u);
}

static pl_status loop_steps(unrolling *u, int64_t n) {
    const pl_graph *body = u->body;
    pl_value *cond = u->node->n_in > 1 ? u->node->in[1] : NULL, *number = NULL, *yes = NULL;
    for (int64_t i = 0; i < n; i++) {
        bool go = false;
        PL_TRY(is_true(u, cond, &go));
        if (!go) break;
        if (i == 1) PL_TRY(check_count(u, n));
        const char *base =
            pl_arena_printf(u->graph->model->arena, "%s/%lld", u->name, (long long)i);
        if (base == NULL) return pl_fail_memory(u->err, 1);
        PL_TRY(pl_pass_ints(u->graph, PL_I64, pl_loop_rank(body, 0) == 0, &i, 1, base, &number,
                            u->err));
        if (yes == NULL)
            PL_TRY(pl_pass_ints(u->graph, PL_BOOL, pl_loop_rank(body, 1) == 0, &(int64_t){ 1 }, 1,
                                base, &yes, u->err));
        u->map[body->inputs[0]->id] = number;
        u->map[body->inputs[1]->id] = yes; /* true, since the body runs */
        for (size_t k = 0; k < u->n_states; k++)
            u->map[body->inputs[k + 2]->id] = u->states[k];
        PL_TRY(copy_step(u, &cond));
        PL_TRY(fold_states(u));
        pl_arena_reset(u->scratch);
    }
    return PL_OK;
}

static pl_status expand_loop(pl_graph *graph, pl_node *node, pl_err *err) {
    unrolling u;
    int64_t n = 0;
    pl_status st = PL_OK;
    const size_t n_states = node->n_in > 2 ? node->n_in - 2 : 0;
    PL_TRY_GOTO(done, st,
                open_loop(&u, graph, node, pl_attr_graph(node, "body"), n_states, 1, err));
    if (u.states == NULL || u.body->n_inputs != n_states + 2) {
        st = pl_node_fail(err, PL_E_INVALID, node, "its body has %zu inputs, expected %zu",
                          u.body->n_inputs, n_states + 2);
        goto done;
    }
    for (size_t i = 0; i < n_states && st == PL_OK; i++) {
        u.states[i] = node->in[i + 2];
        if (u.states[i] == NULL)
            st = pl_node_fail(err, PL_E_INVALID, node, "state %zu is missing", i);
    }
    if (st != PL_OK) goto done;
    PL_TRY_GOTO(done, st, trip_count(&u, &n));
    PL_TRY_GOTO(done, st, loop_steps(&u, n));
    PL_TRY_GOTO(done, st, give_states(&u));
    for (size_t k = 0; k < u.n_scans; k++) {
        const size_t slot = n_states + k;
        if (slot >= node->n_out || node->out[slot] == NULL) continue;
        PL_TRY_GOTO(done, st, give_scan(&u, k, 0, false, (uint32_t)slot));
    }
    st = drop(&u);
done:
    close_loop(&u);
    return st;
}

/* ---- Scan ---- */

/* Slices a scan input along its axis with Split, whose gradient is one Concat. */
static pl_status cut(unrolling *u, pl_value *x, int64_t axis, int64_t n, pl_value **out) {
    pl_node *node = NULL;
    pl_value *split = NULL;
    pl_status st = PL_OK;
    int64_t *ones = pl_calloc((size_t)n + 1, sizeof(int64_t));
    const bool as_input = pl_model_opset(u->graph->model, "") >= 13;
    if (ones == NULL) return pl_fail_memory(u->err, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1;
    if (as_input) {
        PL_TRY_GOTO(
            done, st,
            pl_pass_ints(u->graph, PL_I64, false, ones, (size_t)n, x->name, &split, u->err));
    }
    PL_TRY_GOTO(
        done, st,
        pl_graph_add_node(u->graph, "Split", "", as_input ? 2 : 1, (size_t)n, &node, u->err));
    node->in[0] = x;
    if (as_input) node->in[1] = split;
    node->def = pl_op_find("", "Split", node->opset);
    pl_attr *attr = pl_node_add_attr(node, "axis", PL_ATTR_INT);
    if (attr == NULL) {
        st = pl_fail_memory(u->err, 1);
        goto done;
    }
    attr->i = axis;
    if (!as_input) PL_TRY_GOTO(done, st, pl_pass_set_ints(node, "split", ones, (size_t)n, u->err));
    for (int64_t i = 0; i < n && st == PL_OK; i++) {
        pl_value *piece = NULL;
        const char *base =
            pl_arena_printf(u->graph->model->arena, "%s/%s/%lld", u->name, x->name, (long long)i);
        st = base == NULL ? pl_fail_memory(u->err, 1)
                          : pl_graph_add_fresh_value(u->graph, base, &piece, u->err);
        if (st != PL_OK) break;
        pl_node_set_output(node, (uint32_t)i, piece);
        st = axis_op(u, "Squeeze", piece, axis, &out[i]);
    }
done:
    pl_free(ones);
    return st;
}

/* Number of steps; -1 = not constant. */
static int64_t length_of(const pl_node *node, const pl_scan_layout *s) {
    for (size_t k = 0; k < s->n_in; k++) {
        const pl_value *x = node->in[s->n_states + k];
        const pl_type *type = x == NULL ? NULL : x->type;
        if (type == NULL || !type->has_rank) continue;
        int64_t axis = s->in_axes == NULL ? 0 : s->in_axes[k];
        if (axis < 0) axis += type->rank;
        if (axis < 0 || axis >= type->rank || !pl_dim_known(type->dims[axis])) continue;
        return type->dims[axis].value;
    }
    return -1;
}

static pl_status scan_length(const unrolling *u, const pl_scan_layout *s, int64_t *out) {
    *out = length_of(u->node, s);
    if (*out >= 0) return PL_OK;
    return pl_node_fail(
        u->err, PL_E_UNSUPPORTED, u->node,
        "its gradient requires the length of '%s', which is not known before the run",
        u->node->in[s->n_states]->name);
}

static pl_status scan_steps(unrolling *u, const pl_scan_layout *s, int64_t n, pl_value **slices) {
    for (size_t k = 0; k < s->n_in; k++) {
        PL_TRY(cut(u, u->node->in[s->n_states + k], s->in_axes == NULL ? 0 : s->in_axes[k], n,
                   slices + (int64_t)k * n));
    }
    for (int64_t i = 0; i < n; i++) {
        for (size_t k = 0; k < s->n_states; k++)
            u->map[u->body->inputs[k]->id] = u->states[k];
        for (size_t k = 0; k < s->n_in; k++) {
            const bool back = s->in_reverse != NULL && s->in_reverse[k] != 0;
            u->map[u->body->inputs[s->n_states + k]->id] =
                slices[(int64_t)k * n + (back ? n - 1 - i : i)];
        }
        PL_TRY(copy_step(u, NULL));
    }
    return PL_OK;
}

static pl_status expand_scan(pl_graph *graph, pl_node *node, pl_err *err) {
    pl_scan_layout s;
    unrolling u;
    const char *name = NULL, *bad = pl_scan_read(&s, node, node->n_in, &name);
    pl_value **slices = NULL;
    int64_t n = 0;
    pl_status st = PL_OK;
    if (bad != NULL) return pl_node_fail(err, PL_E_INVALID, node, "'%s' %s", name, bad);
    if (pl_scan_has_batch(node))
        return pl_node_fail(err, PL_E_UNSUPPORTED, node, "Scan-8 has no gradient; use Scan-9");
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] == NULL)
            return pl_node_fail(err, PL_E_INVALID, node, "input %u is missing", i);
    PL_TRY_GOTO(done, st, open_loop(&u, graph, node, s.body, s.n_states, 0, err));
    PL_TRY_GOTO(done, st, scan_length(&u, &s, &n));
    if (u.states == NULL || s.body->n_inputs != s.n_states + s.n_in || n > MAX_NODES) {
        st = pl_node_fail(err, PL_E_UNSUPPORTED, node, "its body or length is out of range");
        goto done;
    }
    slices = pl_calloc(s.n_in * (size_t)n + 1, sizeof(*slices));
    if (slices == NULL) {
        st = pl_fail_memory(err, s.n_in * (size_t)n);
        goto done;
    }
    for (size_t i = 0; i < s.n_states; i++)
        u.states[i] = node->in[i];
    PL_TRY_GOTO(done, st, scan_steps(&u, &s, n, slices));
    PL_TRY_GOTO(done, st, give_states(&u));
    for (size_t k = 0; k < u.n_scans; k++) {
        const size_t slot = s.n_states + k;
        if (slot >= node->n_out || node->out[slot] == NULL) continue;
        const bool back = s.out_reverse != NULL && s.out_reverse[k] != 0;
        PL_TRY_GOTO(done, st,
                    give_scan(&u, k, s.out_axes == NULL ? 0 : s.out_axes[k], back, (uint32_t)slot));
    }
    st = drop(&u);
done:
    pl_free(slices);
    close_loop(&u);
    return st;
}

/* ---- If ---- */

/* Replaces an If by the branch that is always taken; *done tells whether it was. */
static pl_status expand_if(pl_graph *graph, pl_node *node, bool *done, pl_err *err) {
    unrolling u;
    pl_tensor *cond = NULL;
    pl_arena *scratch = pl_arena_new();
    pl_status st = scratch == NULL ? pl_fail_memory(err, 1) : PL_OK;
    *done = false;
    if (st == PL_OK && node->n_in > 0 && node->in[0] != NULL)
        st = fold(node->in[0], 0, scratch, &cond, err);
    pl_arena_free(scratch);
    PL_TRY(st);
    if (cond == NULL || cond->n_elements != 1) {
        pl_tensor_unref(cond);
        return PL_OK;
    }
    const bool yes = pl_tensor_get_i64(cond, 0) != 0;
    pl_tensor_unref(cond);
    PL_TRY_GOTO(done, st,
                open_loop(&u, graph, node, pl_attr_graph(node, yes ? "then_branch" : "else_branch"),
                          node->n_out, 0, err));
    PL_TRY_GOTO(done, st, copy_step(&u, NULL));
    PL_TRY_GOTO(done, st, give_states(&u));
    PL_TRY_GOTO(done, st, drop(&u));
    *done = true;
done:
    close_loop(&u);
    return st;
}

/* ---- shape arithmetic ---- */

/* Rules need constants: sizes, pads, scales. Folds values that do not depend on xs. */
static pl_status fold_graph(pl_graph *graph, const bool *depends, size_t n_depends, bool *changed,
                            pl_err *err) {
    enum { LARGEST = 4096 };
    pl_arena *scratch = pl_arena_new();
    bool *dropped = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    pl_status st = scratch == NULL || dropped == NULL ? pl_fail_memory(err, 1) : PL_OK;
    for (size_t i = 0; i < graph->n_nodes && st == PL_OK; i++) {
        pl_node *node = graph->nodes[i];
        pl_tensor *t = NULL;
        pl_value *out = node->n_out == 1 ? node->out[0] : NULL;
        node->index = (uint32_t)i;
        if (out == NULL || out->is_output || out->id >= n_depends || depends[out->id]) continue;
        if (pl_node_has_flag(node, PL_OP_CONSTANT)) continue; /* is one already */
        pl_arena_reset(scratch);
        /* What cannot be computed is left to the run, which reports it. */
        pl_err ignored = PL_ERR_INIT;
        if (fold(out, MAX_DEPTH - 1, scratch, &t, &ignored) != PL_OK) continue;
        if (t != NULL && t->n_elements <= LARGEST) {
            st = pl_value_set_init(out, t, err);
            out->producer = NULL;
            node->out[0] = NULL;
            dropped[i] = *changed = true;
        }
        pl_tensor_unref(t);
    }
    if (st == PL_OK && *changed) st = pl_graph_remove_nodes(graph, dropped, err);
    pl_free(dropped);
    pl_arena_free(scratch);
    return st;
}

/* ---- finding them ---- */

typedef struct search {
    const bool *depends;
    pl_graph *graph;
    pl_node *node; /* the first node to replace, innermost graph first */
    bool changed;  /* an If was replaced by its branch */
} search;

static bool has_output(const pl_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != NULL) return true;
    return false;
}

static pl_status find_in(void *ctx, pl_graph *graph, pl_err *err) {
    search *f = ctx;
    for (size_t i = 0; i < graph->n_nodes && f->node == NULL && !f->changed; i++) {
        pl_node *node = graph->nodes[i];
        if (node->def == NULL || (node->def->flags & PL_OP_CONTROL) == 0) continue;
        if (!has_output(node) || !pl_node_depends(node, f->depends)) continue;
        if (node->def->grad == pl_grad_unrolled) {
            f->node = node;
            f->graph = graph;
            return PL_OK;
        }
        if (node->def->bodies == PL_BODIES_BRANCHES) {
            f->graph = graph;
            PL_TRY(expand_if(graph, node, &f->changed, err));
            if (f->changed) return PL_OK;
        }
        PL_TRY(pl_node_each_body(node, find_in, ctx, err));
    }
    return PL_OK;
}

static pl_status settle(pl_graph *graph, pl_err *err) {
    PL_TRY(pl_graph_sort(graph, err));
    PL_TRY(pl_ops_resolve(graph->model, err));
    return pl_model_infer(graph->model, NULL, err);
}

pl_status pl_node_unroll(pl_node *node, pl_err *err) {
    pl_graph *graph = node->graph;
    switch (pl_node_bodies(node)) {
    case PL_BODIES_LOOP: PL_TRY(expand_loop(graph, node, err)); break;
    case PL_BODIES_SCAN: PL_TRY(expand_scan(graph, node, err)); break;
    default: PL_TRY(pl_spell_flex(graph, node, err)); break;
    }
    return settle(graph, err);
}

pl_status pl_node_trip_count(const pl_node *node, int64_t *out, pl_err *err) {
    pl_scan_layout s;
    const char *name = NULL;
    *out = -1;
    if (pl_node_bodies(node) == PL_BODIES_SCAN) {
        if (pl_scan_has_batch(node) || pl_scan_read(&s, node, node->n_in, &name) != NULL) {
            return PL_OK;
        }
        *out = length_of(node, &s);
        return PL_OK;
    }
    pl_arena *scratch = pl_arena_new();
    pl_tensor *t = NULL;
    if (scratch == NULL) return pl_fail_memory(err, 1);
    pl_status st = PL_OK;
    if (node->n_in > 0 && node->in[0] != NULL) st = fold(node->in[0], 0, scratch, &t, err);
    if (t != NULL && t->n_elements == 1) *out = pl_tensor_get_i64(t, 0);
    pl_tensor_unref(t);
    pl_arena_free(scratch);
    return st;
}

static pl_status unroll_one(pl_model *model, pl_value *const *xs, size_t n_xs, bool *found,
                            pl_err *err) {
    bool *depends = pl_calloc((size_t)model->n_values + 1, sizeof(bool));
    pl_status st = PL_OK;
    if (depends == NULL) return pl_fail_memory(err, model->n_values);
    for (size_t i = 0; i < n_xs; i++)
        depends[xs[i]->id] = true;
    pl_mark_dependents(model->graph, depends);
    search f = { .depends = depends };
    st = find_in(&f, model->graph, err);
    pl_free(depends);
    *found = st == PL_OK && (f.node != NULL || f.changed);
    if (!*found) return st;
    if (!f.changed) return pl_node_unroll(f.node, err);
    return settle(f.graph, err);
}

static pl_status fold_known(pl_model *model, pl_value *const *xs, size_t n_xs, bool *changed,
                            pl_err *err) {
    const size_t n = model->n_values;
    bool *depends = pl_calloc(n + 1, sizeof(bool));
    if (depends == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n_xs; i++)
        depends[xs[i]->id] = true;
    pl_mark_dependents(model->graph, depends);
    const pl_status st = fold_graph(model->graph, depends, n, changed, err);
    pl_free(depends);
    return st;
}

pl_status pl_unroll_loops(pl_model *model, pl_value *const *xs, size_t n_xs, pl_err *err) {
    bool found = true, folded = false;
    PL_TRY(fold_known(model, xs, n_xs, &folded, err));
    if (folded) {
        PL_TRY(pl_ops_resolve(model, err));
        PL_TRY(pl_model_infer(model, NULL, err));
    }
    for (size_t work = 0; found;) {
        PL_TRY(unroll_one(model, xs, n_xs, &found, err));
        work += pl_model_count_nodes(model);
        if (found && work > MAX_WORK)
            return pl_fail(err, PL_E_LIMIT, "nested loops: gradients would need too many nodes");
    }
    PL_TRY(pl_take_sequences_apart(model->graph, &found, err));
    if (!found) return PL_OK;
    PL_TRY(pl_ops_resolve(model, err));
    return pl_model_infer(model, NULL, err);
}
