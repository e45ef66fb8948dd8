"""CUDA tensors: which kernels run on them, and how every other function takes them.

The scan family (`gae`, `lambda_returns`, `reward_to_go`, `vtrace`) has kernels for NVIDIA GPUs in the optional module
`troupe._cuda`; they run on the current stream of the tensors' device, and the call returns before they have ended. Every
other function copies CUDA tensors to the host and its results back (`on_host`).
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from troupe import _core
from troupe.algorithms._arrays import Call

if TYPE_CHECKING:
    import torch


class DeviceCall(Call):
    """A `Call` whose arguments may be CUDA tensors: for functions that take their kernels from `kernels_for`."""

    devices = ("cpu", "cuda")


def kernels_for(array: Any) -> Any:
    """What has the scan functions of `_core` for arrays like this one: `_core` itself, or `_cuda` on the array's device. Raises
    ValueError for a CUDA tensor where `_cuda` was not built."""
    device = _cuda_device(array)
    if device is None:
        return _core
    try:
        from troupe import _cuda
    except ImportError as error:
        raise ValueError(
            f"rewards: is on {device}, and troupe was built without its CUDA kernels; move the tensors to the CPU, or build "
            "troupe where nvcc is on the PATH: pip install -C cmake.define.TROUPE_CUDA=ON ./python"
        ) from error
    return _Kernels(_cuda, device)


class _Kernels:
    """The functions of `_cuda` with the arguments of their namesakes in `_core`."""

    def __init__(self, module: Any, device: torch.device):
        self._module = module
        self._device = device

    def __getattr__(self, name: str) -> Callable[..., None]:
        return functools.partial(self._run, getattr(self._module, name))

    def _run(self, function: Callable[..., int], *arguments: Any) -> None:
        torch = sys.modules["torch"]
        with torch.cuda.device(self._device):
            stream = torch.cuda.current_stream(self._device).cuda_stream
            needed = function(*arguments, 0, 0, self._device.index, stream)
            if needed:
                # Freed when this returns, but not given to another stream before this one is past the scan.
                workspace = torch.empty(needed, dtype=torch.uint8, device=self._device)
                function(*arguments, workspace.data_ptr(), needed, self._device.index, stream)


def on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for CUDA tensors too: copies them to the host, and every tensor of the result back. Gradients pass. Raises
    ValueError when tensors are on different devices."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        device = _first_cuda_device(args) or _first_cuda_device(kwargs.values())
        if device is None:
            return function(*args, **kwargs)
        _require_device(function, args, kwargs, device)
        args = tuple(_moved(value, "cpu") for value in args)
        kwargs = {name: _moved(value, "cpu") for name, value in kwargs.items()}
        return _moved(function(*args, **kwargs), device)

    return wrapper


def _first_cuda_device(values: Iterable[Any]) -> torch.device | None:
    """Of the first CUDA tensor among them or inside them."""
    for value in values:
        # Every call comes by here: most arguments are no containers.
        for leaf in _leaves(value) if isinstance(value, (tuple, list, dict)) else (value,):
            device = _cuda_device(leaf)
            if device is not None:
                return device
    return None


def _cuda_device(value: Any) -> torch.device | None:
    torch = sys.modules.get("torch")
    return value.device if torch is not None and isinstance(value, torch.Tensor) and value.is_cuda else None


def _holds_numbers(value: Any) -> bool:
    """Whether a sequence is one of numbers, by its first item: a long list costs nothing."""
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
    """The same with every tensor on this device."""
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
