/* Precision advice as a table and as JSON. */
#include "session/advice.h"

#include <math.h>
#include <stdio.h>

const char *pl_loss_name(pl_loss loss) {
    static const char *const names[PL_LOSS_COUNT] = {
#define X(NAME, text) [PL_LOSS_##NAME] = text,
        PL_LOSS_MAP(X)
#undef X
    };
    return names[loss];
}

void pl_advice_init(pl_advice *a) {
    *a = (pl_advice){ .precision = "",
                      .limit = "",
                      .before = (double)NAN,
                      .after = (double)NAN,
                      .reason = "",
                      .model = "",
                      .by = "",
                      .top1_before = (double)NAN,
                      .top1_after = (double)NAN,
                      .held_before = (double)NAN,
                      .held_after = (double)NAN };
}

static const char *number(double x, char *out, size_t n) {
    if (isnan(x)) {
        snprintf(out, n, "-");
    } else {
        snprintf(out, n, "%.3g", x);
    }
    return out;
}

static void put_row(const pl_advice_row *r, pl_buf *out) {
    char largest[32], condition[32], local[32], effect[32];
    pl_buf_printf(
        out, "  %c %-12s %9s %9lld %9lld %9s %9s %9s  ", r->raise ? '*' : ' ',
        pl_loss_name(r->loss), number(r->largest, largest, sizeof(largest)), (long long)r->n_over,
        (long long)r->n_under, number(r->condition, condition, sizeof(condition)),
        number(r->local, local, sizeof(local)), number(r->effect, effect, sizeof(effect)));
    pl_buf_put_clean(out, r->op);
    pl_buf_puts(out, "  ");
    pl_buf_put_clean(out, r->value);
    if (*r->node != '\0') {
        pl_buf_puts(out, " (");
        pl_buf_put_clean(out, r->node);
        pl_buf_putc(out, ')');
    }
    pl_buf_putc(out, '\n');
}

size_t pl_advice_put_text(const pl_advice *a, size_t limit, pl_buf *out) {
    size_t n = 0;
    pl_buf_puts(out, "\nadvice: ");
    pl_buf_put_clean(out, a->reason);
    pl_buf_putc(out, '\n');
    const bool layers = *a->by != '\0'; /* they are in the table of layers */
    if (a->n_rows > 0 && !layers) {
        pl_buf_printf(out,
                      "    %-12s %9s %9s %9s %9s %9s %9s  op and value; * = raise to float32\n",
                      "loss", "largest", "overflow", "underflow", "condition", "local", "effect");
    }
    for (size_t i = 0; !layers && i < a->n_rows; i++) {
        if (limit > 0 && n >= limit && !a->rows[i].raise) continue;
        put_row(&a->rows[i], out);
        n++;
    }
    return layers ? 0 : a->n_rows - n;
}

void pl_advice_put_model(const pl_advice *a, pl_buf *out) {
    if (*a->model == '\0') return;
    pl_buf_puts(out, a->n_raised > 0 ? "  wrote the mixed-precision model to "
                                     : "  wrote the model to ");
    pl_buf_put_clean(out, a->model);
    pl_buf_putc(out, '\n');
}

void pl_advice_put_json(const pl_advice *a, pl_json *j) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "precision", a->precision);
    pl_json_put_string(j, "limit", a->limit);
    pl_json_put_string(j, "reason", a->reason);
    pl_json_put_bool(j, "met", a->met);
    pl_json_put_bool(j, "one_minimal", a->one_minimal);
    pl_json_put_known(j, "before", a->before);
    pl_json_put_known(j, "after", a->after);
    pl_json_put_int(j, "nodes", (int64_t)a->n_nodes);
    pl_json_put_int(j, "queries", (int64_t)a->n_queries);
    pl_json_put_string(j, "model", a->model);
    if (*a->by != '\0') {
        pl_json_put_string(j, "by", a->by);
        pl_json_put_bool(j, "unsigned_weights", a->unsigned_weights);
        pl_json_put_known(j, "top1_before", a->top1_before);
        pl_json_put_known(j, "top1_after", a->top1_after);
        pl_json_put_int(j, "held_back", a->n_held);
        pl_json_put_known(j, "held_before", a->held_before);
        pl_json_put_known(j, "held_after", a->held_after);
    }
    pl_json_key(j, "raise");
    pl_json_array_begin(j);
    for (size_t i = 0; i < a->n_rows; i++)
        if (a->rows[i].raise) pl_json_string(j, a->rows[i].value);
    pl_json_array_end(j);
    pl_json_key(j, "rows");
    pl_json_array_begin(j);
    for (size_t i = 0; i < a->n_rows; i++) {
        const pl_advice_row *r = &a->rows[i];
        pl_json_object_begin(j);
        pl_json_put_string(j, "node", r->node);
        pl_json_put_string(j, "op", r->op);
        pl_json_put_string(j, "value", r->value);
        pl_json_put_string(j, "module", r->module);
        pl_json_put_string(j, "loss", pl_loss_name(r->loss));
        pl_json_put_bool(j, "raise", r->raise);
        pl_json_put_int(j, "elements", r->n);
        pl_json_put_int(j, "overflow", r->n_over);
        pl_json_put_int(j, "underflow", r->n_under);
        pl_json_put_known(j, "largest", r->largest);
        pl_json_put_known(j, "condition", r->condition);
        pl_json_put_known(j, "local", r->local);
        pl_json_put_known(j, "effect", r->effect);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}
