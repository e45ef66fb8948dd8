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
    (r"(torch|ATen|c10)/", r".*/torch/|runtime/weights/process_group|tools/bench/|tools/cli/second_program\.h|"
     "(tests|python|examples)/",
     "LibTorch stays in folders named torch, in runtime/weights/process_group* and in programs of their own"),
    (r"torch/torch\.h|torch/all\.h|ATen/ATen\.h", r".*\.(cpp|cuh?)$|tests/support/torch_test\.h$",
     "takes 10-20 s per file; only in sources"),
    (r"caf/all\.hpp|caf/io/all\.hpp", r".*\.(cpp|cu)$", "takes 3 s per file; only in sources"),
    (r"caf/", r"(tests/)?(runtime/caf/|actors/)|sim/|tests/support/|tests/process/|(tests/)?tools/",
     "CAF stays in runtime/caf/, actors/, sim/ and the programs that start actor systems"),
    (r"torch/csrc/distributed/|nccl\.h|gloo/", r"(tests/)?runtime/weights/|tests/support/",
     "collectives stay in runtime/weights/process_group*"),
    (r"boost/(asio|beast)", r"(tests/)?runtime/stats/socket", "sockets stay in runtime/stats/socket*"),
    (r"nlohmann/(?!json_fwd\.hpp)", r".*\.cpp$|tests/|runtime/(base/strict_json|stats/field_access)\.h$",
     "takes 2 s per file; headers include nlohmann/json_fwd.hpp"),
    (r"runtime/(base/strict_json|stats/field_access)\.h", r".*\.cpp$", "includes the JSON library; only in sources"),
    (r"spdlog/|fmt/", r"runtime/base/log\.cpp$", "the log library stays behind runtime/base/log.h"),
    (r"pybind11/", r"python/src/", "Python stays in python/"),
    (r"pcre2\.h", r"text/split_pattern\.cpp$", "regular expressions stay behind text/split_pattern.h"),
    (r"mujoco/", r"envs/mujoco/simulator\.cpp$", "MuJoCo stays in libtroupe_mujoco.so"),
    (r"utf8proc\.h", r"text/normalizer\.cpp$", "Unicode data stays behind text/normalizer.h"),
    (r"n?curses", r"tools/top/screen\.cpp$", "the terminal stays behind tools/top/screen.h"),
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


def cycles(includes):
    """Lines "A -> B -> A: FILE includes FILE" for folders that include each other. `includes`: pairs of paths; both from our sources."""
    folders = {}
    for path, included in includes:
        a, b = os.path.dirname(path), os.path.dirname(included)
        if a != b:
            folders.setdefault(a, {}).setdefault(b, f"{path} includes {included}")
    done, found = set(), []
    for start in sorted(folders):
        # The way back to `start` over folders whose cycles have not been reported.
        way, stack = {start: None}, [start]
        while stack:
            folder = stack.pop(0)
            for other in sorted(folders.get(folder, ())):
                if other == start:
                    names = [start]
                    while folder is not None and folder != start:
                        names.insert(1, folder)
                        folder = way[folder]
                    names = [start, *names[1:], start]
                    found.append(f"{' -> '.join(names)}: {folders[names[-2]][start]}")
                    stack = []
                    break
                if other not in way and other not in done:
                    way[other] = folder
                    stack.append(other)
        done.add(start)
    return found


def sources():
    """Every C++ file of the repository, relative to its root."""
    for folder in LAYERS:
        for where, _, names in os.walk(folder):
            for name in names:
                if name.endswith((".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.join(where, name)


def main():
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    problems, includes = [], []
    for path in sorted(sources()):
        with open(path, encoding="utf-8") as file:
            lines = file.readlines()
        problems += problems_in(path, lines)
        if path.split("/")[0] not in ("tests", "examples"):
            included = [match.group(1) for line in lines if (match := INCLUDE.match(line))]
            includes += [(path, one) for one in included if one.split("/")[0] in LAYERS and "/" in one]
    problems += [f"folders include each other: {cycle}" for cycle in cycles(includes)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
