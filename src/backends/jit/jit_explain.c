/* What the compiler did: every graph break and its reason, and the time of each phase. */
#include "backends/jit/jit_int.h"
#include "base/file.h"

static const jit_break *break_of(const jit_plan *plan, size_t step) {
    const jit_step *s = &plan->steps[step];
    return s->kind == JIT_STEP_BREAK ? plan->prims[s->prim].brk : NULL;
}

static void put_breaks(const jit_plan *plan, pl_buf *out) {
    size_t n = 0, loops = 0;
    for (size_t i = 0; i < plan->n_steps; i++) {
        n += break_of(plan, i) != NULL;
        loops += plan->steps[i].loop != NULL;
    }
    pl_buf_printf(out, "%zu nodes, %zu steps: %zu loops, %zu calls, %zu graph breaks\n",
                  plan->model->graph->n_nodes, plan->n_steps, loops, plan->n_steps - loops - n, n);
    for (size_t i = 0; i < plan->n_steps; i++) {
        const jit_break *b = break_of(plan, i);
        char text[600];
        if (b == NULL) continue;
        pl_buf_printf(out, "  %s: %s\n", pl_node_describe(b->node, text, sizeof(text)), b->reason);
    }
    pl_buf_printf(out, "memory: %.1f MB for values inside, %.1f MB without reuse\n",
                  1e-6 * (double)plan->n_memory, 1e-6 * (double)plan->n_memory_naive);
}

pl_status jit_explain(const jit_program *p, const jit_plan *plan, pl_err *err) {
    if (p->options->explain == NULL) return PL_OK;
    pl_buf out = PL_BUF_INIT;
    put_breaks(plan, &out);
    pl_buf_puts(&out, "compile time:");
    for (size_t i = 0; i < plan->n_phases; i++)
        pl_buf_printf(&out, " %s %.1f ms", plan->phases[i].name, plan->phases[i].ms);
    pl_buf_puts(&out, plan->from_cache ? " (from the cache)\n" : "\n");
    const pl_status st = pl_buf_ok(&out)
                             ? pl_file_write(p->options->explain, out.data, out.n_bytes, err)
                             : pl_fail_memory(err, 1);
    pl_buf_release(&out);
    return st;
}
