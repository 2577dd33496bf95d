/* Included by tools/check-tidy before the files of src/ops: their own ways to fail never succeed,
 * either (see tidy-model.h). */
#include "ops/eval.h"
#include "ops/infer.h"

#define pl_node_fail(err, status, ...) ((void)(pl_node_fail)(err, status, __VA_ARGS__), (status))
#define pl_infer_fail(...) ((void)(pl_infer_fail)(__VA_ARGS__), PL_E_INVALID)
#define pl_eval_fail(...) ((void)(pl_eval_fail)(__VA_ARGS__), PL_E_INVALID)
#define pl_eval_unsupported(...) ((void)(pl_eval_unsupported)(__VA_ARGS__), PL_E_UNSUPPORTED)
#define pl_eval_memory(c) ((void)(pl_eval_memory)(c), PL_E_MEMORY)
#define pl_eval_no_type(c, dtype) ((void)(pl_eval_no_type)(c, dtype), PL_E_UNSUPPORTED)
