#include "flows/compare/compare_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/compare/compare_weights_int.h"
#include "flows/prepare.h"
#include "graph/edit.h"
#include "ops/op.h"
#include "pair/pair.h"

enum { MAX_TOLD = 4, BLOCK = 32 };
static const char DOMAIN[] = "plumb";
/* How far a weight may be from its rounded one: in steps, as a root mean square over a row (evenly
 * spread errors have .29); by a common factor, in standard deviations of such errors; and in
 * squares, relative to its own: what has nothing to do with it is off by 1 at least, which is less
 * than a step of 2 bits (rows of normal and t-distributed weights in IQ1_S: up to .6). */
static const double STEPS = 1.5, DEVIATIONS = 6, SQUARES = 0.75;

typedef struct taking {
    pl_gguf *file;
    const char *path;
    pl_model *model;
    pl_buf *notes;
    size_t n_taken, n_other, n_codes;
    int64_t heads, key_heads; /* 0 = unknown */
} taking;

/* A place for a weight: input `slot` of a node. */
typedef struct slot {
    pl_node *node;
    uint32_t at;
    const pl_tensor *own; /* as float once it is compared */
    pl_dtype own_dtype;
    pl_pair_place place;
    bool turned; /* the model has (inputs, outputs), the file (outputs, inputs) */
} slot;

/* ---- finding ---- */

double pl_compare_gguf_number(const pl_gguf *file, const char *suffix, double otherwise) {
    for (size_t i = 0; i < file->n_metadata; i++) {
        const pl_gguf_pair *p = &file->metadata[i];
        if (!pl_path_has_suffix(p->key, suffix) || p->is_array) continue;
        pl_buf text = PL_BUF_INIT;
        pl_gguf_put_value(&text, p, 1);
        const double value = strtod(pl_buf_str(&text), NULL);
        pl_buf_release(&text);
        return isfinite(value) ? value : otherwise;
    }
    return otherwise;
}

static int64_t count_at(const pl_gguf *file, const char *suffix, int64_t otherwise) {
    const double n = pl_compare_gguf_number(file, suffix, 0);
    return n >= 1 && n < 1 << 20 ? (int64_t)n : otherwise;
}

static bool is_float(const pl_tensor *t) {
    return t->dtype == PL_F32 || t->dtype == PL_F16 || t->dtype == PL_BF16;
}

static bool is_norm(const pl_pair_place *p) {
    return pl_pair_place_is(p, "norm_in") || pl_pair_place_is(p, "norm_post") ||
           pl_pair_place_is(p, "norm_q") || pl_pair_place_is(p, "norm_k") ||
           pl_pair_place_is(p, "norm_last");
}

static bool is_product(const pl_node *node) {
    return node->def != NULL && node->def->weights != PL_WEIGHTS_NONE;
}

/* Products by their second input, the table of tokens, gains and biases wherever they are. */
static bool is_slot(const pl_node *node, uint32_t at, slot *out) {
    const pl_value *v = node->in[at];
    if (v == NULL || v->init == NULL || !is_float(v->init)) return false;
    const pl_tensor *t = v->init;
    *out = (slot){ .at = at, .own = t, .own_dtype = t->dtype };
    if (!pl_pair_place_of(v->name, &out->place) && !pl_pair_place_of(node->name, &out->place))
        return false;
    if (t->rank == 1) return true;
    if (t->rank != 2) return false;
    if (!is_product(node)) return pl_pair_place_is(&out->place, "embedding");
    const pl_attr *turn = pl_node_attr(node, "transB");
    out->turned = turn == NULL || turn->i == 0;
    return at == 1;
}

/* "blk.0.attn_q.weight" for a matrix of that place, or for a gain; ".bias" for what is added. */
static const pl_gguf_entry *entry_of(const taking *x, const slot *s) {
    const bool bias = s->own->rank == 1 &&
                      (!is_norm(&s->place) || pl_path_has_suffix(s->node->in[s->at]->name, "bias"));
    const char *last = bias ? ".bias" : ".weight";
    const bool head = pl_pair_place_is(&s->place, "head");
    const pl_gguf_entry *tied = NULL;
    for (size_t i = 0; i < x->file->n_entries; i++) {
        const pl_gguf_entry *e = &x->file->entries[i];
        pl_pair_place p;
        if (!pl_path_has_suffix(e->name, last) || e->rank != s->own->rank) continue;
        if (!pl_pair_place_of(e->name, &p)) continue;
        if (head && p.layer < 0 && pl_pair_place_is(&p, "embedding")) tied = e;
        if (p.role == s->place.role && p.layer == s->place.layer) return e;
    }
    return tied;
}

