/* Describes a checked run: the session behind other formats, the error, JSON, text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/json.h"
#include "flows/check/check_run.h"
#include "flows/inputs.h"
#include "flows/model_transform.h"
#include "flows/outputs.h"
#include "ops/bound.h"
#include "ops/op.h"
#include "report/session_print.h"
#include "session/lost_calls.h"
#include "session/quant.h"
#include "session/verdict.h"

enum { MOST_LAYERS = 10 };

static const pl_value *output_of(const pl_check_run *r, size_t i) {
    return r->candidate.model->graph->outputs[i];
}

/* ---- the session ---- */

static void fill_side(pl_side *side, const pl_datum *d) {
    pl_side_describe(side, d);
    if (d == NULL || !side->present || side->dtype == PL_STRING) return;
    side->has_hash = true;
    side->hash = pl_hash128_of(d->tensor->data, pl_tensor_bytes(d->tensor));
}

static const char *keep(const pl_check_run *r, const char *s) {
    const char *copy = pl_arena_strdup(r->session->arena, s);
    return copy == NULL ? "" : copy;
}

static void fill_point(const pl_check_run *r, size_t i, pl_sync_point *p) {
    const pl_accuracy_check *c = &r->checks[i];
    const pl_value *value = output_of(r, i);
    const pl_datum *ref = r->of[i] == 0 ? NULL : r->ref[r->of[i] - 1];
    pl_sync_point_init(p);
    p->value = keep(r, value->name);
    if (value->producer != NULL) {
        p->node = keep(r, value->producer->name);
        p->op = keep(r, value->producer->op);
    }
    p->is_output = true;
    p->confidence = 1;
    p->paired_by = "name";
    p->relation = "1:1";
    p->counterpart =
        ref == NULL ? "" : keep(r, r->reference->model->graph->outputs[r->of[i] - 1]->name);
    fill_side(&p->a, r->out[i]);
    fill_side(&p->b, ref);
    p->metadata_match = c->same || c->measured;
    if (!p->metadata_match) p->metadata_reason = keep(r, c->why);
    p->precision = c->precision;
    p->limits_from = pl_precision_name(c->precision);
    if (c->measured) {
        p->acc = c->acc;
        p->measured = true;
        p->pair_class = pl_accumulators_class(&p->acc);
        p->colour = pl_judge_colour(
            pl_metric_colour(pl_metric_find("psnr"), &p->acc, p->precision, &p->limits), &p->acc,
            pl_value_absolute_error(r->candidate.model->graph->outputs[i], PL_UNDEFINED));
    } else if (!c->same) {
        p->pair_class = PL_PAIR_STRUCTURAL;
        p->colour = PL_RED;
    }
    p->propagated = c->res_error;
    p->facts = (pl_value_facts){ .paired = ref != NULL,
                                 .compared = c->measured,
                                 .exact = c->measured && p->pair_class == PL_PAIR_EXACT,
                                 .undefined = c->ignored && c->n_undefined > 0,
                                 .rule = c->ignored ? PL_FACT_UNKNOWN : pl_fact_of(c->same) };
    p->n_undefined = c->n_undefined;
    pl_verdict_decide(p);
    p->fails = ref != NULL && !c->same && !c->runtime_right;
    p->overflowed = strcmp(c->rule, "overflow") == 0;
    p->model_wrong = c->model_wrong;
    p->reason = keep(r, c->why);
    if (p->facts.undefined)
        p->reason = "every element depends on elements that an operator leaves undefined";
    else if (c->ignored && ref != NULL)
        p->reason = "it differs, and PyTorch's same() looks at floats only; the strict check "
                    "counts it";
    if (c->ignored && ref == NULL) p->reason = keep(r, c->rule);
}

static const char *backend_of(const pl_check_run *r, const char *spec) {
    const char *colon = strchr(spec, ':');
    const char *name = pl_arena_strndup(r->session->arena, spec,
                                        colon == NULL ? strlen(spec) : (size_t)(colon - spec));
    return name == NULL ? "" : name;
}

