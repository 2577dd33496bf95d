#!/usr/bin/python3
"""Defects of 0.1.0 that were about files and escaping, one test each (SECURITY.md names them).   test_hardening.py [-k TEXT]"""

import json, os, re, resource, shutil, signal, subprocess, sys, tempfile, time, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUMB = os.environ.get("PLUMB", "build/plumb")
PICK = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
root = Path(tempfile.mkdtemp(prefix="hardening-"))
failed = []
tests = []

NET = '<ir_version: 8, opset_import: ["": 17]>\ng (float[2,3] x) => (float[2,3] y) { a = Relu(x)\n y = Add(a, x) }\n'
EVIL = "=cmd|calc\x1b[31m\n::error::evil<img src=x onerror=1>`](javascript:x)"


def test(fn):
    tests.append(fn)
    return fn


def fresh(name):
    at = root / name
    at.mkdir()
    (at / "m.onnxtxt").write_text(NET)
    return at


def plumb(at, *args, **more):
    return subprocess.run([PLUMB, *map(str, args)], cwd=at, capture_output=True, timeout=300, **more)


def text(r):
    return (r.stdout + r.stderr).decode("utf-8", "replace")


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def named_model(name):
    """x -> Relu -> NAME, as ONNX bytes: the text form could not hold such a name unescaped."""
    shape = field(2, field(1, b"\x08\x02"))
    info = lambda n: field(1, n) + field(2, field(1, b"\x08\x01" + shape))
    node = field(1, b"x") + field(2, name) + field(3, name) + field(4, b"Relu")
    graph = field(1, node) + field(2, b"g") + field(11, info(b"x")) + field(12, info(name))
    return b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11")


@test
def item_5__a_repros_backend_is_no_python():
    """On a model that ONNX Runtime 1.27 fails, so that scripts are written; without that runtime there is none to look at."""
    at = fresh("item5")
    (at / "r").mkdir()
    assert plumb(at, "convert", Path(__file__).resolve().parents[2] / "examples/identity_transpose.onnxtxt", "r/model.onnx").returncode == 0
    backend = 'ort:disable="];__import__("os").system("touch ran")#'
    (at / "r/repro.json").write_text(json.dumps({"version": 1, "backend": backend, "command": "run", "signature": None, "context": {}}))
    plumb(at, "minify", "r", "-o", "mine")
    plumb(at, "minify", "r/model.onnx", "--backend", backend, "-o", "mine2")
    plumb(at, "run", "r", "--backend", backend, "--repro-level", "3")
    for script in at.rglob("repro_ort.py"):
        compile(script.read_text(), str(script), "exec")
        assert '__import__("os")' not in script.read_text(), script
    assert not list(at.rglob("ran"))


@test
def item_8__a_users_repro_folder_stays():
    at = fresh("item8")
    for k in range(2):  # twice: the first copy is plumb's own, the second must not take the user's notes with it
        plumb(at, "run", "m.onnxtxt", "--backend", "cmd:/bin/false", "--repro-level", "2")
        if k == 0:
            assert (at / "repro/model.onnx").exists()
            (at / "repro/notes.txt").write_text("mine")
    assert (at / "repro/notes.txt").read_text() == "mine"
    assert (at / "repro-2/model.onnx").exists()
    plumb(at, "run", "m.onnxtxt", "--backend", "cmd:/bin/false", "--repro-level", "2")
    assert (at / "repro-2/model.onnx").exists() and not (at / "repro-3").exists(), "its own untouched copy is replaced"


@test
def item_10__a_link_is_no_jit_cache():
    """As a user of its own where that can be: this one's cache may be there already."""
    at, uid = fresh("item10"), 54321 if os.getuid() == 0 else os.getuid()
    name = Path(f"/tmp/plumb-jit-{uid}")
    who = {"user": uid} if uid != os.getuid() else {}
    (at / "theirs").mkdir(mode=0o700)
    if who:
        root.chmod(0o755)
        at.chmod(0o755)
        os.chown(at / "theirs", uid, -1)
        try:
            plumb(at, "--version", **who)
        except PermissionError:
            return f"user {uid} may not run {PLUMB}"
    if name.exists() or name.is_symlink():
        return f"{name} is there already"
    name.symlink_to(at / "theirs")
    try:
        os.chown(name, uid, -1, follow_symlinks=False)
        env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
        plumb(at, "run", "m.onnxtxt", "--backend", "jit", "--repro-level", "0", env=env, **who)
    finally:
        name.unlink()
    assert not list((at / "theirs").iterdir())


