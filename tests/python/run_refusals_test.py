"""What troupe.train refuses, and the words of its messages."""

import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

import run_envs  # noqa: E402
from run_support import SMALL, TOKENS, Record  # noqa: E402

import troupe  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_a_folder")


@pytest.mark.parametrize(("name", "strange"), [("two\nlines", r"control character \\x0a"), ("tab\there", r"control character \\x09")])
def test_a_folder_whose_name_cannot_be_used_is_refused_with_the_character(tmp_path, name, strange):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "maze.py").write_text("import missing")
    with pytest.raises(troupe.RunError, match=strange):
        troupe.train(SMALL, env=f"py:{folder / 'maze.py'}:Maze", run_dir="run", quiet=True)
    assert not Path("run").exists()


def test_a_class_in_a_folder_that_is_not_utf_8_or_has_a_colon_is_refused(tmp_path, monkeypatch):
    colon = tmp_path / "a:b"
    (colon / "package").mkdir(parents=True)
    (colon / "package" / "__init__.py").write_text("")
    (colon / "package" / "maze.py").write_text("class Maze:\n    pass\n")
    monkeypatch.syspath_prepend(str(colon))
    from package.maze import Maze

    with pytest.raises(ValueError, match="a:b has a ':'"):
        troupe.train(SMALL, env=Maze, run_dir="run", quiet=True)
    with pytest.raises(ValueError, match=r"'\\udce9' is not UTF-8"):
        troupe.train(SMALL, env="py:caf\udce9/maze.py:Maze", run_dir="run", quiet=True)


def test_messages_do_not_name_the_temporary_config(tmp_path, capfd):
    wrong = [
        (SMALL | {"trainer": {"epochs": 0}}, {}, "trainer.epochs: 0 is out of range"),
        (
            SMALL | {"env": {"id": "GridWorld", "params": {"size": 5}}},
            {"env": "CartPole-v1"},
            "config with the arguments: env.params.size: ",
        ),
        (SMALL | {"name": "a/b"}, {}, 'name: "a/b" is not allowed'),
    ]
    for config, arguments, text in wrong:
        with pytest.raises(troupe.RunError) as caught:
            troupe.train(config, run_dir="wrong", **arguments)
        assert str(caught.value).startswith(text)

    class Stop:
        def on_report(self, run, report):
            run.stop()

    run = troupe.train(SMALL, env="CartPole-v1", run_dir="a run", callbacks=Stop(), stop__env_steps=10**9)
    assert run.exit_code == 130 and run.config["name"] == "a run"
    output = "".join(capfd.readouterr())
    assert "To resume: call troupe.train with the same arguments, or `troupe train 'a run'`\n" in output
    assert "/troupe-" not in output and "config.json" not in output
    assert "/troupe-" not in Path("a run/log.txt").read_text()


def test_an_empty_run_dir_is_refused():
    with pytest.raises(troupe.RunError, match="^run_dir: is empty, expected a folder$"):
        troupe.train(SMALL, env="CartPole-v1", run_dir="")