/* ---- the order of elements ---- */

/* Where a row of the file begins in the model, and how far its elements are apart. `heads` > 0:
 * rows of a head are its two halves in turns, as the converter of architecture llama stores Q and
 * K. */
static int64_t row_at(const slot *s, const int64_t *dims, int64_t heads, int64_t row,
                      int64_t *stride) {
    if (heads > 0) {
        const int64_t size = dims[0] / heads, in = row % size;
        row += in % 2 * (size / 2) + in / 2 - in;
    }
    *stride = s->turned ? dims[0] : 1;
    return s->turned || s->own->rank == 1 ? row : row * dims[1];
}

static bool fits(const slot *s, const pl_tensor *t) {
    if (s->own->rank == 1) return t->dims[0] == s->own->dims[0];
    return s->own->dims[s->turned] == t->dims[0] && s->own->dims[!s->turned] == t->dims[1];
}

/* ---- is it the same weight, rounded? ---- */

typedef struct fit {
    double steps;  /* the largest rms of a row, in steps */
    double factor; /* the common factor that is least like rounding, of a row or of all */
    double doubt;  /* how far it is from 1, in what rounding explains */
    double error;  /* relative rms over all */
    int64_t row;   /* of that factor; -1 = all */
    double lost;   /* the largest mean square of a row, relative to the row */
    int64_t lost_row;
} fit;

typedef struct sums {
    double ww, wg, ee, uu, noise, bias, n;
} sums;

static double unit_of(pl_dtype dtype) {
    return dtype == PL_F16 ? 0x1p-10 : dtype == PL_BF16 ? 0x1p-7 : 0x1p-22;
}

/* The step between two values around g, of the file's type or the model's; the block of g reaches
 * `most` and spans `range`. */
static double step_of(const slot *s, const pl_gguf_type *type, double g, double most,
                      double range) {
    const double own = fabs(g) * unit_of(s->own_dtype) + 0x1p-24;
    if (type->block == 1) return fmax(own, fabs(g) * unit_of(type->dtype));
    const double bits = floor(8.0 * (double)type->n_bytes / (double)type->block);
    return fmax(own, fmax(most / exp2(bits - 1), range / (exp2(bits) - 1)));
}

/* Codes of 4 bits that are floats: the scale is a power of two, and the largest are cut off. */
static bool cuts(const pl_gguf_type *type) {
    return strcmp(type->name, "MXFP4") == 0 || strcmp(type->name, "NVFP4") == 0;
}

/* How far the factor is from where it can be, [cosine squared, 1]: the best values for the codes of
 * a block are means, which have the former; others do not shrink. Code books (IQ2, IQ3) may be .04
 * too large, the coarser the codes, the more. */
static double doubt_of(const sums *s, const pl_gguf_type *type, double factor) {
    const double gg = s->ee - s->ww + 2 * s->wg;
    const double cosine2 = gg > 0 ? fmin(1, s->wg * s->wg / (s->ww * gg)) : 0;
    const double off = fmax(0, fmax(factor - 1, cosine2 - factor));
    const double book = strncmp(type->name, "IQ", 2) == 0 ? 0.04 : 0;
    return off / ((DEVIATIONS * sqrt(s->noise) + s->bias) / s->ww + 1 - cosine2 + book + 1e-6);
}

static void judge(const sums *s, const pl_gguf_type *type, int64_t row, fit *out) {
    if (!(s->ww > 0) || s->n < 4) return;
    const double factor = s->wg / s->ww, r2 = s->ee / s->ww, doubt = doubt_of(s, type, factor);
    if (s->uu > 0) out->steps = fmax(out->steps, sqrt(s->uu / s->n));
    if (r2 > out->lost) {
        out->lost = r2;
        out->lost_row = row;
    }
    if (doubt <= out->doubt) return;
    out->doubt = doubt;
    out->factor = factor;
    out->row = row;
}

static void add(sums *to, const sums *from) {
    to->ww += from->ww;
    to->wg += from->wg;
    to->ee += from->ee;
    to->uu += from->uu;
    to->noise += from->noise;
    to->bias += from->bias;
    to->n += from->n;
}

