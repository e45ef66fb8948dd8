"""The pairs of answers from which troupe.reward_model learns: reading them, and which of them are held out."""

import json
import math
import random
from typing import NamedTuple

from ._reward_files import RewardModelError, is_text, shown

EXAMPLE_DIGITS = 5
HELD_OUT = 10  # one pair of so many is not trained on


class Pair(NamedTuple):
    """Two answers to a prompt. `place` is where the pair comes from, for messages."""

    prompt: str
    chosen: str
    rejected: str
    place: str = ""


def counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _pair_of(line, place):
    """The pair of a line. Raises RewardModelError without its place."""
    try:
        pair = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise RewardModelError(f"is not JSON in UTF-8: {error}") from None
    if not isinstance(pair, dict):
        raise RewardModelError("expected a JSON object with prompt, chosen and rejected")
    for key in ("prompt", "chosen", "rejected"):
        if key not in pair:
            raise RewardModelError(f"{key} is missing, expected prompt, chosen and rejected")
        if not is_text(pair[key]):
            raise RewardModelError(f"{key}: {shown(pair[key])}, expected a text")
    if not pair["prompt"]:
        raise RewardModelError("prompt is empty")
    if pair["chosen"] == pair["rejected"]:
        raise RewardModelError(f"chosen and rejected are equal, {shown(pair['chosen'])}")
    return Pair(pair["prompt"], pair["chosen"], pair["rejected"], place)


def read_pairs(path):
    """The lines of a file of pairs. Raises RewardModelError."""
    pairs = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                pairs.append(_pair_of(line, place))
            except RewardModelError as error:
                raise RewardModelError(f"{place}: {error}") from None
    return pairs


def example_pairs(count, seed=1):
    """Pairs of answers to prompts of the task `reverse`. A program stands for the people who choose: it prefers large digits and answers
    as long as the prompt, and errs like people, the more often the closer two answers are."""
    draw = random.Random(seed)

    def digits(length):
        return "".join(draw.choice("0123456789") for _ in range(length))

    def quality(answer):
        return (sum(map(int, answer)) - 6 * abs(len(answer) - EXAMPLE_DIGITS)) / 4

    pairs = []
    while len(pairs) < count:
        answers = [digits(EXAMPLE_DIGITS if draw.random() < 0.8 else draw.randint(2, EXAMPLE_DIGITS)) for _ in range(2)]
        if draw.random() >= 1 / (1 + math.exp(quality(answers[1]) - quality(answers[0]))):
            answers.reverse()
        pairs.append(Pair(digits(EXAMPLE_DIGITS) + ">", *answers))
    return pairs


def different_pairs(pairs):
    """The first of each group of equal pairs, in their order. Raises RewardModelError if they are too few to train on some and hold out
    others."""
    first = {}
    for pair in pairs:
        first.setdefault(pair[:3], pair)
    if len(first) < 2 * HELD_OUT:
        raise RewardModelError(f"there are too few different pairs: {len(first)}, expected at least {2 * HELD_OUT}")
    if len(prompts := {prompt for prompt, _, _ in first}) == 1:
        expected = "expected at least 2 prompts, because the held-out pairs have prompts of their own"
        raise RewardModelError(f"all pairs have the prompt {shown(prompts.pop())}, {expected}")
    return list(first.values())


def split_by_prompt(pairs, seed):
    """(pairs to train on, held-out pairs), in a random order: all pairs of a prompt are on one side. At most one pair of HELD_OUT is held
    out, unless each prompt has more pairs: then those of the prompt with the fewest."""
    pairs = list(pairs)
    random.Random(seed).shuffle(pairs)
    sizes = {}
    for pair in pairs:
        sizes[pair.prompt] = sizes.get(pair.prompt, 0) + 1
    left, chosen = len(pairs) // HELD_OUT, set()
    for prompt, size in sizes.items():
        if size <= left:
            left -= size
            chosen.add(prompt)
    chosen = chosen or {min(sizes, key=sizes.get)}
    return [pair for pair in pairs if pair.prompt not in chosen], [pair for pair in pairs if pair.prompt in chosen]
