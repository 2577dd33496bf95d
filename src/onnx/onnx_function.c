/* Model-local functions: lookup by name, and a function as a model of its own. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "onnx/onnx.h"
#include "onnx/onnx_int.h"

/* ---- by name ---- */

/* Key of a function in reader->functions. */
static void function_key(pl_buf *key, const char *domain, pl_bytes name, pl_bytes overload) {
    pl_buf_reset(key);
    pl_buf_append(key, domain, strlen(domain) + 1);
    pl_buf_append(key, name.data, name.n_bytes);
    pl_buf_append(key, "", 1);
    pl_buf_append(key, overload.data, overload.n_bytes);
}

pl_status pl_onnx_find_function(pl_onnx_reader *r, const char *domain, pl_bytes name,
                                pl_bytes overload, const pl_function **out, pl_err *err) {
    *out = NULL;
    if (r->model->n_functions == 0) return PL_OK;
    pl_buf key = PL_BUF_INIT;
    function_key(&key, domain, name, overload);
    const bool ok = pl_buf_ok(&key);
    if (ok) *out = pl_strmap_get_n(&r->functions, pl_buf_str(&key), key.n_bytes);
    pl_buf_release(&key);
    return ok ? PL_OK : pl_fail_memory(err, name.n_bytes);
}

pl_status pl_onnx_add_function(pl_onnx_reader *r, pl_bytes bytes, pl_function *out, pl_err *err) {
    pl_model *model = r->model;
    pl_bytes name = { 0 }, overload = { 0 };
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    *out = (pl_function){ "", "", "", bytes };
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == FUNCTION_NAME) name = f.bytes;
        if (f.number == FUNCTION_DOMAIN)
            out->domain = pl_model_intern(model, pl_bytes_chars(f.bytes), f.bytes.n_bytes);
        if (f.number == FUNCTION_OVERLOAD) overload = f.bytes;
    }
    if (wire.bad) return pl_fail(err, PL_E_FORMAT, "function: malformed or truncated protobuf");
    out->name = pl_model_intern(model, pl_bytes_chars(name), name.n_bytes);
    out->overload = pl_model_intern(model, pl_bytes_chars(overload), overload.n_bytes);
    if (out->name == NULL || out->domain == NULL || out->overload == NULL) {
        return pl_fail_memory(err, bytes.n_bytes);
    }
    if (pl_domain_is_onnx(out->domain)) out->domain = "";
    pl_buf key = PL_BUF_INIT;
    function_key(&key, out->domain, name, overload);
    const char *kept =
        pl_buf_ok(&key) ? pl_arena_strndup(model->arena, pl_buf_str(&key), key.n_bytes) : NULL;
    const int put = kept == NULL ? -1 : pl_strmap_put_n(&r->functions, kept, key.n_bytes, out);
    pl_buf_release(&key);
    return put == 0 ? PL_OK : pl_fail_memory(err, bytes.n_bytes);
}

/* ---- as a model ---- */

static bool is_called(const pl_function *f, const char *name) {
    const size_t n_domain = strlen(f->domain);
    if (strcmp(f->name, name) == 0) return true;
    return n_domain > 0 && strncmp(name, f->domain, n_domain) == 0 && name[n_domain] == '.' &&
           strcmp(name + n_domain + 1, f->name) == 0;
}

static const char *function_at(const void *ctx, size_t i) {
    const pl_model *model = ctx;
    return i < model->n_functions ? model->functions[i].name : NULL;
}

static pl_status fail_not_found(const pl_model *model, const char *name, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, name, strlen(name), function_at, model);
    const pl_status st =
        pl_fail(err, PL_E_NOT_FOUND, "%s: no model-local function '%s'%s", model->path, name,
                hint.n_bytes == 0 ? "; it has none" : pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static pl_status read_signature(pl_onnx_reader *r, pl_bytes bytes, pl_err *err) {
    pl_graph *graph = r->model->graph;
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == FUNCTION_INPUT) {
            pl_value *value = NULL;
            PL_TRY(
                pl_graph_add_value_n(graph, pl_bytes_chars(f.bytes), f.bytes.n_bytes, &value, err));
            PL_TRY(pl_graph_add_input(graph, value, err));
        } else if (f.number == FUNCTION_OPSET_IMPORT) {
            pl_opset opset;
            PL_TRY(pl_onnx_read_opset(r->model, f.bytes, &opset, err));
            PL_TRY(pl_model_set_opset(r->model, opset.domain, opset.version, err));
        }
    }
    return PL_OK;
}

static pl_status read_outputs(pl_onnx_reader *r, pl_bytes bytes, pl_err *err) {
    pl_graph *graph = r->model->graph;
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number != FUNCTION_OUTPUT || !pl_field_is_bytes(&f)) continue;
        pl_value *value =
            pl_strmap_get_n(&graph->by_name, pl_bytes_chars(f.bytes), f.bytes.n_bytes);
        if (value == NULL) {
            return pl_fail(err, PL_E_INVALID, "output '%.*s' is not defined by any node",
                           (int)pl_size_min(f.bytes.n_bytes, 200), pl_bytes_chars(f.bytes));
        }
        PL_TRY(pl_graph_add_output(graph, value, err));
    }
    return PL_OK;
}

static pl_status read_all(pl_onnx_reader *r, const pl_model *from, const pl_function *function,
                          pl_err *err) {
    pl_model *model = r->model;
    model->functions = pl_arena_array(model->arena, from->n_functions, sizeof(pl_function));
    model->path = pl_arena_strdup(model->arena, from->path);
    if (model->functions == NULL || model->path == NULL) return pl_fail_memory(err, 1);
    model->ir_version = from->ir_version;
    for (size_t i = 0; i < from->n_functions; i++) {
        PL_TRY(pl_onnx_add_function(r, from->functions[i].bytes, &model->functions[i], err));
        model->n_functions++;
        r->n_bytes += from->functions[i].bytes.n_bytes;
    }
    PL_TRY(read_signature(r, function->bytes, err));
    pl_onnx_frame frame = { .graph = model->graph };
    PL_TRY(
        pl_onnx_read_nodes(r, &frame, (pl_bytes_list){ &function->bytes, 1 }, FUNCTION_NODE, err));
    PL_TRY(read_outputs(r, function->bytes, err));
    model->n_functions = 0; /* their bytes belong to the other model */
    return pl_model_verify(model, err);
}

pl_status pl_model_read_function(const pl_model *model, const char *name, pl_model **out,
                                 pl_err *err) {
    const pl_function *function = NULL;
    for (size_t i = 0; i < model->n_functions && function == NULL; i++) {
        if (is_called(&model->functions[i], name)) function = &model->functions[i];
    }
    if (function == NULL) return fail_not_found(model, name, err);
    pl_onnx_reader r = { 0 };
    PL_TRY(pl_model_new(&r.model, err));
    const pl_status st = read_all(&r, model, function, err);
    pl_strmap_release(&r.external);
    pl_strmap_release(&r.functions);
    if (st != PL_OK) {
        pl_model_free(r.model);
        return pl_err_wrap(err, st, "function %s", name);
    }
    *out = r.model;
    return PL_OK;
}
