/* The user's oracle: a command whose exit code or output says whether the model fails. {model} is
 * the file, {dir} a folder with model.onnx and test_data_set_0/. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/process.h"
#include "flows/api.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/repro/repro.h"
#include "flows/minify/search/mini_ahead.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_work.h"
#include "flows/minify/search/mini_write.h"
#include "tensor/file/tensor_proto.h"

enum { CANNOT_TELL = 125 }; /* as for `git bisect run` */

typedef struct check {
    const char *command;
    bool wants_dir;
    regex_t regex;
    bool has_regex;
    size_t n_asked;
    const char **env; /* ours, with repro level 0: a check that uses plumb leaves no checkpoints */
} check;

static pl_status make_env(check *c, pl_err *err) {
    size_t n = 0, k = 0;
    while (environ[n] != NULL)
        n++;
    c->env = pl_calloc(n + 2, sizeof(char *));
    if (c->env == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "PLUMB_REPRO_LEVEL=", 18) != 0) c->env[k++] = environ[i];
    c->env[k] = "PLUMB_REPRO_LEVEL=0";
    return PL_OK;
}

static void release(pl_oracle *o) {
    check *c = o->self;
    if (c->has_regex) regfree(&c->regex);
    pl_free(c->env);
    pl_free(c);
}

/* Without the sync of pl_file_write: the file of a query need not survive a crash. */
static pl_status write_file(const char *path, const pl_buf *buf, pl_err *err) {
    const int fd = pl_fd_open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    size_t at = 0;
    pl_status st = PL_OK;
    if (fd < 0) return pl_fail_errno(err, errno, "create", path);
    while (at < buf->n_bytes && st == PL_OK) {
        const ssize_t n = write(fd, buf->data + at, buf->n_bytes - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) st = pl_fail_errno(err, errno, "write", path);
        if (n > 0) at += (size_t)n;
    }
    close(fd);
    return st;
}

static pl_status write_inputs(const pl_mini_state *s, const char *dir, pl_err *err) {
    char path[4200];
    for (size_t i = 0; i < s->model->graph->n_inputs; i++) {
        pl_buf buf = PL_BUF_INIT;
        if (s->in[i] == NULL) continue;
        snprintf(path, sizeof(path), "%s/input_%zu.pb", dir, i);
        pl_datum_proto_write(&buf, s->model->graph->inputs[i]->name, s->in[i]);
        const pl_status st = pl_buf_ok(&buf) ? write_file(path, &buf, err) : pl_fail_memory(err, 1);
        pl_buf_release(&buf);
        PL_TRY(st);
    }
    return PL_OK;
}

/* Writes the candidate; `model` is its file. */
static pl_status write_candidate(pl_oracle *o, pl_mini_state *s, const char *dir, const char *model,
                                 pl_err *err) {
    const check *c = o->self;
    pl_buf whole = PL_BUF_INIT;
    char data[4096];
    PL_TRY(pl_oracle_bytes(o, s, err));
    pl_status st = pl_mini_weights_attach(o->weights, s, o->m->work, &o->bytes, &whole, err);
    if (st == PL_OK && c->wants_dir) {
        snprintf(data, sizeof(data), "%s/test_data_set_0", dir);
        st = pl_path_make_dirs(data, err);
        if (st == PL_OK) st = write_inputs(s, data, err);
        if (st == PL_OK) st = pl_mini_weights_link(o->weights, o->m->work, dir, err);
    }
    if (st == PL_OK) st = write_file(model, &whole, err);
    pl_buf_release(&whole);
    return st;
}

void pl_check_put_command(pl_buf *out, const char *command) {
    char quote = '\0';
    for (const char *at = command; *at != '\0'; at++) {
        const bool model = strncmp(at, "{model}", 7) == 0;
        if (model || strncmp(at, "{dir}", 5) == 0) {
            const char *around = quote == '\'' ? "'\"" : quote == '"' ? "" : "\"";
            pl_buf_puts(out, around);
            pl_buf_puts(out, model ? "${plumb_model}" : "${plumb_dir}");
            pl_buf_puts(out, quote == '\'' ? "\"'" : around);
            at += model ? 6 : 4;
            continue;
        }
        pl_buf_putc(out, *at);
        if (*at == '\\' && quote != '\'' && at[1] != '\0') {
            pl_buf_putc(out, *++at);
        } else if (quote == '\0' && (*at == '\'' || *at == '"')) {
            quote = *at;
        } else if (*at == quote) {
            quote = '\0';
        }
    }
}

static bool regex_matches(const check *c, const pl_process_result *r) {
    return regexec(&c->regex, pl_buf_str(&r->out), 0, NULL, 0) == 0 ||
           regexec(&c->regex, pl_buf_str(&r->err), 0, NULL, 0) == 0;
}

static pl_status read_result(pl_oracle *o, const pl_process_result *r, pl_observed *out,
                             pl_err *err) {
    const check *c = o->self;
    pl_signature s;
    pl_signature_init(&s);
    const char *text = r->err.n_bytes > 0 ? pl_buf_str(&r->err) : pl_buf_str(&r->out);
    const size_t n = strlen(text);
    snprintf(s.text, sizeof(s.text), "%s",
             n >= sizeof(s.text) ? text + n - sizeof(s.text) + 1 : text);
    if (r->timed_out) {
        s.kind = PL_FAIL_TIMEOUT;
        return pl_observed_add(out, &s, err);
    }
    if (r->signal == 0 && r->exit_code == CANNOT_TELL) {
        out->invalid = true;
        snprintf(out->why, sizeof(out->why), "the check was inconclusive (exit code %d)",
                 CANNOT_TELL);
        return PL_OK;
    }
    if (r->signal == 0 && (r->exit_code == 126 || r->exit_code == 127)) { /* the shell's own */
        return pl_fail(err, PL_E_NOT_FOUND, "cannot run the check: %.300s", s.text);
    }
    s.kind = PL_FAIL_CHECK;
    s.number = r->signal != 0 ? 128 + r->signal : r->exit_code;
    const int wanted = o->m->options->fail_code;
    bool fails = wanted >= 0 ? s.number == wanted : s.number != 0;
    if (c->has_regex) {
        fails = regex_matches(c, r) && (wanted < 0 || s.number == wanted);
        s.number = 0; /* the text decides */
    }
    return fails ? pl_observed_add(out, &s, err) : PL_OK;
}

