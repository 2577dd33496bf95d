/* ort: ONNX Runtime behind the vtable. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend_int.h"
#include "backends/ort/ort_widen.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/nearest.h"

enum {
    LOG_ERRORS = 3,
    ALL_OPTIMISATIONS = 99,
    DISABLE_SINCE = 18,
    FOLDER_SINCE = 22,
    PASSES_KNOWN_UNTIL = 30
};

static pl_status add_providers(const pl_ort *ort, void *options, pl_err *err);

/* ---- opening ---- */

static int level_of(const char *opt) {
    if (opt == NULL || strcmp(opt, "all") == 0) return ALL_OPTIMISATIONS;
    return strcmp(opt, "off") == 0 ? 0 : strcmp(opt, "basic") == 0 ? 1 : 2;
}

static void ort_close(void *self) {
    pl_ort *ort = self;
    if (ort == NULL) return;
    const pl_ort_api *api = &ort->env.api;
    if (ort->env.cpu != NULL) api->ReleaseMemoryInfo(ort->env.cpu);
    /* ONNX Runtime 1.27 crashes when it releases an environment whose device could not start. The
     * child is about to end, so the environment and the library stay open. */
    if (ort->env.env != NULL && !ort->device_failed) api->ReleaseEnv(ort->env.env);
    if (!ort->device_failed) pl_ort_api_close(&ort->env.api);
    pl_free(ort->disable);
    pl_free(ort->providers);
    pl_free(ort);
}

static pl_status open_env(pl_ort *ort, const char *lib, pl_err *err) {
    PL_TRY(pl_ort_api_open(lib, &ort->env.api, err));
    const pl_ort_api *api = &ort->env.api;
    PL_TRY(pl_ort_check(api, api->CreateEnv(LOG_ERRORS, "plumb", &ort->env.env), "start", err));
    PL_TRY(pl_ort_check(api, api->CreateCpuMemoryInfo(0, 0, &ort->env.cpu), "start", err));
    return pl_ort_check(api, api->GetAllocatorWithDefaultOptions(&ort->env.allocator), "start",
                        err);
}

/* A copy of a '+' list with another separator; NULL stays NULL. */
static pl_status copy_list(const char *list, char separator, char **out, pl_err *err) {
    *out = NULL;
    if (list == NULL) return PL_OK;
    *out = pl_strdup(list);
    if (*out == NULL) return pl_fail_memory(err, strlen(list));
    for (char *at = *out; *at != '\0'; at++) {
        if (*at == '+') *at = separator;
    }
    return PL_OK;
}

/* Finds the device that a provider needs, and tries it: a provider that cannot start says so here
 * and not in the middle of a run. */
static pl_status open_device(pl_ort *ort, const char *wish, pl_err *err) {
    const pl_ort_api *api = &ort->env.api;
    void *options = NULL;
    if (!pl_ort_device_wanted(ort->providers)) {
        if (wish == NULL) return PL_OK;
        return pl_fail(err, PL_E_USAGE, "device= requires providers=WebGPU");
    }
    pl_ort_device_find(wish, &ort->device);
    const pl_status used = pl_ort_device_use(&ort->device, err);
    if (used != PL_OK) return pl_err_wrap(err, used, "provider 'WebGPU'");
    PL_TRY(pl_ort_check(api, api->CreateSessionOptions(&options), "create options", err));
    const pl_status st = add_providers(ort, options, err);
    ort->device_failed = st != PL_OK;
    api->ReleaseSessionOptions(options);
    return st;
}

static const char *pass_at(const void *ctx, size_t i) {
    (void)ctx;
    return pl_ort_passes[i];
}

/* ONNX Runtime ignores unknown names, so check them. Versions newer than our list may know more. */
static pl_status check_passes(const pl_ort *ort, pl_err *err) {
    if (ort->disable == NULL || ort->env.api.minor > PASSES_KNOWN_UNTIL) return PL_OK;
    for (const char *at = ort->disable; *at != '\0';) {
        const size_t n = strcspn(at, ";");
        bool known = n == 0;
        for (size_t i = 0; !known && pl_ort_passes[i] != NULL; i++)
            known = strlen(pl_ort_passes[i]) == n && strncmp(pl_ort_passes[i], at, n) == 0;
        if (!known) {
            pl_buf hint = PL_BUF_INIT;
            pl_nearest_put(&hint, at, n, pass_at, NULL);
            const pl_status st = pl_fail(err, PL_E_USAGE, "ort has no pass '%.*s'%s",
                                         (int)(n > 100 ? 100 : n), at, pl_buf_str(&hint));
            pl_buf_release(&hint);
            return st;
        }
        at += n + (at[n] == ';');
    }
    return PL_OK;
}

