/* Describes what the compiler did as text: graph breaks with their reasons, time of each phase; and
 * for debug-dir one file for each pass. A second plan of the same program goes to debug-dir/2. */

#include <stdio.h>

#include "backends/jit/jit_call.h"
#include "base/alloc.h"
#include "base/count.h"
#include "base/door.h"

enum { FOLDERS_MAX = 1000 };

static const jit_break *break_of(const jit_plan *plan, size_t step) {
    const jit_step *s = &plan->steps[step];
    return s->kind == JIT_STEP_BREAK ? plan->prims[s->prim].brk : NULL;
}

static void put_phases(const jit_plan *plan, pl_buf *out) {
    pl_buf_puts(out, "compile time:");
    for (size_t i = 0; i < plan->n_phases; i++)
        pl_buf_printf(out, " %s %.1f ms", plan->phases[i].name, plan->phases[i].ms);
    pl_buf_puts(out, plan->from_cache ? " (from the cache)\n" : "\n");
}

static void put_breaks(const jit_plan *plan, pl_buf *out) {
    size_t n = 0, loops = 0;
    for (size_t i = 0; i < plan->n_steps; i++) {
        n += break_of(plan, i) != NULL;
        loops += plan->steps[i].kind == JIT_STEP_LOOP;
    }
    const size_t n_nodes = plan->model->graph->n_nodes, calls = plan->n_steps - loops - n;
    pl_buf_printf(out, "%zu node%s, %zu step%s: %zu loop%s, %zu call%s, %zu graph break%s\n",
                  n_nodes, pl_plural(n_nodes), plan->n_steps, pl_plural(plan->n_steps), loops,
                  pl_plural(loops), calls, pl_plural(calls), n, pl_plural(n));
    for (size_t i = 0; i < plan->n_steps; i++) {
        const jit_break *b = break_of(plan, i);
        char text[600];
        if (b == NULL) continue;
        pl_buf_printf(out, "  %s: %s\n", pl_node_describe(b->node, text, sizeof(text)), b->reason);
    }
    pl_buf_printf(out, "memory: %.1f MB for intermediate values, %.1f MB without reuse\n",
                  1e-6 * (double)plan->n_memory, 1e-6 * (double)plan->n_memory_naive);
}

/* ---- the passes ---- */

/* Nodes with the types of this plan; folded ones are marked. */
static void put_graph(const jit_plan *plan, pl_buf *out) {
    const pl_graph *graph = plan->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] == NULL) continue;
            pl_type_print(out, node->out[k]->type);
            pl_buf_printf(out, " %s%s", node->out[k]->name, k + 1 < node->n_out ? ", " : "");
        }
        pl_buf_printf(out, " = %s(", node->op);
        for (uint32_t k = 0; k < node->n_in; k++)
            pl_buf_printf(out, "%s%s", k > 0 ? ", " : "", node->in[k] ? node->in[k]->name : "");
        const bool folded =
            node->n_out > 0 && node->out[0] != NULL && plan->constants[node->out[0]->id] != NULL;
        pl_buf_puts(out, folded ? ")  # folded\n" : ")\n");
    }
}

static void put_prim(const jit_plan *plan, int at, pl_buf *out) {
    static const char *const kinds[] = { "input", "const", "extern", "break",  "iota",
                                         "map",   "load",  "reduce", "concat", "call" };
    const jit_prim *p = &plan->prims[at];
    char dims[200];
    pl_buf_printf(out, "%%%d %s %s%s", at, kinds[p->kind], pl_dtype_name(p->dtype),
                  pl_dims_describe(p->rank, p->dims, dims, sizeof(dims)));
    if (p->kind == JIT_MAP) pl_buf_printf(out, " { %s }", p->expr);
    if (p->kind == JIT_REDUCE) pl_buf_printf(out, " axes %x", p->axes);
    for (int i = 0; i < p->n_args; i++)
        pl_buf_printf(out, "%s%%%d%s", i > 0 ? ", " : " of ", p->args[i].prim,
                      p->args[i].flat ? " (flat)" : "");
    if (p->kernel != NULL) pl_buf_printf(out, ": %s", p->kernel->what);
    if (p->call != NULL) {
        pl_buf_puts(out, ": ");
        jit_call_describe(p->call, out);
    }
    if (p->node != NULL) pl_buf_printf(out, "  # %s", p->node->op);
    if (p->node != NULL && p->node->n_out > 0 && p->node->out[0] != NULL) {
        pl_buf_printf(out, " %s", p->node->out[0]->name);
    }
    pl_buf_putc(out, '\n');
}

static void put_lowered(const jit_plan *plan, pl_buf *out) {
    for (size_t i = 0; i < plan->n_prims; i++)
        if (plan->prims[i].live) put_prim(plan, (int)i, out);
}

