"""plumb.watch: planted bugs of a compiler are named at the right fx node, with a repro that fails by itself. Prints TAP."""

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import torch
import torch.fx
from torch import nn

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import plumb  # noqa: E402
import planted_backends as planted  # noqa: E402
import tap  # noqa: E402
from tap import Skip  # noqa: E402
from torch_versions import TORCH2  # noqa: E402


# Kinds that need more than a run in this process.
OPTIONS = {"timeout": {"timeout": 3}, "crash": {"isolate": True}}


def caught(backend, folder, **options):
    gm, inputs = planted.graph()
    try:
        plumb.watch(backend, 4, folder=str(folder), verify=False, **options)(gm, inputs)(*inputs)
    except plumb.CompileError as e:
        return e
    raise AssertionError(f"{backend.__name__}: nothing was found")


def run_alone(e):
    """How the repro's script ends: its exit code, or "timeout"; and its last line."""
    try:
        done = subprocess.run([sys.executable, "-B", Path(e.repro) / "repro.py"], capture_output=True, text=True,
                              timeout=8 if e.kind == "timeout" else 100, env={**os.environ, "PYTHONPATH": ""})
    except subprocess.TimeoutExpired:
        return "timeout", ""
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def expected_end(kind):
    return {"timeout": "timeout", "crash": -signal.SIGSEGV}.get(kind, 1)


def test_planted_bugs(folder):
    """Each is named at its fx node, has a repro of at most 2 nodes, and the script fails in the same way without plumb."""
    bad, sizes = [], []
    for backend, kind, op, at in planted.BUGS:
        e = caught(backend, folder, **OPTIONS.get(kind, {}))
        found, wanted = (e.kind, e.node), (kind, planted.find(planted.graph()[0], op, at))
        if found != wanted:
            bad.append(f"{backend.__name__}: {found}, expected {wanted}")
            continue
        if not 1 <= e.nodes <= 2:
            bad.append(f"{backend.__name__}: {e.nodes} nodes")
        sizes.append(e.nodes)
        assert isinstance(e, plumb.AccuracyError) == (kind in ("accuracy", "metadata", "nondeterministic"))
        code, line = run_alone(e)
        if code != expected_end(kind) or code == 1 and not line.startswith(kind + ":"):
            bad.append(f"{backend.__name__}: the repro ends with {code}: {line}")
        if "import plumb" in (Path(e.repro) / "repro.py").read_text():
            bad.append(f"{backend.__name__}: the repro needs plumb")
    assert not bad and len(planted.BUGS) >= 20, "; ".join(bad)
    return f"{len(planted.BUGS)} bugs, {sizes.count(1)} repros of one node, {sizes.count(2)} of two"


def test_rows(folder):
    """Node by node: what eager and the compiled graph computed."""
    e = caught(next(b for b, *_ in planted.BUGS if b.__name__ == "dropped_op"), folder)
    same = {r["node"]: r["same"] for r in e.rows}
    assert same["relu"] and same["mul"] and not same["tanh"] and not same["softmax"] and same["sigmoid"], same
    rows = (Path(e.repro) / "nodes.tsv").read_text().splitlines()
    assert rows[0].split("\t") == ["node", "op", "shape", "max_abs", "same"] and len(rows) == len(e.rows) + 1


def test_repro_is_verified(folder):
    gm, inputs = planted.graph()
    wrong = next(b for b, *_ in planted.BUGS if b.__name__ == "relu_adds_one")
    try:
        plumb.watch(wrong, 4, folder=str(folder))(gm, inputs)(*inputs)
    except plumb.AccuracyError as e:
        assert e.verified and "reduced to 1" in str(e) and e.nodes_before == len([n for n in gm.graph.nodes if n.op.startswith("call_")])
    else:
        raise AssertionError("nothing was found")


