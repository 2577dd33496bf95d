/* States as bytes: models without their large weights, which lie in a file beside them. */
#ifndef PL_MINI_WRITE_H
#define PL_MINI_WRITE_H

#include "base/buf.h"
#include "base/hash.h"
#include "flows/minify/search/mini_state.h"

/* The model's bytes with large weights left to `weights` (a file beside it; NULL: all inside), and
 * what it is known by. Tensors are hashed once. */
typedef struct pl_mini_weights pl_mini_weights;
pl_status pl_mini_weights_new(pl_mini_weights **out, pl_err *err);
void pl_mini_weights_free(pl_mini_weights *weights);
pl_status pl_mini_weights_know_originals(pl_mini_weights *weights, const pl_mini_state *state,
                                         pl_err *err);
/* Bytes without large weights; *key covers weights and data too. */
pl_status pl_mini_state_bytes(const pl_mini_state *state, pl_mini_weights *weights, pl_buf *out,
                              pl_hash128 *key, pl_err *err);
/* What a state is known by when names do not matter: the canonical hash, data and backend. */
pl_status pl_mini_state_key(const pl_mini_state *state, pl_mini_weights *weights, const char *spec,
                            pl_hash128 *out, pl_err *err);
/* Puts the large weights back into bytes made above: those above a limit as references into
 * DIR/weights.bin, which gets what it lacks. */
pl_status pl_mini_weights_attach(pl_mini_weights *weights, const pl_mini_state *state,
                                 const char *dir, const pl_buf *bytes, pl_buf *out, pl_err *err);

/* Weights that lie in the original's own file are used there (mini_origin.c). */
#define PL_ORIGINAL_FILE "original.bin"
pl_status pl_mini_weights_use_file(pl_mini_weights *weights, const pl_mini_state *state,
                                   const char *dir, pl_err *err);
/* The tensor's bytes are those at `offset` of that file. */
pl_status pl_mini_weights_note(pl_mini_weights *weights, pl_tensor *tensor, int64_t offset,
                               size_t n_bytes, pl_err *err);
/* This process is a fork: what it adds goes to a file of its own. */
void pl_mini_weights_forked(pl_mini_weights *weights);

/* The same for some of a state's weights: those with used[value id]. */
pl_status pl_mini_weights_put_used(pl_mini_weights *weights, const pl_mini_state *state,
                                   const bool *used, const char *dir, pl_buf *out, pl_err *err);

/* The files that candidates refer to appear in to_dir, too. */
pl_status pl_mini_weights_link(const pl_mini_weights *weights, const char *from_dir,
                               const char *to_dir, pl_err *err);
/* What those are known by. */
pl_status pl_mini_weights_put_key(pl_mini_weights *weights, const pl_mini_state *state,
                                  const bool *used, pl_buf *key, pl_err *err);

#endif
