/* plumb_recorder_*: for engines that record themselves. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "flows/api/options.h"
#include "flows/provenance.h"
#include "kernels/cpu.h"
#include "store/recorder.h"

struct plumb_recorder {
    pl_recorder *recorder;
};

/* Hashes the bytes of the file; plumb need not be able to read the engine's model. */
static pl_status put_model(pl_json *j, const char *path, pl_err *err) {
    pl_file_map *map = NULL;
    char hex[PL_HASH128_HEX];
    PL_TRY(pl_file_map_open(path, &map, err));
    pl_hash128_hex(pl_hash128_of(map->data, map->n_bytes), hex);
    pl_file_map_unref(map);
    pl_json_put_string(j, "model", path);
    pl_json_put_string(j, "model_file_hash", hex);
    return PL_OK;
}

static pl_status set_provenance(pl_recorder *r, const plumb_recorder_options *o, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_json j;
    pl_status st = PL_OK;
    pl_json_init(&j, &buf, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "backend", o->engine != NULL ? o->engine : "unknown");
    if (o->engine_version != NULL) pl_json_put_string(&j, "backend_version", o->engine_version);
    if (o->notes != NULL) pl_json_put_string(&j, "notes", o->notes);
    if (o->model != NULL) st = put_model(&j, o->model, err);
    pl_provenance_put_machine(&j, pl_cpu_features());
    pl_json_object_end(&j);
    if (st == PL_OK && !pl_buf_ok(&buf)) st = pl_fail_memory(err, buf.n_bytes);
    if (st == PL_OK) st = pl_recorder_set_provenance(r, pl_buf_str(&buf), err);
    pl_buf_release(&buf);
    return st;
}

plumb_status plumb_recorder_open(const char *path, const plumb_recorder_options *options,
                                 plumb_recorder **out, plumb_error *err) {
    plumb_recorder_options o;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(path);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_RECORDER, options, &o, err));
    plumb_recorder *r = pl_calloc(1, sizeof(*r));
    if (r == NULL) return pl_fail_memory(err, sizeof(*r));
    const pl_recorder_options inner = { .stats_only = o.stats_only != 0 };
    pl_status st = pl_recorder_open(path, &inner, &r->recorder, err);
    if (st == PL_OK) st = set_provenance(r->recorder, &o, err);
    if (st == PL_OK) {
        *out = r;
    } else {
        plumb_recorder_abandon(r);
    }
    return st;
}

/* A tensor over the engine's memory, for the length of the call. */
static pl_status borrow(plumb_dtype dtype, int rank, const int64_t *dims, const int64_t *strides,
                        const void *data, pl_tensor **out, pl_err *err) {
    static const int64_t one = 1;
    pl_tensor *base = NULL;
    if (strides == NULL) {
        return pl_tensor_borrow((pl_dtype)dtype, rank, dims, data, NULL, NULL, out, err);
    }
    PL_TRY(pl_tensor_borrow((pl_dtype)dtype, 1, &one, data, NULL, NULL, &base, err));
    const pl_status st = pl_tensor_view(base, rank, dims, strides, 0, out, err);
    pl_tensor_unref(base);
    return st;
}

plumb_status plumb_recorder_write(plumb_recorder *r, const char *name, plumb_dtype dtype, int rank,
                                  const int64_t *dims, const int64_t *strides, const void *data,
                                  plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    int64_t n = 0;
    pl_status st = PL_OK;
    if (r == NULL) {
        st = pl_fail(&err, PL_E_USAGE, "plumb_recorder_write is NULL: recorder");
    } else if (name == NULL) {
        st = pl_fail(&err, PL_E_USAGE, "a value without a name");
    } else if (!pl_dtype_valid((int64_t)dtype) || dtype == PLUMB_STRING) {
        st =
            pl_fail(&err, PL_E_USAGE, "'%s': element type %d cannot be recorded", name, (int)dtype);
    } else if (rank < 0 || rank > PL_RANK_MAX || (rank > 0 && dims == NULL)) {
        st = pl_fail(&err, PL_E_USAGE, "'%s': rank %d, expected at most %d", name, rank,
                     PL_RANK_MAX);
    } else if (!pl_dims_product(rank, dims, &n)) {
        st = pl_fail(&err, PL_E_USAGE, "'%s': a dim is negative or the shape is too large", name);
    } else if (data == NULL && n > 0) {
        st = pl_fail(&err, PL_E_USAGE, "'%s': no data", name);
    } else {
        st = borrow(dtype, rank, dims, strides, data != NULL ? data : "", &t, &err);
    }
    if (st == PL_OK) {
        st = pl_recorder_put(r->recorder, &(pl_record_info){ .value = name }, t, &err);
    }
    pl_tensor_unref(t);
    return pl_api_return(st, &err, error);
}

plumb_status plumb_recorder_close(plumb_recorder *recorder, plumb_error *err) {
    PL_REQUIRE(recorder);
    const pl_status st = pl_recorder_commit_take(recorder->recorder, err);
    pl_free(recorder);
    return st;
}

void plumb_recorder_abandon(plumb_recorder *r) {
    if (r == NULL) return;
    pl_recorder_abort_take(r->recorder);
    pl_free(r);
}
