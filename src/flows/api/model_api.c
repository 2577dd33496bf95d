/* plumb_model: from files and from memory. */
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "flows/api/options.h"
#include "flows/minify/oracle/planted.h"
#include "flows/restrict.h"
#include "graph/text/text.h"
#include "onnx/not_onnx.h"
#include "onnx/onnx.h"

static pl_status wrap_take(pl_model *model, double started, plumb_model **out, pl_err *err) {
    plumb_model *m = pl_calloc(1, sizeof(*m));
    if (m == NULL) {
        pl_model_free(model);
        return pl_fail_memory(err, sizeof(*m));
    }
    m->model = model;
    m->load_seconds = pl_api_seconds() - started;
    *out = m;
    return PL_OK;
}

/* A folder is a repro, a session or an ONNX test case. */
static pl_status read_path(const char *path, pl_model **out, pl_err *err) {
    pl_dir *dir = NULL;
    if (!pl_path_is_dir(path)) return pl_model_read(path, out, err);
    pl_status st = pl_dir_open(path, &dir, err);
    if (st == PL_OK)
        st = pl_dir_look(dir, "model.onnx", NULL) == PL_KIND_NONE
                 ? pl_fail(err, PL_E_INVALID, "'%s' has no model.onnx; it is %s", path,
                           pl_not_onnx_folder(path))
                 : pl_model_read_in(dir, "model.onnx", out, err);
    pl_dir_close(dir);
    return st;
}

plumb_status plumb_model_open(const char *path, plumb_model **out, plumb_error *err) {
    const double started = pl_api_seconds();
    pl_model *model = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(path);
    const pl_status st = pl_api_settle(read_path(path, &model, err), err);
    if (st == PL_OK) return wrap_take(model, started, out, err);
    pl_model_free(model);
    return st;
}

/* A ModelProto starts with the tag of its first field, which is never '<' or a blank. */
static bool is_text(const char *bytes, size_t n) {
    size_t i = 0;
    while (i < n && strchr(" \t\r\n", bytes[i]) != NULL && bytes[i] != '\0')
        i++;
    return i < n && bytes[i] == '<';
}

plumb_status plumb_model_open_memory(const void *bytes, size_t n_bytes, const char *base_dir,
                                     plumb_model **out, plumb_error *err) {
    const double started = pl_api_seconds();
    pl_model *model = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(bytes);
    if (is_text(bytes, n_bytes)) {
        PL_TRY(pl_model_parse(bytes, n_bytes, "model in memory", &model, err));
    } else {
        const pl_bytes given = { bytes, n_bytes };
        PL_TRY(pl_model_read_bytes(given, NULL, base_dir, "model in memory", &model, err));
    }
    return wrap_take(model, started, out, err);
}

void plumb_model_close(plumb_model *m) {
    if (m == NULL) return;
    pl_model_free(m->model);
    pl_free(m);
}

size_t plumb_model_inputs(const plumb_model *m) {
    return m == NULL ? 0 : m->model->graph->n_inputs;
}

size_t plumb_model_outputs(const plumb_model *m) {
    return m == NULL ? 0 : m->model->graph->n_outputs;
}

size_t plumb_model_nodes(const plumb_model *m) {
    return m == NULL ? 0 : m->model->graph->n_nodes;
}

const char *plumb_model_input_name(const plumb_model *m, size_t i) {
    return i < plumb_model_inputs(m) ? m->model->graph->inputs[i]->name : NULL;
}

const char *plumb_model_output_name(const plumb_model *m, size_t i) {
    return i < plumb_model_outputs(m) ? m->model->graph->outputs[i]->name : NULL;
}

/* NULL when it is unknown or not a tensor. */
static const pl_type *input_type(const plumb_model *m, size_t i) {
    const pl_type *type = i < plumb_model_inputs(m) ? m->model->graph->inputs[i]->type : NULL;
    return type == NULL || type->kind != PL_TYPE_TENSOR ? NULL : type;
}

