"""Growth curves as SVG: one function, no library. Log scales on both axes, a line with dots for each series."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 380, 64, 150, 40, 48
COLOURS = ("#1f5fb4", "#c2410c", "#15803d", "#7e22ce", "#475569")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 4")  # colour never alone


def ticks(lo, hi):
    """Powers of ten, with 2 and 5 between when there are few."""
    first, last = math.floor(math.log10(lo)), math.ceil(math.log10(hi))
    found = [10.0**e for e in range(first, last + 1)]
    if last - first < 3:
        found = sorted(found + [m * 10.0**e for e in range(first, last) for m in (2, 5)])
    return [t for t in found if lo / 1.001 <= t <= hi * 1.001] or [lo, hi]


def short(x):
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= size:
            return f"{x / size:.3g}{letter}"
    return f"{x:.3g}"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def svg(title, x_label, y_label, series):
    """series: {name: [(x, y), …]} with positive numbers. Returns the text of an SVG file."""
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    x_lo, x_hi, y_lo, y_hi = min(xs), max(xs), min(ys) / 1.3, max(ys) * 1.3

    def at(x, y):
        fx = 0.5 if x_hi == x_lo else math.log(x / x_lo) / math.log(x_hi / x_lo)
        fy = math.log(y / y_lo) / math.log(y_hi / y_lo)
        return LEFT + fx * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - fy * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" role="img">',
           f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<text x="{LEFT}" y="22" font-size="14" fill="#111">{escape(title)}</text>']
    for t in ticks(x_lo, x_hi):
        x, y = at(t, y_lo)
        out.append(f'<path d="M{x:.1f} {TOP}V{y:.1f}" stroke="#ddd"/><text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle" fill="#333">{short(t)}</text>')
    for t in ticks(y_lo, y_hi):
        x, y = at(x_lo, t)
        out.append(f'<path d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/><text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="#333">{short(t)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle" fill="#111">{escape(x_label)}</text>')
    out.append(f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle" fill="#111">{escape(y_label)}</text>')
    for i, (name, points) in enumerate(series.items()):
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        places = [at(x, y) for x, y in sorted(points)]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        y = TOP + 12 + 18 * i
        out.append(f'<path d="M{WIDTH - RIGHT + 10} {y}h24" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
                   f'<text x="{WIDTH - RIGHT + 40}" y="{y + 4}" fill="#111">{escape(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
