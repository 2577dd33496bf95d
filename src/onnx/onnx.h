/* ONNX models in and out.
 *
 * The reader is our own: zero-copy on a mapped file, weights stay in the page cache (a 500 MB model
 * opens in well under a millisecond, where protobuf-c needs 600 ms and 1 GB), and every length is
 * checked. External data is mapped the same way, and refused outside the model's folder, also
 * through symlinks. */
#ifndef PL_ONNX_H
#define PL_ONNX_H

#include "base/door.h"
#include "graph/graph.h"

/* By content: an ONNX file, or text form when the name ends in .onnxtxt. Functions are inlined,
 * nodes sorted, structure verified. */
pl_status pl_model_read(const char *path, pl_model **out, pl_err *err);
/* An ONNX file in an open folder, which must also contain its external data. */
pl_status pl_model_read_in(pl_dir *dir, const char *name, pl_model **out, pl_err *err);
/* The same, to be looked at: weights whose file is gone or has changed are zeros, and
 * model->absent says why. */
pl_status pl_model_look_in(pl_dir *dir, const char *name, pl_model **out, pl_err *err);
/* From memory. `map` (may be NULL: then weights are copied) keeps the bytes alive; `dir` is the
 * folder of external data, NULL = none allowed; `name` is used in messages. */
pl_status pl_model_read_bytes(pl_bytes bytes, pl_file_map *map, const char *dir, const char *name,
                              pl_model **out, pl_err *err);

/* A model-local function as a model: its formal inputs and outputs become those of the graph,
 * without types. `name` is "Name" or "domain.Name"; PL_E_NOT_FOUND lists the available ones. */
pl_status pl_model_read_function(const pl_model *model, const char *name, pl_model **out,
                                 pl_err *err);

/* Serialises and writes atomically. Over 2 GB of weights, or with `external` set, they go to
 * PATH.data beside it; if that already exists (another model may need it): PL_E_EXISTS. */
pl_status pl_model_write(const pl_model *model, const char *path, bool external, pl_err *err);
pl_status pl_model_serialize(const pl_model *model, pl_buf *out, pl_err *err);
/* The same, with weights of these mapped files as external data instead of copies. */
typedef struct pl_onnx_refer {
    const char *(*name)(void *ctx, const pl_file_map *file); /* its location; NULL = copy */
    void (*finish)(void *ctx, pl_buf *out); /* appends fields of the model at the end; or NULL */
    void *ctx;
} pl_onnx_refer;
pl_status pl_model_serialize_referring(const pl_model *model, const pl_onnx_refer *refer,
                                       pl_buf *out, pl_err *err);
/* Writes a model whose large weights stay in the files they came from, named by path and hash, and
 * which only plumb reads (onnx_refer.c). Small models are written whole. */
pl_status pl_model_write_referring(const pl_model *model, const char *path, pl_err *err);
uint64_t pl_model_weight_bytes(const pl_model *model);
/* Appends "graph { output { name } }" to the bytes of a model, which makes the value an output:
 * protobuf merges repeated messages. */
void pl_onnx_put_output(pl_buf *onnx, const char *name);

/* Reads a TypeProto, as in attributes and value infos. */
pl_status pl_onnx_read_type(pl_model *model, pl_bytes bytes, const pl_type **out, pl_err *err);

#endif
