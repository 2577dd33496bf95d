/* The pickle machine: a stack, a memo and one function per opcode (CPython's Lib/pickle.py). */
#include "tensor/file/pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "base/le.h"

typedef pl_pickle_value value;

typedef struct machine {
    const uint8_t *at, *end, *start;
    pl_arena *arena;
    value **stack;
    size_t n_stack, stack_capacity;
    size_t *marks; /* heights of the stack */
    size_t n_marks, marks_capacity;
    value **memo;
    size_t n_memo, memo_capacity; /* n_memo: the next index of MEMOIZE */
    bool stopped;
    pl_err *err;
} machine;

static pl_status fail(machine *m, const char *what) {
    return pl_fail(m->err, PL_E_FORMAT, "pickle: %s at byte %zu", what, (size_t)(m->at - m->start));
}

/* Room for one more; doubles. */
static pl_status grow(machine *m, void **array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) return PL_OK;
    const size_t more = *capacity == 0 ? 8 : 2 * *capacity;
    void *now = pl_arena_array(m->arena, more, size);
    if (now == NULL) return pl_fail_memory(m->err, more * size);
    if (n > 0) memcpy(now, *array, n * size);
    *array = now;
    *capacity = more;
    return PL_OK;
}

static pl_status push(machine *m, value *v) {
    PL_TRY(grow(m, (void **)&m->stack, m->n_stack, &m->stack_capacity, sizeof *m->stack));
    m->stack[m->n_stack++] = v;
    return PL_OK;
}

static pl_status make(machine *m, pl_pickle_kind kind, value **out) {
    value *v = pl_arena_alloc(m->arena, sizeof *v);
    if (v == NULL) return pl_fail_memory(m->err, sizeof *v);
    memset(v, 0, sizeof *v);
    v->kind = kind;
    *out = v;
    return push(m, v);
}

static pl_status add_item(machine *m, value *to, value *item) {
    PL_TRY(grow(m, (void **)&to->items, to->n_items, &to->capacity, sizeof *to->items));
    to->items[to->n_items++] = item;
    return PL_OK;
}

/* Lowest height that operations may pop to: above the last mark. */
static size_t floor_of(const machine *m) {
    return m->n_marks == 0 ? 0 : m->marks[m->n_marks - 1];
}

static value *pop(machine *m) {
    return m->n_stack > floor_of(m) ? m->stack[--m->n_stack] : NULL;
}

static bool take(machine *m, size_t n, const uint8_t **out) {
    if ((size_t)(m->end - m->at) < n) return false;
    *out = m->at;
    m->at += n;
    return true;
}

/* ---- numbers and text ---- */

static pl_status push_int(machine *m, pl_pickle_kind kind, int64_t integer) {
    value *v;
    PL_TRY(make(m, kind, &v));
    v->integer = integer;
    return PL_OK;
}

static pl_status read_long(machine *m, size_t n) {
    const uint8_t *p;
    if (!take(m, n, &p)) return fail(m, "truncated");
    if (n > 8)
        return pl_fail(m->err, PL_E_UNSUPPORTED,
                       "pickle: an integer of %zu bytes, expected at most 8", n);
    uint64_t bits = n > 0 && p[n - 1] >= 128 ? UINT64_MAX : 0;
    for (size_t i = n; i-- > 0;)
        bits = bits << 8 | p[i];
    return push_int(m, PL_PICKLE_INT, (int64_t)bits);
}

static pl_status read_float(machine *m) {
    const uint8_t *p;
    value *v;
    if (!take(m, 8, &p)) return fail(m, "truncated");
    uint64_t bits = 0; /* big-endian */
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    PL_TRY(make(m, PL_PICKLE_FLOAT, &v));
    memcpy(&v->number, &bits, sizeof bits);
    return PL_OK;
}

/* A length of `n_length` bytes, then as many bytes. */
static pl_status read_text(machine *m, size_t n_length) {
    const uint8_t *p;
    value *v;
    if (!take(m, n_length, &p)) return fail(m, "truncated");
    const uint64_t n = n_length == 1 ? p[0] : n_length == 4 ? pl_le32(p) : pl_le64(p);
    if (n > (uint64_t)(m->end - m->at) || !take(m, (size_t)n, &p)) return fail(m, "truncated text");
    PL_TRY(make(m, PL_PICKLE_TEXT, &v));
    v->text = (pl_bytes){ p, (size_t)n };
    return PL_OK;
}

