#include "flows/corpus/schedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct ranked {
    uint64_t cost;
    size_t item;
} ranked;

static int longest_first(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool sort(size_t *order, const uint64_t *cost, size_t n) {
    ranked *all = calloc(n + 1, sizeof *all);
    if (all == NULL) return false;
    for (size_t i = 0; i < n; i++)
        all[i] = (ranked){ cost[i], i };
    if (n > 0) qsort(all, n, sizeof *all, longest_first);
    for (size_t i = 0; i < n; i++)
        order[i] = all[i].item;
    free(all);
    return true;
}

bool pl_schedule_init(pl_schedule *s, const uint64_t *cost, size_t n_items, size_t n_workers,
                      unsigned max_deaths) {
    *s = (pl_schedule){ .n_items = n_items, .n_workers = n_workers, .max_deaths = max_deaths };
    s->order = calloc(n_items + 1, sizeof *s->order);
    s->again = calloc(n_items + 1, sizeof *s->again);
    s->deaths = calloc(n_items + 1, sizeof *s->deaths);
    s->running = calloc(n_workers + 1, sizeof *s->running);
    bool ok = s->order != NULL && s->again != NULL && s->deaths != NULL && s->running != NULL;
    for (size_t i = 0; ok && i < n_items; i++)
        s->order[i] = i;
    for (size_t i = 0; ok && i < n_workers; i++)
        s->running[i] = PL_SCHEDULE_NONE;
    if (ok && cost != NULL) ok = sort(s->order, cost, n_items);
    if (!ok) pl_schedule_release(s);
    return ok;
}

void pl_schedule_release(pl_schedule *s) {
    free(s->order);
    free(s->again);
    free(s->deaths);
    free(s->running);
    *s = (pl_schedule){ 0 };
}

size_t pl_schedule_next(pl_schedule *s, size_t worker) {
    if (worker >= s->n_workers) return PL_SCHEDULE_NONE;
    if (s->running[worker] != PL_SCHEDULE_NONE) return s->running[worker];
    size_t item = PL_SCHEDULE_NONE;
    if (s->n_again > 0) {
        item = s->again[--s->n_again];
    } else if (s->head < s->n_items) {
        item = s->order[s->head++];
    }
    if (item == PL_SCHEDULE_NONE) return item;
    s->running[worker] = item;
    s->n_running++;
    return item;
}

/* The worker's item, which it has no more. */
static size_t take_from(pl_schedule *s, size_t worker) {
    const size_t item = worker < s->n_workers ? s->running[worker] : PL_SCHEDULE_NONE;
    if (item == PL_SCHEDULE_NONE) return item;
    s->running[worker] = PL_SCHEDULE_NONE;
    s->n_running--;
    return item;
}

size_t pl_schedule_done(pl_schedule *s, size_t worker) {
    const size_t item = take_from(s, worker);
    if (item != PL_SCHEDULE_NONE) s->n_done++;
    return item;
}

size_t pl_schedule_died(pl_schedule *s, size_t worker, bool *dropped) {
    const size_t item = take_from(s, worker);
    *dropped = false;
    if (item == PL_SCHEDULE_NONE) return item;
    s->deaths[item]++;
    if (s->max_deaths > 0 && s->deaths[item] >= s->max_deaths) {
        *dropped = true;
        s->n_dropped++;
        s->n_done++;
    } else {
        s->again[s->n_again++] = item; /* an item is in `again` at most once: it was running */
    }
    return item;
}

bool pl_schedule_is_over(const pl_schedule *s) {
    return s->n_done == s->n_items;
}

size_t pl_schedule_shard(size_t place, size_t n_shards) {
    const size_t at = place % n_shards;
    return place / n_shards % 2 == 0 ? at : n_shards - 1 - at;
}
