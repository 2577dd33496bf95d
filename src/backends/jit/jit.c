/* jit: the compiler behind the vtable. Options, programs, plans by shape. */
#include <string.h>

#include "backends/backend_int.h"
#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "kernels/provider.h"
#include "passes/backward.h"

enum { PLANS_MAX = 8 };

double jit_now_ms(void) {
    return 1e-6 * (double)pl_clock_ns();
}

void jit_phase_note(jit_plan *plan, const char *name, double since) {
    if (plan->n_phases < JIT_PHASES_MAX) {
        plan->phases[plan->n_phases++] = (jit_phase){ name, jit_now_ms() - since };
    }
}

static void jit_close(void *self) {
    jit_options *o = self;
    if (o == NULL) return;
    pl_free(o->debug_dir);
    pl_free(o->explain);
    pl_free(o);
}

static pl_status copy_text(const char *text, char **out, pl_err *err) {
    if (text == NULL) return PL_OK;
    *out = pl_strdup(text);
    return *out == NULL ? pl_fail_memory(err, strlen(text)) : PL_OK;
}

static pl_status read_faults(jit_options *o, const plumb_option *options, size_t n, pl_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options[i].key, "inject") != 0) continue;
        if (o->n_faults == JIT_FAULTS_MAX) {
            return pl_fail(err, PL_E_USAGE, "inject can be given at most %d times", JIT_FAULTS_MAX);
        }
        pl_jit_fault *fault = &o->faults[o->n_faults];
        PL_TRY(pl_jit_fault_parse(options[i].value, fault, err));
        const bool gone = fault->pass >= 0 && (o->off >> fault->pass & 1) != 0;
        if (!gone) o->n_faults++;
    }
    return PL_OK;
}

static plumb_status jit_open(const plumb_host *host, const plumb_option *options, size_t n,
                             void **self, plumb_error *error) {
    (void)host;
    pl_err *err = error;
    jit_options *o = pl_calloc(1, sizeof(*o));
    pl_status st = PL_OK;
    if (o == NULL) return pl_fail_memory(err, sizeof(*o));
    PL_TRY_GOTO(done, st, jit_compiler_check(err));
    const char *fuse = pl_option_value(options, n, "fuse");
    const char *shapes = pl_option_value(options, n, "shapes");
    o->threads = (int)pl_option_int(options, n, "threads", -1);
    PL_TRY_GOTO(done, st, jit_passes_parse(pl_option_value(options, n, "disable"), &o->off, err));
    if (fuse != NULL && strcmp(fuse, "off") == 0) o->off |= 1u << JIT_PASS_FUSE;
    o->fuse = (o->off >> JIT_PASS_FUSE & 1) == 0;
    const char *winograd = pl_option_value(options, n, "winograd");
    if (winograd != NULL && strcmp(winograd, "off") == 0) o->off |= 1u << JIT_PASS_WINOGRAD;
    o->winograd = (o->off >> JIT_PASS_WINOGRAD & 1) == 0;
    o->symbolic = shapes != NULL && strcmp(shapes, "symbolic") == 0;
    o->fresh_cache = pl_option_value(options, n, "fresh-cache") != NULL;
    PL_TRY_GOTO(done, st, copy_text(pl_option_value(options, n, "debug-dir"), &o->debug_dir, err));
    PL_TRY_GOTO(done, st, copy_text(pl_option_value(options, n, "explain"), &o->explain, err));
    PL_TRY_GOTO(done, st, read_faults(o, options, n, err));
    PL_TRY_GOTO(done, st,
                pl_provider_find(pl_option_value(options, n, "kernels"), &o->kernels, err));
    pl_provider_version(o->kernels, o->version, sizeof(o->version));
    *self = o;
    o = NULL;
done:
    jit_close(o);
    return st;
}

static const char *jit_version(void *self) {
    return ((const jit_options *)self)->version;
}

static int jit_supports(void *self, const char *domain, const char *op, int opset) {
    (void)self;
    const pl_op_def *def = pl_op_find(domain, op, opset);
    return def != NULL && def->eval != NULL;
}

static void jit_free(void *program) {
    jit_program *p = program;
    if (p == NULL) return;
    for (jit_plan *plan = p->plans; plan != NULL;) {
        jit_plan *next = plan->next;
        jit_plan_free(plan);
        plan = next;
    }
    pl_pool_free(p->pool);
    pl_arena_free(p->scratch);
    if (p->owns_model) pl_model_free(p->model);
    pl_free(p);
}

static size_t count_values(const pl_graph *graph, size_t *hidden) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_out; k++)
            n += node->out[k] != NULL;
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            if (node->attrs[k].graph != NULL) *hidden += count_values(node->attrs[k].graph, hidden);
        }
    }
    return n;
}

/* True when all input shapes are declared completely, so that a plan can be made before the run. */
static bool shapes_are_known(const jit_program *p) {
    if (p->any_shape) return false;
    for (size_t i = 0; i < p->model->graph->n_inputs; i++) {
        const pl_type *type = p->model->graph->inputs[i]->type;
        if (type == NULL || type->dtype == PL_UNDEFINED || !pl_type_is_concrete(type)) return false;
    }
    return true;
}

