/* plumb-openmpi.so and plumb-mpich.so: MPI behind the functions of ranks_module.h.
 *
 * Waiting sleeps between looks. MPI itself would spin, and take the CPU from the other ranks on the
 * machine and from the processes that do the work. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <time.h>

#include "base/ranks/ranks_module.h"

enum { TAG = 1, LOOK_NS = 200000 };

static struct {
    MPI_Comm all; /* our own copy: a host's messages are not ours */
    int is_ours;  /* we called MPI_Init */
} mpi;

static int explain(int error, char *why, size_t n_why) {
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (MPI_Error_string(error, text, &n) != MPI_SUCCESS) n = 0;
    snprintf(why, n_why, "%.*s", n, text);
    return -1;
}

static int join_all(int *rank, int *size, char *why, size_t n_why) {
    int begun = 0, ended = 0, level = 0;
    MPI_Finalized(&ended);
    MPI_Initialized(&begun);
    if (ended) {
        snprintf(why, n_why, "MPI was finalized before in this process");
        return -1;
    }
    int error = begun ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (error != MPI_SUCCESS) return explain(error, why, n_why);
    mpi.is_ours = !begun;
    error = MPI_Comm_dup(MPI_COMM_WORLD, &mpi.all);
    if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(mpi.all, MPI_ERRORS_RETURN);
    if (error == MPI_SUCCESS) error = MPI_Comm_rank(mpi.all, rank);
    if (error == MPI_SUCCESS) error = MPI_Comm_size(mpi.all, size);
    return error == MPI_SUCCESS ? 0 : explain(error, why, n_why);
}

static int send_one(int to, const void *data, size_t n_bytes, int (*stop)(void *ctx), void *ctx) {
    MPI_Request request;
    const struct timespec nap = { 0, LOOK_NS };
    int done = 0;
    if (n_bytes > INT_MAX ||
        MPI_Isend(data, (int)n_bytes, MPI_BYTE, to, TAG, mpi.all, &request) != MPI_SUCCESS)
        return -1;
    for (;;) {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
        if (done) return 0;
        if (stop != NULL && stop(ctx)) {
            MPI_Cancel(&request);
            MPI_Request_free(&request);
            return -1;
        }
        nanosleep(&nap, NULL);
    }
}

static int probe_any(int *from, size_t *n_bytes) {
    MPI_Status status;
    int there = 0, n = 0;
    if (MPI_Iprobe(MPI_ANY_SOURCE, TAG, mpi.all, &there, &status) != MPI_SUCCESS) return -1;
    if (!there) return 0;
    if (MPI_Get_count(&status, MPI_BYTE, &n) != MPI_SUCCESS || n < 0) return -1;
    *from = status.MPI_SOURCE;
    *n_bytes = (size_t)n;
    return 1;
}

static int receive_one(int from, void *data, size_t n_bytes) {
    const int error = MPI_Recv(data, (int)n_bytes, MPI_BYTE, from, TAG, mpi.all, MPI_STATUS_IGNORE);
    return error == MPI_SUCCESS ? 0 : -1;
}

static int leave_all(void) {
    if (MPI_Comm_free(&mpi.all) != MPI_SUCCESS) return -1;
    return !mpi.is_ours || MPI_Finalize() == MPI_SUCCESS ? 0 : -1;
}

const pl_ranks_module *plumb_ranks_module_v1(void) {
    static const pl_ranks_module module = {
        PL_RANKS_MODULE_VERSION, PL_MPI_NAME, join_all, send_one, probe_any, receive_one, leave_all
    };
    return &module;
}
