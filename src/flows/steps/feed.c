/* Selects the rule for each input, and which output is fed back to which input. */
#include "flows/steps/feed.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/strmap.h"
#include "flows/inputs.h"

/* Names of outputs and of the inputs they feed, in the order they are tried. */
static const char *const state_rules[] = {
    "present.*:past_key_values.*",
    "present_key_values.*:past_key_values.*",
    "present.*:past.*",
    "present_*:past_*",
    "present*:past*",
    "*.present:*.past",
    "*_present:*_past",
    "next_*:*",
    "new_*:*",
    "*_next:*",
    "*_new:*",
    "*_out:*_in",
    "*_out:*",
    "*_n:*_0",
    "*n:*0",
    "Y_h:initial_h",
    "Y_c:initial_c",
};

/* ---- names ---- */

/* Does `name` match the pattern with something for its '*' (start, n_star)? */
static bool fits(const char *pattern, size_t n, const char *name, const char **star,
                 size_t *n_star) {
    const char *at = memchr(pattern, '*', n);
    const size_t n_name = strlen(name);
    *star = "";
    *n_star = 0;
    if (at == NULL) return n == n_name && memcmp(pattern, name, n) == 0;
    const size_t head = (size_t)(at - pattern), tail = n - head - 1;
    if (n_name < head + tail || memcmp(pattern, name, head) != 0 ||
        memcmp(at + 1, name + n_name - tail, tail) != 0)
        return false;
    *star = name + head;
    *n_star = n_name - head - tail;
    return true;
}

/* Length of the longest of "a|b|c" that the name equals or ends with after a separator; 0 =
 * none. */
static size_t is_named(const char *name, const char *list) {
    const size_t n_name = strlen(name);
    size_t longest = 0;
    while (*list != '\0') {
        const size_t n = strcspn(list, "|");
        if (n > longest && n_name >= n && memcmp(name + n_name - n, list, n) == 0 &&
            (n_name == n || !isalnum((unsigned char)name[n_name - n - 1])))
            longest = n;
        list += n + (list[n] == '|');
    }
    return longest;
}

static const char *input_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    return i < graph->n_inputs ? graph->inputs[i]->name : NULL;
}
static const char *output_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    return i < graph->n_outputs ? graph->outputs[i]->name : NULL;
}
static const char *rule_at(const void *ctx, size_t i) {
    (void)ctx;
    return i < pl_n_feed_rules ? pl_feed_rules[i].name : NULL;
}

