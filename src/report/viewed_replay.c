/* A value against the replay of its operation, which analyze keeps for culprits. */
#include <math.h>

#include "blame/local_error.h"
#include "report/view_slice.h"
#include "report/viewed.h"

/* The narrowest and the widest bound, the elements beyond it, and the one that is furthest off. */
static void measure(pl_view_pair *pair, const pl_tensor *bound) {
    pl_view_replay *r = &pair->replay;
    const int64_t n = pair->a->n_elements < PL_SCAN_MAX ? pair->a->n_elements : PL_SCAN_MAX;
    double furthest = -1;
    for (int64_t i = 0; i < n; i++) {
        const double d = pl_tensor_get_f64(pair->b, i);
        const double e = bound == NULL ? 0 : pl_tensor_get_f64(bound, i);
        const double allowed = pl_local_scale(d, e, pair->a->dtype);
        const double off = fabs(pl_view_difference(pair->a, pair->b, i));
        r->least = i == 0 ? allowed : fmin(r->least, allowed);
        r->most = i == 0 ? allowed : fmax(r->most, allowed);
        r->n_beyond += !(off <= PL_Q_CULPRIT * allowed);
        if (isnan(off) ? !isnan(furthest) : off > furthest) {
            furthest = off;
            r->worst = i;
        }
    }
}

static pl_status join(pl_viewed *v, const pl_sync_point *p, pl_view_pair *out, pl_err *err) {
    pl_tensor *bound = NULL;
    if (out->a == NULL) return pl_fail(err, PL_E_NOT_FOUND, "%s", out->why);
    PL_TRY(pl_viewed_kept(v, p, "replay", &out->b, err));
    if (!pl_view_is_numeric(out->a) || !pl_view_is_numeric(out->b) ||
        !pl_tensor_same_shape(out->a, out->b))
        return pl_fail(err, PL_E_NOT_FOUND, "A and its replay differ in shape");
    if (pl_viewed_kept(v, p, "bound", &bound, NULL) == PL_OK &&
        (!pl_view_is_numeric(bound) || !pl_tensor_same_shape(bound, out->a))) {
        pl_tensor_unref(bound);
        bound = NULL;
    }
    out->joint = true;
    out->replay = (pl_view_replay){ .shown = true, .worst = -1 };
    measure(out, bound);
    pl_tensor_unref(bound);
    return PL_OK;
}

pl_status pl_viewed_replayed(pl_viewed *v, size_t point, pl_view_pair *out, pl_err *err) {
    PL_TRY(pl_viewed_a(v, point, out, err));
    const pl_status st = join(v, &pl_viewed_session(v)->points[point], out, err);
    if (st != PL_OK) pl_view_pair_release(out);
    return st;
}
