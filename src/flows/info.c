/* What is in a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/count.h"
#include "base/escape.h"
#include "base/json.h"
#include "flows/api/options.h"
#include "flows/inputs.h"
#include "ops/infer.h"

typedef struct op_count {
    const char *op, *domain;
    int opset;
    int64_t n;
    bool supported; /* by eager, our reference */
} op_count;

typedef struct facts {
    pl_model *model;
    op_count *ops;
    size_t n_ops, ops_capacity;
    pl_strmap index; /* op -> position + 1 in ops, first of that name */
    size_t n_nodes, n_values;
    int64_t n_parameters; /* elements of weights, Constant nodes included */
    uint64_t parameter_bytes;
    bool inferred;
    char why_not[PL_ERR_MESSAGE_MAX];
    double seconds; /* resolve and infer */
    double load_seconds;
} facts;

static void count_tensor(facts *f, const pl_tensor *t) {
    f->n_parameters += t->n_elements;
    f->parameter_bytes += pl_tensor_bytes(t);
}

static pl_status count_op(facts *f, const pl_node *node, pl_err *err) {
    for (size_t i = (size_t)(uintptr_t)pl_strmap_get(&f->index, node->op); i > 0 && i <= f->n_ops;
         i++) {
        op_count *c = &f->ops[i - 1];
        if (c->op == node->op && c->domain == node->domain && c->opset == node->opset) {
            c->n++;
            return PL_OK;
        }
    }
    if (!PL_ARRAY_ROOM(f->ops, f->n_ops, &f->ops_capacity)) return pl_fail_memory(err, f->n_ops);
    f->ops[f->n_ops++] = (op_count){ node->op, node->domain, node->opset, 1,
                                     pl_op_find(node->domain, node->op, node->opset) != NULL };
    if (pl_strmap_has(&f->index, node->op)) return PL_OK;
    return pl_strmap_put(&f->index, node->op, (void *)(uintptr_t)f->n_ops) == 0
               ? PL_OK
               : pl_fail_memory(err, 1);
}

static pl_status count_graph(void *ctx, pl_graph *graph, pl_err *err) {
    facts *f = ctx;
    f->n_nodes += graph->n_nodes;
    f->n_values += graph->n_values;
    for (size_t i = 0; i < graph->n_values; i++) {
        if (graph->values[i]->init != NULL) count_tensor(f, graph->values[i]->init);
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        PL_TRY(count_op(f, node, err));
        for (uint32_t k = 0; node->n_in == 0 && k < node->n_attrs; k++) {
            if (node->attrs[k].tensor != NULL) count_tensor(f, node->attrs[k].tensor);
        }
        PL_TRY(pl_node_each_body(node, count_graph, f, err));
    }
    return PL_OK;
}

static int by_count(const void *a, const void *b) {
    const op_count *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    return strcmp(x->op, y->op);
}

/* If inference fails, that is a fact about the model, not a failure of info. */
static pl_status collect(facts *f, const plumb_info_options *options, pl_err *err) {
    const double start = pl_api_seconds();
    pl_dim_map dims = { 0 };
    PL_TRY(count_graph(f, f->model->graph, err));
    pl_status st = pl_dim_map_init(&dims, options->dims, options->n_dims, err);
    if (st == PL_OK) {
        pl_err why = PL_ERR_INIT;
        const pl_infer_options infer = { .dims = &dims.map };
        pl_status inferred = pl_ops_resolve_known(f->model, &why);
        if (inferred == PL_OK) inferred = pl_model_infer(f->model, &infer, &why);
        if (inferred == PL_E_MEMORY) st = pl_fail_memory(err, 1);
        f->inferred = inferred == PL_OK;
        memcpy(f->why_not, why.message, sizeof(f->why_not));
        f->why_not[sizeof(f->why_not) - 1] = '\0';
    }
    pl_dim_map_release(&dims);
    if (f->n_ops > 0) qsort(f->ops, f->n_ops, sizeof(op_count), by_count);
    f->seconds = pl_api_seconds() - start;
    return st;
}

/* Private resident pages: mapped weights do not count. */
static int64_t private_kb(void) {
    long resident = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return -1;
    const int n = fscanf(file, "%*d %ld %ld", &resident, &shared);
    fclose(file);
    return n == 2 ? (resident - shared) * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

/* ---- text ---- */

static void put_type(pl_buf *out, const pl_type *type) {
    pl_type_print(out, type);
}

static void put_signature(pl_buf *out, const char *title, pl_value *const *values, size_t n) {
    pl_buf_printf(out, "%s:\n", title);
    for (size_t i = 0; i < n; i++) {
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "  %-32s ", values[i]->name);
        put_type(out, values[i]->type);
        if (values[i]->is_input && values[i]->init != NULL) pl_buf_puts(out, "  (has a default)");
        pl_escape_end_line(out, at);
    }
}

