/* plumb_compare: the flow behind plumb.h. */
#include <string.h>

#include "base/nearest.h"
#include "flows/api/session_api.h"
#include "flows/compare/compare.h"

plumb_status plumb_compare(const char *a, const char *b, const plumb_compare_options *options,
                           plumb_session **out, plumb_error *err) {
    plumb_compare_options o;
    plumb_inputs inputs;
    pl_watch watch;
    pl_session *s = NULL;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(a);
    PL_REQUIRE(b);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_COMPARE, options, &o, err));
    PL_TRY(pl_inputs_read(&o.inputs, &inputs, err));
    PL_TRY(pl_list_check("plugins", o.plugins, o.n_plugins, err));
    PL_TRY(pl_list_check("details", o.details, o.n_details, err));
    o.progress = pl_watch_init(&watch, o.progress);
    const pl_status st = pl_api_settle(pl_compare(a, b, &o, &s, err), err);
    if (st != PL_OK) {
        pl_session_free(s);
        return st;
    }
    if (s == NULL) return PLUMB_OK; /* a rank of MPI other than 0 */
    return pl_session_handle_take(s, o.output, out, err);
}

const char *plumb_nearest(const char *word, const char *const *names, size_t n_names) {
    const pl_name_list list = { names, n_names };
    return word == NULL || (names == NULL && n_names > 0)
               ? NULL
               : pl_nearest(word, strlen(word), pl_name_at_list, &list);
}
