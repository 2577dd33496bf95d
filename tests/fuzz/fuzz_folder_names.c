/* Fuzz target: names of files in a folder, from which ranks, steps and names of values are read
 * (folders of ranks, SGLang's dumper, Hugging Face's model debugger). Each line of the input is a
 * name; every file is the same small safetensors. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "store/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES_MAX = 6, NAME_MAX_BYTES = 200 };

static char *root;

static void clean_up(void) {
    (void)pl_dir_remove(root, NULL);
    pl_free(root);
}

static void put(const char *path) {
    static const char header[] =
        "{\"value\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    const uint8_t length[8] = { sizeof header - 1 };
    FILE *f = fopen(path, "wb");
    if (f == NULL) return; /* a name that the file system refuses */
    if (fwrite(length, 1, 8, f) != 8 || fwrite(header, 1, sizeof header - 1, f) == 0 ||
        fwrite("abcd", 1, 4, f) != 4)
        abort();
    fclose(f);
}

static size_t put_files(const char *text, char paths[FILES_MAX][4096]) {
    size_t n = 0;
    for (const char *s = text; *s != '\0' && n < FILES_MAX;) {
        const size_t line = strcspn(s, "\n");
        char name[NAME_MAX_BYTES + 1] = "";
        memcpy(name, s, line < NAME_MAX_BYTES ? line : NAME_MAX_BYTES);
        for (char *p = name; *p != '\0'; p++)
            if (*p == '/') *p = '_';
        if (*name != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            snprintf(paths[n], sizeof paths[n], "%s/%s", root, name);
            put(paths[n++]);
        }
        s += line + (s[line] != '\0');
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char paths[FILES_MAX][4096];
    pl_err err = PL_ERR_INIT;
    pl_recording *rec = NULL;
    if (root == NULL) {
        if (pl_dir_temporary(&root, NULL) != PL_OK) abort();
        (void)atexit(clean_up);
    }
    char *text = pl_strndup((const char *)data, size);
    if (text == NULL) return 0;
    const size_t n = put_files(text, paths);
    if (pl_recording_open(root, &rec, &err) == PL_OK) {
        for (size_t i = 0; i < rec->n_records; i++) {
            pl_tensor *t = NULL;
            if (pl_recording_read(rec, &rec->records[i], &t, &err) == PL_OK) pl_tensor_unref(t);
            if (pl_recording_find(rec, rec->records[i].key) != &rec->records[i]) __builtin_trap();
        }
        pl_recording_close(rec);
    }
    for (size_t i = 0; i < n; i++)
        (void)remove(paths[i]);
    pl_free(text);
    return 0;
}
