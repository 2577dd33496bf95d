/* plumb.h: status, tensors and models. The flows have files of their own. */
#include "flows/api.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flows/restrict.h"
#include "onnx/onnx.h"

/* The public codes are the internal ones; the tables must not drift apart. */
_Static_assert((int)PLUMB_E_INTERNAL == (int)PL_E_INTERNAL, "plumb.h and status.h differ");
_Static_assert((int)PLUMB_E_LIMIT == (int)PL_E_LIMIT, "plumb.h and status.h differ");
_Static_assert((int)PLUMB_INT2 == (int)PL_I2, "plumb.h and dtype.def differ");

const char *plumb_version(void) {
    return PLUMB_VERSION;
}

int plumb_exit_code(plumb_status status) {
    return pl_status_exit_code((pl_status)status);
}

void plumb_free(void *text) {
    pl_free(text);
}

double pl_api_seconds(void) {
    return 1e-9 * (double)pl_clock_ns();
}

plumb_status pl_api_return(pl_status status, const pl_err *from, plumb_error *to) {
    if (status != PL_OK && to != NULL) {
        to->status = (plumb_status)status;
        snprintf(to->message, sizeof(to->message), "%s",
                 from->message[0] != '\0' ? from->message : pl_status_text(status));
    }
    return (plumb_status)status;
}

pl_status pl_api_text_take(pl_buf *buf, char **text, pl_err *err) {
    *text = pl_buf_take(buf);
    if (*text != NULL) return PL_OK;
    pl_buf_release(buf);
    return pl_fail_memory(err, 1);
}

/* ---- tensors ---- */

plumb_status plumb_tensor_new(plumb_dtype dtype, int rank, const int64_t *dims, const void *data,
                              size_t n_bytes, plumb_tensor **out, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    pl_status st = PL_OK;
    if (!pl_dtype_valid((int64_t)dtype) || dtype == PLUMB_STRING) {
        st = pl_fail(&err, PL_E_USAGE, "a tensor of element type %d cannot be made from bytes",
                     (int)dtype);
    } else {
        st = pl_tensor_new((pl_dtype)dtype, rank, dims, &t, &err);
    }
    if (st == PL_OK && pl_tensor_bytes(t) != n_bytes) {
        st = pl_fail(&err, PL_E_USAGE, "tensor data has %zu bytes, its shape needs %zu", n_bytes,
                     pl_tensor_bytes(t));
        pl_tensor_unref(t);
    } else if (st == PL_OK) {
        if (n_bytes > 0) memcpy(t->data, data, n_bytes);
        *out = (plumb_tensor *)t;
    }
    return pl_api_return(st, &err, error);
}

void plumb_tensor_free(plumb_tensor *tensor) {
    pl_tensor_unref(pl_api_tensor(tensor));
}

plumb_dtype plumb_tensor_dtype(const plumb_tensor *t) {
    return (plumb_dtype)pl_api_tensor(t)->dtype;
}

int plumb_tensor_rank(const plumb_tensor *t) {
    return pl_api_tensor(t)->rank;
}

const int64_t *plumb_tensor_dims(const plumb_tensor *t) {
    return pl_api_tensor(t)->dims;
}

const void *plumb_tensor_data(const plumb_tensor *t) {
    return pl_api_tensor(t)->data;
}

size_t plumb_tensor_bytes(const plumb_tensor *t) {
    return pl_tensor_bytes(pl_api_tensor(t));
}

/* ---- models ---- */

plumb_status plumb_model_open(const char *path, plumb_model **out, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    const double start = pl_api_seconds();
    plumb_model *m = pl_calloc(1, sizeof(*m));
    if (m == NULL) return pl_api_return(pl_fail_memory(&err, sizeof(*m)), &err, error);
    const pl_status st = pl_model_read(path, &m->model, &err);
    m->load_seconds = pl_api_seconds() - start;
    if (st == PL_OK) {
        *out = m;
    } else {
        pl_free(m);
    }
    return pl_api_return(st, &err, error);
}

void plumb_model_close(plumb_model *m) {
    if (m == NULL) return;
    pl_model_free(m->model);
    pl_free(m);
}

size_t plumb_model_inputs(const plumb_model *m) {
    return m->model->graph->n_inputs;
}

size_t plumb_model_outputs(const plumb_model *m) {
    return m->model->graph->n_outputs;
}

const char *plumb_model_input_name(const plumb_model *m, size_t i) {
    return i < m->model->graph->n_inputs ? m->model->graph->inputs[i]->name : NULL;
}

const char *plumb_model_output_name(const plumb_model *m, size_t i) {
    return i < m->model->graph->n_outputs ? m->model->graph->outputs[i]->name : NULL;
}

plumb_status plumb_model_restrict(plumb_model *m, const char *function, const char *from,
                                  const char *to, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    pl_model *part = NULL;
    const pl_status st = pl_model_restrict(m->model, function, from, to, &part, &err);
    if (st == PL_OK && part != NULL) {
        pl_model_free(m->model);
        m->model = part;
        m->edited = true;
    }
    return pl_api_return(st, &err, error);
}

const char *pl_api_model_file(const plumb_model *m) {
    return m->edited || m->model->path[0] == '\0' ? NULL : m->model->path;
}
