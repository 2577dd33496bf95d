/* plumb_viewer: the daemon, access checks, and routing of requests. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/file.h"
#include "base/json.h"
#include "flows/api/options.h"
#include "report/page.h"
#include "view/server_int.h"

struct plumb_viewer {
    pl_server server;
};

#ifdef PL_SONAME_MICROHTTPD
#include <microhttpd.h>

#include "base/library.h"

#define CALLS(X)                                                                                   \
    X(MHD_lookup_connection_value)                                                                 \
    X(MHD_add_response_header)                                                                     \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_queue_response)                                                                          \
    X(MHD_destroy_response)                                                                        \
    X(MHD_create_response_from_callback)                                                           \
    X(MHD_get_connection_info)                                                                     \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)
static struct { CALLS(PL_SLOT) } lib;
static const pl_symbol symbols[] = { CALLS(PL_SLOT_SYMBOL) };
static pl_library library =
    PL_LIBRARY("libmicrohttpd", "libmicrohttpd12", symbols, PL_SONAME_MICROHTTPD);

const char *pl_request_query(const pl_request *r, const char *key) {
    return lib.MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, key);
}

static const char *header(struct MHD_Connection *c, const char *name) {
    return lib.MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

/* ---- access ---- */

/* Takes the same time wherever the strings differ. */
static bool is_token(const pl_server *s, const char *given) {
    unsigned differs = 0;
    if (given == NULL || strlen(given) != SERVER_TOKEN - 1) return false;
    for (size_t i = 0; i < SERVER_TOKEN - 1; i++)
        differs |= (unsigned)(unsigned char)given[i] ^ (unsigned)(unsigned char)s->token[i];
    return differs == 0;
}

/* The address at which a request arrived: a server on all interfaces has many. */
static in_addr_t arrived_at(struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *info =
        lib.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t n = sizeof address;
    if (info == NULL || getsockname(info->connect_fd, (struct sockaddr *)&address, &n) != 0)
        return htonl(INADDR_LOOPBACK);
    return address.sin_addr.s_addr;
}

/* DNS rebinding: a foreign page that resolves its own name to 127.0.0.1 sends that name as Host. */
static bool is_own_host(const pl_server *s, struct MHD_Connection *c, const char *host) {
    char name[64], port[16];
    struct in_addr address;
    const char *colon = host == NULL ? NULL : strrchr(host, ':');
    const size_t n = host == NULL ? 0 : colon != NULL ? (size_t)(colon - host) : strlen(host);
    if (n == 0 || n >= sizeof name) return false;
    memcpy(name, host, n);
    name[n] = '\0';
    (void)snprintf(port, sizeof port, "%u", s->port);
    if (strcmp(colon != NULL ? colon + 1 : "80", port) != 0) return false; /* RFC 9110 4.2.1 */
    if (strcmp(name, "localhost") == 0) return true;
    if (inet_pton(AF_INET, name, &address) != 1) return false;
    return address.s_addr == htonl(INADDR_LOOPBACK) || address.s_addr == arrived_at(c);
}

static const char *refusal(const pl_server *s, struct MHD_Connection *c) {
    const char *origin = header(c, "Origin");
    const char *token = header(c, "X-Plumb-Token");
    if (!is_own_host(s, c, header(c, "Host"))) return "Host header not allowed";
    if (origin != NULL && (strncmp(origin, "http://", 7) != 0 || !is_own_host(s, c, origin + 7)))
        return "Origin not allowed";
    if (token == NULL) token = lib.MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");
    if (!is_token(s, token)) return "the token is missing or wrong";
    return NULL;
}

/* ---- replies ---- */

static void add_headers(struct MHD_Response *r, const char *type, const char *rules) {
    char policy[1024];
    (void)snprintf(policy, sizeof policy, "%s; frame-ancestors 'none'", rules);
    (void)lib.MHD_add_response_header(r, "Content-Type", type);
    (void)lib.MHD_add_response_header(r, "Content-Security-Policy", policy);
    (void)lib.MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    (void)lib.MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    (void)lib.MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    (void)lib.MHD_add_response_header(r, "Cache-Control", "no-store");
}

