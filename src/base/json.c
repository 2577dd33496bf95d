/* The JSON writer. It places commas and line breaks; misuse that would give unreadable JSON (too
 * deep, more ends than begins) marks the buffer as failed. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

void pl_json_init(pl_json *json, pl_buf *buf, bool pretty) {
    *json = (pl_json){ .buf = buf, .pretty = pretty };
}

static void newline(pl_json *json) {
    if (!json->pretty) return;
    pl_buf_putc(json->buf, '\n');
    for (int i = 0; i < json->depth; i++)
        pl_buf_append(json->buf, "  ", 2);
}

/* Writes the separator and indentation before the next key or value. */
static void separate(pl_json *json) {
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0) return;
    bool *has_items = &json->has_items[json->depth - 1];
    if (*has_items) pl_buf_putc(json->buf, ',');
    *has_items = true;
    newline(json);
}

static void begin(pl_json *json, char bracket) {
    separate(json);
    if (json->depth == PL_JSON_DEPTH_MAX) {
        json->buf->failed = true;
        return;
    }
    pl_buf_putc(json->buf, bracket);
    json->has_items[json->depth++] = false;
}

static void end(pl_json *json, char bracket) {
    if (json->depth == 0 || json->after_key) {
        json->buf->failed = true;
        return;
    }
    json->depth--;
    if (json->has_items[json->depth]) newline(json);
    pl_buf_putc(json->buf, bracket);
}

void pl_json_object_begin(pl_json *json) {
    begin(json, '{');
}

void pl_json_object_end(pl_json *json) {
    end(json, '}');
}

void pl_json_array_begin(pl_json *json) {
    begin(json, '[');
}

void pl_json_array_end(pl_json *json) {
    end(json, ']');
}

void pl_json_key(pl_json *json, const char *key) {
    if (json->after_key) json->buf->failed = true;
    separate(json);
    pl_escape_put(json->buf, PL_ESCAPE_JSON, key);
    pl_buf_puts(json->buf, json->pretty ? ": " : ":");
    json->after_key = true;
}

void pl_json_string_n(pl_json *json, const char *s, size_t n) {
    separate(json);
    pl_escape_put_n(json->buf, PL_ESCAPE_JSON, s, n);
}

void pl_json_string(pl_json *json, const char *s) {
    if (s == NULL) {
        pl_json_null(json);
    } else {
        pl_json_string_n(json, s, strlen(s));
    }
}

void pl_json_int(pl_json *json, int64_t value) {
    separate(json);
    pl_buf_printf(json->buf, "%lld", (long long)value);
}

/* snprintf and strtod both use the host program's locale, so they agree. Whatever is not a digit, a
 * sign or 'e' is the locale's decimal point, of one byte or more. */
static size_t point_fix(char *text) {
    size_t to = 0;
    bool in_point = false;
    for (const char *c = text; *c != '\0'; c++) {
        const bool point = !((*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e');
        if (point && in_point) continue;
        in_point = point;
        text[to++] = *c;
        if (point) text[to - 1] = '.';
    }
    text[to] = '\0';
    return to;
}

static void put_finite(pl_buf *buf, double value) {
    char text[64];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (digits == 17) break;
        const double back = strtod(text, NULL);
        if (!(back < value) && !(back > value)) break;
    }
    pl_buf_append(buf, text, point_fix(text));
}

void pl_json_double(pl_json *json, double value) {
    if (isnan(value)) {
        pl_json_string(json, "nan");
    } else if (isinf(value)) {
        pl_json_string(json, value < 0 ? "-inf" : "inf");
    } else {
        separate(json);
        put_finite(json->buf, value);
    }
}

void pl_json_bool(pl_json *json, bool value) {
    separate(json);
    pl_buf_puts(json->buf, value ? "true" : "false");
}

void pl_json_null(pl_json *json) {
    separate(json);
    pl_buf_puts(json->buf, "null");
}

void pl_json_put_string(pl_json *json, const char *key, const char *s) {
    pl_json_key(json, key);
    pl_json_string(json, s);
}

void pl_json_ints(pl_json *json, const int64_t *values, size_t n) {
    pl_json_array_begin(json);
    for (size_t i = 0; i < n; i++)
        pl_json_int(json, values[i]);
    pl_json_array_end(json);
}

void pl_json_put_int(pl_json *json, const char *key, int64_t value) {
    pl_json_key(json, key);
    pl_json_int(json, value);
}

void pl_json_put_ints(pl_json *json, const char *key, const int64_t *values, size_t n) {
    pl_json_key(json, key);
    pl_json_ints(json, values, n);
}

void pl_json_put_double(pl_json *json, const char *key, double value) {
    pl_json_key(json, key);
    pl_json_double(json, value);
}

void pl_json_put_known(pl_json *json, const char *key, double value) {
    pl_json_key(json, key);
    if (isnan(value)) {
        pl_json_null(json);
    } else {
        pl_json_double(json, value);
    }
}

void pl_json_put_bool(pl_json *json, const char *key, bool value) {
    pl_json_key(json, key);
    pl_json_bool(json, value);
}
