/* Opening, putting, committing, getting. Only the holder of the mutex touches the pending list. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/outfile.h"
#include "store/store_int.h"

enum {
    BATCH_BLOBS = 128, /* each keeps a descriptor open */
    BATCH_BYTES = 256 << 20,
    SYNCFS_BLOBS = 8 /* from this many on, one syncfs is cheaper than a journal commit per file */
};

static const char *const folders[] = { "blobs", "index", "tmp" };

/* ---- opening ---- */

static pl_status check_version(const pl_dir *dir, pl_err *err) {
    pl_file_map *map = NULL;
    pl_status st = pl_dir_map(dir, PL_STORE_VERSION_FILE, &map, err);
    if (st == PL_E_NOT_FOUND)
        st = pl_fail(err, PL_E_FORMAT, "'%s' is not a store: it has no %s", pl_dir_path(dir),
                     PL_STORE_VERSION_FILE);
    if (st == PL_OK && (map->n_bytes != strlen(PL_STORE_VERSION_TEXT) ||
                        memcmp(map->data, PL_STORE_VERSION_TEXT, map->n_bytes) != 0)) {
        st = pl_fail(err, PL_E_UNSUPPORTED, "'%s' has an unsupported store version",
                     pl_dir_path(dir));
    }
    if (map != NULL) pl_file_map_unref(map);
    return st;
}

/* Hidden files do not count: a killed process may have left one. */
static pl_status check_vacant(const pl_dir *dir, pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    pl_status st = PL_OK;
    PL_TRY(pl_dir_names(dir, ".", &list, err));
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (list.names[i][0] == '.') continue;
        st = pl_fail(err, PL_E_EXISTS, "'%s' is not a store and not an empty directory",
                     pl_dir_path(dir));
    }
    pl_dir_list_free(&list);
    return st;
}

/* Writes the version first: if killed later, this leaves an empty store. */
static pl_status create(const pl_dir *dir, pl_err *err) {
    const bool is_store = pl_dir_look(dir, PL_STORE_VERSION_FILE, NULL) != PL_KIND_NONE;
    if (!is_store) {
        PL_TRY(check_vacant(dir, err));
        PL_TRY(pl_dir_write(dir, PL_STORE_VERSION_FILE, PL_STORE_VERSION_TEXT,
                            strlen(PL_STORE_VERSION_TEXT), err));
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        PL_TRY(pl_dir_make(dir, folders[i], err));
    for (int i = 0; i < PL_STORE_FOLDERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "blobs/%x", (unsigned)i);
        PL_TRY(pl_dir_make(dir, name, err));
    }
    return is_store ? PL_OK : pl_dir_sync(dir, ".", err);
}

pl_status pl_store_lock(const pl_dir *dir, int how, int *out, pl_err *err) {
    int r, fd = -1;
    PL_TRY(pl_dir_open_lock(dir, "lock", &fd, err));
    do
        r = flock(fd, how);
    while (r != 0 && errno == EINTR);
    if (r == 0) {
        *out = fd;
        return PL_OK;
    }
    const int error = errno;
    close(fd);
    return error == EWOULDBLOCK
               ? pl_fail(err, PL_E_IO, "the store '%s' is in use by another process",
                         pl_dir_path(dir))
               : pl_fail_errno(err, error, "lock", pl_dir_path(dir));
}

static uint64_t random_token(void) {
    uint64_t token = 0;
    if (getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token) token = (uint64_t)getpid();
    return token;
}

pl_status pl_store_open_in(pl_dir *dir, pl_store_mode mode, pl_store **out, pl_err *err) {
    pl_store *s = pl_calloc(1, sizeof *s);
    if (s == NULL) return pl_fail_memory(err, sizeof *s);
    pl_status st = PL_OK;
    s->lock_fd = -1;
    pthread_mutex_init(&s->mutex, NULL);
    s->dir = pl_dir_ref(dir);
    s->token = random_token();
    if (mode == PL_STORE_WRITE) PL_TRY_GOTO(done, st, create(dir, err));
    PL_TRY_GOTO(done, st, check_version(dir, err));
    if (mode == PL_STORE_WRITE) st = pl_store_lock(dir, LOCK_SH, &s->lock_fd, err);
done:
    if (st != PL_OK) {
        pl_store_close(s);
        return st;
    }
    *out = s;
    return PL_OK;
}

pl_status pl_store_open(const char *path, pl_store_mode mode, pl_store **out, pl_err *err) {
    pl_dir *dir = NULL;
    if (mode == PL_STORE_WRITE) PL_TRY(pl_path_make_dirs(path, err));
    pl_status st = pl_dir_open(path, &dir, err);
    if (st == PL_E_NOT_FOUND) return pl_fail(err, st, "no store at '%s'", path);
    if (st == PL_OK) st = pl_store_open_in(dir, mode, out, err);
    pl_dir_close(dir);
    return st;
}

