/* A spool: data that does not fit in memory is kept in an unnamed file and mapped when read.
 *
 * The first `memory` bytes stay in memory; later data is written to a temporary file that the
 * kernel removes with the process. Each datum read back has its own mapping, so releasing it frees
 * its memory. Sequences, optionals and strings stay in memory. Not thread-safe. */
#ifndef PL_SPOOL_H
#define PL_SPOOL_H

#include "tensor/datum.h"

typedef struct pl_spool pl_spool;

/* dir NULL = $TMPDIR, else /tmp; the file is created when first needed. */
pl_status pl_spool_new(uint64_t memory, const char *dir, pl_spool **out, pl_err *err);
void pl_spool_free(pl_spool *spool); /* data read stays valid; NULL is fine */
/* Borrowed. *id counts from 0. */
pl_status pl_spool_put(pl_spool *spool, const pl_datum *datum, size_t *id, pl_err *err);
/* A new reference. */
pl_status pl_spool_get(const pl_spool *spool, size_t id, pl_datum **out, pl_err *err);
uint64_t pl_spool_bytes(const pl_spool *spool); /* of all data */

#endif
