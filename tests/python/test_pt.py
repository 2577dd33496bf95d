"""plumb reads files of torch.save (.pt): every type and layout against torch itself, and refuses the rest by name. Prints TAP."""

import argparse
import collections
import enum
import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.dont_write_bytecode = True
import tap  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))


NUMBERS = itertools.count()


def plumb(*args):
    return subprocess.run([PLUMB, *map(str, args)], capture_output=True, text=True, timeout=300)


def points(folder, a, b):
    """value: sync point, of `plumb compare a b`."""
    out = folder / f"session-{next(NUMBERS)}"
    done = plumb("compare", a, b, "-o", out, "--json")
    assert done.stdout, done.stderr
    return {p["value"]: p for p in json.loads(done.stdout)["sync_points"]}


def bits(t):
    t = t.detach().contiguous()
    return t.view(torch.int16).numpy().view(np.uint16) if t.dtype == torch.bfloat16 else t.numpy()


def safetensors(path, tensors):
    """Writes them without plumb or torch."""
    kinds = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL",
             torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8"}
    header, data = {}, b""
    for name, t in tensors.items():
        raw = bits(t).tobytes()
        header[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def same(folder, saved, tensors, **options):
    """What plumb reads of torch.save(saved) has the names and the bytes of `tensors`."""
    torch.save(saved, folder / "a.pt", **options)
    safetensors(folder / "b.safetensors", tensors)
    found = points(folder, folder / "a.pt", folder / "b.safetensors")
    assert set(found) == set(tensors), sorted(set(found) ^ set(tensors))
    for name, p in found.items():
        assert p["class"] == "exact" and p["metadata"]["match"], (name, p)
    for p in list(folder.glob("a.pt")) + list(folder.glob("b.*")):
        p.unlink()
    return len(found)


TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int16, torch.int32,
         torch.int64, torch.uint8)


def test_types(folder):
    x = torch.randn(3, 5) * 4
    made = {str(t).split(".")[-1]: x.to(t) for t in TYPES}
    n = same(folder, made, made)
    torch.save({"c": torch.complex(x, x)}, folder / "c.pt")
    np.savez(folder / "c.npz", c=torch.complex(x, x).numpy())
    assert points(folder, folder / "c.pt", folder / "c.npz")["c"]["class"] == "exact"
    return f"{n + 1} types"


def test_layouts(folder):
    base = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5)
    made = {"transposed": base.transpose(0, 2), "slice": base[1:, ::2, 3], "shared": base, "expanded": base[:, :1].expand(3, 6, 5),
            "scalar": torch.tensor(2.5), "empty": base[:0], "offset": base.view(-1)[17:], "last": base.to(torch.float64)[..., -1]}
    return f"{same(folder, made, made)} layouts of shared storages"


def test_nesting(folder):
    a, b, c = torch.randn(2), torch.randn(3), torch.randn(4)
    saved = {"model": collections.OrderedDict(w=a, b=b), "list": [a, {"x": c}, (b,)], 7: c, "epoch": 3, "rate": 0.5, "on": True,
             "name": "resnet", "none": None, "shape": a.shape, "kind": torch.float16}
    want = {"model.w": a, "model.b": b, "list.0": a, "list.1.x": c, "list.2.0": b, "7": c, "epoch": torch.tensor(3),
            "rate": torch.tensor(0.5, dtype=torch.float64), "on": torch.tensor(True), "shape.0": torch.tensor(2)}
    n = same(folder, saved, want)
    for protocol in (2, 3, 4, 5):
        same(folder, saved, want, pickle_protocol=protocol)
    return f"{n} values, protocols 2 to 5"


def test_state_dicts(folder):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.LSTM(4, 5))
    n = same(folder, net.state_dict(), dict(net.state_dict()))
    n += same(folder, {"p": net[0].weight}, {"p": net[0].weight})  # a parameter
    optimizer = torch.optim.Adam(net.parameters())
    net[0](torch.randn(1, 3, 5, 5)).sum().backward()
    optimizer.step()
    torch.save({"net": net.state_dict(), "opt": optimizer.state_dict()}, folder / "checkpoint.pt")
    found = points(folder, folder / "checkpoint.pt", twin(folder / "checkpoint.pt"))
    want = optimizer.state_dict()["state"][0]["exp_avg"]
    assert found["opt.state.0.exp_avg"]["metadata"]["a"]["shape"] == list(want.shape)
    return f"{n} tensors, a checkpoint with {len(found)}"


def numpy_archive(folder, arrays):
    """torch.save's file of numpy arrays, and the same in an npz."""
    torch.save(arrays, folder / "a.pt")
    np.savez(folder / "b.npz", **arrays)
    found = points(folder, folder / "a.pt", folder / "b.npz")
    assert set(found) == set(arrays) and all(p["class"] == "exact" and p["metadata"]["match"] for p in found.values()), found
    return len(found)


