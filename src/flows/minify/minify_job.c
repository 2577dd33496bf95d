#include "flows/minify/minify_job.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend.h"
#include "backends/spec.h"
#include "base/alloc.h"
#include "base/file.h"
#include "flows/api.h"
#include "flows/inputs.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/repro/checkpoint.h"
#include "flows/minify/repro/repro.h"
#include "flows/minify/search/mini_ahead.h"
#include "flows/minify/search/mini_fast.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_work.h"
#include "flows/minify/strategy/strategy.h"
#include "flows/prepare.h"
#include "flows/two_sides.h"
#include "graph/edit.h"
#include "ops/infer.h"

typedef struct job {
    pl_mini m;
    plumb_minify_options options; /* including settings from repro.json */
    plumb_inputs inputs;          /* options.inputs */
    const plumb_model *model;
    pl_arena *arena;
    bool written, verified;
    char *repro; /* path; NULL = none */
    pl_buf notes;
} job;

static void release(job *j) {
    pl_mini *m = &j->m;
    pl_ahead_free(m->ahead);
    pl_oracle_free(m->oracle);
    pl_mini_state_free(m->best);
    pl_mini_state_free(m->good);
    pl_mini_fast_free(m->fast);
    pl_pool_free(m->pool);
    pl_arena_free(m->arena);
    pl_mini_work_close(m);
    if (m->checkpoints != NULL) rmdir(m->checkpoints); /* if it is empty */
    pl_free(m->checkpoints);
    pl_free(j->repro);
    pl_buf_release(&j->notes);
    pl_arena_free(j->arena);
}

/* Eval mode, autocast and gradients are applied to the model once, before the first query. */
static pl_status apply_context(pl_mini *m, pl_mini_state **state, pl_err *err) {
    const plumb_minify_options *o = m->options;
    pl_mini_state *made = NULL;
    pl_prepared p = { .changes = PL_CHANGES_INIT };
    pl_status st = pl_context_prepare(o->context, (*state)->model, (*state)->in, o->inputs->seed,
                                      m->pool, &p, err);
    if (st == PL_OK) {
        st = pl_mini_state_new_take(p.model, p.in, &made, err);
        p.model = NULL;
        p.in = NULL;
    }
    pl_prepared_release(&p);
    if (st != PL_OK) return st;
    pl_mini_state_free(*state);
    *state = made;
    return pl_make_ready(made->model, PL_READY_TYPED, NULL, err);
}

/* Parameters that are inputs, with their values as data. */
static pl_status give_defaults(pl_mini_state *s, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_value *value = graph->inputs[i];
        if (value->init == NULL) continue;
        if (s->in[i] == NULL) {
            PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(value->init), &s->in[i], err));
        }
        value->init = NULL;
    }
    return PL_OK;
}

static pl_status prepare(job *j, pl_mini_state **out, pl_err *err) {
    pl_mini *m = &j->m;
    pl_model *copy = NULL;
    pl_err ignored = PL_ERR_INIT;
    PL_TRY(pl_model_copy(j->model->model, &copy, err));
    pl_datum **in = pl_calloc(copy->graph->n_inputs + 1, sizeof(pl_datum *));
    if (in == NULL) {
        pl_model_free(copy);
        return pl_fail_memory(err, 1);
    }
    PL_TRY(pl_mini_state_new_take(copy, in, out, err));
    const char *file = pl_api_model_file(j->model);
    if (file != NULL && !pl_path_has_suffix(file, ".onnxtxt")) (*out)->file = file;
    if (!m->with_data) { /* a user's check may know operators that plumb does not */
        pl_status st = pl_ops_resolve(copy, &ignored);
        if (st == PL_OK) st = pl_model_infer(copy, NULL, &ignored);
        return st == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
    }
    bool edited = false;
    PL_TRY(pl_make_ready(copy, PL_READY_TYPED, &edited, err));
    if (edited) (*out)->file = NULL;
    PL_TRY(pl_inputs_make(copy, m->options->inputs, in, err));
    if (!pl_context_is_plain(m->options->context)) PL_TRY(apply_context(m, out, err));
    PL_TRY(give_defaults(*out, err));
    if (m->options->check == NULL) return PL_OK;
    bool ok = false; /* the check needs data: values for cuts come from the reference */
    PL_TRY(pl_mini_state_evaluate(m, *out, &ok, err));
    return ok ? PL_OK : err->status;
}

