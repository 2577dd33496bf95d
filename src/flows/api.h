/* For src/flows and above: the bridge between plumb.h and the library's own types. */
#ifndef PL_API_H
#define PL_API_H

#include <plumb.h>

#include "graph/graph.h"
#include "tensor/tensor.h"

struct plumb_model {
    pl_model *model;
    double load_seconds;
    bool edited; /* differs from the file */
};

/* plumb_tensor is pl_tensor under a public name. */
static inline pl_tensor *pl_api_tensor(const plumb_tensor *t) {
    return (pl_tensor *)(uintptr_t)t;
}

/* Converts an internal result to a public one. */
plumb_status pl_api_return(pl_status status, const pl_err *from, plumb_error *to);
/* PL_E_IO if a mapped file was truncated meanwhile: the result is invalid then. */
pl_status pl_api_settle(pl_status status, pl_err *err);
/* Hands a finished buffer to the caller as text; releases it on failure. */
pl_status pl_api_text_take(pl_buf *buf, char **text, pl_err *err);
double pl_api_seconds(void); /* monotonic */
/* The file that holds exactly this model; NULL when there is none. */
const char *pl_api_model_file(const plumb_model *model);

/* As plumb_backends. Without `programs`, backends that start one are not opened. */
void pl_backends_put_json(bool programs, pl_buf *out);

#endif
