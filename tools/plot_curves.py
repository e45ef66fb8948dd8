#!/usr/bin/env python3
"""Draws learning curves of run folders as SVG: the return of the training episodes over environment steps.

  tools/plot_curves.py CartPole-v1:cartpole='runs/cartpole-*' Pendulum-v1:pendulum='runs/pendulum-*' >curves.svg

Each argument is PANEL:LINE=FOLDERS. A line is the median over the runs whose folders match FOLDERS, with a band from the least to the
greatest. Arguments with the same PANEL share a panel. Standard library only.
"""

import bisect
import glob
import json
import pathlib
import statistics
import sys

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 480, 178, 62, 20, 38, 32
POINTS = 120  # of a line
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; }
  .soft { fill: #59636e; }
  .card { fill: #ffffff; stroke: #d1d9e0; }
  .grid { stroke: #d1d9e0; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  .band { opacity: 0.2; }
  .line0 { stroke: #0072b2; } .fill0 { fill: #0072b2; }
  .line1 { stroke: #d55e00; } .fill1 { fill: #d55e00; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .soft { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .grid { stroke: #3d444d; }
    .line0 { stroke: #56b4e9; } .fill0 { fill: #56b4e9; }
    .line1 { stroke: #e69f00; } .fill1 { fill: #e69f00; }
  }
"""


def curve_of(folder):
    """The environment steps and the mean returns of a run's lines that have a return."""
    steps, returns = [], []
    with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as file:
        lines = sorted(map(json.loads, file), key=lambda line: line["env_steps"])  # the line of an evaluation comes late
    for line in lines:
        if line["episodes"]["return_mean"] is not None:
            steps.append(line["env_steps"])
            returns.append(line["episodes"]["return_mean"])
    if not steps:
        raise SystemExit(f"{folder}: no episode has ended in this run")
    return steps, returns


def at(curve, step):
    steps, returns = curve
    i = bisect.bisect_left(steps, step)
    if i in (0, len(steps)):
        return returns[min(i, len(steps) - 1)]
    share = (step - steps[i - 1]) / (steps[i] - steps[i - 1])
    return returns[i - 1] + share * (returns[i] - returns[i - 1])


def summary_of(folders):
    """[(step, least, median, greatest)] over the runs, as far as all of them go."""
    curves = [curve_of(folder) for folder in folders]
    first, last = max(c[0][0] for c in curves), min(c[0][-1] for c in curves)
    points = []
    for i in range(POINTS + 1):
        step = first + (last - first) * i / POINTS
        values = [at(c, step) for c in curves]
        points.append((step, min(values), statistics.median(values), max(values)))
    return points


def ticks(low, high):
    """About five round numbers from `low` to `high`."""
    raw = (high - low) / 5
    size = 10 ** (len(str(int(raw))) - 1)
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= raw)
    tick = -(-low // step) * step
    while tick <= high:
        yield tick
        tick += step


def panel_svg(top, title, lines):
    points = [p for _, line in lines for p in line]
    last, low, high = max(p[0] for p in points), min(p[1] for p in points), max(p[3] for p in points)

    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value):
        return top + PANEL - BOTTOM - (PANEL - TOP - BOTTOM) * (value - low) / ((high - low) or 1)

    out = [f'<text class="title" x="{LEFT}" y="{top + 24}">{title}</text>']
    for value in ticks(low, high):
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        out.append(f'<text class="soft" x="{LEFT - 8}" y="{y(value) + 5:.1f}" text-anchor="end">{value:.0f}</text>')
    for step in ticks(0, last):
        label = "0" if step == 0 else f"{step / 1000:,.0f}k"
        out.append(f'<text class="soft" x="{x(step):.1f}" y="{top + PANEL - 10}" text-anchor="middle">{label}</text>')
    for i, (name, line) in enumerate(lines):
        band = [(s, a) for s, a, _, _ in line] + [(s, b) for s, _, _, b in reversed(line)]
        path = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in band)
        out.append(f'<polygon class="band fill{i}" points="{path}"/>')
        path = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, _, v, _ in line)
        out.append(f'<polyline class="line line{i}" points="{path}"/>')
        place = WIDTH - RIGHT - 6, top + PANEL - BOTTOM - 12 - 20 * (len(lines) - 1 - i)
        out.append(f'<text class="title" x="{place[0]}" y="{place[1]}" text-anchor="end"><tspan class="fill{i}">{name}</tspan></text>')
    return out


def svg_of(panels):
    height = PANEL * len(panels) + 30
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<title>Mean return of the last 100 training episodes over environment steps</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
    ]
    for i, (title, lines) in enumerate(panels.items()):
        out += panel_svg(PANEL * i, title, lines)
    out.append(f'<text class="soft" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{height - 12}" text-anchor="middle">environment steps</text>')
    return "\n".join([*out, "</svg>"])


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if len(sys.argv) > 1 else 2
    panels = {}
    for argument in sys.argv[1:]:
        name, _, pattern = argument.partition("=")
        panel, _, line = name.partition(":")
        folders = sorted(glob.glob(pattern))
        if not line or not folders:
            raise SystemExit(f"{argument}: expected PANEL:LINE=FOLDERS, with at least one run folder that matches")
        panels.setdefault(panel, []).append((line, summary_of(folders)))
    print(svg_of(panels))
    return 0


if __name__ == "__main__":
    sys.exit(main())
