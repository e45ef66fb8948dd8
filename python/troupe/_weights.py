"""Reads safetensors files and run folders with numpy alone."""

import json
from pathlib import Path

import numpy as np

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"
}  # fmt: skip


def read_safetensors(path):
    """The tensors of a file by name, as numpy arrays. Raises ValueError if the file is damaged or has a dtype that numpy lacks."""
    data = Path(path).read_bytes()
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        body = memoryview(data)[8 + length :]
        tensors = {}
        for name, entry in header.items():
            if entry["dtype"] not in _DTYPES:
                raise ValueError(f"tensor {name} has dtype {entry['dtype']}, expected one of: {', '.join(_DTYPES)}")
            first, last = entry["data_offsets"]
            tensors[name] = np.frombuffer(body[first:last], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a safetensors file that can be read: {error}") from error
    return tensors


def find_checkpoint(folder, which):
    """The folder of a checkpoint of a run. `which` is "newest", "best" or a number of updates. Raises FileNotFoundError, ValueError."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} is not a run folder: it has no config.json")
    found: dict[int, Path] = {}
    if (folder / "checkpoints").is_dir():
        found = {int(path.name): path for path in (folder / "checkpoints").iterdir() if path.name.isdigit()}
    if not found:
        raise FileNotFoundError(f"{folder} has no checkpoint yet")
    if which == "newest":
        return found[max(found)]
    if which == "best":
        which = _best(folder)
    if isinstance(which, bool) or not isinstance(which, (int, np.integer)):
        raise ValueError(f'checkpoint is {which!r}, expected "newest", "best" or a number of updates')
    if int(which) not in found:
        raise FileNotFoundError(f"{folder} has no checkpoint {which}, it has {', '.join(map(str, sorted(found)))}")
    return found[int(which)]


def _best(folder):
    path = folder / "best.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no best.json: a run writes it with the setting checkpoint.keep_best")
    try:
        ranked = json.loads(path.read_text(encoding="utf-8"))["checkpoints"]
        best = int(ranked[0]["updates"]) if ranked else None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a ranking that can be read: {error}") from error
    if best is None:
        raise FileNotFoundError(f"{folder}: no evaluation has ranked a checkpoint yet")
    return best
