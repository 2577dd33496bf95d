/* Metrics from plugins: rows of plumb_metric in shared libraries, loaded when a user names them. */
#ifndef PL_PLUGIN_METRICS_H
#define PL_PLUGIN_METRICS_H

#include <plumb.h>

#include "base/status.h"

typedef struct pl_plugin_metrics {
    const plumb_metric **rows; /* heap; the libraries stay loaded */
    size_t n_rows;
} pl_plugin_metrics;

/* Adds the metrics of one library. Their names must be unique, also among plumb's own. */
pl_status pl_plugin_metrics_load(pl_plugin_metrics *metrics, const char *file, pl_err *err);
void pl_plugin_metrics_release(pl_plugin_metrics *metrics);

#endif
