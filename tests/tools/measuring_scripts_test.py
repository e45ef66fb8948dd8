#!/usr/bin/env python3
"""What the scripts that measure runs leave behind when a run does not begin, or ends early."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_prometheus
import measure_alarms
import measure_runs


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)

    def program(self, does):
        path = self.place / "troupe"
        path.write_text(f"#!/bin/sh\necho $$ > {self.place}/pid\n{does}\n")
        path.chmod(0o755)
        return str(path)

    def check_gone(self):
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.place / "pid").read_text()), 0)

    def test_a_run_that_does_not_begin_is_ended(self):
        def fail(_what, _reached):
            while not (self.place / "pid").exists() or not (self.place / "pid").read_text():
                os.sched_yield()
            raise RuntimeError("not within 60 s")

        with mock.patch.object(check_prometheus, "wait_until", fail), self.assertRaisesRegex(RuntimeError, "not within"):
            check_prometheus.Run(self.program("exec sleep 600"), "cartpole", self.place / "run")
        self.check_gone()

    def test_a_run_that_ends_before_it_is_made_ill_is_an_error_with_its_output(self):
        program = self.program("echo no such config")
        with self.assertRaisesRegex(measure_alarms.Ended, "no such config"):
            measure_alarms.make_ill("nan", program, self.place, seed=1)
        self.check_gone()

    def test_runs_are_not_made_from_a_run_that_fails(self):
        with self.assertRaises(subprocess.CalledProcessError):
            measure_runs.make_runs(self.program("exit 1"), self.place, count=10, records=10)

    def test_records_that_are_made_have_growing_steps_and_evaluations_between(self):
        point = {"env_steps": 7, "updates": 3, "learner": {"kl": 0.5}, "eval": None, "episodes": {"count": 2, "return_mean": 1}}
        lines = [point, {**point, "eval": {"updates": 3, "return_mean": 1}}, {**point, "learner": {}}]
        (self.place / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        made = [json.loads(line) for line in measure_runs.records_of(self.place, seed=1, count=80).splitlines()]
        self.assertEqual([record["updates"] for record in made], list(range(1, 81)))
        self.assertEqual([record["updates"] for record in made if record["eval"]], [40, 80])
        self.assertTrue(all(record["learner"] == {"kl": 0.5} for record in made))

    def test_the_figures_that_the_page_compares_are_read_from_the_page(self):
        figures = measure_runs.figures_compared()
        self.assertLessEqual({"episodes.return_mean", "eval.return_mean", "busy.workers", "busy.machine", "lag.p50"}, set(figures))
        self.assertNotIn("lag.p95", figures)


if __name__ == "__main__":
    unittest.main()
