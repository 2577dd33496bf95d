"""Parts alloc and io: the N-th call of a command fails, for every N."""

from subjects import SUBJECTS, judge

EXHAUSTIVE = 300  # every N up to here, then a sample
SAMPLES = 150

# kind of fault: (calls, must the command succeed as if nothing had happened?)
FILES = "read,write,pread,pwrite,writev,open,fsync,ftruncate,rename,link,mkdir,fstat,mmap,memfd,pipe"
IO = [
    ("short", "read,write,pread,pwrite", True),
    ("EINTR", "read,write,pread,pwrite,open,fsync,recvmsg,sendmsg", True),
    ("EIO", FILES, False),
    ("ENOSPC", "write,pwrite,writev,open,mkdir,rename,link,ftruncate,memfd", False),
    ("EMFILE", "open,pipe,memfd", False),
    ("ENOMEM", "mmap,open,pipe,memfd,fstat", False),
]


def places(n, quick):
    exhaustive, samples = (40, 25) if quick else (EXHAUSTIVE, SAMPLES)
    if n <= exhaustive + samples:
        return list(range(1, n + 1))
    step = (n - exhaustive) / samples
    return list(range(1, exhaustive + 1)) + [exhaustive + 1 + int(k * step) for k in range(samples)]


def strike(bench, tally, subject, good, part, program, cls, kind, every, must, at):
    bench.clean()
    code, out, err, _, made = bench.fault(subject.argv, cls, at, kind, every, program)
    if made == 0:
        return False  # the run was shorter this time
    wrong = judge(bench, subject, good, code, out, err)
    if wrong is None and must and code != subject.code:
        wrong = f"exit {code}, though nothing was lost: {err.strip()[-150:]}"
    tally.add(f"{part} {program}", subject.name, wrong,
              f"{subject.name}: {kind} at {'every ' if every else ''}{cls} call {at} of {program}")
    return True


def sweep(bench, tally, subject, part, program, cls, kind, every, must, quick):
    good = bench.good(subject)
    bench.clean()
    n = bench.fault(subject.argv, cls, 0, kind, 0, program)[3]
    for at in places(n + 3, quick):
        strike(bench, tally, subject, good, part, program, cls, kind, every, must, at)


def subjects(tally):
    return [s for s in SUBJECTS if tally.wanted(s.name)]


def alloc(bench, tally, quick):
    for s in subjects(tally):
        for program in ["plumb"] + (["plumb-guard"] if s.guard else []):
            for every in (0, 1):  # one allocation fails; all do from then on
                sweep(bench, tally, s, "allocation fails:", program, "alloc", "ENOMEM", every, False, quick)


def io(bench, tally, quick):
    for s in subjects(tally):
        for program in ["plumb"] + (["plumb-guard"] if s.guard else []):
            for kind, cls, must in IO:
                sweep(bench, tally, s, f"{kind} at a system call:", program, cls, kind, 0, must, quick)
                if kind in ("short", "EINTR"):  # never again and again at the same call
                    good = bench.good(s)
                    for every in (1, 2, 3) if kind == "short" else (2, 3):
                        strike(bench, tally, s, good, f"{kind} at a system call:", program, cls, kind, every, must, 1)
                elif kind == "ENOSPC" and not quick:
                    sweep(bench, tally, s, f"{kind} at a system call:", program, cls, kind, 1, must, quick)
