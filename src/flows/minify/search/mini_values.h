/* Recorded data by name, shared by states. */
#ifndef PL_MINI_VALUES_H
#define PL_MINI_VALUES_H

#include "tensor/datum.h"

typedef struct pl_mini_values pl_mini_values;
pl_status pl_mini_values_new(pl_mini_values **out, pl_err *err);
pl_mini_values *pl_mini_values_ref(pl_mini_values *values);
void pl_mini_values_unref(pl_mini_values *values); /* NULL is fine */
pl_status pl_mini_values_put(pl_mini_values *values, const char *name, const pl_datum *d,
                             pl_err *err);
bool pl_mini_values_has(const pl_mini_values *values, const char *name);
pl_status pl_mini_values_get(const pl_mini_values *values, const char *name, pl_datum **out,
                             pl_err *err); /* a new reference; NULL when it is not there */

#endif
