/* Bound of dot products. The sum of absolute terms comes from the node's own kernel in float;
 * inherited errors add in quadrature. */
#include <math.h>
#include <stdatomic.h>

#include "ops/bound_int.h"
#include "ops/lib/bound_nn.h"

void pl_b_add_stored(const pl_bound *c, const double *y, double *e, int64_t n) {
    if (c->u <= c->u_acc) return;
    for (int64_t i = 0; i < n; i++)
        e[i] += c->u * fabs(y[i]) + c->tiny / 2;
}

double pl_b_peak(const double *x, int64_t n) {
    double most = 0;
    for (int64_t i = 0; x != NULL && i < n; i++) {
        const double a = fabs(x[i]);
        if (a > most && isfinite(a)) most = a;
    }
    return most;
}

double pl_b_worst(const double *e, int64_t n) {
    double most = 0;
    for (int64_t i = 0; e != NULL && i < n; i++)
        most = fmax(most, e[i]);
    return most;
}

double pl_b_range(const double *x, int64_t n) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) continue;
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    return high > low ? high - low : 0;
}

pl_status pl_b_apply_one(pl_bound *c, int i, pl_tensor *x, pl_dtype precision, pl_tensor **out) {
    pl_tensor **all = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_tensor *));
    if (all == NULL) return pl_fail_memory(c->err, (size_t)c->n_in);
    all[i] = x;
    return pl_b_apply(c, all, precision, 0, out);
}

typedef struct dot_run {
    pl_bound *c;
    const pl_b_dot *dot;
    pl_tensor **x; /* replacements of the inputs, owned */
    pl_dtype precision;
} dot_run;

static void clear(dot_run *r) {
    for (int i = 0; i < r->c->n_in; i++) {
        pl_tensor_unref(r->x[i]);
        r->x[i] = NULL;
    }
}

enum { GRAIN = 16384 };

static bool is_narrow(pl_dtype dtype) {
    return dtype == PL_F32 || dtype == PL_F16 || dtype == PL_BF16;
}

typedef struct put_job {
    const double *from, *e; /* e may be NULL */
    double *to;             /* one of the two */
    pl_f32 *to_f32;
    double scale, times;
    bool error_only;
} put_job;

static void magnitude_block(void *ctx, int64_t begin, int64_t end) {
    const put_job *j = ctx;
    const double times = j->times;
    for (int64_t k = begin; j->to != NULL && k < end; k++)
        j->to[k] = fabs(j->from[k]) * times;
    for (int64_t k = begin; j->to_f32 != NULL && k < end; k++)
        j->to_f32[k] = (float)(fabs(j->from[k]) * times);
}

static void square_block(void *ctx, int64_t begin, int64_t end) {
    const put_job *j = ctx;
    for (int64_t k = begin; k < end; k++) {
        const double x = j->error_only ? 0 : fabs(j->from[k]);
        const double v = (x + (j->e == NULL ? 0 : j->e[k])) / j->scale;
        const double square = v * v * j->times;
        if (j->to != NULL)
            j->to[k] = square;
        else
            j->to_f32[k] = (float)square;
    }
}

/* x[i] := a new tensor of the kernel's own precision, filled by fn. */
static pl_status put(dot_run *r, int i, pl_pool_fn fn, put_job *job) {
    pl_bound *c = r->c;
    const pl_tensor *t = pl_b_in(c, i);
    job->from = pl_b_x(c, i);
    if (job->from == NULL) return pl_fail_memory(c->err, 1);
    const bool f32 = r->precision == PL_F32 && (t->dtype == PL_F64 || is_narrow(t->dtype));
    PL_TRY(pl_tensor_new(f32 ? PL_F32 : PL_F64, t->rank, t->dims, &r->x[i], c->err));
    if (f32)
        job->to_f32 = r->x[i]->data;
    else
        job->to = r->x[i]->data;
    pl_pool_for(c->pool, t->n_elements, GRAIN, fn, job);
    return PL_OK;
}