/* A name that is nearly a known one is a slip; others are for ONNX Runtime to know or to refuse. */
static pl_status check_providers(const pl_ort *ort, pl_err *err) {
    static const char *const known[] = { "CPU",           "CUDA", "TensorRT", "XNNPACK",
                                         "WebGPU",        "QNN",  "DML",      "OpenVINO",
                                         "CoreML",        "SNPE", "WEBNN",    "AZURE",
                                         "NvTensorRtRtx", "JS",   "VitisAI",  "MIGraphX" };
    const pl_name_list list = { known, sizeof(known) / sizeof(known[0]) };
    for (const char *at = ort->providers; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, "+");
        const char *near = pl_nearest(at, n, pl_name_at_list, &list);
        if (near != NULL && (strlen(near) != n || strncmp(near, at, n) != 0))
            return pl_fail(err, PL_E_USAGE, "ort has no provider '%.*s'; did you mean '%s'?",
                           (int)(n > 100 ? 100 : n), at, near);
        at += n + (at[n] == '+');
    }
    return PL_OK;
}

/* Options that an old library would silently ignore. */
static pl_status check_options(const pl_ort *ort, pl_err *err) {
    const pl_ort_api *api = &ort->env.api;
    PL_TRY(check_providers(ort, err));
    if (ort->deterministic && api->SetDeterministicCompute == NULL) {
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "ort %s has no deterministic mode (requires 1.18 or later)", api->version);
    }
    if (ort->disable != NULL && api->minor < DISABLE_SINCE) {
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "ort %s cannot disable optimisers by name (requires 1.18 or later)",
                       api->version);
    }
    return check_passes(ort, err);
}

static plumb_status ort_open(const plumb_host *host, const plumb_option *o, size_t n, void **self,
                             plumb_error *error) {
    (void)host;
    pl_err *err = error;
    pl_ort *ort = pl_calloc(1, sizeof(*ort));
    if (ort == NULL) return pl_fail_memory(err, sizeof(*ort));
    ort->level = level_of(pl_option_value(o, n, "opt"));
    ort->threads = (int)pl_option_int(o, n, "threads", -1);
    ort->deterministic = pl_option_value(o, n, "deterministic") != NULL;
    ort->weights_apart = pl_option_value(o, n, "weights-apart") != NULL;
    ort->weights_half = pl_option_value(o, n, "weights-half") != NULL;
    pl_status st = copy_list(pl_option_value(o, n, "disable"), ';', &ort->disable, err);
    if (st == PL_OK) st = copy_list(pl_option_value(o, n, "providers"), '+', &ort->providers, err);
    if (st == PL_OK) st = open_env(ort, pl_option_value(o, n, "lib"), err);
    if (st == PL_OK) st = check_options(ort, err);
    if (st == PL_OK) st = open_device(ort, pl_option_value(o, n, "device"), err);
    if (st == PL_OK) {
        *self = ort;
    } else {
        ort_close(ort);
    }
    return st;
}

static const char *ort_version(void *self) {
    return ((const pl_ort *)self)->env.api.version;
}

static const char *ort_device(void *self) {
    return ((const pl_ort *)self)->device.text;
}

/* ---- sessions ---- */

/* Short names as in the documentation of ONNX Runtime: "CUDA" is CUDAExecutionProvider. */
static pl_status add_provider(const pl_ort *ort, void *options, const char *name, pl_err *err) {
    const pl_ort_api *api = &ort->env.api;
    void *settings = NULL;
    if (strcmp(name, "CPU") == 0) return PL_OK; /* always there, always last */
    if (strcmp(name, "CUDA") == 0) {
        PL_TRY(pl_ort_check(api, api->CreateCUDAProviderOptions(&settings), name, err));
        const pl_status st = pl_ort_check(
            api, api->SessionOptionsAppendExecutionProvider_CUDA_V2(options, settings), name, err);
        api->ReleaseCUDAProviderOptions(settings);
        return st;
    }
    if (strcmp(name, "TensorRT") == 0) {
        PL_TRY(pl_ort_check(api, api->CreateTensorRTProviderOptions(&settings), name, err));
        const pl_status st = pl_ort_check(
            api, api->SessionOptionsAppendExecutionProvider_TensorRT_V2(options, settings), name,
            err);
        api->ReleaseTensorRTProviderOptions(settings);
        return st;
    }
    return pl_ort_check(
        api, api->SessionOptionsAppendExecutionProvider(options, name, NULL, NULL, 0), name, err);
}

