#!/usr/bin/env python3
"""The verdict, the histograms and the ranges of the dashboard in a real browser: page_verdict_test.py BUILD_DIR."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.opened_page import OpenedPage, main, snapshot  # noqa: E402

VERDICT = {"what": "sampling", "why": "the trainer waits 63 % of the time", "advice": "", "resource": "env_stepping"}


class Verdict(OpenedPage):
    def figures(self, n, bottleneck):
        """What is beside the sentence, after the n-th snapshot."""
        self.server.publish(snapshot(n, bottleneck=bottleneck))
        self.browser.wait(f"newest !== null && newest.env_steps === {1000 * n} && !asked")
        terms = "[...byId('verdict-figures').children].map((term) => [...term.children].map((part) => part.textContent))"
        return self.browser.value(terms)

    def test_the_figures_of_the_verdict_are_beside_its_sentence(self):
        self.open()
        share, waits = ["it is busy or waited for", "63 % of the time"], ["what waits for it", "trainer"]
        all_known = {**VERDICT, "share": 0.63, "waits": "trainer", "gain": 0.4}
        self.assertEqual(self.figures(1, all_known), [share, waits, ["with twice as much of it", "40 % faster"]])
        self.assertEqual(self.figures(2, {**all_known, "gain": None}), [share, waits])
        self.assertEqual(self.figures(3, {**VERDICT, "share": None, "waits": "", "gain": None}), [])

    def test_a_run_that_nothing_limits_has_no_such_figures(self):
        self.open()
        for n, name in enumerate(("none", "unknown", None), 1):
            self.assertEqual(self.figures(n, {**VERDICT, "resource": name}), [])

    def test_what_is_shown_of_a_run_that_does_not_answer_is_of_the_past(self):
        raised = {"alarms": {"kl_high": 1}, "alarm_texts": {"kl_high": "the KL"}}
        self.server.publish(snapshot(1, eta_seconds=2597, bottleneck=VERDICT, **raised))
        self.open()
        progress, verdict, alarms = (f"byId('{name}').textContent" for name in ("progress-text", "verdict", "alarms"))
        self.browser.wait(f"{progress}.includes('43:17 left')")
        self.assertTrue(self.browser.value(verdict).startswith("Bottleneck: "))
        self.server.end()
        self.browser.wait("byId('state').textContent.startsWith('connection lost at ')")
        self.browser.wait(f"{verdict}.startsWith('Last bottleneck: ')")
        self.assertNotIn("left", self.browser.value(progress))
        self.assertIn("Warning, raised in the last figures: kl_high", self.browser.value(alarms))
        self.browser.value("(isNoAnswer = true, showState(), true)")  # as after a minute
        text = self.browser.value("byId('state').textContent")
        self.assertRegex(text, "^no answer from the run, which may have been killed; the figures are of .*[0-9]")

    def test_the_header_says_what_the_run_trains_on(self):
        self.open()
        config = {"env": {"id": "CartPole-v1"}, "seed": 3, "algorithm": {"advantage": "gae", "surrogate": "clip"}, "model": {"kind": "mlp"}}
        hello = {"run": "cartpole", "name": "slow live", "config": config}
        self.assertEqual(self.browser.value(f"aboutText({json.dumps(hello)})"), "CartPole-v1 \u00b7 seed 3 \u00b7 gae clip \u00b7 cartpole")
        hello = {"run": "r", "config": {"task": {"name": "reverse"}, "model": {"kind": "decoder"}}, "tags": ["a", "b"], "note": "why"}
        self.assertEqual(self.browser.value(f"aboutText({json.dumps(hello)})"), "reverse \u00b7 tags: a, b \u00b7 why")
        self.browser.value(f"(received({{type: 'hello', ...{json.dumps({**hello, 'name': 'slow live'})}}}), true)")
        self.assertEqual(self.browser.value("byId('run').textContent"), "slow live")

    def test_a_histogram_is_drawn_with_its_table_and_its_table_stays_open(self):
        lag = {"le": [1, 2, 4, None], "count": [10, 60, 20, 10], "sum": 300, "p50": 2, "p99": 4}
        times = {"le": [0.001], "count": [3], "sum": 0.003, "p50": 0.00084, "p99": 0.001}
        self.server.publish(snapshot(1, histograms={"lag": lag, "update_seconds": times, "batch_rows": None}))
        self.open("flow")
        cards = "[...document.querySelectorAll('.bars')].map((bars) => bars.closest('.card')).filter((card) => !card.hidden)"
        self.browser.wait(f"{cards}.length === 2")
        legends = self.browser.value(f"{cards}.map((card) => card.querySelector('.legend').textContent)")
        self.assertEqual(legends, ["median 2 updates99th percentile 4 updatesvalues 100", "median 840 \u00b5s99th percentile 1 msvalues 3"])
        bars = self.browser.value(f"[...{cards}[0].querySelectorAll('.bars i')].map((bar) => bar.style.height)")
        heights = [float(height.rstrip("%")) for height in bars]
        for height, count in zip(heights, lag["count"], strict=True):
            self.assertAlmostEqual(height, 100 * count / 60, places=2)
        lefts = self.browser.value(f"[...{cards}[0].querySelectorAll('.bars i')].map((bar) => parseFloat(bar.style.left))")
        for left, octave in zip(lefts, (0, 1, 2, 3), strict=True):
            self.assertAlmostEqual(left, 100 * octave / 4, places=2)
        self.browser.value(f"({cards}[0].querySelector('details').open = true)")
        self.server.publish(snapshot(2, histograms={"lag": {**lag, "count": [10, 60, 20, 110]}, "update_seconds": times}))
        rows = f"[...{cards}[0].querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
        self.browser.wait(f"{rows}[3][1] === '110'")
        expected = [["up to 2 updates", "60", "30.0 %"], ["up to 4 updates", "20", "10.0 %"], ["more", "110", "55.0 %"]]
        self.assertEqual(self.browser.value(rows)[1:], expected)
        self.assertTrue(self.browser.value(f"{cards}[0].querySelector('details').open"))
        self.assertEqual(self.browser.value(f"{cards}[0].querySelector('.scroll').tabIndex"), 0)
        self.assertIn("median 2 updates, 99th percentile 4 updates", self.browser.value(f"{cards}[0].querySelector('.bars').ariaLabel"))

    def test_buckets_are_as_wide_as_their_bounds_tell(self):
        self.open()

        def edges(bounds):
            return self.browser.value(f"bucketPlaces({json.dumps(bounds)}).map(({{end, width}}) => [2 ** (end - width), 2 ** end])")

        cases = [
            # 5 may be a bucket without values: that of 6 is as wide as the narrowest one, the factor from 3 to 4.
            ([1, 2, 3, 4, 6, 8], [(0.5, 1), (1, 2), (2, 3), (3, 4), (4.5, 6), (6, 8)]),
            ([0.5, 1.5, 2], [(0.375, 0.5), (1.125, 1.5), (1.5, 2)]),
            ([0, 1, 2], [(0.25, 0.5), (0.5, 1), (1, 2)]),
            ([16], [(8, 16)]),
        ]
        for bounds, expected in cases:
            with self.subTest(bounds=bounds):
                for got, wanted in zip(edges(bounds), expected, strict=True):
                    self.assertAlmostEqual(got[0], wanted[0])
                    self.assertAlmostEqual(got[1], wanted[1])
        self.assertEqual(self.browser.value("bucketText(1, 'updates') + ', ' + bucketText(12, 'rows')"), "1 update, 12 rows")

    def test_a_peak_among_points_that_the_run_has_left_out_is_in_the_band(self):
        peak = snapshot(5, lag={"p50": 1, "p95": 99, "max": 99, "cap": 99})
        self.server.publish(*[peak if n == 5 else snapshot(n) for n in range(1, 3_701)])
        self.open()
        self.wait_for(3700)
        self.assertEqual(self.browser.value("store.sequences[0]"), 16)
        band = "learning.charts.find((c) => c.title === 'Policy lag')"
        curve = f"{band}.bands().find(({{curve}}) => {band}.present[curve].path === 'lag.p95')"
        self.assertEqual(self.browser.value(f"{curve}.high[0]"), 99)
        self.assertEqual(self.browser.value(f"{curve}.low[0]"), 2)
        self.assertEqual(self.browser.value("store.column('lag.p95')[0]"), 2 + 16 % 5)
        self.assertGreater(self.browser.value(f"{band}.plot.bands.length"), 0)
        # Of the newest points both edges are the value.
        self.assertEqual(self.browser.value(f"[{curve}.high.at(-1), {curve}.low.at(-1)]"), [2 + 3700 % 5] * 2)


if __name__ == "__main__":
    main()
