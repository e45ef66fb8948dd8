"""Shared by the tests of the Python package: plain-loop float64 oracles, and arrays in every form that a user may pass."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

try:
    import torch
except ImportError:
    torch = None

# The forms in which an array of float32 numbers is passed; see `given`. All values are exact in bfloat16.
FORMS = ["numpy", "numpy64", "numpy_strided", "numpy_misaligned", "numpy_reversed", "numpy_flipped", "list"]
if torch is not None:
    FORMS += ["torch", "torch_bf16", "torch_half", "torch_strided", "torch_offset", "torch_grad"]


def given(array: np.ndarray, form: str):
    """A numpy float array in the named form: the same numbers in another library, dtype or memory layout."""
    array = np.asarray(array, np.float32)
    if form == "numpy":
        return array
    if form == "numpy64":
        return array.astype(np.float64)
    if form == "list":
        return array.tolist()
    if form == "numpy_strided":
        wide = np.full((*array.shape[:-1], array.shape[-1] * 2 + 1), np.nan, np.float32)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if form == "numpy_misaligned":
        memory = np.empty(array.nbytes + 1, np.uint8)
        view = memory[1:].view(np.float32).reshape(array.shape)
        view[...] = array
        assert not view.flags.aligned or array.size == 0
        return view
    if form == "numpy_reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if form == "numpy_flipped":
        return np.ascontiguousarray(array[::-1])[::-1]
    if form == "torch_offset":  # aligned to elements only
        return torch.cat([torch.zeros(1), torch.from_numpy(array.copy()).flatten()])[1:].reshape(array.shape)
    tensor = torch.from_numpy(array.copy())
    if form == "torch_strided":
        return torch.stack([tensor, torch.full_like(tensor, torch.nan)], dim=-1)[..., 0]
    return {
        "torch": lambda: tensor,
        "torch_bf16": lambda: tensor.bfloat16(),
        "torch_half": lambda: tensor.half(),
        "torch_grad": lambda: tensor.requires_grad_(),
    }[form]()


def flags(array: np.ndarray, form: str):
    """Flags in the same library as an array of the named form."""
    array = np.asarray(array, bool)
    if form == "list":
        return array.tolist()
    return torch.from_numpy(array.copy()) if form.startswith("torch") else array


def as_numpy(result, form: str) -> np.ndarray:
    """A result as numpy, after checking that it is of the same kind as the arguments."""
    if form.startswith("torch"):
        assert isinstance(result, torch.Tensor) and not result.requires_grad
        return result.numpy()
    assert isinstance(result, np.ndarray)
    return result


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normally distributed random numbers, rounded so that they are exact in bfloat16 and float16."""
    return (np.clip(np.round(rng.normal(size=shape) * 32), -127, 127) / 32).astype(np.float32)


def gappy_mask(rng: np.random.Generator, rows: int, steps: int) -> np.ndarray:
    """[B, T] bool, right padded with gaps inside; some rows empty, some full."""
    lengths = rng.integers(0, steps + 1, size=rows)
    mask = (np.arange(steps) < lengths[:, None]) & (rng.random((rows, steps)) < 0.8)
    mask[rng.random(rows) < 0.2] = True
    mask[rng.random(rows) < 0.2] = False
    return mask


