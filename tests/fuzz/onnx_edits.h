/* Edits of a model's tree (onnx_tree.h): rewire, drop, duplicate, retype, resize, swap, cross with
 * another model, nest, call a function, make sparse or external. One row each. */
#ifndef PL_ONNX_EDITS_H
#define PL_ONNX_EDITS_H

#include "onnx_tree.h"

typedef struct edit_job {
    tree *t;
    item *model, *donor; /* of kind T_MODEL */
} edit_job;

static uint64_t odd_number(tree *t) {
    static const int64_t odd[] = { 0,         1,         -1,        2,   3,         4,
                                   5,         7,         8,         16,  255,       256,
                                   65535,     1 << 20,   -2,        -3,  INT32_MAX, INT32_MIN,
                                   INT64_MAX, INT64_MIN, 1LL << 32, 100, 1000 };
    return (uint64_t)odd[tree_below(t, sizeof(odd) / sizeof(odd[0]))];
}

static void edit_number(edit_job *j) {
    item *x = tree_pick(j->t, j->model, KIND(T_NUMBER) | KIND(T_SIZE) | KIND(T_DTYPE));
    if (x != NULL && x->wire == 0)
        x->number =
            tree_below(j->t, 3) == 0 ? x->number + 1 - 2 * tree_below(j->t, 2) : odd_number(j->t);
}

static void edit_size(edit_job *j) {
    static const int64_t sizes[] = { 0, 1, 2, 3, 5, -1, 64, 1 << 20, INT32_MAX, INT64_MAX };
    item *x = tree_pick(j->t, j->model, KIND(T_SIZE));
    if (x != NULL && x->wire == 0)
        x->number = (uint64_t)sizes[tree_below(j->t, tree_below(j->t, 4) == 0 ? 10 : 5)];
}

static void edit_dtype(edit_job *j) {
    item *x = tree_pick(j->t, j->model, KIND(T_DTYPE));
    if (x != NULL && x->wire == 0) x->number = tree_below(j->t, 27);
}

/* All of one element type become another: such a model is often right. */
static void edit_all_dtypes(edit_job *j) {
    const item *one = tree_pick(j->t, j->model, KIND(T_DTYPE));
    if (one == NULL) return;
    const uint64_t from = one->number, to = 1 + tree_below(j->t, 24);
    for (size_t i = 0; i < j->t->n_items; i++)
        if (j->t->items[i].kind == T_DTYPE && j->t->items[i].number == from)
            j->t->items[i].number = to;
}

static void edit_float(edit_job *j) {
    static const uint32_t odd[] = { 0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0x00000001, 0x7f7fffff, 0x3a83126f };
    item *x = tree_pick(j->t, j->model, KIND(T_FLOAT));
    if (x == NULL || x->wire != 5) return;
    tree_set_text(j->t, x, &odd[tree_below(j->t, sizeof(odd) / sizeof(odd[0]))], 4);
}

static void edit_rewire(edit_job *j) {
    item *x = tree_pick(j->t, j->model, KIND(T_NAME));
    const item *y = tree_pick(j->t, j->model, KIND(T_NAME));
    if (x == NULL || x->wire != 2) return;
    if (tree_below(j->t, 5) == 0) {
        x->n_bytes = 0; /* left out */
    } else if (y->wire == 2) {
        x->bytes = y->bytes;
        x->n_bytes = y->n_bytes;
    }
}

static void edit_name(edit_job *j) {
    static const char *const odd[] = { "",          "\x1b[31m\x07", "a\nb",       "../../x",
                                       "\xff\xfe",  "%s%n",         "\"];import", "<script>",
                                       "*/ int",    "=1+1",         "::error::",  "a b",
                                       "$(touch x)" };
    item *x = tree_pick(j->t, j->model, KIND(T_NAME) | KIND(T_TEXT) | KIND(T_OP));
    if (x == NULL || x->wire != 2) return;
    const char *text = odd[tree_below(j->t, sizeof(odd) / sizeof(odd[0]))];
    tree_set_text(j->t, x, text, strlen(text));
}