@test
def item_13__names_reach_the_terminal_clean():
    at = fresh("item13")
    (at / "e.onnx").write_bytes(named_model(EVIL.encode()))
    for args in (["info", "e.onnx"], ["run", "e.onnx", "--repro-level", "0"], ["run", "e.onnx", "--accuracy", "--format", "github"],
                 ["analyze", "e.onnx", "--backend", "jit", "-o", "s"], ["report", "s", "--format", "md"], ["report", "s", "--format", "github"]):
        said = text(plumb(at, *args))
        assert "\x1b" not in said, args
        assert not re.search(r"^::error::evil", said, re.M), args


@test
def item_14__cells_and_markdown_are_inert():
    at = fresh("item14")
    (at / "e.onnx").write_bytes(named_model(EVIL.encode()))
    assert plumb(at, "analyze", "e.onnx", "--backend", "jit", "-o", "s").returncode in (0, 1)
    csv = text(plumb(at, "report", "s", "--format", "csv"))
    assert "cmd|calc" in csv
    assert not re.search(r'(^|,)"?=cmd', csv, re.M), csv
    plumb(at, "run", "e.onnx", "--backend", "cmd:/bin/false", "--repro-level", "2")
    readme = (at / "repro/README.md").read_text()
    outside = re.sub(r"(`+)(?:(?!\1).)+?\1", "", re.sub(r"^    .*$", "", readme, flags=re.M))  # not in code
    assert "<img" not in outside.replace("\\<img", "") and "](javascript" not in outside.replace("\\](javascript", ""), readme


CHOOSE = """#define XXH_INLINE_ALL
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
int main(void) {
    char name[40];
    for (long i = 0, n = 0; n < 30000; i++) {
        sprintf(name, "name_%ld", i);
        if ((XXH3_64bits(name, strlen(name)) & 65535) < 64) n++, puts(name);
    }
    return 0;
}
"""


def chain(names):
    """x -> Relu -> names[0] -> Relu -> names[1] … as ONNX bytes."""
    shape = field(2, field(1, b"\x08\x02"))
    info = lambda n: field(1, n) + field(2, field(1, b"\x08\x01" + shape))
    nodes = b"".join(field(1, field(1, a) + field(2, b) + field(4, b"Relu")) for a, b in zip([b"x", *names], names))
    return b"\x08\x08" + field(7, nodes + field(2, b"g") + field(11, info(b"x")) + field(12, info(names[-1]))) + field(8, field(1, b"") + b"\x10\x11")


@test
def item_15__chosen_names_cost_as_much_as_others():
    """30,000 names that an unseeded XXH3 puts into 64 of 65,536 places; CPU time, which other programs do not lengthen much."""
    at = fresh("item15")
    (at / "choose.c").write_text(CHOOSE)
    if not Path("/usr/include/xxhash.h").exists() or subprocess.run(["cc", "-O2", "-o", "choose", "choose.c"], cwd=at).returncode != 0:
        return "xxhash.h is not installed"
    chosen = subprocess.run([at / "choose"], capture_output=True).stdout.split()
    used = []
    for name, names in (("plain", [b"name_%d" % i for i in range(len(chosen))]), ("chosen", chosen)):
        (at / f"{name}.onnx").write_bytes(chain(names))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert plumb(at, "info", f"{name}.onnx").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime - before.ru_utime)
    assert used[1] < 5 * used[0] + 0.2, used


CUT = """#!/bin/sh
: >%s/w.bin
printf '\\010\\002\\020\\001\\112\\010\\000\\000\\000\\000\\000\\000\\000\\000' >"$1/test_data_set_0/output_0.pb"
cp "$1/test_data_set_0/output_0.pb" "$1/output_0.pb"
"""


