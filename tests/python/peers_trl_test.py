"""Losses compared with those of TRL's trainers, and log-probabilities with its helpers. The trainers' loss is called as the trainers
do, on a stand-in with the attributes that it reads. TRL computes in float64 here; the tolerance is the rounding of float32 results,
1e-5 relative and 1e-6 absolute."""

import collections
import types

import numpy as np
import oracles
import pytest

import troupe.algorithms as ta

torch = pytest.importorskip("torch", reason="needs PyTorch")
reason = "TRL is not installed (tools/requirements-peers.txt)"
grpo_trainer = pytest.importorskip("trl.trainer.grpo_trainer", reason=reason)
gmpo_trainer = pytest.importorskip("trl.experimental.gmpo.gmpo_trainer", reason=reason)
utils = pytest.importorskip("trl.trainer.utils", reason=reason)

ROWS, STEPS, LONGEST = 6, 40, 50


def close(got, want, rtol=1e-5, atol=1e-6):
    torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol)


def tokens(rng):
    """logp, old_logp, ref_logp [B, T], advantages [B], mask [B, T] without an empty row."""
    old = torch.tensor(rng.normal(size=(ROWS, STEPS)) - 3, dtype=torch.float32)
    logp, ref = (old + torch.tensor(0.4 * rng.normal(size=(ROWS, STEPS)), dtype=torch.float32) for _ in range(2))
    advantages = torch.tensor(rng.normal(size=ROWS), dtype=torch.float32)
    mask = torch.tensor(rng.random((ROWS, STEPS)) < 0.8)
    mask[:, 0] = True
    return logp, old, ref, advantages, mask


class _Alone:
    """A stand-in for an accelerator with one process."""

    num_processes = 1

    def gather(self, x):
        return x

    def reduce(self, x, reduction):
        return x


def trl_loss(trainer, batch, loss_type="grpo", level="token", low=0.2, high=0.2, beta=0.0, opsm=None, **args):
    """(loss, its gradient with respect to logp) from a trainer of TRL."""
    logp, old, ref, advantages, mask = batch
    source = logp.double().requires_grad_()
    stand_in = types.SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (source, torch.zeros_like(source), None),
        model=types.SimpleNamespace(training=False),
        accelerator=_Alone(),
        args=types.SimpleNamespace(**{"delta": None, "use_bias_correction_kl": False, **args}),
        _metrics={"eval": collections.defaultdict(list)},
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon_low=low,
        epsilon_high=high,
        beta=beta,
        off_policy_mask_threshold=opsm,
        get_off_policy_mask=grpo_trainer.GRPOTrainer.get_off_policy_mask,
        top_entropy_quantile=1.0,
        aux_loss_enabled=False,
        use_vllm=False,
        _entropy_bonus_enabled=False,
        max_completion_length=LONGEST,
    )
    empty = torch.zeros(ROWS, 0, dtype=torch.long)
    inputs = {
        "prompt_ids": empty,
        "prompt_mask": empty,
        "completion_ids": torch.zeros(ROWS, STEPS, dtype=torch.long),
        "completion_mask": mask.double(),
        "advantages": advantages.double(),
        "old_per_token_logps": old.double(),
        "ref_per_token_logps": ref.double(),
        "num_items_in_batch": mask.sum().double(),
    }
    loss = trainer._compute_loss(stand_in, None, inputs)
    loss.backward()
    return loss.detach(), source.grad


