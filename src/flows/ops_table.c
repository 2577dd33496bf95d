/* The operator table for users and scripts. */
#include <string.h>

#include "base/json.h"
#include "base/nearest.h"
#include "flows/api/options.h"
#include "ops/emit.h"

typedef struct totals {
    size_t rows, grad, bound, emit; /* the last three: missing rules */
} totals;

static const char *grad_word(const pl_op_def *row) {
    if (row->grad == PL_GRAD_TODO) return "todo";
    if (row->grad == PL_GRAD_ZERO) return "zero";
    if (row->grad == PL_GRAD_UNDEFINED) return "none";
    return "yes";
}

static const char *bound_word(const pl_op_def *row) {
    if (row->bound == PL_BOUND_TODO) return "todo";
    return row->bound == PL_BOUND_EXACT ? "exact" : "yes";
}

static const char *emit_word(const pl_op_def *row) {
    if (row->emit == PL_EMIT_TODO) return "todo";
    return row->no_emit != NULL ? "break" : "yes";
}

static const char *amp_word(const pl_op_def *row) {
    switch (row->autocast) {
    case PL_AMP_LOW: return "low";
    case PL_AMP_FP32: return "fp32";
    case PL_AMP_WIDEST: return "widest";
    case PL_AMP_KEEP: break;
    }
    return "keep";
}

static const char *reach_word(const pl_op_def *row) {
    static const char *const words[] = { [PL_REACH_ANY] = "any",
                                         [PL_REACH_CUT] = "cut",
                                         [PL_REACH_SIGNS] = "signs",
                                         [PL_REACH_UNIT] = "unit",
                                         [PL_REACH_LIMITS] = "limits" };
    return words[row->reach];
}

static void count(totals *t, const pl_op_def *row) {
    t->rows++;
    t->grad += row->grad == PL_GRAD_TODO;
    t->bound += row->bound == PL_BOUND_TODO;
    t->emit += row->emit == PL_EMIT_TODO;
}

static void put_row_json(pl_json *j, const pl_op_def *row, const char *family) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "name", row->name);
    pl_json_put_string(j, "domain", row->domain == NULL ? "ai.onnx" : row->domain);
    pl_json_put_int(j, "since", row->since);
    pl_json_put_int(j, "until", row->until);
    pl_json_put_string(j, "family", family);
    pl_json_put_string(j, "gradient", grad_word(row));
    pl_json_put_string(j, "bound", bound_word(row));
    pl_json_put_string(j, "emit", emit_word(row));
    pl_json_put_string(j, "autocast", amp_word(row));
    pl_json_put_string(j, "reach", reach_word(row));
    pl_json_object_end(j);
}

static bool is_chosen(const pl_op_def *row, const char *filter) {
    return filter == NULL || strcasestr(row->name, filter) != NULL;
}

static void put_json(const char *filter, pl_buf *out) {
    pl_json j;
    totals t = { 0 };
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_key(&j, "ops");
    pl_json_array_begin(&j);
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (!is_chosen(row, filter)) continue;
        count(&t, row);
        put_row_json(&j, row, pl_op_family(i));
    }
    pl_json_array_end(&j);
    pl_json_put_int(&j, "rows", (int64_t)t.rows);
    pl_json_put_int(&j, "gradient_todo", (int64_t)t.grad);
    pl_json_put_int(&j, "bound_todo", (int64_t)t.bound);
    pl_json_put_int(&j, "emit_todo", (int64_t)t.emit);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

static void put_text(const char *filter, pl_buf *out) {
    totals t = { 0 };
    pl_buf_printf(out, "%-34s %-9s %-12s %-8s %-6s %-6s %-8s %s\n", "op", "opsets", "family",
                  "gradient", "bound", "emit", "autocast", "reach");
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (!is_chosen(row, filter)) continue;
        count(&t, row);
        pl_buf name = PL_BUF_INIT, opsets = PL_BUF_INIT;
        pl_buf_printf(&name, "%s%s%s", row->domain == NULL ? "" : row->domain,
                      row->domain == NULL ? "" : ".", row->name);
        if (row->until == 0) {
            pl_buf_printf(&opsets, "%d-", row->since);
        } else {
            pl_buf_printf(&opsets, "%d-%d", row->since, row->until);
        }
        if (!pl_buf_ok(&name) || !pl_buf_ok(&opsets)) out->failed = true;
        pl_buf_printf(out, "%-34s %-9s %-12s %-8s %-6s %-6s %-8s %s\n", pl_buf_str(&name),
                      pl_buf_str(&opsets), pl_op_family(i), grad_word(row), bound_word(row),
                      emit_word(row), amp_word(row), reach_word(row));
        pl_buf_release(&name);
        pl_buf_release(&opsets);
    }
    pl_buf_printf(out,
                  "%zu rows; not implemented: %zu gradients, %zu error bounds, %zu emissions\n",
                  t.rows, t.grad, t.bound, t.emit);
}

static const char *op_at(const void *ctx, size_t i) {
    const pl_op_def *row = pl_op_at(i);
    (void)ctx;
    return row == NULL ? NULL : row->name;
}

static bool is_any_chosen(const char *filter) {
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (is_chosen(row, filter)) return true;
    }
    return false;
}

plumb_status plumb_ops(plumb_format format, const char *filter, char **text, plumb_error *err) {
    pl_buf out = PL_BUF_INIT;
    PL_REQUIRE(text);
    *text = NULL;
    if (!is_any_chosen(filter)) {
        const char *near = pl_nearest(filter, strlen(filter), op_at, NULL);
        return pl_fail(err, PL_E_NOT_FOUND, "no operator name contains '%s'%s%s%s", filter,
                       near == NULL ? "" : "; did you mean '", near == NULL ? "" : near,
                       near == NULL ? "" : "'?");
    }
    if (format == PLUMB_JSON) {
        put_json(filter, &out);
    } else {
        put_text(filter, &out);
    }
    return pl_api_text_take(&out, text, err);
}
