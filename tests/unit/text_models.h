/* Helpers for tests that write their models in the text form. */
#ifndef PL_TEXT_MODELS_H
#define PL_TEXT_MODELS_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "graph/edit.h"
#include "graph/text/text.h"

static inline void must(pl_status status, const pl_err *err) {
    if (status != PL_OK) fail_msg("%s: %s", pl_status_name(status), err->message);
}

static inline pl_model *parse_text(const char *text) {
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    must(pl_model_parse(text, strlen(text), "t", &model, &err), &err);
    return model;
}

static inline pl_model *parse_graph_text(const char *text) {
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    must(pl_model_parse_graph(text, 18, &model, &err), &err);
    return model;
}

static inline pl_hash128 hash_of(const pl_model *model) {
    pl_hash128 hash = { 0, 0 };
    pl_err err = PL_ERR_INIT;
    must(pl_model_hash(model, &hash, &err), &err);
    return hash;
}

static inline pl_hash128 hash_of_graph_text(const char *text) {
    pl_model *model = parse_graph_text(text);
    const pl_hash128 hash = hash_of(model);
    pl_model_free(model);
    return hash;
}

static inline bool hash_equal(pl_hash128 a, pl_hash128 b) {
    return a.low == b.low && a.high == b.high;
}

/* Prints the model; the caller releases. */
static inline pl_buf print_model(const pl_model *model) {
    pl_buf buf = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    must(pl_model_print(model, 0, &buf, &err), &err);
    return buf;
}

#endif
