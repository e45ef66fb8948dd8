#!/usr/bin/env python3
"""Checks the format of C++ and CUDA files with clang-format (.clang-format), or formats them and names those that change."""

import argparse
import concurrent.futures
import os
import subprocess
import sys

from changed_files import CheckFailed, changed_files, git

PATTERNS = ["*.h", "*.cpp", "*.cu", "*.cuh"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clang-format", default="clang-format")
    parser.add_argument("--fix", action="store_true", help="format them in place")
    parser.add_argument("--commits", type=int, default=0, help="only what the last N commits changed, not every tracked file")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    try:
        files = changed_files(arguments.commits, PATTERNS)[0] if arguments.commits else git("ls-files", "-z", "--", *PATTERNS)
    except CheckFailed as error:
        print(error)
        return 1
    files = [file for file in files if os.path.exists(file)]
    command = [arguments.clang_format, *(["-i"] if arguments.fix else ["--dry-run", "--Werror"]), "--"]
    before = {file: read(file) for file in files}
    parts = [part for part in (files[i::arguments.jobs] for i in range(arguments.jobs)) if part]
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        codes = list(pool.map(lambda part: subprocess.run([*command, *part], check=False).returncode, parts))
    for file in files:
        if read(file) != before[file]:
            print(f"formatted {file}")
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
