"""`troupe dash` in a real browser, on run folders that a test makes."""

import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

from tests.support import browser
from tests.support.opened_page import BUILD, evaluation, snapshot


class Folders:
    """Folders of runs, as runs leave them."""

    def __init__(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.temporary.name) / "runs"
        self.path.mkdir()

    def add(self, name, seed=1, rate=0.001, count=20, factor=1.0, ended=True):
        folder = self.path / name
        folder.mkdir()
        config = {"name": "cartpole", "env": {"id": "cartpole"}, "seed": seed, "trainer": {"policy_lr": rate}}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "log.txt").write_text("began\nthe newest line\n")
        self.append(name, 1, count, factor)
        if ended:
            (folder / "summary.json").write_text(json.dumps({"reason": "stop.updates", "env_steps": 1000 * count, "updates": 10 * count}))
        return str(folder)

    def records(self, first, last, factor=1.0):
        records = []
        for n in range(first, last + 1):
            record = snapshot(n, evaluation(10 * n, 1000 * n) if n % 10 == 5 else None)
            if n % 10 != 5:
                record["eval"] = None
            record["episodes"] = {**record["episodes"], "return_mean": factor * n}
            records.append(record)
        return records

    def append(self, name, first, last, factor=1.0):
        with open(self.path / name / "metrics.jsonl", "a") as file:
            file.writelines(json.dumps(record) + "\n" for record in self.records(first, last, factor))


class DashPage(unittest.TestCase):
    """A browser, and folders of runs that are not served yet."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.folders = Folders()
        self.addCleanup(self.folders.temporary.cleanup)
        self.browser.errors.clear()
        self.browser.requests.clear()

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        for url in self.browser.requests:
            self.assertTrue(url.startswith((self.url, "data:", "about:", "blob:" + self.url)), url)

    def serve(self, *words):
        self.process = subprocess.Popen(
            [f"{BUILD}/troupe", "dash", *(words or [str(self.folders.path)])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(self.end)
        self.addCleanup(self.browser.open, "about:blank")  # before the server ends, which the page would ask again
        self.url = self.process.stdout.readline().split()[-1].rstrip("/")

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=browser.PATIENCE)
        return self.process.returncode

    def open(self, fragment="runs"):
        self.browser.open("about:blank")
        self.browser.call("Page.navigate", url=f"{self.url}/#{fragment}")
        self.browser.wait("list !== null && list.received !== ''")

    def choose(self, *folders):
        self.browser.value(f"(list.choose({json.dumps(folders)}), chooseTab(views.indexOf(compare), false), true)")

    def curves(self, title="Return"):
        """What a chart of the comparison has drawn: the points of each curve."""
        chart = f"compare.charts.find((c) => c.title === {json.dumps(title)})"
        x, *columns = self.browser.value(f"{chart}.plot ? {chart}.plot.data.map((column) => [...column]) : [[]]")
        names = self.browser.value(f"({chart}.present || []).map((curve) => compare.by.value === 'none' ? curve.path : curve.label)")
        return {name: [(a, b) for a, b in zip(x, column) if b is not None] for name, column in zip(names, columns)}

    def wait_for_curves(self, count, points):
        chart = "compare.charts[0]"
        self.browser.wait(f"{chart}.plot && {chart}.present.length === {count} && {chart}.plot.data[0].length === {points}")