/* A repro is data and may not be trusted: only the user may enable what runs foreign code. */
static pl_status check_trust(const plumb_minify_options *o, const pl_repro_info *info,
                             pl_err *err) {
    if (o->trust) return PL_OK;
    if (info->check[0] != '\0') {
        return pl_fail(err, PL_E_USAGE,
                       "%s names the command '%.200s'; check it, then allow it with option "
                       "'trust', or give option 'check'",
                       o->signature, info->check);
    }
    if (!pl_spec_needs_trust(info->backend)) return PL_OK;
    return pl_fail(err, PL_E_USAGE,
                   "%s names the backend '%.200s', which runs a program, loads a library or writes "
                   "files; check it, then allow it with option 'trust', or give option 'backend'",
                   o->signature, info->backend);
}

/* Settings from repro.json replace those that were not given. */
static pl_status read_signature(job *j, pl_repro_info *info, pl_err *err) {
    plumb_minify_options *o = &j->options;
    pl_mini *m = &j->m;
    if (o->signature == NULL) return PL_OK;
    PL_TRY(pl_repro_read_info(o->signature, j->arena, info, err));
    if (o->backend == NULL && o->check == NULL) {
        PL_TRY(check_trust(o, info, err));
        if (info->backend[0] != '\0') o->backend = info->backend;
        if (info->check[0] != '\0') o->check = info->check;
        if (o->fail_regex == NULL && info->fail_regex[0] != '\0') o->fail_regex = info->fail_regex;
        if (o->fail_code < 0) o->fail_code = info->fail_code;
    }
    if (!o->accuracy && !o->strict && o->profile == NULL && o->same == NULL && o->tol <= 0) {
        o->accuracy = info->rule.accuracy;
        o->strict = info->rule.strict;
        o->profile = info->rule.profile;
        o->same = info->rule.same;
        o->tol = info->rule.tol;
    }
    if (j->inputs.seed == 0) j->inputs.seed = info->seed;
    if (o->threads == 0) o->threads = info->threads;
    if (o->timeout <= 0) o->timeout = info->timeout;
    if (o->memory_limit == 0) o->memory_limit = info->memory_limit;
    if (o->check_str == NULL && info->check_str[0] != '\0') o->check_str = info->check_str;
    if (pl_context_is_plain(o->context)) {
        m->recorded = (plumb_context){ .eval = info->eval,
                                       .amp = info->amp[0] == '\0' ? NULL : info->amp,
                                       .backward = info->backward };
    }
    return PL_OK;
}

static pl_status start(job *j, const plumb_model *model, const plumb_minify_options *o,
                       pl_err *err) {
    pl_repro_info info = { .has_signature = false };
    *j = (job){ .model = model, .options = *o, .inputs = *o->inputs };
    j->options.inputs = &j->inputs;
    pl_mini *m = &j->m;
    m->recorded = *o->context;
    m->options = &j->options;
    m->original = model->model;
    m->started = m->last_checkpoint = pl_api_seconds();
    j->arena = pl_arena_new();
    m->arena = pl_arena_new();
    m->pool = pl_pool_new(o->threads);
    if (j->arena == NULL || m->arena == NULL || m->pool == NULL) return pl_fail_memory(err, 1);
    PL_TRY(read_signature(j, &info, err));
    if (j->options.check != NULL && j->options.backend != NULL) {
        return pl_fail(err, PL_E_USAGE, "option 'check' and option 'backend' cannot be combined");
    }
    if (j->options.check != NULL && o->bisect)
        return pl_fail(err, PL_E_USAGE, "option 'bisect' requires option 'backend'");
    const pl_accuracy_options rule = pl_mini_rule(m);
    PL_TRY(pl_accuracy_read(&rule, &m->accuracy, err));
    m->accuracy.pool = m->pool;
    m->accuracy.any_float =
        j->options.backend != NULL && strstr(j->options.backend, "eager:fp64") != NULL;
    m->with_data = j->options.check == NULL || strstr(j->options.check, "{dir}") != NULL;
    if (!m->with_data && !pl_context_is_plain(o->context)) {
        return pl_fail(err, PL_E_USAGE,
                       "option 'eval', option 'amp' and option 'backward' require option "
                       "'backend', or option 'check' with {dir}; "
                       "for {model}, transform the model first with `plumb convert`");
    }
    PL_TRY(pl_mini_work_open(m, err));
    PL_TRY(j->options.check != NULL ? pl_oracle_check_new(m, &m->oracle, err)
                                    : pl_oracle_backend_new(m, &m->oracle, err));
    if (info.has_signature) m->oracle->target = info.signature;
    if (info.has_target) { /* a checkpoint: continue as if not interrupted */
        m->oracle->target = info.target;
        m->resumed = true;
        if (info.has_original) m->oracle->original = info.original;
        m->n_nodes_before = info.n_nodes_before;
    }
    return pl_ahead_new(m, o->jobs > 0 ? o->jobs : pl_pool_cpus(), &m->ahead, err);
}

