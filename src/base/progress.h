/* A progress bar for long work, drawn on a terminal only. The library reports through a callback;
 * only the CLI installs one that draws. */
#ifndef PL_PROGRESS_H
#define PL_PROGRESS_H

#include <stdint.h>

typedef struct pl_progress {
    /* phase: what is being done; done of total (total 0 = unknown). Called often: be quick. */
    void (*update)(void *ctx, const char *phase, int64_t done, int64_t total);
    void *ctx;
} pl_progress;

/* NULL-safe. */
void pl_progress_update(const pl_progress *progress, const char *phase, int64_t done,
                        int64_t total);

/* The terminal bar: redraws at most ten times a second with an estimate of the time left; draws
 * nothing unless `fd` is a terminal. `clear` removes the line before other output. One thread at a
 * time. A new phase text starts a new estimate, so keep the text the same during one phase. */
typedef struct pl_progress_bar pl_progress_bar;
pl_progress_bar *pl_progress_bar_new(int fd); /* NULL when out of memory */
pl_progress pl_progress_bar_callback(pl_progress_bar *bar);
void pl_progress_bar_clear(pl_progress_bar *bar);
void pl_progress_bar_free(pl_progress_bar *bar);

#endif
