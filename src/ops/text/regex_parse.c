/* Parses RE2 syntax into a tree. Concatenations lean to the left, so a long pattern nests only as
 * deep as its groups. */
#include <string.h>

#include "base/array.h"
#include "ops/text/regex_int.h"

typedef struct parser {
    pl_arena *arena;
    const char *start, *at, *end;
    bool fold, dot_all, multi_line; /* flags i, s, m */
    bool quoting;                   /* between \Q and \E: letters are literal */
    int depth;
    pl_err *err;
} parser;

static pl_status bad(const parser *p, const char *what) {
    return pl_fail(p->err, PL_E_INVALID, "pattern '%.*s': %s at byte %td",
                   (int)(p->end - p->start > 200 ? 200 : p->end - p->start), p->start, what,
                   p->at - p->start);
}

static pl_status no_memory(const parser *p) {
    return pl_fail_memory(p->err, sizeof(regex_node));
}

static bool next_is(const parser *p, const char *s) {
    const size_t n = strlen(s);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, s, n) == 0;
}

static bool take(parser *p, const char *s) {
    if (!next_is(p, s)) return false;
    p->at += strlen(s);
    return true;
}

static pl_status take_letter(parser *p, uint32_t *out) {
    if (p->at == p->end) return bad(p, "a letter is missing");
    const size_t n = pl_letter_decode(p->at, (size_t)(p->end - p->at), out);
    if (*out == PL_LETTER_INVALID) return bad(p, "invalid UTF-8");
    p->at += n;
    return PL_OK;
}

static pl_status new_node(const parser *p, regex_kind kind, regex_node *left, regex_node *right,
                          regex_node **out) {
    regex_node *node = pl_arena_alloc(p->arena, sizeof(*node));
    if (node == NULL) return no_memory(p);
    *node = (regex_node){ .kind = kind, .left = left, .right = right };
    *out = node;
    return PL_OK;
}

/* Left then right. Drops nodes that match only the empty string, so that every node emits code. */
static pl_status concat(const parser *p, regex_node *left, regex_node *right, regex_node **out) {
    *out = left->kind == REGEX_EMPTY ? right : left;
    if (left->kind == REGEX_EMPTY || right->kind == REGEX_EMPTY) return PL_OK;
    return new_node(p, REGEX_CONCAT, left, right, out);
}

/* ---- classes ---- */

static pl_status add_range(const parser *p, regex_class *c, uint32_t first, uint32_t last) {
    if (!PL_ARENA_ROOM(p->arena, c->ranges, c->n, &c->capacity)) return no_memory(p);
    c->ranges[c->n++] = (regex_range){ first, last };
    return PL_OK;
}

typedef struct named_class {
    const char *name, *pairs; /* ranges of ASCII letters, in ascending order */
    bool nul;                 /* includes NUL */
} named_class;

static const named_class perl_classes[] = { { "d", "09", false },
                                            { "s", "\t\n\f\r  ", false },
                                            { "w", "09AZ__az", false },
                                            { NULL, NULL, false } };
static const named_class posix_classes[] = { { "alnum", "09AZaz", false },
                                             { "alpha", "AZaz", false },
                                             { "ascii", "\001\177", true },
                                             { "blank", "\t\t  ", false },
                                             { "cntrl", "\001\037\177\177", true },
                                             { "digit", "09", false },
                                             { "graph", "!~", false },
                                             { "lower", "az", false },
                                             { "print", " ~", false },
                                             { "punct", "!/:@[`{~", false },
                                             { "space", "\t\r  ", false },
                                             { "upper", "AZ", false },
                                             { "word", "09AZ__az", false },
                                             { "xdigit", "09AFaf", false },
                                             { NULL, NULL, false } };

/* Adds the class, or with `negated` its complement. */
static pl_status add_named(const parser *p, regex_class *c, const named_class *n, bool negated) {
    uint32_t from = n->nul ? 1 : 0;
    if (n->nul && !negated) PL_TRY(add_range(p, c, 0, 0));
    for (const char *s = n->pairs; s[0] != '\0'; s += 2) {
        const uint32_t first = (unsigned char)s[0], last = (unsigned char)s[1];
        if (!negated) PL_TRY(add_range(p, c, first, last));
        if (negated && first > from) PL_TRY(add_range(p, c, from, first - 1));
        from = last + 1;
    }
    return negated ? add_range(p, c, from, 0x10FFFF) : PL_OK;
}

