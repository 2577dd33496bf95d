/* Elements that a recording says to be undefined (padding). plumb's own recordings hold zeros
 * there, so that two of them would agree about nothing; those of an engine hold what it happened to
 * leave. They are zeros on both sides here, and counted. */
#include <stdio.h>

#include "blame/sync_int.h"

static bool same_dims(const pl_sync_work *w) {
    bool same = w->a->has_shape && w->b->has_shape && w->a->rank == w->b->rank;
    for (int i = 0; same && i < w->a->rank; i++)
        same = w->a->dims[i] == w->b->dims[i];
    return same;
}

/* Of one side's elements: what either side says, or only its own word when the other has another
 * layout. */
static pl_status ranges_of(const pl_sync_work *w, int side, pl_ranges *out, pl_err *err) {
    const pl_ranges *own = side == 0 ? &w->a->left_out : &w->b->left_out;
    const pl_ranges none = { .n = 0 };
    const pl_ranges *other = side == 0 ? &w->b->left_out : &w->a->left_out;
    return pl_ranges_join(own, same_dims(w) ? other : &none, out, err);
}

static pl_status hide(const pl_sync_work *w, int side, pl_tensor **t, pl_err *err) {
    pl_ranges all = { .n = 0 };
    pl_tensor *hidden = NULL;
    pl_status st = ranges_of(w, side, &all, err);
    if (st == PL_OK && all.n > 0) st = pl_ranges_replace(&all, *t, NULL, &hidden, err);
    pl_ranges_release(&all);
    if (hidden == NULL) return st;
    pl_tensor_unref(*t);
    *t = hidden;
    return st;
}

pl_status pl_sync_leave_out(const pl_sync_work *w, pl_tensor **a, pl_tensor **b, pl_err *err) {
    if (w->a->left_out.n + w->b->left_out.n == 0) return PL_OK;
    PL_TRY(hide(w, 0, a, err));
    return hide(w, 1, b, err);
}

pl_status pl_sync_count_left_out(pl_sync_work *w, pl_err *err) {
    pl_sync_point *p = w->point;
    int64_t n = 0;
    if (w->a->left_out.n + w->b->left_out.n == 0) return PL_OK;
    pl_ranges all = { .n = 0 };
    const pl_status st = ranges_of(w, w->a->left_out.n > 0 ? 0 : 1, &all, err);
    p->n_undefined = pl_ranges_count(&all);
    pl_ranges_release(&all);
    PL_TRY(st);
    const pl_record *r = w->a->left_out.n > 0 ? w->a : w->b;
    if (p->facts.structural || !pl_dims_product(r->rank, r->dims, &n) || p->n_undefined < n)
        return PL_OK;
    p->facts.undefined = true;
    p->facts.compared = p->facts.exact = false;
    w->judged.colour = PL_NO_COLOUR;
    snprintf(w->judged.reason, sizeof w->judged.reason,
             "every element depends on elements that an operator leaves undefined");
    return PL_OK;
}
