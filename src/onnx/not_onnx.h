/* Files that are given as a model and are something else. */
#ifndef PL_NOT_ONNX_H
#define PL_NOT_ONNX_H

#include <stdbool.h>
#include <stddef.h>

/* What the bytes are and what to do, or NULL when they may be a model. `failed`: they could not be
 * read as one, so that weaker signs count (text). */
const char *pl_not_onnx(const void *data, size_t n, const char *path, bool failed);
/* What was given instead of a session; what follows a ';', ',' or ':' is about models. */
const char *pl_not_session(const void *data, size_t n, const char *path);
const char *pl_not_session_folder(const char *path);
/* The same for a folder given as a model. */
const char *pl_not_onnx_folder(const char *path);

#endif
