/* A headless Chromium of our own, driven over two pipes (--remote-debugging-pipe): no port and no
 * network. The page's requests are answered from memory. */
#ifndef PL_WEB_BROWSER_H
#define PL_WEB_BROWSER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/json_read.h"
#include "base/status.h"

/* Bytes that the page may fetch as /blob/INDEX/PART. */
typedef struct pl_web_blob {
    const void *data;
    size_t n_bytes;
} pl_web_blob;

enum { PL_WEB_PART_BYTES = 8 << 20 };

typedef struct pl_web_browser pl_web_browser;

/* Starts `program` with a new profile folder and opens the page. `folder` has onnxruntime-web. */
pl_status pl_web_browser_start(const char *program, const char *folder, bool gpu,
                               pl_web_browser **out, pl_err *err);
/* Ends the browser and removes its profile folder. NULL is fine. */
void pl_web_browser_stop(pl_web_browser *b);
/* False once it has ended or its page has crashed. */
bool pl_web_browser_alive(pl_web_browser *b);
/* True once the page has thrown something other than an error of ONNX Runtime: WebAssembly that
 * aborted or ran out of memory is not to be trusted with another model. */
bool pl_web_browser_spoilt(const pl_web_browser *b);
/* Evaluates an expression, waits for its promise and copies the string that it gives. While it
 * runs, the page may fetch the blobs. An exception of the page is PL_E_BACKEND with its text. */
pl_status pl_web_browser_call(pl_web_browser *b, const char *expression, const pl_web_blob *blobs,
                              size_t n_blobs, pl_buf *out, pl_err *err);

/* Base64; false if the text is not exactly n_out bytes. */
bool pl_web_decode(const char *text, size_t n_text, uint8_t *out, size_t n_out);

extern const char *const pl_web_page[]; /* web_page.c: parts of the page's script, then NULL */

#endif
