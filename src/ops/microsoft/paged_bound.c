/* The bound of PagedAttention, from a program of its parts, and what it leaves undefined: rows of
 * the query behind the last sequence. */
#include <inttypes.h>

#include "ops/lib/bound_nn.h"
#include "ops/microsoft/ms_attention.h"
#include "ops/microsoft/ms_attention_rules.h"
#include "ops/microsoft/paged.h"
#include "ops/undefined.h"

typedef struct spelling {
    pl_bound *c;
    pl_buf text;
    pl_paged p;
    int64_t heads, kv_heads, size, window;
    bool packed, norm, rotary;
} spelling;

static const int64_t *integers(pl_bound *c, int i) {
    const pl_tensor *t = pl_b_in(c, i);
    int64_t *x =
        t == NULL ? NULL : pl_arena_array(c->scratch, (size_t)t->n_elements + 1, sizeof(*x));
    for (int64_t k = 0; x != NULL && k < t->n_elements; k++)
        x[k] = pl_tensor_get_i64(t, k);
    return x;
}

static pl_status spelling_init(pl_bound *c, spelling *s) {
    const pl_tensor *q = pl_b_in(c, PL_PAGED_QUERY), *cache = pl_b_in(c, PL_PAGED_KEY_CACHE);
    *s = (spelling){ .c = c,
                     .text = PL_BUF_INIT,
                     .heads = pl_attr_int(c->node, "num_heads"),
                     .kv_heads = pl_attr_int(c->node, "kv_num_heads"),
                     .size = cache->dims[3],
                     .window = pl_attr_int(c->node, "local_window_size"),
                     .packed = pl_b_in(c, PL_PAGED_KEY) == NULL,
                     .norm = pl_b_in(c, PL_PAGED_Q_NORM) != NULL,
                     .rotary = pl_attr_int(c->node, "do_rotary") != 0 };
    s->p = (pl_paged){ .batch = pl_b_in(c, PL_PAGED_PAST)->n_elements,
                       .tokens = q->dims[0],
                       .n_blocks = cache->dims[0],
                       .block = cache->dims[1],
                       .columns = pl_b_in(c, PL_PAGED_TABLE)->dims[1],
                       .starts = integers(c, PL_PAGED_STARTS),
                       .past = integers(c, PL_PAGED_PAST),
                       .table = integers(c, PL_PAGED_TABLE),
                       .slots = integers(c, PL_PAGED_SLOTS) };
    const bool slots = s->p.slots != NULL || pl_b_in(c, PL_PAGED_SLOTS) == NULL;
    return s->p.starts != NULL && s->p.past != NULL && s->p.table != NULL && slots
               ? PL_OK
               : pl_fail_memory(c->err, 1);
}

/* "NAME = Constant<value_ints=[a, b]>()". */
static void list_begin(spelling *s, const char *name, int64_t i) {
    pl_buf_printf(&s->text, "%s%" PRId64 " = Constant<value_ints=[", name, i);
}
static void list_add(spelling *s, bool first, int64_t x) {
    pl_buf_printf(&s->text, first ? "%" PRId64 : ", %" PRId64, x);
}
static void list_end(spelling *s) {
    pl_buf_puts(&s->text, "]>() ");
}

