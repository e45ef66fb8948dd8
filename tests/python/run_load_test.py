"""troupe.load: the actions of a policy in numpy are those that `troupe eval` takes with the same weights."""

import collections
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

import run_envs  # noqa: E402
from run_support import SMALL, use_built_program  # noqa: E402

import troupe  # noqa: E402

LSTM = {"trunk": [24], "core": {"kind": "lstm", "size": 12}, "value_trunk": [8]}
GRU = {"trunk": [], "core": {"kind": "gru", "size": 12}}
EMBEDDING = {"encoders": {"kind": {"kind": "embedding", "values": 5, "size": 4}, "*": {"kind": "mlp", "hidden": [8]}}}
NORMALIZED = {"normalize_observations": True, "normalize_returns": True}
CASES = {
    "discrete": ("CartPole-v1", {"activation": "relu", "normalize_observations": True}),
    "shared": ("CartPole-v1", {"activation": "gelu", "shared_trunk": True, "hidden": [16, 8]}),
    "continuous": ("Pendulum-v1", {"activation": "elu", **NORMALIZED}),
    "normalized": ("Pendulum-v1", {"activation": "tanh"}),  # with env.normalize_actions
    "lstm": ("Pendulum-v1", {"kind": "net", "net": LSTM, **NORMALIZED}),
    "gru": ("Pendulum-v1", {"kind": "net", "net": GRU, "activation": "silu"}),
    "multi_discrete": ("Steps", {}),
    "embedding": ("Steps", {"kind": "net", "net": EMBEDDING, "normalize_observations": True}),
    "masked": ("MaskedPole", {}),
}

pytestmark = pytest.mark.usefixtures("in_a_folder")


def recorded_rows(folder):
    """The steps of each row in an evaluation by the program: lists of {observation, action, begin}."""
    record = Path("record.jsonl")
    command = [os.environ["TROUPE_PROGRAM"], "eval", str(folder), "--episodes", "8", "--device", "cpu"]
    subprocess.run(command, check=True, env=os.environ | {"RECORD": str(record.resolve())}, stdout=subprocess.DEVNULL)
    rows = collections.defaultdict(list)
    for line in record.read_text().splitlines():
        step = json.loads(line)
        rows[step["row"]].append(step)
    played = [steps for steps in rows.values() if len(steps) > 1]  # the others tried one step to see what it gives
    assert sum(map(len, played)) > 50
    return played


def stacked(observations):
    if isinstance(observations[0], dict):
        return {key: np.array([each[key] for each in observations]) for key in observations[0]}
    return np.array(observations, np.float32)


def check_actions(policy, observation, state, action):
    """The action is the one that predict() gives, or as likely as it but for rounding. Returns the state after it."""
    found, after = policy.predict(observation, state)
    outputs = policy.forward(observation, state)[0]
    if policy.spec["action"]["kind"] == "continuous":
        np.testing.assert_allclose(found, action, rtol=0, atol=1e-5)
        return after
    first = 0
    for bins, best, taken in zip(policy.spec["action"]["bins"], np.atleast_1d(found), np.atleast_1d(action)):
        assert outputs[first + taken] >= outputs[first + best] - 1e-5
        first += bins
    return after


