"""troupe.train against the real program: whole runs, their evaluations, and runs that are resumed."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (tools/requirements-test.txt)")

import run_envs  # noqa: E402
from run_support import HERE, SMALL, TOKENS, Record, Stop, checkpoints  # noqa: E402

import troupe  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_a_folder")


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