/* ---- the repro ---- */

static pl_status fill_repro(job *j, const pl_mini_state *state, const pl_buf *spec, pl_repro *out) {
    const pl_mini *m = &j->m;
    *out = pl_mini_repro(m, state, spec);
    out->command = "query";
    out->source = j->model->model->path;
    out->one_minimal = m->one_minimal;
    out->bisect_level = m->pass.level;
    out->bisect_pass = m->pass.pass;
    out->bisect_reason = m->pass.reason;
    return PL_OK;
}

static pl_status own_program(const plumb_minify_options *o, char *out, size_t n_out, pl_err *err) {
    if (o->program != NULL) {
        snprintf(out, n_out, "%s", o->program);
        return PL_OK;
    }
    const ssize_t n = readlink("/proc/self/exe", out, n_out - 1);
    if (n <= 0) return pl_fail(err, PL_E_IO, "cannot find the running program");
    out[n] = '\0';
    /* If the library is used by another program, plumb must be in PATH. */
    if (strcmp(pl_path_basename(out), "plumb") != 0) snprintf(out, n_out, "plumb");
    return PL_OK;
}

/* Written to a temporary folder, checked there in a new process, then renamed. */
static pl_status write_repro(job *j, const pl_mini_state *state, const char *path, bool failing,
                             pl_err *err) {
    char program[4096], *part = NULL;
    pl_repro repro = { 0 };
    pl_buf spec = PL_BUF_INIT;
    pl_status st = PL_OK;
    if (pl_path_exists(path)) return pl_fail(err, PL_E_EXISTS, "'%s' already exists", path);
    PL_TRY_GOTO(done, st, pl_oracle_spec(j->m.oracle, state, &spec, err));
    PL_TRY_GOTO(done, st, fill_repro(j, state, &spec, &repro));
    if (!failing) repro.signature = &j->m.oracle->target;
    repro.remains = failing ? j->m.remains : NULL;
    if (j->m.with_data) PL_TRY_GOTO(done, st, pl_repro_observe(&repro, err));
    PL_TRY_GOTO(done, st, pl_repro_stage(&repro, path, &j->notes, &part, err));
    PL_TRY_GOTO(done, st, own_program(j->m.options, program, sizeof(program), err));
    PL_TRY_GOTO(done, st, pl_repro_verify(&repro, program, part, err));
    PL_TRY_GOTO(done, st, pl_dir_publish(part, path, err));
    if (failing) j->verified = repro.verified;
done:
    if (st != PL_OK && part != NULL) pl_dir_remove(part, NULL);
    pl_free(part);
    pl_repro_release(&repro);
    pl_buf_release(&spec);
    return st;
}

static pl_status write_others(job *j, pl_err *err) {
    char path[4096];
    const pl_oracle *o = j->m.oracle;
    for (size_t i = 0; i < o->n_others; i++) {
        if (o->others[i].state == NULL) continue;
        snprintf(path, sizeof(path), "%s.other-%zu", j->repro, i + 1);
        const pl_signature mine = j->m.found;
        j->m.found = o->others[i].signature;
        const bool verified = j->verified;
        const pl_status st = write_repro(j, o->others[i].state, path, true, err);
        j->verified = verified;
        j->m.found = mine;
        PL_TRY(st);
        pl_mini_log(&j->m, "Saved another failure to %s", path);
    }
    return PL_OK;
}

