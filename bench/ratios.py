"""The committed ratios (bench/ratios.json) and the comparison with a fresh run: `make bench-check`.

Every ratio is time, size or share over a peer's or a physical limit's in the same run; smaller is better. Kept apart for the full bench and for --quick,
whose cases are smaller. A ratio is worse when it has grown by more than 20 %, and by more than 0.005."""
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(HERE, "ratios.json")
WORSE, FLOOR = 1.2, 0.005


def key_of(what):
    """The name of a ratio: what is said of it, without the case that happened to be the worst."""
    return re.sub(r" \([^)]*\)", "", what).strip()


def load():
    if not os.path.exists(FILE):
        return {}
    with open(FILE, encoding="utf-8") as f:
        return json.load(f)


def save(kind, head, ratios):
    """kind: "full" or "quick"; ratios of parts that were not run stay."""
    found = load()
    old = found.get(kind, {}).get("ratios", {})
    found[kind] = {"measured": head, "ratios": {k: float(f"{v:.4g}") for k, v in sorted({**old, **ratios}.items())}}
    with open(FILE, "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)
        f.write("\n")


def compare(kind, fresh):
    """(lines of a table, number that are worse)"""
    kept = load().get(kind, {})
    old = kept.get("ratios", {})
    lines, worse = [f"against bench/ratios.json, {kind}: {kept.get('measured', 'nothing was committed yet')}", "",
                    "| ratio | committed | now | |", "|---|---|---|---|"], 0
    for key in sorted(set(old) | set(fresh)):
        if key not in fresh:
            lines.append(f"| {key} | {old[key]:.3g} | not run | |")
        elif key not in old:
            lines.append(f"| {key} | | {fresh[key]:.3g} | new |")
        else:
            bad = fresh[key] > WORSE * old[key] and fresh[key] - old[key] > FLOOR
            better = fresh[key] < old[key] / WORSE
            worse += bad
            change = f"{100 * (fresh[key] / old[key] - 1):+.0f} %" if old[key] > 0 else ""
            lines.append(f"| {key} | {old[key]:.3g} | {fresh[key]:.3g} | {'**worse** ' if bad else 'better ' if better else ''}{change} |")
    lines += ["", f"{worse} of {len(set(old) & set(fresh))} ratios are more than 20 % worse"]
    return lines, worse
