/* A model as a tree of protobuf fields, and edits of it that know what a field means: a stranger's
 * model is a model nearly everywhere. Whole files only, bytes in and bytes out; for fuzz targets.
 *
 * The tree and the bytes it makes live in static memory and are good until the next pl_tree_start.
 */
#ifndef PL_ONNX_TREE_H
#define PL_ONNX_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef enum tree_kind {
    /* messages */
    T_MODEL,
    T_GRAPH,
    T_NODE,
    T_ATTR,
    T_TENSOR,
    T_SPARSE,
    T_INFO,
    T_TYPE,
    T_TENSOR_TYPE,
    T_SHAPE,
    T_DIM,
    T_LIST, /* a sequence's or an optional's type */
    T_OPSET,
    T_FUNCTION,
    T_ENTRY,
    T_MESSAGES, /* so many */
    /* what stands in them */
    T_NAME, /* of a value: an edge of the graph */
    T_TEXT,
    T_OP,
    T_NUMBER,
    T_SIZE,  /* of a dim */
    T_DTYPE, /* number of an element type */
    T_FLOAT,
    T_BYTES,
    T_OTHER
} tree_kind;

typedef struct item {
    tree_kind kind;
    unsigned field, wire;
    uint64_t number;
    const uint8_t *bytes;
    size_t n_bytes, n_written;
    struct item *parent, *child, *next;
} item;

enum { TREE_ITEMS = 60000, TREE_SCRATCH = 1 << 20, TREE_DEPTH = 40 };

typedef struct tree {
    item items[TREE_ITEMS];
    size_t n_items;
    uint8_t scratch[TREE_SCRATCH];
    size_t n_scratch;
    uint64_t random;
} tree;

static const struct tree_field {
    tree_kind in;
    unsigned field;
    tree_kind is;
} TREE_FIELDS[] = {
    { T_MODEL, 1, T_NUMBER },      { T_MODEL, 7, T_GRAPH },      { T_MODEL, 8, T_OPSET },
    { T_MODEL, 14, T_ENTRY },      { T_MODEL, 25, T_FUNCTION },  { T_GRAPH, 1, T_NODE },
    { T_GRAPH, 2, T_TEXT },        { T_GRAPH, 5, T_TENSOR },     { T_GRAPH, 11, T_INFO },
    { T_GRAPH, 12, T_INFO },       { T_GRAPH, 13, T_INFO },      { T_GRAPH, 15, T_SPARSE },
    { T_GRAPH, 16, T_ENTRY },      { T_NODE, 1, T_NAME },        { T_NODE, 2, T_NAME },
    { T_NODE, 3, T_TEXT },         { T_NODE, 4, T_OP },          { T_NODE, 5, T_ATTR },
    { T_NODE, 7, T_TEXT },         { T_NODE, 9, T_ENTRY },       { T_ATTR, 1, T_TEXT },
    { T_ATTR, 2, T_FLOAT },        { T_ATTR, 3, T_NUMBER },      { T_ATTR, 4, T_TEXT },
    { T_ATTR, 5, T_TENSOR },       { T_ATTR, 6, T_GRAPH },       { T_ATTR, 7, T_FLOAT },
    { T_ATTR, 8, T_NUMBER },       { T_ATTR, 9, T_TEXT },        { T_ATTR, 10, T_TENSOR },
    { T_ATTR, 11, T_GRAPH },       { T_ATTR, 14, T_TYPE },       { T_ATTR, 20, T_NUMBER },
    { T_ATTR, 21, T_TEXT },        { T_ATTR, 22, T_SPARSE },     { T_TENSOR, 1, T_SIZE },
    { T_TENSOR, 2, T_DTYPE },      { T_TENSOR, 4, T_BYTES },     { T_TENSOR, 5, T_BYTES },
    { T_TENSOR, 6, T_TEXT },       { T_TENSOR, 7, T_BYTES },     { T_TENSOR, 8, T_NAME },
    { T_TENSOR, 9, T_BYTES },      { T_TENSOR, 10, T_BYTES },    { T_TENSOR, 11, T_BYTES },
    { T_TENSOR, 13, T_ENTRY },     { T_TENSOR, 14, T_NUMBER },   { T_SPARSE, 1, T_TENSOR },
    { T_SPARSE, 2, T_TENSOR },     { T_SPARSE, 3, T_SIZE },      { T_INFO, 1, T_NAME },
    { T_INFO, 2, T_TYPE },         { T_TYPE, 1, T_TENSOR_TYPE }, { T_TYPE, 4, T_LIST },
    { T_TYPE, 9, T_LIST },         { T_TYPE, 8, T_TENSOR_TYPE }, { T_TENSOR_TYPE, 1, T_DTYPE },
    { T_TENSOR_TYPE, 2, T_SHAPE }, { T_SHAPE, 1, T_DIM },        { T_DIM, 1, T_SIZE },
    { T_DIM, 2, T_TEXT },          { T_LIST, 1, T_TYPE },        { T_OPSET, 1, T_TEXT },
    { T_OPSET, 2, T_NUMBER },      { T_FUNCTION, 1, T_OP },      { T_FUNCTION, 4, T_NAME },
    { T_FUNCTION, 5, T_NAME },     { T_FUNCTION, 6, T_TEXT },    { T_FUNCTION, 7, T_NODE },
    { T_FUNCTION, 9, T_OPSET },    { T_FUNCTION, 10, T_TEXT },   { T_FUNCTION, 11, T_ATTR },
    { T_ENTRY, 1, T_TEXT },        { T_ENTRY, 2, T_TEXT },
};

