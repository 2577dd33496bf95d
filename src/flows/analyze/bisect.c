/* Bisection over the nodes of a model, and over the levels and passes of a backend. */
#include "flows/analyze/bisect.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/prepare.h"
#include "graph/edit.h"
#include "ops/infer.h"

/* ---- nodes ---- */

/* Values of the first n nodes that none of them uses: the outputs of this prefix. */
static pl_status list_ends(const pl_model *model, size_t n, const char ***out, size_t *n_out,
                           pl_err *err) {
    const pl_graph *graph = model->graph;
    bool *used = pl_calloc((size_t)model->n_values + 1, sizeof(bool));
    *out = pl_calloc(graph->n_values + 1, sizeof(char *));
    *n_out = 0;
    if (used == NULL || *out == NULL) {
        pl_free(used);
        return pl_fail_memory(err, graph->n_values);
    }
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < graph->nodes[i]->n_in; k++)
            if (graph->nodes[i]->in[k] != NULL) used[graph->nodes[i]->in[k]->id] = true;
    for (size_t i = 0; i < n; i++) {
        const pl_node *node = graph->nodes[i];
        bool any = false;
        for (uint32_t k = 0; k < node->n_out; k++)
            any = any || (node->out[k] != NULL && used[node->out[k]->id]);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const pl_value *value = node->out[k];
            if (value == NULL || used[value->id]) continue;
            if (value->is_output || !any) (*out)[(*n_out)++] = value->name;
        }
    }
    pl_free(used);
    return PL_OK;
}

static pl_status inputs_of(const pl_model *part, const pl_model *model, pl_datum *const *in,
                           pl_datum ***out, pl_err *err) {
    *out = pl_calloc(part->graph->n_inputs + 1, sizeof(pl_datum *));
    if (*out == NULL) return pl_fail_memory(err, part->graph->n_inputs);
    for (size_t i = 0; i < part->graph->n_inputs; i++) {
        for (size_t k = 0; k < model->graph->n_inputs; k++) {
            if (strcmp(part->graph->inputs[i]->name, model->graph->inputs[k]->name) == 0) {
                (*out)[i] = in[k];
            }
        }
    }
    return PL_OK;
}

/* Does the backend fail on the first n nodes? Other failures count as "no". */
static pl_status fails_on(const pl_model *model, size_t n, pl_datum *const *in,
                          const pl_side_options *options, bool *fails, char *why, size_t n_why,
                          pl_err *err) {
    const char **ends = NULL;
    size_t n_ends = 0;
    pl_model *part = NULL;
    pl_datum **part_in = NULL;
    pl_side_run run = { .model = NULL };
    pl_side_options own = *options;
    pl_status st = PL_OK;
    pl_err trouble = PL_ERR_INIT;
    *fails = false;
    own.file = NULL;
    own.progress = NULL;
    PL_TRY_GOTO(done, st, pl_progress_poll(options->progress, err));
    PL_TRY_GOTO(done, st, list_ends(model, n, &ends, &n_ends, err));
    if (n_ends == 0) goto done;
    PL_TRY_GOTO(done, st, pl_model_cut(model, NULL, 0, ends, n_ends, &part, err));
    PL_TRY_GOTO(done, st, pl_make_ready(part, PL_READY_TYPED, NULL, err));
    PL_TRY_GOTO(done, st, inputs_of(part, model, in, &part_in, err));
    pl_status ran = pl_side_run_init(&run, part, &own, &trouble);
    if (ran == PL_OK) ran = pl_side_run_plain(&run, part_in, &trouble);
    *fails = ran == PL_E_BACKEND || ran == PL_E_TIMEOUT;
    if (*fails) snprintf(why, n_why, "%s", trouble.message);
done:
    pl_side_run_release(&run);
    pl_free(part_in);
    pl_model_free(part);
    pl_free(ends);
    return st;
}

