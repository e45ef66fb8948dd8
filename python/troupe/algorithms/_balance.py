"""Token balancing: partitions, micro-batches, restoring order. Lengths are integers in any one-dimensional form; parts are
returned as lists of lists of indices."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from troupe import _core
from troupe.algorithms._arrays import Argument, Call
from troupe.algorithms._checks import choice, integer
from troupe.algorithms._estimators import _labels
from troupe.algorithms.types import BalanceBy

if TYPE_CHECKING:
    from troupe.algorithms._arrays import ArrayLike

    Partition = list[list[int]]

__all__ = [
    "balance_ranks",
    "balance_stats",
    "balanced_partitions",
    "first_fit",
    "greedy_partition",
    "group_balanced_partitions",
    "karmarkar_karp",
    "micro_batches",
    "restore_order",
    "workloads",
]


def karmarkar_karp(lengths: ArrayLike, k: int, equal_size: bool = False) -> Partition:
    """k parts with nearly equal sums, by the largest differencing method (Karmarkar and Karp 1982): largest sum first, indices in
    the order in which the differencing joined them. With `equal_size` all parts have the same number of items, which requires that
    k divides the number of lengths. Ties are broken as in verl, so the lists are identical to verl's."""
    lengths = _lengths(lengths)
    return _core.karmarkar_karp(lengths.view, integer("k", k, low=1), bool(equal_size))


def balanced_partitions(lengths: ArrayLike, k: int, equal_size: bool = False) -> Partition:
    """`karmarkar_karp` with ascending indices in every part. k must not exceed the number of lengths (verl's
    `get_seqlen_balanced_partitions`)."""
    lengths = _lengths(lengths)
    return _core.balanced_partitions(lengths.view, integer("k", k, low=1), bool(equal_size))


def greedy_partition(lengths: ArrayLike, k: int, equal_size: bool = False) -> Partition:
    """k parts: each item, in the given order, goes to the part with the smallest sum so far (the first one of equals)."""
    lengths = _lengths(lengths)
    return _core.greedy_partition(lengths.view, integer("k", k, low=1), bool(equal_size))


def first_fit(lengths: ArrayLike, max_tokens: int) -> Partition:
    """The bins of the first-fit method: each item, in the given order, goes to the first bin whose sum stays within `max_tokens`,
    or to a new bin. A longer item gets its own bin."""
    lengths = _lengths(lengths)
    return _core.first_fit(lengths.view, integer("max_tokens", max_tokens, low=1))


def balance_ranks(
    lengths: ArrayLike, k: int, *, balance: BalanceBy = "workload", light_ends: bool = True, minibatch: int | None = None
) -> Partition:
    """The rows of each of k ranks: the same number of rows each, with nearly equal work.

    balance: what to balance: "workload" (24576 * length + length^2) or "length".
    light_ends: True orders the rows of a rank with light ones at both ends; False in ascending order.
    minibatch: balances inside each block of this many rows, so that minibatches keep their rows (verl's keep_minibatch).
    """
    by_workload = choice("balance", balance, get_args(BalanceBy)) == "workload"
    block = 0 if minibatch is None else integer("minibatch", minibatch, low=1)
    lengths = _lengths(lengths)
    return _core.balance_ranks(lengths.view, integer("k", k, low=1), by_workload, bool(light_ends), block)


def group_balanced_partitions(lengths: ArrayLike, groups: ArrayLike | Sequence[Any], k: int) -> Partition:
    """k parts with the same number of groups and nearly equal workload. The rows of a group stay together; they must be contiguous
    in the input. Indices are in ascending order."""
    lengths = _lengths(lengths)
    labels = _labels(groups, lengths.shape[0])
    return _core.group_balanced_partitions(lengths.view, labels.view, integer("k", k, low=1))


