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

static bool is_verdict(pl_item_status st) {
    return st == PL_ITEM_AGREE || st == PL_ITEM_DIVERGED || st == PL_ITEM_NONDETERMINISTIC ||
           st == PL_ITEM_FAILED;
}

/* The models that this run judged. */
static pl_status index_judged(const pl_corpus *c, pl_strmap *out, pl_err *err) {
    for (size_t i = 0; i < c->n_cases; i++) {
        const pl_corpus_case *x = &c->cases[i];
        if (is_verdict(x->status) && pl_strmap_put(out, x->model, out) != 0)
            return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

static bool is_judged(const pl_strmap *judged, const pl_json_value *group) {
    const pl_json_value *models = pl_member_list(group, "models");
    for (const pl_json_value *m = models == NULL ? NULL : models->first; m != NULL; m = m->next)
        if (m->kind == PL_JSON_STRING && pl_strmap_has(judged, m->string)) return true;
    return false;
}

typedef struct indexes {
    pl_strmap before, now, judged;
} indexes;

static pl_status fill_indexes(const pl_corpus *c, const known *before, indexes *x, pl_err *err) {
    PL_TRY(pl_corpus_index_groups(before->groups, before->n, &x->before, err));
    PL_TRY(pl_corpus_index_groups(c->groups, c->n_groups, &x->now, err));
    return index_judged(c, &x->judged, err);
}

static void mark(pl_corpus *c, const pl_json_value *groups, const known *before, const indexes *x) {
    for (size_t i = 0; i < c->n_groups; i++) {
        const size_t same = pl_corpus_find_group(&x->before, &c->groups[i]);
        c->groups[i].state = same < before->n ? "known" : "new";
        c->groups[i].n_before = same < before->n ? before->groups[same].n_cases : 0;
    }
    c->n_gone = 0;
    const pl_corpus_group *g = before->groups;
    for (const pl_json_value *v = groups->first; v != NULL; v = v->next, g++)
        if (pl_corpus_find_group(&x->now, g) >= c->n_groups)
            c->gone[c->n_gone++] =
                (pl_corpus_gone){ g->id, g->name, is_judged(&x->judged, v), g->n_cases };
    c->has_baseline = true;
}

static pl_status compare(pl_corpus *c, const pl_json_value *groups, pl_err *err) {
    known before;
    indexes x = { PL_STRMAP_INIT, PL_STRMAP_INIT, PL_STRMAP_INIT };
    PL_TRY(read_known(groups, c->arena, &before, err));
    c->gone = pl_arena_array(c->arena, groups->n_items + 1, sizeof *c->gone);
    if (c->gone == NULL) return pl_fail_memory(err, groups->n_items);
    const pl_status st = fill_indexes(c, &before, &x, err);
    if (st == PL_OK) mark(c, groups, &before, &x);
    pl_strmap_release(&x.before);
    pl_strmap_release(&x.now);
    pl_strmap_release(&x.judged);
    return st;
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

/* Cases by group; those of one group keep their order. */
static size_t *sort_by_group(const pl_corpus *c, size_t *first) {
    size_t *cases = pl_calloc(c->n_cases + 1, sizeof *cases);
    if (cases == NULL) return NULL;
    for (size_t i = 0; i < c->n_cases; i++)
        first[c->cases[i].group + 1]++;
    for (size_t g = 0; g <= c->n_groups; g++)
        first[g + 1] += first[g];
    for (size_t i = 0; i < c->n_cases; i++)
        cases[first[c->cases[i].group]++] = i;
    return cases; /* first[g] is where group g + 1 begins now */
}

static void put_models(pl_json *j, const pl_corpus *c, const size_t *cases, size_t n) {
    const char *last = NULL;
    pl_json_key(j, "models");
    pl_json_array_begin(j);
    for (size_t i = 0; i < n; i++) {
        const char *model = c->cases[cases[i]].model;
        if (last == NULL || strcmp(last, model) != 0) pl_json_string(j, model);
        last = model;
    }
    pl_json_array_end(j);
}

void pl_corpus_put_baseline(const pl_corpus *c, pl_buf *out) {
    pl_json j;
    size_t *first = pl_calloc(c->n_groups + 3, sizeof *first);
    size_t *cases = first == NULL ? NULL : sort_by_group(c, first);
    if (cases == NULL) out->failed = true;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "plumb_corpus_baseline", 1);
    pl_json_key(&j, "groups");
    pl_json_array_begin(&j);
    for (size_t i = 0; cases != NULL && i < c->n_groups; i++) {
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "id", c->groups[i].id);
        pl_corpus_put_also(&j, &c->groups[i]);
        pl_json_put_string(&j, "name", c->groups[i].name);
        pl_json_put_int(&j, "cases", (int64_t)c->groups[i].n_cases);
        put_models(&j, c, cases + first[i], first[i + 1] - first[i]);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
    pl_free(cases);
    pl_free(first);
}
