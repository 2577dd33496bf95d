/* One step of a search over a decoder with a cache (GPT-2): its inputs, its run, its scores.
 *
 * The decoder has inputs input_ids, position_ids, attention_mask and one cache for each layer, (2,
 * rows, heads, past, size); its outputs are logits and the caches, one token longer. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/microsoft/ms_search_rules.h"
#include "tensor/tensor_cast.h"

enum { IDS, POSITIONS, MASK, STATE, INPUT_IDS = 0, MAX_LENGTH, MIN_LENGTH };

/* ---- the beginning ---- */

static int64_t *new_ints(pl_search *s, int64_t rows, int64_t columns) {
    return pl_scratch(s->c, (size_t)(rows * columns) + 1, sizeof(int64_t));
}

/* Tokens, which of them are words, and where each row is. Padding stands for no word. */
static pl_status read_prompt(pl_search *s, int mask_at) {
    size_t n = 0, n_mask = 0;
    const int64_t *ids = pl_in_ints(s->c, INPUT_IDS, &n);
    const int64_t *mask = pl_has(s->c, mask_at) ? pl_in_ints(s->c, mask_at, &n_mask) : NULL;
    if (ids == NULL || (pl_has(s->c, mask_at) && mask == NULL)) return pl_eval_memory(s->c);
    if (mask != NULL && n_mask != n)
        return pl_eval_fail(s->c, "attention_mask has %zu elements, input_ids %zu", n_mask, n);
    for (int64_t row = 0; row < s->rows; row++) {
        int64_t position = 0;
        for (int64_t i = 0; i < s->prompt; i++) {
            const int64_t at = row / s->beams * s->prompt + i, to = row * s->longest + i;
            s->tokens[to] = ids[at];
            s->mask[to] = mask != NULL ? mask[at] : ids[at] != s->pad;
            position += s->mask[to] != 0;
        }
        s->positions[row] = position;
    }
    return PL_OK;
}

static pl_status read_masks(pl_search *s, int first) {
    size_t n = 0;
    if (pl_has(s->c, first + 1)) {
        s->vocab_mask = pl_in_ints(s->c, first + 1, &n);
        if (s->vocab_mask == NULL) return pl_eval_memory(s->c);
        s->vocab = (int64_t)n;
    }
    if (pl_has(s->c, first + 2)) {
        s->first_mask = pl_in_ints(s->c, first + 2, &n);
        if (s->first_mask == NULL) return pl_eval_memory(s->c);
        if (s->vocab != 0 && (int64_t)n != s->vocab * s->batch)
            return pl_eval_fail(s->c, "prefix_vocab_mask does not have a row for each prompt");
        s->vocab = (int64_t)n / (s->batch == 0 ? 1 : s->batch);
    }
    return PL_OK;
}

static pl_status check_decoder(pl_search *s) {
    if (s->body == NULL) return pl_eval_fail(s->c, "attribute 'decoder' is missing");
    if (pl_attr_int(s->c->node, "model_type") != 0 || pl_attr_graph(s->c->node, "encoder") != NULL)
        return pl_eval_unsupported(s->c, "only decoders like GPT-2 are supported (model_type 0)");
    if (pl_attr_graph(s->c->node, "init_decoder") != NULL)
        return pl_eval_unsupported(s->c, "init_decoder is not supported");
    if (s->body->n_inputs < STATE + 1 || s->body->n_outputs != s->body->n_inputs - 2)
        return pl_eval_fail(s->c,
                            "the decoder has %zu inputs and %zu outputs, expected input_ids, "
                            "position_ids, attention_mask and caches; logits and caches",
                            s->body->n_inputs, s->body->n_outputs);
    return PL_OK;
}

