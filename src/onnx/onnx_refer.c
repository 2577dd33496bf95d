/* Weights that stay in the file they came from. The location of such external data is a key of the
 * model's metadata, whose value says which file that is: "xxh3-128:HASH BYTES PATH".
 *
 * The path may lead anywhere, and the model may be a stranger's: a file is used only if its size
 * and the hash of all its bytes are the recorded ones, so that nothing is shown to anybody who did
 * not know it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "onnx/onnx.h"
#include "onnx/onnx_int.h"

#define PREFIX "plumb-weights-"
#define HASH_NAME "xxh3-128:"

enum { DIGITS = PL_HASH128_HEX - 1 };
#define SMALL (UINT64_C(16) << 20) /* models with less have their weights with them */

bool pl_onnx_is_reference(const char *location) {
    return strncmp(location, PREFIX, strlen(PREFIX)) == 0;
}

/* ---- writing ---- */

typedef struct kept_file {
    const pl_file_map *map;
    char *path; /* absolute; NULL = it is not there any more, so its bytes are copied */
    char name[32];
} kept_file;

typedef struct references {
    kept_file *files;
    size_t n, capacity;
    bool failed;
} references;

static const char *name_file(void *ctx, const pl_file_map *map) {
    references *r = ctx;
    for (size_t i = 0; i < r->n; i++)
        if (r->files[i].map == map) return r->files[i].path == NULL ? NULL : r->files[i].name;
    if (!PL_ARRAY_ROOM(r->files, r->n, &r->capacity)) {
        r->failed = true;
        return NULL;
    }
    kept_file *f = &r->files[r->n];
    *f = (kept_file){ .map = map, .path = pl_path_real(map->path) };
    snprintf(f->name, sizeof(f->name), PREFIX "%zu", r->n++);
    return f->path == NULL ? NULL : f->name;
}

static void put_references(void *ctx, pl_buf *out) {
    const references *r = ctx;
    for (size_t i = 0; i < r->n; i++) {
        const kept_file *f = &r->files[i];
        char hex[PL_HASH128_HEX];
        pl_buf text = PL_BUF_INIT;
        if (f->path == NULL) continue;
        pl_hash128_hex(pl_hash128_of(f->map->data, f->map->n_bytes), hex);
        pl_buf_printf(&text, HASH_NAME "%s %zu %s", hex, f->map->n_bytes, f->path);
        if (!pl_buf_ok(&text)) out->failed = true;
        pl_onnx_put_model_prop(out, f->name, pl_buf_str(&text));
        pl_buf_release(&text);
    }
}

pl_status pl_model_write_referring(const pl_model *model, const char *path, pl_err *err) {
    references r = { .n = 0 };
    const pl_onnx_refer refer = { .name = name_file, .finish = put_references, .ctx = &r };
    pl_buf bytes = PL_BUF_INIT;
    if (pl_model_weight_bytes(model) < SMALL) return pl_model_write(model, path, false, err);
    pl_status st = pl_model_serialize_referring(model, &refer, &bytes, err);
    if (st == PL_OK && (r.failed || !pl_buf_ok(&bytes))) st = pl_fail_memory(err, bytes.n_bytes);
    if (st == PL_OK) st = pl_file_write(path, bytes.data, bytes.n_bytes, err);
    for (size_t i = 0; i < r.n; i++)
        pl_free(r.files[i].path);
    pl_free(r.files);
    pl_buf_release(&bytes);
    /* Weights that were made in memory may be too many for one file. */
    return st == PL_E_LIMIT ? pl_model_write(model, path, false, err) : st;
}

/* ---- reading ---- */

typedef struct reference {
    char hash[PL_HASH128_HEX];
    uint64_t n_bytes;
    const char *path;
} reference;

static bool parse(const char *text, reference *out) {
    static const char hex[] = "0123456789abcdef";
    int n = 0;
    if (strncmp(text, HASH_NAME, strlen(HASH_NAME)) != 0) return false;
    text += strlen(HASH_NAME);
    if (strspn(text, hex) != DIGITS) return false;
    memcpy(out->hash, text, DIGITS);
    out->hash[DIGITS] = '\0';
    if (sscanf(text + DIGITS, " %20" SCNu64 " %n", &out->n_bytes, &n) != 1 || n == 0) return false;
    out->path = text + DIGITS + n;
    return out->path[0] == '/';
}

