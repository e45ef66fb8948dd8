#!/usr/bin/env python3
"""Kills and freezes the ranks of a run, measures how soon it makes updates again, and checks that nothing is lost.

  tools/measure_ranks.py                           10 kills and 10 freezes of a rank, each in runs on 2 and on 3 ranks
  tools/measure_ranks.py --ranks 2 --times 3       fewer
  tools/measure_ranks.py --kills 60 --minutes 10   faults at random moments, of random ranks, in a run on 3 ranks
  tools/measure_ranks.py --set trainer.zero=1 --set trainer.redundancy=neighbour

Each run trains CartPole with short updates. Another rank than rank 0 gets SIGKILL or SIGSTOP at a random moment. Measured are the seconds
until the first update after rank 0 has noticed the loss: for a kill it says so on stderr; a freeze cannot be noticed within half of the
timeout, and updates until then are those of which the rank had done its part. The statistics port tells the number of updates every
10 ms, so that a time may be 10 ms too long. At most allowed, in the worst case:

  kill     1.2 s and an update
  freeze   network.peer_timeout_ms (--peer-timeout-ms), 1 s and an update

An update is the median of the same run. "back" is the time until a rank has joined in its place: after a kill, from the kill, with the
pause before a restart, which grows to 5 s when there are many; after a freeze, from SIGCONT.

Demanded of each run: updates and environment steps never decrease from line to line of metrics.jsonl; in every line and in summary.json
the ledger balances, and exactly the samples of so many updates are trained on, so that no update is lost or counted twice; no sample is
lost. With --kills, also: all ranks are back after the last fault, and the run reaches stop.seconds. A fault there is SIGKILL, or SIGSTOP
for 0.1 to 2.5 times the timeout; several ranks may be frozen at once.

Exits with 1 if a demand is not met. Times are only said to be met or missed: they depend on what else the machine does. Standard library
only.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True
from tests.support import events  # noqa: E402

PATIENCE = 120  # seconds for anything that must happen
SUPER_BATCH = 960  # can be divided among 2 to 6 ranks
AFTER_FAULTS = 60  # seconds for which a run with --kills goes on
SETTINGS = {
    "stats.interval_ms": 10,
    "trainer.super_batch": SUPER_BATCH,
    "rollout.length": 16,
    "env.rows": 8,
    "evaluation.every_updates": 0,
    "evaluation.episodes": 1,
    "stop.env_steps": 0,
}
JOINED = re.compile(r"rank process (\d+): rank process \d+: joined")
GONE = re.compile(r"rank process \d+ .* is gone")


class Run:
    """A run on several processes, with the moments at which it said something. Reading is done by two threads."""

    def __init__(self, options, folder, ranks, **more):
        self.folder, self.ranks, self.timeout = folder / "run", ranks, options.peer_timeout_ms / 1000
        self.changed = threading.Condition()
        self.commits, self.gone, self.joined, self.lines = [], [], [], []  # moments, those of commits and of joins with a number
        settings = SETTINGS | {path.replace("__", "."): value for path, value in more.items()}
        settings |= {"network.peer_timeout_ms": options.peer_timeout_ms, "network.heartbeat_ms": options.peer_timeout_ms // 10}
        words = [f"{options.build}/troupe", "train", "cartpole", "--run", self.folder, "--ranks", str(ranks), "--seed", str(options.seed)]
        words += [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]
        words += [word for setting in options.set for word in ("--set", setting)]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.threads = [threading.Thread(target=self.read_errors)]
        self.threads[0].start()

    def read_errors(self):
        for line in self.process.stderr:
            now = time.monotonic()
            with self.changed:
                self.lines.append(line)
                if match := JOINED.search(line):
                    self.joined.append((now, int(match.group(1))))
                if GONE.search(line):
                    self.gone.append(now)
                self.changed.notify_all()

    def open_statistics(self):
        endpoints = self.folder / "endpoints.json"
        events.wait_for(lambda: endpoints.exists() or self.process.poll() is not None, "endpoints", self.folder.parent, self.process)
        if self.process.poll() is not None:
            raise RuntimeError(f"the run does not start: {''.join(self.lines)}")
        host, _, port = json.loads(endpoints.read_text())["stats"].rpartition(":")
        connection = socket.create_connection((host, int(port)), PATIENCE)
        connection.settimeout(None)
        connection.sendall(b"\n")
        self.threads.append(threading.Thread(target=self.read_statistics, args=[connection]))
        self.threads[-1].start()

    def read_statistics(self, connection):
        with connection, contextlib.suppress(ConnectionError):
            for line in connection.makefile("rb"):
                now = time.monotonic()
                stats = json.loads(line).get("stats")
                if stats and stats["updates"] > (self.commits[-1][1] if self.commits else 0):
                    with self.changed:
                        self.commits.append((now, stats["updates"]))
                        self.changed.notify_all()

    def wait_for(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(lambda: condition() or self.process.poll() is not None, PATIENCE) or not condition():
                raise RuntimeError(f"no {what}; the run said: {''.join(self.lines[-20:])}")

    def alive(self):
        """The processes of ranks that have joined, and run or are frozen."""
        return [pid for pid in dict.fromkeys(pid for _, pid in self.joined) if is_child(pid, self.process.pid)]

    def make_updates(self, count):
        before = len(self.commits)
        self.wait_for(lambda: len(self.commits) >= before + count, "update")

    def all_compute(self):
        """Waits until all ranks have joined, and some updates more, so that each has shards."""
        self.wait_for(lambda: len(self.alive()) == self.ranks - 1, f"rank in place of one that is gone, of {self.ranks}")
        self.make_updates(5)

    def next_commit(self, moment):
        """The moment of the first update after that one."""
        self.wait_for(lambda: self.commits[-1][0] > moment, "update after a loss")
        return next(committed for committed, _ in self.commits if committed > moment)

    def update_seconds(self):
        pairs = zip(self.commits, self.commits[1:])
        return statistics.median((after - before) / (more - updates) for (before, updates), (after, more) in pairs)

    def end(self, reason, code, number=None):
        """Ends the run, with a signal or by itself, and returns what is wrong with it."""
        if number is not None:
            self.process.send_signal(number)
        ended = self.process.wait(PATIENCE)
        for thread in self.threads:
            thread.join()
        summary = json.loads((self.folder / "summary.json").read_text())
        wrong = [] if ended == code else [f"the run ended with {ended}, expected {code}"]
        if summary["reason"] != reason:
            wrong.append(f"the run ended because of {summary['reason']!r}, expected {reason!r}")
        return wrong + losses(summary, [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()])

    def close(self):
        self.process.kill()  # the system ends its ranks too
        for thread in self.threads:
            thread.join()
        self.process.wait()
        self.process.stderr.close()


@contextlib.contextmanager
def started(options, ranks, **more):
    with tempfile.TemporaryDirectory(prefix="ranks") as folder:
        run = Run(options, pathlib.Path(folder), ranks, **more)
        try:
            run.open_statistics()
            yield run
        finally:
            run.close()


def is_child(pid, parent):
    """Whether the process is a child of that one, and has not ended."""
    try:
        state, its_parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(its_parent) == parent and state not in "ZX"


def losses(summary, records):
    """What is missing, counted twice or out of order in the files of a run."""
    wrong = []
    updates = [record["updates"] for record in records]
    if updates != sorted(updates):
        wrong.append("the numbers of updates decrease")
    if updates and updates[-1] != summary["updates"]:
        wrong.append(f"metrics.jsonl ends at update {updates[-1]}, summary.json has {summary['updates']}")
    steps = [record["env_steps"] for record in records]
    if steps != sorted(steps):
        wrong.append("environment steps decrease")
    for record in [*records, summary]:
        ledger = record["ledger"]
        if ledger["produced"] != sum(count for part, count in ledger.items() if part != "produced"):
            wrong.append(f"the ledger after update {record['updates']} does not balance: {ledger}")
        if ledger["trained"] != record["updates"] * SUPER_BATCH:
            wrong.append(f"{ledger['trained']} samples are trained on after update {record['updates']}")
    if summary["ledger"]["lost_in_crash"] or summary["uncounted_at_most"] or summary["undone_updates"]:
        wrong.append("samples or updates are lost")
    return wrong


def measure_kills(options, ranks):
    draw, times, back = random.Random(options.seed), [], []
    with started(options, ranks, stop__updates=10**9) as run:
        for _ in range(options.times):
            run.all_compute()
            time.sleep(draw.uniform(0, 5 * run.update_seconds()))
            gone, joined = len(run.gone), len(run.joined)
            begun = time.monotonic()
            os.kill(draw.choice(run.alive()), signal.SIGKILL)
            run.wait_for(lambda: len(run.gone) > gone, "notice of a loss")
            times.append(run.next_commit(run.gone[gone]) - begun)
            run.wait_for(lambda: len(run.joined) > joined, "rank in place of one that was killed")
            back.append(run.joined[joined][0] - begun)
        run.make_updates(5)
        update = run.update_seconds()
        wrong = run.end("interrupted", 130, signal.SIGINT)
    return tell(f"kill of 1 of {ranks} ranks", times, back, 1.2, update, wrong)


def measure_freezes(options, ranks):
    draw, times, back, same = random.Random(options.seed), [], [], 0
    with started(options, ranks, stop__updates=10**9) as run:
        for _ in range(options.times):
            run.all_compute()
            time.sleep(draw.uniform(0, 5 * run.update_seconds()))
            joined, rank = len(run.joined), draw.choice(run.alive())
            begun = time.monotonic()
            os.kill(rank, signal.SIGSTOP)
            times.append(run.next_commit(begun + run.timeout / 2) - begun)
            run.make_updates(5)  # without it
            begun = time.monotonic()
            os.kill(rank, signal.SIGCONT)
            run.wait_for(lambda: len(run.joined) > joined, "rank after SIGCONT")
            back.append(run.joined[joined][0] - begun)
            same += run.joined[joined][1] == rank
        run.make_updates(5)
        update = run.update_seconds()
        wrong = run.end("interrupted", 130, signal.SIGINT)
    right = tell(f"freeze of 1 of {ranks} ranks", times, back, run.timeout + 1, update, wrong)
    print(f"{'':24}after SIGCONT the same process joined again {same} of {options.times} times")
    return right


def tell(what, times, back, bar, update, wrong):
    """Prints a line of the table and what is wrong. Returns whether nothing is."""
    most = bar + update
    met = "met" if max(times) <= most else "missed"
    print(f"{what:24}{statistics.median(times):8.3f}{max(times):8.3f}{most:8.3f}  {met:8}", end="")
    print(f"{statistics.median(back):8.3f}{max(back):8.3f}{1000 * update:10.1f}  {'LOSS' if wrong else 'nothing lost'}")
    return say_wrong(wrong)


def say_wrong(wrong):
    for text in wrong[:10]:
        print(f"  {text}")
    if len(wrong) > 10:
        print(f"  and {len(wrong) - 10} more")
    return not wrong


def measure(options):
    head = "what, seconds", "median", "worst", "most", "", "back", "worst", "update ms"
    print("{:24}{:>8}{:>8}{:>8}  {:8}{:>8}{:>8}{:>10}".format(*head))
    return all([measured(options, ranks) for ranks in options.ranks or [2, 3] for measured in (measure_kills, measure_freezes)])


class Faults:
    """Kills and freezes of the ranks of a run at moments that are drawn before."""

    def __init__(self, run, options):
        self.run, self.draw = run, random.Random(options.seed)
        self.begun = time.monotonic()
        self.moments = sorted(self.draw.uniform(0, 60 * options.minutes) for _ in range(options.kills))
        self.last = self.begun + 60 * options.minutes
        self.frozen = {}  # by process: when it goes on
        self.done = {"killed": 0, "frozen": 0, "left out": 0}

    def thaw_until(self, moment):
        """Lets frozen processes go on when it is time, until the moment."""
        while (now := time.monotonic()) < moment or any(due <= now for due in self.frozen.values()):
            for pid in [pid for pid, due in self.frozen.items() if due <= now]:
                del self.frozen[pid]
                if is_child(pid, self.run.process.pid):
                    os.kill(pid, signal.SIGCONT)
            time.sleep(max(0, min([moment, *self.frozen.values()]) - time.monotonic()))

    def inject(self, moment):
        """One fault at the moment, or as soon as there is a rank that runs."""
        kind, seconds = self.draw.choice(["killed", "killed", "frozen"]), self.draw.uniform(0.1, 2.5) * self.run.timeout
        self.thaw_until(self.begun + moment)
        while not (able := [pid for pid in self.run.alive() if pid not in self.frozen]):
            if time.monotonic() > self.last:
                self.done["left out"] += 1
                return
            self.thaw_until(time.monotonic() + 0.01)
        pid = self.draw.choice(able)
        os.kill(pid, signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
        if kind == "frozen":
            self.frozen[pid] = time.monotonic() + seconds
        self.done[kind] += 1

    def inject_all(self):
        for moment in self.moments:
            self.inject(moment)
        self.thaw_until(max([time.monotonic(), *self.frozen.values()]))


def measure_random_faults(options):
    ranks, seconds = (options.ranks or [3])[-1], 60 * options.minutes + AFTER_FAULTS
    with started(options, ranks, stop__updates=0, stop__seconds=round(seconds)) as run:
        run.all_compute()
        faults = Faults(run, options)
        faults.inject_all()
        run.all_compute()
        back = time.monotonic() - max(faults.last, faults.begun)
        between = [after - before for (before, _), (after, _) in zip(run.commits, run.commits[1:])]
        update = run.update_seconds()
        wrong = run.end("stop.seconds reached", 0)
        updates = run.commits[-1][1]
    done = ", ".join(f"{count} {what}" for what, count in faults.done.items())
    print(f"{ranks} ranks, seed {options.seed}, {options.minutes:g} min: {done}; {updates} updates")
    print(f"time between two updates: median {update:.3f} s, worst {max(between):.3f} s")
    print(f"all ranks compute again {max(0, back):.1f} s after the time of the faults")
    print("LOSS or no orderly end:" if wrong else "nothing lost: the samples of each update are counted once, and the run reached its goal")
    return say_wrong(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="folder with the built program")
    parser.add_argument("--ranks", type=int, nargs="+", help="numbers of ranks (2 3; with --kills the last one counts, 3)")
    parser.add_argument("--times", type=int, default=10, help="kills, and freezes, of each number of ranks (10)")
    parser.add_argument("--peer-timeout-ms", type=int, default=2000, help="network.peer_timeout_ms of the runs (2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, help="so many faults at random moments")
    parser.add_argument("--minutes", type=float, default=10, help="in which they are spread (10)")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="as for troupe train, for all runs")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    sys.stdout.reconfigure(line_buffering=True)
    if min(options.ranks or [2]) < 2:
        parser.error("--ranks: expected 2 or more")
    if options.times < 1 or options.peer_timeout_ms < 100:
        parser.error("--times: expected 1 or more; --peer-timeout-ms: expected 100 or more")
    sys.exit(not (measure(options) if options.kills is None else measure_random_faults(options)))


if __name__ == "__main__":
    main()
