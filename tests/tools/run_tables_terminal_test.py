#!/usr/bin/env python3
"""What `troupe runs`, `plot` and `export --csv -` write to a terminal, and to a pipe: run_tables_terminal_test.py BUILD_DIR."""

import fcntl
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
TROUPE = f"{BUILD}/troupe"
LONG = "note" * 30  # a setting that no terminal of 80 columns has room for
ESCAPE = "it is \x1b[2J high"


def record(number):
    return {
        "elapsed_seconds": 10.0 + number,
        "env_steps": 1000 * number,
        "updates": number,
        "episodes": {"return_mean": 3.0 * number},
        "last_error": ESCAPE,
    }


def in_terminal(*words, columns=80):
    """What a terminal of that width gets."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([TROUPE, *words], stdout=its, stderr=subprocess.PIPE) as process:
        os.close(its)
        text = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
    os.close(ours)
    assert process.returncode == 0, text
    return text.decode()


def in_pipe(*words):
    return subprocess.run([TROUPE, *words], check=True, capture_output=True).stdout.decode()


class RunTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs = f"{folder.name}/runs"
        for rate in ("0.001", "0.0001"):
            config = {"name": ESCAPE, "seed": 1, "env": {"id": "CartPole-v1"}, "trainer": {"policy_lr": float(rate)}}
            config[LONG] = float(rate)
            place = pathlib.Path(self.runs, "a run with " + rate)
            place.mkdir(parents=True)
            (place / "config.json").write_text(json.dumps(config))
            (place / "metrics.jsonl").write_text("".join(json.dumps(record(n)) + "\n" for n in range(1, 9)))

    def test_no_control_character_of_a_text_reaches_a_terminal(self):
        for words in (["runs", self.runs], ["export", self.runs, "--csv", "-"]):
            with self.subTest(words[0]):
                shown = in_terminal(*words, columns=1000)
                self.assertFalse("\x1b" in shown)
                self.assertTrue("[2J high" in shown)

    def test_csv_in_a_pipe_is_what_the_records_hold(self):
        self.assertTrue(ESCAPE in in_pipe("export", self.runs, "--csv", "-"))

    def test_a_table_is_cut_at_the_width_of_a_terminal(self):
        lines = in_terminal("runs", self.runs, columns=80).replace("\r", "").split("\n")
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_nothing_is_cut_in_a_pipe(self):
        for words in (["runs", self.runs], ["plot", self.runs]):
            with self.subTest(words[0]):
                self.assertTrue(LONG + "=0.001" in in_pipe(*words))


if __name__ == "__main__":
    unittest.main()
