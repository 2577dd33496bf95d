/* Inside src/compare: what the parts of blame share. */
#ifndef PL_BLAME_INT_H
#define PL_BLAME_INT_H

#include "blame/blame.h"
#include "blame/kind.h"
#include "blame/segment.h"
#include "interp/replay.h"

typedef struct pl_flagged { /* a culprit value, in order */
    const pl_value *value;
    pl_segment segment;
    pl_tensor *shift; /* a - d as f64: what the fault added; NULL when it cannot be said */
} pl_flagged;

typedef struct pl_blaming {
    pl_model *model;
    pl_datum *const *in;
    const pl_run_data *a, *b;
    const pl_blame_options *options;
    pl_blame *out;
    pl_replay *gold;  /* fp64 from the inputs */
    pl_replay *local; /* fp64 with bounds, on the run's own values */
    pl_segmenter segmenter;
    const struct pl_op_def **repeated; /* rows of which a large node was repeated */
    size_t n_repeated, repeated_capacity;
    bool *missing; /* by value id: not replayed, and not recorded */
    pl_flagged *flagged;
    size_t n_flagged, flagged_capacity;
} pl_blaming;

/* One more look at a value that is beyond its bound, at the segment's own precision and with what
 * low precision may excuse. *q is lowered; excuse names what helped ("" = nothing). */
extern const char pl_excuse_otherwise[]; /* ONNX leaves it open */
pl_status pl_excuse_try(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                        const pl_tensor *a, pl_local_error *e, double *q_ref, const char **excuse,
                        pl_err *err);
/* A shape that follows from data (boxes that NonMaxSuppression keeps): *e becomes the error against
 * the model's own precision where that has the same shape and elements. */
pl_status pl_excuse_shape(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                          const pl_tensor *a, pl_local_error *e, const char **excuse, pl_err *err);
/* What the run had at the edge of the segment; blame's replay has freed some of it. */
pl_status pl_blaming_put_edges(pl_blaming *j, pl_replay *r, const pl_segment *segment, pl_err *err);
/* An integer output of an operator that picks: are the elements it picked as good as those that the
 * replay picked? */
pl_status pl_picks_agree(pl_blaming *j, const pl_value *value, const pl_tensor *a, bool *agree,
                         pl_err *err);
/* t of a value whose elements may come in any order (TopK with sorted=0), put in order; *out stays
 * NULL for others. */
pl_status pl_picks_sort(const pl_value *value, const pl_tensor *t, pl_tensor **out, pl_err *err);
/* Refines what pl_kind_of found with what the node did: swapped inputs, sums in low precision, the
 * interval of inputs that go wrong. */
pl_status pl_kind_of_node(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                          const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind, pl_err *err);
/* kind_saturated.c: names products whose pairs were clipped at 16 bits; the kind stays else. */
extern const char pl_kind_saturated_name[];
pl_status pl_kind_saturated(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                            const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind, pl_err *err);
/* A culprit, with what its fault added; a and d may be NULL. */
/* The verdict by the facts of the replay. */
void pl_judgement_decide(pl_judgement *v);
pl_status pl_blaming_flag(pl_blaming *j, const pl_value *value, const pl_segment *segment,
                          const pl_tensor *a, const pl_tensor *d, pl_err *err);
/* blame_shape.c: a recorded value that has the right elements in other dims is seen in the model's
 * (*a is replaced); and a value that is right for inputs of another shape than the model says is
 * none of its node's fault: *done, and the verdict is set. */
pl_status pl_blaming_view(pl_blaming *j, const pl_value *value, pl_datum **a, const pl_tensor *d,
                          pl_judgement *v, pl_err *err);
pl_status pl_blaming_shape_did_it(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                                  const pl_tensor *a, pl_judgement *v, bool *done, pl_err *err);
/* Culprit values to groups, ranked by effect. */
pl_status pl_blame_group(pl_blaming *j, pl_err *err);
/* A recorded value in the shape that the model says; a new reference. */
pl_status pl_blaming_get(const pl_blaming *j, const pl_value *value, pl_datum **out, pl_err *err);
pl_dtype pl_blaming_native(const pl_blaming *j, const pl_value *value, const pl_tensor *held);

#endif
