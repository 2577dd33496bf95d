/* A recursive-descent JSON reader with a depth limit. Positions in messages are byte offsets. */
#include "base/json_read.h"

#include <math.h>
#include <string.h>

#include "base/decimal.h"
#include "base/strmap.h"
#include "base/utf8.h"

/* Objects of up to this many keys are searched one by one for duplicates. */
enum { FEW_KEYS = 16 };

typedef struct reader {
    const char *text, *at, *end;
    pl_arena *arena;
    pl_err *err;
} reader;

static pl_status read_value(reader *r, int depth, pl_json_value *out);

static pl_status fail_at(reader *r, const char *at, const char *what) {
    return pl_fail(r->err, PL_E_FORMAT, "JSON, byte %zu: %s", (size_t)(at - r->text), what);
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool next_is(const reader *r, char c) {
    return r->at < r->end && *r->at == c;
}

/* ---- strings ---- */

static bool read_hex4(reader *r, uint32_t *out) {
    uint32_t value = 0;
    if (r->end - r->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        const char c = *r->at++;
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        value = value << 4 | digit;
    }
    *out = value;
    return true;
}

/* After "\u"; a surrogate pair is one character. */
static bool read_unicode(reader *r, uint32_t *out) {
    uint32_t high, low;
    if (!read_hex4(r, &high)) return false;
    if (high >= 0xDC00 && high < 0xE000) return false;
    *out = high;
    if (high < 0xD800 || high >= 0xE000) return true;
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u') return false;
    r->at += 2;
    if (!read_hex4(r, &low) || low < 0xDC00 || low >= 0xE000) return false;
    *out = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

static bool read_escape(reader *r, char **to) {
    static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    uint32_t c;
    if (r->at == r->end) return false;
    const char e = *r->at++;
    if (e == 'u') {
        if (!read_unicode(r, &c)) return false;
        *to += pl_utf8_put(c, *to);
        return true;
    }
    const char *found = e ? strchr(from, e) : NULL;
    if (!found) return false;
    *(*to)++ = meant[found - from];
    return true;
}

/* Finds the closing quote of a string whose opening quote precedes r->at; NULL if there is none. */
static const char *string_end(const reader *r) {
    for (const char *p = r->at; p < r->end; p++) {
        if (*p == '"') return p;
        if (*p == '\\') p++;
    }
    return NULL;
}

static pl_status read_string(reader *r, const char **out, size_t *n_out) {
    const char *start = r->at++;
    const char *close = string_end(r);
    if (!close) return fail_at(r, start, "unterminated string");
    /* Decoded text is never longer than its escaped form. */
    char *copy = pl_arena_alloc(r->arena, (size_t)(close - r->at) + 1), *to = copy;
    if (!copy) return pl_fail_memory(r->err, (size_t)(close - r->at) + 1);
    while (r->at < close) {
        const char *at = r->at;
        if (*at == '\\') {
            r->at++;
            if (!read_escape(r, &to)) return fail_at(r, at, "invalid escape in a string");
            continue;
        }
        const size_t step = pl_utf8_step(at, (size_t)(close - at));
        if (step == 0) return fail_at(r, at, "invalid UTF-8 in a string");
        if ((unsigned char)*at < 0x20) return fail_at(r, at, "control character in a string");
        memcpy(to, at, step);
        to += step;
        r->at += step;
    }
    r->at = close + 1;
    *to = '\0';
    *out = copy;
    *n_out = (size_t)(to - copy);
    return PL_OK;
}

/* ---- numbers ---- */

static bool skip_digits(reader *r) {
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > from;
}

static bool parse_int64(const char *s, size_t n, int64_t *out) {
    const bool negative = *s == '-';
    int64_t value = 0;
    for (size_t i = negative ? 1 : 0; i < n; i++) {
        const int64_t digit = s[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, negative ? -digit : digit, &value)) return false;
    }
    *out = value;
    return true;
}

static pl_status read_number(reader *r, pl_json_value *out) {
    const char *start = r->at;
    bool whole = true;
    if (next_is(r, '-')) r->at++;
    const char *digits = r->at;
    if (!skip_digits(r) || (*digits == '0' && r->at - digits > 1))
        return fail_at(r, start, "invalid number");
    if (next_is(r, '.')) {
        r->at++;
        whole = false;
        if (!skip_digits(r)) return fail_at(r, start, "invalid number");
    }
    if (next_is(r, 'e') || next_is(r, 'E')) {
        r->at++;
        whole = false;
        if (next_is(r, '+') || next_is(r, '-')) r->at++;
        if (!skip_digits(r)) return fail_at(r, start, "invalid number");
    }
    const size_t n = (size_t)(r->at - start);
    char *copy = pl_arena_strndup(r->arena, start, n);
    if (!copy) return pl_fail_memory(r->err, n);
    out->kind = PL_JSON_NUMBER;
    out->number = pl_strtod(copy, NULL);
    if (!isfinite(out->number)) return fail_at(r, start, "number out of range");
    out->is_integer = whole && parse_int64(copy, n, &out->integer);
    return PL_OK;
}

/* ---- containers ---- */

static pl_status check_duplicate(reader *r, const pl_json_value *object, pl_strmap *keys,
                                 pl_json_value *item, const char *at) {
    bool seen = false;
    if (object->n_items < FEW_KEYS) {
        for (const pl_json_value *v = object->first; v && !seen; v = v->next)
            seen = v->n_key == item->n_key && memcmp(v->key, item->key, v->n_key) == 0;
    } else {
        if (object->n_items == FEW_KEYS)
            for (pl_json_value *v = object->first; v; v = v->next)
                if (pl_strmap_put_n(keys, v->key, v->n_key, v) != 0)
                    return pl_fail_memory(r->err, sizeof(pl_strmap_entry));
        seen = pl_strmap_get_n(keys, item->key, item->n_key) != NULL;
        if (!seen && pl_strmap_put_n(keys, item->key, item->n_key, item) != 0)
            return pl_fail_memory(r->err, sizeof(pl_strmap_entry));
    }
    if (!seen) return PL_OK;
    return pl_fail(r->err, PL_E_FORMAT, "JSON, byte %zu: key '%s' appears twice",
                   (size_t)(at - r->text), item->key);
}

static pl_status read_key(reader *r, const pl_json_value *object, pl_strmap *keys,
                          pl_json_value *item) {
    const char *at = r->at;
    if (!next_is(r, '"')) return fail_at(r, at, "expected a key in quotes");
    PL_TRY(read_string(r, &item->key, &item->n_key));
    PL_TRY(check_duplicate(r, object, keys, item, at));
    skip_space(r);
    if (!next_is(r, ':')) return fail_at(r, r->at, "expected ':' after a key");
    r->at++;
    skip_space(r);
    return PL_OK;
}

/* r->at is after the opening bracket. */
static pl_status read_items(reader *r, int depth, pl_strmap *keys, pl_json_value *out) {
    const bool is_object = out->kind == PL_JSON_OBJECT;
    const char close = is_object ? '}' : ']';
    pl_json_value **link = &out->first;
    skip_space(r);
    if (next_is(r, close)) {
        r->at++;
        return PL_OK;
    }
    for (;;) {
        pl_json_value *item = pl_arena_alloc(r->arena, sizeof *item);
        if (!item) return pl_fail_memory(r->err, sizeof *item);
        if (is_object) PL_TRY(read_key(r, out, keys, item));
        PL_TRY(read_value(r, depth + 1, item));
        *link = item;
        link = &item->next;
        out->n_items++;
        skip_space(r);
        if (next_is(r, close)) {
            r->at++;
            return PL_OK;
        }
        if (!next_is(r, ',')) return fail_at(r, r->at, "expected ',' or a closing bracket");
        r->at++;
        skip_space(r);
    }
}

static pl_status read_container(reader *r, int depth, pl_json_value *out) {
    if (depth >= PL_JSON_READ_DEPTH_MAX)
        return pl_fail(r->err, PL_E_LIMIT, "JSON nested more than %d deep", PL_JSON_READ_DEPTH_MAX);
    pl_strmap keys = PL_STRMAP_INIT;
    out->kind = *r->at++ == '{' ? PL_JSON_OBJECT : PL_JSON_ARRAY;
    const pl_status st = read_items(r, depth, &keys, out);
    pl_strmap_release(&keys);
    return st;
}

static pl_status read_word(reader *r, pl_json_value *out) {
    static const struct {
        const char *word;
        pl_json_kind kind;
        bool boolean;
    } words[] = { { "true", PL_JSON_BOOL, true },
                  { "false", PL_JSON_BOOL, false },
                  { "null", PL_JSON_NULL, false } };
    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i].word, n) != 0) continue;
        r->at += n;
        out->kind = words[i].kind;
        out->boolean = words[i].boolean;
        return PL_OK;
    }
    return fail_at(r, r->at, "expected a value");
}

