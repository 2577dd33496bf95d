/* Types and constants of the ONNX text form.
 *
 * In tensors of float16, bfloat16, float8 and float4 an integer is the bit pattern, as in ONNX's
 * own parser and printer; a number with a point or exponent is a value (our extension). */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/size.h"
#include "graph/text/text_int.h"

pl_status pl_text_reserve(pl_text_parser *p, void *items, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity || pl_array_grow(items, capacity, size)) return PL_OK;
    return pl_fail_memory(p->err, n);
}

pl_status pl_text_intern(pl_text_parser *p, pl_string s, const char **out) {
    *out = pl_model_intern(p->model, s.data, s.n_bytes);
    return *out == NULL ? pl_fail_memory(p->err, s.n_bytes) : PL_OK;
}

pl_status pl_text_parse_cstring(pl_text_parser *p, const char **out) {
    pl_string s;
    (void)pl_lex_peek(&p->lex);
    const size_t at = p->lex.at;
    PL_TRY(pl_lex_string(&p->lex, &s));
    if (memchr(s.data, '\0', s.n_bytes) != NULL)
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "string contains a NUL byte");
    *out = pl_arena_strndup(p->model->arena, s.data, s.n_bytes);
    return *out == NULL ? pl_fail_memory(p->err, s.n_bytes) : PL_OK;
}

pl_status pl_text_parse_int(pl_text_parser *p, int64_t *out) {
    pl_lex_number number;
    PL_TRY(pl_lex_number_read(&p->lex, &number));
    return pl_lex_number_i64(&p->lex, &number, out);
}

/* ---- types ---- */

static bool word_is(pl_string word, const char *s) {
    return word.n_bytes == strlen(s) && memcmp(word.data, s, word.n_bytes) == 0;
}

bool pl_text_is_type_word(const char *s, size_t n) {
    const pl_string word = { s, n };
    return pl_dtype_by_name(s, n) != PL_UNDEFINED || word_is(word, "seq") || word_is(word, "map") ||
           word_is(word, "optional") || word_is(word, "sparse_tensor") || word_is(word, "opaque");
}

bool pl_text_next_is_type(pl_text_parser *p) {
    pl_string word;
    return pl_lex_peek_ident(&p->lex, &word) && pl_text_is_type_word(word.data, word.n_bytes);
}

static pl_status parse_dim(pl_text_parser *p, pl_dim *out) {
    pl_string name;
    bool found;
    *out = PL_DIM_UNKNOWN;
    if (pl_lex_match(&p->lex, '?')) return PL_OK;
    PL_TRY(pl_lex_name(&p->lex, &name, &found));
    if (found && name.n_bytes == 0) return PL_OK; /* "" means no name, as in files */
    if (found) return pl_text_intern(p, name, &out->name);
    const size_t at = p->lex.at;
    PL_TRY(pl_text_parse_int(p, &out->value));
    if (out->value < 0)
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "dim %lld is negative", (long long)out->value);
    return PL_OK;
}

/* float = scalar, float[] = unknown rank, float[N,3] = rank 2. */
static pl_status parse_tensor_type(pl_text_parser *p, pl_dtype dtype, pl_type **out) {
    pl_dim dims[PL_RANK_MAX];
    int rank = 0;
    if (pl_lex_match(&p->lex, '[')) {
        if (pl_lex_match(&p->lex, ']')) {
            *out = pl_type_tensor_unranked(p->model->arena, dtype);
            return *out == NULL ? pl_fail_memory(p->err, sizeof **out) : PL_OK;
        }
        do {
            if (rank == PL_RANK_MAX)
                return pl_lex_fail(&p->lex, p->lex.at, PL_E_LIMIT, "type has more than %d dims",
                                   PL_RANK_MAX);
            PL_TRY(parse_dim(p, &dims[rank++]));
        } while (pl_lex_match(&p->lex, ','));
        PL_TRY(pl_lex_expect(&p->lex, ']'));
    }
    *out = pl_type_tensor(p->model->arena, dtype, rank, dims);
    return *out == NULL ? pl_fail_memory(p->err, sizeof **out) : PL_OK;
}

static pl_status parse_prim(pl_text_parser *p, pl_dtype *out) {
    pl_string word;
    (void)pl_lex_peek(&p->lex);
    const size_t at = p->lex.at;
    PL_TRY(pl_lex_ident(&p->lex, &word));
    *out = pl_dtype_by_name(word.data, word.n_bytes);
    if (*out == PL_UNDEFINED)
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "expected an element type, found '%.*s'",
                           (int)pl_size_min(word.n_bytes, 60), word.data);
    return PL_OK;
}

static pl_status parse_type_at(pl_text_parser *p, int depth, const pl_type **out);

