/* Conversions of the element type: Cast, CastLike, BitCast.
 *
 * Numbers go through blocks of the widest type that holds both sides (see cast_block); float8 and
 * float4 are rounded once from double with the attributes saturate and round_mode. Text is in
 * type_text.c. */
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/bound.h"
#include "ops/grad.h"
#include "ops/lib/content.h"
#include "ops/lib/move.h"
#include "ops/lib/type_text.h"
#include "ops/tensor/cast_rules.h"

extern const pl_op_def pl_ops_type[];

enum { BLOCK = 1024, GRAIN = 16 * BLOCK };

#define CAST_TYPES (PL_T_ANY & ~PL_T_COMPLEX)

/* ---- shape rules ---- */

static pl_status cast_set(pl_infer *c, pl_dtype to) {
    const int rank = pl_infer_rank(c, 0);
    if (to != PL_UNDEFINED && (CAST_TYPES & PL_T(to)) == 0) {
        return pl_infer_fail(c, "no cast to %s", pl_dtype_name(to));
    }
    if (!pl_attr_string_is(c->node, "round_mode", "up") &&
        !pl_attr_string_is(c->node, "round_mode", "down") &&
        !pl_attr_string_is(c->node, "round_mode", "nearest")) {
        return pl_infer_fail(c, "round_mode is not up, down or nearest");
    }
    PL_TRY(pl_infer_set(c, 0, to, rank, rank < 0 ? NULL : c->in[0]->dims));
    return pl_dtype_is_integer(to) ? pl_content_pass(c, rank) : PL_OK;
}

static pl_status cast_infer(pl_infer *c) {
    pl_dtype to;
    PL_TRY(pl_attr_dtype(c, "to", PL_UNDEFINED, &to));
    return cast_set(c, to);
}

/* Cast-1: the type is a string, as in the enum of TensorProto ("FLOAT16"). */
static pl_status cast1_infer(pl_infer *c) {
    static const struct {
        const char *name;
        pl_dtype dtype;
    } names[] = { { "FLOAT", PL_F32 },   { "UINT8", PL_U8 },      { "INT8", PL_I8 },
                  { "UINT16", PL_U16 },  { "INT16", PL_I16 },     { "INT32", PL_I32 },
                  { "INT64", PL_I64 },   { "STRING", PL_STRING }, { "BOOL", PL_BOOL },
                  { "FLOAT16", PL_F16 }, { "DOUBLE", PL_F64 },    { "UINT32", PL_U32 },
                  { "UINT64", PL_U64 } };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (pl_attr_string_is(c->node, "to", names[i].name)) {
            return cast_set(c, pl_infer_dtype(c, names[i].dtype));
        }
    }
    const pl_string to = pl_attr_string(c->node, "to");
    return pl_infer_fail(c, "'%.*s' is not an element type", (int)pl_size_min(to.n_bytes, 40),
                         to.data);
}

static pl_status cast_like_infer(pl_infer *c) {
    return cast_set(c, pl_infer_dtype_of(c, 1));
}

/* ---- numbers ---- */

typedef struct cast_job {
    pl_dtype from, to;
    size_t from_bytes, to_bytes;
    bool saturate;
    char mode;
    uint8_t f4_nan; /* NaN in F4E2M1, which has none: 6 in Cast-23's test vectors, -0 since 24 */
    const char *x;
    char *y;
} cast_job;

static void to_small_float(const cast_job *j, const char *x, char *y, size_t n) {
    double block[BLOCK];
    pl_load_f64(j->from, x, block, n);
    for (size_t i = 0; i < n; i++) {
        ((pl_u8 *)(void *)y)[i] = pl_f8_from_f64(j->to, block[i], j->saturate, j->mode);
        if (j->to == PL_F4E2M1 && isnan(block[i])) ((pl_u8 *)(void *)y)[i] = j->f4_nan;
    }
}

/* Intermediate types: int64 for integers and bool, float for float16 and narrower, else double. */
static void cast_block(const cast_job *j, const char *x, char *y, size_t n) {
    union {
        double f64[BLOCK];
        float f32[BLOCK];
        int64_t i64[BLOCK];
        uint64_t u64[BLOCK];
    } block;
    const bool from_float = pl_dtype_is_float(j->from), to_float = pl_dtype_is_float(j->to);
    if (to_float && j->to_bytes == 1) {
        to_small_float(j, x, y, n);
    } else if (j->from == PL_U64) {
        memcpy(block.u64, x, n * sizeof(*block.u64));
        pl_store_u64(j->to, block.u64, y, n);
    } else if (!from_float) {
        pl_load_i64(j->from, x, block.i64, n);
        pl_store_i64(j->to, block.i64, y, n);
    } else if (j->from != PL_F64 && (to_float || j->to == PL_BOOL)) {
        pl_load_f32(j->from, x, block.f32, n);
        pl_store_f32(j->to, block.f32, y, n);
    } else {
        pl_load_f64(j->from, x, block.f64, n);
        pl_store_f64(j->to, block.f64, y, n);
    }
}