def spoiled(rng: np.random.Generator, array: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A copy with NaN and infinities at masked elements."""
    junk = rng.choice(np.array([np.nan, np.inf, -np.inf], np.float32), size=array.shape)
    return np.where(mask, array, junk)


def over_ranks(torch, folder, program: str, ranks: int) -> list:
    """The value of the variable `result` (as JSON) at the end of the program, for each of several processes of a gloo group. The
    program can use its `rank`."""
    setup = f"""
import datetime, json, os, sys
import torch, torch.distributed
import troupe.algorithms as ta
rank = int(sys.argv[1])
torch.distributed.init_process_group("gloo", init_method="file://{folder}/store", rank=rank, world_size={ranks},
                                     timeout=datetime.timedelta(seconds=60))
"""
    # os._exit: once the result is written, a thread of PyTorch's own gloo may still run and end the process with SIGABRT.
    ending = "\nprint(json.dumps(result), flush=True)\ntorch.distributed.destroy_process_group()\nos._exit(0)\n"
    running = [
        subprocess.Popen([sys.executable, "-c", setup + program + ending, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    try:
        outputs = [process.communicate(timeout=120)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert all(process.returncode == 0 for process in running)
    return [json.loads(output) for output in outputs]


def gae_general(
    rewards,
    values,
    gamma,
    lam,
    mask=None,
    terminated=None,
    truncated=None,
    next_values=None,
    bootstrap=None,
    outside="zero",
):
    """(advantages, returns) [B, T] in float64, step by step, with every option; gamma and lam are numbers or [B, T]."""
    rewards, values = np.asarray(rewards, np.float64), np.asarray(values, np.float64)
    gamma, lam = np.broadcast_to(gamma, rewards.shape), np.broadcast_to(lam, rewards.shape)
    advantages, returns = np.zeros_like(rewards), np.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        later, later_value = 0.0, 0.0 if bootstrap is None else float(bootstrap[b])
        for t in reversed(range(rewards.shape[1])):
            live = mask is None or mask[b, t]
            if live:
                end = terminated is not None and terminated[b, t]
                done = end or (truncated is not None and truncated[b, t])
                ahead = later_value if next_values is None else float(next_values[b, t])
                delta = rewards[b, t] + (0.0 if end else gamma[b, t] * ahead) - values[b, t]
                later = delta + (0.0 if done else gamma[b, t] * lam[b, t] * later)
                later_value = values[b, t]
            if live or outside == "carry":
                advantages[b, t], returns[b, t] = later, later + values[b, t]
    return advantages, returns


def reward_to_go(rewards, gamma, mask=None, terminated=None, bootstrap=None, masked="skip", outside="zero"):
    """[B, T] in float64, step by step."""
    rewards = np.asarray(rewards, np.float64)
    out = np.zeros_like(rewards)
    for b in range(rewards.shape[0]):
        later = 0.0 if bootstrap is None else float(bootstrap[b])
        for t in reversed(range(rewards.shape[1])):
            live = mask is None or mask[b, t]
            total = rewards[b, t] + (0.0 if terminated is not None and terminated[b, t] else gamma * later)
            if live:
                out[b, t] = later = total
            elif masked == "reset":
                out[b, t], later = (total if outside == "carry" else 0.0), 0.0
            elif outside == "carry":
                out[b, t] = later
    return out


def vtrace(log_rho, discounts, rewards, values, bootstrap, lam, rho_bar, c_bar, pg_rho_bar, q_mix):
    """(vs, pg_advantages) [T, B] in float64, from the definition of vs as a sum over later steps."""
    log_rho, discounts, rewards, values = (np.asarray(x, np.float64) for x in (log_rho, discounts, rewards, values))
    steps, count = rewards.shape
    rho = np.exp(np.clip(log_rho, -20, 20))
    following = np.concatenate([values[1:], np.asarray(bootstrap, np.float64)[None]])
    delta = np.minimum(rho, rho_bar) * (rewards + discounts * following - values)
    vs = values.copy()
    for t in range(steps):
        weight = np.ones(count)
        for k in range(t, steps):
            vs[t] += weight * delta[k]
            weight = weight * discounts[k] * lam * np.minimum(rho[k], c_bar)
    after = np.concatenate([vs[1:], following[-1:]]) if steps else following[:0]
    if q_mix == "rlax":
        after = lam * after + (1 - lam) * following
    return vs, np.minimum(rho, pg_rho_bar) * (rewards + discounts * after - values)


def close(got, want):
    """Equal up to the rounding of float32: 1e-5 + 2e-5 of the largest expected number."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    if want.size:
        assert np.max(np.abs(got - want)) <= 1e-5 + 2e-5 * np.max(np.abs(want))
