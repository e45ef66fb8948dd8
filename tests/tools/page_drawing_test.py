#!/usr/bin/env python3
"""How the dashboard draws curves, in a real browser: smoothing, logarithmic axes, files, the address: page_drawing_test.py BUILD_DIR."""

import base64
import csv
import io
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.opened_page import OpenedPage, at, evaluation, main, snapshot  # noqa: E402

CHART = "learning.charts.find((c) => c.spec.title === {title})"


def chart(title):
    return CHART.format(title=json.dumps(title))


def smoothed(values, weight):
    """The weighted mean of each value and those before, in which one that is k steps older counts weight ** k."""
    means = []
    for end in range(1, len(values) + 1):
        weights = [weight ** (end - 1 - i) for i in range(end)]
        means.append(sum(w * v for w, v in zip(weights, values)) / sum(weights))
    return means


class Drawing(OpenedPage):
    def publish(self, count, **more):
        self.published = [snapshot(n, **more) for n in range(1, count + 1)]
        self.server.publish(*self.published)

    def open_at(self, fragment, count):
        self.navigate(f"{self.server.url}/#{fragment}", count)

    def navigate(self, address, count):
        """Opens an address, which the page may then write in another way."""
        self.browser.open("about:blank")
        self.browser.call("Page.navigate", url=address)
        self.wait_for(count)

    def smooth(self, weight):
        self.browser.value(f"(byId('smoothing').value = '{weight}', byId('smoothing').dispatchEvent(new Event('input')), true)")

    def data(self, title):
        return self.browser.value(chart(title) + ".plot.data.map((column) => [...column])")

    def test_a_smoothed_curve_is_the_weighted_mean_of_what_came_before_with_the_raw_one_behind_it(self):
        self.publish(30)
        self.open_at("learning", 30)
        self.smooth(0.9)
        title = "Entropy"
        self.browser.wait(f"{chart(title)}.plot.data.length === 3")
        raw = [at(s, "learner.entropy") for s in self.published]
        _, behind, shown = self.data(title)
        self.assertEqual(behind, raw)
        for value, expected in zip(shown, smoothed(raw, 0.9), strict=True):
            self.assertAlmostEqual(value, expected, places=12)
        # The newest value in the legend is that of the run.
        self.assertIn(self.browser.value(f"formatted({raw[-1]})"), self.browser.value(chart(title) + ".legend.textContent"))
        self.smooth(0)
        self.browser.wait(f"{chart(title)}.plot.data.length === 2")
        self.assertEqual(self.data(title)[1], raw)

    def test_a_gap_stays_a_gap_when_curves_are_smoothed(self):
        self.open()
        values = self.browser.value("smoothed([1, null, 3, undefined, 3], 0.5).map((value) => value === undefined ? 'none' : value)")
        self.assertEqual(values, [1, None, (3 + 0.5) / 1.5, "none", (3 + 1.5 + 0.25) / 1.75])

    def test_a_value_between_gaps_has_a_marker(self):
        self.open()
        cases = [[1], [None, 1, None], [1, 2], [None, None], [1, None, 2, 3, None, 4]]
        self.assertEqual(self.browser.value(f"{json.dumps(cases)}.map(alone)"), [[0], [1], None, None, [0, 5]])
        # The rows of other curves are undefined and no gaps.
        self.assertEqual(self.browser.value("[alone([undefined, 5, undefined]), alone([1, undefined, 2])]"), [[1], None])
        self.server.publish(*[snapshot(n, learner={"entropy": 0.5 if n == 2 else None}) for n in range(1, 4)])
        self.open_at("learning", 3)
        self.browser.wait(f"{chart('Entropy')}.plot.series[1].points._paths !== undefined")
        self.assertEqual(self.browser.value(f"{chart('Entropy')}.plot.series[1].points.filter({chart('Entropy')}.plot, 1, false)"), [1])

    def test_a_value_that_newer_points_have_not_says_where_it_is(self):
        rare = [{"dead_gradient_fraction_lag_0": 0.77 if n == 1 else None, "dead_gradient_fraction_lag_1": n / 10} for n in range(1, 5)]
        self.server.publish(*[snapshot(n, learner=one) for n, one in enumerate(rare, 1)])
        self.open_at("learning", 4)
        legend = chart("Samples without gradient, by policy lag") + ".legend.textContent"
        self.browser.wait(f"{legend}.includes('77 %')")
        self.assertEqual(self.browser.value(legend), "lag 0 77 % at 10 updateslag 1 40 %")
        # Where the page lost the run, the curves end, and no value is older than the others.
        self.browser.value("(store.gap(), showAll(), true)")
        self.browser.wait("store.rows === 5 && !asked")
        self.assertEqual(self.browser.value(legend), "lag 0 77 % at 10 updateslag 1 40 %")

    def test_evaluations_are_not_smoothed(self):
        self.server.publish(*[snapshot(n, evaluation(10 * n, 1000 * n)) for n in range(1, 6)])
        self.open_at("learning&smoothing=0.9", 5)
        drawn = [value for value in self.data("Return")[4] if value is not None]
        self.assertEqual(drawn, [1010, 1020, 1030, 1040, 1050])

    def test_a_logarithmic_axis_leaves_gaps_for_what_it_cannot_show_and_says_so(self):
        rates = [0.1, 0, 0.001, -1, 10]
        self.server.publish(*[snapshot(n, learner={"policy_lr": rate}) for n, rate in enumerate(rates, 1)])
        self.open_at("learning&y=log", 5)
        title = "Learning rates"
        self.assertEqual(self.data(title)[1], [0.1, None, 0.001, None, 10])
        self.assertEqual(self.browser.value(chart(title) + ".note.textContent"), "The logarithmic axis leaves out 2 values of 0 or less.")
        scale = self.browser.value(f"[{chart(title)}.plot.scales.y.min, {chart(title)}.plot.scales.y.max]")
        self.assertEqual(scale, [0.001, 10])
        self.browser.value("(byId('log').click(), true)")
        self.browser.wait(f"{chart(title)}.plot.data[1][1] === 0")
        self.assertEqual(self.browser.value(chart(title) + ".note.textContent"), "")

    def test_the_ends_of_a_logarithmic_axis_contain_all_values(self):
        self.open()
        cases = [[109, 390], [0.0015, 0.0015], [1, 1], [9.99, 1001], [2e-8, 3], [5, 50]]
        for (low, high), (first, last) in zip(cases, self.browser.value(f"{cases}.map(([a, b]) => logRange(null, a, b))"), strict=True):
            with self.subTest(low=low, high=high):
                self.assertLessEqual(first, low)
                self.assertGreaterEqual(last, high)
                self.assertGreater(first, 0)
                self.assertLess(first, last)
        self.assertEqual(self.browser.value("[logRange(null, null, null), logRange(null, 0, 3)]"), [[1, 10], [1, 10]])

    def test_a_logarithmic_axis_has_labels_and_a_curve_however_small_or_close_its_values_are(self):
        cases = {"Entropy": ("entropy", (1.7e-25, 1.5e-5)), "Policy loss": ("policy_loss", (0.0021, 0.0027))}
        cases |= {"Value loss": ("value_loss", (4e-300, 1e-290)), "Gradient norm": ("grad_norm", (3.0, 3.0))}
        learner = [{name: ends[n % 2] for name, ends in cases.values()} for n in range(1, 4)]
        self.server.publish(*[snapshot(n, learner=one) for n, one in enumerate(learner, 1)])
        for fragment in ("learning&y=log", "learning"):
            self.open_at(fragment, 3)
            for title, (_, ends) in cases.items():
                with self.subTest(fragment=fragment, title=title):
                    self.assertEqual(self.data(title)[1], [ends[1], ends[0], ends[1]])
                    labels = self.browser.value(f"{chart(title)}.plot.axes[1]._values")
                    self.assertGreaterEqual(len([label for label in labels if label]), 2, labels)
                    self.assertLessEqual(len(labels), 10)

    def test_the_labels_of_an_axis_are_round_numbers_within_its_ends(self):
        self.open()
        linear = [[0, 540, 6], [-0.7, 2.1, 5], [0, 1.08e-20, 5], [3.7e18, 4.3e18, 5], [1e-310, 2e-310, 5]]
        logarithmic = [[1e-25, 2e-5, 6], [1, 1000, 6], [0.002, 0.003, 6], [4e-300, 1e-290, 6], [20, 90, 6], [1e-300, 1e300, 6]]
        for function, cases in (("linearSplits", linear), ("logSplits", logarithmic)):
            for (low, high, most), labels in zip(cases, self.browser.value(f"{cases}.map((one) => {function}(...one))"), strict=True):
                with self.subTest(function=function, low=low, high=high):
                    self.assertTrue(2 <= len(labels) <= most + 3, labels)
                    self.assertTrue(all(low <= label <= high for label in labels), labels)
                    self.assertEqual(labels, sorted(set(labels)))
        self.assertEqual(self.browser.value("linearSplits(0, 540, 6)"), [0, 100, 200, 300, 400, 500])
        self.assertEqual(self.browser.value("logSplits(0.5, 2000, 6)"), [1, 10, 100, 1000])

    def test_the_address_alone_gives_the_same_view(self):
        self.publish(20)
        self.open_at("learning", 20)
        before = self.browser.value("document.documentElement.dataset.theme")
        self.browser.value("(byId('theme').click(), byId('log').click(), true)")
        self.smooth(0.6)
        self.choose_axis("updates")
        self.browser.value("(learning.zoom([50, 120]), true)")
        address = self.browser.value("location.href")
        self.browser.value("(localStorage.clear(), true)")
        self.navigate(address, 20)
        self.assertEqual(self.browser.value("location.href"), address)
        shown = "[byId('axis').value, byId('smoothing').value, byId('log').checked, document.documentElement.dataset.theme]"
        self.assertEqual(self.browser.value(shown), ["updates", "0.6", True, "light" if before == "dark" else "dark"])
        x = f"{chart('Entropy')}.plot.scales.x"
        self.browser.wait(f"{x}.min === 50 && {x}.max === 120")
        self.browser.value("([...document.querySelectorAll('button')].find((b) => b.textContent === 'Show all points').click(), true)")
        self.browser.wait(f"{x}.min === 10 && {x}.max === 200")
        self.assertNotIn("zoom", self.browser.value("location.hash"))

    def test_values_in_the_address_that_make_no_sense_are_left_aside(self):
        self.publish(5)
        self.open_at("nonsense&x=days&smoothing=7&zoom=9,1&theme=pink&y=5", 5)
        shown = "[byId('axis').value, drawing.smoothing, drawing.log, learning.range]"
        self.assertEqual(self.browser.value(shown), ["env_steps", 0.99, False, None])

    def test_the_csv_file_of_a_chart_has_the_points_as_they_are(self):
        self.publish(12)
        self.open_at("learning&smoothing=0.9&y=log", 12)
        rows = list(csv.DictReader(io.StringIO(self.browser.value(chart("Policy lag") + ".csv()"))))
        paths = ["env_steps", "updates", "elapsed_seconds", "lag.p50", "lag.p95", "lag.max", "lag.cap"]
        self.assertEqual(list(rows[0]), paths)
        self.assertEqual([[float(row[path]) for path in paths] for row in rows], [[at(s, path) for path in paths] for s in self.published])

    def test_the_picture_of_a_chart_is_a_png_with_more_than_the_chart(self):
        self.publish(12)
        self.open_at("learning", 12)
        picture = chart("Entropy") + ".picture()"
        data = self.browser.value(picture + ".toDataURL()")
        self.assertTrue(base64.b64decode(data.removeprefix("data:image/png;base64,")).startswith(b"\x89PNG"))
        drawn, whole = self.browser.value(f"[{chart('Entropy')}.plot.ctx.canvas.height, {picture}.height]")
        self.assertGreater(whole, drawn + 40)

    def test_every_control_has_a_name_and_can_be_reached_by_keyboard(self):
        self.publish(5)
        self.open_at("learning", 5)
        nameless = """[...document.querySelectorAll('button, input, select, summary')].filter((control) =>
            control.getClientRects().length > 0 && !(control.getAttribute('aria-label') || control.textContent.trim() ||
                                                     [...(control.labels || [])].some((label) => label.textContent.trim()))).length"""
        self.assertEqual(self.browser.value(nameless), 0)
        controls = "[...document.querySelectorAll('button, input, select')]"
        unreachable = controls + ".filter((control) => control.tabIndex < 0 && control.getAttribute('role') !== 'tab').length"
        self.assertEqual(self.browser.value(unreachable), 0)
        names = self.browser.value("[...document.querySelectorAll('.files button')].map((b) => b.getAttribute('aria-label'))")
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    main()
