"""What an analysis or a comparison found: verdict, blame, sync points, tensors."""
from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence

from . import _html, _lib, _minify, _tensor
from ._errors import InputError
from ._model import Model, PathLike
from ._run import write_text
from ._tensor import Array


class Row:
    """A row of a result: its fields are attributes, and `fields` has them as a dict."""

    def __init__(self, fields: Dict[str, Any]) -> None:
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["fields"][name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}; available: "
                                 f"{', '.join(self.__dict__.get('fields', {}))}") from None

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self.fields})


class Blame(Row):
    """A culprit: node, op, value, module, source ("file:line"), kind, where, q, effect, score, reason, members, samples."""

    def __repr__(self) -> str:
        place = f" at {self.source}" if self.source else f" in {self.module}" if self.module else ""
        return f"<plumb.Blame {self.op} -> {self.value!r}{place}: {self.kind or 'wrong'}>"


class SyncPoint(Row):
    """A value of the model and its counterpart: value, node, op, module, source, counterpart, paired_by, confidence, verdict,
    similarity, propagated, local, amplified, q, reason, ...; `metrics` by name; `a`, `b` and `gold` are arrays, loaded
    on first access."""

    def __init__(self, session: "Session", index: int, fields: Dict[str, Any]) -> None:
        super().__init__(fields)
        self._session, self._index = session, index

    @property
    def a(self) -> Array:
        """The tensor of the run under test."""
        return self._session.tensor(self.fields["value"], "a")

    @property
    def b(self) -> Array:
        """The tensor of the reference."""
        return self._session.tensor(self.fields["value"], "b")

    @property
    def gold(self) -> Array:
        """The tensor of the fp64 run; kept for culprits."""
        return self._session.tensor(self.fields["value"], "gold")

    @property
    def metrics(self) -> Dict[str, float]:
        """psnr, max_abs, ... of a against b."""
        lib = _lib.lib()
        names = [_lib.text_of(lib.plumb_metric_name(i)) for i in range(lib.plumb_metric_count())]
        return {n: self._session.metric(self._index, n) for n in names}

    def __repr__(self) -> str:
        return f"<plumb.SyncPoint {self.value!r} ({self.op}): {self.verdict or self.similarity}>"


