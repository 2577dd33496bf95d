/* Runs whose outputs stay on the device (ONNX Runtime's I/O binding), so that submitting work and
 * waiting for it are two calls. RunWithBinding returns when the work is in the device's queue.
 * SynchronizeBoundOutputs does not wait on WebGPU (1.24.3 to 1.30.0: 0.00 ms while 5 s of work were
 * left); CopyTensors (1.23 and later) does: it copies what the device has finished. */
#include "backends/ort/ort_int.h"
#include "base/alloc.h"

enum { DEVICE_ALLOCATOR = 0, DEFAULT_MEMORY = 0 };

bool pl_ort_bind_wanted(const pl_ort_program *p) {
    return p->tensors_only && p->ort->env.api.CopyTensors != NULL &&
           pl_ort_device_wanted(p->ort->providers);
}

void pl_ort_bind_release(pl_ort_program *p) {
    if (p->binding != NULL) p->ort->env.api.ReleaseIoBinding(p->binding);
    p->binding = NULL;
    p->pending = NULL;
}

static pl_status bind_outputs(const pl_ort_program *p, pl_err *err) {
    const pl_ort_api *api = &p->ort->env.api;
    void *memory = NULL;
    PL_TRY(pl_ort_check(
        api, api->CreateMemoryInfo("WebGPU_Buffer", DEVICE_ALLOCATOR, 0, DEFAULT_MEMORY, &memory),
        "bind outputs", err));
    pl_status st = PL_OK;
    for (size_t i = 0; i < p->source.n_outputs && st == PL_OK; i++)
        st = pl_ort_check(api, api->BindOutputToDevice(p->binding, p->source.outputs[i], memory),
                          "bind an output", err);
    api->ReleaseMemoryInfo(memory);
    return st;
}

/* Binding copies an input to the device at once, so it may be released afterwards. */
static pl_status bind_inputs(const pl_ort_program *p, const plumb_run_args *args,
                             pl_ort_input *inputs, size_t *n_inputs, pl_err *err) {
    const pl_ort_env *env = &p->ort->env;
    for (size_t i = 0; i < args->n_in; i++) {
        if (args->in[i] == NULL) continue;
        pl_ort_input *input = &inputs[(*n_inputs)++];
        const pl_status st = pl_ort_input_new(env, pl_datum_of(args->in[i]), input, err);
        if (st != PL_OK) return pl_err_wrap(err, st, "input '%s'", p->source.inputs[i]);
        PL_TRY(pl_ort_check(&env->api,
                            env->api.BindInput(p->binding, p->source.inputs[i], input->value),
                            "bind an input", err));
    }
    return PL_OK;
}

pl_status pl_ort_bind_submit(pl_ort_program *p, const plumb_run_args *args, pl_err *err) {
    const pl_ort_env *env = &p->ort->env;
    size_t n_inputs = 0;
    pl_ort_bind_release(p);
    pl_ort_input *inputs = pl_calloc(args->n_in + 1, sizeof(*inputs));
    pl_status st = inputs == NULL
                       ? pl_fail_memory(err, args->n_in)
                       : pl_ort_check(&env->api, env->api.CreateIoBinding(p->session, &p->binding),
                                      "run", err);
    if (st == PL_OK) st = bind_inputs(p, args, inputs, &n_inputs, err);
    if (st == PL_OK) st = bind_outputs(p, err);
    if (st == PL_OK)
        st = pl_ort_check(&env->api, env->api.RunWithBinding(p->session, NULL, p->binding), "run",
                          err);
    for (size_t i = 0; i < n_inputs; i++)
        pl_ort_input_release(env, &inputs[i]);
    pl_free(inputs);
    if (st == PL_OK) {
        p->pending = args;
    } else {
        pl_ort_bind_release(p);
    }
    return st;
}

/* A tensor in CPU memory of the same type and shape */
static pl_status new_like(const pl_ort_env *env, void *value, void **out, bool *is_empty,
                          pl_err *err) {
    const pl_ort_api *api = &env->api;
    void *info = NULL;
    int type = 0;
    size_t rank = 0;
    int64_t dims[PL_RANK_MAX] = { 0 };
    PL_TRY(pl_ort_check(api, api->GetTensorTypeAndShape(value, &info), "copy an output", err));
    pl_status st = pl_ort_check(api, api->GetTensorElementType(info, &type), "copy an output", err);
    if (st == PL_OK)
        st = pl_ort_check(api, api->GetDimensionsCount(info, &rank), "copy an output", err);
    if (st == PL_OK && rank > PL_RANK_MAX)
        st =
            pl_fail(err, PL_E_UNSUPPORTED, "an output has rank %zu, at most %d", rank, PL_RANK_MAX);
    if (st == PL_OK)
        st = pl_ort_check(api, api->GetDimensions(info, dims, rank), "copy an output", err);
    api->ReleaseTensorTypeAndShapeInfo(info);
    for (size_t i = 0; i < rank && st == PL_OK; i++)
        *is_empty = *is_empty || dims[i] == 0;
    if (st == PL_OK)
        st = pl_ort_check(api, api->CreateTensorAsOrtValue(env->allocator, dims, rank, type, out),
                          "copy an output", err);
    return st;
}

static pl_status copy_output(const pl_ort_program *p, size_t i, void *from, pl_datum **out,
                             pl_err *err) {
    const pl_ort_env *env = &p->ort->env;
    void *to = NULL;
    bool is_empty = false;
    pl_status st = new_like(env, from, &to, &is_empty, err);
    if (st == PL_OK && !is_empty)
        st = pl_ort_check(&env->api, env->api.CopyTensors(env->env, &from, &to, NULL, 1), "wait",
                          err);
    if (st == PL_OK) st = pl_ort_value_read(env, to, false, out, err);
    if (to != NULL) env->api.ReleaseValue(to);
    return st == PL_OK ? st : pl_err_wrap(err, st, "output '%s'", p->source.outputs[i]);
}

pl_status pl_ort_bind_wait(pl_ort_program *p, pl_err *err) {
    const pl_ort_env *env = &p->ort->env;
    void **values = NULL;
    size_t n = 0;
    if (p->binding == NULL) return PL_OK;
    pl_status st = pl_ort_check(
        &env->api, env->api.GetBoundOutputValues(p->binding, env->allocator, &values, &n), "wait",
        err);
    if (st == PL_OK && n != p->source.n_outputs)
        st = pl_fail(err, PL_E_BACKEND, "ort %s gave %zu outputs, expected %zu", env->api.version,
                     n, p->source.n_outputs);
    for (size_t i = 0; i < n; i++) {
        if (st == PL_OK) st = copy_output(p, i, values[i], (pl_datum **)&p->pending->out[i], err);
        env->api.ReleaseValue(values[i]);
    }
    if (values != NULL)
        (void)pl_ort_check(&env->api, env->api.AllocatorFree(env->allocator, values), "wait", NULL);
    pl_ort_bind_release(p);
    return st;
}
