/* The outputs of a repro on one more backend, beside those that it was written with. */
#include "flows/corpus/repro_values.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/door.h"
#include "flows/api.h"
#include "flows/minify/repro/repro.h"
#include "tensor/file/tensor_file.h"

enum { ELEMENTS_MAX = 1 << 24 };

/* Kinds are compared by their words: the same bug is "scale 1.05" here and "scale 1.049, or offset"
 * there. An error without a form ("other") is told from nothing. */
static bool share_a_word(const char *a, const char *b) {
    while (*a != '\0') {
        size_t n = 0;
        while (isalpha((unsigned char)a[n]))
            n++;
        for (const char *at = b; n > 2 && *at != '\0'; at++) {
            const bool starts = at == b || !isalpha((unsigned char)at[-1]);
            if (starts && strncmp(at, a, n) == 0 && !isalpha((unsigned char)at[n])) return true;
        }
        a += n + (n == 0);
    }
    return false;
}

typedef struct errors { /* sums of squares over all outputs */
    double own, here, between;
    bool other_places; /* NaN or Inf where the other is finite */
    bool unknown;
} errors;

static void add_tensor(errors *e, const pl_tensor *expected, const pl_tensor *own,
                       const pl_tensor *here) {
    if (own->n_elements > ELEMENTS_MAX || !pl_tensor_same_shape(own, expected)) {
        e->unknown = true;
        return;
    }
    e->other_places = e->other_places || !pl_tensor_same_shape(own, here);
    for (int64_t i = 0; i < own->n_elements && !e->other_places; i++) {
        const double r = pl_tensor_get_f64(expected, i), o = pl_tensor_get_f64(own, i),
                     h = pl_tensor_get_f64(here, i);
        if (!isfinite(r)) continue;
        e->other_places = isfinite(o) != isfinite(h);
        if (!isfinite(o) || !isfinite(h)) continue;
        e->own += (o - r) * (o - r);
        e->here += (h - r) * (h - r);
        e->between += (h - o) * (h - o);
    }
}

static const pl_tensor *tensor_in(const pl_dir *dir, const char *set, size_t i,
                                  pl_tensor_file *file) {
    char name[64];
    snprintf(name, sizeof name, "%s/output_%zu.pb", set, i);
    if (pl_tensor_file_load_in(dir, name, NULL, file, NULL) != PL_OK || file->n_items != 1)
        return NULL;
    const pl_tensor *t = file->items[0].datum->tensor;
    return t == NULL || t->dtype == PL_STRING ? NULL : t;
}

static void add_output(errors *e, const pl_dir *dir, size_t i, const pl_tensor *here) {
    pl_tensor_file files[2] = { PL_TENSOR_FILE_INIT, PL_TENSOR_FILE_INIT };
    const pl_tensor *expected = tensor_in(dir, "test_data_set_0", i, &files[0]);
    const pl_tensor *own = tensor_in(dir, "observed", i, &files[1]);
    if (here != NULL && expected != NULL && own != NULL && here->dtype != PL_STRING) {
        add_tensor(e, expected, own, here);
    } else {
        e->unknown = true;
    }
    for (int k = 0; k < 2; k++)
        pl_tensor_file_release(&files[k]);
}

/* Farther from what was observed than half of the error. */
static bool are_apart(const errors *e) {
    if (e->unknown) return false;
    return e->other_places || e->between > 0.25 * fmax(e->own, e->here);
}

static bool values_differ(const pl_work *work, const char *folder, plumb_model *model,
                          const plumb_inputs *inputs) {
    plumb_run_options options;
    plumb_run_result *result = NULL;
    pl_dir *dir = NULL;
    errors e = { .own = 0 };
    plumb_run_options_init(&options);
    options.inputs = inputs;
    options.backend = pl_work_text(work, "backend");
    options.timeout = work->limits.timeout;
    options.memory_limit = work->limits.memory;
    options.threads = 1;
    options.sandbox = work->limits.sandbox;
    const bool ran = plumb_run(model, &options, &result, NULL) == PL_OK &&
                     pl_dir_open(folder, &dir, NULL) == PL_OK;
    const size_t n = ran ? plumb_run_result_outputs(result) : 0;
    for (size_t i = 0; i < n; i++)
        add_output(&e, dir, i, pl_api_tensor(plumb_run_result_tensor(result, i)));
    pl_dir_close(dir);
    plumb_run_result_free(result);
    return n > 0 && are_apart(&e);
}

/* "divergence of Mul (scale 1.05)" and what the repro's signature says of the same operator: an
 * error of another kind. */
static bool is_another_kind(const pl_signature *own, const char *failure) {
    static const pl_fail_kind of_values[] = { PL_FAIL_DIVERGENCE, PL_FAIL_NONFINITE };
    for (size_t i = 0; i < 2; i++) {
        char start[128];
        const int n =
            snprintf(start, sizeof start, "%s of %s", pl_fail_kind_name(of_values[i]), own->op);
        if (strncmp(failure, start, (size_t)n) != 0) continue;
        const char *kind = failure + n;
        if (own->kind != of_values[i]) return own->kind == of_values[1 - i];
        return kind[0] == ' ' && own->error_kind[0] != '\0' && !share_a_word(own->error_kind, kind);
    }
    return false;
}

bool pl_repro_differs(const pl_work *work, const char *folder, plumb_model *model,
                      const plumb_inputs *inputs, const char *failure) {
    pl_repro_info info = { .has_signature = false };
    const char *path = pl_arena_printf(work->arena, "%s/repro.json", folder);
    return path != NULL && pl_repro_read_info(path, work->arena, &info, NULL) == PL_OK &&
           info.has_signature && is_another_kind(&info.signature, failure) &&
           values_differ(work, folder, model, inputs);
}
