#include "flows/corpus/corpus_result.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "flows/corpus/corpus_json.h"

void pl_corpus_free(pl_corpus *corpus) {
    if (corpus == NULL) return;
    pl_arena_free(corpus->arena);
    pl_free(corpus);
}

static pl_status corpus_new(const char *folder, pl_corpus **out, pl_err *err) {
    pl_corpus *c = pl_calloc(1, sizeof *c);
    if (c != NULL) c->arena = pl_arena_new();
    if (c != NULL && c->arena != NULL) c->folder = pl_arena_strdup(c->arena, folder);
    if (c != NULL) c->links = "";
    if (c == NULL || c->folder == NULL) {
        pl_corpus_free(c);
        return pl_fail_memory(err, sizeof *c);
    }
    *out = c;
    return PL_OK;
}

static void take_result(pl_corpus_case *c, const pl_json_value *r) {
    c->status = r == NULL ? PL_ITEM_MISSING : pl_item_status_of(pl_member_text(r, "status"));
    c->step = pl_member_text(r, "step");
    c->reason = pl_member_text(r, "reason");
    c->blamed = pl_member_text(r, "blamed");
    c->version = pl_member_text(r, "version");
    c->bug = pl_bug_read(r);
    c->has_session = pl_member_is(r, "session");
    c->has_repro = pl_member_is(r, "repro");
    c->verified = pl_member_is(r, "verified");
    c->n_nodes = pl_member_count(r, "nodes");
    c->repro_nodes = pl_member_count(r, "repro_nodes");
}

/* ---- counting ---- */

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t pl_corpus_backend(const pl_corpus *c, const char *spec) {
    for (size_t i = 0; i < c->n_backends; i++)
        if (strcmp(c->backends[i], spec) == 0) return i;
    return SIZE_MAX;
}

/* Backends, their versions and the counts, from the cases. */
static pl_status settle(pl_corpus *c, pl_err *err) {
    size_t capacity = 0;
    for (size_t i = 0; i < c->n_cases; i++) {
        pl_corpus_case *x = &c->cases[i];
        c->n_of[x->status]++;
        c->n_models += i == 0 || strcmp(x->model, x[-1].model) != 0;
        if (pl_corpus_backend(c, x->backend) != SIZE_MAX) continue;
        if (!PL_ARENA_ROOM(c->arena, c->backends, c->n_backends, &capacity))
            return pl_fail_memory(err, c->n_backends);
        c->backends[c->n_backends++] = x->backend;
    }
    if (c->n_backends > 0) qsort(c->backends, c->n_backends, sizeof *c->backends, by_text);
    c->versions = pl_arena_array(c->arena, c->n_backends + 1, sizeof *c->versions);
    if (c->versions == NULL) return pl_fail_memory(err, c->n_backends);
    for (size_t i = 0; i < c->n_backends; i++)
        c->versions[i] = "";
    for (size_t i = 0; i < c->n_cases; i++)
        if (c->cases[i].version[0] != '\0')
            c->versions[pl_corpus_backend(c, c->cases[i].backend)] = c->cases[i].version;
    return PL_OK;
}

int pl_corpus_exit_code(const pl_corpus *c) {
    size_t n_new = 0;
    if (c->is_part) return c->n_of[PL_ITEM_TROUBLE] + c->n_of[PL_ITEM_DIED] > 0 ? 4 : 0;
    if (c->n_of[PL_ITEM_TROUBLE] + c->n_of[PL_ITEM_DIED] + c->n_of[PL_ITEM_MISSING] > 0) return 4;
    for (size_t i = 0; i < c->n_cases; i++) {
        const pl_corpus_case *x = &c->cases[i];
        if (!pl_item_status_is_wrong(x->status)) continue;
        const bool known = x->group > 0 && strcmp(c->groups[x->group - 1].state, "known") == 0;
        n_new += !known;
    }
    if (n_new > 0) return 1;
    return c->n_of[PL_ITEM_SKIPPED] == c->n_cases ? 2 : 0;
}

/* ---- from the journals ---- */

