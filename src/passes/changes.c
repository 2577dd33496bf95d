/* The list of changes, printed as text and JSON. */
#include "passes/changes.h"

#include "base/alloc.h"
#include "base/array.h"

static const char *kind_name(pl_change_kind kind) {
    static const char *const names[] = { "eval", "cast", "convert", "drop", "stay" };
    return names[kind];
}

pl_status pl_changes_add(pl_changes *changes, const pl_change *change, pl_err *err) {
    if (changes == NULL) return PL_OK;
    if (!PL_ARRAY_ROOM(changes->items, changes->n, &changes->capacity)) {
        return pl_fail_memory(err, changes->n);
    }
    changes->items[changes->n++] = *change;
    return PL_OK;
}

void pl_changes_release(pl_changes *changes) {
    pl_free(changes->items);
    *changes = (pl_changes)PL_CHANGES_INIT;
}

size_t pl_changes_count(const pl_changes *changes, pl_change_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < changes->n; i++)
        n += changes->items[i].kind == kind;
    return n;
}

void pl_changes_print(const pl_changes *changes, pl_buf *out) {
    for (size_t i = 0; i < changes->n; i++) {
        const pl_change *c = &changes->items[i];
        pl_buf_printf(out, "%-8s %s", kind_name(c->kind), c->value);
        if (c->to != PL_UNDEFINED) {
            pl_buf_printf(out, ": %s -> %s", pl_dtype_name(c->from), pl_dtype_name(c->to));
        }
        if (c->op[0] != '\0') pl_buf_printf(out, ", %s", c->op);
        if (c->node[0] != '\0') pl_buf_printf(out, " '%s'", c->node);
        if (c->what[0] != '\0') pl_buf_printf(out, ": %s", c->what);
        pl_buf_putc(out, '\n');
    }
}

void pl_changes_put_json(const pl_changes *changes, pl_json *j) {
    pl_json_array_begin(j);
    for (size_t i = 0; i < changes->n; i++) {
        const pl_change *c = &changes->items[i];
        pl_json_object_begin(j);
        pl_json_put_string(j, "kind", kind_name(c->kind));
        pl_json_put_string(j, "value", c->value);
        pl_json_put_string(j, "node", c->node);
        pl_json_put_string(j, "op", c->op);
        if (c->to != PL_UNDEFINED) {
            pl_json_put_string(j, "from", pl_dtype_name(c->from));
            pl_json_put_string(j, "to", pl_dtype_name(c->to));
        }
        if (c->what[0] != '\0') pl_json_put_string(j, "what", c->what);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}
