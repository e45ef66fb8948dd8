"""Argument names of other libraries, and the errors for names that no function accepts."""

import inspect

import numpy as np
import pytest

import troupe.algorithms as ta
from troupe.algorithms import _peers

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
Y = X[::-1].copy()
NORM = "seq-mean-token-sum-norm"


def same(got, want):
    np.testing.assert_equal(tuple(got), tuple(want))


def test_equivalent_names_of_other_libraries_are_accepted():
    want = ta.gae(X, Y, gamma=0.9, lam=0.8, bootstrap=[1.0, 2.0])
    same(ta.gae(X, Y, gamma=0.9, gae_lambda=0.8, last_values=[1.0, 2.0]), want)
    same(ta.gae(reward=X, state_value=Y, gamma=0.9, lmbda=0.8, bootstrap_value=[1.0, 2.0]), want)
    want = ta.policy_loss("clip", X, Y, X, clip=0.1, aggregation="seq-mean-token-sum")
    for name in ("cliprange", "clip_range", "clip_coef", "clip_epsilon", "clip_ratio", "epsilon"):
        same(ta.policy_loss("clip", X, Y, X, **{name: 0.1}, loss_agg_mode="seq-mean-token-sum"), want)
    same(ta.policy_loss("clip", X, Y, X, clip=0.1, clip_ratio=0.1, clip_eps=None, aggregation="seq-mean-token-sum"), want)
    same(ta.policy_loss("clip", log_prob=X, old_log_prob=Y, advantages=X, clip=0.1, aggregation="seq-mean-token-sum"), want)
    want = ta.policy_loss("clip", X, Y, X, X > 0)
    same(ta.policy_loss("clip", X, Y, X, response_mask=X > 0), want)
    want = ta.value_loss(X, Y, old_values=X, clip=0.2)
    same(ta.value_loss(X, Y, old_values=X, cliprange_value=0.2), want)
    assert ta.aggregate(loss_mat=X, loss_mask=X > 0, loss_agg_mode="token-mean") == ta.aggregate(X, X > 0)
    same(ta.kl(kl_penalty="k2", logprob=X, ref_logprob=Y), ta.kl("k2", X, Y))
    same(ta.advantages("grpo", token_level_rewards=X, response_mask=X < 2, index=["a", "a"]), ta.advantages("grpo", X, X < 2, [0, 0]))
    assert ta.micro_batches([1, 2, 3], max_token_len=4) == ta.micro_batches([1, 2, 3], 4)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ta.policy_loss("clip", X, Y, X, loss_type="grpo"), "policy_loss: unknown argument 'loss_type'; troupe calls it agg"),
        (lambda: ta.gae(X, Y, gamma=1, lam=1, dones=X), "gae: unknown argument 'dones'; troupe calls it terminated=.*shift it by one step"),
        (lambda: ta.gae(X, Y, gamma=1, lam=1, next_value=0), "gae: unknown argument 'next_value'; troupe calls it bootstrap="),
        (lambda: ta.value_loss(X, Y, vpreds=X), "'vpreds'; troupe calls it values="),
        (lambda: ta.value_loss(X, Y, clip_range_vf=0.2), "'clip_range_vf'; troupe calls it clip="),
        (lambda: ta.vtrace(X, 0.9, X, X, [0, 0, 0], log_mu=X), "'log_mu'; troupe calls it log_rho="),
        (lambda: ta.policy_loss("clip", X, Y, X, loss_agg_mode=NORM), "policy_loss: unknown loss_agg_mode='seq-mean.*verl_compat=True"),
        (lambda: ta.aggregate(X, loss_agg_mode=NORM), "pass mode='seq-mean-token-sum-norm' with verl_compat=True"),
        (lambda: ta.gae(X, Y, gamma=1, lamda=1), "gae: unknown argument 'lamda', did you mean 'lam'\\? \\(it takes: bootstrap, "),
        (lambda: ta.gae(X, Y, gamma=1, lam=1, gae_lambda=1), "gae: 'gae_lambda' is another name of 'lam', which is given too"),
        (lambda: ta.gae(X, Y, gamma=1, lmbda=1, gae_lambda=1), "gae: 'gae_lambda' is another name of 'lam', which is given too"),
        (lambda: ta.gae(X, Y, gamma=1, lam=1, reward=X), "gae: 'reward' is another name of 'rewards', which is given too"),
        (lambda: ta.policy_loss("clip", X, Y, X, clip=0.2, clip_ratio=0.5), "policy_loss: 'clip_ratio' is 0.5, but 'clip', another name"),
        (lambda: ta.policy_loss("clip", X, Y, X, clip_ratio=0.2, clip_eps=0.5), "'clip_eps' is 0.5, but 'clip_ratio', .* is 0.2; pass"),
        (lambda: ta.policy_loss("clip", X, Y, X, epsilon=0.5, clip_ratio=0.2), "'clip_ratio' is 0.2, but 'epsilon', another .* is 0.5"),
        (lambda: ta.policy_loss("clip", X, Y, X, cliprange=0.2, clip_ratio=0.3), "'clip_ratio' is 0.3, but 'clip', another name"),
        (lambda: ta.policy_loss("clip", X, Y, X, clip_low=0.1, clip_ratio_low=0.4), "'clip_ratio_low' is 0.4, but 'clip_low'"),
        (lambda: ta.policy_loss("clip", X, Y, X, clip=0.1, cliprange=0.2), "'cliprange' is another name of 'clip', which is given too"),
        (lambda: ta.gae(X, Y, 0.99, 0.95), "gae: 4 positional arguments, expected at most 2 \\(rewards, values\\); .* by name: gamma, lam"),
        (lambda: ta.policy_loss(X, Y, X, X), "name: is of type ndarray, expected one of: clip, "),
        (lambda: ta.policy_loss("clip", X, Y, X, cliprnge=0.2), "cliprnge: clip has no such parameter"),
    ],
)
def test_the_error_about_another_name_suggests_the_right_one(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert isinstance(caught.value, TypeError) or message.startswith("name")
    assert "\n" not in str(caught.value)


def test_every_name_in_the_tables_is_an_existing_argument():
    for function in {*_peers.NAMES, *_peers.ANSWERS}:
        parameters = inspect.signature(getattr(ta, function)).parameters
        more = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        aliases, answers = _peers.NAMES.get(function, {}), _peers.ANSWERS.get(function, {})
        assert all(name in parameters or more for name in aliases.values())
        assert not set(aliases) & set(parameters) and not set(answers) & (set(parameters) | set(aliases))


def test_the_error_about_a_missing_argument_names_it():
    with pytest.raises(TypeError, match="gamma.*lam"):
        ta.gae(X, Y)
