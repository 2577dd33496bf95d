/* Time that only goes forward: for durations and deadlines, not for dates. */
#ifndef PL_CLOCK_H
#define PL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t pl_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline int64_t pl_clock_ms(void) {
    return pl_clock_ns() / 1000000;
}

#endif
