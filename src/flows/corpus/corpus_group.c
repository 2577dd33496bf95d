/* Failures with the same cause are one group.
 *
 * First by signature. Then the smallest repro of a group runs on the backends of the others: cases
 * whose backend passes it have another cause and become a separate group. Then failures of one
 * model on several versions with different messages for the same thing are joined, and a failure
 * that shows one operation later with the one that it comes from. A pure function of the cases and
 * the answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "flows/corpus/corpus_result.h"

typedef struct grouping {
    pl_corpus *corpus;
    pl_probe_fn probe;
    void *ctx;
    size_t capacity;
} grouping;

/* ---- signatures ---- */

static bool is_message_kind(const char *kind) {
    return strstr(kind, "error") != NULL || strcmp(kind, "failure") == 0 ||
           strcmp(kind, "signal") == 0 || strcmp(kind, "check") == 0;
}

/* An error says what is wrong; which operators the smallest repro has is then chance: a model that
 * a version cannot load fails with any of its nodes. */
static const char *ops_that_matter(const pl_bug *b) {
    return is_message_kind(b->kind) && b->message[0] != '\0' ? "" : b->ops;
}

/* What the cases of a group have in common, except for the pass. */
static int compare_bugs(const pl_bug *a, const pl_bug *b) {
    int order = strcmp(a->kind, b->kind);
    const bool message = is_message_kind(a->kind);
    if (order == 0) order = strcmp(a->op, b->op);
    if (order == 0) order = strcmp(a->dtypes, b->dtypes);
    if (order == 0) order = strcmp(a->attrs, b->attrs);
    if (order == 0) order = strcmp(ops_that_matter(a), ops_that_matter(b));
    if (order == 0 && message) order = strcmp(a->message, b->message);
    return order;
}

static int by_bug(const void *a, const void *b) {
    const pl_corpus_case *x = *(pl_corpus_case *const *)a, *y = *(pl_corpus_case *const *)b;
    int order = compare_bugs(&x->bug, &y->bug);
    if (order == 0) order = -strcmp(x->bug.pass, y->bug.pass); /* unknown passes last */
    return order != 0 ? order : strcmp(x->key, y->key);
}

static const char *id_of(const grouping *g, const pl_bug *b, const char *seed) {
    char hex[PL_HASH128_HEX];
    const char *const parts[] = { b->kind,
                                  b->op,
                                  b->dtypes,
                                  b->attrs,
                                  ops_that_matter(b),
                                  b->pass,
                                  is_message_kind(b->kind) ? b->message : "",
                                  seed };
    pl_buf all = PL_BUF_INIT;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        pl_buf_append(&all, parts[i], strlen(parts[i]) + 1);
    const bool ok = pl_buf_ok(&all);
    if (ok) pl_hash128_hex(pl_hash128_of(all.data, all.n_bytes), hex);
    pl_buf_release(&all);
    return ok ? pl_arena_strndup(g->corpus->arena, hex, 12) : NULL;
}

static const char *name_of(const grouping *g, const pl_bug *b) {
    pl_buf out = PL_BUF_INIT;
    pl_buf_puts(&out, b->kind[0] == '\0' ? "failure" : b->kind);
    if (b->op[0] != '\0') pl_buf_printf(&out, " of %s", b->op);
    if (b->op[0] == '\0' && b->message[0] == '\0' && b->ops[0] != '\0')
        pl_buf_printf(&out, " in a model of %.80s", b->ops);
    if (b->dtypes[0] != '\0') pl_buf_printf(&out, " (%s)", b->dtypes);
    if (b->attrs[0] != '\0') pl_buf_printf(&out, " with %s", b->attrs);
    if (b->pass[0] != '\0') pl_buf_printf(&out, " by %s", b->pass);
    if (is_message_kind(b->kind) && b->message[0] != '\0')
        pl_buf_printf(&out, ": %.80s", b->message);
    const char *name = pl_buf_ok(&out) ? pl_arena_strdup(g->corpus->arena, pl_buf_str(&out)) : NULL;
    pl_buf_release(&out);
    return name;
}

/* ---- one group ---- */

static bool is_smaller(const pl_corpus_case *x, const pl_corpus_case *than) {
    if (than == NULL) return true;
    if (x->verified != than->verified) return x->verified;
    if (x->repro_nodes != than->repro_nodes) return x->repro_nodes < than->repro_nodes;
    return strcmp(x->key, than->key) < 0;
}