/* A weight that is narrower than the replay: the kernel takes its magnitudes as it reads it. */
static bool takes_magnitudes(dot_run *r, int i, double times) {
    const bool takes = i == 1 && times == 1 && r->precision == PL_F32 &&
                       is_narrow(pl_b_in(r->c, i)->dtype) &&
                       pl_node_has_flag(r->c->node, PL_OP_NARROW_B);
    r->c->magnitudes_b = r->c->magnitudes_b || takes;
    return takes;
}

/* x[i] := |input i| * times. */
static pl_status put_magnitude(dot_run *r, int i, double times) {
    put_job job = { .times = times };
    const pl_tensor *t = pl_b_in(r->c, i);
    if (takes_magnitudes(r, i, times)) return PL_OK;
    if (t->dtype == PL_F64 && pl_tensor_is_filled(t)) { /* weights of one number */
        const double x = fabs(((const double *)t->data)[0]) * times;
        const float narrow = (float)x;
        const bool f32 = r->precision == PL_F32;
        return pl_tensor_new_filled(f32 ? PL_F32 : PL_F64, t->rank, t->dims,
                                    f32 ? (const void *)&narrow : &x, &r->x[i], r->c->err);
    }
    return put(r, i, magnitude_block, &job);
}

/* x[i] := ((|x| + E) / scale)^2, the magnitude of a factor; or (E / scale)^2 of the error alone. */
static pl_status put_square(dot_run *r, int i, bool error_only, double scale, double times) {
    put_job job = {
        .e = pl_b_e(r->c, i), .error_only = error_only, .scale = scale, .times = times
    };
    return put(r, i, square_block, &job);
}

static pl_status put_zero(dot_run *r, int i) {
    const pl_tensor *t = pl_b_in(r->c, i);
    return pl_tensor_new_zero(PL_F64, t->rank, t->dims, &r->x[i], r->c->err);
}

static bool has_bias(const dot_run *r) {
    return r->dot->bias >= 0 && pl_b_in(r->c, r->dot->bias) != NULL;
}

/* ---- S ---- */

static pl_status sum_once(dot_run *r, pl_tensor **out) {
    const pl_b_dot *d = r->dot;
    pl_status st = PL_OK;
    for (int k = 0; k < d->n_factors && st == PL_OK; k++)
        st = put_magnitude(r, d->factor[k], 1);
    /* The kernel multiplies by alpha and beta: give both parts one sign. */
    if (st == PL_OK && has_bias(r))
        st = put_magnitude(r, d->bias, (d->alpha < 0) != (d->beta < 0) ? -1 : 1);
    if (st == PL_OK) st = pl_b_apply_raw(r->c, r->x, r->precision, 0, out);
    r->c->magnitudes_b = false;
    clear(r);
    return st;
}

double pl_b_sum_error(double k, double s, double y) {
    static const double STEADY = 2;
    const double drift = sqrt(k) / 2 * y;
    const double steady = sqrt(STEADY * s * STEADY * s + drift * drift) + y, most = (k + 1) * s;
    return most < steady || isnan(steady) ? most : steady; /* fmin, without a call */
}

typedef struct local_job {
    const dot_run *r;
    const pl_f32 *s_f32; /* one of the two */
    const double *s, *y;
    double *e;
    atomic_bool lost; /* a sum left the range of float */
} local_job;

static void local_block(void *ctx, int64_t begin, int64_t end) {
    local_job *j = ctx;
    const double k = j->r->dot->k, u = j->r->c->u_acc;
    bool lost = false;
    for (int64_t i = begin; j->s != NULL && i < end; i++)
        j->e[i] = u * pl_b_sum_error(k, fabs(j->s[i]), fabs(j->y[i]));
    for (int64_t i = begin; j->s_f32 != NULL && i < end; i++) {
        const double s = fabs((double)j->s_f32[i]);
        j->e[i] = u * pl_b_sum_error(k, s, fabs(j->y[i]));
        lost = lost || (!isfinite(s) && isfinite(j->y[i]));
    }
    if (lost) atomic_store(&j->lost, true);
}

