/* Eval mode. The operator's row tells how it trains: an input or attribute training_mode, an
 * attribute is_test, or (BatchNormalization before 14) outputs saved_mean and saved_var, which turn
 * training on when they are named. */
#include "passes/eval_mode.h"

#include <string.h>

#include "ops/op.h"
#include "passes/pass_int.h"
#include "passes/passes.h"

typedef struct walk {
    pl_changes *changes;
    bool found;
} walk;

static int port_called(const pl_port *ports, const char *name) {
    for (int i = 0; ports[i].name != NULL; i++)
        if (strcmp(ports[i].name, name) == 0) return i;
    return -1;
}

static bool row_has_attr(const pl_op_def *def, const char *name) {
    for (const pl_op_attr *a = def->attrs; a != NULL && a->name != NULL; a++)
        if (strcmp(a->name, name) == 0) return true;
    return false;
}

static pl_status note(walk *w, const pl_node *node, const char *what, pl_err *err) {
    const char *value = "";
    for (uint32_t i = 0; i < node->n_out && value[0] == '\0'; i++)
        if (node->out[i] != NULL) value = node->out[i]->name;
    const pl_change change = { .kind = PL_CHANGE_EVAL,
                               .value = value,
                               .node = node->name,
                               .op = node->op,
                               .from = PL_UNDEFINED,
                               .to = PL_UNDEFINED,
                               .what = what };
    w->found = true;
    return pl_changes_add(w->changes, &change, err);
}

static pl_status set_int(pl_node *node, const char *name, int64_t value, pl_err *err) {
    pl_attr *attr = (pl_attr *)(uintptr_t)pl_node_attr(node, name);
    if (attr == NULL) attr = pl_node_add_attr(node, name, PL_ATTR_INT);
    if (attr == NULL) return pl_fail_memory(err, sizeof(*attr));
    attr->type = PL_ATTR_INT;
    attr->i = value;
    return PL_OK;
}

/* Removes a training_mode input: absent means false. Not reported if it was false anyway. */
static pl_status drop_input(walk *w, pl_node *node, pl_err *err) {
    const int i = port_called(node->def->in, "training_mode");
    if (i < 0 || (uint32_t)i >= node->n_in || node->in[i] == NULL) return PL_OK;
    const pl_tensor *mode = pl_pass_constant(node->in[i]);
    const bool known = mode != NULL && mode->dtype == PL_BOOL && mode->n_elements == 1;
    const bool off = known && *(const uint8_t *)mode->data == 0;
    node->in[i] = NULL;
    if ((uint32_t)i + 1 == node->n_in) node->n_in--;
    return off ? PL_OK : note(w, node, "input training_mode removed", err);
}

/* The input that replaces an output of statistics: running_mean, saved_mean and mean become
 * input_mean. */
static int statistics_input(const pl_op_def *def, uint32_t output) {
    const char *name = def->out[output].name, *under = strrchr(name, '_');
    const char *what = under == NULL ? name : under + 1;
    if (strcmp(what, "mean") != 0 && strcmp(what, "var") != 0) return -1;
    return port_called(def->in, what[0] == 'm' ? "input_mean" : "input_var");
}

/* Updated statistics that are outputs of the model or read by others are replaced by the given
 * ones. */
static pl_status pass_statistics(pl_node *node, pl_err *err) {
    for (uint32_t i = 1; i < node->n_out; i++) {
        pl_node *identity = NULL;
        if (node->out[i] == NULL) continue;
        const int from = statistics_input(node->def, i);
        if (from < 0 || (uint32_t)from >= node->n_in || node->in[from] == NULL) {
            return pl_node_fail(err, PL_E_UNSUPPORTED, node,
                                "eval mode: output %u exists only in training", i);
        }
        PL_TRY(pl_graph_add_node(node->graph, "Identity", "", 1, 1, &identity, err));
        identity->in[0] = node->in[from];
        identity->def = pl_op_find("", "Identity", identity->opset);
        pl_node_set_output(identity, 0, node->out[i]);
    }
    node->n_out = 1;
    return PL_OK;
}

static bool has_named_outputs(const pl_node *node) {
    for (uint32_t i = 1; i < node->n_out; i++)
        if (node->out[i] != NULL) return true;
    return false;
}

/* Row by row: new BatchNormalization, old Dropout, old BatchNormalization. */
static pl_status set_attributes(walk *w, pl_node *node, pl_err *err) {
    const pl_op_def *def = node->def;
    const bool statistics =
        port_called(def->in, "input_mean") >= 0 && port_called(def->in, "input_var") >= 0;
    if (row_has_attr(def, "training_mode") && pl_attr_int(node, "training_mode") != 0) {
        PL_TRY(set_int(node, "training_mode", 0, err));
        if (statistics) PL_TRY(pass_statistics(node, err));
        return note(w, node, "training_mode 1 -> 0", err);
    }
    const bool old_form = statistics && port_called(def->out, "saved_mean") >= 0;
    /* The row of BatchNormalization-1 serves 7 and 8 too, which have no is_test any more. */
    const bool asks = row_has_attr(def, "is_test") && !(old_form && node->opset >= 7);
    if (asks && pl_attr_int(node, "is_test") == 0) {
        /* Without further outputs BatchNormalization computes the same either way. */
        const bool matters = !old_form || has_named_outputs(node);
        PL_TRY(set_int(node, "is_test", 1, err));
        if (old_form) PL_TRY(pass_statistics(node, err));
        return matters ? note(w, node, "is_test 0 -> 1", err) : PL_OK;
    }
    if (!old_form || !has_named_outputs(node)) return PL_OK;
    PL_TRY(pass_statistics(node, err));
    return note(w, node, "training outputs removed", err);
}

static pl_status walk_graph(void *ctx, pl_graph *graph, pl_err *err) {
    walk *w = ctx;
    const size_t n_nodes = graph->n_nodes; /* nodes appended below need no visit */
    const bool before = w->found;
    w->found = false;
    for (size_t i = 0; i < n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        PL_TRY(pl_node_each_body(node, walk_graph, ctx, err));
        if (node->def == NULL) continue;
        PL_TRY(drop_input(w, node, err));
        PL_TRY(set_attributes(w, node, err));
    }
    if (w->found) PL_TRY(pl_graph_sort(graph, err));
    w->found = w->found || before;
    return PL_OK;
}

pl_status pl_model_eval_mode(pl_model *model, pl_changes *changes, pl_err *err) {
    walk w = { .changes = changes };
    return walk_graph(&w, model->graph, err);
}

static pl_status run(pl_pass_job *job, pl_err *err) {
    return pl_model_eval_mode(job->model, job->changes, err);
}

extern const pl_pass pl_pass_eval;
const pl_pass pl_pass_eval = {
    .name = "eval",
    .summary = "switches training behaviour off",
    .needs = PL_PASS_RESOLVED,
    .run = run,
};