pl_status pl_check_fill_session(pl_check_run *r, pl_err *err) {
    PL_TRY(pl_session_new(&r->session, err));
    pl_session *s = r->session;
    if (r->recording != NULL) PL_TRY(pl_lost_calls_read(s, r->recording->exported, err));
    s->model_path = keep(r, r->m->model->path);
    s->model_nodes = r->candidate.model->graph->n_nodes;
    s->profile = pl_profile_name(r->accuracy.profile);
    s->tol = r->accuracy.tol;
    s->a.spec = keep(r, r->spec);
    s->a.backend = backend_of(r, r->spec);
    s->b.spec = keep(r, r->reference_spec);
    s->b.backend = r->recording != NULL ? "recording" : backend_of(r, r->reference_spec);
    s->timing = r->phases;
    s->n_timing = r->n_phases;
    s->reason = keep(r, r->error);
    r->mode = r->options->mode;
    r->backward = r->options->context->backward != 0;
    r->load_seconds = r->m->load_seconds;
    r->reference_name = r->recording != NULL ? keep(r, r->options->reference) : s->b.spec;
    const bool ran = r->exit_code != 3 && r->options->mode != PLUMB_CHECK_NONE &&
                     strcmp(r->status, "eager_two_runs_differ") != 0;
    if (r->exit_code == 3) pl_verdict_failed(s, s->reason);
    if (!ran && r->exit_code == 1) pl_verdict_unstable(s, NULL, s->reason);
    if (!ran) return PL_OK;
    s->points = pl_arena_array(s->arena, r->n_out + 1, sizeof(*s->points));
    if (s->points == NULL) return pl_fail_memory(err, r->n_out);
    for (size_t i = 0; i < r->n_out; i++) {
        fill_point(r, i, &s->points[i]);
    }
    s->n_points = r->n_out;
    s->starved = pl_inputs_starve(r->candidate.model->graph, r->candidate.in);
    return pl_check_conclude(r, err);
}

/* ---- the error ---- */

static void put_word(pl_buf *out, const char *s) {
    pl_buf_putc(out, ' ');
    if (s[0] != '\0' && strpbrk(s, " '\"$`\\*?[](){}<>|&;~#!\n\t") == NULL) {
        pl_buf_puts(out, s);
    } else {
        pl_escape_put(out, PL_ESCAPE_SHELL, s);
    }
}

static void put_option(pl_buf *out, const char *option, const char *value) {
    pl_buf_printf(out, " %s", option);
    put_word(out, value);
}

static void put_inputs(const plumb_inputs *in, pl_buf *out) {
    static const char *const fills[] = { "random", "zeros", "ones" };
    for (size_t i = 0; i < in->n_files; i++)
        put_option(out, "--input", in->files[i]);
    for (size_t i = 0; i < in->n_sets; i++)
        put_option(out, "--inputs", in->sets[i]);
    for (size_t i = 0; i < in->n_dims; i++)
        put_option(out, "--dim", in->dims[i]);
    for (size_t i = 0; i < in->n_ranges; i++)
        put_option(out, "--range", in->ranges[i]);
    if (in->fill != PLUMB_FILL_RANDOM) put_option(out, "--fill", fills[in->fill]);
    if (in->seed != 0) pl_buf_printf(out, " --seed %llu", (unsigned long long)in->seed);
}

void pl_check_put_next(const pl_check_run *r, const char *command, pl_buf *out) {
    const plumb_check_options *o = r->options;
    const char *path = r->m->model->path;
    const bool transformed = r->candidate.changes.n > 0;
    if (path[0] == '\0') return;
    if (r->candidate.has_gradients || transformed) {
        pl_buf_puts(out, "plumb convert");
        put_word(out, path);
        pl_buf_puts(out, " prepared.onnx");
        if (o->context->eval) pl_buf_puts(out, " --eval");
        if (o->context->amp != NULL) put_option(out, "--amp", o->context->amp);
        if (r->candidate.has_gradients) pl_buf_puts(out, " --backward=joint");
        pl_buf_puts(out, " && ");
        path = "prepared.onnx";
    }
    pl_buf_printf(out, "plumb %s", command);
    put_word(out, path);
    put_option(out, "--backend", r->spec);
    if (strcmp(command, "analyze") == 0 && o->reference != NULL)
        put_option(out, "--reference", o->reference);
    if (strcmp(command, "analyze") == 0 && o->reference_model != NULL)
        put_option(out, "--reference-model", o->reference_model);
    put_inputs(o->run->inputs, out);
}

