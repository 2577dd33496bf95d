/* Files: mapped reads, whole writes. A file appears complete under its name or not at all: writers
 * go to a temporary in the same folder, sync, and rename. */
#ifndef PL_FILE_H
#define PL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* "cannot <doing> '<path>': <text of error>"; a missing file is PL_E_NOT_FOUND, else PL_E_IO. */
pl_status pl_fail_errno(pl_err *err, int error, const char *doing, const char *path);

/* open(2), retried on EINTR. */
int pl_fd_open(const char *path, int flags, mode_t mode);

/* fsync(2); a file that cannot be synced (EINVAL, EROFS) counts as done. */
bool pl_sync_fd(int fd);
/* Makes names in the folder durable. A folder that is writable but not readable cannot be synced;
 * that is not an error. */
pl_status pl_sync_dir(const char *path, pl_err *err);

/* A read-only mapping of a whole file, ref-counted so that zero-copy tensors keep it alive.
 * An empty file maps to n_bytes == 0 and a non-NULL data pointer. Thread-safe counts. */
typedef struct pl_file_map {
    const uint8_t *data;
    size_t n_bytes;
    char *path;
    int refs;
    bool heap; /* data was read into the heap: pipes and other things that cannot be mapped */
    struct pl_file_watch *watch; /* file_fault.h */
} pl_file_map;

/* Pipes and devices are read into memory up to this size (no protobuf message is larger). */
#define PL_FILE_STREAM_MAX (UINT64_C(2) << 30)

/* A file that the user named: links are followed, pipes and character devices are read into memory
 * (a named pipe without a writer times out). Files in a session, store, repro or recording are
 * opened with base/door.h. */
pl_status pl_file_map_open(const char *path, pl_file_map **out, pl_err *err);
/* The same, without pipes and devices. */
pl_status pl_file_map_open_regular(const char *path, pl_file_map **out, pl_err *err);
pl_file_map *pl_file_map_ref(pl_file_map *map);
void pl_file_map_unref(pl_file_map *map); /* NULL is fine */

/* The bytes will hardly be read again: their pages no longer count as the process's memory. They
 * stay as they are, and reading them fetches them anew. */
void pl_file_map_forget(const pl_file_map *map, const void *data, size_t n_bytes);

/* True if no page of a private mapping was written to: the page table shows that without reading
 * the bytes. False if unknown, and for heap memory. */
bool pl_file_map_untouched(const void *data, size_t n_bytes);

/* Atomic whole-file writer. Open, append as often as you like, then commit or abort. Never replaces
 * a file that the user named (PL_E_EXISTS, when opened or committed); a pipe or device is written
 * in place. pl_dir_write replaces plumb's own. */
typedef struct pl_file_writer pl_file_writer;
pl_status pl_file_writer_open(const char *path, pl_file_writer **out, pl_err *err);
pl_status pl_file_writer_append(pl_file_writer *w, const void *data, size_t n_bytes, pl_err *err);
uint64_t pl_file_writer_offset(const pl_file_writer *w); /* bytes appended so far */
/* Flushes, syncs and renames to the final name. Frees the writer either way. */
pl_status pl_file_writer_commit_take(pl_file_writer *w, pl_err *err);
void pl_file_writer_abort_take(pl_file_writer *w); /* removes the temporary; NULL is fine */
pl_status pl_file_write(const char *path, const void *data, size_t n_bytes, pl_err *err);

bool pl_path_exists(const char *path);
bool pl_path_is_dir(const char *path);
pl_status pl_path_make_dirs(const char *path, pl_err *err); /* mkdir -p */
/* dir + "/" + name; an absolute name is returned as it is. Caller frees; NULL = out of memory. */
char *pl_path_join(const char *dir, const char *name);
char *pl_path_dirname(const char *path); /* "." when there is no slash */
char *pl_path_real(const char *path);    /* without symbolic links; NULL: not found, no memory */
const char *pl_path_basename(const char *path);
bool pl_path_has_suffix(const char *path, const char *suffix);
/* Resolves `name` below `dir` and fails (PL_E_INVALID) when the real path, symlinks followed,
 * leaves the real `dir`; absolute names are refused. Caller frees *out. */
pl_status pl_path_resolve_inside(const char *dir, const char *name, char **out, pl_err *err);

/* Names in a folder without "." and "..", sorted bytewise. Caller frees with pl_dir_list_free. */
typedef struct pl_dir_list {
    char **names;
    size_t n_names;
} pl_dir_list;
pl_status pl_dir_list_read(const char *path, pl_dir_list *out, pl_err *err);
void pl_dir_list_free(pl_dir_list *list);
/* Removes a folder and all in it; symlinks inside are removed, not followed. */
pl_status pl_dir_remove(const char *path, pl_err *err);
const char *pl_dir_for_temporaries(void); /* $TMPDIR, or /tmp */
/* A new private folder there. Caller frees *out and removes the folder. */
pl_status pl_dir_temporary(char **out, pl_err *err);

/* A folder that appears complete or not at all. stage creates a hidden one beside `path` (and
 * missing parents); publish renames it, or fails with PL_E_EXISTS; pl_dir_remove discards it. */
pl_status pl_dir_stage(const char *path, char **temporary, pl_err *err);
pl_status pl_dir_publish(const char *temporary, const char *path, pl_err *err);

#endif
