"""Whole tasks: objects that give prompts and score the answers to them."""

import functools
import json

from troupe_verifier_server.errors import DrawFailed, Refused, problem_of, text_of
from troupe_verifier_server.forms import ReplyCaller, caller_of
from troupe_verifier_server.scores import plain_score

KINDS = "draw(index) and score(...), or a length, [index] and score_answer(answer, entry) as the datasets of reasoning_gym"


def json_text(prompt, index, **options):
    """The dict of a prompt as JSON."""
    if not isinstance(prompt, dict):
        raise Refused(f"prompt {index} is of type {type(prompt).__name__}, expected a dict with the key prompt")
    try:
        return json.dumps(prompt, allow_nan=False, **options)
    except (TypeError, ValueError) as error:
        raise Refused(f"prompt {index} cannot be written as JSON: {error}") from None


def is_json_of(json_value, value):
    """Whether the value is the same after JSON. What JSON cannot hold counts as the same, since its text may differ in each process."""
    try:
        return json.loads(json.dumps(value)) == json_value
    except TypeError:
        return True


class DrawnTask:
    """An object whose draw(index) gives the prompts; score is a verifier of any form, and reply, if there is one, gives messages."""

    def __init__(self, task):
        self._task = task
        self.score = caller_of(task.score)
        self.reply = ReplyCaller(task.reply) if callable(getattr(task, "reply", None)) else None

    def draw(self, index):
        try:
            return json_text(self._task.draw(index), index)
        except (IndexError, StopIteration):
            return None


class DatasetTask:
    """An object like a dataset of reasoning_gym. Entries are made again for their score: JSON does not keep all of their types."""

    def __init__(self, task):
        self._task = task
        self.reply = None
        self._entry = functools.lru_cache(maxsize=4096)(task.__getitem__)

    def draw(self, index):
        if index >= len(self._task):
            return None
        entry = self._task[index]
        right = entry.get("answer")
        prompt = {"prompt": entry["question"], "truth": right, "index": index, "metadata": entry.get("metadata")}
        if isinstance(right, str) and right.strip():
            prompt["demonstration"] = right
        return json_text(prompt, index, default=str)

    def score(self, items):
        """An exception fails that answer alone."""
        return [self._score(item) for item in items]

    def _score(self, item):
        try:
            index = item["columns"]["index"]
            entry = self._entry(index)
            for key, before in (("question", item["prompt"]), ("answer", item["columns"]["truth"])):
                if not is_json_of(before, entry.get(key)):
                    raise Refused(f"entry {index} has another {key} than before; the task must be the same each time, so give it a seed")
            return plain_score(self._task.score_answer(item["answer"].strip(), entry))
        except Exception as error:
            return {"failed": text_of(error), **problem_of(error)}


def task_of(factory, params):
    """The task that the callable makes of its parameters. The number of prompts is not one of them."""
    if not callable(factory):
        raise Refused(f"it is of type {type(factory).__name__}, expected a class or a function that makes a task")
    task = factory(**{name: value for name, value in params.items() if name != "prompts"})
    if callable(getattr(task, "draw", None)) and callable(getattr(task, "score", None)):
        return DrawnTask(task)
    if all(hasattr(task, name) for name in ("__len__", "__getitem__", "score_answer")):
        return DatasetTask(task)
    raise Refused(f"it gives an object of type {type(task).__name__}, expected one with {KINDS}")


def prompts_between(task, first, end):
    """The prompts with these indices as JSON, up to the end of the task."""
    prompts = []
    for index in range(first, end):
        try:
            text = task.draw(index)
        except Exception as error:
            raise DrawFailed(index, error) from error
        if text is None:
            break
        prompts.append(text)
    return prompts
