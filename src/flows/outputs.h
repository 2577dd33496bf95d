/* Writing the outputs of a run, and describing them. */
#ifndef PL_OUTPUTS_H
#define PL_OUTPUTS_H

#include "base/json.h"
#include "tensor/file/tensor_file.h"

/* Writes one file by its suffix, or one file each to a new or empty folder; `files[i]` receives the
 * path (caller frees with pl_free). save_as: "npy" or "pb"; types that npy lacks go to .pb. */
pl_status pl_outputs_write(const char *path, const char *save_as, const pl_named_datum *items,
                           size_t n_items, char **files, pl_err *err);

/* A summary for users. Finite elements only. */
typedef struct pl_tensor_summary {
    int64_t n_nan, n_inf;
    double min, max, mean;
} pl_tensor_summary;
pl_tensor_summary pl_tensor_summarize(const pl_tensor *t);

/* One output as an object of "outputs", and as a line. kind and file may be NULL. */
void pl_output_put_json(pl_json *j, const char *name, const char *kind, const pl_datum *d,
                        const char *file);
void pl_output_put_text(pl_buf *out, const char *name, const pl_datum *d, const char *file);

#endif
