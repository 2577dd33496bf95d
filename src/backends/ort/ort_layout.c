/* Values to record: which there are, and how they turn from ONNX Runtime's layout to the model's.
 */
#include <string.h>

#include "backends/ort/ort_map.h"
#include "base/alloc.h"

/* MlasNchwcGetBlockSize of ORT: 16 floats with AVX-512 and on ARM, 8 with AVX. */
static int64_t block_size(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
    return 16;
#endif
}

/* One block of channels; a few pixels at a time, so that each cache line is read once. */
static void unblock_one(const uint32_t *from, int64_t n_channels, int64_t b, int64_t pixels,
                        uint32_t *to) {
    enum { TILE = 128 };
    for (int64_t at = 0; at < pixels; at += TILE) {
        const int64_t end = at + TILE < pixels ? at + TILE : pixels;
        for (int64_t c = 0; c < n_channels; c++)
            for (int64_t k = at; k < end; k++)
                to[c * pixels + k] = from[k * b + c];
    }
}

/* [N, C/b, H, W, b] to [N, C, H, W]. */
static pl_status unblock(const pl_tensor *t, int64_t channels, pl_tensor **out, pl_err *err) {
    const int64_t b = block_size();
    if (t->rank != 4 || pl_dtype_bits(t->dtype) != 32 || t->dims[1] % b != 0 ||
        channels > t->dims[1] || channels <= t->dims[1] - b) {
        char text[200];
        return pl_fail(err, PL_E_UNSUPPORTED, "%s does not have %lld channels in blocks of %lld",
                       pl_tensor_describe(t, text, sizeof(text)), (long long)channels,
                       (long long)b);
    }
    const int64_t n = t->dims[0], padded = t->dims[1], pixels = t->dims[2] * t->dims[3];
    const int64_t dims[] = { n, channels, t->dims[2], t->dims[3] };
    PL_TRY(pl_tensor_new(t->dtype, 4, dims, out, err));
    const uint32_t *from = t->data;
    uint32_t *to = (*out)->data;
    for (int64_t i = 0; i < n; i++, to += channels * pixels) {
        for (int64_t c = 0; c < channels; c += b)
            unblock_one(from + (i * padded + c) * pixels, channels - c < b ? channels - c : b, b,
                        pixels, to + c * pixels);
    }
    return PL_OK;
}

static pl_status transpose_back(const pl_ort_watch *watch, const pl_tensor *t, pl_tensor **out,
                                pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    pl_tensor *view = NULL;
    if (t->rank != watch->rank) {
        return pl_fail(err, PL_E_UNSUPPORTED, "rank %d, expected %d", t->rank, watch->rank);
    }
    for (int i = 0; i < t->rank; i++) {
        dims[i] = t->dims[watch->perm[i]];
        strides[i] = t->strides[watch->perm[i]];
    }
    PL_TRY(pl_tensor_view(t, t->rank, dims, strides, 0, &view, err));
    const pl_status st = pl_tensor_contiguous(view, out, err);
    pl_tensor_unref(view);
    return st;
}

static pl_status unstack(const pl_tensor *t, int n, pl_tensor **out, pl_err *err) {
    for (int i = 0; i < n; i++) {
        if (i < t->rank && t->dims[i] == 1) continue;
        return pl_fail(err, PL_E_UNSUPPORTED, "its body did not run exactly once");
    }
    return pl_tensor_reshape(t, t->rank - n, t->dims + n, out, err);
}

static pl_status convert_layout(const pl_ort_watch *watch, const pl_tensor *t, pl_tensor **out,
                                pl_err *err) {
    /* A renamed value that is float where the model's is not, or the reverse: the map is wrong. */
    if (watch->dtype != PL_UNDEFINED && strcmp(watch->name, watch->stands_for) != 0 &&
        pl_dtype_is_float(watch->dtype) != pl_dtype_is_float(t->dtype)) {
        return pl_fail(err, PL_E_UNSUPPORTED, "'%s' is not '%s'", watch->name, watch->stands_for);
    }
    switch (watch->layout) {
    case PL_ORT_BLOCKED: return unblock(t, watch->channels, out, err);
    case PL_ORT_PERMUTED: return transpose_back(watch, t, out, err);
    default: *out = pl_tensor_ref(t); return PL_OK;
    }
}

/* ORT's QDQS8ToU8Transformer adds 128 to int8 codes and their zero point. Undo it. */
static pl_status move_down(pl_tensor **t, pl_err *err) {
    pl_tensor *codes = NULL;
    PL_TRY(pl_tensor_new(PL_I8, (*t)->rank, (*t)->dims, &codes, err));
    const uint8_t *from = (*t)->data;
    uint8_t *to = codes->data;
    for (int64_t i = 0; i < codes->n_elements; i++)
        to[i] = from[i] ^ 0x80;
    pl_tensor_unref(*t);
    *t = codes;
    return PL_OK;
}

bool pl_ort_watch_moves(const pl_ort_watch *watch) {
    return watch->layout == PL_ORT_BLOCKED || watch->layout == PL_ORT_PERMUTED;
}

pl_status pl_ort_watch_convert(const pl_ort_watch *watch, const pl_tensor *t, pl_tensor **out,
                               bool *mapped, pl_err *err) {
    pl_tensor *own = NULL;
    PL_TRY(unstack(t, watch->n_stacked, &own, err));
    *mapped = watch->stands_for != NULL && convert_layout(watch, own, out, NULL) == PL_OK;
    if (!*mapped) {
        *out = own;
        return PL_OK;
    }
    pl_tensor_unref(own);
    const bool moved = watch->dtype == PL_I8 && (*out)->dtype == PL_U8;
    const pl_status st = moved ? move_down(out, err) : PL_OK;
    if (st != PL_OK) pl_tensor_unref(*out);
    return st;
}

pl_status pl_ort_watch_list(const pl_model *model, const pl_ort_map *map, pl_ort_watch **out,
                            size_t *n_out, pl_err *err) {
    const pl_graph *graph = model->graph;
    size_t n = 0;
    *out = pl_calloc(graph->n_values + 1, sizeof(**out));
    if (*out == NULL) return pl_fail_memory(err, graph->n_values);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_out && node->function == NULL; k++) {
            const pl_value *v = node->out[k];
            if (v == NULL) continue;
            (*out)[n++] = map != NULL ? pl_ort_map_value(map, v) : pl_ort_watch_of(v);
        }
    }
    *n_out = n;
    return PL_OK;
}
