"""troupe.train against the real program: whole runs, callbacks, and everything that may end a run early."""

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

import run_envs  # noqa: E402
from run_support import SMALL, use_built_program  # noqa: E402

import troupe  # noqa: E402

HERE = Path(__file__).resolve().parent
TOKENS = {
    "task": {"params": {"digits": 2}},
    "model": {
        "kind": "decoder",
        "decoder": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 32},
    },
    "algorithm": {"advantage": "rloo"},
    "generation": {"answers": 4},
    "workers": {"groups": 4},
    "trainer": {"super_batch": 32, "minibatches": 1, "epochs": 1},
    "evaluation": {"every_updates": 2, "episodes": 8},
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    use_built_program(monkeypatch)
    monkeypatch.chdir(tmp_path)


class Record:
    """Notes the calls of its methods."""

    def __init__(self):
        self.calls, self.reports, self.threads = [], [], set()

    def note(self, name, value=None):
        self.calls.append((name, value))
        self.threads.add(threading.current_thread())

    def on_report(self, run, report):
        self.reports.append(report)
        self.note("report")

    def on_evaluation(self, run, evaluation):
        self.note("evaluation", evaluation["return_mean"])

    def on_checkpoint(self, run, path):
        assert (path / "model.safetensors").is_file() or not path.exists()
        self.note("checkpoint", int(path.name))

    def on_end(self, run):
        self.note("end", run.exit_code)

    def of(self, name):
        return [value for each, value in self.calls if each == name]


def checkpoints(folder):
    return sorted(int(path.name) for path in (Path(folder) / "checkpoints").iterdir())


def test_a_class_of_a_module_is_trained_and_reported():
    record = Record()
    run = troupe.train(SMALL, env=run_envs.Pole, callbacks=record, stop__env_steps=60_000, seed=3, quiet=True)
    assert run.folder == Path("runs/Pole") and run.exit_code == 0 and not run.running
    assert run.config["env"]["id"] == f"py:{HERE / 'run_envs.py'}:Pole" and run.config["seed"] == 3
    assert not Path("runs/Pole.env.py").exists()
    assert run.summary["reason"] == "stop.env_steps reached"
    assert run.summary["eval"]["return_mean"] > 100  # 22 without training
    assert record.of("evaluation") == [run.summary["eval"]["return_mean"]]
    assert record.of("checkpoint")[-1] == run.summary["updates"] == checkpoints(run.folder)[-1]
    assert record.reports[-1]["env_steps"] == run.summary["env_steps"] and record.reports[-1]["training_ended"]
    assert record.calls[-1] == ("end", 0) and record.of("end") == [0]
    assert record.threads == {threading.current_thread()}