static const char *answer(const grouping *g, const pl_corpus_case *smallest, size_t backend) {
    if (smallest == NULL) return "";
    const char *word = g->probe(g->ctx, smallest->key, backend);
    return word == NULL ? "" : word;
}

static pl_status add_group(grouping *g, const pl_corpus_case *smallest, const pl_bug *bug,
                           const char *seed, pl_err *err) {
    pl_corpus *c = g->corpus;
    if (!PL_ARENA_ROOM(c->arena, c->groups, c->n_groups, &g->capacity))
        return pl_fail_memory(err, c->n_groups);
    pl_corpus_group *group = &c->groups[c->n_groups];
    *group = (pl_corpus_group){ .id = id_of(g, bug, seed),
                                .name = name_of(g, bug),
                                .state = "",
                                .bug = *bug,
                                .smallest = smallest == NULL ? "" : smallest->key,
                                .repro_nodes = smallest == NULL ? 0 : smallest->repro_nodes,
                                .first_bad = "",
                                .last_good = "" };
    group->on = pl_arena_array(c->arena, c->n_backends + 1, sizeof *group->on);
    if (group->id == NULL || group->name == NULL || group->on == NULL)
        return pl_fail_memory(err, 1);
    for (size_t i = 0; i < c->n_backends; i++)
        group->on[i] = answer(g, smallest, i);
    c->n_groups++;
    return PL_OK;
}

/* Cases of one signature and pass: the smallest repro gets those on whose backend it fails; the
 * others have another cause and are split again. */
static pl_status split(grouping *g, pl_corpus_case **cases, size_t n, pl_err *err) {
    pl_corpus *c = g->corpus;
    for (size_t round = 0, left = n; left > 0; round++) {
        const pl_corpus_case *smallest = NULL, *first = NULL;
        for (size_t i = 0; i < n; i++) {
            if (cases[i]->group != 0) continue;
            if (first == NULL) first = cases[i];
            if (cases[i]->has_repro && is_smaller(cases[i], smallest)) smallest = cases[i];
        }
        if (first == NULL) return PL_OK;
        /* Further groups of a signature are distinguished by the backend. */
        PL_TRY(add_group(g, smallest, &first->bug, round == 0 ? "" : first->backend, err));
        pl_corpus_group *group = &c->groups[c->n_groups - 1];
        for (size_t i = 0; i < n; i++) {
            pl_corpus_case *x = cases[i];
            if (x->group != 0) continue;
            const char *word = group->on[pl_corpus_backend(c, x->backend)];
            const bool other = strcmp(word, "passes") == 0 || strcmp(word, "other") == 0 ||
                               strcmp(word, "differs") == 0;
            if (other && x != smallest && smallest != NULL) continue;
            group->n_confirmed += strcmp(word, "fails") == 0;
            group->n_cases++;
            x->group = c->n_groups;
            left--;
        }
    }
    return PL_OK;
}

/* ---- groups that belong together ---- */

static bool fails_everywhere(const grouping *g, const pl_corpus_group *known, size_t unknown) {
    const pl_corpus *c = g->corpus;
    for (size_t i = 0; i < c->n_cases; i++) {
        if (c->cases[i].group != unknown + 1) continue;
        if (strcmp(known->on[pl_corpus_backend(c, c->cases[i].backend)], "fails") != 0)
            return false;
    }
    return true;
}

static void join(pl_corpus *c, size_t from, size_t to) {
    pl_corpus_group *f = &c->groups[from], *t = &c->groups[to];
    for (size_t i = 0; i < c->n_cases; i++)
        if (c->cases[i].group == from + 1) c->cases[i].group = to + 1;
    for (size_t i = 0; i < c->n_backends; i++)
        if (strcmp(f->on[i], "fails") == 0) t->on[i] = f->on[i];
    t->n_cases += f->n_cases;
    t->n_confirmed += f->n_confirmed;
    f->n_cases = 0;
    f->joined_to = to + 1;
}

static bool is_run_kind(const char *kind) {
    return strcmp(kind, "divergence") == 0 || strcmp(kind, "non-finite") == 0 ||
           strcmp(kind, "metadata") == 0 || strcmp(kind, "run-time error") == 0;
}

/* Two failures of one model on two versions or levels of a runtime: messages change between
 * versions, older ones do not name the pass, and a new check in a newer one turns wrong values into
 * an error. */