static pl_status read_value(reader *r, int depth, pl_json_value *out) {
    if (next_is(r, '{') || next_is(r, '[')) return read_container(r, depth, out);
    if (next_is(r, '"')) {
        out->kind = PL_JSON_STRING;
        return read_string(r, &out->string, &out->n_string);
    }
    if (r->at < r->end && (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')))
        return read_number(r, out);
    return read_word(r, out);
}

pl_status pl_json_read(const char *text, size_t n, pl_arena *arena, const pl_json_value **out,
                       pl_err *err) {
    reader r = { text, text, text + n, arena, err };
    pl_json_value *value = pl_arena_alloc(arena, sizeof *value);
    if (!value) return pl_fail_memory(err, sizeof *value);
    skip_space(&r);
    PL_TRY(read_value(&r, 0, value));
    skip_space(&r);
    if (r.at < r.end) return fail_at(&r, r.at, "text after the value");
    *out = value;
    return PL_OK;
}

const pl_json_value *pl_json_find(const pl_json_value *object, const char *key) {
    if (!object || object->kind != PL_JSON_OBJECT) return NULL;
    const size_t n = strlen(key);
    for (const pl_json_value *v = object->first; v; v = v->next)
        if (v->n_key == n && memcmp(v->key, key, n) == 0) return v;
    return NULL;
}

bool pl_json_number(const pl_json_value *v, double *out) {
    if (v && v->kind == PL_JSON_NUMBER) {
        *out = v->number;
        return true;
    }
    if (!v || v->kind != PL_JSON_STRING) return false;
    if (strcmp(v->string, "nan") == 0)
        *out = (double)NAN;
    else if (strcmp(v->string, "inf") == 0)
        *out = (double)INFINITY;
    else if (strcmp(v->string, "-inf") == 0)
        *out = -(double)INFINITY;
    else
        return false;
    return true;
}

const char *pl_json_kind_name(pl_json_kind kind) {
    static const char *const names[] = { "null", "bool", "number", "string", "array", "object" };
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}
