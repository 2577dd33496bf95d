/* Error bounds of control flow: the rules replay the bodies with the bounds of their inputs. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/control/control.h"
#include "ops/control/control_rules.h"

/* ---- running a body with bounds ---- */

typedef struct body_run {
    pl_graph *body;
    pl_datum **in, **out;
    pl_tensor **e_in, **e_out;
    size_t n_in, n_out;
} body_run;

static pl_status run_open(pl_bound *c, pl_graph *body, body_run *r) {
    memset(r, 0, sizeof(*r));
    if (body == NULL || c->run_body == NULL)
        return pl_fail(c->err, PL_E_INTERNAL, "%s: no body to replay", c->node->op);
    r->body = body;
    r->n_in = body->n_inputs;
    r->n_out = body->n_outputs;
    r->in = pl_calloc(r->n_in + 1, sizeof(*r->in));
    r->e_in = pl_calloc(r->n_in + 1, sizeof(*r->e_in));
    r->out = pl_calloc(r->n_out + 1, sizeof(*r->out));
    r->e_out = pl_calloc(r->n_out + 1, sizeof(*r->e_out));
    if (r->in == NULL || r->e_in == NULL || r->out == NULL || r->e_out == NULL)
        return pl_fail_memory(c->err, r->n_in);
    return PL_OK;
}

static void clear_out(body_run *r) {
    for (size_t i = 0; r->out != NULL && r->e_out != NULL && i < r->n_out; i++) {
        pl_datum_unref(r->out[i]);
        pl_tensor_unref(r->e_out[i]);
        r->out[i] = NULL;
        r->e_out[i] = NULL;
    }
}

static void run_close(body_run *r) {
    clear_out(r);
    for (size_t i = 0; r->in != NULL && r->e_in != NULL && i < r->n_in; i++) {
        pl_datum_unref(r->in[i]);
        pl_tensor_unref(r->e_in[i]);
    }
    pl_free(r->in);
    pl_free(r->e_in);
    pl_free(r->out);
    pl_free(r->e_out);
}

static pl_status run_once(pl_bound *c, body_run *r) {
    clear_out(r);
    return c->run_body(c, r->body, r->in, r->e_in, r->n_in, r->out, r->e_out, r->n_out);
}

/* Argument i becomes this datum with this bound; takes references of its own. */
static void set_in(body_run *r, size_t i, pl_datum *d, pl_tensor *e) {
    pl_datum *const old = r->in[i];
    pl_tensor *const old_e = r->e_in[i];
    r->in[i] = d == NULL ? NULL : pl_datum_ref(d);
    r->e_in[i] = e == NULL ? NULL : pl_tensor_ref(e);
    pl_datum_unref(old);
    pl_tensor_unref(old_e);
}

/* Sets the bound of output `to` of the node to that of a body output. */
static void set_out(pl_bound *c, int to, pl_tensor *e) {
    if (to >= c->n_out || c->out[to] == NULL || e == NULL) return;
    const pl_tensor *y = pl_b_out(c, to);
    if (y != NULL && !pl_tensor_same_shape(y, e)) return;
    pl_tensor_unref(c->e_out[to]);
    c->e_out[to] = pl_tensor_ref(e);
}

/* ---- If ---- */

/* The condition is uncertain, so the other branch may be the right one: the bound must cover its
 * result, too. */
static pl_status add_other(pl_bound *c, body_run *r) {
    for (int i = 0; i < c->n_out && (size_t)i < r->n_out; i++) {
        const pl_tensor *y = pl_b_out(c, i);
        const pl_datum *d = r->out[i];
        if (y == NULL || y->dtype == PL_STRING) continue;
        if (d == NULL || d->kind != PL_TYPE_TENSOR || !pl_tensor_same_shape(d->tensor, y)) {
            PL_TRY(pl_b_fill(c, i, HUGE_VAL));
            continue;
        }
        pl_tensor *const own = c->e_out[i];
        double *e = NULL;
        c->e_out[i] = NULL;
        const pl_status st = pl_b_new(c, i, &e);
        for (int64_t k = 0; st == PL_OK && k < y->n_elements; k++) {
            const double a = pl_tensor_get_f64(y, k), b = pl_tensor_get_f64(d->tensor, k);
            const double mine = own == NULL ? 0 : ((const double *)own->data)[k];
            const double its = r->e_out[i] == NULL ? 0 : ((const double *)r->e_out[i]->data)[k];
            e[k] = fmax(mine, fabs(a - b) + its);
        }
        pl_tensor_unref(own);
        PL_TRY(st);
    }
    return PL_OK;
}

