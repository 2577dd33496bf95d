/* Memory of tensors: large, and gone soon. Fresh pages cost more than what is computed into them,
 * so an analysis keeps freed blocks and uses them again: with those in use a quarter more bytes
 * than were in use at once, or 64 MB. */
#ifndef PL_BLOCKS_H
#define PL_BLOCKS_H

#include <stddef.h>

void *pl_block_alloc(size_t n_bytes);        /* 64-byte aligned; NULL on failure */
void pl_block_free(void *p, size_t n_bytes); /* n_bytes as asked for; NULL is fine */

/* Freed blocks are kept between these two; they nest. The last release empties the cache. */
void pl_blocks_keep(void);
void pl_blocks_release(void);
size_t pl_blocks_kept(void); /* bytes in the cache now */

#endif
