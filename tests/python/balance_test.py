import functools
import itertools
import random
import time

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

LENGTHS = [100, 900, 50, 950, 400, 600]


@functools.total_ordering
class Part:
    """The items of one part. Parts are ordered by sum, then by number of items, then by the items in the order of insertion."""

    def __init__(self, items=()):
        self.items = list(items)  # (index, value)

    def key(self):
        return sum(value for _, value in self.items), len(self.items), self.items

    def __eq__(self, other):
        return self.key() == other.key()

    def __lt__(self, other):
        return self.key() < other.key()


def largest_differencing(values, k, equal_size):
    """The largest differencing method, as defined: a list of states, each of k parts in descending order, searched completely."""
    items = sorted(enumerate(values), key=lambda item: (item[1], item[0]))
    width = k if equal_size else 1
    states = [
        sorted([Part([item]) for item in items[i : i + width]] + [Part()] * (k - width), reverse=True)
        for i in range(0, len(items), width)
    ]

    def take():
        best = max(states, key=lambda parts: (parts[0].key()[0] - parts[-1].key()[0], parts[0]))
        states.remove(best)
        return best

    while len(states) > 1:
        first, second = take(), take()
        joined = [Part(a.items + b.items) for a, b in zip(first, reversed(second), strict=True)]
        states.append(sorted(joined, reverse=True))
    return [[index for index, _ in part.items] for part in states[0]]


@pytest.mark.parametrize("largest", [0, 1, 3, 20, 10_000])
def test_karmarkar_karp_is_largest_differencing_list_for_list(rng, largest):
    for _ in range(400):
        k, n = rng.integers(1, 7), rng.integers(1, 20)
        equal_size = bool(rng.integers(2))
        if equal_size:
            n = n // k * k or k
        values = rng.integers(0, largest, size=n, endpoint=True).tolist()
        expected = largest_differencing(values, k, equal_size)
        assert ta.karmarkar_karp(values, k, equal_size) == expected, (values, k, equal_size)
        assert ta.balanced_partitions(values, min(k, n)) == [
            sorted(part) for part in largest_differencing(values, min(k, n), False)
        ]


def test_partitions_are_never_better_than_the_optimum(rng):
    """Differencing is a heuristic: compared with all possible partitions, it may be worse, but never better."""
    for _ in range(20):
        values = rng.integers(1, 50, size=7).tolist()
        best = min(
            max(sum(v for v, p in zip(values, where, strict=True) if p == part) for part in range(3))
            for where in itertools.product(range(3), repeat=7)
        )
        largest = max(sum(values[i] for i in part) for part in ta.karmarkar_karp(values, 3))
        stats = ta.balance_stats(values, ta.karmarkar_karp(values, 3))
        assert best <= largest <= 1.5 * best and stats["lower_bound"] <= best and stats["balanced_max"] == largest


def test_the_worked_example():
    assert ta.karmarkar_karp(LENGTHS, 2) == [[4, 0, 3, 2], [5, 1]]
    assert ta.balanced_partitions(LENGTHS, 2) == [[0, 2, 3, 4], [1, 5]]
    assert ta.balanced_partitions(LENGTHS, 2, equal_size=True) == [[1, 2, 5], [0, 3, 4]]
    assert ta.balanced_partitions(LENGTHS, 3, equal_size=True) == [[4, 5], [2, 3], [0, 1]]
    assert ta.micro_batches(LENGTHS, 2000) == [[1, 5], [0, 2, 3, 4]]
    assert ta.micro_batches(LENGTHS, 2000, balance="workload") == [[1, 5], [0, 2, 3, 4]]


def test_a_hundred_thousand_lengths():
    random.seed(1)
    lengths = [random.randrange(1, 8192) for _ in range(100_000)]
    start = time.process_time()
    parts = ta.karmarkar_karp(lengths, 64)
    # The target is 0.1 s on an idle machine (troupe bench balance); this only detects gross regressions.
    assert time.process_time() - start < 5
    assert sorted(itertools.chain.from_iterable(parts)) == list(range(100_000))
    sums = [sum(lengths[i] for i in part) for part in parts]
    assert max(sums) - min(sums) <= 2 and sums == sorted(sums, reverse=True)


def test_lengths_may_be_lists_arrays_or_tensors(torch):
    for lengths in (LENGTHS, tuple(LENGTHS), np.array(LENGTHS, np.int32), torch.tensor(LENGTHS), np.array(LENGTHS)[::1]):
        assert ta.balanced_partitions(lengths, 2) == [[0, 2, 3, 4], [1, 5]]
    assert ta.karmarkar_karp([], 2) == [[], []]


