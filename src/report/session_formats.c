/* A session for other tools: CSV (RFC 4180), JUnit, GitHub annotations, SARIF 2.1.0, Model Explorer
 * node data. */
#include <math.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "base/strmap.h"
#include "report/session_print.h"

static bool is_skipped(const pl_sync_point *p) {
    return p->verdict == PL_VERDICT_UNPAIRED || p->verdict == PL_VERDICT_UNVERIFIED;
}

static const char *reason_of(const pl_sync_point *p) {
    if (p->reason[0] != '\0') return p->reason;
    return p->metadata_reason[0] != '\0' ? p->metadata_reason : pl_verdict_name(p->verdict);
}

/* ---- CSV ---- */

static void put_field(pl_buf *out, const char *s, char after) {
    pl_escape_put(out, PL_ESCAPE_CSV, s);
    pl_buf_putc(out, after);
}

static void put_csv_number(pl_buf *out, double x) {
    if (!isnan(x)) pl_buf_printf(out, "%.17g", x);
    pl_buf_putc(out, ',');
}

static void put_csv_row(const pl_session *s, const pl_sync_point *p, pl_buf *out) {
    const char *const texts[] = {
        p->value, p->node, p->op, p->module, p->counterpart, p->paired_by
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        put_field(out, texts[i], ',');
    put_csv_number(out, p->confidence);
    put_field(out, pl_sync_point_has_class(p) ? pl_pair_class_name(p->pair_class) : "", ',');
    for (size_t i = 0; i < pl_n_metrics; i++)
        put_csv_number(out, p->measured ? pl_metrics[i].value(&p->acc) : (double)NAN);
    for (size_t i = 0; i < s->n_user_metrics; i++)
        put_csv_number(out, p->user_metrics != NULL ? p->user_metrics[i] : (double)NAN);
    put_csv_number(out, p->propagated);
    put_csv_number(out, p->local);
    put_csv_number(out, p->amplified);
    put_csv_number(out, p->q);
    put_field(out, p->colour == PL_NO_COLOUR ? "" : pl_colour_name(p->colour), ',');
    put_field(out, pl_verdict_name(p->verdict), ',');
    pl_buf_puts(out, p->accepted ? "1," : "0,");
    put_field(out, p->reason[0] != '\0' ? p->reason : p->metadata_reason, '\n');
}

void pl_session_put_csv(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    pl_buf_puts(out, "value,node,op,module,counterpart,paired_by,confidence,class,");
    for (size_t i = 0; i < pl_n_metrics; i++)
        put_field(out, pl_metrics[i].name, ',');
    for (size_t i = 0; i < s->n_user_metrics; i++)
        put_field(out, s->user_metrics[i].name, ',');
    pl_buf_puts(out, "propagated,local,amplified,q,similarity,verdict,accepted,reason\n");
    for (size_t k = 0; k < s->n_points; k++)
        put_csv_row(s, &s->points[v->order[k]], out);
}

/* ---- JUnit ---- */

static void put_xml(pl_buf *out, const char *s) {
    pl_escape_put(out, PL_ESCAPE_XML, s);
}

static void put_case(const pl_session_view *v, const pl_sync_point *p, pl_buf *out) {
    const double x = pl_sync_point_metric(v->session, p, v->metric);
    pl_buf_puts(out, "    <testcase classname=\"");
    put_xml(out, p->op[0] != '\0' ? p->op : p->is_input ? "input" : "value");
    pl_buf_puts(out, "\" name=\"");
    put_xml(out, p->value);
    pl_buf_puts(out, "\"");
    if (!pl_sync_point_is_bad(p) && !is_skipped(p)) {
        pl_buf_puts(out, "/>\n");
        return;
    }
    pl_buf_puts(out, ">\n");
    pl_buf_puts(out, is_skipped(p) ? "      <skipped message=\"" : "      <failure type=\"");
    if (!is_skipped(p)) {
        pl_buf_puts(out, pl_verdict_name(p->verdict));
        pl_buf_puts(out, "\" message=\"");
    }
    put_xml(out, reason_of(p));
    if (!isnan(x)) pl_buf_printf(out, "; %s %.6g", v->metric, x);
    pl_buf_puts(out, "\"/>\n    </testcase>\n");
}

void pl_session_put_junit(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    size_t n_bad = 0, n_skipped = 0;
    /* A run that failed, or outputs that differ without a bad value, must not read as a pass. */
    for (size_t i = 0; i < s->n_points; i++) {
        n_bad += pl_sync_point_is_bad(&s->points[i]);
        n_skipped += is_skipped(&s->points[i]);
    }
    const bool whole = s->outcome != PL_OUTCOME_AGREE;
    pl_buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    pl_buf_puts(out, "  <testsuite name=\"plumb ");
    put_xml(out, s->model_path[0] != '\0' ? s->model_path : s->a.path);
    pl_buf_printf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\">\n",
                  s->n_points + 1, n_bad + whole, n_skipped);
    pl_buf_puts(out, "    <properties>\n      <property name=\"coverage\" value=\"");
    pl_session_put_coverage_text(s, out);
    pl_buf_printf(out, "\"/>\n      <property name=\"at_fault\" value=\"%s\"/>\n", s->at_fault);
    pl_buf_puts(out, "    </properties>\n");
    pl_buf_puts(out, "    <testcase classname=\"session\" name=\"verdict\"");
    if (whole) {
        pl_buf headline = PL_BUF_INIT;
        pl_session_put_headline(s, &headline);
        pl_buf_printf(out, ">\n      <failure type=\"%s\" message=\"", pl_outcome_name(s->outcome));
        if (!pl_buf_ok(&headline)) out->failed = true;
        put_xml(out, pl_buf_str(&headline));
        pl_buf_puts(out, "\"/>\n    </testcase>\n");
        pl_buf_release(&headline);
    } else {
        pl_buf_puts(out, "/>\n");
    }
    for (size_t k = 0; k < s->n_points; k++)
        put_case(v, &s->points[v->order[k]], out);
    pl_buf_puts(out, "  </testsuite>\n</testsuites>\n");
}

