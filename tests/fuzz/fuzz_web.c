/* Fuzz target: what Chromium and its page say to the backend `web`: messages of the protocol that
 * end in NUL, the page's requests, metadata and bytes of tensors. web_browser.c is included, since
 * a browser that was not started can only be made from inside. */
#include <unistd.h>

#include "backends/web/web_browser.c"
#include "backends/web/web_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGES_MAX = 60000 }; /* below what a pipe holds */

static bool say(pl_web_browser *b, const uint8_t *data, size_t size) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    const bool ok = write(ends[1], data, size) == (ssize_t)size;
    close(ends[1]);
    b->from = ends[0];
    return ok;
}

static void run_model(pl_web_browser *b) {
    static const char *const names[] = { "y", "z" };
    pl_web web = { .version = "1.27.0", .browser = b };
    pl_web_program p = { .web = &web };
    const plumb_run_args args = { .n_in = 0 };
    pl_datum *values[2] = { NULL, NULL };
    pl_err err = PL_ERR_INIT;
    (void)pl_web_run(&p, 0, &args, names, 2, values, &err);
    pl_datum_unref(values[0]);
    pl_datum_unref(values[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int nowhere = -1;
    static const uint8_t blob[10] = { 0 };
    const pl_web_blob blobs[] = { { blob, sizeof blob } };
    pl_err err = PL_ERR_INIT;
    if (size > MESSAGES_MAX) return 0;
    if (nowhere < 0) nowhere = open("/dev/null", O_WRONLY);
    for (int what = 0; what < 2; what++) {
        pl_web_browser b = { .to = nowhere, .from = -1, .folder = "/nonexistent" };
        if (!say(&b, data, size)) continue;
        pl_buf answer = PL_BUF_INIT;
        if (what == 0) {
            run_model(&b);
        } else {
            (void)pl_web_browser_call(&b, "plumb", blobs, 1, &answer, &err);
        }
        pl_buf_release(&answer);
        pl_buf_release(&b.in);
        close(b.from);
    }
    return 0;
}
