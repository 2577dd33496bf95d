/* A session as JSON, names as in docs/formats/session.md. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "session/advice.h"
#include "session/columns.h"
#include "session/detail.h"
#include "session/lost_calls.h"
#include "session/quant.h"
#include "session/rollup.h"
#include "session/routing.h"
#include "session/session_int.h"
#include "store/recorder.h"

/* Unknown is null; infinities are strings. */
static void put_text(pl_json *j, const char *key, const char *s) {
    pl_json_put_string(j, key, s == NULL ? "" : s);
}

static void put_side(pl_json *j, const char *key, const pl_side *s) {
    char hex[PL_HASH128_HEX];
    pl_json_key(j, key);
    if (!s->present) {
        pl_json_null(j);
        return;
    }
    pl_json_object_begin(j);
    pl_json_put_string(j, "dtype", pl_dtype_name(s->dtype));
    pl_hash128_hex(s->hash, hex);
    pl_json_put_string(j, "hash", s->has_hash ? hex : NULL);
    pl_json_put_int(j, "offset", s->offset);
    pl_json_put_ints(j, "shape", s->dims, (size_t)s->rank);
    pl_json_put_ints(j, "strides", s->strides, (size_t)s->rank);
    pl_json_key(j, "flags");
    pl_json_array_begin(j);
    for (unsigned i = 0; i < PL_RECORD_FLAGS; i++)
        if ((s->flags >> i & 1u) != 0) pl_json_string(j, pl_record_flag_name(1u << i));
    pl_json_array_end(j);
    pl_hash128_hex(s->probe, hex);
    if (s->has_probe) pl_json_put_string(j, "probe", hex);
    if (s->blob != NULL) pl_json_put_string(j, "blob", s->blob);
    if (s->key != NULL) pl_json_put_string(j, "key", s->key);
    pl_json_object_end(j);
}

static void put_metadata(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    (void)s;
    pl_json_key(j, "metadata");
    pl_json_object_begin(j);
    pl_json_put_bool(j, "match", p->metadata_match);
    put_text(j, "reason", p->metadata_reason);
    put_side(j, "a", &p->a);
    put_side(j, "b", &p->b);
    pl_json_object_end(j);
}

static void put_metrics(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    pl_json_key(j, "metrics");
    pl_json_object_begin(j);
    for (size_t i = 0; p->measured && i < pl_n_metrics; i++)
        pl_json_put_double(j, pl_metrics[i].name, pl_metrics[i].value(&p->acc));
    for (size_t i = 0; i < s->n_user_metrics; i++)
        pl_json_put_known(j, s->user_metrics[i].name,
                          p->user_metrics != NULL ? p->user_metrics[i] : (double)NAN);
    pl_json_object_end(j);
}

static void put_accumulators(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    (void)s;
    const pl_accumulators *acc = &p->acc;
    pl_json_key(j, "accumulators");
    if (!p->measured) {
        pl_json_null(j);
        return;
    }
    pl_json_object_begin(j);
    pl_json_put_int(j, "n", acc->n);
#define X(field) pl_json_put_int(j, #field, acc->field);
    PL_ACC_COUNTS(X)
    X(max_ulp)
    PL_ACC_INDICES(X)
    X(d_scale)
    X(v_scale)
#undef X
#define X(field) pl_json_put_double(j, #field, acc->field);
    PL_ACC_DOUBLES(X)
#undef X
    pl_json_object_end(j);
}

static void put_limits(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    pl_json_key(j, "limits");
    if (!p->limits.known) {
        pl_json_null(j);
        return;
    }
    pl_json_object_begin(j);
    put_text(j, "metric", pl_sync_point_limits_of(s, p));
    pl_json_put_double(j, "green", p->limits.green);
    pl_json_put_double(j, "yellow", p->limits.yellow);
    put_text(j, "from", p->limits_from);
    pl_json_object_end(j);
}

static void put_detail(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    (void)s;
    if (p->detail == NULL) return;
    pl_json_key(j, "detail");
    pl_detail_put_json(j, p->detail);
}

/* Columns that columns.def marks as OWN. */
typedef void (*put_own)(pl_json *j, const pl_session *s, const pl_sync_point *p);
#define PUT_NO(name) NULL
#define PUT_YES(name) NULL
#define PUT_OWN(name) put_##name
static const put_own own_columns[PL_N_COLUMNS] = {
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning) PUT_##JSON(name),
#include "session/columns.def"
#undef PL_COLUMN
};

static void put_column(pl_json *j, const pl_column *c, const pl_sync_point *p) {
    switch (c->kind) {
    case PL_COLUMN_TEXT: put_text(j, c->name, pl_column_text(c, p)); return;
    case PL_COLUMN_NAME: pl_json_put_string(j, c->name, pl_column_text(c, p)); return;
    case PL_COLUMN_NUMBER: pl_json_put_known(j, c->name, pl_column_number(c, p)); return;
    case PL_COLUMN_INTEGER: pl_json_put_int(j, c->name, pl_column_integer(c, p)); return;
    case PL_COLUMN_FLAG: pl_json_put_bool(j, c->name, pl_column_flag(c, p)); return;
    case PL_COLUMN_OWN: return;
    }
}

