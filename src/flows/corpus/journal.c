#include "flows/corpus/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flows/corpus/corpus_json.h"

enum {
    LINE_MAX_BYTES = 64 << 20, /* a result has at most 1 MB */
    STEPS_MAX = 100
};

/* ---- reading ---- */

static pl_status entry_of(pl_journal_read *r, pl_arena *arena, const char *key,
                          pl_journal_entry **out, pl_err *err) {
    pl_journal_entry *e = pl_strmap_get(&r->entries, key);
    if (e == NULL) {
        e = pl_arena_alloc(arena, sizeof *e);
        if (e == NULL || pl_strmap_put(&r->entries, key, e) != 0)
            return pl_fail_memory(err, sizeof *e);
        e->key = key;
    }
    *out = e;
    return PL_OK;
}

/* A process ended: after a crash the running items are noted, after a regular end they are not. */
static void end_process(pl_journal_read *r, bool death) {
    for (pl_journal_entry *e = r->started; e != NULL; e = e->next_started) {
        if (e->in_flight && death) e->n_deaths++;
        e->in_flight = e->is_started = false;
    }
    r->started = NULL;
}

/* The steps of an item may be in the journals of several ranks, in any order: the last step counts.
 */
static pl_status take_part(pl_journal_entry *e, const pl_json_value *v, pl_err *err) {
    const size_t n = pl_member_count(v, "n");
    const char *text = pl_member_text(v, "so_far");
    double seconds = 0;
    if (n == 0 || n > STEPS_MAX || text[0] == '\0')
        return pl_fail(err, PL_E_FORMAT, "not a line of a journal");
    (void)pl_json_number(pl_json_find(v, "seconds"), &seconds);
    e->seconds += seconds;
    if (n <= e->n_steps) return PL_OK;
    e->n_steps = (unsigned)n;
    e->so_far = text;
    return PL_OK;
}

static pl_status read_line(pl_journal_read *r, const pl_json_value *v, pl_arena *arena,
                           pl_err *err) {
    const char *kind = pl_member_text(v, "t"), *key = pl_member_text(v, "key");
    pl_journal_entry *e = NULL;
    if (strcmp(kind, "open") == 0 || strcmp(kind, "stop") == 0) {
        end_process(r, kind[0] == 'o');
        return PL_OK;
    }
    const bool done = strcmp(kind, "done") == 0, part = strcmp(kind, "part") == 0;
    const pl_json_value *result = pl_json_find(v, "result");
    if ((!done && !part && strcmp(kind, "start") != 0) || key[0] == '\0' ||
        (done && result == NULL))
        return pl_fail(err, PL_E_FORMAT, "not a line of a journal");
    PL_TRY(entry_of(r, arena, key, &e, err));
    e->in_flight = !done && !part;
    if (part) return take_part(e, v, err);
    if (!done && !e->is_started) {
        e->is_started = true;
        e->next_started = r->started;
        r->started = e;
    }
    if (!done) return PL_OK;
    if (e->result != NULL) {
        r->n_repeated++;
        return PL_OK;
    }
    double seconds = 0;
    e->result = result;
    (void)pl_json_number(pl_json_find(v, "seconds"), &seconds);
    e->seconds += seconds;
    return PL_OK;
}

pl_status pl_journal_parse(const char *text, size_t n, const char *name, pl_arena *arena,
                           pl_journal_read *out, pl_err *err) {
    size_t number = 0;
    for (const char *at = text, *end = text + n; at < end;) {
        const pl_json_value *v = NULL;
        const size_t left = (size_t)(end - at);
        const char *stop = memchr(at, '\n', left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES);
        number++;
        if (stop == NULL && left >= LINE_MAX_BYTES)
            return pl_fail(err, PL_E_LIMIT, "%.300s:%zu: the line is too long", name, number);
        if (stop == NULL) break; /* cut off by a crash */
        pl_status st = pl_json_read(at, (size_t)(stop - at), arena, &v, err);
        if (st == PL_OK) st = read_line(out, v, arena, err);
        if (st != PL_OK) return pl_err_wrap(err, st, "%.300s:%zu", name, number);
        at = stop + 1;
    }
    end_process(out, true);
    return PL_OK;
}

pl_status pl_journal_read_all(const pl_dir *out_dir, pl_arena *arena, pl_journal_read *out,
                              pl_err *err) {
    pl_dir_list names = { 0 };
    pl_dir *parts = NULL;
    PL_TRY(pl_dir_open_in(out_dir, "parts", &parts, err));
    pl_status st = pl_dir_names(parts, ".", &names, err);
    for (size_t i = 0; st == PL_OK && i < names.n_names; i++) {
        pl_file_map *map = NULL;
        if (!pl_path_has_suffix(names.names[i], ".jsonl")) continue;
        st = pl_dir_map(parts, names.names[i], &map, err);
        if (st == PL_OK)
            st = pl_journal_parse((const char *)map->data, map->n_bytes, names.names[i], arena, out,
                                  err);
        pl_file_map_unref(map);
    }
    pl_dir_list_free(&names);
    pl_dir_close(parts);
    return st;
}

void pl_journal_read_release(pl_journal_read *read) {
    pl_strmap_release(&read->entries);
}

