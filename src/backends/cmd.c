/* cmd: any program as a backend.
 *
 * It is called as PROGRAM DIR. DIR has model.onnx and test_data_set_0/input_N.pb; the program
 * leaves output_N.pb there or in DIR, optionally DIR/intermediates.safetensors, and exits 0. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend_int.h"
#include "base/alloc.h"
#include "base/door.h"
#include "base/process.h"
#include "onnx/onnx.h"
#include "tensor/file/tensor_file.h"
#include "tensor/file/tensor_proto.h"

typedef struct cmd_program {
    const char *program; /* of the backend */
    char *dir;           /* scratch */
    pl_dir *held;        /* the same, held open: files that the program writes are untrusted */
    pl_model *model;     /* for the types of its outputs */
    const plumb_source *source;
} cmd_program;

static plumb_status cmd_open(const plumb_host *host, const plumb_option *options, size_t n,
                             void **self, plumb_error *error) {
    (void)host;
    pl_err *err = error;
    const char *program = pl_option_value(options, n, "");
    if (strchr(program, '/') != NULL && access(program, X_OK) != 0) {
        return pl_fail(err, PL_E_NOT_FOUND, "'%s' is not an executable program", program);
    }
    *self = pl_strdup(program);
    return *self == NULL ? pl_fail_memory(err, strlen(program)) : PLUMB_OK;
}

static void cmd_close(void *self) {
    pl_free(self);
}

static void cmd_free(void *program) {
    cmd_program *p = program;
    if (p == NULL) return;
    pl_dir_close(p->held);
    if (p->dir != NULL) pl_dir_remove(p->dir, NULL);
    pl_model_free(p->model);
    pl_free(p->dir);
    pl_free(p);
}

#define DATA "test_data_set_0/"

/* The program would not find external data from the scratch folder, so it is embedded in the
 * file. */
static pl_status write_model(const cmd_program *p, const plumb_source *s, pl_err *err) {
    if (s->path == NULL || memmem(s->onnx, s->n_onnx, "location", 8) == NULL) {
        return pl_dir_write(p->held, "model.onnx", s->onnx, s->n_onnx, err);
    }
    pl_buf bytes = PL_BUF_INIT;
    pl_status st = pl_model_serialize(p->model, &bytes, err);
    if (st == PL_OK && !pl_buf_ok(&bytes)) st = pl_fail_memory(err, bytes.n_bytes);
    if (st == PL_OK) st = pl_dir_write(p->held, "model.onnx", bytes.data, bytes.n_bytes, err);
    pl_buf_release(&bytes);
    return st;
}

static pl_status prepare(cmd_program *p, const plumb_source *s, pl_err *err) {
    char *folder = s->path == NULL ? NULL : pl_path_dirname(s->path);
    const pl_bytes bytes = { s->onnx, s->n_onnx };
    const pl_status st = pl_model_read_bytes(bytes, NULL, folder, "model", &p->model, err);
    pl_free(folder);
    PL_TRY(st);
    PL_TRY(pl_dir_temporary(&p->dir, err));
    PL_TRY(pl_dir_open(p->dir, &p->held, err));
    PL_TRY(pl_dir_make(p->held, "test_data_set_0", err));
    return write_model(p, s, err);
}

static plumb_status cmd_compile(void *self, const plumb_source *source, void **program,
                                size_t *n_hooks, plumb_error *error) {
    cmd_program *p = pl_calloc(1, sizeof(*p));
    (void)n_hooks;
    if (p == NULL) return pl_fail_memory(error, sizeof(*p));
    p->program = self;
    p->source = source;
    const pl_status st = prepare(p, source, error);
    if (st == PL_OK) {
        *program = p;
    } else {
        cmd_free(p);
    }
    return st;
}

/* Removes the files of an earlier run, which may have failed. */
static void remove_results(const cmd_program *p, size_t n_out) {
    for (size_t i = 0; i <= n_out; i++) {
        char name[64];
        snprintf(name, sizeof(name), DATA "output_%zu.pb", i);
        (void)pl_dir_unlink(p->held, name, NULL);
        (void)pl_dir_unlink(p->held, name + strlen(DATA), NULL);
    }
    (void)pl_dir_unlink(p->held, "intermediates.safetensors", NULL);
}

static pl_status write_inputs(const cmd_program *p, const plumb_run_args *args, pl_err *err) {
    for (size_t i = 0; i < args->n_in; i++) {
        char name[64];
        pl_buf bytes = PL_BUF_INIT;
        snprintf(name, sizeof(name), DATA "input_%zu.pb", i);
        if (args->in[i] == NULL) {
            (void)pl_dir_unlink(p->held, name, NULL); /* of an earlier run */
            continue;
        }
        pl_datum_proto_write(&bytes, p->source->inputs[i], pl_datum_of(args->in[i]));
        const pl_status st = pl_buf_ok(&bytes)
                                 ? pl_dir_write(p->held, name, bytes.data, bytes.n_bytes, err)
                                 : pl_fail_memory(err, bytes.n_bytes);
        pl_buf_release(&bytes);
        PL_TRY(st);
    }
    return PL_OK;
}

/* The end of its output, without trailing line breaks. */
static void last_words(const pl_process_result *r, char *out, size_t n_out) {
    const char *said = pl_buf_str(r->err.n_bytes > 0 ? &r->err : &r->out);
    size_t n = strlen(said);
    while (n > 0 && (said[n - 1] == '\n' || said[n - 1] == ' '))
        n--;
    const size_t skip = n >= n_out ? n - n_out + 1 : 0;
    snprintf(out, n_out, "%.*s", (int)(n - skip), said + skip);
}

