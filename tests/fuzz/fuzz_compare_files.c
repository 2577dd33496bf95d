/* Fuzz target: the small files of `plumb compare`: colour limits and baselines. */
#include <stddef.h>
#include <stdint.h>

#include "session/baseline.h"
#include "session/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_limits *limits = NULL;
    pl_baseline *baseline = NULL;
    pl_limits_match match;
    if (pl_limits_read((const char *)data, size, "fuzz", &limits, &err) == PL_OK)
        (void)pl_limits_find(limits, "psnr", "value", "Conv", PL_F32, PL_PRECISION_F32, &match);
    pl_limits_free(limits);
    if (pl_baseline_read((const char *)data, size, "fuzz", &baseline, &err) == PL_OK)
        pl_baseline_free(baseline);
    return 0;
}