@pytest.mark.parametrize("name", CASES)
def test_actions_are_those_of_the_program(name):
    of, model = CASES[name]
    env = {"params": {"of": of}, "rows": 16, "normalize_actions": name == "normalized"}
    config = SMALL | {"model": model | {"policy_gain": 1.0}, "env": env}
    settings = {"stop.updates": 2, "evaluation.rows": 4, "seed": 3}
    run = troupe.train(config, env=run_envs.Recorded, run_dir="run", quiet=True, **settings)
    policy = troupe.load(run)
    rows = recorded_rows(run.folder)
    distinct = set()
    for steps in rows:
        state = None
        for step in steps:
            state = None if step["begin"] else state
            distinct.add(str(step["action"]))
            state = check_actions(policy, single(step), state, step["action"])
    assert len(distinct) > 1
    every = [step["observation"] for steps in rows for step in steps][:50]
    check_batch(policy, stacked(every), every)


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("name", run_envs.ACTIONS)
def test_actions_are_those_that_step_gets(name, chunk):
    """In the action space, and of the type, dtype and shape that step() gets from the program."""
    env = run_envs.Typed(name, "typed.json")
    settings = {"env.params": {"name": name, "file": str(Path("typed.json").resolve())}, "env.chunk": chunk}
    run = troupe.train(SMALL | {"env": {"rows": 4}}, env=run_envs.Typed, run_dir="run", quiet=True, **settings, **{"stop.updates": 1})
    policy, taken = troupe.load(run), json.loads(Path("typed.json").read_text())
    batch = np.linspace(-1, 1, 7, dtype=np.float32)[:, None]
    for deterministic in (True, False):
        action, _ = policy.predict(batch[0], deterministic=deterministic)
        for each in action if chunk > 1 else [action]:
            assert env.action_space.contains(each), each
        assert run_envs.typed(action[0] if chunk > 1 else action) == taken or (chunk > 1 and name in ("discrete", "negative"))
        actions, _ = policy.predict(batch, deterministic=deterministic)
        assert actions.dtype == env.action_space.dtype
        assert actions.shape == (7, *([chunk] if chunk > 1 else []), *env.action_space.shape)
    old = json.loads(json.dumps(policy.spec))
    for key in ("number_shape", "number_dtype", "starts"):
        del old["action"][key]
    flat, _ = troupe.load(run, spec=old).predict(batch)
    assert flat.reshape(7, -1).shape == actions.reshape(7, -1).shape


def single(step):
    observation = step["observation"]
    return {key: np.array(part) for key, part in observation.items()} if isinstance(observation, dict) else np.array(observation)


def check_batch(policy, batch, every):
    """A batch gives the actions of its rows one by one, and draws are allowed actions that vary."""
    actions, state = policy.predict(batch)
    assert len(actions) == len(every) and (state is None) == (policy.state_size == 0)
    outputs, values, _ = policy.forward(batch)
    one = policy.forward({key: part[7] for key, part in batch.items()} if isinstance(batch, dict) else batch[7])
    np.testing.assert_allclose(outputs[7], one[0], atol=1e-5)
    np.testing.assert_allclose(values[7], one[1], rtol=1e-5, atol=1e-5)
    drawn, _ = policy.predict(batch, deterministic=False, rng=np.random.default_rng(0))
    again, _ = policy.predict(batch, deterministic=False, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, again)
    assert drawn.shape == actions.shape and drawn.dtype == actions.dtype and (drawn != actions).any()
    if policy.spec["action"]["masked"]:
        assert drawn.max() <= 1


@pytest.mark.parametrize("of", [run_envs.Parts, run_envs.Place])
def test_what_the_environment_gives_is_predicted(of):
    """Discrete parts as integers, and parts of parts, as the environment gives them; and one-hot, as the policy observes them."""
    settings = {"stop.env_steps": 30_000, "evaluation.episodes": 20}
    run = troupe.train(SMALL, env=of, run_dir="run", quiet=True, **settings)
    assert run.summary["eval"]["return_mean"] > 15  # 20 / 3 without training
    policy, env, total = troupe.load(run), of(), 0.0
    assert troupe.load(run, spec=json.loads(json.dumps(policy.spec))).spec == policy.spec
    for seed in range(10):
        observation, over = env.reset(seed=seed)[0], False
        while not over:
            action, _ = policy.predict(observation)
            observation, reward, _, over, _ = env.step(action)
            total += reward
    assert total / 10 > 15
    places = np.array([2, 3, 4, 2])
    if of is run_envs.Place:
        actions, _ = policy.predict(places)
        np.testing.assert_array_equal(actions, policy.predict(np.eye(3, dtype=np.float32)[places - 2])[0])
        np.testing.assert_array_equal(actions, [policy.predict(place)[0] for place in places])
        with pytest.raises(ValueError, match="the observation has 5, expected 2 to 4"):
            policy.predict(5)
    else:
        one = {"place": 2, "inner": {"two": np.array([1, 3]), "flags": np.array([0, 1]), "pair": (1, np.float32(0.5))}}
        flat = {
            "place": [1.0, 0, 0],
            "inner/two": [0.0, 1, 0, 0, 0, 1],
            "inner/flags": [0, 1],
            "inner/pair/0": [0.0, 1],
            "inner/pair/1": [0.5],
        }
        np.testing.assert_array_equal(policy.forward(one)[0], policy.forward(flat)[0])
        with pytest.raises(ValueError, match="observation inner/flags is missing"):
            policy.predict({"place": 2, "inner": {}})
        with pytest.raises(ValueError, match="observation inner/two has 4, expected 0 to 3"):
            policy.predict(one | {"inner": one["inner"] | {"two": np.array([1, 4])}})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use_built_program(patch)
        patch.chdir(tmp_path_factory.mktemp("trained"))
        settings = {"stop.updates": 4, "checkpoint.every_updates": 2, "checkpoint.keep_best": 1}
        run = troupe.train(SMALL, env="CartPole-v1", quiet=True, **settings)
        return Path(run.folder).resolve()