class SyncPoints(Sequence[SyncPoint]):
    """The sync points in the order of the model."""

    def __init__(self, rows: List[SyncPoint]) -> None:
        self._rows = rows

    def __getitem__(self, i: Any) -> Any:
        return self._rows[i]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[SyncPoint]:
        return iter(self._rows)

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each, metrics included; needs pandas."""
        import pandas
        return pandas.DataFrame([{**r.fields, **r.metrics} for r in self._rows])

    def __repr__(self) -> str:
        return f"<plumb.SyncPoints: {len(self)}>"


class Session:
    """What was found. `ok` is true only when the verdict is "agree".

    session["value"] is the SyncPoint of a value; print(session) prints the table; a notebook draws it.
    summary     all fields of plumb_session_summary (plumb.h) as a dict
    lost_calls  of a torch module: calls that the exporter dropped, froze or changed, with their lines
    samples     of several input sets of a torch module: a Session for each; this one is the worst
    """

    def __init__(self, handle: _lib.Handle, model: Optional[Model] = None, setup: Optional[Dict[str, Any]] = None,
                 temporary: Optional[str] = None) -> None:
        self._handle, self._model, self._setup = handle, model, setup or {}
        self.summary = _lib.fields("plumb_session_summary", "plumb_session_get", handle.pointer)
        self.lost_calls: List[Dict[str, Any]] = []
        self.samples: List["Session"] = []
        self._kept: Any = None  # a folder that lives as long as this
        self._viewer: Optional[_lib.Handle] = None
        self._points: Optional[SyncPoints] = None
        self._data: Optional[Dict[str, Any]] = None
        if temporary is not None:
            weakref.finalize(handle, shutil.rmtree, temporary, True)

    # ---- the verdict -------------------------------------------------------------------------------

    @property
    def ok(self) -> bool:
        """True only when the verdict is "agree"."""
        return bool(self.summary["verdict"] == "agree")

    @property
    def verdict(self) -> str:
        """"agree", "diverged", "nondeterministic", "failed" or "inconclusive"."""
        return str(self.summary["verdict"])

    @property
    def reason(self) -> str:
        """The verdict in one line."""
        return str(self.summary["reason"])

    @property
    def at_fault(self) -> str:
        """Who is wrong: "runtime", "model" (the exported model does not compute what the module does), "both" or "none"."""
        return str(self.summary["at_fault"])

    @property
    def exit_code(self) -> int:
        """Exit code of the program for this result: 0 agrees, 1 diverged, 2 inconclusive, 3 a side failed."""
        return int(self.summary["exit_code"])

    @property
    def folder(self) -> str:
        """The folder of the session."""
        return str(self.summary["folder"])

    @property
    def first_divergence(self) -> str:
        """The first value that diverges; "" when none does."""
        return str(self.summary["first_divergence"])

    @property
    def notes(self) -> List[str]:
        """Remarks of the analysis."""
        n = self.summary["n_notes"]
        return [_lib.text_of(_lib.lib().plumb_session_note(self._handle.pointer, i)) for i in range(n)]

    @property
    def timing(self) -> Dict[str, float]:
        """Seconds of each phase."""
        found, seconds = {}, ctypes.c_double()
        for i in range(self.summary["n_timing"]):
            name = _lib.lib().plumb_session_timing(self._handle.pointer, i, ctypes.byref(seconds))
            found[_lib.text_of(name)] = seconds.value
        return found

    @property
    def failing_samples(self) -> List[int]:
        """Samples that did not agree; see `smallest_samples` for the fewest that show every culprit."""
        return [int(_lib.lib().plumb_session_failing(self._handle.pointer, i)) for i in range(self.summary["n_failing"])]

    @property
    def smallest_samples(self) -> List[int]:
        """The fewest samples that show every culprit."""
        return [int(_lib.lib().plumb_session_smallest(self._handle.pointer, i)) for i in range(self.summary["n_smallest"])]

    def side(self, which: str) -> Row:
        """"a" or "b": backend, spec, version, path, hash, failure, signal."""
        return Row(_lib.fields("plumb_side_info", "plumb_session_side", self._handle.pointer, which.encode()))

    def count(self, verdict: str) -> int:
        """How many sync points have a verdict: "culprit", "inherited", "within", ..."""
        return int(_lib.lib().plumb_session_count(self._handle.pointer, verdict.encode()))

    # ---- rows --------------------------------------------------------------------------------------

    @property
    def blame(self) -> List[Blame]:
        """The culprits, the largest effect on the outputs first."""
        lib, p = _lib.lib(), self._handle.pointer
        rows = []
        for i in range(lib.plumb_session_blames(p)):
            row = _lib.fields("plumb_blame", "plumb_session_blame", p, i)
            row["members"] = [_lib.text_of(row["members"][k]) for k in range(row.pop("n_members"))]
            row["samples"] = list(_lib.array_of(row["samples"], row.pop("n_samples")))
            rows.append(Blame(row))
        return rows

    @property
    def sync_points(self) -> SyncPoints:
        """Every compared value, in the order of the model."""
        if self._points is None:
            n = _lib.lib().plumb_session_points(self._handle.pointer)
            self._points = SyncPoints([self._point(i) for i in range(n)])
        return self._points

    def _point(self, i: int) -> SyncPoint:
        row = _lib.fields("plumb_sync_point", "plumb_session_point", self._handle.pointer, i)
        for side in "ab":
            row["shape_" + side] = _lib.array_of(row.pop("dims_" + side), row.pop("rank_" + side))
            row["dtype_" + side] = _tensor.dtype_name(row["dtype_" + side])
        for name in ("is_input", "is_output", "metadata_match", "accepted", "has_a", "has_b"):
            row[name] = bool(row[name])
        return SyncPoint(self, i, row)

    @property
    def outputs(self) -> List[SyncPoint]:
        """The sync points of the model's outputs."""
        lib, n = _lib.lib(), self.summary["n_outputs"]
        found = [lib.plumb_session_output(self._handle.pointer, k) for k in range(n)]
        return [self.sync_points[i] for i in found if i < len(self.sync_points)]

    def __getitem__(self, value: str) -> SyncPoint:
        i = _lib.lib().plumb_session_find(self._handle.pointer, value.encode())
        if i >= len(self.sync_points):
            near = _lib.nearest(value, [p.value for p in self.sync_points])
            raise KeyError(f"no value {value!r}" + (f"; did you mean {near!r}?" if near else ""))
        found: SyncPoint = self.sync_points[i]
        return found

    def tensor(self, value: str, side: str) -> Array:
        """The array of a value on a side: "a", "b" or "gold"."""
        return _tensor.to_array(_lib.make("tensor", "plumb_session_tensor", "plumb_tensor_free", self._handle.pointer,
                                          value.encode(), side.encode()))

    def metric(self, index: int, name: str) -> float:
        """A metric of a sync point by number and name ("psnr"); NaN when it has none."""
        return float(_lib.lib().plumb_session_metric(self._handle.pointer, index, name.encode()))

    # ---- texts and files ---------------------------------------------------------------------------

    def text(self, format: str = "text", **options: Any) -> str:
        """The session as `plumb report` prints it: "text", "json", "csv", "md", "junit", "github", "sarif",
        "model-explorer". Options: metric, sort, limit, rollup, style (a dict of
        marks: agree, diverged, green, yellow, red, reset)."""
        return write_text("plumb_session_write", self._handle, dict(options, format=format))

    def to_dict(self) -> Dict[str, Any]:
        """The JSON of the program, parsed."""
        if self._data is None:
            self._data = json.loads(self.text("json"))
        return self._data

    def save(self, folder: PathLike) -> str:
        """Copies the session folder."""
        if not self.folder:
            raise ValueError("the session has no folder: pass output= to analyze or compare")
        shutil.copytree(self.folder, folder)
        return os.fspath(folder)

    def report(self, path: PathLike, **options: Any) -> str:
        """Writes one offline HTML file (or another format=); options: metric, limit, max_size. Returns the path."""
        made = _lib.options("plumb_report_options", "PLUMB_OPTIONS_REPORT", options)
        text = ctypes.c_void_p()
        _lib.call("plumb_report", os.fsencode(self.folder), os.fsencode(path), ctypes.byref(made), ctypes.byref(text))
        _lib.take_text(text)
        return os.fspath(path)

    def show(self, browser: bool = True, **options: Any) -> str:
        """Serves the session on this machine and opens the debugger; returns the link. The server stops when this
        object is freed. Without libmicrohttpd, which the server needs, it is the offline page instead. Options: port,
        source, host."""
        try:
            self._viewer = view(self.folder, **options)
            link = _lib.text_of(_lib.lib().plumb_viewer_link(self._viewer.pointer))
        except InputError as e:
            if "libmicrohttpd not found" not in e.message:
                raise
            link = self._offline_page()
        if browser:
            import webbrowser
            webbrowser.open(link)
        return link

    def _offline_page(self) -> str:
        """A link to the report as a file, which goes with this object."""
        folder = tempfile.mkdtemp(prefix="plumb-")
        weakref.finalize(self, shutil.rmtree, folder, True)
        return "file://" + self.report(os.path.join(folder, "session.html"))

    def minify(self, folder: Optional[PathLike] = None, **options: Any) -> "_minify.Repro":
        """The smallest model that fails in the same way, written to a new folder as a repro. Of a session that was opened from
        disk pass inputs=, else they are generated."""
        model = self._model or Model(os.path.join(self.folder, "model.onnx"))
        setup = {"backend": self.side("a").spec}
        setup.update((k, v) for k, v in self._setup.items() if k in ("backend", "timeout", "memory_limit", "threads"))
        inputs = options.pop("inputs", self._setup.get("inputs"))
        return _minify.minify(model, inputs, folder, **{**setup, **options})

    def __repr__(self) -> str:
        culprits = ", ".join(f"{b.op} {b.value!r}" for b in self.blame[:3])
        return f"<plumb.Session {self.verdict.upper()}: {culprits or self.reason or f'{len(self.sync_points)} values'}>"

    def __str__(self) -> str:
        return self.text(limit=20)

    def _repr_html_(self) -> str:
        return _html.session(self)


