/* Reading session.json back.
 *
 * Everything is checked: types, names, ranges and counts, so that later computations cannot
 * overflow; metrics are taken from the accumulators, not from the text. Unknown keys are ignored,
 * missing ones keep the defaults of pl_session_new. Errors are sticky: the first one is kept in
 * `st`, and readers continue with harmless values. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/json_read.h"
#include "onnx/not_onnx.h"
#include "session/advice.h"
#include "session/columns.h"
#include "session/lost_calls.h"
#include "session/quant.h"
#include "session/routing.h"
#include "session/session_int.h"
#include "store/blob.h"
#include "store/recorder.h"

enum { SCALE_MAX = 4096 }; /* exponents of the accumulators; those of double end at 1074 */

typedef struct reader {
    pl_session *session;
    pl_arena *arena;
    pl_status st;
    pl_err *err;
} reader;

static void fault(reader *r, const char *key, const char *what) {
    if (r->st == PL_OK) r->st = pl_fail(r->err, PL_E_FORMAT, "'%s' is not %s", key, what);
}

static const pl_json_value *find(const pl_json_value *o, const char *key) {
    const pl_json_value *v = pl_json_find(o, key);
    return v != NULL && v->kind == PL_JSON_NULL ? NULL : v;
}

static const char *get_text(reader *r, const pl_json_value *o, const char *key, const char *none) {
    const pl_json_value *v = find(o, key);
    if (v == NULL) return none;
    if (v->kind == PL_JSON_STRING && strlen(v->string) == v->n_string) return v->string;
    fault(r, key, "a text");
    return none;
}

static int64_t get_int(reader *r, const pl_json_value *o, const char *key, int64_t none,
                       int64_t min, int64_t max) {
    const pl_json_value *v = find(o, key);
    if (v == NULL) return none;
    if (v->kind == PL_JSON_NUMBER && v->is_integer && v->integer >= min && v->integer <= max)
        return v->integer;
    fault(r, key, "an integer within its range");
    return none;
}

static bool get_bool(reader *r, const pl_json_value *o, const char *key) {
    const pl_json_value *v = find(o, key);
    if (v == NULL) return false;
    if (v->kind != PL_JSON_BOOL) fault(r, key, "true or false");
    return v->kind == PL_JSON_BOOL && v->boolean;
}

static double get_number(reader *r, const pl_json_value *o, const char *key, double none) {
    const pl_json_value *v = find(o, key);
    double x = none;
    if (v != NULL && !pl_json_number(v, &x)) fault(r, key, "a number");
    return x;
}

static const pl_json_value *get_list(reader *r, const pl_json_value *o, const char *key) {
    const pl_json_value *v = find(o, key);
    if (v == NULL || v->kind == PL_JSON_ARRAY) return v;
    fault(r, key, "a list");
    return NULL;
}

static const pl_json_value *get_object(reader *r, const pl_json_value *o, const char *key) {
    const pl_json_value *v = find(o, key);
    if (v == NULL || v->kind == PL_JSON_OBJECT) return v;
    fault(r, key, "an object");
    return NULL;
}

/* One of a list of names; `none` when absent. */
typedef const char *(*name_of)(int i);
static int get_name(reader *r, const pl_json_value *o, const char *key, name_of name, int n,
                    int none) {
    const char *text = get_text(r, o, key, NULL);
    if (text == NULL) return none;
    for (int i = 0; i < n; i++)
        if (strcmp(name(i), text) == 0) return i;
    fault(r, key, "a known name");
    return none;
}
static const char *outcome_at(int i) {
    return pl_outcome_name((pl_outcome)i);
}

static void *new_array(reader *r, const pl_json_value *list, size_t size) {
    void *a = pl_arena_array(r->arena, list == NULL ? 0 : list->n_items, size);
    if (a == NULL && r->st == PL_OK) r->st = pl_fail_memory(r->err, size);
    return a;
}