static pl_status name_global(machine *m, value *v, pl_bytes module, pl_bytes name) {
    char *text = pl_arena_alloc(m->arena, module.n_bytes + name.n_bytes + 2);
    if (text == NULL) return pl_fail_memory(m->err, module.n_bytes + name.n_bytes);
    memcpy(text, module.data, module.n_bytes);
    text[module.n_bytes] = '.';
    memcpy(text + module.n_bytes + 1, name.data, name.n_bytes);
    v->text = (pl_bytes){ (const uint8_t *)text, module.n_bytes + 1 + name.n_bytes };
    return PL_OK;
}

static bool read_line(machine *m, pl_bytes *out) {
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (end == NULL) return false;
    *out = (pl_bytes){ m->at, (size_t)(end - m->at) };
    m->at = end + 1;
    return true;
}

static pl_status read_global(machine *m, bool from_stack) {
    pl_bytes module, name;
    value *v;
    if (from_stack) {
        const value *n = pop(m), *o = pop(m);
        if (n == NULL || o == NULL || n->kind != PL_PICKLE_TEXT || o->kind != PL_PICKLE_TEXT)
            return fail(m, "a global without a name");
        module = o->text;
        name = n->text;
    } else if (!read_line(m, &module) || !read_line(m, &name)) {
        return fail(m, "a global without a name");
    }
    PL_TRY(make(m, PL_PICKLE_GLOBAL, &v));
    return name_global(m, v, module, name);
}

/* ---- containers ---- */

static pl_status mark(machine *m) {
    PL_TRY(grow(m, (void **)&m->marks, m->n_marks, &m->marks_capacity, sizeof *m->marks));
    m->marks[m->n_marks++] = m->n_stack;
    return PL_OK;
}

/* Pops the values above the last mark; they stay readable until the next push. */
static pl_status unmark(machine *m, value ***items, size_t *n) {
    if (m->n_marks == 0) return fail(m, "a mark is missing");
    const size_t at = m->marks[--m->n_marks];
    *items = m->stack == NULL ? NULL : m->stack + at; /* NULL + 0 is undefined */
    *n = m->n_stack - at;
    m->n_stack = at;
    return PL_OK;
}

/* Makes one container of the last n values. */
static pl_status gather(machine *m, pl_pickle_kind kind, value **items, size_t n) {
    if (n > 0 && items == NULL) return fail(m, "the stack is empty");
    value *v = pl_arena_alloc(m->arena, sizeof *v);
    if (v == NULL) return pl_fail_memory(m->err, sizeof *v);
    memset(v, 0, sizeof *v);
    v->kind = kind;
    v->items = n == 0 ? NULL : pl_arena_array(m->arena, n, sizeof *v->items);
    if (n > 0 && v->items == NULL) return pl_fail_memory(m->err, n * sizeof *v->items);
    if (n > 0) memcpy(v->items, items, n * sizeof *v->items);
    v->n_items = v->capacity = n;
    return push(m, v);
}

static pl_status gather_marked(machine *m, pl_pickle_kind kind) {
    value **items = NULL;
    size_t n = 0;
    PL_TRY(unmark(m, &items, &n));
    if (kind == PL_PICKLE_DICT && n % 2 != 0) return fail(m, "a key without a value");
    return gather(m, kind, items, n);
}

static pl_status gather_last(machine *m, size_t n) {
    if (m->n_stack - floor_of(m) < n) return fail(m, "the stack is empty");
    m->n_stack -= n;
    return gather(m, PL_PICKLE_TUPLE, m->stack + m->n_stack, n);
}

/* Appends the items to the container below them. */
static pl_status extend(machine *m, value **items, size_t n, bool is_dict) {
    value *to = m->n_stack > floor_of(m) ? m->stack[m->n_stack - 1] : NULL;
    const pl_pickle_kind kind = is_dict ? PL_PICKLE_DICT : PL_PICKLE_LIST;
    if (to == NULL || (to->kind != kind && to->kind != PL_PICKLE_CALL) || (is_dict && n % 2 != 0))
        return fail(m, "items without a container");
    if (to->kind == PL_PICKLE_CALL && to->n_items > 0 && to->is_dict != is_dict)
        return fail(m, "items of different kinds");
    to->is_dict = is_dict;
    for (size_t i = 0; i < n; i++)
        PL_TRY(add_item(m, to, items[i]));
    return PL_OK;
}