static void cast_range(void *ctx, int64_t begin, int64_t end) {
    const cast_job *j = ctx;
    for (int64_t at = begin; at < end; at += BLOCK) {
        const size_t n = (size_t)pl_i64_min(BLOCK, end - at);
        cast_block(j, j->x + (size_t)at * j->from_bytes, j->y + (size_t)at * j->to_bytes, n);
    }
}

/* ---- text ---- */

static pl_status print_all(pl_eval *c, const pl_tensor *x, pl_tensor *y) {
    const size_t size = pl_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < x->n_elements; i++) {
        char text[64];
        const char *from = (const char *)x->data + (size_t)i * size;
        const float narrow = c->fp64 && x->dtype == PL_F64 ? (float)pl_tensor_get_f64(x, i) : 0;
        /* Gold holds the model's floats as doubles; a float must print as a float. */
        const bool is_f32 =
            c->fp64 && x->dtype == PL_F64 && (double)narrow == pl_tensor_get_f64(x, i);
        /* ONNX does not say how a bool is printed: 1 as in ONNX Runtime, or True as in Python. */
        const pl_dtype as = x->dtype == PL_BOOL && !c->otherwise ? PL_U8 : x->dtype;
        const size_t n = is_f32 ? pl_element_print(PL_F32, &narrow, text, sizeof(text))
                                : pl_element_print(as, from, text, sizeof(text));
        PL_TRY(pl_tensor_set_string(y, i, text, n, c->err));
    }
    return PL_OK;
}

static pl_status parse_all(pl_eval *c, const cast_job *j, const pl_tensor *x) {
    const pl_string *items = x->data;
    for (int64_t i = 0; i < x->n_elements; i++) {
        if (pl_element_parse(items[i], j->to, j->saturate, j->mode,
                             j->y + (size_t)i * j->to_bytes)) {
            continue;
        }
        return pl_eval_fail(c, "element %lld, '%.*s', is not a number", (long long)i,
                            (int)pl_size_min(items[i].n_bytes, 60), items[i].data);
    }
    return PL_OK;
}

/* Reads and prints numbers independently of the program's locale. */
static pl_status cast_text(pl_eval *c, const cast_job *j, const pl_tensor *x, pl_tensor *y) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return pl_eval_memory(c);
    const locale_t before = uselocale(plain);
    const pl_status st = j->to == PL_STRING ? print_all(c, x, y) : parse_all(c, j, x);
    uselocale(before);
    freelocale(plain);
    return st;
}

static pl_status cast_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    cast_job j = { .from = x->dtype,
                   .to = y->dtype,
                   .from_bytes = pl_dtype_bytes(x->dtype),
                   .to_bytes = pl_dtype_bytes(y->dtype),
                   .saturate = pl_attr_int(c->node, "saturate") != 0,
                   .mode = pl_attr_string(c->node, "round_mode").data[0],
                   .f4_nan = c->node->opset < 24 ? 0x07 : 0x08,
                   .x = x->data,
                   .y = y->data };
    if (x->n_elements == 0) return PL_OK;
    if (j.from == j.to) {
        memcpy(y->data, x->data, pl_tensor_bytes(x));
        return pl_own_strings(c, y);
    }
    if (j.to == PL_STRING || j.from == PL_STRING) return cast_text(c, &j, x, y);
    pl_pool_for(c->pool, x->n_elements, GRAIN, cast_range, &j);
    return PL_OK;
}

/* ---- BitCast ---- */

static pl_status bitcast_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype from = pl_infer_dtype_of(c, 0);
    pl_dtype to;
    PL_TRY(pl_attr_dtype(c, "to", PL_UNDEFINED, &to));
    if (to == PL_STRING || (from != PL_UNDEFINED && pl_dtype_bits(from) != pl_dtype_bits(to))) {
        return pl_infer_fail(c, "%s and %s have different sizes", pl_dtype_name(from),
                             pl_dtype_name(to));
    }
    return pl_infer_set(c, 0, to, rank, rank < 0 ? NULL : c->in[0]->dims);
}

/* In memory a sub-byte type takes a byte, sign-extended for signed types. */
static pl_status bitcast_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (x->n_elements == 0) return PL_OK;
    memcpy(y->data, x->data, pl_tensor_bytes(x));
    const unsigned bits = pl_dtype_bits(y->dtype);
    if (bits >= 8) return PL_OK;
    const uint8_t mask = (uint8_t)((1u << bits) - 1);
    const uint8_t sign = (uint8_t)(1u << (bits - 1));
    const bool is_signed = y->dtype == PL_I4 || y->dtype == PL_I2;
    pl_u8 *bytes = y->data;
    for (int64_t i = 0; i < y->n_elements; i++) {
        const uint8_t low = (uint8_t)(bytes[i] & mask);
        bytes[i] = is_signed ? (uint8_t)((low ^ sign) - sign) : low;
    }
    return PL_OK;
}

/* ---- error bounds ---- */

/* Conversions to a float: one rounding, none when the type is wide enough. */
static double to_float_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)x;
    return e[0] + (c->p[0] != 0 ? pl_b_round(c, y) : 0);
}
static double to_bool_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)y;
    return e[0] > 0 && fabs(x[0]) <= 8 * e[0];
}
/* Truncation: covers what x can reach. Outside the range of the type (p0 to p1) C leaves the result
 * undefined, and processors differ. */
