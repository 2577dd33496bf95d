# Every help fits 80 columns, has no option outside a group, and ends with three examples.
for command in $("$PLUMB" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    "$PLUMB" "$command" --help >help
    python3 - "$command" <<'P'
import sys
lines = open("help").read().splitlines()
at = lines.index("Examples:")
assert len(lines) == at + 4 and all(l.startswith("  ") and f"plumb {sys.argv[1]}" in l for l in lines[at + 1:]), lines[at:]
assert all(len(l) <= 80 for l in lines), max(lines, key=len)
assert "Other:" not in lines and "General:" in lines and "      --" not in lines[1], lines
P
    echo "$command $?"
done
