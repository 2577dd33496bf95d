/* plumb_store_*: listing, verifying and cleaning a content store. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/json.h"
#include "flows/api/options.h"
#include "store/recording.h"
#include "store/store.h"

typedef struct listing {
    plumb_format format;
    bool only_bad;
    pl_buf buf;
    pl_json json;
    uint64_t n, n_bad, n_bytes;
} listing;

static void listing_begin(listing *l, const char *key) {
    if (l->format != PLUMB_JSON) return;
    pl_json_init(&l->json, &l->buf, true);
    pl_json_object_begin(&l->json);
    pl_json_key(&l->json, key);
    pl_json_array_begin(&l->json);
}

static pl_status listing_add(void *ctx, const char *name, uint64_t n_bytes, const char *problem,
                             pl_err *err) {
    listing *l = ctx;
    (void)err;
    l->n++;
    l->n_bytes += n_bytes;
    l->n_bad += problem != NULL;
    if (l->only_bad && problem == NULL) return PL_OK;
    if (l->format != PLUMB_JSON) {
        if (problem != NULL) {
            pl_buf_printf(&l->buf, "%s\n", problem);
        } else {
            pl_buf_printf(&l->buf, "%12" PRIu64 "  %s\n", n_bytes, name);
        }
        return PL_OK;
    }
    pl_json_object_begin(&l->json);
    pl_json_put_string(&l->json, "name", name);
    pl_json_put_int(&l->json, "bytes", (int64_t)n_bytes);
    if (problem != NULL) pl_json_put_string(&l->json, "problem", problem);
    pl_json_object_end(&l->json);
    return PL_OK;
}

static void listing_end(listing *l, const char *what) {
    if (l->format == PLUMB_JSON) {
        pl_json_array_end(&l->json);
        pl_json_put_int(&l->json, "count", (int64_t)l->n);
        pl_json_put_int(&l->json, "bytes", (int64_t)l->n_bytes);
        pl_json_put_int(&l->json, "bad", (int64_t)l->n_bad);
        pl_json_object_end(&l->json);
        pl_buf_putc(&l->buf, '\n');
    } else {
        pl_buf_printf(&l->buf, "%" PRIu64 " %s, %" PRIu64 " bytes, %" PRIu64 " bad\n", l->n, what,
                      l->n_bytes, l->n_bad);
    }
}

/* The store in a session's folder, or `path` itself. */
static pl_status store_at(const char *path, pl_dir **out, pl_err *err) {
    pl_dir *dir = NULL;
    pl_status st = pl_dir_open(path, &dir, err);
    if (st == PL_E_NOT_FOUND) return pl_fail(err, st, "no store at '%s'", path);
    if (st != PL_OK) return st;
    if (pl_dir_look(dir, "session.json", NULL) == PL_KIND_NONE) {
        *out = dir;
        return PL_OK;
    }
    st = pl_dir_open_in(dir, "store", out, err);
    if (st == PL_E_NOT_FOUND) st = pl_fail(err, st, "no store at '%s/store'", path);
    pl_dir_close(dir);
    return st;
}

static pl_status list_store(const char *path, bool check, listing *l, pl_err *err) {
    pl_store *store = NULL;
    pl_dir *dir = NULL;
    PL_TRY(store_at(path, &dir, err));
    pl_status st = pl_store_open_in(dir, PL_STORE_READ, &store, err);
    pl_dir_close(dir);
    if (st != PL_OK) return st;
    listing_begin(l, "blobs");
    st = pl_store_each(store, check, listing_add, l, err);
    listing_end(l, check ? "checked" : "blobs");
    pl_store_close(store);
    return st;
}

static pl_status list_recording(const char *path, listing *l, pl_err *err) {
    pl_recording *rec = NULL;
    PL_TRY(pl_recording_open(path, &rec, err));
    listing_begin(l, "records");
    for (size_t i = 0; i < rec->n_records; i++) {
        pl_err problem = PL_ERR_INIT;
        const pl_record *r = &rec->records[i];
        uint64_t n_bytes = 0;
        if (!r->has_data) continue;
        const pl_status st = pl_recording_check_record(rec, r, &n_bytes, &problem);
        (void)listing_add(l, r->key, n_bytes, st == PL_OK ? NULL : problem.message, err);
    }
    listing_end(l, "checked");
    pl_recording_close(rec);
    return PL_OK;
}

plumb_status plumb_store_ls(const char *dir, plumb_format format, char **text, plumb_error *err) {
    listing l = { .format = format, .buf = PL_BUF_INIT };
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(dir);
    pl_status st = list_store(dir, false, &l, err);
    if (st == PL_OK) st = pl_api_text_take(&l.buf, text, err);
    pl_buf_release(&l.buf);
    return st;
}

plumb_status plumb_store_verify(const char *path, plumb_format format, size_t *n_bad, char **text,
                                plumb_error *err) {
    listing l = { .format = format, .only_bad = true, .buf = PL_BUF_INIT };
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(n_bad);
    PL_REQUIRE(path);
    pl_status st =
        pl_path_is_dir(path) ? list_store(path, true, &l, err) : list_recording(path, &l, err);
    if (st == PL_OK) st = pl_api_text_take(&l.buf, text, err);
    if (st == PL_OK) *n_bad = (size_t)l.n_bad;
    pl_buf_release(&l.buf);
    return st;
}

plumb_status plumb_store_gc(const char *dir, int dry_run, plumb_format format, char **text,
                            plumb_error *err) {
    pl_store_gc_result result;
    pl_buf out = PL_BUF_INIT;
    pl_json j;
    pl_dir *store = NULL;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(dir);
    pl_status st = store_at(dir, &store, err);
    if (st == PL_OK) st = pl_store_gc(store, dry_run != 0, &result, err);
    pl_dir_close(store);
    if (st == PL_OK && format == PLUMB_JSON) {
        pl_json_init(&j, &out, true);
        pl_json_object_begin(&j);
        pl_json_put_bool(&j, "dry_run", dry_run != 0);
        pl_json_put_int(&j, "kept", (int64_t)result.n_kept);
        pl_json_put_int(&j, "bytes_kept", (int64_t)result.bytes_kept);
        pl_json_put_int(&j, "removed", (int64_t)result.n_removed);
        pl_json_put_int(&j, "bytes_removed", (int64_t)result.bytes_removed);
        pl_json_put_int(&j, "temporaries", (int64_t)result.n_temporaries);
        pl_json_object_end(&j);
        pl_buf_putc(&out, '\n');
    } else if (st == PL_OK) {
        pl_buf_printf(&out,
                      "%s %" PRIu64 " blobs (%" PRIu64 " bytes) and %" PRIu64
                      " temporaries, kept %" PRIu64 " blobs (%" PRIu64 " bytes)\n",
                      dry_run != 0 ? "would remove" : "removed", result.n_removed,
                      result.bytes_removed, result.n_temporaries, result.n_kept, result.bytes_kept);
    }
    if (st == PL_OK) st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}
