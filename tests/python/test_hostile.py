#!/usr/bin/python3
"""Sessions, stores, repros, recordings, corpora and tables of a stranger, times every command that reads them and the API of
`plumb view`: nothing outside the folder is read, written or deleted, nothing foreign runs, nothing hangs.

A sound folder of each kind is made once; a case replaces one file in it by a trap (a link to a secret, a pipe, a
socket, a device, ...). Secrets hold a canary that must never be printed; their bytes, inode and times must stay, and inotify
sees whether one is opened. `cc`, `sh`, `chromium` and `xdg-open` in PATH are traps that leave a mark, and strace (ptrace and
seccomp) sees every program that is started and every connection: only plumb and plumb-guard may be.
test_hostile.py [-k TEXT] [-v] [--full]"""

import ctypes, json, os, random, re, shutil, signal, socket, stat, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
HERE = Path(__file__).resolve().parent
CANARY = "CANARY-7f3a9c51"
LIMIT = 300  # seconds; what hangs does so for ever
PICK = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
VERBOSE = "-v" in sys.argv

root = Path(tempfile.mkdtemp(prefix="hostile-"))
results = []


def tap(name, problem=None):
    results.append(problem)
    print(f"{'not ok' if problem else 'ok'} {len(results)} - {name}" + (f"\n# {problem}" if problem else ""), flush=True)


# ---- who looks on ----

class Watch:
    """inotify on a home and what is in it: files that are opened, read, written, made, moved or deleted."""
    libc = ctypes.CDLL(None, use_errno=True)
    EVENTS = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0xC0 | 0x100 | 0x200  # access, modify, attrib, close_write, open, moved, create, delete
    IS_DIR = 0x40000000

    def __init__(self, home):
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self.paths = {self.libc.inotify_add_watch(self.fd, os.fsencode(p), self.EVENTS): p for p in [home, *home.rglob("*")]}

    def seen(self):
        """What happened since the last call. Opening a folder to list it is no finding: the test itself does that, too."""
        found, data = [], b""
        try:
            while more := os.read(self.fd, 65536):
                data += more
        except BlockingIOError:
            pass
        while data:
            wd, mask, _, n = (int.from_bytes(data[i:i + 4], "little") for i in (0, 4, 8, 12))
            name = data[16:16 + n].rstrip(b"\0").decode("utf-8", "replace")
            data = data[16 + n:]
            if not mask & self.IS_DIR and wd in self.paths:
                found.append(f"{self.paths[wd]}{'/' + name if name else ''} ({mask:#x})")
        return found

    def close(self):
        os.close(self.fd)


STRACE = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "200", "-e", "trace=execve,execveat,connect", "-e", "signal=none"]


