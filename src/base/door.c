/* Held folders. Every name goes through open_beneath. */
#include "base/door.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/door_int.h"

enum { AGAIN_MAX = 16, PART_MAX = 256 };

struct pl_dir {
    int fd;
    int refs;
    bool lenient;
    char *path;
};

/* ---- system calls ---- */

static bool no_openat2; /* for tests only, and atomic */

void pl_door_without_openat2(bool on) {
    __atomic_store_n(&no_openat2, on, __ATOMIC_RELAXED);
}

static bool is_part(const char *s, size_t n) {
    return n > 0 && n < PART_MAX && !(n == 2 && s[0] == '.' && s[1] == '.');
}

/* For kernels before 5.6: one component at a time, without following links. */
static int walk(int dir_fd, const char *name, int flags, mode_t mode) {
    int at = dir_fd;
    for (;;) {
        const size_t n = strcspn(name, "/");
        char part[PART_MAX];
        if (!is_part(name, n)) {
            if (at != dir_fd) close(at);
            errno = n >= PART_MAX ? ENAMETOOLONG : EXDEV;
            return -1;
        }
        memcpy(part, name, n);
        part[n] = '\0';
        const char *rest = name + n + strspn(name + n, "/");
        const bool last = *rest == '\0';
        const int fd = openat(at, part,
                              last ? flags | O_NOFOLLOW | O_CLOEXEC
                                   : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                              mode);
        struct stat info;
        int error = errno;
        if (fd < 0 && error == ENOTDIR && fstatat(at, part, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(info.st_mode))
            error = ELOOP; /* O_DIRECTORY reports ENOTDIR for a link too */
        if (at != dir_fd) close(at);
        errno = error;
        if (last || fd < 0) return fd;
        at = fd;
        name = rest;
    }
}

/* A descriptor, or -1 and errno: ELOOP for a link, EXDEV if the name leads outside. */
static int open_beneath(const pl_dir *dir, const char *name, int flags, mode_t mode) {
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC),
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS |
                   (dir->lenient ? 0U : (unsigned)RESOLVE_NO_SYMLINKS),
    };
    if (name[0] == '/') {
        errno = EXDEV;
        return -1;
    }
    for (int i = 0; !__atomic_load_n(&no_openat2, __ATOMIC_RELAXED) && i < AGAIN_MAX; i++) {
        const long fd = syscall(SYS_openat2, dir->fd, name, &how, sizeof how);
        if (fd >= 0) return (int)fd;
        if (errno == EAGAIN || errno == EINTR) continue;
        if (errno != ENOSYS && errno != EPERM) return -1; /* EPERM: blocked by a seccomp filter */
        break;
    }
    return walk(dir->fd, name, flags, mode);
}

static pl_status fail(const pl_dir *dir, const char *doing, const char *name, pl_err *err) {
    const int error = errno;
    if (error == ELOOP || error == EMLINK)
        return pl_fail(
            err, PL_E_INVALID,
            "'%s/%s' is or contains a symbolic link; links in this folder are not followed",
            dir->path, name);
    if (name[0] == '/')
        return pl_fail(err, PL_E_INVALID, "'%s' is absolute, expected a path below '%s'", name,
                       dir->path);
    if (error == EXDEV)
        return pl_fail(err, PL_E_INVALID, "'%s' is outside the directory '%s'", name, dir->path);
    if (error == ENXIO)
        return pl_fail(err, PL_E_INVALID, "'%s/%s' is a socket, expected a file", dir->path, name);
    char *path = pl_path_join(dir->path, name);
    const pl_status st = pl_fail_errno(err, error, doing, path == NULL ? name : path);
    pl_free(path);
    return st;
}

/* The folder that contains a name, and the last component. */
static int open_parent_in(const pl_dir *dir, const char *name, const char **last) {
    const char *slash = strrchr(name, '/');
    char parent[1024];
    *last = slash == NULL ? name : slash + 1;
    if (!is_part(*last, strlen(*last)) || strcmp(*last, ".") == 0) {
        errno = EXDEV;
        return -1;
    }
    if (slash == NULL) return fcntl(dir->fd, F_DUPFD_CLOEXEC, 0);
    if ((size_t)(slash - name) >= sizeof parent) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, name, (size_t)(slash - name));
    parent[slash - name] = '\0';
    return open_beneath(dir, parent, O_RDONLY | O_DIRECTORY, 0);
}

/* ---- life cycle ---- */

static pl_status dir_of_fd(int fd, const char *path, bool lenient, pl_dir **out, pl_err *err) {
    pl_dir *dir = pl_calloc(1, sizeof *dir);
    char *copy = pl_strdup(path);
    if (dir == NULL || copy == NULL) {
        pl_free(dir);
        pl_free(copy);
        close(fd);
        return pl_fail_memory(err, sizeof *dir);
    }
    *dir = (pl_dir){ .fd = fd, .refs = 1, .lenient = lenient, .path = copy };
    *out = dir;
    return PL_OK;
}

