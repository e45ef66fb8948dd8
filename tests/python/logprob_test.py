"""Log-probabilities, entropy and KL through the public functions, compared with torch in float64."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")


def batch(rng, *shape, vocabulary=300, scale=3.0):
    logits = torch.tensor(rng.normal(size=(*shape, vocabulary)) * scale, dtype=torch.float32)
    return logits, torch.tensor(rng.integers(0, vocabulary, size=shape))


def oracle(logits, labels, temperature=1.0):
    log_p = torch.log_softmax(logits.double() / temperature, -1)
    picked = log_p.gather(-1, labels[..., None])[..., 0]
    return picked, -torch.where(log_p == -math.inf, 0.0, log_p.exp() * log_p).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 3, 2), (0,), (2, 0)])
def test_values_and_gradients_agree_with_torch(rng, dtype, shape):
    for vocabulary, temperature in [(1, 1.0), (300, 1.0), (5000, 0.7)]:
        logits, labels = batch(rng, *shape, vocabulary=vocabulary)
        logits = logits.to(dtype)
        want_logits = logits.double().requires_grad_()
        logprob, entropy = oracle(want_logits, labels, temperature)
        given = logits.clone().requires_grad_()
        got = ta.logprobs_entropy(given, labels, temperature=temperature)
        assert got[0].dtype == got[1].dtype == torch.float32
        assert torch.allclose(got[0].double(), logprob, rtol=2e-6, atol=2e-6)
        assert torch.allclose(got[1].double(), entropy, rtol=2e-6, atol=2e-6)
        a, b = torch.randn(shape), torch.randn(shape)
        (a * got[0] + b * got[1]).sum().backward()
        (a * logprob + b * entropy).sum().backward()
        assert given.grad.dtype == dtype
        rounding = {torch.float32: 1e-5, torch.bfloat16: 8e-3, torch.float16: 1e-3}[dtype]
        assert torch.allclose(given.grad.double(), want_logits.grad, rtol=rounding, atol=rounding * 1e-2 + 1e-7)


def test_only_one_of_the_two_results_used(rng):
    logits, labels = batch(rng, 4)
    for which in (0, 1):
        given, want = logits.clone().requires_grad_(), logits.double().requires_grad_()
        ta.logprobs_entropy(given, labels)[which].sum().backward()
        oracle(want, labels)[which].sum().backward()
        assert torch.allclose(given.grad.double(), want.grad, rtol=1e-4, atol=1e-6)


def test_strided_logits_are_read_in_place(rng):
    logits, labels = batch(rng, 3, 6)
    for given, wanted in [
        (logits[:, :-1], labels[:, 1:]),
        (logits[:, ::2], labels[:, ::2]),
        (logits.transpose(0, 1), labels.T),
        (logits[..., ::2], labels // 2),
        (logits[1], labels[1]),
        (logits[:1, :, :50].expand(3, 6, 50), labels // 6),
    ]:
        source = given.detach().requires_grad_()
        got = ta.logprobs_entropy(source, wanted)
        want = oracle(given, wanted)
        assert torch.allclose(got[0].double(), want[0], atol=1e-5) and torch.allclose(got[1].double(), want[1], atol=1e-5)
        got[0].sum().backward()
        plain = given.detach().clone().contiguous().requires_grad_()
        ta.logprobs_entropy(plain, wanted.contiguous())[0].sum().backward()
        assert torch.equal(source.grad, plain.grad)
        array = ta.logprobs_entropy(given.numpy(), wanted.numpy())
        assert (array[0] == got[0].detach().numpy()).all()


def test_rows_that_overlap_or_run_backwards_are_copied(rng):
    logits, labels = batch(rng, 3, 6)
    row, line = logits[0, 0], torch.cat([logits[0, 0], logits[0, 1]])
    for given, wanted in [
        (row.expand(6, 300), labels[0]),
        (row.expand(3, 6, 300), labels),
        (logits[0].expand(3, 6, 300), labels),
        (logits[:, :1].expand(3, 6, 300), labels),
        (line.unfold(0, 300, 50), labels[:, 0].repeat(3)[:7]),
        (line.unfold(0, 300, 50)[:6].expand(3, 6, 300), labels),
        (line[:7].unfold(0, 1, 1), torch.zeros(7, dtype=torch.long)),
    ]:
        source = given.detach().requires_grad_()
        got, want = ta.logprobs_entropy(source, wanted), oracle(given, wanted)
        assert torch.allclose(got[0].double(), want[0], atol=1e-5) and torch.allclose(got[1].double(), want[1], atol=1e-5)
        plain = given.detach().clone().contiguous().requires_grad_()
        got[0].sum().backward()
        ta.logprobs_entropy(plain, wanted)[0].sum().backward()
        assert torch.equal(source.grad.contiguous(), plain.grad)
    numbers, tokens = logits.numpy(), labels.numpy()
    for given, wanted in [
        (numbers[::-1], tokens),
        (numbers[:, ::-1], tokens),
        (numbers[::-1, ::-1], tokens),
        (np.broadcast_to(numbers[0, 0], (3, 6, 300)), tokens),
        (np.broadcast_to(numbers[:, :1], (3, 6, 300)), tokens),
        (np.lib.stride_tricks.sliding_window_view(line.numpy(), 300)[:6], tokens[0]),
    ]:
        got, want = ta.logprobs_entropy(given, wanted), ta.logprobs_entropy(given.copy(), wanted)
        assert (got[0] == want[0]).all() and (got[1] == want[1]).all()


def test_minus_infinity_is_probability_zero(rng):
    logits, labels = batch(rng, 4)
    logits[:, ::3] = -math.inf
    labels = labels // 3 * 3 + 1
    labels = labels.clamp(max=298)
    given = logits.clone().requires_grad_()
    logprob, entropy = ta.logprobs_entropy(given, labels)
    want = oracle(logits, labels)
    assert torch.allclose(logprob.double(), want[0], atol=1e-5) and torch.allclose(entropy.double(), want[1], atol=1e-5)
    (logprob + entropy).sum().backward()
    assert torch.isfinite(given.grad).all() and (given.grad[:, ::3] == 0).all()


def test_wrong_arguments_are_refused_by_name(rng):
    logits, labels = batch(rng, 3, 4)
    for arguments, message in [
        ((logits, labels[:, :3]), r"labels: shape \(3, 3\), expected \(3, 4\)"),
        ((logits, labels + 300), r"labels: .*expected integers in \[0, 300\)"),
        ((logits, labels - 300), "labels: -"),
        ((logits, labels.float()), "labels: dtype float32, expected integers"),
        ((logits[..., :0], labels), "logits: shape"),
        ((torch.tensor(1.0), labels), "logits: shape"),
        ((logits, None), "labels: None"),
    ]:
        with pytest.raises(ValueError, match=message):
            ta.logprobs_entropy(*arguments)
    with pytest.raises(ValueError, match="temperature: 0"):
        ta.logprobs_entropy(logits, labels, temperature=0)


def test_a_second_derivative_is_refused(rng):
    logits, labels = batch(rng, 3)
    given = logits.requires_grad_()
    with pytest.raises(RuntimeError, match="can be differentiated only once"):
        torch.autograd.grad(ta.logprobs_entropy(given, labels)[0].sum(), given, create_graph=True)


@pytest.mark.parametrize("name", ["k1", "kl", "abs", "k2", "mse", "k3", "low_var_kl"])
def test_kl_estimates_and_gradients(rng, name):
    forms = {
        "k1": lambda d: d,
        "abs": torch.abs,
        "k2": lambda d: d**2 / 2,
        "k3": lambda d: torch.exp(-d) + d - 1,
        "low_var_kl": lambda d: (torch.exp((-d).clamp(-20, 20)) + d - 1).clamp(-10, 10),
    }
    form = forms[{"kl": "k1", "mse": "k2"}.get(name, name)]
    logp = torch.tensor(rng.normal(size=(4, 50)) * 2, dtype=torch.float32)
    ref = torch.tensor(rng.normal(size=(4, 50)) * 2, dtype=torch.float32)
    want_logp = logp.double().requires_grad_()
    want = form(want_logp - ref.double())
    want.sum().backward()
    given = logp.clone().requires_grad_()
    got = ta.kl(name, given, ref)
    got.sum().backward()
    assert torch.allclose(got.double(), want, rtol=1e-5, atol=1e-6)
    assert torch.allclose(given.grad.double(), want_logp.grad, rtol=1e-5, atol=1e-6)
    plus = logp.clone().requires_grad_()
    through = ta.kl(name + "+", plus, ref)
    through.sum().backward()
    assert torch.equal(through, got) and torch.allclose(plus.grad, logp - ref)


def test_full_kl_from_logits(rng):
    for dtype in (torch.float32, torch.bfloat16):
        p, _ = batch(rng, 3, 4)
        q, _ = batch(rng, 3, 4)
        p, q = p.to(dtype), q.to(dtype)
        mask = torch.ones(3, 4, dtype=torch.bool)
        mask[1, 2] = False
        want_p = p.double().requires_grad_()
        log_p, log_q = torch.log_softmax(want_p / 1.3, -1), torch.log_softmax(q.double() / 1.3, -1)
        want = torch.where(mask, (log_p.exp() * (log_p - log_q)).sum(-1), 0.0)
        outer = torch.randn(3, 4)
        want.backward(outer.double())
        given = p.clone()
        given[1, 2] = math.nan
        given.requires_grad_()
        got = ta.kl("full", given, q, mask, temperature=1.3)
        got.backward(outer)
        assert torch.allclose(got.double(), want, rtol=1e-5)
        rounding = 1e-4 if dtype == torch.float32 else 1e-2
        assert torch.allclose(given.grad.double(), want_p.grad, rtol=rounding, atol=1e-6)


def test_kl_refuses_wrong_arguments():
    with pytest.raises(ValueError, match="name: unknown 'k33', did you mean 'k3'"):
        ta.kl("k33", [0.0], [0.0])
    with pytest.raises(ValueError, match=r"ref_logp: shape \(2,\), expected \(1,\)"):
        ta.kl("k1", np.zeros(1), np.zeros(2))


def test_controllers():
    adaptive = ta.AdaptiveKL(0.02, 0.01, 10000)
    for current, want in [(0.03, 0.0201024), (0.01, 0.0201024), (0.0, 0.019999475712)]:
        assert adaptive.update(current, 256) == pytest.approx(want, rel=1e-12)
        assert adaptive.value == pytest.approx(want, rel=1e-12)
    fixed = ta.FixedKL(0.3)
    assert fixed.update(10, 5) == fixed.value == 0.3
    for make, message in [
        (lambda: ta.AdaptiveKL(0.02, 0, 100), "target_kl: 0"),
        (lambda: ta.AdaptiveKL(0.02, 0.1, 0), "horizon: 0"),
        (lambda: adaptive.update(0.1, 50000), "n_steps: 50000"),
        (lambda: adaptive.update(math.nan, 5), "current_kl: nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()


def test_gaussians_agree_with_torch(rng):
    x, mean, log_std, other, other_log_std = (torch.tensor(rng.normal(size=(4, 3)), dtype=torch.float32) for _ in range(5))
    mean.requires_grad_()
    p = torch.distributions.Normal(mean, log_std.exp())
    q = torch.distributions.Normal(other, other_log_std.exp())
    assert torch.allclose(ta.gaussian_logprob(x, mean, log_std), p.log_prob(x), atol=1e-5)
    assert torch.allclose(ta.gaussian_entropy(log_std), p.entropy(), atol=1e-6)
    got = ta.gaussian_kl(mean, log_std, other, other_log_std)
    assert torch.allclose(got, torch.distributions.kl_divergence(p, q), rtol=1e-4, atol=1e-5)
    assert got.requires_grad
    assert ta.gaussian_entropy(np.zeros(2)) == pytest.approx([1.4189385, 1.4189385])


# The peak memory of a process while it runs the kernels, minus the memory before and the results.
MEMORY_PROGRAM = """
import json, sys
import torch
import troupe.algorithms as ta

