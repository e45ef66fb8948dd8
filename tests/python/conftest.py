import numpy as np
import oracles
import pytest


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
