#!/usr/bin/python3
"""Files of a stranger whose content attacks: what is nested in itself, counts that overflow, archives that inflate, 100,000 of
something where the obvious loop is quadratic, names that leave a folder or reach the terminal. (test_hostile.py has links,
pipes and devices.) A run may end in an answer or in an error with a message; it may not crash, take 10 s of CPU, 1 GB of memory
or 64 times the file, print a control character, or write anywhere but to its output.   test_attacks.py [-k TEXT] [-v]"""

import json, os, resource, shutil, struct, subprocess, sys, tempfile, zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLUMB = os.path.abspath(os.environ.get("PLUMB", "build/plumb"))
PICK = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
SANITIZED = "ASAN_OPTIONS" in os.environ  # slower, and with shadow memory
CPU = 30 if SANITIZED else 10
MEMORY = 1 << 30
root = Path(tempfile.mkdtemp(prefix="attacks-"))
ATTACKS = []  # (name, function that makes the files in a folder and returns the arguments of plumb)


def attack(fn):
    ATTACKS.append((fn.__name__, fn))
    return fn


def attacks(name, rows, make):
    """One attack for each row."""
    for key, row in rows.items():
        ATTACKS.append((f"{name}: {key}", lambda at, row=row: make(at, row)))


def both(at, name, data):
    """The same file twice: two recordings to compare."""
    (at / name).write_bytes(data)
    (at / f"b-{name}").write_bytes(data)
    return ["compare", name, f"b-{name}", "-o", "out"]


# ---- corpora ----

def corpus(at, name, groups, cases, backends=("eager",)):
    (at / name / "parts").mkdir(parents=True)
    (at / name / "items").mkdir()
    (at / name / "items.json").write_text('{"plumb_corpus_items":1,"items":[]}')
    (at / name / "corpus.json").write_text(json.dumps({"plumb_corpus": 1, "backends": [{"spec": b, "version": "1"} for b in backends],
                                                       "groups": groups, "cases": cases, "gone": []}))


def failing(i, group, backend="eager"):
    return {"key": f"k{i}", "model": f"m{i}.onnx", "backend": backend, "data": "", "seed": 0, "status": "diverged", "group": group,
            "reason": "\x1b[31m::error::x\r\n|<script>]]>", "step": "analyze"}


N = 40000


def two_corpora(at, also=0, n=N):
    for name in "ab":
        corpus(at, name, [{"id": f"{name}{i}", "name": "n", "also": [f"{name}{i}-{k}" for k in range(also)]} for i in range(n)],
               [failing(i, f"{name}{i}") for i in range(n)])


@attack
def corpus_diff_of_40000_groups(at):
    two_corpora(at)
    return ["corpus", "--diff", "a", "b"]


@attack
def corpus_diff_of_groups_with_1000_signatures(at):
    two_corpora(at, also=1000, n=200)
    return ["corpus", "--diff", "a", "b", "--json"]


@attack
def corpus_baseline_of_40000_groups(at):
    two_corpora(at)
    model(at, "y = Relu(x)")
    return ["corpus", "--merge", "a", "--baseline", "b", "--write-baseline", "base.json"]


for _form in ("junit", "sarif", "github"):
    def _report(at, form=_form):
        two_corpora(at, n=100)
        return ["report", "a", "--format", form]
    ATTACKS.append((f"corpus with escapes as {_form}", _report))


@attack
def corpus_of_keys_that_leave_the_folder(at):
    corpus(at, "a", [], [{**failing(0, ""), "key": "../../x", "session": True}])
    return ["report", "a", "-o", "page.html"]


@attack
def corpus_of_256_backends_and_10000_cases(at):
    specs = [f"eager:threads={i}" for i in range(256)]
    corpus(at, "a", [{"id": f"g{i}", "name": "n"} for i in range(10000)], [failing(i, f"g{i}", specs[i % 256]) for i in range(10000)], specs)
    return ["report", "a", "-o", "page.html"]


# ---- PyTorch's files ----

