/* Strings: StringNormalizer, StringConcat, StringSplit, RegexFullMatch, TfIdfVectorizer. */
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "base/strmap.h"
#include "base/utf8.h"
#include "ops/bound.h"
#include "ops/infer.h"
#include "ops/lib/elementwise.h"
#include "ops/text/letter_case.h"
#include "ops/text/regex.h"

extern const pl_op_def pl_ops_text[];

static const pl_string *strings_of(const pl_tensor *t) {
    return t->data;
}

/* ---- StringNormalizer-10 ---- */

typedef enum letter_change { KEEP_CASE, TO_LOWER, TO_UPPER } letter_change;

/* Invalid bytes stay unchanged. */
static void change_case(pl_buf *buf, pl_string s, letter_change change) {
    pl_buf_reset(buf);
    for (size_t at = 0; at < s.n_bytes;) {
        uint32_t letter = 0;
        char bytes[4];
        const size_t n = pl_letter_decode(s.data + at, s.n_bytes - at, &letter);
        if (letter == PL_LETTER_INVALID || change == KEEP_CASE) {
            pl_buf_append(buf, s.data + at, n);
        } else {
            letter = change == TO_LOWER ? pl_letter_lower(letter) : pl_letter_upper(letter);
            pl_buf_append(buf, bytes, pl_utf8_put(letter, bytes));
        }
        at += n;
    }
}

static pl_status normalizer_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, PL_STRING);
    const pl_dim first = pl_infer_dim(c, 0, 0);
    if (rank != 1 && (rank != 2 || (pl_dim_known(first) && first.value != 1))) {
        return pl_infer_fail(c, "the input must have shape [C] or [1,C]");
    }
    const pl_dim dims[2] = { rank == 1 ? PL_DIM_UNKNOWN : pl_dim_of(1), PL_DIM_UNKNOWN };
    size_t n = 0;
    (void)pl_attr_strings(c->node, "stopwords", &n);
    const pl_dim last = pl_infer_dim(c, 0, rank - 1);
    /* Without stop words nothing is dropped. */
    if (n == 0 && pl_dim_known(last) && last.value > 0) return pl_infer_set_like(c, 0, 0);
    return pl_infer_set(c, 0, PL_STRING, rank, dims);
}

/* The set of stop words, lower-cased when case does not matter. Keys are in scratch. */
static pl_status stop_words(pl_eval *c, bool fold, pl_buf *buf, pl_strmap *set) {
    size_t n = 0;
    const pl_string *words = pl_attr_strings(c->node, "stopwords", &n);
    for (size_t i = 0; i < n; i++) {
        change_case(buf, words[i], fold ? TO_LOWER : KEEP_CASE);
        if (!pl_buf_ok(buf)) return pl_eval_memory(c);
        char *key = pl_arena_strndup(c->scratch, pl_buf_str(buf), buf->n_bytes);
        if (key == NULL || pl_strmap_put_n(set, key, buf->n_bytes, key) != 0) {
            return pl_eval_memory(c);
        }
    }
    return PL_OK;
}

static pl_status normalizer_change(const pl_eval *c, letter_change *out) {
    static const char *const names[] = { "NONE", "LOWER", "UPPER" };
    for (int i = 0; i < 3; i++) {
        if (!pl_attr_string_is(c->node, "case_change_action", names[i])) continue;
        *out = (letter_change)i;
        return PL_OK;
    }
    return pl_eval_fail(c, "case_change_action is not NONE, LOWER or UPPER");
}

static pl_status normalizer_write(pl_eval *c, const pl_tensor *x, const bool *kept, int64_t n_kept,
                                  letter_change change, pl_buf *buf) {
    /* If everything is dropped, one empty string remains. */
    const int64_t n = n_kept == 0 ? 1 : n_kept, dims[2] = { x->rank == 1 ? n : 1, n };
    pl_tensor *y = NULL;
    PL_TRY(pl_out_new(c, 0, PL_STRING, x->rank, dims, &y));
    int64_t at = 0;
    for (int64_t i = 0; i < x->n_elements; i++) {
        if (!kept[i]) continue;
        change_case(buf, strings_of(x)[i], change);
        if (!pl_buf_ok(buf)) return pl_eval_memory(c);
        PL_TRY(pl_tensor_set_string(y, at++, pl_buf_str(buf), buf->n_bytes, c->err));
    }
    return PL_OK;
}

