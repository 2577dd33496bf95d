#!/usr/bin/python3
"""The scripts of examples/corpus give the bytes of one run: GNU parallel for real, Kubernetes, GitHub Actions and Bazel with the variables that
their schedulers set; with --full a Slurm of three nodes on this machine (slurmctld, slurmd, munged), where a task is requeued in the middle, and where srun starts ranks of MPICH. TAP."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tap import Skip, main

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/corpus"
BUILD = str(Path(os.environ.get("PLUMB", str(ROOT / "build/plumb"))).resolve().parent)
FULL = "--full" in sys.argv
SETS = ("SLURM_", "CI_NODE", "TEST_SHARD", "TEST_TOTAL", "JOB_COMPLETION")
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith(SETS)}, "PATH": BUILD + ":" + os.environ["PATH"]}
BACKENDS = "--backend jit --backend jit:inject=accuracy@Relu"
BODIES = ("t = Relu(x) y = Add(t, t)", "t = Sigmoid(x) u = Relu(t) y = Mul(u, t)", "t = Sigmoid(x) y = Mul(t, t)", "y = Tanh(x)", "t = Neg(x) y = Abs(t)")


def sh(command, cwd, exits=(0,), **more):
    done = subprocess.run(command, cwd=cwd, env={**ENV, **more}, shell=isinstance(command, str), capture_output=True, text=True, timeout=600)
    assert done.returncode in exits, f"{command}: exit {done.returncode}: {done.stdout[-500:]}{done.stderr[-1000:]}"
    return done.stdout


def prepare(folder):
    """Models, their list, and the result of one run, to which all others must be equal."""
    for i, body in enumerate(BODIES):
        (folder / f"m{i}.onnxtxt").write_text(f'<ir_version: 8, opset_import: ["" : 17]>\ng (float[2,3] x) => (float[2,3] y) {{ {body} }}\n')
    (folder / "models.txt").write_text("".join(f"m{i}.onnxtxt\n" for i in range(len(BODIES))))
    sh(f"plumb corpus models.txt {BACKENDS} -o whole -q", folder, exits=(1,))
    return (folder / "whole/corpus.json").read_bytes()


def same(folder, out, whole):
    assert (folder / out / "corpus.json").read_bytes() == whole, f"{out} is not as one run"


def test_gnu_parallel(folder):
    if not shutil.which("parallel"):
        raise Skip("GNU parallel is not installed (tools/setup test)")
    whole = prepare(folder)
    sh([str(EXAMPLES / "parallel.sh")], folder, exits=(1,), N="3", BACKENDS=BACKENDS, HOME=str(folder))
    assert len(list(folder.glob("corpus-shard-*"))) == 3
    same(folder, "corpus", whole)


def test_kubernetes(folder):
    """The command of the pod once for each index, then the merge that its comment tells."""
    whole = prepare(folder)
    text = (EXAMPLES / "kubernetes.yaml").read_text().replace("/corpus/", f"{folder}/").replace("--backend ort", BACKENDS)
    job = yaml.safe_load(text)["spec"]
    container = job["template"]["spec"]["containers"][0]
    n = job["completions"]
    assert job["completionMode"] == "Indexed" and f"--shard /{n}" in container["args"][0]
    text, container["args"][0] = text.replace(f"/{n} ", "/4 "), container["args"][0].replace(f"--shard /{n}", "--shard /4")
    for index in range(4):  # from 0
        sh([*container["command"], *container["args"]], folder, JOB_COMPLETION_INDEX=str(index))
    merge = re.search(r"plumb corpus --merge .*", text)[0]
    sh(merge, folder, exits=(1,))
    same(folder, "out", whole)
    said = subprocess.run(["plumb", "corpus", "models.txt", "--backend", "jit", "-o", "none"], cwd=folder, env={**ENV, "JOB_COMPLETION_INDEX": "0"}, text=True, capture_output=True)
    assert said.returncode == 2 and "--shard /N" in said.stderr, said


def test_github_matrix(folder):
    whole = prepare(folder)
    jobs = yaml.safe_load((EXAMPLES / "github.yml").read_text())["jobs"]
    shards = jobs["shard"]["strategy"]["matrix"]["shard"]
    (folder / "shards").mkdir()
    for i in shards:
        for step in (s["run"] for s in jobs["shard"]["steps"] if "run" in s):
            sh(step.replace("${{ matrix.shard }}", str(i)).replace("--backend ort", BACKENDS).replace("corpus models ", "corpus models.txt "), folder)
        (folder / f"shard-{i}").rename(folder / f"shards/shard-{i}")  # upload, download
    (folder / "known.json").write_text('{"groups": []}')
    merge, report = (s["run"] for s in jobs["merge"]["steps"] if "run" in s)
    sh(merge, folder, exits=(1,))
    sh(report, folder)
    assert '"ruleId"' in (folder / "plumb.sarif").read_text() and "<!doctype html>" in (folder / "corpus.html").read_text()
    sh("plumb corpus --merge shards/shard-* -o plain", folder, exits=(1,))
    same(folder, "plain", whole)


def test_bazel(folder):
    whole = prepare(folder)
    for index in range(3):  # from 0
        out = folder / f"shard_{index + 1}_of_3"
        out.mkdir()
        sh([str(EXAMPLES / "bazel.sh")], folder, TEST_SHARD_INDEX=str(index), TEST_TOTAL_SHARDS="3", TEST_SHARD_STATUS_FILE=str(out / "status"),
           TEST_UNDECLARED_OUTPUTS_DIR=str(out), BACKENDS=BACKENDS)
        assert (out / "status").exists()
    sh("plumb corpus --merge shard_*/corpus -o out", folder, exits=(1,))
    same(folder, "out", whole)


def test_index_and_total_of_each_scheduler(folder):
    """Which shard is taken from which variables: Slurm from its own first, GitLab from 1, the others from 0."""
    prepare(folder)
    cases = (({"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "4"}, "3/4"),
             ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_COUNT": "4"}, "1/4"),
             ({"SLURM_ARRAY_TASK_ID": "20", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_STEP": "10"}, "2/3"),
             ({"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2"}, "1/2"), ({"TEST_SHARD_INDEX": "0", "TEST_TOTAL_SHARDS": "2"}, "1/2"),
             ({"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "2"}, None), ({"TEST_SHARD_INDEX": "2", "TEST_TOTAL_SHARDS": "2"}, None),
             ({"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "3"}, None))  # --array=1,5,7
    for variables, expected in cases:
        done = subprocess.run(["plumb", "corpus", "models.txt", "--backend", "jit", "--dry-run"], cwd=folder, env={**ENV, **variables}, text=True, capture_output=True)
        if expected:
            assert done.returncode == 0 and f"shard {expected}, from {next(iter(variables))}" in done.stderr, (variables, done.stderr)
        else:
            assert done.returncode == 2 and next(iter(variables)) in done.stderr and "--shard I/N" in done.stderr, (variables, done.stderr)


# ---- Slurm ----

SLURM = """ClusterName=plumb
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={d}/munge.sock
SlurmctldPort={port}
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool-%n
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile={d}/slurmd-%n.pid
SlurmctldLogFile={d}/slurmctld.log
SlurmdLogFile={d}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=2,batch_sched_delay=0,requeue_delay=0
JobRequeue=1
{nodes}
PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """slurmctld, three slurmd and munged, all in one folder."""

    def __init__(self, folder):
        self.d = folder
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self):
        d, host = self.d, socket.gethostname()
        ports = [self.free_port() for _ in range(4)]
        (d / "munge.key").write_bytes(os.urandom(1024))
        (d / "munge.key").chmod(0o400)
        nodes = "\n".join(f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[i]} CPUs=2 RealMemory=500" for i in (1, 2, 3))
        (d / "slurm.conf").write_text(SLURM.format(host=host, d=d, port=ports[0], nodes=nodes))
        for name in ("state", "spool-n1", "spool-n2", "spool-n3"):
            (d / name).mkdir()
        try:
            sh(["munged", "--force", *(f"--{k}-file={d}/munge.{k}" for k in ("key", "pid", "log", "seed")), f"--socket={d}/munge.sock"], d)
            sh(["slurmctld", "-f", str(d / "slurm.conf")], d)
            for i in (1, 2, 3):
                sh(["slurmd", "-N", f"n{i}", "-f", str(d / "slurm.conf")], d)
            self.wait(lambda: sh(["sinfo", "-h", "-o", "%T %D"], d, **self.env).strip() == "idle 3", "three idle nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def free_port():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    @staticmethod
    def wait(condition, what, seconds=240):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"no {what} after {seconds} s"
            time.sleep(0.3)

    def __exit__(self, *_):
        for pid in [*self.d.glob("slurmd-n*.pid"), self.d / "slurmctld.pid", self.d / "munge.pid"]:
            try:
                os.kill(int(pid.read_text()), 15)
            except (OSError, ValueError):
                pass
        time.sleep(1)


def test_slurm(folder):
    if not FULL:
        raise Skip("only with --full")
    missing = [p for p in ("slurmctld", "slurmd", "munged", "sbatch") if not shutil.which(p)]
    if missing or os.geteuid() != 0:
        raise Skip(f"requires root and {', '.join(missing) or 'slurm-wlm'} (apt-get install slurm-wlm munge)")
    whole = prepare(folder)
    (folder / "slurm").mkdir()
    script = str(EXAMPLES / "slurm.sh")
    with Cluster(folder / "slurm") as cluster:
        def submit(*args, **more):
            return sh(["sbatch", "--parsable", "--cpus-per-task=2", *args], folder, BACKENDS=BACKENDS, **cluster.env, **more).strip()

        def over():
            return not sh(["squeue", "-h"], folder, **cluster.env).strip()

        jid = submit("--array=1-4", script)
        begun = folder / "corpus-shard-2/parts/2-of-4.jsonl"
        cluster.wait(begun.exists, "second task")
        sh(["scontrol", "requeue", f"{jid}_2"], folder, exits=(0, 1), **cluster.env)  # 1: it was done already
        submit(f"--dependency=afterany:{jid}", script, "merge")
        cluster.wait(over, "end of the jobs")
        same(folder, "corpus", whole)
        nodes = set(re.findall(r"sched: .*Allocate .*NodeList=(n\d)", (folder / "slurm/slurmctld.log").read_text()))
        # one task again, when its output is lost
        shutil.rmtree(folder / "corpus-shard-3")
        shutil.rmtree(folder / "corpus")
        submit("--array=3", script, N="4")
        cluster.wait(over, "end of the third task")
        assert (folder / "corpus-shard-3/parts/3-of-4.jsonl").exists()
        submit(script, "merge")
        cluster.wait(over, "end of the merge")
        same(folder, "corpus", whole)
        n_opens = begun.read_text().count('"open"')
    return f"jobs on {len(nodes)} nodes; the requeued task began {n_opens} time{'s' if n_opens > 1 else ''}"


def test_srun_with_mpi(folder):
    """Ranks of MPICH that srun starts, two on each node: the bytes of a run without MPI; and one that is killed, whose parent names its item."""
    if not FULL:
        raise Skip("only with --full")
    missing = [p for p in ("slurmctld", "slurmd", "munged", "srun") if not shutil.which(p)]
    if missing or os.geteuid() != 0:
        raise Skip(f"requires root and {', '.join(missing) or 'slurm-wlm'} (apt-get install slurm-wlm munge)")
    if not (Path(BUILD) / "plumb-mpich.so").exists():
        raise Skip("plumb-mpich.so was not built")
    whole = prepare(folder)
    (folder / "slurm").mkdir()
    corpus = [f"{BUILD}/plumb", "corpus", "models.txt", *BACKENDS.split(), "--deaths", "0", "-q", "-o"]
    with Cluster(folder / "slurm") as cluster:
        env = {**ENV, **cluster.env}
        srun = ["srun", "--mpi=pmi2", "--overcommit", "-N", "3", "-n", "6", *corpus]
        done = subprocess.run([*srun, "ranks"], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 1, f"exit {done.returncode}: {done.stdout}{done.stderr}"
        parts = {p.name for p in (folder / "ranks/parts").iterdir()}
        assert {f"1-of-1-rank{i}.jsonl" for i in range(1, 6)} <= parts, parts
        same(folder, "ranks", whole)
        for attempt in range(6):
            out = folder / f"killed{attempt}"
            run = subprocess.Popen([*srun, out.name], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            part, pid = out / "parts/1-of-1-rank1.jsonl", None
            while run.poll() is None and pid is None:
                rows = [json.loads(line) for line in part.read_text().splitlines()] if part.exists() else []
                if rows and rows[-1]["t"] == "start":
                    pid = rows[0]["pid"]
                    os.kill(pid, 9)
                time.sleep(0.002)
            said, _ = run.communicate(timeout=300)
            last = {r["key"]: r["t"] for r in map(json.loads, part.read_text().splitlines()) if "key" in r}
            lost = [key for key, what in last.items() if what == "start"]
            if pid is not None and lost:
                break
        else:
            raise AssertionError("the kill never hit an item in flight")
        assert run.returncode != 0 and f"plumb corpus: rank 1 died by signal 9 while it worked on '{lost[0]}'" in said, f"exit {run.returncode}: {said}"
        sh([*corpus, out.name, "--resume", "--jobs", "2"], folder, exits=(1,))
        same(folder, out.name, whole)
    return f"exit {run.returncode} of srun after the kill"


if __name__ == "__main__":
    sys.exit(main(globals()))
