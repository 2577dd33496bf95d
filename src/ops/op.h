/* The operator table: one operator version is one row, in the file of its family.
 *
 * A row holds everything plumb knows about the operator: its signature, shape rule, kernel,
 * gradient, error bound, C emission, autocast class and samples. No other code knows operators by
 * name: no switch over op names outside the table. A missing rule is explicit (PL_GRAD_TODO), never
 * left empty; `plumb ops` counts them.
 *
 * The shape rule is the only place where output shapes are computed: `plumb info` calls it on types
 * that may be symbolic, and the interpreter calls it on the real tensors just before the kernel,
 * whose outputs are then allocated. */
#ifndef PL_OP_H
#define PL_OP_H

#include "base/buf.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_op_def pl_op_def;
typedef struct pl_infer pl_infer;                   /* infer.h */
typedef struct pl_eval pl_eval;                     /* eval.h */
typedef struct pl_grad pl_grad;                     /* grad.h */
typedef struct pl_bound pl_bound;                   /* bound.h */
typedef struct pl_emit pl_emit;                     /* emit.h */
typedef struct pl_undefined_rule pl_undefined_rule; /* undefined.h */

typedef pl_status (*pl_infer_fn)(pl_infer *c);
typedef pl_status (*pl_eval_fn)(pl_eval *c);
typedef pl_status (*pl_grad_fn)(pl_grad *c);
typedef pl_status (*pl_bound_fn)(pl_bound *c);
typedef pl_status (*pl_emit_fn)(pl_emit *c);

/* ---- what a row says about types ---- */
/* Bit n = dtype number n. */
#define PL_T(dtype) (1u << (dtype))
#define PL_T_FLOAT (PL_T(PL_F16) | PL_T(PL_BF16) | PL_T(PL_F32) | PL_T(PL_F64))
#define PL_T_FLOAT8                                                                                \
    (PL_T(PL_F8E4M3FN) | PL_T(PL_F8E4M3FNUZ) | PL_T(PL_F8E5M2) | PL_T(PL_F8E5M2FNUZ))
#define PL_T_SMALL_FLOAT (PL_T_FLOAT8 | PL_T(PL_F8E8M0) | PL_T(PL_F4E2M1))
#define PL_T_SIGNED (PL_T(PL_I8) | PL_T(PL_I16) | PL_T(PL_I32) | PL_T(PL_I64))
#define PL_T_UNSIGNED (PL_T(PL_U8) | PL_T(PL_U16) | PL_T(PL_U32) | PL_T(PL_U64))
#define PL_T_INT (PL_T_SIGNED | PL_T_UNSIGNED)
#define PL_T_SMALL_INT (PL_T(PL_U4) | PL_T(PL_I4) | PL_T(PL_U2) | PL_T(PL_I2))
#define PL_T_NUMERIC (PL_T_FLOAT | PL_T_INT)
#define PL_T_COMPLEX (PL_T(PL_C64) | PL_T(PL_C128))
#define PL_T_INDEX (PL_T(PL_I32) | PL_T(PL_I64))
#define PL_T_BOOL PL_T(PL_BOOL)
#define PL_T_I64 PL_T(PL_I64)
#define PL_T_STRING PL_T(PL_STRING)
#define PL_T_ANY                                                                                   \
    (PL_T_NUMERIC | PL_T_SMALL_FLOAT | PL_T_SMALL_INT | PL_T_BOOL | PL_T_STRING | PL_T_COMPLEX)

