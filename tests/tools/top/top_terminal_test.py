#!/usr/bin/env python3
"""`troupe top` in a terminal, of tmux: top_terminal_test.py BUILD_DIR. Skipped without tmux."""

import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
TROUPE = f"{BUILD}/troupe"
SKIPPED = 77
HAS_SCREEN = b"built without ncursesw" not in pathlib.Path(TROUPE).read_bytes()
PATIENCE = 60  # seconds; a test that passes never waits so long


def snapshot(n, **more):
    result = {
        "elapsed_seconds": 2.0 * n,
        "progress": n / 100,
        "env_steps": 1000 * n,
        "env_steps_per_second": 500,
        "updates": n,
        "training_ended": False,
        "lag": {"p50": 1, "p95": 2, "max": 3, "cap": 4},
        "episodes": {"count": n, "return_mean": 3.0 * n, "return_std": 1, "length_mean": 20},
        "busy": {"workers": 0.9, "inference": 0.2, "trainer": 0.3, "machine": 0.7},
        "learner": {"kl": 0.01, "entropy": 0.5},
        "alarms": {"kl_high": 1},
        "alarm_texts": {"kl_high": "it is \x1b[2J high"},
        "bottleneck": {"what": "sampling", "why": "the trainer waits", "advice": "more workers", "limit": "workers"},
        "workers": {"up": 2, "total": 2},
    }
    return result | more