static pl_status fail_name(const char *option, const char *text, const char *what, const char *name,
                           const char *(*at)(const void *, size_t), const void *ctx, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, name, strlen(name), at, ctx);
    const pl_status st = pl_fail(err, PL_E_USAGE, "option '%s' is %s: no %s '%s'%s", option, text,
                                 what, name, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

/* ---- states ---- */

static bool same_kind(const pl_type *x, const pl_type *y) {
    if (x == NULL || y == NULL) return true;
    if (x->kind != y->kind || x->kind != PL_TYPE_TENSOR) return x->kind == y->kind;
    return x->dtype == y->dtype && (!x->has_rank || !y->has_rank || x->rank == y->rank);
}

/* Inputs by name: their number plus one, so that NULL is none. */
typedef struct ports {
    pl_strmap inputs;
    pl_buf name; /* room for the name of an input */
} ports;

static pl_status ports_init(ports *p, const pl_graph *g, pl_err *err) {
    *p = (ports){ .inputs = PL_STRMAP_INIT, .name = PL_BUF_INIT };
    for (size_t i = 0; i < g->n_inputs; i++)
        if (!pl_strmap_has(&p->inputs, g->inputs[i]->name) &&
            pl_strmap_put(&p->inputs, g->inputs[i]->name, (void *)(uintptr_t)(i + 1)) != 0)
            return pl_fail_memory(err, g->n_inputs);
    return PL_OK;
}

static void ports_release(ports *p) {
    pl_strmap_release(&p->inputs);
    pl_buf_release(&p->name);
}

/* The input whose name is the pattern with `star` for its '*'; SIZE_MAX = none. */
static size_t input_named(ports *p, const char *pattern, const char *star, size_t n_star) {
    const size_t head = strcspn(pattern, "*");
    pl_buf_reset(&p->name);
    pl_buf_append(&p->name, pattern, head);
    if (pattern[head] == '*') {
        pl_buf_append(&p->name, star, n_star);
        pl_buf_puts(&p->name, pattern + head + 1);
    } else if (n_star > 0) {
        return SIZE_MAX;
    }
    if (!pl_buf_ok(&p->name)) return SIZE_MAX;
    return (size_t)(uintptr_t)pl_strmap_get_n(&p->inputs, pl_buf_str(&p->name), p->name.n_bytes) -
           1;
}

/* Connects every output and input that the pair of patterns matches; returns their number. */
static size_t join_states(pl_feed *f, ports *p, const char *rule, bool told) {
    const pl_graph *g = f->model->graph;
    const char *colon = strchr(rule, ':'), *star;
    size_t n_star, n = 0;
    for (size_t o = 0; o < g->n_outputs; o++) {
        if (f->is_state[o] ||
            !fits(rule, (size_t)(colon - rule), g->outputs[o]->name, &star, &n_star))
            continue;
        const size_t i = input_named(p, colon + 1, star, n_star);
        if (i == SIZE_MAX || f->in[i].state != SIZE_MAX || g->inputs[i]->init != NULL) continue;
        if (!told && !same_kind(g->inputs[i]->type, g->outputs[o]->type)) continue;
        f->is_state[o] = true;
        f->in[i].state = o;
        f->in[i].told = told;
        f->in[i].rule = NULL;
        f->n_states++;
        n++;
    }
    return n;
}

static pl_status told_states(pl_feed *f, ports *p, const plumb_generate_options *o, pl_err *err) {
    for (size_t i = 0; i < o->n_states; i++) {
        const char *colon = strchr(o->states[i], ':');
        if (colon == NULL)
            return pl_fail(err, PL_E_USAGE, "option 'state' is '%s', expected OUTPUT:INPUT",
                           o->states[i]);
        if (join_states(f, p, o->states[i], true) == 0)
            return pl_fail(err, PL_E_USAGE,
                           "option 'state' is %s: no output and input of the model fit; see option "
                           "'explain-inputs'",
                           o->states[i]);
    }
    return PL_OK;
}

static pl_status find_states(pl_feed *f, const plumb_generate_options *o, pl_err *err) {
    ports p;
    pl_status st = ports_init(&p, f->model->graph, err);
    if (st == PL_OK) st = told_states(f, &p, o, err);
    for (size_t i = 0; st == PL_OK && i < sizeof(state_rules) / sizeof(*state_rules); i++)
        (void)join_states(f, &p, state_rules[i], false);
    ports_release(&p);
    return st;
}

/* ---- inputs ---- */

static pl_status read_feeds(pl_feed *f, const plumb_generate_options *o, pl_err *err) {
    const pl_graph *g = f->model->graph;
    for (size_t k = 0; k < o->n_feeds; k++) {
        const char *equals = strrchr(o->feeds[k], '=');
        const pl_feed_rule *rule = NULL;
        size_t at = SIZE_MAX;
        if (equals == NULL)
            return pl_fail(err, PL_E_USAGE, "option 'feed' is '%s', expected INPUT=RULE",
                           o->feeds[k]);
        for (size_t i = 0; i < g->n_inputs; i++)
            if (strlen(g->inputs[i]->name) == (size_t)(equals - o->feeds[k]) &&
                memcmp(g->inputs[i]->name, o->feeds[k], (size_t)(equals - o->feeds[k])) == 0)
                at = i;
        for (size_t i = 0; i < pl_n_feed_rules; i++)
            if (strcmp(pl_feed_rules[i].name, equals + 1) == 0) rule = &pl_feed_rules[i];
        if (at == SIZE_MAX) {
            char name[200];
            (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - o->feeds[k]), o->feeds[k]);
            return fail_name("feed", o->feeds[k], "input", name, input_at, g, err);
        }
        if (rule == NULL && strcmp(equals + 1, "given") != 0)
            return fail_name("feed", o->feeds[k], "rule", equals + 1, rule_at, NULL, err);
        f->in[at] = (pl_feed_input){ .rule = rule, .state = SIZE_MAX, .told = true };
    }
    return PL_OK;
}

