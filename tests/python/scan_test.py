import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 7), (5, 1), (3, 130), (70, 9)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["BT", "TB"])
def test_gae_equals_the_plain_loop(rng, form, layout, shape):
    if form == "list" and 0 in shape:
        pytest.skip("a list cannot tell [0, T] from [0]")
    rewards, values, next_values = (oracles.numbers(rng, *shape) for _ in range(3))
    terminated, truncated = rng.random(shape) < 0.1, rng.random(shape) < 0.1
    turn = (lambda x: x.T) if layout == "TB" else (lambda x: x)
    advantages, returns = ta.gae(
        oracles.given(turn(rewards), form),
        oracles.given(turn(values), form),
        next_values=oracles.given(turn(next_values), form),
        terminated=oracles.flags(turn(terminated), form),
        truncated=oracles.flags(turn(truncated), form),
        gamma=0.97,
        lam=0.9,
        layout=layout,
    )
    expected = oracles.gae(rewards, values, next_values, terminated, truncated, 0.97, 0.9)
    np.testing.assert_allclose(turn(oracles.as_numpy(advantages, form)), expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(turn(oracles.as_numpy(returns, form)), expected + values, rtol=2e-5, atol=2e-5)


def test_gae_bootstraps_after_the_last_step(rng):
    rewards, values, bootstrap = oracles.numbers(rng, 4, 6), oracles.numbers(rng, 4, 6), oracles.numbers(rng, 4)
    advantages, _ = ta.gae(rewards, values, gamma=0.9, lam=0.8, bootstrap=bootstrap)
    next_values = np.concatenate([values[:, 1:], bootstrap[:, None]], axis=1)
    none = np.zeros((4, 6), bool)
    np.testing.assert_allclose(advantages, oracles.gae(rewards, values, next_values, none, none, 0.9, 0.8), atol=2e-5)


def test_gae_leaves_its_arguments_alone(torch):
    rewards, values = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)
    before = values.clone()
    advantages, returns = ta.gae(rewards, values, gamma=1, lam=1)
    assert torch.equal(values, before) and not advantages.requires_grad and advantages.dtype == torch.float32


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"values": np.zeros((2, 4))}, r"values: shape \(2, 4\), expected \(2, 3\), the shape of rewards"),
        ({"rewards": np.zeros(3)}, r"rewards: shape \(3,\), expected 2 dimensions"),
        ({"bootstrap": np.zeros(3)}, r"bootstrap: shape \(3,\), expected \(2,\)"),
        ({"gamma": -0.1}, r"gamma: -0.1, expected a number in \[0, 1\]"),
        ({"lam": float("nan")}, r"lam: nan, expected a number in \[0, 1\]"),
        ({"layout": "TN"}, r"layout: unknown 'TN', did you mean 'TB'\? \(known: BT, TB\)"),
        ({"values": None}, r"values: None, expected an array"),
        ({"values": [[1, 2, 3], [1, 2]]}, r"values: is no array of numbers"),
    ],
)
def test_gae_names_the_argument_that_does_not_fit(changes, message):
    arguments = {"rewards": np.zeros((2, 3)), "values": np.zeros((2, 3)), "gamma": 0.9, "lam": 0.9}
    with pytest.raises(ValueError, match=message):
        ta.gae(**{**arguments, **changes})
