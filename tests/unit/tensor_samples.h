/* Tensors for the tests of src/tensor: every dtype in odd shapes, filled with bit patterns that are
 * legal for the type (not only with round numbers). */
#ifndef PL_TENSOR_SAMPLES_H
#define PL_TENSOR_SAMPLES_H

#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

typedef struct sample_shape {
    int rank;
    int64_t dims[4];
} sample_shape;

static const sample_shape sample_shapes[] = {
    { 0, { 0 } }, { 1, { 1 } }, { 1, { 0 } }, { 3, { 2, 0, 3 } }, { 1, { 7 } }, { 3, { 3, 1, 5 } },
};
enum { N_SAMPLE_SHAPES = sizeof sample_shapes / sizeof *sample_shapes };

static inline pl_tensor *sample_tensor(pl_dtype dtype, const sample_shape *shape) {
    pl_tensor *t = NULL;
    if (pl_tensor_new(dtype, shape->rank, shape->dims, &t, NULL) != PL_OK) return NULL;
    if (dtype == PL_STRING) {
        for (int64_t i = 0; i < t->n_elements; i++) {
            char text[32];
            const int n = snprintf(text, sizeof text, "s\xC3\xA9%d", (int)(i * i));
            if (pl_tensor_set_string(t, i, text, i % 3 == 1 ? 0 : (size_t)n, NULL) != PL_OK)
                return NULL;
        }
        return t;
    }
    unsigned char *bytes = t->data;
    for (size_t i = 0; i < pl_tensor_bytes(t); i++)
        bytes[i] = (unsigned char)(i * 73 + 29 + i / 7);
    if (dtype == PL_BOOL || pl_dtype_bits(dtype) < 8) {
        for (int64_t i = 0; i < t->n_elements; i++) {
            const int64_t code = i * 5 + 3;
            if (dtype == PL_BOOL)
                bytes[i] = code & 1;
            else if (dtype == PL_F4E2M1)
                bytes[i] = code & 15;
            else
                pl_store_i64(dtype, &code, bytes + i, 1);
        }
    }
    return t;
}

#endif