@test
def item_21__weights_that_are_cut_during_a_run_are_an_error():
    """The backend under test empties the file of the weights, which the reference reads after it."""
    at = fresh("item21")
    (at / "w.bin").write_bytes(bytes(8))
    shape = field(2, field(1, b"\x08\x02"))
    info = lambda n: field(1, n) + field(2, field(1, b"\x08\x01" + shape))
    w = b"\x08\x02\x10\x01" + field(8, b"w") + field(13, field(1, b"location") + field(2, b"w.bin")) + b"\x70\x01"
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Add")
    graph = field(1, node) + field(2, b"g") + field(5, w) + field(11, info(b"x")) + field(12, info(b"y"))
    (at / "m.onnx").write_bytes(b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x11"))
    (at / "cut").write_text(CUT % at)
    (at / "cut").chmod(0o755)
    r = plumb(at, "analyze", "m.onnx", "--backend", f"cmd:{at}/cut", "-o", "s", "--repro-level", "0")
    assert (at / "w.bin").stat().st_size == 0, text(r)
    assert r.returncode >= 2, (r.returncode, text(r))
    assert not (at / "s").exists()


@test
def item_16__of_16_runs_at_once_one_gets_the_file():
    at = fresh("item16")
    for args in (["record", "m.onnxtxt", "-o", "out.safetensors"], ["convert", "m.onnxtxt", "out.onnx"], ["analyze", "m.onnxtxt", "--backend", "jit", "-o", "out"],
                 ["run", "m.onnxtxt", "-o", "out.npz", "--repro-level", "0"]):
        with ThreadPoolExecutor(16) as pool:
            codes = list(pool.map(lambda _: plumb(at, *args).returncode, range(16)))
        assert codes.count(0) == 1, (args, codes)


@test
def item_16__nothing_is_overwritten():
    at = fresh("item16b")
    for option in ("--write-baseline", "--export-map"):
        (at / "mine").write_text("mine")
        command = ["analyze", "m.onnxtxt", "--backend", "jit", "-o", f"s{option}"] if option == "--write-baseline" else ["compare", "a.safetensors", "b.safetensors", "-o", "c"]
        if option == "--export-map":
            for side in "ab":
                assert plumb(at, "record", "m.onnxtxt", "-o", f"{side}.safetensors").returncode == 0
        plumb(at, *command, option, "mine")
        assert (at / "mine").read_text() == "mine", option
    (at / "d").mkdir()
    (at / "d/1-graph.txt").write_text("mine")
    plumb(at, "run", "m.onnxtxt", "--backend", "jit", "--debug-dir", "d", "--repro-level", "0")
    assert (at / "d/1-graph.txt").read_text() == "mine"


@test
def item_17__a_signal_leaves_nothing():
    at = fresh("item17")
    slow = at / "slow"
    slow.write_text("#!/bin/sh\nsleep 300\n")
    slow.chmod(0o755)
    (at / "tmp").mkdir()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        p = subprocess.Popen([PLUMB, "analyze", "m.onnxtxt", "--backend", f"cmd:{slow}", "-o", "s"], cwd=at, env={**os.environ, "TMPDIR": str(at / "tmp")},
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (2, 15, 1)])
        for _ in range(1200):
            if any(n.startswith(".") for n in os.listdir(at)):
                break
            time.sleep(0.05)
        assert any(n.startswith(".") for n in os.listdir(at)), "it never began to write"
        p.send_signal(number)
        assert p.wait(30) == -number
        left = [n for n in os.listdir(at) if n.startswith(".")]
        assert not left, (number, left)


