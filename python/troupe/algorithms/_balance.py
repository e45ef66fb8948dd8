"""Token balancing: partitions, micro-batches, restoring order. Lengths are integers in any one-dimensional form; parts come back
as lists of lists of indices."""

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
    """k parts with nearly equal sums, by largest differencing (Karmarkar and Karp 1982): the largest sum first, indices in the
    order in which the differencing joined them. With `equal_size` all parts have the same number of items, which k must divide.
    Every tie is decided as in verl, so the result is the same list for list."""
    lengths = _lengths(lengths)
    return _core.karmarkar_karp(lengths.view, integer("k", k, low=1), bool(equal_size))


def balanced_partitions(lengths: ArrayLike, k: int, equal_size: bool = False) -> Partition:
    """`karmarkar_karp` with ascending indices in every part; k may not exceed the number of lengths (verl's
    `get_seqlen_balanced_partitions`)."""
    lengths = _lengths(lengths)
    return _core.balanced_partitions(lengths.view, integer("k", k, low=1), bool(equal_size))


def greedy_partition(lengths: ArrayLike, k: int, equal_size: bool = False) -> Partition:
    """k parts: each item, in the order given, goes to the part with the smallest sum so far, the first of equals."""
    lengths = _lengths(lengths)
    return _core.greedy_partition(lengths.view, integer("k", k, low=1), bool(equal_size))


def first_fit(lengths: ArrayLike, max_tokens: int) -> Partition:
    """As few bins as first fit needs: each item, in the order given, goes to the first bin whose sum stays within `max_tokens`. A
    longer item gets a bin of its own."""
    lengths = _lengths(lengths)
    return _core.first_fit(lengths.view, integer("max_tokens", max_tokens, low=1))


def balance_ranks(
    lengths: ArrayLike, k: int, *, balance: BalanceBy = "workload", light_ends: bool = True, minibatch: int | None = None
) -> Partition:
    """The rows of each of k ranks, equally many each, with nearly equal work.

    balance: workload (24576 * length + length^2) or length.
    light_ends: orders the rows of a rank so that light ones are at both ends; otherwise ascending.
    minibatch: balances inside each block of so many rows, so that mini-batches keep their rows (verl's keep_minibatch).
    """
    by_workload = choice("balance", balance, get_args(BalanceBy)) == "workload"
    block = 0 if minibatch is None else integer("minibatch", minibatch, low=1)
    lengths = _lengths(lengths)
    return _core.balance_ranks(lengths.view, integer("k", k, low=1), by_workload, bool(light_ends), block)


def group_balanced_partitions(lengths: ArrayLike, groups: ArrayLike | Sequence[Any], k: int) -> Partition:
    """k parts, equally many groups each, with nearly equal workload; the rows of a group, which must be next to each other, stay
    together. Indices ascend."""
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
    """The rows of each micro-batch, ascending: as few micro-batches as balancing can fill without one of them exceeding
    `max_tokens`.

    num_batches_divided_by: their number is a multiple of this; min_num_micro_batch: and at least this.
    use_dynamic_bsz_balance: the heaviest micro-batch comes first; otherwise the order of `balanced_partitions`.
    balance: length balances lengths and orders by their squares; workload does both with 24576 * length + length^2.
    interleave: the heaviest in the middle, light ones at both ends.
    verl_compat: the number follows from the total alone, so that a micro-batch may exceed the cap; more micro-batches than rows
        are refused. Otherwise those in excess are empty, and come last.
    maximum_over_ranks: called once with this rank's number, returns the largest of all ranks; dp_group: a torch.distributed
        process group that does this. All ranks must call, those without rows too.
    Raises ValueError naming a length that exceeds max_tokens.
    """
    by_workload = choice("balance", balance, get_args(BalanceBy)) == "workload"
    if maximum_over_ranks is not None and dp_group is not None:
        raise ValueError("maximum_over_ranks: given beside dp_group; expected one of the two")
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
    """How even a partition is: `min`, `max` and `minmax_diff` of the sums of contiguous chunks before, `balanced_min` and
    `balanced_max` of the parts, their `mean`, a `lower_bound` of the largest sum of any partition into so many parts, and
    `imbalance`, the largest sum over the mean. `prefix` ("global_seqlen" for "global_seqlen/min") goes before each key."""
    argument = _lengths(lengths)
    parts = _parts("partition", partition)
    for index in (i for part in parts for i in part):
        if not 0 <= index < argument.shape[0]:
            raise ValueError(f"partition: index {index}, expected one in [0, {argument.shape[0]})")
    stats = _core.balance_stats(argument.view, parts)
    return {f"{prefix}/{key}" if prefix else key: value for key, value in stats.items()}


def restore_order(data: Any, index_lists: Sequence[Sequence[int]] | None = None) -> Any:
    """Undoes the order of `index_lists` (micro-batches or parts): `restore_order(data, index_lists)` gives the rows of `data`,
    which lie as the concatenated lists say, in their original order; of the kind of `data` (tensor, array or list).
    `restore_order(index_lists)` gives the positions alone: original[i] = data[positions[i]]."""
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
    """24576 * length + length^2 for each: the work of a transformer on a sequence, in arbitrary units (verl)."""
    lengths = _lengths(lengths)
    return _core.workloads(lengths.view)


def _lengths(lengths: Any) -> Argument:
    """Must be held while its view is in use."""
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
