/* A child of plumb-guard: opens, compiles, runs and replies. */
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
#include "base/arena.h"
#include "base/hash.h"
#include "base/strmap.h"
#include "kernels/cpu.h"

typedef struct child {
    int socket;
    bool confined;    /* Landlock and seccomp are active */
    bool limited;     /* in a cgroup of the guard */
    bool gave_back;   /* memory that compiling left free */
    pl_backend *warm; /* inherited */
    pl_backend *backend;
    pl_program *program;
    void *model; /* private mapping of the model's bytes */
    size_t n_model;
    pl_parcel names; /* inputs, then outputs */
    const char **name_list;
    uint64_t again;    /* pl_again of this run */
    pl_strmap records; /* name -> record: values of the last recording */
    pl_arena *arena;   /* of records */
    plumb_source source;
    char path[sizeof(((pl_msg_compile *)0)->path)];
} child;

uint64_t pl_guard_count_threads(void) {
    struct stat info;
    /* one link for itself, one for its parent, one for each thread */
    return stat("/proc/self/task", &info) == 0 && info.st_nlink > 2 ? info.st_nlink - 2 : 0;
}

static pl_status do_open(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    if (m->open.must_confine != 0 && !c->confined) /* before anything foreign is loaded */
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "the sandbox is required, and plumb-guard was not asked for it");
    if (c->warm != NULL && strcmp(pl_backend_spec(c->warm), m->open.spec) == 0) {
        c->backend = c->warm;
    } else {
        PL_TRY(pl_backend_open(m->open.spec, NULL, &c->backend, err));
    }
    pl_guard_msg_init(reply, PL_MSG_OPENED);
    pl_msg_opened *opened = &reply->opened;
    opened->n_threads = pl_guard_count_threads();
    opened->cpu = pl_cpu_features();
    opened->confined = c->confined;
    opened->limited = c->limited;
    (void)PL_GUARD_SET(opened->version, pl_backend_version(c->backend));
    (void)PL_GUARD_SET(opened->device, pl_backend_device(c->backend));
    const char *const *modes = pl_backend_record_modes(c->backend);
    size_t n = 0;
    for (size_t i = 0; modes[i] != NULL && n < sizeof(opened->modes); i++) {
        const int added = snprintf(opened->modes + n, sizeof(opened->modes) - n, "%s%s",
                                   i > 0 ? "," : "", modes[i]);
        if (added < 0) break;
        n += (size_t)added;
    }
    return PL_OK;
}

/* Copy on write: a backend that writes to the model changes its own copy, and the hash shows it. */
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

/* ---- recorded values ---- */

typedef struct record { /* what a value was, padding included */
    pl_hash128 hash;
    int64_t dtype, rank, dims[PL_RANK_MAX];
} record;

enum { RECORD_MIN = 1 << 16 }; /* bytes; smaller values are sent again */

static void forget_records(child *c) {
    pl_strmap_release(&c->records);
    pl_arena_free(c->arena);
    c->records = (pl_strmap)PL_STRMAP_INIT;
    c->arena = NULL;
}

static bool record_of(const pl_datum *d, record *out) {
    if (d == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->dtype == PL_STRING ||
        !pl_tensor_is_contiguous(d->tensor) || pl_tensor_bytes(d->tensor) < RECORD_MIN)
        return false;
    const pl_tensor *t = d->tensor;
    memset(out, 0, sizeof(*out));
    out->hash = pl_hash128_of(t->data, pl_tensor_bytes(t));
    out->dtype = (int64_t)t->dtype;
    out->rank = t->rank;
    memcpy(out->dims, t->dims, (size_t)t->rank * sizeof(int64_t));
    return true;
}

static void remember(child *c, const char *name, const record *now) {
    if (c->arena == NULL) c->arena = pl_arena_new();
    record *kept = c->arena == NULL ? NULL : pl_arena_array(c->arena, 1, sizeof(record));
    const char *key = kept == NULL ? NULL : pl_arena_strdup(c->arena, name);
    if (key == NULL) return; /* then it is sent again */
    *kept = *now;
    (void)pl_strmap_put(&c->records, key, kept);
}

/* Is it what the last recording had under this name? */
static bool is_same(child *c, const char *name, const pl_datum *d) {
    record now;
    if (c->again == PL_AGAIN_NONE || !record_of(d, &now)) return false;
    if (c->again == PL_AGAIN_REMEMBER) {
        remember(c, name, &now);
        return false;
    }
    const record *before = pl_strmap_get(&c->records, name);
    return before != NULL && memcmp(before, &now, sizeof(now)) == 0;
}

/* ---- programs ---- */

/* Forgets the last program of a backend that stays open. */
static void drop_program(child *c) {
    pl_program_free(c->program);
    c->program = NULL;
    if (c->model != NULL) munmap(c->model, c->n_model);
    c->model = NULL;
    forget_records(c);
    pl_parcel_release(&c->names);
    c->names = (pl_parcel){ 0 };
    pl_free(c->name_list);
    c->name_list = NULL;
}

