/* What a child of plumb-guard does: open, compile, run, answer. */
#include "backends/guard/guard_child.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend_int.h"
#include "backends/guard/guard_msg.h"
#include "backends/guard/guard_parcel.h"
#include "base/alloc.h"
#include "kernels/cpu.h"

typedef struct child {
    int socket;
    pl_backend *warm; /* inherited */
    pl_backend *backend;
    pl_program *program;
    void *model; /* private mapping of the model's bytes */
    size_t n_model;
    pl_parcel names; /* inputs, then outputs */
    const char **name_list;
    plumb_source source;
    char path[PL_GUARD_TEXT];
} child;

uint64_t pl_guard_count_threads(void) {
    struct stat info;
    /* a link for itself, one for its parent, one for each thread */
    return stat("/proc/self/task", &info) == 0 && info.st_nlink > 2 ? info.st_nlink - 2 : 0;
}

static pl_status do_open(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    if (c->warm != NULL && strcmp(pl_backend_spec(c->warm), m->text) == 0) {
        c->backend = c->warm;
    } else {
        PL_TRY(pl_backend_open(m->text, NULL, &c->backend, err));
    }
    reply->number[0] = pl_guard_count_threads();
    reply->number[1] = pl_cpu_features();
    const char *const *modes = pl_backend_record_modes(c->backend);
    /* version, a line end, modes separated by commas */
    int n = snprintf(reply->text, sizeof(reply->text), "%s\n", pl_backend_version(c->backend));
    for (size_t i = 0; modes[i] != NULL && n > 0 && n < PL_GUARD_TEXT / 2; i++) {
        n += snprintf(reply->text + n, sizeof(reply->text) - (size_t)n, "%s%s", i > 0 ? "," : "",
                      modes[i]);
    }
    return PL_OK;
}

/* Copy on write: a backend that writes to the model changes its own copy, and the hash tells. */
static pl_status map_model(child *c, int fd, pl_err *err) {
    struct stat info;
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size <= 0) {
        return pl_fail(err, PL_E_INTERNAL, "the guarded child received no model");
    }
    c->n_model = (size_t)info.st_size;
    c->model = mmap(NULL, c->n_model, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (c->model == MAP_FAILED) {
        c->model = NULL;
        return pl_fail_memory(err, c->n_model);
    }
    return PL_OK;
}

static pl_status do_compile(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    if (c->backend == NULL || c->program != NULL) {
        return pl_fail(err, PL_E_INTERNAL, "unexpected message: compile");
    }
    PL_TRY(map_model(c, m->fds[0], err));
    PL_TRY(pl_parcel_read(m->fds[1], false, &c->names, err));
    const size_t n_in = (size_t)m->number[5];
    if (n_in > c->names.n_items) return pl_fail(err, PL_E_INTERNAL, "names are missing");
    c->name_list = pl_calloc(c->names.n_items + 1, sizeof(char *));
    if (c->name_list == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < c->names.n_items; i++)
        c->name_list[i] = c->names.items[i].name;
    snprintf(c->path, sizeof(c->path), "%s", m->text);
    c->source = (plumb_source){ .onnx = c->model,
                                .n_onnx = c->n_model,
                                .path = m->number[4] != 0 ? c->path : NULL,
                                .inputs = c->name_list,
                                .n_inputs = n_in,
                                .outputs = c->name_list + n_in,
                                .n_outputs = c->names.n_items - n_in,
                                .seed = m->number[0],
                                .threads = (int)m->number[1],
                                .any_shape = m->number[2] != 0,
                                .record = m->number[3] != 0 };
    PL_TRY(pl_program_of_source(c->backend, &c->source, &c->program, err));
    reply->number[0] = pl_program_hooks(c->program);
    return PL_OK;
}

