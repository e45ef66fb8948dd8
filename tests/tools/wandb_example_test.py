#!/usr/bin/env python3
"""examples/wandb_run.py with the real Weights & Biases, offline: wandb_example_test.py. Skipped without wandb."""

import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
PROGRAM = pathlib.Path(__file__).parents[2] / "examples" / "wandb_run.py"
RECORDS = [
    {"env_steps": 10, "updates": 1, "lag": {"p95": 1.5}, "eval": None, "training_ended": False},
    {"env_steps": 20, "updates": 2, "lag": {"p95": 2.5}, "eval": {"return_mean": 7}, "bottleneck": {"what": "training"}},
]


def log_records(data):
    """The records of a file of wandb: a log as LevelDB's, in blocks of 32 KiB, after a header of 7 bytes."""
    block, header, last_kinds = 32768, struct.Struct("<IHB"), (1, 4)
    at, record = 7, b""
    while at + header.size <= len(data):
        if block - at % block < header.size:
            at += block - at % block
            continue
        _, size, kind = header.unpack_from(data, at)
        record += data[at + header.size : at + header.size + size]
        at += header.size + size
        if kind in last_kinds:
            yield record
            record = b""


def stored(folder):
    """The settings and the history that wandb has stored."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.rglob("*.wandb")
    settings, history = {}, []
    for data in log_records(path.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(data)
        for item in record.run.config.update:
            settings[item.key] = json.loads(item.value_json)
        if record.history.item:
            row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
            history.append({key: value for key, value in row.items() if not key.startswith("_")})
    return settings, history


class Example(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="troupe-wandb-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_folder = self.folder / "cartpole"
        self.run_folder.mkdir()
        (self.run_folder / "config.json").write_text('{"seed": 3, "trainer": {"epochs": 4}}')

    def write(self, records, mode="w"):
        with open(self.run_folder / "metrics.jsonl", mode) as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def start(self, *words):
        environment = os.environ | {"WANDB_MODE": "offline", "WANDB_DIR": str(self.folder), "WANDB_SILENT": "true"}
        command = [sys.executable, str(PROGRAM), str(self.run_folder), *words]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def check(self, history):
        self.assertEqual(history[0], {"env_steps": 10, "updates": 1, "lag.p95": 1.5})
        self.assertEqual(history[1], {"env_steps": 20, "updates": 2, "lag.p95": 2.5, "eval.return_mean": 7})
        self.assertEqual(len(history), 2)

    def test_a_run_that_is_over_is_stored_whole(self):
        self.write(RECORDS)
        output, _ = self.start().communicate(timeout=120)
        self.assertTrue(output.endswith("cartpole: 2 records\n"), output)
        settings, history = stored(self.folder)
        self.assertEqual(settings["seed"], 3)
        self.assertEqual(settings["trainer"], {"epochs": 4})
        self.check(history)

    def test_a_run_that_goes_on_is_followed_to_its_end(self):
        self.write(RECORDS[:1])
        (self.run_folder / "endpoints.json").write_text("{}")
        process = self.start("--follow")

        for line in process.stdout:
            if "following" in line:
                break
        self.write(RECORDS[1:], "a")
        (self.run_folder / "endpoints.json").unlink()
        output, _ = process.communicate(timeout=120)
        self.assertTrue(output.endswith("cartpole: 2 records\n"), output)
        self.check(stored(self.folder)[1])

    def test_a_folder_without_a_run_is_refused_in_one_line(self):
        (self.run_folder / "config.json").unlink()
        process = self.start()
        output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1)
        self.assertIn("No such file", output)
        self.assertEqual(output.count("\n"), 1)


if __name__ == "__main__":
    if importlib.util.find_spec("wandb") is None:
        print("skipped: no package wandb (tools/requirements-peers.txt)")
        sys.exit(SKIPPED)
    unittest.main()
