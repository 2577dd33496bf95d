/* Where a run took place: machine and versions, for every recording. */
#ifndef PL_PROVENANCE_H
#define PL_PROVENANCE_H

#include "base/json.h"

/* "Intel(R) Xeon(R) …" from /proc/cpuinfo; "unknown" if not available. */
void pl_provenance_cpu(char *out, size_t n_out);
/* Adds "plumb", "cpu", "cpu_features", "cpus", "system" and "time" (UTC, ISO 8601) to an open
 * object. The features are those of the process that computed (kernels/cpu.h). */
void pl_provenance_put_machine(pl_json *json, uint64_t features);
typedef struct pl_cpu_difference { /* what is to be explained */
    double relative;               /* rms of the first difference, of the value's size */
    bool codes;                    /* one of the runs computes on 8-bit codes */
} pl_cpu_difference;
/* Which features of two runs' CPUs explain their difference, as a note with a line end; that they
 * do not is told, too. "" when they are alike or not known. */
const char *pl_provenance_compare_cpus(const char *a, const char *b, const pl_cpu_difference *of,
                                       char *out, size_t n_out);

#endif
