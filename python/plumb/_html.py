"""A session in a notebook: verdict, blame, the worst values, and the path from the culprit to the outputs."""
from __future__ import annotations

import html
import math
from typing import Any, List

_COLOURS = {"agree": "#2e7d32", "diverged": "#c62828", "nondeterministic": "#b26a00", "failed": "#c62828"}
_DOTS = {"green": "#2e7d32", "yellow": "#b26a00", "red": "#c62828"}
_ROWS, _NODES = 15, 12


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


def _graph(session: Any) -> str:
    """The values from the first difference onwards, in model order, as a row of boxes."""
    points = [p for p in session.sync_points if not p.is_input]
    start = next((i for i, p in enumerate(points) if p.verdict == "culprit" or p.similarity == "red"), None)
    if start is None:
        return ""
    shown = points[max(0, start - 2):start + _NODES]
    boxes, x = [], 0
    for p in shown:
        colour = _DOTS.get(p.similarity, "#777")
        bold = " font-weight='bold'" if p.verdict == "culprit" else ""
        verdict = html.escape(p.verdict)
        title = html.escape(f"{p.value}: {p.verdict}")
        boxes.append(f"<g transform='translate({x},4)'><title>{title}</title><rect width='104' height='34' rx='5' fill='none' "
                     f"stroke='{colour}' stroke-width='{3 if p.verdict == 'culprit' else 1}'/><text x='52' y='15' "
                     f"text-anchor='middle' font-size='11' fill='currentColor'{bold}>{html.escape(p.op or 'input')}</text>"
                     f"<text x='52' y='28' text-anchor='middle' font-size='9' fill='{colour}'>{verdict}</text></g>")
        x += 116
    return f"<svg width='{x}' height='42' role='img' aria-label='values around the first difference'>{''.join(boxes)}</svg>"


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
