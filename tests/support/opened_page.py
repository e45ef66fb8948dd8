"""The dashboard in a real browser, on snapshots that a test makes: scripts TEST.py BUILD_DIR, skipped without Chromium."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from tests.support import browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.path.abspath(sys.argv[1])
SKIPPED = 77
COUNTS = ("updates", "env_steps", "episodes", "failed_episodes")
LEARNER = "kl rollout_kl kl_penalty clip_fraction dead_gradient_fraction outside_fraction entropy ess rollout_ess policy_loss value_loss"
LEARNER += " explained_variance grad_norm policy_lr value_lr answer_tokens computed_tokens "
LEARNER += " ".join(f"dead_gradient_fraction_lag_{lag}" for lag in (0, 1, 2, 4, 8))


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
        "answers": {
            **{"produced_length": 40 + n % 9, "trained_length": 38 + n % 7, "dropped_length": 90 + n % 5},
            **{"length_min": 1 + n % 6, "length_p50": 30 + n % 8, "length_p95": 70 + n % 3, "length_max": 100 + n % 4},
            **{"turns_mean": 1 + (n % 11) / 10, "turns_max": 3 + n % 2, "groups_alike": (n % 13) / 13, "cut_fraction": (n % 17) / 17},
        },
        "lag": {"p50": n % 3, "p95": 2 + n % 5, "max": 4 + n % 7, "cap": 16},
        "episodes": {"count": n, "return_mean": 3.0 * n, "return_std": 1 + n % 4, "length_mean": 20 + n, "success_rate": (n % 50) / 50},
        "busy": {"workers": (n % 10) / 10, "inference": (n % 9) / 10, "trainer": (n % 8) / 10, "machine": (n % 7) / 10},
        "learner": {name: (i + 1) / (n + 10 + i) for i, name in enumerate(LEARNER.split())},
        "eval": {
            name: (evaluation or {}).get(name)
            for name in (*COUNTS, "return_mean", "return_std", "length_mean", "success_rate", "cut_fraction")
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
    return {**counts, **returns, "length_mean": 7 + updates, "success_rate": 0.25, "cut_fraction": 0.125}


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


class OpenedPage(unittest.TestCase):
    """A browser, and the server of a page that shows no run yet."""

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)
        self.addCleanup(self.browser.open, "about:blank")  # before the server ends, which the page would ask again
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
                    unit = self.browser.value(f"learning.charts.find((c) => c.spec.title === {json.dumps(title)}).spec.unit ?? null")
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

    def choose_axis(self, name):
        self.browser.value(f"(byId('axis').value = '{name}', byId('axis').dispatchEvent(new Event('change')), true)")

    def events(self):
        """The events, oldest first."""
        return self.browser.value("[...events.list.children].map((event) => event.lastChild.textContent)")[::-1]

    def dots(self, path):
        """The dots of a curve of evaluations: (x, y)."""
        curves = [(chart["x"], curve["y"]) for chart in self.charts().values() for curve in chart["curves"] if curve["path"] == path]
        return [(x, y) for xs, ys in curves for x, y in zip(xs, ys) if y is not None]


def main():
    """Runs the tests of the script."""
    if browser.installed() is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
