/* Converts between plumb's data and ONNX Runtime's values. */
#ifndef PL_ORT_VALUE_H
#define PL_ORT_VALUE_H

#include "backends/ort/ort_api.h"
#include "tensor/datum.h"

/* ONNXType of the C API. */
enum { PL_ORT_TENSOR = 1, PL_ORT_SEQUENCE = 2, PL_ORT_MAP = 3, PL_ORT_OPTIONAL = 6 };

typedef struct pl_ort_env {
    pl_ort_api api;
    void *env, *cpu, *allocator; /* allocator: borrowed from the library */
} pl_ort_env;

/* One input of a run; owns the memory that it points to until released. */
typedef struct pl_ort_input {
    void *value; /* OrtValue */
    pl_tensor *dense;
    void *packed;
    struct pl_ort_input *items; /* of a sequence */
    size_t n_items;
} pl_ort_input;

/* The datum is borrowed and must outlive the input. What the C API cannot carry (empty sequences,
 * empty optionals, complex numbers, NUL in strings) is PL_E_UNSUPPORTED. */
pl_status pl_ort_input_new(const pl_ort_env *ort, const pl_datum *datum, pl_ort_input *out,
                           pl_err *err);
void pl_ort_input_release(const pl_ort_env *ort, pl_ort_input *input);

/* Copies a value out. `optional`: declared optional in the model. */
/* A tensor over the value's own memory, which must outlive it; false when it is none. */
bool pl_ort_value_view(const pl_ort_env *ort, void *value, pl_tensor **out);
pl_status pl_ort_value_read(const pl_ort_env *ort, void *value, bool optional, pl_datum **out,
                            pl_err *err);

#endif
