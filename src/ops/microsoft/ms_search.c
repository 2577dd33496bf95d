/* com.microsoft BeamSearch and GreedySearch over a decoder with a cache, as ONNX Runtime 1.27 does
 * them on the CPU (beam_search_scorer.cc, greedy_search_impl_gpt.h): twice as many candidates as
 * beams; a beam that ends is kept with its sum of log-probabilities over length^length_penalty; a
 * row is done when its best beam cannot beat the worst that is kept. */
#include <math.h>
#include <string.h>

#include "ops/infer.h"
#include "ops/microsoft/ms_search_rules.h"

extern const pl_op_def pl_ops_search[];

enum {
    NUM_BEAMS = 3,
    NUM_RETURN = 4,
    LENGTH_PENALTY = 5,
    BEAM_REPETITION = 6,
    GREEDY_REPETITION = 3
};

typedef struct kept { /* a beam that ended */
    double score;
    int64_t n;
    int64_t *tokens;
} kept;

typedef struct beams {
    pl_search s;
    int64_t n_return;
    double penalty;
    bool early;
    kept *best;      /* (batch, beams): worst first */
    int64_t *n_best; /* by row of the batch */
    bool *done;
    double *sums;          /* by beam: its log-probability */
    int64_t *from, *token; /* by beam: what it becomes */
    pl_tensor *all;        /* output 2, or NULL */
} beams;

/* ---- beams that ended ---- */

static double by_length(const beams *b, double sum, int64_t n) {
    const double score = sum / pow((double)n, b->penalty);
    return b->s.c->fp64 ? score : (double)(float)score;
}

/* Keeps the beam if there is room, or if it is better than the worst. */
static pl_status keep(beams *b, int64_t row, const int64_t *tokens, int64_t n, double sum) {
    kept *best = b->best + row * b->s.beams, k = { by_length(b, sum, n), n, NULL };
    int64_t *count = &b->n_best[row];
    if (*count == b->s.beams) {
        if (!(k.score > best[0].score)) return PL_OK;
        k.tokens = best[0].tokens;
        memmove(best, best + 1, (size_t)(--*count) * sizeof(*best));
    }
    if (k.tokens == NULL) k.tokens = pl_scratch(b->s.c, (size_t)b->s.longest, sizeof(int64_t));
    if (k.tokens == NULL) return pl_eval_memory(b->s.c);
    memcpy(k.tokens, tokens, (size_t)n * sizeof(*tokens));
    int64_t at = (*count)++;
    for (; at > 0 && best[at - 1].score > k.score; at--)
        best[at] = best[at - 1];
    best[at] = k;
    return PL_OK;
}

/* ---- candidates ---- */

typedef struct candidate {
    double score;
    int64_t beam, token;
} candidate;

/* The 2 * beams best of a row; of equal scores the first. */
static void find_candidates(const beams *b, int64_t row, candidate *top) {
    const pl_search *s = &b->s;
    const size_t most = (size_t)(2 * s->beams);
    size_t n = 0;
    for (int64_t beam = 0; beam < s->beams; beam++) {
        const double *scores = s->scores + (row * s->beams + beam) * s->vocab;
        for (int64_t i = 0; i < s->vocab; i++) {
            if (n == most && !(scores[i] > top[n - 1].score)) continue;
            size_t at = n < most ? n++ : n - 1;
            for (; at > 0 && scores[i] > top[at - 1].score; at--)
                top[at] = top[at - 1];
            top[at] = (candidate){ scores[i], beam, i };
        }
    }
}

/* ONNX Runtime 1.27 looks for the best candidate of a row from row * beams on, and not from row * 2
 * beams: among the second half of another row's and the first half of its own. It may go on longer
 * for it, never shorter. */
static double best_of_window(const beams *b, const candidate *tops, int64_t row) {
    const candidate *from = tops + row * b->s.beams;
    double best = from[0].score;
    for (int64_t i = 1; i < 2 * b->s.beams; i++)
        best = fmax(best, from[i].score);
    return best;
}

static pl_status choose(beams *b, int64_t row, const candidate *tops) {
    const pl_search *s = &b->s;
    const candidate *top = tops + row * 2 * s->beams;
    int64_t next = row * s->beams;
    const int64_t end = next + s->beams;
    for (int64_t i = 0; i < 2 * s->beams && next < end; i++) {
        const int64_t beam = row * s->beams + top[i].beam;
        if (top[i].token == s->eos) {
            if (i >= s->beams) continue;
            PL_TRY(keep(b, row, s->tokens + beam * s->longest, s->length, top[i].score));
            continue;
        }
        b->from[next] = beam;
        b->token[next] = top[i].token;
        b->sums[next++] = top[i].score;
    }
    if (b->n_best[row] < s->beams) return PL_OK;
    const double can = by_length(b, best_of_window(b, tops, row), s->length);
    b->done[row] = b->early || b->best[row * s->beams].score >= can;
    return PL_OK;
}

