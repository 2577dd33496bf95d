"""Finds and loads libplumb.so, calls its functions, and turns failures into exceptions.

Search order: $PLUMB_LIBRARY, lib/ beside this file (a wheel), build/ of the source tree, the
loader's path. Loaded on the first call, so recording with torch works without it.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _abi
from ._errors import LibraryError, error_of
from ._version import VERSION

_lock = threading.Lock()
_loaded: List[ctypes.CDLL] = []
_handles: Dict[str, int] = {}
_SONAME = f"libplumb.so.{_abi.PLUMB_API_VERSION}"


def candidates() -> List[str]:
    """Paths and names to try, in order."""
    here = os.path.dirname(os.path.abspath(__file__))
    given = os.environ.get("PLUMB_LIBRARY")
    if given:
        return [given]
    tree = os.path.dirname(os.path.dirname(here))
    found = [os.path.join(here, "lib", "libplumb.so")]
    if os.path.exists(os.path.join(tree, "meson.build")):
        found.append(os.path.join(tree, "build", "libplumb.so"))
    return [p for p in found if os.path.exists(p)] + [_SONAME]


def _open() -> ctypes.CDLL:
    reasons = []
    for path in candidates():
        try:
            lib = ctypes.CDLL(path)
        except OSError as e:
            reasons.append(str(e))
            continue
        missing = [n for n in _abi.FUNCTIONS if not hasattr(lib, n)]
        if missing:
            reasons.append(f"{path}: incompatible version, it has no {missing[0]}")
            continue
        for name, (result, args) in _abi.FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, args
        found = (lib.plumb_version() or b"").decode()
        if found != VERSION:
            reasons.append(f"{path}: version {found}, this package is {VERSION}")
            continue
        return lib
    raise LibraryError("cannot load libplumb.so (set PLUMB_LIBRARY to its path): " + "; ".join(reasons))


def lib() -> ctypes.CDLL:
    """The library, loaded on first use."""
    if not _loaded:
        with _lock:
            if not _loaded:
                _loaded.append(_open())
    return _loaded[0]


def path() -> str:
    """The path of the loaded library."""
    return str(lib()._name)


# M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD: as the program sets them, and what glibc learns by itself in a process that has
# freed a block of 32 MB.
_KEEP = ((-3, 32 << 20), (-1, 128 << 20), (-2, 16 << 20))
_LEARNT = ((-3, 32 << 20), (-1, 64 << 20), (-2, 128 << 10))
_keeping = [0]


def _limits(limits: Tuple[Tuple[int, int], ...]) -> None:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for what, n in limits:
            libc.mallopt(what, n)


@contextlib.contextmanager
def memory_kept() -> Iterator[None]:
    """During an analysis glibc keeps what is freed, up to 128 MB: the same sizes are allocated over and over, and a third of the
    page faults (8 % of the CPU time on resnet50) is spared. Afterwards its limits are those that any process comes to that
    has freed an array of 32 MB."""
    with _lock:
        _keeping[0] += 1
        if _keeping[0] == 1:
            _limits(_KEEP)
    try:
        yield
    finally:
        with _lock:
            _keeping[0] -= 1
            if _keeping[0] == 0:
                _limits(_LEARNT)


def program() -> Optional[str]:
    """The program `plumb` that lies beside the library (wheel, build folder); None: the one in PATH."""
    beside = os.path.join(os.path.dirname(os.path.realpath(path())), "plumb")
    return beside if os.access(beside, os.X_OK) and not os.path.isdir(beside) else None


def call(name: str, *args: Any) -> None:
    """Calls a function whose last argument is the error, and raises on failure."""
    err = _abi.plumb_error()
    status = getattr(lib(), name)(*args, ctypes.byref(err))
    if status != _abi.PLUMB_OK:
        fail(status, err)


def fail(status: int, err: Any) -> None:
    """Raises the exception for a status; KeyboardInterrupt for a cancelled call."""
    if status == _abi.PLUMB_E_CANCELLED:
        raise KeyboardInterrupt
    raise error_of((lib().plumb_status_name(status) or b"").decode(), err.message.decode("utf-8", "replace"))


def text_of(value: Optional[bytes]) -> str:
    """A string that the library returned."""
    return "" if value is None else value.decode("utf-8", "replace")


def take_text(pointer: ctypes.c_void_p) -> str:
    """Copies and frees a text that the caller owns."""
    if not pointer:
        return ""
    try:
        return ctypes.string_at(pointer.value or 0).decode("utf-8", "replace")
    finally:
        lib().plumb_free(pointer)


class Handle:
    """An object of the library, freed when nothing refers to it any more."""

    def __init__(self, kind: str, pointer: ctypes.c_void_p, free: Union[str, Callable[[Any], Any]]) -> None:
        self.pointer = pointer
        self.kind = kind
        with _lock:
            _handles[kind] = _handles.get(kind, 0) + 1
        self.close: Callable[[], Any] = weakref.finalize(self, _release, kind,
                                                           getattr(lib(), free) if isinstance(free, str) else free, pointer.value)


def _release(kind: str, free: Any, pointer: Optional[int]) -> None:
    free(pointer)
    with _lock:
        _handles[kind] -= 1


def open_handles() -> Dict[str, int]:
    """Number of live handles by kind, for leak tests."""
    with _lock:
        return {k: n for k, n in _handles.items() if n}


def make(kind: str, function: str, free: str, *args: Any) -> Handle:
    """Calls a function that returns a handle through its last but one argument."""
    out = ctypes.c_void_p()
    call(function, *args, ctypes.byref(out))
    return Handle(kind, out, free)


def options(struct: str, kind: str, given: Dict[str, Any]) -> Any:
    """An options struct with the defaults of the command line and what was given. None keeps a default."""
    made = getattr(_abi, struct)()
    size = ctypes.sizeof(made)
    status = lib().plumb_options_init(getattr(_abi, kind), ctypes.byref(made), size)
    if status != _abi.PLUMB_OK:
        raise error_of(text_of(lib().plumb_status_name(status)), f"cannot initialise {struct}")
    known = dict(made._fields_)
    for name, value in given.items():
        if name not in known or name == "size":
            names = ", ".join(n for n in known if n != "size")
            raise TypeError(f"unknown option {name!r}; available: {names}")
        if value is not None:
            _set(made, name, known[name], value)
    return made


def _set(made: Any, name: str, kind: Any, value: Any) -> None:
    if kind is ctypes.c_char_p:
        setattr(made, name, os.fsencode(value))
    elif isinstance(value, (list, tuple)) and hasattr(made, "n_" + name):
        setattr(made, name, strings(value))
        setattr(made, "n_" + name, len(value))
    elif kind in (ctypes.c_int, ctypes.c_size_t, ctypes.c_int64, ctypes.c_uint64) and isinstance(value, (bool, int)):
        setattr(made, name, int(value))
    elif isinstance(value, ctypes.Structure):
        setattr(made, name, ctypes.pointer(value))
    else:
        setattr(made, name, value)


def strings(items: Sequence[Any]) -> Any:
    """An array of C strings."""
    return (ctypes.c_char_p * len(items))(*[os.fsencode(i) for i in items])


def nearest(word: str, names: Sequence[str]) -> str:
    """"did you mean": the name nearest to a word; "" when none is near."""
    return text_of(lib().plumb_nearest(word.encode(), strings(names), len(names)))


def fields(struct: str, function: str, *args: Any) -> Dict[str, Any]:
    """A result struct as a dict, strings decoded; empty when there is no such thing."""
    made = getattr(_abi, struct)()
    made.size = ctypes.sizeof(made)
    if not getattr(lib(), function)(*args, ctypes.byref(made)):
        return {}
    found: Dict[str, Any] = {}
    for name, _kind in made._fields_:
        value = getattr(made, name)
        found[name] = text_of(value) if _kind is ctypes.c_char_p else value
    del found["size"]
    return found


def array_of(pointer: Any, n: int) -> Tuple[int, ...]:
    """The first n integers behind a pointer."""
    return tuple(pointer[i] for i in range(n)) if pointer else ()
