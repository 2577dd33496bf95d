"""Part disk: disks that are full, folders that may not be written, temporary folders that are not there."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import subjects
from subjects import SUBJECTS, environment, judge

CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_RDONLY, MS_REMOUNT, MS_BIND = 0x20000, 1 << 14, 1 << 18, 1, 32, 4096
libc = ctypes.CDLL(None, use_errno=True)
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
# Where most of what a command writes goes to the folder of the try.
WRITERS = ("run", "run-npz", "run-guard", "record", "record-guard", "compare", "analyze", "minify", "report",
           "convert", "convert-joint")


def mount(source, target, kind, flags, data=None):
    call = libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, data.encode() if data else None)
    if call != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


def own_mounts():
    """True when this process may mount without anybody else seeing it."""
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNS) != 0:
        return False
    try:
        mount("none", "/", "none", MS_REC | MS_PRIVATE)
    except OSError:
        return False
    return True


def one(bench, tally, row, subject, good, how, must=None, prefix=(), **env):
    got = bench.run(subject.argv, prefix=prefix, **env)
    wrong = judge(bench, subject, good, *got)
    if wrong is None and must == "fail" and got[0] == subject.code:
        wrong = "it says that it succeeded"
    if wrong is None and must == "succeed" and got[0] != subject.code:
        wrong = f"exit {got[0]}, though nothing hinders it: {got[2].strip()[-150:]}"
    tally.add(row, subject.name, wrong, f"{subject.name}: {how}")


def full_disk(bench, tally, subject, quick):
    """A tmpfs of K pages as the folder of the try, K from 1 until it is enough."""
    good = bench.good(subject)
    enough = sum(1 + len(v) // 4096 for v in good[1].values()) + 12
    for pages in range(1, enough + 1, 3 if quick else 1):
        bench.clean()
        mount("none", bench.place, "tmpfs", 0, f"size={pages * 4096},mode=777")
        try:
            one(bench, tally, "disk full (tmpfs of K pages)", subject, good, f"tmpfs of {pages} pages")
        finally:
            libc.umount2(str(bench.place).encode(), 2)


def file_limit(bench, tally, subject, quick):
    good = bench.good(subject)
    largest = max((len(v) for v in good[1].values()), default=0) // 1024 + 2
    for k in range(0, min(largest, 40), 4 if quick else 1):
        bench.clean()
        one(bench, tally, "files no larger than K KiB (RLIMIT_FSIZE)", subject, good, f"ulimit -f {k}",
            prefix=["bash", "-c", f'ulimit -f {k}; exec "$@"', "-"])


def dev_full(bench, tally, subject, good_out):
    """Standard output on a full device."""
    bench.clean()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(bench.argv(subject.argv), cwd=bench.place, stdout=full, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, env=environment(bench.work), timeout=60)
    wrong = None
    if good_out and done.returncode != 4:
        wrong = f"exit {done.returncode}, expected 4: {done.stderr.decode(errors='replace').strip()[-150:]}"
    elif good_out and b"plumb" not in done.stderr:
        wrong = "no word of it on standard error"
    tally.add("standard output on /dev/full", subject.name, wrong, f"{subject.name} >/dev/full")


def not_writable(bench, tally, subject):
    """As nobody, in a folder of somebody else; and with input that may not be read."""
    good = bench.good(subject)
    bench.clean()
    bench.place.chmod(0o555)
    prefix = NOBODY if os.geteuid() == 0 else []
    one(bench, tally, "folder not writable", subject, good, "as nobody in a folder of mode 555",
        "fail" if good[1] else None, prefix)
    bench.place.chmod(0o755)


def not_readable(bench, tally, subject):
    files = [Path(a.replace("{base}", str(bench.base))) for a in subject.argv if a.startswith("{base}/")]
    if not files:
        return
    good = bench.good(subject)
    bench.clean()
    bench.place.chmod(0o777)
    mode = files[0].stat().st_mode
    files[0].chmod(0)
    prefix = NOBODY if os.geteuid() == 0 else []
    one(bench, tally, "input not readable", subject, good, f"as nobody, {files[0].name} of mode 0", "fail", prefix)
    files[0].chmod(mode & 0o777)


def temporary(bench, tally, subject):
    good = bench.good(subject)
    for where, must in (("/nowhere/at/all", None), ("/dev/null", None), (str(bench.work / "other"), "succeed")):
        bench.clean()
        (bench.work / "other").mkdir(exist_ok=True)
        one(bench, tally, "TMPDIR missing or elsewhere", subject, good, f"TMPDIR={where}", must, TMPDIR=where)
        shutil.rmtree(bench.work / "other", ignore_errors=True)


def disk(bench, tally, quick):
    # Somebody else must reach the program.
    bench.work.chmod(0o755)
    bench.tmp.chmod(0o777)
    copy = bench.work / "bin"
    copy.mkdir(exist_ok=True)
    for name in ("plumb", "plumb-guard"):
        shutil.copy(subjects.PLUMB.with_name(name), copy / name)
    bench.program = copy / "plumb"
    (bench.work / "cache").mkdir(exist_ok=True)
    subprocess.run(["chmod", "-R", "a+rwX", bench.work / "cache"], check=True)
    mounts = own_mounts()
    if not mounts:
        tally.skip("disk full (tmpfs of K pages)", "needs root and mount namespaces")
    for s in SUBJECTS:
        if not tally.wanted(s.name):
            continue
        if s.name in WRITERS:
            if mounts:
                full_disk(bench, tally, s, quick)
            file_limit(bench, tally, s, quick)
        dev_full(bench, tally, s, bench.good(s)[0])
        not_writable(bench, tally, s)
        not_readable(bench, tally, s)
        temporary(bench, tally, s)
    bench.program = subjects.PLUMB