def test_checkpoints_are_chosen_by_name_and_number(trained):
    assert troupe.load(trained).checkpoint.name == "000000000004"
    assert troupe.load(str(trained), 2).checkpoint.name == "000000000002"
    assert troupe.load(trained, "best").checkpoint.name == "000000000004"  # the only one that is evaluated


def test_a_stored_spec_needs_no_program(trained, monkeypatch):
    spec = json.loads(json.dumps(troupe.load(trained).spec))
    monkeypatch.setenv("TROUPE_PROGRAM", "/nonexistent")
    action, state = troupe.load(trained, spec=spec).predict([0.0, 0.0, 0.05, 0.0])
    assert action in (0, 1) and state is None
    with pytest.raises(troupe.RunError, match="TROUPE_PROGRAM"):
        troupe.load(trained)


def changed(spec, path, value):
    """The spec with this value at a dotted path; without it if the value is ...; a number is an index."""
    spec = json.loads(json.dumps(spec))
    *outer, key = [int(each) if each.isdigit() else each for each in path.split(".")]
    holder = spec
    for each in outer:
        holder = holder[each]
    if value is ...:
        del holder[key]
    else:
        holder[key] = value
    return spec


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("action.bins", [1], r"^spec.action.bins is \[1\], 1 outputs, but the weights have 2$"),
        ("action.bins", [7], r"^spec.action.bins is \[7\], 7 outputs, but the weights have 2$"),
        ("action.bins", [1, 1], r"^spec.action.bins is \[1, 1\], expected one number for spec.action.kind 'discrete'$"),
        ("action.bins", [0.5], r"^spec.action.bins is \[0.5\], expected a list of whole numbers above 0$"),
        ("action.bins", ..., "^spec.action.bins is missing, expected a list of whole numbers above 0$"),
        ("action.kind", "continuous", "^spec.action.kind is 'continuous', but the weights are of discrete actions$"),
        ("action.kind", "Discrete", "^spec.action.kind is 'Discrete', expected one of discrete, multi_discrete, continuous$"),
        ("action.chunk", 2, r"^spec.action.bins is \[2\] and spec.action.chunk is 2, 4 outputs, but the weights have 2$"),
        ("action.masked", None, "^spec.action.masked is None, expected true or false$"),
        ("action.low", "0", "^spec.action.low is '0', expected a list of numbers$"),
        ("action", ..., "^spec.action is missing, expected a dict$"),
        ("observations", [], r"^spec.observations is \[\], expected a list with a dict for each observation$"),
        ("observations.0", "state", r"^spec.observations\[0\] is 'state', expected a dict like Policy.spec$"),
        ("observations.0.shape", [5], r"^spec.observations\[0\].shape is \[5\], 5 numbers, but the weights take 4$"),
        ("observations.0.shape", 4, r"^spec.observations\[0\].shape is 4, expected a list of whole numbers above 0$"),
        ("observations.0.dtype", "number", r"^spec.observations\[0\].dtype is 'number', expected the name of a dtype of numbers$"),
        ("observations.0.categories", [[0, 3]], r"^spec.observations\[0\].categories has 3 values, expected 4 as its shape \[4\] has$"),
    ],
)
def test_a_spec_that_does_not_fit_the_weights_is_refused_with_its_part_and_both_values(trained, path, value, text):
    spec = changed(troupe.load(trained).spec, path, value)
    with pytest.raises(ValueError, match=text):
        troupe.load(trained, spec=spec)
    for nothing in ({}, [], "spec"):
        with pytest.raises(ValueError, match="^spec"):
            troupe.load(trained, spec=nothing)


