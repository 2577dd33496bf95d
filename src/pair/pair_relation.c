/* Relations of pairs (1:1, n:1, …), and reasons for unpaired values.
 *
 * The segment of a paired value is everything computed between it and the paired values above it.
 * One op on one side against several on the other is a fusion: the relation says so and lists the
 * values inside as members. Several on both sides are different decompositions. */
#include <string.h>

#include "base/alloc.h"
#include "pair/pair_int.h"

enum {
    SEGMENT_MAX = 4096, /* values; larger segments are skipped */
    FEW_OPS = 16,       /* more on both sides: not a fusion, but a part without pairs */
};

typedef struct segment {
    uint32_t *values; /* unpaired values inside */
    size_t n_values;
    size_t n_ops; /* ops that compute; views and quantisation do not count */
    bool too_large;
} segment;

typedef struct walk {
    pl_pair_state *s;
    uint32_t *stamp[PL_PAIR_SIDES]; /* by value: the last segment that visited it */
    segment seg[PL_PAIR_SIDES];
    uint32_t number;
} walk;

static bool computes(const pl_pg_node *node) {
    return (node->flags & (PL_PG_VIEW | PL_PG_QUANT | PL_PG_BODY)) == 0;
}

/* Are the same numbers paired under another name, as a view or as codes? */
static bool is_paired(const pl_pair_state *s, int side, uint32_t v) {
    return s->value_mate[side][v] != PL_PAIR_NONE;
}

static void find_segment(walk *w, int side, uint32_t from) {
    const pl_pair_graph *g = &w->s->graph[side];
    segment *seg = &w->seg[side];
    size_t done = 0;
    seg->n_values = seg->n_ops = 0;
    seg->too_large = false;
    w->stamp[side][from] = w->number;
    seg->values[seg->n_values++] = from;
    while (done < seg->n_values) {
        const uint32_t n = g->values[seg->values[done++]].producer;
        if (n == PL_PAIR_NONE) continue;
        seg->n_ops += computes(&g->nodes[n]);
        for (uint32_t k = 0; k < g->nodes[n].n_in; k++) {
            const uint32_t v = g->edges[g->nodes[n].in + k];
            if (v == PL_PAIR_NONE || w->stamp[side][v] == w->number || is_paired(w->s, side, v))
                continue;
            if ((g->values[v].flags & (PL_PG_FIXED | PL_PG_INPUT | PL_PG_SCALE)) != 0) continue;
            if (seg->n_values == SEGMENT_MAX) {
                seg->too_large = true;
                return;
            }
            w->stamp[side][v] = w->number;
            seg->values[seg->n_values++] = v;
        }
    }
}

static bool is_explained(const char *why) {
    return why != NULL && (strncmp(why, "the map ", 8) == 0 || strncmp(why, "view ", 5) == 0 ||
                           strncmp(why, "quantised ", 10) == 0);
}

static pl_status list_members(walk *w, int side, pl_pair *pair, const char *what, pl_err *err) {
    pl_pair_state *s = w->s;
    const segment *seg = &w->seg[side];
    const size_t other = side == 0 ? pair->b : pair->a;
    size_t *members = pl_arena_array(s->arena, seg->n_values, sizeof *members);
    if (members == NULL) return pl_fail_memory(err, seg->n_values);
    for (size_t i = 1; i < seg->n_values; i++) {
        const uint32_t item = s->graph[side].values[seg->values[i]].first_item;
        if (item == PL_PAIR_NONE || s->mate[side][item] != PL_PAIR_NONE) continue;
        members[pair->n_members++] = item;
        if (is_explained(s->why[side][item])) continue;
        s->why[side][item] = NULL;
        PL_TRY(pl_pair_note(s, side, item, err, "%s '%.100s' on the other side", what,
                            s->side[1 - side]->items[other].name));
    }
    pair->members = members;
    return PL_OK;
}

static pl_status relate(walk *w, pl_pair *pair, pl_err *err) {
    pl_pair_state *s = w->s;
    const uint32_t a = s->item_value[0][pair->a], b = s->item_value[1][pair->b];
    if (a == PL_PAIR_NONE || b == PL_PAIR_NONE) return PL_OK;
    w->number++;
    find_segment(w, 0, a);
    find_segment(w, 1, b);
    const segment *x = &w->seg[0], *y = &w->seg[1];
    if (x->too_large || y->too_large) return PL_OK;
    if (x->n_ops > 1 && y->n_ops <= 1) {
        pair->relation = "n:1";
        return list_members(w, 0, pair, "fused into", err);
    }
    if (y->n_ops > 1 && x->n_ops <= 1) {
        pair->relation = "1:n";
        return list_members(w, 1, pair, "fused into", err);
    }
    if (x->n_ops <= 1) return PL_OK;
    pair->relation = "n:m"; /* the values inside are those of A */
    const bool few = x->n_ops <= FEW_OPS && y->n_ops <= FEW_OPS;
    const char *what =
        few ? "fused or computed differently before" : "part of a long unmatched section before";
    PL_TRY(list_members(w, 1, pair, what, err));
    pair->n_members = 0;
    return list_members(w, 0, pair, what, err);
}