pl_status pl_search_init(pl_search *s, int64_t n_beams, int first) {
    pl_eval *c = s->c;
    const pl_tensor *ids = pl_in(c, INPUT_IDS);
    enum { MOST = 1 << 24 };
    if (ids == NULL || ids->rank != 2) return pl_eval_fail(c, "input_ids must have two axes");
    s->body = pl_attr_graph(c->node, "decoder");
    PL_TRY(check_decoder(s));
    s->batch = ids->dims[0];
    s->beams = n_beams;
    s->prompt = s->length = ids->dims[1];
    s->longest = pl_in_int(c, MAX_LENGTH, 0);
    s->shortest = pl_in_int(c, MIN_LENGTH, 0);
    s->eos = pl_attr_int(c->node, "eos_token_id");
    s->pad = pl_attr_int(c->node, "pad_token_id");
    s->ngram = pl_attr_int(c->node, "no_repeat_ngram_size");
    s->repetition = pl_in_float(c, first, 1);
    if (s->batch < 1 || s->prompt < 1 || n_beams < 1 || s->longest <= s->prompt ||
        s->longest > MOST / n_beams / s->batch)
        return pl_eval_fail(c, "batch %lld, prompt of %lld, %lld beams, max_length %lld",
                            (long long)s->batch, (long long)s->prompt, (long long)n_beams,
                            (long long)s->longest);
    s->rows = s->batch * s->beams;
    s->tokens = new_ints(s, s->rows, s->longest);
    s->spare = new_ints(s, s->rows, s->longest);
    s->mask = new_ints(s, s->rows, s->longest);
    s->positions = new_ints(s, s->rows, 1);
    s->n_state = s->body->n_inputs - STATE;
    s->state = pl_scratch(c, s->n_state + 1, sizeof(*s->state));
    if (s->tokens == NULL || s->spare == NULL || s->mask == NULL || s->positions == NULL ||
        s->state == NULL)
        return pl_eval_memory(c);
    PL_TRY(read_masks(s, first));
    return read_prompt(s, first + 3);
}

void pl_search_release(pl_search *s) {
    for (size_t i = 0; s->state != NULL && i < s->n_state; i++)
        pl_datum_unref(s->state[i]);
}

/* ---- the decoder ---- */

static pl_status int32_input(const pl_search *s, const int64_t *from, int64_t width, int64_t stride,
                             pl_datum **out) {
    const int64_t dims[] = { s->rows, width };
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(PL_I32, 2, dims, &t, s->c->err));
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t i = 0; i < width; i++)
            ((int32_t *)t->data)[row * width + i] = (int32_t)from[row * stride + i];
    return pl_datum_of_tensor_take(t, out, s->c->err);
}

/* Positions of the prompt count its words; padding is at 0. */
static pl_status position_input(const pl_search *s, int64_t width, pl_datum **out) {
    const int64_t dims[] = { s->rows, width };
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(PL_I32, 2, dims, &t, s->c->err));
    for (int64_t row = 0; row < s->rows; row++) {
        int32_t at = 0;
        for (int64_t i = 0; i < width; i++) {
            const bool word = s->mask[row * s->longest + i] != 0;
            ((int32_t *)t->data)[row * width + i] = s->length > s->prompt
                                                        ? (int32_t)s->positions[row] - 1
                                                    : word ? at++
                                                           : 0;
        }
    }
    return pl_datum_of_tensor_take(t, out, s->c->err);
}

/* A cache of no tokens, as the decoder declares it. */
static pl_status empty_state(const pl_search *s, const pl_value *value, pl_datum **out) {
    const pl_type *type = value->type;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || type->rank != 5 ||
        !pl_dim_known(type->dims[2]) || !pl_dim_known(type->dims[4]))
        return pl_eval_fail(s->c, "the decoder does not declare heads and size of '%s'",
                            value->name);
    const int64_t dims[] = { 2, s->rows, type->dims[2].value, 0, type->dims[4].value };
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new(pl_eval_dtype(s->c, type->dtype), 5, dims, &t, s->c->err));
    return pl_datum_of_tensor_take(t, out, s->c->err);
}

