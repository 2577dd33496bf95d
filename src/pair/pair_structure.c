/* Pairing by structure, without names.
 *
 * Each value gets two fingerprints: of everything above it (its inputs) and of everything below it
 * (its uses). Paired values have the fingerprint of their pair on both sides, so each round starts
 * from the anchors and goes through everything that is equal between them. A fingerprint that is
 * unique on each side makes a pair; if the two fingerprints suggest different counterparts, neither
 * is used. Rounds go on until nothing new is found, in tiers: weights by content; weights by shape;
 * the same with views and quantisation folded away; any weights. Linear in the graph for each
 * round. */
#include <string.h>

#include "base/alloc.h"
#include "pair/pair_int.h"

enum { ROUNDS_MAX = 40 };

typedef struct tier {
    const char *how;
    bool content, shape, fold; /* of constants: compare bytes, dims; fold views and quantisation */
    double both, up, down;     /* confidence by what was equal */
} tier;

/* clang-format off */
static const tier tiers[] = {
    { "same structure and weights",           true,  true,  false, 0.99, 0.97, 0.9 },
    { "same structure and weight shapes", false, true,  false, 0.95, 0.9,  0.85 },
    { "same structure and weight shapes", false, true,  true,  0.93, 0.88, 0.8 },
    { "same structure",                       false, false, true,  0.85, 0.75, 0.7 },
};
/* clang-format on */

enum { /* salts */
       SALT_INPUT = 1,
       SALT_CONST,
       SALT_UNKNOWN,
       SALT_ANCHOR,
       SALT_OUTPUT,
       SALT_OMITTED,
       SALT_BODY,
       SALT_DOWN,
};

typedef struct walk {
    pl_pair_state *s;
    const tier *t;
    uint64_t *up[PL_PAIR_SIDES], *down[PL_PAIR_SIDES];
    uint64_t *anchor[PL_PAIR_SIDES]; /* fingerprint of the pair; 0 = none. By representative */
    uint32_t *best[PL_PAIR_SIDES];   /* representative -> the value to pair */
    bool same_inputs, same_outputs;  /* same number on both sides: their positions count */
    size_t n_new;
} walk;

static uint32_t rep(const walk *w, int side, uint32_t v) {
    return w->t->fold && !w->s->options.keep_views ? w->s->graph[side].values[v].real : v;
}

/* ---- fingerprints ---- */

static uint64_t source_print(const walk *w, const pl_pg_value *v) {
    if ((v->flags & PL_PG_INPUT) != 0) return pl_pair_mix(SALT_INPUT, w->same_inputs ? v->io : 0);
    if ((v->flags & PL_PG_CONST) == 0) return SALT_UNKNOWN;
    if (w->t->content) return pl_pair_mix(SALT_CONST, v->content);
    return pl_pair_mix(SALT_CONST, w->t->shape ? v->shape : 0);
}

static uint64_t input_print(const walk *w, int side, uint32_t edge) {
    const uint32_t v = w->s->graph[side].edges[edge];
    return v == PL_PAIR_NONE ? SALT_OMITTED : w->up[side][rep(w, side, v)];
}

static uint64_t label_of(const walk *w, const pl_pg_node *node) {
    const uint64_t label = w->t->fold ? node->plain : node->label;
    return (node->flags & PL_PG_BODY) != 0 ? pl_pair_mix(SALT_BODY, label) : label;
}

static bool any_order(const walk *w, const pl_pg_node *node) {
    return w->t->fold && (node->flags & PL_PG_COMMUTATIVE) != 0;
}

static uint64_t inputs_print(const walk *w, int side, const pl_pg_node *node) {
    uint64_t h = label_of(w, node), sum = 0;
    if (w->t->fold && node->slots != NULL) {
        for (size_t k = 0; node->slots[k] >= 0; k++) {
            const uint32_t slot = (uint32_t)node->slots[k];
            if (slot < node->n_own_in) h = pl_pair_mix(h, input_print(w, side, node->in + slot));
        }
        return pl_pair_mix(h, sum);
    }
    for (uint32_t k = 0; k < node->n_in; k++) {
        const uint64_t x = input_print(w, side, node->in + k);
        if (any_order(w, node)) {
            sum += pl_pair_mix(0, x);
        } else {
            h = pl_pair_mix(h, x);
        }
    }
    return pl_pair_mix(h, sum);
}

