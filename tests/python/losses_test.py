"""Surrogates through the public functions, compared with torch in float64."""

import inspect
import math

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")
torch_losses = pytest.importorskip("torch_losses")

from masked_tokens import Batch, aggregated  # noqa: E402


torch_losses = pytest.importorskip("torch_losses")


NAMES = list(ta.SURROGATES)


def oracle(name, logp, b):
    return torch_losses.per_token(name, logp, b.old, b.adv, b.mask)


SMOOTH = [name for name in NAMES if name != "clip_cov"]  # which draws randomly


@pytest.mark.parametrize("mode", ta.AGGREGATIONS)
@pytest.mark.parametrize("name", SMOOTH)
def test_loss_and_gradient_agree_with_the_formula_in_torch(rng, name, mode):
    for rows, steps, spread in [(1, 1, 0.3), (7, 23, 0.4), (5, 200, 2.0)]:
        b = Batch(rng, rows, steps, spread, level=name == "gspo")
        want_logp = b.logp.clone().requires_grad_()
        want = aggregated(oracle(name, want_logp, b), b.mask, mode)
        want.backward()
        logp, old, adv, mask = b.given()
        loss, metrics = ta.policy_loss(name, logp, old, adv, mask, aggregation=mode)
        loss.backward()
        assert loss.dtype == torch.float32 and loss.shape == ()
        assert loss.item() == pytest.approx(want.item(), rel=1e-5, abs=1e-6)
        assert torch.allclose(logp.grad.double(), want_logp.grad, rtol=2e-5, atol=1e-7)
        assert (logp.grad[~mask] == 0).all()
        assert metrics["count"] == mask.sum()


@pytest.mark.parametrize("name", SMOOTH)
def test_per_token_losses_and_their_gradient(rng, name):
    b = Batch(rng, level=name == "gspo")
    want_logp = b.logp.clone().requires_grad_()
    want = torch.where(b.mask, oracle(name, want_logp, b), 0.0)
    logp, old, adv, mask = b.given()
    loss, _ = ta.policy_loss(name, logp, old, adv, mask, reduction="none")
    assert torch.allclose(loss.double(), want, rtol=1e-5, atol=1e-6)
    if name not in ("geo_mean", "gspo"):  # the losses of these depend on the other tokens
        outer = torch.randn_like(loss)
        loss.backward(outer)
        want.backward(outer.double())
        assert torch.allclose(logp.grad.double(), want_logp.grad, rtol=2e-5, atol=1e-6)


def test_every_name_and_alias_is_accepted_and_a_typo_gets_a_suggestion(rng):
    logp, old, adv, mask = Batch(rng).given(grad=False)
    for name, entry in ta.SURROGATES.items():
        loss, _ = ta.policy_loss(name, logp, old, adv, mask)
        assert math.isfinite(loss)
        for alias in entry["aliases"]:
            assert math.isfinite(ta.policy_loss(alias, logp, old, adv, mask)[0])
    with pytest.raises(ValueError, match="did you mean 'clip'"):
        ta.policy_loss("clpi", logp, old, adv, mask)
    with pytest.raises(ValueError, match="clip_hgih.*did you mean 'clip_high'"):
        ta.policy_loss("clip", logp, old, adv, mask, clip_hgih=0.3)
    with pytest.raises(ValueError, match="tau_pos"):
        ta.policy_loss("clip", logp, old, adv, mask, tau_pos=1)


