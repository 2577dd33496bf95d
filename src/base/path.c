/* Paths and folders: declared in file.h, split off to keep file.c short. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/door_int.h"

bool pl_path_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool pl_path_is_dir(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static pl_status make_dir(const char *path, pl_err *err) {
    if (mkdir(path, 0777) == 0) return PL_OK;
    const int error = errno;
    /* Also for EACCES and EROFS: the parent may exist where we could not have created it. */
    if (pl_path_is_dir(path)) return PL_OK;
    if (error == EEXIST)
        return pl_fail(err, PL_E_EXISTS, "'%s' exists and is not a directory", path);
    return pl_fail_errno(err, error, "create the folder", path);
}

pl_status pl_path_make_dirs(const char *path, pl_err *err) {
    if (path[0] == '\0') return pl_fail(err, PL_E_INVALID, "empty directory name");
    char *copy = pl_strdup(path);
    if (copy == NULL) return pl_fail_memory(err, strlen(path) + 1);
    pl_status st = PL_OK;
    for (char *p = copy + 1; *p != '\0' && st == PL_OK; p++) {
        if (*p != '/' || p[-1] == '/') continue;
        *p = '\0';
        st = make_dir(copy, err);
        *p = '/';
    }
    if (st == PL_OK) st = make_dir(copy, err);
    pl_free(copy);
    return st;
}

char *pl_path_join(const char *dir, const char *name) {
    const size_t n_dir = strlen(dir);
    if (name[0] == '/' || n_dir == 0) return pl_strdup(name);
    pl_buf buf = PL_BUF_INIT;
    pl_buf_append(&buf, dir, n_dir);
    if (dir[n_dir - 1] != '/') pl_buf_putc(&buf, '/');
    pl_buf_puts(&buf, name);
    return pl_buf_take(&buf);
}

char *pl_path_dirname(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') /* "a/b/" is "a/b" */
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    if (n == 0) return pl_strdup(".");
    while (n > 1 && path[n - 1] == '/')
        n--;
    return pl_strndup(path, n);
}

