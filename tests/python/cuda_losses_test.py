"""The losses on a GPU compared with the CPU kernels. device_losses_test.py runs the same calls without a GPU."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch")
if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

import loss_cases  # noqa: E402

import troupe.algorithms as ta  # noqa: E402


def compare(cases, tolerance=loss_cases.TOLERANCE):
    for case in cases:
        loss_cases.same(case, case.run("cuda"), case.run("cpu"), tolerance)


@pytest.mark.parametrize("name", list(ta.SURROGATES))
def test_surrogates(rng, name):
    compare(loss_cases.policy_cases(rng, name))
    compare(loss_cases.extreme_policy_cases(name))


def test_aggregation_value_losses_and_kl(rng):
    compare(loss_cases.other_cases(rng))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_logits(rng, dtype):
    compare(loss_cases.logit_cases(rng, dtype), tolerance=2e-6 if dtype != torch.bfloat16 else 8e-3)


def test_gaussians_stay_on_the_gpu():
    x = torch.zeros(3, device="cuda", requires_grad=True)
    assert ta.gaussian_logprob(x, x, x).is_cuda and ta.gaussian_kl(x, x, x, x).requires_grad


def test_a_function_without_gpu_form_warns_and_computes_on_the_host():
    x = torch.zeros(4, 8, device="cuda")
    with pytest.warns(UserWarning, match="whiten: is not implemented for the GPU"):
        assert ta.whiten(x).is_cuda


def test_tensors_on_different_devices_are_refused():
    x = torch.zeros(2, 3, device="cuda")
    with pytest.raises(ValueError, match="old_logp: is a torch tensor on cpu, but logp is a torch tensor on cuda:0"):
        ta.policy_loss("clip", x, x.cpu(), x)
