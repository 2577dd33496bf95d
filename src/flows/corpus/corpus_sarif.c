/* SARIF 2.1.0: a rule for each group, a result for each item that is wrong. */
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "flows/corpus/corpus_print.h"

static void put_text(pl_json *j, const char *key, const char *text) {
    pl_json_key(j, key);
    pl_json_object_begin(j);
    pl_json_put_string(j, "text", text);
    pl_json_object_end(j);
}

/* The model as an RFC 3986 reference, as SARIF 2.1.0 §3.4.3 requires. */
static void put_location(pl_json *j, const char *model) {
    pl_buf uri = PL_BUF_INIT;
    pl_escape_put(&uri, PL_ESCAPE_URL, model);
    if (!pl_buf_ok(&uri)) j->buf->failed = true;
    pl_json_key(j, "locations");
    pl_json_array_begin(j);
    pl_json_object_begin(j);
    pl_json_key(j, "physicalLocation");
    pl_json_object_begin(j);
    pl_json_key(j, "artifactLocation");
    pl_json_object_begin(j);
    pl_json_put_string(j, "uri", pl_buf_str(&uri));
    pl_json_object_end(j);
    pl_json_object_end(j);
    pl_json_object_end(j);
    pl_json_array_end(j);
    pl_buf_release(&uri);
}

static void put_rules(pl_json *j, const pl_corpus *c) {
    pl_json_key(j, "rules");
    pl_json_array_begin(j);
    for (size_t i = 0; i < c->n_groups; i++) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "id", c->groups[i].id);
        put_text(j, "shortDescription", c->groups[i].name);
        pl_json_object_end(j);
    }
    for (int i = 0; i < PL_ITEM_STATUS_COUNT; i++) {
        if (!pl_item_status_is_wrong((pl_item_status)i)) continue;
        pl_json_object_begin(j);
        pl_json_put_string(j, "id", pl_item_status_name((pl_item_status)i));
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static void put_result(pl_json *j, const pl_corpus *c, const pl_corpus_case *x) {
    const pl_corpus_group *g = x->group > 0 ? &c->groups[x->group - 1] : NULL;
    const bool known = g != NULL && strcmp(g->state, "known") == 0;
    pl_buf message = PL_BUF_INIT;
    pl_buf_printf(&message, "%s on %s: %s", pl_item_status_name(x->status), x->backend, x->reason);
    if (!pl_buf_ok(&message)) j->buf->failed = true;
    pl_json_object_begin(j);
    pl_json_put_string(j, "ruleId", g != NULL ? g->id : pl_item_status_name(x->status));
    pl_json_put_string(j, "level", known ? "note" : "error");
    if (c->has_baseline) pl_json_put_string(j, "baselineState", known ? "unchanged" : "new");
    put_text(j, "message", pl_buf_str(&message));
    put_location(j, x->model);
    pl_json_key(j, "partialFingerprints");
    pl_json_object_begin(j);
    pl_json_put_string(j, "plumbItem/v1", x->key);
    pl_json_object_end(j);
    pl_json_object_end(j);
    pl_buf_release(&message);
}

void pl_corpus_put_sarif(const pl_corpus *c, pl_buf *out) {
    pl_json json, *j = &json;
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
    pl_json_put_string(j, "version", plumb_version());
    put_rules(j, c);
    pl_json_object_end(j);
    pl_json_object_end(j);
    pl_json_key(j, "results");
    pl_json_array_begin(j);
    for (size_t i = 0; i < c->n_cases; i++)
        if (pl_item_status_is_wrong(c->cases[i].status)) put_result(j, c, &c->cases[i]);
    pl_json_array_end(j);
    pl_json_object_end(j);
    pl_json_array_end(j);
    pl_json_object_end(j);
    pl_buf_putc(out, '\n');
}
