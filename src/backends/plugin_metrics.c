#include "backends/plugin_metrics.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/library.h"
#include "metric/metrics.h"

enum { METRICS_MAX = 64 };

static bool good_name(const char *name) {
    if (name == NULL || *name == '\0' || strlen(name) > 40) return false;
    return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] ==
           '\0';
}

static pl_status check(const pl_plugin_metrics *m, const plumb_metric *row, const char *file,
                       pl_err *err) {
    if (row == NULL || row->abi != PLUMB_ABI || row->n_bytes < sizeof *row)
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "plugin '%s': a metric was built with another version of plumb.h (expected "
                       "%u, %zu bytes)",
                       file, PLUMB_ABI, sizeof *row);
    if (!good_name(row->name) || row->value == NULL)
        return pl_fail(
            err, PL_E_INVALID,
            "plugin '%s': a metric has no function, or its name is not letters, digits and '_'",
            file);
    bool taken = pl_metric_find(row->name) != NULL;
    for (size_t i = 0; i < m->n_rows; i++)
        taken = taken || strcmp(m->rows[i]->name, row->name) == 0;
    if (taken)
        return pl_fail(err, PL_E_INVALID, "plugin '%s': metric '%s' already exists", file,
                       row->name);
    return PL_OK;
}

/* The library stays loaded: its rows are borrowed. */
static pl_status find_entry(const char *file, plumb_metrics_entry *out, pl_err *err) {
    PL_TRY(pl_libraries_check(err));
    /* Without a slash dlopen would search the loader's path. */
    char *path = strchr(file, '/') != NULL ? pl_strdup(file) : pl_path_join(".", file);
    if (path == NULL) return pl_fail_memory(err, strlen(file));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    pl_free(path);
    if (library == NULL) return pl_fail(err, PL_E_NOT_FOUND, "cannot open plugin: %s", dlerror());
    void *symbol = dlsym(library, "plumb_metrics_v1");
    if (symbol == NULL) {
        dlclose(library);
        return pl_fail(err, PL_E_INVALID, "plugin '%s' has no metrics: no plumb_metrics_v1", file);
    }
    memcpy(out, &symbol, sizeof *out);
    return PL_OK;
}

pl_status pl_plugin_metrics_load(pl_plugin_metrics *m, const char *file, pl_err *err) {
    const plumb_metric *rows[METRICS_MAX] = { 0 };
    plumb_metrics_entry entry = NULL;
    PL_TRY(find_entry(file, &entry, err));
    const size_t n = entry(plumb_host_get(), rows, METRICS_MAX);
    if (n == 0 || n > METRICS_MAX)
        return pl_fail(err, PL_E_INVALID, "plugin '%s' has %zu metrics, expected 1 to %d", file, n,
                       METRICS_MAX);
    const plumb_metric **grown =
        pl_realloc_array((void *)m->rows, m->n_rows + n, sizeof(plumb_metric *));
    if (grown == NULL) return pl_fail_memory(err, n * sizeof(plumb_metric *));
    m->rows = grown;
    for (size_t i = 0; i < n; i++) {
        PL_TRY(check(m, rows[i], file, err));
        m->rows[m->n_rows++] = rows[i];
    }
    return PL_OK;
}

void pl_plugin_metrics_release(pl_plugin_metrics *m) {
    pl_free((void *)m->rows);
    *m = (pl_plugin_metrics){ .rows = NULL };
}
