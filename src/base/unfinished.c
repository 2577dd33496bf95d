/* Temporary names. They are removed by the writer, by a signal handler or at the next start. The
 * table of slots is global because a signal handler can reach nothing else. A slot records its
 * process, so that a killed child does not remove its parent's files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/door_int.h"

enum { SLOTS = 256, NAME_SIZE = 280, TEMPORARY_TRIES = 1000, SHOWN_MAX = 200, PASSES = 4 };

#define MARK ".plumb-"
#define PREFIX "plumb-tmp."

/* EMPTY -> TAKEN by the thread that fills it -> FULL, visible to the handler. */
enum { EMPTY, TAKEN, FULL };

static struct {
    int state; /* atomic */
    int dir_fd, lock_fd;
    pid_t owner;
    char name[NAME_SIZE]; /* unique in this process */
} slots[SLOTS];
static unsigned n_made; /* atomic: makes names unique in this process */
static bool swept;      /* atomic: the temporary folder is swept once */

/* A slot for a name that is about to be made, or -1 and errno. */
static int reserve(int dir_fd, const char *name) {
    for (int i = 0; i < SLOTS; i++) {
        int expected = EMPTY;
        if (!__atomic_compare_exchange_n(&slots[i].state, &expected, TAKEN, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        slots[i].dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
        slots[i].lock_fd = -1;
        slots[i].owner = getpid();
        (void)snprintf(slots[i].name, NAME_SIZE, "%s", name);
        if (slots[i].dir_fd >= 0) return i;
        __atomic_store_n(&slots[i].state, EMPTY, __ATOMIC_RELEASE);
        return -1;
    }
    errno = EMFILE;
    return -1;
}

/* The name is there: from now on the handler removes it. */
static void show_to_handler(int slot) {
    if (slot >= 0) __atomic_store_n(&slots[slot].state, FULL, __ATOMIC_RELEASE);
}

static void cancel(int slot) {
    if (slot < 0) return;
    const int why = errno;
    __atomic_store_n(&slots[slot].state, TAKEN, __ATOMIC_RELEASE);
    close(slots[slot].dir_fd);
    __atomic_store_n(&slots[slot].state, EMPTY, __ATOMIC_RELEASE);
    errno = why;
}

static bool add(int dir_fd, int lock_fd, const char *name) {
    const int slot = reserve(dir_fd, name);
    if (slot < 0) return false;
    slots[slot].lock_fd = lock_fd;
    show_to_handler(slot);
    return true;
}

void pl_unfinished_done(const char *name) {
    for (int i = 0; i < SLOTS; i++) {
        int expected = FULL;
        if (__atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE) != FULL ||
            strcmp(slots[i].name, name) != 0 ||
            !__atomic_compare_exchange_n(&slots[i].state, &expected, TAKEN, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        close(slots[i].dir_fd);
        if (slots[i].lock_fd >= 0) close(slots[i].lock_fd);
        __atomic_store_n(&slots[i].state, EMPTY, __ATOMIC_RELEASE);
        return;
    }
}

/* Other threads may still be writing: files they create meanwhile are removed in the next pass. */
void pl_door_abandon(void) {
    const pid_t self = getpid();
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < SLOTS; i++)
            if (__atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE) == FULL &&
                slots[i].owner == self)
                (void)pl_remove_at(slots[i].dir_fd, slots[i].name, NULL);
}

/* ---- at the next start ---- */

static size_t digits(const char *s) {
    return strspn(s, "0123456789");
}

bool pl_is_temporary_name(const char *name) {
    const char *mark = NULL;
    if (name[0] != '.') return false;
    for (const char *at = name; (at = strstr(at, MARK)) != NULL; at++)
        mark = at;
    if (mark == NULL) return false;
    const char *pid = mark + strlen(MARK);
    const size_t n = digits(pid);
    if (n == 0 || pid[n] != '-') return false;
    const size_t m = digits(pid + n + 1);
    return m > 0 && pid[n + 1 + m] == '\0';
}

/* Locks a new file or folder; false if another process's sweep removed it first. */
static bool is_locked(int fd) {
    struct stat info;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK; /* no locks here */
    return fstat(fd, &info) == 0 && info.st_nlink > 0;
}

/* Only removes folders of this user without a lock: the kernel releases a lock when the last
 * process that held it ends, in any container. */
static void sweep_one(int dir_fd, const char *name) {
    struct stat info;
    const int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &info) == 0 && info.st_uid == geteuid() &&
        (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)pl_remove_at(dir_fd, name, NULL);
    close(fd);
}

