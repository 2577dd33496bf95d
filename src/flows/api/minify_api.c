/* plumb_minify, plumb_minify_query and plumb_repro. */
#include <stdio.h>

#include "base/alloc.h"
#include "flows/api/session_api.h"
#include "flows/minify/minify_job.h"

struct plumb_repro {
    pl_minified *r;
    char signature[400];
    char (*others)[400]; /* in words */
};

static pl_status handle_take(pl_minified *r, plumb_repro **out, pl_err *err) {
    plumb_repro *h = pl_calloc(1, sizeof(*h));
    if (h != NULL) h->others = pl_calloc(r->n_others + 1, sizeof(*h->others));
    if (h == NULL || h->others == NULL) {
        pl_free(h);
        pl_minified_free(r);
        return pl_fail_memory(err, sizeof(*h));
    }
    h->r = r;
    if (r->has_signature) pl_signature_describe(&r->signature, h->signature, sizeof(h->signature));
    for (size_t i = 0; i < r->n_others; i++)
        pl_signature_describe(&r->others[i].signature, h->others[i], sizeof(h->others[i]));
    *out = h;
    return PL_OK;
}

typedef pl_status (*minify_fn)(const plumb_model *, const plumb_minify_options *, pl_minified **,
                               pl_err *);

static pl_status call(minify_fn fn, const plumb_model *model, const plumb_minify_options *options,
                      plumb_repro **out, pl_err *err) {
    plumb_minify_options o;
    plumb_inputs inputs;
    plumb_context context;
    pl_watch watch;
    pl_minified *r = NULL;
    PL_TRY(pl_options_read(PLUMB_OPTIONS_MINIFY, options, &o, err));
    PL_TRY(pl_inputs_read(&o.inputs, &inputs, err));
    PL_TRY(pl_context_read(&o.context, &context, err));
    o.progress = pl_watch_init(&watch, o.progress);
    const pl_status st = pl_api_settle(fn(model, &o, &r, err), err);
    if (st != PL_OK) {
        pl_minified_free(r);
        return st;
    }
    return handle_take(r, out, err);
}

plumb_status plumb_minify(plumb_model *model, const plumb_minify_options *options,
                          plumb_repro **out, plumb_error *err) {
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    return call(pl_minify, model, options, out, err);
}

plumb_status plumb_minify_query(plumb_model *model, const plumb_minify_options *options,
                                plumb_repro **out, plumb_error *err) {
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    return call(pl_minify_query, model, options, out, err);
}

void plumb_repro_free(plumb_repro *repro) {
    if (repro == NULL) return;
    pl_minified_free(repro->r);
    pl_free(repro->others);
    pl_free(repro);
}

static const char *word(const char *s) {
    return s == NULL ? "" : s;
}

int plumb_repro_get(const plumb_repro *repro, plumb_repro_summary *out) {
    if (repro == NULL) return pl_struct_fill(out, NULL, 0);
    const pl_minified *r = repro->r;
    const plumb_repro_summary x = { .fails = r->fails,
                                    .signature = repro->signature,
                                    .folder = r->folder == NULL ? "" : r->folder,
                                    .verified = r->verified,
                                    .one_minimal = r->one_minimal,
                                    .n_queries = r->n_queries,
                                    .n_runs = r->n_runs,
                                    .seconds = r->seconds,
                                    .nodes_before = r->nodes_before,
                                    .nodes_after = r->nodes_after,
                                    .inputs_after = r->inputs_after,
                                    .elements_after = r->elements_after,
                                    .n_others = r->n_others,
                                    .bisect_level = word(r->bisect_level),
                                    .bisect_pass = word(r->bisect_pass),
                                    .bisect_reason = word(r->bisect_reason) };
    return pl_struct_fill(out, &x, sizeof(x));
}

const char *plumb_repro_other(const plumb_repro *repro, size_t i, size_t *n_seen) {
    const bool known = repro != NULL && i < repro->r->n_others;
    if (n_seen != NULL) *n_seen = known ? repro->r->others[i].n_seen : 0;
    return known ? repro->others[i] : "";
}

plumb_status plumb_repro_write(const plumb_repro *repro, const plumb_write_options *options,
                               char **text, plumb_error *err) {
    plumb_write_options own;
    pl_buf out = PL_BUF_INIT;
    bool json = false;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(repro);
    PL_TRY(pl_write_is_json(options, &json, &own, err));
    if (json) {
        pl_minified_put_json(repro->r, &out);
    } else {
        pl_minified_put_text(repro->r, &out);
    }
    return pl_api_text_take(&out, text, err);
}
