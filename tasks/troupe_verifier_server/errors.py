"""Errors of verifiers as text."""

import os
import traceback

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LONGEST_TRACEBACK = 30_000  # characters


class Refused(Exception):
    """A verifier that cannot be used. Its text is the whole error."""


class DrawFailed(Exception):
    """The exception that ended the draw of a prompt."""

    def __init__(self, index, error):
        super().__init__(index)
        self.index, self.error = index, error


def one_line(text, limit=300):
    return " ".join(str(text).split())[:limit].encode("utf-8", "replace").decode()


def text_of(error):
    """An exception as one line: type, text, file and line of the user's code."""
    if isinstance(error, Refused):
        return one_line(error)
    if isinstance(error, DrawFailed):
        text = text_of(error.error)
        return text if text.startswith(f"prompt {error.index} ") else f"prompt {error.index}: {text}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not ours(f.filename)]
    frames = [f for f in frames if "importlib" not in f.filename]
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    line = type(error).__name__ + (": " + one_line(error) if str(error) else "")
    return one_line(line, max(60, 270 - len(place))) + place


def place_of(error):
    """Type and place of an exception: the same for each failure of the same kind, whatever its text."""
    if isinstance(error, DrawFailed):
        return place_of(error.error)
    frames = traceback.extract_tb(error.__traceback__)
    frames = [f for f in frames if not ours(f.filename)] or frames
    return type(error).__name__ + (f" {frames[-1].filename}:{frames[-1].lineno}" if frames else "")


def problem_of(error, with_traceback=True):
    """What a reply says of an exception, but for the key of its text."""
    return {"place": place_of(error), "traceback": traceback_of(error) if with_traceback else []}


def traceback_of(error):
    """The lines of the traceback, from the user's code on; without their middle if they are very long."""
    if isinstance(error, Refused):
        return []
    if isinstance(error, DrawFailed):
        return traceback_of(error.error)
    trace = error.__traceback__
    while trace and ours(trace.tb_frame.f_code.co_filename) and trace.tb_next:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).encode("utf-8", "replace").decode()
    if len(text) > LONGEST_TRACEBACK:
        text = text[: LONGEST_TRACEBACK // 2] + "\n  ...\n" + text[-LONGEST_TRACEBACK // 2 :]
    return text.splitlines()


def ours(file):
    return os.path.abspath(file).startswith((os.path.join(FOLDER, "troupe_verifier_server"), os.path.join(FOLDER, "verifier_server.py")))
