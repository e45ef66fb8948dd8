import collections

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

INF = float("inf")
NAMES = list(ta.advantage_estimators())
# (number of sequences, longest sequence, number of groups)
SHAPES = [(0, 3, 1), (1, 0, 1), (1, 1, 1), (1, 6, 1), (5, 1, 2), (6, 9, 2), (24, 17, 5)]


def batch(rng, rows, steps, groups=3):
    """Every argument that some estimator reads, as numpy arrays."""
    return {
        "rewards": oracles.numbers(rng, rows, steps),
        "mask": oracles.gappy_mask(rng, rows, steps),
        "groups": rng.integers(0, groups, size=rows),
        "values": oracles.numbers(rng, rows, steps),
        "baselines": oracles.numbers(rng, rows),
        "old_logp": -np.abs(oracles.numbers(rng, rows, steps)),
        "sum_pi_squared": np.abs(oracles.numbers(rng, rows, steps)),
        "rollout_is_weights": np.abs(oracles.numbers(rng, rows, steps)),
    }


def without_singles(data):
    """A copy whose groups have at least two rows each, which grpo_passk needs. A single row stays a group of its own."""
    data = dict(data)
    data["groups"] = data["groups"] % max(len(data["groups"]) // 2, 1)
    counts = collections.Counter(data["groups"].tolist())
    data["groups"] = np.array([g if counts[g] > 1 else -1 for g in data["groups"].tolist()], np.int64)
    if list(data["groups"]).count(-1) == 1:
        data["groups"][:] = -1
    return data


# --- The reference: plain loops in float64 for the equations of docs/algorithms/sequences.md.


def whitened(rows, mask):
    values = np.concatenate([row[m] for row, m in zip(rows, mask, strict=True)] or [np.zeros(0)])
    n = len(values)
    if n == 0:
        return [np.zeros(len(row)) for row in rows]
    scale = 1 / np.sqrt(((values - values.mean()) ** 2).sum() / (n - 1) + 1e-8) if n > 1 else 1.0
    return [np.where(m, (row - values.mean()) * scale, 0) for row, m in zip(rows, mask, strict=True)]


def to_go(rewards, mask, gamma=1.0, reset=False):
    out, carry = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        out[t] = (rewards[t] if mask[t] else 0.0) + gamma * carry
        carry = out[t] if mask[t] or not reset else 0.0
    return out


def skipping_gae(rewards, values, mask, gamma, lam):
    advantages, later, ahead = np.zeros(len(rewards)), 0.0, 0.0
    for t in reversed(range(len(rewards))):
        if mask[t]:
            later = rewards[t] + gamma * ahead - values[t] + gamma * lam * later
            ahead = values[t]
            advantages[t] = later
    return advantages


def outcome(name, scores, lengths, groups, params):
    """The advantage of each row, for estimators that give all steps of a row the same one."""
    out = np.zeros(len(scores))
    for row, score in enumerate(scores):
        peers = np.flatnonzero((groups == groups[row]) & (lengths > 0))
        if lengths[row] == 0:
            continue
        alone = len(peers) == 1
        mean = 0.0 if alone else scores[peers].mean()
        std = 1.0 if alone else scores[peers].std(ddof=1)
        by_std = params.get("norm_adv_by_std_in_grpo", True)
        if name == "grpo":
            out[row] = (score - mean) / (std + 1e-6 if by_std else 1)
        elif name == "grpo_vectorized":
            out[row] = (score - mean) / ((1.0 if alone else np.sqrt(max(std**2, 1e-6))) + 1e-6)
        elif name in ("dr_grpo", "reinforce_plus_plus_baseline"):
            out[row] = score - mean
        elif name == "grpo_passk":
            best, second = np.sort(scores[peers])[::-1][:2] if len(peers) > 1 else (0, 0)
            first = row == peers[np.argmax(scores[peers])]
            out[row] = (best - second) / (std + 1e-6 if by_std else 1) if first else 0
        elif name == "rloo":
            out[row] = (score if params.get("singleton") == "score" else 0) if alone else score - scores[peers[peers != row]].mean()
        elif name == "opo":
            weight = lengths[peers].sum()
            out[row] = score - (0 if alone or weight == 0 else (lengths[peers] * scores[peers]).sum() / weight)
        elif name == "gpg":
            out[row] = np.count_nonzero(lengths) / max(np.count_nonzero(scores), 1) * (score - mean)
    return out


def optimal(data, compact, cut):
    rewards, mask, groups = data["rewards"], data["mask"], data["groups"]
    returns = [to_go(r, m) for r, m in zip(rewards, mask, strict=True)]
    own = (1 - 2 * np.exp(data["old_logp"]) + data["sum_pi_squared"]) * data["rollout_is_weights"] ** 2
    weights = np.cumsum(np.where(mask, own, 0), axis=1)
    steps = np.cumsum(mask, axis=1) - 1 if compact else np.broadcast_to(np.arange(mask.shape[1]), mask.shape)
    lengths = mask.sum(axis=1)
    advantages = np.zeros(mask.shape)
    for row, t in zip(*np.nonzero(mask), strict=True):
        peers = np.flatnonzero((groups == groups[row]) & (lengths > 0))
        step = steps[row, t]
        longest = np.sort(lengths[peers])[::-1]
        if len(peers) == 1 or (cut and lengths[row] == longest[0] > longest[1] and step >= longest[1]):
            advantages[row, t] = returns[row][t]
            continue
        here = [(p, u) for p in peers for u in np.flatnonzero(mask[p]) if steps[p, u] == step]
        top = sum(returns[p][u] * weights[p, u] for p, u in here)
        advantages[row, t] = returns[row][t] - top / (sum(weights[p, u] for p, u in here) + 1e-8)
    return advantages, returns


def expected(name, data, **params):
    data = {key: value if key in ("mask", "groups") else value.astype(np.float64) for key, value in data.items()}
    rewards, mask = data["rewards"], data["mask"]
    rows = range(len(rewards))
    if name == "gae":
        gamma, lam = params.get("gamma", 1), params.get("lam", 1)
        raw = [skipping_gae(rewards[b], data["values"][b], mask[b], gamma, lam) for b in rows]
        return whitened(raw, mask), [np.where(mask[b], raw[b] + data["values"][b], 0) for b in rows]
    if name == "reinforce_plus_plus":
        returns = [to_go(rewards[b], mask[b], params.get("gamma", 1), reset=True) for b in rows]
        return whitened(returns, mask), returns
    if name == "remax":
        returns = [to_go(rewards[b], mask[b]) for b in rows]
        return [np.where(mask[b], returns[b] - data["baselines"][b], 0) for b in rows], returns
    if name in ("optimal_token_baseline", "tir_optimal_token_baseline"):
        compact = name.startswith("tir")
        return optimal(data, compact, params.get("handle_zero_tail", compact))
    scores = np.array([rewards[b][mask[b]].sum() for b in rows])
    per_row = outcome(name, scores, mask.sum(axis=1), data["groups"], params)
    advantages = [np.where(mask[b], per_row[b], 0) for b in rows]
    if name == "reinforce_plus_plus_baseline":
        advantages = whitened(advantages, mask)
    return advantages, advantages


PARAMS = {
    "gae": [{}, {"gamma": 0.97, "lam": 0.9}, {"gamma": 0, "lam": 1}],
    "reinforce_plus_plus": [{}, {"gamma": 0.9}],
    "grpo": [{}, {"norm_adv_by_std_in_grpo": False}],
    "grpo_passk": [{}, {"norm_adv_by_std_in_grpo": False}],
    "rloo": [{}, {"singleton": "score"}],
    "optimal_token_baseline": [{}, {"handle_zero_tail": True}],
    "tir_optimal_token_baseline": [{}, {"handle_zero_tail": False}],
}


def close(got, want):
    want = np.array(want).reshape(got.shape)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5 + 2e-5 * np.abs(want).max(initial=0))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_equals_the_plain_loops(rng, name, shape):
    for params in PARAMS.get(name, [{}]):
        data = batch(rng, *shape)
        if name == "grpo_passk":
            data = without_singles(data)
            if shape[0] == 1:
                continue
        got = ta.advantages(name, **data, **params)
        want = expected(name, data, **params)
        for actual, desired in zip(got, want, strict=True):
            assert actual.dtype == np.float32 and actual.shape == data["rewards"].shape
            close(actual, desired)


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_takes_every_form(rng, form, name):
    data = without_singles(batch(rng, 6, 5))
    want = ta.advantages(name, **data)
    given = {
        key: oracles.flags(value, form) if key == "mask" else value if key == "groups" else oracles.given(value, form)
        for key, value in data.items()
    }
    for actual, desired in zip(ta.advantages(name, **given), want, strict=True):
        np.testing.assert_array_equal(oracles.as_numpy(actual, form), desired)