static enum MHD_Result send_under(struct MHD_Connection *c, unsigned code, const char *type,
                                  const char *name, const char *rules, const pl_buf *body) {
    struct MHD_Response *r = lib.MHD_create_response_from_buffer(
        body->n_bytes, body->n_bytes > 0 ? body->data : NULL, MHD_RESPMEM_MUST_COPY);
    char disposition[96];
    if (r == NULL) return MHD_NO;
    add_headers(r, type, rules);
    if (name != NULL) {
        (void)snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"", name);
        (void)lib.MHD_add_response_header(r, "Content-Disposition", disposition);
    }
    const enum MHD_Result sent = lib.MHD_queue_response(c, code, r);
    lib.MHD_destroy_response(r);
    return sent;
}

static enum MHD_Result send_buf(struct MHD_Connection *c, unsigned code, const char *type,
                                const char *name, const pl_buf *body) {
    return send_under(c, code, type, name, pl_page_policy, body);
}

static enum MHD_Result send_error(struct MHD_Connection *c, unsigned code, const char *message) {
    pl_buf body = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &body, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "error", message);
    pl_json_object_end(&j);
    const enum MHD_Result sent = send_buf(c, code, "application/json", NULL, &body);
    pl_buf_release(&body);
    return sent;
}

static unsigned code_of(pl_status st) {
    switch (st) {
    case PL_E_NOT_FOUND: return MHD_HTTP_NOT_FOUND;
    case PL_E_EXISTS: return MHD_HTTP_CONFLICT;
    case PL_E_USAGE:
    case PL_E_FORMAT:
    case PL_E_INVALID:
    case PL_E_LIMIT: return MHD_HTTP_BAD_REQUEST;
    case PL_E_UNSUPPORTED: return MHD_HTTP_NOT_IMPLEMENTED;
    default: return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static enum MHD_Result send_page(struct MHD_Connection *c) {
    pl_buf page = PL_BUF_INIT;
    pl_buf_append(&page, pl_page_head, pl_page_head_bytes);
    pl_buf_append(&page, pl_page_tail, pl_page_tail_bytes);
    const enum MHD_Result sent =
        pl_buf_ok(&page) ? send_buf(c, MHD_HTTP_OK, "text/html; charset=utf-8", NULL, &page)
                         : MHD_NO;
    pl_buf_release(&page);
    return sent;
}

static enum MHD_Result send_reply(struct MHD_Connection *c, pl_status st, pl_reply *reply,
                                  const pl_err *err) {
    if (st == PL_OK && !pl_buf_ok(&reply->body)) st = PL_E_MEMORY;
    const enum MHD_Result sent =
        st == PL_OK
            ? send_buf(c, MHD_HTTP_OK, reply->type != NULL ? reply->type : "application/json",
                       reply->name, &reply->body)
            : send_error(c, code_of(st), st == err->status ? err->message : "out of memory");
    pl_buf_release(&reply->body);
    return sent;
}

/* The matrix of a corpus; the page has no script. */
static enum MHD_Result send_corpus(pl_server *s, struct MHD_Connection *c) {
    pl_buf page = PL_BUF_INIT;
    pl_corpus_put_page(s->corpus, s->token, &page);
    const enum MHD_Result sent =
        pl_buf_ok(&page)
            ? send_under(c, MHD_HTTP_OK, "text/html; charset=utf-8", NULL, PL_CORPUS_POLICY, &page)
            : MHD_NO;
    pl_buf_release(&page);
    return sent;
}

static enum MHD_Result send_item(pl_server *s, struct MHD_Connection *c, const char *key) {
    pl_err err = PL_ERR_INIT;
    const pl_status st = pl_server_show_item(s, key == NULL ? "" : key, &err);
    return st == PL_OK ? send_page(c) : send_error(c, code_of(st), err.message);
}

/* ---- events ---- */

typedef struct events {
    pl_server *server;
    uint64_t seen;
    pl_buf pending;
    size_t sent;
} events;

static ssize_t read_events(void *cls, uint64_t pos, char *to, size_t max) {
    events *e = cls;
    (void)pos;
    if (e->sent == e->pending.n_bytes) {
        pl_buf_reset(&e->pending);
        e->sent = 0;
        if (!pl_job_event(e->server, &e->seen, &e->pending) || !pl_buf_ok(&e->pending))
            return MHD_CONTENT_READER_END_OF_STREAM;
    }
    const size_t left = e->pending.n_bytes - e->sent, n = left < max ? left : max;
    memcpy(to, e->pending.data + e->sent, n);
    e->sent += n;
    return (ssize_t)n;
}

static void free_events(void *cls) {
    events *e = cls;
    pl_buf_release(&e->pending);
    pl_free(e);
}

static enum MHD_Result send_events(pl_server *s, struct MHD_Connection *c) {
    events *e = pl_calloc(1, sizeof *e);
    if (e == NULL) return MHD_NO;
    e->server = s;
    struct MHD_Response *r =
        lib.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024, read_events, e, free_events);
    if (r == NULL) {
        free_events(e);
        return MHD_NO;
    }
    add_headers(r, "text/event-stream", pl_page_policy);
    const enum MHD_Result sent = lib.MHD_queue_response(c, MHD_HTTP_OK, r);
    lib.MHD_destroy_response(r);
    return sent;
}

/* ---- routes ---- */

static enum MHD_Result answer_get(pl_server *s, struct MHD_Connection *c, const char *path) {
    const pl_request request = { s, c, "", 0 };
    pl_reply reply = { .body = PL_BUF_INIT };
    pl_err err = PL_ERR_INIT;
    if (strcmp(path, "/") == 0) return s->corpus != NULL ? send_corpus(s, c) : send_page(c);
    if (s->corpus != NULL && strcmp(path, "/session") == 0)
        return send_item(s, c, pl_request_query(&request, "key"));
    if (strcmp(path, "/api/events") == 0) return send_events(s, c);
    pthread_mutex_lock(&s->mutex);
    const char *agreed = pl_request_query(&request, "run");
    const char *asks = agreed != NULL && strcmp(agreed, "yes") == 0
                           ? NULL
                           : pl_emitted_would_run(s, path, pl_request_query(&request, "of"));
    const pl_status st = asks != NULL ? PL_OK : pl_api_get(&request, path, &reply, &err);
    pthread_mutex_unlock(&s->mutex);
    if (asks != NULL) return send_error(c, MHD_HTTP_PRECONDITION_REQUIRED, asks);
    return send_reply(c, st, &reply, &err);
}

static enum MHD_Result answer_post(pl_server *s, struct MHD_Connection *c, const char *path,
                                   const pl_buf *body) {
    const char *text = pl_buf_str(body);
    pl_reply reply = { .body = PL_BUF_INIT };
    pl_err err = PL_ERR_INIT;
    pl_status st = PL_OK;
    if (strcmp(path, "/api/notes") == 0) {
        pthread_mutex_lock(&s->mutex);
        st = pl_api_check_page(&(const pl_request){ s, c, "", 0 }, &err);
        if (st == PL_OK) st = pl_notes_put(s, text, body->n_bytes, &err);
        pthread_mutex_unlock(&s->mutex);
    } else if (strcmp(path, "/api/analyze") == 0) {
        st = pl_job_start(s, "analyze", text, body->n_bytes, &err);
    } else if (strcmp(path, "/api/compare") == 0) {
        st = pl_job_start(s, "compare", text, body->n_bytes, &err);
    } else if (strcmp(path, "/api/open") == 0) {
        st = pl_server_open_named(s, PL_SESSIONS_DIR, text, body->n_bytes, &err);
    } else if (strcmp(path, "/api/part") == 0) {
        st = pl_server_open_named(s, s->table_folder, text, body->n_bytes, &err);
    } else if (strcmp(path, "/api/minify") == 0) {
        st = pl_job_start(s, "minify", text, body->n_bytes, &err);
    } else if (strcmp(path, "/api/cancel") == 0) {
        pl_job_cancel(s);
    } else {
        st = pl_fail(&err, PL_E_NOT_FOUND, "not found: '%s'", path);
    }
    if (st == PL_OK) pl_buf_puts(&reply.body, "{}");
    return send_reply(c, st, &reply, &err);
}

/* ---- connections ---- */

static pl_guest *guest_of(struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *info =
        lib.MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info == NULL ? NULL : info->socket_context;
}

static enum MHD_Result admit(void *cls, const struct sockaddr *address, socklen_t n) {
    pl_server *s = cls;
    (void)address;
    (void)n;
    return pl_guests_admit(&s->guests) ? MHD_YES : MHD_NO;
}

static void come_or_go(void *cls, struct MHD_Connection *c, void **context,
                       enum MHD_ConnectionNotificationCode what) {
    pl_server *s = cls;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            lib.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info == NULL ? NULL : pl_guests_enter(&s->guests, info->connect_fd);
    } else {
        pl_guests_leave(&s->guests, *context);
        *context = NULL;
    }
}