static pl_status add_providers(const pl_ort *ort, void *options, pl_err *err) {
    char name[64];
    for (const char *at = ort->providers; at != NULL && *at != '\0';) {
        const size_t n = strcspn(at, "+");
        snprintf(name, sizeof(name), "%.*s", (int)n, at);
        const pl_status st = add_provider(ort, options, name, err);
        if (st != PL_OK) return pl_err_wrap(err, st, "provider '%s'", name);
        at += n + (at[n] == '+');
    }
    return PL_OK;
}

static pl_status disable_passes(const pl_ort *ort, const pl_ort_session_args *args, void *options,
                                pl_err *err) {
    pl_buf names = PL_BUF_INIT;
    if (ort->disable == NULL && args->skip == NULL) return PL_OK;
    pl_buf_printf(&names, "%s%s%s", ort->disable != NULL ? ort->disable : "",
                  ort->disable != NULL && args->skip != NULL ? ";" : "",
                  args->skip != NULL ? args->skip : "");
    const pl_status st =
        !pl_buf_ok(&names) ? pl_fail_memory(err, names.n_bytes)
                           : pl_ort_check(&ort->env.api,
                                          ort->env.api.AddSessionConfigEntry(
                                              options, "optimization.disable_specified_optimizers",
                                              pl_buf_str(&names)),
                                          "set an option", err);
    pl_buf_release(&names);
    return st;
}