typedef enum pl_port_flags {
    PL_PORT_OPTIONAL = 1 << 0,
    PL_PORT_VARIADIC = 1 << 1,   /* last port only: any number, at least one unless OPTIONAL */
    PL_PORT_SAME = 1 << 2,       /* dtype equal to that of the first input with this flag */
    PL_PORT_NOT_TENSOR = 1 << 3, /* a sequence or an optional; types is of the tensors inside */
    PL_PORT_ANY_KIND = 1 << 4,   /* a tensor, a sequence or an optional */
    PL_PORT_INDEX = 1 << 5,      /* indexes input 0 along the attribute "axis" (default 0) */
    /* Meaning of generated integers: */
    PL_PORT_MASK = 1 << 6,   /* 0 or 1; rank 1: lengths up to dim 1 of input 0 */
    PL_PORT_LENGTH = 1 << 7, /* 1 to the dim of input 0 that "time_axis" or "layout" selects */
    PL_PORT_EXPONENT = 1 << 8,
    PL_PORT_TOTAL = 1 << 9,     /* total steps: dim 1 of input 0 plus dim 2 of input 3 (the past) */
    PL_PORT_LAST = 1 << 10,     /* index of the last step */
    PL_PORT_TUPLE = 1 << 11,    /* rows index the dims of input 0 from "batch_dims" on */
    PL_PORT_CLASS = 1 << 12,    /* indexes dim 1 of input 0 */
    PL_PORT_AXES = 1 << 13,     /* axes of input 0, each once */
    PL_PORT_POSITIVE = 1 << 14, /* not 0: divisors, sizes */
    PL_PORT_COUNT = 1 << 15,    /* 1 to the dim of input 0 along the attribute "axis" */
    PL_PORT_ROUTER = 1 << 16,   /* scores: each row is sent to those of the "k" largest */
    PL_PORT_OFFSETS = 1 << 17,  /* 0 to dim 0 of input 0, in equal steps: where sequences begin */
    PL_PORT_DISTINCT = 1 << 18, /* each once */
    PL_PORT_PAGES = 1 << 19,    /* lengths that pages (input 7, of input 3) have room for */
    PL_PORT_SLOTS = 1 << 20,    /* indexes dims 0 and 1 of input 3 as one, each once */
    PL_PORT_ROWS = 1 << 21,     /* PL_PORT_ROWS_OF(n): indexes the rows of input n */
} pl_port_flags;

#define PL_PORT_ROWS_OF(n) ((unsigned)PL_PORT_ROWS * ((n) + 1u))
#define PL_PORT_ROWS_INPUT(flags) ((int)((flags) / (unsigned)PL_PORT_ROWS) - 1) /* -1 = none */

typedef struct pl_port {
    const char *name; /* as in the ONNX specification: "X", "axes" */
    uint32_t types;   /* PL_T_… */
    unsigned flags;
} pl_port;

typedef struct pl_op_attr {
    const char *name;
    pl_attr_type type;
    bool required;
    double f;      /* default of FLOAT */
    int64_t i;     /* default of INT */
    const char *s; /* default of STRING */
} pl_op_attr;

/* ---- properties: passes and strategies ask for these, never for names ---- */
typedef enum pl_op_flags {
    PL_OP_ELEMENTWISE = 1 << 0, /* out[i] depends on in[..][i] (broadcast) only */
    PL_OP_VIEW = 1 << 1,        /* same elements, other shape: kernel shares the storage */
    PL_OP_RANDOM = 1 << 2,      /* unseeded results differ between runs */
    PL_OP_CONTROL = 1 << 3,     /* executes bodies */
    PL_OP_OWN_OUT = 1 << 4,     /* the kernel makes its outputs itself: data-dependent shape, view,
                                   sequence, optional */
    PL_OP_COMMUTATIVE = 1 << 5,
    PL_OP_REDUCTION = 1 << 6,
    PL_OP_SHAPE = 1 << 7, /* used in shape arithmetic: folded by inference when inputs are known */
    PL_OP_NO_FP64 = 1 << 8, /* gold runs this op in its native type */
    PL_OP_TRAINING = 1 << 9,
    PL_OP_PICKS = 1 << 11,       /* an integer output indexes input 0 along the attribute "axis"
                                    (ArgMax, TopK): ties may be broken either way */
    PL_OP_CAST = 1 << 12,        /* its purpose is to round to the type of its output */
    PL_OP_TRANSFORM = 1 << 10,   /* every output mixes a whole axis: errors are relative to the
                                    largest element, not to each (DFT) */
    PL_OP_CONSTANT = 1 << 13,    /* its output is in its attributes */
    PL_OP_DIMS = 1 << 14,        /* outputs dims "start" to "end" of input 0: known from its type */
    PL_OP_SUMS = 1 << 15,        /* sums products or windows (reductions do so anyway) */
    PL_OP_TIMES = 1 << 16,       /* multiplies input 0 by input 1 */
    PL_OP_QUANTIZE = 1 << 17,    /* quantises input 0; the scale is input 1 */
    PL_OP_DEQUANTIZE = 1 << 18,  /* dequantises input 0 */
    PL_OP_FINDS_SCALE = 1 << 19, /* quantises input 0; the computed scale is another output */
    PL_OP_ANY_ORDER = 1 << 20,   /* PICKS in any order if "sorted" is 0; output 0: the values */
    PL_OP_OPEN = 1 << 21,   /* ONNX is ambiguous: pl_eval.otherwise selects the other reading */
    PL_OP_LEVELS = 1 << 23, /* accuracy_level 4: input 0 may be rounded to 8 bits inside */
    PL_OP_NEAR_ONE =
        1 << 24,            /* computes with exp(x) beside 1: its rounding is 2 u of 1 (of its limit
                               alpha), however small the result; runtimes clamp such tails */
    PL_OP_ROUNDS = 1 << 25, /* the same numbers with fewer digits, reals in and out */
    PL_OP_HALVES = 1 << 26, /* … to those of half precision */
    PL_OP_NARROW_B = 1 << 27, /* in fp64, input 1 may be a weight in its own, narrower float type */
    PL_OP_FOREIGN = 1 << 22,  /* has no row: its domain is known only to backends (pl_op_foreign) */
} pl_op_flags;

