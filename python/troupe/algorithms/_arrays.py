"""Converts array arguments for the kernels and creates their results. The only module that handles numpy and torch arrays.

A function creates a `Call` with its array arguments by name. It gets each of them from the call in the form that its kernel
reads, and allocates its outputs with it:

    call = Call(rewards=rewards, values=values, mask=mask)
    rewards = call.floats("rewards", rank=2)                  # -> Argument
    values = call.floats("values", like=rewards)
    mask = call.flags("mask", like=rewards, optional=True)    # None stays None
    advantages = call.output("advantages", rewards.shape)
    _core.kernel(rewards.view, values.view, view_of(mask), advantages.view)
    return advantages.array

Memory is read in place if dtype, layout and alignment allow it, and copied once otherwise. Results are torch tensors on the
same device if the arguments are torch tensors, and numpy arrays otherwise. This module never imports torch: a caller that
passes a tensor has already imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

import numpy as np

from troupe import _core

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    # A torch tensor, a numpy array, or nested sequences of numbers.
    ArrayLike = Union[torch.Tensor, np.ndarray, Sequence[Any]]
    # Results are of the same kind as the arguments.
    ArrayOut = Any

# Accepted memory layouts of an argument: row-major and contiguous; contiguous rows at any distance; any strides.
Layout = Literal["contiguous", "rows", "any"]


_NUMPY_NAMES = {np.dtype(name): name for name in ("float32", "float64", "bool", "uint8", "int32", "int64")}
_TORCH_NAMES: dict[Any, str] = {}  # torch.dtype -> name, filled on demand


class Form(TypedDict, total=False):
    """The requirements of `Call.floats`, `flags` and `integers` on an argument. Without `like`, `shape` and `rank`, any shape is
    accepted."""

    like: Argument  # the same shape as this one
    shape: tuple[int, ...]  # this shape
    rank: int | tuple[int, ...]  # this many dimensions
    broadcast: bool  # broadcast the array to the required shape, as numpy does
    per_sequence: bool  # expand [B] or [B, 1] to [B, T]
    layout: Layout  # that the kernel can read, default "contiguous"; other layouts are copied
    optional: bool  # return None for None


class Argument:
    """One array for a kernel: `array` owns the memory, `view` is the argument of `troupe._core`."""

    __slots__ = ("name", "array", "shape", "dtype", "view")

    def __init__(self, name: str, array: Any, shape: tuple[int, ...], dtype: str, view: _core.View):
        self.name = name
        self.array = array
        self.shape = shape
        self.dtype = dtype
        self.view = view


def view_of(argument: Argument | None) -> _core.View | None:
    """The view of an optional argument, or None."""
    return None if argument is None else argument.view


class Call:
    """The array arguments of one call, by name. All must be of one kind (numpy or torch) and on one device; numbers and
    sequences of numbers are converted to that kind. Raises ValueError with the names of two arguments that do not match."""

    devices: tuple[str, ...] = ("cpu",)  # devices whose tensors the function's kernels can read

    def __init__(self, **arguments: Any):
        self._arguments = arguments
        chosen = None
        for name, value in arguments.items():
            if value is None or (chosen is not None and chosen.takes(value)):
                continue
            family = _family_of(name, value, self.devices)
            if family is None:
                continue
            if chosen is None:
                chosen, first = family, name
            elif family != chosen:
                raise ValueError(
                    f"{name}: is a {family.label}, but {first} is a {chosen.label}; expected all arguments of one kind "
                    "and on one device"
                )
        self._family = chosen or _Numpy()

    def has(self, name: str) -> bool:
        """Whether the argument is given."""
        return self._arguments[name] is not None

    def floats(self, name: str, dtype: str = "float32", **form: Unpack[Form]) -> Any:
        """The argument as numbers of `dtype` (see `float_dtype`)."""
        return self._argument(name, "fiub", dtype, form)

    def flags(self, name: str, **form: Unpack[Form]) -> Any:
        """The argument as one byte per element, where nonzero means true. bool and uint8 are used as they are, other dtypes are
        converted by `!= 0`."""
        return self._argument(name, "fiub", None, form)

    def integers(self, name: str, **form: Unpack[Form]) -> Any:
        """The argument as int64. Other integers are converted; floats raise ValueError."""
        return self._argument(name, "iub", "int64", form)

    def float_dtype(self, *names: str) -> str:
        """"bfloat16" if all given arguments of these names are bfloat16, else "float32"; for kernels that read both."""
        given = [self._accepted(name) for name in names if self._arguments[name] is not None]
        return "bfloat16" if given and all(self._family.dtype(x) == "bfloat16" for x in given) else "float32"

    def output(self, name: str, shape: Sequence[int], dtype: str = "float32") -> Argument:
        """A new array of the same kind and on the same device as the arguments; the contents are undefined."""
        array = self._family.empty(tuple(shape), dtype)
        return self._viewed(name, array, writable=True)

    def number(self, value: Any) -> Any:
        """A scalar result as a float32 array without dimensions; tensors are returned unchanged."""
        return value if hasattr(value, "dtype") else self._family.number(value)

    @property
    def device_type(self) -> str | None:
        """"cpu" or "cuda" for torch tensors, None for numpy arrays."""
        return self._family.device_type

    def _accepted(self, name: str) -> Any:
        value = self._arguments[name]
        return None if value is None else self._family.accept(name, value)

    def _argument(self, name: str, kinds: str, dtype: str | None, form: Form) -> Argument | None:
        value = self._accepted(name)
        if value is None:
            if form.get("optional", False):
                return None
            raise ValueError(f"{name}: None, expected an array")
        family = self._family
        kind = family.kind(value)
        # The dtype of an empty list is arbitrary.
        if kind not in kinds and not (0 in value.shape and kind in "fiub"):
            expected = "integers" if kinds == "iub" else "real numbers"
            raise ValueError(f"{name}: dtype {family.dtype(value)}, expected {expected}")
        value = self._shaped(name, value, form)
        held = family.dtype(value)
        if dtype is None:
            if held not in ("bool", "uint8"):
                value = value != 0
        elif held != dtype:
            value = family.cast(value, dtype)
            if dtype == "int64" and held in ("uint64", "ulonglong") and bool((value < 0).any()):
                wrapped = int(value[value < 0].reshape(-1)[0])
                raise ValueError(f"{name}: holds {wrapped + 2**64}, expected integers below 2^63")
        if not family.lies(value, form.get("layout", "contiguous")):
            value = family.contiguous(value)
        return self._viewed(name, value, writable=False)

    def _shaped(self, name: str, value: Any, form: Form) -> Any:
        like = form.get("like")
        wanted = form.get("shape") if like is None else like.shape
        rank = form.get("rank")
        ranks = (rank,) if isinstance(rank, int) else rank
        shape = tuple(value.shape)
        if ranks is not None and len(shape) not in ranks:
            raise ValueError(f"{name}: shape {shape}, expected {' or '.join(map(str, ranks))} dimensions")
        if wanted is None or shape == wanted:
            return value
        spread, expected = None, str(wanted)
        if form.get("broadcast", False):
            spread = self._family.broadcast(value, wanted)
        if form.get("per_sequence", False) and len(wanted) >= 2:
            expected += f" or {wanted[:-1]}"
            column = value[..., None] if shape == wanted[:-1] else value
            if tuple(column.shape) == (*wanted[:-1], 1):
                spread = self._family.broadcast(column, wanted)
        if spread is None:
            origin = "" if like is None else f", the shape of {like.name}"
            raise ValueError(f"{name}: shape {shape}, expected {expected}{origin}")
        return spread

    def _viewed(self, name: str, array: Any, *, writable: bool) -> Argument:
        address, dtype, shape, strides = self._family.memory(array)
        view = _core.View(name, address, dtype, shape, strides, writable)
        view.owner = array  # keeps the memory alive if the view outlives its Argument
        return Argument(name, array, shape, dtype, view)


def row_offsets(offsets: Any, tokens: Argument) -> Argument | None:
    """Offsets [B + 1] of the consecutive sequences in `tokens` [N], checked, as int64 on the host; None for None."""
    if offsets is None:
        return None
    if len(tokens.shape) != 1:
        raise ValueError(f"offsets: {tokens.name} has shape {tokens.shape}, expected one dimension")
    on_host = offsets.cpu() if getattr(offsets, "is_cuda", False) else offsets
    argument = Call(offsets=on_host).integers("offsets", rank=1)
    bounds, end = np.asarray(argument.array), tokens.shape[0]
    if len(bounds) == 0 or bounds[0] != 0 or bounds[-1] != end or (np.diff(bounds) < 0).any():
        shown = f"{bounds[:8].tolist()}" + (f" and {len(bounds) - 8} more" if len(bounds) > 8 else "")
        raise ValueError(
            f"offsets: {shown}, expected ascending integers from 0 to {end}, the length of {tokens.name}"
        )
    return argument


def _family_of(name: str, value: Any, devices: Sequence[str]) -> _Numpy | _Torch | None:
    """The kind of an argument; None for None, numbers and sequences, which fit any kind."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _Torch(name, value, devices)
    if isinstance(value, np.generic):
        return None
    return _Numpy() if hasattr(value, "__array__") else None


