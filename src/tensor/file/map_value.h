/* Maps from files. At run time a map is a sequence of two tensors: its keys in ascending order, and
 * their values (src/ops/ml/ml_map.c). */
#ifndef PL_MAP_VALUE_H
#define PL_MAP_VALUE_H

#include "tensor/datum.h"
#include "tensor/file/raw.h"

/* `type` is a map of strings or int64 to numbers or strings. */

/* A JSON object; keys of integers are written as strings. */
pl_status pl_map_json_read(pl_bytes bytes, const pl_type *type, pl_datum **out, pl_err *err);
bool pl_map_json_sniff(pl_bytes bytes, const pl_type *type);
/* MapProto of onnx-data.proto, or the SequenceProto of two tensors that plumb writes. */
pl_status pl_map_proto_read(pl_bytes bytes, pl_file_map *map, const pl_type *type, pl_datum **out,
                            pl_err *err);

#endif
