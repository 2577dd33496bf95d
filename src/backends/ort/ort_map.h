/* What a value of the graph that ONNX Runtime executes is in the model as it was given.
 *
 * Optimising renames values and changes how they lie in memory. The map goes by what ORT 1.12 to
 * 1.30 do (blame.md 1.1): names that survive; InsertedCast_V and InsertedPrecisionFreeCast_V, which
 * carry a float16 value V in float32; NCHWc values `reorder_token_N`, whose node is called
 * `V_nchwc`; values moved by the transpose optimiser, which are called after the node; and nodes
 * without any such name, by their operator and their inputs. int8 codes that ORT moves up into
 * uint8 are moved back. */
#ifndef PL_ORT_MAP_H
#define PL_ORT_MAP_H

#include "graph/graph.h"

#define PL_ORT_NCHWC "com.microsoft.nchwc" /* domain of nodes on blocked values */
#define PL_ORT_NHWC "com.ms.internal.nhwc" /* domain of nodes with channels last */

typedef enum pl_ort_layout { PL_ORT_PLAIN, PL_ORT_BLOCKED, PL_ORT_PERMUTED } pl_ort_layout;

/* A value to be shown. */
typedef struct pl_ort_watch {
    const char *name;       /* in the executed graph */
    const char *output;     /* of the session that shows it; NULL = name */
    const char *stands_for; /* value of the model; NULL = it is none of them */
    pl_dtype dtype;         /* that the model's value has; PL_UNDEFINED = not known */
    size_t n_bytes;         /* that it should have; 0 = not known */
    bool optional;          /* declared optional(...) */
    pl_ort_layout layout;
    int64_t channels;          /* BLOCKED: without the padding */
    int n_stacked;             /* leading dims of 1 that Loop and Scan have added */
    int rank;                  /* PERMUTED */
    uint8_t perm[PL_RANK_MAX]; /* PERMUTED: transposing by it gives the model's value */
} pl_ort_watch;

typedef struct pl_ort_map pl_ort_map;

/* A value of the model, shown as it is. */
pl_ort_watch pl_ort_watch_of(const pl_value *value);

/* Both models are borrowed. The original's types are inferred. */
pl_status pl_ort_map_new(pl_model *original, const pl_model *executed, pl_ort_map **out,
                         pl_err *err);
void pl_ort_map_free(pl_ort_map *map); /* NULL is fine */
/* Of a value of the executed graph or of one of its bodies. The strings live in the models. A value
 * of a body stands for one of the same name when no other value of the model has it. */
pl_ort_watch pl_ort_map_value(const pl_ort_map *map, const pl_value *value);
/* Of what a node of this type reads whose output an executed value stands for: a value between two
 * nodes that ORT computes as one. stands_for = NULL when there is none. The name is the caller's.
 */
pl_ort_watch pl_ort_map_before(const pl_ort_map *map, const pl_value *value, const char *op);
/* Of the watched values that carry the same value of the model all but one get stands_for = NULL:
 * the one that has its name stays, else the first. */
pl_status pl_ort_map_unique(pl_ort_watch *watched, size_t n, pl_err *err);

/* The tensor as the model has it. *mapped is false, and the tensor is as ORT has it, when it cannot
 * be the value that it should stand for: the shape is not that of such a layout, or one is float
 * and the other is not. */
pl_status pl_ort_watch_convert(const pl_ort_watch *watch, const pl_tensor *t, pl_tensor **out,
                               bool *mapped, pl_err *err);

#endif
