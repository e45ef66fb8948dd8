#!/usr/bin/env python3
"""Draws bandwidth over sequence length as SVG: `troupe bench gae --json | tools/plot_bandwidth.py FILE`.

One panel for each layout and number of threads, one line for each instruction set and a dashed one for the limit, as fractions
of the best limit of the panel's number of threads.
"""

import json
import sys

WIDTH, HEIGHT, MARGIN = 360, 220, 52
COLOURS = {"limit": "#888888", "sse2": "#d55e00", "avx2": "#0072b2", "avx512": "#009e73"}
NAMES = {"BT": "[B, T]: along rows", "TB": "[T, B]: down columns"}


def lines_of(cases, layout, threads):
    """{name: [(steps, GB/s)]} of one panel: the sweep over length, whose cases all have as many steps times sequences."""
    panel = [c for c in cases if (c["variant"], c["layout"], c["threads"]) == ("plain", layout, threads)]
    if not panel:
        return {}
    size = max(c["sequences"] * c["steps"] for c in panel)
    panel = [c for c in panel if c["sequences"] * c["steps"] == size]
    lines = {}
    limits = {}
    for c in panel:
        lines.setdefault(c["isa"], []).append((c["steps"], c["gb_per_s"]))
        limits.setdefault(c["steps"], []).append(c["limit_gb_per_s"])
    return {"limit": [(steps, max(all)) for steps, all in sorted(limits.items())], **{k: sorted(v) for k, v in lines.items()}}


def panel_svg(left, top, title, lines, highest):
    lengths = [steps for steps, _ in lines["limit"]]
    place = {steps: left + MARGIN + i * (WIDTH - 2 * MARGIN) / max(1, len(lengths) - 1) for i, steps in enumerate(lengths)}
    bottom, height = top + HEIGHT - MARGIN, HEIGHT - 2 * MARGIN

    def y(rate):
        return bottom - height * rate / highest

    out = [f'<text x="{left + MARGIN}" y="{top + MARGIN - 14}" font-weight="bold">{title}</text>']
    for tick in range(5):
        rate = highest * tick / 4
        out.append(f'<line x1="{left + MARGIN}" x2="{left + WIDTH - MARGIN}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left + MARGIN - 6}" y="{y(rate) + 4:.1f}" text-anchor="end">{rate:.0f}</text>')
    for steps in lengths:
        label = f"{steps // 1024}k" if steps >= 1024 else str(steps)
        out.append(f'<text x="{place[steps]:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    out.append(f'<text x="{left + WIDTH / 2}" y="{bottom + 32}" text-anchor="middle">steps (T)</text>')
    out.append(
        f'<text transform="translate({left + 14} {top + HEIGHT / 2}) rotate(-90)" text-anchor="middle">GB/s</text>'
    )
    for name, points in lines.items():
        path = " ".join(f"{place[steps]:.1f},{y(rate):.1f}" for steps, rate in points)
        dashes = ' stroke-dasharray="5 4"' if name == "limit" else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"{dashes}/>')
    return out


def svg_of(cases):
    layouts = sorted({c["layout"] for c in cases})
    threads = sorted({c["threads"] for c in cases})
    width, height = WIDTH * len(threads), HEIGHT * len(layouts) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    shown = []
    for column, count in enumerate(threads):
        panels = {layout: lines_of(cases, layout, count) for layout in layouts}
        highest = max(rate for lines in panels.values() for points in lines.values() for _, rate in points) * 1.05
        for row, layout in enumerate(layouts):
            title = f"{NAMES[layout]}, {count} thread{'s' if count > 1 else ''}"
            out += panel_svg(WIDTH * column, HEIGHT * row, title, panels[layout], highest)
            shown += [name for name in panels[layout] if name not in shown]
    for i, name in enumerate(shown):
        x = MARGIN + 150 * i
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="{height - 14}" y2="{height - 14}" stroke="{COLOURS[name]}" stroke-width="2"/>')
        text = "limit: 2 reads, 2 writes" if name == "limit" else name
        out.append(f'<text x="{x + 30}" y="{height - 10}">{text}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cases = json.load(sys.stdin)["cases"]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(svg_of(cases))


if __name__ == "__main__":
    main()
