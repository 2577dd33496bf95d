/* Recognises files that are given as a model but are something else. */
#ifndef PL_NOT_ONNX_H
#define PL_NOT_ONNX_H

#include <stdbool.h>
#include <stddef.h>

/* Says what the bytes are and what to do; NULL when they may be a model. `failed`: reading them as
 * a model failed, so weaker signs count, too (text). */
const char *pl_not_onnx(const void *data, size_t n, const char *path, bool failed);
/* Says what was passed instead of a session. Text after ';', ',' or ':' is about models. */
const char *pl_not_session(const void *data, size_t n, const char *path);
const char *pl_not_session_folder(const char *path);
/* The same for a folder given as a model. */
const char *pl_not_onnx_folder(const char *path);

#endif