static pl_status do_compile(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    if (c->backend != NULL && pl_backend_stays_open(c->backend)) drop_program(c);
    if (c->backend == NULL || c->program != NULL) {
        return pl_fail(err, PL_E_INTERNAL, "unexpected message: compile");
    }
    PL_TRY(map_model(c, m->fds[0], err));
    PL_TRY(pl_parcel_read(m->fds[1], false, &c->names, err));
    const size_t n_in = (size_t)m->compile.n_inputs;
    if (n_in > c->names.n_items) return pl_fail(err, PL_E_INTERNAL, "names are missing");
    c->name_list = pl_calloc(c->names.n_items + 1, sizeof(char *));
    if (c->name_list == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < c->names.n_items; i++)
        c->name_list[i] = c->names.items[i].name;
    (void)PL_GUARD_SET(c->path, m->compile.path);
    c->source = (plumb_source){ .onnx = c->model,
                                .n_onnx = c->n_model,
                                .path = m->compile.has_path != 0 ? c->path : NULL,
                                .inputs = c->name_list,
                                .n_inputs = n_in,
                                .outputs = c->name_list + n_in,
                                .n_outputs = c->names.n_items - n_in,
                                .seed = m->compile.seed,
                                .threads = (int)m->compile.threads,
                                .any_shape = m->compile.any_shape != 0,
                                .record = m->compile.record != 0 };
    if (c->source.record != 0) pl_alloc_keep_large();
    PL_TRY(pl_program_of_source(c->backend, &c->source, &c->program, err));
    pl_guard_msg_init(reply, PL_MSG_COMPILED);
    reply->compiled.n_hooks = pl_program_hooks(c->program);
    return PL_OK;
}