static pl_status finish(job *j, pl_err *err) {
    pl_mini *m = &j->m;
    char zip[4096];
    if (m->options->strip_weights) PL_TRY(pl_mini_describe_remains(m, err));
    if (m->options->output == NULL) return PL_OK;
    j->repro = pl_strdup(m->options->output);
    if (j->repro == NULL) return pl_fail_memory(err, 1);
    PL_TRY(write_repro(j, m->best, j->repro, true, err));
    j->written = true;
    if (!j->verified) {
        pl_mini_log(m, "WARNING: the repro does not fail in a new process; see %s/repro.json",
                    j->repro);
    }
    if (m->options->zip) {
        snprintf(zip, sizeof(zip), "%s.zip", j->repro);
        PL_TRY(pl_repro_zip(j->repro, zip, err));
    }
    if (m->options->good != NULL && m->good != NULL) {
        PL_TRY(write_repro(j, m->good, m->options->good, false, err));
    } else if (m->options->good != NULL) {
        pl_mini_log(m, "No model near the result passes; %s was not written", m->options->good);
    }
    PL_TRY(write_others(j, err));
    if (m->checkpoints != NULL && m->options->checkpoints == NULL) {
        pl_mini_checkpoints_remove(m);
    }
    pl_mini_log(m, "Wrote minimal repro out to %s", j->repro);
    return PL_OK;
}

/* ---- the result ---- */

static pl_status keep_others(const pl_oracle *o, pl_minified *r, pl_err *err) {
    r->n_others = o->n_others;
    r->others = pl_arena_array(r->arena, o->n_others + 1, sizeof(*r->others));
    if (r->others == NULL) return pl_fail_memory(err, o->n_others);
    for (size_t i = 0; i < o->n_others; i++)
        r->others[i] = (pl_met){ o->others[i].signature, o->others[i].n_seen };
    return PL_OK;
}

static pl_status keep_pass(const pl_mini *m, pl_minified *r, pl_err *err) {
    if (m->pass.reason == NULL) return PL_OK;
    r->bisect_level = pl_arena_strdup(r->arena, m->pass.level);
    r->bisect_pass = pl_arena_strdup(r->arena, m->pass.pass);
    r->bisect_reason = pl_arena_strdup(r->arena, m->pass.reason);
    const bool kept = r->bisect_level != NULL && r->bisect_pass != NULL && r->bisect_reason != NULL;
    return kept ? PL_OK : pl_fail_memory(err, 1);
}

static pl_status keep(const job *j, pl_minified *r, pl_err *err) {
    const pl_mini *m = &j->m;
    pl_measure now;
    pl_mini_state_measure(m->best, &now);
    pl_ahead_counts(m->ahead, &r->n_sent, &r->n_used);
    r->fails = r->has_signature = true;
    r->signature = m->oracle->target;
    r->verified = j->verified;
    r->one_minimal = m->one_minimal;
    r->n_queries = m->oracle->n_queries;
    r->n_runs = m->oracle->n_runs;
    r->seconds = pl_api_seconds() - m->started;
    r->oracle_seconds = m->oracle->oracle_seconds;
    r->overhead_seconds = m->cpu_seconds - m->oracle->oracle_cpu_seconds;
    r->nodes_before = m->n_nodes_before;
    r->nodes_after = now.n_nodes;
    r->inputs_after = now.n_inputs;
    r->elements_after = now.n_elements;
    r->notes = pl_arena_strdup(r->arena, pl_buf_str(&j->notes));
    if (j->repro != NULL) r->folder = pl_arena_strdup(r->arena, j->repro);
    if (m->remains != NULL) r->remains = pl_arena_strdup(r->arena, m->remains);
    PL_TRY(keep_pass(m, r, err));
    if (r->notes == NULL || (j->repro != NULL && r->folder == NULL)) return pl_fail_memory(err, 1);
    return keep_others(m->oracle, r, err);
}

static pl_status result_new(pl_minified **out, pl_err *err) {
    pl_minified *r = pl_calloc(1, sizeof(*r));
    if (r != NULL) r->arena = pl_arena_new();
    if (r == NULL || r->arena == NULL) {
        pl_free(r);
        return pl_fail_memory(err, sizeof(*r));
    }
    pl_signature_init(&r->signature);
    r->notes = "";
    *out = r;
    return PL_OK;
}

void pl_minified_free(pl_minified *r) {
    if (r == NULL) return;
    pl_arena_free(r->arena);
    pl_free(r);
}

/* ---- the two calls ---- */

