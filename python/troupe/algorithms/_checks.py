"""Checks of arguments other than arrays. Each raises ValueError with the argument's name, its value and what is expected."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any


class UnknownArgumentError(TypeError, ValueError):
    """A call with an unknown argument. Also a ValueError, like every other error in a call."""


def number(
    name: str, value: Any, *, low: float = -math.inf, high: float = math.inf, above: float | None = None, infinite: bool = False
) -> float:
    """The value as a float in [low, high] and greater than `above`. NaN is an error, infinity too unless `infinite`."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        result = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise ValueError(f"{name}: {value!r}, expected a number{_range(low, high, above)}") from None
    bad = math.isnan(result) or (math.isinf(result) and not infinite)
    if bad or not low <= result <= high or (above is not None and result <= above):
        raise ValueError(f"{name}: {result:g}, expected a number{_range(low, high, above)}")
    return result


_LEAST, _MOST = -(2**63), 2**63 - 1  # the 64-bit range


def integer(name: str, value: Any, *, low: int = _LEAST, high: int = _MOST) -> int:
    """The value as an int in [low, high]; floats are errors, even 2.0. Messages name the 64-bit bounds only if they are violated."""
    bounds = _range(-math.inf if low == _LEAST else low, math.inf if high == _MOST else high, None)
    try:
        result = operator.index(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {value!r}, expected an integer{bounds}") from None
    if low <= result <= high:
        return result
    if result > high == _MOST:
        bounds += " and < 2^63" if bounds else " < 2^63"
    elif result < low == _LEAST:
        bounds = " >= -2^63" + (f" and{bounds}" if bounds else "")
    raise ValueError(f"{name}: {result}, expected an integer{bounds}")


def choice(name: str, value: Any, known: Sequence[str]) -> str:
    """The value if it is one of `known`; otherwise raises an error that suggests the nearest one."""
    if isinstance(value, str) and value in known:
        return value
    near = difflib.get_close_matches(value, known, n=1, cutoff=0.5) if isinstance(value, str) else []
    proposal = f", did you mean {near[0]!r}?" if near else ""
    if value is not None and not isinstance(value, (str, bytes, int, float)):
        raise ValueError(f"{name}: is of type {type(value).__name__}, expected one of: {', '.join(known)}")
    raise ValueError(f"{name}: unknown {value!r}{proposal} (known: {', '.join(known)})")


def no_others(function: str, params: Mapping[str, Any], known: Sequence[str]) -> None:
    """Rejects parameters that the chosen variant does not have."""
    for name in params:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            proposal = f", did you mean {near[0]!r}?" if near else ""
            takes = ", ".join(known) if known else "no parameters"
            raise UnknownArgumentError(f"{name}: {function} has no such parameter{proposal} (it takes: {takes})")


def one_value_each(function: str, given: Mapping[str, Any], key_of: Mapping[str, str]) -> None:
    """Rejects different values for one parameter under two of its names; equal values are accepted."""
    first: dict[str, str] = {}
    for name, value in given.items():
        other = first.setdefault(key_of[name], name)
        if given[other] != value:
            raise UnknownArgumentError(
                f"{function}: {name!r} is {value!r}, but {other!r}, another name of the same parameter, is {given[other]!r}; "
                "pass only one of them"
            )


def _range(low: float, high: float, above: float | None) -> str:
    if above is not None:
        return f" > {above:g}" + (f" and <= {high:g}" if high < math.inf else "")
    if low > -math.inf and high < math.inf:
        return f" in [{low:g}, {high:g}]"
    if low > -math.inf:
        return f" >= {low:g}"
    return f" <= {high:g}" if high < math.inf else ""
