/* One page without scripts that opens from disk: figures, groups, and the matrix of models and
 * backends. Names come from untrusted files: each goes through PL_ESCAPE_HTML. */
#include <string.h>

#include "base/count.h"
#include "base/escape.h"
#include "base/strmap.h"
#include "flows/corpus/corpus_print.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"" PL_CORPUS_POLICY
    "\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>plumb corpus</title>\n<style>\n"
    ":root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }\n"
    "body { margin: 1.5rem; }\n"
    "table { border-collapse: collapse; margin: 1rem 0; }\n"
    "th, td { border: 1px solid #8885; padding: .2rem .5rem; text-align: left; }\n"
    "th { position: sticky; top: 0; background: Canvas; }\n"
    "td.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "td.agree { background: #2a82; } td.diverged, td.nondeterministic { background: #d433; }\n"
    "td.failed, td.timeout, td.trouble, td.died { background: #d803; }\n"
    "td.skipped, td.missing { color: GrayText; }\n"
    ".known { color: GrayText; } .new { font-weight: bold; } .fixed { color: #2a8; }\n"
    "code { font-size: .9em; overflow-wrap: anywhere; }\n"
    "</style>\n";

static void put(pl_buf *out, const char *s) {
    pl_escape_put(out, PL_ESCAPE_HTML, s);
}

static void put_name(const pl_corpus *c, size_t backend, pl_buf *out) {
    pl_buf name = PL_BUF_INIT;
    pl_corpus_put_backend(c, backend, &name);
    if (!pl_buf_ok(&name)) out->failed = true;
    put(out, pl_buf_str(&name));
    pl_buf_release(&name);
}

/* In a file, links to the folder; from the server, a session opens in the debugger and a repro is
 * only named. */
static void put_link(const pl_corpus *c, const pl_corpus_case *x, const char *what,
                     const char *token, pl_buf *out) {
    pl_buf path = PL_BUF_INIT;
    if (token != NULL && strcmp(what, "session") == 0) {
        pl_buf_puts(out, " <a href=\"/session?key=");
        pl_escape_put(out, PL_ESCAPE_URL, x->key);
        pl_buf_puts(out, "&amp;token=");
        put(out, token);
        pl_buf_puts(out, "\">session</a>");
        return;
    }
    if (token != NULL) {
        pl_buf_puts(out, " <code>");
        put(out, c->folder);
        pl_buf_printf(out, "/items/%s/%s</code>", x->key, what);
        return;
    }
    pl_buf_printf(&path, "%sitems/%s/%s", c->links, x->key, what);
    if (!pl_buf_ok(&path)) out->failed = true;
    pl_buf_puts(out, " <a href=\"");
    pl_escape_put(out, PL_ESCAPE_URL, pl_buf_str(&path));
    pl_buf_printf(out, "/\">%s</a>", what);
    pl_buf_release(&path);
}

/* ---- groups ---- */

static void put_before(size_t n, pl_buf *out) {
    if (n > 0) pl_buf_printf(out, " <small>(was %zu)</small>", n);
}

static void put_group(const pl_corpus *c, const pl_corpus_group *g, const pl_strmap *by_key,
                      const char *token, pl_buf *out) {
    const pl_corpus_case *smallest = pl_strmap_get(by_key, g->smallest);
    pl_buf_puts(out, "<tr id=\"");
    put(out, g->id);
    pl_buf_puts(out, "\"><td><code>");
    put(out, g->id);
    pl_buf_puts(out, "</code></td><td class=\"");
    put(out, g->state);
    pl_buf_puts(out, "\">");
    put(out, g->state[0] == '\0' ? "-" : g->state);
    pl_buf_puts(out, "</td><td>");
    put(out, g->name);
    pl_buf_printf(out, "</td><td class=\"n\">%zu", g->n_cases);
    put_before(g->n_before, out);
    pl_buf_printf(out, "</td><td class=\"n\">%zu</td><td class=\"n\">%zu", g->n_models,
                  g->n_confirmed);
    pl_buf_puts(out, "</td><td>");
    put(out, g->first_bad);
    pl_buf_puts(out, "</td><td>");
    put(out, g->last_good);
    pl_buf_puts(out, "</td><td>");
    if (smallest != NULL) {
        pl_buf_put_count(out, g->repro_nodes, "node");
        pl_buf_puts(out, ":");
        put_link(c, smallest, "repro", token, out);
    }
    pl_buf_puts(out, "</td></tr>\n");
}

static void put_groups(const pl_corpus *c, const char *token, pl_buf *out) {
    pl_strmap by_key = PL_STRMAP_INIT;
    if (c->n_groups + c->n_gone == 0) return;
    for (size_t i = 0; i < c->n_cases; i++)
        if (pl_strmap_put(&by_key, c->cases[i].key, &c->cases[i]) != 0) out->failed = true;
    pl_buf_puts(out, "<h2>Groups</h2>\n<p>Failures with the same cause. Confirmed: the smallest "
                     "repro of the group fails on the item's backend, too.</p>\n<table>\n<tr>"
                     "<th>id</th><th>state</th><th>cause</th><th>items</th><th>models</th>"
                     "<th>confirmed</th><th>first bad</th><th>last good</th><th>smallest repro"
                     "</th></tr>\n");
    for (int known = 0; known < 2; known++) /* new ones first */
        for (size_t i = 0; i < c->n_groups; i++)
            if ((strcmp(c->groups[i].state, "known") == 0) == (known == 1))
                put_group(c, &c->groups[i], &by_key, token, out);
    pl_strmap_release(&by_key);
    for (size_t i = 0; i < c->n_gone; i++) {
        pl_buf_puts(out, "<tr><td><code>");
        put(out, c->gone[i].id);
        pl_buf_puts(out, c->gone[i].fixed ? "</code></td><td class=\"fixed\">fixed</td><td>"
                                          : "</code></td><td>not seen</td><td>");
        put(out, c->gone[i].name);
        pl_buf_puts(out, "</td><td class=\"n\">0");
        put_before(c->gone[i].n_before, out);
        pl_buf_puts(out, "</td><td></td><td></td><td></td><td></td>"
                         "<td></td></tr>\n");
    }
    pl_buf_puts(out, "</table>\n");
}

/* ---- backends ---- */

static void put_backends(const pl_corpus *c, pl_buf *out) {
    pl_buf_puts(out, "<h2>Backends</h2>\n<table>\n<tr><th>backend</th>");
    for (int s = 0; s < PL_ITEM_STATUS_COUNT; s++)
        if (c->n_of[s] > 0)
            pl_buf_printf(out, "<th>%s</th>", pl_item_status_name((pl_item_status)s));
    pl_buf_puts(out, "</tr>\n");
    for (size_t b = 0; b < c->n_backends; b++) {
        size_t n[PL_ITEM_STATUS_COUNT] = { 0 };
        for (size_t i = 0; i < c->n_cases; i++)
            if (strcmp(c->cases[i].backend, c->backends[b]) == 0) n[c->cases[i].status]++;
        pl_buf_puts(out, "<tr><td>");
        put_name(c, b, out);
        pl_buf_puts(out, "</td>");
        for (int s = 0; s < PL_ITEM_STATUS_COUNT; s++)
            if (c->n_of[s] > 0)
                pl_buf_printf(out, "<td class=\"n %s\">%zu</td>",
                              n[s] > 0 ? pl_item_status_name((pl_item_status)s) : "", n[s]);
        pl_buf_puts(out, "</tr>\n");
    }
    pl_buf_puts(out, "</table>\n");
}

/* ---- the matrix ---- */

static void put_cell(const pl_corpus *c, const pl_corpus_case *x, const char *token, pl_buf *out) {
    pl_buf_puts(out, "<td class=\"");
    put(out, pl_item_status_name(x->status));
    pl_buf_puts(out, "\" title=\"");
    put(out, x->reason);
    pl_buf_puts(out, "\">");
    put(out, pl_item_status_name(x->status));
    if (x->group > 0) {
        pl_buf_puts(out, " <a href=\"#");
        put(out, c->groups[x->group - 1].id);
        pl_buf_puts(out, "\"><code>");
        put(out, c->groups[x->group - 1].id);
        pl_buf_puts(out, "</code></a>");
    }
    if (x->has_session) put_link(c, x, "session", token, out);
    if (x->has_repro) put_link(c, x, "repro", token, out);
    pl_buf_puts(out, "</td>");
}

static bool same_row(const pl_corpus_case *a, const pl_corpus_case *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->data, b->data) == 0 && a->seed == b->seed;
}

