#!/usr/bin/python3
"""The parts of bench/ that judge and draw: what bench-check calls worse, and that a plot is well-formed. TAP."""
import json
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "bench/minify"))
import baselines  # noqa: E402
import plot  # noqa: E402
import ratios  # noqa: E402
import tap  # noqa: E402


def test_worse_by_more_than_a_fifth_is_shown(tmp):
    ratios.FILE = os.path.join(tmp, "ratios.json")
    ratios.save("quick", "a machine", {"a": 1.0, "b": 1.0, "c": 0.001, "gone": 2.0})
    lines, worse = ratios.compare("quick", {"a": 1.25, "b": 1.19, "c": 0.0015, "new": 1.0})
    assert worse == 1, lines
    row = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert "worse" in row["a"] and "+25 %" in row["a"] and "worse" not in row["b"] and "worse" not in row["c"], row
    assert "new" in row["new"] and "not run" in row["gone"], row


def test_full_and_quick_are_kept_apart(tmp):
    ratios.FILE = os.path.join(tmp, "ratios.json")
    ratios.save("quick", "m", {"a": 1.0})
    ratios.save("full", "m", {"a": 3.0})
    ratios.save("quick", "m", {"b": 2.0})
    found = json.loads(Path(ratios.FILE).read_text())
    assert found["quick"]["ratios"] == {"a": 1.0, "b": 2.0} and found["full"]["ratios"] == {"a": 3.0}, found
    assert ratios.compare("full", {"a": 3.0})[1] == 0


def test_key_leaves_out_the_case(tmp):
    assert ratios.key_of("worst ratio, 1T (recurrent)") == "worst ratio, 1T"


def test_plot_is_well_formed(tmp):
    text = plot.svg("a < b & c", "x", "y", {"one": [(1, 2), (10, 20), (1e5, 3e3)], "single": [(5, 5)]})
    root = ET.fromstring(text)
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == 4, len(circles)
    for c in circles:
        assert plot.LEFT <= float(c.get("cx")) <= plot.WIDTH - plot.RIGHT and plot.TOP <= float(c.get("cy")) <= plot.HEIGHT - plot.BOTTOM


def test_fx_minifier_model_asks_as_often_as_an_independent_one(tmp):
    # Counted with another model of the fx minifier, made from its source: "contains X" on a chain of a ops, X, b ops: sanity, re-checks and final check included.
    counted = {(0, 0): 4, (0, 1): 9, (1, 1): 10, (10, 10): 19, (20, 20): 35, (100, 100): 37, (500, 500): 63}
    for (a, b), queries in counted.items():
        assert baselines.power_of_two(baselines.chain(a, b), baselines.has("Relu")) == (queries, 1), (a, b)


def test_two_sweep_model_asks_as_often_as_polygraphy(tmp):
    for n, checks in {20: 10, 100: 14, 500: 18, 2500: 24}.items():  # measured with Polygraphy 0.49.27
        assert baselines.two_sweep(baselines.chain(n, n), baselines.has("Relu")) == (checks, 1), n


if __name__ == "__main__":
    sys.exit(tap.main(globals()))