def test_a_refusal_names_arguments_in_place_of_flags(capfd):
    run = troupe.train(SMALL, env="CartPole-v1", run_dir="run", stop__updates=1)
    with pytest.raises(troupe.RunError, match="to begin a new run, give another folder with run_dir") as caught:
        troupe.train(SMALL, env="CartPole-v1", run_dir="run", algorithm__gamma=0.5)
    assert "--run" not in str(caught.value) and "--set" not in str(caught.value)
    troupe.train(run)
    assert "to train further, raise the limit, like stop__updates=2\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"config": 3}, TypeError, "config is int, expected a dict"),
        ({"config": {"env": {"x": {1}}}}, ValueError, "a set is not a value of JSON"),
        ({"config": {}, "seed": float("nan")}, ValueError, "^seed: nan is not a number that a setting can have, expected a finite number$"),
        ({"trainer__policy_lr": np.float32("inf")}, ValueError, "^trainer.policy_lr: inf is not"),
        (
            {"config": {"env": {"params": {"size": [1, np.array([2.0, np.nan])]}}}},
            ValueError,
            r"^config.env.params.size\[1\]\[1\]: nan is not",
        ),
        ({"env": 5}, TypeError, "env is int, expected an id"),
        ({"env": "CartPole-v1", "callbacks": [print]}, TypeError, "has none of the methods on_report"),
        ({"env": "CartPole-v1", "callbacks": Record}, TypeError, "expected an object"),
        ({"env": lambda lock=threading.Lock(): lock}, ValueError, "cannot be pickled: TypeError"),
        ({"config": TOKENS, "reward": 5}, TypeError, "^reward is int, expected a function that scores answers"),
        ({"config": TOKENS, "reward": Record}, TypeError, "^reward is the class Record, expected a function"),
        ({"config": TOKENS, "reply": 5}, TypeError, "^reply is int, expected a function that replies to answers"),
        ({"config": TOKENS, "reply": Record}, TypeError, "^reply is the class Record, expected a function"),
        ({"config": TOKENS, "reply": lambda answers: []}, troupe.RunError, "^task.reply: .* has no effect with task.turns 1"),
        ({"config": TOKENS, "reward": lambda a, b: [0]}, troupe.RunError, "^task.verifier: .* fit none of the forms"),
        ({"env": "CartPole-v1", "reward": "py:a:b"}, troupe.RunError, "^task.verifier: .* has no effect with model.kind"),
        ({"env": "CartPole-v9"}, troupe.RunError, "CartPole-v1"),
        ({"env": "CartPole-v1", "trainer__epoch": 3}, troupe.RunError, "^trainer.epoch: .*did you mean trainer.epochs"),
        ({"env": "CartPole-v1", "stop_env_steps": 9}, troupe.RunError, "^stop_env_steps: unknown key, did you mean stop__env_steps[?]$"),
        (
            {"env": "CartPole-v1", "env_params_size": 9},
            troupe.RunError,
            "^env_params_size: unknown key, did you mean env__params__size[?]$",
        ),
        ({"env": "CartPole-v1", "seed": None}, troupe.RunError, "^seed: null is not"),
        ({"env": "CartPole-v1", "run_dir": f"{__file__}"}, troupe.RunError, "^run_dir: .* is not a folder"),
        ({"config": {"trainer": {"epochs": -1}}}, troupe.RunError, "trainer.epochs"),
        ({"config": "nothing_like_it"}, troupe.RunError, "nothing_like_it"),
        ({"env": lambda: 1 / 0}, troupe.RunError, "ZeroDivisionError"),
        ({"env": "py:no_such_module:make"}, troupe.RunError, "no_such_module"),
        ({}, troupe.RunError, "^train: config or env is required"),
        ({"config": None, "env": None, "run_dir": None}, troupe.RunError, "^train: config or env is required"),
    ],
)
def test_a_mistake_is_one_line_and_starts_nothing(arguments, error, text):
    with pytest.raises(error, match=text) as caught:
        troupe.train(**{"stop__updates": 1, "run_dir": "wrong", "quiet": True} | arguments)
    assert "\n" not in str(caught.value) and not Path("wrong").exists()
    assert not Path("wrong.env.py").exists() and not Path("wrong.reward.py").exists()
    assert not Path("wrong.reply.py").exists()
    if error is troupe.RunError:
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("wrong", [{"trainer__epochs": 0}, {"config": {"trainer": object()}}])
def test_a_refused_call_leaves_the_file_of_the_environment_as_it_was(wrong):
    with pytest.raises((troupe.RunError, ValueError)):
        troupe.train(env=lambda: run_envs.Levels(), run_dir="some/folder/run", quiet=True, **wrong)
    assert not Path("some").exists()
    Path("run.env.py").write_text("of another call")
    with pytest.raises((troupe.RunError, ValueError)):
        troupe.train(env=lambda: run_envs.Levels(), run_dir="run", quiet=True, **wrong)
    assert Path("run.env.py").read_text() == "of another call"


def test_arguments_that_are_none_are_as_not_given():
    none = dict.fromkeys(("callbacks", "run_dir", "blocking", "quiet"))
    run = troupe.train(SMALL, env="CartPole-v1", stop__updates=1, algorithm__clip_low=None, **none)
    assert run.exit_code == 0 and run.folder == Path("runs/CartPole-v1")
    policy = troupe.load(run, checkpoint=None, spec=None)
    place = np.zeros(4, np.float32)
    nothing = dict.fromkeys(("state", "deterministic", "action_mask", "rng"))
    assert policy.predict(place, **nothing) == policy.predict(place)
    with pytest.raises(TypeError, match="^run is None, expected a troupe.Run or the path of a run folder$"):
        troupe.load(None)


def test_a_missing_program_is_one_line(monkeypatch):
    monkeypatch.delenv("TROUPE_PROGRAM")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(troupe.RunError, match="set TROUPE_PROGRAM to its path"):
        troupe.train(env="CartPole-v1")
    monkeypatch.setenv("TROUPE_PROGRAM", "/nonexistent/troupe")
    with pytest.raises(troupe.RunError, match="TROUPE_PROGRAM is '/nonexistent/troupe'"):
        troupe.train(env="CartPole-v1")
    assert not Path("runs").exists()
