/* Pairing: which value of run A is which value of run B, how that is known, and how sure it is.
 *
 * Layers in order (pair.c has the table): the user's map, names, debug information, quantiser
 * suffixes, structure without names, values, order. A layer never undoes pairs of an earlier one,
 * and uses them as anchors. Wrong pairs are worse than none: values below the minimal confidence
 * stay unpaired, with the reason. Linear or n log n in the number of values. Both sides are
 * borrowed and must outlive the pairing only where it says so. */
#ifndef PL_PAIR_H
#define PL_PAIR_H

#include "base/buf.h"
#include "base/hash.h"
#include "graph/graph.h"
#include "store/recording.h"

/* One value of a side. Strings are never NULL: "" is unknown. */
typedef struct pl_pair_item {
    const char *name;              /* unique on this side: the key of a recording */
    const char *value;             /* its name in the side's graph; "" = `name` */
    const char *graph;             /* body that contains it, "LOOP_OUTPUT/body"; "" = main graph */
    int64_t call;                  /* 0, 1, … where a body or a module runs several times */
    const char *const *stands_for; /* names on the other side (or in MODEL) that it carries */
    size_t n_stands_for;
    const char *op, *module, *source; /* source: "file:line" */
    bool unmapped; /* its creator says that its name is not one of the model (PyTorch) */
    bool has_shape;
    pl_dtype dtype; /* PL_UNDEFINED = unknown */
    int rank;       /* the rest when has_shape */
    int64_t dims[PL_RANK_MAX];
    bool has_hash;
    pl_hash128 hash; /* of the dense bytes, as store/blob.h defines them */
    bool has_stats;
    pl_stats stats;
    bool has_data;            /* the side's `read` returns its tensor */
    unsigned flags;           /* PL_RECORD_INPUT, PL_RECORD_OUTPUT */
    const pl_value *in_graph; /* its value in side->model, or NULL: then looked up by name */
} pl_pair_item;

/* Items are in the order of the run where that is known. One form of the graph is enough: the
 * model, or the JSON that a recording carries (docs/formats/recording.md); with neither, layers
 * that need a graph do nothing. */
typedef struct pl_pair_side {
    const pl_pair_item *items;
    size_t n_items;
    const pl_model *model;  /* or NULL */
    const char *graph_json; /* or NULL */
    /* A tensor on demand, for the layers that look at values; NULL = none available. */
    pl_status (*read)(void *ctx, size_t item, pl_tensor **out, pl_err *err);
    void *ctx;
} pl_pair_side;

typedef enum pl_pair_method { /* bits of pl_pair_options.methods */
                              PL_PAIR_MAP = 1 << 0,
                              PL_PAIR_NAME = 1 << 1,
                              PL_PAIR_DEBUG = 1 << 2,
                              PL_PAIR_SUFFIX = 1 << 3,
                              PL_PAIR_STRUCTURE = 1 << 4,
                              PL_PAIR_VALUE = 1 << 5,
                              PL_PAIR_ORDER = 1 << 6,
                              PL_PAIR_SPELLING = 1 << 7,
                              PL_PAIR_LIKELY = 1 << 8,
                              PL_PAIR_ROLE = 1 << 9,
                              PL_PAIR_ALL = (1 << 10) - 1
} pl_pair_method;

typedef struct pl_pair {
    size_t a, b;          /* items */
    const char *method;   /* "map", "name", "debug", "suffix", "structure", "value", "order" */
    const char *how;      /* the same in a few words for a person; "" */
    double confidence;    /* 0 to 1 */
    const char *relation; /* "1:1"; "n:1": b does the work of several ops of A (or several values of
                             A are this one of B); "1:n" the other way round; "n:m": both sides need
                             several ops from the pairs above to this one, and not the same */
    const char *layout;   /* "" = as they are; else what makes them comparable (layout.h) */
    /* Values that were fused into this pair, by item: of A when "n:1" and "n:m", of B when "1:n".
     */
    const size_t *members;
    size_t n_members;
} pl_pair;

typedef struct pl_unpaired {
    size_t item;
    const char *reason; /* "fused into 'y'", "2 candidates: …", "confidence 0.4 below 0.5" */
    bool expected;      /* folded, fused, a view or a constant: harmless */
} pl_unpaired;

