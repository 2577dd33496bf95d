/* Floats near N(0,1) by summing integers; integers 0 to 9, below the size of the axis they
 * index. */
#include "flows/inputs_generated.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/decimal.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "base/size.h"
#include "ops/op.h"

typedef struct value_range {
    bool given;
    double low, high;
} value_range;

static const char *input_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    return i < graph->n_inputs ? graph->inputs[i]->name : NULL;
}

static pl_status fail_range(const pl_graph *graph, const char *text, size_t n, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, text, n, input_at, graph);
    const pl_status st =
        pl_fail(err, PL_E_USAGE, "option 'range' %s: the model has no such input%s", text,
                pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static pl_status parse_range(const pl_graph *graph, const plumb_inputs *source, const char *name,
                             value_range *out, pl_err *err) {
    const size_t n_name = strlen(name);
    *out = (value_range){ 0 };
    for (size_t i = 0; i < source->n_ranges; i++) {
        const char *text = source->ranges[i];
        const char *equals = strrchr(text, '=');
        char *end = NULL;
        if (equals == NULL) {
            return pl_fail(err, PL_E_USAGE, "option 'range' is '%s', expected NAME=LO:HI", text);
        }
        bool known = false;
        for (size_t k = 0; k < graph->n_inputs && !known; k++) {
            const char *input = graph->inputs[k]->name;
            known = strlen(input) == (size_t)(equals - text) &&
                    memcmp(input, text, (size_t)(equals - text)) == 0;
        }
        if (!known) {
            return fail_range(graph, text, (size_t)(equals - text), err);
        }
        if ((size_t)(equals - text) != n_name || memcmp(text, name, n_name) != 0) continue;
        out->low = pl_strtod(equals + 1, &end);
        const bool ok = end != equals + 1 && *end == ':';
        const char *second = end + (ok ? 1 : 0);
        if (ok) out->high = pl_strtod(second, &end);
        if (!ok || end == second || *end != '\0' || !(out->low <= out->high) ||
            !isfinite(out->low) || !isfinite(out->high)) {
            return pl_fail(err, PL_E_USAGE, "option 'range' is '%s', expected NAME=LO:HI, LO <= HI",
                           text);
        }
        out->given = true;
    }
    return PL_OK;
}

/* How the operators that read an input interpret its integers. */
typedef struct meaning {
    int64_t low, high;
    bool mask;     /* every row begins with a 1: a mask that hides everything is useless */
    bool distinct; /* counted up from `low` */
    bool steps;    /* from `low` to `high` in equal steps */
} meaning;

static int64_t dim_of(const pl_node *node, int input, int64_t axis, const pl_strmap *dims) {
    const pl_value *v = input < (int)node->n_in ? node->in[input] : NULL;
    const pl_type *type = v == NULL ? NULL : v->type;
    if (v != NULL && v->init != NULL && axis >= 0 && axis < v->init->rank) {
        return v->init->dims[axis];
    }
    if (type == NULL || type->kind != PL_TYPE_TENSOR || !type->has_rank) return -1;
    if (axis < 0) axis += type->rank;
    if (axis < 0 || axis >= type->rank) return -1;
    const pl_dim d = type->dims[axis];
    if (pl_dim_known(d)) return d.value;
    if (v->producer != NULL) return -1;
    const int64_t *given = d.name == NULL ? NULL : pl_strmap_get(dims, d.name);
    return given != NULL ? *given : 1; /* default when generated */
}

static void at_most(meaning *m, int64_t last) {
    if (last < m->high) m->high = last < 0 ? 0 : last;
    if (m->low > m->high) m->low = m->high;
}

static void exactly(meaning *m, int64_t value) {
    m->low = m->high = value < 0 ? 0 : value;
}

/* From 1 to n, where n is known. */
static void length(meaning *m, int64_t n) {
    if (n < 1) return;
    if (m->high > n || m->high == 9) m->high = n;
    m->low = 1;
}

/* The smallest dim of input 0 that a row of indices reaches. */
static void tuple(const pl_node *node, const pl_value *value, const pl_strmap *dims, meaning *m) {
    const pl_type *type = value->type;
    const bool known = type != NULL && type->has_rank && type->rank > 0;
    const int64_t n = known ? dim_of(node, 1, type->rank - 1, dims) : -1;
    const int64_t first = pl_attr_int(node, "batch_dims");
    for (int64_t i = first; i >= 0 && i < first + n && i < PL_RANK_MAX; i++) {
        const int64_t d = dim_of(node, 0, i, dims);
        if (d >= 0) at_most(m, d - 1);
    }
}

static int rank_of(const pl_value *v) {
    if (v != NULL && v->init != NULL) return v->init->rank;
    const pl_type *type = v == NULL ? NULL : v->type;
    return type != NULL && type->kind == PL_TYPE_TENSOR && type->has_rank ? type->rank : -1;
}

static void read_shape_port(const pl_node *node, const pl_value *value, unsigned flags,
                            const pl_strmap *dims, meaning *m) {
    if ((flags & PL_PORT_TUPLE) != 0) tuple(node, value, dims, m);
    if ((flags & PL_PORT_CLASS) != 0 && dim_of(node, 0, 1, dims) >= 0)
        at_most(m, dim_of(node, 0, 1, dims) - 1);
    if ((flags & PL_PORT_AXES) != 0 && rank_of(node->in[0]) > 0) {
        at_most(m, rank_of(node->in[0]) - 1);
        m->distinct = true;
    }
    if ((flags & PL_PORT_COUNT) != 0) length(m, dim_of(node, 0, pl_attr_int(node, "axis"), dims));
    if ((flags & PL_PORT_POSITIVE) != 0 && m->low == 0 && m->high > 0) m->low = 1;
}

static void read_port(const pl_node *node, const pl_value *value, unsigned flags,
                      const pl_strmap *dims, meaning *m) {
    const int rank = value->type != NULL && value->type->has_rank ? value->type->rank : -1;
    const int rows = PL_PORT_ROWS_INPUT(flags);
    if ((flags & PL_PORT_INDEX) != 0) {
        const int64_t n = dim_of(node, 0, pl_attr_int(node, "axis"), dims);
        if (n >= 0) at_most(m, n - 1);
    }
    if (rows >= 0 && dim_of(node, rows, 0, dims) >= 0) at_most(m, dim_of(node, rows, 0, dims) - 1);
    if ((flags & PL_PORT_EXPONENT) != 0) at_most(m, 2);
    if ((flags & PL_PORT_LENGTH) != 0) {
        length(m,
               dim_of(node, 0, pl_attr_int(node, "time_axis") + pl_attr_int(node, "layout"), dims));
    }
    if ((flags & PL_PORT_MASK) != 0 && rank == 1) length(m, dim_of(node, 0, 1, dims));
    if ((flags & PL_PORT_MASK) != 0 && rank != 1) {
        at_most(m, 1);
        m->mask = true;
    }
    if ((flags & (PL_PORT_TOTAL | PL_PORT_LAST)) != 0) {
        const int64_t now = dim_of(node, 0, 1, dims), past = dim_of(node, 3, 2, dims);
        const int64_t total = (now < 0 ? 1 : now) + (past < 0 ? 0 : past);
        exactly(m, (flags & PL_PORT_TOTAL) != 0 ? total : total - 1);
    }
}

/* Ports of attention over pages: input 0 holds the new tokens, 3 the pages, 7 says whose they are,
 * 8 has a row for each position. */
static void read_page_port(const pl_node *node, unsigned flags, const pl_strmap *dims, meaning *m) {
    const int64_t tokens = dim_of(node, 0, 0, dims), pages = dim_of(node, 3, 0, dims);
    const int64_t page = dim_of(node, 3, 1, dims), each = dim_of(node, 7, 1, dims);
    int64_t room = 0, slots = 0;
    if ((flags & PL_PORT_OFFSETS) != 0 && tokens >= 0) {
        *m = (meaning){ .high = tokens, .steps = true };
    }
    if ((flags & PL_PORT_PAGES) != 0 && tokens >= 0 && pl_i64_mul(page, each, &room)) {
        at_most(m, room - tokens);
        if (dim_of(node, 8, 0, dims) >= 0) at_most(m, dim_of(node, 8, 0, dims) - tokens);
    }
    if ((flags & PL_PORT_SLOTS) != 0 && pl_i64_mul(pages, page, &slots) && slots > 0) {
        *m = (meaning){ .high = slots - 1, .distinct = true };
    }
    if ((flags & PL_PORT_DISTINCT) != 0 && PL_PORT_ROWS_INPUT(flags) == 3 && pages > 0) {
        *m = (meaning){ .high = pages - 1, .distinct = true };
    }
}

/* Looks through operators with one input that keep the elements. */
static void find_meaning(const pl_graph *graph, const pl_value *value, const pl_strmap *dims,
                         int depth, meaning *m) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (node->def == NULL) continue;
        const pl_port *port = node->def->in;
        for (uint32_t k = 0; k < node->n_in && port->name != NULL; k++, port++) {
            if (node->in[k] != value) continue;
            read_port(node, value, port->flags, dims, m);
            read_shape_port(node, value, port->flags, dims, m);
            read_page_port(node, port->flags, dims, m);
            const bool keeps = (node->def->flags & (PL_OP_VIEW | PL_OP_CAST)) != 0;
            if (k == 0 && keeps && depth < 4 && node->n_out > 0 && node->out[0] != NULL) {
                find_meaning(graph, node->out[0], dims, depth + 1, m);
            }
        }
    }
}