def test_the_worked_examples():
    loss, _ = ta.policy_loss("clip", torch.tensor([-1.69315, -1, -0.59453]), torch.full((3,), -1.0), [1, -1, 2])
    assert loss.item() == pytest.approx(-0.6333, abs=1e-4)
    ratio = torch.tensor([2, 2, 0.5]).log()
    per_token, _ = ta.policy_loss("dual_clip", ratio, torch.zeros(3), [2.0, -2, 2], reduction="none", dual_clip=1.5)
    assert per_token.tolist() == pytest.approx([-2.4, 3.0, -1.0])
    for name, params, value, slope in [
        ("clip", {}, -2.4, 0),
        ("soft_clip", {"alpha": 1}, -2, -2),
        ("sapo", {}, -4.979675, -2.820045),
        ("ce_gppo", {}, -2.4, -2.4),
    ]:
        logp = torch.tensor([math.log(1.5)], requires_grad=True)
        loss, _ = ta.policy_loss(name, logp, torch.zeros(1), torch.tensor([2.0]), **params)
        loss.backward()
        assert loss.item() == pytest.approx(value, rel=1e-6)
        assert logp.grad.item() == pytest.approx(slope, rel=1e-6)


def test_numpy_and_lists_give_values(rng):
    b = Batch(rng)
    logp, old, adv, mask = b.given(grad=False)
    want, metrics = ta.policy_loss("clip", logp, old, adv, mask)
    got, same = ta.policy_loss("clip", logp.numpy(), old.numpy(), adv.numpy(), mask.numpy())
    assert isinstance(got, np.float32) and got == want.item() and same == metrics
    per_token, _ = ta.policy_loss("clip", logp.numpy(), old.numpy(), adv.numpy(), mask.numpy(), reduction="none")
    assert isinstance(per_token, np.ndarray) and per_token.shape == logp.shape
    assert ta.policy_loss("none", [0.0, 0.0], [0.0, 0.0], [1.0, 3.0])[0] == -2


def test_bfloat16_in_float32_out_and_the_gradient_in_bfloat16(rng):
    logp, old, adv, mask = Batch(rng).given(grad=False)
    half = logp.bfloat16().requires_grad_()
    loss, _ = ta.policy_loss("clip", half, old.bfloat16(), adv.bfloat16(), mask)
    loss.backward()
    assert loss.dtype == torch.float32 and half.grad.dtype == torch.bfloat16
    want, _ = ta.policy_loss("clip", half.detach().float(), old.bfloat16().float(), adv.bfloat16().float(), mask)
    assert loss.item() == want.item()


def test_any_layout_is_read(rng, form):
    b = Batch(rng)
    logp, old, adv = (x.float().numpy() for x in (b.logp, b.old, b.adv))
    logp, old, adv = (np.round(x * 16) / 16 for x in (logp, old, adv))
    want, _ = ta.policy_loss("clip", logp, old, adv, b.mask.numpy(), reduction="none")
    got, _ = ta.policy_loss(
        "clip",
        oracles.given(logp, form),
        *(oracles.given(x, form.replace("_grad", "")) for x in (old, adv)),
        oracles.flags(b.mask.numpy(), form),
        reduction="none",
    )
    got = got.detach().numpy() if isinstance(got, torch.Tensor) else got
    assert (got == want).all()


