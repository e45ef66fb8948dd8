#!/usr/bin/env python3
"""Times of `troupe runs`, `troupe dash` and `troupe plot` on many long runs.

  tools/measure_runs.py                            250 runs of 2,000 records
  tools/measure_runs.py --runs 20 --keep /tmp/r    fewer, in a folder that stays

Trains CartPole for a moment, and makes the runs from what that leaves: records with all their figures, of ten different runs, which the
others share as hard links; the files are in memory when the times are taken. Of each time the least of three is told:

  runs   the list of all runs
  dash   from a new process to all figures of the view Compare of 20 runs, as the page asks for them
  plot   ten seeds as a picture, in SVG; both pictures that are made must have the same bytes

Exits with 1 if a time is above its target. Standard library only.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIFFERENT = 10
COMPARED = 20
MOST = {"runs": 1.0, "dash": 2.0, "plot": 1.0}  # seconds
PATIENCE = 60


def settings(**values):
    return [word for path, value in values.items() for word in ("--set", f"{path.replace('__', '.')}={value}")]


def trained(program, folder):
    """The run that all others are made from."""
    words = [program, "train", "cartpole", "--run", folder]
    words += settings(stop__env_steps=0, stop__updates=20, evaluation__episodes=10, evaluation__every_updates=10)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return folder


def records_of(run, seed, count):
    """The lines of a metrics.jsonl: those of the run, repeated, at steps that grow."""
    draw = random.Random(seed)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    evaluations = [line for line in lines if line["eval"]]
    points = [line for line in lines if not line["eval"] and line["learner"]]
    text = []
    for number in range(1, count + 1):
        record = dict(draw.choice(evaluations if number % 40 == 0 else points))
        record.update(env_steps=2048 * number, updates=number, elapsed_seconds=0.2 * number)
        value = 500 * number / (number + 200) + draw.gauss(0, 10)
        if record["eval"]:
            record["eval"] = record["eval"] | {"updates": number, "return_mean": value}
        record["episodes"] = record["episodes"] | {"return_mean": value}
        text.append(json.dumps(record, separators=(",", ":")))
    return "\n".join(text) + "\n"


def make_runs(program, folder, count, records):
    run = pathlib.Path(trained(program, folder / "made"))
    runs = folder / "runs"
    runs.mkdir()
    config = json.loads((run / "config.json").read_text())
    for number in range(count):
        place = runs / f"seed={number + 1}"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(config | {"seed": number + 1}, indent=2))
        for name in ("summary.json", "about.json", "best.json", "alarms.json", "run.lock"):
            if (run / name).exists():
                shutil.copy(run / name, place / name)
        if number < DIFFERENT:
            (place / "metrics.jsonl").write_text(records_of(run, number, records))
        else:
            os.link(runs / f"seed={number % DIFFERENT + 1}/metrics.jsonl", place / "metrics.jsonl")
    return runs


def seconds_of(*words):
    begin = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def figures_compared():
    """Those that the view Compare asks for: the first of each chart of page/learning.js, and the others that it says."""
    charts = re.findall(r"paths: \[([^\]]*)\](.*)", (ROOT / "page/learning.js").read_text())
    figures = []
    for listed, rest in charts:
        paths = re.findall(r'"([^"]+)"', listed)
        figures += [path for i, path in enumerate(paths) if i == 0 or "isEachCompared" in rest or path.startswith("eval.")]
    return figures


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as reply:
        return json.loads(reply.read())


def read_curves(address, run, figures):
    query = urllib.parse.urlencode([("run", run)] + [("y", figure) for figure in figures])
    while True:
        reply = get(address, "/data/curves?" + query)
        if reply["read_bytes"] == reply["bytes"]:
            return reply["records"]


def seconds_of_dash(program, runs, records):
    begin = time.monotonic()
    process = subprocess.Popen([program, "dash", runs], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://([^/\s]+)", process.stdout.readline()).group(1)
        listed = [each["run"] for each in get(address, "/data/runs")["runs"]][:COMPARED]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:  # as many connections as a browser opens
            read = list(pool.map(lambda run: read_curves(address, run, figures_compared()), listed))
        if read != [records] * len(listed):
            raise RuntimeError(f"dash has read {read} records")
        return time.monotonic() - begin
    finally:
        process.terminate()
        process.wait()


def seconds_of_plot(program, runs, picture):
    folders = [str(runs / f"seed={seed + 1}") for seed in range(DIFFERENT)]
    took = seconds_of(program, "plot", *folders, "-o", picture)
    before = picture.read_bytes()
    seconds_of(program, "plot", *folders, "-o", picture)
    if picture.read_bytes() != before:
        raise RuntimeError("two pictures of the same runs differ")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder with the built program")
    parser.add_argument("--runs", type=int, default=250)
    parser.add_argument("--records", type=int, default=2000, help="of each run")
    parser.add_argument("--keep", type=pathlib.Path, help="make the runs in this new folder, and leave them there")
    options = parser.parse_args()
    if options.runs < DIFFERENT:
        parser.error(f"--runs: {options.runs}, expected {DIFFERENT} or more")
    program = f"{options.build}/troupe"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary)
        folder.mkdir(exist_ok=options.keep is None)
        runs = make_runs(program, folder, options.runs, options.records)
        each = (runs / "seed=1/metrics.jsonl").stat().st_size
        print(f"{options.runs} runs of {options.records} records, {each / 1e6:.1f} MB each")
        measured = {
            "runs": lambda: seconds_of(program, "runs", runs),
            "dash": lambda: seconds_of_dash(program, runs, options.records),
            "plot": lambda: seconds_of_plot(program, runs, folder / "plot.svg"),
        }
        missed = False
        for name, measure in measured.items():
            least = min(measure() for _ in range(3))
            missed |= least > MOST[name]
            print(f"{name}: {least:.2f} s, at most {MOST[name]:.1f} s")
    sys.exit(missed)


if __name__ == "__main__":
    main()
