"""The Python examples of python/README.md run, and its table contains every function."""

import re
from pathlib import Path

import pytest

import troupe.algorithms as ta

README = (Path(__file__).resolve().parents[2] / "python" / "README.md").read_text()


def test_the_first_use_runs():
    pytest.importorskip("torch", reason="needs PyTorch")
    first = README.split("## First use")[1].split("```python\n")[1].split("```")[0]
    names = {}
    exec(first, names)
    assert names["logits"].grad.isfinite().all() and (names["logits"].grad[:, -3:] == 0).all() and names["values"].grad is not None
    groups = names["ta"].advantages("grpo", names["scores"], names["mask"], groups=[0, 0, 1, 1])
    assert groups.advantages.shape == names["mask"].shape


def test_the_table_has_every_function():
    table = README.split("## Functions and what others call them")[1]
    named = set(re.findall(r"`(\w+)", table)) | {f"gaussian_{x}" for x in ("logprob", "entropy", "kl")}
    missing = {name for name in ta.__all__ if callable(getattr(ta, name))} - named - {"advantage_estimators"}
    assert not missing
