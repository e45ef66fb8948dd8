"""The types of arguments and results, for annotations and for access to results by name.

Results are named tuples: `advantages, returns = gae(...)` and `gae(...).returns` both work. Their arrays are torch tensors or
numpy arrays, like the arguments.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

#: Names of surrogates for `policy_loss`, including aliases (`troupe.algorithms.SURROGATES` has their parameters).
SurrogateName = Literal[
    "clip", "ppo", "ppo_clip", "vanilla", "clip_higher",
    "dual_clip", "dual-clip",
    "soft_clip", "soft_clip_alpha-1", "soft_clip_alpha-2",
    "sapo", "sapo_soft_clip", "sapo_gate",
    "ce_gppo", "ce-gppo", "ce-gppo_clip", "ce_gppo_clip",
    "cispo", "cispo_clip", "is_clip", "is_weight_clip",
    "gspo",
    "gpg",
    "clip_cov", "clip-cov",
    "kl_cov", "kl-cov",
    "geo_mean", "gmpo",
    "reinforce",
    "gipo", "log_gauss_clip",
    "none", "no_clip",
]  # fmt: skip

#: Names of estimators for `advantages`, including aliases (`advantage_estimators()` has their parameters).
AdvantageName = Literal[
    "gae",
    "grpo",
    "grpo_vectorized",
    "dr_grpo",
    "grpo_passk",
    "reinforce_plus_plus", "reinforce++",
    "reinforce_plus_plus_baseline", "reinforce++_baseline",
    "rloo", "rloo_vectorized",
    "remax",
    "opo",
    "gpg",
    "optimal_token_baseline",
    "tir_optimal_token_baseline",
]  # fmt: skip

#: Names of estimates for `kl`.
KLName = Literal[
    "k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl", "full",
    "k1+", "kl+", "abs+", "k2+", "mse+", "k3+", "low_var_kl+", "full+",
]  # fmt: skip

Aggregation = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
Reduction = Literal["mean", "none"]
ValueLossKind = Literal["l2", "huber"]
WhitenVariant = Literal["verl", "slime", "openrlhf", "accerl", "lm_human_preferences"]
RolloutCorrectionMethod = Literal["tis", "icepop", "seq_mask_tis", "opsm"]
Layout = Literal["BT", "TB"]
Outside = Literal["zero", "carry"]
MaskedReturn = Literal["skip", "reset"]
QMix = Literal["impala", "rlax"]
ResampleMethod = Literal["pow", "max_min", "max_random"]
BalanceBy = Literal["workload", "length"]
LearningRateKind = Literal["constant", "linear", "cosine", "wsd"]


class Advantages(NamedTuple):
    """The result of `gae` and `advantages`."""

    advantages: Any
    returns: Any


class VTrace(NamedTuple):
    """The result of `vtrace`."""

    vs: Any
    pg_advantages: Any


class Loss(NamedTuple):
    """The result of `policy_loss` and `value_loss`."""

    loss: Any
    metrics: dict[str, float]


class RolloutCorrection(NamedTuple):
    """The result of `rollout_correction`; weights is None with `rollout_is=None`."""

    weights: Any | None
    mask: Any
    metrics: dict[str, float]


class LogprobsEntropy(NamedTuple):
    """The result of `logprobs_entropy`."""

    logprobs: Any
    entropy: Any
