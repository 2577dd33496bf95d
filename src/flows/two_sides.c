#include "flows/two_sides.h"

#include <string.h>

#include "backends/backend.h"
#include "backends/spec.h"
#include "base/buf.h"
#include "base/same_file.h"
#include "graph/edit.h"
#include "ops/op.h"

/* Options that do not change results, and explicit defaults. plumb's own kernels and its plain
 * loops are one implementation, tested to be equal. */
static const plumb_option quiet[] = {
    { "threads", NULL },  { "explain", NULL },     { "debug-dir", NULL },  { "opt", "all" },
    { "shapes", NULL },   { "fresh-cache", NULL }, { "kernels", "own" },   { "fuse", "on" },
    { "winograd", "on" }, { "disable", "" },       { "kernels", "plain" },
};

static bool is_quiet(const plumb_option *o) {
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        if (strcmp(quiet[i].key, o->key) != 0) continue;
        if (quiet[i].value == NULL || strcmp(quiet[i].value, o->value) == 0) return true;
    }
    return false;
}

/* Equal texts, or two names of one file. */
static bool same_value(const char *a, const char *b) {
    return strcmp(a, b) == 0 || pl_same_file(a, b);
}

/* Is every relevant option of `a` in `b`? */
static bool is_within(const pl_spec *a, const pl_spec *b) {
    for (size_t i = 0; i < a->n_options; i++) {
        const plumb_option *o = &a->options[i];
        bool found = is_quiet(o);
        for (size_t k = 0; k < b->n_options && !found; k++)
            found =
                strcmp(o->key, b->options[k].key) == 0 && same_value(o->value, b->options[k].value);
        if (!found) return false;
    }
    return true;
}

static const plumb_backend *find_row(const char *spec) {
    size_t n;
    const char *name = pl_spec_name(spec, &n);
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++)
        if (strlen(pl_backend_rows[i]->name) == n &&
            strncmp(pl_backend_rows[i]->name, name, n) == 0)
            return pl_backend_rows[i];
    return NULL;
}

bool pl_two_sides_same_spec(const char *a, const char *b) {
    const plumb_backend *row = find_row(a);
    pl_spec x = { 0 }, y = { 0 };
    if (strcmp(a, b) == 0) return true;
    if (row == NULL || row != find_row(b)) return false;
    /* Errors in a spec are reported when it is opened. */
    const bool ok = pl_spec_parse(a, row->name, row->options, row->n_options, &x, NULL) == PL_OK &&
                    pl_spec_parse(b, row->name, row->options, row->n_options, &y, NULL) == PL_OK;
    const bool same = ok && is_within(&x, &y) && is_within(&y, &x);
    pl_spec_release(&x);
    pl_spec_release(&y);
    return same;
}

/* ---- a compiler that compiles nothing ---- */

static bool has_option(const char *spec, const char *key) {
    const plumb_backend *row = find_row(spec);
    pl_spec s = { 0 };
    bool has = row == NULL || pl_spec_parse(spec, row->name, row->options, row->n_options, &s,
                                            NULL) != PL_OK; /* not known */
    for (size_t i = 0; i < s.n_options; i++)
        has = has || strcmp(s.options[i].key, key) == 0;
    pl_spec_release(&s);
    return has;
}

static bool has_c_type(const pl_value *v) {
    const pl_type *t = v == NULL ? NULL : v->type;
    if (t == NULL) return true; /* known only at run time */
    return t->kind == PL_TYPE_TENSOR && ((PL_T_NUMERIC | PL_T_BOOL) & PL_T(t->dtype)) != 0;
}

/* Does jit compile this node, or use eager's kernel? Views and constants compute nothing. */
static bool jit_compiles(const pl_node *node) {
    const pl_op_def *def = node->def;
    bool ok = def == NULL || (def->no_emit == NULL && def->emit != PL_EMIT_TODO &&
                              (def->flags & PL_OP_VIEW) == 0 && node->n_in > 0);
    for (uint32_t i = 0; i < node->n_in; i++)
        ok = ok && has_c_type(node->in[i]);
    for (uint32_t i = 0; i < node->n_out; i++)
        ok = ok && has_c_type(node->out[i]);
    return ok;
}

/* Do all of them use eager's kernels? */
static bool jit_is_eager(const char *a, const char *b, const pl_model *model) {
    const bool own = pl_backend_is_own(a) && pl_backend_is_own(b);
    if (!own || find_row(a) == find_row(b)) return false;
    if (has_option(a, "inject") || has_option(b, "inject")) return false;
    if (has_option(a, "fp64") || has_option(b, "fp64")) return false;
    for (size_t i = 0; i < model->graph->n_nodes; i++)
        if (jit_compiles(model->graph->nodes[i])) return false;
    return model->graph->n_nodes > 0;
}

pl_status pl_two_sides_check(const char *a, const pl_model *model_a, const char *b,
                             const pl_model *model_b, bool has_reference, pl_err *err) {
    pl_hash128 x, y;
    const bool nothing = jit_is_eager(a, b, model_a);
    if (!nothing && !pl_two_sides_same_spec(a, b)) return PL_OK;
    if (model_a != model_b) {
        PL_TRY(pl_model_hash(model_a, &x, err));
        PL_TRY(pl_model_hash(model_b, &y, err));
        if (!pl_hash128_equal(x, y)) return PL_OK;
    }
    pl_buf known = PL_BUF_INIT;
    size_t n;
    pl_spec_name(a, &n);
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++) {
        const char *name = pl_backend_rows[i]->name;
        if (strlen(name) != n || strncmp(name, a, n) != 0)
            pl_buf_printf(&known, "%s%s", known.n_bytes == 0 ? "" : ", ", name);
    }
    pl_buf sides = PL_BUF_INIT;
    pl_buf_printf(&sides,
                  nothing ? "%s and %s run the same kernels (jit compiles no operator of it)"
                  : strcmp(a, b) == 0 ? "both sides are %s"
                                      : "%s and %s are one computation",
                  a, b);
    const pl_status st =
        pl_fail(err, PL_E_USAGE,
                "%s on the same model, so there is nothing to compare; choose what to test "
                "with option 'backend' (available: %s; see 'plumb backends')%s",
                pl_buf_str(&sides), pl_buf_str(&known),
                has_reference ? ", or another option 'reference'" : "");
    pl_buf_release(&sides);
    pl_buf_release(&known);
    return st;
}
