"""examples/ppo.py learns the same with troupe's advantages and losses as with torch's."""

import json
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs PyTorch")
pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-peers.txt)")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ppo.py"


def test_ppo_has_the_same_returns(tmp_path):
    runs = {}
    for parts in ("torch", "troupe"):
        file = tmp_path / f"{parts}.json"
        command = [sys.executable, EXAMPLE, "--parts", parts, "--iterations", "8", "--seed", "3", "--json", file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        runs[parts] = json.loads(file.read_text())
        print(parts, {part: round(seconds, 3) for part, seconds in runs[parts]["seconds"].items()})
    # Returns are numbers of steps: rounding that changed one action would change them.
    assert runs["troupe"]["curve"] == runs["torch"]["curve"]
    assert runs["troupe"]["curve"][-1] > 3 * runs["troupe"]["curve"][0]
