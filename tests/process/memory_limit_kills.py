#!/usr/bin/env python3
"""A token run under a limit of memory, on answers of very different lengths, which is killed several times.

    memory_limit_kills.py [--build build/release] [--megabytes 600] [--kills 5] [--updates 60]

Prompts have 4 to 400 digits, most of them few. The lag cap is 4 and answers go on with new weights (`keep`). The kernel refuses the process
more than the limit (RLIMIT_DATA), which has to be above the estimate that the run prints. After each SIGKILL the same command resumes
the run. It has to make all of its updates, balance its ledger, stay within the lag cap and the limit, and train on long answers too.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

LEAST_DIGITS, MOST_DIGITS, MEAN_DIGITS = 4, 400, 40
PROMPTS, HELD_OUT = 4000, 200
PARTS = ("trained", "dropped_stale", "dropped_full", "lost_in_crash", "left_over", "filtered", "unscored", "verifier_failed", "waiting")
SETTINGS = [
    "task.name=dataset",
    "warmup.steps=100",
    "warmup.pass_at_1=0",
    "workers.groups=16",
    "generation.max_tokens=401",
    "generation.answer_slots=64",
    "replay.max_policy_lag=4",
    "replay.late=wait",
    "trainer.super_batch=64",
    "trainer.micro_batch_tokens=4096",
    "checkpoint.every_updates=5",
    "evaluation.every_updates=20",
    f"evaluation.episodes={HELD_OUT}",
    "stop.env_steps=0",
]
MOST_SECONDS = 900  # for each start, a resumed one included


def write_prompts(folder):
    """prompts.jsonl and held_out.jsonl, which have no prompt in common."""
    draw, seen, lines = random.Random(1), set(), []
    more = 1 - 1 / (1 + MEAN_DIGITS - LEAST_DIGITS)
    while len(lines) < PROMPTS + HELD_OUT:
        count = LEAST_DIGITS
        while count < MOST_DIGITS and draw.random() < more:
            count += 1
        digits = "".join(draw.choice("0123456789") for _ in range(count))
        if digits not in seen:
            seen.add(digits)
            lines.append(json.dumps({"prompt": digits + ">", "truth": digits[::-1]}) + "\n")
    (folder / "held_out.jsonl").write_text("".join(lines[:HELD_OUT]))
    (folder / "prompts.jsonl").write_text("".join(lines[HELD_OUT:]))


def updates_of(folder):
    """Updates in the newest whole line of the metrics."""
    try:
        lines = (folder / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return 0
    for line in reversed(lines):
        try:
            return json.loads(line)["updates"]
        except ValueError:  # the line is not complete
            pass
    return 0


class Run:
    def __init__(self, options, temporary):
        self.folder = temporary / "run"
        self._limit = options.megabytes * 1024 * 1024
        self._log = temporary / "log"
        data = {"path": str(temporary / "prompts.jsonl"), "held_out_path": str(temporary / "held_out.jsonl")}
        self._words = [f"{options.build}/troupe", "train", "tokens/reverse", "--run", str(self.folder), "--seed", "1"]
        for setting in [*SETTINGS, f"task.params={json.dumps(data)}", f"stop.updates={options.updates}"]:
            self._words += ["--set", setting]

    def start(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_DATA, (self._limit, self._limit))  # noqa: E731
        with open(self._log, "a") as log:
            return subprocess.Popen(self._words, stdout=log, stderr=log, preexec_fn=limit)

    def log(self):
        return self._log.read_text()


def kill_after(run, updates):
    """Kills the run once it has made this many updates. Exits if the run ends before."""
    process = run.start()
    deadline = time.monotonic() + MOST_SECONDS
    while updates_of(run.folder) < updates:
        try:
            sys.exit(f"the run ended with {process.wait(0.05)} before update {updates}:\n{run.log()}")
        except subprocess.TimeoutExpired:
            pass
        if time.monotonic() > deadline:
            process.kill()
            sys.exit(f"no update {updates} after {MOST_SECONDS} s:\n{run.log()}")
    process.kill()
    process.wait()


def finish(run):
    """Resumes the run and waits for its end. Returns the largest resident memory of all starts, in bytes."""
    process = run.start()
    try:
        code = process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        sys.exit(f"the run has not ended after {MOST_SECONDS} s:\n{run.log()}")
    if code != 0:
        sys.exit(f"the run ended with {code}:\n{run.log()}")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def check(run, options, peak):
    summary = json.loads((run.folder / "summary.json").read_text())
    ledger, answers = summary["ledger"], (run.folder / "answers.jsonl").read_text().splitlines()
    lags = [json.loads(line)["lag"]["max"] for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    lengths = [len(json.loads(line)["prompt"]) - 1 for line in answers]
    problems = [
        (summary["updates"] != options.updates, f"updates {summary['updates']}, expected {options.updates}"),
        (ledger["produced"] != sum(ledger[part] for part in PARTS), f"the ledger does not balance: {ledger}"),
        (ledger["dropped_stale"] > 0, f"answers were dropped as stale: {ledger}"),
        (max(lag for lag in lags if lag is not None) > 4, f"a lag above its cap of 4: {lags}"),
        (max(lag for lag in lags if lag is not None) == 0, "no lag at all, so the run shows nothing about it"),
        (peak > options.megabytes * 1024 * 1024, f"{peak} bytes resident, at most {options.megabytes} MiB expected"),
        (max(lengths) < 150, f"the longest prompt of the evaluations has {max(lengths)} digits"),
    ]
    for bad, text in problems:
        if bad:
            sys.exit(f"{text}\n{run.log()}")
    return summary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("TROUPE_BUILD_DIR", "build/release"))
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--keep", type=pathlib.Path, help="leave the files here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_prompts(folder)
        run = Run(options, folder)
        for kill in range(1, options.kills + 1):
            kill_after(run, kill * options.updates // (options.kills + 1))
        peak = finish(run)
        summary = check(run, options, peak)
        lengths = summary["last_start"]["answers"]
        print(
            f"{options.kills} kills, {summary['updates']} updates, at most {peak / 2**20:.0f} MiB resident, "
            f"{summary['ledger']['lost_in_crash']} answers lost in kills, "
            f"mean length {lengths['produced_length']:.1f} produced, {lengths['trained_length']:.1f} trained"
        )


if __name__ == "__main__":
    main()