/* A mask that goes through arithmetic first is recognised by its name. */
static bool is_called_mask(const char *name) {
    for (; *name != '\0'; name++)
        if (strncasecmp(name, "mask", 4) == 0) return true;
    return false;
}

static double pick(const plumb_inputs *source, const value_range *range, bool integer,
                   const meaning *m, uint64_t stream, int64_t i) {
    if (source->fill == PLUMB_FILL_ZEROS) return 0;
    if (source->fill == PLUMB_FILL_ONES) return 1;
    const double u = pl_rng_uniform_at(source->seed, stream, (uint64_t)i);
    if (range->given && integer) return floor(range->low + u * (range->high - range->low + 1));
    if (range->given) return range->low + u * (range->high - range->low);
    if (integer) return (double)m->low + floor(u * (double)(m->high - m->low + 1));
    return pl_rng_normal_at(source->seed, stream, (uint64_t)i);
}

static pl_status fill_strings(pl_tensor *t, const plumb_inputs *source, uint64_t input,
                              pl_err *err) {
    for (int64_t i = 0; i < t->n_elements; i++) {
        const char letter = (char)('a' + pl_rng_at(source->seed, input, (uint64_t)i) % 26);
        PL_TRY(pl_tensor_set_string(t, i, &letter, 1, err));
    }
    return PL_OK;
}

