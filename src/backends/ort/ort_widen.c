/* Weights of half precision. Most of ONNX Runtime's kernels on CPUs compute in float32: a pass
 * turns such weights into float32 ones, so the graph that it saves has twice the bytes, and saving
 * and loading them took most of an analysis. So the graph is saved without that pass, with the
 * weights as they are in the user's file, and the session that records widens them once more.
 * Fusions that follow that pass (QuickGelu) are missing from the graph; if that changes a bit of an
 * output, the graph with wide weights is saved after all. */
#include "backends/ort/ort_widen.h"

#include <string.h>

#include "base/alloc.h"

#define WIDENING "FuseFp16InitializerToFp32NodeTransformer"

enum { SINCE = 18 }; /* passes are disabled by name */
#define LARGE (UINT64_C(256) << 20)

const char pl_ort_widening[] = WIDENING;

static bool is_half(const pl_tensor *t) {
    return t != NULL && (t->dtype == PL_F16 || t->dtype == PL_BF16);
}

static uint64_t half_bytes(const pl_graph *graph) {
    uint64_t sum = 0;
    for (size_t i = 0; i < graph->n_values; i++)
        if (is_half(graph->values[i]->init))
            sum += 2 * (uint64_t)graph->values[i]->init->n_elements;
    return sum;
}

bool pl_ort_widens(const pl_ort *ort, const pl_model *model) {
    if (ort->env.api.minor < SINCE || ort->level < 99 || ort->providers != NULL) return false;
    if (ort->disable != NULL && strstr(ort->disable, WIDENING) != NULL) return false;
    return half_bytes(model->graph) >= (ort->weights_half ? 1 : LARGE);
}

bool pl_ort_widens_weight(const pl_value *value) {
    const pl_node *node = value->producer;
    return node != NULL && node->n_in == 1 && node->in[0] != NULL && is_half(node->in[0]->init);
}

void pl_ort_widening_only(pl_buf *out) {
    for (size_t i = 0; pl_ort_passes[i] != NULL; i++) {
        if (strcmp(pl_ort_passes[i], WIDENING) == 0) continue;
        if (out->n_bytes > 0) pl_buf_puts(out, ";");
        pl_buf_puts(out, pl_ort_passes[i]);
    }
}

/* ---- the second plain run ---- */

static void drop(pl_datum ***data, size_t n) {
    for (size_t i = 0; *data != NULL && i < n; i++)
        pl_datum_unref((*data)[i]);
    pl_free(*data);
    *data = NULL;
}

void pl_ort_drop_ahead(pl_ort_program *p) {
    drop(&p->ahead, p->source.n_outputs);
    drop(&p->ahead_in, p->source.n_inputs);
}

void pl_ort_run_ahead(pl_ort_program *p, const plumb_run_args *args) {
    const size_t n_in = p->source.n_inputs, n_out = p->source.n_outputs;
    void **values = pl_calloc(n_out + 1, sizeof(void *));
    pl_ort_drop_ahead(p);
    p->ahead = pl_calloc(n_out + 1, sizeof(pl_datum *));
    p->ahead_in = pl_calloc(n_in + 1, sizeof(pl_datum *));
    bool done =
        values != NULL && p->ahead != NULL && p->ahead_in != NULL && args->n_in <= n_in &&
        pl_ort_session_run(p, p->session, args, p->source.outputs, n_out, values, NULL) == PL_OK &&
        pl_ort_outputs_read(p, values, p->ahead, NULL) == PL_OK;
    for (size_t i = 0; done && i < args->n_in; i++)
        if (args->in[i] != NULL) p->ahead_in[i] = pl_datum_ref(pl_datum_of(args->in[i]));
    if (values != NULL) pl_ort_values_release(p, values, n_out);
    pl_free(values);
    if (!done) pl_ort_drop_ahead(p); /* the run is made, and fails, when it is asked for */
}

static bool are_the_inputs(const pl_ort_program *p, const plumb_run_args *args) {
    for (size_t i = 0; i < args->n_in; i++) {
        const pl_datum *now = args->in[i] == NULL ? NULL : pl_datum_of(args->in[i]);
        const pl_datum *then = p->ahead_in[i];
        if ((now == NULL) != (then == NULL)) return false;
        if (now != NULL && !pl_datum_identical(now, then)) return false;
    }
    return true;
}

bool pl_ort_take_ahead(pl_ort_program *p, const plumb_run_args *args) {
    if (p->ahead == NULL || args->n_in > p->source.n_inputs || !are_the_inputs(p, args))
        return false;
    for (size_t i = 0; i < p->source.n_outputs; i++) {
        ((pl_datum **)args->out)[i] = p->ahead[i];
        p->ahead[i] = NULL;
    }
    pl_ort_drop_ahead(p);
    return true;
}
