/* The map's shards: values of several ranks that form one value of the other side.
 *
 *   { "a": "rank{tp}/layers.{l}.up", "b": "/layers.{l}/up/MatMul_output_0", "rule": "concat 2 over
 * tp" }
 *
 * {…} matches a number. The one named in the rule counts the ranks; the others are the same on both
 * sides and match every number. On side A each rank is compared with its part, so that the report
 * names the rank; on side B the parts are joined. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/size.h"
#include "pair/pair_int.h"

enum { NUMBERS_MAX = 4, RANKS_MAX = 1024, NAME_MAX_BYTES = 4096 };

typedef struct number {
    const char *name; /* in the pattern */
    size_t n_name;
    long value;
} number;

typedef struct numbers {
    number of[NUMBERS_MAX];
    size_t n;
} numbers;

typedef enum rule_kind { RULE_CONCAT, RULE_INTERLEAVE, RULE_SUM, RULE_SAME, RULE_PICK } rule_kind;

typedef struct rule {
    rule_kind kind;
    int64_t number; /* the axis, or the rank to pick */
    const char *dim;
    size_t n_dim;
} rule;

typedef struct group { /* the ranks of one value */
    const char *name;  /* with {dim} left in place */
    const char *other; /* its name on the other side */
    const char **keys; /* by rank */
    size_t n_keys, capacity;
} group;

/* ---- rules ---- */

static const struct {
    const char *word;
    rule_kind kind;
    bool has_number;
} words[] = {
    { "concat ", RULE_CONCAT, true }, { "interleave ", RULE_INTERLEAVE, true },
    { "sum ", RULE_SUM, false },      { "same ", RULE_SAME, false },
    { "pick ", RULE_PICK, true },
};

static bool read_rule(const char *text, rule *out) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i].word);
        char *end = NULL;
        if (strncmp(text, words[i].word, n) != 0) continue;
        out->kind = words[i].kind;
        text += n;
        if (words[i].has_number) {
            out->number = strtol(text, &end, 10);
            if (*text < '0' || *text > '9' || *end != ' ' || out->number > RANKS_MAX) return false;
            text = end + 1;
        }
        if (strncmp(text, "over ", 5) != 0 || text[5] == '\0') return false;
        out->dim = text + 5;
        out->n_dim = strlen(out->dim);
        return true;
    }
    return false;
}

/* ---- names ---- */

static const number *find_number(const numbers *found, const char *name, size_t n) {
    for (size_t i = 0; i < found->n; i++)
        if (found->of[i].n_name == n && memcmp(found->of[i].name, name, n) == 0)
            return &found->of[i];
    return NULL;
}

/* One {…} of the pattern against the digits in the text. */
static bool take_number(const char *name, size_t n, const char **text, numbers *found) {
    char *end = NULL;
    if (**text < '0' || **text > '9') return false;
    const long value = strtol(*text, &end, 10);
    if (end - *text > 9 || (**text == '0' && end - *text > 1)) return false;
    *text = end;
    const number *known = find_number(found, name, n);
    if (known != NULL) return known->value == value;
    if (found->n == NUMBERS_MAX) return false;
    found->of[found->n++] = (number){ name, n, value };
    return true;
}

static bool fits(const char *pattern, const char *text, numbers *found) {
    found->n = 0;
    while (*pattern != '\0') {
        const char *close = *pattern == '{' ? strchr(pattern, '}') : NULL;
        if (close != NULL) {
            if (!take_number(pattern + 1, (size_t)(close - pattern - 1), &text, found))
                return false;
            pattern = close + 1;
        } else if (*pattern++ != *text++) {
            return false;
        }
    }
    return *text == '\0';
}