/* Sums over a row of the file, g, and of the model, w. */
static sums sums_of(const slot *s, const pl_gguf_type *type, const float *g, const float *w,
                    int64_t stride, int64_t n) {
    sums of = { .n = 0 };
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t to = from + BLOCK < n ? from + BLOCK : n;
        float low = 0, high = 0; /* fmin of doubles here crashes gcc 12 for ARM64 */
        for (int64_t k = from; k < to; k++) {
            low = g[k] < low ? g[k] : low;
            high = g[k] > high ? g[k] : high;
        }
        for (int64_t k = from; k < to; k++) {
            const double x = (double)w[k * stride], y = (double)g[k], e = y - x;
            const double u =
                step_of(s, type, y, (double)fmaxf(high, -low), (double)high - (double)low);
            const double cut = cuts(type) && (g[k] == high || g[k] == low) ? fabs(y * x) / 3 : 0;
            add(&of, &(sums){ x * x, x * y, e * e, e / u * (e / u), u * u * x * x / 12, cut, 1 });
        }
    }
    return of;
}

static fit fit_of(const slot *s, const pl_gguf_type *type, const pl_tensor *g, int64_t heads) {
    const int64_t columns = g->rank == 2 ? g->dims[1] : 1;
    const float *from = g->data, *own = s->own->data;
    fit out = { .row = -1, .factor = 1, .lost_row = -1 };
    sums all = { .n = 0 };
    for (int64_t row = 0; g->rank == 2 && row < g->dims[0]; row++) {
        int64_t stride = 1;
        const int64_t at = row_at(s, g->dims, heads, row, &stride);
        const sums of = sums_of(s, type, from + row * columns, own + at, stride, columns);
        judge(&of, type, row, &out);
        add(&all, &of);
    }
    if (g->rank == 1) all = sums_of(s, type, from, own, 1, g->dims[0]);
    judge(&all, type, -1, &out);
    if (!isfinite(all.ee)) out.steps = (double)INFINITY;
    out.error = all.ww > 0 ? sqrt(all.ee / all.ww) : 0;
    return out;
}

static bool is_same(const fit *f) {
    return f->steps <= STEPS && f->doubt <= 1 && f->lost <= SQUARES;
}

/* ---- putting it in ---- */

static const char *rounding_before(const pl_gguf_type *type) {
    static const char *const rows[][2] = {
        { "F16", "F16" },   { "BF16", "BF16" },   { "Q4_0", "Q8_0" },  { "Q5_0", "Q8_0" },
        { "Q8_0", "Q8_0" }, { "IQ4_NL", "Q8_0" }, { "MXFP4", "Q8_0" }, { "NVFP4", "Q8_0" },
        { "Q1_0", "Q8_0" }, { "Q2_0", "Q8_0" },   { "Q4_1", "Q8_1" },  { "Q5_1", "Q8_1" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], type->name) == 0) return rows[i][1];
    return type->block == 256 ? "Q8_K" : NULL;
}

/* The node that rounds this value so already; NULL = none. */
static pl_value *rounded(const pl_graph *graph, const pl_value *in, const char *type) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (strcmp(node->domain, DOMAIN) == 0 && node->in[0] == in &&
            pl_attr_string_is(node, "type", type))
            return node->out[0];
    }
    return NULL;
}

static bool is_half(const char *type) {
    return strcmp(type, "F16") == 0 || strcmp(type, "CACHE") == 0;
}

/* Its name has no role: it must not be paired in the place of what it rounds. */
pl_status pl_compare_round_input(pl_model *model, pl_node *of, uint32_t at, const char *type,
                                 pl_err *err) {
    pl_graph *graph = model->graph;
    pl_value *in = of->in[at], *out = rounded(graph, in, type);
    pl_node *node = NULL;
    if (out == NULL) {
        PL_TRY(pl_model_set_opset(model, DOMAIN, 1, err));
        PL_TRY(pl_graph_add_fresh_value(graph, type, &out, err));
        if (is_half(type))
            PL_TRY(pl_graph_add_node(graph, "GgmlHalf", DOMAIN, 1, 1, &node, err));
        else
            PL_TRY(pl_graph_add_node(graph, "GgmlRound", DOMAIN, 1, 1, &node, err));
        pl_attr *attr = pl_node_add_attr(node, "type", PL_ATTR_STRING);
        const char *text = pl_model_intern(model, type, strlen(type));
        if (attr == NULL || text == NULL) return pl_fail_memory(err, 1);
        attr->s.data = text;
        attr->s.n_bytes = strlen(type);
        node->in[0] = in;
        pl_node_set_output(node, 0, out);
    }
    of->in[at] = out;
    return PL_OK;
}

