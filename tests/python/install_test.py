"""Builds and installs the package with pip into a new virtual environment, as a user does, and uses it from another folder."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib.metadata, numpy, os, troupe, troupe.algorithms as ta
assert troupe.__file__.startswith(os.environ["VENV"]), troupe.__file__
advantages, returns = ta.gae(numpy.ones((1, 3)), numpy.zeros((1, 3)), gamma=0.5, lam=1)
assert advantages.tolist() == [[1.75, 1.5, 1.0]], advantages
assert os.path.exists(os.path.join(os.path.dirname(troupe.__file__), "py.typed"))
assert importlib.metadata.version("troupe-rl") == troupe.__version__
print(troupe.__version__)
"""
# An environment of one's own, with nothing but numpy, and a whole run on it.
TRAINING = """
import numpy as np, sys, troupe
from types import SimpleNamespace as Space

class Box(Space): pass
class Discrete(Space): pass

class Walk:
    observation_space = Box(shape=(1,), dtype=np.dtype("float32"), low=np.zeros(1), high=np.ones(1))
    action_space = Discrete(n=2)

    def reset(self, seed=None, options=None):
        self.place = 0
        return self.seen(), {}

    def seen(self):
        return np.array([self.place / 9], np.float32)

    def step(self, action):
        self.place = max(0, self.place + (1 if action == 1 else -1))
        done = self.place == 9
        return self.seen(), 1.0 if done else -0.01, done, False, {}

run = troupe.train({"trainer": {"super_batch": 512}, "rollout": {"length": 16}}, env=Walk, stop__updates=40, quiet=True)
assert run.summary["eval"]["return_mean"] > 0.9, run.summary["eval"]
action, _ = troupe.load(run).predict(np.array([0.5], np.float32))
assert action == 1
observations, _ = troupe.make_vec("CartPole-v1", 4).reset(seed=0)
assert observations.shape == (4, 4)
"""


def test_pip_installs_a_package_that_works(tmp_path):
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python3"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*command, **changes):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | changes, capture_output=True, text=True, timeout=1500, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    # numpy and the build tools come from the interpreter that runs this test, so no network is needed.
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(packages) / "shared.pth").write_text("\n".join(sorted(shared)) + "\n")
    # Without CUDA, because nvcc takes minutes.
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--config-settings=cmake.define.TROUPE_CUDA=OFF"]
    run(python, "-m", "pip", "install", *options, str(ROOT / "python"))
    version = run(python, "-c", PROGRAM, VENV=str(folder)).strip()
    build = os.environ.get("TROUPE_BUILD_DIR")
    program = os.environ.get("TROUPE_PROGRAM") or (os.path.join(build, "troupe") if build else "")
    (tmp_path / "training.py").write_text(TRAINING)
    run(python, "training.py", TROUPE_PROGRAM=program)
    assert f"project(troupe VERSION {version} " in (ROOT / "CMakeLists.txt").read_text()
