#!/usr/bin/python3
"""What many runs on a device and in the browser leave behind: processes, open files, shared memory, temporary files, memory.

  bench/device/leaks.py [--runs N] [--part NAME]... [--write]

api-gpu   N calls of the library in one process, each with a new ONNX Runtime and a new WebGPU device
one-gpu   N runs of one program on WebGPU
one-wasm, one-webgpu   N runs of one program in one browser
cli-gpu   N calls of `plumb run` on WebGPU
cli-wasm, cli-webgpu   N calls of `plumb run`, each with its own browser
crash-gpu, crash-wasm, crash-webgpu   N runs that a short time-out ends in the middle
lost-gpu, lost-webgpu   N runs whose device is lost in the middle: the process that computes (of the browser: its GPU process) is killed

After a part nothing may be left: no process, no file in TMPDIR, no new file in /dev/shm, no new descriptor. Inside, the resident memory of plumb and of
its children (browser too) at the end is compared with that at the start; what grows by more than 64 MB and 64 KB a run is a leak
(the children's from 200 runs on). Results are lines of
JSON in build/device/leaks.jsonl. --write: bench/device/leaks.md. Exit 1 on a leak."""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build/device"
GPU, WASM, WEB_GPU = "ort:providers=WebGPU", "web:wasm", "web:webgpu"
PARTS = {"api-gpu": GPU, "one-gpu": GPU, "one-wasm": WASM, "one-webgpu": WEB_GPU, "cli-gpu": GPU, "cli-wasm": WASM, "cli-webgpu": WEB_GPU,
         "crash-gpu": GPU, "crash-wasm": WASM, "crash-webgpu": WEB_GPU, "lost-gpu": GPU, "lost-webgpu": WEB_GPU}
KB_PER_RUN, KB_ANYWAY, ENOUGH = 64, 65536, 200  # a browser that starts grows by some 100 MB, and comes and goes by some 15
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[8,16] x) => (float[8,16] y) { a = Relu(x) b = Softmax(a) s = Shrink<lambd = 0.5>(b) y = Add(s, x) }"""
LONG = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2000,2000] x) => (float[2000,2000] y) { a = MatMul(x, x) b = MatMul(a, a) y = MatMul(b, b) }"""


def processes(mark):
    """{pid: resident KB} of processes whose environment or command has the mark, and of children, zombies too; without this one."""
    out = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            text = Path(f"/proc/{entry}/environ").read_bytes() + Path(f"/proc/{entry}/cmdline").read_bytes()
            status = Path(f"/proc/{entry}/status").read_text()
        except OSError:
            continue
        if mark in text or f"\nPPid:\t{os.getpid()}\n" in status:
            out[int(entry)] = int(status.split("\nVmRSS:")[1].split()[0]) if "\nVmRSS:" in status else 0
    return out


def files_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def own_memory():
    return int(Path("/proc/self/status").read_text().split("\nVmRSS:")[1].split()[0])


