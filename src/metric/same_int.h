/* Shared by the two rules. */
#ifndef PL_SAME_INT_H
#define PL_SAME_INT_H

#include "metric/same.h"

enum { PL_SAME_DEPTH_MAX = 64 };

void pl_same_result_init(pl_same_result *out);
void pl_same_say(pl_same_result *out, pl_same_verdict verdict, pl_same_rule rule,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
void pl_same_path_prepend(pl_same_result *out, const char *step);

#endif
