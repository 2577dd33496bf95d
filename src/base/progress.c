/* The progress bar: `phase  [#####-----]  42 %  3.1 s left`, one line, redrawn in place. The phase
 * may quote a name from a model, so it is cleaned; the line never gets wider than the terminal. */
#include "base/progress.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"

enum {
    BAR_CELLS = 20,
    PHASE_MAX = 160, /* bytes */
    LINE_MAX_BYTES = 512,
    COLUMNS_DEFAULT = 80,
};
static const int64_t redraw_ns = 100000000;

struct pl_progress_bar {
    int fd;
    bool terminal;
    bool drawn; /* there is a line to clear */
    int64_t drawn_ns;
    int64_t phase_ns;      /* when the phase began */
    int64_t phase_done;    /* what was done already when it began */
    char given[PHASE_MAX]; /* the phase as the caller said it, to see that it changed */
    char phase[PHASE_MAX]; /* as drawn */
};

void pl_progress_update(const pl_progress *progress, const char *phase, int64_t done,
                        int64_t total) {
    if (progress == NULL || progress->update == NULL) return;
    progress->update(progress->ctx, phase == NULL ? "" : phase, done, total);
}

pl_progress_bar *pl_progress_bar_new(int fd) {
    pl_progress_bar *bar = pl_calloc(1, sizeof *bar);
    if (bar == NULL) return NULL;
    bar->fd = fd;
    bar->terminal = isatty(fd) == 1;
    return bar;
}

void pl_progress_bar_free(pl_progress_bar *bar) {
    if (bar == NULL) return;
    pl_progress_bar_clear(bar);
    pl_free(bar);
}

/* A terminal that takes nothing loses the line; that is no reason to fail. */
static void write_line(int fd, const char *text, size_t n) {
    while (n > 0) {
        const ssize_t wrote = write(fd, text, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return;
        text += wrote;
        n -= (size_t)wrote;
    }
}

void pl_progress_bar_clear(pl_progress_bar *bar) {
    if (!bar->drawn) return;
    write_line(bar->fd, "\r\x1b[K", 4);
    bar->drawn = false;
}

static size_t columns_of(int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return COLUMNS_DEFAULT;
    return size.ws_col;
}

static void time_left_text(char *out, size_t n, double seconds) {
    if (seconds < 60) {
        snprintf(out, n, "  %.1f s left", seconds);
    } else if (seconds < 3600) {
        const int s = (int)seconds;
        snprintf(out, n, "  %d min %02d s left", s / 60, s % 60);
    } else if (seconds < 100.0 * 3600) {
        const int minutes = (int)(seconds / 60);
        snprintf(out, n, "  %d h %02d min left", minutes / 60, minutes % 60);
    } else {
        snprintf(out, n, "  days left");
    }
}

static void line_format(char out[LINE_MAX_BYTES], const pl_progress_bar *bar, int64_t done,
                        int64_t total, int64_t now) {
    if (total <= 0) {
        char count[24] = ""; /* begun, and nothing to count yet */
        if (done > 0) snprintf(count, sizeof count, "  %lld", (long long)done);
        snprintf(out, LINE_MAX_BYTES, "%s%s", bar->phase, count);
        return;
    }
    if (done < 0) done = 0;
    if (done > total) done = total;
    const double fraction = (double)done / (double)total;
    const int n_full = (int)(fraction * BAR_CELLS);
    char cells[BAR_CELLS + 1];
    for (int i = 0; i < BAR_CELLS; i++)
        cells[i] = i < n_full ? '#' : '-';
    cells[BAR_CELLS] = '\0';
    char left[64] = "";
    const int64_t n_new = done - bar->phase_done;
    if (n_new > 0 && done < total) {
        const double spent = (double)(now - bar->phase_ns) * 1e-9;
        time_left_text(left, sizeof left, spent * (double)(total - done) / (double)n_new);
    }
    snprintf(out, LINE_MAX_BYTES, "%s  [%s]  %d %%%s", bar->phase, cells, (int)(fraction * 100),
             left);
}

/* Cuts after `columns` characters; wide ones count as one, which at worst wraps a line. */
static void line_cut(char *line, size_t columns) {
    size_t at = 0;
    const size_t n = strlen(line);
    for (size_t i = 0; i < columns && at < n; i++) {
        const size_t step = pl_utf8_step(line + at, n - at);
        at += step == 0 ? 1 : step;
    }
    line[at] = '\0';
}

static void draw(pl_progress_bar *bar, int64_t done, int64_t total, int64_t now) {
    char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES + 8];
    line_format(line, bar, done, total, now);
    line_cut(line, columns_of(bar->fd) - 1);
    const int n = snprintf(text, sizeof text, "\r%s\x1b[K", line);
    write_line(bar->fd, text, (size_t)n);
    bar->drawn = true;
    bar->drawn_ns = now;
}

static void phase_set(pl_progress_bar *bar, const char *phase, int64_t done, int64_t now) {
    const size_t n = pl_utf8_cut(phase, strlen(phase), sizeof bar->phase - 1);
    memcpy(bar->given, phase, n);
    bar->given[n] = '\0';
    memcpy(bar->phase, bar->given, n + 1);
    pl_utf8_clean(bar->phase);
    bar->phase_ns = now;
    bar->phase_done = done;
}

static bool phase_changed(const pl_progress_bar *bar, const char *phase) {
    const size_t n = pl_utf8_cut(phase, strlen(phase), sizeof bar->given - 1);
    return strlen(bar->given) != n || memcmp(bar->given, phase, n) != 0;
}

static void bar_update(void *ctx, const char *phase, int64_t done, int64_t total) {
    pl_progress_bar *bar = ctx;
    if (!bar->terminal) return;
    const int64_t now = pl_clock_ns();
    if (bar->phase_ns == 0 || phase_changed(bar, phase)) phase_set(bar, phase, done, now);
    if (bar->drawn && now - bar->drawn_ns < redraw_ns) return;
    draw(bar, done, total, now);
}

pl_progress pl_progress_bar_callback(pl_progress_bar *bar) {
    return (pl_progress){ bar_update, bar };
}