typedef struct pl_pairing {
    pl_pair *pairs; /* in the order of A's items */
    size_t n_pairs;
    pl_unpaired *unpaired_a, *unpaired_b; /* in order */
    size_t n_unpaired_a, n_unpaired_b;
    pl_arena *arena; /* holds everything including strings; nothing points into the sides */
} pl_pairing;

/* ---- the user's map (docs/formats/map.md) ---- */
typedef struct pl_pair_map_row {
    const char *a, *b; /* names of items; one is NULL: the other stays unpaired */
    const char *layout;
} pl_pair_map_row;
/* Values of several ranks that form one: names with {dim} instead of the rank. */
typedef struct pl_pair_shards {
    const char *a, *b, *rule;
} pl_pair_shards;
typedef struct pl_pair_map {
    pl_pair_map_row *rows;
    size_t n_rows, rows_capacity;
    pl_pair_shards *shards;
    size_t n_shards;
    pl_arena *arena;
} pl_pair_map;

pl_status pl_pair_map_open(const char *path, pl_pair_map *out, pl_err *err);
/* `name` is used in messages. */
pl_status pl_pair_map_read(const char *text, size_t n, const char *name, pl_pair_map *out,
                           pl_err *err);
pl_status pl_pair_map_new(pl_pair_map *out, pl_err *err); /* without rows */
/* Appends a row: this value of a side (0 is A) has no counterpart. The name is copied. */
pl_status pl_pair_map_bar(pl_pair_map *map, int side, const char *name, pl_err *err);
void pl_pair_map_release(pl_pair_map *map);
/* Adds rows for the shards of one side (0 is A). Its ranks are looked up in the recording, which
 * gets records for sums, and on side B for everything that is joined. */
pl_status pl_pair_map_expand(pl_pair_map *map, int side, pl_recording *recording, pl_err *err);
/* Prints pairs, and unpaired values as comments; pl_pair_map_read reads it back. */
pl_status pl_pair_map_print(const pl_pairing *pairing, const pl_pair_side *a, const pl_pair_side *b,
                            pl_buf *out, pl_err *err);

/* ---- pairing ---- */
typedef struct pl_pair_options { /* NULL or PL_PAIR_OPTIONS_INIT: the defaults */
    const pl_pair_map *map;      /* or NULL */
    double min_confidence;
    bool keep_views;     /* view-like ops (PL_OP_VIEW) are values like others */
    unsigned methods;    /* pl_pair_method */
    uint64_t read_limit; /* bytes of tensors that the value layers may read; 0 = none */
    bool strict;         /* no likely pairs */
} pl_pair_options;
#define PL_PAIR_OPTIONS_INIT                                                                       \
    { NULL, 0.5, false, PL_PAIR_ALL, UINT64_C(1) << 32, false }

/* A name in the map that no side has is PL_E_NOT_FOUND; nothing paired is not a failure. */
pl_status pl_pair_values(const pl_pair_side *a, const pl_pair_side *b,
                         const pl_pair_options *options, pl_pairing *out, pl_err *err);
void pl_pairing_release(pl_pairing *pairing);
const char *pl_pair_method_name(pl_pair_method method);

/* ---- sides ---- */
/* Items of all records (not containers: their items are records). Reads through the recording,
 * which must outlive the side, as must the arena. `model` may be NULL. */
pl_status pl_pair_side_of_recording(const pl_recording *recording, const pl_model *model,
                                    pl_arena *arena, pl_pair_side *out, pl_err *err);
/* Inputs and every output of a node, bodies included; no tensors. */
pl_status pl_pair_side_of_model(const pl_model *model, pl_arena *arena, pl_pair_side *out,
                                pl_err *err);

/* ---- roles (pair_roles.def) ---- */
typedef struct pl_pair_place { /* of a part of a decoder */
    size_t role;
    int64_t layer; /* -1 = outside the layers */
    bool biased;   /* a product with its bias added */
} pl_pair_place;
/* By the words of a name; false when it has no role. */
bool pl_pair_place_of(const char *name, pl_pair_place *out);
bool pl_pair_place_is(const pl_pair_place *place, const char *role);

#endif