def test_numpy(folder):
    """Arrays and numbers of numpy: every type, orders, empty ones; what their parts do not fit is refused."""
    kinds = "f4 f8 f2 i1 i2 i4 i8 u1 u2 u4 u8 ? c8 c16".split()
    arrays = {f"t{k}": (np.arange(200).reshape(10, 20) - 60).astype(k) for k in kinds}
    arrays.update(fortran=np.asfortranarray(arrays["tf4"]), strided=arrays["ti4"][::2, 3:], empty=np.zeros((0, 3), "f4", order="F"),
                  zero=np.float64(2.5), whole=np.int64(-7), scalar=np.array(3, "u2"), cube=np.arange(24.).reshape(2, 3, 4).transpose(2, 0, 1))
    n = numpy_archive(folder, arrays)
    torch.save({"x": np.arange(3, dtype=">f4")}, folder / "big.pt")
    refused(folder, "big.pt", "x: a numpy array saved on a big-endian machine")
    torch.save({"x": np.zeros(2, "M8[s]")}, folder / "time.pt")
    refused(folder, "time.pt", "numpy type 'M8'")
    torch.save({"x": np.arange(7, dtype="i4")}, folder / "good.pt")
    remade(folder / "good.pt", folder / "short.pt", lambda n, b: b.replace(b"K\x07\x85", b"K\x08\x85") if n.endswith("data.pkl") else b)
    refused(folder, "short.pt", "x: the bytes of an array do not fit its shape")
    return f"{n} arrays"


class Kind(enum.Enum):
    DECODER = 1


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


def test_megatron(folder):
    """A checkpoint of Megatron's layout: the command line as a Namespace, states of random numbers, extra states as bytes."""
    args = argparse.Namespace(hidden_size=8, lr=1e-4, params_dtype=torch.bfloat16, kind=Kind.DECODER, data_path=["a"], fp16=False, none=None,
                              where=Path("/data"), act=nn.functional.gelu, inner=argparse.Namespace(n=3))
    weight, bias = torch.randn(8, 4).bfloat16(), torch.randn(8)
    model = collections.OrderedDict([("decoder.layers.0.fc1.weight", weight), ("decoder.layers.0.fc1._extra_state", io.BytesIO(b"\0\xffstate")),
                                     ("decoder.layers.0.qkv.bias", bias), ("decoder.layers.0.qkv._extra_state", None)])
    state = np.random.RandomState(3).get_state()
    path = folder / "iter_0000100" / "mp_rank_00" / "model_optim_rng.pt"
    path.parent.mkdir(parents=True)
    torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 100, "model": model,
                "rng_state": [{"random_rng_state": random.getstate(), "np_rng_state": state, "torch_rng_state": torch.get_rng_state()}]}, path)
    found = points(folder, path, twin(path))
    wanted = {"args.hidden_size", "args.lr", "args.fp16", "args.inner.n", "checkpoint_version", "iteration", "model.decoder.layers.0.fc1.weight",
              "model.decoder.layers.0.fc1._extra_state", "model.decoder.layers.0.qkv.bias", "rng_state.0.np_rng_state.1", "rng_state.0.torch_rng_state"}
    assert wanted <= set(found) and not {"args.kind", "args.where", "args.act"} & set(found), wanted - set(found)
    safetensors(folder / "model.safetensors", {"model.decoder.layers.0.fc1.weight": weight, "model.decoder.layers.0.qkv.bias": bias * 2,
                                               "model.decoder.layers.0.fc1._extra_state": torch.tensor(list(b"\0\xffstate"), dtype=torch.uint8)})
    found = points(folder, path, folder / "model.safetensors")
    assert {n: found[f"model.decoder.layers.0.{n}"]["class"] for n in ("fc1.weight", "qkv.bias", "fc1._extra_state")} == {
        "fc1.weight": "exact", "qkv.bias": "finite", "fc1._extra_state": "exact"}
    torch.save({"args": argparse.Namespace(held=Holder(weight))}, folder / "held.pt")
    refused(folder, "held.pt", "args.held is a Python object of type", "Holder")
    torch.save({"kind": Kind.DECODER}, folder / "kind.pt")
    refused(folder, "kind.pt", "kind is a Python object of type")


def test_ranks_of_vllm(folder):
    """A file of torch.save for each rank, as a hook in vLLM's workers leaves them: one folder is one recording."""
    whole = torch.randn(3, 8)
    (folder / "ranks").mkdir()
    for r in (0, 1):
        part = whole[:, 4 * r:4 * r + 4].clone()
        torch.save({"model.layers.0.mlp": part * (1.5 if r else 1), "model.norm": whole}, folder / f"ranks/rank{r}.pt")
    safetensors(folder / "one.safetensors", {"layers.0.mlp": whole, "norm": whole})
    (folder / "map.json").write_text(json.dumps({"plumb.map": 1, "shards": [
        {"a": "rank{tp}/model.layers.{l}.mlp", "b": "layers.{l}.mlp", "rule": "concat 1 over tp"},
        {"a": "rank{tp}/model.norm", "b": "norm", "rule": "same over tp"}]}))
    done = plumb("compare", folder / "ranks", folder / "one.safetensors", "--map", folder / "map.json", "--json")
    wrong = [p["value"] for p in json.loads(done.stdout)["sync_points"] if p["class"] != "exact"]
    assert done.returncode == 1 and wrong == ["rank1/model.layers.0.mlp"], (wrong, done.stderr)


