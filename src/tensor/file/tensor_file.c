/* Chooses the format and collects the tensors. */
#include "tensor/file/tensor_file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "tensor/file/gguf.h"
#include "tensor/file/map_value.h"
#include "tensor/file/npy.h"
#include "tensor/file/npz.h"
#include "tensor/file/pt.h"
#include "tensor/file/safetensors.h"
#include "tensor/file/tensor_proto.h"
#include "tensor/file/zip.h"

/* ---- loading ---- */

typedef struct collector {
    pl_tensor_file file;
    size_t capacity;
} collector;

/* Takes the datum, also on failure. */
static pl_status collect_take(collector *c, const char *name, size_t n_name, pl_datum *d,
                              pl_err *err) {
    if (!PL_ARRAY_ROOM(c->file.items, c->file.n_items, &c->capacity)) {
        pl_datum_unref(d);
        return pl_fail_memory(err, c->file.n_items);
    }
    char *copy = pl_strndup(name, n_name);
    if (!copy) {
        pl_datum_unref(d);
        return pl_fail_memory(err, n_name + 1);
    }
    c->file.items[c->file.n_items++] = (pl_named_datum){ copy, d };
    return PL_OK;
}

static pl_status collect_tensor_take(void *ctx, const char *name, pl_tensor *t, pl_err *err) {
    pl_datum *d = NULL;
    PL_TRY(pl_datum_of_tensor_take(t, &d, err));
    return collect_take(ctx, name, strlen(name), d, err);
}

static pl_status load_safetensors(pl_file_map *map, collector *c, pl_err *err) {
    pl_safetensors *file = NULL;
    pl_status st = PL_OK;
    PL_TRY(pl_safetensors_open(map, &file, err));
    for (size_t i = 0; i < file->n_entries; i++) {
        pl_tensor *t = NULL;
        PL_TRY_GOTO(done, st, pl_safetensors_read(file, &file->entries[i], &t, err));
        PL_TRY_GOTO(done, st, collect_tensor_take(c, file->entries[i].name, t, err));
    }
done:
    pl_safetensors_close(file);
    return st;
}

static pl_status load_gguf(pl_file_map *map, collector *c, pl_err *err) {
    pl_gguf *file = NULL;
    pl_status st = PL_OK;
    PL_TRY(pl_gguf_open(map, &file, err));
    for (size_t i = 0; i < file->n_entries; i++) {
        pl_tensor *t = NULL;
        PL_TRY_GOTO(done, st, pl_gguf_read(file, &file->entries[i], &t, err));
        PL_TRY_GOTO(done, st, collect_tensor_take(c, file->entries[i].name, t, err));
    }
done:
    pl_gguf_close(file);
    return st;
}

static pl_status load_proto(pl_bytes bytes, pl_file_map *map, const pl_type *type, collector *c,
                            pl_err *err) {
    pl_bytes name = { (const uint8_t *)"", 0 };
    pl_datum *d = NULL;
    PL_TRY(pl_datum_proto_read(bytes, map, type, &d, err));
    /* The name is field 8 of TensorProto and field 1 of the containers. */
    const uint32_t name_field = d->kind == PL_TYPE_TENSOR ? 8 : 1;
    pl_wire w = pl_wire_of(bytes);
    pl_wire_field f;
    while (pl_wire_next(&w, &f))
        if (f.number == name_field && f.type == 2 && !memchr(f.bytes.data, '\0', f.bytes.n_bytes))
            name = f.bytes;
    return collect_take(c, (const char *)name.data, name.n_bytes, d, err);
}

static pl_status load_any(const char *path, pl_file_map *map, const pl_type *type, collector *c,
                          pl_err *err) {
    const pl_bytes bytes = { map->data, map->n_bytes };
    const bool is_pb = pl_path_has_suffix(path, ".pb");
    if (pl_npy_sniff(bytes.data, bytes.n_bytes)) {
        pl_tensor *t = NULL;
        PL_TRY(pl_npy_read(bytes, map, &t, err));
        return collect_tensor_take(c, "", t, err);
    }
    if (pl_pt_sniff(bytes)) return pl_pt_read(bytes, map, collect_tensor_take, c, err);
    if (pl_zip_sniff(bytes.data, bytes.n_bytes))
        return pl_npz_read(bytes, map, collect_tensor_take, c, err);
    if (pl_gguf_sniff(bytes.data, bytes.n_bytes)) return load_gguf(map, c, err);
    if (!is_pb && pl_map_json_sniff(bytes, type)) {
        pl_datum *d = NULL;
        PL_TRY(pl_map_json_read(bytes, type, &d, err));
        return collect_take(c, "", 0, d, err);
    }
    if (!is_pb && pl_safetensors_sniff(bytes.data, bytes.n_bytes))
        return load_safetensors(map, c, err);
    /* A TensorProto has no signature, so every unknown file ends here: the error lists the formats
     * tried. */
    const pl_status st = load_proto(bytes, map, type, c, err);
    if (st == PL_E_FORMAT && !is_pb)
        return pl_err_wrap(err, st,
                           "not an npy, npz, safetensors, GGUF or PyTorch file; as TensorProto");
    return st;
}

