import itertools
import os
import subprocess
import sys

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 7), (5, 1), (3, 130), (70, 9)]


def problem(rng, shape, **wanted):
    """Random arrays [B, T] for the requested options."""
    rewards, values = oracles.numbers(rng, *shape), oracles.numbers(rng, *shape)
    options = {
        "mask": oracles.gappy_mask(rng, *shape),
        "terminated": rng.random(shape) < 0.1,
        "truncated": rng.random(shape) < 0.1,
        "next_values": oracles.numbers(rng, *shape),
        "bootstrap": oracles.numbers(rng, shape[0]),
    }
    return rewards, values, {name: options[name] for name, yes in wanted.items() if yes}


def passed(options, form, turn):
    """The options of a problem in the form in which a user passes them."""
    given = {}
    for name, x in options.items():
        pass_on = oracles.flags if x.dtype == bool else oracles.given
        given[name] = pass_on(turn(x) if x.ndim == 2 else x, form)
    return given


def shapes_for(form):
    """Nested lists cannot distinguish the shapes [0, T] and [0]."""
    return [shape for shape in SHAPES if form != "list" or 0 not in shape]


OPTIONS = ["", "mask", "terminated truncated next_values", "bootstrap", "mask terminated bootstrap"]


@pytest.mark.parametrize("layout", ["BT", "TB"])
@pytest.mark.parametrize("outside", ["zero", "carry"])
def test_gae_equals_the_plain_loop(rng, form, layout, outside):
    turn = (lambda x: x.T) if layout == "TB" else (lambda x: x)
    for shape, wanted in itertools.product(shapes_for(form), OPTIONS):
        rewards, values, options = problem(rng, shape, **{name: True for name in wanted.split()})
        arguments = [oracles.given(turn(x), form) for x in (rewards, values)]
        settings = {**passed(options, form, turn), "gamma": 0.97, "lam": 0.9, "layout": layout, "outside": outside}
        want = oracles.gae_general(rewards, values, 0.97, 0.9, **options, outside=outside)
        got = [turn(oracles.as_numpy(x, form)) for x in ta.gae(*arguments, **settings)]
        oracles.close(got[0], want[0])
        oracles.close(got[1], want[1])
        oracles.close(turn(oracles.as_numpy(ta.lambda_returns(*arguments, **settings), form)), want[1])


def test_row_major_and_column_major_memory_is_read_in_place_with_equal_results(torch, rng):
    rewards, values, options = problem(rng, (6, 40), mask=True, bootstrap=True)
    want = oracles.gae_general(rewards, values, 0.9, 0.8, **options)
    as_columns = {name: torch.from_numpy(np.ascontiguousarray(x.T)).T if x.ndim == 2 else torch.from_numpy(x)
                  for name, x in {"rewards": rewards, "values": values, **options}.items()}
    got = ta.gae(**as_columns, gamma=0.9, lam=0.8)
    assert got[0].stride() == as_columns["rewards"].stride()
    oracles.close(got[0], want[0])
    oracles.close(got[1], want[1])
    as_columns["values"] = torch.from_numpy(values)  # arrays may have different memory orders
    oracles.close(ta.gae(**as_columns, gamma=0.9, lam=0.8)[1], want[1])


def test_one_dimension_is_one_sequence(rng):
    rewards, values, options = problem(rng, (1, 50), mask=True, terminated=True)
    want = oracles.gae_general(rewards, values, 0.9, 0.8, **options, bootstrap=[2.0])
    flat = {name: x[0] for name, x in options.items()}
    for layout in ("BT", "TB"):
        got = ta.gae(rewards[0], values[0], gamma=0.9, lam=0.8, bootstrap=2.0, layout=layout, **flat)
        assert got[0].shape == (50,)
        oracles.close(got[0], want[0][0])
    every_second = np.zeros(100, np.float32)
    every_second[::2] = rewards[0]
    got = ta.gae(every_second[::2], values[0], gamma=0.9, lam=0.8, bootstrap=2.0, **flat)
    oracles.close(got[1], want[1][0])