static void print_up(walk *w, int side) {
    const pl_pair_graph *g = &w->s->graph[side];
    uint64_t *up = w->up[side];
    for (uint32_t v = 0; v < g->n_values; v++) {
        up[v] = w->anchor[side][v];
        if (up[v] == 0 && g->values[v].producer == PL_PAIR_NONE)
            up[v] = source_print(w, &g->values[v]);
    }
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const pl_pg_node *node = &g->nodes[n];
        const uint64_t h = inputs_print(w, side, node);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t v = g->edges[node->out + k];
            if (v == PL_PAIR_NONE || rep(w, side, v) != v || w->anchor[side][v] != 0) continue;
            const bool fixed = w->t->fold && (g->values[v].flags & PL_PG_FIXED) != 0;
            up[v] = fixed ? pl_pair_mix(SALT_CONST, 0) : pl_pair_mix(h, k);
        }
    }
}

/* What is known about the other inputs: constants and anchors. */
static uint64_t beside(const walk *w, int side, const pl_pg_node *node, uint32_t slot) {
    const pl_pair_graph *g = &w->s->graph[side];
    uint64_t sum = 0;
    for (uint32_t k = 0; k < node->n_in; k++) {
        const uint32_t v = g->edges[node->in + k];
        if (k == slot || v == PL_PAIR_NONE) continue;
        const uint32_t r = rep(w, side, v);
        const bool fixed = (g->values[r].flags & PL_PG_CONST) != 0 && w->t->content;
        if (!fixed && w->anchor[side][r] == 0) continue;
        sum += pl_pair_mix(any_order(w, node) ? 0 : k + 1, w->up[side][r]);
    }
    return sum;
}

/* The index of this input in the op whose quantised form the node is; -1 = none. */
static int plain_slot(const walk *w, const pl_pg_node *node, uint32_t slot) {
    if (any_order(w, node)) return 0;
    if (!w->t->fold || node->slots == NULL) return (int)slot;
    for (int k = 0; node->slots[k] >= 0; k++) {
        if ((uint32_t)node->slots[k] == slot) return k;
    }
    return -1;
}

static void print_down(walk *w, int side) {
    const pl_pair_graph *g = &w->s->graph[side];
    uint64_t *down = w->down[side];
    memset(down, 0, g->n_values * sizeof *down);
    for (uint32_t v = 0; v < g->n_values; v++) {
        if ((g->values[v].flags & PL_PG_OUTPUT) == 0) continue;
        down[rep(w, side, v)] += pl_pair_mix(SALT_OUTPUT, w->same_outputs ? g->values[v].io : 0);
    }
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const pl_pg_node *node = &g->nodes[n];
        uint64_t h = pl_pair_mix(SALT_DOWN, label_of(w, node));
        bool alive = false;
        for (uint32_t k = 0; k < node->n_out; k++) {
            const uint32_t v = g->edges[node->out + k];
            if (v == PL_PAIR_NONE || rep(w, side, v) != v) continue;
            const uint64_t x = w->anchor[side][v] != 0 ? w->anchor[side][v] : down[v];
            alive = alive || x != 0;
            h = pl_pair_mix(h, x);
        }
        for (uint32_t k = 0; k < node->n_in && alive; k++) {
            const uint32_t v = g->edges[node->in + k];
            const int slot = plain_slot(w, node, k);
            if (v == PL_PAIR_NONE || slot < 0) continue;
            const uint64_t x = pl_pair_mix(h, (uint64_t)slot);
            down[rep(w, side, v)] += pl_pair_mix(x, beside(w, side, node, k)) | 1;
        }
    }
}

/* ---- anchors ---- */

static void set_anchors(walk *w) {
    const pl_pair_state *s = w->s;
    for (int side = 0; side < PL_PAIR_SIDES; side++)
        memset(w->anchor[side], 0, s->graph[side].n_values * sizeof **w->anchor);
    for (uint32_t v = 0; v < s->graph[0].n_values; v++) {
        if (s->value_mate[0][v] == PL_PAIR_NONE) continue;
        const uint32_t a = rep(w, 0, v), b = rep(w, 1, s->value_mate[0][v]);
        /* A weight and its quantised form are different constants: only the shapes agree. */
        if (w->t->fold &&
            ((s->graph[0].values[a].flags | s->graph[1].values[b].flags) & PL_PG_FIXED))
            continue;
        if (w->anchor[0][a] != 0 || w->anchor[1][b] != 0) continue;
        w->anchor[0][a] = w->anchor[1][b] = pl_pair_mix(SALT_ANCHOR, a) | 1;
    }
}

