"""Waits for what other processes do, without asking again and again: for files that they write, and for their end. Linux only."""

import contextlib
import ctypes
import os
import select
import time

PATIENCE = 180  # seconds, for a busy machine
# Of inotify(7): a file is changed, closed after that, moved here, made, removed.
CHANGES = 0x2 | 0x8 | 0x80 | 0x100 | 0x200
ENDED = 2  # of errno(3): the folder is gone


class Changes:
    """Changes of files in a folder and in the folders below it, until close()."""

    def __init__(self, folder):
        self.folder, self.libc = folder, ctypes.CDLL(None, use_errno=True)
        self.descriptor = self.libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    def watch(self):
        """Watches the folders that there are. Whoever makes another one changes one of these."""
        folders = [self.folder]
        while folders:
            folder = os.fspath(folders.pop())
            if self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), CHANGES) < 0:
                if ctypes.get_errno() == ENDED:
                    continue
                raise OSError(ctypes.get_errno(), "inotify_add_watch", folder)
            with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
                folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]

    def forget(self):
        """Reads the changes until now."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.descriptor, 1 << 16):
                pass

    def close(self):
        os.close(self.descriptor)


def wait_for(condition, what, folder, process=None):
    """Returns once the condition holds. It is asked after each change of a file in the folder or below it, and at the end of the process
    (subprocess.Popen). Raises AssertionError after PATIENCE."""
    end = time.monotonic() + PATIENCE
    with contextlib.closing(Changes(folder)) as changes, contextlib.ExitStack() as stack:
        poll = select.poll()
        poll.register(changes.descriptor, select.POLLIN)
        if process and process.returncode is None:
            ended = os.pidfd_open(process.pid)
            stack.callback(os.close, ended)
            poll.register(ended, select.POLLIN)
        while True:
            changes.forget()  # first: what comes after it is not missed
            changes.watch()
            if condition():
                return
            ready = poll.poll(max(0, 1000 * (end - time.monotonic())))
            if not ready:
                raise AssertionError(f"no {what} within {PATIENCE} s")
            for descriptor, _ in ready:
                if descriptor != changes.descriptor:
                    poll.unregister(descriptor)  # a process ends once
