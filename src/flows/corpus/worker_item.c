/* One item: read, check the accuracy and, only if that fails, analyse, bisect and minify.
 *
 * Each step is a process of its own, which gets what the steps before it found: long items are
 * known as such after the first, and the rest can go to another worker. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/api.h"
#include "flows/corpus/corpus_json.h"
#include "flows/corpus/worker.h"
#include "flows/minify/minify_job.h"

/* An output this close to the reference differs only by rounding. */
static const double close_db = 100, close_relative = 1e-5;
static const double part_of_time = 3; /* one run of the backend may take 1 / this of the limit */

typedef enum item_step { STEP_CHECK, STEP_ANALYZE, STEP_MINIFY, STEP_OVER } item_step;

typedef struct item {
    const pl_work *work;
    item_step next;
    const char *path, *backend, *folder;
    char *session, *repro; /* folders; NULL = out of memory */
    plumb_inputs inputs;
    const char *data[1];
    const char **dims, **ranges;
    double timeout; /* of one run */
    /* result; strings are in the work's arena */
    pl_item_status status;
    const char *step, *reason, *check, *version;
    const char *blamed; /* value */
    bool has_session, has_repro, verified, one_minimal;
    size_t n_nodes, n_nodes_after, n_blamed;
    pl_bug bug;
} item;

static const char *keep(const item *x, const char *s) {
    return pl_arena_strdup(x->work->arena, s);
}

/* ---- inputs ---- */

static pl_status read_setting(item *x, const char *text, pl_err *err) {
    if (strncmp(text, "dim=", 4) == 0) {
        x->dims[x->inputs.n_dims++] = text + 4;
    } else if (strncmp(text, "range=", 6) == 0) {
        x->ranges[x->inputs.n_ranges++] = text + 6;
    } else if (strcmp(text, "fill=zeros") == 0) {
        x->inputs.fill = PLUMB_FILL_ZEROS;
    } else if (strcmp(text, "fill=ones") == 0) {
        x->inputs.fill = PLUMB_FILL_ONES;
    } else if (strcmp(text, "fill=random") != 0) {
        return pl_fail(err, PL_E_USAGE, "'%.100s': expected fill=zeros, ones or random", text);
    }
    return PL_OK;
}

static pl_status read_inputs(item *x, pl_err *err) {
    pl_arena *arena = x->work->arena;
    const pl_json_value *settings = pl_json_find(x->work->request, "settings");
    const pl_json_value *seed = pl_json_find(x->work->request, "seed");
    const size_t n = settings == NULL ? 0 : settings->n_items;
    plumb_inputs_init(&x->inputs);
    x->data[0] = pl_work_text(x->work, "data");
    x->inputs.sets = x->data;
    x->inputs.n_sets = x->data[0][0] == '\0' ? 0 : 1;
    x->inputs.seed = seed == NULL ? 0 : (uint64_t)seed->integer;
    x->dims = pl_arena_array(arena, n + 1, sizeof *x->dims);
    x->ranges = pl_arena_array(arena, n + 1, sizeof *x->ranges);
    if (x->dims == NULL || x->ranges == NULL) return pl_fail_memory(err, n);
    x->inputs.dims = x->dims;
    x->inputs.ranges = x->ranges;
    for (const pl_json_value *v = n > 0 ? settings->first : NULL; v != NULL; v = v->next)
        PL_TRY(read_setting(x, v->kind == PL_JSON_STRING ? v->string : "", err));
    return PL_OK;
}

/* ---- steps ---- */

/* A failed step decides the item: bad input, a failing backend, or trouble of plumb. */
static void end_by(item *x, const char *step, const pl_err *err) {
    const int code = plumb_exit_code(err->status);
    x->step = step;
    x->status = code == 2 ? PL_ITEM_SKIPPED : code == 3 ? PL_ITEM_FAILED : PL_ITEM_TROUBLE;
    x->reason = keep(x, err->message);
}

