/* Private to src/store: shared by store.c and store_care.c. */
#ifndef PL_STORE_INT_H
#define PL_STORE_INT_H

#include <pthread.h>

#include "base/door.h"
#include "base/strmap.h"
#include "store/store.h"

#define PL_STORE_VERSION_FILE "plumb-store"
#define PL_STORE_VERSION_TEXT "1\n"

enum { PL_STORE_FOLDERS = 16 };

typedef struct pl_store_pending {
    struct pl_store_pending *next;
    pl_blob blob;
    char temporary[80]; /* "tmp/…"; "" = not made yet */
    int fd;
    char name[PL_BLOB_NAME_MAX];
} pl_store_pending;

struct pl_store {
    pl_dir *dir;
    int lock_fd; /* -1: reading only */
    uint64_t token;
    pthread_mutex_t mutex; /* guards all below */
    uint64_t n_temporaries;
    pl_store_pending *pending;
    size_t n_pending;
    uint64_t pending_bytes;
    pl_status failed; /* sticky: blobs were lost, so nothing may be committed */
    pl_strmap pending_by_name;
    bool is_touched[PL_STORE_FOLDERS]; /* has new names since the last commit */
};

enum { PL_BLOB_FILE_MAX = PL_BLOB_NAME_MAX + 16 };

/* "blobs/X/NAME"; false for an invalid blob name. */
bool pl_store_blob_file(const char *name, char out[PL_BLOB_FILE_MAX]);
/* `how` as for flock(2); *out is the descriptor that holds the lock. */
pl_status pl_store_lock(const pl_dir *dir, int how, int *out, pl_err *err);
/* Length and hash of a mapped blob. */
pl_status pl_blob_check(const pl_blob *blob, const char *name, const pl_file_map *map, pl_err *err);
int pl_store_folder(const pl_blob *blob);

#endif
