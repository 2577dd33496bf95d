/* The texts of a repro: repro.json, README.md, run.sh; and reading repro.json. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/escape.h"
#include "base/utf8.h"
#include "flows/minify/repro/repro.h"
#include "flows/provenance.h"
#include "kernels/cpu.h"
#include "tensor/tensor.h"

enum { README_MODEL_MAX = 6000, README_NAME_MAX = 120 };

static const char *or_empty(const char *s) {
    return s == NULL ? "" : s;
}

static const char *command_of(const pl_repro *r) {
    return r->command == NULL ? "run" : r->command;
}

/* ---- repro.json ---- */

static void put_context(pl_json *json, const pl_repro *r) {
    pl_json_key(json, "context");
    pl_json_object_begin(json);
    pl_json_put_int(json, "seed", (int64_t)r->seed);
    pl_json_put_int(json, "threads", r->threads);
    pl_json_put_double(json, "timeout", r->timeout);
    if (r->memory_limit > 0) pl_json_put_int(json, "memory_limit", (int64_t)r->memory_limit);
    pl_json_put_bool(json, "eval", r->eval);
    pl_json_put_string(json, "amp", or_empty(r->amp));
    pl_json_put_bool(json, "backward", r->backward);
    pl_json_object_end(json);
}

/* The rule for wrong outputs. */
static void put_rule(pl_json *json, const pl_accuracy_options *rule) {
    pl_json_key(json, "predicate");
    pl_json_object_begin(json);
    pl_json_put_bool(json, "accuracy", rule->accuracy);
    pl_json_put_bool(json, "strict", rule->strict);
    pl_json_put_string(json, "profile", rule->profile == NULL ? "plumb" : rule->profile);
    pl_json_put_string(json, "same", or_empty(rule->same));
    pl_json_put_double(json, "tol", rule->tol);
    pl_json_object_end(json);
}

static void put_bisect(pl_json *json, const pl_repro *r) {
    pl_json_key(json, "bisect");
    pl_json_object_begin(json);
    pl_json_put_string(json, "level", or_empty(r->bisect_level));
    pl_json_put_string(json, "pass", or_empty(r->bisect_pass));
    pl_json_put_string(json, "reason", r->bisect_reason);
    pl_json_object_end(json);
}

void pl_repro_put_json(const pl_repro *r, pl_buf *out) {
    pl_json json;
    pl_json_init(&json, out, true);
    pl_json_object_begin(&json);
    pl_json_put_int(&json, "version", 1);
    pl_json_put_string(&json, "backend", r->backend);
    pl_json_put_string(&json, "check", r->check);
    if (r->check != NULL) {
        pl_json_put_string(&json, "fail_regex", r->fail_regex);
        pl_json_put_int(&json, "fail_code", r->fail_code);
    }
    if (r->check_str != NULL) pl_json_put_string(&json, "check_str", r->check_str);
    pl_json_put_string(&json, "command", command_of(r));
    pl_json_key(&json, "signature");
    if (r->signature != NULL) {
        pl_signature_put_json(&json, r->signature);
    } else {
        pl_json_null(&json);
    }
    if (r->original != NULL) {
        pl_json_key(&json, "original_signature");
        pl_signature_put_json(&json, r->original);
    }
    if (r->target != NULL) {
        pl_json_key(&json, "target");
        pl_signature_put_json(&json, r->target);
    }
    put_context(&json, r);
    if (r->check == NULL) put_rule(&json, &r->rule);
    pl_json_put_int(&json, "nodes", (int64_t)pl_model_count_nodes(r->model));
    if (r->minified) {
        pl_json_put_int(&json, "nodes_before", (int64_t)r->n_nodes_before);
        pl_json_put_int(&json, "queries", (int64_t)r->n_queries);
        pl_json_put_bool(&json, "one_minimal", r->one_minimal);
    }
    if (r->bisect_reason != NULL) put_bisect(&json, r);
    pl_json_put_bool(&json, "verified", r->verified);
    pl_json_put_string(&json, "outcome", r->outcome);
    pl_json_put_string(&json, "error", r->error);
    pl_json_put_bool(&json, "data", !r->no_data);
    if (r->remains != NULL) {
        pl_json_put_string(&json, "weights_of_the_original", r->remains);
    }
    if (!r->stable) {
        pl_json_put_string(&json, "source", or_empty(r->source));
        pl_json_put_string(&json, "backend_version", r->version);
        pl_provenance_put_machine(&json, pl_cpu_features());
    }
    pl_json_object_end(&json);
    pl_buf_putc(out, '\n');
}

