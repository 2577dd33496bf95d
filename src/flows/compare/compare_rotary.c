/* The rotary tables of a model, as llama.cpp computes them: in float, each angle from the one
 * before. At a position of some hundreds they are a hundred roundings apart from tables that were
 * made in double, which would be blamed on every rotation. (ggml-cpu/ops.cpp, ggml_rope_cache_init)
 */
#include <math.h>
#include <string.h>

#include "flows/compare/compare_weights.h"
#include "flows/compare/compare_weights_int.h"

enum { DIMS_MAX = 1 << 16 };

typedef struct table {
    const pl_tensor *own;
    bool is_sin;
    int64_t rows, columns, angles; /* columns: each angle once, or twice */
} table;

/* Row 0 is cos 0 or sin 0, and nothing is beyond 1. */
static bool is_table(const pl_value *v, int64_t n_dims, table *out) {
    const pl_tensor *t = v->init;
    if (t == NULL || t->rank != 2 || t->dtype != PL_F32 || t->dims[0] < 2) return false;
    const int64_t columns = t->dims[1];
    if (columns != n_dims && 2 * columns != n_dims) return false;
    const double first = pl_tensor_get_f64(t, 0);
    if (first != 0 && first != 1) return false;
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double x = pl_tensor_get_f64(t, i);
        if (!(fabs(x) <= 1) || (i < columns && x != first)) return false;
    }
    *out = (table){ t, first == 0, t->dims[0], columns, n_dims / 2 };
    return true;
}

static float value_of(const table *t, float angle) {
    return t->is_sin ? sinf(angle) : cosf(angle);
}

/* NULL: the table is not that of this base. */
static pl_status as_ggml(const table *t, float base, pl_tensor **out, pl_err *err) {
    const float scale = powf(base, -2.0F / (float)(2 * t->angles));
    pl_tensor *made = NULL;
    bool same = true;
    PL_TRY(pl_tensor_new(PL_F32, 2, t->own->dims, &made, err));
    float *to = made->data;
    for (int64_t row = 0; row < t->rows; row++) {
        float angle = (float)row;
        for (int64_t i = 0; i < t->angles; i++) {
            const float x = value_of(t, angle);
            const double allowed = 0x1p-22 * (1 + (double)angle * (double)(2 + i));
            for (int64_t at = i; at < t->columns; at += t->angles) {
                to[row * t->columns + at] = x;
                const double own = pl_tensor_get_f64(t->own, row * t->columns + at);
                same = same && fabs(own - (double)x) <= allowed;
            }
            angle *= scale;
        }
    }
    if (same)
        *out = made;
    else
        pl_tensor_unref(made);
    return PL_OK;
}

static bool is_used(const pl_graph *graph, const pl_value *v) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->n_in; k++)
            if (graph->nodes[i]->in[k] == v) return true;
    return false;
}

pl_status pl_compare_take_rotary(pl_model *model, const pl_gguf *file, const char *path,
                                 pl_buf *notes, pl_err *err) {
    const double base = pl_compare_gguf_number(file, ".rope.freq_base", 10000);
    const double count = pl_compare_gguf_number(file, ".rope.dimension_count", 0);
    const int64_t n_dims = count >= 2 && count < DIMS_MAX ? (int64_t)count : 0;
    size_t n_same = 0, n_other = 0;
    if (n_dims < 2 || n_dims % 2 != 0 || !(base > 1)) return PL_OK;
    if (pl_compare_gguf_number(file, ".rope.scaling.factor", 1) != 1) return PL_OK;
    for (size_t i = 0; i < model->graph->n_values; i++) {
        pl_value *v = model->graph->values[i];
        pl_tensor *made = NULL;
        table t;
        if (!is_table(v, n_dims, &t) || !is_used(model->graph, v)) continue;
        PL_TRY(as_ggml(&t, (float)base, &made, err));
        if (made == NULL) {
            n_other++;
            continue;
        }
        n_same++;
        const pl_status st = pl_value_set_init(v, made, err);
        pl_tensor_unref(made);
        PL_TRY(st);
    }
    if (n_other > 0)
        pl_buf_printf(notes, "%zu rotary table%s of the model %s not made with base %g of %s\n",
                      n_other, pl_plural(n_other), n_other == 1 ? "is" : "are", base, path);
    return PL_OK;
}
