/* Applies a layout that layout.c found, or that a user wrote into a map. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "pair/layout_int.h"

static pl_status refuse(const char *text, const pl_tensor *t, pl_err *err) {
    char shape[128];
    return pl_fail(err, PL_E_INVALID, "layout '%s' does not fit tensor %s", text,
                   pl_tensor_describe(t, shape, sizeof shape));
}

/* "0,3,1,2" up to the end of the part; false when it is anything else. */
static bool read_list(const char *s, size_t n, int64_t *list, int *n_list) {
    const char *end = s + n;
    *n_list = 0;
    while (s < end) {
        char *next = NULL;
        if (*n_list == PL_RANK_MAX || *s < '0' || *s > '9') return false;
        list[(*n_list)++] = strtoll(s, &next, 10);
        if (next == s || next > end) return false;
        s = next;
        if (s == end) return true;
        if (*s++ != ',') return false;
    }
    return false;
}

static pl_status transpose(const pl_tensor *t, const int64_t *p, int n, pl_tensor **out,
                           const char *text, pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    unsigned seen = 0;
    if (n != t->rank) return refuse(text, t, err);
    for (int i = 0; i < n; i++) {
        if (p[i] >= n || (seen & 1u << p[i]) != 0) return refuse(text, t, err);
        seen |= 1u << p[i];
        dims[i] = t->dims[p[i]];
        strides[i] = t->strides[p[i]];
    }
    return pl_tensor_view(t, n, dims, strides, 0, out, err);
}

static pl_status crop(const pl_tensor *t, const int64_t *extra, int n, pl_tensor **out,
                      const char *text, pl_err *err) {
    int64_t dims[PL_RANK_MAX];
    if (n != t->rank) return refuse(text, t, err);
    for (int i = 0; i < n; i++) {
        if (extra[i] > t->dims[i]) return refuse(text, t, err);
        dims[i] = t->dims[i] - extra[i];
    }
    return pl_tensor_view(t, n, dims, t->strides, 0, out, err);
}

/* [N, C/b, H, W, b] to [N, C, H, W] of the other tensor. */
static pl_status unblock(const pl_tensor *t, const pl_tensor *like, const int64_t *args, int n,
                         pl_tensor **out, const char *text, pl_err *err) {
    const int r = like->rank;
    pl_tensor *turned = NULL, *dense = NULL, *joined = NULL;
    int64_t p[PL_RANK_MAX], dims[PL_RANK_MAX], extra[PL_RANK_MAX];
    if (n != 2 || args[0] != 1 || t->rank != r + 1 || r < 2 || t->dims[r] != args[1])
        return refuse(text, t, err);
    p[0] = 0;
    p[1] = 1;
    p[2] = r;
    for (int i = 3; i <= r; i++)
        p[i] = i - 1;
    for (int i = 0; i < r; i++) {
        dims[i] = t->dims[i];
        if (i == 1 && !pl_i64_mul(t->dims[1], args[1], &dims[1])) return refuse(text, t, err);
        extra[i] = dims[i] - like->dims[i];
        if (extra[i] < 0) return refuse(text, t, err);
    }
    pl_status st = transpose(t, p, r + 1, &turned, text, err);
    if (st == PL_OK) st = pl_tensor_contiguous(turned, &dense, err);
    if (st == PL_OK) st = pl_tensor_reshape(dense, r, dims, &joined, err);
    if (st == PL_OK) st = crop(joined, extra, r, out, text, err);
    pl_tensor_unref(turned);
    pl_tensor_unref(dense);
    pl_tensor_unref(joined);
    return st;
}

static pl_status squeeze(const pl_tensor *t, pl_tensor **out, pl_err *err) {
    pl_shape shape = { .rank = t->rank };
    memcpy(shape.dims, t->dims, sizeof shape.dims);
    const pl_shape less = pl_shape_squeeze(&shape);
    return pl_tensor_reshape(t, less.rank, less.dims, out, err);
}

/* The share of rank args[1] of args[2] along axis args[0]: a block, or every n-th. */
static pl_status take_rank(const pl_tensor *t, const int64_t *args, int n, bool every,
                           pl_tensor **out, const char *text, pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    if (n != 3 || args[0] >= t->rank || args[2] < 1 || args[1] >= args[2] ||
        t->dims[args[0]] % args[2] != 0)
        return refuse(text, t, err);
    memcpy(dims, t->dims, sizeof dims);
    memcpy(strides, t->strides, sizeof strides);
    dims[args[0]] /= args[2];
    const int64_t first = every ? args[1] : args[1] * dims[args[0]];
    const int64_t offset = t->n_elements == 0 ? 0 : first * t->strides[args[0]];
    if (every) strides[args[0]] *= args[2];
    return pl_tensor_view(t, t->rank, dims, strides, offset, out, err);
}

