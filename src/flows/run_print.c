/* A run as JSON and as text. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strmap.h"
#include "flows/outputs.h"
#include "flows/run.h"

static void put_warnings(const pl_run_result *r, pl_json *j) {
    if (r->warnings[0] == '\0') return;
    pl_json_key(j, "warnings");
    pl_json_array_begin(j);
    for (const char *at = r->warnings; *at != '\0';) {
        const size_t n = strcspn(at, "\n");
        pl_json_string_n(j, at, n);
        at += n + (at[n] == '\n');
    }
    pl_json_array_end(j);
}

void pl_run_put_json(const pl_run_result *r, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", "ok");
    pl_json_key(&j, "outputs");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < r->n_out; i++)
        pl_output_put_json(&j, r->names[i], NULL, r->out[i], r->files[i]);
    pl_json_array_end(&j);
    pl_json_key(&j, "timing");
    pl_json_object_begin(&j);
    pl_json_put_double(&j, "load_ms", 1e3 * r->load);
    pl_json_put_double(&j, "first_ms", 1e3 * r->first);
    pl_json_put_double(&j, "best_ms", 1e3 * r->best);
    pl_json_put_double(&j, "median_ms", 1e3 * r->median);
    pl_json_put_int(&j, "runs", (int64_t)r->n_runs);
    if (r->device[0] != '\0' && r->wait > 0) {
        pl_json_put_double(&j, "submit_ms", 1e3 * r->submit);
        pl_json_put_double(&j, "wait_ms", 1e3 * r->wait);
    }
    pl_json_object_end(&j);
    put_warnings(r, &j);
    if (r->device[0] != '\0') pl_json_put_string(&j, "device", r->device);
    if (r->placement.n_places > 0) pl_placement_put_json(&r->placement, "placement", &j);
    if (r->nodes != NULL) {
        pl_json_key(&j, "nodes");
        pl_json_array_begin(&j);
        for (size_t i = 0; i < r->n_nodes; i++) {
            pl_json_object_begin(&j);
            pl_json_put_string(&j, "value", r->nodes[i].value);
            pl_json_put_string(&j, "op", r->nodes[i].op);
            pl_json_put_double(&j, "us", 1e6 * r->nodes[i].seconds);
            pl_json_object_end(&j);
        }
        pl_json_array_end(&j);
    }
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

typedef struct op_time {
    const char *op;
    double us;
    int64_t n;
} op_time;

static int slower_first(const void *a, const void *b) {
    const double x = ((const op_time *)a)->us, y = ((const op_time *)b)->us;
    return (x < y) - (x > y);
}

/* Time by operator type, of the last run. */
static void put_profile(const pl_run_result *r, pl_buf *out) {
    op_time *times = pl_calloc(r->n_nodes + 1, sizeof(*times));
    pl_strmap index = PL_STRMAP_INIT;
    size_t n = 0;
    double total = 0;
    if (times == NULL) out->failed = true;
    for (size_t i = 0; times != NULL && i < r->n_nodes; i++) {
        op_time *t = pl_strmap_get(&index, r->nodes[i].op);
        if (t == NULL) {
            t = &times[n++];
            t->op = r->nodes[i].op;
            if (pl_strmap_put(&index, t->op, t) != 0) {
                out->failed = true;
                break;
            }
        }
        t->us += 1e6 * r->nodes[i].seconds;
        t->n++;
        total += 1e6 * r->nodes[i].seconds;
    }
    if (times != NULL) qsort(times, n, sizeof(*times), slower_first);
    pl_buf_printf(out, "\n%-28s %6s %12s %6s\n", "op", "nodes", "us", "share");
    for (size_t i = 0; i < n; i++) {
        pl_buf_printf(out, "%-28s %6lld %12.1f %5.1f%%\n", times[i].op, (long long)times[i].n,
                      times[i].us, total > 0 ? 100 * times[i].us / total : 0);
    }
    pl_strmap_release(&index);
    pl_free(times);
}

void pl_run_put_text(const pl_run_result *r, pl_buf *out) {
    for (size_t i = 0; i < r->n_out; i++) {
        pl_output_put_text(out, r->names[i], r->out[i], r->files[i]);
    }
    for (const char *at = r->warnings; *at != '\0';) {
        const size_t n = strcspn(at, "\n");
        pl_buf_printf(out, "warning: %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    if (r->device[0] != '\0') {
        pl_buf_puts(out, "device: ");
        pl_buf_put_clean(out, r->device);
        pl_buf_putc(out, '\n');
    }
    if (r->placement.n_places > 0) {
        pl_buf_puts(out, "nodes: ");
        pl_placement_put_text(&r->placement, out);
        pl_buf_putc(out, '\n');
    }
    pl_buf_printf(out, "load %.1f ms, run %.2f ms", 1e3 * r->load, 1e3 * r->first);
    if (r->n_runs > 1) {
        pl_buf_printf(out, ", best of %zu %.2f ms, median %.2f ms", r->n_runs, 1e3 * r->best,
                      1e3 * r->median);
    }
    if (r->device[0] != '\0' && r->wait > 0) {
        pl_buf_printf(out, "; %ssubmit %.2f ms, wait %.2f ms",
                      r->n_runs > 1 ? "the last one: " : "", 1e3 * r->submit, 1e3 * r->wait);
    }
    pl_buf_putc(out, '\n');
    if (r->nodes != NULL) put_profile(r, out);
}
