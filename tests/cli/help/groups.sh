# Every help fits 80 columns, has no option outside a group, and ends with three examples.
commands=$("$PLUMB" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
for command in $commands; do "$PLUMB" "$command" --help >"$command.help" || exit; done
python3 - $commands <<'P'
import sys
for command in sys.argv[1:]:
    lines = open(f"{command}.help").read().splitlines()
    at = lines.index("Examples:")
    assert len(lines) == at + 4 and all(l.startswith("  ") and f"plumb {command}" in l for l in lines[at + 1:]), lines[at:]
    assert all(len(l) <= 80 for l in lines), max(lines, key=len)
    assert "Other:" not in lines and "General:" in lines and "      --" not in lines[1], lines
    print(command, 0)
P
