#!/usr/bin/python3
"""`plumb corpus` and `plumb compare` on the ranks of an MPI job, with Open MPI and MPICH: the same bytes for any number of ranks, ranks that are
killed, a disk that is full for one rank. TAP. --full: more kills, and recordings of 8 GB (2 GB when the disk is short;
PLUMB_MPI_GB sets another size)."""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tap import Skip, main

ROOT = Path(__file__).resolve().parents[2]
PLUMB = os.environ.get("PLUMB", str(ROOT / "build/plumb"))
FULL = "--full" in sys.argv
HIDDEN = ("SLURM_", "CI_NODE", "TEST_SHARD", "JOB_COMPLETION", "OMPI_", "PMI", "PLUMB_MPI")
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith(HIDDEN)}, "NO_COLOR": "1"}  # Open MPI gives its ranks a terminal
LAUNCH = {
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"],
    "mpich": ["mpirun.mpich", "-n"],
}
# Flags with which a launcher lets the other ranks live when one dies. MPICH 4.0's has -disable-auto-cleanup, but the other ranks end all the same.
SURVIVE = {"openmpi": ["--enable-recovery"]}
RANKS = (1, 2, 4, 7)
FEW = (2, 7)  # of the second MPI, without --full: the code is the same
MODELS = ("t = Relu(x) y = Add(t, t)", "t = Sigmoid(x) y = Mul(t, t)", "y = Tanh(x)", "t = Neg(x) y = Abs(t)")
BACKENDS = ("jit", "jit:inject=accuracy@Relu")


def mpis():
    """Those that can be tested here."""
    found = [m for m in LAUNCH if shutil.which(LAUNCH[m][0]) and (Path(PLUMB).parent / f"plumb-{m}.so").exists()]
    if not found:
        raise Skip("neither Open MPI nor MPICH is installed with its module: tools/setup test, make")
    return found


def launch(mpi, n, args, cwd, exits=(0,), flags=(), env=None, timeout=300):
    command = [*LAUNCH[mpi][:-1], *flags, LAUNCH[mpi][-1], str(n), *map(str, args)]
    done = subprocess.run(command, cwd=cwd, env={**ENV, **(env or {})}, capture_output=True, text=True, timeout=timeout)
    if exits is not None and done.returncode not in exits:
        raise AssertionError(f"{mpi} -n {n}: exit {done.returncode}, expected {exits}: {(done.stdout + done.stderr)[-900:]}")
    return done


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# ---- corpus ----

