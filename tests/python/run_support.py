"""What the tests of whole runs share."""

import os

import pytest

SMALL = {
    "rollout": {"length": 32},
    "inference": {"batch_size": 64},
    "algorithm": {"gamma": 0.98, "lambda": 0.9, "entropy_coef": 0.01},
    "trainer": {"super_batch": 1024, "epochs": 4, "policy_lr": 1e-3, "value_lr": 1e-3},
    "evaluation": {"episodes": 10, "rows": 10},
    "stats": {"interval_ms": 200},
}


def use_built_program(monkeypatch):
    """Lets troupe.train find the program of this build."""
    if "TROUPE_PROGRAM" not in os.environ:
        folder = os.environ.get("TROUPE_BUILD_DIR")
        if not folder:
            pytest.fail("set TROUPE_PROGRAM to the program troupe, or TROUPE_BUILD_DIR to its folder")
        monkeypatch.setenv("TROUPE_PROGRAM", os.path.join(folder, "troupe"))