void pl_check_put_error(const pl_check_run *r, char *out, size_t n_out) {
    size_t first = r->n_out, n_bad = 0;
    for (size_t i = r->n_out; i-- > 0;) {
        if (!pl_sync_point_is_bad(&r->session->points[i])) continue;
        first = i;
        n_bad++;
    }
    if (first == r->n_out) return;
    const pl_accuracy_check *c = &r->checks[first];
    pl_buf text = PL_BUF_INIT;
    pl_buf_printf(&text,
                  "AccuracyError: %s%s '%.200s%s' of %.100s differs from %.100s by rule %s: %s",
                  c->runtime_right ? "the exported model is wrong, not the runtime: "
                  : c->model_wrong ? "the exported model and the runtime are wrong: "
                                   : "",
                  pl_output_kind_name(r->candidate.kinds[first]), output_of(r, first)->name,
                  c->path, r->spec, r->reference_name, c->rule, c->why);
    if (!isnan(c->res_error)) {
        pl_buf_printf(&text, " (RMSE against fp64: candidate %.3g, reference %.3g, tolerance %.3g)",
                      c->res_error, c->ref_error, c->allowed);
    } else if (!isnan(c->tol)) {
        pl_buf_printf(&text, " (tolerance %.3g)", c->tol);
    }
    if (n_bad > 1) pl_buf_printf(&text, "; %zu more differ", n_bad - 1);
    const pl_node *random = pl_random_source(output_of(r, first));
    if (random != NULL)
        pl_buf_printf(&text, "; it comes from %s '%s', which draws random numbers", random->op,
                      pl_node_label(random));
    const pl_lost_call *lost =
        c->model_wrong ? pl_lost_calls_for(r->session, output_of(r, first)->name) : NULL;
    const char *call = lost == NULL ? NULL : pl_lost_call_describe(r->session, lost);
    if (call != NULL) pl_buf_printf(&text, "; %s", call);
    if (r->n_runs > 1) pl_buf_printf(&text, "; %zu of %zu runs agree", r->n_passed, r->n_runs);
    pl_buf next = PL_BUF_INIT;
    pl_check_put_next(r, "analyze", &next);
    if (next.n_bytes > 0) pl_buf_printf(&text, ". Next: %s", pl_buf_str(&next));
    snprintf(out, n_out, "%s", pl_buf_str(&text));
    pl_buf_release(&next);
    pl_buf_release(&text);
}

/* ---- JSON ---- */

static void put_check(const pl_check_run *r, size_t i, pl_json *j) {
    const pl_accuracy_check *c = &r->checks[i];
    const pl_sync_point *p = &r->session->points[i];
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", output_of(r, i)->name);
    pl_json_put_string(j, "kind", pl_output_kind_name(r->candidate.kinds[i]));
    pl_json_put_bool(j, "same", c->same);
    pl_json_put_bool(j, "ignored", c->ignored);
    pl_json_put_bool(j, "accepted", p->accepted);
    pl_json_put_string(j, "rule", c->rule);
    pl_json_put_string(j, "path", c->path);
    pl_json_put_string(j, "reason", c->why);
    const struct {
        const char *key;
        double x;
    } numbers[] = { { "error", c->res_error },
                    { "reference_error", c->ref_error },
                    { "allowed", c->allowed },
                    { "multiplier", c->multiplier },
                    { "tolerance", c->tol } };
    for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
        if (!isnan(numbers[k].x)) pl_json_put_double(j, numbers[k].key, numbers[k].x);
    }
    if (c->measured) {
        pl_json_key(j, "metrics");
        pl_json_object_begin(j);
        for (size_t k = 0; k < pl_n_metrics; k++)
            pl_json_put_double(j, pl_metrics[k].name, pl_metrics[k].value(&c->acc));
        pl_json_object_end(j);
    }
    pl_json_object_end(j);
}

static void put_accuracy(const pl_check_run *r, pl_json *j) {
    static const char *const modes[] = { "none", "accuracy", "strict" };
    pl_json_key(j, "accuracy");
    pl_json_object_begin(j);
    pl_json_put_string(j, "mode", modes[r->mode]);
    pl_json_put_string(j, "profile", pl_profile_name(r->accuracy.profile));
    pl_json_put_string(j, "candidate", r->session->a.spec);
    pl_json_put_string(j, "reference", r->reference_name);
    pl_json_put_string(j, "error", r->error);
    pl_json_put_string(j, "at_fault", r->session->at_fault);
    pl_lost_calls_put_json(r->session, j);
    pl_session_put_coverage(j, r->session);
    pl_json_put_string(j, "note", r->note);
    pl_json_put_int(j, "runs", (int64_t)r->n_runs);
    pl_json_put_int(j, "passed", (int64_t)r->n_passed);
    pl_json_key(j, "outputs");
    pl_json_array_begin(j);
    for (size_t i = 0; i < r->session->n_points; i++)
        put_check(r, i, j);
    pl_json_array_end(j);
    pl_json_object_end(j);
}

