/* SARIF 2.1.0, for code scanning. */
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "report/findings.h"

/* A path as an RFC 3986 reference, as SARIF 2.1.0 §3.4.3 requires. */
static void put_uri(pl_json *j, const char *path, size_t n) {
    pl_buf uri = PL_BUF_INIT;
    pl_escape_put_n(&uri, PL_ESCAPE_URL, path, n);
    if (!pl_buf_ok(&uri)) j->buf->failed = true;
    pl_json_put_string(j, "uri", pl_buf_str(&uri));
    pl_buf_release(&uri);
}

/* The source line, else the model, else nothing. */
static void put_physical(pl_json *j, const pl_session *s, const pl_finding *f) {
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

static void put_location(pl_json *j, const pl_session *s, const pl_finding *f) {
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

static void put_result(void *ctx, const pl_finding *f) {
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

void pl_format_sarif(const pl_session_view *v, pl_buf *out) {
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
    pl_findings_each(v, put_result, &s);
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
