/* TensorProto and its containers. Two passes: the first finds the fields and counts elements, so
 * that nothing is allocated before the counts agree with dims. */
#include "tensor/file/tensor_proto.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "tensor/file/map_value.h"

enum {
    DIMS = 1,
    DATA_TYPE = 2,
    SEGMENT = 3,
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    STRING_DATA = 6,
    INT64_DATA = 7,
    NAME = 8,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11,
    DOC_STRING = 12,
    EXTERNAL_DATA = 13,
    DATA_LOCATION = 14,
    N_FIELDS
};

/* Fields of SequenceProto and OptionalProto, which have the same numbers; also the values of
 * elem_type. */
enum { ELEM_TYPE = 2, VALUE_TENSOR = 3, VALUE_SPARSE, VALUE_SEQUENCE, VALUE_MAP, VALUE_OPTIONAL };
enum { ELEM_TENSOR = 1, ELEM_SEQUENCE = 3, NESTING_MAX = 8 };

static const char *const field_names[N_FIELDS] = {
    [FLOAT_DATA] = "float_data",   [INT32_DATA] = "int32_data",      [STRING_DATA] = "string_data",
    [INT64_DATA] = "int64_data",   [RAW_DATA] = "raw_data",          [DOUBLE_DATA] = "double_data",
    [UINT64_DATA] = "uint64_data", [EXTERNAL_DATA] = "external_data"
};

typedef struct scan {
    pl_tensor_proto_info info;
    int64_t data_type;
    pl_bytes raw;
    bool has_raw, has_segment;
    size_t counts[N_FIELDS]; /* entries in each typed field */
} scan;

static pl_status fail_wire(pl_err *err, const char *what) {
    return pl_fail(err, PL_E_FORMAT, "%s is not a valid protobuf message", what);
}

/* ---- scanning ---- */

static uint32_t scalar_wire_type(uint32_t field) {
    return field == FLOAT_DATA ? 5 : field == DOUBLE_DATA ? 1 : 0;
}

/* Entries in one occurrence of a repeated number, packed or single; false when malformed. */
static bool count_numbers(const pl_wire_field *f, uint32_t wire_type, size_t *count) {
    if (f->type == wire_type) {
        ++*count;
        return true;
    }
    if (f->type != 2) return false;
    if (wire_type != 0) {
        const size_t size = wire_type == 5 ? 4 : 8;
        *count += f->bytes.n_bytes / size;
        return f->bytes.n_bytes % size == 0;
    }
    /* One varint ends in each byte below 0x80. */
    for (size_t i = 0; i < f->bytes.n_bytes; i++)
        *count += f->bytes.data[i] < 0x80;
    return f->bytes.n_bytes == 0 || f->bytes.data[f->bytes.n_bytes - 1] < 0x80;
}

static pl_status add_dim(pl_tensor_proto_info *info, uint64_t value, pl_err *err) {
    if (info->rank == PL_RANK_MAX)
        return pl_fail(err, PL_E_LIMIT, "more than %d dims", PL_RANK_MAX);
    if (value > INT64_MAX)
        return pl_fail(err, PL_E_FORMAT, "negative dim %lld", (long long)(int64_t)value);
    info->dims[info->rank++] = (int64_t)value;
    return PL_OK;
}

static pl_status scan_dims(scan *s, const pl_wire_field *f, pl_err *err) {
    if (f->type == 0) return add_dim(&s->info, f->integer, err);
    if (f->type != 2) return fail_wire(err, "dims");
    pl_wire w = pl_wire_of(f->bytes);
    uint64_t value;
    while (pl_wire_varint(&w, &value))
        PL_TRY(add_dim(&s->info, value, err));
    return w.bad ? fail_wire(err, "dims") : PL_OK;
}

static bool bytes_are(pl_bytes b, const char *s) {
    return b.n_bytes == strlen(s) && memcmp(b.data, s, b.n_bytes) == 0;
}

static bool parse_decimal(pl_bytes b, uint64_t *out) {
    uint64_t value = 0;
    if (b.n_bytes == 0) return false;
    for (size_t i = 0; i < b.n_bytes; i++) {
        if (b.data[i] < '0' || b.data[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10u, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)(b.data[i] - '0'), &value)) return false;
    }
    *out = value;
    return true;
}

/* One StringStringEntryProto of external_data; keys that we do not know are ignored, as ONNX's own
 * loader does. */
