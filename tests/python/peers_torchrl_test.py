"""The scan family compared with TorchRL's. TorchRL computes in float64, troupe in float32, so differences are due to rounding: the
tolerance of all tests of the scans is 1e-5 + 2e-5 of the largest number. TorchRL's vectorized forms drop weights below 1e-7, which
is less."""

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")
functional = pytest.importorskip(
    "torchrl.objectives.value.functional", reason="TorchRL is not installed (tools/requirements-peers.txt)"
)

SHAPES = [(1, 1), (1, 200), (7, 33), (16, 257)]


def problem(rng, shape, ends=0.05):
    """Rewards, values, the values of the real next observations, terminated and truncated: [B, T]."""
    rewards, values, elsewhere = (oracles.numbers(rng, *shape) for _ in range(3))
    terminated = rng.random(shape) < ends
    truncated = (rng.random(shape) < ends) & ~terminated
    following = np.concatenate([values[:, 1:], elsewhere[:, :1]], axis=1)
    return rewards, values, np.where(terminated | truncated, elsewhere, following), terminated, truncated


def theirs(*arrays):
    """The arrays in TorchRL's format: [B, T, 1], numbers in float64."""
    tensors = [torch.as_tensor(np.array(x))[..., None] for x in arrays]
    return [x if x.dtype == torch.bool else x.double() for x in tensors]


@pytest.mark.parametrize("name", ["generalized_advantage_estimate", "vec_generalized_advantage_estimate"])
@pytest.mark.parametrize("gamma, lam", [(0.99, 0.95), (1.0, 1.0), (0.9, 0.1), (1.0, 0.999)])
def test_gae(rng, name, gamma, lam):
    for shape in SHAPES:
        rewards, values, following, terminated, truncated = problem(rng, shape)
        inputs = theirs(values, following, rewards, terminated | truncated, terminated)
        want = getattr(functional, name)(gamma, lam, *inputs)
        got = ta.gae(
            rewards, values, gamma=gamma, lam=lam, terminated=terminated, truncated=truncated, next_values=following
        )
        oracles.close(got[0], want[0][..., 0])
        oracles.close(got[1], want[1][..., 0])


def test_gae_with_a_factor_of_zero(rng):
    """TorchRL's vectorized form fails for gamma * lam = 0; its serial form, the definition and troupe return delta."""
    rewards, values, following, terminated, truncated = problem(rng, (4, 50))
    inputs = theirs(values, following, rewards, terminated | truncated, terminated)
    got = ta.gae(rewards, values, gamma=0.9, lam=0, terminated=terminated, truncated=truncated, next_values=following)[0]
    delta = rewards.astype(np.float64) + np.where(terminated, 0, 0.9 * following) - values
    oracles.close(got, delta)
    oracles.close(functional.generalized_advantage_estimate(0.9, 0.0, *inputs)[0][..., 0], delta)
    with pytest.raises(IndexError):
        functional.vec_generalized_advantage_estimate(0.9, 0.0, *inputs)


def test_gae_with_factors_per_step(rng):
    rewards, values, following, terminated, truncated = problem(rng, (5, 40))
    gammas, lams = rng.uniform(0.5, 1, (5, 40)), rng.uniform(0, 1, (5, 40))
    inputs = theirs(values, following, rewards, terminated | truncated, terminated)
    got = ta.gae(
        rewards, values, gamma=gammas, lam=lams, terminated=terminated, truncated=truncated, next_values=following
    )
    for name in ("generalized_advantage_estimate", "vec_generalized_advantage_estimate"):
        want = getattr(functional, name)(*theirs(gammas, lams), *inputs)
        oracles.close(got[0], want[0][..., 0])


@pytest.mark.parametrize("name", ["td_lambda_return_estimate", "vec_td_lambda_return_estimate"])
def test_lambda_returns(rng, name):
    for shape in SHAPES:
        rewards, values, following, terminated, truncated = problem(rng, shape)
        inputs = theirs(following, rewards, terminated | truncated, terminated)
        want = getattr(functional, name)(0.97, 0.9, *inputs)
        got = ta.lambda_returns(
            rewards, values, gamma=0.97, lam=0.9, terminated=terminated, truncated=truncated, next_values=following
        )
        oracles.close(got, want[..., 0])


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_reward_to_go(rng, gamma):
    for shape in SHAPES:
        rewards, _, _, terminated, _ = problem(rng, shape)
        want = functional.reward2go(*theirs(rewards, terminated), gamma)
        oracles.close(ta.reward_to_go(rewards, gamma=gamma, terminated=terminated), want[..., 0])


@pytest.mark.parametrize("rho_bar, c_bar", [(1.0, 1.0), (2.0, 0.5), (1e9, 1.0)])
def test_vtrace(rng, rho_bar, c_bar):
    """TorchRL has no lambda, and no separate bound for the weights in the policy gradient: it uses that of rho."""
    for shape in SHAPES:
        rewards, values, following, terminated, _ = problem(rng, shape)
        following[:, :-1] = values[:, 1:]
        log_pi, log_mu = oracles.numbers(rng, *shape), oracles.numbers(rng, *shape)
        inputs = theirs(log_pi, log_mu, values, following, rewards, terminated, terminated)
        advantages, vs = functional.vtrace_advantage_estimate(0.95, *inputs, rho_thresh=rho_bar, c_thresh=c_bar)
        got = ta.vtrace(
            log_pi - log_mu,
            0.95 * ~terminated,
            rewards,
            values,
            following[:, -1],
            rho_bar=rho_bar,
            c_bar=c_bar,
            pg_rho_bar=rho_bar,
            layout="BT",
        )
        oracles.close(got[0], vs[..., 0])
        oracles.close(got[1], advantages[..., 0])
