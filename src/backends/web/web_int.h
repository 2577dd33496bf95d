/* Inside src/backends/web: shared by web.c (the vtable), web_value.c and web_record.c. */
#ifndef PL_WEB_INT_H
#define PL_WEB_INT_H

#include "backends/backend.h"
#include "backends/web/web_browser.h"
#include "tensor/datum.h"

typedef struct pl_web {
    bool gpu;
    int threads;
    const char *level; /* of onnxruntime-web: "disabled", "basic", "extended", "all" */
    char version[32];
    char program[300], folder[400]; /* the browser; onnxruntime-web */
    char device[200];
    pl_web_browser *browser; /* NULL until the first model */
    unsigned n_started;      /* browsers; a session belongs to one of them */
} pl_web;

typedef struct pl_web_optimised pl_web_optimised; /* web_optimised.c */

typedef struct pl_web_program {
    pl_web *web;
    plumb_source source; /* names and bytes are borrowed */
    pl_model *model;
    pl_buf embedded; /* the model with its external data inside; empty = none needed */
    long session;    /* in the page of browser number `started` */
    unsigned started;
    pl_web_optimised *optimised; /* NULL until a recording asks for it */
    pl_buf places;               /* where each node runs; asking the page loads the model again */
    bool has_places;
} pl_web_program;

pl_bytes pl_web_bytes(const pl_web_program *p);
/* Calls plumb.FUNCTION of the page with a model. */
pl_status pl_web_call_with_model(pl_web *web, const char *function, pl_bytes onnx, pl_buf *answer,
                                 pl_err *err);
/* Loads a model in the page at an optimisation level; *session is its number there. */
pl_status pl_web_load(pl_web *web, pl_bytes onnx, const char *level, long *session, pl_err *err);
/* Copies result `index` of the last call. */
pl_status pl_web_fetch(pl_web *web, size_t index, uint8_t *to, size_t n_bytes, pl_err *err);
void pl_web_drop(pl_web *web, long session);
/* Is there a browser, with a page that may be trusted with another model? */
bool pl_web_usable(const pl_web *web);
/* Starts the browser and loads the model where that has not been done, or was lost with a page that
 * is no longer to be trusted. */
pl_status pl_web_ready(pl_web_program *p, pl_err *err);
/* Runs a session for `names`; values[] receives one datum each. */
pl_status pl_web_run(pl_web_program *p, long session, const plumb_run_args *args,
                     const char *const *names, size_t n_names, pl_datum **values, pl_err *err);

/* web_value.c */
/* The name of an element type in onnxruntime-web; NULL if it has none. */
const char *pl_web_type_name(pl_dtype dtype);
pl_dtype pl_web_type_of(const char *name);
/* Bytes of a tensor for the page; strings as a JSON list. */
pl_status pl_web_pack(const pl_tensor *t, pl_buf *out, pl_err *err);
pl_status pl_web_unpack(pl_dtype dtype, int rank, const int64_t *dims, const uint8_t *data,
                        size_t n_bytes, pl_datum **out, pl_err *err);

/* web_record.c */
pl_status pl_web_record_groups(pl_web_program *p, const plumb_run_args *args, pl_err *err);
bool pl_web_is_output(const pl_web_program *p, const char *name);
/* Moves them to the caller. */
void pl_web_keep_outputs(const plumb_run_args *args, pl_datum **values);

/* web_optimised.c: *done is false if the page cannot record its optimised graph. */
pl_status pl_web_record_optimised(pl_web_program *p, const plumb_run_args *args, bool *done,
                                  pl_err *err);
void pl_web_optimised_free(pl_web *web, pl_web_optimised *o); /* NULL is fine */

#endif
