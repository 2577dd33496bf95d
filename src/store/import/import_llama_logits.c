/* llama-perplexity's file of log-probabilities (--save-all-logits, --kl-divergence-base), as
 * llama.cpp's tools/perplexity/perplexity.cpp writes it (log_softmax with uint16, process_logits).
 *
 * "_logits_", then int32 n_ctx, n_vocab, n_chunk and the tokens, n_chunk times n_ctx int32. For
 * each chunk the rows of its second half but the last, n_ctx - 1 - n_ctx / 2: float scale, float
 * least, and n_vocab uint16 codes q (one more when n_vocab is odd): log p = least + scale * q.
 * Records: "tokens" [n_chunk, n_ctx] and "log_probs" [n_chunk, rows, n_vocab]. A file that ends
 * early is refused: the writer does not notice a full disk. */
#include <inttypes.h>
#include <string.h>

#include "base/le.h"
#include "base/size.h"
#include "store/recording_int.h"
#include "tensor/file/raw.h"

enum { HEADER = 20 };

bool pl_import_is_llama_logits(const void *data, size_t n_bytes) {
    return n_bytes >= HEADER && memcmp(data, "_logits_", 8) == 0;
}

static float float_at(const uint8_t *p) {
    const uint32_t bits = pl_le32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void expand_row(const uint8_t *row, int64_t n_vocab, float *to) {
    const float scale = float_at(row), least = float_at(row + 4);
    for (int64_t i = 0; i < n_vocab; i++)
        to[i] = scale * (float)pl_le16(row + 8 + 2 * i) + least;
}

/* The sizes in the header must match the file. */
static pl_status check_sizes(const pl_file_map *map, const int64_t *n, size_t *row_bytes,
                             size_t *n_rows, size_t *token_bytes, pl_err *err) {
    size_t all = 0, rows_bytes = 0;
    if (n[0] < 2 || n[1] < 1 || n[2] < 1)
        return pl_fail(err, PL_E_FORMAT,
                       "n_ctx is %" PRId64 ", n_vocab %" PRId64 ", n_chunk %" PRId64, n[0], n[1],
                       n[2]);
    *row_bytes = 2 * (size_t)((n[1] + 1) / 2 * 2 + 4);
    *n_rows = (size_t)(n[0] - 1 - n[0] / 2);
    if (!pl_size_mul(*n_rows, (size_t)n[2], n_rows) ||
        !pl_size_mul((size_t)n[0] * 4, (size_t)n[2], token_bytes) ||
        !pl_size_mul(*n_rows, *row_bytes, &rows_bytes) ||
        !pl_size_add(rows_bytes, *token_bytes, &all) || all != map->n_bytes - HEADER)
        return pl_fail(err, PL_E_FORMAT,
                       "%" PRId64 " chunks of %" PRId64 " tokens, vocabulary %" PRId64
                       ", are %zu bytes, but the file has %zu",
                       n[2], n[0], n[1], all + HEADER, map->n_bytes);
    return PL_OK;
}

pl_status pl_import_llama_logits(pl_recording *rec, pl_err *err) {
    pl_file_map *map = rec->internal->map;
    int64_t n[3]; /* n_ctx, n_vocab, n_chunk */
    size_t row_bytes = 0, n_rows = 0, token_bytes = 0;
    pl_tensor *tokens = NULL, *rows = NULL;
    rec->format = "llama-logits";
    for (int i = 0; i < 3; i++)
        n[i] = (int32_t)pl_le32(map->data + 8 + 4 * i);
    PL_TRY(check_sizes(map, n, &row_bytes, &n_rows, &token_bytes, err));
    const int64_t token_dims[2] = { n[2], n[0] };
    const int64_t dims[3] = { n[2], n[0] - 1 - n[0] / 2, n[1] };
    const pl_bytes raw = { map->data + HEADER, token_bytes };
    PL_TRY(pl_tensor_from_raw(PL_I32, 2, token_dims, raw, map, &tokens, err));
    PL_TRY(pl_recording_add_tensor_take(rec, "tokens", tokens, PL_RECORD_INPUT, err));
    PL_TRY(pl_tensor_new(PL_F32, 3, dims, &rows, err));
    const uint8_t *from = map->data + HEADER + token_bytes;
    for (size_t i = 0; i < n_rows; i++)
        expand_row(from + i * row_bytes, n[1], (float *)rows->data + i * (size_t)n[1]);
    return pl_recording_add_tensor_take(rec, "log_probs", rows, PL_RECORD_OUTPUT, err);
}