const char *pl_path_basename(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

bool pl_path_has_suffix(const char *path, const char *suffix) {
    const size_t n_path = strlen(path), n_suffix = strlen(suffix);
    return n_path >= n_suffix && memcmp(path + n_path - n_suffix, suffix, n_suffix) == 0;
}

static bool is_below(const char *path, const char *dir) {
    const size_t n = strlen(dir);
    if (strcmp(dir, "/") == 0) return path[1] != '\0';
    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

char *pl_path_real(const char *path) {
    char *real = realpath(path, NULL);
    char *copy = real == NULL ? NULL : pl_strdup(real);
    free(real); /* realpath's memory must be freed with free() */
    return copy;
}

pl_status pl_path_resolve_inside(const char *dir, const char *name, char **out, pl_err *err) {
    if (name[0] == '\0') return pl_fail(err, PL_E_INVALID, "empty file name");
    if (name[0] == '/')
        return pl_fail(err, PL_E_INVALID, "'%s' is absolute, expected a path below '%s'", name,
                       dir);
    pl_status st = PL_OK;
    char *real_dir = NULL, *real = NULL, *copy = NULL;
    char *joined = pl_path_join(dir[0] == '\0' ? "." : dir, name);
    if (joined == NULL) {
        st = pl_fail_memory(err, 0);
        goto done;
    }
    real_dir = realpath(dir[0] == '\0' ? "." : dir, NULL);
    if (real_dir == NULL) {
        st = pl_fail_errno(err, errno, "find the folder", dir);
        goto done;
    }
    real = realpath(joined, NULL);
    if (real == NULL) {
        st = pl_fail_errno(err, errno, "find", joined);
        goto done;
    }
    if (!is_below(real, real_dir)) {
        st = pl_fail(err, PL_E_INVALID, "'%s' is outside the directory '%s'", name, dir);
        goto done;
    }
    copy = pl_strdup(real); /* realpath's memory must be freed with free() */
    if (copy == NULL) {
        st = pl_fail_memory(err, 0);
        goto done;
    }
    *out = copy;
done:
    free(real);
    free(real_dir);
    pl_free(joined);
    return st;
}

/* ---- folders ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_dot(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static pl_status list_add(pl_dir_list *list, size_t *capacity, const char *name, pl_err *err) {
    if (!PL_ARRAY_ROOM(list->names, list->n_names, capacity)) return pl_fail_memory(err, 0);
    char *copy = pl_strdup(name);
    if (copy == NULL) return pl_fail_memory(err, strlen(name) + 1);
    list->names[list->n_names++] = copy;
    return PL_OK;
}

static pl_status list_stream(DIR *stream, const char *path, pl_dir_list *list, pl_err *err) {
    size_t capacity = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (entry == NULL) break;
        if (!is_dot(entry->d_name)) PL_TRY(list_add(list, &capacity, entry->d_name, err));
    }
    if (errno != 0) return pl_fail_errno(err, errno, "read the folder", path);
    if (list->n_names > 1) qsort(list->names, list->n_names, sizeof *list->names, compare_names);
    return PL_OK;
}

pl_status pl_dir_list_fd_take(int fd, const char *path, pl_dir_list *out, pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    DIR *stream = fdopendir(fd);
    if (stream == NULL) {
        const int error = errno;
        close(fd);
        return pl_fail_errno(err, error, "open the folder", path);
    }
    const pl_status st = list_stream(stream, path, &list, err);
    closedir(stream);
    if (st != PL_OK) {
        pl_dir_list_free(&list);
        return st;
    }
    *out = list;
    return PL_OK;
}

pl_status pl_dir_list_read(const char *path, pl_dir_list *out, pl_err *err) {
    const int fd = pl_fd_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return pl_fail_errno(err, errno, "open the folder", path);
    return pl_dir_list_fd_take(fd, path, out, err);
}

void pl_dir_list_free(pl_dir_list *list) {
    for (size_t i = 0; i < list->n_names; i++)
        pl_free(list->names[i]);
    pl_free(list->names);
    *list = (pl_dir_list){ NULL, 0 };
}

/* Empties the folder fd and closes fd. Works on descriptors only, so replacing a path by a symlink
 * meanwhile has no effect. The descriptor limit bounds the depth. */
static pl_status empty_dir_take(int fd, const char *shown, pl_err *err);

pl_status pl_remove_at(int fd, const char *name, pl_err *err) {
    if (is_dot(name) || unlinkat(fd, name, 0) == 0 || errno == ENOENT) return PL_OK;
    if (errno != EISDIR && errno != EPERM) return pl_fail_errno(err, errno, "remove", name);
    const int error = errno;
    int child;
    do
        child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    while (child < 0 && errno == EINTR);
    if (child < 0) return pl_fail_errno(err, errno == ENOTDIR ? error : errno, "remove", name);
    PL_TRY(empty_dir_take(child, name, err));
    return unlinkat(fd, name, AT_REMOVEDIR) == 0 ? PL_OK
                                                 : pl_fail_errno(err, errno, "remove", name);
}

/* Reads entries without the heap: cleaning up after running out of memory must not need memory.
 * By system call: musl declares getdents64 otherwise. */
static pl_status empty_dir_take(int fd, const char *shown, pl_err *err) {
    union {
        struct dirent64 align;
        char bytes[2048];
    } entries;
    pl_status st = PL_OK;
    while (st == PL_OK) {
        const ssize_t n = syscall(SYS_getdents64, fd, &entries, sizeof entries);
        if (n < 0) st = pl_fail_errno(err, errno, "read the folder", shown);
        if (n <= 0) break;
        for (ssize_t at = 0; at < n && st == PL_OK;) {
            const struct dirent64 *entry = (const void *)(entries.bytes + at);
            at += entry->d_reclen;
            st = pl_remove_at(fd, entry->d_name, err);
        }
    }
    close(fd);
    return st;
}

pl_status pl_dir_remove(const char *path, pl_err *err) {
    const int fd = pl_fd_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0) return pl_fail_errno(err, errno, "open the folder", path);
    const pl_status st = empty_dir_take(fd, path, err);
    if (st != PL_OK) return pl_err_wrap(err, st, "while removing '%s'", path);
    if (rmdir(path) != 0) return pl_fail_errno(err, errno, "remove the folder", path);
    pl_unfinished_done(pl_path_basename(path));
    return PL_OK;
}

int pl_open_parent(const char *path, const char **last) {
    char *parent = pl_path_dirname(path);
    *last = pl_path_basename(path);
    const int fd = parent == NULL ? -1 : pl_fd_open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    const int error = parent == NULL ? ENOMEM : errno;
    pl_free(parent);
    errno = error;
    return fd;
}
