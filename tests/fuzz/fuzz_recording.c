/* Fuzz target: recordings in one file (plumb's, safetensors, npz, Polygraphy JSON); every record is
 * read and every byte of it hashed, and the name of a blob is parsed. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "store/blob.h"
#include "store/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_name(const uint8_t *data, size_t size) {
    char name[100] = { 0 }, again[PL_BLOB_NAME_MAX];
    pl_blob blob;
    memcpy(name, data, size < sizeof name - 1 ? size : sizeof name - 1);
    if (!pl_blob_parse(name, &blob)) return;
    pl_blob_name(&blob, again);
    if (strcmp(name, again) != 0) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_recording *rec = NULL;
    pl_file_map map = {
        data, size, NULL, 1, false, NULL
    }; /* lives here: its count never reaches 0 */
    read_name(data, size);
    if (pl_recording_open_map(&map, "fuzz", &rec, &err) != PL_OK) return 0;
    for (size_t i = 0; i < rec->n_records; i++) {
        pl_datum *d = NULL;
        uint64_t n_bytes;
        if (pl_recording_read_datum(rec, &rec->records[i], &d, &err) == PL_OK) pl_datum_unref(d);
        if (rec->records[i].has_data)
            (void)pl_recording_check_record(rec, &rec->records[i], &n_bytes, &err);
        if (pl_recording_find(rec, rec->records[i].key) != &rec->records[i]) __builtin_trap();
    }
    pl_recording_close(rec);
    return 0;
}
