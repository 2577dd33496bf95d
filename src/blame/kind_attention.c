/* Kinds of error of attention: its scale, mask, window, rotary table, cache, or the order of its
 * heads. What the outputs show beside each other tells rotary and cache; for the others the node is
 * replayed as a runtime that makes this mistake would compute it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "ops/op.h"
#include "tensor/ranges.h"

enum { MAX_INPUTS = 32, MAX_KEYS = 160, GRID = 16, REFINE = 24 };
static const double EXPLAINED = 0.05; /* of the error may be left */
static const double HIDDEN = -1e30;   /* added to a score */
static const double IS_HIDDEN = -1e4; /* masks of models use this or less */
#define MAX_WORK 2e8                  /* products for all replays */

typedef struct trial { /* the node alone, with all inputs that a mistake may need */
    pl_blaming *j;
    const pl_node *node;
    const pl_attends *as;
    const pl_value *value;
    const pl_tensor *a, *d;
    const pl_ranges *nothing;
    pl_model *model;
    pl_replay *replay;
    pl_value *in[MAX_INPUTS];
    pl_datum *data[MAX_INPUTS];
    int64_t batch, heads, rows, keys;
    double initial; /* rms of a - d */
} trial;

static const pl_tensor *tensor_of(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

static double rms_apart(const pl_tensor *x, const pl_tensor *y) {
    double sum = 0;
    for (int64_t i = 0; i < x->n_elements; i++) {
        const double off = pl_tensor_get_f64(x, i) - pl_tensor_get_f64(y, i);
        sum += off * off;
    }
    return x->n_elements == 0 ? 0 : sqrt(sum / (double)x->n_elements);
}

/* ---- the order of the heads ---- */

/* Element e of head h at a place; x is (batch, rows, heads * size) or (batch, heads, rows, size).
 */
static int64_t element(const trial *t, int64_t place, int64_t h, int64_t e, int64_t size) {
    if (t->a->rank == 3) return (place * t->heads + h) * size + e;
    const int64_t b = place / t->rows, r = place % t->rows;
    return ((b * t->heads + h) * t->rows + r) * size + e;
}

static double head_distance(const trial *t, int64_t x, int64_t y, int64_t size) {
    double sum = 0;
    for (int64_t p = 0; p < t->batch * t->rows; p++)
        for (int64_t e = 0; e < size; e++) {
            const double off = pl_tensor_get_f64(t->a, element(t, p, x, e, size)) -
                               pl_tensor_get_f64(t->d, element(t, p, y, e, size));
            sum += off * off;
        }
    return sqrt(sum / (double)(t->batch * t->rows * size));
}

static bool heads_moved(const trial *t) {
    const int64_t size = t->a->n_elements / (t->batch * t->rows * t->heads);
    bool moved = false;
    if (t->heads < 2 || t->heads > 64 || t->a->n_elements % (t->batch * t->rows * t->heads) != 0)
        return false;
    for (int64_t h = 0; h < t->heads; h++) {
        int64_t best = 0;
        double least = (double)INFINITY;
        for (int64_t k = 0; k < t->heads; k++) {
            const double far = head_distance(t, h, k, size);
            if (far < least || (far == least && k == h)) {
                least = far;
                best = k;
            }
        }
        if (!(least <= EXPLAINED * t->initial)) return false;
        moved = moved || best != h;
    }
    return moved;
}

/* ---- the cache ---- */

typedef struct cache_rows {
    bool known;
    int64_t n, n_bad, first, shift; /* shift: A's rows are those so far on; 0 = they are not */
} cache_rows;

static double row_distance(const pl_tensor *x, int64_t i, const pl_tensor *y, int64_t k,
                           double *size) {
    const int64_t n = x->dims[2], cells = x->dims[3];
    double sum = 0, all = 0;
    for (int64_t m = 0; m < x->dims[0] * x->dims[1]; m++)
        for (int64_t e = 0; e < cells; e++) {
            const double p = pl_tensor_get_f64(x, (m * n + i) * cells + e);
            const double q = pl_tensor_get_f64(y, (m * n + k) * cells + e);
            sum += (p - q) * (p - q);
            all += q * q;
        }
    *size = sqrt(all);
    return sqrt(sum);
}

/* Which positions of a cache (batch, heads, positions, size) are wrong. */
static pl_status look_at_cache(pl_blaming *j, const pl_node *node, int out, double u,
                               cache_rows *rows, pl_err *err) {
    const pl_value *value = out >= 0 && (uint32_t)out < node->n_out ? node->out[out] : NULL;
    pl_datum *a = NULL;
    *rows = (cache_rows){ .first = -1 };
    if (value == NULL || !j->a->has(j->a->ctx, value)) return PL_OK;
    const pl_tensor *y = tensor_of(pl_replay_get(j->local, value));
    PL_TRY(pl_blaming_get(j, value, &a, err));
    pl_tensor *x = NULL;
    pl_status st = PL_OK;
    if (tensor_of(a) != NULL && y != NULL && y->rank == 4 && pl_tensor_same_shape(a->tensor, y))
        st = pl_ranges_replace(&(pl_ranges){ NULL, 0, 0 }, a->tensor, NULL, &x, err);
    const pl_ranges *nothing = pl_dont_care_of(&j->dont_care, value);
    if (x != NULL && st == PL_OK && nothing != NULL) {
        pl_tensor *leveled = NULL;
        st = pl_ranges_replace(nothing, x, y, &leveled, err);
        pl_tensor_unref(x);
        x = leveled;
    }
    const double slack = fmax(1e-5, 64 * u);
    for (int64_t i = 0; x != NULL && st == PL_OK && i < y->dims[2]; i++) {
        double size = 0;
        rows->known = true;
        rows->n++;
        if (row_distance(x, i, y, i, &size) <= slack * size) continue;
        if (rows->first < 0) rows->first = i;
        rows->n_bad++;
        for (int64_t s = -2; s <= 2; s++) {
            const int64_t k = i + s;
            if (s == 0 || k < 0 || k >= y->dims[2]) continue;
            if (row_distance(x, i, y, k, &size) <= slack * size) rows->shift = s;
        }
    }
    pl_tensor_unref(x);
    pl_datum_unref(a);
    return st;
}

static const char *say_rows(trial *t, const char *what, const cache_rows *rows) {
    if (rows->n_bad == 1)
        return pl_arena_printf(t->j->out->arena, "%s position %lld", what, (long long)rows->first);
    return pl_arena_printf(t->j->out->arena, "%s %lld of %lld positions from %lld on", what,
                           (long long)rows->n_bad, (long long)rows->n, (long long)rows->first);
}

static bool set(pl_kind_fit *kind, const char *name, const char *text) {
    *kind = (pl_kind_fit){ name, kind->where, text == NULL ? name : text, NULL };
    return true;
}

/* Only the keys are wrong: they are rotated wrongly. */
static pl_status try_cache(trial *t, double u, bool *done, pl_kind_fit *kind, pl_err *err) {
    cache_rows keys, values;
    PL_TRY(look_at_cache(t->j, t->node, t->as->key_out, u, &keys, err));
    PL_TRY(look_at_cache(t->j, t->node, t->as->value_out, u, &values, err));
    const cache_rows *worse = keys.n_bad > 0 ? &keys : &values;
    const bool rotates =
        t->as->cos >= 0 && (uint32_t)t->as->cos < t->node->n_in && t->node->in[t->as->cos] != NULL;
    if (!keys.known || !values.known || worse->n_bad == 0) return PL_OK;
    if (worse->shift != 0) {
        *done = set(kind, "cache position",
                    pl_arena_printf(t->j->out->arena, "%s, off by %lld",
                                    say_rows(t, "cache:", worse), (long long)-worse->shift));
    } else if (keys.n_bad > 0 && values.n_bad == 0 && rotates) {
        *done = set(kind, "rotary row", say_rows(t, "rotary embedding of", &keys));
    } else {
        *done = set(kind, "cache position", say_rows(t, "cache:", worse));
    }
    return PL_OK;
}

/* ---- replays ---- */

static pl_status add_port(trial *t, pl_node *copy, uint32_t i, pl_err *err) {
    char name[24];
    (void)snprintf(name, sizeof(name), "i%u", i);
    PL_TRY(pl_graph_add_value(t->model->graph, name, &t->in[i], err));
    PL_TRY(pl_graph_add_input(t->model->graph, t->in[i], err));
    copy->in[i] = t->in[i];
    return PL_OK;
}

static pl_status build(trial *t, pl_err *err) {
    const pl_node *node = t->node;
    const uint32_t bias = t->as->bias < 0 ? 0 : (uint32_t)t->as->bias;
    const uint32_t n_in = node->n_in > bias ? node->n_in : bias + 1;
    pl_node *copy = NULL;
    pl_value *out = NULL;
    PL_TRY(pl_model_new(&t->model, err));
    PL_TRY(pl_model_set_opset(t->model, node->domain, node->opset, err));
    PL_TRY(pl_graph_add_node(t->model->graph, node->op, node->domain, n_in, 1, &copy, err));
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        pl_attr *attr = pl_node_add_attr(copy, node->attrs[i].name, node->attrs[i].type);
        if (attr == NULL) return pl_fail_memory(err, 1);
        const char *name = attr->name;
        *attr = node->attrs[i];
        attr->name = name;
    }
    for (uint32_t i = 0; i < n_in; i++)
        if ((i < node->n_in && node->in[i] != NULL) || (t->as->bias >= 0 && i == bias))
            PL_TRY(add_port(t, copy, i, err));
    PL_TRY(pl_graph_add_value(t->model->graph, "y", &out, err));
    pl_node_set_output(copy, 0, out);
    PL_TRY(pl_graph_add_output(t->model->graph, out, err));
    PL_TRY(pl_ops_resolve(t->model, err));
    const pl_replay_options options = { .pool = t->j->options->pool, .no_bounds = true };
    return pl_replay_new(t->model, &options, &t->replay, err);
}

