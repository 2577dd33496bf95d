/* A corpus as text, JSON, JUnit, SARIF or one HTML page; and the difference of two. */
#ifndef PL_CORPUS_PRINT_H
#define PL_CORPUS_PRINT_H

#include "flows/corpus/corpus_result.h"

/* PL_E_USAGE for an unknown format. NULL is text. */
pl_status pl_corpus_print(const pl_corpus *corpus, const char *format, pl_buf *out, pl_err *err);
/* "2 models, 1 backend, 2 items: agree 1, diverged 1" */
void pl_corpus_put_counts(const pl_corpus *corpus, pl_buf *out);
/* Without the path of a library: "ort 1.27.0 opt=all". */
void pl_corpus_put_backend(const pl_corpus *corpus, size_t at, pl_buf *out);

#define PL_CORPUS_FORMAT_MAP(X)                                                                    \
    X("text", text)                                                                                \
    X("json", json)                                                                                \
    X("junit", junit)                                                                              \
    X("sarif", sarif)                                                                              \
    X("html", html)
#define X(name, x) void pl_corpus_put_##x(const pl_corpus *corpus, pl_buf *out);
PL_CORPUS_FORMAT_MAP(X)
#undef X

/* The page; with a token as served, where sessions open in the debugger. */
void pl_corpus_put_page(const pl_corpus *corpus, const char *token, pl_buf *out);
#define PL_CORPUS_POLICY "default-src 'none'; style-src 'unsafe-inline'"
/* For `plumb report`: writes a new file, or *text without a path. */
pl_status pl_corpus_report(const char *folder, const char *path, const char *format, pl_buf *text,
                           pl_err *err);

/* corpus_diff.c */
pl_status pl_corpus_diff(const pl_corpus *before, const pl_corpus *now, bool json, pl_buf *out,
                         bool *worse, pl_err *err);

#endif
