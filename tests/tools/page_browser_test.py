#!/usr/bin/env python3
"""The dashboard in a real browser, on snapshots that the test makes: page_browser_test.py BUILD_DIR. Skipped without Chromium."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support import browser  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
SKIPPED = 77
LEARNER = "kl rollout_kl kl_penalty clip_fraction dead_gradient_fraction outside_fraction entropy ess rollout_ess policy_loss value_loss"
LEARNER += " explained_variance grad_norm policy_lr value_lr"


def snapshot(n, evaluation=None, **more):
    """The n-th snapshot of a run, in which every figure is different in each."""
    result = {
        "elapsed_seconds": 2.0 * n,
        "progress": n / 100_000,
        "env_steps": 1000 * n,
        "env_steps_per_second": 500 + n,
        "env_steps_per_second_60s": 400 + n,
        "updates": 10 * n,
        "updates_per_second": 5,
        "training_ended": False,
        "answers": {"produced_length": 40 + n % 9, "trained_length": 38 + n % 7, "dropped_length": 90 + n % 5},
        "lag": {"p50": n % 3, "p95": 2 + n % 5, "max": 4 + n % 7, "cap": 16},
        "episodes": {"count": n, "return_mean": 3.0 * n, "return_std": 1 + n % 4, "length_mean": 20 + n, "success_rate": (n % 50) / 50},
        "busy": {"workers": (n % 10) / 10, "inference": (n % 9) / 10, "trainer": (n % 8) / 10, "machine": (n % 7) / 10},
        "learner": {name: (i + 1) / (n + 10 + i) for i, name in enumerate(LEARNER.split())},
        "eval": {
            name: (evaluation or {}).get(name)
            for name in ("updates", "env_steps", "episodes", "failed_episodes", "return_mean", "return_std", "length_mean", "success_rate")
        },
        "alarms": {},
        "alarm_texts": {},
        "bottleneck": {"what": "none", "why": "", "advice": ""},
        "workers": {"up": 1, "total": 1},
    }
    result.update(more)
    return result


def evaluation(updates, env_steps):
    returns = {"return_mean": 1000 + updates, "return_std": 3}
    counts = {"updates": updates, "env_steps": env_steps, "episodes": 10, "failed_episodes": 0}
    return {**counts, **returns, "length_mean": 7 + updates, "success_rate": 0.25}


def at(value, path):
    for key in path.split("."):
        value = None if value is None else value.get(key)
    return value


class Server:
    """A process that serves the page of this tree."""

    def __init__(self, port=0):
        self.folder = tempfile.TemporaryDirectory()
        html = pathlib.Path(self.folder.name) / "page.html"
        subprocess.run([sys.executable, ROOT / "page" / "build.py", "--html", html], check=True)
        packed = html.with_suffix(".html.gz")
        packed.write_bytes(gzip.compress(html.read_bytes()))
        self.start([packed, str(port)])

    def start(self, words):
        self.words = words
        self.process = subprocess.Popen(
            [f"{BUILD}/tests/page_server", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.url = self.process.stdout.readline().strip()
        self.published = []

    def publish(self, *snapshots):
        for one in snapshots:
            self.process.stdin.write(json.dumps(one) + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline().startswith("published")
            self.published.append(one)

    def stats(self):
        with urllib.request.urlopen(self.url + "/stats") as reply:
            return json.loads(reply.read())["stats"]

    def end(self):
        self.process.stdin.close()
        self.process.wait(browser.PATIENCE)
        self.process.stdout.close()

    def close(self):
        self.end()
        self.folder.cleanup()


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.browser.errors.clear()
        self.browser.requests.clear()
        self.browser.resize(1280, 900)

    def tearDown(self):
        # While a run is down the browser itself reports that it cannot connect.
        errors = [error for error in self.browser.errors if "WebSocket connection" not in error]
        self.assertEqual(errors, [])
        for url in self.browser.requests:
            self.assertTrue(url.startswith((self.server.url, self.server.url.replace("http", "ws"), "data:", "about:")), url)

    def open(self, view="learning"):
        self.browser.open("about:blank")
        self.browser.open(f"{self.server.url}/#{view}")

    def wait_for(self, sequence):
        """Until the page has drawn this snapshot."""
        self.browser.wait(
            f"store.rows > 0 && store.sequences[store.rows - 1] === {sequence} && "
            "(learning.panel.hidden || learning.charts.some((c) => c.plot) && "
            "learning.charts.every((c) => !c.plot || c.plot.data[0].length === store.rows))"
        )

    def charts(self):
        """What each chart has drawn, by its title: the axis, and the values of each curve by its path."""
        drawn = """learning.charts.filter((c) => c.plot).map((c) => ({title: c.spec.title, spread: c.spec.spread || null, x: c.plot.data[0],
            curves: c.present.map((curve, i) => ({path: curve.path, label: curve.label, y: c.plot.data[1 + i],
                                                  text: c.legend.children[i].querySelector("b").textContent})),
            band: c.spec.spread ? c.plot.data.slice(-2) : null}))"""
        return {chart["title"]: chart for chart in self.browser.value(drawn)}

    def check_curves(self, published):
        """Every curve of every chart has the values of the snapshots, /stats and no others."""
        charts = self.charts()
        self.assertEqual(len(charts), self.browser.value("kCharts.length"))
        newest = self.server.stats()
        self.assertEqual(newest, published[-1])
        for title, chart in charts.items():
            for curve in chart["curves"]:
                if curve["path"].startswith("eval."):
                    continue
                with self.subTest(chart=title, curve=curve["path"]):
                    points = [(x, y) for x, y in zip(chart["x"], curve["y"]) if y is not None]
                    self.assertEqual(points, [(s["env_steps"], at(s, curve["path"])) for s in published])
                    unit = self.browser.value(f"kCharts.find((c) => c.title === {json.dumps(title)}).unit ?? null")
                    text = self.browser.value(f"formatted({json.dumps(at(newest, curve['path']))}, {json.dumps(unit)} ?? undefined)")
                    self.assertEqual(curve["text"], text)
            if chart["spread"]:
                mean, deviation = chart["spread"]
                for sign, band in zip((1, -1), chart["band"]):
                    values = [y for y in band if y is not None]
                    self.assertEqual(values, [at(s, mean) + sign * at(s, deviation) for s in published])

    def check_table(self, title, published):
        self.browser.value(f"learning.charts.find((c) => c.spec.title === {json.dumps(title)}).details.open = true")
        rows = f"[...learning.charts.find((c) => c.spec.title === {json.dumps(title)}).table.querySelectorAll('tbody tr')]"
        cells = rows + ".map((row) => [...row.children].map((cell) => cell.textContent))"
        self.browser.wait(f"{rows}.length > 0")
        path = self.charts()[title]["curves"][0]["path"]
        expected = [
            [self.browser.value(f"formatted({json.dumps(at(s, name))})") for name in ("env_steps", "updates", path)]
            for s in reversed(published)
        ]
        self.assertEqual([row[:3] for row in self.browser.value(cells)], expected[:100])

    def test_every_curve_has_the_values_of_the_snapshots_live_and_after_a_reload(self):
        published = [snapshot(n) for n in range(1, 40)]
        self.server.publish(*published[:10])
        self.open()
        self.wait_for(10)
        self.server.publish(*published[10:])
        for _ in ("live", "after a reload"):
            self.wait_for(39)
            # The charts are drawn a little later. Their columns are those of the store, so the texts of the legend tell.
            self.browser.wait(
                "learning.charts.filter((c) => c.plot).every((c) => c.plot.data.every((column) => column.length === store.rows) && "
                "c.present.every((curve, i) => c.legend.children[i].querySelector('b').textContent === "
                "formatted(c.newest(curve.path), c.spec.unit)))"
            )
            self.check_curves(published)
            self.check_table("Return", published)
            self.check_table("Episode length", published)
            self.open()

    def choose_axis(self, name):
        self.browser.value(f"(byId('axis').value = '{name}', byId('axis').dispatchEvent(new Event('change')), true)")

    def events(self):
        """The events, oldest first."""
        return self.browser.value("[...events.list.children].map((event) => event.lastChild.textContent)")[::-1]

    def test_before_the_first_snapshot_the_page_says_that_it_waits_and_shows_no_empty_charts(self):
        self.open()
        self.browser.wait("live === 'live' && meanings.size > 0")
        self.browser.wait("byId('progress-text').textContent === 'waiting for the first snapshot'")
        cards = "[...document.querySelectorAll('.charts .card')].filter((card) => card.getClientRects().length > 0).length"
        self.assertEqual(self.browser.value(cards), 0)
        self.server.publish(snapshot(1), snapshot(2))
        self.wait_for(2)
        self.browser.wait(f"{cards} === kCharts.length")
        self.assertNotIn("waiting", self.browser.value("byId('progress-text').textContent"))

    def test_the_labels_of_the_time_axis_are_evenly_spaced_and_whole(self):
        self.server.publish(*[snapshot(n) for n in range(1, 13)])
        self.open()
        self.wait_for(12)
        self.choose_axis("elapsed_seconds")
        self.browser.wait("learning.charts[0].plot.data[0][0] === 2")  # drawn anew
        axis = "learning.charts[0].plot.axes[0]"
        for seconds in (8, 25, 100, 700, 3_000, 20_000, 90_000, 900_000, 9_000_000):
            with self.subTest(seconds=seconds):
                self.browser.value(f"(learning.zoom([0, {seconds}]), true)")
                self.browser.wait(f"learning.charts[0].plot.scales.x.max === {seconds}")
                places, labels = self.browser.value(f"[{axis}._splits, {axis}._values]")
                self.assertGreaterEqual(len(places), 3)
                steps = {after - before for before, after in zip(places, places[1:])}
                self.assertEqual(len(steps), 1, places)
                self.assertIn(steps.pop(), self.browser.value("kTimeSteps"))
                self.assertEqual(labels, self.browser.value(f"{json.dumps(places)}.map(duration)"))
                self.assertEqual(len(set(labels)), len(labels))

    def test_a_reload_keeps_the_theme_and_the_x_axis(self):
        self.server.publish(*[snapshot(n) for n in range(1, 5)])
        self.open()
        self.wait_for(4)
        theme = "document.documentElement.dataset.theme"
        for axis, drawn in (("elapsed_seconds", [2, 4, 6, 8]), ("updates", [10, 20, 30, 40])):
            before = self.browser.value(theme)
            self.browser.value("(byId('theme').click(), true)")
            self.choose_axis(axis)
            self.open()
            self.wait_for(4)
            self.assertNotEqual(self.browser.value(theme), before)
            self.assertEqual(self.browser.value("byId('theme').textContent"), "Light" if before == "light" else "Dark")
            self.assertEqual(self.browser.value("byId('axis').value"), axis)
            self.assertEqual(self.charts()["Return"]["x"], drawn)

    def test_what_a_new_start_tells_comes_after_the_line_that_the_run_was_started_again(self):
        port = self.server.url.rsplit(":", 1)[1]
        self.server.publish(*[snapshot(n) for n in range(1, 4)])
        self.open()
        self.wait_for(3)
        self.server.end()
        self.browser.wait("live === 'lost'")
        self.server.start([self.server.words[0], port])
        trains = {"what": "training", "why": "", "advice": ""}
        self.server.publish(snapshot(2, evaluation(10, 1000), bottleneck=trains))
        self.browser.wait("newest !== null && newest.env_steps === 2000")
        told = [
            "The connection to the run was lost.",
            "The connection to the run is back.",
            "The run was started again.",
            "Evaluation after 10 updates: return 1,010 over 10 episodes.",
            "Bottleneck: training.",
        ]
        self.assertEqual(self.events(), told)
        # An unknown bottleneck is no news, nor is the same one after it.
        for n, verdict in ((3, {**trains, "what": "unknown"}), (4, trains)):
            self.server.publish(snapshot(n, evaluation(10, 1000), bottleneck=verdict))
            self.browser.wait(f"newest.env_steps === {n}000")
        self.assertEqual(self.events(), told)

    def test_the_flow_has_the_samples_that_no_count_includes(self):
        self.server.publish(snapshot(1, ledger={"produced": 2000, "trained": 1900, "lost_in_crash": 100}, uncounted_at_most=128))
        self.open("flow")
        rows = "[...document.querySelectorAll('.stack + table tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
        self.browser.wait(f"{rows}.length > 0")
        *_, produced, uncounted = self.browser.value(rows)
        self.assertEqual(produced[:2], ["produced", "2,000"])
        self.assertIn("in none of these counts", uncounted[0])
        self.assertEqual(uncounted[1], "128")

    def dots(self, path):
        """The dots of a curve of evaluations: (x, y)."""
        curves = [(chart["x"], curve["y"]) for chart in self.charts().values() for curve in chart["curves"] if curve["path"] == path]
        return [(x, y) for xs, ys in curves for x, y in zip(xs, ys) if y is not None]

    def test_the_flow_says_that_workers_start(self):
        cell = "document.querySelector('.flow li tbody td')?.textContent"
        started = {"up": 3, "total": 3, "starting": 0}
        self.open("flow")
        for n, workers, text in [(1, {"up": 0, "total": 0, "starting": 3}, "0, 3 starting"), (2, started, "3 of 3")]:
            self.server.publish(snapshot(n, busy={}, workers=workers))
            self.browser.wait(f"store.rows === {n} && {cell} === {json.dumps(text)}")

    def test_an_evaluation_is_one_dot_at_the_update_that_was_evaluated(self):
        # That of update 100 ends after update 190, that of 205, between two snapshots, after 300.
        # Snapshots are at other environment steps than updates, so the place between two of them does not follow from the updates.
        first, second = evaluation(100, 10_000), evaluation(205, 20_100)
        published = [snapshot(n, None if n < 20 else first if n < 30 else second) for n in range(1, 60)]
        self.server.publish(*published[:25])
        self.open()
        self.wait_for(25)
        self.assertEqual(self.dots("eval.return_mean"), [(10_000, 1100)])
        self.server.publish(*published[25:])
        for _ in ("live", "after a reload"):
            self.wait_for(59)
            self.assertEqual(self.dots("eval.return_mean"), [(10_000, 1100), (20_100, 1205)])
            self.assertEqual(self.dots("eval.length_mean"), [(10_000, 107), (20_100, 212)])
            self.check_curves(published)
            self.choose_axis("updates")
            self.browser.wait("learning.charts[0].plot.data[0][9] === 100")
            self.assertEqual(self.dots("eval.return_mean"), [(100, 1100), (205, 1205)])
            self.choose_axis("env_steps")
            self.open()

    def test_an_evaluation_under_way_is_shown_also_when_training_has_ended(self):
        plays = {"updates": 300, "episodes": 3, "of": 100, "seconds": 2.5, "waiting": 1}
        ended = snapshot(30, progress=1.0, training_ended=True, eta_seconds=None)
        self.server.publish(snapshot(29), {**ended, "evaluating": plays})
        self.open()
        self.wait_for(2)
        self.browser.wait("byId('state').textContent === 'evaluating'")
        text = self.browser.value("byId('progress-text').textContent")
        self.assertIn("evaluating the policy after 300 updates: 3 of 100 episodes, 0:03, 1 more to do", text)
        self.server.publish({**ended, "env_steps": 30_000, "evaluating": {**plays, "updates": 1, "of": 1}})
        self.browser.wait("byId('progress-text').textContent.includes('after 1 update: 3 of 1 episode, 0:03, 1 more')")
        score = {**evaluation(300, 30_000), "failed_episodes": 2}
        self.server.publish({**ended, "env_steps": 30_001, "eval": score, "evaluating": None})
        self.browser.wait("byId('state').textContent === 'ended'")
        self.assertNotIn("evaluating", self.browser.value("byId('progress-text').textContent"))
        self.assertIn("1,300, without 2 that failed", self.browser.value("byId('figures').textContent"))

    def test_evaluations_that_fail_are_events_once_each_and_shown_in_the_header(self):
        def failed(count, updates=None, error=None):
            return {"count": count, "updates": updates, "env_steps": updates, "episodes": 3, "failed_episodes": 0, "error": error}

        def events():
            return self.browser.value("[...events.list.children].map((item) => item.lastChild.textContent)")

        figures = "byId('figures').textContent"
        first = failed(1, 50, "the environment failed")
        self.server.publish(snapshot(4, failed_evaluations=failed(0)), snapshot(5, failed_evaluations=first))
        self.open("events")
        self.wait_for(2)
        told = "Evaluation after 50 updates failed, with 3 episodes played (1 failed so far): the environment failed"
        self.browser.wait(f"{figures}.includes('failed after 50 updates')")
        self.assertEqual(events(), ["Before this page was opened: " + told])
        self.server.publish(snapshot(6, failed_evaluations=first), snapshot(7, failed_evaluations=failed(2, 60, "no time")))
        self.wait_for(4)
        again = "Evaluation after 60 updates failed, with 3 episodes played (2 failed so far): no time"
        self.browser.wait("events.list.children.length === 2")
        self.assertEqual(events()[0], again)
        self.server.publish(snapshot(8, evaluation(70, 7000), failed_evaluations=failed(2, 60, "no time")))
        self.wait_for(5)
        self.browser.wait(f"{figures}.includes('1,070') && !{figures}.includes('failed')")
        # A run that is started again has the number of all starts and no newest one, until one of its own fails.
        self.server.publish(snapshot(9, evaluation(70, 7000), failed_evaluations=failed(2)))
        self.server.publish(snapshot(10, evaluation(70, 7000), failed_evaluations=failed(3, 90, "no row")))
        self.wait_for(7)
        self.browser.wait(f"{figures}.includes('failed after 90 updates, before: 1,070')")
        self.assertEqual(len([text for text in events() if " failed, with " in text]), 3)
        self.assertIn("(3 failed so far): no row", events()[0])

    def test_the_warm_up_of_a_token_run_is_shown_live_and_after_a_reload_and_is_no_part_of_the_curves(self):
        empty = {"env_steps": 0, "updates": 0, "lag": {"cap": 1}, "training_ended": False, "elapsed_seconds": 3.0}
        steps = [
            {**empty, "warmup": {"step": n, "of": 1500, "loss": None if n < 1 else 0.75, "pass_at_1": None if n < 2 else 0.25}}
            for n in range(3)
        ]
        self.open()
        text, state = "byId('progress-text').textContent", "byId('state').textContent"
        self.server.publish(*steps)
        for _ in ("live", "after a reload"):
            self.browser.wait(f"{text}.includes('warm-up, step 2 of at most 1,500, loss 0.75, pass@1 0.25')")
            self.assertEqual(self.browser.value(state), "warm-up")
            self.assertEqual(self.browser.value("byId('figures').children.length"), 0)
            self.assertIn("when the warm-up has ended", self.browser.value("learning.panel.textContent"))
            self.open()
        published = [{**snapshot(n), "warmup": None} for n in range(1, 5)]
        self.server.publish(*published)
        for _ in ("live", "after a reload"):
            self.wait_for(7)
            self.assertEqual(self.browser.value(state), "running")
            self.assertNotIn("warm-up", self.browser.value(text))
            self.assertEqual(self.browser.value("store.rows"), 4)
            self.check_curves(published)
            self.open()

    def test_a_run_that_is_started_again_goes_on_in_an_open_page_with_a_mark_where_it_began(self):
        port = self.server.url.rsplit(":", 1)[1]
        before = [snapshot(n) for n in range(1, 21)]
        self.server.publish(*before)
        self.open()
        self.wait_for(20)
        # It resumes from step 15,000, and makes more snapshots than the page has seen before the page is back.
        self.server.end()
        self.browser.wait("live === 'lost'")
        self.server.start([self.server.words[0], port])
        after = [snapshot(n, env_steps=15_000 + 100 * n, updates=150 + n) for n in range(1, 31)]
        self.server.publish(*after)
        self.wait_for(30)
        self.assertEqual(self.browser.value("store.restarts('env_steps')"), [15_000])
        speed = self.charts()["Speed, env steps per second"]
        points = [(x, y) for x, y in zip(speed["x"], speed["curves"][0]["y"]) if y is not None]
        expected = [(s["env_steps"], s["env_steps_per_second"]) for s in before[:15] + after]
        self.assertEqual(points, expected)
        # The curve has a gap there, and a line marks it.
        row = self.browser.value("store.column('restart').indexOf(1)")
        self.assertIsNone(speed["curves"][0]["y"][row])
        self.assertIn("started again", self.browser.value("learning.charts[0].legend.textContent"))
        self.assertIn("The run was started again.", self.browser.value("events.list.textContent"))

    def test_another_run_at_the_same_address_begins_with_empty_charts(self):
        port = self.server.url.rsplit(":", 1)[1]
        self.server.publish(*[snapshot(n) for n in range(1, 21)])
        self.open()
        self.wait_for(20)
        self.server.end()
        self.browser.wait("live === 'lost'")
        self.server.start([self.server.words[0], port, "other"])
        self.server.publish(*[snapshot(n) for n in range(1, 6)])
        self.wait_for(5)
        self.assertEqual(self.browser.value("store.rows"), 5)
        self.assertEqual(self.browser.value("store.restarts('env_steps')"), [])
        self.assertIn("Another run is served at this address: other", self.browser.value("events.list.textContent"))

    def test_the_flow_marks_the_part_that_limits_the_run(self):
        for number, limit in enumerate(["workers", "inference", "replay", "trainer", "prefetcher", "machine", ""], 1):
            verdict = {"what": "lag cap, environment and training", "why": "", "advice": "", "limit": limit}
            self.server.publish(snapshot(number, bottleneck=verdict))
            if number == 1:
                self.open("flow")
            self.browser.wait(f"newest !== null && newest.env_steps === {1000 * number}")
            self.browser.wait(
                f"document.querySelectorAll('.flow li').length === 5 && byId('figures').textContent.includes('{1000 * number:,}')"
            )
            marked = self.browser.value("[...document.querySelectorAll('.flow .limit h3')].map((title) => title.textContent)")
            titles = {
                "workers": "Workers",
                "inference": "Inference",
                "replay": "Replay buffer",
                "trainer": "Trainer",
                "prefetcher": "Trainer",
            }
            self.assertEqual(marked, [titles[limit]] if limit in titles else [])

    def test_a_page_that_is_opened_late_shows_the_whole_run_and_goes_on(self):
        self.server.publish(*[snapshot(n) for n in range(1, 6001)])  # 3.3 hours at one snapshot every 2 s
        self.open()
        self.wait_for(6000)
        x = self.charts()["Return"]["x"]
        self.assertEqual(x[0], 16_000)
        self.assertEqual(x[-1], 6_000_000)
        self.assertEqual(x, sorted(x))
        self.assertGreater(len(x), 2000)
        self.server.publish(*[snapshot(n) for n in range(6001, 6011)])
        self.wait_for(6010)
        self.assertEqual(self.browser.value("byId('state').textContent"), "running")

    def test_the_views_show_alarms_values_and_constants(self):
        alarms = {"alarms": {"kl_high": 1, "non_finite": 2}, "alarm_texts": {"kl_high": "the KL", "non_finite": "the steps"}}
        constant = {"episodes": {"count": 9, "return_mean": 500, "return_std": 0, "length_mean": 0.0175, "success_rate": None}}
        self.server.publish(*[snapshot(n, **alarms, **constant) for n in range(1, 21)])
        self.open("events")
        self.wait_for(20)
        self.browser.wait("byId('alarms').children.length > 0")  # it is drawn a little later
        events = "byId('panels').querySelector('.events').textContent"
        self.assertIn("kl_high (warning), raised before this page was opened: the KL", self.browser.value(events))
        # A list that a screen reader reads out is left alone while nothing changes.
        self.browser.value("(byId('alarms').firstChild.mark = 1, true)")
        self.server.publish(snapshot(21, **alarms, **constant))
        self.browser.wait("newest.env_steps === 21000")
        self.browser.wait("byId('figures').textContent.includes('21,000')")
        self.assertEqual(self.browser.value("byId('alarms').firstChild.mark"), 1)
        for tab in range(5):
            self.browser.value(f"(byId('tab{tab}').click(), true)")
        self.browser.value("(byId('tab0').click(), true)")
        self.wait_for(21)
        scale = self.browser.value("[learning.charts[0].plot.scales.y.min, learning.charts[0].plot.scales.y.max]")
        self.assertGreater(scale[0], 400)
        self.assertLess(scale[1], 600)
        # The labels of the y axis fit into its width.
        cut = """learning.charts.filter((c) => c.plot).filter((c) => {
            const axis = c.plot.axes[1], context = document.createElement('canvas').getContext('2d');
            context.font = '11px system-ui';
            return Math.max(...axis._values.map((label) => context.measureText(label).width)) + 12 > axis._size; }).map((c) => c.title)"""
        self.assertEqual(self.browser.value(cut), [])
        # The pointer over a chart: the values at that place, in all charts.
        box = "learning.charts[0].plot.over.getBoundingClientRect()"
        x, y = self.browser.value(f"{box}.x + {box}.width / 2"), self.browser.value(f"{box}.y + {box}.height / 2")
        self.browser.press(x, y)
        self.browser.wait("document.querySelectorAll('.where').length > 5")
        speed = self.browser.value("learning.charts.find((c) => c.title.startsWith('Speed')).legend.textContent")
        self.assertIn("at 11,000 env steps", speed)
        self.assertIn("511", speed)

    def test_a_phone_has_one_row_of_tabs_and_a_flow_that_goes_down(self):
        self.server.publish(*[snapshot(n) for n in range(1, 5)])
        self.browser.resize(360, 800)
        self.open("flow")
        self.browser.wait("newest !== null && document.querySelectorAll('.flow li').length === 5")
        tops = self.browser.value("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.getBoundingClientRect().top)")
        self.assertEqual(len(set(tops)), 1)
        arrow = self.browser.value("getComputedStyle(document.querySelector('.flow li'), '::after').content")
        self.assertEqual(arrow, '"\u2193"')
        self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), 360)


if __name__ == "__main__":
    if browser.installed() is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(SKIPPED)
    unittest.main()