static void stay_done(beams *b, int64_t row) {
    for (int64_t i = 0; i < b->s.beams; i++) {
        b->from[row * b->s.beams + i] = 0;
        b->token[row * b->s.beams + i] = b->s.pad;
        b->sums[row * b->s.beams + i] = 0;
    }
}

static void add_sums(beams *b) {
    pl_search *s = &b->s;
    for (int64_t row = 0; row < s->rows; row++)
        for (int64_t i = 0; i < s->vocab; i++) {
            const double y = s->scores[row * s->vocab + i] + b->sums[row];
            s->scores[row * s->vocab + i] = s->c->fp64 ? y : (double)(float)y;
        }
}

/* ---- outputs ---- */

static void store(const pl_search *s, pl_tensor *t, int64_t at, double x) {
    (void)s;
    pl_store_f64(t->dtype, &x, (char *)t->data + (size_t)at * pl_dtype_bytes(t->dtype), 1);
}

/* Output 2: the scores of every step, zeros where the search had ended. */
static pl_status add_scores(beams *b) {
    const pl_search *s = &b->s;
    if (!pl_wants(s->c, 2)) return PL_OK;
    const int64_t step = s->length - s->prompt, n = s->rows * s->vocab;
    if (b->all == NULL) {
        const int64_t dims[] = { s->longest - s->prompt, s->batch, s->beams, s->vocab };
        PL_TRY(pl_out_new(s->c, 2, pl_eval_dtype(s->c, PL_F32), 4, dims, &b->all));
        memset(b->all->data, 0, pl_tensor_bytes(b->all));
    }
    for (int64_t i = 0; i < n; i++)
        store(s, b->all, step * n + i, s->scores[i]);
    return PL_OK;
}

static pl_status write_sequences(const beams *b) {
    const pl_search *s = &b->s;
    const int64_t dims[] = { s->batch, b->n_return, s->longest };
    pl_tensor *y = NULL, *scores = NULL;
    if (pl_wants(s->c, 0)) PL_TRY(pl_out_new(s->c, 0, PL_I32, 3, dims, &y));
    if (pl_wants(s->c, 1))
        PL_TRY(pl_out_new(s->c, 1, pl_eval_dtype(s->c, PL_F32), 2, dims, &scores));
    for (int64_t row = 0; row < s->batch; row++) {
        for (int64_t r = 0; r < b->n_return; r++) {
            const kept *k = &b->best[row * s->beams + b->n_best[row] - 1 - r];
            const int64_t to = row * b->n_return + r;
            for (int64_t i = 0; i < s->longest && y != NULL; i++)
                ((int32_t *)y->data)[to * s->longest + i] =
                    (int32_t)(i < k->n ? k->tokens[i] : s->pad);
            if (scores != NULL) store(s, scores, to, k->score);
        }
    }
    return PL_OK;
}

static pl_status finish(beams *b) {
    const pl_search *s = &b->s;
    for (int64_t row = 0; row < s->batch; row++) {
        for (int64_t i = 0; i < s->beams && !b->done[row]; i++) {
            const int64_t beam = row * s->beams + i;
            PL_TRY(keep(b, row, s->tokens + beam * s->longest, s->length, b->sums[beam]));
        }
    }
    return write_sequences(b);
}

/* ---- BeamSearch ---- */

static bool all_done(const beams *b) {
    for (int64_t row = 0; row < b->s.batch; row++)
        if (!b->done[row]) return false;
    return true;
}

static pl_status search(beams *b) {
    pl_search *s = &b->s;
    candidate *tops = pl_scratch(s->c, (size_t)(2 * s->rows), sizeof(*tops));
    if (tops == NULL) return pl_eval_memory(s->c);
    while (s->length < s->longest) {
        PL_TRY(pl_search_step(s));
        if (s->vocab < 2)
            return pl_eval_fail(s->c, "a search needs a vocabulary of at least two words");
        add_sums(b);
        PL_TRY(add_scores(b));
        for (int64_t row = 0; row < s->batch; row++)
            find_candidates(b, row, tops + row * 2 * s->beams);
        for (int64_t row = 0; row < s->batch; row++) {
            if (b->done[row]) {
                stay_done(b, row);
            } else {
                PL_TRY(choose(b, row, tops));
            }
        }
        PL_TRY(pl_search_take(s, b->from, b->token));
        if (all_done(b)) break;
    }
    return finish(b);
}

