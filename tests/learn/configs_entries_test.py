#!/usr/bin/env python3
"""Checks that every file of configs/ is trained by exactly one CTest entry, by default or nightly.

A test case whose name begins with "configs: NAME " trains configs/NAME.json (tests/learn/config_runs.cpp checks that). One test
case trains all of configs/algorithms/.

Usage: configs_entries_test.py BUILD_DIR
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALGORITHMS = "algorithms: each config reaches its score"
# Need a model that has to be downloaded or made first. tests/python/rlhf_learn_test.py makes that of the second, and trains it.
NOT_TRAINED = {"tokens/smollm2_chain_sum", "tokens/rlhf"}
# Of each kind, the default run trains one.
DEFAULT = {"cartpole", "pendulum", "grid_world_image", "token_reach"}


def cases_of(command, environment):
    """The names of the test cases that an entry runs."""
    listed = subprocess.run(
        [*command, "--list-test-cases", "--no-version"], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    return [line for line in listed.stdout.splitlines() if re.match("configs: |algorithms: ", line)]


def entries(build):
    """(name, labels, test cases) of the entries that train configs."""
    shown = subprocess.run(["ctest", "--show-only=json-v1"], capture_output=True, text=True, check=True, cwd=build)
    found = []
    for test in json.loads(shown.stdout)["tests"]:
        properties = {each["name"]: each["value"] for each in test["properties"]}
        variables = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
        program = test.get("command", [""])[0]
        if "learn" in test["name"] and os.path.dirname(program) == os.path.join(build, "tests"):
            cases = cases_of(test["command"], {**os.environ, **variables})
            if cases:
                found.append((test["name"], properties["LABELS"], cases))
    return found


class Configs(unittest.TestCase):
    def setUp(self):
        self.present = {
            path.relative_to(ROOT / "configs").with_suffix("").as_posix() for path in (ROOT / "configs").rglob("*.json")
        } - NOT_TRAINED
        self.trained = {}  # names and labels of the entries that train a config
        for name, labels, cases in entries(BUILD):
            configs = {case.split()[1] for case in cases if case.startswith("configs: ")}
            if ALGORITHMS in cases:
                configs |= {config for config in self.present if config.startswith("algorithms/")}
            for config in configs:
                self.trained.setdefault(config, []).append((name, labels))

    def test_every_config_is_trained_by_exactly_one_entry(self):
        self.assertEqual(set(self.trained), self.present)
        self.assertEqual({config: at for config, at in self.trained.items() if len(at) > 1}, {})

    def test_the_default_run_trains_one_config_of_each_kind(self):
        by_default = {config for config, at in self.trained.items() if any("nightly" not in labels for _, labels in at)}
        self.assertEqual(by_default, DEFAULT)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
