/* Types and shapes of a whole model without running it.
 *
 * Nodes are visited once, in order. Contents of small tensors are carried along: as tensors where
 * everything is known (operators flagged PL_OP_SHAPE are then folded by calling their kernel), as
 * dims where some are symbols. Types are in the model's arena; tables of a node are in an arena
 * that is reset after it. */

#include "base/alloc.h"
#include "base/size.h"
#include "ops/eval.h"
#include "ops/infer_int.h"

enum { FOLD_MAX = 4096 }; /* elements; shape arithmetic is far smaller */

typedef struct driver {
    pl_model *model;
    const pl_infer_options *options;
    pl_arena *tables;           /* of one node */
    pl_tensor **folded;         /* by value id; owned */
    const pl_content **content; /* by value id */
    int depth;
} driver;

static const pl_type unknown_type = { .kind = PL_TYPE_NONE };

static pl_status infer_graph(driver *d, pl_graph *graph, pl_err *err);

static const pl_tensor *known_tensor(const driver *d, const pl_value *value) {
    if (d->folded[value->id] != NULL) return d->folded[value->id];
    /* An input's default may be overridden by the caller. */
    const bool fixed = !value->is_input || (d->options != NULL && d->options->defaults);
    return value->init != NULL && fixed ? value->init : NULL;
}

/* ---- bodies ---- */

static pl_status infer_body(pl_infer *c, pl_graph *body, const pl_type *const *in, size_t n_in,
                            const pl_type **out) {
    driver *d = c->driver;
    if (d->depth >= PL_GRAPH_DEPTH_MAX) return pl_infer_fail(c, "bodies are nested too deeply");
    for (size_t i = 0; i < n_in && i < body->n_inputs; i++) {
        pl_value *value = body->inputs[i];
        if (in[i] == NULL || in[i]->kind == PL_TYPE_NONE) continue;
        const pl_type *merged = in[i];
        if (pl_infer_merge(c, in[i], value->type, &merged) != PL_OK) merged = in[i];
        value->type = merged;
    }
    pl_arena *outer = d->tables; /* still in use by the node that owns the body */
    d->tables = pl_arena_new();
    pl_status st = d->tables == NULL ? pl_fail_memory(c->err, 1) : PL_OK;
    if (st == PL_OK) st = infer_graph(d, body, c->err);
    pl_arena_free(d->tables);
    d->tables = outer;
    for (size_t i = 0; st == PL_OK && i < body->n_outputs; i++)
        out[i] = body->outputs[i]->type;
    return st;
}

/* ---- one node ---- */

static bool tables_fill(driver *d, const pl_node *node, pl_infer *c) {
    const pl_type **in = pl_arena_array(d->tables, node->n_in, sizeof(*in));
    const pl_tensor **tensor = pl_arena_array(d->tables, node->n_in, sizeof(*tensor));
    const pl_content **content = pl_arena_array(d->tables, node->n_in, sizeof(*content));
    const pl_type **out = pl_arena_array(d->tables, node->n_out, sizeof(*out));
    const pl_content **out_content = pl_arena_array(d->tables, node->n_out, sizeof(*out_content));
    if (in == NULL || tensor == NULL || content == NULL || out == NULL || out_content == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *value = node->in[i];
        if (value == NULL) continue;
        in[i] = value->type != NULL ? value->type : &unknown_type;
        tensor[i] = known_tensor(d, value);
        content[i] = d->content[value->id];
    }
    *c = (pl_infer){ .node = node,
                     .arena = d->model->arena,
                     .n_in = (int)node->n_in,
                     .n_out = (int)node->n_out,
                     .in = in,
                     .in_tensor = tensor,
                     .in_content = content,
                     .out = out,
                     .out_content = out_content,
                     .infer_body = infer_body,
                     .driver = d };
    return true;
}

static bool can_fold(const pl_infer *c) {
    const pl_node *node = c->node;
    if ((node->def->flags & PL_OP_SHAPE) == 0 || pl_node_is_random(node)) return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL) continue;
        if (c->in_tensor[i] == NULL || c->in_tensor[i]->n_elements > FOLD_MAX) return false;
    }
    for (int i = 0; i < c->n_out; i++) {
        const pl_type *type = c->out[i];
        int64_t n = 1;
        if (type == NULL || !pl_type_is_concrete(type)) return false;
        for (int k = 0; k < type->rank; k++) {
            if (!pl_i64_mul(n, type->dims[k].value, &n) || n > FOLD_MAX) return false;
        }
    }
    return true;
}