def test_the_scripts_rule_is_pytorchs(_folder):
    """same() of the script says what plumb.same says, which is PyTorch's rule vector for vector (unit tests)."""
    from plumb import _script
    names = {"torch": torch, "TOL": 1e-3}
    text = _script._SCRIPT
    exec(text[text.index("def rmse("):text.index("def look(")].replace("{{", "{").replace("}}", "}"), names)
    torch.manual_seed(1)
    differ, n = [], 0
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64):
        for scale in (0, 1e-5, 3e-4, 1e-3, 4e-3, 0.1):
            for size in ((7,), (40, 50), (2, 3, 1, 1)):
                third = torch.randn(size, dtype=torch.float64) * 10
                ref = third.to(dtype)
                res = (third + scale * torch.randn(size, dtype=torch.float64)).to(dtype)
                for gold in (third, None):
                    n += 1
                    mine, plumbs = names["same"](ref, res, gold), bool(plumb.same(ref, res, gold, tol=1e-3, equal_nan=True))
                    if mine != plumbs:
                        differ.append((dtype, scale, size, gold is None))
    assert not differ, differ
    return f"{n} vectors"


def modules():
    """20 clean ones."""
    acts = [nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.ELU(), nn.Softplus(), nn.Hardswish(), nn.LeakyReLU(), nn.Mish()]
    for act in acts:
        yield nn.Sequential(nn.Linear(6, 7), act, nn.Linear(7, 3)), torch.randn(4, 6)
        yield nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), act, nn.AdaptiveAvgPool2d(1), nn.Flatten()), torch.randn(2, 2, 8, 8)


def test_no_false_alarms(folder):
    n = 0
    for net, x in modules():
        gm = torch.fx.symbolic_trace(net.eval())
        with torch.no_grad():
            want = net(x)
        got = plumb.watch(planted.eager, 4, folder=str(folder))(gm, [x])(x)
        assert torch.equal(got, want)
        n += 1
    assert not list(folder.iterdir())
    return f"{n} modules"


def raised(function):
    try:
        function()
    except plumb.CompileError as e:
        return e
    raise AssertionError("nothing was found")


def test_levels(folder):
    """0 is the backend itself; 1 writes the graph as it is; below 4 a wrong result passes; 3 writes before it runs."""
    wrong = next(b for b, *_ in planted.BUGS if b.__name__ == "relu_adds_one")
    assert plumb.watch(planted.eager, 0) is planted.eager
    for level in (1, 2):
        gm, inputs = planted.graph()
        plumb.watch(wrong, level, folder=str(folder))(gm, inputs)(*inputs)
    assert not list(folder.iterdir())
    gm, inputs = planted.graph()
    n = len([x for x in gm.graph.nodes if x.op.startswith("call_")])
    e = raised(lambda: plumb.watch(planted.raises_at_compile_time, 1, folder=str(folder))(gm, inputs)(*inputs))
    assert e.node == "" and e.nodes == n and e.verified, (e.node, e.nodes, e.verified)
    gm, inputs = planted.graph()
    e = raised(lambda: plumb.watch(planted.raises_at_compile_time, 2, folder=str(folder))(gm, inputs)(*inputs))
    assert e.node == "tanh" and e.nodes == 1 and e.verified
    gm, inputs = planted.graph()
    plumb.watch(planted.eager, 3, folder=str(folder / "three"))(gm, inputs)(*inputs)
    written = list((folder / "three").iterdir())
    assert len(written) == 1 and "written before compiling" in (written[0] / "repro.py").read_text()
    try:
        plumb.watch(planted.eager, 5)
    except ValueError as e:
        assert "0 to 4" in str(e)


def test_later_calls(folder):
    """A result that is right on the first inputs and wrong on the next: shapes, a state that the compiled code keeps."""
    gm, inputs = planted.graph()

    def counts(gm, _inputs):
        calls = []

        def run(*args):
            calls.append(1)
            return tuple(t + (1 if len(calls) > 4 else 0) for t in gm(*args))
        return run
    watched = plumb.watch(counts, 4, folder=str(folder), verify=False)(gm, inputs)
    for _ in range(4):
        watched(*inputs)
    e = raised(lambda: watched(*inputs))
    assert isinstance(e, plumb.AccuracyError)


