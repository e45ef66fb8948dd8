"""Exact log-probabilities, entropies and KL: of categorical distributions from logits, and of Gaussians."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from troupe import _core
from troupe.algorithms._arrays import Argument, Call, view_of
from troupe.algorithms._checks import integer, number
from troupe.algorithms._devices import DeviceCall, loss_kernels
from troupe.algorithms._tokens import needs_gradient
from troupe.algorithms.types import LogprobsEntropy

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike, ArrayOut

__all__ = ["gaussian_entropy", "gaussian_kl", "gaussian_logprob", "logprobs_entropy"]


def logprobs_entropy(
    logits: ArrayLike, labels: ArrayLike, *, temperature: float = 1.0, ignore_index: int | None = -100
) -> LogprobsEntropy:
    """`(logprobs, entropy)` of softmax(logits / temperature): float32 with the shape of `labels`, both differentiable once with
    respect to `logits`. Reads the logits once, and once more for the gradient, which is written once. No other memory of their
    size is used.

    logits: [..., V] float32 or bfloat16 (other dtypes are converted). They are read in place if the last dimension is contiguous
        and rows neither overlap nor have negative strides; other layouts are copied first. A logit of -infinity is a token of
        probability 0.
    labels: [...] integers in [0, V), or `ignore_index`.
    ignore_index: the label of positions without a token, such as padding (as in torch.nn.functional.cross_entropy). Their logits
        are not read; log-probability, entropy and gradient are 0. None: there is no such label.
    Raises ValueError with the name of an invalid argument, and for a label out of range with its index and value.
    """
    temperature = number("temperature", temperature, above=0)
    ignored = None if ignore_index is None else integer("ignore_index", ignore_index)
    call = DeviceCall(logits=logits, labels=labels)
    kernels = loss_kernels(call)
    scores = _logits(call, "logits")
    tokens = call.integers("labels", shape=scores.shape[:-1])
    tokens.array = _checked_labels(tokens.array, scores.shape[-1], ignored)
    logprobs, entropy = call.output("logprobs", tokens.shape), call.output("entropy", tokens.shape)
    wants_gradient = needs_gradient(logits)
    state = call.output("state", (*tokens.shape, 2), "float64") if wants_gradient else None
    for part in _parts(scores, tokens.array, logprobs.array, entropy.array, None if state is None else state.array):
        rows, row_labels, row_logprobs, row_entropy, row_state = (None if a is None else _seen(call, a) for a in part)
        kernels.log_probs_entropy(
            rows.view, row_labels.view, temperature, row_logprobs.view, row_entropy.view, view_of(row_state)
        )
    if state is None:
        return LogprobsEntropy(logprobs.array, entropy.array)

    from troupe.algorithms import _autograd

    def backward(source: Any, d_logprobs: Any, d_entropy: Any) -> Any:
        call = DeviceCall(logits=source, d_logprobs=d_logprobs, d_entropy=d_entropy)
        scores = _logits(call, "logits")
        outer = [call.floats(name, shape=tokens.shape, optional=True) for name in ("d_logprobs", "d_entropy")]
        grad = call.output("gradient", scores.shape, scores.dtype)
        arrays = [None if argument is None else argument.array for argument in outer]
        for part in _parts(scores, tokens.array, state.array, *arrays, grad.array):
            rows, row_labels, row_state, d_rows, h_rows, out = (None if a is None else _seen(call, a) for a in part)
            kernels.log_probs_entropy_backward(
                rows.view, row_labels.view, temperature, row_state.view, view_of(d_rows), view_of(h_rows), out.view
            )
        return grad.array

    return LogprobsEntropy(*_autograd.recomputed(logits, backward, logprobs.array, entropy.array))


def kl_from_logits(logits: Any, ref_logits: Any, mask: Any = None, *, temperature: float = 1.0) -> Any:
    """The exact KL(softmax(logits) || softmax(ref_logits)) of each row of [..., V]: `kl("full", ...)`."""
    temperature = number("temperature", temperature, above=0)
    call = DeviceCall(logp=logits, ref_logp=ref_logits, mask=mask)
    kernels = loss_kernels(call)
    dtype = call.float_dtype("logp", "ref_logp")
    scores = _logits(call, "logp", dtype)
    reference = call.floats("ref_logp", dtype=dtype, shape=scores.shape)
    scores = call.floats("logp", dtype=dtype)
    flags = call.flags("mask", shape=scores.shape[:-1], optional=True)
    value = call.output("kl", scores.shape[:-1])
    rows, reference_rows = (_seen(call, x.array.reshape(-1, scores.shape[-1])) for x in (scores, reference))
    kernels.kl_from_logits(rows.view, reference_rows.view, temperature, _seen(call, value.array.reshape(-1)).view)
    hidden = None if flags is None else flags.array == 0
    if hidden is not None:
        value.array[hidden] = 0
    if not needs_gradient(logits):
        return value.array

    from troupe.algorithms import _autograd

    def backward(source: Any, d_kl: Any) -> Any:
        call = DeviceCall(logp=source.detach(), d_kl=d_kl)
        rows = call.floats("logp", dtype=dtype)
        outer = call.floats("d_kl", shape=rows.shape[:-1])
        if hidden is not None:
            outer.array = outer.array.masked_fill(hidden, 0)
        grad = call.output("gradient", rows.shape, dtype)
        kernels.kl_from_logits_backward(
            _seen(call, rows.array.reshape(-1, rows.shape[-1])).view,
            reference_rows.view,
            temperature,
            _seen(call, outer.array.reshape(-1)).view,
            _seen(call, grad.array.reshape(-1, rows.shape[-1])).view,
        )
        return grad.array

    return _autograd.recomputed(logits, backward, value.array)[0]


def gaussian_logprob(x: ArrayLike, mean: ArrayLike, log_std: ArrayLike) -> ArrayOut:
    """log N(x; mean, exp(log_std)) of each element: -((x - mean) / std)^2 / 2 - log_std - log(2 pi) / 2. Shapes broadcast. Sum over
    the last dimension for actions with several dimensions. For torch tensors differentiable in all three arguments."""
    exp, x, mean, log_std = _elementwise(x=x, mean=mean, log_std=log_std)
    return -0.5 * ((x - mean) * exp(-log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)


def gaussian_entropy(log_std: ArrayLike) -> ArrayOut:
    """The entropy of N(., exp(log_std)) of each element: 1/2 + log(2 pi) / 2 + log_std."""
    _, log_std = _elementwise(log_std=log_std)
    return 0.5 + 0.5 * math.log(2 * math.pi) + log_std


def gaussian_kl(mean: ArrayLike, log_std: ArrayLike, other_mean: ArrayLike, other_log_std: ArrayLike) -> ArrayOut:
    """KL(N(mean, exp(log_std)) || N(other_mean, exp(other_log_std))) of each element. Shapes broadcast."""
    exp, mean, log_std, other_mean, other_log_std = _elementwise(
        mean=mean, log_std=log_std, other_mean=other_mean, other_log_std=other_log_std
    )
    shift = (mean - other_mean) * exp(-other_log_std)
    return other_log_std - log_std + 0.5 * (exp(2 * (log_std - other_log_std)) + shift**2) - 0.5


def _elementwise(**arguments: Any) -> tuple[Any, ...]:
    """The exp function for this kind of arrays, and the arguments as float32 arrays; tensors keep their autograd history."""
    call = DeviceCall(**arguments)
    checked = [call.floats(name, layout="any") for name in arguments]
    shape: tuple[int, ...] = ()
    for argument in checked:
        try:
            shape = np.broadcast_shapes(shape, argument.shape)
        except ValueError:
            raise ValueError(
                f"{argument.name}: shape {argument.shape}, expected one that broadcasts with {shape}, the shape of the arguments before it"
            ) from None
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(x, torch.Tensor) for x in arguments.values()):
        given = zip(arguments.values(), checked)
        return torch.exp, *(x.float() if isinstance(x, torch.Tensor) else c.array for x, c in given)
    return np.exp, *(c.array for c in checked)


def _checked_labels(labels: Any, vocabulary: int, ignored: int | None) -> Any:
    """The labels, with ignored ones replaced by the kernels' ignored label."""
    skip = None if ignored is None else labels == ignored
    wrong = (labels < 0) | (labels >= vocabulary)
    if skip is not None:
        wrong &= ~skip
    if wrong.any():
        where = np.asarray(wrong.cpu() if hasattr(wrong, "cpu") else wrong)
        index = tuple(int(i) for i in np.unravel_index(where.argmax(), where.shape))
        at = f" at index {index[0] if len(index) == 1 else index}" if index else ""
        other = "" if ignored is None else f" or {ignored} (ignore_index)"
        raise ValueError(
            f"labels: {int(labels[index])}{at}, expected integers in [0, {vocabulary}){other}; {vocabulary} is the last dimension of logits"
        )
    if skip is None or not skip.any():
        return labels
    if isinstance(labels, np.ndarray):
        return np.where(skip, _core.IGNORED_LABEL, labels)
    return labels.masked_fill(skip, _core.IGNORED_LABEL)