static pl_status feed(pl_search *s, pl_datum **in) {
    const bool first = s->length == s->prompt;
    const int64_t n = first ? s->prompt : 1, at = s->length - n;
    PL_TRY(int32_input(s, s->tokens + at, n, s->longest, &in[IDS]));
    PL_TRY(position_input(s, n, &in[POSITIONS]));
    PL_TRY(int32_input(s, s->mask, s->length, s->longest, &in[MASK]));
    for (size_t i = 0; i < s->n_state; i++) {
        if (first) {
            PL_TRY(empty_state(s, s->body->inputs[STATE + i], &in[STATE + i]));
        } else {
            in[STATE + i] = pl_datum_ref(s->state[i]);
        }
    }
    return PL_OK;
}

/* log(softmax) of the last token, or its logits, rounded to float as runtimes hold it. */
static pl_status read_logits(pl_search *s, const pl_datum *d) {
    const pl_tensor *t = d == NULL ? NULL : d->tensor;
    pl_tensor *wide = NULL;
    if (t == NULL || t->rank != 3 || t->dims[0] != s->rows || t->dims[1] < 1 || t->dims[2] < 1)
        return pl_eval_fail(s->c, "the decoder's logits must be (batch, tokens, vocabulary)");
    if (s->vocab != 0 && s->vocab != t->dims[2])
        return pl_eval_fail(s->c, "%lld logits, but vocabularies of %lld", (long long)t->dims[2],
                            (long long)s->vocab);
    s->vocab = t->dims[2];
    if (s->scores == NULL)
        s->scores = pl_scratch(s->c, (size_t)(s->rows * s->vocab), sizeof(double));
    if (s->scores == NULL) return pl_eval_memory(s->c);
    PL_TRY(pl_tensor_cast(t, PL_F64, &wide, s->c->err));
    for (int64_t row = 0; row < s->rows; row++) {
        const double *x = (const double *)wide->data + ((row + 1) * t->dims[1] - 1) * s->vocab;
        double top = x[0], sum = 0;
        for (int64_t i = 1; i < s->vocab; i++)
            top = fmax(top, x[i]);
        for (int64_t i = 0; i < s->vocab; i++)
            sum += exp(x[i] - top);
        for (int64_t i = 0; i < s->vocab; i++) {
            const double y = s->of_logits ? x[i] : x[i] - top - log(sum);
            s->scores[row * s->vocab + i] = s->c->fp64 ? y : (double)(float)y;
        }
    }
    pl_tensor_unref(wide);
    return PL_OK;
}

/* ---- processors of the scores, in ONNX Runtime's order ---- */

static bool is_earlier(const int64_t *tokens, int64_t at) {
    for (int64_t i = 0; i < at; i++)
        if (tokens[i] == tokens[at]) return true;
    return false;
}

static void punish_repetition(const pl_search *s, const int64_t *tokens, double *scores) {
    for (int64_t i = 0; i < s->length && s->repetition != 1; i++) {
        const int64_t t = tokens[i];
        if (t < 0 || t >= s->vocab || is_earlier(tokens, i)) continue;
        const double y = scores[t] < 0 ? scores[t] * s->repetition : scores[t] / s->repetition;
        scores[t] = s->c->fp64 ? y : (double)(float)y;
    }
}

static void forbid_ngrams(const pl_search *s, const int64_t *tokens, double *scores) {
    if (s->ngram <= 0 || s->ngram > s->length) return;
    const int64_t n = s->ngram - 1;
    const int64_t *last = tokens + s->length - n;
    for (int64_t i = 0; i <= s->length - s->ngram; i++) {
        const int64_t next = tokens[i + n];
        if (next < 0 || next >= s->vocab) continue;
        if (memcmp(tokens + i, last, (size_t)n * sizeof(*last)) == 0)
            scores[next] = -(double)FLT_MAX;
    }
}

static void process(const pl_search *s, int64_t row) {
    double *scores = s->scores + row * s->vocab;
    const int64_t *tokens = s->tokens + row * s->longest;
    punish_repetition(s, tokens, scores);
    forbid_ngrams(s, tokens, scores);
    for (int64_t i = 0; s->vocab_mask != NULL && i < s->vocab; i++)
        if (s->vocab_mask[i] == 0) scores[i] = -(double)FLT_MAX;
    const bool first = s->first_mask != NULL && s->length == s->prompt;
    for (int64_t i = 0; first && i < s->vocab; i++)
        if (s->first_mask[row / s->beams * s->vocab + i] == 0) scores[i] = -(double)FLT_MAX;
    if (s->length < s->shortest && s->eos >= 0 && s->eos < s->vocab)
        scores[s->eos] = -(double)FLT_MAX;
}