def test_packed_sequences_equal_single_sequences(torch, rng):
    lengths = [5, 0, 1, 40, 17, 0, 64]
    offsets = np.cumsum([0, *lengths])
    rewards, values, options = problem(rng, (1, offsets[-1]), mask=True, terminated=True)
    bootstrap = oracles.numbers(rng, len(lengths))
    flat = {name: x[0] for name, x in options.items()}
    got = ta.gae(rewards[0], values[0], gamma=0.9, lam=0.8, offsets=offsets, bootstrap=bootstrap, **flat)
    to_go = ta.reward_to_go(torch.from_numpy(rewards[0]), gamma=0.9, offsets=torch.from_numpy(offsets))
    for b in range(len(lengths)):
        part = np.s_[:, offsets[b] : offsets[b + 1]]
        options_of = {name: x[part] for name, x in options.items()}
        want = oracles.gae_general(rewards[part], values[part], 0.9, 0.8, **options_of, bootstrap=bootstrap[b : b + 1])
        oracles.close(got[0][part[1]], want[0][0])
        oracles.close(got[1][part[1]], want[1][0])
        oracles.close(to_go[part[1]], oracles.reward_to_go(rewards[part], 0.9)[0])


def test_gamma_and_lambda_of_every_step(rng):
    rewards, values, options = problem(rng, (7, 60), truncated=True, next_values=True)
    gamma, lam = rng.random((7, 60)).astype(np.float32), rng.random(60)
    gamma[rng.random((7, 60)) < 0.1] = 0
    for turn, layout in ((lambda x: x, "BT"), (np.transpose, "TB")):
        arguments = [turn(x) for x in (rewards, values)]
        given = {name: turn(x) for name, x in options.items()}
        lambdas = lam if layout == "BT" else lam[:, None]
        got = ta.gae(*arguments, gamma=turn(gamma), lam=lambdas, layout=layout, **given)
        want = oracles.gae_general(rewards, values, gamma, lam, **options)
        oracles.close(turn(got[0]), want[0])


@pytest.mark.parametrize("outside", ["zero", "carry"])
def test_values_at_masked_steps_do_not_change_the_result(rng, outside):
    rewards, values, options = problem(rng, (40, 100), mask=True, next_values=True)
    mask = options["mask"]
    clean = ta.gae(rewards, values, gamma=0.9, lam=0.8, outside=outside, **options)
    spoiled = {"rewards": oracles.spoiled(rng, rewards, mask), "next_values": oracles.spoiled(rng, options["next_values"], mask)}
    got = ta.gae(spoiled["rewards"], oracles.spoiled(rng, values, mask), gamma=0.9, lam=0.8, outside=outside,
                 mask=mask, next_values=spoiled["next_values"])
    assert got[0].tobytes() == clean[0].tobytes()
    assert got[1][mask].tobytes() == clean[1][mask].tobytes()
    assert outside == "carry" or got[1].tobytes() == clean[1].tobytes()
    to_go = [ta.reward_to_go(x, gamma=0.9, mask=mask) for x in (rewards, spoiled["rewards"])]
    assert to_go[0].tobytes() == to_go[1].tobytes()


def test_the_mask_may_have_any_dtype(torch, rng):
    rewards, values, options = problem(rng, (4, 30), mask=True)
    want = ta.gae(rewards, values, gamma=0.9, lam=0.8, **options)[0]
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16):
        mask = torch.from_numpy(options["mask"]).to(dtype)
        got = ta.gae(torch.from_numpy(rewards), torch.from_numpy(values), gamma=0.9, lam=0.8, mask=mask)[0]
        assert got.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("chunk_size", [1, 2, 7, 128, 100000])
