#include "session/lost_calls.h"

#include <string.h>

enum { CALLS_MAX = 1000 };

static const char *text_at(pl_session *s, const pl_json_value *row, const char *key) {
    const pl_json_value *v = pl_json_find(row, key);
    const char *kept =
        v != NULL && v->kind == PL_JSON_STRING ? pl_arena_strdup(s->arena, v->string) : "";
    return kept == NULL ? "" : kept;
}

static pl_status take_affects(pl_session *s, const pl_json_value *list, pl_lost_call *c,
                              pl_err *err) {
    if (list == NULL || list->kind != PL_JSON_ARRAY) return PL_OK;
    const char **names = pl_arena_alloc(s->arena, (list->n_items + 1) * sizeof(*names));
    if (names == NULL) return pl_fail_memory(err, list->n_items);
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        if (v->kind != PL_JSON_STRING) continue;
        names[c->n_affects] = pl_arena_strdup(s->arena, v->string);
        if (names[c->n_affects++] == NULL) return pl_fail_memory(err, 1);
    }
    c->affects = names;
    return PL_OK;
}

pl_status pl_lost_calls_take(pl_session *s, const pl_json_value *list, pl_err *err) {
    s->n_lost = 0;
    if (list == NULL || list->kind != PL_JSON_ARRAY || list->n_items == 0) return PL_OK;
    const size_t n = list->n_items < CALLS_MAX ? list->n_items : CALLS_MAX;
    s->lost = pl_arena_alloc(s->arena, n * sizeof(*s->lost));
    if (s->lost == NULL) return pl_fail_memory(err, n);
    for (const pl_json_value *v = list->first; v != NULL && s->n_lost < n; v = v->next) {
        const pl_json_value *idle = pl_json_find(v, "no_effect");
        const pl_json_value *line = pl_json_find(v, "line");
        if (v->kind != PL_JSON_OBJECT || (idle != NULL && idle->boolean)) continue;
        pl_lost_call *c = &s->lost[s->n_lost++];
        *c = (pl_lost_call){ .status = text_at(s, v, "status"),
                             .op = text_at(s, v, "op"),
                             .module = text_at(s, v, "module"),
                             .file = text_at(s, v, "file"),
                             .source = text_at(s, v, "source") };
        if (line != NULL && line->is_integer && line->integer > 0) c->line = line->integer;
        PL_TRY(take_affects(s, pl_json_find(v, "affects"), c, err));
    }
    return PL_OK;
}

pl_status pl_lost_calls_read(pl_session *s, const char *text, pl_err *err) {
    const pl_json_value *root = NULL;
    if (text == NULL) return PL_OK;
    const pl_status st = pl_json_read(text, strlen(text), s->arena, &root, NULL);
    if (st == PL_E_MEMORY) return pl_fail_memory(err, strlen(text));
    return st == PL_OK ? pl_lost_calls_take(s, pl_json_find(root, "calls"), err) : PL_OK;
}

void pl_lost_calls_put_json(const pl_session *s, pl_json *j) {
    if (s->n_lost == 0) return;
    pl_json_key(j, "lost_calls");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_lost; i++) {
        const pl_lost_call *c = &s->lost[i];
        pl_json_object_begin(j);
        pl_json_put_string(j, "status", c->status);
        pl_json_put_string(j, "op", c->op);
        pl_json_put_string(j, "module", c->module);
        pl_json_put_string(j, "file", c->file);
        pl_json_put_int(j, "line", c->line);
        pl_json_put_string(j, "source", c->source);
        pl_json_key(j, "affects");
        pl_json_array_begin(j);
        for (size_t k = 0; k < c->n_affects; k++)
            pl_json_string(j, c->affects[k]);
        pl_json_array_end(j);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

/* If the exported run makes different calls, the cause is a number frozen before them: a condition,
 * a count. Rows are in the order of the calls. */
static const pl_lost_call *cause_of(const pl_session *s, size_t i) {
    for (size_t k = 0; k < i && strcmp(s->lost[i].status, "changed") == 0; k++)
        if (strcmp(s->lost[k].status, "frozen") == 0) return &s->lost[k];
    return &s->lost[i];
}

const pl_lost_call *pl_lost_calls_for(const pl_session *s, const char *value) {
    for (size_t i = 0; i < s->n_lost; i++)
        for (size_t k = 0; k < s->lost[i].n_affects; k++)
            if (strcmp(s->lost[i].affects[k], value) == 0) return cause_of(s, i);
    return s->n_lost > 0 ? &s->lost[0] : NULL;
}

const char *pl_lost_call_describe(const pl_session *s, const pl_lost_call *c) {
    static const struct {
        const char *status, *text;
    } words[] = {
        { "dropped", "was dropped by the exporter" },
        { "frozen", "was frozen into a constant by the exporter" },
        { "changed", "is missing from the exported run" },
    };
    const char *word = c->status;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].status, c->status) == 0) word = words[i].text;
    if (c->file[0] == '\0') return pl_arena_printf(s->arena, "%s %s", c->op, word);
    return pl_arena_printf(s->arena, "%s %s, %s:%lld%s%s", c->op, word, c->file, (long long)c->line,
                           c->source[0] != '\0' ? ": " : "", c->source);
}
