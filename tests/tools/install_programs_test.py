#!/usr/bin/env python3
"""Installs the programs into an empty folder and trains with the installed copy: install_programs_test.py BUILD_DIR."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
# No variables of this shell that could lead to a library or to the source tree.
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
# Writes which LibTorch its parent has loaded, and the search path of libraries that it was started with.
SEEING = """
import os, re
import numpy as np
from types import SimpleNamespace as Space

class Box(Space): pass
class Discrete(Space): pass

maps = open(f"/proc/{os.getppid()}/maps").read()
loaded = re.search(r"(/\\S.*libtorch_cpu.so)$", maps, re.MULTILINE)
with open(os.environ["SEEN"], "a") as file:
    file.write(f"{loaded.group(1) if loaded else ''}|{os.environ.get('LD_LIBRARY_PATH', '')}\\n")

class Seeing:
    observation_space = Box(shape=(1,), dtype=np.dtype("float32"), low=np.zeros(1), high=np.ones(1))
    action_space = Discrete(n=2)

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {}
"""


class InstalledPrograms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = pathlib.Path(cls.folder.name, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def troupe(self, *words, **variables):
        return subprocess.run(
            [self.prefix / "bin/troupe", *words],
            env=BARE | variables,
            cwd=self.folder.name,
            capture_output=True,
            text=True,
            timeout=300,
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
        source, installed = pathlib.Path(__file__).resolve().parents[2] / "envs/bridge", self.prefix / "share/troupe"
        files = [pathlib.Path("env_server.py"), *(each.relative_to(source) for each in source.glob("troupe_env_server/*.py"))]
        self.assertGreater(len(files), 2)
        for file in files:
            self.assertEqual((installed / file).read_bytes(), (source / file).read_bytes())

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

    def torch_folder(self, name):
        """A folder that leads to the build's LibTorch and names no version of it."""
        loaded = subprocess.run(["ldd", self.prefix / "bin/troupe-learn"], capture_output=True, text=True, check=True).stdout
        folder = pathlib.Path(self.folder.name, name)
        (folder / "lib").mkdir(parents=True)
        for library in re.findall(r" => (\S+/lib(?:c10|torch_cpu)\.so)", loaded):
            (folder / "lib" / os.path.basename(library)).symlink_to(library)
        return folder

    def torch_refusal(self, **variables):
        refused = self.troupe("train", "cartpole", "--run", "refused", **variables)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertEqual(refused.stderr.count("\n"), 1, refused.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "refused")))
        return refused.stderr

    def test_a_chosen_torch_is_loaded_and_children_do_not_inherit_the_path_to_it(self):
        folder = self.torch_folder("chosen torch")
        pathlib.Path(self.folder.name, "seeing.py").write_text(SEEING)
        settings = ("env.id=py:seeing:Seeing", f"env.python={sys.executable}", "stop.updates=1", "workers.count=1")
        words = [word for setting in settings for word in ("--set", setting)]
        for path in ({}, {"LD_LIBRARY_PATH": "/a:/b"}):
            run, seen = f"chosen{len(path)}", pathlib.Path(self.folder.name, f"seen{len(path)}")
            variables = {**path, "TROUPE_TORCH": str(folder), "PYTHONPATH": self.folder.name, "SEEN": str(seen)}
            trained = self.troupe("train", "cartpole", "--run", run, *words, **variables)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            # One line from each environment server: of troupe, which asks for the spaces, and of troupe-learn.
            lines = seen.read_text().splitlines()
            parents = {line.split("|")[0] for line in lines}
            self.assertEqual(parents, {"", os.path.realpath(folder / "lib/libtorch_cpu.so")})
            self.assertEqual({line.split("|")[1] for line in lines}, {path.get("LD_LIBRARY_PATH", "")})

    def test_another_version_of_torch_is_refused_with_both_versions(self):
        folder = self.torch_folder("torch of another version")
        (folder / "version.py").write_text("__version__ = '2.3.1+cu121'\n")
        wanted = f"and the one in {folder} is 2.3.1+cu121: build troupe again, or set TROUPE_TORCH to the folder of a PyTorch "
        for variables in ({"TROUPE_TORCH": str(folder)}, {"LD_LIBRARY_PATH": str(folder / "lib")}):
            self.assertIn(wanted, self.torch_refusal(**variables))

    def test_the_old_abi_an_incomplete_torch_and_none_are_refused(self):
        folder = self.torch_folder("torch")
        config = folder / "share/cmake/Torch/TorchConfig.cmake"
        config.parent.mkdir(parents=True)
        config.write_text('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")')
        self.assertIn("has the old one (_GLIBCXX_USE_CXX11_ABI=0)", self.torch_refusal(TROUPE_TORCH=str(folder)))
        config.unlink()
        library = folder / "lib/libtorch_cpu.so"
        library.unlink()
        library.write_bytes(b"")
        self.assertIn("libtorch_cpu.so: file too short; install PyTorch ", self.torch_refusal(TROUPE_TORCH=str(folder)))
        library.unlink()
        refusal = self.torch_refusal(TROUPE_TORCH=str(folder))
        self.assertIn(f'TROUPE_TORCH: "{folder}" has no lib/libtorch_cpu.so, expected the folder of a PyTorch ', refusal)

    def test_a_library_that_torch_needs_and_that_is_missing_is_named(self):
        folder = self.torch_folder("torch with a dependency")
        for name, links in (("libdependency.so.1", []), ("libtorch_cpu.so", ["libdependency.so.1"])):
            target = folder / "lib" / name
            target.unlink(missing_ok=True)
            linked = [folder / "lib" / each for each in links]
            subprocess.run(
                ["cc", "-shared", f"-Wl,-soname,{name},--no-as-needed,-rpath,{folder}/lib", "-o", target, *linked], check=True
            )
        (folder / "lib/libdependency.so.1").unlink()
        wanted = f"and the one in {folder} needs libdependency.so.1, which is not found: install it again with its dependencies"
        self.assertIn(wanted, self.torch_refusal(TROUPE_TORCH=str(folder)))

    def test_without_the_torch_it_was_built_with_it_says_what_to_do(self):
        """With a copy of troupe-learn that searches another folder."""
        program = self.prefix / "bin/troupe-learn"
        before = program.read_bytes()
        folders = {match for match in re.findall(rb"/[^\0:]+/lib(?=[\0:])", before) if os.path.exists(match + b"/libtorch_cpu.so")}
        self.assertTrue(folders)
        changed = before
        for folder in folders:
            changed = changed.replace(folder, b"/" + b"x" * (len(folder) - 1))
        program.unlink()
        try:
            program.write_bytes(changed)
            program.chmod(0o755)
            refusal = self.torch_refusal()
        finally:
            program.unlink()
            program.write_bytes(before)
            program.chmod(0o755)
        self.assertIn(", with which it was built, and ", refusal)
        self.assertIn(" has none: build troupe again, or set TROUPE_TORCH to the folder of a PyTorch ", refusal)

    def test_the_installed_config_files_are_complete(self):
        source = pathlib.Path(__file__).resolve().parents[2] / "configs"
        installed = self.prefix / "share/troupe/configs"
        wanted = {path.relative_to(source) for path in source.rglob("*.json")}
        self.assertEqual({path.relative_to(installed) for path in installed.rglob("*.json")}, wanted)


if __name__ == "__main__":
    unittest.main()