static void edit_drop(edit_job *j) {
    item *x = tree_pick(j->t, j->model, ANY_KIND);
    if (x != NULL && x->parent != NULL) tree_unlink(x);
}

static void edit_duplicate(edit_job *j) {
    item *x = tree_pick(j->t, j->model, ANY_KIND);
    item *copy = x == NULL ? NULL : tree_copy(j->t, x);
    if (copy == NULL) return;
    copy->parent = x->parent;
    copy->next = x->next;
    x->next = copy;
}

static void edit_swap(edit_job *j) {
    item *x = tree_pick(j->t, j->model, ANY_KIND);
    if (x == NULL || x->next == NULL) return;
    item *y = x->next;
    tree_unlink(y);
    item **at = &x->parent->child;
    while (*at != x)
        at = &(*at)->next;
    *at = y;
    y->next = x;
}

static void edit_bytes(edit_job *j) {
    item *x = tree_pick(j->t, j->model, KIND(T_BYTES));
    if (x == NULL || x->wire != 2) return;
    const size_t how = tree_below(j->t, 4), n = x->n_bytes;
    if (how == 0 && n > 0) x->n_bytes = tree_below(j->t, n);
    if (how == 1) { /* longer */
        uint8_t *more = tree_room(j->t, n + 8);
        if (more == NULL) return;
        memcpy(more, x->bytes, n);
        memset(more + n, 0x3f, 8);
        x->bytes = more;
        x->n_bytes = n + 8;
    }
    if (how >= 2 && n > 0) {
        tree_set_text(j->t, x, x->bytes, n);
        uint8_t *at = (uint8_t *)(uintptr_t)x->bytes;
        for (size_t k = 0; k < 1 + tree_below(j->t, 4); k++)
            at[tree_below(j->t, n)] = (uint8_t)tree_random(j->t);
    }
}

/* A message becomes one of its kind from the donor, or from elsewhere in the model: graphs become
 * bodies, weights each other, types other types. */
static void edit_replace(edit_job *j) {
    item *x = tree_pick(j->t, j->model, (KIND(T_MESSAGES) - 1) & ~KIND(T_MODEL));
    if (x == NULL) return;
    item *from = tree_below(j->t, 2) == 0 ? j->model : j->donor;
    const item *y = tree_pick(j->t, from, KIND(x->kind));
    item *copy = y == NULL || y == x ? NULL : tree_copy(j->t, y);
    if (copy == NULL) return;
    x->child = copy->child;
    for (item *c = x->child; c != NULL; c = c->next)
        c->parent = x;
}

static void edit_insert(edit_job *j) {
    item *x = tree_pick(j->t, j->model, (KIND(T_MESSAGES) - 1));
    const item *y = x == NULL ? NULL : tree_pick(j->t, j->donor, KIND(x->kind));
    if (y == NULL || y->child == NULL) return;
    size_t n = 0;
    const item *one = NULL;
    for (const item *c = y->child; c != NULL; c = c->next)
        if (tree_below(j->t, ++n) == 0) one = c;
    tree_append(x, tree_copy(j->t, one));
}

static bool same_text(const item *a, const item *b) {
    return a->n_bytes == b->n_bytes &&
           (a->n_bytes == 0 || memcmp(a->bytes, b->bytes, a->n_bytes) == 0);
}

/* Is it an input of the donor's graph? */
static bool is_input(const item *graph, const item *name) {
    for (const item *c = graph->child; c != NULL; c = c->next) {
        const item *of = c->field == 11 ? tree_child(c, 1) : NULL;
        if (of != NULL && same_text(of, name)) return true;
    }
    return false;
}

/* Values of the donor get another name; what it took from outside is taken from the model. */
static void rename_all(edit_job *j, const item *graph, item *x, const char *suffix,
                       const item *by) {
    for (item *c = x->child; c != NULL; c = c->next) {
        rename_all(j, graph, c, suffix, by);
        if (c->kind != T_NAME || c->wire != 2 || c->n_bytes == 0 || c->n_bytes > 200) continue;
        if (by != NULL && is_input(graph, c)) {
            c->bytes = by->bytes;
            c->n_bytes = by->n_bytes;
            continue;
        }
        uint8_t text[208];
        memcpy(text, c->bytes, c->n_bytes);
        memcpy(text + c->n_bytes, suffix, 3);
        tree_set_text(j->t, c, text, c->n_bytes + 3);
    }
}