static pl_status scan_external(pl_tensor_proto_info *info, pl_bytes bytes, pl_err *err) {
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    pl_bytes key = { 0 }, value = { 0 };
    while (pl_wire_next(&w, &f)) {
        if (f.type != 2) continue;
        if (f.number == 1) key = f.bytes;
        if (f.number == 2) value = f.bytes;
    }
    if (w.bad) return fail_wire(err, "external_data");
    if (bytes_are(key, "location")) {
        info->ext_location = value;
    } else if (bytes_are(key, "offset") || bytes_are(key, "length")) {
        uint64_t *to = bytes_are(key, "offset") ? &info->ext_offset : &info->ext_length;
        if (!parse_decimal(value, to))
            return pl_fail(err, PL_E_FORMAT, "external_data %.*s is not a number: '%.*s'",
                           (int)key.n_bytes, (const char *)key.data,
                           (int)pl_size_min(value.n_bytes, 40), (const char *)value.data);
    }
    return PL_OK;
}

static pl_status scan_field(scan *s, const pl_wire_field *f, pl_err *err) {
    const bool is_bytes = f->type == 2;
    switch (f->number) {
    case DIMS: return scan_dims(s, f, err);
    case DATA_TYPE:
        s->data_type = (int64_t)f->integer;
        return f->type == 0 ? PL_OK : fail_wire(err, "data_type");
    case SEGMENT: s->has_segment = true; return PL_OK;
    case FLOAT_DATA:
    case INT32_DATA:
    case INT64_DATA:
    case DOUBLE_DATA:
    case UINT64_DATA:
        if (count_numbers(f, scalar_wire_type(f->number), &s->counts[f->number])) return PL_OK;
        return fail_wire(err, field_names[f->number]);
    case STRING_DATA: s->counts[STRING_DATA]++; break;
    case NAME: s->info.name = f->bytes; break;
    case DOC_STRING: break;
    case RAW_DATA:
        s->raw = f->bytes;
        s->has_raw = true;
        break;
    case EXTERNAL_DATA:
        if (!is_bytes) return fail_wire(err, "external_data");
        return scan_external(&s->info, f->bytes, err);
    case DATA_LOCATION:
        s->info.is_external = f->integer == 1;
        return f->type == 0 && f->integer <= 1 ? PL_OK : fail_wire(err, "data_location");
    default: return PL_OK; /* fields of a later ONNX */
    }
    return is_bytes ? PL_OK : fail_wire(err, "TensorProto");
}

static pl_status scan_message(pl_bytes bytes, scan *s, pl_err *err) {
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    s->info.ext_length = UINT64_MAX;
    while (pl_wire_next(&w, &f))
        PL_TRY(scan_field(s, &f, err));
    if (w.bad) return fail_wire(err, "TensorProto");
    if (s->has_segment)
        return pl_fail(err, PL_E_UNSUPPORTED, "a tensor stored in segments is not supported");
    if (s->data_type == 0) return pl_fail(err, PL_E_FORMAT, "the element type is missing");
    if (!pl_dtype_valid(s->data_type))
        return pl_fail(err, PL_E_UNSUPPORTED, "unknown element type %lld", (long long)s->data_type);
    s->info.dtype = (pl_dtype)s->data_type;
    return PL_OK;
}

/* ---- typed fields ---- */

/* The field of onnx.proto for each type when it is not raw. */
static uint32_t typed_field(pl_dtype dtype) {
    switch ((int)dtype) {
    case PL_F32:
    case PL_C64: return FLOAT_DATA;
    case PL_F64:
    case PL_C128: return DOUBLE_DATA;
    case PL_I64: return INT64_DATA;
    case PL_U32:
    case PL_U64: return UINT64_DATA;
    case PL_STRING: return STRING_DATA;
    default: return INT32_DATA;
    }
}

/* Entries that n elements take in their typed field; sub-byte types pack several in the low byte of
 * one int32. */
static bool typed_count(pl_dtype dtype, int64_t n, size_t *out) {
    if (pl_dtype_class_of(dtype) == PL_CLASS_COMPLEX) return pl_size_mul((size_t)n, 2, out);
    if (pl_dtype_bits(dtype) < 8 && dtype != PL_STRING) return pl_raw_size(dtype, n, out);
    *out = (size_t)n;
    return true;
}

/* Stores one entry; `bits` are those of the float, double or integer. */
static void put_entry(uint8_t *at, size_t size, pl_dtype dtype, uint64_t bits) {
    if (dtype == PL_BOOL) bits = (uint32_t)bits != 0;
    memcpy(at, &bits, size); /* little-endian: the low bytes */
}