static void put_timing(const pl_check_run *r, pl_json *j) {
    pl_json_key(j, "timing");
    pl_json_object_begin(j);
    pl_json_put_double(j, "load_ms", 1e3 * r->load_seconds);
    pl_json_put_double(j, "first_ms", r->first_ms);
    pl_json_put_double(j, "best_ms", r->best_ms);
    pl_json_put_double(j, "median_ms", r->median_ms);
    pl_json_put_int(j, "runs", (int64_t)r->n_runs);
    pl_json_key(j, "phases");
    pl_json_object_begin(j);
    for (size_t i = 0; i < r->n_phases; i++)
        pl_json_put_double(j, r->phases[i].phase, 1e3 * r->phases[i].seconds);
    pl_json_object_end(j);
    pl_json_object_end(j);
}

static void put_json(const pl_check_run *r, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", r->status);
    pl_json_key(&j, "outputs");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < r->n_out; i++) {
        if (r->out[i] == NULL) continue;
        pl_output_put_json(&j, output_of(r, i)->name, pl_output_kind_name(r->candidate.kinds[i]),
                           r->out[i], r->files[i]);
    }
    pl_json_array_end(&j);
    put_timing(r, &j);
    if (r->mode != PLUMB_CHECK_NONE) put_accuracy(r, &j);
    if (r->session->quant != NULL) {
        pl_json_key(&j, "quantisation");
        pl_quant_put_json(r->session->quant, &j);
    }
    pl_json_key(&j, "changes");
    pl_changes_put_json(&r->candidate.changes, &j);
    if (r->backward) {
        pl_json_put_bool(&j, "backward", r->candidate.has_gradients);
        if (r->candidate.note[0] != '\0') pl_json_put_string(&j, "note", r->candidate.note);
    }
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

/* ---- text ---- */

static void put_outputs(const pl_check_run *r, pl_buf *out) {
    for (size_t i = 0; i < r->n_out; i++) {
        if (r->out[i] == NULL) continue;
        if (r->session->n_points == 0) {
            pl_output_put_text(out, output_of(r, i)->name, r->out[i], r->files[i]);
            continue;
        }
        const pl_accuracy_check *c = &r->checks[i];
        const char *word = r->session->points[i].accepted ? "accepted"
                           : c->ignored                   ? "ignored"
                           : c->same                      ? "same"
                                                          : "DIFFERS";
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "%-8s %s %s%s: %s", word, pl_output_kind_name(r->candidate.kinds[i]),
                      output_of(r, i)->name, c->path, c->rule);
        if (!isnan(c->res_error))
            pl_buf_printf(out, ", error %.3g, reference %.3g, allowed %.3g", c->res_error,
                          c->ref_error, c->allowed);
        if (c->why[0] != '\0') pl_buf_printf(out, "; %s", c->why);
        if (r->files[i] != NULL) pl_buf_printf(out, "  -> %s", r->files[i]);
        pl_escape_end_line(out, at);
    }
}

/* Eval mode in full; casts are counted (convert --amp lists them). */
static void put_changes(const pl_check_run *r, pl_buf *out) {
    const pl_changes *all = &r->candidate.changes;
    for (size_t i = 0; i < all->n; i++) {
        const pl_changes one = { &all->items[i], 1, 1 };
        if (all->items[i].kind == PL_CHANGE_EVAL) pl_changes_print(&one, out);
    }
    if (all->n == 0) return;
    pl_transform_summary(all, out);
    pl_buf_putc(out, '\n');
}

static void put_text(const pl_check_run *r, pl_buf *out) {
    pl_buf_printf(out, "%s\n", r->status);
    if (r->session->quant != NULL) {
        pl_quant_put_text(r->session->quant, MOST_LAYERS, "plumb analyze shows all", out);
        pl_buf_putc(out, '\n');
    }
    put_outputs(r, out);
    put_changes(r, out);
    if (r->candidate.note[0] != '\0') pl_buf_printf(out, "note: %s\n", r->candidate.note);
    if (r->note[0] != '\0') pl_buf_printf(out, "note: %s\n", r->note);
    pl_buf_printf(out, "load %.1f ms", 1e3 * r->load_seconds);
    for (size_t i = 0; i < r->n_phases; i++)
        pl_buf_printf(out, ", %s %.1f ms", r->phases[i].phase, 1e3 * r->phases[i].seconds);
    if (r->n_runs > 1)
        pl_buf_printf(out, "; best of %zu runs %.2f ms, median %.2f ms", r->n_runs, r->best_ms,
                      r->median_ms);
    pl_buf_putc(out, '\n');
}

pl_status pl_check_print(const pl_check_run *r, const char *format, pl_buf *out, pl_err *err) {
    const pl_session_print_options options = { .format = format };
    if (format == NULL || strcmp(format, "text") == 0) {
        put_text(r, out);
    } else if (strcmp(format, "json") == 0) {
        put_json(r, out);
    } else {
        return pl_session_print(r->session, &options, out, err);
    }
    return PL_OK;
}
