"""KL estimates, and controllers for the coefficient of a KL penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from troupe import _core
from troupe.algorithms._arrays import view_of
from troupe.algorithms._checks import choice, number
from troupe.algorithms._devices import DeviceCall, loss_kernels
from troupe.algorithms._logprob import kl_from_logits
from troupe.algorithms._tokens import differentiable, needs_gradient
from troupe.algorithms.types import KLName

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = ["AdaptiveKL", "FixedKL", "kl"]


def kl(
    name: KLName,
    logp: ArrayLike,
    ref_logp: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    temperature: float = 1.0,
) -> ArrayOut:
    """Estimates KL(policy || reference) per token: float32, differentiable once with respect to `logp`. With d = logp - ref_logp
    (Schulman 2020, "Approximating KL divergence", joschu.net/blog/kl-approx.html):

    "k1", "kl": d                            gradient 1
    "abs": |d|                               sign d
    "k2", "mse": d^2 / 2                     d
    "k3": exp(-d) + d - 1                    1 - exp(-d)
    "low_var_kl": k3 clamped to +-10         the same, 0 where clamped
    "full": exact, from logits [..., V] in place of both log-probabilities (divided by `temperature`); the result has shape [...]
    each with "+": the same value with the gradient of k2 (no effect for "full", whose gradient is already exact)

    mask: 0 skips a token: its value and gradient are 0, even if its inputs are NaN. None = all tokens.
    Raises ValueError with the name of an invalid argument.
    """
    choice("name", name, get_args(KLName))
    if name.startswith("full"):
        return kl_from_logits(logp, ref_logp, mask, temperature=temperature)
    call = DeviceCall(logp=logp, ref_logp=ref_logp, mask=mask)
    tokens = call.floats("logp")
    reference = call.floats("ref_logp", like=tokens)
    flags = call.flags("mask", like=tokens, optional=True)
    value = call.output("kl", tokens.shape)
    grad = call.output("gradient", tokens.shape) if needs_gradient(logp) else None
    loss_kernels(call).kl(name, tokens.view, reference.view, view_of(flags), value.view, view_of(grad))
    return differentiable(logp, value.array, grad)


class FixedKL:
    """A constant coefficient of a KL penalty: `value`."""

    def __init__(self, kl_coef: float = 0.001):
        self.value = number("kl_coef", kl_coef, low=0)

    def update(self, current_kl: float, n_steps: float) -> float:
        """Does nothing; returns `value`."""
        return self.value


class AdaptiveKL:
    """A coefficient of a KL penalty that follows the measured KL (Ziegler et al. 2019, arXiv:1909.08593, section 2.2). An update
    multiplies `value` by 1 + clip(current_kl / target_kl - 1, -0.2, 0.2) * n_steps / horizon."""

    def __init__(self, init_kl_coef: float, target_kl: float, horizon: float = 10000):
        self.target_kl = number("target_kl", target_kl, above=0)
        self.horizon = number("horizon", horizon, above=0)
        self._controller = _core.AdaptiveKl(number("init_kl_coef", init_kl_coef, low=0), self.target_kl, self.horizon)

    @property
    def value(self) -> float:
        return self._controller.value

    def update(self, current_kl: Any, n_steps: float) -> float:
        """Updates and returns the coefficient, for the next batch. current_kl: in the same unit as target_kl. n_steps: number of
        sequences in this batch; n_steps / 5 must be less than the horizon, otherwise the coefficient could change its sign."""
        steps = number("n_steps", n_steps, low=0)
        if not 0.2 * steps < self.horizon:
            raise ValueError(f"n_steps: {steps:g}, expected less than 5 * horizon ({5 * self.horizon:g})")
        self._controller.update(number("current_kl", current_kl), steps)
        return self.value
