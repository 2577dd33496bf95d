/* Reading window attributes and placing windows over an input. */
#include "ops/lib/window.h"

#include <string.h>

#include "base/size.h"

/* Limit of every value, so that no product of two overflows 63 bits. */
static const int64_t VALUE_MAX = INT64_C(1) << 30;

static pl_status read_list(const pl_node *node, const char *name, int n, int64_t lowest,
                           int64_t *out, bool *given, pl_err *err) {
    size_t n_list = 0;
    const pl_attr *attr = pl_node_attr(node, name);
    const int64_t *list = attr == NULL ? NULL : pl_attr_ints(node, name, &n_list);
    *given = attr != NULL;
    if (attr == NULL) return PL_OK;
    if (n_list != (size_t)n) {
        return pl_node_fail(err, PL_E_INVALID, node, "%s has %zu elements, expected %d", name,
                            n_list, n);
    }
    for (int d = 0; d < n; d++) {
        if (list[d] < lowest || list[d] > VALUE_MAX) {
            return pl_node_fail(err, PL_E_INVALID, node, "%s[%d] is %lld, expected %lld to %lld",
                                name, d, (long long)list[d], (long long)lowest,
                                (long long)VALUE_MAX);
        }
        out[d] = list[d];
    }
    return PL_OK;
}

static pl_status read_auto_pad(const pl_node *node, pl_auto_pad *out, pl_err *err) {
    static const char *const names[] = { "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER" };
    *out = PL_PAD_NOTSET;
    const pl_string text = pl_attr_string(node, "auto_pad");
    if (text.n_bytes == 0) return PL_OK;
    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) == text.n_bytes && memcmp(names[i], text.data, text.n_bytes) == 0) {
            *out = (pl_auto_pad)i;
            return PL_OK;
        }
    }
    return pl_node_fail(err, PL_E_INVALID, node,
                        "auto_pad is '%.*s', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                        (int)(text.n_bytes < 40 ? text.n_bytes : 40), text.data);
}

pl_status pl_window_read(const pl_node *node, int n, pl_window *w, pl_err *err) {
    memset(w, 0, sizeof(*w));
    w->n = n;
    if (n < 0 || n > PL_RANK_MAX - 2) {
        return pl_node_fail(err, PL_E_LIMIT, node, "%d spatial dims, the limit is %d", n,
                            PL_RANK_MAX - 2);
    }
    bool given = false;
    int64_t pads[2 * PL_RANK_MAX] = { 0 };
    for (int d = 0; d < n; d++)
        w->stride[d] = w->dilation[d] = 1;
    PL_TRY(read_list(node, "kernel_shape", n, 1, w->kernel, &w->has_kernel, err));
    PL_TRY(read_list(node, "strides", n, 1, w->stride, &given, err));
    PL_TRY(read_list(node, "dilations", n, 1, w->dilation, &given, err));
    PL_TRY(read_list(node, "pads", 2 * n, 0, pads, &given, err));
    PL_TRY(read_auto_pad(node, &w->auto_pad, err));
    for (int d = 0; d < n && w->auto_pad == PL_PAD_NOTSET; d++) {
        w->pad_begin[d] = pads[d];
        w->pad_end[d] = pads[n + d];
    }
    w->ceil_mode = pl_node_attr(node, "ceil_mode") != NULL && pl_attr_int(node, "ceil_mode") != 0;
    return PL_OK;
}

/* Extent of the window along dim d: (kernel - 1) * dilation + 1. */
static int64_t span_of(const pl_window *w, int d) {
    return (w->kernel[d] - 1) * w->dilation[d] + 1;
}

static void place_same(pl_window *w, int d, int64_t in) {
    const int64_t stride = w->stride[d];
    const int64_t out = in / stride + (in % stride != 0);
    const int64_t total = in == 0 ? 0 : pl_i64_max(0, (out - 1) * stride + span_of(w, d) - in);
    const int64_t less = total / 2;
    w->out[d] = out;
    w->pad_begin[d] = w->auto_pad == PL_PAD_SAME_UPPER ? less : total - less;
    w->pad_end[d] = total - w->pad_begin[d];
}