static pl_status read_items(const pl_dir *dir, pl_corpus_list *list, pl_err *err) {
    pl_file_map *map = NULL;
    if (pl_dir_look(dir, PL_CORPUS_ITEMS, NULL) != PL_KIND_FILE)
        return pl_fail(err, PL_E_NOT_FOUND, "'%s' is not a corpus: " PL_CORPUS_ITEMS " not found",
                       pl_dir_path(dir));
    PL_TRY(pl_dir_map(dir, PL_CORPUS_ITEMS, &map, err));
    const pl_status st = pl_corpus_list_parse((const char *)map->data, map->n_bytes, list, err);
    pl_file_map_unref(map);
    return st == PL_OK ? PL_OK : pl_err_wrap(err, st, "%s/" PL_CORPUS_ITEMS, pl_dir_path(dir));
}

static pl_status take_cases(pl_corpus *c, const pl_corpus_list *list, const pl_journal_read *read,
                            pl_err *err) {
    c->cases = pl_arena_array(c->arena, list->n_items + 1, sizeof *c->cases);
    if (c->cases == NULL) return pl_fail_memory(err, list->n_items);
    for (size_t i = 0; i < list->n_items; i++) {
        const pl_corpus_item *item = &list->items[i];
        const pl_journal_entry *e = pl_strmap_get(&read->entries, item->key);
        pl_corpus_case *x = &c->cases[c->n_cases++];
        *x = (pl_corpus_case){ .key = pl_arena_strdup(c->arena, item->key),
                               .model = pl_arena_strdup(c->arena, item->model),
                               .backend = pl_arena_strdup(c->arena, item->backend),
                               .data = pl_arena_strdup(c->arena, item->data),
                               .seed = item->seed };
        if (x->key == NULL || x->model == NULL || x->backend == NULL || x->data == NULL)
            return pl_fail_memory(err, 1);
        take_result(x, e == NULL ? NULL : e->result);
        if (e != NULL) c->seconds += e->seconds;
    }
    c->n_repeated = read->n_repeated;
    return settle(c, err);
}

pl_status pl_corpus_gather(const pl_dir *dir, pl_corpus **out, pl_err *err) {
    pl_corpus_list list = { 0 };
    pl_journal_read read = { 0 };
    pl_corpus *c = NULL;
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY(corpus_new(pl_dir_path(dir), &c, err));
    PL_TRY_GOTO(done, st, read_items(dir, &list, err));
    PL_TRY_GOTO(done, st, pl_journal_read_all(dir, c->arena, &read, err));
    st = take_cases(c, &list, &read, err);
done:
    pl_journal_read_release(&read);
    pl_corpus_list_release(&list);
    if (st == PL_OK) {
        *out = c;
    } else {
        pl_corpus_free(c);
    }
    return st;
}

/* ---- corpus.json ---- */

static void put_case(pl_json *j, const pl_corpus *c, const pl_corpus_case *x) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "key", x->key);
    pl_json_put_string(j, "model", x->model);
    pl_json_put_string(j, "backend", x->backend);
    pl_json_put_string(j, "data", x->data);
    pl_json_put_int(j, "seed", (int64_t)x->seed);
    pl_json_put_string(j, "status", pl_item_status_name(x->status));
    pl_json_put_string(j, "step", x->step);
    pl_json_put_string(j, "reason", x->reason);
    pl_json_put_int(j, "nodes", (int64_t)x->n_nodes);
    pl_json_put_string(j, "group", x->group > 0 ? c->groups[x->group - 1].id : NULL);
    if (x->bug.kind[0] != '\0') {
        pl_bug_put(j, &x->bug);
        pl_json_put_string(j, "blamed", x->blamed);
        pl_json_put_string(j, "version", x->version);
        pl_json_put_bool(j, "session", x->has_session);
        pl_json_put_bool(j, "repro", x->has_repro);
        if (x->has_repro) {
            pl_json_put_int(j, "repro_nodes", (int64_t)x->repro_nodes);
            pl_json_put_bool(j, "verified", x->verified);
        }
    }
    pl_json_object_end(j);
}

static pl_status index_id(pl_strmap *index, const char *id, size_t at, pl_err *err) {
    if (pl_strmap_has(index, id)) return PL_OK; /* the first group that has it */
    return pl_strmap_put(index, id, (void *)(uintptr_t)(at + 1)) == 0 ? PL_OK
                                                                      : pl_fail_memory(err, 1);
}

