/* The content store: every distinct tensor once, under a name made from its bytes.
 *
 *     DIR/plumb-store        "1\n", the version of the layout
 *     DIR/lock               held shared by writers, alone by gc; ends with the process
 *     DIR/blobs/X/NAME       X is the first digit of the hash; NAME as pl_blob_name has it
 *     DIR/index/NAME.json    which values of a run are which blobs: what gc keeps
 *     DIR/tmp/               being written; never believed
 *
 * What is guaranteed when: a file under blobs/ is complete, whenever it is seen and whoever was
 * killed, because its bytes are synced before it gets that name. After pl_store_commit (and so
 * after pl_store_index_write) the blobs put so far survive a power cut. Between commits files are
 * synced in batches, not one by one, and folders not at all. What was put and not committed may be
 * gone after a crash. Reads check length and hash.
 * Any number of processes may write and read at once. A store handle may be shared by threads. */
#ifndef PL_STORE_H
#define PL_STORE_H

#include "base/arena.h"
#include "base/door.h"
#include "store/blob.h"

typedef struct pl_store pl_store;

typedef enum pl_store_mode {
    PL_STORE_READ, /* must exist; nothing is written, also not the lock */
    PL_STORE_WRITE /* created if missing */
} pl_store_mode;

pl_status pl_store_open_in(pl_dir *dir, pl_store_mode mode, pl_store **out, pl_err *err);
pl_status pl_store_open(const char *path, pl_store_mode mode, pl_store **out, pl_err *err);
void pl_store_close(pl_store *store); /* uncommitted data is dropped; NULL is fine */

/* Stores the tensor's bytes unless the store has them. */
pl_status pl_store_put(pl_store *store, const pl_tensor *t, pl_blob *out, pl_err *err);
pl_status pl_store_commit(pl_store *store, pl_err *err);
/* In place, checked. PL_E_NOT_FOUND when missing, PL_E_FORMAT when the bytes do not match the
 * name. */
pl_status pl_store_get(pl_store *store, const pl_blob *blob, int rank, const int64_t *dims,
                       pl_tensor **out, pl_err *err);
bool pl_store_has(pl_store *store, const pl_blob *blob);

/* ---- indexes ---- */

typedef struct pl_store_entry {
    const char *value;
    pl_blob blob;
    int rank;
    int64_t dims[PL_RANK_MAX];
} pl_store_entry;

/* Commits, then writes index/NAME.json (replacing an older one). NAME: letters, digits, '-', '_',
 * '.'; not starting with a dot. */
pl_status pl_store_index_write(pl_store *store, const char *name, const pl_store_entry *entries,
                               size_t n_entries, pl_err *err);
typedef struct pl_store_index {
    pl_store_entry *entries;
    size_t n_entries;
    pl_arena *arena;
} pl_store_index;
pl_status pl_store_index_read(const pl_store *store, const char *name, pl_store_index *out,
                              pl_err *err);
void pl_store_index_release(pl_store_index *index);

/* ---- maintenance (store_care.c) ---- */

/* Called for each blob file in order of name, then for each missing blob that an index names and
 * for each unreadable index. `problem` is NULL, or what is wrong. */
typedef pl_status (*pl_store_visit)(void *ctx, const char *name, uint64_t n_bytes,
                                    const char *problem, pl_err *err);
/* check: read every blob and compare its hash, and the indexes. Else only names and lengths. */
pl_status pl_store_each(const pl_store *store, bool check, pl_store_visit visit, void *ctx,
                        pl_err *err);
typedef struct pl_store_gc_result {
    uint64_t n_kept, n_removed, bytes_kept, bytes_removed, n_temporaries;
} pl_store_gc_result;
/* Deletes blobs that no index names or that have a wrong length, and temporaries. Fails and deletes
 * nothing while a writer has the store open, or when an index cannot be read. dry_run only
 * counts. */
pl_status pl_store_gc(pl_dir *dir, bool dry_run, pl_store_gc_result *out, pl_err *err);

#endif
