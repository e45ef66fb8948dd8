#!/usr/bin/env python3
"""Ends a run while clients of its statistics port are in every state: stats_clients_test.py BUILD_DIR."""

import base64
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
TROUPE = f"{BUILD}/troupe"
PATIENCE = 60  # seconds; a test that passes never waits so long
INTERVAL = 0.5
LINE_TIMEOUT = 10.0  # for the rest of a line and between two pings, see docs/protocol.md
END = INTERVAL + 2  # seconds from the signal to the end of the program


def frame(opcode, data):
    mask = os.urandom(4)
    size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack(">H", len(data))
    return bytes([0x80 | opcode]) + size + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))


def upgrade(address):
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /stream HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


ASK = b'{"type":"metrics"}'
PING, PONG, CLOSE, TEXT = 9, 10, 8, 1
# What a client sends at first, and then eight times a second. None of them reads.
KINDS = {
    "silent": (lambda _: b"", b""),
    "half a line": (lambda _: b'{"ty', b""),
    "asks in lines": (lambda _: b"", ASK + b"\n"),
    "half a request": (lambda _: b"GET / HTTP/1.1\r\n", b""),
    "half an upgrade": (lambda address: upgrade(address)[:-2], b""),
    "silent WebSocket": (upgrade, b""),
    "pongs": (upgrade, frame(PONG, b"x")),
    "pings": (upgrade, frame(PING, b"x")),
    "asks": (upgrade, frame(TEXT, ASK)),
    "closes": (lambda address: upgrade(address) + frame(CLOSE, b""), b""),
}


class Client(threading.Thread):
    def __init__(self, address, first, repeated, stop):
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        self.socket.settimeout(1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect((host, int(port)))
        self.socket.sendall(first(address))
        self.repeated, self.stop = repeated, stop

    def wait_until_closed(self):
        """Returns when the server has closed the connection."""
        self.socket.settimeout(PATIENCE)
        while self.socket.recv(4096):
            pass

    def run(self):
        try:
            while not self.stop.wait(0.125):
                self.socket.sendall(self.repeated)
        except OSError:
            pass
        self.stop.wait()
        self.socket.close()


class StatsClients(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.run_folder = pathlib.Path(folder.name) / "run"
        settings = ["stop.env_steps=0", "stop.updates=1000000", "evaluation.episodes=1"]
        settings += [f"stats.interval_ms={round(1000 * INTERVAL)}"]
        words = [word for setting in settings for word in ("--set", setting)]
        self.train = subprocess.Popen(
            [TROUPE, "train", "cartpole", "--run", self.run_folder, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(self.train.stderr.close)
        self.addCleanup(self.train.wait)
        self.addCleanup(self.train.kill)
        end = time.monotonic() + PATIENCE
        while self.endpoints().get("pid") != self.train.pid:  # a start that was killed leaves its own
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.address = self.endpoints()["stats"]

    def endpoints(self):
        file = self.run_folder / "endpoints.json"
        try:
            return json.loads(file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def test_a_run_ends_in_time_with_clients_in_every_state(self):
        stop = threading.Event()
        self.addCleanup(stop.set)
        clients = {kind: Client(self.address, first, repeated, stop) for kind, (first, repeated) in KINDS.items()}
        opened = time.monotonic()
        for client in clients.values():
            client.start()
        clients["half a line"].wait_until_closed()  # by then the run has also sent the first ping
        self.assertGreaterEqual(time.monotonic() - opened, LINE_TIMEOUT / 2)
        begin = time.monotonic()
        self.train.send_signal(signal.SIGTERM)
        _, err = self.train.communicate(timeout=PATIENCE)
        self.assertLess(time.monotonic() - begin, END)
        self.assertEqual(self.train.returncode, 130, err)


if __name__ == "__main__":
    unittest.main()