static const char *const *get_texts(reader *r, const pl_json_value *o, const char *key, size_t *n) {
    const pl_json_value *list = get_list(r, o, key);
    const char **texts = new_array(r, list, sizeof *texts);
    *n = 0;
    if (list == NULL || texts == NULL) return NULL;
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        if (v->kind != PL_JSON_STRING) fault(r, key, "a list of strings");
        texts[(*n)++] = v->kind == PL_JSON_STRING ? v->string : "";
    }
    return texts;
}

/* ---- sync points ---- */

static int get_dims(reader *r, const pl_json_value *o, const char *key, bool any,
                    int64_t dims[PL_RANK_MAX]) {
    const pl_json_value *list = get_list(r, o, key);
    int n = 0;
    if (list == NULL) return 0;
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        if (n == PL_RANK_MAX || !v->is_integer || (!any && v->integer < 0)) {
            fault(r, key, "a list of dims");
            return 0;
        }
        dims[n++] = v->integer;
    }
    return n;
}

static void read_side(reader *r, const pl_json_value *metadata, const char *key, pl_side *s) {
    const pl_json_value *o = get_object(r, metadata, key);
    int64_t n;
    if (o == NULL) return;
    const char *dtype = get_text(r, o, "dtype", "undefined");
    const char *hash = get_text(r, o, "hash", NULL);
    s->present = true;
    s->dtype = pl_dtype_by_name(dtype, strlen(dtype));
    s->offset = get_int(r, o, "offset", 0, 0, INT64_MAX);
    s->rank = get_dims(r, o, "shape", false, s->dims);
    if (!pl_dims_product(s->rank, s->dims, &n)) fault(r, "shape", "of a valid size");
    if (get_dims(r, o, "strides", true, s->strides) != s->rank) fault(r, "strides", "of its rank");
    s->has_hash = hash != NULL;
    if (s->has_hash && !pl_hash128_parse(hash, &s->hash)) fault(r, "hash", "32 hexadecimal digits");
    const char *probe = get_text(r, o, "probe", NULL);
    s->has_probe = probe != NULL;
    if (s->has_probe && !pl_hash128_parse(probe, &s->probe))
        fault(r, "probe", "32 hexadecimal digits");
    s->blob = get_text(r, o, "blob", NULL);
    pl_blob blob;
    if (s->blob != NULL && !pl_blob_parse(s->blob, &blob)) fault(r, "blob", "a valid blob name");
    s->key = get_text(r, o, "key", NULL);
    const pl_json_value *flags = get_list(r, o, "flags");
    for (const pl_json_value *v = flags == NULL ? NULL : flags->first; v != NULL; v = v->next)
        for (unsigned i = 0; v->kind == PL_JSON_STRING && i < PL_RECORD_FLAGS; i++)
            if (strcmp(v->string, pl_record_flag_name(1u << i)) == 0) s->flags |= 1u << i;
}