static void pending_free(pl_store_pending *p) {
    if (p->fd >= 0) close(p->fd);
    pl_free(p);
}

/* Drops everything that has no name yet and removes its files. */
static void pending_drop(pl_store *s) {
    while (s->pending != NULL) {
        pl_store_pending *p = s->pending;
        s->pending = p->next;
        if (p->temporary[0] != '\0') (void)pl_dir_unlink(s->dir, p->temporary, NULL);
        pending_free(p);
    }
    pl_strmap_release(&s->pending_by_name);
    s->pending_by_name = (pl_strmap)PL_STRMAP_INIT;
    s->n_pending = 0;
    s->pending_bytes = 0;
}

void pl_store_close(pl_store *s) {
    if (s == NULL) return;
    pending_drop(s);
    if (s->lock_fd >= 0) close(s->lock_fd);
    pthread_mutex_destroy(&s->mutex);
    pl_dir_close(s->dir);
    pl_free(s);
}

/* ---- paths ---- */

int pl_store_folder(const pl_blob *blob) {
    return (int)(blob->hash.high >> 60);
}

static void blob_file(const pl_blob *blob, const char *name, char out[PL_BLOB_FILE_MAX]) {
    snprintf(out, PL_BLOB_FILE_MAX, "blobs/%x/%s", (unsigned)pl_store_folder(blob), name);
}

bool pl_store_blob_file(const char *name, char out[PL_BLOB_FILE_MAX]) {
    pl_blob blob;
    if (!pl_blob_parse(name, &blob)) return false;
    blob_file(&blob, name, out);
    return true;
}

/* ---- putting ---- */

static bool is_there(const pl_store *s, const char *file, uint64_t n_bytes) {
    uint64_t n = 0;
    return pl_dir_look(s->dir, file, &n) == PL_KIND_FILE && n == n_bytes;
}

static pl_status pending_sync(pl_store *s, pl_err *err) {
    if (s->n_pending >= SYNCFS_BLOBS && syncfs(s->lock_fd) == 0) return PL_OK;
    for (pl_store_pending *p = s->pending; p != NULL; p = p->next) {
        if (!pl_sync_fd(p->fd)) return pl_fail_errno(err, errno, "sync", p->temporary);
    }
    return PL_OK;
}

/* Bytes before names: a name never exists before its bytes are safe. */
static pl_status flush(pl_store *s, pl_err *err) {
    pl_status st = pending_sync(s, err);
    while (st == PL_OK && s->pending != NULL) {
        pl_store_pending *p = s->pending;
        char file[PL_BLOB_FILE_MAX];
        blob_file(&p->blob, p->name, file);
        st = pl_dir_rename(s->dir, p->temporary, file, err);
        if (st == PL_OK) {
            s->is_touched[pl_store_folder(&p->blob)] = true;
            s->pending = p->next;
            pending_free(p);
        }
    }
    if (st != PL_OK) s->failed = st;
    pending_drop(s);
    return st;
}

static pl_status write_temporary(pl_store *s, pl_store_pending *p, const pl_dense *dense,
                                 pl_err *err) {
    snprintf(p->temporary, sizeof p->temporary, "tmp/%ld-%016" PRIx64 "-%" PRIu64, (long)getpid(),
             s->token, s->n_temporaries++);
    PL_TRY(pl_dir_create(s->dir, p->temporary, O_WRONLY, 0666, &p->fd, err));
    return pl_write_all(p->fd, 0, dense->data, dense->n_bytes, p->temporary, err);
}

static pl_status put_new(pl_store *s, const pl_blob *blob, const char *name, const pl_dense *dense,
                         pl_err *err) {
    pl_store_pending *p = pl_calloc(1, sizeof *p);
    if (p == NULL) return pl_fail_memory(err, sizeof *p);
    p->fd = -1;
    p->blob = *blob;
    memcpy(p->name, name, sizeof p->name);
    pl_status st = write_temporary(s, p, dense, err);
    if (st == PL_OK && pl_strmap_put(&s->pending_by_name, p->name, p) != 0) {
        st = pl_fail_memory(err, sizeof *p);
    }
    if (st != PL_OK) {
        if (p->fd >= 0) (void)pl_dir_unlink(s->dir, p->temporary, NULL);
        pending_free(p);
        return st;
    }
    p->next = s->pending;
    s->pending = p;
    s->n_pending++;
    s->pending_bytes += blob->n_bytes;
    if (s->n_pending < BATCH_BLOBS && s->pending_bytes < BATCH_BYTES) return PL_OK;
    return flush(s, err);
}

