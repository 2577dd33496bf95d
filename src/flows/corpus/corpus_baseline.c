/* Known groups: an earlier corpus.json, or the groups alone as --write-baseline writes them. */
#include <string.h>

#include "base/alloc.h"
#include "flows/corpus/corpus_json.h"
#include "flows/corpus/corpus_result.h"

static const pl_json_value *find_group(const pl_json_value *groups, const char *id) {
    for (const pl_json_value *v = groups->first; v != NULL; v = v->next)
        if (strcmp(pl_member_text(v, "id"), id) == 0) return v;
    return NULL;
}

static bool has_group(const pl_corpus *c, const char *id) {
    for (size_t i = 0; i < c->n_groups; i++)
        if (strcmp(c->groups[i].id, id) == 0) return true;
    return false;
}

/* Was one of its models judged in this run? */
static bool is_judged(const pl_corpus *c, const pl_json_value *group) {
    const pl_json_value *models = pl_member_list(group, "models");
    for (const pl_json_value *m = models == NULL ? NULL : models->first; m != NULL; m = m->next) {
        for (size_t i = 0; m->kind == PL_JSON_STRING && i < c->n_cases; i++) {
            const pl_item_status st = c->cases[i].status;
            if (strcmp(c->cases[i].model, m->string) == 0 &&
                (st == PL_ITEM_AGREE || st == PL_ITEM_DIVERGED || st == PL_ITEM_NONDETERMINISTIC ||
                 st == PL_ITEM_FAILED))
                return true;
        }
    }
    return false;
}

static pl_status compare(pl_corpus *c, const pl_json_value *groups, pl_err *err) {
    for (size_t i = 0; i < c->n_groups; i++) {
        const pl_json_value *known = find_group(groups, c->groups[i].id);
        c->groups[i].state = known != NULL ? "known" : "new";
        c->groups[i].n_before = pl_member_count(known, "cases");
    }
    c->gone = pl_arena_array(c->arena, groups->n_items + 1, sizeof *c->gone);
    if (c->gone == NULL) return pl_fail_memory(err, groups->n_items);
    c->n_gone = 0;
    for (const pl_json_value *v = groups->first; v != NULL; v = v->next)
        if (!has_group(c, pl_member_text(v, "id")))
            c->gone[c->n_gone++] =
                (pl_corpus_gone){ pl_member_text(v, "id"), pl_member_text(v, "name"),
                                  is_judged(c, v), pl_member_count(v, "cases") };
    c->has_baseline = true;
    return PL_OK;
}

pl_status pl_corpus_apply_baseline(pl_corpus *c, const char *path, pl_err *err) {
    char *inside = pl_path_is_dir(path) ? pl_path_join(path, PL_CORPUS_RESULT) : NULL;
    const char *file = inside == NULL ? path : inside;
    const pl_json_value *root = NULL;
    pl_file_map *map = NULL;
    pl_status st = pl_file_map_open(file, &map, err);
    if (st == PL_OK) {
        st = pl_json_read((const char *)map->data, map->n_bytes, c->arena, &root, err);
        const pl_json_value *groups = pl_member_list(root, "groups");
        if (st == PL_OK && groups == NULL)
            st = pl_fail(err, PL_E_FORMAT, "'groups' is missing or not a list");
        if (st == PL_OK) st = compare(c, groups, err);
        if (st != PL_OK) st = pl_err_wrap(err, st, "%.300s", file);
    }
    pl_file_map_unref(map);
    pl_free(inside);
    return st;
}

void pl_corpus_put_baseline(const pl_corpus *c, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "plumb_corpus_baseline", 1);
    pl_json_key(&j, "groups");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < c->n_groups; i++) {
        const char *last = NULL;
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "id", c->groups[i].id);
        pl_json_put_string(&j, "name", c->groups[i].name);
        pl_json_put_int(&j, "cases", (int64_t)c->groups[i].n_cases);
        pl_json_key(&j, "models");
        pl_json_array_begin(&j);
        for (size_t k = 0; k < c->n_cases; k++) {
            if (c->cases[k].group != i + 1) continue;
            if (last == NULL || strcmp(last, c->cases[k].model) != 0)
                pl_json_string(&j, c->cases[k].model);
            last = c->cases[k].model;
        }
        pl_json_array_end(&j);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}