static const char *text_of(const pl_json_value *root, const char *key, pl_arena *arena) {
    const pl_json_value *v = pl_json_find(root, key);
    const char *s =
        v != NULL && v->kind == PL_JSON_STRING ? pl_arena_strdup(arena, v->string) : NULL;
    return s == NULL ? "" : s;
}

static pl_status read_one(const pl_json_value *root, const char *key, pl_signature *out, bool *has,
                          pl_err *err) {
    const pl_json_value *v = pl_json_find(root, key);
    *has = v != NULL && v->kind == PL_JSON_OBJECT;
    return *has ? pl_signature_read_json(v, out, err) : PL_OK;
}

static void read_context(const pl_json_value *context, pl_arena *arena, pl_repro_info *out) {
    const pl_json_value *seed = pl_json_find(context, "seed");
    const pl_json_value *threads = pl_json_find(context, "threads");
    const pl_json_value *eval = pl_json_find(context, "eval");
    const pl_json_value *backward = pl_json_find(context, "backward");
    const pl_json_value *timeout = pl_json_find(context, "timeout");
    const pl_json_value *memory = pl_json_find(context, "memory_limit");
    const char *amp = text_of(context, "amp", arena);
    if (seed != NULL && seed->is_integer && seed->integer >= 0) {
        out->seed = (uint64_t)seed->integer;
    }
    if (threads != NULL && threads->is_integer && threads->integer >= 0 &&
        threads->integer <= 4096) {
        out->threads = (int)threads->integer;
    }
    if (timeout != NULL && timeout->kind == PL_JSON_NUMBER && timeout->number > 0) {
        out->timeout = timeout->number;
    }
    if (memory != NULL && memory->is_integer && memory->integer > 0) {
        out->memory_limit = (uint64_t)memory->integer;
    }
    out->eval = eval != NULL && eval->kind == PL_JSON_BOOL && eval->boolean;
    out->backward = backward != NULL && backward->kind == PL_JSON_BOOL && backward->boolean;
    if (strcmp(amp, "fp16") == 0 || strcmp(amp, "bf16") == 0) out->amp = amp;
}

static bool is_true(const pl_json_value *root, const char *key) {
    const pl_json_value *v = pl_json_find(root, key);
    return v != NULL && v->kind == PL_JSON_BOOL && v->boolean;
}

static void read_rule(const pl_json_value *rule, pl_arena *arena, pl_accuracy_options *out) {
    const pl_json_value *tol = pl_json_find(rule, "tol");
    out->accuracy = is_true(rule, "accuracy");
    out->strict = is_true(rule, "strict");
    out->profile = text_of(rule, "profile", arena);
    out->same = text_of(rule, "same", arena);
    if (tol != NULL && tol->kind == PL_JSON_NUMBER && tol->number > 0) out->tol = tol->number;
}

