/* Reads inputs by name or number; inputs_generated.c generates them. */
#include "flows/inputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/door.h"
#include "base/nearest.h"
#include "flows/inputs_generated.h"
#include "tensor/file/tensor_file.h"

/* ---- NAME=VALUE ---- */

pl_status pl_dim_map_init(pl_dim_map *map, const char *const *dims, size_t n_dims, pl_err *err) {
    *map = (pl_dim_map){ .arena = pl_arena_new() };
    if (map->arena == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < n_dims; i++) {
        const char *equals = strrchr(dims[i], '=');
        char *end = NULL;
        errno = 0;
        const long long n = equals == NULL ? -1 : strtoll(equals + 1, &end, 10);
        if (equals == NULL || equals == dims[i] || end == equals + 1 || *end != '\0' || n < 0 ||
            errno != 0) {
            return pl_fail(err, PL_E_USAGE, "option 'dim' is '%s', expected NAME=N", dims[i]);
        }
        int64_t *slot = pl_arena_alloc(map->arena, sizeof(*slot));
        const char *key = pl_arena_strndup(map->arena, dims[i], (size_t)(equals - dims[i]));
        if (slot == NULL || key == NULL || pl_strmap_put(&map->map, key, slot) != 0) {
            return pl_fail_memory(err, 1);
        }
        *slot = n;
    }
    return PL_OK;
}

void pl_dim_map_release(pl_dim_map *map) {
    pl_strmap_release(&map->map);
    pl_arena_free(map->arena);
}

/* ---- files ---- */

static const char *input_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    return i < graph->n_inputs ? graph->inputs[i]->name : NULL;
}

static pl_status fail_input(const pl_graph *graph, const char *name, size_t n, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, name, n, input_at, graph);
    const pl_status st = pl_fail(err, PL_E_USAGE, "the model has no input '%.*s'%s",
                                 (int)(n > 200 ? 200 : n), name, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static pl_status find_input(const pl_graph *graph, const char *name, size_t *out, pl_err *err) {
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (strcmp(graph->inputs[i]->name, name) != 0) continue;
        *out = i;
        return PL_OK;
    }
    return fail_input(graph, name, strlen(name), err);
}

static void set_input(pl_datum **in, size_t i, pl_datum *datum) {
    pl_datum_unref(in[i]);
    in[i] = pl_datum_ref(datum);
}

/* NAME=FILE: the only item of the file, or the one with that name. */
static pl_status read_named(const pl_graph *graph, const char *text, pl_datum **in, pl_err *err) {
    size_t at = 0;
    const char *equals = NULL;
    /* Names may contain '=': the longest prefix that is an input wins. */
    for (const char *e = strchr(text, '='); e != NULL; e = strchr(e + 1, '=')) {
        char *name = pl_strndup(text, (size_t)(e - text));
        if (name == NULL) return pl_fail_memory(err, strlen(text));
        if (find_input(graph, name, &at, NULL) == PL_OK) equals = e;
        pl_free(name);
    }
    if (equals == NULL) {
        const char *e = strchr(text, '=');
        if (e == NULL)
            return pl_fail(err, PL_E_USAGE, "option 'input' is '%s', expected NAME=FILE", text);
        return fail_input(graph, text, (size_t)(e - text), err);
    }
    char *name = pl_strndup(text, (size_t)(equals - text));
    if (name == NULL) return pl_fail_memory(err, strlen(text));
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    pl_status st = find_input(graph, name, &at, err);
    if (st == PL_OK) st = pl_tensor_file_load(equals + 1, graph->inputs[at]->type, &file, err);
    bool found = false;
    for (size_t i = 0; st == PL_OK && i < file.n_items && !found; i++) {
        found = file.n_items == 1 || strcmp(file.items[i].name, name) == 0;
        if (found) set_input(in, at, file.items[i].datum);
    }
    if (st == PL_OK && !found) {
        st = pl_fail(err, PL_E_NOT_FOUND, "%s holds %zu tensors, none named '%s'", equals + 1,
                     file.n_items, name);
    }
    pl_tensor_file_release(&file);
    pl_free(name);
    return st;
}