@test
def item_20__one_compiler_and_only_when_asked():
    at = fresh("item20")
    (at / "bin").mkdir()
    cc = at / "bin/cc"
    cc.write_text(f'#!/bin/sh\necho x >> {at}/running\n[ $(wc -l < {at}/running) -gt 1 ] && echo x >> {at}/twice\nsleep 0.5\n/usr/bin/cc "$@"\nr=$?\nsed -i 1d {at}/running\nexit $r\n')
    cc.chmod(0o755)
    r = plumb(at, "analyze", "m.onnxtxt", "--backend", "jit", "-o", "s")
    assert (at / "s").is_dir(), text(r)
    env = {**os.environ, "PATH": f"{at}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": str(at / "cache")}
    p = subprocess.Popen([PLUMB, "view", "s", "--no-open", "--port", "0"], cwd=at, env=env, stdout=subprocess.PIPE, text=True)
    try:
        base, token = p.stdout.readline().strip().split("/?token=")

        def ask(path):
            try:
                return urllib.request.urlopen(urllib.request.Request(base + path, headers={"X-Plumb-Token": token}), timeout=300).status
            except urllib.error.HTTPError as e:
                return e.code
        assert ask("/api/emitted") == 428 and ask("/api/graph?of=executed") == 428
        assert not (at / "running").exists(), "looking started a compiler"
        with ThreadPoolExecutor(20) as pool:
            codes = set(pool.map(lambda _: ask("/api/emitted?run=yes"), range(20)))
        assert codes == {200}, codes
        assert not (at / "twice").exists(), "two compilers at once"
    finally:
        p.terminate()
        p.wait(30)


EDGES = ("-3.4e38:3.4e38", "1e38:3.4e38", "1e-45:1e-38")


@test
def item_18__numbers_at_the_edge_of_the_type_blame_nobody():
    """jit and eager overflow alike there; 0.1.0 blamed 14 of 359 of these models."""
    data = sorted(Path("/usr/share/libonnx-testdata/data/node").glob("*/model.onnx"))
    if not data:
        return "libonnx-testdata is not installed"
    at = fresh("item18")
    ran = 0
    short = re.compile("gemm|matmul_[34]d|conv_with_auto|layer_norm.*4d_axis1|suppression_two|logsoftmax_axis_0|test_exp/|sum_two")
    for k, model in enumerate(m for m in data if "--full" in sys.argv or short.search(str(m))):
        inputs = json.loads(plumb(at, "info", model, "--json").stdout or "{}").get("inputs", [])
        ranges = [w for x in inputs if str(x.get("type", x.get("dtype"))).startswith(("float", "double"))
                  for w in ("--range", f"{x['name']}={EDGES[k % len(EDGES)]}")]
        if not ranges:
            continue
        r = plumb(at, "analyze", model, *ranges, "--backend", "jit", "--save", "none", "--json", "-o", f"s{k}")
        if r.returncode == 2:
            continue
        ran += 1
        found = json.loads(r.stdout)
        assert found["blame"] == [], (model.parent.name, EDGES[k % len(EDGES)], found["reason"])
    assert ran >= 15, ran


@test
def part_7__beyond_this_machine_only_when_said():
    at = fresh("part7")
    r = plumb(at, "view", "--no-open", "--host", "0.0.0.0")
    assert r.returncode == 2 and "--insecure-host" in text(r), text(r)


@test
def loop__a_huge_trip_count_takes_little_memory():
    """The gradient unrolls a Loop: eight bytes of a file must not ask for a gigabyte (found by fuzz_model; 0.1.0 takes 460 MB)."""
    at = fresh("loop")
    (at / "loop.onnxtxt").write_text('<ir_version: 8, opset_import: ["": 17]>\ng (float[2,3] x) => (y) <int64 n = {4971973988617074179}, bool c = {1}>'
                                     ' { y = Loop <body = b (int64 i, bool c1, float[2,3] a) => (bool c2, float[2,3] b1) { c2 = Identity(c1)\n b1 = Tanh(a) }>(n, c, x) }\n')
    limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
    r = plumb(at, "convert", "loop.onnxtxt", "joint.onnx", "--backward", "joint", preexec_fn=limit)
    assert r.returncode == 2 and "would need more than" in text(r), (r.returncode, text(r))
    assert not (at / "joint.onnx").exists()


def main():
    for i, t in enumerate([t for t in tests if PICK in t.__name__], 1):
        try:
            skip = t()
            print(f"ok {i} - {t.__name__}" + (f" # SKIP {skip}" if skip else ""), flush=True)
        except (AssertionError, OSError, subprocess.TimeoutExpired, ValueError, SyntaxError) as e:
            failed.append(t)
            print(f"not ok {i} - {t.__name__}\n# " + " ".join(f"{type(e).__name__}: {e}"[:600].split()), flush=True)
    print(f"1..{len(tests)}")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