static bool are_related(const pl_bug *a, const pl_bug *b) {
    const bool same_kind = strcmp(a->kind, b->kind) == 0;
    if (a->pass[0] != '\0' && b->pass[0] != '\0' && strcmp(a->pass, b->pass) != 0) return false;
    if (same_kind && (a->op[0] == '\0' || b->op[0] == '\0' || strcmp(a->op, b->op) == 0))
        return true;
    return (same_kind || (is_run_kind(a->kind) && is_run_kind(b->kind))) && a->ops[0] != '\0' &&
           strcmp(a->ops, b->ops) == 0;
}

static bool same_item(const pl_corpus_case *a, const pl_corpus_case *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->data, b->data) == 0 && a->seed == b->seed;
}

/* "ort:opt=all" and "ort:lib=X" are one runtime; a bug of another one has another cause, even at
 * the same operator of the same model. */
static bool same_runtime(const char *a, const char *b) {
    const size_t n = strcspn(a, ":");
    return n == strcspn(b, ":") && strncmp(a, b, n) == 0;
}

/* Does the repro of one of the cases show another error on the backend of the other? */
static bool are_told_apart(const grouping *g, const pl_corpus_case *a, const pl_corpus_case *b) {
    const pl_corpus *c = g->corpus;
    const char *x = c->groups[a->group - 1].on[pl_corpus_backend(c, b->backend)];
    const char *y = c->groups[b->group - 1].on[pl_corpus_backend(c, a->backend)];
    return strcmp(x, "differs") == 0 || strcmp(y, "differs") == 0;
}

/* Cases of one model are adjacent. */
static void join_models(grouping *g) {
    pl_corpus *c = g->corpus;
    if (c->groups == NULL) return;
    for (size_t i = 0; i < c->n_cases; i++) {
        for (size_t k = i + 1; k < c->n_cases && same_item(&c->cases[i], &c->cases[k]); k++) {
            const size_t a = c->cases[i].group, b = c->cases[k].group;
            if (a == 0 || b == 0 || a == b ||
                !same_runtime(c->cases[i].backend, c->cases[k].backend) ||
                are_told_apart(g, &c->cases[i], &c->cases[k]) ||
                !are_related(&c->groups[a - 1].bug, &c->groups[b - 1].bug))
                continue;
            /* Keeps the one with more information: a pass, else more cases. */
            const pl_corpus_group *x = &c->groups[a - 1], *y = &c->groups[b - 1];
            const bool x_pass = x->bug.pass[0] != '\0', y_pass = y->bug.pass[0] != '\0';
            const bool x_stays = x_pass != y_pass ? x_pass : x->n_cases >= y->n_cases;
            join(c, (x_stays ? b : a) - 1, (x_stays ? a : b) - 1);
        }
    }
}

/* Joins a signature with unknown pass to one with a known pass whose smallest repro fails on all of
 * its backends. */
static void join_unknown(grouping *g) {
    pl_corpus *c = g->corpus;
    for (size_t u = 0; u < c->n_groups; u++) {
        if (c->groups[u].bug.pass[0] != '\0' || c->groups[u].n_cases == 0) continue;
        for (size_t k = 0; k < c->n_groups; k++) {
            const pl_corpus_group *known = &c->groups[k];
            if (known->bug.pass[0] == '\0' || known->n_cases == 0 ||
                compare_bugs(&known->bug, &c->groups[u].bug) != 0)
                continue;
            if (!fails_everywhere(g, known, u)) continue;
            join(c, u, k);
            break;
        }
    }
}

static const pl_corpus_case *case_with(const pl_corpus *c, const char *key) {
    for (size_t i = 0; i < c->n_cases; i++)
        if (strcmp(c->cases[i].key, key) == 0) return &c->cases[i];
    return NULL;
}

/* Is every word of `few` in `many`? Both are sorted, with spaces between. */
static bool has_all(const char *many, const char *few) {
    while (*few != '\0') {
        const size_t n = strcspn(few, " ");
        const char *at = many;
        while (*at != '\0' && (strcspn(at, " ") != n || strncmp(at, few, n) != 0))
            at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' ');
        if (*at == '\0') return false;
        few += n + (few[n] == ' ');
    }
    return true;
}

/* Do both repros fail on the same backends? Only what also passes somewhere on the same runtime
 * tells: with one version, or a bug of all of them, any two bugs would look alike. */
