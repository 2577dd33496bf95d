/* The temporary folder of a run: all that its queries write is in it.
 *
 * A run that is killed cannot remove it. So it is locked while it is in use (the kernel lets go of
 * the lock when the last process of the run has ended, in whatever container), and the next run
 * removes the folders that nobody holds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/minify/minify_int.h"

#define PREFIX "plumb-queries-"
enum { SUFFIX = 6, TRIES = 8 };

/* The lock of a folder; -1 = somebody else holds it, or it is no folder of ours. */
static int lock(const char *path) {
    struct stat info;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    /* Between opening and locking another run may have removed it. */
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 && info.st_nlink > 0 &&
        info.st_uid == geteuid()) {
        return fd;
    }
    close(fd);
    return -1;
}

static void sweep(const char *parent) {
    const struct dirent *entry;
    DIR *stream = opendir(parent);
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        const size_t n = strlen(PREFIX);
        if (strncmp(entry->d_name, PREFIX, n) != 0 || strlen(entry->d_name) != n + SUFFIX) continue;
        char *path = pl_path_join(parent, entry->d_name);
        const int fd = path == NULL ? -1 : lock(path);
        if (fd >= 0) {
            pl_dir_remove(path, NULL);
            close(fd);
        }
        pl_free(path);
    }
    if (stream != NULL) closedir(stream);
}

pl_status pl_mini_work_open(pl_mini *m, pl_err *err) {
    const char *parent = pl_dir_for_temporaries();
    m->work_lock = -1;
    sweep(parent);
    for (int i = 0; i < TRIES; i++) { /* another run may sweep it away before it is locked */
        char *path = pl_path_join(parent, PREFIX "XXXXXX");
        if (path == NULL) return pl_fail_memory(err, 1);
        if (mkdtemp(path) == NULL) {
            const pl_status st = pl_fail_errno(err, errno, "create a temporary folder", path);
            pl_free(path);
            return st;
        }
        m->work_lock = lock(path);
        m->work = path;
        /* A file system without locks: it works, and a killed run leaves its folder. */
        if (m->work_lock >= 0 || pl_path_is_dir(path)) return PL_OK;
        m->work = NULL;
        pl_free(path);
    }
    return pl_fail(err, PL_E_IO, "cannot keep a temporary folder in '%s'", parent);
}

void pl_mini_work_close(pl_mini *m) {
    if (m->work == NULL) return;
    pl_dir_remove(m->work, NULL);
    if (m->work_lock >= 0) close(m->work_lock);
    pl_free(m->work);
    m->work = NULL;
}
