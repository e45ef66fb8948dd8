"""troupe.make_env and troupe.make_vec against Gymnasium: its checker, its dynamics, its speed."""

import time
import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from gymnasium.vector import AutoresetMode  # noqa: E402

import troupe  # noqa: E402

IDS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "TokenReach", "Corridor"]


@pytest.mark.parametrize("env_id", IDS)
def test_make_env_passes_the_checker_of_gymnasium(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that spaces have no bounds, and that there is no spec
        check_env(troupe.make_env(env_id))


def test_an_episode_is_that_of_gymnasium():
    ours, theirs = troupe.make_env("CartPole-v1"), gymnasium.make("CartPole-v1").unwrapped
    observation, _ = ours.reset(seed=5)
    theirs.reset(seed=5)
    theirs.state = tuple(observation.astype(np.float64))
    for step in range(500):
        action = int(observation[2] + observation[3] > 0) if step < 30 else 0
        observation, reward, terminated, truncated, _ = ours.step(action)
        expected, expected_reward, expected_end, _, _ = theirs.step(action)
        np.testing.assert_allclose(observation, expected, atol=1e-4)
        assert (reward, terminated, truncated) == (expected_reward, expected_end, False)
        if terminated:
            break
    assert 30 < step < 100
    with pytest.raises(RuntimeError, match="reset"):
        ours.step(0)


def test_rows_are_reset_in_the_same_step_and_tell_their_last_observation():
    vector = troupe.make_vec("CartPole-v1", 3)
    assert isinstance(vector, gymnasium.vector.VectorEnv) and vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    before, _ = vector.reset(seed=1)
    kept = before.copy()
    finished = 0
    for _ in range(60):
        observations, rewards, terminated, truncated, infos = vector.step(np.array([1, 0, 1]))
        assert observations in vector.observation_space and rewards.tolist() == [1, 1, 1]
        assert ("final_obs" in infos) == bool(terminated.any()) and not truncated.any()
        for row in np.flatnonzero(terminated):
            assert infos["_final_obs"][row]
            assert abs(infos["final_obs"][row][2]) > 0.2095 and np.abs(observations[row]).max() <= 0.05
            finished += 1
    assert finished >= 9
    np.testing.assert_array_equal(before, kept)  # results are copies


def test_seeds_repeat_and_rows_differ():
    vector = troupe.make_vec("Pendulum-v1", 4)
    first, second, other = (vector.reset(seed=seed)[0] for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, second)
    assert len({tuple(row) for row in np.concatenate([first, other])}) == 8
    vector.reset(seed=7)
    assert not np.array_equal(vector.reset()[0], first)
    np.testing.assert_array_equal(troupe.make_vec("Pendulum-v1", 2).reset(seed=7)[0], first[:2])


def test_masks_are_part_of_the_observations_and_success_is_reported():
    vector = troupe.make_vec("GridWorld", 16, size=5)
    observations, _ = vector.reset(seed=0)
    generator = np.random.default_rng(0)
    successes = 0
    for _ in range(300):
        assert observations in vector.observation_space
        actions = [generator.choice(np.flatnonzero(mask)) for mask in observations["action_mask"]]
        observations, _, _, _, infos = vector.step(np.array(actions))
        successes += int(infos.get("is_success", np.zeros(1)).sum())
    assert successes > 0
    row, forbidden = np.argwhere(observations["action_mask"] == 0)[0]
    actions[row] = forbidden
    with pytest.raises(RuntimeError, match="mask"):
        vector.step(np.array(actions))


def test_wrappers_of_gymnasium_accept_it():
    vector = gymnasium.wrappers.vector.RecordEpisodeStatistics(troupe.make_vec("CartPole-v1", 2))
    vector.reset(seed=0)
    lengths = []
    for _ in range(50):
        *_, infos = vector.step(np.ones(2, int))
        lengths += infos["episode"]["l"][infos["_episode"]].tolist() if "episode" in infos else []
    assert lengths and all(8 <= length <= 11 for length in lengths)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: troupe.make_env("CartPole-v7"), ValueError, 'did you mean "CartPole-v1"'),
        (lambda: troupe.make_env("gym:CartPole-v1"), ValueError, "use gymnasium.make"),
        (lambda: troupe.make_env("CartPole-v1", speed=3), ValueError, "speed"),
        (lambda: troupe.make_env("CartPole-v1", render_mode="human"), ValueError, "expected None or 'ansi'"),
        (lambda: troupe.make_vec("CartPole-v1", 0), ValueError, "num_envs is 0, expected"),
        (lambda: troupe.make_vec("CartPole-v1", 2).step([0, 1]), RuntimeError, "expected a call of reset"),
        (lambda: troupe.make_vec("CartPole-v1", 2).reset(seed=-1), ValueError, "seed is -1"),
        (lambda: begun(2).step([0, 1, 1]), ValueError, r"shape \[3\], expected \[2, 1, 1\]"),
        (lambda: begun(2).step([0.0, 1.0]), ValueError, "float64, expected integers"),
        (lambda: begun(2).step([0, 2]), RuntimeError, "2"),
    ],
)
def test_mistakes_are_one_line(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "\n" not in str(caught.value)


def begun(rows):
    vector = troupe.make_vec("CartPole-v1", rows)
    vector.reset(seed=0)
    return vector


def test_1024_rows_are_much_faster_than_gymnasiums():
    rows = 1024
    ours, theirs = troupe.make_vec("CartPole-v1", rows), gymnasium.make_vec("CartPole-v1", rows, vectorization_mode="sync")
    seconds = []
    for vector, steps in ((ours, 200), (theirs, 10)):
        vector.reset(seed=0)
        actions = np.arange(rows) % 2
        vector.step(actions)
        begin = time.process_time()
        for _ in range(steps):
            vector.step(actions)
        seconds.append((time.process_time() - begin) / steps)
    print(f"user time of a step of {rows} rows: {seconds[0] * 1e6:.0f} us, SyncVectorEnv {seconds[1] * 1e6:.0f} us")
    assert seconds[1] / seconds[0] > 20