static pl_status normalizer_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const bool fold = pl_attr_int(c->node, "is_case_sensitive") == 0;
    letter_change change = KEEP_CASE;
    PL_TRY(normalizer_change(c, &change));
    bool *kept = pl_scratch(c, (size_t)x->n_elements, sizeof(*kept));
    if (kept == NULL) return pl_eval_memory(c);
    pl_buf buf = PL_BUF_INIT;
    pl_strmap stops = PL_STRMAP_INIT;
    int64_t n_kept = 0;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, stop_words(c, fold, &buf, &stops));
    for (int64_t i = 0; i < x->n_elements; i++) {
        change_case(&buf, strings_of(x)[i], fold ? TO_LOWER : KEEP_CASE);
        if (!pl_buf_ok(&buf)) PL_TRY_GOTO(done, st, pl_eval_memory(c));
        kept[i] =
            stops.n_entries == 0 || pl_strmap_get_n(&stops, pl_buf_str(&buf), buf.n_bytes) == NULL;
        if (kept[i]) n_kept++;
    }
    st = normalizer_write(c, x, kept, n_kept, change, &buf);
done:
    pl_buf_release(&buf);
    pl_strmap_release(&stops);
    return st;
}

/* ---- StringConcat-20 ---- */

static pl_status concat_eval(pl_eval *c) {
    const pl_tensor *const in[2] = { pl_in(c, 0), pl_in(c, 1) };
    pl_tensor *z = pl_out(c, 0);
    pl_broadcast b;
    if (z == NULL || z->n_elements == 0) return PL_OK;
    pl_broadcast_init(&b, z->rank, z->dims, 2, in);
    pl_buf buf = PL_BUF_INIT;
    pl_status st = PL_OK;
    for (int64_t row = 0, at = 0; row < b.n_outer; row++) {
        const int64_t x = pl_broadcast_row(&b, 0, row), y = pl_broadcast_row(&b, 1, row);
        for (int64_t i = 0; i < b.n_inner; i++) {
            const pl_string s = strings_of(in[0])[x + i * pl_broadcast_step(&b, 0)];
            const pl_string t = strings_of(in[1])[y + i * pl_broadcast_step(&b, 1)];
            pl_buf_reset(&buf);
            pl_buf_append(&buf, s.data, s.n_bytes);
            pl_buf_append(&buf, t.data, t.n_bytes);
            if (!pl_buf_ok(&buf)) PL_TRY_GOTO(done, st, pl_eval_memory(c));
            PL_TRY_GOTO(done, st,
                        pl_tensor_set_string(z, at++, pl_buf_str(&buf), buf.n_bytes, c->err));
        }
    }
done:
    pl_buf_release(&buf);
    return st;
}

/* ---- StringSplit-20 ---- */

static pl_status split_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    if (rank < 0) {
        PL_TRY(pl_infer_set_unranked(c, 0, PL_STRING));
        return pl_infer_set_unranked(c, 1, PL_I64);
    }
    if (rank >= PL_RANK_MAX) return pl_infer_fail(c, "rank %d exceeds the limit", rank + 1);
    pl_dim dims[PL_RANK_MAX];
    for (int i = 0; i < rank; i++)
        dims[i] = c->in[0]->dims[i];
    dims[rank] = PL_DIM_UNKNOWN;
    PL_TRY(pl_infer_set(c, 0, PL_STRING, rank + 1, dims));
    return pl_infer_set(c, 1, PL_I64, rank, dims);
}

typedef struct splitter {
    pl_string delimiter; /* empty: runs of white space */
    int64_t max;         /* maximum number of splits; INT64_MAX = unlimited */
} splitter;

static size_t skip_space(pl_string s, size_t at, bool space) {
    while (at < s.n_bytes) {
        uint32_t letter = 0;
        const size_t n = pl_letter_decode(s.data + at, s.n_bytes - at, &letter);
        if (pl_letter_is_space(letter) != space) break;
        at += n;
    }
    return at;
}

/* End of the text without trailing white space. */
static size_t trim_space(pl_string s, size_t from) {
    size_t end = from;
    for (size_t at = from; at < s.n_bytes;) {
        end = skip_space(s, at, false);
        at = skip_space(s, end, true);
    }
    return end;
}

/* The next part from *at on; false when there is none. `made` parts were returned before. After the
 * last allowed split the part is the whole rest. */
