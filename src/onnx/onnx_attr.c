/* Reading AttributeProto, TypeProto and tensors with their external data. */
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx.h"
#include "onnx/onnx_int.h"
#include "tensor/file/tensor_proto.h"
#include "tensor/tensor_cast.h"

/* ---- types ---- */

enum { TYPE_DEPTH_MAX = 8 };

static pl_status read_type(pl_model *model, pl_bytes bytes, int depth, const pl_type **out,
                           pl_err *err);

static pl_status fail_wire(pl_err *err, const char *what) {
    return pl_fail(err, PL_E_FORMAT, "%s: malformed or truncated protobuf", what);
}

static pl_status read_dim(pl_model *model, pl_bytes bytes, pl_dim *out, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    *out = PL_DIM_UNKNOWN;
    while (pl_wire_next(&wire, &f)) {
        if (f.number == DIM_VALUE && f.type == 0) {
            /* Some exporters write -1 or 0 for "unknown"; treat negative dims as unknown. */
            const int64_t value = (int64_t)f.integer;
            *out = value < 0 ? PL_DIM_UNKNOWN : pl_dim_of(value);
        } else if (f.number == DIM_PARAM && pl_field_is_bytes(&f) && f.bytes.n_bytes > 0) {
            *out = PL_DIM_UNKNOWN;
            out->name = pl_model_intern(model, pl_bytes_chars(f.bytes), f.bytes.n_bytes);
            if (out->name == NULL) return pl_fail_memory(err, f.bytes.n_bytes);
            if (out->name[0] == '\0') out->name = NULL; /* starts with a NUL byte */
        }
    }
    return wire.bad ? fail_wire(err, "dimension") : PL_OK;
}

static pl_status read_shape(pl_model *model, pl_bytes bytes, pl_type *type, pl_err *err) {
    pl_dim dims[PL_RANK_MAX];
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    int rank = 0;
    while (pl_wire_next(&wire, &f)) {
        if (f.number != SHAPE_DIM || !pl_field_is_bytes(&f)) continue;
        if (rank == PL_RANK_MAX) {
            return pl_fail(err, PL_E_LIMIT, "a shape has more than %d dims", PL_RANK_MAX);
        }
        PL_TRY(read_dim(model, f.bytes, &dims[rank++], err));
    }
    if (wire.bad) return fail_wire(err, "shape");
    pl_dim *kept = pl_arena_array(model->arena, (size_t)rank, sizeof(*kept));
    if (kept == NULL) return pl_fail_memory(err, sizeof(*kept));
    if (rank > 0) memcpy(kept, dims, (size_t)rank * sizeof(*kept));
    type->has_rank = true;
    type->rank = rank;
    type->dims = kept;
    return PL_OK;
}

static pl_status read_tensor_type(pl_model *model, pl_bytes bytes, pl_type *type, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number == TYPE_TENSOR_ELEM && f.type == 0) {
            const int64_t number = (int64_t)f.integer;
            if (number != 0 && !pl_dtype_valid(number)) {
                return pl_fail(err, PL_E_INVALID, "unknown element type %lld", (long long)number);
            }
            type->dtype = (pl_dtype)number;
        } else if (f.number == TYPE_TENSOR_SHAPE && pl_field_is_bytes(&f)) {
            PL_TRY(read_shape(model, f.bytes, type, err));
        }
    }
    return wire.bad ? fail_wire(err, "tensor type") : PL_OK;
}

/* Sequence, optional and map types contain the type of their items. */
static pl_status read_outer_type(pl_model *model, pl_bytes bytes, uint32_t elem_field, int depth,
                                 pl_type *type, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number == elem_field && pl_field_is_bytes(&f)) {
            PL_TRY(read_type(model, f.bytes, depth + 1, &type->elem, err));
        } else if (type->kind == PL_TYPE_MAP && f.number == TYPE_MAP_KEY && f.type == 0) {
            if (f.integer != 0 && !pl_dtype_valid((int64_t)f.integer)) { /* 0: unspecified */
                return pl_fail(err, PL_E_INVALID, "unknown key type %lld of a map",
                               (long long)f.integer);
            }
            type->dtype = (pl_dtype)f.integer;
        }
    }
    return wire.bad ? fail_wire(err, "type") : PL_OK;
}

