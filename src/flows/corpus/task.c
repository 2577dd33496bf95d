#include "flows/corpus/task.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "flows/corpus/corpus.h"
#include "flows/corpus/corpus_json.h"
#include "flows/corpus/worker.h"

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

/* The status that a line of a worker tells; PART: another step follows. */
typedef enum answer_kind { ANSWER_NONE, ANSWER_RESULT, ANSWER_PART } answer_kind;

static answer_kind kind_of(const char *line, size_t n) {
    const pl_json_value *v = NULL;
    pl_arena *arena = pl_arena_new();
    answer_kind kind = ANSWER_NONE;
    if (arena != NULL && pl_json_read(line, n, arena, &v, NULL) == PL_OK &&
        pl_json_find(v, "status") != NULL)
        kind = strcmp(pl_member_text(v, "status"), PL_WORK_UNFINISHED) == 0 ? ANSWER_PART
                                                                            : ANSWER_RESULT;
    pl_arena_free(arena);
    return kind;
}

/* What the next step needs; NULL: there is none. */
static pl_status take_part(const pl_process_result *r, char **out, pl_err *err) {
    const char *line;
    size_t n;
    *out = NULL;
    last_line(&r->out, &line, &n);
    if (r->timed_out || r->signal != 0 || r->exit_code != 0 || kind_of(line, n) != ANSWER_PART)
        return PL_OK;
    *out = pl_calloc(n + 1, 1);
    if (*out == NULL) return pl_fail_memory(err, n);
    memcpy(*out, line, n);
    return PL_OK;
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
    } else if (r->signal == 0 && r->exit_code == 0 && kind_of(line, n) == ANSWER_RESULT) {
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

/* The line of a finished step, or of the finished task. */
static pl_status note_end(const pl_task_place *at, const char *key, const pl_task_state *state,
                          const pl_process_result *r, pl_err *err) {
    pl_buf line = PL_BUF_INIT;
    pl_json j;
    pl_json_init(&j, &line, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "t", state->text != NULL ? "part" : "done");
    pl_json_put_string(&j, "key", key);
    pl_json_put_double(&j, "seconds", state->seconds);
    pl_json_put_double(&j, "cpu", r->cpu_seconds);
    if (state->text != NULL) {
        pl_json_put_int(&j, "n", state->n_steps);
        pl_json_put_string(&j, "so_far", state->text);
        pl_json_object_end(&j);
    } else {
        pl_json_key(&j, "result");
        put_result(at, r, &line);
        pl_buf_putc(&line, '}');
    }
    const pl_status st = pl_journal_append(at->journal, &line, err);
    pl_buf_release(&line);
    return st;
}

/* The request with the process that will be its parent: it ends with that one. */
static void put_request(const pl_task_place *at, const char *request, const char *so_far,
                        pl_buf *out) {
    const pid_t parent = at->spawner != NULL ? pl_spawner_pid(at->spawner) : getpid();
    pl_json j;
    pl_json_init(&j, out, false);
    pl_json_object_begin(&j);
    pl_json_put_int(&j, "parent", parent);
    if (so_far != NULL) pl_json_put_string(&j, "so_far", so_far);
    pl_buf_putc(out, ',');
    pl_buf_puts(out, request[0] == '{' ? request + 1 : request);
}

pl_status pl_task_run(const pl_task_place *at, const char *key, const char *request,
                      pl_task_state *state, pl_err *err) {
    const pl_process_options options = { .timeout_seconds = at->timeout,
                                         .max_output_bytes = RESULT_MAX,
                                         .progress = at->progress };
    pl_process_result r = { .out = PL_BUF_INIT, .err = PL_BUF_INIT };
    pl_buf whole = PL_BUF_INIT;
    pl_status st = PL_OK;
    put_request(at, request, state->text, &whole);
    if (!pl_buf_ok(&whole)) st = pl_fail_memory(err, whole.n_bytes);
    const char *const argv[] = { at->program, "corpus", "--worker", pl_buf_str(&whole), NULL };
    const int64_t begin = pl_clock_ms();
    if (st == PL_OK) st = note_start(at, key, err);
    if (st == PL_OK)
        st = at->spawner != NULL ? pl_spawner_run(at->spawner, argv, &options, &r, err)
                                 : pl_process_run(argv, &options, &r, err);
    pl_free(state->text);
    *state = (pl_task_state){ .n_steps = state->n_steps + 1,
                              .seconds = (double)(pl_clock_ms() - begin) / 1e3 };
    if (st == PL_OK) st = take_part(&r, &state->text, err);
    if (st == PL_OK) st = note_end(at, key, state, &r, err);
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
