/* Failure signatures: equality, text, JSON. */
#include "flows/minify/oracle/signature.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

static const char *const names[] = {
#define X(NAME, text) text,
    PL_FAIL_KIND_MAP(X)
#undef X
};

/* PyTorch's limit for "the same error". */
#define SIMILAR 0.5

void pl_signature_init(pl_signature *s) {
    *s = (pl_signature){ .q = (double)NAN };
}

const char *pl_fail_kind_name(pl_fail_kind kind) {
    return kind < PL_FAIL_KIND_COUNT ? names[kind] : "none";
}

/* ---- texts ---- */

/* Replaces quoted names and numbers, including addresses, by one character each. */
static size_t normalize(const char *from, char *to, size_t n_to) {
    size_t n = 0;
    while (*from != '\0' && n + 1 < n_to) {
        const char *close = *from == '\'' || *from == '"' ? strchr(from + 1, *from) : NULL;
        if (close != NULL) {
            to[n++] = 'N';
            from = close + 1;
        } else if (isdigit((unsigned char)*from)) {
            to[n++] = '0';
            while (isxdigit((unsigned char)*from) || *from == 'x' || *from == '.')
                from++;
        } else {
            to[n++] = *from++;
        }
    }
    to[n] = '\0';
    return n;
}

/* Longest common run of a[a0..a1) and b[b0..b1); the earliest of equals, as in difflib. */
static size_t longest(const char *a, size_t a0, size_t a1, const char *b, size_t b0, size_t b1,
                      size_t *at_a, size_t *at_b) {
    uint16_t row[2][PL_SIGNATURE_TEXT + 1] = { { 0 } };
    size_t best = 0;
    for (size_t i = a0; i < a1; i++) {
        uint16_t *now = row[i & 1], *before = row[(i & 1) ^ 1];
        for (size_t k = b0; k < b1; k++) {
            now[k + 1] = a[i] == b[k] ? (uint16_t)((k > b0 && i > a0 ? before[k] : 0) + 1) : 0;
            if (now[k + 1] > best) {
                best = now[k + 1];
                *at_a = i + 1 - best;
                *at_b = k + 1 - best;
            }
        }
    }
    return best;
}

double pl_text_similarity(const char *x, const char *y) {
    char a[PL_SIGNATURE_TEXT], b[PL_SIGNATURE_TEXT];
    struct {
        size_t a0, a1, b0, b1;
    } waiting[2 * PL_SIGNATURE_TEXT + 2];
    const size_t n_a = normalize(x, a, sizeof(a)), n_b = normalize(y, b, sizeof(b));
    size_t n_waiting = 1, common = 0;
    if (n_a + n_b == 0) return 1;
    waiting[0].a0 = waiting[0].b0 = 0;
    waiting[0].a1 = n_a;
    waiting[0].b1 = n_b;
    while (n_waiting > 0) { /* terminates: each run has at least one character */
        n_waiting--;
        const size_t a0 = waiting[n_waiting].a0, a1 = waiting[n_waiting].a1;
        const size_t b0 = waiting[n_waiting].b0, b1 = waiting[n_waiting].b1;
        size_t i = 0, k = 0;
        const size_t n = a0 < a1 && b0 < b1 ? longest(a, a0, a1, b, b0, b1, &i, &k) : 0;
        if (n == 0) continue;
        common += n;
        waiting[n_waiting].a0 = a0;
        waiting[n_waiting].a1 = i;
        waiting[n_waiting].b0 = b0;
        waiting[n_waiting++].b1 = k;
        waiting[n_waiting].a0 = i + n;
        waiting[n_waiting].a1 = a1;
        waiting[n_waiting].b0 = k + n;
        waiting[n_waiting++].b1 = b1;
    }
    return 2.0 * (double)common / (double)(n_a + n_b);
}

static bool same_text(const pl_signature *target, const pl_signature *seen, const char *check_str) {
    if (check_str != NULL) return strstr(seen->text, check_str) != NULL;
    return pl_text_similarity(target->text, seen->text) > SIMILAR;
}

/* ---- equality ---- */

/* "offset 0.25": compares the word, not the number. With fewer elements an offset may look like a
 * scale. */
static bool same_error_kind(const pl_signature *target, const pl_signature *seen) {
    const size_t n = strcspn(target->error_kind, " ");
    return seen->n_elements != target->n_elements ||
           (strncmp(target->error_kind, seen->error_kind, n) == 0 &&
            strcspn(seen->error_kind, " ") == n);
}

