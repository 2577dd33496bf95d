/* Opening, putting, committing, getting. Only the holder of the mutex touches the pending list. */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/outfile.h"
#include "store/store_int.h"

enum {
    BATCH_BLOBS = 128, /* each keeps a descriptor open */
    BATCH_BYTES = 256 << 20,
    SYNCFS_BLOBS = 8 /* from here on one syncfs is cheaper than a journal commit for each file */
};

static const char *const folders[] = { "blobs", "index", "tmp" };

/* ---- opening ---- */

static pl_status check_version(const char *dir, pl_err *err) {
    pl_file_map *map = NULL;
    char *path = pl_path_join(dir, PL_STORE_VERSION_FILE);
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = pl_file_map_open(path, &map, err);
    if (st == PL_E_NOT_FOUND) {
        st = pl_path_is_dir(dir) ? pl_fail(err, PL_E_FORMAT, "'%s' is not a store: it has no %s",
                                           dir, PL_STORE_VERSION_FILE)
                                 : pl_fail(err, PL_E_NOT_FOUND, "there is no store at '%s'", dir);
    }
    if (st == PL_OK && (map->n_bytes != strlen(PL_STORE_VERSION_TEXT) ||
                        memcmp(map->data, PL_STORE_VERSION_TEXT, map->n_bytes) != 0)) {
        st = pl_fail(err, PL_E_UNSUPPORTED, "'%s' is a store of another version", dir);
    }
    if (map != NULL) pl_file_map_unref(map);
    pl_free(path);
    return st;
}

/* Hidden files do not count: a killed creator may have left one. */
static pl_status check_vacant(const char *dir, pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    pl_status st = PL_OK;
    PL_TRY(pl_dir_list_read(dir, &list, err));
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (list.names[i][0] == '.') continue;
        st = pl_fail(err, PL_E_EXISTS, "'%s' is not a store and not empty", dir);
    }
    pl_dir_list_free(&list);
    return st;
}

static pl_status write_version(const char *dir, pl_err *err) {
    pl_outfile *file = NULL;
    char *path = pl_path_join(dir, PL_STORE_VERSION_FILE);
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = pl_outfile_open(path, PL_OUTFILE_UNNAMED, &file, err);
    if (st == PL_OK) {
        st = pl_outfile_write(file, 0, PL_STORE_VERSION_TEXT, strlen(PL_STORE_VERSION_TEXT), err);
        if (st == PL_OK) {
            st = pl_outfile_publish_take(file, err);
        } else {
            pl_outfile_discard_take(file);
        }
    }
    pl_free(path);
    return st == PL_E_EXISTS ? PL_OK : st; /* another process was quicker */
}

/* The version first: a creator killed later has left a store, if an empty one. */
static pl_status create(const char *dir, pl_err *err) {
    PL_TRY(pl_path_make_dirs(dir, err));
    char *version = pl_path_join(dir, PL_STORE_VERSION_FILE);
    if (version == NULL) return pl_fail_memory(err, 0);
    const bool is_store = pl_path_exists(version);
    pl_free(version);
    if (!is_store) {
        PL_TRY(check_vacant(dir, err));
        PL_TRY(write_version(dir, err));
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char *path = pl_path_join(dir, folders[i]);
        if (path == NULL) return pl_fail_memory(err, 0);
        const pl_status st = pl_path_make_dirs(path, err);
        pl_free(path);
        PL_TRY(st);
    }
    for (int i = 0; i < PL_STORE_FOLDERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "blobs/%x", (unsigned)i);
        char *path = pl_path_join(dir, name);
        if (path == NULL) return pl_fail_memory(err, 0);
        const pl_status st = pl_path_make_dirs(path, err);
        pl_free(path);
        PL_TRY(st);
    }
    return is_store ? PL_OK : pl_sync_dir(dir, err);
}

pl_status pl_store_lock(const char *dir, int how, int *out, pl_err *err) {
    char *path = pl_path_join(dir, "lock");
    if (path == NULL) return pl_fail_memory(err, 0);
    pl_status st = PL_OK;
    int r;
    const int fd = pl_fd_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        st = pl_fail_errno(err, errno, "open", path);
        goto done;
    }
    do
        r = flock(fd, how);
    while (r != 0 && errno == EINTR);
    if (r != 0) {
        st = errno == EWOULDBLOCK
                 ? pl_fail(err, PL_E_IO, "the store '%s' is in use by another process", dir)
                 : pl_fail_errno(err, errno, "lock", path);
        close(fd);
        goto done;
    }
    *out = fd;
done:
    pl_free(path);
    return st;
}

static uint64_t random_token(void) {
    uint64_t token = 0;
    if (getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token) token = (uint64_t)getpid();
    return token;
}