/* The body of a POST arrives in parts; *state holds it. */
static enum MHD_Result handle(void *cls, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *data,
                              size_t *n_data, void **state) {
    pl_server *s = cls;
    pl_buf *body = *state;
    (void)version;
    if (body ==
        NULL) { /* first call, headers only: reject unauthorised requests before reading the body */
        const char *why = refusal(s, c);
        if (why != NULL) return send_error(c, MHD_HTTP_FORBIDDEN, why);
        pl_guests_trust(&s->guests, guest_of(c), true);
        body = pl_calloc(1, sizeof *body);
        *state = body;
        return body == NULL ? MHD_NO : MHD_YES;
    }
    if (*n_data > 0) {
        if (body->n_bytes + *n_data > SERVER_BODY_MAX) return MHD_NO; /* closes the connection */
        pl_buf_append(body, data, *n_data);
        *n_data = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") == 0) return answer_get(s, c, path);
    if (strcmp(method, "POST") != 0)
        return send_error(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and POST are supported");
    const char *type = header(c, "Content-Type");
    if (type == NULL || strcmp(type, "application/json") != 0)
        return send_error(c, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "expected application/json");
    return answer_post(s, c, path, body);
}

static void completed(void *cls, struct MHD_Connection *c, void **state,
                      enum MHD_RequestTerminationCode why) {
    pl_server *s = cls;
    (void)why;
    pl_guests_trust(&s->guests, guest_of(c), false);
    if (*state == NULL) return;
    pl_buf_release(*state);
    pl_free(*state);
    *state = NULL;
}

static void quiet(void *cls, const char *format, va_list args) {
    (void)cls;
    (void)format;
    (void)args;
}

/* Bound here and not by the daemon, so that the port is known before the first request. */
static pl_status open_socket(pl_server *s, int port, int *out, pl_err *err) {
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = s->host };
    socklen_t n = sizeof address;
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *out = fd;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        listen(fd, SOMAXCONN) == 0 && getsockname(fd, (struct sockaddr *)&address, &n) == 0) {
        s->port = ntohs(address.sin_port);
        return PL_OK;
    }
    const int why = errno;
    if (fd >= 0) (void)close(fd);
    char place[INET_ADDRSTRLEN + 16], ip[INET_ADDRSTRLEN] = "?";
    (void)inet_ntop(AF_INET, &s->host, ip, sizeof ip);
    (void)snprintf(place, sizeof place, "%s:%d", ip, port);
    if (why == EADDRINUSE) return pl_fail(err, PL_E_IO, "%s is in use", place);
    return pl_fail_errno(err, why, "listen on", place);
}

