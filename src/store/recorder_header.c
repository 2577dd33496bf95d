/* The header of a recording: a safetensors header whose metadata holds plumb's tuples as JSON. */

#include "base/json.h"
#include "store/recorder_int.h"
#include "tensor/file/safetensors.h"

static const char *const flag_names[PL_RECORD_FLAGS] = { "input", "output", "strided",
                                                         "broadcast" };

const char *pl_record_flag_name(unsigned flag) {
    for (unsigned i = 0; i < PL_RECORD_FLAGS; i++)
        if (flag == 1u << i) return flag_names[i];
    return "";
}

static void put_optional(pl_json *j, const char *key, const char *text) {
    if (text != NULL && *text != '\0') pl_json_put_string(j, key, text);
}

static void put_container(pl_json *j, const pl_recorded *r) {
    pl_json_put_string(j, "kind", r->kind == PL_TYPE_SEQUENCE ? "sequence" : "optional");
    put_optional(j, "dtype", r->dtype == PL_UNDEFINED ? NULL : pl_dtype_name(r->dtype));
    pl_json_key(j, "items");
    pl_json_array_begin(j);
    for (size_t i = 0; i < r->n_items; i++)
        pl_json_string(j, r->items[i]);
    pl_json_array_end(j);
}

static void put_tensor(pl_json *j, const pl_recorded *r, bool stats_only) {
    char hex[PL_HASH128_HEX];
    pl_json_put_string(j, "dtype", pl_dtype_name(r->dtype));
    pl_json_put_ints(j, "shape", r->dims, (size_t)r->rank);
    pl_json_put_ints(j, "strides", r->strides, (size_t)r->rank);
    pl_json_put_int(j, "offset", 0);
    pl_hash128_hex(r->hash, hex);
    pl_json_put_string(j, "hash", hex);
    pl_json_key(j, "flags");
    pl_json_array_begin(j);
    for (unsigned i = 0; i < PL_RECORD_FLAGS; i++)
        if ((r->info.flags & 1u << i) != 0) pl_json_string(j, flag_names[i]);
    pl_json_array_end(j);
    if (r->info.left_out != NULL)
        pl_json_put_ints(j, "left_out", r->info.left_out->at, 2 * r->info.left_out->n);
    if (stats_only) {
        pl_json_key(j, "stats");
        pl_stats_put(j, &r->stats);
    }
}

/* The metadata tuple of one value. */
static void put_record(pl_json *j, const pl_recorded *r, bool stats_only) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "key", r->key);
    pl_json_put_string(j, "value", r->info.value);
    put_optional(j, "node", r->info.node);
    put_optional(j, "op", r->info.op);
    put_optional(j, "module", r->info.module);
    put_optional(j, "graph", r->info.graph);
    if (r->info.call > 0) pl_json_put_int(j, "call", r->info.call);
    if (r->info.n_stands_for > 0) {
        pl_json_key(j, "stands_for");
        pl_json_array_begin(j);
        for (size_t i = 0; i < r->info.n_stands_for; i++)
            pl_json_string(j, r->info.stands_for[i]);
        pl_json_array_end(j);
    }
    if (r->kind == PL_TYPE_TENSOR) {
        put_tensor(j, r, stats_only);
    } else {
        put_container(j, r);
    }
    pl_json_object_end(j);
}

static pl_status put_values(pl_json *j, const pl_recorder_layout *l, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_json inner;
    pl_json_init(&inner, &buf, false);
    pl_json_array_begin(&inner);
    for (size_t i = 0; i < l->n_records; i++)
        put_record(&inner, l->records[i], l->stats_only);
    pl_json_array_end(&inner);
    const pl_status st = pl_buf_ok(&buf) ? PL_OK : pl_fail_memory(err, buf.n_bytes);
    if (st == PL_OK) pl_json_put_string(j, PL_RECORDING_VALUES_KEY, pl_buf_str(&buf));
    pl_buf_release(&buf);
    return st;
}

static void put_entry(pl_json *j, const pl_recorder_layout *l, const pl_recorded *r) {
    const uint64_t begin = l->starts[r->place] + r->offset;
    const int64_t n_bytes = (int64_t)r->n_bytes;
    if (r->dtype == PL_STRING) { /* safetensors has no strings */
        pl_safetensors_put_entry(j, r->key, PL_U8, 1, &n_bytes, begin, r->n_bytes);
    } else {
        pl_safetensors_put_entry(j, r->key, r->dtype, r->rank, r->dims, begin, r->n_bytes);
    }
}

pl_status pl_recorder_header(const pl_recorder_layout *l, pl_buf *out, pl_err *err) {
    pl_json j;
    pl_json_init(&j, out, false);
    pl_json_object_begin(&j);
    pl_json_key(&j, "__metadata__");
    pl_json_object_begin(&j);
    pl_json_put_string(&j, PL_RECORDING_VERSION_KEY, PL_RECORDING_VERSION);
    PL_TRY(put_values(&j, l, err));
    if (l->provenance != NULL) pl_json_put_string(&j, PL_RECORDING_PROVENANCE_KEY, l->provenance);
    if (l->graph != NULL) pl_json_put_string(&j, PL_RECORDING_GRAPH_KEY, l->graph);
    for (size_t i = 0; i < l->n_records; i++) {
        const pl_recorded *r = l->records[i];
        /* Strings have their type in the tuple only. */
        if (r->place != PL_PLACE_NONE && r->dtype != PL_STRING)
            pl_safetensors_put_type(&j, r->key, r->dtype);
    }
    pl_json_object_end(&j);
    for (size_t i = 0; i < l->n_records; i++)
        if (l->records[i]->place != PL_PLACE_NONE) put_entry(&j, l, l->records[i]);
    pl_json_object_end(&j);
    if (!pl_buf_ok(out)) return pl_fail_memory(err, out->n_bytes);
    if (out->n_bytes <= PL_SAFETENSORS_HEADER_MAX) return PL_OK;
    return pl_fail(err, PL_E_LIMIT, "header of %zu bytes for %zu values; safetensors allows %d",
                   out->n_bytes, l->n_records, PL_SAFETENSORS_HEADER_MAX);
}
