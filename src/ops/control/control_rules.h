/* Rules named in the rows of control.c and defined in the files beside it. */
#ifndef PL_CONTROL_RULES_H
#define PL_CONTROL_RULES_H

#include "ops/op.h"

/* control_bound.c */
pl_status pl_if_bound(pl_bound *c);
pl_status pl_loop_bound(pl_bound *c);
pl_status pl_scan_bound(pl_bound *c);
pl_status pl_sequence_map_bound(pl_bound *c);

#endif
