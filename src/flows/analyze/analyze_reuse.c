/* A from an earlier session: the values in its store, of the same model and inputs. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/analyze/analyze_int.h"
#include "store/store.h"

static pl_status take_point(pl_analysis *x, pl_store *store, const pl_sync_point *p, pl_err *err) {
    const pl_value *value = pl_strmap_get(&x->a.by_name, p->value);
    pl_blob blob;
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    if (value == NULL || !p->a.present || p->a.blob == NULL || !pl_blob_parse(p->a.blob, &blob)) {
        return PL_OK;
    }
    PL_TRY(pl_store_get(store, &blob, p->a.rank, p->a.dims, &t, err));
    PL_TRY(pl_datum_of_tensor_take(t, &d, err));
    const pl_status st = pl_side_run_put(&x->a, value, d, err);
    pl_datum_unref(d);
    return st;
}

static pl_status take_all(pl_analysis *x, const pl_session *old, pl_err *err) {
    pl_store *store = NULL;
    pl_dir *session = NULL, *dir = NULL;
    pl_status st = pl_dir_open(x->options->reuse, &session, err);
    if (st == PL_OK) st = pl_dir_open_in(session, "store", &dir, err);
    if (st == PL_OK) st = pl_store_open_in(dir, PL_STORE_READ, &store, err);
    for (size_t i = 0; i < old->n_points && st == PL_OK; i++)
        st = take_point(x, store, &old->points[i], err);
    pl_store_close(store);
    pl_dir_close(dir);
    pl_dir_close(session);
    if (st == PL_OK && x->a.n_recorded == 0) {
        st = pl_fail(
            err, PL_E_INVALID,
            "session '%s' holds no tensors of the run under test (option 'save' all keeps them)",
            x->options->reuse);
    }
    return st;
}

/* ---- what A ran on ---- */

static pl_status hash_datum(pl_hasher *h, const pl_datum *d, int depth, pl_err *err) {
    enum { DEPTH_MAX = 32 };
    const int64_t kind = d == NULL ? -1 : (int64_t)d->kind;
    pl_hasher_update(h, &kind, sizeof(kind));
    if (d == NULL || depth > DEPTH_MAX) return PL_OK;
    for (size_t i = 0; i < d->n_items; i++)
        PL_TRY(hash_datum(h, d->items[i], depth + 1, err));
    if (d->kind != PL_TYPE_TENSOR) return PL_OK;
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_contiguous(d->tensor, &t, err));
    const int64_t shape[2] = { (int64_t)t->dtype, t->rank };
    pl_hasher_update(h, shape, sizeof(shape));
    pl_hasher_update(h, t->dims, (size_t)t->rank * sizeof(t->dims[0]));
    const pl_string *text = t->data;
    for (int64_t i = 0; t->dtype == PL_STRING && i < t->n_elements; i++) {
        pl_hasher_update(h, &text[i].n_bytes, sizeof(text[i].n_bytes));
        pl_hasher_update(h, text[i].data, text[i].n_bytes);
    }
    if (t->dtype != PL_STRING && t->n_elements > 0)
        pl_hasher_update(h, t->data, pl_tensor_bytes(t));
    pl_tensor_unref(t);
    return PL_OK;
}

pl_status pl_analysis_hash_inputs(pl_analysis *x, pl_err *err) {
    char hex[PL_HASH128_HEX];
    pl_hasher *h = pl_hasher_new();
    pl_status st = h == NULL ? pl_fail_memory(err, 1) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < x->model->graph->n_inputs; i++)
        st = hash_datum(h, x->in[i], 0, err);
    if (st == PL_OK) {
        pl_hash128_hex(pl_hasher_digest(h), hex);
        x->session->inputs_hash = pl_analysis_keep(x, hex);
    }
    pl_hasher_free(h);
    return st;
}

pl_status pl_analysis_reuse(pl_analysis *x, pl_err *err) {
    pl_session *old = NULL;
    const pl_side_options options = pl_analysis_side(x, "reused", "A");
    PL_TRY(pl_session_open(x->options->reuse, &old, err));
    pl_status st = PL_OK;
    if (strcmp(old->model_hash, x->session->model_hash) != 0) {
        st = pl_fail(err, PL_E_INVALID, "session '%s' belongs to another model (%s, expected %s)",
                     x->options->reuse, old->model_hash, x->session->model_hash);
    }
    if (st == PL_OK && *old->inputs_hash != '\0' &&
        strcmp(old->inputs_hash, x->session->inputs_hash) != 0) {
        st =
            pl_fail(err, PL_E_INVALID,
                    "session '%s' was made with other inputs; pass the same ones (options 'input', "
                    "'inputs', 'dim', 'range', 'fill', 'seed')",
                    x->options->reuse);
    }
    if (st == PL_OK && x->options->backend != NULL &&
        strcmp(x->options->backend, old->a.spec) != 0) {
        st = pl_fail(
            err, PL_E_USAGE,
            "session '%s' holds a run of %s, but option 'backend' is %s; give only one of them",
            x->options->reuse, old->a.spec, x->options->backend);
    }
    if (st == PL_OK) st = pl_side_run_prepare(&x->a, x->model, &options, err);
    if (st == PL_OK) st = take_all(x, old, err);
    if (st == PL_OK) {
        x->session->a.spec = pl_analysis_keep(x, old->a.spec);
        x->session->a.backend = pl_analysis_keep(x, old->a.backend);
        x->session->a.version = pl_analysis_keep(x, old->a.version);
        x->session->a.cpu = pl_analysis_keep(x, old->a.cpu);
        x->session->a.sandbox = pl_analysis_keep(x, old->a.sandbox);
        x->session->a.device = pl_analysis_keep(x, old->a.device);
        if (x->a.arithmetic == NULL) x->a.arithmetic = pl_arithmetic_find(old->a.precision_profile);
        if (x->a.arithmetic != NULL) x->session->a.precision_profile = x->a.arithmetic->name;
        if (pl_placement_copy(&old->a.placement, x->arena, &x->session->a.placement) != PL_OK)
            st = pl_fail_memory(err, 1);
        x->session->a.path = pl_analysis_keep(x, x->options->reuse);
        if (st == PL_OK) st = pl_analysis_timed(x, "reuse A", err);
    }
    pl_session_free(old);
    return st;
}
