/* The table of precision profiles, lookup by name and by placement, and the error a line allows. */
#include "ops/arithmetic.h"

#include <math.h>
#include <string.h>

const pl_arithmetic pl_arithmetics[] = {
#define FN(fn, ulp_, ulp_x_, absolute_, near_)                                                     \
    [PL_MATHS_##                                                                                   \
        fn] = { .ulp = (ulp_), .ulp_x = (ulp_x_), .absolute = (absolute_), .near = (near_) },
#define PL_ARITHMETIC(name_, place_, storage_, summary_, functions)                                \
    { .name = (name_),                                                                             \
      .summary = (summary_),                                                                       \
      .place = (place_),                                                                           \
      .storage = (storage_),                                                                       \
      .of = { functions } },
#include "ops/precision_profiles.def"
#undef PL_ARITHMETIC
#undef FN
    { .name = NULL },
};

const pl_arithmetic *pl_arithmetic_find(const char *name) {
    for (const pl_arithmetic *a = pl_arithmetics; a->name != NULL; a++)
        if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

const pl_arithmetic *pl_arithmetic_of(const char *place) {
    for (const pl_arithmetic *a = pl_arithmetics; a->name != NULL; a++)
        if (a->place[0] != '\0' && strcmp(a->place, place) == 0) return a;
    return &pl_arithmetics[0];
}

double pl_arithmetic_error(const pl_arithmetic *a, pl_maths fn, double u, double x, double y) {
    if (a == NULL || !isfinite(y)) return 0;
    const pl_maths_limit *l = &a->of[fn];
    const double size = fabs(y);
    /* A unit in the last place is at most 2u|y|; half of it is u|y|. */
    const double relative = u * (l->ulp + (l->ulp_x == 0 ? 0 : l->ulp_x * fabs(x))) * size;
    return fmax(relative, size <= l->near ? l->absolute / 2 : 0);
}
