/* Fuzz target: any bytes as an ONNX model. What reads is resolved, typed, written and read again;
 * what is small is run on generated inputs. */
#include <stdio.h>
#include <stdlib.h>

#include "flows/inputs.h"
#include "interp/interp.h"
#include "onnx/onnx.h"
#include "ops/infer.h"
#include "ops/op.h"

enum { NODES_MAX = 24, ELEMENTS_MAX = 20000, ELEMENTS_OF_RUN = 1000000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
const char *__asan_default_options(void);

/* A legal model may ask for any amount of memory; here it is refused early. */
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static bool type_is_small(const pl_type *type) {
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) return true;
    int64_t n = 1;
    for (int d = 0; d < type->rank; d++) {
        const int64_t dim = pl_dim_known(type->dims[d]) ? type->dims[d].value : 1;
        if (__builtin_mul_overflow(n, dim, &n) || n > ELEMENTS_MAX) return false;
    }
    return true;
}

static bool attr_is_small(const pl_attr *attr) {
    /* Kernels, scales and counts decide how long a node works. */
    const int64_t limit = 1000;
    if (attr->type == PL_ATTR_INT && (attr->i > limit || attr->i < -limit)) return false;
    for (size_t k = 0; attr->type == PL_ATTR_INTS && k < attr->n; k++) {
        if (attr->ints[k] > limit || attr->ints[k] < -limit) return false;
    }
    return true;
}

static bool graph_is_small(const pl_graph *graph);

static pl_status check_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)ctx, (void)err;
    return graph_is_small(body) ? PL_OK : PL_E_LIMIT;
}

static bool graph_is_small(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (!type_is_small(value->type)) return false;
        if (value->init != NULL && value->init->n_elements > ELEMENTS_MAX) return false;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const bool loops = (node->def->flags & PL_OP_CONTROL) != 0 && node->op[0] != 'I'; /* If */
        if (loops || pl_node_each_body(node, check_body, NULL, NULL) != PL_OK) return false;
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            if (!attr_is_small(&node->attrs[k])) return false;
        }
    }
    return true;
}

/* Ends a run that grows out of hand. */
static pl_status count_elements(void *ctx, const pl_node *node, const pl_value *value,
                                const pl_datum *datum, pl_err *err) {
    int64_t *left = ctx;
    (void)node, (void)value;
    if (datum->kind == PL_TYPE_TENSOR) *left -= datum->tensor->n_elements;
    return *left >= 0 ? PL_OK : pl_fail(err, PL_E_LIMIT, "enough");
}

static void run_model(pl_model *model, bool fp64) {
    const pl_graph *graph = model->graph;
    const plumb_inputs source = { .seed = 1 };
    pl_err err = PL_ERR_INIT;
    pl_interp *interp = NULL;
    int64_t left = ELEMENTS_OF_RUN;
    const pl_interp_options options = {
        .fp64 = fp64, .seed = 1, .hook = count_elements, .hook_ctx = &left
    };
    pl_datum **in = calloc(graph->n_inputs + 1, sizeof(pl_datum *));
    pl_datum **out = calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    if (in != NULL && out != NULL && pl_inputs_make(model, &source, in, &err) == PL_OK &&
        pl_interp_new(model, &options, &interp, &err) == PL_OK) {
        (void)pl_interp_run(interp, in, out, &err);
    }
    pl_interp_free(interp);
    for (size_t i = 0; in != NULL && i < graph->n_inputs; i++)
        pl_datum_unref(in[i]);
    for (size_t i = 0; out != NULL && i < graph->n_outputs; i++)
        pl_datum_unref(out[i]);
    free(in);
    free(out);
}

static void write_and_read(const pl_model *model) {
    pl_err err = PL_ERR_INIT;
    pl_buf buf = PL_BUF_INIT;
    pl_model *again = NULL;
    if (pl_model_serialize(model, &buf, &err) == PL_OK) {
        const pl_bytes bytes = { (const uint8_t *)pl_buf_str(&buf), buf.n_bytes };
        if (pl_model_read_bytes(bytes, NULL, NULL, "again", &again, &err) != PL_OK) {
            fprintf(stderr, "what was written cannot be read: %s\n", err.message);
            abort();
        }
    }
    pl_model_free(again);
    pl_buf_release(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const pl_bytes bytes = { data, n };
    const pl_infer_options options = { 0 };
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    if (pl_model_read_bytes(bytes, NULL, NULL, "fuzz", &model, &err) != PL_OK) return 0;
    write_and_read(model);
    if (pl_ops_resolve(model, &err) == PL_OK && pl_model_infer(model, &options, &err) == PL_OK &&
        pl_model_count_nodes(model) <= NODES_MAX && graph_is_small(model->graph)) {
        run_model(model, false);
        run_model(model, true);
    }
    pl_model_free(model);
    return 0;
}
