/* The graph that the layers walk, from the JSON that a recording carries
 * (docs/formats/recording.md). Attributes have the same hashes as those of a model. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json_read.h"
#include "pair/pair_int.h"
#include "store/blob.h"

typedef struct scope {
    const char *path;
    const struct scope *around;
    int depth;
} scope;

typedef struct reader {
    pl_pair_graph *g;
    const pl_json_value *opsets;
    pl_err *err;
} reader;

static pl_status put_graph(reader *r, const pl_json_value *graph, const scope *sc);

static const char *text_of(const pl_json_value *object, const char *key) {
    const pl_json_value *v = pl_json_find(object, key);
    return v != NULL && v->kind == PL_JSON_STRING ? v->string : "";
}

static const pl_json_value *first_of(const pl_json_value *object, const char *key) {
    const pl_json_value *v = pl_json_find(object, key);
    return v != NULL && v->kind == PL_JSON_ARRAY ? v->first : NULL;
}

static size_t count_of(const pl_json_value *object, const char *key) {
    const pl_json_value *v = pl_json_find(object, key);
    return v != NULL && v->kind == PL_JSON_ARRAY ? v->n_items : 0;
}

static pl_pg_const read_const(const pl_json_value *v) {
    pl_pg_const c = { .dtype = PL_UNDEFINED };
    const char *dtype = text_of(v, "dtype");
    c.dtype = pl_dtype_by_name(dtype, strlen(dtype));
    (void)pl_hash128_parse(text_of(v, "hash"), &c.hash);
    for (const pl_json_value *d = first_of(v, "shape"); d != NULL && c.rank < PL_RANK_MAX;
         d = d->next)
        c.dims[c.rank++] = d->integer;
    return c;
}

/* ---- attributes ---- */

static void put_u64(pl_buf *buf, uint64_t x) {
    pl_buf_append(buf, &x, sizeof x);
}

static void put_text(pl_buf *buf, const char *s, size_t n) {
    put_u64(buf, n);
    pl_buf_append(buf, s, n);
}

static float read_float(const pl_json_value *v) {
    if (v->kind == PL_JSON_NUMBER) return (float)v->number;
    if (v->kind != PL_JSON_STRING) return 0;
    if (strcmp(v->string, "inf") == 0) return INFINITY;
    return strcmp(v->string, "-inf") == 0 ? -INFINITY : NAN;
}

static void put_one(pl_buf *buf, pl_attr_type type, const pl_json_value *v) {
    if (type == PL_ATTR_FLOAT || type == PL_ATTR_FLOATS) {
        const float f = read_float(v);
        pl_buf_append(buf, &f, sizeof f);
    } else if (type == PL_ATTR_INT || type == PL_ATTR_INTS) {
        put_u64(buf, (uint64_t)v->integer);
    } else if (type == PL_ATTR_TENSOR || type == PL_ATTR_TENSORS) {
        const pl_pg_const c = read_const(v);
        put_u64(buf, pl_pair_hash_const(&c));
    } else if (v->kind == PL_JSON_STRING) {
        put_text(buf, v->string, v->n_string);
    }
}

/* clang-format off */
static const struct { const char *key; pl_attr_type type; bool is_list; } attr_keys[] = {
    { "f", PL_ATTR_FLOAT, false },       { "i", PL_ATTR_INT, false },
    { "s", PL_ATTR_STRING, false },      { "t", PL_ATTR_TENSOR, false },
    { "g", PL_ATTR_GRAPH, false },       { "type", PL_ATTR_TYPE_PROTO, false },
    { "floats", PL_ATTR_FLOATS, true },  { "ints", PL_ATTR_INTS, true },
    { "strings", PL_ATTR_STRINGS, true },{ "tensors", PL_ATTR_TENSORS, true },
    { "graphs", PL_ATTR_GRAPHS, true },
};
/* clang-format on */

static void put_attr(pl_buf *buf, const pl_json_value *attr) {
    put_text(buf, attr->key, attr->n_key);
    for (size_t i = 0; i < sizeof attr_keys / sizeof *attr_keys; i++) {
        const pl_json_value *v = pl_json_find(attr, attr_keys[i].key);
        if (v == NULL) continue;
        put_u64(buf, (uint64_t)attr_keys[i].type);
        if (attr_keys[i].type == PL_ATTR_GRAPH || attr_keys[i].type == PL_ATTR_GRAPHS) return;
        if (!attr_keys[i].is_list) put_one(buf, attr_keys[i].type, v);
        for (v = v->first; attr_keys[i].is_list && v != NULL; v = v->next)
            put_one(buf, attr_keys[i].type, v);
        return;
    }
}

static pl_status hash_attrs(const pl_json_value *node, uint64_t *out, pl_err *err) {
    const pl_json_value *attrs = pl_json_find(node, "attrs");
    pl_buf buf = PL_BUF_INIT;
    bool ok = true;
    *out = 0;
    for (const pl_json_value *a = attrs == NULL ? NULL : attrs->first; a != NULL; a = a->next) {
        if (a->kind != PL_JSON_OBJECT || a->key == NULL) continue;
        pl_buf_reset(&buf);
        put_attr(&buf, a);
        ok = ok && pl_buf_ok(&buf);
        *out += pl_hash64(pl_buf_str(&buf), buf.n_bytes);
    }
    pl_buf_release(&buf);
    return ok ? PL_OK : pl_fail_memory(err, 1);
}

