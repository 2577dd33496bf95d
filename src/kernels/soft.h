/* Functions of floats by double arithmetic: additions, products, quotients and square roots alone,
 * which every processor and compiler rounds alike. Rounded to float, a result is correct but for
 * about one argument in 2^27, and has the same bits everywhere; libm's float functions differ by
 * machine, because fused products change their last bit.
 *
 * Arguments are floats (widened); results have some 50 correct bits, so this is no libm for
 * doubles. Special values are those of C's Annex F. */
#ifndef PL_SOFT_H
#define PL_SOFT_H

double pl_soft_exp(double x);
double pl_soft_expm1(double x);
double pl_soft_log(double x); /* of any positive double that is not subnormal */
double pl_soft_log1p(double x);
double pl_soft_pow(double x, double y);
double pl_soft_sin(double x);
double pl_soft_cos(double x);
double pl_soft_tan(double x);
double pl_soft_asin(double x);
double pl_soft_acos(double x);
double pl_soft_atan(double x);
double pl_soft_sinh(double x);
double pl_soft_cosh(double x);
double pl_soft_tanh(double x);
double pl_soft_asinh(double x);
double pl_soft_acosh(double x);
double pl_soft_atanh(double x);

#endif
