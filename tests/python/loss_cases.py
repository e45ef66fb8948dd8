"""Calls of the functions that compute on a GPU, and the comparison of their results with those of the CPU kernels: for
device_losses_test.py, where the torch operations run on the CPU, and cuda_losses_test.py, where they run on a GPU."""

from __future__ import annotations

import math
import warnings

import numpy as np
import oracles
import torch

import troupe.algorithms as ta

# The two implementations differ in exp() (relative error of ours: 2e-7, of torch's: 1e-7) and in the order of sums in float64. A few
# operations in float32 (6e-8 each) follow. So numbers agree to 1e-6 of the largest number, and a sum to 1e-6 of the sum of magnitudes.
TOLERANCE = 1e-6

PARAMETERS = {
    "clip": [{}, {"clip_low": 0.1, "clip_high": 0.3}, {"dual_clip": 1.5}],
    "dual_clip": [{}, {"clip": 0.05, "dual_clip": 1.1}],
    "soft_clip": [{}, {"alpha": 2}, {"dynamic_alpha": True}],
    "sapo": [{}, {"tau_pos": 2, "tau_neg": 3.5, "saturation": 0.4}, {"ratio_min": 0.8, "ratio_max": 1.3}],
    "ce_gppo": [{}, {"beta1": 0.25, "beta2": 0.5, "dual_clip": 1.2}],
    "cispo": [{}, {"form": "ratio"}, {"verl_compat": True}, {"clip_low": 0.3, "ratio_max": 2.0}],
    "gspo": [{}, {"clip": 0.02}],
    "geo_mean": [{}, {"clip_low": 0.1, "clip_high": 0.6}],
    "clip_cov": [{}, {"fraction": 0.2, "cov_low": -2, "cov_high": 9}, {"fraction": 1.0, "cov_low": -9, "cov_high": 9}],
    "kl_cov": [{}, {"fraction": 0.1, "kl_coef": 2}, {"fraction": 1.0}],
    "gipo": [{}, {"sigma": 0.3}],
}
NORMS = [{}, {"num_tokens": 100, "num_sequences": 7, "length": 50, "dp_size": 4}, {"verl_compat": True}]


class Case:
    """A call: arrays as CPU tensors by name; the first one is differentiated."""

    def __init__(self, function, arrays, **options):
        self.function, self.arrays, self.options = function, arrays, options
        self.aggregated = function == "aggregate" or (function.endswith("_loss") and options.get("reduction") != "none")

    def run(self, device):
        """(results, gradient of the first array, metrics), on the CPU. Per-token losses get different outer gradients."""
        arrays = {name: None if x is None else x.to(device) for name, x in self.arrays.items()}
        first = next(iter(arrays))
        arrays[first] = arrays[first].detach().clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is copied to the host
            got = getattr(ta, self.function)(**arrays, **self.options)
        results = [x for x in (got if isinstance(got, tuple) else (got,)) if torch.is_tensor(x)]
        for result in results:
            assert result.device == arrays[first].device and result.dtype == torch.float32
        random = torch.Generator(device="cpu").manual_seed(5)
        outer = [torch.randn(x.shape, generator=random, device="cpu").to(device) for x in results]
        (gradient,) = torch.autograd.grad(results, arrays[first], outer)
        metrics = got[1] if isinstance(got, tuple) and isinstance(got[1], dict) else {}
        return [x.detach().cpu() for x in results], gradient.cpu(), metrics

    def magnitude(self):
        """For an aggregated result: the aggregate of the absolute values of its terms."""
        options = dict(self.options)
        norms = {k: options.pop(k) for k in ("num_tokens", "num_sequences", "length", "dp_size", "verl_compat", "offsets") if k in options}
        arrays = {k: None if x is None else x.detach() for k, x in self.arrays.items()}
        if self.function == "aggregate":
            return ta.aggregate(arrays["values"].abs(), arrays["mask"], **options, **norms).item()
        mode = options.pop("aggregation", None)
        if self.function == "policy_loss":
            mode = mode or ta.SURROGATES[options["name"]]["aggregation"]
        packed = {"offsets": norms["offsets"]} if "offsets" in norms else {}
        losses, _ = getattr(ta, self.function)(**arrays, **options | {"reduction": "none"}, **packed)
        return ta.aggregate(losses.abs(), arrays.get("mask"), mode, **norms).item()

    def __repr__(self):
        arrays = ", ".join(f"{k}: {v.dtype} {tuple(v.shape)}" for k, v in self.arrays.items() if v is not None)
        return f"{self.function}({arrays}, {self.options})"


