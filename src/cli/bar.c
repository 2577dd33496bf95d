/* The progress bar: `phase  [#####-----]  42 %  3.1 s left`, one line, redrawn in place; or lines
 * for a parent program; without a terminal, a line now and then. The line never gets wider
 * than the terminal. */
#include "cli/bar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/args.h"

enum {
    BAR_CELLS = 20,
    PHASE_MAX = 160, /* bytes */
    LINE_MAX_BYTES = 512,
    COLUMNS_DEFAULT = 80,
};
static const int64_t redraw_ns = 100000000;
/* Without a terminal, a line now and then shows that plumb is still running. */
static const int64_t say_ns = INT64_C(30000000000);

struct pl_bar {
    int fd;
    bool terminal;
    bool drawn; /* there is a line to clear */
    int64_t drawn_ns;
    int64_t phase_ns;                  /* when the phase began */
    int64_t phase_done;                /* progress when it began */
    int64_t began_ns, said_ns, say_ns; /* without a terminal: first report, last line, interval */
    char phase[PHASE_MAX];
};

static int64_t clock_ns(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

pl_bar *pl_bar_new(int fd) {
    pl_bar *bar = calloc(1, sizeof *bar);
    if (bar == NULL) return NULL;
    bar->fd = fd;
    bar->terminal = isatty(fd) == 1;
    bar->say_ns = say_ns;
    return bar;
}

void pl_bar_free(pl_bar *bar) {
    if (bar == NULL) return;
    pl_bar_clear(bar);
    free(bar);
}

/* If the terminal accepts nothing, the line is lost: not an error. */
static void write_line(int fd, const char *text, size_t n) {
    while (n > 0) {
        const ssize_t wrote = write(fd, text, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return;
        text += wrote;
        n -= (size_t)wrote;
    }
}

void pl_bar_clear(pl_bar *bar) {
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

static void line_format(char out[LINE_MAX_BYTES], const pl_bar *bar, int64_t done, int64_t total,
                        int64_t now) {
    if (total <= 0) {
        char count[24] = ""; /* started, nothing to count yet */
        if (done > 0) snprintf(count, sizeof count, "  %lld", (long long)done);
        snprintf(out, LINE_MAX_BYTES, "%s%s", bar->phase, count);
        return;
    }
    if (done < 0) done = 0;
    if (done > total) done = total;
    const double fraction = (double)done / (double)total;
    const int n_full = (int)(fraction * (double)BAR_CELLS);
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
    size_t at = 0, n = 0;
    for (; line[at] != '\0'; at++) {
        if (((unsigned char)line[at] & 0xc0) == 0x80) continue; /* inside a character */
        if (n++ == columns) break;
    }
    line[at] = '\0';
}

static void draw(pl_bar *bar, int64_t done, int64_t total, int64_t now) {
    char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES + 8];
    line_format(line, bar, done, total, now);
    line_cut(line, columns_of(bar->fd) - 1);
    const int n = snprintf(text, sizeof text, "\r%s\x1b[K", line);
    write_line(bar->fd, text, (size_t)n);
    bar->drawn = true;
    bar->drawn_ns = now;
}

/* Phases have no control characters (plumb.h). Truncation may split the last character, which the
 * terminal shows as one. */
static void phase_set(pl_bar *bar, const char *phase, int64_t done, int64_t now) {
    snprintf(bar->phase, sizeof bar->phase, "%s", phase);
    bar->phase_ns = now;
    bar->phase_done = done;
}

static bool phase_changed(const pl_bar *bar, const char *phase) {
    return strncmp(bar->phase, phase, sizeof bar->phase - 1) != 0;
}

static void say(pl_bar *bar, int64_t done, int64_t total, int64_t now) {
    char line[LINE_MAX_BYTES], text[LINE_MAX_BYTES + 32];
    if (bar->said_ns == 0) bar->said_ns = bar->began_ns = now;
    if (now - bar->said_ns < bar->say_ns) return;
    line_format(line, bar, done, total, now);
    const int n = snprintf(text, sizeof text, "%s  (%lld s so far)\n", line,
                           (long long)((now - bar->began_ns) / 1000000000));
    write_line(bar->fd, text, (size_t)n);
    bar->said_ns = now;
}

static int bar_update(void *ctx, const char *phase, int64_t done, int64_t total) {
    pl_bar *bar = ctx;
    const int64_t now = clock_ns();
    if (bar->phase_ns == 0 || phase_changed(bar, phase)) phase_set(bar, phase, done, now);
    if (!bar->terminal) {
        say(bar, done, total, now);
        return 0;
    }
    if (bar->drawn && now - bar->drawn_ns < redraw_ns) return 0;
    draw(bar, done, total, now);
    return 0;
}

plumb_progress pl_bar_callback(pl_bar *bar) {
    return (plumb_progress){ bar_update, bar };
}

/* ---- of a command ---- */

struct pl_cli_bar {
    pl_bar *bar;    /* NULL = lines */
    char last[128]; /* phase of the last line */
    int64_t last_ms;
};

/* PLUMB_PROGRESS=lines: for a parent program, such as the debugger's server. At most one line per
 * 50 ms and phase. */
static int print_progress(void *ctx, const char *phase, int64_t done, int64_t total) {
    pl_cli_bar *b = ctx;
    const int64_t ms = clock_ns() / 1000000;
    if (strncmp(b->last, phase, sizeof b->last - 1) == 0 && ms - b->last_ms < 50) return 0;
    (void)snprintf(b->last, sizeof b->last, "%s", phase);
    b->last_ms = ms;
    fprintf(stderr, "\x1e%s\t%lld\t%lld\n", b->last, (long long)done, (long long)total);
    return 0;
}

pl_cli_bar *pl_cli_bar_new(plumb_progress *progress) {
    pl_cli_bar *b = calloc(1, sizeof(*b));
    *progress = (plumb_progress){ NULL, NULL };
    if (b == NULL) return NULL;
    const char *lines = getenv("PLUMB_PROGRESS");
    if (lines != NULL && strcmp(lines, "lines") == 0) {
        *progress = (plumb_progress){ print_progress, b };
        return b;
    }
    b->bar = pl_bar_new(STDERR_FILENO);
    if (b->bar == NULL) {
        free(b);
        return NULL;
    }
    *progress = pl_bar_callback(b->bar);
    return b;
}

/* Removes the line before other output. */
void pl_cli_bar_clear(const plumb_progress *progress) {
    if (progress != NULL && progress->update == bar_update) pl_bar_clear(progress->ctx);
}

void pl_cli_bar_free(pl_cli_bar *b) {
    if (b == NULL) return;
    if (b->bar == NULL) {
        free(b);
        return;
    }
    pl_bar_clear(b->bar);
    pl_bar_free(b->bar);
    free(b);
}