/* The inputs as A had them. False when one is missing. */
static pl_status take_inputs(trial *t, bool *all, pl_err *err) {
    *all = t->node->n_in <= MAX_INPUTS;
    for (uint32_t i = 0; *all && i < t->node->n_in; i++) {
        const pl_value *in = t->node->in[i];
        const pl_datum *there = in == NULL ? NULL : pl_replay_get(t->j->local, in);
        if (in == NULL) continue;
        if (there != NULL) {
            t->data[i] = pl_datum_ref(there);
        } else if (in->init != NULL) {
            PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(in->init), &t->data[i], err));
        }
        *all = tensor_of(t->data[i]) != NULL;
    }
    return PL_OK;
}

/* How far A is from the node with input `i` replaced by `with`; NULL: left as it is. */
static pl_status far_with(trial *t, int i, pl_tensor *with, double *far, pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    pl_datum *d = NULL;
    *far = (double)INFINITY;
    for (uint32_t k = 0; k < MAX_INPUTS; k++)
        if (t->in[k] != NULL && t->data[k] != NULL)
            PL_TRY(pl_replay_put(t->replay, t->in[k], t->data[k], NULL, err));
    if (with != NULL) {
        PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(with), &d, err));
        const pl_status st = pl_replay_put(t->replay, t->in[i], d, NULL, err);
        pl_datum_unref(d);
        PL_TRY(st);
    }
    const pl_node *node = t->model->graph->nodes[0];
    if (pl_replay_node(t->replay, node, &trouble) != PL_OK)
        return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
    const pl_tensor *y = tensor_of(pl_replay_get(t->replay, node->out[0]));
    pl_tensor *leveled = NULL;
    if (y == NULL || !pl_tensor_same_shape(y, t->a)) return PL_OK;
    if (t->nothing == NULL) {
        leveled = pl_tensor_ref(y);
    } else {
        PL_TRY(pl_ranges_replace(t->nothing, y, t->d, &leveled, err));
    }
    *far = rms_apart(t->a, leveled);
    pl_tensor_unref(leveled);
    return PL_OK;
}

