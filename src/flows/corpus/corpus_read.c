/* Reads corpus.json, which may not be trusted: paths are built only from keys. */
#include <string.h>

#include "base/alloc.h"
#include "flows/corpus/corpus_json.h"
#include "flows/corpus/corpus_result.h"

/* Tables have a column for each backend. */
enum { BACKENDS_MAX = 256 };

bool pl_corpus_is(const char *folder) {
    pl_dir *dir = NULL;
    if (!pl_path_is_dir(folder) || pl_dir_open(folder, &dir, NULL) != PL_OK) return false;
    const bool yes = pl_dir_look(dir, PL_CORPUS_RESULT, NULL) == PL_KIND_FILE;
    pl_dir_close(dir);
    return yes;
}

static pl_status read_backends(pl_corpus *c, const pl_json_value *root, pl_err *err) {
    const pl_json_value *list = pl_member_list(root, "backends");
    const size_t n = list == NULL ? 0 : list->n_items;
    if (n > BACKENDS_MAX)
        return pl_fail(err, PL_E_LIMIT, "%zu backends (at most %d)", n, BACKENDS_MAX);
    c->backends = pl_arena_array(c->arena, n + 1, sizeof *c->backends);
    c->versions = pl_arena_array(c->arena, n + 1, sizeof *c->versions);
    if (c->backends == NULL || c->versions == NULL) return pl_fail_memory(err, n);
    for (const pl_json_value *v = n > 0 ? list->first : NULL; v != NULL; v = v->next) {
        c->versions[c->n_backends] = pl_member_text(v, "version");
        c->backends[c->n_backends++] = pl_member_text(v, "spec");
    }
    return PL_OK;
}

pl_status pl_corpus_read_also(const pl_json_value *v, pl_arena *arena, pl_corpus_group *out,
                              pl_err *err) {
    const pl_json_value *list = pl_member_list(v, "also");
    const size_t n = list == NULL ? 0 : list->n_items;
    out->n_also = 0;
    out->also = pl_arena_array(arena, n + 1, sizeof *out->also);
    if (out->also == NULL) return pl_fail_memory(err, n);
    for (const pl_json_value *x = n > 0 ? list->first : NULL; x != NULL; x = x->next)
        if (x->kind == PL_JSON_STRING) out->also[out->n_also++] = x->string;
    return PL_OK;
}

static pl_status read_group(pl_corpus *c, const pl_json_value *v, pl_corpus_group *g, pl_err *err) {
    const pl_json_value *on = pl_member_list(v, "on"), *models = pl_member_list(v, "models");
    *g = (pl_corpus_group){ .id = pl_member_text(v, "id"),
                            .name = pl_member_text(v, "name"),
                            .state = pl_member_text(v, "state"),
                            .bug = pl_bug_read(v),
                            .smallest = pl_member_text(v, "smallest"),
                            .repro_nodes = pl_member_count(v, "repro_nodes"),
                            .n_models = models == NULL ? 0 : models->n_items,
                            .n_before = pl_member_count(v, "cases_before"),
                            .n_confirmed = pl_member_count(v, "confirmed"),
                            .first_bad = pl_member_text(v, "first_bad"),
                            .last_good = pl_member_text(v, "last_good") };
    PL_TRY(pl_corpus_read_also(v, c->arena, g, err));
    g->on = pl_arena_array(c->arena, c->n_backends + 1, sizeof *g->on);
    if (g->on == NULL) return pl_fail_memory(err, c->n_backends);
    const pl_json_value *word = on == NULL ? NULL : on->first;
    for (size_t i = 0; i < c->n_backends; i++) {
        g->on[i] = word != NULL && word->kind == PL_JSON_STRING ? word->string : "";
        word = word == NULL ? NULL : word->next;
    }
    return PL_OK;
}

static pl_status read_groups(pl_corpus *c, const pl_json_value *root, pl_err *err) {
    const pl_json_value *list = pl_member_list(root, "groups"),
                        *gone = pl_member_list(root, "gone");
    const size_t n = list == NULL ? 0 : list->n_items, n_gone = gone == NULL ? 0 : gone->n_items;
    c->groups = pl_arena_array(c->arena, n + 1, sizeof *c->groups);
    c->gone = pl_arena_array(c->arena, n_gone + 1, sizeof *c->gone);
    if (c->groups == NULL || c->gone == NULL) return pl_fail_memory(err, n + n_gone);
    for (const pl_json_value *v = n > 0 ? list->first : NULL; v != NULL; v = v->next)
        PL_TRY(read_group(c, v, &c->groups[c->n_groups++], err));
    for (const pl_json_value *v = n_gone > 0 ? gone->first : NULL; v != NULL; v = v->next)
        c->gone[c->n_gone++] = (pl_corpus_gone){ pl_member_text(v, "id"), pl_member_text(v, "name"),
                                                 strcmp(pl_member_text(v, "state"), "fixed") == 0,
                                                 pl_member_count(v, "cases_before") };
    return PL_OK;
}