static meaning meaning_of(const pl_tensor *t, const pl_model *model, const pl_value *value,
                          const pl_strmap *dims) {
    meaning m = { .high = t->dtype == PL_BOOL ? 1 : 9 };
    if (t->dtype == PL_BOOL) return m;
    find_meaning(model->graph, value, dims, 0, &m);
    if (m.low == 0 && m.high == 9 && is_called_mask(value->name))
        m = (meaning){ .high = 1, .mask = true };
    if (m.high > pl_dtype_int_max(t->dtype)) m.high = pl_dtype_int_max(t->dtype);
    return m;
}

static pl_status fill_tensor(pl_tensor *t, const pl_model *model, size_t input,
                             const plumb_inputs *source, const pl_strmap *dims, uint64_t stream,
                             pl_err *err) {
    enum { BLOCK = 256 };
    const pl_value *value = model->graph->inputs[input];
    value_range range;
    PL_TRY(parse_range(model->graph, source, value->name, &range, err));
    if (t->dtype == PL_STRING) return fill_strings(t, source, stream, err);
    const bool integer =
        !pl_dtype_is_float(t->dtype) && pl_dtype_class_of(t->dtype) != PL_CLASS_COMPLEX;
    const meaning m = integer ? meaning_of(t, model, value, dims) : (meaning){ .high = 9 };
    const int64_t row = t->rank > 0 ? t->dims[t->rank - 1] : 1;
    const bool is_complex = pl_dtype_class_of(t->dtype) == PL_CLASS_COMPLEX;
    const pl_dtype dtype = !is_complex ? t->dtype : t->dtype == PL_C64 ? PL_F32 : PL_F64;
    const int64_t n = t->n_elements * (is_complex ? 2 : 1);
    const size_t size = pl_dtype_bytes(dtype);
    for (int64_t at = 0; at < n; at += BLOCK) {
        double block[BLOCK];
        const int64_t n_block = n - at < BLOCK ? n - at : BLOCK;
        const bool free = !range.given && source->fill == PLUMB_FILL_RANDOM;
        const bool masks = m.mask && free, counts = m.distinct && free;
        for (int64_t i = 0; i < n_block; i++) {
            block[i] = pick(source, &range, integer, &m, stream, at + i);
            if (masks && (at + i) % row == 0) block[i] = 1;
            if (m.steps && free && n > 1)
                block[i] = floor((double)m.high * (double)(at + i) / (double)(n - 1));
            if (counts) block[i] = (double)(m.low + (at + i) % (m.high - m.low + 1));
        }
        pl_store_f64(dtype, block, (char *)t->data + (size_t)at * size, (size_t)n_block);
    }
    return PL_OK;
}

