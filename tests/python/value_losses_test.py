"""Aggregation, value losses and rollout correction through the public functions, compared with torch in float64."""

import math

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")

from masked_tokens import Batch, aggregated  # noqa: E402


def test_aggregate_agrees_with_the_formula_and_its_gradient(rng):
    for mode in ta.AGGREGATIONS:
        values = torch.randn(6, 9)
        mask = torch.tensor(oracles.gappy_mask(rng, 6, 9))
        want_values = values.double().requires_grad_()
        want = aggregated(want_values, mask, mode, length=9) if mask.any() else want_values.sum() * 0
        want.backward()
        given = values.masked_fill(~mask, math.nan).requires_grad_()
        got = ta.aggregate(given, mask, mode)
        got.backward()
        assert got.item() == pytest.approx(want.item(), rel=1e-5)
        assert torch.allclose(given.grad.double(), want_values.grad)
    loss = np.array([[1, 2, 0], [3, 4, 5], [7, 0, 0]], float)
    mask = np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0]])
    assert ta.aggregate(loss, mask, "token-mean") == pytest.approx(3.6666667)
    parts = [ta.aggregate(loss[rows], mask[rows], "token-mean", num_tokens=6, dp_size=2) for rows in ([0, 1], [2])]
    assert sum(parts) / 2 == pytest.approx(3.6666667)
    assert ta.aggregate(loss, mask, "seq-mean-token-sum-norm", verl_compat=True) == pytest.approx(22 / 3)
    assert ta.aggregate(loss, mask, "seq-mean-token-sum-norm", loss_scale_factor=2) == pytest.approx(22 / 6)


@pytest.mark.parametrize("kind", ["l2", "huber"])
@pytest.mark.parametrize("clip", [None, 0.3])
def test_value_loss_and_gradient_agree_with_the_formula(rng, kind, clip):
    values, old, returns = (torch.tensor(oracles.numbers(rng, 6, 9), dtype=torch.float64) for _ in range(3))
    mask = torch.tensor(oracles.gappy_mask(rng, 6, 9))
    mask[0, 0] = True
    rho = {"l2": lambda x: x**2 / 2, "huber": lambda x: torch.nn.functional.huber_loss(x, 0 * x, reduction="none", delta=0.7)}
    want_values = values.clone().requires_grad_()
    per_token = plain = rho[kind](want_values - returns)
    if clip is not None:
        near = torch.max(torch.min(want_values, old + clip), old - clip)
        per_token = torch.max(plain, rho[kind](near - returns))
    want = 1.5 * aggregated(per_token, mask, "seq-mean-token-mean")
    want.backward()
    given = values.float().masked_fill(~mask, math.nan).requires_grad_()
    loss, metrics = ta.value_loss(
        given,
        returns.float(),
        mask,
        old_values=old.float(),
        clip=clip,
        kind=kind,
        huber_delta=0.7,
        coef=1.5,
        aggregation="seq-mean-token-mean",
    )
    loss.backward()
    assert loss.item() == pytest.approx(want.item(), rel=1e-5)
    # At a tie torch gives half of the gradient to each branch; the sum is the same.
    assert torch.allclose(given.grad.double(), want_values.grad, rtol=1e-5, atol=1e-7)
    assert metrics["clip_fraction"] == pytest.approx((per_token > plain)[mask].double().mean().item())
    doubled, _ = ta.value_loss(values, returns, mask, kind=kind, huber_delta=0.7, half_factor=False, reduction="none")
    assert torch.allclose(doubled.double(), torch.where(mask, 2 * plain.detach(), 0.0), rtol=1e-5)


def test_explained_variance():
    returns = np.array([1.0, 2, 3, 4])
    assert ta.value_loss(returns, returns)[1]["explained_variance"] == 1
    assert ta.value_loss(np.full(4, 2.5), returns)[1]["explained_variance"] == 0