static pl_status has_changed(const reference *r, pl_err *err) {
    return pl_fail(err, PL_E_INVALID,
                   "the weights are in '%s', which has changed since this model was written",
                   r->path);
}

static pl_status check_file(const reference *r, const pl_file_map *map, pl_err *err) {
    char hex[PL_HASH128_HEX] = "";
    if (map->n_bytes == r->n_bytes) pl_hash128_hex(pl_hash128_of(map->data, map->n_bytes), hex);
    if (map->n_bytes == r->n_bytes && strcmp(hex, r->hash) == 0) return PL_OK;
    return has_changed(r, err);
}

/* No link is followed, and files of /proc and devices have no size. */
static pl_status open_there(const pl_dir *dir, const reference *ref, pl_file_map **out,
                            pl_err *err) {
    const char *last = pl_path_basename(ref->path);
    uint64_t n_bytes = 0;
    const pl_kind kind = pl_dir_look(dir, last, &n_bytes);
    *out = NULL;
    if (kind == PL_KIND_NONE)
        return pl_fail(err, PL_E_NOT_FOUND,
                       "the weights are in '%s', which is gone; put it back, or copy it beside the "
                       "model (option 'pack' copies weights)",
                       ref->path);
    if (kind != PL_KIND_FILE || n_bytes == 0 || n_bytes != ref->n_bytes)
        return has_changed(ref, err);
    PL_TRY(pl_dir_map(dir, last, out, err));
    const pl_status st = check_file(ref, *out, err);
    if (st == PL_OK) return PL_OK;
    pl_file_map_unref(*out);
    *out = NULL;
    return st;
}

/* A copy beside the model counts, too: then its owner has made the folder whole. */
static pl_status open_either(const pl_onnx_reader *r, const reference *ref, pl_file_map **out,
                             pl_err *err) {
    pl_dir *dir = NULL;
    if (r->dir != NULL && open_there(r->dir, ref, out, NULL) == PL_OK) return PL_OK;
    char *folder = pl_path_dirname(ref->path);
    if (folder == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_dir_open(folder, &dir, NULL);
    st = st == PL_OK ? open_there(dir, ref, out, err)
                     : pl_fail(err, PL_E_NOT_FOUND, "the weights are in '%s', whose folder is gone",
                               ref->path);
    pl_dir_close(dir);
    pl_free(folder);
    return st;
}

pl_status pl_onnx_open_reference(const pl_onnx_reader *r, const char *location, pl_file_map **out,
                                 pl_err *err) {
    reference ref;
    for (size_t i = 0; i < r->model->n_props; i++) {
        const pl_prop *prop = &r->model->props[i];
        if (strcmp(prop->key, location) != 0) continue;
        if (!parse(prop->value, &ref))
            return pl_fail(err, PL_E_FORMAT, "metadata '%s' does not name a file with its hash",
                           location);
        return open_either(r, &ref, out, err);
    }
    return pl_fail(err, PL_E_INVALID, "external data '%s' is not in the model's metadata",
                   location);
}

/* Every element is one zero: takes no memory, whatever a stranger declares. */
pl_status pl_onnx_absent_tensor(pl_dtype dtype, int rank, const int64_t *dims, pl_tensor **out,
                                pl_err *err) {
    static const int64_t one[PL_RANK_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const int64_t still[PL_RANK_MAX] = { 0 };
    pl_tensor *zero = NULL;
    int64_t n = 0;
    if (!pl_dims_product(rank, dims, &n))
        return pl_fail(err, PL_E_FORMAT, "a shape that is negative or too large");
    PL_TRY(pl_tensor_new_zero(dtype, rank, one, &zero, err));
    const pl_status st = pl_tensor_view(zero, rank, dims, still, 0, out, err);
    pl_tensor_unref(zero);
    return st;
}

/* What the references were for has been read. */
void pl_onnx_drop_references(pl_model *model) {
    pl_prop *kept = (pl_prop *)(uintptr_t)model->props;
    size_t n = 0;
    for (size_t i = 0; i < model->n_props; i++) {
        if (!pl_onnx_is_reference(model->props[i].key)) kept[n++] = model->props[i];
    }
    model->referring = n < model->n_props;
    model->n_props = n;
}
