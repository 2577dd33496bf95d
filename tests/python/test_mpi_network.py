#!/usr/bin/python3
"""`plumb corpus` and `plumb compare` with every rank on a node of its own (network.py): packets are delayed, come in another order, and some are lost. The results have the bytes of
a run without MPI. TAP. --full: more nodes, 40 to 60 ms and 20 % of loss instead of 5 to 10 ms and 5 %."""

import subprocess
import sys
import time

from network import DEVICE, Nodes
from tap import main
from test_mpi import ENV, FULL, check_items, compare, corpus, files, make_models, make_pair, mpis, plain_corpus

WEATHER = {"delay": 0.04, "jitter": 0.02, "loss": 0.2} if FULL else {"delay": 0.005, "jitter": 0.005, "loss": 0.05}
N_NODES = 4 if FULL else 2
SUBNET = "10.77.0.0/24"


def launcher(mpi, nodes, per_node):
    """mpirun on node 0, which starts its helpers on the others through the agent."""
    agent, n = nodes.agent(), nodes.n
    if mpi == "openmpi":
        hosts = ",".join(f"{nodes.address(i)}:{per_node}" for i in range(n))
        # The same files on all nodes, but no memory in common: tcp only. A helper is told where rank 0 is by its address.
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--host", hosts, "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl",
                "tcp,self", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", SUBNET, "--mca", "oob_tcp_if_include", SUBNET, "-x", "PATH", "-n", n * per_node]
    hosts = ",".join(f"{nodes.address(i)}:{per_node}" for i in range(n))
    return ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", agent, "-hosts", hosts, "-localhost", nodes.address(0), "-iface", DEVICE, "-n", n * per_node]


def launch(mpi, nodes, args, tmp, exits, per_node=1):
    done = subprocess.run(nodes.command(0, ["env", "-C", tmp, *launcher(mpi, nodes, per_node), *args]), env=ENV, capture_output=True, text=True, timeout=300)
    if done.returncode not in exits:
        raise AssertionError(f"{mpi}: exit {done.returncode}, expected {exits}: {(done.stdout + done.stderr)[-1500:]}")
    return done


def told(mpi, seconds, counts):
    forwarded, lost = counts
    if lost == 0 or forwarded < 50:
        raise AssertionError(f"{mpi}: {forwarded} packets went over the network, {lost} were lost")
    return f"{mpi} {seconds:.1f} s, {forwarded} packets, {lost} lost"


def test_corpus_over_a_bad_network(tmp):
    make_models(tmp)
    expected, _ = plain_corpus(tmp)
    lines = []
    for mpi in mpis():
        with Nodes(tmp, N_NODES, **WEATHER) as nodes:
            begin = time.monotonic()
            launch(mpi, nodes, corpus(mpi), tmp, exits=(1,))
            lines.append(told(mpi, time.monotonic() - begin, nodes.counts()))
        check_items(tmp / mpi, expected)
        assert {p.name for p in (tmp / mpi / "parts").glob("*rank*")} == {f"1-of-1-rank{i}.jsonl" for i in range(1, N_NODES)}
    return "; ".join(lines)


def test_compare_over_a_bad_network(tmp):
    make_pair(tmp)
    done = subprocess.run(compare("plain"), cwd=tmp, env=ENV, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    expected, lines = files(tmp / "plain"), []
    for mpi in mpis():
        with Nodes(tmp, N_NODES, **WEATHER) as nodes:
            begin = time.monotonic()
            launch(mpi, nodes, compare(mpi), tmp, exits=(1,))
            lines.append(told(mpi, time.monotonic() - begin, nodes.counts()))
        got = files(tmp / mpi)
        assert got == expected, [k for k in got.keys() | expected.keys() if got.get(k) != expected.get(k)]
    return "; ".join(lines)


if __name__ == "__main__":
    sys.exit(main(globals()))
