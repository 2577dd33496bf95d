/* Programs that show the bug in ONNX Runtime without plumb. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "base/escape.h"
#include "flows/minify/repro/repro.h"

/* Lines of the programs; "@" is replaced by their settings. */
/* clang-format off */
static const char *const python_lines[] = {
#include "flows/minify/repro/repro_ort_py.inc"
    NULL
};
static const char *const node_lines[] = {
#include "flows/minify/repro/repro_ort_js.inc"
    NULL
};
static const char *const c_lines[] = {
#include "flows/minify/repro/repro_ort_c.inc"
    NULL
};
/* clang-format on */

bool pl_repro_is_ort(const pl_repro *r) {
    return r->backend != NULL && strncmp(r->backend, "ort", 3) == 0 &&
           (r->backend[3] == '\0' || r->backend[3] == ':');
}

typedef struct settings {
    pl_spec spec;
    const char *opt, *disable, *providers;
    long threads;
} settings;

static pl_status read_settings(const pl_repro *r, settings *s, pl_err *err) {
    static const plumb_option_def any = { "*", "TEXT", NULL };
    *s = (settings){ .opt = "all", .disable = "", .providers = "" };
    PL_TRY(pl_spec_parse(r->backend, "ort", &any, 1, &s->spec, err));
    const char *opt = pl_option_value(s->spec.options, s->spec.n_options, "opt");
    const char *disable = pl_option_value(s->spec.options, s->spec.n_options, "disable");
    const char *threads = pl_option_value(s->spec.options, s->spec.n_options, "threads");
    const char *providers = pl_option_value(s->spec.options, s->spec.n_options, "providers");
    if (opt != NULL) s->opt = opt;
    if (disable != NULL) s->disable = disable;
    if (providers != NULL) s->providers = providers;
    s->threads = threads == NULL ? r->threads
                                 : pl_option_int(s->spec.options, s->spec.n_options, "threads", 0);
    return PL_OK;
}

static int level_of(const char *opt) {
    if (strcmp(opt, "off") == 0) return 0;
    return strcmp(opt, "basic") == 0 ? 1 : strcmp(opt, "extended") == 0 ? 2 : 99;
}

#define NEVER 1e300 /* an output that was right or not observed proves nothing */

/* How far an output must be off to show the bug: half of the observed error. */
static double limit_of(const pl_repro *r, size_t i) {
    const pl_datum *a = r->observed == NULL ? NULL : r->observed[i];
    const pl_datum *b = r->expected == NULL ? NULL : r->expected[i];
    double off = 0;
    if (a == NULL || b == NULL || a->kind != PL_TYPE_TENSOR || b->kind != PL_TYPE_TENSOR ||
        a->tensor->dtype == PL_STRING || !pl_tensor_same_shape(a->tensor, b->tensor) ||
        !pl_tensor_is_contiguous(a->tensor) || !pl_tensor_is_contiguous(b->tensor)) {
        return NEVER;
    }
    for (int64_t k = 0; k < a->tensor->n_elements; k++) {
        const double x = pl_tensor_get_f64(a->tensor, k), y = pl_tensor_get_f64(b->tensor, k);
        if (isfinite(x) && isfinite(y)) off = fmax(off, fabs(x - y));
    }
    return off > 0 ? off / 2 : NEVER;
}

/* "a+b" as the string "a;b". */
static void put_disabled(pl_buf *out, pl_escape language, const char *names) {
    pl_buf joined = PL_BUF_INIT;
    for (; *names != '\0'; names++)
        pl_buf_putc(&joined, *names == '+' ? ';' : *names);
    if (!pl_buf_ok(&joined)) out->failed = true;
    pl_escape_put(out, language, pl_buf_str(&joined));
    pl_buf_release(&joined);
}

/* How a language's package calls a provider: Python WebGpuExecutionProvider, Node webgpu, C WebGPU.
 */
static void put_provider(pl_buf *out, pl_escape language, const char *name, size_t n) {
    static const char *const python[][2] = { { "WebGPU", "WebGpu" },
                                             { "TensorRT", "Tensorrt" },
                                             { "XNNPACK", "Xnnpack" } };
    char text[100];
    snprintf(text, sizeof(text), "%.*s", (int)(n < 60 ? n : 60), name);
    for (size_t i = 0; language == PL_ESCAPE_PYTHON && i < sizeof(python) / sizeof(python[0]); i++)
        if (strcmp(text, python[i][0]) == 0) snprintf(text, sizeof(text), "%s", python[i][1]);
    if (language == PL_ESCAPE_PYTHON)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "ExecutionProvider");
    for (char *at = text; language == PL_ESCAPE_JAVASCRIPT && *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    pl_escape_put(out, language, text);
}

/* "a+b" as "'a', 'b', 'cpu'": the CPU is always last. */
static void put_providers(pl_buf *out, pl_escape language, const char *names) {
    for (const char *at = names; *at != '\0';) {
        const size_t n = strcspn(at, "+");
        if (n != 3 || memcmp(at, "CPU", 3) != 0) {
            put_provider(out, language, at, n);
            pl_buf_puts(out, ", ");
        }
        at += n + (at[n] == '+');
    }
    if (language == PL_ESCAPE_C) {
        pl_buf_puts(out, "0");
    } else {
        put_provider(out, language, "CPU", 3);
    }
}

static void put_limits(const pl_repro *r, pl_buf *out) {
    for (size_t i = 0; i < r->model->graph->n_outputs; i++)
        pl_buf_printf(out, "%s%.17g", i == 0 ? "" : ", ", limit_of(r, i));
}