static double to_int_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double low = trunc(x[0] - c->p[2] * e[0]), high = trunc(x[0] + c->p[2] * e[0]);
    if (!(low >= c->p[0] && high <= c->p[1])) return HUGE_VAL;
    return fmax(high - y, y - low);
}
static double pass_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)x, (void)y;
    return e[0];
}

static bool is_wider(pl_dtype from, pl_dtype to) {
    if (!pl_dtype_is_float(from)) return from != PL_BOOL && pl_dtype_bits(from) > 8;
    return pl_dtype_unit_roundoff(from) < pl_dtype_unit_roundoff(to);
}

static pl_status cast_bound(pl_bound *c) {
    const pl_dtype from = c->in_native[0], to = c->out_native[0];
    if (from == PL_STRING || to == PL_STRING || pl_b_out(c, 0) == NULL) return PL_OK;
    pl_bound own = *c;
    own.n_in = 1; /* CastLike's second input only gives a type */
    if (pl_dtype_is_float(to)) {
        /* Four- and eight-bit types are rounded in the replay as well. */
        const bool same = pl_b_out(c, 0)->dtype == to && to != PL_F64;
        if (same && !pl_b_any_error(c)) return PL_OK;
        own.p[0] = is_wider(from, to);
        return own.p[0] == 0 && !pl_b_any_error(c) ? PL_OK : pl_b_each(&own, to_float_element);
    }
    if (!pl_dtype_is_float(from)) return pl_b_any_error(c) ? pl_b_each(&own, pass_element) : PL_OK;
    if (to == PL_BOOL) return pl_b_any_error(c) ? pl_b_each(&own, to_bool_element) : PL_OK;
    own.p[0] = to == PL_U64 ? 0 : (double)pl_dtype_int_min(to);
    own.p[1] = to == PL_U64 ? 0x1p64 : (double)pl_dtype_int_max(to);
    own.p[2] = pl_b_any_error(c) && !c->exact(c, 0) ? 8 : 0;
    return pl_b_each(&own, to_int_element);
}

static pl_status cast_grad(pl_grad *c) {
    c->dx[0] = pl_g_cast_like(c, c->dy[0], c->node->in[0]);
    return c->st;
}

/* ---- rows ---- */

#define ROUNDING PL_A_INT("saturate", 1), PL_A_STRING("round_mode", "up")
#define INPUT .in = PL_PORTS({ "input", CAST_TYPES, 0 })
#define OUTPUT .out = PL_PORTS({ "output", CAST_TYPES, 0 })
#define CASTS                                                                                      \
    .flags = PL_OP_SHAPE | PL_OP_CAST | PL_OP_OPEN, .eval = cast_eval, .grad = cast_grad,          \
    .bound = cast_bound, .autocast = PL_AMP_KEEP

/* clang-format off */
const pl_op_def pl_ops_type[] = {
    { .name = "BitCast", .since = 26, .flags = PL_OP_NO_FP64,
      .in = PL_PORTS({ "input", PL_T_ANY & ~PL_T_STRING, 0 }),
      .out = PL_PORTS({ "output", PL_T_ANY & ~PL_T_STRING, 0 }),
      .attrs = PL_ATTRS(PL_A_REQUIRED("to", INT)), .infer = bitcast_infer, .eval = bitcast_eval,
      .grad = PL_GRAD_UNDEFINED, .bound = PL_BOUND_EXACT, .emit = pl_emit_bit_cast, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = BitCast<to=6>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(int8[4] x) => (y) { y = BitCast<to=2>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "Cast", .since = 1, .until = 5, CASTS, INPUT, OUTPUT,
      .attrs = PL_ATTRS(PL_A_REQUIRED("to", STRING), ROUNDING), .infer = cast1_infer, .emit = pl_emit_cast,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Cast<to=\"DOUBLE\">(x) }", NULL, 0 }) },
    { .name = "Cast", .since = 6, CASTS, INPUT, OUTPUT,
      .attrs = PL_ATTRS(PL_A_REQUIRED("to", INT), ROUNDING), .infer = cast_infer, .emit = pl_emit_cast,
      .samples = PL_SAMPLES({ "(float[2,3] x) => (y) { y = Cast<to=11>(x) }", NULL, 0 },
                            { "(float[2,3] x) => (y) { y = Cast<to=10>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(int64[2,3] x) => (y) { y = Cast<to=9>(x) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(bool[2,3] x) => (y) { y = Cast<to=8>(x) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "CastLike", .since = 15, CASTS, OUTPUT,
      .in = PL_PORTS({ "input", CAST_TYPES, 0 }, { "target_type", CAST_TYPES, 0 }),
      .attrs = PL_ATTRS(ROUNDING), .infer = cast_like_infer, .emit = pl_emit_cast,
      .samples = PL_SAMPLES({ "(float[2,3] x, double[1] t) => (y) { y = CastLike(x, t) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