def test_gradients_pass_through(folder):
    """A watched function is still differentiable."""
    gm, inputs = planted.graph()
    x = inputs[0].clone().requires_grad_()
    out = plumb.watch(planted.eager, 4, folder=str(folder))(gm, [x])(x)
    out[0].sum().backward()
    assert x.grad is not None and x.grad.abs().sum() > 0


def test_changed_inputs(folder):
    """What a graph writes to its inputs counts: a compiler that forgets it is caught, eager is not."""
    class Adds(nn.Module):
        def forward(self, x, state):
            state.add_(x)
            return state * 2
    gm, inputs = torch.fx.symbolic_trace(Adds()), [torch.ones(3), torch.zeros(3)]

    def forgets(gm, _inputs):
        return lambda x, state: gm(x, state.clone())
    assert torch.equal(plumb.watch(planted.eager, 4, folder=str(folder))(gm, inputs)(*inputs), torch.full((3,), 2.0))
    assert torch.equal(inputs[1], torch.ones(3)), "the check ran on the inputs themselves"
    e = raised(lambda: plumb.watch(forgets, 4, folder=str(folder), verify=False)(gm, inputs)(torch.ones(3), torch.zeros(3)))
    assert e.kind == "accuracy"


def needs_torch2():
    if hasattr(torch, "compile") and TORCH2:
        return
    try:
        plumb.watch("inductor")
    except NotImplementedError as e:
        assert "torch 2.0" in str(e)
        raise Skip(f"torch {torch.__version__} has no torch.compile; tests/python/torch2 runs it") from None
    raise AssertionError("no error")


def compiled(net, backend, *inputs):
    torch._dynamo.reset()
    with torch.no_grad():
        return torch.compile(net, backend=backend)(*inputs)


def test_torch_compile(folder):
    """The named backends of dynamo compute what they should, and a planted bug is named with its line."""
    needs_torch2()
    net, x = planted.net()
    with torch.no_grad():
        want = net(x)
    for name in ("eager", "aot_eager", "inductor"):
        got = compiled(net, plumb.watch(name, 4, folder=str(folder)), x)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(want, got)), name
    assert not list(folder.iterdir())
    wrong = next(b for b, *_ in planted.BUGS if b.__name__ == "dropped_op")
    e = raised(lambda: compiled(net, plumb.watch(wrong, 4, folder=str(folder)), x))
    assert e.op == "tanh" and e.nodes == 1 and e.verified and "planted_backends.py:" in e.source, (e, e.verified)
    path, _, line = e.source.rpartition(":")
    assert "torch.tanh" in Path(path).read_text().splitlines()[int(line) - 1]
    return "eager, aot_eager, inductor, a planted bug"


def test_planted_bugs_in_torch_compile(folder):
    """The same bugs in the graphs of dynamo."""
    needs_torch2()
    net, x = planted.net()
    bad = []
    for backend, kind, op, at in planted.BUGS:
        if kind == "crash" and "--full" not in sys.argv:
            continue
        names = []

        def keep(gm, inputs, watched=plumb.watch(backend, 4, folder=str(folder), verify=False, **OPTIONS.get(kind, {})), **more):
            names.append(planted.find(gm, op, at))
            return watched(gm, inputs, **more)
        e = raised(lambda: compiled(net, keep, x))
        if (e.kind, e.node) != (kind, names[0]) or not 1 <= e.nodes <= 2:
            bad.append(f"{backend.__name__}: {e.kind} {e.node} {e.nodes}, expected {kind} {names[0]}")
    assert not bad, "; ".join(bad)
    return f"{len(planted.BUGS)} bugs"