/* Sends one recorded value. */
static plumb_status send_value(void *ctx, const plumb_seen *seen, plumb_error *error) {
    child *c = ctx;
    pl_err *err = error;
    pl_guard_msg m = PL_GUARD_MSG(PL_MSG_VALUE);
    const size_t n = (seen->stands_for == NULL ? 0 : seen->n_stands_for) + 1;
    m.number[0] = seen->stands_for != NULL;
    pl_parcel_item *items = pl_calloc(n, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, n);
    items[0] =
        (pl_parcel_item){ (char *)(uintptr_t)seen->name, (pl_datum *)(uintptr_t)seen->datum };
    for (size_t i = 1; i < n; i++)
        items[i].name = (char *)(uintptr_t)seen->stands_for[i - 1];
    const pl_status st = pl_parcel_write(items, n, &m.fds[0], err);
    pl_free(items);
    if (st != PL_OK) return st;
    const int error_number = pl_guard_send(c->socket, &m, 0);
    pl_guard_msg_close(&m);
    if (error_number != 0) _exit(0); /* plumb has closed the connection */
    return PLUMB_OK;
}

static pl_status write_outputs(const child *c, pl_datum **out, pl_guard_msg *reply, pl_err *err) {
    const size_t n = c->source.n_outputs;
    pl_parcel_item *items = pl_calloc(n + 1, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++) {
        items[i] = (pl_parcel_item){ (char *)(uintptr_t)c->source.outputs[i], out[i] };
    }
    const pl_status st = pl_parcel_write(items, n, &reply->fds[0], err);
    pl_free(items);
    return st;
}

/* Private bytes of this process, counted as the guard does; 0 when unknown. */
static uint64_t own_memory(void) {
    static const char *const keys[] = { "RssAnon:", "RssShmem:" };
    char text[4096];
    uint64_t sum = 0;
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return 0;
    text[n] = '\0';
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *at = strstr(text, keys[i]);
        if (at != NULL) sum += strtoull(at + strlen(keys[i]), NULL, 10) << 10;
    }
    return sum;
}

/* Bytes of recorded values to hold at once: the requested limit and what the guard leaves. A
 * recording may load the model once more, and a value is copied on its way out. */
static uint64_t record_limit(const child *c, uint64_t asked, uint64_t guard_limit) {
    if (guard_limit == 0) return asked;
    const uint64_t used = own_memory() + c->n_model + c->n_model / 4;
    const uint64_t left = guard_limit > used ? (guard_limit - used) / 2 : 1;
    return asked == 0 || asked > left ? left : asked;
}

/* The parcel holds inputs, then the plain outputs (or none), then wanted names. */
static pl_status run_parcel(child *c, const pl_guard_msg *m, const pl_parcel *parcel,
                            pl_datum **data, pl_datum **out, plumb_record_info *info, pl_err *err) {
    const size_t n_in = c->source.n_inputs, n_out = c->source.n_outputs;
    const size_t n_plain = m->number[4] != 0 ? n_out : 0;
    if (parcel->n_items < n_in + n_plain || m->number[0] != n_in) {
        return pl_fail(err, PL_E_INTERNAL, "inputs are missing");
    }
    const size_t n_names = parcel->n_items - n_in - n_plain;
    const char **names = pl_calloc(n_names + 1, sizeof(char *));
    if (names == NULL) return pl_fail_memory(err, n_names);
    for (size_t i = 0; i < parcel->n_items; i++)
        data[i] = parcel->items[i].datum;
    for (size_t i = 0; i < n_names; i++)
        names[i] = parcel->items[n_in + n_plain + i].name;
    const plumb_hook hook = {
        .value = send_value, .ctx = c, .names = m->number[5] != 0 ? names : NULL, .n_names = n_names
    };
    const bool recording = m->number[1] != 0;
    const plumb_run_args args = {
        .in = (const plumb_datum *const *)data,
        .n_in = n_in,
        .out = (plumb_datum **)out,
        .n_out = n_out,
        .hook = recording ? &hook : NULL,
        .mode = (size_t)m->number[2],
        .plain = n_plain > 0 ? (const plumb_datum *const *)(data + n_in) : NULL,
        .memory_limit = recording ? record_limit(c, m->number[3], m->number[6]) : 0,
        .record = recording ? info : NULL
    };
    const pl_status st = pl_program_run_args(c->program, &args, err);
    pl_free(names);
    return st;
}