/* Rows of the file to their places in the model, from its column `first` on. */
static void place_rows(const slot *s, const pl_tensor *g, const pl_tensor *to, int64_t heads,
                       int64_t first) {
    const int64_t columns = g->rank == 2 ? g->dims[1] : 1;
    const float *from = g->data;
    int64_t file[2] = { g->dims[0], columns };
    if (to->rank == 2) file[1] = to->dims[!s->turned];
    for (int64_t row = 0; row < g->dims[0]; row++) {
        int64_t stride = 1;
        float *at = (float *)to->data + row_at(s, file, heads, row, &stride);
        for (int64_t k = 0; k < columns; k++)
            at[(first + k) * stride] = from[row * columns + k];
    }
}

/* The weight as the model has it. Behind it come the minima of its blocks, if any: they meet what
 * GgmlRound puts behind the activations. */
static pl_status in_place(const slot *s, const pl_tensor *g, const pl_tensor *minima, int64_t heads,
                          pl_tensor **out, pl_err *err) {
    int64_t dims[PL_RANK_MAX];
    memcpy(dims, s->own->dims, sizeof dims);
    if (minima != NULL) dims[!s->turned] += minima->dims[1];
    PL_TRY(pl_tensor_new(PL_F32, s->own->rank, dims, out, err));
    place_rows(s, g, *out, heads, 0);
    if (minima != NULL) place_rows(s, minima, *out, heads, g->dims[1]);
    return PL_OK;
}

static pl_status put(taking *x, const slot *s, const pl_gguf_entry *e, const pl_tensor *g,
                     int64_t heads, pl_err *err) {
    pl_tensor *minima = NULL, *made = NULL, *cast = NULL;
    pl_value *value = NULL;
    const char *type = is_product(s->node) ? rounding_before(e->type) : NULL;
    if (type != NULL) PL_TRY(pl_gguf_read_minima(x->file, e, &minima, err));
    pl_status st = in_place(s, g, minima, heads, &made, err);
    pl_tensor_unref(minima);
    PL_TRY(st);
    st = pl_tensor_cast(made, s->own_dtype, &cast, err);
    if (st == PL_OK)
        st = pl_graph_add_fresh_value(x->model->graph, s->node->in[s->at]->name, &value, err);
    if (st == PL_OK) st = pl_value_set_init(value, cast, err);
    if (st == PL_OK) s->node->in[s->at] = value;
    if (st == PL_OK && type != NULL) st = pl_compare_round_input(x->model, s->node, 0, type, err);
    x->n_taken++;
    x->n_codes += type != NULL;
    pl_tensor_unref(made);
    pl_tensor_unref(cast);
    return st;
}

static void say(taking *x, const slot *s, const pl_gguf_entry *e, const fit *f) {
    if (x->n_other++ >= MAX_TOLD) return;
    pl_buf_printf(x->notes, "weight '%s' (%s) of %s is not '%s', rounded: ", e->name, e->type->name,
                  x->path, s->node->in[s->at]->name);
    if (f->doubt > 1 && f->row >= 0)
        pl_buf_printf(x->notes, "row %lld is %.4g times as large\n", (long long)f->row, f->factor);
    else if (f->doubt > 1)
        pl_buf_printf(x->notes, "it is %.4g times as large\n", f->factor);
    else if (f->lost > SQUARES && f->lost_row >= 0)
        pl_buf_printf(x->notes, "row %lld differs by %.3g of its size\n", (long long)f->lost_row,
                      sqrt(f->lost));
    else
        pl_buf_printf(x->notes, "it differs by %.3g of its size, %.3g steps of its type\n",
                      f->error, f->steps);
}

/* The order of rows that fits best; 0 = as they are. */
static int64_t heads_of(const taking *x, const slot *s, const pl_gguf_type *type,
                        const pl_tensor *g, fit *best) {
    const int64_t heads = pl_pair_place_is(&s->place, "q")   ? x->heads
                          : pl_pair_place_is(&s->place, "k") ? x->key_heads
                                                             : 0;
    *best = fit_of(s, type, g, 0);
    if (heads == 0 || is_same(best) || g->dims[0] % heads != 0 || g->dims[0] / heads % 2 != 0)
        return 0;
    const fit turned = fit_of(s, type, g, heads);
    if (!is_same(&turned) && turned.error >= best->error) return 0;
    *best = turned;
    return heads;
}