/* \d, \w, \s and their negations; *found tells whether there was one. */
static pl_status perl_class(parser *p, regex_class *c, bool *found) {
    *found = false;
    if (p->end - p->at < 2 || p->at[0] != '\\') return PL_OK;
    for (const named_class *n = perl_classes; n->name != NULL; n++) {
        const bool negated = p->at[1] == n->name[0] - 32;
        if (p->at[1] != n->name[0] && !negated) continue;
        *found = true;
        p->at += 2;
        return add_named(p, c, n, negated);
    }
    return PL_OK;
}

/* [:name:] and [:^name:] inside a class. */
static pl_status posix_class(parser *p, regex_class *c, bool *found) {
    *found = false;
    if (!next_is(p, "[:")) return PL_OK;
    const char *name = p->at + 2;
    const bool negated = name < p->end && *name == '^';
    if (negated) name++;
    const char *close = name;
    while (close < p->end && *close >= 'a' && *close <= 'z')
        close++;
    if (p->end - close < 2 || close[0] != ':' || close[1] != ']') return PL_OK;
    const size_t length = (size_t)(close - name);
    for (const named_class *n = posix_classes; n->name != NULL; n++) {
        if (strlen(n->name) != length || memcmp(n->name, name, length) != 0) continue;
        *found = true;
        p->at = close + 2;
        return add_named(p, c, n, negated);
    }
    return bad(p, "unknown class name");
}

/* ---- escapes ---- */

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static pl_status hex_escape(parser *p, uint32_t *out) {
    const bool braces = take(p, "{");
    uint32_t value = 0;
    int n = 0;
    while (p->at < p->end && hex_value(*p->at) >= 0 && (braces ? n < 8 : n < 2)) {
        value = value * 16 + (uint32_t)hex_value(*p->at++);
        n++;
    }
    if (n == 0 || (!braces && n != 2) || (braces && !take(p, "}")) || value > 0x10FFFF) {
        return bad(p, "bad \\x escape");
    }
    *out = value;
    return PL_OK;
}

static pl_status octal_escape(parser *p, uint32_t *out) {
    uint32_t value = 0;
    for (int n = 0; n < 3 && p->at < p->end && *p->at >= '0' && *p->at <= '7'; n++)
        value = value * 8 + (uint32_t)(*p->at++ - '0');
    *out = value;
    return PL_OK;
}

/* The letter after a backslash. */
static pl_status escaped_letter(parser *p, uint32_t *out) {
    static const char names[] = "afnrtv", values[] = "\a\f\n\r\t\v";
    if (p->at == p->end) return bad(p, "a backslash at the end");
    const char c = *p->at;
    const char *known = strchr(names, c);
    if (c == 'x') {
        p->at++;
        return hex_escape(p, out);
    }
    /* RE2: \1 to \7 need a second octal digit, since there are no back references. */
    const bool two = p->end - p->at > 1 && p->at[1] >= '0' && p->at[1] <= '7';
    if (c == '0' || (c >= '1' && c <= '7' && two)) return octal_escape(p, out);
    if (c != '\0' && known != NULL) {
        *out = (unsigned char)values[known - names];
        p->at++;
        return PL_OK;
    }
    if (c == 'p' || c == 'P' || c == 'C') {
        return pl_fail(p->err, PL_E_UNSUPPORTED, "pattern: \\%c is not supported", c);
    }
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (word) return bad(p, "unknown escape");
    return take_letter(p, out);
}

static pl_status class_letter(parser *p, uint32_t *out) {
    if (p->at < p->end && *p->at == '\\') {
        p->at++;
        return escaped_letter(p, out);
    }
    return take_letter(p, out);
}

static pl_status class_item(parser *p, regex_class *c) {
    bool found = false;
    PL_TRY(posix_class(p, c, &found));
    if (!found) PL_TRY(perl_class(p, c, &found));
    if (found) return PL_OK;
    uint32_t first = 0, last = 0;
    PL_TRY(class_letter(p, &first));
    last = first;
    if (next_is(p, "-") && p->end - p->at > 1 && p->at[1] != ']') {
        p->at++;
        PL_TRY(class_letter(p, &last));
    }
    if (last < first) return bad(p, "range out of order");
    return add_range(p, c, first, last);
}