/* PyTorch's autocast lists. */
typedef enum pl_autocast {
    PL_AMP_KEEP = 1, /* runs in the type of its inputs */
    PL_AMP_LOW,      /* runs in fp16/bf16 */
    PL_AMP_FP32,     /* inputs are converted to fp32 */
    PL_AMP_WIDEST    /* inputs are converted to the widest type among them */
} pl_autocast;

/* Values that an output must contain before the operator counts as exercised: random inputs often
 * miss the range where a fault shows (plumb analyze reports it). */
typedef enum pl_reach {
    PL_REACH_ANY = 0, /* any values */
    PL_REACH_CUT,     /* zeros and other values: it clips to 0 */
    PL_REACH_SIGNS,   /* negative and positive numbers */
    PL_REACH_UNIT,    /* its limits 0 and 1 */
    PL_REACH_LIMITS   /* its limits, attributes or constant inputs "min" and "max" */
} pl_reach;

/* Result when NaN is compared with numbers. */
typedef enum pl_nan {
    PL_NAN_TOLD = 0, /* defined by arithmetic or the specification */
    PL_NAN_EITHER,   /* NaN or the number: not defined which one is larger */
    PL_NAN_ANY       /* the order is undefined, and so is what depends on it */
} pl_nan;

/* Role of input 1 as the weights of a product. */
typedef enum pl_weights {
    PL_WEIGHTS_NONE = 0,
    PL_WEIGHTS_FOLD, /* a factor of the product can be folded into them */
    PL_WEIGHTS_ROWS  /* the same, and dim 0 is the channel of the output */
} pl_weights;

/* How the bodies run. */
typedef enum pl_bodies {
    PL_BODIES_NONE = 0,
    PL_BODIES_BRANCHES, /* one of them, once: If */
    PL_BODIES_LOOP,     /* inputs step, condition, state; outputs condition, state, slices: Loop */
    PL_BODIES_SCAN,     /* inputs state, slices; outputs state, slices: Scan (control.h) */
    PL_BODIES_OTHER     /* any number of times */
} pl_bodies;

/* Effect on a sequence (a list of tensors). */
typedef enum pl_list_use {
    PL_LIST_NONE = 0,
    PL_LIST_MAKE,   /* makes one from its inputs */
    PL_LIST_INSERT, /* inserts input 1 at position input 2 */
    PL_LIST_ERASE,  /* removes the tensor at position input 1 */
    PL_LIST_SPLIT,  /* splits input 0 along "axis" */
    PL_LIST_MAP,    /* applies its body to each */
    PL_LIST_PASS,   /* passes it on */
    PL_LIST_READ,   /* reads the tensor at position input 1 */
    PL_LIST_JOIN    /* joins it along "axis" to a tensor */
} pl_list_use;

/* The float operator that a quantised one corresponds to. */
typedef struct pl_plain_form {
    const char *op;       /* of ai.onnx */
    bool floats;          /* the result is float, not codes */
    signed char slots[5]; /* its inputs among those of the quantised one; ends with -1 */
} pl_plain_form;
#define PL_PLAIN(op_, floats_, ...)                                                                \
    .plain = &(const pl_plain_form) {                                                              \
        op_, floats_, {                                                                            \
            __VA_ARGS__, -1                                                                        \
        }                                                                                          \
    }

