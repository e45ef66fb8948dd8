"""Compares the speed of troupe with other libraries and with torch operations, in one process, alternately, each by its fastest run.
Prints the measurements (pytest -s, ctest -V). The machine should be idle."""

import os
import pathlib
import sys
import time

import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")
functional = pytest.importorskip(
    "torchrl.objectives.value.functional", reason="TorchRL is not installed (tools/requirements-peers.txt)"
)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import time_losses  # noqa: E402
import torch_gae  # noqa: E402

ROWS, STEPS = 256, 16384
CHUNKS = (64, 128, 256)
# Where the chunked form is not slower by that factor, troupe must take no longer than this many copies of its inputs to its outputs:
# then memory is the bottleneck.
COPIES = 1.2


def best(forms, turns):
    """The seconds of each form's fastest run. `turns`: number of runs by name; all forms alternate as long as they have runs left."""
    seconds = dict.fromkeys(forms, float("inf"))
    for turn in range(max(turns.values())):
        for name, form in forms.items():
            if turn < turns[name]:
                start = time.perf_counter()
                form()
                seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


@pytest.fixture(params=[1, 2])
def threads(request):
    if request.param > len(os.sched_getaffinity(0)):
        pytest.skip(f"needs {request.param} processors")
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_gae(threads, capsys):
    generator = torch.Generator().manual_seed(0)
    rewards, values = (torch.randn(ROWS, STEPS, generator=generator) for _ in range(2))
    copies = torch.empty_like(rewards), torch.empty_like(rewards)
    done = torch.zeros(ROWS, STEPS, 1, dtype=torch.bool)
    following = torch.cat([values[:, 1:], torch.zeros(ROWS, 1)], 1)
    torchrl = [x[..., None] for x in (values, following, rewards)] + [done, done]
    forms = {
        "ours": lambda: ta.gae(rewards, values, gamma=0.99, lam=0.95),
        "copies": lambda: (copies[0].copy_(rewards), copies[1].copy_(values)),
        "serial": lambda: torch_gae.serial(rewards, values, 0.99, 0.95),
        "torchrl": lambda: functional.vec_generalized_advantage_estimate(0.99, 0.95, *torchrl),
    }
    for chunk in CHUNKS:
        forms[f"chunk {chunk}"] = lambda chunk=chunk: torch_gae.chunked(rewards, values, 0.99, 0.95, chunk)
    seconds = best(forms, {"ours": 60, "copies": 60, "serial": 5, "torchrl": 2} | {f"chunk {chunk}": 20 for chunk in CHUNKS})
    ratios = {name: spent / seconds["ours"] for name, spent in seconds.items()}
    with capsys.disabled():
        print(f"\ngae {ROWS} x {STEPS}, {threads} threads: {1e3 * seconds['ours']:.2f} ms;", end=" ")
        print(", ".join(f"{name} x{ratio:.1f}" for name, ratio in ratios.items() if name != "ours"))
    assert ratios["serial"] >= 100
    chunked = min(ratios[f"chunk {chunk}"] for chunk in CHUNKS)
    assert chunked >= 15 or ratios["copies"] >= 1 / COPIES
    assert ratios["torchrl"] >= 15


def measured(pair, turns):
    ours, theirs = pair
    seconds = best({"ours": ours, "theirs": theirs}, {"ours": turns, "theirs": turns})
    return seconds["ours"], seconds["theirs"] / seconds["ours"]


@pytest.mark.parametrize("name", list(ta.SURROGATES))
def test_surrogate(name, capsys):
    torch.set_num_threads(1)
    seconds, ratio = measured(time_losses.policy_pair(name), 12)
    with capsys.disabled():
        print(f"\n{name} 512 x 2048, 1 thread: {1e3 * seconds:.2f} ms; torch operations x{ratio:.1f}", end="")
    assert ratio >= 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logprobs_entropy(dtype, capsys):
    torch.set_num_threads(1)
    seconds, ratio = measured(time_losses.logprob_pair(dtype), 12)
    with capsys.disabled():
        print(f"\nlogprobs_entropy {dtype}, 1 thread: {1e3 * seconds:.2f} ms; torch operations x{ratio:.1f}", end="")
    assert ratio >= 1
