/* The table of injected faults: one row for each kind. Values are changed as doubles and converted,
 * so that every numeric type can be hit. */
#include "backends/jit/jit_fault.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/jit/jit_passes.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "base/size.h"

/* Input of a fault: the elements in C order, and their shape. */
typedef struct victim {
    double *x;
    int64_t n;
    int rank;
    const int64_t *dims;
    double top; /* largest magnitude; 1 when all are zero */
} victim;

struct pl_jit_fault_row {
    const char *kind;
    bool at_compile;
    pl_status (*act)(const pl_node *node, pl_err *err); /* instead of changing elements */
    void (*change)(victim *v);
};

#ifdef PL_INJECT
/* ---- kinds that end the run ---- */

static pl_status act_error(const pl_node *node, pl_err *err) {
    char text[600];
    return pl_fail(err, PL_E_BACKEND, "%s: run-time error (planted)",
                   pl_node_describe(node, text, sizeof(text)));
}

static pl_status act_crash(const pl_node *node, pl_err *err) {
    (void)node;
    (void)err;
    raise(SIGSEGV);
    return PL_E_INTERNAL;
}

static pl_status act_hang(const pl_node *node, pl_err *err) {
    (void)node;
    (void)err;
    while (getpid() > 0) /* forever */
        sleep(1000);
    return PL_E_INTERNAL;
}

/* ---- kinds that change elements ---- */

static void add_one(victim *v) { /* as in PyTorch's relu bug */
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] += 1;
}

static void noise(victim *v) {
    const uint64_t seed = (uint64_t)pl_clock_ns();
    for (int64_t i = 0; i < v->n; i++) {
        const double r = (double)(pl_rng_at(seed, 0, (uint64_t)i) >> 11) * 0x1p-53 - 0.5;
        v->x[i] += 0.01 * r * v->top;
    }
}

static void nan_one(victim *v) {
    v->x[v->n / 2] = (double)NAN;
}

static void round_bf16(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = (double)pl_bf16_to_f32(pl_bf16_from_f64(v->x[i]));
}

static void offset(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] += 0.1 * v->top;
}

static void scale(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] *= 1.05;
}

static void sign(victim *v) {
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = -v->x[i];
}

static void reverse(double *x, int64_t n) {
    for (int64_t i = 0; i < n / 2; i++) {
        const double t = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = t;
    }
}

/* Swaps the last two dims that are larger than one in memory; without two such dims, reverses. */
static void transpose(victim *v) {
    int64_t inner = 1, cols = 1, rows = 1;
    int d = v->rank - 1;
    for (; d >= 0 && v->dims[d] == 1; d--) {
    }
    if (d >= 0) cols = v->dims[d--];
    for (; d >= 0 && v->dims[d] == 1; d--) {
    }
    if (d >= 0) rows = v->dims[d];
    inner = rows * cols;
    double *copy = rows > 1 ? pl_malloc((size_t)inner * sizeof(*copy)) : NULL;
    if (copy == NULL) {
        reverse(v->x, v->n);
        return;
    }
    for (int64_t at = 0; at + inner <= v->n; at += inner) {
        memcpy(copy, v->x + at, (size_t)inner * sizeof(*copy));
        for (int64_t i = 0; i < inner; i++)
            v->x[at + i] = copy[i % rows * cols + i / rows];
    }
    pl_free(copy);
}

static int64_t last_dim(const victim *v) {
    for (int d = v->rank - 1; d >= 0; d--)
        if (v->dims[d] > 1) return v->dims[d];
    return 1;
}

static void shift(victim *v) {
    const int64_t row = last_dim(v);
    for (int64_t at = 0; at + row <= v->n; at += row) {
        const double last = v->x[at + row - 1];
        memmove(v->x + at + 1, v->x + at, (size_t)(row - 1) * sizeof(double));
        v->x[at] = row > 1 ? last : last + v->top;
    }
}

static void saturate(victim *v) {
    const double limit = 0.5 * v->top;
    for (int64_t i = 0; i < v->n; i++)
        v->x[i] = v->x[i] > limit ? limit : v->x[i] < -limit ? -limit : v->x[i];
}

static void channel(victim *v) {
    const int axis = v->rank > 1 && v->dims[1] > 1 ? 1 : v->rank - 1;
    const int64_t count = v->rank == 0 ? 1 : v->dims[axis];
    int64_t inner = 1;
    for (int d = axis + 1; d < v->rank; d++)
        inner *= v->dims[d];
    for (int64_t i = 0; i < v->n; i++)
        if (i / inner % count == count / 2) v->x[i] = 1.5 * v->x[i] + 0.1 * v->top;
}

/* As if the vector loop had no remainder loop: the last elements of a row are wrong. */
static void tail(victim *v) {
    const int64_t row = last_dim(v), ragged = row % 8;
    const int64_t n = ragged > 0 && 2 * ragged <= row ? ragged : pl_i64_max(row / 4, 1);
    for (int64_t i = 0; i < v->n; i++)
        if (i % row >= row - n) v->x[i] += 0.25 * v->top;
}

static void zero(victim *v) {
    const int64_t from = v->n / 4, to = pl_i64_max(3 * v->n / 4, from + 1);
    for (int64_t i = from; i < to; i++)
        v->x[i] = 0;
}

static void one_element(victim *v) {
    v->x[v->n / 3] += v->top;
}

