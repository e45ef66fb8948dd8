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


def test_pip_installs_a_package_that_works(tmp_path):
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python3"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*command, **changes):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | changes, capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    # numpy and the build tools come from the interpreter that runs this test, so no network is needed.
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(packages) / "shared.pth").write_text("\n".join(sorted(shared)) + "\n")
    # Without CUDA, because nvcc takes minutes.
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-C", "cmake.define.TROUPE_CUDA=OFF"]
    run(python, "-m", "pip", "install", *options, str(ROOT / "python"))
    version = run(python, "-c", PROGRAM, VENV=str(folder)).strip()
    assert f"project(troupe VERSION {version} " in (ROOT / "CMakeLists.txt").read_text()
