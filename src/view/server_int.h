/* Private to src/view: the server behind `plumb view`.
 *
 * One thread per connection (libmicrohttpd), limited by server_guests.h; the open session is used
 * under `mutex`. A request must have the token of the link, a Host that names this server on the
 * loopback, and no foreign Origin. */
#ifndef PL_SERVER_INT_H
#define PL_SERVER_INT_H

#include <netinet/in.h>
#include <pthread.h>

#include "base/json_read.h"
#include "flows/api.h"
#include "flows/corpus/corpus_print.h"
#include "report/viewed.h"
#include "view/server_guests.h"

enum {
    SERVER_TIMEOUT_SECONDS = 20, /* for an idle connection */
    SERVER_MEMORY = 32 << 10,    /* for the headers of a request */
    SERVER_BODY_MAX = 1 << 20,
    SERVER_ROOTS = 2,
    SERVER_TOKEN = 33 /* 32 digits and the NUL */
};

#define PL_SESSIONS_DIR "plumb-out" /* sessions that are started in the page */

typedef struct pl_server_job pl_server_job;

typedef struct pl_server {
    void *daemon; /* struct MHD_Daemon */
    unsigned port;
    struct in_addr host; /* listening address; the loopback by default */
    char token[SERVER_TOKEN];
    char link[128];
    char *source;              /* folder of source files; NULL = none */
    pl_corpus *corpus;         /* shown first; NULL = none was given */
    char *table_folder;        /* of several sessions with one table; NULL = none */
    const char *table_kind;    /* many or generate */
    pl_buf table;              /* its JSON */
    char *model;               /* to be compared; NULL = none was given */
    pl_model *given;           /* the same, read; NULL = none */
    char *roots[SERVER_ROOTS]; /* folders that the page may browse */
    size_t n_roots;
    char *program; /* plumb itself, to run comparisons; NULL = not offered */
    pthread_mutex_t mutex;
    pl_viewed *viewed; /* NULL until a comparison has finished */
    unsigned serial;   /* number of the shown session, from 1 */
    pl_buf session;    /* its JSON */
    pl_buf emitted;    /* C code of A, on request */
    pl_buf executed;   /* the graph that A executes, on request */
    pl_server_job *job;
    pl_guests guests;
    pthread_cond_t made; /* `making` has ended */
    bool making;         /* compiling the C or the executed graph; one at a time */
    bool trust;          /* run without confirmation */
    bool closing;
} pl_server;

/* The reply of a route. A route fills `body` (or fails); the server sends it. */
typedef struct pl_reply {
    const char *type; /* NULL = JSON */
    const char *name; /* of a download; NULL = none */
    pl_buf body;
} pl_reply;

typedef struct pl_request {
    pl_server *server;
    void *connection; /* struct MHD_Connection */
    const char *body; /* of a POST; "" */
    size_t n_body;
} pl_request;

/* The value of a key in the query; NULL if missing. */
const char *pl_request_query(const pl_request *r, const char *key);

/* server_api.c, under the server's mutex */
/* PL_E_EXISTS if the requesting page belongs to a session that is no longer shown. */
pl_status pl_api_check_page(const pl_request *r, pl_err *err);
pl_status pl_api_get(const pl_request *r, const char *path, pl_reply *reply, pl_err *err);
/* server_model.c: a model without a comparison */
pl_status pl_server_read_model(pl_server *s, pl_err *err); /* s->model */
const pl_model *pl_server_model(const pl_server *s);       /* of what is shown; or NULL */
/* Its graph; `dims` ("batch=2,seq=8", or NULL) gives shapes to a model that is not compared yet. */
pl_status pl_server_put_model(const pl_server *s, const char *dims, pl_buf *out, pl_err *err);
/* A weight as A of a pair without B. */
pl_status pl_server_open_weight(const pl_server *s, const char *name, pl_view_pair *out,
                                pl_err *err);
/* server_files.c: files inside the folders that the user gave: `folder` (or NULL) and that of
 * `path`, or the current one. */
pl_status pl_files_init(pl_server *s, const char *folder, const char *path, pl_err *err);
void pl_files_release(pl_server *s);
/* The names in a folder, or the kind of a path; NULL: the first folder. */
pl_status pl_files_get(const pl_server *s, const char *path, pl_buf *out, pl_err *err);
/* server_notes.c: pins, notes, pairs made by hand and accepted divergences, kept in
 * SESSION/notes.json; beside it map.json and baseline.json. */
pl_status pl_notes_get(const pl_server *s, pl_buf *out, pl_err *err);
pl_status pl_notes_put(const pl_server *s, const char *text, size_t n, pl_err *err);
pl_status pl_notes_put_baseline(const pl_server *s, pl_buf *out, pl_err *err);
pl_status pl_notes_put_map(const pl_server *s, pl_buf *out, pl_err *err);
bool pl_notes_any(const pl_server *s); /* of the two files */
/* SESSION/NAME if it exists, else NULL. Caller frees. */
char *pl_notes_file(const pl_server *s, const char *name);

/* server_emitted.c: compiled behind the guard on first request; the mutex must be held and is
 * released meanwhile */
pl_status pl_emitted_get(pl_server *s, pl_buf *out, pl_err *err);
/* The program that a request would start, for the user to confirm; NULL = none. */
const char *pl_emitted_would_run(const pl_server *s, const char *path, const char *of);
pl_status pl_executed_get(pl_server *s, pl_buf *out, pl_err *err); /* the graph that A executes */

/* server_corpus.c: opens the session of one of its items instead of the present one. */
pl_status pl_server_show_item(pl_server *s, const char *key, pl_err *err);

/* server_table.c: several backends or steps, each with a session in its folder */
bool pl_table_is(const char *path);
pl_status pl_table_open(pl_server *s, const char *path, pl_err *err);
void pl_table_get(const pl_server *s, pl_buf *out); /* null if there is none */
void pl_table_release(pl_server *s);

/* server_job.c: jobs started from the page; `command` is "analyze", "compare" or "minify". One at a
 * time. */
pl_status pl_job_start(pl_server *s, const char *command, const char *text, size_t n, pl_err *err);
/* The page fills in values from a session, which may not be trusted: no programs, no libraries, no
 * files written elsewhere. */
pl_status pl_job_check_spec(const char *text, pl_err *err);
bool pl_job_is_running(const pl_server *s); /* the server's mutex is held */
void pl_job_cancel(pl_server *s);
void pl_job_end(pl_server *s); /* cancels, waits, frees */
/* Waits until the state differs from *seen and returns it as one event (`data: {…}\n\n`), or a
 * comment after a second. False when the server is closing. */
bool pl_job_event(pl_server *s, uint64_t *seen, pl_buf *out);
/* Opens a session of a folder (NULL: there is none) by name. */
pl_status pl_server_open_named(pl_server *s, const char *folder, const char *text, size_t n,
                               pl_err *err);
/* Opens another session. */
pl_status pl_server_show(pl_server *s, const char *session, pl_err *err);

#endif