/* After the opening bracket. */
static pl_status bracket(parser *p, regex_class *c) {
    c->negated = take(p, "^");
    bool first = true;
    while (first || !next_is(p, "]")) {
        if (p->at == p->end) return bad(p, "missing ]");
        PL_TRY(class_item(p, c));
        first = false;
    }
    p->at++;
    return PL_OK;
}

/* ---- atoms ---- */

static pl_status new_class(const parser *p, regex_class **out) {
    *out = pl_arena_alloc(p->arena, sizeof(**out));
    if (*out == NULL) return no_memory(p);
    (*out)->fold = p->fold;
    return PL_OK;
}

static pl_status class_node(const parser *p, const regex_class *c, regex_node **out) {
    PL_TRY(new_node(p, REGEX_LETTERS, NULL, NULL, out));
    (*out)->letters = c;
    return PL_OK;
}

static pl_status letter_node(const parser *p, uint32_t letter, regex_node **out) {
    regex_class *c = NULL;
    PL_TRY(new_class(p, &c));
    PL_TRY(add_range(p, c, letter, letter));
    return class_node(p, c, out);
}

static pl_status assert_node(const parser *p, regex_assertion kind, regex_node **out) {
    PL_TRY(new_node(p, REGEX_ASSERT, NULL, NULL, out));
    (*out)->assertion = kind;
    return PL_OK;
}

static pl_status escape(parser *p, regex_node **out) {
    bool found = false;
    regex_class *c = NULL;
    PL_TRY(new_class(p, &c));
    PL_TRY(perl_class(p, c, &found));
    if (found) return class_node(p, c, out);
    p->at++; /* skips the backslash */
    if (take(p, "A")) return assert_node(p, REGEX_TEXT_BEGIN, out);
    if (take(p, "z")) return assert_node(p, REGEX_TEXT_END, out);
    if (take(p, "b")) return assert_node(p, REGEX_WORD, out);
    if (take(p, "B")) return assert_node(p, REGEX_NOT_WORD, out);
    if (take(p, "Q")) {
        p->quoting = !take(p, "\\E");
        return new_node(p, REGEX_EMPTY, NULL, NULL, out);
    }
    uint32_t letter = 0;
    PL_TRY(escaped_letter(p, &letter));
    return letter_node(p, letter, out);
}

static pl_status dot(const parser *p, regex_node **out) {
    regex_class *c = NULL;
    PL_TRY(new_class(p, &c));
    c->negated = true; /* everything, or everything but newline */
    if (!p->dot_all) PL_TRY(add_range(p, c, '\n', '\n'));
    return class_node(p, c, out);
}

static pl_status alternation(parser *p, regex_node **out);

/* (?flags) and (?flags:...): *open tells which. */
static pl_status flags(parser *p, bool *open) {
    bool value = true;
    for (; p->at < p->end; p->at++) {
        switch (*p->at) {
        case 'i': p->fold = value; break;
        case 's': p->dot_all = value; break;
        case 'm': p->multi_line = value; break;
        case 'U': break; /* greediness does not matter for a full match */
        case '-':
            if (!value) return bad(p, "bad flags");
            value = false;
            break;
        case ':':
        case ')': *open = *p->at++ == ':'; return PL_OK;
        default: return bad(p, "bad flags");
        }
    }
    return bad(p, "missing )");
}

static pl_status group_name(parser *p) {
    const char *start = p->at;
    while (p->at < p->end && *p->at != '>' && *p->at != ')')
        p->at++;
    if (p->at == start || !take(p, ">")) return bad(p, "bad group name");
    return PL_OK;
}

/* After the opening parenthesis. Flags set inside a group end with it; (?i) reaches to the end of
 * the group around it. */
static pl_status group(parser *p, regex_node **out) {
    const parser outer = *p;
    bool open = true;
    if (take(p, "?P<") || (!next_is(p, "?<=") && !next_is(p, "?<!") && take(p, "?<"))) {
        PL_TRY(group_name(p));
    } else if (take(p, "?")) {
        PL_TRY(flags(p, &open));
    }
    if (!open) return new_node(p, REGEX_EMPTY, NULL, NULL, out);
    if (++p->depth > REGEX_DEPTH_MAX) return bad(p, "groups are nested too deeply");
    PL_TRY(alternation(p, out));
    if (!take(p, ")")) return bad(p, "missing )");
    p->depth = outer.depth;
    p->fold = outer.fold;
    p->dot_all = outer.dot_all;
    p->multi_line = outer.multi_line;
    return PL_OK;
}

