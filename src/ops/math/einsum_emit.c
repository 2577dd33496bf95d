/* Emission of Einsum: a matrix product where the labels of two operands allow it, else one sum of
 * products over all labels. */
#include <string.h>

#include "ops/emit.h"
#include "ops/math/einsum_rules.h"

enum { LABELS = 26 * 2, TERMS_MAX = 6 };

typedef struct term {
    int n;
    int label[PL_EMIT_RANK_MAX];
} term;

typedef struct equation {
    int n_terms;
    term in[TERMS_MAX], out;
    int64_t size[LABELS];
} equation;

static int label_of(char ch) {
    if (ch >= 'A' && ch <= 'Z') return ch - 'A';
    return ch >= 'a' && ch <= 'z' ? 26 + ch - 'a' : -1;
}

static bool has_label(const term *t, int label) {
    for (int i = 0; i < t->n; i++)
        if (t->label[i] == label) return true;
    return false;
}

/* Without "->" the output has the labels that occur once, in order. */
static void default_out(equation *e) {
    for (int l = 0; l < LABELS; l++) {
        int n = 0;
        for (int i = 0; i < e->n_terms; i++)
            n += has_label(&e->in[i], l);
        if (n == 1 && e->out.n < PL_EMIT_RANK_MAX) e->out.label[e->out.n++] = l;
    }
}

static const char *parse(const pl_emit *c, equation *e) {
    const pl_string s = pl_attr_string(c->node, "equation");
    bool to_out = false;
    memset(e, 0, sizeof(*e));
    e->n_terms = 1;
    for (size_t i = 0; i < s.n_bytes; i++) {
        const char ch = s.data[i];
        if (ch == ' ') continue;
        if (ch == '-' && i + 1 < s.n_bytes && s.data[i + 1] == '>' && !to_out) {
            to_out = true;
            i++;
        } else if (ch == ',' && !to_out) {
            if (e->n_terms == TERMS_MAX) return "many operands";
            e->n_terms++;
        } else {
            term *t = to_out ? &e->out : &e->in[e->n_terms - 1];
            if (label_of(ch) < 0) return "an ellipsis";
            if (has_label(t, label_of(ch))) return "a diagonal";
            if (t->n == PL_EMIT_RANK_MAX) return "more than 8 dims";
            t->label[t->n++] = label_of(ch);
        }
    }
    if (!to_out) default_out(e);
    return NULL;
}

/* Sizes of the labels. Broadcasting of dims of 1 is declined. */
static const char *measure(const pl_emit *c, equation *e) {
    if (e->n_terms != c->n_in) return "the operands";
    for (int i = 0; i < c->n_in; i++) {
        if (pl_emit_rank(c, i) != e->in[i].n) return "the operands";
        for (int d = 0; d < e->in[i].n; d++) {
            int64_t *size = &e->size[e->in[i].label[d]];
            if (*size != 0 && *size != pl_emit_dim(c, i, d)) return "a broadcast dim";
            *size = pl_emit_dim(c, i, d);
        }
    }
    return NULL;
}

/* Operand x with its labels in the order of `to`; missing labels have size 1. */
static pl_ref arranged(pl_emit *c, pl_ref x, const term *from, const term *to, const equation *e) {
    int perm[PL_EMIT_RANK_MAX], n = 0;
    int64_t dims[PL_EMIT_RANK_MAX];
    for (int d = 0; d < to->n; d++) {
        dims[d] = has_label(from, to->label[d]) ? e->size[to->label[d]] : 1;
        for (int k = 0; k < from->n; k++)
            if (from->label[k] == to->label[d]) perm[n++] = k;
    }
    return pl_emit_reshape(c, pl_emit_transpose(c, x, perm), to->n, dims);
}

static void append(term *t, int label) {
    if (t->n < PL_EMIT_RANK_MAX) t->label[t->n++] = label;
}

