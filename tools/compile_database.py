"""The sources and flags of a build configuration, from its compile_commands.json. Imported by tools/check_*.py."""

import json
import os
import re
import shlex

from changed_files import CheckFailed, git

COMPILER = re.compile(r"(.*-)?(c\+\+|g\+\+|clang\+\+)(-[0-9.]+)?$")

# Sources that the configuration `check` leaves out on purpose, and who compiles them. It must have all others.
ELSEWHERE = [
    (re.compile(r".*\.cuh?$|.*_nccl\.cpp$|python/src/cuda\.cpp$"), "a GPU build"),
    (re.compile(r"envs/mujoco/simulator\.cpp$|tests/envs/mujoco/.*\.cpp$"), "a build with MuJoCo (tools/fetch_mujoco)"),
]


class Entry:
    """How a source is compiled, without launchers such as ccache and without what is written."""

    def __init__(self, entry):
        self.directory, self.file = entry["directory"], entry["file"]
        words = entry.get("arguments") or shlex.split(entry["command"])
        start = next((i for i, word in enumerate(words) if COMPILER.match(os.path.basename(word))), 0)
        self.compiler, self.flags = words[start], []
        rest = iter(words[start + 1:])
        for word in rest:
            if word in ("-o", "-MF", "-MT", "-MQ"):
                next(rest, None)
            elif word not in ("-c", "-MD", "-MMD", self.file):
                self.flags.append(word)

    def include_paths(self):
        return sum(flag.startswith(("-I", "-isystem")) for flag in self.flags)


def read_database(path):
    """Source, relative to the working folder -> Entry. Of several for one source, that with the most include paths.

    One without a source of this repository is an error: a configuration with batches has only files that it made itself.
    """
    with open(path, encoding="utf-8") as file:
        entries = [Entry(entry) for entry in json.load(file)]
    best = {}
    for entry in entries:
        source = os.path.relpath(os.path.join(entry.directory, entry.file))
        if source not in best or entry.include_paths() > best[source].include_paths():
            best[source] = entry
    if best.keys().isdisjoint(git("ls-files", "--cached", "--others", "--exclude-standard", "-z")):
        raise CheckFailed(f"{path} has no source of this repository")
    return best


def sort_out(sources, database):
    """Splits sources into those that the database has, lines about those of other builds, and lines about those of none."""
    compiled, elsewhere, missing = [], [], []
    for source in sources:
        build = next((build for pattern, build in ELSEWHERE if pattern.match(source)), None)
        if source in database:
            compiled.append(source)
        elif build:
            elsewhere.append(f"not checked: {source}, which only {build} compiles")
        else:
            missing.append(f"{source} is in no target of the configuration: name it in a CMakeLists.txt")
    return compiled, elsewhere, missing