static bool fill_numbers(const pl_wire_field *f, uint32_t wire_type, size_t size, pl_dtype dtype,
                         uint8_t **at) {
    if (f->type == wire_type) {
        put_entry(*at, size, dtype, f->integer);
        *at += size;
        return true;
    }
    if (wire_type != 0) {
        if (f->bytes.n_bytes > 0) memcpy(*at, f->bytes.data, f->bytes.n_bytes);
        *at += f->bytes.n_bytes;
        return true;
    }
    pl_wire w = pl_wire_of(f->bytes);
    uint64_t value;
    for (; pl_wire_varint(&w, &value); *at += size)
        put_entry(*at, size, dtype, value);
    return !w.bad;
}

static pl_status read_numbers(pl_bytes bytes, uint32_t field, pl_tensor *t, pl_err *err) {
    const bool packed = pl_dtype_bits(t->dtype) < 8;
    const bool pairs = pl_dtype_class_of(t->dtype) == PL_CLASS_COMPLEX;
    const size_t size = packed ? 1 : pl_dtype_bytes(t->dtype) / (pairs ? 2 : 1);
    uint8_t *buffer = NULL;
    if (packed) { /* packed bytes first, since they may be spread over several fields */
        buffer = pl_malloc((size_t)t->n_elements + 1);
        if (!buffer) return pl_fail_memory(err, (size_t)t->n_elements + 1);
    }
    uint8_t *at = packed ? buffer : t->data;
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    bool ok = true;
    while (ok && pl_wire_next(&w, &f))
        if (f.number == field) ok = fill_numbers(&f, scalar_wire_type(field), size, t->dtype, &at);
    if (packed && ok) pl_raw_unpack(t->dtype, buffer, t->data, t->n_elements);
    pl_free(buffer);
    return ok ? PL_OK : fail_wire(err, field_names[field]);
}

static pl_status read_strings(pl_bytes bytes, pl_tensor *t, pl_err *err) {
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    int64_t i = 0;
    while (pl_wire_next(&w, &f))
        if (f.number == STRING_DATA)
            PL_TRY(pl_tensor_set_string(t, i++, (const char *)f.bytes.data, f.bytes.n_bytes, err));
    return PL_OK;
}

/* Data must be in exactly one field, and that must be the field of the type. */
static pl_status check_fields(const scan *s, pl_err *err) {
    const uint32_t own = typed_field(s->info.dtype);
    for (uint32_t i = 0; i < N_FIELDS; i++) {
        if (s->counts[i] == 0) continue;
        if (i != own)
            return pl_fail(err, PL_E_FORMAT,
                           "%s elements are stored in %s, expected %s or raw_data",
                           pl_dtype_name(s->info.dtype), field_names[i], field_names[own]);
        if (s->raw.n_bytes > 0)
            return pl_fail(err, PL_E_FORMAT, "both raw_data and %s are given", field_names[i]);
    }
    return PL_OK;
}

static pl_status read_typed(pl_bytes bytes, const scan *s, pl_tensor **out, pl_err *err) {
    const pl_tensor_proto_info *info = &s->info;
    const uint32_t field = typed_field(info->dtype);
    char dims[256];
    int64_t n;
    size_t want;
    if (!pl_dims_product(info->rank, info->dims, &n) || !typed_count(info->dtype, n, &want))
        return pl_fail(err, PL_E_LIMIT, "shape %s is too large",
                       pl_dims_describe(info->rank, info->dims, dims, sizeof dims));
    if (want > 0 && s->counts[field] == 0)
        return pl_fail(err, PL_E_FORMAT, "no data for a tensor of shape %s",
                       pl_dims_describe(info->rank, info->dims, dims, sizeof dims));
    if (want != s->counts[field])
        return pl_fail(err, PL_E_FORMAT, "%s has %zu entries, %s%s requires %zu",
                       field_names[field], s->counts[field], pl_dtype_name(info->dtype),
                       pl_dims_describe(info->rank, info->dims, dims, sizeof dims), want);
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(info->dtype, info->rank, info->dims, &t, err));
    const pl_status st =
        field == STRING_DATA ? read_strings(bytes, t, err) : read_numbers(bytes, field, t, err);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    *out = t;
    return PL_OK;
}

static pl_status tensor_read(pl_bytes bytes, pl_file_map *map, scan *s, bool allow_external,
                             pl_tensor **out, pl_err *err) {
    PL_TRY(scan_message(bytes, s, err));
    if (s->info.is_external) {
        if (!allow_external)
            return pl_fail(err, PL_E_UNSUPPORTED, "external data is not supported here");
        if (s->info.ext_location.n_bytes == 0)
            return pl_fail(err, PL_E_FORMAT, "external data without a location");
        return PL_OK;
    }
    PL_TRY(check_fields(s, err));
    if (s->has_raw && s->counts[typed_field(s->info.dtype)] == 0 &&
        (s->info.dtype != PL_STRING || s->raw.n_bytes > 0))
        return pl_tensor_from_raw(s->info.dtype, s->info.rank, s->info.dims, s->raw, map, out, err);
    return read_typed(bytes, s, out, err);
}