@pytest.mark.parametrize(
    ("env", "path", "value", "text"),
    [
        ("Pendulum-v1", "action.low", [-2.0, -2.0], "^spec.action.low has 2 numbers, expected 1 as spec.action.high has$"),
        (
            "Pendulum-v1",
            "action.kind",
            "multi_discrete",
            "^spec.action.kind is 'multi_discrete', but the weights are of continuous actions$",
        ),
        ("TokenReach", "action.chunk", 4, r"^spec.action.chunk is 4, but env.chunk of the run is 8$"),
        (run_envs.Parts, "observations.0.shape", [3], r"^spec.observations\[0\].shape is \[3\], 3 numbers, but its encoder takes 2$"),
        (
            run_envs.Parts,
            "observations.0.name",
            "flags",
            r"^spec.observations has the names \['flags', .*\], but the weights have encoders of",
        ),
        (run_envs.Parts, "action.number_shape", [2], "^spec.action.number_shape has 2 numbers, expected 1 as spec.action.bins has$"),
        (run_envs.Parts, "action.starts", [], "^spec.action.starts has 0 numbers, expected 1 as spec.action.bins has$"),
    ],
)
def test_a_spec_is_compared_with_all_kinds_of_networks_and_actions(env, path, value, text):
    more = {"model__kind": "net"} if env is run_envs.Parts else {"env__chunk": 8} if env == "TokenReach" else {}
    run = troupe.train(SMALL, env=env, stop__updates=1, evaluation__episodes=1, quiet=True, run_dir="run", **more)
    spec = troupe.load(run).spec
    with pytest.raises(ValueError, match=text):
        troupe.load(run, spec=changed(spec, path, value))
    troupe.load(run, spec=spec)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["nothing"], FileNotFoundError, "nothing is not a run folder"),
        ([None, 3], FileNotFoundError, "has no checkpoint 3, it has 2, 4"),
        ([None, "latest"], ValueError, "checkpoint is 'latest', expected"),
        ([None, True], ValueError, "checkpoint is True, expected"),
    ],
)
def test_a_checkpoint_that_is_not_there_is_one_line(trained, arguments, error, text):
    with pytest.raises(error, match=text):
        troupe.load(arguments[0] or trained, *arguments[1:])


@pytest.mark.parametrize("cut", [0, 5, 100, 2000])
def test_a_cut_file_is_refused(trained, cut):
    shutil.copytree(trained, "cut")
    file = Path("cut/checkpoints/000000000004/model.safetensors")
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(ValueError, match="not a safetensors file that can be read"):
        troupe.load("cut")


def test_image_encoders_are_refused_by_name():
    run = troupe.train(
        SMALL, env="GridWorld", env__params__observation="image", model__kind="net", stop__updates=1, evaluation__episodes=1, quiet=True
    )
    with pytest.raises(ValueError, match="the encoder of observation image is 'conv'"):
        troupe.load(run)


@pytest.mark.parametrize(
    ("observations", "text"),
    [
        (np.zeros((2, 5)), r"observation state has shape \[2, 5\], expected \[4\]"),
        ({"place": np.zeros(4)}, "observation state is missing, there are: place"),
        ([0, float("nan"), 0, 0], r"^observation state\[1\] is nan, expected finite numbers$"),
        (np.array([[0, 0, 0, 0], [0, 0, 0, -np.inf]]), r"^observation state\[1, 3\] is -inf, expected finite numbers$"),
        ([0, 0, 1e200, 0], r"^observation state\[2\] is inf, expected finite numbers$"),
        ([0, None, 0, 0], r"^observation state\[1\] is nan, expected finite numbers$"),
        ([0, [1], 0, 0], "^observation state is not an array of numbers$"),
        (list("abcd"), "^observation state is not an array of numbers$"),
        (np.ma.masked_array(np.zeros((2, 4)), mask=np.eye(2, 4)), "^observation state is a masked array, expected one without a mask"),
        ([0, np.ma.masked, 0, 0], "^observation state is a masked array"),
        (np.zeros((0, 5)), r"^observation state has shape \[0, 5\], expected \[4\] or \[B\] times it$"),
    ],
)
def test_observations_that_do_not_fit_are_refused(trained, observations, text):
    with pytest.raises(ValueError, match=text):
        troupe.load(trained).predict(observations)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("name", ["discrete", "continuous", "lstm", "embedding", "masked", "chunks"])