/* Sends one recorded value. */
static plumb_status send_value(void *ctx, const plumb_seen *seen, plumb_error *error) {
    child *c = ctx;
    pl_err *err = error;
    pl_guard_msg m;
    pl_guard_msg_init(&m, PL_MSG_VALUE);
    const size_t n = (seen->stands_for == NULL ? 0 : seen->n_stands_for) + 1;
    m.value.maps = seen->stands_for != NULL;
    m.value.same = is_same(c, seen->name, pl_datum_of(seen->datum));
    pl_parcel_item *items = pl_calloc(n, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, n);
    items[0] = (pl_parcel_item){ (char *)(uintptr_t)seen->name,
                                 m.value.same != 0 ? NULL : (pl_datum *)(uintptr_t)seen->datum };
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

/* Bytes of recorded values to hold at once: the requested limit, or what the guard's memory limit
 * leaves. A recording may load the model once more, and sending a value copies it. */
static uint64_t record_limit(const child *c, uint64_t asked, uint64_t guard_limit) {
    if (guard_limit == 0) return asked;
    const uint64_t used = own_memory() + c->n_model + c->n_model / 4;
    const uint64_t left = guard_limit > used ? (guard_limit - used) / 2 : 1;
    return asked == 0 || asked > left ? left : asked;
}

/* The parcel holds the inputs, then the plain outputs (or none), then the wanted names. */
static pl_status run_parcel(child *c, const pl_guard_msg *m, const pl_parcel *parcel,
                            pl_datum **data, pl_datum **out, plumb_record_info *info, pl_err *err) {
    const size_t n_in = c->source.n_inputs, n_out = c->source.n_outputs;
    const size_t n_plain = m->run.has_plain != 0 ? n_out : 0;
    if (parcel->n_items < n_in + n_plain || m->run.n_in != n_in) {
        return pl_fail(err, PL_E_INTERNAL, "inputs are missing");
    }
    const size_t n_names = parcel->n_items - n_in - n_plain;
    const char **names = pl_calloc(n_names + 1, sizeof(char *));
    if (names == NULL) return pl_fail_memory(err, n_names);
    for (size_t i = 0; i < parcel->n_items; i++)
        data[i] = parcel->items[i].datum;
    for (size_t i = 0; i < n_names; i++)
        names[i] = parcel->items[n_in + n_plain + i].name;
    const plumb_hook hook = { .value = send_value,
                              .ctx = c,
                              .names = m->run.has_names != 0 ? names : NULL,
                              .n_names = n_names };
    const bool recording = m->run.recording != 0;
    const plumb_run_args args = {
        .in = (const plumb_datum *const *)data,
        .n_in = n_in,
        .out = (plumb_datum **)out,
        .n_out = n_out,
        .hook = recording ? &hook : NULL,
        .mode = (size_t)m->run.mode,
        .plain = n_plain > 0 ? (const plumb_datum *const *)(data + n_in) : NULL,
        .memory_limit = recording ? record_limit(c, m->run.value_limit, m->run.guard_limit) : 0,
        .record = recording ? info : NULL
    };
    const pl_status st = pl_program_run_args(c->program, &args, err);
    if (recording && !c->gave_back) pl_alloc_give_back();
    c->gave_back = c->gave_back || recording;
    pl_free(names);
    return st;
}

static pl_status do_run(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    pl_parcel parcel = { 0 };
    plumb_record_info info = { 0 };
    pl_guard_msg_init(reply, PL_MSG_RAN);
    if (c->program == NULL)
        return pl_fail(err, PL_E_INTERNAL, "unexpected message: run before compile");
    PL_TRY(pl_parcel_read(m->fds[0], true, &parcel, err));
    c->again = m->run.again;
    if (c->again == PL_AGAIN_REMEMBER) forget_records(c);
    const size_t n_out = c->source.n_outputs;
    pl_datum **data = pl_calloc(parcel.n_items + 1, sizeof(pl_datum *));
    pl_datum **out = pl_calloc(n_out + 1, sizeof(pl_datum *));
    pl_status st = data == NULL || out == NULL ? pl_fail_memory(err, n_out) : PL_OK;
    if (st == PL_OK) st = run_parcel(c, m, &parcel, data, out, &info, err);
    if (st == PL_OK && out[n_out] != NULL) { /* one slot too many was filled */
        st = pl_fail(err, PL_E_BACKEND, "backend '%s' returned more than %zu output%s",
                     pl_backend_name(c->backend), n_out, n_out == 1 ? "" : "s");
    }
    if (st == PL_OK) st = write_outputs(c, out, reply, err);
    const pl_run_times times = pl_program_times(c->program);
    reply->ran = (pl_msg_ran){ .n_values = info.n_values,
                               .n_seen = info.n_seen,
                               .n_hidden = info.n_hidden,
                               .n_disturbed = info.n_disturbed,
                               .n_runs = info.n_runs,
                               .differs = (uint64_t)(info.differs != 0),
                               .submit_ns = times.submit_ns,
                               .wait_ns = times.wait_ns };
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
    pl_guard_msg_init(reply, PL_MSG_GRAPH);
    return pl_parcel_write_bytes(onnx.data, onnx.n_bytes, &reply->fds[0], err);
}

static pl_status do_places(child *c, pl_guard_msg *reply, pl_err *err) {
    const char *text = "";
    if (c->program == NULL) return pl_fail(err, PL_E_INTERNAL, "no model is compiled");
    PL_TRY(pl_program_placement(c->program, &text, err));
    pl_guard_msg_init(reply, PL_MSG_PLACES);
    return pl_parcel_write_bytes(text, strlen(text) + 1, &reply->fds[0], err);
}

static pl_status do_supports(child *c, const pl_guard_msg *m, pl_guard_msg *reply, pl_err *err) {
    const pl_msg_supports *asked = &m->supports;
    if (c->backend == NULL) return pl_fail(err, PL_E_INTERNAL, "no backend is open");
    pl_guard_msg_init(reply, PL_MSG_SUPPORTED);
    reply->supported.answer = (uint64_t)(int64_t)pl_backend_supports(c->backend, asked->domain,
                                                                     asked->op, (int)asked->opset);
    return PL_OK;
}

int pl_guard_child_serve(int socket, pl_backend *warm, bool confined, bool limited) {
    child c = { .socket = socket, .warm = warm, .confined = confined, .limited = limited };
    for (;;) {
        pl_guard_msg m, reply;
        pl_err err = PL_ERR_INIT;
        pl_status st;
        pl_guard_msg_init(&reply, PL_MSG_NONE);
        if (pl_guard_receive(socket, &m, 0) != 0) return 0;
        switch (m.type) {
        case PL_MSG_OPEN: st = do_open(&c, &m, &reply, &err); break;
        case PL_MSG_COMPILE: st = do_compile(&c, &m, &reply, &err); break;
        case PL_MSG_RUN: st = do_run(&c, &m, &reply, &err); break;
        case PL_MSG_TELL_GRAPH: st = do_executed(&c, &reply, &err); break;
        case PL_MSG_TELL_PLACES: st = do_places(&c, &reply, &err); break;
        case PL_MSG_SUPPORTS: st = do_supports(&c, &m, &reply, &err); break;
        default: st = pl_fail(&err, PL_E_INTERNAL, "unknown message %u", (unsigned)m.type); break;
        }
        pl_guard_msg_close(&m);
        if (st != PL_OK) {
            pl_guard_msg_close(&reply);
            pl_guard_msg_init(&reply, PL_MSG_FAILED);
            reply.failed.status = (uint64_t)st;
            (void)PL_GUARD_SET(reply.failed.message, err.message);
        }
        const int error = pl_guard_send(socket, &reply, 0);
        pl_guard_msg_close(&reply);
        if (error != 0) return 0;
    }
}
