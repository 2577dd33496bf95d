/* DictVectorizer-1: one row with a column for each entry of the vocabulary; a key that the map
 * lacks gives 0 or the empty string, one that the vocabulary lacks is ignored. */
#include <stdlib.h>
#include <string.h>

#include "ops/ml/ml_rules.h"
#include "ops/ml/ml_util.h"

static pl_ml_labels vocabulary_of(const pl_node *node) {
    return pl_ml_labels_of(node, "string_vocabulary", "int64_vocabulary");
}

pl_status pl_dict_vectorizer_infer(pl_infer *c) {
    const pl_ml_labels words = vocabulary_of(c->node);
    const pl_type *in = c->n_in > 0 ? c->in[0] : NULL;
    const pl_dim dims[] = { pl_dim_of(1), pl_dim_of((int64_t)words.n) };
    if (words.n == 0) return pl_infer_fail(c, "it has no vocabulary");
    const bool map = in != NULL && in->kind == PL_TYPE_MAP;
    if (map && in->dtype != PL_UNDEFINED && in->dtype != pl_ml_labels_dtype(&words))
        return pl_infer_fail(c, "the keys of the map are %s, those of the vocabulary %s",
                             pl_dtype_name(in->dtype), pl_dtype_name(pl_ml_labels_dtype(&words)));
    const bool known = map && in->elem != NULL && in->elem->kind == PL_TYPE_TENSOR;
    const pl_dtype dtype = known ? pl_infer_dtype(c, in->elem->dtype) : PL_UNDEFINED;
    return pl_infer_set(c, 0, dtype, 2, dims);
}

typedef struct place { /* of a key in the map */
    const pl_tensor *keys;
    int64_t at;
} place;

static pl_string text_at(const pl_tensor *t, int64_t i) {
    return ((const pl_string *)t->data)[i];
}

static int compare(pl_string x, pl_string y) {
    const size_t n = x.n_bytes < y.n_bytes ? x.n_bytes : y.n_bytes;
    const int order = n == 0 ? 0 : memcmp(x.data, y.data, n);
    return order != 0 ? order : (x.n_bytes > y.n_bytes) - (x.n_bytes < y.n_bytes);
}

static int by_key(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->keys->dtype == PL_STRING)
        return compare(text_at(x->keys, x->at), text_at(y->keys, y->at));
    const int64_t i = ((const pl_i64 *)x->keys->data)[x->at];
    const int64_t k = ((const pl_i64 *)y->keys->data)[y->at];
    return (i > k) - (i < k);
}

/* Position of word i in the map, or -1. */
static int64_t find(const pl_ml_labels *words, size_t i, const place *places, size_t n) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const place *p = &places[middle];
        int order = 0;
        if (words->strings != NULL) {
            order = compare(words->strings[i], text_at(p->keys, p->at));
        } else {
            const int64_t key = ((const pl_i64 *)p->keys->data)[p->at];
            order = (words->ints[i] > key) - (words->ints[i] < key);
        }
        if (order == 0) return p->at;
        if (order < 0) high = middle;
        if (order > 0) low = middle + 1;
    }
    return -1;
}

static pl_status fill(const pl_eval *c, const pl_ml_labels *words, const place *places, size_t n,
                      const pl_tensor *values, pl_tensor *y) {
    const size_t size = pl_dtype_bytes(values->dtype);
    for (size_t i = 0; i < words->n; i++) {
        const int64_t at = find(words, i, places, n);
        char *to = (char *)y->data + i * size;
        if (values->dtype == PL_STRING) {
            const pl_string s = at < 0 ? (pl_string){ "", 0 } : text_at(values, at);
            PL_TRY(pl_tensor_set_string(y, (int64_t)i, s.data, s.n_bytes, c->err));
        } else if (at < 0) {
            memset(to, 0, size);
        } else {
            memcpy(to, (const char *)values->data + (size_t)at * size, size);
        }
    }
    return PL_OK;
}

pl_status pl_dict_vectorizer_eval(pl_eval *c) {
    const pl_ml_labels words = vocabulary_of(c->node);
    const pl_datum *map = pl_in_datum(c, 0);
    if (map == NULL || map->kind != PL_TYPE_SEQUENCE || map->n_items != 2 ||
        map->items[0]->kind != PL_TYPE_TENSOR || map->items[1]->kind != PL_TYPE_TENSOR)
        return pl_eval_fail(c, "the input is not a map");
    pl_tensor *keys = NULL, *values = NULL, *y = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(map->items[0]->tensor, &keys, c->err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(map->items[1]->tensor, &values, c->err));
    const size_t n = (size_t)keys->n_elements;
    const int64_t dims[] = { 1, (int64_t)words.n };
    if (keys->dtype != pl_ml_labels_dtype(&words) || values->n_elements != keys->n_elements) {
        st = pl_eval_fail(c, "a map of %zu %s keys and %lld values does not fit the vocabulary", n,
                          pl_dtype_name(keys->dtype), (long long)values->n_elements);
        goto done;
    }
    place *places = pl_scratch(c, n + 1, sizeof(*places));
    if (places == NULL) {
        st = pl_eval_memory(c);
        goto done;
    }
    for (size_t i = 0; i < n; i++)
        places[i] = (place){ keys, (int64_t)i };
    qsort(places, n, sizeof(*places), by_key);
    if (pl_wants(c, 0)) st = pl_out_new(c, 0, values->dtype, 2, dims, &y);
    if (st == PL_OK && y != NULL) st = fill(c, &words, places, n, values, y);
done:
    pl_tensor_unref(keys);
    pl_tensor_unref(values);
    return st;
}
