/* Floats near N(0,1) by summing integers; integers 0 to 9, below the size of what they index. */
#include "flows/inputs_generated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "ops/op.h"

typedef struct value_range {
    bool given;
    double low, high;
} value_range;

static const char *input_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    return i < graph->n_inputs ? graph->inputs[i]->name : NULL;
}

static pl_status fail_range(const pl_graph *graph, const char *text, size_t n, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, text, n, input_at, graph);
    const pl_status st = pl_fail(err, PL_E_USAGE, "--range %s: the model has no such input%s", text,
                                 pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static pl_status parse_range(const pl_graph *graph, const plumb_inputs *source, const char *name,
                             value_range *out, pl_err *err) {
    const size_t n_name = strlen(name);
    *out = (value_range){ 0 };
    for (size_t i = 0; i < source->n_ranges; i++) {
        const char *text = source->ranges[i];
        const char *equals = strrchr(text, '=');
        char *end = NULL;
        if (equals == NULL) {
            return pl_fail(err, PL_E_USAGE, "--range is '%s', expected NAME=LO:HI", text);
        }
        bool known = false;
        for (size_t k = 0; k < graph->n_inputs && !known; k++) {
            const char *input = graph->inputs[k]->name;
            known = strlen(input) == (size_t)(equals - text) &&
                    memcmp(input, text, (size_t)(equals - text)) == 0;
        }
        if (!known) {
            return fail_range(graph, text, (size_t)(equals - text), err);
        }
        if ((size_t)(equals - text) != n_name || memcmp(text, name, n_name) != 0) continue;
        out->low = pl_strtod(equals + 1, &end);
        const bool ok = end != equals + 1 && *end == ':';
        const char *second = end + (ok ? 1 : 0);
        if (ok) out->high = pl_strtod(second, &end);
        if (!ok || end == second || *end != '\0' || !(out->low <= out->high) ||
            !isfinite(out->low) || !isfinite(out->high)) {
            return pl_fail(err, PL_E_USAGE, "--range is '%s', expected NAME=LO:HI, LO <= HI", text);
        }
        out->given = true;
    }
    return PL_OK;
}

/* Largest integer that every operator that indexes with this value can take; 9 otherwise. Looks
 * through operators of one input that keep the elements. */
static int64_t index_limit(const pl_graph *graph, const pl_value *value, int depth) {
    int64_t limit = 9;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (node->def == NULL) continue;
        const pl_port *port = node->def->in;
        for (uint32_t k = 0; k < node->n_in && port->name != NULL; k++, port++) {
            if (node->in[k] != value) continue;
            const pl_type *data = node->in[0] == NULL ? NULL : node->in[0]->type;
            if ((port->flags & PL_PORT_INDEX) != 0 && data != NULL && data->has_rank) {
                int64_t axis = pl_attr_int(node, "axis");
                if (axis < 0) axis += data->rank;
                if (axis < 0 || axis >= data->rank || !pl_dim_known(data->dims[axis])) continue;
                const int64_t last = data->dims[axis].value - 1;
                if (last < limit) limit = last < 0 ? 0 : last;
            } else if (k == 0 && (node->def->flags & PL_OP_VIEW) != 0 && depth < 4) {
                const int64_t inner = index_limit(graph, node->out[0], depth + 1);
                if (inner < limit) limit = inner;
            }
        }
    }
    return limit;
}

static double pick(const plumb_inputs *source, const value_range *range, bool integer,
                   int64_t limit, uint64_t stream, int64_t i) {
    if (source->fill == PLUMB_FILL_ZEROS) return 0;
    if (source->fill == PLUMB_FILL_ONES) return 1;
    const double u = pl_rng_uniform_at(source->seed, stream, (uint64_t)i);
    if (range->given && integer) return floor(range->low + u * (range->high - range->low + 1));
    if (range->given) return range->low + u * (range->high - range->low);
    if (integer) return floor(u * (double)(limit + 1));
    return pl_rng_normal_at(source->seed, stream, (uint64_t)i);
}

