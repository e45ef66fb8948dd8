"""Packs the build into a wheel, installs it into a new virtual environment and uses it there as a user does: with nothing else than
numpy, with and without a PyTorch, in a process environment that has only PATH and HOME."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from install_test import TRAINING

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ.get("TROUPE_BUILD_DIR", "")
# From the system, everywhere (tools/pack_wheel.py says why).
SYSTEM = r"/\S*/(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-x86-64\.so\.2)"
IMPORTING = """
import numpy, sys, troupe, troupe.algorithms as ta
advantages, returns = ta.gae(numpy.ones((1, 3)), numpy.zeros((1, 3)), gamma=0.5, lam=1)
assert advantages.tolist() == [[1.75, 1.5, 1.0]], advantages
observations, _ = troupe.make_vec("CartPole-v1", 4).reset(seed=0) if GYMNASIUM else (numpy.zeros((4, 4)), {})
assert observations.shape == (4, 4)
assert "torch" not in sys.modules
print(troupe.__file__, troupe.__version__)
"""
REFUSED = """
import troupe
try:
    troupe.train("cartpole", quiet=True)
except troupe.RunError as error:
    print(error.exit_code, error)
"""


@pytest.mark.parametrize("name, value", [("TROUPE_NATIVE", "ON"), ("TROUPE_SANITIZE", "ON"), ("CMAKE_BUILD_TYPE", "Debug")])
def test_a_build_for_this_machine_or_for_finding_errors_is_refused(tmp_path, name, value):
    settings = {"CMAKE_BUILD_TYPE": "Release", "TROUPE_NATIVE": "OFF", "TROUPE_SANITIZE": "OFF", name: value}
    (tmp_path / "CMakeCache.txt").write_text("".join(f"{key}:STRING={value}\n" for key, value in settings.items()))
    command = [sys.executable, ROOT / "tools/pack_wheel.py", tmp_path, tmp_path / "dist"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"has {name}={value}, a wheel needs" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "dist").exists()


def folder_of(package):
    spec = importlib.util.find_spec(package)
    return Path(list(spec.submodule_search_locations)[0]) if spec else None


if importlib.util.find_spec("auditwheel") is None:
    pytest.skip("auditwheel is missing (tools/setup --tests)", allow_module_level=True)
TORCH = folder_of("torch")
GYMNASIUM = folder_of("gymnasium")


class Installed:
    """The virtual environment with the wheel, and a working folder beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        packed = [sys.executable, ROOT / "tools/pack_wheel.py", BUILD, folder / "dist"]
        self.wheel = Path(subprocess.run(packed, check=True, capture_output=True, text=True).stdout.strip())
        venv.create(folder / "venv")
        self.bin = folder / "venv/bin"
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python3"]
        subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", self.wheel], check=True)
        (self.packages,) = (folder / "venv/lib").glob("python3*/site-packages")
        self.troupe = self.packages / "troupe"
        # Of the packages of the interpreter that runs this test, only these can be imported.
        for name in ("numpy", "numpy.libs", "gymnasium", "farama_notifications", "cloudpickle", "typing_extensions.py"):
            source = Path(folder_of("numpy")).parent / name
            if source.exists():
                (self.packages / name).symlink_to(source)

    def start(self, *command, **variables):
        environment = {"PATH": str(self.bin), "HOME": str(self.folder)} | variables
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([str(word) for word in command], cwd=self.work, env=environment, **pipes)

    def run(self, *command, code=0, **variables):
        """Runs a command of the environment, by its path, and returns its output and errors."""
        process = self.start(self.bin / command[0], *command[1:], **variables)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (out + err)[-3000:]
        return out, err

    def refusal(self, *command, **variables):
        """The one line that a refused command prints."""
        out, err = self.run(*command, code=2, **variables)
        assert out == "" and err.count("\n") == 1, out + err
        return err


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("wheel"))


def link_torch(folder):
    """A folder `torch` in `folder` that leads to the PyTorch of this interpreter; the caller removes it."""
    link = folder / "torch"
    link.symlink_to(TORCH)
    return link


@pytest.fixture
def with_torch(installed):
    """The environment with a PyTorch beside the package, as pip installs it."""
    link = link_torch(installed.packages)
    yield installed
    link.unlink()


