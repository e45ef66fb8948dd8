"""A tool for answers of several turns: the model writes an expression, and gets its value.

troupe train tokens/countdown_turns --set task.reply=py:examples/tokens/calculator.py:reply --set task.message_tokens=12
"""

import ast
import operator

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def value(node):
    """The value of an expression of numbers and + - * /. Raises for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](value(node.left), value(node.right))
    raise ValueError("no such expression")


def message(answer):
    """None where the conversation ends: the answer has the value that the prompt asks for."""
    target = answer["truth"].split()[0]
    try:
        result = value(ast.parse(answer["answer"].strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return "=:"
    text = str(int(result)) if result == int(result) else "/"
    return None if text == target else f"={text}:"


def reply(answers):
    return [message(answer) for answer in answers]
