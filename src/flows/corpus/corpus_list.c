/* From a list of models to items: models x data sets or seeds x backends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/door.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "flows/corpus/corpus.h"
#include "flows/corpus/corpus_json.h"

enum { DEPTH_MAX = 32, LINE_FIELDS_MAX = 256, KEY_NAME = 40 };

static const struct {
    const char *name;
    bool wrong;
} statuses[] = {
#define X(NAME, text, wrong) [PL_ITEM_##NAME] = { text, wrong },
    PL_ITEM_STATUS_MAP(X)
#undef X
};

const char *pl_item_status_name(pl_item_status status) {
    return status < PL_ITEM_STATUS_COUNT ? statuses[status].name : "";
}

pl_item_status pl_item_status_of(const char *name) {
    for (int i = 0; i < PL_ITEM_STATUS_COUNT; i++)
        if (strcmp(statuses[i].name, name) == 0) return (pl_item_status)i;
    return PL_ITEM_MISSING;
}

bool pl_item_status_is_wrong(pl_item_status status) {
    return status < PL_ITEM_STATUS_COUNT && statuses[status].wrong;
}

void pl_corpus_list_release(pl_corpus_list *list) {
    pl_free(list->items);
    pl_arena_free(list->arena);
    *list = (pl_corpus_list){ 0 };
}

/* ---- one model ---- */

typedef struct model {
    const char *name, *path; /* name: relative to the list */
    const char *const *data; /* names, relative to the list, as `name` */
    size_t n_data;
    const uint64_t *seeds;
    size_t n_seeds;
    const char *const *settings;
    size_t n_settings;
} model;

typedef struct reader {
    const pl_corpus_source *source;
    pl_corpus_list *list;
    const char *base; /* folder that names are relative to; "" = none */
} reader;

static const char *below(const reader *r, const char *name) {
    if (r->base[0] == '\0' || name[0] == '/') return name;
    return pl_arena_printf(r->list->arena, "%s/%s", r->base, name);
}

/* Readable, safe as a file name, and unique by its hash. */
static const char *key_of(pl_arena *arena, const pl_corpus_item *x) {
    char name[KEY_NAME + 1], hex[PL_HASH128_HEX];
    pl_buf all = PL_BUF_INIT;
    size_t n = 0;
    const char *last = pl_path_basename(x->model);
    if (strncmp(last, "model.onnx", 10) == 0 && last != x->model) { /* the folder tells more */
        for (last--; last > x->model && last[-1] != '/'; last--) {
        }
    }
    for (; *last != '\0' && *last != '/' && n < KEY_NAME; last++) {
        const char c = *last;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || (c == '.' && n > 0);
        name[n++] = plain ? c : '_';
    }
    name[n] = '\0';
    pl_buf_append(&all, x->model, strlen(x->model) + 1);
    pl_buf_append(&all, x->backend, strlen(x->backend) + 1);
    pl_buf_append(&all, x->data, strlen(x->data) + 1);
    pl_buf_printf(&all, "%llu", (unsigned long long)x->seed);
    for (size_t i = 0; i < x->n_settings; i++)
        pl_buf_append(&all, x->settings[i], strlen(x->settings[i]) + 1);
    const bool ok = pl_buf_ok(&all);
    if (ok) pl_hash128_hex(pl_hash128_of(all.data, all.n_bytes), hex);
    pl_buf_release(&all);
    return ok ? pl_arena_printf(arena, "%s-%.16s", name, hex) : NULL;
}

static pl_status add_item(reader *r, pl_corpus_item x, pl_err *err) {
    pl_corpus_list *list = r->list;
    x.key = key_of(list->arena, &x);
    if (x.key == NULL || x.path == NULL || x.data_path == NULL ||
        !PL_ARRAY_ROOM(list->items, list->n_items, &list->capacity)) {
        return pl_fail_memory(err, sizeof x);
    }
    list->items[list->n_items++] = x;
    return PL_OK;
}

