/* Rows of limits, read from JSON and matched in order. */
#include "session/limits.h"

#include <math.h>
#include <regex.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/json_read.h"

typedef struct row {
    bool has_value;
    regex_t value;
    const char *metric, *op; /* NULL = any */
    pl_dtype dtype;          /* PL_UNDEFINED = any */
    int precision;           /* -1 = any */
    pl_metric_limits limits;
    const char *from;
} row;

struct pl_limits {
    row *rows;
    size_t n_rows;
    pl_arena *arena;
};

void pl_limits_free(pl_limits *l) {
    if (l == NULL) return;
    for (size_t i = 0; i < l->n_rows; i++)
        if (l->rows[i].has_value) regfree(&l->rows[i].value);
    pl_arena_free(l->arena);
    pl_free(l);
}

static pl_status text_of(const pl_json_value *o, const char *key, const char **out, pl_err *err) {
    const pl_json_value *v = pl_json_find(o, key);
    *out = NULL;
    if (v == NULL) return PL_OK;
    if (v->kind != PL_JSON_STRING) return pl_fail(err, PL_E_FORMAT, "'%s' is not a string", key);
    *out = v->string;
    return PL_OK;
}

static pl_status number_of(const pl_json_value *o, const char *key, double *out, pl_err *err) {
    const pl_json_value *v = pl_json_find(o, key);
    if (v == NULL) return pl_fail(err, PL_E_FORMAT, "'%s' is missing", key);
    if (v->kind == PL_JSON_STRING && strcmp(v->string, "inf") == 0) {
        *out = (double)INFINITY;
        return PL_OK;
    }
    if (v->kind != PL_JSON_NUMBER) return pl_fail(err, PL_E_FORMAT, "'%s' is not a number", key);
    *out = v->number;
    return PL_OK;
}

/* A misspelt key would make a row match everything. */
static pl_status check_keys(const pl_json_value *o, pl_err *err) {
    static const char *const known[] = { "value",  "op",    "dtype",  "precision",
                                         "metric", "green", "yellow", "comment" };
    if (o->kind != PL_JSON_OBJECT) return pl_fail(err, PL_E_FORMAT, "not an object");
    for (const pl_json_value *v = o->first; v != NULL; v = v->next) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(known[i], v->key) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return pl_fail(err, PL_E_FORMAT,
                           "unknown key '%s'; available: value, op, dtype, precision, metric, "
                           "green, yellow, comment",
                           v->key);
    }
    return PL_OK;
}

static pl_status read_filters(const pl_json_value *o, row *r, pl_err *err) {
    const char *value, *dtype, *precision;
    PL_TRY(text_of(o, "value", &value, err));
    PL_TRY(text_of(o, "op", &r->op, err));
    PL_TRY(text_of(o, "dtype", &dtype, err));
    PL_TRY(text_of(o, "precision", &precision, err));
    PL_TRY(text_of(o, "metric", &r->metric, err));
    if (r->metric != NULL && pl_metric_find(r->metric) == NULL)
        return pl_fail(err, PL_E_FORMAT, "unknown metric '%s'", r->metric);
    if (dtype != NULL) r->dtype = pl_dtype_by_name(dtype, strlen(dtype));
    if (dtype != NULL && r->dtype == PL_UNDEFINED)
        return pl_fail(err, PL_E_FORMAT, "unknown element type '%s'", dtype);
    for (int i = 0; precision != NULL && i < PL_PRECISION_COUNT; i++)
        if (strcmp(pl_precision_name((pl_precision)i), precision) == 0) r->precision = i;
    if (precision != NULL && r->precision < 0)
        return pl_fail(err, PL_E_FORMAT, "unknown precision '%s'", precision);
    if (value == NULL) return PL_OK;
    if (regcomp(&r->value, value, REG_EXTENDED | REG_NOSUB) != 0)
        return pl_fail(err, PL_E_FORMAT, "'%s' is not a regular expression", value);
    r->has_value = true;
    return PL_OK;
}

static pl_status read_row(const pl_json_value *o, row *r, pl_err *err) {
    *r = (row){ .dtype = PL_UNDEFINED, .precision = -1, .limits = { .known = true } };
    PL_TRY(check_keys(o, err));
    PL_TRY(number_of(o, "green", &r->limits.green, err));
    PL_TRY(number_of(o, "yellow", &r->limits.yellow, err));
    return read_filters(o, r, err);
}

static pl_status read_all(pl_limits *l, const char *text, size_t n, const char *name, pl_err *err) {
    const pl_json_value *root = NULL;
    PL_TRY(pl_json_read(text, n, l->arena, &root, err));
    const pl_json_value *list = pl_json_find(root, "limits");
    if (list == NULL || list->kind != PL_JSON_ARRAY)
        return pl_fail(err, PL_E_FORMAT, "'limits' is missing or not a list");
    l->rows = pl_arena_array(l->arena, list->n_items, sizeof *l->rows);
    if (l->rows == NULL) return pl_fail_memory(err, list->n_items);
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        row *r = &l->rows[l->n_rows];
        const pl_status st = read_row(v, r, err);
        if (st != PL_OK) return pl_err_wrap(err, st, "row %zu", l->n_rows + 1);
        l->n_rows++;
        r->from = pl_arena_printf(l->arena, "%s row %zu", pl_path_basename(name), l->n_rows);
        if (r->from == NULL) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

pl_status pl_limits_read(const char *text, size_t n, const char *name, pl_limits **out,
                         pl_err *err) {
    pl_limits *l = pl_calloc(1, sizeof *l);
    if (l != NULL) l->arena = pl_arena_new();
    if (l == NULL || l->arena == NULL) {
        pl_free(l);
        return pl_fail_memory(err, sizeof *l);
    }
    const pl_status st = read_all(l, text, n, name, err);
    if (st != PL_OK) {
        pl_limits_free(l);
        return pl_err_wrap(err, st, "limits '%s'", name);
    }
    *out = l;
    return PL_OK;
}

pl_status pl_limits_open(const char *path, pl_limits **out, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_file_map_open(path, &map, err));
    const pl_status st = pl_limits_read((const char *)map->data, map->n_bytes, path, out, err);
    pl_file_map_unref(map);
    return st;
}

bool pl_limits_find(const pl_limits *l, const char *metric, const char *value, const char *op,
                    pl_dtype dtype, pl_precision precision, pl_limits_match *out) {
    for (size_t i = 0; l != NULL && i < l->n_rows; i++) {
        const row *r = &l->rows[i];
        if (strcmp(r->metric != NULL ? r->metric : "psnr", metric) != 0) continue;
        if (r->op != NULL && strcmp(r->op, op) != 0) continue;
        if (r->dtype != PL_UNDEFINED && r->dtype != dtype) continue;
        if (r->precision >= 0 && r->precision != (int)precision) continue;
        if (r->has_value && regexec(&r->value, value, 0, NULL, 0) != 0) continue;
        *out = (pl_limits_match){ r->limits, r->from };
        return true;
    }
    return false;
}