static void drop_oldest(jit_program *p) {
    jit_plan **at = &p->plans;
    while (*at != NULL && (*at)->next != NULL)
        at = &(*at)->next;
    jit_plan_free(*at);
    *at = NULL;
    p->n_plans--;
}

static pl_status plan_for(jit_program *p, pl_datum *const *in, jit_plan **out, pl_err *err) {
    for (jit_plan *plan = p->plans; in != NULL && plan != NULL; plan = plan->next) {
        if (!jit_plan_fits(plan, in)) continue;
        *out = plan;
        return PL_OK;
    }
    jit_plan *fresh = NULL;
    PL_TRY(jit_plan_new(p, in, &fresh, err));
    fresh->next = p->plans;
    p->plans = fresh;
    p->n_plans++;
    if (p->n_plans > PLANS_MAX) drop_oldest(p);
    *out = fresh;
    /* A failure to write debug output (full disk) must not hide the original error. */
    if (p->explain_status == PL_OK) p->explain_status = jit_explain(p, fresh, &p->explain_err);
    return PL_OK;
}

static pl_status plant_compile_errors(const jit_program *p, pl_err *err) {
    const pl_graph *graph = p->model->graph;
    for (size_t i = 0; i < p->options->n_faults; i++) {
        const pl_jit_fault *fault = &p->options->faults[i];
        for (size_t k = 0; pl_jit_fault_is_compile_error(fault) && k < graph->n_nodes; k++) {
            if (!pl_jit_fault_hits(fault, graph->nodes[k])) continue;
            return jit_build_fails(p, graph->nodes[k], err);
        }
    }
    return PL_OK;
}

static plumb_status jit_compile(void *self, const plumb_source *source, void **program,
                                size_t *n_hooks, plumb_error *error) {
    const jit_options *o = self;
    pl_err *err = error;
    pl_status st = PL_OK;
    jit_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->options = o;
    p->seed = source->seed;
    p->any_shape = source->any_shape != 0;
    PL_TRY_GOTO(done, st, pl_source_model(source, &p->model, &p->owns_model, err));
    PL_TRY_GOTO(done, st, pl_lower_gradient(p->model, err));
    PL_TRY_GOTO(done, st, pl_ops_resolve(p->model, err));
    p->pool = pl_pool_new(o->threads >= 0 ? o->threads : source->threads);
    p->scratch = pl_arena_new();
    if (p->pool == NULL || p->scratch == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    p->n_values = count_values(p->model->graph, &p->n_hidden);
    PL_TRY_GOTO(done, st, plant_compile_errors(p, err));
    if (shapes_are_known(p)) {
        jit_plan *plan = NULL;
        PL_TRY_GOTO(done, st, plan_for(p, NULL, &plan, err));
    }
    *n_hooks = p->n_values;
    *program = p;
    p = NULL;
done:
    jit_free(p);
    return st;
}

static plumb_status jit_run(void *program, const plumb_run_args *args, plumb_error *error) {
    jit_program *p = program;
    pl_err *err = error;
    jit_plan *plan = NULL;
    pl_datum *const *in = (pl_datum *const *)(uintptr_t)args->in;
    pl_status st = jit_check_inputs(p, in, err);
    if (st == PL_OK) st = plan_for(p, in, &plan, err);
    if (st == PL_OK) st = jit_plan_run(p, plan, args, err);
    if (st == PL_OK && p->explain_status != PL_OK)
        st = pl_fail(err, p->explain_status, "%s", p->explain_err.message);
    return st;
}

static const char *const *jit_record_modes(void *self) {
    static const char *const modes[] = { "buffers", NULL };
    (void)self;
    return modes;
}

static const plumb_option_def options[] = {
    { "fuse", "on|off", "off: materialise every value" },
    { "disable", "NAME+NAME", "passes to disable: fold, winograd, overwrite, reuse, …" },
    { "threads", "N", "threads (default: all)" },
    { "shapes", "static|symbolic", "compile for concrete shapes, or for any" },
    { "winograd", "on|off", "3x3 convolutions by Winograd's algorithm where faster" },
    { "kernels", PL_PROVIDER_NAMES, "kernels for products and convolutions" },
    { "fresh-cache", NULL, "ignore the cache and compile again" },
    { "debug-dir", "DIR",
      "write graphs, schedule, memory plan, C and compiler log to this directory" },
    { "explain", "FILE", "write every graph break and its reason to this file" },
    { "inject", "[PASS/]KIND@OP[:N]",
      "plant a fault; with PASS it disappears when that pass is disabled" },
};

const plumb_backend pl_backend_jit = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .flags = PLUMB_TAKES_GRAPH | PLUMB_USES_CACHE,
    .name = "jit",
    .summary = "plumb's own compiler: fuses, emits C, runs it",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = jit_open,
    .close = jit_close,
    .version = jit_version,
    .supports = jit_supports,
    .compile = jit_compile,
    .run = jit_run,
    .record_modes = jit_record_modes,
    .passes = jit_pass_names,
    .free = jit_free,
};