static pl_status put_locked(pl_store *s, const pl_blob *blob, const pl_dense *dense, pl_err *err) {
    char name[PL_BLOB_NAME_MAX] = { 0 };
    if (s->failed != PL_OK) {
        return pl_fail(err, s->failed, "an earlier write to the store '%s' failed",
                       pl_dir_path(s->dir));
    }
    pl_blob_name(blob, name);
    if (pl_strmap_has(&s->pending_by_name, name)) return PL_OK;
    char file[PL_BLOB_FILE_MAX];
    blob_file(blob, name, file);
    if (!is_there(s, file, blob->n_bytes)) return put_new(s, blob, name, dense, err);
    /* Another process may have just written it: its name may not be durable yet. */
    s->is_touched[pl_store_folder(blob)] = true;
    return PL_OK;
}

pl_status pl_store_put(pl_store *s, const pl_tensor *t, pl_blob *out, pl_err *err) {
    pl_dense dense;
    if (s->lock_fd < 0) {
        return pl_fail(err, PL_E_USAGE, "the store '%s' is open for reading only",
                       pl_dir_path(s->dir));
    }
    PL_TRY(pl_dense_init(&dense, t, err));
    const pl_blob blob = pl_dense_blob(&dense, t->dtype);
    pthread_mutex_lock(&s->mutex);
    const pl_status st = put_locked(s, &blob, &dense, err);
    pthread_mutex_unlock(&s->mutex);
    pl_dense_release(&dense);
    if (st == PL_OK) *out = blob;
    return st;
}

static pl_status commit_locked(pl_store *s, pl_err *err) {
    if (s->failed != PL_OK) {
        return pl_fail(err, s->failed, "an earlier write to the store '%s' failed",
                       pl_dir_path(s->dir));
    }
    PL_TRY(flush(s, err));
    for (int i = 0; i < PL_STORE_FOLDERS; i++) {
        char name[16];
        if (!s->is_touched[i]) continue;
        snprintf(name, sizeof name, "blobs/%x", (unsigned)i);
        PL_TRY(pl_dir_sync(s->dir, name, err));
        s->is_touched[i] = false;
    }
    return PL_OK;
}

pl_status pl_store_commit(pl_store *s, pl_err *err) {
    if (s->lock_fd < 0) {
        return pl_fail(err, PL_E_USAGE, "the store '%s' is open for reading only",
                       pl_dir_path(s->dir));
    }
    pthread_mutex_lock(&s->mutex);
    const pl_status st = commit_locked(s, err);
    pthread_mutex_unlock(&s->mutex);
    return st;
}

/* ---- getting ---- */

pl_status pl_blob_check(const pl_blob *blob, const char *name, const pl_file_map *map,
                        pl_err *err) {
    if (map->n_bytes != blob->n_bytes) {
        return pl_fail(err, PL_E_FORMAT, "blob %s is damaged: it has %zu bytes", name,
                       map->n_bytes);
    }
    const pl_hash128 hash = pl_hash128_of(map->data, map->n_bytes);
    if (pl_hash128_equal(hash, blob->hash)) return PL_OK;
    char hex[PL_HASH128_HEX];
    pl_hash128_hex(hash, hex);
    return pl_fail(err, PL_E_FORMAT, "blob %s is damaged: its bytes have the hash %s", name, hex);
}

/* The file of a blob: its own, or the temporary one until it gets its name. */
static pl_status find_locked(pl_store *s, const pl_blob *blob, const char *name, pl_file_map **out,
                             pl_err *err) {
    const pl_store_pending *p = pl_strmap_get(&s->pending_by_name, name);
    char file[PL_BLOB_FILE_MAX];
    if (p != NULL) return pl_dir_map(s->dir, p->temporary, out, err);
    blob_file(blob, name, file);
    return pl_dir_map(s->dir, file, out, err);
}

pl_status pl_store_get(pl_store *s, const pl_blob *blob, int rank, const int64_t *dims,
                       pl_tensor **out, pl_err *err) {
    char name[PL_BLOB_NAME_MAX];
    pl_file_map *map = NULL;
    pl_blob_name(blob, name);
    pthread_mutex_lock(&s->mutex);
    pl_status st = find_locked(s, blob, name, &map, err);
    pthread_mutex_unlock(&s->mutex);
    PL_TRY(st);
    st = pl_blob_check(blob, name, map, err);
    if (st == PL_OK) {
        const pl_bytes bytes = { map->data, map->n_bytes };
        st = pl_dense_restore(blob->dtype, rank, dims, bytes, map, out, err);
        if (st != PL_OK) st = pl_err_wrap(err, st, "blob %s", name);
    }
    pl_file_map_unref(map);
    return st;
}

bool pl_store_has(pl_store *s, const pl_blob *blob) {
    char name[PL_BLOB_NAME_MAX];
    pl_blob_name(blob, name);
    pthread_mutex_lock(&s->mutex);
    bool there = pl_strmap_has(&s->pending_by_name, name);
    char file[PL_BLOB_FILE_MAX];
    blob_file(blob, name, file);
    there = there || is_there(s, file, blob->n_bytes);
    pthread_mutex_unlock(&s->mutex);
    return there;
}
