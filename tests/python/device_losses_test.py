"""The losses as torch operations, which CUDA tensors use, compared with the CPU kernels. They run on the CPU here: only the selection
of the kernels is changed. With torch's default device set to "meta", tensors that are created without a device cannot be used."""

import loss_cases
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")

import troupe.algorithms as ta  # noqa: E402
from troupe.algorithms import _device, _devices  # noqa: E402
from troupe.algorithms._device import elements, logits, surrogates  # noqa: E402
from troupe.algorithms.types import KLName  # noqa: E402


@pytest.fixture
def compare(monkeypatch):
    def run(cases, tolerance=loss_cases.TOLERANCE):
        count = 0
        for case in cases:
            want = case.run("cpu")
            with monkeypatch.context() as patched:
                patched.setattr(_devices, "on_device", lambda call: call.device_type is not None)
                with torch.device("meta"):
                    got = case.run("cpu")
            loss_cases.same(case, got, want, tolerance)
            count += 1
        assert count

    return run


@pytest.fixture
def on_device(monkeypatch):
    monkeypatch.setattr(_devices, "on_device", lambda call: call.device_type is not None)


@pytest.mark.parametrize("name", list(ta.SURROGATES))
def test_surrogates(rng, compare, name):
    compare(loss_cases.policy_cases(rng, name))


@pytest.mark.parametrize("name", list(ta.SURROGATES))
def test_surrogates_at_their_limits(compare, name):
    compare(loss_cases.extreme_policy_cases(name))


def test_aggregation_value_losses_and_kl(rng, compare):
    compare(loss_cases.other_cases(rng))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("chunk", [1 << 23, 1000])
def test_logits(rng, compare, monkeypatch, dtype, chunk):
    monkeypatch.setattr(logits, "_CHUNK", chunk)
    # A bfloat16 gradient has 8 bits: numbers that differ in the last of 24 bits may be rounded to neighbours.
    compare(loss_cases.logit_cases(rng, dtype), tolerance=2e-6 if dtype != torch.bfloat16 else 8e-3)


def test_every_surrogate_and_kl_estimate_has_a_device_form():
    assert surrogates.RULES.keys() == ta.SURROGATES.keys()
    plain = {name.removesuffix("+") for name in KLName.__args__}
    assert elements._KL.keys() == plain - {"full"}


def test_the_device_functions_have_the_names_of_the_kernels():
    from troupe import _core

    assert all(hasattr(_core, name) for name in _device.__all__)


def test_numpy_arrays_are_computed_by_the_kernels(on_device, rng):
    x = rng.normal(size=(2, 3)).astype(np.float32)
    assert isinstance(ta.policy_loss("clip", x, x, x)[0], np.float32)


def test_settings_that_do_not_fit_raise_the_same_errors(on_device):
    x = torch.zeros(2, 3)
    for name, settings, message in [
        ("clip", {"clip_low": -0.1}, "clip_low: -0.1 is out of range, expected a number of at least 0"),
        ("clip", {"dual_clip": 1}, "dual_clip: 1.0*, expected 0"),
        ("sapo", {"ratio_min": 2, "ratio_max": 1}, "ratio_min: 2.0* with ratio_max"),
        ("cispo", {"form": "both"}, 'form: "both" is unknown, expected one of: logp, ratio'),
    ]:
        with pytest.raises(ValueError, match=message):
            ta.policy_loss(name, x, x, x, **settings)
    with pytest.raises(ValueError, match=r"labels: 7 at index \(1, 2\), expected integers in \[0, 5\)"):
        labels = torch.zeros(2, 3, dtype=torch.int64)
        labels[1, 2] = 7
        ta.logprobs_entropy(torch.zeros(2, 3, 5), labels)


def test_equal_covariances_are_taken_in_order(compare):
    n = 100
    adv = torch.tensor([1.0, -1.0]).repeat(n // 2)
    arrays = {"logp": -1 + adv / 2, "old_logp": torch.full((n,), -1.0), "advantages": adv}
    for share in (0.1, 0.55, 1.0):
        compare([loss_cases.Case("policy_loss", arrays, name="kl_cov", fraction=share, reduction="none")])


def test_a_second_derivative_is_refused(on_device):
    x = torch.zeros(2, 3, requires_grad=True)
    for loss in (ta.policy_loss("clip", x, x.detach(), torch.ones(2, 3))[0], ta.kl("k2", x, torch.ones(2, 3)).sum()):
        with pytest.raises(RuntimeError, match="can be differentiated only once"):
            torch.autograd.grad(loss, x, create_graph=True)