static pl_status set_options(const pl_ort *ort, const pl_ort_session_args *args, void *options,
                             pl_err *err) {
    const pl_ort_api *api = &ort->env.api;
#define SET(call) PL_TRY(pl_ort_check(api, api->call, "set an option", err))
    SET(SetSessionLogSeverityLevel(options, LOG_ERRORS));
    SET(SetSessionGraphOptimizationLevel(options, args->level));
    SET(SetIntraOpNumThreads(options, args->threads));
    SET(SetInterOpNumThreads(options, 1));
    if (args->idle) SET(AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
    if (ort->deterministic) SET(SetDeterministicCompute(options, 1));
    if (args->unpacked) SET(AddSessionConfigEntry(options, "session.disable_prepacking", "1"));
    PL_TRY(disable_passes(ort, args, options, err));
    if (args->folder != NULL) {
        SET(AddSessionConfigEntry(options, "session.model_external_initializers_file_folder_path",
                                  args->folder));
    }
    if (args->save_to != NULL) SET(SetOptimizedModelFilePath(options, args->save_to));
    if (args->weights != NULL) {
        SET(AddSessionConfigEntry(
            options, "session.optimized_model_external_initializers_file_name", args->weights));
        SET(AddSessionConfigEntry(
            options, "session.optimized_model_external_initializers_min_size_in_bytes", "1024"));
    }
    if (args->profile != NULL) SET(EnableProfiling(options, args->profile));
#undef SET
    return add_providers(ort, options, err);
}

/* Versions without the option for the folder look for external data of a model in memory in the
 * working directory, which may hold another file of that name. So change to the model's folder.
 * Returns a descriptor of the old directory, or -1 if nothing was done. */
static int enter_folder(const pl_ort *ort, const pl_ort_session_args *args) {
    if (args->path != NULL || args->folder == NULL || ort->env.api.minor >= FOLDER_SINCE) return -1;
    const int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (back < 0 || chdir(args->folder) == 0) return back;
    close(back);
    return -1;
}

static pl_status leave_folder(int back, pl_status st, pl_err *err) {
    if (back < 0) return st;
    if (fchdir(back) != 0 && st == PL_OK) st = pl_fail_errno(err, errno, "go back to", ".");
    close(back);
    return st;
}

pl_status pl_ort_session_new(const pl_ort *ort, const pl_ort_session_args *args, void **out,
                             pl_err *err) {
    const pl_ort_api *api = &ort->env.api;
    void *options = NULL;
    PL_TRY(pl_ort_check(api, api->CreateSessionOptions(&options), "create options", err));
    pl_status st = set_options(ort, args, options, err);
    if (st == PL_OK) {
        const int back = enter_folder(ort, args);
        const pl_ort_status made =
            args->path != NULL
                ? api->CreateSession(ort->env.env, args->path, options, out)
                : api->CreateSessionFromArray(ort->env.env, args->onnx, args->n_onnx, options, out);
        st = leave_folder(back, pl_ort_check(api, made, "compile", err), err);
    }
    api->ReleaseSessionOptions(options);
    return st;
}

static void release_inputs(const pl_ort_env *env, pl_ort_input *inputs, size_t n) {
    for (size_t i = 0; inputs != NULL && i < n; i++)
        pl_ort_input_release(env, &inputs[i]);
    pl_free(inputs);
}

pl_status pl_ort_session_run(const pl_ort_program *p, void *session, const plumb_run_args *args,
                             const char *const *names, size_t n_names, void **values, pl_err *err) {
    const pl_ort_env *env = &p->ort->env;
    const size_t n = args->n_in;
    pl_ort_input *inputs = pl_calloc(n + 1, sizeof(*inputs));
    void **in_values = pl_calloc(n + 1, sizeof(void *));
    const char **in_names = pl_calloc(n + 1, sizeof(char *));
    pl_status st = PL_OK;
    size_t n_given = 0;
    if (inputs == NULL || in_values == NULL || in_names == NULL) st = pl_fail_memory(err, n);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        if (args->in[i] == NULL) continue;
        st = pl_ort_input_new(env, pl_datum_of(args->in[i]), &inputs[n_given], err);
        if (st != PL_OK) {
            pl_ort_input_release(env, &inputs[n_given]);
            st = pl_err_wrap(err, st, "input '%s'", p->source.inputs[i]);
            break;
        }
        in_values[n_given] = inputs[n_given].value;
        in_names[n_given++] = p->source.inputs[i];
    }
    if (st == PL_OK) {
        st = pl_ort_check(
            &env->api,
            env->api.Run(session, NULL, in_names, in_values, n_given, names, n_names, values),
            "run", err);
    }
    release_inputs(env, inputs, n_given);
    pl_free(in_values);
    pl_free(in_names);
    return st;
}

void pl_ort_values_release(const pl_ort_program *p, void **values, size_t n_values) {
    for (size_t i = 0; i < n_values; i++) {
        if (values[i] != NULL) p->ort->env.api.ReleaseValue(values[i]);
        values[i] = NULL;
    }
}

pl_status pl_ort_outputs_read(const pl_ort_program *p, void *const *values, pl_datum **out,
                              pl_err *err) {
    for (size_t i = 0; i < p->source.n_outputs; i++) {
        const pl_status st =
            pl_ort_value_read(&p->ort->env, values[i], p->optional[i], &out[i], err);
        if (st != PL_OK) return pl_err_wrap(err, st, "output '%s'", p->source.outputs[i]);
    }
    return PL_OK;
}

/* ---- programs ---- */

static pl_ort_session_args plain_args(const pl_ort_program *p) {
    return (pl_ort_session_args){ .onnx = p->source.onnx,
                                  .n_onnx = p->source.n_onnx,
                                  .path = p->source.path,
                                  .level = p->ort->level,
                                  .threads = p->threads,
                                  .idle = p->source.record != 0 };
}

pl_status pl_ort_open_plain(pl_ort_program *p, pl_err *err) {
    const pl_ort_session_args args = plain_args(p);
    if (p->session != NULL) return PL_OK;
    if (p->widens) pl_ort_record_close(p);
    return pl_ort_session_new(p->ort, &args, &p->session, err);
}

void pl_ort_close_plain(pl_ort_program *p) {
    pl_ort_bind_release(p);
    if (p->session != NULL) p->ort->env.api.ReleaseSession(p->session);
    p->session = NULL;
}

static void ort_free(void *program) {
    pl_ort_program *p = program;
    if (p == NULL) return;
    pl_ort_record_release(p);
    pl_ort_drop_ahead(p);
    pl_ort_close_plain(p);
    pl_free(p->optional);
    pl_free(p->folder);
    pl_ort_places_release(p);
    pl_free(p);
}

