import numpy as np
import oracles
import pytest


@pytest.fixture
def rng(request):
    """Random numbers that depend only on the test's name."""
    return np.random.default_rng(list(request.node.nodeid.encode()))


@pytest.fixture(params=oracles.FORMS)
def form(request):
    """Every form in which an array may be passed (oracles.given)."""
    return request.param


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs PyTorch")
