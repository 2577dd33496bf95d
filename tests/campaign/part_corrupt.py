"""Part corrupt: every file that plumb wrote, damaged in many ways, and read again. Tensors carry a hash: there a
flipped bit must be told. JSON and models carry none: there every damage must end in an answer or a clear error."""

import random
import shutil

from subjects import VOLATILE, ended

FLIPS, FLIPS_QUICK = 120, 12


def damages(data, n_flips, rng):
    """(how, bytes or None for a lost file); the flips first."""
    n = len(data)
    for _ in range(n_flips if n else 0):
        at, bit = rng.randrange(n), rng.randrange(8)
        yield f"bit {bit} of byte {at} flipped", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:]
    for keep in sorted({0, 1, n // 2, max(0, n - 1)} - {n}):
        yield f"cut to {keep} bytes", data[:keep]
    yield "a byte longer", data + b"\0"
    yield "lost", None


def header_bytes(path, data):
    """The part of a file that has no hash of its own."""
    if path.suffix == ".safetensors":
        return 8 + int.from_bytes(data[:8], "little")
    return 0 if "blobs" in path.parts else len(data)


def read_again(bench, argv, good, hashed):
    """None, or what is wrong with the answer."""
    code, out, err = bench.run(argv, timeout=30)
    shutil.rmtree(bench.place / "out", ignore_errors=True)
    (bench.place / "out.html").unlink(missing_ok=True)
    if code is None or code < 0 or code > 4:
        return ended(code)
    if code >= 2:
        return None if "plumb" in err else f"{ended(code)} without a clear line"
    same = (code, VOLATILE.sub(b"", out)) == good
    said = any(w in out + err.encode() for w in (b"damaged", b"cannot be read", b"no longer what was compared"))
    if hashed and not same and not said:
        return f"{ended(code)}: another answer, and no word of the damage"
    return None


def attack(bench, tally, row, root, commands, n_flips, rng):
    """Damages each file below root (or root itself) and reads it with each command."""
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    goods = []
    for argv in commands:
        code, out, _ = bench.run(argv)
        shutil.rmtree(bench.place / "out", ignore_errors=True)
        (bench.place / "out.html").unlink(missing_ok=True)
        goods.append((code, VOLATILE.sub(b"", out)))
    for path in files:
        data = path.read_bytes()
        head = header_bytes(path, data)
        for how, bad in damages(data, n_flips, rng):
            # A flip in what has a hash; a cut of it is found by its length.
            flipped = how.startswith("bit") and int(how.split()[4]) >= head
            path.unlink()
            if bad is not None:
                path.write_bytes(bad)
            for argv, good in zip(commands, goods):
                wrong = read_again(bench, argv, good, flipped)
                tally.add(f"{row}: {'bit flips in tensors' if flipped else 'other damage'}", row, wrong,
                          f"{path.relative_to(bench.place)}, {how}: plumb {' '.join(argv)}")
            path.unlink(missing_ok=True)
            path.write_bytes(data)


def corrupt(bench, tally, quick):
    rng, n = random.Random(6), FLIPS_QUICK if quick else FLIPS
    bench.clean()
    for name in ("ses", "cmp", "repro", "a.safetensors"):
        source = bench.base / name
        shutil.copytree(source, bench.place / name) if source.is_dir() else shutil.copy(source, bench.place / name)
    shutil.copytree(bench.base / "repro", bench.place / "points" / "1")
    session = [["report", "{name}", "--format", "json"], ["report", "{name}", "-o", "out.html"]]
    todo = [
        ("recording", bench.place / "a.safetensors",
         [["store", "verify", "a.safetensors"],
          ["compare", "a.safetensors", "{base}/b.safetensors", "--no-session"]]),
        ("store", bench.place / "ses/store", [["store", "verify", "ses/store"], ["store", "ls", "ses/store"]]),
        ("session of analyze", bench.place / "ses", [[a.replace("{name}", "ses") for a in c] for c in session]),
        ("session of compare", bench.place / "cmp", [[a.replace("{name}", "cmp") for a in c] for c in session]),
        ("repro", bench.place / "repro", [["minify", "--query", "repro"]]),
        ("checkpoint", bench.place / "points",
         [["minify", "{base}/net.onnx", "--check", "grep -q Relu {model} && exit 1; exit 0", "--resume", "points",
           "-o", "out"]]),
    ]
    for row, root, commands in todo:
        if tally.wanted(row):
            few = row in ("repro", "checkpoint", "session of analyze", "session of compare")
            attack(bench, tally, row, root, commands, max(3, n // 4) if few else n, rng)