/* Drops the suggested next command: a corpus has many items. */
static const char *without_next(const item *x, const char *text) {
    const char *next = strstr(text, "; next: ");
    return pl_arena_strndup(x->work->arena, text,
                            next == NULL ? strlen(text) : (size_t)(next - text));
}

/* Statuses with this prefix are about the reference. */
static bool is_reference(const char *status) {
    return strncmp(status, "eager_", 6) == 0;
}

/* The check also passes an output that is closer to fp64 than the reference, or within what a low
 * precision allows; a bug may hide there (a cast that was optimised away, a code off by one). Only
 * outputs equal to the reference up to rounding need no analysis. */
static bool is_close(const item *x, const plumb_check_result *result) {
    plumb_write_options options;
    const pl_json_value *root = NULL;
    char *text = NULL;
    plumb_write_options_init(&options);
    options.format = "json";
    const bool read = plumb_check_result_write(result, &options, &text, NULL) == PL_OK &&
                      pl_json_read(text, strlen(text), x->work->arena, &root, NULL) == PL_OK;
    plumb_free(text);
    const pl_json_value *outputs = pl_member_list(pl_json_find(root, "accuracy"), "outputs");
    if (!read || outputs == NULL || outputs->n_items == 0) return false;
    for (const pl_json_value *v = outputs->first; v != NULL; v = v->next) {
        const pl_json_value *metrics = pl_json_find(v, "metrics");
        double psnr = 0, relative = 1, mismatch = 1;
        if (pl_json_number(pl_json_find(metrics, "mismatch"), &mismatch) && mismatch == 0) continue;
        if (!pl_json_number(pl_json_find(metrics, "psnr"), &psnr) || !(psnr >= close_db) ||
            !pl_json_number(pl_json_find(metrics, "mean_rel"), &relative) ||
            !(relative <= close_relative))
            return false;
    }
    return true;
}

/* True when the item is decided. */
static bool check(item *x) {
    plumb_model *model = NULL;
    plumb_check_result *result = NULL;
    plumb_check_options options;
    plumb_run_options run;
    pl_err err = PL_ERR_INIT;
    plumb_run_options_init(&run);
    plumb_check_options_init(&options);
    run.inputs = &x->inputs;
    run.backend = x->backend;
    run.timeout = x->timeout;
    run.memory_limit = x->work->limits.memory;
    run.threads = 1;
    run.sandbox = x->work->limits.sandbox;
    options.run = &run;
    options.mode = PLUMB_CHECK_STRICT; /* every output counts */
    options.reference = x->work->limits.reference;
    bool over = true;
    if (plumb_model_open(x->path, &model, &err) != PL_OK) {
        end_by(x, "read", &err);
        goto done;
    }
    x->n_nodes = plumb_model_nodes(model);
    x->step = "accuracy";
    if (plumb_check(model, &options, &result, &err) != PL_OK) {
        end_by(x, "accuracy", &err);
        goto done;
    }
    const int code = plumb_check_result_exit_code(result);
    x->check = keep(x, plumb_check_result_status(result));
    x->reason = without_next(x, plumb_check_result_error(result));
    x->status = code == 0                                                      ? PL_ITEM_AGREE
                : code == 1                                                    ? PL_ITEM_DIVERGED
                : code == 2 || is_reference(plumb_check_result_status(result)) ? PL_ITEM_SKIPPED
                                                                               : PL_ITEM_FAILED;
    over = (x->status == PL_ITEM_AGREE && is_close(x, result)) ||
           (x->status == PL_ITEM_SKIPPED && code == 3);
done:
    plumb_check_result_free(result);
    plumb_model_close(model);
    return over;
}

static void take_verdict(item *x, const plumb_session_summary *s) {
    const bool diverged = x->status == PL_ITEM_DIVERGED;
    if (strcmp(s->verdict, "diverged") == 0) x->status = PL_ITEM_DIVERGED;
    if (strcmp(s->verdict, "nondeterministic") == 0) x->status = PL_ITEM_NONDETERMINISTIC;
    if (strcmp(s->verdict, "failed") == 0) x->status = PL_ITEM_FAILED;
    if (strcmp(s->verdict, "agree") != 0) {
        x->reason = keep(x, s->reason);
    } else if (!diverged) {
        x->status = PL_ITEM_AGREE;
    }
    /* Differing outputs stay red, whatever the analysis says about inner values. */
    x->bug.pass = keep(x, s->bisect_pass);
}

