/* Text for a terminal: the matrix as counts, then the groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/escape.h"
#include "flows/corpus/corpus_print.h"

static const struct {
    const char *name;
    void (*put)(const pl_corpus *corpus, pl_buf *out);
} formats[] = {
#define X(name, x) { name, pl_corpus_put_##x },
    PL_CORPUS_FORMAT_MAP(X)
#undef X
};

pl_status pl_corpus_print(const pl_corpus *corpus, const char *format, pl_buf *out, pl_err *err) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, format == NULL ? "text" : format) != 0) continue;
        formats[i].put(corpus, out);
        return pl_buf_ok(out) ? PL_OK : pl_fail_memory(err, out->n_bytes);
    }
    return pl_fail(err, PL_E_USAGE,
                   "unknown format '%.40s' for a corpus; available: text, json, junit, sarif, html",
                   format);
}

/* From the page to the folder: "", "out/", or an absolute path when it is not below the page. */
static const char *links_of(pl_arena *arena, const char *folder, const char *page) {
    char *dir = pl_path_dirname(page);
    char *from = dir == NULL ? NULL : pl_path_real(dir), *to = pl_path_real(folder);
    const char *links = "";
    if (from != NULL && to != NULL && strcmp(from, to) != 0) {
        const size_t n = strlen(from);
        const bool below = strncmp(from, to, n) == 0 && to[n] == '/';
        links = pl_arena_printf(arena, "%s/", below ? to + n + 1 : to);
    }
    pl_free(from);
    pl_free(to);
    pl_free(dir);
    return links == NULL ? "" : links;
}

pl_status pl_corpus_report(const char *folder, const char *path, const char *format, pl_buf *text,
                           pl_err *err) {
    pl_corpus *c = NULL;
    if (format == NULL) format = "html";
    if (path == NULL && strcmp(format, "html") == 0)
        return pl_fail(err, PL_E_USAGE, "html requires a file: -o FILE.html");
    pl_status st = pl_corpus_open(folder, &c, err);
    if (st == PL_OK && path != NULL) c->links = links_of(c->arena, folder, path);
    if (st == PL_OK) st = pl_corpus_print(c, format, text, err);
    if (st == PL_OK && path != NULL) {
        st = pl_file_write(path, text->data, text->n_bytes, err);
        pl_buf_reset(text);
        pl_buf_printf(text, "wrote %s: ", path);
        pl_buf_put_count(text, c == NULL ? 0 : c->n_cases, "item");
        pl_buf_puts(text, ", ");
        pl_buf_put_count(text, c == NULL ? 0 : c->n_groups, "group");
        pl_buf_putc(text, '\n');
    }
    pl_corpus_free(c);
    return st;
}

void pl_corpus_put_counts(const pl_corpus *c, pl_buf *out) {
    const char *comma = "";
    pl_buf_put_count(out, c->n_models, "model");
    pl_buf_puts(out, ", ");
    pl_buf_put_count(out, c->n_backends, "backend");
    pl_buf_puts(out, ", ");
    pl_buf_put_count(out, c->n_cases, "item");
    pl_buf_puts(out, ": ");
    for (int i = 0; i < PL_ITEM_STATUS_COUNT; i++) {
        if (c->n_of[i] == 0) continue;
        pl_buf_printf(out, "%s%s %zu", comma, pl_item_status_name((pl_item_status)i), c->n_of[i]);
        comma = ", ";
    }
}

void pl_corpus_put_backend(const pl_corpus *c, size_t at, pl_buf *out) {
    const char *spec = c->backends[at], *colon = strchr(spec, ':');
    pl_buf_append(out, spec, colon == NULL ? strlen(spec) : (size_t)(colon - spec));
    if (c->versions[at][0] != '\0') pl_buf_printf(out, " %s", c->versions[at]);
    for (const char *part = colon; part != NULL;) {
        const char *begin = part + 1, *end = strchr(begin, ',');
        const size_t n = end == NULL ? strlen(begin) : (size_t)(end - begin);
        /* With a known version the path of the library adds nothing. */
        if (strncmp(begin, "lib=", 4) != 0 || c->versions[at][0] == '\0')
            pl_buf_printf(out, " %.*s", (int)(n > 1000 ? 1000 : n), begin);
        part = end;
    }
}

static void put_backends(const pl_corpus *c, pl_buf *out) {
    size_t width = 7;
    for (size_t i = 0; i < c->n_backends; i++) {
        pl_buf name = PL_BUF_INIT;
        pl_corpus_put_backend(c, i, &name);
        if (name.n_bytes > width) width = name.n_bytes;
        pl_buf_release(&name);
    }
    if (width > 48) width = 48;
    pl_buf_printf(out, "%-*s %7s %9s %7s %8s %7s\n", (int)width, "backend", "agree", "diverged",
                  "failed", "skipped", "other");
    for (size_t b = 0; b < c->n_backends; b++) {
        size_t n[PL_ITEM_STATUS_COUNT] = { 0 }, n_all = 0;
        for (size_t i = 0; i < c->n_cases; i++) {
            if (strcmp(c->cases[i].backend, c->backends[b]) != 0) continue;
            n[c->cases[i].status]++;
            n_all++;
        }
        const size_t failed = n[PL_ITEM_FAILED] + n[PL_ITEM_TIMEOUT];
        const size_t diverged = n[PL_ITEM_DIVERGED] + n[PL_ITEM_NONDETERMINISTIC];
        const size_t at = out->n_bytes;
        pl_buf name = PL_BUF_INIT;
        pl_corpus_put_backend(c, b, &name);
        pl_buf_printf(out, "%-*s %7zu %9zu %7zu %8zu %7zu", (int)width, pl_buf_str(&name),
                      n[PL_ITEM_AGREE], diverged, failed, n[PL_ITEM_SKIPPED],
                      n_all - n[PL_ITEM_AGREE] - diverged - failed - n[PL_ITEM_SKIPPED]);
        pl_buf_release(&name);
        pl_escape_end_line(out, at);
    }
}

