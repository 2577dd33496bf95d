/* Declarations of values, and fields that plumb only passes through. */
#include <string.h>

#include "base/size.h"
#include "onnx/onnx.h"
#include "onnx/onnx_int.h"

/* Does field `path[0]` of a message, `path[1]` of that, … exist anywhere? */
static bool has_field(pl_bytes bytes, const uint32_t *path, size_t n) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f) || f.number != path[0]) continue;
        if (n == 1 || has_field(f.bytes, path + 1, n - 1)) return true;
    }
    return false;
}

static bool has_denotation(pl_bytes type) {
    static const uint32_t own[] = { TYPE_DENOTATION };
    static const uint32_t dims[] = { TYPE_TENSOR, TYPE_TENSOR_SHAPE, SHAPE_DIM, DIM_DENOTATION };
    return has_field(type, own, 1) || has_field(type, dims, 4);
}

static pl_status keep_bytes(pl_model *model, const void *data, size_t n_bytes, pl_bytes *out,
                            pl_err *err) {
    void *copy = n_bytes == 0 ? NULL : pl_arena_alloc(model->arena, n_bytes);
    if (n_bytes > 0 && copy == NULL) return pl_fail_memory(err, n_bytes);
    if (copy != NULL) memcpy(copy, data, n_bytes);
    *out = (pl_bytes){ copy, n_bytes };
    return PL_OK;
}

/* The name, which may stand behind the type in the file. */
static int name_shown(pl_bytes bytes, const char **name) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    size_t n = 0;
    while (pl_wire_next(&wire, &f)) {
        if (f.number != VALUE_NAME || !pl_field_is_bytes(&f)) continue;
        *name = pl_bytes_chars(f.bytes);
        n = f.bytes.n_bytes;
    }
    return (int)pl_size_min(n, 200);
}

pl_status pl_onnx_read_value_info(pl_model *model, pl_bytes bytes, pl_onnx_value_info *out,
                                  pl_err *err) {
    pl_wire wire = pl_wire_of(bytes);
    pl_wire_field f;
    const char *name = "";
    *out = (pl_onnx_value_info){ .type = NULL };
    while (pl_wire_next(&wire, &f)) {
        if (!pl_field_is_bytes(&f)) continue;
        if (f.number == VALUE_NAME) out->name = f.bytes;
        if (f.number == VALUE_DOC_STRING) out->doc = f.bytes;
        if (f.number != VALUE_TYPE) continue;
        const pl_status st = pl_onnx_read_type(model, f.bytes, &out->type, err);
        if (st != PL_OK) {
            const int n = name_shown(bytes, &name);
            return pl_err_wrap(err, st, "value '%.*s'", n, name);
        }
        if (has_denotation(f.bytes))
            PL_TRY(keep_bytes(model, f.bytes.data, f.bytes.n_bytes, &out->spelt, err));
    }
    return wire.bad ? pl_fail(err, PL_E_FORMAT, "value_info: malformed or truncated protobuf")
                    : PL_OK;
}

void pl_onnx_declare(pl_value *value, const pl_onnx_value_info *info) {
    if (value->type != NULL) return;
    value->type = value->spelt_type = info->type;
    value->spelt = info->spelt;
}

pl_bytes pl_onnx_tensor_doc(pl_bytes tensor) {
    pl_wire wire = pl_wire_of(tensor);
    pl_wire_field f;
    while (pl_wire_next(&wire, &f)) {
        if (f.number == TENSOR_DOC_STRING && pl_field_is_bytes(&f)) return f.bytes;
    }
    return (pl_bytes){ NULL, 0 };
}

pl_status pl_onnx_keep(pl_model *model, pl_buf *fields, pl_bytes *out, pl_err *err) {
    const bool ok = pl_buf_ok(fields);
    const pl_status st = !ok ? pl_fail_memory(err, fields->n_bytes)
                             : keep_bytes(model, pl_buf_str(fields), fields->n_bytes, out, err);
    pl_buf_release(fields);
    return st;
}
