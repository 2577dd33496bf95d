/* Pairing of decoders by layer and role: "model.layers.3.attn.q_proj" of one export is
 * "blk.3.attn_q" of another. The roles and their names are in pair_roles.def. A role counts only if
 * it occurs once in its layer on each side. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "pair/pair_int.h"

typedef struct role_row {
    const char *role, *names, *ops;
} role_row;

#define PL_PAIR_ROLE_ROW(role_, names_, ops_) { #role_, names_, ops_ },
static const role_row rows[] = {
#include "pair/pair_roles.def"
};
#undef PL_PAIR_ROLE_ROW
#define SUMS "Add|ADD|add" /* of a product and its bias */
enum { N_ROWS = sizeof(rows) / sizeof(*rows), NO_ROLE = N_ROWS };

/* Is the word in a list that '|' separates? */
static bool listed(const char *list, const char *word, size_t n) {
    while (*list != '\0') {
        const size_t length = strcspn(list, "|");
        if (length == n && strncmp(list, word, n) == 0) return true;
        list += length + (list[length] == '|');
    }
    return false;
}

static bool is_number(const char *word, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)word[i])) return false;
    return n > 0 && n < 7;
}

static int64_t number_of(const char *word, size_t n) {
    int64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value = 10 * value + (word[i] - '0');
    return value;
}

/* The last role in a name, and the number behind a word for layers: "layers.3", "blk.3"; or behind
 * the role itself: "Qcur-3". */
static pl_pair_place place_of(const char *name) {
    static const char add[] = "_add"; /* "Qcur_add-3": with its bias (examples/llama) */
    pl_pair_place p = { NO_ROLE, -1, false };
    bool after_layers = false, after_role = false;
    while (*name != '\0') {
        const size_t n = strcspn(name, "./-:");
        if (is_number(name, n)) {
            if (after_layers || (after_role && p.layer < 0)) p.layer = number_of(name, n);
        }
        after_layers = listed("layers|layer|blocks|block|h|blk", name, n);
        after_role = false;
        const size_t n_add = sizeof add - 1;
        const bool adds = n > n_add && strncmp(name + n - n_add, add, n_add) == 0;
        for (size_t i = 0; i < N_ROWS; i++) {
            const bool plain = listed(rows[i].names, name, n);
            if (!plain && (!adds || !listed(rows[i].names, name, n - n_add))) continue;
            p.role = i;
            p.biased = !plain;
            after_role = true;
        }
        name += n + (name[n] != '\0');
    }
    return p;
}

bool pl_pair_place_of(const char *name, pl_pair_place *out) {
    *out = place_of(name);
    return out->role != NO_ROLE;
}

bool pl_pair_place_is(const pl_pair_place *place, const char *role) {
    return place->role != NO_ROLE && strcmp(rows[place->role].role, role) == 0;
}

static pl_pair_place place_of_item(const pl_pair_item *item) {
    const pl_pair_place p = place_of(item->name);
    if (p.role != NO_ROLE || item->module == NULL) return p;
    return place_of(item->module);
}

static bool op_fits(const role_row *row, const char *op) {
    return row->ops[0] == '\0' || op == NULL || op[0] == '\0' || listed(row->ops, op, strlen(op));
}

static uint64_t key_of(const pl_pair_item *item, pl_pair_place *p) {
    *p = place_of_item(item);
    if (item->unmapped || p->role == NO_ROLE || item->call > 0) return 0;
    const role_row *row = &rows[p->role];
    const bool sum = item->op != NULL && listed(SUMS, item->op, strlen(item->op));
    if (row->ops[0] != '\0' && sum) p->biased = true;
    if (!p->biased && !op_fits(row, item->op)) return 0;
    return pl_pair_mix(pl_pair_mix(p->biased ? 2 : 1, p->role + 1), (uint64_t)(p->layer + 2));
}

/* A part without an operator of its own is its last value; of others there must be only one. */
static bool usable(const struct pl_pair_key *k, const pl_pair_place *p) {
    if (k->n[0] == 0 || k->n[1] == 0) return false;
    return rows[p->role].ops[0] == '\0' || (k->n[0] == 1 && k->n[1] == 1);
}

pl_status pl_pair_by_role(pl_pair_state *s, pl_err *err) {
    pl_pair_keys keys;
    pl_pair_place p;
    pl_status st = PL_OK;
    if (s->names_lie) return PL_OK;
    PL_TRY(pl_pair_keys_init(&keys, s->side[0]->n_items + s->side[1]->n_items, err));
    for (int side = 0; side < PL_PAIR_SIDES; side++)
        for (uint32_t i = 0; i < s->side[side]->n_items; i++) {
            const uint64_t key = key_of(&s->side[side]->items[i], &p);
            if (key != 0) pl_pair_keys_add(&keys, side, key, i);
        }
    for (uint32_t a = 0; a < s->side[0]->n_items && st == PL_OK; a++) {
        const uint64_t key = key_of(&s->side[0]->items[a], &p);
        if (key == 0) continue;
        const struct pl_pair_key *k = pl_pair_keys_find(&keys, key);
        if (k == NULL || !usable(k, &p) || k->last[0] != a) continue;
        const uint32_t b = k->last[1];
        if (!pl_pair_is_open(s, 0, a) || !pl_pair_is_open(s, 1, b)) continue;
        if (!pl_pair_fits(&s->side[0]->items[a], &s->side[1]->items[b])) continue;
        st = pl_pair_add(s, a, b, PL_PAIR_ROLE, 0.9, "same layer and role", err);
    }
    pl_pair_keys_release(&keys);
    return st;
}