/* The bug is that ONNX Runtime fails; otherwise a failure says nothing about the bug. */
static bool must_fail(const pl_repro *r) {
    return r->error[0] != '\0' ||
           (r->signature != NULL && r->signature->kind > PL_FAIL_DETERMINISM);
}

static void put_python(const pl_repro *r, const settings *s, pl_buf *out) {
    pl_buf_printf(out, "LEVEL, THREADS = %d, %ld\nDISABLE = [", level_of(s->opt), s->threads);
    if (s->disable[0] != '\0') put_disabled(out, PL_ESCAPE_PYTHON, s->disable);
    pl_buf_puts(out, "]\nPROVIDERS = [");
    put_providers(out, PL_ESCAPE_PYTHON, s->providers);
    pl_buf_puts(out, "]\nLIMITS = [");
    put_limits(r, out);
    pl_buf_printf(out,
                  "]  # half of the error observed, by output\nMUST_FAIL = %s  # the bug is an "
                  "error of ONNX Runtime\n",
                  must_fail(r) ? "True" : "False");
}

static void put_node(const pl_repro *r, const settings *s, pl_buf *out) {
    pl_buf_puts(out, "const LEVEL = ");
    pl_escape_put(out, PL_ESCAPE_JAVASCRIPT, strcmp(s->opt, "off") == 0 ? "disabled" : s->opt);
    pl_buf_printf(out, ", THREADS = %ld;\nconst EXTRA = ", s->threads);
    if (s->disable[0] != '\0') {
        pl_buf_puts(out, "{optimization: {disable_specified_optimizers: ");
        put_disabled(out, PL_ESCAPE_JAVASCRIPT, s->disable);
        pl_buf_puts(out, "}};\n");
    } else {
        pl_buf_puts(out, "{};\n");
    }
    pl_buf_puts(out, "const PROVIDERS = [");
    put_providers(out, PL_ESCAPE_JAVASCRIPT, s->providers);
    pl_buf_puts(out, "];\nconst LIMITS = [");
    put_limits(r, out);
    pl_buf_printf(out,
                  "];  // half of the error observed, by output\nconst MUST_FAIL = %s;  // the bug "
                  "is an error of ONNX Runtime\nconst N_INPUTS = %zu;\n",
                  must_fail(r) ? "true" : "false", r->model->graph->n_inputs);
}

static void put_names(pl_buf *out, const char *what, pl_value *const *values, size_t n) {
    pl_buf_printf(out, "static const char *const %s[] = { ", what);
    for (size_t i = 0; i < n; i++) {
        pl_escape_put(out, PL_ESCAPE_C, values[i]->name);
        pl_buf_puts(out, ", ");
    }
    pl_buf_puts(out, "0 };\n");
}

static void put_c(const pl_repro *r, const settings *s, pl_buf *out) {
    const pl_graph *graph = r->model->graph;
    pl_buf_puts(out, "/* Runs model.onnx with ONNX Runtime. Exits with 1 if the bug shows, 0 if "
                     "not, 2 if it cannot run here.\n"
                     " *   cc repro_ort.c -o repro_ort -ldl -lm && ./repro_ort "
                     "libonnxruntime.so.1\n */\n");
    pl_buf_printf(out, "#define N_INPUTS %zu\n#define N_OUTPUTS %zu\n", graph->n_inputs,
                  graph->n_outputs);
    pl_buf_printf(out, "#define MUST_FAIL %d /* the bug is an error of ONNX Runtime */\n",
                  must_fail(r));
    pl_buf_printf(out, "#define LEVEL %d\n#define THREADS %ld\n#define DISABLE ", level_of(s->opt),
                  s->threads);
    put_disabled(out, PL_ESCAPE_C, s->disable);
    pl_buf_puts(out, "\n");
    pl_buf_puts(out, "static const char *const providers[] = { ");
    put_providers(out, PL_ESCAPE_C, s->providers);
    pl_buf_puts(out, " };\n");
    put_names(out, "inputs", graph->inputs, graph->n_inputs);
    put_names(out, "outputs", graph->outputs, graph->n_outputs);
    pl_buf_puts(out,
                "/* Half of the error observed, by output. */\nstatic const double limits[] = { ");
    put_limits(r, out);
    pl_buf_puts(out, " };\n\n");
}

pl_status pl_repro_put_script(const pl_repro *r, pl_script which, pl_buf *out, pl_err *err) {
    settings s;
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (r->in[i] == NULL || r->in[i]->kind != PL_TYPE_TENSOR ||
            r->in[i]->tensor->dtype == PL_STRING) {
            return pl_fail(err, PL_E_UNSUPPORTED, "input '%s' is not a numeric tensor",
                           graph->inputs[i]->name);
        }
    }
    for (size_t i = 0; i < graph->n_outputs && r->expected != NULL; i++) {
        if (r->expected[i] == NULL || r->expected[i]->kind != PL_TYPE_TENSOR) {
            return pl_fail(err, PL_E_UNSUPPORTED, "output '%s' is not a tensor",
                           graph->outputs[i]->name);
        }
    }
    const pl_status st = read_settings(r, &s, err);
    const char *const *lines = which == PL_SCRIPT_PYTHON ? python_lines
                               : which == PL_SCRIPT_NODE ? node_lines
                                                         : c_lines;
    for (; st == PL_OK && *lines != NULL; lines++) {
        if (strcmp(*lines, "@") != 0) {
            pl_buf_puts(out, *lines);
        } else if (which == PL_SCRIPT_PYTHON) {
            put_python(r, &s, out);
        } else if (which == PL_SCRIPT_NODE) {
            put_node(r, &s, out);
        } else {
            put_c(r, &s, out);
        }
    }
    pl_spec_release(&s.spec);
    return st;
}
