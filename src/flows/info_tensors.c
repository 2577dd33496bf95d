/* Contents of a file of tensors without a graph: GGUF with its metadata, any recording. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/escape.h"
#include "base/json.h"
#include "flows/api.h"
#include "flows/api/options.h"
#include "store/recording.h"
#include "tensor/file/gguf.h"

enum { ITEMS_SHOWN = 8 };

typedef struct contents {
    const char *path;
    pl_gguf *gguf; /* or the recording */
    pl_recording *recording;
} contents;

static const char *format_of(const contents *c) {
    if (c->gguf != NULL) return "gguf";
    return c->recording != NULL ? c->recording->format : "";
}

typedef struct tensor_line {
    const char *name, *type; /* type: of the blocks, or of the elements */
    bool has_shape;
    int rank;
    const int64_t *dims;
    uint64_t n_bytes; /* in the file; 0 where unknown */
} tensor_line;

static size_t count_lines(const contents *c) {
    if (c->gguf != NULL) return c->gguf->n_entries;
    return c->recording != NULL ? c->recording->n_records : 0;
}

static tensor_line line_at(const contents *c, size_t i) {
    if (c->gguf != NULL) {
        const pl_gguf_entry *e = &c->gguf->entries[i];
        return (tensor_line){ e->name, e->type->name, true, e->rank, e->dims, e->n_bytes };
    }
    const pl_record *r = &c->recording->records[i];
    int64_t n = 0;
    const bool known = r->has_shape && pl_dims_product(r->rank, r->dims, &n);
    return (tensor_line){ r->key,  known ? pl_dtype_name(r->dtype) : "",  known, r->rank,
                          r->dims, (uint64_t)n * pl_dtype_bytes(r->dtype) };
}

/* ---- text ---- */

static void put_metadata(const pl_gguf *file, pl_buf *out) {
    pl_buf_printf(out, "metadata:\n");
    for (size_t i = 0; i < file->n_metadata; i++) {
        const pl_gguf_pair *p = &file->metadata[i];
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "  %-40s ", p->key);
        pl_gguf_put_value(out, p, ITEMS_SHOWN);
        if (p->is_array)
            pl_buf_printf(out, "  (%" PRIu64 " of type %s)", p->n_items,
                          pl_gguf_kind_name(p->kind));
        pl_escape_end_line(out, at);
    }
}

static void put_text(const contents *c, pl_buf *out) {
    const size_t n = count_lines(c);
    uint64_t n_bytes = 0;
    size_t at = out->n_bytes;
    for (size_t i = 0; i < n; i++)
        n_bytes += line_at(c, i).n_bytes;
    pl_buf_printf(out, "%s: ", c->path);
    if (c->gguf != NULL)
        pl_buf_printf(out, "GGUF version %u", c->gguf->version);
    else
        pl_buf_puts(out, format_of(c));
    pl_buf_printf(out, ", %zu tensor%s (%.1f MB)", n, pl_plural(n), 1e-6 * (double)n_bytes);
    pl_escape_end_line(out, at);
    if (c->gguf != NULL) put_metadata(c->gguf, out);
    pl_buf_puts(out, "tensors:\n");
    for (size_t i = 0; i < n; i++) {
        const tensor_line line = line_at(c, i);
        char shape[200] = "";
        if (line.has_shape) pl_dims_describe(line.rank, line.dims, shape, sizeof shape);
        at = out->n_bytes;
        pl_buf_printf(out, "  %-40s %s%s", line.name, line.type, shape);
        pl_escape_end_line(out, at);
    }
}

/* ---- JSON ---- */

/* Numbers in metadata are also written as text: 64-bit ones may not fit into a double. */
static void put_metadata_json(const pl_gguf *file, pl_json *j) {
    pl_json_key(j, "metadata");
    pl_json_object_begin(j);
    for (size_t i = 0; i < file->n_metadata; i++) {
        const pl_gguf_pair *p = &file->metadata[i];
        pl_buf value = PL_BUF_INIT;
        pl_gguf_put_value(&value, p, ITEMS_SHOWN);
        if (!pl_buf_ok(&value)) j->buf->failed = true;
        pl_json_key(j, p->key);
        pl_json_object_begin(j);
        pl_json_put_string(j, "type", pl_gguf_kind_name(p->kind));
        if (p->is_array) pl_json_put_int(j, "items", (int64_t)p->n_items);
        pl_json_put_string(j, "value", pl_buf_str(&value));
        pl_json_object_end(j);
        pl_buf_release(&value);
    }
    pl_json_object_end(j);
}

static void put_json(const contents *c, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "path", c->path);
    pl_json_put_string(&j, "format", format_of(c));
    if (c->gguf != NULL) {
        pl_json_put_int(&j, "version", c->gguf->version);
        put_metadata_json(c->gguf, &j);
    }
    pl_json_key(&j, "tensors");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < count_lines(c); i++) {
        const tensor_line line = line_at(c, i);
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "name", line.name);
        pl_json_put_string(&j, "type", line.type);
        if (line.has_shape) pl_json_put_ints(&j, "shape", line.dims, (size_t)line.rank);
        pl_json_put_int(&j, "bytes", (int64_t)line.n_bytes);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

/* ---- opening ---- */

static pl_status open_contents(contents *c, pl_err *err) {
    pl_file_map *map = NULL;
    pl_status st = PL_OK;
    if (pl_path_is_dir(c->path)) return pl_recording_open(c->path, &c->recording, err);
    PL_TRY(pl_file_map_open(c->path, &map, err));
    if (pl_gguf_sniff(map->data, map->n_bytes)) {
        st = pl_gguf_open(map, &c->gguf, err);
        if (st != PL_OK) st = pl_err_wrap(err, st, "%s", c->path);
    } else {
        st = pl_recording_open_map(map, c->path, &c->recording, err);
    }
    pl_file_map_unref(map);
    return st;
}

plumb_status plumb_info_tensors(const char *path, plumb_format format, char **text,
                                plumb_error *err) {
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(path);
    contents c = { .path = path };
    PL_TRY(pl_api_settle(open_contents(&c, err), err));
    if (format == PLUMB_JSON) {
        put_json(&c, &out);
    } else {
        put_text(&c, &out);
    }
    pl_gguf_close(c.gguf);
    pl_recording_close(c.recording);
    return pl_api_text_take(&out, text, err);
}
