"""Calls every public function with random valid and invalid arguments. The only allowed outcomes are a result, or a ValueError whose
message names an argument.

Environment: TROUPE_FUZZ_SECONDS: seconds per function, instead of a fixed number of calls; TROUPE_FUZZ_SEED: the first seed. A
failing call prints its seed: with this seed and 0 seconds, only that call runs.
"""

import inspect
import os
import re
import time
import warnings

import numpy as np
import pytest

import troupe.algorithms as ta

try:
    import torch
except ImportError:
    torch = None

CALLS = 80
FUNCTIONS = sorted(name for name in ta.__all__ if callable(getattr(ta, name)))

# Valid values of each argument, used in addition to invalid ones.
WORDS = {
    "layout": ("BT", "TB"),
    "outside": ("zero", "carry", "truncate"),
    "masked": ("skip", "reset"),
    "q_mix": ("impala", "rlax"),
    "aggregation": (None, *ta.AGGREGATIONS),
    "mode": ta.AGGREGATIONS,
    "reduction": ("mean", "none"),
    "kind": ("l2", "huber", "constant", "linear", "cosine", "wsd"),
    "variant": ("verl", "slime", "openrlhf", "accerl", "lm_human_preferences"),
    "method": ("tis", "icepop", "seq_mask_tis", "opsm", "pow", "max_min", "max_random", None),
    "kl_name": ("k1", "abs", "k2", "k3", "low_var_kl", "k3+"),
    "balance": ("length", "workload"),
}
NAMES = {
    "policy_loss": tuple(ta.SURROGATES),
    "advantages": tuple(ta.advantage_estimators()),
    "kl": ("k1", "abs", "k2", "k3", "low_var_kl", "full", "k3+"),
}
# Keywords that are passed through **params.
MORE = {
    "policy_loss": ("clip", "clip_low", "clip_high", "dual_clip", "alpha", "fraction", "num_tokens", "length", "wrong", "sigma"),
    "aggregate": ("num_tokens", "num_sequences", "length", "dp_size", "verl_compat", "wrong"),
    "value_loss": ("num_tokens", "num_sequences", "length", "dp_size", "wrong"),
    "rollout_correction": ("rollout_is", "rollout_is_threshold", "rollout_rs", "rollout_rs_threshold", "opsm_delta", "wrong"),
    "advantages": ("gamma", "lam", "whiten", "epsilon", "singleton", "outside", "f_norm", "wrong"),
}
COUNTS = ("k", "max_tokens", "threads", "chunk_size", "minibatch", "num_batches_divided_by", "min_num_micro_batch", "count", "seed")
WHOLE = ("lengths", "groups", "labels", "offsets")
FLAGS = ("mask", "terminated", "truncated")
# Arguments that must be objects of other libraries, for which there are no random values.
LEFT_OUT = ("group", "dp_group", "maximum_over_ranks")


