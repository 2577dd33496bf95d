/* Characters to tokens for the ONNX text form. */
#include "graph/text/text_lex.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/decimal.h"

enum { NUMBER_TEXT_MAX = 511 };

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}
static bool is_alpha(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool is_word(int c) {
    return is_alpha(c) || is_digit(c) || c == '_';
}
static int hex_digit(int c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}
static int byte_at(const pl_lex *lex, size_t at) {
    return at < lex->n_text ? (unsigned char)lex->text[at] : -1;
}

void pl_lex_init(pl_lex *lex, const char *text, size_t n_text, const char *name, pl_err *err) {
    *lex = (pl_lex){ .text = text, .n_text = n_text, .name = name, .err = err };
}

void pl_lex_release(pl_lex *lex) {
    pl_buf_release(&lex->scratch);
}

/* ---- failing ---- */

pl_status(pl_lex_fail)(pl_lex *lex, size_t at, pl_status status, const char *format, ...) {
    size_t line = 1, column = 1;
    char message[PL_ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    for (size_t i = 0; i < at && i < lex->n_text; i++) {
        if (lex->text[i] == '\n') {
            line++;
            column = 1;
        } else {
            column++;
        }
    }
    return pl_fail(lex->err, status, "%s:%zu:%zu: %s", lex->name, line, column, message);
}

pl_status(pl_lex_fail_expected)(pl_lex *lex, const char *what) {
    const int c = pl_lex_peek(lex);
    pl_string word;
    if (c < 0) return pl_lex_fail(lex, lex->at, PL_E_FORMAT, "expected %s, found the end", what);
    if (pl_lex_peek_ident(lex, &word))
        return pl_lex_fail(lex, lex->at, PL_E_FORMAT, "expected %s, found '%.*s'", what,
                           (int)(word.n_bytes < 60 ? word.n_bytes : 60), word.data);
    if (c < ' ' || c > '~')
        return pl_lex_fail(lex, lex->at, PL_E_FORMAT, "expected %s, found byte 0x%02x", what,
                           (unsigned)c);
    return pl_lex_fail(lex, lex->at, PL_E_FORMAT, "expected %s, found '%c'", what, c);
}

/* ---- punctuation ---- */

int pl_lex_peek(pl_lex *lex) {
    for (;;) {
        const int c = byte_at(lex, lex->at);
        if (c == ' ' || (c >= '\t' && c <= '\r')) {
            lex->at++;
        } else if (c == '#') {
            const char *end = memchr(lex->text + lex->at, '\n', lex->n_text - lex->at);
            lex->at = end == NULL ? lex->n_text : (size_t)(end - lex->text);
        } else {
            return c;
        }
    }
}

bool pl_lex_match(pl_lex *lex, char c) {
    if (pl_lex_peek(lex) != (unsigned char)c) return false;
    lex->at++;
    return true;
}

pl_status pl_lex_expect(pl_lex *lex, char c) {
    const char what[] = { '\'', c, '\'', '\0' };
    return pl_lex_match(lex, c) ? PL_OK : pl_lex_fail_expected(lex, what);
}

pl_status pl_lex_expect_arrow(pl_lex *lex) {
    if (pl_lex_peek(lex) != '=' || byte_at(lex, lex->at + 1) != '>')
        return pl_lex_fail_expected(lex, "'=>'");
    lex->at += 2;
    return PL_OK;
}

/* ---- words ---- */

bool pl_lex_is_ident(const char *s, size_t n) {
    if (n == 0 || is_digit((unsigned char)s[0])) return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_word((unsigned char)s[i])) return false;
    }
    return true;
}

bool pl_lex_peek_ident(pl_lex *lex, pl_string *out) {
    size_t end;
    const int c = pl_lex_peek(lex);
    *out = (pl_string){ lex->text + lex->at, 0 };
    if (!is_alpha(c) && c != '_') return false;
    for (end = lex->at; is_word(byte_at(lex, end)); end++) {
    }
    out->n_bytes = end - lex->at;
    return true;
}

pl_status pl_lex_ident(pl_lex *lex, pl_string *out) {
    if (!pl_lex_peek_ident(lex, out)) return pl_lex_fail_expected(lex, "a name");
    lex->at += out->n_bytes;
    return PL_OK;
}

/* Copies text[from..to) into scratch and resolves escapes: \xHH is a byte (our extension; ONNX's
 * printer leaves control characters raw), any other character after a backslash is itself (ONNX's
 * rule). */