def test_one_tensor_as_input(folder):
    (folder / "m.onnxtxt").write_text('<ir_version: 8, opset_import: ["" : 13]>\ng (float[2,3] x) => (float[2,3] y) { y = Neg(x) }')
    x = torch.randn(2, 3)
    torch.save(x, folder / "one.pt")
    torch.save({"x": x}, folder / "named.pth")
    for args in (["--input", f"x={folder / 'one.pt'}"], ["--input", f"x={folder / 'named.pth'}"], ["--inputs", folder / "named.pth"]):
        out = folder / "y.npy"
        done = plumb("run", folder / "m.onnxtxt", *args, "-o", out)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(np.load(out), -x.numpy())
        out.unlink()
    assert "one" in points(folder, folder / "one.pt", twin(folder / "one.pt"))


def twin(path):
    """The same bytes in another file: one file against itself is refused."""
    copy = path.parent / "twin" / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(path.read_bytes())
    return copy


def refused(folder, name, *words):
    done = plumb("compare", folder / name, twin(folder / name), "-o", folder / "session")
    assert done.returncode == 2 and all(w in done.stderr for w in words), (done.returncode, done.stderr)
    assert not (folder / "session").exists()


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/plumb-pt-was-executed",)


def test_refusals(folder):
    """By name, with nothing executed."""
    mark = Path("/tmp/plumb-pt-was-executed")
    mark.unlink(missing_ok=True)
    torch.save({"a": [Evil()]}, folder / "evil.pt")
    refused(folder, "evil.pt", "a.0 is a Python object of type 'posix.system'")
    assert not mark.exists()
    torch.save(nn.Linear(2, 2), folder / "module.pt")
    refused(folder, "module.pt", "'torch.nn.modules.linear.Linear'")
    torch.save({"w": torch.randn(2)}, folder / "old.pt", _use_new_zipfile_serialization=False)
    refused(folder, "old.pt", "torch before 1.6")
    with tarfile.open(folder / "tar.pt", "w") as tar:
        tar.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    refused(folder, "tar.pt", "torch before 1.6 (a tar archive)")
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), str(folder / "script.pt"))
    refused(folder, "script.pt", "TorchScript")
    torch.save({"s": torch.randn(3, 3).to_sparse()}, folder / "sparse.pt")
    refused(folder, "sparse.pt", "s is a Python object of type 'torch._utils._rebuild_sparse_tensor'")
    torch.save({(1, 2): torch.randn(2)}, folder / "key.pt")
    refused(folder, "key.pt", "neither a string nor an integer")
    return "8 kinds"


def remade(source, target, change):
    """A copy of an archive; change(name, bytes) gives an entry's new bytes, or None to leave it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for info in old.infolist():
            data = change(info.filename, old.read(info))
            if data is not None:
                new.writestr(info.filename, data)


def test_damage(folder):
    """A tensor beyond its storage, a storage that is gone, a container in itself, and any cut."""
    torch.save({"w": torch.arange(100.)}, folder / "good.pt")
    remade(folder / "good.pt", folder / "short.pt", lambda n, b: b[:40] if "/data/" in n else b)
    refused(folder, "short.pt", "w: the tensor extends beyond its storage of 10 elements")
    remade(folder / "good.pt", folder / "gone.pt", lambda n, b: None if "/data/" in n else b)
    refused(folder, "gone.pt", "no entry 'data/0'")
    loop = []
    loop.append(loop)
    remade(folder / "good.pt", folder / "loop.pt", lambda n, b: pickle.dumps(loop, 2) if n.endswith("data.pkl") else b)
    refused(folder, "loop.pt", "nested deeper than")
    bomb = [1]
    for _ in range(40):
        bomb = [bomb] * 10
    remade(folder / "good.pt", folder / "bomb.pt", lambda n, b: pickle.dumps(bomb, 2) if n.endswith("data.pkl") else b)
    refused(folder, "bomb.pt", "more than")
    data = (folder / "good.pt").read_bytes()
    for n in range(0, len(data), 37):
        (folder / "cut.pt").write_bytes(data[:n])
        done = plumb("compare", folder / "cut.pt", folder / "good.pt", "-o", folder / "session")
        assert done.returncode == 2, (n, done.returncode, done.stderr)
    big = torch.zeros(1).expand(1 << 20, 1 << 20)
    torch.save({"big": big}, folder / "big.pt")
    refused(folder, "big.pt", "big: a view of 4398046511104 bytes")


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
