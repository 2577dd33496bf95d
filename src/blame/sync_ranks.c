/* Measuring on the ranks of an MPI job. Every rank opens the recordings and pairs them; then each
 * measures its share of the pairs, and only accumulators travel to rank 0, which judges.
 *
 * A large pair is cut into parts at the block boundaries of the accumulators. Rank 0 combines them
 * in their order, so that results do not depend on the number of ranks. If the floor of the
 * relative sum turns out to be another (accumulate.h), the ranks compute those parts again.
 *
 * Each rank sends one message, its results or why it failed; rank 0 answers with the pairs to
 * compute again, or with none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "blame/sync_int.h"
#include "metric/accumulate_part.h"
#include "pair/layout.h"
#include "store/recording_pieces.h"

/* A rank gets several units, so that their sizes even out. */
enum { UNITS_PER_RANK = 4 };

typedef enum unit_kind { UNIT_WHOLE, UNIT_PARTS, UNIT_CHECK_A, UNIT_CHECK_B } unit_kind;

typedef struct unit {
    unit_kind kind;
    int rank;
    size_t work;
    int64_t first, n; /* parts */
    int64_t n_bytes;  /* its cost */
} unit;

/* What travels; the ranks run the same program on machines of the same kind. */
typedef struct result {
    uint64_t unit, has_acc, has_probe[2];
    pl_hash128 probe[2];
    pl_accumulators acc;
    int64_t part; /* PARTS: its number; else 0 */
} result;

typedef struct head {
    uint64_t status, n_units, n_results, failed_unit; /* as each rank sees it */
    pl_hash128 plan;                                  /* of the units: all must have the same */
    char message[PL_ERR_MESSAGE_MAX];
} head;

typedef struct again { /* rank 0's answer */
    uint64_t work;
    double floor;
} again;

typedef struct sharing {
    pl_syncing *s;
    pl_ranks *ranks;
    unit *units;
    size_t n_units, capacity;
    pl_hash128 plan;
    pl_accumulators **parts; /* rank 0: by work; NULL when it is not cut */
    pl_buf results;          /* of this rank */
    head own;
} sharing;

/* ---- the plan ---- */

static bool can_share(const pl_sync_work *w) {
    return w->a != NULL && w->b != NULL && w->a->has_data && w->b->has_data && w->a->has_shape &&
           w->b->has_shape && w->a->dtype != PL_STRING && w->b->dtype != PL_STRING &&
           w->a->left_out.n + w->b->left_out.n == 0;
}

static bool reaches(const sharing *h, int rank, const pl_sync_work *w) {
    return pl_recording_is_in_reach(h->s->side[0]->recording, w->a, rank) &&
           pl_recording_is_in_reach(h->s->side[1]->recording, w->b, rank);
}

/* How many ranks see both tensors. */
static int n_reaching(const sharing *h, const pl_sync_work *w) {
    int n = 0;
    for (int r = 0; r < pl_ranks_size(h->ranks); r++)
        n += reaches(h, r, w);
    return n;
}

static int64_t parts_of(const pl_sync_work *w) {
    int64_t n = 0;
    const bool plain =
        *w->layout == '\0' && w->a->rank == w->b->rank &&
        memcmp(w->a->dims, w->b->dims, (size_t)w->a->rank * sizeof *w->a->dims) == 0 &&
        pl_judge_types_fit(w->a->dtype, w->b->dtype);
    return plain && pl_dims_product(w->a->rank, w->a->dims, &n) ? pl_accumulate_n_parts(n) : 1;
}

static bool add_unit(sharing *h, unit u) {
    u.rank = -1;
    if (!PL_ARRAY_ROOM(h->units, h->n_units, &h->capacity)) return false;
    h->units[h->n_units++] = u;
    return true;
}

/* Hashes run over whole tensors, so a pair that is cut is checked apart from its parts. */
static bool cut(sharing *h, size_t i, int64_t n_parts, int64_t share) {
    const pl_sync_work *w = &h->s->works[i];
    const int64_t part_bytes = w->n_bytes / n_parts;
    const int64_t step = part_bytes > 0 && share / part_bytes > 1 ? share / part_bytes : 1;
    const bool checks = w->a->has_hash || w->b->has_hash || h->s->options->probe;
    bool ok = true;
    for (int64_t at = 0; ok && at < n_parts; at += step) {
        const int64_t n = n_parts - at < step ? n_parts - at : step;
        ok = add_unit(
            h, (unit){
                   .kind = UNIT_PARTS, .work = i, .first = at, .n = n, .n_bytes = n * part_bytes });
    }
    for (int side = 0; ok && checks && side < 2; side++)
        ok = add_unit(h, (unit){ .kind = side == 0 ? UNIT_CHECK_A : UNIT_CHECK_B,
                                 .work = i,
                                 .n_bytes = w->n_bytes / 2 });
    return ok;
}

