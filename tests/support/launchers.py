"""The launchers of ranks on this machine, each with what it needs to run the examples in examples/launch unchanged.

A function or class named after a launcher changes the environment of a process that is to call it, and writes into a temporary folder. It
raises Missing, with the reason, if this machine lacks the launcher.
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys

from tests.support.events import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
SSH = """#!/bin/sh
# ssh -tt HOST COMMAND, on this machine.
exec setsid sh -c "exec $(printf %s "$3" | sed 's/^cd .* && TROUPE/env TROUPE/')"
"""
TORCHRUN = f"""#!/bin/sh
exec "{sys.executable}" -m torch.distributed.run "$@"
"""
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
FirstJobId={first_job}
NodeName=127.0.0.[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{second}] State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Missing(Exception):
    """This machine lacks a launcher."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def environment_of(folder, build):
    """The environment of this process, in which `troupe` is the program of a build, and programs in folder/bin come first."""
    (folder / "bin").mkdir()
    return dict(os.environ, PATH=f"{folder}/bin:{build}:{os.environ['PATH']}")


def need(environment, *programs):
    for program in programs:
        if not shutil.which(program, path=environment["PATH"]):
            raise Missing(f"there is no {program}")


def write_program(file, text):
    file.write_text(text)
    file.chmod(0o755)


def kill_rank_0(run_folder):
    """Kills rank 0 if the run goes on. The launcher then ends the others."""
    endpoints = run_folder / "endpoints.json"
    if endpoints.exists():
        with contextlib.suppress(ProcessLookupError):
            os.kill(json.loads(endpoints.read_text())["pid"], signal.SIGKILL)


def torchrun(folder, environment):
    """That of the PyTorch of this interpreter."""
    if importlib.util.find_spec("torch") is None:
        raise Missing("there is no torchrun, because Python has no torch")
    write_program(folder / "bin/torchrun", TORCHRUN)


def open_mpi(folder, environment):
    """Open MPI, also as root and with more ranks than cores."""
    need(environment, "mpirun.openmpi")
    os.symlink(shutil.which("mpirun.openmpi", path=environment["PATH"]), folder / "bin/mpirun")
    allowed = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe")
    environment.update(dict.fromkeys(allowed, "1"))


def ssh(folder, environment):
    """A program that takes the place of ssh, and two names of this machine."""
    write_program(folder / "bin/ssh", SSH)
    environment["HOSTS"] = "127.0.0.1 localhost"


class Slurm:
    """Two nodes on this machine, whose names are addresses of it, until close(). munged, slurmctld and two slurmd keep all their files in
    the folder, so that they are independent of a Slurm that this machine may belong to. slurmctld saves what it knows of nodes and jobs
    there within seconds after a change."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment
        need(environment, "munged", "slurmctld", "slurmd", "srun", "sbatch")
        if os.geteuid() != 0:
            raise Missing("Slurm is started by root only")
        self.daemons, self.ready = contextlib.ExitStack(), False
        try:
            self.start()
            self.ready = True
        except BaseException:
            self.close()
            raise

    def start(self):
        host = socket.gethostname()
        for name in ("munge", "state", "127.0.0.1", "127.0.0.2"):
            (self.folder / name).mkdir()
        munge = self.folder / "munge"
        key = munge / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = [f"--{what}-file={munge}/{name}" for what, name in {"key": "key", "pid": "pid", "log": "log", "seed": "seed"}.items()]
        self.daemon("munged", "--foreground", "--force", f"--socket={munge}/socket", *files)
        wait_for((munge / "socket").exists, "munged", self.folder)
        config = self.folder / "slurm.conf"
        port = free_port()
        # Rank 0 listens on a port that follows from the number of the job: not on that of another test at the same time.
        numbers = {"first": port, "second": port + 1, "controller": free_port(), "first_job": port}
        config.write_text(SLURM.format(host=host, folder=self.folder, **numbers))
        self.environment["SLURM_CONF"] = str(config)
        self.daemon("slurmctld", "-D")
        for node in ("127.0.0.1", "127.0.0.2"):
            self.daemon("slurmd", "-D", "-N", node)
        wait_for(lambda: self.ask("sinfo", "-h", "-o", "%D %t") == "2 idle", "two idle nodes", self.folder)

    def daemon(self, *command):
        with open(self.folder / f"{command[0]}.out", "ab") as output:
            process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        self.daemons.callback(process.wait)
        self.daemons.callback(process.terminate)

    def ask(self, *command):
        """What a command of Slurm prints."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout.strip()

    def cancel_jobs(self):
        """Their processes would outlive the daemons."""
        self.ask("scancel", "--state=PENDING")
        self.ask("scancel", "--signal=KILL", "--full", "--state=RUNNING")
        wait_for(lambda: self.ask("squeue", "-h") == "", "end of the jobs of Slurm", self.folder)

    def close(self):
        try:
            if self.ready:
                self.cancel_jobs()
        finally:
            self.daemons.close()
