/* Writing safetensors: the whole header first, then the tensors one after another. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/le.h"
#include "base/size.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "tensor/file/safetensors.h"
#include "tensor/file/safetensors_int.h"

typedef struct plan {
    pl_safetensors_spec spec; /* dims point into `dims` */
    char *name;
    int64_t dims[PL_RANK_MAX];
    size_t index; /* among the caller's specs */
    size_t n_bytes;
} plan;

struct pl_safetensors_writer {
    pl_file_writer *file;
    plan *plans; /* in the order of the file */
    size_t n_plans, n_written;
};

static bool is_packed(pl_dtype dtype) {
    return *pl_dtype_safetensors(dtype) == '\0';
}

/* ---- checks ---- */

static bool is_utf8(const char *s) {
    for (size_t n = strlen(s); n > 0;) {
        const size_t step = pl_utf8_step(s, n);
        if (step == 0) return false;
        s += step;
        n -= step;
    }
    return true;
}

static pl_status plan_init(plan *p, const pl_safetensors_spec *spec, size_t index, pl_err *err) {
    int64_t n;
    if (strcmp(spec->name, "__metadata__") == 0 || !is_utf8(spec->name))
        return pl_fail(err, PL_E_INVALID, "invalid tensor name '%.200s'", spec->name);
    if (spec->dtype == PL_STRING || !pl_dtype_valid((int64_t)spec->dtype))
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "tensor '%.200s': safetensors cannot hold elements of type %s", spec->name,
                       pl_dtype_name(spec->dtype));
    const bool needs_dim = is_packed(spec->dtype) && pl_dtype_bytes(spec->dtype) > 1;
    if (spec->rank < 0 || spec->rank > PL_RANK_MAX - (needs_dim ? 1 : 0))
        return pl_fail(err, PL_E_LIMIT, "tensor '%.200s' of rank %d", spec->name, spec->rank);
    if (!pl_dims_product(spec->rank, spec->dims, &n) ||
        !pl_size_mul((size_t)n, pl_dtype_bytes(spec->dtype), &p->n_bytes))
        return pl_fail(err, PL_E_LIMIT, "tensor '%.200s' is too large", spec->name);
    p->name = pl_strdup(spec->name);
    if (!p->name) return pl_fail_memory(err, strlen(spec->name) + 1);
    if (spec->rank > 0) memcpy(p->dims, spec->dims, (size_t)spec->rank * sizeof *p->dims);
    p->spec = *spec;
    p->spec.name = p->name;
    p->spec.dims = p->dims;
    p->index = index;
    return PL_OK;
}

static pl_status check_unique(const pl_safetensors_writer *w, pl_err *err) {
    pl_strmap names = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    for (size_t i = 0; i < w->n_plans && st == PL_OK; i++) {
        if (pl_strmap_has(&names, w->plans[i].name))
            st = pl_fail(err, PL_E_INVALID, "two tensors are named '%.200s'", w->plans[i].name);
        else if (pl_strmap_put(&names, w->plans[i].name, &w->plans[i]) != 0)
            st = pl_fail_memory(err, sizeof(pl_strmap_entry));
    }
    pl_strmap_release(&names);
    return st;
}

