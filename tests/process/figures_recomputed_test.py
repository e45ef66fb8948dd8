#!/usr/bin/env python3
"""Every figure that a view shows is what the raw episodes of the run give: figures_recomputed_test.py BUILD_DIR.

A short run whose environment writes down each episode. The oracles are plain loops in float64. The views are
metrics.jsonl, /stats, /metrics, the history of the statistics port, CSV, TensorBoard, summary.json and `troupe top --once`.
"""

import csv
import json
import os
import pathlib
import re
import select
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from figure_views import PATIENCE, Client, deviation, flat, mean, scalars  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
TROUPE = f"{BUILD}/troupe"
WINDOW, SUPER_BATCH, UPDATES, EVALUATED = 7, 32, 20, 5
INTERVAL_MS = 1000


def episodes_in(folder):
    """The episodes of each environment that has played some: (length, return, success) in their order."""
    files = [[line.split() for line in file.read_text().splitlines()] for file in sorted(folder.glob("episodes_*.txt"))]
    return [[(int(length), float(total), int(success)) for length, total, success in lines] for lines in files]


class Views:
    """One run, which each test looks at. A class of tests says what run it is, and has
    SUMMARIZED and OF_START, paths of figures in summary.json and in its last start, and LABEL, the key of their labels
    in `troupe metrics --json`."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.run_folder, cls.log = root / "run", root / "log"
        cls.log.mkdir()
        gate, reached = cls.open_pipes(root)
        words = [TROUPE, "train", *cls.config(root), "--run", str(cls.run_folder)]
        for path, value in cls.settings(root).items():
            words += ["--set", f"{path}={value}"]
        cls.trained = subprocess.Popen(
            words, env={**os.environ, "TROUPE_FIGURES_LOG": str(cls.log)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        cls.addClassCleanup(cls.end)
        # The environment waits at the gate, so that the run stands still and all views are of one moment.
        if not select.select([reached], [], [], PATIENCE)[0]:
            cls.trained.kill()
            raise AssertionError("no environment has come to the gate: " + cls.trained.communicate()[0])
        cls.look_at_live_views()
        os.close(gate)
        os.close(reached)
        cls.output = cls.trained.communicate(timeout=PATIENCE)[0]
        assert cls.trained.returncode == 0, cls.output
        cls.lines = [json.loads(line) for line in (cls.run_folder / "metrics.jsonl").read_text().splitlines()]

    @classmethod
    def open_pipes(cls, root):
        """The ends of the pipes of figure_sources.py. Opening them so waits for nobody."""
        for name in ("gate", "reached"):
            os.mkfifo(root / name)
        return os.open(root / "gate", os.O_RDWR), os.open(root / "reached", os.O_RDONLY | os.O_NONBLOCK)

    @classmethod
    def end(cls):
        cls.trained.kill()
        cls.trained.wait()
        cls.trained.stdout.close()
        cls.folder.cleanup()

    @classmethod
    def look_at_live_views(cls):
        cls.address = json.loads((cls.run_folder / "endpoints.json").read_text())["stats"]

        def page(name):
            with urllib.request.urlopen(f"http://{cls.address}/{name}", timeout=PATIENCE) as reply:
                return reply.read().decode()

        # The views are of one moment if the same snapshot is newest before and after.
        client = Client(cls.address)
        cls.addClassCleanup(client.__exit__)
        client.ask({"type": "ping"}, "pong")
        while True:
            client.next("stats")
            before = json.loads(page("stats"))
            cls.metrics, cls.table = page("metrics"), json.loads(page("figures.json"))
            topics = [path for path, value in flat(before["stats"] or {}).items() if not isinstance(value, (str, bool, dict))]
            cls.history = []
            for begin in range(0, len(topics), 100):
                part = topics[begin : begin + 100]
                request = {"type": "history", "topics": part, "last": 1}
                with Client(cls.address) as asking:
                    reply = asking.ask(request, "history")
                cls.history.append((part, reply["points"]))
            if before == json.loads(page("stats")) and before["stats"]["updates"] > 0:
                cls.live = before
                return

    def test_prometheus_has_every_number_of_the_snapshot(self):
        found = {}
        for name, labels, value in re.findall(r"^([a-z_0-9]+)(\{[^}]*\})? (\S+)$", self.metrics, re.MULTILINE):
            found[name + labels] = float(value)
        stats, shown = flat(self.live["stats"]), 0
        for figure in self.table:
            value, name = stats.get(figure["path"]), figure["prometheus"]
            if name is None or not isinstance(value, (int, float)):
                continue
            name = re.sub(r"=(\w+)\}", r'="\1"}', name)
            factor = 0.001 if figure["unit"] == "ms" else 1
            self.assertAlmostEqual(found[name], value * factor, msg=name)
            shown += 1
        self.assertGreater(shown, 40)

    def test_the_history_has_every_number_of_the_snapshot(self):
        stats, shown = flat(self.live["stats"]), 0
        for topics, points in self.history:
            ((sequence, values),) = points
            self.assertEqual(sequence, self.live["sequence"])
            for topic, value in zip(topics, values):
                if not topic.startswith("eval."):
                    self.assertEqual(value, stats[topic], topic)
                    shown += 1
        self.assertGreater(shown, 60)

    def test_every_number_of_a_line_is_in_the_table(self):
        paths = {figure["path"] for figure in self.table}
        objects = tuple(figure["path"] + "." for figure in self.table if figure["type"] in ("map", "histogram"))
        nulls = {path.partition(".")[0] for path in paths}  # an object without figures is null
        for path, value in flat(self.lines[-1]).items():
            known = path in paths or path.startswith(objects) or (value in (None, {}) and path in nulls)
            self.assertTrue(known, path)

    def test_csv_has_every_value_of_every_line(self):
        file = self.run_folder.parent / "metrics.csv"
        subprocess.run([TROUPE, "export", str(self.run_folder), "--csv", str(file)], check=True, capture_output=True)
        with open(file, newline="") as text:
            rows = list(csv.DictReader(text))
        self.assertEqual(len(rows), len(self.lines))
        for row, line in zip(rows, self.lines):
            for path, value in flat(line).items():
                if isinstance(value, (bool, list)) or value is None or value == {}:
                    continue
                if isinstance(value, str):
                    self.assertEqual(row[path], value)
                else:
                    self.assertEqual(float(row[path]), value, path)

    def test_tensorboard_has_every_number_of_every_line(self):
        found, compared = scalars(self.run_folder), 0
        for line in self.lines:
            for path, value in flat(line).items():
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    continue
                single = struct.unpack("<f", struct.pack("<f", value))[0]
                self.assertEqual(found[path.replace(".", "/"), line["env_steps"]], single, path)
                compared += 1
        self.assertEqual(len(found), compared)

    def test_the_summary_has_the_figures_of_the_last_line(self):
        summary, last = json.loads((self.run_folder / "summary.json").read_text()), self.lines[-1]
        self.assertEqual(summary["updates"], UPDATES)
        self.assertEqual(summary["ledger"], last["ledger"])
        for path in ["env_steps", "uncounted_at_most", "skipped_steps", "request_retries", *self.SUMMARIZED]:
            self.assertEqual(flat(summary)[path], flat(last)[path], path)
        for path in ["lag.p50", "lag.cap", "trainer_wait_fraction", *self.OF_START]:
            self.assertEqual(flat(summary["last_start"])[path], flat(last)[path], path)

    def test_top_has_the_figures_of_the_last_line(self):
        text = subprocess.run([TROUPE, "top", "--once", str(self.run_folder)], check=True, capture_output=True, text=True).stdout
        last = self.lines[-1]
        figures = json.loads(subprocess.run([TROUPE, "metrics", "--json"], check=True, capture_output=True, text=True).stdout)
        labels = {figure["path"]: figure[self.LABEL] for figure in figures}
        for path in ("episodes.return_mean", "episodes.length_mean", "learner.entropy", "learner.grad_norm"):
            label = labels[path]
            value = re.search(rf"^ *{re.escape(label)} +(\S+)", text, re.MULTILINE)
            self.assertIsNotNone(value, f"{label}\n{text}")
            self.assertAlmostEqual(float(value.group(1).replace(",", "")), flat(last)[path], places=3, msg=path)


class ControlRun(Views, unittest.TestCase):
    """A run on an environment that writes down its episodes."""

    LABEL = "label"
    SUMMARIZED = ("episodes.count", "episodes.return_mean", "episodes.success_rate")
    OF_START = ()

    @staticmethod
    def config(_):
        return ["--env", f"py:{HERE}/figure_sources.py:Logged"]

    @staticmethod
    def settings(root):
        return {
            "env.params": json.dumps({"gate": str(root)}),
            "evaluation.env_params": json.dumps({"gate": ""}),
            "env.rows": 1,
            "env.python": sys.executable,
            "workers.groups": 1,
            "rollout.length": 16,
            "trainer.super_batch": SUPER_BATCH,
            "trainer.minibatches": 1,
            "trainer.epochs": 1,
            "stop.env_steps": 0,
            "stop.updates": UPDATES,
            "stats.window": WINDOW,
            "stats.interval_ms": INTERVAL_MS,
            "evaluation.episodes": EVALUATED,
            "evaluation.rows": 1,
        }

    def raw(self):
        """The episodes of training and those of the evaluation."""
        played = episodes_in(self.log)
        evaluation = [each for each in played if len(each) == EVALUATED]
        training = [each for each in played if len(each) != EVALUATED]
        self.assertEqual((len(training), len(evaluation)), (1, 1), played)
        return training[0], evaluation[0]

    def check_against_episodes(self, line):
        """The figures of a snapshot are those of the episodes that ended within its steps."""
        ended, steps = [], 0
        for episode in self.raw()[0]:
            steps += episode[0]
            if steps > line["env_steps"]:
                break
            ended.append(episode)
        lengths, returns, successes = zip(*ended[-WINDOW:])
        figures = line["episodes"]
        self.assertEqual(figures["count"], len(ended))
        self.assertAlmostEqual(figures["return_mean"], mean(returns), places=6)
        self.assertAlmostEqual(figures["return_std"], deviation(returns), places=6)
        self.assertAlmostEqual(figures["length_mean"], mean(lengths), places=9)
        self.assertAlmostEqual(figures["success_rate"], mean(successes), places=9)

    def test_each_line_has_the_figures_of_the_episodes_that_ended_within_its_steps(self):
        self.assertGreaterEqual(len(self.lines), 10)
        for line in self.lines:
            with self.subTest(env_steps=line["env_steps"]):
                self.check_against_episodes(line)

    def test_each_line_has_the_figures_of_its_updates_and_samples(self):
        for line in self.lines:
            ledger = line["ledger"]
            with self.subTest(env_steps=line["env_steps"]):
                self.assertEqual(ledger["produced"], line["env_steps"])
                self.assertEqual(ledger["trained"], SUPER_BATCH * line["updates"])
                self.assertEqual(ledger["produced"], sum(count for name, count in ledger.items() if name != "produced"))
                self.assertAlmostEqual(line["progress"], line["updates"] / UPDATES)
        self.assertEqual(self.lines[-1]["updates"], UPDATES)

    def test_the_evaluation_has_the_figures_of_its_episodes(self):
        lengths, returns, successes = zip(*self.raw()[1])
        for figures in (self.lines[-1]["eval"], json.loads((self.run_folder / "summary.json").read_text())["eval"]):
            self.assertEqual(figures["episodes"], EVALUATED)
            self.assertEqual(figures["updates"], UPDATES)
            self.assertAlmostEqual(figures["return_mean"], mean(returns), places=6)
            self.assertAlmostEqual(figures["return_std"], deviation(returns), places=6)
            self.assertAlmostEqual(figures["length_mean"], mean(lengths), places=9)
            self.assertAlmostEqual(figures["success_rate"], mean(successes), places=9)

    def test_the_newest_snapshot_of_the_port_has_them_too(self):
        self.check_against_episodes(self.live["stats"])


class TokenRun(Views, unittest.TestCase):
    """A token run whose verifier writes down the answers and their scores."""

    LABEL = "token_label"
    SUMMARIZED = ("episodes.count", "episodes.return_mean", "answers.tokens", "answers.trained_tokens")
    OF_START = ("answers.produced_length", "answers.trained_length", "answers.groups_alike")

    @staticmethod
    def config(root):
        config = {
            "task": {"name": "reverse", "params": {"digits": 2}},
            "model": {
                "kind": "decoder",
                "decoder": {
                    "hidden_size": 16,
                    "num_hidden_layers": 1,
                    "num_attention_heads": 2,
                    "num_key_value_heads": 2,
                    "intermediate_size": 16,
                },
            },
            "generation": {"answers": 4, "answer_slots": 4},
            "algorithm": {"advantage": "grpo"},
            "stop": {"env_steps": 0},
        }
        (root / "tokens.json").write_text(json.dumps(config))
        return [str(root / "tokens.json")]

    @staticmethod
    def settings(root):
        return {
            "task.verifier": f"py:{HERE}/figure_sources.py:score",
            "task.python": sys.executable,
            "workers.groups": 1,
            "trainer.super_batch": SUPER_BATCH,
            "trainer.minibatches": 1,
            "trainer.epochs": 1,
            "stop.updates": UPDATES,
            "stats.window": SUPER_BATCH,
            "stats.interval_ms": INTERVAL_MS,
            "evaluation.episodes": 1,
        }

    def answers(self):
        """Length and score of each answer, in the order in which they were scored; those of the evaluation come last."""
        lines = [line.split() for line in (self.log / "answers.txt").read_text().splitlines()]
        return [(int(length), float(score)) for length, score in lines]

    def check_against_answers(self, line):
        scored = self.answers()[: line["env_steps"]]
        self.assertEqual(line["episodes"]["count"], len(scored))
        scores = [score for _, score in scored[-SUPER_BATCH:]]
        self.assertAlmostEqual(line["episodes"]["return_mean"], mean(scores), places=6)
        self.assertAlmostEqual(line["episodes"]["return_std"], deviation(scores), places=6)

    def test_each_line_has_the_scores_of_the_answers_within_its_steps(self):
        self.assertGreaterEqual(len(self.lines), 10)
        for line in self.lines:
            with self.subTest(env_steps=line["env_steps"]):
                self.check_against_answers(line)

    def test_each_line_has_the_figures_of_its_updates_and_answers(self):
        for line in self.lines:
            ledger = line["ledger"]
            with self.subTest(env_steps=line["env_steps"]):
                self.assertEqual(ledger["produced"], line["env_steps"])
                self.assertEqual(ledger["trained"], SUPER_BATCH * line["updates"])
                self.assertEqual(ledger["produced"], sum(count for name, count in ledger.items() if name != "produced"))

    def test_the_figures_of_an_update_are_those_of_its_answers(self):
        scores, before, compared = [score for _, score in self.answers()], 0, 0
        for line in self.lines:
            updates, of_updates = line["updates"], line["learner"]
            if updates > before:
                own = scores[SUPER_BATCH * before : SUPER_BATCH * updates]
                with self.subTest(updates=updates):
                    self.assertAlmostEqual(of_updates["reward_mean"], mean(own), places=6)
                    self.assertAlmostEqual(of_updates["reward_min"], min(own), places=6)
                    self.assertAlmostEqual(of_updates["reward_max"], max(own), places=6)
                    self.assertAlmostEqual(of_updates["answer_tokens"], SUPER_BATCH * of_updates["answer_length_mean"], places=6)
                    self.assertLessEqual(of_updates["computed_tokens"], of_updates["answer_tokens"])
                compared += 1
            before = updates
        self.assertGreater(compared, 3)

    def test_tokens_are_those_of_all_answers(self):
        for line in self.lines:
            figures, steps = line["answers"], line["env_steps"]
            with self.subTest(env_steps=steps):
                self.assertAlmostEqual(figures["tokens"], figures["produced_length"] * steps, places=6)
                if line["updates"]:
                    self.assertAlmostEqual(figures["trained_tokens"], figures["trained_length"] * line["ledger"]["trained"], places=6)

    def test_lags_are_those_of_trained_answers(self):
        for line in self.lines:
            lags = (line["histograms"] or {}).get("lag")
            with self.subTest(env_steps=line["env_steps"]):
                self.assertEqual(sum(lags["count"]) if lags else 0, line["ledger"]["trained"])
                self.assertEqual(lags is None, line["updates"] == 0)

    def test_the_newest_snapshot_of_the_port_has_them_too(self):
        self.check_against_answers(self.live["stats"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