static pl_status parse_container(pl_text_parser *p, pl_string word, int depth, pl_type **out) {
    const pl_type *elem = NULL;
    pl_dtype dtype = PL_UNDEFINED;
    pl_type_kind kind = PL_TYPE_SEQUENCE;
    PL_TRY(pl_lex_expect(&p->lex, '('));
    if (word_is(word, "sparse_tensor")) {
        PL_TRY(parse_prim(p, &dtype));
        PL_TRY(parse_tensor_type(p, dtype, out));
        (*out)->kind = PL_TYPE_SPARSE;
        return pl_lex_expect(&p->lex, ')');
    }
    if (word_is(word, "optional")) kind = PL_TYPE_OPTIONAL;
    if (word_is(word, "map")) {
        kind = PL_TYPE_MAP;
        PL_TRY(parse_prim(p, &dtype));
        PL_TRY(pl_lex_expect(&p->lex, ','));
    }
    PL_TRY(parse_type_at(p, depth + 1, &elem));
    *out = pl_type_of(p->model->arena, kind, elem);
    if (*out == NULL) return pl_fail_memory(p->err, sizeof **out);
    (*out)->dtype = dtype;
    return pl_lex_expect(&p->lex, ')');
}

static pl_status parse_type_at(pl_text_parser *p, int depth, const pl_type **out) {
    pl_type *type = NULL;
    pl_string word;
    pl_dtype dtype;
    (void)pl_lex_peek(&p->lex);
    const size_t at = p->lex.at;
    if (depth > PL_TEXT_TYPE_DEPTH_MAX)
        return pl_lex_fail(&p->lex, at, PL_E_LIMIT, "type is nested deeper than %d",
                           PL_TEXT_TYPE_DEPTH_MAX);
    if (!pl_text_next_is_type(p)) return pl_lex_fail_expected(&p->lex, "a type");
    PL_TRY(pl_lex_ident(&p->lex, &word));
    dtype = pl_dtype_by_name(word.data, word.n_bytes);
    if (word_is(word, "opaque"))
        return pl_lex_fail(&p->lex, at, PL_E_UNSUPPORTED, "opaque types are not supported");
    if (dtype != PL_UNDEFINED) {
        PL_TRY(parse_tensor_type(p, dtype, &type));
    } else {
        PL_TRY(parse_container(p, word, depth, &type));
    }
    *out = type;
    return PL_OK;
}

pl_status pl_text_parse_type(pl_text_parser *p, const pl_type **out) {
    return parse_type_at(p, 0, out);
}

/* ---- constants ---- */

static pl_status fail_range(pl_text_parser *p, const pl_lex_number *number, pl_dtype dtype) {
    return pl_lex_fail(&p->lex, number->at, PL_E_FORMAT, "'%.*s' is out of the range of %s",
                       (int)pl_size_min(number->text.n_bytes, 40), number->text.data,
                       pl_dtype_name(dtype));
}

static pl_status parse_integer_element(pl_text_parser *p, pl_dtype dtype, void *to) {
    pl_lex_number number;
    int64_t i;
    PL_TRY(pl_lex_number_read(&p->lex, &number));
    if (dtype == PL_U64) {
        uint64_t u;
        PL_TRY(pl_lex_number_u64(&p->lex, &number, &u));
        memcpy(to, &u, sizeof u);
        return PL_OK;
    }
    PL_TRY(pl_lex_number_i64(&p->lex, &number, &i));
    if (i < pl_dtype_int_min(dtype) || i > pl_dtype_int_max(dtype))
        return fail_range(p, &number, dtype);
    pl_store_i64(dtype, &i, to, 1);
    return PL_OK;
}

static pl_status parse_bool_element(pl_text_parser *p, uint8_t *to) {
    pl_lex_number number;
    pl_string word;
    int64_t i;
    if (pl_lex_peek_ident(&p->lex, &word) && (word_is(word, "true") || word_is(word, "false"))) {
        *to = word_is(word, "true");
        p->lex.at += word.n_bytes;
        return PL_OK;
    }
    PL_TRY(pl_lex_number_read(&p->lex, &number));
    PL_TRY(pl_lex_number_i64(&p->lex, &number, &i));
    if (i != 0 && i != 1) return fail_range(p, &number, PL_BOOL);
    *to = (uint8_t)i;
    return PL_OK;
}

static pl_status parse_small_float_element(pl_text_parser *p, pl_dtype dtype, uint8_t *to) {
    pl_lex_number number;
    uint64_t bits;
    double value;
    PL_TRY(pl_lex_number_read(&p->lex, &number));
    if (number.is_float) {
        PL_TRY(pl_lex_number_f64(&p->lex, &number, &value));
        pl_store_f64(dtype, &value, to, 1);
        return PL_OK;
    }
    PL_TRY(pl_lex_number_u64(&p->lex, &number, &bits));
    if (bits >> pl_dtype_bits(dtype) != 0) return fail_range(p, &number, dtype);
    to[0] = (uint8_t)bits;
    if (pl_dtype_bytes(dtype) == 2) to[1] = (uint8_t)(bits >> 8);
    return PL_OK;
}