/* A piece "rank3/…" of a recording in pieces is read by rank 3: often that is where it lies. What
 * lies on other machines is read by a rank that sees it. */
static int home_of(const sharing *h, const unit *u) {
    const pl_sync_work *w = &h->s->works[u->work];
    int n = -1;
    if (sscanf(w->a->key, "rank%d/", &n) != 1 && sscanf(w->b->key, "rank%d/", &n) != 1) return -1;
    return n < 0 ? -1 : n % pl_ranks_size(h->ranks);
}

static int larger_first(const void *x, const void *y) {
    const unit *a = *(unit *const *)x, *b = *(unit *const *)y;
    if (a->n_bytes != b->n_bytes) return a->n_bytes > b->n_bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* The largest first, each to the rank that has least; the same on every rank. */
static pl_status assign(sharing *h, pl_err *err) {
    const int n_ranks = pl_ranks_size(h->ranks);
    int64_t *load = pl_calloc((size_t)n_ranks, sizeof *load);
    unit **order = pl_calloc(h->n_units + 1, sizeof(unit *));
    const bool ok = load != NULL && order != NULL;
    for (size_t i = 0; ok && i < h->n_units; i++)
        order[i] = &h->units[i];
    if (ok && h->n_units > 1) qsort(order, h->n_units, sizeof(unit *), larger_first);
    for (size_t i = 0; ok && i < h->n_units; i++) {
        const pl_sync_work *w = &h->s->works[order[i]->work];
        int least = 0;
        for (int r = 1; r < n_ranks; r++)
            if (reaches(h, r, w) && (!reaches(h, least, w) || load[r] < load[least])) least = r;
        const int home = home_of(h, order[i]);
        order[i]->rank = home >= 0 && reaches(h, home, w) ? home : least;
        load[order[i]->rank] += order[i]->n_bytes + 1;
    }
    pl_free(load);
    pl_free(order);
    return ok ? PL_OK : pl_fail_memory(err, h->n_units);
}

static pl_status make_plan(sharing *h, pl_err *err) {
    int64_t total = 0;
    for (size_t i = 0; i < h->s->n_works; i++)
        if (can_share(&h->s->works[i])) total += h->s->works[i].n_bytes;
    const int64_t share = total / (UNITS_PER_RANK * pl_ranks_size(h->ranks)) + 1;
    bool ok = true;
    for (size_t i = 0; ok && i < h->s->n_works; i++) {
        const pl_sync_work *w = &h->s->works[i];
        const int n_reach = can_share(w) ? n_reaching(h, w) : 0;
        if (n_reach == 0) continue; /* rank 0 measures it */
        /* Rank 0 looks into what is cut. */
        const int64_t n_parts = n_reach == pl_ranks_size(h->ranks) ? parts_of(w) : 1;
        ok = n_parts > 1 && w->n_bytes > share
                 ? cut(h, i, n_parts, share)
                 : add_unit(h, (unit){ .kind = UNIT_WHOLE, .work = i, .n_bytes = w->n_bytes });
    }
    if (!ok) return pl_fail_memory(err, h->n_units);
    PL_TRY(assign(h, err));
    h->plan = pl_hash128_of(h->units, h->n_units * sizeof *h->units);
    return PL_OK;
}

/* ---- one unit ---- */

typedef struct pair {
    pl_tensor *a, *b;
} pair;

static pl_status check_side(sharing *h, int side, const pl_sync_work *w, const pl_tensor *t,
                            result *out, pl_err *err) {
    pl_side probed = side == 0 ? w->point->a : w->point->b;
    const pl_record *r = side == 0 ? w->a : w->b;
    PL_TRY(pl_recording_check_tensor(h->s->side[side]->recording, r, t, err));
    if (h->s->options->probe) PL_TRY(pl_sync_probe_side(&probed, t, err));
    out->has_probe[side] = probed.has_probe;
    out->probe[side] = probed.probe;
    return PL_OK;
}

static pl_status measure_whole(sharing *h, const pl_sync_work *w, const pair *t, result *out,
                               pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    PL_TRY(check_side(h, 0, w, t->a, out, err));
    PL_TRY(check_side(h, 1, w, t->b, out, err));
    pl_status st = PL_OK;
    if (*w->layout != '\0') {
        st = pl_layout_apply(w->layout, t->a, t->b, &a, &b, err);
    } else {
        a = pl_tensor_ref(t->a);
        b = pl_tensor_ref(t->b);
    }
    if (st == PL_OK && pl_tensor_same_shape(a, b) && pl_judge_types_fit(a->dtype, b->dtype)) {
        st = pl_accumulate(h->s->options->pool, a, b, &out->acc, err);
        out->has_acc = st == PL_OK;
    }
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return st;
}

static void put_result(sharing *h, const result *r) {
    pl_buf_append(&h->results, r, sizeof *r);
    h->own.n_results++;
}

static pl_status measure_parts(sharing *h, const unit *u, const pair *t, double floor,
                               pl_err *err) {
    for (int64_t i = 0; i < u->n; i++) {
        result r = { .unit = (uint64_t)(u - h->units), .has_acc = 1, .part = u->first + i };
        PL_TRY(pl_accumulate_parts(h->s->options->pool, t->a, t->b, floor, r.part, 1, &r.acc, err));
        put_result(h, &r);
        PL_TRY(pl_progress_poll(h->s->options->progress, err));
    }
    return PL_OK;
}

static pl_status run_unit(sharing *h, const unit *u, double floor, pl_err *err) {
    const pl_sync_work *w = &h->s->works[u->work];
    result r = { .unit = (uint64_t)(u - h->units) };
    pair t = { NULL, NULL };
    pl_status st = PL_OK;
    if (u->kind != UNIT_CHECK_B)
        PL_TRY_GOTO(done, st, pl_recording_read(h->s->side[0]->recording, w->a, &t.a, err));
    if (u->kind != UNIT_CHECK_A)
        PL_TRY_GOTO(done, st, pl_recording_read(h->s->side[1]->recording, w->b, &t.b, err));
    switch (u->kind) {
    case UNIT_WHOLE: st = measure_whole(h, w, &t, &r, err); break;
    case UNIT_PARTS: st = measure_parts(h, u, &t, floor, err); break;
    case UNIT_CHECK_A: st = check_side(h, 0, w, t.a, &r, err); break;
    case UNIT_CHECK_B: st = check_side(h, 1, w, t.b, &r, err); break;
    }
    if (st == PL_OK && u->kind != UNIT_PARTS) put_result(h, &r);
done:
    pl_tensor_unref(t.a);
    pl_tensor_unref(t.b);
    pl_recording_forget(h->s->side[0]->recording, w->a);
    pl_recording_forget(h->s->side[1]->recording, w->b);
    return st;
}

static bool is_asked(const unit *u, const again *list, size_t n, double *floor) {
    *floor = -1;
    if (list == NULL) return true;
    for (size_t i = 0; i < n; i++) {
        *floor = list[i].floor;
        if (list[i].work == u->work) return u->kind == UNIT_PARTS;
    }
    return false;
}

/* This rank's share, or with a list only the parts in it. Failures go into the message. */
static void run_units(sharing *h, const again *list, size_t n) {
    const int rank = pl_ranks_rank(h->ranks);
    pl_buf_reset(&h->results);
    h->own = (head){ .n_units = h->n_units, .plan = h->plan };
    for (size_t i = 0; i < h->n_units && h->own.status == PL_OK; i++) {
        pl_err err = PL_ERR_INIT;
        double floor;
        if (h->units[i].rank != rank || !is_asked(&h->units[i], list, n, &floor)) continue;
        pl_status st = run_unit(h, &h->units[i], floor, &err);
        if (st == PL_OK)
            st = pl_progress_step(h->s->options->progress, "compare", (int64_t)i,
                                  (int64_t)h->n_units, &err);
        h->own.status = (uint64_t)st;
        h->own.failed_unit = i;
        if (st != PL_OK) snprintf(h->own.message, sizeof h->own.message, "%s", err.message);
    }
}

/* ---- rank 0 ---- */

static pl_status keep_result(sharing *h, const result *r, pl_err *err) {
    if (r->unit >= h->n_units) return pl_fail(err, PL_E_INTERNAL, "a result of no unit");
    const unit *u = &h->units[r->unit];
    pl_sync_work *w = &h->s->works[u->work];
    pl_side *sides[2] = { &w->point->a, &w->point->b };
    for (int i = 0; i < 2; i++) {
        if (!r->has_probe[i]) continue;
        sides[i]->has_probe = true;
        sides[i]->probe = r->probe[i];
    }
    if (u->kind == UNIT_WHOLE) {
        w->shared = r->has_acc != 0;
        w->acc = r->acc;
    } else if (u->kind == UNIT_PARTS) {
        const int64_t n = parts_of(w);
        pl_accumulators **parts = &h->parts[u->work];
        if (r->part < u->first || r->part >= u->first + u->n)
            return pl_fail(err, PL_E_INTERNAL, "a result of no part");
        if (*parts == NULL) *parts = pl_calloc((size_t)n, sizeof **parts);
        if (*parts == NULL) return pl_fail_memory(err, (size_t)n * sizeof **parts);
        (*parts)[r->part] = r->acc;
    }
    return PL_OK;
}

typedef struct failure {
    pl_status st;
    uint64_t unit;
    pl_err err;
} failure;

/* The failure of the earliest unit is told, as without MPI. */
static void keep_failure(failure *f, int rank, const head *m) {
    if (f->st != PL_OK && f->unit <= m->failed_unit) return;
    f->st = m->status < PL_STATUS_COUNT ? (pl_status)m->status : PL_E_INTERNAL;
    f->unit = m->failed_unit;
    (void)pl_fail(&f->err, f->st, "rank %d: %.*s", rank, (int)sizeof m->message - 1, m->message);
}

static pl_status take_message(sharing *h, int from, const head *m, const char *data, failure *f,
                              pl_err *err) {
    if (m->status != PL_OK) {
        keep_failure(f, from, m);
        return PL_OK;
    }
    if (m->n_units != h->n_units || !pl_hash128_equal(m->plan, h->plan))
        return pl_fail(err, PL_E_INVALID,
                       "rank %d sees other recordings than rank 0; A and B must be the same files "
                       "on every machine",
                       from);
    for (uint64_t i = 0; i < m->n_results; i++) {
        result r;
        memcpy(&r, data + i * sizeof r, sizeof r);
        PL_TRY(keep_result(h, &r, err));
    }
    return PL_OK;
}

/* One message from each of the others, after our own. */
static pl_status gather(sharing *h, pl_err *err) {
    failure f = { .st = PL_OK, .err = PL_ERR_INIT };
    pl_buf message = PL_BUF_INIT;
    pl_status st = take_message(h, 0, &h->own, pl_buf_str(&h->results), &f, err);
    for (int i = 1; i < pl_ranks_size(h->ranks); i++) {
        int from = 0;
        head m;
        pl_err trouble = PL_ERR_INIT;
        pl_status one = pl_ranks_wait(h->ranks, h->s->options->progress, &from, &message, &trouble);
        if (one == PL_OK && message.n_bytes < sizeof m)
            one = pl_fail(&trouble, PL_E_INTERNAL, "rank %d sent an unknown message", from);
        if (one == PL_OK) {
            memcpy(&m, message.data, sizeof m);
            one = m.n_results * sizeof(result) + sizeof m == message.n_bytes
                      ? take_message(h, from, &m, message.data + sizeof m, &f, &trouble)
                      : pl_fail(&trouble, PL_E_INTERNAL, "rank %d sent an unknown message", from);
        }
        if (one == PL_OK || st != PL_OK) continue;
        st = one;
        if (err != NULL) *err = trouble;
        if (st == PL_E_CANCELLED || st == PL_E_IO) break;
    }
    pl_buf_release(&message);
    if (st == PL_OK && f.st != PL_OK) {
        st = f.st;
        if (err != NULL) *err = f.err;
    }
    return st;
}

/* Combines the parts of every pair that was cut; the pairs to compute again go to `list`. */
static pl_status join_parts(sharing *h, pl_buf *list, pl_err *err) {
    for (size_t i = 0; i < h->s->n_works; i++) {
        pl_sync_work *w = &h->s->works[i];
        pl_tensor *a = NULL, *b = NULL;
        again more = { .work = i };
        if (h->parts[i] == NULL || w->shared) continue;
        pl_status st = pl_recording_read(h->s->side[0]->recording, w->a, &a, err);
        if (st == PL_OK) st = pl_recording_read(h->s->side[1]->recording, w->b, &b, err);
        if (st == PL_OK) st = pl_accumulate_join(a, b, h->parts[i], &more.floor, &w->acc, err);
        pl_tensor_unref(a);
        pl_tensor_unref(b);
        PL_TRY(st);
        w->shared = more.floor < 0;
        if (!w->shared) pl_buf_append(list, &more, sizeof more);
    }
    return pl_buf_ok(list) ? PL_OK : pl_fail_memory(err, list->n_bytes);
}

static void answer_all(pl_ranks *ranks, const pl_buf *list) {
    pl_buf text = PL_BUF_INIT;
    pl_buf_putc(&text, 'R'); /* so that it is never empty */
    pl_buf_append(&text, pl_buf_str(list), list->n_bytes);
    for (int i = 1; i < pl_ranks_size(ranks); i++)
        (void)pl_ranks_send(ranks, i, &text, NULL, NULL);
    pl_buf_release(&text);
}

static pl_status lead(sharing *h, pl_err *err) {
    pl_buf list = PL_BUF_INIT;
    pl_status st = gather(h, err);
    if (st == PL_OK) st = join_parts(h, &list, err);
    if (st != PL_OK) pl_buf_reset(&list);
    answer_all(h->ranks, &list);
    if (st == PL_OK && list.n_bytes > 0) {
        run_units(h, (const again *)(const void *)list.data, list.n_bytes / sizeof(again));
        pl_buf_reset(&list);
        st = gather(h, err);
        if (st == PL_OK) st = join_parts(h, &list, err);
        if (st == PL_OK && list.n_bytes > 0)
            st = pl_fail(err, PL_E_INTERNAL, "the parts of a value do not fit together");
    }
    pl_buf_release(&list);
    return st;
}

/* ---- the others ---- */

static pl_status send_own(sharing *h, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    if (!pl_buf_ok(&h->results)) {
        h->own.status = PL_E_MEMORY;
        h->own.n_results = 0;
    }
    if (h->own.status != PL_OK) h->own.n_results = 0;
    pl_buf_append(&text, &h->own, sizeof h->own);
    pl_buf_append(&text, pl_buf_str(&h->results), (size_t)h->own.n_results * sizeof(result));
    const pl_status st = pl_ranks_send(h->ranks, 0, &text, h->s->options->progress, err);
    pl_buf_release(&text);
    return st;
}

static pl_status follow(sharing *h, pl_err *err) {
    pl_buf answer = PL_BUF_INIT;
    int from = 0;
    pl_status st = send_own(h, err);
    if (st == PL_OK) st = pl_ranks_wait(h->ranks, h->s->options->progress, &from, &answer, err);
    const size_t n = st == PL_OK ? (answer.n_bytes - 1) / sizeof(again) : 0;
    again *list = pl_calloc(n + 1, sizeof *list);
    if (list == NULL && st == PL_OK) st = pl_fail_memory(err, n);
    if (st == PL_OK && n > 0) {
        memcpy(list, answer.data + 1, n * sizeof *list);
        run_units(h, list, n);
        st = send_own(h, err);
    }
    pl_free(list);
    pl_buf_release(&answer);
    return st;
}

pl_status pl_sync_share(pl_syncing *s, pl_err *err) {
    sharing h = { .s = s, .ranks = s->options->ranks };
    h.parts = pl_calloc(s->n_works + 1, sizeof *h.parts);
    pl_status st = h.parts == NULL ? pl_fail_memory(err, s->n_works) : make_plan(&h, err);
    if (st != PL_OK) {
        pl_sync_give_up(h.ranks, s->options->progress, st, err);
    } else {
        run_units(&h, NULL, 0);
        st = pl_ranks_rank(h.ranks) == 0 ? lead(&h, err) : follow(&h, err);
    }
    for (size_t i = 0; h.parts != NULL && i < s->n_works; i++)
        pl_free(h.parts[i]);
    pl_free(h.parts);
    pl_free(h.units);
    pl_buf_release(&h.results);
    return st;
}

void pl_sync_give_up(pl_ranks *ranks, const pl_progress *progress, pl_status st,
                     const pl_err *err) {
    pl_buf message = PL_BUF_INIT;
    int from = 0;
    if (pl_ranks_rank(ranks) == 0) {
        for (int i = 1; i < pl_ranks_size(ranks); i++)
            if (pl_ranks_wait(ranks, progress, &from, &message, NULL) != PL_OK) break;
        pl_buf_reset(&message);
        answer_all(ranks, &message);
    } else {
        head m = { .status = (uint64_t)st };
        if (err != NULL) snprintf(m.message, sizeof m.message, "%s", err->message);
        pl_buf_append(&message, &m, sizeof m);
        if (pl_ranks_send(ranks, 0, &message, progress, NULL) == PL_OK)
            (void)pl_ranks_wait(ranks, progress, &from, &message, NULL);
    }
    pl_buf_release(&message);
}
