/* Where a run took place: what every recording says of itself. */
#ifndef PL_PROVENANCE_H
#define PL_PROVENANCE_H

#include "base/json.h"

/* "Intel(R) Xeon(R) …" from /proc/cpuinfo; "unknown" when it is not there. */
void pl_provenance_cpu(char *out, size_t n_out);
/* Adds "plumb", "cpu", "cpu_features", "cpus", "system" and "time" (UTC, ISO 8601) to an open
 * object. The features are those of the process that computed (kernels/cpu.h). */
void pl_provenance_put_machine(pl_json *json, uint64_t features);
/* What the CPUs of two runs say about their difference, as a note with a line end; "" when they are
 * alike or not known. */
const char *pl_provenance_compare_cpus(const char *a, const char *b, char *out, size_t n_out);

#endif
