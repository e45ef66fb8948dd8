#!/usr/bin/env python3
"""Sends the records of a run to Weights & Biases: wandb_run.py RUN [--project NAME] [--follow]

RUN is the run folder of a run that is over, or with --follow of one that goes on: then the program ends with it. With
WANDB_MODE=offline nothing leaves the machine until `wandb sync`."""

import argparse
import json
import math
import pathlib
import sys
import time

import wandb


def figures(record, before=""):
    """The numbers of a record by the names that docs/metrics.md has: {"lag.p95": 1.0}."""
    result = {}
    for name, value in record.items():
        if isinstance(value, dict):
            result |= figures(value, f"{before}{name}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            result[before + name] = value
    return result


def records(folder, follow):
    """The records of metrics.jsonl. With `follow`, those that come too, until the run has ended."""
    with open(folder / "metrics.jsonl", encoding="utf-8") as file:
        while True:
            running = follow and (folder / "endpoints.json").exists()  # it is removed at the end
            place = file.tell()
            while (line := file.readline()).endswith("\n"):
                yield json.loads(line)
                place = file.tell()
            if not running:
                return
            file.seek(place)  # the rest of this line is still being written
            time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--project", default="troupe")
    parser.add_argument("--follow", action="store_true")
    given = parser.parse_args()
    try:
        config = json.loads((given.run / "config.json").read_text())
        with wandb.init(project=given.project, name=given.run.resolve().name, config=config) as run:
            run.define_metric("env_steps")
            run.define_metric("*", step_metric="env_steps")
            count = 0
            if given.follow:
                print(f"{given.run}: following it to its end", flush=True)
            for record in records(given.run, given.follow):
                run.log(figures(record))
                count += 1
    except (OSError, ValueError) as error:
        return f"{given.run}: {error}"
    print(f"{given.run}: {count} records")
    return None


if __name__ == "__main__":
    sys.exit(main())