@pytest.mark.parametrize("name", NAMES)
def test_values_at_masked_tokens_do_not_change_the_result(rng, name):
    data = without_singles(batch(rng, 8, 9))
    spoiled = {
        key: oracles.spoiled(rng, value, data["mask"]) if value.shape == data["mask"].shape and key != "mask" else value
        for key, value in data.items()
    }
    for actual, desired in zip(ta.advantages(name, **spoiled), ta.advantages(name, **data), strict=True):
        assert actual.tobytes() == desired.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_different_lengths(rng, name):
    data = without_singles(batch(rng, 6, 8))
    lengths = rng.integers(0, 9, size=6)
    inside = np.arange(8) < lengths[:, None]
    data["mask"] &= inside
    ragged = {key: value[inside] if value.ndim == 2 else value for key, value in data.items()}
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    got = ta.advantages(name, **ragged, offsets=offsets)
    for actual, desired in zip(got, ta.advantages(name, **data), strict=True):
        np.testing.assert_allclose(actual, desired[inside], rtol=1e-5, atol=1e-6)


def test_group_labels_may_be_any_hashable_values(rng, torch):
    rewards, mask = oracles.numbers(rng, 4, 3), np.ones((4, 3), bool)
    want = ta.advantages("grpo", rewards, mask, [0, 1, 0, 1])[0]
    for labels in (["a", "b", "a", "b"], [(1, 2), None, (1, 2), None], np.array([7, -2**40, 7, -2**40]), np.array(["x", "y"] * 2)):
        np.testing.assert_array_equal(ta.advantages("grpo", rewards, mask, labels)[0], want)
    tensors = ta.advantages("grpo", torch.tensor(rewards), torch.tensor(mask), torch.tensor([5, 3, 5, 3]))
    np.testing.assert_array_equal(tensors[0].numpy(), want)