pl_status pl_store_open(const char *dir, pl_store_mode mode, pl_store **out, pl_err *err) {
    pl_store *s = pl_calloc(1, sizeof *s);
    if (s == NULL) return pl_fail_memory(err, sizeof *s);
    pl_status st = PL_OK;
    s->lock_fd = -1;
    pthread_mutex_init(&s->mutex, NULL);
    s->dir = pl_strdup(dir);
    if (s->dir == NULL) {
        st = pl_fail_memory(err, strlen(dir));
        goto done;
    }
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

static void pending_free(pl_store_pending *p) {
    if (p->fd >= 0) close(p->fd);
    pl_free(p->temporary);
    pl_free(p);
}

/* Forgets all that has no name yet and removes its files. */
static void pending_drop(pl_store *s) {
    while (s->pending != NULL) {
        pl_store_pending *p = s->pending;
        s->pending = p->next;
        if (p->temporary != NULL) unlink(p->temporary);
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
    pl_free(s->dir);
    pl_free(s);
}

/* ---- paths ---- */

int pl_store_folder(const pl_blob *blob) {
    return (int)(blob->hash.high >> 60);
}

static char *blob_path(const pl_store *s, const pl_blob *blob, const char *name) {
    char relative[PL_BLOB_NAME_MAX + 16];
    snprintf(relative, sizeof relative, "blobs/%x/%s", (unsigned)pl_store_folder(blob), name);
    return pl_path_join(s->dir, relative);
}

char *pl_store_blob_path(const pl_store *s, const char *name) {
    pl_blob blob;
    return pl_blob_parse(name, &blob) ? blob_path(s, &blob, name) : NULL;
}

/* ---- putting ---- */

static bool is_there(const char *path, uint64_t n_bytes) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size == n_bytes;
}

static pl_status pending_sync(pl_store *s, pl_err *err) {
    if (s->n_pending >= SYNCFS_BLOBS && syncfs(s->lock_fd) == 0) return PL_OK;
    for (pl_store_pending *p = s->pending; p != NULL; p = p->next) {
        if (!pl_sync_fd(p->fd)) return pl_fail_errno(err, errno, "sync", p->temporary);
    }
    return PL_OK;
}

/* Bytes first, names second: never a name before its bytes are safe. */
static pl_status flush(pl_store *s, pl_err *err) {
    pl_status st = pending_sync(s, err);
    while (st == PL_OK && s->pending != NULL) {
        pl_store_pending *p = s->pending;
        char *path = blob_path(s, &p->blob, p->name);
        if (path == NULL) {
            st = pl_fail_memory(err, 0);
        } else if (rename(p->temporary, path) != 0) {
            st = pl_fail_errno(err, errno, "rename to", path);
        } else {
            s->is_touched[pl_store_folder(&p->blob)] = true;
            s->pending = p->next;
            pending_free(p);
        }
        pl_free(path);
    }
    if (st != PL_OK) s->failed = st;
    pending_drop(s);
    return st;
}

static pl_status write_temporary(pl_store *s, pl_store_pending *p, const pl_dense *dense,
                                 pl_err *err) {
    char name[80];
    snprintf(name, sizeof name, "tmp/%ld-%016" PRIx64 "-%" PRIu64, (long)getpid(), s->token,
             s->n_temporaries++);
    p->temporary = pl_path_join(s->dir, name);
    if (p->temporary == NULL) return pl_fail_memory(err, strlen(name));
    p->fd = pl_fd_open(p->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (p->fd < 0) return pl_fail_errno(err, errno, "create", p->temporary);
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
        if (p->fd >= 0) unlink(p->temporary);
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
        return pl_fail(err, s->failed, "an earlier write to the store '%s' failed", s->dir);
    }
    pl_blob_name(blob, name);
    if (pl_strmap_has(&s->pending_by_name, name)) return PL_OK;
    char *path = blob_path(s, blob, name);
    if (path == NULL) return pl_fail_memory(err, 0);
    const bool there = is_there(path, blob->n_bytes);
    pl_free(path);
    if (!there) return put_new(s, blob, name, dense, err);
    /* Somebody else's, perhaps of this moment: its name may not be durable yet. */
    s->is_touched[pl_store_folder(blob)] = true;
    return PL_OK;
}

pl_status pl_store_put(pl_store *s, const pl_tensor *t, pl_blob *out, pl_err *err) {
    pl_dense dense;
    if (s->lock_fd < 0) {
        return pl_fail(err, PL_E_USAGE, "the store '%s' is open for reading only", s->dir);
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
        return pl_fail(err, s->failed, "an earlier write to the store '%s' failed", s->dir);
    }
    PL_TRY(flush(s, err));
    for (int i = 0; i < PL_STORE_FOLDERS; i++) {
        char name[16];
        if (!s->is_touched[i]) continue;
        snprintf(name, sizeof name, "blobs/%x", (unsigned)i);
        char *path = pl_path_join(s->dir, name);
        if (path == NULL) return pl_fail_memory(err, 0);
        const pl_status st = pl_sync_dir(path, err);
        pl_free(path);
        PL_TRY(st);
        s->is_touched[i] = false;
    }
    return PL_OK;
}

pl_status pl_store_commit(pl_store *s, pl_err *err) {
    if (s->lock_fd < 0) {
        return pl_fail(err, PL_E_USAGE, "the store '%s' is open for reading only", s->dir);
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

/* The file of a blob: its own, or the temporary while it waits for its name. */
static pl_status find_locked(pl_store *s, const pl_blob *blob, const char *name, pl_file_map **out,
                             pl_err *err) {
    const pl_store_pending *p = pl_strmap_get(&s->pending_by_name, name);
    if (p != NULL) return pl_file_map_open(p->temporary, out, err);
    char *path = blob_path(s, blob, name);
    if (path == NULL) return pl_fail_memory(err, 0);
    const pl_status st = pl_file_map_open(path, out, err);
    pl_free(path);
    return st;
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
    char *path = there ? NULL : blob_path(s, blob, name);
    if (path != NULL) there = is_there(path, blob->n_bytes);
    pl_free(path);
    pthread_mutex_unlock(&s->mutex);
    return there;
}
