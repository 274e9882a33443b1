"""Many processes: how fast two are beside one, measured; how 8, 64 and 512 would wait, computed from measured steps.

    python recipes/studies/scale/scale.py measure --update 40 --rounds 3 DATA --arch transformer_small
    python recipes/studies/scale/scale.py simulate --batches 12 DATA --arch hier_cond_transformer_small

`measure` trains the same updates with one process (`--update-freq 2`) and with two, in turns, each process with one
thread, and prints tokens a second and their ratio. What the machine itself allows is measured in the same rounds: two
trainings that know nothing of each other, each with one process. `simulate` times a few batches of the data, forward
and backward, fits seconds = a + b · subwords, and deals the epoch's own batches to ranks as training does. Options that
are not named here go to docnmt-train.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from docnmt.cli.train import parse
from docnmt.core.training.run import seed_everything
from docnmt.core.training.start import prepare
from docnmt.core.training.trainer import open_epoch
from docnmt.runtime import jobs as ranks

Line = dict[str, float]


def measure(data: str, options: list[str], updates: int, rounds: int) -> None:
    """Tokens a second of one process, of two, and of two trainings beside each other, in turns."""
    ways: dict[str, Callable[[], list[Line]]] = {
        "one process": lambda: [train(data, [*options, "--update-freq", "2"], updates, 1)],
        "two processes": lambda: [train(data, options, updates, 2)],
        "two trainings": lambda: beside(lambda: train(data, [*options, "--update-freq", "2"], updates, 1)),
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    idle: list[float] = []
    for number in range(rounds):
        for name in list(ways)[:: 1 if number % 2 == 0 else -1]:
            lines = ways[name]()
            speeds[name].append(sum(line["tokens_per_second"] for line in lines))
            idle += [line["idle"] for line in lines if "idle" in line]
            print(f"round {number + 1}, {name}: {speeds[name][-1]:,.0f} tokens/s", flush=True)
    for name in list(ways)[1:]:
        ratios = [two / one for one, two in zip(speeds["one process"], speeds[name], strict=True)]
        print(f"{name} against one: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"idle: {100 * statistics.median(idle):.1f} %; cores this process may use: {len(os.sched_getaffinity(0))}")


def beside(work: Callable[[], Line]) -> list[Line]:
    """What it gives twice, at the same time."""
    with ThreadPoolExecutor(2) as pool:
        return [future.result() for future in [pool.submit(work), pool.submit(work)]]


def train(data: str, options: list[str], updates: int, processes: int) -> Line:
    """The last line of the log of one training: what its second half was like."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    limits = ["--disable-validation", "--max-update", str(updates), "--log-interval", str(updates // 2)]
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, *launch, "-m", "docnmt.cli.train", data, *options, *limits, "--save-dir", folder]
        subprocess.run(words, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (Path(folder) / "train.jsonl").read_text().splitlines()]
    last: Line = [line for line in lines if line["event"] == "train"][-1]
    return last


def simulate(data: str, options: list[str], counts: list[int], batches: int, gigabytes: float) -> None:
    """A table of what waiting and adding up gradients would cost."""
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(parse([data, *options, "--save-dir", folder, "--device", "cpu", "--disable-validation"]))
    epoch = open_epoch(run)
    tokens = np.array([epoch.data.sizes[units].sum() for units in epoch.plan])
    chosen = np.argsort(tokens)[np.linspace(0, len(tokens) - 1, batches).astype(int)]
    run.model.train()
    seconds = np.array([timed(run, epoch.data, epoch.plan[n]) for n in [chosen[-1], *chosen]])[1:]  # the first warms up
    per_token, fixed = np.polyfit(tokens[chosen], seconds, 1)
    costs = np.maximum(fixed + per_token * tokens, 0)
    error = np.abs(costs[chosen] - seconds).mean() / seconds.mean()
    gradient = 4 * sum(parameter.numel() for parameter in run.model.parameters())
    print(f"{len(tokens):,} batches of {tokens.min():,} to {tokens.max():,} subwords (median {np.median(tokens):,.0f})")
    print(f"seconds a batch: {fixed:.4f} + {per_token:.3g} a subword (mean error {100 * error:.0f} %)")
    print(f"gradient: {gradient / 1e6:,.1f} MB; {gigabytes:g} GB/s between two ranks\n")
    print("| ranks | batches an update a rank | updates an epoch | idle | MB sent a rank and update | efficiency |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for count in counts:
        for freq in (1, 4):
            groups = [costs[first : first + count * freq] for first in range(0, len(costs), count * freq)]
            sizes = [tokens[first : first + count * freq] for first in range(0, len(costs), count * freq)]
            slowest = sum(
                max(float(group[hand].sum()) for hand in ranks.deal(size.tolist(), count))
                for group, size in zip(groups, sizes, strict=True)
            )
            busy, sent = float(costs.sum()) / count, 2 * gradient * (count - 1) / count
            adding = len(groups) * sent / (gigabytes * 1e9)
            print(
                f"| {count} | {freq} | {len(groups):,} | {100 * (1 - busy / slowest):.1f} % | {sent / 1e6:,.1f} | "
                f"{100 * busy / (slowest + adding):.0f} % |"
            )


def timed(run, data, units) -> float:  # type: ignore[no-untyped-def]
    """Processor seconds of a forward and a backward pass."""
    seed_everything(1, 1)
    started = time.process_time()
    torch.autograd.backward(run.loss(data, units)[0])
    run.model.zero_grad(set_to_none=True)
    return time.process_time() - started


def main() -> None:
    """Parse and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "simulate"])
    parser.add_argument("--update", type=int, default=40, help="updates of each training [40]")
    parser.add_argument("--rounds", type=int, default=3, help="trainings of each kind [3]")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--batches", type=int, default=12, help="batches that are timed [12]")
    parser.add_argument("--gigabytes", type=float, default=10.0, help="GB/s between two ranks [10]")
    parser.add_argument("data", help="a folder of docnmt-preprocess; docnmt-train's options follow it")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.data, given.options, given.update, given.rounds)
    else:
        simulate(given.data, given.options, given.ranks, given.batches, given.gigabytes)


if __name__ == "__main__":
    main()
