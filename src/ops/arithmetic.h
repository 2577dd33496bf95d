/* A precision profile: what the arithmetic of a device may do beyond rounding to nearest. Bound
 * rules (bound.h) look up the functions they are made of, so a profile is one line of numbers and
 * names no operator. */
#ifndef PL_ARITHMETIC_H
#define PL_ARITHMETIC_H

#include <stddef.h>

typedef enum pl_maths { /* functions whose accuracy a device's specification states */
                        PL_MATHS_DIV,
                        PL_MATHS_SQRT,
                        PL_MATHS_RSQRT, /* 1 / sqrt(x) */
                        PL_MATHS_EXP,
                        PL_MATHS_LOG,
                        PL_MATHS_SIN, /* and cos */
                        PL_MATHS_TANH,
                        PL_MATHS_ATAN,
                        PL_MATHS_ASIN, /* and acos */
                        PL_MATHS_COUNT
} pl_maths;

/* Off by at most (ulp + ulp_x |x|) units in the last place of the result, or by `absolute` where
 * the result is not larger than `near`. All 0: no error beyond rounding. */
typedef struct pl_maths_limit {
    double ulp, ulp_x, absolute, near;
} pl_maths_limit;

typedef struct pl_arithmetic {
    const char *name, *summary;
    const char *place; /* placement (backends/placement.h) with this default; "" = none */
    double storage;    /* unit roundoff of values in memory, when coarser than their type's; or 0 */
    pl_maths_limit of[PL_MATHS_COUNT];
} pl_arithmetic;

extern const pl_arithmetic pl_arithmetics[]; /* the first is the default; name NULL ends */
const pl_arithmetic *pl_arithmetic_find(const char *name); /* NULL if not found */
const pl_arithmetic *pl_arithmetic_of(const char *place);  /* the default for a place */
/* What the function may add to a bound at argument x and result y; u is the unit roundoff. Half of
 * the limit: values are blamed beyond four times their bound, and correct ones stay below two. 0
 * when `a` is NULL. */
double pl_arithmetic_error(const pl_arithmetic *a, pl_maths fn, double u, double x, double y);

#endif