def test_the_chunked_form_gives_the_same_result(rng, chunk_size):
    """The chunked form as in slime: local products with a triangular matrix, then a carry from chunk to chunk."""
    rewards, values = oracles.numbers(rng, 3, 100), oracles.numbers(rng, 3, 100)
    weight, size = 0.9 * 0.8, min(chunk_size, 100)
    following = np.concatenate([values[:, 1:], np.zeros((3, 1))], axis=1)
    x = (rewards + 0.9 * following - values)[:, ::-1].astype(np.float64)
    x = np.concatenate([x, np.zeros((3, -x.shape[1] % size))], axis=1).reshape(3, -1, size)
    power = np.arange(size)[None, :] - np.arange(size)[:, None]
    local = x @ np.where(power >= 0, weight ** np.maximum(power, 0), 0)
    carry = np.zeros(3)
    for c in range(local.shape[1]):
        local[:, c] += carry[:, None] * weight ** (1 + np.arange(size))
        carry = local[:, c, -1].copy()
    want = local.reshape(3, -1)[:, :100][:, ::-1]
    oracles.close(ta.gae(rewards, values, gamma=0.9, lam=0.8, chunk_size=chunk_size)[0], want)


def test_published_examples():
    r, v = np.array([[0, 0, 1, 0, -0.5], [0, 0, 0, 0, 1]]), np.array([[1, 4, -3, -2, -1, -1], [-3, -2, -1, 0, 5, -1]])
    gamma = np.array([[0.99] * 5, [0.9, 0.9, 0.9, 0, 0.9]])  # rlax
    got = ta.gae(r, v[:, :-1], gamma=gamma, lam=1, bootstrap=v[:, -1])[0]
    np.testing.assert_allclose(got, [[-1.45118, -4.4557, 2.5396, 0.5249, -0.49], [3, 2, 1, 0, -4.9]], atol=1e-3)
    rewards = np.array([101, 102, 103, 200, 104, 105, 106, 201, 107, 108, 109, 202])  # tianshou
    following = np.array([2, 3, 4, -1, 5, 6, 7, -2, 8, 9, 10, -3])
    values = np.array([0, 2, 3, 4, 0, 5, 6, 7, 0, 8, 9, 10])
    terminated = np.isin(np.arange(12), [3, 7, 11])
    want = [454.8344, 376.1143, 291.298, 200, 464.5610, 383.1085, 295.387, 201, 474.2876, 390.1027, 299.476, 202]
    got = ta.gae(rewards, values, gamma=0.99, lam=0.95, next_values=following, terminated=terminated)[1]
    np.testing.assert_allclose(got, want, atol=1e-3)
    assert ta.gae([1, 2, 3, 4, 5], [0] * 5, gamma=1, lam=0.5)[0].tolist() == [3.5625, 5.125, 6.25, 6.5, 5.0]


def test_properties_of_gae(rng):
    rewards, values, _ = problem(rng, (5, 70))
    following = np.concatenate([values[:, 1:], np.zeros((5, 1))], axis=1)
    oracles.close(ta.gae(rewards, values, gamma=0.9, lam=0)[0], rewards + 0.9 * following - values)
    oracles.close(ta.gae(rewards, values, gamma=0, lam=0.5)[0], rewards - values)
    oracles.close(ta.gae(rewards, values, gamma=0.9, lam=1)[1], ta.reward_to_go(rewards, gamma=0.9))
    whole = ta.gae(rewards, values, gamma=0.9, lam=0.8, terminated=np.arange(70) == np.full((5, 1), 30))[0]
    oracles.close(whole[:, :31], ta.gae(rewards[:, :31], values[:, :31], gamma=0.9, lam=0.8)[0])
    oracles.close(whole[:, 31:], ta.gae(rewards[:, 31:], values[:, 31:], gamma=0.9, lam=0.8)[0])