static void sweep(int dir_fd, bool (*is_ours)(const char *)) {
    const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    if (stream == NULL) {
        if (fd >= 0) close(fd);
        return;
    }
    while ((entry = readdir(stream)) != NULL)
        if (is_ours(entry->d_name)) sweep_one(dir_fd, entry->d_name);
    closedir(stream);
}

void pl_unfinished_sweep(int dir_fd) {
    sweep(dir_fd, pl_is_temporary_name);
}

/* ---- names ---- */

/* Creates a free name .NAME.plumb-PID-N: a file (flags, mode) or a folder. Returns its descriptor,
 * locked, or -1 and errno. *slot: where the handler finds it, at once; -1: the table is full. */
static int make_temporary(int dir_fd, const char *last, bool folder, int flags, mode_t mode,
                          char name[NAME_SIZE], int *slot) {
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        (void)snprintf(name, NAME_SIZE, ".%.*s" MARK "%ld-%u", SHOWN_MAX, last, (long)getpid(),
                       __atomic_fetch_add(&n_made, 1, __ATOMIC_RELAXED));
        int fd = -1;
        bool made = false;
        *slot = reserve(dir_fd, name);
        if (folder) {
            made = mkdirat(dir_fd, name, mode) == 0;
            if (made) show_to_handler(*slot);
            if (made) fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        } else {
            fd = openat(dir_fd, name, flags | O_CREAT | O_EXCL | O_CLOEXEC, mode);
            if (fd >= 0) show_to_handler(*slot);
        }
        if (fd >= 0 && is_locked(fd)) return fd;
        cancel(*slot);
        *slot = -1;
        if (fd < 0 && !made && errno != EEXIST && errno != EINTR) return -1;
        if (fd >= 0) close(fd); /* another process's sweep removed it first */
    }
    errno = EEXIST;
    return -1;
}

pl_status pl_dir_stage(const char *path, char **temporary, pl_err *err) {
    char name[NAME_SIZE];
    const char *last = NULL;
    char *parent = pl_path_dirname(path);
    int fd = -1, dir_fd = -1, slot = -1;
    pl_status st = parent == NULL ? pl_fail_memory(err, 1) : pl_path_make_dirs(parent, err);
    if (st != PL_OK) goto done;
    dir_fd = pl_open_parent(path, &last);
    if (dir_fd >= 0) {
        pl_unfinished_sweep(dir_fd);
        fd = make_temporary(dir_fd, last, true, 0, 0777, name, &slot);
    }
    if (fd >= 0 && slot < 0) { /* too many unfinished ones */
        (void)pl_remove_at(dir_fd, name, NULL);
        close(fd);
        fd = -1;
        errno = EMFILE;
    }
    if (fd < 0) {
        st = pl_fail_errno(err, errno, "create", path);
        goto done;
    }
    slots[slot].lock_fd = fd;
    *temporary = pl_path_join(parent, name);
    if (*temporary == NULL) {
        (void)pl_remove_at(dir_fd, name, NULL);
        pl_unfinished_done(name);
        st = pl_fail_memory(err, 1);
    }
done:
    if (dir_fd >= 0) close(dir_fd);
    pl_free(parent);
    return st;
}

/* musl has no renameat2. */
static int rename_new(int from_dir, const char *from, int to_dir, const char *to) {
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, RENAME_NOREPLACE);
}

