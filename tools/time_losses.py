#!/usr/bin/env python3
"""Times the losses of the Python package, forward and backward, alternating with the same losses written with torch operations.

    PYTHONPATH=build/release/python tools/time_losses.py [--seconds 20] [--json]

512 x 2048 tokens and 64 x 32064 logits, one thread. Ratios are medians of torch's time divided by ours.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

import troupe.algorithms as ta

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import torch_losses  # noqa: E402

ROWS, STEPS = 512, 2048
LOGIT_ROWS, VOCABULARY = 64, 32064


def tokens():
    generator = torch.Generator().manual_seed(0)
    old = torch.randn(ROWS, STEPS, generator=generator) - 3
    logp = old + 0.3 * torch.randn(ROWS, STEPS, generator=generator)
    advantages = torch.randn(ROWS, STEPS, generator=generator)
    mask = torch.rand(ROWS, STEPS, generator=generator) > 0.1
    return logp, old, advantages, mask


def policy_pair(name):
    """(ours, torch's) of one surrogate: loss, gradient and metrics."""
    logp, old, advantages, mask = tokens()
    count = mask.sum()

    def ours():
        source = logp.detach().requires_grad_()
        loss, _ = ta.policy_loss(name, source, old, advantages, mask, aggregation="token-mean")
        loss.backward()

    def theirs():
        source = logp.detach().requires_grad_()
        loss = (torch_losses.per_token(name, source, old, advantages, mask) * mask).sum() / count
        torch_losses.diagnostics(source, old, advantages, mask)
        loss.backward()

    return ours, theirs


def logprob_pair(dtype):
    generator = torch.Generator().manual_seed(0)
    logits = (4 * torch.randn(LOGIT_ROWS, VOCABULARY, generator=generator)).to(dtype)
    labels = torch.randint(0, VOCABULARY, (LOGIT_ROWS,), generator=generator)

    def ours():
        source = logits.detach().requires_grad_()
        logprob, entropy = ta.logprobs_entropy(source, labels)
        (logprob + entropy).sum().backward()

    def theirs():
        source = logits.detach().requires_grad_()
        log_p = torch.log_softmax(source.float(), -1)
        logprob = log_p.gather(-1, labels[:, None])[:, 0]
        entropy = -(log_p.exp() * log_p).sum(-1)
        (logprob + entropy).sum().backward()

    return ours, theirs


def measure(pair, seconds):
    ours, theirs = pair
    ours(), theirs()
    spent = []
    while sum(a + b for a, b in spent) < seconds or len(spent) < 5:
        start = time.perf_counter()
        ours()
        middle = time.perf_counter()
        theirs()
        spent.append((middle - start, time.perf_counter() - middle))
    return {
        "seconds": statistics.median(a for a, _ in spent),
        "torch_seconds": statistics.median(b for _, b in spent),
        "ratio": statistics.median(b / a for a, b in spent),
        "turns": len(spent),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = {name: policy_pair(name) for name in ta.SURROGATES}
    pairs["logprobs_entropy float32"] = logprob_pair(torch.float32)
    pairs["logprobs_entropy bfloat16"] = logprob_pair(torch.bfloat16)
    report = {}
    for name, pair in pairs.items():
        report[name] = measure(pair, options.seconds / len(pairs))
        if not options.json:
            r = report[name]
            print(f"{name:26} {1e3 * r['seconds']:8.2f} ms, torch {1e3 * r['torch_seconds']:8.2f} ms, x{r['ratio']:.1f}")
    if options.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
