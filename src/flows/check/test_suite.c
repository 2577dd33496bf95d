/* Running ONNX test folders on the reference interpreter or another backend. */
#include "flows/check/test_suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/count.h"
#include "base/door.h"
#include "flows/api.h"
#include "flows/check/test_errata.h"
#include "flows/prepare.h"
#include "interp/interp.h"
#include "onnx/onnx.h"
#include "ops/op.h"
#include "tensor/file/tensor_proto.h"

typedef struct suite {
    const pl_suite_options *options;
    pl_suite_result *result;
    char **paths; /* of cases: folders, or light_X.onnx files */
    size_t n_paths, paths_capacity;
} suite;

/* ---- finding cases ---- */

enum { DEPTH_MAX = 8 };

static pl_status add_path(suite *s, const char *path, pl_err *err) {
    if (s->options->filter != NULL && strstr(path, s->options->filter) == NULL) return PL_OK;
    if (!PL_ARRAY_ROOM(s->paths, s->n_paths, &s->paths_capacity))
        return pl_fail_memory(err, s->n_paths);
    s->paths[s->n_paths] = pl_strdup(path);
    if (s->paths[s->n_paths] == NULL) return pl_fail_memory(err, strlen(path));
    s->n_paths++;
    return PL_OK;
}

static bool is_light(const char *name) {
    return strncmp(name, "light_", 6) == 0 && pl_path_has_suffix(name, ".onnx");
}

static pl_status find_cases(suite *s, const char *dir, int depth, pl_err *err) {
    pl_dir_list list = { 0 };
    pl_status st = PL_OK;
    pl_dir *held = NULL;
    PL_TRY(pl_dir_open(dir, &held, err));
    if (pl_dir_look(held, "model.onnx", NULL) != PL_KIND_NONE) {
        st = add_path(s, dir, err);
    } else if (depth <= DEPTH_MAX) {
        st = pl_dir_names(held, ".", &list, err);
    }
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        const pl_kind kind = pl_dir_look(held, list.names[i], NULL);
        char *path = pl_path_join(dir, list.names[i]);
        if (path == NULL) {
            st = pl_fail_memory(err, strlen(dir));
        } else if (kind == PL_KIND_FOLDER) {
            st = find_cases(s, path, depth + 1, err);
        } else if (kind == PL_KIND_FILE && is_light(list.names[i])) {
            st = add_path(s, path, err);
        }
        pl_free(path);
    }
    pl_dir_list_free(&list);
    pl_dir_close(held);
    return st;
}

/* ---- one case ---- */

typedef struct test_case {
    const char *path;
    pl_model *model;
    pl_interp *interp;   /* eager, in this process */
    pl_program *program; /* another backend */
    pl_datum **in, **got;
    size_t n_in, n_out, n_judged, n_absent;
    const char *absent; /* the first output without an expected value; owned by the model */
    bool is_random, is_transform;
    const pl_erratum *erratum; /* applied to the model; NULL */
} test_case;

/* Test data made before NumPy had bfloat16 (onnx up to 1.17, opset up to 23) stores its bits as
 * uint16, truncated instead of rounded. */
static bool is_cut_bfloat16(const pl_type *type, const pl_datum *d) {
    return d->kind == PL_TYPE_TENSOR && d->tensor->dtype == PL_U16 && type != NULL &&
           type->kind == PL_TYPE_TENSOR && type->dtype == PL_BF16;
}

static pl_status restore_bfloat16(pl_datum **d, pl_err *err) {
    const pl_tensor *bits = (*d)->tensor;
    pl_tensor *restored = NULL;
    PL_TRY(pl_tensor_new(PL_BF16, bits->rank, bits->dims, &restored, err));
    memcpy(restored->data, bits->data, pl_tensor_bytes(bits));
    pl_datum_unref(*d);
    *d = NULL;
    return pl_datum_of_tensor_take(restored, d, err);
}

typedef struct pb_file {
    pl_datum *datum; /* NULL if the file does not exist */
    bool is_cut;     /* values are truncated to bfloat16, so a rounded one may be one step above */
} pb_file;

