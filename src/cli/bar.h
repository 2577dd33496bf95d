/* Inside src/cli: the terminal bar itself, which a unit test draws on a pseudo-terminal. */
#ifndef PL_BAR_H
#define PL_BAR_H

#include <plumb.h>
#include <stdbool.h>

/* Redraws at most ten times a second with an estimate of the time left; if `fd` is not a terminal,
 * it prints a line every half minute. `clear` removes the line before other output. One thread at a
 * time. A new phase text starts a new estimate, so keep the text the same during one phase. */
typedef struct pl_bar pl_bar;
pl_bar *pl_bar_new(int fd); /* NULL when out of memory */
plumb_progress pl_bar_callback(pl_bar *bar);
void pl_bar_clear(pl_bar *bar);
void pl_bar_free(pl_bar *bar); /* NULL is fine */

#endif