def _lies(shape: Sequence[int], strides: Sequence[int], layout: Layout) -> bool:
    """Whether an array that is not contiguous has the required layout (strides in elements)."""
    return layout == "any" or (layout == "rows" and (len(shape) < 2 or shape[-1] == 1 or strides[-1] == 1))


class _Numpy:
    label = "numpy array"
    device_type = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Numpy)

    def takes(self, value: Any) -> bool:
        """A fast check whether an argument is certainly of this kind."""
        return type(value) is np.ndarray

    def accept(self, name: str, value: Any) -> np.ndarray:
        try:
            return np.asarray(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{name}: is not an array of numbers ({error})") from None

    def kind(self, value: np.ndarray) -> str:
        return "f" if self.dtype(value) == "bfloat16" else value.dtype.kind

    def dtype(self, value: np.ndarray) -> str:
        # dtype.name takes microseconds. A foreign byte order gives a different name, so that the array is converted.
        return _NUMPY_NAMES.get(value.dtype) or (value.dtype.name if value.dtype.isnative else value.dtype.str)

    def cast(self, value: np.ndarray, dtype: str) -> np.ndarray:
        return value.astype(dtype)

    def broadcast(self, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
        try:
            return np.broadcast_to(value, shape)
        except ValueError:
            return None

    def lies(self, value: np.ndarray, layout: Layout) -> bool:
        if not value.flags.aligned or any(stride % value.itemsize for stride in value.strides):
            return False
        return value.flags.c_contiguous or _lies(value.shape, self._strides(value), layout)

    def contiguous(self, value: np.ndarray) -> np.ndarray:
        return np.array(value, order="C", copy=True)

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.empty(shape, dtype)

    def number(self, value: float) -> np.float32:
        return np.float32(value)

    def memory(self, value: np.ndarray) -> tuple[int, str, tuple[int, ...], tuple[int, ...]]:
        return value.__array_interface__["data"][0], self.dtype(value), value.shape, self._strides(value)

    def _strides(self, value: np.ndarray) -> tuple[int, ...]:
        size = value.itemsize
        return tuple([stride // size for stride in value.strides])


class _Torch:
    def __init__(self, name: str, value: torch.Tensor, devices: Sequence[str]):
        self._torch = sys.modules["torch"]
        self._device = value.device
        if value.layout is not self._torch.strided:
            raise ValueError(f"{name}: is a {value.layout} tensor, expected a dense one")
        if value.device.type not in devices:
            raise ValueError(f"{name}: is on {value.device}; expected a tensor on the {' or '.join(devices).upper()}")

    @property
    def device_type(self) -> str:
        return self._device.type

    @property
    def label(self) -> str:
        return f"torch tensor on {self._device}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Torch) and self._device == other._device

    def takes(self, value: Any) -> bool:
        """A fast check whether an argument is certainly of this kind."""
        torch = self._torch
        return isinstance(value, torch.Tensor) and value.device == self._device and value.layout is torch.strided

    def accept(self, name: str, value: Any) -> torch.Tensor:
        if isinstance(value, self._torch.Tensor):
            return value.detach() if value.requires_grad else value
        # Through numpy, which reads nested sequences fast and rejects ragged ones.
        array = _Numpy().accept(name, value)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{name}: dtype {array.dtype.name}, expected numbers")
        if array.dtype == np.uint64:
            array = array.view(np.uint64)  # numpy has two such types, torch accepts one of them
        return self._torch.as_tensor(array, device=self._device)

    def kind(self, value: torch.Tensor) -> str:
        if value.dtype is self._torch.bool:
            return "b"
        return "c" if value.is_complex() else "f" if value.is_floating_point() else "i"

    def dtype(self, value: torch.Tensor) -> str:
        dtype = value.dtype
        return _TORCH_NAMES.get(dtype) or _TORCH_NAMES.setdefault(dtype, str(dtype).removeprefix("torch."))

    def cast(self, value: torch.Tensor, dtype: str) -> torch.Tensor:
        return value.to(getattr(self._torch, dtype))

    def broadcast(self, value: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
        try:
            return value.expand(shape)
        except RuntimeError:
            return None

    def lies(self, value: torch.Tensor, layout: Layout) -> bool:
        if value.data_ptr() % value.element_size():
            return False
        return value.is_contiguous() or _lies(value.shape, value.stride(), layout)

    def contiguous(self, value: torch.Tensor) -> torch.Tensor:
        return value.clone(memory_format=self._torch.contiguous_format)

    def empty(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device=self._device)

    def number(self, value: float) -> torch.Tensor:
        return self._torch.scalar_tensor(value, dtype=self._torch.float32, device=self._device)

    def memory(self, value: torch.Tensor) -> tuple[int, str, tuple[int, ...], tuple[int, ...]]:
        return value.data_ptr(), self.dtype(value), tuple(value.shape), value.stride()