bool pl_signature_matches(const pl_signature *target, const pl_signature *seen,
                          const char *check_str) {
    if (target->kind != seen->kind || target->kind == PL_FAIL_NONE) return false;
    switch (target->kind) {
    case PL_FAIL_DIVERGENCE:
        return strcmp(target->op, seen->op) == 0 && same_error_kind(target, seen);
    case PL_FAIL_NONFINITE:
    case PL_FAIL_METADATA:
    case PL_FAIL_DETERMINISM: return strcmp(target->op, seen->op) == 0;
    case PL_FAIL_COMPILE:
    case PL_FAIL_RUN:
        return strcmp(target->op, seen->op) == 0 && same_text(target, seen, check_str);
    case PL_FAIL_SIGNAL: return target->number == seen->number;
    case PL_FAIL_CHECK: return target->number == seen->number;
    default: return true;
    }
}

/* ---- words ---- */

void pl_signature_describe(const pl_signature *s, char *out, size_t n_out) {
    const char *name = pl_fail_kind_name(s->kind);
    switch (s->kind) {
    case PL_FAIL_DIVERGENCE:
    case PL_FAIL_NONFINITE:
    case PL_FAIL_METADATA:
    case PL_FAIL_DETERMINISM:
        if (s->op[0] == '\0') {
            snprintf(out, n_out, "%s of output '%s', no operation to blame", name, s->value);
        } else if (s->error_kind[0] != '\0') {
            snprintf(out, n_out, "%s of %s (%s)", name, s->op, s->error_kind);
        } else {
            snprintf(out, n_out, "%s of %s", name, s->op);
        }
        break;
    case PL_FAIL_SIGNAL: snprintf(out, n_out, "%s %d", name, s->number); break;
    case PL_FAIL_CHECK: snprintf(out, n_out, "%s: exit code %d", name, s->number); break;
    case PL_FAIL_COMPILE:
    case PL_FAIL_RUN: snprintf(out, n_out, "%s: %.200s", name, s->text); break;
    default: snprintf(out, n_out, "%s", name); break;
    }
}

void pl_signature_put_json(pl_json *json, const pl_signature *s) {
    pl_json_object_begin(json);
    pl_json_put_string(json, "kind", pl_fail_kind_name(s->kind));
    pl_json_put_string(json, "op", s->op);
    pl_json_put_string(json, "value", s->value);
    pl_json_put_string(json, "error_kind", s->error_kind);
    pl_json_put_int(json, "elements", s->n_elements);
    if (!isnan(s->q)) pl_json_put_double(json, "q", s->q);
    pl_json_put_int(json, "number", s->number);
    pl_json_put_string(json, "text", s->text);
    pl_json_object_end(json);
}

static void take_text(const pl_json_value *v, const char *key, char *out, size_t n_out) {
    const pl_json_value *found = pl_json_find(v, key);
    snprintf(out, n_out, "%s", found != NULL && found->kind == PL_JSON_STRING ? found->string : "");
}

static int64_t take_int(const pl_json_value *v, const char *key) {
    const pl_json_value *found = pl_json_find(v, key);
    return found != NULL && found->kind == PL_JSON_NUMBER && found->is_integer ? found->integer : 0;
}

pl_status pl_signature_read_json(const pl_json_value *v, pl_signature *out, pl_err *err) {
    char kind[32];
    pl_signature_init(out);
    if (v == NULL || v->kind != PL_JSON_OBJECT) {
        return pl_fail(err, PL_E_FORMAT, "no signature found");
    }
    take_text(v, "kind", kind, sizeof(kind));
    for (int i = 0; i < PL_FAIL_KIND_COUNT; i++)
        if (strcmp(kind, names[i]) == 0) out->kind = (pl_fail_kind)i;
    if (out->kind == PL_FAIL_NONE) {
        return pl_fail(err, PL_E_FORMAT, "unknown kind of signature '%s'", kind);
    }
    take_text(v, "op", out->op, sizeof(out->op));
    take_text(v, "value", out->value, sizeof(out->value));
    take_text(v, "error_kind", out->error_kind, sizeof(out->error_kind));
    take_text(v, "text", out->text, sizeof(out->text));
    out->n_elements = take_int(v, "elements");
    const int64_t number = take_int(v, "number");
    out->number = number >= INT32_MIN && number <= INT32_MAX ? (int)number : 0;
    return PL_OK;
}
