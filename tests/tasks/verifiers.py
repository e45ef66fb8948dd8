"""Verifiers for tests: a right one, one for each way to fail, and some in the forms of TRL and verl."""

import asyncio
import os
import re
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


def names_task(items):
    """Scores with a part that has the name of a part of a run with a reward model."""
    return [{"reward": 1, "parts": {"task": 5}} for _ in items]


def too_large(items):
    return [10**400 for _ in items]


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


def raises_with_answer(items):
    """Raises an exception with another text for each answer."""
    raise ValueError(f"no number in {items[0]['answer']}")


def score_with_answer(solution_str):
    """The same in verl's form."""
    raise ValueError(f"no number in {solution_str}")


def raises_new_type(items):
    """Raises an exception of another type at each call."""
    raise type(f"Error{count_call()}", (Exception,), {})("planned")


def raises_at_poison(items):
    """Raises an exception if an answer is "poison"."""
    if any(item["answer"] == "poison" for item in items):
        raise ValueError("poison")
    return exact(items)


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


def some_wrong(items):
    """A value of a wrong form for each answer but the last two."""
    wrong = [float("nan"), float("inf"), "1", [1], 2e6, {"score": 1}, {"reward": 1, "right": "yes"}, {"reward": 1, "parts": {"": 1}}]
    wrong += [
        {"parts": {"a": 1}, "weights": {"b": 1}},
        {"reward": 1, "parts": {"a": float("nan")}},
        {"reward": 1, "parts": {"a": 1}, "weights": {"a": 2}},
    ]
    return [*wrong[: len(items) - 2], None, 0.5]


def weighted(items):
    """Parts with weights, one of which is not given."""
    return [{"parts": {"format": 1, "answer": 0.5}, "weights": {"format": 0.25}} for _ in items]


def by_digit(items):
    """By the first digit of the prompt: 1 below 4, no score below 7, NaN else."""
    digits = [int(item["prompt"][0]) for item in items]
    return [1.0 if digit < 4 else None if digit < 7 else float("nan") for digit in digits]


def echo(items):
    """1 where an answer comes with the columns and texts that it should have."""
    wanted = {"level": 3, "tags": ["a", "b"], "prompt": "1+1=", "truth": "2", "answer": "2"}
    return [float(item == wanted) for item in items]


def deep(items):
    """Raises an exception in a function of its own, because of another."""

    def inner():
        try:
            return {}["key"]
        except KeyError as error:
            raise ValueError("planned\nin two lines") from error

    return inner()


def nothing_for_some(completions, task, **kwargs):
    """Of TRL's form: None for prompts of another task."""
    return [float(len(text)) if kind == "length" else None for text, kind in zip(completions, task)]


def boxed(completions, ground_truth, **kwargs):
    """Of TRL's form: compares what is in \\boxed{} with a column."""
    found = [re.search(r"\\boxed\{(.*?)\}", text) for text in completions]
    return [1.0 if match and match.group(1) == truth else 0.0 for match, truth in zip(found, ground_truth)]


def thinks(completions, **kwargs):
    """Of TRL's form, for conversations: whether the answer has the tags of reasoning."""
    texts = [completion[0]["content"] for completion in completions]
    return [1.0 if re.match(r"^<think>.*?</think>", text, re.DOTALL) else 0.0 for text in texts]


async def slowly(prompts, completions, **kwargs):
    """Of TRL's form, as a coroutine."""
    await asyncio.sleep(0.001)
    return [1.0 if completion else 0.0 for completion in completions]


def only_completions(completions):
    """Of TRL's form, without other columns."""
    return [len(text) for text in completions]


def requires_ids(completions, completion_ids, **kwargs):
    """Of TRL's form, with what troupe does not give."""
    return [0.0] * len(completions)


def optional_ids(completions, completion_ids=None, trainer_state=None, log_extra=None, **kwargs):
    """Of TRL's form, with parameters that have defaults."""
    return [float(completion_ids is None and trainer_state is None and log_extra is None)] * len(completions)


def requires_column(completions, solution):
    """Of TRL's form, with a column that prompts may lack."""
    return [float(text == right) for text, right in zip(completions, solution)]