static bool fail_alike(const grouping *g, const pl_corpus_group *x, const pl_corpus_group *y) {
    const pl_corpus *c = g->corpus;
    const pl_corpus_case *own = case_with(c, x->smallest), *other = case_with(c, y->smallest);
    bool fails = false, passes = false;
    if (own == NULL || other == NULL || !same_runtime(own->backend, other->backend)) return false;
    for (size_t i = 0; i < c->n_backends; i++) {
        if (strcmp(x->on[i], y->on[i]) != 0 || x->on[i][0] == '\0') return false;
        if (!same_runtime(own->backend, c->backends[i])) continue;
        fails = fails || strcmp(x->on[i], "fails") == 0;
        passes = passes || strcmp(x->on[i], "passes") == 0;
    }
    return fails && passes;
}

/* Is it the same repro without an optional input at the end? "float,float>float" and
 * "float,float,float>float". */
static bool drops_inputs(const pl_corpus_group *small, const pl_corpus_group *large) {
    const char *few = small->bug.dtypes, *many = large->bug.dtypes;
    const size_t n = strcspn(few, ">"), n_many = strcspn(many, ">");
    return small->repro_nodes == large->repro_nodes && n > 0 && n < n_many && many[n] == ',' &&
           strncmp(few, many, n) == 0 && strcmp(few + n, many + n_many) == 0 &&
           strcmp(small->bug.op, large->bug.op) == 0 &&
           strcmp(small->bug.attrs, large->bug.attrs) == 0 &&
           strcmp(small->bug.ops, large->bug.ops) == 0;
}

/* Joins a group whose smallest repro contains the operators of another's, with what feeds what
 * there, and fails exactly where that one does: an optimiser moved or removed a value, so that the
 * error shows an operation later. A repro is minimal, so the common operators are part of the
 * reason. */
static void join_contained(grouping *g) {
    pl_corpus *c = g->corpus;
    for (size_t i = 0; i < c->n_groups; i++) {
        const pl_corpus_group *large = &c->groups[i];
        for (size_t k = 0; k < c->n_groups && large->n_cases > 0; k++) {
            const pl_corpus_group *small = &c->groups[k];
            const bool same_pass = small->bug.pass[0] == '\0' || large->bug.pass[0] == '\0' ||
                                   strcmp(small->bug.pass, large->bug.pass) == 0;
            if (i == k || small->n_cases == 0 || small->bug.ops[0] == '\0' || !same_pass ||
                (small->repro_nodes >= large->repro_nodes && !drops_inputs(small, large)) ||
                is_message_kind(small->bug.kind) || strcmp(small->bug.kind, large->bug.kind) != 0 ||
                !has_all(large->bug.ops, small->bug.ops) ||
                !has_all(large->bug.edges, small->bug.edges) || !fail_alike(g, small, large))
                continue;
            join(c, i, k);
        }
    }
}

/* ---- versions ---- */

/* Compares numbers by value, the rest by character. */
static int compare_versions(const char *a, const char *b) {
    while (*a != '\0' && *b != '\0') {
        char *a_end = NULL, *b_end = NULL;
        const unsigned long x = strtoul(a, &a_end, 10), y = strtoul(b, &b_end, 10);
        if (a_end != a && b_end != b) {
            if (x != y) return x < y ? -1 : 1;
            a = a_end;
            b = b_end;
        } else {
            if (*a != *b) return *a < *b ? -1 : 1;
            a++;
            b++;
        }
    }
    return (*a != '\0') - (*b != '\0');
}

/* The lowest version that fails, and the highest below it that passes; of one runtime, because
 * versions of two say nothing about each other. */
static void find_versions(const pl_corpus *c, pl_corpus_group *g) {
    const pl_corpus_case *own = case_with(c, g->smallest);
    if (own == NULL) return;
    for (size_t i = 0; i < c->n_backends; i++) {
        if (strcmp(g->on[i], "fails") != 0 || c->versions[i][0] == '\0' ||
            !same_runtime(own->backend, c->backends[i]))
            continue;
        if (g->first_bad[0] == '\0' || compare_versions(c->versions[i], g->first_bad) < 0)
            g->first_bad = c->versions[i];
    }
    for (size_t i = 0; i < c->n_backends && g->first_bad[0] != '\0'; i++) {
        const char *v = c->versions[i];
        if (strcmp(g->on[i], "passes") != 0 || v[0] == '\0' ||
            !same_runtime(own->backend, c->backends[i]) || compare_versions(v, g->first_bad) >= 0)
            continue;
        if (g->last_good[0] == '\0' || compare_versions(v, g->last_good) > 0) g->last_good = v;
    }
}

/* ---- all of them ---- */

