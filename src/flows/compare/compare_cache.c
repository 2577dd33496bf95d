/* A cache in half precision. llama.cpp then rounds keys and values when it stores them, and both
 * sides of the two products of attention: queries, and what the scores are behind the softmax. A
 * recording whose caches hold nothing but halves, where the model has floats, was made so. The
 * model's attention gets what is rounded likewise (GgmlHalf); one operator that rotates inside is
 * rounded before the rotation, which the bound of type CACHE allows for. */
#include <string.h>

#include "flows/compare/compare_weights_int.h"
#include "flows/prepare.h"
#include "graph/edit.h"
#include "ops/op.h"

/* The cache that a step leaves: an output of the model by this name. */
static bool is_cache(const pl_value *v) {
    static const char present[] = "present.";
    return v != NULL && strncmp(v->name, present, sizeof present - 1) == 0;
}

/* Counts its elements but zeros, which say nothing. */
static pl_status only_halves(const pl_recording *theirs, const pl_record *r, bool *out, int64_t *n,
                             pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(pl_recording_read(theirs, r, &t, err));
    bool all = t->dtype == PL_F16 || t->dtype == PL_F32;
    for (int64_t i = 0; all && t->dtype == PL_F32 && i < t->n_elements; i++) {
        const float x = ((const float *)t->data)[i];
        all = x != x || pl_f16_to_f32(pl_f16_from_f32(x)) == x;
        *n += x != 0;
    }
    if (t->dtype == PL_F16) *n += t->n_elements;
    *out = all;
    pl_tensor_unref(t);
    return PL_OK;
}

/* Do all caches hold only halves, and is there one? */
static pl_status is_half(const pl_model *model, const pl_recording *theirs, bool *out,
                         pl_err *err) {
    int64_t n = 0;
    *out = false;
    for (size_t k = 0; k < model->graph->n_outputs; k++) {
        const pl_value *v = model->graph->outputs[k];
        const pl_record *r = is_cache(v) ? pl_recording_find(theirs, v->name) : NULL;
        bool halves = false;
        if (r == NULL || !r->has_data || v->type == NULL || v->type->dtype != PL_F32) continue;
        PL_TRY(only_halves(theirs, r, &halves, &n, err));
        if (!halves) return PL_OK;
    }
    *out = n > 0;
    return PL_OK;
}

static bool is_computed(const pl_value *v) {
    return v != NULL && v->init == NULL && v->type != NULL && v->type->dtype == PL_F32;
}

static pl_status round_attention(pl_model *model, pl_node *node, pl_err *err) {
    const pl_attends *a = node->def->attends;
    const uint32_t slots[3] = { (uint32_t)a->q, 1, 2 }; /* values follow keys in all of them */
    for (int i = 0; i < (a->k < 0 ? 1 : 3); i++)
        if (slots[i] < node->n_in && is_computed(node->in[slots[i]]))
            PL_TRY(pl_compare_round_input(model, node, slots[i], "CACHE", err));
    return PL_OK;
}

/* A product of two computed values is one of attention's. */
static bool is_pair_product(const pl_node *node) {
    return node->def->weights != PL_WEIGHTS_NONE && node->n_in >= 2 && is_computed(node->in[0]) &&
           is_computed(node->in[1]);
}

/* Joins what there was and what is new to the cache. */
static bool is_store(const pl_node *node) {
    return node->n_out == 1 && is_cache(node->out[0]);
}

static pl_status round_all(pl_model *model, pl_node *node, pl_err *err) {
    for (uint32_t k = 0; k < node->n_in; k++)
        if (is_computed(node->in[k])) PL_TRY(pl_compare_round_input(model, node, k, "F16", err));
    return PL_OK;
}

pl_status pl_compare_take_cache(pl_model *model, const pl_recording *theirs, pl_buf *notes,
                                pl_err *err) {
    const size_t n_nodes = model->graph->n_nodes;
    size_t n = 0;
    bool half = false;
    PL_TRY(is_half(model, theirs, &half, err));
    if (!half) return PL_OK;
    PL_TRY(pl_make_ready(model, PL_READY_TYPED, NULL, err));
    for (size_t i = 0; i < n_nodes; i++) {
        pl_node *node = model->graph->nodes[i];
        if (node->def == NULL) continue;
        const bool attends = node->def->attends != NULL, multiplies = is_pair_product(node);
        if (attends) PL_TRY(round_attention(model, node, err));
        if (multiplies || is_store(node)) PL_TRY(round_all(model, node, err));
        n += attends || multiplies;
    }
    if (n > 0)
        pl_buf_printf(notes,
                      "the recording keeps its cache in half precision: %zu operation%s of the "
                      "model's attention round%s to half, too\n",
                      n, pl_plural(n), n == 1 ? "s" : "");
    return pl_graph_sort(model->graph, err);
}
