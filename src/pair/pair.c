/* Pairing: runs the layers in order, holds what they share, and builds the result. */
#include "pair/pair.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "pair/pair_int.h"

/* clang-format off */
static const struct {
    pl_pair_method method;
    const char *name;
    pl_status (*run)(pl_pair_state *s, pl_err *err);
} layers[] = {
    { PL_PAIR_MAP,       "map",       pl_pair_by_map },
    { PL_PAIR_NAME,      "name",      pl_pair_by_name },
    { PL_PAIR_DEBUG,     "debug",     pl_pair_by_debug },
    { PL_PAIR_SUFFIX,    "suffix",    pl_pair_by_suffix },
    { PL_PAIR_SPELLING,  "spelling",  pl_pair_by_spelling },
    { PL_PAIR_ROLE,      "role",      pl_pair_by_role },
    { PL_PAIR_STRUCTURE, "structure", pl_pair_by_structure },
    { PL_PAIR_VALUE,     "value",     pl_pair_by_value },
    { PL_PAIR_STRUCTURE, "structure", pl_pair_by_structure }, /* uses anchors from values */
    { PL_PAIR_ORDER,     "order",     pl_pair_by_order },
    { PL_PAIR_LIKELY,    "likely",    pl_pair_by_likelihood },
};
/* clang-format on */
enum { N_LAYERS = sizeof layers / sizeof *layers };

const char *pl_pair_method_name(pl_pair_method method) {
    for (size_t i = 0; i < N_LAYERS; i++) {
        if (layers[i].method == method) return layers[i].name;
    }
    return "";
}

/* ---- items ---- */

int64_t pl_pair_count(const pl_pair_item *item) {
    int64_t n;
    if (!item->has_shape || !pl_dims_product(item->rank, item->dims, &n)) return -1;
    return n;
}