static bool next_part(const splitter *p, pl_string s, size_t *at, int64_t made, pl_string *out) {
    if (p->delimiter.n_bytes == 0) {
        const size_t begin = skip_space(s, *at, true);
        if (begin == s.n_bytes) return false;
        const size_t end = made >= p->max ? trim_space(s, begin) : skip_space(s, begin, false);
        *out = (pl_string){ s.data + begin, end - begin };
        *at = made >= p->max ? s.n_bytes : end;
        return true;
    }
    if (*at > s.n_bytes) return false; /* the last part was returned */
    const char *from = s.n_bytes == 0 ? "" : s.data + *at;
    const size_t rest = s.n_bytes - *at;
    const char *hit = made >= p->max || rest == 0
                          ? NULL
                          : memmem(from, rest, p->delimiter.data, p->delimiter.n_bytes);
    *out = (pl_string){ from, hit == NULL ? rest : (size_t)(hit - from) };
    *at = hit == NULL ? s.n_bytes + 1 : *at + out->n_bytes + p->delimiter.n_bytes;
    return true;
}

static pl_status split_write(pl_eval *c, const splitter *p, const pl_tensor *x, int64_t width) {
    int64_t dims[PL_RANK_MAX];
    pl_tensor *y = NULL;
    memcpy(dims, x->dims, sizeof(dims));
    dims[x->rank] = width;
    PL_TRY(pl_out_new(c, 0, PL_STRING, x->rank + 1, dims, &y));
    for (int64_t i = 0; i < x->n_elements; i++) {
        size_t at = 0;
        pl_string part;
        for (int64_t k = 0; next_part(p, strings_of(x)[i], &at, k, &part); k++) {
            PL_TRY(pl_tensor_set_string(y, i * width + k, part.data, part.n_bytes, c->err));
        }
    }
    return PL_OK;
}

static pl_status split_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    splitter p = { pl_attr_string(c->node, "delimiter"), INT64_MAX };
    if (pl_attr_has(c->node, "maxsplit") && pl_attr_int(c->node, "maxsplit") >= 0) {
        p.max = pl_attr_int(c->node, "maxsplit");
    }
    int64_t *counts = pl_scratch(c, (size_t)x->n_elements, sizeof(*counts)), width = 0;
    if (counts == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < x->n_elements; i++) {
        size_t at = 0;
        pl_string part;
        while (next_part(&p, strings_of(x)[i], &at, counts[i], &part))
            counts[i]++;
        width = pl_i64_max(width, counts[i]);
    }
    if (pl_wants(c, 0)) PL_TRY(split_write(c, &p, x, width));
    if (!pl_wants(c, 1)) return PL_OK;
    pl_tensor *z = NULL;
    PL_TRY(pl_out_new(c, 1, PL_I64, x->rank, x->dims, &z));
    pl_store_i64(PL_I64, counts, z->data, (size_t)x->n_elements);
    return PL_OK;
}

/* ---- RegexFullMatch-20 ---- */

static pl_status regex_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    return pl_infer_set(c, 0, PL_BOOL, rank, rank < 0 ? NULL : c->in[0]->dims);
}

static pl_status regex_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    const pl_string pattern = pl_attr_string(c->node, "pattern");
    pl_regex *regex = NULL;
    char text[600];
    const pl_status st =
        pl_regex_compile(c->scratch, pattern.data, pattern.n_bytes, &regex, c->err);
    if (st != PL_OK) {
        return pl_err_wrap(c->err, st, "%s", pl_node_describe(c->node, text, sizeof(text)));
    }
    for (int64_t i = 0; y != NULL && i < x->n_elements; i++) {
        const pl_string s = strings_of(x)[i];
        ((pl_u8 *)y->data)[i] = pl_regex_full_match(regex, s.data, s.n_bytes);
    }
    return PL_OK;
}

/* ---- TfIdfVectorizer-9 ---- */

typedef struct tfidf {
    const int64_t *counts, *indexes, *ints; /* attributes */
    const pl_string *strings;
    size_t n_counts, n_indexes, n_pool;
    int64_t min, max, skips, width;
    pl_strmap tokens; /* pool item -> token number + 1 */
    pl_strmap grams;  /* its token numbers -> position in the pool's list of grams + 1 */
} tfidf;

