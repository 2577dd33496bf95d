/* The result of the generate flow as text and JSON. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "flows/steps/steps.h"
#include "session/routing.h"

enum { MAX_LAYERS = 4096, MAX_ROWS = 40 };

/* ---- step by layer ---- */

typedef struct layer_row {
    double q; /* the worst of its values */
    const char *value;
    bool seen, culprit;
} layer_row;

/* Returns one past the last layer that was seen. */
static size_t layers_of(const pl_session *x, layer_row *layers) {
    size_t n = 0;
    memset(layers, 0, MAX_LAYERS * sizeof(*layers));
    for (size_t i = 0; i < x->n_points; i++) {
        const pl_sync_point *p = &x->points[i];
        int64_t at = pl_steps_layer(p->node);
        if (at < 0) at = pl_steps_layer(p->value);
        if (at < 0 || at >= MAX_LAYERS || isnan(p->q)) continue;
        layer_row *l = &layers[at];
        if (!l->seen || p->q > l->q) *l = (layer_row){ p->q, p->value, true, l->culprit };
        l->culprit = l->culprit || p->verdict == PL_VERDICT_CULPRIT;
        if ((size_t)at >= n) n = (size_t)at + 1;
    }
    return n;
}

/* ---- JSON ---- */

static void put_step(const pl_steps *s, size_t i, pl_json *j) {
    const pl_step *x = &s->steps[i];
    pl_json_object_begin(j);
    pl_json_put_int(j, "step", (int64_t)i);
    pl_json_put_int(j, "past", x->past);
    pl_json_put_int(j, "tokens", x->n);
    if (x->has_logits) {
        pl_json_put_int(j, "token", x->token);
        pl_json_put_int(j, "choice_a", x->choice_a);
        pl_json_put_int(j, "choice_b", x->choice_b);
        pl_json_put_bool(j, "flip", x->flip);
        pl_json_put_bool(j, "tie", x->tie);
        for (size_t k = 0; k < PL_N_LOGIT_METRICS; k++)
            if (k != PL_LOGIT_flip) pl_json_put_double(j, pl_logit_metrics[k].name, x->logits[k]);
    }
    pl_json_put_double(j, "error", x->error);
    pl_json_key(j, "state_error");
    if (isnan(x->state_error)) {
        pl_json_null(j);
    } else {
        pl_json_double(j, x->state_error);
    }
    pl_json_put_string(j, "state", x->state < s->n_outputs ? s->outputs[x->state] : NULL);
    pl_json_put_double(j, "score", x->score);
    pl_json_put_string(j, "verdict",
                       x->analysis == SIZE_MAX
                           ? NULL
                           : pl_outcome_name(s->analyses[x->analysis].session->outcome));
    pl_json_object_end(j);
}

static void put_blame(const pl_blame_entry *b, pl_json *j) {
    const int64_t layer = pl_steps_layer(b->node[0] != '\0' ? b->node : b->value);
    pl_json_object_begin(j);
    pl_json_put_string(j, "node", b->node);
    pl_json_put_string(j, "op", b->op);
    pl_json_put_string(j, "value", b->value);
    pl_json_key(j, "layer");
    if (layer < 0) {
        pl_json_null(j);
    } else {
        pl_json_int(j, layer);
    }
    pl_json_put_string(j, "kind", b->kind);
    pl_json_put_string(j, "where", b->where);
    pl_json_put_double(j, "q", b->q);
    pl_json_put_double(j, "effect", b->effect);
    pl_json_object_end(j);
}

