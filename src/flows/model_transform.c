/* Runs the passes that a user selects by name. */
#include "flows/model_transform.h"

#include "flows/api/options.h"
#include "ops/op.h"
#include "passes/passes.h"

pl_status pl_transform(pl_model *model, const plumb_transform_options *o, pl_changes *changes,
                       pl_err *err) {
    pl_pass_job job = { .model = model, .changes = changes };
    pl_pass_job low = { .model = model, .changes = changes, .value = o->amp };
    if (o->amp != NULL && o->fp64) {
        return pl_fail(err, PL_E_USAGE, "amp and fp64 cannot be combined");
    }
    PL_TRY(pl_ops_resolve(model, err));
    if (o->eval) PL_TRY(pl_pass_run("eval", &job, err));
    if (o->amp != NULL) PL_TRY(pl_pass_run("amp", &low, err));
    return o->fp64 ? pl_pass_run("fp64", &job, err) : PL_OK;
}

static void count(pl_buf *out, size_t n, const char *one, const char *many, bool *first) {
    if (n == 0) return;
    pl_buf_printf(out, "%s%zu %s", *first ? "" : ", ", n, n == 1 ? one : many);
    *first = false;
}

void pl_transform_summary(const pl_changes *c, pl_buf *out) {
    bool first = true;
    count(out, pl_changes_count(c, PL_CHANGE_EVAL), "node set to eval mode",
          "nodes set to eval mode", &first);
    count(out, pl_changes_count(c, PL_CHANGE_CAST), "cast inserted", "casts inserted", &first);
    count(out, pl_changes_count(c, PL_CHANGE_CONVERT), "constant converted", "constants converted",
          &first);
    count(out, pl_changes_count(c, PL_CHANGE_DROP), "cast redundant", "casts redundant", &first);
    count(out, pl_changes_count(c, PL_CHANGE_STAY), "node does not support the type",
          "nodes do not support the type", &first);
    if (first) pl_buf_puts(out, "nothing to change");
}

static void describe(const pl_changes *changes, plumb_format format, pl_buf *out) {
    if (format == PLUMB_JSON) {
        pl_json j;
        pl_json_init(&j, out, true);
        pl_json_object_begin(&j);
        pl_json_key(&j, "changes");
        pl_changes_put_json(changes, &j);
        pl_json_object_end(&j);
    } else {
        pl_changes_print(changes, out);
        pl_transform_summary(changes, out);
    }
    pl_buf_putc(out, '\n');
}

plumb_status plumb_model_transform(plumb_model *model, const plumb_transform_options *options,
                                   char **text, plumb_error *err) {
    plumb_transform_options o;
    pl_changes changes = PL_CHANGES_INIT;
    pl_buf out = PL_BUF_INIT;
    if (text != NULL) *text = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_TRANSFORM, options, &o, err));
    model->edited = true;
    pl_status st = pl_transform(model->model, &o, &changes, err);
    if (st == PL_OK && text != NULL) {
        describe(&changes, o.format, &out);
        st = pl_api_text_take(&out, text, err);
    }
    pl_buf_release(&out);
    pl_changes_release(&changes);
    return st;
}
