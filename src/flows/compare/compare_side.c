#include "flows/compare/compare_side.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"
#include "tensor/file/safetensors.h"

bool pl_compare_is_model(const char *path) {
    return (pl_path_has_suffix(path, ".onnx") || pl_path_has_suffix(path, ".onnxtxt")) &&
           !pl_path_is_dir(path);
}

pl_status pl_compare_side_open(pl_compare_side *side, const char *path, pl_err *err) {
    *side = (pl_compare_side){ .path = path, .is_model = pl_compare_is_model(path) };
    if (!side->is_model) return pl_recording_open(path, &side->recording, err);
    return plumb_model_open(path, &side->model, err);
}

void pl_compare_side_release(pl_compare_side *side) {
    pl_recording_close(side->recording);
    plumb_model_close(side->model);
    *side = (pl_compare_side){ .path = NULL };
}

/* The file is unlinked as soon as it is mapped, so nothing is left behind. */
pl_status pl_compare_side_record(pl_compare_side *side, const plumb_record_options *options,
                                 const pl_recording *inputs_from, pl_buf *notes, pl_err *err) {
    char *dir = NULL, *path = NULL;
    plumb_record_options o = *options;
    PL_TRY(pl_dir_temporary(&dir, err));
    path = pl_path_join(dir, "run.safetensors");
    pl_status st = path == NULL ? pl_fail_memory(err, 1) : PL_OK;
    o.output = path;
    pl_record_job job = {
        .m = side->model, .model = side->model->model, .options = &o, .inputs_from = inputs_from
    };
    if (st == PL_OK) st = pl_record_run(&job, err);
    if (st == PL_OK) st = pl_recording_open(path, &side->recording, err);
    if (st == PL_OK && notes != NULL) {
        if (!pl_buf_ok(&job.notes)) notes->failed = true;
        pl_buf_append(notes, pl_buf_str(&job.notes), job.notes.n_bytes);
        if (inputs_from != NULL && job.n_inputs_taken < job.model->graph->n_inputs)
            pl_buf_printf(
                notes, "%zu of %zu inputs of %s are in the other recording; the rest were %s\n",
                job.n_inputs_taken, job.model->graph->n_inputs, side->path,
                o.inputs->n_files + o.inputs->n_sets > 0 ? "given or generated" : "generated");
    }
    if (st != PL_OK) st = pl_err_wrap(err, st, "%s", side->path);
    pl_record_release(&job);
    (void)pl_dir_remove(dir, NULL);
    pl_free(path);
    pl_free(dir);
    return st;
}

/* ---- describing ---- */

static const char *text_of(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->kind == PL_JSON_STRING ? v->string : "";
}

/* Hash of the header of a safetensors file, which has the hash of every tensor if plumb wrote it;
 * else of all bytes. A folder has none. */
static pl_status hash_of(const pl_compare_side *side, pl_arena *arena, const char **out,
                         pl_err *err) {
    pl_file_map *map = NULL;
    char hex[PL_HASH128_HEX];
    uint64_t n = 0;
    *out = "";
    if (side->is_model || pl_path_is_dir(side->path)) return PL_OK;
    PL_TRY(pl_file_map_open(side->path, &map, err));
    size_t n_bytes = map->n_bytes;
    if (pl_safetensors_sniff(map->data, map->n_bytes)) {
        memcpy(&n, map->data, sizeof n);
        if (n < map->n_bytes - sizeof n) n_bytes = (size_t)n + sizeof n;
    }
    pl_hash128_hex(pl_hash128_of(map->data, n_bytes), hex);
    pl_file_map_unref(map);
    *out = pl_arena_strdup(arena, hex);
    return *out == NULL ? pl_fail_memory(err, sizeof hex) : PL_OK;
}

pl_status pl_compare_side_describe(const pl_compare_side *side, pl_session *s, pl_side_info *out,
                                   pl_err *err) {
    const pl_json_value *root = NULL;
    const char *provenance = side->recording->provenance;
    /* Absolute: the session is read from anywhere. */
    char *real = realpath(side->path, NULL);
    const char *path = pl_arena_strdup(s->arena, real != NULL ? real : side->path);
    free(real); /* allocated by libc */
    if (path == NULL) return pl_fail_memory(err, strlen(side->path));
    *out = (pl_side_info){ .backend = side->recording->format,
                           .spec = "",
                           .version = "",
                           .path = path,
                           .hash = "",
                           .failure = "",
                           .cpu = "",
                           .sandbox = "",
                           .device = "",
                           .precision_profile = "" };
    PL_TRY(hash_of(side, s->arena, &out->hash, err));
    out->backend = pl_arena_strdup(s->arena, side->recording->format);
    if (out->backend == NULL) return pl_fail_memory(err, 1);
    if (provenance == NULL) return PL_OK;
    const pl_status st = pl_json_read(provenance, strlen(provenance), s->arena, &root, NULL);
    if (st == PL_E_MEMORY) return pl_fail_memory(err, strlen(provenance));
    if (st != PL_OK) return PL_OK; /* made by another tool: no facts about the tensors */
    if (*text_of(root, "backend") != '\0') out->backend = text_of(root, "backend");
    out->version = text_of(root, "backend_version");
    out->cpu = text_of(root, "cpu_features");
    out->spec = text_of(pl_json_find(root, "options"), "spec");
    if (*s->model_path == '\0') {
        s->model_path = side->is_model ? path : text_of(root, "model");
        s->model_hash = text_of(root, "model_hash");
        if (side->is_model) s->model_nodes = side->model->model->graph->n_nodes;
    }
    return PL_OK;
}
