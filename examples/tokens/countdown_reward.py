"""A reward in Python for the task `countdown`: an expression over the given numbers that has the value of the target.

    troupe train configs/tokens/countdown_python.json

The reward has two parts, which the run reports by their names: `format` is 1 for an expression that uses each given number
at most once, `answer` is 1 if it also has the value of the target.
"""

import ast
from fractions import Fraction

OPERATIONS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def value_of(node, numbers):
    """The value of an expression. Takes the numbers in it out of `numbers`; raises ValueError for one that is not there."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](value_of(node.left, numbers), value_of(node.right, numbers))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        numbers.remove(node.value)
        return Fraction(node.value)
    raise ValueError("no expression of numbers and + - * /")


def value_of_answer(text, numbers):
    """The value of an answer, or None if it is no expression over these numbers."""
    try:
        return value_of(ast.parse(text.strip(), mode="eval").body, list(numbers))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def score(answer, truth):
    """The score of one answer; the truth is the target, then the numbers: "82 3 7 25 50"."""
    target, *numbers = map(int, truth.split())
    value = value_of_answer(answer, numbers)
    return {
        "parts": {"format": value is not None, "answer": value == target},
        "weights": {"format": 0.1, "answer": 0.9},
        "right": value == target,
    }


def reward(answers):
    """One score for each answer: a dict with "prompt", "truth" and "answer"."""
    return [score(answer["answer"], answer["truth"]) for answer in answers]
