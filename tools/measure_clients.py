#!/usr/bin/env python3
"""Processor time of an environment step while pages watch a run, over that without any.

  tools/measure_clients.py                    50 clients, 10 pairs of 4 s
  tools/measure_clients.py --clients 10 --pairs 3

Trains CartPole with a report a second. Clients are WebSockets, as the page opens them, which read all that comes. Times with and without
them alternate; the result is the median of the ratios, and the least and the largest. Exits with 1 if the median is above 1.03. Standard
library only.
"""

import argparse
import base64
import json
import os
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 1.03
PATIENCE = 60


class Watchers:
    """Clients that are open until close(), read by a thread of this process."""

    def __init__(self, address, count):
        host, _, port = address.rpartition(":")
        self.sockets, self.bytes, self.open = [], 0, True
        key = base64.b64encode(os.urandom(16)).decode()
        request = f"GET /stream HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        request += f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        for _ in range(count):
            client = socket.create_connection((host, int(port)), PATIENCE)
            client.sendall(request.encode())
            if b" 101 " not in client.recv(4096).split(b"\r\n", 1)[0]:
                raise RuntimeError("a client was refused")
            client.setblocking(False)
            self.sockets.append(client)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        with selectors.DefaultSelector() as selector:
            for client in self.sockets:
                selector.register(client, selectors.EVENT_READ)
            while self.open:
                for key, _ in selector.select(0.1):
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        raise RuntimeError("a client was closed")
                    self.bytes += len(data)

    def close(self):
        self.open = False
        self.thread.join()
        for client in self.sockets:
            client.close()


def stats_of(address):
    with urllib.request.urlopen(f"http://{address}/stats", timeout=PATIENCE) as reply:
        return json.loads(reply.read())["stats"]


def processor_seconds(pid):
    ticks = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def time_of_step(pid, address, seconds):
    """Processor seconds of the process for each environment step, from report to report."""

    def moment(after):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            stats = stats_of(address)
            if stats and stats["env_steps"] > after:
                return stats["env_steps"], processor_seconds(pid)
            time.sleep(0.01)
        raise RuntimeError("no report")

    steps, used = moment(stats_of(address)["env_steps"])
    time.sleep(seconds)
    more, after = moment(stats_of(address)["env_steps"])
    return (after - used) / (more - steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder with the built program")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4, help="of each of the two times of a pair")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = [f"{options.build}/troupe", "train", "cartpole", "--run", f"{folder}/run"]
        for setting in ("stop.env_steps=0", "stop.updates=1000000", "stats.interval_ms=1000"):
            words += ["--set", setting]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            endpoints, deadline = pathlib.Path(folder) / "run/endpoints.json", time.monotonic() + PATIENCE
            while not (endpoints.exists() and stats_of(json.loads(endpoints.read_text())["stats"])):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the run does not start")
                time.sleep(0.1)
            address = json.loads(endpoints.read_text())["stats"]
            ratios, read = [], 0
            for pair in range(options.pairs):
                times = {}
                for watched in (False, True) if pair % 2 == 0 else (True, False):
                    watchers = Watchers(address, options.clients if watched else 0)
                    times[watched] = time_of_step(process.pid, address, options.seconds)
                    watchers.close()
                    read += watchers.bytes
                ratios.append(times[True] / times[False])
        finally:
            process.terminate()
            process.wait()
    median = statistics.median(ratios)
    print(f"{options.clients} clients read {read / 1e6:.1f} MB")
    print(f"processor time of a step, with them over without: median {median:.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    sys.exit(median > MOST)


if __name__ == "__main__":
    main()
