"""Writes a model of made_models.py:  make.py KIND OUT
What one case had made, the next one finds in the cache of the run: to import onnx costs more than most cases."""

import os
import sys


def cached(kind):
    """Where the cache of the run has it, or None without one."""
    root = os.environ.get("XDG_CACHE_HOME")
    if not root:
        return None
    source = os.stat(os.path.join(os.path.dirname(__file__), "made_models.py"))
    folder = os.path.join(root, "made-models")
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f"{kind.replace('/', '%')}-{source.st_mtime_ns}")


def write(path, data):
    part = f"{path}.{os.getpid()}"
    with open(part, "wb") as f:
        f.write(data)
    os.replace(part, path)


def made(kind):
    path = cached(kind)
    if path and os.path.exists(path):
        with open(path, "rb") as f:
            return f.read()
    import made_models
    data = made_models.made(kind)
    if path:
        write(path, data)
    return data


write(sys.argv[2], made(sys.argv[1]))
