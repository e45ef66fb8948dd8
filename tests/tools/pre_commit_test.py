#!/usr/bin/env python3
"""Tests tools/hooks/pre-commit with commits in a small repository. Most use a formatter that only joins blanks inside a line."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import VENV, SourceTree

FORMATTER = r"""#!{python}
import re, sys
for path in sys.argv[sys.argv.index("--") + 1:]:
    text = open(path).read()
    open(path, "w").write(re.sub(r"(?<=\S) +", " ", text))
"""
BAD = "int  one();\n\nint two();\n\nint three();\n"
GOOD = "int one();\n\nint two();\n\nint three();\n"
PARTLY = "int  one();\n\nint two();\n\nint   unstaged();\n"  # as BAD, and a change that is not staged


class PreCommit(unittest.TestCase):
    def setUp(self):
        self.tree = SourceTree()
        self.addCleanup(self.tree.remove)
        self.tree.copy("tools/hooks/pre-commit", "tools/check_includes.py", "tools/check_sizes.py", ".clang-format")
        self.tree.write(".gitignore", "/.venv/\n__pycache__/\n")
        self.tree.write(".venv/bin/clang-format", FORMATTER.format(python=sys.executable), executable=True)
        self.tree.write("runtime/old.cpp", GOOD)
        self.tree.commit("the tree")
        self.tree.git("config", "core.hooksPath", "tools/hooks")

    def git(self, *words, cwd=None):
        return self.tree.git(*words, cwd=cwd)

    def stage(self, path, text):
        self.tree.write(path, text)
        self.git("add", path)

    def commit(self, *words, cwd=None):
        """What a commit printed that has to succeed."""
        done = self.tree.run("git", "commit", "-q", "-m", "a change", *words, cwd=cwd)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def refused(self, *words):
        head = self.git("rev-parse", "HEAD")
        done = self.tree.run("git", "commit", "-q", "-m", "a change", *words)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(self.git("rev-parse", "HEAD"), head)
        return done.stdout

    def committed(self, path):
        return self.git("show", f"HEAD:{path}")

    def assert_nothing_is_left(self, cwd=None):
        """Neither the index nor the working folder differs from the last commit, also for commands that do not refresh the index."""
        self.assertEqual(self.tree.run("git", "diff-index", "--name-status", "HEAD", cwd=cwd).stdout, "")
        self.assertEqual(self.git("status", "--porcelain", cwd=cwd), "")

    # What is formatted.

    def test_the_commit_and_the_working_file_are_formatted(self):
        self.stage("runtime/new.cpp", BAD)
        self.assertEqual(self.commit(), "pre-commit: formatted runtime/new.cpp\n")
        self.assertEqual(self.committed("runtime/new.cpp"), GOOD)
        self.assertEqual(self.tree.read("runtime/new.cpp"), GOOD)
        self.assert_nothing_is_left()

    def test_of_a_partly_staged_file_only_the_staged_part_is_formatted(self):
        self.stage("runtime/old.cpp", BAD.replace("three", "four"))
        self.tree.write("runtime/old.cpp", PARTLY)
        self.assertIn("the file with your other changes is as before", self.commit())
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD.replace("three", "four"))
        self.assertEqual(self.tree.read("runtime/old.cpp"), PARTLY)
        self.assertEqual(self.git("status", "--porcelain"), " M runtime/old.cpp\n")

    def test_files_that_are_not_staged_stay_as_they_are(self):
        self.tree.write("runtime/old.cpp", BAD)
        self.tree.write("runtime/untracked.cpp", BAD)
        self.stage("runtime/new.cpp", GOOD)
        self.assertEqual(self.commit(), "")
        self.assertEqual(self.tree.read("runtime/old.cpp"), BAD)
        self.assertEqual(self.tree.read("runtime/untracked.cpp"), BAD)

    def test_all_kinds_of_our_sources_and_no_other_files_are_formatted(self):
        for name in ("a.h", "a.cpp", "a.cu", "a.cuh", "a.py", "a.md"):
            self.stage(f"algorithms/{name}", BAD)
        self.commit()
        for name, text in [("a.h", GOOD), ("a.cpp", GOOD), ("a.cu", GOOD), ("a.cuh", GOOD), ("a.py", BAD), ("a.md", BAD)]:
            self.assertEqual(self.committed(f"algorithms/{name}"), text)

    def test_names_with_blanks_and_other_letters(self):
        names = ["runtime/a b.cpp", "runtime/ü,\"quoted\"'.h", "runtime/-i.cpp", "a new folder/x  y.cpp"]
        for name in names:
            self.stage(name, BAD)
        self.commit()
        for name in names:
            self.assertEqual(self.committed(name), GOOD)
        self.assert_nothing_is_left()

    def test_a_renamed_file_is_formatted_and_a_deleted_one_is_gone(self):
        self.git("mv", "runtime/old.cpp", "runtime/renamed.cpp")
        self.stage("runtime/renamed.cpp", BAD)
        self.commit()
        self.assertEqual(self.committed("runtime/renamed.cpp"), GOOD)
        self.git("rm", "-q", "runtime/renamed.cpp")
        self.assertEqual(self.commit(), "")
        self.assert_nothing_is_left()

    def test_a_file_that_was_deleted_after_staging_is_formatted_in_the_commit(self):
        self.stage("runtime/new.cpp", BAD)
        (self.tree.root / "runtime/new.cpp").unlink()
        self.commit()
        self.assertEqual(self.committed("runtime/new.cpp"), GOOD)
        self.assertFalse((self.tree.root / "runtime/new.cpp").exists())

    def test_modes_are_kept_and_links_are_left_alone(self):
        self.tree.write("runtime/new.cpp", BAD, executable=True)
        (self.tree.root / "runtime/link.cpp").symlink_to("two  blanks.cpp")
        self.git("add", "runtime")
        self.commit()
        self.assertEqual(self.git("ls-tree", "HEAD", "runtime/new.cpp")[:6], "100755")
        self.assertTrue(os.access(self.tree.root / "runtime/new.cpp", os.X_OK))
        self.assertEqual(self.committed("runtime/link.cpp"), "two  blanks.cpp")
        self.assert_nothing_is_left()

    def test_a_style_that_is_staged_counts(self):
        self.use_real_formatter()
        self.tree.write("runtime/new.cpp", "int one() {\n  return  1;\n}\n")
        self.tree.write(".clang-format", "BasedOnStyle: Google\nIndentWidth: 8\nAllowShortFunctionsOnASingleLine: None\n")
        self.git("add", ".")
        self.tree.write(".clang-format", "BasedOnStyle: Google\n")
        self.commit()
        self.assertEqual(self.committed("runtime/new.cpp"), "int one() {\n        return 1;\n}\n")

    # Kinds of commits.

    def test_without_a_staged_file(self):
        self.assertEqual(self.commit("--allow-empty"), "")
        self.assertIn("nothing to commit", self.tree.run("git", "commit", "-m", "none").stdout)

    def test_the_first_commit(self):
        self.git("checkout", "-q", "--orphan", "other")
        self.stage("runtime/old.cpp", BAD)
        self.commit()
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD)
        self.assert_nothing_is_left()

    def test_commit_all(self):
        self.tree.write("runtime/old.cpp", BAD.replace("three", "four"))
        self.commit("-a")
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD.replace("three", "four"))
        self.assert_nothing_is_left()

    def test_commit_of_a_named_file(self):
        self.stage("runtime/staged.cpp", BAD)
        self.tree.write("runtime/old.cpp", BAD.replace("three", "four"))
        self.commit("runtime/old.cpp")
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD.replace("three", "four"))
        # The other file is still staged as it was; nothing is left of the named one.
        self.assertEqual(self.git("status", "--porcelain"), "A  runtime/staged.cpp\n")
        self.assertEqual(self.git("show", ":runtime/staged.cpp"), BAD)
        self.commit()
        self.assertEqual(self.committed("runtime/staged.cpp"), GOOD)
        self.assert_nothing_is_left()

    def test_commit_from_a_folder_below(self):
        self.stage("runtime/new.cpp", BAD)
        self.commit(cwd=self.tree.root / "runtime")
        self.assertEqual(self.committed("runtime/new.cpp"), GOOD)
        self.assert_nothing_is_left()

    def test_amend(self):
        self.stage("runtime/new.cpp", GOOD)
        self.commit()
        self.stage("runtime/new.cpp", BAD + "\nint  five();\n")
        self.commit("--amend")
        self.assertEqual(self.committed("runtime/new.cpp"), GOOD + "\nint five();\n")
        self.assertEqual(self.git("rev-list", "--count", "HEAD").strip(), "2")
        self.assertEqual(self.commit("--amend"), "")
        self.assert_nothing_is_left()

    def test_amend_of_the_message_while_a_badly_formatted_file_is_staged(self):
        self.stage("runtime/old.cpp", BAD)
        self.commit("--amend")
        self.assertEqual(self.git("log", "-1", "--format=%s").strip(), "a change")
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD)
        self.assert_nothing_is_left()

    def test_a_file_outside_a_sparse_checkout_stays_outside(self):
        self.stage("runtime/new.cpp", BAD)
        self.git("update-index", "--skip-worktree", "runtime/new.cpp")
        (self.tree.root / "runtime/new.cpp").unlink()
        self.commit()
        self.assertEqual(self.committed("runtime/new.cpp"), GOOD)
        self.assertEqual(self.git("ls-files", "-t", "runtime/new.cpp"), "S runtime/new.cpp\n")
        self.assert_nothing_is_left()

    def test_a_change_of_nothing_but_format_makes_no_empty_commit(self):
        self.stage("runtime/old.cpp", BAD)
        self.assertIn("nothing is left to commit", self.refused())
        self.assert_nothing_is_left()

    def branches_in_conflict(self):
        """Both sides change runtime/old.cpp; the other side also has a badly formatted file."""
        self.git("checkout", "-q", "-b", "other")
        self.tree.write("runtime/old.cpp", GOOD.replace("two", "other"))
        self.tree.write("runtime/theirs.cpp", BAD)
        self.tree.commit("theirs")
        self.git("checkout", "-q", "main")
        self.tree.write("runtime/old.cpp", GOOD.replace("two", "ours"))
        self.tree.commit("ours")

    def test_a_merge_formats_what_was_resolved_and_not_what_was_merged(self):
        self.branches_in_conflict()
        self.assertEqual(self.tree.run("git", "merge", "other").returncode, 1)
        self.stage("runtime/old.cpp", BAD.replace("two", "both"))
        self.assertEqual(self.commit(), "pre-commit: formatted runtime/old.cpp\n")
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD.replace("two", "both"))
        self.assertEqual(self.committed("runtime/theirs.cpp"), BAD)
        self.assertEqual(len(self.git("rev-parse", "HEAD^@").split()), 2)
        self.assert_nothing_is_left()

    def test_a_rebase_goes_on_after_a_conflict(self):
        self.branches_in_conflict()
        self.assertEqual(self.tree.run("git", "rebase", "other").returncode, 1)
        self.stage("runtime/old.cpp", BAD.replace("two", "both"))
        self.commit()
        self.assertEqual(self.committed("runtime/old.cpp"), GOOD.replace("two", "both"))
        self.git("rebase", "--continue")
        self.assertEqual(self.git("rev-parse", "HEAD^"), self.git("rev-parse", "other"))
        self.assert_nothing_is_left()

    def test_a_worktree_uses_the_formatter_of_the_main_checkout(self):
        self.git("worktree", "add", "-q", "-b", "change", "../work tree")
        worktree = pathlib.Path(self.tree.holder.name, "work tree")
        (worktree / "runtime/new.cpp").write_text(BAD)
        self.git("add", ".", cwd=worktree)
        self.assertEqual(self.commit(cwd=worktree), "pre-commit: formatted runtime/new.cpp\n")
        self.assertEqual((worktree / "runtime/new.cpp").read_text(), GOOD)
        (worktree / "runtime/new.cpp").write_text(BAD.replace("three", "four"))
        self.commit("runtime/new.cpp", cwd=worktree)
        self.assertEqual(self.git("show", "HEAD:runtime/new.cpp", cwd=worktree), GOOD.replace("three", "four"))
        self.assert_nothing_is_left(cwd=worktree)

    # Without a formatter that works.

    def test_without_clang_format_it_says_so_and_passes(self):
        (self.tree.root / ".venv/bin/clang-format").unlink()
        self.stage("runtime/new.cpp", BAD)
        text = self.commit()
        self.assertEqual(text.count("\n"), 1)
        self.assertIn("not formatted, because .venv has no clang-format (tools/setup --check installs it)", text)
        self.assertEqual(self.committed("runtime/new.cpp"), BAD)

    def test_with_a_clang_format_that_fails_it_says_so_and_passes(self):
        for program in ("#!/bin/sh\nexit 3\n", "#!/nonexistent/python\n"):
            self.tree.write(".venv/bin/clang-format", program, executable=True)
            self.stage("runtime/new.cpp", BAD + program)
            self.assertIn("pre-commit: C++ files are not formatted: ", self.commit())

    # What is refused.

    def test_a_forbidden_include_is_refused(self):
        self.stage("runtime/new.cpp", '#include "actors/messages.h"\n')
        self.assertIn("runtime/new.cpp:1: includes actors/messages.h: runtime/ may include nothing of ours", self.refused())
        self.commit("--no-verify")

    def test_a_file_that_is_too_long_is_refused(self):
        self.stage("runtime/new.h", "//\n" * 251)
        self.assertIn("runtime/new.h: 251 lines, at most 250 are allowed", self.refused())

    def test_an_include_cycle_is_refused_if_the_commit_takes_part_in_it(self):
        self.stage("runtime/a.h", '#include "runtime/b.h"\n')
        self.stage("runtime/b.h", '#include "runtime/a.h"\n')
        self.assertIn("an include cycle: runtime/a.h -> runtime/b.h -> runtime/a.h", self.refused())
        self.commit("--no-verify")
        self.stage("runtime/new.cpp", GOOD)
        self.commit()
        self.stage("runtime/b.h", '#include "runtime/a.h"  // still\n')
        self.assertIn("an include cycle", self.refused())

    def test_only_what_is_staged_counts(self):
        self.stage("runtime/new.cpp", GOOD)
        self.tree.write("runtime/new.cpp", '#include "actors/messages.h"\n')
        self.commit()
        self.git("add", "runtime/new.cpp")
        self.tree.write("runtime/new.cpp", GOOD)
        self.assertIn("includes actors/messages.h", self.refused())

    def use_real_formatter(self):
        if not (VENV / "clang-format").exists():
            self.skipTest("clang-format is not installed (tools/setup --check)")
        (self.tree.root / ".venv/bin/clang-format").unlink()
        (self.tree.root / ".venv/bin/clang-format").symlink_to(VENV / "clang-format")

    def test_with_the_real_clang_format(self):
        self.use_real_formatter()
        self.stage("runtime/new.cpp", "namespace   troupe {\nint one( ) ;\n}\n")
        self.commit()
        self.assertEqual(self.committed("runtime/new.cpp"), "namespace troupe {\nint one();\n}\n")
        self.assert_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