/* Attention: where its parts are, for the kinds of error that it can have. -1 = it has none. */
typedef struct pl_attends {
    signed char q, k;               /* inputs; k left out: q holds all three */
    signed char bias;               /* what is added to the scores: (batch, 1, rows, keys) */
    signed char cos;                /* the rotary table */
    signed char key_out, value_out; /* outputs: the cache (batch, heads, positions, size) */
    const char *heads;              /* attribute: number of query heads */
} pl_attends;
#define PL_ATTENDS(...)                                                                            \
    .attends = &(const pl_attends) {                                                               \
        __VA_ARGS__                                                                                \
    }

/* The factor that the operator applies to a channel if it is known, else 1. */
typedef double (*pl_fold_fn)(const pl_node *node, int64_t channel);
/* Upgrades a node of this row to the next version, with the same meaning (next_version.h). */
typedef pl_status (*pl_next_fn)(pl_node *node, pl_err *err);

/* A one-node (or small) graph in ONNX text, as pl_model_parse_graph reads it. Float inputs are
 * drawn near N(0,1) unless `ranges` says otherwise: "x=0.1:2 y=-1:1"; integers from 0 to 9
 * likewise. */
typedef struct pl_sample {
    const char *graph;
    const char *ranges; /* NULL = defaults */
    unsigned flags;
} pl_sample;
enum {
    PL_SAMPLE_NO_GRAD = 1 << 0, /* at a kink, or an integer case */
};

struct pl_op_def {
    const char *name;
    const char *domain;      /* NULL = ai.onnx */
    int since, until;        /* opset versions, inclusive; until 0 = still current */
    unsigned flags;          /* pl_op_flags */
    const pl_port *in, *out; /* PL_PORTS(...) */
    const pl_op_attr *attrs; /* PL_ATTRS(...); NULL = none */
    pl_infer_fn infer;
    pl_eval_fn eval;
    pl_grad_fn grad;
    const char *no_grad; /* why PL_GRAD_UNDEFINED; NULL = it has no derivative */
    pl_bound_fn bound;
    pl_emit_fn emit;
    const char *no_emit; /* why it is always a graph break: PL_EMIT_BREAK */
    pl_autocast autocast;
    pl_reach reach;
    pl_nan nan;
    pl_weights weights;
    pl_fold_fn folds; /* folds it into the weights of a product before it; NULL = it does not */
    pl_bodies bodies;
    pl_list_use list;
    const pl_plain_form *plain;         /* NULL = it is not quantised */
    const pl_attends *attends;          /* NULL = it is not attention */
    pl_next_fn next;                    /* NULL = no change needed for the next version */
    const pl_undefined_rule *undefined; /* NULL = every element of its outputs is defined */
    const pl_sample *samples;           /* PL_SAMPLES(...) */
};

/* Lists end with a zero entry. */
#define PL_PORTS(...) ((const pl_port[]){ __VA_ARGS__, { NULL, 0, 0 } })
#define PL_NO_PORTS ((const pl_port[]){ { NULL, 0, 0 } })
#define PL_ATTRS(...) ((const pl_op_attr[]){ __VA_ARGS__, { .name = NULL } })
#define PL_SAMPLES(...) ((const pl_sample[]){ __VA_ARGS__, { NULL, NULL, 0 } })
#define PL_A_INT(name_, default_)                                                                  \
    { .name = name_, .type = PL_ATTR_INT, .i = default_ }
#define PL_A_FLOAT(name_, default_)                                                                \
    { .name = name_, .type = PL_ATTR_FLOAT, .f = default_ }
#define PL_A_STRING(name_, default_)                                                               \
    { .name = name_, .type = PL_ATTR_STRING, .s = default_ }