static pl_status compare(taking *x, slot *s, const pl_gguf_entry *e, const pl_tensor *g,
                         pl_err *err) {
    pl_tensor *own = NULL;
    pl_status st = PL_OK;
    fit best;
    PL_TRY(pl_tensor_cast(s->own, PL_F32, &own, err));
    s->own = own;
    const int64_t heads = heads_of(x, s, e->type, g, &best);
    if (is_same(&best))
        st = put(x, s, e, g, heads, err);
    else
        say(x, s, e, &best);
    pl_tensor_unref(own);
    return st;
}

static pl_status take(taking *x, slot *s, pl_err *err) {
    const pl_gguf_entry *e = entry_of(x, s);
    pl_tensor *stored = NULL, *g = NULL;
    if (e == NULL || s->own->n_elements == 0) return PL_OK;
    PL_TRY(pl_gguf_read(x->file, e, &stored, err));
    pl_status st = pl_tensor_cast(stored, PL_F32, &g, err);
    pl_tensor_unref(stored);
    if (st == PL_OK && fits(s, g)) {
        st = compare(x, s, e, g, err);
    } else if (st == PL_OK && x->n_other++ < MAX_TOLD) {
        pl_buf_printf(x->notes, "weight '%s' of %s has another shape than '%s'\n", e->name, x->path,
                      s->node->in[s->at]->name);
    }
    pl_tensor_unref(g);
    return st;
}

static pl_status take_all(taking *x, pl_err *err) {
    pl_graph *graph = x->model->graph;
    for (size_t i = 0, n = graph->n_nodes; i < n; i++) {
        pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            slot s;
            if (!is_slot(node, k, &s)) continue;
            s.node = node;
            PL_TRY(take(x, &s, err));
        }
    }
    if (x->n_taken + x->n_other == 0)
        return pl_fail(err, PL_E_INVALID,
                       "%s: none of its %zu tensors is a weight of the model by layer and role",
                       x->path, x->file->n_entries);
    pl_buf_printf(x->notes,
                  "%zu weight%s of %s took the place of the model's (%zu before which "
                  "llama.cpp rounds activations); %zu differ by more than rounding\n",
                  x->n_taken, pl_plural(x->n_taken), x->path, x->n_codes, x->n_other);
    return PL_OK;
}

static pl_status bar(const taking *x, int of, pl_pair_map *map, pl_err *err) {
    const pl_graph *graph = x->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        if (strcmp(graph->nodes[i]->domain, DOMAIN) != 0) continue;
        const char *name = graph->nodes[i]->out[0]->name;
        PL_TRY(pl_pair_map_bar(map, of, name, err));
    }
    return PL_OK;
}

pl_status pl_compare_take_weights(pl_compare_side *side, const pl_recording *theirs, int of,
                                  const char *path, pl_pair_map *map, pl_buf *notes, pl_err *err) {
    pl_file_map *bytes = NULL;
    taking x = { .path = path, .model = side->model->model, .notes = notes };
    PL_TRY(pl_make_ready(x.model, PL_READY_RESOLVED, NULL, err));
    PL_TRY(pl_file_map_open(path, &bytes, err));
    pl_status st = pl_gguf_sniff(bytes->data, bytes->n_bytes)
                       ? pl_gguf_open(bytes, &x.file, err)
                       : pl_fail(err, PL_E_FORMAT, "not a GGUF file");
    pl_file_map_unref(bytes);
    if (st != PL_OK) return pl_err_wrap(err, st, "%s", path);
    x.heads = count_at(x.file, ".attention.head_count", 0);
    x.key_heads = count_at(x.file, ".attention.head_count_kv", x.heads);
    st = take_all(&x, err);
    if (st == PL_OK) st = pl_compare_take_rotary(x.model, x.file, path, notes, err);
    if (st == PL_OK) st = pl_graph_sort(x.model->graph, err);
    if (st == PL_OK) st = pl_compare_take_cache(x.model, theirs, notes, err);
    if (st == PL_OK) st = bar(&x, of, map, err);
    side->model->edited = true;
    pl_gguf_close(x.file);
    return st;
}