def can_trace():
    try:
        return subprocess.run([*STRACE, "-o", "/dev/null", "true"], capture_output=True, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


TRACED = can_trace()
OWN = {os.path.realpath(PLUMB), os.path.realpath(os.path.join(os.path.dirname(PLUMB), "plumb-guard"))}


def started(log):
    """The first program that is not ours, or the first connection, in a log of strace."""
    for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
        call = re.search(r'exec(?:ve|veat)\((?:AT_FDCWD, |\d+, )?"([^"]*)".*\) = 0', line)
        if call and os.path.realpath(call[1]) not in OWN:
            return f"started {call[1]}"
        if re.search(r"\bconnect\(", line):
            return "connected: " + line.strip()
    return None


# ---- the world around the folder ----

class World:
    """A home with secrets, and a PATH whose programs leave a mark."""

    def __init__(self, at):
        self.at = at
        self.home, self.bin, self.tmp = at / "home", at / "bin", at / "tmp"
        for d in (self.home / ".ssh", self.bin, self.tmp):
            d.mkdir(parents=True)
        self.secrets = [self.home / ".ssh/id_rsa", self.home / ".ssh/id_ed25519", self.home / ".bashrc"]
        for s in self.secrets:
            s.write_text(json.dumps({"pins": [CANARY], "notes": {CANARY: CANARY}}))
        for name in ("cc", "gcc", "clang", "xdg-open", "evil", "chromium"):
            (self.bin / name).write_text(f"#!/bin/sh\necho {name} >> {at}/ran\nexit 1\n")
            (self.bin / name).chmod(0o755)
        (at / "ort-web").mkdir()  # so that `web` is there but for its browser
        for kind in ("wasm", "webgpu"):
            (at / f"ort-web/ort.{kind}.bundle.min.mjs").touch()
        self.before = self.look()
        self.watch = Watch(self.home)
        self.log = at / "strace.log"

    def argv(self, *args):
        return [*(STRACE + ["-o", str(self.log)] if TRACED else []), PLUMB, *args]

    def env(self):
        return {"PLUMB_CHROMIUM": str(self.bin / "chromium"), "PLUMB_ORT_WEB": str(self.at / "ort-web"), "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home), "TMPDIR": str(self.tmp), "LC_ALL": "C.UTF-8",
                "XDG_CACHE_HOME": str(self.at / "cache"), **{k: v for k, v in os.environ.items() if k.startswith(("ASAN", "UBSAN", "PLUMB_ORT_LIB", "LD_PRELOAD"))},
                **({"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"} if TRACED else {})}  # LeakSanitizer and ptrace exclude each other

    def look(self):
        return [(str(s), s.read_bytes() if s.exists() else None, (lambda i: (i.st_ino, i.st_mtime_ns, i.st_mode, i.st_nlink))(s.lstat()) if s.exists() else None)
                for s in self.secrets] + sorted(str(p) for p in self.home.rglob("*") if ".cache" not in p.parts)

    def complaint(self, said):
        touched = self.watch.seen()
        changed = self.look() != self.before
        self.watch.seen()  # our own look
        if touched:
            return "a file outside was touched: " + touched[0]
        if changed:
            return "a file outside was changed"
        ran = started(self.log)
        self.log.unlink(missing_ok=True)
        if ran:
            return ran
        if CANARY in said:
            return "a secret was printed"
        if "\x1b" in said or "\r" in said:
            return "a control character was printed"
        if (self.at / "ran").exists():
            return "foreign code ran: " + (self.at / "ran").read_text().strip()
        return None


# ---- sound folders ----

TEXT = '<ir_version: 8, opset_import: ["": 17]>\ng (float[2,3] x) => (float[2,3] y) { a = Relu(x)\n y = Add(a, x) }\n'


def sh(*args, cwd=root):
    r = subprocess.run([PLUMB, *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=300)
    return r


def make_new_kinds():
    sh("analyze", "m.onnx", "--backend", "jit", "--backend", "eager:fp64", "-o", "many")
    assert (root / "many/many.json").exists() and (root / "many/1/session.json").exists()
    sh("generate", HERE.parent / "cli/generate/rnn.onnxtxt", "--backend", "jit", "--inject", "offset@Tanh", "--steps", "2", "-o", "generate")
    assert (root / "generate/generate.json").exists() and (root / "generate/step-0/session.json").exists()
    (root / "models").mkdir()
    shutil.copy(root / "m.onnxtxt", root / "models")
    sh("corpus", "models", "-b", "jit:inject=accuracy@Relu", "-o", "corpus", "-q", "--max-queries", "20")
    item = next((root / "corpus/items").iterdir())
    KINDS["corpus"][0].extend(f"items/{item.name}{x}" for x in ("", "/session", "/session/session.json", "/repro", "/repro/repro.json"))
    ASKS["corpus"].append((f"/session?key={item.name}", None))


def make_sound():
    (root / "m.onnxtxt").write_text(TEXT)
    assert sh("convert", "m.onnxtxt", "m.onnx").returncode == 0
    r = sh("analyze", "m.onnx", "--backend", "jit", "-o", "session")
    assert (root / "session/session.json").exists(), r.stderr
    for side in "ab":
        assert sh("record", "m.onnx", "-o", f"{side}.safetensors").returncode == 0
    rec = root / "recording"
    rec.mkdir()
    assert sh("run", "m.onnx", "--save", "all", "-o", "values").returncode in (0, 2)
    for p in (root / "values").glob("*.npy") if (root / "values").is_dir() else []:
        shutil.copy(p, rec / p.name)
    if not list(rec.glob("*.npy")):
        header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) + b"\n"
        for name in ("x", "a", "y"):
            (rec / f"{name}.npy").write_bytes(header + bytes(24))
    rep = root / "repro"
    data = rep / "test_data_set_0"
    data.mkdir(parents=True)
    shutil.copy(root / "m.onnx", rep / "model.onnx")
    (rep / "repro.json").write_text(json.dumps({"version": 1, "backend": "eager", "command": "run", "signature": None, "context": {"seed": 0, "threads": 0}}))
    tensor = b"\x08\x02\x08\x03\x10\x01\x4a\x18" + bytes(24)
    (data / "input_0.pb").write_bytes(tensor)
    (data / "output_0.pb").write_bytes(tensor)
    if PICK.split("/")[0] not in ("session", "repro", "recording"):  # 0.1.0 can be asked for these
        make_new_kinds()
    (root / "notes.json").write_text(json.dumps({"pins": ["y"], "accepted": [], "notes": {}, "pairs": []}))


# ---- traps ----

def trap_link(p, w):
    p.symlink_to(w.secrets[0])


def trap_link_dangling(p, w):
    p.symlink_to(w.home / ".ssh/authorized_keys")


def trap_link_relative(p, w):
    p.symlink_to(os.path.relpath(w.secrets[1], p.parent))


def trap_link_loop(p, w):
    p.symlink_to(p.name)


def trap_link_folder(p, w):
    p.symlink_to(w.home / ".ssh")


def trap_link_proc(p, w):
    p.symlink_to("/proc/self/environ")


def trap_fifo(p, w):
    os.mkfifo(p)


def trap_socket(p, w):
    here = os.getcwd()
    s = socket.socket(socket.AF_UNIX)
    try:
        with lock:
            os.chdir(p.parent)
            s.bind(p.name)
    finally:
        os.chdir(here)
        s.close()


def trap_device(p, w):
    os.mknod(p, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def trap_sparse(p, w):
    with open(p, "wb") as f:
        f.truncate(1 << 40)


def trap_empty(p, w):
    p.write_bytes(b"")


def trap_folder(p, w):
    (p / "inner").mkdir(parents=True)


def trap_escape(p, w):
    p.write_bytes(b'{"x": "\x1b]0;evil\x07\n::error::evil\r\xe2\x80\xae"}')


lock = threading.Lock()
TRAPS = [trap_link, trap_link_dangling, trap_link_relative, trap_link_loop, trap_link_folder, trap_link_proc, trap_fifo,
         trap_socket, trap_device, trap_sparse, trap_empty, trap_folder, trap_escape]

# folder, files that a trap takes the place of, commands that read it ({} is the folder)
KINDS = {
    "session": (["session.json", "model.onnx", "store", "store/plumb-store", "store/tmp", "store/index", "store/lock", "store/blobs/0", "notes.json", "map.json", "baseline.json"],
                [["report", "{}", "-o", "{out}.html"], ["report", "{}", "--format", "md"], ["store", "ls", "{}"], ["store", "verify", "{}"], ["store", "gc", "{}"]]),
    "repro": (["repro.json", "model.onnx", "test_data_set_0", "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"],
              [["run", "{}", "--backend", "eager", "--repro-level", "0"], ["info", "{}"], ["test", "{}"], ["minify", "{}", "-o", "{out}"], ["minify", "--query", "{}"],
               ["analyze", "{}", "--backend", "eager:fp64", "-o", "{out}", "--repro-level", "0"], ["record", "{}", "-o", "{out}.safetensors"],
               ["generate", "{}", "--backend", "eager:fp64", "--steps", "1", "-o", "{out}"], ["convert", "{}", "{out}.onnxtxt"],
               ["run", "{sound}/m.onnx", "--inputs", "{}/test_data_set_0", "--repro-level", "0"]]),
    "recording": (["x.npy", "y.npy", "metadata.json", "dump.json", "dump_tensor_data"],
                  [["compare", "{}", "{sound}/a.safetensors", "-o", "{out}"], ["analyze", "{sound}/m.onnx", "--backend", "eager", "--reference", "{}", "-o", "{out}"]]),
    "corpus": (["corpus.json", "items.json", "parts", "parts/1-of-1.jsonl", "parts/groups.jsonl"],
               [["report", "{}", "-o", "{out}.html"], ["report", "{}", "--format", "sarif"], ["corpus", "--diff", "{sound}/corpus", "{}"],
                ["corpus", "--merge", "{}", "{}", "-o", "{out}"], ["corpus", "{sound}/models", "-b", "eager:fp64", "--baseline", "{}", "-o", "{out}"]]),
    "many": (["many.json", "1", "1/session.json", "1/model.onnx", "1/store"], [["report", "{}/1", "-o", "{out}.html"], ["report", "{}", "-o", "{out}.html"]]),
    "generate": (["generate.json", "step-0", "step-0/session.json", "step-0/store"], [["report", "{}", "-o", "{out}.html"]]),
}
COMMON = [("/", None), ("/api/setup", None), ("/api/files", None), ("/api/table", None), ("/api/source?file=x.py&line=1", None)]
SESSION = [("/api/session", None), ("/api/graph", None), ("/api/stats?point=0", None), ("/api/slice?point=1", None), ("/api/notes", None),
           ("/api/emitted", None), ("/api/graph?of=executed", None), ("/api/graph?of=reference", None), ("/api/map", None), ("/api/baseline", None)]
ASKS = {  # of the server, by kind of folder
    "session": SESSION + COMMON,
    "corpus": COMMON.copy(),
    "many": COMMON + [("/api/part", {"session": "1"}), ("/api/part", {"session": ".."})] + SESSION,
    "generate": COMMON + [("/api/part", {"session": "step-0"})] + SESSION,
}
# A file that the user types may be a link; so may the folder of a session in it.
TYPED = {("many", "1"): ("report",), ("corpus", "corpus.json"): ("--baseline",), ("repro", "test_data_set_0"): ("--inputs",)}


def api(w, kind, folder, save):
    """Every route of the server, and one pin as the page sends it."""
    env = w.env()
    p = subprocess.Popen(w.argv("view", str(folder), "--no-open", "--port", "0"), env=env, cwd=w.at, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = ""
    try:
        timer = threading.Timer(LIMIT, p.kill)
        timer.start()
        link = p.stdout.readline().strip()
        timer.cancel()
        if link:
            base, token = link.split("/?token=")
            asks = ASKS[kind].copy()
            if save:
                asks.append(("/api/notes", {"pins": ["y"], "accepted": ["y"], "notes": {}, "pairs": [{"a": "$(evil)", "b": "y"}]}))
            for path, body in asks:
                request = urllib.request.Request(base + path, None if body is None else json.dumps(body).encode(), {"X-Plumb-Token": token, "Content-Type": "application/json"})
                try:
                    said += urllib.request.urlopen(request, timeout=LIMIT).read().decode("utf-8", "replace").replace("\r", "")
                except urllib.error.HTTPError as e:
                    said += e.read().decode("utf-8", "replace")
                except OSError as e:
                    return said, f"{path}: {e}"
            started = time.monotonic()
            for pid in server_of(p):
                os.kill(pid, signal.SIGTERM)
            p.wait(LIMIT)
            if time.monotonic() - started > 60:
                return said, "SIGTERM did not end it"
        _, err = p.communicate(timeout=LIMIT)
        return said + err, None
    except subprocess.TimeoutExpired:
        return said, "view hangs"
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()


def server_of(p):
    """plumb itself: the child of strace."""
    if not TRACED:
        return [p.pid]
    return [int(x) for x in Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()]


def command(w, args):
    try:
        r = subprocess.run(w.argv(*args), env=w.env(), cwd=w.at, capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "", "hangs"
    said = (r.stdout + r.stderr).decode("utf-8", "replace")
    if r.returncode < 0 or "AddressSanitizer" in said:
        return said, f"died of signal {-r.returncode}"
    return said, None


def case(job):
    kind, file, trap = job
    name = f"{kind}/{file}: {trap.__name__[5:]}"
    at = root / f"case-{kind}-{file.replace('/', '_')}-{trap.__name__}"
    w = World(at)
    folder = at / kind
    shutil.copytree(root / kind, folder)
    victim = folder / file
    if victim.is_dir():
        shutil.rmtree(victim)
    elif victim.exists():
        victim.unlink()
    victim.parent.mkdir(parents=True, exist_ok=True)
    try:
        trap(victim, w)
    except PermissionError as e:
        return name, None, f"cannot be made here: {e}"
    trapped = victim.lstat()
    for i, args in enumerate(KINDS[kind][1]):
        if any(word in args for word in TYPED.get((kind, file), ())):
            continue
        said, problem = command(w, [a.replace("{out}", str(at / f"out{i}")).replace("{sound}", str(root)).replace("{}", str(folder)) for a in args])
        problem = problem or w.complaint(said)
        if problem:
            return name, f"{' '.join(args)}: {problem}", None
    if kind in ASKS:
        for save in (False, True) if kind == "session" else (False,):
            said, problem = api(w, kind, folder, save)
            problem = problem or w.complaint(said)
            if problem:
                return name, f"view{' and pin' if save else ''}: {problem}", None
    if stat.S_ISLNK(trapped.st_mode) and victim.is_symlink() is False and file not in ("notes.json", "map.json", "baseline.json"):
        return name, "the link was replaced", None
    w.watch.close()
    shutil.rmtree(at, ignore_errors=True)
    return name, None, None


def browser_is_not_started():
    """A session and a repro that name the backend `web`: neither the page, told to run it, nor minify starts a browser."""
    w = World(root / "case-web")
    session, repro = w.at / "session", w.at / "repro"
    shutil.copytree(root / "session", session)
    shutil.copytree(root / "repro", repro)
    document = json.loads((session / "session.json").read_text())
    assert document["a"]["spec"] == "jit"
    document["a"]["spec"] = "web:wasm"
    (session / "session.json").write_text(json.dumps(document))
    (repro / "repro.json").write_text((repro / "repro.json").read_text().replace('"eager"', '"web"'))
    ASKS["web"] = SESSION + COMMON + [("/api/graph?of=executed&run=yes", None), ("/api/emitted?run=yes", None)]
    said, problem = api(w, "web", session, False)
    problem = problem or w.complaint(said)
    if problem is None and "plumb does not start it for a session" not in said:
        problem = "the page was not told that a browser is not started"
    for args in (["minify", repro, "-o", w.at / "out"], ["minify", "--query", repro]):
        said, wrong = command(w, list(map(str, args)))
        problem = problem or wrong or w.complaint(said) or (None if "--trust" in said else f"{args[0]}: not refused: {said[:200]}")
    w.watch.close()
    tap("a session and a repro that name web start no browser", problem)


# ---- all of them ----

def main():
    if not TRACED:
        print("ok 1 - programs and connections, by strace # SKIP strace is not installed (tools/setup test), or ptrace is not allowed")
        results.append(None)
    make_sound()
    shutil.copy(root / "notes.json", root / "session/notes.json")
    if PICK in "a session and a repro that name web start no browser":
        browser_is_not_started()
    jobs = [(k, f, t) for k, (files, _) in KINDS.items() for f in files for t in TRAPS]
    jobs = [j for j in jobs if PICK in f"{j[0]}/{j[1]}: {j[2].__name__[5:]}"]
    if "--full" not in sys.argv and not PICK:  # every file meets four traps, every trap thirteen files; all pairs only with --full
        jobs = [j for i, j in enumerate(jobs) if (i // len(TRAPS) + i % len(TRAPS)) % 3 == 0 and (i // len(TRAPS) + i) % len(TRAPS) != 0]
        random.Random(7).shuffle(jobs)
    with ThreadPoolExecutor(2 * (os.cpu_count() or 2)) as pool:
        for name, problem, skip in pool.map(case, jobs):
            if skip:
                print(f"ok {len(results) + 1} - {name} # SKIP {skip}")
                results.append(None)
            elif problem or VERBOSE:
                tap(name, problem)
            else:
                tap(name)
    print(f"1..{len(results)}")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if any(results) else 0


if __name__ == "__main__":
    sys.exit(main())