static pl_status open_named(const char *path, bool lenient, pl_dir **out, pl_err *err) {
    if (path[0] == '\0') path = ".";
    const int fd = pl_fd_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOTDIR) return pl_fail(err, PL_E_INVALID, "'%s' is not a folder", path);
    if (fd < 0) return pl_fail_errno(err, errno, "open the folder", path);
    return dir_of_fd(fd, path, lenient, out, err);
}

pl_status pl_dir_open(const char *path, pl_dir **out, pl_err *err) {
    return open_named(path, false, out, err);
}

pl_status pl_dir_open_lenient(const char *path, pl_dir **out, pl_err *err) {
    return open_named(path, true, out, err);
}

pl_status pl_dir_open_private(const char *path, pl_dir **out, pl_err *err) {
    struct stat info;
    PL_TRY(pl_path_make_dirs(path, err));
    const int fd = pl_fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return pl_fail(err, PL_E_INVALID, "'%s' is a symbolic link, expected a folder", path);
    if (fd < 0) return pl_fail_errno(err, errno, "open the folder", path);
    if (fstat(fd, &info) == 0 && info.st_uid == getuid() &&
        ((info.st_mode & 022) == 0 || fchmod(fd, 0700) == 0))
        return dir_of_fd(fd, path, false, out, err);
    close(fd);
    return pl_fail(err, PL_E_IO, "'%s' belongs to another user or may be written by others", path);
}

pl_status pl_dir_open_in(const pl_dir *dir, const char *name, pl_dir **out, pl_err *err) {
    const int fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return fail(dir, "open the folder", name, err);
    char *path = pl_path_join(dir->path, name);
    if (path == NULL) {
        close(fd);
        return pl_fail_memory(err, 1);
    }
    const pl_status st = dir_of_fd(fd, path, dir->lenient, out, err);
    pl_free(path);
    return st;
}

pl_dir *pl_dir_ref(pl_dir *dir) {
    __atomic_fetch_add(&dir->refs, 1, __ATOMIC_RELAXED);
    return dir;
}

void pl_dir_close(pl_dir *dir) {
    if (dir == NULL || __atomic_sub_fetch(&dir->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    close(dir->fd);
    pl_free(dir->path);
    pl_free(dir);
}

const char *pl_dir_path(const pl_dir *dir) {
    return dir->path;
}

int pl_dir_fd(const pl_dir *dir) {
    return dir->fd;
}

/* ---- looking and reading ---- */

/* What a name is. One system call for a plain name in the folder itself, which is nearly always the
 * case; links and longer names go through open_beneath. */
static bool look(const pl_dir *dir, const char *name, struct stat *info) {
    const bool plain = strchr(name, '/') == NULL && is_part(name, strlen(name));
    if (plain && fstatat(dir->fd, name, info, AT_SYMLINK_NOFOLLOW) != 0) return false;
    if (plain && !S_ISLNK(info->st_mode)) return true;
    /* O_PATH with O_NOFOLLOW opens a link itself, but openat2 without links refuses it. */
    const int fd = open_beneath(dir, name, O_PATH, 0);
    if (fd < 0) return false;
    const int told = fstat(fd, info);
    close(fd);
    return told == 0;
}

pl_kind pl_dir_look(const pl_dir *dir, const char *name, uint64_t *n_bytes) {
    struct stat info;
    if (!look(dir, name, &info)) return errno == ELOOP ? PL_KIND_OTHER : PL_KIND_NONE;
    if (n_bytes != NULL) *n_bytes = (uint64_t)info.st_size;
    return S_ISREG(info.st_mode)   ? PL_KIND_FILE
           : S_ISDIR(info.st_mode) ? PL_KIND_FOLDER
                                   : PL_KIND_OTHER;
}

bool pl_dir_is_own(const pl_dir *dir, const char *name) {
    struct stat info;
    return look(dir, name, &info) && info.st_uid == getuid();
}

bool pl_dir_when(const pl_dir *dir, const char *name, int64_t *out) {
    struct stat info;
    const bool told = look(dir, name, &info) && S_ISREG(info.st_mode);
    if (told) *out = (int64_t)info.st_mtime;
    return told;
}

pl_status pl_dir_open_file(const pl_dir *dir, const char *name, int *out, pl_err *err) {
    struct stat info;
    const int fd = open_beneath(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) return fail(dir, "open", name, err);
    char *path = pl_path_join(dir->path, name);
    pl_status st = path == NULL            ? pl_fail_memory(err, 1)
                   : fstat(fd, &info) != 0 ? pl_fail_errno(err, errno, "look at", path)
                                           : pl_check_regular(&info, path, err);
    pl_free(path);
    if (st == PL_OK) {
        *out = fd;
    } else {
        close(fd);
    }
    return st;
}

pl_status pl_dir_map(const pl_dir *dir, const char *name, pl_file_map **out, pl_err *err) {
    int fd = -1;
    PL_TRY(pl_dir_open_file(dir, name, &fd, err));
    char *path = pl_path_join(dir->path, name);
    const pl_status st =
        path == NULL ? pl_fail_memory(err, 1) : pl_map_of_fd(fd, path, false, out, err);
    pl_free(path);
    close(fd);
    return st;
}

pl_status pl_dir_names(const pl_dir *dir, const char *name, pl_dir_list *out, pl_err *err) {
    const int fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return fail(dir, "open the folder", name, err);
    return pl_dir_list_fd_take(fd, dir->path, out, err);
}

/* ---- writing ---- */

pl_status pl_dir_make(const pl_dir *dir, const char *name, pl_err *err) {
    const char *last = NULL;
    const int parent = open_parent_in(dir, name, &last);
    if (parent < 0) return fail(dir, "create the folder", name, err);
    const int made = mkdirat(parent, last, 0777);
    const int error = errno;
    close(parent);
    if (made == 0) return PL_OK;
    if (error == EEXIST && pl_dir_look(dir, name, NULL) == PL_KIND_FOLDER) return PL_OK;
    if (error == EEXIST)
        return pl_fail(err, PL_E_EXISTS, "'%s/%s' exists and is not a folder", dir->path, name);
    errno = error;
    return fail(dir, "create the folder", name, err);
}

pl_status pl_dir_sync(const pl_dir *dir, const char *name, pl_err *err) {
    const int fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) return errno == EACCES ? PL_OK : fail(dir, "open the folder", name, err);
    const bool synced = pl_sync_fd(fd);
    const pl_status st = synced ? PL_OK : fail(dir, "sync", name, err);
    close(fd);
    return st;
}

pl_status pl_dir_open_lock(const pl_dir *dir, const char *name, int *out, pl_err *err) {
    struct stat info;
    const int fd = open_beneath(dir, name, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY, 0666);
    if (fd < 0) return fail(dir, "open", name, err);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return pl_fail(err, PL_E_INVALID, "'%s/%s' is not a regular file", dir->path, name);
    }
    *out = fd;
    return PL_OK;
}