@pytest.mark.parametrize("masked", ["skip", "reset"])
@pytest.mark.parametrize("outside", ["zero", "carry"])
def test_reward_to_go_equals_the_plain_loop(rng, form, masked, outside):
    for shape in shapes_for(form):
        rewards, _, options = problem(rng, shape, mask=True, terminated=True, bootstrap=True)
        given = passed(options, form, lambda x: x)
        got = ta.reward_to_go(oracles.given(rewards, form), gamma=0.9, masked=masked, outside=outside, **given)
        want = oracles.reward_to_go(rewards, 0.9, **options, masked=masked, outside=outside)
        oracles.close(oracles.as_numpy(got, form), want)


@pytest.mark.parametrize("q_mix", ["impala", "rlax"])
def test_vtrace_equals_its_definition(rng, form, q_mix):
    bounds = {"lam": 0.9, "rho_bar": 2.0, "c_bar": 1.25, "pg_rho_bar": 1.5, "q_mix": q_mix}
    for steps, count in shapes_for(form):
        log_rho, rewards, values = (oracles.numbers(rng, steps, count) for _ in range(3))
        discounts = np.where(rng.random((steps, count)) < 0.1, 0, 0.875).astype(np.float32)
        bootstrap = oracles.numbers(rng, count)
        arrays = (log_rho, discounts, rewards, values)
        after = oracles.given(bootstrap, form)
        got = ta.vtrace(*(oracles.given(x, form) for x in arrays), after, **bounds)
        turned = ta.vtrace(*(oracles.given(x.T, form) for x in arrays), after, layout="BT", **bounds)
        for x, y, z in zip(got, turned, oracles.vtrace(*arrays, bootstrap, **bounds)):
            oracles.close(oracles.as_numpy(x, form), z)
            oracles.close(oracles.as_numpy(y, form).T, z)


def test_vtrace_of_the_impala_example():
    t = np.arange(5.0)
    got = ta.vtrace(5 * (t / 5 - 0.5), 0.9, t, t, 1.0, rho_bar=3.7, pg_rho_bar=2.2)
    np.testing.assert_allclose(got[0], [0.200181852, 2.709682447, 8.51362793, 11.932396575, 7.33], rtol=1e-6)
    np.testing.assert_allclose(got[1], [0.200181852, 1.709682447, 6.51362793, 10.876614223, 1.98], rtol=1e-6)


def test_vtrace_on_policy_is_gae_and_a_discount_of_zero_cuts_a_sequence(rng):
    rewards, values, bootstrap = oracles.numbers(rng, 40, 6), oracles.numbers(rng, 40, 6), oracles.numbers(rng, 6)
    vs, _ = ta.vtrace(np.zeros((40, 6)), 0.9, rewards, values, bootstrap, lam=0.8)
    oracles.close(vs, ta.gae(rewards, values, gamma=0.9, lam=0.8, bootstrap=bootstrap, layout="TB")[1])
    discounts = np.full((40, 6), 0.9)
    discounts[20] = 0
    rewards[21:] = np.nan
    for x in ta.vtrace(np.zeros((40, 6)), discounts, rewards, values, bootstrap):
        assert np.isfinite(x[:21]).all() and np.isnan(x[21:]).all()


def test_none_and_infinity_mean_no_bound(rng):
    arrays = [oracles.numbers(rng, 20, 3) for _ in range(3)]
    none = ta.vtrace(arrays[0], 0.9, *arrays[1:], 0.0, rho_bar=None, c_bar=None, pg_rho_bar=None)
    infinite = ta.vtrace(arrays[0], 0.9, *arrays[1:], 0.0, rho_bar=np.inf, c_bar=float("inf"), pg_rho_bar=1e30)
    assert none[0].tobytes() == infinite[0].tobytes() and none[1].tobytes() == infinite[1].tobytes()