static void put_schedule(const jit_plan *plan, pl_buf *out) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        const jit_step *step = &plan->steps[s];
        static const char *const kinds[] = { "break", "loop", "call" };
        pl_buf_printf(out, "step %zu: %s\n", s, kinds[step->kind]);
        for (size_t i = 0; i < plan->n_prims; i++) {
            const jit_prim *p = &plan->prims[i];
            if (!p->live || p->folded_in || p->step != (int)s) continue;
            pl_buf_puts(out, p->in_memory ? "  * " : "    ");
            put_prim(plan, (int)i, out);
        }
        for (size_t i = 0; i < step->n_shown; i++) {
            pl_buf_puts(out, "    shows");
            for (size_t k = 0; k < step->shown[i].n_names; k++)
                pl_buf_printf(out, " %s", step->shown[i].names[k]);
            pl_buf_putc(out, '\n');
        }
    }
}

static void put_memory(const jit_plan *plan, pl_buf *out) {
    pl_buf_printf(out, "one block of %zu bytes; %zu without reuse\n", plan->n_memory,
                  plan->n_memory_naive);
    pl_buf_puts(out, "slot  primitive  first  last  place\n");
    for (size_t i = 0; i < plan->n_slots; i++) {
        const jit_prim *p = &plan->prims[plan->slot_prim[i]];
        pl_buf_printf(out, "%4zu  %%%-8d  %5d  %4d  ", i, plan->slot_prim[i], p->step, p->last_use);
        if (p->kind == JIT_INPUT || p->kind == JIT_CONST || p->kind == JIT_EXTERN) {
            pl_buf_puts(out, p->kind == JIT_INPUT   ? "input\n"
                             : p->kind == JIT_CONST ? "constant\n"
                                                    : "made by a graph break\n");
        } else if (p->heap) {
            pl_buf_puts(out, "its own tensor\n");
        } else {
            pl_buf_printf(out, "%zu + %zu\n", p->offset, p->n_bytes);
        }
    }
}

static pl_status write_file(const char *dir, const char *name, pl_buf *text, pl_err *err) {
    char *path = pl_path_join(dir, name);
    pl_status st = path == NULL || !pl_buf_ok(text) ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) st = pl_file_write(path, pl_buf_str(text), text->n_bytes, err);
    pl_free(path);
    pl_buf_reset(text);
    return st;
}

/* The folder itself, or DIR/2, DIR/3… if an earlier compilation has written there. */
static char *free_folder(const char *dir) {
    char *folder = pl_strdup(dir);
    for (int k = 2; k < FOLDERS_MAX && folder != NULL; k++) {
        char name[16];
        char *first = pl_path_join(folder, "1-graph.txt");
        const bool taken = first != NULL && pl_path_exists(first);
        pl_free(first);
        if (!taken) break;
        snprintf(name, sizeof(name), "%d", k);
        pl_free(folder);
        folder = pl_path_join(dir, name);
    }
    return folder;
}

static pl_status write_passes(const jit_plan *plan, const char *parent, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_status st = PL_OK;
    char *dir = free_folder(parent);
    if (dir == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, pl_path_make_dirs(dir, err));
    put_graph(plan, &text);
    PL_TRY_GOTO(done, st, write_file(dir, "1-graph.txt", &text, err));
    put_lowered(plan, &text);
    PL_TRY_GOTO(done, st, write_file(dir, "2-lowered.txt", &text, err));
    put_schedule(plan, &text);
    PL_TRY_GOTO(done, st, write_file(dir, "3-schedule.txt", &text, err));
    put_memory(plan, &text);
    PL_TRY_GOTO(done, st, write_file(dir, "4-memory.txt", &text, err));
    pl_buf_append(&text, plan->text.data, plan->text.n_bytes);
    PL_TRY_GOTO(done, st, write_file(dir, "5-model.c", &text, err));
    pl_buf_puts(&text, plan->log != NULL ? plan->log : "");
    if (plan->from_cache) pl_buf_puts(&text, "(from the cache)\n");
    PL_TRY_GOTO(done, st, write_file(dir, "6-compiler.log", &text, err));
    put_breaks(plan, &text);
    put_phases(plan, &text);
    st = write_file(dir, "explain.txt", &text, err);
done:
    pl_buf_release(&text);
    pl_free(dir);
    return st;
}

/* Each compilation is appended. */
static pl_status write_explanation(const char *path, const pl_buf *text, pl_err *err) {
    pl_dir *dir = NULL;
    char *folder = pl_path_dirname(path);
    pl_status st = folder == NULL ? pl_fail_memory(err, 1) : pl_dir_open(folder, &dir, err);
    if (st == PL_OK) st = pl_dir_write(dir, pl_path_basename(path), text->data, text->n_bytes, err);
    pl_dir_close(dir);
    pl_free(folder);
    return st;
}

pl_status jit_explain(const jit_program *p, const jit_plan *plan, pl_err *err) {
    if (p->options->debug_dir != NULL) PL_TRY(write_passes(plan, p->options->debug_dir, err));
    if (p->options->explain == NULL) return PL_OK;
    pl_buf out = PL_BUF_INIT;
    put_breaks(plan, &out);
    put_phases(plan, &out);
    const pl_status st = pl_buf_ok(&out) ? write_explanation(p->options->explain, &out, err)
                                         : pl_fail_memory(err, 1);
    pl_buf_release(&out);
    return st;
}
