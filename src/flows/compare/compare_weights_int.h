/* Shared by compare_weights.c and compare_rotary.c. */
#ifndef PL_COMPARE_WEIGHTS_INT_H
#define PL_COMPARE_WEIGHTS_INT_H

#include "base/buf.h"
#include "base/count.h"
#include "graph/graph.h"
#include "tensor/file/gguf.h"

/* The first number in the metadata whose key ends so ("llama.rope.freq_base"). */
double pl_compare_gguf_number(const pl_gguf *file, const char *suffix, double otherwise);
/* Tables of the file's base are computed as llama.cpp does; others stay, and are told. */
pl_status pl_compare_take_rotary(pl_model *model, const pl_gguf *file, const char *path,
                                 pl_buf *notes, pl_err *err);

#endif