/* clang-format off */
static const pl_jit_fault_row rows[] = {
    { "compile-error",    true,  NULL,      NULL },
    { "runtime-error",    false, act_error, NULL },
    { "crash",            false, act_crash, NULL },
    { "hang",             false, act_hang,  NULL },
    { "accuracy",         false, NULL,      add_one },
    { "nondeterministic", false, NULL,      noise },
    { "nan",              false, NULL,      nan_one },
    { "bf16",             false, NULL,      round_bf16 },
    { "offset",           false, NULL,      offset },
    { "scale",            false, NULL,      scale },
    { "sign",             false, NULL,      sign },
    { "transpose",        false, NULL,      transpose },
    { "shift",            false, NULL,      shift },
    { "saturate",         false, NULL,      saturate },
    { "channel",          false, NULL,      channel },
    { "tail",             false, NULL,      tail },
    { "zero",             false, NULL,      zero },
    { "one-element",      false, NULL,      one_element },
    { NULL,               false, NULL,      NULL },
};
/* clang-format on */
#else
static const pl_jit_fault_row rows[] = { { NULL, false, NULL, NULL } };
#endif

const char *pl_jit_fault_kind(size_t i) {
    for (size_t k = 0; rows[k].kind != NULL; k++)
        if (k == i) return rows[k].kind;
    return NULL;
}

bool pl_jit_fault_is_compile_error(const pl_jit_fault *fault) {
    return fault->row->at_compile;
}

static const char *kind_at(const void *ctx, size_t i) {
    (void)ctx;
    return pl_jit_fault_kind(i);
}

static pl_status fail_kind(const char *text, size_t n, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, text, n, kind_at, NULL);
    const pl_status st = pl_fail(err, PL_E_USAGE, "inject: no fault '%.*s'%s",
                                 (int)pl_size_min(n, 60), text, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

pl_status pl_jit_fault_parse(const char *text, pl_jit_fault *out, pl_err *err) {
    const size_t n_pass = strcspn(text, "/@");
    *out = (pl_jit_fault){ .pass = -1 };
    if (text[n_pass] == '/') {
        unsigned off = 0;
        char pass[32];
        snprintf(pass, sizeof(pass), "%.*s", (int)pl_size_min(n_pass, sizeof(pass) - 1), text);
        PL_TRY(jit_passes_parse(pass, &off, err));
        out->pass = jit_pass_find(pass, strlen(pass));
        text += n_pass + 1;
    }
    const size_t n_kind = strcspn(text, "@");
    if (rows[0].kind == NULL) {
        return pl_fail(err, PL_E_UNSUPPORTED, "this plumb was built without planted faults");
    }
    for (size_t i = 0; rows[i].kind != NULL; i++) {
        if (strlen(rows[i].kind) == n_kind && strncmp(rows[i].kind, text, n_kind) == 0) {
            out->row = &rows[i];
        }
    }
    if (out->row == NULL) return fail_kind(text, n_kind, err);
    const char *op = text + n_kind + (text[n_kind] == '@');
    const size_t n_op = strcspn(op, ":");
    if (n_op == 0 || n_op >= sizeof(out->op)) {
        return pl_fail(err, PL_E_USAGE, "inject is '%s', expected KIND@OP[:N]", text);
    }
    memcpy(out->op, op, n_op);
    if (op[n_op] == '\0') return PL_OK;
    const char *number = op + n_op + 1;
    const size_t n_digits = strlen(number);
    out->n = strtol(number, NULL, 10);
    if (n_digits == 0 || n_digits > 9 || strspn(number, "0123456789") != n_digits || out->n < 1) {
        return pl_fail(err, PL_E_USAGE, "inject: '%s' is not a node number (1 or more)", number);
    }
    return PL_OK;
}

bool pl_jit_fault_hits(const pl_jit_fault *fault, const pl_node *node) {
    if (strcmp(fault->op, node->op) != 0 || node->graph->parent != NULL) return false;
    if (fault->n == 0) return true;
    long n = 0;
    for (uint32_t i = 0; i <= node->index; i++)
        n += strcmp(node->graph->nodes[i]->op, fault->op) == 0;
    return n == fault->n;
}

static pl_status change_tensor(const pl_jit_fault_row *row, pl_datum **datum, pl_err *err) {
    const pl_tensor *t = (*datum)->tensor;
    pl_tensor *changed = NULL;
    pl_datum *fresh = NULL;
    const pl_dtype_class class = pl_dtype_class_of(t->dtype);
    if (t->n_elements == 0 || class == PL_CLASS_STRING || class == PL_CLASS_COMPLEX) return PL_OK;
    double *x = pl_malloc((size_t)t->n_elements * sizeof(*x));
    if (x == NULL) return pl_fail_memory(err, (size_t)t->n_elements * sizeof(*x));
    pl_status st = PL_OK;
    pl_load_f64(t->dtype, t->data, x, (size_t)t->n_elements);
    victim v = { x, t->n_elements, t->rank, t->dims, 0 };
    for (int64_t i = 0; i < v.n; i++)
        if (isfinite(x[i]) && fabs(x[i]) > v.top) v.top = fabs(x[i]);
    if (v.top == 0) v.top = 1;
    row->change(&v);
    PL_TRY_GOTO(done, st, pl_tensor_new(t->dtype, t->rank, t->dims, &changed, err));
    pl_store_f64(t->dtype, x, changed->data, (size_t)t->n_elements);
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(changed, &fresh, err));
    pl_datum_unref(*datum);
    *datum = fresh;
done:
    pl_free(x);
    return st;
}

pl_status pl_jit_fault_apply(const pl_jit_fault *fault, const pl_node *node, pl_datum **data,
                             size_t n_data, pl_err *err) {
    if (fault->row->act != NULL) return fault->row->act(node, err);
    for (size_t i = 0; i < n_data && fault->row->change != NULL; i++) {
        if (data[i] == NULL || data[i]->kind != PL_TYPE_TENSOR) continue;
        PL_TRY(change_tensor(fault->row, &data[i], err));
    }
    return PL_OK;
}
