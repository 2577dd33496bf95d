"""The program `plumb` of a wheel: runs the binary in the package."""
from __future__ import annotations

import os
import sys


def main() -> None:
    """Replaces this process with plumb/lib/plumb."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "plumb")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"plumb: cannot run {program}: {e.strerror}")


if __name__ == "__main__":
    main()
