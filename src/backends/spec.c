/* Parsing specs and checking them against a table of options. */
#include "backends/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/nearest.h"

const char *pl_spec_name(const char *text, size_t *n) {
    *n = strcspn(text, ":");
    return text;
}

static const plumb_option_def *find_def(const plumb_option_def *defs, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(defs[i].key, key) == 0) return &defs[i];
    }
    return NULL;
}

typedef struct def_list {
    const plumb_option_def *defs;
    size_t n;
} def_list;

static const char *def_at(const void *ctx, size_t i) {
    const def_list *list = ctx;
    for (size_t k = 0; k < list->n; k++)
        if (list->defs[k].key[0] != '\0' && i-- == 0) return list->defs[k].key;
    return NULL;
}

static pl_status fail_unknown(const char *key, const char *name, const plumb_option_def *defs,
                              size_t n_defs, pl_err *err) {
    const def_list list = { defs, n_defs };
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, key, strlen(key), def_at, &list);
    const pl_status st = pl_fail(err, PL_E_USAGE, "backend '%s' has no option '%s'%s", name, key,
                                 hint.n_bytes == 0 ? "; it has none" : pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static bool is_one_of(const char *value, const char *choices) {
    const size_t n = strlen(value);
    for (const char *at = choices; *at != '\0';) {
        const size_t n_choice = strcspn(at, "|");
        if (n_choice == n && strncmp(at, value, n) == 0) return true;
        at += n_choice + (at[n_choice] == '|');
    }
    return false;
}

static bool is_whole(const char *value) {
    const size_t n = strlen(value);
    return n > 0 && n <= 9 && strspn(value, "0123456789") == n;
}

static pl_status check_value(const plumb_option *o, const char *name, const plumb_option_def *def,
                             pl_err *err) {
    if (def->values == NULL) {
        if (o->value[0] == '\0') return PL_OK;
        return pl_fail(err, PL_E_USAGE, "backend '%s': %s takes no value, found '%s'", name, o->key,
                       o->value);
    }
    if (o->value[0] == '\0') {
        return pl_fail(err, PL_E_USAGE, "backend '%s': %s%srequires a value (%s)", name, o->key,
                       o->key[0] == '\0' ? "" : " ", def->values);
    }
    const bool wrong = strcmp(def->values, "N") == 0      ? !is_whole(o->value)
                       : strchr(def->values, '|') != NULL ? !is_one_of(o->value, def->values)
                                                          : false;
    if (!wrong) return PL_OK;
    return pl_fail(err, PL_E_USAGE, "backend '%s': %s is '%s', expected %s", name, o->key, o->value,
                   strcmp(def->values, "N") == 0 ? "a whole number" : def->values);
}

pl_status pl_spec_check(const plumb_option *options, size_t n_options, const char *name,
                        const plumb_option_def *defs, size_t n_defs, pl_err *err) {
    for (size_t i = 0; i < n_options; i++) {
        const plumb_option_def *def = find_def(defs, n_defs, options[i].key);
        if (def == NULL) {
            if (find_def(defs, n_defs, "*") != NULL) continue;
            return fail_unknown(options[i].key, name, defs, n_defs, err);
        }
        PL_TRY(check_value(&options[i], name, def, err));
    }
    return PL_OK;
}

/* Cuts off the next item in place; "\," becomes ','. */
static char *cut_item(char **at) {
    char *item = *at, *to = *at, *from = *at;
    while (*from != '\0' && *from != ',') {
        if (from[0] == '\\' && from[1] == ',') from++;
        *to++ = *from++;
    }
    *at = *from == ',' ? from + 1 : from;
    *to = '\0';
    return item;
}

pl_status pl_spec_parse(const char *text, const char *name, const plumb_option_def *defs,
                        size_t n_defs, pl_spec *out, pl_err *err) {
    size_t n_name;
    pl_spec_name(text, &n_name);
    const bool has_file = find_def(defs, n_defs, "") != NULL;
    const char *rest = text[n_name] == ':' ? text + n_name + 1 : "";
    *out = (pl_spec){ 0 };
    if (text[n_name] == ':' && rest[0] == '\0') {
        return pl_fail(err, PL_E_USAGE, "missing option after the colon in '%s'", text);
    }
    if (has_file && rest[0] == '\0') {
        return pl_fail(err, PL_E_USAGE, "backend '%s' requires %s: %s:%s", name,
                       find_def(defs, n_defs, "")->help, name, find_def(defs, n_defs, "")->values);
    }
    out->text = pl_strdup(rest);
    out->options = pl_calloc(strlen(rest) + 1, sizeof(plumb_option));
    if (out->text == NULL || out->options == NULL) return pl_fail_memory(err, strlen(rest));
    for (char *at = out->text; *at != '\0';) {
        plumb_option *o = &out->options[out->n_options++];
        char *item = cut_item(&at);
        if (has_file && out->n_options == 1) {
            *o = (plumb_option){ "", item };
            continue;
        }
        char *equals = strchr(item, '=');
        if (equals != NULL) *equals = '\0';
        *o = (plumb_option){ item, equals == NULL ? "" : equals + 1 };
        if (item[0] == '\0') return pl_fail(err, PL_E_USAGE, "an empty option in '%s'", text);
    }
    return pl_spec_check(out->options, out->n_options, name, defs, n_defs, err);
}

void pl_spec_release(pl_spec *spec) {
    pl_free(spec->options);
    pl_free(spec->text);
    *spec = (pl_spec){ 0 };
}

const char *pl_option_value(const plumb_option *options, size_t n_options, const char *key) {
    for (size_t i = n_options; i > 0; i--) {
        if (strcmp(options[i - 1].key, key) == 0) return options[i - 1].value;
    }
    return NULL;
}

long pl_option_int(const plumb_option *options, size_t n_options, const char *key, long otherwise) {
    const char *value = pl_option_value(options, n_options, key);
    return value == NULL ? otherwise : strtol(value, NULL, 10);
}
