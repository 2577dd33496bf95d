/* plumb_recording: any recording, opened for reading. */
#include "base/alloc.h"
#include "flows/api/options.h"
#include "store/recording.h"

struct plumb_recording {
    pl_recording *recording;
};

plumb_status plumb_recording_open(const char *path, plumb_recording **out, plumb_error *err) {
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(path);
    plumb_recording *r = pl_calloc(1, sizeof(*r));
    if (r == NULL) return pl_fail_memory(err, sizeof(*r));
    const pl_status st = pl_recording_open(path, &r->recording, err);
    if (st == PL_OK) {
        *out = r;
    } else {
        pl_free(r);
    }
    return st;
}

void plumb_recording_close(plumb_recording *recording) {
    if (recording == NULL) return;
    pl_recording_close(recording->recording);
    pl_free(recording);
}

const char *plumb_recording_format(const plumb_recording *recording) {
    return recording == NULL ? "" : recording->recording->format;
}

size_t plumb_recording_count(const plumb_recording *recording) {
    return recording == NULL ? 0 : recording->recording->n_records;
}

int plumb_recording_get(const plumb_recording *recording, size_t i, plumb_recorded *out) {
    if (i >= plumb_recording_count(recording)) return pl_struct_fill(out, NULL, 0);
    const pl_record *r = &recording->recording->records[i];
    const plumb_recorded x = { .name = r->key,
                               .value = r->value,
                               .node = r->node,
                               .op = r->op,
                               .module = r->module,
                               .call = r->call,
                               .dtype = r->has_shape ? (plumb_dtype)r->dtype : (plumb_dtype)0,
                               .rank = r->has_shape ? r->rank : 0,
                               .dims = r->dims,
                               .is_input = (r->flags & PL_RECORD_INPUT) != 0,
                               .is_output = (r->flags & PL_RECORD_OUTPUT) != 0,
                               .has_data = r->has_data };
    return pl_struct_fill(out, &x, sizeof(x));
}

plumb_status plumb_recording_read(const plumb_recording *recording, const char *name,
                                  plumb_tensor **out, plumb_error *err) {
    pl_tensor *t = NULL, *dense = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(recording);
    PL_REQUIRE(name);
    const pl_record *r = pl_recording_find(recording->recording, name);
    if (r == NULL)
        return pl_fail(err, PL_E_NOT_FOUND, "%s: no value '%s'", recording->recording->path, name);
    if (r->kind != PL_TYPE_TENSOR)
        return pl_fail(err, PL_E_UNSUPPORTED, "'%s' is a sequence or an optional: read its items",
                       name);
    PL_TRY(pl_recording_read(recording->recording, r, &t, err));
    const pl_status st = pl_tensor_contiguous(t, &dense, err);
    pl_tensor_unref(t);
    if (st == PL_OK) *out = (plumb_tensor *)dense;
    return st;
}