def _logits(call: Call, name: str, dtype: str | None = None) -> Argument:
    scores = call.floats(name, dtype=dtype or call.float_dtype(name), layout="any")
    if len(scores.shape) < 1 or scores.shape[-1] < 1:
        raise ValueError(f"{name}: shape {scores.shape}, expected [..., V] with V >= 1")
    if 0 in scores.shape or _rows_in_place(scores.array):
        return scores
    return call.floats(name, dtype=dtype or call.float_dtype(name))  # copied


def _rows_in_place(logits: Any) -> bool:
    """Whether the kernels can read [..., V] in place: rows are contiguous, and each begins after the end of the one before."""
    if isinstance(logits, np.ndarray):
        strides = [stride / logits.itemsize for stride in logits.strides]
    else:
        strides = logits.stride()
    *leading, vocabulary = logits.shape
    if vocabulary > 1 and strides[-1] != 1:
        return False
    return all(extent == 1 or stride >= vocabulary for extent, stride in zip(leading, strides))


def _parts(scores: Argument, *others: Any) -> Any:
    """Splits [..., V] logits and accompanying arrays, [...] or [..., k], into parts whose rows are equally spaced, without copying:
    into one part if the dimensions can be collapsed, otherwise recursively along the first dimension."""
    yield from _split(scores.array, len(scores.shape) - 1, *others)


def _split(logits: Any, leading: int, *others: Any) -> Any:
    vocabulary = logits.shape[-1]
    strides = logits.strides if isinstance(logits, np.ndarray) else logits.stride()
    even = all(strides[i] == strides[i + 1] * logits.shape[i + 1] for i in range(leading - 1))
    if leading <= 1 or even or 0 in logits.shape:
        rows = math.prod(logits.shape[:-1])
        flat = [None if x is None else x.reshape(rows, *x.shape[leading:]) for x in others]
        yield (logits.reshape(rows, vocabulary), *flat)
        return
    for i in range(logits.shape[0]):
        yield from _split(logits[i], leading - 1, *(None if x is None else x[i] for x in others))


def _seen(call: Call, array: Any) -> Argument:
    """A view of a part of an array that was already checked."""
    return call._viewed("part", array, writable=True)
