"""The GPU kernels compared with the CPU kernels. Needs a GPU. Without one, tests/algorithms/scan/cuda_scan_test.cpp tests the logic of
the kernels, and cuda_dispatch_test.py the path to them."""

import numpy as np
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)
pytest.importorskip("troupe._cuda", reason="the package was built without CUDA kernels (TROUPE_CUDA)")

# Shapes such that each kernel runs: one warp or block per row, tiles of few long rows, one thread per column, tiles of columns.
SHAPES = [(0, 5), (5, 0), (1, 1), (700, 100), (3, 128), (200, 129), (100, 3001), (96, 20000), (1, 4097), (2, 250001), (40000, 12)]


@pytest.fixture(params=SHAPES, ids=str)
def shape(request):
    return request.param


@pytest.fixture(params=["BT", "TB"])
def layout(request):
    return request.param


def equal(on_gpu, on_cpu):
    assert on_gpu.is_cuda and on_gpu.dtype == torch.float32 and on_gpu.shape == on_cpu.shape
    on_gpu = on_gpu.cpu().double()
    bound = 1e-5 + 2e-5 * (on_cpu.abs().max().item() if on_cpu.numel() else 0)
    torch.testing.assert_close(on_gpu, on_cpu.double(), rtol=0, atol=bound)


def both(function, arguments, **numbers):
    """Results on the GPU and on the CPU."""
    moved = [{k: x.to(d) if torch.is_tensor(x) else x for k, x in arguments.items()} for d in ("cuda", "cpu")]
    for on_gpu, on_cpu in zip(*(results(function(**given, **numbers)) for given in moved)):
        equal(on_gpu, on_cpu)


def results(value):
    return value if isinstance(value, tuple) else (value,)


def make(rng, shape, layout, dtype=torch.float32):
    def normal():
        array = torch.from_numpy(rng.standard_normal(shape, np.float32)).to(dtype)
        return array.T.contiguous() if layout == "TB" else array

    def flags(share):
        array = torch.from_numpy(rng.random(shape) < share)
        return array.T.contiguous() if layout == "TB" else array

    return normal, flags, torch.from_numpy(rng.standard_normal(shape[0], np.float32))


@pytest.mark.parametrize("gamma, lam", [(0.99, 0.95), (1, 1), (0.9, 0), (0, 0.5)])
def test_plain_gae(rng, shape, layout, gamma, lam):
    normal, _, bootstrap = make(rng, shape, layout)
    both(ta.gae, dict(rewards=normal(), values=normal(), bootstrap=bootstrap), gamma=gamma, lam=lam, layout=layout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gae_with_ends_and_next_values(rng, shape, layout, dtype):
    normal, flags, _ = make(rng, shape, layout, dtype)
    given = dict(rewards=normal(), values=normal(), next_values=normal(), terminated=flags(0.01), truncated=flags(0.01))
    both(ta.gae, given, gamma=0.99, lam=0.95, layout=layout)


@pytest.mark.parametrize("outside", ["zero", "carry"])
def test_gae_that_skips_masked_steps(rng, shape, layout, outside):
    normal, flags, bootstrap = make(rng, shape, layout)
    mask = flags(0.7)
    rewards, values = normal(), normal()
    if outside == "zero":
        rewards[~mask], values[~mask] = float("nan"), float("nan")
    given = dict(rewards=rewards, values=values, mask=mask, terminated=flags(0.01), bootstrap=bootstrap)
    both(ta.gae, given, gamma=0.99, lam=0.95, layout=layout, outside=outside)
    both(ta.lambda_returns, given, gamma=0.99, lam=0.95, layout=layout, outside=outside)


def test_gae_with_a_discount_and_lambda_per_step(rng, shape, layout):
    normal, flags, _ = make(rng, shape, layout)
    factors = dict(gamma=normal().abs().clamp(max=1), lam=normal().abs().clamp(max=1))
    both(ta.gae, dict(rewards=normal(), values=normal(), truncated=flags(0.02), **factors), layout=layout)


@pytest.mark.parametrize("masked", ["skip", "reset"])
def test_reward_to_go(rng, shape, layout, masked):
    normal, flags, bootstrap = make(rng, shape, layout)
    given = dict(rewards=normal(), bootstrap=bootstrap)
    both(ta.reward_to_go, given, gamma=0.999, layout=layout)
    both(ta.reward_to_go, dict(**given, mask=flags(0.8)), gamma=0.999, layout=layout, masked=masked, outside="carry")


@pytest.mark.parametrize("q_mix", ["impala", "rlax"])
def test_vtrace(rng, shape, layout, q_mix):
    normal, flags, bootstrap = make(rng, shape, layout)
    given = dict(
        log_rho=0.3 * normal(), discounts=0.99 * ~flags(0.01), rewards=normal(), values=normal(), bootstrap=bootstrap
    )
    both(ta.vtrace, given, lam=0.9, rho_bar=1.2, c_bar=1.0, pg_rho_bar=None, q_mix=q_mix, layout=layout)


@pytest.mark.parametrize("longest, rows", [(60, 300), (3000, 150), (30000, 5)])
def test_packed_rows(rng, longest, rows):
    offsets = torch.from_numpy(np.concatenate([[0], rng.integers(0, longest, rows).cumsum()]))
    normal, flags, _ = make(rng, (int(offsets[-1]),), "BT")
    given = dict(rewards=normal(), values=normal(), mask=flags(0.8), bootstrap=torch.ones(rows), offsets=offsets)
    both(ta.gae, given, gamma=0.99, lam=0.95)


def test_slices_at_any_address(rng):
    wide = torch.from_numpy(rng.standard_normal((120, 5003), np.float32))
    for first in range(4):
        given = dict(rewards=wide[:, first : first + 4097], values=wide[:, first + 1 : first + 4098])
        both(ta.gae, given, gamma=0.99, lam=0.95)
        both(ta.gae, given, gamma=0.99, lam=0.95, layout="TB")


def test_look_back_with_closed_tiles_is_deterministic(rng):
    rewards, values = torch.randn(2, 3, 400003, device="cuda")
    expected = ta.gae(rewards.cpu(), values.cpu(), gamma=1, lam=1)[0]
    closed = ta.gae(rewards, values, gamma=0.9, lam=0.9)[0]
    for _ in range(50):
        # The order in which tiles are joined varies, so rounding may differ. With closed tiles results are deterministic.
        equal(ta.gae(rewards, values, gamma=1, lam=1)[0], expected)
        assert torch.equal(ta.gae(rewards, values, gamma=0.9, lam=0.9)[0], closed)


def test_kernels_run_on_the_current_stream(rng):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**8)
        rewards = torch.ones(200, 3000, device="cuda").cumsum(1)
        returns = ta.reward_to_go(rewards, gamma=0.5)
    stream.synchronize()
    equal(returns, ta.reward_to_go(rewards.cpu(), gamma=0.5))


def test_tensors_on_different_devices_are_refused():
    with pytest.raises(ValueError, match="values: is a torch tensor on cpu, but rewards is a torch tensor on cuda:0"):
        ta.gae(torch.zeros(2, 3, device="cuda"), torch.zeros(2, 3), gamma=1, lam=1)
    with pytest.raises(ValueError, match="another argument is on cuda:0"):
        ta.whiten(torch.zeros(2, 3, device="cuda"), torch.ones(2, 3))