static pl_status unescape(pl_lex *lex, size_t from, size_t to, pl_string *out) {
    pl_buf_reset(&lex->scratch);
    for (size_t i = from; i < to; i++) {
        char c = lex->text[i];
        if (c == '\\') {
            c = lex->text[++i];
            if (c == 'x' && i + 2 < to) {
                const int high = hex_digit(byte_at(lex, i + 1));
                const int low = hex_digit(byte_at(lex, i + 2));
                if (high >= 0 && low >= 0) {
                    c = (char)(unsigned char)(high * 16 + low);
                    i += 2;
                }
            }
        }
        pl_buf_putc(&lex->scratch, c);
    }
    if (!pl_buf_ok(&lex->scratch)) return pl_fail_memory(lex->err, to - from);
    *out = (pl_string){ pl_buf_str(&lex->scratch), lex->scratch.n_bytes };
    return PL_OK;
}

pl_status pl_lex_string(pl_lex *lex, pl_string *out) {
    bool escaped = false;
    size_t end;
    if (pl_lex_peek(lex) != '"') return pl_lex_fail_expected(lex, "a quoted string");
    const size_t from = lex->at + 1;
    for (end = from; end < lex->n_text && lex->text[end] != '"'; end++) {
        if (lex->text[end] == '\\') {
            escaped = true;
            end++;
        }
    }
    if (end >= lex->n_text)
        return pl_lex_fail(lex, lex->at, PL_E_FORMAT, "string is not terminated with '\"'");
    lex->at = end + 1;
    if (escaped) return unescape(lex, from, end, out);
    *out = (pl_string){ lex->text + from, end - from };
    return PL_OK;
}

pl_status pl_lex_name(pl_lex *lex, pl_string *out, bool *found) {
    const int c = pl_lex_peek(lex);
    const size_t at = lex->at;
    *found = true;
    if (c == '"') {
        PL_TRY(pl_lex_string(lex, out));
        if (memchr(out->data, '\0', out->n_bytes) != NULL)
            return pl_lex_fail(lex, at, PL_E_FORMAT, "name contains a NUL byte");
        return PL_OK;
    }
    *found = pl_lex_peek_ident(lex, out);
    lex->at += out->n_bytes;
    return PL_OK;
}

/* ---- numbers ---- */

bool pl_lex_word_is_float(pl_string word) {
    return (word.n_bytes == 3 && strncasecmp(word.data, "inf", 3) == 0) ||
           (word.n_bytes == 3 && strncasecmp(word.data, "nan", 3) == 0) ||
           (word.n_bytes == 8 && strncasecmp(word.data, "infinity", 8) == 0);
}

/* nan(0x…): a NaN with a payload, so that all bits are kept. Our extension; ONNX's printer drops
 * it. */
static size_t skip_nan_payload(const pl_lex *lex, size_t at) {
    size_t end = at + 3;
    if (byte_at(lex, at) != '(' || byte_at(lex, at + 1) != '0' || byte_at(lex, at + 2) != 'x')
        return at;
    while (hex_digit(byte_at(lex, end)) >= 0)
        end++;
    return byte_at(lex, end) == ')' && end > at + 3 && end <= at + 3 + 16 ? end + 1 : at;
}

static size_t skip_digits(const pl_lex *lex, size_t at) {
    while (is_digit(byte_at(lex, at)))
        at++;
    return at;
}

pl_status pl_lex_number_read(pl_lex *lex, pl_lex_number *out) {
    pl_string word;
    size_t end;
    (void)pl_lex_peek(lex);
    const size_t from = lex->at;
    bool is_float = false;
    size_t at = from + (byte_at(lex, from) == '-' || byte_at(lex, from) == '+');
    lex->at = at;
    if (is_digit(byte_at(lex, at))) {
        end = skip_digits(lex, at);
        if (byte_at(lex, end) == '.') {
            is_float = true;
            end = skip_digits(lex, end + 1);
        }
        if (byte_at(lex, end) == 'e' || byte_at(lex, end) == 'E') {
            is_float = true;
            end++;
            end += byte_at(lex, end) == '-' || byte_at(lex, end) == '+';
            if (!is_digit(byte_at(lex, end)))
                return pl_lex_fail(lex, from, PL_E_FORMAT, "exponent has no digits");
            end = skip_digits(lex, end);
        }
    } else if (is_alpha(byte_at(lex, at)) && pl_lex_peek_ident(lex, &word) &&
               pl_lex_word_is_float(word)) {
        is_float = true;
        end = at + word.n_bytes;
        if (byte_at(lex, at) == 'n' || byte_at(lex, at) == 'N') end = skip_nan_payload(lex, end);
    } else {
        lex->at = from;
        return pl_lex_fail_expected(lex, "a number");
    }
    if (end - from > NUMBER_TEXT_MAX)
        return pl_lex_fail(lex, from, PL_E_LIMIT, "number is longer than %d characters",
                           NUMBER_TEXT_MAX);
    lex->at = end;
    *out = (pl_lex_number){ { lex->text + from, end - from }, from, is_float };
    return PL_OK;
}