static pl_status start_daemon(pl_server *s, int port, pl_err *err) {
    int fd = -1;
    const pl_status opened = pl_library_open(&library, err);
    if (opened != PL_OK)
        return pl_err_wrap(err, opened, "no server ('plumb report' works without one)");
    if (!pl_guests_init(&s->guests)) return pl_fail(err, PL_E_MEMORY, "cannot create a thread");
    PL_TRY(open_socket(s, port, &fd, err));
    s->daemon = lib.MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_ERROR_LOG,
        (uint16_t)port, admit, s, handle, s, MHD_OPTION_EXTERNAL_LOGGER, quiet, NULL,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)PL_GUESTS_SOCKETS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_TIMEOUT_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_MEMORY, MHD_OPTION_NOTIFY_COMPLETED,
        completed, s, MHD_OPTION_NOTIFY_CONNECTION, come_or_go, s, MHD_OPTION_END);
    if (s->daemon != NULL) return PL_OK;
    (void)close(fd);
    return pl_fail(err, PL_E_IO, "cannot start a server on port %d", port);
}

static void stop_daemon(pl_server *s) {
    if (s->daemon != NULL) lib.MHD_stop_daemon(s->daemon);
    pl_guests_release(&s->guests);
}

#else

const char *pl_request_query(const pl_request *r, const char *key) {
    (void)r;
    (void)key;
    return NULL;
}

