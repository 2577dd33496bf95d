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
        listed = subprocess.run([self.top / "tools/list-sources", "lib"], capture_output=True, text=True, check=True).stdout.split()
        objects = []
        old = [re.sub(r"/", "_", n) + ".o" for n in touched if n.endswith(".c") and n not in self.added]
        shutil.copy(BUILD / "libplumb.a", self.top / "rest.a")
        subprocess.run(["ar", "d", self.top / "rest.a", *old], check=True)
        for i, name in enumerate(sorted(n for n in touched if n.endswith(".c"))):
            assert name in listed, f"tools/list-sources does not find {name}"
            objects.append(self.top / f"{i}.o")
            done = subprocess.run([*flags, f"-I{self.top}/src", f"-I{self.top}/include", "-Werror", "-O1", "-c", self.top / name, "-o", objects[-1]],
                                  capture_output=True, text=True, cwd=BUILD)
            assert done.returncode == 0, done.stderr
        subprocess.run(["ar", "rcs", self.top / "planted.a", *objects], check=True)

    def link(self):
        self.compile()
        for program in ("plumb", "plumb-guard"):
            told = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", program], capture_output=True, text=True, check=True).stdout
            words = shlex.split(told.strip().splitlines()[-1])
            words[words.index("-o") + 1] = str(self.top / program)
            words[words.index("libplumb.a")] = str(self.top / "rest.a")
            words.insert(words.index(str(self.top / "rest.a")), str(self.top / "planted.a"))
            done = subprocess.run(words, capture_output=True, text=True, cwd=BUILD)
            assert done.returncode == 0, done.stderr
        return self.top / "plumb"

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
    p.add("src/report/session_planted.c", "int pl_planted_unused(void);\nint pl_planted_unused(void) {\n    return 1;\n}\n")
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
    p.add("src/report/session_planted.c", '''/* A format that a test planted. */
#include "report/session_print.h"

void pl_session_put_planted(const pl_session_view *view, pl_buf *out) {
    pl_buf_printf(out, "planted: %zu sync points\\n", view->session->n_points);
}
''')
    p.line("src/report/formats.def", r'PL_FORMAT\("csv"', 'PL_FORMAT("planted", planted)')
    plumb = one_file_one_line(p, "pl_session_put_planted")
    assert re.search(r"planted: \d+ sync points", run(plumb, "compare", *recordings(plumb, folder), "--format", "planted", code=None))


def test_metric__is_one_function_and_one_row(folder):
    p = Planted(folder)
    p.edit("src/metric/metrics.c", r"\nconst pl_metric pl_metrics\[\]",
           "\nstatic double planted(const pl_accumulators *acc) {\n    (void)acc;\n    return 4711;\n}\n\\g<0>")
    p.line("src/metric/metrics.c", r'"max_ulp",  "largest', '    { "planted", "was planted", "", PL_LOWER_IS_BETTER, planted, no_limits },')
    assert p.edited == ["src/metric/metrics.c"] and not p.added
    plumb = p.link()
    assert "4711" in run(plumb, "compare", *recordings(plumb, folder), "--metric", "planted", code=None)


def test_strategy__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/flows/minify/strategy/strategy_planted.c", '''/* A strategy that a test planted. */
#include "flows/minify/minify_int.h"

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    (void)m, (void)from, (void)err;
    *out = NULL;
    return PL_OK;
}

const pl_strategy pl_strategy_planted = {
    .name = "Planted", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_INPUTS, .run = run
};
''')
    table = "src/flows/minify/strategy/strategies.def"
    if not (p.top / table).exists():
        raise tap.Skip(f"no {table}: the table of strategies is not a list yet")
    p.line(table, "unused", re.search(r"^(\w+)\(\w+\)", (p.top / table).read_text(), re.M)[1] + "(planted)")
    one_file_one_line(p, "pl_strategy_planted")


def test_pass__is_one_file_and_one_line(folder):
    p = Planted(folder)
    p.add("src/passes/planted.c", '''/* A pass that a test planted. */
#include "passes/passes.h"

static pl_status run(pl_pass_job *job, pl_err *err) {
    (void)job, (void)err;
    return PL_OK;
}

extern const pl_pass pl_pass_planted;
const pl_pass pl_pass_planted = { .name = "planted", .summary = "was planted by a test", .run = run };
''')
    table = "src/passes/passes.def"
    if not (p.top / table).exists():
        raise tap.Skip(f"no {table}: the table of passes is not there yet")
    p.line(table, r"PL_PASS\(eval\)", "PL_PASS(planted)")
    one_file_one_line(p, "pl_pass_planted")


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
