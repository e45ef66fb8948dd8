#!/usr/bin/env python3
"""Every figure of a run is in a view, the page, `troupe top` or the console, or in the list of those that are not, on purpose.

dotted_names_test.py is about the other direction: every dotted name in a view is a figure.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# `troupe top` lists all figures with these headings, and all that begin like these.
SHOWN_HEADINGS = ("Workers and failures", "Answers")
SHOWN_PREFIXES = ("busy.", "ledger.")
# In metrics.jsonl, /metrics and TensorBoard only, by what their names begin with, and why.
NOT_SHOWN = {
    "seconds_to_first_update": "of the start alone; in summary.json",
    "generation.": "for a closer look at generation",
    "scorers.": "for a closer look at scorers; their time is in busy.scorers",
    "prompts.": "for a closer look at prompts that are drawn by their failures",
    "eval.return_std": "the console has it",
    "eval.pass_at": "the console has it",
    "episodes.count": "the header has env_steps",
    "replay.late_wait_seconds": "in summary.json",
    "answers.trained_tokens_per_second": "the console has it",
    "answers.masked_tokens": "the console has it",
    "failed_evaluations.": "their number and the error are shown; the rest is for programs",
    "stages.": "for a closer look at the time of an update, a step and an answer",
    "batch.failed": "each failure is logged",
}


def figures() -> dict[str, str]:
    """The figures of docs/metrics.md, without those of updates, by name, with their heading."""
    result, heading = {}, ""
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        row = re.match(r"\| `([^`]+)` \|", line)
        if row and heading not in ("Metrics of the updates", "List of alarms") and row.group(1) != "learner":
            result[row.group(1)] = heading
    return result


def texts_of_views() -> set[str]:
    """The texts in quotes in the sources of the page and of `troupe top`."""
    texts = set()
    for pattern in ("page/*.js", "tools/top/*.cpp"):
        for file in ROOT.glob(pattern):
            texts |= set(re.findall(r'"([a-z0-9_.]+)"', file.read_text()))
    return texts


def is_shown(name: str, heading: str, texts: set[str]) -> bool:
    # The page joins some names from two parts: "evaluating." and "of".
    parts = name.partition(".")
    joined = parts[0] + "." in texts and parts[2] in texts
    return name in texts or joined or heading in SHOWN_HEADINGS or name.startswith(SHOWN_PREFIXES)


def main() -> None:
    known, texts = figures(), texts_of_views()
    assert len(known) > 80, len(known)
    for name, heading in known.items():
        listed = [entry for entry in NOT_SHOWN if name == entry or (entry.endswith(".") and name.startswith(entry))]
        shown = is_shown(name, heading, texts)
        assert shown or listed, f"{name}: no view shows it; add it to one, or to NOT_SHOWN with the reason"
        assert not (shown and name in listed), f"{name}: a view shows it; take it out of NOT_SHOWN"
    for entry in NOT_SHOWN:
        assert any(name == entry or name.startswith(entry) for name in known), f"{entry}: no figure"
    print(f"{len(known)} figures, {len(texts)} texts")


if __name__ == "__main__":
    main()
