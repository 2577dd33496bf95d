/* Stands between a backend and a hook. */
#include "backends/hiding.h"

#include <string.h>

#include "base/alloc.h"

static plumb_status show(void *ctx, const plumb_seen *seen, plumb_error *error) {
    const pl_hiding *h = ctx;
    plumb_seen shown = *seen;
    const char *name = seen->name;
    if (seen->stands_for != NULL) name = seen->n_stands_for > 0 ? seen->stands_for[0] : NULL;
    const pl_value *value = name == NULL ? NULL : pl_graph_find(h->graph, name);
    pl_datum *d = pl_datum_ref(pl_datum_of(seen->datum));
    pl_status st = pl_dont_care_hide(h->found, value, &d, error);
    shown.datum = pl_datum_public(d);
    if (st == PL_OK) st = h->given->value(h->given->ctx, &shown, error);
    pl_datum_unref(d);
    return st;
}

pl_status pl_hiding_init(pl_hiding *h, const pl_graph *graph, const pl_dont_care *found,
                         const plumb_run_args *args, pl_err *err) {
    *h = (pl_hiding){ .args = *args, .given = args->hook, .graph = graph, .found = found };
    if (args->hook != NULL) {
        h->hook = *args->hook;
        h->hook.value = show;
        h->hook.ctx = h;
        h->args.hook = &h->hook;
    }
    if (args->plain == NULL) return PL_OK;
    h->plain = pl_calloc(args->n_out + 1, sizeof(*h->plain));
    if (h->plain == NULL) return pl_fail_memory(err, args->n_out);
    for (size_t i = 0; i < args->n_out; i++) /* the caller compares what is left of the others */
        if (pl_dont_care_of(found, graph->outputs[i]) == NULL) h->plain[i] = args->plain[i];
    h->args.plain = h->plain;
    return PL_OK;
}

void pl_hiding_release(pl_hiding *h) {
    pl_free(h->plain);
    h->plain = NULL;
}
