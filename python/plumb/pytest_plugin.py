"""pytest: the fixture plumb_session, the marker plumb, and JUnit properties with the culprit.

    @pytest.mark.plumb(backends=["ort", "jit"], seeds=[0, 1])
    def test_net(plumb_session):
        plumb_session.assert_close("net.onnx")          # with each backend and seed

The sessions of a failing test stay in plumb-out/pytest/TEST; the failure shows the blame and the `plumb view` command.
"""
from __future__ import annotations

import os
import re
import shutil
from typing import Any, Dict, Iterator, List, Optional

import pytest

from ._analyze import analyze, assert_close, compare, explain
from ._session import Session

_FOLDER = os.path.join("plumb-out", "pytest")


class PlumbSession:
    """What a test works with: analyze, compare and assert_close of plumb, with the marker's backend and seed as defaults."""

    def __init__(self, backend: Optional[str] = None, seed: Optional[int] = None) -> None:
        self.backend, self.seed = backend, seed
        self.sessions: List[Session] = []

    def _defaults(self, options: Dict[str, Any]) -> Dict[str, Any]:
        if self.backend is not None:
            options.setdefault("backend", self.backend)
        if self.seed is not None:
            options.setdefault("seed", self.seed)
        return options

    def analyze(self, model: Any, inputs: Any = None, **options: Any) -> Session:
        """plumb.analyze; the session is kept when the test fails."""
        self.sessions.append(analyze(model, inputs, **self._defaults(options)))
        return self.sessions[-1]

    def compare(self, a: Any, b: Any, **options: Any) -> Session:
        """plumb.compare; the session is kept when the test fails."""
        self.sessions.append(compare(a, b, **options))
        return self.sessions[-1]

    def assert_close(self, model: Any, inputs: Any = None, **options: Any) -> Session:
        """plumb.analyze, and AssertionError unless it agrees."""
        session = self.analyze(model, inputs, **options)
        if not session.ok:
            raise AssertionError(explain(session).split("\nsession: ")[0])
        return session


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "plumb(backends=[…], seeds=[…]): run a test that takes plumb_session with each of them")


def pytest_generate_tests(metafunc: Any) -> None:
    marker = metafunc.definition.get_closest_marker("plumb")
    if marker is None:
        return
    unknown = set(marker.kwargs) - {"backends", "seeds"}
    if unknown or marker.args:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: the marker plumb takes backends=[…] and seeds=[…]")
    if "plumb_session" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: the marker plumb needs the fixture plumb_session")
    pairs = [(b, s) for b in marker.kwargs.get("backends", [None]) for s in marker.kwargs.get("seeds", [None])]
    ids = ["-".join(str(x) for x in p if x is not None) or "default" for p in pairs]
    metafunc.parametrize("plumb_session", pairs, ids=ids, indirect=True)


@pytest.fixture  # type: ignore[misc]
def plumb_session(request: Any) -> Iterator[PlumbSession]:
    """analyze, compare and assert_close; keeps the sessions of a failing test."""
    made = PlumbSession(*getattr(request, "param", (None, None)))
    request.node._plumb = made
    yield made


def _keep(node: Any, number: int, session: Session) -> str:
    """Copies a session so that it outlives the test."""
    base = os.path.join(_FOLDER, re.sub(r"[^\w.-]+", "_", node.nodeid).strip("_"))
    target, n = f"{base}-{number}" if number else base, 1
    while os.path.exists(target):
        target, n = f"{base}-{number}-{n}", n + 1
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copytree(session.folder, target)
    return os.path.abspath(target)


def _tell(item: Any, report: Any, session: Session, folder: str) -> None:
    session.summary["folder"] = folder
    report.sections.append(("plumb", explain(session)))
    properties = [("plumb.verdict", session.verdict), ("plumb.at_fault", session.at_fault), ("plumb.session", folder)]
    for b in session.blame[:1]:
        properties += [("plumb.culprit", f"{b.op} {b.value}"), ("plumb.kind", b.kind), ("plumb.source", b.source or b.module)]
    item.user_properties += [(k, v) for k, v in properties if v]  # JUnit takes them from the report of the teardown


@pytest.hookimpl(hookwrapper=True)  # type: ignore[misc]
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    made: Optional[PlumbSession] = getattr(item, "_plumb", None)
    if made is None or report.when != "call" or not report.failed:
        return
    bad = [s for s in made.sessions if not s.ok] or made.sessions
    for number, session in enumerate(bad):
        if session.folder and os.path.isdir(session.folder):
            _tell(item, report, session, _keep(item, number, session))


__all__ = ["PlumbSession", "assert_close", "plumb_session"]
