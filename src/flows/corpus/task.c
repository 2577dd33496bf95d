#include "flows/corpus/task.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "flows/corpus/corpus.h"

enum { RESULT_MAX = 1 << 20 };

static void put_plain(pl_json *j, pl_item_status status, const char *reason) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "status", pl_item_status_name(status));
    pl_json_put_string(j, "reason", reason);
    pl_json_object_end(j);
}

/* The last line that is not empty, without its newline. */
static void last_line(const pl_buf *text, const char **out, size_t *n) {
    const char *s = pl_buf_str(text);
    size_t end = text->n_bytes;
    while (end > 0 && (s[end - 1] == '\n' || s[end - 1] == '\r'))
        end--;
    size_t begin = end;
    while (begin > 0 && s[begin - 1] != '\n')
        begin--;
    *out = s + begin;
    *n = end - begin;
}

static bool is_result(const char *line, size_t n) {
    const pl_json_value *v = NULL;
    pl_arena *arena = pl_arena_new();
    const bool yes = arena != NULL && pl_json_read(line, n, arena, &v, NULL) == PL_OK &&
                     pl_json_find(v, "status") != NULL;
    pl_arena_free(arena);
    return yes;
}

/* The output of the process as the value of "result". */
static void put_result(const pl_task_place *at, const pl_process_result *r, pl_buf *out) {
    char why[600];
    const char *line;
    size_t n;
    pl_json j;
    pl_json_init(&j, out, false);
    last_line(&r->out, &line, &n);
    if (r->timed_out) {
        (void)snprintf(why, sizeof why, "took longer than %g s", at->timeout);
        put_plain(&j, PL_ITEM_TIMEOUT, why);
    } else if (r->signal == 0 && r->exit_code == 0 && is_result(line, n)) {
        pl_buf_append(out, line, n);
    } else {
        const char *said;
        size_t n_said;
        last_line(&r->err, &said, &n_said);
        if (r->signal != 0) {
            (void)snprintf(why, sizeof why, "plumb's own process ended by signal %d", r->signal);
        } else {
            (void)snprintf(why, sizeof why, "plumb's own process ended with exit code %d: %.*s",
                           r->exit_code, (int)(n_said > 400 ? 400 : n_said), said);
        }
        put_plain(&j, PL_ITEM_TROUBLE, why);
    }
}

static pl_status note_start(const pl_task_place *at, const char *key, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "t", "start");
    pl_json_put_string(&j, "key", key);
    pl_json_object_end(&j);
    const pl_status st = pl_journal_append(at->journal, &line, err);
    pl_buf_release(&line);
    return st;
}

static pl_status note_done(const pl_task_place *at, const char *key, double seconds,
                           const pl_process_result *r, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "t", "done");
    pl_json_put_string(&j, "key", key);
    pl_json_put_double(&j, "seconds", seconds);
    pl_json_put_double(&j, "cpu", r->cpu_seconds);
    pl_json_key(&j, "result");
    put_result(at, r, &line);
    pl_buf_putc(&line, '}');
    const pl_status st = pl_journal_append(at->journal, &line, err);
    pl_buf_release(&line);
    return st;
}

/* The request with the process that will be its parent: it ends with that one. */
static void put_request(const pl_task_place *at, const char *request, pl_buf *out) {
    const pid_t parent = at->spawner != NULL ? pl_spawner_pid(at->spawner) : getpid();
    pl_buf_printf(out, "{\"parent\":%ld,", (long)parent);
    pl_buf_puts(out, request[0] == '{' ? request + 1 : request);
}

pl_status pl_task_run(const pl_task_place *at, const char *key, const char *request, pl_err *err) {
    const pl_process_options options = { .timeout_seconds = at->timeout,
                                         .max_output_bytes = RESULT_MAX,
                                         .progress = at->progress };
    pl_process_result r = { .out = PL_BUF_INIT, .err = PL_BUF_INIT };
    pl_buf whole = PL_BUF_INIT;
    pl_status st = PL_OK;
    put_request(at, request, &whole);
    if (!pl_buf_ok(&whole)) st = pl_fail_memory(err, whole.n_bytes);
    const char *const argv[] = { at->program, "corpus", "--worker", pl_buf_str(&whole), NULL };
    const int64_t begin = pl_clock_ms();
    if (st == PL_OK) st = note_start(at, key, err);
    if (st == PL_OK)
        st = at->spawner != NULL ? pl_spawner_run(at->spawner, argv, &options, &r, err)
                                 : pl_process_run(argv, &options, &r, err);
    if (st == PL_OK) st = note_done(at, key, (double)(pl_clock_ms() - begin) / 1e3, &r, err);
    pl_process_result_release(&r);
    pl_buf_release(&whole);
    return st;
}

pl_status pl_task_note_stop(pl_journal *journal) {
    pl_buf line = PL_BUF_INIT;
    pl_buf_puts(&line, "{\"t\":\"stop\"}");
    const pl_status st = pl_journal_append(journal, &line, NULL);
    pl_buf_release(&line);
    return st;
}

pl_status pl_task_note_open(pl_journal *journal, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_buf_printf(&line, "{\"t\":\"open\",\"pid\":%ld}", (long)getpid());
    const pl_status st = pl_journal_append(journal, &line, err);
    pl_buf_release(&line);
    return st;
}