pl_status pl_dir_publish(const char *temporary, const char *path, pl_err *err) {
    int done = rename_new(AT_FDCWD, temporary, AT_FDCWD, path);
    /* File systems without the flag: rename(2) refuses a folder that is not empty. */
    if (done != 0 && errno != EEXIST) done = rename(temporary, path);
    if (done == 0) {
        pl_unfinished_done(pl_path_basename(temporary));
        return PL_OK;
    }
    if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)
        return pl_fail(err, PL_E_EXISTS, "'%s' already exists", path);
    return pl_fail_errno(err, errno, "name the folder", path);
}

/* ---- the temporary folder ---- */

const char *pl_dir_for_temporaries(void) {
    const char *dir = getenv("TMPDIR");
    return dir == NULL || dir[0] == '\0' ? "/tmp" : dir;
}

static bool is_work_name(const char *name) { /* plumb-tmp.PID.XXXXXX */
    const size_t n = strlen(PREFIX);
    if (strncmp(name, PREFIX, n) != 0) return false;
    const size_t pid = digits(name + n);
    return pid > 0 && name[n + pid] == '.' && strlen(name + n + pid + 1) == 6;
}

/* Creates a folder at `path`, whose last six letters are chosen here. Returns its descriptor,
 * locked, or -1 and errno. */
static int make_work_folder(int dir_fd, char *path) {
    char *letters = path + strlen(path) - 6;
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        memset(letters, 'X', 6);
        if (mkdtemp(path) == NULL) return -1;
        const char *last = pl_path_basename(path);
        const int fd = openat(dir_fd, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && is_locked(fd)) return fd;
        if (fd < 0 && errno != ENOENT) {
            const int why = errno;
            (void)unlinkat(dir_fd, last, AT_REMOVEDIR);
            errno = why;
            return -1;
        }
        if (fd >= 0) close(fd); /* another process's sweep removed it first */
    }
    errno = EEXIST;
    return -1;
}

pl_status pl_dir_temporary(char **out, pl_err *err) {
    const char *parent = pl_dir_for_temporaries();
    char name[64];
    pl_status st = PL_OK;
    const int dir_fd = pl_fd_open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir_fd >= 0 && !__atomic_exchange_n(&swept, true, __ATOMIC_RELAXED))
        sweep(dir_fd, is_work_name);
    (void)snprintf(name, sizeof name, PREFIX "%ld.XXXXXX", (long)getpid());
    char *path = pl_path_join(parent, name);
    if (path == NULL) {
        st = pl_fail_memory(err, 1);
    } else {
        const int fd = dir_fd < 0 ? -1 : make_work_folder(dir_fd, path);
        if (fd < 0) {
            st = pl_fail_errno(err, errno, "create a temporary folder", path);
        } else if (!add(dir_fd, fd, pl_path_basename(path))) {
            st = pl_fail_errno(err, errno, "lock a temporary folder", path);
            (void)unlinkat(dir_fd, pl_path_basename(path), AT_REMOVEDIR);
            close(fd);
        }
    }
    if (dir_fd >= 0) close(dir_fd);
    if (st == PL_OK) {
        *out = path;
    } else {
        pl_free(path);
    }
    return st;
}

/* ---- new files ---- */

static bool has_proc(void) {
    return faccessat(AT_FDCWD, "/proc/self/fd", F_OK, 0) == 0;
}

static pl_status open_named(pl_new_file *f, const char *shown, int flags, pl_err *err) {
    int slot = -1; /* if the table is full, the next start removes it */
    pl_unfinished_sweep(f->dir_fd);
    f->fd = make_temporary(f->dir_fd, f->last, false, flags, 0666, f->temporary, &slot);
    if (f->fd < 0) {
        f->temporary[0] = '\0';
        return pl_fail_errno(err, errno, "create", shown);
    }
    return PL_OK;
}

