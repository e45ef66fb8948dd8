"""The losses as torch operations, for tensors on a GPU: functions with the same names, arguments and results as in `_core`.

Arguments are views, but only their owners are used: tensors on one device. Offsets are on the host. Numbers that are returned as
tensors stay on the device. Results equal those of `_core` up to the rounding of float32: formulas and dtypes are the same, sums
are in float64, but the exponential is torch's. Nothing here needs a GPU: the tests run it on the CPU.
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