static pl_status quoted_letter(parser *p, regex_node **out) {
    uint32_t letter = 0;
    PL_TRY(take_letter(p, &letter));
    if (take(p, "\\E")) p->quoting = false;
    return letter_node(p, letter, out);
}

static pl_status atom(parser *p, regex_node **out) {
    const char c = *p->at;
    if (p->quoting) return quoted_letter(p, out);
    if (c == '\\') return escape(p, out);
    if (c == '*' || c == '+' || c == '?') return bad(p, "nothing to repeat");
    if (take(p, "(")) return group(p, out);
    if (take(p, ".")) return dot(p, out);
    if (take(p, "^")) {
        return assert_node(p, p->multi_line ? REGEX_LINE_BEGIN : REGEX_TEXT_BEGIN, out);
    }
    if (take(p, "$")) {
        return assert_node(p, p->multi_line ? REGEX_LINE_END : REGEX_TEXT_END, out);
    }
    if (take(p, "[")) {
        regex_class *letters = NULL;
        PL_TRY(new_class(p, &letters));
        PL_TRY(bracket(p, letters));
        return class_node(p, letters, out);
    }
    uint32_t letter = 0;
    PL_TRY(take_letter(p, &letter));
    return letter_node(p, letter, out);
}

/* ---- repetition ---- */

static bool number(const char **at, const char *end, int *out) {
    const char *s = *at;
    int value = 0;
    while (s < end && *s >= '0' && *s <= '9') {
        if (value <= REGEX_REPEAT_MAX) value = value * 10 + (*s - '0');
        s++;
    }
    if (s == *at) return false;
    *at = s;
    *out = value;
    return true;
}

/* {n}, {n,}, {n,m}; anything else in braces is literal text, as in RE2. */
static bool braces(parser *p, int *min, int *max) {
    const char *s = p->at + 1;
    if (p->at == p->end || *p->at != '{' || !number(&s, p->end, min)) return false;
    *max = *min;
    if (s < p->end && *s == ',') {
        s++;
        if (!number(&s, p->end, max)) *max = -1;
    }
    if (s == p->end || *s != '}') return false;
    p->at = s + 1;
    return true;
}

static bool quantifier(parser *p, int *min, int *max) {
    *min = 0;
    *max = -1;
    if (take(p, "*")) return true;
    if (take(p, "+")) return *min = 1, true;
    if (take(p, "?")) return *max = 1, true;
    return braces(p, min, max);
}

static pl_status repeated(parser *p, regex_node **out) {
    PL_TRY(atom(p, out));
    int min = 0, max = 0;
    bool any = false;
    while (p->at < p->end && !p->quoting && quantifier(p, &min, &max)) {
        if (any) return bad(p, "a repetition of a repetition");
        any = true;
        (void)take(p, "?"); /* lazy: the same for a full match */
        if (min > REGEX_REPEAT_MAX || max > REGEX_REPEAT_MAX || (max >= 0 && max < min)) {
            return bad(p, "bad repetition count");
        }
        regex_node *node = NULL;
        const bool empty = max == 0 || (*out)->kind == REGEX_EMPTY;
        PL_TRY(new_node(p, empty ? REGEX_EMPTY : REGEX_REPEAT, *out, NULL, &node));
        node->min = min;
        node->max = max;
        *out = node;
    }
    return PL_OK;
}

static pl_status concatenation(parser *p, regex_node **out) {
    PL_TRY(new_node(p, REGEX_EMPTY, NULL, NULL, out));
    while (p->at < p->end && (p->quoting || (*p->at != '|' && *p->at != ')'))) {
        regex_node *next = NULL;
        PL_TRY(repeated(p, &next));
        PL_TRY(concat(p, *out, next, out));
    }
    return PL_OK;
}

static pl_status alternation(parser *p, regex_node **out) {
    PL_TRY(concatenation(p, out));
    while (take(p, "|")) {
        regex_node *right = NULL;
        PL_TRY(concatenation(p, &right));
        PL_TRY(new_node(p, REGEX_EITHER, *out, right, out));
    }
    return PL_OK;
}

pl_status regex_parse(pl_arena *arena, const char *pattern, size_t n, regex_node **out,
                      pl_err *err) {
    parser p = { .arena = arena, .start = pattern, .at = pattern, .end = pattern + n, .err = err };
    PL_TRY(alternation(&p, out));
    return p.at == p.end ? PL_OK : bad(&p, "unexpected )");
}
