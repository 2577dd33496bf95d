/* npz archives as recordings: the entries in their order, stored ones in place. */
#include "store/recording_int.h"
#include "tensor/file/npz.h"

static pl_status add_take(void *ctx, const char *name, pl_tensor *t, pl_err *err) {
    return pl_recording_add_tensor_take(ctx, name, t, 0, err);
}

pl_status pl_import_npz(pl_recording *rec, pl_err *err) {
    pl_file_map *map = rec->internal->map;
    const pl_bytes bytes = { map->data, map->n_bytes };
    rec->format = "npz";
    return pl_npz_read(bytes, map, add_take, rec, err);
}
