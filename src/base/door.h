/* The door to the file system: folders that are held open.
 *
 * A session, store, repro, recording or cache may be untrusted. Its files are opened through a
 * pl_dir: the kernel resolves the name beneath the folder (openat2), follows no link on the way,
 * and accepts only regular files, so that no link leads out of the folder and no pipe or device
 * blocks. Names that the user typed may lead through links: pl_dir_open and base/file.h are for
 * those. No other folder of src/ calls open(2) and its kin; tools/check-rooms lists the exceptions.
 */
#ifndef PL_DOOR_H
#define PL_DOOR_H

#include "base/file.h"

typedef struct pl_dir pl_dir;

typedef enum pl_kind {
    PL_KIND_NONE, /* nothing, or it cannot be reached without a link */
    PL_KIND_FILE,
    PL_KIND_FOLDER,
    PL_KIND_OTHER /* a link, pipe, socket or device */
} pl_kind;

/* A folder that the user named; the name may lead through links. */
pl_status pl_dir_open(const char *path, pl_dir **out, pl_err *err);
/* The same, where links may lead from one place beneath it to another: the user's own model. */
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
/* When a regular file was written, in seconds since 1970; false when it is none. */
bool pl_dir_when(const pl_dir *dir, const char *name, int64_t *out);
pl_status pl_dir_map(const pl_dir *dir, const char *name, pl_file_map **out, pl_err *err);
pl_status pl_dir_names(const pl_dir *dir, const char *name, pl_dir_list *out, pl_err *err);
pl_status pl_dir_make(const pl_dir *dir, const char *name,
                      pl_err *err); /* an existing one is fine */
pl_status pl_dir_sync(const pl_dir *dir, const char *name, pl_err *err);

/* A regular file for reading and writing, created if missing: a lock. */
pl_status pl_dir_open_lock(const pl_dir *dir, const char *name, int *out, pl_err *err);
/* A new file. */
pl_status pl_dir_create(const pl_dir *dir, const char *name, int flags, mode_t mode, int *out,
                        pl_err *err);
/* The whole file, in place of a regular one of that name; anything else of that name is an error.
 */
pl_status pl_dir_write(const pl_dir *dir, const char *name, const void *data, size_t n_bytes,
                       pl_err *err);
pl_status pl_file_writer_open_in(const pl_dir *dir, const char *name, pl_file_writer **out,
                                 pl_err *err);
/* Replaces a file, never a folder. */
pl_status pl_dir_rename(const pl_dir *dir, const char *from, const char *to, pl_err *err);
/* Removes a name, not what a link points to. Nothing there is fine. */
pl_status pl_dir_unlink(const pl_dir *dir, const char *name, pl_err *err);
/* An opened descriptor of a regular file beneath; the caller closes it. */
pl_status pl_dir_open_file(const pl_dir *dir, const char *name, int *out, pl_err *err);

/* ---- new files ---- */

/* A file that has no name yet, or a temporary one; it gets its name when it is complete. */
typedef struct pl_new_file {
    int fd, dir_fd;
    bool in_place;       /* a pipe or device: written as it is */
    bool replace;        /* a regular file of that name may be there */
    char *last;          /* the name in the end */
    char temporary[280]; /* "" = unnamed */
} pl_new_file;
#define PL_NEW_FILE_INIT                                                                           \
    { -1, -1, false, false, NULL, "" }

/* In dir_fd, which is duplicated. `named`: a temporary name even where none is needed. */
pl_status pl_new_file_open_at(int dir_fd, const char *last, const char *shown, int flags,
                              bool named, bool replace, pl_new_file *out, pl_err *err);
pl_status pl_new_file_open(const char *path, int flags, bool named, pl_new_file *out, pl_err *err);
pl_status pl_new_file_publish(pl_new_file *f, const char *shown, pl_err *err);
void pl_new_file_discard(pl_new_file *f);

/* For tests: as on a kernel without openat2. */
void pl_door_without_openat2(bool on);

/* ---- unfinished files ---- */

/* Removes unfinished files with temporary names of this process: for handlers of
 * signals that end it. Calls nothing that a handler may not. */
void pl_door_abandon(void);

#endif
