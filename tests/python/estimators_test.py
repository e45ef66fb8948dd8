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
    for labels in (["a", "b", "a", "b"], [(1, 2), None, (1, 2), None], np.array([7, -(2**40), 7, -(2**40)]), np.array(["x", "y"] * 2)):
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
        ("gae", {"gama": 1}, r"gae.gama: unknown key, did you mean gae.gamma\?"),
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