static bool holds_integers(const pl_value *v, int rank) {
    return v->type != NULL && v->type->kind == PL_TYPE_TENSOR &&
           pl_dtype_is_integer(v->type->dtype) && (!v->type->has_rank || v->type->rank == rank);
}

static void find_rules(pl_feed *f) {
    const pl_graph *g = f->model->graph;
    const pl_feed_rule *tokens = &pl_feed_rules[0];
    for (size_t i = 0; i < g->n_inputs; i++) {
        pl_feed_input *in = &f->in[i];
        if (in->told || in->state != SIZE_MAX || g->inputs[i]->init != NULL) continue;
        size_t longest = 0; /* "position_ids" are not "ids" */
        for (size_t k = 0; k < pl_n_feed_rules; k++) {
            const size_t n = is_named(g->inputs[i]->name, pl_feed_rules[k].fits);
            if (n <= longest) continue;
            in->rule = &pl_feed_rules[k];
            longest = n;
        }
        f->n_tokens += in->rule == tokens;
    }
    for (size_t i = 0; i < g->n_inputs; i++)
        if (f->in[i].told && f->in[i].rule == tokens) f->n_tokens++;
    size_t left = SIZE_MAX, n_left = 0; /* under any name, if only one input is possible */
    for (size_t i = 0; i < g->n_inputs && f->n_tokens == 0; i++) {
        const pl_feed_input *in = &f->in[i];
        if (in->told || in->rule != NULL || in->state != SIZE_MAX || g->inputs[i]->init != NULL ||
            !holds_integers(g->inputs[i], 2))
            continue;
        left = i;
        n_left++;
    }
    if (n_left != 1) return;
    f->in[left].rule = tokens;
    f->n_tokens = 1;
}

/* ---- logits ---- */

static bool could_be_logits(const pl_feed *f, size_t o) {
    const pl_type *type = f->model->graph->outputs[o]->type;
    if (f->is_state[o] || f->n_tokens == 0) return false;
    if (type == NULL || type->kind != PL_TYPE_TENSOR) return type == NULL;
    return pl_dtype_is_float(type->dtype) &&
           (!type->has_rank || type->rank == 2 || type->rank == 3);
}

static pl_status find_logits(pl_feed *f, const char *told, pl_err *err) {
    const pl_graph *g = f->model->graph;
    f->logits = SIZE_MAX;
    for (size_t o = 0; told != NULL && o < g->n_outputs; o++)
        if (strcmp(g->outputs[o]->name, told) == 0) f->logits = o;
    if (told != NULL && f->logits == SIZE_MAX)
        return fail_name("logits", told, "output", told, output_at, g, err);
    const pl_type *type = told == NULL ? NULL : g->outputs[f->logits]->type;
    if (type != NULL && (type->kind != PL_TYPE_TENSOR || !pl_dtype_is_float(type->dtype)))
        return pl_fail(err, PL_E_USAGE,
                       "option 'logits' is %s: this output does not hold floating-point numbers",
                       told);
    for (size_t o = 0; o < g->n_outputs && f->logits == SIZE_MAX; o++)
        if (could_be_logits(f, o) && is_named(g->outputs[o]->name, "logits|lm_logits") > 0)
            f->logits = o;
    for (size_t o = 0; o < g->n_outputs && f->logits == SIZE_MAX; o++)
        if (could_be_logits(f, o)) f->logits = o;
    return PL_OK;
}

/* ---- life cycle ---- */

pl_status pl_feed_init(pl_feed *f, const pl_model *model, const plumb_generate_options *o,
                       pl_err *err) {
    const pl_graph *g = model->graph;
    *f = (pl_feed){ .model = model, .logits = SIZE_MAX, .source = o->inputs };
    f->in = pl_calloc(g->n_inputs + 1, sizeof(*f->in));
    f->given = pl_calloc(g->n_inputs + 1, sizeof(*f->given));
    f->is_state = pl_calloc(g->n_outputs + 1, sizeof(*f->is_state));
    if (f->in == NULL || f->given == NULL || f->is_state == NULL)
        return pl_fail_memory(err, g->n_inputs);
    for (size_t i = 0; i < g->n_inputs; i++)
        f->in[i].state = SIZE_MAX;
    if (o->inputs->n_sets <= 1 && o->inputs->n_samples <= 1) {
        plumb_inputs own = *o->inputs;
        own.n_dims = 0; /* also bind symbols of the state */
        PL_TRY(pl_inputs_given(model, &own, f->given, err));
    }
    PL_TRY(read_feeds(f, o, err));
    for (size_t i = 0; i < g->n_inputs; i++) /* given values win */
        if (f->given[i] != NULL && f->in[i].rule == NULL) f->in[i].told = true;
    PL_TRY(find_states(f, o, err));
    find_rules(f);
    return find_logits(f, o->logits, err);
}

