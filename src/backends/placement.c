/* Counts nodes by place and operator; writes them as text and JSON. */
#include "backends/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/count.h"

enum { PLACES_MAX = 16, OPS_MAX = 4096 };

static const char *const last_place = "CPU"; /* of ONNX Runtime: runs whatever no other takes */

/* ---- from lines ---- */

typedef struct line {
    const char *place, *op, *node;
    size_t n_place, n_op, n_node;
} line;

/* False if it does not have three fields. */
static bool split(const char *at, size_t n, line *out) {
    const char *first = memchr(at, '\t', n);
    if (first == NULL) return false;
    const char *second = memchr(first + 1, '\t', n - (size_t)(first + 1 - at));
    if (second == NULL) return false;
    *out = (line){ .place = at,
                   .n_place = (size_t)(first - at),
                   .op = first + 1,
                   .n_op = (size_t)(second - first - 1),
                   .node = second + 1,
                   .n_node = n - (size_t)(second + 1 - at) };
    return out->n_place > 0 && out->n_op > 0;
}

static bool is_text(const char *text, const char *at, size_t n) {
    return strlen(text) == n && memcmp(text, at, n) == 0;
}

static pl_place *place_of(pl_placement *p, const line *l, pl_arena *arena) {
    for (size_t i = 0; i < p->n_places; i++)
        if (is_text(p->places[i].name, l->place, l->n_place)) return &p->places[i];
    if (p->n_places == PLACES_MAX) return NULL;
    pl_place *place = &p->places[p->n_places];
    *place = (pl_place){ .name = pl_arena_strndup(arena, l->place, l->n_place),
                         .ops = pl_arena_array(arena, OPS_MAX, sizeof(pl_place_op)),
                         .nodes = pl_arena_array(arena, PL_PLACE_NAMES_MAX, sizeof(char *)) };
    if (place->name == NULL || place->ops == NULL || place->nodes == NULL) return NULL;
    p->n_places++;
    return place;
}

static bool count_line(pl_place *place, const line *l, pl_arena *arena) {
    size_t i = 0;
    while (i < place->n_ops && !is_text(place->ops[i].op, l->op, l->n_op))
        i++;
    if (i == OPS_MAX) return false;
    if (i == place->n_ops) {
        place->ops[i] = (pl_place_op){ .op = pl_arena_strndup(arena, l->op, l->n_op) };
        if (place->ops[i].op == NULL) return false;
        place->n_ops++;
    }
    place->ops[i].n_nodes++;
    if (place->n_names < PL_PLACE_NAMES_MAX) {
        place->nodes[place->n_names] = pl_arena_strndup(arena, l->node, l->n_node);
        if (place->nodes[place->n_names] == NULL) return false;
        place->n_names++;
    }
    place->n_nodes++;
    return true;
}

static int by_count(const void *a, const void *b) {
    const pl_place_op *x = a, *y = b;
    if (x->n_nodes != y->n_nodes) return x->n_nodes < y->n_nodes ? 1 : -1;
    return strcmp(x->op, y->op);
}

static int last_place_last(const void *a, const void *b) {
    const pl_place *x = a, *y = b;
    const int last_x = strcmp(x->name, last_place) == 0, last_y = strcmp(y->name, last_place) == 0;
    return last_x != last_y ? last_x - last_y : strcmp(x->name, y->name);
}

pl_status pl_placement_parse(const char *text, pl_arena *arena, pl_placement *out, pl_err *err) {
    pl_placement p = { .places = pl_arena_array(arena, PLACES_MAX, sizeof(pl_place)) };
    if (p.places == NULL) return pl_fail_memory(err, PLACES_MAX);
    for (const char *at = text; *at != '\0';) {
        const size_t n = strcspn(at, "\n");
        line l;
        if (!split(at, n, &l))
            return pl_fail(err, PL_E_BACKEND, "'%.*s' does not tell where a node runs",
                           (int)(n > 100 ? 100 : n), at);
        pl_place *place = place_of(&p, &l, arena);
        if (place == NULL || !count_line(place, &l, arena))
            return pl_fail(err, PL_E_LIMIT,
                           "nodes run in more than %d places, or have more than "
                           "%d operators",
                           PLACES_MAX, OPS_MAX);
        at += n + (at[n] == '\n');
    }
    for (size_t i = 0; i < p.n_places; i++)
        qsort(p.places[i].ops, p.places[i].n_ops, sizeof(pl_place_op), by_count);
    if (p.n_places > 1) qsort(p.places, p.n_places, sizeof(pl_place), last_place_last);
    *out = p;
    return PL_OK;
}

/* ---- text and JSON ---- */

static void put_ops(const pl_place *p, pl_buf *out) {
    enum { SHOWN = 6 };
    pl_buf_puts(out, " (");
    for (size_t i = 0; i < p->n_ops && i < SHOWN; i++) {
        pl_buf_puts(out, i > 0 ? ", " : "");
        pl_buf_put_clean(out, p->ops[i].op);
        if (p->ops[i].n_nodes > 1) pl_buf_printf(out, " %zu", p->ops[i].n_nodes);
    }
    if (p->n_ops > SHOWN) pl_buf_printf(out, " and %zu more", p->n_ops - SHOWN);
    pl_buf_putc(out, ')');
}