def text(s):
    return b"X" + struct.pack("<I", len(s)) + s


def integer(i):
    return b"\x8a\x08" + struct.pack("<q", i)


def tensor(size=(2,), stride=(1,), offset=0, n=2, key=b"0"):
    tup = lambda t: b"(" + b"".join(map(integer, t)) + b"t"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(key) + text(b"cpu") + integer(n) + b"tQ" +
            integer(offset) + tup(size) + tup(stride) + b"\x89ccollections\nOrderedDict\n)RtR")


def one(t, name=b"a"):
    return b"}" + text(name) + t + b"s."


def shared(n):
    return b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(n))


PICKLES = {
    "nested in itself, 2^40 values": b"}" + text(b"a") + tensor() + b"q\0" + b"".join(b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(40)) + b"s.",
    "a list that holds itself": b"]q\0h\0a.",
    "a dict that holds itself": b"}q\0" + text(b"a") + b"h\0s.",
    "200,000 deep": b"]" * 200000 + b"a" * 199999 + b".",
    "a view of 2^40 elements": one(tensor((2**40,), (0,))),
    "200 views of 256 MB": b"}(" + b"".join(text(b"%03d" % i) + tensor((2**14, 2**12), (0, 0)) for i in range(200)) + b"u.",
    "a negative stride": one(tensor((2,), (-1,), 1)),
    "a negative offset": one(tensor(offset=-5)),
    "dims that overflow": one(tensor((2**31, 2**31, 4), (1, 1, 1))),
    "strides that overflow": one(tensor((2, 2), (2**62, 2**62))),
    "a key that leaves the archive": one(tensor(key=b"../../../etc/passwd")),
    "os.system": b"cposix\nsystem\n(" + text(b"touch ran") + b"tR.",
    "a name with escapes": one(tensor(), b"\x1b]0;x\x07\r\n::error::y"),
    "a name that is not UTF-8": one(tensor(), b"\xff\xfe\xc2"),
    "a memo index of 2^32": b"Nr\xff\xff\xff\xff.",
    "a frame of 2^63 bytes": b"\x95" + struct.pack("<Q", 2**63) + b"N.",
    "a text of 2^63 bytes": b"\x8d" + struct.pack("<Q", 2**63) + b"N.",
    "a mark that is missing": b"u.",
}


def pickled(at, stream):
    for name in ("a.pt", "b.pt"):
        with zipfile.ZipFile(at / name, "w") as z:
            z.writestr("archive/data.pkl", b"\x80\x02" + stream)
            z.writestr("archive/data/0", bytes(8))
    return ["compare", "a.pt", "b.pt", "-o", "out"]


attacks("pt", PICKLES, pickled)


# ---- numpy's files, zip ----

def npy(descr, shape, data=bytes(16)):
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + data


attacks("npy", {str(k): k for k in [("'<f4'", "(4611686018427387904, 4)"), ("'O'", "(2,)"), ("'|V0'", "(1000000000000,)"), ("'<U999999999'", "(2,)"),
        ("'<f4'", "(" + "1," * 60 + ")"), ("'<f4'", "(0, 9223372036854775807, 9223372036854775807)"), ("[('a','<f4')]", "(2,)"), ("'<f4'", "(-2,)"),
        ("'|S0'", "(1000000000,)"), ("'<U0'", "(1000000000,)")]}, lambda at, row: both(at, "x.npy", npy(*row)))


def archive(at, entries):
    for name in ("a.npz", "b.npz"):
        with zipfile.ZipFile(at / name, "w", zipfile.ZIP_DEFLATED) as z:
            for entry, data in entries:
                z.writestr(entry, data)
    return ["compare", "a.npz", "b.npz", "-o", "out"]


