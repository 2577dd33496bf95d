/* The formats of sessions: one file format_NAME.c and one row in formats.def each; and what they
 * share. */
#ifndef PL_FORMAT_H
#define PL_FORMAT_H

#include "session/session.h"

typedef struct pl_session_view {
    const pl_session *session;
    const char *metric; /* name */
    const char *unit;   /* "dB", "" */
    const size_t *order;
    size_t n_rows; /* of the table: limit applied */
    const plumb_style *style;
} pl_session_view;
#define PL_FORMAT(name, x) void pl_format_##x(const pl_session_view *view, pl_buf *out);
#include "report/formats.def"
#undef PL_FORMAT

/* The headline: "DIVERGED at y: reason". Control characters are replaced. */
void pl_session_put_headline(const pl_session *session, pl_buf *out);
/* "outputs compared 1 of 1; values verified 8, unverified 0, unpaired 0": the basis of the
 * verdict. */
void pl_session_put_coverage_text(const pl_session *session, pl_buf *out);
/* "12 values: 10 within, 2 culprit", a line. */
void pl_session_put_counts(const pl_session *session, pl_buf *out);
/* "file.py:12" into its parts; false when there is no line. */
bool pl_session_split_source(const char *source, size_t *n_file, long *line);

/* The reason beside the verdict; "" = none. */
const char *pl_sync_point_reason(const pl_sync_point *p);
const char *pl_sync_point_reason_or_verdict(const pl_sync_point *p); /* never "" */
bool pl_sync_point_is_skipped(const pl_sync_point *p);               /* not compared */
const char *pl_colour_letter(pl_colour c);                           /* "G", "Y", "R", "-" */
/* A readable number, "-" for NAN; near 1 with the digits of the distance from 1. */
void pl_metric_text(double x, char *out, size_t n_out);
const char *pl_digits_text(double x, int n_digits, char *out, size_t n_out);

#endif