static void read_accumulators(reader *r, const pl_json_value *point, pl_sync_point *p) {
    const pl_json_value *o = get_object(r, point, "accumulators");
    pl_accumulators *acc = &p->acc;
    if (o == NULL) return;
    p->measured = true;
    acc->n = get_int(r, o, "n", 0, 0, INT64_MAX);
#define X(field) acc->field = get_int(r, o, #field, 0, 0, acc->n);
    PL_ACC_COUNTS(X)
#undef X
#define X(field) acc->field = get_int(r, o, #field, -1, -1, acc->n - 1);
    PL_ACC_INDICES(X)
#undef X
    acc->max_ulp = get_int(r, o, "max_ulp", 0, 0, INT64_MAX);
    acc->d_scale = get_int(r, o, "d_scale", 0, -SCALE_MAX, SCALE_MAX);
    acc->v_scale = get_int(r, o, "v_scale", 0, -SCALE_MAX, SCALE_MAX);
#define X(field)                                                                                   \
    acc->field = get_number(r, o, #field, 0);                                                      \
    if (isnan(acc->field)) fault(r, #field, "a number");
    PL_ACC_DOUBLES(X)
#undef X
}

static void read_metrics(reader *r, const pl_json_value *point, pl_sync_point *p) {
    const pl_session *s = r->session;
    const pl_json_value *o = get_object(r, point, "metrics");
    if (s->n_user_metrics == 0 || o == NULL) return;
    double *values = pl_arena_array(r->arena, s->n_user_metrics, sizeof *values);
    if (values == NULL) {
        if (r->st == PL_OK) r->st = pl_fail_memory(r->err, s->n_user_metrics);
        return;
    }
    for (size_t i = 0; i < s->n_user_metrics; i++)
        values[i] = get_number(r, o, s->user_metrics[i].name, (double)NAN);
    p->user_metrics = values;
}

static void read_limits(reader *r, const pl_json_value *point, pl_sync_point *p) {
    const pl_json_value *o = get_object(r, point, "limits");
    if (o == NULL) return;
    p->limits.known = true;
    p->limits.green = get_number(r, o, "green", 0);
    p->limits.yellow = get_number(r, o, "yellow", 0);
    p->limits_from = get_text(r, o, "from", "");
}

static void read_metadata(reader *r, const pl_json_value *point, pl_sync_point *p) {
    const pl_json_value *o = get_object(r, point, "metadata");
    p->metadata_match = get_bool(r, o, "match");
    p->metadata_reason = get_text(r, o, "reason", "");
    read_side(r, o, "a", &p->a);
    read_side(r, o, "b", &p->b);
}

static void read_detail(reader *r, const pl_json_value *point, pl_sync_point *p) {
    (void)r, (void)point, (void)p; /* computed on request */
}

/* Columns that columns.def marks as OWN. */
typedef void (*read_own)(reader *r, const pl_json_value *point, pl_sync_point *p);
#define READ_NO(name) NULL
#define READ_YES(name) NULL
#define READ_OWN(name) read_##name
static const read_own own_columns[PL_N_COLUMNS] = {
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning) READ_##JSON(name),
#include "session/columns.def"
#undef PL_COLUMN
};

/* A missing column keeps the default of pl_sync_point_init. */
static void read_column(reader *r, const pl_json_value *o, const pl_column *c, pl_sync_point *p) {
    void *field = pl_column_field(c, p);
    const char *name = NULL;
    switch (c->kind) {
    case PL_COLUMN_TEXT:
        *(const char **)field = get_text(r, o, c->name, pl_column_text(c, p));
        return;
    case PL_COLUMN_NUMBER:
        *(double *)field = get_number(r, o, c->name, pl_column_number(c, p));
        return;
    case PL_COLUMN_INTEGER:
        *(int64_t *)field = get_int(r, o, c->name, pl_column_integer(c, p), 0, INT64_MAX);
        return;
    case PL_COLUMN_FLAG: *(bool *)field = get_bool(r, o, c->name); return;
    case PL_COLUMN_NAME:
        name = get_text(r, o, c->name, NULL);
        if (name != NULL && !pl_column_set_name(c, p, name)) fault(r, c->name, "a known name");
        return;
    case PL_COLUMN_OWN: return;
    }
}

static void read_point(reader *r, const pl_json_value *o, pl_sync_point *p) {
    pl_sync_point_init(p);
    for (size_t i = 0; i < PL_N_COLUMNS; i++) {
        if (pl_columns[i].json == PL_COLUMN_IS_YES) read_column(r, o, &pl_columns[i], p);
        if (own_columns[i] != NULL) own_columns[i](r, o, p);
    }
}

static void read_points(reader *r, const pl_json_value *root) {
    const pl_json_value *list = get_list(r, root, "sync_points");
    pl_session *s = r->session;
    s->points = new_array(r, list, sizeof *s->points);
    if (list == NULL || s->points == NULL) return;
    for (const pl_json_value *v = list->first; v != NULL && r->st == PL_OK; v = v->next) {
        pl_sync_point *p = &s->points[s->n_points++];
        if (v->kind != PL_JSON_OBJECT) fault(r, "sync_points", "a list of objects");
        read_point(r, v, p);
        if (r->st != PL_OK)
            r->st = pl_err_wrap(r->err, r->st, "sync point %zu ('%s')", s->n_points - 1, p->value);
    }
}

/* ---- the rest ---- */

static const int64_t *get_numbers(reader *r, const pl_json_value *o, const char *key, size_t *n) {
    const pl_json_value *list = get_list(r, o, key);
    int64_t *numbers = new_array(r, list, sizeof *numbers);
    *n = 0;
    if (list == NULL || numbers == NULL) return NULL;
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        if (!v->is_integer || v->integer < 0) fault(r, key, "a list of numbers");
        numbers[(*n)++] = v->is_integer ? v->integer : 0;
    }
    return numbers;
}