/* ---- scale ---- */

static pl_status far_scaled(trial *t, double factor, double *far, pl_err *err) {
    const pl_tensor *q = t->data[t->as->q]->tensor;
    pl_tensor *x = NULL;
    PL_TRY(pl_tensor_cast(q, PL_F64, &x, err));
    pl_tensor *own = NULL;
    pl_status st = pl_tensor_copy(x, &own, err);
    pl_tensor_unref(x);
    PL_TRY(st);
    for (int64_t i = 0; i < own->n_elements; i++)
        ((double *)own->data)[i] *= factor;
    st = far_with(t, t->as->q, own, far, err);
    pl_tensor_unref(own);
    return st;
}

static pl_status try_scale(trial *t, bool *done, pl_kind_fit *kind, pl_err *err) {
    double best = 1, least = t->initial;
    const bool packed = t->as->k >= 0 && t->node->in[t->as->k] == NULL;
    if (packed) return PL_OK; /* the query is a part of the input */
    for (int i = -GRID; i <= GRID; i++) {
        const double factor = exp2(i / 4.0);
        double far = 0;
        if (i == 0) continue;
        PL_TRY(far_scaled(t, factor, &far, err));
        if (far < least) {
            least = far;
            best = factor;
        }
    }
    double low = log2(best) - 0.25, high = log2(best) + 0.25;
    for (int i = 0; i < REFINE; i++) { /* golden section */
        const double x = high - 0.6180339887 * (high - low), y = low + 0.6180339887 * (high - low);
        double far_x = 0, far_y = 0;
        PL_TRY(far_scaled(t, exp2(x), &far_x, err));
        PL_TRY(far_scaled(t, exp2(y), &far_y, err));
        if (far_x < far_y) {
            high = y;
            least = far_x;
        } else {
            low = x;
            least = far_y;
        }
    }
    const double factor = exp2((low + high) / 2);
    if (!(least <= EXPLAINED * t->initial) || fabs(factor - 1) < 1e-4) return PL_OK;
    *done = set(kind, "attention scale",
                pl_arena_printf(t->j->out->arena, "attention scale: %.4g times", factor));
    return PL_OK;
}