def torch_version():
    found = re.search(r"^TROUPE_TORCH_VERSION:\w+=(.*)$", (Path(BUILD) / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1)


def elf_files(folder):
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return [file for file in files if file.open("rb").read(4) == b"\x7fELF"]


def test_the_wheel_is_small_and_its_tag_names_the_c_library_it_needs(installed):
    assert installed.wheel.stat().st_size <= 40_000_000
    tag = re.search(r"-manylinux_2_(\d+)_\w+\.whl$", installed.wheel.name)
    files = elf_files(installed.troupe) + elf_files(installed.packages / "troupe_rl.libs")
    assert len(files) > 8, files
    symbols = subprocess.run(["objdump", "-T", *files], check=True, capture_output=True, text=True).stdout
    newest = max(int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", symbols))
    assert tag and newest <= int(tag.group(1)), (newest, installed.wheel.name)


def test_the_metadata_names_the_command_and_the_one_torch_for_it(installed):
    (info,) = installed.packages.glob("troupe_rl-*.dist-info")
    metadata = (info / "METADATA").read_text()
    assert f'\nRequires-Dist: torch=={torch_version()}.*; extra == "learn"\n' in metadata
    assert '\nRequires-Dist: torch>=2.4; extra == "torch"\n' in metadata
    licences = {file.name for file in (info / "licenses/third_party").iterdir()}
    assert any("caf" in name for name in licences) and "uPlot.txt" in licences, licences


def test_without_torch_everything_but_learning_works(installed):
    assert "PATH=VALUE" in installed.run("troupe", "train", "--help")[0]
    assert '"CartPole-v1"' in installed.run("troupe", "config", "cartpole")[0]
    location, version = installed.run("python3", "-c", IMPORTING.replace("GYMNASIUM", str(GYMNASIUM is not None)))[0].split()
    assert Path(location).parent == installed.troupe
    assert installed.run("troupe", "version")[0].startswith(f"troupe {version} ")
    needed = torch_version()
    wanted = f'`troupe train` needs PyTorch {needed}, and this Python environment has none: pip install "torch=={needed}.*", '
    assert installed.refusal("troupe", "train", "cartpole").startswith(f"troupe: {wanted}or set TROUPE_TORCH to ")
    assert installed.run("python3", "-c", REFUSED)[0].startswith(f"2 {wanted}")
    assert not (installed.work / "runs").exists()


@pytest.mark.skipif(TORCH is None, reason="no PyTorch")
def test_a_torch_of_another_version_is_refused(installed):
    fake = installed.packages / "torch"
    (fake / "lib").mkdir(parents=True)
    for name in ("libc10.so", "libtorch_cpu.so"):
        (fake / "lib" / name).symlink_to(TORCH / "lib" / name)
    (fake / "version.py").write_text("__version__ = '2.3.1+cu121'\n")
    try:
        wanted = f"needs PyTorch {torch_version()}, and the one in {fake} is 2.3.1+cu121: pip install"
        assert wanted in installed.refusal("troupe", "train", "cartpole")
        assert wanted in installed.run("python3", "-c", REFUSED)[0]
        # Also when the program is started without the script, which finds the PyTorch beside the package.
        process = installed.start(installed.troupe / "bin/troupe", "train", "cartpole")
        assert wanted in process.communicate(timeout=60)[1] and process.returncode == 2
        chosen = installed.run("troupe", "train", "cartpole", "--run", "chosen", "--set", "stop.updates=1", TROUPE_TORCH=str(TORCH))
        assert "Run folder: chosen" in chosen[0]
    finally:
        for name in ("lib/libc10.so", "lib/libtorch_cpu.so", "version.py"):
            (fake / name).unlink()
        (fake / "lib").rmdir()
        fake.rmdir()


@pytest.mark.skipif(TORCH is None, reason="no PyTorch")
def test_only_files_of_the_wheel_of_torch_and_of_the_c_library_are_loaded(with_torch):
    beside = (str(with_torch.packages), str(TORCH))
    for file in [*(with_torch.troupe / "bin").iterdir(), *(with_torch.troupe / "lib").rglob("*.so*"), *with_torch.troupe.glob("*.so")]:
        process = with_torch.start("/usr/bin/ldd", file, PATH="/usr/bin:/bin")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0 and "not found" not in out, out + err
        libraries = re.findall(r"(?:=> |^\t)(/\S+) \(0x", out, re.MULTILINE)
        foreign = [each for each in libraries if not os.path.normpath(each).startswith(beside) and not re.fullmatch(SYSTEM, each)]
        assert libraries and not foreign, (file, foreign)


@pytest.mark.skipif(TORCH is None, reason="no PyTorch")
def test_cartpole_is_trained_to_its_bar_evaluated_and_played(with_torch):
    out, _ = with_torch.run("troupe", "train", "cartpole")
    assert "Run folder: runs/cartpole" in out
    summary = json.loads((with_torch.work / "runs/cartpole/summary.json").read_text())
    assert summary["eval"]["return_mean"] >= 475, summary["eval"]
    assert "return " in with_torch.run("troupe", "eval", "runs/cartpole", "--episodes", "2")[0]
    with_torch.run("troupe", "play", "runs/cartpole", "--episodes", "1")


@pytest.mark.skipif(TORCH is None, reason="no PyTorch")
def test_python_trains_with_the_bundled_program(with_torch):
    (with_torch.work / "training.py").write_text(TRAINING if GYMNASIUM else TRAINING[: TRAINING.index("observations, _ =")])
    with_torch.run("python3", "training.py")


@pytest.mark.skipif(TORCH is None, reason="no PyTorch")
def test_torch_may_be_in_any_folder_from_which_the_interpreter_imports(installed):
    elsewhere = installed.folder / "another place"
    elsewhere.mkdir()
    link_torch(elsewhere)
    words = ("train", "cartpole", "--set", "stop.updates=1", "--run")
    # A variable of another program that leads to a library which cannot be used.
    wrong = installed.folder / "wrong"
    wrong.mkdir()
    (wrong / "libtorch_cpu.so").write_bytes(b"")
    out, _ = installed.run("troupe", *words, "by_variable", PYTHONPATH=str(elsewhere), LD_LIBRARY_PATH=str(wrong))
    assert "Run folder: by_variable" in out
    path_file = installed.packages / "torch.pth"
    path_file.write_text(f"{elsewhere}\n")
    assert "Run folder: by_path_file" in installed.run("troupe", *words, "by_path_file")[0]
    path_file.unlink()


@pytest.mark.skipif(TORCH is None, reason="no PyTorch")
def test_the_command_becomes_the_program_and_hands_over_signals(with_torch):
    words = ("train", "cartpole", "--run", "stopped", "--set", "stop.env_steps=0", "--set", "stop.updates=1000000")
    process = with_torch.start(with_torch.bin / "troupe", *words)
    deadline = time.monotonic() + 60
    while not (with_torch.work / "stopped/metrics.jsonl").exists():  # the run has begun
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    assert os.readlink(f"/proc/{process.pid}/exe") == str(with_torch.troupe / "bin/troupe-learn")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert f"To resume: {with_torch.bin}/troupe train cartpole" in out, out


def test_a_reader_that_ends_early_ends_the_command(installed):
    process = installed.start(installed.bin / "troupe", "help", "--markdown")
    process.stdout.close()
    assert process.wait(timeout=60) == -signal.SIGPIPE, process.stderr.read()


@pytest.mark.skipif(GYMNASIUM is None, reason="no Gymnasium")
def test_environments_in_python_run_in_the_interpreter_of_the_wheel(installed):
    # By its path, without the folder of the environment in PATH.
    out, _ = installed.run("troupe", "envs", "gym:CartPole-v1", PATH="/usr/bin:/bin")
    assert "float32 [4]" in out
    assert f"{installed.packages}/gymnasium/" in installed.run("troupe", "envs", "gym:Nonsense-v0", code=2, PATH="/usr/bin:/bin")[1]


@pytest.mark.skipif(not (Path(BUILD) / "libtroupe_mujoco.so").exists(), reason="tools/fetch_mujoco has not been run")
def test_mujoco_is_in_the_wheel(installed):
    assert "state float32 [11]" in installed.run("troupe", "envs", "mujoco:Hopper-v5")[0]


def test_files_of_the_source_tree_are_not_used(installed):
    config = installed.troupe / "share/troupe/configs/cartpole.json"
    before = config.read_text()
    config.write_text(json.dumps({**json.loads(before), "seed": 4321}))
    assert json.loads(installed.run("troupe", "config", "cartpole")[0])["seed"] == 4321
    config.write_text(before)
    server = installed.troupe / "share/troupe/env_server.py"
    hidden = server.rename(server.with_name("hidden.py"))
    assert str(server) in installed.run("troupe", "envs", "gym:CartPole-v1", code=2)[1]
    hidden.rename(server)
