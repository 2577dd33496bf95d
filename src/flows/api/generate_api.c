/* plumb_generate: many steps with state, and their results. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/api/session_api.h"
#include "flows/prepare.h"
#include "flows/steps/steps.h"

struct plumb_generation {
    pl_steps s; /* finished: model and options are no longer needed */
    plumb_session *sessions[PL_MAX_ANALYSES];
};

static pl_status read_options(const plumb_generate_options *given, plumb_generate_options *o,
                              plumb_inputs *inputs, pl_err *err) {
    PL_TRY(pl_options_read(PLUMB_OPTIONS_GENERATE, given, o, err));
    PL_TRY(pl_inputs_read(&o->inputs, inputs, err));
    PL_TRY(pl_list_check("plumb_generate_options.states", o->states, o->n_states, err));
    return pl_list_check("plumb_generate_options.feeds", o->feeds, o->n_feeds, err);
}

/* The sessions become handles; the steps keep pointers into them. */
static pl_status take_sessions(plumb_generation *g, pl_err *err) {
    for (size_t i = 0; i < g->s.n_analyses; i++) {
        pl_session *copy = NULL;
        PL_TRY(pl_session_copy(g->s.analyses[i].session, &copy, err));
        PL_TRY(pl_session_handle_take(copy, g->s.analyses[i].folder, &g->sessions[i], err));
    }
    return PL_OK;
}

/* Beside the sessions, for `plumb view`. */
static pl_status write_table(const pl_steps *s, const char *folder, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    char *file = pl_path_join(folder, "generate.json");
    pl_status st = file == NULL ? pl_fail_memory(err, 1) : pl_steps_print(s, "json", &text, err);
    if (st == PL_OK && !pl_buf_ok(&text)) st = pl_fail_memory(err, 1);
    if (st == PL_OK) st = pl_file_write(file, text.data, text.n_bytes, err);
    pl_buf_release(&text);
    pl_free(file);
    return st;
}

plumb_status plumb_generate(plumb_model *model, const plumb_generate_options *options,
                            plumb_generation **out, plumb_error *err) {
    plumb_generate_options o;
    plumb_inputs inputs;
    pl_watch watch;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    PL_TRY(read_options(options, &o, &inputs, err));
    o.progress = pl_watch_init(&watch, o.progress);
    plumb_generation *g = pl_calloc(1, sizeof(*g));
    if (g == NULL) return pl_fail_memory(err, sizeof(*g));
    g->s.m = model;
    g->s.o = &o;
    pl_status st = pl_api_settle(pl_steps_run(&g->s, err), err);
    if (st == PL_OK) st = take_sessions(g, err);
    g->s.o = NULL;
    if (st == PL_OK && o.output != NULL && g->s.n_analyses > 0)
        st = write_table(&g->s, o.output, err);
    if (st != PL_OK) {
        plumb_generation_free(g);
        return st;
    }
    *out = g;
    return PLUMB_OK;
}

plumb_status plumb_generate_explain(plumb_model *model, const plumb_generate_options *options,
                                    plumb_format format, char **text, plumb_error *err) {
    plumb_generate_options o;
    plumb_inputs inputs;
    pl_feed feed;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(model);
    PL_TRY(read_options(options, &o, &inputs, err));
    PL_TRY(pl_make_ready(model->model, PL_READY_TYPED, &model->edited, err));
    pl_status st = pl_feed_init(&feed, model->model, &o, err);
    if (st == PL_OK) pl_feed_explain(&feed, format, &out);
    pl_feed_release(&feed);
    if (st == PL_OK) st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}

void plumb_generation_free(plumb_generation *g) {
    if (g == NULL) return;
    for (size_t i = 0; i < PL_MAX_ANALYSES; i++)
        plumb_session_free(g->sessions[i]);
    pl_steps_release(&g->s);
    pl_free(g);
}