/* Heads of q or k: normalised, rotated, as [tokens, heads * size]. */
static void spell_rows(spelling *s, char name, int64_t heads, int weight) {
    pl_buf *b = &s->text;
    char from = '0';
    if (s->norm) {
        pl_buf_printf(b,
                      "s%c = Constant<value_ints=[-1, %" PRId64 ", %" PRId64 "]>() "
                      "t%c = Constant<value_ints=[-1, %" PRId64 "]>() h%c = Reshape(%c0, s%c) "
                      "n%c = SimplifiedLayerNormalization<axis=-1, epsilon=%.9e>(h%c, i%d) "
                      "%c1 = Reshape(n%c, t%c) ",
                      name, heads, s->size, name, heads * s->size, name, name, name, name,
                      pl_attr_float(s->c->node, "qk_norm_epsilon"), name, weight, name, name, name);
        from = '1';
    }
    if (!s->rotary) {
        pl_buf_printf(b, "%c = Identity(%c%c) ", name, name, from);
        return;
    }
    pl_buf_printf(
        b,
        "u%c = Unsqueeze(%c%c, zero) r%c = com.microsoft.RotaryEmbedding<num_heads=%" PRId64
        ", rotary_embedding_dim=%" PRId64 ", interleaved=%d>(u%c, at, i8, i9) "
        "%c = Squeeze(r%c, zero) ",
        name, name, from, name, heads, 2 * pl_b_in(s->c, PL_PAGED_COS)->dims[1],
        pl_attr_int(s->c->node, "rotary_interleaved") != 0, name, name, name);
}

static void spell_new(spelling *s) {
    pl_buf *b = &s->text;
    const int64_t q = s->heads * s->size, k = s->kv_heads * s->size;
    if (s->packed) {
        pl_buf_printf(b,
                      "parts = Constant<value_ints=[%" PRId64 ", %" PRId64 ", %" PRId64 "]>() "
                      "q0, k0, v = Split<axis=1>(i0, parts) ",
                      q, k, k);
    } else {
        pl_buf_puts(b, "q0 = Identity(i0) k0 = Identity(i1) v = Identity(i2) ");
    }
    if (s->rotary) {
        list_begin(s, "positions", 0);
        int64_t t = 0;
        for (int64_t i = 0; i < s->p.batch; i++)
            for (; t < s->p.starts[i + 1]; t++)
                list_add(s, t == 0, s->p.past[i] + t - s->p.starts[i]);
        for (; t < s->p.tokens; t++)
            list_add(s, t == 0, 0);
        list_end(s);
        pl_buf_puts(b, "at = Unsqueeze(positions0, zero) ");
    }
    spell_rows(s, 'q', s->heads, PL_PAGED_Q_NORM);
    spell_rows(s, 'k', s->kv_heads, PL_PAGED_K_NORM);
}

/* The caches, as rows of one position, with the new rows in them. */
static void spell_caches(spelling *s) {
    const pl_paged *p = &s->p;
    bool any = false;
    for (int pass = 0; pass < 2; pass++) {
        bool first = true;
        list_begin(s, pass == 0 ? "kept" : "slots", 0);
        for (int64_t b = 0; b < p->batch; b++) {
            for (int64_t t = p->starts[b]; t < p->starts[b + 1]; t++) {
                const int64_t slot = pl_paged_slot(p, b, t, t - p->starts[b]);
                if (slot < 0) continue;
                list_add(s, first, pass == 0 ? t : slot);
                first = false;
                any = true;
            }
        }
        list_end(s);
    }
    pl_buf_printf(&s->text,
                  "row = Constant<value_ints=[-1, %" PRId64
                  "]>() one = Constant<value_ints=[1]>() ",
                  s->kv_heads * s->size);
    if (any) pl_buf_puts(&s->text, "to = Unsqueeze(slots0, one) ");
    for (int i = 0; i < 2; i++) {
        const char x = i == 0 ? 'k' : 'v';
        pl_buf_printf(&s->text, "c%c = Reshape(i%d, row) ", x, PL_PAGED_KEY_CACHE + i);
        pl_buf_printf(&s->text,
                      any ? "g%c = Gather<axis=0>(%c, kept0) d%c = ScatterND(c%c, to, g%c) "
                          : "d%c = Identity(c%c) ",
                      x, x, x, x, x);
        pl_buf_printf(&s->text, "e%c = Shape(i%d) o%d = Reshape(d%c, e%c) ", x,
                      PL_PAGED_KEY_CACHE + i, 1 + i, x, x);
    }
}

