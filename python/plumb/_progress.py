"""Progress bars, and Ctrl-C: plumb checks ten times a second whether to continue."""
from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Callable, Optional, Type, Union

from . import _abi

ProgressLike = Union[None, bool, Callable[[str, int, int], Any]]


class Progress:
    """Around one call of the library: `with Progress(wish) as p: ... p.struct`.

    wish: None shows tqdm's bar on a terminal if tqdm is installed; False shows nothing; True always shows one; a function is
    called with (phase, done, total; 0 = not known) and cancels the call by returning True or raising.
    """

    def __init__(self, wish: ProgressLike = None) -> None:
        self.function = wish if callable(wish) else None
        self.bar_wanted = wish is True or wish is None and sys.stderr.isatty()
        self.bar: Any = None
        self.phase = ""
        self.interrupted = False
        self.error: Optional[BaseException] = None
        kind: Any = _abi.plumb_progress._fields_[0][1]
        self._callback = kind(self._update)
        self.struct = _abi.plumb_progress()
        self.struct.update = self._callback
        self._before: Any = None

    def _update(self, _ctx: Any, phase: Optional[bytes], done: int, total: int) -> int:
        try:
            text = (phase or b"").decode("utf-8", "replace")
            if self.function is not None and self.function(text, done, total):
                self.interrupted = True
            elif self.bar_wanted:
                self._draw(text, done, total)
        except BaseException as e:  # ctypes would print it and go on
            self.error = e
            self.interrupted = True
        return 1 if self.interrupted else 0

    def _draw(self, phase: str, done: int, total: int) -> None:
        tqdm = _tqdm()
        if tqdm is None:
            self.bar_wanted = False
            return
        if phase != self.phase or self.bar is None:
            self._close()
            self.phase, self.bar = phase, tqdm(total=total or None, desc=phase, leave=False, file=sys.stderr)
        self.bar.total = total or None
        self.bar.update(done - self.bar.n)

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _on_signal(self, _number: int, _frame: Optional[FrameType]) -> None:
        self.interrupted = True

    def __enter__(self) -> "Progress":
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 _trace: Optional[TracebackType]) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self._close()
        if self.error is not None:
            raise self.error
        if self.interrupted and kind is None:
            raise KeyboardInterrupt


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