class Sessions(Sequence[Session]):
    """Several backends on one model: a Session for each, by number or by spec.

    exit_code is the worst of them, `ok` is true when all agree; print(sessions) prints one table with a column for each.
    """

    def __init__(self, backends: Sequence[str], rows: List[Optional[Session]], folder: str) -> None:
        self.backends, self.folder, self._rows = list(backends), folder, rows
        self._pointers = (ctypes.c_void_p * max(1, len(rows)))(*[None if s is None else s._handle.pointer.value for s in rows])
        self.exit_code = int(_lib.lib().plumb_sessions_exit_code(self._pointers, len(rows)))

    @property
    def ok(self) -> bool:
        """True only when every backend agrees with the reference."""
        return all(s is not None and s.ok for s in self._rows)

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return self._rows[which]
        if which not in self.backends:
            raise KeyError(f"no backend {which!r}; available: {', '.join(self.backends)}")
        return self._rows[self.backends.index(which)]

    def __len__(self) -> int:
        return len(self._rows)

    def text(self, format: str = "text", **options: Any) -> str:
        """One table, a column for each backend: "text", "json" (docs/formats/many.md) or "md". Options: metric, sort, limit."""
        made, text = _lib.options("plumb_write_options", "PLUMB_OPTIONS_WRITE", dict(options, format=format)), ctypes.c_void_p()
        _lib.call("plumb_sessions_write", self._pointers, len(self), ctypes.byref(made), ctypes.byref(text))
        return _lib.take_text(text)

    def to_dict(self) -> Dict[str, Any]:
        """The JSON of the program, parsed: verdicts, values, and which backends agree without the reference."""
        found: Dict[str, Any] = json.loads(self.text("json"))
        return found

    def __str__(self) -> str:
        return self.text(limit=20)

    def __repr__(self) -> str:
        verdicts = ("none" if s is None else s.verdict.upper() for s in self._rows)
        return "<plumb.Sessions " + ", ".join(f"{b}: {v}" for b, v in zip(self.backends, verdicts)) + ">"


def view(path: Optional[PathLike], **options: Any) -> _lib.Handle:
    """Serves a session or a model (None: neither) until the handle is dropped."""
    made = _lib.options("plumb_viewer_options", "PLUMB_OPTIONS_VIEWER", options)
    return _lib.make("viewer", "plumb_viewer_open", "plumb_viewer_close", None if path is None else os.fsencode(path),
                     ctypes.byref(made))


def open_session(path: PathLike) -> Session:
    """An earlier session: its folder, or a session.json alone (then without tensors)."""
    return Session(_lib.make("session", "plumb_session_open", "plumb_session_free", os.fsencode(path)))


def temporary_folder() -> str:
    """A new folder for a session; its last part does not exist yet."""
    return os.path.join(tempfile.mkdtemp(prefix="plumb-"), "session")
