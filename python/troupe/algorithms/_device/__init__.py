"""The losses as torch operations, for tensors on a GPU: functions with the names, arguments and results of those of `_core`.

Arguments are views, of which only the owners, tensors on one device, are used; offsets are on the host. Numbers that come back as
tensors of the device stay there. Equal to `_core` up to the rounding of float32: the same formulas in the same dtypes, sums in
float64, but the exponential is torch's. Nothing here needs a GPU: the tests run it on the CPU.
"""

from troupe.algorithms._device.elements import kl, value_loss
from troupe.algorithms._device.logits import (
    kl_from_logits,
    kl_from_logits_backward,
    log_probs_entropy,
    log_probs_entropy_backward,
)
from troupe.algorithms._device.rows import aggregate
from troupe.algorithms._device.surrogates import policy_loss

__all__ = [
    "aggregate",
    "kl",
    "kl_from_logits",
    "kl_from_logits_backward",
    "log_probs_entropy",
    "log_probs_entropy_backward",
    "policy_loss",
    "value_loss",
]