int plumb_generation_get(const plumb_generation *g, plumb_generation_summary *out) {
    if (g == NULL) return pl_struct_fill(out, NULL, 0);
    const pl_steps *s = &g->s;
    const pl_blame_entry *b = pl_steps_culprit(s);
    plumb_generation_summary x = {
        .exit_code = pl_outcome_exit_code(s->outcome),
        .verdict = pl_outcome_name(s->outcome),
        .reason = s->reason,
        .n_steps = s->n_steps,
        .n_analyses = s->n_analyses,
        .n_tests = s->n_checks,
        .first_divergent_step = s->first_divergent == SIZE_MAX ? -1 : (int64_t)s->first_divergent,
        .first_flip = pl_steps_first_flip(s),
        .node = b == NULL ? "" : b->node,
        .op = b == NULL ? "" : b->op,
        .value = b == NULL ? "" : b->value,
        .kind = b == NULL ? "" : b->kind,
        .layer = b == NULL ? -1 : pl_steps_layer(b->node[0] != '\0' ? b->node : b->value),
        .carried_by = s->carried_by,
        .perplexity = pl_steps_perplexity(s, PL_LOGIT_nll),
        .perplexity_reference = pl_steps_perplexity(s, PL_LOGIT_nll_reference),
    };
    for (size_t i = 0; i < s->n_steps; i++) {
        x.n_flips += s->steps[i].flip;
        x.n_ties += s->steps[i].flip && s->steps[i].tie;
    }
    return pl_struct_fill(out, &x, sizeof(x));
}

size_t plumb_generation_steps(const plumb_generation *g) {
    return g == NULL ? 0 : g->s.n_steps;
}

int plumb_generation_step(const plumb_generation *g, size_t i, plumb_step *out) {
    if (i >= plumb_generation_steps(g)) return pl_struct_fill(out, NULL, 0);
    const pl_step *s = &g->s.steps[i];
    const bool analysed = s->analysis != SIZE_MAX;
    const plumb_step x = {
        .past = s->past,
        .n_tokens = s->n,
        .token = s->token,
        .choice_a = s->choice_a,
        .choice_b = s->choice_b,
        .flip = s->flip,
        .tie = s->flip && s->tie,
        .divergent =
            !analysed ? -1 : g->s.analyses[s->analysis].session->outcome != PL_OUTCOME_AGREE,
        .error = s->error,
        .state_error = s->state_error,
        .state = s->state < g->s.n_outputs ? g->s.outputs[s->state] : "",
        .logits = s->has_logits ? s->logits : NULL,
        .analysis = analysed ? s->analysis : PLUMB_NONE,
    };
    return pl_struct_fill(out, &x, sizeof(x));
}

size_t plumb_generation_analyses(const plumb_generation *g) {
    return g == NULL ? 0 : g->s.n_analyses;
}

const plumb_session *plumb_generation_session(const plumb_generation *g, size_t i, int64_t *step) {
    if (step != NULL) *step = -1;
    if (i >= plumb_generation_analyses(g)) return NULL;
    if (step != NULL) *step = (int64_t)g->s.analyses[i].step;
    return g->sessions[i];
}

size_t plumb_generation_tests(const plumb_generation *g) {
    return g == NULL ? 0 : g->s.n_checks;
}

static const char *text_of(const char *s) {
    return s == NULL ? "" : s;
}

int plumb_generation_test(const plumb_generation *g, size_t i, plumb_self_test *out) {
    if (i >= plumb_generation_tests(g)) return pl_struct_fill(out, NULL, 0);
    const pl_self_check *c = &g->s.checks[i];
    const plumb_self_test x = { .name = c->name,
                                .status = c->status,
                                .reason = c->reason,
                                .error = c->error,
                                .bound = c->bound,
                                .node = text_of(c->node),
                                .op = text_of(c->op),
                                .value = text_of(c->value) };
    return pl_struct_fill(out, &x, sizeof(x));
}

plumb_status plumb_generation_write(const plumb_generation *g, const plumb_write_options *options,
                                    char **text, plumb_error *err) {
    plumb_write_options own;
    bool json = false;
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(g);
    PL_TRY(pl_write_is_json(options, &json, &own, err));
    pl_status st = pl_steps_print(&g->s, json ? "json" : NULL, &out, err);
    if (st == PL_OK) st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}
