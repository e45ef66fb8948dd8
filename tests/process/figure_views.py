"""Views of a run, read without its code: TensorBoard files and the statistics port. And the oracles of figures_recomputed_test.py."""

import json
import math
import pathlib
import socket
import struct

PATIENCE = 120  # seconds; a test that passes never waits so long


def flat(value, path=""):
    """The leaves of a JSON object by their dotted paths."""
    if not isinstance(value, dict):
        return {path: value}
    leaves = {}
    for key, inner in value.items():
        leaves |= flat(inner, f"{path}.{key}" if path else key)
    return leaves


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a protocol buffer: (number, value)."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else varint(data, at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def scalars(folder):
    """The scalars of the TensorBoard files: {(tag, step): value}."""
    result = {}
    for file in sorted(pathlib.Path(folder).rglob("*tfevents*")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (size,) = struct.unpack_from("<Q", data, at)
            event, at = dict(fields(data[at + 12 : at + 12 + size])), at + 16 + size
            if 5 not in event:
                continue
            for _, entry in fields(event[5]):
                one = dict(fields(entry))
                if 2 in one:  # the settings of the run have no number
                    result[one[1].decode(), event.get(2, 0)] = struct.unpack("<f", one[2])[0]
    return result


class Client:
    """The statistics port, line by line."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE)
        self.file = self.socket.makefile("rw")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def ask(self, request, kind):
        """The first message of that kind after a request."""
        self.file.write(json.dumps(request) + "\n")
        self.file.flush()
        return self.next(kind)

    def next(self, kind):
        """The first of the next messages that is of that kind."""
        for line in self.file:
            message = json.loads(line)
            if message["type"] == kind:
                return message
        raise AssertionError("the run closed the connection")


def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def deviation(values):
    center, total = mean(values), 0.0
    for value in values:
        total += (value - center) ** 2
    return math.sqrt(total / len(values))