static void put_analysis(const pl_step_analysis *x, pl_json *j) {
    static const size_t most = 5;
    layer_row layers[MAX_LAYERS];
    const size_t n = layers_of(x->session, layers);
    pl_json_object_begin(j);
    pl_json_put_int(j, "step", (int64_t)x->step);
    pl_json_put_string(j, "verdict", pl_outcome_name(x->session->outcome));
    pl_json_put_string(j, "reason", x->session->reason);
    pl_json_put_string(j, "session", x->folder);
    pl_json_key(j, "blame");
    pl_json_array_begin(j);
    for (size_t i = 0; i < x->session->n_blame && i < most; i++)
        put_blame(&x->session->blame[i], j);
    pl_json_array_end(j);
    pl_routing_put_json(x->session->routing, j);
    pl_json_key(j, "layers");
    pl_json_array_begin(j);
    for (size_t i = 0; i < n; i++) {
        if (!layers[i].seen) continue;
        pl_json_object_begin(j);
        pl_json_put_int(j, "layer", (int64_t)i);
        pl_json_put_double(j, "q", layers[i].q);
        pl_json_put_string(j, "value", layers[i].value);
        pl_json_put_bool(j, "culprit", layers[i].culprit);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

static void put_side(const char *key, const char *spec, const char *version, pl_json *j) {
    pl_json_key(j, key);
    if (spec == NULL) {
        pl_json_null(j);
        return;
    }
    pl_json_object_begin(j);
    pl_json_put_string(j, "spec", spec);
    pl_json_put_string(j, "version", version);
    pl_json_object_end(j);
}

static void put_tests(const pl_steps *s, pl_json *j) {
    pl_json_key(j, "self_tests");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_checks; i++) {
        const pl_self_check *c = &s->checks[i];
        pl_json_object_begin(j);
        pl_json_put_string(j, "name", c->name);
        pl_json_put_string(j, "status", c->status);
        pl_json_put_string(j, "reason", c->reason);
        pl_json_put_double(j, "error", c->error);
        pl_json_put_double(j, "bound", c->bound);
        pl_json_put_string(j, "node", c->node);
        pl_json_put_string(j, "op", c->op);
        pl_json_put_string(j, "value", c->value);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static void put_index(pl_json *j, const char *key, int64_t value) {
    pl_json_key(j, key);
    if (value < 0) {
        pl_json_null(j);
    } else {
        pl_json_int(j, value);
    }
}

static void put_json(const pl_steps *s, pl_buf *out) {
    const pl_blame_entry *b = pl_steps_culprit(s);
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "plumb", plumb_version());
    pl_json_put_string(&j, "verdict", pl_outcome_name(s->outcome));
    pl_json_put_string(&j, "reason", s->reason);
    pl_json_put_string(&j, "model", s->model_path);
    put_side("a", s->spec_a, s->version_a, &j);
    put_side("b", s->spec_b, s->version_b, &j);
    put_index(&j, "first_divergent_step",
              s->first_divergent == SIZE_MAX ? -1 : (int64_t)s->first_divergent);
    put_index(&j, "first_flip", pl_steps_first_flip(s));
    pl_json_put_string(&j, "carried_by", s->carried_by[0] == '\0' ? NULL : s->carried_by);
    pl_json_key(&j, "blame");
    pl_json_array_begin(&j);
    if (b != NULL) put_blame(b, &j);
    pl_json_array_end(&j);
    pl_json_put_ints(&j, "tokens", s->tokens, s->tokens == NULL ? 0 : s->n_tokens);
    pl_json_put_int(&j, "prompt", (int64_t)s->n_prompt);
    pl_json_put_string(&j, "cache", s->ran_own ? "own" : "shared");
    pl_json_put_double(&j, "perplexity", pl_steps_perplexity(s, PL_LOGIT_nll));
    pl_json_put_double(&j, "perplexity_reference", pl_steps_perplexity(s, PL_LOGIT_nll_reference));
    pl_json_key(&j, "steps");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < s->n_steps; i++)
        put_step(s, i, &j);
    pl_json_array_end(&j);
    pl_json_key(&j, "analyses");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < s->n_analyses; i++)
        put_analysis(&s->analyses[i], &j);
    pl_json_array_end(&j);
    put_tests(s, &j);
    pl_json_put_string(&j, "feed", s->feed_folder);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

/* ---- text ---- */

static const char *mark_of(const pl_steps *s, size_t i) {
    const pl_step *x = &s->steps[i];
    if (i == s->first_divergent) return "first divergent";
    if (x->flip) return x->tie ? "another token: a tie" : "another token";
    if (x->analysis != SIZE_MAX)
        return s->analyses[x->analysis].session->outcome == PL_OUTCOME_AGREE ? "analysed: agrees"
                                                                             : "analysed: diverged";
    return x->score > 1 ? "differs" : "";
}

/* All of them if they are few, else notable ones and their neighbours. */
static bool is_shown(const pl_steps *s, size_t i) {
    if (s->n_steps <= MAX_ROWS || i < 2 || i + 2 > s->n_steps) return true;
    const bool known = s->first_divergent != SIZE_MAX;
    if (known && i + 2 > s->first_divergent && i < s->first_divergent + 3) return true;
    return s->steps[i].analysis != SIZE_MAX || i == (size_t)pl_steps_first_flip(s);
}

static void put_table(const pl_steps *s, pl_buf *out) {
    bool gap = false;
    pl_buf_printf(out, "%6s %6s %7s %7s %10s %7s %10s %10s\n", "step", "past", "A", "B", "KL",
                  "top", "error", "state");
    for (size_t i = 0; i < s->n_steps; i++) {
        const pl_step *x = &s->steps[i];
        if (!is_shown(s, i)) {
            if (!gap) pl_buf_puts(out, "     …\n");
            gap = true;
            continue;
        }
        gap = false;
        pl_buf_printf(out, "%6zu %6lld ", i, (long long)x->past);
        if (x->has_logits) {
            pl_buf_printf(out, "%7lld %7lld %10.2e %7.1f ", (long long)x->choice_a,
                          (long long)x->choice_b, x->logits[PL_LOGIT_kl],
                          x->logits[PL_LOGIT_top_k]);
        } else {
            pl_buf_printf(out, "%7s %7s %10s %7s ", "", "", "", "");
        }
        pl_buf_printf(out, "%10.2e ", x->error);
        if (isnan(x->state_error)) {
            pl_buf_printf(out, "%10s", "");
        } else {
            pl_buf_printf(out, "%10.2e", x->state_error);
        }
        const char *mark = mark_of(s, i);
        pl_buf_printf(out, "%s%s\n", mark[0] == '\0' ? "" : "  ", mark);
    }
    pl_buf_puts(
        out, "past: tokens before this step. A, B: most likely token. KL: divergence of A from B.\n"
             "top: share of B's ten most likely tokens. error, state: rms of the difference, "
             "relative.\n");
}

static void put_layers(const pl_steps *s, pl_buf *out) {
    layer_row layers[MAX_LAYERS];
    if (s->n_analyses == 0) return;
    pl_buf_puts(out, "q by layer (above 4 is beyond the bound; C = a culprit)\n");
    for (size_t i = 0; i < s->n_analyses; i++) {
        const size_t n = layers_of(s->analyses[i].session, layers);
        pl_buf_printf(out, "  step %zu:", s->analyses[i].step);
        for (size_t k = 0; k < n; k++) {
            if (!layers[k].seen) continue;
            pl_buf_printf(out, " %zu:", k);
            if (layers[k].q > 1e6) {
                pl_buf_puts(out, ">1e6");
            } else {
                pl_buf_printf(out, "%.2g", layers[k].q);
            }
            pl_buf_puts(out, layers[k].culprit ? "C" : "");
        }
        pl_buf_printf(out, "%s\n", n == 0 ? " no layers by name" : "");
    }
}

static void put_routing(const pl_steps *s, pl_buf *out) {
    for (size_t i = 0; i < s->n_analyses; i++) {
        const pl_routing *r = s->analyses[i].session->routing;
        if (r == NULL || r->rows == 0) continue;
        pl_buf_printf(out, "  step %zu:\n", s->analyses[i].step);
        pl_routing_put_text(r, out);
    }
}

static void put_text_tests(const pl_steps *s, pl_buf *out) {
    for (size_t i = 0; i < s->n_checks; i++) {
        const pl_self_check *c = &s->checks[i];
        pl_buf_printf(out, "%-5s %-14s %s\n", c->status, c->name, c->reason);
    }
}

static void put_text(const pl_steps *s, pl_buf *out) {
    static const char *const words[PL_OUTCOME_COUNT] = { "AGREE", "DIVERGED", "NONDETERMINISTIC",
                                                         "FAILED", "INCONCLUSIVE" };
    pl_buf_printf(out, "%s: %s\n", words[s->outcome], s->reason);
    if (s->n_checks > 0) {
        put_text_tests(s, out);
        return;
    }
    const int64_t flip = pl_steps_first_flip(s);
    if (flip >= 0) {
        const pl_step *x = &s->steps[flip];
        pl_buf_printf(out, "first flip: step %lld, A %lld, B %lld, margin %.3g, drift %.3g%s\n",
                      (long long)flip, (long long)x->choice_a, (long long)x->choice_b,
                      x->logits[PL_LOGIT_margin], x->logits[PL_LOGIT_drift],
                      x->tie ? ": a tie, not a bug" : "");
    }
    if (s->carried_by[0] != '\0') {
        pl_buf_printf(out, "carried by: %s\n",
                      strcmp(s->carried_by, "state") == 0
                          ? "the state, from that step to the one where outputs part"
                      : strcmp(s->carried_by, "both") == 0
                          ? "that step's computation; the state that it leaves is wrong, too"
                          : "that step's computation; its state is right");
    }
    const double p = pl_steps_perplexity(s, PL_LOGIT_nll);
    if (!isnan(p))
        pl_buf_printf(out, "perplexity: %.4g on A, %.4g on B\n", p,
                      pl_steps_perplexity(s, PL_LOGIT_nll_reference));
    if (s->n_steps > 0) put_table(s, out);
    put_layers(s, out);
    put_routing(s, out);
    if (s->feed_folder != NULL) pl_buf_printf(out, "feed: %s\n", s->feed_folder);
}

pl_status pl_steps_print(const pl_steps *s, const char *format, pl_buf *out, pl_err *err) {
    (void)err;
    if (format != NULL && strcmp(format, "json") == 0) {
        put_json(s, out);
    } else {
        put_text(s, out);
    }
    return PL_OK;
}
