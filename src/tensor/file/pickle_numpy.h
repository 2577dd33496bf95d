/* numpy's arrays and numbers, and Python's byte streams, in a pickle. */
#ifndef PL_PICKLE_NUMPY_H
#define PL_PICKLE_NUMPY_H

#include "tensor/file/pickle.h"
#include "tensor/tensor.h"

/* Is it a call that makes an array, a number of numpy, or an io.BytesIO? */
bool pl_pickle_is_numpy(const pl_pickle_value *v);
/* Of such a call: a dense copy; an io.BytesIO is its bytes. PL_E_FORMAT when its parts do not fit
 * each other, PL_E_UNSUPPORTED for an element type that has no ONNX equivalent. */
pl_status pl_pickle_numpy(const pl_pickle_value *v, pl_tensor **out, pl_err *err);

#endif