bool pl_layout_is_part(const char *text) {
    const char *s = strncmp(text, "a: ", 3) == 0 ? text + 3 : text;
    for (; s != NULL; s = strstr(s, "; ")) {
        if (*s == ';') s += 2;
        if (strncmp(s, "part ", 5) == 0 || strncmp(s, "every ", 6) == 0) return true;
    }
    return false;
}

/* One part of the text, n bytes at s. `t` is contiguous. */
static pl_status apply_part(const char *s, size_t n, const pl_tensor *t, const pl_tensor *like,
                            pl_tensor **out, const char *text, pl_err *err) {
    int64_t list[PL_RANK_MAX];
    int n_list = 0;
    if (n == 7 && strncmp(s, "squeeze", 7) == 0) return squeeze(t, out, err);
    if (n == 7 && strncmp(s, "reshape", 7) == 0) {
        if (t->n_elements != like->n_elements) return refuse(text, t, err);
        return pl_tensor_reshape(t, like->rank, like->dims, out, err);
    }
    if (n > 10 && strncmp(s, "transpose ", 10) == 0 && read_list(s + 10, n - 10, list, &n_list))
        return transpose(t, list, n_list, out, text, err);
    if (n > 4 && strncmp(s, "pad ", 4) == 0 && read_list(s + 4, n - 4, list, &n_list))
        return crop(t, list, n_list, out, text, err);
    if (n > 6 && strncmp(s, "block ", 6) == 0 && read_list(s + 6, n - 6, list, &n_list))
        return unblock(t, like, list, n_list, out, text, err);
    if (n > 5 && strncmp(s, "part ", 5) == 0 && read_list(s + 5, n - 5, list, &n_list))
        return take_rank(t, list, n_list, false, out, text, err);
    if (n > 6 && strncmp(s, "every ", 6) == 0 && read_list(s + 6, n - 6, list, &n_list))
        return take_rank(t, list, n_list, true, out, text, err);
    return pl_fail(err, PL_E_UNSUPPORTED, "unknown layout '%s'", text);
}

static pl_status change(const char *text, const pl_tensor *t, const pl_tensor *like,
                        pl_tensor **out, pl_err *err) {
    pl_tensor *now = NULL;
    PL_TRY(pl_tensor_contiguous(t, &now, err));
    for (const char *s = strncmp(text, "a: ", 3) == 0 ? text + 3 : text; *s != '\0';) {
        const char *end = strstr(s, "; ");
        const size_t n = end == NULL ? strlen(s) : (size_t)(end - s);
        pl_tensor *part = NULL, *dense = NULL;
        pl_status st = apply_part(s, n, now, like, &part, text, err);
        if (st == PL_OK) st = pl_tensor_contiguous(part, &dense, err);
        pl_tensor_unref(part);
        pl_tensor_unref(now);
        PL_TRY(st);
        now = dense;
        s += n + (end == NULL ? 0 : 2);
    }
    pl_status st = PL_OK;
    if (now->n_elements != like->n_elements ||
        (*text == '\0' && !pl_tensor_same_shape(now, like))) {
        st = refuse(text, t, err);
    } else {
        st = pl_tensor_reshape(now, like->rank, like->dims, out, err);
    }
    pl_tensor_unref(now);
    return st;
}

pl_status pl_layout_apply(const char *text, const pl_tensor *a, const pl_tensor *b,
                          pl_tensor **out_a, pl_tensor **out_b, pl_err *err) {
    const bool on_a = strncmp(text, "a: ", 3) == 0;
    pl_tensor *changed = NULL, *other = NULL;
    *out_a = *out_b = NULL;
    PL_TRY(change(text, on_a ? a : b, on_a ? b : a, &changed, err));
    const pl_status st = pl_tensor_contiguous(on_a ? b : a, &other, err);
    if (st != PL_OK) {
        pl_tensor_unref(changed);
        return st;
    }
    *out_a = on_a ? changed : other;
    *out_b = on_a ? other : changed;
    return PL_OK;
}
