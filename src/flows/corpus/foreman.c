#include "flows/corpus/foreman.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "flows/corpus/hand.h"
#include "flows/corpus/journal.h"

enum { LOOK_MS = 1000, NAMED_MAX = 5 };

typedef struct slot { /* one task at a time of one rank */
    int rank;
    size_t task;
    char *key; /* NULL = idle */
} slot;

typedef struct hand {
    char part[100]; /* its journal */
    bool opened, lost;
} hand;

struct pl_foreman {
    pl_ranks *ranks;
    const pl_dir *dir;
    const pl_progress *progress;
    hand *hands; /* by rank; that of 0 is not used */
    slot *slots;
    size_t n_slots, capacity, n_busy;
    size_t n_lost; /* ranks */
    bool failed;   /* a rank has said so */
    pl_buf lost;   /* what they were working on */
    size_t n_named;
    int64_t looked_ms;
};

static int n_ranks(const pl_foreman *f) {
    return pl_ranks_size(f->ranks);
}

static void put_field(pl_buf *out, const char *text) {
    pl_buf_append(out, text, strlen(text) + 1);
}

/* ---- beginning and end ---- */

static pl_status open_hands(pl_foreman *f, const char *part, bool resume, pl_err *err) {
    pl_buf message = PL_BUF_INIT;
    pl_status st = PL_OK;
    const size_t n = strlen(part) - strlen(".jsonl");
    for (int i = 1; i < n_ranks(f) && st == PL_OK; i++) {
        hand *h = &f->hands[i];
        (void)snprintf(h->part, sizeof h->part, "%.*s-rank%d.jsonl", (int)n, part, i);
        pl_buf_reset(&message);
        pl_buf_putc(&message, PL_SAY_OPEN);
        put_field(&message, pl_dir_path(f->dir));
        put_field(&message, h->part);
        put_field(&message, part);
        put_field(&message, resume ? "resume" : "");
        st = pl_ranks_send(f->ranks, i, &message, f->progress, err);
    }
    pl_buf_release(&message);
    return st;
}

pl_status pl_foreman_new(pl_ranks *ranks, const pl_dir *dir, const char *part, bool resume,
                         const pl_progress *progress, pl_foreman **out, pl_err *err) {
    pl_foreman *f = pl_calloc(1, sizeof *f);
    *out = NULL;
    if (f == NULL) return pl_fail_memory(err, sizeof *f);
    *f = (pl_foreman){ .ranks = ranks, .dir = dir, .progress = progress };
    f->hands = pl_calloc((size_t)pl_ranks_size(ranks), sizeof *f->hands);
    *out = f; /* the caller frees it, which ends the hands */
    if (f->hands == NULL) return pl_fail_memory(err, sizeof *f->hands);
    return open_hands(f, part, resume, err);
}

static void say_end(pl_ranks *ranks, int to, bool whole) {
    pl_buf message = PL_BUF_INIT;
    pl_buf_putc(&message, PL_SAY_END);
    put_field(&message, whole ? "" : "broken");
    (void)pl_ranks_send(ranks, to, &message, NULL, NULL);
    pl_buf_release(&message);
}

void pl_foreman_dismiss(pl_ranks *ranks) {
    for (int i = 1; i < pl_ranks_size(ranks); i++)
        say_end(ranks, i, true);
}

void pl_foreman_free(pl_foreman *f) {
    if (f == NULL) return;
    for (int i = 1; i < n_ranks(f); i++)
        if (f->hands == NULL || !f->hands[i].lost) say_end(f->ranks, i, f->n_lost == 0);
    for (size_t i = 0; i < f->n_slots; i++)
        pl_free(f->slots[i].key);
    pl_free(f->slots);
    pl_free(f->hands);
    pl_buf_release(&f->lost);
    pl_free(f);
}

/* ---- tasks ---- */