/* Items in several pairs, without graphs. */
static void relate_shared(pl_pair_state *s) {
    for (size_t i = 0; i < s->n_pairs; i++) {
        pl_pair *p = &s->pairs[i];
        const uint32_t first_a = s->mate[0][p->a], first_b = s->mate[1][p->b];
        if (first_a != i) s->pairs[first_a].relation = p->relation = "1:n";
        if (first_b != i) s->pairs[first_b].relation = p->relation = "n:1";
    }
}

/* ---- reasons ---- */

/* A paired item with the same numbers. */
static uint32_t find_twin(const pl_pair_state *s, int side, uint32_t v, const uint32_t *paired) {
    const pl_pg_value *value = &s->graph[side].values[v];
    if (paired[value->root] != PL_PAIR_NONE) return paired[value->root];
    return paired[value->real];
}

static pl_status note_twins(pl_pair_state *s, int side, pl_err *err) {
    const pl_pair_graph *g = &s->graph[side];
    uint32_t *paired = pl_malloc(((size_t)g->n_values + 1) * sizeof *paired);
    pl_status st = PL_OK;
    if (paired == NULL) return pl_fail_memory(err, g->n_values);
    memset(paired, 0xff, ((size_t)g->n_values + 1) * sizeof *paired);
    for (uint32_t v = g->n_values; v-- > 0;) {
        const uint32_t item = g->values[v].first_item;
        if (item == PL_PAIR_NONE || s->mate[side][item] == PL_PAIR_NONE) continue;
        paired[g->values[v].root] = paired[g->values[v].real] = item;
    }
    for (uint32_t i = 0; i < s->side[side]->n_items && st == PL_OK; i++) {
        const uint32_t v = s->item_value[side][i];
        if (v == PL_PAIR_NONE || !pl_pair_is_open(s, side, i)) continue;
        const pl_pg_value *value = &g->values[v];
        const uint32_t twin = find_twin(s, side, v, paired);
        const bool is_view =
            twin != PL_PAIR_NONE && g->values[s->item_value[side][twin]].root == value->root;
        if (twin != PL_PAIR_NONE) s->why[side][i] = NULL;
        if (twin != PL_PAIR_NONE && !(is_view && s->options.keep_views)) {
            st = pl_pair_note(s, side, i, err, "%s of '%.100s', which is paired",
                              is_view ? "view" : "quantised form", s->side[side]->items[twin].name);
        } else if ((value->flags & PL_PG_SCALE) != 0) {
            st = pl_pair_note(s, side, i, err, "quantised arithmetic: a scale or zero point");
        } else if ((value->flags & PL_PG_CODES) != 0) {
            st = pl_pair_note(s, side, i, err, "quantised arithmetic: codes without a counterpart");
        }
    }
    pl_free(paired);
    return st;
}

static pl_status note_rest(pl_pair_state *s, int side, pl_err *err) {
    for (uint32_t i = 0; i < s->side[side]->n_items; i++) {
        const uint32_t v = s->item_value[side][i];
        if (!pl_pair_is_open(s, side, i)) continue;
        if (v == PL_PAIR_NONE) {
            if (s->has_graph[side])
                PL_TRY(pl_pair_note(s, side, i, err, "not in the graph of its side"));
        } else if ((s->graph[side].values[v].flags & PL_PG_FIXED) != 0) {
            PL_TRY(pl_pair_note(s, side, i, err, "a constant without a counterpart"));
        } else if (s->has_graph[1 - side]) {
            PL_TRY(pl_pair_note(s, side, i, err, "no unique match in the graph of the other side"));
        }
    }
    return PL_OK;
}

pl_status pl_pair_find_relations(pl_pair_state *s, pl_err *err) {
    walk w = { .s = s };
    pl_status st = PL_OK;
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        w.stamp[side] = pl_calloc((size_t)s->graph[side].n_values + 1, sizeof **w.stamp);
        w.seg[side].values = pl_malloc(SEGMENT_MAX * sizeof(uint32_t));
        if (w.stamp[side] == NULL || w.seg[side].values == NULL)
            st = pl_fail_memory(err, s->graph[side].n_values);
    }
    for (int side = 0; side < PL_PAIR_SIDES && st == PL_OK; side++)
        st = note_twins(s, side, err);
    const bool graphs = s->has_graph[0] && s->has_graph[1];
    for (size_t i = 0; i < s->n_pairs && graphs && st == PL_OK; i++)
        st = relate(&w, &s->pairs[i], err);
    if (st == PL_OK) relate_shared(s);
    for (int side = 0; side < PL_PAIR_SIDES && st == PL_OK; side++)
        st = note_rest(s, side, err);
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        pl_free(w.stamp[side]);
        pl_free(w.seg[side].values);
    }
    return st;
}