static const pl_type *output_type(const plumb_model *m, size_t i) {
    const pl_type *type = i < plumb_model_outputs(m) ? m->model->graph->outputs[i]->type : NULL;
    return type == NULL || type->kind != PL_TYPE_TENSOR ? NULL : type;
}

plumb_dtype plumb_model_input_dtype(const plumb_model *m, size_t i) {
    const pl_type *type = input_type(m, i);
    return type == NULL ? (plumb_dtype)0 : (plumb_dtype)type->dtype;
}

plumb_dtype plumb_model_output_dtype(const plumb_model *m, size_t i) {
    const pl_type *type = output_type(m, i);
    return type == NULL ? (plumb_dtype)0 : (plumb_dtype)type->dtype;
}

static int tell_dims(const pl_type *type, int64_t *dims, size_t n_dims) {
    if (type == NULL || !type->has_rank) return -1;
    for (size_t k = 0; dims != NULL && k < n_dims && k < (size_t)type->rank; k++)
        dims[k] = pl_dim_known(type->dims[k]) ? type->dims[k].value : -1;
    return type->rank;
}

int plumb_model_input_dims(const plumb_model *m, size_t i, int64_t *dims, size_t n_dims) {
    return tell_dims(input_type(m, i), dims, n_dims);
}

int plumb_model_output_dims(const plumb_model *m, size_t i, int64_t *dims, size_t n_dims) {
    return tell_dims(output_type(m, i), dims, n_dims);
}

int plumb_model_node(const plumb_model *m, size_t i, plumb_node *out) {
    if (i >= plumb_model_nodes(m)) return pl_struct_fill(out, NULL, 0);
    const pl_node *node = m->model->graph->nodes[i];
    const plumb_node x = { .size = sizeof(x),
                           .name = node->name,
                           .op = node->op,
                           .domain = node->domain,
                           .n_inputs = node->n_in,
                           .n_outputs = node->n_out };
    return pl_struct_fill(out, &x, sizeof(x));
}

static const char *value_name(const pl_value *v) {
    return v == NULL ? "" : v->name;
}

const char *plumb_model_node_input(const plumb_model *m, size_t node, size_t i) {
    if (node >= plumb_model_nodes(m)) return NULL;
    const pl_node *n = m->model->graph->nodes[node];
    return i < n->n_in ? value_name(n->in[i]) : NULL;
}

const char *plumb_model_node_output(const plumb_model *m, size_t node, size_t i) {
    if (node >= plumb_model_nodes(m)) return NULL;
    const pl_node *n = m->model->graph->nodes[node];
    return i < n->n_out ? value_name(n->out[i]) : NULL;
}

plumb_status plumb_model_bytes(const plumb_model *model, void **bytes, size_t *n_bytes,
                               plumb_error *err) {
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(bytes);
    *bytes = NULL;
    PL_REQUIRE(n_bytes);
    *n_bytes = 0;
    PL_REQUIRE(model);
    pl_status st = pl_model_serialize(model->model, &out, err);
    if (st == PL_OK && !pl_buf_ok(&out)) st = pl_fail_memory(err, out.n_bytes);
    if (st == PL_OK) {
        *n_bytes = out.n_bytes;
        *bytes = pl_buf_take(&out);
        if (*bytes == NULL) st = pl_fail_memory(err, *n_bytes);
    }
    pl_buf_release(&out);
    return st;
}

plumb_status plumb_model_restrict(plumb_model *model, const char *function, const char *from,
                                  const char *to, plumb_error *err) {
    pl_model *part = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_model_restrict(model->model, function, from, to, &part, err));
    if (part == NULL) return PL_OK;
    pl_model_free(model->model);
    model->model = part;
    model->edited = true;
    return PL_OK;
}

plumb_status plumb_faults_missed(const plumb_model *model, const char *backend, char **text,
                                 plumb_error *err) {
    pl_buf lines = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(model);
    pl_planted_misses(backend, model->model->graph, &lines);
    return pl_api_text_take(&lines, text, err);
}
