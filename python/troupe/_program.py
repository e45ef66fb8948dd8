"""Finds and starts the program `troupe`, which does the work of troupe.train, and turns its errors into RunError."""

import json
import os
import shutil
import signal
import subprocess
import sys

from troupe._launch import BUNDLED, bundled_environment
from troupe._words import in_python

# Runs in a fresh interpreter and becomes the program. The kernel sends TERM to the program when the thread that started it ends, so also
# after kill -9 of this process. The program then writes a checkpoint and ends.
_FOLLOW_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"troupe: {sys.argv[2]}: {error.strerror}")
"""


class RunError(RuntimeError):
    """The program refused or failed. The text is its one line; `exit_code` is 1 for a failure and 2 for a mistake in the config.

    `run` is the run (troupe.Run), which has ended: it has whatever was trained. None if no program was started.
    """

    run = None

    def __init__(self, text, exit_code=1):
        super().__init__(text)
        self.exit_code = exit_code


def find_program():
    """The path of the program: beside the package if it is bundled, else $TROUPE_PROGRAM, else in PATH. Raises RunError."""
    if os.path.isfile(BUNDLED):
        return BUNDLED
    named = os.environ.get("TROUPE_PROGRAM")
    if named:
        if not os.path.isfile(named) or not os.access(named, os.X_OK):
            raise RunError(f"TROUPE_PROGRAM is {named!r}, expected the path of the program troupe", 2)
        return os.path.abspath(named)
    found = shutil.which("troupe")
    if not found:
        raise RunError("the program troupe was not found: set TROUPE_PROGRAM to its path, or add its folder to PATH", 2)
    return os.path.abspath(found)


def _environment(program):
    environment = bundled_environment(os.environ) if program == BUNDLED else dict(os.environ)
    if sys.executable:  # the interpreter of environments in Python, unless the config names one
        environment["TROUPE_ENV_PYTHON"] = sys.executable
    return environment


def _columns():
    """The columns of the terminal that shows what this process prints; None if there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    except (AttributeError, OSError, ValueError):  # sys.stdout is replaced, closed or None
        return None


def start(arguments, python_path=()):
    """Starts the program with `arguments`: a Popen whose stdout has both outputs, as text. Call it in a thread that outlives the child.

    Its console lines fit into the terminal of this process. `python_path` are folders that environment servers search for modules before
    those of PYTHONPATH.
    """
    program = find_program()
    environment = _environment(program)
    if python_path:
        environment["PYTHONPATH"] = os.pathsep.join([*python_path, *filter(None, [environment.get("PYTHONPATH")])])
    if columns := _columns():
        environment["TROUPE_COLUMNS"] = str(columns)
    command = [sys.executable, "-I", "-S", "-c", _FOLLOW_PARENT, str(os.getpid()), program, *arguments]
    # In a session of its own, because Ctrl-C in a terminal would reach the program a second time, which ends it without a checkpoint.
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )


def error_of(exit_code, lines):
    """The RunError for an exit code other than 0, with the newest of the `lines` that is an error of the program."""
    errors = [line.removeprefix("troupe: ") for line in lines if line.startswith("troupe: ")]
    if errors:
        return RunError(errors[-1], max(exit_code, 1))
    if exit_code < 0:
        return RunError(f"the program was ended by {signal.Signals(-exit_code).name}")
    last = next((line for line in reversed(lines) if line), "without a message")
    return RunError(f"the program ended with exit code {exit_code}: {last}", exit_code)


def describe_env(env_id, settings=()):
    """The observations and actions of an environment: one object of `troupe envs ID --json`. `settings` are texts PATH=VALUE."""
    flags = [flag for setting in settings for flag in ("--set", setting)]
    program = find_program()
    done = subprocess.run(
        [program, "envs", env_id, "--json", *flags],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=_environment(program),
    )
    if done.returncode != 0:
        raise error_of(done.returncode, [in_python(line) for line in (done.stdout + done.stderr).splitlines()])
    return json.loads(done.stdout)[0]
