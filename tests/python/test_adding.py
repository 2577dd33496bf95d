"""Adding a thing touches one place (CONTRIBUTING.md, "Adding things"): each test plants one in a copy of the sources, compiles
what changed with the build's own flags, and links plumb with it. The planted objects come in an archive, so what no table names
is left out by the linker. Prints TAP."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import tap

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("PLUMB", ROOT / "build/plumb")).resolve().parent
LIKE = "../src/ops/op_attr.c"  # any file of the library: it has the flags of all


class Planted:
    """A copy of the sources in `folder` with a few files added or edited."""

    def __init__(self, folder):
        self.top = folder / "tree"
        for name in ("src", "include", "tools"):
            shutil.copytree(ROOT / name, self.top / name)
        self.added, self.edited = [], []

    def add(self, name, text):
        path = self.top / name
        assert not path.exists(), name
        path.write_text(text)
        self.added.append(name)

    def edit(self, name, pattern, new):
        """Replaces the first match of a pattern; in `new`, \\g<0> is what matched."""
        path = self.top / name
        text, n = re.subn(pattern, new, path.read_text(), count=1)
        assert n == 1, f"{name}: nothing like {pattern}"
        path.write_text(text)
        if name not in self.edited:
            self.edited.append(name)

    def line(self, name, pattern, line):
        """One more line behind the one that matches: a row of a table."""
        before = (self.top / name).read_text().count("\n")
        self.edit(name, rf"(?m)^.*{pattern}.*\n", rf"\g<0>{line}\n")
        assert (self.top / name).read_text().count("\n") == before + 1

    def compile(self):
        touched = {n for n in self.added + self.edited}
        heads = [n[len("src/"):] for n in touched if not n.endswith(".c")]
        for path in (self.top / "src").rglob("*.c"):
            if any(f'"{h}"' in path.read_text() for h in heads):
                touched.add(str(path.relative_to(self.top)))
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        words = shlex.split(next(c["command"] for c in commands if c["file"] == LIKE))
        flags = [w for w in words[:words.index("-MD")] if not w.startswith(("-I../", "-fsanitize"))]
        listed = [n for part in ("lib", "cli")
                  for n in subprocess.run([self.top / "tools/list-sources", part], capture_output=True, text=True, check=True).stdout.split()]
        objects, self.cli = [], {}  # of the program itself: the build's object, and ours instead
        old = [re.sub(r"/", "_", n) + ".o" for n in touched if n.endswith(".c") and n not in self.added and not n.startswith("src/cli/")]
        shutil.copy(BUILD / "libplumb.a", self.top / "rest.a")
        if old:
            subprocess.run(["ar", "d", self.top / "rest.a", *old], check=True)
        for i, name in enumerate(sorted(n for n in touched if n.endswith(".c"))):
            assert name in listed, f"tools/list-sources does not find {name}"
            made = self.top / f"{i}.o"
            if name.startswith("src/cli/") and name not in self.added:
                self.cli[f"plumb.p/{name.replace('/', '_')}.o"] = str(made)
            else:
                objects.append(made)
            done = subprocess.run([*flags, f"-I{self.top}/src", f"-I{self.top}/include", "-Werror", "-O1", "-c", self.top / name, "-o", made],
                                  capture_output=True, text=True, cwd=BUILD)
            assert done.returncode == 0, done.stderr
        subprocess.run(["ar", "rcs", self.top / "planted.a", *objects], check=True)

    def link(self):
        self.compile()
        for program in ("plumb", "plumb-guard"):
            told = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", program], capture_output=True, text=True, check=True).stdout
            words = [self.cli.get(w, w) for w in shlex.split(told.strip().splitlines()[-1])]
            words[words.index("-o") + 1] = str(self.top / program)
            words[words.index("libplumb.a")] = str(self.top / "rest.a")
            words.insert(words.index(str(self.top / "rest.a")), str(self.top / "planted.a"))
            done = subprocess.run(words, capture_output=True, text=True, cwd=BUILD)
            assert done.returncode == 0, done.stderr
        return self.top / "plumb"

    def link_program(self, name, like):
        """A program of one file, linked as another one is: its own objects left out."""
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        words = shlex.split(next(c["command"] for c in commands if c["file"] == LIKE))
        flags = [w for w in words[:words.index("-MD")] if not w.startswith("-I../")]
        object_file, program = self.top / "program.o", self.top / "program"
        subprocess.run([*flags, f"-I{self.top}/src", f"-I{self.top}/include", "-c", self.top / name, "-o", object_file], check=True, cwd=BUILD)
        told = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", like], capture_output=True, text=True, check=True).stdout
        words = [w for w in shlex.split(told.strip().splitlines()[-1]) if not re.match(rf"{like}\.p/", w)]
        words[words.index("-o") + 1] = str(program)
        at = words.index("libplumb.a")
        words[at:at + 1] = [str(object_file), str(self.top / "planted.a"), str(self.top / "rest.a")]
        subprocess.run(words, check=True, cwd=BUILD)
        return program

    def has(self, symbol):
        return f" {symbol}\n" in subprocess.run(["nm", self.top / "plumb"], capture_output=True, text=True, check=True).stdout


def run(*words, code=0):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    assert code is None or done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


OPERATOR = '''
static void planted_f32(const void *p, const pl_f32 *x, pl_f32 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] + x[i];
}
static void planted_f64(const void *p, const pl_f64 *x, pl_f64 *y, size_t n) {
    (void)p;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] + x[i];
}
static pl_status planted_eval(pl_eval *c) {
    static const pl_unary_ops ops = { .f32 = planted_f32, .f64 = planted_f64 };
    return pl_eval_unary(c, &ops, NULL);
}

/* ---- rows ---- */
'''
ROW = '''{ .name = "Planted", MS, .in = PL_PORTS({ "X", F, 0 }), Y,
      RULES(PL_OP_ELEMENTWISE, pl_infer_same_as_first, planted_eval, pl_ms_planted, PL_AMP_KEEP), .emit = pl_emit_planted,
      .samples = PL_SAMPLES({ "(float[2] x) => (y) { y = com.microsoft.Planted(x) }", NULL, 0 }) },
    { 0 },'''
MODEL = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>\ng (float[3] x) => (float[3] y) { y = com.microsoft.Planted(x) }\n'


def test_operator__touches_one_family_folder(folder):
    p = Planted(folder)
    at = "src/ops/microsoft/"
    p.edit(at + "ms_fused.c", r"\n/\* ---- rows ---- \*/\n", OPERATOR)
    p.edit(at + "ms_fused.c", r"(?<=\n    )\{ 0 \},", ROW)
    for kind, body in (("grad", "    c->dx[0] = pl_g_add(c, c->dy[0], c->dy[0]);\n    return c->st;"),
                       ("bound", '    return pl_b_expand(c, "(i0) => (o0) { o0 = Add(i0, i0) }");')):
        p.edit(f"{at}ms_fused_{kind}.c", r"\Z", f"\npl_status pl_ms_planted_{kind}(pl_{kind} *c) {{\n{body}\n}}\n")
        p.edit(at + "ms_fused_rules.h", r"\n#endif\n", rf"pl_status pl_ms_planted_{kind}(pl_{kind} *c);\n\g<0>")
    p.edit(at + "ms_fused_emit.c", r"\Z", '\npl_status pl_emit_planted(pl_emit *c) {\n    return pl_emit_unary(c, "$0 + $0", NULL);\n}\n')
    p.edit(at + "ms_fused_rules.h", r"\n#endif\n", r"pl_status pl_emit_planted(pl_emit *c);\n\g<0>")
    assert all(n.startswith(at) for n in p.edited) and not p.added
    plumb = p.link()
    assert "Planted" in run(plumb, "ops")
    model = folder / "m.onnxtxt"
    model.write_text(MODEL)
    assert "min 2  max 2" in run(plumb, "run", model, "--fill", "ones", "-o", folder / "out")
    # The compiled form and both gradients, against the interpreter; then what its bound allows.
    run(plumb, "run", model, "--backend", "jit", "--accuracy", "--backward")
    said = subprocess.run([ROOT / "tools/check-rooms", p.top], capture_output=True, text=True).stdout
    assert "lanted" not in said, said
    return f"{len(p.edited)} files of one folder"


def one_file_one_line(p, *symbols):
    assert len(p.added) == 1 and len(p.edited) == 1, (p.added, p.edited)
    plumb = p.link()
    for symbol in symbols:
        assert p.has(symbol), f"{symbol} is not in plumb: no table names it"
    return plumb


def test_backend__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/backends/planted.c", '''/* A backend that a test planted. */
#include "backends/backend_int.h"

static plumb_status compile(void *self, const plumb_source *source, void **program, size_t *n_hooks, plumb_error *err) {
    (void)self, (void)source, (void)program, (void)n_hooks;
    return pl_fail(err, PL_E_UNSUPPORTED, "planted cannot compile");
}
static plumb_status run(void *program, const plumb_run_args *args, plumb_error *err) {
    (void)program, (void)args;
    return pl_fail(err, PL_E_UNSUPPORTED, "planted cannot run");
}
static void release(void *program) {
    (void)program;
}
const plumb_backend pl_backend_planted = { .abi = PLUMB_ABI,
                                           .n_bytes = sizeof(plumb_backend),
                                           .name = "planted",
                                           .summary = "was planted by a test",
                                           .compile = compile,
                                           .run = run,
                                           .free = release };
''')
    p.line("src/backends/backends.def", r"PL_BACKEND\(cmd\)", "PL_BACKEND(planted)")
    plumb = one_file_one_line(p, "pl_backend_planted")
    assert '"planted"' in run(plumb, "backends", "--json")


def test_planting__leaves_out_what_no_table_names(folder):
    p = Planted(folder)
    p.add("src/report/format_planted.c", "int pl_planted_unused(void);\nint pl_planted_unused(void) {\n    return 1;\n}\n")
    p.link()
    assert not p.has("pl_planted_unused")


def recordings(plumb, folder):
    model = folder / "net.onnxtxt"
    shutil.copy(ROOT / "tests/cli/net.onnxtxt", model)
    for name, backend in (("a", "eager"), ("b", "eager:kernels=plain")):
        run(plumb, "record", model, "--backend", backend, "-o", folder / f"{name}.safetensors")
    return folder / "a.safetensors", folder / "b.safetensors"


def test_format__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/report/format_planted.c", '''/* A format that a test planted. */
#include "report/format.h"

void pl_format_planted(const pl_session_view *view, pl_buf *out) {
    pl_buf_printf(out, "planted: %zu sync points\\n", view->session->n_points);
}
''')
    p.line("src/report/formats.def", r'PL_FORMAT\("csv"', 'PL_FORMAT("planted", planted)')
    plumb = one_file_one_line(p, "pl_format_planted")
    assert re.search(r"planted: \d+ sync points", run(plumb, "compare", *recordings(plumb, folder), "--format", "planted", code=None))


def test_metric__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/metric/metric_planted.c", '''/* A metric that a test planted. */
#include "metric/metrics.h"

double pl_measure_planted(const pl_accumulators *acc) {
    return 4711 + 0 * (double)acc->n;
}
''')
    p.line("src/metric/metrics.def", r"PL_METRIC\(max_ulp", 'PL_METRIC(planted, "was planted", "", LOWER, none)')
    plumb = one_file_one_line(p, "pl_measure_planted")
    a, b = recordings(plumb, folder)
    assert "4711" in run(plumb, "compare", a, b, "--metric", "planted", code=None)
    assert json.loads(run(plumb, "compare", a, b, "--json", code=None))["sync_points"][-1]["metrics"]["planted"] == 4711


def test_command__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/cli/cmd_planted.c", '''/* A command that a test planted. */
#include <stdio.h>

#include "cli/args.h"

static int run(const pl_args *args) {
    printf("planted: %s\\n", args->positional[0]);
    return 7;
}

static const pl_option options[] = { { 0, NULL, NULL, NULL } };
extern const pl_command pl_command_planted;
const pl_command pl_command_planted = { .name = "planted",
                                        .usage = "WORD",
                                        .summary = "was planted by a test",
                                        .options = options,
                                        .min_args = 1,
                                        .max_args = 1,
                                        .run = run };
''')
    p.line("src/cli/commands.def", r"PL_COMMAND\(ops\)", "PL_COMMAND(planted)")
    plumb = one_file_one_line(p, "pl_command_planted")
    assert "planted: word" in run(plumb, "planted", "word", code=7)
    assert "planted    was planted by a test" in run(plumb, "--help")
    assert "planted WORD" in run(plumb, "planted", "--help")


def test_strategy__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/flows/minify/strategy/strategy_planted.c", '''/* A strategy that a test planted. */
#include "flows/minify/strategy/strategy.h"

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    (void)m, (void)from, (void)err;
    *out = NULL;
    return PL_OK;
}

const pl_strategy pl_strategy_planted = {
    .name = "Planted", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_INPUTS, .run = run
};
''')
    p.line("src/flows/minify/strategy/strategies.def", r"PL_STRATEGY\(unused\)", "PL_STRATEGY(planted)")
    plumb = one_file_one_line(p, "pl_strategy_planted")
    said = run(plumb, "minify", ROOT / "tests/cli/net.onnxtxt", "--backend", "jit:inject=scale@Tanh", "-v", "-o", folder / "repro", code=None)
    assert "Strategy: Planted" in said and "FAIL: Planted" in said, said


def test_pass__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/passes/planted.c", '''/* A pass that a test planted. */
#include "passes/passes.h"

static pl_status run(pl_pass_job *job, pl_err *err) {
    return pl_fail(err, PL_E_UNSUPPORTED, "planted in a model of %zu nodes", job->model->graph->n_nodes);
}

extern const pl_pass pl_pass_planted;
const pl_pass pl_pass_planted = { .name = "planted", .summary = "was planted by a test", .run = run };
''')
    p.line("src/passes/passes.def", r"PL_PASS\(eval\)", "PL_PASS(planted)")
    one_file_one_line(p, "pl_pass_planted")
    # A pass is asked for by name, from inside: a program with the planted library does it.
    p.add("src/asks.c", PASS_PROGRAM)
    said = run(p.link_program("src/asks.c", "plumb"), ROOT / "tests/cli/net.onnxtxt", code=4)
    nodes = json.loads(run(p.top / "plumb", "info", ROOT / "tests/cli/net.onnxtxt", "--json"))["nodes"]
    assert said.split() == ["planted:", "was", "planted", "by", "a", "test;", "planted", "in", "a", "model", "of", str(nodes), "nodes"], said


PASS_PROGRAM = '''#include <stdio.h>

#include "onnx/onnx.h"
#include "passes/passes.h"

int main(int argc, char **argv) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    const pl_pass *pass = pl_pass_find("planted");
    if (argc != 2 || pass == NULL || pl_model_read(argv[1], &model, &err) != PL_OK) return 1;
    const pl_status st = pl_pass_apply("planted", model, &err);
    printf("%s: %s; %s\\n", pass->name, pass->summary, err.message);
    pl_model_free(model);
    return (int)st;
}
'''


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
