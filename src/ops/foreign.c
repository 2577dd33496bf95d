/* The row for operators of domains that plumb does not know. A backend may run them; here they have
 * no shape rule and no kernel. */
#include "ops/eval.h"
#include "ops/infer.h"
#include "ops/op.h"

static pl_status infer_nothing(pl_infer *c) {
    (void)c; /* keep the declared types */
    return PL_OK;
}

static pl_status eval_nothing(pl_eval *c) {
    const pl_node *node = c->node;
    return pl_node_fail(c->err, PL_E_UNSUPPORTED, node,
                        "op '%s' of domain '%s' is not known: only a backend can run it", node->op,
                        node->domain);
}

const pl_op_def pl_op_foreign = {
    .name = "",
    .domain = "",
    .since = 1,
    .flags = PL_OP_FOREIGN | PL_OP_OWN_OUT,
    .in = PL_PORTS({ "inputs", PL_T_ANY, PL_PORT_OPTIONAL | PL_PORT_VARIADIC | PL_PORT_ANY_KIND }),
    .out =
        PL_PORTS({ "outputs", PL_T_ANY, PL_PORT_OPTIONAL | PL_PORT_VARIADIC | PL_PORT_ANY_KIND }),
    .infer = infer_nothing,
    .eval = eval_nothing,
    .grad = PL_GRAD_TODO,
    .bound = PL_BOUND_TODO,
    .emit = PL_EMIT_TODO,
    .autocast = PL_AMP_KEEP,
};