/* A file of several inputs by name; an unnamed tensor is accepted for a model with one input. */
static pl_status read_set_file(const pl_graph *graph, const char *path, pl_datum **in,
                               pl_err *err) {
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    const pl_type *type = graph->n_inputs > 0 ? graph->inputs[0]->type : NULL;
    PL_TRY(pl_tensor_file_load(path, type, &file, err));
    pl_status st = PL_OK;
    for (size_t i = 0; i < file.n_items && st == PL_OK; i++) {
        size_t at = 0;
        const bool nameless = file.items[i].name[0] == '\0' && file.n_items == 1;
        if (!nameless || graph->n_inputs != 1) {
            st = find_input(graph, file.items[i].name, &at, err);
            if (st != PL_OK) st = pl_err_wrap(err, st, "%s", path);
        }
        if (st == PL_OK) set_input(in, at, file.items[i].datum);
    }
    pl_tensor_file_release(&file);
    return st;
}

/* input_N.pb of an ONNX test data set, or NAME.npy and the like. */
static pl_status read_set_member(const pl_graph *graph, const pl_dir *dir, const char *name,
                                 pl_datum **in, bool *used, pl_err *err) {
    size_t at = SIZE_MAX;
    unsigned number = 0;
    int n_read = 0;
    const char *dot = strrchr(name, '.');
    if (sscanf(name, "input_%u%n", &number, &n_read) == 1 && name + n_read == dot) {
        at = number;
    } else if (dot != NULL) {
        char *stem = pl_strndup(name, (size_t)(dot - name));
        if (stem == NULL) return pl_fail_memory(err, strlen(name));
        if (find_input(graph, stem, &at, NULL) != PL_OK) at = SIZE_MAX;
        pl_free(stem);
    }
    if (at >= graph->n_inputs) return PL_OK; /* such folders also contain outputs and notes */
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    pl_status st = pl_tensor_file_load_in(dir, name, graph->inputs[at]->type, &file, err);
    if (st == PL_OK && file.n_items != 1) {
        st = pl_fail(err, PL_E_INVALID, "%s/%s holds %zu tensors, expected one", pl_dir_path(dir),
                     name, file.n_items);
    }
    if (st == PL_OK) {
        set_input(in, at, file.items[0].datum);
        *used = true;
    }
    pl_tensor_file_release(&file);
    return st;
}

static pl_status read_set(const pl_graph *graph, const char *path, pl_datum **in, pl_err *err) {
    if (!pl_path_is_dir(path)) return read_set_file(graph, path, in, err);
    pl_dir_list list = { 0 };
    pl_dir *dir = NULL;
    bool used = false;
    PL_TRY(pl_dir_open(path, &dir, err));
    pl_status st = pl_dir_names(dir, ".", &list, err);
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        st = read_set_member(graph, dir, list.names[i], in, &used, err);
    }
    pl_dir_list_free(&list);
    pl_dir_close(dir);
    if (st == PL_OK && !used && graph->n_inputs > 0) {
        return pl_fail(err, PL_E_NOT_FOUND, "%s has no input_N.pb and no file named after an input",
                       path);
    }
    return st;
}

/* Tensors from the caller, by name. */
static pl_status take_tensors(const pl_graph *graph, const plumb_inputs *source, pl_datum **in,
                              pl_err *err) {
    for (size_t i = 0; i < source->n_tensors; i++) {
        size_t at = 0;
        pl_datum *d = NULL;
        const pl_tensor *t = (const pl_tensor *)source->tensors[i].tensor;
        PL_TRY(find_input(graph, source->tensors[i].name, &at, err));
        PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(t), &d, err));
        pl_datum_unref(in[at]);
        in[at] = d;
    }
    return PL_OK;
}

/* A dim that no input has would have no effect. */
static const char *dim_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    for (size_t k = 0; k < graph->n_inputs; k++) {
        const pl_type *type = graph->inputs[k]->type;
        if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) continue;
        for (int d = 0; d < type->rank; d++)
            if (type->dims[d].name != NULL && type->dims[d].name[0] != '\0' && i-- == 0)
                return type->dims[d].name;
    }
    return NULL;
}

pl_status pl_inputs_check_dims(const pl_graph *graph, const char *const *dims, size_t n_dims,
                               pl_err *err) {
    for (size_t i = 0; i < n_dims; i++) {
        const char *equals = strrchr(dims[i], '='), *name;
        const size_t n = equals == NULL ? 0 : (size_t)(equals - dims[i]);
        bool known = n == 0; /* pl_dim_map_init complains */
        for (size_t k = 0; !known && (name = dim_at(graph, k)) != NULL; k++)
            known = strlen(name) == n && strncmp(name, dims[i], n) == 0;
        if (known) continue;
        pl_buf hint = PL_BUF_INIT;
        pl_nearest_put(&hint, dims[i], n, dim_at, graph);
        const pl_status st =
            pl_fail(err, PL_E_USAGE, "option 'dim' %s: the inputs have no dimension '%.*s'%s",
                    dims[i], (int)(n > 200 ? 200 : n), dims[i],
                    hint.n_bytes == 0 ? "; all dimensions are fixed" : pl_buf_str(&hint));
        pl_buf_release(&hint);
        return st;
    }
    return PL_OK;
}

