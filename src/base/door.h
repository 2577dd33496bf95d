/* Access to untrusted folders through open descriptors.
 *
 * A session, store, repro, recording or cache may be untrusted. Its files are opened through a
 * pl_dir: the kernel resolves the name beneath the folder (openat2), follows no link on the way,
 * and accepts only regular files, so that no link leads out of the folder and no pipe or device
 * blocks. Names that the user typed may lead through links: pl_dir_open and base/file.h are for
 * those. No other folder of src/ calls open(2) and its kin; tools/check-rooms lists the
 * exceptions. */
#ifndef PL_DOOR_H
#define PL_DOOR_H

#include "base/file.h"

typedef struct pl_dir pl_dir;

typedef enum pl_kind {
    PL_KIND_NONE, /* missing, or only reachable through a link */
    PL_KIND_FILE,
    PL_KIND_FOLDER,
    PL_KIND_OTHER /* a link, pipe, socket or device */
} pl_kind;

/* A folder that the user named; the name may lead through links. */
pl_status pl_dir_open(const char *path, pl_dir **out, pl_err *err);
/* The same, but links may point elsewhere beneath it: for the user's own model. */
pl_status pl_dir_open_lenient(const char *path, pl_dir **out, pl_err *err);
/* Created if missing; it must belong to the user, not be a link, and not be accessible to others.
 */
pl_status pl_dir_open_private(const char *path, pl_dir **out, pl_err *err);
/* A folder beneath another. */
pl_status pl_dir_open_in(const pl_dir *dir, const char *name, pl_dir **out, pl_err *err);
pl_dir *pl_dir_ref(pl_dir *dir);
void pl_dir_close(pl_dir *dir);             /* NULL is fine */
const char *pl_dir_path(const pl_dir *dir); /* for messages */
int pl_dir_fd(const pl_dir *dir);           /* to lock or sync it */

/* Names below may have slashes; "." is the folder itself where a folder is expected. */
pl_kind pl_dir_look(const pl_dir *dir, const char *name, uint64_t *n_bytes); /* n_bytes: or NULL */
bool pl_dir_is_own(const pl_dir *dir, const char *name);                     /* made by this user */
/* Modification time of a regular file, in seconds since 1970; false if it is not one. */
bool pl_dir_when(const pl_dir *dir, const char *name, int64_t *out);
pl_status pl_dir_map(const pl_dir *dir, const char *name, pl_file_map **out, pl_err *err);
pl_status pl_dir_names(const pl_dir *dir, const char *name, pl_dir_list *out, pl_err *err);
pl_status pl_dir_make(const pl_dir *dir, const char *name, pl_err *err); /* ok if it exists */
pl_status pl_dir_sync(const pl_dir *dir, const char *name, pl_err *err);

/* A regular file for reading and writing, created if missing: a lock. */
pl_status pl_dir_open_lock(const pl_dir *dir, const char *name, int *out, pl_err *err);
/* A new file. */
pl_status pl_dir_create(const pl_dir *dir, const char *name, int flags, mode_t mode, int *out,
                        pl_err *err);
/* Writes the whole file, replacing a regular one; it is an error if the name is anything else. */
pl_status pl_dir_write(const pl_dir *dir, const char *name, const void *data, size_t n_bytes,
                       pl_err *err);
pl_status pl_file_writer_open_in(const pl_dir *dir, const char *name, pl_file_writer **out,
                                 pl_err *err);
/* Replaces a file, but never a folder. */
pl_status pl_dir_rename(const pl_dir *dir, const char *from, const char *to, pl_err *err);
/* Removes a name, not what a link points to. A missing name is fine. */
pl_status pl_dir_unlink(const pl_dir *dir, const char *name, pl_err *err);
/* Opens a regular file beneath; the caller closes the descriptor. */
pl_status pl_dir_open_file(const pl_dir *dir, const char *name, int *out, pl_err *err);

/* ---- new files ---- */

/* A file without a name, or with a temporary one; it gets its name when it is complete. */
typedef struct pl_new_file {
    int fd, dir_fd;
    bool in_place;       /* a pipe or device: written directly */
    bool replace;        /* may replace a regular file */
    char *last;          /* the final name */
    char temporary[280]; /* "" = unnamed */
} pl_new_file;
#define PL_NEW_FILE_INIT                                                                           \
    { -1, -1, false, false, NULL, "" }

/* Creates it in dir_fd, which is duplicated. `named`: use a temporary name even if O_TMPFILE
 * works. */
pl_status pl_new_file_open_at(int dir_fd, const char *last, const char *shown, int flags,
                              bool named, bool replace, pl_new_file *out, pl_err *err);
pl_status pl_new_file_open(const char *path, int flags, bool named, pl_new_file *out, pl_err *err);
pl_status pl_new_file_publish(pl_new_file *f, const char *shown, pl_err *err);
void pl_new_file_discard(pl_new_file *f);

/* For tests: behaves as on a kernel without openat2. */
void pl_door_without_openat2(bool on);

/* ---- unfinished files ---- */

/* Removes this process's unfinished files with temporary names. For handlers of fatal signals:
 * async-signal-safe. */
void pl_door_abandon(void);

#endif
