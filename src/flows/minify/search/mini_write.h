/* States as bytes: models without their large weights, which are in a separate file. */
#ifndef PL_MINI_WRITE_H
#define PL_MINI_WRITE_H

#include "base/buf.h"
#include "base/hash.h"
#include "flows/minify/search/mini_state.h"

/* Large weights outside the model's bytes (in a file beside it; NULL: all inside), and the keys of
 * states. Tensors are hashed once. */
typedef struct pl_mini_weights pl_mini_weights;
pl_status pl_mini_weights_new(pl_mini_weights **out, pl_err *err);
void pl_mini_weights_free(pl_mini_weights *weights);
pl_status pl_mini_weights_know_originals(pl_mini_weights *weights, const pl_mini_state *state,
                                         pl_err *err);
/* Bytes without large weights; *key also covers weights and data. */
pl_status pl_mini_state_bytes(const pl_mini_state *state, pl_mini_weights *weights, pl_buf *out,
                              pl_hash128 *key, pl_err *err);
/* The key of a state when names do not matter: canonical hash, data and backend. */
pl_status pl_mini_state_key(const pl_mini_state *state, pl_mini_weights *weights, const char *spec,
                            pl_hash128 *out, pl_err *err);
/* Adds the large weights to the bytes again: those above a limit as references into
 * DIR/weights.bin, which is extended as needed. */
pl_status pl_mini_weights_attach(pl_mini_weights *weights, const pl_mini_state *state,
                                 const char *dir, const pl_buf *bytes, pl_buf *out, pl_err *err);

/* Weights in the original's file are used there (mini_origin.c). */
#define PL_ORIGINAL_FILE "original.bin"
pl_status pl_mini_weights_use_file(pl_mini_weights *weights, const pl_mini_state *state,
                                   const char *dir, pl_err *err);
/* The tensor's bytes are those at `offset` of that file. */
pl_status pl_mini_weights_note(pl_mini_weights *weights, pl_tensor *tensor, int64_t offset,
                               size_t n_bytes, pl_err *err);
/* Called after a fork: new weights go to a separate file. */
void pl_mini_weights_forked(pl_mini_weights *weights);

/* The same for some of a state's weights: those with used[value id]. */
pl_status pl_mini_weights_put_used(pl_mini_weights *weights, const pl_mini_state *state,
                                   const bool *used, const char *dir, pl_buf *out, pl_err *err);

/* Links the files that candidates refer to into to_dir. */
pl_status pl_mini_weights_link(const pl_mini_weights *weights, const char *from_dir,
                               const char *to_dir, pl_err *err);
/* The key of those. */
pl_status pl_mini_weights_put_key(pl_mini_weights *weights, const pl_mini_state *state,
                                  const bool *used, pl_buf *key, pl_err *err);

#endif