class Watch:
    """Samples descriptors and memory of the children while a part runs."""

    def __init__(self, mark):
        self.mark, self.seen, self.stop = mark, [], threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while not self.stop.wait(0.2):
            there = processes(self.mark)
            self.seen.append((sum(there.values()), sum(map(files_of, there)), len(there)))

    def end(self):
        self.stop.set()
        self.thread.join()
        counts = [s[2] for s in self.seen[len(self.seen) // 2:]] or [0]
        usual = max(set(counts), key=counts.count)
        return [s for s in self.seen if s[2] == usual]  # without those in which a browser starts or ends


def seconds_of(pid):
    """CPU time of a process; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def computing(mark, browser):
    """The process that runs shaders: of the browser its GPU process, else the guard's child, that is the busiest."""
    there = processes(mark)
    if not browser:
        return max(there, key=seconds_of, default=None)
    for pid in there:
        try:
            if b"--type=gpu-process" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except OSError:
            pass
    return None


def lose(path, backend, mark):
    """One run that loses its device; what went wrong, or None."""
    plumb = [os.environ.get("PLUMB", str(ROOT / "build/plumb")), "run", path, "--save", "none", "--repro-level", "0", "--backend", backend]
    run = subprocess.Popen([str(a) for a in plumb], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while run.poll() is None:
        pid = computing(mark, backend == WEB_GPU)
        if pid is not None and seconds_of(pid) > 2:  # started, and shaders run
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.05)
    said = run.communicate()[1].strip()
    cause = "device lost" if backend == WEB_GPU else "signal 9"
    return None if run.returncode == 3 and cause in said else f"exit {run.returncode}: {said[:200]}"


def call(args):
    return subprocess.run([os.environ.get("PLUMB", str(ROOT / "build/plumb")), *args], capture_output=True, text=True, check=False)


def run_part(part, runs, folder):
    """Own resident KB after a tenth of the runs and at the end; and what went wrong."""
    backend, bad, at_tenth = PARTS[part], [], 0
    path = folder / "m.onnxtxt"
    path.write_text(LONG if part.startswith(("crash", "lost")) else MODEL)
    if part.startswith("cli"):
        for i in range(runs):
            done = call(["run", path, "--save", "none", "--repro-level", "0", "--backend", backend])
            bad += [f"run {i}: exit {done.returncode}: {done.stderr.strip()[:200]}"] if done.returncode else []
            at_tenth = own_memory() if i == runs // 10 else at_tenth
        return at_tenth, own_memory(), bad
    if part.startswith("lost"):
        for _ in range(runs):
            said = lose(path, backend, os.environ["TMPDIR"].encode())
            bad += [said] if said else []
        path.write_text(MODEL)
        done = call(["run", path, "--save", "none", "--repro-level", "0", "--backend", backend])  # the next one works
        return own_memory(), own_memory(), bad + ([done.stderr] if done.returncode else [])
    sys.path.insert(0, str(ROOT / "python"))
    import numpy as np
    import plumb
    model = plumb.Model(path.read_text())
    feeds = {"x": np.ones((2000, 2000) if part.startswith("crash") else (8, 16), np.float32)}
    if part.startswith("one"):
        at_tenth = own_memory()
        result = plumb.run(model, feeds, backend=backend, repeat=runs)
        bad += [f"{result.times['n_runs']} runs"] if result.times["n_runs"] != runs else []
        return at_tenth, own_memory(), bad
    for i in range(runs):
        try:
            plumb.run(model, feeds, backend=backend, **({"timeout": 0.3} if part.startswith("crash") else {}))
            bad += [f"run {i}: no time-out"] if part.startswith("crash") else []
        except plumb.PlumbError as e:
            bad += [] if part.startswith("crash") and "0.3 s" in str(e) else [f"run {i}: {str(e)[:200]}"]
        at_tenth = own_memory() if i == runs // 10 else at_tenth
    if part.startswith("crash"):
        plumb.run(plumb.Model(MODEL), {"x": np.ones((8, 16), np.float32)}, backend=backend)  # the next one works
    return at_tenth, own_memory(), bad


def left(mark, tmp, shm, fds):
    """What is there that was not there before; processes get a moment to end."""
    end = time.monotonic() + 30
    while processes(mark) and time.monotonic() < end:
        time.sleep(0.1)
    return dict(processes=len(processes(mark)), shm=sorted(n for n in set(os.listdir("/dev/shm")) - shm if not n.startswith("plumb-sweep-"))[:5], tmp=sorted(os.listdir(tmp))[:5],
                fds=max(0, files_of(os.getpid()) - fds))


def measure(part, runs):
    """In a process of its own: one line of the journal."""
    with tempfile.TemporaryDirectory(prefix="plumb-leaks-") as tmp, tempfile.TemporaryDirectory(prefix="plumb-leaks-") as home:
        env = dict(os.environ, TMPDIR=tmp)
        begun = time.monotonic()
        done = subprocess.run([sys.executable, __file__, "--child", part, "--runs", str(runs), "--folder", home], env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return dict(part=part, runs=runs, seconds=round(time.monotonic() - begun, 1), error=done.stderr.strip()[-300:])
        return json.loads(done.stdout.splitlines()[-1]) | dict(seconds=round(time.monotonic() - begun, 1))


def child(part, runs, folder):
    mark, tmp = os.environ["TMPDIR"].encode(), os.environ["TMPDIR"]
    shm, fds = set(os.listdir("/dev/shm")), files_of(os.getpid())
    watch = Watch(mark)
    early, late, bad = run_part(part, runs, Path(folder))
    seen = watch.end()
    fifth = len(seen) // 5
    row = dict(part=part, runs=runs, bad=bad[:5], n_bad=len(bad), own_kb=[early, late], samples=len(seen))
    if part.startswith("one") and len(seen) >= 20:  # the first fifth is the start
        early, late = seen[fifth:2 * fifth], seen[-fifth:]
        row |= dict(children_kb=[max(s[0] for s in x) for x in (early, late)], children_fds=[max(s[1] for s in x) for x in (early, late)])
    row |= left(mark, tmp, shm, fds)
    print(json.dumps(row))


def leaks(row):
    """Words for what leaks; empty when nothing does."""
    if "error" in row:
        return [row["error"]]
    out = [f"{row['n_bad']} runs went wrong: {row['bad']}"] if row["n_bad"] else []
    out += [f"{row[k]} {k} left" for k in ("processes", "shm", "tmp", "fds") if row[k]]
    allowed = KB_ANYWAY + KB_PER_RUN * row["runs"]
    keys = ["own_kb", "children_kb"] if row["runs"] >= ENOUGH else ["own_kb"]
    out += [f"{k} grew from {row[k][0]} to {row[k][1]}" for k in keys if k in row and row[k][1] - row[k][0] > allowed]
    fds = row.get("children_fds", [0, 0]) if row["runs"] >= ENOUGH else [0, 0]
    if fds[1] > fds[0] + 32 + row["runs"] // 8:
        out.append(f"descriptors of the children grew from {fds[0]} to {fds[1]}")
    return out


def write_page(rows):
    text = ["# What many runs leave behind", "", "`bench/device/leaks.py --write`. Left: processes + files in TMPDIR + new files in /dev/shm + descriptors of plumb's process. "
            "Memory and descriptors of the children (guard, runtime, browser) early and at the end, where one program serves all runs.", "",
            "| part | runs | went wrong | left | plumb's own memory, MB | memory of the children, MB | descriptors of the children | s |", "|---|--:|--:|---|---|---|---|--:|"]
    for r in rows:
        if "error" in r:
            text.append(f"| {r['part']} | {r['runs']} | {r['error'][:100]} | | | | | |")
            continue
        both = lambda key, unit: " to ".join(f"{v / unit:.0f}" for v in r[key]) if key in r else ""  # noqa: E731
        n_left = " + ".join(str(v if isinstance(v, int) else len(v)) for v in (r["processes"], r["tmp"], r["shm"], r["fds"]))
        text.append(f"| {r['part']} | {r['runs']:,} | {r['n_bad']} | {n_left} | {both('own_kb', 1024)} | {both('children_kb', 1024)} | {both('children_fds', 1)} | {r['seconds']:.0f} |")
    text += ["", "Parts: " + (__doc__ or "").split("\n\n")[2].replace("\n", "; ").replace("  ", " ") + "."]
    (ROOT / "bench/device/leaks.md").write_text("\n".join(text) + "\n", encoding="utf-8")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=1000)
    p.add_argument("--part", action="append", choices=sorted(PARTS))
    p.add_argument("--write", action="store_true")
    p.add_argument("--child", help=argparse.SUPPRESS)
    p.add_argument("--folder", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.child:
        return child(o.child, o.runs, o.folder)
    OUT.mkdir(parents=True, exist_ok=True)
    failed = False
    for part in o.part or PARTS:
        row = measure(part, o.runs)
        with (OUT / "leaks.jsonl").open("a") as f:
            f.write(json.dumps(row) + "\n")
        failed = failed or bool(leaks(row))
        print(json.dumps(row), "; ".join(leaks(row)), flush=True)
    if o.write:
        best = {}
        for r in map(json.loads, (OUT / "leaks.jsonl").read_text().splitlines()):
            if r["runs"] >= best.get(r["part"], r)["runs"]:
                best[r["part"]] = r
        write_page([best[k] for k in PARTS if k in best])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