static bool ends_regularly(const char *text, size_t n) {
    static const char stop[] = "{\"t\":\"stop\"}\n";
    const size_t k = sizeof stop - 1;
    return n >= k && memcmp(text + n - k, stop, k) == 0;
}

bool pl_journal_is_left(const pl_dir *out_dir, const char *name) {
    pl_file_map *map = NULL;
    int fd = -1;
    if (pl_dir_open_file(out_dir, name, &fd, NULL) != PL_OK) return false;
    bool left = flock(fd, LOCK_SH | LOCK_NB) == 0;
    (void)close(fd);
    if (left && pl_dir_map(out_dir, name, &map, NULL) == PL_OK)
        left = !ends_regularly((const char *)map->data, map->n_bytes);
    pl_file_map_unref(map);
    return left;
}

void pl_journal_put_unfinished(const pl_dir *out_dir, const char *name, pl_buf *out) {
    pl_file_map *map = NULL;
    pl_journal_read read = { 0 };
    pl_arena *arena = pl_arena_new();
    if (arena != NULL && pl_dir_map(out_dir, name, &map, NULL) == PL_OK)
        (void)pl_journal_parse((const char *)map->data, map->n_bytes, name, arena, &read, NULL);
    for (size_t i = 0; i < read.entries.n_entries; i++) {
        const pl_journal_entry *e = read.entries.entries[i].value;
        if (e->result == NULL && e->n_deaths > 0)
            pl_buf_printf(out, "%s'%.200s'", out->n_bytes > 0 ? ", " : "", e->key);
    }
    pl_journal_read_release(&read);
    pl_file_map_unref(map);
    pl_arena_free(arena);
}

/* ---- writing ---- */

/* The position after the last newline; -1 on failure. */
static off_t whole_lines(int fd) {
    char chunk[4096];
    const off_t all = lseek(fd, 0, SEEK_END);
    for (off_t end = all; end > 0;) {
        if (all - end > LINE_MAX_BYTES) {
            errno = EFBIG;
            return -1;
        }
        const off_t begin = end > (off_t)sizeof chunk ? end - (off_t)sizeof chunk : 0;
        const ssize_t n = pread(fd, chunk, (size_t)(end - begin), begin);
        if (n <= 0) return -1;
        for (ssize_t i = n; i > 0; i--)
            if (chunk[i - 1] == '\n') return begin + i;
        end = begin;
    }
    return 0;
}

pl_status pl_journal_open(const pl_dir *out_dir, const char *name, bool resume, pl_journal *out,
                          pl_err *err) {
    pl_status st = PL_OK;
    *out = (pl_journal){ .fd = -1, .path = pl_path_join(pl_dir_path(out_dir), name) };
    pthread_mutex_init(&out->mutex, NULL);
    if (out->path == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(fail, st, pl_dir_open_lock(out_dir, name, &out->fd, err));
    if (flock(out->fd, LOCK_EX | LOCK_NB) != 0) {
        st = errno == EWOULDBLOCK
                 ? pl_fail(err, PL_E_EXISTS, "'%s': another plumb is working on it", out->path)
                 : pl_fail_errno(err, errno, "lock", out->path);
        goto fail;
    }
    const off_t end = whole_lines(out->fd);
    if (end < 0 || (resume && ftruncate(out->fd, end) != 0)) {
        st = pl_fail_errno(err, errno, "read", out->path);
        goto fail;
    }
    if (end > 0 && !resume) {
        st = pl_fail(
            err, PL_E_EXISTS,
            "'%s' already exists; option 'resume' goes on with it, or choose another output",
            out->path);
        goto fail;
    }
    if (lseek(out->fd, 0, SEEK_END) >= 0 && pl_sync_fd(out->fd))
        return pl_dir_sync(out_dir, "parts", err);
    st = pl_fail_errno(err, errno, "write", out->path);
fail:
    pl_journal_close(out);
    return st;
}

void pl_journal_close(pl_journal *journal) {
    if (journal == NULL || journal->path == NULL) return;
    if (journal->fd >= 0) (void)close(journal->fd);
    pl_free(journal->path);
    pthread_mutex_destroy(&journal->mutex);
    *journal = (pl_journal){ .fd = -1 };
}

pl_status pl_journal_append(pl_journal *journal, const pl_buf *line, pl_err *err) {
    pl_buf whole = PL_BUF_INIT;
    pl_buf_append(&whole, pl_buf_str(line), line->n_bytes);
    pl_buf_putc(&whole, '\n');
    if (!pl_buf_ok(line) || !pl_buf_ok(&whole)) {
        pl_buf_release(&whole);
        return pl_fail_memory(err, line->n_bytes);
    }
    pthread_mutex_lock(&journal->mutex);
    int error = journal->error;
    for (size_t at = 0; at < whole.n_bytes && error == 0;) {
        const ssize_t n = write(journal->fd, whole.data + at, whole.n_bytes - at);
        if (n > 0) {
            at += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            error = errno;
        }
    }
    if (error == 0 && !pl_sync_fd(journal->fd)) error = errno;
    journal->error = error;
    pthread_mutex_unlock(&journal->mutex);
    pl_buf_release(&whole);
    return error == 0 ? PL_OK : pl_fail_errno(err, error, "write", journal->path);
}
