#!/usr/bin/env python3
"""A real training run whose environments in Python fail in all ways while their processes are killed and frozen.

    python_env_chaos.py [--build build/release] [--seconds 8]

Every second one server process gets SIGKILL or SIGSTOP. The environments raise, exit, return NaN and wrong shapes, and print. The
run has to make updates until the end, stop at SIGINT, balance its ledger, and leave no process behind. Its shared memory must
not grow.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SETTINGS = [
    "env.id=py:tests/envs/bridge/environments.py:Unreliable",
    "env.params={}",
    "env.rows=8",
    "env.processes=2",
    "env.step_timeout_ms=3000",
    "workers.count=2",
    "workers.restart_backoff_ms=10",
    "stop.env_steps=0",
    "stop.updates=1000000000",
    "evaluation.every_updates=0",
]
GROUPS = 4  # 2 workers with 2 groups each
MARK = "TROUPE_CHAOS"


def servers(mark):
    """The numbers of the running server processes of the run with this mark."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                if b"env_server.py" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        except OSError:  # the process ended, or belongs to another user
            pass
    return found


def shared_memory(pid):
    """How many blocks of shared memory of environments a process has open."""
    count = 0
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            count += "memfd:troupe-env" in os.readlink(link)
        except OSError:
            pass
    return count


def updates_of(folder):
    try:
        lines = (folder / "metrics.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        try:
            return json.loads(line).get("updates", 0)
        except ValueError:  # the last line is being written
            continue
    return 0


def require_running(run, seconds):
    """Lets the run go on for so long, and fails if it ends."""
    try:
        sys.exit(f"the run ended with {run.wait(seconds)}")
    except subprocess.TimeoutExpired:
        pass


def wait_for_updates(run, folder, more, seconds):
    """Waits until the run has made `more` updates. Returns how many it has made."""
    deadline, goal = time.monotonic() + seconds, updates_of(folder) + more
    while updates_of(folder) < goal:
        if time.monotonic() > deadline:
            sys.exit(f"{updates_of(folder)} updates after {seconds} s, expected {goal}")
        require_running(run, 0.05)
    return updates_of(folder)


def torment(run, mark, seconds, draw):
    """One signal a second for so many seconds. Returns how many of each were sent."""
    sent = {signal.SIGKILL: 0, signal.SIGSTOP: 0}
    for _ in range(seconds):
        require_running(run, 1)
        running = servers(mark)
        if not running:
            continue
        which = draw.choice(list(sent))
        try:
            os.kill(draw.choice(running), which)
            sent[which] += 1
        except ProcessLookupError:  # an environment has just ended it
            pass
    return sent


def check(summary):
    ledger = summary["ledger"]
    parts = ("trained", "dropped_stale", "dropped_full", "lost_in_crash", "left_over", "waiting")
    total = sum(ledger.get(part, 0) for part in parts)
    if ledger["produced"] != total or total == 0:
        sys.exit(f"the ledger does not balance: {ledger}")
    failures = sum(summary["env_failures"].values())
    if failures == 0:
        sys.exit("no environment failed, expected failures")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("TROUPE_BUILD_DIR", "build/release"))
    parser.add_argument("--seconds", type=int, default=8)
    options = parser.parse_args()
    python = os.environ.get("TROUPE_PYTHON", sys.executable)
    mark, draw = f"{os.getpid()}-{time.time_ns()}", random.Random(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "run"
        words = [f"{options.build}/troupe", "train", "cartpole", "--run", str(folder), "--set", f"env.python={python}"]
        for setting in SETTINGS:
            words += ["--set", setting]
        with open(pathlib.Path(temporary) / "output", "w") as output:
            run = subprocess.Popen(words, stdout=output, stderr=output, env={**os.environ, MARK: mark})
            try:
                wait_for_updates(run, folder, 1, 60)
                sent = torment(run, mark, options.seconds, draw)
                updates = wait_for_updates(run, folder, 2, 60)
                blocks = shared_memory(run.pid)
                run.send_signal(signal.SIGINT)
                code = run.wait(60)
            finally:
                if run.poll() is None:
                    run.kill()
                    run.wait()
        if code != 130:
            sys.exit(f"exit code {code}, expected 130")
        if blocks > GROUPS * 2 + 2:
            sys.exit(f"{blocks} blocks of shared memory, expected at most {GROUPS * 2 + 2}")
        # They are killed when the run ends, and need a moment for that.
        deadline = time.monotonic() + 10
        while (left := servers(mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            sys.exit(f"processes left behind: {left}")
        failures = check(json.loads((folder / "summary.json").read_text()))
    print(f"{updates} updates, {failures} failures, {sent[signal.SIGKILL]} kills, {sent[signal.SIGSTOP]} stops")


if __name__ == "__main__":
    main()