/* Item `item` of input `input`; 0 for the input itself. */
static pl_status generate_tensor(const pl_model *model, size_t input, const pl_type *type,
                                 const plumb_inputs *source, const pl_strmap *dims, size_t item,
                                 pl_tensor **out, pl_err *err) {
    int64_t sizes[PL_RANK_MAX];
    const int rank = type->has_rank ? type->rank : 0;
    for (int d = 0; d < rank; d++) {
        const int64_t *given =
            type->dims[d].name == NULL ? NULL : pl_strmap_get(dims, type->dims[d].name);
        sizes[d] = pl_dim_known(type->dims[d]) ? type->dims[d].value : given != NULL ? *given : 1;
    }
    PL_TRY(pl_tensor_new(type->dtype, rank, sizes, out, err));
    const pl_status st =
        fill_tensor(*out, model, input, source, dims, input + ((uint64_t)item << 32), err);
    if (st != PL_OK) pl_tensor_unref(*out);
    return st;
}

/* Two tensors: an empty sequence would hide faults. Sequences of sequences, which runtimes do not
 * support, stay empty. */
static pl_status generate_sequence(const pl_model *model, size_t input, const plumb_inputs *source,
                                   const pl_strmap *dims, pl_datum **out, pl_err *err) {
    enum { ITEMS = 2 };
    const pl_type *elem = model->graph->inputs[input]->type->elem;
    pl_datum *items[ITEMS] = { NULL, NULL };
    size_t n = 0;
    pl_status st = PL_OK;
    const bool tensors = elem->kind == PL_TYPE_TENSOR && elem->dtype != PL_UNDEFINED;
    for (; tensors && n < ITEMS && st == PL_OK; n++) {
        pl_tensor *t = NULL;
        st = generate_tensor(model, input, elem, source, dims, n + 1, &t, err);
        if (st == PL_OK) st = pl_datum_of_tensor_take(t, &items[n], err);
    }
    if (st == PL_OK) st = pl_datum_new_sequence(elem->kind, elem->dtype, items, n, out, err);
    for (size_t i = 0; i < ITEMS; i++)
        pl_datum_unref(items[i]);
    return st;
}

static pl_status generate_optional(const pl_model *model, size_t input, const plumb_inputs *source,
                                   const pl_strmap *dims, pl_datum **out, pl_err *err) {
    const pl_type *elem = model->graph->inputs[input]->type->elem;
    pl_tensor *t = NULL;
    pl_datum *inner = NULL;
    if (elem->kind != PL_TYPE_TENSOR || elem->dtype == PL_UNDEFINED) {
        return pl_datum_new_optional(elem->kind, elem->dtype, NULL, out, err);
    }
    PL_TRY(generate_tensor(model, input, elem, source, dims, 1, &t, err));
    PL_TRY(pl_datum_of_tensor_take(t, &inner, err));
    const pl_status st = pl_datum_new_optional(elem->kind, elem->dtype, inner, out, err);
    pl_datum_unref(inner);
    return st;
}