static pl_status read_case(pl_corpus *c, const pl_json_value *v, const pl_strmap *ids,
                           pl_corpus_case *x, pl_err *err) {
    *x = (pl_corpus_case){ .key = pl_member_text(v, "key"),
                           .model = pl_member_text(v, "model"),
                           .backend = pl_member_text(v, "backend"),
                           .data = pl_member_text(v, "data"),
                           .seed = pl_member_count(v, "seed"),
                           .status = pl_item_status_of(pl_member_text(v, "status")),
                           .step = pl_member_text(v, "step"),
                           .reason = pl_member_text(v, "reason"),
                           .blamed = pl_member_text(v, "blamed"),
                           .version = pl_member_text(v, "version"),
                           .bug = pl_bug_read(v),
                           .has_session = pl_member_is(v, "session"),
                           .has_repro = pl_member_is(v, "repro"),
                           .verified = pl_member_is(v, "verified"),
                           .n_nodes = pl_member_count(v, "nodes"),
                           .repro_nodes = pl_member_count(v, "repro_nodes") };
    if (!pl_corpus_is_key(x->key) || pl_corpus_backend(c, x->backend) == SIZE_MAX)
        return pl_fail(err, PL_E_FORMAT, "case %zu is not complete", c->n_cases);
    x->group = (size_t)(uintptr_t)pl_strmap_get(ids, pl_member_text(v, "group"));
    if (x->group > 0) c->groups[x->group - 1].n_cases++;
    return PL_OK;
}

static pl_status read_cases(pl_corpus *c, const pl_json_value *root, pl_err *err) {
    const pl_json_value *list = pl_member_list(root, "cases");
    pl_strmap ids = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    if (list == NULL) return pl_fail(err, PL_E_FORMAT, "'cases' is missing or not a list");
    c->cases = pl_arena_array(c->arena, list->n_items + 1, sizeof *c->cases);
    if (c->cases == NULL) return pl_fail_memory(err, list->n_items);
    for (size_t i = 0; i < c->n_groups && st == PL_OK; i++)
        if (pl_strmap_put(&ids, c->groups[i].id, (void *)(uintptr_t)(i + 1)) != 0)
            st = pl_fail_memory(err, 1);
    for (const pl_json_value *v = list->first; v != NULL && st == PL_OK; v = v->next) {
        pl_corpus_case *x = &c->cases[c->n_cases++];
        st = read_case(c, v, &ids, x, err);
        c->n_of[x->status]++;
        c->n_models += c->n_cases == 1 || strcmp(x->model, x[-1].model) != 0;
    }
    pl_strmap_release(&ids);
    return st;
}

static pl_status read_all(pl_corpus *c, const pl_dir *dir, pl_err *err) {
    pl_file_map *map = NULL;
    const pl_json_value *root = NULL;
    if (pl_dir_look(dir, PL_CORPUS_RESULT, NULL) != PL_KIND_FILE)
        return pl_fail(err, PL_E_NOT_FOUND,
                       "'%s' has no " PL_CORPUS_RESULT
                       ": not a corpus, or not finished (see option 'resume')",
                       pl_dir_path(dir));
    PL_TRY(pl_dir_map(dir, PL_CORPUS_RESULT, &map, err));
    pl_status st = pl_json_read((const char *)map->data, map->n_bytes, c->arena, &root, err);
    pl_file_map_unref(map);
    if (st == PL_OK && pl_member_count(root, "plumb_corpus") != 1)
        st = pl_fail(err, PL_E_FORMAT, "'plumb_corpus' is not 1");
    if (st == PL_OK) st = read_backends(c, root, err);
    if (st == PL_OK) st = read_groups(c, root, err);
    if (st == PL_OK) st = read_cases(c, root, err);
    c->has_baseline = pl_member_is(root, "baseline");
    return st == PL_OK ? PL_OK : pl_err_wrap(err, st, "%s/" PL_CORPUS_RESULT, pl_dir_path(dir));
}

pl_status pl_corpus_open(const char *folder, pl_corpus **out, pl_err *err) {
    pl_dir *dir = NULL;
    pl_corpus *c = pl_calloc(1, sizeof *c);
    *out = NULL;
    if (c != NULL) c->arena = pl_arena_new();
    if (c != NULL && c->arena != NULL) c->folder = pl_arena_strdup(c->arena, folder);
    pl_status st = c == NULL || c->folder == NULL ? pl_fail_memory(err, sizeof *c) : PL_OK;
    if (st == PL_OK) st = pl_dir_open(folder, &dir, err);
    if (st == PL_OK) st = read_all(c, dir, err);
    pl_dir_close(dir);
    if (st == PL_OK) {
        *out = c;
    } else {
        pl_corpus_free(c);
    }
    return st;
}