static pl_status extend_marked(machine *m, bool is_dict) {
    value **items = NULL;
    size_t n = 0;
    PL_TRY(unmark(m, &items, &n));
    return extend(m, items, n, is_dict);
}

static pl_status extend_last(machine *m, size_t n, bool is_dict) {
    if (m->n_stack - floor_of(m) < n) return fail(m, "the stack is empty");
    m->n_stack -= n;
    return extend(m, m->stack + m->n_stack, n, is_dict);
}

/* ---- calls, memo ---- */

static pl_status call(machine *m) {
    const value *args = pop(m), *callable = pop(m);
    value *v;
    if (args == NULL || callable == NULL || callable->kind != PL_PICKLE_GLOBAL ||
        args->kind != PL_PICKLE_TUPLE)
        return fail(m, "a call of something that is not a function");
    PL_TRY(make(m, PL_PICKLE_CALL, &v));
    v->callable = callable;
    v->args = args;
    return PL_OK;
}

/* Attributes: of an object that is made by a call they are kept, of others (the versions of a
 * state_dict) dropped. */
static pl_status build(machine *m) {
    const value *state = pop(m);
    if (state == NULL || m->n_stack <= floor_of(m)) return fail(m, "the stack is empty");
    value *to = m->stack[m->n_stack - 1];
    if (to->kind == PL_PICKLE_CALL && to->state == NULL) to->state = state;
    return PL_OK;
}

static pl_status persistent(machine *m) {
    const value *args = pop(m);
    value *v;
    if (args == NULL) return fail(m, "the stack is empty");
    PL_TRY(make(m, PL_PICKLE_PERSISTENT, &v));
    v->args = args;
    return PL_OK;
}

/* In a valid stream indices are below its number of opcodes. */
static pl_status put_memo(machine *m, uint64_t index) {
    if (m->n_stack <= floor_of(m)) return fail(m, "the stack is empty");
    if (index > (uint64_t)(m->end - m->start)) return fail(m, "an index out of range");
    while (index >= m->memo_capacity) {
        const size_t before = m->memo_capacity;
        PL_TRY(grow(m, (void **)&m->memo, before, &m->memo_capacity, sizeof *m->memo));
        memset(m->memo + before, 0, (m->memo_capacity - before) * sizeof *m->memo);
    }
    m->memo[index] = m->stack[m->n_stack - 1];
    if (index >= m->n_memo) m->n_memo = (size_t)index + 1;
    return PL_OK;
}

static pl_status get_memo(machine *m, uint64_t index) {
    if (index >= m->n_memo || m->memo[index] == NULL) return fail(m, "an index that was not set");
    return push(m, m->memo[index]);
}

static pl_status memo(machine *m, size_t n_index, bool is_put) {
    const uint8_t *p;
    if (!take(m, n_index, &p)) return fail(m, "truncated");
    const uint64_t index = n_index == 1 ? p[0] : pl_le32(p);
    return is_put ? put_memo(m, index) : get_memo(m, index);
}

/* ---- opcodes ---- */

static pl_status read_small(machine *m, uint8_t op) {
    const uint8_t *p;
    const size_t n = op == 'J' || op == 0x8b ? 4 : op == 'M' ? 2 : 1;
    if (!take(m, n, &p)) return fail(m, "truncated");
    switch (op) {
    case 'J': /* BININT */ return push_int(m, PL_PICKLE_INT, (int32_t)pl_le32(p));
    case 'M': /* BININT2 */ return push_int(m, PL_PICKLE_INT, (int64_t)pl_le16(p));
    case 0x8a: /* LONG1 */ return read_long(m, p[0]);
    case 0x8b: /* LONG4 */ return read_long(m, pl_le32(p));
    default: /* BININT1 */ return push_int(m, PL_PICKLE_INT, p[0]);
    }
}

static pl_status skip(machine *m, size_t n) {
    const uint8_t *p;
    return take(m, n, &p) ? PL_OK : fail(m, "truncated");
}

