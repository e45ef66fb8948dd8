"""Every case of every test program runs in exactly one CTest entry, and every test in Python has an entry: compares what the entries
select with what there is."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


TESTS = Path(__file__).resolve().parent.parent


def commands_of(build):
    """The commands of all CTest entries."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True).stdout
    return [test.get("command", []) for test in json.loads(listed)["tests"]]


def entries_of(build, commands):
    """Program -> the arguments of each of its CTest entries."""
    found = defaultdict(list)
    for command in commands:
        if command and Path(command[0]).parent == Path(build).resolve() / "tests":
            found[command[0]].append(command[1:])
    return found


def scripts_without_entry(build, commands):
    """The tests in Python that no entry runs. A build with sanitizers leaves out many of tests/python, one without pytest all."""
    named = {word for command in commands for word in command}
    sanitized = "TROUPE_SANITIZE:BOOL=ON\n" in (Path(build) / "CMakeCache.txt").read_text()
    partly = sanitized or not any("pytest" in command for command in commands)
    scripts = (path for path in TESTS.rglob("*_test.py") if not (partly and path.parent.name == "python"))
    return [str(path.relative_to(TESTS.parent)) for path in scripts if str(path) not in named]


def cases_of(program, arguments):
    """The cases that these arguments select, as the lines of doctest's list; a case may have the same name as another."""
    command = [program, "--list-test-cases", "--no-colors=true", *arguments]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(line for line in listed.splitlines() if line and not re.match(r"\[doctest\]|=+$", line))


def main():
    commands = commands_of(sys.argv[1])
    entries = entries_of(sys.argv[1], commands)
    programs = [program for program in entries if Path(program).exists()]
    assert programs, f"no test program is built in {sys.argv[1]}"
    wrong = [f"{script}: no CTest entry runs it" for script in scripts_without_entry(sys.argv[1], commands)]
    count = 0
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
