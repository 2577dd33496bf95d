/* What changed between two runs: items by model, data and seed on the same backend or, if the runs
 * have no backend in common, on the backend at the same position in the list. */
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/escape.h"
#include "base/json.h"
#include "flows/corpus/corpus_print.h"

typedef struct change {
    const pl_corpus_case *before, *now; /* NULL = not there */
} change;

/* The newer side that a change has. */
static const pl_corpus_case *shown(const change *c) {
    return c->now != NULL ? c->now : c->before;
}

typedef struct diff {
    const pl_corpus *before, *now;
    bool by_place;
    pl_arena *arena;
    pl_strmap ids_before, ids_now; /* signature -> group */
    size_t *cause;   /* of the groups before, then now: equal if signatures join them */
    change *changes; /* those that differ, in the order of `now`, then removed ones */
    size_t n_changes;
    size_t n_same, n_worse, n_better;
} diff;

static const char *key_of(const diff *d, const pl_corpus *c, const pl_corpus_case *x) {
    if (!d->by_place)
        return pl_arena_printf(d->arena, "%s\n%s\n%llu\n%s", x->model, x->data,
                               (unsigned long long)x->seed, x->backend);
    return pl_arena_printf(d->arena, "%s\n%s\n%llu\n%zu", x->model, x->data,
                           (unsigned long long)x->seed, pl_corpus_backend(c, x->backend));
}

static bool share_a_backend(const pl_corpus *a, const pl_corpus *b) {
    for (size_t i = 0; i < a->n_backends; i++)
        if (pl_corpus_backend(b, a->backends[i]) != SIZE_MAX) return true;
    return false;
}

static bool wrong(const pl_corpus_case *x) {
    return x != NULL && pl_item_status_is_wrong(x->status);
}

static const char *group_id(const pl_corpus *c, const pl_corpus_case *x) {
    return x == NULL || x->group == 0 ? "" : c->groups[x->group - 1].id;
}

/* ---- groups that signatures join, within a run or across the two ---- */

static size_t cause_of(const diff *d, size_t group) {
    while (d->cause[group] != group)
        group = d->cause[group] = d->cause[d->cause[group]];
    return group;
}

static pl_status join_groups(diff *d, pl_err *err) {
    const size_t n_before = d->before->n_groups, n = n_before + d->now->n_groups;
    d->cause = pl_arena_array(d->arena, n + 1, sizeof *d->cause);
    if (d->cause == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++)
        d->cause[i] = i;
    for (size_t i = 0; i < d->now->n_groups; i++) {
        const pl_corpus_group *g = &d->now->groups[i];
        for (size_t k = 0; k <= g->n_also; k++) {
            const char *id = k == 0 ? g->id : g->also[k - 1];
            const size_t at = (size_t)(uintptr_t)pl_strmap_get(&d->ids_before, id) - 1;
            if (at < n_before) d->cause[cause_of(d, at)] = cause_of(d, n_before + i);
        }
    }
    return PL_OK;
}

static bool same_group(const diff *d, const pl_corpus_case *before, const pl_corpus_case *now) {
    if (before->group == 0 || now->group == 0) return before->group == now->group;
    return cause_of(d, before->group - 1) == cause_of(d, d->before->n_groups + now->group - 1);
}

static void add(diff *d, const pl_corpus_case *before, const pl_corpus_case *now) {
    if (before != NULL && now != NULL && before->status == now->status &&
        same_group(d, before, now)) {
        d->n_same++;
        return;
    }
    d->n_worse += wrong(now) && !wrong(before);
    d->n_better += wrong(before) && now != NULL && !wrong(now);
    d->changes[d->n_changes++] = (change){ before, now };
}

static pl_status match(diff *d, pl_err *err) {
    pl_strmap old = PL_STRMAP_INIT, seen = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    d->changes =
        pl_arena_array(d->arena, d->before->n_cases + d->now->n_cases + 1, sizeof *d->changes);
    if (d->changes == NULL) return pl_fail_memory(err, d->now->n_cases);
    for (size_t i = 0; i < d->before->n_cases; i++) {
        const char *key = key_of(d, d->before, &d->before->cases[i]);
        if (key == NULL || pl_strmap_put(&old, key, &d->before->cases[i]) != 0) goto no_memory;
    }
    for (size_t i = 0; i < d->now->n_cases; i++) {
        const char *key = key_of(d, d->now, &d->now->cases[i]);
        if (key == NULL || pl_strmap_put(&seen, key, d) != 0) goto no_memory;
        add(d, pl_strmap_get(&old, key), &d->now->cases[i]);
    }
    for (size_t i = 0; i < old.n_entries; i++)
        if (!pl_strmap_has(&seen, old.entries[i].key)) add(d, old.entries[i].value, NULL);
    goto done;
no_memory:
    st = pl_fail_memory(err, 1);
done:
    pl_strmap_release(&old);
    pl_strmap_release(&seen);
    return st;
}

