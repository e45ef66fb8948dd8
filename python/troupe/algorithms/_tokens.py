"""Shared by the losses over tokens: rows, normalizers, parameters by keyword, and values that torch can differentiate."""

from __future__ import annotations

import sys
from typing import Any

from troupe.algorithms._arrays import Argument
from troupe.algorithms._checks import number

# verl's names of the normalizers.
_ALIASES = {
    "batch_num_tokens": "num_tokens",
    "global_batch_size": "num_sequences",
    "loss_scale_factor": "length",
}
_NORMALISERS = ("num_tokens", "num_sequences", "length", "dp_size", "verl_compat", *_ALIASES)


def take_normalisers(params: dict[str, Any]) -> dict[str, Any]:
    """Removes the normalizers from the keyword arguments and returns them."""
    return {name: params.pop(name) for name in _NORMALISERS if name in params}


def norms(
    *,
    num_tokens: float | None = None,
    num_sequences: float | None = None,
    length: float | None = None,
    dp_size: float = 1,
    verl_compat: bool = False,
    **others: float | None,
) -> tuple[float | None, float | None, float | None, float, bool]:
    """The normalizers in the form that the kernels take."""
    if not others and num_tokens is num_sequences is length is None and dp_size == 1:
        return None, None, None, 1.0, bool(verl_compat)
    given = {"num_tokens": num_tokens, "num_sequences": num_sequences, "length": length}
    for alias, value in others.items():
        name = _ALIASES[alias]
        if value is not None and given[name] is not None:
            raise ValueError(f"{alias}: cannot be combined with {name}; pass one of the two")
        given[name] = value if value is not None else given[name]
    checked = [None if value is None else number(name, value, low=0) for name, value in given.items()]
    return (*checked, number("dp_size", dp_size, above=0), bool(verl_compat))


def needs_gradient(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled()


def differentiable(source: Any, value: Any, gradient: Argument | None) -> Any:
    """`value` with its gradient with respect to `source`, if torch needs one."""
    if gradient is None:
        return value
    from troupe.algorithms import _autograd

    return _autograd.prepared(source, value, gradient.array)