def test_greedy_and_first_fit():
    assert ta.greedy_partition(LENGTHS, 2) == [[0, 2, 3, 5], [1, 4]]
    assert ta.greedy_partition([9, 1, 1, 1], 2, equal_size=True) == [[0, 3], [1, 2]]
    assert ta.first_fit([5, 6, 4, 1, 3], 10) == [[0, 2, 3], [1, 4]]
    assert ta.first_fit([20, 5], 10) == [[0], [1]]


def test_ranks_get_light_rows_at_both_ends(rng):
    lengths = rng.integers(1, 5000, size=32)
    work = np.array(ta.workloads(lengths))
    assert (work == 24576 * lengths + lengths**2).all()
    for part, members in zip(ta.balance_ranks(lengths, 4), ta.balanced_partitions(work, 4, equal_size=True), strict=True):
        order = sorted(members, key=lambda i: (work[i], i))
        assert part == order[::2] + order[1::2][::-1]
    plain = ta.balance_ranks(lengths, 4, balance="length", light_ends=False)
    assert plain == ta.balanced_partitions(lengths, 4, equal_size=True)
    for part in ta.balance_ranks(lengths, 4, minibatch=8):
        assert [i // 8 for i in part] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_groups_stay_together():
    lengths, groups = [10, 20, 5, 5, 7, 7, 30, 1], ["a", "a", "b", "b", (1, 2), (1, 2), None, None]
    parts = ta.group_balanced_partitions(lengths, groups, 2)
    assert sorted(parts[0] + parts[1]) == list(range(8))
    for part in parts:
        assert part == sorted(part)
        assert len({groups[i] for i in part}) == 2
    with pytest.raises(ValueError, match="groups: the sequences of a group must be contiguous"):
        ta.group_balanced_partitions([1, 2, 3], ["a", "b", "a"], 1)


@pytest.mark.parametrize("balance", ["length", "workload"])
def test_micro_batches_hold_every_row_once_and_keep_the_cap(rng, balance):
    for _ in range(200):
        cap = int(rng.integers(1, 300))
        lengths = rng.integers(0, cap, size=rng.integers(0, 30), endpoint=True)
        options = {
            "num_batches_divided_by": int(rng.integers(1, 4)),
            "min_num_micro_batch": int(rng.integers(0, 4)),
            "interleave": bool(rng.integers(2)),
            "maximum_over_ranks": lambda own, elsewhere=int(rng.integers(0, 12)): max(own, elsewhere),
        }
        batches = ta.micro_batches(lengths, cap, balance=balance, **options)
        assert sorted(itertools.chain.from_iterable(batches)) == list(range(len(lengths)))
        assert all(lengths[rows].sum() <= cap for rows in batches if rows)
        assert len(batches) % options["num_batches_divided_by"] == 0
        assert len(batches) >= options["maximum_over_ranks"](options["min_num_micro_batch"])
        if not options["interleave"] and balance == "length":
            cost = [(lengths[rows] ** 2).sum() for rows in batches]
            assert cost == sorted(cost, reverse=True)


def test_the_cap_holds_except_with_verl_compat():
    assert [len(rows) for rows in ta.micro_batches([1100] * 3, 1700)] == [1, 1, 1]
    assert [len(rows) for rows in ta.micro_batches([1100] * 3, 1700, verl_compat=True)] == [2, 1]


def test_micro_batches_beyond_the_rows_are_empty():
    assert ta.micro_batches([10, 30], 100, maximum_over_ranks=lambda own: 4) == [[1], [0], [], []]
    assert ta.micro_batches([], 100, maximum_over_ranks=lambda own: 2) == [[], []]
    assert ta.micro_batches([], 100) == []
    with pytest.raises(ValueError, match="2 sequences, but 4 micro-batches are needed"):
        ta.micro_batches([10, 30], 100, maximum_over_ranks=lambda own: 4, verl_compat=True)


def test_an_error_of_the_callback_is_raised():
    def fail(own):
        raise KeyError("no such rank")

    with pytest.raises(KeyError, match="no such rank"):
        ta.micro_batches([1], 10, maximum_over_ranks=fail)
    with pytest.raises(ValueError, match="maximum_over_ranks: 2.5, expected an integer"):
        ta.micro_batches([1], 10, maximum_over_ranks=lambda own: 2.5)
    with pytest.raises(ValueError, match="maximum_over_ranks: 0 of 1 here"):
        ta.micro_batches([1], 10, maximum_over_ranks=lambda own: 0)


def test_ranks_agree_on_the_number_of_micro_batches(torch, tmp_path):
    results = oracles.over_ranks(
        torch,
        tmp_path,
        """
lengths = [[50, 60, 70, 80], [10], []][rank]
result = [len(rows) for rows in ta.micro_batches(lengths, 100, dp_group=torch.distributed.group.WORLD)]
""",
        ranks=3,
    )
    assert results == [[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_the_order_is_restored(rng, torch):
    lengths = rng.integers(1, 100, size=40)
    lists = ta.micro_batches(lengths, 250)
    joined = np.concatenate([lengths[rows] for rows in lists])
    assert (ta.restore_order(joined, lists) == lengths).all()
    assert torch.equal(ta.restore_order(torch.tensor(joined), lists), torch.tensor(lengths))
    assert ta.restore_order(joined.tolist(), lists) == lengths.tolist()
    assert (joined[ta.restore_order(lists)] == lengths).all()
    with pytest.raises(ValueError, match="data: 3 rows, expected 40"):
        ta.restore_order([1, 2, 3], lists)
    with pytest.raises(ValueError, match="partition: index 2 at position 1 of 2 is out of range"):
        ta.restore_order([[0, 2]])


def test_statistics():
    stats = ta.balance_stats(LENGTHS, [[0, 2, 3, 4], [1, 5]], prefix="global_seqlen")
    assert stats["global_seqlen/min"] == 1050 and stats["global_seqlen/max"] == 1950
    assert stats["global_seqlen/minmax_diff"] == 900
    assert stats["global_seqlen/balanced_min"] == stats["global_seqlen/balanced_max"] == 1500
    assert stats["global_seqlen/mean"] == 1500 and stats["global_seqlen/imbalance"] == 1
    with pytest.raises(ValueError, match=r"partition: index 9, expected one in \[0, 6\)"):
        ta.balance_stats(LENGTHS, [[9]])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ta.karmarkar_karp(LENGTHS, 0), "k: 0, expected an integer >= 1"),
        (lambda: ta.karmarkar_karp(LENGTHS, 2.0), "k: 2.0, expected an integer"),
        (lambda: ta.karmarkar_karp(LENGTHS, 10**12), "k: 1000000000000 parts of 6 values"),
        (lambda: ta.karmarkar_karp(LENGTHS, 4, True), "k: 6 values are not a multiple of 4"),
        (lambda: ta.karmarkar_karp([1, -1], 2), "lengths: -1 at index 1, expected at least 0"),
        (lambda: ta.karmarkar_karp([1.5], 1), "lengths: dtype float64, expected integers"),
        (lambda: ta.karmarkar_karp([[1]], 1), r"lengths: shape \(1, 1\), expected 1 dimensions"),
        (lambda: ta.karmarkar_karp([2**62, 1], 2), "lengths: the sum exceeds 4611686018427387904 at index 1"),
        (lambda: ta.karmarkar_karp([2**80], 1), "lengths: dtype object, expected integers"),
        (lambda: ta.balanced_partitions(LENGTHS, 7), "k: 7 parts of 6 values"),
        (lambda: ta.micro_batches(LENGTHS, 900), "lengths: 950 at index 3 exceeds max_tokens 900"),
        (lambda: ta.micro_batches(LENGTHS, 0), "max_tokens: 0, expected an integer >= 1"),
        (lambda: ta.micro_batches([2**40], 2**40), "lengths: the square of 1099511627776 is too large"),
        (lambda: ta.micro_batches(LENGTHS, 2000, balance="lenth"), "balance: unknown 'lenth', did you mean 'length'"),
        (lambda: ta.balance_ranks(LENGTHS, 4), "k: 6 values are not a multiple of 4"),
        (lambda: ta.balance_ranks(LENGTHS, 2, minibatch=4), "minibatch: 6 lengths are not a multiple of 4"),
        (lambda: ta.balance_ranks([2**40, 1], 1), "lengths: the workload of a sequence of length 1099511627776"),
        (lambda: ta.group_balanced_partitions(LENGTHS, [1, 1], 1), "groups: 2 labels, expected 6"),
        (lambda: ta.restore_order([[0], "x"]), "index_lists: 'x', expected an integer"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
