#!/usr/bin/env python3
"""Measures the memory of the two ranks of a run, for each way to divide the optimizer's state among them.

  tools/measure_rank_memory.py                            an MLP with 2 hidden layers of 2048: 34 MB of weights
  tools/measure_rank_memory.py --hidden 2048 --layers 9   268 MB of weights
  tools/measure_rank_memory.py --updates 3

Prints for each rank the anonymous memory in use after some updates (the median of 10 moments within 5 s) and the largest resident memory
until then, in MB (10^6 bytes), and what they are less than with trainer.zero 0. Linux. Exits with 1 if a run fails. Standard library only.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAYS = [{"trainer.zero": 0}, {"trainer.zero": 1}, {"trainer.zero": 1, "trainer.redundancy": "neighbour"}, {"trainer.zero": 2}]
SETTINGS = {
    "trainer.super_batch": 64,
    "rollout.length": 8,
    "env.rows": 4,
    "trainer.minibatches": 1,
    "trainer.epochs": 2,
    "stop.env_steps": 0,
    "stop.updates": 1_000_000,
    "stats.interval_ms": 200,
    "evaluation.every_updates": 0,
    "evaluation.episodes": 1,
    "checkpoint.every_updates": 0,
}
PATIENCE = 900  # seconds until a run has made its updates


def memory_of(process):
    """MB that it uses, and that it has used at most."""
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    return [int(re.search(rf"{name}:\s+(\d+)", status).group(1)) * 1024 / 1e6 for name in ("RssAnon", "VmHWM")]


def children_of(process):
    """Those that any of its threads has started."""
    lists = pathlib.Path(f"/proc/{process}/task").glob("*/children")
    return sorted(int(child) for each in lists for child in each.read_text().split())


def updates_of(run):
    try:
        return json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["updates"]
    except (FileNotFoundError, IndexError, ValueError):
        return 0  # nothing is written yet, or half of a line


def measure(options, way):
    """[(in use, largest)] of rank 0 and rank 1."""
    settings = SETTINGS | {"model.hidden": json.dumps([options.hidden] * options.layers)} | way
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        words = [f"{options.build}/troupe", "train", "cartpole", "--run", run, "--ranks", "2"]
        words += [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]
        with open(f"{folder}/errors", "w+") as errors, subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors) as process:
            try:
                until = time.monotonic() + PATIENCE
                while updates_of(run) < options.updates:
                    if process.poll() is not None or time.monotonic() > until:
                        errors.seek(0)
                        sys.exit(f"the run made {updates_of(run)} updates and said: {errors.read()}")
                    time.sleep(0.5)
                ranks = [process.pid, *children_of(process.pid)]
                if len(ranks) != 2:
                    sys.exit(f"the run has {len(ranks) - 1} rank processes, expected 1")
                samples = []
                for _ in range(10):
                    time.sleep(0.5)
                    samples.append([memory_of(rank) for rank in ranks])
            finally:
                process.kill()
    return [(statistics.median(sample[rank][0] for sample in samples), samples[-1][rank][1]) for rank in range(len(ranks))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder with the built program")
    parser.add_argument("--hidden", type=int, default=2048, help="units of a hidden layer (2048)")
    parser.add_argument("--layers", type=int, default=2, help="hidden layers, of the policy and of the value function each (2)")
    parser.add_argument("--updates", type=int, default=5, help="after which memory is measured (5)")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    sys.stdout.reconfigure(line_buffering=True)
    first = None
    for way in WAYS:
        ranks = measure(options, way)
        first = first or ranks
        texts = []
        for rank, ((used, largest), (used_first, largest_first)) in enumerate(zip(ranks, first, strict=True)):
            less = f"({used_first - used:.0f} less), {largest:.0f} at most ({largest_first - largest:.0f} less)"
            texts.append(f"rank {rank}: {used:.0f} in use {less}")
        print(f"{' '.join(str(value) for value in way.values()):12} {'; '.join(texts)}")


if __name__ == "__main__":
    main()