static void put_point(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    pl_json_object_begin(j);
    for (size_t i = 0; i < PL_N_COLUMNS; i++) {
        if (pl_columns[i].json == PL_COLUMN_IS_YES) put_column(j, &pl_columns[i], p);
        if (own_columns[i] != NULL) own_columns[i](j, s, p);
    }
    pl_json_object_end(j);
}

void pl_session_put_side(pl_json *j, const char *key, const pl_side_info *i) {
    pl_json_key(j, key);
    pl_json_object_begin(j);
    put_text(j, "backend", i->backend);
    put_text(j, "spec", i->spec);
    put_text(j, "version", i->version);
    put_text(j, "cpu", i->cpu);
    put_text(j, "device", i->device);
    put_text(j, "precision_profile", i->precision_profile);
    if (i->placement.n_places > 0) pl_placement_put_json(&i->placement, "placement", j);
    put_text(j, "sandbox", i->sandbox);
    put_text(j, "path", i->path);
    put_text(j, "hash", i->hash);
    put_text(j, "failure", i->failure);
    pl_json_put_int(j, "signal", i->signal);
    pl_json_object_end(j);
}

void pl_session_put_blame(pl_json *j, const pl_session *s) {
    pl_json_key(j, "blame");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_blame; i++) {
        const pl_blame_entry *b = &s->blame[i];
        pl_json_object_begin(j);
        put_text(j, "node", b->node);
        put_text(j, "op", b->op);
        put_text(j, "value", b->value);
        pl_json_key(j, "members");
        pl_json_array_begin(j);
        for (size_t k = 0; k < b->n_members; k++)
            pl_json_string(j, b->members[k]);
        pl_json_array_end(j);
        put_text(j, "kind", b->kind);
        put_text(j, "where", b->where);
        pl_json_put_known(j, "q", b->q);
        pl_json_put_known(j, "effect", b->effect);
        pl_json_put_known(j, "score", b->score);
        put_text(j, "reason", b->reason);
        put_text(j, "module", b->module);
        put_text(j, "source", b->source);
        if (b->n_samples > 0) pl_json_put_ints(j, "samples", b->samples, b->n_samples);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static void put_points(pl_json *j, const pl_session *s, const char *key, bool outputs_only) {
    pl_json_key(j, key);
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_points; i++)
        if (!outputs_only || s->points[i].is_output) put_point(j, s, &s->points[i]);
    pl_json_array_end(j);
}

/* Phases that occur several times become one key with the sum. */
static void put_timing(pl_json *j, const pl_session *s) {
    pl_json_key(j, "timing");
    pl_json_object_begin(j);
    for (size_t i = 0; i < s->n_timing; i++) {
        double seconds = 0;
        bool first = true;
        for (size_t k = 0; k < s->n_timing; k++) {
            if (strcmp(s->timing[k].phase, s->timing[i].phase) != 0) continue;
            first = first && k >= i;
            seconds += s->timing[k].seconds;
        }
        if (first) pl_json_put_double(j, s->timing[i].phase, seconds);
    }
    pl_json_object_end(j);
}

void pl_session_put_left_over(pl_json *j, const pl_session *s) {
    pl_json_key(j, "left_over");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_left_b; i++) {
        pl_json_object_begin(j);
        put_text(j, "value", s->left_b[i].value);
        put_text(j, "op", s->left_b[i].op);
        put_text(j, "reason", s->left_b[i].reason);
        pl_json_put_bool(j, "expected", s->left_b[i].expected);
        pl_json_put_bool(j, "output", s->left_b[i].is_output);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

void pl_session_put_notes(pl_json *j, const pl_session *s) {
    pl_json_key(j, "notes");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_notes; i++)
        pl_json_string(j, s->notes[i]);
    pl_json_array_end(j);
}

static void put_lists(pl_json *j, const pl_session *s) {
    pl_session_put_left_over(j, s);
    pl_json_key(j, "user_metrics");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_user_metrics; i++) {
        pl_json_object_begin(j);
        put_text(j, "name", s->user_metrics[i].name);
        put_text(j, "unit", s->user_metrics[i].unit);
        pl_json_put_bool(j, "higher_is_better",
                         s->user_metrics[i].direction == PL_HIGHER_IS_BETTER);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_session_put_notes(j, s);
    put_timing(j, s);
}