/* Can an output of this type be bound to a device? Strings cannot. */
static bool is_bindable(const pl_ort_api *api, void *type_info, int kind) {
    enum { STRING = 8 };
    void *tensor = NULL;
    int type = STRING;
    if (kind != PL_ORT_TENSOR ||
        pl_ort_check(api, api->CastTypeInfoToTensorInfo(type_info, &tensor), "", NULL) != PL_OK ||
        tensor == NULL)
        return false;
    return pl_ort_check(api, api->GetTensorElementType(tensor, &type), "", NULL) == PL_OK &&
           type != STRING;
}

static pl_status read_output_kinds(pl_ort_program *p, pl_err *err) {
    const pl_ort_api *api = &p->ort->env.api;
    p->optional = pl_calloc(p->source.n_outputs + 1, sizeof(bool));
    if (p->optional == NULL) return pl_fail_memory(err, p->source.n_outputs);
    p->tensors_only = true;
    for (size_t i = 0; i < p->source.n_outputs; i++) {
        void *info = NULL;
        int kind = 0;
        PL_TRY(pl_ort_check(api, api->SessionGetOutputTypeInfo(p->session, i, &info),
                            "read an output's type", err));
        const pl_status st = pl_ort_check(api, api->GetOnnxTypeFromTypeInfo(info, &kind),
                                          "read an output's type", err);
        p->tensors_only = p->tensors_only && st == PL_OK && is_bindable(api, info, kind);
        api->ReleaseTypeInfo(info);
        PL_TRY(st);
        p->optional[i] = kind == PL_ORT_OPTIONAL;
    }
    return PL_OK;
}

static plumb_status ort_compile(void *self, const plumb_source *source, void **program,
                                size_t *n_hooks, plumb_error *error) {
    pl_ort *ort = self;
    pl_err *err = error;
    pl_status st = PL_OK;
    pl_ort_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->ort = ort;
    p->source = *source;
    p->threads = ort->threads >= 0 ? ort->threads : source->threads;
    if (source->path != NULL) p->folder = pl_path_dirname(source->path);
    pl_ort_session_args args = plain_args(p);
    PL_TRY_GOTO(done, st,
                source->record != 0 ? pl_ort_record_compile(p, &args, err)
                                    : pl_ort_session_new(ort, &args, &p->session, err));
    PL_TRY_GOTO(done, st, read_output_kinds(p, err));
    if (source->record != 0) {
        pl_err trouble = PL_ERR_INIT;
        st = pl_ort_record_prepare(p, &trouble);
        if (st == PL_OK) {
            *n_hooks = p->n_watched;
        } else if (st == PL_E_BACKEND) { /* the model runs, but ORT cannot load */
            st = PL_OK;                  /* its own optimised graph: recording will report it */
        } else {
            if (err != NULL) *err = trouble;
            goto done;
        }
    }
    *program = p;
    p = NULL;
done:
    ort_free(p);
    return st;
}

static plumb_status ort_run(void *program, const plumb_run_args *args, plumb_error *error) {
    pl_ort_program *p = program;
    pl_err *err = error;
    if (args->hook != NULL) return pl_ort_record(p, args, err);
    if (p->session == NULL && pl_ort_take_ahead(p, args)) return PL_OK;
    PL_TRY(pl_ort_open_plain(p, err));
    if (pl_ort_bind_wanted(p)) {
        PL_TRY(pl_ort_bind_submit(p, args, err));
        return pl_ort_places_keep(p, args, err);
    }
    void **values = pl_calloc(p->source.n_outputs + 1, sizeof(void *));
    if (values == NULL) return pl_fail_memory(err, p->source.n_outputs);
    pl_status st = pl_ort_session_run(p, p->session, args, p->source.outputs, p->source.n_outputs,
                                      values, err);
    if (st == PL_OK) st = pl_ort_outputs_read(p, values, (pl_datum **)args->out, err);
    if (st == PL_OK) st = pl_ort_places_keep(p, args, err);
    pl_ort_values_release(p, values, p->source.n_outputs);
    pl_free(values);
    return st;
}

static plumb_status ort_synchronize(void *program, plumb_error *err) {
    return pl_ort_bind_wait(program, err);
}