bool pl_pair_same_shape(const pl_pair_item *a, const pl_pair_item *b) {
    return a->has_shape && b->has_shape && a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

bool pl_pair_fits(const pl_pair_item *a, const pl_pair_item *b) {
    if (!a->has_shape || !b->has_shape) return true;
    pl_dtype_class ca = pl_dtype_class_of(a->dtype), cb = pl_dtype_class_of(b->dtype);
    if (ca == PL_CLASS_UINT) ca = PL_CLASS_INT;
    if (cb == PL_CLASS_UINT) cb = PL_CLASS_INT;
    if (ca != cb && ca != PL_CLASS_NONE && cb != PL_CLASS_NONE) return false;
    return pl_pair_count(a) == pl_pair_count(b);
}

/* ---- adding pairs ---- */

pl_status pl_pair_note(pl_pair_state *s, int side, uint32_t item, pl_err *err, const char *format,
                       ...) {
    char text[320];
    va_list args;
    if (s->why[side][item] != NULL) return PL_OK;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->why[side][item] = pl_arena_strdup(s->arena, text);
    return s->why[side][item] == NULL ? pl_fail_memory(err, sizeof text) : PL_OK;
}

static pl_status push_pair(pl_pair_state *s, const pl_pair *pair, pl_err *err) {
    if (!PL_ARRAY_ROOM(s->pairs, s->n_pairs, &s->pairs_capacity))
        return pl_fail_memory(err, s->n_pairs);
    s->pairs[s->n_pairs++] = *pair;
    return PL_OK;
}

static bool have(const pl_pair_state *s, uint32_t a, uint32_t b) {
    const uint32_t pa = s->mate[0][a], pb = s->mate[1][b];
    return (pa != PL_PAIR_NONE && s->pairs[pa].b == b) ||
           (pb != PL_PAIR_NONE && s->pairs[pb].a == a);
}

pl_status pl_pair_add(pl_pair_state *s, uint32_t a, uint32_t b, pl_pair_method method,
                      double confidence, const char *how, pl_err *err) {
    if (s->barred[0][a] || s->barred[1][b] || have(s, a, b)) return PL_OK;
    const char *name = pl_pair_method_name(method);
    if (confidence < s->options.min_confidence) {
        static const char format[] = "'%.100s' by %s, but with confidence %.2f, below %.2f";
        PL_TRY(pl_pair_note(s, 0, a, err, format, s->side[1]->items[b].name, name, confidence,
                            s->options.min_confidence));
        return pl_pair_note(s, 1, b, err, format, s->side[0]->items[a].name, name, confidence,
                            s->options.min_confidence);
    }
    const pl_pair pair = { .a = a,
                           .b = b,
                           .method = name,
                           .how = how,
                           .confidence = confidence,
                           .relation = "1:1",
                           .layout = "" };
    const uint32_t at = (uint32_t)s->n_pairs;
    PL_TRY(push_pair(s, &pair, err));
    if (s->mate[0][a] == PL_PAIR_NONE) s->mate[0][a] = at;
    if (s->mate[1][b] == PL_PAIR_NONE) s->mate[1][b] = at;
    const uint32_t va = s->item_value[0][a], vb = s->item_value[1][b];
    if (va != PL_PAIR_NONE && vb != PL_PAIR_NONE && s->value_mate[0][va] == PL_PAIR_NONE &&
        s->value_mate[1][vb] == PL_PAIR_NONE) {
        s->value_mate[0][va] = vb;
        s->value_mate[1][vb] = va;
    }
    return PL_OK;
}

pl_status pl_pair_add_values(pl_pair_state *s, uint32_t a, uint32_t b, pl_pair_method method,
                             double confidence, const char *how, pl_err *err) {
    if (s->value_mate[0][a] != PL_PAIR_NONE || s->value_mate[1][b] != PL_PAIR_NONE) return PL_OK;
    uint32_t ia = s->graph[0].values[a].first_item, ib = s->graph[1].values[b].first_item;
    if (ia != PL_PAIR_NONE && ib != PL_PAIR_NONE) {
        const pl_pair_item *x = &s->side[0]->items[ia], *y = &s->side[1]->items[ib];
        if (!pl_pair_fits(x, y)) {
            PL_TRY(pl_pair_note(s, 0, ia, err, "'%.100s' by %s, but its type or size differs",
                                y->name, pl_pair_method_name(method)));
            return pl_pair_note(s, 1, ib, err, "'%.100s' by %s, but its type or size differs",
                                x->name, pl_pair_method_name(method));
        }
    }
    if (confidence >= s->options.min_confidence) {
        s->value_mate[0][a] = b;
        s->value_mate[1][b] = a;
    }
    while (ia != PL_PAIR_NONE && ib != PL_PAIR_NONE) {
        if (pl_pair_is_open(s, 0, ia) && pl_pair_is_open(s, 1, ib))
            PL_TRY(pl_pair_add(s, ia, ib, method, confidence, how, err));
        ia = s->next_item[0][ia];
        ib = s->next_item[1][ib];
    }
    return PL_OK;
}

/* ---- keys ---- */

pl_status pl_pair_keys_init(pl_pair_keys *keys, size_t n, pl_err *err) {
    keys->n_slots = 64;
    while (keys->n_slots < 2 * n)
        keys->n_slots *= 2;
    keys->slots = pl_calloc(keys->n_slots, sizeof *keys->slots);
    return keys->slots == NULL ? pl_fail_memory(err, keys->n_slots * sizeof *keys->slots) : PL_OK;
}

void pl_pair_keys_release(pl_pair_keys *keys) {
    pl_free(keys->slots);
    keys->slots = NULL;
}

static struct pl_pair_key *find_slot(const pl_pair_keys *keys, uint64_t key) {
    size_t i = (size_t)pl_pair_mix(key, 0) & (keys->n_slots - 1);
    while (keys->slots[i].n[0] + keys->slots[i].n[1] > 0 && keys->slots[i].key != key)
        i = (i + 1) & (keys->n_slots - 1);
    return &keys->slots[i];
}

void pl_pair_keys_add(pl_pair_keys *keys, int side, uint64_t key, uint32_t index) {
    struct pl_pair_key *slot = find_slot(keys, key);
    slot->key = key;
    slot->n[side]++;
    slot->last[side] = index;
}

const struct pl_pair_key *pl_pair_keys_find(const pl_pair_keys *keys, uint64_t key) {
    return find_slot(keys, key);
}

/* ---- state ---- */

static bool alloc_ids(uint32_t **out, size_t n) {
    *out = pl_malloc((n + 1) * sizeof **out);
    if (*out != NULL) memset(*out, 0xff, (n + 1) * sizeof **out);
    return *out != NULL;
}

static pl_status place_items(pl_pair_state *s, int side, pl_err *err) {
    const pl_pair_side *ps = s->side[side];
    pl_pair_graph *g = &s->graph[side];
    for (size_t i = ps->n_items; i-- > 0;) { /* backwards, so that the lists are in order */
        const pl_pair_item *item = &ps->items[i];
        uint32_t v = PL_PAIR_NONE;
        if (pl_strmap_has(&s->names[side], item->name))
            return pl_fail(err, PL_E_INVALID, "two values on one side are named '%s'", item->name);
        if (pl_strmap_put(&s->names[side], item->name, (void *)(i + 1)) != 0)
            return pl_fail_memory(err, 1);
        if (item->in_graph != NULL && item->in_graph->id < g->n_by_id) {
            v = g->by_id[item->in_graph->id];
        } else if (s->has_graph[side] && !item->unmapped) {
            v = pl_pair_graph_find(g, item->graph, *item->value == '\0' ? item->name : item->value);
        }
        s->item_value[side][i] = v;
        if (v == PL_PAIR_NONE) continue;
        s->next_item[side][i] = g->values[v].first_item;
        g->values[v].first_item = (uint32_t)i;
    }
    return PL_OK;
}

static pl_status side_init(pl_pair_state *s, int side, const pl_pair_side *ps, pl_err *err) {
    const size_t n = ps->n_items;
    s->side[side] = ps;
    if (n >= PL_PAIR_NONE / 2) return pl_fail(err, PL_E_LIMIT, "too many values to pair (%zu)", n);
    s->has_graph[side] = ps->model != NULL || ps->graph_json != NULL;
    PL_TRY(pl_pair_graph_init(&s->graph[side], ps, err));
    s->why[side] = pl_calloc(n + 1, sizeof **s->why);
    s->barred[side] = pl_calloc(n + 1, sizeof **s->barred);
    if (s->why[side] == NULL || s->barred[side] == NULL || !alloc_ids(&s->item_value[side], n) ||
        !alloc_ids(&s->next_item[side], n) || !alloc_ids(&s->mate[side], n) ||
        !alloc_ids(&s->value_mate[side], s->graph[side].n_values))
        return pl_fail_memory(err, n);
    return place_items(s, side, err);
}

static void state_release(pl_pair_state *s) {
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        pl_pair_graph_release(&s->graph[side]);
        pl_strmap_release(&s->names[side]);
        pl_free(s->item_value[side]);
        pl_free(s->next_item[side]);
        pl_free(s->mate[side]);
        pl_free(s->value_mate[side]);
        pl_free(s->barred[side]);
        pl_free(s->why[side]);
    }
    pl_free(s->pairs);
}

