/* Choices of experts in two recordings: the indices of TopK, compared as sets along their last
 * axis. Operators that choose inside (MoE) show their scores only with the model. */
#include "flows/compare/compare_routing.h"

#include <math.h>

#include "ops/op.h"
#include "session/routing.h"

enum { NEWEST = 1000 };

static bool holds_choice(const pl_sync_point *p) {
    const pl_op_def *def = p->op[0] == '\0' ? NULL : pl_op_find("", p->op, NEWEST);
    return def != NULL && (def->flags & PL_OP_ANY_ORDER) != 0 && p->a.present && p->b.present &&
           pl_dtype_is_integer(p->a.dtype) && p->a.rank > 0 && !p->is_output &&
           p->layout[0] == '\0' && p->a.key != NULL && p->b.key != NULL;
}

static pl_status read(const pl_compare_side *side, const char *key, pl_datum **out, pl_err *err) {
    const pl_record *r = pl_recording_find(side->recording, key);
    *out = NULL;
    return r == NULL || !r->has_data ? PL_OK
                                     : pl_recording_read_datum(side->recording, r, out, err);
}

static pl_status count(const pl_compare_side sides[2], const pl_sync_point *p, pl_route *route,
                       bool *counted, pl_err *err) {
    const pl_choice choice = { .axis = p->a.rank - 1 };
    pl_datum *a = NULL, *b = NULL;
    *counted = false;
    pl_status st = read(&sides[0], p->a.key, &a, err);
    if (st == PL_OK) st = read(&sides[1], p->b.key, &b, err);
    if (st == PL_OK && a != NULL && b != NULL && a->kind == PL_TYPE_TENSOR &&
        b->kind == PL_TYPE_TENSOR)
        *counted = pl_choice_agree(&choice, a->tensor, b->tensor, &route->rows, &route->same);
    pl_datum_unref(a);
    pl_datum_unref(b);
    return st;
}

pl_status pl_compare_routing(const pl_compare_side sides[2], pl_session *s, pl_err *err) {
    pl_routing all = {
        .output = "", .error = (double)NAN, .alone = (double)NAN, .without = (double)NAN
    };
    size_t n = 0;
    for (size_t i = 0; i < s->n_points; i++)
        n += holds_choice(&s->points[i]);
    if (n == 0) return PL_OK;
    all.of = pl_arena_array(s->arena, n, sizeof(*all.of));
    s->routing = pl_arena_array(s->arena, 1, sizeof(*s->routing));
    if (all.of == NULL || s->routing == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        pl_route route = { p->node, p->op, p->value, 0, 0 };
        bool counted = false;
        if (holds_choice(p)) PL_TRY(count(sides, p, &route, &counted, err));
        if (!counted) continue;
        all.of[all.n++] = route;
        all.rows += route.rows;
        all.same += route.same;
    }
    *s->routing = all;
    return PL_OK;
}