/* One number of a float or complex tensor; complex ones are written as pairs. */
static pl_status parse_float_element(pl_text_parser *p, bool wide, void *to) {
    pl_lex_number number;
    float f;
    double d;
    PL_TRY(pl_lex_number_read(&p->lex, &number));
    if (wide) {
        PL_TRY(pl_lex_number_f64(&p->lex, &number, &d));
        memcpy(to, &d, sizeof d);
    } else {
        PL_TRY(pl_lex_number_f32(&p->lex, &number, &f));
        memcpy(to, &f, sizeof f);
    }
    return PL_OK;
}

static pl_status parse_element(pl_text_parser *p, pl_tensor *t, int64_t i) {
    const pl_dtype dtype = t->dtype;
    uint8_t *data = t->data;
    pl_string s;
    switch (pl_dtype_class_of(dtype)) {
    case PL_CLASS_STRING:
        PL_TRY(pl_lex_string(&p->lex, &s));
        return pl_tensor_set_string(t, i, s.data, s.n_bytes, p->err);
    case PL_CLASS_BOOL: return parse_bool_element(p, data + i);
    case PL_CLASS_INT:
    case PL_CLASS_UINT:
        return parse_integer_element(p, dtype, data + (size_t)i * pl_dtype_bytes(dtype));
    case PL_CLASS_COMPLEX:
        return parse_float_element(p, dtype == PL_C128,
                                   data + (size_t)i * (dtype == PL_C128 ? 8 : 4));
    case PL_CLASS_FLOAT:
        if (dtype == PL_F32 || dtype == PL_F64)
            return parse_float_element(p, dtype == PL_F64,
                                       data + (size_t)i * pl_dtype_bytes(dtype));
        return parse_small_float_element(p, dtype, data + (size_t)i * pl_dtype_bytes(dtype));
    case PL_CLASS_NONE: break;
    }
    return pl_lex_fail(&p->lex, p->lex.at, PL_E_UNSUPPORTED,
                       "constants of type %s are not supported", pl_dtype_name(dtype));
}

static pl_status parse_elements(pl_text_parser *p, pl_tensor *t, int64_t n_numbers) {
    for (int64_t i = 0; i < n_numbers; i++) {
        if (i > 0) PL_TRY(pl_lex_expect(&p->lex, ','));
        PL_TRY(parse_element(p, t, i));
    }
    return pl_lex_expect(&p->lex, '}');
}

/* Dims of a constant's type, and how many numbers must follow: at most what the text has room for,
 * so that a short text cannot ask for a huge tensor. */
static pl_status constant_dims(pl_text_parser *p, const pl_type *type, int64_t *dims,
                               int64_t *n_numbers) {
    const size_t at = p->lex.at;
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !pl_type_is_concrete(type))
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT,
                           "a constant requires a tensor type with known dims");
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].value;
    if (!pl_dims_product(type->rank, dims, n_numbers))
        return pl_lex_fail(&p->lex, at, PL_E_LIMIT, "dims of the constant overflow");
    if (pl_dtype_class_of(type->dtype) == PL_CLASS_COMPLEX && !pl_i64_mul(*n_numbers, 2, n_numbers))
        return pl_lex_fail(&p->lex, at, PL_E_LIMIT, "dims of the constant overflow");
    if (*n_numbers > 0 && (uint64_t)*n_numbers > (p->lex.n_text - at) / 2 + 1)
        return pl_lex_fail(&p->lex, at, PL_E_FORMAT, "constant has fewer values than its shape");
    return PL_OK;
}

pl_status pl_text_parse_tensor(pl_text_parser *p, const pl_type *type, pl_tensor **out) {
    int64_t dims[PL_RANK_MAX] = { 0 };
    int64_t n_numbers = 0;
    pl_tensor *t = NULL;
    pl_status st;
    if (pl_lex_peek(&p->lex) == '[')
        return pl_lex_fail(&p->lex, p->lex.at, PL_E_UNSUPPORTED,
                           "external data is not supported in text; write the values in {}");
    PL_TRY(pl_lex_expect(&p->lex, '{'));
    PL_TRY(constant_dims(p, type, dims, &n_numbers));
    PL_TRY(pl_tensor_new(type->dtype, type->rank, dims, &t, p->err));
    st = parse_elements(p, t, n_numbers);
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    *out = t;
    return PL_OK;
}
