#include "flows/corpus/schedule.h"

#include <stdlib.h>

enum { RANK_OTHER, RANK_AGAIN };

/* ---- a heap of waiting items ---- */

static bool is_before(const pl_schedule *s, size_t a, size_t b) {
    const pl_schedule_item *x = &s->items[a], *y = &s->items[b];
    if (x->rank != y->rank) return x->rank > y->rank;
    if (x->cost != y->cost) return x->cost > y->cost;
    return a < b;
}

static void put_at(pl_schedule *s, size_t place, size_t item) {
    s->heap[place] = item;
    s->items[item].place = place;
}

static void rise(pl_schedule *s, size_t place) {
    const size_t item = s->heap[place];
    while (place > 0 && is_before(s, item, s->heap[(place - 1) / 2])) {
        put_at(s, place, s->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put_at(s, place, item);
}

static void sink(pl_schedule *s, size_t place) {
    const size_t item = s->heap[place];
    for (size_t child; (child = 2 * place + 1) < s->n_heap; place = child) {
        if (child + 1 < s->n_heap && is_before(s, s->heap[child + 1], s->heap[child])) child++;
        if (!is_before(s, s->heap[child], item)) break;
        put_at(s, place, s->heap[child]);
    }
    put_at(s, place, item);
}

static void push(pl_schedule *s, size_t item) {
    put_at(s, s->n_heap++, item);
    rise(s, s->n_heap - 1);
}

static size_t pop(pl_schedule *s) {
    if (s->n_heap == 0) return PL_SCHEDULE_NONE;
    const size_t item = s->heap[0], last = s->heap[--s->n_heap];
    s->items[item].place = PL_SCHEDULE_NONE;
    if (s->n_heap > 0) {
        put_at(s, 0, last);
        sink(s, 0);
    }
    return item;
}

/* ---- families ---- */

typedef struct member {
    size_t family, item;
} member;

static int by_family(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->family != y->family) return x->family < y->family ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool join_families(pl_schedule *s, const size_t *family) {
    member *all = calloc(s->n_items + 1, sizeof *all);
    if (all == NULL) return false;
    for (size_t i = 0; i < s->n_items; i++)
        all[i] = (member){ family[i], i };
    if (s->n_items > 0) qsort(all, s->n_items, sizeof *all, by_family);
    for (size_t i = 0; i < s->n_items; i++) {
        pl_schedule_item *x = &s->items[all[i].item];
        const bool begins = i == 0 || all[i - 1].family != all[i].family;
        x->family = begins ? all[i].item : s->items[all[i - 1].item].family;
        if (!begins) s->items[all[i - 1].item].sibling = all[i].item;
    }
    free(all);
    return true;
}

/* Only a cost a quarter above the last one is told to the siblings, so that a large family is
 * walked a few times and not for each of its items. */
static void learn(pl_schedule *s, size_t item, uint64_t cost) {
    const size_t family = s->items[item].family;
    uint64_t *learned = &s->items[family].learned;
    if (cost == 0 || cost <= *learned + *learned / 4) return;
    *learned = cost;
    for (size_t i = family; i != PL_SCHEDULE_NONE; i = s->items[i].sibling) {
        pl_schedule_item *x = &s->items[i];
        x->cost = cost;
        if (x->place == PL_SCHEDULE_NONE) continue;
        rise(s, x->place);
        sink(s, x->place);
    }
}

/* ---- the state ---- */

bool pl_schedule_init(pl_schedule *s, const uint64_t *cost, const size_t *family, size_t n_items,
                      size_t n_workers, unsigned max_deaths) {
    *s = (pl_schedule){ .n_items = n_items, .n_workers = n_workers, .max_deaths = max_deaths };
    s->items = calloc(n_items + 1, sizeof *s->items);
    s->heap = calloc(n_items + 1, sizeof *s->heap);
    s->running = calloc(n_workers + 1, sizeof *s->running);
    bool ok = s->items != NULL && s->heap != NULL && s->running != NULL;
    for (size_t i = 0; ok && i < n_items; i++)
        s->items[i] = (pl_schedule_item){ .cost = cost == NULL ? 0 : cost[i],
                                          .family = i,
                                          .sibling = PL_SCHEDULE_NONE,
                                          .place = PL_SCHEDULE_NONE };
    if (ok && family != NULL) ok = join_families(s, family);
    for (size_t i = 0; ok && i < n_items; i++)
        push(s, i);
    for (size_t i = 0; ok && i < n_workers; i++)
        s->running[i] = PL_SCHEDULE_NONE;
    if (!ok) pl_schedule_release(s);
    return ok;
}

void pl_schedule_release(pl_schedule *s) {
    free(s->items);
    free(s->heap);
    free(s->running);
    *s = (pl_schedule){ 0 };
}

size_t pl_schedule_next(pl_schedule *s, size_t worker) {
    if (worker >= s->n_workers) return PL_SCHEDULE_NONE;
    if (s->running[worker] != PL_SCHEDULE_NONE) return s->running[worker];
    s->running[worker] = pop(s);
    s->n_running += s->running[worker] != PL_SCHEDULE_NONE;
    return s->running[worker];
}

size_t pl_schedule_give(pl_schedule *s) {
    const size_t item = pop(s);
    s->n_running += item != PL_SCHEDULE_NONE;
    return item;
}

void pl_schedule_took(pl_schedule *s, size_t item, uint64_t cost) {
    s->n_running--;
    s->n_done++;
    learn(s, item, cost);
}

/* The worker's item, which it has no more. */
static size_t take_from(pl_schedule *s, size_t worker) {
    const size_t item = worker < s->n_workers ? s->running[worker] : PL_SCHEDULE_NONE;
    if (item == PL_SCHEDULE_NONE) return item;
    s->running[worker] = PL_SCHEDULE_NONE;
    s->n_running--;
    return item;
}

size_t pl_schedule_done(pl_schedule *s, size_t worker, uint64_t cost) {
    const size_t item = take_from(s, worker);
    if (item == PL_SCHEDULE_NONE) return item;
    s->n_done++;
    learn(s, item, cost);
    return item;
}

size_t pl_schedule_died(pl_schedule *s, size_t worker, bool *dropped) {
    const size_t item = take_from(s, worker);
    *dropped = false;
    if (item == PL_SCHEDULE_NONE) return item;
    pl_schedule_item *x = &s->items[item];
    x->n_deaths++;
    if (s->max_deaths > 0 && x->n_deaths >= s->max_deaths) {
        *dropped = true;
        s->n_dropped++;
        s->n_done++;
    } else {
        x->rank = RANK_AGAIN;
        push(s, item);
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