@pytest.mark.parametrize("name", ["two words", "caf\u00e9", "a+b=c", "x,y;z", "-dash", "it's"])
def test_a_class_is_trained_from_a_folder_of_any_name(tmp_path, monkeypatch, name):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "maze of.py").write_text("from run_envs import Pole\n\n\nclass Maze(Pole):\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    run = troupe.train(SMALL, env=f"py:{folder / 'maze of.py'}:Maze", run_dir=folder / "run", stop__env_steps=1024, quiet=True)
    assert run.exit_code == 0 and run.config["env"]["id"].startswith(f"py:{folder}")
    assert troupe.load(folder / "run").predict([0, 0, 0, 0])[0] in (0, 1)
    run = troupe.train(run.folder, stop__env_steps=2048, quiet=True)
    assert run.exit_code == 0 and run.summary["env_steps"] >= 2048


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


def test_each_start_of_a_run_plays_other_episodes():
    starts, levels = [], Path("levels.txt")
    for updates in (2, 4, 6):
        troupe.train(SMALL, env=run_envs.Levels, run_dir="run", stop__updates=updates, evaluation__episodes=1, quiet=True)
        starts.append(levels.read_text().split())
        levels.unlink()
    assert all(len(start) > 20 for start in starts)
    # What is drawn before training and by the evaluation is the same in each start.
    played = [set(start) for start in starts]
    assert len(played[0] & played[1]) <= 3 and len(played[1] & played[2]) <= 3


def test_bounds_of_actions_that_the_first_policy_cannot_reach_are_named():
    for normalize in (False, True):
        run = troupe.train(
            SMALL, env=run_envs.Throttle, run_dir=f"run{normalize}", env__normalize_actions=normalize, stop__updates=1, quiet=True
        )
        log = (run.folder / "log.txt").read_text()
        assert ("component 0 of the actions of" in log and "set env.normalize_actions to true" in log) == (not normalize)


def test_history_has_a_row_for_each_point_with_flat_keys():
    run = troupe.train(SMALL, env="CartPole-v1", stop__updates=3, quiet=True)
    history = run.history()
    points = history if isinstance(history, list) else history.to_dict("records")
    assert [point["updates"] for point in points][-1] == 3
    assert points[-1]["learner.kl"] > 0 and points[-1]["ledger.produced"] == run.summary["ledger"]["produced"]


def test_history_is_in_the_order_of_the_run(tmp_path):
    run = object.__new__(troupe.Run)
    run.folder = tmp_path
    lines = [(10, 1), (30, 3), (20, 2), (30, 2), (None, 0)]
    text = "".join(json.dumps({"env_steps": steps, "updates": updates, "eval": {"updates": updates}}) + "\n" for steps, updates in lines)
    (tmp_path / "metrics.jsonl").write_text(text)
    history = run.history()
    points = history if isinstance(history, list) else history.to_dict("records")
    assert [point["updates"] for point in points] == [0, 1, 2, 2, 3]


def test_each_evaluation_is_told_once():
    record = Record()
    run = object.__new__(troupe.Run)
    run._callbacks, run._evaluated, run._failed, run._error = [record], None, None, None
    first = {"updates": 20, "env_steps": 100, "episodes": 10, "failed_episodes": 0, "return_mean": 1.5, "success_rate": 0.5}
    run._tell_evaluation(None)
    for evaluation in (first, dict(first), {**first, "pass_at_1": 0.5}):  # summary.json has pass_at_1, reports do not
        run._tell_evaluation(evaluation)
    run._tell_evaluation({**first, "updates": 40})
    assert record.of("evaluation") == [1.5, 1.5]


def synthetic(failing):
    """Settings of runs whose evaluations all fail, or none."""
    of_evaluations = {"exception_probability": 1} if failing else {}
    env = {"id": "Synthetic", "params": {"image_height": 4, "image_width": 4, "episode_length": 10}}
    return {**SMALL, "env": env, "evaluation": {"episodes": 2, "rows": 2, "every_updates": 2, "env_params": of_evaluations}}


def test_evaluations_that_fail_are_told_with_their_error_and_not_again_when_the_run_is_resumed():
    told = []

    class StopsAfterOne:
        def on_evaluation(self, run, evaluation):
            told.append(evaluation)
            run.stop()

    class Notes:
        def on_evaluation(self, run, evaluation):
            told.append(evaluation)

    run = troupe.train(synthetic(True), run_dir="failing", callbacks=StopsAfterOne(), stop__updates=10**6, stop__env_steps=0, quiet=True)
    assert run.exit_code == 130 and run.summary["eval"] is None and told
    for evaluation in told:
        assert evaluation["error"].startswith("the environment failed 8 times")
        assert evaluation["episodes"] == 0 and evaluation["failed_episodes"] == 2 and evaluation["updates"] % 2 == 0
        assert np.isnan(evaluation["return_mean"]) and f"{evaluation['return_mean']:.1f} {evaluation['success_rate']:.0%}"
    failed = run.summary["failed_evaluations"]
    assert failed["count"] >= len(told) and failed["updates"] == told[-1]["updates"] and failed["error"] == told[-1]["error"]
    lines = [json.loads(line) for line in Path("failing/metrics.jsonl").read_text().splitlines()]
    assert lines[0]["failed_evaluations"]["count"] == 0 and lines[-1]["failed_evaluations"] == failed
    told.clear()
    more = run.summary["updates"] + 4
    run = troupe.train(synthetic(False), run_dir="failing", callbacks=Notes(), stop__updates=more, stop__env_steps=0, quiet=True)
    assert told and all(evaluation["error"] is None for evaluation in told)
    assert run.exit_code == 0 and run.summary["failed_evaluations"] == failed


def test_the_error_of_a_failed_last_evaluation_has_the_finished_run():
    with pytest.raises(troupe.RunError, match="^the last evaluation failed: the environment failed 8 times") as caught:
        troupe.train(synthetic(True), run_dir="failing", stop__updates=2, stop__env_steps=0, quiet=True)
    run = caught.value.run
    assert run.folder == Path("failing") and run.exit_code == caught.value.exit_code == 1 and not run.running
    assert run.summary["updates"] == 2 and checkpoints(run.folder) == [2]
    with pytest.raises(troupe.RunError, match="CartPole-v1") as caught:
        troupe.train(env="CartPole-v9", blocking=False).wait()
    assert caught.value.run.exit_code == 2 and caught.value.run.summary is None


def test_a_failed_last_evaluation_of_the_summary_is_told_unless_a_report_has_told_of_it():
    record = Record()
    run = object.__new__(troupe.Run)
    run._callbacks, run._evaluated, run._failed, run._error = [record], None, None, None
    run._call = lambda name, value: record.note(name, (value.get("updates"), value.get("error")))
    run._tell_checkpoints = lambda: None
    last = {"updates": 40, "episodes": 3, "failed_episodes": 0, "return_mean": 1.0, "error": "no time"}
    report = {"count": 2, "updates": 40, "env_steps": 9, "episodes": 3, "failed_episodes": 0, "error": "no time"}
    run._report({"eval": None, "failed_evaluations": {"count": 2, "updates": None, "error": None}})  # those of earlier starts
    run._report({"eval": None, "failed_evaluations": {**report, "count": 1}})
    run._report({"eval": None, "failed_evaluations": report})  # evaluated again at the end of the run
    run._report({"eval": None, "failed_evaluations": dict(report)})
    run._tell_evaluation(last)
    assert record.of("on_evaluation") == [(40, "no time"), (40, "no time")]
    run._tell_evaluation({**last, "updates": 60})  # a run without a statistics port
    assert record.of("on_evaluation")[2:] == [(60, "no time")]


def test_a_closure_with_a_mask_is_sent_and_learns():
    limit = 300

    def make():
        env = run_envs.MaskedPole()
        env.limit = limit
        return env

    run = troupe.train(SMALL, env=make, run_dir="masked", stop__env_steps=40_000, quiet=True)
    assert run.summary["eval"]["return_mean"] > 60 and run.summary["env_failures"] == {}
    assert Path("masked.env.py").is_file() and run.config["env"]["id"] == f"py:{Path('masked.env.py').resolve()}:make"


def test_a_reward_function_of_a_script_scores_the_answers():
    base = 3

    def reward(completions, **columns):
        return [base + text.endswith("1") for text in completions]

    for updates in (2, 4):  # a new run, and the same one resumed
        run = troupe.train(TOKENS, reward=reward, run_dir="rewarded", stop__updates=updates, quiet=True)
        assert run.exit_code == 0 and run.summary["updates"] == updates
        assert 3 <= run.summary["eval"]["return_mean"] <= 4 and run.summary["eval"]["failed_episodes"] == 0
    assert run.config["task"]["verifier"] == f"py:{Path('rewarded.reward.py').resolve()}:make"
    assert run.config["task"]["python"] == sys.executable


def test_a_reward_of_a_module_is_imported_from_its_file():
    run = troupe.train(TOKENS, reward=run_envs.half, run_dir="half", stop__updates=2, quiet=True)
    assert run.summary["eval"]["return_mean"] == 0.5
    assert run.config["task"]["verifier"] == f"py:{HERE / 'run_envs.py'}:half" and not Path("half.reward.py").exists()


def test_a_reply_function_of_a_script_gives_the_messages_between_turns():
    asked = "77"

    def reply(answers):
        assert all(answer["prompt"] and answer["turns"] == [] for answer in answers)  # there are two turns, so one message
        return [None if answer["answer"].strip() == answer["truth"] else asked for answer in answers]

    settings = {"task__turns": 2, "task__message_tokens": 2, "quiet": True}
    for updates in (2, 4):  # a new run, and the same one resumed
        run = troupe.train(TOKENS, reply=reply, run_dir="replied", stop__updates=updates, **settings)
        assert run.exit_code == 0 and run.summary["updates"] == updates
    answers = [json.loads(line) for line in Path("replied/answers.jsonl").read_text().splitlines()]
    assert {turn["message"] for answer in answers for turn in answer.get("turns", [])} == {asked}
    assert run.config["task"]["reply"] == f"py:{Path('replied.reply.py').resolve()}:make"
    assert run.config["task"]["python"] == sys.executable


def test_a_reward_and_a_reply_of_a_module_are_imported_from_their_file():
    functions = {"reward": run_envs.half, "reply": run_envs.hint}
    run = troupe.train(TOKENS, run_dir="both", task__turns=2, task__message_tokens=6, stop__updates=2, quiet=True, **functions)
    assert run.summary["eval"]["return_mean"] == 0.5
    assert run.config["task"]["verifier"] == f"py:{HERE / 'run_envs.py'}:half"
    assert run.config["task"]["reply"] == f"py:{HERE / 'run_envs.py'}:hint" and not Path("both.reply.py").exists()


def test_the_same_call_resumes_the_run():
    first = troupe.train(SMALL, env=lambda: run_envs.Pole(), run_dir="again", stop__updates=2, quiet=True)
    second = troupe.train(SMALL, env=lambda: run_envs.Pole(), run_dir="again", stop__updates=5, quiet=True)
    assert (first.exit_code, second.summary["updates"], second.summary["starts"]) == (0, 5, 2)
    finished = troupe.train(SMALL, env=lambda: run_envs.Pole(), run_dir="again", stop__updates=5, quiet=True)
    assert finished.summary["starts"] == 2


def test_a_finished_run_is_returned_whole():
    first = troupe.train(SMALL, env="CartPole-v1", stop__updates=2, quiet=True)
    for again in (troupe.train(first, quiet=True), troupe.train(first.folder, quiet=True), troupe.train(f"{first.folder}/config.json")):
        assert again.exit_code == 0 and again.folder == first.folder
        assert again.summary == first.summary and again.config == first.config
        assert len(again.history()) == len(first.history()) > 0
    Path("mine.json").write_text(json.dumps(SMALL | {"stop": {"updates": 2}}))
    first = troupe.train("mine.json", quiet=True)
    assert first.folder == Path("runs/mine")
    again = troupe.train("mine.json", quiet=True)
    assert again.folder == first.folder and again.summary == first.summary
    longer = troupe.train(first, stop__updates=3, quiet=True)
    assert longer.folder == first.folder and longer.summary["updates"] == 3


def put_in_path(monkeypatch, folder):
    """Puts a python3 without any package first into PATH."""
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\necho this python3 has nothing >&2\nexit 1\n")
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_environments_run_in_the_interpreter_of_the_program(tmp_path, monkeypatch):
    put_in_path(monkeypatch, tmp_path / "bare")
    settings = {"env": {"id": f"py:{HERE / 'run_envs.py'}:Pole"}, "stop": {"updates": 1}}
    Path("mine.json").write_text(json.dumps(SMALL | settings))
    Path("mine.yaml").write_text(json.dumps(SMALL | settings))  # JSON is YAML
    for number, config in enumerate(["mine.json", "mine.yaml", SMALL | settings]):
        run = troupe.train(config, run_dir=f"run{number}", quiet=True)
        assert run.config["env"]["python"] == sys.executable and run.summary["env_failures"] == {}
    settings["env"]["python"] = "python3"
    Path("own.json").write_text(json.dumps(SMALL | settings))
    for config in ["own.json", SMALL | settings]:
        with pytest.raises(troupe.RunError, match="this python3 has nothing"):
            troupe.train(config, run_dir="own", quiet=True)
    assert troupe.train(SMALL, env="CartPole-v1", stop__updates=1, quiet=True).config["env"]["python"] == "python3"


@pytest.mark.parametrize("env", ["zoo:no_such_module", "envpool:NoSuchThing-v9", "gym:NoSuchThing-v9"])
def test_every_scheme_of_python_uses_that_interpreter(tmp_path, monkeypatch, env):
    put_in_path(monkeypatch, tmp_path / "bare")
    with pytest.raises(troupe.RunError) as caught:
        troupe.train(SMALL, env=env, run_dir="run", quiet=True)
    assert "this python3 has nothing" not in str(caught.value)


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


class Stop:
    def on_report(self, run, report):
        run.stop()


def test_the_printed_command_resumes_a_run_that_was_given_a_class(tmp_path, monkeypatch, capfd):
    put_in_path(monkeypatch, tmp_path / "bare")
    (tmp_path / "modules" / "mine").mkdir(parents=True)
    (tmp_path / "modules" / "mine" / "__init__.py").write_text("")
    (tmp_path / "modules" / "mine" / "pole.py").write_text("import run_envs\n\n\nclass Pole(run_envs.Pole):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    from mine.pole import Pole

    Path("x.json").write_text(json.dumps(SMALL))
    for env in (run_envs.Pole, Pole):
        run = troupe.train("x.json", env=env, run_dir=f"a {env.__module__}", callbacks=Stop(), stop__env_steps=10**9)
        [line] = [line for line in capfd.readouterr().out.splitlines() if line.startswith("To resume: ")]
        command = line.split("`")[1].replace("PYTHONPATH=", f"PYTHONPATH={HERE}:")
        program = Path(os.environ["TROUPE_PROGRAM"])
        words = (
            f"{command.replace('troupe train', f'{program} train')} --set stop.env_steps=0 --set stop.updates={run.summary['updates'] + 2}"
        )
        done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads((run.folder / "summary.json").read_text())["starts"] == 2


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


def test_what_a_slow_callback_has_not_taken_is_limited():
    from troupe._run import _Events

    events = _Events()
    for number in range(5000):
        events.put("line", str(number))
        failed = {"count": (number + 50) // 200}
        events.put("report", {"updates": number, "eval": {"updates": number // 100}, "failed_evaluations": failed})
    events.put("end", 0)
    taken = []
    while not taken or taken[-1][0] != "end":
        taken.append(events.get())
    lines = [value for kind, value in taken if kind == "line"]
    reports = [value for kind, value in taken if kind == "report"]
    assert lines == ["(4000 lines before this one were dropped, because a callback took so long)", *map(str, range(4000, 5000))]
    assert len(reports) == _Events.MOST_REPORTS and reports[-1]["updates"] == 4999
    assert sorted({report["eval"]["updates"] for report in reports}) == list(range(50))
    assert sorted({report["failed_evaluations"]["count"] for report in reports}) == list(range(26))
    assert [report["updates"] for report in reports] == sorted(report["updates"] for report in reports)


def test_a_run_in_the_background_is_stopped_with_a_checkpoint():
    trained = threading.Event()

    class Watch:
        def on_report(self, run, report):
            if report["updates"] > 0:
                trained.set()

    run = troupe.train(SMALL, env="CartPole-v1", callbacks=[Watch()], blocking=False, stop__env_steps=10**9, quiet=True)
    assert trained.wait(30) and run.running and run.summary is None
    run.stop()
    run.stop()
    assert run.wait() is run and run.wait() is run and run.exit_code == 130
    assert checkpoints(run.folder)[-1] == run.summary["updates"] > 0


@pytest.mark.parametrize("name", ["on_report", "on_checkpoint", "on_end"])
def test_a_callback_that_raises_stops_the_run(name):
    failing = type("Failing", (), {name: lambda self, *arguments: {}["no such key"]})()
    record = Record()
    settings = {"stop.env_steps": 10**9 if name != "on_end" else 3000, "checkpoint.every_updates": 2}
    with pytest.raises(KeyError, match="no such key"):
        troupe.train(SMALL, env="CartPole-v1", callbacks=[failing, record], run_dir="failing", quiet=True, **settings)
    assert record.of("end") == [0 if name == "on_end" else 130]
    summary = json.loads(Path("failing/summary.json").read_text())
    assert checkpoints("failing")[-1] == summary["updates"]


class Stops(BaseException):
    pass


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("error", [SystemExit("enough"), GeneratorExit(), Stops()])
def test_a_callback_that_raises_what_is_no_error_stops_the_run_too(error, blocking):
    processes, record = [], Record()

    class Leave:
        def on_report(self, run, report):
            if report["updates"] > 0:
                processes.extend([run._child.pid, *servers_of(run._child.pid)])
                raise error

    with pytest.raises(type(error)) as caught:
        troupe.train(
            SMALL, env=run_envs.Pole, callbacks=[Leave(), record], blocking=blocking, run_dir="run", quiet=True, stop__env_steps=10**9
        ).wait()
    assert caught.value is error and record.of("end") == [130]
    assert len(processes) > 1 and not any(Path(f"/proc/{pid}").exists() for pid in processes)
    assert checkpoints("run")[-1] == json.loads(Path("run/summary.json").read_text())["updates"] > 0


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_signal_handler_that_raises_while_python_waits_stops_the_run(error, blocking):
    processes = []

    def leave(number, frame):
        raise error

    class Tell:
        def on_report(self, run, report):
            if report["updates"] > 0 and not processes:
                processes.append(run._child.pid)
                os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, leave)
    try:
        with pytest.raises(SystemExit) if error is SystemExit else contextlib.nullcontext():  # Ctrl-C returns the run
            troupe.train(
                SMALL, env="CartPole-v1", callbacks=Tell(), blocking=blocking, run_dir="run", quiet=True, stop__env_steps=10**9
            ).wait()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not Path(f"/proc/{processes[0]}").exists()
    assert checkpoints("run")[-1] == json.loads(Path("run/summary.json").read_text())["updates"] > 0


def test_output_that_cannot_be_written_stops_the_run(monkeypatch):
    with open("output", "w") as closed:
        pass
    monkeypatch.setattr(sys, "stdout", closed)
    record = Record()
    with pytest.raises(ValueError, match="closed file"):
        troupe.train(SMALL, env="CartPole-v1", callbacks=record, run_dir="run", stop__env_steps=10**9)
    assert record.of("end") == [130]


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
        ({"config": TOKENS, "reward": lambda a, b: [0]}, troupe.RunError, "^task.verifier: .* fit none of the forms"),
        ({"config": TOKENS, "reply": 5}, TypeError, "^reply is int, expected a function that replies to answers"),
        ({"config": TOKENS, "reply": Record}, TypeError, "^reply is the class Record, expected a function"),
        ({"config": TOKENS, "reply": lambda answers: []}, troupe.RunError, "^task.reply: .* has no effect with task.turns 1"),
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


def test_the_example_trains_and_plays(tmp_path):
    example = HERE.parents[1] / "examples/python/train_pole.py"
    done = subprocess.run([sys.executable, example, "20000"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True)
    assert "mean return of the last evaluation: " in done.stdout
    assert float(done.stdout.split()[-1]) > 8


def start_script(tmp_path, body):
    """A script that trains an environment of its own. Its output has a line "updates" when the first update is done."""
    script = tmp_path / "my_training.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(HERE)!r})\n"
        + textwrap.dedent(
            """
            import run_envs, run_support, troupe

            class Mine(run_envs.Pole):  # belongs to __main__, so it is sent by cloudpickle
                pass

            class Tell:
                told = False
                def on_report(self, run, report):
                    if report["updates"] > 0 and not self.told:
                        self.told = True
                        print("updates", run._child.pid, flush=True)
            """
        )
        + textwrap.dedent(body)
    )
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True)


def test_lines_fit_the_terminal_in_which_python_runs(tmp_path):
    reader, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    body = f"import sys; sys.path.insert(0, {str(HERE)!r})\nimport run_support, troupe\n"
    body += "troupe.train(run_support.SMALL, env='CartPole-v1', stop__updates=3, stop__env_steps=0, stats__interval_ms=10)\n"
    script = subprocess.Popen([sys.executable, "-c", body], stdout=terminal, cwd=tmp_path)
    os.close(terminal)
    output = b""
    with contextlib.suppress(OSError):  # the terminal is closed
        while part := os.read(reader, 4096):
            output += part
    os.close(reader)
    assert script.wait(30) == 0
    lines = [line for line in output.decode().splitlines() if "steps " in line and "/s)" in line]
    assert len(lines) > 1
    assert max(map(len, lines)) < 80, lines


def child_of(script):
    for line in script.stdout:
        if line.startswith("updates "):
            return int(line.split()[1])
    raise AssertionError("the script ended before the first update")


def servers_of(run):
    """The environment servers of a program: the children of all its threads."""
    return [int(pid) for path in Path(f"/proc/{run}/task").glob("*/children") for pid in path.read_text().split()]


def wait_for_end(pids):
    """Returns when all processes have ended: a pidfd is readable then."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([descriptor], [], [], 20)
        os.close(descriptor)
        assert ready, f"process {pid} has not ended"


def test_ctrl_c_stops_the_run_with_a_checkpoint_and_returns_it(tmp_path):
    script = start_script(
        tmp_path,
        """
        run = troupe.train(run_support.SMALL, env=Mine, callbacks=Tell(), stop__env_steps=10**9, quiet=True)
        print("returned", run.exit_code, run.summary["updates"], flush=True)
        """,
    )
    child_of(script)
    os.killpg(script.pid, signal.SIGINT)  # as a terminal does
    output, _ = script.communicate(timeout=300)
    word, code, updates = output.split()[-3:]
    assert (script.returncode, word, code) == (0, "returned", "130")
    assert checkpoints(tmp_path / "runs/Mine")[-1] == int(updates) > 0


@pytest.mark.parametrize("blocking", [True, False])
def test_the_child_ends_with_a_python_that_is_killed(tmp_path, blocking):
    script = start_script(
        tmp_path,
        f"""
        run = troupe.train(run_support.SMALL, env=Mine, callbacks=Tell(), stop__env_steps=10**9, quiet=True, blocking={blocking})
        run.wait()
        """,
    )
    child = child_of(script)
    processes = [child, *servers_of(child)]
    assert len(processes) > 1
    script.kill()
    script.wait()
    wait_for_end(processes)
    summary = json.loads((tmp_path / "runs/Mine/summary.json").read_text())
    assert checkpoints(tmp_path / "runs/Mine")[-1] == summary["updates"] > 0


def test_a_script_that_ends_stops_its_run(tmp_path):
    script = start_script(
        tmp_path,
        """
        import threading
        done = threading.Event()
        Tell.on_checkpoint = lambda self, run, path: done.set()
        troupe.train(run_support.SMALL, env=Mine, callbacks=Tell(), stop__env_steps=10**9, quiet=True, blocking=False,
                     checkpoint__every_updates=1)
        done.wait()
        """,
    )
    child = child_of(script)
    assert script.wait(timeout=300) == 0
    wait_for_end([child])
    assert (tmp_path / "runs/Mine/summary.json").is_file()