static pl_status add_model(reader *r, const model *m, pl_err *err) {
    static const uint64_t zero = 0;
    const pl_corpus_source *s = r->source;
    const uint64_t *seeds = m->n_seeds > 0 ? m->seeds : s->n_seeds > 0 ? s->seeds : &zero;
    const size_t n_seeds = m->n_seeds > 0 ? m->n_seeds : s->n_seeds > 0 ? s->n_seeds : 1;
    r->list->n_models++;
    for (size_t b = 0; b < s->n_backends; b++) {
        pl_corpus_item x = { .model = m->name,
                             .path = m->path,
                             .backend = pl_arena_strdup(r->list->arena, s->backends[b]),
                             .data = "",
                             .data_path = "",
                             .settings = m->settings,
                             .n_settings = m->n_settings };
        if (x.backend == NULL) return pl_fail_memory(err, 1);
        for (size_t i = 0; i < m->n_data; i++) {
            x.data = m->data[i];
            x.data_path = below(r, x.data);
            PL_TRY(add_item(r, x, err));
        }
        for (size_t i = 0; m->n_data == 0 && i < n_seeds; i++) {
            x.seed = seeds[i];
            PL_TRY(add_item(r, x, err));
        }
    }
    return PL_OK;
}

/* ---- a list ---- */

typedef struct fields {
    const char *data[LINE_FIELDS_MAX], *settings[LINE_FIELDS_MAX];
    uint64_t seeds[LINE_FIELDS_MAX];
    model m;
} fields;

static bool starts(const char *s, const char *with, const char **rest) {
    const size_t n = strlen(with);
    *rest = s + n;
    return strncmp(s, with, n) == 0;
}

static pl_status add_field(fields *f, const char *text, pl_err *err) {
    const char *rest;
    if (f->m.n_data + f->m.n_settings + f->m.n_seeds >= LINE_FIELDS_MAX)
        return pl_fail(err, PL_E_LIMIT, "more than %d fields", LINE_FIELDS_MAX);
    if (starts(text, "inputs=", &rest) && rest[0] != '\0') {
        f->data[f->m.n_data++] = rest;
        return PL_OK;
    }
    if (starts(text, "seed=", &rest) && rest[0] >= '0' && rest[0] <= '9') {
        char *end = NULL;
        f->seeds[f->m.n_seeds++] = strtoull(rest, &end, 10);
        if (*end == '\0') return PL_OK;
    }
    if (starts(text, "dim=", &rest) || starts(text, "range=", &rest) ||
        starts(text, "fill=", &rest)) {
        f->settings[f->m.n_settings++] = text;
        return PL_OK;
    }
    return pl_fail(err, PL_E_FORMAT,
                   "unknown field '%.100s'; expected inputs=DIR, seed=N, dim=NAME=N, "
                   "range=NAME=LO:HI or fill=WHAT",
                   text);
}

static void *copied(pl_arena *arena, const void *from, size_t n, size_t size) {
    void *to = pl_arena_array(arena, n + 1, size);
    if (to != NULL && n > 0) memcpy(to, from, n * size);
    return to;
}

/* "PATH [TAB FIELD]…"; `line` is cut into its fields. */
static pl_status read_line(reader *r, char *line, fields *f, pl_err *err) {
    pl_arena *arena = r->list->arena;
    char *next = NULL;
    memset(&f->m, 0, sizeof f->m);
    f->m.name = strtok_r(line, "\t", &next);
    if (f->m.name == NULL || f->m.name[0] == '#') return PL_OK;
    for (char *text; (text = strtok_r(NULL, "\t", &next)) != NULL;)
        PL_TRY(add_field(f, text, err));
    f->m.path = below(r, f->m.name);
    f->m.data = copied(arena, f->data, f->m.n_data, sizeof *f->data);
    f->m.settings = copied(arena, f->settings, f->m.n_settings, sizeof *f->settings);
    f->m.seeds = copied(arena, f->seeds, f->m.n_seeds, sizeof *f->seeds);
    if (f->m.path == NULL || f->m.data == NULL || f->m.settings == NULL || f->m.seeds == NULL)
        return pl_fail_memory(err, 1);
    return add_model(r, &f->m, err);
}