static const char *tfidf_attrs(const pl_node *node, tfidf *t) {
    size_t n_strings = 0, n_ints = 0;
    t->counts = pl_attr_ints(node, "ngram_counts", &t->n_counts);
    t->indexes = pl_attr_ints(node, "ngram_indexes", &t->n_indexes);
    t->strings = pl_attr_strings(node, "pool_strings", &n_strings);
    t->ints = pl_attr_ints(node, "pool_int64s", &n_ints);
    t->n_pool = n_strings > 0 ? n_strings : n_ints;
    t->min = pl_attr_int(node, "min_gram_length");
    t->max = pl_attr_int(node, "max_gram_length");
    t->skips = pl_attr_int(node, "max_skip_count");
    if ((n_strings > 0) == (n_ints > 0))
        return "exactly one of pool_strings and pool_int64s is required";
    if (t->min < 1 || t->max < t->min) return "min_gram_length or max_gram_length is out of range";
    if (t->skips < 0) return "max_skip_count is negative";
    if (t->n_indexes == 0) return "ngram_indexes is empty";
    for (size_t i = 0; i < t->n_counts; i++) {
        const int64_t next = i + 1 < t->n_counts ? t->counts[i + 1] : (int64_t)t->n_pool;
        if (t->counts[i] < 0 || next < t->counts[i] || next > (int64_t)t->n_pool) {
            return "ngram_counts is not ascending within the pool";
        }
    }
    for (size_t i = 0; i < t->n_indexes; i++) {
        if (t->indexes[i] < 0 || t->indexes[i] == INT64_MAX) return "ngram_indexes is negative";
        t->width = pl_i64_max(t->width, t->indexes[i] + 1);
    }
    return NULL;
}

static pl_status tfidf_infer(pl_infer *c) {
    tfidf t = { 0 };
    const char *bad = tfidf_attrs(c->node, &t);
    if (bad != NULL) return pl_infer_fail(c, "%s", bad);
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype(c, PL_F32);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank > 2) return pl_infer_fail(c, "the input must have shape [C] or [N,C]");
    const pl_dim width = pl_dim_of(t.width);
    const pl_dim dims[2] = { rank == 2 ? c->in[0]->dims[0] : width, width };
    return pl_infer_set(c, 0, dtype, rank == 2 ? 2 : 1, dims);
}

/* Key of a token in the map. */
static pl_string pool_key(const tfidf *t, size_t i) {
    if (t->strings != NULL) return t->strings[i];
    return (pl_string){ (const char *)&t->ints[i], sizeof(t->ints[i]) };
}

static pl_status tfidf_add_grams(pl_eval *c, tfidf *t, const uint32_t *numbers) {
    size_t id = 0;
    for (size_t n = 1; n <= t->n_counts; n++) {
        const size_t begin = (size_t)t->counts[n - 1];
        const size_t end = n < t->n_counts ? (size_t)t->counts[n] : t->n_pool;
        const bool used = (int64_t)n >= t->min && (int64_t)n <= t->max;
        for (size_t at = begin; at + n <= end; at += n, id++) {
            if (!used) continue;
            if (id >= t->n_indexes) return pl_eval_fail(c, "ngram_indexes is too short");
            if (pl_strmap_put_n(&t->grams, (const char *)&numbers[at], n * sizeof(*numbers),
                                (void *)(uintptr_t)(id + 1)) != 0) {
                return pl_eval_memory(c);
            }
        }
    }
    return PL_OK;
}

static pl_status tfidf_index(pl_eval *c, tfidf *t) {
    uint32_t *numbers = pl_scratch(c, t->n_pool, sizeof(*numbers));
    if (numbers == NULL) return pl_eval_memory(c);
    for (size_t i = 0; i < t->n_pool; i++) {
        const pl_string key = pool_key(t, i);
        uintptr_t number = (uintptr_t)pl_strmap_get_n(&t->tokens, key.data, key.n_bytes);
        if (number == 0) {
            number = t->tokens.n_entries + 1;
            if (pl_strmap_put_n(&t->tokens, key.data, key.n_bytes, (void *)number) != 0) {
                return pl_eval_memory(c);
            }
        }
        numbers[i] = (uint32_t)number;
    }
    return tfidf_add_grams(c, t, numbers);
}

