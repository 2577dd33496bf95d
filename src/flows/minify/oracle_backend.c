#include "flows/minify/minify_int.h"
pl_status pl_oracle_backend_new(pl_mini *m, pl_oracle **out, pl_err *err) {
    (void)m; (void)out;
    return pl_fail(err, PL_E_UNSUPPORTED, "soon");
}
