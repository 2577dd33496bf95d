/* Comparisons, logic, bitwise operations and selection, with broadcasting. */
#include <math.h>
#include <string.h>

#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/lib/content_map.h"
#include "ops/lib/elementwise.h"
#include "ops/lib/legacy_broadcast.h"
#include "ops/math/binary_rules.h"
#include "ops/math/logical_rules.h"

extern const pl_op_def pl_ops_logical[];

/* ---- formulas ---- */

#define COMPARISON(name, OP)                                                                       \
    PL_BINARY_LOOP(name##_f64, pl_f64, pl_u8, x OP y)                                              \
    PL_BINARY_LOOP(name##_f32, pl_f32, pl_u8, x OP y)                                              \
    PL_BINARY_LOOP(name##_i64, pl_i64, pl_u8, x OP y)                                              \
    PL_BINARY_LOOP(name##_u64, pl_u64, pl_u8, x OP y)                                              \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        static const pl_binary_ops ops = {                                                         \
            .f64_b = name##_f64, .f32_b = name##_f32, .i64_b = name##_i64, .u64_b = name##_u64     \
        };                                                                                         \
        return pl_eval_two(c, &ops);                                                               \
    }
#define LOGIC(name, EXPR)                                                                          \
    PL_BINARY_LOOP(name##_b, pl_u8, pl_u8, EXPR)                                                   \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        static const pl_binary_ops ops = { .b = name##_b };                                        \
        return pl_eval_two(c, &ops);                                                               \
    }
#define BITWISE(name, OP)                                                                          \
    PL_BINARY_LOOP(name##_i64, pl_i64, pl_i64, x OP y)                                             \
    static pl_status name##_eval(pl_eval *c) {                                                     \
        static const pl_binary_ops ops = { .i64 = name##_i64 };                                    \
        return pl_eval_binary(c, &ops, NULL);                                                      \
    }

COMPARISON(less, <)
COMPARISON(less_equal, <=)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)
COMPARISON(equal_number, ==)
LOGIC(and, (x != 0) & (y != 0))
LOGIC(or, (x != 0) | (y != 0))
LOGIC(xor, (x != 0) != (y != 0))
LOGIC(equal_bool, (x != 0) == (y != 0))
BITWISE(bit_and, &)
BITWISE(bit_or, |)
BITWISE(bit_xor, ^)

/* ---- Equal ---- */

static pl_status equal_strings(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *y = pl_in(c, 1);
    pl_tensor *z = pl_out(c, 0);
    pl_broadcast b;
    pl_broadcast_init(&b, z->rank, z->dims, 2, (const pl_tensor *const[]){ x, y });
    const int64_t sx = pl_broadcast_step(&b, 0), sy = pl_broadcast_step(&b, 1);
    pl_u8 *to = z->data;
    for (int64_t row = 0; row < b.n_outer; row++) {
        const pl_string *p = (const pl_string *)x->data + pl_broadcast_row(&b, 0, row);
        const pl_string *q = (const pl_string *)y->data + pl_broadcast_row(&b, 1, row);
        for (int64_t i = 0; i < b.n_inner; i++) {
            const pl_string s = p[i * sx], t = q[i * sy];
            *to++ = s.n_bytes == t.n_bytes &&
                    (s.n_bytes == 0 || memcmp(s.data, t.data, s.n_bytes) == 0);
        }
    }
    return PL_OK;
}

static pl_status equal_eval(pl_eval *c) {
    const pl_dtype dtype = pl_in(c, 0)->dtype;
    if (pl_out(c, 0)->n_elements == 0) return PL_OK;
    if (dtype == PL_STRING) return equal_strings(c);
    return dtype == PL_BOOL ? equal_bool_eval(c) : equal_number_eval(c);
}

/* ---- Where ---- */

typedef struct where_job {
    const pl_u8 *condition;
    const char *x, *y;
    char *z;
    size_t n_bytes; /* of an element */
    pl_broadcast b;
    int64_t chunk, n_chunks; /* of a row */
} where_job;

typedef struct pl_b16 { /* complex128 */
    pl_u64 half[2];
} pl_b16;

/* Steps are 0 or 1; with constant steps the loops vectorise. */
#define SELECT_LOOP(T, SC, SX, SY)                                                                 \
    for (size_t i = 0; i < n; i++)                                                                 \
        z[i] = k[i * (SC)] != 0 ? x[i * (SX)] : y[i * (SY)];
#define SELECT(name, T)                                                                            \
    static void name(const pl_u8 *k, size_t sk, const void *x_, size_t sx, const void *y_,         \
                     size_t sy, void *z_, size_t n) {                                              \
        const T *x = x_, *y = y_;                                                                  \
        T *z = z_;                                                                                 \
        if (sk == 1 && sx == 1 && sy == 1) {                                                       \
            SELECT_LOOP(T, 1, 1, 1)                                                                \
        } else if (sk == 1 && sx == 1) {                                                           \
            const T v = y[0];                                                                      \
            for (size_t i = 0; i < n; i++)                                                         \
                z[i] = k[i] != 0 ? x[i] : v;                                                       \
        } else if (sk == 1 && sy == 1) {                                                           \
            const T v = x[0];                                                                      \
            for (size_t i = 0; i < n; i++)                                                         \
                z[i] = k[i] != 0 ? v : y[i];                                                       \
        } else {                                                                                   \
            SELECT_LOOP(T, sk, sx, sy)                                                             \
        }                                                                                          \
    }
SELECT(select_1, pl_u8)
SELECT(select_2, pl_u16)
SELECT(select_4, pl_u32)
SELECT(select_8, pl_u64)
SELECT(select_16, pl_b16)

static void where_units(void *ctx, int64_t begin, int64_t end) {
    const where_job *j = ctx;
    const size_t sk = (size_t)pl_broadcast_step(&j->b, 0);
    const size_t sx = (size_t)pl_broadcast_step(&j->b, 1), sy = (size_t)pl_broadcast_step(&j->b, 2);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / j->n_chunks, from = unit % j->n_chunks * j->chunk;
        const size_t at = (size_t)from;
        const size_t n = (size_t)(j->b.n_inner - from < j->chunk ? j->b.n_inner - from : j->chunk);
        const pl_u8 *k = j->condition + pl_broadcast_row(&j->b, 0, row) + at * sk;
        const char *x = j->x + ((size_t)pl_broadcast_row(&j->b, 1, row) + at * sx) * j->n_bytes;
        const char *y = j->y + ((size_t)pl_broadcast_row(&j->b, 2, row) + at * sy) * j->n_bytes;
        char *z = j->z + ((size_t)(row * j->b.n_inner) + at) * j->n_bytes;
        switch (j->n_bytes) {
        case 1: select_1(k, sk, x, sx, y, sy, z, n); break;
        case 2: select_2(k, sk, x, sx, y, sy, z, n); break;
        case 4: select_4(k, sk, x, sx, y, sy, z, n); break;
        case 8: select_8(k, sk, x, sx, y, sy, z, n); break;
        default: select_16(k, sk, x, sx, y, sy, z, n); break;
        }
    }
}

static pl_status where_strings(pl_eval *c, const where_job *j) {
    pl_tensor *z = pl_out(c, 0);
    const int64_t sk = pl_broadcast_step(&j->b, 0);
    const int64_t sx = pl_broadcast_step(&j->b, 1), sy = pl_broadcast_step(&j->b, 2);
    int64_t to = 0;
    for (int64_t row = 0; row < j->b.n_outer; row++) {
        const pl_u8 *k = j->condition + pl_broadcast_row(&j->b, 0, row);
        const pl_string *x =
            (const pl_string *)(const void *)j->x + pl_broadcast_row(&j->b, 1, row);
        const pl_string *y =
            (const pl_string *)(const void *)j->y + pl_broadcast_row(&j->b, 2, row);
        for (int64_t i = 0; i < j->b.n_inner; i++, to++) {
            const pl_string s = k[i * sk] != 0 ? x[i * sx] : y[i * sy];
            PL_TRY(pl_tensor_set_string(z, to, s.data, s.n_bytes, c->err));
        }
    }
    return PL_OK;
}

static pl_status where_eval(pl_eval *c) {
    enum { CHUNK = 8192, UNIT_MIN = 16 * 1024 };
    const pl_tensor *k = pl_in(c, 0), *x = pl_in(c, 1), *y = pl_in(c, 2);
    pl_tensor *z = pl_out(c, 0);
    if (z->n_elements == 0) return PL_OK;
    where_job job = { .condition = k->data,
                      .x = x->data,
                      .y = y->data,
                      .z = z->data,
                      .n_bytes = pl_dtype_bytes(x->dtype),
                      .chunk = CHUNK };
    pl_broadcast_init(&job.b, z->rank, z->dims, 3, (const pl_tensor *const[]){ k, x, y });
    if (x->dtype == PL_STRING) return where_strings(c, &job);
    job.n_chunks = (job.b.n_inner + CHUNK - 1) / CHUNK;
    const int64_t per_unit = job.b.n_inner < CHUNK ? job.b.n_inner : CHUNK;
    const int64_t grain = UNIT_MIN / per_unit > 1 ? UNIT_MIN / per_unit : 1;
    pl_pool_for(c->pool, job.b.n_outer * job.n_chunks, grain, where_units, &job);
    return PL_OK;
}

/* ---- shape rules ---- */

static pl_status compare_infer(pl_infer *c) {
    return c->node->opset < 7 ? pl_infer_legacy_broadcast(c, PL_BOOL) : pl_infer_broadcast_bool(c);
}

/* Dims are never negative, so `shape == -1` is false even for a symbol. */
static pl_element compare_elements(int op, const pl_element *in) {
    (void)op;
    const pl_element a = in[0], b = in[1];
    if (a.known && b.known) return pl_element_of(a.dim.value == b.dim.value);
    const bool a_symbol = !a.known && a.dim.name != NULL, b_symbol = !b.known && b.dim.name != NULL;
    if (a_symbol && b_symbol && pl_dim_equal(a.dim, b.dim)) return pl_element_of(1);
    if (a_symbol && b.known && b.dim.value < 0) return pl_element_of(0);
    if (b_symbol && a.known && a.dim.value < 0) return pl_element_of(0);
    return PL_ELEMENT_UNKNOWN;
}

static pl_status equal_infer(pl_infer *c) {
    PL_TRY(compare_infer(c));
    return c->node->opset < 7 ? PL_OK : pl_content_map(c, 2, compare_elements, 0);
}

static pl_element select_element(int op, const pl_element *in) {
    (void)op;
    if (!in[0].known) return PL_ELEMENT_UNKNOWN;
    return in[0].dim.value != 0 ? in[1] : in[2];
}

static pl_status where_infer(pl_infer *c) {
    pl_dim dims[PL_RANK_MAX];
    int rank = 0;
    PL_TRY(pl_infer_broadcast_inputs(c, 0, 2, &rank, dims));
    const pl_dtype dtype = pl_infer_dtype_of(c, 1);
    PL_TRY(pl_infer_set(c, 0, dtype != PL_UNDEFINED ? dtype : pl_infer_dtype_of(c, 2), rank, dims));
    return pl_content_map(c, 3, select_element, 0);
}

/* ---- error bounds: 1 where the answer may be the other one ---- */

static double compare_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)y;
    const double error = e[0] + e[1];
    return error > 0 && (x[0] == x[1] || fabs(x[0] - x[1]) <= 8 * error);
}
static pl_status compare_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each_legacy(c, compare_element) : PL_OK;
}

