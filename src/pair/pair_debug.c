/* Pairing by debug information: the name that a value says it corresponds to, and the module of the
 * source model that computed it.
 *
 * A module's output is the one value that leaves it. A recording of modules (PyTorch) names values
 * by module; a graph has several nodes of one module, so the pair is n to 1. */
#include <string.h>

#include "pair/pair_int.h"

#define AGREE 0.1 /* relative error of values that are the same apart from a fault */

/* ---- stands for ---- */

typedef struct claims {
    pl_strmap by_name; /* name that an item of this side corresponds to -> item + 1 */
} claims;

static pl_status claims_init(claims *c, const pl_pair_side *side, pl_err *err) {
    c->by_name = (pl_strmap)PL_STRMAP_INIT;
    for (size_t i = 0; i < side->n_items; i++) {
        const pl_pair_item *item = &side->items[i];
        for (size_t k = 0; k < item->n_stands_for; k++) {
            if (pl_strmap_has(&c->by_name, item->stands_for[k])) continue; /* the first one wins */
            if (pl_strmap_put(&c->by_name, item->stands_for[k], (void *)(i + 1)) != 0)
                return pl_fail_memory(err, 1);
        }
    }
    return PL_OK;
}

/* The item of the other side that has this name or corresponds to it; 0 = none. */
static uintptr_t find_other(const pl_pair_state *s, const claims *other, int side,
                            const char *name) {
    const uintptr_t found = (uintptr_t)pl_strmap_get(&s->names[side], name);
    return found != 0 ? found : (uintptr_t)pl_strmap_get(&other->by_name, name);
}

/* One item may correspond to several: each gets its pair, unless it is already paired. */
static pl_status pair_claims(pl_pair_state *s, int side, const claims *other, pl_err *err) {
    const pl_pair_side *ps = s->side[side];
    for (uint32_t i = 0; i < ps->n_items; i++) {
        const pl_pair_item *item = &ps->items[i];
        const bool was_open = pl_pair_is_open(s, side, i);
        for (size_t k = 0; k < item->n_stands_for; k++) {
            const uintptr_t found = find_other(s, other, 1 - side, item->stands_for[k]);
            if (found == 0) continue;
            const uint32_t j = (uint32_t)(found - 1);
            if (!pl_pair_is_open(s, 1 - side, j) && !was_open) continue;
            const uint32_t a = side == 0 ? i : j, b = side == 0 ? j : i;
            const double confidence =
                pl_pair_fits(&s->side[0]->items[a], &s->side[1]->items[b]) ? 0.98 : 0.7;
            PL_TRY(
                pl_pair_add(s, a, b, PL_PAIR_DEBUG, confidence, "declared in the recording", err));
        }
    }
    return PL_OK;
}

/* ---- modules ---- */

static uint64_t text_key(uint64_t h, const char *s) {
    return pl_pair_mix(h, pl_hash64(s, strlen(s)));
}

/* A runtime's fused op keeps the name of its first op, and a folded one gets more inputs: their
 * outputs are different values. */
static bool same_op(const pl_pair_state *s, uint32_t a, uint32_t b) {
    const uint32_t va = s->item_value[0][a], vb = s->item_value[1][b];
    if (va == PL_PAIR_NONE || vb == PL_PAIR_NONE) return false;
    const pl_pg_value *x = &s->graph[0].values[va], *y = &s->graph[1].values[vb];
    if (x->producer == PL_PAIR_NONE || y->producer == PL_PAIR_NONE || x->slot != y->slot)
        return false;
    const pl_pg_node *m = &s->graph[0].nodes[x->producer], *n = &s->graph[1].nodes[y->producer];
    return m->label == n->label && m->n_in == n->n_in;
}

/* module, op, source and call: one value on each side. */
static pl_status pair_origins(pl_pair_state *s, pl_err *err) {
    pl_pair_keys keys;
    PL_TRY(pl_pair_keys_init(&keys, s->side[0]->n_items + s->side[1]->n_items, err));
    pl_status st = PL_OK;
    for (int pass = 0; pass < 2; pass++) {
        for (int side = 0; side < PL_PAIR_SIDES; side++) {
            for (uint32_t i = 0; i < s->side[side]->n_items && st == PL_OK; i++) {
                const pl_pair_item *it = &s->side[side]->items[i];
                if (*it->module == '\0' || *it->op == '\0') continue;
                uint64_t key = text_key(text_key(0, it->module), it->op);
                key = pl_pair_mix(text_key(key, it->source), (uint64_t)it->call);
                if (pass == 0) {
                    pl_pair_keys_add(&keys, side, key, i);
                    continue;
                }
                const struct pl_pair_key *k = pl_pair_keys_find(&keys, key);
                if (side == 1 || k->n[0] != 1 || k->n[1] != 1) continue;
                if (!pl_pair_is_open(s, 0, k->last[0]) || !pl_pair_is_open(s, 1, k->last[1]))
                    continue;
                const pl_pair_item *b = &s->side[1]->items[k->last[1]];
                if (pl_pair_fits(it, b) && same_op(s, k->last[0], k->last[1]))
                    st = pl_pair_add(s, k->last[0], k->last[1], PL_PAIR_DEBUG, 0.92,
                                     "same module and op", err);
            }
        }
    }
    pl_pair_keys_release(&keys);
    return st;
}