/* Numbers of the input's tokens; 0 = not in the pool. */
static pl_status tfidf_tokens(pl_eval *c, const tfidf *t, const pl_tensor *x, uint32_t **out) {
    if ((x->dtype == PL_STRING) != (t->strings != NULL)) {
        return pl_eval_fail(c, "the input is %s, but the pool is not", pl_dtype_name(x->dtype));
    }
    uint32_t *numbers = pl_scratch(c, (size_t)x->n_elements, sizeof(*numbers));
    if (numbers == NULL) return pl_eval_memory(c);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const int64_t value = t->strings == NULL ? pl_tensor_get_i64(x, i) : 0;
        const pl_string key = t->strings == NULL
                                  ? (pl_string){ (const char *)&value, sizeof(value) }
                                  : strings_of(x)[i];
        numbers[i] = (uint32_t)(uintptr_t)pl_strmap_get_n(&t->tokens, key.data, key.n_bytes);
    }
    *out = numbers;
    return PL_OK;
}

/* Counts the grams that start at `at` with `distance` between their tokens. */
static void tfidf_count_at(const tfidf *t, const uint32_t *row, int64_t n, int64_t at,
                           int64_t distance, int64_t min, uint32_t *gram, double *out) {
    int64_t size = 0;
    for (int64_t i = at; i < n && size < t->max && size < (int64_t)t->n_counts; i += distance) {
        if (row[i] == 0) return;
        gram[size++] = row[i];
        if (size < min) continue;
        const uintptr_t id =
            (uintptr_t)pl_strmap_get_n(&t->grams, (const char *)gram, (size_t)size * sizeof(*gram));
        if (id > 0) out[t->indexes[id - 1]] += 1;
    }
}

/* Single tokens do not depend on the distance and are counted only for the first one. */
static void tfidf_count(const tfidf *t, const uint32_t *row, int64_t n, uint32_t *gram,
                        double *out) {
    int64_t min = t->min;
    for (int64_t distance = 1; distance <= n && distance - 1 <= t->skips; distance++) {
        for (int64_t at = 0; at < n; at++)
            tfidf_count_at(t, row, n, at, distance, min, gram, out);
        if (min == 1) min = 2;
        if (min > t->max) return;
    }
}

static pl_status tfidf_weigh(pl_eval *c, const tfidf *t, double *row) {
    size_t n_weights = 0;
    const float *weights = pl_attr_floats(c->node, "weights", &n_weights);
    const bool tf = pl_attr_string_is(c->node, "mode", "TF");
    const bool idf = pl_attr_string_is(c->node, "mode", "IDF");
    if (!tf && !idf && !pl_attr_string_is(c->node, "mode", "TFIDF")) {
        return pl_eval_fail(c, "mode is not TF, IDF or TFIDF");
    }
    if (n_weights > 0 && (int64_t)n_weights < t->width) {
        return pl_eval_fail(c, "weights has %zu elements, expected %lld", n_weights,
                            (long long)t->width);
    }
    for (int64_t i = 0; i < t->width && !tf; i++) {
        const double weight = n_weights > 0 ? (double)weights[i] : 1.0;
        if (idf) row[i] = row[i] > 0 ? weight : 0;
        if (!idf) row[i] *= weight;
    }
    return PL_OK;
}

static pl_status tfidf_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (y == NULL || y->n_elements == 0) return PL_OK;
    tfidf t = { 0 };
    const char *bad = tfidf_attrs(c->node, &t);
    if (bad != NULL) return pl_eval_fail(c, "%s", bad);
    pl_status st = PL_OK;
    uint32_t *numbers = NULL, *gram = pl_scratch(c, t.n_counts + 1, sizeof(*gram));
    double *row = pl_scratch(c, (size_t)t.width, sizeof(*row));
    if (gram == NULL || row == NULL) return pl_eval_memory(c);
    const int64_t n_rows = x->rank == 2 ? x->dims[0] : 1, n = x->n_elements / n_rows;
    PL_TRY_GOTO(done, st, tfidf_index(c, &t));
    PL_TRY_GOTO(done, st, tfidf_tokens(c, &t, x, &numbers));
    for (int64_t i = 0; i < n_rows; i++) {
        memset(row, 0, (size_t)t.width * sizeof(*row));
        tfidf_count(&t, numbers + i * n, n, gram, row);
        PL_TRY_GOTO(done, st, tfidf_weigh(c, &t, row));
        const size_t offset = (size_t)(i * t.width) * pl_dtype_bytes(y->dtype);
        pl_store_f64(y->dtype, row, (char *)y->data + offset, (size_t)t.width);
    }
done:
    pl_strmap_release(&t.tokens);
    pl_strmap_release(&t.grams);
    return st;
}

