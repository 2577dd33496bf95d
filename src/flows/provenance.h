/* Where a run took place: what every recording says of itself. */
#ifndef PL_PROVENANCE_H
#define PL_PROVENANCE_H

#include "base/json.h"

/* "Intel(R) Xeon(R) …" from /proc/cpuinfo; "unknown" when it is not there. */
void pl_provenance_cpu(char *out, size_t n_out);
/* Adds "plumb", "cpu", "cpus", "system" and "time" (UTC, ISO 8601) to an open object. */
void pl_provenance_put_machine(pl_json *json);

#endif
