/* Fuzz target: requests to the debugger's server, over a socket as from a browser. The first byte
 * tells whether the rest is a whole request, a path and query below /api/ with a valid token, or
 * notes that are sent. An answer must come, or the connection must be closed. */
#include <arpa/inet.h>
#include <errno.h>
#include <plumb.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../unit/write_over.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static plumb_viewer *viewer;
static char *root;
static const char *token;
static unsigned port;

static const char session[] =
    "{\"plumb\":\"0.1.0\",\"session\":1,\"created\":\"2026-01-01T00:00:00Z\",\"verdict\":\"agree\","
    "\"reason\":\"\",\"model\":{\"path\":\"m\",\"hash\":\"\",\"nodes\":1},\"a\":{},\"b\":{},"
    "\"metric\":\"psnr\",\"profile\":\"plumb\",\"tol\":null,\"sync_points\":[]}";

static void clean_up(void) {
    plumb_viewer_close(viewer);
    (void)pl_dir_remove(root, NULL);
    pl_free(root);
}

static void set_up(void) {
    plumb_error err = { 0 };
    char dir[4096], path[4200];
    if (viewer != NULL) return;
    if (pl_dir_temporary(&root, NULL) != PL_OK) abort();
    snprintf(dir, sizeof dir, "%s/s", root);
    snprintf(path, sizeof path, "%s/session.json", dir);
    if (pl_path_make_dirs(dir, NULL) != PL_OK ||
        write_over(path, session, strlen(session), NULL) != PL_OK)
        abort();
    if (plumb_viewer_open(dir, NULL, &viewer, &err) != PLUMB_OK) {
        fprintf(stderr, "fuzz_view: %s\n", err.message);
        abort();
    }
    (void)atexit(clean_up);
    const char *link = plumb_viewer_link(viewer);
    token = strstr(link, "token=");
    if (token == NULL || sscanf(link, "http://127.0.0.1:%u", &port) != 1) abort();
}

/* Characters that end a request line would only make it another whole request. */
static void put_path(pl_buf *out, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (data[i] > ' ' && data[i] < 127) pl_buf_putc(out, (char)data[i]);
}

static void put_request(pl_buf *out, const uint8_t *data, size_t size) {
    const int kind = data[0] % 3;
    if (kind == 0) {
        pl_buf_append(out, data + 1, size - 1);
    } else if (kind == 1) {
        pl_buf_puts(out, "GET /api/");
        put_path(out, data + 1, size - 1);
        pl_buf_printf(out, "%c%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n\r\n",
                      memchr(data, '?', size) != NULL ? '&' : '?', token, port);
    } else {
        pl_buf_printf(out,
                      "POST /api/notes?%s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: close\r\n"
                      "Content-Length: %zu\r\n\r\n",
                      token, port, size - 1);
        pl_buf_append(out, data + 1, size - 1);
    }
}

/* Each from another address: a port that was used rests for a minute, and an address has 28,000. */
static int try_to_connect(void) {
    static uint32_t n;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in from = { .sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK + n++ % 4096) },
                             to = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&from, sizeof from) == 0 &&
        connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    const int reason = errno;
    if (fd >= 0) close(fd);
    errno = reason;
    return -1;
}

static int connect_to_viewer(void) {
    int fd = try_to_connect();
    while (fd < 0 && errno == EINTR) /* the fuzzer looks at the clock by a signal */
        fd = try_to_connect();
    if (fd >= 0) return fd;
    perror("fuzz_view: connect");
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char answer[4096];
    pl_buf out = PL_BUF_INIT;
    if (size < 2) return 0;
    set_up();
    put_request(&out, data, size);
    /* These two start programs, and the events never end. */
    if (!pl_buf_ok(&out) || strstr(out.data, "/api/setup") != NULL ||
        strstr(out.data, "/api/emitted") != NULL || strstr(out.data, "/api/events") != NULL) {
        pl_buf_release(&out);
        return 0;
    }
    const int fd = connect_to_viewer();
    (void)send(fd, out.data, out.n_bytes, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    while (recv(fd, answer, sizeof answer, 0) > 0) {
    }
    close(fd);
    pl_buf_release(&out);
    return 0;
}