static pl_status read_list(reader *r, pl_err *err) {
    pl_file_map *map = NULL;
    pl_status st = PL_OK;
    size_t number = 0;
    fields *f = pl_malloc(sizeof *f);
    if (f == NULL) return pl_fail_memory(err, sizeof *f);
    PL_TRY_GOTO(done, st, pl_file_map_open(r->source->path, &map, err));
    for (const char *at = (const char *)map->data, *end = at + map->n_bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop == NULL ? end : stop) - at);
        number++;
        if (memchr(at, '\0', n) != NULL) {
            st = pl_fail(err, PL_E_FORMAT, "contains a NUL byte; expected one model per line");
        } else {
            if (n > 0 && at[n - 1] == '\r') n--;
            char *line = pl_arena_strndup(r->list->arena, at, n);
            st = line == NULL ? pl_fail_memory(err, n) : read_line(r, line, f, err);
        }
        if (st != PL_OK) {
            st = pl_err_wrap(err, st, "%.300s:%zu", r->source->path, number);
            goto done;
        }
        at = stop == NULL ? end : stop + 1;
    }
done:
    pl_file_map_unref(map);
    pl_free(f);
    return st;
}

/* ---- a folder ---- */

static bool is_model(const char *name) {
    return pl_path_has_suffix(name, ".onnx") || pl_path_has_suffix(name, ".onnxtxt");
}

/* Data sets in the folder of a model: those of ONNX's own layout, if it is the only model there. */
static pl_status add_found(reader *r, const char *inside, const pl_dir_list *names,
                           const pl_kind *kinds, size_t at, size_t n_models, pl_err *err) {
    pl_arena *arena = r->list->arena;
    const char *slash = inside[0] == '\0' ? "" : "/";
    const size_t n_max = n_models == 1 ? names->n_names : 0; /* else it has none */
    const char **data = pl_arena_array(arena, n_max + 1, sizeof *data);
    model m = { .name = pl_arena_printf(arena, "%s%s%s", inside, slash, names->names[at]),
                .data = data };
    if (data == NULL || m.name == NULL) return pl_fail_memory(err, n_max);
    for (size_t i = 0; i < n_max; i++) {
        if (kinds[i] != PL_KIND_FOLDER || strncmp(names->names[i], "test_data_set_", 14) != 0)
            continue;
        data[m.n_data] = pl_arena_printf(arena, "%s%s%s", inside, slash, names->names[i]);
        if (data[m.n_data++] == NULL) return pl_fail_memory(err, 1);
    }
    m.path = below(r, m.name);
    return m.path == NULL ? pl_fail_memory(err, 1) : add_model(r, &m, err);
}

/* A link to a model inside the source is followed. One that leads out of it is refused: a folder
 * from a stranger must not pull other files of the user into the output. A link to a folder is not
 * followed, because it may be circular. */
static pl_status check_link(const reader *r, const char *folder, const char *name, bool *is_file,
                            pl_err *err) {
    char *path = pl_path_join(folder, name);
    char *base = pl_path_real(r->source->path), *real = path == NULL ? NULL : pl_path_real(path);
    const size_t n = base == NULL ? 0 : strlen(base);
    pl_status st = PL_OK;
    *is_file = real != NULL && base != NULL && !pl_path_is_dir(real);
    if (*is_file && (strncmp(real, base, n) != 0 || (real[n] != '/' && base[n - 1] != '/')))
        st = pl_fail(err, PL_E_INVALID,
                     "'%s' is a link that leads out of '%s'; to use it, give a list of models "
                     "instead of the folder",
                     path, r->source->path);
    pl_free(path);
    pl_free(base);
    pl_free(real);
    return st;
}

static pl_status walk(reader *r, const char *inside, int depth, pl_err *err);

