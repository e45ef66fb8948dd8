"""Whitening, reward shaping, drawing of rows and learning rates of troupe.algorithms."""

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

INF = float("inf")


def test_whitening_the_worked_example(torch):
    want = [-2.12132031, -0.707106758, 0.707106794, 2.121320345]
    np.testing.assert_allclose(ta.whiten([1, 2, 3, 4], [0, 1, 1, 0]), want, rtol=2e-7)
    np.testing.assert_allclose(ta.whiten(torch.tensor([1.0, 2, 3, 4]), torch.tensor([0, 1, 1, 0])).numpy(), want, rtol=2e-7)
    assert ta.whiten([1, 2, 3, 4], [0, 1, 1, 0], zero_outside=True)[[0, 3]].tolist() == [0, 0]


@pytest.mark.parametrize("variant", ["verl", "slime", "openrlhf", "accerl", "lm_human_preferences"])
@pytest.mark.parametrize("shift_mean", [True, False])
def test_whitening_equals_its_formula(rng, form, variant, shift_mean):
    x, mask = oracles.numbers(rng, 7, 5) + np.float32(2), oracles.gappy_mask(rng, 7, 5)
    mask[0, :2] = True
    values = x[mask].astype(np.float64)
    variance = values.var(ddof=1 if variant in ("verl", "slime") else 0)
    divisor = {
        "openrlhf": np.sqrt(max(variance, 1e-8)),
        "accerl": np.sqrt(max(variance, 1e-12)) + 1e-8,
    }.get(variant, np.sqrt(variance + 1e-8))
    want = (x - values.mean()) / divisor + (0 if shift_mean else values.mean())
    got = ta.whiten(oracles.given(x, form), oracles.flags(mask, form), shift_mean=shift_mean, variant=variant)
    got = oracles.as_numpy(got, form)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_whitening_few_elements():
    assert ta.whiten([3.0, 4.0], [0, 0]).tolist() == [0, 0]
    assert ta.whiten([3.0, 4.0], [0, 1]).tolist() == [-1, 0]
    assert ta.whiten([]).tolist() == []
    for mask in ([0, 0], [0, 1]):
        with pytest.raises(ValueError, match=f"mask: {sum(mask)} unmasked elements, but whitening needs at least 2"):
            ta.whiten([3.0, 4.0], mask, strict=True)


def test_whitening_is_accurate_with_masked_elements_and_a_large_mean(rng):
    x, mask = oracles.numbers(rng, 50), np.arange(50) % 3 > 0
    junk = np.where(mask, x, np.nan)
    np.testing.assert_array_equal(ta.whiten(junk, mask, zero_outside=True), np.where(mask, ta.whiten(x, mask), 0).astype(np.float32))
    far = ta.whiten(x[mask] + np.float32(4096))
    np.testing.assert_allclose(far, ta.whiten(x[mask]), atol=1e-5)
    np.testing.assert_allclose(ta.whiten(x, mask, scale=False), x - x[mask].mean(), atol=1e-6)


def test_whitening_does_not_change_its_argument(torch):
    x = torch.tensor([1.0, 2.0, 3.0])
    ta.whiten(x)
    assert x.tolist() == [1, 2, 3]


def test_whitening_over_ranks_equals_whitening_the_whole(torch, tmp_path):
    results = oracles.over_ranks(
        torch,
        tmp_path,
        """
x = torch.arange(12.0) ** 2
mask = torch.arange(12) % 4 != 0
part = [slice(0, 5), slice(5, 5), slice(5, 12)][rank]
whole = torch.distributed.group.WORLD
result = [ta.whiten(x[part], mask[part], variant=v, group=whole).tolist() for v in ("verl", "slime", "accerl")]
""",
        ranks=3,
    )
    x, mask = np.arange(12.0) ** 2, np.arange(12) % 4 != 0
    for i, variant in enumerate(("verl", "slime", "accerl")):
        joined = np.concatenate([result[i] for result in results])
        np.testing.assert_allclose(joined, ta.whiten(x, mask, variant=variant), rtol=1e-6)


def test_whitening_refuses_wrong_arguments():
    with pytest.raises(ValueError, match=r"^mask: shape \(3,\), expected \(2,\), the shape of x"):
        ta.whiten([1, 2], [1, 1, 1])
    with pytest.raises(ValueError, match=r"^variant: unknown 'vrel', did you mean 'verl'\?"):
        ta.whiten([1, 2], variant="vrel")


