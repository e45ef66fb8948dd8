"""Literal types, named results and annotations of the public functions."""

import inspect
import typing

import numpy as np

import troupe.algorithms as ta
from troupe.algorithms import types

X = np.zeros((2, 3), np.float32)


def test_the_literal_types_contain_the_names_of_the_tables():
    surrogates = [n for name, entry in ta.SURROGATES.items() for n in (name, *entry["aliases"])]
    assert list(typing.get_args(types.SurrogateName)) == surrogates
    estimators = [n for name, entry in ta.advantage_estimators().items() for n in (name, *entry["aliases"])]
    assert list(typing.get_args(types.AdvantageName)) == estimators


def test_every_literal_is_accepted():
    for name in typing.get_args(types.KLName):
        ta.kl(name, X, X)
    for mode in typing.get_args(types.Aggregation):
        ta.aggregate(X, mode=mode)
    for variant in typing.get_args(types.WhitenVariant):
        ta.whiten(X, variant=variant)
    for method in typing.get_args(types.RolloutCorrectionMethod):
        ta.rollout_correction(X, X, method=method, advantages=X)
    for method in typing.get_args(types.ResampleMethod):
        ta.resample_pf_ppo([1.0, 2.0], seed=1, method=method)
    for kind in typing.get_args(types.LearningRateKind):
        ta.learning_rate(kind, 1, peak=1, total=5)
    for kind in typing.get_args(types.ValueLossKind):
        ta.value_loss(X, X, kind=kind)
    for balance in typing.get_args(types.BalanceBy):
        ta.balance_ranks([1, 2], 2, balance=balance)


def test_results_have_names_and_can_be_unpacked():
    scan = {"gamma": 0.9, "lam": 0.9}
    for result, fields in [
        (ta.gae(X, X, **scan), ("advantages", "returns")),
        (ta.advantages("grpo", X, groups=[0, 1]), ("advantages", "returns")),
        (ta.vtrace(X, 0.9, X, X, [0, 0, 0]), ("vs", "pg_advantages")),
        (ta.policy_loss("clip", X, X, X), ("loss", "metrics")),
        (ta.value_loss(X, X), ("loss", "metrics")),
        (ta.rollout_correction(X, X), ("weights", "mask", "metrics")),
        (ta.logprobs_entropy(X, [0, 1]), ("logprobs", "entropy")),
    ]:
        assert result._fields == fields and isinstance(result, tuple)
        assert all(getattr(result, name) is part for name, part in zip(fields, result, strict=True))


def test_annotations_agree_with_the_functions():
    annotations = {name: inspect.signature(getattr(ta, name)).return_annotation for name in ("gae", "policy_loss", "logprobs_entropy")}
    assert annotations == {"gae": "Advantages", "policy_loss": "Loss", "logprobs_entropy": "LogprobsEntropy"}