pl_status pl_if_bound(pl_bound *c) {
    const double *cond = pl_b_x(c, 0);
    pl_status st = PL_OK;
    body_run r;
    if (cond == NULL) return pl_fail_memory(c->err, 1);
    const bool yes = cond[0] != 0;
    pl_graph *taken = pl_attr_graph(c->node, yes ? "then_branch" : "else_branch");
    pl_graph *other = pl_attr_graph(c->node, yes ? "else_branch" : "then_branch");
    PL_TRY_GOTO(done, st, run_open(c, taken, &r));
    PL_TRY_GOTO(done, st, run_once(c, &r));
    for (size_t i = 0; i < r.n_out; i++)
        set_out(c, (int)i, r.e_out[i]);
    if (pl_b_largest(c, 0) == 0) goto done;
    run_close(&r);
    PL_TRY_GOTO(done, st, run_open(c, other, &r));
    PL_TRY_GOTO(done, st, run_once(c, &r));
    st = add_other(c, &r);
done:
    run_close(&r);
    return st;
}

/* ---- scan outputs ---- */

/* Writes bound e of step `at` of `n` into output `to`, whose steps run along `axis`. The
 * destination starts at element `base` (an entry of a batch) and has `size` elements. */
static pl_status place(pl_bound *c, int to, const pl_tensor *e, int64_t at, int64_t n, int axis,
                       int64_t base, int64_t size) {
    const pl_tensor *y = pl_b_out(c, to);
    double *all = NULL;
    if (y == NULL || e == NULL || n == 0 || size != e->n_elements * n) return PL_OK;
    if (c->e_out[to] == NULL) PL_TRY(pl_b_new(c, to, &all));
    all = (double *)c->e_out[to]->data + base;
    int64_t inner = 1;
    for (int d = e->rank - 1; d >= axis && d >= 0; d--)
        inner *= e->dims[d];
    const double *from = e->data;
    for (int64_t k = 0; k < e->n_elements; k++)
        all[(k / inner * n + at) * inner + k % inner] = from[k];
    return PL_OK;
}

/* ---- Loop ---- */

static bool is_true(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR && d->tensor->n_elements == 1 &&
           pl_tensor_get_i64(d->tensor, 0) != 0;
}

static pl_status loop_iteration(pl_bound *c, body_run *r, size_t n_states, int64_t i) {
    pl_datum *number = NULL;
    PL_TRY(pl_loop_number(PL_I64, pl_loop_rank(r->body, 0), i, &number, c->err));
    set_in(r, 0, number, NULL);
    pl_datum_unref(number);
    PL_TRY(run_once(c, r));
    for (size_t k = 0; k <= n_states && k + 1 < r->n_in; k++)
        set_in(r, k + 1, r->out[k], r->e_out[k]);
    for (size_t k = 1 + n_states; k < r->n_out; k++) {
        const int to = (int)(k - 1);
        const pl_tensor *y = pl_b_out(c, to);
        if (y == NULL || y->rank < 1) continue;
        PL_TRY(place(c, to, r->e_out[k], i, y->dims[0], 0, 0, y->n_elements));
    }
    return PL_OK;
}

pl_status pl_loop_bound(pl_bound *c) {
    const size_t n_states = c->n_in > 2 ? (size_t)c->n_in - 2 : 0;
    const pl_tensor *trip = pl_b_in(c, 0);
    const int64_t n = trip == NULL ? INT64_MAX : pl_tensor_get_i64(trip, 0);
    pl_datum *yes = NULL;
    pl_status st = PL_OK;
    body_run r;
    PL_TRY_GOTO(done, st, run_open(c, pl_attr_graph(c->node, "body"), &r));
    if (r.n_in < n_states + 2 || r.n_out < n_states + 1) goto done;
    if (c->n_in > 1 && c->in[1] != NULL) {
        set_in(&r, 1, c->in[1], NULL);
    } else {
        PL_TRY_GOTO(done, st, pl_loop_number(PL_BOOL, pl_loop_rank(r.body, 1), 1, &yes, c->err));
        set_in(&r, 1, yes, NULL);
    }
    for (size_t i = 0; i < n_states; i++)
        set_in(&r, i + 2, c->in[i + 2], c->e_in[i + 2]);
    for (int64_t i = 0; i < n && is_true(r.in[1]); i++)
        PL_TRY_GOTO(done, st, loop_iteration(c, &r, n_states, i));
    for (size_t i = 0; i < n_states; i++)
        set_out(c, (int)i, r.e_in[i + 2]);
done:
    pl_datum_unref(yes);
    run_close(&r);
    return st;
}

/* ---- Scan ---- */

