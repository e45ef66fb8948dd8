#!/usr/bin/env python3
"""Tests how tools/setup treats .venv, system packages and the hooks of git. Stubs replace what it would download or ask of the system."""

import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import SourceTree

# `python3 -m venv DIR` makes an interpreter that has pip, or is interrupted half-way if there is a file "interrupt". `.venv/bin/python3
# -m pip` logs how it was called.
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*)
    echo "venv $3" >>"{root}/log"
    mkdir -p "$3/bin" "$3/lib"
    [ ! -e "{root}/interrupt" ] || exit 1
    cp "{root}/stubs/python3" "$3/bin/python3"
    ;;
  "-m pip "*) case "$0" in */.venv/*) echo "pip $3" >>"{root}/log" ;; *) exit 1 ;; esac ;;
  *) exec "{python}" "$@" ;;
esac
"""
# Of a package that `missing` names, dpkg-query knows nothing. apt-get logs how it was called.
DPKG_QUERY = """#!/bin/sh
for package; do :; done
grep -qsx "$package" "{root}/missing" || echo installed
"""
APT_GET = """#!/bin/sh
echo "apt-get $*" >>"{root}/log"
"""
SUDO = """#!/bin/sh
case "$1" in -v | -n) ;; *) exec "$@" ;; esac
"""
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>"{root}/log"
"""
DF = """#!/bin/sh
echo Filesystem 1024-blocks Used Available
echo stub 100000000 0 100000000
"""
LAUNCHERS = "openmpi-bin munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins".split()
FIND_TORCH = 'print("/torch\\t2.13\\tcpu")\n'


class Setup(unittest.TestCase):
    def setUp(self):
        self.tree = SourceTree()
        self.addCleanup(self.tree.remove)
        self.tree.copy("tools/setup", "tools/common.sh")
        self.tree.write("tools/find_torch.py", FIND_TORCH)
        self.tree.write("tools/fetch_mujoco", "#!/bin/sh\n", executable=True)
        self.tree.write("tools/requirements-check.txt", "clang-format\n")
        self.tree.write("stubs/python3", PYTHON.format(root=self.tree.root, python=sys.executable), executable=True)
        self.tree.write("stubs/cmake", "#!/bin/sh\necho cmake version 3.25.1\n", executable=True)
        self.venv = self.tree.root / ".venv"

    def setup(self, *words, cwd=None, **environment):
        path = f"{self.tree.root}/stubs:{os.environ['PATH']}"
        environment = {"TROUPE_SKIP_PACKAGES": "1"} | environment
        return self.tree.run("tools/setup", *(words or ["--check"]), cwd=cwd, PATH=path, **environment)

    def succeed(self, *words, **environment):
        done = self.setup(*words, **environment)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def log(self):
        return self.tree.read("log").split("\n")[:-1] if (self.tree.root / "log").exists() else []

    def interrupt(self):
        self.tree.write("interrupt", "")
        self.assertNotEqual(self.setup().returncode, 0)
        (self.tree.root / "interrupt").unlink()

    def hooks_path(self):
        return self.tree.run("git", "config", "core.hooksPath").stdout.strip()

    # .venv

    def test_a_new_venv_is_made_once(self):
        self.succeed()
        self.succeed()
        self.assertEqual(self.log(), [f"venv {self.venv}", "pip install"])

    def test_an_interrupted_one_of_ours_is_made_again(self):
        self.interrupt()
        (self.venv / "lib/half").write_text("")
        self.succeed()
        self.assertFalse((self.venv / "lib/half").exists())
        self.assertEqual(self.log(), [f"venv {self.venv}"] * 2 + ["pip install"])

    def test_one_of_ours_whose_python_is_gone_is_made_again(self):
        self.succeed()
        (self.venv / "bin/python3").unlink()
        self.succeed()
        self.assertEqual(self.log().count("pip install"), 2)

    def test_one_of_another_without_pip_is_refused_and_left_as_it_is(self):
        self.tree.write(".venv/pyvenv.cfg", "home = /elsewhere\n")
        self.tree.write(".venv/bin/python3", "#!/bin/sh\nexit 1\n", executable=True)
        before = sorted(self.venv.rglob("*"))
        done = self.setup()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines(), [
            "setup: .venv has no pip and was not made by tools/setup: run .venv/bin/python3 -m ensurepip, or move .venv away, then run "
            "this again"])
        self.assertEqual(sorted(self.venv.rglob("*")), before)
        self.assertEqual(self.log(), [])

    def test_one_of_another_with_pip_is_used(self):
        self.tree.write(".venv/theirs", "")
        shutil.copytree(self.tree.root / "stubs", self.venv / "bin")
        self.succeed()
        self.assertTrue((self.venv / "theirs").exists())
        self.assertEqual(self.log(), ["pip --version", "pip install"])

    def test_an_empty_folder_is_used(self):
        self.venv.mkdir()
        self.succeed()
        self.assertEqual(self.log(), [f"venv {self.venv}", "pip install"])

    # System packages.

    def installed(self, *words):
        """The packages that a set-up with these words installs on a machine without those of `missing`."""
        for name, text in {"dpkg-query": DPKG_QUERY, "apt-get": APT_GET, "sudo": SUDO, "systemctl": SYSTEMCTL, "df": DF}.items():
            self.tree.write(f"stubs/{name}", text.format(root=self.tree.root), executable=True)
        self.succeed(*words, TROUPE_SKIP_PACKAGES="0")
        calls = [line.split() for line in self.log() if line.startswith("apt-get")]
        installing = [call[call.index("--no-install-recommends") + 1 :] for call in calls if "install" in call]
        return [package for packages in installing for package in packages]

    def test_launchers_are_installed_when_they_are_asked_for(self):
        self.tree.write("missing", "\n".join(LAUNCHERS) + "\n")
        self.assertEqual(self.installed("--launchers"), LAUNCHERS)

    def test_only_the_launchers_that_are_missing_are_installed(self):
        self.tree.write("missing", "openmpi-bin\n")
        self.assertEqual(self.installed("--launchers"), ["openmpi-bin"])

    def test_launchers_are_not_installed_for_the_build(self):
        self.tree.write("missing", "\n".join(["ninja-build", *LAUNCHERS]) + "\n")
        self.tree.write("tools/requirements-test.txt", "pytest\n")
        self.tree.write("tools/requirements-wheel.txt", "auditwheel\n")
        self.assertEqual(self.installed("--tests"), ["ninja-build"])

    def test_services_of_launchers_stay_off(self):
        self.tree.write("missing", "ninja-build\nmunge\nslurmd\n")
        self.installed("--launchers")
        if not pathlib.Path("/run/systemd/system").is_dir():
            self.skipTest("this machine does not start services with systemd")
        about = [line for line in self.log() if line.startswith("systemctl") or "install" in line]
        self.assertEqual([line.split()[:2] for line in about], [
            ["systemctl", "mask"], ["apt-get", "-y"], ["systemctl", "unmask"], ["systemctl", "disable"]])
        for line in about[:1] + about[2:]:
            self.assertEqual(line.split()[-2:], ["munge", "slurmd"])

    # The hook.

    def test_check_installs_the_hook_and_says_it_once(self):
        self.assertIn("commits run tools/hooks/pre-commit", self.succeed())
        self.assertEqual(self.hooks_path(), "tools/hooks")
        self.assertNotIn("hook", self.succeed())

    def test_nothing_else_installs_it(self):
        self.succeed("--help")
        self.tree.write("tools/requirements-test.txt", "pytest\n")
        self.tree.write("tools/requirements-wheel.txt", "auditwheel\n")
        self.succeed("--tests")
        self.assertEqual(self.hooks_path(), "")

    def test_continuous_integration_and_a_variable_leave_git_alone(self):
        for variable in ("CI", "TROUPE_SKIP_HOOK"):
            self.assertNotIn("hook", self.succeed(**{variable: "1"}))
            self.assertEqual(self.hooks_path(), "")

    def test_other_hooks_are_kept(self):
        self.tree.git("config", "core.hooksPath", "/my/hooks")
        text = self.succeed()
        self.assertEqual(text.count("hook is not installed: core.hooksPath is /my/hooks"), 1)
        self.assertEqual(self.hooks_path(), "/my/hooks")

    def test_a_pre_commit_hook_of_the_user_is_kept(self):
        self.tree.write(".git/hooks/pre-commit", "#!/bin/sh\n", executable=True)
        self.tree.write(".git/hooks/pre-push.sample", "#!/bin/sh\n", executable=True)
        self.assertEqual(self.succeed().count("the hook is not installed: .git/hooks has pre-commit; call "), 1)
        self.assertEqual(self.hooks_path(), "")

    def test_the_samples_of_git_are_no_hooks(self):
        self.tree.write(".git/hooks/pre-commit.sample", "#!/bin/sh\n", executable=True)
        self.succeed()
        self.assertEqual(self.hooks_path(), "tools/hooks")

    def test_a_worktree_gets_it_for_all(self):
        self.tree.commit()
        self.tree.git("worktree", "add", "-q", "../worktree")
        worktree = pathlib.Path(self.tree.holder.name, "worktree")
        self.succeed(cwd=worktree)
        self.assertEqual(self.hooks_path(), "tools/hooks")
        self.assertEqual(self.tree.git("config", "core.hooksPath", cwd=worktree).strip(), "tools/hooks")

    def test_a_tree_inside_another_repository_and_one_without_git_are_left_alone(self):
        inner = self.tree.root / "third_party/troupe"
        inner.mkdir(parents=True)
        for name in ("tools", "stubs"):
            shutil.copytree(self.tree.root / name, inner / name)
        self.succeed(cwd=inner)
        self.assertEqual(self.hooks_path(), "")
        shutil.rmtree(self.tree.root / ".git")
        self.assertNotIn("hook", self.succeed())


if __name__ == "__main__":
    unittest.main()
