#!/usr/bin/env python3
"""Tests .ci/run with the real tools/test and ctest on a small build folder; tools/setup, tools/check and cmake are stubs."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import SourceTree

# Logs how it was called, and fails if a file has its first argument as name.
STUB = """#!/bin/sh
echo "$(basename "$0") $* CI=$CI" >>"{root}/calls"
[ "$1" != --fix ] || cat "{root}/formatted"
[ ! -e "{root}/fail-$1" ]
"""
TESTS = """
add_test(passes /bin/true)
add_test(takes_longest /bin/sh -c "sleep 0.3")
add_test(skipped /bin/sh -c "exit 77")
set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77)
add_test(many_minutes /bin/false)
set_tests_properties(many_minutes PROPERTIES LABELS nightly)
"""
STEPS = ["setup", "test", "tree", "format", "compile", "lint", "includes", "sizes", "python"]


class CiRun(unittest.TestCase):
    def setUp(self):
        self.tree = SourceTree()
        self.addCleanup(self.tree.remove)
        self.tree.copy(".ci/run", "tools/common.sh", "tools/test", "tools/test_results.py")
        for path in ("tools/setup", "tools/check", "stubs/cmake"):
            self.tree.write(path, STUB.format(root=self.tree.root), executable=True)
        self.tree.write("formatted", "")
        self.write_tests(TESTS)

    def write_tests(self, text):
        self.tree.write("build/release/CTestTestfile.cmake", text)

    def run_ci(self):
        path = f"{self.tree.root}/stubs:{os.environ['PATH']}"
        done = self.tree.run("bash", self.tree.root / ".ci/run", cwd="/", PATH=path, TROUPE_JOBS="2")
        return done.returncode, done.stdout

    def calls(self):
        return self.tree.read("calls").splitlines()

    def assert_ran_all_steps(self, text):
        summary = text[text.index("Seconds of each step:"):]
        self.assertEqual(re.findall(r"^  (\w+) +(?:ok|FAILED|mended|not checked) +\d+ s$", summary, re.MULTILINE), STEPS)

    def test_all_steps_run_and_the_last_line_counts_the_tests(self):
        code, text = self.run_ci()
        self.assertEqual(code, 0, text)
        self.assert_ran_all_steps(text)
        self.assertEqual(text.splitlines()[-1], "2 passed, 0 failed")
        self.assertIn("Skipped: skipped\n", text)

    def test_the_tests_come_first_and_changed_files_are_bounded(self):
        self.run_ci()
        self.assertEqual(self.calls(), [
            "setup --tests --check --launchers CI=true",
            "setup --tests CI=true",
            "cmake --preset release -DTROUPE_WERROR=ON CI=true",
            "cmake --build build/release -j 2 CI=true",
            "check --fix --commits 10 CI=true",
            "check compile --commits 10 --files 12 CI=true",
            "check lint --commits 10 --files 12 CI=true",
            "check includes CI=true",
            "check sizes CI=true",
            "check python CI=true",
        ])

    def test_the_slowest_tests_are_listed_with_their_seconds(self):
        self.write_tests("".join(f'add_test(quick_{i} /bin/true)\n' for i in range(12)) + TESTS)
        _, text = self.run_ci()
        summary = text[text.index("Seconds of each step:"):]
        listed = re.findall(r"^ +(\d+\.\d)  (\w+)$", summary, re.MULTILINE)
        self.assertEqual(len(listed), 10)
        self.assertEqual(listed[0][1], "takes_longest")
        self.assertGreaterEqual(float(listed[0][0]), 0.3)

    def test_after_a_failed_test_the_other_steps_run(self):
        self.write_tests(TESTS + "add_test(fails /bin/false)\nadd_test(is_not_built /nonexistent)\n")
        code, text = self.run_ci()
        self.assertEqual(code, 1)
        self.assert_ran_all_steps(text)
        self.assertIn("Failed steps: test\n", text)
        self.assertIn("Failed: fails is_not_built\n", text)
        self.assertEqual(text.splitlines()[-1], "2 passed, 2 failed")

    def test_each_step_but_format_can_fail(self):
        for step, argument in [("setup", "--tests"), ("compile", "compile"), ("lint", "lint"), ("includes", "includes"),
                               ("sizes", "sizes"), ("python", "python")]:
            with self.subTest(step=step):
                self.tree.write(f"fail-{argument}", "")
                code, text = self.run_ci()
                (self.tree.root / f"fail-{argument}").unlink()
                self.assertEqual(code, 1)
                self.assert_ran_all_steps(text)
                self.assertRegex(text, rf"(?m)^Failed steps: .*{step}")

    def test_a_test_that_writes_into_the_tree_fails(self):
        self.write_tests(TESTS + """add_test(writes /bin/sh -c "echo x >'../../left by a test'")\n""")
        code, text = self.run_ci()
        self.assertEqual(code, 1)
        self.assertIn('The tests wrote into the tree:\n?? "left by a test"\n', text)
        self.assertIn("Failed steps: tree\n", text)
        self.assertEqual(self.run_ci()[0], 0)  # it was there before the second run

    def test_mended_formatting_is_reported_and_no_failure(self):
        self.tree.write("formatted", "formatted runtime/first.cpp\nformatted a file.h\n")
        code, text = self.run_ci()
        self.assertEqual(code, 0)
        self.assertRegex(text, r"(?m)^  format +mended ")
        self.assertIn("(tools/check --fix):\nruntime/first.cpp\na file.h\n", text)

    def test_a_formatter_that_fails_is_reported_and_no_failure(self):
        self.tree.write("fail---fix", "")
        code, text = self.run_ci()
        self.assertEqual(code, 0)
        self.assertRegex(text, r"(?m)^  format +not checked ")

    def test_after_a_failed_build_older_results_do_not_count(self):
        self.assertEqual(self.run_ci()[0], 0)
        self.tree.write("fail---build", "")
        code, text = self.run_ci()
        self.assertEqual(code, 1)
        self.assert_ran_all_steps(text)
        self.assertEqual(text.splitlines()[-1], "0 passed, 0 failed")


if __name__ == "__main__":
    unittest.main()