/* ---- mask ---- */

typedef enum mistake { WINDOW, LOSES_KEY, SEES_KEY, LOSES_LAST, SEES_NEXT, MISTAKES } mistake;

/* The score's summand of query s and key k under a mistake, from what the model adds. */
static double summand(const trial *t, mistake m, int64_t n, int64_t s, int64_t k, double given) {
    const int64_t at = t->keys - t->rows + s;
    switch (m) {
    case WINDOW: return k <= at - n ? HIDDEN : given;
    case LOSES_KEY: return k == n && at > n ? HIDDEN : given;
    case SEES_KEY: return k == n && given <= IS_HIDDEN ? 0 : given;
    case LOSES_LAST: return k == at && at > 0 ? HIDDEN : given;
    case SEES_NEXT: return k == at + 1 && given <= IS_HIDDEN ? 0 : given;
    case MISTAKES: break;
    }
    return given;
}

/* What the model itself adds; a mask of bools hides where it is false. */
static double given_at(const pl_tensor *mask, int64_t b, int64_t s, int64_t k) {
    if (mask == NULL) return 0;
    int64_t at = 0;
    for (int i = 0; i < mask->rank; i++) {
        const int from_end = mask->rank - 1 - i;
        const int64_t index = from_end == 0 ? k : from_end == 1 ? s : from_end == 3 ? b : 0;
        at = at * mask->dims[i] + (mask->dims[i] == 1 ? 0 : index);
    }
    const double x = at < mask->n_elements ? pl_tensor_get_f64(mask, at) : 0;
    if (!pl_dtype_is_float(mask->dtype)) return x != 0 ? 0 : HIDDEN;
    return fmax(x, HIDDEN);
}

static pl_status far_masked(trial *t, mistake m, int64_t n, double *far, pl_err *err) {
    const int64_t dims[4] = { t->batch, 1, t->rows, t->keys };
    const pl_datum *held = t->data[t->as->bias];
    const pl_tensor *mask = tensor_of(held);
    pl_tensor *x = NULL;
    bool changed = false;
    *far = (double)INFINITY;
    PL_TRY(pl_tensor_new(PL_F64, 4, dims, &x, err));
    double *to = x->data;
    for (int64_t b = 0; b < t->batch; b++)
        for (int64_t s = 0; s < t->rows; s++)
            for (int64_t k = 0; k < t->keys; k++, to++) {
                const double given = given_at(mask, b, s, k);
                *to = summand(t, m, n, s, k, given);
                changed = changed || *to != given;
            }
    const pl_status st = changed ? far_with(t, t->as->bias, x, far, err) : PL_OK;
    pl_tensor_unref(x);
    return st;
}

static const char *say_mask(trial *t, mistake m, int64_t n) {
    switch (m) {
    case WINDOW:
        return pl_arena_printf(t->j->out->arena, "attention window: the last %lld keys",
                               (long long)n);
    case LOSES_KEY:
        return pl_arena_printf(t->j->out->arena, "attention mask: key %lld is not seen",
                               (long long)n);
    case SEES_KEY:
        return pl_arena_printf(t->j->out->arena, "attention mask: key %lld is seen", (long long)n);
    case LOSES_LAST: return "attention mask: off by one, a query does not see its own key";
    case SEES_NEXT: return "attention mask: off by one, a query sees the next key";
    case MISTAKES: break;
    }
    return "attention mask";
}

