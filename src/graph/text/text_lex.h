/* Characters to tokens for the ONNX text form; internal to src/graph.
 *
 * The grammar needs one character of lookahead, so there is no token stream: each function skips
 * blanks and comments and reads what it names. Returned spans are borrowed: from the text, or from
 * `scratch` (a string with escapes), where they are valid until the next string is read. */
#ifndef PL_TEXT_LEX_H
#define PL_TEXT_LEX_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/status.h"
#include "tensor/dtype.h"

typedef struct pl_lex {
    const char *text;
    size_t n_text, at;
    const char *name; /* of the text, for messages */
    pl_buf scratch;
    pl_err *err;
} pl_lex;

typedef struct pl_lex_number {
    pl_string text; /* as written, including the sign */
    size_t at;
    bool is_float; /* has a point, an exponent, or is inf or nan */
} pl_lex_number;

void pl_lex_init(pl_lex *lex, const char *text, size_t n_text, const char *name, pl_err *err);
void pl_lex_release(pl_lex *lex);

/* "name:line:column: …" for the byte offset `at`. */
pl_status pl_lex_fail(pl_lex *lex, size_t at, pl_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "expected WHAT, found 'x'" at the current place. */
pl_status pl_lex_fail_expected(pl_lex *lex, const char *what);

#ifdef __clang_analyzer__ /* it sees one file at a time: a failure is never PL_OK */
#define pl_lex_fail(lex, at, status, ...)                                                          \
    ((void)(pl_lex_fail)(lex, at, status, __VA_ARGS__), (status))
#define pl_lex_fail_expected(lex, what) ((void)(pl_lex_fail_expected)(lex, what), PL_E_FORMAT)
#endif

int pl_lex_peek(pl_lex *lex); /* next byte that is not a blank or in a comment; -1 at the end */
bool pl_lex_match(pl_lex *lex, char c);
pl_status pl_lex_expect(pl_lex *lex, char c);
pl_status pl_lex_expect_arrow(pl_lex *lex); /* => */

bool pl_lex_is_ident(const char *s, size_t n);       /* [A-Za-z_][A-Za-z0-9_]* */
bool pl_lex_peek_ident(pl_lex *lex, pl_string *out); /* not consumed; n_bytes 0 when none */
pl_status pl_lex_ident(pl_lex *lex, pl_string *out);
pl_status pl_lex_string(pl_lex *lex, pl_string *out);
/* An identifier or a quoted string; *found tells. Quoted names must not hold a NUL byte. */
pl_status pl_lex_name(pl_lex *lex, pl_string *out, bool *found);

/* inf, infinity, nan in any case, as a whole word. */
bool pl_lex_word_is_float(pl_string word);
pl_status pl_lex_number_read(pl_lex *lex, pl_lex_number *out);
pl_status pl_lex_number_i64(pl_lex *lex, const pl_lex_number *number, int64_t *out);
pl_status pl_lex_number_u64(pl_lex *lex, const pl_lex_number *number, uint64_t *out);
pl_status pl_lex_number_f32(pl_lex *lex, const pl_lex_number *number, float *out);
pl_status pl_lex_number_f64(pl_lex *lex, const pl_lex_number *number, double *out);

/* Skips one balanced group that opens with ( [ { or <; knows strings and comments. */
pl_status pl_lex_skip_group(pl_lex *lex);

#endif