static pl_status read_type(pl_model *model, pl_bytes bytes, int depth, const pl_type **out,
                           pl_err *err) {
    if (depth > TYPE_DEPTH_MAX) {
        return pl_fail(err, PL_E_LIMIT, "types are nested deeper than %d", TYPE_DEPTH_MAX);
    }
    pl_type *type = pl_arena_alloc(model->arena, sizeof(*type));
    if (type == NULL) return pl_fail_memory(err, sizeof(*type));
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        switch (f.number) {
        case TYPE_TENSOR:
        case TYPE_SPARSE:
            type->kind = f.number == TYPE_TENSOR ? PL_TYPE_TENSOR : PL_TYPE_SPARSE;
            PL_TRY(read_tensor_type(model, f.bytes, type, err));
            break;
        case TYPE_SEQUENCE:
        case TYPE_OPTIONAL:
            type->kind = f.number == TYPE_SEQUENCE ? PL_TYPE_SEQUENCE : PL_TYPE_OPTIONAL;
            PL_TRY(read_outer_type(model, f.bytes, TYPE_ELEM, depth, type, err));
            break;
        case TYPE_MAP:
            type->kind = PL_TYPE_MAP;
            PL_TRY(read_outer_type(model, f.bytes, TYPE_MAP_VALUE, depth, type, err));
            break;
        default: break;
        }
    }
    if (wire.bad) return fail_wire(err, "type");
    *out = type;
    return PL_OK;
}

pl_status pl_onnx_read_type(pl_model *model, pl_bytes bytes, const pl_type **out, pl_err *err) {
    return read_type(model, bytes, 0, out, err);
}

/* ---- tensors ---- */

/* The mapped external file, opened once; `location` must live as long as the model. */
static pl_status open_external(pl_onnx_reader *r, const char *location, pl_file_map **out,
                               pl_err *err) {
    const bool refers = pl_onnx_is_reference(location);
    if (r->folder == NULL && r->dir == NULL) {
        return pl_fail(err, PL_E_INVALID, "external data '%s' requires a model read from a file",
                       location);
    }
    if (location[0] == '\0') return pl_fail(err, PL_E_INVALID, "empty file name");
    if (r->dir == NULL) PL_TRY(pl_dir_open_lenient(r->folder, &r->dir, err));
    *out = pl_strmap_get(&r->external, location);
    if (*out != NULL) return PL_OK;
    PL_TRY(refers ? pl_onnx_open_reference(r, location, out, err)
                  : pl_dir_map(r->dir, location, out, err));
    if (pl_strmap_put(&r->external, location, *out) == 0) return PL_OK;
    pl_file_map_unref(*out);
    return pl_fail_memory(err, 1);
}

static pl_status read_external(pl_onnx_reader *r, const pl_tensor_proto_info *info, pl_tensor **out,
                               pl_err *err) {
    pl_file_map *map = NULL;
    const char *location = pl_arena_strndup(r->model->arena, pl_bytes_chars(info->ext_location),
                                            info->ext_location.n_bytes);
    if (location == NULL) return pl_fail_memory(err, info->ext_location.n_bytes);
    if (r->looking && pl_onnx_is_reference(location)) {
        pl_err trouble = PL_ERR_INIT;
        if (r->model->absent == NULL && open_external(r, location, &map, &trouble) != PL_OK &&
            (r->model->absent = pl_arena_strdup(r->model->arena, trouble.message)) == NULL)
            return pl_fail_memory(err, 1);
        if (r->model->absent != NULL)
            return pl_onnx_absent_tensor(info->dtype, info->rank, info->dims, out, err);
    }
    PL_TRY(open_external(r, location, &map, err));
    const uint64_t available =
        info->ext_offset <= map->n_bytes ? map->n_bytes - info->ext_offset : 0;
    const uint64_t n = info->ext_length == UINT64_MAX ? available : info->ext_length;
    if (info->ext_offset > map->n_bytes || n > available) {
        return pl_fail(
            err, PL_E_INVALID,
            "external data '%s': offset %llu and length %llu, but the file has %zu bytes", location,
            (unsigned long long)info->ext_offset, (unsigned long long)n, map->n_bytes);
    }
    const pl_bytes raw = { map->data + info->ext_offset, (size_t)n };
    return pl_tensor_from_raw(info->dtype, info->rank, info->dims, raw, map, out, err);
}

