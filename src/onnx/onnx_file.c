/* A model by the path that the user typed: ONNX, or text by its suffix. */
#include <string.h>

#include "base/alloc.h"
#include "graph/text/text.h"
#include "onnx/not_onnx.h"
#include "onnx/onnx.h"

pl_status pl_model_read(const char *path, pl_model **out, pl_err *err) {
    pl_file_map *map = NULL;
    if (pl_path_is_dir(path))
        return pl_fail(err, PL_E_FORMAT, "%s is %s", path, pl_not_onnx_folder(path));
    PL_TRY(pl_file_map_open(path, &map, err));
    pl_status st = PL_OK;
    const char *other = pl_not_onnx(map->data, map->n_bytes, path, false);
    if (other != NULL) {
        st = pl_fail(err, PL_E_FORMAT, "%s is %s", path, other);
    } else if (pl_path_has_suffix(path, ".onnxtxt")) {
        st = pl_model_parse((const char *)map->data, map->n_bytes, path, out, err);
        if (st == PL_OK && ((*out)->path = pl_arena_strdup((*out)->arena, path)) == NULL) {
            pl_model_free(*out);
            st = pl_fail_memory(err, strlen(path));
        }
    } else {
        char *dir = pl_path_dirname(path);
        const pl_bytes bytes = { map->data, map->n_bytes };
        st = dir == NULL ? pl_fail_memory(err, strlen(path))
                         : pl_model_read_bytes(bytes, map, dir, path, out, err);
        pl_free(dir);
        other = st == PL_E_FORMAT ? pl_not_onnx(map->data, map->n_bytes, path, true) : NULL;
        if (other != NULL) st = pl_fail(err, PL_E_FORMAT, "%s is %s", path, other);
    }
    pl_file_map_unref(map);
    return st;
}
