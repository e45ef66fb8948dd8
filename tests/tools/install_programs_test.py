#!/usr/bin/env python3
"""Installs the programs into an empty folder and trains with the installed copy: install_programs_test.py BUILD_DIR."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
# No variables of this shell that could lead to a library or to the source tree.
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}


class InstalledPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def troupe(self, *words):
        return subprocess.run(
            [self.prefix / "bin/troupe", *words], env=BARE, cwd=self.folder.name, capture_output=True, text=True, timeout=300
        )

    def test_the_installed_copy_trains_evaluates_and_plays(self):
        trained = self.troupe("train", "cartpole", "--run", "run", "--set", "stop.env_steps=20000")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        summary = json.loads(pathlib.Path(self.folder.name, "run/summary.json").read_text())
        self.assertGreaterEqual(summary["env_steps"], 20000)
        self.assertEqual(self.troupe("eval", "run", "--episodes", "2").returncode, 0)
        self.assertEqual(self.troupe("play", "run", "--episodes", "1").returncode, 0)

    def test_a_name_means_an_installed_config_file(self):
        here = pathlib.Path(self.folder.name, "configs")
        here.mkdir()
        for name in ("configs/cartpole.json", "configs/cartpole", "configs/own.json", "cartpole.json", "cartpole"):
            pathlib.Path(self.folder.name, name).write_text('{"seed": 4321}')
        installed = self.prefix / "share/troupe/configs/cartpole.json"
        before = installed.read_text()
        try:
            installed.write_text(json.dumps({**json.loads(before), "seed": 1234}))
            self.assertEqual(json.loads(self.troupe("config", "cartpole").stdout)["seed"], 1234)
        finally:
            installed.write_text(before)
        for path in ("configs/cartpole.json", "configs/cartpole", "configs/own.json", "cartpole.json", "./cartpole"):
            self.assertEqual(json.loads(self.troupe("config", path).stdout)["seed"], 4321, path)
        unknown = self.troupe("config", "own")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("own: no such config file", unknown.stderr)

    def test_the_installed_copy_has_the_server_of_environments_in_python(self):
        source = pathlib.Path(__file__).resolve().parents[2] / "envs/bridge/env_server.py"
        self.assertEqual((self.prefix / "share/troupe/env_server.py").read_bytes(), source.read_bytes())

    def mujoco_refusal(self):
        refused = self.troupe("envs", "mujoco:Hopper-v5")
        self.assertEqual(refused.returncode, 2)
        self.assertEqual(refused.stderr.count("\n"), 1, refused.stderr)
        self.assertIn("run tools/fetch_mujoco and build again", refused.stderr)
        return refused.stderr

    @unittest.skipUnless(os.path.exists(os.path.join(BUILD, "libtroupe_mujoco.so")), "tools/fetch_mujoco has not been run")
    def test_the_installed_copy_has_mujoco_and_refuses_another_version(self):
        shown = self.troupe("envs", "mujoco:Hopper-v5")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("state float32 [11]", shown.stdout)
        (library,) = self.prefix.glob("lib/troupe/libmujoco.so.*")
        library.unlink()
        self.assertIn("cannot be loaded: ", self.mujoco_refusal())
        source = pathlib.Path(self.folder.name, "other.c")
        source.write_text("int mj_version(void) { return 2003007; }")
        subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library, source], check=True)
        self.assertIn("libmujoco has version number 2003007, but troupe was built with the headers of ", self.mujoco_refusal())
        (self.prefix / "lib/troupe/libtroupe_mujoco.so").unlink()
        self.assertIn("this build of troupe has no MuJoCo", self.mujoco_refusal())

    def test_the_installed_config_files_are_complete(self):
        source = pathlib.Path(__file__).resolve().parents[2] / "configs"
        installed = self.prefix / "share/troupe/configs"
        wanted = {path.relative_to(source) for path in source.rglob("*.json")}
        self.assertEqual({path.relative_to(installed) for path in installed.rglob("*.json")}, wanted)


if __name__ == "__main__":
    unittest.main()
