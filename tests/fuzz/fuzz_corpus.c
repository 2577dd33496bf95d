/* Fuzz target: the files of `plumb corpus`: journals, items.json, corpus.json and a baseline, and
 * everything that is printed from them. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/corpus/corpus_print.h"
#include "flows/corpus/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *root;
static char result[4200];

static void clean_up(void) {
    (void)pl_dir_remove(root, NULL);
    pl_free(root);
}

/* Without the syncs of pl_file_write. */
static void put(const uint8_t *data, size_t size) {
    if (root == NULL) {
        if (pl_dir_temporary(&root, NULL) != PL_OK) abort();
        (void)atexit(clean_up);
        snprintf(result, sizeof result, "%s/corpus.json", root);
    }
    FILE *f = fopen(result, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

static void read_journal(const char *text, size_t n) {
    pl_err err = PL_ERR_INIT;
    pl_journal_read read = { 0 };
    pl_arena *arena = pl_arena_new();
    if (arena != NULL && pl_journal_parse(text, n, "fuzz", arena, &read, &err) == PL_OK) {
        for (size_t i = 0; i < read.entries.n_entries; i++) {
            const pl_journal_entry *e = read.entries.entries[i].value;
            if (e->in_flight || e->key == NULL) __builtin_trap();
        }
    }
    pl_journal_read_release(&read);
    pl_arena_free(arena);
}

static void read_items(const char *text, size_t n) {
    pl_err err = PL_ERR_INIT;
    pl_corpus_list list;
    if (pl_corpus_list_parse(text, n, &list, &err) == PL_OK) pl_corpus_list_release(&list);
}

static void read_result(void) {
    static const char *const formats[] = { "text", "json", "junit", "sarif", "html" };
    pl_err err = PL_ERR_INIT;
    pl_corpus *c = NULL;
    if (pl_corpus_open(root, &c, &err) != PL_OK) return;
    (void)pl_corpus_apply_baseline(c, root, &err);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        pl_buf text = PL_BUF_INIT;
        (void)pl_corpus_print(c, formats[i], &text, &err);
        pl_buf_release(&text);
    }
    pl_buf page = PL_BUF_INIT;
    pl_corpus_put_page(c, "token", &page);
    pl_buf_release(&page);
    (void)pl_corpus_exit_code(c);
    pl_corpus_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_journal((const char *)data, size);
    read_items((const char *)data, size);
    put(data, size);
    read_result();
    return 0;
}