/* Half of the keys that a reader knows, which is what a row has that lacks features; else three of
 * any name. */
static pl_status generate_keys(const pl_model *model, const pl_value *value, const pl_type *type,
                               pl_tensor **out, pl_err *err) {
    const bool text = type->dtype == PL_STRING;
    const pl_string *strings = NULL;
    const int64_t *ints = NULL;
    size_t n = 0;
    for (size_t i = 0; i < model->graph->n_nodes && n == 0; i++) {
        const pl_node *node = model->graph->nodes[i];
        if (node->n_in == 0 || node->in[0] != value || node->def == NULL) continue;
        if (text) strings = pl_attr_strings(node, "string_vocabulary", &n);
        if (!text) ints = pl_attr_ints(node, "int64_vocabulary", &n);
    }
    const int64_t dims[] = { n == 0 ? 3 : (int64_t)(n + 1) / 2 };
    PL_TRY(pl_tensor_new(type->dtype, 1, dims, out, err));
    pl_status st = PL_OK;
    for (int64_t i = 0; i < dims[0] && st == PL_OK; i++) {
        const char letter[] = { (char)('a' + i) };
        if (text && strings != NULL)
            st = pl_tensor_set_string(*out, i, strings[2 * i].data, strings[2 * i].n_bytes, err);
        else if (text)
            st = pl_tensor_set_string(*out, i, letter, 1, err);
        else
            ((int64_t *)(*out)->data)[i] = ints != NULL ? ints[2 * i] : i;
    }
    return st;
}

/* Two tensors: keys and values. Keys stay in the order of the reader's list. */
static pl_status generate_map(const pl_model *model, size_t input, const plumb_inputs *source,
                              const pl_strmap *dims, pl_datum **out, pl_err *err) {
    const pl_value *value = model->graph->inputs[input];
    const pl_type *elem = value->type->elem;
    pl_tensor *t[2] = { NULL, NULL };
    if (elem->kind != PL_TYPE_TENSOR || elem->dtype == PL_UNDEFINED ||
        (value->type->dtype != PL_STRING && value->type->dtype != PL_I64))
        return pl_fail(err, PL_E_USAGE,
                       "cannot generate input '%s': a map of this type; use option 'input'",
                       value->name);
    pl_status st = generate_keys(model, value, value->type, &t[0], err);
    if (st == PL_OK) st = pl_tensor_new(elem->dtype, 1, t[0]->dims, &t[1], err);
    if (st == PL_OK) st = fill_tensor(t[1], model, input, source, dims, input, err);
    if (st == PL_OK) return pl_datum_of_map_take(t[0], t[1], out, err);
    pl_tensor_unref(t[0]);
    pl_tensor_unref(t[1]);
    return st;
}

pl_status pl_generate_input(const pl_model *model, size_t input, const plumb_inputs *source,
                            const pl_strmap *dims, pl_datum **out, pl_err *err) {
    const pl_value *value = model->graph->inputs[input];
    const pl_type *type = value->type;
    pl_tensor *t = NULL;
    if (type != NULL && type->kind == PL_TYPE_TENSOR && type->dtype != PL_UNDEFINED) {
        PL_TRY(generate_tensor(model, input, type, source, dims, 0, &t, err));
        return pl_datum_of_tensor_take(t, out, err);
    }
    if (type != NULL && type->kind == PL_TYPE_SEQUENCE && type->elem != NULL) {
        return generate_sequence(model, input, source, dims, out, err);
    }
    if (type != NULL && type->kind == PL_TYPE_OPTIONAL && type->elem != NULL) {
        return generate_optional(model, input, source, dims, out, err);
    }
    if (type != NULL && type->kind == PL_TYPE_MAP && type->elem != NULL) {
        return generate_map(model, input, source, dims, out, err);
    }
    return pl_fail(err, PL_E_USAGE,
                   "cannot generate input '%s': its type is unknown; use option 'input'",
                   value->name);
}
