/* Untrusted text in plumb's output: one table of contexts, and no other place that escapes.
 *
 * Names, messages and paths come from models, sessions and repros. Code that writes one into a
 * page, a table, a script or a terminal names the context here and adds no quotes of its own. */
#ifndef PL_ESCAPE_H
#define PL_ESCAPE_H

#include "base/buf.h"

typedef enum pl_escape {
    PL_ESCAPE_LINE,       /* one line of a terminal or log: control characters become '?' */
    PL_ESCAPE_JSON,       /* a JSON string with its quotes (RFC 8259) */
    PL_ESCAPE_SCRIPT,     /* JSON that is already written, inside an HTML script element */
    PL_ESCAPE_HTML,       /* HTML text, or an attribute in quotes */
    PL_ESCAPE_XML,        /* XML 1.0 text, or an attribute in quotes */
    PL_ESCAPE_CSV,        /* a field of RFC 4180; a formula gets a ' in front */
    PL_ESCAPE_MARKDOWN,   /* running text or a table cell without markup */
    PL_ESCAPE_MD_CODE,    /* a code span with its backticks */
    PL_ESCAPE_MD_BLOCK,   /* lines of an indented code block, with line ends */
    PL_ESCAPE_SHELL,      /* one word for sh, in single quotes */
    PL_ESCAPE_PYTHON,     /* a string literal with its quotes */
    PL_ESCAPE_JAVASCRIPT, /* a string literal with its quotes */
    PL_ESCAPE_C,          /* a string literal with its quotes: every byte of it */
    PL_ESCAPE_GITHUB,     /* the message of a workflow command */
    PL_ESCAPE_GITHUB_KEY, /* the value of a property of a workflow command */
    PL_ESCAPE_URL,        /* a path as a reference of RFC 3986 */
    PL_ESCAPE_COUNT
} pl_escape;

const char *pl_escape_name(pl_escape context); /* for tests and messages */

void pl_escape_put(pl_buf *out, pl_escape context, const char *s);
void pl_escape_put_n(pl_buf *out, pl_escape context, const char *s, size_t n);
/* Ends a line of text appended since `at`: line breaks inside it are replaced. */
void pl_escape_end_line(pl_buf *out, size_t at);

#endif
