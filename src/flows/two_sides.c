#include "flows/two_sides.h"

#include <string.h>

#include "backends/backend.h"
#include "base/buf.h"
#include "graph/edit.h"

pl_status pl_two_sides_check(const char *a, const pl_model *model_a, const char *b,
                             const pl_model *model_b, pl_err *err) {
    pl_hash128 x, y;
    if (strcmp(a, b) != 0) return PL_OK;
    if (model_a != model_b) {
        PL_TRY(pl_model_hash(model_a, &x, err));
        PL_TRY(pl_model_hash(model_b, &y, err));
        if (!pl_hash128_equal(x, y)) return PL_OK;
    }
    pl_buf known = PL_BUF_INIT;
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++) {
        const char *name = pl_backend_rows[i]->name;
        if (strcmp(name, a) != 0)
            pl_buf_printf(&known, "%s%s", known.n_bytes == 0 ? "" : ", ", name);
    }
    const pl_status st = pl_fail(
        err, PL_E_USAGE,
        "both sides are %s on the same model, so there is nothing to compare; choose what to test "
        "with --backend (available: %s; see 'plumb backends'), or another --reference",
        a, pl_buf_str(&known));
    pl_buf_release(&known);
    return st;
}