/* A certain operand may decide alone: false && x, true || x. */
static double and_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)y;
    if ((x[0] == 0 && e[0] == 0) || (x[1] == 0 && e[1] == 0)) return 0;
    return e[0] > 0 || e[1] > 0;
}
static double or_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)y;
    if ((x[0] != 0 && e[0] == 0) || (x[1] != 0 && e[1] == 0)) return 0;
    return e[0] > 0 || e[1] > 0;
}
static double xor_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)x, (void)y;
    return e[0] > 0 || e[1] > 0;
}
static pl_status and_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each_legacy(c, and_element) : PL_OK;
}
static pl_status or_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each_legacy(c, or_element) : PL_OK;
}
static pl_status xor_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each_legacy(c, xor_element) : PL_OK;
}

/* Bound of the selected side. If the condition is uncertain: of both sides, plus their distance. */
static double where_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)c, (void)y;
    if (e[0] == 0) return x[0] != 0 ? e[1] : e[2];
    return x[1] == x[2] ? fmax(e[1], e[2]) : fabs(x[1] - x[2]) + fmax(e[1], e[2]);
}
static pl_status where_bound(pl_bound *c) {
    if (!pl_b_any_error(c) || c->out_native[0] == PL_STRING) return PL_OK;
    return pl_b_each(c, where_element);
}

