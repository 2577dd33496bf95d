/* Pairing by names that quantisers and runtimes derive from a value's name.
 *
 * Rows are in order of preference: a float form of the value before its integer codes. Codes are
 * paired only if there is no float form, with lower confidence. */
#include <string.h>

#include "pair/pair_int.h"

typedef struct affix {
    const char *prefix, *suffix;
    double confidence;
    const char *how;
} affix;

/* clang-format off */
static const affix affixes[] = {
    /* ONNX Runtime, fp16 models on CPU: the value in fp32. */
    { "InsertedPrecisionFreeCast_", "",                      0.95, "same value in another precision" },
    { "InsertedCast_",              "",                      0.95, "same value in another precision" },
    /* onnxruntime.quantization, QDQ. */
    { "", "_DequantizeLinear_Output",                        0.92, "quantised and dequantised" },
    { "", "_dequantized",                                    0.92, "quantised and dequantised" },
    { "", "_dequantize",                                     0.9,  "quantised and dequantised" },
    { "", "_QuantizeInput",                                  0.92, "before quantisation" },
    { "", ".dequant",                                        0.9,  "quantised and dequantised" },
    /* tf2onnx, TensorFlow. */
    { "", ":0",                                              0.95, "TensorFlow's name" },
    /* coremltools and similar. */
    { "", "_cast",                                           0.85, "same value in another precision" },
    { "", "_cast_fp16",                                      0.9,  "same value in another precision" },
    { "", "_cast_fp32",                                      0.9,  "same value in another precision" },
    /* Codes. */
    { "", "_QuantizeLinear_Output",                          0.8,  "its codes" },
    { "", "_quantized",                                      0.8,  "its codes" },
    { "", "_quantize",                                       0.8,  "its codes" },
    { "", "_int8",                                           0.75, "its codes" },
    { "", "_uint8",                                          0.75, "its codes" },
};
/* clang-format on */

/* Length of the base and where it starts, or false. */
static bool strip(const affix *x, const char *name, const char **base, size_t *n_base) {
    const size_t n = strlen(name), n_pre = strlen(x->prefix), n_suf = strlen(x->suffix);
    if (n <= n_pre + n_suf || strncmp(name, x->prefix, n_pre) != 0) return false;
    if (strcmp(name + n - n_suf, x->suffix) != 0) return false;
    *base = name + n_pre;
    *n_base = n - n_pre - n_suf;
    return true;
}

/* The same number of elements; codes of a float are fine here. */
static bool same_count(const pl_pair_item *a, const pl_pair_item *b) {
    return !a->has_shape || !b->has_shape || pl_pair_count(a) == pl_pair_count(b);
}

static pl_status pair_affix(pl_pair_state *s, int side, uint32_t i, const affix *x, pl_err *err) {
    const char *base;
    size_t n_base;
    const pl_pair_item *item = &s->side[side]->items[i];
    if (!strip(x, item->name, &base, &n_base)) return PL_OK;
    const uintptr_t own = (uintptr_t)pl_strmap_get_n(&s->names[side], base, n_base);
    if (own != 0 && !pl_pair_is_open(s, side, (uint32_t)(own - 1)))
        return pl_pair_note(s, side, i, err, "quantised form of '%.100s', which is paired",
                            s->side[side]->items[own - 1].name);
    const uintptr_t other = (uintptr_t)pl_strmap_get_n(&s->names[1 - side], base, n_base);
    if (own != 0 || other == 0) return PL_OK;
    const uint32_t j = (uint32_t)(other - 1);
    if (!pl_pair_is_open(s, 1 - side, j) || !same_count(item, &s->side[1 - side]->items[j]))
        return PL_OK;
    const uint32_t a = side == 0 ? i : j, b = side == 0 ? j : i;
    PL_TRY(pl_pair_add(s, a, b, PL_PAIR_SUFFIX, x->confidence, x->how, err));
    if (pl_pair_is_open(s, 0, a)) return PL_OK; /* confidence too low */
    if (!pl_pair_fits(&s->side[0]->items[a], &s->side[1]->items[b]))
        s->pairs[s->n_pairs - 1].layout = "codes";
    return PL_OK;
}

pl_status pl_pair_by_suffix(pl_pair_state *s, pl_err *err) {
    if (s->names_lie) return PL_OK;
    for (size_t k = 0; k < sizeof affixes / sizeof *affixes; k++) {
        for (int side = 0; side < PL_PAIR_SIDES; side++) {
            for (uint32_t i = 0; i < s->side[side]->n_items; i++) {
                if (pl_pair_is_open(s, side, i)) PL_TRY(pair_affix(s, side, i, &affixes[k], err));
            }
        }
    }
    return PL_OK;
}