def test_a_row_alone_in_its_group():
    rewards = np.array([[0.0, 3.0]])
    assert ta.advantages("grpo", rewards, groups=[0])[0][0, 0] == pytest.approx(3 / (1 + 1e-6))
    assert ta.advantages("rloo", rewards, groups=[0])[0].tolist() == [[0, 0]]
    assert ta.advantages("rloo_vectorized", rewards, groups=[0])[0].tolist() == [[0, 0]]
    assert ta.advantages("rloo", rewards, groups=[0], singleton="score")[0].tolist() == [[3, 3]]
    for name in ("dr_grpo", "opo", "gpg"):
        assert ta.advantages(name, rewards, groups=[0])[0].tolist() == [[3, 3]]
    with pytest.raises(ValueError, match="groups: sequence 0 is alone in its group, grpo_passk needs at least 2"):
        ta.advantages("grpo_passk", rewards, groups=[0])


BY_SCORE = ["grpo", "grpo_vectorized", "dr_grpo", "rloo", "opo", "gpg", "grpo_passk", "reinforce_plus_plus_baseline"]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("name", BY_SCORE)
def test_a_masked_answer_is_left_out_of_its_group_or_counts(name, ragged):
    scores, groups, mask = np.array([1.0, 0.0, 5.0, 0.0, 1.0]), ["a"] * 5, np.ones((5, 2), bool)
    mask[2] = False
    rewards = np.zeros((5, 2))
    rewards[:, 1] = scores
    shape = {"offsets": np.arange(0, 11, 2)} if ragged else {}
    flat = (lambda x: x.reshape(-1)) if ragged else (lambda x: x)
    rest = [0, 1, 3, 4]
    without = ta.advantages(name, scores[rest], mask[rest], ["a"] * 4).advantages
    for given in (scores, flat(rewards)):
        got = ta.advantages(name, given, flat(mask), groups, **shape).advantages.reshape(5, 2)
        np.testing.assert_array_equal(got[rest], without)
        np.testing.assert_array_equal(got[2], 0)
    if name in ("opo", "reinforce_plus_plus_baseline"):  # one weights by length, the other whitens over unmasked tokens
        return
    counted = ta.advantages(name, scores, np.ones((5, 2), bool), groups).advantages
    for given in (scores, flat(rewards)):
        got = ta.advantages(name, given, flat(mask), groups, count_masked_rewards=True, **shape).advantages.reshape(5, 2)
        np.testing.assert_array_equal(got[rest], counted[rest])
        np.testing.assert_array_equal(got[2], 0)


