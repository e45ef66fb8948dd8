#!/usr/bin/env python3
"""What the scripts that measure runs leave behind when a run does not begin, or ends early."""

import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import check_prometheus
import measure_alarms


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


if __name__ == "__main__":
    unittest.main()