def close(got, want, what, tolerance=TOLERANCE, magnitude=0.0):
    got, want = (torch.as_tensor(x, dtype=torch.float64, device="cpu") for x in (got, want))
    assert got.shape == want.shape, what
    finite = want[want.isfinite()]
    scale = max(finite.abs().max().item() if finite.numel() else 0.0, magnitude if math.isfinite(magnitude) else 0.0)
    bound = tolerance * scale
    torch.testing.assert_close(got, want, rtol=tolerance, atol=bound, equal_nan=True, msg=lambda m: f"{what}: {m}")


def same(case, got, want, tolerance=TOLERANCE):
    for a, b in zip(got[0], want[0], strict=True):
        close(a, b, f"{case}: result", tolerance, case.magnitude() if case.aggregated else 0.0)
    close(got[1], want[1], f"{case}: gradient", tolerance)
    assert got[2].keys() == want[2].keys()
    for key in want[2]:
        # A mean of numbers with different signs may be much smaller than they are, so compare to 1e-6 of a typical one.
        close([got[2][key], 1.0], [want[2][key], 1.0], f"{case}: {key}", 2 * tolerance)


def batch(rng, rows=7, steps=23, spread=0.4):
    """Tokens with NaN where masked."""
    old = oracles.numbers(rng, rows, steps) - 3
    arrays = {"logp": old + np.round(rng.normal(size=(rows, steps)) * spread * 1024) / 1024, "old_logp": old}
    arrays["advantages"] = oracles.numbers(rng, rows, steps)
    mask = oracles.gappy_mask(rng, rows, steps)
    arrays = {k: torch.tensor(oracles.spoiled(rng, x.astype(np.float32), mask)) for k, x in arrays.items()}
    return arrays | {"mask": torch.tensor(mask)}


def packed(arrays):
    """The unmasked tokens of a batch, row after row, some of them masked again, with offsets."""
    inside = arrays["mask"]
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), inside.sum(-1).cumsum(0)])
    flat = {k: x[inside] for k, x in arrays.items()}
    flat["mask"] = torch.arange(len(flat["mask"])) % 5 != 0
    return flat, offsets


def forms(rng):
    """(arrays, options): padded, packed, one sequence, three dimensions, and without unmasked tokens."""
    whole = batch(rng)
    yield whole, {}
    yield batch(rng, 5, 200, 2.0), {}
    flat, offsets = packed(whole)
    yield flat, {"offsets": offsets}
    yield {k: None if k == "mask" else x for k, x in flat.items()}, {}
    yield {k: x[:6].reshape(2, 3, 23) for k, x in whole.items()}, {}
    yield {k: x[:, :1] for k, x in whole.items()}, {}
    yield {k: x[:0] for k, x in whole.items()}, {}
    yield {k: x[:, :0] for k, x in whole.items()}, {}
    yield {k: x[:0] for k, x in flat.items()}, {"offsets": torch.zeros(1, dtype=torch.long)}
    yield {k: x[:0] for k, x in flat.items()}, {"offsets": torch.zeros(4, dtype=torch.long)}
    yield whole | {"mask": torch.zeros(7, 23)}, {}


def policy_cases(rng, name):
    for arrays, options in forms(rng):
        weights = torch.rand(arrays["logp"].shape) + 0.5
        for parameters in PARAMETERS.get(name, [{}]):
            given = {"name": name, "seed": 3, **options, **parameters}
            for i, mode in enumerate(ta.AGGREGATIONS):
                norms = {k: v for k, v in NORMS[i % len(NORMS)].items() if k not in parameters}
                yield Case("policy_loss", arrays | ({"rollout_is_weights": weights} if i % 2 else {}), aggregation=mode, **given, **norms)
            yield Case("policy_loss", arrays, reduction="none", **given)