/* ---- gradient ---- */

static pl_status where_grad(pl_grad *c) {
    pl_value *condition = c->node->in[0], *dy = c->dy[0];
    if (c->wanted[1]) (void)pl_g_give(c, 1, pl_g_keep(c, condition, dy));
    if (!c->wanted[2]) return c->st;
    return pl_g_give(c, 2, pl_g_select(c, condition, pl_g_number(c, dy, 0), dy));
}

/* ---- rows ---- */

#define AB(types, out_types)                                                                       \
    .in = PL_PORTS({ "A", types, PL_PORT_SAME }, { "B", types, PL_PORT_SAME }),                    \
    .out = PL_PORTS({ "C", out_types, 0 })
#define TEXT(name, type, attrs)                                                                    \
    "(" type "[2,3,4] a, " type "[4] b) => (c) { c = " name attrs "(a, b) }"
#define RULES(bound_) .grad = PL_GRAD_UNDEFINED, .bound = bound_
#define TO_BOOL(name_, since_, types, type, infer_fn, fn, bound_, amp, flags_)                     \
    {                                                                                              \
        .name = name_, .since = since_, .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE | (flags_),       \
        AB(types, PL_T_BOOL), .infer = infer_fn, .eval = fn##_eval, RULES(bound_),                 \
        .emit = pl_emit_##fn, .autocast = amp,                                                     \
        .samples = PL_SAMPLES({ TEXT(name_, type, ""), NULL, PL_SAMPLE_NO_GRAD })                  \
    }