pl_status pl_corpus_index_groups(const pl_corpus_group *groups, size_t n, pl_strmap *out,
                                 pl_err *err) {
    *out = (pl_strmap)PL_STRMAP_INIT;
    for (size_t i = 0; i < n; i++) {
        PL_TRY(index_id(out, groups[i].id, i, err));
        for (size_t k = 0; k < groups[i].n_also; k++)
            PL_TRY(index_id(out, groups[i].also[k], i, err));
    }
    return PL_OK;
}

size_t pl_corpus_find_group(const pl_strmap *index, const pl_corpus_group *g) {
    size_t found = (size_t)(uintptr_t)pl_strmap_get(index, g->id) - 1; /* none: SIZE_MAX */
    for (size_t k = 0; k < g->n_also; k++) {
        const size_t at = (size_t)(uintptr_t)pl_strmap_get(index, g->also[k]) - 1;
        if (at < found) found = at;
    }
    return found;
}

void pl_corpus_put_also(pl_json *j, const pl_corpus_group *g) {
    if (g->n_also == 0) return;
    pl_json_key(j, "also");
    pl_json_array_begin(j);
    for (size_t i = 0; i < g->n_also; i++)
        pl_json_string(j, g->also[i]);
    pl_json_array_end(j);
}

static void put_group(pl_json *j, const pl_corpus *c, size_t at) {
    const pl_corpus_group *g = &c->groups[at];
    pl_json_object_begin(j);
    pl_json_put_string(j, "id", g->id);
    pl_corpus_put_also(j, g);
    pl_json_put_string(j, "name", g->name);
    pl_json_put_string(j, "state", g->state);
    pl_bug_put(j, &g->bug);
    pl_json_put_int(j, "cases", (int64_t)g->n_cases);
    if (g->n_before > 0) pl_json_put_int(j, "cases_before", (int64_t)g->n_before);
    pl_json_put_int(j, "confirmed", (int64_t)g->n_confirmed);
    pl_json_put_string(j, "smallest", g->smallest[0] == '\0' ? NULL : g->smallest);
    pl_json_put_int(j, "repro_nodes", (int64_t)g->repro_nodes);
    pl_json_put_string(j, "first_bad", g->first_bad);
    pl_json_put_string(j, "last_good", g->last_good);
    pl_json_key(j, "on");
    pl_json_array_begin(j);
    for (size_t i = 0; i < c->n_backends; i++)
        pl_json_string(j, g->on[i]);
    pl_json_array_end(j);
    pl_json_key(j, "models");
    pl_json_array_begin(j);
    const char *last = NULL;
    for (size_t i = 0; i < c->n_cases; i++) {
        if (c->cases[i].group != at + 1) continue;
        if (last == NULL || strcmp(last, c->cases[i].model) != 0)
            pl_json_string(j, c->cases[i].model);
        last = c->cases[i].model;
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

static void put_summary(pl_json *j, const pl_corpus *c) {
    pl_json_put_int(j, "models", (int64_t)c->n_models);
    pl_json_put_int(j, "items", (int64_t)c->n_cases);
    pl_json_key(j, "summary");
    pl_json_object_begin(j);
    for (int i = 0; i < PL_ITEM_STATUS_COUNT; i++)
        pl_json_put_int(j, pl_item_status_name((pl_item_status)i), (int64_t)c->n_of[i]);
    pl_json_object_end(j);
    pl_json_key(j, "backends");
    pl_json_array_begin(j);
    for (size_t i = 0; i < c->n_backends; i++) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "spec", c->backends[i]);
        pl_json_put_string(j, "version", c->versions[i]);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

void pl_corpus_put_json(const pl_corpus *c, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "plumb_corpus", 1);
    pl_json_put_int(&j, "exit_code", pl_corpus_exit_code(c));
    put_summary(&j, c);
    pl_json_put_bool(&j, "baseline", c->has_baseline);
    pl_json_key(&j, "groups");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < c->n_groups; i++)
        put_group(&j, c, i);
    pl_json_array_end(&j);
    pl_json_key(&j, "gone");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < c->n_gone; i++) {
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "id", c->gone[i].id);
        pl_json_put_string(&j, "name", c->gone[i].name);
        pl_json_put_string(&j, "state", c->gone[i].fixed ? "fixed" : "not seen");
        if (c->gone[i].n_before > 0)
            pl_json_put_int(&j, "cases_before", (int64_t)c->gone[i].n_before);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_key(&j, "cases");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < c->n_cases; i++)
        put_case(&j, c, &c->cases[i]);
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}
