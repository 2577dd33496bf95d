/* The scheduling core of plumb corpus (src/flows/corpus/schedule.c, the same file) under SimGrid: rank 0 hands out the steps of items,
 * the others ask, compute and report. simulate.py builds it with smpicc and runs it with smpirun.
 *
 * usage: simulate COSTS MASTER_US MODE     COSTS: lines "model estimate_us n_steps us…"; MODE: learn (rank 0 learns from what finishes), known (the
 * costs are those of an earlier run) or shard (dealt before it starts). Rank 0 shares its host with rank 1: it only answers, as plumb's scheduler does. */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flows/corpus/schedule.h"

enum { ASK = 1, ANSWER = 2, FLOPS_PER_US = 1000 /* hosts of 1 Gf */ };

typedef struct costs {
    uint64_t *estimate, (*step)[PL_SCHEDULE_STEPS];
    size_t *family;
    int *n_steps;
    size_t n;
} costs;

static costs read_costs(const char *path) {
    costs c = { 0 };
    unsigned long long family, estimate, us;
    size_t capacity = 0;
    int n_steps;
    FILE *f = fopen(path, "r");
    if (f == NULL) exit(2);
    while (fscanf(f, "%llu %llu %d", &family, &estimate, &n_steps) == 3) {
        if (c.n == capacity) {
            capacity = capacity * 2 + 1024;
            c.estimate = realloc(c.estimate, capacity * sizeof *c.estimate);
            c.step = realloc(c.step, capacity * sizeof *c.step);
            c.family = realloc(c.family, capacity * sizeof *c.family);
            c.n_steps = realloc(c.n_steps, capacity * sizeof *c.n_steps);
            if (c.estimate == NULL || c.step == NULL || c.family == NULL || c.n_steps == NULL) exit(2);
        }
        if (n_steps < 1 || n_steps > PL_SCHEDULE_STEPS) exit(2);
        for (int i = 0; i < n_steps; i++) {
            if (fscanf(f, "%llu", &us) != 1) exit(2);
            c.step[c.n][i] = us;
        }
        c.n_steps[c.n] = n_steps;
        c.family[c.n] = (size_t)family;
        c.estimate[c.n++] = estimate;
    }
    fclose(f);
    return c;
}

static uint64_t whole(const costs *c, size_t item) {
    uint64_t sum = 0;
    for (int i = 0; i < c->n_steps[item]; i++)
        sum += c->step[item][i];
    return sum;
}

static void work(uint64_t us) {
    if (us > 0) smpi_execute_flops((double)us * FLOPS_PER_US);
}

/* Workers are served in the order of their messages. One that finds nothing to do waits until another's report brings a step back. */
static size_t hand_out(const costs *c, int n_workers, uint64_t master_us) {
    pl_schedule s;
    int *step = calloc(c->n, sizeof *step), *idle = calloc((size_t)n_workers, sizeof *idle), n_idle = 0;
    size_t n_done = 0;
    if (step == NULL || idle == NULL || !pl_schedule_init(&s, c->estimate, c->family, c->n, (size_t)n_workers, 0)) exit(2);
    while (!pl_schedule_is_over(&s)) {
        long finished;
        MPI_Status from;
        MPI_Recv(&finished, 1, MPI_LONG, MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &from);
        work(master_us);
        if (finished >= 0) {
            const uint64_t took = c->step[finished][step[finished]++];
            const bool more = step[finished] < c->n_steps[finished];
            if (pl_schedule_done(&s, (size_t)from.MPI_SOURCE - 1, took, more) != (size_t)finished) exit(3);
            n_done += !more;
        }
        idle[n_idle++] = from.MPI_SOURCE;
        while (n_idle > 0) {
            const size_t next = pl_schedule_next(&s, (size_t)idle[n_idle - 1] - 1);
            if (next == PL_SCHEDULE_NONE) break;
            long answer[2] = { (long)next, (long)c->step[next][step[next]] };
            MPI_Send(answer, 2, MPI_LONG, idle[--n_idle], ANSWER, MPI_COMM_WORLD);
        }
    }
    long enough[2] = { -1, 0 };
    for (int i = 1; i <= n_workers; i++)
        MPI_Send(enough, 2, MPI_LONG, i, ANSWER, MPI_COMM_WORLD);
    pl_schedule_release(&s);
    free(step);
    free(idle);
    return n_done;
}

static void ask(void) {
    for (long answer[2] = { -1, 0 };;) {
        MPI_Send(answer, 1, MPI_LONG, 0, ASK, MPI_COMM_WORLD);
        MPI_Recv(answer, 2, MPI_LONG, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (answer[0] < 0) return;
        work((uint64_t)answer[1]);
    }
}

static void run_shard(const costs *c, size_t shard, size_t n_shards) {
    pl_schedule s;
    if (!pl_schedule_init(&s, c->estimate, NULL, c->n, 1, 0)) exit(2);
    for (size_t place = 0; place < c->n; place++) {
        const size_t item = pl_schedule_next(&s, 0);
        if (pl_schedule_shard(place, n_shards) == shard) work(whole(c, item));
        (void)pl_schedule_done(&s, 0, 0, false);
    }
    pl_schedule_release(&s);
}

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    if (argc != 4) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    const int is_shard = strcmp(argv[3], "shard") == 0;
    costs c = read_costs(argv[1]);
    size_t n_done = c.n;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (is_shard) {
        if (rank > 0) run_shard(&c, (size_t)rank - 1, (size_t)n - 1);
    } else if (rank == 0) {
        if (strcmp(argv[3], "known") == 0) { /* nothing to learn: no families */
            free(c.family);
            c.family = NULL;
            for (size_t i = 0; i < c.n; i++)
                c.estimate[i] = whole(&c, i);
        }
        n_done = hand_out(&c, n - 1, (uint64_t)atoll(argv[2]));
    } else {
        ask();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - begin;
    double sum = 0, longest = 0;
    for (size_t i = 0; i < c.n; i++) {
        const double seconds_of = (double)whole(&c, i) / 1e6;
        sum += seconds_of;
        if (seconds_of > longest) longest = seconds_of;
    }
    if (rank == 0)
        printf("{\"workers\": %d, \"items\": %zu, \"done\": %zu, \"seconds\": %.6f, \"sum\": %.6f, \"longest\": %.6f, \"efficiency\": %.6f}\n", n - 1, c.n, n_done,
               seconds, sum, longest, sum / (n - 1) / seconds);
    free(c.estimate);
    free(c.step);
    free(c.n_steps);
    free(c.family);
    MPI_Finalize();
    return 0;
}