static pl_status do_run(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    pl_parcel parcel = { 0 };
    plumb_record_info info = { 0 };
    if (c->program == NULL)
        return pl_fail(err, PL_E_INTERNAL, "unexpected message: run before compile");
    PL_TRY(pl_parcel_read(m->fds[0], true, &parcel, err));
    const size_t n_out = c->source.n_outputs;
    pl_datum **data = pl_calloc(parcel.n_items + 1, sizeof(pl_datum *));
    pl_datum **out = pl_calloc(n_out + 1, sizeof(pl_datum *));
    pl_status st = data == NULL || out == NULL ? pl_fail_memory(err, n_out) : PL_OK;
    if (st == PL_OK) st = run_parcel(c, m, &parcel, data, out, &info, err);
    if (st == PL_OK && out[n_out] != NULL) { /* beyond the last */
        st = pl_fail(err, PL_E_BACKEND, "backend '%s' returned more than %zu output%s",
                     pl_backend_name(c->backend), n_out, n_out == 1 ? "" : "s");
    }
    if (st == PL_OK) st = write_outputs(c, out, reply, err);
    reply->number[0] = info.n_values;
    reply->number[1] = info.n_seen;
    reply->number[2] = info.n_hidden;
    reply->number[3] = info.n_disturbed;
    reply->number[4] = info.n_runs;
    reply->number[5] = (uint64_t)(info.differs != 0);
    for (size_t i = 0; out != NULL && i < n_out; i++)
        pl_datum_unref(out[i]);
    pl_free(data);
    pl_free(out);
    pl_parcel_release(&parcel);
    return st;
}

static pl_status do_executed(child *c, pl_guard_msg *reply, pl_err *err) {
    pl_bytes onnx = { 0 };
    if (c->program == NULL) return pl_fail(err, PL_E_INTERNAL, "no model is compiled");
    PL_TRY(pl_program_executed(c->program, &onnx, err));
    return pl_parcel_write_bytes(onnx.data, onnx.n_bytes, &reply->fds[0], err);
}

static pl_status do_supports(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    const char *op = m->text, *domain = op + strlen(op) + 1;
    if (c->backend == NULL) return pl_fail(err, PL_E_INTERNAL, "no backend is open");
    if (domain >= m->text + sizeof(m->text)) return pl_fail(err, PL_E_INTERNAL, "no domain");
    reply->number[0] =
        (uint64_t)(int64_t)pl_backend_supports(c->backend, domain, op, (int)m->number[0]);
    return PL_OK;
}

int pl_guard_child_serve(int socket, pl_backend *warm) {
    child c = { .socket = socket, .warm = warm };
    for (;;) {
        pl_guard_msg m, reply = PL_GUARD_MSG(PL_MSG_REPLY);
        pl_err err = PL_ERR_INIT;
        pl_status st;
        if (pl_guard_receive(socket, &m, 0) != 0) return 0;
        switch (m.type) {
        case PL_MSG_OPEN: st = do_open(&c, &m, &reply, &err); break;
        case PL_MSG_COMPILE: st = do_compile(&c, &m, &reply, &err); break;
        case PL_MSG_RUN: st = do_run(&c, &m, &reply, &err); break;
        case PL_MSG_EXECUTED: st = do_executed(&c, &reply, &err); break;
        case PL_MSG_SUPPORTS: st = do_supports(&c, &m, &reply, &err); break;
        default: st = pl_fail(&err, PL_E_INTERNAL, "unknown message %u", m.type); break;
        }
        pl_guard_msg_close(&m);
        reply.status = (int32_t)st;
        if (st != PL_OK) {
            snprintf(reply.text, sizeof(reply.text), "%s", err.message);
            pl_guard_msg_close(&reply);
        }
        const int error = pl_guard_send(socket, &reply, 0);
        pl_guard_msg_close(&reply);
        if (error != 0) return 0;
    }
}