pl_status pl_bisect_failure(pl_model *model, pl_datum *const *in, const pl_side_options *options,
                            pl_failing_node *out, pl_err *err) {
    size_t good = 0, bad = model->graph->n_nodes;
    bool fails = false;
    *out = (pl_failing_node){ .node = NULL };
    if (bad == 0) return PL_OK;
    /* Tests the whole model in the same way as the prefixes: if it passes, there is nothing to
     * search. */
    PL_TRY(fails_on(model, bad, in, options, &fails, out->why, sizeof(out->why), err));
    out->n_queries = 1;
    if (!fails) return PL_OK;
    while (bad - good > 1) {
        const size_t middle = good + (bad - good) / 2;
        PL_TRY(fails_on(model, middle, in, options, &fails, out->why, sizeof(out->why), err));
        out->n_queries++;
        if (fails) {
            bad = middle;
        } else {
            good = middle;
        }
    }
    out->node = model->graph->nodes[bad - 1];
    return PL_OK;
}

/* ---- levels and passes ---- */

typedef struct search {
    const char *spec;
    pl_bad_fn bad;
    void *ctx;
    const char *level; /* NULL = as the spec says */
    const char **names;
    size_t n_names;
    size_t n_queries;
} search;

static bool is_key(const char *item, size_t n, const char *key) {
    const size_t n_key = strlen(key);
    return n > n_key && strncmp(item, key, n_key) == 0 && item[n_key] == '=';
}

/* The spec with another level and further disabled passes. */
static void put_spec(const search *s, const bool *disabled, pl_buf *out) {
    const char *colon = strchr(s->spec, ':'), *joint = "disable=";
    const size_t n_name = colon == NULL ? strlen(s->spec) : (size_t)(colon - s->spec);
    pl_buf names = PL_BUF_INIT;
    char separator = ':';
    pl_buf_append(out, s->spec, n_name);
    for (const char *item = colon; item != NULL && *item != '\0';) {
        item++;
        const size_t n = strcspn(item, ",");
        const bool dropped =
            is_key(item, n, "disable") || (s->level != NULL && is_key(item, n, "opt"));
        if (n > 0 && !dropped) {
            pl_buf_putc(out, separator);
            pl_buf_append(out, item, n);
            separator = ',';
        } else if (is_key(item, n, "disable")) {
            pl_buf_printf(&names, "%s%.*s", joint, (int)(n - 8), item + 8);
            joint = "+";
        }
        item += n;
    }
    if (s->level != NULL) {
        pl_buf_printf(out, "%copt=%s", separator, s->level);
        separator = ',';
    }
    for (size_t i = 0; disabled != NULL && i < s->n_names; i++) {
        if (!disabled[i]) continue;
        pl_buf_printf(&names, "%s%s", joint, s->names[i]);
        joint = "+";
    }
    if (!pl_buf_ok(&names)) out->failed = true;
    if (names.n_bytes > 0) pl_buf_printf(out, "%c%s", separator, pl_buf_str(&names));
    pl_buf_release(&names);
}

static pl_status is_bad(search *s, const bool *disabled, bool *bad, pl_err *err) {
    pl_buf spec = PL_BUF_INIT;
    put_spec(s, disabled, &spec);
    s->n_queries++;
    const pl_status st = pl_buf_ok(&spec) ? s->bad(s->ctx, pl_buf_str(&spec), bad, err)
                                          : pl_fail_memory(err, spec.n_bytes);
    pl_buf_release(&spec);
    return st;
}

