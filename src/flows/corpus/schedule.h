/* Which item does a worker get next? The scheduling core of a corpus: no threads, no messages, no
 * files, nothing else of plumb, so that threads (crew.c), ranks of MPI and a simulator
 * (bench/corpus/simulate.c) run the same code.
 *
 * Items are 0 .. n_items - 1, workers 0 .. n_workers - 1. A worker asks (next), works, and reports
 * (done), again and again; whoever notices that it is gone reports that (died). One caller at a
 * time: the owner of the state locks it.
 *
 * An item has up to PL_SCHEDULE_STEPS steps: a look, and if that finds something, an analysis and
 * the search for a small repro. After each step it waits again, and any worker may go on with it.
 *
 * Nobody can tell from a graph that a model fails somewhere. So the steps are done in breadth: all
 * looks, then all analyses, then the rest, each longest first, by estimates that are learned on the
 * way: what the last step of an item took, times how much longer the next one took for others, of
 * its family (the same model on other backends) and of all. At the end only short steps are left.
 * An item whose rest would take longer than everybody's share of what waits is urgent: it goes
 * first, whatever its step. Items whose cost is known from an earlier run go longest first. Those
 * of workers that died go before all others. Measured in bench/corpus. */
#ifndef PL_SCHEDULE_H
#define PL_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PL_SCHEDULE_NONE ((size_t)-1)
enum { PL_SCHEDULE_STEPS = 3 };

typedef struct pl_schedule_sum { /* of the logarithms of (cost of a step / cost of the one before)
                                  */
    double sum;
    unsigned n;
} pl_schedule_sum;

typedef struct pl_schedule_item {
    double cost;       /* of what is left, estimated; any unit */
    double last;       /* of its last step; of none: the estimate from outside */
    double known;      /* of the whole item, less what is done; 0 = not known */
    size_t family;     /* its first item */
    size_t sibling;    /* the next of its family; PL_SCHEDULE_NONE = the last */
    size_t place;      /* in its queue; PL_SCHEDULE_NONE = not waiting */
    unsigned step;     /* the next one */
    unsigned queue;    /* while it waits */
    unsigned rank;     /* 1 of a dead worker, 0 others */
    unsigned n_deaths; /* while it was running */
    /* Of the family, kept at its first item. */
    pl_schedule_sum learned[PL_SCHEDULE_STEPS];
    unsigned n_looks, n_more; /* first steps done; and with a second one to follow */
} pl_schedule_item;

typedef struct pl_schedule_queue { /* a heap, the next item first */
    size_t *items, n;
} pl_schedule_queue;

typedef struct pl_schedule {
    size_t n_items, n_workers;
    size_t n_done;    /* reported, or dropped */
    size_t n_dropped; /* running at `max_deaths` deaths */
    size_t n_running;
    size_t n_sharing; /* workers that share what waits: n_workers, unless the caller has others */
    double waiting;   /* sum of the costs */
    unsigned max_deaths; /* 0 = an item is never dropped */
    bool learns;
    pl_schedule_item *items;
    pl_schedule_queue queues[PL_SCHEDULE_STEPS];
    pl_schedule_sum learned[PL_SCHEDULE_STEPS]; /* of all */
    size_t n_looks, n_more;
    size_t *running; /* by worker: its item, or PL_SCHEDULE_NONE */
} pl_schedule;

/* `cost` is estimated; NULL: all alike, in their order. `family` is any number that siblings share;
 * NULL: nothing is learned, and costs are taken as known. False when out of memory. */
bool pl_schedule_init(pl_schedule *s, const uint64_t *cost, const size_t *family, size_t n_items,
                      size_t n_workers, unsigned max_deaths);
void pl_schedule_release(pl_schedule *s); /* all zeros is fine */
/* Before it starts: the cost of the whole item is known. */
void pl_schedule_know(pl_schedule *s, size_t item, uint64_t cost);
/* Before it starts: so many steps were done earlier, and took so much. */
void pl_schedule_begin_at(pl_schedule *s, size_t item, unsigned n_steps, uint64_t spent);

/* The next item, now running on the worker. PL_SCHEDULE_NONE: nothing is waiting now; while
 * pl_schedule_is_over is false, a death may still bring an item back. A worker that asks while its
 * item runs gets that item again. */
size_t pl_schedule_next(pl_schedule *s, size_t worker);
/* The worker has done a step of its item, which took `cost`, 0 = not known; returns it. `more`:
 * another one follows, and the item waits again. PL_SCHEDULE_NONE: it had none. */
size_t pl_schedule_done(pl_schedule *s, size_t worker, uint64_t cost, bool more);
/* The same for workers that the caller keeps track of himself: the next item, and its report. */
size_t pl_schedule_give(pl_schedule *s);
void pl_schedule_took(pl_schedule *s, size_t item, uint64_t cost, bool more);
/* The worker is gone; returns the item that it was running, PL_SCHEDULE_NONE for none. *dropped: it
 * was running at `max_deaths` deaths and is not handed out again. */
size_t pl_schedule_died(pl_schedule *s, size_t worker, bool *dropped);
bool pl_schedule_is_over(const pl_schedule *s); /* every item is done or dropped */

/* Without a common scheduler: which shard (from 0) of n gets the item at this place of the order,
 * longest first? Dealt back and forth, so that each gets its share of long items. */
size_t pl_schedule_shard(size_t place, size_t n_shards);

#endif
