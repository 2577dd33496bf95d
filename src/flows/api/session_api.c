/* plumb_session: the results, point by point, and in any format. */
#include "flows/api/session_api.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "report/viewed.h"
#include "session/rollup.h"

struct plumb_session {
    pl_session *session;
    char *folder; /* "" = none */
    pthread_mutex_t mutex;
    pl_viewed *viewed; /* the folder, opened when a tensor is asked for */
};

pl_status pl_session_handle_take(pl_session *s, const char *folder, plumb_session **out,
                                 pl_err *err) {
    plumb_session *h = pl_calloc(1, sizeof(*h));
    char *copy = pl_strdup(folder == NULL ? "" : folder);
    if (h == NULL || copy == NULL) {
        pl_free(h);
        pl_free(copy);
        pl_session_free(s);
        return pl_fail_memory(err, sizeof(*h));
    }
    pthread_mutex_init(&h->mutex, NULL);
    h->session = s;
    h->folder = copy;
    *out = h;
    return PL_OK;
}

plumb_status plumb_session_open(const char *path, plumb_session **out, plumb_error *err) {
    pl_session *s = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(path);
    PL_TRY(pl_session_open(path, &s, err));
    return pl_session_handle_take(s, path, out, err);
}

void plumb_session_free(plumb_session *h) {
    if (h == NULL) return;
    pl_viewed_close(h->viewed);
    pl_session_free(h->session);
    pthread_mutex_destroy(&h->mutex);
    pl_free(h->folder);
    pl_free(h);
}

/* ---- the whole ---- */

static const char *str(const char *s) {
    return s == NULL ? "" : s;
}

int plumb_session_get(const plumb_session *h, plumb_session_summary *out) {
    if (h == NULL) return pl_struct_fill(out, NULL, 0);
    const pl_session *s = h->session;
    plumb_session_summary x = { .exit_code = pl_outcome_exit_code(s->outcome),
                                .verdict = pl_outcome_name(s->outcome),
                                .reason = str(s->reason),
                                .folder = h->folder,
                                .created = s->created,
                                .model_path = s->model_path,
                                .model_hash = s->model_hash,
                                .n_nodes = s->model_nodes,
                                .metric = s->metric,
                                .profile = s->profile,
                                .tol = s->tol,
                                .first_divergence = str(s->first_divergence),
                                .observer_effect = s->observer_effect,
                                .observer_note = str(s->observer_note),
                                .n_points = s->n_points,
                                .n_blame = s->n_blame,
                                .n_notes = s->n_notes,
                                .n_timing = s->n_timing,
                                .n_replayed = s->n_replayed,
                                .n_unreplayed = s->n_unreplayed,
                                .single_node_share = s->single_node_share,
                                .n_samples = s->n_samples > 0 ? s->n_samples : 1,
                                .n_failing = s->n_failing_samples,
                                .n_smallest = s->n_cover,
                                .bisect_level = str(s->bisect_level),
                                .bisect_pass = str(s->bisect_pass),
                                .bisect_reason = str(s->bisect_reason),
                                .peak_memory = s->peak_rss,
                                .lines = str(s->lines),
                                .at_fault = str(s->at_fault) };
    for (size_t i = 0; i < s->n_points; i++)
        x.n_outputs += s->points[i].is_output;
    return pl_struct_fill(out, &x, sizeof(x));
}

const char *plumb_session_verdict(const plumb_session *h) {
    return h == NULL ? "" : pl_outcome_name(h->session->outcome);
}

const char *plumb_session_reason(const plumb_session *h) {
    return h == NULL ? "" : str(h->session->reason);
}

int plumb_session_exit_code(const plumb_session *h) {
    return h == NULL ? 0 : pl_outcome_exit_code(h->session->outcome);
}

int plumb_session_side(const plumb_session *h, char side, plumb_side_info *out) {
    if (h == NULL || (side != 'a' && side != 'b')) return pl_struct_fill(out, NULL, 0);
    const pl_side_info *i = side == 'a' ? &h->session->a : &h->session->b;
    const plumb_side_info x = { .backend = str(i->backend),
                                .spec = str(i->spec),
                                .version = str(i->version),
                                .path = str(i->path),
                                .hash = str(i->hash),
                                .failure = str(i->failure),
                                .device = str(i->device),
                                .precision_profile = str(i->precision_profile),
                                .signal = i->signal };
    return pl_struct_fill(out, &x, sizeof(x));
}

/* ---- sync points ---- */

size_t plumb_session_points(const plumb_session *h) {
    return h == NULL ? 0 : h->session->n_points;
}

/* Is it stored in the folder, or in the recording that the session names? */
static int is_kept(const plumb_session *h, const pl_side *side, const pl_side_info *info) {
    if (side->blob != NULL) return h->folder[0] != '\0';
    return side->key != NULL && info->path != NULL && info->path[0] != '\0';
}

