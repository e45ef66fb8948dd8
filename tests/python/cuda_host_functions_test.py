"""Functions without a GPU form, called with CUDA tensors: they give the CPU's results, as CUDA tensors. cuda_dispatch_test.py tests the
copies without a GPU."""

import inspect
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import oracles  # noqa: E402

import troupe.algorithms as ta  # noqa: E402

B, T = 12, 9
LENGTHS = torch.tensor([7, 3, 9, 1, 4, 4, 8, 2, 6, 5, 3, 9])
GROUPS = torch.arange(B) // 3


def tokens(rng):
    return torch.from_numpy(oracles.numbers(rng, B, T))


def calls(rng):
    """(function, arguments) with CPU tensors; every function that copies tensors to the host is in here."""
    mask = torch.from_numpy(oracles.gappy_mask(rng, B, T))
    scores, logp = torch.from_numpy(oracles.numbers(rng, B)), -tokens(rng).abs()
    extra = {
        "values": tokens(rng),
        "baselines": scores.flip(0),
        "old_logp": logp,
        "sum_pi_squared": torch.rand(B, T),
        "rollout_is_weights": torch.rand(B, T),
    }
    for name in ta.advantage_estimators():
        yield ta.advantages, dict(name=name, rewards=scores, mask=mask, groups=GROUPS, **extra)
    rollout = logp + 0.3 * tokens(rng)
    for method in ("tis", "icepop", "seq_mask_tis", "opsm", None):
        yield ta.rollout_correction, dict(logp=logp, rollout_logp=rollout, mask=mask, method=method, advantages=tokens(rng))
    yield ta.whiten, dict(x=tokens(rng), mask=mask)
    yield ta.shape_rewards, dict(scores=scores, mask=mask, logp=logp, ref_logp=rollout, kl_coef=0.1, clip=1.0)
    yield ta.overlong_penalty, dict(lengths=LENGTHS, max_length=9, buffer=4)
    yield ta.penalize_truncated, dict(scores=scores, truncated=LENGTHS > 6, coefficient=0.5)
    yield ta.filter_groups, dict(metric=(GROUPS % 2) * scores, groups=GROUPS)
    yield ta.resample_pf_ppo, dict(scores=scores, seed=3)
    yield ta.task_weights, dict(failures=LENGTHS.double())
    for function in (ta.karmarkar_karp, ta.balanced_partitions, ta.greedy_partition, ta.balance_ranks):
        yield function, dict(lengths=LENGTHS, k=3)
    yield ta.group_balanced_partitions, dict(lengths=LENGTHS, groups=GROUPS, k=2)
    yield ta.first_fit, dict(lengths=LENGTHS, max_tokens=12)
    yield ta.micro_batches, dict(lengths=LENGTHS, max_tokens=12)
    yield ta.workloads, dict(lengths=LENGTHS)
    yield ta.balance_stats, dict(lengths=LENGTHS, partition=[[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])
    yield ta.restore_order, dict(data=scores, index_lists=[list(range(6, 12)), list(range(6))])


def moved(value, device):
    return value.to(device) if torch.is_tensor(value) else value


def same(got, want, what):
    if torch.is_tensor(want):
        assert got.is_cuda and got.dtype == want.dtype, what
        assert torch.equal(got.cpu(), want), what
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), what
        for key in want:
            same(got[key], want[key], f"{what} {key}")
    elif isinstance(want, (tuple, list)):
        assert len(got) == len(want), what
        for a, b in zip(got, want):
            same(a, b, what)
    else:
        np.testing.assert_equal(got, want, what)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_results_are_those_of_the_cpu(rng):
    for function, arguments in calls(rng):
        what = f"{function.__name__} {arguments.get('name') or arguments.get('method') or ''}"
        same(function(**{k: moved(x, "cuda") for k, x in arguments.items()}), function(**arguments), what)


def test_every_function_that_takes_arrays_is_tested(rng):
    tested = {function.__name__ for function, _ in calls(rng)}
    without_arrays = {"advantage_estimators", "learning_rate"}
    functions = {name for name in ta.__all__ if inspect.isfunction(getattr(ta, name))}
    assert functions - ta._ON_THE_GPU - without_arrays == tested


def test_weights_and_mask_of_a_correction_go_into_a_loss_on_the_gpu(rng):
    logp, advantages = -tokens(rng).abs(), tokens(rng)
    rollout = logp + 0.3 * tokens(rng)
    results = []
    for device in ("cuda", "cpu"):
        new = logp.to(device).requires_grad_()
        weights, kept, _ = ta.rollout_correction(logp.to(device), rollout.to(device), method="seq_mask_tis")
        loss, _ = ta.policy_loss("clip", new, logp.to(device), advantages.to(device), kept, rollout_is_weights=weights)
        loss.backward()
        results.append((loss.item(), new.grad.cpu()))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-6, abs=1e-6)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-6, atol=1e-7)
