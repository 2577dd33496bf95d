"""Nodes in network namespaces of their own, joined by a switch that delays and loses packets.

A node is a process in new network, UTS and mount namespaces, with one TAP device. The switch is a process that reads Ethernet frames of every device and writes them to the
others, later or never: by a seeded generator, because not every kernel has netem. Nothing leaves the machine. Needs root, or the right to make namespaces and to open
/dev/net/tun; `Nodes` raises Skip with the reason otherwise."""

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

from tap import Skip

DEVICE = "plumb0"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
FRAME_MAX = 65536


def open_tap(pid):
    """A TAP device in the network namespace of a process; the caller's own namespace becomes that one."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH14x", DEVICE.encode(), IFF_TAP | IFF_NO_PI))
    return device


def forward(devices, delay, jitter, loss, seed, counts):
    """Forwards frames for ever; `counts` is a file that gets "forwarded lost" at the end."""
    rng, waiting, seen = random.Random(seed), [], 0
    lost, over = 0, []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    poll = select.poll()
    for device in devices:
        poll.register(device, select.POLLIN)
    while not over:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
        for device, _ in poll.poll(wait * 1e3):
            frame = os.read(device, FRAME_MAX)
            for other in devices:
                if other == device:
                    continue
                seen += 1
                if rng.random() < loss:
                    lost += 1
                else:
                    heapq.heappush(waiting, (time.monotonic() + delay + rng.random() * jitter, seen, other, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, other, frame = heapq.heappop(waiting)
            try:
                os.write(other, frame)
            except OSError:
                pass  # not up yet, or its queue is full
    with open(counts, "w") as f:
        f.write(f"{seen - lost} {lost}\n")


class Nodes:
    """with Nodes(tmp, 3) as nodes: nodes.command(1, […]) runs there; addresses are nodes.address(i)."""

    def __init__(self, tmp, n, delay=0.005, jitter=0.005, loss=0.01, seed=1):
        self.tmp, self.n, self.switch, self.pids = tmp, n, None, []
        self.weather = (delay, jitter, loss, seed)

    def address(self, i):
        return f"10.77.0.{i + 1}"

    def command(self, i, argv):
        return ["nsenter", "-t", str(self.pids[i].pid), "-n", "-u", "-m", *map(str, argv)]

    def _node(self, i):
        setup = f"hostname plumb{i} && ip link set lo up && echo ready && exec sleep 100000"
        node = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-c", setup], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.pids.append(node)
        if node.stdout.readline() != "ready\n":
            raise Skip(f"cannot make namespaces: {node.stderr.read().strip() or 'unshare failed'}")

    def _switch(self):
        """A child that opens the devices, tells so, and forwards."""
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                devices = [open_tap(node.pid) for node in self.pids]
                os.write(tell, b"ready")
                forward(devices, *self.weather, self.tmp / "switch.txt")
            except OSError as e:
                os.write(tell, str(e).encode())
            finally:
                os._exit(0)
        os.close(tell)
        self.switch = pid
        said = os.read(told, 200).decode()
        os.close(told)
        if said != "ready":
            raise Skip(f"cannot open /dev/net/tun: {said}")

    def __enter__(self):
        try:
            for i in range(self.n):
                self._node(i)
            self._switch()
            for i in range(self.n):
                subprocess.run(self.command(i, ["ip", "address", "add", f"{self.address(i)}/24", "dev", DEVICE]), check=True)
                subprocess.run(self.command(i, ["ip", "link", "set", DEVICE, "up"]), check=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def counts(self):
        """Frames forwarded and lost; ends the switch."""
        os.kill(self.switch, signal.SIGTERM)
        os.waitpid(self.switch, 0)
        self.switch = None
        forwarded, lost = (self.tmp / "switch.txt").read_text().split()
        return int(forwarded), int(lost)

    def __exit__(self, *_):
        if self.switch is not None:
            self.counts()
        for node in self.pids:
            node.kill()
            node.wait()
            node.stdout.close()
            node.stderr.close()

    def agent(self):
        """A program that stands for ssh: AGENT ADDRESS COMMAND… runs the command on that node."""
        cases = "\n".join(f'{self.address(i)}) exec nsenter -t {node.pid} -n -u -m sh -c "$*" ;;' for i, node in enumerate(self.pids))
        path = self.tmp / "agent.sh"
        path.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\n' f'case $host in\n{cases}\n*) echo "no node $host" >&2; exit 1 ;;\nesac\n')
        path.chmod(0o755)
        return path


if __name__ == "__main__":
    sys.exit(__doc__)
