/* Models with gradients: joint, forward and backward graphs. */
#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "passes/backward.h"
#include "passes/pass_int.h"
#include "passes/passes.h"

typedef struct joint {
    pl_model *model;
    pl_value **xs;         /* float inputs, then parameters */
    size_t n_xs, n_inputs; /* n_inputs of them are inputs */
    pl_value **ys, **dys, **dx;
    size_t n_ys;
    size_t n_outputs; /* of the original model */
    bool *forward;    /* by value id: there before the gradients were added */
    size_t n_forward;
    pl_err *err;
} joint;

static bool is_float(const pl_value *value) {
    return value->type != NULL && value->type->kind == PL_TYPE_TENSOR &&
           ((1u << value->type->dtype) & PL_T_FLOAT) != 0;
}

static bool init_is_float(const pl_value *value) {
    return value->init != NULL && ((1u << value->init->dtype) & PL_T_FLOAT) != 0;
}

/* A value d_NAME; a name that is taken is an error, because the interface promises these names. */
static pl_status named(joint *j, const pl_value *of, pl_value **out) {
    const char *name = pl_arena_printf(j->model->arena, "d_%s", of->name);
    if (name == NULL) return pl_fail_memory(j->err, 1);
    if (pl_graph_find(j->model->graph, name) != NULL) {
        return pl_fail(j->err, PL_E_UNSUPPORTED,
                       "cannot add the gradient of '%s': value '%s' already exists", of->name,
                       name);
    }
    return pl_graph_add_value(j->model->graph, name, out, j->err);
}

static pl_status collect(joint *j) {
    pl_graph *graph = j->model->graph;
    const size_t n = graph->n_values + graph->n_outputs + 1;
    j->xs = pl_calloc(n, sizeof(pl_value *));
    j->dx = pl_calloc(n, sizeof(pl_value *));
    j->ys = pl_calloc(n, sizeof(pl_value *));
    j->dys = pl_calloc(n, sizeof(pl_value *));
    if (j->xs == NULL || j->dx == NULL || j->ys == NULL || j->dys == NULL)
        return pl_fail_memory(j->err, n);
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (is_float(graph->inputs[i])) j->xs[j->n_xs++] = graph->inputs[i];
    j->n_inputs = j->n_xs;
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *value = graph->values[i];
        if (!value->is_input && init_is_float(value)) j->xs[j->n_xs++] = value;
    }
    j->n_outputs = graph->n_outputs;
    for (size_t i = 0; i < graph->n_outputs; i++)
        if (is_float(graph->outputs[i])) j->ys[j->n_ys++] = graph->outputs[i];
    if (j->n_ys > 0 && j->n_xs > 0) return PL_OK;
    return pl_fail(j->err, PL_E_UNSUPPORTED, "the model has no float %s, so there is no gradient",
                   j->n_ys == 0 ? "output" : "input or parameter");
}

static pl_status add_incoming(joint *j) {
    for (size_t i = 0; i < j->n_ys; i++) {
        PL_TRY(named(j, j->ys[i], &j->dys[i]));
        j->dys[i]->type = j->ys[i]->type;
        PL_TRY(pl_graph_add_input(j->model->graph, j->dys[i], j->err));
    }
    return PL_OK;
}

/* Parameters that have a gradient become inputs with a default. */
static pl_status lift(joint *j) {
    for (size_t i = j->n_inputs; i < j->n_xs; i++) {
        pl_value *x = j->xs[i];
        if (j->dx[i] == NULL) continue;
        if (x->type == NULL) {
            pl_dim dims[PL_RANK_MAX];
            for (int d = 0; d < x->init->rank; d++)
                dims[d] = pl_dim_of(x->init->dims[d]);
            x->type = pl_type_tensor(j->model->arena, x->init->dtype, x->init->rank, dims);
            if (x->type == NULL) return pl_fail_memory(j->err, 1);
        }
        PL_TRY(pl_graph_add_input(j->model->graph, x, j->err));
    }
    return PL_OK;
}