static pl_status try_masks(trial *t, bool *done, pl_kind_fit *kind, pl_err *err) {
    mistake best = MISTAKES;
    int64_t best_n = 0;
    double least = EXPLAINED * t->initial;
    if (t->as->bias < 0 || t->keys > MAX_KEYS || t->keys < t->rows) return PL_OK;
    for (int m = 0; m < MISTAKES; m++) {
        const bool one = m == LOSES_LAST || m == SEES_NEXT;
        for (int64_t n = m == WINDOW ? 1 : 0; n < (one ? 1 : t->keys); n++) {
            double far = 0;
            PL_TRY(far_masked(t, (mistake)m, n, &far, err));
            /* of equal ones the first, which says more: a window of all but one key loses one */
            if (!(far < least)) continue;
            least = far;
            best = (mistake)m;
            best_n = n;
        }
    }
    if (best == MISTAKES) return PL_OK;
    *done = set(kind, best == WINDOW ? "attention window" : "attention mask",
                say_mask(t, best, best_n));
    return PL_OK;
}

/* ---- all ---- */

static bool sizes_of(trial *t) {
    const pl_tensor *q = t->data[t->as->q]->tensor;
    t->heads = pl_attr_int(t->node, t->as->heads);
    if (q->rank == 4) t->heads = q->dims[1];
    if ((q->rank != 3 && q->rank != 4) || t->heads < 1 || t->a->rank != q->rank) return false;
    t->batch = q->dims[0];
    t->rows = q->rank == 4 ? q->dims[2] : q->dims[1];
    const pl_value *key =
        (uint32_t)t->as->key_out < t->node->n_out ? t->node->out[t->as->key_out] : NULL;
    const pl_tensor *cache = key == NULL ? NULL : tensor_of(pl_replay_get(t->j->local, key));
    const pl_tensor *k =
        t->as->k >= 0 && t->data[t->as->k] != NULL ? t->data[t->as->k]->tensor : NULL;
    t->keys = cache != NULL && cache->rank == 4 ? cache->dims[2]
              : k == NULL                       ? t->rows
              : k->rank == 4                    ? k->dims[2]
                                                : k->dims[1];
    return t->batch * t->rows * t->heads > 0;
}

/* A mask that hides nothing, where the node has none. */
static pl_status add_nothing(trial *t, pl_err *err) {
    const int64_t dims[4] = { t->batch, 1, t->rows, t->keys };
    pl_tensor *zeros = NULL;
    if (t->as->bias < 0 || t->data[t->as->bias] != NULL) return PL_OK;
    PL_TRY(pl_tensor_new_zero(PL_F64, 4, dims, &zeros, err));
    return pl_datum_of_tensor_take(zeros, &t->data[t->as->bias], err);
}

static pl_status try_replays(trial *t, bool *done, pl_kind_fit *kind, pl_err *err) {
    const double work = (double)t->a->n_elements * (double)t->keys;
    pl_err trouble = PL_ERR_INIT;
    if (work * (3 * (double)t->keys + 4 * GRID + 2 * REFINE) > MAX_WORK) return PL_OK;
    PL_TRY(add_nothing(t, err));
    if (build(t, &trouble) != PL_OK)
        return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
    PL_TRY(try_masks(t, done, kind, err));
    return *done ? PL_OK : try_scale(t, done, kind, err);
}

pl_status pl_kind_attention(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                            const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind,
                            pl_err *err) {
    const pl_node *node = value->producer;
    trial t = { .j = j, .node = node, .as = node->def->attends, .value = value, .a = a, .d = d };
    bool all = false, done = false;
    if (t.as == NULL || segment->n_computing != 1 || node->n_out == 0 ||
        !pl_tensor_same_shape(a, d))
        return PL_OK;
    const pl_dtype native = pl_blaming_native(j, value, a);
    const double u = pl_dtype_is_float(native) ? pl_dtype_unit_roundoff(native) : 0;
    t.nothing = pl_dont_care_of(&j->dont_care, value);
    t.initial = rms_apart(a, d);
    if (!isfinite(t.initial)) return PL_OK; /* NaN is a kind of its own */
    pl_status st = try_cache(&t, u, &done, kind, err);
    if (st == PL_OK && !done && value == node->out[0]) {
        st = take_inputs(&t, &all, err);
        if (st == PL_OK && all && sizes_of(&t)) {
            if (heads_moved(&t)) {
                done = set(kind, "head order", "heads in another order");
            } else {
                st = try_replays(&t, &done, kind, err);
            }
        }
    }
    for (int i = 0; i < MAX_INPUTS; i++)
        pl_datum_unref(t.data[i]);
    pl_replay_free(t.replay);
    pl_model_free(t.model);
    return st;
}
