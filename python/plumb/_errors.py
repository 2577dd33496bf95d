"""Exceptions: one class for each kind of failure, all of them PlumbError."""
from __future__ import annotations

import re
from typing import Dict, Type


class PlumbError(Exception):
    """A call of plumb failed.

    status   the status of the C API: "E_USAGE", "E_FORMAT", "E_BACKEND", ...
    message  one line that names the file, node or value, what was found and what was expected
    value    the first name in quotes in the message: a value, file or option; "" when there is none
    exit_code  of the program for this error
    """

    exit_code = 2

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        found = re.search(r"'([^']+)'", message)
        self.value = found.group(1) if found else ""

    def __reduce__(self) -> "tuple[type, tuple[str, str]]":
        return type(self), (self.status, self.message)


class InputError(PlumbError, ValueError):
    """Bad usage or a bad file: exit code 2 of the program."""


class NotFoundError(InputError, FileNotFoundError):
    """A file, value or option was not found."""

    def __str__(self) -> str:
        return self.message


class ExistsError(InputError, FileExistsError):
    """A file or folder already exists."""

    def __str__(self) -> str:
        return self.message


class BackendError(PlumbError, RuntimeError):
    """A or B failed: exit code 3 of the program."""

    exit_code = 3


class TroubleError(PlumbError, OSError):
    """Disk or memory error, or a bug in plumb: exit code 4 of the program."""

    exit_code = 4

    def __str__(self) -> str:
        return self.message


class LibraryError(PlumbError, ImportError):
    """libplumb.so was not found, or its version differs from this package's."""

    def __init__(self, message: str) -> None:
        super().__init__("E_NOT_FOUND", message)

    def __reduce__(self) -> "tuple[type, tuple[str]]":  # type: ignore[override]
        return type(self), (self.message,)


_KINDS: Dict[str, Type[PlumbError]] = {
    "E_NOT_FOUND": NotFoundError, "E_EXISTS": ExistsError, "E_BACKEND": BackendError, "E_TIMEOUT": BackendError,
    "E_IO": TroubleError, "E_MEMORY": TroubleError, "E_INTERNAL": TroubleError,
}


def error_of(status: str, message: str) -> PlumbError:
    """The exception for a status of the C API."""
    return _KINDS.get(status, InputError)(status, message)
