/* Private to src/blame: the data that hypotheses about an error use. */
#ifndef PL_KIND_INT_H
#define PL_KIND_INT_H

#include "blame/kind.h"

typedef struct pl_kind_data {
    const pl_tensor *shape; /* for the dims */
    double *a, *d, *e;      /* recorded, replay, bound (0 where exact) */
    double *work;           /* n, for sorting */
    int64_t *bad;           /* elements beyond four bounds, in order */
    int64_t n, n_bad;
    double u, tiny, normal; /* unit roundoff, slack at zero, smallest normal number */
    double least, most;     /* of an integer type */
    bool is_integer;
    double p0, p1;    /* parameters of the current hypothesis */
    const char *text; /* its description */
    pl_arena *arena;
} pl_kind_data;

bool pl_kind_near(const pl_kind_data *k, int64_t i, double p); /* a[i] is p, within slack */
double pl_kind_slack(const pl_kind_data *k, int64_t i, double p);

/* Element s of an evenly spread sample of the bad ones; a hypothesis that fails on the sample is
 * not tried on all. */
enum { PL_KIND_SAMPLE = 256 };
int64_t pl_kind_sampled(const pl_kind_data *k, int64_t s);
int64_t pl_kind_sample_size(const pl_kind_data *k);

/* Hypotheses about positions (kind_place.c). */
bool pl_kind_stale(pl_kind_data *k);
bool pl_kind_region(pl_kind_data *k);
bool pl_kind_transposed(pl_kind_data *k);
bool pl_kind_shifted(pl_kind_data *k);
bool pl_kind_permuted(pl_kind_data *k);
/* "all", "index 3 of axis 1", "last 4 of axis 3", "elements 128 to 255", "scattered". */
const char *pl_kind_where(const pl_kind_data *k);

#endif
