"""configs/tokens/rlhf.json with the reward model that its documentation makes."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

from run_support import use_built_program  # noqa: E402

import troupe  # noqa: E402
from troupe import reward_model  # noqa: E402

LARGEST_KL = 2.0  # per token


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def test_the_score_of_the_reward_model_rises_and_the_policy_stays_near_its_reference(tmp_path, monkeypatch, capsys):
    use_built_program(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    reward_model.main(["--example"])
    assert "held-out pairs" in capsys.readouterr().out
    run = troupe.train("tokens/rlhf", run_dir="run", quiet=True)
    assert run.exit_code == 0
    assert run.summary["ledger"]["verifier_failed"] == 0
    points = [json.loads(line) for line in Path("run", "metrics.jsonl").read_text().splitlines()]
    points = [point for point in points if point["updates"] > 0]
    first, last = points[0]["episodes"], points[-len(points) // 3 :]
    score = mean(point["episodes"]["return_parts"]["reward_model"] for point in last)
    # Two runs rose by 1.0 and 1.2 standard deviations.
    assert score > first["return_parts"]["reward_model"] + 0.6 * first["return_std"]
    assert mean(point["learner"]["reference_kl"] for point in last) < LARGEST_KL
