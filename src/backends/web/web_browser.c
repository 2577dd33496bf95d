/* Chromium and its debugging protocol: JSON messages that end in NUL, to its descriptor 3 and from
 * its descriptor 4. The page is https://plumb.invalid/, which no request ever leaves for: each is
 * answered by Fetch.fulfillRequest. The headers make it cross-origin isolated, as threads of
 * WebAssembly require. */
#include "backends/web/web_browser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define ORIGIN "https://plumb.invalid/"

enum { ABOVE = 10, READ_BYTES = 64 << 10, STOP_MS = 2000, STEP_MS = 10 };

struct pl_web_browser {
    pid_t pid;
    int to, from; /* pipes */
    char *profile;
    const char *folder; /* of onnxruntime-web; borrowed */
    char session[80];   /* of the page, in the protocol */
    int64_t last_id;
    pl_buf in; /* bytes that were read; the first n_used are done */
    size_t n_used;
    const pl_web_blob *blobs;
    size_t n_blobs;
    bool crashed, spoilt;
};

/* ---- base64 ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(pl_buf *out, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t b = i + 1 < n ? p[i + 1] : 0, c = i + 2 < n ? p[i + 2] : 0;
        const uint32_t v = (uint32_t)p[i] << 16 | b << 8 | c;
        const char four[4] = { digits[v >> 18], digits[v >> 12 & 63],
                               i + 1 < n ? digits[v >> 6 & 63] : '=',
                               i + 2 < n ? digits[v & 63] : '=' };
        pl_buf_append(out, four, sizeof(four));
    }
}

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool pl_web_decode(const char *text, size_t n_text, uint8_t *out, size_t n_out) {
    uint32_t held = 0;
    int n_bits = 0;
    size_t n = 0;
    while (n_text > 0 && text[n_text - 1] == '=')
        n_text--;
    for (size_t i = 0; i < n_text; i++) {
        const int d = digit_of(text[i]);
        if (d < 0) return false;
        held = held << 6 | (uint32_t)d;
        n_bits += 6;
        if (n_bits < 8) continue;
        n_bits -= 8;
        if (n == n_out) return false;
        out[n++] = (uint8_t)(held >> n_bits);
    }
    return n == n_out;
}

/* ---- the process ---- */

/* Above the descriptors 3 and 4 that Chromium gets. */
static bool open_pipe(int ends[2]) {
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, ABOVE);
        close(low[i]);
    }
    return ends[0] >= 0 && ends[1] >= 0;
}

static void close_end(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static int spawn(const char *const *argv, int commands, int answers, pid_t *pid) {
    posix_spawn_file_actions_t a;
    int error = posix_spawn_file_actions_init(&a);
    if (error != 0) return error;
    for (int fd = 0; fd < 3 && error == 0; fd++)
        error = posix_spawn_file_actions_addopen(&a, fd, "/dev/null", O_RDWR, 0);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&a, commands, 3);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&a, answers, 4);
    if (error == 0)
        error = posix_spawn(pid, argv[0], &a, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&a);
    return error;
}

static pl_status start_process(pl_web_browser *b, const char *program, bool gpu, pl_err *err) {
    int commands[2] = { -1, -1 }, answers[2] = { -1, -1 };
    char profile[600];
    snprintf(profile, sizeof(profile), "--user-data-dir=%s", b->profile);
    const char *argv[32] = { program,
                             "--headless",
                             "--no-sandbox",
                             "--no-zygote",
                             "--remote-debugging-pipe",
                             "--disable-quic",
                             "--no-first-run",
                             "--disable-background-networking",
                             "--disable-component-update",
                             "--disable-sync",
                             "--disable-extensions",
                             "--disable-breakpad",
                             "--disable-dev-shm-usage",
                             "--mute-audio",
                             "--no-proxy-server",
                             profile };
    size_t n = 16;
    if (gpu) {
        argv[n++] = "--enable-unsafe-webgpu";
        argv[n++] = "--use-webgpu-adapter=swiftshader";
        argv[n++] = "--enable-features=Vulkan";
    } else {
        argv[n++] = "--disable-gpu";
    }
    argv[n] = "about:blank";
    int error = open_pipe(commands) && open_pipe(answers) ? 0 : errno;
    if (error == 0) error = spawn(argv, commands[0], answers[1], &b->pid);
    close_end(&commands[0]);
    close_end(&answers[1]);
    b->to = commands[1];
    b->from = answers[0];
    return error == 0 ? PL_OK : pl_fail_errno(err, error, "start", program);
}

