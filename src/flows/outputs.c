#include "flows/outputs.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/escape.h"
#include "base/hash.h"

enum { NAME_MAX_BYTES = 100 };

static bool is_file_format(const char *path) {
    return pl_path_has_suffix(path, ".npy") || pl_path_has_suffix(path, ".npz") ||
           pl_path_has_suffix(path, ".pb") || pl_path_has_suffix(path, ".safetensors");
}

/* Makes a file name from a value name: keeps letters, digits, dot, dash and underscore. */
static void put_safe_name(pl_buf *out, const char *name) {
    for (size_t i = 0; name[i] != '\0' && i < NAME_MAX_BYTES; i++) {
        const unsigned char c = (unsigned char)name[i];
        const bool safe = isalnum(c) || c == '-' || c == '_' || (c == '.' && i > 0);
        pl_buf_putc(out, safe && c < 128 ? (char)c : '_');
    }
    if (name[0] == '\0') pl_buf_puts(out, "output");
}

static bool npy_holds(const pl_datum *d) {
    return d->kind == PL_TYPE_TENSOR && pl_dtype_npy(d->tensor->dtype)[0] != '\0';
}

/* Written in `dir`; `file` is its name in `path`, its final folder. */
static pl_status write_one(const char *dir, const char *path, const char *save_as,
                           const pl_named_datum *item, char **file, pl_err *err) {
    const char *suffix = strcmp(save_as, "npy") == 0 && npy_holds(item->datum) ? "npy" : "pb";
    for (int k = 0;; k++) {
        pl_buf name = PL_BUF_INIT;
        put_safe_name(&name, item->name);
        if (k > 0) pl_buf_printf(&name, "-%d", k);
        pl_buf_printf(&name, ".%s", suffix);
        char *here = pl_buf_ok(&name) ? pl_path_join(dir, pl_buf_str(&name)) : NULL;
        char *there = pl_buf_ok(&name) ? pl_path_join(path, pl_buf_str(&name)) : NULL;
        pl_buf_release(&name);
        const bool taken = here != NULL && pl_path_exists(here);
        pl_status st = PL_OK;
        if (here == NULL || there == NULL) {
            st = pl_fail_memory(err, 1);
        } else if (!taken) {
            st = pl_tensor_file_save(here, item, 1, err);
        }
        pl_free(here);
        if (st == PL_OK && !taken) {
            *file = there;
            return PL_OK;
        }
        pl_free(there);
        PL_TRY(st);
    }
}

/* A new folder appears complete; one that existed, empty, is emptied again on failure. */
static pl_status write_folder(const char *path, const char *save_as, const pl_named_datum *items,
                              size_t n_items, char **files, pl_err *err) {
    char *staged = NULL;
    if (!pl_path_exists(path)) PL_TRY(pl_dir_stage(path, &staged, err));
    const char *dir = staged != NULL ? staged : path;
    pl_status st = PL_OK;
    size_t n = 0;
    for (; n < n_items && st == PL_OK; n++)
        st = write_one(dir, path, save_as, &items[n], &files[n], err);
    if (st == PL_OK && staged != NULL) st = pl_dir_publish(staged, path, err);
    if (st != PL_OK && staged != NULL) (void)pl_dir_remove(staged, NULL);
    for (size_t i = 0; i < n && st != PL_OK && staged == NULL; i++)
        if (files[i] != NULL) (void)unlink(files[i]);
    pl_free(staged);
    return st;
}

static pl_status check_new(const char *path, pl_err *err) {
    pl_dir_list list = { 0 };
    if (!pl_path_exists(path)) return PL_OK;
    if (!pl_path_is_dir(path)) {
        return pl_fail(err, PL_E_EXISTS, "%s already exists", path);
    }
    PL_TRY(pl_dir_list_read(path, &list, err));
    const size_t n = list.n_names;
    pl_dir_list_free(&list);
    if (n == 0) return PL_OK;
    return pl_fail(err, PL_E_EXISTS, "folder %s is not empty; it is not overwritten", path);
}