pl_status pl_inputs_given(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                          pl_err *err) {
    const pl_graph *graph = model->graph;
    if (source->n_sets > 1 || source->n_samples > 1) {
        return pl_fail(err, PL_E_USAGE, "%zu sets of inputs given; this command takes one",
                       source->n_sets > 1 ? source->n_sets : source->n_samples);
    }
    PL_TRY(pl_inputs_check_dims(graph, source->dims, source->n_dims, err));
    for (size_t i = 0; i < source->n_sets; i++)
        PL_TRY(read_set(graph, source->sets[i], in, err));
    for (size_t i = 0; i < source->n_files; i++) {
        PL_TRY(read_named(graph, source->files[i], in, err));
    }
    PL_TRY(take_tensors(graph, source, in, err));
    return PL_OK;
}

pl_status pl_inputs_generate(const pl_model *model, const plumb_inputs *source, size_t i,
                             pl_datum **out, pl_err *err) {
    pl_dim_map dims = { 0 };
    pl_status st = pl_dim_map_init(&dims, source->dims, source->n_dims, err);
    if (st == PL_OK) st = pl_generate_input(model, i, source, &dims.map, out, err);
    pl_dim_map_release(&dims);
    return st;
}

/* Rejects a size that contradicts an input from a file. */
static pl_status check_sizes(const pl_graph *graph, const pl_strmap *sizes, pl_datum *const *in,
                             pl_err *err) {
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_type *type = graph->inputs[i]->type;
        if (in[i] == NULL || in[i]->kind != PL_TYPE_TENSOR || type == NULL ||
            type->kind != PL_TYPE_TENSOR || !type->has_rank || type->rank != in[i]->tensor->rank)
            continue;
        for (int d = 0; d < type->rank; d++) {
            const char *name = type->dims[d].name;
            const int64_t *n = name == NULL ? NULL : pl_strmap_get(sizes, name);
            if (n == NULL || *n == in[i]->tensor->dims[d]) continue;
            return pl_fail(err, PL_E_USAGE,
                           "option 'dim' %s=%lld: the input '%s' that was given has %s=%lld", name,
                           (long long)*n, graph->inputs[i]->name, name,
                           (long long)in[i]->tensor->dims[d]);
        }
    }
    return PL_OK;
}

/* Rejects options for generating inputs if none is generated. */
static pl_status check_unused(const pl_graph *graph, const plumb_inputs *source,
                              pl_datum *const *in, pl_err *err) {
    bool generates = false;
    for (size_t i = 0; i < graph->n_inputs; i++)
        generates = generates || (in[i] == NULL && graph->inputs[i]->init == NULL);
    if (source->fill != PLUMB_FILL_RANDOM && !generates)
        return pl_fail(err, PL_E_USAGE,
                       "option 'fill': every input is given, so none is generated");
    for (size_t k = 0; k < source->n_ranges; k++) {
        const char *equals = strrchr(source->ranges[k], '=');
        const size_t n = equals == NULL ? 0 : (size_t)(equals - source->ranges[k]);
        for (size_t i = 0; i < graph->n_inputs; i++) {
            const char *name = graph->inputs[i]->name;
            if (in[i] == NULL || strlen(name) != n || strncmp(name, source->ranges[k], n) != 0)
                continue;
            return pl_fail(err, PL_E_USAGE, "option 'range' %s: the input is given, not generated",
                           source->ranges[k]);
        }
    }
    return PL_OK;
}

pl_status pl_inputs_make_missing(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                                 pl_err *err) {
    const pl_graph *graph = model->graph;
    pl_dim_map dims = { 0 };
    pl_status st = pl_dim_map_init(&dims, source->dims, source->n_dims, err);
    if (st == PL_OK) st = check_unused(graph, source, in, err);
    if (st == PL_OK) st = check_sizes(graph, &dims.map, in, err);
    for (size_t i = 0; i < graph->n_inputs && st == PL_OK; i++) {
        if (in[i] != NULL || graph->inputs[i]->init != NULL) continue;
        st = pl_generate_input(model, i, source, &dims.map, &in[i], err);
    }
    pl_dim_map_release(&dims);
    return st;
}

