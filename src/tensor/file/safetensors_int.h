/* Shared by the reader and the writer of safetensors. */
#ifndef PL_SAFETENSORS_INT_H
#define PL_SAFETENSORS_INT_H

/* Metadata key before the tensor's name: the ONNX type of elements that are stored as U8
 * (docs/formats/safetensors.md). */
#define PL_SAFETENSORS_DTYPE_KEY "plumb.dtype."

#endif