pl_status pl_repro_read_info(const char *path, pl_arena *arena, pl_repro_info *out, pl_err *err) {
    pl_dir *dir = NULL;
    pl_file_map *map = NULL;
    const pl_json_value *root = NULL;
    *out = (pl_repro_info){
        .backend = "", .check = "", .fail_regex = "", .check_str = "", .fail_code = -1, .amp = ""
    };
    char *folder = pl_path_dirname(path);
    pl_status st = folder == NULL ? pl_fail_memory(err, 1) : pl_dir_open(folder, &dir, err);
    if (st == PL_OK) st = pl_dir_map(dir, pl_path_basename(path), &map, err);
    pl_dir_close(dir);
    pl_free(folder);
    PL_TRY(st);
    st = pl_json_read((const char *)map->data, map->n_bytes, arena, &root, err);
    if (st == PL_OK) {
        out->backend = text_of(root, "backend", arena);
        out->check = text_of(root, "check", arena);
        out->fail_regex = text_of(root, "fail_regex", arena);
        out->check_str = text_of(root, "check_str", arena);
        const pl_json_value *code = pl_json_find(root, "fail_code");
        if (code != NULL && code->is_integer && code->integer >= 0 && code->integer < 256) {
            out->fail_code = (int)code->integer;
        }
        read_context(pl_json_find(root, "context"), arena, out);
        const pl_json_value *rule = pl_json_find(root, "predicate");
        if (rule != NULL && rule->kind == PL_JSON_OBJECT) read_rule(rule, arena, &out->rule);
        const pl_json_value *before = pl_json_find(root, "nodes_before");
        if (before != NULL && before->is_integer && before->integer > 0) {
            out->n_nodes_before = (size_t)before->integer;
        }
        st = read_one(root, "signature", &out->signature, &out->has_signature, err);
        if (st == PL_OK) st = read_one(root, "target", &out->target, &out->has_target, err);
        if (st == PL_OK) {
            st = read_one(root, "original_signature", &out->original, &out->has_original, err);
        }
    }
    pl_file_map_unref(map);
    return st == PL_OK ? st : pl_err_wrap(err, st, "%s", path);
}

/* ---- run.sh ---- */

static void put_arguments(const pl_repro *r, pl_buf *out) {
    if (r->backend != NULL) {
        pl_buf_puts(out, " --backend ");
        pl_escape_put(out, PL_ESCAPE_SHELL, r->backend);
    }
    if (r->seed != 0) pl_buf_printf(out, " --seed %llu", (unsigned long long)r->seed);
    if (r->threads > 0) pl_buf_printf(out, " --threads %d", r->threads);
    if (r->timeout > 0) pl_buf_printf(out, " --timeout %g", r->timeout);
    const unsigned long long megabytes = (r->memory_limit + (1 << 20) - 1) >> 20;
    if (megabytes > 0) pl_buf_printf(out, " --memory-limit %llu", megabytes);
    if (r->sandbox == PLUMB_SANDBOX_OFF) pl_buf_puts(out, " --sandbox off");
}

/* As options of `run` and `minify`. The repro's model is already in eval mode, so that is not
 * repeated. */
static void put_rule_arguments(const pl_repro *r, bool run, pl_buf *out) {
    const pl_accuracy_options *rule = &r->rule;
    const bool torch = rule->profile != NULL && strcmp(rule->profile, "torch") == 0;
    if (!rule->accuracy && !(rule->strict && !run)) return;
    if (run) {
        pl_buf_puts(out, rule->strict ? " --strict-accuracy --no-eval" : " --accuracy --no-eval");
    } else {
        if (rule->accuracy) pl_buf_puts(out, " --accuracy --no-eval");
        if (rule->strict) pl_buf_puts(out, " --strict-accuracy");
    }
    if (torch) pl_buf_puts(out, " --profile torch");
    if (rule->tol > 0) pl_buf_printf(out, " --tol %.17g", rule->tol);
    if (rule->same == NULL || rule->same[0] == '\0') return;
    pl_buf_puts(out, " --same ");
    pl_escape_put(out, PL_ESCAPE_SHELL, rule->same);
}

