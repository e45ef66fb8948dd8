#!/usr/bin/env python3
"""What `troupe dash` shows of runs that have ended, and of old addresses: dash_past_test.py BUILD_DIR."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support import browser  # noqa: E402
from tests.support.dash_page import DashPage  # noqa: E402
from tests.support.opened_page import SKIPPED, snapshot  # noqa: E402

LOG = """2026-11-27 07:00:55.178 info    train: dataset with seed 1, process 23473
2026-11-27 07:01:21.242 warning stats: alarm samples_dropped (warning) at update 66: 6 % of the samples were dropped: raise it
2026-11-27 07:01:37.247 info    stats: alarm samples_dropped is over at update 205
2026-11-27 07:02:02.332 info    train: bottleneck: env stepping 83 % of the time, inference 10 %
2026-11-27 07:02:02.332 info    train: ended: stop.updates reached
"""
NO_VERDICT = {"what": "", "why": "", "advice": "", "limit": "", "resource": "unknown", "share": None, "gain": None, "waits": ""}
EVENTS = "[...events.list.children].map((event) => [...event.childNodes].map((part) => part.textContent))"


class Past(DashPage):
    def add_ended(self, log=LOG, **newest):
        """The folder of a run that has ended, with this newest record."""
        folder = pathlib.Path(self.folders.add("a"))
        (folder / "log.txt").write_text(log)
        with open(folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(snapshot(21, **{"training_ended": True, "bottleneck": NO_VERDICT, **newest})) + "\n")
        return str(folder)

    def test_a_run_that_has_ended_has_its_alarms_at_their_times_and_its_bottlenecks(self):
        folder = self.add_ended()
        self.serve()
        self.open("events&open=" + folder)
        self.browser.wait("events.list.children.length === 3")
        bottlenecks, over, raised = self.browser.value(EVENTS)
        told = "env stepping 83 % of the time, inference 10 %"
        self.assertEqual(bottlenecks, ["2026-11-27 07:02:02", f"Bottlenecks while the run trained: {told}."])
        self.assertEqual(over, ["2026-11-27 07:01:37", "Alarm samples_dropped was over at update 205, before this page was opened."])
        self.assertEqual(raised[0], "2026-11-27 07:01:21")
        self.assertIn("samples_dropped (warning), raised at update 66, before this page was opened: 6 % of", raised[1])
        self.browser.wait("byId('verdict').textContent !== ''")
        self.assertEqual(self.browser.value("byId('verdict').textContent"), "Bottlenecks while it trained: " + told)

    def test_the_verdict_and_the_alarms_of_a_run_that_crashed_are_of_the_past(self):
        verdict = {**NO_VERDICT, "what": "few environments", "why": "groups wait", "resource": "workers", "limit": "workers", "share": 0.5}
        raised = {"alarms": {"kl_high": 1}, "alarm_texts": {"kl_high": "the KL"}}
        folder = self.add_ended("", training_ended=False, bottleneck=verdict, eta_seconds=2597, **raised)
        (pathlib.Path(folder) / "summary.json").unlink()
        self.serve()
        self.open("flow&open=" + folder)
        self.browser.wait("byId('state').textContent === 'crashed' && byId('alarms').children.length === 1 && !asked")
        header = "byId('verdict').textContent + ' ' + byId('verdict-figures').textContent"
        told = "Last bottleneck: few environments; groups wait it is busy or waited for50 % of the time"
        self.assertEqual(self.browser.value(header), told)
        self.assertIn("raised in the last figures: kl_high", self.browser.value("byId('alarms').textContent"))
        self.assertNotIn("left", self.browser.value("byId('progress-text').textContent"))
        self.assertEqual(self.browser.value("document.querySelectorAll('.flow .limit').length"), 0)

    def test_an_alarm_that_the_log_has_not_any_more_has_no_time(self):
        folder = self.add_ended("", alarms={"kl_high": 2}, alarm_texts={"kl_high": "the KL"})
        self.serve()
        self.open("events&open=" + folder)
        self.browser.wait("events.list.children.length === 1")
        self.assertEqual(self.browser.value(EVENTS), [["earlier", "Alarm kl_high (error), raised before this page was opened: the KL"]])

    def test_runs_of_an_old_address_that_are_gone_do_not_count_as_chosen(self):
        folders = [self.folders.add(f"r{i}", seed=i) for i in range(3)]
        self.serve()
        gone = "".join(f"&run=/gone/{i}" for i in range(30))
        self.open("runs" + gone + "".join("&run=" + folder for folder in folders[:2]))
        self.assertEqual(self.browser.value("[...list.chosen]"), folders[:2])
        self.assertNotIn("gone", self.browser.value("location.hash"))
        self.assertIn("2 chosen of at most 20", self.browser.value("list.count.textContent"))
        self.assertFalse(self.browser.value("[...document.querySelectorAll('.runs [type=checkbox]')].some((box) => box.disabled)"))

    def test_a_comparison_of_several_seeds_begins_with_one_curve_for_each_config(self):
        runs = [self.folders.add(f"r{i}", seed=i, rate=rate, factor=i) for i, rate in ((1, 0.5), (2, 0.5), (3, 0.25), (4, 0.25))]
        self.serve()
        self.open()
        self.choose(*runs)
        self.browser.wait("compare.charts[0].present?.length === 2")
        self.assertEqual(self.browser.value("compare.by.value"), "config")
        self.assertTrue(all(name.endswith("(2 runs)") for name in self.curves()), self.curves().keys())
        # Runs that all have other settings are drawn each alone, until somebody chooses.
        self.choose(runs[0], runs[2])
        self.browser.wait("compare.by.value === 'none' && compare.charts[0].present.length === 2")
        self.browser.value("(compare.by.value = 'config', compare.by.dispatchEvent(new Event('change')), true)")
        self.assertIn("group=config", self.browser.value("location.hash"))

    def test_an_error_that_comes_late_leaves_newer_groups_alone(self):
        self.folders.add("a")
        self.serve()
        self.open()
        script = """(async () => {
            const real = fetched;
            let fail;
            fetched = () => new Promise((_, reject) => { fail = reject; });
            const late = compare.readGroups("learner.kl", "old");
            fetched = real;
            compare.groups.set("learner.kl", { of: "new", groups: ["the newer"], notes: [] });
            fail(new Error("late"));
            await late;
            return compare.groups.get("learner.kl");
        })()"""
        self.assertEqual(self.browser.value(script), {"of": "new", "groups": ["the newer"], "notes": []})


if __name__ == "__main__":
    if browser.installed() is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(SKIPPED)
    os.environ.pop("SSH_CONNECTION", None)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