static void analyze(item *x) {
    plumb_model *model = NULL;
    plumb_session *session = NULL;
    plumb_analyze_options options;
    plumb_session_summary summary = { .size = sizeof summary };
    plumb_blame blame = { .size = sizeof blame };
    plumb_side_info side = { .size = sizeof side };
    pl_err err = PL_ERR_INIT;
    plumb_analyze_options_init(&options);
    options.inputs = &x->inputs;
    options.backend = x->backend;
    options.reference = x->work->limits.reference;
    options.timeout = x->timeout;
    options.memory_limit = x->work->limits.memory;
    options.threads = 1;
    options.output = x->session;
    options.save = "suspects";
    options.bisect = 1;
    options.sandbox = x->work->limits.sandbox;
    x->step = "analyze";
    if (plumb_model_open(x->path, &model, &err) != PL_OK ||
        plumb_analyze(model, &options, &session, &err) != PL_OK) {
        if (x->status != PL_ITEM_DIVERGED) end_by(x, "analyze", &err);
    } else if (plumb_session_get(session, &summary)) {
        take_verdict(x, &summary);
        x->has_session = true;
        x->n_blamed = summary.n_blame;
        if (plumb_session_blame(session, 0, &blame)) {
            x->bug.op = keep(x, blame.op);
            x->blamed = keep(x, blame.value);
        }
        if (plumb_session_side(session, 'a', &side)) {
            x->version = keep(x, side.version);
            if (side.failure[0] != '\0')
                x->bug.message = pl_message_shape(x->work->arena, side.failure);
        }
    }
    plumb_session_free(session);
    plumb_model_close(model);
}

/* Takes the failure of the smallest model, which is more specific. */
static pl_status take_minified(item *x, const pl_minified *r, pl_err *err) {
    char *path = r->folder == NULL ? NULL : pl_path_join(r->folder, "model.onnx");
    pl_status st = PL_OK;
    x->has_repro = r->folder != NULL;
    x->verified = r->verified;
    x->one_minimal = r->one_minimal;
    x->n_nodes_after = r->nodes_after;
    if (r->has_signature) {
        x->bug.kind = keep(x, pl_fail_kind_name(r->signature.kind));
        x->bug.op = keep(x, r->signature.op);
        x->bug.message = pl_message_shape(x->work->arena, r->signature.text);
        if (path != NULL)
            st = pl_bug_look(&x->bug, path, r->signature.value, true, x->work->arena, err);
    }
    pl_free(path);
    return st;
}

static pl_status minify(item *x, pl_err *err) {
    plumb_model *model = NULL;
    plumb_minify_options options;
    pl_minified *r = NULL;
    pl_err why = PL_ERR_INIT;
    plumb_context context;
    plumb_context_init(&context);
    plumb_minify_options_init(&options);
    options.context = &context;
    options.inputs = &x->inputs;
    options.backend = x->backend;
    options.timeout = x->timeout;
    options.memory_limit = x->work->limits.memory;
    options.threads = 1;
    options.jobs = 1;
    options.accuracy = x->n_blamed == 0 && x->status == PL_ITEM_DIVERGED;
    options.max_queries = x->work->limits.max_queries;
    options.output = x->repro;
    options.stable_output = 1;
    options.sandbox = x->work->limits.sandbox;
    pl_status st = plumb_model_open(x->path, &model, &why);
    if (st == PL_OK) st = pl_minify(model, &options, &r, &why);
    /* If nothing smaller was found, the analysis still stands. */
    st = st == PL_OK ? take_minified(x, r, err) : PL_OK;
    pl_minified_free(r);
    plumb_model_close(model);
    return st;
}

