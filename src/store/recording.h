/* Reads recordings of plumb and of other tools.
 *
 * One form for all: a list of records with their metadata, read one at a time. Supported:
 * recordings and plain safetensors files, npz archives, files of torch.save, GGUF, folders of npy
 * files with or without Core AI's metadata.json, Polygraphy's JSON, ONNX test data sets. Everything
 * in a file is checked. Different threads may read different records. */
#ifndef PL_RECORDING_H
#define PL_RECORDING_H

#include "base/hash.h"
#include "store/recorder.h"

typedef struct pl_record {
    const char *key;                                /* unique in the recording */
    const char *value, *node, *op, *module, *graph; /* "" where unknown; value: else the key */
    int64_t call;
    const char *const *stands_for; /* values of the model that it carries; NULL = only `value` */
    size_t n_stands_for;
    const char *unmapped;     /* why it corresponds to no value of the model (PyTorch); "" */
    pl_type_kind kind;        /* TENSOR; the items of a SEQUENCE or OPTIONAL are records, too */
    const char *const *items; /* their keys */
    size_t n_items;
    bool has_shape; /* else dtype and shape are known only after reading */
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    int64_t offset;
    bool has_hash;
    pl_hash128 hash;    /* of the bytes as blob.h defines them */
    unsigned flags;     /* PL_RECORD_* */
    pl_ranges left_out; /* elements that operators leave undefined; they hold zeros */
    bool has_data;      /* false when only statistics were recorded, and for containers */
    bool has_stats;
    pl_stats stats;
    const struct pl_record_source *source; /* where the bytes are */
} pl_record;

typedef struct pl_recording {
    const char *path, *format; /* "plumb", "safetensors", "npz", "pt", "gguf", "npy",
                                  "aimodelintermediates", "polygraphy", "onnx-test-data", "ranks",
                                  "sglang", "llama-logits", "msprobe", "hf-debug", "vllm" */
    pl_record *records;        /* in the order of the run where that is known */
    size_t n_records;
    const char *provenance, *graph, *mappings, *exported; /* JSON, or NULL */
    struct pl_recording_int *internal;
} pl_recording;

/* How values of several ranks combine. */
typedef enum pl_join {
    PL_JOIN_SUM,       /* summed in double, rounded once */
    PL_JOIN_CONCAT,    /* concatenated along an axis */
    PL_JOIN_INTERLEAVE /* element i of rank r of n is element i * n + r */
} pl_join;

pl_status pl_recording_open(const char *path, pl_recording **out, pl_err *err);
/* From memory; `name` is used in messages. Files only, not folders. */
pl_status pl_recording_open_map(pl_file_map *map, const char *name, pl_recording **out,
                                pl_err *err);
void pl_recording_close(pl_recording *recording); /* tensors read stay valid; NULL is fine */
const pl_record *pl_recording_find(const pl_recording *recording, const char *key); /* or NULL */
/* Adds a record that is combined from others when it is read; keys are copied. */
pl_status pl_recording_join(pl_recording *recording, const char *key, pl_join how, int axis,
                            const char *const *parts, size_t n_parts, pl_err *err);
/* In place where the file allows. PL_E_NOT_FOUND when only statistics were recorded. */
/* For a file of raw elements (.bin): sets type and shape, known from elsewhere. Does nothing if the
 * number of bytes does not fit or the record has its own type. */
void pl_recording_retype(pl_recording *recording, const char *key, pl_dtype dtype, int rank,
                         const int64_t *dims);
pl_status pl_recording_read(const pl_recording *recording, const pl_record *record, pl_tensor **out,
                            pl_err *err);
/* Releases the memory of a record that was read in place and is not needed soon: its pages leave
 * this process and stay in the page cache. Tensors read from it stay valid. */
void pl_recording_forget(const pl_recording *recording, const pl_record *record);
/* Tensors, sequences and optionals. */
pl_status pl_recording_read_datum(const pl_recording *recording, const pl_record *record,
                                  pl_datum **out, pl_err *err);
/* Does a tensor that was read have the hash in its metadata? True if there is none. */
pl_status pl_recording_check_tensor(const pl_recording *recording, const pl_record *record,
                                    const pl_tensor *t, pl_err *err);
/* Reads everything, or one record with data, and compares the hashes. */
pl_status pl_recording_check_record(const pl_recording *recording, const pl_record *record,
                                    uint64_t *n_bytes, pl_err *err);
pl_status pl_recording_check(const pl_recording *recording, pl_err *err);

#endif
