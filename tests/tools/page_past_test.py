#!/usr/bin/env python3
"""What the dashboard keeps of the past, and its units and shares, in a real browser: page_past_test.py BUILD_DIR."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.opened_page import OpenedPage, main, snapshot  # noqa: E402

FEW = {"what": "few environments", "why": "groups wait", "advice": "more workers", "resource": "workers", "limit": "workers"}
NONE = {"what": "", "why": "", "advice": "", "limit": "", "resource": "unknown"}


class Past(OpenedPage):
    def verdict(self, n):
        """The line of the verdict after the n-th snapshot."""
        self.browser.wait(f"newest !== null && newest.env_steps === {1000 * n} && !asked")
        return self.browser.value("byId('verdict').textContent")

    def test_the_last_verdict_is_kept_when_training_ends(self):
        self.open()
        self.server.publish(snapshot(1, bottleneck=FEW))
        self.assertEqual(self.verdict(1), "Bottleneck: few environments; groups wait; more workers")
        self.server.publish(snapshot(2, bottleneck=NONE, training_ended=True))
        self.assertEqual(self.verdict(2), "Last bottleneck: few environments; groups wait; more workers")
        self.assertIn("Training has ended. The last bottleneck was: few environments; groups wait.", self.events())

    def test_a_page_that_is_opened_after_training_has_the_last_verdict(self):
        after = [snapshot(n, bottleneck=NONE, training_ended=True) for n in (3, 4)]
        self.server.publish(snapshot(1, bottleneck={**FEW, "what": "older"}), snapshot(2, bottleneck=FEW), *after)
        self.open()
        self.browser.wait("events.bottleneck !== null")
        self.browser.wait("byId('verdict').textContent === 'Last bottleneck: few environments; groups wait; more workers'")

    def test_the_verdict_of_a_run_that_trains_is_not_an_older_one(self):
        self.open()
        self.server.publish(snapshot(1, bottleneck=FEW))
        self.assertIn("few environments", self.verdict(1))
        self.server.publish(snapshot(2, bottleneck=NONE))
        self.assertEqual(self.verdict(2), "")

    def test_alarms_of_the_log_are_told_once(self):
        log = [
            "2026-11-27 07:01:21.242 warning stats: alarm kl_high (warning) at update 66: the KL: less",
            "2026-11-27 07:01:37.247 info    stats: alarm kl_high is over at update 205",
        ]
        self.open("events")
        # Another run has come to the page, whose log has not arrived yet.
        self.browser.wait("events.logOfBefore !== null")
        self.browser.value(f"""(events.clear(), events.compare({json.dumps(snapshot(21))}),
            events.compare({json.dumps(snapshot(22, alarms={"kl_high": 1}, alarm_texts={"kl_high": "the KL: less"}))}),
            events.past({json.dumps(log)}), events.past({json.dumps(log)}), true)""")
        told = ["Alarm kl_high was over at update 205, before this page was opened.", "Alarm kl_high (warning): the KL: less"]
        self.assertEqual(self.events(), told)

    def test_the_log_is_asked_for_when_the_events_are_shown_and_says_what_the_page_did_not_see(self):
        self.open()
        self.server.publish(snapshot(10))
        self.browser.wait("newest !== null && newest.env_steps === 10000")
        self.assertEqual([url for url in self.browser.requests if url.endswith("/log")], [])
        self.browser.value("chooseTab(views.indexOf(events), false)")
        self.browser.wait("events.logOfBefore !== null")
        told = self.browser.value("""(events.logOfBefore = null, events.hasToldBefore = false, events.past([
            "2026-11-27 07:01:21.242 warning stats: alarm kl_high (warning) at update 4: the KL",
            "2026-11-27 07:01:37.247 warning stats: alarm ess_low (warning) at update 1000000: the ESS"]),
            [...events.list.children].map((event) => event.lastChild.textContent))""")
        self.assertEqual(
            told,
            [
                "Alarm ess_low (warning), raised at update 1000000: the ESS",
                "Alarm kl_high (warning), raised at update 4, before this page was opened: the KL",
            ],
        )

    def test_times_of_requests_are_in_milliseconds_and_tell_of_what_they_are(self):
        times = {"le": [0.0005, 0.001], "count": [3, 1], "sum": 0.003, "p50": 0.00042, "p99": 0.001}
        self.server.publish(snapshot(1, inference={"up": 1, "p50_ms": 0.84, "p99_ms": 2}, histograms={"inference_seconds": times}))
        self.open("flow")
        self.browser.wait("document.querySelector('.bars') !== null && !document.querySelector('.bars').closest('.card').hidden")
        panel = self.browser.value("byId('panels').textContent")
        self.assertIn("newest batches, by their oldest request0.84 ms", panel)
        self.assertIn("median 0.42 ms", panel)
        self.assertIn("up to 0.5 ms", panel)
        self.assertIn("Of all values since this start of the run.", panel)

    def test_a_batch_of_a_token_run_is_counted_in_tokens(self):
        self.server.publish(snapshot(1, histograms={"batch_rows": {"le": [64, 128], "count": [1, 3], "sum": 400, "p50": 128, "p99": 128}}))
        self.open("flow")
        self.browser.wait("newest !== null")
        self.browser.value("(wordsOfRun = kTokenWords, showAll(), true)")
        self.browser.wait("byId('panels').textContent.includes('median 128 tokens')")
        self.assertNotIn("128 answers", self.browser.value("byId('panels').textContent"))

    def test_shares_add_to_100_percent(self):
        self.open()
        for counts in ([1, 1, 1], [995, 4, 1], [1, 0, 0], [333, 333, 334, 1], [10**9, 1], [2, 2, 2, 2, 2, 2, 2]):
            shares = self.browser.value(f"sharesOf({json.dumps(counts)})")
            tenths = [round(10 * float(share.removesuffix(" %"))) for share in shares]
            self.assertEqual(sum(tenths), 1000, shares)
            for count, part in zip(counts, tenths, strict=True):
                self.assertLess(abs(part - 1000 * count / sum(counts)), 1, shares)
        self.assertEqual(self.browser.value("sharesOf([0, 0])"), ["\u2013", "\u2013"])

    def test_figures_of_the_verdict_read_from_their_label_to_their_value(self):
        self.open()
        self.server.publish(snapshot(1, bottleneck={**FEW, "share": 0.5}))
        self.verdict(1)
        left = "byId('verdict-figures').querySelector('{}').getBoundingClientRect().left"
        self.assertLess(self.browser.value(left.format("dt")), self.browser.value(left.format("dd")))


if __name__ == "__main__":
    main()
