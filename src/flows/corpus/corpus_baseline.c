/* Known groups: an earlier corpus.json, or the groups alone as --write-baseline writes them. */
#include <string.h>

#include "base/alloc.h"
#include "flows/corpus/corpus_json.h"
#include "flows/corpus/corpus_result.h"

typedef struct known { /* groups of the baseline */
    pl_corpus_group *groups;
    size_t n;
} known;

static pl_status read_known(const pl_json_value *groups, pl_arena *arena, known *out, pl_err *err) {
    *out = (known){ pl_arena_array(arena, groups->n_items + 1, sizeof *out->groups), 0 };
    if (out->groups == NULL) return pl_fail_memory(err, groups->n_items);
    for (const pl_json_value *v = groups->first; v != NULL; v = v->next) {
        pl_corpus_group *g = &out->groups[out->n++];
        *g = (pl_corpus_group){ .id = pl_member_text(v, "id"),
                                .name = pl_member_text(v, "name"),
                                .n_cases = pl_member_count(v, "cases") };
        PL_TRY(pl_corpus_read_also(v, arena, g, err));
    }
    return PL_OK;
}

static const pl_corpus_group *find(const pl_corpus_group *groups, size_t n,
                                   const pl_corpus_group *wanted) {
    for (size_t i = 0; i < n; i++)
        if (pl_corpus_same_group(&groups[i], wanted)) return &groups[i];
    return NULL;
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
    known before;
    PL_TRY(read_known(groups, c->arena, &before, err));
    for (size_t i = 0; i < c->n_groups; i++) {
        const pl_corpus_group *same = find(before.groups, before.n, &c->groups[i]);
        c->groups[i].state = same != NULL ? "known" : "new";
        c->groups[i].n_before = same != NULL ? same->n_cases : 0;
    }
    c->gone = pl_arena_array(c->arena, groups->n_items + 1, sizeof *c->gone);
    if (c->gone == NULL) return pl_fail_memory(err, groups->n_items);
    c->n_gone = 0;
    const pl_corpus_group *g = before.groups;
    for (const pl_json_value *v = groups->first; v != NULL; v = v->next, g++)
        if (find(c->groups, c->n_groups, g) == NULL)
            c->gone[c->n_gone++] = (pl_corpus_gone){ g->id, g->name, is_judged(c, v), g->n_cases };
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
        pl_corpus_put_also(&j, &c->groups[i]);
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
