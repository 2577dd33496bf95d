/* Saves the best model after each step: what a killed run leaves and can resume from. Named by node
 * count; a second one with the same count gets a number. */
#include "flows/minify/repro/checkpoint.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/repro/repro.h"
#include "flows/minify/search/mini_ahead.h"
#include "flows/minify/search/mini_state.h"

/* Models with much data are not saved at every step. */
enum { LARGE_ELEMENTS = 1 << 20, SECONDS_BETWEEN = 5 };

/* NODES or NODES-K; with .…tmp… around it, an unfinished one of a killed run. */
static bool is_checkpoint(const char *name, bool unfinished) {
    static const char digits[] = "0123456789";
    if (unfinished && *name++ != '.') return false;
    size_t n = strspn(name, digits);
    if (n == 0) return false;
    name += n;
    if (*name == '-' && (n = strspn(name + 1, digits)) > 0) name += 1 + n;
    return unfinished ? strncmp(name, ".tmp-", 5) == 0 : *name == '\0';
}

pl_status pl_mini_checkpoints_check(const pl_mini *m, pl_err *err) {
    pl_dir_list list = { 0 };
    bool any = false;
    if (m->checkpoints == NULL || m->resumed || !pl_path_is_dir(m->checkpoints)) return PL_OK;
    PL_TRY(pl_dir_list_read(m->checkpoints, &list, err));
    for (size_t i = 0; i < list.n_names; i++)
        any = any || is_checkpoint(list.names[i], false);
    pl_dir_list_free(&list);
    if (!any) return PL_OK;
    return pl_fail(err, PL_E_EXISTS,
                   "'%s' holds checkpoints of another run; continue it with option 'resume' '%s', "
                   "or remove it",
                   m->checkpoints, m->checkpoints);
}

void pl_mini_checkpoints_remove(const pl_mini *m) {
    pl_dir_list list = { 0 };
    if (pl_dir_list_read(m->checkpoints, &list, NULL) != PL_OK) return;
    for (size_t i = 0; i < list.n_names; i++) {
        if (!is_checkpoint(list.names[i], false) && !is_checkpoint(list.names[i], true)) continue;
        char *path = pl_path_join(m->checkpoints, list.names[i]);
        if (path != NULL) pl_dir_remove(path, NULL);
        pl_free(path);
    }
    pl_dir_list_free(&list);
    rmdir(m->checkpoints); /* fails if it has other files: those are not ours */
}

pl_repro pl_mini_repro(const pl_mini *m, const pl_mini_state *state, const pl_buf *spec) {
    return (pl_repro){ .model = state->model,
                       .in = state->in,
                       .backend = m->options->check != NULL ? NULL : pl_buf_str(spec),
                       .check = m->options->check,
                       .fail_regex = m->options->fail_regex,
                       .fail_code = m->options->fail_code,
                       .check_str = m->options->check_str,
                       .signature = &m->found,
                       .original = &m->oracle->original,
                       .n_nodes_before = m->n_nodes_before,
                       .n_queries = m->oracle->n_queries,
                       .minified = true,
                       .pack = m->options->pack != 0 || m->options->zip != 0,
                       .stable = m->options->stable_output != 0,
                       .seed = m->options->inputs->seed,
                       .timeout = m->options->timeout,
                       .memory_limit = m->options->memory_limit,
                       .sandbox = m->options->sandbox,
                       .threads = m->options->threads,
                       .eval = m->recorded.eval != 0,
                       .amp = m->recorded.amp,
                       .backward = m->recorded.backward != 0,
                       .rule = pl_mini_rule(m) };
}

pl_status pl_mini_checkpoint(pl_mini *m, pl_err *err) {
    char dir[4096];
    pl_buf spec = PL_BUF_INIT, notes = PL_BUF_INIT;
    pl_measure now;
    const double time = pl_api_seconds();
    if (m->checkpoints == NULL || pl_ahead_is_scout(m->ahead)) return PL_OK;
    pl_mini_state_measure(m->best, &now);
    if (now.n_elements > LARGE_ELEMENTS && time - m->last_checkpoint < (double)SECONDS_BETWEEN) {
        return PL_OK;
    }
    m->last_checkpoint = time;
    snprintf(dir, sizeof(dir), "%s/%zu", m->checkpoints, now.n_nodes);
    for (int k = 1; pl_path_exists(dir) && k < 10000; k++)
        snprintf(dir, sizeof(dir), "%s/%zu-%d", m->checkpoints, now.n_nodes, k);
    pl_status st = pl_oracle_spec(m->oracle, m->best, &spec, err);
    pl_repro repro = pl_mini_repro(m, m->best, &spec);
    repro.command = "minify";
    repro.source = "";
    repro.target = &m->oracle->target;
    repro.light = true;
    if (st == PL_OK) st = pl_repro_write(&repro, dir, &notes, err);
    if (st == PL_OK) {
        pl_mini_log(m, "Writing checkpoint with %zu nodes to %s", now.n_nodes, dir);
    } else if (st == PL_E_IO || st == PL_E_EXISTS) { /* a full disk must not end the search */
        pl_mini_log(m, "WARNING: no checkpoint: %s", err->message);
        st = PL_OK;
    }
    pl_buf_release(&spec);
    pl_buf_release(&notes);
    return st;
}