def extreme_policy_cases(name):
    """Ratios beyond every bound, and NaN and infinity at unmasked tokens."""
    logp = torch.tensor([[0.0, 19.9, 20.1, -20.1, 90.0, -90.0, -math.inf, 0.3], [-3.0, -3.0, -3.1, -2.9, -3.5, -2.0, -3.0, -1.0]])
    adv = torch.tensor([[1.0, -1, 1, -1, 1, -1, 1, 0], [-1, 1, 1, 0, 2, -2, 1, math.nan]])
    for rows in (slice(0, 1), slice(1, 2), slice(0, 2)):
        arrays = {"logp": logp[rows], "old_logp": torch.full_like(logp[rows], -3) * (logp[rows] < -1), "advantages": adv[rows]}
        for reduction in ("none", "mean"):
            yield Case("policy_loss", arrays, name=name, reduction=reduction)


def other_cases(rng):
    for arrays, options in forms(rng):
        values, returns, old = arrays["logp"], arrays["old_logp"], arrays["advantages"]
        for i, mode in enumerate(ta.AGGREGATIONS):
            yield Case("aggregate", {"values": values, "mask": arrays["mask"]}, mode=mode, **options, **NORMS[i % 3])
            for kind, clip in (("l2", None), ("huber", None), ("l2", 0.3), ("huber", 0.3), ("l2", math.inf)):
                given = {"values": values, "returns": returns, "mask": arrays["mask"], "old_values": old}
                settings = dict(kind=kind, clip=clip, huber_delta=0.7, coef=1.5, half_factor=i % 2 == 0, **options)
                yield Case("value_loss", given, aggregation=mode, **settings, **NORMS[i % 3])
                yield Case("value_loss", given, reduction="none", **settings)
    for name in ("k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl", "k1+", "k3+"):
        for arrays, _ in forms(rng):
            yield Case("kl", {"logp": arrays["logp"], "ref_logp": arrays["old_logp"], "mask": arrays["mask"]}, name=name)
        far = torch.tensor([0.0, 1e-4, -1e-3, 9.0, -9, 25, -25, 90, -90, math.inf, -math.inf, math.nan])
        yield Case("kl", {"logp": far, "ref_logp": torch.zeros(12)}, name=name)


def logit_cases(rng, dtype):
    for shape, vocabulary in [((), 300), ((5,), 1), ((6,), 5000), ((3, 4), 300), ((0,), 7), ((2, 0), 7), ((2, 3, 2), 41)]:
        logits = torch.tensor(rng.normal(size=(*shape, vocabulary)) * 3, dtype=torch.float32).to(dtype)
        labels = torch.tensor(rng.integers(0, vocabulary, size=shape))
        yield Case("logprobs_entropy", {"logits": logits, "labels": labels}, temperature=0.7)
        yield Case("kl", {"logp": logits, "ref_logp": logits.flip(-1)}, name="full", temperature=1.3)
        ignored = torch.tensor(rng.random(shape) < 0.4)
        spoiled = logits.masked_fill(ignored[..., None], math.nan)
        yield Case("logprobs_entropy", {"logits": spoiled, "labels": labels.masked_fill(ignored, -100)})
        yield Case("kl", {"logp": spoiled, "ref_logp": logits, "mask": ~ignored}, name="full")
    never = torch.tensor(rng.normal(size=(4, 60)), dtype=dtype)
    never[:, 1::2] = -math.inf
    yield Case("logprobs_entropy", {"logits": never, "labels": torch.tensor([0, 2, 4, 6])})
    yield Case("logprobs_entropy", {"logits": never.T.contiguous().T, "labels": torch.tensor([0, 2, 4, 6])})
    yield Case("kl", {"logp": never, "ref_logp": never.flip(0)}, name="full")
