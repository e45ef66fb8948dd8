"""The path from a CUDA tensor to a kernel, without a GPU: CPU tensors are declared to be on a GPU, and a module with the functions of
`troupe._cuda` runs the CPU kernels."""

import contextlib
import inspect
import subprocess
import sys
import types
import warnings

import numpy as np
import oracles
import pytest

import troupe
import troupe.algorithms as ta
from troupe import _core
from troupe.algorithms import _devices

torch = pytest.importorskip("torch", reason="needs PyTorch")


class Fake(types.ModuleType):
    """A `_cuda` that requires a workspace and then calls the function of `_core`."""

    def __init__(self, needed):
        super().__init__("troupe._cuda")
        self.calls = []

        def stand_in(name):
            def function(*arguments):
                *arguments, workspace, size, device, stream = arguments
                assert device == 0
                self.calls.append((name, workspace, size, stream))
                if size < needed:
                    return needed
                getattr(_core, name)(*arguments)
                return 0

            return function

        for name in ("gae_returns", "vtrace_targets", "discounted_returns"):
            setattr(self, name, stand_in(name))


@pytest.fixture(params=[0, 256])
def fake(request, monkeypatch):
    module = Fake(request.param)
    module.needed = request.param
    monkeypatch.setitem(sys.modules, "troupe._cuda", module)
    monkeypatch.setattr(troupe, "_cuda", module, raising=False)
    declare_gpu(monkeypatch, torch.device("cpu", 0))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: types.SimpleNamespace(cuda_stream=77))
    return module


def declare_gpu(monkeypatch, device=torch.device("cpu")):
    monkeypatch.setattr(_devices, "cuda_device", lambda x: device if torch.is_tensor(x) else None)


@pytest.mark.parametrize("layout", ["BT", "TB"])
def test_the_scan_family_reaches_its_kernels(rng, fake, layout):
    rewards, values = (oracles.numbers(rng, 4, 7) for _ in range(2))
    args = [rewards, values]
    mask = rng.random((4, 7)) < 0.7
    n = rewards.shape[0 if layout == "BT" else 1]
    calls = [
        (ta.gae, args, dict(gamma=0.9, lam=0.8, mask=mask, bootstrap=np.ones(n, np.float32), layout=layout)),
        (ta.lambda_returns, args, dict(gamma=0.9, lam=0.8, terminated=mask, layout=layout)),
        (ta.reward_to_go, args[:1], dict(gamma=0.9, mask=mask, masked="reset", layout=layout)),
        (ta.vtrace, [args[0], np.full_like(rewards, 0.9), *args, np.ones(n, np.float32)], dict(lam=0.9, layout=layout)),
    ]
    for function, arrays, options in calls:
        expected = function(*arrays, **options)
        fake.calls.clear()
        to_tensor = lambda x: torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        got = function(*map(to_tensor, arrays), **{k: to_tensor(x) for k, x in options.items()})
        for a, b in zip(got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,)):
            np.testing.assert_array_equal(a.numpy(), b)
        assert len(fake.calls) == (2 if fake.needed else 1) and all(call[3] == 77 for call in fake.calls)
        assert fake.calls[-1][2] == fake.needed and bool(fake.calls[-1][1]) == bool(fake.needed)


def test_offsets_are_not_moved_to_the_gpu(rng, fake):
    rewards = torch.from_numpy(oracles.numbers(rng, 9))
    returns = ta.reward_to_go(rewards, gamma=0.5, offsets=torch.tensor([0, 4, 4, 9]))
    expected = ta.reward_to_go(rewards.numpy(), gamma=0.5, offsets=[0, 4, 4, 9])
    np.testing.assert_array_equal(returns.numpy(), expected)


def test_numpy_arrays_never_go_to_the_gpu(rng, fake):
    ta.reward_to_go(oracles.numbers(rng, 3, 4))
    assert not fake.calls


def test_without_the_kernels_the_error_says_how_to_build_them(monkeypatch):
    declare_gpu(monkeypatch)
    monkeypatch.setitem(sys.modules, "troupe._cuda", None)
    monkeypatch.delattr(troupe, "_cuda", raising=False)
    with pytest.raises(ValueError, match=r"rewards: is on cpu, and troupe was built without its CUDA kernels; .*TROUPE_CUDA=ON"):
        ta.gae(torch.zeros(2, 3), torch.zeros(2, 3), gamma=1, lam=1)


def test_other_functions_copy_their_tensors_to_the_host(rng, monkeypatch):
    moves = []
    move = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda x, *a, **k: (moves.append(a), move(x, *a, **k))[1])
    x, mask = torch.randn(3, 5), torch.ones(3, 5)
    plain = ta.whiten(x, mask)
    assert ("cpu",) not in moves
    declare_gpu(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(ta.whiten(x, mask), plain)
    assert moves.count(("cpu",)) == 2 and (torch.device("cpu"),) in moves


def test_gradients_flow_through_the_copy_on_the_host(monkeypatch):
    declare_gpu(monkeypatch)

    def doubled(x):
        return 2 * x

    x = torch.randn(4, 8, requires_grad=True)
    with pytest.warns(UserWarning, match="doubled"):
        _devices.on_host(doubled)(x).sum().backward()
    assert bool((x.grad == 2).all())


def test_copying_to_the_host_gives_one_warning_per_function(monkeypatch):
    declare_gpu(monkeypatch)
    functions = [_devices.on_host(inspect.unwrap(ta.whiten)), _devices.on_host(inspect.unwrap(ta.overlong_penalty))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        functions[0](np.zeros(3))
        assert not caught
        for _ in range(3):
            functions[0](torch.zeros(3))
            functions[1](torch.ones(3, dtype=torch.int64), max_length=4, buffer=1)
    messages = [str(w.message) for w in caught]
    assert len(messages) == 2
    assert messages[0].startswith("troupe.algorithms.whiten: is not implemented for the GPU; tensors on cpu are copied to the host")
    assert messages[1].startswith("troupe.algorithms.overlong_penalty: ")


def test_functions_with_a_gpu_form_do_not_copy_to_the_host(monkeypatch):
    declare_gpu(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.zeros(2, 3)
        ta.policy_loss("clip", x, x, x)
        ta.value_loss(x, x)
        ta.aggregate(x)
        ta.kl("k3", x, x)
        ta.logprobs_entropy(x, torch.zeros(2, dtype=torch.int64))
        ta.gaussian_entropy(x)


def test_wrapped_functions_keep_name_and_signature():
    assert ta.whiten.__name__ == "whiten" and "shift_mean" in inspect.signature(ta.whiten).parameters


def test_a_failing_gpu_is_an_exception_with_cudas_text():
    cuda = pytest.importorskip("troupe._cuda", reason="the package was built without CUDA kernels (TROUPE_CUDA)")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    x = np.zeros((2, 3), np.float32)
    view = lambda name, array: _core.View(name, array.ctypes.data, "float32", array.shape, (3, 1), True)
    with pytest.raises(RuntimeError, match="CUDA: "):
        cuda.discounted_returns(
            view("rewards", x), None, None, None, None, None, 0.9, False, False, False, 1, view("returns", x.copy()), 0, 0, 0, 0
        )
    with pytest.raises(ValueError, match="gamma"):
        cuda.discounted_returns(
            view("rewards", x), None, None, None, None, None, 7.0, False, False, False, 1, view("returns", x.copy()), 0, 0, 0, 0
        )


def test_importing_needs_no_torch():
    program = "import sys, troupe.algorithms; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
