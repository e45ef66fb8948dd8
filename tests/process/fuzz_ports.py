#!/usr/bin/env python3
"""Attacks the ports of a run, of a node, and of a second run with its inference process. First it sends headers of CAF messages with every
operation and with many lengths and data fields, then random traffic that is made from recorded sessions of real peers. No process may
end or use much memory, and both runs must keep training.

    fuzz_ports.py --programs build/dev [--seconds 600] [--seed 1] [--stats]

With --stats only the statistics ports are attacked, with JSON lines and HTTP. The same seed gives the same attacks only if the recorded
sessions are the same too.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 120
HEADER = 32
HANDSHAKE, DIRECT, ROUTED, MONITOR, DOWN = 1, 2, 3, 4, 5
OPERATIONS = (*range(10), 255)
LENGTHS = (0, 1, 31, 32, 1000, 65536, 2**31, 2**32 - 1)
DATA = (0, 1, 4, 2**64 - 1)
SETTINGS = (
    "stats.interval_ms=100", "stop.env_steps=0", "stop.updates=1000000", "trainer.super_batch=1024", "trainer.epochs=1",
    "rollout.length=16", "workers.count=1",
)


class Failure(Exception):
    pass


def header(operation, length, data=0, source=0, target=0, flags=0):
    return struct.pack(">BBBBIQQQ", operation & 255, 0, 0, flags & 255, length & 0xFFFFFFFF, data, source, target)


def frames_of(stream):
    """The complete frames of one direction of a session, each as (header fields, payload)."""
    frames = []
    while len(stream) >= HEADER:
        operation, _, _, flags, length, data, source, target = struct.unpack(">BBBBIQQQ", stream[:HEADER])
        if len(stream) < HEADER + length:
            break
        frames.append(([operation, flags, data, source, target], stream[HEADER : HEADER + length]))
        stream = stream[HEADER + length :]
    return frames


def eventually(condition, what):
    end = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"waited {PATIENCE} s for {what}")
        time.sleep(0.02)


class Program:
    """A running troupe program, with its output in a file."""

    def __init__(self, programs, folder, *words):
        self.words = words
        self.log = folder / f"{words[0]}-{len(list(folder.iterdir()))}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen([str(programs / "troupe"), *words], stdout=out, stderr=subprocess.STDOUT)

    def text(self):
        return self.log.read_text(errors="replace")

    def name(self):
        return f"troupe {self.words[0]} ({self.log})"

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        return int(found.group(1)) * 1024 if found else 0

    def ports(self):
        """The TCP ports this process listens on."""
        files = pathlib.Path(f"/proc/{self.process.pid}/fd")
        inodes = set()
        for entry in files.iterdir():
            with contextlib.suppress(OSError):
                if match := re.match(r"socket:\[(\d+)\]", os.readlink(entry)):
                    inodes.add(match.group(1))
        ports = set()
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
        return sorted(ports)

    def check(self):
        if self.process.poll() is not None:
            raise Failure(f"{self.name()} ended with {self.process.returncode}:\n{self.text()[-4000:]}")
        if "ERROR: AddressSanitizer" in (text := self.text()) or "runtime error:" in text:
            raise Failure(f"{self.name()} reported:\n{text[-6000:]}")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Recorder:
    """A proxy between a client and a port that records what the client sends."""

    def __init__(self, port):
        self.port, self.sent = port, bytearray()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.server.accept()
                peer = socket.create_connection(("127.0.0.1", self.port))
                threading.Thread(target=self.pump, args=(client, peer, self.sent), daemon=True).start()
                threading.Thread(target=self.pump, args=(peer, client, None), daemon=True).start()

    def pump(self, source, target, record):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if record is not None and len(record) < 1 << 20:
                    record += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def frames(self):
        return frames_of(bytes(self.sent))


class Attack:
    """Random traffic for one port. `session` is what a real peer sent there; with `lines_only` the traffic is JSON lines and HTTP."""

    def __init__(self, rng, session, lines_only=False):
        self.rng, self.session, self.lines_only = rng, session, lines_only
        self.node = next((payload for fields, payload in session if fields[0] == HANDSHAKE), None)

    def mutate(self, data):
        data = bytearray(data)
        for _ in range(self.rng.choice((0, 1, 1, 2, 8))):
            if not data:
                break
            at = self.rng.randrange(len(data))
            kind = self.rng.randrange(5)
            if kind == 0:
                data[at] = self.rng.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << self.rng.randrange(8)
            elif kind == 2:
                odd = (b"\xff" * 4, b"\x00" * 8, b"\x80" * 5, b"\xff\xff\xff\xff\x0f")
                data[at : at + self.rng.choice((1, 4, 8))] = self.rng.choice(odd)
            elif kind == 3:
                del data[at : at + self.rng.randrange(1, 64)]
            else:
                data[at:at] = data[at : at + self.rng.randrange(1, 64)]
        return bytes(data)

    def random_frame(self):
        length = self.rng.choice((0, 0, 1, 32, 64, 100, 1000, 70000, 2**25, 2**31))
        fields = [self.rng.choice((0, 0, 1, 2**32, 2**62, 2**64 - 1, self.rng.getrandbits(64))) for _ in range(3)]
        frame = header(self.rng.choice(OPERATIONS), length, *fields, flags=self.rng.choice((0, 0, 1, 2, 255)))
        return frame + self.rng.randbytes(min(length, self.rng.choice((0, 100, 70000))))

    def session_bytes(self):
        """The handshake of a new process, then frames of the recorded session, some of them changed, with the new process as sender."""
        if self.node is None:
            return self.random_frame()
        name = self.node[:12] + self.rng.randbytes(20)
        out = [header(HANDSHAKE, len(name)) + name]
        frames = [f for f in self.session if f[0][0] != HANDSHAKE] or self.session
        for _ in range(self.rng.randrange(1, 12)):
            (operation, flags, data, source, target), payload = self.rng.choice(frames)
            payload = payload.replace(self.node, name)
            if self.rng.random() < 0.5:
                payload = self.mutate(payload)
            fields = [data, source, target]
            if self.rng.random() < 0.2:
                fields[self.rng.randrange(3)] = self.rng.choice((0, 1, 2, 2**63, self.rng.getrandbits(64)))
            if self.rng.random() < 0.1:
                operation = self.rng.choice(OPERATIONS)
            if self.rng.random() < 0.1:
                flags = self.rng.randrange(256)
            out.append(header(operation, len(payload), *fields, flags=flags) + payload)
            if self.rng.random() < 0.05:
                out.append(self.random_frame())
        return b"".join(out)

    def lines(self):
        parts = ("{", "}", '"type"', ":", '"history"', '"last"', "1e999", "-1", "[" * 50, '"topic"', '"subscribe"', '"\\ud800"', ",", "\n")
        parts += ("\x00",)
        whole = ('{"type":"ping"}\n', '{"type":"history","last":5}\n', '{"type":"subscribe","topic":"env_steps"}\n')
        whole += ("GET /stats HTTP/1.1\r\n", "GET / HTTP/1.0\r\n", "Host: localhost\r\n", "Host: [::1]:x\r\n", "\r\n")
        whole += ("Origin: http://a.example\r\n", "Host:" + "a" * 70000)
        whole += ("GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /" + "%2e" * 3000 + " HTTP/1.1\r\nHost: ::1\r\n\r\n")
        whole += ("POST /stats HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "Content-Length: -1\r\n")
        whole += ("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "Upgrade: websocket\r\nConnection: Upgrade\r\n")
        whole += ('{"type":"history","last":1e18}\n', '{"type":"subscribe","topic":"' + "a." * 5000 + '"}\n', "[" * 20000 + "\n")
        text = "".join(self.rng.choice(parts if self.rng.random() < 0.4 else whole) for _ in range(self.rng.randrange(1, 20)))
        return self.mutate(text.encode())

    def bytes(self):
        kind = self.rng.random()
        if self.lines_only:
            data = self.lines()
        elif kind < 0.6:
            data = self.session_bytes()
        elif kind < 0.75:
            data = b"".join(self.random_frame() for _ in range(self.rng.randrange(1, 5)))
        elif kind < 0.95:
            data = self.lines()
        else:
            data = self.rng.randbytes(self.rng.randrange(5000))
        return self.mutate(data) if self.rng.random() < 0.1 else data

    def send(self, port):
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.settimeout(1)
                data, end = self.bytes(), self.rng.randrange(4)
                cuts = sorted(self.rng.randrange(len(data) + 1) for _ in range(self.rng.choice((0, 0, 1, 5)))) if data else []
                for begin, stop in itertools.pairwise((0, *cuts, len(data))):
                    connection.sendall(data[begin:stop])
                    if cuts:
                        time.sleep(self.rng.random() * 0.005)
                if end == 0:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                elif end == 1:
                    connection.shutdown(socket.SHUT_WR)
                if end > 0:
                    connection.settimeout(0.01)
                    connection.recv(4096)


class Bench:
    """All processes under attack, and the recorded sessions of real peers with them."""

    def __init__(self, programs, folder):
        self.folder, self.programs, self.own, self.stats_ports = folder, programs, [], []
        (folder / "logs").mkdir()

    def start(self, *words):
        program = Program(self.programs, self.folder / "logs", *words)
        self.own.append(program)
        return program

    def train(self, name, *more):
        run = self.folder / name
        words = [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]
        program = self.start("train", "cartpole", "--run", str(run), *words)

        def endpoints():
            program.check()
            with contextlib.suppress(OSError, ValueError):
                return json.loads((run / "endpoints.json").read_text())
            return None

        found = eventually(endpoints, "endpoints.json")
        self.stats_ports.append((program, int(found["stats"].rpartition(":")[2])))
        return program, run, int(found["workers"].rpartition(":")[2])

    def begin(self):
        self.run, self.run_folder, at = self.train("run", "replay.max_policy_lag=16")
        self.served, self.served_folder, served_at = self.train("served", "inference.count=0", "replay.max_policy_lag=16")
        self.node = self.start("node", "--listen", "127.0.0.1:0")
        node_at = int(eventually(lambda: re.search(r"listening on .*:(\d+)", self.node.text()), "the node").group(1))
        to_run, to_served, to_node = Recorder(at), Recorder(served_at), Recorder(node_at)
        self.start("worker", "--connect", to_run.address)
        self.inference = self.start("inference", "--connect", to_served.address)
        subprocess.run([str(self.programs / "troupe"), "spawn", "--node", to_node.address, "--workers", "1", "--run",
                        f"127.0.0.1:{at}"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        for folder in (self.run_folder, self.served_folder):
            self.wait_for_updates(folder)
        self.sessions = {}
        for program, recorder in ((self.run, to_run), (self.served, to_served), (self.node, to_node)):
            frames = recorder.frames()
            if not any(fields[0] == HANDSHAKE for fields, _ in frames):
                raise Failure(f"no session with {program.name()} was recorded")
            self.sessions[program] = frames
        self.sessions[self.inference] = self.sessions[self.served]

    def targets(self):
        return [(program, port) for program in self.sessions for port in program.ports()]

    def updates(self, folder):
        with contextlib.suppress(OSError, ValueError, IndexError):
            return json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["updates"]
        return 0

    def wait_for_updates(self, folder):
        before = self.updates(folder)
        eventually(lambda: self.check() or self.updates(folder) > before + 1, f"updates of {folder.name}")

    def check(self):
        for program in self.own:
            program.check()

    def largest(self):
        return {program: program.memory() for program in self.sessions}

    def stop(self):
        for program in self.own:
            program.stop()


def combinations(bench):
    """Sends every combination of OPERATIONS, LENGTHS and DATA, as the first frame and after a handshake."""
    for program, port in bench.targets():
        node = Attack(random.Random(0), bench.sessions[program]).node
        greeting = header(HANDSHAKE, len(node)) + node[:12] + b"fuzz of all headers."
        for prefix, operation, length, data in itertools.product((b"", greeting), OPERATIONS, LENGTHS, DATA):
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                    connection.sendall(prefix + header(operation, length, data) + b"\x00" * min(length, 2000))
        program.check()
        print(f"all headers: {program.name()}, port {port}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path(os.environ.get("TROUPE_BUILD_DIR", "build/release")))
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("TROUPE_FUZZ_SECONDS", "10")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TROUPE_FUZZ_SEED", "1")))
    parser.add_argument("--growth", type=int, default=512, help="MiB that no process may grow by")
    parser.add_argument("--stats", action="store_true", help="attack the statistics ports alone")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    suppressions = pathlib.Path(__file__).resolve().parents[1] / "support/ubsan.supp"
    os.environ.setdefault("UBSAN_OPTIONS", f"suppressions={suppressions}:print_stacktrace=1:halt_on_error=1")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.programs, pathlib.Path(folder))
        try:
            bench.begin()
            before = bench.largest()
            print("ports:", {program.words[0]: program.ports() for program in bench.sessions}, flush=True)
            if not options.stats:
                combinations(bench)
            count, end = 0, time.monotonic() + options.seconds
            while time.monotonic() < end:
                for program, port in bench.stats_ports if options.stats else bench.targets():
                    Attack(rng, bench.sessions[program], lines_only=options.stats).send(port)
                    count += 1
                bench.check()
                for program, memory in bench.largest().items():
                    if memory > before[program] + (options.growth << 20):
                        raise Failure(f"{program.name()} grew to {memory >> 20} MiB after {count} attacks")
            for folder in (bench.run_folder, bench.served_folder):
                bench.wait_for_updates(folder)
            grown = {p.words[0]: f"{before[p] >> 20} -> {m >> 20} MiB" for p, m in bench.largest().items()}
            print(f"{count} attacks with seed {options.seed}; resident memory {grown}")
        except Failure as failure:
            print(f"seed {options.seed}: {failure}", file=sys.stderr)
            return 1
        finally:
            bench.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