static pl_status drop(machine *m) {
    return pop(m) != NULL ? PL_OK : fail(m, "the stack is empty");
}

static pl_status make_empty(machine *m, pl_pickle_kind kind) {
    value *v;
    return make(m, kind, &v);
}

static pl_status step(machine *m) {
    const uint8_t op = *m->at++;
    switch (op) {
    case 0x80: /* PROTO */ return skip(m, 1);
    case 0x95: /* FRAME */ return skip(m, 8);
    case '.': m->stopped = true; return PL_OK;
    case 'N': return make_empty(m, PL_PICKLE_NONE);
    case 0x88: return push_int(m, PL_PICKLE_BOOL, 1);
    case 0x89: return push_int(m, PL_PICKLE_BOOL, 0);
    case 'J':
    case 'K':
    case 'M':
    case 0x8a:
    case 0x8b: return read_small(m, op);
    case 'G': return read_float(m);
    case 'U':                          /* SHORT_BINSTRING */
    case 0x8c:                         /* SHORT_BINUNICODE */
    case 'C': return read_text(m, 1);  /* SHORT_BINBYTES */
    case 'T':                          /* BINSTRING */
    case 'X':                          /* BINUNICODE */
    case 'B': return read_text(m, 4);  /* BINBYTES */
    case 0x8d:                         /* BINUNICODE8 */
    case 0x8e:                         /* BINBYTES8 */
    case 0x96: return read_text(m, 8); /* BYTEARRAY8 */
    case '(': return mark(m);
    case ')': return make_empty(m, PL_PICKLE_TUPLE);
    case ']':
    case 0x8f: /* EMPTY_SET */ return make_empty(m, PL_PICKLE_LIST);
    case '}': return make_empty(m, PL_PICKLE_DICT);
    case 't': return gather_marked(m, PL_PICKLE_TUPLE);
    case 'l':
    case 0x91: /* FROZENSET */ return gather_marked(m, PL_PICKLE_LIST);
    case 'd': return gather_marked(m, PL_PICKLE_DICT);
    case 0x85:
    case 0x86:
    case 0x87: /* TUPLE1 to TUPLE3 */ return gather_last(m, (size_t)op - 0x84);
    case 'a': return extend_last(m, 1, false);
    case 'e':
    case 0x90: /* ADDITEMS */ return extend_marked(m, false);
    case 's': return extend_last(m, 2, true);
    case 'u': return extend_marked(m, true);
    case 'c': return read_global(m, false);
    case 0x93: /* STACK_GLOBAL */ return read_global(m, true);
    case 'R':
    case 0x81: /* NEWOBJ */ return call(m);
    case 'b': /* BUILD */ return build(m);
    case '0': return drop(m);
    case 'Q': return persistent(m);
    case 'q': return memo(m, 1, true);
    case 'r': return memo(m, 4, true);
    case 0x94: /* MEMOIZE */ return put_memo(m, m->n_memo);
    case 'h': return memo(m, 1, false);
    case 'j': return memo(m, 4, false);
    default:
        return pl_fail(m->err, PL_E_UNSUPPORTED, "pickle: unknown opcode 0x%02x at byte %zu", op,
                       (size_t)(m->at - m->start) - 1);
    }
}

pl_status pl_pickle_read(pl_bytes stream, pl_arena *arena, const pl_pickle_value **out,
                         pl_err *err) {
    if (stream.n_bytes > PL_PICKLE_BYTES_MAX)
        return pl_fail(err, PL_E_LIMIT, "pickle: %zu bytes, expected at most %d", stream.n_bytes,
                       PL_PICKLE_BYTES_MAX);
    machine m = { .at = stream.data,
                  .end = stream.data + stream.n_bytes,
                  .start = stream.data,
                  .arena = arena,
                  .err = err };
    if (stream.n_bytes == 0) return fail(&m, "empty");
    while (!m.stopped) {
        if (m.at == m.end) return fail(&m, "ends without a STOP");
        PL_TRY(step(&m));
    }
    const value *top = pop(&m);
    if (top == NULL || m.n_marks > 0 || m.n_stack > 0)
        return fail(&m, "expected exactly one value");
    *out = top;
    return PL_OK;
}