int plumb_session_point(const plumb_session *h, size_t i, plumb_sync_point *out) {
    if (h == NULL || i >= h->session->n_points) return pl_struct_fill(out, NULL, 0);
    const pl_session *s = h->session;
    const pl_sync_point *p = &s->points[i];
    const bool has_class = pl_sync_point_has_class(p);
    const plumb_sync_point x = {
        .value = str(p->value),
        .node = str(p->node),
        .op = str(p->op),
        .module = str(p->module),
        .source = str(p->source),
        .counterpart = str(p->counterpart),
        .paired_by = str(p->paired_by),
        .relation = str(p->relation),
        .layout = str(p->layout),
        .confidence = p->confidence,
        .is_input = p->is_input,
        .is_output = p->is_output,
        .metadata_match = p->metadata_match,
        .metadata_reason = str(p->metadata_reason),
        .pair_class = has_class ? pl_pair_class_name(p->pair_class) : "",
        .propagated = p->propagated,
        .local = p->local,
        .amplified = p->amplified,
        .q = p->q,
        .excuse = str(p->excuse),
        .similarity = p->colour == PL_NO_COLOUR ? "" : pl_colour_name(p->colour),
        .verdict = pl_verdict_name(p->verdict),
        .reason = str(p->reason),
        .precision = pl_precision_name(p->precision),
        .sample = p->sample,
        .accepted = p->accepted,
        .dtype_a = p->a.present ? (plumb_dtype)p->a.dtype : (plumb_dtype)0,
        .dtype_b = p->b.present ? (plumb_dtype)p->b.dtype : (plumb_dtype)0,
        .rank_a = p->a.present ? p->a.rank : 0,
        .rank_b = p->b.present ? p->b.rank : 0,
        .dims_a = p->a.dims,
        .dims_b = p->b.dims,
        .has_a = is_kept(h, &p->a, &s->a),
        .has_b = is_kept(h, &p->b, &s->b),
    };
    return pl_struct_fill(out, &x, sizeof(x));
}

size_t plumb_session_find(const plumb_session *h, const char *value) {
    for (size_t i = 0; h != NULL && value != NULL && i < h->session->n_points; i++)
        if (strcmp(h->session->points[i].value, value) == 0) return i;
    return PLUMB_NONE;
}

size_t plumb_session_output(const plumb_session *h, size_t k) {
    for (size_t i = 0; h != NULL && i < h->session->n_points; i++)
        if (h->session->points[i].is_output && k-- == 0) return i;
    return PLUMB_NONE;
}

double plumb_session_metric(const plumb_session *h, size_t i, const char *name) {
    if (h == NULL || name == NULL || i >= h->session->n_points) return (double)NAN;
    return pl_sync_point_metric(h->session, &h->session->points[i], name);
}

size_t plumb_session_count(const plumb_session *h, const char *verdict) {
    size_t n = 0;
    for (size_t i = 0; h != NULL && verdict != NULL && i < h->session->n_points; i++)
        n += strcmp(pl_verdict_name(h->session->points[i].verdict), verdict) == 0;
    return n;
}

/* ---- blame, notes, samples ---- */

size_t plumb_session_blames(const plumb_session *h) {
    return h == NULL ? 0 : h->session->n_blame;
}

int plumb_session_blame(const plumb_session *h, size_t i, plumb_blame *out) {
    if (h == NULL || i >= h->session->n_blame) return pl_struct_fill(out, NULL, 0);
    const pl_blame_entry *e = &h->session->blame[i];
    const plumb_blame x = { .node = str(e->node),
                            .op = str(e->op),
                            .value = str(e->value),
                            .module = str(e->module),
                            .source = str(e->source),
                            .kind = str(e->kind),
                            .where = str(e->where),
                            .q = e->q,
                            .effect = e->effect,
                            .score = e->score,
                            .reason = str(e->reason),
                            .members = e->members,
                            .n_members = e->n_members,
                            .samples = e->samples,
                            .n_samples = e->n_samples };
    return pl_struct_fill(out, &x, sizeof(x));
}

const char *plumb_session_note(const plumb_session *h, size_t i) {
    return h == NULL || i >= h->session->n_notes ? "" : str(h->session->notes[i]);
}

const char *plumb_session_timing(const plumb_session *h, size_t i, double *seconds) {
    const bool known = h != NULL && i < h->session->n_timing;
    if (seconds != NULL) *seconds = known ? h->session->timing[i].seconds : 0;
    return known ? str(h->session->timing[i].phase) : "";
}

int64_t plumb_session_failing(const plumb_session *h, size_t i) {
    return h == NULL || i >= h->session->n_failing_samples ? 0 : h->session->failing_samples[i];
}

int64_t plumb_session_smallest(const plumb_session *h, size_t i) {
    return h == NULL || i >= h->session->n_cover ? 0 : h->session->cover[i];
}

/* ---- tensors ---- */