/* A kernel that fails here is not an error of inference: the run will report it. */
static pl_status fold(driver *d, const pl_infer *c, pl_err *err) {
    const pl_node *node = c->node;
    pl_datum **in = pl_arena_array(d->tables, node->n_in, sizeof(*in));
    pl_datum **out = pl_arena_array(d->tables, node->n_out, sizeof(*out));
    if (in == NULL || out == NULL) return pl_fail_memory(err, node->n_in);
    pl_status st = PL_OK;
    for (uint32_t i = 0; i < node->n_in && st == PL_OK; i++) {
        if (node->in[i] == NULL) continue;
        st = pl_datum_of_tensor_take(pl_tensor_ref(c->in_tensor[i]), &in[i], err);
    }
    const pl_eval_setup setup = { .scratch = d->tables };
    pl_err ignored = PL_ERR_INIT;
    if (st == PL_OK && pl_eval_node(node, in, out, &setup, &ignored) == PL_OK) {
        for (uint32_t i = 0; i < node->n_out; i++) {
            if (out[i] == NULL) continue;
            if (out[i]->kind == PL_TYPE_TENSOR) {
                pl_tensor_unref(d->folded[node->out[i]->id]);
                d->folded[node->out[i]->id] = pl_tensor_ref(out[i]->tensor);
            }
            pl_datum_unref(out[i]);
        }
    }
    for (uint32_t i = 0; i < node->n_in; i++)
        pl_datum_unref(in[i]);
    return st;
}

static pl_status keep_types(driver *d, pl_infer *c) {
    for (int i = 0; i < c->n_out; i++) {
        pl_value *value = c->node->out[i];
        if (value == NULL) continue;
        d->content[value->id] = c->out_content[i];
        if (c->out[i] == NULL) continue; /* keep the declared type */
        const pl_type *merged = c->out[i];
        pl_err contradiction = PL_ERR_INIT;
        pl_err *outer = c->err;
        c->err = &contradiction;
        const pl_status st = pl_infer_merge(c, c->out[i], value->type, &merged);
        c->err = outer;
        if (st != PL_OK) {
            if (d->options != NULL && d->options->strict) {
                return pl_infer_fail(c, "declared type of '%s' contradicts: %s", value->name,
                                     contradiction.message);
            }
            merged = c->out[i]; /* exporters do declare wrong types; trust the rule */
        }
        value->type = merged;
    }
    return PL_OK;
}

static pl_status infer_node(driver *d, const pl_node *node, pl_err *err) {
    pl_infer c;
    pl_arena_reset(d->tables);
    if (!tables_fill(d, node, &c)) return pl_fail_memory(err, node->n_in);
    c.err = err;
    PL_TRY(pl_infer_call(&c));
    if (can_fold(&c)) PL_TRY(fold(d, &c, err));
    return keep_types(d, &c);
}

static pl_status infer_graph(driver *d, pl_graph *graph, pl_err *err) {
    pl_status st = PL_OK;
    d->depth++;
    for (size_t i = 0; i < graph->n_nodes && st == PL_OK; i++) {
        st = infer_node(d, graph->nodes[i], err);
    }
    d->depth--;
    return st;
}

/* ---- the model ---- */

/* --dim NAME=N: the symbol becomes a number in every input. */
static pl_status bind_dims(pl_model *model, const pl_strmap *dims, pl_err *err) {
    for (size_t i = 0; dims != NULL && i < model->graph->n_inputs; i++) {
        pl_value *value = model->graph->inputs[i];
        const pl_type *type = value->type;
        if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) continue;
        pl_dim bound[PL_RANK_MAX];
        for (int k = 0; k < type->rank; k++) {
            bound[k] = type->dims[k];
            const int64_t *n = bound[k].name == NULL ? NULL : pl_strmap_get(dims, bound[k].name);
            if (n != NULL) bound[k] = pl_dim_of(*n);
        }
        value->type = pl_type_tensor(model->arena, type->dtype, type->rank, bound);
        if (value->type == NULL) return pl_fail_memory(err, sizeof(pl_type));
    }
    return PL_OK;
}

pl_status pl_model_infer(pl_model *model, const pl_infer_options *options, pl_err *err) {
    driver d = { .model = model, .options = options };
    pl_status st = PL_OK;
    d.tables = pl_arena_new();
    d.folded = pl_calloc((size_t)model->n_values + 1, sizeof(pl_tensor *));
    d.content = pl_calloc((size_t)model->n_values + 1, sizeof(pl_content *));
    if (d.tables == NULL || d.folded == NULL || d.content == NULL) {
        st = pl_fail_memory(err, model->n_values);
        goto done;
    }
    if (options != NULL) PL_TRY_GOTO(done, st, bind_dims(model, options->dims, err));
    st = infer_graph(&d, model->graph, err);
done:
    for (size_t i = 0; d.folded != NULL && i < model->n_values; i++)
        pl_tensor_unref(d.folded[i]);
    pl_free(d.folded);
    pl_free(d.content);
    pl_arena_free(d.tables);
    return st;
}