static void read_blame(reader *r, const pl_json_value *root) {
    const pl_json_value *list = get_list(r, root, "blame");
    pl_session *s = r->session;
    s->blame = new_array(r, list, sizeof *s->blame);
    if (list == NULL || s->blame == NULL) return;
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        pl_blame_entry *b = &s->blame[s->n_blame++];
        b->node = get_text(r, v, "node", "");
        b->op = get_text(r, v, "op", "");
        b->value = get_text(r, v, "value", "");
        b->members = get_texts(r, v, "members", &b->n_members);
        b->kind = get_text(r, v, "kind", "");
        b->where = get_text(r, v, "where", "");
        b->q = get_number(r, v, "q", (double)NAN);
        b->effect = get_number(r, v, "effect", (double)NAN);
        b->score = get_number(r, v, "score", (double)NAN);
        b->reason = get_text(r, v, "reason", "");
        b->module = get_text(r, v, "module", "");
        b->source = get_text(r, v, "source", "");
        b->samples = get_numbers(r, v, "samples", &b->n_samples);
    }
}

static void read_side_info(reader *r, const pl_json_value *root, const char *key, pl_side_info *i) {
    const pl_json_value *o = get_object(r, root, key);
    i->backend = get_text(r, o, "backend", "");
    i->spec = get_text(r, o, "spec", "");
    i->version = get_text(r, o, "version", "");
    i->cpu = get_text(r, o, "cpu", "");
    i->device = get_text(r, o, "device", "");
    i->precision_profile = get_text(r, o, "precision_profile", "");
    if (r->st == PL_OK)
        r->st = pl_placement_read_json(find(o, "placement"), r->arena, &i->placement, r->err);
    i->sandbox = get_text(r, o, "sandbox", "");
    i->path = get_text(r, o, "path", "");
    i->hash = get_text(r, o, "hash", "");
    i->failure = get_text(r, o, "failure", "");
    i->signal = (int)get_int(r, o, "signal", 0, 0, 1000);
}

static void read_user_rows(reader *r, const pl_json_value *root) {
    const pl_json_value *list = get_list(r, root, "user_metrics");
    pl_user_metric *rows = new_array(r, list, sizeof *rows);
    if (list == NULL || rows == NULL) return;
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        const char *name = get_text(r, v, "name", "");
        bool taken = pl_metric_find(name) != NULL;
        for (size_t i = 0; i < r->session->n_user_metrics; i++)
            taken = taken || strcmp(rows[i].name, name) == 0;
        if (taken) fault(r, "user_metrics", "a list of different names");
        rows[r->session->n_user_metrics++] = (pl_user_metric){
            .name = name,
            .unit = get_text(r, v, "unit", ""),
            .direction =
                get_bool(r, v, "higher_is_better") ? PL_HIGHER_IS_BETTER : PL_LOWER_IS_BETTER,
        };
    }
    r->session->user_metrics = rows;
}

