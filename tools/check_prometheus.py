#!/usr/bin/env python3
"""GET /metrics of a control run and of a token run with promtool, and with a Prometheus that scrapes both.

  tools/check_prometheus.py                        for 60 s
  tools/check_prometheus.py --seconds 15 --bin DIR   programs of that folder

promtool check metrics must have nothing to say. Every scrape must succeed, counters must grow, and a quantile of a histogram must be near
that of the run. Needs promtool and prometheus (`apt-get install prometheus`), and a built program. Standard library only.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATIENCE = 60
CONFIGS = {"control": "cartpole", "tokens": "tokens/reverse"}
ENDLESS = ["stop.env_steps=0", "stop.updates=1000000", "stats.interval_ms=500", "warmup.steps=0"]


def text_at(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
        return reply.read().decode()


def wait_until(what, reached):
    deadline = time.monotonic() + PATIENCE
    while not (result := reached()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.2)
    return result


@contextlib.contextmanager
def ended_on_error(started):
    """Ends the process of `started` if what is done with it fails."""
    try:
        yield
    except BaseException:
        started.end()
        raise


class Run:
    def __init__(self, program, config, folder):
        words = [program, "train", config, "--run", str(folder)]
        for setting in ENDLESS:
            words += ["--set", setting]
        self.folder = folder
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with ended_on_error(self):
            self.address = wait_until(config, self.find_address)
            wait_until(f"updates of {config}", lambda: (self.stats() or {}).get("updates", 0) > 2)

    def find_address(self):
        file = self.folder / "endpoints.json"
        return json.loads(file.read_text())["stats"] if file.exists() else None

    def stats(self):
        return json.loads(text_at(f"http://{self.address}/stats"))["stats"]

    def end(self):
        self.process.terminate()
        self.process.wait()


class Prometheus:
    def __init__(self, program, folder, runs):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        jobs = [{"job_name": name, "static_configs": [{"targets": [run.address]}]} for name, run in runs.items()]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        words = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        words.append(f"--web.listen-address={self.address}")
        with open(folder / "prometheus.log", "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        with ended_on_error(self):
            wait_until("Prometheus", self.ready)

    def ready(self):
        try:
            return "Ready" in text_at(f"http://{self.address}/-/ready")
        except OSError:
            return False

    def value(self, query):
        """The one value of an instant query; None if it has none."""
        answer = json.loads(text_at(f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": query})))
        result = answer["data"]["result"]
        return float(result[0]["value"][1]) if len(result) == 1 else None

    def end(self):
        self.process.terminate()
        self.process.wait()


def check_page(promtool, name, run):
    """What promtool says of the page of a run, without a line break at the end."""
    said = subprocess.run([promtool, "check", "metrics"], input=text_at(f"http://{run.address}/metrics"), capture_output=True, text=True)
    text = (said.stdout + said.stderr).strip()
    print(f"{name}: promtool " + (f"says\n{text}" if text or said.returncode else "has nothing to say"), flush=True)
    return not text and said.returncode == 0


def check_scrapes(prometheus, name, run, seconds):
    job, span = f'{{job="{name}"}}', f"[{max(int(seconds) - 5, 5)}s]"
    samples, up = prometheus.value(f"count_over_time(up{job}{span})"), prometheus.value(f"min_over_time(up{job}{span})")
    grown = prometheus.value(f"increase(troupe_updates_total{job}{span})")
    stats = run.stats()
    median = stats["histograms"]["update_seconds"]["p50"]
    found = prometheus.value(f'histogram_quantile(0.5, troupe_update_seconds_bucket{{job="{name}"}})')
    print(f"{name}: {samples} scrapes, up {up}, {grown} updates, median of an update {found} s, of the run {median} s", flush=True)
    good = samples and samples >= 0.8 * (seconds - 5) and up == 1 and grown and grown > 0
    return bool(good and found and 0.5 * median <= found <= 2 * median)  # buckets are powers of 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder with the built program")
    parser.add_argument("--bin", default="", help="folder of promtool and prometheus; default: from PATH")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    path = options.bin or os.environ["PATH"]
    promtool, prometheus = shutil.which("promtool", path=path), shutil.which("prometheus", path=path)
    if not promtool or not prometheus:
        sys.exit("promtool and prometheus are needed: apt-get install prometheus, or --bin DIR")
    good, runs, server = True, {}, None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        try:
            for kind, config in CONFIGS.items():
                runs[kind] = Run(f"{options.build}/troupe", config, folder / kind)
                good = check_page(promtool, kind, runs[kind]) and good
            server = Prometheus(prometheus, folder, runs)
            time.sleep(options.seconds)
            for kind, run in runs.items():
                good = check_scrapes(server, kind, run, options.seconds) and good
        finally:
            for each in [server, *runs.values()]:
                if each:
                    each.end()
    sys.exit(not good)


if __name__ == "__main__":
    main()