pl_status pl_onnx_read_tensor(pl_onnx_reader *r, pl_bytes bytes, const char **name, pl_tensor **out,
                              pl_err *err) {
    pl_tensor_proto_info info = { 0 };
    PL_TRY(pl_tensor_proto_read(bytes, r->map, &info, out, err));
    const pl_status st = info.is_external ? read_external(r, &info, out, err) : PL_OK;
    if (st != PL_OK) {
        return pl_err_wrap(err, st, "tensor '%.*s'", (int)pl_size_min(info.name.n_bytes, 200),
                           info.name.n_bytes > 0 ? pl_bytes_chars(info.name) : "");
    }
    *name = pl_arena_strndup(r->model->arena, pl_bytes_chars(info.name), info.name.n_bytes);
    if (*name != NULL) return PL_OK;
    pl_tensor_unref(*out);
    return pl_fail_memory(err, info.name.n_bytes);
}

/* ONNX Runtime writes the indices of small tensors as int8. */
static pl_status widen(pl_tensor **indices, pl_err *err) {
    pl_tensor *wide = NULL;
    const pl_dtype d = (*indices)->dtype;
    if (d != PL_I8 && d != PL_I16 && d != PL_I32) return PL_OK;
    PL_TRY(pl_tensor_cast(*indices, PL_I64, &wide, err));
    pl_tensor_unref(*indices);
    *indices = wide;
    return PL_OK;
}

/* Indices are linear, or one row of coordinates. */
static pl_status check_sparse(const pl_tensor *values, const pl_tensor *indices, int rank,
                              pl_err *err) {
    const bool rows = indices->rank == 2 && indices->dims[1] == rank;
    if (indices->dtype == PL_I64 && values->rank == 1 && (indices->rank == 1 || rows) &&
        indices->dims[0] == values->n_elements)
        return PL_OK;
    char v[100], n[100];
    return pl_fail(err, PL_E_INVALID,
                   "sparse tensor: values %s and indices %s do not match a tensor of rank %d",
                   pl_tensor_describe(values, v, sizeof(v)),
                   pl_tensor_describe(indices, n, sizeof(n)), rank);
}

/* Puts values[i] at indices[i] of a zero tensor. */
static pl_status densify(const pl_tensor *values, const pl_tensor *indices, pl_tensor *dense,
                         pl_err *err) {
    const int64_t nnz = values->n_elements;
    const int64_t per = indices->rank == 2 ? indices->dims[1] : 1;
    const size_t size = pl_dtype_bytes(values->dtype);
    const pl_i64 *index = indices->data;
    for (int64_t i = 0; i < nnz; i++) {
        int64_t at = 0;
        if (indices->rank == 1 || dense->rank == 1) {
            at = index[i];
        } else {
            for (int64_t d = 0; d < per; d++) {
                const int64_t k = index[i * per + d];
                if (k < 0 || k >= dense->dims[d]) at = INT64_MIN;
                if (at >= 0) at += k * dense->strides[d];
            }
        }
        if (at < 0 || at >= dense->n_elements) {
            return pl_fail(err, PL_E_INVALID, "sparse tensor: index %lld is out of range",
                           (long long)i);
        }
        memcpy((char *)dense->data + (size_t)at * size,
               (const char *)values->data + (size_t)i * size, size);
    }
    return PL_OK;
}

static pl_status read_sparse_dims(const pl_wire_field *f, int64_t *dims, int *rank, pl_err *err) {
    pl_wire packed = pl_wire_of(f->bytes);
    uint64_t value = f->integer;
    bool more = f->type == 0 || pl_wire_varint(&packed, &value);
    while (more) {
        if (*rank == PL_RANK_MAX) return pl_fail(err, PL_E_LIMIT, "sparse tensor: rank too high");
        dims[(*rank)++] = (int64_t)value;
        more = f->type == 2 && pl_wire_varint(&packed, &value);
    }
    return PL_OK;
}