def inject(kind):
    """The bug in relu that inductor has for tests, as a patch of its settings."""
    import torch._inductor.config as config
    for path in ("cpp.inject_relu_bug_TESTING_ONLY", "test_configs.inject_relu_bug_TESTING_ONLY"):
        try:
            return config.patch({path: kind})
        except AttributeError:
            continue
    raise Skip("this inductor has no relu bug to inject")


def test_inductor_bug(folder):
    """PyTorch's own planted bug, in inductor's C++ for the CPU: wrong values, and code that does not compile."""
    needs_torch2()
    net, x = planted.net()
    for kind, wanted in (("accuracy", "accuracy"), ("compile_error", "error")):
        with inject(kind):
            e = raised(lambda: compiled(net, plumb.watch("inductor", 4, folder=str(folder)), x))
        assert (e.kind, e.op, e.nodes, e.verified) == (wanted, "relu", 1, True), (kind, e, e.nodes, e.verified)


class Convolves(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.l = nn.Conv2d(2, 3, 3), nn.Linear(6, 3)

    def forward(self, x):
        return self.l(torch.tanh(self.c(x))).relu()


def dynamo_graph(net, x):
    """The graph that dynamo gives to a backend, and its inputs."""
    kept = []

    def backend(graph, _inputs):
        def run(*args):
            kept.append((graph, [t.detach().clone() for t in args]))
            return graph(*args)
        return run
    compiled(net, backend, x)
    return kept[0]


def test_inductor_hooks(folder):
    """Inductor's own hooks, on the CPU: it calls them after a convolution, which is not a kernel of its own. A wrong one is named."""
    needs_torch2()
    from plumb import _inductor
    from torch._inductor.select_algorithm import extern_kernels
    assert _inductor.available()
    torch.manual_seed(0)
    net, x = Convolves(), torch.randn(1, 2, 8, 8)
    graph, inputs = dynamo_graph(net, x)
    conv = planted.find(graph, "conv2d", 0)
    with torch.no_grad():
        rows = _inductor.buffers(graph, inputs)
    assert [_inductor._origin(n) for n, _, _ in rows] == [conv] and torch.allclose(rows[0][1], rows[0][2], atol=1e-5), rows
    right = extern_kernels.convolution
    extern_kernels.convolution = lambda *a, **k: right(*a, **k) + 1
    try:
        with torch.no_grad():
            assert _inductor.first(graph, inputs, {"tol": 1e-3, "equal_nan": True}).name == conv
        e = raised(lambda: compiled(net, plumb.watch("inductor", 4, folder=str(folder), verify=False), x))
    finally:
        extern_kernels.convolution = right
    assert (e.kind, e.node, e.nodes) == ("accuracy", conv, 1) and [r["node"] for r in e.rows if not r["same"]][:1] == [conv], (e, e.rows)
    return f"{len(rows)} buffer shown by inductor itself"


def test_clean_modules_in_torch_compile(folder):
    needs_torch2()
    full = "--full" in sys.argv
    n = 0
    for i, (net, x) in enumerate(modules()):
        net.eval()
        for name in ("aot_eager", "inductor") if full or i % 5 == 0 else ("aot_eager",):
            got = compiled(net, plumb.watch(name, 4, folder=str(folder)), x)
            with torch.no_grad():
                assert torch.allclose(got, net(x), atol=1e-4), (net, name)
            n += 1
    torch.manual_seed(0)
    drops = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8)).train()
    for name in ("aot_eager", "inductor"):  # random numbers, and buffers that are written
        compiled(drops, plumb.watch(name, 4, folder=str(folder)), torch.randn(4, 6))
    assert not list(folder.iterdir())
    return f"{n} of 40 pairs of module and backend, and dropout"


def test_library(_folder):
    """First of all: is there a library of this version? plumb.same is its."""
    try:
        return f"plumb {plumb.version()}"
    except plumb.LibraryError as e:
        raise Skip(str(e)) from None


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    names = dict(globals())
    try:
        plumb.version()
    except plumb.LibraryError:
        names = {"test_library": test_library}
    sys.exit(tap.main(names))
