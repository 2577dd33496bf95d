/* Rolls up sync points: one row per name, counted in one pass. */
#include "session/rollup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strmap.h"

const char *pl_rollup_key_name(pl_rollup_key key) {
    static const char *const names[] = { "module", "op", "dtype" };
    return names[key];
}

static const char *name_of(const pl_sync_point *p, pl_rollup_key key) {
    if (key == PL_ROLLUP_MODULE) return p->module;
    if (key == PL_ROLLUP_OP) return p->op;
    return p->a.present ? pl_dtype_name(p->a.dtype) : "";
}

static bool is_worse(const pl_sync_point *x, const pl_sync_point *y) {
    if (y == NULL) return true;
    if (!isnan(x->q) && !isnan(y->q) && x->q != y->q) return x->q > y->q;
    return isnan(y->q) && !isnan(x->q);
}

static void count(pl_rollup_row *row, const pl_sync_point *p) {
    row->n_values++;
    row->n_culprit += p->verdict == PL_VERDICT_CULPRIT;
    row->n_inherited += p->verdict == PL_VERDICT_INHERITED || p->verdict == PL_VERDICT_AMPLIFIED;
    row->n_unverified += p->verdict == PL_VERDICT_UNVERIFIED;
    row->n_red += p->colour == PL_RED;
    row->n_yellow += p->colour == PL_YELLOW;
    if (is_worse(p, row->worst)) row->worst = p;
}

static int by_trouble(const void *a, const void *b) {
    const pl_rollup_row *x = a, *y = b;
    if (x->n_culprit != y->n_culprit) return x->n_culprit < y->n_culprit ? 1 : -1;
    if (x->n_inherited != y->n_inherited) return x->n_inherited < y->n_inherited ? 1 : -1;
    if (x->n_red != y->n_red) return x->n_red < y->n_red ? 1 : -1;
    return strcmp(x->name, y->name);
}

pl_status pl_rollup_make(const pl_session *s, pl_rollup_key key, pl_rollup *out, pl_err *err) {
    pl_strmap index = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    *out = (pl_rollup){ .arena = pl_arena_new() };
    if (out->arena != NULL) {
        out->rows = pl_arena_array(out->arena, s->n_points + 1, sizeof(pl_rollup_row));
    }
    if (out->rows == NULL) st = pl_fail_memory(err, s->n_points);
    for (size_t i = 0; i < s->n_points && st == PL_OK; i++) {
        const char *name = name_of(&s->points[i], key);
        pl_rollup_row *row = pl_strmap_get(&index, name);
        if (row == NULL) {
            row = &out->rows[out->n_rows++];
            row->name = name;
            if (pl_strmap_put(&index, name, row) != 0) st = pl_fail_memory(err, i);
        }
        count(row, &s->points[i]);
    }
    pl_strmap_release(&index);
    if (st != PL_OK) {
        pl_rollup_release(out);
        return st;
    }
    qsort(out->rows, out->n_rows, sizeof(pl_rollup_row), by_trouble);
    return PL_OK;
}

void pl_rollup_release(pl_rollup *rollup) {
    pl_arena_free(rollup->arena);
    *rollup = (pl_rollup){ .rows = NULL };
}

pl_status pl_rollup_print(const pl_session *s, pl_rollup_key key, size_t limit, pl_buf *out,
                          pl_err *err) {
    pl_rollup r;
    PL_TRY(pl_rollup_make(s, key, &r, err));
    pl_buf_printf(out, "\nby %s\n  values  culprit  inherited   red  worst q  name\n",
                  pl_rollup_key_name(key));
    for (size_t i = 0; i < r.n_rows && (limit == 0 || i < limit); i++) {
        const pl_rollup_row *row = &r.rows[i];
        pl_buf_printf(out, "  %6zu  %7zu  %9zu  %4zu", row->n_values, row->n_culprit,
                      row->n_inherited, row->n_red);
        if (row->worst != NULL && !isnan(row->worst->q)) {
            pl_buf_printf(out, "  %7.3g  ", row->worst->q);
        } else {
            pl_buf_puts(out, "        -  ");
        }
        pl_buf_put_clean(out, *row->name == '\0' ? "(none)" : row->name);
        pl_buf_putc(out, '\n');
    }
    if (limit != 0 && r.n_rows > limit) {
        pl_buf_printf(out, "  and %zu more\n", r.n_rows - limit);
    }
    pl_rollup_release(&r);
    return PL_OK;
}
