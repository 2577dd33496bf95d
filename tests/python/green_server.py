"""The page's Compare, through the API of `plumb view`: what a session that it started says is the session's, never green over red."""

import json
import os
import re
import subprocess
import time
import urllib.request

import numpy as np

from green_models import MODELS, write_npz


def ask(link, path, body=None):
    base, token = re.match(r"(http://[^/]+)/.*token=([0-9a-zA-Z_-]+)", link).groups()
    request = urllib.request.Request(base + path, None if body is None else json.dumps(body).encode(),
                                     {"X-Plumb-Token": token, **({"Content-Type": "application/json"} if body is not None else {})})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.loads(answer.read() or b"null")


def check(plumb, root, full):
    """[(situation, what is wrong)…], how many"""
    folder = root / "page"
    folder.mkdir()
    right = MODELS["mlp"].values()
    write_npz(folder / "right.npz", right)
    write_npz(folder / "same.npz", {k: v.copy() for k, v in right.items()})
    write_npz(folder / "wrong.npz", {**right, "y": right["y"] * np.float32(1.3)})
    write_npz(folder / "input.npz", {"x": right["x"]})
    write_npz(folder / "order.npz", dict(reversed(list(right.items()))))
    write_npz(folder / "nan.npz", {**right, "y": np.where(np.arange(right["y"].size).reshape(right["y"].shape) == 1, np.float32(np.nan), right["y"])})
    write_npz(folder / "rows.npz", {**right, "y": right["y"][:-1]})
    write_npz(folder / "inside.npz", {**right, "r": right["r"] + np.float32(1)})
    write_npz(folder / "other.npz", {k: v for k, v in MODELS["mlp"].values(1).items()})
    (folder / "folder").mkdir()
    np.save(folder / "folder/x.npy", right["x"])
    np.save(folder / "folder/y.npy", -right["y"])
    cases = [("same.npz", "agree"), ("wrong.npz", "diverged"), ("input.npz", "inconclusive"), ("order.npz", "agree"), ("nan.npz", "diverged"), ("rows.npz", "diverged"),
             ("inside.npz", "diverged"), ("folder", "diverged"), ("right.npz", None), ("other.npz", "diverged"), ("all-nan.npz", "inconclusive", "all-nan-b.npz"),
             ("nothing.npz", "inconclusive", "nothing-b.npz"), ("right.npz", "diverged", "wrong.npz"), ("case.npz", "diverged", "case-b.npz")]
    for b in ("", "-b"):
        write_npz(folder / f"all-nan{b}.npz", {"y": right["y"] * np.float32(np.nan)})
        write_npz(folder / f"nothing{b}.npz", {"y": right["y"][:0]})
        write_npz(folder / f"case{b}.npz", dict(zip(("y", "Y") if b else ("Y", "y"), (right["y"], -right["y"]))))
    server = subprocess.Popen([plumb, "view", "--no-open", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"})
    bad = []
    try:
        link = next(m.group(0) for m in (re.search(r"http://\S+", line) for line in server.stdout) if m)
        for name, verdict, *reference in cases:
            before = ask(link, "/api/session")
            ask(link, "/api/compare", {"model": name, "reference": reference[0] if reference else "right.npz"})
            end = time.time() + 300
            while ask(link, "/api/setup")["running"] and time.time() < end:
                time.sleep(0.05)
            session = ask(link, "/api/session")
            if verdict is None:
                if session != before:
                    bad.append((f"page/{name}", f"a file was compared with itself: {session['verdict']}"))
            elif session is None or session["verdict"] != verdict or not session["reason"]:
                bad.append((f"page/{name}", f"expected {verdict}, the page has {session and session['verdict']}"))
    finally:
        server.terminate()
        server.wait(60)
    return bad, len(cases)
