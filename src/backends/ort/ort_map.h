/* Maps values of the graph that ONNX Runtime executes to values of the original model. Optimising
 * renames values and changes their memory layout. The map uses what ORT 1.12 to 1.30 do (blame.md
 * 1.1): names that survive; InsertedCast_V and InsertedPrecisionFreeCast_V, which carry a float16
 * value V in float32; NCHWc values `reorder_token_N`, whose node is called `V_nchwc`; values moved
 * by the transpose optimiser, which are named after the node; and, for nodes without such a name,
 * their operator and inputs. int8 codes that ORT shifted to uint8 are shifted back. */
#ifndef PL_ORT_MAP_H
#define PL_ORT_MAP_H

#include "graph/graph.h"

#define PL_ORT_NCHWC "com.microsoft.nchwc" /* domain of nodes on blocked values */
#define PL_ORT_NHWC "com.ms.internal.nhwc" /* domain of nodes with channels last */

typedef enum pl_ort_layout { PL_ORT_PLAIN, PL_ORT_BLOCKED, PL_ORT_PERMUTED } pl_ort_layout;

/* A value to record. */
typedef struct pl_ort_watch {
    const char *name;       /* in the executed graph */
    const char *output;     /* output of the session that shows it; NULL = name */
    const char *stands_for; /* value of the model; NULL = none */
    pl_dtype dtype;         /* of the model's value; PL_UNDEFINED = unknown */
    size_t n_bytes;         /* expected size; 0 = unknown */
    bool optional;          /* declared optional(...) */
    pl_ort_layout layout;
    int64_t channels;          /* BLOCKED: without padding */
    int n_stacked;             /* leading dims of 1 added by Loop and Scan */
    int rank;                  /* PERMUTED */
    uint8_t perm[PL_RANK_MAX]; /* PERMUTED: transposing by it gives the model's value */
} pl_ort_watch;

typedef struct pl_ort_map pl_ort_map;

/* Watches a value of the model itself, without a map. */
pl_ort_watch pl_ort_watch_of(const pl_value *value);

/* Watches all values that nodes of the main graph compute, in order; without a map each stands for
 * itself. Skips inlined functions, whose values ORT names differently. */
pl_status pl_ort_watch_list(const pl_model *model, const pl_ort_map *map, pl_ort_watch **out,
                            size_t *n_out, pl_err *err);

/* Both models are borrowed. The original's types are inferred. */
pl_status pl_ort_map_new(pl_model *original, const pl_model *executed, pl_ort_map **out,
                         pl_err *err);
void pl_ort_map_free(pl_ort_map *map); /* NULL is fine */
/* The entry for a value of the executed graph or of one of its bodies. The models own the strings.
 * A value of a body maps to the one of the same name if that name is unique in the model. */
pl_ort_watch pl_ort_map_value(const pl_ort_map *map, const pl_value *value);
/* The entry for the input of a node `op` whose output `value` stands for: a value between two nodes
 * that ORT fused. stands_for = NULL if there is none. The caller sets the name. */
pl_ort_watch pl_ort_map_before(const pl_ort_map *map, const pl_value *value, const char *op);
/* If several entries stand for the same value, keeps the one with its name, else the first; the
 * others get stands_for = NULL. */
pl_status pl_ort_map_unique(pl_ort_watch *watched, size_t n, pl_err *err);

/* Is the value in another layout than the model's? */
bool pl_ort_watch_moves(const pl_ort_watch *watch);
/* Converts a tensor to the model's layout. If it cannot be the value it stands for (the shape does
 * not match the layout, or only one of them is float), *mapped is false and the tensor is
 * unchanged. */
pl_status pl_ort_watch_convert(const pl_ort_watch *watch, const pl_tensor *t, pl_tensor **out,
                               bool *mapped, pl_err *err);

#endif