/* Of values with the same numbers, the first that was recorded, floats before codes. */
static void set_best(walk *w, int side) {
    const pl_pair_graph *g = &w->s->graph[side];
    uint32_t *best = w->best[side];
    for (uint32_t v = 0; v < g->n_values; v++)
        best[v] = v;
    for (uint32_t v = g->n_values; v-- > 0 && w->t->fold;) {
        const uint32_t r = rep(w, side, v);
        if (r == v) continue;
        const bool bad = (g->values[best[r]].flags & PL_PG_CODES) != 0 ||
                         g->values[best[r]].first_item == PL_PAIR_NONE;
        const bool good =
            (g->values[v].flags & PL_PG_CODES) == 0 && g->values[v].first_item != PL_PAIR_NONE;
        if ((bad || best[r] != r) && good) best[r] = v;
    }
}

/* ---- pairs ---- */

/* Inputs and what nodes make; constants only where they were recorded. */
static bool is_candidate(const walk *w, int side, uint32_t v) {
    const pl_pg_value *value = &w->s->graph[side].values[v];
    if (rep(w, side, v) != v || w->anchor[side][v] != 0) return false;
    if ((value->flags & PL_PG_FIXED) == 0) return true;
    return !w->t->fold && value->first_item != PL_PAIR_NONE;
}

static pl_status fill_keys(const walk *w, bool up, bool down, pl_pair_keys *keys, pl_err *err) {
    const pl_pair_state *s = w->s;
    PL_TRY(pl_pair_keys_init(keys, (size_t)s->graph[0].n_values + s->graph[1].n_values, err));
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        for (uint32_t v = 0; v < s->graph[side].n_values; v++) {
            if (!is_candidate(w, side, v)) continue;
            const uint64_t x = up ? w->up[side][v] : 0, y = down ? w->down[side][v] : 0;
            if (down && !up && y == 0) continue; /* nothing uses it: no evidence */
            const bool fixed = (s->graph[side].values[v].flags & PL_PG_FIXED) != 0;
            if (fixed && !w->t->content && (!down || y == 0)) continue; /* weak evidence */
            pl_pair_keys_add(keys, side, pl_pair_mix(pl_pair_mix(0, x), y), v);
        }
    }
    return PL_OK;
}

static bool is_unique(const struct pl_pair_key *k) {
    return k->n[0] == 1 && k->n[1] == 1;
}

/* Views and quantisation are left to the tiers that fold them: from below, a value and its view
 * look the same. */
static unsigned kind_of(const pl_pair_graph *g, uint32_t v) {
    const uint32_t n = g->values[v].producer;
    return n == PL_PAIR_NONE ? 0 : g->nodes[n].flags & (PL_PG_VIEW | PL_PG_QUANT);
}

static pl_status add(walk *w, uint32_t a, uint32_t b, double confidence, pl_err *err) {
    const uint32_t va = w->best[0][a], vb = w->best[1][b];
    if (!w->t->fold && kind_of(&w->s->graph[0], a) != kind_of(&w->s->graph[1], b)) return PL_OK;
    PL_TRY(pl_pair_add_values(w->s, va, vb, PL_PAIR_STRUCTURE, confidence, w->t->how, err));
    if (w->s->value_mate[0][va] == vb) w->n_new++;
    return PL_OK;
}

static pl_status pair_both(walk *w, pl_err *err) {
    pl_pair_keys keys;
    PL_TRY(fill_keys(w, true, true, &keys, err));
    pl_status st = PL_OK;
    for (size_t i = 0; i < keys.n_slots && st == PL_OK; i++) {
        if (is_unique(&keys.slots[i]))
            st = add(w, keys.slots[i].last[0], keys.slots[i].last[1], w->t->both, err);
    }
    pl_pair_keys_release(&keys);
    return st;
}

static uint64_t one_key(uint64_t up, uint64_t down) {
    return pl_pair_mix(pl_pair_mix(0, up), down);
}

/* The only counterpart by this fingerprint, or PL_PAIR_NONE. */
static uint32_t only_one(const pl_pair_keys *keys, uint64_t key) {
    const struct pl_pair_key *k = pl_pair_keys_find(keys, key);
    return is_unique(k) ? k->last[1] : PL_PAIR_NONE;
}

typedef struct choice {
    uint32_t up, down; /* counterparts by each fingerprint alone */
} choice;

static choice choose(const walk *w, const pl_pair_keys *up, const pl_pair_keys *down, uint32_t a) {
    choice c = { PL_PAIR_NONE, PL_PAIR_NONE };
    if (!is_candidate(w, 0, a)) return c;
    c.up = only_one(up, one_key(w->up[0][a], 0));
    if (w->down[0][a] != 0) c.down = only_one(down, one_key(0, w->down[0][a]));
    return c;
}

