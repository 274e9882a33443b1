"""What a card makes of the kernels: attention beside dense flash attention; a training step as a share of its peak.

    python recipes/studies/gpu/gpu.py attention --words 200 800 3200 8000 12800 25600 51200
    python recipes/studies/gpu/gpu.py step DATA --arch hier_cond_transformer --max-tokens 25000

`attention`: documents of 25-word sentences, eight heads of width 64, t = 4, forward and backward, in bfloat16: medians
of ways that take turns, each recorded as a CUDA graph, so that launches cost little. `step`: updates of the data's own
batches as training makes them, one wait for the losses included; their FLOPs as counted by PyTorch for the first (what
is computed twice counts twice, our kernels do not count), the peak as reached by a product of large matrices, and what
the card does longest. Options of `step` that are not named here go to docnmt-train. `--device cpu` is for trying it
out: float32, processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from docnmt.cli.train import parse
from docnmt.core.training.start import prepare
from docnmt.core.training.trainer import open_epoch
from docnmt.core.training.update import change_weights, gradient
from docnmt.functional import conditional_attention, kernels
from docnmt.functional.conditional import attend, select
from docnmt.functional.dispatch import suits_varlen, varlen_attention
from docnmt.functional.packed import packed_attention
from docnmt.functional.selection import Keys, Queries, SelectionPolicy
from docnmt.layout import BoundedLayout
from docnmt.runtime.device import CudaRecorder

sys.path.append(str(Path(__file__).parents[1] / "attention"))
from attention_ways import TOP_T, WORDS, Document, sdpa

#: The goals that are printed beside what was measured.
FASTER_FROM, SHARE = 4000, 0.25
DENSE, CONDITIONAL = "dense flash", "conditional"
Way = Callable[[], object]


@dataclass(frozen=True)
class Clock:
    """Seconds of a call on a device: by its events on a card, processor time on a CPU."""

    device: torch.device

    def seconds(self, way: Way) -> float:
        if self.device.type != "cuda":
            begun = time.process_time()
            way()
            return time.process_time() - begun
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        first.record()
        way()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3

    def in_turns(self, ways: Mapping[str, Way], repeats: int) -> dict[str, float]:
        """Name → median seconds; the first round warms up."""
        rounds = [{name: self.seconds(way) for name, way in ways.items()} for _ in range(repeats + 1)][1:]
        return {name: statistics.median(turn[name] for turn in rounds) for name in ways}


def both_passes(function: Callable[..., Tensor], inputs: list[Tensor]) -> Way:
    """Forward and backward, the output's gradient aside."""
    gradient: list[Tensor] = []

    def run() -> None:
        out = function(*inputs)
        if not gradient:
            gradient.append(torch.randn_like(out))
        torch.autograd.grad(out, inputs, gradient[0])

    return run


