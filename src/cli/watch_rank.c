/* A rank of MPICH in two processes: this one waits, its child does the work. MPICH's launcher ends
 * all ranks at once when it learns that one has died, so that none is left to tell what it was
 * working on. It learns of the child's death only when this process ends, which tells it first. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/args.h"

static volatile sig_atomic_t working; /* the child */

static void pass_on(int number) {
    if (working > 0) (void)kill((pid_t)working, number);
}

static bool is_rank_of_mpich(void) {
    const char *mpi = getenv("PLUMB_MPI");
    return getenv("PMI_RANK") != NULL && getenv("OMPI_COMM_WORLD_RANK") == NULL &&
           (mpi == NULL || strcmp(mpi, "off") != 0);
}

static void put_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        if ((unsigned char)*text >= ' ') fputc(*text, out);
    }
    fputc('"', out);
}

/* The journal of the rank knows what it was working on. */
static int tell(const pl_args *args, const char *output, int number) {
    plumb_error err = { 0 };
    char *request = NULL, *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&request, &n);
    if (out == NULL) {
        (void)pl_args_no_memory(&err);
        return pl_command_fail(args, &err);
    }
    fprintf(out,
            "{\"what\":\"lost\",\"rank\":%d,\"signal\":%d,\"folder\":", atoi(getenv("PMI_RANK")),
            number);
    put_quoted(out, output == NULL ? "" : output);
    fputc('}', out);
    if (fclose(out) != 0 || request == NULL) {
        (void)pl_args_no_memory(&err);
    } else {
        (void)plumb_corpus_worker(request, &text, &err); /* fails with what is to be told */
    }
    plumb_free(text);
    free(request);
    return pl_command_fail(args, &err);
}

static int wait_for(const pl_args *args, const char *output) {
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    int status = 0;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        const struct sigaction forward = { .sa_handler = pass_on };
        (void)sigaction(signals[i], &forward, NULL);
    }
    while (waitpid((pid_t)working, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : tell(args, output, WTERMSIG(status));
}

int pl_cli_watch_rank(const pl_args *args, const char *output) {
    const pid_t parent = getpid();
    if (!is_rank_of_mpich()) return -1;
    const pid_t child = fork(); /* nothing has threads yet */
    if (child > 0) {
        working = (sig_atomic_t)child;
        return wait_for(args, output);
    }
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(4);
    }
    return -1; /* in the child, and where it cannot be made: then as without it */
}