/* The sums of magnitudes once, and what they round into e. */
static pl_status local_once(dot_run *r, double *e, bool *lost) {
    pl_tensor *s = NULL;
    local_job job = { .r = r, .y = pl_b_y(r->c, 0), .e = e };
    if (job.y == NULL) return pl_fail_memory(r->c->err, 1);
    PL_TRY(sum_once(r, &s));
    if (s->dtype == PL_F32)
        job.s_f32 = s->data;
    else
        job.s = s->data;
    atomic_init(&job.lost, false);
    pl_pool_for(r->c->pool, s->n_elements, GRAIN, local_block, &job);
    *lost = atomic_load(&job.lost);
    pl_tensor_unref(s);
    return PL_OK;
}

/* Adds the rounding of the sum itself to e. Sums that overflow float are repeated in double. */
static pl_status add_local(dot_run *r, double *e) {
    bool lost = false;
    PL_TRY(local_once(r, e, &lost));
    if (lost && r->precision == PL_F32) {
        r->precision = PL_F64;
        PL_TRY(local_once(r, e, &lost));
    }
    pl_b_add_stored(r->c, pl_b_y(r->c, 0), e, pl_b_out(r->c, 0)->n_elements);
    return PL_OK;
}

/* ---- what comes in ---- */

typedef struct scales {
    double factor[PL_RANK_MAX]; /* largest magnitude of each factor, including its error */
    double error;               /* largest error of any input */
} scales;

static pl_status measure(dot_run *r, scales *s) {
    pl_bound *c = r->c;
    const pl_b_dot *d = r->dot;
    *s = (scales){ .error = 0 };
    for (int k = 0; k <= d->n_factors; k++) {
        const int i = k < d->n_factors ? d->factor[k] : d->bias;
        if (i < 0 || pl_b_in(c, i) == NULL) continue;
        const double *x = pl_b_x(c, i), *e = pl_b_e(c, i);
        const int64_t n = pl_b_in(c, i)->n_elements;
        if (x == NULL) return pl_fail_memory(c->err, 1);
        double most = pl_b_peak(e, n); /* unlimited errors pass through the sum unscaled */
        if (most == 0 && pl_b_worst(e, n) > 0) most = 1;
        s->error = fmax(s->error, most);
        if (k < d->n_factors) s->factor[k] = pl_b_peak(x, n) + most;
    }
    return PL_OK;
}

/* Adds the contribution of one factor to sum: its squared errors times the squares of the others.
 * which < 0: the bias only. */
static pl_status add_squares(dot_run *r, const scales *s, int which, bool with_bias, double *sum) {
    const pl_b_dot *d = r->dot;
    pl_status st = PL_OK;
    double unit = s->error;
    for (int k = 0; k < d->n_factors; k++) {
        if (which >= 0 && k != which) unit *= s->factor[k];
    }
    if (!(unit > 0)) unit = 1;
    for (int k = 0; k < d->n_factors && st == PL_OK; k++) {
        const double scale = s->factor[k] > 0 ? s->factor[k] : 1;
        if (which < 0) {
            st = put_zero(r, d->factor[k]);
        } else {
            st = k == which ? put_square(r, d->factor[k], true, s->error, 1)
                            : put_square(r, d->factor[k], false, scale, 1);
        }
    }
    /* The kernel computes alpha * sum + beta * bias; squared errors need alpha^2 and beta^2. */
    const double alpha = d->alpha == 0 ? 1 : d->alpha;
    if (st == PL_OK && has_bias(r)) {
        st = with_bias ? put_square(r, d->bias, true, unit, d->beta / alpha) : put_zero(r, d->bias);
    }
    pl_tensor *part = NULL;
    if (st == PL_OK) st = pl_b_apply(r->c, r->x, r->precision, 0, &part);
    clear(r);
    if (st != PL_OK) return st;
    const double *p = part->data;
    for (int64_t i = 0; i < part->n_elements; i++)
        sum[i] += fabs(p[i] * alpha) * unit * unit;
    pl_tensor_unref(part);
    return PL_OK;
}

