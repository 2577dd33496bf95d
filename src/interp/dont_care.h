/* Elements that mean nothing: those that an operator leaves undefined (a column of its row), and
 * those that depend on them. Two correct runs may differ there, so they are not compared.
 *
 * What depends on them is found by trying: the model runs as it is and twice with other numbers in
 * those elements. What changes depends on them; what attention masks does not change. Costs nothing
 * where no operator has the rule, and a few small integers where no batch is ragged. */
#ifndef PL_DONT_CARE_H
#define PL_DONT_CARE_H

#include "graph/graph.h"
#include "tensor/datum.h"
#include "tensor/ranges.h"

typedef struct pl_dont_care {
    pl_ranges *of; /* by value id of the main graph; NULL = there are none */
    size_t n;
} pl_dont_care;

/* The model is resolved; in[] are its inputs; threads: 0 = all. Where it cannot run, nothing is
 * left out. */
pl_status pl_dont_care_find(pl_model *model, pl_datum *const *in, int threads, pl_dont_care *out,
                            pl_err *err);
void pl_dont_care_release(pl_dont_care *d);
/* NULL = every element counts. */
const pl_ranges *pl_dont_care_of(const pl_dont_care *d, const pl_value *value);
/* Replaces *datum, a reference of the caller, by one with zeros there. */
pl_status pl_dont_care_hide(const pl_dont_care *d, const pl_value *value, pl_datum **datum,
                            pl_err *err);

#endif
