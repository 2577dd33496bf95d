/* Dynamic quantisation by rows: the model finds one scale for a tensor, the runtime one for each
 * row of the left factor (KleidiAI's kernels for ARM CPUs with SME, in ONNX Runtime's
 * DynamicQuantizeMatMul). The segment is replayed row by row; if that gives the recorded value,
 * this is the kind. */
#include <string.h>

#include "blame/blame_int.h"
#include "ops/op.h"

const char pl_kind_rows_name[] = "quantised by rows";

enum { ROWS_MAX = 65536 };

typedef struct attempt {
    pl_blaming *j;
    const pl_segment *segment;
    const pl_value *value, *x; /* x: what is quantised */
    const pl_tensor *a;
    pl_replay *r;
    pl_tensor *whole, *to, *bound; /* x; the replay of all rows, and its bound */
    int64_t n_rows;
} attempt;

/* The input of the segment that its only dynamic quantiser reads; NULL = there is none. */
static const pl_value *find_quantised(const pl_segment *segment) {
    const pl_value *x = NULL;
    for (size_t i = 0; i < segment->n_nodes; i++) {
        const pl_node *node = segment->nodes[i];
        if (!pl_node_has_flag(node, PL_OP_FINDS_SCALE)) continue;
        if (x != NULL && x != node->in[0]) return NULL;
        x = node->in[0];
    }
    for (size_t i = 0; i < segment->n_inputs; i++)
        if (segment->inputs[i] == x) return x;
    return NULL;
}

static pl_status begin(attempt *t, pl_err *err) {
    const pl_replay_options options = { .pool = t->j->options->pool,
                                        .seed = t->j->options->seed,
                                        .arithmetic = t->j->a->arithmetic };
    PL_TRY(pl_replay_new(t->j->model, &options, &t->r, err));
    PL_TRY(pl_blaming_put_edges(t->j, t->r, t->segment, err));
    const pl_datum *x = pl_replay_get(t->r, t->x);
    if (x == NULL || x->kind != PL_TYPE_TENSOR || x->tensor->rank < 2) return PL_OK;
    const int64_t each = x->tensor->dims[x->tensor->rank - 1];
    if (each < 1) return PL_OK;
    PL_TRY(pl_tensor_cast(x->tensor, PL_F64, &t->whole, err));
    t->n_rows = t->whole->n_elements / each;
    PL_TRY(pl_tensor_new_zero(PL_F64, t->a->rank, t->a->dims, &t->to, err));
    return pl_tensor_new_zero(PL_F64, t->a->rank, t->a->dims, &t->bound, err);
}

/* Replays the row; *fits is false if the result is not one of as many rows. */
static pl_status replay_row(attempt *t, int64_t row, bool *fits, pl_err *err) {
    const int rank = t->whole->rank;
    const int64_t each = t->whole->dims[rank - 1], n = t->a->n_elements / t->n_rows;
    int64_t dims[PL_RANK_MAX];
    pl_tensor *one = NULL;
    pl_datum *d = NULL;
    for (int i = 0; i < rank; i++)
        dims[i] = i == rank - 1 ? each : 1;
    PL_TRY(pl_tensor_new(PL_F64, rank, dims, &one, err));
    memcpy(one->data, (const double *)t->whole->data + row * each, (size_t)each * sizeof(double));
    PL_TRY(pl_datum_of_tensor_take(one, &d, err));
    pl_status st = pl_replay_put(t->r, t->x, d, NULL, err);
    pl_datum_unref(d);
    for (size_t i = 0; i < t->segment->n_nodes && st == PL_OK; i++)
        st = pl_replay_node(t->r, t->segment->nodes[i], err);
    PL_TRY(st);
    const pl_datum *y = pl_replay_get(t->r, t->value);
    const pl_tensor *e = pl_replay_bound(t->r, t->value);
    *fits = y != NULL && y->kind == PL_TYPE_TENSOR && y->tensor->n_elements == n;
    for (int64_t i = 0; i < n && *fits; i++) {
        ((double *)t->to->data)[row * n + i] = pl_tensor_get_f64(y->tensor, i);
        if (e != NULL) ((double *)t->bound->data)[row * n + i] = pl_tensor_get_f64(e, i);
    }
    return PL_OK;
}

static pl_status try_rows(attempt *t, bool *yes, pl_err *err) {
    pl_local_error e;
    PL_TRY(begin(t, err));
    bool fits = t->n_rows > 1 && t->n_rows <= ROWS_MAX && t->a->n_elements % t->n_rows == 0;
    for (int64_t row = 0; row < t->n_rows && fits; row++)
        PL_TRY(replay_row(t, row, &fits, err));
    if (!fits) return PL_OK;
    PL_TRY(pl_local_error_measure(t->j->options->pool, t->a, t->to, t->bound,
                                  pl_blaming_native(t->j, t->value, t->a), &e, err));
    *yes = e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_CULPRIT;
    return PL_OK;
}

pl_status pl_kind_rows(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                       const pl_tensor *a, pl_kind_fit *kind, pl_err *err) {
    attempt t = {
        .j = j, .segment = segment, .value = value, .x = find_quantised(segment), .a = a
    };
    pl_err trouble = PL_ERR_INIT;
    bool yes = false;
    if (t.x == NULL || kind->remedy != NULL) return PL_OK;
    const pl_status st = try_rows(&t, &yes, &trouble); /* a failed replay explains nothing */
    if (st == PL_OK && yes) {
        const char *text = pl_arena_printf(j->out->arena,
                                           "%s: a scale for each row, the model has "
                                           "one for the tensor",
                                           pl_kind_rows_name);
        kind->kind = pl_kind_rows_name;
        kind->text = text == NULL ? kind->kind : text;
        kind->remedy = "turn such kernels off (ONNX Runtime on ARM CPUs with SME: "
                       "mlas.disable_kleidiai=1, or disable=DynamicQuantizeMatMulFusion)";
    }
    pl_replay_free(t.r);
    pl_tensor_unref(t.whole);
    pl_tensor_unref(t.to);
    pl_tensor_unref(t.bound);
    return st == PL_E_MEMORY ? pl_fail_memory(err, 0) : PL_OK;
}