static tree_kind tree_kind_of(tree_kind in, unsigned field) {
    for (size_t i = 0; i < sizeof(TREE_FIELDS) / sizeof(TREE_FIELDS[0]); i++)
        if (TREE_FIELDS[i].in == in && TREE_FIELDS[i].field == field) return TREE_FIELDS[i].is;
    return T_OTHER;
}

static uint64_t tree_random(tree *t) { /* splitmix64 */
    uint64_t z = (t->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t tree_below(tree *t, size_t n) {
    return n == 0 ? 0 : (size_t)(tree_random(t) % n);
}

/* ---- bytes to tree ---- */

static item *tree_new(tree *t, tree_kind kind, unsigned field, unsigned wire) {
    if (t->n_items == TREE_ITEMS) return NULL;
    item *x = &t->items[t->n_items++];
    *x = (item){ .kind = kind, .field = field, .wire = wire };
    return x;
}

/* Bytes that live with the tree; NULL when there is no room. */
static uint8_t *tree_room(tree *t, size_t n) {
    if (n > TREE_SCRATCH - t->n_scratch) return NULL;
    uint8_t *at = t->scratch + t->n_scratch;
    t->n_scratch += n;
    return at;
}

static size_t tree_varint(const uint8_t *p, size_t n, uint64_t *out) {
    uint64_t v = 0;
    for (size_t i = 0; i < n && i < 10; i++) {
        v |= (uint64_t)(p[i] & 127) << (7 * i);
        if (p[i] < 128) {
            *out = v;
            return i + 1;
        }
    }
    return 0;
}

/* Fields until the first that is none; false when there is no room. */
static bool tree_parse(tree *t, item *into, const uint8_t *p, size_t n, int depth) {
    item **tail = &into->child;
    while (n > 0) {
        uint64_t key = 0, len = 0;
        size_t used = tree_varint(p, n, &key);
        if (used == 0) return true;
        p += used;
        n -= used;
        const unsigned wire = (unsigned)(key & 7), field = (unsigned)(key >> 3);
        if (wire != 0 && wire != 1 && wire != 2 && wire != 5) return true;
        item *x = tree_new(t, tree_kind_of(into->kind, field), field, wire);
        if (x == NULL) return false;
        if (wire == 0) used = tree_varint(p, n, &x->number);
        if (wire == 2) used = tree_varint(p, n, &len);
        if (wire == 1 || wire == 5) used = 0, len = wire == 1 ? 8 : 4;
        if ((wire == 0 || wire == 2) && used == 0) return true;
        if (len > n - used) return true;
        x->bytes = p + used;
        x->n_bytes = (size_t)len;
        p += used + (size_t)len;
        n -= used + (size_t)len;
        x->parent = into;
        *tail = x;
        tail = &x->next;
        if (wire == 2 && x->kind < T_MESSAGES && depth < TREE_DEPTH &&
            !tree_parse(t, x, x->bytes, x->n_bytes, depth + 1))
            return false;
    }
    return true;
}

/* ---- tree to bytes ---- */

static size_t tree_put_varint(uint64_t v, uint8_t *out) {
    size_t n = 0;
    for (; v > 127; v >>= 7, n++)
        if (out != NULL) out[n] = (uint8_t)(v | 128);
    if (out != NULL) out[n] = (uint8_t)v;
    return n + 1;
}

static bool tree_is_message(const item *x) {
    return x->wire == 2 && x->kind < T_MESSAGES;
}

static size_t tree_measure(item *x) {
    size_t n = 0;
    for (item *c = x->child; c != NULL; c = c->next) {
        n += tree_put_varint((uint64_t)c->field << 3 | c->wire, NULL);
        if (tree_is_message(c)) c->n_written = tree_measure(c);
        const size_t inner = tree_is_message(c) ? c->n_written : c->n_bytes;
        if (c->wire == 0) n += tree_put_varint(c->number, NULL);
        if (c->wire == 2) n += tree_put_varint(inner, NULL);
        if (c->wire != 0) n += inner;
    }
    return n;
}

static uint8_t *tree_write(const item *x, uint8_t *out) {
    for (const item *c = x->child; c != NULL; c = c->next) {
        out += tree_put_varint((uint64_t)c->field << 3 | c->wire, out);
        if (c->wire == 0) out += tree_put_varint(c->number, out);
        if (c->wire == 2)
            out += tree_put_varint(tree_is_message(c) ? c->n_written : c->n_bytes, out);
        if (tree_is_message(c)) {
            out = tree_write(c, out);
        } else if (c->wire != 0) {
            memcpy(out, c->bytes, c->n_bytes);
            out += c->n_bytes;
        }
    }
    return out;
}

/* ---- moving about ---- */

/* One of the kinds (bits) below `x`, each with the same chance; NULL when there is none. */
static void tree_look(tree *t, item *x, uint64_t kinds, size_t *n_seen, item **out) {
    for (item *c = x->child; c != NULL; c = c->next) {
        if ((kinds >> c->kind & 1) != 0 && tree_below(t, ++*n_seen) == 0) *out = c;
        tree_look(t, c, kinds, n_seen, out);
    }
}

static item *tree_pick(tree *t, item *from, uint64_t kinds) {
    item *found = NULL;
    size_t n = 0;
    tree_look(t, from, kinds, &n, &found);
    return found;
}
#define KIND(k) (UINT64_C(1) << (k))
#define ANY_KIND (~UINT64_C(0))

static item *tree_child(const item *x, unsigned field) {
    for (item *c = x->child; c != NULL; c = c->next)
        if (c->field == field) return c;
    return NULL;
}

static item *tree_copy(tree *t, const item *x) {
    item *copy = tree_new(t, x->kind, x->field, x->wire);
    if (copy == NULL) return NULL;
    *copy = *x;
    copy->child = copy->next = copy->parent = NULL;
    item **tail = &copy->child;
    for (const item *c = x->child; c != NULL; c = c->next) {
        item *d = tree_copy(t, c);
        if (d == NULL) break;
        d->parent = copy;
        *tail = d;
        tail = &d->next;
    }
    return copy;
}

static void tree_append(item *to, item *x) {
    if (x == NULL) return;
    item **tail = &to->child;
    while (*tail != NULL)
        tail = &(*tail)->next;
    x->parent = to;
    x->next = NULL;
    *tail = x;
}

static void tree_unlink(item *x) {
    item **at = &x->parent->child;
    while (*at != NULL && *at != x)
        at = &(*at)->next;
    if (*at == x) *at = x->next;
}

/* ---- making fields ---- */

static void tree_set_text(tree *t, item *x, const void *bytes, size_t n) {
    uint8_t *copy = tree_room(t, n + 1);
    if (x == NULL || copy == NULL) return;
    memcpy(copy, bytes, n);
    x->bytes = copy;
    x->n_bytes = n;
}

static item *tree_add_text(tree *t, item *to, unsigned field, const char *text) {
    item *x = tree_new(t, tree_kind_of(to->kind, field), field, 2);
    if (x == NULL) return NULL;
    tree_set_text(t, x, text, strlen(text));
    tree_append(to, x);
    return x;
}

static void tree_add_number(tree *t, item *to, unsigned field, uint64_t number) {
    item *x = tree_new(t, tree_kind_of(to->kind, field), field, 0);
    if (x == NULL) return;
    x->number = number;
    tree_append(to, x);
}

static item *tree_add_message(tree *t, item *to, unsigned field) {
    item *x = tree_new(t, tree_kind_of(to->kind, field), field, 2);
    tree_append(to, x);
    return x;
}

#endif
