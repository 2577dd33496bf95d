/* Private to src/store: shared by recorder.c and recorder_header.c. */
#ifndef PL_RECORDER_INT_H
#define PL_RECORDER_INT_H

#include "store/blob.h"
#include "store/recorder.h"

#define PL_RECORDING_VERSION_KEY "plumb.recording"
#define PL_RECORDING_VERSION "1"
#define PL_RECORDING_VALUES_KEY "plumb.values"
#define PL_RECORDING_PROVENANCE_KEY "plumb.provenance"
#define PL_RECORDING_GRAPH_KEY "plumb.graph"
#define PL_RECORDING_EXPORT_KEY "plumb.export" /* written by the PyTorch side only */

/* Where a tensor is stored. safetensors allows no gaps, and readers need every tensor aligned to
 * its elements. A tensor with a multiple of 8 bytes keeps the next one aligned and goes directly to
 * the file; others wait in one of three tails, by element size, and are appended at the end. */
enum { PL_PLACE_MAIN, PL_PLACE_4, PL_PLACE_2, PL_PLACE_1, PL_PLACE_COUNT, PL_PLACE_NONE };

typedef struct pl_recorded {
    const char *key;
    pl_record_info info;
    pl_type_kind kind;
    pl_dtype dtype;
    int rank;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    pl_hash128 hash;
    pl_stats stats;
    int place;
    uint64_t offset, n_bytes; /* in its place */
    const char **items;       /* SEQUENCE, OPTIONAL: keys */
    size_t n_items;
} pl_recorded;

typedef struct pl_recorder_layout {
    pl_recorded *const *records;
    size_t n_records;
    uint64_t starts[PL_PLACE_COUNT]; /* of each place in the data */
    const char *provenance, *graph;  /* or NULL */
    bool stats_only;
} pl_recorder_layout;

/* The JSON of the header, without length and padding. */
pl_status pl_recorder_header(const pl_recorder_layout *layout, pl_buf *out, pl_err *err);

#endif
