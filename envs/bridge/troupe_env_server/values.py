"""Checks of what an environment returns, and errors as texts."""

import os
import traceback

from troupe_env_server import np

# Files of the server: of this folder, and the program that is started.
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_OWN = (_FOLDER + os.sep, os.path.join(os.path.dirname(_FOLDER), "env_server.py"))


class Refused(Exception):
    """A mistake of the user; the text is complete."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def place_of(error):
    """The innermost line of the user's code in a traceback, as "file:line"; of a library if there is none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OWN)]
    own = [f for f in frames if not any(part in f.filename for part in ("site-packages", "dist-packages", "<frozen"))]
    own = [f for f in own if not f.filename.startswith(os.path.dirname(os.__file__))]
    frame = (own or frames or [None])[-1]
    return f"{frame.filename}:{frame.lineno}" if frame else ""


def printable(text):
    """The text without control characters and lone surrogates, which JSON readers refuse."""
    text = "".join(c if c >= " " else " " for c in text)
    return text.encode("utf-8", "replace").decode()


def lines_of(error, count):
    """The last lines of the traceback of an exception."""
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    return [printable(line)[:500] for line in lines[-count:]]


def text_of(error):
    """An exception as one line: type, text, file and line."""
    text = " ".join(str(error).split())
    line = type(error).__name__ + (": " + text if text else "")
    place = place_of(error)
    longest = max(60, 270 - len(place))  # so that the place is not cut off, where lines are limited to 300 bytes
    return printable(line[:longest] + (f" ({place})" if place else ""))


def shown(value):
    """A value as an error shows it."""
    if np.ndim(value) > 0 and np.size(value) > 4:
        return f"{type(value).__name__} of shape {list(np.shape(value))}" if isinstance(value, np.ndarray) else brief(value)
    return brief(value)


def brief(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def number_of(name, value):
    """The number that a value is: a number, or an array of one."""
    if isinstance(value, (float, int, np.floating, np.integer)):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub" or array.size != 1:
        raise ValueError(f"{name} is {shown(value)}, expected a number")
    return float(array.reshape(-1)[0])


def flag_of(name, value):
    """The truth value that a value is: True, False, 1 or 0, or an array of one of them."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    array = np.asarray(value)
    if array.dtype.kind in "fiub" and array.size == 1 and array.reshape(-1)[0] in (0, 1):
        return bool(array.reshape(-1)[0])
    raise ValueError(f"{name} is {shown(value)}, expected True or False")


def numbers_of_rows(name, values, count):
    """The numbers of all rows of a vector environment: [N], or [N, 1]."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub" and array.shape in ((count,), (count, 1)):
        return array.reshape(count)
    if np.shape(values) not in ((count,), (count, 1)):
        raise ValueError(f"{name} has shape {list(np.shape(values))}, expected [{count}]")
    return np.array([number_of(f"{name}[{i}]", values[i]) for i in range(count)])


def flags_of_rows(name, values, count):
    array = np.asarray(values)
    if array.dtype.kind == "b" and array.shape == (count,):
        return array
    if np.shape(values) not in ((count,), (count, 1)):
        raise ValueError(f"{name} has shape {list(np.shape(values))}, expected [{count}]")
    return np.array([flag_of(f"{name}[{i}]", values[i]) for i in range(count)], bool)


def dict_of(info):
    if not hasattr(info, "get"):
        raise ValueError(f"info is {shown(info)}, expected a dict")
    return info


def parts_of_reset(result):
    """Observation and info."""
    if type(result) not in (tuple, list) or len(result) != 2:
        raise ValueError(f"reset() returned {returned(result)}, expected 2: observation and info")
    return result


def parts_of_step(result):
    if type(result) not in (tuple, list) or len(result) != 5:
        raise ValueError(
            f"step() returned {returned(result)}, expected 5: observation, reward, terminated, truncated, info " "(Gymnasium 0.26 or later)"
        )
    return result


def returned(result):
    return f"{len(result)} values" if type(result) in (tuple, list) else shown(result)
