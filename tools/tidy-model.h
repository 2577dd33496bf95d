/* Included by tools/check-tidy before every file but status.c: tells clang's analyzer, which sees one
 * file at a time, that a failure is never PL_OK. Without it every `return pl_fail(...)` counts as
 * a possible success whose results are unset. */
#include "base/status.h"

#define pl_fail(err, status, ...) ((void)(pl_fail)(err, status, __VA_ARGS__), (status))
#define pl_err_wrap(err, status, ...) ((void)(pl_err_wrap)(err, status, __VA_ARGS__), (status))
#define pl_fail_memory(err, n_bytes) ((void)(pl_fail_memory)(err, n_bytes), PL_E_MEMORY)
