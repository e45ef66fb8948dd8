"""Losses, divergences and distributions compared with PyTorch's. Torch computes in float64; the tolerance is the rounding of float32
results, 1e-5 relative and 1e-6 absolute, unless a test gives others."""

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")
import torch_gae  # noqa: E402
from torch.nn import functional  # noqa: E402


def normal(rng, *shape, scale=1.0):
    return torch.tensor(scale * rng.normal(size=shape), dtype=torch.float32)


def close(got, want, rtol=1e-5, atol=1e-6):
    torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_categorical(rng, temperature):
    logits, labels = normal(rng, 5, 7, 301, scale=3), torch.tensor(rng.integers(0, 301, (5, 7)))
    outer = normal(rng, 2, 5, 7).double()
    theirs, ours = logits.double().requires_grad_(), logits.clone().requires_grad_()
    distribution = torch.distributions.Categorical(logits=theirs / temperature)
    want = distribution.log_prob(labels), distribution.entropy()
    torch.autograd.backward(want, list(outer))
    got = ta.logprobs_entropy(ours, labels, temperature=temperature)
    torch.autograd.backward(got, list(outer.float()))
    close(got[0], want[0])
    close(got[1], want[1])
    close(ours.grad, theirs.grad)


def test_full_kl(rng):
    p, q = normal(rng, 6, 200, scale=2), normal(rng, 6, 200, scale=2)
    theirs, ours = p.double().requires_grad_(), p.clone().requires_grad_()
    log_p, log_q = functional.log_softmax(theirs, -1), functional.log_softmax(q.double(), -1)
    want = functional.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)
    want.sum().backward()
    got = ta.kl("full", ours, q)
    got.sum().backward()
    close(got, want)
    close(ours.grad, theirs.grad)


def test_gaussian(rng):
    """Computed with a few float32 operations: tolerance 1e-4 relative."""
    x, mean, log_std, other, other_log_std = (normal(rng, 50, 4) for _ in range(5))
    p = torch.distributions.Normal(mean.double(), log_std.double().exp())
    q = torch.distributions.Normal(other.double(), other_log_std.double().exp())
    close(ta.gaussian_logprob(x, mean, log_std), p.log_prob(x.double()), rtol=1e-4, atol=1e-5)
    close(ta.gaussian_entropy(log_std), p.entropy(), rtol=1e-4, atol=1e-5)
    want = torch.distributions.kl_divergence(p, q)
    close(ta.gaussian_kl(mean, log_std, other, other_log_std), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind, delta", [("l2", 1.0), ("huber", 0.7), ("huber", 2.0)])
def test_value_loss(rng, kind, delta):
    values, returns = normal(rng, 8, 60, scale=2), normal(rng, 8, 60, scale=2)
    theirs, ours = values.double().requires_grad_(), values.clone().requires_grad_()
    if kind == "l2":
        want = functional.mse_loss(theirs, returns.double()) / 2
    else:
        want = functional.huber_loss(theirs, returns.double(), delta=delta)
    want.backward()
    got, _ = ta.value_loss(ours, returns, kind=kind, huber_delta=delta)
    got.backward()
    close(got, want)
    close(ours.grad, theirs.grad, atol=1e-8)


def test_whitening(rng):
    x = normal(rng, 30, 40, scale=5) + 2
    mask = torch.tensor(oracles.gappy_mask(rng, 30, 40))
    kept = x.double()[mask]
    want = (kept - kept.mean()) / torch.sqrt(kept.var() + 1e-8)
    close(ta.whiten(x, mask)[mask], want)


@pytest.mark.parametrize("gamma, lam", [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_gae(rng, gamma, lam):
    for rows, steps in [(1, 1), (3, 128), (5, 300), (2, 1000)]:
        rewards, values = normal(rng, rows, steps), normal(rng, rows, steps)
        got = ta.gae(rewards, values, gamma=gamma, lam=lam)
        forms = [torch_gae.serial(rewards.double(), values.double(), gamma, lam)]
        forms += [torch_gae.chunked(rewards.double(), values.double(), gamma, lam, chunk) for chunk in (1, 7, 128)]
        for want in forms:
            oracles.close(got[0], want[0])
            oracles.close(got[1], want[1])


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_schedules(kind):
    """Equal up to rounding: torch multiplies the rates step by step."""
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    if kind == "cosine":
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.01)
    else:
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=50)
    for step in range(60 if kind == "linear" else 51):
        got = ta.learning_rate(kind, step, peak=0.1, total=50, min_ratio=0.1)
        assert got == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        schedule.step()


def test_numpy_and_torch_give_the_same(rng):
    rewards, values = oracles.numbers(rng, 4, 90), oracles.numbers(rng, 4, 90)
    of_numpy = ta.gae(rewards, values, gamma=0.9, lam=0.8)
    of_torch = ta.gae(torch.from_numpy(rewards), torch.from_numpy(values), gamma=0.9, lam=0.8)
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(of_numpy, of_torch))
