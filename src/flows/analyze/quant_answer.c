#include "flows/analyze/quant_answer.h"

#include "flows/analyze/analyze.h"
#include "flows/prepare.h"
#include "passes/keep_float.h"

/* Whether a node of the main graph quantises, dequantises or computes on codes. */
static pl_status look(const char *path, plumb_model **m, bool *quantised, pl_err *err) {
    *quantised = false;
    PL_TRY(plumb_model_open(path, m, err));
    PL_TRY(pl_make_ready((*m)->model, PL_READY_TYPED, &(*m)->edited, err));
    const pl_graph *graph = (*m)->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++)
        *quantised = *quantised || pl_node_is_quantised(graph->nodes[i]);
    return PL_OK;
}

static pl_status ask(plumb_model *m, const pl_quant_question *q, pl_session **out, pl_err *err) {
    const plumb_analyze_options options = { .size = sizeof(options),
                                            .inputs = q->inputs,
                                            .reference = q->floats,
                                            .threads = q->threads,
                                            .metric = q->metric,
                                            .tol = q->tol,
                                            .skip_determinism = 1 };
    return pl_analyze(m, &options, out, err);
}

pl_status pl_quant_answer(const pl_quant_question *q, pl_session *session, pl_err *err) {
    plumb_model *m = NULL, *floats = NULL;
    pl_session *found = NULL;
    pl_err trouble = PL_ERR_INIT;
    bool low = false, other = false;
    if (q->model == NULL || q->floats == NULL) return PL_OK;
    pl_status st = look(q->model, &m, &low, &trouble);
    if (st == PL_OK && low) st = look(q->floats, &floats, &other, &trouble);
    if (st == PL_OK && low && !other) st = ask(m, q, &found, &trouble);
    if (st == PL_OK && found != NULL && found->quant != NULL)
        st = pl_session_copy_quant(found, session, &trouble);
    pl_session_free(found);
    plumb_model_close(floats);
    plumb_model_close(m);
    return st == PL_E_MEMORY || st == PL_E_CANCELLED ? pl_fail(err, st, "%s", trouble.message)
                                                     : PL_OK;
}
