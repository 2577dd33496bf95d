/* Between .onnx and .onnxtxt, and transformed graphs. */
#include <string.h>

#include "base/file.h"
#include "flows/api.h"
#include "flows/inputs.h"
#include "graph/text.h"
#include "onnx/onnx.h"
#include "passes/backward.h"

static pl_status convert(pl_model *model, const char *path, const plumb_convert_options *options,
                         pl_err *err) {
    if (pl_path_exists(path)) {
        return pl_fail(err, PL_E_EXISTS, "%s exists already; it is not overwritten", path);
    }
    if (pl_path_has_suffix(path, ".onnxtxt")) {
        pl_buf text = PL_BUF_INIT;
        pl_status st = pl_model_print(model, options->max_elements, &text, err);
        if (st == PL_OK) st = pl_file_write(path, pl_buf_str(&text), text.n_bytes, err);
        pl_buf_release(&text);
        return st;
    }
    if (!pl_path_has_suffix(path, ".onnx")) {
        return pl_fail(err, PL_E_USAGE, "%s: expected a name that ends in .onnx or .onnxtxt", path);
    }
    return pl_model_write(model, path, options->external != 0, err);
}

static pl_status transformed(pl_model *model, const char *path,
                             const plumb_convert_options *options, pl_err *err) {
    static const char *const parts[] = { "joint", "forward", "backward" };
    for (int i = 0; i < 3; i++) {
        pl_model *other = NULL;
        if (strcmp(options->backward, parts[i]) != 0) continue;
        pl_dim_map dims = { 0 };
        pl_status st = pl_dim_map_init(&dims, options->dims, options->n_dims, err);
        const pl_infer_options infer = { .dims = &dims.map };
        if (st == PL_OK) st = pl_model_backward(model, (pl_backward_part)i, &infer, &other, err);
        pl_dim_map_release(&dims);
        PL_TRY(st);
        st = convert(other, path, options, err);
        pl_model_free(other);
        return st;
    }
    return pl_fail(err, PL_E_USAGE, "backward: '%s' is none of joint, forward, backward",
                   options->backward);
}

plumb_status plumb_convert(plumb_model *m, const char *out_path,
                           const plumb_convert_options *options, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    const pl_status st = options->backward == NULL ? convert(m->model, out_path, options, &err)
                                                   : transformed(m->model, out_path, options, &err);
    return pl_api_return(st, &err, error);
}
