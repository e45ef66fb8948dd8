"""Where functions compute on CUDA tensors:

- The scan family: on the GPU, with CUDA kernels (_cuda_scan.py).
- Losses, KL and log-probabilities: torch operations on the tensors' device (_device/), selected by `loss_kernels`.
- Every other function: on the host (`on_host`), with copies in both directions and a warning at the first call.
"""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from troupe import _core
from troupe.algorithms._arrays import Call

if TYPE_CHECKING:
    import torch


class DeviceCall(Call):
    """A `Call` that accepts CUDA tensors: for functions that get their kernels from `loss_kernels` or `kernels_for`."""

    devices = ("cpu", "cuda")


def loss_kernels(call: Call) -> Any:
    """The module with the functions for losses, KL and logits of this call's arguments: `_core`, or `_device` for tensors on a
    GPU."""
    if not on_device(call):
        return _core
    from troupe.algorithms import _device

    return _device


def on_device(call: Call) -> bool:
    return call.device_type not in (None, "cpu")


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the function accept CUDA tensors: copies them to the host and the tensors of the result back, and warns at the first
    such call. Gradients are supported. Raises ValueError when tensors are on different devices."""
    warned = False

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        device = _first_cuda_device(args) or _first_cuda_device(kwargs.values())
        if device is None:
            return function(*args, **kwargs)
        nonlocal warned
        if not warned:
            warned = True
            warnings.warn(
                f"troupe.algorithms.{function.__name__}: is not implemented for the GPU; tensors on {device} are copied to the host and "
                "results back at every call (this warning appears once)",
                stacklevel=3,
            )
        _require_device(function, args, kwargs, device)
        args = tuple(_moved(value, "cpu") for value in args)
        kwargs = {name: _moved(value, "cpu") for name, value in kwargs.items()}
        return _moved(function(*args, **kwargs), device)

    return wrapper


def _first_cuda_device(values: Iterable[Any]) -> torch.device | None:
    """The device of the first CUDA tensor among the values or inside them."""
    for value in values:
        # Every call runs this, so the common case comes first: most arguments are not containers.
        for leaf in _leaves(value) if isinstance(value, (tuple, list, dict)) else (value,):
            device = cuda_device(leaf)
            if device is not None:
                return device
    return None


def cuda_device(value: Any) -> torch.device | None:
    torch = sys.modules.get("torch")
    return value.device if torch is not None and isinstance(value, torch.Tensor) and value.is_cuda else None


def _holds_numbers(value: Any) -> bool:
    """Whether a sequence consists of numbers. Looks only at the first item, so that long lists are cheap."""
    return len(value) > 0 and isinstance(value[0], (int, float, str))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        if not _holds_numbers(value):
            for item in value:
                yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    else:
        yield value


def _require_device(function: Callable[..., Any], args: Any, kwargs: Any, device: torch.device) -> None:
    torch = sys.modules["torch"]
    for name, value in inspect.signature(function).bind(*args, **kwargs).arguments.items():
        for leaf in _leaves(value):
            if isinstance(leaf, torch.Tensor) and leaf.device != device and leaf.dim() > 0:
                raise ValueError(
                    f"{name}: is a torch tensor on {leaf.device}, but another argument is on {device}; expected all "
                    "arguments of one kind and on one device"
                )


def _moved(value: Any, device: Any) -> Any:
    """The value with all tensors moved to this device."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (tuple, list)):
        if _holds_numbers(value):
            return value
        items = [_moved(item, device) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    return value