/* The values that leave a module: used by a node of another one, or an output of the model.
 * out maps the module's name to the value + 1, or to `many`. */
static pl_status find_leaving(const pl_pair_graph *g, pl_strmap *out, const void *many,
                              pl_err *err) {
    for (uint32_t v = 0; v < g->n_values; v++) {
        const pl_pg_value *value = &g->values[v];
        if (value->producer == PL_PAIR_NONE) continue;
        const char *module = g->nodes[value->producer].module;
        bool leaves = (value->flags & PL_PG_OUTPUT) != 0;
        for (uint32_t u = g->use_at[v]; u < g->use_at[v + 1]; u++)
            leaves = leaves || strcmp(g->nodes[g->uses[u].node].module, module) != 0;
        if (!leaves || *module == '\0') continue;
        if (!pl_domain_is_onnx(g->nodes[value->producer].domain)) continue; /* may be fused */
        void *now =
            pl_strmap_has(out, module) ? (void *)(uintptr_t)many : (void *)((uintptr_t)v + 1);
        if (pl_strmap_put(out, module, now) != 0) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

/* Pairs items of one side that are named after a module of the other side's graph. An exporter may
 * have folded the next module into this one, so the values must agree at least roughly. */
static pl_status pair_modules(pl_pair_state *s, int side, pl_err *err) {
    static const char many;
    const int other = 1 - side;
    const pl_pair_graph *g = &s->graph[other];
    pl_strmap leaving = PL_STRMAP_INIT;
    pl_status st = find_leaving(g, &leaving, &many, err);
    for (uint32_t i = 0; i < s->side[side]->n_items && st == PL_OK; i++) {
        const pl_pair_item *it = &s->side[side]->items[i];
        if (!pl_pair_is_open(s, side, i) || it->call > 0) continue;
        if (s->item_value[side][i] != PL_PAIR_NONE) continue; /* other layers use its graph */
        const void *found = pl_strmap_get(&leaving, *it->module != '\0' ? it->module : it->name);
        if (found == NULL || found == &many) continue;
        const uint32_t j = g->values[(uintptr_t)found - 1].first_item;
        if (j == PL_PAIR_NONE || s->next_item[other][j] != PL_PAIR_NONE) continue;
        if (!pl_pair_is_open(s, other, j)) continue;
        const pl_pair_item *o = &s->side[other]->items[j];
        if (!pl_pair_same_shape(it, o) && (it->has_shape && o->has_shape)) continue;
        const uint32_t a = side == 0 ? i : j, b = side == 0 ? j : i;
        double error = 0;
        bool known = false;
        st = pl_pair_measure(s, a, b, &error, &known, err);
        const double confidence = !known ? 0.45 : error < AGREE ? 0.9 : 0.3;
        if (st == PL_OK)
            st = pl_pair_add(s, a, b, PL_PAIR_DEBUG, confidence, "output of the module", err);
    }
    pl_strmap_release(&leaving);
    return st;
}

pl_status pl_pair_by_debug(pl_pair_state *s, pl_err *err) {
    claims c[PL_PAIR_SIDES] = { { PL_STRMAP_INIT }, { PL_STRMAP_INIT } };
    pl_status st = PL_OK;
    for (int side = 0; side < PL_PAIR_SIDES && st == PL_OK; side++)
        st = claims_init(&c[side], s->side[side], err);
    for (int side = 0; side < PL_PAIR_SIDES && st == PL_OK; side++)
        st = pair_claims(s, side, &c[1 - side], err);
    if (st == PL_OK && !s->names_lie) st = pair_origins(s, err);
    for (int side = 0; side < PL_PAIR_SIDES && st == PL_OK && !s->names_lie; side++)
        st = pair_modules(s, side, err);
    for (int side = 0; side < PL_PAIR_SIDES; side++)
        pl_strmap_release(&c[side].by_name);
    return st;
}
