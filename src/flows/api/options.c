/* Options of plumb.h: every struct that starts with its size, its defaults, and reading a struct
 * from a caller that was compiled with another version of the header. */
#include "flows/api/options.h"

#include <string.h>
#include <unistd.h>

static const plumb_inputs inputs = { .size = sizeof(inputs) };
static const plumb_context context = { .size = sizeof(context) };
static const plumb_info_options info = { .size = sizeof(info) };
static const plumb_transform_options transform = { .size = sizeof(transform) };
static const plumb_convert_options convert = { .size = sizeof(convert) };
static const plumb_run_options run = { .size = sizeof(run), .repeat = 1 };
static const plumb_check_options check = { .size = sizeof(check), .mode = PLUMB_CHECK_ACCURACY };
static const plumb_test_options test = { .size = sizeof(test), .rtol = 1e-3, .atol = 1e-7 };
static const plumb_same_options same = {
    .size = sizeof(same), .tol = 1e-3, .equal_nan = 1, .exact_dtype = 1, .iou_threshold = 0.99
};
static const plumb_recorder_options recorder = { .size = sizeof(recorder) };
static const plumb_record_options record = { .size = sizeof(record) };
static const plumb_compare_options compare = { .size = sizeof(compare) };
static const plumb_analyze_options analyze = { .size = sizeof(analyze) };
static const plumb_write_options write_as = { .size = sizeof(write_as) };
static const plumb_report_options report = { .size = sizeof(report) };
static const plumb_viewer_options viewer = { .size = sizeof(viewer) };
static const plumb_minify_options minify = { .size = sizeof(minify), .fail_code = -1 };
static const plumb_repro_options repro = { .size = sizeof(repro), .level = 2 };
static const plumb_wrap_options wrap = { .size = sizeof(wrap), .level = 2 };
static const plumb_generate_options generate = { .size = sizeof(generate),
                                                 .steps = 16,
                                                 .save_step = -1 };
static const plumb_style style = { .size = sizeof(style) };
static const plumb_corpus_options corpus = {
    .size = sizeof(corpus), .timeout = 600, .max_queries = 200, .max_deaths = 2
};

typedef struct row {
    const char *name;
    const void *defaults;
    size_t size;
} row;

