#!/usr/bin/env python3
"""Measures the CUDA kernels of the scan family and compares their results with those of the CPU.

    tools/bench_cuda.py [--seconds S] [--json] [--package FOLDER]

For each case: the bandwidth (bytes read and written by the median time), that of a device-to-device copy of the same number of
bytes in the same run, their ratio, and whether the results equal those of the CPU (within 1e-5 + 2e-5 of the largest). Exits with
1 if one does not. Needs a GPU, PyTorch with CUDA and the Python package with its CUDA kernels. FOLDER is where to import the package
from, such as build/gpu/python.
"""

import argparse
import json
import statistics
import sys
import time


def median_seconds(torch, call, seconds):
    """The median time of a call by the GPU's clock. Inputs are larger than the caches, or stay in them.

    The GPU waits until the host has queued all calls, so that the host's time is not measured. The queue holds about 1,000 commands.
    """
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    called = time.perf_counter()
    call()
    host_seconds = time.perf_counter() - called
    end.record()
    end.synchronize()
    count = max(10, min(100, int(seconds / max(start.elapsed_time(end) / 1e3, 1e-6))))
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda._sleep(int(2e9 * (0.002 + 2 * count * host_seconds)))  # cycles of at most 2 GHz
    for mark in marks[:-1]:
        mark.record()
        call()
    marks[-1].record()
    queued = marks[0].query()
    torch.cuda.synchronize()
    if queued:
        raise RuntimeError("the GPU did not wait for the host: the times would be the host's")
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) / 1e3


def cases(torch):
    """(name, shape, function, positional arguments, options, bytes moved per step)"""
    import troupe.algorithms as ta

    def normal(*shape):
        return torch.randn(*shape, device="cuda")

    factors = {"gamma": 0.99, "lam": 0.95}
    shapes = [(256, 131072), (128, 65536), (256, 16384), (8, 1 << 20), (1, 1 << 24), (65536, 256), (1 << 18, 64)]
    for layout in ("BT", "TB"):
        for rows, steps in shapes:
            shape = (rows, steps) if layout == "BT" else (steps, rows)
            rewards, values = normal(*shape), normal(*shape)
            options = {**factors, "layout": layout}
            yield "gae", shape, ta.gae, (rewards, values), options, 16
            if (rows, steps) not in ((256, 16384), (8, 1 << 20), (65536, 256)):
                continue
            ends = {"terminated": torch.rand(shape, device="cuda") < 0.005}
            mask = {"mask": torch.rand(shape, device="cuda") < 0.8}
            discounts = 0.99 * ~ends["terminated"]
            bootstrap = normal(rows)
            yield "gae with ends", shape, ta.gae, (rewards, values), {**options, **ends}, 17
            yield "gae gamma = lam = 1", shape, ta.gae, (rewards, values), {**options, "gamma": 1, "lam": 1}, 16
            yield "gae masked", shape, ta.gae, (rewards, values), {**options, **mask}, 17
            yield "lambda_returns", shape, ta.lambda_returns, (rewards, values), options, 12
            yield "reward_to_go", shape, ta.reward_to_go, (rewards,), {"gamma": 0.99, "layout": layout}, 8
            arguments = (0.3 * normal(*shape), discounts, rewards, values, bootstrap)
            yield "vtrace", shape, ta.vtrace, arguments, {"layout": layout}, 24
    for dtype in (torch.bfloat16,):
        rewards, values = (normal(256, 131072).to(dtype) for _ in range(2))
        yield "gae bfloat16", (256, 131072), ta.gae, (rewards, values), {**factors, "layout": "BT"}, 12
    lengths = torch.randint(1, 32768, (512,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    rewards, values = normal(int(offsets[-1])), normal(int(offsets[-1]))
    yield "gae packed", tuple(rewards.shape), ta.gae, (rewards, values), {**factors, "offsets": offsets}, 16


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


def error_of(torch, function, arguments, options):
    """The largest difference from the results of the CPU, divided by the tolerance."""
    got = as_tuple(function(*arguments, **options))
    on_host = {k: x.cpu() if torch.is_tensor(x) else x for k, x in options.items()}
    want = as_tuple(function(*(x.cpu() for x in arguments), **on_host))
    worst = 0.0
    for g, w in zip(got, want):
        difference = (g.cpu() - w).abs().max().item()
        worst = max(worst, difference / (1e-5 + 2e-5 * w.abs().max().item()) if difference == difference else float("inf"))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds per case, roughly (0.3)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--package", help="folder to import the package troupe from")
    options = parser.parse_args()
    if options.package:
        sys.path.insert(0, options.package)
    try:
        import torch
    except ImportError:
        sys.exit("bench_cuda: needs PyTorch with CUDA")
    if not torch.cuda.is_available():
        sys.exit("bench_cuda: needs a GPU; PyTorch finds none")
    try:
        import troupe._cuda  # noqa: F401
    except ImportError as error:
        sys.exit(f"bench_cuda: {error}; build the package with --config-settings=cmake.define.TROUPE_CUDA=ON")

    torch.manual_seed(1)
    rows = []
    for name, shape, function, arguments, settings, bytes_per_step in cases(torch):
        steps = arguments[0].numel()
        source = torch.empty(steps * bytes_per_step // 2, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
        copy = median_seconds(torch, lambda: target.copy_(source), options.seconds)
        taken = median_seconds(torch, lambda: function(*arguments, **settings), options.seconds)
        gb = steps * bytes_per_step / 1e9
        rows.append(
            {
                "name": name,
                "shape": list(shape),
                "layout": settings.get("layout", "BT"),
                "microseconds": taken * 1e6,
                "gb_per_s": gb / taken,
                "copy_gb_per_s": gb / copy,
                "ratio_to_copy": copy / taken,
                "error_over_tolerance": error_of(torch, function, arguments, settings),
            }
        )
        if not options.json:
            r = rows[-1]
            print(
                f"{name:20} {r['layout']} {str(shape):16} {r['microseconds']:10.1f} us {r['gb_per_s']:7.0f} GB/s  copy "
                f"{r['copy_gb_per_s']:7.0f} GB/s  ratio {r['ratio_to_copy']:.2f}  "
                f"{'equal' if r['error_over_tolerance'] <= 1 else 'WRONG'}",
                flush=True,
            )
    if options.json:
        print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": rows}))
    return 0 if all(r["error_over_tolerance"] <= 1 for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
