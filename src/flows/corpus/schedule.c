#include "flows/corpus/schedule.h"

#include <math.h>
#include <stdlib.h>

enum { RANK_OTHER, RANK_AGAIN };
/* Before anything is learned: how much longer a step takes than the one before, and the share of
 * items that need a second one. */
static const double first_ratio[PL_SCHEDULE_STEPS] = { 1, 3, 1.5 }, first_share = 0.2;
static const double share_weight = 4, family_weight = 1; /* of that, in items */
static const double urgent = 1.5; /* times everybody's share; 1 to 2 are alike (bench/corpus) */

/* ---- queues ---- */

static bool is_before(const pl_schedule *s, size_t a, size_t b) {
    const pl_schedule_item *x = &s->items[a], *y = &s->items[b];
    if (x->rank != y->rank) return x->rank > y->rank;
    if (x->cost > y->cost || x->cost < y->cost) return x->cost > y->cost;
    return a < b;
}

static void put_at(pl_schedule *s, pl_schedule_queue *q, size_t place, size_t item) {
    q->items[place] = item;
    s->items[item].place = place;
}

static void rise(pl_schedule *s, pl_schedule_queue *q, size_t place) {
    const size_t item = q->items[place];
    while (place > 0 && is_before(s, item, q->items[(place - 1) / 2])) {
        put_at(s, q, place, q->items[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put_at(s, q, place, item);
}

static void sink(pl_schedule *s, pl_schedule_queue *q, size_t place) {
    const size_t item = q->items[place];
    for (size_t child; (child = 2 * place + 1) < q->n; place = child) {
        if (child + 1 < q->n && is_before(s, q->items[child + 1], q->items[child])) child++;
        if (!is_before(s, q->items[child], item)) break;
        put_at(s, q, place, q->items[child]);
    }
    put_at(s, q, place, item);
}

/* Known costs need no looks: they are in the first queue at every step. */
static void push(pl_schedule *s, size_t item) {
    pl_schedule_item *x = &s->items[item];
    x->queue = x->known > 0 || x->rank == RANK_AGAIN ? 0 : x->step;
    pl_schedule_queue *q = &s->queues[x->queue];
    s->waiting += x->cost;
    put_at(s, q, q->n++, item);
    rise(s, q, q->n - 1);
}

static size_t pop(pl_schedule *s, pl_schedule_queue *q) {
    const size_t item = q->items[0], last = q->items[--q->n];
    s->items[item].place = PL_SCHEDULE_NONE;
    s->waiting -= s->items[item].cost;
    if (q->n > 0) {
        put_at(s, q, 0, last);
        sink(s, q, 0);
    }
    return item;
}

/* The lowest step, unless the longest of all is urgent. */
static size_t take(pl_schedule *s) {
    pl_schedule_queue *lowest = NULL, *longest = NULL;
    for (size_t k = 0; k < PL_SCHEDULE_STEPS; k++) {
        pl_schedule_queue *q = &s->queues[k];
        if (q->n == 0) continue;
        if (lowest == NULL) lowest = q;
        if (longest == NULL || s->items[q->items[0]].cost > s->items[longest->items[0]].cost)
            longest = q;
    }
    if (lowest == NULL) return PL_SCHEDULE_NONE;
    const double share = s->waiting / (double)(s->n_sharing > 0 ? s->n_sharing : 1);
    const bool again = s->items[lowest->items[0]].rank == RANK_AGAIN;
    const bool is_urgent = s->items[longest->items[0]].cost >= urgent * share;
    return pop(s, is_urgent && !again ? longest : lowest);
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

/* ---- estimates ---- */

/* How much longer this step takes than what is known: families weigh more the more they have done.
 */
static double ratio_of(const pl_schedule *s, size_t family, unsigned step) {
    const pl_schedule_sum *all = &s->learned[step], *own = &s->items[family].learned[step];
    const double mean = all->n > 0 ? all->sum / all->n : log(first_ratio[step]);
    return exp(mean + (own->sum - mean * own->n) / (own->n + family_weight));
}

/* How likely is a second step? */
static double share_of(const pl_schedule *s, size_t family) {
    const pl_schedule_item *f = &s->items[family];
    const double all =
        ((double)s->n_more + first_share * share_weight) / ((double)s->n_looks + share_weight);
    return (f->n_more + all * 2) / (f->n_looks + 2);
}

static double estimate(const pl_schedule *s, const pl_schedule_item *x) {
    if (x->known > 0 || !s->learns) return x->known > 0 ? x->known : x->last;
    double one = x->last, all = 0, chance = 1;
    for (unsigned k = x->step; k < PL_SCHEDULE_STEPS; k++) {
        one *= ratio_of(s, x->family, k);
        if (k == 1 && x->step == 0) chance = share_of(s, x->family);
        all += one * chance;
    }
    return all;
}

static void set_cost(pl_schedule *s, size_t item, double cost) {
    pl_schedule_item *x = &s->items[item];
    if (x->place != PL_SCHEDULE_NONE) s->waiting += cost - x->cost;
    x->cost = cost;
    if (x->place == PL_SCHEDULE_NONE) return;
    rise(s, &s->queues[x->queue], x->place);
    sink(s, &s->queues[x->queue], x->place);
}

static void add_to(pl_schedule_sum *sum, double value) {
    sum->sum += value;
    sum->n++;
}

/* A family is walked at its first items, then ever more rarely, so that a large one is not walked
 * for each of its items. */
static void learn(pl_schedule *s, pl_schedule_item *x, double cost, bool more) {
    pl_schedule_item *family = &s->items[x->family];
    const double value = log(cost / x->last);
    add_to(&s->learned[x->step], value);
    add_to(&family->learned[x->step], value);
    if (x->step == 0) {
        s->n_looks++;
        s->n_more += more;
        family->n_looks++;
        family->n_more += more;
    }
    const unsigned n = family->learned[x->step].n;
    if (n > 8 && (n & (n - 1)) != 0) return;
    for (size_t i = x->family; i != PL_SCHEDULE_NONE; i = s->items[i].sibling)
        if (s->items[i].place != PL_SCHEDULE_NONE) set_cost(s, i, estimate(s, &s->items[i]));
}

/* ---- the state ---- */

bool pl_schedule_init(pl_schedule *s, const uint64_t *cost, const size_t *family, size_t n_items,
                      size_t n_workers, unsigned max_deaths) {
    *s = (pl_schedule){ .n_items = n_items,
                        .n_workers = n_workers,
                        .n_sharing = n_workers,
                        .max_deaths = max_deaths,
                        .learns = family != NULL };
    s->items = calloc(n_items + 1, sizeof *s->items);
    s->running = calloc(n_workers + 1, sizeof *s->running);
    bool ok = s->items != NULL && s->running != NULL;
    for (size_t k = 0; k < PL_SCHEDULE_STEPS; k++) {
        s->queues[k].items = calloc(n_items + 1, sizeof *s->queues[k].items);
        ok = ok && s->queues[k].items != NULL;
    }
    for (size_t i = 0; ok && i < n_items; i++)
        s->items[i] =
            (pl_schedule_item){ .last = cost == NULL || cost[i] == 0 ? 1 : (double)cost[i],
                                .family = i,
                                .sibling = PL_SCHEDULE_NONE,
                                .place = PL_SCHEDULE_NONE };
    if (ok && family != NULL) ok = join_families(s, family);
    for (size_t i = 0; ok && i < n_items; i++) {
        if (family == NULL) s->items[i].known = s->items[i].last;
        s->items[i].cost = estimate(s, &s->items[i]);
        push(s, i);
    }
    for (size_t i = 0; ok && i < n_workers; i++)
        s->running[i] = PL_SCHEDULE_NONE;
    if (!ok) pl_schedule_release(s);
    return ok;
}

void pl_schedule_release(pl_schedule *s) {
    free(s->items);
    free(s->running);
    for (size_t k = 0; k < PL_SCHEDULE_STEPS; k++)
        free(s->queues[k].items);
    *s = (pl_schedule){ 0 };
}

/* Out of its queue and in again, as what it is now. */
static void requeue(pl_schedule *s, size_t item) {
    pl_schedule_item *x = &s->items[item];
    pl_schedule_queue *q = &s->queues[x->queue];
    const size_t place = x->place, last = q->items[--q->n];
    s->waiting -= x->cost;
    x->place = PL_SCHEDULE_NONE;
    if (last != item) {
        put_at(s, q, place, last);
        rise(s, q, place);
        sink(s, q, s->items[last].place);
    }
    x->cost = estimate(s, x);
    push(s, item);
}

void pl_schedule_know(pl_schedule *s, size_t item, uint64_t cost) {
    s->items[item].known = cost == 0 ? 1 : (double)cost;
    requeue(s, item);
}

void pl_schedule_begin_at(pl_schedule *s, size_t item, unsigned n_steps, uint64_t spent) {
    pl_schedule_item *x = &s->items[item];
    x->step = n_steps < PL_SCHEDULE_STEPS ? n_steps : PL_SCHEDULE_STEPS - 1;
    if (spent > 0) x->last = (double)spent;
    requeue(s, item);
}

size_t pl_schedule_next(pl_schedule *s, size_t worker) {
    if (worker >= s->n_workers) return PL_SCHEDULE_NONE;
    if (s->running[worker] == PL_SCHEDULE_NONE) s->running[worker] = pl_schedule_give(s);
    return s->running[worker];
}

size_t pl_schedule_give(pl_schedule *s) {
    const size_t item = take(s);
    s->n_running += item != PL_SCHEDULE_NONE;
    return item;
}

void pl_schedule_took(pl_schedule *s, size_t item, uint64_t cost, bool more) {
    pl_schedule_item *x = &s->items[item];
    s->n_running--;
    if (s->learns && cost > 0) learn(s, x, (double)cost, more);
    if (!more) {
        s->n_done++;
        return;
    }
    if (x->known > 0) x->known = x->known > (double)cost ? x->known - (double)cost : 1;
    if (x->step + 1 < PL_SCHEDULE_STEPS) x->step++;
    if (cost > 0) x->last = (double)cost;
    x->rank = RANK_OTHER;
    x->cost = estimate(s, x);
    push(s, item);
}

/* The worker's item, which it has no more. */
static size_t take_from(pl_schedule *s, size_t worker) {
    const size_t item = worker < s->n_workers ? s->running[worker] : PL_SCHEDULE_NONE;
    if (item != PL_SCHEDULE_NONE) s->running[worker] = PL_SCHEDULE_NONE;
    return item;
}

size_t pl_schedule_done(pl_schedule *s, size_t worker, uint64_t cost, bool more) {
    const size_t item = take_from(s, worker);
    if (item != PL_SCHEDULE_NONE) pl_schedule_took(s, item, cost, more);
    return item;
}

size_t pl_schedule_died(pl_schedule *s, size_t worker, bool *dropped) {
    const size_t item = take_from(s, worker);
    *dropped = false;
    if (item == PL_SCHEDULE_NONE) return item;
    s->n_running--;
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
