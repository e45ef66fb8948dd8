import numpy as np
import oracles
import pytest
from run_support import use_built_program


@pytest.fixture
def rng(request):
    """A random generator whose seed is the name of the test."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture(params=oracles.FORMS)
def form(request):
    """Each form in which an array may be passed (oracles.given)."""
    return request.param


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs PyTorch")


@pytest.fixture
def in_a_folder(tmp_path, monkeypatch):
    """The test runs in an empty folder, with the program of this build."""
    use_built_program(monkeypatch)
    monkeypatch.chdir(tmp_path)