def everything(**kwargs):
    """Of TRL's form: 1 if the keywords are those of TRL, and the truth."""
    return [float(sorted(kwargs) == ["completions", "level", "prompts", "truth"])] * len(kwargs["completions"])


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """Of verl's form."""
    if data_source != "arithmetic":
        raise NotImplementedError(f"no reward for {data_source=}")
    return {
        "score": 1.0 if solution_str == ground_truth else 0.1,
        "acc": solution_str == ground_truth,
        "index": extra_info["index"],
        "pred": solution_str,
    }


def short_score(solution_str, ground_truth, method="strict", score=1.0):
    """Of verl's form, with the parameters that it needs."""
    return score if method == "strict" and solution_str == ground_truth else 0


def default_truth(solution_str, ground_truth="none"):
    """Of verl's form, for prompts that may have no truth."""
    return float(solution_str == ground_truth)


async def judged(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """Of verl's form, as a coroutine."""
    await asyncio.sleep(0.001)
    return float(solution_str == ground_truth)


def compute_scores(data_sources, solution_strs, ground_truths, extra_infos):
    """Of verl's form for batches, with the results of compute_score."""
    return [compute_score(*of_one) for of_one in zip(data_sources, solution_strs, ground_truths, extra_infos)]


async def short_scores(solution_strs, ground_truths=None, penalty=0.5, **kwargs):
    """Of verl's form for batches, with some of the parameters, as a coroutine."""
    await asyncio.sleep(0.001)
    assert kwargs == {"data_sources": [""] * len(solution_strs), "extra_infos": [{}] * len(solution_strs)}
    return [1 if text == truth else -penalty for text, truth in zip(solution_strs, ground_truths)]


def named_score(*, solution_str, ground_truth, **kwargs):
    """Of verl's form, by keywords alone."""
    assert kwargs == {"data_source": "", "extra_info": {}}
    return float(solution_str == ground_truth)


def named_scores(*, solution_strs, ground_truths, **kwargs):
    """Of verl's form for batches, by keywords alone."""
    assert kwargs == {"data_sources": [""] * len(solution_strs), "extra_infos": [{}] * len(solution_strs)}
    return [float(text == truth) for text, truth in zip(solution_strs, ground_truths)]


def wrong_scores(solution_strs):
    """Of verl's form for batches: NaN, nothing, and a number for all others."""
    return [float("nan"), None, *[0.5] * len(solution_strs)][: len(solution_strs)]


def requires_ids_of_batch(solution_strs, task_ids):
    """Of verl's form for batches, with what troupe does not give."""
    return [0.0] * len(solution_strs)


def three_things(first, second, third):
    """Of no form."""


class Judge:
    """An object that can be called; the class is none."""

    def __call__(self, items):
        return exact(items)

    def method(self, items):
        """The same as a method."""
        return exact(items)


judge = Judge()


def hint(items):
    """A message after a wrong answer, with a column and the turns before."""
    return [None if item["answer"] == item["truth"] else f"{item['answer']} {item['unit']} after {before(item)}: \u00e9" for item in items]


def before(item):
    return " ".join(f"{turn['answer']} {turn['message']}" for turn in item["turns"])


def odd_hint(items):
    """A reply of a wrong type, and a right one."""
    return [1, "fine"]


def tool(items):
    """The messages of a tool: with its role, as text of the user, and some that are none."""
    return [
        {"role": "tool", "content": "\u00e9"},
        {"role": "user", "content": "7"},
        {"role": "system", "content": "7"},
        {"role": "tool"},
        {"role": "tool", "content": 7},
    ][: len(items)]


def roles_before(items):
    """The share of the messages before an answer that come from a tool."""
    return [sum(turn.get("role") == "tool" for turn in item["turns"]) for item in items]


def turns_before(items):
    """The number of turns before the answer."""
    return [len(item["turns"]) for item in items]


def digit(items):
    """A message that a model of digits can read."""
    return ["7"] * len(items)


def unreadable(items):
    """A message with a character that a model of digits does not know."""
    return ["\u00c4"] * len(items)


def unreadable_to_second(items):
    """The same, to one of the answers alone."""
    return [None, "\u00c4"][: len(items)]


def unreadable_later(items):
    """The same, after a message that can be read."""
    return ["\u00c4" if item["turns"] else "7" for item in items]