def attention_ways(words: int, device: torch.device) -> dict[str, Way]:
    """Each way to attend to one document of so many words."""
    document = Document.of(words // WORDS)
    on_card = device.type == "cuda"
    layout, kind = document.layout.to(device), torch.bfloat16 if on_card else torch.float32
    if on_card:
        offsets = layout.sentence_offsets, layout.document_offsets
        layout = BoundedLayout(*offsets, layout.num_tokens, WORDS, layout.num_tokens, words // WORDS)
    q, k, v, sentence_q, sentence_k = (
        x.detach().to(device, kind).requires_grad_() for x in (*document[2:6], document.sentence_k)
    )
    asked, read = Queries(q, sentence_q, layout).choosing(), Keys(k, v, sentence_k, layout).choosing()
    selection = select(asked, read, SelectionPolicy(TOP_T))

    def conditional(*x: Tensor) -> Tensor:
        return conditional_attention(*x, query_layout=layout, key_layout=layout, top_t=TOP_T)

    def given(q: Tensor, k: Tensor, v: Tensor, sentence_q: Tensor, sentence_k: Tensor) -> Tensor:
        asked, read = Queries(q, sentence_q.float(), layout), Keys(k, v, sentence_k.float(), layout)
        if kernels.takes_chosen(q, k, v):
            from docnmt.functional.kernels.attention import chosen_attention

            return chosen_attention(q, k, v, asked.sentences, read.sentences, selection, layout.sentences)
        return (varlen_attention if suits_varlen(asked, read, selection) else attend)(asked, read, selection)

    def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION) if on_card else nullcontext():
            return sdpa(q, k, v)

    ways = {
        DENSE: both_passes(dense, [q, k, v]),
        CONDITIONAL: both_passes(conditional, [q, k, v, sentence_q, sentence_k]),
        "sentences given": both_passes(given, [q, k, v, sentence_q, sentence_k]),
        "own sentence": both_passes(lambda *x: packed_attention(*x, layout.sentences, layout.sentences), [q, k, v]),
    }
    recorder = CudaRecorder(device) if on_card else None
    return {name: way if recorder is None else recorded(way, recorder) for name, way in ways.items()}


def recorded(way: Way, recorder: CudaRecorder) -> Way:
    """The same as a CUDA graph; the first calls compile what it needs."""

    def body() -> None:
        way()

    for _ in range(2):
        recorder.run(body)
    return recorder.record(body)


def measure_attention(sizes: list[int], device: torch.device, repeats: int) -> None:
    """A table by size, and from which size on conditional attention is the faster."""
    clock, faster = Clock(device), {}
    print(f"### Attention, forward and backward, ms: {named(device)}\n")
    for words in sizes:
        times = clock.in_turns(attention_ways(words, device), repeats)
        if words == sizes[0]:
            print(f"| words | {' | '.join(times)} | {DENSE} : {CONDITIONAL} |\n|{' ---: |' * (len(times) + 2)}")
        faster[words] = times[DENSE] / times[CONDITIONAL]
        cells = [f"{1e3 * seconds:,.3f}" for seconds in times.values()]
        print(f"| {words:,} | {' | '.join(cells)} | {faster[words]:.2f}× |", flush=True)
    slower = [words for words in sizes if faster[words] <= 1]
    first = next((words for words in sizes if words > max(slower, default=0)), None)
    where = "nowhere" if first is None else f"from {first:,} words on"
    reached = first is not None and first <= FASTER_FROM
    print(f"\nConditional attention is faster than dense flash attention {where}; the goal, from at most "
          f"{FASTER_FROM:,}: {'reached' if reached else 'missed'}")  # fmt: skip


def peak(device: torch.device, clock: Clock, repeats: int) -> float:
    """FLOPs a second that a product of large matrices reaches."""
    size, kind = (8192, torch.bfloat16) if device.type == "cuda" else (512, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    return float(2 * size**3 / clock.in_turns({"product": lambda: a @ b}, 5 * repeats)["product"])


def measure_step(data: str, options: list[str], device: torch.device, repeats: int, updates: int) -> None:
    """Subwords a second of training steps, and the share of the peak."""
    clock, half = Clock(device), ["--bf16"] if device.type == "cuda" else []
    with tempfile.TemporaryDirectory() as folder:
        given = [data, *options, *half, "--save-dir", folder, "--device", str(device), "--disable-validation"]
        run = prepare(parse(given))
    run.model.train()
    epoch = open_epoch(run)
    batches = [epoch.plan[number % len(epoch.plan)] for number in range(updates)]

    def several(batches: list[np.ndarray] = batches) -> None:
        for units, following in zip(batches, [*batches[1:], batches[0]], strict=True):
            summed = gradient(run, epoch.data, [units], "", following)
            change_weights(run, summed.sums["size"], summed.norm)

    run.graphs = None
    with FlopCounterMode(display=False) as counter:  # which does not see what graphs compute
        several(batches[:1])
    del run.graphs
    several()  # each shape once; the first round of the clock then records it
    seconds = clock.in_turns({"updates": several}, repeats)["updates"]
    subwords = sum(int(epoch.data.sizes[units].sum()) for units in batches)
    memory = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    flops = counter.get_total_flops() * subwords / int(epoch.data.sizes[batches[0]].sum())
    most, reached = peak(device, clock, repeats), flops / seconds
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    print(f"### A training step: {named(device)}, `{' '.join(options)}`\n")
    print(f"- {parameters:,} parameters, {updates} updates of {subwords / updates:,.0f} subwords: "
          f"{1e3 * seconds / updates:,.1f} ms each, {subwords / seconds:,.0f} subwords a second")  # fmt: skip
    print(f"- {reached / 1e12:,.2f} of {most / 1e12:,.2f} TFLOP/s: {reached / most:.0%} of the peak; the goal, "
          f"{SHARE:.0%}: {'reached' if reached >= SHARE * most else 'missed'}")  # fmt: skip
    if device.type == "cuda":
        print(f"- peak memory: {memory / 2**30:.1f} GiB")
        print_kernels(several, updates)


def print_kernels(several: Way, updates: int) -> None:
    """How long the card works in an update, beside how long it takes; what takes longest: kernels, copies, fills."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        several()
        torch.cuda.synchronize()
    events = [kernel for kernel in seen.key_averages() if kernel.self_device_time_total]  # others are calls on the host
    events.sort(key=lambda kernel: -kernel.self_device_time_total)
    busy = sum(kernel.self_device_time_total for kernel in events) / updates  # microseconds
    calls = sum(kernel.count for kernel in events) / updates
    print(f"- the card works for {busy / 1e3:,.1f} ms of each, in {calls:,.0f} calls\n")
    print("| ms | calls | kernel, copy or fill |\n| ---: | ---: | --- |")
    for kernel in events[:25]:
        milliseconds = kernel.self_device_time_total / updates / 1e3
        print(f"| {milliseconds:,.2f} | {kernel.count / updates:,.0f} | `{kernel.key[:90]}` |")


def named(device: torch.device) -> str:
    """What was measured on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU, float32 (a try-out)"
    return f"{name}, torch {torch.__version__}"


def main() -> None:
    """Parse and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda or cpu [cuda]")
    parser.add_argument("--repeats", type=int, default=10, help="rounds [10]")
    what = parser.add_subparsers(dest="what", required=True)
    attention = what.add_parser("attention")
    attention.add_argument("--words", type=int, nargs="+", default=[200, 800, 3200, 8000, 12800, 25600, 51200])
    step = what.add_parser("step")
    step.add_argument("--updates", type=int, default=20, help="updates of a round [20]")
    step.add_argument("--no-kernels", action="store_true", help="without the Triton kernels, for comparison")
    step.add_argument("--graphs", action="store_true", help="as CUDA graphs (DOCNMT_GRAPHS=on)")
    step.add_argument("data", help="a folder of docnmt-preprocess; docnmt-train's options follow it")
    step.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    device = torch.device(options.device)
    if options.what == "attention":
        measure_attention(options.words, device, options.repeats)
    else:
        if options.no_kernels:
            kernels._switched_on = lambda: False
        os.environ["DOCNMT_GRAPHS"] = "on" if options.graphs else "off"
        measure_step(options.data, options.options, device, options.repeats, options.updates)


if __name__ == "__main__":
    main()