@attack
def npz_of_1_mb_that_inflates_to_1_gb(at):
    import zlib
    # One deflated entry of zeros, written by hand: making 1 GB would take the test seconds.
    head = npy("'<f4'", "(268435456,)", b"")
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(head) + body.compress(bytes(1 << 20)) + body.flush()
    n, name = len(head) + (1 << 30), b"a.npy"
    packed += bytes(n // 1032 + 1 - len(packed))  # the size it claims must be possible
    local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, 0, len(packed), n, len(name), 0) + name
    central = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 8, 0, 0, 0, len(packed), n, len(name), 0, 0, 0, 0, 0, 0) + name
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(packed), 0)
    return both(at, "x.npz", local + packed + central + end)


@attack
def npz_of_20000_entries(at):
    return archive(at, [(f"{i}.npy", npy("'<f4'", "(4,)")) for i in range(20000)])


@attack
def npz_with_names_that_leave_the_folder(at):
    return archive(at, [("../../x.npy", npy("'<f4'", "(4,)")), ("a\x1b[31m.npy", npy("'<f4'", "(4,)"))])


# ---- safetensors ----

def safetensors(at, head):
    head = head if isinstance(head, bytes) else json.dumps(head).encode()
    return both(at, "x.safetensors", struct.pack("<Q", len(head)) + head + bytes(8))


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
attacks("safetensors", {
    "a header of spaces": json.dumps({"x": F32})[:-1].encode() + b" " * 30_000_000 + b"}",
    "50,000 empty tensors with escapes": {f"\x1b]0;{i}\x07": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(50000)},
    "dims that overflow": {"x": {**F32, "shape": [2**62, 4], "data_offsets": [0, 0]}},
    "100 dims": {"x": {**F32, "shape": [2] * 100}},
    "offsets the wrong way round": {"x": {**F32, "data_offsets": [8, 0]}},
    "a graph that is no JSON": {"__metadata__": {"plumb": "1", "graph": "{" * 10000}, "x": F32},
    "metadata that is a list": {"__metadata__": [1], "x": F32},
}, safetensors)


# ---- GGUF ----

def string(s):
    return struct.pack("<Q", len(s)) + s


def info(name, dims, kind, offset):
    return string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) + struct.pack("<IQ", kind, offset)


def padded(infos):
    return infos + bytes(-(len(infos) + 24) % 32)


def gguf(at, row):
    n_tensors, n_keys, body = row
    return both(at, "x.gguf", b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_keys) + body)