def test_arguments_are_not_changed_and_results_need_no_gradient(torch):
    rewards, values = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)
    before = values.clone()
    advantages, returns = ta.gae(rewards, values, gamma=1, lam=1)
    assert torch.equal(values, before) and not advantages.requires_grad and advantages.dtype == torch.float32


def test_time_major_results_do_not_depend_on_threads_and_instruction_sets():
    script = (
        "import sys, numpy as np, troupe.algorithms as ta; r = np.random.default_rng(1).normal(size=(300, 700, 2));"
        "out = [ta.gae(r[..., 0].copy(), r[..., 1].copy(), gamma=.99, lam=.95, layout='TB', threads=n) for n in (1, 3)];"
        "assert out[0][0].tobytes() == out[1][0].tobytes(); sys.stdout.buffer.write(out[0][0].tobytes())"
    )
    run = lambda **isa: subprocess.run([sys.executable, "-c", script], env={**os.environ, **isa}, capture_output=True, check=True)
    assert run(TROUPE_ISA="sse2").stdout == run().stdout
    script = "import numpy as np, troupe.algorithms as ta; ta.gae(np.ones(3), np.ones(3), gamma=1, lam=1)"
    bad = subprocess.run([sys.executable, "-c", script], env={**os.environ, "TROUPE_ISA": "sse3"}, capture_output=True, text=True)
    assert 'ValueError: TROUPE_ISA: unknown name "sse3", did you mean "sse2"' in bad.stderr


GAE = {"rewards": np.zeros((2, 3)), "values": np.zeros((2, 3)), "gamma": 0.9, "lam": 0.9}
VTRACE = {name: np.zeros((3, 2)) for name in ("log_rho", "discounts", "rewards", "values")} | {"bootstrap": np.zeros(2)}
PACKED = {"rewards": np.zeros(5), "values": np.zeros(5), "gamma": 1, "lam": 1}


