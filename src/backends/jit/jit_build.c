/* Compiling the C text with the system's compiler, and keeping what came of it by content. */
#include <stdio.h>
#include <string.h>

#include "backends/jit/jit_int.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/process.h"

/* The first line of a compiler's log that says what is wrong. */
static void first_error(const pl_buf *log, char *out, size_t n_out) {
    const char *text = pl_buf_str(log), *at = strstr(text, "error");
    if (at == NULL) at = text;
    while (at > text && at[-1] != '\n')
        at--;
    const size_t n = strcspn(at, "\n");
    snprintf(out, n_out, "%.*s", (int)(n < n_out ? n : n_out - 1), at);
}

pl_status jit_build_fails(const jit_program *p, const pl_node *node, pl_err *err) {
    (void)p;
    char text[600], line[300];
    pl_process_result result = { 0 };
    pl_buf source = PL_BUF_INIT;
    char *dir = NULL, *path = NULL;
    pl_status st = PL_OK;
    pl_buf_puts(&source, "#error planted fault: compile-error\n");
    PL_TRY_GOTO(done, st, pl_dir_temporary(&dir, err));
    path = pl_path_join(dir, "model.c");
    if (path == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_file_write(path, source.data, source.n_bytes, err));
    const char *const argv[] = { "cc", "-fsyntax-only", "model.c", NULL };
    const pl_process_options options = { .dir = dir };
    PL_TRY_GOTO(done, st, pl_process_run(argv, &options, &result, err));
    first_error(&result.err, line, sizeof(line));
    st = pl_fail(err, PL_E_BACKEND, "%s: compile error: %s",
                 pl_node_describe(node, text, sizeof(text)), line);
done:
    if (dir != NULL) pl_dir_remove(dir, NULL);
    pl_free(dir);
    pl_free(path);
    pl_buf_release(&source);
    pl_process_result_release(&result);
    return st;
}
