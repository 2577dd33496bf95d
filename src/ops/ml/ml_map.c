/* ZipMap: rows of scores with names, as classifiers of scikit-learn end.
 *
 * A map is a sequence of two tensors at run time: its keys in ascending order, and their values. So
 * every place that takes sequences (files, guards, comparisons) takes maps, too. */
#include <stdlib.h>
#include <string.h>

#include "ops/ml/ml_rules.h"
#include "ops/ml/ml_util.h"

pl_status pl_zip_map_infer(pl_infer *c) {
    const pl_ml_labels labels =
        pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_int64s");
    const int rank = pl_infer_rank(c, 0);
    if (labels.n == 0) return pl_infer_fail(c, "it has no class labels");
    if (rank == 0 || rank > 2) return pl_infer_fail(c, "the input must have one or two axes");
    const pl_type *value = pl_type_tensor_unranked(c->arena, PL_F32);
    pl_type *map = value == NULL ? NULL : pl_type_of(c->arena, PL_TYPE_MAP, value);
    if (map != NULL) map->dtype = pl_ml_labels_dtype(&labels);
    const pl_type *type = map == NULL ? NULL : pl_type_of(c->arena, PL_TYPE_SEQUENCE, map);
    if (type == NULL) return pl_fail_memory(c->err, sizeof(*type));
    return pl_infer_set_type(c, 0, type);
}

typedef struct ranked {
    const pl_ml_labels *labels;
    size_t at;
} ranked;

static int by_key(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->labels->strings != NULL) {
        const pl_string s = x->labels->strings[x->at], t = x->labels->strings[y->at];
        const size_t n = s.n_bytes < t.n_bytes ? s.n_bytes : t.n_bytes;
        const int order = n == 0 ? 0 : memcmp(s.data, t.data, n);
        if (order != 0) return order;
        if (s.n_bytes != t.n_bytes) return s.n_bytes < t.n_bytes ? -1 : 1;
    } else if (x->labels->ints[x->at] != x->labels->ints[y->at]) {
        return x->labels->ints[x->at] < x->labels->ints[y->at] ? -1 : 1;
    }
    return (x->at > y->at) - (x->at < y->at);
}

static bool same_key(const pl_ml_labels *l, size_t i, size_t k) {
    if (l->strings == NULL) return l->ints[i] == l->ints[k];
    return l->strings[i].n_bytes == l->strings[k].n_bytes &&
           (l->strings[i].n_bytes == 0 ||
            memcmp(l->strings[i].data, l->strings[k].data, l->strings[i].n_bytes) == 0);
}

/* Columns in the order of their keys; of equal keys the last counts, as in a map that is filled. */
static size_t order_columns(const pl_ml_labels *labels, ranked *order) {
    size_t n = 0;
    for (size_t i = 0; i < labels->n; i++)
        order[i] = (ranked){ labels, i };
    qsort(order, labels->n, sizeof(*order), by_key);
    for (size_t i = 0; i < labels->n; i++)
        if (i + 1 == labels->n || !same_key(labels, order[i].at, order[i + 1].at))
            order[n++] = order[i];
    return n;
}

static pl_status make_keys(const pl_eval *c, const pl_ml_labels *labels, const ranked *order,
                           size_t n, pl_datum **out) {
    const int64_t dims[] = { (int64_t)n };
    pl_tensor *keys = NULL;
    PL_TRY(pl_tensor_new(pl_ml_labels_dtype(labels), 1, dims, &keys, c->err));
    pl_status st = PL_OK;
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        if (labels->strings == NULL) {
            ((int64_t *)keys->data)[i] = labels->ints[order[i].at];
        } else {
            const pl_string s = labels->strings[order[i].at];
            st = pl_tensor_set_string(keys, (int64_t)i, s.data, s.n_bytes, c->err);
        }
    }
    if (st == PL_OK) return pl_datum_of_tensor_take(keys, out, c->err);
    pl_tensor_unref(keys);
    return st;
}

static pl_status make_row(const pl_eval *c, const char *from, const ranked *order, size_t n,
                          pl_datum *keys, pl_datum **out) {
    const pl_dtype dtype = pl_in(c, 0)->dtype;
    const size_t size = pl_dtype_bytes(dtype);
    const int64_t dims[] = { (int64_t)n };
    pl_tensor *values = NULL;
    pl_datum *pair[2] = { keys, NULL };
    PL_TRY(pl_tensor_new(dtype, 1, dims, &values, c->err));
    for (size_t i = 0; i < n; i++)
        memcpy((char *)values->data + i * size, from + order[i].at * size, size);
    PL_TRY(pl_datum_of_tensor_take(values, &pair[1], c->err));
    const pl_status st = pl_datum_new_sequence(PL_TYPE_TENSOR, PL_UNDEFINED, pair, 2, out, c->err);
    pl_datum_unref(pair[1]);
    return st;
}

pl_status pl_zip_map_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const pl_ml_labels labels =
        pl_ml_labels_of(c->node, "classlabels_strings", "classlabels_int64s");
    const int64_t width = x->rank == 0 ? 0 : x->dims[x->rank - 1];
    const size_t n_rows = x->rank == 2 ? (size_t)x->dims[0] : 1;
    if (x->rank == 0 || x->rank > 2 || width != (int64_t)labels.n)
        return pl_eval_fail(c, "%lld scores, but %zu class labels", (long long)width, labels.n);
    ranked *order = pl_scratch(c, labels.n + 1, sizeof(*order));
    pl_datum **rows = pl_scratch(c, n_rows + 1, sizeof(*rows)), *keys = NULL, *all = NULL;
    if (order == NULL || rows == NULL) return pl_eval_memory(c);
    const size_t n = order_columns(&labels, order), row_bytes = labels.n * pl_dtype_bytes(x->dtype);
    size_t n_made = 0;
    pl_status st = make_keys(c, &labels, order, n, &keys);
    for (; st == PL_OK && n_made < n_rows; n_made += st == PL_OK)
        st = make_row(c, (const char *)x->data + n_made * row_bytes, order, n, keys, &rows[n_made]);
    if (st == PL_OK)
        st = pl_datum_new_sequence(PL_TYPE_SEQUENCE, PL_UNDEFINED, rows, n_rows, &all, c->err);
    if (st == PL_OK) st = pl_out_set_datum_take(c, 0, all);
    for (size_t i = 0; i < n_made; i++)
        pl_datum_unref(rows[i]);
    pl_datum_unref(keys);
    return st;
}
