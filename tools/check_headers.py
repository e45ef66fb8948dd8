#!/usr/bin/env python3
"""Compiles every header by itself, with the flags of a source in the same folder.

A header that a source of the build includes first is left to the build, which fails in the same way; except where a
precompiled header comes before it and could hide that an include is missing.

Usage: check_headers.py compile_commands.json JOBS [HEADER...]    (without headers: all that are tracked)
"""

import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys


def flags_by_folder(database):
    """Folder -> (-I, -isystem, -D, -W and -std flags) of the sources in it that have the most include paths."""
    best = {}
    for entry in database:
        words = shlex.split(entry["command"])
        kept = [w for w in words if w.startswith(("-I", "-D", "-std=", "-W"))]
        for first, second in zip(words, words[1:]):
            if first == "-isystem":
                kept += [first, second]
        folder = os.path.relpath(os.path.dirname(entry["file"]))
        if len(kept) > len(best.get(folder, [])):
            best[folder] = kept
    return best


def proved_by_build(database):
    """Headers that some source includes before anything else."""
    proved = set()
    for entry in database:
        if "-include" in shlex.split(entry["command"]) or not os.path.exists(entry["file"]):
            continue
        with open(entry["file"], encoding="utf-8") as source:
            first = re.search(r'^#include (".*"|<.*>)$', source.read(), re.MULTILINE)
        if first:
            proved.add(first.group(1).strip('"'))
    return proved


def compile_header(header, flags):
    # From standard input: a compiler that is given a header directly warns about "#pragma once".
    command = ["c++", "-fsyntax-only", *flags, "-Werror", "-x", "c++", "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n', capture_output=True, text=True, check=False)
    return header, done.returncode, done.stderr


def main():
    if len(sys.argv) < 3:
        print("usage: check_headers.py compile_commands.json JOBS [HEADER...]", file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        database = json.load(file)
    folders, proved = flags_by_folder(database), proved_by_build(database)
    tracked = subprocess.run(["git", "ls-files", "*.h"], capture_output=True, text=True, check=True).stdout.split()
    asked = sys.argv[3:] or tracked
    headers = [header for header in asked if header not in proved]
    fallback = max(folders.values(), key=len, default=["-std=c++20", "-I."])
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=int(sys.argv[2])) as pool:
        jobs = [pool.submit(compile_header, h, folders.get(os.path.dirname(h), fallback)) for h in headers]
        for job in jobs:
            header, code, text = job.result()
            if code != 0:
                failed += 1
                print(f"{header} does not compile by itself:\n{text[:2000]}")
    print(f"{len(headers) - failed} of {len(headers)} headers compile by themselves; the build proves {len(asked) - len(headers)} more")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
