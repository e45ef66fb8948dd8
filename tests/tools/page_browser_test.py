#!/usr/bin/env python3
"""The curves of the dashboard in a real browser, live, after a reload and when a run is started again: page_browser_test.py BUILD_DIR."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.opened_page import OpenedPage, evaluation, main, snapshot  # noqa: E402


class Curves(OpenedPage):
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
                "formatted(c.newest(curve.path).value, c.spec.unit)))"
            )
            self.check_curves(published)
            self.check_table("Return", published)
            self.check_table("Episode length", published)
            self.open()

    def test_before_the_first_snapshot_the_page_says_that_it_waits_and_shows_no_empty_charts(self):
        self.open()
        self.browser.wait("live === 'live' && figures.size > 0")
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
        self.browser.wait("learning.charts[0].legend.textContent.includes('started again')")  # when it is drawn next
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


if __name__ == "__main__":
    main()
