/* A folder step_N of vLLM's intermediate logging (vllm/v1/intermediates/intermediates_logging.py):
 * module_calls.txt has the modules in the order of their calls, "MODULE" or "MODULE_1" for the
 * second call; in a folder of that name lie inputs_0_DEVICE.pt, outputs_DEVICE.pt (outputs_0_…
 * where a module returns several; a key where it returns a dict) and post_fwd_inputs_0_DEVICE.pt,
 * each a tensor. DEVICE is cpu or cuda_0: the rank.
 *
 * A value is "MODULE" for the one output, else "MODULE_outputs_0", "MODULE_inputs_0"; "rank0/"
 * before it where there are several devices. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/strmap.h"
#include "store/recording_int.h"

static const char calls[] = "module_calls.txt";

bool pl_import_is_vllm(const pl_dir *dir) {
    return pl_dir_look(dir, calls, NULL) != PL_KIND_NONE;
}

/* The part of a file's name before the device, and the device's number (0 for cpu). */
static bool split_device(const char *file, size_t *n_part, long *device) {
    const size_t n = strlen(file) - strlen(".pt");
    size_t end = n;
    while (end > 0 && isdigit((unsigned char)file[end - 1]))
        end--;
    *device = end < n && n - end < 6 ? strtol(file + end, NULL, 10) : 0;
    if (end < n && end > 0 && file[end - 1] == '_')
        end--; /* of "cuda_0" */
    else
        end = n;
    while (end > 0 && file[end - 1] != '_')
        end--;
    *n_part = end > 0 ? end - 1 : 0;
    return *n_part > 0;
}

static pl_status add_file(pl_recording *rec, const char *module, const char *file, bool ranks,
                          pl_err *err) {
    pl_arena *arena = rec->internal->arena;
    pl_recording *nested = NULL;
    size_t n = 0;
    long device = 0;
    if (!pl_path_has_suffix(file, ".pt") || !split_device(file, &n, &device)) return PL_OK;
    const char *path = pl_arena_printf(arena, "%s/%s", module, file);
    const char *rank = ranks ? pl_arena_printf(arena, "rank%ld/", device) : "";
    if (path == NULL || rank == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_import_nested(rec, path, &nested, err));
    if (nested->n_records != 1)
        return pl_fail(err, PL_E_FORMAT, "%s holds %zu tensors, expected one", path,
                       nested->n_records);
    const bool output = n == strlen("outputs") && memcmp(file, "outputs", n) == 0;
    const char *key = output ? pl_arena_printf(arena, "%s%s", rank, module)
                             : pl_arena_printf(arena, "%s%s_%.*s", rank, module, (int)n, file);
    return pl_import_nested_record(rec, key, nested, &nested->records[0], err);
}

static pl_status add_module(pl_recording *rec, const char *module, bool ranks, pl_err *err) {
    pl_dir_list files = { NULL, 0 };
    pl_status st = PL_OK;
    PL_TRY(pl_dir_names(rec->internal->dir, module, &files, err));
    for (size_t i = 0; i < files.n_names && st == PL_OK; i++)
        st = add_file(rec, module, files.names[i], ranks, err);
    pl_dir_list_free(&files);
    return st;
}

/* Does any module have files of two devices? */
static pl_status has_ranks(pl_recording *rec, const char *module, bool *out, pl_err *err) {
    pl_dir_list files = { NULL, 0 };
    long first = -1, device = 0;
    size_t n = 0;
    PL_TRY(pl_dir_names(rec->internal->dir, module, &files, err));
    for (size_t i = 0; i < files.n_names; i++) {
        if (!pl_path_has_suffix(files.names[i], ".pt") ||
            !split_device(files.names[i], &n, &device))
            continue;
        *out = *out || (first >= 0 && device != first);
        first = device;
    }
    pl_dir_list_free(&files);
    return PL_OK;
}

/* The next line of the list of calls: the name of a folder in this one; NULL at the end. A name
 * that was there before is passed over: vLLM writes each once, and a stranger's list may be long.
 */
static pl_status next_module(pl_recording *rec, pl_strmap *seen, const char **p, const char *end,
                             const char **out, pl_err *err) {
    *out = NULL;
    while (*p < end) {
        const char *line = memchr(*p, '\n', (size_t)(end - *p));
        const size_t n = (size_t)((line == NULL ? end : line) - *p);
        const bool again = pl_strmap_get_n(seen, *p, n) != NULL;
        const char *name = again ? NULL : pl_arena_strndup(rec->internal->arena, *p, n);
        *p += n + (line != NULL);
        if (again) continue;
        if (name == NULL) return pl_fail_memory(err, n);
        if (strlen(name) != n || strchr(name, '/') != NULL || name[0] == '.')
            return pl_fail(err, PL_E_FORMAT, "%s names something that is no module", calls);
        if (pl_strmap_put(seen, name, seen) != 0) return pl_fail_memory(err, n);
        if (n == 0 || pl_dir_look(rec->internal->dir, name, NULL) != PL_KIND_FOLDER) continue;
        *out = name;
        return PL_OK;
    }
    return PL_OK;
}

pl_status pl_import_vllm(pl_recording *rec, pl_err *err) {
    pl_file_map *map = NULL;
    bool ranks = false;
    pl_status st = PL_OK;
    rec->format = "vllm";
    PL_TRY(pl_dir_map(rec->internal->dir, calls, &map, err));
    const char *begin = (const char *)map->data, *end = begin + map->n_bytes;
    for (int pass = 0; pass < 2 && st == PL_OK; pass++) {
        const char *p = begin, *module = NULL;
        pl_strmap seen = PL_STRMAP_INIT;
        do {
            st = next_module(rec, &seen, &p, end, &module, err);
            if (st != PL_OK || module == NULL) break;
            st = pass == 0 ? has_ranks(rec, module, &ranks, err)
                           : add_module(rec, module, ranks, err);
        } while (st == PL_OK);
        pl_strmap_release(&seen);
    }
    pl_file_map_unref(map);
    return st;
}