/* The donor's nodes and weights go into a graph of the model; its outputs leave the model, too. */
static void edit_graft(edit_job *j) {
    item *to = tree_below(j->t, 3) == 0 ? tree_pick(j->t, j->model, KIND(T_GRAPH))
                                        : tree_child(j->model, 7);
    const item *from = tree_child(j->donor, 7);
    if (to == NULL || from == NULL || to->kind != T_GRAPH) return;
    const item *by = tree_pick(j->t, to, KIND(T_NAME));
    char suffix[8];
    snprintf(suffix, sizeof(suffix), "_%02x", (unsigned)tree_below(j->t, 256));
    item *copy = tree_copy(j->t, from);
    if (copy == NULL) return;
    rename_all(j, from, copy, suffix, by != NULL && by->wire == 2 ? by : NULL);
    for (item *c = copy->child, *next = NULL; c != NULL; c = next) {
        next = c->next;
        if (c->field == 1 || c->field == 5 || c->field == 12 || c->field == 15) tree_append(to, c);
    }
    for (const item *c = j->donor->child; c != NULL; c = c->next) /* domains that it uses */
        if (c->kind == T_OPSET && tree_child(c, 1) != NULL)
            tree_append(j->model, tree_copy(j->t, c));
}

/* A function of the donor's nodes, and a node that calls it (perhaps one of its own nodes). */
static void edit_function(edit_job *j) {
    const item *from = tree_child(j->donor, 7);
    item *graph = tree_child(j->model, 7);
    if (from == NULL || graph == NULL) return;
    item *f = tree_add_message(j->t, j->model, 25);
    item *call = tree_add_message(j->t, tree_below(j->t, 8) == 0 && f != NULL ? f : graph,
                                  7); /* a body that calls itself, sometimes */
    if (f == NULL || call == NULL) return;
    call->field = call->parent == f ? 7 : 1;
    call->kind = T_NODE;
    tree_add_text(j->t, f, 1, "F");
    tree_add_text(j->t, f, 10, "own");
    tree_add_text(j->t, call, 4, "F");
    tree_add_text(j->t, call, 7, "own");
    for (const item *c = from->child; c != NULL; c = c->next) {
        const item *name = tree_child(c, 1);
        if (c->field == 1) tree_append(f, tree_copy(j->t, c));
        if ((c->field != 11 && c->field != 12) || name == NULL) continue;
        item *formal = tree_new(j->t, T_NAME, c->field == 11 ? 4 : 5, 2);
        item *actual = tree_new(j->t, T_NAME, c->field == 11 ? 1 : 2, 2);
        if (formal == NULL || actual == NULL) return;
        formal->bytes = actual->bytes = name->bytes;
        formal->n_bytes = actual->n_bytes = name->n_bytes;
        tree_append(f, formal);
        tree_append(call, actual);
    }
    for (const item *c = j->donor->child; c != NULL; c = c->next)
        if (c->kind == T_OPSET) tree_append(f, tree_copy(j->t, c));
    item *opset = tree_add_message(j->t, j->model, 8);
    if (opset == NULL) return;
    tree_add_text(j->t, opset, 1, "own");
    tree_add_number(j->t, opset, 2, 1);
}