class Server:
    """The statistics port of a run."""

    def __init__(self, test, port=0, name="the run"):
        page = tempfile.NamedTemporaryFile(suffix=".html.gz")  # empty: nobody asks for it
        test.addCleanup(page.close)
        self.process = subprocess.Popen(
            [f"{BUILD}/tests/page_server", page.name, str(port), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        test.addCleanup(self.end)
        self.address = self.process.stdout.readline().strip().removeprefix("http://")

    def publish(self, *snapshots):
        for each in snapshots:
            self.process.stdin.write(json.dumps(each) + "\n")
            self.process.stdin.flush()
            self.process.stdout.readline()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, test, width=80, height=24):
        folder = tempfile.TemporaryDirectory(prefix="troupe-top-")
        test.addCleanup(folder.cleanup)
        self.command = ["tmux", "-S", f"{folder.name}/tmux", "-f", "/dev/null"]
        environment = {key: value for key, value in os.environ.items() if key not in ("TMUX", "NO_COLOR", "TROUPE_COLUMNS")}
        environment |= {"LC_ALL": "C.UTF-8", "PS1": "$ ", "TERM": "xterm-256color"}
        size = ["-x", str(width), "-y", str(height)]
        subprocess.run([*self.command, "-u", "new-session", "-d", *size, "sh"], env=environment, check=True)
        test.addCleanup(lambda: subprocess.run([*self.command, "kill-server"], check=False))
        # What the terminal is sent, also comes here: then it may show something else.
        pipe = f"{folder.name}/output"
        os.mkfifo(pipe)
        self.output = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        test.addCleanup(os.close, self.output)
        self.tmux("pipe-pane", "-O", f"exec cat > {pipe}")

    def tmux(self, *words):
        return subprocess.run([*self.command, *words], check=True, capture_output=True, text=True).stdout

    def start(self, *words):
        """Types a command whose end will be seen."""
        self.tmux("send-keys", "-l", " ".join(words) + "; echo END=$?")
        self.keys("Enter")

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def text(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def eventually(self, condition):
        """The first true value of the condition, which is looked at again whenever the terminal is sent something."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            if not select.select([self.output], [], [], max(end - time.monotonic(), 0))[0]:
                raise AssertionError("it did not happen")
            os.read(self.output, 1 << 20)
        return value

    def shows(self, part):
        self.eventually(lambda: part in self.text())

    def draws(self):
        return self.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"

    def child(self):
        """The process id of the program that the shell runs; 0 without one."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        children = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(children[0]) if children else 0

    def is_restored(self):
        """Whether the shell is back, in its own screen, and the terminal shows what is typed."""
        if self.draws():
            return False
        self.tmux("send-keys", "-l", "clear; stty -a; printf 'STTY=%s' $?")
        self.keys("Enter")
        self.shows("STTY=0")  # stty writes line by line: its last line stands before this
        words = self.text().replace(";", " ").split()
        return "echo" in words and "icanon" in words


@unittest.skipUnless(HAS_SCREEN, "built without ncursesw")
class Top(unittest.TestCase):
    def open(self, width=80, height=24, options=""):
        server = Server(self)
        server.publish(*(snapshot(n) for n in range(1, 31)))
        terminal = Terminal(self, width, height)
        terminal.start(options, TROUPE, "top", server.address)
        terminal.shows("running")
        self.assertTrue(terminal.draws())
        return server, terminal

    def test_it_draws_what_the_run_says(self):
        server, terminal = self.open()
        for part in ("the run", "bottleneck sampling", "kl_high", "KL of an update", "1 Overview", "\u2581"):
            self.assertIn(part, terminal.text())
        server.publish(snapshot(31, training_ended=True))
        terminal.shows("training ended")

    def test_keys_change_the_view_and_q_ends(self):
        _, terminal = self.open()
        terminal.keys("4")
        terminal.shows("workers connected")
        terminal.keys("Tab")
        terminal.shows("it is ?[2J high")
        terminal.keys("Left", "Left")
        terminal.shows("busy shares")
        terminal.keys("?")
        terminal.shows("the run goes on")
        terminal.keys("q")
        terminal.shows("END=0")
        self.assertTrue(terminal.is_restored())

    def test_a_new_size_is_used(self):
        _, terminal = self.open()
        terminal.tmux("resize-window", "-x", "200", "-y", "50")
        terminal.shows("workers connected")
        terminal.tmux("resize-window", "-x", "20", "-y", "5")
        terminal.eventually(lambda: "workers connected" not in terminal.text() and "running" in terminal.text())
        terminal.tmux("resize-window", "-x", "80", "-y", "24")
        terminal.shows("1 Overview")

    def test_signals_restore_the_terminal(self):
        for name in ("TERM", "INT", "HUP", "QUIT"):
            with self.subTest(name):
                _, terminal = self.open()
                os.kill(terminal.child(), getattr(signal, "SIG" + name))
                terminal.shows("END=130")
                self.assertTrue(terminal.is_restored())

    def test_it_can_be_stopped_and_continued(self):
        _, terminal = self.open()
        terminal.keys("C-z")
        terminal.eventually(lambda: not terminal.draws())
        terminal.start("fg")
        terminal.eventually(terminal.draws)
        terminal.shows("1 Overview")
        terminal.keys("q")
        terminal.shows("END=0")

    def test_a_run_that_is_killed_is_lost_and_found_again(self):
        server, terminal = self.open()
        server.end()
        terminal.shows("connection lost, trying again")
        port = server.address.rpartition(":")[2]
        again = Server(self, port)
        again.publish(snapshot(21))
        terminal.shows("running")
        terminal.keys("5")
        terminal.shows("the run was started again")
        again.end()
        terminal.shows("connection lost")
        terminal.keys("q")
        terminal.shows("END=0")
        self.assertTrue(terminal.is_restored())

    def test_colors_follow_no_color(self):
        _, terminal = self.open()
        self.assertIn("\x1b[33", terminal.text("-e").replace("\x1b[1m\x1b[33", "\x1b[33"))
        _, terminal = self.open(options="NO_COLOR=1")
        self.assertNotRegex(terminal.text("-e"), r"\x1b\[(\d+;)*3[0-7]")  # 39 is the colour of the terminal

    def test_a_terminal_without_these_characters_gets_others(self):
        _, terminal = self.open(options="LC_ALL=C")
        terminal.text().encode("ascii")

    def test_a_dumb_terminal_gets_lines(self):
        server = Server(self)
        server.publish(snapshot(1))
        terminal = Terminal(self, 200, 24)
        terminal.start("TERM=dumb", TROUPE, "top", server.address)
        terminal.shows("TERM is dumb")
        terminal.shows("updates 1 ")
        self.assertFalse(terminal.draws())
        server.end()
        terminal.shows("END=1")


@unittest.skipIf(HAS_SCREEN, "built with ncursesw")
class WithoutScreen(unittest.TestCase):
    def test_a_terminal_gets_lines(self):
        server = Server(self)
        server.publish(snapshot(1))
        terminal = Terminal(self, 200, 24)
        terminal.start(TROUPE, "top", server.address)
        terminal.shows("built without ncursesw")
        terminal.shows("updates 1 ")
        self.assertFalse(terminal.draws())
        server.end()
        terminal.shows("END=1")


class Lines(unittest.TestCase):
    def top(self, *words, **options):
        return subprocess.run([TROUPE, "top", *words], capture_output=True, text=True, timeout=PATIENCE, check=False, **options)

    def test_a_pipe_gets_one_line_for_each_report_until_the_run_ends(self):
        server = Server(self)
        server.publish(snapshot(1))
        top = subprocess.Popen([TROUPE, "top", server.address], stdout=subprocess.PIPE, text=True)
        self.addCleanup(top.stdout.close)
        self.assertIn("updates 1 ", top.stdout.readline())
        server.publish(snapshot(2, training_ended=True))
        self.assertIn("updates 2 ", top.stdout.readline())
        server.end()
        self.assertEqual("the run ended\n", top.stdout.readline())
        self.assertEqual(top.wait(), 0)

    def test_once_prints_every_view_without_control_characters(self):
        server = Server(self)
        server.publish(*(snapshot(n) for n in range(1, 31)))
        once = self.top(server.address, "--once")
        self.assertEqual((once.returncode, once.stderr), (0, ""))
        for part in ("the run", "bottleneck sampling", "\nLearning\n", "\nFlow\n", "\nMachines\n", "\nEvents\n", "\u2588"):
            self.assertIn(part, once.stdout)
        self.assertNotIn("\x1b", once.stdout)

    def test_once_cuts_nothing_in_a_pipe_unless_a_variable_gives_the_columns(self):
        server = Server(self)
        why = "the trainer waits 63 % of the time, " * 5 + "end"
        server.publish(snapshot(1, bottleneck={"what": "sampling", "why": why, "advice": "", "limit": "workers"}))
        environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "TROUPE_COLUMNS")}
        self.assertIn(why + "\n", self.top(server.address, "--once", env=environment).stdout)
        for variable in ("COLUMNS", "TROUPE_COLUMNS"):
            shown = self.top(server.address, "--once", env=environment | {variable: "70"}).stdout
            self.assertLessEqual(max(len(line) for line in shown.splitlines()), 70)
            self.assertIn("bottleneck sampling", shown)

    def test_what_cannot_be_shown_is_refused_with_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, problem in {
                ("127.0.0.1:1",): "troupe: 127.0.0.1:1: Connection refused\n",
                ("nothing",): "troupe: nothing:",
                (): "troupe: no live run below runs/: give the folder of a run, or HOST:PORT of its statistics\n",
            }.items():
                result = self.top(*words, cwd=folder)
                self.assertEqual(result.returncode, 2)
                self.assertTrue(result.stderr.startswith(problem), result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)


