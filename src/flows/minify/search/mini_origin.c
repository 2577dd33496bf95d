/* Candidates refer to weights in the original's file.
 *
 * The file gets a hard link in the folder of the queries (ONNX requires external data there, and no
 * symbolic links), so nothing is copied, however large. If that is impossible, on another file
 * system for example, weights are written once (mini_write.c). */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/wire.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_write.h"
#include "onnx/onnx_fields.h"

enum { TENSOR_NAME = 8, TENSOR_RAW_DATA = 9 };

static pl_status note_tensor(pl_mini_weights *w, const pl_graph *graph, const pl_file_map *map,
                             pl_bytes tensor, pl_err *err) {
    pl_wire wire = pl_wire_of(tensor);
    pl_wire_field field;
    const pl_value *v = NULL;
    pl_bytes raw = { NULL, 0 };
    while (pl_wire_next(&wire, &field)) {
        if (field.type != 2) continue;
        if (field.number == TENSOR_RAW_DATA) raw = field.bytes;
        if (field.number != TENSOR_NAME) continue;
        v = pl_strmap_get_n(&graph->by_name, (const char *)field.bytes.data, field.bytes.n_bytes);
    }
    if (v == NULL || v->init == NULL || raw.data == NULL) return PL_OK;
    return pl_mini_weights_note(w, v->init, raw.data - map->data, raw.n_bytes, err);
}

static pl_status note_graph(pl_mini_weights *w, const pl_graph *graph, const pl_file_map *map,
                            pl_err *err) {
    const pl_bytes all = { map->data, map->n_bytes };
    pl_wire model = pl_wire_of(all);
    pl_wire_field field, inner;
    while (pl_wire_next(&model, &field)) {
        if (field.number != MODEL_GRAPH || field.type != 2) continue;
        pl_wire content = pl_wire_of(field.bytes);
        while (pl_wire_next(&content, &inner))
            if (inner.number == GRAPH_INITIALIZER && inner.type == 2)
                PL_TRY(note_tensor(w, graph, map, inner.bytes, err));
    }
    return PL_OK;
}

pl_status pl_mini_weights_use_file(pl_mini_weights *w, const pl_mini_state *s, const char *dir,
                                   pl_err *err) {
    pl_file_map *map = NULL;
    if (s->file == NULL) return PL_OK;
    char *name = pl_path_join(dir, PL_ORIGINAL_FILE);
    if (name == NULL) return pl_fail_memory(err, 1);
    pl_status st = PL_OK;
    const bool linked = linkat(AT_FDCWD, s->file, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    if (linked && pl_file_map_open(name, &map, NULL) == PL_OK) {
        st = note_graph(w, s->model->graph, map, err);
    }
    pl_file_map_unref(map);
    pl_free(name);
    return st;
}