static pl_status say_ended(pl_web_browser *b, pl_err *err) {
    int status = 0;
    const bool known = b->pid > 0 && waitpid(b->pid, &status, 0) == b->pid;
    b->pid = 0;
    if (known && WIFSIGNALED(status))
        return pl_fail(err, PL_E_BACKEND, "the browser was killed by signal %d (%s)",
                       WTERMSIG(status), strsignal(WTERMSIG(status)));
    return pl_fail(err, PL_E_BACKEND, "the browser ended with code %d",
                   known && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* A browser whose pipe closes ends by itself; one that does not is killed. */
static void end_process(pl_web_browser *b) {
    close_end(&b->to);
    close_end(&b->from);
    for (int ms = 0; b->pid > 0; ms += STEP_MS) {
        if (waitpid(b->pid, NULL, WNOHANG) != 0) {
            b->pid = 0;
        } else if (ms >= STOP_MS) {
            kill(b->pid, SIGKILL);
            waitpid(b->pid, NULL, 0);
            b->pid = 0;
        } else {
            usleep(STEP_MS * 1000);
        }
    }
}

/* ---- messages ---- */

static pl_status send_text(pl_web_browser *b, const pl_buf *text, pl_err *err) {
    if (!pl_buf_ok(text)) return pl_fail_memory(err, text->n_bytes);
    const size_t n_all = text->n_bytes + 1; /* with its NUL */
    const char *data = pl_buf_str(text);
    for (size_t at = 0; at < n_all;) {
        const ssize_t n = write(b->to, data + at, n_all - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return say_ended(b, err);
        at += (size_t)n;
    }
    return PL_OK;
}

/* The next message; valid until the next call. */
static pl_status receive(pl_web_browser *b, const char **text, size_t *n_text, pl_err *err) {
    size_t looked = 0;
    if (b->n_used > 0) {
        memmove(b->in.data, b->in.data + b->n_used, b->in.n_bytes - b->n_used);
        b->in.n_bytes -= b->n_used;
        b->n_used = 0;
    }
    for (;;) {
        const char *end = b->in.n_bytes > looked
                              ? memchr(b->in.data + looked, '\0', b->in.n_bytes - looked)
                              : NULL;
        if (end != NULL) {
            *text = (const char *)b->in.data;
            *n_text = (size_t)(end - (const char *)b->in.data);
            b->n_used = *n_text + 1;
            return PL_OK;
        }
        char chunk[READ_BYTES];
        looked = b->in.n_bytes;
        const ssize_t n = read(b->from, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return say_ended(b, err);
        pl_buf_append(&b->in, chunk, (size_t)n);
        if (!pl_buf_ok(&b->in)) return pl_fail_memory(err, looked);
    }
}

static const char *text_at(const pl_json_value *object, const char *key) {
    const pl_json_value *v = pl_json_find(object, key);
    return v != NULL && v->kind == PL_JSON_STRING ? v->string : "";
}

static void begin_call(pl_web_browser *b, pl_json *json, pl_buf *buf, const char *method) {
    pl_json_init(json, buf, false);
    pl_json_object_begin(json);
    pl_json_put_int(json, "id", ++b->last_id);
    pl_json_put_string(json, "method", method);
    if (b->session[0] != '\0') pl_json_put_string(json, "sessionId", b->session);
    pl_json_key(json, "params");
    pl_json_object_begin(json);
}

static pl_status end_call(pl_web_browser *b, pl_json *json, pl_err *err) {
    pl_json_object_end(json);
    pl_json_object_end(json);
    const pl_status st = send_text(b, json->buf, err);
    pl_buf_release(json->buf);
    return st;
}

/* ---- requests of the page ---- */

static void put_header(pl_json *json, const char *name, const char *value) {
    pl_json_object_begin(json);
    pl_json_put_string(json, "name", name);
    pl_json_put_string(json, "value", value);
    pl_json_object_end(json);
}

static const char *type_of(const char *path) {
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".mjs") == 0) return "text/javascript";
    if (dot != NULL && strcmp(dot, ".wasm") == 0) return "application/wasm";
    return path[0] == '\0' ? "text/html" : "application/octet-stream";
}

static pl_status fulfil(pl_web_browser *b, const char *request, const char *path, int code,
                        const void *data, size_t n, pl_err *err) {
    pl_buf buf = PL_BUF_INIT, body = PL_BUF_INIT;
    pl_json json;
    begin_call(b, &json, &buf, "Fetch.fulfillRequest");
    pl_json_put_string(&json, "requestId", request);
    pl_json_put_int(&json, "responseCode", code);
    pl_json_key(&json, "responseHeaders");
    pl_json_array_begin(&json);
    put_header(&json, "Content-Type", type_of(path));
    put_header(&json, "Cross-Origin-Opener-Policy", "same-origin");
    put_header(&json, "Cross-Origin-Embedder-Policy", "require-corp");
    put_header(&json, "Cross-Origin-Resource-Policy", "same-origin");
    pl_json_array_end(&json);
    put_base64(&body, data, n);
    if (!pl_buf_ok(&body)) buf.failed = true;
    pl_json_key(&json, "body");
    pl_json_string_n(&json, pl_buf_str(&body), body.n_bytes);
    pl_buf_release(&body);
    return end_call(b, &json, err);
}

/* A file of onnxruntime-web: a plain name, which cannot lead out of the folder. */
static pl_status serve_file(pl_web_browser *b, const char *request, const char *name, pl_err *err) {
    pl_file_map *map = NULL;
    char path[800];
    const size_t n_plain = strspn(name, "abcdefghijklmnopqrstuvwxyz-.0123456789");
    const bool plain = name[n_plain] == '\0' && strstr(name, "..") == NULL;
    snprintf(path, sizeof(path), "%s/%s", b->folder, name);
    if (!plain || pl_file_map_open(path, &map, NULL) != PL_OK)
        return fulfil(b, request, name, 404, "", 0, err);
    const pl_status st = fulfil(b, request, name, 200, map->data, map->n_bytes, err);
    pl_file_map_unref(map);
    return st;
}

static pl_status serve_blob(pl_web_browser *b, const char *request, const char *rest, pl_err *err) {
    size_t index = 0, part = 0;
    if (sscanf(rest, "%zu/%zu", &index, &part) != 2 || index >= b->n_blobs ||
        part > b->blobs[index].n_bytes / PL_WEB_PART_BYTES)
        return fulfil(b, request, rest, 404, "", 0, err);
    const pl_web_blob *blob = &b->blobs[index];
    const size_t from = part * PL_WEB_PART_BYTES, left = blob->n_bytes - from;
    return fulfil(b, request, rest, 200, (const char *)blob->data + from,
                  left < PL_WEB_PART_BYTES ? left : PL_WEB_PART_BYTES, err);
}

static pl_status serve_script(pl_web_browser *b, const char *request, const char *path,
                              pl_err *err) {
    pl_buf script = PL_BUF_INIT;
    for (size_t i = 0; pl_web_page[i] != NULL; i++)
        pl_buf_puts(&script, pl_web_page[i]);
    const pl_status st = pl_buf_ok(&script)
                             ? fulfil(b, request, path, 200, script.data, script.n_bytes, err)
                             : pl_fail_memory(err, 1);
    pl_buf_release(&script);
    return st;
}

static pl_status serve(pl_web_browser *b, const pl_json_value *params, pl_err *err) {
    static const char page[] = "<!doctype html><title>plumb</title>"
                               "<script type=module src=/plumb.mjs></script>";
    const char *request = text_at(params, "requestId");
    const char *url = text_at(pl_json_find(params, "request"), "url");
    const size_t n = strlen(ORIGIN);
    if (strncmp(url, ORIGIN, n) != 0) return fulfil(b, request, "", 404, "", 0, err);
    const char *path = url + n;
    if (path[0] == '\0') return fulfil(b, request, path, 200, page, sizeof(page) - 1, err);
    if (strcmp(path, "plumb.mjs") == 0) return serve_script(b, request, path, err);
    if (strncmp(path, "ort/", 4) == 0) return serve_file(b, request, path + 4, err);
    if (strncmp(path, "blob/", 5) == 0) return serve_blob(b, request, path + 5, err);
    return fulfil(b, request, path, 404, "", 0, err);
}

/* ---- calls ---- */

static pl_status see_event(pl_web_browser *b, const pl_json_value *m, pl_err *err) {
    const char *method = text_at(m, "method");
    if (strcmp(method, "Fetch.requestPaused") == 0) return serve(b, pl_json_find(m, "params"), err);
    if (strcmp(method, "Inspector.targetCrashed") == 0 ||
        strcmp(method, "Target.targetCrashed") == 0) {
        b->crashed = true;
        return pl_fail(err, PL_E_BACKEND,
                       "the page crashed: its process ended or ran out of memory");
    }
    return PL_OK;
}

/* Waits for the answer to the call `id`, and answers requests meanwhile. The arena owns *out. */
static pl_status wait_for(pl_web_browser *b, int64_t id, pl_arena *arena, const pl_json_value **out,
                          pl_err *err) {
    for (;;) {
        const char *text = NULL;
        size_t n = 0;
        const pl_json_value *m = NULL;
        PL_TRY(receive(b, &text, &n, err));
        pl_arena *own = pl_arena_new();
        if (own == NULL) return pl_fail_memory(err, n);
        pl_status st = pl_json_read(text, n, own, &m, err);
        const pl_json_value *found = st == PL_OK ? pl_json_find(m, "id") : NULL;
        const bool ours = found != NULL && found->is_integer && found->integer == id;
        if (st == PL_OK && !ours) st = see_event(b, m, err);
        pl_arena_free(own);
        PL_TRY(st);
        if (!ours) continue;
        PL_TRY(pl_json_read(text, n, arena, &m, err));
        const pl_json_value *error = pl_json_find(m, "error");
        if (error != NULL)
            return pl_fail(err, PL_E_BACKEND, "the browser: %s", text_at(error, "message"));
        *out = pl_json_find(m, "result");
        return PL_OK;
    }
}

/* One call with at most two string parameters and one flag. */
static pl_status command(pl_web_browser *b, const char *method, const char *key, const char *value,
                         const char *flag, pl_arena *arena, const pl_json_value **out,
                         pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_json json;
    begin_call(b, &json, &buf, method);
    if (key != NULL) pl_json_put_string(&json, key, value);
    if (flag != NULL) pl_json_put_bool(&json, flag, true);
    PL_TRY(end_call(b, &json, err));
    return wait_for(b, b->last_id, arena, out, err);
}

static pl_status open_page(pl_web_browser *b, pl_arena *arena, pl_err *err) {
    const pl_json_value *r = NULL;
    PL_TRY(command(b, "Target.setDiscoverTargets", NULL, NULL, "discover", arena, &r, err));
    PL_TRY(command(b, "Target.createTarget", "url", "about:blank", NULL, arena, &r, err));
    const char *target = text_at(r, "targetId");
    PL_TRY(command(b, "Target.attachToTarget", "targetId", target, "flatten", arena, &r, err));
    snprintf(b->session, sizeof(b->session), "%s", text_at(r, "sessionId"));
    PL_TRY(command(b, "Fetch.enable", NULL, NULL, NULL, arena, &r, err));
    PL_TRY(command(b, "Page.enable", NULL, NULL, NULL, arena, &r, err));
    return command(b, "Page.navigate", "url", ORIGIN, NULL, arena, &r, err);
}

pl_status pl_web_browser_start(const char *program, const char *folder, bool gpu,
                               pl_web_browser **out, pl_err *err) {
    pl_web_browser *b = pl_calloc(1, sizeof(*b));
    pl_arena *arena = pl_arena_new();
    pl_status st = b == NULL || arena == NULL ? pl_fail_memory(err, sizeof(*b)) : PL_OK;
    if (b != NULL) {
        b->to = b->from = -1;
        b->folder = folder;
    }
    signal(SIGPIPE, SIG_IGN); /* in the guarded child: a browser that ended is an error of write */
    if (st == PL_OK) st = pl_dir_temporary(&b->profile, err);
    if (st == PL_OK) st = start_process(b, program, gpu, err);
    if (st == PL_OK) st = open_page(b, arena, err);
    pl_arena_free(arena);
    if (st == PL_OK) {
        *out = b;
    } else {
        pl_web_browser_stop(b);
    }
    return st;
}

void pl_web_browser_stop(pl_web_browser *b) {
    if (b == NULL) return;
    end_process(b);
    if (b->profile != NULL) pl_dir_remove(b->profile, NULL);
    pl_free(b->profile);
    pl_buf_release(&b->in);
    pl_free(b);
}

bool pl_web_browser_alive(pl_web_browser *b) {
    if (b->pid > 0 && waitpid(b->pid, NULL, WNOHANG) == b->pid) b->pid = 0;
    return b->pid > 0 && !b->crashed;
}

bool pl_web_browser_spoilt(const pl_web_browser *b) {
    return b->spoilt;
}

static pl_status read_result(pl_web_browser *b, const pl_json_value *r, pl_buf *out, pl_err *err) {
    const pl_json_value *thrown = pl_json_find(r, "exceptionDetails");
    if (thrown != NULL) {
        const char *text = text_at(pl_json_find(thrown, "exception"), "description");
        if (*text == '\0') text = text_at(pl_json_find(thrown, "exception"), "value");
        if (*text == '\0') text = text_at(thrown, "text");
        const char *stack = strstr(text, "\n    at "); /* the place in the page says nothing */
        b->spoilt = b->spoilt || strstr(text, "ERROR_CODE: ") == NULL;
        return pl_fail(err, PL_E_BACKEND, "%.*s",
                       (int)(stack == NULL ? strlen(text) : (size_t)(stack - text)), text);
    }
    const pl_json_value *value = pl_json_find(pl_json_find(r, "result"), "value");
    if (value == NULL || value->kind != PL_JSON_STRING)
        return pl_fail(err, PL_E_BACKEND, "the page gave no answer");
    pl_buf_append(out, value->string, value->n_string);
    return pl_buf_ok(out) ? PL_OK : pl_fail_memory(err, value->n_string);
}

pl_status pl_web_browser_call(pl_web_browser *b, const char *expression, const pl_web_blob *blobs,
                              size_t n_blobs, pl_buf *out, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_json json;
    const pl_json_value *r = NULL;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 1);
    b->blobs = blobs;
    b->n_blobs = n_blobs;
    begin_call(b, &json, &buf, "Runtime.evaluate");
    pl_json_put_string(&json, "expression", expression);
    pl_json_put_bool(&json, "awaitPromise", true);
    pl_json_put_bool(&json, "returnByValue", true);
    pl_status st = end_call(b, &json, err);
    if (st == PL_OK) st = wait_for(b, b->last_id, arena, &r, err);
    if (st == PL_OK) st = read_result(b, r, out, err);
    b->blobs = NULL;
    b->n_blobs = 0;
    pl_arena_free(arena);
    return st;
}