def test_value_loss_refuses_wrong_arguments():
    zeros = np.zeros((2, 3))
    for change, message in [
        ({"clip": 0.2}, "old_values: None, expected an array, which clip=0.2 needs"),
        ({"clip": 0, "old_values": zeros}, "clip: 0"),
        ({"kind": "hubr"}, "did you mean 'huber'"),
        ({"huber_delta": 0}, "huber_delta: 0"),
        ({"normaliser": 3}, "normaliser: value_loss has no such parameter"),
    ]:
        with pytest.raises(ValueError, match=message):
            ta.value_loss(zeros, zeros, **change)


def test_rollout_correction_weights_mask_and_metrics(rng):
    b = Batch(rng, spread=0.2)
    logp, old, adv, mask = b.given(grad=False)
    ratio = torch.nan_to_num((b.logp - b.old).masked_fill(~mask, 0))
    weights, kept, metrics = ta.rollout_correction(logp, old, mask, rollout_is="token", rollout_is_threshold=1.1)
    assert torch.allclose(weights.double(), torch.where(mask, ratio.exp().clamp(max=1.1), 0.0), rtol=1e-5)
    assert (kept == mask).all() and kept.dtype == torch.bool
    assert metrics["kl"] == pytest.approx(-ratio[mask].mean().item(), rel=1e-5)
    weights, _, _ = ta.rollout_correction(logp, old, mask)
    want = ratio.sum(-1, keepdim=True).exp().clamp(max=2).expand_as(ratio)
    assert torch.allclose(weights.double(), torch.where(mask, want, 0.0), rtol=1e-4)
    none, kept, metrics = ta.rollout_correction(
        logp, old, mask, rollout_is=None, rollout_rs="token_k1,seq_max_k2", rollout_rs_threshold="0.9_1.2,0.05"
    )
    token = (-ratio >= math.log(0.9)) & (-ratio <= math.log(1.2))
    sequence = (torch.where(mask, ratio**2 / 2, 0.0)).amax(-1, keepdim=True) <= 0.05
    assert none is None and (kept == (mask & token & sequence)).all()
    assert metrics["rejected_token_fraction"] == pytest.approx(1 - (kept.sum() / mask.sum()).item())
    loss, _ = ta.policy_loss("reinforce", logp, old, adv, kept, rollout_is_weights=weights)
    assert math.isfinite(loss)


def test_rollout_correction_methods():
    ratio = np.log([0.1, 0.6, 1, 3, 9])
    zeros = np.zeros(5)
    weights = {name: ta.rollout_correction(ratio, zeros, method=name)[0] for name in ("tis", "icepop", "seq_mask_tis")}
    assert weights["tis"] == pytest.approx([0.1, 0.6, 1, 2, 2])
    assert weights["icepop"] == pytest.approx([0, 0.6, 1, 3, 0])
    _, kept, _ = ta.rollout_correction(np.log([[3.0, 3.0], [1.0, 1.2]]), np.zeros((2, 2)), method="seq_mask_tis")
    assert kept.tolist() == [[False, False], [True, True]]
    _, kept, _ = ta.rollout_correction(np.full((2, 2), -1.0), np.zeros((2, 2)), method="opsm", advantages=np.array([-1.0, 1]))
    assert kept.tolist() == [[False, False], [True, True]]


def test_rollout_correction_refuses_wrong_arguments():
    zeros = np.zeros((2, 3))
    for change, message in [
        ({"rollout_is": "tokens"}, "rollout_is: unknown 'tokens', did you mean 'token'"),
        ({"rollout_rs": "token_k1"}, "rollout_rs_threshold: None"),
        ({"rollout_rs": "token_k9", "rollout_rs_threshold": 1}, "unknown rule"),
        ({"rollout_rs": "token_k2,token_k3", "rollout_rs_threshold": "1,2,3"}, "2 rules and 3 thresholds"),
        ({"method": "tiss"}, "did you mean 'tis'"),
        ({"opsm_delta": 0.1}, "advantages: None"),
        ({"threshold": 2}, "threshold: rollout_correction has no such parameter"),
    ]:
        with pytest.raises(ValueError, match=message):
            ta.rollout_correction(zeros, zeros, **change)
