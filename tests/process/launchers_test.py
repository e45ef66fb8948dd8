#!/usr/bin/env python3
"""The examples in examples/launch with the launchers of this machine: torchrun, Open MPI, Slurm, and ssh, which a program of the test
replaces. Each trains on two ranks until a signal ends the run, and resumes it.

    launchers_test.py BUILD

A launcher that is missing is skipped with a message. Slurm needs root: the test starts munged, slurmctld and two slurmd of its own, all
on this machine and in a temporary folder. The test is skipped if nothing could be tried (exit code 77).
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support import events, launchers  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build/release"
SETTINGS = (
    "stats.interval_ms=100 trainer.super_batch=1024 rollout.length=16 env.rows=8 evaluation.every_updates=0 "
    "stop.env_steps=0 stop.updates=1000000"
).split()


class Example(unittest.TestCase):
    tried = 0

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="launch")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.run_folder = self.folder / "run"
        self.environment = launchers.environment_of(self.folder, BUILD)

    def prepare(self, launcher):
        """Skips the test if this machine lacks the launcher."""
        try:
            return launcher(self.folder, self.environment)
        except launchers.Missing as missing:
            self.skipTest(str(missing))

    def example(self, name, replaced=("", "")):
        """A copy of an example, with the line changed that its comment says to change."""
        lines = (ROOT / "examples/launch" / name).read_text().split("\n")
        settings = " ".join(f"--set {setting}" for setting in SETTINGS)
        train = f'train="cartpole --run {self.run_folder} {settings}"'
        text = "\n".join(train if line.startswith("train=") else line for line in lines)
        self.assertIn(train, text)
        self.assertIn(replaced[0], text)
        text = text.replace(*replaced) if replaced[0] else text
        file = self.folder / name
        file.write_text(text)
        return str(file)

    def start(self, command):
        output = open(self.folder / "output", "ab")
        self.addCleanup(output.close)
        # In a group of its own, as a shell starts it: Ctrl-C reaches all of it.
        process = subprocess.Popen(command, env=self.environment, cwd=self.folder, stdout=output, stderr=output, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(launchers.kill_rank_0, self.run_folder)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        return process

    def wait_for(self, condition, what, process=None):
        try:
            events.wait_for(condition, what, self.folder, process)
        except AssertionError as error:
            self.fail(f"{error}\n{self.output()}\n{self.log()}")

    def log(self):
        file = self.run_folder / "log.txt"
        return file.read_text() if file.exists() else ""

    def output(self):
        file = self.folder / "output"
        return file.read_text() if file.exists() else ""

    def updates(self):
        file = self.run_folder / "metrics.jsonl"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return json.loads(lines[-1])["updates"] if lines else 0

    def check_stopped(self, found):
        """The run has ended with a checkpoint of its last update, and without losing a rank. Returns the number of its updates."""
        self.wait_for((self.run_folder / "summary.json").exists, "summary")
        self.assertIn(found, self.log())
        self.assertNotIn("is gone", self.log())
        summary = json.loads((self.run_folder / "summary.json").read_text())
        self.assertEqual(summary["reason"], "interrupted")
        newest = max(int(path.name) for path in (self.run_folder / "checkpoints").iterdir() if path.name.isdigit())
        self.assertEqual(newest, summary["updates"])
        return newest

    def check_signals(self, command, found, to_group=False):
        """Starts the run, stops it with TERM or Ctrl-C, and again."""
        updates = 0
        for _ in range(2):
            (self.run_folder / "summary.json").unlink(missing_ok=True)
            process = self.start(command)
            self.wait_for(lambda: self.updates() >= updates + 3 or process.poll() is not None, "update", process)
            self.assertIsNone(process.poll(), self.output())
            os.killpg(process.pid, signal.SIGINT) if to_group else process.terminate()
            process.wait(events.PATIENCE)
            updates = self.check_stopped(found)
        Example.tried += 1


class Launchers(Example):
    def test_torchrun(self):
        self.prepare(launchers.torchrun)
        self.check_signals(["sh", self.example("torchrun.sh")], "rank 0 of 2 (torchrun: RANK)")

    def test_mpi(self):
        self.prepare(launchers.open_mpi)
        self.check_signals(["sh", self.example("mpi.sh")], "rank 0 of 2 (MPI: OMPI_COMM_WORLD_RANK)")

    def test_mpi_at_a_terminal(self):
        self.prepare(launchers.open_mpi)
        self.check_signals(["sh", self.example("mpi.sh")], "rank 0 of 2 (MPI: OMPI_COMM_WORLD_RANK)", to_group=True)

    def test_ssh(self):
        self.prepare(launchers.ssh)
        self.check_signals(["sh", self.example("ssh.sh", ("5599", str(launchers.free_port())))], "rank 0 of 2 (TROUPE_RANK)")


class Slurm(Example):
    def setUp(self):
        super().setUp()
        nodes = self.prepare(launchers.Slurm)
        self.addCleanup(nodes.close)
        self.ask = nodes.ask

    def test_a_job_is_queued_again_before_its_limit(self):
        script = self.example("slurm.sbatch")
        output = self.folder / "output"
        job = self.ask("sbatch", "--parsable", "--chdir", str(self.folder), "--output", str(output), script)
        self.wait_for(lambda: self.updates() >= 3, "update")
        self.assertEqual(self.ask("scancel", "--signal=USR1", job), "")  # as Slurm does 60 s before the limit
        first = self.check_stopped("rank 0 of 2 (Slurm: SLURM_PROCID)")
        self.wait_for(lambda: self.ask("squeue", "-h", "-j", job, "-o", "%t") == "PD", "requeue")
        (self.run_folder / "summary.json").unlink()
        self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
        self.wait_for(lambda: self.updates() >= first + 3, "update")
        self.ask("scancel", job)
        self.check_stopped("rank 0 of 2 (Slurm: SLURM_PROCID)")
        self.wait_for(lambda: self.ask("squeue", "-h", "-j", job) == "", "end of the job")
        Example.tried += 1


if __name__ == "__main__":
    program = unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(0 if Example.tried else 77)