/* Index `at` of an axis of t, the axis dropped. */
static pl_status slice(pl_bound *c, pl_tensor *t, int64_t axis, int64_t at, pl_tensor **out) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    int n = 0;
    if (axis < 0) axis += t->rank;
    for (int d = 0; d < t->rank; d++) {
        if (d == axis) continue;
        dims[n] = t->dims[d];
        strides[n++] = t->strides[d];
    }
    pl_tensor *view = NULL;
    PL_TRY(pl_tensor_view(t, n, dims, strides, at * t->strides[axis], &view, c->err));
    const pl_status st = pl_tensor_contiguous(view, out, c->err);
    pl_tensor_unref(view);
    return st;
}

/* Argument `arg` = index `at` of this tensor, with the same part of its bound. */
static pl_status set_slice(pl_bound *c, body_run *r, size_t arg, pl_tensor *t, pl_tensor *e,
                           int64_t axis, int64_t at) {
    pl_tensor *part = NULL, *part_e = NULL;
    pl_datum *d = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, slice(c, t, axis, at, &part));
    if (e != NULL) PL_TRY_GOTO(done, st, slice(c, e, axis, at, &part_e));
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(part, &d, c->err));
    part = NULL;
    set_in(r, arg, d, part_e);
done:
    pl_tensor_unref(part);
    pl_tensor_unref(part_e);
    pl_datum_unref(d);
    return st;
}

typedef struct scan_walk { /* one pass over the steps; inputs of one entry of the batch */
    const pl_scan_layout *s;
    pl_tensor **x, **e; /* scan inputs; e: NULL = exact */
    int64_t length;
    int64_t entry, n_entries; /* of the batch; 0 of 1 without */
} scan_walk;

static pl_status walk_step(pl_bound *c, const scan_walk *w, body_run *r, int64_t i) {
    const pl_scan_layout *s = w->s;
    for (size_t k = 0; k < s->n_in; k++) {
        const bool back = s->in_reverse != NULL && s->in_reverse[k] != 0;
        const int64_t at = back ? w->length - 1 - i : i;
        PL_TRY(set_slice(c, r, s->n_states + k, w->x[k], w->e[k],
                         s->in_axes == NULL ? 0 : s->in_axes[k], at));
    }
    PL_TRY(run_once(c, r));
    for (size_t k = 0; k < s->n_states; k++)
        set_in(r, k, r->out[k], r->e_out[k]);
    for (size_t k = 0; k < s->n_out; k++) {
        const int to = (int)(s->n_states + k);
        const pl_tensor *y = pl_b_out(c, to), *e = r->e_out[s->n_states + k];
        if (y == NULL || e == NULL) continue;
        const bool back = s->out_reverse != NULL && s->out_reverse[k] != 0;
        int axis = s->out_axes == NULL ? 0 : (int)s->out_axes[k];
        if (axis < 0) axis += e->rank + 1;
        const int64_t size = y->n_elements / w->n_entries;
        PL_TRY(
            place(c, to, e, back ? w->length - 1 - i : i, w->length, axis, w->entry * size, size));
    }
    return PL_OK;
}

static pl_status walk(pl_bound *c, const scan_walk *w, body_run *r, int64_t steps) {
    const pl_scan_layout *s = w->s;
    for (int64_t i = 0; i < steps; i++)
        PL_TRY(walk_step(c, w, r, i));
    for (size_t k = 0; k < s->n_states; k++) {
        const pl_tensor *y = pl_b_out(c, (int)k);
        if (y == NULL) continue;
        PL_TRY(place(c, (int)k, r->e_in[k], 0, 1, 0, w->entry * (y->n_elements / w->n_entries),
                     y->n_elements / w->n_entries));
    }
    return PL_OK;
}

static pl_status scan_entry(pl_bound *c, const scan_walk *whole, body_run *r, int64_t b) {
    const pl_scan_layout *s = whole->s;
    scan_walk w = *whole;
    pl_status st = PL_OK;
    const pl_tensor *lengths = pl_b_in(c, 0);
    w.entry = b;
    w.x = pl_arena_array(c->scratch, s->n_in, sizeof(*w.x));
    w.e = pl_arena_array(c->scratch, s->n_in, sizeof(*w.e));
    if (w.x == NULL || w.e == NULL) return pl_fail_memory(c->err, s->n_in);
    for (size_t k = 0; k < s->n_states; k++)
        PL_TRY(set_slice(c, r, k, c->in[1 + k]->tensor, c->e_in[1 + k], 0, b));
    for (size_t k = 0; k < s->n_in && st == PL_OK; k++) {
        st = slice(c, whole->x[k], 0, b, &w.x[k]);
        if (st == PL_OK && whole->e[k] != NULL) st = slice(c, whole->e[k], 0, b, &w.e[k]);
    }
    if (st == PL_OK)
        st = walk(c, &w, r, lengths == NULL ? w.length : pl_tensor_get_i64(lengths, b));
    for (size_t k = 0; k < s->n_in; k++) {
        pl_tensor_unref(w.x[k]);
        pl_tensor_unref(w.e[k]);
    }
    return st;
}

