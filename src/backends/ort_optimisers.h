/* Names that ort:disable= takes, for a search of the one to blame. */
#ifndef PL_ORT_OPTIMISERS_H
#define PL_ORT_OPTIMISERS_H

/* Optimisers of ONNX Runtime 1.18 to 1.30 for the CPU, by the level that brings them; ended by
 * NULL. ORT takes names that it does not have without a word. */
extern const char *const pl_ort_optimisers[];

#endif