static void put_node_text(pl_buf *out, const pl_node *node, pl_arena *arena) {
    pl_origin origin = { "", "", 0, "" };
    (void)pl_node_origin(node, arena, &origin, NULL);
    const size_t at = out->n_bytes;
    pl_buf_printf(out, "  %-20s", node->op);
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        pl_buf_printf(out, " %s: ", node->out[i]->name);
        put_type(out, node->out[i]->type);
    }
    if (origin.module[0] != '\0') pl_buf_printf(out, "  in %s", origin.module);
    if (origin.file[0] != '\0') pl_buf_printf(out, "  at %s:%d", origin.file, origin.line);
    pl_escape_end_line(out, at);
}

static void put_text(const facts *f, bool nodes, pl_buf *out) {
    const pl_model *m = f->model;
    size_t at = out->n_bytes;
    pl_buf_printf(out, "%s: IR version %lld, %zu node%s, %lld parameter%s (%.1f MB)", m->path,
                  (long long)m->ir_version, f->n_nodes, pl_plural(f->n_nodes),
                  (long long)f->n_parameters, pl_plural((uint64_t)f->n_parameters),
                  1e-6 * (double)f->parameter_bytes);
    pl_escape_end_line(out, at);
    at = out->n_bytes;
    if (m->producer_name[0] != '\0') {
        pl_buf_printf(out, "made by %s %s", m->producer_name, m->producer_version);
        pl_escape_end_line(out, at);
    }
    at = out->n_bytes;
    pl_buf_puts(out, "opsets:");
    for (size_t i = 0; i < m->n_opsets; i++) {
        const char *domain = m->opsets[i].domain;
        pl_buf_printf(out, " %s %d", domain[0] == '\0' ? "ai.onnx" : domain, m->opsets[i].version);
    }
    pl_escape_end_line(out, at);
    for (size_t i = 0; i < m->n_functions; i++) {
        at = out->n_bytes;
        pl_buf_printf(out, "function %s.%s (inlined)", m->functions[i].domain,
                      m->functions[i].name);
        pl_escape_end_line(out, at);
    }
    put_signature(out, "inputs", m->graph->inputs, m->graph->n_inputs);
    put_signature(out, "outputs", m->graph->outputs, m->graph->n_outputs);
    pl_buf_printf(out, "ops:\n  %-28s %8s  %s\n", "op", "nodes", "eager");
    for (size_t i = 0; i < f->n_ops; i++) {
        const op_count *c = &f->ops[i];
        char name[200];
        snprintf(name, sizeof(name), "%s%s%s-%d", c->domain, c->domain[0] ? "." : "", c->op,
                 c->opset);
        at = out->n_bytes;
        pl_buf_printf(out, "  %-28s %8lld  %s", name, (long long)c->n, c->supported ? "yes" : "NO");
        pl_escape_end_line(out, at);
    }
    if (!f->inferred) pl_buf_printf(out, "shapes not inferred: %s\n", f->why_not);
    pl_buf warning = PL_BUF_INIT;
    for (size_t i = 0; pl_op_warning(m, i, &warning); i++) {
        at = out->n_bytes;
        pl_buf_printf(out, "warning: %s", pl_buf_str(&warning));
        pl_escape_end_line(out, at);
        pl_buf_release(&warning);
    }
    if (!nodes) return;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) {
        out->failed = true;
        return;
    }
    pl_buf_puts(out, "nodes:\n");
    for (size_t i = 0; i < m->graph->n_nodes; i++)
        put_node_text(out, m->graph->nodes[i], arena);
    pl_arena_free(arena);
}

/* ---- JSON ---- */

static void put_value_json(pl_json *j, const pl_value *value) {
    pl_buf type = PL_BUF_INIT;
    pl_type_print(&type, value->type);
    if (!pl_buf_ok(&type)) j->buf->failed = true;
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", value->name);
    pl_json_put_string(j, "type", pl_buf_str(&type));
    if (value->type != NULL && value->type->kind == PL_TYPE_TENSOR) {
        pl_json_put_string(j, "dtype", pl_dtype_name(value->type->dtype));
        pl_json_key(j, "shape");
        if (value->type->has_rank) {
            pl_json_array_begin(j);
            for (int d = 0; d < value->type->rank; d++) {
                const pl_dim dim = value->type->dims[d];
                if (pl_dim_known(dim)) {
                    pl_json_int(j, dim.value);
                } else {
                    pl_json_string(j, dim.name);
                }
            }
            pl_json_array_end(j);
        } else {
            pl_json_null(j);
        }
    }
    if (value->is_input) pl_json_put_bool(j, "has_default", value->init != NULL);
    pl_json_object_end(j);
    pl_buf_release(&type);
}