/* Limits the total size of dense tensors: each alone may be small enough, but not sixty. */
static pl_status count_dense(pl_onnx_reader *r, pl_dtype dtype, int rank, const int64_t *dims,
                             const char *name, pl_err *err) {
    size_t n = pl_dtype_bytes(dtype), most = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return PL_OK; /* reported when the tensor is made */
        if (!pl_size_mul(n, (size_t)dims[i], &n)) n = SIZE_MAX;
    }
    if (!pl_size_mul(r->n_bytes, PL_ONNX_DENSE_TIMES, &most)) most = SIZE_MAX;
    if (!pl_size_add(most, PL_ONNX_DENSE_MIN, &most)) most = SIZE_MAX;
    if (!pl_size_add(r->dense_bytes, n, &r->dense_bytes)) r->dense_bytes = SIZE_MAX;
    if (r->dense_bytes <= most) return PL_OK;
    return pl_fail(err, PL_E_LIMIT,
                   "sparse tensor '%.200s': the sparse tensors of this model take more than %zu "
                   "bytes when made dense, the limit for a file of %zu bytes",
                   name, most, r->n_bytes);
}

pl_status pl_onnx_read_sparse(pl_onnx_reader *r, pl_bytes bytes, const char **name, pl_tensor **out,
                              pl_err *err) {
    pl_tensor *values = NULL, *indices = NULL, *dense = NULL;
    int64_t dims[PL_RANK_MAX];
    int rank = 0;
    const char *unused = NULL;
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    pl_status st = PL_OK;
    *name = "";
    while (pl_wire_next(&wire, &f)) {
        if (f.number == SPARSE_VALUES && pl_field_is_bytes(&f) && values == NULL) {
            PL_TRY_GOTO(done, st, pl_onnx_read_tensor(r, f.bytes, name, &values, err));
        } else if (f.number == SPARSE_INDICES && pl_field_is_bytes(&f) && indices == NULL) {
            PL_TRY_GOTO(done, st, pl_onnx_read_tensor(r, f.bytes, &unused, &indices, err));
        } else if (f.number == SPARSE_DIMS) {
            PL_TRY_GOTO(done, st, read_sparse_dims(&f, dims, &rank, err));
        }
    }
    if (wire.bad || values == NULL || indices == NULL || values->dtype == PL_STRING) {
        st = pl_fail(err, PL_E_FORMAT,
                     "sparse tensor '%s': malformed, or values or indices missing", *name);
        goto done;
    }
    PL_TRY_GOTO(done, st, widen(&indices, err));
    PL_TRY_GOTO(done, st, check_sparse(values, indices, rank, err));
    PL_TRY_GOTO(done, st, count_dense(r, values->dtype, rank, dims, *name, err));
    st = pl_tensor_new_zero(values->dtype, rank, dims, &dense, err);
    if (st != PL_OK) {
        st = pl_err_wrap(err, st, "sparse tensor '%.200s', made dense", *name);
        goto done;
    }
    PL_TRY_GOTO(done, st, densify(values, indices, dense, err));
    *out = dense;
    dense = NULL;
done:
    pl_tensor_unref(values);
    pl_tensor_unref(indices);
    pl_tensor_unref(dense);
    return st;
}

/* ---- attributes ---- */

typedef struct attr_counts {
    size_t floats, ints, strings, tensors, graphs;
} attr_counts;

static size_t count_varints(pl_bytes packed) {
    size_t n = 0;
    for (size_t i = 0; i < packed.n_bytes; i++)
        n += (packed.data[i] & 0x80) == 0;
    return n;
}

static pl_status count_attr(pl_bytes bytes, attr_counts *n, pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        switch (f.number) {
        case ATTR_FLOATS: n->floats += f.type == 2 ? f.bytes.n_bytes / 4 : 1; break;
        case ATTR_INTS: n->ints += f.type == 2 ? count_varints(f.bytes) : 1; break;
        case ATTR_STRINGS: n->strings++; break;
        case ATTR_TENSORS: n->tensors++; break;
        case ATTR_GRAPHS: n->graphs++; break;
        default: break;
        }
    }
    return wire.bad ? fail_wire(err, "attribute") : PL_OK;
}

typedef struct attr_lists {
    float *floats;
    int64_t *ints;
    pl_string *strings;
    pl_tensor **tensors;
    pl_graph **graphs;
    attr_counts n;
} attr_lists;