#define TO_BOOL_OLD(name_, types, type, infer_fn, fn, bound_, amp)                                 \
    {                                                                                              \
        .name = name_, .since = 1, .until = 6, .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE,           \
        AB(types, PL_T_BOOL), .attrs = PL_ATTRS(PL_LEGACY_ATTRS), .infer = infer_fn,               \
        .eval = fn##_eval, RULES(bound_), .emit = pl_emit_##fn, .autocast = amp,                   \
        .samples = PL_SAMPLES({ TEXT(name_, type, "<broadcast=1>"), NULL, PL_SAMPLE_NO_GRAD },     \
                              { "(" type "[2,3,4] a, " type "[3] b) => (c) { c = " name_           \
                                "<broadcast=1, axis=1>(a, b) }",                                   \
                                NULL, PL_SAMPLE_NO_GRAD })                                         \
    }
#define BITS(name_, fn)                                                                            \
    {                                                                                              \
        .name = name_, .since = 18, .flags = PL_OP_ELEMENTWISE | PL_OP_COMMUTATIVE,                \
        AB(PL_T_INT, PL_T_INT), .infer = pl_infer_broadcast, .eval = fn##_eval,                    \
        RULES(pl_bits_bound), .emit = pl_emit_##fn, .autocast = PL_AMP_KEEP,                       \
        .samples = PL_SAMPLES({ TEXT(name_, "int32", ""), NULL, PL_SAMPLE_NO_GRAD },               \
                              { TEXT(name_, "uint8", ""), NULL, PL_SAMPLE_NO_GRAD })               \
    }
