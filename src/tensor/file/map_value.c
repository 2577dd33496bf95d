/* Reads maps: entries are collected, sorted by key, checked for doubles, and put into two tensors.
 */
#include "tensor/file/map_value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/json_read.h"
#include "base/wire.h"
#include "tensor/file/tensor_proto.h"

/* Fields of MapProto; of SequenceProto. */
enum { KEY_TYPE = 2, KEYS = 3, STRING_KEYS = 4, VALUES = 5 };
enum { ELEM_TYPE = 2, TENSOR_VALUES = 3, ELEM_TYPE_MAX = 5 };

typedef struct entry {
    pl_string key;   /* of strings */
    int64_t number;  /* of integers */
    pl_string text;  /* the value, of strings */
    double value;    /* of floats */
    int64_t integer; /* of integers */
} entry;

typedef struct entries {
    pl_arena *arena;
    pl_dtype key, value;
    entry *items;
    size_t n, capacity;
} entries;

static pl_status entries_init(entries *e, const pl_type *type, pl_err *err) {
    const bool tensor = type->elem != NULL && type->elem->kind == PL_TYPE_TENSOR;
    *e = (entries){ .key = type->dtype, .value = tensor ? type->elem->dtype : PL_UNDEFINED };
    const bool known =
        (e->key == PL_STRING || e->key == PL_I64) &&
        (e->value == PL_STRING || e->value == PL_I64 || e->value == PL_F32 || e->value == PL_F64);
    if (!known)
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "maps of %s to %s are not supported; strings or int64 to float, double, "
                       "int64 or strings are",
                       pl_dtype_name(e->key), pl_dtype_name(e->value));
    e->arena = pl_arena_new();
    return e->arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static entry *entries_add(entries *e, pl_err *err) {
    if (!PL_ARENA_ROOM(e->arena, e->items, e->n, &e->capacity)) {
        (void)pl_fail_memory(err, e->n);
        return NULL;
    }
    e->items[e->n] = (entry){ .number = 0 };
    return &e->items[e->n++];
}

static int by_text(const void *a, const void *b) {
    const pl_string x = ((const entry *)a)->key, y = ((const entry *)b)->key;
    const size_t n = x.n_bytes < y.n_bytes ? x.n_bytes : y.n_bytes;
    const int order = n == 0 ? 0 : memcmp(x.data, y.data, n);
    return order != 0 ? order : (x.n_bytes > y.n_bytes) - (x.n_bytes < y.n_bytes);
}

static int by_number(const void *a, const void *b) {
    const int64_t x = ((const entry *)a)->number, y = ((const entry *)b)->number;
    return (x > y) - (x < y);
}

static pl_status put_key(const entries *e, pl_tensor *t, size_t i, pl_err *err) {
    const entry *x = &e->items[i];
    if (e->key == PL_STRING)
        return pl_tensor_set_string(t, (int64_t)i, x->key.data, x->key.n_bytes, err);
    ((int64_t *)t->data)[i] = x->number;
    return PL_OK;
}

static pl_status put_value(const entries *e, pl_tensor *t, size_t i, pl_err *err) {
    const entry *x = &e->items[i];
    if (e->value == PL_STRING)
        return pl_tensor_set_string(t, (int64_t)i, x->text.data, x->text.n_bytes, err);
    if (e->value == PL_I64) {
        ((int64_t *)t->data)[i] = x->integer;
    } else {
        pl_store_f64(e->value, &x->value, (char *)t->data + i * pl_dtype_bytes(e->value), 1);
    }
    return PL_OK;
}

static pl_status make(const entries *e, pl_datum **out, pl_err *err) {
    const int64_t dims[] = { (int64_t)e->n };
    pl_tensor *t[2] = { NULL, NULL };
    pl_status st = pl_tensor_new(e->key, 1, dims, &t[0], err);
    if (st == PL_OK) st = pl_tensor_new(e->value, 1, dims, &t[1], err);
    for (size_t i = 0; i < e->n && st == PL_OK; i++) {
        st = put_key(e, t[0], i, err);
        if (st == PL_OK) st = put_value(e, t[1], i, err);
    }
    if (st == PL_OK) return pl_datum_of_map_take(t[0], t[1], out, err);
    pl_tensor_unref(t[0]);
    pl_tensor_unref(t[1]);
    return st;
}

