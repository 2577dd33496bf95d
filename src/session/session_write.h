/* The session folder: written to a temporary folder, renamed at the end (docs/formats/session.md).
 *
 * Tensors go to its store as they come, so memory does not grow. A folder that is not committed is
 * removed; a killed writer leaves a hidden folder beside the target, which is never read. Putting
 * tensors is thread-safe, nothing else is. */
#ifndef PL_SESSION_WRITE_H
#define PL_SESSION_WRITE_H

#include "graph/graph.h"
#include "session/session.h"

typedef struct pl_session_folder pl_session_folder;

/* PL_E_EXISTS if `path` already exists; missing parent directories are created. */
pl_status pl_session_folder_new(const char *path, pl_session_folder **out, pl_err *err);
/* Stores the tensor and adds it to the side's index ("a", "b", "gold", …: letters and digits). The
 * name of the blob is in `arena`. */
pl_status pl_session_folder_put(pl_session_folder *folder, const char *side, const char *value,
                                const pl_tensor *t, pl_arena *arena, const char **blob,
                                pl_err *err);
/* model.onnx. Large weights stay in the file they came from unless it is to be whole; then they are
 * beside it. */
pl_status pl_session_folder_put_model(pl_session_folder *folder, const pl_model *model, bool whole,
                                      pl_err *err);
/* reference.onnx: the model of B, when it is another one. */
pl_status pl_session_folder_put_reference(pl_session_folder *folder, const pl_model *model,
                                          bool whole, pl_err *err);
/* Writes session.json and the indexes, syncs, renames. Freed either way. */
pl_status pl_session_folder_commit_take(pl_session_folder *folder, const pl_session *session,
                                        pl_err *err);
void pl_session_folder_abort_take(pl_session_folder *folder); /* NULL is fine */

#endif