pl_status pl_dir_create(const pl_dir *dir, const char *name, int flags, mode_t mode, int *out,
                        pl_err *err) {
    const int fd = open_beneath(dir, name, flags | O_CREAT | O_EXCL, mode);
    if (fd < 0) return fail(dir, "create", name, err);
    *out = fd;
    return PL_OK;
}

pl_status pl_dir_write(const pl_dir *dir, const char *name, const void *data, size_t n_bytes,
                       pl_err *err) {
    pl_file_writer *w = NULL;
    PL_TRY(pl_file_writer_open_in(dir, name, &w, err));
    const pl_status st = pl_file_writer_append(w, data, n_bytes, err);
    if (st == PL_OK) return pl_file_writer_commit_take(w, err);
    pl_file_writer_abort_take(w);
    return st;
}

pl_status pl_dir_rename(const pl_dir *dir, const char *from, const char *to, pl_err *err) {
    const char *last_from = NULL, *last_to = NULL;
    const int parent_from = open_parent_in(dir, from, &last_from);
    if (parent_from < 0) return fail(dir, "rename", from, err);
    const int parent_to = open_parent_in(dir, to, &last_to);
    pl_status st = parent_to < 0 ? fail(dir, "rename to", to, err) : PL_OK;
    if (st == PL_OK && renameat(parent_from, last_from, parent_to, last_to) != 0)
        st = fail(dir, "rename to", to, err);
    if (parent_to >= 0) close(parent_to);
    close(parent_from);
    return st;
}

pl_status pl_dir_unlink(const pl_dir *dir, const char *name, pl_err *err) {
    const char *last = NULL;
    const int parent = open_parent_in(dir, name, &last);
    if (parent < 0 && errno == ENOENT) return PL_OK;
    if (parent < 0) return fail(dir, "remove", name, err);
    const pl_status st =
        unlinkat(parent, last, 0) == 0 || errno == ENOENT ? PL_OK : fail(dir, "remove", name, err);
    close(parent);
    return st;
}

pl_status pl_file_writer_open_in(const pl_dir *dir, const char *name, pl_file_writer **out,
                                 pl_err *err) {
    const char *last = NULL;
    struct stat info;
    const int parent = open_parent_in(dir, name, &last);
    if (parent < 0) return fail(dir, "write", name, err);
    char *path = pl_path_join(dir->path, name);
    pl_status st = path == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK && fstatat(parent, last, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(info.st_mode))
        st = pl_fail(err, PL_E_INVALID, "'%s' is %s, not a file written by plumb; not overwritten",
                     path, pl_kind_of_mode(info.st_mode));
    if (st == PL_OK) st = pl_file_writer_open_at(parent, last, path, out, err);
    close(parent);
    pl_free(path);
    return st;
}