/* ---- values ---- */

/* A value of this scope or one around it; created here when missing. */
static pl_status find_value(reader *r, const scope *sc, const char *name, uint32_t *out) {
    for (const scope *s = sc; s != NULL; s = s->around) {
        *out = pl_pair_graph_find(r->g, s->path, name);
        if (*out != PL_PAIR_NONE) return PL_OK;
    }
    return pl_pair_graph_add_value(r->g, sc->path, name, out, r->err);
}

static pl_status define_value(reader *r, const scope *sc, const char *name, uint32_t *out) {
    *out = pl_pair_graph_find(r->g, sc->path, name);
    if (*out == PL_PAIR_NONE) return pl_pair_graph_add_value(r->g, sc->path, name, out, r->err);
    const pl_pg_value *v = &r->g->values[*out];
    if (v->producer != PL_PAIR_NONE || (v->flags & (PL_PG_CONST | PL_PG_INPUT)) != 0)
        return pl_fail(r->err, PL_E_FORMAT, "value '%s' of the recorded graph is defined twice",
                       name);
    return PL_OK;
}

static pl_status put_values(reader *r, const pl_json_value *graph, const scope *sc) {
    uint32_t io = 0;
    for (const pl_json_value *v = first_of(graph, "inputs"); v != NULL; v = v->next, io++) {
        uint32_t at;
        PL_TRY(define_value(r, sc, text_of(v, "name"), &at));
        if (sc->around != NULL) continue;
        r->g->values[at].flags |= PL_PG_INPUT;
        r->g->values[at].io = io;
    }
    for (const pl_json_value *v = first_of(graph, "weights"); v != NULL; v = v->next) {
        uint32_t at;
        PL_TRY(find_value(r, &(scope){ sc->path, NULL, 0 }, text_of(v, "name"), &at));
        const pl_pg_const c = read_const(v);
        if ((r->g->values[at].flags & PL_PG_INPUT) == 0) pl_pair_graph_set_const(r->g, at, &c);
    }
    return PL_OK;
}

static pl_status mark_outputs(reader *r, const pl_json_value *graph, const scope *sc) {
    uint32_t io = 0;
    for (const pl_json_value *v = first_of(graph, "outputs"); v != NULL; v = v->next, io++) {
        uint32_t at;
        if (v->kind != PL_JSON_STRING) continue;
        PL_TRY(find_value(r, sc, v->string, &at));
        r->g->values[at].flags |= PL_PG_OUTPUT;
        if (r->g->values[at].io == PL_PAIR_NONE) r->g->values[at].io = io;
    }
    return PL_OK;
}

/* ---- nodes ---- */

typedef struct edges {
    uint32_t *ids;
    size_t n, capacity;
} edges;

static pl_status push(reader *r, edges *e, uint32_t id) {
    if (!PL_ARRAY_ROOM(e->ids, e->n, &e->capacity)) return pl_fail_memory(r->err, e->n);
    e->ids[e->n++] = id;
    return PL_OK;
}

static pl_status push_names(reader *r, edges *e, const pl_json_value *v, const scope *sc,
                            bool define) {
    for (; v != NULL; v = v->next) {
        uint32_t id = PL_PAIR_NONE;
        if (v->kind == PL_JSON_STRING)
            PL_TRY(define ? define_value(r, sc, v->string, &id)
                          : find_value(r, sc, v->string, &id));
        PL_TRY(push(r, e, id));
    }
    return PL_OK;
}

static pl_status put_body(reader *r, const pl_json_value *node, const pl_json_value *attr,
                          const pl_json_value *body, size_t number, const scope *sc,
                          edges *outputs) {
    const char *value = text_of(node, "op");
    for (const pl_json_value *v = first_of(node, "out"); v != NULL; v = v->next) {
        if (v->kind != PL_JSON_STRING) continue;
        value = v->string;
        break;
    }
    const scope inner = { pl_arena_printf(r->g->arena, "%s%s%s/%s", sc->path,
                                          *sc->path == '\0' ? "" : "/", value, attr->key),
                          sc, sc->depth + 1 };
    if (inner.path == NULL) return pl_fail_memory(r->err, 1);
    PL_TRY(put_values(r, body, &inner));
    edges e = { NULL, 0, 0 };
    pl_status st = push_names(r, &e, first_of(node, "in"), sc, false);
    const size_t n_in = e.n;
    for (const pl_json_value *v = first_of(body, "inputs"); v != NULL && st == PL_OK; v = v->next) {
        uint32_t id = PL_PAIR_NONE;
        st = find_value(r, &inner, text_of(v, "name"), &id);
        if (st == PL_OK) st = push(r, &e, id);
    }
    if (st == PL_OK) {
        const pl_pg_new_node inputs = { .op = text_of(node, "op"),
                                        .domain = text_of(node, "domain"),
                                        .module = "",
                                        .attrs = pl_hash64(attr->key, attr->n_key) + number,
                                        .flags = PL_PG_BODY,
                                        .in = e.ids,
                                        .out = e.ids == NULL ? NULL : e.ids + n_in,
                                        .n_own_in = n_in,
                                        .n_in = n_in,
                                        .n_out = e.n - n_in };
        st = pl_pair_graph_add_node(r->g, &inputs, r->err);
    }
    pl_free(e.ids);
    PL_TRY(st);
    PL_TRY(put_graph(r, body, &inner));
    return push_names(r, outputs, first_of(body, "outputs"), &inner, false);
}

