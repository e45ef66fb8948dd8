"""Discounted sums compared with scipy's linear filter, log-probabilities with scipy.special, and partitions with optimal ones found by
integer programming."""

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

scipy = pytest.importorskip("scipy", reason="scipy is not installed (tools/requirements-peers.txt)")
from scipy import optimize, signal, special, stats  # noqa: E402


def discounted(x, factor):
    """Sum over k of factor^k x_{t+k} along the last dimension, in float64."""
    return signal.lfilter([1], [1, -factor], x.astype(np.float64)[..., ::-1], axis=-1)[..., ::-1]


@pytest.mark.parametrize("steps", [1, 2, 100, 4099])
@pytest.mark.parametrize("gamma, lam", [(0.99, 0.95), (1.0, 1.0), (0.5, 0.0)])
def test_scans_equal_a_filter(rng, steps, gamma, lam):
    rewards, values = oracles.numbers(rng, 6, steps), oracles.numbers(rng, 6, steps)
    bootstrap = oracles.numbers(rng, 6)
    following = np.concatenate([values[:, 1:], bootstrap[:, None]], axis=1).astype(np.float64)
    want = discounted(rewards + gamma * following - values, gamma * lam)
    advantages, returns = ta.gae(rewards, values, gamma=gamma, lam=lam, bootstrap=bootstrap)
    oracles.close(advantages, want)
    oracles.close(returns, want + values)
    oracles.close(ta.reward_to_go(rewards, gamma=gamma), discounted(rewards, gamma))


def test_logprobs_and_entropy(rng):
    """Within 2e-6 of scipy's float64: sums are in float64, results are rounded to float32, and at most 20 in magnitude."""
    logits = (4 * rng.normal(size=(9, 5001))).astype(np.float32)
    labels = rng.integers(0, 5001, 9)
    logp, entropy = ta.logprobs_entropy(logits, labels, temperature=0.7)
    scaled = logits.astype(np.float64) / 0.7
    np.testing.assert_allclose(logp, special.log_softmax(scaled, -1)[np.arange(9), labels], rtol=0, atol=2e-6)
    np.testing.assert_allclose(entropy, stats.entropy(special.softmax(scaled, -1), axis=-1), rtol=0, atol=2e-6)


def optimal(lengths, k):
    """The smallest possible largest sum of a partition into k parts."""
    n = len(lengths)
    # x[i, p]: item i is in part p; the last variable is the largest sum.
    cost = np.append(np.zeros(n * k), 1)
    once = np.zeros((n, n * k + 1))
    sums = np.zeros((k, n * k + 1))
    sums[:, -1] = -1
    for i in range(n):
        once[i, i * k : (i + 1) * k] = 1
        sums[np.arange(k), i * k + np.arange(k)] = lengths[i]
    found = optimize.milp(
        cost,
        integrality=np.append(np.ones(n * k), 0),
        bounds=optimize.Bounds(0, np.append(np.ones(n * k), np.inf)),
        constraints=[optimize.LinearConstraint(once, 1, 1), optimize.LinearConstraint(sums, -np.inf, 0)],
    )
    assert found.success
    return round(found.fun)


def fewest_bins(lengths, cap):
    return next(k for k in range(1, len(lengths) + 1) if optimal(lengths, k) <= cap)


def largest(lengths, parts):
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    return max(sum(int(lengths[i]) for i in part) for part in parts)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_partitions_are_as_near_to_the_optimum_as_proven(rng, k):
    """Largest differencing stays within 7/6 of the optimum for two parts (Fischetti and Martello 1987) and 4/3 - 1/(3(k - 1)) for
    more (Michiels et al. 2003); greedy partitioning in descending order within 4/3 - 1/(3k) (Graham 1969)."""
    ratios = []
    for _ in range(6):
        lengths = np.sort(rng.integers(1, 1000, size=rng.integers(k, 12)))[::-1].copy()
        best = optimal(lengths, k)
        differencing = largest(lengths, ta.karmarkar_karp(lengths, k))
        greedy = largest(lengths, ta.greedy_partition(lengths, k))
        assert best <= differencing <= best * (7 / 6 if k == 2 else 4 / 3 - 1 / (3 * (k - 1)))
        assert best <= greedy <= best * (4 / 3 - 1 / (3 * k))
        assert ta.balance_stats(lengths, ta.karmarkar_karp(lengths, k))["lower_bound"] <= best
        ratios.append(differencing / best)
    assert np.mean(ratios) <= 1.05


def test_bins_are_as_few_as_proven(rng):
    """First fit uses at most 1.7 times the optimal number of bins (Dosa and Sgall 2013)."""
    for _ in range(4):
        lengths, cap = rng.integers(1, 60, size=10), 100
        best = fewest_bins(lengths, cap)
        bins = ta.first_fit(lengths, cap)
        assert largest(lengths, bins) <= cap and best <= len(bins) <= 1.7 * best
        batches = ta.micro_batches(lengths, cap)
        assert largest(lengths, batches) <= cap and best <= len(batches) <= 1.7 * best