static pl_status read_pb(const pl_dir *dir, const char *name, const pl_type *type, pb_file *out,
                         pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_dir_map(dir, name, &map, err));
    const pl_bytes bytes = { map->data, map->n_bytes };
    pl_status st = pl_datum_proto_read(bytes, map, type, &out->datum, err);
    out->is_cut = st == PL_OK && is_cut_bfloat16(type, out->datum);
    if (out->is_cut) st = restore_bfloat16(&out->datum, err);
    if (st != PL_OK) st = pl_err_wrap(err, st, "%s/%s", pl_dir_path(dir), name);
    pl_file_map_unref(map);
    return st;
}

/* DIR/input_N.pb; out->datum stays NULL if the file does not exist. */
static pl_status read_numbered(const pl_dir *dir, const char *kind, size_t n, const pl_type *type,
                               pb_file *out, pl_err *err) {
    char name[64];
    snprintf(name, sizeof(name), "%s_%zu.pb", kind, n);
    *out = (pb_file){ NULL, false };
    if (pl_dir_look(dir, name, NULL) == PL_KIND_NONE) return PL_OK;
    return read_pb(dir, name, type, out, err);
}

static void drop_data(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

/* Opens, plans, and allocates the data. */
static pl_status case_open(test_case *t, const char *model_path, const suite *s, pl_err *err) {
    if (t->model == NULL) PL_TRY(pl_model_read(model_path, &t->model, err));
    const pl_interp_options options = { .pool = s->options->pool,
                                        .fp64 = s->options->fp64,
                                        .any_shape = true };
    t->erratum = pl_erratum_find(model_path);
    if (t->erratum != NULL) PL_TRY(pl_erratum_apply(t->erratum, t->model, err));
    const pl_compile_options compile = { .file = t->erratum == NULL ? model_path : NULL,
                                         .any_shape = true };
    if (s->options->backend != NULL) {
        pl_ops_resolve(t->model, NULL); /* only to know which results are random */
        PL_TRY(pl_program_new(s->options->backend, t->model, &compile, &t->program, err));
    } else {
        PL_TRY(pl_make_ready(t->model, PL_READY_LOWERED, NULL, err));
        PL_TRY(pl_interp_new(t->model, &options, &t->interp, err));
    }
    t->n_in = t->model->graph->n_inputs;
    t->n_out = t->model->graph->n_outputs;
    t->in = pl_calloc(t->n_in + 1, sizeof(pl_datum *));
    t->got = pl_calloc(t->n_out + 1, sizeof(pl_datum *));
    if (t->in == NULL || t->got == NULL) return pl_fail_memory(err, t->n_in);
    t->is_random = pl_model_is_random(t->model);
    t->is_transform = pl_model_has_flag(t->model, PL_OP_TRANSFORM);
    return PL_OK;
}

static void case_close(test_case *t) {
    drop_data(t->in, t->n_in);
    drop_data(t->got, t->n_out);
    pl_free(t->in);
    pl_free(t->got);
    pl_interp_free(t->interp);
    pl_program_free(t->program);
    pl_model_free(t->model);
}

static pl_status run_once(test_case *t, pl_err *err) {
    return t->program != NULL ? pl_program_run(t->program, t->in, t->got, err)
                              : pl_interp_run(t->interp, t->in, t->got, err);
}

/* Expected values of Fourier transforms were computed in float32: an exact zero may appear as a few
 * units in the last place of the largest element. */
static double transform_noise(const pl_datum *want) {
    if (want->kind != PL_TYPE_TENSOR || !pl_dtype_is_float(want->tensor->dtype)) return 0;
    const double u = pl_dtype_unit_roundoff(want->tensor->dtype);
    return 8 * u * pl_tensor_max_abs(want->tensor);
}

/* Compares output i with what is expected; sets *status and reason. */
static void judge(const test_case *t, const suite *s, size_t i, const pb_file *want,
                  pl_case_status *status, char *reason, size_t n_reason) {
    char why[400] = "";
    pl_tolerance tol = s->options->tolerance;
    if (want->is_cut && tol.rtol < 0x1p-7) tol.rtol = 0x1p-7; /* one step of bfloat16 */
    if (t->is_transform) tol.atol = fmax(tol.atol, transform_noise(want->datum));
    const pl_close_result r = pl_allclose(t->got[i], want->datum, tol, why, sizeof(why));
    if (r == PL_CLOSE_SAME || *status == PL_CASE_FAIL) return;
    if (r == PL_CLOSE_VALUES && t->is_random) {
        *status = PL_CASE_SKIP;
        snprintf(reason, n_reason, "the result is random: only type and shape were compared");
        return;
    }
    *status = PL_CASE_FAIL;
    snprintf(reason, n_reason, "output '%s': %s", t->model->graph->outputs[i]->name, why);
}

static void miss(test_case *t, size_t i) {
    if (t->n_absent++ == 0) t->absent = t->model->graph->outputs[i]->name;
}

static pl_status run_data_set(test_case *t, const suite *s, const pl_dir *dir,
                              pl_case_status *status, char *reason, size_t n_reason, pl_err *err) {
    const pl_graph *graph = t->model->graph;
    drop_data(t->in, t->n_in);
    drop_data(t->got, t->n_out);
    for (size_t i = 0; i < t->n_in; i++) {
        pb_file file;
        PL_TRY(read_numbered(dir, "input", i, graph->inputs[i]->type, &file, err));
        t->in[i] = file.datum;
    }
    PL_TRY(run_once(t, err));
    for (size_t i = 0; i < t->n_out; i++) {
        pb_file want;
        PL_TRY(read_numbered(dir, "output", i, graph->outputs[i]->type, &want, err));
        if (want.datum == NULL) {
            miss(t, i);
            continue;
        }
        judge(t, s, i, &want, status, reason, n_reason);
        t->n_judged++;
        pl_datum_unref(want.datum);
    }
    char name[40];
    snprintf(name, sizeof(name), "output_%zu.pb", t->n_out);
    if (pl_dir_look(dir, name, NULL) != PL_KIND_NONE)
        return pl_fail(err, PL_E_INVALID, "%s is expected, but the model has %zu output%s", name,
                       t->n_out, pl_plural(t->n_out));
    return PL_OK;
}

static pl_status run_folder(test_case *t, const suite *s, pl_case_status *status, char *reason,
                            size_t n_reason, pl_err *err) {
    char *model = pl_path_join(t->path, "model.onnx");
    pl_dir *held = NULL;
    pl_dir_list list = { 0 };
    pl_status st = model == NULL ? pl_fail_memory(err, 1) : pl_dir_open(t->path, &held, err);
    if (st == PL_OK) st = pl_model_read_in(held, "model.onnx", &t->model, err);
    if (st == PL_OK) st = case_open(t, model, s, err);
    if (st == PL_OK) st = pl_dir_names(held, ".", &list, err);
    pl_free(model);
    size_t n_sets = 0;
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        if (strncmp(list.names[i], "test_data_set_", 14) != 0) continue;
        pl_dir *dir = NULL;
        st = pl_dir_open_in(held, list.names[i], &dir, err);
        if (st == PL_OK) st = run_data_set(t, s, dir, status, reason, n_reason, err);
        pl_dir_close(dir);
        n_sets++;
    }
    pl_dir_list_free(&list);
    pl_dir_close(held);
    if (st == PL_OK && n_sets == 0) {
        return pl_fail(err, PL_E_NOT_FOUND, "%s has no test_data_set_* folder", t->path);
    }
    return st;
}

