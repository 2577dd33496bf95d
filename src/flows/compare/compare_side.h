/* One side of `plumb compare`: a recording, or a model that is recorded on the fly. */
#ifndef PL_COMPARE_SIDE_H
#define PL_COMPARE_SIDE_H

#include "flows/record.h"
#include "session/session.h"

typedef struct pl_compare_side {
    const char *path;
    bool is_model;
    plumb_model *model;      /* when it is one */
    pl_recording *recording; /* its tensors stay valid until the side is released */
} pl_compare_side;

/* By its name: .onnx and .onnxtxt are models. */
bool pl_compare_is_model(const char *path);
/* Opens a recording, or only the model. */
pl_status pl_compare_side_open(pl_compare_side *side, const char *path, pl_err *err);
/* Runs a model and opens the recording; notes (may be NULL) gets its messages, line by line. */
pl_status pl_compare_side_record(pl_compare_side *side, const plumb_record_options *options,
                                 const pl_recording *inputs_from, pl_buf *notes, pl_err *err);
void pl_compare_side_release(pl_compare_side *side);
/* Path, backend, version and hash from the recording; the model, if the session has none. */
pl_status pl_compare_side_describe(const pl_compare_side *side, pl_session *session,
                                   pl_side_info *out, pl_err *err);

#endif