/* Larger elements first: with a header of a multiple of 8 bytes every tensor is then aligned. */
static int compare_plans(const void *a, const void *b) {
    const plan *x = a, *y = b;
    const size_t sx = is_packed(x->spec.dtype) ? 1 : pl_dtype_bytes(x->spec.dtype);
    const size_t sy = is_packed(y->spec.dtype) ? 1 : pl_dtype_bytes(y->spec.dtype);
    if (sx != sy) return sx > sy ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* ---- header ---- */

void pl_safetensors_put_type(pl_json *json, const char *name, pl_dtype dtype) {
    if (!is_packed(dtype)) return;
    pl_buf key = PL_BUF_INIT;
    pl_buf_puts(&key, PL_SAFETENSORS_DTYPE_KEY);
    pl_buf_puts(&key, name);
    if (!pl_buf_ok(&key)) json->buf->failed = true;
    pl_json_put_string(json, pl_buf_str(&key), pl_dtype_name(dtype));
    pl_buf_release(&key);
}

void pl_safetensors_put_entry(pl_json *json, const char *name, pl_dtype dtype, int rank,
                              const int64_t *dims, uint64_t begin, uint64_t n_bytes) {
    const size_t size = pl_dtype_bytes(dtype);
    const int64_t offsets[2] = { (int64_t)begin, (int64_t)(begin + n_bytes) };
    pl_json_key(json, name);
    pl_json_object_begin(json);
    pl_json_put_string(json, "dtype", is_packed(dtype) ? "U8" : pl_dtype_safetensors(dtype));
    pl_json_key(json, "shape");
    pl_json_array_begin(json);
    for (int i = 0; i < rank; i++)
        pl_json_int(json, dims[i]);
    if (is_packed(dtype) && size > 1) pl_json_int(json, (int64_t)size);
    pl_json_array_end(json);
    pl_json_put_ints(json, "data_offsets", offsets, 2);
    pl_json_object_end(json);
}

static void put_metadata(pl_json *json, const pl_safetensors_writer *w,
                         const pl_safetensors_pair *metadata, size_t n_metadata) {
    bool any = n_metadata > 0;
    for (size_t i = 0; i < w->n_plans; i++)
        any = any || is_packed(w->plans[i].spec.dtype);
    if (!any) return;
    pl_json_key(json, "__metadata__");
    pl_json_object_begin(json);
    for (size_t i = 0; i < n_metadata; i++)
        pl_json_put_string(json, metadata[i].key, metadata[i].value);
    for (size_t i = 0; i < w->n_plans; i++)
        pl_safetensors_put_type(json, w->plans[i].name, w->plans[i].spec.dtype);
    pl_json_object_end(json);
}

static pl_status write_header(pl_safetensors_writer *w, const pl_safetensors_pair *metadata,
                              size_t n_metadata, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_json json;
    uint64_t offset = 0;
    pl_status st = PL_OK;
    pl_json_init(&json, &buf, false);
    pl_json_object_begin(&json);
    put_metadata(&json, w, metadata, n_metadata);
    for (size_t i = 0; i < w->n_plans; i++) {
        const plan *p = &w->plans[i];
        pl_safetensors_put_entry(&json, p->name, p->spec.dtype, p->spec.rank, p->dims, offset,
                                 p->n_bytes);
        if (__builtin_add_overflow(offset, w->plans[i].n_bytes, &offset) || offset > INT64_MAX) {
            st = pl_fail(err, PL_E_LIMIT, "more than 2^63 bytes of tensors");
            goto done;
        }
    }
    pl_json_object_end(&json);
    while (buf.n_bytes % 8 != 0 && pl_buf_ok(&buf))
        pl_buf_putc(&buf, ' ');
    if (!pl_buf_ok(&buf)) {
        st = pl_fail_memory(err, buf.n_bytes);
        goto done;
    }
    if (buf.n_bytes > PL_SAFETENSORS_HEADER_MAX) {
        st = pl_fail(err, PL_E_LIMIT, "header of %zu bytes; safetensors allows %d", buf.n_bytes,
                     PL_SAFETENSORS_HEADER_MAX);
        goto done;
    }
    uint8_t length[8];
    pl_le64_put(length, buf.n_bytes);
    PL_TRY_GOTO(done, st, pl_file_writer_append(w->file, length, 8, err));
    st = pl_file_writer_append(w->file, buf.data, buf.n_bytes, err);
done:
    pl_buf_release(&buf);
    return st;
}

/* ---- life cycle ---- */

pl_status pl_safetensors_writer_open(const char *path, const pl_safetensors_spec *specs,
                                     size_t n_specs, const pl_safetensors_pair *metadata,
                                     size_t n_metadata, pl_safetensors_writer **out, pl_err *err) {
    pl_status st = PL_OK;
    pl_safetensors_writer *w = pl_calloc(1, sizeof *w);
    if (!w) return pl_fail_memory(err, sizeof *w);
    w->plans = pl_calloc(n_specs + 1, sizeof *w->plans);
    if (!w->plans) {
        st = pl_fail(err, PL_E_MEMORY, "out of memory for %zu tensors", n_specs);
        goto done;
    }
    w->n_plans = n_specs;
    for (size_t i = 0; i < n_specs; i++)
        PL_TRY_GOTO(done, st, plan_init(&w->plans[i], &specs[i], i, err));
    PL_TRY_GOTO(done, st, check_unique(w, err));
    qsort(w->plans, n_specs, sizeof *w->plans, compare_plans);
    for (size_t i = 0; i < n_specs; i++)
        w->plans[i].spec.dims = w->plans[i].dims; /* sorting moved the plans */
    PL_TRY_GOTO(done, st, pl_file_writer_open(path, &w->file, err));
    PL_TRY_GOTO(done, st, write_header(w, metadata, n_metadata, err));
    *out = w;
    return PL_OK;
done:
    pl_safetensors_writer_abort_take(w);
    return st;
}

size_t pl_safetensors_writer_next(const pl_safetensors_writer *w) {
    return w->n_written < w->n_plans ? w->plans[w->n_written].index : w->n_plans;
}

pl_status pl_safetensors_writer_put(pl_safetensors_writer *w, const pl_tensor *t, pl_err *err) {
    char have[128], want[128];
    if (w->n_written == w->n_plans)
        return pl_fail(err, PL_E_INTERNAL, "all %zu tensors are already written", w->n_plans);
    const plan *p = &w->plans[w->n_written];
    bool fits = t->dtype == p->spec.dtype && t->rank == p->spec.rank;
    for (int i = 0; fits && i < t->rank; i++)
        fits = t->dims[i] == p->dims[i];
    if (!fits)
        return pl_fail(err, PL_E_INVALID, "tensor '%.200s' is %s, but was announced as %s%s",
                       p->name, pl_tensor_describe(t, have, sizeof have),
                       pl_dtype_name(p->spec.dtype),
                       pl_dims_describe(p->spec.rank, p->dims, want, sizeof want));
    pl_tensor *c = NULL;
    pl_status st = pl_tensor_contiguous(t, &c, err);
    if (st == PL_OK && p->n_bytes > 0)
        st = pl_file_writer_append(w->file, c->data, p->n_bytes, err);
    if (st == PL_OK) w->n_written++;
    pl_tensor_unref(c);
    return st;
}

static void writer_release(pl_safetensors_writer *w) {
    for (size_t i = 0; w->plans && i < w->n_plans; i++)
        pl_free(w->plans[i].name);
    pl_free(w->plans);
    pl_free(w);
}

pl_status pl_safetensors_writer_commit_take(pl_safetensors_writer *w, pl_err *err) {
    pl_status st;
    if (w->n_written < w->n_plans) {
        st = pl_fail(err, PL_E_INTERNAL, "tensor '%.200s' was announced but not written",
                     w->plans[w->n_written].name);
        pl_file_writer_abort_take(w->file);
    } else {
        st = pl_file_writer_commit_take(w->file, err);
    }
    writer_release(w);
    return st;
}

void pl_safetensors_writer_abort_take(pl_safetensors_writer *w) {
    if (!w) return;
    pl_file_writer_abort_take(w->file);
    writer_release(w);
}
