"""Callbacks of troupe.train, and what they or a signal handler raise."""

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

import run_envs  # noqa: E402
from run_support import SMALL, Record, checkpoints, servers_of  # noqa: E402

import troupe  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_what_a_slow_callback_has_not_taken_is_limited():
    from troupe._run import _Events

    events = _Events()
    for number in range(5000):
        events.put("line", str(number))
        failed = {"count": (number + 50) // 200}
        events.put("report", {"updates": number, "eval": {"updates": number // 100}, "failed_evaluations": failed})
    events.put("end", 0)
    taken = []
    while not taken or taken[-1][0] != "end":
        taken.append(events.get())
    lines = [value for kind, value in taken if kind == "line"]
    reports = [value for kind, value in taken if kind == "report"]
    assert lines == ["(4000 lines before this one were dropped, because a callback took so long)", *map(str, range(4000, 5000))]
    assert len(reports) == _Events.MOST_REPORTS and reports[-1]["updates"] == 4999
    assert sorted({report["eval"]["updates"] for report in reports}) == list(range(50))
    assert sorted({report["failed_evaluations"]["count"] for report in reports}) == list(range(26))
    assert [report["updates"] for report in reports] == sorted(report["updates"] for report in reports)


def test_a_run_in_the_background_is_stopped_with_a_checkpoint():
    trained = threading.Event()

    class Watch:
        def on_report(self, run, report):
            if report["updates"] > 0:
                trained.set()

    run = troupe.train(SMALL, env="CartPole-v1", callbacks=[Watch()], blocking=False, stop__env_steps=10**9, quiet=True)
    assert trained.wait(30) and run.running and run.summary is None
    run.stop()
    run.stop()
    assert run.wait() is run and run.wait() is run and run.exit_code == 130
    assert checkpoints(run.folder)[-1] == run.summary["updates"] > 0


@pytest.mark.parametrize("name", ["on_report", "on_checkpoint", "on_end"])
def test_a_callback_that_raises_stops_the_run(name):
    failing = type("Failing", (), {name: lambda self, *arguments: {}["no such key"]})()
    record = Record()
    settings = {"stop.env_steps": 10**9 if name != "on_end" else 3000, "checkpoint.every_updates": 2}
    with pytest.raises(KeyError, match="no such key"):
        troupe.train(SMALL, env="CartPole-v1", callbacks=[failing, record], run_dir="failing", quiet=True, **settings)
    assert record.of("end") == [0 if name == "on_end" else 130]
    summary = json.loads(Path("failing/summary.json").read_text())
    assert checkpoints("failing")[-1] == summary["updates"]


class Stops(BaseException):
    pass


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("error", [SystemExit("enough"), GeneratorExit(), Stops()])
def test_a_callback_that_raises_what_is_no_error_stops_the_run_too(error, blocking):
    processes, record = [], Record()

    class Leave:
        def on_report(self, run, report):
            if report["updates"] > 0:
                processes.extend([run._child.pid, *servers_of(run._child.pid)])
                raise error

    with pytest.raises(type(error)) as caught:
        troupe.train(
            SMALL, env=run_envs.Pole, callbacks=[Leave(), record], blocking=blocking, run_dir="run", quiet=True, stop__env_steps=10**9
        ).wait()
    assert caught.value is error and record.of("end") == [130]
    assert len(processes) > 1 and not any(Path(f"/proc/{pid}").exists() for pid in processes)
    assert checkpoints("run")[-1] == json.loads(Path("run/summary.json").read_text())["updates"] > 0


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_signal_handler_that_raises_while_python_waits_stops_the_run(error, blocking):
    processes = []

    def leave(number, frame):
        raise error

    class Tell:
        def on_report(self, run, report):
            if report["updates"] > 0 and not processes:
                processes.append(run._child.pid)
                os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit) if error is SystemExit else contextlib.nullcontext():  # Ctrl-C returns the run
            troupe.train(
                SMALL, env="CartPole-v1", callbacks=Tell(), blocking=blocking, run_dir="run", quiet=True, stop__env_steps=10**9
            ).wait()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not Path(f"/proc/{processes[0]}").exists()
    assert checkpoints("run")[-1] == json.loads(Path("run/summary.json").read_text())["updates"] > 0


def test_output_that_cannot_be_written_stops_the_run(monkeypatch):
    with open("output", "w") as closed:
        pass
    monkeypatch.setattr(sys, "stdout", closed)
    record = Record()
    with pytest.raises(ValueError, match="closed file"):
        troupe.train(SMALL, env="CartPole-v1", callbacks=record, run_dir="run", stop__env_steps=10**9)
    assert record.of("end") == [130]
