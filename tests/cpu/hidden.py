#!/usr/bin/python3
"""Run a command as on a CPU with AVX2 but without AVX-512 and VNNI, at full speed.

Usage: tests/cpu/hidden.py [--unit] COMMAND…      for example tests/cpu/hidden.py tests/run python -k test_blame

ONNX Runtime, plumb, its guard and its library are replaced by copies whose cpuid instructions are undefined ones; hide_avx512.c, preloaded, answers
them. /proc/cpuinfo does not list what is hidden. All of it is mounted over the files in a mount namespace of the command's own, which needs root or
user namespaces. --unit: the unit tests in build/, too. Torch and numpy are asked by their variables to keep to AVX2.
Static programs, and those that take LD_PRELOAD away, are not covered: they die of SIGILL.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORDS = re.compile(r" (?:avx512\w*|avx_vnni|amx_\w+|gfni|vaes|vpclmulqdq)\b")  # of /proc/cpuinfo; as the bits in hide_avx512.c


def cpuid_sites(data, first, size):
    """Where cpuid stands in a segment of code. Its bytes occur within other instructions, too: a disassembly that starts at each of four places
    before must arrive there."""
    blob, at = bytearray(), {}
    for m in re.finditer(b"\x0f\xa2", data[first:first + size]):
        site = first + m.start()
        for before in (40, 97, 203, 350):
            start = max(first, site - before)
            blob += b"\x90" * 32  # here a disassembly is in step again, whatever was before
            at.setdefault(site, []).append(len(blob) + site - start)
            blob += data[start:site + 16]
    if not at:
        return []  # objdump refuses an empty file
    with tempfile.NamedTemporaryFile() as f:
        f.write(blob), f.flush()
        text = subprocess.run(["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", f.name], text=True, capture_output=True, check=True).stdout
    seen = {int(where, 16) for where in re.findall(r"^\s*([0-9a-f]+):\s.*\bcpuid", text, re.M)}
    return [site for site, places in at.items() if seen.issuperset(places)]


def copy_without_cpuid(library, copy):
    """Copy a program or a library with its cpuid instructions replaced by undefined ones; returns how many."""
    data = bytearray(Path(library).read_bytes())
    heads = subprocess.run(["readelf", "-lW", library], text=True, capture_output=True, check=True).stdout
    sites = [site for offset, size in re.findall(r"LOAD +(0x\w+) 0x\w+ 0x\w+ (0x\w+) 0x\w+ R E", heads) for site in cpuid_sites(data, int(offset, 16), int(size, 16))]
    for at in sites:
        data[at:at + 2] = b"\x0f\x0b"
    Path(copy).write_bytes(data)
    shutil.copystat(library, copy)  # for make and ninja it is the same file
    return len(sites)


def build_answer(path):
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-Wl,-z,initfirst", HERE / "hide_avx512.c", "-o", path], check=True)
    return path


def targets(unit):
    """What asks cpuid, and decides by it."""
    build = ROOT / "build"
    found = [*ROOT.glob(".cache/ort-1*/**/libonnxruntime.so.1*"), build / "plumb", build / "plumb-guard", build / "libplumb.so"]
    found += sorted(p for p in build.glob("test_*") if p.is_file()) if unit else []
    return sorted({p.resolve() for p in found if p.exists() and "arm64" not in str(p)})


def cannot():
    """Why not here; or ''."""
    if os.uname().machine != "x86_64":
        return "not an x86-64"
    for program in ("objdump", "readelf", "unshare", "cc"):
        if shutil.which(program) is None:
            return f"{program} is missing"
    done = subprocess.run([*namespace(), "true"], capture_output=True)
    return "" if done.returncode == 0 else "no mount namespace for this user"


def namespace():
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def prepare(folder, unit=False):
    """The start of a command line; what follows runs in that world."""
    mounts = []
    for i, file in enumerate(targets(unit)):
        copy = folder / f"{i}-{file.name}"
        if copy_without_cpuid(file, copy) > 0:
            mounts.append((copy, file))
    info = folder / "cpuinfo"
    info.write_text(WORDS.sub("", Path("/proc/cpuinfo").read_text()))
    mounts.append((info, "/proc/cpuinfo"))
    script = folder / "enter"
    script.write_text("#!/bin/sh -e\n" + "".join(f"mount --bind '{a}' '{b}'\n" for a, b in mounts) + f"export LD_PRELOAD='{build_answer(folder / 'hide.so')}'\n"
                      "export ATEN_CPU_CAPABILITY=avx2 NPY_DISABLE_CPU_FEATURES='AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL'\n"
                      'exec "$@"\n')
    script.chmod(0o755)
    return [*namespace(), str(script)]


def main():
    unit = sys.argv[1:2] == ["--unit"]
    command = sys.argv[1 + unit:]
    if not command or (why := cannot()):
        sys.exit(f"hidden.py: {why}" if command else __doc__)
    with tempfile.TemporaryDirectory(prefix="hidden-", dir=ROOT / "build") as folder:  # which the sandbox lets compilers read
        return subprocess.run([*prepare(Path(folder), unit), *command]).returncode


if __name__ == "__main__":
    sys.exit(main())
