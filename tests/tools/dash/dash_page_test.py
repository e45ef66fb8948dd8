#!/usr/bin/env python3
"""`troupe dash` in a real browser, on run folders that the test makes: dash_page_test.py BUILD_DIR."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support import browser  # noqa: E402
from tests.support.dash_page import DashPage  # noqa: E402
from tests.support.opened_page import BUILD, SKIPPED, at, evaluation  # noqa: E402


class Dash(DashPage):
    def test_the_list_has_the_runs_and_what_is_no_run_is_one_line(self):
        self.folders.add("a", seed=1)
        self.folders.add("b", seed=2, ended=False)
        (self.folders.path / "other").mkdir()
        self.serve()
        self.open()
        table = "[...document.querySelectorAll('.runs tbody tr')]"
        rows = self.browser.value(table + ".map((row) => [...row.children].map((cell) => cell.textContent))")
        self.assertEqual([pathlib.Path(row[1]).name for row in rows], ["a", "b"])
        heads = self.browser.value("[...document.querySelectorAll('.runs th')].map((head) => head.textContent)")
        expected = ["compare", "run", "state", "env steps", "score", "best score", "mean steps/s", "differs in", "config", "reason"]
        self.assertEqual(heads, expected)
        self.assertEqual([row[2] for row in rows], ["finished", "crashed"])
        self.assertEqual([row[3] for row in rows], ["20,000", "20,000"])
        self.assertEqual([row[6] for row in rows], ["500", "500"])  # 1000 steps in each 2 seconds, whatever the records say
        self.assertEqual([row[7] for row in rows], ["seed=1", "seed=2"])
        problems = self.browser.value("[...list.problems.children].map((line) => line.textContent)")
        self.assertEqual(len(problems), 1)
        self.assertIn("1 folder has no run and is left out: other", problems[0])

    def test_the_list_says_which_run_is_sick_and_finds_runs_by_their_tags(self):
        a, b = self.folders.add("a"), self.folders.add("b", seed=2)
        alarms = ({"kl_extreme": 2, "entropy_low": 1}, {"entropy_low": 1, "return_collapse": 2})
        with open(pathlib.Path(b) / "metrics.jsonl", "a") as file:
            for n, raised in enumerate(alarms, 21):
                file.write(json.dumps({**self.folders.records(n, n)[0], "alarms": raised}, separators=(",", ":")) + "\n")
        (pathlib.Path(b) / "about.json").write_text(json.dumps({"name": "slow live", "tags": ["slow"], "note": "", "starts": []}))
        last = {"last_start": {"bottleneck": {"what": "few environments", "share": 0.71}}}
        (pathlib.Path(b) / "summary.json").write_text(json.dumps({"reason": "stop.updates", **last}))
        self.serve()
        self.open("runs&filter=slow")
        heads = self.browser.value("[...document.querySelectorAll('.runs th')].map((head) => head.textContent)")
        rows = self.browser.value(
            "[...document.querySelectorAll('.runs tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText))"
        )
        self.assertEqual(len(rows), 1)
        shown = dict(zip(heads, rows[0], strict=True))
        self.assertEqual(shown["run"].split(), ["b", "slow", "live"])
        expected = ["return_collapse (error)", "entropy_low (warning)", "kl_extreme (error, over)"]
        self.assertEqual(shown["alarms"].split("\n"), expected)
        self.assertEqual([shown[name] for name in ("bottleneck", "tags", "reason")], ["few environments 71 %", "slow", "stop.updates"])
        self.browser.value("(document.querySelector('.runs button.link').click(), true)")
        self.browser.wait("byId('over').textContent === 'Alarms that are over: kl_extreme (error)'")
        self.open("runs&sort=alarms")
        names = "[...document.querySelectorAll('.runs button.link')].map((button) => button.title)"
        self.assertEqual(self.browser.value(names), [b, a])

    def test_names_are_without_the_folder_that_all_runs_are_in(self):
        self.folders.add("a")
        self.serve()
        self.open()
        cases = [["r/x/a", "r/x/b"], ["r/a", "r/a/b"], ["a", "b"], ["/r/ab", "/r/ac"], ["r/a"], []]
        self.assertEqual(self.browser.value(f"{json.dumps(cases)}.map(commonFolder)"), ["r/x/", "r/", "", "/r/", "r/", ""])

    def test_a_comparison_of_few_runs_begins_with_all_of_them_until_somebody_chooses(self):
        folders = [self.folders.add(f"r{i}", seed=i) for i in range(2)]
        self.serve()
        self.open()
        self.assertEqual(self.browser.value("list.compared.map((run) => run.run)"), folders)
        folders.append(self.folders.add("r2", seed=2))
        self.browser.wait("list.compared.length === 3")
        self.assertNotIn("run=", self.browser.value("location.hash"))
        self.browser.value("(list.choose([]), true)")
        self.open(self.browser.value("location.hash").lstrip("#"))
        self.assertEqual(self.browser.value("list.compared.length"), 0)
        for i in range(3, 13):
            self.folders.add(f"r{i}", seed=i)
        self.open()
        self.browser.wait("list.runs.length === 13")
        self.assertEqual(self.browser.value("list.compared.length"), 0)

    def test_the_list_is_filtered_and_sorted(self):
        for name, seed, count in (("a", 1, 20), ("b", 2, 30), ("c", 12, 10)):
            self.folders.add(name, seed=seed, count=count)
        self.serve()
        self.open("runs&sort=steps&filter=seed=1")
        names = "[...document.querySelectorAll('.runs tbody tr')].map((row) => row.children[1].textContent.split('/').pop())"
        self.assertEqual(self.browser.value(names), ["a", "c"])
        self.assertIn("2 of 3 runs shown", self.browser.value("list.count.textContent"))
        self.browser.value("(list.filter.value = '', list.filter.dispatchEvent(new Event('input')), true)")
        self.assertEqual(self.browser.value(names), ["b", "a", "c"])

    def test_chosen_runs_are_drawn_over_each_other_with_the_numbers_of_their_files(self):
        a, b = self.folders.add("a"), self.folders.add("b", seed=2, factor=3)
        self.serve()
        self.open("runs&group=none")
        self.choose(a, b)
        self.wait_for_curves(2, 20)
        self.assertEqual(self.curves(), {a: [(1000 * n, n) for n in range(1, 21)], b: [(1000 * n, 3 * n) for n in range(1, 21)]})
        dots = self.curves("Return: evaluation return")[a]
        self.assertEqual(dots, [(5000, 1050), (15000, 1150)])

    def test_a_curve_grows_with_the_file_of_its_run(self):
        a = self.folders.add("a", ended=False)
        self.serve()
        self.open()
        self.choose(a)
        self.wait_for_curves(1, 20)
        self.folders.append("a", 21, 50)
        self.wait_for_curves(1, 50)
        self.assertEqual(self.curves()[a][-1], (50_000, 50))

    def test_a_run_that_is_deleted_keeps_its_curve_and_is_named(self):
        a, b = self.folders.add("a"), self.folders.add("b", seed=2)
        self.serve()
        self.open("runs&group=none")
        self.choose(a, b)
        self.wait_for_curves(2, 20)
        shutil.rmtree(a)
        self.browser.wait("list.problems.textContent.includes('was deleted; what was read of it is still shown')")
        self.browser.wait("compare.notes.textContent.includes('metrics.jsonl')")
        self.assertEqual(len(self.curves()[a]), 20)
        self.assertIn("deleted", self.browser.value("list.table.textContent"))

    def test_a_broken_line_is_left_out_and_counted(self):
        a = self.folders.add("a")
        with open(pathlib.Path(a) / "metrics.jsonl", "a") as file:
            file.write('{"env_steps": 3, "broken\n')
        self.folders.append("a", 21, 22)
        self.serve()
        self.open()
        self.choose(a)
        self.wait_for_curves(1, 22)
        self.browser.wait("compare.notes.textContent.includes('1 line of metrics.jsonl is no record and is left out')")

    def test_a_long_run_is_drawn_with_fewer_points_and_says_so(self):
        a = self.folders.add("a", count=10)
        record = json.dumps(self.folders.records(1, 1)[0])
        with open(pathlib.Path(a) / "metrics.jsonl", "w") as file:
            for n in range(1, 9001):
                file.write(record.replace('"env_steps": 1000,', f'"env_steps": {n},', 1) + "\n")
        self.serve()
        self.open()
        self.choose(a)
        self.browser.wait("compare.notes.textContent.includes('2,250 of 9,000 points')")
        self.assertEqual(self.browser.value("compare.charts[0].plot.data[0].length"), 2250)

    def test_groups_join_the_runs_with_the_same_value_of_a_setting(self):
        runs = [self.folders.add(f"r{i}", seed=i, rate=rate, factor=i) for i, rate in ((1, 0.5), (2, 0.5), (3, 0.5), (4, 0.25))]
        self.serve()
        self.open("runs&group=none")
        self.choose(*runs)
        self.wait_for_curves(4, 20)
        self.browser.value("(compare.by.value = '=trainer.policy_lr', compare.by.dispatchEvent(new Event('change')), true)")
        self.browser.wait("compare.charts[0].present.length === 2")
        joined = self.curves()["trainer.policy_lr=0.5 (3 runs)"]
        self.assertEqual(len(joined), 201)
        for x, mean in joined:
            self.assertAlmostEqual(mean, 2 * x / 1000, places=6)  # the interquartile mean of three values is their mean
        self.assertIn("group=%3Dtrainer.policy_lr", self.browser.value("location.hash"))

    def test_an_evaluation_that_ended_late_leaves_the_curves_in_order(self):
        a = self.folders.add("a")
        late = {**self.folders.records(8, 8)[0], "eval": evaluation(80, 8000)}
        with open(pathlib.Path(a) / "metrics.jsonl", "a") as file:
            file.write(json.dumps(late, separators=(",", ":")) + "\n")
        self.serve()
        self.open("learning&open=" + a)
        self.browser.wait("store.rows >= 21 && newest !== null && learning.charts[0].plot !== null")
        for axis in ("env_steps", "updates", "elapsed_seconds"):
            values = self.browser.value(f"[...store.column('{axis}')]")
            self.assertEqual(values, sorted(values))
        evaluated = "store.column('eval.return_mean')", "store.column('env_steps')[row]"
        dots = self.browser.value(f"{evaluated[0]}.flatMap((y, row) => typeof y === 'number' ? [[{evaluated[1]}, y]] : [])")
        self.assertIn([8000, 1080], dots)
        self.assertEqual(self.browser.value("newest.env_steps"), 20_000)

    def test_the_words_are_those_of_the_runs_that_are_shown(self):
        kinds = "[[], [{tokens: true}], [{tokens: false}], [{tokens: true}, {tokens: false}]].map((runs) => wordsOf(runs).steps)"
        self.folders.add("a")
        self.serve()
        self.open()
        self.assertEqual(self.browser.value(kinds), ["env steps", "answers", "env steps", "env steps or answers"])
        heads = "[...document.querySelectorAll('.runs th')].map((head) => head.textContent)"
        self.assertEqual([self.browser.value(heads)[i] for i in (3, 6)], ["env steps", "mean steps/s"])
        self.browser.value("(list.runs = list.runs.map((run) => ({...run, tokens: true})), list.fill(), showAll(), true)")
        self.assertEqual([self.browser.value(heads)[i] for i in (3, 6)], ["answers", "mean answers/s"])
        self.browser.wait("byId('axis').options[0].textContent === 'answers'")

    def test_one_run_is_opened_with_its_curves_config_and_log(self):
        a = self.folders.add("a", seed=5)
        self.serve()
        self.open()
        self.assertEqual(self.browser.value("[...document.querySelectorAll('[role=tab]')].filter((tab) => !tab.hidden).length"), 3)
        self.browser.value("(document.querySelector('.runs button.link').click(), true)")
        for _ in ("by a click", "by the address"):
            self.browser.wait("store.rows >= 20 && newest !== null && learning.charts[0].plot !== null")
            returns = self.browser.value("[...store.column('episodes.return_mean')].filter((value) => typeof value === 'number')")
            self.assertEqual(returns, [at(record, "episodes.return_mean") for record in self.folders.records(1, 20)])
            self.browser.wait("byId('state').textContent === 'finished'")
            self.assertEqual(self.browser.value("byId('run').textContent"), a)
            self.assertIn("the newest line", self.browser.value("events.log.textContent"))
            self.assertIn(["seed", "5"], self.browser.value("config.settings"))
            address = self.browser.value("location.hash").lstrip("#")
            self.open(address)

    def test_the_address_alone_gives_the_same_comparison(self):
        a, b = self.folders.add("a"), self.folders.add("b", seed=2)
        self.folders.add("c", seed=3)
        self.serve()
        self.open("runs&group=none")
        self.choose(a, b)
        self.wait_for_curves(2, 20)
        self.browser.value("(compare.zoom([3000, 9000]), true)")
        address = self.browser.value("location.hash").lstrip("#")
        self.open(address)
        self.wait_for_curves(2, 20)
        self.assertEqual(set(self.curves()), {a, b})
        self.browser.wait("compare.charts[0].plot.scales.x.min === 3000 && compare.charts[0].plot.scales.x.max === 9000")

    def test_other_paths_hosts_and_protocols_are_refused(self):
        self.folders.add("a")
        self.serve()
        self.open()

        def status(path, **headers):
            try:
                return urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers)).status
            except urllib.error.HTTPError as error:
                return error.code

        self.assertEqual(status("/data/runs"), 200)
        self.assertEqual(status("/health"), 200)
        self.assertEqual([status(path) for path in ("/stats", "/metrics", "/stream", "/data/", "/data/run?run=/etc")], [404] * 5)
        self.assertEqual(status("/data/runs", Host="evil.example"), 421)
        self.assertEqual(status("/data/runs", Origin="http://evil.example"), 403)
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), browser.PATIENCE) as line:
            line.sendall(b"\n")
            self.assertIn("this port speaks HTTP", line.makefile().readline())

    def test_a_missing_folder_and_a_taken_port_are_one_line(self):
        self.folders.add("a")
        self.serve()
        port = self.url.rsplit(":", 1)[1]
        for words, begin in ((["/nowhere"], "troupe: /nowhere"), ([str(self.folders.path), "--port", port], "troupe: --port ")):
            refused = subprocess.run([f"{BUILD}/troupe", "dash", *words], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(refused.returncode, 2)
            self.assertTrue(refused.stderr.startswith(begin), refused.stderr)
            self.assertEqual(refused.stderr.count("\n"), 1, refused.stderr)

    def test_a_signal_ends_it(self):
        self.folders.add("a")
        self.serve()
        self.assertEqual(self.end(), 130)


if __name__ == "__main__":
    if browser.installed() is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(SKIPPED)
    os.environ.pop("SSH_CONNECTION", None)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