static pl_status start_daemon(pl_server *s, int port, pl_err *err) {
    (void)s;
    (void)port;
    return pl_fail(err, PL_E_UNSUPPORTED,
                   "this plumb was built without libmicrohttpd: install libmicrohttpd-dev and "
                   "rebuild (tools/setup build); 'plumb report' works without it");
}

static void stop_daemon(pl_server *s) {
    (void)s;
}
#endif

/* ---- life cycle ---- */

pl_status pl_server_show(pl_server *s, const char *session, pl_err *err) {
    pl_viewed *fresh = NULL;
    pl_buf json = PL_BUF_INIT;
    PL_TRY(pl_viewed_open(session, &fresh, err));
    pl_viewed_put_session(fresh, &json);
    pthread_mutex_lock(&s->mutex);
    /* Lets the server recognise pages of another session; replaces the closing brace. */
    if (pl_buf_ok(&json)) json.n_bytes--;
    pl_buf_printf(&json, ",\"table\":\"%s\",\"serial\":%u}",
                  s->table_kind != NULL ? s->table_kind : "", s->serial + 1);
    const bool ok = pl_buf_ok(&json);
    pl_viewed *closed = ok ? s->viewed : fresh;
    pl_buf unused = ok ? s->session : json;
    if (ok) {
        pl_buf_reset(&s->emitted);
        pl_buf_reset(&s->executed);
        s->viewed = fresh;
        s->session = json;
        s->serial++;
    }
    pthread_mutex_unlock(&s->mutex);
    pl_buf_release(&unused);
    pl_viewed_close(closed);
    return ok ? PL_OK : pl_fail_memory(err, 1);
}

pl_status pl_server_open_named(pl_server *s, const char *folder, const char *text, size_t n,
                               pl_err *err) {
    pl_arena *arena = pl_arena_new();
    const pl_json_value *root = NULL;
    pl_dir *sessions = NULL;
    char *path = NULL;
    pl_status st = arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) st = pl_json_read(text, n, arena, &root, err);
    const pl_json_value *name = st == PL_OK ? pl_json_find(root, "session") : NULL;
    if (st == PL_OK &&
        (name == NULL || name->kind != PL_JSON_STRING || strlen(name->string) != name->n_string ||
         *name->string == '\0' || *name->string == '.' || strchr(name->string, '/') != NULL))
        st = pl_fail(err, PL_E_USAGE, "'session' is not the name of a session");
    if (st == PL_OK && folder == NULL) st = pl_fail(err, PL_E_NOT_FOUND, "no table is open");
    if (st == PL_OK) st = pl_dir_open(folder, &sessions, err);
    if (st == PL_OK && pl_dir_look(sessions, name->string, NULL) != PL_KIND_FOLDER)
        st = pl_fail(err, PL_E_NOT_FOUND, "no session '%s'", name->string);
    if (st == PL_OK && (path = pl_path_join(folder, name->string)) == NULL)
        st = pl_fail_memory(err, 1);
    if (st == PL_OK) st = pl_server_show(s, path, err);
    pl_dir_close(sessions);
    pl_free(path);
    pl_arena_free(arena);
    return st;
}

