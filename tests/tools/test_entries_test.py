"""Every case of every test program runs in exactly one CTest entry: compares what the entries select with what there is."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def entries_of(build):
    """Program -> the arguments of each of its CTest entries."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
    found = defaultdict(list)
    for test in json.loads(listed)["tests"]:
        command = test.get("command", [])
        if command and Path(command[0]).parent == Path(build).resolve() / "tests":
            found[command[0]].append(command[1:])
    return found


def cases_of(program, arguments):
    """The cases that these arguments select, as the lines of doctest's list; a case may have the same name as another."""
    command = [program, "--list-test-cases", "--no-colors=true", *arguments]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(line for line in listed.splitlines() if line and not re.match(r"\[doctest\]|=+$", line))


def main():
    entries = entries_of(sys.argv[1])
    programs = [program for program in entries if Path(program).exists()]
    assert programs, f"no test program is built in {sys.argv[1]}"
    wrong, count = [], 0
    for program in programs:
        every = cases_of(program, [])
        count += len(every)
        selected = sorted(case for arguments in entries[program] for case in cases_of(program, arguments))
        if not every or selected != every:
            wrong.append(f"{Path(program).name}: {len(every)} cases, its entries select {len(selected)}")
    print("\n".join(wrong) or f"{count} cases in {len(programs)} programs, {sum(map(len, entries.values()))} entries")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
