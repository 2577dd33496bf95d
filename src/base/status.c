/* Statuses and error messages. Messages are cleaned here, once, because they quote names from
 * untrusted models and end on a terminal or in a one-line report. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Limit for added context, so that the cause stays readable. */
enum { CONTEXT_MAX = 384 };

static const struct {
    const char *name, *text;
    int exit_code;
} statuses[PL_STATUS_COUNT] = {
#define X(code, exit_code, text) { "PL_" #code, text, exit_code },
    PL_STATUS_MAP(X)
#undef X
};

static pl_status status_known(pl_status status) {
    return (unsigned)status < (unsigned)PL_STATUS_COUNT ? status : PL_E_INTERNAL;
}

const char *pl_status_name(pl_status status) {
    return statuses[status_known(status)].name;
}

const char *pl_status_text(pl_status status) {
    return statuses[status_known(status)].text;
}

int pl_status_exit_code(pl_status status) {
    return statuses[status_known(status)].exit_code;
}

/* Marks text that filled `out` (size bytes) as truncated, at a character boundary. */
static void text_mark_cut(char *out, size_t size) {
    const size_t end = pl_utf8_cut(out, size - 1, size - 4);
    out[end] = '\0';
    pl_utf8_clean(out);
    memcpy(out + strlen(out), "...", 4);
}

__attribute__((format(printf, 3, 0))) static void text_format(char *out, size_t size,
                                                              const char *format, va_list args) {
    const int n = vsnprintf(out, size, format, args);
    if (n < 0) {
        snprintf(out, size, "%s", "(message could not be formatted)");
    } else if ((size_t)n >= size) {
        text_mark_cut(out, size);
    } else {
        pl_utf8_clean(out);
    }
}

pl_status pl_vfail(pl_err *err, pl_status status, const char *format, va_list args) {
    if (err != NULL) {
        char text[PL_ERR_MESSAGE_MAX]; /* the arguments may point into err->message */
        text_format(text, sizeof text, format, args);
        memcpy(err->message, text, strlen(text) + 1);
        err->status = status;
    }
    return status;
}

pl_status pl_fail(pl_err *err, pl_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pl_vfail(err, status, format, args);
    va_end(args);
    return status;
}

pl_status pl_err_wrap(pl_err *err, pl_status status, const char *format, ...) {
    if (err == NULL) return status;
    if (err->status == PL_OK) { /* no message yet: name the class at least */
        err->status = status;
        snprintf(err->message, sizeof err->message, "%s", pl_status_text(status));
    }
    char context[CONTEXT_MAX];
    va_list args;
    va_start(args, format);
    text_format(context, sizeof context, format, args);
    va_end(args);

    char cause[PL_ERR_MESSAGE_MAX];
    memcpy(cause, err->message, sizeof cause);
    cause[sizeof cause - 1] = '\0';
    const int n = snprintf(err->message, sizeof err->message, "%s: %s", context, cause);
    if (n >= (int)sizeof err->message) text_mark_cut(err->message, sizeof err->message);
    return err->status;
}

pl_status pl_fail_memory(pl_err *err, size_t n_bytes) {
    if (n_bytes == 0) return pl_fail(err, PL_E_MEMORY, "out of memory");
    return pl_fail(err, PL_E_MEMORY, "out of memory (requested %zu bytes)", n_bytes);
}
