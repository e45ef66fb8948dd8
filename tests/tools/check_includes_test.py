#!/usr/bin/env python3
"""Tests tools/check_includes.py line by line."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools"))
import check_includes

REFUSED = [
    ("runtime/base/array.h", '"envs/env.h"'),
    ("envs/cart_pole.cpp", '"models/policy.h"'),
    ("algorithms/advantages/gae.cpp", '"actors/messages.h"'),
    ("models/networks/inputs.h", "<ATen/core/Tensor.h>"),
    ("actors/trainer.cpp", "<torch/types.h>"),
    ("models/torch/mlp.h", "<torch/torch.h>"),
    ("actors/messages.h", "<caf/all.hpp>"),
    ("runtime/config/config.cpp", "<caf/actor.hpp>"),
    ("models/torch/mlp.cpp", "<torch/csrc/distributed/c10d/Store.hpp>"),
    ("actors/stats.cpp", "<boost/asio.hpp>"),
    ("actors/config/config.h", "<nlohmann/json.hpp>"),
    ("actors/config/config.h", '"runtime/base/strict_json.h"'),
    ("actors/config/config.h", '"runtime/stats/field_access.h"'),
    ("tools/train.cpp", "<spdlog/spdlog.h>"),
    ("tests/runtime/base/array_test.cpp", "<doctest/doctest.h>"),
    ("algorithms/advantages/gae.cpp", "<pybind11/pybind11.h>"),
    ("python/src/scan.cpp", '"models/policy.h"'),
    ("actors/stats.cpp", '"sim/checker.h"'),
    ("sim/checker.cpp", '"tools/cli/commands.h"'),
    ("examples/env.cpp", '"tools/cli/commands.h"'),
    ("algorithms/cuda/launch.cuh", '"models/policy.h"'),
    ("text/tokenizer.h", '"tasks/task.h"'),
    ("tasks/task.cpp", '"text/tokenizer.h"'),
    ("text/utf8.cpp", "<utf8proc.h>"),
    ("models/torch/mlp.cpp", "<pcre2.h>"),
    ("tools/top/frame.cpp", "<curses.h>"),
]
ALLOWED = [
    ("runtime/base/array.h", '"runtime/base/errors.h"'),
    ("models/torch/mlp.cpp", "<torch/torch.h>"),
    ("models/torch/learning/chunk_forward.h", "<ATen/core/Tensor.h>"),
    ("sim/simulation.cpp", "<caf/actor_system.hpp>"),
    ("sim/fakes.cpp", '"actors/inference.h"'),
    ("tools/cli/simulate_command.cpp", '"sim/simulation.h"'),
    ("models/policy.h", '"envs/env.h"'),
    ("models/policy.cpp", '"text/tokenizer.h"'),
    ("tasks/make_task.cpp", '"runtime/config/setting.h"'),
    ("text/split_pattern.cpp", "<pcre2.h>"),
    ("tools/top/screen.cpp", "<curses.h>"),
    ("actors/messages.h", "<caf/type_id.hpp>"),
    ("runtime/caf/system.cpp", "<caf/all.hpp>"),
    ("runtime/weights/process_group_gloo.cpp", "<torch/csrc/distributed/c10d/Store.hpp>"),
    ("runtime/stats/socket.cpp", "<boost/asio.hpp>"),
    ("runtime/config/config.cpp", "<nlohmann/json.hpp>"),
    ("runtime/stats/snapshot.h", "<nlohmann/json_fwd.hpp>"),
    ("runtime/config/config.cpp", '"runtime/base/strict_json.h"'),
    ("runtime/stats/snapshot_fields.cpp", '"runtime/stats/field_access.h"'),
    ("runtime/base/log.cpp", "<spdlog/spdlog.h>"),
    ("tests/support/test.h", "<doctest/doctest.h>"),
    ("tests/runtime/base/array_test.cpp", '"tests/support/test.h"'),
    ("python/src/bind.h", "<pybind11/pybind11.h>"),
    ("python/src/scan.cpp", '"algorithms/advantages/gae.h"'),
]


class CheckIncludes(unittest.TestCase):
    def test_violations_are_found(self):
        for path, included in REFUSED:
            with self.subTest(path=path, included=included):
                self.assertEqual(len(list(check_includes.problems_in(path, [f"#include {included}\n"]))), 1)

    def test_allowed_includes_pass(self):
        for path, included in ALLOWED:
            with self.subTest(path=path, included=included):
                self.assertEqual(list(check_includes.problems_in(path, [f"#include {included}\n"])), [])

    def test_a_violation_is_named_with_its_line(self):
        lines = ["#pragma once\n", '  #  include "envs/env.h"\n']
        self.assertEqual(
            list(check_includes.problems_in("runtime/base/array.h", lines)),
            ["runtime/base/array.h:2: includes envs/env.h: runtime/ may include nothing of ours"],
        )

    def test_folders_that_include_each_other_are_named(self):
        chain = [("a/x/1.h", "a/y/2.h"), ("a/y/2.h", "a/z/3.h"), ("a/x/4.h", "a/z/3.h"), ("a/x/4.h", "a/x/1.h")]
        self.assertEqual(check_includes.cycles(chain), [])
        self.assertEqual(
            check_includes.cycles([*chain, ("a/z/5.cpp", "a/x/4.h")]),
            ["a/x -> a/z -> a/x: a/z/5.cpp includes a/x/4.h"],
        )
        self.assertEqual(
            check_includes.cycles([("a/1.h", "a/b/2.h"), ("a/b/2.h", "a/3.h")]), ["a -> a/b -> a: a/b/2.h includes a/3.h"]
        )

    def test_the_tree_is_clean(self):
        self.assertEqual(check_includes.main(), 0)


if __name__ == "__main__":
    unittest.main()