void pl_feed_release(pl_feed *f) {
    for (size_t i = 0; f->given != NULL && i < f->model->graph->n_inputs; i++)
        pl_datum_unref(f->given[i]);
    pl_free(f->given);
    pl_free(f->is_state);
    pl_free(f->in);
    *f = (pl_feed){ .logits = SIZE_MAX };
}

/* ---- explain ---- */

static void describe(const pl_feed *f, size_t i, pl_buf *rule, pl_buf *gives) {
    const pl_graph *g = f->model->graph;
    const pl_feed_input *in = &f->in[i];
    if (in->state != SIZE_MAX) {
        pl_buf_puts(rule, "state");
        pl_buf_printf(gives, "output '%s' of the step before; %s at first",
                      g->outputs[in->state]->name, f->given[i] != NULL ? "as given" : "empty or 0");
    } else if (in->rule != NULL) {
        pl_buf_puts(rule, in->rule->name);
        pl_buf_puts(gives, in->rule->gives);
    } else if (g->inputs[i]->init != NULL && f->given[i] == NULL) {
        pl_buf_puts(rule, "default");
        pl_buf_puts(gives, "its initializer");
    } else if (f->given[i] != NULL || f->source->n_sets > 1 || f->source->n_tensors > 0) {
        pl_buf_puts(rule, "given");
        pl_buf_puts(gives,
                    f->given[i] != NULL ? "the same at every step" : "one set for each step");
    } else {
        pl_buf_puts(rule, "generated");
        pl_buf_puts(gives,
                    "no rule fits: generated for each step; give it with option 'input' or 'feed'");
    }
}

void pl_feed_explain(const pl_feed *f, plumb_format format, pl_buf *out) {
    const pl_graph *g = f->model->graph;
    pl_json j;
    pl_json_init(&j, out, true);
    if (format == PLUMB_JSON) {
        pl_json_object_begin(&j);
        pl_json_key(&j, "inputs");
        pl_json_array_begin(&j);
    }
    for (size_t i = 0; i < g->n_inputs; i++) {
        pl_buf rule = PL_BUF_INIT, gives = PL_BUF_INIT, type = PL_BUF_INIT;
        describe(f, i, &rule, &gives);
        pl_type_print(&type, g->inputs[i]->type);
        if (format == PLUMB_JSON) {
            pl_json_object_begin(&j);
            pl_json_put_string(&j, "input", g->inputs[i]->name);
            pl_json_put_string(&j, "type", pl_buf_str(&type));
            pl_json_put_string(&j, "rule", pl_buf_str(&rule));
            pl_json_put_string(&j, "gives", pl_buf_str(&gives));
            pl_json_put_bool(&j, "told", f->in[i].told);
            pl_json_object_end(&j);
        } else {
            pl_buf_printf(out, "%-28s %-10s %s%s\n", g->inputs[i]->name, pl_buf_str(&rule),
                          pl_buf_str(&gives), f->in[i].told ? " (told)" : "");
        }
        pl_buf_release(&rule);
        pl_buf_release(&gives);
        pl_buf_release(&type);
    }
    const char *logits = f->logits == SIZE_MAX ? NULL : g->outputs[f->logits]->name;
    if (format == PLUMB_JSON) {
        pl_json_array_end(&j);
        pl_json_put_string(&j, "logits", logits);
        pl_json_put_bool(&j, "has_state", f->n_states > 0);
        pl_json_object_end(&j);
        pl_buf_putc(out, '\n');
        return;
    }
    pl_buf_printf(out, "logits: %s\n", logits == NULL ? "none; outputs are compared" : logits);
    if (f->n_states == 0) pl_buf_puts(out, "state: none; every step gets all tokens so far\n");
}
