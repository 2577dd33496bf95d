/* JUnit: a test case for each item. A known failure is a skip with a message. */
#include <string.h>

#include "base/escape.h"
#include "flows/corpus/corpus_print.h"

static void put_xml(pl_buf *out, const char *s) {
    pl_escape_put(out, PL_ESCAPE_XML, s);
}

static bool is_known(const pl_corpus *c, const pl_corpus_case *x) {
    return x->group > 0 && strcmp(c->groups[x->group - 1].state, "known") == 0;
}

static bool is_skip(const pl_corpus *c, const pl_corpus_case *x) {
    return x->status == PL_ITEM_SKIPPED || is_known(c, x);
}

static void put_case(const pl_corpus *c, const pl_corpus_case *x, pl_buf *out) {
    const bool wrong = pl_item_status_is_wrong(x->status), skip = is_skip(c, x);
    pl_buf_puts(out, "    <testcase classname=\"");
    put_xml(out, x->backend);
    pl_buf_puts(out, "\" name=\"");
    put_xml(out, x->model);
    if (x->data[0] != '\0') {
        pl_buf_puts(out, " ");
        put_xml(out, x->data);
    } else if (x->seed != 0) {
        pl_buf_printf(out, " seed %llu", (unsigned long long)x->seed);
    }
    if (!wrong && !skip) {
        pl_buf_puts(out, "\"/>\n");
        return;
    }
    pl_buf_puts(out, "\">\n      ");
    if (skip) {
        pl_buf_puts(out, "<skipped message=\"");
        if (is_known(c, x)) pl_buf_puts(out, "known: ");
    } else {
        pl_buf_printf(out, "<failure type=\"%s\" message=\"", pl_item_status_name(x->status));
    }
    if (x->group > 0) {
        put_xml(out, c->groups[x->group - 1].name);
        pl_buf_puts(out, " [");
        put_xml(out, c->groups[x->group - 1].id);
        pl_buf_puts(out, "]: ");
    }
    put_xml(out, x->reason);
    pl_buf_puts(out, "\"/>\n    </testcase>\n");
}

void pl_corpus_put_junit(const pl_corpus *c, pl_buf *out) {
    size_t n_failed = 0, n_skipped = 0;
    for (size_t i = 0; i < c->n_cases; i++) {
        const pl_corpus_case *x = &c->cases[i];
        n_skipped += is_skip(c, x);
        n_failed += pl_item_status_is_wrong(x->status) && !is_skip(c, x);
    }
    pl_buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    pl_buf_printf(out,
                  "  <testsuite name=\"plumb corpus\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
                  "skipped=\"%zu\">\n",
                  c->n_cases, n_failed, n_skipped);
    for (size_t i = 0; i < c->n_cases; i++)
        put_case(c, &c->cases[i], out);
    pl_buf_puts(out, "  </testsuite>\n</testsuites>\n");
}