pl_status pl_outputs_write(const char *path, const char *save_as, const pl_named_datum *items,
                           size_t n_items, char **files, pl_err *err) {
    if (save_as == NULL) save_as = "npy";
    if (strcmp(save_as, "npy") != 0 && strcmp(save_as, "pb") != 0) {
        return pl_fail(err, PL_E_USAGE, "option 'save-as' is '%s', expected npy or pb", save_as);
    }
    PL_TRY(check_new(path, err));
    if (is_file_format(path)) {
        PL_TRY(pl_tensor_file_save(path, items, n_items, err));
        for (size_t i = 0; i < n_items; i++) {
            files[i] = pl_strdup(path);
            if (files[i] == NULL) return pl_fail_memory(err, strlen(path));
        }
        return PL_OK;
    }
    return write_folder(path, save_as, items, n_items, files, err);
}

pl_tensor_summary pl_tensor_summarize(const pl_tensor *t) {
    enum { BLOCK = 512 };
    pl_tensor_summary s = { 0, 0, (double)INFINITY, (double)-INFINITY, 0 };
    double sum = 0;
    int64_t n_finite = 0;
    const size_t size = pl_dtype_bytes(t->dtype);
    for (int64_t at = 0; at < t->n_elements; at += BLOCK) {
        double block[BLOCK];
        const int64_t n = t->n_elements - at < BLOCK ? t->n_elements - at : BLOCK;
        pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * size, block, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            s.n_nan += isnan(block[i]) != 0;
            s.n_inf += isinf(block[i]) != 0;
            if (!isfinite(block[i])) continue;
            n_finite++;
            sum += block[i];
            if (block[i] < s.min) s.min = block[i];
            if (block[i] > s.max) s.max = block[i];
        }
    }
    s.mean = n_finite > 0 ? sum / (double)n_finite : (double)NAN;
    if (n_finite == 0) s.min = s.max = (double)NAN;
    return s;
}

/* ---- describing ---- */

static bool has_numbers(const pl_datum *d) {
    return d->kind == PL_TYPE_TENSOR && d->tensor->dtype != PL_STRING &&
           pl_dtype_class_of(d->tensor->dtype) != PL_CLASS_COMPLEX;
}

void pl_output_put_json(pl_json *j, const char *name, const char *kind, const pl_datum *d,
                        const char *file) {
    char text[200];
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", name);
    if (kind != NULL) pl_json_put_string(j, "kind", kind);
    pl_json_put_string(j, "type", pl_datum_describe(d, text, sizeof(text)));
    if (d->kind == PL_TYPE_TENSOR) {
        const pl_tensor *t = d->tensor;
        pl_json_put_string(j, "dtype", pl_dtype_name(t->dtype));
        pl_json_put_ints(j, "shape", t->dims, (size_t)t->rank);
        if (has_numbers(d)) {
            const pl_tensor_summary s = pl_tensor_summarize(t);
            pl_json_put_double(j, "min", s.min);
            pl_json_put_double(j, "max", s.max);
            pl_json_put_double(j, "mean", s.mean);
            pl_json_put_int(j, "nan", s.n_nan);
            pl_json_put_int(j, "inf", s.n_inf);
        }
        if (t->dtype != PL_STRING) {
            char hex[PL_HASH128_HEX];
            pl_hash128_hex(pl_hash128_of(t->data, pl_tensor_bytes(t)), hex);
            pl_json_put_string(j, "hash", hex);
        }
    }
    if (file != NULL) pl_json_put_string(j, "file", file);
    pl_json_object_end(j);
}

void pl_output_put_text(pl_buf *out, const char *name, const pl_datum *d, const char *file) {
    char text[200];
    const size_t at = out->n_bytes;
    pl_buf_printf(out, "%s: %s", name, pl_datum_describe(d, text, sizeof(text)));
    if (has_numbers(d)) {
        const pl_tensor_summary s = pl_tensor_summarize(d->tensor);
        pl_buf_printf(out, "  min %.6g  max %.6g  mean %.6g", s.min, s.max, s.mean);
        if (s.n_nan + s.n_inf > 0) {
            pl_buf_printf(out, "  NaN %lld  Inf %lld", (long long)s.n_nan, (long long)s.n_inf);
        }
    }
    if (file != NULL) pl_buf_printf(out, "  -> %s", file);
    pl_escape_end_line(out, at);
}