static void put_values_json(pl_json *j, const char *key, pl_value *const *values, size_t n) {
    pl_json_key(j, key);
    pl_json_array_begin(j);
    for (size_t i = 0; i < n; i++)
        put_value_json(j, values[i]);
    pl_json_array_end(j);
}

static void put_node_json(pl_json *j, const pl_node *node, pl_arena *arena) {
    pl_origin origin = { "", "", 0, "" };
    (void)pl_node_origin(node, arena, &origin, NULL);
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", node->name);
    pl_json_put_string(j, "op", node->op);
    pl_json_put_string(j, "domain", node->domain);
    pl_json_put_string(j, "module", origin.module);
    pl_json_put_string(j, "file", origin.file);
    pl_json_put_int(j, "line", origin.line);
    pl_json_put_string(j, "function", node->function);
    pl_json_key(j, "outputs");
    pl_json_array_begin(j);
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] != NULL) put_value_json(j, node->out[i]);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

static void put_ops_json(pl_json *j, const facts *f) {
    pl_json_key(j, "ops");
    pl_json_object_begin(j);
    for (size_t i = 0; i < f->n_ops; i++) {
        const op_count *c = &f->ops[i];
        char name[300];
        snprintf(name, sizeof(name), "%s%s%s-%d", c->domain, c->domain[0] ? "." : "", c->op,
                 c->opset);
        pl_json_key(j, name);
        pl_json_object_begin(j);
        pl_json_put_int(j, "nodes", c->n);
        pl_json_put_bool(j, "eager", c->supported);
        pl_json_object_end(j);
    }
    pl_json_object_end(j);
}

static void put_nodes_json(pl_json *j, const facts *f) {
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) {
        j->buf->failed = true;
        return;
    }
    pl_json_key(j, "node_list");
    pl_json_array_begin(j);
    for (size_t i = 0; i < f->model->graph->n_nodes; i++) {
        put_node_json(j, f->model->graph->nodes[i], arena);
    }
    pl_json_array_end(j);
    pl_arena_free(arena);
}

static void put_json(const facts *f, bool nodes, pl_buf *out) {
    const pl_model *m = f->model;
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "path", m->path);
    pl_json_put_int(&j, "ir_version", m->ir_version);
    pl_json_put_string(&j, "producer", m->producer_name);
    put_values_json(&j, "inputs", m->graph->inputs, m->graph->n_inputs);
    put_values_json(&j, "outputs", m->graph->outputs, m->graph->n_outputs);
    pl_json_put_int(&j, "nodes", (int64_t)f->n_nodes);
    pl_json_put_int(&j, "values", (int64_t)f->n_values);
    pl_json_put_int(&j, "parameters", f->n_parameters);
    pl_json_put_int(&j, "parameter_bytes", (int64_t)f->parameter_bytes);
    pl_json_key(&j, "opsets");
    pl_json_object_begin(&j);
    for (size_t i = 0; i < m->n_opsets; i++) {
        pl_json_put_int(&j, m->opsets[i].domain[0] ? m->opsets[i].domain : "ai.onnx",
                        m->opsets[i].version);
    }
    pl_json_object_end(&j);
    put_ops_json(&j, f);
    pl_json_put_bool(&j, "inferred", f->inferred);
    if (!f->inferred) pl_json_put_string(&j, "inference_error", f->why_not);
    pl_json_key(&j, "warnings");
    pl_json_array_begin(&j);
    pl_buf warning = PL_BUF_INIT;
    for (size_t i = 0; pl_op_warning(m, i, &warning); i++) {
        pl_json_string(&j, pl_buf_str(&warning));
        pl_buf_release(&warning);
    }
    pl_json_array_end(&j);
    if (nodes) put_nodes_json(&j, f);
    pl_json_key(&j, "timing");
    pl_json_object_begin(&j);
    pl_json_put_double(&j, "load_ms", 1e3 * f->load_seconds);
    pl_json_put_double(&j, "infer_ms", 1e3 * f->seconds);
    pl_json_object_end(&j);
    pl_json_put_int(&j, "private_kb", private_kb());
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

plumb_status plumb_info(plumb_model *model, const plumb_info_options *options, char **text,
                        plumb_error *err) {
    plumb_info_options o;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_INFO, options, &o, err));
    PL_TRY(pl_list_check("dims", o.dims, o.n_dims, err));
    PL_TRY(pl_inputs_check_dims(model->model->graph, o.dims, o.n_dims, err));
    facts f = { .model = model->model, .load_seconds = model->load_seconds };
    pl_status st = pl_api_settle(collect(&f, &o, err), err);
    if (st == PL_OK) {
        if (o.format == PLUMB_JSON) {
            put_json(&f, o.nodes != 0, &out);
        } else {
            put_text(&f, o.nodes != 0, &out);
        }
        st = pl_api_text_take(&out, text, err);
    }
    pl_buf_release(&out);
    pl_strmap_release(&f.index);
    pl_free(f.ops);
    return st;
}