/* Cases are sorted by model, data and seed; one row for each. */
static void put_matrix(const pl_corpus *c, const char *token, pl_buf *out) {
    pl_buf_puts(out, "<h2>Models</h2>\n<table>\n<tr><th>model</th>");
    for (size_t b = 0; b < c->n_backends; b++) {
        pl_buf_puts(out, "<th>");
        put_name(c, b, out);
        pl_buf_puts(out, "</th>");
    }
    pl_buf_puts(out, "</tr>\n");
    for (size_t i = 0, end; i < c->n_cases; i = end) {
        for (end = i + 1; end < c->n_cases && same_row(&c->cases[i], &c->cases[end]);)
            end++;
        pl_buf_puts(out, "<tr><td>");
        put(out, c->cases[i].model);
        if (c->cases[i].data[0] != '\0') {
            pl_buf_puts(out, "<br><small>");
            put(out, c->cases[i].data);
            pl_buf_puts(out, "</small>");
        } else if (c->cases[i].seed != 0) {
            pl_buf_printf(out, "<br><small>seed %llu</small>",
                          (unsigned long long)c->cases[i].seed);
        }
        pl_buf_puts(out, "</td>");
        for (size_t b = 0; b < c->n_backends; b++) {
            const pl_corpus_case *x = NULL;
            for (size_t k = i; k < end; k++)
                if (strcmp(c->cases[k].backend, c->backends[b]) == 0) x = &c->cases[k];
            if (x == NULL) {
                pl_buf_puts(out, "<td></td>");
            } else {
                put_cell(c, x, token, out);
            }
        }
        pl_buf_puts(out, "</tr>\n");
    }
    pl_buf_puts(out, "</table>\n");
}

void pl_corpus_put_page(const pl_corpus *c, const char *token, pl_buf *out) {
    pl_buf_puts(out, head);
    pl_buf_puts(out, "<h1>plumb corpus</h1>\n<p>");
    pl_corpus_put_counts(c, out);
    pl_buf_puts(out, ".</p>\n");
    put_groups(c, token, out);
    put_backends(c, out);
    put_matrix(c, token, out);
    pl_buf_puts(out, "</html>\n");
}

void pl_corpus_put_html(const pl_corpus *c, pl_buf *out) {
    pl_corpus_put_page(c, NULL, out);
}
