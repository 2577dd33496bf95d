/* Just enough of ZIP (PKWARE APPNOTE 6.3) for npz: stored and deflated entries, ZIP64, CRC checked;
 * writing stored entries. Encrypted and multi-disk archives are PL_E_UNSUPPORTED. */
#ifndef PL_ZIP_H
#define PL_ZIP_H

#include "base/file.h"
#include "base/wire.h"

typedef struct pl_zip_entry {
    pl_bytes name;   /* borrowed from the archive */
    uint16_t method; /* 0 stored, 8 deflated */
    uint32_t crc;
    pl_bytes packed;  /* the entry's bytes in the archive */
    uint64_t n_bytes; /* unpacked */
} pl_zip_entry;

typedef struct pl_zip {
    pl_zip_entry *entries; /* in the order of the central directory */
    size_t n_entries;
} pl_zip;

bool pl_zip_sniff(const void *data, size_t n_bytes);
/* Borrows the bytes. Entries never overlap, so all of them together are bounded by the file. */
pl_status pl_zip_open(pl_bytes archive, pl_zip *out, pl_err *err);
void pl_zip_release(pl_zip *zip);
/* Checks the CRC. *owned must be freed with pl_free (deflated), or is NULL when *out points into
 * the archive (stored). */
pl_status pl_zip_read(const pl_zip_entry *entry, pl_bytes *out, void **owned, pl_err *err);

uint32_t pl_crc32(uint32_t crc, const void *data, size_t n_bytes); /* start with 0 */

/* Writing: CRC and size of each entry must be known before its bytes. */
typedef struct pl_zip_writer pl_zip_writer;
pl_status pl_zip_writer_open(const char *path, pl_zip_writer **out, pl_err *err);
/* Sets whether the entries that follow are executable. */
void pl_zip_writer_set_executable(pl_zip_writer *w, bool executable);
pl_status pl_zip_writer_begin(pl_zip_writer *w, const char *name, uint64_t n_bytes, uint32_t crc,
                              pl_err *err);
pl_status pl_zip_writer_append(pl_zip_writer *w, const void *data, size_t n_bytes, pl_err *err);
pl_status pl_zip_writer_commit_take(pl_zip_writer *w, pl_err *err);
void pl_zip_writer_abort_take(pl_zip_writer *w); /* NULL is fine */

#endif
