/* One way to fail: every fallible function returns a pl_status and takes `pl_err *err` last.
 *
 * The status says what class of trouble it is (the CLI turns it into an exit code); the message is
 * for a person and names the file, node and value, what was found and what was expected. `err` may
 * be NULL when the caller only wants the status. The first failure wins: wrapping adds context in
 * front, it never replaces what was said. */
#ifndef PL_STATUS_H
#define PL_STATUS_H

#include <plumb.h>
#include <stdarg.h>
#include <stddef.h>

/* X(code, exit code of the CLI, text) */
#define PL_STATUS_MAP(X)                                                                           \
    X(OK, 0, "ok")                                                                                 \
    X(E_USAGE, 2, "bad usage")                                                                     \
    X(E_FORMAT, 2, "malformed input")                                                              \
    X(E_INVALID, 2, "invalid model or value")                                                      \
    X(E_UNSUPPORTED, 2, "unsupported")                                                             \
    X(E_NOT_FOUND, 2, "not found")                                                                 \
    X(E_EXISTS, 2, "already exists")                                                               \
    X(E_LIMIT, 2, "limit exceeded")                                                                \
    X(E_BACKEND, 3, "backend failed")                                                              \
    X(E_TIMEOUT, 3, "timed out")                                                                   \
    X(E_IO, 4, "input/output error")                                                               \
    X(E_MEMORY, 4, "out of memory")                                                                \
    X(E_INTERNAL, 4, "internal error")                                                             \
    X(E_CANCELLED, 130, "cancelled")

/* The library's names for the public type; no conversion is needed. */
typedef plumb_status pl_status;
typedef plumb_error pl_err;
#define PL_OK PLUMB_OK
#define PL_E_USAGE PLUMB_E_USAGE
#define PL_E_FORMAT PLUMB_E_FORMAT
#define PL_E_INVALID PLUMB_E_INVALID
#define PL_E_UNSUPPORTED PLUMB_E_UNSUPPORTED
#define PL_E_NOT_FOUND PLUMB_E_NOT_FOUND
#define PL_E_EXISTS PLUMB_E_EXISTS
#define PL_E_LIMIT PLUMB_E_LIMIT
#define PL_E_BACKEND PLUMB_E_BACKEND
#define PL_E_TIMEOUT PLUMB_E_TIMEOUT
#define PL_E_IO PLUMB_E_IO
#define PL_E_MEMORY PLUMB_E_MEMORY
#define PL_E_INTERNAL PLUMB_E_INTERNAL
#define PL_E_CANCELLED PLUMB_E_CANCELLED
enum { PL_STATUS_COUNT = PLUMB_E_CANCELLED + 1 };

enum { PL_ERR_MESSAGE_MAX = sizeof(((plumb_error *)0)->message) };

#define PL_ERR_INIT                                                                                \
    { .status = PLUMB_OK }

const char *pl_status_name(pl_status status);
const char *pl_status_text(pl_status status);
int pl_status_exit_code(pl_status status);

/* Sets *err (when given) and returns `status`, so that `return pl_fail(...)` is the idiom.
 * Control characters from untrusted names are replaced, so that a message stays one line. */
pl_status pl_fail(pl_err *err, pl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
pl_status pl_vfail(pl_err *err, pl_status status, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Puts "context: " before the message on the way up; returns err->status (or `status`). */
pl_status pl_err_wrap(pl_err *err, pl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The idiomatic out-of-memory result. */
pl_status pl_fail_memory(pl_err *err, size_t n_bytes);

#define PL_TRY(expr)                                                                               \
    do {                                                                                           \
        const pl_status pl_try_status_ = (expr);                                                   \
        if (pl_try_status_ != PL_OK) return pl_try_status_;                                        \
    } while (0)

#define PL_TRY_GOTO(label, st, expr)                                                               \
    do {                                                                                           \
        (st) = (expr);                                                                             \
        if ((st) != PL_OK) goto label;                                                             \
    } while (0)

#endif