@pytest.mark.parametrize(
    "function, arguments, message",
    [
        (ta.gae, {**GAE, "values": np.zeros((2, 4))}, r"values: shape \(2, 4\), expected \(2, 3\), the shape of rewards"),
        (ta.gae, {**GAE, "rewards": np.zeros((1, 2, 3))}, r"rewards: shape \(1, 2, 3\), expected 1 or 2 dimensions"),
        (ta.gae, {**GAE, "bootstrap": np.zeros(3)}, r"bootstrap: shape \(3,\), expected \(2,\)"),
        (ta.gae, {**GAE, "bootstrap": np.zeros(2), "next_values": np.zeros((2, 3))}, r"bootstrap: cannot be combined with next_values"),
        (ta.gae, {**GAE, "gamma": -0.1}, r"gamma: -0.1, expected a number in \[0, 1\]"),
        (ta.gae, {**GAE, "gamma": np.full((2, 3), 1.5)}, r"gamma: contains 1.5, expected numbers in \[0, 1\]"),
        (ta.gae, {**GAE, "lam": float("nan")}, r"lam: nan, expected a number in \[0, 1\]"),
        (ta.gae, {**GAE, "layout": "TN"}, r"layout: unknown 'TN', did you mean 'TB'\? \(known: BT, TB\)"),
        (ta.gae, {**GAE, "outside": "nan"}, r"outside: unknown 'nan'"),
        (ta.gae, {**GAE, "chunk_size": 0}, r"chunk_size: 0, expected an integer >= 1"),
        (ta.gae, {**GAE, "threads": 0}, r"threads: 0, expected an integer"),
        (ta.gae, {**GAE, "mask": np.zeros((3, 2))}, r"mask: shape \(3, 2\), expected \(2, 3\)"),
        (ta.gae, {**GAE, "values": None}, r"values: None, expected an array"),
        (ta.gae, {**GAE, "values": [[1, 2, 3], [1, 2]]}, r"values: is not an array of numbers"),
        (ta.gae, {**PACKED, "offsets": [0, 3, 6]}, r"offsets: \[0, 3, 6\], expected ascending integers from 0 to 5, the length"),
        (ta.gae, {**PACKED, "offsets": [0, 4, 3, 5]}, r"offsets: \[0, 4, 3, 5\]"),
        (ta.gae, {**PACKED, "offsets": []}, r"offsets: \[\]"),
        (ta.gae, {**PACKED, "offsets": [0, 2, 5], "bootstrap": np.zeros(5)}, r"bootstrap: shape \(5,\), expected \(2,\)"),
        (ta.lambda_returns, {**GAE, "truncated": np.zeros(3)}, r"truncated: shape \(3,\)"),
        (ta.reward_to_go, {"rewards": np.zeros(3), "gamma": 2}, r"gamma: 2, expected a number in \[0, 1\]"),
        (ta.reward_to_go, {"rewards": np.zeros(3), "masked": "resets"}, r"masked: unknown 'resets', did you mean 'reset'"),
        (ta.vtrace, {**VTRACE, "rho_bar": 0.5}, r"rho_bar: 0.5 is below c_bar 1"),
        (ta.vtrace, {**VTRACE, "pg_rho_bar": 0}, r"pg_rho_bar: 0, expected a number > 0"),
        (ta.vtrace, {**VTRACE, "bootstrap": None}, r"bootstrap: None"),
        (ta.vtrace, {**VTRACE, "log_rho": np.zeros((2, 3))}, r"log_rho: shape \(2, 3\), expected \(3, 2\)"),
        (ta.vtrace, {**VTRACE, "q_mix": "rlex"}, r"q_mix: unknown 'rlex', did you mean 'rlax'"),
    ],
)
def test_errors_name_the_argument_that_does_not_fit(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(**arguments)


@pytest.mark.parametrize("bootstrap", [np.zeros(4), [0.0] * 4, np.zeros(5)])
def test_a_bootstrap_that_does_not_fit_names_the_layout(bootstrap):
    x = np.zeros((4, 9), np.float32)
    n = len(bootstrap)
    want = f"bootstrap: shape \\({n},\\), expected \\(9,\\).*layout='TB' reads rewards of shape \\(4, 9\\) as \\[T, B\\]; pass layout='BT'"
    with pytest.raises(ValueError, match=want):
        ta.vtrace(x, 0.9, x, x, bootstrap)
    with pytest.raises(ValueError, match="layout='BT' reads rewards of shape \\(9, 4\\) as \\[B, T\\]; pass layout='TB' if"):
        ta.gae(x.T, x.T, gamma=0.9, lam=0.9, bootstrap=np.zeros(4))


@pytest.mark.parametrize("single", [np.ones(1), [1.0]])
def test_a_bootstrap_of_one_row_is_not_spread_over_its_steps(single):
    x = np.zeros((1, 9), np.float32)
    with pytest.raises(ValueError, match="layout='TB' reads rewards of shape \\(1, 9\\) as"):
        ta.vtrace(x, 0.9, x, x, single)
    with pytest.raises(ValueError, match="pass layout='TB' if they are"):
        ta.gae(x.T, x.T, gamma=0.9, lam=0.9, bootstrap=single)
    assert ta.vtrace(x, 0.9, x, x, single, layout="BT").vs.shape == (1, 9)
    assert ta.vtrace(x, 0.9, x, x, 1.0).vs.shape == (1, 9)
    square = np.zeros((3, 4), np.float32)
    assert ta.vtrace(square, 0.9, square, square, single).vs.shape == (3, 4)  # one value for all sequences


@pytest.mark.parametrize("discounts", [1.5, -0.1, float("nan"), np.full((3, 4), 1.5), np.array([0.9, 0.9, 0.9, np.nan]), [0.5, 2, 0, 0]])
def test_discounts_of_vtrace_are_in_the_unit_interval(discounts):
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match="discounts: .*expected .*in \\[0, 1\\]"):
        ta.vtrace(x, discounts, x, x, 0.0)