/* Delta debugging: the smallest set of passes without which the run is good. */
static pl_status shrink(search *s, bool *disabled, pl_err *err) {
    size_t n_parts = 2;
    for (;;) {
        size_t n = 0;
        for (size_t i = 0; i < s->n_names; i++)
            n += disabled[i];
        if (n <= 1) return PL_OK;
        if (n_parts > n) n_parts = n;
        bool smaller = false;
        for (size_t part = 0; part < n_parts && !smaller; part++) {
            bool *trial = pl_calloc(s->n_names + 1, sizeof(bool));
            bool bad = true;
            if (trial == NULL) return pl_fail_memory(err, s->n_names);
            size_t at = 0;
            for (size_t i = 0; i < s->n_names; i++) {
                if (!disabled[i]) continue;
                trial[i] = at * n_parts / n == part;
                at++;
            }
            pl_status st = is_bad(s, trial, &bad, err);
            if (st == PL_OK && bad && n_parts > 2) { /* all but this part */
                for (size_t i = 0; i < s->n_names; i++)
                    trial[i] = disabled[i] && !trial[i];
                st = is_bad(s, trial, &bad, err);
            }
            if (st == PL_OK && !bad) {
                memcpy(disabled, trial, s->n_names * sizeof(bool));
                smaller = true;
            }
            pl_free(trial);
            PL_TRY(st);
        }
        if (smaller) {
            n_parts = 2;
        } else if (n_parts == n) {
            return PL_OK;
        } else {
            n_parts = 2 * n_parts > n ? n : 2 * n_parts;
        }
    }
}

static pl_status find_level(search *s, const char *const *levels, pl_guilty_pass *out, bool *any,
                            pl_err *err) {
    *any = true;
    for (size_t i = 0; levels != NULL && levels[i] != NULL; i++) {
        bool bad = false;
        s->level = levels[i];
        PL_TRY(is_bad(s, NULL, &bad, err));
        if (!bad) continue;
        out->level = levels[i];
        *any = i > 0;
        if (i == 0)
            out->reason = "it fails without any optimisation: a kernel or a step that always runs "
                          "is to blame";
        return PL_OK;
    }
    if (levels != NULL) {
        *any = false;
        out->reason = "it passes at every level tried";
    }
    return PL_OK;
}

static pl_status find_pass(search *s, pl_arena *arena, pl_guilty_pass *out, pl_err *err) {
    bool *disabled = pl_calloc(s->n_names + 1, sizeof(bool));
    bool bad = false;
    pl_buf names = PL_BUF_INIT;
    pl_status st = PL_OK;
    if (disabled == NULL) return pl_fail_memory(err, s->n_names);
    memset(disabled, 1, s->n_names * sizeof(bool));
    st = is_bad(s, disabled, &bad, err);
    if (st == PL_E_UNSUPPORTED || st == PL_E_USAGE) { /* this version does not accept names */
        out->reason = pl_arena_strdup(arena, err == NULL ? "" : err->message);
        st = out->reason == NULL ? pl_fail_memory(err, 1) : PL_OK;
        goto done;
    }
    if (st != PL_OK) goto done;
    if (bad) {
        out->reason = "it still fails with every named pass disabled";
        goto done;
    }
    PL_TRY_GOTO(done, st, shrink(s, disabled, err));
    for (size_t i = 0; i < s->n_names; i++)
        if (disabled[i]) pl_buf_printf(&names, "%s%s", names.n_bytes > 0 ? "+" : "", s->names[i]);
    out->pass = pl_arena_strdup(arena, pl_buf_str(&names));
    out->reason = pl_arena_printf(arena, "it passes without %s", pl_buf_str(&names));
    if (out->pass == NULL || out->reason == NULL || !pl_buf_ok(&names)) st = pl_fail_memory(err, 1);
done:
    pl_buf_release(&names);
    pl_free(disabled);
    return st;
}

pl_status pl_bisect_passes(const char *spec, const char *const *levels, const char *const *passes,
                           pl_bad_fn bad, void *ctx, pl_arena *arena, pl_guilty_pass *out,
                           pl_err *err) {
    search s = { .spec = spec, .bad = bad, .ctx = ctx };
    bool any = true;
    *out = (pl_guilty_pass){ "", "", "", 0 };
    while (passes != NULL && passes[s.n_names] != NULL)
        s.n_names++;
    s.names = (const char **)(uintptr_t)passes;
    pl_status st = find_level(&s, levels, out, &any, err);
    if (st == PL_OK && any && s.n_names > 0) st = find_pass(&s, arena, out, err);
    out->n_queries = s.n_queries;
    return st;
}
