/* The three policies on top of retyping: autocast by the operator table, fp64, single nodes. */
#include "passes/autocast.h"

#include <string.h>

#include "ops/op.h"
#include "passes/passes.h"
#include "passes/retype.h"

bool pl_amp_parse(const char *text, pl_dtype *out) {
    *out = strcmp(text, "fp16") == 0 ? PL_F16 : PL_BF16;
    return *out == PL_F16 || strcmp(text, "bf16") == 0;
}

typedef struct chosen {
    const pl_graph *graph;
    const bool *raise; /* NULL = none */
} chosen;

static bool is_chosen(const chosen *c, const pl_node *node) {
    return c->raise != NULL && node->graph == c->graph && c->raise[node->index];
}

static pl_compute_rule by_table(void *ctx, const pl_node *node) {
    if (is_chosen(ctx, node)) return PL_COMPUTE_FP32;
    switch (node->def->autocast) {
    case PL_AMP_LOW: return PL_COMPUTE_LOW;
    case PL_AMP_FP32: return PL_COMPUTE_FP32;
    case PL_AMP_WIDEST: return PL_COMPUTE_WIDEST;
    case PL_AMP_KEEP: break;
    }
    return PL_COMPUTE_KEEP;
}

pl_status pl_model_autocast(pl_model *model, pl_dtype low, pl_changes *changes, pl_err *err) {
    return pl_model_autocast_but(model, low, NULL, changes, err);
}

pl_status pl_model_autocast_but(pl_model *model, pl_dtype low, const bool *raise,
                                pl_changes *changes, pl_err *err) {
    chosen c = { model->graph, raise };
    const pl_retype_options options = { .type = low, .rule = by_table, .ctx = &c };
    return pl_model_retype(model, &options, changes, err);
}

pl_status pl_model_fp64(pl_model *model, pl_changes *changes, pl_err *err) {
    const pl_retype_options options = { .type = PL_F64, .everywhere = true };
    return pl_model_retype(model, &options, changes, err);
}

static pl_compute_rule by_choice(void *ctx, const pl_node *node) {
    return is_chosen(ctx, node) ? PL_COMPUTE_FP32 : PL_COMPUTE_ORIGINAL;
}

pl_status pl_model_raise_nodes(pl_model *model, const bool *raise, pl_changes *changes,
                               pl_err *err) {
    chosen c = { model->graph, raise };
    const pl_retype_options options = { .type = PL_F32, .rule = by_choice, .ctx = &c };
    return pl_model_retype(model, &options, changes, err);
}

/* ---- rows ---- */

static pl_status run_amp(pl_pass_job *job, pl_err *err) {
    pl_dtype low = PL_UNDEFINED;
    pl_amp_parse(job->value, &low);
    return pl_model_autocast_but(job->model, low, job->nodes, job->changes, err);
}

static pl_status run_fp64(pl_pass_job *job, pl_err *err) {
    return pl_model_fp64(job->model, job->changes, err);
}

static pl_status run_raise_nodes(pl_pass_job *job, pl_err *err) {
    return pl_model_raise_nodes(job->model, job->nodes, job->changes, err);
}

static const char *const low_types[] = { "fp16", "bf16", NULL };

extern const pl_pass pl_pass_amp, pl_pass_fp64, pl_pass_raise_nodes;
const pl_pass pl_pass_amp = {
    .name = "amp",
    .summary = "mixed precision by the operator table; selected nodes stay in float32",
    .values = low_types,
    .needs = PL_PASS_RESOLVED,
    .takes_nodes = true,
    .run = run_amp,
};
const pl_pass pl_pass_fp64 = {
    .name = "fp64",
    .summary = "every float becomes a double",
    .needs = PL_PASS_RESOLVED,
    .run = run_fp64,
};
const pl_pass pl_pass_raise_nodes = {
    .name = "raise-nodes",
    .summary = "selected nodes compute in float32 (precision advice)",
    .needs = PL_PASS_RESOLVED,
    .takes_nodes = true,
    .run = run_raise_nodes,
};