@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
@pytest.mark.parametrize("name", NAMES)
def test_a_score_that_is_not_finite_is_an_error_with_its_index(rng, torch, name, bad):
    data = without_singles(batch(rng, 4, 3))
    data["mask"][:] = True
    data["mask"][2, 1:] = False
    data["rewards"][2, 2] = bad  # masked
    ta.advantages(name, **data)
    data["rewards"][1, 2] = bad
    text = f"{bad:g}"
    for convert in (np.asarray, torch.tensor):
        given = {key: value if key == "groups" else convert(value) for key, value in data.items()}
        with pytest.raises(ValueError, match=rf"^rewards: {text} at index \(1, 2\), expected finite numbers; mask the tokens of a row"):
            ta.advantages(name, **given)
    scores = {**data, "rewards": np.array([1, bad, 0, 2])}
    with pytest.raises(ValueError, match=rf"^rewards: {text} at index 1, expected finite numbers"):
        ta.advantages(name, **scores)
    scores["mask"][1] = False
    assert np.isfinite(ta.advantages(name, **scores).advantages).all()
    if name in BY_SCORE:
        with pytest.raises(ValueError, match=rf"^rewards: {text} at index 1, expected finite numbers"):
            ta.advantages(name, **scores, count_masked_rewards=True)


def test_aliases_and_the_table_agree():
    for name, entry in ta.advantage_estimators().items():
        assert entry["parameters"] or name
        for parameter in entry["parameters"].values():
            assert set(parameter) == {"default", "expected", "doc", "source"} and parameter["doc"] and parameter["source"]
    assert ta.advantage_estimators()["rloo"]["aliases"] == ["rloo_vectorized"]
    assert ta.advantage_estimators()["gae"]["parameters"]["outside"]["expected"] == "one of: zero, carry"


def test_parameters_may_be_scalars_of_numpy_and_torch(rng, torch):
    data = batch(rng, 3, 4)
    want = ta.advantages("gae", **data, gamma=0.5, lam=1, whiten=False)[0]
    for gamma, lam, whiten in ((np.float64(0.5), np.int64(1), np.False_), (torch.tensor(0.5), np.float32(1), False)):
        np.testing.assert_array_equal(ta.advantages("gae", **data, gamma=gamma, lam=lam, whiten=whiten)[0], want)


@pytest.mark.parametrize(
    "name, changes, message",
    [
        ("grop", {}, r"name: unknown 'grop', did you mean 'grpo'\?"),
        ("GRPO", {}, r"name: unknown 'GRPO'"),
        (None, {}, r"name: unknown None"),
        ("grpo", {"groups": None}, r"groups: None, expected an array, which grpo needs"),
        ("gae", {"values": None}, r"values: None, expected an array, which gae needs"),
        ("remax", {"baselines": None}, r"baselines: None, expected an array, which remax needs"),
        ("optimal_token_baseline", {"sum_pi_squared": None}, r"sum_pi_squared: None, expected an array"),
        ("grpo", {"groups": [1, 2]}, r"groups: 2 labels, expected 3, one per row"),
        ("grpo", {"groups": [[], [], []]}, r"groups: unhashable type: 'list'; expected one hashable label per row"),
        ("grpo", {"groups": 5}, r"groups: 5, expected 3 labels"),
        ("grpo", {"mask": np.ones((3, 5))}, r"mask: shape \(3, 5\), expected \(3, 4\), the shape of rewards"),
        ("grpo", {"rewards": np.ones(5)}, r"rewards: shape \(5,\), expected \(3, 4\), the shape of mask, or one score per row"),
        ("grpo", {"rewards": np.ones((2, 3, 4))}, r"rewards: shape \(2, 3, 4\), expected 1 or 2 dimensions"),
        ("remax", {"baselines": np.ones(2)}, r"baselines: shape \(2,\), expected \(3,\)"),
        ("gae", {"gama": 1}, r'gae.gama: unknown key, did you mean gae.gamma\?'),
        ("gae", {"gamma": -0.5}, r"gae.gamma: -0.5 is out of range, expected a number in \[0, 1\]"),
        ("gae", {"gamma": float("nan")}, r"gae.gamma: nan, expected a number"),
        ("gae", {"gamma": "0.5"}, r'gae.gamma: "0.5" is a string, expected a number in \[0, 1\]'),
        ("gae", {"gamma": None}, r"gae.gamma: None, expected a number"),
        ("gae", {"outside": "keep"}, r'gae.outside: "keep" is unknown, expected one of: zero, carry'),
        ("grpo", {"norm_adv_by_std_in_grpo": 1}, r"grpo.norm_adv_by_std_in_grpo: 1 is a number, expected true or false"),
        ("grpo", {"offsets": [0, 4]}, r"rewards: shape \(3, 4\), expected 1 dimensions"),
        (
            "grpo",
            {"rewards": np.ones(4), "mask": None, "offsets": [0, 3, 2, 4]},
            r"offsets: \[0, 3, 2, 4\], expected ascending integers from 0 to 4, the length of rewards",
        ),
        ("grpo", {"rewards": np.ones(4), "mask": None, "offsets": [0, 3]}, r"offsets: \[0, 3\], expected ascending integers from 0 to 4"),
    ],
)
def test_bad_arguments_are_refused_by_name(rng, name, changes, message):
    data = batch(rng, 3, 4) | changes
    if "offsets" in changes and data["rewards"].ndim == 1:
        data = {key: data[key] for key in ("rewards", "mask", "groups", "offsets")}
    with pytest.raises(ValueError, match=f"^{message}"):
        ta.advantages(name, **data)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_rewards_at_the_last_unmasked_token(rng, form, name):
    data = without_singles(batch(rng, 6, 5))
    scores = oracles.numbers(rng, 6)
    rewards = np.zeros((6, 5), np.float32)
    for row in np.flatnonzero(data["mask"].any(axis=1)):
        rewards[row, np.flatnonzero(data["mask"][row])[-1]] = scores[row]
    want = ta.advantages(name, **data | {"rewards": rewards})
    given = {k: oracles.flags(v, form) if k == "mask" else v if k == "groups" else oracles.given(v, form) for k, v in data.items()}
    got = ta.advantages(name, **given | {"rewards": oracles.given(scores, form)})
    for actual, desired in zip(got, want, strict=True):
        np.testing.assert_array_equal(oracles.as_numpy(actual, form), desired)