static pl_status load_take(const char *path, pl_file_map *map, const pl_type *type,
                           pl_tensor_file *out, pl_err *err) {
    collector c = { PL_TENSOR_FILE_INIT, 0 };
    const pl_status st = load_any(path, map, type, &c, err);
    pl_file_map_unref(map);
    if (st != PL_OK) {
        pl_tensor_file_release(&c.file);
        return pl_err_wrap(err, st, "%s", path);
    }
    *out = c.file;
    return PL_OK;
}

pl_status pl_tensor_file_load(const char *path, const pl_type *type, pl_tensor_file *out,
                              pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_file_map_open(path, &map, err));
    return load_take(path, map, type, out, err);
}

pl_status pl_tensor_file_load_in(const pl_dir *dir, const char *name, const pl_type *type,
                                 pl_tensor_file *out, pl_err *err) {
    pl_file_map *map = NULL;
    char *path = pl_path_join(pl_dir_path(dir), name);
    if (path == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_dir_map(dir, name, &map, err);
    if (st == PL_OK) st = load_take(path, map, type, out, err);
    pl_free(path);
    return st;
}

void pl_tensor_file_release(pl_tensor_file *file) {
    for (size_t i = 0; i < file->n_items; i++) {
        pl_free(file->items[i].name);
        pl_datum_unref(file->items[i].datum);
    }
    pl_free(file->items);
    *file = (pl_tensor_file)PL_TENSOR_FILE_INIT;
}

/* ---- saving ---- */

static pl_status save_one(const char *path, const pl_named_datum *item, bool is_npy, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_status st = PL_OK;
    if (is_npy)
        st = pl_npy_write(&buf, item->datum->tensor, err);
    else
        pl_datum_proto_write(&buf, item->name, item->datum);
    if (st == PL_OK && !pl_buf_ok(&buf)) st = pl_fail_memory(err, pl_datum_bytes(item->datum));
    if (st == PL_OK) st = pl_file_write(path, pl_buf_str(&buf), buf.n_bytes, err);
    pl_buf_release(&buf);
    return st;
}

static pl_status save_npz(const char *path, const pl_named_datum *items, size_t n, pl_err *err) {
    const char **names = pl_calloc(n + 1, sizeof *names);
    const pl_tensor **tensors = pl_calloc(n + 1, sizeof *tensors);
    pl_status st = PL_E_MEMORY;
    if (names && tensors) {
        for (size_t i = 0; i < n; i++) {
            names[i] = items[i].name;
            tensors[i] = items[i].datum->tensor;
        }
        st = pl_npz_write(path, names, tensors, n, err);
    } else {
        pl_fail_memory(err, (n + 1) * sizeof *names);
    }
    pl_free(names);
    pl_free(tensors);
    return st;
}

static pl_status save_safetensors(const char *path, const pl_named_datum *items, size_t n,
                                  pl_err *err) {
    pl_safetensors_writer *w = NULL;
    pl_safetensors_spec *specs = pl_calloc(n + 1, sizeof *specs);
    if (!specs) return pl_fail_memory(err, (n + 1) * sizeof *specs);
    for (size_t i = 0; i < n; i++) {
        const pl_tensor *t = items[i].datum->tensor;
        specs[i] = (pl_safetensors_spec){ items[i].name, t->dtype, t->rank, t->dims };
    }
    pl_status st = pl_safetensors_writer_open(path, specs, n, NULL, 0, &w, err);
    for (size_t i; st == PL_OK && (i = pl_safetensors_writer_next(w)) < n;)
        st = pl_safetensors_writer_put(w, items[i].datum->tensor, err);
    if (st == PL_OK)
        st = pl_safetensors_writer_commit_take(w, err);
    else
        pl_safetensors_writer_abort_take(w);
    pl_free(specs);
    return st;
}

static pl_status save_any(const char *path, const pl_named_datum *items, size_t n, pl_err *err) {
    const bool is_npy = pl_path_has_suffix(path, ".npy"), is_pb = pl_path_has_suffix(path, ".pb");
    const bool is_npz = pl_path_has_suffix(path, ".npz");
    if (!is_npy && !is_pb && !is_npz && !pl_path_has_suffix(path, ".safetensors"))
        return pl_fail(err, PL_E_USAGE, "the suffix must be .npy, .npz, .pb or .safetensors");
    if ((is_npy || is_pb) && n != 1)
        return pl_fail(err, PL_E_USAGE, "the format holds one tensor, found %zu", n);
    for (size_t i = 0; i < n && !is_pb; i++)
        if (items[i].datum->kind != PL_TYPE_TENSOR)
            return pl_fail(err, PL_E_UNSUPPORTED, "'%.200s' is not a tensor; use .pb",
                           items[i].name);
    if (is_npy || is_pb) return save_one(path, items, is_npy, err);
    return is_npz ? save_npz(path, items, n, err) : save_safetensors(path, items, n, err);
}

pl_status pl_tensor_file_save(const char *path, const pl_named_datum *items, size_t n_items,
                              pl_err *err) {
    const pl_status st = save_any(path, items, n_items, err);
    return st == PL_OK ? PL_OK : pl_err_wrap(err, st, "%s", path);
}