static void put_rollup(pl_json *j, const pl_session *s, pl_rollup_key key) {
    pl_rollup r;
    pl_json_key(j, pl_rollup_key_name(key));
    pl_json_array_begin(j);
    if (pl_rollup_make(s, key, &r, NULL) == PL_OK) {
        for (size_t i = 0; i < r.n_rows; i++) {
            pl_json_object_begin(j);
            put_text(j, "name", r.rows[i].name);
            pl_json_put_int(j, "values", (int64_t)r.rows[i].n_values);
            pl_json_put_int(j, "culprit", (int64_t)r.rows[i].n_culprit);
            pl_json_put_int(j, "inherited", (int64_t)r.rows[i].n_inherited);
            pl_json_put_int(j, "red", (int64_t)r.rows[i].n_red);
            pl_json_put_int(j, "yellow", (int64_t)r.rows[i].n_yellow);
            put_text(j, "worst", r.rows[i].worst == NULL ? "" : r.rows[i].worst->value);
            pl_json_object_end(j);
        }
        pl_rollup_release(&r);
    } else {
        j->buf->failed = true;
    }
    pl_json_array_end(j);
}

void pl_session_put_coverage(pl_json *j, const pl_session *s) {
    const pl_coverage *c = &s->coverage;
    pl_json_key(j, "coverage");
    pl_json_object_begin(j);
    pl_json_put_int(j, "outputs", (int64_t)c->n_outputs);
    pl_json_put_int(j, "outputs_compared", (int64_t)c->n_outputs_compared);
    pl_json_put_int(j, "verified", (int64_t)c->n_verified);
    pl_json_put_int(j, "unverified", (int64_t)c->n_unverified);
    pl_json_put_int(j, "unpaired", (int64_t)c->n_unpaired);
    pl_json_put_int(j, "inputs", (int64_t)c->n_inputs);
    pl_json_put_int(j, "replayed", (int64_t)s->n_replayed);
    pl_json_put_int(j, "unreplayed", (int64_t)s->n_unreplayed);
    pl_json_put_known(j, "single_node_share", s->single_node_share);
    pl_json_object_end(j);
}

static void put_rollups(pl_json *j, const pl_session *s) {
    pl_json_key(j, "rollup");
    pl_json_object_begin(j);
    put_rollup(j, s, PL_ROLLUP_MODULE);
    put_rollup(j, s, PL_ROLLUP_OP);
    put_rollup(j, s, PL_ROLLUP_DTYPE);
    pl_json_object_end(j);
}

void pl_session_put_json(const pl_session *s, pl_buf *out) {
    pl_json json, *j = &json;
    pl_json_init(j, out, true);
    pl_json_object_begin(j);
    pl_json_put_string(j, "plumb", PLUMB_VERSION);
    pl_json_put_int(j, "session", PL_SESSION_FORMAT);
    pl_json_put_string(j, "verdict", pl_outcome_name(s->outcome));
    put_text(j, "reason", s->reason);
    put_text(j, "at_fault", s->at_fault);
    pl_lost_calls_put_json(s, j);
    put_text(j, "created", s->created);
    pl_json_key(j, "model");
    pl_json_object_begin(j);
    put_text(j, "path", s->model_path);
    put_text(j, "hash", s->model_hash);
    pl_json_put_int(j, "nodes", (int64_t)s->model_nodes);
    if (s->inputs_hash[0] != '\0') put_text(j, "inputs", s->inputs_hash);
    pl_json_object_end(j);
    pl_session_put_side(j, "a", &s->a);
    pl_session_put_side(j, "b", &s->b);
    pl_json_put_bool(j, "observer_effect", s->observer_effect);
    put_text(j, "observer_note", s->observer_note);
    if (s->n_samples > 1) {
        pl_json_put_int(j, "samples", (int64_t)s->n_samples);
        pl_json_put_ints(j, "failing_samples", s->failing_samples, s->n_failing_samples);
        pl_json_put_ints(j, "smallest_failing_set", s->cover, s->n_cover);
    }
    if (s->bisect_level != NULL) {
        pl_json_key(j, "bisect");
        pl_json_object_begin(j);
        put_text(j, "level", s->bisect_level);
        put_text(j, "pass", s->bisect_pass);
        put_text(j, "reason", s->bisect_reason);
        pl_json_object_end(j);
    }
    if (s->quant != NULL) {
        pl_json_key(j, "quantisation");
        pl_quant_put_json(s->quant, j);
    }
    pl_routing_put_json(s->routing, j);
    if (s->advice != NULL) {
        pl_json_key(j, "advice");
        pl_advice_put_json(s->advice, j);
    }
    put_text(j, "metric", s->metric);
    put_text(j, "profile", s->profile);
    pl_json_put_known(j, "tol", s->tol);
    put_points(j, s, "outputs", true);
    pl_json_put_string(j, "first_divergence", s->first_divergence);
    pl_session_put_blame(j, s);
    pl_session_put_coverage(j, s);
    put_rollups(j, s);
    put_points(j, s, "sync_points", false);
    put_lists(j, s);
    pl_json_put_int(j, "peak_rss", s->peak_rss);
    pl_json_object_end(j);
    pl_buf_putc(out, '\n');
}