#define PL_A_LIST(name_, type_)                                                                    \
    { .name = name_, .type = PL_ATTR_##type_ } /* INTS FLOATS … */
#define PL_A_REQUIRED(name_, type_)                                                                \
    { .name = name_, .type = PL_ATTR_##type_, .required = true }

/* Rules that are not functions of the operator. Calling a missing gradient or emission is an error
 * that names the op; an operator without a bound rule gets a wide bound (bound.h). */
pl_status pl_grad_todo(pl_grad *c);
pl_status pl_grad_zero(pl_grad *c);      /* derivative is zero almost everywhere */
pl_status pl_grad_undefined(pl_grad *c); /* not differentiable: integers, strings, control */
pl_status pl_bound_todo(pl_bound *c);
pl_status pl_bound_exact(pl_bound *c); /* no rounding: output is a selection of inputs */
pl_status pl_emit_todo(pl_emit *c);
pl_status pl_emit_never(pl_emit *c); /* PL_EMIT_BREAK */
#define PL_GRAD_TODO pl_grad_todo
#define PL_GRAD_ZERO pl_grad_zero
#define PL_GRAD_UNDEFINED pl_grad_undefined
#define PL_BOUND_TODO pl_bound_todo
#define PL_BOUND_EXACT pl_bound_exact
#define PL_EMIT_TODO pl_emit_todo
/* Used in place of .emit: the node is always a graph break, and `why` explains it. */
#define PL_EMIT_BREAK(why) .emit = pl_emit_never, .no_emit = why

/* ---- the registry (op_registry.c) ---- */
/* The row for an operator at an opset version, or NULL. */
const pl_op_def *pl_op_find(const char *domain, const char *name, int opset);
/* All rows, for `plumb ops`, docs and tests: family by family. Returns NULL past the end. */
const pl_op_def *pl_op_at(size_t i);
/* Name of the family (file) of row i. */
const char *pl_op_family(size_t i);

/* Finds the row of every node (bodies too), checks counts of inputs and outputs and attribute
 * types. Unknown op: PL_E_UNSUPPORTED that names op, domain, opset. */
pl_status pl_ops_resolve(pl_model *model, pl_err *err);
/* The same, but an unknown op of a domain that is not ONNX's own gets the row pl_op_foreign. */
pl_status pl_ops_resolve_known(pl_model *model, pl_err *err);
extern const pl_op_def pl_op_foreign; /* foreign.c */
/* Warning number i of a resolved model (op_warnings.c): foreign operators, missing opset imports,
 * unknown attributes. False when there are no more. */
bool pl_op_warning(const pl_model *model, size_t i, pl_buf *out);
/* First attribute of the node that its row does not declare; NULL = none. */
const char *pl_op_unknown_attr(const pl_node *node);

/* Can the result of this node differ between runs? Operators with a training_mode input only if it
 * is given. Resolved nodes only. */
bool pl_node_is_random(const pl_node *node);
bool pl_model_is_random(const pl_model *model); /* any node, bodies too */
/* The random operator that a value comes from, including its own; NULL = none nearby. */
const pl_node *pl_random_source(const pl_value *value);
const char *pl_node_label(const pl_node *node); /* its name, or that of its first output */
bool pl_model_has_flag(const pl_model *model, unsigned flag);
/* Works for unresolved nodes, too; false for NULL and for nodes without a row. */
bool pl_node_has_flag(const pl_node *node, unsigned flag);
/* PL_OP_LEVELS and the attribute asks for it */
bool pl_node_rounds_input(const pl_node *node);
pl_bodies pl_node_bodies(const pl_node *node); /* the same for bodies */

/* ---- attributes: the node's, else the row's default ---- */
int64_t pl_attr_int(const pl_node *node, const char *name);
double pl_attr_float(const pl_node *node, const char *name);
pl_string pl_attr_string(const pl_node *node, const char *name); /* empty when absent */
bool pl_attr_string_is(const pl_node *node, const char *name, const char *expected);
/* NULL and *n = 0 when absent. */
const int64_t *pl_attr_ints(const pl_node *node, const char *name, size_t *n);
const float *pl_attr_floats(const pl_node *node, const char *name, size_t *n);
const pl_string *pl_attr_strings(const pl_node *node, const char *name, size_t *n);
pl_tensor *pl_attr_tensor(const pl_node *node, const char *name); /* borrowed; NULL when absent */
pl_graph *pl_attr_graph(const pl_node *node, const char *name);   /* NULL when absent */
bool pl_attr_has(const pl_node *node, const char *name);          /* given on the node itself */

/* "node 'a' (Add-14) …: " + message. */
pl_status pl_node_fail(pl_err *err, pl_status status, const pl_node *node, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