static slot *find_slot(const pl_foreman *f, int rank, const char *key) {
    for (size_t i = 0; i < f->n_slots; i++) {
        slot *s = &f->slots[i];
        if (key == NULL ? s->key == NULL && !f->hands[s->rank].lost
                        : s->rank == rank && s->key != NULL && strcmp(s->key, key) == 0)
            return s;
    }
    return NULL;
}

bool pl_foreman_has_idle(const pl_foreman *f) {
    return find_slot(f, 0, NULL) != NULL;
}

size_t pl_foreman_places(const pl_foreman *f) {
    return f->n_slots;
}

size_t pl_foreman_busy(const pl_foreman *f) {
    return f->n_busy;
}

bool pl_foreman_is_whole(const pl_foreman *f) {
    return f->n_lost == 0;
}

static void set_idle(pl_foreman *f, slot *s) {
    pl_free(s->key);
    s->key = NULL;
    f->n_busy--;
}

/* A rank has died: its tasks are not done by another, because they may be the reason. */
static void lose(pl_foreman *f, int rank) {
    if (f->hands[rank].lost) return;
    f->hands[rank].lost = true;
    f->n_lost++;
    for (size_t i = 0; i < f->n_slots; i++) {
        slot *s = &f->slots[i];
        if (s->rank != rank || s->key == NULL) continue;
        if (f->n_named++ < NAMED_MAX)
            pl_buf_printf(&f->lost, "%srank %d died while it worked on '%s'",
                          f->lost.n_bytes > 0 ? "; " : "", rank, s->key);
        set_idle(f, s);
    }
}

pl_status pl_foreman_give(pl_foreman *f, size_t task, const char *key, const char *request,
                          const pl_task_state *state, pl_err *err) {
    char steps[16];
    pl_buf message = PL_BUF_INIT;
    slot *s = find_slot(f, 0, NULL);
    if (s == NULL) return pl_fail(err, PL_E_INTERNAL, "no rank is idle");
    s->key = pl_strdup(key);
    if (s->key == NULL) return pl_fail_memory(err, strlen(key));
    s->task = task;
    f->n_busy++;
    pl_buf_putc(&message, PL_SAY_TASK);
    (void)snprintf(steps, sizeof steps, "%u", state->n_steps);
    put_field(&message, key);
    put_field(&message, request);
    put_field(&message, steps);
    put_field(&message, state->text == NULL ? "" : state->text);
    const pl_status st = pl_ranks_send(f->ranks, s->rank, &message, f->progress, err);
    pl_buf_release(&message);
    if (st == PL_E_IO) lose(f, s->rank); /* MPI noticed first */
    return st == PL_E_IO ? PL_OK : st;
}

/* ---- reports ---- */

static pl_status take_opened(pl_foreman *f, int from, const char *text, pl_err *err) {
    const long n = strtol(text, NULL, 10);
    f->hands[from].opened = true;
    for (long i = 0; i < n; i++) {
        if (!PL_ARRAY_ROOM(f->slots, f->n_slots, &f->capacity)) return pl_fail_memory(err, 1);
        f->slots[f->n_slots++] = (slot){ .rank = from };
    }
    return PL_OK;
}

static pl_status take_failed(pl_foreman *f, int from, const char *fields, const char *end,
                             pl_err *err) {
    const char *key = fields, *status = key + strlen(key) + 1;
    const char *text = status < end ? status + strlen(status) + 1 : end;
    const long number = status < end ? strtol(status, NULL, 10) : 0;
    const pl_status st =
        number > PL_OK && number < PL_STATUS_COUNT ? (pl_status)number : PL_E_INTERNAL;
    if (f->hands[from].lost) return PL_OK;
    f->failed = true;
    return pl_fail(err, st == PL_E_CANCELLED ? PL_E_IO : st, "rank %d%s%.100s%s: %.300s", from,
                   *key == '\0' ? "" : ", which worked on '", key, *key == '\0' ? "" : "'",
                   text < end ? text : "");
}

