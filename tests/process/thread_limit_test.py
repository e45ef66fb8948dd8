#!/usr/bin/env python3
"""Starts the programs under limits on the number of threads: thread_limit_test.py BUILD_DIR. The limit does not apply to root, so the test
runs the programs as another user. It needs root and setpriv for that, and is skipped without them."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
USER = 100_000 + os.getpid()  # a user without other processes, so that the limit counts those of the test only
LIMITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18)
os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # in a build with sanitizers the leak checker cannot run as another user
REFUSED = "raise `ulimit -u`, `-v`, `-d` or the container's limit of processes"


def as_user(*words):
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words]


def may_run():
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return False
    # troupe-learn too: it or LibTorch may be in a folder that only root may enter. It refuses the command when it starts.
    ended = [subprocess.run(as_user(f"{BUILD}/{name}", "version"), capture_output=True) for name in ("troupe", "troupe-learn")]
    return all(each.returncode not in (126, 127) for each in ended)


@unittest.skipUnless(may_run(), "needs root, setpriv, and programs that every user may run")
class ThreadLimit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o777)
        self.addCleanup(self.folder.cleanup)

    def refused(self, limit, *words):
        with self.subTest(limit=limit, words=words):
            ended = subprocess.run(
                as_user(f"{BUILD}/troupe", *words),
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit)),
                cwd=self.folder.name,
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertIn(ended.returncode, (1, 2), ended.stderr)
            self.assertIn(REFUSED, ended.stderr)
            self.assertEqual(len([line for line in ended.stderr.splitlines() if "warning" not in line]), 1, ended.stderr)
            self.assertEqual(os.listdir(self.folder.name), [])

    def test_train_names_the_limit_and_writes_nothing(self):
        for limit in LIMITS:
            self.refused(limit, "train", "cartpole", "--run", "run")
        for limit in (20, 60, 100):
            self.refused(limit, "train", "cartpole", "--run", "run", "--set", "workers.count=100", "--set", "env.rows=4")

    def test_inference_names_the_limit(self):
        for limit in LIMITS[:-1]:
            self.refused(limit, "inference", "--connect", "127.0.0.1:9")

    def test_workers_and_nodes_name_the_limit(self):
        for limit in (1, 2, 3, 4, 5):
            self.refused(limit, "worker", "--connect", "127.0.0.1:9")
            self.refused(limit, "node", "--listen", "127.0.0.1:0")


if __name__ == "__main__":
    unittest.main()
