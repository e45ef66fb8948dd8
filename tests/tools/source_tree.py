"""A small git repository with copies of our checks, for the tests of tools/check, of the hook and of .ci/run."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv/bin"
CHECKS = ["check", "common.sh", "changed_files.py", "check_compile.py", "check_format.py", "check_includes.py", "check_lint.py",
          "check_pages.py", "check_sizes.py", "compile_database.py"]


class SourceTree:
    """The repository in a folder of its own, whose name has a space. `remove` deletes it."""

    def __init__(self):
        if shutil.which("git") is None:
            raise unittest.SkipTest("there is no git")
        self.holder = tempfile.TemporaryDirectory(prefix="troupe-tree-")
        self.root = pathlib.Path(os.path.realpath(self.holder.name), "a tree")
        self.root.mkdir()
        # Nothing of this user's git reaches it: no settings, no hooks, no repository that a hook is running for.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.environment.pop("CI", None)
        self.environment.update(
            HOME=self.holder.name, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull, GIT_AUTHOR_NAME="A", GIT_AUTHOR_EMAIL="a@b.c",
            GIT_COMMITTER_NAME="A", GIT_COMMITTER_EMAIL="a@b.c", GIT_EDITOR="true", LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
        self.git("init", "-q", "-b", "main")

    def remove(self):
        self.holder.cleanup()

    def run(self, *words, cwd=None, **environment):
        """The finished process, with standard output and standard error in `stdout`."""
        return subprocess.run(
            [str(word) for word in words], cwd=cwd or self.root, env={**self.environment, **environment}, text=True, timeout=100,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def git(self, *words, cwd=None):
        """What git prints; an error of git is an error of the test."""
        done = self.run("git", *words, cwd=cwd)
        if done.returncode != 0:
            raise AssertionError(f"git {' '.join(map(str, words))}: {done.stdout}")
        return done.stdout

    def write(self, path, text, executable=False):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(0o755)

    def read(self, path):
        return (self.root / path).read_text()

    def copy(self, *paths):
        """Files of our own tree at the same places."""
        for path in paths:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, self.root / path)

    def commit(self, message="change"):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "--no-verify", "-m", message)

    def write_database(self, *sources, path="build/check/compile_commands.json"):
        """A compile_commands.json that names these sources, with the fewest flags that our headers need."""
        self.write(path, json.dumps([
            {"directory": str(self.root), "file": str(self.root / source),
             "command": f"c++ -std=c++20 -Wall '-I{self.root}' -o x.o -c '{self.root / source}'"} for source in sources]))