static pl_status lists_init(pl_arena *arena, const attr_counts *n, attr_lists *out, pl_err *err) {
    out->floats = pl_arena_array(arena, n->floats, sizeof(float));
    out->ints = pl_arena_array(arena, n->ints, sizeof(int64_t));
    out->strings = pl_arena_array(arena, n->strings, sizeof(pl_string));
    out->tensors = pl_arena_array(arena, n->tensors, sizeof(pl_tensor *));
    out->graphs = pl_arena_array(arena, n->graphs, sizeof(pl_graph *));
    const bool ok = out->floats != NULL && out->ints != NULL && out->strings != NULL &&
                    out->tensors != NULL && out->graphs != NULL;
    return ok ? PL_OK : pl_fail_memory(err, n->floats + n->ints);
}

static void read_floats(const pl_wire_field *f, attr_lists *l) {
    if (f->type == 5) l->floats[l->n.floats++] = pl_wire_float(f);
    if (f->type != 2) return;
    for (size_t i = 0; i + 4 <= f->bytes.n_bytes; i += 4) {
        memcpy(&l->floats[l->n.floats++], f->bytes.data + i, 4);
    }
}

static void read_ints(const pl_wire_field *f, attr_lists *l) {
    if (f->type == 0) l->ints[l->n.ints++] = (int64_t)f->integer;
    if (f->type != 2) return;
    pl_wire packed = pl_wire_of(f->bytes);
    uint64_t value = 0;
    while (pl_wire_varint(&packed, &value))
        l->ints[l->n.ints++] = (int64_t)value;
}

static pl_status keep_string(pl_onnx_reader *r, pl_bytes bytes, pl_string *out, pl_err *err) {
    out->data = pl_arena_strndup(r->model->arena, pl_bytes_chars(bytes), bytes.n_bytes);
    out->n_bytes = bytes.n_bytes;
    return out->data == NULL ? pl_fail_memory(err, bytes.n_bytes) : PL_OK;
}

static pl_status read_body(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes bytes, pl_graph **out,
                           pl_err *err) {
    PL_TRY(pl_graph_new(r->model, frame->graph, "", out, err));
    pl_onnx_frame inner = { .parent = frame, .graph = *out, .depth = frame->depth + 1 };
    return pl_onnx_read_graph(r, &inner, (pl_bytes_list){ &bytes, 1 }, err);
}

static pl_status read_kept_tensor(pl_onnx_reader *r, const pl_wire_field *f, pl_tensor **out,
                                  pl_err *err) {
    const char *unused = NULL;
    pl_tensor *t = NULL;
    if (f->number == ATTR_SPARSE_TENSOR) {
        PL_TRY(pl_onnx_read_sparse(r, f->bytes, &unused, &t, err));
    } else {
        PL_TRY(pl_onnx_read_tensor(r, f->bytes, &unused, &t, err));
    }
    PL_TRY(pl_model_keep_tensor_take(r->model, t, err));
    *out = t;
    return PL_OK;
}

static pl_status read_attr_bytes_field(pl_onnx_reader *r, pl_onnx_frame *frame,
                                       const pl_wire_field *f, pl_attr *a, attr_lists *l,
                                       pl_bytes *ref, pl_err *err) {
    switch (f->number) {
    case ATTR_NAME:
        a->name = pl_model_intern(r->model, pl_bytes_chars(f->bytes), f->bytes.n_bytes);
        return a->name == NULL ? pl_fail_memory(err, f->bytes.n_bytes) : PL_OK;
    case ATTR_REF_ATTR_NAME: *ref = f->bytes; return PL_OK;
    case ATTR_S: return keep_string(r, f->bytes, &a->s, err);
    case ATTR_T:
    case ATTR_SPARSE_TENSOR: return read_kept_tensor(r, f, &a->tensor, err);
    case ATTR_G: return read_body(r, frame, f->bytes, &a->graph, err);
    case ATTR_STRINGS: return keep_string(r, f->bytes, &l->strings[l->n.strings++], err);
    case ATTR_TENSORS: return read_kept_tensor(r, f, &l->tensors[l->n.tensors++], err);
    case ATTR_GRAPHS: return read_body(r, frame, f->bytes, &l->graphs[l->n.graphs++], err);
    case ATTR_TP: return pl_onnx_read_type(r->model, f->bytes, &a->type_proto, err);
    default: return PL_OK;
    }
}