/* ---- the result ---- */

static int by_item(const void *x, const void *y) {
    const pl_pair *p = x, *q = y;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    return p->b < q->b ? -1 : p->b > q->b;
}

static bool is_expected(const pl_pair_state *s, int side, uint32_t item) {
    const char *why = s->why[side][item];
    const uint32_t v = s->item_value[side][item];
    if (v != PL_PAIR_NONE && (s->graph[side].values[v].flags & PL_PG_FIXED) != 0) return true;
    return strncmp(why, "fused ", 6) == 0 || strncmp(why, "view ", 5) == 0 ||
           strncmp(why, "quantised ", 10) == 0 || strncmp(why, "the map ", 8) == 0;
}

static pl_status list_unpaired(pl_pair_state *s, int side, pl_unpaired **out, size_t *n_out,
                               pl_err *err) {
    const size_t n = s->side[side]->n_items;
    size_t n_open = 0;
    for (size_t i = 0; i < n; i++)
        n_open += s->mate[side][i] == PL_PAIR_NONE;
    *out = pl_arena_array(s->arena, n_open + 1, sizeof **out);
    if (*out == NULL) return pl_fail_memory(err, n_open);
    for (uint32_t i = 0; i < n; i++) {
        if (s->mate[side][i] != PL_PAIR_NONE) continue;
        PL_TRY(pl_pair_note(s, side, i, err, "no match on the other side"));
        (*out)[(*n_out)++] = (pl_unpaired){ i, s->why[side][i], is_expected(s, side, i) };
    }
    return PL_OK;
}

static pl_status finish(pl_pair_state *s, pl_pairing *out, pl_err *err) {
    PL_TRY(list_unpaired(s, 0, &out->unpaired_a, &out->n_unpaired_a, err));
    PL_TRY(list_unpaired(s, 1, &out->unpaired_b, &out->n_unpaired_b, err));
    out->pairs = pl_arena_array(s->arena, s->n_pairs + 1, sizeof *out->pairs);
    if (out->pairs == NULL) return pl_fail_memory(err, s->n_pairs * sizeof *out->pairs);
    if (s->n_pairs > 0) {
        memcpy(out->pairs, s->pairs, s->n_pairs * sizeof *out->pairs);
        qsort(out->pairs, s->n_pairs, sizeof *out->pairs, by_item);
    }
    out->n_pairs = s->n_pairs;
    return PL_OK;
}

pl_status pl_pair_values(const pl_pair_side *a, const pl_pair_side *b,
                         const pl_pair_options *options, pl_pairing *out, pl_err *err) {
    static const pl_pair_options defaults = PL_PAIR_OPTIONS_INIT;
    pl_pair_state s = { .options = options == NULL ? defaults : *options };
    pl_status st = PL_OK;
    *out = (pl_pairing){ .arena = pl_arena_new() };
    if (out->arena == NULL) return pl_fail_memory(err, 1);
    s.arena = out->arena;
    s.bytes_left = s.options.read_limit;
    PL_TRY_GOTO(done, st, side_init(&s, 0, a, err));
    PL_TRY_GOTO(done, st, side_init(&s, 1, b, err));
    for (size_t i = 0; i < N_LAYERS; i++) {
        if ((s.options.methods & layers[i].method) != 0)
            PL_TRY_GOTO(done, st, layers[i].run(&s, err));
    }
    PL_TRY_GOTO(done, st, pl_pair_find_layouts(&s, err));
    PL_TRY_GOTO(done, st, pl_pair_find_relations(&s, err));
    st = finish(&s, out, err);
done:
    state_release(&s);
    if (st != PL_OK) pl_pairing_release(out);
    return st;
}

void pl_pairing_release(pl_pairing *pairing) {
    pl_arena_free(pairing->arena);
    *pairing = (pl_pairing){ 0 };
}
