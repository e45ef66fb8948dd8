#!/usr/bin/env python3
"""A token run whose verifiers misbehave (verifiers.py) while a process is killed every few seconds.

    verifier_chaos.py [--build build/release] [--seconds 60] [--every 5]

In turn, SIGKILL meets a worker, an inference process, and the process of a verifier. The run has to make updates until the end, stop
at SIGINT, balance its ledger and leave no process behind. The answers on which the verifier failed have to be those that verifiers.py
has noted, and no answer may get a score that it did not give.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from python_env_chaos import MARK, require_running, wait_for_updates

GROUPS, ANSWERS, WORKERS = 8, 4, 2
PARTS = ("trained", "dropped_stale", "dropped_full", "lost_in_crash", "left_over", "filtered", "unscored", "verifier_failed", "waiting")
SETTINGS = [
    'task.params={"digits": 2}',
    'model.decoder={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}',
    "model.decoder.intermediate_size=48",
    "warmup.steps=0",
    "workers.count=0",
    f"workers.groups={GROUPS}",
    "inference.count=0",
    f"generation.answers={ANSWERS}",
    f"generation.answer_slots={WORKERS * GROUPS * ANSWERS}",
    "replay.max_policy_lag=4",
    "trainer.super_batch=64",
    "trainer.lr_schedule=constant",
    "evaluation.every_updates=0",
    "stop.env_steps=0",
    "stop.updates=1000000000",
    "task.verifier_timeout_ms=2000",
]


def verifiers(mark):
    """The numbers of the running processes of verifiers of the run with this mark."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                if b"verifier_server.py" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        except OSError:  # the process ended, or belongs to another user
            pass
    return found


class Run:
    """The processes of the run."""

    def __init__(self, troupe, temporary, mark):
        self.folder = temporary / "run"
        self.verifiers = temporary / "verifiers.py"
        shutil.copy("tests/process/verifiers.py", self.verifiers)
        (temporary / "done").touch()
        self._troupe, self._mark = troupe, mark
        self._output = open(temporary / "output", "w")
        words = ["train", "tokens/reverse", "--run", str(self.folder)]
        for setting in [*SETTINGS, f"task.verifier=py:{self.verifiers}:unreliable"]:
            words += ["--set", setting]
        self.trainer = self.start(words)
        deadline = time.monotonic() + 60
        while not (self.folder / "endpoints.json").exists() and time.monotonic() < deadline:
            require_running(self.trainer, 0.05)
        self._address = json.loads((self.folder / "endpoints.json").read_text())["workers"]
        self.others = {kind: [self.join(kind) for _ in range(WORKERS)] for kind in ("worker", "inference")}

    def start(self, words):
        return subprocess.Popen([self._troupe, *words], stdout=self._output, stderr=self._output, env={**os.environ, MARK: self._mark})

    def join(self, kind):
        return self.start([kind, "--connect", self._address])

    def kill(self, kind):
        """Kills a process of this kind, and starts another one unless the run does so itself. Returns whether there was one."""
        if kind == "verifier":
            running = verifiers(self._mark)
            if running:
                os.kill(running[0], signal.SIGKILL)
            return bool(running)
        victim = self.others[kind].pop(0)
        victim.kill()
        victim.wait()
        self.others[kind].append(self.join(kind))
        return True

    def end(self):
        """Stops the run and returns its exit code."""
        self.trainer.send_signal(signal.SIGINT)
        code = self.trainer.wait(60)
        for processes in self.others.values():
            for process in processes:
                process.wait(60)
        return code

    def kill_all(self):
        for process in [self.trainer, *(p for processes in getattr(self, "others", {}).values() for p in processes)]:
            process.kill()
            process.wait()


def check(folder, done, killed):
    """The numbers of answers on which the verifier failed, and of calls that failed."""
    summary = json.loads((folder / "summary.json").read_text())
    ledger = summary["ledger"]
    if ledger["produced"] != sum(ledger[part] for part in PARTS) or ledger["produced"] == 0:
        sys.exit(f"the ledger does not balance: {ledger}")
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        episodes = json.loads(line)["episodes"]
        if episodes["count"] > 0 and episodes["return_mean"] != 1:
            sys.exit(f"the mean reward is {episodes['return_mean']}, expected 1, which every score is: {line}")
    # A kill of a worker, and the end of the run, can take the groups that are scored then: fewer than 50 answers of a worker. A kill of
    # a verifier can be the second failure of a call.
    failed, noted = ledger["verifier_failed"], done.count("nan")
    least, most = noted - killed["worker"] - WORKERS, noted + killed["verifier"] * ANSWERS
    if not least <= failed <= most:
        sys.exit(f"the verifier failed on {failed} answers, expected {least} to {most}; noted: {noted}")
    return failed, summary["last_start"]["verifier"]["failed_calls"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("TROUPE_BUILD_DIR", "build/release"))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--every", type=float, default=5)
    options = parser.parse_args()
    mark = f"{os.getpid()}-{time.time_ns()}"
    killed = {"worker": 0, "inference": 0, "verifier": 0}
    with tempfile.TemporaryDirectory() as temporary:
        run = Run(f"{options.build}/troupe", pathlib.Path(temporary), mark)
        try:
            end, kinds = time.monotonic() + options.seconds, list(killed)
            while time.monotonic() < end:
                require_running(run.trainer, options.every)
                kind = kinds[sum(killed.values()) % len(kinds)]
                killed[kind] += run.kill(kind)
                updates = wait_for_updates(run.trainer, run.folder, 1, 60)
            code = run.end()
        finally:
            run.kill_all()
        if code != 130:
            sys.exit(f"exit code {code}, expected 130")
        deadline = time.monotonic() + 10  # they are killed when their worker ends, and need a moment for that
        while (left := verifiers(mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if left:
            sys.exit(f"processes left behind: {left}")
        done = (run.folder.parent / "done").read_text().split()
        failed, calls = check(run.folder, done, killed)
    print(f"{updates} updates; killed: {killed}; the verifier failed on {failed} answers and in {calls} calls; faults noted: {len(done)}")


if __name__ == "__main__":
    main()
