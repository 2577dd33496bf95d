/* Nanoseconds for a word to go from one core to another and back: how far apart the first two cores
 * of this process are now. On a virtual machine that changes while it runs. Two cores of one
 * complex (60 to 80 ns on an EPYC of 2022) share its way to memory, two of different ones (300 to
 * 400) have twice as much of it. Prints 0 where there is one core. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { TRIPS = 100000 };
static _Alignas(128) atomic_int ball;
static int cores[2];

static void stay_on(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *answer(void *arg) {
    stay_on(cores[1]);
    for (int i = 0; i < TRIPS; i++) {
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
    }
    return arg;
}

int main(void) {
    cpu_set_t set;
    pthread_t other;
    struct timespec t0, t1;
    int n = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &set)) cores[n++] = i;
    if (n < 2) return puts("0") == EOF;
    stay_on(cores[0]);
    if (pthread_create(&other, NULL, answer, NULL) != 0) return 1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (int i = 0; i < TRIPS; i++) {
        atomic_store_explicit(&ball, 2 * i + 1, memory_order_release);
        while (atomic_load_explicit(&ball, memory_order_acquire) != 2 * i + 2)
            ;
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    pthread_join(other, NULL);
    printf("%.0f\n",
           ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / TRIPS);
    return 0;
}
