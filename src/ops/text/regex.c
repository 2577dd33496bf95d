/* Compiles the tree to a small program and runs all threads of a match at once (Thompson 1968,
 * Pike): one step per letter, each state at most once. */
#include "ops/text/regex.h"

#include <string.h>

#include "base/array.h"
#include "ops/text/regex_int.h"

typedef enum opcode { OP_LETTERS, OP_SPLIT, OP_JUMP, OP_ASSERT, OP_MATCH } opcode;

typedef struct instruction {
    opcode op;
    regex_assertion assertion;
    const regex_class *letters;
    uint32_t next, other; /* SPLIT: both; JUMP, LETTERS, ASSERT: next */
} instruction;

struct pl_regex {
    instruction *code;
    uint32_t n;
    size_t capacity;
    uint32_t *now, *later, *stack; /* sets of states; the stack of the closure */
    uint32_t *seen;                /* step at which a state was added last */
    uint32_t step;
};

typedef struct compiler {
    pl_regex *regex;
    pl_arena *arena;
    pl_err *err;
} compiler;

static pl_status emit(compiler *c, instruction i) {
    pl_regex *r = c->regex;
    if (r->n == REGEX_PROGRAM_MAX) {
        return pl_fail(c->err, PL_E_LIMIT, "the pattern is too large: more than %d instructions",
                       REGEX_PROGRAM_MAX);
    }
    if (!PL_ARENA_ROOM(c->arena, r->code, r->n, &r->capacity))
        return pl_fail_memory(c->err, sizeof(*r->code));
    i.next = i.op == OP_SPLIT ? i.next : r->n + 1;
    r->code[r->n++] = i;
    return PL_OK;
}

static pl_status compile(compiler *c, const regex_node *node);

static pl_status compile_repeat(compiler *c, const regex_node *node) {
    pl_regex *r = c->regex;
    for (int i = 0; i < node->min; i++)
        PL_TRY(compile(c, node->left));
    if (node->max < 0) { /* split over the body and jump back */
        const uint32_t split = r->n;
        PL_TRY(emit(c, (instruction){ .op = OP_SPLIT }));
        PL_TRY(compile(c, node->left));
        PL_TRY(emit(c, (instruction){ .op = OP_JUMP }));
        r->code[r->n - 1].next = split;
        r->code[split].next = split + 1;
        r->code[split].other = r->n;
        return PL_OK;
    }
    /* Each optional copy may jump to the end; the jumps are linked in a list until the end is
     * known. */
    const int n = node->max - node->min;
    uint32_t last = UINT32_MAX;
    for (int i = 0; i < n; i++) {
        const uint32_t split = r->n;
        PL_TRY(emit(c, (instruction){ .op = OP_SPLIT, .other = last }));
        r->code[split].next = split + 1;
        last = split;
        PL_TRY(compile(c, node->left));
    }
    while (last != UINT32_MAX) {
        const uint32_t before = r->code[last].other;
        r->code[last].other = r->n;
        last = before;
    }
    return PL_OK;
}

static pl_status compile_either(compiler *c, const regex_node *node) {
    pl_regex *r = c->regex;
    const uint32_t split = r->n;
    PL_TRY(emit(c, (instruction){ .op = OP_SPLIT }));
    PL_TRY(compile(c, node->left));
    const uint32_t jump = r->n;
    PL_TRY(emit(c, (instruction){ .op = OP_JUMP }));
    r->code[split].next = split + 1;
    r->code[split].other = r->n;
    PL_TRY(compile(c, node->right));
    r->code[jump].next = r->n;
    return PL_OK;
}

/* Left-leaning chains (long patterns, many alternatives) are unrolled, so recursion is only as deep
 * as the groups. */
static pl_status compile_chain(compiler *c, const regex_node *node) {
    size_t n = 0;
    for (const regex_node *i = node; i->kind == REGEX_CONCAT; i = i->left)
        n++;
    const regex_node **parts = pl_arena_array(c->arena, n + 1, sizeof(*parts));
    if (parts == NULL) return pl_fail_memory(c->err, sizeof(*parts));
    for (size_t i = n; i > 0; i--, node = node->left)
        parts[i] = node->right;
    parts[0] = node;
    for (size_t i = 0; i <= n; i++)
        PL_TRY(compile(c, parts[i]));
    return PL_OK;
}

static pl_status compile_choice(compiler *c, const regex_node *node) {
    size_t n = 0;
    for (const regex_node *i = node; i->kind == REGEX_EITHER; i = i->left)
        n++;
    if (n == 1) return compile_either(c, node);
    /* Compiles a|b|c as a|(b|(c)): one split and one jump for each but the last. */
    const regex_node **parts = pl_arena_array(c->arena, n + 1, sizeof(*parts));
    uint32_t *jumps = pl_arena_array(c->arena, n, sizeof(*jumps));
    if (parts == NULL || jumps == NULL) return pl_fail_memory(c->err, sizeof(*parts));
    for (size_t i = n; i > 0; i--, node = node->left)
        parts[i] = node->right;
    parts[0] = node;
    pl_regex *r = c->regex;
    for (size_t i = 0; i < n; i++) {
        const uint32_t split = r->n;
        PL_TRY(emit(c, (instruction){ .op = OP_SPLIT }));
        PL_TRY(compile(c, parts[i]));
        jumps[i] = r->n;
        PL_TRY(emit(c, (instruction){ .op = OP_JUMP }));
        r->code[split].next = split + 1;
        r->code[split].other = r->n;
    }
    PL_TRY(compile(c, parts[n]));
    for (size_t i = 0; i < n; i++)
        r->code[jumps[i]].next = r->n;
    return PL_OK;
}