def test_shaping_equals_the_plain_loop(rng, form):
    scores, kl, mask = oracles.numbers(rng, 6) * 4, oracles.numbers(rng, 6, 7), oracles.gappy_mask(rng, 6, 7)
    want = np.where(mask, -0.5 * kl, 0)
    for row in range(6):
        if mask[row].any():
            want[row, np.flatnonzero(mask[row])[-1]] += np.clip(scores[row], -5, 5)
    got = ta.shape_rewards(oracles.given(scores, form), oracles.flags(mask, form), kl=oracles.given(kl, form), kl_coef=0.5, clip=5)
    np.testing.assert_allclose(oracles.as_numpy(got, form), want, rtol=1e-6)


def test_shaping_in_its_other_forms(rng):
    scores, kl, mask = oracles.numbers(rng, 3), oracles.numbers(rng, 3, 4), oracles.gappy_mask(rng, 3, 4)
    want = ta.shape_rewards(scores, mask, kl=kl, kl_coef=0.25)
    logp = oracles.numbers(rng, 3, 4)
    np.testing.assert_allclose(ta.shape_rewards(scores, mask, logp=logp + kl, ref_logp=logp, kl_coef=0.25), want, atol=1e-6)
    np.testing.assert_array_equal(
        ta.shape_rewards(scores, mask, logp=logp, ref_logp=kl, kl_name="k3", kl_coef=0.25),
        ta.shape_rewards(scores, mask, kl=ta.kl("k3", logp, kl), kl_coef=0.25),
    )
    ragged = ta.shape_rewards(scores, mask.ravel(), kl=kl.ravel(), kl_coef=0.25, offsets=[0, 4, 8, 12])
    np.testing.assert_array_equal(ragged.reshape(3, 4), want)
    per_token = ta.shape_rewards(ta.shape_rewards(scores, mask), mask, kl=kl, kl_coef=0.25)
    np.testing.assert_array_equal(per_token, want)
    clipped = ta.shape_rewards(scores, mask, clip=(0, 1))
    np.testing.assert_array_equal(clipped[mask].clip(0, 1), clipped[mask])


def test_shaping_ignores_masked_tokens(rng):
    scores, kl, mask = oracles.numbers(rng, 5), oracles.numbers(rng, 5, 6), oracles.gappy_mask(rng, 5, 6)
    spoiled = ta.shape_rewards(scores, mask, kl=oracles.spoiled(rng, kl, mask), kl_coef=1)
    assert spoiled.tobytes() == ta.shape_rewards(scores, mask, kl=kl, kl_coef=1).tobytes()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"kl_coef": -1}, "kl_coef: -1, expected a number >= 0"),
        ({"clip": -1}, "clip: -1, expected a number >= 0"),
        ({"clip": (1, 0)}, "clip: 0, expected a number >= 1"),
        ({"clip": (1, 2, 3)}, r"clip: \(1, 2, 3\), expected a number or \(low, high\)"),
        ({"logp": np.ones((2, 3))}, "kl: expected either kl, or both logp and ref_logp"),
        ({"kl": np.ones((2, 4))}, r"kl: shape \(2, 4\), expected \(2, 3\), the shape of mask"),
        ({"scores": np.ones(4)}, r"scores: shape \(4,\), expected \(2,\) or \(2, 3\), the shape of mask"),
    ],
)
def test_shaping_refuses_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        ta.shape_rewards(**({"scores": np.ones(2), "mask": np.ones((2, 3))} | arguments))


def test_penalties_on_long_and_cut_off_answers():
    lengths = [0, 80, 90, 100, 140]
    assert ta.overlong_penalty(lengths, max_length=100, buffer=20, factor=2).tolist() == [0, 0, -1, -2, -6]
    assert ta.overlong_penalty(lengths, max_length=100, buffer=20, bounded=True).tolist() == [0, 0, -0.5, -1, -1]
    assert ta.penalize_truncated([4.0, 8.0], [0, 1], coefficient=0.25).tolist() == [4, 2]
    assert ta.penalize_truncated([4.0, 8.0], [0, 1], coefficient=-3).tolist() == [4, -3]
    with pytest.raises(ValueError, match="^buffer: 200, expected a number > 0 and <= 100"):
        ta.overlong_penalty(lengths, max_length=100, buffer=200)
    with pytest.raises(ValueError, match="^lengths: -5 at index 1, expected at least 0"):
        ta.overlong_penalty([1, -5], max_length=100, buffer=20)
    with pytest.raises(ValueError, match="^coefficient: 2, expected a number <= 1"):
        ta.penalize_truncated([4.0], [1], coefficient=2)