def micro_batches(
    lengths: ArrayLike,
    max_tokens: int,
    *,
    num_batches_divided_by: int = 1,
    min_num_micro_batch: int = 0,
    use_dynamic_bsz_balance: bool = True,
    balance: BalanceBy = "length",
    interleave: bool = False,
    verl_compat: bool = False,
    maximum_over_ranks: Callable[[int], int] | None = None,
    dp_group: Any = None,
) -> Partition:
    """The rows of each micro-batch, in ascending order. Uses as few micro-batches as balancing can fill without exceeding
    `max_tokens` in any of them.

    num_batches_divided_by: the number of micro-batches is a multiple of this. min_num_micro_batch: its minimum.
    use_dynamic_bsz_balance: True puts the heaviest micro-batch first; False keeps the order of `balanced_partitions`.
    balance: "length" balances lengths and orders by their squares; "workload" uses 24576 * length + length^2 for both.
    interleave: True puts the heaviest in the middle and light ones at both ends.
    verl_compat: True derives the number from the total only, so a micro-batch may exceed `max_tokens`; it is an error if there are
        more micro-batches than rows. With False, excess micro-batches are empty and come last.
    maximum_over_ranks: a function that takes this rank's number and returns the largest of all ranks; it is called once.
        dp_group: a torch.distributed process group that does this instead. All ranks must call, also those without rows.
    Raises ValueError with the length if one exceeds max_tokens.
    """
    by_workload = choice("balance", balance, get_args(BalanceBy)) == "workload"
    if maximum_over_ranks is not None and dp_group is not None:
        raise ValueError("maximum_over_ranks: cannot be combined with dp_group; pass one of the two")
    ask = _all_reduce_max(dp_group) if dp_group is not None else maximum_over_ranks
    lengths = _lengths(lengths)
    return _core.micro_batches(
        lengths.view,
        integer("max_tokens", max_tokens, low=1),
        integer("min_num_micro_batch", min_num_micro_batch, low=0, high=2**30),
        integer("num_batches_divided_by", num_batches_divided_by, low=1, high=2**30),
        by_workload,
        bool(use_dynamic_bsz_balance),
        bool(interleave),
        bool(verl_compat),
        None if ask is None else lambda own: integer("maximum_over_ranks", ask(own)),
    )


def balance_stats(lengths: ArrayLike, partition: Sequence[Sequence[int]], *, prefix: str = "") -> dict[str, float]:
    """How even a partition is. `min`, `max` and `minmax_diff` describe the sums of contiguous chunks in the original order,
    `balanced_min` and `balanced_max` the sums of the parts. `mean` is their mean, `lower_bound` a lower bound of the largest sum of
    any partition into as many parts, and `imbalance` the largest sum divided by the mean. `prefix` is put before each key
    ("global_seqlen" gives "global_seqlen/min")."""
    argument = _lengths(lengths)
    parts = _parts("partition", partition)
    for index in (i for part in parts for i in part):
        if not 0 <= index < argument.shape[0]:
            raise ValueError(f"partition: index {index}, expected one in [0, {argument.shape[0]})")
    stats = _core.balance_stats(argument.view, parts)
    return {f"{prefix}/{key}" if prefix else key: value for key, value in stats.items()}


def restore_order(data: Any, index_lists: Sequence[Sequence[int]] | None = None) -> Any:
    """Undoes the reordering by `index_lists` (micro-batches or parts). `restore_order(data, index_lists)` takes rows in the order of
    the concatenated lists and returns them in their original order, as the same kind as `data` (tensor, array or list).
    `restore_order(index_lists)` returns only the positions: original[i] = data[positions[i]]."""
    lists = data if index_lists is None else index_lists
    positions = _core.restore_order(_parts("index_lists", lists))
    if index_lists is None:
        return positions
    try:
        rows = len(data)
    except TypeError:
        raise ValueError(f"data: {data!r}, expected {len(positions)} rows") from None
    if rows != len(positions):
        raise ValueError(f"data: {rows} rows, expected {len(positions)}, the number of indices in index_lists")
    if isinstance(data, (list, tuple)):
        return [data[i] for i in positions]
    if not hasattr(data, "shape"):
        raise ValueError(f"data: is a {type(data).__name__}, expected a tensor, an array or a list")
    return data[positions]


def workloads(lengths: ArrayLike) -> list[int]:
    """24576 * length + length^2 for each length: the work of a transformer on a sequence, in arbitrary units (verl)."""
    lengths = _lengths(lengths)
    return _core.workloads(lengths.view)


def _lengths(lengths: Any) -> Argument:
    """The checked lengths. Keep the result while its view is in use."""
    return Call(lengths=lengths).integers("lengths", rank=1)


def _parts(name: str, partition: Any) -> list[list[int]]:
    try:
        return [[integer(name, i) for i in (part.tolist() if hasattr(part, "tolist") else part)] for part in partition]
    except TypeError:
        raise ValueError(f"{name}: {partition!r}, expected lists of indices") from None


def _all_reduce_max(group: Any) -> Callable[[int], int]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_initialized():
        raise ValueError(f"dp_group: {group!r}, but torch.distributed has not been initialised")

    def ask(own: int) -> int:
        device = "cuda" if torch.distributed.get_backend(group) == "nccl" else "cpu"
        largest = torch.tensor(own, dtype=torch.int64, device=device)
        torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX, group=group)
        return int(largest)

    return ask