def make_models(tmp):
    (tmp / "m").mkdir()
    for i, body in enumerate(MODELS):
        (tmp / f"m/m{i}.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[2,3] x) => (float[2,3] y) {{ {body} }}\n')


def corpus(out, *more, queries="0"):
    return [PLUMB, "corpus", "m", *(w for b in BACKENDS for w in ("--backend", b)), "-o", out, "--deaths", "0", "--max-queries", queries, "-q", *more]


def plain_corpus(tmp, out="plain", *more, **options):
    done = subprocess.run([*corpus(out, *more, **options), "--jobs", "2"], cwd=tmp, env=ENV, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    return (tmp / out / "corpus.json").read_bytes(), done.stdout


def done_keys(folder):
    rows = [json.loads(line) for p in (folder / "parts").glob("*.jsonl") for line in p.read_text().splitlines()]
    return [r["key"] for r in rows if r["t"] == "done" and not r["key"].startswith(("probe ", "version "))]


def check_items(folder, expected):
    items = [i["key"] for i in json.loads((folder / "items.json").read_text())["items"]]
    done = done_keys(folder)
    assert sorted(done) == sorted(items), f"{len(items)} items, {len(done)} done, {len(set(done))} of them distinct"
    assert (folder / "corpus.json").read_bytes() == expected, "corpus.json is not that of the run without MPI"


def test_corpus_same_bytes_for_any_number_of_ranks(tmp):
    make_models(tmp)
    expected, table = plain_corpus(tmp, queries="20")
    for mpi in mpis():
        for n in RANKS if FULL or mpi == mpis()[0] else FEW:
            out = f"{mpi}{n}"
            done = launch(mpi, n, corpus(out, queries="20"), tmp, exits=(1,))
            check_items(tmp / out, expected)
            assert table.replace("plain/", f"{out}/") in done.stdout, done.stdout
            parts = {p.name for p in (tmp / out / "parts").iterdir()}
            assert {f"1-of-1-rank{i}.jsonl" for i in range(1, n)} <= parts, parts
    return ", ".join(mpis())


def rank_pid(folder, rank):
    part = folder / "parts" / ("1-of-1.jsonl" if rank == 0 else f"1-of-1-rank{rank}.jsonl")
    lines = part.read_text().splitlines() if part.exists() else []
    return (json.loads(lines[0])["pid"] if lines else None), len(lines)


def kill_at(mpi, n, rank, lines, tmp, out, flags=(), wrapper=()):
    """Starts a corpus, kills a rank when its journal has so many lines; None when it was done before."""
    command = [*LAUNCH[mpi][:-1], *flags, LAUNCH[mpi][-1], str(n), *wrapper, *corpus(out)]
    run = subprocess.Popen(command, cwd=tmp, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + 120
    killed = False
    while run.poll() is None and time.monotonic() < end and not killed:
        pid, n_lines = rank_pid(tmp / out, rank)
        if pid is not None and n_lines >= lines:
            os.kill(pid, signal.SIGKILL)
            killed = True
        time.sleep(.002)
    said, _ = run.communicate(timeout=300)
    return run.returncode, said, killed


def in_flight(folder, rank):
    part = folder / "parts" / ("1-of-1.jsonl" if rank == 0 else f"1-of-1-rank{rank}.jsonl")
    rows = [json.loads(line) for line in part.read_text().splitlines()]
    last = {r["key"]: r["t"] for r in rows if "key" in r}
    return [key for key, what in last.items() if what == "start"]


def test_killed_rank_loses_only_what_was_in_flight(tmp):
    make_models(tmp)
    expected, _ = plain_corpus(tmp)
    kills = hits = 0
    # Lines of a journal: open, start, done, start, … Each is a point.
    points = [(rank, lines) for rank in (1, 0) for lines in ((1, 2, 3, 4, 5) if FULL else (2, 3))]
    for mpi in mpis():
        for rank, lines in points:
            out = f"{mpi}-{rank}-{lines}"
            code, said, killed = kill_at(mpi, 3, rank, lines, tmp, out)
            kills += killed
            if killed:
                assert code != 0, said
                hits += bool(in_flight(tmp / out, rank))
            resumed = launch(mpi, 2, corpus(out, "--resume"), tmp, exits=(1,))
            check_items(tmp / out, expected)
            assert "group" in resumed.stdout
    assert kills >= len(points) * len(mpis()) - 1, f"only {kills} kills"
    return f"{kills} kills, {hits} with an item in flight"


def test_death_of_a_rank_is_told_with_its_item(tmp):
    """By rank 0, whose exit code is 4; mpirun reports its own. With --enable-recovery the other ranks do the rest first."""
    if "openmpi" not in mpis():
        raise Skip("needs Open MPI")
    make_models(tmp)
    expected, _ = plain_corpus(tmp)
    (tmp / "rank.sh").write_text('#!/bin/sh\n"$@"\necho $? >"code.$OMPI_COMM_WORLD_RANK"\n')
    for flags in ([], SURVIVE["openmpi"]):
        for attempt in range(5):
            out = f"o{len(flags)}{attempt}"
            (tmp / "code.0").unlink(missing_ok=True)
            _, said, killed = kill_at("openmpi", 3, 1, 2, tmp, out, flags, ["sh", "rank.sh"] if flags else [])
            lost = in_flight(tmp / out, 1)
            if killed and lost:
                break
        else:
            raise AssertionError("the kill never hit an item in flight")
        assert f"rank 1 died while it worked on '{lost[0]}'" in said, said
        if flags:
            assert (tmp / "code.0").read_text() == "4\n", (tmp / "code.0").read_text()
            assert len(set(done_keys(tmp / out))) == len(MODELS) * len(BACKENDS) - 1, said
        subprocess.run([*corpus(out, "--resume"), "--jobs", "2"], cwd=tmp, env=ENV, capture_output=True, timeout=300)
        check_items(tmp / out, expected)


def test_death_of_a_rank_of_mpich_is_told_with_its_item(tmp):
    """By the parent of the rank, before MPICH's launcher knows and ends all ranks."""
    if "mpich" not in mpis():
        raise Skip("needs MPICH")
    make_models(tmp)
    expected, _ = plain_corpus(tmp)
    for rank in (1, 0):
        for attempt in range(5):
            out = f"o{rank}{attempt}"
            _, said, killed = kill_at("mpich", 3, rank, 2, tmp, out)
            lost = in_flight(tmp / out, rank)
            if killed and lost:
                break
        else:
            raise AssertionError("the kill never hit an item in flight")
        assert f"plumb corpus: rank {rank} died by signal 9 while it worked on '{lost[0]}'" in said, said
        subprocess.run([*corpus(out, "--resume"), "--jobs", "2"], cwd=tmp, env=ENV, capture_output=True, timeout=300)
        check_items(tmp / out, expected)


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
ssize_t write(int fd, const void *data, size_t n) {
    static ssize_t (*real)(int, const void *, size_t);
    static int calls;
    char name[64], path[4096];
    if (real == NULL) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const ssize_t k = readlink(name, path, sizeof path - 1);
    const char *end = getenv("SHIM_FILE");
    if (k > 0 && end != NULL && (size_t)k > strlen(end)) {
        path[k] = '\0';
        if (strcmp(path + k - strlen(end), end) == 0 && ++calls > atoi(getenv("SHIM_AFTER"))) {
            errno = atoi(getenv("SHIM_ERRNO"));
            return -1;
        }
    }
    return real(fd, data, n);
}
"""


def test_full_disk_and_io_error_of_one_rank(tmp):
    make_models(tmp)
    expected, _ = plain_corpus(tmp)
    (tmp / "shim.c").write_text(SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"], cwd=tmp, check=True)
    texts = {28: "No space left on device", 5: "Input/output error"}
    for mpi in mpis():
        for number, text in texts.items():
            for after in ((0, 1, 2, 3) if FULL else (2,)):
                out = f"{mpi}-{number}-{after}"
                before = os.environ.get("LD_PRELOAD", "")  # tests/cpu/hidden.py answers cpuid with one
                shim = {"LD_PRELOAD": f"{tmp}/shim.so {before}".strip(), "SHIM_FILE": "rank1.jsonl", "SHIM_AFTER": str(after), "SHIM_ERRNO": str(number)}
                done = launch(mpi, 3, corpus(out), tmp, exits=None, env=shim)
                if done.returncode == 1 and "group" in done.stdout:  # rank 1 got no item
                    check_items(tmp / out, expected)
                    continue
                assert done.returncode == 4, f"exit {done.returncode}: {done.stdout}{done.stderr}"
                assert text in done.stderr and "rank 1" in done.stderr and "rank1.jsonl" in done.stderr, done.stderr
                launch(mpi, 2, corpus(out, "--resume"), tmp, exits=(1,))
                check_items(tmp / out, expected)


def test_bad_usage_is_told_once(tmp):
    make_models(tmp)
    for mpi in mpis():
        done = launch(mpi, 3, [PLUMB, "corpus", "absent", "--backend", "jit", "-o", "x"], tmp, exits=(2,))
        assert done.stderr.count("plumb corpus:") == 1 and "absent" in done.stderr, done.stderr


def test_launcher_without_a_module_is_told(tmp):
    make_models(tmp)
    env = {**ENV, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PLUMB_MPI": str(tmp / "plumb-none.so")}
    done = subprocess.run(corpus("x"), cwd=tmp, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and "no MPI module fits" in done.stderr and "plumb-none.so not found" in done.stderr, done.stderr
    assert not (tmp / "x").exists()
    env = {**ENV, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"}
    done = subprocess.run(corpus("x"), cwd=tmp, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and "srun started 4 tasks without MPI" in done.stderr, done.stderr
    # One rank needs no MPI, and PLUMB_MPI=off ignores the launcher.
    env = {**ENV, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "PLUMB_MPI": "off"}
    done = subprocess.run(corpus("x"), cwd=tmp, env=env, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr


def test_wrong_module_is_told(tmp):
    if len(mpis()) < 2:
        raise Skip("needs both MPIs")
    make_models(tmp)
    done = launch("mpich", 2, corpus("x"), tmp, exits=None, env={"PLUMB_MPI": "openmpi"}, timeout=300)
    assert done.returncode == 2 and "belongs to another MPI" in done.stderr, f"exit {done.returncode}: {done.stdout}{done.stderr}"


# ---- compare ----

def safetensors(path, tensors):
    """Writes them one after the other; each is (dtype, shape, function that yields blocks of bytes)."""
    header, at = {}, 0
    for name, (dtype, shape, _) in tensors.items():
        size = {"F32": 4, "F16": 2, "I8": 1}[dtype] * int(np.prod(shape))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, blocks in tensors.values():
            for block in blocks():
                f.write(block)


def make_pair(tmp):
    """A value of three parts with its maximum in the last one, so that the floor is guessed wrong; small ones; NaN; integers; another shape."""
    rng = np.random.default_rng(1)
    big = rng.standard_normal(36_000_000).astype(np.float16)
    big[-5] = 1000
    other = big.copy()
    other[20_000_000] += np.float16(0.5)
    other[::1001] *= np.float16(1.001)
    a, b = {"big": other}, {"big": big}
    for i in range(12):
        x = rng.standard_normal((100 + i, 300)).astype(np.float32)
        b[f"v{i}"] = x
        a[f"v{i}"] = (x * np.float32(1 + 1e-6 * i)).astype(np.float32)
    a["nan"], b["nan"] = np.array([1, np.nan, 3], np.float32), np.array([1, 2, 3], np.float32)
    a["code"], b["code"] = np.arange(100, dtype=np.int8), np.arange(100, dtype=np.int8)
    a["turned"], b["turned"] = np.ones((3, 4), np.float32), np.ones((4, 3), np.float32)
    names = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int8): "I8"}
    for name, values in (("a", a), ("b", b)):
        safetensors(tmp / f"{name}.safetensors", {k: (names[v.dtype], v.shape, lambda v=v: [v.tobytes()]) for k, v in values.items()})
    return a, b


def compare(out, *more):
    return [PLUMB, "compare", "a.safetensors", "b.safetensors", "-o", out, "--stable-output", *more]


def test_compare_same_bytes_for_any_number_of_ranks(tmp):
    a, b = make_pair(tmp)
    done = subprocess.run(compare("plain"), cwd=tmp, env=ENV, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    expected = files(tmp / "plain")
    point = {p["value"]: p for p in json.loads(expected["session.json"])["sync_points"]}["big"]
    d = a["big"].astype(np.float64) - b["big"].astype(np.float64)
    assert abs(point["metrics"]["mse"] / np.mean(d * d) - 1) < 1e-5 and point["metrics"]["max_abs"] == np.max(np.abs(d)), point["metrics"]
    for mpi in mpis():
        for n in RANKS if FULL or mpi == mpis()[0] else FEW:
            out = f"{mpi}{n}"
            said = launch(mpi, n, compare(out), tmp, exits=(1,)).stdout
            assert done.stdout.replace("plain", out) in said, said
            got = files(tmp / out)
            assert got == expected, [k for k in got.keys() | expected.keys() if got.get(k) != expected.get(k)]


def test_compare_pieces_of_a_parallel_run(tmp):
    rng = np.random.default_rng(2)
    whole = rng.standard_normal((64, 96)).astype(np.float32)
    (tmp / "a").mkdir()
    for r in range(3):
        piece = np.ascontiguousarray(whole[:, 32 * r:32 * r + 32])
        if r == 1:
            piece[3, 4] += 1
        safetensors(tmp / f"a/rank{r}.safetensors", {"up": ("F32", piece.shape, lambda p=piece: [p.tobytes()])})
    safetensors(tmp / "b.safetensors", {"up": ("F32", whole.shape, lambda: [whole.tobytes()])})
    (tmp / "map.json").write_text(json.dumps({"plumb.map": 1, "shards": [{"a": "rank{tp}/up", "b": "up", "rule": "concat 1 over tp"}]}))
    command = [PLUMB, "compare", "a", "b.safetensors", "--map", "map.json", "--stable-output", "-o"]
    done = subprocess.run([*command, "plain"], cwd=tmp, env=ENV, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    bad = [p["value"] for p in json.loads((tmp / "plain/session.json").read_text())["sync_points"] if p["verdict"] not in ("same", "within")]
    assert bad == ["rank1/up"], bad
    for mpi in mpis():
        for n in (2, 3):
            launch(mpi, n, [*command, f"{mpi}{n}"], tmp, exits=(1,))
            assert files(tmp / f"{mpi}{n}") == files(tmp / "plain")


NODE = r"""#!/bin/sh
# One rank on a node of its own: `a` and, if there are such pieces, `b` are file systems that only this rank sees, with the pieces of its number.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-1}}
for side in a b; do
    [ -d "all-$side" ] || continue
    mount -t tmpfs none "$side" || exit 77
    for piece in "all-$side"/rank*; do
        n=${piece##*rank}
        n=${n%%.*}
        if [ $((n % size)) = "$rank" ] || [ "$n" = "$ALSO" ]; then cp "$piece" "$side/"; fi
    done
done
exec "$@"
"""


def make_pieces(tmp):
    """Four ranks of a parallel run, with each rule of a map, agreeing and differing values, floats and integers."""
    rng = np.random.default_rng(3)
    b, ranks = {}, [{} for _ in range(4)]
    for i in range(6):
        whole = rng.standard_normal((16, 32)).astype(np.float32)
        near = whole * np.float32(1 + 1e-7)
        b[f"up{i}"] = b[f"mix{i}"] = b[f"all{i}"] = whole
        for r in range(4):
            ranks[r][f"up{i}"] = np.ascontiguousarray(near[:, 8 * r:8 * r + 8])
            ranks[r][f"mix{i}"] = np.ascontiguousarray(near[r::4])
            ranks[r][f"all{i}"] = near.copy()
        parts = rng.standard_normal((4, 16, 32)).astype(np.float32)
        b[f"sum{i}"] = parts.astype(np.float64).sum(0).astype(np.float32)
        for r in range(4):
            ranks[r][f"sum{i}"] = parts[r].copy()
        b[f"one{i}"] = rng.integers(-5, 5, (7, 3)).astype(np.int8)
        for r in range(4):
            ranks[r][f"one{i}"] = b[f"one{i}"] + np.int8(r)
    ranks[1]["up2"][3, 4] += 1
    ranks[3]["mix4"][0, 0] += np.float32(2e-5)  # near its tolerance, but within
    ranks[2]["all5"] = np.ascontiguousarray(ranks[2]["all5"][:, ::-1])
    ranks[3]["sum1"][5, 5] += 3
    ranks[0]["sum3"][0, 0] = np.nan
    names = {np.dtype(np.float32): "F32", np.dtype(np.int8): "I8"}
    for side in ("a", "all-a"):
        (tmp / side).mkdir()
    for r, values in enumerate(ranks):
        safetensors(tmp / f"all-a/rank{r}.safetensors", {k: (names[v.dtype], v.shape, lambda v=v: [v.tobytes()]) for k, v in values.items()})
        shutil.copy(tmp / f"all-a/rank{r}.safetensors", tmp / "a")
    safetensors(tmp / "b.safetensors", {k: (names[v.dtype], v.shape, lambda v=v: [v.tobytes()]) for k, v in b.items()})
    rules = {"up": "concat 1 over tp", "mix": "interleave 0 over tp", "all": "same over tp", "sum": "sum over tp", "one": "pick 0 over tp"}
    for own, other in ("ab", "ba"):
        rows = [{own: f"rank{{tp}}/{k}{{l}}", other: f"{k}{{l}}", "rule": rule if own == "a" or k != "all" else "pick 1 over tp"} for k, rule in rules.items()]
        (tmp / f"map-{own}.json").write_text(json.dumps({"plumb.map": 1, "shards": rows}))


def test_compare_pieces_that_lie_on_several_machines(tmp):
    """Each rank has private file systems with its pieces alone; the session has the bytes of a run that sees all. Pieces as A, as B, and on both sides."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp)], capture_output=True).returncode:
        raise Skip("needs the right to mount: unshare -m")
    make_pieces(tmp)
    (tmp / "node.sh").write_text(NODE)
    sides = {"a": ["a", "b.safetensors", "--map", "map-a.json"], "b": ["b.safetensors", "a", "--map", "map-b.json"]}
    wrong = {"a": {"rank1/up2", "rank2/all5", "rank{tp}/sum1 (sum)", "rank{tp}/sum3 (sum)"}, "b": {"up2", "sum1", "sum3"}}
    n_runs = 0
    for side, args in sides.items():
        command = [PLUMB, "compare", *args, "--stable-output", "-o"]
        plain = subprocess.run([*command, f"plain-{side}"], cwd=tmp, env=ENV, capture_output=True, text=True)
        assert plain.returncode == 1, plain.stderr
        expected = files(tmp / f"plain-{side}")
        bad = {p["value"] for p in json.loads(expected["session.json"])["sync_points"] if p["verdict"] not in ("same", "within", "unpaired")}
        assert bad == wrong[side], bad
        for mpi in mpis():
            for n, also in ((1, ""), (2, ""), (4, ""), (7, "3")) if FULL else ((2, ""), (7, "3")) if mpi == mpis()[0] else ((4, ""),):
                out = f"{side}-{mpi}{n}"
                said = launch(mpi, n, ["unshare", "-m", "sh", tmp / "node.sh", *command, out], tmp, exits=(1,), env={"ALSO": also})
                got = files(tmp / out)
                assert got == expected, [k for k in got.keys() | expected.keys() if got.get(k) != expected.get(k)]
                assert plain.stdout.replace(f"plain-{side}", out) in said.stdout, said.stdout
                n_runs += 1
    # A run against a run, each rank with its pieces of both, and no file in common.
    (tmp / "all-b").mkdir()
    (tmp / "b").mkdir()
    for p in (tmp / "all-a").iterdir():
        for folder in ("b", "all-b"):
            shutil.copy(p, tmp / folder)
    command = [PLUMB, "compare", "a", "b", "--stable-output", "-o"]
    subprocess.run([*command, "plain-two"], cwd=tmp, env=ENV, capture_output=True, text=True)
    for mpi in mpis():
        launch(mpi, 4, ["unshare", "-m", "sh", tmp / "node.sh", *command, f"two-{mpi}"], tmp, exits=(0,))
        assert files(tmp / f"two-{mpi}") == files(tmp / "plain-two")
    return f"{n_runs} runs"


def test_pieces_that_do_not_fit_are_told(tmp):
    """The same piece with other bytes on two machines, a piece that nobody has, and a damaged one."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp)], capture_output=True).returncode:
        raise Skip("needs the right to mount: unshare -m")
    make_pieces(tmp)
    node = NODE.replace('exec "$@"', '[ "$rank" = 2 ] && eval "$BREAK"\nexec "$@"')
    (tmp / "node.sh").write_text(node)
    command = [PLUMB, "compare", "a", "b.safetensors", "--map", "map-a.json", "-o", "x"]
    told = {"cp b.safetensors a/rank1.safetensors": "a/rank1.safetensors: rank 2 sees another file",
            "rm a/*": "has no rank 2, but a rank 3",
            "truncate -s 100 a/rank2.safetensors": "rank 2: a: rank2.safetensors"}
    for mpi in mpis():
        for breakage, text in told.items():
            done = launch(mpi, 4, ["unshare", "-m", "sh", tmp / "node.sh", *command], tmp, exits=(2,), env={"BREAK": breakage, "ALSO": ""}, timeout=300)
            assert text in done.stderr and done.stderr.count("plumb compare:") == 1, f"{breakage}: {done.stderr}"
            assert not (tmp / "x").exists()


def test_compare_reports_a_failing_rank(tmp):
    make_pair(tmp)
    for mpi in mpis():
        done = launch(mpi, 3, [PLUMB, "compare", "a.safetensors", "absent.npz", "-o", "x"], tmp, exits=(2,))
        assert done.stderr.count("plumb compare:") == 1 and "absent.npz" in done.stderr, done.stderr
        assert not (tmp / "x").exists()
        model = launch(mpi, 2, [PLUMB, "compare", "a.safetensors", "model.onnx"], tmp, exits=(2,))
        assert "several ranks compare only recordings" in model.stderr, model.stderr


def test_compare_large_recordings(tmp):
    if not FULL:
        raise Skip("only with --full")
    free = shutil.disk_usage(tmp).free
    gigabytes = int(os.environ.get("PLUMB_MPI_GB", 8 if free > 40e9 else 2))
    if free < 10e9:
        raise Skip(f"{free / 1e9:.0f} GB free, 10 are required")
    n = gigabytes * 1024**3 // 4 // 4  # four tensors of float32 in each recording

    def values(seed, scale):
        def blocks():
            for i in range(0, n, 1 << 22):
                x = np.random.default_rng([seed, i]).standard_normal(min(1 << 22, n - i), np.float32)
                yield (x * np.float32(scale)).tobytes()
        return blocks
    for name, scale in (("a", 1 + 2**-20), ("b", 1)):
        safetensors(tmp / f"{name}.safetensors", {f"v{k}": ("F32", (n,), values(k, scale)) for k in range(4)})
    lines, expected = [], None
    for mpi in (None, *mpis()):
        for ranks in RANKS if mpi else (0,):
            out = f"s-{mpi}-{ranks}"
            begin = time.monotonic()
            if mpi:
                launch(mpi, ranks, compare(out, "--threads", "1"), tmp, exits=(0, 1), timeout=3600)
            else:
                subprocess.run(compare(out, "--threads", "1"), cwd=tmp, env=ENV, check=False, capture_output=True, timeout=3600)
            lines.append(f"{mpi or 'none'} {ranks}: {time.monotonic() - begin:.1f} s")
            got = files(tmp / out)
            expected = expected or got
            assert got == expected and "session.json" in got, lines[-1]
    return f"{gigabytes} GB each; " + ", ".join(lines)


if __name__ == "__main__":
    sys.exit(main(globals()))
