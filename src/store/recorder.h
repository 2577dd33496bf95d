/* Writing a recording: values in any order, from any thread, one safetensors file at the end.
 *
 * Tensors go to disk as they come; memory is at most one tensor per thread plus a few hundred bytes
 * per value. The file appears complete at the commit, or not at all; a killed recorder leaves
 * nothing (see outfile.h). docs/formats/recording.md describes the file. */
#ifndef PL_RECORDER_H
#define PL_RECORDER_H

#include "store/stats.h"
#include "tensor/datum.h"
#include "tensor/ranges.h"

typedef struct pl_recorder pl_recorder;

enum pl_record_flag {
    PL_RECORD_INPUT = 1,     /* of the model */
    PL_RECORD_OUTPUT = 2,    /* of the model */
    PL_RECORD_STRIDED = 4,   /* the engine held it with other strides than dense ones */
    PL_RECORD_BROADCAST = 8, /* … with a stride of 0 */
    PL_RECORD_FLAGS = 4      /* number of flags */
};
const char *pl_record_flag_name(unsigned flag); /* "input", …; flag is one bit */

typedef struct pl_record_info {             /* NULL or 0 where unknown; copied */
    const char *value;                      /* the name that the value has in its graph; required */
    const char *node, *op, *module, *graph; /* graph: path of the body that contains it */
    int64_t call;                           /* 0, 1, 2 … if a body runs several times */
    unsigned flags;
    const char *const *stands_for; /* values of the model that it carries, when not only `value` */
    size_t n_stands_for;
    const pl_ranges *left_out; /* elements that operators leave undefined (padding) */
} pl_record_info;

typedef struct pl_recorder_options {
    bool stats_only;      /* hash and statistics, no tensors */
    bool named_temporary; /* as if the file system had no unnamed files; for tests */
    size_t reserve_bytes; /* space for the header; 0 = automatic. Too little costs one copy */
} pl_recorder_options;

/* PL_E_EXISTS if the file already exists. options may be NULL. */
pl_status pl_recorder_open(const char *path, const pl_recorder_options *options, pl_recorder **out,
                           pl_err *err);
/* Thread-safe. Repeated values get the keys NAME#1, NAME#2, …; items of sequences and optionals are
 * recorded as NAME[0], NAME[1], … After a failure the recorder stays failed. */
pl_status pl_recorder_put(pl_recorder *r, const pl_record_info *info, const pl_tensor *t,
                          pl_err *err);
pl_status pl_recorder_put_datum(pl_recorder *r, const pl_record_info *info, const pl_datum *d,
                                pl_err *err);
/* One JSON document each; copied. Any time before the commit. */
pl_status pl_recorder_set_provenance(pl_recorder *r, const char *json, pl_err *err);
pl_status pl_recorder_set_graph(pl_recorder *r, const char *json, pl_err *err);
size_t pl_recorder_count(pl_recorder *r);   /* records so far */
uint64_t pl_recorder_bytes(pl_recorder *r); /* of tensor data so far */

/* Writes the header, syncs, publishes. Freed either way. */
pl_status pl_recorder_commit_take(pl_recorder *r, pl_err *err);
void pl_recorder_abort_take(pl_recorder *r); /* NULL is fine */

#endif
