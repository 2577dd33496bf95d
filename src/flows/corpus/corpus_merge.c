/* Merges the outputs of shards: journals, sessions and repros into one folder. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/threads.h"
#include "flows/corpus/corpus_run.h"

enum { DEPTH_MAX = 16, EXTENTS_MAX = 1000, HOLLOW = 1000 };
static const uint64_t hollow_least = 64 << 20;

/* A file of holes is small in a stranger's archive and fills our disk: refused when less than one
 * part in HOLLOW is data. */
static pl_status check_holes(const pl_dir *from, const char *name, pl_err *err) {
    uint64_t n_bytes = 0, n_data = 0;
    int fd = -1;
    (void)pl_dir_look(from, name, &n_bytes);
    if (n_bytes < hollow_least) return PL_OK;
    PL_TRY(pl_dir_open_file(from, name, &fd, err));
    off_t at = 0;
    for (int i = 0; i < EXTENTS_MAX && n_data < n_bytes / HOLLOW; i++) {
        const off_t begin = lseek(fd, at, SEEK_DATA), end = lseek(fd, begin, SEEK_HOLE);
        if (begin < 0 || end <= begin) break;
        n_data += (uint64_t)(end - begin);
        at = end;
    }
    close(fd);
    if (n_data >= n_bytes / HOLLOW) return PL_OK;
    return pl_fail(err, PL_E_LIMIT, "'%s/%s' has %llu bytes, nearly all of them holes",
                   pl_dir_path(from), name, (unsigned long long)n_bytes);
}

static pl_status copy_file(const pl_dir *from, const char *name, const pl_dir *to,
                           const char *new_name, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(check_holes(from, name, err));
    PL_TRY(pl_dir_map(from, name, &map, err));
    const pl_status st = pl_dir_write(to, new_name, map->data, map->n_bytes, err);
    pl_file_map_unref(map);
    return st;
}

/* Copies regular files and folders only; a shard may not be trusted. */
static pl_status copy_tree(const pl_dir *from, const pl_dir *to, const char *name, int depth,
                           pl_err *err) {
    const pl_kind kind = pl_dir_look(from, name, NULL);
    pl_status st = PL_OK;
    if (kind == PL_KIND_FILE) return copy_file(from, name, to, name, err);
    if (kind != PL_KIND_FOLDER || depth > DEPTH_MAX) return PL_OK;
    pl_dir_list names = { 0 };
    PL_TRY(pl_dir_make(to, name, err));
    PL_TRY(pl_dir_names(from, name, &names, err));
    for (size_t i = 0; st == PL_OK && i < names.n_names; i++) {
        char *inside = pl_path_join(name, names.names[i]);
        st = inside == NULL ? pl_fail_memory(err, 1) : copy_tree(from, to, inside, depth + 1, err);
        pl_free(inside);
    }
    pl_dir_list_free(&names);
    return st;
}

/* All must come from the same list: a shard of another one would leave gaps. */
static pl_status check_items(const pl_dir *from, const pl_dir *to, pl_err *err) {
    pl_file_map *a = NULL, *b = NULL;
    pl_status st = check_holes(from, PL_CORPUS_ITEMS, err);
    if (st == PL_OK) st = pl_dir_map(from, PL_CORPUS_ITEMS, &a, err);
    if (st == PL_OK && pl_dir_look(to, PL_CORPUS_ITEMS, NULL) == PL_KIND_NONE) {
        st = pl_dir_write(to, PL_CORPUS_ITEMS, a->data, a->n_bytes, err);
    } else if (st == PL_OK) {
        st = pl_dir_map(to, PL_CORPUS_ITEMS, &b, err);
        if (st == PL_OK &&
            (a->n_bytes != b->n_bytes || memcmp(a->data, b->data, a->n_bytes) != 0)) {
            st = pl_fail(err, PL_E_INVALID,
                         "'%s' has other models, backends or seeds than the shards before it",
                         pl_dir_path(from));
        }
    }
    pl_file_map_unref(a);
    pl_file_map_unref(b);
    return st;
}

