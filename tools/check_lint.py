#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) on changed sources; for a changed header, on the source of the same name.

A source that the configuration does not compile is an error, unless only another build does (tools/compile_database.py).
"""

import argparse
import json
import os
import sys
import tempfile

from changed_files import CheckFailed, changed_files, git
from check_compile import run_all
from compile_database import read_database, sort_out


def sources_of(files):
    """(the sources among the files and beside the headers among them, the headers that have none)."""
    sources, alone = [], []
    for file in files:
        source = os.path.splitext(file)[0] + ".cpp" if file.endswith(".h") else file
        if os.path.exists(source):
            sources.append(source)
        else:
            alone.append(file)
    return list(dict.fromkeys(sources)), alone


def lint(sources, database, arguments):
    """How many of the sources clang-tidy refuses. It checks a source once per entry, so it gets a database with one of each."""
    with tempfile.TemporaryDirectory() as folder:
        entries = [database[source] for source in sources]
        with open(os.path.join(folder, "compile_commands.json"), "w", encoding="utf-8") as file:
            json.dump([{"directory": entry.directory, "file": entry.file,
                        "arguments": [entry.compiler, *entry.flags, "-c", entry.file]} for entry in entries], file)
        tidy = [arguments.clang_tidy, "--quiet", "-p", folder]
        commands = [(source, "is refused by clang-tidy", [*tidy, source], ".", "") for source in sources]
        return run_all(commands, arguments.jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("database", help="compile_commands.json of the configuration")
    parser.add_argument("--clang-tidy", default="clang-tidy")
    parser.add_argument("--all", action="store_true", help="every source")
    parser.add_argument("--commits", type=int, default=0, help="what the last N commits changed, not what changed since main")
    parser.add_argument("--files", type=int, default=0, help="at most the first N sources")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    try:
        database = read_database(arguments.database)
        if arguments.all:
            files = [file for file in git("ls-files", "-z", "*.cpp", "*.cu", "*.cuh") if os.path.exists(file)]
            since = ""
        else:
            files, since = changed_files(arguments.commits, ["*.cpp", "*.cu", "*.cuh", "*.h"])
    except CheckFailed as error:
        print(error)
        return 1
    if not files:
        print(f"no C++ file has changed {since}")
        return 0
    sources, alone = sources_of(files)
    compiled, elsewhere, missing = sort_out(sources, database)
    for line in elsewhere + missing:
        print(line)
    if alone:
        print(f"not checked, because no source has their name: {' '.join(alone)}")
    chosen = compiled[:arguments.files or len(compiled)]
    print(f"clang-tidy checks {len(chosen)} of {len(compiled)} sources" + (f", changed {since}" if since else ""), flush=True)
    return 1 if lint(chosen, database, arguments) or missing else 0


if __name__ == "__main__":
    sys.exit(main())