def test_groups_without_spread_are_dropped(torch):
    metric = [1.0, 1.0, 0.0, 1.0, 7.0, 2.0, float("nan")]
    groups = ["x", "x", "y", "y", "z", "w", "w"]
    assert ta.filter_groups(metric, groups).tolist() == [2, 3, 4]
    kept = ta.filter_groups(torch.tensor(metric), groups, max_groups=1)
    assert isinstance(kept, torch.Tensor) and kept.tolist() == [2, 3]
    assert ta.filter_groups([], []).tolist() == []
    assert ta.filter_groups([INF, 1.0, -INF, INF, float("nan"), 1.0, 2.0], ["a", "a", "b", "b", "c", "d", "d"]).tolist() == [5, 6]


def test_rows_are_drawn_by_their_scores():
    scores = [-3.0, 1.0, 2.0, -3.0]
    for method, weights in {"pow": [9, 1, 4, 9], "max_min": [1, 0, 1, 1], "max_random": [0.1, 0.1, 0.4, 0.1]}.items():
        drawn = ta.resample_pf_ppo(scores, method=method, count=40_000, seed=3)
        share = np.bincount(drawn, minlength=4) / 40_000
        np.testing.assert_allclose(share, np.array(weights) / np.sum(weights), atol=0.0125)  # 5 standard errors
    assert ta.resample_pf_ppo(scores, seed=1).tolist() == ta.resample_pf_ppo(scores, seed=1).tolist()
    assert len(ta.resample_pf_ppo(scores, seed=1)) == 4
    with pytest.raises(ValueError, match="^scores: inf at index 1, expected finite numbers"):
        ta.resample_pf_ppo([1.0, INF], seed=1)
    with pytest.raises(ValueError, match="^method: unknown 'power'"):
        ta.resample_pf_ppo(scores, method="power", seed=1)
    with pytest.raises(ValueError, match="^count: 1 of 0 rows"):
        ta.resample_pf_ppo([], seed=1, count=1)


def test_the_learning_rate_of_the_worked_example():
    def rate(step):
        return ta.learning_rate("cosine", step, peak=1e-4, warmup=500, total=10_000)

    assert [rate(step) for step in (0, 250, 500)] == pytest.approx([0, 5e-5, 1e-4], abs=1e-18)
    assert rate(5250) == pytest.approx(5e-5)
    assert [rate(step) for step in (10_000, 12_345, 20_000)] == pytest.approx([0, 0, 0], abs=1e-18)


def test_every_schedule_equals_its_formula(rng):
    for kind in ("constant", "linear", "cosine", "wsd"):
        for _ in range(200):
            start, warmup, total = (int(x) for x in rng.integers(0, 50, size=3))
            step, low, stable = int(rng.integers(-5, 120)), rng.random(), rng.random()
            got = ta.learning_rate(kind, step, peak=3.0, warmup=warmup, total=total, start=start, min_ratio=low, stable_ratio=stable)
            since = step - start
            p = min((since - warmup) / (total - start - warmup), 1) if total - start - warmup > 0 else 1
            if since < 0:
                want = 0
            elif since < warmup:
                want = since / warmup
            elif kind == "constant":
                want = 1
            elif kind == "linear":
                want = 1 - (1 - low) * p
            else:
                q = p if kind == "cosine" else max(p - stable, 0) / (1 - stable)
                want = low + (1 - low) * (1 + np.cos(np.pi * q)) / 2
            assert got == pytest.approx(3 * want, abs=1e-12), (kind, step, start, warmup, total)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"kind": "cosin"}, "kind: unknown 'cosin', did you mean 'cosine'"),
        ({"total": None}, "total: None, expected a number of steps"),
        ({"peak": -1}, "peak: -1, expected a number >= 0"),
        ({"warmup": -1}, "warmup: -1, expected a number >= 0"),
        ({"min_ratio": 2}, r"min_ratio: 2, expected a number in \[0, 1\]"),
        ({"step": float("nan")}, "step: nan, expected a number"),
        ({"step": "5"}, "step: '5', expected a number"),
    ],
)
def test_bad_schedules_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        ta.learning_rate(**({"kind": "cosine", "step": 1, "peak": 1, "total": 10} | arguments))


def test_a_constant_rate_needs_no_total():
    assert ta.learning_rate("constant", 5, peak=2.0, warmup=10) == 1.0


def test_task_weights(torch):
    np.testing.assert_allclose(ta.task_weights([3, 0, 1]), [0.571428571, 0.142857143, 0.285714286], atol=1e-9)
    assert ta.task_weights(torch.tensor([100.0, 0.0])).tolist() == pytest.approx([101 / 102, 1 / 102])
    assert ta.task_weights([]).tolist() == []
    with pytest.raises(ValueError, match="^failures: -1 at index 1, expected a finite number >= 0"):
        ta.task_weights([0, -1])