static pl_status add_gradients(joint *j) {
    pl_graph *graph = j->model->graph;
    for (size_t i = 0; i < j->n_xs; i++) {
        pl_value *out = NULL, *dx = j->dx[i];
        pl_node *node = NULL;
        if (dx == NULL && i >= j->n_inputs) continue;
        if (dx == NULL) PL_TRY(pl_pass_zeros_like(graph, j->xs[i], 0, "grad/zeros", &dx, j->err));
        PL_TRY(named(j, j->xs[i], &out));
        PL_TRY(pl_graph_add_node(graph, "Identity", "", 1, 1, &node, j->err));
        node->in[0] = dx;
        pl_node_set_output(node, 0, out);
        out->type = j->xs[i]->type;
        PL_TRY(pl_graph_add_output(graph, out, j->err));
    }
    return PL_OK;
}

static pl_status note_forward(joint *j) {
    j->n_forward = j->model->n_values;
    j->forward = pl_calloc(j->n_forward + 1, sizeof(bool));
    if (j->forward == NULL) return pl_fail_memory(j->err, j->n_forward);
    for (size_t i = 0; i < j->model->graph->n_values; i++)
        j->forward[j->model->graph->values[i]->id] = true;
    return PL_OK;
}

static bool changes_nothing(const pl_node *node) {
    size_t n = 0;
    if (strcmp(node->op, "Transpose") != 0 || !pl_domain_is_onnx(node->domain)) return false;
    const int64_t *perm = pl_attr_ints(node, "perm", &n);
    for (size_t i = 0; i < n; i++)
        if (perm[i] != (int64_t)i) return false;
    return perm != NULL && node->out[0] != NULL && !node->out[0]->is_output;
}

/* Removes Transposes that change nothing, which rules write for the general case. ONNX Runtime's
 * GemmTransposeFusion (1.27) assumes that every Transpose swaps. */
static pl_status pass_by_transposes(joint *j) {
    pl_graph *graph = j->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const pl_value *out = node->n_out == 1 ? node->out[0] : NULL;
        if (out == NULL || (out->id < j->n_forward && j->forward[out->id])) continue;
        if (!changes_nothing(node)) continue;
        PL_TRY(pl_graph_replace_uses(graph, node->out[0], node->in[0], j->err));
    }
    return PL_OK;
}

static pl_status build(joint *j, const pl_model *model, const pl_infer_options *options) {
    PL_TRY(pl_model_copy(model, &j->model, j->err));
    if (pl_model_opset(j->model, "") == 0) /* a model without ai.onnx */
        PL_TRY(pl_model_set_opset(j->model, "", 17, j->err));
    pl_model_raise_ir(j->model);
    PL_TRY(pl_raise_opset(j->model, j->err));
    PL_TRY(pl_lower_gradient(j->model, j->err));
    PL_TRY(pl_ops_resolve(j->model, j->err));
    PL_TRY(pl_model_infer(j->model, options, j->err));
    PL_TRY(collect(j));
    PL_TRY(pl_unroll_loops(j->model, j->xs, j->n_xs, j->err));
    PL_TRY(note_forward(j));
    PL_TRY(add_incoming(j));
    PL_TRY(pl_backward_sum(j->model->graph, j->ys, j->dys, j->n_ys, j->xs, j->n_xs, j->dx, j->err));
    PL_TRY(lift(j));
    PL_TRY(add_gradients(j));
    size_t n_removed = 0;
    PL_TRY(pass_by_transposes(j));
    PL_TRY(pl_graph_remove_dead(j->model->graph, &n_removed, j->err));
    PL_TRY(pl_graph_sort(j->model->graph, j->err));
    PL_TRY(pl_graph_unshadow(j->model->graph, j->err));
    PL_TRY(pl_ops_resolve(j->model, j->err));
    return pl_model_infer(j->model, NULL, j->err);
}

/* ---- parts ---- */

typedef struct saving { /* values of the forward part that gradients read */
    const joint *j;
    bool *seen; /* by value id */
    const char **names;
    size_t n;
} saving;

static void save(void *ctx, pl_value *value) {
    saving *s = ctx;
    const joint *j = s->j;
    if (value->id >= j->n_forward || !j->forward[value->id] || s->seen[value->id]) return;
    const bool constant = value->init != NULL && !value->is_input;
    if (constant || value->graph != j->model->graph) return;
    s->seen[value->id] = true;
    s->names[s->n++] = value->name;
}

static bool is_backward(const joint *j, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_value *out = node->out[i];
        if (out != NULL && out->id < j->n_forward && j->forward[out->id]) return false;
    }
    return true;
}