static pl_status walk_names(reader *r, const pl_dir *dir, const char *inside, int depth,
                            const pl_dir_list *names, pl_kind *kinds, pl_err *err) {
    size_t n_models = 0;
    for (size_t i = 0; i < names->n_names; i++) {
        kinds[i] = pl_dir_look(dir, names->names[i], NULL);
        if (kinds[i] == PL_KIND_OTHER && is_model(names->names[i])) {
            bool is_file = false;
            PL_TRY(check_link(r, pl_dir_path(dir), names->names[i], &is_file, err));
            if (is_file) kinds[i] = PL_KIND_FILE;
        }
        n_models += kinds[i] == PL_KIND_FILE && is_model(names->names[i]);
    }
    for (size_t i = 0; i < names->n_names; i++) {
        if (kinds[i] == PL_KIND_FILE && is_model(names->names[i]))
            PL_TRY(add_found(r, inside, names, kinds, i, n_models, err));
        if (kinds[i] != PL_KIND_FOLDER) continue;
        const char *next = inside[0] == '\0'
                               ? names->names[i]
                               : pl_arena_printf(r->list->arena, "%s/%s", inside, names->names[i]);
        if (inside[0] == '\0') next = pl_arena_strdup(r->list->arena, next);
        if (next == NULL) return pl_fail_memory(err, 1);
        PL_TRY(walk(r, next, depth + 1, err));
    }
    return PL_OK;
}

static pl_status walk(reader *r, const char *inside, int depth, pl_err *err) {
    pl_dir *dir = NULL;
    pl_dir_list names = { 0 };
    pl_kind *kinds = NULL;
    pl_status st = PL_OK;
    if (depth > DEPTH_MAX)
        return pl_fail(err, PL_E_LIMIT, "'%s': more than %d folders deep", inside, DEPTH_MAX);
    const char *path = inside[0] == '\0' ? r->base : below(r, inside);
    if (path == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, pl_dir_open(path, &dir, err));
    PL_TRY_GOTO(done, st, pl_dir_names(dir, ".", &names, err));
    kinds = pl_calloc(names.n_names + 1, sizeof *kinds);
    st = kinds == NULL ? pl_fail_memory(err, names.n_names)
                       : walk_names(r, dir, inside, depth, &names, kinds, err);
done:
    pl_free(kinds);
    pl_dir_list_free(&names);
    pl_dir_close(dir);
    return st;
}

/* ---- all of it ---- */

static int by_name(const void *a, const void *b) {
    const pl_corpus_item *x = a, *y = b;
    int order = strcmp(x->model, y->model);
    if (order == 0) order = strcmp(x->data, y->data);
    if (order == 0) order = x->seed < y->seed ? -1 : x->seed > y->seed;
    if (order == 0) order = strcmp(x->backend, y->backend);
    return order != 0 ? order : strcmp(x->key, y->key);
}

static bool is_utf8(const char *s) {
    for (size_t n = strlen(s), k; n > 0; n -= k, s += k)
        if ((k = pl_utf8_step(s, n)) == 0) return false;
    return true;
}

static pl_status sort_items(pl_corpus_list *list, pl_err *err) {
    if (list->n_items > 0) qsort(list->items, list->n_items, sizeof *list->items, by_name);
    size_t n = 0;
    for (size_t i = 0; i < list->n_items; i++) /* duplicates count once */
        if (n == 0 || strcmp(list->items[i].key, list->items[n - 1].key) != 0)
            list->items[n++] = list->items[i];
    list->n_items = n;
    list->n_models = 0;
    for (size_t i = 0; i < n; i++) {
        list->n_models += i == 0 || strcmp(list->items[i].model, list->items[i - 1].model) != 0;
        if (!is_utf8(list->items[i].model) || !is_utf8(list->items[i].data))
            return pl_fail(err, PL_E_INVALID, "'%s': the name is not UTF-8", list->items[i].model);
    }
    return PL_OK;
}

