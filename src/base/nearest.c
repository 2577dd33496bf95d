#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

enum { WORD_MAX = 96, LIST_MAX = 12, LETTERS_MAX = 200 };

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Edit distance with insertions, deletions, replacements and swaps of neighbours; words up to
 * WORD_MAX letters. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t k = 0; k <= m; k++) {
        before[k] = 0;
        last[k] = k;
    }
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            const bool same = lower(a[i - 1]) == lower(b[k - 1]);
            size_t best = last[k - 1] + !same;
            if (last[k] + 1 < best) best = last[k] + 1;
            if (row[k - 1] + 1 < best) best = row[k - 1] + 1;
            if (i > 1 && k > 1 && lower(a[i - 1]) == lower(b[k - 2]) &&
                lower(a[i - 2]) == lower(b[k - 1]) && before[k - 2] + 1 < best)
                best = before[k - 2] + 1;
            row[k] = best;
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[m];
}

const char *pl_nearest(const char *word, size_t n_word, pl_name_at at, const void *ctx) {
    const char *best = NULL, *name;
    size_t least = SIZE_MAX;
    if (n_word > WORD_MAX) return NULL;
    for (size_t i = 0; (name = at(ctx, i)) != NULL; i++) {
        const size_t m = strlen(name);
        if (m == 0 || m > WORD_MAX) continue;
        const size_t d = distance(word, n_word, name, m);
        const size_t longer = m > n_word ? m : n_word;
        if (d > (longer <= 3 ? 1 : (longer + 1) / 3) || d >= longer || d >= least) continue;
        least = d;
        best = name;
    }
    return best;
}

void pl_nearest_put(pl_buf *out, const char *word, size_t n_word, pl_name_at at, const void *ctx) {
    const char *near = pl_nearest(word, n_word, at, ctx), *name;
    size_t n = 0, n_letters = 0;
    for (; (name = at(ctx, n)) != NULL; n++)
        n_letters += strlen(name) + 2;
    if (near != NULL) pl_buf_printf(out, "; did you mean '%s'?", near);
    if (near != NULL && (n > LIST_MAX || n_letters > LETTERS_MAX)) {
        pl_buf_printf(out, " (one of %zu)", n);
        return;
    }
    for (size_t i = 0; i < n && i < LIST_MAX; i++) {
        const char *before = i > 0 ? ", " : near != NULL ? " available: " : "; available: ";
        pl_buf_printf(out, "%s%s", before, at(ctx, i));
    }
    if (n > LIST_MAX) pl_buf_printf(out, " and %zu more", n - LIST_MAX);
}

const char *pl_name_at_list(const void *ctx, size_t i) {
    const pl_name_list *list = ctx;
    return i < list->n ? list->names[i] : NULL;
}
