"""What the export did with each torch call: kept, dropped, frozen into a constant, or traced along another branch.

For the metadata of a recording (`plumb.export`, docs/formats/recording.md): a verdict "the exported model is wrong"
names the call and its line from it.
"""
from __future__ import annotations

import linecache
from typing import Any, Dict, List, Optional, Sequence, Set

from ._match import Match
from ._watch import Call, Source, Watcher

_READS = {"item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__",
          "__contains__", "equal", "allclose", "is_nonzero", "__len__"}
_TEXT_MAX = 200


def where(source: Optional[Source]) -> Dict[str, Any]:
    """{"file", "line", "function", "source"} of a call, for JSON; empty when torch's own code made it."""
    if source is None:
        return {}
    file, line, function = source
    text = linecache.getline(file, line).strip()[:_TEXT_MAX]
    return {"file": file, "line": line, "function": function, **({"source": text} if text else {})}


def changed_by(watcher: Watcher) -> Dict[int, List[int]]:
    """The values that each call changed through a view, by the number of the call."""
    found: Dict[int, List[int]] = {}
    for v, value in enumerate(watcher.values):
        if value.changed_by is not None:
            found.setdefault(value.changed_by, []).append(v)
    return found


def affected(watcher: Watcher, starts: Sequence[int], names: Dict[int, str]) -> List[str]:
    """The nearest values downstream that have a name in the graph."""
    seen, todo, found = set(starts), list(starts), []
    while todo:
        v = todo.pop(0)
        for k in sorted(watcher.values[v].consumers):
            for w in watcher.calls[k].outs:
                if w in seen:
                    continue
                seen.add(w)
                if w in names:
                    found.append(names[w])
                else:
                    todo.append(w)
    return found


def _digests(watcher: Watcher, numbers: Sequence[int]) -> Set[str]:
    return {watcher.values[v].summary.digest for v in numbers if watcher.values[v].summary is not None}


def _is_identity(watcher: Watcher, call: Call) -> bool:
    """Does it return its input unchanged (a view, dropout in eval mode)?"""
    made = _digests(watcher, call.outs)
    return made <= _digests(watcher, call.takes)


def _row(number: int, call: Call, status: str, reason: str, watcher: Watcher, names: Dict[int, str],
         behind: Dict[int, List[int]]) -> Dict[str, Any]:
    starts = call.outs + behind.get(number, [])
    return {"call": number, "op": call.op, "module": call.module, **where(call.source), "status": status, "reason": reason,
            "in_place": call.in_place, "no_effect": bool(call.outs) and _is_identity(watcher, call),
            "affects": list(dict.fromkeys([names[v] for v in behind.get(number, []) if v in names] +
                                          affected(watcher, starts, names)))}


def _dropped(traced: Watcher, number: int, call: Call, tags: Any, behind: Dict[int, List[int]]) -> bool:
    """The traced run made the call and something reads its result, but the graph has no node for it."""
    if not call.leaf or not call.depends or number in tags or not call.outs:
        return False
    read = any(traced.values[v].consumers for v in call.outs) or any(
        traced.values[v].names for v in call.outs)  # a module returned it
    if call.in_place:
        return bool(behind.get(number)) or not _is_identity(traced, call) and read
    return read and not _is_identity(traced, call)


def _frozen(call: Call) -> bool:
    return call.leaf and call.depends and call.op in _READS


def lost(recorded: Watcher, traced: Watcher, tags: Any, pairs: Dict[int, int], result: Match, names: Dict[int, str],
         exporter: str) -> List[Dict[str, Any]]:
    """Rows for the calls that the export dropped, froze or changed, in the order of the run.

    recorded, traced: the watchers of the two runs; tags: the call of each node; pairs: value of the recorded run ->
    value of the traced one; result: the _match.Match of the traced run; names: value of the recorded run -> name.
    """
    rows, tags = [], set(tags)
    behind_traced, behind = changed_by(traced), changed_by(recorded)
    same_call = {traced.values[w].call: recorded.values[v].call for v, w in pairs.items()
                 if traced.values[w].call is not None and recorded.values[v].call is not None}
    for k, call in enumerate(traced.calls):
        mine = same_call.get(k)
        if not _dropped(traced, k, call, tags, behind_traced):
            continue
        reasons = [result.reasons.get(w, "") for w in call.outs]
        explained = any(w in result.names for w in call.outs) or any(r.startswith(("folded", "unused")) for r in reasons)
        if mine is None or explained and not behind_traced.get(k):
            continue
        rows.append(_row(mine, recorded.calls[mine], "dropped", "the graph has no node for this call", recorded, names,
                         behind))
    traced_calls = {same_call[k] for k in same_call}
    for k, call in enumerate(recorded.calls):
        if exporter == "torchscript" and _frozen(call):
            rows.append(_row(k, call, "frozen", "its result became a constant of the graph", recorded, names, behind))
            if call.python is not None:
                rows[-1]["value"] = call.python if type(call.python) in (bool, int) else repr(call.python)
        elif call.leaf and call.outs and k not in traced_calls and not any(v in pairs for v in call.outs):
            rows.append(_row(k, call, "changed", "the exported run does not make this call", recorded, names, behind))
    return _without_feeders(recorded, sorted(rows, key=lambda r: int(r["call"])))


def _without_feeders(watcher: Watcher, rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Removes calls that only feed dropped or frozen calls: the latter already say what was lost."""
    lost_calls = {r["call"] for r in rows}

    def only_feeds(row: Dict[str, Any]) -> bool:
        call = watcher.calls[row["call"]]
        readers = set().union(*(watcher.values[v].consumers for v in call.outs))
        return row["status"] == "dropped" and not row["in_place"] and bool(readers) and readers <= lost_calls
    return [r for r in rows if not only_feeds(r)]