/* ---- findings: what GitHub and SARIF show ---- */

typedef struct finding {
    const char *rule, *value, *node, *source;
    bool is_error;
    pl_buf message;
} finding;

/* The k-th blamed group, or, beyond those, bad value. False when there is no more. */
static bool find_blamed(const pl_session *s, size_t k, finding *f) {
    if (k >= s->n_blame) return false;
    const pl_blame_entry *b = &s->blame[k];
    *f = (finding){ "culprit", b->value, b->node, b->source, true, PL_BUF_INIT };
    pl_buf_printf(&f->message, "%s '%s' computes '%s' wrongly", b->op, b->node, b->value);
    if (b->kind[0] != '\0') pl_buf_printf(&f->message, ": %s", b->kind);
    if (b->reason[0] != '\0') pl_buf_printf(&f->message, " (%s)", b->reason);
    return true;
}

static bool find_bad(const pl_session *s, const pl_sync_point *p, finding *f) {
    if (!pl_sync_point_is_bad(p)) return false;
    if (p->verdict == PL_VERDICT_CULPRIT && s->n_blame > 0) return false; /* said already */
    *f = (finding){ pl_verdict_name(p->verdict),
                    p->value,
                    p->node,
                    p->source,
                    p->verdict != PL_VERDICT_INHERITED && p->verdict != PL_VERDICT_AMPLIFIED,
                    PL_BUF_INIT };
    pl_buf_printf(&f->message, "'%s' (%s): %s", p->value, p->op[0] != '\0' ? p->op : "value",
                  reason_of(p));
    return true;
}