static const char *status(const pl_corpus_case *x) {
    return x == NULL ? "absent" : pl_item_status_name(x->status);
}

static bool has_group(const diff *d, int side, const pl_corpus_group *group) {
    return pl_corpus_find_group(side == 0 ? &d->ids_before : &d->ids_now, group) != SIZE_MAX;
}

static void put_json(const diff *d, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "same", (int64_t)d->n_same);
    pl_json_put_int(&j, "worse", (int64_t)d->n_worse);
    pl_json_put_int(&j, "better", (int64_t)d->n_better);
    for (int side = 0; side < 2; side++) {
        const pl_corpus *has = side == 0 ? d->now : d->before;
        pl_json_key(&j, side == 0 ? "new_groups" : "fixed_groups");
        pl_json_array_begin(&j);
        for (size_t i = 0; i < has->n_groups; i++) {
            if (has_group(d, side, &has->groups[i])) continue;
            pl_json_object_begin(&j);
            pl_json_put_string(&j, "id", has->groups[i].id);
            pl_json_put_string(&j, "name", has->groups[i].name);
            pl_json_put_int(&j, "cases", (int64_t)has->groups[i].n_cases);
            pl_json_object_end(&j);
        }
        pl_json_array_end(&j);
    }
    pl_json_key(&j, "changes");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < d->n_changes; i++) {
        const change *c = &d->changes[i];
        const pl_corpus_case *x = shown(c);
        if (x == NULL) continue;
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "model", x->model);
        pl_json_put_string(&j, "backend", x->backend);
        pl_json_put_string(&j, "data", x->data);
        pl_json_put_int(&j, "seed", (int64_t)x->seed);
        pl_json_put_string(&j, "before", status(c->before));
        pl_json_put_string(&j, "now", status(c->now));
        pl_json_put_string(&j, "group_before", group_id(d->before, c->before));
        pl_json_put_string(&j, "group", group_id(d->now, c->now));
        pl_json_put_string(&j, "reason", x->reason);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

static void put_text(const diff *d, pl_buf *out) {
    pl_buf_printf(out, "%zu worse, %zu better, %zu changed in all, %zu the same\n", d->n_worse,
                  d->n_better, d->n_changes, d->n_same);
    for (int side = 0; side < 2; side++) {
        const pl_corpus *has = side == 0 ? d->now : d->before;
        for (size_t i = 0; i < has->n_groups; i++) {
            if (has_group(d, side, &has->groups[i])) continue;
            const size_t at = out->n_bytes;
            pl_buf_printf(out, "%s  %s  %s (", side == 0 ? "new group" : "fixed group",
                          has->groups[i].id, has->groups[i].name);
            pl_buf_put_count(out, has->groups[i].n_cases, "item");
            pl_buf_putc(out, ')');
            pl_escape_end_line(out, at);
        }
    }
    for (size_t i = 0; i < d->n_changes; i++) {
        const change *c = &d->changes[i];
        const pl_corpus_case *x = shown(c);
        const size_t at = out->n_bytes;
        if (x == NULL) continue;
        pl_buf_printf(out, "%s -> %s  %s on %s", status(c->before), status(c->now), x->model,
                      x->backend);
        if (wrong(c->now)) pl_buf_printf(out, ": %s", x->reason);
        pl_escape_end_line(out, at);
    }
}

pl_status pl_corpus_diff(const pl_corpus *before, const pl_corpus *now, bool json, pl_buf *out,
                         bool *worse, pl_err *err) {
    diff d = { .before = before, .now = now, .arena = pl_arena_new() };
    if (d.arena == NULL) return pl_fail_memory(err, 1);
    d.by_place = !share_a_backend(before, now);
    pl_status st = pl_corpus_index_groups(before->groups, before->n_groups, &d.ids_before, err);
    if (st == PL_OK) st = pl_corpus_index_groups(now->groups, now->n_groups, &d.ids_now, err);
    if (st == PL_OK) st = join_groups(&d, err);
    if (st == PL_OK) st = match(&d, err);
    if (st == PL_OK) (json ? put_json : put_text)(&d, out);
    *worse = d.n_worse > 0;
    pl_strmap_release(&d.ids_before);
    pl_strmap_release(&d.ids_now);
    pl_arena_free(d.arena);
    return st == PL_OK && !pl_buf_ok(out) ? pl_fail_memory(err, out->n_bytes) : st;
}
