#!/usr/bin/env python3
"""Draws the result of a benchmark of the algorithms as SVG: `troupe bench NAME --json | tools/plot_bench.py FILE`.

gae, vtrace: bandwidth over sequence length; a panel for each layout and number of threads, a line for each instruction set, and
a dashed line for the limit. surrogate, logprob, balance: bars, with a tick for the limit of the same run if there is one.
"""

import json
import sys

WIDTH, HEIGHT, MARGIN = 360, 220, 52
COLOURS = {"limit": "#888888", "sse2": "#d55e00", "avx2": "#0072b2", "avx512": "#009e73"}
NAMES = {"BT": "[B, T]: along rows", "TB": "[T, B]: down columns"}


def lines_of(cases, layout, threads):
    """{name: [(steps, GB/s)]} of one panel: the sweep over length, whose cases all have the same number of elements."""
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


def bars_of(report):
    """(title, unit, [(label, series, value, limit or None)]) of a benchmark without a sweep over length."""
    cases = report["cases"]
    if "surrogate" in cases[0]:
        title = f"surrogates, {report['rows']} x {report['steps']} tokens, {report['threads']} thread"
        rates = ("gigabytes_per_second", "stream_gigabytes_per_second")
        return title, "GB/s", [(c["surrogate"], c["isa"], *(c[rate] for rate in rates)) for c in cases]
    if "dtype" in cases[0]:
        title = f"log-probabilities and entropy, {report['rows']} x {report['vocabulary']} logits, {report['threads']} thread"
        ways = (("forward", "read"), ("backward", "copy"))
        bars = [
            (f"{c['dtype']} {way}", c["isa"], c[f"{way}_gigabytes_per_second"], c[f"{limit}_gigabytes_per_second"])
            for way, limit in ways
            for c in cases
        ]
        return title, "GB/s", bars
    bars = [
        (
            f"{c['sequences']} into {c['parts']}",
            "equal sizes" if c["equal_size"] else "any sizes",
            1e-6 * c["sequences_per_second"],
            None,
        )
        for c in cases
    ]
    return "Karmarkar-Karp", "million sequences/s", bars


def bars_svg(title, unit, bars):
    left, right, bar, gap, top = 150, 480, 8, 8, 40
    labels = list(dict.fromkeys(label for label, *_ in bars))
    series = list(dict.fromkeys(name for _, name, *_ in bars))
    colours = dict(zip(series, ("#d55e00", "#0072b2", "#009e73"), strict=False))
    highest = 1.05 * max(value if limit is None else max(value, limit) for *_, value, limit in bars)
    block = bar * len(series) + gap
    height = top + block * len(labels) + 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + right + 60} {height}" width="{left + right + 60}" '
        f'height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{left + right + 60}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-weight="bold">{title}</text>',
    ]
    for i, label in enumerate(labels):
        y = top + block * i
        out.append(f'<text x="{left - 8}" y="{y + (block - gap) / 2 + 4:.1f}" text-anchor="end">{label}</text>')
    for label, name, value, limit in bars:
        y = top + block * labels.index(label) + bar * series.index(name)
        width = right * value / highest
        out.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 1}" fill="{colours[name]}"/>')
        if limit is not None:
            x = left + right * limit / highest
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 1}" y2="{y + bar}" stroke="#000"/>')
    bottom = top + block * len(labels)
    for tick in range(5):
        x = left + right * tick / 4
        out.append(f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{highest * tick / 4:.3g}</text>')
    out.append(f'<text x="{left + right + 8}" y="{bottom + 12}">{unit}</text>')
    for i, name in enumerate(series):
        x = left + 110 * i
        out.append(f'<rect x="{x}" y="{height - 20}" width="12" height="8" fill="{colours[name]}"/>')
        out.append(f'<text x="{x + 18}" y="{height - 12}">{name}</text>')
    if any(limit is not None for *_, limit in bars):
        x = left + 110 * len(series)
        out.append(f'<line x1="{x + 6}" x2="{x + 6}" y1="{height - 22}" y2="{height - 10}" stroke="#000"/>')
        out.append(f'<text x="{x + 18}" y="{height - 12}">limit in the same run</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    report = json.load(sys.stdin)
    swept = "layout" in report["cases"][0]
    drawing = svg_of(report["cases"]) if swept else bars_svg(*bars_of(report))
    try:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(drawing)
    except OSError as failure:
        sys.exit(f"plot_bench.py: {failure}")


if __name__ == "__main__":
    main()