static pl_status compile(compiler *c, const regex_node *node) {
    switch (node->kind) {
    case REGEX_EMPTY: return PL_OK;
    case REGEX_LETTERS: return emit(c, (instruction){ .op = OP_LETTERS, .letters = node->letters });
    case REGEX_ASSERT:
        return emit(c, (instruction){ .op = OP_ASSERT, .assertion = node->assertion });
    case REGEX_CONCAT: return compile_chain(c, node);
    case REGEX_EITHER: return compile_choice(c, node);
    case REGEX_REPEAT: return compile_repeat(c, node);
    }
    return pl_fail(c->err, PL_E_INTERNAL, "unknown node in a pattern");
}

pl_status pl_regex_compile(pl_arena *arena, const char *pattern, size_t n, pl_regex **out,
                           pl_err *err) {
    regex_node *tree = NULL;
    PL_TRY(regex_parse(arena, n == 0 ? "" : pattern, n, &tree, err));
    pl_regex *r = pl_arena_alloc(arena, sizeof(*r));
    if (r == NULL) return pl_fail_memory(err, sizeof(*r));
    compiler c = { r, arena, err };
    PL_TRY(compile(&c, tree));
    PL_TRY(emit(&c, (instruction){ .op = OP_MATCH }));
    r->now = pl_arena_array(arena, r->n, sizeof(uint32_t));
    r->later = pl_arena_array(arena, r->n, sizeof(uint32_t));
    r->seen = pl_arena_array(arena, r->n, sizeof(uint32_t));
    r->stack = pl_arena_array(arena, (size_t)r->n * 2, sizeof(uint32_t));
    if (r->now == NULL || r->later == NULL || r->seen == NULL || r->stack == NULL) {
        return pl_fail_memory(err, r->n);
    }
    *out = r;
    return PL_OK;
}

/* ---- matching ---- */

static bool in_ranges(const regex_class *c, uint32_t letter) {
    for (size_t i = 0; i < c->n; i++) {
        if (letter >= c->ranges[i].first && letter <= c->ranges[i].last) return true;
    }
    return false;
}

static bool class_has(const regex_class *c, uint32_t letter) {
    if (letter == PL_LETTER_INVALID) return false;
    bool in = in_ranges(c, letter);
    if (!in && c->fold) {
        in = in_ranges(c, pl_letter_lower(letter)) || in_ranges(c, pl_letter_upper(letter));
    }
    return in != c->negated;
}

typedef struct place { /* letters around a position; INVALID also stands for the ends */
    uint32_t before, after;
    bool at_begin, at_end;
} place;

static bool is_word(uint32_t c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

static bool holds(regex_assertion assertion, const place *p) {
    const bool boundary = is_word(p->before) != is_word(p->after);
    switch (assertion) {
    case REGEX_TEXT_BEGIN: return p->at_begin;
    case REGEX_TEXT_END: return p->at_end;
    case REGEX_LINE_BEGIN: return p->at_begin || p->before == '\n';
    case REGEX_LINE_END: return p->at_end || p->after == '\n';
    case REGEX_WORD: return boundary;
    case REGEX_NOT_WORD: return !boundary;
    }
    return false;
}

/* Adds a state and all states reachable without a letter; returns whether a match is among them. */
static bool add(pl_regex *r, uint32_t state, const place *p, uint32_t *set, uint32_t *n) {
    bool matched = false;
    uint32_t top = 0;
    r->stack[top++] = state;
    while (top > 0) {
        const uint32_t s = r->stack[--top];
        if (r->seen[s] == r->step) continue;
        r->seen[s] = r->step;
        const instruction *i = &r->code[s];
        if (i->op == OP_LETTERS) set[(*n)++] = s;
        if (i->op == OP_MATCH) matched = true;
        if (i->op == OP_SPLIT) r->stack[top++] = i->other;
        if (i->op == OP_SPLIT || i->op == OP_JUMP ||
            (i->op == OP_ASSERT && holds(i->assertion, p))) {
            r->stack[top++] = i->next;
        }
    }
    return matched;
}

static void next_step(pl_regex *r) {
    if (++r->step != 0) return;
    memset(r->seen, 0, r->n * sizeof(*r->seen)); /* the step counter has wrapped */
    r->step = 1;
}

bool pl_regex_full_match(pl_regex *r, const char *s, size_t n) {
    uint32_t n_now = 0, letter = PL_LETTER_INVALID;
    size_t at = 0, length = pl_letter_decode(s, n, &letter);
    place p = { PL_LETTER_INVALID, letter, true, n == 0 };
    next_step(r);
    bool matched = add(r, 0, &p, r->now, &n_now);
    while (at < n) {
        const uint32_t current = letter;
        at += length;
        length = pl_letter_decode(s + at, n - at, &letter);
        if (at == n) letter = PL_LETTER_INVALID;
        p = (place){ current, letter, false, at == n };
        next_step(r);
        uint32_t n_later = 0;
        matched = false;
        for (uint32_t i = 0; i < n_now; i++) {
            const instruction *code = &r->code[r->now[i]];
            if (!class_has(code->letters, current)) continue;
            matched = add(r, code->next, &p, r->later, &n_later) || matched;
        }
        uint32_t *swap = r->now;
        r->now = r->later;
        r->later = swap;
        n_now = n_later;
        if (n_now == 0 && !matched) return false;
        if (n_now == 0 && at < n) return false;
    }
    return matched;
}
