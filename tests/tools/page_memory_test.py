#!/usr/bin/env python3
"""A long run in the dashboard, in a real browser: its memory and its requests: page_memory_test.py BUILD_DIR."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.support.opened_page import OpenedPage, main, snapshot  # noqa: E402

SNAPSHOTS = 3600  # two hours at one every 2 s
MOST_GROWTH = 5_000_000  # bytes
HISTOGRAM = {"le": [1, 2, 4, 8], "sum": 300, "p50": 2, "p99": 4}


def long_snapshot(n):
    histograms = {name: {**HISTOGRAM, "count": [n, 2 * n, n, 1]} for name in ("lag", "batch_rows", "update_seconds")}
    return snapshot(n, histograms=histograms)


class Memory(OpenedPage):
    def heap(self):
        """The bytes in use after garbage collection."""
        for _ in range(3):
            self.browser.call("HeapProfiler.collectGarbage")
        return self.browser.call("Runtime.getHeapUsage")["usedSize"]

    def test_the_memory_of_the_page_hardly_grows_in_a_long_run(self):
        self.browser.call("HeapProfiler.enable")
        self.open()
        self.server.publish(*[long_snapshot(n) for n in range(1, 11)])
        self.wait_for(10)
        before = self.heap()
        # In parts: the browser reports each message to this test, which must read that before the pipe is full.
        for first in range(11, SNAPSHOTS + 11, 40):
            self.server.publish(*[long_snapshot(n) for n in range(first, first + 40)])
            self.browser.wait(f"store.sequences.at(-1) === {first + 39}")
        self.wait_for(SNAPSHOTS + 10)
        self.assertEqual(self.browser.value("store.rows"), SNAPSHOTS + 10)  # none was lost
        growth = self.heap() - before
        print(f"heap: {before} bytes, {growth} more after {SNAPSHOTS} snapshots", file=sys.stderr)
        self.assertLessEqual(growth, MOST_GROWTH)
        # The page itself is one request; the others are the data of the run.
        data = ("/figures.json", "/stream")
        own = [url for url in self.browser.requests if url.startswith("http") and not url.endswith(data)]
        self.assertEqual(own, [f"{self.server.url}/"])


if __name__ == "__main__":
    main()
