/* Numbers to text and back. */
#include "ops/lib/type_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- printing ---- */

/* Does the text read back as the same element? */
static bool reads_back(const char *text, pl_dtype dtype, const void *at) {
    char element[16] = { 0 };
    const size_t size = pl_dtype_bytes(dtype);
    if (!pl_element_parse((pl_string){ text, strlen(text) }, dtype, true, 'n', element)) {
        return false;
    }
    return memcmp(element, at, size) == 0;
}

/* Converts "1.2345e-07" to NumPy's form: positional from 1e-4 up to 1e16, always with a fraction;
 * otherwise scientific without trailing zeros. */
static size_t layout(const char *scientific, double x, char *out, size_t n_out) {
    const double a = fabs(x);
    const char *e = strchr(scientific, 'e');
    if (a != 0 && (a < 1e-4 || a >= 1e16)) {
        return (size_t)snprintf(out, n_out, "%s", scientific);
    }
    int digits = 0; /* after the first */
    for (const char *p = scientific; p < e; p++)
        digits += *p >= '0' && *p <= '9';
    const int exponent = (int)strtol(e + 1, NULL, 10);
    const int after = digits - 1 - exponent;
    char head[64];
    snprintf(head, sizeof(head), "%.*f", after > 1 ? after : 1, strtod(scientific, NULL));
    return (size_t)snprintf(out, n_out, "%s", head);
}

static size_t print_float(pl_dtype dtype, const void *at, char *out, size_t n_out) {
    double x = 0;
    pl_load_f64(dtype, at, &x, 1);
    if (isnan(x)) return (size_t)snprintf(out, n_out, "nan");
    if (isinf(x)) return (size_t)snprintf(out, n_out, x < 0 ? "-inf" : "inf");
    char text[64];
    for (int precision = 0; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, x);
        if (reads_back(text, dtype, at)) break;
    }
    return layout(text, x, out, n_out);
}

size_t pl_element_print(pl_dtype dtype, const void *at, char *out, size_t n_out) {
    int64_t x = 0;
    if (pl_dtype_is_float(dtype)) return print_float(dtype, at, out, n_out);
    pl_load_i64(dtype, at, &x, 1);
    if (dtype == PL_BOOL) return (size_t)snprintf(out, n_out, x != 0 ? "True" : "False");
    if (dtype == PL_U64) return (size_t)snprintf(out, n_out, "%" PRIu64, (uint64_t)x);
    return (size_t)snprintf(out, n_out, "%" PRId64, x);
}

/* ---- reading ---- */

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads an integer exactly if it fits into the 64 bits of its type. */
static bool parse_integer(const char *text, pl_dtype dtype, void *to) {
    char *end = NULL;
    errno = 0;
    if (dtype == PL_U64 && text[0] != '-') {
        const uint64_t x = strtoull(text, &end, 10);
        if (errno != 0 || *end != '\0') return false;
        pl_store_u64(dtype, &x, to, 1);
        return true;
    }
    const int64_t x = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0') return false;
    pl_store_i64(dtype, &x, to, 1);
    return true;
}

static bool parse_float(const char *text, pl_dtype dtype, bool saturate, char mode, void *to) {
    char *end = NULL;
    if (strpbrk(text, "xXpP(") != NULL)
        return false;      /* not valid in ONNX: C's hexadecimal and nan(…) */
    if (dtype == PL_F32) { /* rounded once */
        const float x = strtof(text, &end);
        pl_store_f32(dtype, &x, to, 1);
        return end != text && *end == '\0';
    }
    const double x = strtod(text, &end);
    if (end == text || *end != '\0') return false;
    if (pl_dtype_is_float(dtype) && pl_dtype_bytes(dtype) == 1) {
        *(pl_u8 *)to = pl_f8_from_f64(dtype, x, saturate, mode);
    } else {
        pl_store_f64(dtype, &x, to, 1);
    }
    return true;
}

bool pl_element_parse(pl_string text, pl_dtype dtype, bool saturate, char round_mode, void *to) {
    char copy[400];
    while (text.n_bytes > 0 && is_space(text.data[0]))
        text.data++, text.n_bytes--;
    while (text.n_bytes > 0 && is_space(text.data[text.n_bytes - 1]))
        text.n_bytes--;
    if (text.n_bytes == 0 || text.n_bytes >= sizeof(copy)) return false;
    memcpy(copy, text.data, text.n_bytes);
    copy[text.n_bytes] = '\0';
    if (strlen(copy) != text.n_bytes) return false;
    if (dtype == PL_BOOL && (strcasecmp(copy, "true") == 0 || strcasecmp(copy, "false") == 0)) {
        *(pl_u8 *)to = copy[0] == 't' || copy[0] == 'T';
        return true;
    }
    if (pl_dtype_is_integer(dtype) && parse_integer(copy, dtype, to)) return true;
    return parse_float(copy, dtype, saturate, round_mode, to);
}
