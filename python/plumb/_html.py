"""A session in a notebook: verdict, blame, the worst values, and the graph around the culprit."""
from __future__ import annotations

import html
import math
import mmap
import os
from typing import Any, Dict, List, Set, Tuple

from . import _onnx

_COLOURS = {"agree": "#2e7d32", "diverged": "#c62828", "failed": "#c62828", "nondeterministic": "#b26a00",
            "inconclusive": "#b26a00"}
_DOTS = {"green": "#2e7d32", "yellow": "#b26a00", "red": "#c62828"}
_ROWS, _NODES, _WIDE = 15, 12, 104


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return html.escape(str(value))


def _table(head: List[str], rows: List[List[Any]]) -> str:
    top = "".join(f"<th style='text-align:left'>{html.escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td style='text-align:left'>{_cell(c)}</td>" for c in r) + "</tr>" for r in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _worst(session: Any) -> List[Any]:
    rank = {"red": 0, "yellow": 1, "green": 2}
    points = sorted(enumerate(session.sync_points), key=lambda p: (rank.get(p[1].similarity, 3), p[0]))
    return [p for _, p in points[:_ROWS]]


def _edges(session: Any, known: Set[str]) -> Dict[str, List[str]]:
    """{value: the compared values that go into it}, past those that a backend fused away; from the model in the session's
    folder, empty when it has none."""
    path = os.path.join(session.folder, "model.onnx") if session.folder else ""
    if not os.path.isfile(path) or os.path.getsize(path) == 0:
        return {}
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        reads = {out: list(node.inputs) for node in _onnx.read(view).nodes for out in node.outputs}
    found: Dict[str, List[str]] = {}
    for value in known:
        todo, seen = list(reads.get(value, [])), set()
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo += [] if n in known else reads.get(n, [])
        found[value] = sorted(seen & known)
    return found


def _near(points: List[Any], start: int, reads: Dict[str, List[str]]) -> List[Any]:
    """The point that differs first, what it reads, and what reads it and those after it: at most _NODES, in the model's order."""
    if not reads:
        return points[max(0, start - 2):start + _NODES - 2]
    chosen = {points[start].value}
    chosen.update(reads.get(points[start].value, []))
    after = {points[start].value}
    for p in points[start + 1:]:
        if len(chosen) >= _NODES:
            break
        if any(n in after for n in reads.get(p.value, [])):
            after.add(p.value)
            chosen.add(p.value)
    return [p for p in points if p.value in chosen]


def _box(p: Any, x: int, y: int) -> str:
    colour = _DOTS.get(p.similarity, "#777")
    is_culprit = p.verdict == "culprit"
    bold = " font-weight='bold'" if is_culprit else ""
    middle = f"x='{_WIDE // 2}' text-anchor='middle'"
    return (f"<g transform='translate({x},{y})'><title>{html.escape(f'{p.value}: {p.verdict}')}</title><rect width='{_WIDE}' "
            f"height='34' rx='5' fill='none' stroke='{colour}' stroke-width='{3 if is_culprit else 1}'/><text {middle} y='15' "
            f"font-size='11' fill='currentColor'{bold}>{html.escape(p.op or 'input')}</text>"
            f"<text {middle} y='28' font-size='9' fill='{colour}'>{html.escape(p.verdict)}</text></g>")


def _graph(session: Any) -> str:
    """The operations around the first value that differs, as boxes with the edges of the model between them."""
    points = [p for p in session.sync_points if not p.is_input]
    start = next((i for i, p in enumerate(points) if p.verdict == "culprit"), None)
    if start is None:
        start = next((i for i, p in enumerate(points) if p.similarity == "red"), None)
    if start is None:
        return ""
    reads = _edges(session, {p.value for p in points})
    shown = _near(points, start, reads)
    column: Dict[str, int] = {}
    rows: Dict[int, int] = {}
    place: Dict[str, Tuple[int, int]] = {}
    parts: List[str] = []
    for i, p in enumerate(shown):
        before = [n for n in reads.get(p.value, []) if n in column]
        column[p.value] = (max((column[n] for n in before), default=-1) + 1) if reads else i
        x, row = column[p.value] * (_WIDE + 26), rows.get(column[p.value], 0)
        rows[column[p.value]] = row + 1
        place[p.value] = (x, row * 44 + 4)
        parts.append(_box(p, *place[p.value]))
        for n in before:
            (x1, y1), (x2, y2) = place[n], place[p.value]
            parts.append(f"<path d='M{x1 + _WIDE} {y1 + 17} C {x1 + _WIDE + 13} {y1 + 17} {x2 - 13} {y2 + 17} {x2} {y2 + 17}' "
                         "fill='none' stroke='#888'/>")
    width, height = max(x for x, _ in place.values()) + _WIDE + 2, max(y for _, y in place.values()) + 40
    return (f"<div style='overflow-x:auto'><svg width='{width}' height='{height}' role='img' "
            f"aria-label='operations around the first difference'>{''.join(parts)}</svg></div>")


def session(s: Any) -> str:
    """The HTML of a session."""
    colour = _COLOURS.get(s.verdict, "#777")
    parts = [f"<p><b style='color:{colour}'>{html.escape(s.verdict.upper())}</b> {html.escape(s.reason)}</p>"]
    blame = s.blame
    if blame:
        parts.append(_table(["op", "value", "kind", "effect", "source"], [
            [b.op, b.value, b.kind, b.effect, b.source or b.module] for b in blame[:_ROWS]]))
    if s.lost_calls:
        parts.append("<p>Calls that the exporter lost:</p>" + _table(["call", "status", "line"], [
            [c["op"], c["status"], f"{c.get('file', '')}:{c.get('line', '')}"] for c in s.lost_calls[:_ROWS]]))
    parts.append(_graph(s))
    parts.append(_table(["value", "op", "verdict", "psnr", "max abs", "local / bound"], [
        [p.value, p.op, p.verdict, p.metrics.get("psnr", math.nan), p.metrics.get("max_abs", math.nan), p.q] for p in _worst(s)]))
    if s.folder:
        parts.append(f"<p><code>plumb view {html.escape(s.folder)}</code></p>")
    return "\n".join(p for p in parts if p)