static pl_status call(const cmd_program *p, pl_err *err) {
    const char *const argv[] = { p->program, p->dir, NULL };
    pl_process_result r;
    pl_status st = pl_process_run(argv, NULL, &r, err);
    if (st == PL_OK && (r.signal != 0 || r.exit_code != 0)) {
        char said[400];
        last_words(&r, said, sizeof(said));
        st = r.signal != 0 ? pl_fail(err, PL_E_BACKEND, "'%s' was killed by signal %d (%s): %s",
                                     p->program, r.signal, strsignal(r.signal), said)
                           : pl_fail(err, PL_E_BACKEND, "'%s' exited with code %d: %s", p->program,
                                     r.exit_code, said);
    }
    pl_process_result_release(&r);
    return st;
}

/* Looks in test_data_set_0, then in DIR; NULL if it is in neither. */
static const char *find_output(const cmd_program *p, size_t i, char name[64]) {
    snprintf(name, 64, DATA "output_%zu.pb", i);
    if (pl_dir_look(p->held, name, NULL) != PL_KIND_NONE) return name;
    name += strlen(DATA);
    return pl_dir_look(p->held, name, NULL) != PL_KIND_NONE ? name : NULL;
}

/* An unreadable output is the program's fault, not the user's. */
static pl_status blame_program(const cmd_program *p, pl_status st, const char *what, pl_err *err) {
    if (st == PL_OK || st == PL_E_MEMORY) return st;
    pl_err_wrap(err, st, "'%s' left %s", p->program, what);
    if (err != NULL) err->status = PL_E_BACKEND;
    return PL_E_BACKEND;
}

static pl_status read_output(const cmd_program *p, size_t i, pl_datum **out, pl_err *err) {
    pl_file_map *map = NULL;
    char buffer[64];
    const char *name = find_output(p, i, buffer);
    if (name == NULL) {
        return pl_fail(err, PL_E_BACKEND, "'%s' wrote no output_%zu.pb (output '%s')", p->program,
                       i, p->source->outputs[i]);
    }
    const pl_type *type = i < p->model->graph->n_outputs ? p->model->graph->outputs[i]->type : NULL;
    char what[40];
    pl_status st = pl_dir_map(p->held, name, &map, err);
    if (st == PL_OK) {
        const pl_bytes bytes = { map->data, map->n_bytes };
        st = pl_datum_proto_read(bytes, NULL, type, out, err);
    }
    pl_file_map_unref(map);
    snprintf(what, sizeof(what), "invalid output_%zu.pb", i);
    return blame_program(p, st, what, err);
}

/* An extra output is as wrong as a missing one. */
static pl_status check_count(const cmd_program *p, size_t n_out, pl_err *err) {
    char name[64];
    if (find_output(p, n_out, name) == NULL) return PL_OK;
    return pl_fail(err, PL_E_BACKEND, "'%s' wrote output_%zu.pb, but the model has %zu output%s",
                   p->program, n_out, n_out, n_out == 1 ? "" : "s");
}

static pl_status show_intermediates(const cmd_program *p, const plumb_run_args *args, pl_err *err) {
    pl_tensor_file file = PL_TENSOR_FILE_INIT;
    static const char name[] = "intermediates.safetensors";
    pl_status st = PL_OK;
    *args->record = (plumb_record_info){ .n_runs = 1 };
    if (pl_dir_look(p->held, name, NULL) != PL_KIND_NONE) {
        st = pl_tensor_file_load_in(p->held, name, NULL, &file, err);
        st = blame_program(p, st, "invalid intermediates", err);
    }
    args->record->n_values = file.n_items;
    for (size_t i = 0; i < file.n_items && st == PL_OK; i++) {
        const plumb_seen seen = { .name = file.items[i].name,
                                  .datum = pl_datum_public(file.items[i].datum) };
        if (!pl_hook_wants(args->hook, seen.name)) continue;
        args->record->n_seen++;
        st = args->hook->value(args->hook->ctx, &seen, err);
    }
    pl_tensor_file_release(&file);
    return st;
}

static plumb_status cmd_run(void *program, const plumb_run_args *args, plumb_error *error) {
    const cmd_program *p = program;
    pl_err *err = error;
    remove_results(p, args->n_out);
    pl_status st = write_inputs(p, args, err);
    if (st == PL_OK) st = call(p, err);
    for (size_t i = 0; i < args->n_out && st == PL_OK; i++)
        st = read_output(p, i, (pl_datum **)&args->out[i], err);
    if (st == PL_OK) st = check_count(p, args->n_out, err);
    if (st != PL_OK || args->hook == NULL) return st;
    if (!pl_is_plain(args, (pl_datum *const *)(uintptr_t)args->out)) {
        *args->record = (plumb_record_info){ .n_runs = 1, .differs = 1 };
        return PLUMB_OK;
    }
    return show_intermediates(p, args, err);
}

static const char *const *cmd_record_modes(void *self) {
    static const char *const modes[] = { "files", NULL };
    (void)self;
    return modes;
}

static const plumb_option_def options[] = {
    { "", "PROGRAM", "a program" },
};

const plumb_backend pl_backend_cmd = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .flags = PLUMB_UNCONFINED | PLUMB_FOREIGN_CODE,
    .name = "cmd",
    .summary = "any program, called as PROGRAM DIR",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = cmd_open,
    .close = cmd_close,
    .compile = cmd_compile,
    .run = cmd_run,
    .record_modes = cmd_record_modes,
    .free = cmd_free,
};
