/* What a module for one MPI provides. mpi_module.c is compiled once for each MPI against its
 * header; plumb itself links none. */
#ifndef PL_RANKS_MODULE_H
#define PL_RANKS_MODULE_H

#include <stddef.h>

enum { PL_RANKS_MODULE_VERSION = 1 };

/* Functions return 0, or -1 when MPI failed. One thread calls them. */
typedef struct pl_ranks_module {
    int version;
    const char *name; /* "openmpi" */
    /* MPI_Init, unless the host has called it. `why` gets MPI's reason for a failure. */
    int (*join)(int *rank, int *size, char *why, size_t n_why);
    /* Sleeps until it is delivered; a non-zero answer of stop() ends the waiting, as a failure. */
    int (*send)(int to, const void *data, size_t n_bytes, int (*stop)(void *ctx), void *ctx);
    int (*probe)(int *from, size_t *n_bytes);             /* 1 = a message has arrived, 0 = none */
    int (*receive)(int from, void *data, size_t n_bytes); /* the message that probe found */
    int (*leave)(void);                                   /* MPI_Finalize; waits for all ranks */
} pl_ranks_module;

/* The only symbol of a module. */
#define PL_RANKS_MODULE_ENTRY "plumb_ranks_module_v1"
const pl_ranks_module *plumb_ranks_module_v1(void);

#endif
