#!/usr/bin/env python3
"""Compiles changed sources and headers each by itself, without writing anything; warnings are errors.

The build cannot show that a file includes what it needs: a batch or a precompiled header may have included it before.
A source that the configuration does not compile is an error, unless only another build does (tools/compile_database.py).
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys

from changed_files import CheckFailed, changed_files, git
from compile_database import read_database, sort_out


def run_all(commands, jobs):
    """Runs (name, what to say if it fails, command, folder, standard input) in parallel; returns how many failed."""

    def run(work):
        done = subprocess.run(work[2], cwd=work[3], input=work[4], capture_output=True, text=True, errors="replace", check=False)
        return done.returncode, done.stdout + done.stderr

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        for work, (code, text) in zip(commands, pool.map(run, commands)):
            if code != 0:
                failed += 1
                print(f"{work[0]} {work[1]}:\n{text[:4000]}", flush=True)
    return failed


def source_commands(sources, database):
    for source in sources:
        entry = database[source]
        command = [entry.compiler, *entry.flags, "-fsyntax-only", "-Werror", entry.file]
        yield source, "does not compile by itself", command, entry.directory, ""


def flags_by_folder(database):
    """Folder -> (compiler, the flags that a header there may need), from the source in it with the most include paths."""
    richest = {}
    for source, entry in database.items():
        folder = os.path.dirname(source)
        if folder not in richest or entry.include_paths() > richest[folder].include_paths():
            richest[folder] = entry
    found = {}
    for folder, entry in richest.items():
        kept = [flag for flag in entry.flags if flag.startswith(("-I", "-D", "-std=", "-W"))]
        for first, second in zip(entry.flags, entry.flags[1:]):
            if first == "-isystem":
                kept += [first, second]
        found[folder] = (entry.compiler, kept)
    return found


def header_commands(headers, database):
    folders = flags_by_folder(database)
    fallback = max(folders.values(), key=lambda found: len(found[1]))
    for header in headers:
        compiler, flags = folders.get(os.path.dirname(header), fallback)
        # From standard input: a compiler that is given a header directly warns about "#pragma once".
        command = [compiler, *flags, "-fsyntax-only", "-Werror", "-x", "c++", "-"]
        yield header, "does not compile by itself", command, ".", f'#include "{header}"\n'


def changed(arguments, database):
    """(sources, headers, number of errors) that have changed; says what is left out."""
    files, since = changed_files(arguments.commits, ["*.cpp", "*.cu", "*.cuh", "*.h"])
    if not files:
        print(f"no C++ file has changed {since}")
    compiled, elsewhere, missing = sort_out([file for file in files if not file.endswith(".h")], database)
    for line in elsewhere + missing:
        print(line)
    headers = [file for file in files if file.endswith(".h")]
    most = arguments.files or len(compiled)
    if files:
        print(f"compiling {min(most, len(compiled))} of {len(compiled)} sources and {len(headers)} headers, changed {since}", flush=True)
    return compiled[:most], headers, len(missing)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("database", help="compile_commands.json of the configuration")
    parser.add_argument("--headers", action="store_true", help="headers only, and all of them unless --commits is given")
    parser.add_argument("--commits", type=int, default=0, help="what the last N commits changed, not what changed since main")
    parser.add_argument("--files", type=int, default=0, help="at most the first N sources")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    sources, failed = [], 0
    try:
        database = read_database(arguments.database)
        if not arguments.headers:
            sources, headers, failed = changed(arguments, database)
        elif arguments.commits:
            headers, since = changed_files(arguments.commits, ["*.h"])
            print(f"compiling {len(headers)} headers, changed {since}", flush=True)
        else:
            headers = [file for file in git("ls-files", "-z", "*.h") if os.path.exists(file)]
            print(f"compiling {len(headers)} headers", flush=True)
    except CheckFailed as error:
        print(error)
        return 1
    failed += run_all([*source_commands(sources, database), *header_commands(headers, database)], arguments.jobs)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
