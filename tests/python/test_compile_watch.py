"""plumb.watch: planted bugs of a compiler are named at the right fx node, with a repro that fails by itself. Prints TAP."""

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


def caught(backend, folder, timeout=0):
    gm, inputs = planted.graph()
    try:
        plumb.watch(backend, 4, folder=str(folder), timeout=timeout)(gm, inputs)(*inputs)
    except plumb.CompileError as e:
        return e
    raise AssertionError(f"{backend.__name__}: nothing was found")


def test_planted_bugs(folder):
    bad, small = [], 0
    for backend, kind, node in planted.BUGS:
        e = caught(backend, folder, timeout=3 if kind == "timeout" else 0)
        found = (e.kind, e.node)
        if found != (kind, node):
            bad.append(f"{backend.__name__}: {found}, expected {(kind, node)}")
            continue
        if e.nodes > 2:
            bad.append(f"{backend.__name__}: {e.nodes} nodes")
        small += e.nodes == 1
        assert isinstance(e, plumb.AccuracyError) == (kind in ("accuracy", "metadata", "nondeterministic"))
        if kind == "timeout":
            continue  # the script would hang, too
        done = subprocess.run([sys.executable, Path(e.repro) / "repro.py"], capture_output=True, text=True, timeout=100)
        if done.returncode != 1 or "Traceback" in done.stderr:
            bad.append(f"{backend.__name__}: the repro exits with {done.returncode}: {done.stderr[-200:]}")
    assert not bad and len(planted.BUGS) >= 20, "; ".join(bad)
    return f"{len(planted.BUGS)} bugs, {small} repros of one node"


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


def test_levels(folder):
    """Below 4 a wrong result passes; level 1 writes nothing."""
    gm, inputs = planted.graph()
    wrong = next(b for b, _, _ in planted.BUGS if b.__name__ == "relu_adds_one")
    plumb.watch(wrong, 2, folder=str(folder))(gm, inputs)(*inputs)
    gm, inputs = planted.graph()
    try:
        plumb.watch(planted.raises_at_compile_time, 1, folder=str(folder))(gm, inputs)
    except plumb.CompileError as e:
        assert e.node == "tanh" and e.repro == ""
    assert not list(folder.iterdir())


def test_torch_compile(folder):
    if not TORCH2 or not hasattr(torch, "compile"):
        try:
            plumb.watch("inductor")
        except NotImplementedError as e:
            assert "torch 2.0" in str(e)
            raise Skip(f"torch {torch.__version__} has no torch.compile; tests/python/torch2 runs it") from None
        raise AssertionError("no error")
    net, x = planted.Net().eval(), torch.randn(5, 6)
    with torch.no_grad():
        want = net(x)
        for name in ("eager", "aot_eager"):
            torch._dynamo.reset()
            got = torch.compile(net, backend=plumb.watch(name, 4, folder=str(folder)))(x)
            assert all(torch.allclose(a, b) for a, b in zip(want, got)), name
        torch._dynamo.reset()

        def broken(gm, _inputs):
            for n in gm.graph.nodes:
                if n.op == "call_function" and n.target is torch.tanh:
                    n.target = torch.sin
            gm.recompile()
            return gm.forward
        try:
            torch.compile(net, backend=plumb.watch(broken, 4, folder=str(folder)))(x)
        except Exception as e:
            text = str(e)
        else:
            raise AssertionError("nothing was found")
    assert "accuracy at node" in text and "tanh" in text and "planted_backends.py" in text, text
    return "eager, aot_eager, a planted bug"


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