static pl_status ask(pl_oracle *o, const char *model, const char *dir, pl_observed *out,
                     pl_err *err) {
    const check *c = o->self;
    pl_buf command = PL_BUF_INIT;
    pl_process_result result = { 0 };
    pl_buf_puts(&command, "plumb_model=");
    pl_escape_put(&command, PL_ESCAPE_SHELL, model);
    pl_buf_puts(&command, " plumb_dir=");
    pl_escape_put(&command, PL_ESCAPE_SHELL, dir);
    pl_buf_puts(&command, "; ");
    pl_check_put_command(&command, c->command);
    const char *const argv[] = { "/bin/sh", "-c", pl_buf_str(&command), NULL };
    /* A speculative command ends with its process group. Ours has a group of its own, which a
     * time-out or an interrupt (pl_process_abandon) ends: a shell that is interrupted while it
     * starts a program leaves that program behind. */
    const double given = o->m->options->timeout, left = pl_mini_seconds_left(o->m);
    const bool limited = given > 0 || o->m->options->max_time > 0;
    const pl_process_options options = { .env = c->env,
                                         .timeout_seconds = !limited                    ? 0
                                                            : given > 0 && given < left ? given
                                                                                        : left,
                                         .in_our_group = pl_ahead_is_scout(o->m->ahead),
                                         .progress = o->m->options->progress };
    const double since = pl_api_seconds(), cpu_since = pl_mini_cpu_seconds();
    pl_status st =
        pl_buf_ok(&command) ? pl_process_run(argv, &options, &result, err) : pl_fail_memory(err, 1);
    o->oracle_seconds += pl_api_seconds() - since;
    o->oracle_cpu_seconds += pl_mini_cpu_seconds() - cpu_since;
    if (st == PL_OK) st = read_result(o, &result, out, err);
    pl_process_result_release(&result);
    pl_buf_release(&command);
    return st;
}

/* A new name each time: overwriting a file makes ext4 wait for the disk. */
static void next_name(pl_oracle *o, char *out, size_t n_out) {
    check *c = o->self;
    snprintf(out, n_out, "%s/candidate_%ld_%zu.onnx", o->m->work, (long)getpid(), c->n_asked++);
}

static pl_status observe_bytes(pl_oracle *o, const pl_buf *bytes, pl_observed *out, pl_err *err) {
    char model[4096];
    next_name(o, model, sizeof(model));
    PL_TRY(write_file(model, bytes, err));
    const pl_status st = ask(o, model, o->m->work, out, err);
    unlink(model);
    return st;
}

static pl_status observe(pl_oracle *o, pl_mini_state *state, pl_observed *out, pl_err *err) {
    check *c = o->self;
    char dir[3900], model[4096];
    if (state->file != NULL && !c->wants_dir) return ask(o, state->file, o->m->work, out, err);
    if (!c->wants_dir) {
        next_name(o, model, sizeof(model));
        PL_TRY(write_candidate(o, state, o->m->work, model, err));
        const pl_status st = ask(o, model, o->m->work, out, err);
        unlink(model);
        return st;
    }
    snprintf(dir, sizeof(dir), "%s/q%ld_%zu", o->m->work, (long)getpid(), c->n_asked++);
    snprintf(model, sizeof(model), "%s/model.onnx", dir);
    PL_TRY(pl_path_make_dirs(dir, err));
    pl_status st = write_candidate(o, state, dir, model, err);
    if (st == PL_OK) st = ask(o, model, dir, out, err);
    pl_dir_remove(dir, NULL);
    return st;
}

static const pl_oracle_row row = { "check", observe, release, observe_bytes, NULL };

pl_status pl_oracle_check_new(pl_mini *m, pl_oracle **out, pl_err *err) {
    const char *command = m->options->check;
    check *c = pl_calloc(1, sizeof(*c));
    if (c == NULL) return pl_fail_memory(err, sizeof(*c));
    c->command = command;
    c->wants_dir = strstr(command, "{dir}") != NULL;
    pl_status st = PL_OK;
    if (!c->wants_dir && strstr(command, "{model}") == NULL) {
        st = pl_fail(err, PL_E_USAGE, "option 'check' is '%s', expected {model} or {dir} in it",
                     command);
    } else if (m->options->fail_regex != NULL) {
        const int bad = regcomp(&c->regex, m->options->fail_regex, REG_EXTENDED | REG_NOSUB);
        c->has_regex = bad == 0;
        if (bad != 0) {
            st = pl_fail(err, PL_E_USAGE, "option 'fail-regex' '%s' is not a regular expression",
                         m->options->fail_regex);
        }
    }
    if (st == PL_OK) st = make_env(c, err);
    if (st == PL_OK) st = pl_oracle_new(m, &row, c, out, err);
    if (st != PL_OK) {
        if (c->has_regex) regfree(&c->regex);
        pl_free(c->env);
        pl_free(c);
    }
    return st;
}