typedef void (*put_finding)(void *ctx, const finding *f);
static void each_finding(const pl_session_view *v, put_finding put, void *ctx) {
    const pl_session *s = v->session;
    finding f;
    for (size_t k = 0; find_blamed(s, k, &f); k++) {
        put(ctx, &f);
        pl_buf_release(&f.message);
    }
    for (size_t k = 0; k < s->n_points; k++) {
        if (!find_bad(s, &s->points[v->order[k]], &f)) continue;
        put(ctx, &f);
        pl_buf_release(&f.message);
    }
    if (s->outcome == PL_OUTCOME_AGREE) return;
    f = (finding){ pl_outcome_name(s->outcome), "", "", "", true, PL_BUF_INIT };
    pl_session_put_headline(s, &f.message);
    put(ctx, &f);
    pl_buf_release(&f.message);
}

/* ---- GitHub ---- */

static void put_escaped(pl_buf *out, const char *s, bool property) {
    pl_escape_put(out, property ? PL_ESCAPE_GITHUB_KEY : PL_ESCAPE_GITHUB, s);
}

static void put_annotation(void *ctx, const finding *f) {
    pl_buf *out = ctx;
    size_t n_file;
    long line;
    pl_buf_printf(out, "::%s ", f->is_error ? "error" : "warning");
    if (pl_session_split_source(f->source, &n_file, &line)) {
        pl_buf file = PL_BUF_INIT;
        pl_buf_append(&file, f->source, n_file);
        if (!pl_buf_ok(&file)) out->failed = true;
        pl_buf_puts(out, "file=");
        put_escaped(out, pl_buf_str(&file), true);
        pl_buf_printf(out, ",line=%ld,", line);
        pl_buf_release(&file);
    }
    pl_buf_puts(out, "title=plumb ");
    put_escaped(out, f->rule, true);
    pl_buf_puts(out, "::");
    if (!pl_buf_ok(&f->message)) out->failed = true;
    put_escaped(out, pl_buf_str(&f->message), false);
    pl_buf_putc(out, '\n');
}

void pl_session_put_github(const pl_session_view *v, pl_buf *out) {
    each_finding(v, put_annotation, out);
    pl_buf_printf(out, "::notice title=plumb %s::", pl_outcome_name(v->session->outcome));
    pl_session_put_coverage_text(v->session, out);
    pl_buf_putc(out, '\n');
}

/* ---- SARIF ---- */

/* A path as a reference of RFC 3986, which SARIF 2.1.0 §3.4.3 asks for. */
static void put_uri(pl_json *j, const char *path, size_t n) {
    pl_buf uri = PL_BUF_INIT;
    pl_escape_put_n(&uri, PL_ESCAPE_URL, path, n);
    if (!pl_buf_ok(&uri)) j->buf->failed = true;
    pl_json_put_string(j, "uri", pl_buf_str(&uri));
    pl_buf_release(&uri);
}

/* The line of the program, else the model; without either there is none. */
static void put_physical(pl_json *j, const pl_session *s, const finding *f) {
    size_t n_file = 0;
    long line = 0;
    const bool has_line = pl_session_split_source(f->source, &n_file, &line);
    const char *path = has_line ? f->source : s->model_path[0] != '\0' ? s->model_path : s->a.path;
    if (!has_line) n_file = strlen(path);
    if (n_file == 0) return;
    pl_json_key(j, "physicalLocation");
    pl_json_object_begin(j);
    pl_json_key(j, "artifactLocation");
    pl_json_object_begin(j);
    put_uri(j, path, n_file);
    pl_json_object_end(j);
    if (has_line) {
        pl_json_key(j, "region");
        pl_json_object_begin(j);
        pl_json_put_int(j, "startLine", line);
        pl_json_object_end(j);
    }
    pl_json_object_end(j);
}

static void put_location(pl_json *j, const pl_session *s, const finding *f) {
    pl_json_key(j, "locations");
    pl_json_array_begin(j);
    pl_json_object_begin(j);
    put_physical(j, s, f);
    if (f->value[0] != '\0') {
        pl_json_key(j, "logicalLocations");
        pl_json_array_begin(j);
        pl_json_object_begin(j);
        pl_json_put_string(j, "name", f->value);
        pl_json_put_string(j, "fullyQualifiedName", f->node[0] != '\0' ? f->node : f->value);
        pl_json_put_string(j, "kind", "value");
        pl_json_object_end(j);
        pl_json_array_end(j);
    }
    pl_json_object_end(j);
    pl_json_array_end(j);
}

