/* Private to src/blame: shared by the parts of blame. */
#ifndef PL_BLAME_INT_H
#define PL_BLAME_INT_H

#include "blame/blame.h"
#include "blame/kind.h"
#include "blame/segment.h"
#include "interp/dont_care.h"
#include "interp/replay.h"

typedef struct pl_flagged { /* a culprit value, in order */
    const pl_value *value;
    pl_segment segment;
    pl_tensor *shift; /* a - d as f64: what the fault added; NULL when unknown */
} pl_flagged;

typedef struct pl_blaming {
    pl_model *model;
    pl_datum *const *in;
    const pl_run_data *a, *b;
    const pl_blame_options *options;
    pl_blame *out;
    pl_replay *gold;  /* fp64 from the inputs */
    pl_replay *local; /* fp64 with bounds, on the run's own values */
    pl_dont_care dont_care;
    pl_segmenter segmenter;
    const struct pl_op_def **repeated; /* rows of which a large node was repeated */
    size_t n_repeated, repeated_capacity;
    bool *missing; /* by value id: not replayed, and not recorded */
    bool *blamed;  /* by node index: in the segment of a flagged value */
    pl_flagged *flagged;
    size_t n_flagged, flagged_capacity;
} pl_blaming;

/* Judges a value beyond its bound again, at the segment's own precision and with excuses for low
 * precision. Lowers *q; excuse names what helped ("" = nothing). */
extern const char pl_excuse_otherwise[]; /* ONNX is ambiguous here */
pl_status pl_excuse_try(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                        const pl_tensor *a, pl_local_error *e, double *q_ref, const char **excuse,
                        pl_err *err);
/* For a shape that depends on data (boxes that NonMaxSuppression keeps): *e becomes the error
 * against a run in the model's own precision, if that has the same shape and elements. */
pl_status pl_excuse_shape(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                          const pl_tensor *a, pl_local_error *e, const char **excuse, pl_err *err);
/* excuse_bias.c */
/* A node with a float bias between dequantised inputs, which a runtime may quantise. */
bool pl_bias_is_quantised(const pl_node *node);
/* Rounds that bias as a runtime does. Call it when all inputs of the node are available. */
pl_status pl_bias_round(pl_blaming *j, pl_replay *r, const pl_node *node, pl_err *err);
/* The node whose bias was rounded with a hidden scale of a segment that is to blame; or NULL. */
const pl_node *pl_bias_misled(const pl_blaming *j, const pl_segment *segment);
/* Replays the segment with that bias fitted to `a`, the run's result. */
pl_status pl_bias_replay_fitted(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                                const pl_tensor *a, pl_replay **out, pl_err *err);
/* Puts the run's values at the edge of the segment; blame's replay may have freed some. */
pl_status pl_blaming_put_edges(pl_blaming *j, pl_replay *r, const pl_segment *segment, pl_err *err);
/* For an integer output of an operator that selects elements: are the selected elements as good as
 * those of the replay? */
pl_status pl_picks_agree(pl_blaming *j, const pl_value *value, const pl_tensor *a, bool *agree,
                         pl_err *err);
/* Sorts t if the elements of the value may come in any order (TopK with sorted=0); *out stays NULL
 * for others. */
pl_status pl_picks_sort(const pl_value *value, const pl_tensor *t, pl_tensor **out, pl_err *err);
/* Refines the result of pl_kind_of with facts about the node: swapped inputs, sums in low
 * precision, the interval of inputs that go wrong. */
pl_status pl_kind_of_node(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                          const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind, pl_err *err);
/* kind_saturated.c: detects products whose pairs saturated at 16 bits; otherwise the kind stays. */
extern const char pl_kind_saturated_name[];
pl_status pl_kind_saturated(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                            const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind, pl_err *err);
/* kind_rows.c: detects dynamic quantisation with a scale for each row; otherwise the kind stays. */
pl_status pl_kind_rows(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                       const pl_tensor *a, pl_kind_fit *kind, pl_err *err);
/* kind_hardware.c: detects bf16 or TF32 products, flushed denormals and fused multiply-add;
 * otherwise leaves the kind as it is. */
pl_status pl_kind_hardware(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                           const pl_tensor *a, pl_kind_fit *kind, pl_err *err);
/* kind_attention.c: detects a wrong scale, mask, window, rotary row, cache position or order of
 * heads; otherwise leaves the kind as it is. */
pl_status pl_kind_attention(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                            const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind, pl_err *err);
/* A culprit, with what its fault added; a and d may be NULL. */
/* The verdict by the facts of the replay. */
void pl_judgement_decide(pl_judgement *v);
pl_status pl_blaming_flag(pl_blaming *j, const pl_value *value, const pl_segment *segment,
                          const pl_tensor *a, const pl_tensor *d, pl_err *err);
/* blame_shape.c: a recorded value with the right elements in other dims is converted to the model's
 * dims (replaces *a). And a value that is right for inputs of another shape than the model's is not
 * its node's fault: sets *done and the verdict. */
pl_status pl_blaming_view(pl_blaming *j, const pl_value *value, pl_datum **a, const pl_tensor *d,
                          pl_judgement *v, pl_err *err);
pl_status pl_blaming_shape_did_it(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                                  const pl_tensor *a, pl_judgement *v, bool *done, pl_err *err);
/* Groups culprit values and ranks the groups by effect. */
pl_status pl_blame_group(pl_blaming *j, pl_err *err);
/* A recorded value in the shape of the model; a new reference. */
pl_status pl_blaming_get(const pl_blaming *j, const pl_value *value, pl_datum **out, pl_err *err);
pl_dtype pl_blaming_native(const pl_blaming *j, const pl_value *value, const pl_tensor *held);

#endif
