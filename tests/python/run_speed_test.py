"""The time from the call of troupe.train to the first update."""

import time

import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

import run_envs  # noqa: E402
from run_support import SMALL, use_built_program  # noqa: E402

import troupe  # noqa: E402


def test_the_first_update_comes_within_three_seconds_of_the_call(tmp_path, monkeypatch):
    use_built_program(monkeypatch)
    monkeypatch.chdir(tmp_path)
    seconds = []

    class Watch:
        def on_report(self, run, report):
            if report["updates"] > 0:
                seconds.append(time.monotonic() - begin)

    settings = {"stop.updates": 30, "stats.interval_ms": 100, "evaluation.episodes": 1}
    begin = time.monotonic()
    run = troupe.train(SMALL, env=lambda: run_envs.Pole(), callbacks=Watch(), quiet=True, run_dir="first", **settings)
    print(f"first update: {run.summary['last_start']['seconds_to_first_update']:.2f} s of the program, {seconds[0]:.2f} s after the call")
    assert seconds[0] < 3