typedef struct sarif {
    pl_json json;
    const pl_session *session;
} sarif;

static void put_result(void *ctx, const finding *f) {
    sarif *s = ctx;
    pl_json *j = &s->json;
    pl_json_object_begin(j);
    pl_json_put_string(j, "ruleId", f->rule);
    pl_json_put_string(j, "level", f->is_error ? "error" : "warning");
    pl_json_key(j, "message");
    pl_json_object_begin(j);
    if (!pl_buf_ok(&f->message)) j->buf->failed = true;
    pl_json_put_string(j, "text", pl_buf_str(&f->message));
    pl_json_object_end(j);
    put_location(j, s->session, f);
    pl_json_object_end(j);
}

void pl_session_put_sarif(const pl_session_view *v, pl_buf *out) {
    static const char *const rules[] = {
        "culprit",  "inherited", "amplified",        "mismatch",
        "diverged", "failed",    "nondeterministic", "inconclusive"
    };
    sarif s = { .session = v->session };
    pl_json *j = &s.json;
    pl_json_init(j, out, true);
    pl_json_object_begin(j);
    pl_json_put_string(j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    pl_json_put_string(j, "version", "2.1.0");
    pl_json_key(j, "runs");
    pl_json_array_begin(j);
    pl_json_object_begin(j);
    pl_json_key(j, "tool");
    pl_json_object_begin(j);
    pl_json_key(j, "driver");
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", "plumb");
    pl_json_put_string(j, "version", PLUMB_VERSION);
    pl_json_key(j, "rules");
    pl_json_array_begin(j);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "id", rules[i]);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
    pl_json_object_end(j);
    pl_json_key(j, "results");
    pl_json_array_begin(j);
    each_finding(v, put_result, &s);
    pl_json_array_end(j);
    pl_json_key(j, "properties");
    pl_json_object_begin(j);
    pl_json_put_string(j, "verdict", pl_outcome_name(v->session->outcome));
    pl_json_put_string(j, "at_fault", v->session->at_fault);
    pl_session_put_coverage(j, v->session);
    pl_json_object_end(j);
    pl_json_object_end(j);
    pl_json_array_end(j);
    pl_json_object_end(j);
    pl_buf_putc(out, '\n');
}

/* ---- Model Explorer ---- */

/* Node data: keyed by the name of an output tensor. Names may come twice in a session (bodies,
 * calls), keys may not: the worst stands for all. */
void pl_session_put_model_explorer(const pl_session_view *v, pl_buf *out) {
    static const char *const colours[] = { "#81c784", "#ffd54f", "#e57373", "#e0e0e0" };
    const pl_session *s = v->session;
    pl_strmap seen = PL_STRMAP_INIT;
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_buf name = PL_BUF_INIT;
    pl_buf_printf(&name, "plumb %s", v->metric);
    if (!pl_buf_ok(&name)) out->failed = true;
    pl_json_put_string(&j, "name", pl_buf_str(&name));
    pl_buf_release(&name);
    pl_json_key(&j, "results");
    pl_json_object_begin(&j);
    for (size_t k = 0; k < s->n_points; k++) {
        const pl_sync_point *p = &s->points[v->order[k]];
        const double x = pl_sync_point_metric(s, p, v->metric);
        if (pl_strmap_has(&seen, p->value)) continue;
        if (pl_strmap_put(&seen, p->value, out) != 0) {
            out->failed = true;
            break;
        }
        pl_json_key(&j, p->value);
        pl_json_object_begin(&j);
        pl_json_key(&j, "value");
        if (isnan(x)) {
            pl_json_string(&j, pl_verdict_name(p->verdict));
        } else {
            pl_json_double(&j, x);
        }
        pl_json_put_string(&j, "bgColor", colours[p->colour]);
        pl_json_object_end(&j);
    }
    pl_json_object_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
    pl_strmap_release(&seen);
}