pl_status pl_window_place(const pl_node *node, pl_window *w, int d, int64_t in, pl_err *err) {
    if (in < 0 || in > INT64_MAX / 4) {
        return pl_node_fail(err, PL_E_LIMIT, node, "spatial dim %d is %lld", d, (long long)in);
    }
    w->in[d] = in;
    if (w->auto_pad == PL_PAD_SAME_UPPER || w->auto_pad == PL_PAD_SAME_LOWER) {
        place_same(w, d, in);
        return PL_OK;
    }
    const int64_t stride = w->stride[d];
    const int64_t padded = in + w->pad_begin[d] + w->pad_end[d];
    const int64_t room = padded - span_of(w, d);
    const bool ceils = w->ceil_mode && w->auto_pad == PL_PAD_NOTSET;
    if (room < 0 && !(ceils && room + stride > 0)) {
        return pl_node_fail(err, PL_E_INVALID, node,
                            "the window spans %lld cells of spatial dim %d, which has %lld with "
                            "its padding",
                            (long long)span_of(w, d), d, (long long)padded);
    }
    int64_t out = room < 0 ? 1 : room / stride + 1;
    if (ceils && room > 0 && room % stride != 0) out++;
    /* MaxPool-22: a window that would start in the end padding is left out. */
    if (ceils && out > 1 && (out - 1) * stride >= in + w->pad_begin[d]) out--;
    w->out[d] = out;
    return PL_OK;
}

pl_status pl_window_dim(const pl_node *node, pl_window *w, int d, pl_dim in, pl_dim *out,
                        pl_err *err) {
    if (pl_dim_known(in)) {
        PL_TRY(pl_window_place(node, w, d, in.value, err));
        *out = pl_dim_of(w->out[d]);
        return PL_OK;
    }
    const bool same = w->auto_pad == PL_PAD_SAME_UPPER || w->auto_pad == PL_PAD_SAME_LOWER;
    const bool keeps = same || w->pad_begin[d] + w->pad_end[d] == span_of(w, d) - 1;
    *out = w->stride[d] == 1 && keeps ? in : PL_DIM_UNKNOWN;
    return PL_OK;
}

pl_status pl_window_of(const pl_eval *c, const pl_tensor *x, pl_window *w) {
    for (int d = 0; d < w->n; d++) {
        PL_TRY(pl_window_place(c->node, w, d, x->dims[d + 2], c->err));
    }
    return PL_OK;
}

int64_t pl_window_taps(const pl_window *w) {
    int64_t n = 1;
    for (int d = 0; d < w->n; d++)
        n *= w->kernel[d];
    return n;
}

int64_t pl_window_cells(const pl_window *w) {
    int64_t n = 1;
    for (int d = 0; d < w->n; d++)
        n *= w->out[d];
    return n;
}

void pl_window_taps_in(const pl_window *w, int d, int64_t cell, int64_t lo, int64_t hi,
                       int64_t *first, int64_t *last) {
    const int64_t start = cell * w->stride[d] - w->pad_begin[d], step = w->dilation[d];
    *first = start >= lo ? 0 : pl_i64_min((lo - start + step - 1) / step, w->kernel[d]);
    *last = start >= hi ? 0 : pl_i64_min((hi - start + step - 1) / step, w->kernel[d]);
    if (*last < *first) *last = *first;
}

bool pl_window_at(const pl_window *w, const int64_t *cell, const int64_t *tap, int64_t *offset) {
    int64_t at = 0;
    for (int d = 0; d < w->n; d++) {
        const int64_t i = cell[d] * w->stride[d] - w->pad_begin[d] + tap[d] * w->dilation[d];
        if (i < 0 || i >= w->in[d]) return false;
        at = at * w->in[d] + i;
    }
    *offset = at;
    return true;
}

bool pl_window_next(int n, const int64_t *dims, int64_t *index) {
    for (int d = n - 1; d >= 0; d--) {
        if (++index[d] < dims[d]) return true;
        index[d] = 0;
    }
    return false;
}

pl_status pl_window_rank(const pl_infer *c, int i, int *n_spatial) {
    const int rank = pl_infer_rank(c, i);
    *n_spatial = rank - 2;
    if (rank >= 0 && rank < 3) {
        return pl_infer_fail(c, "input %d has rank %d, expected (N, C, spatial dims)", i, rank);
    }
    return PL_OK;
}
