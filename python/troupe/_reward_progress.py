"""What the training of a reward model tells: lines about what has ended and, when nothing does for long, about what is under way."""

import threading
import time


class Progress:
    """Calls `tell` with a line at least every `seconds`, from a thread of its own, because one step may take minutes. It is a context: no
    line comes after its end. An exception of `tell` ends the lines, and is raised by the next call."""

    def __init__(self, tell, seconds):
        self._tell, self._seconds = tell, seconds
        self._changed = threading.Condition()
        self._closed, self._error = False, None
        self._done, self._doing = None, ""
        self._told = self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def begin(self, doing, done=None):
        """`doing` is under way from now on, after `done`; each is told only when a line is due."""
        with self._changed:
            self._raise()
            self._done, self._doing, self._begun = done, doing, time.monotonic()

    def tell(self, line):
        """Tells the line now."""
        with self._changed:
            self._raise()
            self._write(line)

    def _raise(self):
        if self._error is not None:
            raise self._error

    def _write(self, line):
        self._tell(line)
        self._done, self._told = None, time.monotonic()

    def _run(self):
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                left = self._told + self._seconds - now
                if left > 0:
                    self._changed.wait(left)
                    continue
                try:
                    self._write(self._done or f"{self._doing}: under way for {now - self._begun:.0f} s")
                except Exception as error:  # raised where the training sees it
                    self._error = error
                    return