def test_advantages_of_sequences_and_ragged_rows_are_those_of_the_padded_batch(rng):
    b = Batch(rng, level=True)
    logp, old, adv, mask = b.given(grad=False)
    for name in NAMES:
        for mode in ta.AGGREGATIONS:
            padded, metrics = ta.policy_loss(name, logp, old, adv, mask, aggregation=mode, length=23)
            sequence = torch.nan_to_num(b.adv[:, 0].float())
            for given in (sequence, sequence[:, None]):
                assert ta.policy_loss(name, logp, old, given, mask, aggregation=mode, length=23)[0] == padded
            offsets = torch.cat([torch.zeros(1, dtype=torch.long), mask.sum(-1).cumsum(0)])
            flat = [x[mask] for x in (logp, old, adv)]
            ragged, _ = ta.policy_loss(name, *flat, offsets=offsets, aggregation=mode, length=23)
            assert ragged.item() == pytest.approx(padded.item(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("mode", ta.AGGREGATIONS)
def test_micro_batches_and_ranks_add_up_to_the_whole_batch(rng, mode):
    b = Batch(rng, rows=12)
    for name in ("clip", "gspo", "cispo", "geo_mean"):
        whole_logp, old, adv, mask = b.given()
        whole, _ = ta.policy_loss(name, whole_logp, old, adv, mask, aggregation=mode)
        whole.backward()
        n = mask.sum(-1)
        shared = {"num_tokens": n.sum().item(), "num_sequences": (n > 0).sum().item(), "length": 23, "dp_size": 2}
        logp = whole_logp.detach().clone().requires_grad_()
        total = 0.0
        for part in ([0, 1, 2, 3, 4], [5], [6, 7], [8, 9, 10, 11]):
            loss, _ = ta.policy_loss(name, logp[part], old[part], adv[part], mask[part], aggregation=mode, **shared)
            loss.backward()
            total += loss.item() / 2
        assert total == pytest.approx(whole.item(), rel=1e-5)
        assert torch.allclose(logp.grad / 2, whole_logp.grad, rtol=1e-5, atol=1e-9)


def test_rollout_weights_multiply_each_token(rng):
    logp, old, adv, mask = Batch(rng).given(grad=False)
    weights = torch.rand_like(logp).masked_fill(~mask, math.nan)
    plain, _ = ta.policy_loss("reinforce", logp, old, adv, mask, reduction="none")
    weighted, _ = ta.policy_loss("reinforce", logp, old, adv, mask, reduction="none", rollout_is_weights=weights)
    assert torch.allclose(weighted, plain * torch.nan_to_num(weights))


def test_a_loss_scaled_or_used_twice_has_the_scaled_gradient(rng):
    b = Batch(rng)
    logp, old, adv, mask = b.given()
    loss, _ = ta.policy_loss("clip", logp, old, adv, mask)
    loss.backward(retain_graph=True)
    once = logp.grad.clone()
    (3 * loss).backward(retain_graph=True)
    loss.backward()
    assert torch.allclose(logp.grad, 5 * once)


def test_a_second_derivative_is_refused(rng):
    logp, old, adv, mask = Batch(rng).given()
    loss, _ = ta.policy_loss("clip", logp, old, adv, mask)
    with pytest.raises(RuntimeError, match="can be differentiated only once"):
        torch.autograd.grad(loss, logp, create_graph=True)


def test_metrics_have_the_documented_values():
    ratio = torch.tensor([0.5, 1, 2, 4]).log()
    _, metrics = ta.policy_loss("clip", ratio, torch.zeros(4), torch.tensor([1.0, 1, 1, -1]))
    assert metrics["ess"] == pytest.approx(0.662, abs=1e-3)
    assert metrics["ess_clamped"] == pytest.approx(0.976, abs=1e-3)
    assert metrics["clip_fraction"] == 0.25
    assert metrics["outside_fraction"] == 0.75
    assert metrics["kl_k1"] == pytest.approx(-math.log(4) / 4)
    assert metrics["ratio_max"] == pytest.approx(4)
    _, metrics = ta.policy_loss("dual_clip", ratio, torch.zeros(4), torch.tensor([1.0, 1, 1, -1]))
    assert metrics["clip_fraction_lower"] == 0.25
    assert metrics["dead_gradient_fraction"] == 0.5


def test_an_empty_mask_gives_zero_loss_gradient_and_metrics():
    for name in NAMES:
        logp = torch.full((2, 3), math.nan, requires_grad=True)
        loss, metrics = ta.policy_loss(name, logp, logp.detach(), logp.detach(), torch.zeros(2, 3))
        loss.backward()
        assert loss == 0 and (logp.grad == 0).all() and set(metrics.values()) == {0.0}
        assert ta.policy_loss(name, torch.zeros(0, 3), torch.zeros(0, 3), torch.zeros(0, 3))[0] == 0


def test_clip_cov_draws_by_its_seed(rng):
    b = Batch(rng, rows=40, steps=50)
    args = b.given(grad=False)
    settings = {"clip_cov_ratio": 0.02, "cov_low": 0.1, "cov_high": 5.0, "reduction": "none"}
    first, metrics = ta.policy_loss("clip_cov", *args, seed=1, **settings)
    assert (ta.policy_loss("clip_cov", *args, seed=1, **settings)[0] == first).all()
    assert not (ta.policy_loss("clip_cov", *args, seed=2, **settings)[0] == first).all()
    assert metrics["clip_fraction"] == pytest.approx(int(0.02 * metrics["count"]) / metrics["count"])


def test_cispo_bounds_and_forms(rng):
    logp = torch.tensor([0.1, 5.0, 0.5]).log().requires_grad_()
    args = (logp, torch.zeros(3), torch.ones(3))
    for params, weights in [
        ({}, [0.1, 1.2, 0.5]),
        ({"verl_compat": True}, [0.8, 1.2, 0.8]),
        ({"clip_high": 9.0, "clip_low": 0.4}, [0.6, 5.0, 0.6]),
    ]:
        loss, _ = ta.policy_loss("cispo", *args, reduction="none", **params)
        (grad,) = torch.autograd.grad(loss.sum(), logp)
        assert grad.tolist() == pytest.approx([-w for w in weights])
        assert loss.tolist() == pytest.approx([-w * x for w, x in zip(weights, logp.tolist())])
        ratio_form, _ = ta.policy_loss("cispo", *args, reduction="none", form="ratio", **params)
        (grad,) = torch.autograd.grad(ratio_form.sum(), logp)
        assert ratio_form.tolist() == pytest.approx([-w for w in weights])
        assert grad.tolist() == pytest.approx([-w for w in weights])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"old_logp": np.zeros((2, 4))}, r"old_logp: shape \(2, 4\), expected \(2, 3\), the shape of logp"),
        ({"advantages": np.zeros(3)}, r"advantages: shape \(3,\)"),
        ({"mask": np.zeros((3, 2))}, r"mask: shape \(3, 2\)"),
        ({"old_logp": torch.zeros(2, 3)}, "old_logp: is a torch tensor"),
        ({"aggregation": "token_mean"}, "aggregation: unknown 'token_mean', did you mean 'token-mean'"),
        ({"reduction": "sum"}, "reduction: unknown 'sum'"),
        ({"clip_low": -0.1}, "clip_low: -0.1 is out of range, expected a number of at least 0"),
        ({"clip_low": "big"}, 'clip_low: "big" is a string, expected a number'),
        ({"dual_clip": 1}, "dual_clip: 1.0*, expected 0"),
        ({"num_tokens": -1}, "num_tokens: -1"),
        ({"dp_size": 0}, "dp_size: 0"),
        ({"num_tokens": 5, "batch_num_tokens": 5}, "batch_num_tokens: cannot be combined with num_tokens"),
        ({"offsets": np.array([0, 6])}, "offsets: logp has shape"),
        ({"seed": -1}, "seed: -1"),
        ({"logp": None}, "logp: None, expected an array"),
        ({"name": "cispo", "form": "both"}, 'form: "both" is unknown, expected one of: logp, ratio'),
    ],
)
def test_wrong_arguments_are_refused_by_name(change, message):
    arguments = {
        "name": "clip",
        "logp": np.zeros((2, 3)),
        "old_logp": np.zeros((2, 3)),
        "advantages": np.zeros((2, 3)),
        "mask": np.ones((2, 3)),
    } | change
    with pytest.raises(ValueError, match=message):
        ta.policy_loss(**arguments)


def test_wrong_offsets_are_refused_by_name():
    for offsets in ([0, 3], [1, 6], [0, 4, 2, 6], []):
        with pytest.raises(ValueError, match="offsets"):
            ta.policy_loss("clip", np.zeros(6), np.zeros(6), np.zeros(6), offsets=np.array(offsets, int))


def test_the_table_documents_every_parameter():
    for entry in ta.SURROGATES.values():
        assert entry["aggregation"] in ta.AGGREGATIONS
        for parameter in entry["parameters"]:
            assert parameter["doc"] and parameter["source"] and parameter["expected"]
    assert list(inspect.signature(ta.policy_loss).parameters)[:5] == ["name", "logp", "old_logp", "advantages", "mask"]
