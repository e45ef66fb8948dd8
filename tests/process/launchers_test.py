#!/usr/bin/env python3
"""The examples in examples/launch with the launchers of this machine: torchrun, Open MPI, Slurm, and ssh, which a program of the test
replaces. Each trains on two ranks until a signal ends the run, and resumes it.

    launchers_test.py BUILD

A launcher that is missing is skipped with a message. Slurm needs root: the test starts munged, slurmctld and two slurmd of its own, all
on this machine and in a temporary folder. The test is skipped if nothing could be tried (exit code 77).
"""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build/release"
PATIENCE = 180  # seconds, for a busy machine
SETTINGS = (
    "stats.interval_ms=100 trainer.super_batch=1024 rollout.length=16 env.rows=8 evaluation.every_updates=0 "
    "stop.env_steps=0 stop.updates=1000000"
).split()
SSH = """#!/bin/sh
# ssh -tt HOST COMMAND, on this machine.
exec setsid sh -c "exec $(printf %s "$3" | sed 's/^cd .* && TROUPE/env TROUPE/')"
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"no {what} within {PATIENCE} s")
        time.sleep(0.1)


class Example(unittest.TestCase):
    tried = 0

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="launch")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.run_folder = self.folder / "run"
        (self.folder / "bin").mkdir()
        self.environment = dict(os.environ, PATH=f"{self.folder}/bin:{BUILD}:{os.environ['PATH']}")

    def need(self, *programs):
        for program in programs:
            if not shutil.which(program, path=self.environment["PATH"]):
                self.skipTest(f"there is no {program}")

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
        self.addCleanup(self.kill_run)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        return process

    def kill_run(self):
        """Without rank 0 the launcher ends the others."""
        endpoints = self.run_folder / "endpoints.json"
        if endpoints.exists():
            os.kill(json.loads(endpoints.read_text())["pid"], signal.SIGKILL)

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
        wait_for(lambda: (self.run_folder / "summary.json").exists(), f"summary\n{self.output()}\n{self.log()}")
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
            wait_for(lambda: self.updates() >= updates + 3 or process.poll() is not None, f"update\n{self.output()}")
            self.assertIsNone(process.poll(), self.output())
            os.killpg(process.pid, signal.SIGINT) if to_group else process.terminate()
            process.wait(PATIENCE)
            updates = self.check_stopped(found)
        Example.tried += 1


class Launchers(Example):
    def test_torchrun(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("there is no torchrun, because Python has no torch")
        script = self.folder / "bin/torchrun"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m torch.distributed.run "$@"\n')
        script.chmod(0o755)
        self.check_signals(["sh", self.example("torchrun.sh")], "rank 0 of 2 (torchrun: RANK)")

    def prepare_mpi(self):
        self.need("mpirun.openmpi")
        os.symlink(shutil.which("mpirun.openmpi"), self.folder / "bin/mpirun")
        self.environment |= {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }

    def test_mpi(self):
        self.prepare_mpi()
        self.check_signals(["sh", self.example("mpi.sh")], "rank 0 of 2 (MPI: OMPI_COMM_WORLD_RANK)")

    def test_mpi_at_a_terminal(self):
        self.prepare_mpi()
        self.check_signals(["sh", self.example("mpi.sh")], "rank 0 of 2 (MPI: OMPI_COMM_WORLD_RANK)", to_group=True)

    def test_ssh(self):
        script = self.folder / "bin/ssh"
        script.write_text(SSH)
        script.chmod(0o755)
        self.environment["HOSTS"] = "127.0.0.1 localhost"
        self.check_signals(["sh", self.example("ssh.sh", ("5599", str(free_port())))], "rank 0 of 2 (TROUPE_RANK)")


SLURM = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
NodeName=127.0.0.[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{second}] State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(Example):
    """Two nodes on this machine, whose names are addresses of it."""

    def setUp(self):
        super().setUp()
        self.need("munged", "slurmctld", "slurmd", "srun", "sbatch")
        if os.geteuid() != 0:
            self.skipTest("Slurm is started by root only")
        host = socket.gethostname()
        for folder in ("munge", "state", "127.0.0.1", "127.0.0.2"):
            (self.folder / folder).mkdir()
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        munge = self.folder / "munge"
        self.daemon(
            "munged",
            "--foreground",
            "--force",
            f"--key-file={key}",
            f"--socket={munge}/socket",
            f"--pid-file={munge}/pid",
            f"--log-file={munge}/log",
            f"--seed-file={munge}/seed",
        )
        wait_for((munge / "socket").exists, "munged")
        config = self.folder / "slurm.conf"
        port = free_port()
        config.write_text(SLURM.format(host=host, folder=self.folder, controller=free_port(), first=port, second=port + 1))
        self.environment["SLURM_CONF"] = str(config)
        self.daemon("slurmctld", "-D")
        for node in ("127.0.0.1", "127.0.0.2"):
            self.daemon("slurmd", "-D", "-N", node)
        wait_for(lambda: self.ask("sinfo", "-h", "-o", "%D %t") == "2 idle", "two idle nodes")

    def daemon(self, *command):
        with open(self.folder / f"{command[0]}.out", "ab") as output:
            process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout.strip()

    def test_a_job_is_queued_again_before_its_limit(self):
        script = self.example("slurm.sbatch")
        output = self.folder / "output"
        job = self.ask("sbatch", "--parsable", "--chdir", str(self.folder), "--output", str(output), script)
        wait_for(lambda: self.updates() >= 3, f"update\n{self.output()}")
        self.assertEqual(self.ask("scancel", "--signal=USR1", job), "")  # as Slurm does 60 s before the limit
        first = self.check_stopped("rank 0 of 2 (Slurm: SLURM_PROCID)")
        wait_for(lambda: self.ask("squeue", "-h", "-j", job, "-o", "%t") == "PD", f"requeue\n{self.output()}")
        (self.run_folder / "summary.json").unlink()
        self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")
        wait_for(lambda: self.updates() >= first + 3, f"update\n{self.output()}")
        self.ask("scancel", job)
        self.check_stopped("rank 0 of 2 (Slurm: SLURM_PROCID)")
        wait_for(lambda: self.ask("squeue", "-h", "-j", job) == "", "end of the job")
        Example.tried += 1


if __name__ == "__main__":
    program = unittest.main(argv=sys.argv[:1] + sys.argv[2:], exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(0 if Example.tried else 77)
