#include "session/baseline.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/strmap.h"

typedef struct row {
    const char *value;
    int worst_class; /* pl_pair_class; -1 = any */
    double psnr;     /* NAN = any */
    bool used;
} row;

struct pl_baseline {
    pl_arena *arena;
    row *rows;
    size_t n_rows;
    pl_strmap by_value;
};

void pl_baseline_free(pl_baseline *b) {
    if (b == NULL) return;
    pl_strmap_release(&b->by_value);
    pl_arena_free(b->arena);
    pl_free(b);
}

static pl_status read_row(const pl_json_value *o, row *r, pl_err *err) {
    const pl_json_value *value = pl_json_find(o, "value"), *psnr = pl_json_find(o, "psnr"),
                        *worst = pl_json_find(o, "class");
    *r = (row){ .worst_class = -1, .psnr = (double)NAN };
    if (value == NULL || value->kind != PL_JSON_STRING)
        return pl_fail(err, PL_E_FORMAT, "'value' is missing or not a string");
    r->value = value->string;
    for (int i = 0; worst != NULL && worst->kind == PL_JSON_STRING && i < PL_PAIR_CLASS_COUNT; i++)
        if (strcmp(worst->string, pl_pair_class_name((pl_pair_class)i)) == 0) r->worst_class = i;
    if (worst != NULL && r->worst_class < 0)
        return pl_fail(err, PL_E_FORMAT, "'class' is not exact, finite, nonfinite or structural");
    if (psnr == NULL || psnr->kind == PL_JSON_NULL) return PL_OK;
    if (pl_json_number(psnr, &r->psnr) && !isnan(r->psnr)) return PL_OK;
    return pl_fail(err, PL_E_FORMAT, "'psnr' is not a number");
}

static pl_status read_all(pl_baseline *b, const char *text, size_t n, pl_err *err) {
    const pl_json_value *root = NULL;
    PL_TRY(pl_json_read(text, n, b->arena, &root, err));
    const pl_json_value *version = pl_json_find(root, "plumb_baseline");
    const pl_json_value *list = pl_json_find(root, "accepted");
    if (version == NULL || !version->is_integer || version->integer != 1)
        return pl_fail(err, PL_E_FORMAT, "'plumb_baseline' is not 1");
    if (list == NULL || list->kind != PL_JSON_ARRAY)
        return pl_fail(err, PL_E_FORMAT, "'accepted' is missing or not a list");
    b->rows = pl_arena_array(b->arena, list->n_items, sizeof *b->rows);
    if (b->rows == NULL) return pl_fail_memory(err, list->n_items);
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        row *r = &b->rows[b->n_rows];
        const pl_status st = read_row(v, r, err);
        if (st != PL_OK) return pl_err_wrap(err, st, "row %zu", b->n_rows + 1);
        if (pl_strmap_has(&b->by_value, r->value))
            return pl_fail(err, PL_E_FORMAT, "duplicate entry '%s'", r->value);
        if (pl_strmap_put(&b->by_value, r->value, r) != 0) return pl_fail_memory(err, 1);
        b->n_rows++;
    }
    return PL_OK;
}

pl_status pl_baseline_read(const char *text, size_t n, const char *name, pl_baseline **out,
                           pl_err *err) {
    pl_baseline *b = pl_calloc(1, sizeof *b);
    if (b != NULL) b->arena = pl_arena_new();
    if (b == NULL || b->arena == NULL) {
        pl_free(b);
        return pl_fail_memory(err, sizeof *b);
    }
    const pl_status st = read_all(b, text, n, err);
    if (st != PL_OK) {
        pl_baseline_free(b);
        return pl_err_wrap(err, st, "baseline '%s'", name);
    }
    *out = b;
    return PL_OK;
}

pl_status pl_baseline_open(const char *path, pl_baseline **out, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_file_map_open(path, &map, err));
    const pl_status st = pl_baseline_read((const char *)map->data, map->n_bytes, path, out, err);
    pl_file_map_unref(map);
    return st;
}

pl_status pl_baseline_apply(const pl_baseline *b, pl_session *s, size_t *n_unused, pl_err *err) {
    *n_unused = b->n_rows;
    for (size_t i = 0; i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        row *r = pl_strmap_get(&b->by_value, p->value);
        if (r == NULL || !pl_sync_point_is_bad(p)) continue;
        if (!r->used) --*n_unused;
        r->used = true;
        const double psnr = pl_sync_point_metric(s, p, "psnr");
        const bool worse_class = r->worst_class >= 0 && (int)p->pair_class > r->worst_class;
        const bool worse = !isnan(r->psnr) && !isnan(psnr) && psnr < r->psnr - PL_BASELINE_SLACK_DB;
        p->accepted = !worse_class && !worse;
        if (p->accepted) continue;
        p->reason = worse_class ? pl_arena_printf(s->arena, "%s; the baseline does not accept %s",
                                                  p->reason, pl_pair_class_name(p->pair_class))
                                : pl_arena_printf(s->arena, "%s; the baseline accepts %.4g dB",
                                                  p->reason, r->psnr);
        if (p->reason == NULL) {
            p->reason = "";
            return pl_fail_memory(err, 1);
        }
    }
    return PL_OK;
}

static bool is_divergence(const pl_sync_point *p) {
    return pl_sync_point_is_bad(p) || p->accepted;
}

static bool is_named(const char *value, const char *const *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(values[i], value) == 0) return true;
    return false;
}

/* `values` NULL: everything that diverges. */
static void put_baseline(const pl_session *s, const char *const *values, size_t n, pl_buf *out) {
    pl_strmap seen = PL_STRMAP_INIT;
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "plumb_baseline", 1);
    pl_json_key(&j, "accepted");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        if (values == NULL ? !is_divergence(p) : !is_named(p->value, values, n)) continue;
        if (pl_strmap_has(&seen, p->value)) continue;
        if (pl_strmap_put(&seen, p->value, out) != 0) {
            out->failed = true;
            break;
        }
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "value", p->value);
        pl_json_put_string(&j, "op", p->op);
        pl_json_put_string(&j, "class", pl_pair_class_name(p->pair_class));
        pl_json_key(&j, "psnr");
        if (p->measured) {
            pl_json_double(&j, pl_sync_point_metric(s, p, "psnr"));
        } else {
            pl_json_null(&j);
        }
        pl_json_put_string(&j, "reason", p->reason);
        pl_json_object_end(&j);
    }
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
    pl_strmap_release(&seen);
}

void pl_baseline_put(const pl_session *s, pl_buf *out) {
    put_baseline(s, NULL, 0, out);
}

void pl_baseline_put_values(const pl_session *s, const char *const *values, size_t n, pl_buf *out) {
    static const char *const none = "";
    put_baseline(s, n == 0 ? &none : values, n, out);
}