def test_a_batch_of_no_rows_gives_empty_results(name, deterministic):
    of, model = ("TokenReach", {}) if name == "chunks" else CASES[name]
    settings = {"evaluation.episodes": 1, "stop.updates": 1, "env.rows": 4}
    env = getattr(run_envs, of, of)
    policy = troupe.load(troupe.train(SMALL | {"model": model}, env=env, run_dir="run", quiet=True, **settings))
    shapes = {each["name"]: (*each["shape"],) for each in policy.spec["observations"]}
    rows = [{key: np.zeros((count, *shape)) for key, shape in shapes.items()} for count in (0, 2)]
    mask = [np.ones((count, sum(policy.spec["action"]["bins"]))) for count in (0, 2)]
    none, some = (policy.predict(rows[i], deterministic=deterministic, action_mask=mask[i]) for i in (0, 1))
    assert none[0].shape == (0, *some[0].shape[1:]) and none[0].dtype == some[0].dtype
    assert (none[1] is None and some[1] is None) or none[1].shape == (0, policy.state_size)
    assert [each.shape for each in policy.forward(rows[0])] == [(0, *each.shape[1:]) for each in policy.forward(rows[1])]


def test_actions_are_drawn_with_a_generator_or_a_seed(trained):
    policy, batch = troupe.load(trained), np.zeros((100, 4))
    for seed in (0, 42, np.int64(7)):
        drawn = policy.predict(batch, deterministic=False, rng=seed)[0]
        np.testing.assert_array_equal(drawn, policy.predict(batch, deterministic=False, rng=seed)[0])
        np.testing.assert_array_equal(drawn, policy.predict(batch, deterministic=False, rng=np.random.default_rng(seed))[0])
        assert 0 < drawn.sum() < 100
    for wrong in ("seed", -1, 0.5):
        with pytest.raises(ValueError, match=f"^rng is {wrong!r}, expected a numpy.random.Generator or a seed$"):
            policy.predict(batch, deterministic=False, rng=wrong)


def test_masks_of_actions_that_do_not_fit_are_refused():
    run = troupe.train(SMALL, env="GridWorld", stop__updates=1, evaluation__episodes=1, quiet=True)
    policy = troupe.load(run)
    with pytest.raises(ValueError, match=r"^action_mask has shape \[4\], expected \[2, 4\]$"):
        policy.predict(np.zeros((2, 64)), action_mask=np.ones(4))
    with pytest.raises(ValueError, match="^action_mask is a masked array"):
        policy.predict(np.zeros(64), action_mask=np.ma.masked_array(np.ones(4), mask=[1, 0, 0, 0]))


def test_a_state_that_is_not_finite_is_refused():
    settings = {"model__kind": "net", "model__net__core": {"kind": "gru", "size": 4}}
    run = troupe.train(SMALL, env="CartPole-v1", stop__updates=1, evaluation__episodes=1, quiet=True, **settings)
    with pytest.raises(ValueError, match=r"^state\[2\] is nan, expected finite numbers$"):
        troupe.load(run).predict(np.zeros(4), state=[0, 0, float("nan"), 0])
    with pytest.raises(ValueError, match="^state is a masked array"):
        troupe.load(run).predict(np.zeros(4), state=np.ma.masked_array(np.zeros(4), mask=[1, 0, 0, 0]))
    assert troupe.load(run).predict(np.zeros(4), state=np.zeros(4))[1].shape == (4,)


def test_chunks_and_several_bins_have_the_shape_of_the_environment():
    run = troupe.train(SMALL, env="TokenReach", stop__updates=1, evaluation__episodes=8, quiet=True)
    policy, env = troupe.load(run), troupe.make_env("TokenReach")
    observation, _ = env.reset(seed=0)
    action, _ = policy.predict(observation)
    assert action.shape == (8, 2) and action in env.action_space