static pl_status fill_strings(pl_tensor *t, const plumb_inputs *source, size_t input, pl_err *err) {
    for (int64_t i = 0; i < t->n_elements; i++) {
        const char letter = (char)('a' + pl_rng_at(source->seed, input, (uint64_t)i) % 26);
        PL_TRY(pl_tensor_set_string(t, i, &letter, 1, err));
    }
    return PL_OK;
}

static pl_status fill_tensor(pl_tensor *t, const pl_model *model, size_t input,
                             const plumb_inputs *source, pl_err *err) {
    enum { BLOCK = 256 };
    const pl_value *value = model->graph->inputs[input];
    value_range range;
    PL_TRY(parse_range(model->graph, source, value->name, &range, err));
    if (t->dtype == PL_STRING) return fill_strings(t, source, input, err);
    const bool integer =
        !pl_dtype_is_float(t->dtype) && pl_dtype_class_of(t->dtype) != PL_CLASS_COMPLEX;
    int64_t limit = t->dtype == PL_BOOL ? 1 : index_limit(model->graph, value, 0);
    if (integer && t->dtype != PL_BOOL && limit > pl_dtype_int_max(t->dtype)) {
        limit = pl_dtype_int_max(t->dtype);
    }
    const bool is_complex = pl_dtype_class_of(t->dtype) == PL_CLASS_COMPLEX;
    const pl_dtype dtype = !is_complex ? t->dtype : t->dtype == PL_C64 ? PL_F32 : PL_F64;
    const int64_t n = t->n_elements * (is_complex ? 2 : 1);
    const size_t size = pl_dtype_bytes(dtype);
    for (int64_t at = 0; at < n; at += BLOCK) {
        double block[BLOCK];
        const int64_t m = n - at < BLOCK ? n - at : BLOCK;
        for (int64_t i = 0; i < m; i++) {
            block[i] = pick(source, &range, integer, limit, input, at + i);
        }
        pl_store_f64(dtype, block, (char *)t->data + (size_t)at * size, (size_t)m);
    }
    return PL_OK;
}

static pl_status generate_tensor(const pl_model *model, size_t input, const plumb_inputs *source,
                                 const pl_strmap *dims, pl_datum **out, pl_err *err) {
    const pl_value *value = model->graph->inputs[input];
    const pl_type *type = value->type;
    int64_t sizes[PL_RANK_MAX];
    const int rank = type->has_rank ? type->rank : 0;
    for (int d = 0; d < rank; d++) {
        const int64_t *given =
            type->dims[d].name == NULL ? NULL : pl_strmap_get(dims, type->dims[d].name);
        sizes[d] = pl_dim_known(type->dims[d]) ? type->dims[d].value : given != NULL ? *given : 1;
    }
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(type->dtype, rank, sizes, &t, err));
    const pl_status st = fill_tensor(t, model, input, source, err);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    return pl_datum_of_tensor_take(t, out, err);
}

pl_status pl_generate_input(const pl_model *model, size_t input, const plumb_inputs *source,
                            const pl_strmap *dims, pl_datum **out, pl_err *err) {
    const pl_value *value = model->graph->inputs[input];
    const pl_type *type = value->type;
    if (type != NULL && type->kind == PL_TYPE_TENSOR && type->dtype != PL_UNDEFINED) {
        return generate_tensor(model, input, source, dims, out, err);
    }
    if (type != NULL && (type->kind == PL_TYPE_SEQUENCE || type->kind == PL_TYPE_OPTIONAL)) {
        const pl_type *elem = type->elem;
        const pl_type_kind kind = elem == NULL ? PL_TYPE_TENSOR : elem->kind;
        const pl_dtype dtype = elem == NULL ? PL_UNDEFINED : elem->dtype;
        return type->kind == PL_TYPE_SEQUENCE
                   ? pl_datum_new_sequence(kind, dtype, NULL, 0, out, err)
                   : pl_datum_new_optional(kind, dtype, NULL, out, err);
    }
    return pl_fail(err, PL_E_USAGE, "cannot generate input '%s': its type is unknown; use --input",
                   value->name);
}