/* ---- from step to step ---- */

static void after_check(item *x, bool over) {
    const bool timed_out = x->status == PL_ITEM_FAILED && strstr(x->reason, "timed out") != NULL;
    x->next = STEP_OVER;
    if (over) return;
    x->bug.kind = timed_out ? "time-out" : x->status == PL_ITEM_FAILED ? "failure" : "divergence";
    if (x->status == PL_ITEM_AGREE) x->reason = "";
    if (!timed_out) x->next = STEP_ANALYZE; /* each further query would take as long */
}

static void after_analyze(item *x) {
    const pl_worker_limits *limits = &x->work->limits;
    const bool wrong = x->status == PL_ITEM_DIVERGED || x->status == PL_ITEM_FAILED;
    if (x->status == PL_ITEM_NONDETERMINISTIC) x->bug.kind = "determinism";
    x->next = wrong && limits->max_queries > 0 && !limits->no_minify ? STEP_MINIFY : STEP_OVER;
}

static pl_status describe(item *x, pl_err *err) {
    if (x->has_repro || x->bug.kind[0] == '\0' || strcmp(x->bug.kind, "time-out") == 0 ||
        !pl_item_status_is_wrong(x->status))
        return PL_OK;
    /* With nothing else to tell bugs apart, models of other operators are not one group. */
    const bool unknown = x->blamed[0] == '\0' && x->bug.op[0] == '\0';
    if (unknown && x->bug.message[0] != '\0') return PL_OK;
    return pl_bug_look(&x->bug, x->path, x->blamed, unknown, x->work->arena, err);
}

static pl_status run_step(item *x, pl_err *err) {
    switch (x->next) {
    case STEP_CHECK: after_check(x, check(x)); break;
    case STEP_ANALYZE:
        analyze(x);
        after_analyze(x);
        break;
    case STEP_MINIFY:
        x->next = STEP_OVER;
        PL_TRY(minify(x, err));
        break;
    case STEP_OVER: break;
    }
    return x->next == STEP_OVER ? describe(x, err) : PL_OK;
}

/* What a process left that died in this step: everything, or beside the session of an earlier one.
 */
static pl_status clean_up(const item *x, pl_err *err) {
    pl_dir_list names = { 0 };
    if (!pl_path_is_dir(x->folder)) return PL_OK;
    if (x->next < STEP_MINIFY) return pl_dir_remove(x->folder, err);
    pl_status st = pl_dir_list_read(x->folder, &names, err);
    for (size_t i = 0; st == PL_OK && i < names.n_names; i++) {
        char *path = pl_path_join(x->folder, names.names[i]);
        if (path == NULL) st = pl_fail_memory(err, 1);
        if (st == PL_OK && strcmp(names.names[i], "session") != 0) st = pl_dir_remove(path, err);
        pl_free(path);
    }
    pl_dir_list_free(&names);
    return st;
}

/* ---- what the next step needs ---- */

typedef struct field {
    const char *name;
    const char **text;
} field;
enum { N_FIELDS = 9 };

static void list_fields(item *x, field out[N_FIELDS]) {
    const field all[N_FIELDS] = { { "reason", &x->reason },   { "check", &x->check },
                                  { "version", &x->version }, { "blamed", &x->blamed },
                                  { "kind", &x->bug.kind },   { "op", &x->bug.op },
                                  { "pass", &x->bug.pass },   { "message", &x->bug.message },
                                  { "step", &x->step } };
    memcpy(out, all, sizeof all);
}

