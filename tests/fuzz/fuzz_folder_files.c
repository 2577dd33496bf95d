/* Fuzz target: small JSON files that plumb finds in folders: repro.json, an index of a store, the
 * metadata.json, dump.json and module_calls.txt of other tools' intermediates. They are read by
 * name, so they lie in a folder that is made once. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/minify/repro/repro.h"
#include "store/recording.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *root;
static char repro[4096], metadata[4096], folder[4096], dump[4096], dumps[4096], index_file[4096],
    store_dir[4096], steps[4096], calls[4096];

static void clean_up(void) {
    (void)pl_dir_remove(root, NULL);
    pl_free(root);
}

static void put(const char *path, const uint8_t *data, size_t size);

/* Two modules with an output each. */
static void set_up_steps(void) {
    static const char header[] =
        "{\"value\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}abcd";
    uint8_t file[8 + sizeof header - 1] = { sizeof header - 1 - 4 };
    char path[4400];
    memcpy(file + 8, header, sizeof header - 1);
    snprintf(steps, sizeof steps, "%s/step_0", root);
    snprintf(calls, sizeof calls, "%s/module_calls.txt", steps);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", steps, i == 0 ? "m" : "m_1");
        if (pl_path_make_dirs(path, NULL) != PL_OK) abort();
        snprintf(path, sizeof path, "%s/%s/outputs_cuda_%d.pt", steps, i == 0 ? "m" : "m_1", i);
        put(path, file, sizeof file);
    }
}

static void set_up(void) {
    pl_store *store = NULL;
    if (root != NULL) return;
    if (pl_dir_temporary(&root, NULL) != PL_OK) abort();
    (void)atexit(clean_up);
    snprintf(repro, sizeof repro, "%s/repro.json", root);
    snprintf(folder, sizeof folder, "%s/x.aimodelintermediates", root);
    snprintf(metadata, sizeof metadata, "%s/metadata.json", folder);
    snprintf(store_dir, sizeof store_dir, "%s/store", root);
    snprintf(index_file, sizeof index_file, "%s/index/x.json", store_dir);
    snprintf(dumps, sizeof dumps, "%s/dumps", root);
    snprintf(dump, sizeof dump, "%s/dump.json", dumps);
    if (pl_path_make_dirs(folder, NULL) != PL_OK || pl_path_make_dirs(dumps, NULL) != PL_OK ||
        pl_store_open(store_dir, PL_STORE_WRITE, &store, NULL) != PL_OK)
        abort();
    pl_store_close(store);
    char dir[4200];
    snprintf(dir, sizeof dir, "%s/index", store_dir);
    if (pl_path_make_dirs(dir, NULL) != PL_OK) abort();
    set_up_steps();
}

/* Without the syncs of pl_file_write. */
static void put(const char *path, const uint8_t *data, size_t size) {
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

static void read_index(void) {
    pl_err err = PL_ERR_INIT;
    pl_store *store = NULL;
    pl_store_index index = { .arena = NULL };
    if (pl_store_open(store_dir, PL_STORE_READ, &store, &err) != PL_OK) abort();
    if (pl_store_index_read(store, "x", &index, &err) == PL_OK) pl_store_index_release(&index);
    pl_store_close(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pl_err err = PL_ERR_INIT;
    pl_repro_info info;
    pl_recording *rec = NULL;
    set_up();
    put(repro, data, size);
    put(metadata, data, size);
    put(index_file, data, size);
    put(dump, data, size);
    put(calls, data, size);
    pl_arena *arena = pl_arena_new();
    if (arena != NULL) (void)pl_repro_read_info(repro, arena, &info, &err);
    pl_arena_free(arena);
    read_index();
    if (pl_recording_open(folder, &rec, &err) == PL_OK) {
        for (size_t i = 0; i < rec->n_records; i++) {
            uint64_t n_bytes;
            if (rec->records[i].has_data)
                (void)pl_recording_check_record(rec, &rec->records[i], &n_bytes, &err);
        }
        pl_recording_close(rec);
        rec = NULL;
    }
    if (pl_recording_open(dumps, &rec, &err) == PL_OK) pl_recording_close(rec);
    if (pl_recording_open(steps, &rec, &err) == PL_OK) pl_recording_close(rec);
    return 0;
}