static void number_text(const pl_lex_number *number, char out[NUMBER_TEXT_MAX + 1]) {
    memcpy(out, number->text.data, number->text.n_bytes);
    out[number->text.n_bytes] = '\0';
}

static pl_status fail_number(pl_lex *lex, const pl_lex_number *number, const char *what) {
    const int n = (int)(number->text.n_bytes < 40 ? number->text.n_bytes : 40);
    return pl_lex_fail(lex, number->at, PL_E_FORMAT, "'%.*s' is not %s", n, number->text.data,
                       what);
}

pl_status pl_lex_number_i64(pl_lex *lex, const pl_lex_number *number, int64_t *out) {
    char text[NUMBER_TEXT_MAX + 1];
    if (number->is_float) return fail_number(lex, number, "an integer");
    number_text(number, text);
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0 ? PL_OK : fail_number(lex, number, "a 64-bit integer");
}

pl_status pl_lex_number_u64(pl_lex *lex, const pl_lex_number *number, uint64_t *out) {
    char text[NUMBER_TEXT_MAX + 1];
    if (number->is_float || number->text.data[0] == '-')
        return fail_number(lex, number, "an unsigned integer");
    number_text(number, text);
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0 ? PL_OK : fail_number(lex, number, "an unsigned 64-bit integer");
}

/* The payload of nan(0x…) is the whole bit pattern; 0 when there is none. */
static uint64_t nan_bits(const char *text) {
    const char *open = strchr(text, '(');
    return open == NULL ? 0 : strtoull(open + 3, NULL, 16);
}

pl_status pl_lex_number_f32(pl_lex *lex, const pl_lex_number *number, float *out) {
    char text[NUMBER_TEXT_MAX + 1];
    number_text(number, text);
    const uint64_t bits = nan_bits(text);
    if (bits != 0) {
        const uint32_t low = (uint32_t)bits;
        memcpy(out, &low, sizeof low);
        return bits <= UINT32_MAX && isnan(*out) ? PL_OK : fail_number(lex, number, "a NaN");
    }
    *out = pl_strtof(text, NULL);
    if (isinf(*out) && strchr(text, 'n') == NULL && strchr(text, 'N') == NULL)
        return fail_number(lex, number, "in the range of float");
    return PL_OK;
}

pl_status pl_lex_number_f64(pl_lex *lex, const pl_lex_number *number, double *out) {
    char text[NUMBER_TEXT_MAX + 1];
    number_text(number, text);
    const uint64_t bits = nan_bits(text);
    if (bits != 0) {
        memcpy(out, &bits, sizeof bits);
        return isnan(*out) ? PL_OK : fail_number(lex, number, "a NaN");
    }
    *out = pl_strtod(text, NULL);
    if (isinf(*out) && strchr(text, 'n') == NULL && strchr(text, 'N') == NULL)
        return fail_number(lex, number, "in the range of double");
    return PL_OK;
}

/* ---- groups ---- */

pl_status pl_lex_skip_group(pl_lex *lex) {
    const size_t from = lex->at;
    size_t depth = 0;
    pl_string ignored;
    do {
        const int c = pl_lex_peek(lex);
        switch (c) {
        case -1: return pl_lex_fail(lex, from, PL_E_FORMAT, "bracket is never closed");
        case '"': PL_TRY(pl_lex_string(lex, &ignored)); continue;
        case '=': lex->at += byte_at(lex, lex->at + 1) == '>' ? 2 : 1; continue;
        case '(':
        case '[':
        case '{':
        case '<': depth++; break;
        case ')':
        case ']':
        case '}':
        case '>':
            if (depth == 0) return pl_lex_fail_expected(lex, "an opening bracket");
            depth--;
            break;
        default: break;
        }
        lex->at++;
    } while (depth > 0);
    return PL_OK;
}
