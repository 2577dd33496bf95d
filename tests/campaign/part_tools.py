"""Parts memory, threads, fuzz, mutants and sweep: plumb under valgrind, ThreadSanitizer, libFuzzer and with odd operators."""

import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import counts
from subjects import ROOT, SHIM, SUBJECTS, environment

CORES = len(os.sched_getaffinity(0))
VALGRIND = ["valgrind", "-q", "--error-exitcode=0", "--leak-check=full", "--show-leak-kinds=definite,indirect",
            "--errors-for-leak-kinds=definite,indirect", "--num-callers=20"]
# A child that is killed between fork and exec has lost its parent's other threads, and what only they pointed to.
SILENT_FORKS = "--child-silent-after-fork=yes"
EVERY, EVERY_QUICK = 1, 25  # of the cases of tests/cli
CRASHING = ("minify-query",)  # its child crashes on purpose
# Cases that need more than valgrind offers: a time limit, other programs' memory, ONNX Runtime.
NOT_UNDER_VALGRIND = re.compile(r"ort|timeout|failures|engine|hang|web|cmd_|bisect|memory|fresh|torch")


def first_error(logs):
    """The first complaint of valgrind in its log files, or None; they are emptied."""
    wrong = None
    for log in sorted(logs.glob("*.log")):
        text = log.read_text(errors="replace")
        log.unlink()
        if text.strip() and wrong is None:
            wrong = " ".join(re.sub(r"==\d+==", "", text).split())[:300]
    return wrong


# ---- valgrind ----

def memory_subject(bench, tally, subject, logs, fault=None):
    env = {"PLUMB_CPU": "avx2", "PLUMB_GUARD": str(bench.program.with_name("plumb-guard"))}
    how = subject.name
    if fault:
        bench.counters.write_bytes(bytes(16))
        env |= {"LD_PRELOAD": SHIM, "FAULT_FILE": bench.counters, "FAULT_PROGRAM": "plumb", "FAULT_CLASS": "alloc",
                "FAULT_AT": fault, "FAULT_KIND": "ENOMEM"}
        how += f", allocation {fault} fails"
    children = "yes" if subject.guard and subject.name not in CRASHING else "no"
    bench.clean()
    code, _, err = bench.run(subject.argv, timeout=300, prefix=[
        *VALGRIND, f"--log-file={logs}/%p.log", f"--trace-children={children}", "--trace-children-skip=*/sh,*/cc,*/ld",
        *([SILENT_FORKS] if children == "no" else [])],
        **env)
    wrong = first_error(logs)
    if wrong is None and (code is None or code < 0):
        wrong = f"exit {code}: {err.strip()[-150:]}"
    tally.add("valgrind: commands" + (" with a failing allocation" if fault else ""), subject.name, wrong, how)


