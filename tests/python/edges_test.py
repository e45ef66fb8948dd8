"""Edge cases of every loss and token estimator: no sequences, no steps, one step, any layout and dtype, and tensors that need a
gradient where no gradient is defined."""

import inspect
import math

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")

CALLS = {
    "gae": lambda x, m: ta.gae(x, x, gamma=0.9, lam=0.8, mask=m),
    "lambda_returns": lambda x, m: ta.lambda_returns(x, x, gamma=0.9, lam=0.8, mask=m),
    "reward_to_go": lambda x, m: ta.reward_to_go(x, mask=m),
    "vtrace": lambda x, m: ta.vtrace(x, 0.9, x, x, 0.5, layout="BT"),
    "policy_loss": lambda x, m: ta.policy_loss("clip", x, x, x, m, reduction="none"),
    "policy_loss mean": lambda x, m: ta.policy_loss("clip", x, x, x, m),
    "value_loss": lambda x, m: ta.value_loss(x, x, m, old_values=x, clip=0.2, reduction="none"),
    "aggregate": lambda x, m: ta.aggregate(x, m),
    "kl": lambda x, m: ta.kl("k3", x, x, m),
    "rollout_correction": lambda x, m: ta.rollout_correction(x, x, m),
    "whiten": lambda x, m: ta.whiten(x, m),
    "advantages": lambda x, m: ta.advantages("reinforce_plus_plus", x, m),
}


def arrays(result):
    return [x for x in (result if isinstance(result, tuple) else (result,)) if hasattr(x, "shape")]


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (1, 1), (4, 1)], ids=str)
def test_sizes(rng, name, shape):
    for masked in (False, True):
        x, mask = oracles.numbers(rng, *shape), (rng.random(shape) < 0.5 if masked else None)
        got = arrays(CALLS[name](x, mask))
        tensors = arrays(CALLS[name](torch.from_numpy(x), None if mask is None else torch.from_numpy(mask)))
        assert got and len(tensors) == len(got)
        for a, b in zip(got, tensors):
            assert tuple(a.shape) == tuple(b.shape) in ((), shape)
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
            assert np.isfinite(np.asarray(a, np.float64)).all()


@pytest.mark.parametrize("name", list(CALLS))
def test_forms(rng, form, name):
    x, mask = oracles.numbers(rng, 3, 4), rng.random((3, 4)) < 0.7
    want = arrays(CALLS[name](x, mask))
    got = arrays(CALLS[name](oracles.given(x, form), oracles.flags(mask, form)))
    for a, b in zip(got, want, strict=True):
        a = a.detach().numpy() if torch.is_tensor(a) else a
        np.testing.assert_array_equal(a, b)
        assert a.dtype in (np.float32, bool)


def test_advantages_of_sequences_may_be_a_list():
    x = np.zeros((2, 3), np.float32)
    want = ta.policy_loss("none", x, x, np.array([1.0, 3.0]))[0]
    assert want == -2 and ta.policy_loss("none", x, x, [1.0, 3.0])[0] == want
    assert ta.policy_loss("none", x.tolist(), x.tolist(), [[1.0], [3.0]])[0] == want
    with pytest.raises(ValueError, match=r"^advantages: shape \(4,\), expected \(2, 3\) or \(2,\), the shape of logp$"):
        ta.policy_loss("none", x, x, [1.0] * 4)


def test_advantages_of_packed_sequences(rng):
    logp, old, lengths = oracles.numbers(rng, 7), oracles.numbers(rng, 7), [3, 0, 4]
    options = {"offsets": [0, 3, 3, 7], "reduction": "none"}
    want = ta.policy_loss("clip", logp, old, np.repeat([1, 5, -2], lengths), **options)[0]
    np.testing.assert_array_equal(ta.policy_loss("clip", logp, old, [1, 5, -2], **options)[0], want)
    tensors = ta.policy_loss("clip", torch.from_numpy(logp), torch.from_numpy(old), torch.tensor([1.0, 5, -2]), **options)[0]
    np.testing.assert_array_equal(tensors.numpy(), want)
    with pytest.raises(ValueError, match=r"^advantages: shape \(4,\), expected \(7,\), the shape of logp"):
        ta.policy_loss("clip", logp, old, np.zeros(4), **options)


