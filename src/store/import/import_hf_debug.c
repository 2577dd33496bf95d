/* A folder of Hugging Face's model_addition_debugger_context(use_repr=False)
 * (transformers/model_debugging_utils.py): CLASS_debug_tree_FULL_TENSORS.json, and for every tensor
 * a safetensors file with the one key "data", "CLASS.MODULE_inputs_args_0.safetensors",
 * "CLASS.MODULE_outputs.safetensors"; "_outputs_0", … where a module returns several. The first and
 * last layers are in the JSON (do_prune_layers), but all have files, so the files are read. A
 * module that is called again overwrites its file.
 *
 * A value is the module's path without the class for its output, and as in the file's name for the
 * rest: "model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj_inputs_args_0". */
#include <string.h>

#include "store/recording_int.h"

static const char tree[] = "_debug_tree_FULL_TENSORS.json", suffix[] = ".safetensors";

/* The class, as the name of the tree says; NULL when there is none. */
static const char *tree_of(const pl_dir_list *names) {
    for (size_t i = 0; i < names->n_names; i++)
        if (pl_path_has_suffix(names->names[i], tree)) return names->names[i];
    return NULL;
}

bool pl_import_is_hf_debug(const pl_dir_list *names) {
    return tree_of(names) != NULL;
}

static pl_status add_file(pl_recording *rec, const char *file, size_t n_class, pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    pl_recording *nested = NULL;
    size_t n = strlen(file) - strlen(suffix);
    const char *name = file;
    PL_TRY(pl_import_nested(rec, file, &nested, err));
    if (nested->n_records != 1)
        return pl_fail(err, PL_E_FORMAT, "%s holds %zu tensors, expected one", file,
                       nested->n_records);
    const size_t skip =
        name[n_class] == '.' ? n_class + 1 : 0; /* else the model's own in- and outputs */
    if (skip < n) {
        name += skip;
        n -= skip;
    }
    static const char outputs[] = "_outputs";
    if (n > strlen(outputs) && memcmp(name + n - strlen(outputs), outputs, strlen(outputs)) == 0)
        n -= strlen(outputs);
    const char *key = pl_arena_strndup(arena, name, n);
    return pl_import_nested_record(rec, key, nested, &nested->records[0], err);
}

pl_status pl_import_hf_debug(pl_recording *rec, const pl_dir_list *names, pl_err *err) {
    const char *json = tree_of(names);
    const size_t n_class = strlen(json) - strlen(tree);
    rec->format = "hf-debug";
    for (size_t i = 0; i < names->n_names; i++) {
        const char *file = names->names[i];
        if (!pl_path_has_suffix(file, suffix)) continue;
        PL_TRY(add_file(rec, file, strncmp(file, json, n_class) == 0 ? n_class : 0, err));
    }
    if (rec->n_records > 0) return PL_OK;
    return pl_fail(err, PL_E_UNSUPPORTED,
                   "%s has the tensors as text only; run the debugger with use_repr=False", json);
}