# TRL's loss_type and its arguments, then troupe's name and its parameters.
PAIRS = {
    "grpo": ({"loss_type": "grpo"}, "clip", {"aggregation": "seq-mean-token-mean"}),
    "bnpo": ({"loss_type": "bnpo"}, "clip", {}),
    "dapo": ({"loss_type": "dapo", "high": 0.28}, "clip", {"clip_high": 0.28}),
    "dr_grpo": ({"loss_type": "dr_grpo"}, "clip", {"aggregation": "seq-mean-token-sum-norm", "length": LONGEST}),
    "two-sided": ({"loss_type": "bnpo", "delta": 1.5}, "dual_clip", {"dual_clip": 1.5}),
    "cispo": ({"loss_type": "cispo", "high": 1.25}, "cispo", {"clip_high": 0.25}),
    "sapo": (
        {"loss_type": "sapo", "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05},
        "sapo",
        {"aggregation": "seq-mean-token-mean"},
    ),
    "gspo": ({"level": "sequence", "low": 0.03, "high": 0.04}, "gspo", {"clip_low": 0.03, "clip_high": 0.04}),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_losses_and_gradients(rng, pair):
    arguments, name, params = PAIRS[pair]
    batch = tokens(rng)
    logp, old, _, advantages, mask = batch
    want, want_gradient = trl_loss(grpo_trainer.GRPOTrainer, batch, **arguments)
    ours = logp.clone().requires_grad_()
    got, _ = ta.policy_loss(name, ours, old, advantages, mask, **{"aggregation": None, **params})
    got.backward()
    close(got, want)
    close(ours.grad, want_gradient)


def test_gmpo(rng):
    batch = tokens(rng)
    logp, old, _, advantages, mask = batch
    want, want_gradient = trl_loss(gmpo_trainer.GMPOTrainer, batch, low=0.4, high=0.4)
    ours = logp.clone().requires_grad_()
    got, _ = ta.policy_loss("geo_mean", ours, old, advantages, mask, clip_low=0.4, clip_high=0.4)
    got.backward()
    close(got, want)
    close(ours.grad, want_gradient)


def test_kl_penalty(rng):
    batch = tokens(rng)
    logp, old, ref, advantages, mask = batch
    want, want_gradient = trl_loss(grpo_trainer.GRPOTrainer, batch, loss_type="bnpo", beta=0.3)
    ours = logp.clone().requires_grad_()
    loss, _ = ta.policy_loss("clip", ours, old, advantages, mask)
    total = loss + 0.3 * ta.aggregate(ta.kl("k3", ours, ref, mask), mask)
    total.backward()
    close(total, want)
    close(ours.grad, want_gradient)


def test_off_policy_sequence_mask(rng):
    batch = tokens(rng)
    logp, old, _, advantages, mask = batch
    want, want_gradient = trl_loss(grpo_trainer.GRPOTrainer, batch, loss_type="bnpo", opsm=0.02)
    _, kept, _ = ta.rollout_correction(logp, old, mask, method="opsm", opsm_delta=0.02, advantages=advantages)
    assert 0 < kept.sum() < mask.sum()
    ours = logp.clone().requires_grad_()
    loss, _ = ta.policy_loss("clip", ours, old, advantages, kept, num_tokens=float(mask.sum()))
    loss.backward()
    close(loss, want)
    close(ours.grad, want_gradient)


@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_logprobs_and_entropy(rng, temperature):
    logits = torch.tensor(3 * rng.normal(size=(3, 5, 1003)), dtype=torch.float32)
    labels = torch.tensor(rng.integers(0, 1003, (3, 5)))
    theirs, ours = logits.double().requires_grad_(), logits.clone().requires_grad_()
    want = utils.selective_log_softmax_and_entropy(theirs, labels, temperature=temperature)
    got = ta.logprobs_entropy(ours, labels, temperature=temperature)
    outer = torch.tensor(rng.normal(size=(2, 3, 5)))
    torch.autograd.backward(want, list(outer))
    torch.autograd.backward(got, list(outer.float()))
    for mine, its in zip((*got, ours.grad), (*want, theirs.grad)):
        close(mine, its)


def test_bfloat16_log_probabilities_are_rounded_once(rng):
    """TRL sums and rounds in the dtype of the logits; troupe uses float32, which is exact for bfloat16 logits. TRL's rounding error is
    2^-8 of a number that is at most 16 here."""
    logits = torch.tensor(2 * rng.normal(size=(2, 4, 2001)), dtype=torch.float32).bfloat16()
    labels = torch.tensor(rng.integers(0, 2001, (2, 4)))
    exact = torch.log_softmax(logits.double(), -1).gather(-1, labels[..., None])[..., 0]
    got, _ = ta.logprobs_entropy(logits, labels)
    close(got, exact)
    its = utils.selective_log_softmax(logits, labels)
    assert its.dtype == torch.bfloat16 and (its.double() - exact).abs().max() <= 16 * 2**-8
    assert (got.double() - exact).abs().max() < (its.double() - exact).abs().max()


def test_group_statistics(rng):
    """GRPO's advantages with TRL's nanstd. Its epsilon of 1e-4 is a parameter here."""
    rewards = torch.tensor(rng.normal(size=12), dtype=torch.float32)
    mask = torch.tensor(oracles.gappy_mask(rng, 12, 9))
    mask[:, 0] = True
    per_token = torch.zeros(12, 9)
    per_token[:, 0] = rewards
    grouped = rewards.double().view(-1, 4)
    want = ((grouped - grouped.mean(1, keepdim=True)) / (utils.nanstd(grouped, dim=1, keepdim=True) + 1e-4)).flatten()
    got, _ = ta.advantages("grpo", per_token, mask, np.repeat(np.arange(3), 4), epsilon=1e-4)
    close(got, want[:, None] * mask)