static pl_status begin(beams *b, int64_t n_beams) {
    pl_eval *c = b->s.c;
    PL_TRY(pl_search_init(&b->s, n_beams, BEAM_REPETITION));
    if (b->n_return < 1 || b->n_return > n_beams)
        return pl_eval_fail(c, "%lld sequences of %lld beams are asked for", (long long)b->n_return,
                            (long long)n_beams);
    const size_t rows = (size_t)b->s.rows, batch = (size_t)b->s.batch;
    b->best = pl_scratch(c, rows, sizeof(*b->best));
    b->n_best = pl_scratch(c, batch, sizeof(*b->n_best));
    b->done = pl_scratch(c, batch, sizeof(*b->done));
    b->sums = pl_scratch(c, rows, sizeof(*b->sums));
    b->from = pl_scratch(c, rows, sizeof(*b->from));
    b->token = pl_scratch(c, rows, sizeof(*b->token));
    if (b->best == NULL || b->n_best == NULL || b->done == NULL || b->sums == NULL ||
        b->from == NULL || b->token == NULL)
        return pl_eval_memory(c);
    for (int64_t i = 0; i < b->s.rows; i++) /* all beams are the same at first */
        b->sums[i] = i % n_beams == 0 ? 0 : -1e9;
    return PL_OK;
}

static pl_status beam_search_eval(pl_eval *c) {
    beams b = { .s.c = c };
    b.n_return = pl_in_int(c, NUM_RETURN, 1);
    b.penalty = pl_in_float(c, LENGTH_PENALTY, 1);
    b.early = pl_attr_int(c->node, "early_stopping") != 0;
    pl_status st = begin(&b, pl_in_int(c, NUM_BEAMS, 1));
    if (st == PL_OK) st = search(&b);
    pl_search_release(&b.s);
    return st;
}

/* ---- GreedySearch ---- */

static pl_status greedy(pl_search *s, int64_t *from, int64_t *token, bool *ended) {
    int64_t n_ended = 0;
    while (s->length < s->longest && n_ended < s->rows) {
        PL_TRY(pl_search_step(s));
        for (int64_t row = 0; row < s->rows; row++) {
            const double *scores = s->scores + row * s->vocab;
            from[row] = row;
            token[row] = 0;
            for (int64_t i = 1; i < s->vocab; i++)
                if (scores[i] > scores[token[row]]) token[row] = i;
            if (ended[row]) token[row] = s->pad;
            if (!ended[row] && token[row] == s->eos) {
                ended[row] = true;
                n_ended++;
                token[row] = s->pad;
            }
        }
        PL_TRY(pl_search_take(s, from, token));
    }
    return PL_OK;
}

static pl_status greedy_search_eval(pl_eval *c) {
    pl_search s = { .c = c, .of_logits = true };
    pl_tensor *y = NULL;
    pl_status st = pl_search_init(&s, 1, GREEDY_REPETITION);
    if (st == PL_OK) {
        int64_t *from = pl_scratch(c, (size_t)s.rows, sizeof(*from));
        int64_t *token = pl_scratch(c, (size_t)s.rows, sizeof(*token));
        bool *ended = pl_scratch(c, (size_t)s.rows, sizeof(*ended));
        st = from == NULL || token == NULL || ended == NULL ? pl_eval_memory(c)
                                                            : greedy(&s, from, token, ended);
    }
    const int64_t dims[] = { s.rows, s.longest };
    if (st == PL_OK && pl_wants(c, 0)) st = pl_out_new(c, 0, PL_I32, 2, dims, &y);
    for (int64_t i = 0; st == PL_OK && y != NULL && i < s.rows * s.longest; i++)
        ((int32_t *)y->data)[i] = (int32_t)(i % s.longest < s.length ? s.tokens[i] : s.pad);
    pl_search_release(&s);
    return st;
}

/* ---- shapes ---- */

static pl_dim constant(pl_infer *c, int i) {
    size_t n = 0;
    const int64_t *x = pl_infer_ints(c, i, &n);
    return x != NULL && n == 1 && x[0] >= 0 ? pl_dim_of(x[0]) : PL_DIM_UNKNOWN;
}

static pl_status beam_search_infer(pl_infer *c) {
    const pl_dim dims[] = { pl_infer_dim(c, 0, 0), constant(c, NUM_RETURN), constant(c, 1) };
    const pl_dim all[] = { PL_DIM_UNKNOWN, dims[0], constant(c, NUM_BEAMS), PL_DIM_UNKNOWN };
    const pl_dtype dtype = pl_infer_dtype(c, PL_F32);
    PL_TRY(pl_infer_set(c, 0, PL_I32, 3, dims));
    if (c->n_out > 1) PL_TRY(pl_infer_set(c, 1, dtype, 2, dims));
    return c->n_out > 2 ? pl_infer_set(c, 2, dtype, 4, all) : PL_OK;
}

