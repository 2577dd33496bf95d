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
    } else {
        *out = whole;
        whole = NULL;
    }
done:
    name_list_release(&inputs);
    name_list_release(&outputs);
    pl_model_free(whole);
    return st;
}
