"""Run: a run of the program as troupe.train returns it. Its child is started and watched by a thread of its own."""

import atexit
import json
import math
import os
import shutil
import signal
import socket
import threading
from collections import deque
from pathlib import Path

from troupe import _program
from troupe._words import in_python, resume_line

_CALLBACKS = ("on_report", "on_evaluation", "on_checkpoint", "on_end")


def checked_callbacks(callbacks):
    """The callbacks as a list; none if None is given. Raises TypeError for one that has none of the methods."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, (list, tuple)):
        callbacks = [callbacks]
    for callback in callbacks:
        if isinstance(callback, type) or not any(callable(getattr(callback, name, None)) for name in _CALLBACKS):
            raise TypeError(f"callback {callback!r} has none of the methods {', '.join(_CALLBACKS)}, expected an object with one of them")
    return list(callbacks)


class _Events:
    """What one thread tells another, in order: lines, reports, and the end. Takes a limited amount of memory, however slow the reader is:
    lines and reports beyond a limit are dropped, the oldest first, but of the reports those with an evaluation last."""

    MOST_LINES, MOST_REPORTS = 1000, 100

    def __init__(self):
        self._changed = threading.Condition()
        self._kept = deque()  # (kind, value)
        self._dropped_lines = 0

    def put(self, kind, value):
        with self._changed:
            self._kept.append((kind, value))
            self._shorten()
            self._changed.notify()

    def _shorten(self):
        if len(self._kept) <= min(self.MOST_LINES, self.MOST_REPORTS):
            return
        lines = [i for i, (kind, _) in enumerate(self._kept) if kind == "line"]
        if len(lines) > self.MOST_LINES:
            del self._kept[lines[0]]
            self._dropped_lines += 1
        reports = [i for i, (kind, _) in enumerate(self._kept) if kind == "report"]
        if len(reports) > self.MOST_REPORTS:
            evaluations = [str([self._kept[i][1].get(key) for key in ("eval", "failed_evaluations")]) for i in reports]
            same = (k for k in range(len(reports) - 1) if evaluations[k] == evaluations[k + 1])
            del self._kept[reports[next(same, 0)]]

    def get(self):
        """The oldest (kind, value); waits for it."""
        with self._changed:
            while not self._kept:
                self._changed.wait()
            if self._dropped_lines and self._kept[0][0] == "line":
                dropped, self._dropped_lines = self._dropped_lines, 0
                return "line", f"({dropped} lines before this one were dropped, because a callback took so long)"
            return self._kept.popleft()


class Run:
    """A run that was started by troupe.train.

    `folder` is the run folder (pathlib.Path, None until the program has named it), `exit_code` the exit code of the program (None while it
    runs; 0: the run has reached its limit, 130: it was stopped).
    """

    def __init__(self, arguments, *, folder=None, callbacks=(), python_path=(), quiet=False, config_file=None, on_refusal=None):
        self.folder = Path(folder) if folder else None
        self.exit_code = None
        self._callbacks = callbacks
        self._quiet = quiet
        self._config_file = config_file  # temporary
        self._on_refusal = on_refusal  # called when the program has refused the run
        self._python_path = python_path
        self._events = _Events()
        self._lines = deque(maxlen=200)
        self._child = None
        self._started = threading.Event()
        self._stopping = False
        self._code = None  # of the child, as the watcher saw it
        self._statistics = None  # the thread that reads the statistics port
        self._error = None  # what wait() raises
        self._evaluated = None  # what tells the last evaluation from others
        self._failed = None  # likewise of those that failed
        self._checkpoints = self._numbers()
        self._watcher = threading.Thread(target=self._watch, args=(arguments,), name="troupe-run", daemon=True)
        self._dispatcher = None
        self._dispatched = threading.Event()  # the dispatcher has ended
        atexit.register(self._stop_at_exit)
        self._watcher.start()

    def __repr__(self):
        state = "running" if self.exit_code is None else f"ended with exit code {self.exit_code}"
        return f"<troupe.Run {self.folder}: {state}>"

    # ---- what a user calls

    @property
    def running(self):
        """Whether the program runs."""
        return self.exit_code is None

    @property
    def summary(self):
        """The content of summary.json (a dict), or None as long as the run has not ended."""
        return self._read_json("summary.json") if not self.running else None

    @property
    def config(self):
        """The effective config of the run (a dict), or None before the program has written it."""
        return self._read_json("config.json")

    def history(self):
        """The points of the curves so far, by environment steps: a pandas.DataFrame if pandas is installed, else a list of dicts.

        Keys are the fields of metrics.jsonl; those of inner objects are joined by dots, like "learner.kl".
        """
        points = []
        path = self.folder / "metrics.jsonl" if self.folder else None
        if path and path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    points.append(_flat(json.loads(line)))
                except ValueError:
                    continue  # being written, or damaged
        # The line of an evaluation comes when it has ended.
        points.sort(key=lambda point: (point.get("env_steps") or 0, point.get("updates") or 0))
        try:
            import pandas
        except ImportError:
            return points
        return pandas.DataFrame(points)

    def stop(self):
        """Asks the program to write a checkpoint and to end. Does not wait for it. Calling it again has no effect."""
        self._signal(signal.SIGTERM)

    def wait(self):
        """Waits until the run has ended, and returns the run. Ctrl-C stops it with a checkpoint; a second one ends it at once.

        Raises RunError if the program failed, with this run as its `run`, and the exception of a callback, or of a signal handler while it
        waits, which stops the run like Ctrl-C. Whatever it raises, the program has ended by then.
        """
        while True:
            try:
                if self._dispatcher is None:
                    self._dispatch()
                else:
                    self._dispatched.wait()  # an exception in join() would make Python 3.11 take the thread as ended
                break
            except KeyboardInterrupt:
                self._signal(signal.SIGINT)
            except BaseException as error:  # of a signal handler, like that of sys.exit()
                self._fail(error)
            if self._code is not None:  # the exception may have hit between taking the last event and handling it
                self._events.put("end", self._code)
        if self._error is not None:
            raise self._error
        return self

    # ---- the thread that owns the child

    def _watch(self, arguments):
        code = 1
        try:
            self._child = _program.start(arguments, self._python_path)
            self._started.set()
            for line in self._child.stdout:
                self._read_line(line.rstrip("\n"))
            code = self._child.wait()
        except Exception as error:  # reported by wait()
            self._error = error
        finally:
            self._started.set()
            if self._statistics is not None:
                self._statistics.join()  # so that the last report comes before the end
            self._code = 130 if self._stopping and code < 0 else code
            self._events.put("end", self._code)

    def _read_line(self, line):
        line = self._in_python(line)
        self._lines.append(line)
        if self.folder is None and line.startswith(("run folder ", "Run folder: ")):  # the second one if nothing is left to train
            self.folder = Path(line[len("run folder ") :].strip())
        elif line.startswith("statistics "):
            address = line.removeprefix("statistics ").strip()
            self._statistics = threading.Thread(target=self._read_statistics, args=(address,), name="troupe-statistics", daemon=True)
            self._statistics.start()
        self._events.put("line", line)

    def _in_python(self, line):
        """The line as a user of Python understands it, who gave arguments, and perhaps a dict and not the file of it."""
        if line.startswith("To resume: "):  # its command lacks what only this process gives to the program
            return resume_line(self.folder, self._python_path)
        if self._config_file is not None:
            line = line.replace(f"{self._config_file}: ", "").replace(self._config_file, "config")
        return in_python(line)

    def _read_statistics(self, address):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=10) as connection:
                connection.settimeout(None)
                connection.sendall(b'{"type":"subscribe"}\n')  # the run says nothing before its client has
                for line in connection.makefile("rb"):
                    message = json.loads(line)
                    if message["type"] == "stats":
                        self._events.put("report", message["stats"])
        except (OSError, ValueError, KeyError):
            pass  # the program has ended; its exit code says how

    # ---- the thread that calls the callbacks

    def _start_dispatcher(self):
        self._dispatcher = threading.Thread(target=self._dispatch_in_thread, name="troupe-callbacks", daemon=True)
        self._dispatcher.start()

    def _dispatch_in_thread(self):
        try:
            self._dispatch()
        finally:
            self._dispatched.set()

    def _dispatch(self):
        while self.exit_code is None:
            kind, value = self._events.get()
            if kind == "line":
                self._show(value)
            elif kind == "report":
                self._report(value)
            else:
                self._end(value)

    def _show(self, line):
        if self._quiet:
            return
        try:
            print(line, flush=True)
        except Exception as error:  # the output is closed, or cannot write this character
            self._quiet = True
            self._fail(error)

    def _report(self, report):
        self._call("on_report", report)
        self._tell_evaluation(report.get("eval"))
        failed = report.get("failed_evaluations") or {}
        if failed.get("error"):
            self._tell_failed(failed, (failed["count"], failed["updates"]))
        self._tell_checkpoints()

    def _end(self, code):
        try:
            if self._config_file:
                shutil.rmtree(os.path.dirname(self._config_file), ignore_errors=True)
            if code == 2 and self._on_refusal is not None:
                self._on_refusal()
            atexit.unregister(self._stop_at_exit)
            if self._error is None and code not in (0, 130):
                self._error = _program.error_of(code, list(self._lines))
        finally:
            self.exit_code = code
        if isinstance(self._error, _program.RunError) and self._error.run is None:
            self._error.run = self
        summary = self.summary or {}
        if summary.get("reason") != "interrupted":  # that of an interrupted run was reported when it ended, perhaps by an earlier start
            self._tell_evaluation(summary.get("eval"))
        self._tell_checkpoints()
        self._call("on_end")

    def _tell_evaluation(self, evaluation):
        if evaluation and evaluation.get("error"):  # that of summary.json; a report may have told of it
            updates = evaluation.get("updates")
            which = self._failed if self._failed and self._failed[1] == updates else (None, updates)
            return self._tell_failed(evaluation, which)
        # summary.json has more to say of the evaluation that the last report had, or less.
        which = evaluation and [evaluation.get(name) for name in ("updates", "episodes", "failed_episodes", "return_mean")]
        if evaluation and which != self._evaluated:
            self._evaluated = which
            self._call("on_evaluation", {**evaluation, "error": None})

    def _tell_failed(self, failed, which):
        """Reports an evaluation that failed. Its scores are NaN, so that a callback may compute with them, and none of them is the best."""
        if which == self._failed:
            return
        self._failed = which
        counts = {name: failed.get(name) for name in ("updates", "env_steps", "episodes", "failed_episodes")}
        scores = dict.fromkeys(("return_mean", "return_std", "length_mean", "success_rate"), math.nan)
        self._call("on_evaluation", {**counts, **scores, "error": failed["error"]})

    def _tell_checkpoints(self):
        for number in sorted(self._numbers() - self._checkpoints):
            self._checkpoints.add(number)
            self._call("on_checkpoint", self.folder / "checkpoints" / number)

    def _call(self, name, *arguments):
        """Calls a method of all callbacks. The first exception stops the run; after it only on_end is called."""
        for callback in self._callbacks:
            method = getattr(callback, name, None)
            if method is None or (self._error is not None and name != "on_end"):
                continue
            try:
                method(self, *arguments)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit too: the program must not outlive train()
                self._fail(error)

    def _fail(self, error):
        """Stops the run because of an exception, the first of which wait() raises."""
        self._error = self._error or error
        self.stop()

    # ---- parts

    def _numbers(self):
        folder = self.folder / "checkpoints" if self.folder else None
        try:
            return {path.name for path in folder.iterdir() if path.name.isdigit()} if folder else set()
        except OSError:
            return set()

    def _read_json(self, name):
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8")) if self.folder else None
        except (OSError, ValueError):
            return None

    def _signal(self, number):
        self._started.wait()
        self._stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def _stop_at_exit(self):
        self.stop()
        if self._child is not None:
            self._child.wait()


def _flat(point, prefix=""):
    """Inner objects become keys with dots."""
    result = {}
    for key, value in point.items():
        if isinstance(value, dict):
            result.update(_flat(value, f"{prefix}{key}."))
        else:
            result[prefix + key] = value
    return result


def folder_of(run):
    """The run folder of a Run, or of a path to one (pathlib.Path)."""
    return run.folder if isinstance(run, Run) else Path(os.fspath(run))