/* IR versions before 2 have no type: guess it from the fields. */
static pl_attr_type guess_type(const pl_attr *a, const attr_counts *n, bool has_f, bool has_i) {
    if (has_f) return PL_ATTR_FLOAT;
    if (has_i) return PL_ATTR_INT;
    if (a->s.data != NULL) return PL_ATTR_STRING;
    if (a->tensor != NULL) return PL_ATTR_TENSOR;
    if (a->graph != NULL) return PL_ATTR_GRAPH;
    if (n->floats > 0) return PL_ATTR_FLOATS;
    if (n->ints > 0) return PL_ATTR_INTS;
    if (n->strings > 0) return PL_ATTR_STRINGS;
    if (n->tensors > 0) return PL_ATTR_TENSORS;
    if (n->graphs > 0) return PL_ATTR_GRAPHS;
    return PL_ATTR_NONE;
}

static pl_status finish_attr(pl_attr *a, const attr_lists *l, pl_err *err) {
    a->floats = l->floats;
    a->ints = l->ints;
    a->strings = l->strings;
    a->tensors = l->tensors;
    a->graphs = l->graphs;
    const char *missing = NULL;
    switch (a->type) {
    case PL_ATTR_FLOATS: a->n = l->n.floats; break;
    case PL_ATTR_INTS: a->n = l->n.ints; break;
    case PL_ATTR_STRINGS: a->n = l->n.strings; break;
    case PL_ATTR_TENSORS: a->n = l->n.tensors; break;
    case PL_ATTR_GRAPHS: a->n = l->n.graphs; break;
    case PL_ATTR_TENSOR:
    case PL_ATTR_SPARSE_TENSOR: missing = a->tensor == NULL ? "tensor" : NULL; break;
    case PL_ATTR_GRAPH: missing = a->graph == NULL ? "graph" : NULL; break;
    case PL_ATTR_TYPE_PROTO: missing = a->type_proto == NULL ? "type" : NULL; break;
    case PL_ATTR_STRING:
        if (a->s.data == NULL) a->s = (pl_string){ "", 0 };
        break;
    case PL_ATTR_FLOAT:
    case PL_ATTR_INT: break;
    case PL_ATTR_NONE:
    default:
        return pl_fail(err, PL_E_UNSUPPORTED, "attribute '%s' has unknown type %d", a->name,
                       (int)a->type);
    }
    if (missing == NULL) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "attribute '%s' has type %s but no such value", a->name,
                   missing);
}

/* An attribute of a function's node that refers to one of the call. */
static bool resolve_ref(const pl_onnx_frame *frame, pl_bytes ref, pl_attr *out) {
    while (frame != NULL && frame->names == NULL)
        frame = frame->parent;
    const pl_attr *found =
        frame == NULL ? NULL : pl_strmap_get_n(frame->attrs, pl_bytes_chars(ref), ref.n_bytes);
    if (found == NULL) return false;
    const char *name = out->name;
    *out = *found;
    out->name = name;
    return true;
}

pl_status pl_onnx_read_attr(pl_onnx_reader *r, pl_onnx_frame *frame, pl_bytes bytes, pl_attr *out,
                            bool *found, pl_err *err) {
    attr_counts n = { 0 };
    attr_lists lists = { 0 };
    pl_bytes ref = { 0 };
    bool has_f = false, has_i = false, has_type = false;
    *out = (pl_attr){ .name = "" };
    PL_TRY(count_attr(bytes, &n, err));
    PL_TRY(lists_init(r->model->arena, &n, &lists, err));
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number == ATTR_FLOATS) {
            read_floats(&f, &lists);
        } else if (f.number == ATTR_INTS) {
            read_ints(&f, &lists);
        } else if (f.number == ATTR_F && f.type == 5) {
            out->f = pl_wire_float(&f);
            has_f = true;
        } else if (f.number == ATTR_I && f.type == 0) {
            out->i = (int64_t)f.integer;
            has_i = true;
        } else if (f.number == ATTR_TYPE && f.type == 0) {
            out->type = f.integer <= PL_ATTR_TYPE_PROTO ? (pl_attr_type)f.integer : PL_ATTR_NONE;
            has_type = true;
        } else if (pl_field_is_bytes(&f)) {
            PL_TRY(read_attr_bytes_field(r, frame, &f, out, &lists, &ref, err));
        }
    }
    *found = true;
    if (ref.n_bytes > 0) {
        *found = resolve_ref(frame, ref, out);
        return PL_OK;
    }
    if (!has_type) out->type = guess_type(out, &n, has_f, has_i);
    return finish_attr(out, &lists, err);
}