/* Counts times a weight. */
static double tfidf_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)x, (void)e;
    return pl_b_round(c, y);
}
static pl_status tfidf_bound(pl_bound *c) {
    pl_bound own = *c;
    own.n_in = 0;
    return pl_b_each(&own, tfidf_element);
}

/* ---- rows ---- */

#define STRINGS(name_)                                                                             \
    { name_, PL_T_STRING, 0 }
#define NO_NUMBERS .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT, .autocast = PL_AMP_KEEP

/* clang-format off */
const pl_op_def pl_ops_text[] = {
    { .name = "RegexFullMatch", .since = 20, .in = PL_PORTS(STRINGS("X")), .out = PL_PORTS({ "Y", PL_T_BOOL, 0 }),
      .attrs = PL_ATTRS(PL_A_STRING("pattern", "")), .infer = regex_infer, .eval = regex_eval, NO_NUMBERS, PL_EMIT_BREAK("strings have no C type"),
      .samples = PL_SAMPLES({ "() => (y) <string[2] x = {\"www.a-b.com\", \"a\"}> { y = RegexFullMatch<pattern = \"www\\\\.[\\\\w.-]+\\\\bcom\">(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "StringConcat", .since = 20, .in = PL_PORTS(STRINGS("X"), STRINGS("Y")), .out = PL_PORTS(STRINGS("Z")),
      .infer = pl_infer_broadcast, .eval = concat_eval, NO_NUMBERS, PL_EMIT_BREAK("strings have no C type"),
      .samples = PL_SAMPLES({ "() => (z) <string[2] x = {\"a\", \"b\"}, string[1] y = {\".com\"}> { z = StringConcat(x, y) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "StringNormalizer", .since = 10, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS(STRINGS("X")), .out = PL_PORTS(STRINGS("Y")),
      .attrs = PL_ATTRS(PL_A_STRING("case_change_action", "NONE"), PL_A_INT("is_case_sensitive", 0),
                        PL_A_LIST("stopwords", STRINGS), PL_A_STRING("locale", "")),
      .infer = normalizer_infer, .eval = normalizer_eval, NO_NUMBERS, PL_EMIT_BREAK("strings have no C type"),
      .samples = PL_SAMPLES({ "() => (y) <string[3] x = {\"Monday\", \"tuesday\", \"b\"}> { y = StringNormalizer<case_change_action = \"UPPER\", stopwords = [\"monday\"]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "StringSplit", .since = 20, .flags = PL_OP_OWN_OUT,
      .in = PL_PORTS(STRINGS("X")), .out = PL_PORTS(STRINGS("Y"), { "Z", PL_T_I64, 0 }),
      .attrs = PL_ATTRS(PL_A_STRING("delimiter", ""), PL_A_INT("maxsplit", -1)),
      .infer = split_infer, .eval = split_eval, NO_NUMBERS, PL_EMIT_BREAK("strings have no C type"),
      .samples = PL_SAMPLES({ "() => (y, z) <string[2] x = {\"a.com\", \"b.c.net\"}> { y, z = StringSplit<delimiter = \".\">(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "() => (y, z) <string[2] x = {\" a  b c\", \"d\"}> { y, z = StringSplit<maxsplit = 1>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "TfIdfVectorizer", .since = 9,
      .in = PL_PORTS({ "X", PL_T_STRING | PL_T_INDEX, 0 }), .out = PL_PORTS({ "Y", PL_T(PL_F32), 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("max_gram_length", INT), PL_A_REQUIRED("min_gram_length", INT),
                        PL_A_REQUIRED("max_skip_count", INT), PL_A_REQUIRED("mode", STRING),
                        PL_A_REQUIRED("ngram_counts", INTS), PL_A_REQUIRED("ngram_indexes", INTS),
                        PL_A_LIST("pool_strings", STRINGS), PL_A_LIST("pool_int64s", INTS), PL_A_LIST("weights", FLOATS)),
      .infer = tfidf_infer, .eval = tfidf_eval, .grad = PL_GRAD_UNDEFINED, .bound = tfidf_bound,
      PL_EMIT_BREAK("searches a table of n-grams"), .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(int32[2,6] x) => (y) { y = TfIdfVectorizer<mode = \"TF\", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, ngram_counts = [0, 4], ngram_indexes = [0, 1, 2, 3, 4, 5, 6], pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { 0 },
};
/* clang-format on */
