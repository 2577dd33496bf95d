/* Where a run took place: machine and versions, for every recording. */
#ifndef PL_PROVENANCE_H
#define PL_PROVENANCE_H

#include "base/json.h"

/* "Intel(R) Xeon(R) …" from /proc/cpuinfo; "unknown" if not available. */
void pl_provenance_cpu(char *out, size_t n_out);
/* Adds "plumb", "cpu", "cpu_features", "cpus", "system" and "time" (UTC, ISO 8601) to an open
 * object. The features are those of the process that computed (kernels/cpu.h). */
void pl_provenance_put_machine(pl_json *json, uint64_t features);
/* A note, with a line end, about how the CPUs of two runs can explain differences; "" when they are
 * alike or unknown. */
const char *pl_provenance_compare_cpus(const char *a, const char *b, char *out, size_t n_out);

#endif
