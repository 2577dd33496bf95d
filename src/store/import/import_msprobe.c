/* A folder of MindStudio's msprobe (task "tensor"; DataWriter in msprobe/core/dump/data_dump/
 * json_writer.py): dump.json names every API or module call in the
 * order of the run, and the file of each of its input and output tensors, .pt or .npy, in
 * dump_tensor_data/; debug.json has those of level "debug", in the same form. A value is the name
 * of its file, "Functional.linear.0.forward.output.0"; those of several ranks lie in folders rank0,
 * rank1, … (import_ranks.c). */
#include <string.h>

#include "store/recording_int.h"

#define DATA_DIR "dump_tensor_data/"

static pl_status add_file(pl_recording *rec, const pl_json_value *name, pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    pl_recording *nested = NULL;
    if (name->kind != PL_JSON_STRING || strlen(name->string) != name->n_string)
        return pl_fail(err, PL_E_FORMAT, "'data_name' is not the name of a file");
    const char *dot = strrchr(name->string, '.');
    const char *path = pl_arena_printf(arena, DATA_DIR "%s", name->string);
    if (path == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_import_nested(rec, path, &nested, err));
    if (nested->n_records != 1)
        return pl_fail(err, PL_E_FORMAT, "%s holds %zu tensors, expected one", path,
                       nested->n_records);
    const size_t n = dot == NULL ? name->n_string : (size_t)(dot - name->string);
    const char *key = pl_arena_strndup(arena, name->string, n);
    return pl_import_nested_record(rec, key, nested, &nested->records[0], err);
}

/* Tensors are in nested lists and objects; the JSON reader limits their depth. */
static pl_status add_below(pl_recording *rec, const pl_json_value *v, pl_err *err) {
    if (v->kind != PL_JSON_OBJECT && v->kind != PL_JSON_ARRAY) return PL_OK;
    const pl_json_value *name = v->kind == PL_JSON_OBJECT ? pl_json_find(v, "data_name") : NULL;
    if (name != NULL) return add_file(rec, name, err);
    for (const pl_json_value *item = v->first; item != NULL; item = item->next)
        PL_TRY(add_below(rec, item, err));
    return PL_OK;
}

bool pl_import_is_msprobe(const pl_dir *dir) {
    return pl_dir_look(dir, "dump.json", NULL) != PL_KIND_NONE ||
           (pl_dir_look(dir, "debug.json", NULL) != PL_KIND_NONE &&
            pl_dir_look(dir, "dump_tensor_data", NULL) == PL_KIND_FOLDER);
}

pl_status pl_import_msprobe(pl_recording *rec, pl_err *err) {
    pl_file_map *map = NULL;
    const pl_json_value *root = NULL;
    const pl_dir *dir = rec->internal->dir;
    const bool is_dump = pl_dir_look(dir, "dump.json", NULL) != PL_KIND_NONE;
    const char *name = is_dump ? "dump.json" : "debug.json";
    rec->format = "msprobe";
    PL_TRY(pl_dir_map(dir, name, &map, err));
    pl_status st =
        pl_json_read((const char *)map->data, map->n_bytes, rec->internal->arena, &root, err);
    pl_file_map_unref(map);
    const pl_json_value *data = st == PL_OK ? pl_json_find(root, "data") : NULL;
    if (st == PL_OK && (data == NULL || data->kind != PL_JSON_OBJECT))
        st = pl_fail(err, PL_E_FORMAT, "'data' is missing or not an object");
    if (st == PL_OK) st = add_below(rec, data, err);
    if (st == PL_OK && rec->n_records == 0)
        st = pl_fail(err, PL_E_UNSUPPORTED,
                     "it has no tensors, only statistics; dump with task \"tensor\"");
    return st == PL_OK ? st : pl_err_wrap(err, st, "%s", name);
}
