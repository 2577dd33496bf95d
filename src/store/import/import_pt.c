/* Files of torch.save as recordings: the tensors in their order, named "a.b.0". A file that is one
 * tensor gives it the file's name. */
#include <string.h>

#include "store/recording_int.h"
#include "tensor/file/pt.h"

static const char *name_of_file(const pl_recording *rec) {
    const char *slash = strrchr(rec->path, '/'), *base = slash == NULL ? rec->path : slash + 1;
    const char *dot = strrchr(base, '.');
    const size_t n = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
    return pl_arena_strndup(rec->internal->arena, base, n);
}

static pl_status add_take(void *ctx, const char *name, pl_tensor *t, pl_err *err) {
    pl_recording *rec = ctx;
    if (*name == '\0') name = name_of_file(rec);
    if (name != NULL) return pl_recording_add_tensor_take(rec, name, t, 0, err);
    pl_tensor_unref(t);
    return pl_fail_memory(err, 1);
}

pl_status pl_import_pt(pl_recording *rec, pl_err *err) {
    pl_file_map *map = rec->internal->map;
    const pl_bytes bytes = { map->data, map->n_bytes };
    rec->format = "pt";
    return pl_pt_read(bytes, map, add_take, rec, err);
}
