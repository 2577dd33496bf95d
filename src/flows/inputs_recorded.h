/* Inputs of a run whose reference is a recording: the ones it was made with. */
#ifndef PL_INPUTS_RECORDED_H
#define PL_INPUTS_RECORDED_H

#include <plumb.h>

#include "graph/graph.h"
#include "store/recording.h"

/* As pl_inputs_make. Inputs that the recording has by name are taken from it; a given one must
 * equal the recorded one, else PL_E_INVALID. Others are generated if the source says how (seed,
 * range, fill), else PL_E_INVALID; with `lenient` it is generated anyway. *n_taken may be NULL. */
pl_status pl_inputs_make_recorded(const pl_model *model, const plumb_inputs *source,
                                  const pl_recording *recording, bool lenient, pl_datum **in,
                                  size_t *n_taken, pl_err *err);

#endif
