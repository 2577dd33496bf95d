/* Value types: construction, comparison, text. Nested types are chains, so loops suffice and a
 * deeply nested type cannot exhaust the stack. */
#include "tensor/type.h"

#include <inttypes.h>
#include <string.h>

bool pl_dim_equal(pl_dim a, pl_dim b) {
    if (pl_dim_known(a) || pl_dim_known(b)) return a.value == b.value;
    return a.name && b.name && strcmp(a.name, b.name) == 0;
}

pl_type *pl_type_tensor_unranked(pl_arena *arena, pl_dtype dtype) {
    pl_type *type = pl_arena_alloc(arena, sizeof *type);
    if (!type) return NULL;
    *type = (pl_type){ .kind = PL_TYPE_TENSOR, .dtype = dtype };
    return type;
}

pl_type *pl_type_tensor(pl_arena *arena, pl_dtype dtype, int rank, const pl_dim *dims) {
    pl_type *type = pl_type_tensor_unranked(arena, dtype);
    if (!type) return NULL;
    pl_dim *copy = pl_arena_array(arena, (size_t)rank, sizeof *copy);
    if (!copy) return NULL;
    if (rank > 0) memcpy(copy, dims, (size_t)rank * sizeof *copy);
    type->has_rank = true;
    type->rank = rank;
    type->dims = copy;
    return type;
}

pl_type *pl_type_of(pl_arena *arena, pl_type_kind kind, const pl_type *elem) {
    pl_type *type = pl_arena_alloc(arena, sizeof *type);
    if (!type) return NULL;
    *type = (pl_type){ .kind = kind, .elem = elem };
    return type;
}

bool pl_type_is_concrete(const pl_type *type) {
    if (!type || type->kind != PL_TYPE_TENSOR || !type->has_rank) return false;
    for (int i = 0; i < type->rank; i++)
        if (!pl_dim_known(type->dims[i])) return false;
    return true;
}

/* Same declaration: two unknown dims are equal here although their sizes may differ. */
static bool dim_same(pl_dim a, pl_dim b) {
    if (a.value < 0 && b.value < 0 && !a.name && !b.name) return true;
    return pl_dim_equal(a, b);
}

bool pl_type_equal(const pl_type *a, const pl_type *b) {
    for (; a && b; a = a->elem, b = b->elem) {
        if (a == b) return true;
        if (a->kind != b->kind || a->dtype != b->dtype || a->has_rank != b->has_rank) return false;
        if (!a->has_rank) continue;
        if (a->rank != b->rank) return false;
        for (int i = 0; i < a->rank; i++)
            if (!dim_same(a->dims[i], b->dims[i])) return false;
    }
    return a == b;
}

static void print_tensor(pl_buf *buf, const pl_type *type) {
    pl_buf_puts(buf, type->dtype == PL_UNDEFINED ? "?" : pl_dtype_name(type->dtype));
    if (!type->has_rank) return;
    pl_buf_putc(buf, '[');
    for (int i = 0; i < type->rank; i++) {
        const pl_dim dim = type->dims[i];
        if (i > 0) pl_buf_putc(buf, ',');
        if (pl_dim_known(dim))
            pl_buf_printf(buf, "%" PRId64, dim.value);
        else
            pl_buf_puts(buf, dim.name ? dim.name : "?");
    }
    pl_buf_putc(buf, ']');
}

void pl_type_print(pl_buf *buf, const pl_type *type) {
    size_t n_open = 0;
    for (; type; type = type->elem, n_open++) {
        if (type->kind == PL_TYPE_SEQUENCE)
            pl_buf_puts(buf, "seq(");
        else if (type->kind == PL_TYPE_OPTIONAL)
            pl_buf_puts(buf, "optional(");
        else if (type->kind == PL_TYPE_MAP)
            pl_buf_printf(buf, "map(%s,", pl_dtype_name(type->dtype));
        else
            break;
    }
    if (type && type->kind == PL_TYPE_SPARSE) {
        pl_buf_puts(buf, "sparse(");
        n_open++;
    }
    if (!type || type->kind == PL_TYPE_NONE)
        pl_buf_putc(buf, '?');
    else
        print_tensor(buf, type);
    for (; n_open > 0; n_open--)
        pl_buf_putc(buf, ')');
}