/* The name of a tensor for messages, if reading stopped before it. */
static pl_bytes find_name(pl_bytes bytes) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field field;
    pl_bytes name = { (const uint8_t *)"", 0 };
    while (pl_wire_next(&wire, &field))
        if (field.number == NAME && field.type == 2) name = field.bytes;
    return name;
}

pl_status pl_tensor_proto_read(pl_bytes bytes, pl_file_map *map, pl_tensor_proto_info *info,
                               pl_tensor **out, pl_err *err) {
    scan s = { 0 };
    *out = NULL;
    const pl_status st = tensor_read(bytes, map, &s, info != NULL, out, err);
    if (st != PL_OK) {
        const pl_bytes name = find_name(bytes);
        return pl_err_wrap(err, st, "tensor '%.*s'", (int)pl_size_min(name.n_bytes, 200),
                           (const char *)name.data);
    }
    if (info) *info = s.info;
    return PL_OK;
}

void pl_tensor_proto_write(pl_buf *buf, const char *name, const pl_tensor *t) {
    for (int i = 0; i < t->rank; i++)
        pl_wire_put_int(buf, DIMS, t->dims[i]);
    pl_wire_put_int(buf, DATA_TYPE, (int64_t)t->dtype);
    if (name && *name) pl_wire_put_string(buf, NAME, name);
    if (t->dtype == PL_STRING) {
        pl_tensor *c = NULL;
        if (pl_tensor_contiguous(t, &c, NULL) != PL_OK) buf->failed = true;
        const pl_string *items = c ? c->data : NULL;
        for (int64_t i = 0; items && i < t->n_elements; i++)
            pl_wire_put_bytes(buf, STRING_DATA, items[i].data, items[i].n_bytes);
        pl_tensor_unref(c);
        return;
    }
    size_t n_bytes = 0;
    if (!pl_raw_size(t->dtype, t->n_elements, &n_bytes)) buf->failed = true;
    pl_wire_put_bytes_head(buf, RAW_DATA, n_bytes);
    pl_tensor_put_raw(buf, t);
}

/* ---- sequences and optionals ---- */

typedef struct value_list {
    pl_datum **items;
    size_t n_items, capacity;
} value_list;

static void value_list_release(value_list *list) {
    for (size_t i = 0; i < list->n_items; i++)
        pl_datum_unref(list->items[i]);
    pl_free(list->items);
}

/* Takes the datum, also on failure. */
static pl_status value_list_add_take(value_list *list, pl_datum *d, pl_err *err) {
    if (!PL_ARRAY_ROOM(list->items, list->n_items, &list->capacity)) {
        pl_datum_unref(d);
        return pl_fail_memory(err, list->n_items);
    }
    list->items[list->n_items++] = d;
    return PL_OK;
}

static pl_status read_tensor_datum(pl_bytes bytes, pl_file_map *map, pl_datum **out, pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_proto_read(bytes, map, NULL, &t, err));
    return pl_datum_of_tensor_take(t, out, err);
}

static const char *container_name(pl_type_kind kind) {
    return kind == PL_TYPE_SEQUENCE ? "SequenceProto" : "OptionalProto";
}

static pl_status read_container(pl_bytes bytes, pl_file_map *map, pl_type_kind kind,
                                const pl_type *elem, int depth, pl_datum **out, pl_err *err);

/* One value field of a container. */
static pl_status read_value(const pl_wire_field *f, pl_file_map *map, pl_type_kind kind,
                            const pl_type *elem, int depth, pl_datum **out, pl_err *err) {
    const char *what = container_name(kind);
    if (f->type != 2) return fail_wire(err, what);
    if (f->number == VALUE_TENSOR) return read_tensor_datum(f->bytes, map, out, err);
    if (f->number == VALUE_SEQUENCE)
        return read_container(f->bytes, map, PL_TYPE_SEQUENCE, elem ? elem->elem : NULL, depth + 1,
                              out, err);
    return pl_fail(err, PL_E_UNSUPPORTED, "%s holds a %s, which is not supported", what,
                   f->number == VALUE_SPARSE ? "sparse tensor"
                   : f->number == VALUE_MAP  ? "map"
                                             : "nested optional");
}

