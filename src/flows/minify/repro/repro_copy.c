/* ./repro, a copy of the newest checkpoint.
 *
 * The copy has a marker with the hash of everything plumb wrote. Only a folder whose marker still
 * matches is replaced. If it has added notes, is the user's own repro or has no marker, it stays,
 * and the copy goes to repro-2, repro-3… */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/hash.h"
#include "flows/minify/repro/repro_dump.h"

#define MARKER ".plumb-copy"
enum { DEPTH_MAX = 8, COPIES_MAX = 1000, MARKER_MAX = 64 };

/* Hashes names and bytes inside `name`; links and other kinds by name only. */
static pl_status hash_folder(const pl_dir *dir, const char *name, int depth, pl_hasher *hasher,
                             pl_err *err) {
    pl_dir_list list = { NULL, 0 };
    pl_status st = PL_OK;
    PL_TRY(pl_dir_names(dir, name, &list, err));
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (strcmp(list.names[i], MARKER) == 0) continue;
        char *inner =
            strcmp(name, ".") == 0 ? pl_strdup(list.names[i]) : pl_path_join(name, list.names[i]);
        pl_file_map *map = NULL;
        const pl_kind kind = inner == NULL ? PL_KIND_NONE : pl_dir_look(dir, inner, NULL);
        if (inner == NULL) st = pl_fail_memory(err, 1);
        if (st == PL_OK) pl_hasher_update(hasher, inner, strlen(inner) + 1);
        pl_hasher_update(hasher, &kind, sizeof kind);
        if (st == PL_OK && kind == PL_KIND_FILE) st = pl_dir_map(dir, inner, &map, err);
        if (map != NULL) {
            const uint64_t n = map->n_bytes;
            pl_hasher_update(hasher, &n, sizeof n);
            pl_hasher_update(hasher, map->data, map->n_bytes);
        }
        if (st == PL_OK && kind == PL_KIND_FOLDER && depth < DEPTH_MAX)
            st = hash_folder(dir, inner, depth + 1, hasher, err);
        pl_file_map_unref(map);
        pl_free(inner);
    }
    pl_dir_list_free(&list);
    return st;
}

static pl_status describe(const pl_dir *dir, char out[MARKER_MAX], pl_err *err) {
    char hex[PL_HASH128_HEX];
    pl_hasher *hasher = pl_hasher_new();
    if (hasher == NULL) return pl_fail_memory(err, 1);
    const pl_status st = hash_folder(dir, ".", 0, hasher, err);
    pl_hash128_hex(pl_hasher_digest(hasher), hex);
    pl_hasher_free(hasher);
    (void)snprintf(out, MARKER_MAX, "%s\n", hex);
    return st;
}

/* Does it contain exactly what plumb wrote? */
static bool is_own_copy(const char *path) {
    char now[MARKER_MAX] = "";
    pl_dir *dir = NULL;
    pl_file_map *map = NULL;
    bool own = pl_dir_open(path, &dir, NULL) == PL_OK &&
               pl_dir_map(dir, MARKER, &map, NULL) == PL_OK && describe(dir, now, NULL) == PL_OK;
    own = own && map->n_bytes == strlen(now) && memcmp(map->data, now, map->n_bytes) == 0;
    pl_file_map_unref(map);
    pl_dir_close(dir);
    return own;
}

static pl_status mark(const char *path, pl_err *err) {
    char text[MARKER_MAX];
    pl_dir *dir = NULL;
    PL_TRY(pl_dir_open(path, &dir, err));
    pl_status st = describe(dir, text, err);
    if (st == PL_OK) st = pl_dir_write(dir, MARKER, text, strlen(text), err);
    pl_dir_close(dir);
    return st;
}

pl_status pl_repro_copy(const pl_repro *r, char *name, size_t n_name, pl_err *err) {
    pl_buf notes = PL_BUF_INIT;
    char *part = NULL;
    pl_status st = pl_repro_stage(r, "repro", &notes, &part, err);
    pl_buf_release(&notes);
    if (st == PL_OK) st = mark(part, err);
    for (int k = 1; k < COPIES_MAX && st == PL_OK; k++) {
        (void)snprintf(name, n_name, k == 1 ? "repro" : "repro-%d", k);
        if (is_own_copy(name)) st = pl_dir_remove(name, err);
        if (st == PL_OK) st = pl_dir_publish(part, name, err);
        if (st != PL_E_EXISTS) break;
        st = PL_OK;
    }
    if (st != PL_OK && part != NULL) (void)pl_dir_remove(part, NULL);
    pl_free(part);
    return st;
}
