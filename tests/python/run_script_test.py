"""Scripts that call troupe.train: their terminal, Ctrl-C, and a Python that is killed or ends."""

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap

import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

from run_support import HERE, checkpoints, servers_of  # noqa: E402


pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_the_example_trains_and_plays(tmp_path):
    example = HERE.parents[1] / "examples/python/train_pole.py"
    done = subprocess.run([sys.executable, example, "20000"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert "mean return of the last evaluation: " in done.stdout
    assert float(done.stdout.split()[-1]) > 8


def start_script(tmp_path, body):
    """A script that trains an environment of its own. Its output has a line "updates" when the first update is done."""
    script = tmp_path / "my_training.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        + textwrap.dedent(
            """
            import run_envs, run_support, troupe

            class Mine(run_envs.Pole):  # belongs to __main__, so it is sent by cloudpickle
                pass

            class Tell:
                told = False
                def on_report(self, run, report):
                    if report["updates"] > 0 and not self.told:
                        self.told = True
                        print("updates", run._child.pid, flush=True)
            """
        )
        + textwrap.dedent(body)
    )
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True)


def test_lines_fit_the_terminal_in_which_python_runs(tmp_path):
    reader, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    body = f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport run_support, troupe\n"
    body += "troupe.train(run_support.SMALL, env='CartPole-v1', stop__updates=3, stop__env_steps=0, stats__interval_ms=10)\n"
    script = subprocess.Popen([sys.executable, "-c", body], stdout=terminal, cwd=tmp_path)
    os.close(terminal)
    output = b""
    with contextlib.suppress(OSError):  # the terminal is closed
        while part := os.read(reader, 4096):
            output += part
    os.close(reader)
    assert script.wait(30) == 0
    lines = [line for line in output.decode().splitlines() if "steps " in line and "/s)" in line]
    assert len(lines) > 1
    assert max(map(len, lines)) < 80, lines


def child_of(script):
    for line in script.stdout:
        if line.startswith("updates "):
            return int(line.split()[1])
    raise AssertionError("the script ended before the first update")


def wait_for_end(pids):
    """Returns when all processes have ended: a pidfd is readable then."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([descriptor], [], [], 20)
        os.close(descriptor)
        assert ready, f"process {pid} has not ended"


def test_ctrl_c_stops_the_run_with_a_checkpoint_and_returns_it(tmp_path):
    script = start_script(
        tmp_path,
        """
        run = troupe.train(run_support.SMALL, env=Mine, callbacks=Tell(), stop__env_steps=10**9, quiet=True)
        print("returned", run.exit_code, run.summary["updates"], flush=True)
        """,
    )
    child_of(script)
    os.killpg(script.pid, signal.SIGINT)  # as a terminal does
    output, _ = script.communicate(timeout=300)
    word, code, updates = output.split()[-3:]
    assert (script.returncode, word, code) == (0, "returned", "130")
    assert checkpoints(tmp_path / "runs/Mine")[-1] == int(updates) > 0


@pytest.mark.parametrize("blocking", [True, False])
def test_the_child_ends_with_a_python_that_is_killed(tmp_path, blocking):
    script = start_script(
        tmp_path,
        f"""
        run = troupe.train(run_support.SMALL, env=Mine, callbacks=Tell(), stop__env_steps=10**9, quiet=True, blocking={blocking})
        run.wait()
        """,
    )
    child = child_of(script)
    processes = [child, *servers_of(child)]
    assert len(processes) > 1
    script.kill()
    script.wait()
    wait_for_end(processes)
    summary = json.loads((tmp_path / "runs/Mine/summary.json").read_text())
    assert checkpoints(tmp_path / "runs/Mine")[-1] == summary["updates"] > 0


def test_a_script_that_ends_stops_its_run(tmp_path):
    script = start_script(
        tmp_path,
        """
        import threading
        done = threading.Event()
        Tell.on_checkpoint = lambda self, run, path: done.set()
        troupe.train(run_support.SMALL, env=Mine, callbacks=Tell(), stop__env_steps=10**9, quiet=True, blocking=False,
                     checkpoint__every_updates=1)
        done.wait()
        """,
    )
    child = child_of(script)
    assert script.wait(timeout=300) == 0
    wait_for_end([child])
    assert (tmp_path / "runs/Mine/summary.json").is_file()
