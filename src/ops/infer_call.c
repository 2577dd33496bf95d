/* Checks input types against the row's ports before the rule sees them. */
#include <stdio.h>

#include "ops/infer_int.h"

static const pl_port *port_of(const pl_op_def *def, int i) {
    const pl_port *p = def->in;
    for (int k = 0; p->name != NULL; p++, k++) {
        if (k == i || (p->flags & PL_PORT_VARIADIC) != 0) return p;
    }
    return NULL;
}

static bool type_allowed(const pl_infer *c, uint32_t mask, pl_dtype dtype) {
    if ((mask & PL_T(dtype)) != 0) return true;
    return c->fp64 && dtype == PL_F64 && (mask & PL_T_FLOAT) != 0; /* gold: all floats are F64 */
}

static pl_status fail_type(const pl_infer *c, int i, const pl_port *port, pl_dtype dtype) {
    char names[400] = "";
    size_t n = 0;
    for (int d = 1; d < PL_DTYPE_COUNT; d++) {
        if ((port->types & PL_T(d)) == 0 || n >= sizeof(names)) continue;
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "",
                              pl_dtype_name((pl_dtype)d));
    }
    return pl_infer_fail(c, "input %d '%s' is %s, expected one of %s", i, port->name,
                         pl_dtype_name(dtype), names);
}

static pl_status check_kind(const pl_infer *c, int i, const pl_port *port) {
    if ((port->flags & PL_PORT_ANY_KIND) != 0) return PL_OK;
    const bool is_tensor = c->in[i]->kind == PL_TYPE_TENSOR;
    const bool want_tensor = (port->flags & PL_PORT_NOT_TENSOR) == 0;
    if (is_tensor == want_tensor) return PL_OK;
    return pl_infer_fail(c, "input %d '%s' is %s, expected %s", i, port->name,
                         is_tensor ? "a tensor" : "a sequence or optional",
                         want_tensor ? "a tensor" : "a sequence or optional");
}

static bool is_narrower(pl_dtype dtype, pl_dtype than) {
    return pl_dtype_is_float(dtype) && pl_dtype_is_float(than) &&
           pl_dtype_bits(dtype) < pl_dtype_bits(than);
}

pl_status pl_infer_call(pl_infer *c) {
    const pl_op_def *def = c->node->def;
    pl_dtype shared = PL_UNDEFINED;
    for (int i = 0; i < c->n_in; i++) {
        const pl_port *port = port_of(def, i);
        if (port == NULL || c->in[i] == NULL || c->in[i]->kind == PL_TYPE_NONE) continue;
        PL_TRY(check_kind(c, i, port));
        const pl_dtype dtype = pl_infer_dtype_of(c, i);
        if (dtype == PL_UNDEFINED) continue;
        if (!type_allowed(c, port->types, dtype)) return fail_type(c, i, port, dtype);
        if ((port->flags & PL_PORT_SAME) == 0) continue;
        if (i == 1 && c->narrow_b && is_narrower(dtype, shared)) continue;
        if (shared != PL_UNDEFINED && shared != dtype) {
            return pl_infer_fail(c, "input %d '%s' is %s, expected %s like the input before it", i,
                                 port->name, pl_dtype_name(dtype), pl_dtype_name(shared));
        }
        shared = dtype;
    }
    return def->infer(c);
}