static pl_status make_token(pl_server *s, pl_err *err) {
    unsigned char random[(SERVER_TOKEN - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return pl_fail(err, PL_E_IO, "getrandom failed");
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(s->token + 2 * i, 3, "%02x", random[i]);
    return PL_OK;
}

static bool is_model(const char *path) {
    return pl_path_has_suffix(path, ".onnx") || pl_path_has_suffix(path, ".onnxtxt");
}

static pl_status open_path(pl_server *s, const char *path, pl_err *err) {
    if (path == NULL) return PL_OK;
    if (pl_corpus_is(path)) return pl_corpus_open(path, &s->corpus, err);
    if (pl_table_is(path)) return pl_table_open(s, path, err);
    if (!is_model(path)) return pl_server_show(s, path, err);
    if (!pl_path_exists(path)) return pl_fail(err, PL_E_NOT_FOUND, "not found: '%s'", path);
    s->model = pl_strdup(path);
    return s->model == NULL ? pl_fail_memory(err, 1) : pl_server_read_model(s, err);
}

static pl_status copy(const char *from, char **to, pl_err *err) {
    if (from == NULL) return PL_OK;
    *to = pl_strdup(from);
    return *to == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status server_open(pl_server *s, const char *path, const plumb_viewer_options *o,
                             pl_err *err) {
    char address[INET_ADDRSTRLEN] = "";
    if (o->source != NULL && !pl_path_is_dir(o->source))
        return pl_fail(err, PL_E_USAGE, "option 'source': '%s' is not a folder", o->source);
    PL_TRY(copy(o->source, &s->source, err));
    PL_TRY(copy(o->program, &s->program, err));
    s->host.s_addr = htonl(INADDR_LOOPBACK);
    if (o->host != NULL && inet_pton(AF_INET, o->host, &s->host) != 1)
        return pl_fail(err, PL_E_USAGE, "'%s' is not an IPv4 address", o->host);
    if (!o->insecure_host && (ntohl(s->host.s_addr) >> 24) != 127)
        return pl_fail(err, PL_E_USAGE,
                       "%s is not a loopback address: traffic is not encrypted, and anyone who "
                       "sees the token can read the session and start runs. Use an ssh tunnel "
                       "(ssh -L)",
                       o->host);
    s->trust = o->trust != 0;
    PL_TRY(make_token(s, err));
    PL_TRY(open_path(s, path, err));
    PL_TRY(pl_files_init(s, o->files, path, err));
    PL_TRY(start_daemon(s, o->port, err));
    (void)inet_ntop(AF_INET, &s->host, address, sizeof address);
    (void)snprintf(s->link, sizeof s->link, "http://%s:%u/?token=%s",
                   s->host.s_addr == htonl(INADDR_ANY) ? "127.0.0.1" : address, s->port, s->token);
    return PL_OK;
}

plumb_status plumb_viewer_open(const char *path, const plumb_viewer_options *options,
                               plumb_viewer **out, plumb_error *err) {
    plumb_viewer_options o;
    PL_REQUIRE(out);
    *out = NULL;
    PL_TRY(pl_options_read(PLUMB_OPTIONS_VIEWER, options, &o, err));
    plumb_viewer *v = pl_calloc(1, sizeof *v);
    if (v == NULL) return pl_fail_memory(err, sizeof *v);
    pthread_mutex_init(&v->server.mutex, NULL);
    pthread_cond_init(&v->server.made, NULL);
    const pl_status st = server_open(&v->server, path, &o, err);
    if (st == PL_OK) {
        *out = v;
    } else {
        plumb_viewer_close(v);
    }
    return st;
}

const char *plumb_viewer_link(const plumb_viewer *viewer) {
    return viewer == NULL ? "" : viewer->server.link;
}

void plumb_viewer_close(plumb_viewer *viewer) {
    if (viewer == NULL) return;
    pl_server *s = &viewer->server;
    pthread_mutex_lock(&s->mutex);
    s->closing = true;
    pthread_cond_broadcast(&s->made);
    pthread_mutex_unlock(&s->mutex);
    stop_daemon(s);
    pl_job_end(s);
    pl_viewed_close(s->viewed);
    pl_buf_release(&s->session);
    pl_buf_release(&s->emitted);
    pl_buf_release(&s->executed);
    pl_free(s->source);
    pl_free(s->model);
    pl_corpus_free(s->corpus);
    pl_table_release(s);
    pl_free(s->program);
    pl_model_free(s->given);
    pl_files_release(s);
    pthread_cond_destroy(&s->made);
    pthread_mutex_destroy(&s->mutex);
    pl_free(viewer);
}