def held(key):
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))

dtype, differentiate = getattr(torch, sys.argv[1]), sys.argv[2] == "True"
def run(rows):
    logits = torch.empty(rows, 152064, dtype=dtype).normal_().requires_grad_(differentiate)
    labels = torch.randint(0, 152064, (rows,))
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # reset the peak
    before = held("VmRSS")
    logp, entropy = ta.logprobs_entropy(logits, labels)
    forward = held("VmHWM") - before
    if differentiate:
        (logp + entropy).sum().backward()
    gradient = logits.grad.nbytes if differentiate else 0
    return forward, held("VmHWM") - before - gradient, logits.nbytes

run(8)  # pages in the code
print(json.dumps(run(64)))
"""


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer's own memory would be counted")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("differentiate", [False, True])
def test_no_memory_beyond_a_chunk(dtype, differentiate):
    """A chunk is 4096 numbers, 16 KB. Measured in pages, in a separate process. A copy of one row would be 304 or 608 KB, a copy of the
    logits 19 or 39 MB."""
    command = [sys.executable, "-c", MEMORY_PROGRAM, dtype, str(differentiate)]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}  # freed memory is returned to the system, so reuse is visible
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    forward, both, given = json.loads(done.stdout)
    assert given >= 19e6 and max(forward, both) <= 64 * 1024, (forward, both)
