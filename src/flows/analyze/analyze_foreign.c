/* Operators of domains that plumb does not know. The backend under test runs them; the reference
 * continues with its results. Later values are still replayed on A's own inputs and measured
 * against fp64. An output that depends on one has nothing independent of A to compare with, so it
 * counts as unverified. A reference that can run them (another runtime, a recording) needs none of
 * this. */
#include <string.h>

#include "backends/backend.h"
#include "flows/analyze/analyze_int.h"
#include "ops/op.h"

static pl_status mark_body(void *ctx, pl_graph *body, pl_err *err) {
    (void)err;
    bool *found = ctx;
    for (size_t i = 0; i < body->n_nodes && !*found; i++) {
        *found = pl_node_has_flag(body->nodes[i], PL_OP_FOREIGN);
        if (!*found) pl_node_each_body(body->nodes[i], mark_body, found, NULL);
    }
    return PL_OK;
}

static bool reads_foreign(const pl_analysis *x, const pl_node *node) {
    bool found = pl_node_has_flag(node, PL_OP_FOREIGN);
    pl_node_each_body(node, mark_body, &found, NULL);
    for (uint32_t i = 0; i < node->n_in && !found; i++)
        found = node->in[i] != NULL && x->foreign[node->in[i]->id];
    return found;
}

pl_status pl_analysis_find_foreign(pl_analysis *x, const char *reference, pl_err *err) {
    const pl_graph *graph = x->replayed->graph;
    if (x->recording != NULL || !pl_model_has_flag(x->replayed, PL_OP_FOREIGN) ||
        !pl_backend_is_own(reference))
        return PL_OK;
    x->foreign = pl_arena_array(x->arena, (size_t)x->replayed->n_values + 1, sizeof(bool));
    if (x->foreign == NULL) return pl_fail_memory(err, x->replayed->n_values);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const bool foreign = reads_foreign(x, node);
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL) x->foreign[node->out[k]->id] = foreign;
    }
    x->session->b.spec = "eager:fp64";
    x->session->b.backend = "eager";
    return pl_analysis_note(
        x, err,
        "%s cannot run this model: values are compared with fp64, which continues "
        "from what the backend under test made",
        reference);
}

/* The foreign operator that a value comes from, following its first such inputs. */
static const pl_node *source_of(const pl_analysis *x, const pl_value *value) {
    const pl_node *node = value->producer;
    while (node != NULL && !pl_node_has_flag(node, PL_OP_FOREIGN)) {
        const pl_node *next = NULL;
        for (uint32_t i = 0; i < node->n_in && next == NULL; i++)
            if (node->in[i] != NULL && x->foreign[node->in[i]->id]) next = node->in[i]->producer;
        if (next == NULL) return node; /* in its body */
        node = next;
    }
    return node;
}

void pl_analysis_doubt_foreign(pl_analysis *x, pl_sync_point *p) {
    const bool fine = p->verdict == PL_VERDICT_SAME || p->verdict == PL_VERDICT_WITHIN;
    if (x->foreign == NULL || !p->is_output || !fine || !x->foreign[p->replayed->id]) return;
    const pl_node *node = source_of(x, p->replayed);
    p->facts.unreplayed = true;
    p->facts.rule = PL_FACT_UNKNOWN;
    p->verdict = pl_verdict_of_value(&p->facts);
    const char *why =
        node == NULL
            ? NULL
            : pl_arena_printf(
                  x->arena,
                  "it comes from '%s' (%s of domain '%s'), which only the backend under "
                  "test can run; use another runtime that can as the reference, or a "
                  "recording",
                  node->out[0] == NULL ? node->name : node->out[0]->name, node->op, node->domain);
    p->reason = why == NULL ? "" : why;
}

pl_status pl_analysis_gold_as_b(const pl_datum *a, const pl_datum *gold, pl_datum **out,
                                pl_err *err) {
    pl_tensor *t = NULL;
    *out = NULL;
    if (a->kind != PL_TYPE_TENSOR || gold == NULL || gold->kind != PL_TYPE_TENSOR) return PL_OK;
    const pl_dtype from = gold->tensor->dtype, to = a->tensor->dtype;
    if (from == to || from == PL_STRING || to == PL_STRING) {
        *out = pl_datum_ref(gold);
        return PL_OK;
    }
    PL_TRY(pl_tensor_cast(gold->tensor, to, &t, err));
    return pl_datum_of_tensor_take(t, out, err);
}