pl_status pl_new_file_open_at(int dir_fd, const char *last, const char *shown, int flags,
                              bool named, bool replace, pl_new_file *out, pl_err *err) {
    pl_new_file f = PL_NEW_FILE_INIT;
    pl_status st = PL_OK;
    f.replace = replace;
    f.last = pl_strdup(last);
    f.dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    if (f.last == NULL || f.dir_fd < 0) {
        st = f.last == NULL ? pl_fail_memory(err, 1) : pl_fail_errno(err, errno, "create", shown);
    } else if (named || replace || !has_proc()) {
        st = open_named(&f, shown, flags, err);
    } else {
        f.fd = openat(f.dir_fd, ".", O_TMPFILE | flags | O_CLOEXEC, 0666);
        /* Without O_TMPFILE, kernels and file systems take this as writing to a folder. */
        if (f.fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
            st = open_named(&f, shown, flags, err);
        } else if (f.fd < 0) {
            st = pl_fail_errno(err, errno, "create", shown);
        }
    }
    if (st != PL_OK) {
        pl_new_file_discard(&f);
        return st;
    }
    *out = f;
    return PL_OK;
}

static pl_status fail_exists(const char *shown, pl_err *err) {
    return pl_fail(err, PL_E_EXISTS, "'%s' already exists", shown);
}

/* Pipes and devices that the user named are written directly. A pipe without a reader is an error;
 * do not wait for one. */
static pl_status open_in_place(const char *path, pl_new_file *out, pl_err *err) {
    pl_new_file f = PL_NEW_FILE_INIT;
    f.fd = pl_fd_open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (f.fd < 0 && errno == ENXIO)
        return pl_fail(err, PL_E_IO, "'%s' is a pipe or socket without a reader", path);
    if (f.fd < 0) return pl_fail_errno(err, errno, "open", path);
    (void)fcntl(f.fd, F_SETFL, fcntl(f.fd, F_GETFL) & ~O_NONBLOCK);
    f.in_place = true;
    *out = f;
    return PL_OK;
}

pl_status pl_new_file_open(const char *path, int flags, bool named, pl_new_file *out, pl_err *err) {
    const char *last = NULL;
    struct stat info;
    if (pl_path_basename(path)[0] == '\0')
        return pl_fail(err, PL_E_INVALID, "'%s' does not name a file", path);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return pl_fail(err, PL_E_INVALID, "'%s' is a folder, expected a file", path);
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) return open_in_place(path, out, err);
    if (lstat(path, &info) == 0) return fail_exists(path, err); /* also for a dangling link */
    const int parent = pl_open_parent(path, &last);
    if (parent < 0) return pl_fail_errno(err, errno, "create", path);
    const pl_status st = pl_new_file_open_at(parent, last, path, flags, named, false, out, err);
    close(parent);
    return st;
}

/* Gives the file its final name; unless `replace` is set, an existing file is EEXIST. */
static int give_name(const pl_new_file *f) {
    if (f->replace) return renameat(f->dir_fd, f->temporary, f->dir_fd, f->last);
    if (f->temporary[0] == '\0') {
        char self[64];
        (void)snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
        return linkat(AT_FDCWD, self, f->dir_fd, f->last, AT_SYMLINK_FOLLOW);
    }
    if (rename_new(f->dir_fd, f->temporary, f->dir_fd, f->last) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    if (linkat(f->dir_fd, f->temporary, f->dir_fd, f->last, 0) != 0) return -1;
    return unlinkat(f->dir_fd, f->temporary, 0);
}

pl_status pl_new_file_publish(pl_new_file *f, const char *shown, pl_err *err) {
    if (!pl_sync_fd(f->fd)) return pl_fail_errno(err, errno, "sync", shown);
    if (f->in_place) return PL_OK;
    if (give_name(f) != 0)
        return errno == EEXIST ? fail_exists(shown, err) : pl_fail_errno(err, errno, "name", shown);
    if (f->temporary[0] != '\0') pl_unfinished_done(f->temporary);
    f->temporary[0] = '\0';
    return pl_sync_fd(f->dir_fd) || errno == EACCES ? PL_OK
                                                    : pl_fail_errno(err, errno, "sync", shown);
}

void pl_new_file_discard(pl_new_file *f) {
    if (f->temporary[0] != '\0') {
        (void)unlinkat(f->dir_fd, f->temporary, 0);
        pl_unfinished_done(f->temporary);
    }
    if (f->fd >= 0) close(f->fd);
    if (f->dir_fd >= 0) close(f->dir_fd);
    pl_free(f->last);
    *f = (pl_new_file)PL_NEW_FILE_INIT;
}
