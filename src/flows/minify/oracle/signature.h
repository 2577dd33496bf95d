/* What a failure looks like, to recognise the same one in a smaller model.
 *
 * A candidate counts only when it shows the target's signature; another failure is another bug.
 * Names and numbers in error texts change from candidate to candidate and are not compared;
 * operator types in them are. */
#ifndef PL_SIGNATURE_H
#define PL_SIGNATURE_H

#include "base/arena.h"
#include "base/json.h"
#include "base/json_read.h"
#include "graph/graph.h"

/* X(NAME, "name") */
#define PL_FAIL_KIND_MAP(X)                                                                        \
    X(NONE, "none")                                                                                \
    X(DIVERGENCE, "divergence")                                                                    \
    X(NONFINITE, "non-finite")                                                                     \
    X(METADATA, "metadata")                                                                        \
    X(DETERMINISM, "determinism")                                                                  \
    X(COMPILE, "compile error")                                                                    \
    X(RUN, "run-time error")                                                                       \
    X(SIGNAL, "signal")                                                                            \
    X(TIMEOUT, "time-out")                                                                         \
    X(MEMORY, "memory limit")                                                                      \
    X(CHECK, "check")
typedef enum pl_fail_kind {
#define X(NAME, text) PL_FAIL_##NAME,
    PL_FAIL_KIND_MAP(X)
#undef X
        PL_FAIL_KIND_COUNT
} pl_fail_kind;

enum { PL_SIGNATURE_TEXT = 600 };

typedef struct pl_signature {
    pl_fail_kind kind;
    char op[64];                  /* blamed operator type; "" = not known */
    char value[256];              /* blamed value; for users, and to distinguish two bugs */
    char error_kind[48];          /* "offset", "scale", …: of divergences */
    int64_t n_elements;           /* of the blamed value; 0 = not known */
    double q;                     /* in units of the bound; NAN = none */
    int number;                   /* signal, or exit code of a check */
    char text[PL_SIGNATURE_TEXT]; /* error text, or what a check printed */
} pl_signature;

void pl_signature_init(pl_signature *s);
const char *pl_fail_kind_name(pl_fail_kind kind);
/* Does `seen` show the target's failure? With `check_str` (may be NULL) the error text must contain
 * it, instead of being similar. */
bool pl_signature_matches(const pl_signature *target, const pl_signature *seen,
                          const char *check_str);
/* Ratio of matching characters as in Python's difflib, 0 to 1, ignoring names and numbers. */
double pl_text_similarity(const char *x, const char *y);
/* "divergence of Relu (offset)", "signal 11", … */
void pl_signature_describe(const pl_signature *s, char *out, size_t n_out);
void pl_signature_put_json(pl_json *json, const pl_signature *s);
pl_status pl_signature_read_json(const pl_json_value *v, pl_signature *out, pl_err *err);

#endif