def test_only_the_first_argument_gets_a_gradient(rng):
    def leaf():
        return torch.from_numpy(oracles.numbers(rng, 3, 4)).requires_grad_()

    a, b, c = leaf(), leaf(), leaf()
    ta.policy_loss("clip", a, b, c)[0].backward()
    ta.value_loss(a, b, old_values=c, clip=0.2)[0].backward()
    ta.kl("k3", a, b).sum().backward()
    assert a.grad is not None and b.grad is None and c.grad is None
    assert not any(x.requires_grad for x in arrays(ta.gae(a, b, gamma=0.9, lam=0.9, next_values=c)))
    with torch.no_grad():
        assert not ta.policy_loss("clip", a, b, c)[0].requires_grad


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 1, 4)], ids=str)
def test_ignored_labels(rng, library, shape):
    logits = rng.normal(size=(*shape, 11)).astype(np.float32)
    labels = rng.integers(0, 11, size=shape)
    ignored = rng.random(shape) < 0.5
    ignored.flat[0] = True
    want = ta.logprobs_entropy(logits, labels)
    spoiled = np.where(ignored[..., None], np.nan, logits).astype(np.float32)
    to = torch.from_numpy if library == "torch" else np.asarray
    for index, options in ((-100, {}), (0, {"ignore_index": 0}), (-1, {"ignore_index": -1})):
        kept = ~ignored & (labels != index)
        got = ta.logprobs_entropy(to(spoiled), to(np.where(ignored, index, labels)), **options)
        for a, b in zip(got, want):
            np.testing.assert_array_equal(np.asarray(a), np.where(kept, b, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ignored_labels_have_no_gradient_and_agree_with_cross_entropy(rng, dtype):
    logits = torch.tensor(rng.normal(size=(6, 11)), dtype=dtype)
    labels = torch.tensor([3, -100, 0, -100, 10, 5])
    given, plain = (logits.clone().requires_grad_() for _ in range(2))
    (-ta.logprobs_entropy(given, labels).logprobs).sum().backward()
    torch.nn.functional.cross_entropy(plain.float(), labels, reduction="sum").backward()
    torch.testing.assert_close(given.grad, plain.grad)
    spoiled = logits.masked_fill((labels == -100)[:, None], math.nan).requires_grad_()
    sum(x.sum() for x in ta.logprobs_entropy(spoiled, labels)).backward()
    assert (spoiled.grad[labels == -100] == 0).all() and spoiled.grad.isfinite().all()


def test_the_error_about_a_label_out_of_range_has_its_index():
    logits = np.zeros((2, 3, 4), np.float32)
    for labels, options, message in [
        ([[0, 1, 2], [3, 4, 0]], {}, r"labels: 4 at index \(1, 1\), expected integers in \[0, 4\) or -100 \(ignore_index\)"),
        ([[0, -1, 2], [3, 0, 0]], {}, r"labels: -1 at index \(0, 1\)"),
        ([[0, -100, 2], [3, 0, 0]], {"ignore_index": None}, r"labels: -100 at index \(0, 1\), expected integers in \[0, 4\);"),
        ([[0, -100, 2], [3, 0, 0]], {"ignore_index": 3}, r"labels: -100 at index \(0, 1\), expected integers in \[0, 4\) or 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            ta.logprobs_entropy(logits, np.array(labels), **options)
        with pytest.raises(ValueError, match=message):
            ta.logprobs_entropy(torch.from_numpy(logits), torch.tensor(labels), **options)
    for family in (np.asarray, torch.as_tensor):
        with pytest.raises(ValueError, match="labels: 9, expected integers"):
            ta.logprobs_entropy(family(logits[0, 0]), family(np.array(9)))
        with pytest.raises(ValueError, match="labels: 9 at index 1, expected integers"):
            ta.logprobs_entropy(family(logits[0]), family(np.array([1, 9, 0])))
    with pytest.raises(ValueError, match="ignore_index: 1.5, expected an integer"):
        ta.logprobs_entropy(logits, np.zeros((2, 3), int), ignore_index=1.5)


def test_the_error_about_a_wrong_shape_is_one_line():
    x, wrong = np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32)
    for call in (
        lambda: ta.policy_loss("clip", x, wrong, x),
        lambda: ta.policy_loss("clip", x, x, x, wrong),
        lambda: ta.value_loss(x, wrong),
        lambda: ta.kl("k1", x, wrong),
        lambda: ta.gae(x, wrong, gamma=1, lam=1),
        lambda: ta.aggregate(x, wrong),
        lambda: ta.whiten(x, wrong),
        lambda: ta.advantages("gpg", x, wrong, [0, 1]),
    ):
        with pytest.raises(ValueError, match=r"^\w+: shape \(3, 2\), expected \(2, 3\)") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_every_function_has_a_docstring_and_annotations():
    for name in ta.__all__:
        function = getattr(ta, name)
        if inspect.isfunction(function):
            assert function.__doc__ and inspect.signature(function).return_annotation is not inspect.Signature.empty