/* x[i] = i / n in C order. */
static pl_status light_input(const pl_value *value, pl_datum **out, pl_err *err) {
    int64_t dims[PL_RANK_MAX];
    pl_tensor *x = NULL;
    if (value->type == NULL || !pl_type_is_concrete(value->type)) {
        return pl_fail(err, PL_E_INVALID, "input '%s' has no complete shape", value->name);
    }
    for (int d = 0; d < value->type->rank; d++)
        dims[d] = value->type->dims[d].value;
    PL_TRY(pl_tensor_new(PL_F32, value->type->rank, dims, &x, err));
    pl_f32 *data = x->data;
    for (int64_t i = 0; i < x->n_elements; i++) {
        data[i] = (float)((double)i / (double)x->n_elements);
    }
    return pl_datum_of_tensor_take(x, out, err);
}

static pl_status run_light(test_case *t, const suite *s, pl_case_status *status, char *reason,
                           size_t n_reason, pl_err *err) {
    PL_TRY(case_open(t, t->path, s, err));
    for (size_t i = 0; i < t->n_in; i++) {
        if (t->model->graph->inputs[i]->init != NULL) continue;
        PL_TRY(light_input(t->model->graph->inputs[i], &t->in[i], err));
    }
    PL_TRY(run_once(t, err));
    for (size_t i = 0; i < t->n_out; i++) {
        pl_buf path = PL_BUF_INIT;
        pb_file want = { NULL, false };
        pl_buf_printf(&path, "%.*s_output_%zu.pb", (int)(strlen(t->path) - strlen(".onnx")),
                      t->path, i);
        pl_status st = pl_buf_ok(&path) ? PL_OK : pl_fail_memory(err, path.n_bytes);
        char *folder = pl_path_dirname(t->path);
        pl_dir *held = NULL;
        const char *name = pl_path_basename(pl_buf_str(&path));
        if (st == PL_OK) st = folder == NULL ? pl_fail_memory(err, 1) : PL_OK;
        if (st == PL_OK) st = pl_dir_open(folder, &held, err);
        if (st == PL_OK && pl_dir_look(held, name, NULL) != PL_KIND_NONE)
            st = read_pb(held, name, NULL, &want, err);
        pl_dir_close(held);
        pl_free(folder);
        pl_buf_release(&path);
        PL_TRY(st);
        if (want.datum == NULL) {
            miss(t, i);
            continue;
        }
        judge(t, s, i, &want, status, reason, n_reason);
        t->n_judged++;
        pl_datum_unref(want.datum);
    }
    return PL_OK;
}

