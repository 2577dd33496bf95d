/* Shared by compare_weights.c, compare_rotary.c and compare_cache.c. */
#ifndef PL_COMPARE_WEIGHTS_INT_H
#define PL_COMPARE_WEIGHTS_INT_H

#include "base/buf.h"
#include "base/count.h"
#include "graph/graph.h"
#include "store/recording.h"
#include "tensor/file/gguf.h"

/* The first number in the metadata whose key ends so ("llama.rope.freq_base"). */
double pl_compare_gguf_number(const pl_gguf *file, const char *suffix, double otherwise);
/* Tables of the file's base are computed as llama.cpp does; others stay, and are told. */
pl_status pl_compare_take_rotary(pl_model *model, const pl_gguf *file, const char *path,
                                 pl_buf *notes, pl_err *err);
/* Where the recording has the cache in half and the model in float, attention rounds, too. */
pl_status pl_compare_take_cache(pl_model *model, const pl_recording *theirs, pl_buf *notes,
                                pl_err *err);
/* The node reads this input through GgmlRound of the type: one for each value and type, behind the
 * other nodes of the graph. */
pl_status pl_compare_round_input(pl_model *model, pl_node *of, uint32_t at, const char *type,
                                 pl_err *err);

#endif