/* Runs a model of one node, since much of ORT only starts with the first session. With one thread
 * it starts none. */
static void warm_up(const pl_ort *ort) {
    /* ir_version 8; graph { node { x -> y, Relu }; name g; input x, output y: float[1] }; opset 13
     */
    static const char onnx[] = "\x08\x08"
                               "\x3a\x33"
                               "\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu"
                               "\x12\x01g"
                               "\x5a\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x01"
                               "\x62\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x01"
                               "\x42\x02\x10\x0d";
    const pl_ort_api *api = &ort->env.api;
    const pl_ort_session_args args = {
        .onnx = onnx, .n_onnx = sizeof(onnx) - 1, .level = ALL_OPTIMISATIONS, .threads = 1
    };
    static const char *const in[] = { "x" }, *const out[] = { "y" };
    const int64_t dims[] = { 1 };
    float zero[1] = { 0 };
    void *session = NULL, *x = NULL, *y = NULL;
    if (pl_ort_session_new(ort, &args, &session, NULL) != PL_OK) return;
    if (pl_ort_check(api,
                     api->CreateTensorWithDataAsOrtValue(ort->env.cpu, zero, sizeof(zero), dims, 1,
                                                         PL_F32, &x),
                     "warm up", NULL) == PL_OK) {
        pl_ort_check(api, api->Run(session, NULL, in, &x, 1, out, 1, &y), "warm up", NULL);
        if (y != NULL) api->ReleaseValue(y);
        api->ReleaseValue(x);
    }
    api->ReleaseSession(session);
}

pl_backend *pl_backend_preload(const char *spec) {
    const plumb_backend *row = NULL;
    pl_backend *backend = NULL;
    if (pl_backend_row(spec, &row, NULL) != PL_OK || row != &pl_backend_ort) return NULL;
    if (pl_backend_open(spec, NULL, &backend, NULL) == PL_OK) warm_up(pl_backend_self(backend));
    return backend;
}

static const char *const *ort_record_modes(void *self) {
    (void)self;
    return pl_ort_record_modes;
}

static plumb_status ort_executed(void *program, const void **onnx, size_t *n_onnx,
                                 plumb_error *err) {
    pl_ort_program *p = program;
    pl_bytes bytes = { 0 };
    const pl_status st = pl_ort_record_executed(p, &bytes, err);
    if (st != PL_OK) return st;
    *onnx = bytes.data;
    *n_onnx = bytes.n_bytes;
    return PLUMB_OK;
}

static plumb_status ort_placement(void *program, const char **text, plumb_error *err) {
    pl_ort_program *p = program;
    const pl_status st = pl_ort_places_read(p, err);
    if (st == PL_OK) *text = pl_buf_str(&p->places);
    return st;
}

static const plumb_option_def options[] = {
    { "opt", "off|basic|extended|all", "graph optimisation level (default all)" },
    { "threads", "N", "threads within an operator; 0 = all" },
    { "lib", "FILE", "path of libonnxruntime.so" },
    { "deterministic", NULL, "ask for deterministic kernels (1.18 and later)" },
    { "weights-apart", NULL, "save weights of the optimised graph in a file (as above 2 GB)" },
    { "weights-half", NULL,
      "save float16 weights of the optimised graph as they are (as above 256 MB)" },
    { "disable", "NAME+NAME", "optimisers to disable, by name (1.18 and later)" },
    { "providers", "X+Y", "execution providers in order: WebGPU, CUDA, TensorRT, XNNPACK, ..." },
    { "device", "system|software", "Vulkan driver of WebGPU: the system's, or SwiftShader" },
};

static const char *const devices[] = { "providers=WebGPU", NULL };

static const char *const levels[] = { "off", "basic", "extended", "all", NULL };

const plumb_backend pl_backend_ort = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .name = "ort",
    .summary = "ONNX Runtime 1.12 to 1.30, opened at run time",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = ort_open,
    .close = ort_close,
    .version = ort_version,
    .compile = ort_compile,
    .run = ort_run,
    .record_modes = ort_record_modes,
    .executed = ort_executed,
    .synchronize = ort_synchronize,
    .free = ort_free,
    .passes = pl_ort_passes,
    .levels = levels,
    .device = ort_device,
    .placement = ort_placement,
    .devices = devices,
};