/* The field behind this one; "" when there is none. */
static const char *next_field(const char *field, const char *end) {
    const char *next = field < end ? field + strlen(field) + 1 : end;
    return next < end ? next : "";
}

static pl_status take_done(pl_foreman *f, int from, const char *fields, const char *end,
                           pl_foreman_done done, void *ctx, pl_err *err) {
    slot *s = find_slot(f, from, fields);
    const char *steps = next_field(fields, end);
    const char *ms = *steps == '\0' ? "" : next_field(steps, end);
    const char *text = *ms == '\0' ? "" : next_field(ms, end);
    pl_task_state now = { .n_steps = (unsigned)strtoul(steps, NULL, 10) };
    if (s == NULL) return PL_OK;
    now.seconds = (double)strtoull(ms, NULL, 10) / 1e3;
    if (*text != '\0' && (now.text = pl_strdup(text)) == NULL)
        return pl_fail_memory(err, strlen(text));
    set_idle(f, s);
    done(ctx, s->task, &now);
    return PL_OK;
}

static pl_status take(pl_foreman *f, int from, const pl_buf *message, pl_foreman_done done,
                      void *ctx, pl_err *err) {
    const char *fields = message->n_bytes > 0 ? message->data + 1 : "";
    if (message->n_bytes < 2 || from < 1 || from >= n_ranks(f))
        return pl_fail(err, PL_E_INTERNAL, "an empty message of rank %d", from);
    switch ((pl_crew_message)message->data[0]) {
    case PL_SAY_OPENED: return take_opened(f, from, fields, err);
    case PL_SAY_FAILED: return take_failed(f, from, fields, message->data + message->n_bytes, err);
    case PL_SAY_DONE:
        return take_done(f, from, fields, message->data + message->n_bytes, done, ctx, err);
    case PL_SAY_OPEN:
    case PL_SAY_TASK:
    case PL_SAY_END: break;
    }
    return pl_fail(err, PL_E_INTERNAL, "rank %d sent an unknown message", from);
}

/* Whose journal nobody holds any more has died: before its last report, or after it. */
static void look_for_dead(pl_foreman *f) {
    for (int i = 1; i < n_ranks(f); i++)
        if (f->hands[i].opened && !f->hands[i].lost && pl_journal_is_left(f->dir, f->hands[i].part))
            lose(f, i);
}

pl_status pl_foreman_listen(pl_foreman *f, pl_foreman_done done, void *ctx, pl_err *err) {
    pl_buf message = PL_BUF_INIT;
    pl_status st = PL_OK;
    int from = 0;
    for (bool got = true; got && st == PL_OK;) {
        st = pl_ranks_poll(f->ranks, &from, &message, &got, err);
        if (st == PL_OK && got) st = take(f, from, &message, done, ctx, err);
    }
    pl_buf_release(&message);
    const int64_t now = pl_clock_ms();
    if (st == PL_OK && now - f->looked_ms >= LOOK_MS) {
        f->looked_ms = now;
        look_for_dead(f);
    }
    return st;
}

pl_status pl_foreman_account(pl_foreman *f, pl_status st, pl_err *err) {
    /* Most launchers end the other ranks when one dies: then we are cancelled. */
    if (st == PL_E_CANCELLED) look_for_dead(f);
    if ((st != PL_OK && st != PL_E_CANCELLED) || f->n_lost == 0) return st;
    if (f->lost.n_bytes == 0 && st == PL_OK) return PL_OK; /* they were idle: nothing is missing */
    if (f->n_named > NAMED_MAX) pl_buf_printf(&f->lost, "; and %zu more", f->n_named - NAMED_MAX);
    return pl_fail(err, PL_E_IO,
                   "%s; finished items are in '%s', and option 'resume' does the rest",
                   f->lost.n_bytes > 0 ? pl_buf_str(&f->lost) : "a rank died", pl_dir_path(f->dir));
}
