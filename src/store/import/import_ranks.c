/* A folder with one recording for each rank of a tensor- or pipeline-parallel run: files or folders
 * whose names have "rank" and a number ("rank0.safetensors", "tp_rank_1.pt", "rank-2/"). The values
 * of rank 3 are "rank3/NAME"; a map says how they combine (docs/formats/map.md). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "store/recording_int.h"

enum { RANKS_MAX = 4096 };

/* "TP_1", a folder of TensorRT-LLM's Python runtime (generation.py, dump_debug_buffers):
 * tllm_debug/ PP_0/TP_1/NAME.npy. Its executor (debugUtils.cpp) writes
 * PP_2/TP_4/iteration_7/NAME.npy with the numbers of ranks, not the rank: a folder of npy files,
 * which all ranks overwrite. */
static int tensor_rank_of(const char *name) {
    const size_t n = strlen(name);
    if (n < 4 || n > 7 || strncmp(name, "TP_", 3) != 0) return -1;
    if (strspn(name + 3, "0123456789") != n - 3) return -1;
    return (int)strtol(name + 3, NULL, 10);
}

/* The number behind "rank", "rank_", "rank-" or "rank="; -1 when there is none. */
int pl_import_number_of(const char *name) {
    if (tensor_rank_of(name) >= 0) return tensor_rank_of(name);
    for (const char *s = strstr(name, "rank"); s != NULL; s = strstr(s + 1, "rank")) {
        const char *digits = s + 4 + (strchr("_-=", s[4]) != NULL && s[4] != '\0');
        int n = 0;
        if (!isdigit((unsigned char)*digits)) continue;
        for (; isdigit((unsigned char)*digits) && n < RANKS_MAX; digits++)
            n = 10 * n + (*digits - '0');
        return n < RANKS_MAX ? n : -1;
    }
    return -1;
}

int pl_import_rank_of(const pl_dir *dir, const char *name) {
    static const char *const files[] = { ".safetensors", ".pt", ".pth", ".npz", ".gguf" };
    bool is_one = pl_dir_look(dir, name, NULL) == PL_KIND_FOLDER;
    for (size_t k = 0; k < sizeof files / sizeof *files; k++)
        is_one = is_one || pl_path_has_suffix(name, files[k]);
    return is_one ? pl_import_number_of(name) : -1;
}

bool pl_import_is_ranks(const pl_dir *dir, const pl_dir_list *names) {
    size_t n = 0;
    for (size_t i = 0; i < names->n_names; i++)
        n += pl_import_rank_of(dir, names->names[i]) >= 0;
    return n >= 2;
}

static void close_nested(void *rec) {
    pl_recording_close(rec);
}

/* Folders are one level deep: dump.json of a stranger may name its own folder. */
pl_status pl_import_nested(pl_recording *rec, const char *name, pl_recording **out, pl_err *err) {
    if (rec->internal->is_nested && pl_dir_look(rec->internal->dir, name, NULL) == PL_KIND_FOLDER)
        return pl_fail(err, PL_E_FORMAT, "'%s' is a directory, expected a file", name);
    PL_TRY(pl_recording_open_in(rec->internal->dir, name, out, err));
    if (pl_arena_defer(rec->internal->arena, close_nested, *out) == 0) return PL_OK;
    pl_recording_close(*out);
    *out = NULL;
    return pl_fail_memory(err, 1);
}

pl_status pl_import_nested_record(pl_recording *rec, const char *key, const pl_recording *nested,
                                  const pl_record *from, pl_err *err) {
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_NESTED);
    pl_record *r = key == NULL || source == NULL ? NULL : pl_recording_add(rec, key, err);
    if (r == NULL) return pl_fail_memory(err, 1);
    const char *unique = r->key, *value = r->value;
    const int64_t call = r->call;
    source->nested = nested;
    source->record = from;
    *r = *from;
    r->key = unique;
    r->value = value;
    r->call = call;
    r->stands_for = NULL; /* a part of a value is not the value */
    r->n_stands_for = 0;
    r->source = source;
    return PL_OK;
}

pl_status pl_import_rank(pl_recording *rec, int rank, const char *name, pl_err *err) {
    pl_recording *nested = NULL;
    PL_TRY(pl_import_nested(rec, name, &nested, err));
    for (size_t i = 0; i < nested->n_records; i++) {
        const pl_record *r = &nested->records[i];
        if (r->kind != PL_TYPE_TENSOR) continue;
        const char *key = pl_arena_printf(rec->internal->arena, "rank%d/%s", rank, r->key);
        PL_TRY(pl_import_nested_record(rec, key, nested, r, err));
    }
    return PL_OK;
}

pl_status pl_import_ranks(pl_recording *rec, const pl_dir_list *names, pl_err *err) {
    unsigned char *seen = pl_arena_array(rec->internal->arena, RANKS_MAX, 1);
    rec->format = "ranks";
    if (seen == NULL) return pl_fail_memory(err, RANKS_MAX);
    for (size_t i = 0; i < names->n_names; i++) {
        const int rank = pl_import_number_of(names->names[i]);
        if (rank < 0) continue;
        if (seen[rank]++ != 0)
            return pl_fail(err, PL_E_FORMAT, "two files of rank %d; the second is %s", rank,
                           names->names[i]);
        PL_TRY(pl_import_rank(rec, rank, names->names[i], err));
    }
    return PL_OK;
}