static void read_lists(reader *r, const pl_json_value *root) {
    pl_session *s = r->session;
    const pl_json_value *left = get_list(r, root, "left_over");
    const pl_json_value *timing = get_object(r, root, "timing");
    s->left_b = new_array(r, left, sizeof *s->left_b);
    s->timing = new_array(r, timing, sizeof *s->timing);
    if (s->left_b == NULL || s->timing == NULL) return;
    for (const pl_json_value *v = left == NULL ? NULL : left->first; v != NULL; v = v->next) {
        s->left_b[s->n_left_b++] = (pl_left_over){ .value = get_text(r, v, "value", ""),
                                                   .op = get_text(r, v, "op", ""),
                                                   .reason = get_text(r, v, "reason", ""),
                                                   .expected = get_bool(r, v, "expected"),
                                                   .is_output = get_bool(r, v, "output") };
    }
    for (const pl_json_value *v = timing == NULL ? NULL : timing->first; v != NULL; v = v->next) {
        if (v->kind != PL_JSON_NUMBER) fault(r, "timing", "an object of numbers");
        s->timing[s->n_timing++] = (pl_timing_entry){ v->key, v->number };
    }
    s->notes = get_texts(r, root, "notes", &s->n_notes);
}

static void read_samples(reader *r, const pl_json_value *root) {
    pl_session *s = r->session;
    s->n_samples = (size_t)get_int(r, root, "samples", 0, 0, INT64_MAX);
    s->failing_samples = get_numbers(r, root, "failing_samples", &s->n_failing_samples);
    s->cover = get_numbers(r, root, "smallest_failing_set", &s->n_cover);
}

static void read_bisect(reader *r, const pl_json_value *root) {
    const pl_json_value *o = get_object(r, root, "bisect");
    if (o == NULL) return;
    r->session->bisect_level = get_text(r, o, "level", "");
    r->session->bisect_pass = get_text(r, o, "pass", "");
    r->session->bisect_reason = get_text(r, o, "reason", "");
}

static const char *loss_at(int i) {
    return pl_loss_name((pl_loss)i);
}

static void read_advice_row(reader *r, const pl_json_value *v, pl_advice_row *row) {
    *row = (pl_advice_row){
        .node = get_text(r, v, "node", ""),
        .op = get_text(r, v, "op", ""),
        .value = get_text(r, v, "value", ""),
        .module = get_text(r, v, "module", ""),
        .loss = (pl_loss)get_name(r, v, "loss", loss_at, PL_LOSS_COUNT, PL_LOSS_NONE),
        .raise = get_bool(r, v, "raise"),
        .n = get_int(r, v, "elements", 0, 0, INT64_MAX),
        .n_over = get_int(r, v, "overflow", 0, 0, INT64_MAX),
        .n_under = get_int(r, v, "underflow", 0, 0, INT64_MAX),
        .largest = get_number(r, v, "largest", (double)NAN),
        .condition = get_number(r, v, "condition", (double)NAN),
        .local = get_number(r, v, "local", (double)NAN),
        .effect = get_number(r, v, "effect", (double)NAN),
    };
}

static void read_advice(reader *r, const pl_json_value *root) {
    const pl_json_value *o = get_object(r, root, "advice");
    if (o == NULL) return;
    const pl_json_value *list = get_list(r, o, "rows");
    pl_advice *a = pl_arena_array(r->arena, 1, sizeof(*a));
    pl_advice_row *rows = new_array(r, list, sizeof(*rows));
    if (a == NULL && r->st == PL_OK) r->st = pl_fail_memory(r->err, sizeof(*a));
    if (a == NULL || rows == NULL) return;
    *a = (pl_advice){
        .precision = get_text(r, o, "precision", ""),
        .limit = get_text(r, o, "limit", ""),
        .reason = get_text(r, o, "reason", ""),
        .met = get_bool(r, o, "met"),
        .one_minimal = get_bool(r, o, "one_minimal"),
        .before = get_number(r, o, "before", (double)NAN),
        .after = get_number(r, o, "after", (double)NAN),
        .n_nodes = (size_t)get_int(r, o, "nodes", 0, 0, INT64_MAX),
        .n_queries = (size_t)get_int(r, o, "queries", 0, 0, INT64_MAX),
        .model = get_text(r, o, "model", ""),
        .by = get_text(r, o, "by", ""),
        .top1_before = get_number(r, o, "top1_before", (double)NAN),
        .top1_after = get_number(r, o, "top1_after", (double)NAN),
        .n_held = get_int(r, o, "held_back", 0, 0, INT64_MAX),
        .held_before = get_number(r, o, "held_before", (double)NAN),
        .held_after = get_number(r, o, "held_after", (double)NAN),
        .rows = rows,
    };
    for (const pl_json_value *v = list == NULL ? NULL : list->first; v != NULL; v = v->next) {
        read_advice_row(r, v, &rows[a->n_rows]);
        a->n_raised += rows[a->n_rows++].raise;
    }
    r->session->advice = a;
}

