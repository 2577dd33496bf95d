/* Mapped files that shrink. Reading beyond the new end of a mapped file raises SIGBUS, and another
 * program may truncate a file at any time. Here it becomes an error: the page reads as zeros, the
 * mapping is marked, and callers must call pl_file_fault_check before they return a result.
 *
 * The handler is installed with the first mapping, and only where SIGBUS still has its default
 * action. A SIGBUS at any other address ends the process as before. Thread-safe. */
#ifndef PL_FILE_FAULT_H
#define PL_FILE_FAULT_H

#include "base/status.h"

typedef struct pl_file_watch pl_file_watch;

/* NULL: out of memory; the mapping is not watched and SIGBUS ends the process as usual. */
pl_file_watch *pl_file_fault_watch(const char *path, const void *data, size_t n_bytes);
void pl_file_fault_unwatch(pl_file_watch *watch); /* NULL is fine */
/* PL_E_IO names a file that shrank while it was mapped. Reported as long as it is mapped, and once
 * more after that. */
pl_status pl_file_fault_check(pl_err *err);

#endif
