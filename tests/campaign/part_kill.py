"""Parts kill, clock and storm: what a process leaves when it is shot, when the clock jumps, and when what it
guards crashes again and again."""

import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request

from subjects import CHECKPOINTS, SUBJECTS, environment, judge, not_whole

KILLED = ("run", "record", "record-guard", "compare", "analyze", "minify", "report", "convert-joint")
TIMES, TIMES_QUICK = 200, 20
STORM, STORM_QUICK = 1000, 60


def survivors(bench):
    """Processes of this campaign: they carry its folder in their environment."""
    mark, found = f"CAMPAIGN={bench.work}".encode(), []
    for pid in (p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def gone(bench, seconds=5):
    """None when nothing of the campaign runs any more; a process has a moment to end."""
    end = time.monotonic() + seconds
    while survivors(bench):
        if time.monotonic() > end:
            return f"processes are left: {survivors(bench)}"
        time.sleep(0.02)
    return None


def shoot(bench, argv, after):
    proc = subprocess.Popen(bench.argv(argv), cwd=bench.place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=environment(bench.work, CAMPAIGN=bench.work))
    time.sleep(after)
    proc.send_signal(signal.SIGKILL)
    return proc.wait()


def after_shot(bench, subject, good):
    """What is there is whole; the same command, in the same folder, does its work."""
    left = {k: v for k, v in bench.left().items() if not k.startswith((".", CHECKPOINTS)) and ".part" not in k}
    if left:
        wrong = not_whole(bench, subject, good[1], left)
        return wrong and f"left something: {wrong}"
    argv = list(subject.argv)
    resumed = subject.name == "minify" and (bench.place / CHECKPOINTS).is_dir()
    if resumed:
        argv += ["--resume", CHECKPOINTS]
    code, _, err = bench.run(argv)
    left = {k: v for k, v in bench.left().items() if not k.startswith((".", CHECKPOINTS)) and ".part" not in k}
    if code != subject.code:
        return f"the next run{' (resumed)' if resumed else ''}: exit {code}: {err.strip()[-200:]}"
    if resumed:
        return None if "repro/model.onnx" in left else "the resumed run left no repro"
    return not_whole(bench, subject, good[1], left)


def hidden(bench):
    """A session that was being made has a name with a dot; whoever opens it all the same gets an answer."""
    for path in bench.place.glob(".ses.*"):
        code, _, err = bench.run(["report", path.name, "--format", "json"])
        if code is None or code < 0 or (code >= 2 and "plumb" not in err):
            return f"report of {path.name}: exit {code}"
    return None


def kill(bench, tally, quick):
    rng = random.Random(9)
    for s in (s for s in SUBJECTS if s.name in KILLED and tally.wanted(s.name)):
        good = bench.good(s)
        bench.clean()
        start = time.monotonic()
        bench.run(s.argv)
        took = time.monotonic() - start
        for _ in range(TIMES_QUICK if quick else TIMES):
            for _ in range(20):  # a shot that comes too late is none
                bench.clean()
                at = rng.uniform(0, took)
                if shoot(bench, s.argv, at) == -signal.SIGKILL:
                    break
                took *= 0.9
            wrong = gone(bench) or hidden(bench) or after_shot(bench, s, good)
            tally.add(f"SIGKILL during {s.name}", s.name, wrong, f"{s.name}: SIGKILL after {1e3 * at:.1f} ms")
    if tally.wanted("view"):
        kill_view(bench, tally, rng, TIMES_QUICK if quick else TIMES)


def kill_view(bench, tally, rng, times):
    """The server writes notes while it is shot: the file is whole, the old or the new one."""
    bench.clean()
    subprocess.run(["cp", "-r", bench.base / "ses", bench.place / "ses"], check=True)
    for n in range(times):
        proc = subprocess.Popen(bench.argv(["view", "ses", "--no-open", "--port", "0"]), cwd=bench.place,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                env=environment(bench.work, CAMPAIGN=bench.work))
        link = re.search(r"http://\S+", proc.stdout.readline().decode())
        wrong = None if link else "it printed no link"
        if link:
            url, _, token = link[0].partition("?")
            writer = subprocess.Popen(["/usr/bin/python3", "-c", SEND_NOTES, url, token],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(rng.uniform(0.05, 0.15))
            proc.send_signal(signal.SIGKILL)
            writer.wait()
        proc.send_signal(signal.SIGKILL)
        proc.wait()
        proc.stdout.close()
        wrong = wrong or gone(bench) or whole_notes(bench)
        tally.add("SIGKILL during view", "view", wrong, f"view: shot number {n}")


SEND_NOTES = """
import json, sys, urllib.request
base, token = sys.argv[1:]
for i in range(10000):
    body = json.dumps({"notes": {"r": "x" * (i % 5000)}}).encode()
    r = urllib.request.Request(base.rstrip("/") + "/api/notes" + ("?" + token if token else ""), body,
                               {"Content-Type": "application/json", "Origin": base.rstrip("/")})
    urllib.request.urlopen(r, timeout=2).read()
"""


def whole_notes(bench):
    path = bench.place / "ses/notes.json"
    if path.exists():
        try:
            json.loads(path.read_bytes())
        except ValueError as e:
            return f"notes.json is damaged: {e}"
    code, _, err = bench.run(["report", "ses", "--format", "json"])
    return None if code in (0, 1) else f"the session is damaged: {err.strip()[-150:]}"


# ---- clocks ----

NEGATIVE = re.compile(rb'-\d[\d.]* m?s\b|"(?:seconds|[a-z_]*_ms|[a-z]+)": -[\d.]+(?=[^}]*"timing")')


def clock(bench, tally, quick):
    from subjects import SHIM
    century = 100 * 365 * 86400
    for s in SUBJECTS:
        if not tally.wanted(s.name):
            continue
        good = bench.good(s)
        for jump in ("back", century, -century):
            bench.clean()
            code, out, err = bench.run(s.argv, LD_PRELOAD=SHIM, FAULT_CLOCK=jump)
            wrong = judge(bench, s, good, code, out, err)
            if wrong is None and code != s.code:
                wrong = f"exit {code}: {err.strip()[-150:]}"
            if wrong is None and NEGATIVE.search(out):
                wrong = f"a negative time: {NEGATIVE.search(out)[0]!r}"
            tally.add("real-time clock jumps", s.name, wrong, f"{s.name}: FAULT_CLOCK={jump}")


# ---- storms ----

def storm(bench, tally, quick):
    """Backends that crash, abort, hang and are killed; then nothing of them is left."""
    kinds = [("crash", 10), ("hang", 0.05), ("runtime-error", 10), ("compile-error", 10)]
    before = set(os.listdir("/dev/shm"))
    for n in range(STORM_QUICK if quick else STORM):
        kind, patience = kinds[n % len(kinds)]
        bench.clean()
        code, _, err = bench.run(["run", "{base}/net.onnx", "--backend", f"jit:inject={kind}@Relu", "--timeout",
                                  str(patience), "-o", "out"], CAMPAIGN=bench.work)
        wrong = None
        if code != 3 or "plumb" not in err:
            wrong = f"exit {code}, expected 3: {err.strip()[-150:]}"
        elif bench.left() or bench.strays():
            wrong = f"left {[*bench.left(), *bench.strays()][:3]}"
        wrong = wrong or gone(bench)
        tally.add("backend crashes, hangs and errors", kind, wrong, f"storm {n}: {kind}")
    new = {n for n in set(os.listdir("/dev/shm")) - before if n.startswith("plumb") and "campaign" not in n}
    tally.add("shared memory left by them", "storm", f"{sorted(new)[:3]}" if new else None, "storm: /dev/shm")
    long_query(bench, tally)


def long_query(bench, tally):
    """One process that asks a crashing backend many times keeps few descriptors and children."""
    nodes = "\n".join(f"  v{i + 1} = {'Relu' if i == 30 else 'Tanh'} (v{i})" for i in range(60))
    text = f'<ir_version: 8, opset_import: ["" : 17]>\nlong (float[4] v0) => (float[4] v60)\n{{\n{nodes}\n}}\n'
    bench.clean()
    (bench.place / "long.onnxtxt").write_text(text)
    proc = subprocess.Popen(bench.argv(["minify", "long.onnxtxt", "--backend", "jit:inject=crash@Relu", "-o", "out"]),
                            cwd=bench.place, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, env=environment(bench.work, CAMPAIGN=bench.work))
    most = 0
    while proc.poll() is None:
        try:
            most = max(most, len(os.listdir(f"/proc/{proc.pid}/fd")))
        except OSError:
            pass
        time.sleep(0.01)
    wrong = None if proc.returncode == 0 else f"exit {proc.returncode}"
    if most > 40:
        wrong = f"{most} open descriptors"
    tally.add("descriptors of a long minify", "storm", wrong or gone(bench), "storm: minify long.onnxtxt")
