/* The model given to `plumb view model.onnx`, shown before anything is compared: its graph with
 * inferred shapes, and its weights, of which the page shows statistics and pictures. */
#include <string.h>

#include "flows/inputs.h"
#include "onnx/onnx.h"
#include "ops/infer.h"
#include "ops/op.h"
#include "view/server_int.h"

/* Shapes that cannot be inferred are not shown. */
static void infer(pl_model *model, const pl_dim_map *dims) {
    const pl_infer_options options = { .dims = &dims->map };
    pl_err why = PL_ERR_INIT;
    if (pl_ops_resolve_known(model, &why) == PL_OK) (void)pl_model_infer(model, &options, &why);
}

static pl_status read_model(const char *path, const char *const *dims, size_t n_dims,
                            pl_model **out, pl_err *err) {
    pl_dim_map map = { 0 };
    pl_model *model = NULL;
    PL_TRY(pl_dim_map_init(&map, dims, n_dims, err));
    const pl_status st = pl_model_read(path, &model, err);
    if (st == PL_OK) infer(model, &map);
    pl_dim_map_release(&map);
    *out = model;
    return st;
}

pl_status pl_server_read_model(pl_server *s, pl_err *err) {
    return read_model(s->model, NULL, 0, &s->given, err);
}

const pl_model *pl_server_model(const pl_server *s) {
    return s->viewed != NULL ? pl_viewed_model(s->viewed) : s->given;
}

enum { DIMS_MAX = 32, DIMS_TEXT_MAX = 2000 };

/* "batch=2,seq=8" */
static pl_status put_with_dims(const pl_server *s, const char *text, pl_buf *out, pl_err *err) {
    char copy[DIMS_TEXT_MAX];
    const char *dims[DIMS_MAX];
    size_t n = 0;
    pl_model *model = NULL;
    const size_t length = strlen(text);
    if (length >= sizeof copy) return pl_fail(err, PL_E_LIMIT, "dims: too long");
    memcpy(copy, text, length + 1);
    for (char *at = copy; at != NULL;) {
        char *comma = strchr(at, ',');
        if (n == DIMS_MAX) return pl_fail(err, PL_E_LIMIT, "dims: at most %d", DIMS_MAX);
        if (comma != NULL) *comma++ = '\0';
        dims[n++] = at;
        at = comma;
    }
    PL_TRY(read_model(s->model, dims, n, &model, err));
    const pl_status st = pl_viewed_put_graph(model, out, err);
    pl_model_free(model);
    return st;
}

pl_status pl_server_put_model(const pl_server *s, const char *dims, pl_buf *out, pl_err *err) {
    if (s->viewed == NULL && s->given != NULL && dims != NULL && *dims != '\0')
        return put_with_dims(s, dims, out, err);
    return pl_viewed_put_graph(pl_server_model(s), out, err);
}

/* A weight: an initializer, or the tensor of a Constant node. */
static const pl_tensor *constant_of(const pl_value *v) {
    if (v->init != NULL) return v->init;
    const pl_node *node = v->producer;
    if (node == NULL || node->n_in > 0 || node->n_out != 1) return NULL;
    const pl_attr *a = pl_node_attr(node, "value");
    return a == NULL || a->type != PL_ATTR_TENSOR ? NULL : a->tensor;
}

pl_status pl_server_open_weight(const pl_server *s, const char *name, pl_view_pair *out,
                                pl_err *err) {
    const pl_model *model = pl_server_model(s);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; model != NULL && i < model->graph->n_values; i++) {
        const pl_value *v = model->graph->values[i];
        if (strcmp(v->name, name) != 0) continue;
        const pl_tensor *t = constant_of(v);
        if (t != NULL && model->absent != NULL && !pl_tensor_is_contiguous(t))
            return pl_fail(err, PL_E_NOT_FOUND, "%s", model->absent);
        if (t != NULL) {
            out->a = pl_tensor_ref(t);
            return PL_OK;
        }
    }
    return pl_fail(err, PL_E_NOT_FOUND, "no weight '%.200s'", name);
}