pl_status pl_scan_bound(pl_bound *c) {
    pl_scan_layout s;
    const char *name = NULL, *bad = pl_scan_read(&s, c->node, (size_t)c->n_in, &name);
    if (bad != NULL) return pl_fail(c->err, PL_E_INVALID, "Scan: '%s' %s", name, bad);
    const bool batch = pl_scan_has_batch(c->node);
    scan_walk w = { .s = &s, .n_entries = 1 };
    pl_status st = PL_OK;
    body_run r;
    w.x = pl_arena_array(c->scratch, s.n_in, sizeof(*w.x));
    w.e = pl_arena_array(c->scratch, s.n_in, sizeof(*w.e));
    if (w.x == NULL || w.e == NULL) return pl_fail_memory(c->err, s.n_in);
    for (size_t k = 0; k < s.n_in; k++) {
        const size_t i = s.first + s.n_states + k;
        w.x[k] = c->in[i]->tensor;
        w.e[k] = c->e_in[i];
        const int64_t axis = batch ? 1 : s.in_axes == NULL ? 0 : s.in_axes[k];
        w.length = w.x[k]->dims[axis < 0 ? axis + w.x[k]->rank : axis];
    }
    PL_TRY_GOTO(done, st, run_open(c, s.body, &r));
    if (r.n_in != s.n_states + s.n_in) goto done;
    if (batch) {
        w.n_entries = w.x[0]->dims[0];
        for (int64_t b = 0; b < w.n_entries; b++)
            PL_TRY_GOTO(done, st, scan_entry(c, &w, &r, b));
        goto done;
    }
    for (size_t k = 0; k < s.n_states; k++)
        set_in(&r, k, c->in[k], c->e_in[k]);
    st = walk(c, &w, &r, w.length);
done:
    run_close(&r);
    return st;
}

/* ---- SequenceMap ---- */

/* The bound of a tensor in a sequence: one number for all. */
static pl_status filled(pl_bound *c, const pl_datum *d, double value, pl_tensor **out) {
    *out = NULL;
    if (value == 0 || d == NULL || d->kind != PL_TYPE_TENSOR) return PL_OK;
    PL_TRY(pl_tensor_new(PL_F64, d->tensor->rank, d->tensor->dims, out, c->err));
    for (int64_t i = 0; i < (*out)->n_elements; i++)
        ((double *)(*out)->data)[i] = value;
    return PL_OK;
}

static double largest_of(const pl_tensor *e) {
    double most = 0;
    for (int64_t i = 0; e != NULL && i < e->n_elements; i++)
        most = fmax(most, ((const double *)e->data)[i]);
    return most;
}

static pl_status map_item(pl_bound *c, body_run *r, size_t k) {
    for (size_t i = 0; i < r->n_in && (int)i < c->n_in; i++) {
        pl_datum *d = c->in[i];
        pl_tensor *e = NULL;
        if (d == NULL || d->kind != PL_TYPE_SEQUENCE) {
            set_in(r, i, d, c->e_in[i]);
            continue;
        }
        if (k >= d->n_items) return PL_OK;
        PL_TRY(filled(c, d->items[k], pl_b_largest(c, (int)i), &e));
        set_in(r, i, d->items[k], e);
        pl_tensor_unref(e);
    }
    return run_once(c, r);
}

pl_status pl_sequence_map_bound(pl_bound *c) {
    const size_t n = c->in[0] == NULL ? 0 : c->in[0]->n_items;
    double *most = pl_arena_array(c->scratch, (size_t)c->n_out, sizeof(double));
    pl_status st = PL_OK;
    body_run r;
    if (most == NULL) return pl_fail_memory(c->err, (size_t)c->n_out);
    PL_TRY_GOTO(done, st, run_open(c, pl_attr_graph(c->node, "body"), &r));
    for (size_t k = 0; k < n; k++) {
        PL_TRY_GOTO(done, st, map_item(c, &r, k));
        for (int i = 0; i < c->n_out && (size_t)i < r.n_out; i++)
            most[i] = fmax(most[i], largest_of(r.e_out[i]));
    }
    for (int i = 0; i < c->n_out; i++) {
        pl_tensor *t = NULL;
        if (c->out[i] == NULL || most[i] == 0) continue;
        PL_TRY_GOTO(done, st, pl_tensor_new(PL_F64, 0, NULL, &t, c->err));
        *(double *)t->data = most[i];
        set_out(c, i, t);
        pl_tensor_unref(t);
    }
done:
    run_close(&r);
    return st;
}