def test_scores_of_packed_rows(rng):
    lengths = np.array([3, 1, 4, 2])
    offsets, scores = np.concatenate([[0], np.cumsum(lengths)]), oracles.numbers(rng, 4)
    rewards = np.zeros(10, np.float32)
    rewards[offsets[1:] - 1] = scores
    options = {"mask": np.ones(10, bool), "groups": [0, 0, 1, 1], "offsets": offsets}
    np.testing.assert_array_equal(ta.advantages("rloo", scores, **options)[0], ta.advantages("rloo", rewards, **options)[0])
    with pytest.raises(ValueError, match=r"^rewards: shape \(5,\), expected \(10,\), the shape of mask, or one score per row: \(4,\)"):
        ta.advantages("rloo", np.ones(5), **options)


def test_scores_alone_are_sequences_of_one_token(rng, torch):
    scores, groups = oracles.numbers(rng, 6), [0, 0, 0, 1, 1, 1]
    others = ("gae", "remax", "optimal_token_baseline", "tir_optimal_token_baseline")
    for name in (name for name in NAMES if name not in others):
        want = ta.advantages(name, scores[:, None], groups=groups)
        got = ta.advantages(name, torch.from_numpy(scores), groups=groups)
        assert got.advantages.shape == got.returns.shape == (6,)
        np.testing.assert_array_equal(got.advantages.numpy(), want[0][:, 0])
    assert ta.advantages("remax", scores, baselines=scores)[0].tolist() == [0] * 6
    assert ta.advantages("grpo", [], groups=[])[0].shape == (0,)
    assert ta.advantages("grpo", [1.0, 3.0], np.zeros((2, 0)), [0, 0])[0].shape == (2, 0)


# --- Whitening


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
    np.testing.assert_array_equal(
        ta.whiten(junk, mask, zero_outside=True), np.where(mask, ta.whiten(x, mask), 0).astype(np.float32)
    )
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


# --- Reward shaping


def test_shaping_equals_the_plain_loop(rng, form):
    scores, kl, mask = oracles.numbers(rng, 6) * 4, oracles.numbers(rng, 6, 7), oracles.gappy_mask(rng, 6, 7)
    want = np.where(mask, -0.5 * kl, 0)
    for row in range(6):
        if mask[row].any():
            want[row, np.flatnonzero(mask[row])[-1]] += np.clip(scores[row], -5, 5)
    got = ta.shape_rewards(
        oracles.given(scores, form), oracles.flags(mask, form), kl=oracles.given(kl, form), kl_coef=0.5, clip=5
    )
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


# --- Groups


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


# --- Schedules


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
            got = ta.learning_rate(
                kind, step, peak=3.0, warmup=warmup, total=total, start=start, min_ratio=low, stable_ratio=stable
            )
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
