/* Numbers that carry their error bound: a formula written with these computes its own bound. u is
 * the unit roundoff of the arithmetic. */
#ifndef PL_BOUND_NUM_H
#define PL_BOUND_NUM_H

#include <math.h>

typedef struct pl_num {
    double v, e;
} pl_num;

static inline pl_num pl_num_of(double v) { /* exact */
    return (pl_num){ v, 0 };
}
static inline pl_num pl_num_add(double u, pl_num a, pl_num b) {
    const double v = a.v + b.v;
    return (pl_num){ v, u * fabs(v) + a.e + b.e };
}
static inline pl_num pl_num_sub(double u, pl_num a, pl_num b) {
    return pl_num_add(u, a, (pl_num){ -b.v, b.e });
}
static inline pl_num pl_num_mul(double u, pl_num a, pl_num b) {
    const double v = a.v * b.v;
    return (pl_num){ v, u * fabs(v) + fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e };
}
static inline pl_num pl_num_div(double u, pl_num a, pl_num b) {
    const double v = a.v / b.v;
    if (a.e == 0 && b.e == 0) return (pl_num){ v, u * fabs(v) };
    if (!(fabs(b.v) > b.e)) return (pl_num){ v, HUGE_VAL };
    return (pl_num){ v, u * fabs(v) + (a.e + fabs(v) * b.e) / (fabs(b.v) - b.e) };
}
static inline pl_num pl_num_sqrt(double u, pl_num a) {
    const double v = sqrt(a.v);
    if (a.e == 0) return (pl_num){ v, u * v };
    return (pl_num){ v, u * v + a.e / (v + sqrt(fmax(a.v - a.e, 0))) };
}

#endif