#define EQUAL_TYPES (PL_T_NUMERIC | PL_T_BOOL | PL_T_STRING)

/* clang-format off */
const pl_op_def pl_ops_logical[] = {
    TO_BOOL("And", 7, PL_T_BOOL, "bool", compare_infer, and, and_bound, PL_AMP_KEEP, PL_OP_COMMUTATIVE),
    TO_BOOL_OLD("And", PL_T_BOOL, "bool", compare_infer, and, and_bound, PL_AMP_KEEP),
    BITS("BitwiseAnd", bit_and),
    BITS("BitwiseOr", bit_or),
    BITS("BitwiseXor", bit_xor),
    TO_BOOL("Equal", 7, EQUAL_TYPES, "int64", equal_infer, equal, compare_bound, PL_AMP_WIDEST, PL_OP_COMMUTATIVE),
    TO_BOOL_OLD("Equal", EQUAL_TYPES, "int64", equal_infer, equal, compare_bound, PL_AMP_WIDEST),
    TO_BOOL("Greater", 7, PL_T_NUMERIC, "float", compare_infer, greater, compare_bound, PL_AMP_WIDEST, 0),
    TO_BOOL_OLD("Greater", PL_T_NUMERIC, "float", compare_infer, greater, compare_bound, PL_AMP_WIDEST),
    TO_BOOL("GreaterOrEqual", 12, PL_T_NUMERIC, "float", compare_infer, greater_equal, compare_bound, PL_AMP_WIDEST, 0),
    TO_BOOL("Less", 7, PL_T_NUMERIC, "float", compare_infer, less, compare_bound, PL_AMP_WIDEST, 0),
    TO_BOOL_OLD("Less", PL_T_NUMERIC, "float", compare_infer, less, compare_bound, PL_AMP_WIDEST),
    TO_BOOL("LessOrEqual", 12, PL_T_NUMERIC, "float", compare_infer, less_equal, compare_bound, PL_AMP_WIDEST, 0),
    TO_BOOL("Or", 7, PL_T_BOOL, "bool", compare_infer, or, or_bound, PL_AMP_KEEP, PL_OP_COMMUTATIVE),
    TO_BOOL_OLD("Or", PL_T_BOOL, "bool", compare_infer, or, or_bound, PL_AMP_KEEP),
    { .name = "Where", .since = 9, .flags = PL_OP_ELEMENTWISE | PL_OP_SHAPE,
      .in = PL_PORTS({ "condition", PL_T_BOOL, 0 }, { "X", PL_T_ANY, PL_PORT_SAME }, { "Y", PL_T_ANY, PL_PORT_SAME }),
      .out = PL_PORTS({ "output", PL_T_ANY, 0 }), .infer = where_infer, .eval = where_eval,
      .grad = where_grad, .bound = where_bound, .emit = pl_emit_where, .autocast = PL_AMP_WIDEST,
      .samples = PL_SAMPLES({ "(bool[3,1] c, float[2,3,4] x, float[4] y) => (z) { z = Where(c, x, y) }", NULL, 0 },
                            { "(float[2,3] x, float y) => (z) { c = Less(x, y) z = Where(c, x, y) }", NULL, PL_SAMPLE_NO_GRAD },
                            { "(bool[2,3] c, int64[2,3] x, int64 y) => (z) { z = Where(c, x, y) }", NULL, PL_SAMPLE_NO_GRAD }) },
    TO_BOOL("Xor", 7, PL_T_BOOL, "bool", compare_infer, xor, xor_bound, PL_AMP_KEEP, PL_OP_COMMUTATIVE),
    TO_BOOL_OLD("Xor", PL_T_BOOL, "bool", compare_infer, xor, xor_bound, PL_AMP_KEEP),
    { 0 },
};
/* clang-format on */
