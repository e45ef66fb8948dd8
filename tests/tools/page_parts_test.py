#!/usr/bin/env python3
"""The flow, evaluations, warm-up and views of the dashboard in a real browser: page_parts_test.py BUILD_DIR."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.opened_page import OpenedPage, evaluation, main, snapshot  # noqa: E402


class Parts(OpenedPage):
    def test_the_flow_has_the_samples_that_no_count_includes(self):
        self.server.publish(snapshot(1, ledger={"produced": 2000, "trained": 1900, "lost_in_crash": 100}, uncounted_at_most=128))
        self.open("flow")
        rows = "[...document.querySelectorAll('.stack + table tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
        self.browser.wait(f"{rows}.length > 0")
        *_, produced, uncounted = self.browser.value(rows)
        self.assertEqual(produced[:2], ["produced", "2,000"])
        self.assertIn("in none of these counts", uncounted[0])
        self.assertEqual(uncounted[1], "128")

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
        self.browser.wait("events.list.children.length === 1")
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

    def test_the_end_of_the_log_is_below_the_events(self):
        self.server.publish(snapshot(1))
        self.open("events")
        self.browser.wait("events.log.textContent === 'began\\nthe newest line'")
        self.assertFalse(self.browser.value("events.log.hidden"))

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
            # The newest snapshot is drawn at once, those before it when the page has asked for them.
            self.browser.wait("warmup.charts.every((c) => c.plot && !c.card.hidden && c.plot.data[0].length === 2)")
            drawn = self.browser.value("warmup.charts.map((c) => [0, 1].map((i) => [...c.plot.data[i]]))")
            self.assertEqual(drawn, [[[1, 2], [0.75, 0.75]], [[1, 2], [None, 0.25]]])
            self.open()
        published = [{**snapshot(n), "warmup": None} for n in range(1, 5)]
        self.server.publish(*published)
        for _ in ("live", "after a reload"):
            self.wait_for(7)
            self.assertEqual(self.browser.value(state), "running")
            self.assertNotIn("warm-up", self.browser.value(text))
            self.assertEqual(self.browser.value("store.rows"), 4)
            self.check_curves(published)
            self.browser.wait("!warmup.panel.hidden && warmup.charts[0].plot.data[0].length === 2")
            self.open()

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

    def test_the_views_show_alarms_values_and_constants(self):
        alarms = {"alarms": {"kl_high": 1, "non_finite": 2}, "alarm_texts": {"kl_high": "the KL", "non_finite": "the steps"}}
        constant = {"episodes": {"count": 9, "return_mean": 500, "return_std": 0, "length_mean": 0.0175, "success_rate": None}}
        self.server.publish(*[snapshot(n, **alarms, **constant) for n in range(1, 21)])
        self.open("events")
        self.wait_for(20)
        self.browser.wait("byId('alarms').children.length > 0")  # it is drawn a little later
        events = "byId('panels').querySelector('.events').textContent"
        told = "kl_high (warning), raised before this page was opened: the KL"
        self.browser.wait(f"{events}.includes('{told}')")  # once the log has been asked for what was before
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
    main()