/* It stays in the current folder: a check, a program or a library may be relative to it. */
void pl_repro_put_run(const pl_repro *r, pl_buf *out) {
    pl_buf_printf(out,
                  "#!/bin/sh\n"
                  "# ./run.sh [run|minify|analyze|query]   (default: %s)\n"
                  "plumb_dir=$(dirname \"$0\")\n"
                  "plumb_model=$plumb_dir/model.onnx\n"
                  "plumb=${PLUMB:-plumb}\n"
                  "what=${1:-%s}\n"
                  "[ $# -gt 0 ] && shift\n"
                  "case \"$what\" in\n"
                  "run) ",
                  command_of(r), command_of(r));
    if (r->check != NULL) {
        pl_check_put_command(out, r->check);
        pl_buf_putc(out, '\n'); /* the command may end in a comment */
    } else {
        pl_buf_puts(out, "exec \"$plumb\" run \"$plumb_dir\"");
        put_arguments(r, out);
        put_rule_arguments(r, true, out);
        pl_buf_puts(out, " \"$@\"");
    }
    pl_buf_puts(out, " ;;\nanalyze) exec \"$plumb\" analyze \"$plumb_dir\"");
    put_arguments(r, out);
    pl_buf_puts(out, " \"$@\" ;;\nminify) exec \"$plumb\" minify \"$plumb_dir\"");
    if (r->check != NULL) {
        pl_buf_puts(out, " --check ");
        pl_escape_put(out, PL_ESCAPE_SHELL, r->check);
        if (r->fail_regex != NULL) {
            pl_buf_puts(out, " --fail-regex ");
            pl_escape_put(out, PL_ESCAPE_SHELL, r->fail_regex);
        }
        if (r->fail_code >= 0) pl_buf_printf(out, " --fail-code %d", r->fail_code);
    } else {
        put_arguments(r, out);
        put_rule_arguments(r, false, out);
    }
    if (r->check_str != NULL) {
        pl_buf_puts(out, " --check-str ");
        pl_escape_put(out, PL_ESCAPE_SHELL, r->check_str);
    }
    if (r->signature != NULL) pl_buf_puts(out, " --signature \"$plumb_dir/repro.json\"");
    pl_buf_puts(out, " \"$@\" ;;\n"
                     "query) exec \"$plumb\" minify --query --trust \"$plumb_dir\" \"$@\" ;;\n"
                     "*) echo \"usage: ./run.sh [run|minify|analyze|query]\" >&2; exit 2 ;;\n"
                     "esac\n");
}

/* ---- README.md ---- */

/* Untrusted text as an indented Markdown block: every line. */
static void put_block(pl_buf *out, const char *text) {
    pl_buf_putc(out, '\n');
    pl_escape_put(out, PL_ESCAPE_MD_BLOCK, text);
}

/* "input 0 `NAME`, expected" */
static void put_name(pl_buf *out, const char *what, size_t i, const char *name, const char *after) {
    pl_buf_printf(out, "- %s %zu ", what, i);
    pl_escape_put_n(out, PL_ESCAPE_MD_CODE, name, pl_utf8_cut(name, strlen(name), README_NAME_MAX));
    pl_buf_puts(out, after);
}

static void put_values(pl_buf *out, const pl_datum *d) {
    char text[128];
    if (d == NULL) {
        pl_buf_puts(out, ": none\n");
        return;
    }
    pl_buf_printf(out, ": %s", pl_datum_describe(d, text, sizeof(text)));
    const pl_tensor *t = d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
    if (t != NULL && t->dtype != PL_STRING && t->n_elements <= 16 && pl_tensor_is_contiguous(t)) {
        pl_buf_puts(out, " =");
        for (int64_t i = 0; i < t->n_elements; i++)
            pl_buf_printf(out, " %.9g", pl_tensor_get_f64(t, i));
    }
    pl_buf_putc(out, '\n');
}

static void put_data(const pl_repro *r, pl_buf *out) {
    const pl_graph *graph = r->model->graph;
    pl_buf_puts(out, "\n## Inputs, expected and observed\n\n");
    for (size_t i = 0; i < graph->n_inputs && i < 8; i++) {
        put_name(out, "input", i, graph->inputs[i]->name, "");
        put_values(out, r->in[i]);
    }
    for (size_t i = 0; i < graph->n_outputs && i < 8 && r->expected != NULL; i++) {
        put_name(out, "output", i, graph->outputs[i]->name, ", expected");
        put_values(out, r->expected[i]);
        if (r->observed == NULL || r->observed[i] == NULL) continue;
        put_name(out, "output", i, graph->outputs[i]->name, ", observed");
        put_values(out, r->observed[i]);
    }
    if (r->error[0] != '\0') {
        pl_buf_puts(out, "- observed: ");
        pl_escape_put(out, PL_ESCAPE_MARKDOWN, r->error);
        pl_buf_putc(out, '\n');
    }
    pl_buf_puts(out, "\nExpected values are those of plumb's reference interpreter.\n");
}

