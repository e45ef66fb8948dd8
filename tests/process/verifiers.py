"""Verifiers for runs that a test stops, kills and disturbs (verifier_test.cpp), which copies this file into a folder of its own.

Every answer gets the reward 1, so a mean below 1 shows a score that nobody gave. What a verifier does besides, it notes in the file `done`.
"""

import itertools
import os
import pathlib
import time

DONE = pathlib.Path(__file__).with_name("done")
KINDS = ("hang", "print", "exit", "nan", "raise")
ANSWERS = itertools.count(1)  # of this process


def note(what):
    with open(DONE, "a") as file:
        file.write(what + "\n")


def ones(answers):
    return [1.0] * len(answers)


def misbehave():
    """The next of KINDS, over all processes; returns the score."""
    kind = KINDS[len(DONE.read_text().split()) % len(KINDS)]
    note(kind)
    if kind == "hang":
        time.sleep(600)
    if kind == "print":
        print("x" * 100_000)
    if kind == "exit":
        os._exit(3)
    if kind == "raise":
        raise ValueError("planned")
    return float("nan") if kind == "nan" else 1.0


def unreliable(answers):
    """Misbehaves on every 50th answer of its process."""
    return [misbehave() if next(ANSWERS) % 50 == 0 else 1.0 for _ in answers]


def hangs_in_evaluations(answers):
    """Hangs on the answers of an evaluation, which are more than a group, in a run whose worker has one group."""
    if len(answers) > 4:
        note("hang")
        time.sleep(600)
    return ones(answers)


def hangs_at_last(answers):
    """Hangs after 100 answers."""
    if max(next(ANSWERS) for _ in answers) > 100:
        note("hang")
        time.sleep(600)
    return ones(answers)
