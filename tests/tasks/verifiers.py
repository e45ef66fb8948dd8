"""Verifiers for tests: a right one, and one for each way to fail."""

import os
import sys
import time

CALLS = 0  # of this process


def count_call():
    """The number of this call, from 1."""
    global CALLS
    CALLS += 1
    return CALLS


def exact(items):
    """1 for an answer that is the truth."""
    return [1.0 if item["answer"] == item["truth"] else 0.0 for item in items]


def with_parts(items):
    """Scores with parts of the reward."""
    return [{"reward": 0.25, "right": True, "parts": {"format": 1, "length": len(item["answer"])}} for item in items]


def talks(items):
    """Writes to stdout and stderr as a side effect, more than a pipe holds."""
    print("x" * 200_000)
    print("warning", file=sys.stderr)
    return exact(items)


def hangs_at_second(items):
    """Hangs at the second call of a process."""
    if count_call() == 2:
        time.sleep(600)
    return exact(items)


def hangs(items):
    """Always hangs."""
    time.sleep(600)


def raises(items):
    """Raises an exception."""
    raise ValueError("planned")


def exits(items):
    """Ends the process."""
    os._exit(7)


def calls_exit(items):
    """Ends the process as scripts do."""
    sys.exit("no more")


def not_a_number(items):
    """Returns NaN."""
    return [float("nan")] * len(items)


def one_too_few(items):
    """Returns the wrong number of scores."""
    return exact(items)[1:]


def returns_nothing(items):
    """Forgets to return."""


def returns_text(items):
    """Returns text in place of numbers."""
    return ["1"] * len(items)


def garbage(items):
    """Writes to the descriptor of the connection."""
    os.write(3, b"\xff\x00garbage\n")
    return exact(items)


def endless(items):
    """Writes a line without an end to the connection."""
    while True:
        os.write(3, b"x" * 65536)