static pl_status read_tensor(const plumb_session *h, size_t i, const char *side, pl_tensor **out,
                             pl_err *err) {
    const pl_sync_point *p = &h->session->points[i];
    pl_view_pair pair = { .a = NULL };
    if (strcmp(side, "gold") == 0) return pl_viewed_kept(h->viewed, p, side, out, err);
    PL_TRY(pl_viewed_pair(h->viewed, i, &pair, err));
    const pl_tensor *t = strcmp(side, "a") == 0 ? pair.a : pair.b;
    pl_status st = PL_OK;
    if (t == NULL) {
        st = pl_fail(err, pair.unreadable ? PL_E_FORMAT : PL_E_NOT_FOUND,
                     "'%s' of %s was not saved%s%s", p->value, side,
                     pair.why[0] != '\0' ? ": " : "", pair.why);
    } else {
        st = pl_tensor_contiguous(t, out, err);
    }
    pl_view_pair_release(&pair);
    return st;
}

plumb_status plumb_session_tensor(const plumb_session *session, const char *value, const char *side,
                                  plumb_tensor **out, plumb_error *err) {
    pl_tensor *t = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(session);
    PL_REQUIRE(value);
    PL_REQUIRE(side);
    if (strcmp(side, "a") != 0 && strcmp(side, "b") != 0 && strcmp(side, "gold") != 0)
        return pl_fail(err, PL_E_USAGE, "side is '%s', expected a, b or gold", side);
    const size_t i = plumb_session_find(session, value);
    if (i == PLUMB_NONE) return pl_fail(err, PL_E_NOT_FOUND, "no sync point '%s'", value);
    if (session->folder[0] == '\0')
        return pl_fail(err, PL_E_NOT_FOUND, "the session was not written, so it has no tensors");
    plumb_session *h = (plumb_session *)(uintptr_t)session; /* lazily opened state */
    pthread_mutex_lock(&h->mutex);
    pl_status st = PL_OK;
    if (h->viewed == NULL) st = pl_viewed_open(h->folder, &h->viewed, err);
    if (st == PL_OK) st = read_tensor(h, i, side, &t, err);
    pthread_mutex_unlock(&h->mutex);
    if (st == PL_OK) *out = (plumb_tensor *)t;
    return st;
}

/* ---- as text ---- */

static pl_status rollup_key(const char *name, pl_rollup_key *out, pl_err *err) {
    static const pl_rollup_key keys[] = { PL_ROLLUP_MODULE, PL_ROLLUP_OP, PL_ROLLUP_DTYPE };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        *out = keys[i];
        if (strcmp(pl_rollup_key_name(keys[i]), name) == 0) return PL_OK;
    }
    return pl_fail(err, PL_E_USAGE, "roll-up by '%s', expected module, op or dtype", name);
}

pl_status pl_write_read(const plumb_write_options *given, plumb_write_options *own,
                        pl_session_print_options *out, pl_err *err) {
    pl_rollup_key key;
    PL_TRY(pl_options_read(PLUMB_OPTIONS_WRITE, given, own, err));
    *out = (pl_session_print_options){ .format = own->format,
                                       .metric = own->metric,
                                       .limit = own->limit };
    PL_TRY(pl_options_read(PLUMB_OPTIONS_STYLE, own->style, &out->style, err));
    PL_TRY(pl_session_print_check(out, err));
    if (own->sort != NULL && !pl_session_sort_parse(own->sort, &out->sort))
        return pl_fail(err, PL_E_USAGE, "sort is '%s', expected worst or order", own->sort);
    return own->rollup == NULL ? PL_OK : rollup_key(own->rollup, &key, err);
}

pl_status pl_write_is_json(const plumb_write_options *given, bool *json, plumb_write_options *own,
                           pl_err *err) {
    PL_TRY(pl_options_read(PLUMB_OPTIONS_WRITE, given, own, err));
    *json = own->format != NULL && strcmp(own->format, "json") == 0;
    if (own->format == NULL || *json || strcmp(own->format, "text") == 0) return PL_OK;
    return pl_fail(err, PL_E_USAGE, "unknown format '%s'; available: text, json", own->format);
}

plumb_status plumb_write_check(const plumb_write_options *options, plumb_error *err) {
    plumb_write_options own;
    pl_session_print_options print;
    return pl_write_read(options, &own, &print, err);
}

plumb_status plumb_session_write(const plumb_session *session, const plumb_write_options *options,
                                 char **text, plumb_error *err) {
    plumb_write_options own;
    pl_session_print_options print;
    pl_rollup_key key;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(session);
    PL_TRY(pl_write_read(options, &own, &print, err));
    const pl_session *s = session->session;
    const bool is_text = own.format == NULL || strcmp(own.format, "text") == 0;
    if (is_text) pl_buf_puts(&out, s->lines);
    pl_status st = pl_session_print(s, &print, &out, err);
    if (st == PL_OK && is_text && own.rollup != NULL) {
        st = rollup_key(own.rollup, &key, err);
        if (st == PL_OK) st = pl_rollup_print(s, key, own.limit, &out, err);
    }
    if (st == PL_OK) st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}
