#!/usr/bin/env python3
"""Runs the examples in examples/launch as they are, each with the launcher that it is for, and measures how long they take.

  tools/measure_launches.py

Each trains CartPole on two ranks to its end. Exits with 1 if one fails, or if its run ends with a return below 475. Needs Open MPI and
Slurm (tools/setup --launchers; Slurm also root), and a Python with torch for torchrun; skips the examples whose launcher is missing.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True
from tests.support import launchers  # noqa: E402

PATIENCE = 600  # seconds for a run
SOLVED = 475
LAUNCHERS = {
    "torchrun.sh": launchers.torchrun,
    "mpi.sh": launchers.open_mpi,
    "slurm.sbatch": launchers.Slurm,
    "ssh.sh": launchers.ssh,
}


def run_example(name, build, folder):
    """Seconds and return of the run that an example makes. Raises Missing if this machine lacks its launcher."""
    environment = launchers.environment_of(folder, build)
    prepared = LAUNCHERS[name](folder, environment)
    example, run = ROOT / "examples/launch" / name, folder / "runs/cartpole_ranks"
    command = ["sbatch", "--wait", example] if name.endswith(".sbatch") else ["sh", example]
    begun = time.monotonic()
    with open(folder / "output", "wb") as output, contextlib.ExitStack() as stack:
        if hasattr(prepared, "close"):
            stack.callback(prepared.close)
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True)
        stack.callback(process.wait)
        stack.callback(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        stack.callback(launchers.kill_rank_0, run)
        code = process.wait(PATIENCE)
    seconds = time.monotonic() - begun
    if code != 0:
        raise RuntimeError(f"ended with {code}: {(folder / 'output').read_text()[-2000:]}")
    return seconds, json.loads((run / "summary.json").read_text())["eval"]["return_mean"]


def measure(name, build):
    """Prints a line of the table. Returns whether the example does what it should, or cannot be run."""
    with tempfile.TemporaryDirectory(prefix="launch") as folder:
        try:
            seconds, result = run_example(name, build, pathlib.Path(folder))
        except launchers.Missing as missing:
            print(f"{name:16}skipped: {missing}")
            return True
        except (RuntimeError, AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f"{name:16}FAILED: {error}")
            return False
    print(f"{name:16}{seconds:8.1f}{result:8.1f}  {'solved' if result >= SOLVED else f'NOT solved, expected {SOLVED} or more'}")
    return result >= SOLVED


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder with the built program")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    print(f"{'example':16}{'seconds':>8}{'return':>8}")
    sys.exit(not all([measure(name, os.path.abspath(options.build)) for name in LAUNCHERS]))


if __name__ == "__main__":
    main()
