/* GGUF files as recordings: the tensors in their order; blocks become float when they are read. */
#include <string.h>

#include "store/recording_int.h"

static pl_status add_entry(pl_recording *rec, const pl_gguf_entry *e, pl_err *err) {
    pl_record_source *source = pl_recording_source(rec, PL_SOURCE_GGUF);
    if (source == NULL) return pl_fail_memory(err, sizeof *source);
    source->gguf = e;
    pl_record *r = pl_recording_add(rec, e->name, err);
    if (r == NULL) return PL_E_MEMORY;
    r->has_shape = true;
    r->dtype = e->type->dtype;
    r->rank = e->rank;
    memcpy(r->dims, e->dims, sizeof r->dims);
    pl_dims_strides(r->rank, r->dims, r->strides);
    r->source = source;
    r->has_data = true;
    return PL_OK;
}

pl_status pl_import_gguf(pl_recording *rec, pl_err *err) {
    rec->format = "gguf";
    PL_TRY(pl_gguf_open(rec->internal->map, &rec->internal->gguf, err));
    const pl_gguf *file = rec->internal->gguf;
    for (size_t i = 0; i < file->n_entries; i++)
        PL_TRY(add_entry(rec, &file->entries[i], err));
    return PL_OK;
}