pl_status pl_inputs_make(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                         pl_err *err) {
    PL_TRY(pl_inputs_given(model, source, in, err));
    return pl_inputs_make_missing(model, source, in, err);
}

/* ---- samples ---- */

typedef struct samples {
    pl_arena *arena;
    const char **paths;
    size_t n, capacity;
} samples;

static pl_status add_sample(samples *s, const char *path, pl_err *err) {
    if (!PL_ARENA_ROOM(s->arena, s->paths, s->n, &s->capacity)) return pl_fail_memory(err, s->n);
    s->paths[s->n] = pl_arena_strdup(s->arena, path);
    return s->paths[s->n++] == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status expand_set(samples *s, const char *path, pl_err *err) {
    const size_t before = s->n;
    pl_dir_list list = { 0 };
    pl_dir *dir = NULL;
    if (!pl_path_is_dir(path)) return add_sample(s, path, err);
    PL_TRY(pl_dir_open(path, &dir, err));
    pl_status st = pl_dir_names(dir, ".", &list, err);
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (strncmp(list.names[i], "test_data_set_", 14) != 0) continue;
        char *inner = pl_path_join(path, list.names[i]);
        st = inner == NULL ? pl_fail_memory(err, 1) : PL_OK;
        const pl_kind kind = pl_dir_look(dir, list.names[i], NULL);
        if (st == PL_OK && kind == PL_KIND_OTHER) /* a link, possibly in an untrusted folder */
            st = pl_fail(err, PL_E_INVALID, "'%s' is a symbolic link, expected a folder", inner);
        if (st == PL_OK && kind == PL_KIND_FOLDER) st = add_sample(s, inner, err);
        pl_free(inner);
    }
    pl_dir_list_free(&list);
    pl_dir_close(dir);
    return st == PL_OK && s->n == before ? add_sample(s, path, err) : st;
}

pl_status pl_inputs_samples(const plumb_inputs *source, pl_arena *arena, plumb_inputs **out,
                            size_t *n_out, pl_err *err) {
    samples s = { .arena = arena };
    for (size_t i = 0; i < source->n_sets; i++)
        PL_TRY(expand_set(&s, source->sets[i], err));
    const size_t n_given = source->n_samples > 1 ? source->n_samples : 1;
    if (n_given > 1 && s.n > 1)
        return pl_fail(err, PL_E_USAGE,
                       "samples as tensors and several sets of inputs cannot be combined");
    const size_t n = s.n > n_given ? s.n : n_given;
    *out = pl_arena_array(arena, n, sizeof(plumb_inputs));
    if (*out == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = *source;
        (*out)[i].n_samples = 1;
        if (n_given > 1) (*out)[i].tensors = source->tensors + i * source->n_tensors;
        if (s.n == 0) continue;
        (*out)[i].sets = &s.paths[s.n == 1 ? 0 : i];
        (*out)[i].n_sets = 1;
    }
    *n_out = n;
    return PL_OK;
}

static size_t place_of(pl_value *const *values, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i]->name, name) == 0) return i;
    return SIZE_MAX;
}

size_t pl_ports_match(pl_value *const *to, size_t n_to, size_t i, pl_value *const *from,
                      size_t n_from) {
    if (i < n_from && strcmp(from[i]->name, to[i]->name) == 0) return i; /* most often */
    const size_t named = place_of(from, n_from, to[i]->name);
    if (named != SIZE_MAX || n_to != n_from) return named;
    return place_of(to, n_to, from[i]->name) == SIZE_MAX ? i : SIZE_MAX;
}

pl_status pl_input_as(const pl_value *input, pl_datum *d, pl_datum **out, pl_err *err) {
    const pl_type *type = input->type;
    pl_tensor *cast = NULL;
    const bool tensors = d->kind == PL_TYPE_TENSOR && type != NULL && type->kind == PL_TYPE_TENSOR;
    if (!tensors || type->dtype == d->tensor->dtype || !pl_dtype_is_float(type->dtype) ||
        !pl_dtype_is_float(d->tensor->dtype)) {
        *out = pl_datum_ref(d);
        return PL_OK;
    }
    PL_TRY(pl_tensor_cast(d->tensor, type->dtype, &cast, err));
    return pl_datum_of_tensor_take(cast, out, err);
}

bool pl_inputs_starve(const pl_graph *graph, pl_datum *const *in) {
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (in[i] != NULL && in[i]->kind == PL_TYPE_TENSOR && in[i]->tensor->n_elements == 0)
            return true;
    return false;
}