/* Journals of folder k get a prefix: two shards may have used the same name. */
static pl_status copy_parts(const pl_dir *from, const pl_dir *to, size_t k, pl_err *err) {
    pl_dir_list names = { 0 };
    PL_TRY(pl_dir_names(from, "parts", &names, err));
    pl_status st = PL_OK;
    for (size_t i = 0; st == PL_OK && i < names.n_names; i++) {
        char source[600], target[640];
        if (!pl_path_has_suffix(names.names[i], ".jsonl") || strlen(names.names[i]) > 500) continue;
        (void)snprintf(source, sizeof source, "parts/%s", names.names[i]);
        (void)snprintf(target, sizeof target, "parts/%04zu-%s", k, names.names[i]);
        st = copy_file(from, source, to, target, err);
    }
    pl_dir_list_free(&names);
    return st;
}

static pl_status take_folder(const char *path, const pl_dir *to, size_t k, pl_err *err) {
    pl_dir *from = NULL;
    pl_dir_list names = { 0 };
    pl_status st = pl_dir_open(path, &from, err);
    if (st == PL_OK && pl_dir_look(from, PL_CORPUS_ITEMS, NULL) != PL_KIND_FILE)
        st = pl_fail(err, PL_E_NOT_FOUND, "'%s' is not the output of a shard", path);
    if (st == PL_OK) st = check_items(from, to, err);
    if (st == PL_OK) st = copy_parts(from, to, k, err);
    if (st == PL_OK) st = pl_dir_names(from, "items", &names, err);
    for (size_t i = 0; st == PL_OK && i < names.n_names; i++) {
        char name[300];
        if (!pl_corpus_is_key(names.names[i])) continue;
        (void)snprintf(name, sizeof name, "items/%s", names.names[i]);
        if (pl_dir_look(to, name, NULL) == PL_KIND_NONE) st = copy_tree(from, to, name, 0, err);
    }
    pl_dir_list_free(&names);
    pl_dir_close(from);
    return st;
}

static pl_status merge_into(const char *folder, const char *const *folders, size_t n_folders,
                            pl_err *err) {
    pl_dir *to = NULL;
    PL_TRY(pl_dir_open(folder, &to, err));
    pl_status st = pl_dir_make(to, "parts", err);
    if (st == PL_OK) st = pl_dir_make(to, "items", err);
    for (size_t i = 0; st == PL_OK && i < n_folders; i++)
        st = take_folder(folders[i], to, i, err);
    pl_dir_close(to);
    return st;
}

pl_status pl_corpus_merge(const char *const *folders, size_t n_folders, const pl_corpus_job *given,
                          pl_corpus **out, pl_err *err) {
    pl_corpus_job job = *given;
    char *staged = NULL;
    pl_dir *dir = NULL;
    pl_status st = PL_OK;
    *out = NULL;
    if (job.jobs <= 0) job.jobs = pl_pool_cpus();
    if (job.output == NULL && n_folders == 1) { /* shards that wrote to one folder */
        PL_TRY(pl_dir_open(folders[0], &dir, err));
        st = pl_corpus_finish(dir, &job, out, err);
        pl_dir_close(dir);
        return st;
    }
    if (job.output == NULL)
        return pl_fail(err, PL_E_USAGE, "merging several folders requires option 'output'");
    if (pl_path_exists(job.output))
        return pl_fail(err, PL_E_EXISTS, "'%s' already exists", job.output);
    PL_TRY(pl_dir_stage(job.output, &staged, err));
    st = merge_into(staged, folders, n_folders, err);
    if (st == PL_OK) st = pl_dir_publish(staged, job.output, err);
    if (st != PL_OK) {
        (void)pl_dir_remove(staged, NULL);
    } else {
        st = pl_dir_open(job.output, &dir, err);
        if (st == PL_OK) st = pl_corpus_finish(dir, &job, out, err);
    }
    pl_dir_close(dir);
    pl_free(staged);
    return st;
}