static pl_status cut_backward(const joint *j, const saving *s, pl_model **out) {
    const pl_graph *graph = j->model->graph;
    const size_t n_to = graph->n_outputs - j->n_outputs;
    const char **from = pl_calloc(j->n_ys + s->n + 1, sizeof(char *));
    const char **to = pl_calloc(n_to + 1, sizeof(char *));
    pl_status st = from == NULL || to == NULL ? pl_fail_memory(j->err, s->n) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < j->n_ys; i++)
        from[i] = j->dys[i]->name;
    for (size_t i = 0; st == PL_OK && i < s->n; i++)
        from[j->n_ys + i] = s->names[i];
    for (size_t i = 0; st == PL_OK && i < n_to; i++)
        to[i] = graph->outputs[j->n_outputs + i]->name;
    if (st == PL_OK) st = pl_model_cut(j->model, from, j->n_ys + s->n, to, n_to, out, j->err);
    pl_free(from);
    pl_free(to);
    return st;
}

/* Outputs, then saved values that are neither outputs nor inputs. */
static pl_status cut_forward(const joint *j, const saving *s, pl_model **out) {
    const pl_graph *graph = j->model->graph;
    const char **from = pl_calloc(graph->n_inputs + 1, sizeof(char *));
    const char **to = pl_calloc(j->n_outputs + s->n + 1, sizeof(char *));
    size_t n_from = 0, n_to = 0;
    pl_status st = from == NULL || to == NULL ? pl_fail_memory(j->err, s->n) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < graph->n_inputs; i++)
        if (graph->inputs[i]->id < j->n_forward) from[n_from++] = graph->inputs[i]->name;
    for (size_t i = 0; st == PL_OK && i < j->n_outputs; i++)
        to[n_to++] = graph->outputs[i]->name;
    for (size_t i = 0; st == PL_OK && i < s->n; i++) {
        const pl_value *value = pl_graph_find(graph, s->names[i]);
        if (!value->is_input && !value->is_output) to[n_to++] = s->names[i];
    }
    if (st == PL_OK) st = pl_model_cut(j->model, from, n_from, to, n_to, out, j->err);
    pl_free(from);
    pl_free(to);
    return st;
}

static pl_status take_part(const joint *j, bool forward, pl_model **out) {
    const pl_graph *graph = j->model->graph;
    saving s = { .j = j };
    pl_status st = PL_OK;
    s.seen = pl_calloc((size_t)j->model->n_values + 1, sizeof(bool));
    s.names = pl_calloc((size_t)j->model->n_values + 1, sizeof(char *));
    if (s.seen == NULL || s.names == NULL) {
        st = pl_fail_memory(j->err, j->model->n_values);
    } else {
        for (size_t i = 0; i < graph->n_nodes; i++)
            if (is_backward(j, graph->nodes[i])) pl_node_each_use(graph->nodes[i], save, &s);
        st = forward ? cut_forward(j, &s, out) : cut_backward(j, &s, out);
    }
    pl_free(s.seen);
    pl_free(s.names);
    return st;
}

pl_status pl_model_backward(const pl_model *model, pl_backward_part part,
                            const pl_infer_options *options, pl_model **out, pl_err *err) {
    joint j = { .err = err };
    pl_status st = build(&j, model, options);
    if (st == PL_OK && part == PL_BACKWARD_JOINT) {
        *out = j.model;
        j.model = NULL;
    } else if (st == PL_OK) {
        st = take_part(&j, part == PL_BACKWARD_FORWARD, out);
    }
    pl_free(j.xs);
    pl_free(j.dx);
    pl_free(j.ys);
    pl_free(j.dys);
    pl_free(j.forward);
    pl_model_free(j.model);
    return st;
}

static const char *const parts[] = { "joint", "forward", "backward", NULL };

static pl_status run(pl_pass_job *job, pl_err *err) {
    for (int i = 0; parts[i] != NULL; i++)
        if (strcmp(parts[i], job->value) == 0)
            return pl_model_backward(job->model, (pl_backward_part)i, job->infer, &job->made, err);
    return pl_fail(err, PL_E_INTERNAL, "backward: part '%s' not found", job->value);
}

extern const pl_pass pl_pass_backward;
const pl_pass pl_pass_backward = {
    .name = "backward",
    .summary = "a new model that also computes gradients",
    .values = parts,
    .run = run,
};