/* Type of the items: from the first item, else elem_type, else the expected type. */
static void element_of(const value_list *list, int64_t elem_type, const pl_type *elem,
                       pl_type_kind *kind, pl_dtype *dtype) {
    *kind = elem_type == ELEM_SEQUENCE ? PL_TYPE_SEQUENCE : PL_TYPE_TENSOR;
    *dtype = PL_UNDEFINED;
    if (list->n_items > 0) {
        *kind = list->items[0]->kind;
        *dtype = list->items[0]->elem_dtype;
    } else if (elem_type == 0 && elem && elem->kind != PL_TYPE_NONE) {
        *kind = elem->kind;
    }
    const pl_type *inner = elem;
    while (inner && inner->elem)
        inner = inner->elem;
    if (*dtype == PL_UNDEFINED && inner && inner->kind == PL_TYPE_TENSOR) *dtype = inner->dtype;
}

static pl_status read_container(pl_bytes bytes, pl_file_map *map, pl_type_kind kind,
                                const pl_type *elem, int depth, pl_datum **out, pl_err *err) {
    if (depth > NESTING_MAX)
        return pl_fail(err, PL_E_LIMIT, "sequences nested more than %d deep", NESTING_MAX);
    const char *what = container_name(kind);
    pl_status st = PL_OK;
    value_list list = { 0 };
    int64_t elem_type = 0;
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&w, &f)) {
        if (f.number == ELEM_TYPE && f.type == 0) elem_type = (int64_t)f.integer;
        if (f.number < VALUE_TENSOR || f.number > VALUE_OPTIONAL) continue;
        pl_datum *d = NULL;
        st = read_value(&f, map, kind, elem, depth, &d, err);
        if (st != PL_OK) {
            pl_err_wrap(err, st, "item %zu", list.n_items);
            goto done;
        }
        PL_TRY_GOTO(done, st, value_list_add_take(&list, d, err));
        const bool other =
            d->kind != list.items[0]->kind ||
            (d->kind == PL_TYPE_TENSOR && d->elem_dtype != list.items[0]->elem_dtype);
        if (other || (kind == PL_TYPE_OPTIONAL && list.n_items > 1)) {
            st = pl_fail(err, PL_E_FORMAT, "%s holds values of different kinds", what);
            goto done;
        }
    }
    if (w.bad) {
        st = fail_wire(err, what);
        goto done;
    }
    pl_type_kind elem_kind;
    pl_dtype elem_dtype;
    element_of(&list, elem_type, elem, &elem_kind, &elem_dtype);
    if (kind == PL_TYPE_SEQUENCE)
        st = pl_datum_new_sequence(elem_kind, elem_dtype, list.items, list.n_items, out, err);
    else
        st = pl_datum_new_optional(elem_kind, elem_dtype, list.n_items ? list.items[0] : NULL, out,
                                   err);
done:
    value_list_release(&list);
    return st;
}

pl_status pl_datum_proto_read(pl_bytes bytes, pl_file_map *map, const pl_type *type, pl_datum **out,
                              pl_err *err) {
    const pl_type_kind kind = type ? type->kind : PL_TYPE_TENSOR;
    *out = NULL;
    switch (kind) {
    case PL_TYPE_NONE:
    case PL_TYPE_TENSOR: return read_tensor_datum(bytes, map, out, err);
    case PL_TYPE_SEQUENCE:
    case PL_TYPE_OPTIONAL: return read_container(bytes, map, kind, type->elem, 0, out, err);
    case PL_TYPE_MAP: return pl_map_proto_read(bytes, map, type, out, err);
    case PL_TYPE_SPARSE:
        return pl_fail(err, PL_E_UNSUPPORTED, "sparse tensor values are not supported");
    }
    return pl_fail(err, PL_E_INTERNAL, "unknown value type %d", (int)kind);
}

void pl_datum_proto_write(pl_buf *buf, const char *name, const pl_datum *d) {
    if (d->kind == PL_TYPE_TENSOR) {
        pl_tensor_proto_write(buf, name, d->tensor);
        return;
    }
    if (name && *name) pl_wire_put_string(buf, 1, name);
    const bool nested = d->elem_kind == PL_TYPE_SEQUENCE;
    pl_wire_put_int(buf, ELEM_TYPE, nested ? ELEM_SEQUENCE : ELEM_TENSOR);
    for (size_t i = 0; i < d->n_items; i++) {
        pl_buf inner = PL_BUF_INIT;
        pl_datum_proto_write(&inner, NULL, d->items[i]);
        if (!pl_buf_ok(&inner)) buf->failed = true;
        pl_wire_put_bytes(buf, nested ? VALUE_SEQUENCE : VALUE_TENSOR, pl_buf_str(&inner),
                          inner.n_bytes);
        pl_buf_release(&inner);
    }
}
