/* Inside src/backends/ort: float16 and bfloat16 weights that ONNX Runtime computes with in float32.
 */
#ifndef PL_ORT_WIDEN_H
#define PL_ORT_WIDEN_H

#include "backends/ort/ort_int.h"

/* Name of the pass that replaces half weights by float32 ones. */
extern const char pl_ort_widening[];

/* Does that pass replace so much of this model that its graph is saved without it? */
bool pl_ort_widens(const pl_ort *ort, const pl_model *model);
/* Is this value of the executed graph a weight that became float32? */
bool pl_ort_widens_weight(const pl_value *value);
/* The names of all passes but that one, separated by ';'. */
void pl_ort_widening_only(pl_buf *out);

/* The session of the model as given is about to be closed, and it will be asked for the same once
 * more, to see whether it is deterministic: runs it now and keeps the outputs. */
void pl_ort_run_ahead(pl_ort_program *p, const plumb_run_args *args);
/* The outputs of that run, for the same inputs, once. */
bool pl_ort_take_ahead(pl_ort_program *p, const plumb_run_args *args);
void pl_ort_drop_ahead(pl_ort_program *p);

#endif