class Values:
    """The arguments of one call: mostly of one shape and one library, so that calls pass the first checks."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.rows, self.steps = (int(self.rng.integers(0, 6)) for _ in range(2))
        self.torch = torch is not None and self.coin(0.4)
        self.wrong = self.rng.choice([0.0, 0.05, 0.3])

    def coin(self, chance=0.5):
        return bool(self.rng.random() < chance)

    def one_of(self, things):
        return things[int(self.rng.integers(len(things)))]

    def shape(self):
        usual = [(self.rows, self.steps)] * 12 + [(self.rows,), (self.rows + 1,), (self.rows * self.steps,)]
        return self.one_of(usual + ([(), (0,), (self.steps, self.rows), (2, self.rows, self.steps)] if self.coin(self.wrong) else []))

    def array(self, name):
        shape = self.shape()
        if name in ("lengths", "groups", "metric", "scores", "failures", "bootstrap", "baselines", "labels") and self.coin(0.8):
            shape = (self.rows,)
        if name in WHOLE:
            array = np.asarray(self.rng.integers(0, 9, shape))
            if name == "offsets" and self.coin(0.8):
                array = np.sort(np.append(array.ravel(), [0, self.rows * self.steps]))
        elif name in FLAGS:
            array = np.asarray(self.rng.random(shape) < 0.7)
        else:
            array = np.asarray(self.rng.normal(size=shape), np.float32)
        if self.coin(self.wrong):
            array = self.spoiled(array)
        if self.torch != self.coin(self.wrong / 4):
            if torch is not None and array.dtype.kind in "fiub" and array.dtype != np.uint64 and array.dtype.isnative:
                tensor = torch.from_numpy(np.array(array, order="C"))  # also where `array` is a number
                if tensor.is_floating_point():
                    kind = self.one_of(["bfloat16", "float32", "float16", "float64"])
                    tensor = tensor.to(getattr(torch, kind)).requires_grad_(self.coin(0.3))
                return self.one_of([tensor, tensor, tensor, tensor.to("meta")]) if self.coin(self.wrong) else tensor
        return array.tolist() if self.coin(0.1) else array

    def spoiled(self, array):
        """Another dtype, another layout, or unusual numbers."""
        kind = self.one_of(["dtype", "huge", "junk", "layout", "unsigned", "object", "big_endian", "masked"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "dtype":
                return array.astype(self.one_of(["complex64", "float64", "int8", "uint16", "float16", "U5", "datetime64[s]", "bool"]))
            if kind == "unsigned":
                return array.astype(np.uint64) + np.uint64(2**63 + 5)
            if kind == "big_endian":
                return array.astype(array.dtype.newbyteorder(">"))
        if kind == "object":
            return np.full(array.shape, None, dtype=object)
        if kind == "huge" and array.dtype.kind == "i":
            return array + self.one_of([2**62, 2**31, -(2**40), -1])
        if kind in ("junk", "huge") and array.dtype.kind == "f":
            return np.where(self.rng.random(array.shape) < 0.4, self.one_of([np.nan, np.inf, -np.inf, 1e30, -1e30]), array).astype("f4")
        if kind == "layout" and array.ndim:
            return self.one_of([array[::-1], np.asfortranarray(array), np.repeat(array, 2, -1)[..., ::2], array[..., :-1]])
        return array

    def anything(self):
        return self.one_of(
            [None, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.5, 1.5, 1e308, float("nan"), float("inf"), True]
            + ["", "wrong", "\x00", b"zero", 1j, [], [1, "a"], [[1], [1, 2]], {}, object(), np.float32(0.5), np.array(2), print]
        )

    def value(self, function, name, parameter):
        if self.coin(self.wrong / 2):
            return self.anything()
        if name == "name" and function in NAMES:
            return self.one_of(NAMES[function])
        if name in WORDS:
            return self.one_of(WORDS[name])
        if name in ("partition", "index_lists") or (function == "restore_order" and name == "data"):
            order = self.rng.permutation(self.rows)
            return [part.tolist() for part in np.array_split(order, int(self.rng.integers(1, 4)))]
        if name in COUNTS:
            return int(self.rng.integers(0, 12))
        if parameter is not None and isinstance(parameter.default, bool):
            return self.coin()
        if parameter is None or "ArrayLike" not in str(parameter.annotation):
            return self.one_of([0, 1, 0.5, 0.9, 2.0, 10, -1.0, None, "token", "token_k1", "0.5_2.0"][: 7 if self.coin(0.8) else 11])
        if name in ("gamma", "lam", "bootstrap", "discounts") and self.coin(0.7):
            return self.one_of([0, 0.5, 0.99, 1, 1.0])
        return self.array(name)

    def arguments(self, function):
        signature = inspect.signature(getattr(ta, function))
        chosen = {}
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                for more in MORE.get(function, ()):
                    if self.coin(0.15):
                        chosen[more] = self.value(function, more, None)
            elif name not in LEFT_OUT and (parameter.default is parameter.empty or self.coin(0.4)):
                chosen[name] = self.value(function, name, parameter)
        return chosen


def known_names(function):
    names = set(inspect.signature(getattr(ta, function)).parameters) | set(MORE.get(function, ())) | {"kl_name"}
    for entry in (*ta.SURROGATES.values(),) if function == "policy_loss" else ():
        names |= {key for p in entry["parameters"] for key in (p["key"], *p["aliases"].split(","))}
    return names


def check(function, seed):
    arguments = Values([seed, FUNCTIONS.index(function)]).arguments(function)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            getattr(ta, function)(**arguments)
    except ValueError as error:
        named = set(re.findall(r"\w+", str(error)))
        assert named & (known_names(function) | set(arguments)), f"seed {seed}: {error}"
        return "refused"
    return "done"


@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_arguments_give_a_result_or_a_value_error(function):
    seconds = os.environ.get("TROUPE_FUZZ_SECONDS")
    seed = first = int(os.environ.get("TROUPE_FUZZ_SEED", "1"))
    end = time.monotonic() + float(seconds or 0)
    outcomes = {"done": 0, "refused": 0}
    while True:
        try:
            outcomes[check(function, seed)] += 1
        except BaseException:
            print(f"{function}: TROUPE_FUZZ_SEED={seed}:", Values([seed, FUNCTIONS.index(function)]).arguments(function))
            raise
        seed += 1
        if time.monotonic() >= end if seconds is not None else seed >= first + CALLS:
            break
    print(function, outcomes)
    if seed - first >= CALLS:
        assert outcomes["done"] > 0