static pl_status put_bodies(reader *r, const pl_json_value *node, const scope *sc, edges *outputs) {
    const pl_json_value *attrs = pl_json_find(node, "attrs");
    for (const pl_json_value *a = attrs == NULL ? NULL : attrs->first; a != NULL; a = a->next) {
        const pl_json_value *one = pl_json_find(a, "g");
        if (a->key == NULL) continue;
        if (one != NULL) PL_TRY(put_body(r, node, a, one, 0, sc, outputs));
        size_t k = 0;
        for (const pl_json_value *v = first_of(a, "graphs"); v != NULL; v = v->next, k++)
            PL_TRY(put_body(r, node, a, v, k, sc, outputs));
    }
    return PL_OK;
}

static int opset_of(const reader *r, const char *domain) {
    const pl_json_value *v = pl_json_find(r->opsets, domain);
    return v != NULL && v->integer > 0 && v->integer < 10000 ? (int)v->integer : 1;
}

static pl_status put_constant(reader *r, const pl_json_value *node, const scope *sc, bool *done) {
    const pl_json_value *tensor = pl_json_find(pl_json_find(node, "attrs"), "value");
    const pl_json_value *out = first_of(node, "out");
    *done = false;
    const char *domain = text_of(node, "domain");
    const pl_op_def *row =
        pl_pair_graph_row(r->g, domain, text_of(node, "op"), opset_of(r, domain));
    if (row == NULL || (row->flags & PL_OP_CONSTANT) == 0 || !pl_domain_is_onnx(domain) ||
        out == NULL || count_of(node, "out") != 1 || out->kind != PL_JSON_STRING)
        return PL_OK;
    uint32_t at;
    pl_pg_const c = { .dtype = PL_UNDEFINED };
    tensor = pl_json_find(tensor, "t");
    if (tensor != NULL) {
        c = read_const(tensor);
    } else {
        PL_TRY(hash_attrs(node, &c.hash.low, r->err));
    }
    PL_TRY(define_value(r, sc, out->string, &at));
    pl_pair_graph_set_const(r->g, at, &c);
    *done = true;
    return PL_OK;
}

static pl_status put_node(reader *r, const pl_json_value *node, const scope *sc) {
    bool done = false;
    PL_TRY(put_constant(r, node, sc, &done));
    if (done) return PL_OK;
    pl_pg_new_node n = { .op = text_of(node, "op"),
                         .domain = text_of(node, "domain"),
                         .module = text_of(node, "module") };
    n.opset = opset_of(r, n.domain);
    edges e = { NULL, 0, 0 };
    pl_status st = push_names(r, &e, first_of(node, "in"), sc, false);
    n.n_own_in = e.n;
    if (st == PL_OK) st = put_bodies(r, node, sc, &e);
    n.n_in = e.n;
    if (st == PL_OK) st = push_names(r, &e, first_of(node, "out"), sc, true);
    n.n_out = e.n - n.n_in;
    n.in = e.ids;
    n.out = e.ids == NULL ? NULL : e.ids + n.n_in;
    if (st == PL_OK) st = hash_attrs(node, &n.attrs, r->err);
    if (st == PL_OK) st = pl_pair_graph_add_node(r->g, &n, r->err);
    pl_free(e.ids);
    return st;
}

/* Depth is bounded by the JSON reader. */
static pl_status put_graph(reader *r, const pl_json_value *graph, const scope *sc) {
    for (const pl_json_value *n = first_of(graph, "nodes"); n != NULL; n = n->next)
        PL_TRY(put_node(r, n, sc));
    return PL_OK;
}

pl_status pl_pair_graph_from_json(pl_pair_graph *g, const char *json, pl_err *err) {
    const pl_json_value *graph = NULL;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 1);
    const scope main_scope = { "", NULL, 0 };
    pl_status st = pl_json_read(json, strlen(json), arena, &graph, err);
    if (st == PL_OK) {
        reader r = { g, pl_json_find(graph, "opsets"), err };
        st = put_values(&r, graph, &main_scope);
        if (st == PL_OK) st = put_graph(&r, graph, &main_scope);
        if (st == PL_OK) st = mark_outputs(&r, graph, &main_scope);
    }
    pl_arena_free(arena);
    return st;
}