static void count_models(pl_corpus *c) {
    for (size_t k = 0; k < c->n_groups; k++) {
        const char *last = NULL;
        c->groups[k].n_models = 0;
        for (size_t i = 0; i < c->n_cases; i++) {
            if (c->cases[i].group != k + 1) continue;
            c->groups[k].n_models += last == NULL || strcmp(last, c->cases[i].model) != 0;
            last = c->cases[i].model;
        }
    }
}

typedef struct ranked {
    pl_corpus_group group;
    size_t before;
} ranked;

static int by_count(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->group.n_cases != y->group.n_cases) return x->group.n_cases > y->group.n_cases ? -1 : 1;
    const int order = strcmp(x->group.name, y->group.name);
    return order != 0 ? order : strcmp(x->group.id, y->group.id);
}

static pl_corpus_group *stands_for(pl_corpus *c, size_t i) {
    while (c->groups[i].joined_to > 0)
        i = c->groups[i].joined_to - 1;
    return &c->groups[i];
}

/* Which signature gives a group its id depends on how many cases each has, and so on what else is
 * in the run. The others are noted, too, so that the group is known again. */
static pl_status note_joined(pl_corpus *c, pl_err *err) {
    for (size_t i = 0; i < c->n_groups; i++)
        if (c->groups[i].joined_to > 0) stands_for(c, i)->n_also++;
    for (size_t i = 0; i < c->n_groups; i++) {
        pl_corpus_group *g = &c->groups[i];
        g->also = pl_arena_array(c->arena, g->n_also + 1, sizeof *g->also);
        if (g->also == NULL) return pl_fail_memory(err, g->n_also);
        g->n_also = 0;
    }
    for (size_t i = 0; i < c->n_groups; i++) {
        pl_corpus_group *g = stands_for(c, i);
        if (c->groups[i].joined_to > 0) g->also[g->n_also++] = c->groups[i].id;
    }
    return PL_OK;
}

/* Sorts, and drops groups that were joined to another. */
static pl_status rank(pl_corpus *c, pl_err *err) {
    PL_TRY(note_joined(c, err));
    ranked *all = pl_calloc(c->n_groups + 1, sizeof *all);
    size_t *now = pl_calloc(c->n_groups + 1, sizeof *now), n = 0;
    if (all == NULL || now == NULL) {
        pl_free(all);
        pl_free(now);
        return pl_fail_memory(err, c->n_groups);
    }
    for (size_t i = 0; i < c->n_groups; i++)
        if (c->groups[i].n_cases > 0) all[n++] = (ranked){ c->groups[i], i };
    if (n > 0) qsort(all, n, sizeof *all, by_count);
    for (size_t i = 0; i < n; i++) {
        now[all[i].before] = i + 1;
        c->groups[i] = all[i].group;
    }
    c->n_groups = n;
    for (size_t i = 0; i < c->n_cases; i++)
        if (c->cases[i].group > 0) c->cases[i].group = now[c->cases[i].group - 1];
    pl_free(all);
    pl_free(now);
    return PL_OK;
}

static bool is_grouped(const pl_corpus_case *x) {
    return pl_item_status_is_wrong(x->status) && x->bug.kind[0] != '\0';
}

pl_status pl_corpus_group_cases(pl_corpus *c, pl_probe_fn probe, void *ctx, pl_err *err) {
    grouping g = { .corpus = c, .probe = probe, .ctx = ctx };
    pl_corpus_case **bad = pl_calloc(c->n_cases + 1, sizeof *bad);
    pl_status st = PL_OK;
    size_t n = 0;
    if (bad == NULL) return pl_fail_memory(err, c->n_cases);
    c->groups = NULL;
    c->n_groups = 0;
    for (size_t i = 0; i < c->n_cases; i++) {
        c->cases[i].group = 0;
        if (is_grouped(&c->cases[i])) bad[n++] = &c->cases[i];
    }
    if (n > 0) qsort(bad, n, sizeof *bad, by_bug);
    for (size_t i = 0, end; i < n && st == PL_OK; i = end) {
        for (end = i + 1; end < n && compare_bugs(&bad[i]->bug, &bad[end]->bug) == 0 &&
                          strcmp(bad[i]->bug.pass, bad[end]->bug.pass) == 0;)
            end++;
        st = split(&g, bad + i, end - i, err);
    }
    if (st == PL_OK) join_models(&g);
    if (st == PL_OK) join_unknown(&g);
    if (st == PL_OK) join_contained(&g);
    if (st == PL_OK) st = rank(c, err);
    for (size_t i = 0; i < c->n_groups && st == PL_OK; i++)
        find_versions(c, &c->groups[i]);
    count_models(c);
    pl_free(bad);
    return st;
}
