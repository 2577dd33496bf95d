/* The processes of one MPI job, and messages between them.
 *
 * plumb links no MPI. Under a launcher it loads a module for the MPI that the launcher belongs to;
 * the module lies beside the program or in libexec. PLUMB_MPI in the environment overrides the
 * choice: "off", "openmpi", "mpich", or the path of a module.
 *
 * Only the thread that joined calls these functions. Programs are started before joining, or
 * through a pl_spawner: Open MPI does not support fork afterwards. */
#ifndef PL_RANKS_H
#define PL_RANKS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/progress.h"

typedef struct pl_launcher {
    const char *name;       /* "mpirun of Open MPI" */
    const char *variable;   /* that told */
    int rank, size;         /* size is 0 when the environment does not say */
    const char *modules[3]; /* to try, in this order; NULL at the end */
} pl_launcher;

/* Did a launcher start this process as one of several? False for a single rank: it needs no MPI. */
bool pl_launcher_find(pl_launcher *out);
/* The number of tasks that srun started without MPI; else 0. */
int pl_launcher_plain_tasks(void);

typedef struct pl_ranks pl_ranks;

/* PL_E_UNSUPPORTED when no module fits; the message says what to install. */
pl_status pl_ranks_join(const pl_launcher *launcher, pl_ranks **out, pl_err *err);
int pl_ranks_rank(const pl_ranks *ranks);
int pl_ranks_size(const pl_ranks *ranks);
/* `whole`: every rank leaves; waits for them. False if some have died: MPI is left as it is. NULL
 * is fine. */
void pl_ranks_leave(pl_ranks *ranks, bool whole);

/* Messages between two ranks arrive in the order in which they were sent. */
pl_status pl_ranks_send(pl_ranks *ranks, int to, const pl_buf *message, const pl_progress *progress,
                        pl_err *err);
/* The next message from any rank, if one has arrived; `message` is replaced. */
pl_status pl_ranks_poll(pl_ranks *ranks, int *from, pl_buf *message, bool *got, pl_err *err);
/* Waits for it. `progress` may cancel. */
pl_status pl_ranks_wait(pl_ranks *ranks, const pl_progress *progress, int *from, pl_buf *message,
                        pl_err *err);

/* The name of module i and whether it was built. It is not opened: the libraries of an MPI are
 * large, and leave memory behind. False when there are no more. */
bool pl_ranks_module_at(size_t i, const char **name, bool *is_there);

#endif