/* Fills in the pattern's numbers; {dim} stays. NULL: unknown number, or no memory. */
static const char *fill(pl_arena *arena, const char *pattern, const numbers *found, const rule *r) {
    char out[NAME_MAX_BYTES];
    size_t n = 0;
    while (*pattern != '\0' && n + 32 < sizeof out) {
        const char *close = *pattern == '{' ? strchr(pattern, '}') : NULL;
        const size_t n_name = close == NULL ? 0 : (size_t)(close - pattern - 1);
        const bool is_dim =
            close != NULL && n_name == r->n_dim && memcmp(pattern + 1, r->dim, n_name) == 0;
        if (close == NULL || is_dim) {
            out[n++] = *pattern++;
            continue;
        }
        const number *known = find_number(found, pattern + 1, n_name);
        if (known == NULL) return NULL;
        n += (size_t)snprintf(out + n, sizeof out - n, "%ld", known->value);
        pattern = close + 1;
    }
    return *pattern != '\0' ? NULL : pl_arena_strndup(arena, out, n);
}

static bool has_dim(const char *pattern, const rule *r) {
    for (const char *s = strchr(pattern, '{'); s != NULL; s = strchr(s + 1, '{'))
        if (strncmp(s + 1, r->dim, r->n_dim) == 0 && s[1 + r->n_dim] == '}') return true;
    return false;
}

/* ---- groups ---- */

typedef struct expansion {
    pl_pair_map *map;
    int side;
    pl_recording *recording;
    rule rule;
    const char *own, *other; /* patterns */
    pl_strmap by_name;
    group *groups; /* in the arena of the map */
    size_t n_groups, capacity;
} expansion;

static pl_status set_key(pl_arena *arena, group *g, size_t rank, const char *key, pl_err *err) {
    if (rank >= g->capacity) {
        const size_t capacity = 2 * rank + 4;
        const char **more = pl_arena_array(arena, capacity, sizeof *more);
        if (more == NULL) return pl_fail_memory(err, capacity);
        for (size_t i = 0; i < g->n_keys; i++)
            more[i] = g->keys[i];
        g->keys = more;
        g->capacity = capacity;
    }
    g->keys[rank] = pl_arena_strdup(arena, key);
    if (g->keys[rank] == NULL) return pl_fail_memory(err, 1);
    if (rank >= g->n_keys) g->n_keys = rank + 1;
    return PL_OK;
}

static pl_status add_key(expansion *x, const char *key, const numbers *found, pl_err *err) {
    pl_arena *arena = x->map->arena;
    const number *at = find_number(found, x->rule.dim, x->rule.n_dim);
    const char *name = fill(arena, x->own, found, &x->rule);
    if (at == NULL || name == NULL) return pl_fail_memory(err, 1);
    if (at->value >= RANKS_MAX)
        return pl_fail(err, PL_E_LIMIT, "'%s': at most %d ranks are supported", key, RANKS_MAX);
    size_t g = (size_t)(uintptr_t)pl_strmap_get(&x->by_name, name);
    if (g == 0) { /* first rank of this value */
        const char *other = fill(arena, x->other, found, &x->rule);
        if (other == NULL)
            return pl_fail(err, PL_E_INVALID, "'%s' has a number that '%s' does not have", x->other,
                           x->own);
        if (!PL_ARENA_ROOM(arena, x->groups, x->n_groups, &x->capacity))
            return pl_fail_memory(err, 1);
        x->groups[x->n_groups++] = (group){ .name = name, .other = other };
        g = x->n_groups;
        if (pl_strmap_put(&x->by_name, name, (void *)(uintptr_t)g) != 0)
            return pl_fail_memory(err, 1);
    }
    return set_key(arena, &x->groups[g - 1], (size_t)at->value, key, err);
}

static pl_status collect(expansion *x, pl_err *err) {
    for (size_t i = 0; i < x->recording->n_records; i++) {
        numbers found;
        if (fits(x->own, x->recording->records[i].key, &found))
            PL_TRY(add_key(x, x->recording->records[i].key, &found, err));
    }
    if (x->n_groups == 0) return pl_fail(err, PL_E_NOT_FOUND, "no value fits '%s'", x->own);
    for (size_t g = 0; g < x->n_groups; g++)
        for (size_t r = 0; r < x->groups[g].n_keys; r++)
            if (x->groups[g].keys[r] == NULL)
                return pl_fail(err, PL_E_INVALID, "'%s' has no rank %zu, but a rank %zu",
                               x->groups[g].name, r, x->groups[g].n_keys - 1);
    return PL_OK;
}

/* ---- rows ---- */