static void put_so_far(item *x, pl_buf *answer) {
    field fields[N_FIELDS];
    pl_json j;
    list_fields(x, fields);
    pl_json_init(&j, answer, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", PL_WORK_UNFINISHED);
    pl_json_put_int(&j, "next", x->next);
    pl_json_put_string(&j, "item_status", pl_item_status_name(x->status));
    for (size_t i = 0; i < N_FIELDS; i++)
        pl_json_put_string(&j, fields[i].name, *fields[i].text);
    pl_json_put_int(&j, "nodes", (int64_t)x->n_nodes);
    pl_json_put_int(&j, "n_blamed", (int64_t)x->n_blamed);
    pl_json_put_bool(&j, "session", x->has_session);
    pl_json_object_end(&j);
}

static pl_status read_so_far(item *x, pl_err *err) {
    const char *text = pl_work_text(x->work, "so_far");
    const pl_json_value *root = NULL;
    field fields[N_FIELDS];
    if (text[0] == '\0') return PL_OK;
    PL_TRY(pl_json_read(text, strlen(text), x->work->arena, &root, err));
    const size_t next = pl_member_count(root, "next");
    const pl_json_value *session = pl_json_find(root, "session");
    if (next > STEP_MINIFY) return pl_fail(err, PL_E_FORMAT, "an item has no step %zu", next);
    x->next = (item_step)next;
    x->status = pl_item_status_of(pl_member_text(root, "item_status"));
    list_fields(x, fields);
    for (size_t i = 0; i < N_FIELDS; i++)
        *fields[i].text = pl_member_text(root, fields[i].name);
    x->n_nodes = pl_member_count(root, "nodes");
    x->n_blamed = pl_member_count(root, "n_blamed");
    x->has_session = session != NULL && session->boolean;
    return PL_OK;
}

/* ---- the answer ---- */

static void put_answer(const item *x, pl_buf *answer) {
    const bool wrong = pl_item_status_is_wrong(x->status);
    pl_json j;
    pl_json_init(&j, answer, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", pl_item_status_name(x->status));
    pl_json_put_string(&j, "step", x->step);
    pl_json_put_string(&j, "reason", x->status == PL_ITEM_AGREE ? "" : x->reason);
    pl_json_put_string(&j, "check", x->check);
    pl_json_put_int(&j, "nodes", (int64_t)x->n_nodes);
    if (wrong) {
        pl_bug_put(&j, &x->bug);
        pl_json_put_string(&j, "blamed", x->blamed);
        pl_json_put_string(&j, "version", x->version);
        pl_json_put_bool(&j, "session", x->has_session);
        pl_json_put_bool(&j, "repro", x->has_repro);
        if (x->has_repro) {
            pl_json_put_int(&j, "repro_nodes", (int64_t)x->n_nodes_after);
            pl_json_put_bool(&j, "verified", x->verified);
            pl_json_put_bool(&j, "one_minimal", x->one_minimal);
        }
    }
    pl_json_object_end(&j);
}

pl_status pl_worker_item(const pl_work *work, pl_buf *answer, pl_err *err) {
    item x = { .work = work,
               .path = pl_work_text(work, "path"),
               .backend = pl_work_text(work, "backend"),
               .folder = pl_work_text(work, "folder"),
               .step = "",
               .reason = "",
               .check = "",
               .version = "",
               .blamed = "",
               .timeout = work->limits.timeout / part_of_time,
               .bug = { "", "", "", "", "", "", "", "" } };
    pl_status st = PL_OK;
    x.session = pl_path_join(x.folder, "session");
    x.repro = pl_path_join(x.folder, "repro");
    if (x.session == NULL || x.repro == NULL) {
        st = pl_fail_memory(err, 1);
        goto done;
    }
    PL_TRY_GOTO(done, st, read_so_far(&x, err));
    PL_TRY_GOTO(done, st, clean_up(&x, err));
    PL_TRY_GOTO(done, st, read_inputs(&x, err));
    PL_TRY_GOTO(done, st, run_step(&x, err));
    if (x.next != STEP_OVER) {
        put_so_far(&x, answer);
        goto done;
    }
    if (x.status == PL_ITEM_AGREE && pl_path_is_dir(x.folder)) /* the analysis agreed after all */
        PL_TRY_GOTO(done, st, pl_dir_remove(x.folder, err));
    put_answer(&x, answer);
done:
    pl_free(x.session);
    pl_free(x.repro);
    return st;
}
