"""What the campaign does faults to: one small command of each kind, in a folder of its own, and the
rule by which the end of a faulty run is judged."""

import errno
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLUMB = Path(os.environ.get("PLUMB", ROOT / "build/plumb"))
SHIM = ROOT / "build/campaign/faults.so"
TIMEOUT = 60
# What differs between two good runs: times, memory, process ids, folders made for one run.
VOLATILE = re.compile(rb'("(?:created|time|seconds|peak_rss|private_kb|timing|system)": ?)("[^"]*"|\{[^}]*\}|[\d.e+-]+)'
                      rb'|[\d.]+ m?s\b|in [\d.]+ s')


@dataclass
class Subject:
    """argv without the program; {base} is the folder with what all commands read."""
    name: str
    argv: list
    code: int = 0
    guard: bool = False  # also faults inside plumb-guard
    slow: bool = False
    checks: list = field(default_factory=list)  # commands that must accept what it left
    tells: bool = False  # trouble is part of its answer: another one is fine when it names the trouble


SUBJECTS = [
    Subject("info", ["info", "{base}/net.onnx", "--json"]),
    Subject("info-text", ["info", "{base}/net.onnxtxt"]),
    Subject("run", ["run", "{base}/net.onnx", "--seed", "1", "-o", "out"]),
    Subject("run-npz", ["run", "{base}/net.onnx", "--inputs", "{base}/in.npz", "-o", "out.npz"]),
    Subject("run-guard", ["run", "{base}/net.onnx", "--backend", "jit", "-o", "out.safetensors"], guard=True),
    Subject("run-accuracy", ["run", "{base}/net.onnx", "--accuracy", "--backend", "jit", "--json"], guard=True),
    Subject("run-backward", ["run", "{base}/net.onnx", "--accuracy", "--backward", "--backend", "eager", "--json"]),
    Subject("record", ["record", "{base}/net.onnx", "-o", "rec.safetensors"],
            checks=[["store", "verify", "rec.safetensors"]]),
    Subject("record-guard", ["record", "{base}/net.onnx", "--backend", "jit", "-o", "rec.safetensors"], guard=True,
            checks=[["store", "verify", "rec.safetensors"]]),
    Subject("compare", ["compare", "{base}/a.safetensors", "{base}/b.safetensors", "-o", "ses", "--pack"], code=1,
            checks=[["report", "ses", "--format", "json"], ["store", "verify", "ses/store"]]),
    Subject("compare-files", ["compare", "{base}/a.safetensors", "{base}/b.safetensors", "--no-session", "--export-map",
                              "map.json", "--write-baseline", "base.json", "--format", "model-explorer"]),
    Subject("compare-npz", ["compare", "{base}/a.safetensors", "{base}/in.npz", "--no-session"], code=1),
    Subject("compare-model", ["compare", "{base}/net.onnx", "{base}/b.safetensors", "--no-session"]),
    Subject("analyze", ["analyze", "{base}/net.onnx", "--backend", "jit:inject=scale@Relu", "-o", "ses"],
            code=1, guard=True, checks=[["report", "ses", "--format", "json"], ["store", "verify", "ses/store"]]),
    # Convolution, If, Loop, a function, a sequence, float16, a generated weight.
    Subject("rich-info", ["info", "{base}/rich.onnxtxt", "--json"]),
    Subject("rich-run", ["run", "{base}/rich.onnxtxt", "-o", "out"]),
    Subject("rich-fp64", ["run", "{base}/rich.onnxtxt", "--backend", "eager:fp64", "-o", "out", "--json"]),
    Subject("rich-jit", ["run", "{base}/rich.onnxtxt", "--backend", "jit", "-o", "out", "--json"], guard=True),
    Subject("rich-record", ["record", "{base}/rich.onnxtxt", "-o", "rec.safetensors"],
            checks=[["store", "verify", "rec.safetensors"]]),
    Subject("rich-analyze", ["analyze", "{base}/rich.onnxtxt", "--backend", "eager", "-o", "ses"], guard=True,
            checks=[["report", "ses", "--format", "json"], ["store", "verify", "ses/store"]]),
    Subject("rich-convert", ["convert", "{base}/rich.onnxtxt", "out.onnx"]),
    Subject("minify", ["minify", "{base}/net.onnx", "--check", "grep -q Relu {model} && exit 1; exit 0", "-o", "repro"],
            slow=True, checks=[["info", "repro/model.onnx"]]),
    Subject("minify-query", ["minify", "{base}/net.onnx", "--query", "--backend", "jit:inject=crash@Relu"], code=1,
            guard=True),
    Subject("report", ["report", "{base}/ses", "-o", "out.html"], tells=True),
    Subject("report-sarif", ["report", "{base}/ses", "--format", "sarif"]),
    Subject("test", ["test", "{base}/cases"], tells=True),
    Subject("convert", ["convert", "{base}/net.onnx", "out.onnxtxt"]),
    Subject("convert-joint", ["convert", "{base}/net.onnx", "out.onnx", "--backward=joint"]),
    Subject("store-ls", ["store", "ls", "{base}/ses/store"]),
    Subject("store-verify", ["store", "verify", "{base}/ses/store"], tells=True),
    Subject("ops", ["ops", "--json"]),
    Subject("backends", ["backends", "--json"], tells=True),
]


