#!/usr/bin/env python3
"""Checks which file may include what (docs/conventions.md). Prints one line per violation and exits with 1 if there is one."""

import os
import re
import sys

# Folder -> our folders that it may include, besides itself.
LAYERS = {
    "runtime": (),
    "envs": ("runtime",),
    "algorithms": ("runtime",),
    "text": ("runtime",),
    "tasks": ("runtime",),
    "models": ("runtime", "envs", "algorithms", "text"),
    "actors": ("runtime", "envs", "algorithms", "text", "tasks", "models"),
    "sim": ("runtime", "envs", "algorithms", "text", "tasks", "models", "actors"),
    "python": ("runtime", "envs", "algorithms"),
    "examples": ("runtime", "envs", "algorithms", "text", "tasks", "models", "actors"),
    "tools": ("runtime", "envs", "algorithms", "text", "tasks", "models", "actors", "sim"),
    "tests": ("runtime", "envs", "algorithms", "text", "tasks", "models", "actors", "sim", "tools"),
}

# (what is included, where it is allowed, why). The patterns match at the beginning.
RULES = [
    (r"torch/torch\.h|torch/all\.h|ATen/ATen\.h", r".*\.(cpp|cuh?)$|tests/support/torch_test\.h$",
     "takes 10-20 s per file; only in sources"),
    (r"caf/all\.hpp|caf/io/all\.hpp", r".*\.(cpp|cu)$", "takes 3 s per file; only in sources"),
    (r"caf/", r"(tests/)?(runtime/caf/|actors/)|sim/|tests/support/|tests/process/|(tests/)?tools/",
     "CAF stays in runtime/caf/, actors/, sim/ and the programs that start actor systems"),
    (r"torch/csrc/distributed/|nccl\.h|gloo/", r"(tests/)?runtime/weights/|tests/support/",
     "collectives stay in runtime/weights/process_group*"),
    (r"boost/(asio|beast)", r"(tests/)?runtime/stats/socket", "sockets stay in runtime/stats/socket*"),
    (r"nlohmann/(?!json_fwd\.hpp)", r".*\.cpp$|tests/|runtime/base/strict_json\.h$",
     "takes 2 s per file; headers include nlohmann/json_fwd.hpp"),
    (r"runtime/base/strict_json\.h", r".*\.cpp$", "includes the JSON library; only in sources"),
    (r"spdlog/|fmt/", r"runtime/base/log\.cpp$", "the log library stays behind runtime/base/log.h"),
    (r"pybind11/", r"python/src/", "Python stays in python/"),
    (r"pcre2\.h", r"text/split_pattern\.cpp$", "regular expressions stay behind text/split_pattern.h"),
    (r"mujoco/", r"envs/mujoco/simulator\.cpp$", "MuJoCo stays in libtroupe_mujoco.so"),
    (r"utf8proc\.h", r"text/normalizer\.cpp$", "Unicode data stays behind text/normalizer.h"),
    (r"doctest/", r"tests/support/", "include tests/support/test.h"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def problems_in(path, lines):
    """Lines "path:number: includes X: why" for one file."""
    folder = path.split("/")[0]
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1)
        other = included.split("/")[0]
        if folder in LAYERS and other in LAYERS and other != folder and other not in LAYERS[folder]:
            allowed = ", ".join(LAYERS[folder]) or "nothing of ours"
            yield f"{path}:{number}: includes {included}: {folder}/ may include {allowed}"
        for pattern, allowed_in, why in RULES:
            if re.match(pattern, included) and not re.match(allowed_in, path):
                yield f"{path}:{number}: includes {included}: {why}"


def sources():
    """Every C++ file of the repository, relative to its root."""
    for folder in LAYERS:
        for where, _, names in os.walk(folder):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.join(where, name)


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = 0
    for path in sorted(sources()):
        with open(path, encoding="utf-8") as file:
            for problem in problems_in(path, file.readlines()):
                print(problem)
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