static pl_status find_checkpoints(job *j, pl_err *err) {
    const plumb_minify_options *o = j->m.options;
    pl_buf path = PL_BUF_INIT;
    if (o->checkpoints == NULL && o->output == NULL) return PL_OK;
    if (o->checkpoints != NULL) {
        pl_buf_puts(&path, o->checkpoints);
    } else {
        pl_buf_printf(&path, "%s.checkpoints", o->output);
    }
    j->m.checkpoints = pl_buf_take(&path);
    if (j->m.checkpoints == NULL) return pl_fail_memory(err, 1);
    return pl_mini_checkpoints_check(&j->m, err);
}

/* Checked before the work, not after it. */
static pl_status check_outputs(const plumb_minify_options *o, pl_err *err) {
    pl_buf zip = PL_BUF_INIT;
    pl_buf_printf(&zip, "%s.zip", o->output == NULL ? "" : o->output);
    const char *const paths[] = { o->output, o->zip && o->output != NULL ? pl_buf_str(&zip) : NULL,
                                  o->good };
    pl_status st = pl_buf_ok(&zip) ? PL_OK : pl_fail_memory(err, 1);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && st == PL_OK; i++)
        if (paths[i] != NULL && pl_path_exists(paths[i])) {
            st = pl_fail(err, PL_E_EXISTS, "'%s' already exists", paths[i]);
        }
    pl_buf_release(&zip);
    return st;
}

static pl_status minify(job *j, const plumb_minify_options *options, pl_mini_state **state,
                        pl_err *err) {
    PL_TRY(check_outputs(options, err));
    PL_TRY(find_checkpoints(j, err));
    PL_TRY(prepare(j, state, err));
    pl_mini_state *taken = *state;
    *state = NULL;
    PL_TRY(pl_mini_run(&j->m, taken, err));
    const pl_status st = finish(j, err);
    if (st == PL_E_CANCELLED) return st;
    if (st != PL_OK) { /* the result is more important */
        char failure[400];
        pl_signature_describe(&j->m.oracle->target, failure, sizeof(failure));
        return j->written ? pl_err_wrap(err, st, "wrote the repro to '%s', but not the extra files",
                                        j->repro)
                          : pl_err_wrap(err, st, "the model fails (%s), but no repro was written",
                                        failure);
    }
    if (j->repro == NULL || j->verified) return PL_OK;
    return pl_fail(err, PL_E_INTERNAL,
                   "wrote the repro to '%s', but it does not fail in a new process", j->repro);
}

pl_status pl_minify(const plumb_model *model, const plumb_minify_options *options,
                    pl_minified **out, pl_err *err) {
    job j;
    pl_mini_state *state = NULL;
    pl_minified *r = NULL;
    pl_status st = start(&j, model, options, err);
    if (st == PL_OK) st = minify(&j, options, &state, err);
    if (st == PL_E_CANCELLED && j.m.checkpoints != NULL && options->checkpoints == NULL)
        pl_mini_checkpoints_remove(&j.m);
    if (st == PL_OK) st = result_new(&r, err);
    if (st == PL_OK) st = keep(&j, r, err);
    pl_mini_state_free(state);
    release(&j);
    if (st == PL_OK) {
        *out = r;
    } else {
        pl_minified_free(r);
    }
    return st;
}

pl_status pl_minify_query(const plumb_model *model, const plumb_minify_options *options,
                          pl_minified **out, pl_err *err) {
    job j;
    pl_mini_state *state = NULL;
    pl_answer answer = PL_ANSWER_PASSES;
    pl_minified *r = NULL;
    pl_status st = start(&j, model, options, err);
    if (st == PL_OK && j.options.backend != NULL) /* judged by eager */
        st = pl_two_sides_check(j.options.backend, model->model, "eager", model->model, false, err);
    if (st == PL_OK) st = prepare(&j, &state, err);
    if (st == PL_OK) st = pl_oracle_learn(j.m.oracle, state, &answer, err);
    if (st == PL_OK && answer == PL_ANSWER_PASSES && j.options.check == NULL)
        st = pl_mini_check_answers(&j.m, state, err);
    if (st == PL_OK) st = result_new(&r, err);
    if (st == PL_OK) {
        const pl_oracle *o = j.m.oracle;
        r->is_query = true;
        r->fails = answer == PL_ANSWER_FAILS;
        r->has_signature = r->fails || o->n_others > 0;
        if (r->fails) {
            r->signature = j.m.found;
        } else if (r->has_signature) {
            r->signature = o->others[0].signature;
        }
        r->n_queries = o->n_queries;
        r->n_runs = o->n_runs;
        *out = r;
    }
    pl_mini_state_free(state);
    release(&j);
    return st;
}