pl_status pl_search_step(pl_search *s) {
    const size_t n_in = s->body->n_inputs, n_out = s->body->n_outputs;
    pl_datum **in = pl_calloc(n_in + 1, sizeof(*in)), **out = pl_calloc(n_out + 1, sizeof(*out));
    if (in == NULL || out == NULL) {
        pl_free(in);
        pl_free(out);
        return pl_eval_memory(s->c);
    }
    pl_status st = s->c->run_body == NULL ? pl_eval_unsupported(s->c, "bodies cannot be run here")
                                          : feed(s, in);
    if (st == PL_OK) st = s->c->run_body(s->c, s->body, in, n_in, out, n_out);
    if (st == PL_OK) st = read_logits(s, out[0]);
    for (int64_t row = 0; row < s->rows && st == PL_OK; row++)
        process(s, row);
    for (size_t i = 0; i < s->n_state && st == PL_OK; i++) {
        pl_datum_unref(s->state[i]);
        s->state[i] = out[i + 1];
        out[i + 1] = NULL;
    }
    for (size_t i = 0; i < n_in; i++)
        pl_datum_unref(in[i]);
    for (size_t i = 0; i < n_out; i++)
        pl_datum_unref(out[i]);
    pl_free(in);
    pl_free(out);
    return st;
}

/* ---- the next token ---- */

/* Rows of a cache, axis 1, in another order. */
static pl_status pick_state(const pl_search *s, pl_datum **state, const int64_t *from) {
    pl_tensor *dense = NULL, *t = NULL;
    const pl_tensor *whole = (*state)->kind == PL_TYPE_TENSOR ? (*state)->tensor : NULL;
    if (whole == NULL || whole->rank != 5 || whole->dims[0] != 2 || whole->dims[1] != s->rows)
        return pl_eval_fail(s->c, "a cache of the decoder does not have the shape of its input");
    PL_TRY(pl_tensor_contiguous(whole, &dense, s->c->err));
    pl_status st = pl_tensor_new(dense->dtype, 5, dense->dims, &t, s->c->err);
    const size_t row = st != PL_OK ? 0 : pl_tensor_bytes(dense) / (size_t)(2 * s->rows);
    for (int64_t half = 0; half < 2 && st == PL_OK; half++)
        for (int64_t i = 0; i < s->rows; i++)
            memcpy((char *)t->data + (size_t)(half * s->rows + i) * row,
                   (const char *)dense->data + (size_t)(half * s->rows + from[i]) * row, row);
    pl_tensor_unref(dense);
    if (st != PL_OK) return st;
    pl_datum_unref(*state);
    *state = NULL;
    return pl_datum_of_tensor_take(t, state, s->c->err);
}

static void pick_rows(const pl_search *s, int64_t **table, int64_t *spare, const int64_t *from) {
    for (int64_t i = 0; i < s->rows; i++)
        memcpy(spare + i * s->longest, *table + from[i] * s->longest,
               (size_t)s->length * sizeof(int64_t));
    memcpy(*table, spare, (size_t)(s->rows * s->longest) * sizeof(int64_t));
}

/* Masks and positions are of the prompt, which all beams of a row share. */
pl_status pl_search_take(pl_search *s, const int64_t *from, const int64_t *token) {
    pick_rows(s, &s->tokens, s->spare, from);
    for (int64_t i = 0; i < s->rows; i++) {
        s->tokens[i * s->longest + s->length] = token[i];
        s->mask[i * s->longest + s->length] = 1;
        s->positions[i]++;
    }
    s->length++;
    /* With one beam ONNX Runtime leaves the caches where they are, also those of rows that ended.
     */
    for (size_t i = 0; i < s->n_state && s->length < s->longest && s->beams > 1; i++)
        PL_TRY(pick_state(s, &s->state[i], from));
    return PL_OK;
}
