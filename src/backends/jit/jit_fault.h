/* Injected faults, KIND@OP[:N], for testing fault detection. Only active when requested.
 *
 * N counts the nodes of that operator type in the main graph from 1, in file order; absent = all. A
 * node with a fault is a graph break: it runs on eager's kernel and the fault is applied to its
 * outputs, so nothing is fused across it. With -Dinject=false none of this is compiled. */
#ifndef PL_JIT_FAULT_H
#define PL_JIT_FAULT_H

#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_jit_fault_row pl_jit_fault_row; /* a kind of fault */

typedef struct pl_jit_fault {
    const pl_jit_fault_row *row;
    char op[64];
    long n;   /* 0 = all */
    int pass; /* jit_pass it pretends to be in: absent when that pass is disabled; -1 = none */
} pl_jit_fault;

/* Parses "[PASS/]KIND@OP[:N]"; an unknown kind or pass is PL_E_USAGE and lists the available
 * ones. */
pl_status pl_jit_fault_parse(const char *text, pl_jit_fault *out, pl_err *err);
bool pl_jit_fault_hits(const pl_jit_fault *fault, const pl_node *node);
bool pl_jit_fault_is_compile_error(const pl_jit_fault *fault);
/* Applies the fault to the outputs of a node; data[i] may be replaced. */
pl_status pl_jit_fault_apply(const pl_jit_fault *fault, const pl_node *node, pl_datum **data,
                             size_t n_data, pl_err *err);
/* Names of the kinds, for documentation and tests; NULL past the end. */
const char *pl_jit_fault_kind(size_t i);

#endif
