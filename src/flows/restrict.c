#include "flows/restrict.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "onnx/onnx.h"
#include "ops/infer.h"

typedef struct name_list {
    const char **names;
    size_t n;
    char *copy;
} name_list;

static void name_list_release(name_list *list) {
    pl_free(list->names);
    pl_free(list->copy);
}

static pl_status name_list_init(name_list *list, const pl_model *model, const char *text,
                                pl_err *err) {
    *list = (name_list){ 0 };
    if (text == NULL) return PL_OK;
    list->copy = pl_strdup(text);
    list->names = pl_calloc(strlen(text) + 1, sizeof(char *));
    if (list->copy == NULL || list->names == NULL) return pl_fail_memory(err, strlen(text));
    if (pl_graph_find(model->graph, text) != NULL) {
        list->names[list->n++] = list->copy;
        return PL_OK;
    }
    for (char *at = list->copy; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) *comma = '\0';
        if (*at != '\0') list->names[list->n++] = at;
        at = comma == NULL ? NULL : comma + 1;
    }
    return PL_OK;
}

/* Values that become inputs or outputs need types, which the file may not have (onnx.checker then
 * rejects the part). Types that cannot be inferred stay unknown: the part may not contain them. */
static void infer_types(pl_model *model) {
    const pl_infer_options options = { 0 };
    if (pl_ops_resolve(model, NULL) == PL_OK) (void)pl_model_infer(model, &options, NULL);
}

typedef struct reading {
    const pl_value *value;
    bool found;
} reading;

static pl_status look_for_readers(void *ctx, pl_graph *graph, pl_err *err) {
    reading *r = ctx;
    for (size_t i = 0; i < graph->n_outputs; i++)
        r->found = r->found || graph->outputs[i] == r->value;
    for (size_t i = 0; i < graph->n_nodes && !r->found; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            r->found = r->found || node->in[k] == r->value;
        PL_TRY(pl_node_each_body(node, look_for_readers, ctx, err));
    }
    return PL_OK;
}

/* A part without operations would only hand its inputs on, and a start that nothing reads changes
 * nothing. */
static pl_status check_part(const pl_model *whole, const pl_model *part, const name_list *from,
                            const name_list *to, pl_err *err) {
    const pl_graph *graph = part->graph;
    for (size_t i = 0; i < from->n; i++) {
        const pl_value *was = pl_graph_find(whole->graph, from->names[i]);
        reading r = { .value = pl_graph_find(graph, from->names[i]) };
        if (was == NULL || was->producer == NULL) continue;
        if (r.value != NULL) PL_TRY(look_for_readers(&r, part->graph, err));
        if (r.found) continue;
        return pl_fail(err, PL_E_USAGE, "option 'from': no output of the part depends on '%s'",
                       from->names[i]);
    }
    if (graph->n_nodes > 0 || whole->graph->n_nodes == 0) return PL_OK;
    const char *first = from->n > 0 ? from->names[0] : NULL;
    const char *last = to->n > 0 ? to->names[0] : NULL;
    if (first == NULL || last == NULL)
        return pl_fail(err, PL_E_USAGE, "no operation is left %s '%s'",
                       first == NULL ? "before" : "after",
                       first != NULL  ? first
                       : last != NULL ? last
                                      : "");
    return pl_fail(err, PL_E_USAGE, "no operation is left after '%s' and before '%s'", first, last);
}

pl_status pl_model_restrict(pl_model *model, const char *function, const char *from, const char *to,
                            pl_model **out, pl_err *err) {
    *out = NULL;
    pl_model *whole = NULL;
    name_list inputs = { 0 }, outputs = { 0 };
    pl_status st = PL_OK;
    if (function != NULL) {
        PL_TRY_GOTO(done, st, pl_model_read_function(model, function, &whole, err));
        model = whole;
    }
    if (from != NULL || to != NULL) {
        infer_types(model);
        PL_TRY_GOTO(done, st, name_list_init(&inputs, model, from, err));
        PL_TRY_GOTO(done, st, name_list_init(&outputs, model, to, err));
        PL_TRY_GOTO(
            done, st,
            pl_model_cut(model, inputs.names, inputs.n, outputs.names, outputs.n, out, err));
        st = check_part(model, *out, &inputs, &outputs, err);
    } else {
        *out = whole;
        whole = NULL;
    }
done:
    if (st != PL_OK) {
        pl_model_free(*out);
        *out = NULL;
    }
    name_list_release(&inputs);
    name_list_release(&outputs);
    pl_model_free(whole);
    return st;
}