void pl_placement_put_text(const pl_placement *placement, pl_buf *out) {
    for (size_t i = 0; i < placement->n_places; i++) {
        const pl_place *p = &placement->places[i];
        pl_buf_puts(out, i > 0 ? "; " : "");
        pl_buf_put_clean(out, p->name);
        pl_buf_printf(out, " %zu node%s", p->n_nodes, pl_plural(p->n_nodes));
        if (i > 0) put_ops(p, out);
    }
}

void pl_placement_put_json(const pl_placement *placement, const char *key, pl_json *j) {
    pl_json_key(j, key);
    pl_json_array_begin(j);
    for (size_t i = 0; i < placement->n_places; i++) {
        const pl_place *p = &placement->places[i];
        pl_json_object_begin(j);
        pl_json_put_string(j, "place", p->name);
        pl_json_put_int(j, "nodes", (int64_t)p->n_nodes);
        pl_json_key(j, "ops");
        pl_json_object_begin(j);
        for (size_t k = 0; k < p->n_ops; k++)
            pl_json_put_int(j, p->ops[k].op, (int64_t)p->ops[k].n_nodes);
        pl_json_object_end(j);
        pl_json_key(j, "names");
        pl_json_array_begin(j);
        for (size_t k = 0; k < p->n_names; k++)
            pl_json_string(j, p->nodes[k]);
        pl_json_array_end(j);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static bool is_count(const pl_json_value *v) {
    return v != NULL && v->kind == PL_JSON_NUMBER && v->is_integer && v->integer >= 0;
}

static bool is_plain(const pl_json_value *v) {
    return v != NULL && v->kind == PL_JSON_STRING && strlen(v->string) == v->n_string;
}

/* 0 = ok, 1 = not in this form, 2 = out of memory. */
static int read_place(const pl_json_value *v, pl_arena *arena, pl_place *out) {
    const pl_json_value *name = pl_json_find(v, "place"), *nodes = pl_json_find(v, "nodes");
    const pl_json_value *ops = pl_json_find(v, "ops"), *names = pl_json_find(v, "names");
    if (!is_plain(name) || !is_count(nodes) || ops == NULL || ops->kind != PL_JSON_OBJECT ||
        names == NULL || names->kind != PL_JSON_ARRAY || names->n_items > PL_PLACE_NAMES_MAX)
        return 1;
    *out = (pl_place){ .name = name->string,
                       .n_nodes = (size_t)nodes->integer,
                       .ops = pl_arena_array(arena, ops->n_items, sizeof(pl_place_op)),
                       .nodes = pl_arena_array(arena, names->n_items, sizeof(char *)) };
    if (out->ops == NULL || out->nodes == NULL) return 2;
    for (const pl_json_value *o = ops->first; o != NULL; o = o->next) {
        if (!is_count(o) || strlen(o->key) != o->n_key) return 1;
        out->ops[out->n_ops++] = (pl_place_op){ o->key, (size_t)o->integer };
    }
    for (const pl_json_value *o = names->first; o != NULL; o = o->next) {
        if (!is_plain(o)) return 1;
        out->nodes[out->n_names++] = o->string;
    }
    return 0;
}

pl_status pl_placement_read_json(const pl_json_value *list, pl_arena *arena, pl_placement *out,
                                 pl_err *err) {
    *out = (pl_placement){ 0 };
    if (list == NULL || list->kind == PL_JSON_NULL) return PL_OK;
    if (list->kind != PL_JSON_ARRAY || list->n_items > PLACES_MAX)
        return pl_fail(err, PL_E_FORMAT, "'placement' is not a list of places");
    out->places = pl_arena_array(arena, list->n_items, sizeof(pl_place));
    if (out->places == NULL) return pl_fail_memory(err, list->n_items);
    for (const pl_json_value *v = list->first; v != NULL; v = v->next) {
        const int wrong = read_place(v, arena, &out->places[out->n_places++]);
        if (wrong == 2) return pl_fail_memory(err, 1);
        if (wrong != 0) return pl_fail(err, PL_E_FORMAT, "'placement' is not a list of places");
    }
    return PL_OK;
}

pl_status pl_placement_copy(const pl_placement *from, pl_arena *arena, pl_placement *out) {
    pl_placement to = { .n_places = from->n_places };
    to.places = pl_arena_array(arena, from->n_places, sizeof(pl_place));
    if (to.places == NULL) return PL_E_MEMORY;
    for (size_t i = 0; i < from->n_places; i++) {
        const pl_place *p = &from->places[i];
        pl_place *q = &to.places[i];
        *q = *p;
        q->name = pl_arena_strdup(arena, p->name);
        q->ops = pl_arena_array(arena, p->n_ops, sizeof(pl_place_op));
        q->nodes = pl_arena_array(arena, p->n_names, sizeof(char *));
        if (q->name == NULL || q->ops == NULL || q->nodes == NULL) return PL_E_MEMORY;
        for (size_t k = 0; k < p->n_ops; k++) {
            q->ops[k] = (pl_place_op){ pl_arena_strdup(arena, p->ops[k].op), p->ops[k].n_nodes };
            if (q->ops[k].op == NULL) return PL_E_MEMORY;
        }
        for (size_t k = 0; k < p->n_names; k++) {
            q->nodes[k] = pl_arena_strdup(arena, p->nodes[k]);
            if (q->nodes[k] == NULL) return PL_E_MEMORY;
        }
    }
    *out = to;
    return PL_OK;
}