static const char *base_of(pl_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return "";
    return pl_arena_strndup(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

pl_status pl_corpus_list_read(const pl_corpus_source *source, pl_corpus_list *out, pl_err *err) {
    reader r = { .source = source, .list = out };
    pl_status st = PL_OK;
    *out = (pl_corpus_list){ .arena = pl_arena_new() };
    if (out->arena == NULL) return pl_fail_memory(err, 1);
    if (pl_path_is_dir(source->path)) {
        r.base = pl_arena_strdup(out->arena, source->path);
        st = r.base == NULL ? pl_fail_memory(err, 1) : walk(&r, "", 0, err);
    } else {
        r.base = base_of(out->arena, source->path);
        const model one = { .name = pl_arena_strdup(out->arena, pl_path_basename(source->path)),
                            .path = pl_arena_strdup(out->arena, source->path) };
        if (r.base == NULL || one.name == NULL || one.path == NULL) {
            st = pl_fail_memory(err, 1);
        } else if (!is_model(source->path)) {
            st = read_list(&r, err);
        } else {
            st = pl_path_exists(source->path)
                     ? add_model(&r, &one, err)
                     : pl_fail(err, PL_E_NOT_FOUND, "'%s' not found", source->path);
        }
    }
    if (st == PL_OK) st = sort_items(out, err);
    if (st == PL_OK && out->n_items == 0)
        st = pl_fail(err, PL_E_NOT_FOUND, "'%s' has no model", source->path);
    if (st != PL_OK) pl_corpus_list_release(out);
    return st;
}

/* ---- items.json ---- */

void pl_corpus_list_put(const pl_corpus_list *list, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, false);
    pl_buf_puts(out, "{\"plumb_corpus_items\":1,\"items\":[");
    for (size_t i = 0; i < list->n_items; i++) {
        const pl_corpus_item *x = &list->items[i];
        pl_buf_puts(out, i == 0 ? "\n" : ",\n");
        pl_json_init(&j, out, false);
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "key", x->key);
        pl_json_put_string(&j, "model", x->model);
        pl_json_put_string(&j, "backend", x->backend);
        pl_json_put_string(&j, "data", x->data);
        pl_json_put_int(&j, "seed", (int64_t)x->seed);
        pl_json_object_end(&j);
    }
    pl_buf_puts(out, "\n]}\n");
}

/* A key is the name of a folder and must not lead elsewhere. */
bool pl_corpus_is_key(const char *key) {
    if (key == NULL || key[0] == '\0' || key[0] == '.' || strlen(key) > 100) return false;
    return key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] ==
           '\0';
}

pl_status pl_corpus_list_parse(const char *text, size_t n, pl_corpus_list *out, pl_err *err) {
    const pl_json_value *root = NULL;
    pl_status st = PL_OK;
    *out = (pl_corpus_list){ .arena = pl_arena_new() };
    if (out->arena == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, pl_json_read(text, n, out->arena, &root, err));
    const pl_json_value *items = pl_json_find(root, "items");
    if (items == NULL || items->kind != PL_JSON_ARRAY) {
        st = pl_fail(err, PL_E_FORMAT, "'items' is missing or not a list");
        goto done;
    }
    for (const pl_json_value *v = items->first; v != NULL; v = v->next) {
        const pl_json_value *seed = pl_json_find(v, "seed");
        const pl_corpus_item x = { .key = pl_member_text(v, "key"),
                                   .model = pl_member_text(v, "model"),
                                   .path = "",
                                   .backend = pl_member_text(v, "backend"),
                                   .data = pl_member_text(v, "data"),
                                   .data_path = "",
                                   .seed = seed == NULL ? 0 : (uint64_t)seed->integer };
        if (!pl_corpus_is_key(x.key) || x.model[0] == '\0' || x.backend[0] == '\0') {
            st = pl_fail(err, PL_E_FORMAT, "item %zu is not complete", out->n_items + 1);
            goto done;
        }
        if (!PL_ARRAY_ROOM(out->items, out->n_items, &out->capacity)) {
            st = pl_fail_memory(err, out->n_items);
            goto done;
        }
        out->items[out->n_items++] = x;
    }
    st = sort_items(out, err);
done:
    if (st != PL_OK) pl_corpus_list_release(out);
    return st;
}