static void read_quant_row(reader *r, const pl_json_value *v, pl_quant_row *row) {
    *row = (pl_quant_row){
        .node = get_text(r, v, "node", ""),
        .op = get_text(r, v, "op", ""),
        .value = get_text(r, v, "value", ""),
        .module = get_text(r, v, "module", ""),
        .alone = get_number(r, v, "error_alone", (double)NAN),
        .share = get_number(r, v, "share", (double)NAN),
        .cumulative = get_number(r, v, "cumulative", (double)NAN),
        .kept = get_number(r, v, "error_kept", (double)NAN),
        .gain = get_number(r, v, "gain", (double)NAN),
        .top1_gain = get_number(r, v, "top1_gain", (double)NAN),
        .kind = get_text(r, v, "kind", ""),
        .evidence = get_text(r, v, "evidence", ""),
        .keep = get_bool(r, v, "keep"),
    };
}

static void read_quant(reader *r, const pl_json_value *root) {
    const pl_json_value *o = get_object(r, root, "quantisation");
    if (o == NULL) return;
    const pl_json_value *list = get_list(r, o, "layers");
    pl_quantisation *q = pl_arena_array(r->arena, 1, sizeof(*q));
    pl_quant_row *rows = new_array(r, list, sizeof(*rows));
    if (q == NULL && r->st == PL_OK) r->st = pl_fail_memory(r->err, sizeof(*q));
    if (q == NULL || rows == NULL) return;
    *q = (pl_quantisation){
        .metric = get_text(r, o, "metric", ""),
        .unit = get_text(r, o, "unit", ""),
        .error = get_number(r, o, "error", (double)NAN),
        .value = get_number(r, o, "value", (double)NAN),
        .top1 = get_number(r, o, "top1", (double)NAN),
        .limit = get_number(r, o, "limit", (double)NAN),
        .float_weights = get_bool(r, o, "float_weights"),
        .note = get_text(r, o, "note", ""),
        .rows = rows,
    };
    for (const pl_json_value *v = list == NULL ? NULL : list->first; v != NULL; v = v->next)
        read_quant_row(r, v, &rows[q->n_rows++]);
    r->session->quant = q;
}

static size_t get_size(reader *r, const pl_json_value *o, const char *key) {
    return (size_t)get_int(r, o, key, 0, 0, INT64_MAX);
}

static void read_coverage(reader *r, const pl_json_value *o, pl_session *s) {
    s->coverage = (pl_coverage){ .n_outputs = get_size(r, o, "outputs"),
                                 .n_outputs_compared = get_size(r, o, "outputs_compared"),
                                 .n_verified = get_size(r, o, "verified"),
                                 .n_unverified = get_size(r, o, "unverified"),
                                 .n_unpaired = get_size(r, o, "unpaired"),
                                 .n_inputs = get_size(r, o, "inputs") };
    s->n_replayed = get_size(r, o, "replayed");
    s->n_unreplayed = get_size(r, o, "unreplayed");
    s->single_node_share = get_number(r, o, "single_node_share", (double)NAN);
}

