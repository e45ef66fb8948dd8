"""Writes prompts of reasoning-gym (https://github.com/open-thought/reasoning-gym) as a file for the task `dataset`.

    python examples/tokens/reasoning_gym_dataset.py chain_sum 2000 chain_sum.jsonl
    troupe train CONFIG --set task.name=dataset --set 'task.params={"path": "chain_sum.jsonl"}'

The answer of a task can be one of several right ones, and `dataset` accepts only the one in the file. So choose a task
whose answers are unique. It needs reasoning-gym 0.1.25.
"""

import argparse
import json
import sys

import reasoning_gym


def entries_of(name, count, seed):
    """Different prompts of a task of reasoning-gym, at most `count`, each with its answer."""
    seen = set()
    for entry in reasoning_gym.create_dataset(name, size=count, seed=seed):
        if entry["question"] in seen or entry["answer"] is None:
            continue
        seen.add(entry["question"])
        yield {"prompt": entry["question"], "truth": str(entry["answer"])}


def main():
    """Writes the file and reports how many prompts it has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a task of reasoning-gym, such as chain_sum")
    parser.add_argument("count", type=int, help="prompts to generate; repeated ones are left out")
    parser.add_argument("path", help="the file to write")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.count < 1:
        sys.exit(f"count: {arguments.count} is out of range, expected at least 1")
    written = 0
    with open(arguments.path, "w", encoding="utf-8") as file:
        for entry in entries_of(arguments.name, arguments.count, arguments.seed):
            file.write(json.dumps(entry) + "\n")
            written += 1
    print(f"{arguments.path}: {written} prompts")


if __name__ == "__main__":
    main()