/* Why a backend did not pass, in one word. That a runtime lacks an operator is only visible in its
 * message. */
static const char *class_of(const suite *s, pl_status st, const char *message) {
    static const char *const lacks[] = { "not implemented",      "not supported",
                                         "is not a registered",  "No Op registered",
                                         "is under development", "Could not find an implementation",
                                         "unsupported data type" };
    const pl_failure *f = pl_backend_failure(s->options->backend);
    if (st == PL_OK) return "difference";
    if (f->happened) {
        return f->timed_out       ? "time-out"
               : f->out_of_memory ? "out of memory"
               : f->signal != 0   ? "crash"
                                  : "exit";
    }
    if (st == PL_E_UNSUPPORTED) return "unsupported";
    for (size_t i = 0; i < sizeof(lacks) / sizeof(lacks[0]); i++) {
        if (strstr(message, lacks[i]) != NULL) return "unsupported";
    }
    return "error";
}

static bool is_listed(const pl_buf *list, const char *op, size_t n_op) {
    for (const char *at = pl_buf_str(list); *at != '\0';) {
        const size_t n = strcspn(at, ",");
        if (n == n_op && memcmp(at, op, n) == 0) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* Types of the operators that a device left to the CPU. NULL: not a device, or not known. */
static char *cpu_operators(const test_case *t) {
    const char *at = "";
    pl_buf list = PL_BUF_INIT;
    char *copy = NULL;
    if (t->program == NULL || pl_program_placement(t->program, &at, NULL) != PL_OK || *at == '\0')
        return NULL;
    while (*at != '\0') { /* "PLACE\tOPERATOR\tNODE\n" */
        const size_t n_place = strcspn(at, "\t\n");
        const char *op = at + n_place + (at[n_place] == '\t');
        const size_t n_op = strcspn(op, "\t\n");
        if (n_place == 3 && memcmp(at, "CPU", 3) == 0 && !is_listed(&list, op, n_op)) {
            if (list.n_bytes > 0) pl_buf_putc(&list, ',');
            pl_buf_append(&list, op, n_op);
        }
        at = op + strcspn(op, "\n");
        at += *at == '\n';
    }
    if (pl_buf_ok(&list)) copy = pl_strdup(pl_buf_str(&list));
    pl_buf_release(&list);
    return copy;
}

static void say_erratum(const pl_erratum *e, char *reason, size_t n_reason) {
    const size_t n = strlen(reason);
    snprintf(reason + n, n_reason - n, "%serratum: %s (fixed in %s)", n > 0 ? "; " : "", e->text,
             e->source);
}

/* DESIGN section 2: an absent expected output is not compared. A pass says so. */
static void say_absent(const test_case *t, char *reason, size_t n_reason) {
    const size_t n = strlen(reason);
    snprintf(reason + n, n_reason - n,
             "%scompared %zu of %zu outputs; no expected value for '%.200s'%s", n > 0 ? "; " : "",
             t->n_judged, t->n_judged + t->n_absent, t->absent,
             t->n_absent > 1 ? " and others" : "");
}

static pl_status run_case(suite *s, const char *path, pl_err *err) {
    test_case t = { .path = path };
    pl_err failure = PL_ERR_INIT;
    char reason[PL_ERR_MESSAGE_MAX] = "";
    pl_case_status status = PL_CASE_PASS;
    const double start = pl_api_seconds();
    const bool light = !pl_path_is_dir(path);
    const pl_status st = light ? run_light(&t, s, &status, reason, sizeof(reason), &failure)
                               : run_folder(&t, s, &status, reason, sizeof(reason), &failure);
    if (st != PL_OK) {
        /* If the data cannot be passed to the backend, the backend has not failed. */
        const bool unsaid = s->options->backend != NULL && st == PL_E_UNSUPPORTED;
        status = unsaid ? PL_CASE_SKIP : PL_CASE_FAIL;
        snprintf(reason, sizeof(reason), "%s", failure.message);
    }
    if (st == PL_OK && status == PL_CASE_PASS && t.n_judged == 0 && t.n_out > 0) {
        status = PL_CASE_SKIP;
        snprintf(reason, sizeof(reason), "no expected output: it ran, nothing was compared");
    }
    if (st == PL_OK && status == PL_CASE_PASS && t.n_absent > 0)
        say_absent(&t, reason, sizeof(reason));
    if (status == PL_CASE_FAIL && s->options->backend != NULL) {
        char bare[PL_ERR_MESSAGE_MAX];
        memcpy(bare, reason, sizeof(bare));
        snprintf(reason, sizeof(reason), "%s: %.*s", class_of(s, st, bare),
                 (int)sizeof(reason) - 20, bare);
    }
    if (t.erratum != NULL) say_erratum(t.erratum, reason, sizeof(reason));
    char *cpu = st == PL_OK ? cpu_operators(&t) : NULL;
    case_close(&t);
    pl_case_result *r = &s->result->cases[s->result->n_cases];
    r->path = pl_strdup(path);
    r->reason = pl_strdup(reason);
    r->status = status;
    r->cpu = cpu;
    r->seconds = pl_api_seconds() - start;
    s->result->n_cases++;
    s->result->n_passed += status == PL_CASE_PASS;
    s->result->n_failed += status == PL_CASE_FAIL;
    s->result->n_skipped += status == PL_CASE_SKIP;
    return r->path == NULL || r->reason == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

pl_status pl_suite_run(const char *const *dirs, size_t n_dirs, const pl_suite_options *options,
                       pl_suite_result *out, pl_err *err) {
    suite s = { .options = options, .result = out };
    pl_status st = PL_OK;
    *out = (pl_suite_result){ 0 };
    for (size_t i = 0; i < n_dirs; i++) {
        if (is_light(pl_path_basename(dirs[i]))) {
            PL_TRY_GOTO(done, st, add_path(&s, dirs[i], err));
        } else {
            PL_TRY_GOTO(done, st, find_cases(&s, dirs[i], 0, err));
        }
    }
    if (s.n_paths == 0) {
        st =
            pl_fail(err, PL_E_NOT_FOUND, "no ONNX test case below '%s'", n_dirs > 0 ? dirs[0] : "");
        goto done;
    }
    out->cases = pl_calloc(s.n_paths, sizeof(pl_case_result));
    if (out->cases == NULL) {
        st = pl_fail_memory(err, s.n_paths);
        goto done;
    }
    for (size_t i = 0; i < s.n_paths; i++) {
        PL_TRY_GOTO(done, st, run_case(&s, s.paths[i], err));
        PL_TRY_GOTO(
            done, st,
            pl_progress_step(options->progress, "test", (int64_t)i + 1, (int64_t)s.n_paths, err));
    }
done:
    for (size_t i = 0; i < s.n_paths; i++)
        pl_free(s.paths[i]);
    pl_free(s.paths);
    return st;
}

void pl_suite_result_release(pl_suite_result *result) {
    for (size_t i = 0; i < result->n_cases; i++) {
        pl_free(result->cases[i].path);
        pl_free(result->cases[i].reason);
        pl_free(result->cases[i].cpu);
    }
    pl_free(result->cases);
    *result = (pl_suite_result){ 0 };
}