static void put_how(const pl_repro *r, pl_buf *out) {
    pl_buf_puts(out, "\n## How to run it\n\n");
    if (pl_repro_is_ort(r) && r->expected != NULL && !r->no_data) {
        pl_buf_puts(
            out,
            "Without plumb; each exits with 1 if the bug shows, 0 if not, 2 if it cannot run:\n\n"
            "    python3 repro_ort.py                 # pip install onnx onnxruntime\n"
            "    node repro_ort.js                    # npm install onnxruntime-node\n"
            "    cc repro_ort.c -o repro_ort -ldl -lm && ./repro_ort libonnxruntime.so.1\n"
            "\nWith plumb:\n\n");
    }
    pl_buf_puts(out, "    ./run.sh run       # runs it\n"
                     "    ./run.sh query     # exit code 1: it still fails\n"
                     "    ./run.sh analyze   # which operation is to blame\n"
                     "    ./run.sh minify    # makes it smaller\n");
}

/* The result of --bisect. */
static void put_cause(const pl_repro *r, pl_buf *out) {
    const char *level = or_empty(r->bisect_level), *pass = or_empty(r->bisect_pass);
    pl_buf_puts(out, "\nCause: ");
    if (pass[0] != '\0') {
        pl_buf_printf(out, "the optimisation pass ");
        pl_escape_put(out, PL_ESCAPE_MD_CODE, pass);
        pl_buf_puts(out, "; ");
    }
    if (level[0] != '\0') pl_buf_printf(out, "lowest level that fails: %s; ", level);
    pl_escape_put(out, PL_ESCAPE_MARKDOWN, r->bisect_reason);
    pl_buf_puts(out, ".\n");
}

void pl_repro_put_readme(const pl_repro *r, const char *model_text, const char *notes,
                         pl_buf *out) {
    char signature[400] = "a model that fails";
    /* The original had more elements to determine the kind of error. */
    const pl_signature *told = r->original != NULL ? r->original : r->signature;
    if (told != NULL) pl_signature_describe(told, signature, sizeof(signature));
    pl_buf_puts(out, "# ");
    pl_escape_put(out, PL_ESCAPE_MARKDOWN, r->backend != NULL ? r->backend : "check");
    pl_buf_puts(out, ": ");
    pl_escape_put(out, PL_ESCAPE_MARKDOWN, signature);
    if (or_empty(r->bisect_pass)[0] != '\0') pl_buf_printf(out, " by %s", r->bisect_pass);
    pl_buf_puts(out, "\n\n");
    pl_buf_printf(out, "A model of %zu node%s", pl_model_count_nodes(r->model),
                  pl_model_count_nodes(r->model) == 1 ? "" : "s");
    if (r->minified) {
        pl_buf_printf(out, ", reduced from %zu%s", r->n_nodes_before,
                      r->one_minimal ? "; every node is needed" : "");
    }
    pl_buf_puts(out, ".\n");
    if (r->signature != NULL && r->signature->text[0] != '\0') {
        put_block(out, r->signature->text);
    }
    if (r->bisect_reason != NULL) put_cause(r, out);
    if (r->check != NULL) {
        pl_buf_puts(out, "\nThe check that fails:\n");
        put_block(out, r->check);
    }
    put_how(r, out);
    if (!r->no_data) put_data(r, out);
    const size_t n = strlen(model_text);
    if (n > 0 && n <= README_MODEL_MAX) {
        pl_buf_puts(out, "\n## The model\n");
        put_block(out, model_text); /* a name could close a fence */
    }
    if (r->remains != NULL) pl_buf_printf(out, "\nOriginal weights: %s.\n", r->remains);
    if (notes[0] != '\0') {
        pl_buf_puts(out, "\n## Not packed\n");
        put_block(out, notes);
    }
    if (!r->stable) {
        char cpu[160];
        pl_provenance_cpu(cpu, sizeof(cpu));
        pl_buf_printf(out, "\n## Where\n\n- plumb %s", plumb_version());
        if (r->version[0] != '\0') {
            pl_buf_puts(out, ", ");
            pl_escape_put(out, PL_ESCAPE_MARKDOWN, or_empty(r->backend));
            pl_buf_putc(out, ' ');
            pl_escape_put(out, PL_ESCAPE_MARKDOWN, r->version);
        }
        pl_buf_printf(out, "\n- %s\n", cpu);
    }
}