static void claim(uint32_t *claimed, bool *doubt, uint32_t b, uint32_t a) {
    if (b == PL_PAIR_NONE) return;
    if (claimed[b] != 0 && claimed[b] != a + 1) doubt[b] = true;
    claimed[b] = a + 1;
}

/* If the fingerprints of a value of either side name different counterparts, both are doubtful. Not
 * if everything above is equal, weights included: then it is the same value. */
static pl_status pair_chosen(walk *w, const pl_pair_keys *up, const pl_pair_keys *down,
                             uint32_t *claimed, bool *doubt, pl_err *err) {
    const uint32_t n = w->s->graph[0].n_values;
    for (uint32_t a = 0; a < n && !w->t->content; a++) {
        const choice c = choose(w, up, down, a);
        claim(claimed, doubt, c.up, a);
        claim(claimed, doubt, c.down, a);
        if (c.up == PL_PAIR_NONE || c.down == PL_PAIR_NONE || c.up == c.down) continue;
        doubt[c.up] = doubt[c.down] = true;
    }
    for (uint32_t a = 0; a < n; a++) {
        const choice c = choose(w, up, down, a);
        const uint32_t b = c.up != PL_PAIR_NONE ? c.up : c.down;
        if (b == PL_PAIR_NONE || doubt[b]) continue;
        PL_TRY(add(w, a, b, c.up != PL_PAIR_NONE ? w->t->up : w->t->down, err));
    }
    return PL_OK;
}

static pl_status pair_one(walk *w, pl_err *err) {
    pl_pair_keys up = { NULL, 0 }, down = { NULL, 0 };
    const size_t n = (size_t)w->s->graph[1].n_values + 1;
    bool *doubt = pl_calloc(n, sizeof *doubt);
    uint32_t *claimed = pl_calloc(n, sizeof *claimed);
    pl_status st = doubt == NULL || claimed == NULL ? pl_fail_memory(err, n) : PL_OK;
    if (st == PL_OK) st = fill_keys(w, true, false, &up, err);
    if (st == PL_OK) st = fill_keys(w, false, true, &down, err);
    if (st == PL_OK) st = pair_chosen(w, &up, &down, claimed, doubt, err);
    pl_pair_keys_release(&up);
    pl_pair_keys_release(&down);
    pl_free(doubt);
    pl_free(claimed);
    return st;
}

static pl_status run_tier(walk *w, pl_err *err) {
    for (int side = 0; side < PL_PAIR_SIDES; side++)
        set_best(w, side);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        set_anchors(w);
        for (int side = 0; side < PL_PAIR_SIDES; side++) {
            print_up(w, side);
            print_down(w, side);
        }
        w->n_new = 0;
        PL_TRY(pair_both(w, err));
        if (w->n_new == 0) PL_TRY(pair_one(w, err));
        if (w->n_new == 0) break;
    }
    return PL_OK;
}

static size_t count_flag(const pl_pair_graph *g, unsigned flag) {
    size_t n = 0;
    for (uint32_t v = 0; v < g->n_values; v++)
        n += (g->values[v].flags & flag) != 0;
    return n;
}

pl_status pl_pair_by_structure(pl_pair_state *s, pl_err *err) {
    const pl_pair_graph *g = s->graph;
    if (g[0].n_nodes == 0 || g[1].n_nodes == 0) return PL_OK;
    walk w = { .s = s };
    pl_status st = PL_OK;
    w.same_inputs = count_flag(&g[0], PL_PG_INPUT) == count_flag(&g[1], PL_PG_INPUT);
    w.same_outputs = count_flag(&g[0], PL_PG_OUTPUT) == count_flag(&g[1], PL_PG_OUTPUT);
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        const size_t n = (size_t)g[side].n_values + 1;
        w.up[side] = pl_calloc(n, sizeof(uint64_t));
        w.down[side] = pl_calloc(n, sizeof(uint64_t));
        w.anchor[side] = pl_calloc(n, sizeof(uint64_t));
        w.best[side] = pl_calloc(n, sizeof(uint32_t));
        if (w.up[side] == NULL || w.down[side] == NULL || w.anchor[side] == NULL ||
            w.best[side] == NULL)
            st = pl_fail_memory(err, n);
    }
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers && st == PL_OK; i++) {
        w.t = &tiers[i];
        st = run_tier(&w, err);
    }
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        pl_free(w.up[side]);
        pl_free(w.down[side]);
        pl_free(w.anchor[side]);
        pl_free(w.best[side]);
    }
    return st;
}