static pl_status finish(entries *e, pl_datum **out, pl_err *err) {
    int (*const order)(const void *, const void *) = e->key == PL_STRING ? by_text : by_number;
    if (e->n > 0) qsort(e->items, e->n, sizeof(*e->items), order);
    for (size_t i = 1; i < e->n; i++)
        if (order(&e->items[i - 1], &e->items[i]) == 0)
            return pl_fail(err, PL_E_FORMAT, "the map has one of its keys twice");
    return make(e, out, err);
}

/* ---- JSON ---- */

bool pl_map_json_sniff(pl_bytes bytes, const pl_type *type) {
    size_t i = 0;
    while (i < bytes.n_bytes && bytes.data[i] != '\0' && strchr(" \t\r\n", bytes.data[i]) != NULL)
        i++;
    return type != NULL && type->kind == PL_TYPE_MAP && i < bytes.n_bytes && bytes.data[i] == '{';
}

static pl_status json_entry(entries *e, const pl_json_value *v, pl_err *err) {
    entry *x = entries_add(e, err);
    char *end = NULL;
    if (x == NULL) return PL_E_MEMORY;
    x->key = (pl_string){ v->key, v->n_key };
    if (e->key == PL_I64) {
        errno = 0;
        x->number = strtoll(v->key, &end, 10);
        if (errno != 0 || v->n_key == 0 || *end != '\0' || strlen(v->key) != v->n_key)
            return pl_fail(err, PL_E_FORMAT, "key '%.60s' is not an integer", v->key);
    }
    x->text = (pl_string){ v->string, v->n_string };
    x->integer = v->integer;
    const bool fits = e->value == PL_STRING ? v->kind == PL_JSON_STRING
                      : e->value == PL_I64  ? v->kind == PL_JSON_NUMBER && v->is_integer
                                            : pl_json_number(v, &x->value);
    if (fits) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "the value of '%.60s' is %s, expected %s", v->key,
                   pl_json_kind_name(v->kind), pl_dtype_name(e->value));
}

pl_status pl_map_json_read(pl_bytes bytes, const pl_type *type, pl_datum **out, pl_err *err) {
    entries e;
    const pl_json_value *object = NULL;
    PL_TRY(entries_init(&e, type, err));
    pl_status st = pl_json_read((const char *)bytes.data, bytes.n_bytes, e.arena, &object, err);
    for (const pl_json_value *v = st == PL_OK ? object->first : NULL; v != NULL && st == PL_OK;
         v = v->next)
        st = json_entry(&e, v, err);
    if (st == PL_OK) st = finish(&e, out, err);
    pl_arena_free(e.arena);
    return st;
}

/* ---- protobuf ---- */

typedef struct loaded { /* tensors that the entries borrow from */
    pl_tensor **items;
    size_t n, capacity;
} loaded;

static pl_status load(entries *e, loaded *l, pl_bytes bytes, pl_file_map *map, pl_err *err) {
    pl_tensor *t = NULL, *dense = NULL;
    if (!PL_ARENA_ROOM(e->arena, l->items, l->n, &l->capacity)) return pl_fail_memory(err, l->n);
    PL_TRY(pl_tensor_proto_read(bytes, map, NULL, &t, err));
    const pl_status st = pl_tensor_contiguous(t, &dense, err);
    pl_tensor_unref(t);
    PL_TRY(st);
    l->items[l->n++] = dense;
    return PL_OK;
}

/* Tensors of a SequenceProto. */
static pl_status load_all(entries *e, loaded *l, pl_bytes bytes, pl_file_map *map, pl_err *err) {
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&w, &f))
        if (f.number == TENSOR_VALUES && f.type == 2) PL_TRY(load(e, l, f.bytes, map, err));
    return w.bad ? pl_fail(err, PL_E_FORMAT, "SequenceProto is not a valid protobuf message")
                 : PL_OK;
}

static pl_status need_type(const pl_tensor *t, pl_dtype dtype, const char *what, pl_err *err) {
    if (t->dtype == dtype) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "the %s of the map are %s, expected %s", what,
                   pl_dtype_name(t->dtype), pl_dtype_name(dtype));
}

static void get_value(const pl_tensor *t, int64_t i, entry *x) {
    if (t->dtype == PL_STRING) {
        x->text = ((const pl_string *)t->data)[i];
    } else if (t->dtype == PL_I64) {
        x->integer = ((const pl_i64 *)t->data)[i];
    } else {
        x->value = pl_tensor_get_f64(t, i);
    }
}