class Folders(unittest.TestCase):
    """Real runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)

    def train(self, name, *settings):
        words = [word for setting in ("stats.interval_ms=200", "evaluation.episodes=1", *settings) for word in ("--set", setting)]
        run = subprocess.Popen(
            [TROUPE, "train", "cartpole", "--run", f"runs/{name}", *words],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        first = next((line for line in run.stdout if "  steps " in line), "")
        self.assertNotEqual(first, "", "the run reports nothing")
        return run

    def once(self, *words):
        command = [TROUPE, "top", "--once", *words]
        return subprocess.run(command, cwd=self.place, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def test_the_only_live_run_is_found_and_of_several_all_are_named(self):
        endless = ("stop.env_steps=0", "stop.updates=1000000")
        self.train("a", *endless)
        self.assertIn("cartpole", self.once().stdout)
        self.train("b", *endless)
        self.assertEqual(self.once().stderr, "troupe: several live runs: runs/a, runs/b; give the one to show\n")
        self.assertIn("runs/b", self.once("runs/b").stdout)

    def test_a_run_that_is_killed_while_it_is_shown_leaves_its_last_figures(self):
        run = self.train("a", "stop.env_steps=0", "stop.updates=1000000")
        terminal = Terminal(self)
        terminal.start(TROUPE, "top", str(self.place / "runs/a"))
        terminal.shows("running")
        terminal.shows("env steps")
        run.kill()
        run.wait()
        terminal.shows("the run was killed")
        self.assertIn("env steps", terminal.text())
        self.assertNotIn("ETA", terminal.text())
        terminal.keys("q")
        terminal.shows("END=0")
        self.assertTrue(terminal.is_restored())

    def test_a_run_that_was_killed_says_so_as_troupe_runs_does(self):
        run = self.train("a", "stop.env_steps=0", "stop.updates=1000000")
        run.kill()
        run.wait()
        once = self.once("runs/a").stdout
        self.assertIn("killed", once.splitlines()[0])
        self.assertNotIn("ETA", once)
        runs = subprocess.run([TROUPE, "runs", "runs"], cwd=self.place, capture_output=True, text=True, check=True).stdout
        self.assertIn("killed", runs)
        lines = subprocess.run([TROUPE, "top", "runs/a"], cwd=self.place, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((lines.returncode, lines.stderr), (1, "troupe: the run was killed\n"))

    def test_a_run_that_is_resumed_while_its_folder_is_shown_keeps_its_first_points(self):
        run = self.train("a", "stop.env_steps=0", "stop.updates=20")
        self.assertEqual(run.wait(), 0)
        terminal = Terminal(self)
        terminal.start(TROUPE, "top", str(self.place / "runs/a"))
        terminal.shows("the run ended: stop.updates")
        self.train("a", "stop.env_steps=0", "stop.updates=1000000")
        terminal.shows("running")
        terminal.keys("5")
        terminal.shows("the run is live")
        terminal.keys("q")
        terminal.shows("END=0")

    def test_damaged_files_are_named_on_stderr(self):
        self.assertEqual(self.train("a", "stop.env_steps=0", "stop.updates=20").wait(), 0)
        (self.place / "runs/a/summary.json").write_text('{"reason": "st')
        once = self.once("runs/a")
        self.assertEqual(once.returncode, 0)
        self.assertEqual(once.stderr.count("\n"), 1, once.stderr)
        self.assertTrue(once.stderr.startswith("troupe: warning: runs/a/summary.json"), once.stderr)
        self.assertIn("the run ended: summary.json is damaged", once.stdout)
        runs = subprocess.run([TROUPE, "runs", "runs"], cwd=self.place, capture_output=True, text=True, check=True)
        self.assertTrue(runs.stderr.startswith("troupe: runs/a/summary.json"), runs.stderr)

    def test_a_run_that_has_ended_shows_its_last_record_and_why(self):
        run = self.train("a", "stop.env_steps=0", "stop.updates=20")
        self.assertEqual(run.wait(), 0)
        shown = self.once("runs/a").stdout
        for part in ("the run ended: stop.updates", "20 updates", "evaluation at update 20", "bottleneck was ", "the end of the log"):
            self.assertIn(part, shown)
        terminal = Terminal(self)
        terminal.start(TROUPE, "top", str(self.place / "runs/a"))
        terminal.shows("the run ended: stop.updates")
        terminal.keys("q")
        terminal.shows("END=0")


if __name__ == "__main__":
    if not shutil.which("tmux"):
        print("skipped: there is no tmux; tools/setup --tests installs it")
        sys.exit(SKIPPED)
    unittest.main()