/* One sum over everything: labels of the output first, then those summed over. */
static pl_status sum_of_products(pl_emit *c, const equation *e) {
    int64_t dims[PL_EMIT_RANK_MAX];
    term all = e->out;
    const pl_dtype dtype = c->in[0]->dtype;
    const pl_dtype in = pl_emit_is_float(dtype) ? PL_F64 : PL_U64;
    int n_labels = e->out.n;
    for (int l = 0; l < LABELS; l++) {
        if (e->size[l] == 0 || has_label(&e->out, l)) continue;
        append(&all, l);
        n_labels++;
    }
    if (n_labels > PL_EMIT_RANK_MAX) return pl_emit_decline(c, "more than 8 labels");
    pl_ref y = -1;
    for (int i = 0; i < e->n_terms; i++) {
        const pl_ref x = arranged(c, pl_emit_in(c, i), &e->in[i], &all, e);
        y = i == 0 ? pl_emit_map1(c, in, "($T)$0", x) : pl_emit_map2(c, in, "$0 * ($T)$1", y, x);
    }
    const unsigned axes = pl_emit_axes_from(e->out.n, all.n);
    if (axes != 0) y = pl_emit_reduce(c, PL_FOLD_SUM, in, y, axes);
    pl_emit_out_dims(c, 0, dims);
    y = pl_emit_map1(c, c->out[0]->dtype, "$0", y);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, e->out.n, dims));
}

static int64_t size_of(const equation *e, const term *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n; i++)
        n *= e->size[t->label[i]];
    return n;
}

static term joined(const term *a, const term *b, const term *d) {
    term t = { 0 };
    const term *const parts[] = { a, b, d };
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < parts[i]->n; k++)
            append(&t, parts[i]->label[k]);
    return t;
}

/* (batch, m, k) by (batch, k, n). */
static pl_status by_product(pl_emit *c, const equation *e, const term *batch, const term *m,
                            const term *n, const term *k) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const term a = joined(batch, m, k), b = joined(batch, k, n), y = joined(batch, m, n);
    const int64_t nb = size_of(e, batch), nm = size_of(e, m), nn = size_of(e, n),
                  nk = size_of(e, k);
    const int64_t da[] = { nb, nm, nk }, db[] = { nb, nk, nn };
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_ref x = pl_emit_convert(c, pl_emit_in(c, 0), wide);
    const pl_ref w = pl_emit_convert(c, pl_emit_in(c, 1), wide);
    const pl_emit_gemm gemm = { pl_emit_reshape(c, arranged(c, x, &e->in[0], &a, e), 3, da),
                                pl_emit_reshape(c, arranged(c, w, &e->in[1], &b, e), 3, db), 1 };
    pl_ref r = c->builder->gemm(c, &gemm);
    for (int d = 0; d < y.n; d++)
        dims[d] = e->size[y.label[d]];
    r = pl_emit_reshape(c, r, y.n, dims);
    return pl_emit_out(c, 0, arranged(c, r, &y, &e->out, e));
}

pl_status pl_emit_einsum(pl_emit *c) {
    equation e;
    const char *wrong = parse(c, &e);
    if (wrong == NULL) wrong = measure(c, &e);
    if (wrong != NULL) return pl_emit_decline(c, wrong);
    term batch = { 0 }, m = { 0 }, n = { 0 }, k = { 0 };
    bool alone = false; /* a label of only one operand that is summed over */
    for (int l = 0; l < LABELS && e.n_terms == 2; l++) {
        const bool in_a = has_label(&e.in[0], l), in_b = has_label(&e.in[1], l);
        const bool in_y = has_label(&e.out, l);
        if (in_a && in_b) append(in_y ? &batch : &k, l);
        if (in_a != in_b && in_y) append(in_a ? &m : &n, l);
        if (in_a != in_b && !in_y) alone = true;
    }
    if (e.n_terms == 2 && !alone && k.n > 0 && pl_emit_is_float(c->in[0]->dtype)) {
        return by_product(c, &e, &batch, &m, &n, &k);
    }
    return sum_of_products(c, &e);
}
