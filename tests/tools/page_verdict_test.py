#!/usr/bin/env python3
"""The verdict and the histograms of the dashboard in a real browser: page_verdict_test.py BUILD_DIR."""

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
        resource, share, waits = (
            ["too little of", "env stepping"],
            ["busy or waited for", "63 % of the time"],
            ["what waits for it", "trainer"],
        )
        all_known = {**VERDICT, "share": 0.63, "waits": "trainer", "gain": 0.4}
        self.assertEqual(self.figures(1, all_known), [resource, share, waits, ["with twice as much", "40 % faster"]])
        self.assertEqual(self.figures(2, {**all_known, "gain": None}), [resource, share, waits])
        self.assertEqual(self.figures(3, {**VERDICT, "share": None, "waits": "", "gain": None}), [resource])

    def test_a_run_that_nothing_limits_has_no_such_figures(self):
        self.open()
        for n, name in enumerate(("none", "unknown", None), 1):
            self.assertEqual(self.figures(n, {**VERDICT, "resource": name}), [])


if __name__ == "__main__":
    main()
