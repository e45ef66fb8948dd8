"""Accepts or explains the argument names of other libraries.

`NAMES` lists names with exactly the meaning of an argument here: they are accepted. `ANSWERS` lists names with a similar meaning:
they raise an error that says what to pass instead. Every other unknown name raises an error that lists the accepted arguments.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from troupe.algorithms._checks import UnknownArgumentError

# For every function: its argument, and the argument's names in SB3, CleanRL, TRL, verl, TorchRL, IMPALA and RLax.
_MASK = {"mask": "response_mask loss_mask eos_mask completion_mask"}
_SCAN = {"lam": "gae_lambda lmbda lambda_", "gamma": "discount_factor", "rewards": "token_level_rewards reward"}
_VALUES = {"values": "state_value state_values", "next_values": "next_state_value", "bootstrap": "last_values bootstrap_value"}
_TOKENS = {
    "logp": "log_prob log_probs logprobs new_logprobs per_token_logps",
    "old_logp": "old_log_prob old_log_probs old_logprobs old_per_token_logps",
    "advantages": "advantage",
}
_OLD = {"clip": "cliprange clip_range clip_coef clip_epsilon", "clip_low": "cliprange_low", "clip_high": "cliprange_high"}
_LENGTHS = {"lengths": "seqlen_list seq_len_list", "k": "k_partitions"}
_ALIASES: dict[str, dict[str, str]] = {
    "gae": _SCAN | _VALUES | _MASK,
    "lambda_returns": _SCAN | _VALUES | _MASK,
    "reward_to_go": {k: _SCAN[k] for k in ("gamma", "rewards")} | {"bootstrap": "last_values"} | _MASK,
    "vtrace": {
        "log_rho": "log_rhos",
        "rewards": "reward",
        "values": "state_value",
        "bootstrap": "bootstrap_value",
        "lam": "lambda_",
        "rho_bar": "clip_rho_threshold rho_thresh",
        "c_bar": "c_thresh",
        "pg_rho_bar": "clip_pg_rho_threshold",
    },
    "policy_loss": _TOKENS | _OLD | _MASK | {"aggregation": "loss_agg_mode"},
    "value_loss": {"clip": "cliprange_value", "aggregation": "loss_agg_mode"} | _MASK,
    "aggregate": {"values": "loss_mat", "mode": "loss_agg_mode"} | _MASK,
    "kl": {"name": "kl_penalty", "logp": "logprob log_prob logprobs", "ref_logp": "ref_logprob ref_log_prob ref_logprobs"} | _MASK,
    "logprobs_entropy": {"labels": "index"},
    "rollout_correction": {"logp": "old_log_prob", "rollout_logp": "rollout_log_prob rollout_log_probs"} | _MASK,
    "advantages": {
        "name": "adv_estimator",
        "rewards": "token_level_rewards scores",
        "groups": "index uid",
        "baselines": "reward_baselines",
        "old_logp": "old_log_probs",
        "lam": "gae_lambda lmbda",
    }
    | _MASK,
    "whiten": {"x": "values"} | _MASK,
    "shape_rewards": {"logp": "old_log_probs", "ref_logp": "ref_log_prob ref_logprobs", "kl_name": "kl_penalty"} | _MASK,
    "balanced_partitions": _LENGTHS,
    "karmarkar_karp": _LENGTHS,
    "micro_batches": {"max_tokens": "max_token_len"},
}
NAMES = {f: {alias: name for name, all_of in row.items() for alias in all_of.split()} for f, row in _ALIASES.items()}

_DONES = (
    "terminated=… (an episode ends at this step and what follows is worth 0) and truncated=… (it is cut off). SB3's and CleanRL's flag of "
    "step t means that step t begins an episode: shift it by one step, terminated[t] = flag[t + 1], and use next_done for the last step"
)
_ENDS = {
    "dones": _DONES,
    "episode_starts": _DONES,
    "next_done": _DONES,
    "done": "terminated=… (the next state is worth 0) and truncated=… (cut off: the next state keeps its value)",
    "next_value": "bootstrap=…, V after the last step of each sequence; next_values=… is V of every step's next state",
    "time_dim": "layout=…: 'BT' or 'TB'",
}
_LOSS_TYPE = "aggregation=…: 'bnpo' and 'dapo' are 'token-mean', 'grpo' is 'seq-mean-token-mean', 'dr_grpo' is 'seq-mean-token-sum-norm'"
_NORM_MODE = (
    "'seq-mean-token-sum-norm', which in verl divides by the length alone: pass {name}='seq-mean-token-sum-norm' with "
    "verl_compat=True"
)
ANSWERS: dict[str, dict[str, str]] = {
    "gae": _ENDS,
    "lambda_returns": _ENDS,
    "reward_to_go": {**_ENDS, "dones": _DONES.replace("and truncated=… (it is cut off)", "")},
    "vtrace": {
        "log_pi": "log_rho=…, which is log_pi - log_mu",
        "log_mu": "log_rho=…, which is log_pi - log_mu",
        "gamma": "discounts=…, which is gamma where the episode continues and 0 where it ends",
        "done": "discounts=…, which is gamma where the episode continues and 0 where it ends",
        "next_state_value": "values=… with bootstrap=…, V after the last step",
    },
    "policy_loss": {
        "loss_type": _LOSS_TYPE,
        "beta": "kl(…), multiplied by your coefficient: the loss has no KL term",
        "ent_coef": "logprobs_entropy(…), multiplied by your coefficient: the loss has no entropy term",
        "normalize_advantage": "whiten(advantages, mask), called before",
    },
    "value_loss": {
        "vpreds": "values=… for the predictions, and old_values=… for what verl calls values",
        "clip_range_vf": "clip=…, which uses the larger of the clipped and the unclipped loss; SB3 uses only the clipped one",
        "clip_vloss": "clip=…, the range itself",
        "clip_coef": "clip=… with old_values=…",
        "vf_coef": "coef=…, a factor of half the squared error; without the half, as in SB3, also half_factor=False",
    },
    "advantages": {
        "scale_rewards": "norm_adv_by_std_in_grpo=…",
        "num_generations": "groups=…, one label per row",
        "dones": "mask=…: rows are answers; for episodes of environments use gae(…)",
    },
    "whiten": {"unbiased": "variant=…: 'verl' is unbiased, 'openrlhf' is not", "eps": "variant=…"},
}


def with_peer_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the function accept argument names of other libraries. Unknown names raise a TypeError that is more helpful than
    Python's."""
    name = function.__name__
    parameters = inspect.signature(function).parameters.values()
    known = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    more = any(p.kind is p.VAR_KEYWORD for p in parameters)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(positional):
            raise UnknownArgumentError(
                f"{name}: {len(args)} positional arguments, expected at most {len(positional)} ({', '.join(positional)}); pass the "
                f"others by name: {', '.join(by_name)}"
            )
        if not known.issuperset(kwargs):
            kwargs = _renamed(name, kwargs, known, positional[: len(args)], more)
        return function(*args, **kwargs)

    return wrapper


def _renamed(function: str, kwargs: dict[str, Any], known: set[str], given: list[str], more: bool) -> dict[str, Any]:
    aliases, answers = NAMES.get(function, {}), ANSWERS.get(function, {})
    result: dict[str, Any] = {}
    for key, value in kwargs.items():
        name = key
        if key not in known:
            if key in answers:
                raise UnknownArgumentError(f"{function}: unknown argument {key!r}; troupe calls it {answers[key]}")
            name = aliases.get(key, key)
            if name == key and not more:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                proposal = f", did you mean {near[0]!r}?" if near else ""
                raise UnknownArgumentError(f"{function}: unknown argument {key!r}{proposal} (it takes: {', '.join(sorted(known))})")
        if key == "loss_agg_mode" and value == "seq-mean-token-sum-norm":
            raise UnknownArgumentError(f"{function}: unknown loss_agg_mode={_NORM_MODE.format(name=name)}")
        if name != key and (name in result or name in given or name in kwargs):
            raise UnknownArgumentError(f"{function}: {key!r} is another name of {name!r}, which is given too; pass only one of them")
        result[name] = value
    return result