static const row rows[] = {
    [PLUMB_OPTIONS_INPUTS] = { "plumb_inputs", &inputs, sizeof(inputs) },
    [PLUMB_OPTIONS_CONTEXT] = { "plumb_context", &context, sizeof(context) },
    [PLUMB_OPTIONS_INFO] = { "plumb_info_options", &info, sizeof(info) },
    [PLUMB_OPTIONS_TRANSFORM] = { "plumb_transform_options", &transform, sizeof(transform) },
    [PLUMB_OPTIONS_CONVERT] = { "plumb_convert_options", &convert, sizeof(convert) },
    [PLUMB_OPTIONS_RUN] = { "plumb_run_options", &run, sizeof(run) },
    [PLUMB_OPTIONS_CHECK] = { "plumb_check_options", &check, sizeof(check) },
    [PLUMB_OPTIONS_TEST] = { "plumb_test_options", &test, sizeof(test) },
    [PLUMB_OPTIONS_SAME] = { "plumb_same_options", &same, sizeof(same) },
    [PLUMB_OPTIONS_RECORDER] = { "plumb_recorder_options", &recorder, sizeof(recorder) },
    [PLUMB_OPTIONS_RECORD] = { "plumb_record_options", &record, sizeof(record) },
    [PLUMB_OPTIONS_COMPARE] = { "plumb_compare_options", &compare, sizeof(compare) },
    [PLUMB_OPTIONS_ANALYZE] = { "plumb_analyze_options", &analyze, sizeof(analyze) },
    [PLUMB_OPTIONS_WRITE] = { "plumb_write_options", &write_as, sizeof(write_as) },
    [PLUMB_OPTIONS_REPORT] = { "plumb_report_options", &report, sizeof(report) },
    [PLUMB_OPTIONS_VIEWER] = { "plumb_viewer_options", &viewer, sizeof(viewer) },
    [PLUMB_OPTIONS_MINIFY] = { "plumb_minify_options", &minify, sizeof(minify) },
    [PLUMB_OPTIONS_REPRO] = { "plumb_repro_options", &repro, sizeof(repro) },
    [PLUMB_OPTIONS_WRAP] = { "plumb_wrap_options", &wrap, sizeof(wrap) },
    [PLUMB_OPTIONS_GENERATE] = { "plumb_generate_options", &generate, sizeof(generate) },
    [PLUMB_OPTIONS_STYLE] = { "plumb_style", &style, sizeof(style) },
    [PLUMB_OPTIONS_CORPUS] = { "plumb_corpus_options", &corpus, sizeof(corpus) },
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

plumb_status plumb_options_init(plumb_options_kind kind, void *options, size_t size) {
    if (options == NULL || (int)kind < 0 || (int)kind >= N_ROWS || size < sizeof(size_t))
        return PLUMB_E_USAGE;
    const row *r = &rows[kind];
    memset(options, 0, size); /* fields of a newer caller: 0 means "not used" */
    memcpy(options, r->defaults, size < r->size ? size : r->size);
    memcpy(options, &size, sizeof(size));
    return PLUMB_OK;
}

pl_status pl_options_read(plumb_options_kind kind, const void *from, void *to, pl_err *err) {
    const row *r = &rows[kind];
    size_t size = 0;
    memcpy(to, r->defaults, r->size);
    if (from == NULL) return PL_OK;
    memcpy(&size, from, sizeof(size));
    if (size < sizeof(size))
        return pl_fail(err, PL_E_USAGE, "%s.size is %zu: call %s_init first", r->name, size,
                       r->name);
    if (size <= r->size) {
        memcpy(to, from, size);
    } else {
        for (size_t i = r->size; i < size; i++) {
            if (((const char *)from)[i] != 0)
                return pl_fail(err, PL_E_USAGE,
                               "%s has fields that this plumb (%s) does not know: size is %zu, "
                               "expected at most %zu",
                               r->name, plumb_version(), size, r->size);
        }
        memcpy(to, from, r->size);
    }
    memcpy(to, &r->size, sizeof(size));
    return PL_OK;
}

pl_status pl_list_check(const char *name, const char *const *list, size_t n, pl_err *err) {
    for (size_t i = 0; i < n; i++) {
        if (list == NULL || list[i] == NULL)
            return pl_fail(err, PL_E_USAGE, "%s[%zu] is NULL", name, i);
    }
    return PL_OK;
}

pl_status pl_inputs_read(const plumb_inputs **given, plumb_inputs *own, pl_err *err) {
    PL_TRY(pl_options_read(PLUMB_OPTIONS_INPUTS, *given, own, err));
    PL_TRY(pl_list_check("plumb_inputs.files", own->files, own->n_files, err));
    PL_TRY(pl_list_check("plumb_inputs.sets", own->sets, own->n_sets, err));
    PL_TRY(pl_list_check("plumb_inputs.dims", own->dims, own->n_dims, err));
    PL_TRY(pl_list_check("plumb_inputs.ranges", own->ranges, own->n_ranges, err));
    const size_t n_samples = own->n_samples > 1 ? own->n_samples : 1;
    if (own->n_tensors > SIZE_MAX / n_samples / sizeof(plumb_input))
        return pl_fail(err, PL_E_LIMIT, "plumb_inputs.n_tensors is %zu", own->n_tensors);
    for (size_t i = 0; i < n_samples * own->n_tensors; i++) {
        if (own->tensors == NULL || own->tensors[i].name == NULL || own->tensors[i].tensor == NULL)
            return pl_fail(err, PL_E_USAGE, "plumb_inputs.tensors[%zu] has no name or no tensor",
                           i);
    }
    if (own->n_samples > 1 && own->n_sets > 1)
        return pl_fail(err, PL_E_USAGE,
                       "samples as tensors and several sets of inputs cannot be combined");
    *given = own;
    return PL_OK;
}

pl_status pl_context_read(const plumb_context **given, plumb_context *own, pl_err *err) {
    PL_TRY(pl_options_read(PLUMB_OPTIONS_CONTEXT, *given, own, err));
    *given = own;
    return PL_OK;
}

int pl_struct_fill(void *to, const void *from, size_t n_bytes) {
    size_t size = 0;
    if (to == NULL) return 0;
    memcpy(&size, to, sizeof(size));
    if (size < sizeof(size)) return 0;
    memset((char *)to + sizeof(size), 0, size - sizeof(size));
    if (from == NULL) return 0;
    if (size < n_bytes) n_bytes = size;
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), n_bytes - sizeof(size));
    return 1;
}

/* ---- progress ---- */

static int watch_update(void *ctx, const char *phase, int64_t done, int64_t total) {
    pl_watch *w = ctx;
    if (w->cancelled) return 1;
    if (w->pid != getpid()) return 0; /* a speculative fork reports nothing */
    if (phase != NULL) {
        const size_t n = pl_utf8_cut(phase, strlen(phase), sizeof(w->phase) - 1);
        memcpy(w->phase, phase, n);
        w->phase[n] = '\0';
        pl_utf8_clean(w->phase);
        w->done = done;
        w->total = total;
    }
    w->cancelled = w->user.update(w->user.ctx, w->phase, w->done, w->total) != 0;
    return w->cancelled;
}

const plumb_progress *pl_watch_init(pl_watch *w, const plumb_progress *user) {
    if (user == NULL || user->update == NULL) return NULL;
    *w = (pl_watch){ .user = *user, .pid = getpid() };
    w->progress = (plumb_progress){ watch_update, w };
    return &w->progress;
}
