/* Shared by the layers of pairing: the pairs so far, and building the graphs that they walk. */
#ifndef PL_PAIR_INT_H
#define PL_PAIR_INT_H

#include "pair/pair_graph.h"

/* For pair_graph_model.c and pair_graph_json.c. */
pl_status pl_pair_graph_from_model(pl_pair_graph *graph, const pl_model *model, pl_err *err);
pl_status pl_pair_graph_from_json(pl_pair_graph *graph, const char *json, pl_err *err);
pl_status pl_pair_graph_add_value(pl_pair_graph *graph, const char *path, const char *name,
                                  uint32_t *out, pl_err *err);
typedef struct pl_pg_new_node {
    const char *op, *domain, *module;
    int opset;
    uint64_t attrs; /* hash */
    unsigned flags;
    const uint32_t *in, *out; /* PL_PAIR_NONE where omitted */
    size_t n_own_in, n_in, n_out;
} pl_pg_new_node;
/* The operator's row, or that of one with the same name; NULL when there is none. */
const pl_op_def *pl_pair_graph_row(pl_pair_graph *graph, const char *domain, const char *op,
                                   int opset);
pl_status pl_pair_graph_add_node(pl_pair_graph *graph, const pl_pg_new_node *node, pl_err *err);
typedef struct pl_pg_const { /* a constant without its bytes */
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX];
    pl_hash128 hash;
} pl_pg_const;
uint64_t pl_pair_hash_const(const pl_pg_const *c);
void pl_pair_graph_set_const(pl_pair_graph *graph, uint32_t value, const pl_pg_const *c);

typedef struct pl_pair_state {
    const pl_pair_side *side[PL_PAIR_SIDES];
    pl_pair_options options;
    bool has_graph[PL_PAIR_SIDES]; /* else graph[] is empty */
    pl_pair_graph graph[PL_PAIR_SIDES];
    uint32_t *item_value[PL_PAIR_SIDES]; /* item -> value in the graph, or PL_PAIR_NONE */
    uint32_t *next_item[PL_PAIR_SIDES];  /* further calls of the same value */
    pl_strmap names[PL_PAIR_SIDES];      /* item name -> item + 1 */
    uint32_t *mate[PL_PAIR_SIDES];       /* item -> first pair of it, or PL_PAIR_NONE */
    uint32_t *value_mate[PL_PAIR_SIDES]; /* graph value -> graph value of the other side */
    bool *barred[PL_PAIR_SIDES];         /* the user's map says: no counterpart */
    const char **why[PL_PAIR_SIDES];     /* why it is not paired yet; NULL = not tried */
    pl_pair *pairs;                      /* heap */
    size_t n_pairs, pairs_capacity;
    bool names_lie;      /* equal names are different values, so modules may be wrong, too */
    uint64_t bytes_left; /* bytes that may still be read */
    pl_arena *arena;     /* arena of the result */
} pl_pair_state;

/* Layers: one function each. */
pl_status pl_pair_by_map(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_name(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_debug(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_suffix(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_spelling(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_role(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_likelihood(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_structure(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_value(pl_pair_state *s, pl_err *err);
pl_status pl_pair_by_order(pl_pair_state *s, pl_err *err);
/* After the layers. */
pl_status pl_pair_find_layouts(pl_pair_state *s, pl_err *err);
pl_status pl_pair_find_relations(pl_pair_state *s, pl_err *err); /* and reasons */

static inline bool pl_pair_is_open(const pl_pair_state *s, int side, uint32_t item) {
    return s->mate[side][item] == PL_PAIR_NONE && !s->barred[side][item];
}
/* Pairs two items, or notes why not when the confidence is too low. Items may be paired more than
 * once (n:1); the same two items make only one pair. */
pl_status pl_pair_add(pl_pair_state *s, uint32_t a, uint32_t b, pl_pair_method method,
                      double confidence, const char *how, pl_err *err);
/* Pairs the items of two graph values, call by call. Without items they are only an anchor. */
pl_status pl_pair_add_values(pl_pair_state *s, uint32_t a, uint32_t b, pl_pair_method method,
                             double confidence, const char *how, pl_err *err);
/* Notes a reason, unless there is one. Copied into the arena. */
pl_status pl_pair_note(pl_pair_state *s, int side, uint32_t item, pl_err *err, const char *format,
                       ...) __attribute__((format(printf, 5, 6)));

/* False when the types show that it cannot be the same value: a different class of numbers or
 * number of elements. True when they are unknown. */
bool pl_pair_fits(const pl_pair_item *a, const pl_pair_item *b);
bool pl_pair_same_shape(const pl_pair_item *a, const pl_pair_item *b); /* both known and equal */
/* rms(a - b) / rms(b) of the best layout, when both tensors can be read. */
pl_status pl_pair_measure(pl_pair_state *s, uint32_t a, uint32_t b, double *error, bool *known,
                          pl_err *err);
int64_t pl_pair_count(const pl_pair_item *item); /* elements; -1 = unknown */

static inline uint64_t pl_pair_mix(uint64_t h, uint64_t x) { /* order matters */
    h ^= x + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

/* Keys that both sides have: for each key, how many items have it and the last one. */
typedef struct pl_pair_keys {
    struct pl_pair_key {
        uint64_t key;
        uint32_t n[PL_PAIR_SIDES], last[PL_PAIR_SIDES];
    } * slots;
    size_t n_slots; /* power of two */
} pl_pair_keys;
pl_status pl_pair_keys_init(pl_pair_keys *keys, size_t n, pl_err *err); /* for n entries at most */
void pl_pair_keys_release(pl_pair_keys *keys);
void pl_pair_keys_add(pl_pair_keys *keys, int side, uint64_t key, uint32_t index);
const struct pl_pair_key *pl_pair_keys_find(const pl_pair_keys *keys, uint64_t key);

#endif
