"""What the tests of whole runs share."""

import os
import threading
from pathlib import Path

import pytest

SMALL = {
    "rollout": {"length": 32},
    "inference": {"batch_size": 64},
    "algorithm": {"gamma": 0.98, "lambda": 0.9, "entropy_coef": 0.01},
    "trainer": {"super_batch": 1024, "epochs": 4, "policy_lr": 1e-3, "value_lr": 1e-3},
    "evaluation": {"episodes": 10, "rows": 10},
    "stats": {"interval_ms": 200},
}

HERE = Path(__file__).resolve().parent
TOKENS = {
    "task": {"params": {"digits": 2}},
    "model": {
        "kind": "decoder",
        "decoder": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32},
    },
    "algorithm": {"advantage": "rloo"},
    "generation": {"answers": 4},
    "workers": {"groups": 4},
    "trainer": {"super_batch": 32, "minibatches": 1, "epochs": 1},
    "evaluation": {"every_updates": 2, "episodes": 8},
}


def use_built_program(monkeypatch):
    """Lets troupe.train find the program of this build."""
    if "TROUPE_PROGRAM" not in os.environ:
        folder = os.environ.get("TROUPE_BUILD_DIR")
        if not folder:
            pytest.fail("set TROUPE_PROGRAM to the program troupe, or TROUPE_BUILD_DIR to its folder")
        monkeypatch.setenv("TROUPE_PROGRAM", os.path.join(folder, "troupe"))


class Record:
    """Notes the calls of its methods."""

    def __init__(self):
        self.calls, self.reports, self.threads = [], [], set()

    def note(self, name, value=None):
        self.calls.append((name, value))
        self.threads.add(threading.current_thread())

    def on_report(self, run, report):
        self.reports.append(report)
        self.note("report")

    def on_evaluation(self, run, evaluation):
        self.note("evaluation", evaluation["return_mean"])

    def on_checkpoint(self, run, path):
        assert (path / "model.safetensors").is_file() or not path.exists()
        self.note("checkpoint", int(path.name))

    def on_end(self, run):
        self.note("end", run.exit_code)

    def of(self, name):
        return [value for each, value in self.calls if each == name]


def checkpoints(folder):
    return sorted(int(path.name) for path in (Path(folder) / "checkpoints").iterdir())


class Stop:
    def on_report(self, run, report):
        run.stop()


def servers_of(run):
    """The environment servers of a program: the children of all its threads."""
    return [int(pid) for path in Path(f"/proc/{run}/task").glob("*/children") for pid in path.read_text().split()]
