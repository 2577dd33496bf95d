/* The result of minifying, as JSON and as text. */
#include "base/count.h"
#include "base/json.h"
#include "flows/minify/minify_job.h"

static void put_signature(pl_json *json, const pl_minified *r) {
    pl_json_key(json, "signature");
    if (r->has_signature) {
        pl_signature_put_json(json, &r->signature);
    } else {
        pl_json_null(json);
    }
}

static void put_others(pl_json *json, const pl_minified *r) {
    pl_json_key(json, "others");
    pl_json_array_begin(json);
    for (size_t i = 0; i < r->n_others; i++) {
        pl_json_object_begin(json);
        pl_json_key(json, "signature");
        pl_signature_put_json(json, &r->others[i].signature);
        pl_json_put_int(json, "seen", (int64_t)r->others[i].n_seen);
        pl_json_object_end(json);
    }
    pl_json_array_end(json);
}

static void put_bisect(pl_json *json, const pl_minified *r) {
    if (r->bisect_reason == NULL) return;
    pl_json_key(json, "bisect");
    pl_json_object_begin(json);
    pl_json_put_string(json, "level", r->bisect_level);
    pl_json_put_string(json, "pass", r->bisect_pass);
    pl_json_put_string(json, "reason", r->bisect_reason);
    pl_json_object_end(json);
}

static void put_numbers(pl_json *json, const pl_minified *r) {
    pl_json_put_int(json, "queries", (int64_t)r->n_queries);
    pl_json_put_double(json, "seconds", r->seconds);
    pl_json_put_int(json, "nodes_before", (int64_t)r->nodes_before);
    pl_json_put_int(json, "nodes_after", (int64_t)r->nodes_after);
    pl_json_put_bool(json, "one_minimal", r->one_minimal);
    pl_json_put_string(json, "repro", r->folder);
    pl_json_put_bool(json, "verified", r->verified);
    pl_json_put_int(json, "runs", (int64_t)r->n_runs);
    pl_json_put_int(json, "looked_ahead", (int64_t)r->n_sent);
    pl_json_put_int(json, "looked_ahead_used", (int64_t)r->n_used);
    pl_json_put_int(json, "inputs_after", (int64_t)r->inputs_after);
    pl_json_put_int(json, "elements_after", r->elements_after);
    pl_json_put_double(json, "oracle_seconds", r->oracle_seconds);
    pl_json_put_double(json, "overhead_seconds", r->overhead_seconds);
}

void pl_minified_put_json(const pl_minified *r, pl_buf *out) {
    pl_json json;
    pl_json_init(&json, out, true);
    pl_json_object_begin(&json);
    if (r->is_query) pl_json_put_bool(&json, "fails", r->fails);
    put_signature(&json, r);
    if (!r->is_query) {
        put_numbers(&json, r);
        put_others(&json, r);
        put_bisect(&json, r);
    }
    pl_json_object_end(&json);
    pl_buf_putc(out, '\n');
}

static void put_answer(const pl_minified *r, pl_buf *out) {
    char text[400] = "";
    if (r->has_signature) pl_signature_describe(&r->signature, text, sizeof(text));
    pl_buf_printf(out, "%s%s\n",
                  r->fails           ? "fails: "
                  : r->has_signature ? "another failure: "
                                     : "passes",
                  text);
}

void pl_minified_put_text(const pl_minified *r, pl_buf *out) {
    char text[400];
    if (r->is_query) {
        put_answer(r, out);
        return;
    }
    pl_signature_describe(&r->signature, text, sizeof(text));
    pl_buf_printf(out, "%zu of ", r->nodes_after);
    pl_buf_put_count(out, r->nodes_before, "node");
    pl_buf_puts(out, ", ");
    pl_buf_put_count(out, r->inputs_after, "input");
    pl_buf_puts(out, ", ");
    pl_buf_put_count(out, (uint64_t)r->elements_after, "element");
    pl_buf_puts(out, "; ");
    pl_buf_put_count(out, r->n_queries, "query");
    pl_buf_printf(out, " in %.1f s%s\n", r->seconds, r->one_minimal ? "; 1-minimal" : "");
    pl_buf_printf(out, "failure: %s\n", text);
    if (r->bisect_reason != NULL) {
        const bool has_level = r->bisect_level[0] != '\0';
        pl_buf_printf(out, "bisect:  %s%s%s%s\n", has_level ? "level " : "", r->bisect_level,
                      has_level ? ", " : "", r->bisect_reason);
    }
    if (r->folder != NULL) {
        pl_buf_printf(out, "repro:   %s%s\n", r->folder,
                      r->verified ? " (fails in a new process)" : " (NOT VERIFIED)");
    }
    if (r->remains != NULL) pl_buf_printf(out, "weights: %s\n", r->remains);
    for (size_t i = 0; i < r->n_others; i++) {
        pl_signature_describe(&r->others[i].signature, text, sizeof(text));
        pl_buf_printf(out, "other:   %s, seen %zu time%s\n", text, r->others[i].n_seen,
                      pl_plural(r->others[i].n_seen));
    }
    pl_buf_puts(out, r->notes);
}