/* The part of a cache of sequence b from one position to another: [1, n, kv heads * size]. */
static void spell_part(spelling *s, const char *name, char cache, int64_t b, int64_t from,
                       int64_t to) {
    pl_buf_putc(&s->text, cache);
    list_begin(s, name, b);
    for (int64_t at = from; at < to; at++) {
        const int64_t row = pl_paged_row(&s->p, b, at);
        list_add(s, at == from, row < 0 ? 0 : row);
    }
    list_end(s);
    pl_buf_printf(&s->text,
                  "%c%srows%" PRId64 " = Gather<axis=0>(d%c, %c%s%" PRId64 ") "
                  "%c%sof%" PRId64 " = Unsqueeze(%c%srows%" PRId64 ", zero) ",
                  cache, name, b, cache, cache, name, b, cache, name, b, cache, name, b);
}

/* Sequence b as GroupQueryAttention over what its blocks hold. */
static void spell_sequence(spelling *s, int64_t b) {
    const pl_paged *p = &s->p;
    pl_buf *t = &s->text;
    const int64_t n = p->starts[b + 1] - p->starts[b];
    const int64_t first = pl_paged_first(p, b, s->window), past = p->past[b] - first;
    list_begin(s, "rows", b);
    for (int64_t i = p->starts[b]; i < p->starts[b + 1]; i++)
        list_add(s, i == p->starts[b], i);
    list_end(s);
    pl_buf_printf(t,
                  "qrows%" PRId64 " = Gather<axis=0>(q, rows%" PRId64 ") q%" PRId64
                  "of = Unsqueeze(qrows%" PRId64 ", zero) ",
                  b, b, b, b);
    for (int i = 0; i < 2; i++) {
        const char x = i == 0 ? 'k' : 'v';
        spell_part(s, "new", x, b, p->past[b], p->past[b] + n);
        if (past == 0) continue;
        spell_part(s, "old", x, b, first, p->past[b]);
        pl_buf_printf(t,
                      "%cheads%" PRId64 " = Constant<value_ints=[1, %" PRId64 ", %" PRId64
                      ", %" PRId64 "]>() %cr%" PRId64 " = Reshape(%coldof%" PRId64
                      ", %cheads%" PRId64 ") %cpast%" PRId64
                      " = Transpose<perm=[0, 2, 1, 3]>(%cr%" PRId64 ") ",
                      x, b, past, s->kv_heads, s->size, x, b, x, b, x, b, x, b, x, b);
    }
    pl_buf_printf(t,
                  "last%" PRId64 " = Constant<value_ints=[%" PRId64 "]>() l%" PRId64
                  " = Cast<to=6>(last%" PRId64 ") total%" PRId64 " = Constant<value_int=%" PRId64
                  ">() n%" PRId64 " = Cast<to=6>(total%" PRId64 ") ",
                  b, past + n - 1, b, b, b, past + n, b, b);
    const pl_node *node = s->c->node;
    pl_buf_printf(t,
                  "y%" PRId64 ", yk%" PRId64 ", yv%" PRId64
                  " = com.microsoft.GroupQueryAttention<num_heads=%" PRId64
                  ", kv_num_heads=%" PRId64 ", scale=%.9e, softcap=%.9e, local_window_size=%" PRId64
                  ", smooth_softmax=%d>"
                  "(q%" PRId64 "of, knewof%" PRId64 ", vnewof%" PRId64 ", ",
                  b, b, b, s->heads, s->kv_heads, pl_attr_float(node, "scale"),
                  pl_attr_float(node, "softcap"), s->window > 0 ? s->window : -1,
                  pl_attr_int(node, "smooth_softmax") == 1 ? 1 : -1, b, b, b);
    if (past > 0) {
        pl_buf_printf(t, "kpast%" PRId64 ", vpast%" PRId64, b, b);
    } else {
        pl_buf_puts(t, "\"\", \"\"");
    }
    pl_buf_printf(t, ", l%" PRId64 ", n%" PRId64 "%s) z%" PRId64 " = Squeeze(y%" PRId64 ", zero) ",
                  b, b, pl_b_in(s->c, PL_PAGED_SINK) != NULL ? ", \"\", \"\", \"\", \"\", i11" : "",
                  b, b);
}

