#!/usr/bin/env python3
"""Runs the commands shown in the documentation: every fenced ```sh block of the given Markdown files, in order, in a fresh
folder per file that looks like the repository after a build. Addresses 127.0.0.1:PORT get a port that is free, one per file, so that
several files can be run at the same time.

A comment on the line before a block changes that:
  <!-- not run: REASON -->   the block is skipped, and the reason printed
  <!-- run with: ARGUMENTS --> the arguments are added to the block's last command, to make it short
  <!-- file: NAME -->        the block, of any language, is the content of this file, which is written before the blocks after it run
  <!-- background -->        the block runs beside the following blocks; it is interrupted (SIGINT) at
                             the end of the file and must then end with 0 or 130

Usage: run_doc_commands.py BUILD_DIR FILE.md...      exits 1 when a command fails
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK_SECONDS = 300
SKIPPED = 77  # the exit code if no block was to be run
ADDRESS = re.compile(r"\b127\.0\.0\.1:([1-9]\d*)\b")
MARKER = re.compile(
    r"<!--\s*(not run:\s*(?P<reason>.*?)|run with:\s*(?P<arguments>.*?)|file:\s*(?P<file>[\w.-]+)|(?P<background>background))\s*-->\s*$"
)


class Block:
    def __init__(self, line, marker):
        marks = marker.groupdict() if marker else {}
        self.line = line  # number of the first command's line, from 1
        self.text = ""
        self.reason = marks.get("reason")
        self.arguments = marks.get("arguments")
        self.file = marks.get("file")  # the name of the file that it is the content of
        self.background = bool(marks.get("background"))

    def end(self):
        if self.arguments:
            self.text = f"{self.text.rstrip()} {self.arguments}\n"


def blocks_of(lines):
    """The ```sh blocks of a Markdown file, and those that are files. A marker counts if only blank lines are between it and the block."""
    blocks, block, marker = [], None, None
    for number, line in enumerate(lines, 1):
        if block is not None:
            if line.strip() == "```":
                block.end()
                blocks.append(block)
                block = None
            else:
                block.text += line
        elif line.strip() == "```sh" or (marker and marker.group("file") and line.startswith("```")):
            block, marker = Block(number + 1, marker), None
        elif line.strip():
            marker = MARKER.match(line.strip())
    if block is not None:
        raise ValueError(f"line {block.line - 1}: this ```sh block has no end")
    return blocks


def free_ports():
    """Ports that are free now. Below those that the system gives to other programs, and starting at another one in each process, so that
    nobody else takes one before the page uses it."""
    first, count = 10000, 22000
    start = os.getpid() * 16 % count
    for i in range(count):
        port = first + (start + i) % count
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def use_free_ports(blocks):
    """Replaces every port of the loopback interface in the blocks of a page."""
    ports, free = {}, free_ports()
    for block in blocks:
        for port in ADDRESS.findall(block.text):
            if port not in ports:
                ports[port] = next(free)
        block.text = ADDRESS.sub(lambda found: f"127.0.0.1:{ports[found[1]]}", block.text)


def make_folder(folder, build_dir):
    """A folder that looks like the repository with build/release built and no runs yet."""
    for name in os.listdir(ROOT):
        if name not in ("build", "runs", ".git"):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "build"))
    os.symlink(os.path.abspath(build_dir), os.path.join(folder, "build", "release"))


def start(block, folder):
    # A separate process group, so that the processes it starts can be stopped with it. The trap ERR prints the command that failed.
    prelude = "set -Eeuo pipefail; trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\n"
    return subprocess.Popen(["bash", "-c", prelude + block.text], cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True)


def stop(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def run_block(block, folder):
    """None, or a description of the problem."""
    process = start(block, folder)
    try:
        code = process.wait(BLOCK_SECONDS)
    except subprocess.TimeoutExpired:
        stop(process, signal.SIGKILL)
        process.wait()
        return f"not done after {BLOCK_SECONDS} s"
    return None if code == 0 else f"exit code {code}"


def end_background(block, process):
    """None, or a description of the problem."""
    if process.poll() is None:
        stop(process, signal.SIGINT)
    try:
        code = process.wait(60)
    except subprocess.TimeoutExpired:
        stop(process, signal.SIGKILL)
        process.wait()
        return "still running 60 s after SIGINT"
    return None if code in (0, 130, -signal.SIGINT) else f"exit code {code}"


def run_file(path, build_dir):
    """Runs the blocks of a page. Returns the number of blocks that ran, and of those that failed."""
    with open(path, encoding="utf-8") as file:
        blocks = blocks_of(file.readlines())
    use_free_ports(blocks)
    failures, background = [], []
    with tempfile.TemporaryDirectory() as folder:
        make_folder(folder, build_dir)
        for block in blocks:
            if block.reason is not None:
                print(f"{path}:{block.line}: not run: {block.reason}", flush=True)
                continue
            if block.file is not None:
                with open(os.path.join(folder, block.file), "w", encoding="utf-8") as file:
                    file.write(block.text)
                continue
            print(f"{path}:{block.line}: {block.text.strip()}", flush=True)
            if block.background:
                background.append((block, start(block, folder)))
                continue
            begin = time.monotonic()
            failures.append((block, run_block(block, folder)))
            print(f"{path}:{block.line}: {time.monotonic() - begin:.1f} s", flush=True)
        failures += [(block, end_background(block, process)) for block, process in background]
    failures = [(block, why) for block, why in failures if why]
    for block, why in failures:
        print(f"{path}:{block.line}: FAILED: {why}", flush=True)
    return sum(block.reason is None and block.file is None for block in blocks), len(failures)


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        results = [run_file(path, sys.argv[1]) for path in sys.argv[2:]]
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    if any(failed for _, failed in results):
        return 1
    return 0 if any(ran for ran, _ in results) else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
