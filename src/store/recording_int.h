/* Private to src/store: shared by recording.c and the importers. An importer adds records; the
 * source of a record says how to read its bytes later. */
#ifndef PL_RECORDING_INT_H
#define PL_RECORDING_INT_H

#include "base/arena.h"
#include "base/door.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/strmap.h"
#include "store/recording.h"
#include "store/recording_pieces.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"

typedef enum pl_source_kind {
    PL_SOURCE_SAFETENSORS,
    PL_SOURCE_TENSOR, /* in memory */
    PL_SOURCE_FILE,   /* one tensor file: npy or pb */
    PL_SOURCE_RAW,    /* a file of raw elements; the record has type and shape */
    PL_SOURCE_BASE64, /* an npy file in base64 */
    PL_SOURCE_GGUF,
    PL_SOURCE_NESTED, /* a record of a nested recording: one rank's */
    PL_SOURCE_REMOTE, /* of a piece that lies out of reach */
    PL_SOURCE_JOINED  /* combined from other records of this recording */
} pl_source_kind;

typedef struct pl_record_source {
    pl_source_kind kind;
    const pl_safetensors_entry *entry; /* SAFETENSORS */
    const pl_gguf_entry *gguf;         /* GGUF */
    pl_tensor *tensor;                 /* TENSOR; the recording owns a reference */
    const char *path;                  /* FILE, RAW; NULL = the recording itself */
    pl_dtype cast_to;                  /* FILE: the type it had before npy; else PL_UNDEFINED */
    const char *text;                  /* BASE64 */
    size_t n_text;
    const pl_recording *nested; /* NESTED */
    const pl_record *record;
    const unsigned char *owners; /* NESTED, REMOTE: recording_pieces.h; NULL = all. REMOTE: path is
                                    the key */
    pl_join join;                /* JOINED */
    int axis;
    const char *const *parts; /* keys */
    size_t n_parts;
} pl_record_source;

struct pl_recording_int {
    pl_arena *arena;
    pl_file_map *map; /* or NULL */
    pl_dir *dir;      /* a folder of files; or NULL */
    pl_safetensors *safetensors;
    pl_gguf *gguf;
    pl_strmap by_key;    /* -> index + 1 */
    pl_strmap next_call; /* key that occurred before -> int64_t */
    size_t capacity;
    bool is_nested;       /* in a folder of ranks */
    pl_piece_fetch fetch; /* of pieces out of reach */
};

/* Empty, with this path. */
pl_status pl_recording_new(const char *path, pl_recording **out, pl_err *err);
/* A new record with this key and value; a key that is taken gets #1, #2, …, and `call` with it.
 * NULL when out of memory. Strings are copied. Pointers to records are valid until the next
 * call. */
pl_record *pl_recording_add(pl_recording *rec, const char *key, pl_err *err);
/* The same with a tensor, whose reference it takes, also on failure. */
pl_status pl_recording_add_tensor_take(pl_recording *rec, const char *key, pl_tensor *t,
                                       unsigned flags, pl_err *err);
pl_record_source *pl_recording_source(pl_recording *rec, pl_source_kind kind); /* or NULL */

pl_status pl_import_npz(pl_recording *rec, pl_err *err);
pl_status pl_import_pt(pl_recording *rec, pl_err *err);
pl_status pl_import_gguf(pl_recording *rec, pl_err *err);
bool pl_import_is_polygraphy(const void *data, size_t n_bytes);
pl_status pl_import_polygraphy(pl_recording *rec, pl_err *err);
/* One npy file, or one of raw elements; the record has the name of the file. */
pl_status pl_import_one_file(pl_recording *rec, pl_err *err);
pl_status pl_import_folder(pl_recording *rec, pl_err *err);
/* A folder of one recording for each rank: NAME of rank 0 is "rank0/NAME". */
bool pl_import_is_ranks(const pl_dir *dir, const pl_dir_list *names);
pl_status pl_import_ranks(pl_recording *rec, const pl_dir_list *names, pl_err *err);
/* The number of a rank's recording in the folder, by its name; -1: it is none. The second does not
 * look at the file. */
int pl_import_rank_of(const pl_dir *dir, const char *name);
int pl_import_number_of(const char *name);
pl_status pl_import_rank(pl_recording *rec, int rank, const char *name, pl_err *err);
/* Opens a recording in the folder of `rec`, which closes it at the end; and adds one of its records
 * under a key of its own (NULL = out of memory). */
pl_status pl_import_nested(pl_recording *rec, const char *name, pl_recording **out, pl_err *err);
pl_status pl_import_nested_record(pl_recording *rec, const char *key, const pl_recording *nested,
                                  const pl_record *from, pl_err *err);
/* A folder of SGLang's dumper; llama-perplexity's file of log-probabilities. */
bool pl_import_is_sglang(const pl_dir_list *names);
pl_status pl_import_sglang(pl_recording *rec, const pl_dir_list *names, pl_err *err);
bool pl_import_is_msprobe(const pl_dir *dir); /* a folder with dump.json or debug.json, and data */
pl_status pl_import_msprobe(pl_recording *rec, pl_err *err);
bool pl_import_is_hf_debug(const pl_dir_list *names);
pl_status pl_import_hf_debug(pl_recording *rec, const pl_dir_list *names, pl_err *err);
bool pl_import_is_vllm(const pl_dir *dir); /* a folder with module_calls.txt */
pl_status pl_import_vllm(pl_recording *rec, pl_err *err);
bool pl_import_is_llama_logits(const void *data, size_t n_bytes);
pl_status pl_import_llama_logits(pl_recording *rec, pl_err *err);
/* A recording inside a folder; folders in it are not opened as ranks again. */
pl_status pl_recording_open_in(const pl_dir *dir, const char *name, pl_recording **out,
                               pl_err *err);
pl_status pl_joined_read(const pl_recording *rec, const pl_record_source *source, pl_tensor **out,
                         pl_err *err);
/* recording_pieces.c */
pl_status pl_remote_read(const pl_recording *rec, const pl_record_source *source, pl_tensor **out,
                         pl_err *err);
pl_status pl_import_base64(const pl_record_source *source, pl_tensor **out, pl_err *err);

#endif
