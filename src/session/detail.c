#include "session/detail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "metric/metrics.h"
#include "metric/on_demand.h"

const double pl_detail_quantiles[PL_DETAIL_QUANTILES] = { 0.5, 0.9, 0.99, 0.999 };

enum { CHANNELS_MAX = 1 << 16 };

static int worse_first(const void *x, const void *y) {
    const pl_detail_channel *a = x, *b = y;
    if (a->psnr != b->psnr) return a->psnr < b->psnr ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Channels are the second axis, as in ONNX; a vector has none. */
static pl_status find_channels(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, pl_detail *d,
                               pl_err *err) {
    d->channel_axis = a->rank >= 2 && a->dims[1] > 1 && a->dims[1] <= CHANNELS_MAX ? 1 : -1;
    if (d->channel_axis < 0) return PL_OK;
    const size_t n = (size_t)a->dims[1];
    const pl_metric *psnr = pl_metric_find("psnr");
    pl_accumulators *acc = pl_calloc(n, sizeof *acc);
    pl_detail_channel *rows = pl_calloc(n, sizeof *rows);
    pl_status st = acc == NULL || rows == NULL ? pl_fail_memory(err, n * sizeof *acc) : PL_OK;
    if (st == PL_OK) st = pl_accumulate_channels(pool, a, r, 1, acc, err);
    size_t n_rows = 0;
    for (size_t c = 0; st == PL_OK && c < n; c++) {
        if (acc[c].n_mismatch == 0) continue;
        const bool nonfinite = pl_accumulators_class(&acc[c]) == PL_PAIR_NONFINITE;
        rows[n_rows++] =
            (pl_detail_channel){ (int64_t)c, nonfinite ? -(double)INFINITY : psnr->value(&acc[c]),
                                 acc[c].max_abs };
    }
    if (n_rows > 1) qsort(rows, n_rows, sizeof *rows, worse_first);
    d->n_channels = n_rows < PL_DETAIL_CHANNELS ? n_rows : PL_DETAIL_CHANNELS;
    for (size_t i = 0; i < d->n_channels; i++)
        d->channels[i] = rows[i];
    pl_free(acc);
    pl_free(rows);
    return st;
}

static bool has_order(pl_dtype t) {
    const pl_dtype_class c = pl_dtype_class_of(t);
    return c != PL_CLASS_STRING && c != PL_CLASS_COMPLEX && c != PL_CLASS_NONE;
}

pl_status pl_detail_find(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, pl_arena *arena,
                         const pl_detail **out, pl_err *err) {
    *out = NULL;
    if (a->n_elements == 0 || !has_order(a->dtype) || !has_order(r->dtype)) return PL_OK;
    pl_detail *d = pl_arena_alloc(arena, sizeof *d);
    if (d == NULL) return pl_fail_memory(err, sizeof *d);
    d->argmax = d->topk = (double)NAN;
    PL_TRY(pl_error_quantiles(a, r, PL_ERROR_ABS, pl_detail_quantiles, PL_DETAIL_QUANTILES,
                              d->abs_quantiles, err));
    PL_TRY(pl_error_quantiles(a, r, PL_ERROR_REL, pl_detail_quantiles, PL_DETAIL_QUANTILES,
                              d->rel_quantiles, err));
    if (a->rank > 0) {
        pl_top_agreement top;
        PL_TRY(pl_top_agree(a, r, -1, PL_DETAIL_TOP, &top, err));
        if (top.n_rows > 0) d->argmax = (double)top.n_argmax_tied / (double)top.n_rows;
        d->topk = top.topk;
    }
    PL_TRY(find_channels(pool, a, r, d, err));
    *out = d;
    return PL_OK;
}

static void put_quantiles(pl_json *j, const char *key, const double *q) {
    char name[32];
    pl_json_key(j, key);
    pl_json_object_begin(j);
    for (int i = 0; i < PL_DETAIL_QUANTILES; i++) {
        snprintf(name, sizeof name, "%g", pl_detail_quantiles[i]);
        pl_json_put_double(j, name, q[i]);
    }
    pl_json_object_end(j);
}

void pl_detail_put_json(pl_json *j, const pl_detail *d) {
    pl_json_object_begin(j);
    put_quantiles(j, "abs_quantiles", d->abs_quantiles);
    put_quantiles(j, "rel_quantiles", d->rel_quantiles);
    if (!isnan(d->argmax)) pl_json_put_double(j, "argmax_agreement", d->argmax);
    if (!isnan(d->topk)) pl_json_put_double(j, "top5_agreement", d->topk);
    if (d->channel_axis >= 0) {
        pl_json_put_int(j, "channel_axis", d->channel_axis);
        pl_json_key(j, "worst_channels");
        pl_json_array_begin(j);
        for (size_t i = 0; i < d->n_channels; i++) {
            pl_json_object_begin(j);
            pl_json_put_int(j, "index", d->channels[i].index);
            pl_json_put_double(j, "psnr", d->channels[i].psnr);
            pl_json_put_double(j, "max_abs", d->channels[i].max_abs);
            pl_json_object_end(j);
        }
        pl_json_array_end(j);
    }
    pl_json_object_end(j);
}

void pl_detail_put_text(pl_buf *out, const pl_detail *d) {
    pl_buf_puts(out, "  |d|      ");
    for (int i = 0; i < PL_DETAIL_QUANTILES; i++)
        pl_buf_printf(out, "  p%g %.4g", 100 * pl_detail_quantiles[i], d->abs_quantiles[i]);
    pl_buf_puts(out, "\n  |d| / |r|");
    for (int i = 0; i < PL_DETAIL_QUANTILES; i++)
        pl_buf_printf(out, "  p%g %.4g", 100 * pl_detail_quantiles[i], d->rel_quantiles[i]);
    pl_buf_putc(out, '\n');
    if (!isnan(d->argmax))
        pl_buf_printf(out, "  along the last axis: argmax agrees in %.4g %%, top %d in %.4g %%\n",
                      100 * d->argmax, PL_DETAIL_TOP, 100 * d->topk);
    if (d->n_channels > 0) pl_buf_printf(out, "  worst of axis %d:", d->channel_axis);
    for (size_t i = 0; i < d->n_channels; i++)
        pl_buf_printf(out, "%s %lld (%.4g dB, %.4g)", i == 0 ? "" : ",",
                      (long long)d->channels[i].index, d->channels[i].psnr, d->channels[i].max_abs);
    if (d->n_channels > 0) pl_buf_putc(out, '\n');
}