static void put_group(const pl_corpus *c, const pl_corpus_group *g, pl_buf *out) {
    size_t at = out->n_bytes;
    pl_buf_printf(out, "%4zu  %-5s  %s", g->n_cases, g->state[0] == '\0' ? "-" : g->state, g->name);
    pl_escape_end_line(out, at);
    at = out->n_bytes;
    pl_buf_printf(out, "             %s: ", g->id);
    pl_buf_put_count(out, g->n_models, "model");
    if (g->first_bad[0] != '\0') pl_buf_printf(out, "; first bad %s", g->first_bad);
    if (g->last_good[0] != '\0') pl_buf_printf(out, ", last good %s", g->last_good);
    if (g->smallest[0] != '\0') {
        pl_buf_printf(out, "; confirmed %zu of %zu; repro ", g->n_confirmed, g->n_cases);
        pl_buf_put_count(out, g->repro_nodes, "node");
        pl_buf_printf(out, ": %s/items/%s/repro", c->folder, g->smallest);
    } else {
        pl_buf_puts(out, "; no repro, not confirmed");
    }
    pl_escape_end_line(out, at);
}

static int by_reason(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Why items could not be judged: the most frequent reasons. */
static void put_skipped(const pl_corpus *c, pl_buf *out) {
    enum { SHOWN = 5 };
    const size_t n_skipped = c->n_of[PL_ITEM_SKIPPED];
    const char **reasons = n_skipped == 0 ? NULL : pl_calloc(n_skipped, sizeof *reasons);
    size_t n = 0, n_told = 0;
    if (reasons == NULL) return;
    for (size_t i = 0; i < c->n_cases && n < n_skipped; i++)
        if (c->cases[i].status == PL_ITEM_SKIPPED) reasons[n++] = c->cases[i].reason;
    if (n > 0) qsort(reasons, n, sizeof *reasons, by_reason);
    pl_buf_puts(out, "\nskipped, because they cannot be judged:\n");
    for (size_t shown = 0; shown < SHOWN && n > 0; shown++) {
        size_t best = 0, n_best = 0;
        for (size_t i = 0, end; i < n; i = end) {
            for (end = i + 1; end < n && strcmp(reasons[i], reasons[end]) == 0;)
                end++;
            if (end - i <= n_best) continue;
            best = i;
            n_best = end - i;
        }
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "%4zu  %s", n_best,
                      reasons[best][0] == '\0' ? "no reason given" : reasons[best]);
        pl_escape_end_line(out, at);
        memmove(reasons + best, reasons + best + n_best, (n - best - n_best) * sizeof *reasons);
        n -= n_best;
        n_told += n_best;
    }
    if (n_told < n_skipped)
        pl_buf_printf(out, "%4zu  other reasons: see corpus.json\n", n_skipped - n_told);
    pl_free(reasons);
}

/* Wrong cases without a group: trouble of plumb, time-outs. */
static void put_loose(const pl_corpus *c, pl_buf *out) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_cases; i++) {
        const pl_corpus_case *x = &c->cases[i];
        if (!pl_item_status_is_wrong(x->status) || x->group > 0 || x->status == PL_ITEM_MISSING)
            continue;
        if (n++ == 0) pl_buf_puts(out, "\nnot in a group:\n");
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "  %s  %s on %s: %s", pl_item_status_name(x->status), x->model,
                      x->backend, x->reason);
        pl_escape_end_line(out, at);
    }
    if (c->is_part) {
        pl_buf_puts(out, "\nthe items of this shard are done; next: merge the shards\n");
    } else if (c->n_of[PL_ITEM_MISSING] > 0) {
        pl_buf_putc(out, '\n');
        pl_buf_put_count(out, c->n_of[PL_ITEM_MISSING], "item");
        pl_buf_puts(out, " missing: not done yet, or in another shard\n");
    }
}

void pl_corpus_put_text(const pl_corpus *c, pl_buf *out) {
    pl_corpus_put_counts(c, out);
    pl_buf_puts(out, "\n\n");
    put_backends(c, out);
    if (c->n_groups > 0) {
        pl_buf_putc(out, '\n');
        pl_buf_put_count(out, c->n_groups, "group");
        pl_buf_puts(out, " (items, state, cause):\n");
    }
    for (size_t i = 0; i < c->n_groups; i++)
        put_group(c, &c->groups[i], out);
    for (size_t i = 0; i < c->n_gone; i++) {
        const size_t at = out->n_bytes;
        pl_buf_printf(out, "   0  %-5s  %s", c->gone[i].fixed ? "fixed" : "-", c->gone[i].name);
        if (!c->gone[i].fixed) pl_buf_puts(out, " (not seen: none of its models was judged)");
        pl_escape_end_line(out, at);
    }
    put_skipped(c, out);
    put_loose(c, out);
}