static pl_status add_inherited(dot_run *r, double *e) {
    const pl_b_dot *d = r->dot;
    const pl_tensor *y = pl_b_out(r->c, 0);
    scales s;
    PL_TRY(measure(r, &s));
    if (!(s.error > 0)) return PL_OK;
    double *sum = pl_arena_array(r->c->scratch, (size_t)y->n_elements, sizeof(double));
    if (sum == NULL) return pl_fail_memory(r->c->err, (size_t)y->n_elements);
    bool bias = has_bias(r) && pl_b_e(r->c, d->bias) != NULL;
    for (int k = 0; k < d->n_factors; k++) {
        if (pl_b_e(r->c, d->factor[k]) == NULL) continue;
        PL_TRY(add_squares(r, &s, k, bias, sum));
        bias = false;
    }
    if (bias) PL_TRY(add_squares(r, &s, -1, true, sum));
    for (int64_t i = 0; i < y->n_elements; i++)
        e[i] += sqrt(sum[i]);
    return PL_OK;
}

/* ---- integers: exact, and what is wrong in a code is wrong by whole products ---- */

static pl_status integer_rule(dot_run *r) {
    const pl_b_dot *d = r->dot;
    pl_bound *c = r->c;
    pl_status st = PL_OK;
    double *e = NULL;
    if (!pl_b_any_error(c)) return PL_OK;
    PL_TRY(pl_b_new(c, 0, &e));
    for (int which = 0; which < d->n_factors && st == PL_OK; which++) {
        pl_tensor *part = NULL;
        if (pl_b_e(c, d->factor[which]) == NULL) continue;
        for (int k = 0; k < d->n_factors && st == PL_OK; k++) {
            if (k != which) st = put_magnitude(r, d->factor[k], 1);
        }
        r->x[d->factor[which]] = pl_tensor_ref(c->e_in[d->factor[which]]);
        if (st == PL_OK && has_bias(r)) st = put_zero(r, d->bias);
        if (st == PL_OK) st = pl_b_apply(c, r->x, PL_F64, 0, &part);
        clear(r);
        for (int64_t i = 0; st == PL_OK && i < part->n_elements; i++)
            e[i] += fabs(((const double *)part->data)[i]);
        pl_tensor_unref(part);
    }
    return st;
}

pl_status pl_b_dot_rule(pl_bound *c, const pl_b_dot *dot) {
    const pl_tensor *y = pl_b_out(c, 0);
    double *e = NULL;
    if (y == NULL) return PL_OK;
    dot_run r = { .c = c, .dot = dot, .precision = c->out_native[0] == PL_F64 ? PL_F64 : PL_F32 };
    r.x = pl_arena_array(c->scratch, (size_t)c->n_in + 1, sizeof(pl_tensor *));
    if (r.x == NULL) return pl_fail_memory(c->err, (size_t)c->n_in);
    if (!pl_dtype_is_float(c->out_native[0])) return integer_rule(&r);
    PL_TRY(pl_b_new(c, 0, &e));
    if (y->n_elements == 0) return PL_OK;
    PL_TRY(add_local(&r, e));
    return pl_b_any_error(c) ? add_inherited(&r, e) : PL_OK;
}

pl_status pl_b_product_rule(pl_bound *c, int a, int b, int bias, double k) {
    const pl_b_dot dot = {
        .n_factors = 2, .factor = { a, b }, .bias = bias, .alpha = 1, .beta = 1, .k = k
    };
    return pl_b_dot_rule(c, &dot);
}