/* The rows of all sequences; zeros behind the last, which are undefined. */
static void spell_output(spelling *s) {
    const pl_paged *p = &s->p;
    const int64_t end = p->batch == 0 ? 0 : p->starts[p->batch];
    for (int64_t b = 0; b < p->batch; b++)
        if (p->starts[b + 1] > p->starts[b]) spell_sequence(s, b);
    if (end < p->tokens) {
        list_begin(s, "behind", 0);
        for (int64_t i = end; i < p->tokens; i++)
            list_add(s, i == end, i);
        list_end(s);
        pl_buf_puts(&s->text, "z = Gather<axis=0>(q, behind0) ");
    }
    pl_buf_puts(&s->text, "o0 = Concat<axis=0>(");
    bool first = true;
    for (int64_t b = 0; b < p->batch; b++) {
        if (p->starts[b + 1] == p->starts[b]) continue;
        pl_buf_printf(&s->text, first ? "z%" PRId64 : ", z%" PRId64, b);
        first = false;
    }
    if (end < p->tokens) pl_buf_puts(&s->text, first ? "z" : ", z");
    pl_buf_puts(&s->text, ") }");
}

pl_status pl_ms_paged_bound(pl_bound *c) {
    spelling s;
    const pl_tensor *q = pl_b_in(c, PL_PAGED_QUERY);
    if (q->n_elements == 0) return PL_OK;
    /* the program is causal */
    if (pl_attr_int(c->node, "is_causal") == 0) return pl_b_unknown(c);
    PL_TRY(spelling_init(c, &s));
    static const int used[] = { PL_PAGED_QUERY,     PL_PAGED_KEY,         PL_PAGED_VALUE,
                                PL_PAGED_KEY_CACHE, PL_PAGED_VALUE_CACHE, PL_PAGED_COS,
                                PL_PAGED_SIN,       PL_PAGED_SINK,        PL_PAGED_Q_NORM,
                                PL_PAGED_K_NORM };
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++)
        if (pl_b_in(c, used[i]) != NULL) pl_buf_printf(&s.text, i == 0 ? "(i%d" : ", i%d", used[i]);
    pl_buf_puts(&s.text, ") => (o0, o1, o2) <int64[1] zero = {0}> { ");
    spell_new(&s);
    spell_caches(&s);
    spell_output(&s);
    const pl_status st =
        pl_buf_ok(&s.text) ? pl_b_expand(c, pl_buf_str(&s.text)) : pl_fail_memory(c->err, 1);
    pl_buf_release(&s.text);
    return st;
}

/* ---- undefined elements ---- */

static int64_t behind(const pl_undefined *c) {
    const pl_tensor *starts = c->in[PL_PAGED_STARTS];
    if (starts == NULL || starts->n_elements < 1) return -1;
    return pl_tensor_get_i64(starts, starts->n_elements - 1);
}

static bool may(const pl_undefined *c) {
    const pl_type *q = c->node->in[PL_PAGED_QUERY]->type;
    const int64_t end = behind(c);
    const bool known = q != NULL && q->kind == PL_TYPE_TENSOR && q->has_rank && q->rank == 2;
    return end < 0 || !known || !pl_dim_known(q->dims[0]) || end < q->dims[0].value;
}

static pl_status mark(pl_undefined *c) {
    const pl_tensor *y = c->out[0];
    const int64_t end = behind(c);
    if (end < 0 || y == NULL || y->rank != 2 || end >= y->dims[0]) return PL_OK;
    return pl_ranges_add(&c->of[0], end * y->dims[1], y->n_elements, c->err);
}

const pl_undefined_rule pl_ms_paged_undefined = { .may = may, .mark = mark };
