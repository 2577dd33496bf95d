/* Which item does a worker get next? The scheduling core of a corpus: no threads, no messages, no
 * files, nothing else of plumb, so that threads (crew.c), ranks of MPI and a simulator
 * (bench/corpus/simulate.c) run the same code.
 *
 * Items are 0 .. n_items - 1, workers 0 .. n_workers - 1. A worker asks (next), works, and reports
 * (done), again and again; whoever notices that it is gone reports that (died). One caller at a
 * time: the owner of the state locks it.
 *
 * Order: items of workers that died; then the longest first. A family is a model on several
 * backends: nobody can tell from a graph that it fails somewhere and has to be analysed, but a
 * model that took long on one version takes long on the next. So the first of a family to finish
 * replaces the estimates of the others, and a longer one raises them. To start one of each family
 * before all others was worse: what is known to be long then starts late (bench/corpus). */
#ifndef PL_SCHEDULE_H
#define PL_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PL_SCHEDULE_NONE ((size_t)-1)

typedef struct pl_schedule_item {
    uint64_t cost;     /* estimated, later learned; any unit */
    size_t family;     /* its first item */
    size_t sibling;    /* the next of its family; PL_SCHEDULE_NONE = the last */
    size_t place;      /* in the heap; PL_SCHEDULE_NONE = not waiting */
    uint64_t learned;  /* of its family, kept at the first item; 0 = nobody has finished */
    unsigned rank;     /* 1 of a dead worker, 0 others */
    unsigned n_deaths; /* while it was running */
} pl_schedule_item;

typedef struct pl_schedule {
    size_t n_items, n_workers;
    size_t n_done;    /* reported, or dropped */
    size_t n_dropped; /* running at `max_deaths` deaths */
    size_t n_running;
    unsigned max_deaths; /* 0 = an item is never dropped */
    pl_schedule_item *items;
    size_t *heap; /* waiting items, the next one first */
    size_t n_heap;
    size_t *running; /* by worker: its item, or PL_SCHEDULE_NONE */
} pl_schedule;

/* `family` is any number that siblings share; items of a family must be adjacent or not, as they
 * like. NULL: no families; `cost` NULL: all alike, in their order. False when out of memory. */
bool pl_schedule_init(pl_schedule *s, const uint64_t *cost, const size_t *family, size_t n_items,
                      size_t n_workers, unsigned max_deaths);
void pl_schedule_release(pl_schedule *s); /* all zeros is fine */

/* The next item, now running on the worker. PL_SCHEDULE_NONE: nothing is waiting now; while
 * pl_schedule_is_over is false, a death may still bring an item back. A worker that asks while its
 * item runs gets that item again. */
size_t pl_schedule_next(pl_schedule *s, size_t worker);
/* The worker's item is finished and took `cost`, 0 = not known; returns it. PL_SCHEDULE_NONE: it
 * had none. */
size_t pl_schedule_done(pl_schedule *s, size_t worker, uint64_t cost);
/* The same for workers that the caller keeps track of himself: the next item, and its report. */
size_t pl_schedule_give(pl_schedule *s);
void pl_schedule_took(pl_schedule *s, size_t item, uint64_t cost);
/* The worker is gone; returns the item that it was running, PL_SCHEDULE_NONE for none. *dropped: it
 * was running at `max_deaths` deaths and is not handed out again. */
size_t pl_schedule_died(pl_schedule *s, size_t worker, bool *dropped);
bool pl_schedule_is_over(const pl_schedule *s); /* every item is done or dropped */

/* Without a common scheduler: which shard (from 0) of n gets the item at this place of the order,
 * longest first? Dealt back and forth, so that each gets its share of long items. */
size_t pl_schedule_shard(size_t place, size_t n_shards);

#endif