def environment(work, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("FAULT_", "PLUMB_", "LD_PRELOAD"))}
    env.update(LC_ALL="C", HOME=str(work), TMPDIR=str(work / "tmp"), XDG_CACHE_HOME=str(work / "cache"),
               PLUMB_REPRO_LEVEL="0", MALLOC_ARENA_MAX="1")
    env.update({k: str(v) for k, v in more.items()})
    return env


def ended(code):
    return "time-out" if code is None else f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


class Bench:
    """The folders: base (read only by custom), try (made anew for each run), tmp."""

    def __init__(self, work):
        self.work, self.base, self.place = work, work / "base", work / "try"
        self.tmp = work / "tmp"
        self.program = PLUMB
        for folder in (self.base, self.place, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)
        self.counters = work / "counters"
        self.counters.write_bytes(bytes(16))
        self.make_base()

    def make_base(self):
        b, cli = self.base, ROOT / "tests/cli"
        shutil.copy(cli / "net.onnxtxt", b / "net.onnxtxt")
        shutil.copy(Path(__file__).with_name("rich.onnxtxt"), b / "rich.onnxtxt")

        def do(*argv, code=0):
            done = subprocess.run([PLUMB, *argv], cwd=b, env=environment(self.work), capture_output=True, text=True)
            if done.returncode != code:
                raise SystemExit(f"campaign: plumb {' '.join(argv)}: exit {done.returncode}: {done.stderr}")
        do("convert", "net.onnxtxt", "net.onnx")
        do("run", "net.onnx", "--seed", "1", "-o", "data")
        do("record", "net.onnx", "-o", "a.safetensors")
        do("record", "net.onnx", "--seed", "2", "-o", "b.safetensors")
        do("analyze", "net.onnx", "--backend", "jit:inject=scale@Relu", "-o", "ses", code=1)
        do("compare", "a.safetensors", "b.safetensors", "-o", "cmp", "--pack", code=1)
        do("run", "net.onnx", "--backend", "jit", "-o", "jit")
        do("run", "rich.onnxtxt", "--backend", "jit", "-o", "jit-rich")
        do("minify", "net.onnx", "--check", "grep -q Relu {model} && exit 1; exit 0", "-o", "repro")
        import_inputs(b)

    def argv(self, argv):
        return [str(self.program)] + [a.replace("{base}", str(self.base)) for a in argv]

    def clean(self):
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        for p in self.tmp.iterdir():
            shutil.rmtree(p) if p.is_dir() and not p.is_symlink() else p.unlink()

    def run(self, argv, timeout=TIMEOUT, prefix=(), **env):
        """Returns (exit code or None, stdout, stderr); the whole group ends with it."""
        proc = subprocess.Popen([*prefix, *self.argv(argv)], cwd=self.place, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=environment(self.work, **env), start_new_session=True)
        try:
            out, err = proc.communicate(timeout=timeout)
            code = proc.returncode
        except subprocess.TimeoutExpired:
            os.killpg(proc.pid, signal.SIGKILL)
            out, err = proc.communicate()
            code = None
        return code, out, err.decode(errors="replace")

    def fault(self, argv, cls, at, kind, every=0, program="plumb", **env):
        """As run, with the at-th call of the class failing. Returns also (calls seen, faults made)."""
        self.counters.write_bytes(bytes(16))
        got = self.run(argv, LD_PRELOAD=SHIM, FAULT_FILE=self.counters, FAULT_PROGRAM=program, FAULT_CLASS=cls,
                       FAULT_AT=at, FAULT_KIND=kind, FAULT_EVERY=every, **env)
        raw = self.counters.read_bytes()
        return (*got, int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little"))

    def left(self):
        """Every file under the try folder: path to its bytes, without what differs between good runs."""
        found = {}
        for path in sorted(self.place.rglob("*")):
            name = str(path.relative_to(self.place))
            found[name] = b"" if path.is_dir() else VOLATILE.sub(b"", path.read_bytes())
        return found

    def strays(self):
        return [str(p.relative_to(self.work)) for p in self.tmp.rglob("*")]

    def good(self, subject):
        """What a run without faults ends in."""
        self.clean()
        code, out, err = self.run(subject.argv)
        if code != subject.code:
            raise SystemExit(f"campaign: {subject.name}: {ended(code)}, expected exit {subject.code}: {err}")
        return VOLATILE.sub(b"", out), self.left()


SAME_BYTES = (".npy", ".npz", ".pb", ".onnx", ".onnxtxt", ".html")
CHECKPOINTS = "repro.checkpoints"  # of minify: what a failed run is resumed from
TROUBLE = re.compile(r"out of memory|" + "|".join(os.strerror(e) for e in (
    errno.ENOMEM, errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EFBIG, errno.EACCES, errno.EROFS)))


def not_whole(bench, subject, good_left, left):
    """None when everything that a good run leaves is there, and right."""
    if set(left) != set(good_left):
        return f"files differ: {sorted(set(left) ^ set(good_left))[:3]}"
    for name, data in left.items():
        if (name.endswith(SAME_BYTES) or "/blobs/" in name) and data != good_left[name]:
            return f"{name} has other bytes"
    for check in subject.checks:
        got, _, text = bench.run(check)
        if got not in (0, 1):
            return f"plumb {check[0]} says: {text.strip()[-200:]}"
    return None


def judge(bench, subject, good, code, out, err):
    """None when the run survived its fault, else what is wrong with it."""
    good_out, good_left = good
    left, strays = bench.left(), bench.strays()
    if code is None or code < 0 or code > 4:
        return ended(code)
    left = {k: v for k, v in left.items() if k.split("/")[0] != CHECKPOINTS}
    told = TROUBLE.search(out.decode(errors="replace") + err)
    if strays and code != subject.code:  # in a good run only the cleaning up can have failed
        return f"{ended(code)}, left {strays[0]} in TMPDIR"
    if code in (0, 1):
        if code != subject.code or VOLATILE.sub(b"", out) != good_out:
            return None if subject.tells and told else f"{ended(code)}, but another answer on standard output"
        wrong = not_whole(bench, subject, good_left, left)
        return wrong and f"{ended(code)}, but {wrong}"
    if code == 3 and "ses/session.json" in left and out.startswith(b"FAILED: "):
        session = json.loads((bench.place / "ses/session.json").read_bytes())
        return None if session["verdict"] == "failed" else "exit 3, but the session says " + session["verdict"]
    if not told and not any(l.startswith("plumb") for l in err.splitlines()[-2:]):
        return f"{ended(code)} without a clear line: {err.strip()[-150:]!r}"
    there = {name.split("/")[0] for name in left}  # of several outputs each is whole or absent
    good_left = {k: v for k, v in good_left.items() if k.split("/")[0] in there}
    wrong = not_whole(bench, subject, good_left, left) if left else None
    return wrong and f"{ended(code)}, left something: {wrong}: {err.strip()[-150:]}"


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def tensor_proto(shape, raw):
    """A float tensor: dims = 1, data_type = 2, raw_data = 9."""
    dims = b"".join(b"\x08" + varint(d) for d in shape)
    return dims + b"\x10\x01" + b"\x4a" + varint(len(raw)) + raw


def import_inputs(base):
    """in.npz and an ONNX test folder from a recording: written by hand, no numpy needed."""
    raw = (base / "b.safetensors").read_bytes()  # other inputs than those that are generated by default
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])

    def tensor(name):
        begin, end = head[name]["data_offsets"]
        return tuple(head[name]["shape"]), raw[8 + n + begin:8 + n + end]
    shape, data = tensor("x")
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with zipfile.ZipFile(base / "in.npz", "w") as z:
        z.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)
    case = base / "cases" / "one" / "test_data_set_0"
    case.mkdir(parents=True)
    shutil.copy(base / "net.onnx", base / "cases" / "one" / "model.onnx")
    for name, value in (("input_0", "x"), ("output_0", "y"), ("output_1", "r")):
        (case / f"{name}.pb").write_bytes(tensor_proto(*tensor(value)))
