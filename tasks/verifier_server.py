"""Verifier server: the process in which troupe runs a verifier that is written in Python.

troupe starts it as `PYTHON verifier_server.py DESCRIPTOR TARGET`, where DESCRIPTOR is one end of a socket pair and TARGET
is "MODULE:FUNCTION" or "FILE.py:FUNCTION". It needs Python 3.9 and nothing else. The other side is
tasks/verifier_process.h.

Every message is one line of JSON. The server first writes {"ready": true}, or {"error": TEXT} and ends. A request is
{"id": N, "items": [{"prompt": TEXT, "truth": TEXT, "answer": TEXT}, ...]}. The reply is {"id": N, "scores": [...]} with
one number or object {"reward": NUMBER, "right": BOOLEAN, "parts": {NAME: NUMBER}} for each item, or
{"id": N, "error": TEXT}.
"""

import importlib
import importlib.util
import json
import math
import os
import socket
import sys
import traceback


def text_of(error):
    """An exception as one line: type, text, file and line of the user's code."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    frames = [f for f in frames if "importlib" not in f.filename] or frames
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    line = type(error).__name__ + (": " + " ".join(str(error).split()) if str(error) else "")
    return line[: max(60, 270 - len(place))].encode("utf-8", "replace").decode() + place


def find_function(target):
    """The function that "module:name" or "path/file.py:name" refers to."""
    module_name, _, name = target.rpartition(":")
    if module_name.endswith(".py"):
        path = os.path.abspath(module_name)
        if not os.path.isfile(path):
            raise LookupError(f"there is no file {path}")
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(module_name)
    function = getattr(module, name, None)
    if not callable(function):
        raise LookupError(f"{module_name} has no function {name}")
    return function


def number(value, what):
    """The value as a finite float. Numbers of numpy and torch are accepted."""
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{what} is {value!r}, expected a number")
    result = float(value)
    if not math.isfinite(result):
        raise ValueError(f"{what} is {result}, expected a finite number")
    return result


def plain_score(score, index):
    """A score in the types of JSON."""
    if not isinstance(score, dict):
        return number(score, f"score {index}")
    unknown = [key for key in score if key not in ("reward", "right", "parts")]
    if unknown or "reward" not in score:
        raise ValueError(f"score {index} has the keys {list(score)}, expected reward, and optionally right and parts")
    reward = number(score["reward"], f"reward {index}")
    plain = {"reward": reward, "right": bool(score.get("right", reward >= 1))}
    plain["parts"] = {str(k): number(v, f"part {k!r} of score {index}") for k, v in score.get("parts", {}).items()}
    return plain


def scores_of(function, items):
    """The scores of one request. Raises when they are not one for each item."""
    scores = list(function(items))
    if len(scores) != len(items):
        raise ValueError(f"the verifier returned {len(scores)} scores, expected {len(items)}")
    return [plain_score(score, i) for i, score in enumerate(scores)]


def serve(connection, function):
    """Answers requests until the connection is closed."""
    for line in connection:
        request = json.loads(line)
        try:
            reply = {"scores": scores_of(function, request["items"])}
        except Exception as error:
            reply = {"error": text_of(error)}
        send(connection, {"id": request["id"], **reply})


def send(connection, message):
    """Writes one line."""
    connection.write(json.dumps(message).encode() + b"\n")
    connection.flush()


def main():
    """Loads the verifier and serves it."""
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    connection = end.makefile("rwb")
    try:
        function = find_function(sys.argv[2])
    except Exception as error:
        return send(connection, {"error": text_of(error)})
    send(connection, {"ready": True})
    serve(connection, function)


if __name__ == "__main__":
    main()
