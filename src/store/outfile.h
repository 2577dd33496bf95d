/* A file that appears complete under its name or not at all, written at any offset; never replaces
 * another.
 *
 * pl_file_writer (base/file.h) appends; a recording needs its header last. The file has no name
 * until it is published (O_TMPFILE), so a killed writer leaves nothing behind. If the file system
 * does not support that, it is a hidden temporary file beside the target. Writing is thread-safe
 * (different ranges), opening and publishing are not. */
#ifndef PL_OUTFILE_H
#define PL_OUTFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pl_outfile pl_outfile;

typedef enum pl_outfile_kind {
    PL_OUTFILE_UNNAMED, /* falls back to NAMED if unsupported */
    PL_OUTFILE_NAMED
} pl_outfile_kind;

/* PL_E_EXISTS if `path` already exists. */
pl_status pl_outfile_open(const char *path, pl_outfile_kind kind, pl_outfile **out, pl_err *err);
pl_status pl_outfile_write(pl_outfile *file, uint64_t at, const void *data, size_t n_bytes,
                           pl_err *err);
/* Copies a range of another outfile. */
pl_status pl_outfile_copy(pl_outfile *to, uint64_t to_at, pl_outfile *from, uint64_t from_at,
                          uint64_t n_bytes, pl_err *err);
/* Syncs the file, gives it its name (PL_E_EXISTS when the name is taken by now), syncs the folder.
 * After PL_OK the file survives a power cut. Frees the handle in any case. */
pl_status pl_outfile_publish_take(pl_outfile *file, pl_err *err);
void pl_outfile_discard_take(pl_outfile *file); /* NULL is fine */

/* Writes everything at an offset; `path` is for messages. */
pl_status pl_write_all(int fd, uint64_t at, const void *data, size_t n_bytes, const char *path,
                       pl_err *err);

#endif
