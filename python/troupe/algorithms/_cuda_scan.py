"""The kernels of the scan family (`gae`, `lambda_returns`, `reward_to_go`, `vtrace`) for CUDA tensors, from the optional module
`troupe._cuda`. They run on the current stream of the tensors' device; a call returns without waiting for them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from troupe import _core
from troupe.algorithms import _devices

if TYPE_CHECKING:
    import torch


def kernels_for(array: Any) -> Any:
    """The scan functions for arrays like this one: `_core`, or `_cuda` on the array's device. Raises ValueError for a CUDA tensor
    if `_cuda` was not built."""
    device = _devices.cuda_device(array)
    if device is None:
        return _core
    try:
        from troupe import _cuda
    except ImportError as error:
        raise ValueError(
            f"rewards: is on {device}, and troupe was built without its CUDA kernels; move the tensors to the CPU, or build "
            "troupe where nvcc is on the PATH: pip install --config-settings=cmake.define.TROUPE_CUDA=ON ./python"
        ) from error
    return _Kernels(_cuda, device)


class _Kernels:
    """The functions of `_cuda`, with the arguments of the functions of the same name in `_core`."""

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
                # Freed on return, but the allocator gives it to another stream only after this stream has finished the scan.
                workspace = torch.empty(needed, dtype=torch.uint8, device=self._device)
                function(*arguments, workspace.data_ptr(), needed, self._device.index, stream)