aligned = lambda n: (1, 1, string(b"general.alignment") + struct.pack("<II", 4, n) + info(b"a", [8], 0, 0) + bytes(96))
attacks("gguf", {
    "2^63 tensors": (2**63, 0, b""), "2^63 keys": (0, 2**63, b""), "a string of 2^64 - 1": (0, 1, struct.pack("<Q", 2**64 - 1) + b"abc"),
    "an array of 2^62": (0, 1, string(b"k") + struct.pack("<IIQ", 9, 4, 2**62)),
    "arrays 20,000 deep": (0, 1, string(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 20000),
    "alignment 0": aligned(0), "alignment 3": aligned(3), "alignment 2^31": aligned(2**31),
    "dims that overflow": (1, 0, padded(info(b"a", [2**32, 2**32], 0, 0)) + bytes(32)),
    "no elements of 2^63": (1, 0, padded(info(b"a", [0, 2**63], 0, 0)) + bytes(32)),
    "40 dims": (1, 0, padded(info(b"a", [1] * 40, 0, 0)) + bytes(32)), "type 999": (1, 0, padded(info(b"a", [8], 999, 0)) + bytes(32)),
    "an offset before the file": (1, 0, padded(info(b"a", [8], 0, 2**64 - 32)) + bytes(32)),
    "an odd offset": (1, 0, padded(info(b"a", [8], 0, 7)) + bytes(64)), "part of a block": (1, 0, padded(info(b"a", [33], 2, 0)) + bytes(64)),
    "two tensors of one name": (2, 0, padded(info(b"a", [8], 0, 0) * 2) + bytes(32)),
    "two tensors in one place": (2, 0, padded(info(b"a", [8], 0, 0) + info(b"b", [8], 0, 0)) + bytes(32)),
    "a name with escapes": (1, 0, padded(info(b"a\x1b[31m\n::error::x\xff", [8], 0, 0)) + bytes(32)),
    "a name with NUL": (1, 0, padded(info(b"a\0b", [8], 0, 0)) + bytes(32)),
    "one key 20,000 times": (0, 20000, (string(b"k") + struct.pack("<IB", 0, 1)) * 20000),
    "60,000 empty tensors": (60000, 0, padded(b"".join(info(b"%d" % i, [0], 0, 0) for i in range(60000)))),
}, gguf)


# ---- dumps of other tools ----

def msprobe(at, names, folder="a"):
    (at / folder / "dump_tensor_data").mkdir(parents=True)
    (at / folder / "dump_tensor_data/x.npy").write_bytes(npy("'<f4'", "(4,)"))
    (at / folder / "dump.json").write_text(json.dumps({"data": {f"f{i}": {"in": {"data_name": n}} for i, n in enumerate(names)}}))


def one_msprobe(at, name):
    msprobe(at, [name])
    msprobe(at, ["x.npy"], "b")
    return ["compare", "a", "b", "-o", "out"]


attacks("msprobe", {repr(n): n for n in ("../../x", "/etc/passwd", "..", "", "x.npy\0", "../dump_tensor_data/x.npy", "a\x1b[31m.npy")}, one_msprobe)


@attack
def msprobe_that_names_one_file_20000_times(at):
    for folder in "ab":
        msprobe(at, ["x.npy"] * 20000, folder)
    return ["compare", "a", "b", "-o", "out"]


@attack
def sglang_with_odd_tags(at):
    for folder in "ab":
        (at / folder).mkdir()
        for i in range(300):
            (at / folder / f"step={'9' * 40}___rank=-5___dump_index={i}___name=x\x1b[3{i % 8}m.pt").write_bytes(b"PK\3\4")
    return ["compare", "a", "b", "-o", "out"]


@attack
def ranks_in_ranks(at):
    for folder in "ab":
        for inner in ("rank0/rank1", "rank1/rank1/rank2"):
            (at / folder / inner).mkdir(parents=True)
    return ["compare", "a", "b", "-o", "out"]


attacks("polygraphy", {
    "not base64": {"lst": [["r\x1b[31m", [{"outputs": {"x": {"array": "A==="}}}]]]},
    "20,000 runs of one name": {"lst": [[f"r{i % 3}", [{"outputs": {"x": {"array": "AAAA"}}}]] for i in range(20000)]},
    "a runner that is a number": {"lst": [1, [2]]}, "outputs that are a list": {"lst": [["r", [{"outputs": [1]}]]]},
}, lambda at, document: both(at, "x.json", json.dumps(document).encode()))
attacks("json", {"200,000 deep": b"[" * 200000, "a number of 100,000 digits": b'{"lst":' + b"9" * 100000 + b"}", "a lone surrogate": b'{"lst":"\\ud800"}',
                 "NUL in a key": b'{"lst\\u0000":[]}'}, lambda at, data: both(at, "x.json", data))
attacks("llama", {str(n): n for n in [(2**31 - 1,) * 3, (-1, -1, -1), (2, 1, 1), (3, 1, 1)]},
        lambda at, n: both(at, "x.bin", b"_logits_" + struct.pack("<iii", *n) + struct.pack("<ff", float("nan"), 1e38) + bytes(12)))


# ---- generate ----

@attack
def generate_from_a_million_token_ids(at):
    (at / "ids.txt").write_text("1," * 1000000)
    model(at, "y = Relu(x)")
    return ["generate", "m.onnxtxt", "--backend", "eager:fp64", "--prompt-ids", "ids.txt", "--steps", "1", "-o", "out"]


@attack
def generate_with_20000_states(at):
    n = 20000
    ins = ", ".join(f"float[2] past_{i}" for i in range(n))
    outs = ", ".join(f"float[2] present_{i}" for i in range(n))
    body = "\n".join(f"present_{i} = Relu(past_{i})" for i in range(n))
    (at / "m.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["": 17]>\ng ({ins}) => ({outs}) {{\n{body}\n}}\n')
    return ["generate", "m.onnxtxt", "--backend", "eager:fp64", "--explain-inputs", "--steps", "1", "-o", "out"]


@attack
def generate_shows_names_with_escapes(at):
    name = "x\\u001b[31m\\u0007"
    (at / "m.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["": 17]>\ng (float[2] "{name}") => (float[2] y) {{ y = Relu("{name}") }}\n')
    return ["generate", "m.onnxtxt", "--backend", "eager:fp64", "--explain-inputs", "--steps", "1", "-o", "out"]


# ---- models ----

INITS = """<int64[2] shp = {1000000, 1000000}, float[1] f = {1}, int64 n = {1000000000000}, int64 z = {0}, int64 one = {1}, int64[1] a = {0},
 float[2,1,1] k = {1,2}, float[1,2,1] k1 = {1,2}, float[1,2,2] k2 = {1,2,3,4}>"""


def model(at, body, command=("run", "m.onnxtxt", "--backend", "eager")):
    (at / "m.onnxtxt").write_text(f'<ir_version: 10, opset_import: ["": 21]>\ng (float[2,3] x) => (y) {INITS} {{\n{body}\n}}\n')
    return list(command)


int64 = lambda *x: f"Constant<value=int64[{len(x)}]{{{','.join(map(str, x))}}}>()"
LOW, HIGH = -2**63, 2**63 - 1
MODELS = {
    "Expand to 10^12": "s = Expand(f, shp)\ny = ReduceSum(s)", "Tile to 10^12": f"r = {int64(10**6, 10**6)}\ny = Tile(x, r)", "Range to 10^12": "y = Range(z, n, one)",
    "ConstantOfShape of 10^12": "y = ConstantOfShape(shp)", "RandomNormal of 10^12": "y = RandomNormal<shape=[1000000,1000000]>()",
    "Pad by 10^6": f"p = {int64(*[10**6] * 4)}\ny = Pad(x, p)", "HannWindow of 10^12": "y = HannWindow(n)",
    "Resize by 10^6": "s = Constant<value=float[2]{1000000,1000000}>()\ny = Resize(x, , s)",
    "Slice at the ends of int64": f"s = {int64(LOW)}\ne = {int64(HIGH)}\nst = {int64(LOW)}\ny = Slice(x, s, e, a, st)",
    "Gather at the end of int64": f"i = {int64(LOW)}\ny = Gather(x, i)", "TopK of 10^9": f"q = {int64(10**9)}\ny, i = TopK(x, q)",
    "the least integer divided by -1": f"l = {int64(LOW)}\nm = {int64(-1)}\ny = Div(l, m)", "modulo of the least integer": f"l = {int64(LOW)}\nm = {int64(-1)}\ny = Mod(l, m)",
    "division by 0": f"l = {int64(5)}\nm = {int64(0)}\ny = Div(l, m)", "modulo 0": f"l = {int64(5)}\nm = {int64(0)}\ny = Mod(l, m)",
    "Reshape to 2^63": f"s = {int64(-1, 0, HIGH)}\ny = Reshape(x, s)", "ConvTranspose with stride 10^9": "u = Unsqueeze(x, a)\ny = ConvTranspose<strides=[1000000000]>(u, k)",
    "Conv padded by 10^9": "u = Unsqueeze(x, a)\ny = Conv<pads=[1000000000,1000000000]>(u, k1)",
    "Conv dilated by 2^63": f"u = Unsqueeze(x, a)\ny = Conv<dilations=[{HIGH}]>(u, k2)",
    "MaxPool of 2^63": f"u = Unsqueeze(x, a)\ny = MaxPool<kernel_shape=[{HIGH}], pads=[{HIGH - 1},1]>(u)",
    "LSTM of 10^12": "u = Unsqueeze(x, a)\ny = LSTM<hidden_size=1000000000000>(u, u, u)", "Col2Im of 10^18": f"i = {int64(10**9, 10**9)}\nb = {int64(1, 1)}\nu = Unsqueeze(x, a)\ny = Col2Im(u, i, b)",
    "a backtracking pattern": 'w = Constant<value_strings=["' + "a" * 40 + '"]>()\ny = RegexFullMatch<pattern="(a*)*(a*)*b">(w)',
    "a repeated repetition": 'w = Constant<value_strings=["aaa"]>()\ny = RegexFullMatch<pattern="((a{1,1000}){1,1000}){1,1000}">(w)',
    "a pattern 50,000 deep": 'w = Constant<value_strings=["a"]>()\ny = RegexFullMatch<pattern="' + "(" * 50000 + "a" + ")" * 50000 + '">(w)',
    "a locale that is a path": 'w = Constant<value_strings=["aI"]>()\ny = StringNormalizer<case_change_action="LOWER", locale="../../../../tmp/evil">(w)',
    "an equation of 10,000 letters": 'y = Einsum<equation="ab->' + "a" * 10000 + '">(x)',
    "grams of 10^9": f"i = {int64(1, 2, 3)}\ny = TfIdfVectorizer<max_gram_length=1000000000, max_skip_count=1000000000, min_gram_length=1, mode=\"TF\", ngram_counts=[0], ngram_indexes=[0], pool_int64s=[1]>(i)",
}
attacks("model", MODELS, model)


@attack
def repro_that_starts_a_million_threads(at):
    model(at, "y = Relu(x)")
    subprocess.run([PLUMB, "convert", "m.onnxtxt", "model.onnx"], cwd=at, check=True, capture_output=True)
    (at / "repro.json").write_text(json.dumps({"version": 1, "backend": "eager", "command": "run", "signature": None, "context": {"seed": -1, "threads": 1000000}}))
    return ["minify", "--query", "."]


# ---- running ----

def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))


def size_of(at):
    return sum(p.stat().st_size for p in at.rglob("*") if p.is_file())


def judge(code, said, usage, before):
    if code < 0 or "Sanitizer" in said or "runtime error" in said:
        return f"died of signal {-code}: {said[-300:]}"
    if code > 4:
        return f"exit {code}"
    if code > 1 and not said.strip():
        return f"exit {code} without a message"
    if not SANITIZED and usage.ru_maxrss * 1024 > max(MEMORY, 64 * before):
        return f"took {usage.ru_maxrss // 1024} MB"
    if any(c in said for c in "\x1b\x07\r\x9b"):
        return "a control character was printed"
    return None


def run(job):
    name, make = job
    at = root / "".join(c if c.isalnum() else "_" for c in name)[:80]
    at.mkdir()
    args = make(at)
    made, before = {p.name for p in at.iterdir()}, size_of(at)
    with open(root / f"{at.name}.said", "w+b") as said:
        child = subprocess.Popen([PLUMB, *args], cwd=at, stdin=subprocess.DEVNULL, stdout=said, stderr=said, preexec_fn=limits,
                                 env={**os.environ, "PLUMB_REPRO_LEVEL": "0"})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        problem = judge(child.returncode, said.read().decode("utf-8", "replace"), usage, before)
    new = {p.name for p in at.iterdir()} - made - {"out", "page.html", "base.json", "plumb-out"}
    shutil.rmtree(at, ignore_errors=True)
    seconds = usage.ru_utime + usage.ru_stime
    return name, problem or (f"left {sorted(new)}" if new else None), f"exit {child.returncode}, {seconds:.2f} s, {usage.ru_maxrss // 1024} MB"


def main():
    jobs = [j for j in ATTACKS if PICK in j[0]]
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for i, (name, problem, figures) in enumerate(pool.map(run, jobs), 1):
            failed += problem is not None
            print(f"{'not ok' if problem else 'ok'} {i} - {name}" + (f" # {figures}" if "-v" in sys.argv else "") + (f"\n# {problem} ({figures})" if problem else ""), flush=True)
    print(f"1..{len(jobs)}")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
