#!/usr/bin/env python3
"""Starts the programs under limits on the number of open files: file_limit_test.py BUILD_DIR."""

import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
TROUPE = f"{BUILD}/troupe"
PATIENCE = 60  # seconds; a test that passes never waits so long


def limited(soft, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class FileLimit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refused(self, limit, *words):
        with self.subTest(limit=limit, words=words):
            ended = subprocess.run(
                [TROUPE, *words],
                preexec_fn=limited(limit, limit),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(f"`ulimit -n` allows {limit} open files, at least ", ended.stderr)
            self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_too_low_a_limit_is_refused_with_the_numbers_and_nothing_is_written(self):
        for limit in (16, 32, 64, 127):
            self.refused(limit, "train", "cartpole", "--run", "run")
        for limit in (16, 32):
            for command in ("worker", "inference"):
                self.refused(limit, command, "--connect", "127.0.0.1:9", "--wait", "0")
            self.refused(limit, "node", "--listen", "127.0.0.1:0")
        self.refused(1000, "worker", "--connect", "127.0.0.1:9", "--wait", "0", "--count", "1000")

    def test_a_low_soft_limit_is_raised(self):
        words = ["train", "cartpole", "--run", "run", "--set", "stop.updates=1", "--set", "stop.env_steps=0"]
        ended = subprocess.run(
            [TROUPE, *words],
            preexec_fn=limited(32, 1024),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_spawn_on_a_full_node_reports_the_workers_started_and_ends_with_1(self):
        words = ["train", "cartpole", "--run", "run", "--set", "inference.count=0", "--set", "workers.count=0"]
        train = subprocess.Popen([TROUPE, *words], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(train.wait)
        self.addCleanup(train.kill)
        self.assertTrue(eventually((self.folder / "run/endpoints.json").exists))
        run = json.loads((self.folder / "run/endpoints.json").read_text())["workers"]
        node = subprocess.Popen(
            [TROUPE, "node", "--listen", "127.0.0.1:0"],
            preexec_fn=limited(40, 40),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(node.stdout.close)
        self.addCleanup(node.wait)
        self.addCleanup(node.kill)
        address = node.stdout.readline().split()[-1]

        def spawn(workers):
            command = [TROUPE, "spawn", "--node", address, "--workers", str(workers), "--run", run]
            return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

        self.assertEqual(spawn(3).returncode, 0)
        for full, started in ((spawn(3), "1 of 3"), (spawn(1), "0 of 1")):
            self.assertEqual(full.returncode, 1)
            self.assertEqual(
                full.stderr,
                f"troupe: --node {address}: {started} workers started: the node already runs 4 workers, its maximum; "
                "a higher `ulimit -n` allows more\n",
            )

    def test_a_run_keeps_training_when_connections_use_up_its_open_files(self):
        words = ["train", "cartpole", "--run", "run", "--set", "stop.updates=1000000", "--set", "stop.env_steps=0"]
        words += ["--set", "stats.interval_ms=100", "--set", "checkpoint.every_updates=5", "--set", "workers.count=0"]
        train = subprocess.Popen(
            [TROUPE, *words],
            preexec_fn=limited(128, 128),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(train.stderr.close)
        self.addCleanup(train.wait)
        self.addCleanup(train.kill)
        run = self.folder / "run"
        self.assertTrue(eventually((run / "endpoints.json").exists))
        endpoints = json.loads((run / "endpoints.json").read_text())
        worker = subprocess.Popen([TROUPE, "worker", "--connect", endpoints["workers"]], stdout=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)

        def checkpoint():
            names = (path.name for path in (run / "checkpoints").iterdir()) if (run / "checkpoints").is_dir() else ()
            return max((int(name) for name in names if name.isdigit()), default=0)

        def makes_checkpoints():
            before = checkpoint()
            return eventually(lambda: checkpoint() > before)

        self.assertTrue(makes_checkpoints())
        flood = []
        for address in (endpoints["workers"], endpoints["stats"]):
            host, _, port = address.rpartition(":")
            flood += [socket.create_connection((host, int(port)), timeout=PATIENCE) for _ in range(200)]
        self.assertTrue(makes_checkpoints())
        for connection in flood:
            connection.close()
        late = subprocess.Popen([TROUPE, "worker", "--connect", endpoints["workers"]], stdout=subprocess.PIPE, text=True)
        self.addCleanup(late.stdout.close)
        self.addCleanup(late.wait)
        self.addCleanup(late.kill)
        self.assertIn("joined cartpole", late.stdout.readline())
        self.assertTrue(makes_checkpoints())
        train.send_signal(signal.SIGINT)
        _, err = train.communicate(timeout=PATIENCE)
        self.assertEqual(train.returncode, 130, err)
        self.assertEqual(worker.wait(PATIENCE), 0)
        self.assertEqual(late.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
