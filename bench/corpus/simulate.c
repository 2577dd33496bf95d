/* The scheduling core of plumb corpus (src/flows/corpus/schedule.c, the same file) under SimGrid: rank 0 hands out items, longest estimate first,
 * the others ask, compute and report. simulate.py builds it with smpicc and runs it with smpirun.
 *
 * usage: simulate COSTS MASTER_US MODE     COSTS: lines "model estimate_us real_us"; MODE: learn (one item at a time from
 * rank 0, which learns from siblings), ask (it does not) or shard (dealt before it starts). Rank 0 shares its host with rank 1: it only answers, as plumb's scheduler does. */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flows/corpus/schedule.h"

enum { ASK = 1, ANSWER = 2, FLOPS_PER_US = 1000 /* hosts of 1 Gf */ };

typedef struct costs {
    uint64_t *estimate, *real;
    size_t *family;
    size_t n;
} costs;

static costs read_costs(const char *path) {
    costs c = { 0 };
    unsigned long long family, estimate, real;
    size_t capacity = 0;
    FILE *f = fopen(path, "r");
    if (f == NULL) exit(2);
    while (fscanf(f, "%llu %llu %llu", &family, &estimate, &real) == 3) {
        if (c.n == capacity) {
            capacity = capacity * 2 + 1024;
            c.estimate = realloc(c.estimate, capacity * sizeof *c.estimate);
            c.real = realloc(c.real, capacity * sizeof *c.real);
            c.family = realloc(c.family, capacity * sizeof *c.family);
            if (c.estimate == NULL || c.real == NULL || c.family == NULL) exit(2);
        }
        c.family[c.n] = (size_t)family;
        c.estimate[c.n] = estimate;
        c.real[c.n++] = real;
    }
    fclose(f);
    return c;
}

static void work(uint64_t us) {
    if (us > 0) smpi_execute_flops((double)us * FLOPS_PER_US);
}

/* Every worker asks once more than it gets items, and is told that there is nothing left. */
static size_t hand_out(const costs *c, int n_workers, uint64_t master_us, int learns) {
    pl_schedule s;
    size_t n_done = 0;
    if (!pl_schedule_init(&s, c->estimate, learns ? c->family : NULL, c->n, (size_t)n_workers, 0)) exit(2);
    for (int left = n_workers; left > 0;) {
        long finished, item;
        MPI_Status from;
        MPI_Recv(&finished, 1, MPI_LONG, MPI_ANY_SOURCE, ASK, MPI_COMM_WORLD, &from);
        work(master_us);
        const size_t worker = (size_t)from.MPI_SOURCE - 1;
        if (finished >= 0) {
            if (pl_schedule_done(&s, worker, learns ? c->real[finished] : 0) != (size_t)finished) exit(3);
            n_done++;
        }
        const size_t next = pl_schedule_next(&s, worker);
        item = next == PL_SCHEDULE_NONE ? -1 : (long)next;
        left -= item < 0;
        MPI_Send(&item, 1, MPI_LONG, from.MPI_SOURCE, ANSWER, MPI_COMM_WORLD);
    }
    if (!pl_schedule_is_over(&s)) exit(3);
    pl_schedule_release(&s);
    return n_done;
}

static void ask(const costs *c) {
    for (long item = -1;;) {
        MPI_Send(&item, 1, MPI_LONG, 0, ASK, MPI_COMM_WORLD);
        MPI_Recv(&item, 1, MPI_LONG, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (item < 0) return;
        work(c->real[item]);
    }
}

static void run_shard(const costs *c, size_t shard, size_t n_shards) {
    pl_schedule s;
    if (!pl_schedule_init(&s, c->estimate, NULL, c->n, 1, 0)) exit(2);
    for (size_t place = 0; place < c->n; place++) {
        const size_t item = pl_schedule_next(&s, 0);
        if (pl_schedule_shard(place, n_shards) == shard) work(c->real[item]);
        (void)pl_schedule_done(&s, 0, 0);
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
        n_done = hand_out(&c, n - 1, (uint64_t)atoll(argv[2]), strcmp(argv[3], "learn") == 0);
    } else {
        ask(&c);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = MPI_Wtime() - begin;
    double sum = 0, longest = 0;
    for (size_t i = 0; i < c.n; i++) {
        sum += (double)c.real[i] / 1e6;
        if ((double)c.real[i] / 1e6 > longest) longest = (double)c.real[i] / 1e6;
    }
    if (rank == 0)
        printf("{\"workers\": %d, \"items\": %zu, \"done\": %zu, \"seconds\": %.6f, \"sum\": %.6f, \"longest\": %.6f, \"efficiency\": %.6f}\n", n - 1, c.n, n_done,
               seconds, sum, longest, sum / (n - 1) / seconds);
    free(c.estimate);
    free(c.real);
    free(c.family);
    MPI_Finalize();
    return 0;
}
