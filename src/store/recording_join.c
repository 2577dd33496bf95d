/* Records combined from others: ranks of a parallel run, each with a part of a value. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "store/recording_int.h"

pl_status pl_recording_join(pl_recording *rec, const char *key, pl_join how, int axis,
                            const char *const *parts, size_t n_parts, pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_JOINED);
    const char **keys = pl_arena_array(arena, n_parts, sizeof *keys);
    if (source == NULL || keys == NULL || n_parts == 0) return pl_fail_memory(err, n_parts);
    const pl_record *first = pl_recording_find(rec, parts[0]);
    for (size_t i = 0; i < n_parts; i++) {
        keys[i] = pl_arena_strdup(arena, parts[i]);
        if (keys[i] == NULL) return pl_fail_memory(err, 1);
    }
    source->join = how;
    source->axis = axis;
    source->parts = keys;
    source->n_parts = n_parts;
    const pl_record like = first != NULL ? *first : (pl_record){ .has_shape = false };
    pl_record *r = pl_recording_add(rec, key, err);
    if (r == NULL) return PL_E_MEMORY;
    r->source = source;
    r->has_data = true;
    r->flags = like.flags;
    r->has_shape = like.has_shape && (how == PL_JOIN_SUM || axis < like.rank);
    if (!r->has_shape) return PL_OK;
    r->dtype = like.dtype;
    r->rank = like.rank;
    memcpy(r->dims, like.dims, sizeof r->dims);
    if (how != PL_JOIN_SUM && !pl_i64_mul(r->dims[axis], (int64_t)n_parts, &r->dims[axis]))
        return pl_fail(err, PL_E_LIMIT, "'%s' is too large", key);
    pl_dims_strides(r->rank, r->dims, r->strides);
    return PL_OK;
}

/* ---- reading ---- */

static pl_status add_up(pl_tensor *const *parts, size_t n, pl_tensor **out, pl_err *err) {
    pl_tensor *sum = NULL;
    const pl_tensor *like = parts[0];
    if (!pl_dtype_is_float(like->dtype))
        return pl_fail(err, PL_E_UNSUPPORTED, "elements of type %s are not added",
                       pl_dtype_name(like->dtype));
    PL_TRY(pl_tensor_new_zero(PL_F64, like->rank, like->dims, &sum, err));
    double *to = sum->data;
    for (size_t i = 0; i < n; i++)
        for (int64_t k = 0; k < sum->n_elements; k++)
            to[k] += pl_tensor_get_f64(parts[i], k);
    const pl_status st = pl_tensor_cast(sum, like->dtype, out, err);
    pl_tensor_unref(sum);
    return st;
}

static pl_status put_together(const pl_record_source *s, pl_tensor *const *parts, pl_tensor **out,
                              pl_err *err) {
    const pl_tensor *like = parts[0];
    const int64_t n = (int64_t)s->n_parts;
    int64_t dims[PL_RANK_MAX], outer = 1, inner = 1;
    if (s->axis >= like->rank)
        return pl_fail(err, PL_E_INVALID, "axis %d of a tensor of rank %d", s->axis, like->rank);
    if (like->dtype == PL_STRING) return pl_fail(err, PL_E_UNSUPPORTED, "strings are not joined");
    memcpy(dims, like->dims, sizeof dims);
    const int64_t length = dims[s->axis];
    if (!pl_i64_mul(length, n, &dims[s->axis]))
        return pl_fail(err, PL_E_LIMIT, "the parts are too large");
    for (int d = 0; d < like->rank; d++)
        *(d < s->axis ? &outer : &inner) *= d == s->axis ? 1 : like->dims[d];
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(like->dtype, like->rank, dims, &t, err));
    const size_t step = (size_t)inner * pl_dtype_bytes(like->dtype);
    for (int64_t r = 0; r < n && t->n_elements > 0; r++) {
        const char *from = parts[r]->data;
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t i = 0; i < length; i++, from += step) {
                const int64_t at = s->join == PL_JOIN_CONCAT ? r * length + i : i * n + r;
                memcpy((char *)t->data + (size_t)(o * n * length + at) * step, from, step);
            }
        }
    }
    *out = t;
    return PL_OK;
}

static pl_status read_parts(const pl_recording *rec, const pl_record_source *s, pl_tensor **parts,
                            pl_err *err) {
    for (size_t i = 0; i < s->n_parts; i++) {
        const pl_record *r = pl_recording_find(rec, s->parts[i]);
        pl_tensor *t = NULL;
        char want[160], have[160];
        if (r == NULL || r->source == NULL || r->source->kind == PL_SOURCE_JOINED)
            return pl_fail(err, PL_E_NOT_FOUND, "its part '%s' is not there", s->parts[i]);
        PL_TRY(pl_recording_read(rec, r, &t, err));
        const pl_status st = pl_tensor_contiguous(t, &parts[i], err);
        pl_tensor_unref(t);
        PL_TRY(st);
        if (parts[i]->dtype != parts[0]->dtype || !pl_tensor_same_shape(parts[i], parts[0]))
            return pl_fail(err, PL_E_INVALID, "'%s' is %s, but '%s' is %s", s->parts[i],
                           pl_tensor_describe(parts[i], have, sizeof have), s->parts[0],
                           pl_tensor_describe(parts[0], want, sizeof want));
    }
    return PL_OK;
}

pl_status pl_joined_read(const pl_recording *rec, const pl_record_source *s, pl_tensor **out,
                         pl_err *err) {
    pl_tensor **parts = pl_calloc(s->n_parts, sizeof(pl_tensor *));
    if (parts == NULL) return pl_fail_memory(err, s->n_parts);
    pl_status st = read_parts(rec, s, parts, err);
    if (st == PL_OK)
        st = s->join == PL_JOIN_SUM ? add_up(parts, s->n_parts, out, err)
                                    : put_together(s, parts, out, err);
    for (size_t i = 0; i < s->n_parts; i++)
        pl_tensor_unref(parts[i]);
    pl_free(parts);
    return st;
}