/* A weight becomes sparse: its values at positions that may be anything. */
static void edit_sparse(edit_job *j) {
    item *graph = tree_pick(j->t, j->model, KIND(T_GRAPH));
    const item *weight = tree_pick(j->t, j->model, KIND(T_TENSOR));
    if (graph == NULL || weight == NULL) return;
    item *s = tree_add_message(j->t, graph, 15);
    item *values = tree_copy(j->t, weight);
    if (s == NULL || values == NULL) return;
    values->field = 1;
    tree_append(s, values);
    item *indices = tree_add_message(j->t, s, 2);
    if (indices == NULL) return;
    const size_t n = 1 + tree_below(j->t, 4);
    tree_add_number(j->t, indices, 1, n);
    tree_add_number(j->t, indices, 2, 7); /* int64 */
    int64_t at[4] = { 0 };
    for (size_t i = 0; i < n; i++)
        at[i] = tree_below(j->t, 4) == 0 ? (int64_t)odd_number(j->t) : (int64_t)(2 * i);
    item *raw = tree_add_text(j->t, indices, 9, "");
    tree_set_text(j->t, raw, at, n * sizeof(int64_t));
    tree_add_number(j->t, s, 3, tree_below(j->t, 3) == 0 ? odd_number(j->t) : 16);
}

static void edit_external(edit_job *j) {
    static const char *const places[] = {
        "x.bin", "../x.bin", "/etc/passwd", "", ".", "a/../../b"
    };
    static const char *const numbers[] = { "0", "-1", "8", "18446744073709551615", "x", "" };
    static const char *const keys[] = { "location", "offset", "length" };
    item *tensor = tree_pick(j->t, j->model, KIND(T_TENSOR));
    if (tensor == NULL) return;
    for (size_t i = 0; i < 3; i++) {
        item *entry = tree_add_message(j->t, tensor, 13);
        if (entry == NULL) return;
        tree_add_text(j->t, entry, 1, keys[i]);
        tree_add_text(j->t, entry, 2,
                      i == 0 ? places[tree_below(j->t, 6)] : numbers[tree_below(j->t, 6)]);
    }
    tree_add_number(j->t, tensor, 14, 1);
}

/* The main graph, or a part of another body, as the body of a node that had none. */
static void edit_nest(edit_job *j) {
    item *node = tree_pick(j->t, j->model, KIND(T_NODE));
    const item *graph =
        tree_pick(j->t, tree_below(j->t, 2) == 0 ? j->model : j->donor, KIND(T_GRAPH));
    static const char *const names[] = { "body", "then_branch", "else_branch", "decoder" };
    item *attr = node == NULL || graph == NULL ? NULL : tree_copy(j->t, graph);
    if (attr == NULL) return;
    item *a = tree_add_message(j->t, node, 5);
    if (a == NULL) return;
    tree_add_text(j->t, a, 1, names[tree_below(j->t, 4)]);
    attr->field = 6;
    tree_append(a, attr);
    tree_add_number(j->t, a, 20, 5); /* GRAPH */
}

typedef void (*edit_fn)(edit_job *j);
static const edit_fn EDITS[] = {
    edit_number,   edit_number,    edit_size,   edit_size,   edit_dtype,    edit_all_dtypes,
    edit_float,    edit_rewire,    edit_rewire, edit_rewire, edit_name,     edit_drop,
    edit_drop,     edit_duplicate, edit_swap,   edit_bytes,  edit_replace,  edit_replace,
    edit_insert,   edit_insert,    edit_graft,  edit_graft,  edit_function, edit_sparse,
    edit_external, edit_nest,
};

/* Changes a model: n bytes of room for `max`. 0 when nothing came of it. */
static size_t edit_model(tree *t, uint8_t *data, size_t n, size_t max, const uint8_t *donor,
                         size_t n_donor, uint64_t seed) {
    t->n_items = t->n_scratch = 0;
    t->random = seed;
    uint8_t *copy = tree_room(t, n); /* the result is written over it */
    edit_job j = { t, tree_new(t, T_MODEL, 0, 2), tree_new(t, T_MODEL, 0, 2) };
    if (copy == NULL) return 0;
    memcpy(copy, data, n);
    if (!tree_parse(t, j.model, copy, n, 0) || !tree_parse(t, j.donor, donor, n_donor, 0)) return 0;
    if (tree_child(j.model, 7) == NULL) return 0;
    for (size_t k = 1 + tree_below(t, 4); k > 0; k--)
        EDITS[tree_below(t, sizeof(EDITS) / sizeof(EDITS[0]))](&j);
    const size_t size = tree_measure(j.model);
    if (size == 0 || size > max) return 0;
    tree_write(j.model, data);
    return size;
}

#endif