static void get_key(const pl_tensor *t, int64_t i, entry *x) {
    if (t->dtype == PL_STRING)
        x->key = ((const pl_string *)t->data)[i];
    else
        x->number = ((const pl_i64 *)t->data)[i];
}

static pl_status from_pair(entries *e, const loaded *l, pl_err *err) {
    if (l->n != 2)
        return pl_fail(err, PL_E_FORMAT, "the map has %zu tensors, expected its keys and values",
                       l->n);
    const pl_tensor *keys = l->items[0], *values = l->items[1];
    PL_TRY(need_type(keys, e->key, "keys", err));
    PL_TRY(need_type(values, e->value, "values", err));
    if (keys->n_elements != values->n_elements)
        return pl_fail(err, PL_E_FORMAT, "the map has %lld keys and %lld values",
                       (long long)keys->n_elements, (long long)values->n_elements);
    for (int64_t i = 0; i < keys->n_elements; i++) {
        entry *x = entries_add(e, err);
        if (x == NULL) return PL_E_MEMORY;
        get_key(keys, i, x);
        get_value(values, i, x);
    }
    return PL_OK;
}

static pl_status add_key(entries *e, int64_t number, pl_string text, pl_err *err) {
    entry *x = entries_add(e, err);
    if (x == NULL) return PL_E_MEMORY;
    x->number = number;
    x->key = text;
    return PL_OK;
}

/* Integers, packed or single. */
static pl_status add_numbers(entries *e, const pl_wire_field *f, pl_err *err) {
    const pl_string none = { NULL, 0 };
    if (f->type == 0) return add_key(e, (int64_t)f->integer, none, err);
    pl_wire packed = pl_wire_of(f->bytes);
    uint64_t x = 0;
    while (pl_wire_varint(&packed, &x))
        PL_TRY(add_key(e, (int64_t)x, none, err));
    return packed.bad ? pl_fail(err, PL_E_FORMAT, "MapProto is not a valid protobuf message")
                      : PL_OK;
}

static pl_status read_map(entries *e, loaded *l, pl_bytes bytes, pl_file_map *map, pl_err *err) {
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    size_t taken = 0;
    while (pl_wire_next(&w, &f)) {
        if (f.number == KEYS && e->key == PL_I64 && (f.type == 0 || f.type == 2))
            PL_TRY(add_numbers(e, &f, err));
        if (f.number == STRING_KEYS && e->key == PL_STRING && f.type == 2)
            PL_TRY(add_key(e, 0, (pl_string){ (const char *)f.bytes.data, f.bytes.n_bytes }, err));
        if (f.number == VALUES && f.type == 2) PL_TRY(load_all(e, l, f.bytes, map, err));
    }
    if (w.bad) return pl_fail(err, PL_E_FORMAT, "MapProto is not a valid protobuf message");
    for (size_t i = 0; i < l->n; i++) { /* one tensor for each key, or one with all values */
        const pl_tensor *t = l->items[i];
        PL_TRY(need_type(t, e->value, "values", err));
        for (int64_t k = 0; k < t->n_elements; k++, taken++)
            if (taken < e->n) get_value(t, k, &e->items[taken]);
    }
    if (taken == e->n) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "the map has %zu keys and %zu values", e->n, taken);
}

/* A SequenceProto says 1 to 5 where a MapProto has the type of its keys. */
static bool is_map_proto(pl_bytes bytes) {
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    bool map = false;
    while (pl_wire_next(&w, &f))
        if (f.number == KEY_TYPE && f.type == 0) map = f.integer > ELEM_TYPE_MAX;
    return map;
}

pl_status pl_map_proto_read(pl_bytes bytes, pl_file_map *map, const pl_type *type, pl_datum **out,
                            pl_err *err) {
    entries e;
    loaded l = { .n = 0 };
    PL_TRY(entries_init(&e, type, err));
    pl_status st = PL_OK;
    if (is_map_proto(bytes)) {
        st = read_map(&e, &l, bytes, map, err);
    } else {
        st = load_all(&e, &l, bytes, map, err);
        if (st == PL_OK) st = from_pair(&e, &l, err);
    }
    if (st == PL_OK) st = finish(&e, out, err);
    for (size_t i = 0; i < l.n; i++)
        pl_tensor_unref(l.items[i]);
    pl_arena_free(e.arena);
    return st;
}
