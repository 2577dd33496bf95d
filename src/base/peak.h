/* The peak memory of this process and of all below it, together: a page that several of them map,
 * as those of a model's weights, counts once. A thread looks (Linux, /proc). */
#ifndef PL_PEAK_H
#define PL_PEAK_H

#include <stdint.h>

typedef struct pl_peak pl_peak;

pl_peak *pl_peak_start(void); /* NULL when nothing can look; pl_peak_stop then still answers */
/* Bytes. Never below the largest process alone, never above pl_process_peak_bytes, which is the
 * answer when nothing could look. */
int64_t pl_peak_stop(pl_peak *peak);

#endif