static void read_head(reader *r, const pl_json_value *root) {
    pl_session *s = r->session;
    const pl_json_value *model = get_object(r, root, "model");
    const pl_json_value *coverage = get_object(r, root, "coverage");
    s->outcome =
        (pl_outcome)get_name(r, root, "verdict", outcome_at, PL_OUTCOME_COUNT, PL_OUTCOME_FAILED);
    s->reason = get_text(r, root, "reason", "");
    s->at_fault = get_text(r, root, "at_fault", "");
    read_coverage(r, coverage, s);
    s->created = get_text(r, root, "created", "");
    s->metric = get_text(r, root, "metric", "psnr");
    s->profile = get_text(r, root, "profile", "");
    s->tol = get_number(r, root, "tol", (double)NAN);
    s->model_path = get_text(r, model, "path", "");
    s->model_hash = get_text(r, model, "hash", "");
    s->model_nodes = (size_t)get_int(r, model, "nodes", 0, 0, INT64_MAX);
    s->inputs_hash = get_text(r, model, "inputs", "");
    read_side_info(r, root, "a", &s->a);
    read_side_info(r, root, "b", &s->b);
    s->observer_effect = get_bool(r, root, "observer_effect");
    s->observer_note = get_text(r, root, "observer_note", "");
    s->first_divergence = get_text(r, root, "first_divergence", NULL);
    s->peak_rss = get_int(r, root, "peak_rss", 0, 0, INT64_MAX);
}

static pl_status read_root(reader *r, const char *text, size_t n) {
    const pl_json_value *root = NULL;
    PL_TRY(pl_json_read(text, n, r->arena, &root, r->err));
    if (root->kind != PL_JSON_OBJECT || find(root, "sync_points") == NULL)
        return pl_fail(r->err, PL_E_FORMAT, "not a session: it has no 'sync_points'");
    const int64_t format = get_int(r, root, "session", 0, 0, INT64_MAX);
    if (format != PL_SESSION_FORMAT)
        return pl_fail(r->err, PL_E_UNSUPPORTED, "session format %lld, expected %d",
                       (long long)format, PL_SESSION_FORMAT);
    read_head(r, root);
    PL_TRY(pl_lost_calls_take(r->session, find(root, "lost_calls"), r->err));
    PL_TRY(pl_routing_take(r->session, find(root, "routing"), r->err));
    read_samples(r, root);
    read_bisect(r, root);
    read_advice(r, root);
    read_quant(r, root);
    read_user_rows(r, root);
    read_points(r, root);
    read_blame(r, root);
    read_lists(r, root);
    return r->st;
}

pl_status pl_session_read(const char *text, size_t n, const char *name, pl_session **out,
                          pl_err *err) {
    reader r = { .err = err };
    PL_TRY(pl_session_new(&r.session, err));
    r.arena = r.session->arena;
    const pl_status st = read_root(&r, text, n);
    if (st != PL_OK) {
        pl_session_free(r.session);
        return pl_err_wrap(err, st, "%s", name);
    }
    *out = r.session;
    return PL_OK;
}

/* A session is a JSON object. */
static bool may_be_session(const pl_file_map *map) {
    const char *text = (const char *)map->data;
    size_t i = 0;
    while (i < map->n_bytes &&
           (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t'))
        i++;
    return i < map->n_bytes && text[i] == '{';
}

/* Names the kind of file; drops the advice for using it as a model. */
static pl_status fail_kind(const char *path, const char *what, pl_err *err) {
    return pl_fail(err, PL_E_FORMAT,
                   "'%s' is %.*s, not a session; pass the folder that 'plumb analyze' or 'plumb "
                   "compare' wrote",
                   path, (int)strcspn(what, ";,:"), what);
}

pl_status pl_session_open(const char *path, pl_session **out, pl_err *err) {
    pl_dir *dir = NULL;
    pl_file_map *map = NULL;
    pl_status st = PL_OK;
    if (!pl_path_is_dir(path)) {
        st = pl_file_map_open_regular(path, &map, err);
    } else if ((st = pl_dir_open(path, &dir, err)) == PL_OK) {
        st = pl_dir_map(dir, "session.json", &map, err);
        if (st == PL_E_NOT_FOUND) st = fail_kind(path, pl_not_session_folder(path), err);
    }
    if (st == PL_OK && !may_be_session(map))
        st = fail_kind(path, pl_not_session(map->data, map->n_bytes, path), err);
    if (st == PL_OK)
        st = pl_session_read((const char *)map->data, map->n_bytes, map->path, out, err);
    pl_file_map_unref(map);
    pl_dir_close(dir);
    return st;
}