def memory_cases(bench, tally, logs, quick):
    """The cases of tests/cli with PLUMB a program that runs plumb under valgrind. What they print is judged by
    tests/run; here only valgrind's word counts."""
    wrapper = bench.work / "plumb-valgrind"
    wrapper.write_text(f"#!/bin/sh\nexec {' '.join(VALGRIND)} {SILENT_FORKS} --log-file={logs}/%p.log {bench.program} \"$@\"\n")
    wrapper.chmod(0o755)
    cases = [c for c in sorted((ROOT / "tests/cli").glob("*/*.sh")) if not NOT_UNDER_VALGRIND.search(str(c))]
    for case in cases[::EVERY_QUICK if quick else EVERY]:
        name = str(case.relative_to(ROOT / "tests/cli").with_suffix(""))
        if not tally.wanted(name):
            continue
        bench.clean()
        env = environment(bench.work, PLUMB=wrapper, TESTS=ROOT / "tests/cli", ROOT=ROOT, PLUMB_CPU="avx2",
                          PLUMB_GUARD=bench.program.with_name("plumb-guard"))
        proc = subprocess.Popen(["bash", "-u", case], cwd=bench.place, env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            proc.wait(900)
        except subprocess.TimeoutExpired:
            os.killpg(proc.pid, 9)
            proc.wait()
        tally.add("valgrind: cases of tests/cli", name, first_error(logs), f"tests/cli/{name} under valgrind")


def memory(bench, tally, quick):
    if shutil.which("valgrind") is None:
        tally.skip("valgrind", "valgrind is not installed (tools/setup campaign)")
        return
    logs = bench.work / "valgrind"
    logs.mkdir(exist_ok=True)
    for s in SUBJECTS:
        if tally.wanted(s.name):
            memory_subject(bench, tally, s, logs)
            n = bench.fault(s.argv, "alloc", 0, "ENOMEM")[3]
            for k in range(1, n, max(1, n // (2 if quick else 12))):
                memory_subject(bench, tally, s, logs, k)
    memory_cases(bench, tally, logs, quick)


# ---- ThreadSanitizer ----

TSAN_UNITS = ("test_pool", "test_alloc", "test_file", "test_store", "test_recording", "test_recording_api",
              "test_interp", "test_kernels_gemm", "test_metric", "test_session_write")


def races(text):
    return [l.strip() for l in text.splitlines() if l.startswith("SUMMARY: ThreadSanitizer")]


def threads(bench, tally, quick):
    build = ROOT / "build-tsan"
    units = [u for u in TSAN_UNITS if (ROOT / f"tests/unit/{u}.c").exists()]
    done = subprocess.run(["tools/build", "build-tsan", "-Db_sanitize=thread", "-Doptimization=1", "plumb",
                           "plumb-guard", *units], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        tally.add("ThreadSanitizer", "threads", "build-tsan does not build: " + done.stdout[-300:], "tools/build build-tsan")
        return
    env = {**os.environ, "TSAN_OPTIONS": "halt_on_error=0:exitcode=66", "PLUMB_TEST_KILLS": "3"}
    for unit in units:
        try:
            got = subprocess.run([build / unit], cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
            found = races(got.stderr)
            wrong = found[0] if found else None if got.returncode in (0,) else f"exit {got.returncode}: {got.stderr[-200:]}"
        except subprocess.TimeoutExpired:
            wrong = "time-out"
        tally.add("ThreadSanitizer: unit tests", unit, wrong, f"build-tsan/{unit}")
    for s in ("record", "compare", "analyze", "run"):
        subject = next(x for x in SUBJECTS if x.name == s)
        bench.clean()
        bench.program, old = build / "plumb", bench.program
        code, _, err = bench.run([*subject.argv, "--threads", "4"], timeout=300, TSAN_OPTIONS="exitcode=66")
        bench.program = old
        found = races(err)
        wrong = found[0] if found else None if code == subject.code else f"exit {code}: {err[-200:]}"
        tally.add("ThreadSanitizer: commands on four threads", s, wrong, f"build-tsan/plumb {s} --threads 4")
    server(bench, tally, build, 50 if quick else 400)


def server(bench, tally, build, n):
    """Requests of every kind at once, while notes are written."""
    bench.clean()
    shutil.copytree(bench.base / "ses", bench.place / "ses")
    log = open(bench.work / "server.log", "w+b")
    proc = subprocess.Popen([build / "plumb", "view", "ses", "--no-open", "--port", "0"], cwd=bench.place,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                            env=environment(bench.work, TSAN_OPTIONS="exitcode=66"))
    link = re.search(r"http://\S+", proc.stdout.readline().decode())
    failed = []

    def ask(i):
        base, _, token = link[0].partition("?")
        paths = ["session?", "graph?", f"stats?point={i % 9}&", f"slice?point={i % 9}&", f"npy?point={i % 9}&side=a&", "notes?"]
        body = b'{"notes":{"r":"%d"}}' % i if i % 7 == 0 else None
        path = "notes?" if body else paths[i % len(paths)]
        request = urllib.request.Request(f"{base.rstrip('/')}/api/{path}{token}", body)
        try:
            urllib.request.urlopen(request, timeout=30).read()
        except urllib.error.HTTPError as e:
            if e.code >= 500:
                failed.append(f"{path}: {e.code}")
    if link:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(n)))
    proc.terminate()
    try:
        proc.wait(20)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()
        failed.append("it does not end")
    log.seek(0)
    found = races(log.read().decode(errors="replace"))
    wrong = found[0] if found else failed[0] if failed else None if link else "no link"
    tally.add("ThreadSanitizer: view server, parallel requests", "view", wrong, f"{n} requests, 8 at once")


# ---- libFuzzer ----

FUZZ_SECONDS = 24 * 60
MUTANT_SECONDS = 20 * 60
INTERRUPTED = 72  # libFuzzer's exit code for a signal that ends it: no finding
MUTANTS = "fuzz_model"  # structure-aware mutants of whole models: a part of its own
KEPT = ROOT / ".cache/fuzz"  # what a target has learnt, for the next run
SLICE = 300  # seconds: a run that is stopped loses the count of one slice
# Symbols and stacks are for the run that repeats a finding; a large quarantine of freed memory only costs cache.
ASAN = "detect_leaks=1:allocator_may_return_null=1:malloc_context_size=4:quarantine_size_mb=16"


def fuzz_once(name, seconds, rss_mb, corpora, artifacts):
    """(inputs run, CPU seconds, what went wrong or None) of one call of a target."""
    proc = subprocess.Popen([ROOT / "build-fuzz" / name, f"-max_total_time={seconds}", "-timeout=20", f"-rss_limit_mb={rss_mb}",
                             "-entropic=0", "-use_cmp=0", "-reload=0",  # bookkeeping that takes half of the time of fuzz_model
                             "-print_final_stats=1", f"-artifact_prefix={artifacts}/", *corpora], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, env={**os.environ, "ASAN_OPTIONS": ASAN})
    said = proc.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    # A run that a finding ends prints no statistics, but its last line of progress.
    ran = re.findall(r"stat::number_of_executed_units:\s*(\d+)", said) or re.findall(r"(?m)^#(\d+)\s", said)
    known = re.findall(r"(?m)^#(\d+)\s+INITED", said)  # the corpus, which every slice reads again, is no new input
    wrong = next((l for l in said.splitlines() if "ERROR: " in l or "runtime error" in l), f"exit {proc.returncode}")
    return max(0, int(ran[-1]) - int(known[0] if known else ran[-1])) if ran else 0, used.ru_utime + used.ru_stime, wrong if proc.returncode not in (0, INTERRUPTED) else None


def keep_loss(short, artifacts, began, what):
    """The input joins the committed corpus, so that `tests/run fuzz` is red until the cause is mended. Returns its path, or "not kept"."""
    found = [f for f in artifacts.iterdir() if f.stat().st_mtime >= began]
    for f in found:
        shutil.copy(f, ROOT / "tests/fuzz/corpus" / short / f"lost-{f.name[-12:]}")
    names = ", ".join(f"tests/fuzz/corpus/{short}/lost-{f.name[-12:]}" for f in found) or "not kept"
    counts.add_lost(short, names, what)
    return names


def build_fuzz(tally):
    done = subprocess.run(["tools/build", "build-fuzz", "-Dfuzz=true", "-Dwerror=true", "-Doptimization=1", "fuzz"],
                          cwd=ROOT, env={**os.environ, "CC": "clang-14"}, capture_output=True, text=True)
    if done.returncode != 0:
        tally.add("fuzzing", "fuzz", "build-fuzz does not build: " + done.stdout[-300:], "tests/run fuzz")
    return done.returncode == 0


def fuzz_target(tally, name, seconds, rss_mb, row):
    """Goes on from the committed corpus and what earlier runs found; the counts of all runs are in bench/campaign-counts.json."""
    short = name.removeprefix("fuzz_")
    artifacts, kept = ROOT / "build-fuzz/artifacts" / name, KEPT / short
    artifacts.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    n, spent, why = 0, 0.0, None
    began, input_of = time.time(), f"build-fuzz/{name}, {seconds} CPU seconds"
    while spent < seconds and why is None:  # CPU time: a busy machine makes it longer, not less
        more, cpu, why = fuzz_once(name, min(SLICE, max(1, round(seconds - spent))), rss_mb, [kept, ROOT / "tests/fuzz/corpus" / short], artifacts)
        n, spent = n + more, spent + max(cpu, 0.5)
        total = counts.add_fuzzed(short, more)
        if why:
            input_of = f"build-fuzz/{name} " + keep_loss(short, artifacts, began, why)
    tally.add_many(row, total, why if why or n else "nothing was run", input_of)


def fuzz(bench, tally, quick):
    names = [n for n in sorted(p.stem for p in (ROOT / "tests/fuzz").glob("fuzz_*.c")) if tally.wanted(n) and n != MUTANTS]
    if not names or not build_fuzz(tally):
        return
    seconds = max(5, (120 if quick else FUZZ_SECONDS) // len(names))
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(lambda name: fuzz_target(tally, name, seconds, 2048, "fuzzing: inputs to " + name.removeprefix("fuzz_")), names))


def mutants(bench, tally, quick):
    """Whole models, edited as models, through every command: 20 s and 1 GB each."""
    if build_fuzz(tally):
        fuzz_target(tally, MUTANTS, 60 if quick else MUTANT_SECONDS, 1024, "mutants of whole models, all commands")


# ---- the operator table ----

SWEEP_PARTS = 8  # of all pairs of variations: some 108,000 cases each


def sweep(bench, tally, quick):
    """Parts of all pairs, from where the last run ended; two malloc fills each."""
    subprocess.run(["tools/build", "build", "test_sweep"], cwd=ROOT, check=True)
    for _ in range(1 if quick else SWEEP_PARTS):
        part = counts.read()["sweep"]["next_part"] % SWEEP_PARTS
        done = subprocess.run([ROOT / "build/test_sweep"], capture_output=True, text=True,
                              env={**os.environ, "PLUMB_SWEEP": "full", "PLUMB_SWEEP_PART": f"{part}/{SWEEP_PARTS}"})
        said = re.search(r"(\d+) of \d+ cases, (\d+) runs, .* (\d+) findings", done.stderr)
        total = counts.add_swept(counts.read()["sweep"]["next_part"], int(said[1]) if said else 0, int(said[2]) if said else 0)
        wrong = None if done.returncode == 0 else next((l for l in done.stderr.splitlines() if ": " in l), f"exit {done.returncode}")
        tally.add_many("sweep of the operator table: cases", total, wrong, f"PLUMB_SWEEP=full PLUMB_SWEEP_PART={part}/{SWEEP_PARTS} build/test_sweep")