static pl_status add_row(expansion *x, const char *own, const char *other, const char *layout,
                         pl_err *err) {
    pl_pair_map *map = x->map;
    if (own == NULL || layout == NULL ||
        !PL_ARENA_ROOM(map->arena, map->rows, map->n_rows, &map->rows_capacity))
        return pl_fail_memory(err, 1);
    map->rows[map->n_rows++] =
        (pl_pair_map_row){ x->side == 0 ? own : other, x->side == 0 ? other : own, layout };
    return PL_OK;
}

static pl_status add_joined(expansion *x, const group *g, pl_join how, const char *what,
                            pl_err *err) {
    const char *key = pl_arena_printf(x->map->arena, "%s (%s)", g->name, what);
    if (key == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_recording_join(x->recording, key, how, (int)x->rule.number, g->keys, g->n_keys, err));
    return add_row(x, key, g->other, "", err);
}

/* Ranks that are not compared must not be paired with anything else. */
static pl_status bar(expansion *x, const group *g, size_t but, pl_err *err) {
    for (size_t r = 0; r < g->n_keys; r++)
        if (r != but) PL_TRY(add_row(x, g->keys[r], NULL, "", err));
    return PL_OK;
}

static pl_status add_group(expansion *x, const group *g, pl_err *err) {
    const rule *r = &x->rule;
    const bool parts = r->kind == RULE_CONCAT || r->kind == RULE_INTERLEAVE;
    if (r->kind == RULE_SUM) {
        PL_TRY(add_joined(x, g, PL_JOIN_SUM, "sum", err));
        return bar(x, g, SIZE_MAX, err);
    }
    if (r->kind == RULE_PICK) {
        if ((size_t)r->number >= g->n_keys)
            return pl_fail(err, PL_E_INVALID, "'%s' has no rank %" PRId64, g->name, r->number);
        PL_TRY(add_row(x, g->keys[r->number], g->other, "", err));
        return bar(x, g, (size_t)r->number, err);
    }
    if (parts && x->side == 1) {
        PL_TRY(add_joined(x, g, r->kind == RULE_CONCAT ? PL_JOIN_CONCAT : PL_JOIN_INTERLEAVE,
                          "joined", err));
        return bar(x, g, SIZE_MAX, err);
    }
    for (size_t k = 0; k < g->n_keys; k++) {
        const char *layout = !parts ? ""
                                    : pl_arena_printf(x->map->arena, "%s %" PRId64 ",%zu,%zu",
                                                      r->kind == RULE_CONCAT ? "part" : "every",
                                                      r->number, k, g->n_keys);
        PL_TRY(add_row(x, g->keys[k], g->other, layout, err));
    }
    return PL_OK;
}

static pl_status expand_one(expansion *x, const pl_pair_shards *s, pl_err *err) {
    if (!read_rule(s->rule, &x->rule))
        return pl_fail(err, PL_E_FORMAT,
                       "unknown rule '%s'; available: concat AXIS over DIM, interleave AXIS over "
                       "DIM, sum over DIM, same over DIM, pick RANK over DIM",
                       s->rule);
    if (has_dim(s->a, &x->rule) == has_dim(s->b, &x->rule))
        return pl_fail(err, PL_E_INVALID, "either 'a' or 'b' must have {%s}", x->rule.dim);
    if (has_dim(s->a, &x->rule) != (x->side == 0)) return PL_OK; /* belongs to the other side */
    x->own = x->side == 0 ? s->a : s->b;
    x->other = x->side == 0 ? s->b : s->a;
    PL_TRY(collect(x, err));
    for (size_t g = 0; g < x->n_groups; g++)
        PL_TRY(add_group(x, &x->groups[g], err));
    return PL_OK;
}

pl_status pl_pair_map_expand(pl_pair_map *map, int side, pl_recording *recording, pl_err *err) {
    for (size_t i = 0; i < map->n_shards; i++) {
        expansion x = { .map = map, .side = side, .recording = recording };
        const pl_status st = expand_one(&x, &map->shards[i], err);
        pl_strmap_release(&x.by_name);
        if (st != PL_OK) return pl_err_wrap(err, st, "shards %zu of the map", i + 1);
    }
    return PL_OK;
}