static pl_status greedy_search_infer(pl_infer *c) {
    const pl_dim dims[] = { pl_infer_dim(c, 0, 0), constant(c, 1) };
    return pl_infer_set(c, 0, PL_I32, 2, dims);
}

/* clang-format off */
#define MS .domain = "com.microsoft", .since = 1
#define INT32(name, flags) { name, PL_T(PL_I32), flags }
#define OPTIONAL_FLOAT(name) { name, PL_T(PL_F32) | PL_T(PL_F16), PL_PORT_OPTIONAL }
#define ENDS(repetition)                                                                            \
    OPTIONAL_FLOAT(repetition), INT32("vocab_mask", PL_PORT_OPTIONAL),                              \
    INT32("prefix_vocab_mask", PL_PORT_OPTIONAL), INT32("attention_mask", PL_PORT_OPTIONAL)
#define ATTRS                                                                                       \
    PL_A_REQUIRED("decoder", GRAPH), { .name = "encoder", .type = PL_ATTR_GRAPH }, { .name = "init_decoder", .type = PL_ATTR_GRAPH }, \
    PL_A_REQUIRED("eos_token_id", INT), PL_A_REQUIRED("pad_token_id", INT), PL_A_INT("model_type", 0), \
    PL_A_INT("no_repeat_ngram_size", 0), PL_A_INT("vocab_size", -1), PL_A_INT("decoder_start_token_id", -1)
#define RULES                                                                                       \
    .flags = PL_OP_CONTROL | PL_OP_OWN_OUT, .bodies = PL_BODIES_OTHER, .grad = PL_GRAD_UNDEFINED,   \
    .bound = PL_BOUND_TODO, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_KEEP
/* A decoder of four words whose cache is what it read. */
#define SAMPLE_BODY                                                                                 \
    "decoder = d (int32[B,S] ids, int32[B,S] at, int32[B,T] mask, float[2,B,1,P,1] past) => (float[B,S,4] logits, float[2,B,1,T,1] present) " \
    "{ axes = Constant<value_ints = [0, 2, 4]>() table = Constant<value = float[4,4] {0.1,1.5,-0.4,0.3,0.9,0.2,1.1,-0.7,-0.3,0.8,0.4,1.2,0.6,-0.2,0.7,0.5}>() " \
    "logits = Gather(table, ids) u = Unsqueeze(ids, axes) f = Cast<to = 1>(u) both = Concat<axis = 0>(f, f) present = Concat<axis = 3>(past, both) }"

const pl_op_def pl_ops_search[] = {
    { .name = "BeamSearch", MS,
      .in = PL_PORTS(INT32("input_ids", 0), INT32("max_length", 0), INT32("min_length", PL_PORT_OPTIONAL), INT32("num_beams", 0), INT32("num_return_sequences", 0),
                     OPTIONAL_FLOAT("length_penalty"), ENDS("repetition_penalty"), INT32("decoder_input_ids", PL_PORT_OPTIONAL), INT32("logits_processor", PL_PORT_OPTIONAL)),
      .out = PL_PORTS(INT32("sequences", 0), { "sequences_scores", PL_T(PL_F32) | PL_T(PL_F16), PL_PORT_OPTIONAL }, { "scores", PL_T(PL_F32) | PL_T(PL_F16), PL_PORT_OPTIONAL }),
      .attrs = PL_ATTRS(ATTRS, PL_A_INT("early_stopping", 0)), .infer = beam_search_infer, .eval = beam_search_eval, RULES,
      .samples = PL_SAMPLES({ "(int32[2,3] x) => (y, s) <int32[1] m = {6}, int32[1] b = {2}, int32[1] r = {1}> { y, s = com.microsoft.BeamSearch(x, m, , b, r) <eos_token_id = 3, pad_token_id = 0, " SAMPLE_BODY "> }", "x=0:3", PL_SAMPLE_NO_GRAD }) },
    { .name = "GreedySearch", MS,
      .in = PL_PORTS(INT32("input_ids", 0), INT32("max_length", 0), INT32("min_length", PL_PORT_OPTIONAL), ENDS("repetition_penalty")),
      .out = PL_PORTS(INT32("sequences", 0)), .attrs = PL_ATTRS(ATTRS), .infer = greedy_search_infer, .eval = greedy_search_eval, RULES,
      .samples = PL_SAMPLES({ "(int32[2,3] x) => (y) <int32[1] m = {6}> { y = com.microsoft.GreedySearch(x, m) <eos_token_id = 3, pad_token_id = 0, " SAMPLE_BODY "> }", "x=0:3", PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */
